//! A search through the past: it goes on while nobody waits for it, as a movement does, and keeps its result.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
    mpsc::Receiver,
};

use hindcast_core::debug::{
    CallTrace, ConditionHistory, DebugError, Finding, FrameRef, Location, MemoryWrite, Question, Variable,
    Watched, WayFinding, WhatIf, When, WriteHistory,
};
use tokio::sync::oneshot;

use super::{
    meanwhile::Meanwhile,
    secrets::Mask,
    session::{Patience, Session},
    source,
    standing::Standing,
    travel::FoundWrite,
    viewport::{self, FrameView, State},
    worker::{Command, Core, Need},
};
use crate::{Failure, FailureKind};

/// What a search found, without secrets.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// The last one first.
    LastWrite(Vec<FoundWrite>),
    /// All that was written.
    History(Box<WriteHistory>),
    /// When a condition changed.
    When(Box<ConditionHistory>),
    /// What was called.
    Calls(Box<CallTrace>),
    /// What would have happened.
    WhatIf(Box<WhatIf>),
    /// Which way the program went.
    Way(Box<WayFinding>),
}

/// A search, and what became of it.
#[derive(Debug, Clone)]
pub struct Search {
    number: u64,
    question: Question,
    /// Where the session stood.
    when: Option<When>,
    /// None while it goes on.
    outcome: Option<Result<Found, Failure>>,
    /// Whether somebody has had the outcome.
    told: Arc<AtomicBool>,
}

/// What is known of a search.
#[derive(Debug)]
pub enum Searched {
    /// It is over.
    Found(Found),
    /// It goes on, under this number.
    Running(u64),
}

impl Searched {
    /// The last writes, for those who have no other patience.
    pub fn found(self) -> Result<Vec<FoundWrite>, Failure> {
        match self {
            Self::Found(Found::LastWrite(writes)) => Ok(writes),
            Self::Found(_) => Err(Failure::new(FailureKind::Internal, "another question was answered")),
            Self::Running(number) => Err(Failure::new(
                FailureKind::HistoryUnavailable,
                format!("the search for the last write is not over yet (search {number})"),
            )
            .hint("`debugger/wait` waits for it, `debugger/pause` gives it up")),
        }
    }
}

impl Search {
    pub(super) fn is_running(&self) -> bool {
        self.outcome.is_none()
    }

    /// Its number, while it goes on.
    pub(super) fn running(&self) -> Option<u64> {
        self.is_running().then_some(self.number)
    }

    /// What is to be said of it beside other answers.
    pub(super) fn note(&self) -> Option<String> {
        let number = self.number;
        match &self.outcome {
            None => Some(format!(
                "the past is searched (search {number}): `debugger/wait` waits for that, `debugger/pause` gives it up"
            )),
            Some(_) if self.told.load(Ordering::Relaxed) => None,
            Some(_) => Some(format!(
                "search {number} is over: `{}` with search {number} tells what it found",
                tool(&self.question)
            )),
        }
    }
}

impl Session {
    /// Who last wrote a value, and where that came from.
    pub async fn last_write(
        &self,
        watched: Watched,
        depth: u32,
        patience: &Patience,
    ) -> Result<Searched, Failure> {
        self.ask_past(Question::LastWrite { watched, depth }, patience).await
    }

    /// Goes through the past for an answer, without secrets. Where patience ends first, the search goes on; the same question,
    /// or [`Self::searched`], waits for it again.
    pub async fn ask_past(&self, question: Question, patience: &Patience) -> Result<Searched, Failure> {
        let running = {
            let standing = self.standing.borrow();
            let same = standing.search.as_ref().filter(|search| search.question == question);
            same.filter(|search| search.is_running()).map(|search| search.number)
        };
        let number = match running {
            Some(number) => number,
            None => self.begin_search(question).await?,
        };
        self.searched(number, patience).await
    }

    async fn begin_search(&self, question: Question) -> Result<u64, Failure> {
        let ended = self.standing.borrow().state == State::Exited;
        // The past of a program is there when the program is not.
        self.check(if ended { Need::Session } else { Need::Standstill })?;
        let (begun, answer) = oneshot::channel();
        self.send(Command::Search { question, begun })?;
        self.answer(answer).await?
    }

    /// What a search found, if it does so while there is patience.
    pub async fn searched(&self, number: u64, patience: &Patience) -> Result<Searched, Failure> {
        let of = |standing: &Standing| standing.search.clone().filter(|search| search.number == number);
        self.wait_while(patience, |standing| of(standing).is_some_and(|search| search.is_running())).await;
        let (search, is_lost) = {
            let standing = self.standing.borrow();
            (of(&standing), standing.fault.is_some())
        };
        match search {
            _ if is_lost => Err(self.why_ended()),
            None => Err(Failure::new(
                FailureKind::InvalidInput,
                format!("there is no search {number}: what it found was about where the program stood then"),
            )
            .hint("ask again with `expression` or `address`")),
            Some(search) => match &search.outcome {
                None => Ok(Searched::Running(number)),
                Some(outcome) => {
                    search.told.store(true, Ordering::Relaxed);
                    outcome.clone().map(Searched::Found)
                }
            },
        }
    }

    /// The frame of that number, also where the program has ended: then it is one of its last moment.
    pub fn frame_in_history(&self, index: Option<u32>) -> Result<FrameRef, Failure> {
        let thread = self.thread(None)?;
        Ok(FrameRef::of(thread, index.unwrap_or_else(|| self.shown_frame(thread))))
    }

    /// What a search is about, as the user named it.
    pub fn search_name(&self, number: u64) -> Option<String> {
        let standing = self.standing.borrow();
        let search = standing.search.as_ref().filter(|search| search.number == number)?;
        Some(name(&search.question))
    }
}

impl Core {
    /// The number of the search for this, and whether it is still to be made.
    pub(super) fn begin_search(&mut self, question: &Question) -> Result<(u64, bool), Failure> {
        let when = self.history()?.now()?;
        let known = self.standing.borrow().search.clone();
        if let Some(known) = known.filter(|known| {
            known.question == *question && known.when == when && matches!(known.outcome, Some(Ok(_)))
        }) {
            return Ok((known.number, false));
        }
        let number = self.standing.borrow().moves + 1;
        let question = question.clone();
        let search = Search { number, question, when, outcome: None, told: Arc::default() };
        self.before = self.standing.borrow().state;
        self.standing.send_modify(|standing| {
            standing.state = State::Running;
            standing.moves = number;
            standing.problem = None;
            standing.search = Some(Arc::new(search));
        });
        Ok((number, true))
    }

    /// Searches, and serves commands meanwhile. Returns the command that ended the search and is still to be served.
    pub(super) fn search(&mut self, question: &Question, commands: &Receiver<Command>) -> Option<Command> {
        loop {
            match self.serve_meanwhile(commands) {
                Meanwhile::GoOn => {}
                Meanwhile::Pause(done) => {
                    self.end_search(Err(given_up()));
                    let _ = done.send(Ok(()));
                    return None;
                }
                Meanwhile::End(command) => {
                    self.end_search(Err(given_up()));
                    return Some(command);
                }
                Meanwhile::Gone => return None,
            }
            let past = match self.history() {
                Ok(past) => past,
                Err(failure) => {
                    self.end_search(Err(failure));
                    return None;
                }
            };
            match past.ask(question) {
                // Somebody wants something; the same question goes on where it was.
                Err(DebugError::GivenUp(_)) => {}
                Ok(finding) => {
                    let found = self.described(question, finding);
                    self.end_search(found);
                    return None;
                }
                Err(error) => {
                    let expression = expression(question).unwrap_or_default();
                    let failure = self.mask.failed_expression(expression, false, error.into());
                    self.end_search(Err(failure));
                    return None;
                }
            }
        }
    }

    /// Everything is as it was before, apart from what is known now.
    fn end_search(&mut self, outcome: Result<Found, Failure>) {
        let before = self.before;
        self.standing.send_modify(|standing| {
            standing.state = if standing.fault.is_some() { State::Exited } else { before };
            if let Some(search) = &mut standing.search {
                Arc::make_mut(search).outcome = Some(outcome);
            }
        });
    }

    /// An answer as it is told, without secrets.
    fn described(&mut self, question: &Question, finding: Finding) -> Result<Found, Failure> {
        let name = expression(question).unwrap_or_default();
        Ok(match finding {
            Finding::LastWrite(writes) => Found::LastWrite(self.described_writes(name, writes)?),
            Finding::History(mut history) => {
                self.describe_history(name, &mut history)?;
                Found::History(Box::new(history))
            }
            Finding::When(mut history) => {
                self.describe_changes(&mut history)?;
                Found::When(Box::new(history))
            }
            Finding::Calls(mut trace) => {
                self.mask_calls(&mut trace);
                Found::Calls(Box::new(trace))
            }
            Finding::WhatIf(mut told) => {
                self.mask_trials(&mut told);
                Found::WhatIf(told)
            }
            Finding::Way(mut way) => {
                if let WayFinding::Values(values) = &mut way {
                    for shown in values {
                        shown.value = masked_value(self.mask, &shown.name, std::mem::take(&mut shown.value));
                    }
                }
                Found::Way(Box::new(way))
            }
        })
    }

    /// The source line of a place.
    pub(super) fn line_of(&mut self, location: &Location) -> Result<Option<String>, Failure> {
        let (sources, mask) = (self.sources.clone(), self.mask);
        Ok(source::line_of(self.backend()?, location, &sources, mask))
    }

    fn describe_history(&mut self, name: &str, history: &mut WriteHistory) -> Result<(), Failure> {
        let mask = self.mask;
        let shown = |value: &mut String| *value = masked_value(mask, name, std::mem::take(value));
        shown(&mut history.first);
        shown(&mut history.last);
        for statement in &mut history.statements {
            statement.change.iter_mut().for_each(shown);
            statement.text = self.line_of(&statement.location)?;
        }
        for write in &mut history.writes {
            shown(&mut write.old);
            shown(&mut write.new);
            write.text = self.line_of(&write.location)?;
        }
        for statement in &mut history.reads {
            statement.text = self.line_of(&statement.location)?;
        }
        if let Some(block) = &mut history.allocation {
            for call in std::iter::once(&mut block.allocated).chain(&mut block.freed) {
                call.text = self.line_of(&call.location)?;
            }
        }
        Ok(())
    }

    fn describe_changes(&mut self, history: &mut ConditionHistory) -> Result<(), Failure> {
        let mask = self.mask;
        for change in &mut history.changes {
            for value in &mut change.values {
                let shown = |text: String| {
                    let mut shown = Variable { value: text, ..Variable::default() };
                    mask.evaluated(&value.expression, &mut shown);
                    shown.value
                };
                value.old = value.old.take().map(shown);
                value.new = shown(std::mem::take(&mut value.new));
            }
            change.text = self.line_of(&change.location)?;
        }
        Ok(())
    }

    fn mask_calls(&self, trace: &mut CallTrace) {
        let mask = self.mask;
        for call in &mut trace.calls {
            for passed in call.arguments.iter_mut().chain(call.last_arguments.iter_mut().flatten()) {
                passed.value = masked_value(mask, &passed.name, std::mem::take(&mut passed.value));
            }
            call.result = call.result.take().map(|result| masked_value(mask, &call.function, result));
        }
    }

    fn mask_trials(&self, told: &mut WhatIf) {
        let mask = self.mask;
        for run in [&mut told.changed, &mut told.unchanged] {
            for shown in &mut run.values {
                shown.value = masked_value(mask, &shown.name, std::mem::take(&mut shown.value));
            }
            mask.string(&mut run.output);
        }
        let lines =
            told.printed.iter_mut().flat_map(|printed| [&mut printed.changed, &mut printed.unchanged]);
        lines.flatten().for_each(|line| mask.string(line));
    }

    fn described_writes(&mut self, name: &str, writes: Vec<MemoryWrite>) -> Result<Vec<FoundWrite>, Failure> {
        let mask = self.mask;
        let mut name = name.to_owned();
        let mut found = Vec::with_capacity(writes.len());
        for write in writes {
            let text = self.line_of(&write.location)?;
            let old = masked_value(mask, &name, write.old);
            let new = masked_value(mask, &name, write.new);
            // What it came from is what the next one is about.
            name = write.from.clone().unwrap_or_default();
            found.push(FoundWrite {
                moment: write.moment,
                thread_id: write.thread,
                location: write.location,
                text,
                old,
                new,
                stack: viewport::up_to_main(write.stack.frames).iter().map(FrameView::from).collect(),
                by: write.by,
                from: write.from,
            });
        }
        Ok(found)
    }
}

/// The tool that asks such a question.
fn tool(question: &Question) -> &'static str {
    match question {
        Question::LastWrite { .. } => "debugger/last_write",
        Question::History(_) => "debugger/history",
        Question::When(_) => "debugger/when",
        Question::Calls(_) => "debugger/trace_calls",
        Question::WhatIf(_) => "debugger/what_if",
        Question::Way(_) => "debugger/compare",
    }
}

/// The expression that a question is about.
fn expression(question: &Question) -> Option<&str> {
    let watched = match question {
        Question::LastWrite { watched, .. } => watched,
        Question::History(history) => &history.watched,
        Question::When(when) => return Some(&when.condition),
        Question::Calls(calls) => return calls.functions.as_deref(),
        Question::WhatIf(what_if) => return what_if.set.first().map(String::as_str),
        Question::Way(_) => return None,
    };
    match watched {
        Watched::Expression { text, .. } => Some(text),
        Watched::Memory { .. } => None,
    }
}

/// What a question is about, as the user named it.
fn name(question: &Question) -> String {
    let address = match question {
        Question::LastWrite { watched: Watched::Memory { address, .. }, .. } => address.to_string(),
        Question::History(history) => match &history.watched {
            Watched::Memory { address, .. } => address.to_string(),
            Watched::Expression { .. } => String::new(),
        },
        _ => String::new(),
    };
    expression(question).map_or(address, str::to_owned)
}

fn given_up() -> Failure {
    Failure::new(FailureKind::HistoryUnavailable, "the search through the past was given up")
        .hint("ask again, and `debugger/wait` for it")
}

/// A value is masked by what it is called, too.
pub(super) fn masked_value(mask: Mask, name: &str, value: String) -> String {
    let mut variable = Variable { name: name.to_owned(), value, ..Variable::default() };
    mask.variable(&mut variable);
    variable.value
}
