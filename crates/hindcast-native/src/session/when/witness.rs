//! Judging a condition where a replica stands.

use hindcast_core::debug::{
    ChangedValue, ConditionChange, Moment, NumberFormat, ValueLimits, WhenQuestion, Which,
};
use hindcast_symbols::{
    expression::{Evaluated, Expression, ExpressionError},
    value::Inspector,
};

use super::{Seen, fits};
use crate::{
    debuggee::{Sight, Sights, Surveyor, Wish},
    look::{FixedFrame, FrameScope, ReadSet, Scene, ThreadScene},
    process::CleanMemory,
    replay::{Position, ReplayError, Replica},
    session::{
        hidden::Hidden,
        scribe::{Author, Scribe},
    },
};

/// What is judged.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    condition: Expression,
    /// What it compares, to be shown.
    parts: Vec<(String, Expression)>,
}

/// How a condition was judged.
pub(super) struct Judgement {
    /// Why it could not be, otherwise.
    pub(super) outcome: Result<Outcome, String>,
    /// What decided that, where names are fixed.
    pub(super) reads: ReadSet,
}

pub(super) struct Outcome {
    pub(super) holds: bool,
    pub(super) values: Vec<String>,
}

impl Judgement {
    pub(super) fn holds(&self) -> Option<bool> {
        self.outcome.as_ref().ok().map(|outcome| outcome.holds)
    }
}

impl Terms {
    pub(super) fn parse(text: &str) -> Result<Self, ExpressionError> {
        let condition = Expression::parse(text)?;
        if condition.writes() {
            return Err(ExpressionError::Syntax {
                column: 1,
                expected: "a condition, not an assignment",
                found: text.into(),
            });
        }
        let parts = condition.compared(text).unwrap_or_else(|| vec![text.trim().to_owned()]);
        let parse = |text: String| Some((text.clone(), Expression::parse(&text).ok()?));
        let is_literal =
            |text: &String| text.trim_start_matches('-').starts_with(|letter: char| letter.is_ascii_digit());
        let parts = parts.into_iter().filter(|text| !is_literal(text)).filter_map(parse).collect();
        Ok(Self { condition, parts })
    }

    pub(super) fn is_true(&self, scope: &FrameScope<'_>) -> Result<bool, ExpressionError> {
        self.condition.is_true(scope)
    }

    pub(super) fn judge(&self, scope: &FrameScope<'_>, reads: &dyn Fn() -> ReadSet) -> Judgement {
        let holds = self.is_true(scope);
        // Only what the condition reads can change it, not what is shown beside.
        let reads = reads();
        let outcome = holds.map(|holds| Outcome { holds, values: self.values(scope) });
        Judgement { outcome: outcome.map_err(|error| error.to_string()), reads }
    }

    fn values(&self, scope: &FrameScope<'_>) -> Vec<String> {
        let limits = ValueLimits::default();
        let inspector = Inspector::new(&scope.types, scope.scene.memory, limits, NumberFormat::Auto);
        let shown = self.parts.iter().map(|(_, part)| match part.evaluate(scope) {
            Ok(Evaluated::Value(value) | Evaluated::Assignment { value, .. }) => inspector.line(&value),
            Err(error) => format!("<{error}>"),
        });
        shown.collect()
    }

    /// With the names of where a replica stands.
    fn judge_here(
        &self,
        scribe: &Scribe<'_>,
        hidden: &Hidden,
        replica: &Replica,
    ) -> Result<Judgement, ReplayError> {
        let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
        let scene = scribe.scene(&memory);
        let registers = replica.registers()?;
        let thread = ThreadScene {
            registers,
            vectors: replica.frozen.thread()?.vector_registers().ok(),
            hidden: hidden.at(registers.pc()),
        };
        Ok(match FrameScope::enter(&scene, &thread, 0) {
            Ok(scope) => self.judge(&scope, &ReadSet::default),
            Err(error) => Judgement { outcome: Err(error.to_string()), reads: ReadSet::default() },
        })
    }

    /// With the names of a frame.
    pub(super) fn judge_in(&self, frame: &FixedFrame, scene: &Scene<'_>) -> Judgement {
        frame.with(scene, |scope, reads| self.judge(scope, reads))
    }
}

/// Judges a condition where the program next comes to a place.
pub(super) struct Probe<'a> {
    pub(super) scribe: Scribe<'a>,
    pub(super) terms: &'a Terms,
    pub(super) addresses: &'a [u64],
    pub(super) hidden: &'a Hidden,
    pub(super) holds: Option<bool>,
}

impl Surveyor for Probe<'_> {
    fn see(&mut self, replica: &mut Replica, _: Sight) -> Result<Wish, ReplayError> {
        self.holds = self.terms.judge_here(&self.scribe, self.hidden, replica)?.holds();
        Ok(if self.holds.is_some() { Wish::Stop } else { Wish::Pass })
    }

    fn named(&mut self, _: &Replica, _: Position) -> Result<(), ReplayError> {
        Ok(())
    }

    fn sights(&self) -> Sights {
        Sights::Code(self.addresses.to_vec())
    }
}

/// Judges a condition on the way.
pub(super) struct Witness<'a> {
    pub(super) scribe: Scribe<'a>,
    pub(super) question: &'a WhenQuestion,
    pub(super) terms: &'a Terms,
    pub(super) sights: Sights,
    /// Whose names it uses; those of where the program stands, where absent.
    pub(super) fixed: Option<&'a FixedFrame>,
    pub(super) hidden: Hidden,
    /// Whether what it reads is watched, wherever that comes to be.
    pub(super) follows: bool,
    pub(super) seen: &'a mut Seen,
    /// A change whose moment is to be told.
    pub(super) change: Option<ConditionChange>,
}

impl Witness<'_> {
    fn judge(&self, replica: &Replica) -> Result<Judgement, ReplayError> {
        let Some(frame) = self.fixed else {
            return self.terms.judge_here(&self.scribe, &self.hidden, replica);
        };
        let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
        Ok(self.terms.judge_in(frame, &self.scribe.scene(&memory)))
    }

    /// Watches what the condition reads now. False where that is too much.
    fn follow(&mut self, reads: &ReadSet) -> bool {
        let Sights::Memory(watched) = &self.sights else { return true };
        if !self.follows || reads.is_within(watched) {
            return true;
        }
        // What it has read before it may read again.
        let mut both = reads.clone();
        watched.iter().for_each(|range| both.add(range.start, range.end - range.start));
        let wanted = if fits(&both) { &both } else { reads };
        self.sights = Sights::Memory(wanted.words());
        fits(wanted)
    }

    fn describe(
        &self,
        replica: &Replica,
        sight: Sight,
        (holds, values): (bool, &[String]),
    ) -> Result<ConditionChange, ReplayError> {
        let written = match &self.sights {
            Sights::Memory(ranges) => ranges.as_slice(),
            Sights::Code(_) => &[],
        };
        let Author { location, through, .. } = self.scribe.author(replica, sight, written)?;
        let parts = self.terms.parts.iter().zip(values).enumerate();
        let values = parts.map(|(index, ((text, _), new))| ChangedValue {
            expression: text.clone(),
            old: self.seen.values.get(index).cloned(),
            new: new.clone(),
        });
        // What is its own value says nothing: enumerators, constants.
        let values = values.filter(|value| value.expression != value.new);
        Ok(ConditionChange {
            moment: Moment(String::new()),
            holds,
            thread: crate::session::movement::thread_id(replica.frozen.cast().acting()),
            location,
            text: None,
            through,
            values: values.collect(),
        })
    }
}

impl Witness<'_> {
    /// Takes down how the condition was judged.
    pub(super) fn testify(
        &mut self,
        replica: &Replica,
        sight: Sight,
        judgement: Judgement,
    ) -> Result<Wish, ReplayError> {
        let change = match &judgement.outcome {
            Ok(outcome) if self.seen.last.is_some_and(|last| last != outcome.holds) => {
                self.question.becomes.wants(outcome.holds).then_some(outcome)
            }
            _ => None,
        };
        let is_full = self.seen.changes.len() >= self.question.limit as usize;
        if change.is_some() && is_full && self.question.which == Which::Every {
            (self.seen.more, self.seen.is_over) = (true, true);
            return Ok(Wish::Stop);
        }
        self.change = match change {
            Some(outcome) => Some(self.describe(replica, sight, (outcome.holds, &outcome.values))?),
            None => None,
        };
        let watched = self.sights.clone();
        self.seen.is_too_much = !self.follow(&judgement.reads);
        self.seen.note(judgement);
        self.seen.is_over = self.change.is_some() && self.question.which == Which::First;
        Ok(match (&self.change, self.seen.is_over || self.seen.is_too_much) {
            (Some(_), true) => Wish::NameAndStop,
            (Some(_), false) => Wish::Name,
            (None, true) => Wish::Stop,
            (None, false) if watched != self.sights => Wish::LookElsewhere,
            (None, false) => Wish::Pass,
        })
    }

    /// The moment of the change that was taken down last.
    pub(super) fn name(&mut self, position: &Position) {
        let Some(mut change) = self.change.take() else { return };
        change.moment = Moment(position.to_string());
        if self.question.which == Which::Last {
            self.seen.more |= !self.seen.changes.is_empty();
            self.seen.changes.clear();
        }
        self.seen.changes.push(change);
    }
}

impl Surveyor for Witness<'_> {
    fn see(&mut self, replica: &mut Replica, sight: Sight) -> Result<Wish, ReplayError> {
        let judgement = self.judge(replica)?;
        self.testify(replica, sight, judgement)
    }

    fn named(&mut self, _: &Replica, position: Position) -> Result<(), ReplayError> {
        self.name(&position);
        Ok(())
    }

    fn sights(&self) -> Sights {
        self.sights.clone()
    }
}
