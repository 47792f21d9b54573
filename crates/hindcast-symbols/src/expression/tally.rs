//! What elements come to together: their sum, the largest of them, whether all are true.

use std::ops::ControlFlow;

use super::{error::ExpressionError as Failure, scalar::Scalar, syntax::Together};

/// What elements come to together, as far as they were looked at.
pub(super) struct Tally {
    together: Together,
    sum: Sum,
    extreme: Option<Scalar>,
    count: u64,
    holds: u64,
}

impl Tally {
    pub(super) fn new(together: Together) -> Self {
        Self { together, sum: Sum::default(), extreme: None, count: 0, holds: 0 }
    }

    /// An element that the condition does not hold for. One such is enough to know that it does not hold for all.
    pub(super) fn pass(&mut self) -> ControlFlow<()> {
        self.count += 1;
        stop_if(self.together == Together::All)
    }

    /// An element that is true or not.
    pub(super) fn judge(&mut self, is_true: bool) -> ControlFlow<()> {
        self.count += 1;
        self.holds += u64::from(is_true);
        stop_if(is_true == (self.together == Together::Any))
    }

    /// One more, whatever it is.
    pub(super) fn count(&mut self) -> ControlFlow<()> {
        self.count += 1;
        self.holds += 1;
        ControlFlow::Continue(())
    }

    /// A number.
    pub(super) fn take(&mut self, number: Scalar, column: usize) -> Result<ControlFlow<()>, Failure> {
        match self.together {
            Together::Any | Together::All => return Ok(self.judge(number.is_true())),
            Together::Count => {}
            Together::Sum => self.sum.add(number).ok_or_else(|| Failure::Overflow {
                column,
                operation: "sum".into(),
                type_name: "i128".into(),
            })?,
            Together::Least | Together::Greatest => {
                if number.compare(number).is_none() {
                    let why = "one of them is not a number".to_owned();
                    return Err(Failure::BrokenElements { column, why });
                }
                let is_further = self.extreme.is_none_or(|known| match number.compare(known) {
                    Some(order) if self.together == Together::Least => order.is_lt(),
                    Some(order) => order.is_gt(),
                    None => false,
                });
                if is_further {
                    self.extreme = Some(number);
                }
            }
        }
        Ok(self.count())
    }

    pub(super) fn total(&self, column: usize) -> Result<Scalar, Failure> {
        match self.together {
            Together::Count => Ok(Scalar::Literal(i128::from(self.holds))),
            Together::Any => Ok(Scalar::Truth(self.holds > 0)),
            Together::All => Ok(Scalar::Truth(self.holds == self.count)),
            Together::Sum => Ok(self.sum.total()),
            Together::Least | Together::Greatest => self.extreme.ok_or(Failure::NoElements { column }),
        }
    }
}

/// A sum that is larger than its parts may be.
#[derive(Default)]
struct Sum {
    whole: i128,
    fraction: f64,
    is_fraction: bool,
}

impl Sum {
    /// Nothing when the sum has no place in 128 bits.
    fn add(&mut self, value: Scalar) -> Option<()> {
        if value.is_float() {
            self.is_fraction = true;
            self.fraction += value.as_float();
            return Some(());
        }
        let is_beyond =
            matches!(value, Scalar::Whole(bits, whole) if !whole.signed && bits > i128::MAX as u128);
        self.whole = self.whole.checked_add(value.as_whole()).filter(|_| !is_beyond)?;
        Some(())
    }

    fn total(&self) -> Scalar {
        match self.is_fraction {
            true => Scalar::FloatLiteral(self.fraction + self.whole as f64),
            false => Scalar::Literal(self.whole),
        }
    }
}

fn stop_if(is_decided: bool) -> ControlFlow<()> {
    if is_decided { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}
