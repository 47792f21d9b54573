//! The decimal numbers of .NET: 96 bits and a power of ten.

use std::cmp::Ordering;

use super::wide::Wide;

const LARGEST: u128 = (1 << 96) - 1;
const MOST_PLACES: u32 = 28;

/// `mantissa / 10^scale`. Numbers that are equal may have another scale: `1.0` and `1.00`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decimal {
    negative: bool,
    /// Of 96 bits.
    mantissa: u128,
    /// At most 28.
    scale: u32,
}

impl Decimal {
    pub(crate) const ZERO: Self = Self { negative: false, mantissa: 0, scale: 0 };

    /// From the three fields of a `System.Decimal` in memory; `None` if the flags are none of a decimal.
    pub(crate) fn from_parts(flags: u32, high: u32, low: u64) -> Option<Self> {
        let scale = flags >> 16 & 0xff;
        let is_known = flags & 0x7f00_ffff == 0 && scale <= MOST_PLACES;
        let mantissa = u128::from(high) << 64 | u128::from(low);
        is_known.then_some(Self { negative: flags >> 31 == 1, mantissa, scale })
    }

    /// The flags, the high 32 bits and the low 64 bits, as `System.Decimal` keeps them.
    pub(crate) fn to_parts(self) -> (u32, u32, u64) {
        let flags = u32::from(self.negative) << 31 | self.scale << 16;
        (flags, (self.mantissa >> 64) as u32, self.mantissa as u64)
    }

    /// Digits with at most one point and an exponent, as a literal has them without its suffix. `None` if the
    /// number is too large.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i32 = exponent.parse().ok()?;
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let mut mantissa = 0_u128;
        let mut is_cut = false;
        let mut scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        for digit in whole.chars().chain(fraction.chars()) {
            let digit = digit.to_digit(10)?;
            if mantissa < 1 << 120 {
                mantissa = mantissa * 10 + u128::from(digit);
            } else {
                // More digits than any decimal has only decide which way a half is rounded.
                is_cut |= digit != 0;
                scale = scale.checked_sub(1)?;
            }
        }
        Self::rounded(false, Wide::from(mantissa), scale, is_cut)
    }

    /// The nearest decimal to `mantissa / 10^scale`, the even one of two; the number is a little more if
    /// `has_rest`. `None` if it is too large.
    fn rounded(negative: bool, mut mantissa: Wide, mut scale: i32, has_rest: bool) -> Option<Self> {
        let largest = Wide::from(LARGEST);
        while scale < 0 {
            if mantissa > largest {
                return None;
            }
            if mantissa.is_zero() {
                scale = 0;
                break;
            }
            mantissa = mantissa.times_small(10);
            scale += 1;
        }
        let (mut last, mut has_rest) = (0, has_rest);
        while mantissa > largest || scale > MOST_PLACES as i32 {
            has_rest |= last != 0;
            if mantissa.is_zero() && !has_rest {
                scale = MOST_PLACES as i32;
                break;
            }
            if mantissa.is_zero() && scale > MOST_PLACES as i32 + 1 {
                // Too small to be rounded up.
                return Some(Self { negative, mantissa: 0, scale: MOST_PLACES });
            }
            (mantissa, last) = mantissa.divided_by_small(10);
            scale -= 1;
            if scale < 0 {
                return None;
            }
        }
        let mantissa = mantissa.narrow()?;
        let goes_up = last > 5 || last == 5 && (has_rest || mantissa % 2 == 1);
        if goes_up && mantissa == LARGEST {
            return Self::rounded(negative, Wide::from(mantissa + 1), scale, false);
        }
        Some(Self { negative, mantissa: mantissa + u128::from(goes_up), scale: u32::try_from(scale).ok()? })
    }

    fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    pub(crate) fn negated(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    /// The mantissa if there were `scale` places.
    fn at_scale(self, scale: u32) -> Wide {
        Wide::from(self.mantissa).times_power_of_ten(scale.saturating_sub(self.scale))
    }

    /// `None` if the sum is too large.
    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let (one, two) = (self.at_scale(scale), other.at_scale(scale));
        let (negative, mantissa) = if self.negative == other.negative {
            (self.negative, one.plus(two))
        } else if one >= two {
            (self.negative, one.minus(two))
        } else {
            (other.negative, two.minus(one))
        };
        Self::rounded(negative, mantissa, scale as i32, false)
    }

    /// `None` if the difference is too large.
    pub(crate) fn minus(self, other: Self) -> Option<Self> {
        self.plus(other.negated())
    }

    /// `None` if the product is too large.
    pub(crate) fn times(self, other: Self) -> Option<Self> {
        let product = Wide::from(self.mantissa).times(Wide::from(other.mantissa));
        let scale = self.scale + other.scale;
        // The runtime keeps the places of a zero only where both numbers have no more than 32 bits.
        let is_small = self.mantissa.max(other.mantissa) <= u32::MAX.into();
        if product.is_zero() && !is_small || is_small && scale > MOST_PLACES + 19 {
            return Some(Self::ZERO);
        }
        Self::rounded(self.negative != other.negative, product, scale as i32, false)
    }

    /// With as many places as are needed or fit. `None` if the quotient is too large; the divisor must not be
    /// zero.
    pub(crate) fn divided_by(self, other: Self) -> Option<Self> {
        let negative = self.negative != other.negative;
        let divisor = Wide::from(other.mantissa);
        let fewest = (self.scale as i32 - other.scale as i32).max(0);
        let dividend = |places: i32| {
            let power = places - self.scale as i32 + other.scale as i32;
            Wide::from(self.mantissa).times_power_of_ten(power as u32)
        };
        let (quotient, remainder) = dividend(fewest).divided_by(divisor);
        if remainder.is_zero() {
            return Self::rounded(negative, quotient, fewest, false);
        }
        let (quotient, remainder) = dividend(MOST_PLACES as i32).divided_by(divisor);
        // One more digit is what rounding looks at.
        let (digit, rest) = remainder.times_small(10).divided_by(divisor);
        let quotient = quotient.times_small(10).plus(digit);
        let exact = Self::rounded(negative, quotient, MOST_PLACES as i32 + 1, !rest.is_zero())?;
        Some(exact.without_trailing_zeros(MOST_PLACES))
    }

    fn without_trailing_zeros(mut self, most: u32) -> Self {
        for _ in 0..self.scale.min(most) {
            if !self.mantissa.is_multiple_of(10) {
                break;
            }
            self.mantissa /= 10;
            self.scale -= 1;
        }
        self
    }

    /// What is left of dividing by a divisor that is not zero, with the sign of `self`.
    pub(crate) fn remainder(self, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let (dividend, divisor) = (self.at_scale(scale), other.at_scale(scale));
        if dividend < divisor {
            return Some(self);
        }
        let (_, remainder) = dividend.divided_by(divisor);
        Self::rounded(self.negative, remainder, scale as i32, false)
    }

    pub(crate) fn is_divisor(self) -> bool {
        !self.is_zero()
    }

    /// Without its fraction.
    pub(crate) fn truncated(self) -> i128 {
        let whole = (self.mantissa / 10_u128.pow(self.scale)) as i128;
        if self.negative { -whole } else { whole }
    }

    pub(crate) fn to_f64(self) -> f64 {
        // As the runtime computes it, which is not always the nearest.
        let high = (self.mantissa >> 64) as u32;
        let value = (self.mantissa as u64) as f64 + f64::from(high) * 18_446_744_073_709_551_616.0;
        let value = value / power_of_ten(self.scale);
        if self.negative { -value } else { value }
    }

    /// Rounded to 15 digits, as the runtime does. `None` if the number is too large or none.
    pub(crate) fn from_f64(value: f64) -> Option<Self> {
        let exponent = (value.to_bits() >> 52 & 0x7ff) as i32 - 1022;
        Self::from_real(value, exponent, 15)
    }

    /// Rounded to 7 digits, as the runtime does. `None` if the number is too large or none.
    pub(crate) fn from_f32(value: f32) -> Option<Self> {
        let exponent = (value.to_bits() >> 23 & 0xff) as i32 - 126;
        Self::from_real(f64::from(value), exponent, 7)
    }

    fn from_real(value: f64, exponent: i32, digits: i32) -> Option<Self> {
        if exponent < -94 {
            return Some(Self::ZERO);
        }
        if exponent > 96 {
            return None;
        }
        let mut scaled = value.abs();
        let mut power = digits - 1 - ((exponent * 19728) >> 16);
        if power >= 0 {
            power = power.min(MOST_PLACES as i32);
            scaled *= power_of_ten(power as u32);
        } else if power != -1 || scaled >= power_of_ten(digits as u32) {
            scaled /= power_of_ten(power.unsigned_abs());
        } else {
            power = 0;
        }
        if scaled < power_of_ten(digits as u32 - 1) && power < MOST_PLACES as i32 {
            scaled *= 10.0;
            power += 1;
        }
        let mantissa = scaled.round_ties_even() as u128;
        if mantissa == 0 {
            return Some(Self::ZERO);
        }
        let exact = Self::rounded(value < 0.0, Wide::from(mantissa), power, false)?;
        // One digit less than there are, as in the runtime: `(decimal)1e-5f` is 0.000010.
        Some(if power > 0 { exact.without_trailing_zeros(digits as u32 - 1) } else { exact })
    }
}

/// Exact up to 10^22, then the nearest, as in the runtime's table.
fn power_of_ten(power: u32) -> f64 {
    format!("1e{power}").parse().unwrap_or(f64::INFINITY)
}

impl From<i128> for Decimal {
    /// The number must be one of 96 bits; every whole number of C# is.
    fn from(value: i128) -> Self {
        Self { negative: value < 0, mantissa: value.unsigned_abs() & LARGEST, scale: 0 }
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.is_zero() && other.is_zero() {
            return Ordering::Equal;
        }
        match (self.negative && !self.is_zero(), other.negative && !other.is_zero()) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (negative, _) => {
                let scale = self.scale.max(other.scale);
                let order = self.at_scale(scale).cmp(&other.at_scale(scale));
                if negative { order.reverse() } else { order }
            }
        }
    }
}

impl std::fmt::Display for Decimal {
    /// All its places, as .NET writes it.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.negative && !self.is_zero() { "-" } else { "" };
        let places = self.scale as usize;
        let digits = format!("{:0>width$}", self.mantissa, width = places + 1);
        let (whole, fraction) = digits.split_at(digits.len() - places);
        let point = if fraction.is_empty() { "" } else { "." };
        write!(out, "{sign}{whole}{point}{fraction}")
    }
}
