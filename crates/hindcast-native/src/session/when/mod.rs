//! When a condition began or ceased to hold.
//!
//! At a place it is judged whenever the program comes there. Otherwise it can only change where something writes to what it
//! reads: that is watched, as far as it fits into the debug registers. What does not fit is judged at checkpoints.

mod checkpoints;
mod witness;

use hindcast_core::debug::{
    ConditionChange, ConditionHistory, DebugError, FrameRef, Moment, Place, Reason, WhenQuestion,
};
use hindcast_symbols::{
    expression::{Check, ExpressionError},
    names::cut,
};

use self::{
    checkpoints::Sparse,
    witness::{Judgement, Probe, Terms, Witness},
};
use super::{
    Session,
    chronicle::{Life, check_order},
    hidden::Hidden,
    travel::{Halted, function_around},
};
use crate::{
    debuggee::{Sights, Surveyed},
    look::{FixedFrame, ReadSet, Scene},
    process::CleanMemory,
    replay::Position,
    sys::{DebugRegisters, WatchKind},
};

/// A question that is being answered.
pub(super) struct Inquiry {
    question: WhenQuestion,
    terms: Terms,
    since: Position,
    until: Position,
    way: Way,
    /// What was before is known.
    at: Position,
    seen: Seen,
    unsure: Option<String>,
}

/// Where it is judged.
#[derive(Clone)]
enum Way {
    /// Here, with the names of each place; and the condition as code judges it there, if it can.
    Places(Vec<u64>, Hidden, Vec<(u64, Check)>),
    /// Wherever something writes to what it reads.
    Writes(FixedFrame),
    /// At checkpoints: it reads too much to be watched.
    Checkpoints(FixedFrame, Sparse),
}

/// What was found out so far.
#[derive(Debug, Clone, Default)]
struct Seen {
    judged: u64,
    /// How often in a row it came out the same.
    alike: u64,
    unknown: u64,
    problem: Option<String>,
    first: Option<bool>,
    last: Option<bool>,
    /// What the condition compares, when it was last judged.
    values: Vec<String>,
    changes: Vec<ConditionChange>,
    more: bool,
    is_over: bool,
    /// Whether it has come to read more than can be watched.
    is_too_much: bool,
}

impl Seen {
    fn note(&mut self, judgement: Judgement) {
        match judgement.outcome {
            Ok(outcome) => {
                self.judged += 1;
                self.alike = if self.last == Some(outcome.holds) { self.alike + 1 } else { 0 };
                self.first.get_or_insert(outcome.holds);
                self.last = Some(outcome.holds);
                self.values = outcome.values;
            }
            Err(problem) => {
                self.unknown += 1;
                self.alike = 0;
                self.problem.get_or_insert(problem);
            }
        }
    }
}

impl Session {
    /// When a condition began or ceased to hold. A question that was interrupted goes on where it was.
    pub(super) fn inquire(&mut self, question: &WhenQuestion) -> Result<ConditionHistory, Halted> {
        let mut inquiry = match self.inquiry.take().filter(|known| known.question == *question) {
            Some(inquiry) => inquiry,
            None => {
                if self.process.ended().is_none() {
                    let here = FrameRef::of(super::movement::thread_id(self.current), 0);
                    self.refuse_in_python(here, "conditions over time are not asked")?;
                }
                self.begin_inquiry(question)?
            }
        };
        let result = match inquiry.way.clone() {
            Way::Places(addresses, ..) => {
                let sights = Sights::Code(addresses);
                self.search_all(&mut inquiry, |_, _| Ok((sights.clone(), None)))
            }
            Way::Writes(frame) => self.search_writes(&mut inquiry, &frame),
            Way::Checkpoints(frame, sparse) => self.search_checkpoints(&mut inquiry, &frame, sparse),
        };
        match result {
            Ok(()) => inquiry.told().map_err(Halted::Failed),
            Err(halted) => {
                self.inquiry = matches!(halted, Halted::Interrupted).then_some(inquiry);
                Err(halted)
            }
        }
    }

    fn begin_inquiry(&mut self, question: &WhenQuestion) -> Result<Inquiry, Halted> {
        let terms = Terms::parse(&question.condition).map_err(failed)?;
        let (since, until) = self.part_of_past(&question.span)?;
        let inquiry = Inquiry {
            question: question.clone(),
            terms,
            at: since.clone(),
            since,
            until,
            way: Way::Places(Vec::new(), Hidden::default(), Vec::new()),
            seen: Seen::default(),
            unsure: None,
        };
        match &question.place {
            Some(place) => self.begin_at(place, inquiry),
            None => self.begin_anywhere(inquiry),
        }
    }

    fn begin_at(&mut self, place: &Place, mut inquiry: Inquiry) -> Result<Inquiry, Halted> {
        let resolved = self.resolve(place);
        let addresses: Vec<_> = resolved.addresses().collect();
        if addresses.is_empty() {
            let nothing = || Reason::new(format!("there is no code at `{}`", cut(&place.to_string())));
            return Err(DebugError::Expression(resolved.note.unwrap_or_else(nothing)).into());
        }
        let hidden = Hidden::of(&self.symbols, place, addresses.iter().copied());
        let checks = inquiry.terms.checks(&self.symbols, &addresses, &hidden);
        inquiry.way = Way::Places(addresses, hidden, checks);
        if inquiry.question.monotone {
            inquiry.at = self.skip_what_is_alike(&inquiry)?;
        }
        Ok(inquiry)
    }

    fn begin_anywhere(&mut self, mut inquiry: Inquiry) -> Result<Inquiry, Halted> {
        let FrameOf { tid, frame } = self.frame_of_question(&inquiry.question)?;
        let (judged, judgement, used_locals) = self.with_scene(|scene| {
            frame.with(scene, |scope, reads| {
                (inquiry.terms.is_true(scope), inquiry.terms.judge(scope, reads), scope.used_locals())
            })
        });
        // Data may be missing now that was there, or will be; names may not.
        if let Err(error) = judged
            && !error.is_by_data()
        {
            return Err(failed(error));
        }
        let life = match frame.base().filter(|_| used_locals) {
            Some(address) => self.life_of_frame(tid, address)?,
            None => None,
        };
        match life {
            Some(Life { born: Some(born), .. }) if born > inquiry.since => {
                (inquiry.since, inquiry.at) = (born.clone(), born);
            }
            Some(Life { born: None, function }) => {
                let what = format!("where this call of `{function}` began is not known: ");
                inquiry.unsure = Some(what + "before it, others used the same memory for something else");
            }
            _ => {}
        }
        check_order(&inquiry.since, &inquiry.until)?;
        inquiry.way = match fits(&judgement.reads) {
            true => Way::Writes(frame),
            false => {
                let points = self.checkpoints_between(&inquiry.since, &inquiry.until);
                Way::Checkpoints(frame, Sparse::new(points))
            }
        };
        if matches!(inquiry.way, Way::Checkpoints(..)) && !inquiry.question.monotone {
            inquiry.unsure.get_or_insert(
                "the condition reads more than the processor can watch, so it was judged at checkpoints: what changed and \
                 changed back between two of them was not seen; with `at` it is judged each time at a function or line"
                    .into(),
            );
        }
        Ok(inquiry)
    }

    fn frame_of_question(&self, question: &WhenQuestion) -> Result<FrameOf, DebugError> {
        let tid = self.known_thread(question.frame.thread)?;
        let thread = self.thread_scene(tid)?;
        let frame = self.with_scene(|scene| FixedFrame::of(scene, &thread, question.frame.index))?;
        Ok(FrameOf { tid, frame })
    }

    /// The moments between two others that can be looked at at once, and both.
    pub(super) fn checkpoints_between(&self, since: &Position, until: &Position) -> Vec<Position> {
        let anchors = self.process.recorder().into_iter().flat_map(|recorder| recorder.timeline.iter());
        let between = anchors
            .map(|(label, _)| Position { anchor: label.clone(), steps: 0 })
            .filter(|position| since < position && position < until);
        std::iter::once(since.clone()).chain(between).chain([until.clone()]).collect()
    }

    /// Judges it wherever something writes to what it reads.
    fn search_writes(&mut self, inquiry: &mut Inquiry, frame: &FixedFrame) -> Result<(), Halted> {
        if inquiry.seen.judged + inquiry.seen.unknown == 0 {
            let judgement = self.judge_at(&inquiry.since.clone(), frame, &inquiry.terms)?;
            inquiry.seen.note(judgement);
        }
        self.search_all(inquiry, |session, inquiry| {
            let reads = session.judge_at(&inquiry.at.clone(), frame, &inquiry.terms)?.reads;
            Ok((Sights::Memory(reads.words()), Some(frame)))
        })
    }

    /// Judges it wherever it can have changed; `sights` says where that is, from a moment on.
    fn search_all<'f>(
        &mut self,
        inquiry: &mut Inquiry,
        sights: impl Fn(&mut Self, &Inquiry) -> Result<(Sights, Option<&'f FixedFrame>), Halted>,
    ) -> Result<(), Halted> {
        while !inquiry.seen.is_over {
            let (sights, frame) = sights(self, inquiry)?;
            let span = (inquiry.at.clone(), inquiry.until.clone());
            let (seen, surveyed) = self.search_between(span, sights, frame, inquiry)?;
            inquiry.seen = seen;
            if inquiry.seen.is_too_much {
                return Err(Halted::Failed(reads_too_much()));
            }
            match surveyed {
                Surveyed::All => return Ok(()),
                Surveyed::UpTo(position) => inquiry.at = position,
                Surveyed::Interrupted(position) => {
                    inquiry.at = position;
                    if self.process.is_interrupted() {
                        return Err(Halted::Interrupted);
                    }
                }
            }
        }
        Ok(())
    }

    fn search_between(
        &mut self,
        (from, to): (Position, Position),
        sights: Sights,
        fixed: Option<&FixedFrame>,
        inquiry: &Inquiry,
    ) -> Result<(Seen, Surveyed), Halted> {
        let mut seen = inquiry.seen.clone();
        let symbols = &self.symbols;
        let mut witness = Witness {
            scribe: super::scribe::Scribe::new(symbols, &self.image, self.main),
            question: &inquiry.question,
            terms: &inquiry.terms,
            sights,
            fixed,
            hidden: match &inquiry.way {
                Way::Places(_, hidden, _) => hidden.clone(),
                _ => Hidden::default(),
            },
            checks: match &inquiry.way {
                Way::Places(_, _, checks) => checks,
                _ => &[],
            },
            follows: matches!(inquiry.way, Way::Writes(_)),
            seen: &mut seen,
            change: None,
        };
        let functions = |address| function_around(symbols, address);
        let surveyed = self.process.survey((&from, &to), &functions, &mut witness)?;
        Ok((seen, surveyed))
    }

    /// Judges it at a moment, with the names of a frame of another one.
    fn judge_at(
        &mut self,
        position: &Position,
        frame: &FixedFrame,
        terms: &Terms,
    ) -> Result<Judgement, Halted> {
        let (symbols, image, main) = (&self.symbols, &self.image, self.main);
        let functions = |address| function_around(symbols, address);
        Ok(self.process.glance(position, &functions, |replica| {
            let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
            let scene = Scene { symbols, image, memory: &memory, main };
            terms.judge_in(frame, &scene)
        })?)
    }

    /// The last checkpoint before which a condition that changes only once has not changed.
    fn skip_what_is_alike(&mut self, inquiry: &Inquiry) -> Result<Position, Halted> {
        let points = self.checkpoints_between(&inquiry.since, &inquiry.until);
        let Some(first) = self.first_judged(inquiry, &points[0])? else { return Ok(inquiry.since.clone()) };
        let (mut low, mut high) = (0, points.len());
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            let is_alike = self.first_judged(inquiry, &points[middle])? == Some(first);
            if is_alike { low = middle } else { high = middle }
        }
        Ok(points[low].clone())
    }

    /// How it is judged at a place when the program next comes there.
    fn first_judged(&mut self, inquiry: &Inquiry, from: &Position) -> Result<Option<bool>, Halted> {
        let Way::Places(addresses, hidden, _) = &inquiry.way else { return Ok(None) };
        let mut at = from.clone();
        loop {
            let symbols = &self.symbols;
            let scribe = super::scribe::Scribe::new(symbols, &self.image, self.main);
            let mut probe = Probe { scribe, terms: &inquiry.terms, addresses, hidden, holds: None };
            let functions = |address| function_around(symbols, address);
            let surveyed = self.process.survey((&at, &inquiry.until), &functions, &mut probe)?;
            match (probe.holds, surveyed) {
                (None, Surveyed::UpTo(position) | Surveyed::Interrupted(position)) => at = position,
                (holds, _) => return Ok(holds),
            }
        }
    }
}

/// A frame of a thread.
struct FrameOf {
    tid: crate::sys::Tid,
    frame: FixedFrame,
}

fn failed(error: ExpressionError) -> Halted {
    Halted::Failed(DebugError::Expression(error.into()))
}

/// Whether what a condition reads fits into the debug registers.
fn fits(reads: &ReadSet) -> bool {
    let mut registers = DebugRegisters::default();
    let words = reads.words();
    !words.is_empty()
        && words
            .iter()
            .all(|range| registers.watch(range.start, range.end - range.start, WatchKind::Write).is_some())
}

fn reads_too_much() -> DebugError {
    let what = "from some moment on the condition reads more than the processor can watch";
    DebugError::Expression(
        Reason::new(what).advise("give `at`, a function or line at which it is judged each time"),
    )
}

impl Inquiry {
    fn told(self) -> Result<ConditionHistory, DebugError> {
        let Seen { judged, unknown, problem, first, last, changes, more, .. } = self.seen;
        if judged == 0 && unknown > 0 {
            let problem = problem.unwrap_or_default();
            let what = format!("`{}` could not be judged anywhere: {problem}", self.question.condition);
            return Err(DebugError::Expression(what.into()));
        }
        Ok(ConditionHistory {
            changes,
            more,
            judged,
            unknown,
            at_first: first,
            at_last: last,
            since: Moment(self.since.to_string()),
            until: Moment(self.until.to_string()),
            unsure: self.unsure,
        })
    }
}
