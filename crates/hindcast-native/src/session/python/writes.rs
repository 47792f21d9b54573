//! Who assigned a Python value: the write of the pointer to it, followed through the moves that a container makes when it
//! grows.

use hindcast_core::debug::{
    DebugError, Location, MemoryWrite, Moment, Reason, Stack, ValueLimits, Watched, Writer,
};
use hindcast_python::{Target, Value};

use super::{not_evaluated, of_thread};
use crate::{
    debuggee::{Found, Quarry},
    process::Halt,
    replay::Position,
    session::{Session, travel::Halted},
    sys::Tid,
};

/// A pointer that is followed back.
#[derive(Debug, Clone)]
pub(in crate::session) struct Trail {
    /// What was asked.
    question: (Watched, Position),
    target: Target,
    /// The object that it points to.
    object: u64,
    /// Where the pointer is at `position`.
    slot: u64,
    position: Position,
    /// Whether the pointer is a variable of a frame.
    is_local: bool,
    /// The write that is looked at, once it was found.
    found: Option<Found>,
    moves: u32,
}

/// Who stood where when something was written.
struct Author {
    tid: Tid,
    stack: Stack,
    location: Location,
    /// Where the innermost frame keeps the place that it has come to.
    progress: Option<u64>,
}

impl Session {
    /// The assignment that gave a Python expression its value; none where the machine's frames are meant. What was never
    /// assigned has no writes.
    pub(in crate::session) fn python_writes_of(
        &mut self,
        watched: &Watched,
        position: &Position,
    ) -> Result<Option<Vec<MemoryWrite>>, Halted> {
        let Watched::Expression { text, frame } = watched else { return Ok(None) };
        let question = (watched.clone(), position.clone());
        let mut trail = match self.trail.take().filter(|trail| trail.question == question) {
            Some(trail) => trail,
            None => {
                let tid = self.known_thread(frame.thread)?;
                let found = self.with_python_frame(*frame, tid, |speaker, frame| {
                    let value = speaker.reader.evaluate(frame, text).map_err(not_evaluated)?;
                    match value {
                        Value::Object { object, slot: Some(slot) } => Ok((object, slot)),
                        _ => Err(DebugError::Expression(
                            Reason::new(format!("`{text}` is computed: no pointer to it is kept"))
                                .advise("name a variable, an attribute or an item"),
                        )),
                    }
                })?;
                let Some(found) = found else { return Ok(None) };
                let (object, slot) = found?;
                let position = position.clone();
                let is_local = self.is_local(slot.address);
                Trail {
                    is_local,
                    question,
                    target: slot.target,
                    object,
                    slot: slot.address,
                    position,
                    found: None,
                    moves: 0,
                }
            }
        };
        let written = self.follow_trail(&mut trail);
        if let Err(Halted::Interrupted) = &written {
            self.trail = Some(trail);
        }
        Ok(Some(written?.into_iter().collect()))
    }

    fn follow_trail(&mut self, trail: &mut Trail) -> Result<Option<MemoryWrite>, Halted> {
        const MOST_MOVES: u32 = 256;
        while trail.moves < MOST_MOVES {
            if trail.found.is_none() {
                self.land(&trail.position)?;
                let quarry = Quarry::Write { address: trail.slot, size: 8 };
                let position = trail.position.clone();
                let Some(found) = self.find(&position, quarry)? else { return Ok(None) };
                trail.found = Some(found);
            }
            let Some(found) = trail.found.clone() else { return Ok(None) };
            let after = found.position.clone();
            let before = self
                .before(&after)?
                .ok_or_else(|| DebugError::NoHistory("it was written before the recording began".into()))?;
            self.land(&before)?;
            let author = self.author()?;
            let start = self.start_of_instruction(&before, &author)?;
            self.land(&start)?;
            if let Some(moved_from) = self.moved_from_slot(trail)? {
                trail.slot = moved_from;
                trail.position = start;
                trail.found = None;
                trail.moves += 1;
                continue;
            }
            let old = self.value_at(trail)?;
            self.land(&after)?;
            if self.pointer_at(trail.slot) != Some(trail.object) {
                return Err(Halted::Failed(DebugError::NoHistory(
                    Reason::new("something that is not recorded has written there")
                        .advise("ask at an earlier moment"),
                )));
            }
            // A text that is added to has its end only when the instruction is over.
            self.finish_instruction(trail.object, &author)?;
            let new = self.show_object(trail.object)?;
            let by = if found.pause.is_some() { Writer::Program } else { Writer::Kernel };
            return Ok(Some(MemoryWrite {
                moment: Moment(after.to_string()),
                thread: of_thread(author.tid),
                location: author.location,
                old: old.unwrap_or_else(|| match (&trail.target, trail.is_local) {
                    (Target::Fixed(_), false) => "<not known>".into(),
                    _ => "<no value yet>".into(),
                }),
                new,
                stack: author.stack,
                by,
                from: None,
            }));
        }
        Err(Halted::Failed(DebugError::NoHistory(
            Reason::new(format!("the container has moved more than {MOST_MOVES} times since"))
                .advise("ask at an earlier moment"),
        )))
    }

    /// Who runs where the program stands.
    fn author(&mut self) -> Result<Author, Halted> {
        const FRAMES: u32 = 8;
        let tid = self.process.acting();
        let view = hindcast_core::debug::View::Python;
        let frame = hindcast_core::debug::FrameRef { thread: of_thread(tid), index: 0, view };
        let progress =
            self.with_python_frame(frame, tid, |speaker, frame| speaker.reader.progress_slot(frame));
        let stack = self.python_stack(view, of_thread(tid), tid, FRAMES);
        match (progress, stack) {
            (Ok(progress), Ok(Some(stack))) => {
                let location = stack.frames.first().map(|frame| frame.location.clone()).unwrap_or_default();
                Ok(Author { tid, location, stack, progress })
            }
            // Outside of all Python code the interpreter itself did it.
            _ => {
                let stack = self.native_stack(of_thread(tid), tid, FRAMES)?;
                let location = stack.frames.first().map(|frame| frame.location.clone()).unwrap_or_default();
                Ok(Author { tid, location, stack, progress: None })
            }
        }
    }

    /// The moment at which the Python instruction began that a thread is in. Only there are containers whole.
    fn start_of_instruction(&mut self, position: &Position, author: &Author) -> Result<Position, Halted> {
        let Some(address) = author.progress else { return Ok(position.clone()) };
        let found = self.find(position, Quarry::Write { address, size: 8 })?;
        Ok(found.map_or_else(|| position.clone(), |found| found.position))
    }

    fn is_local(&self, address: u64) -> bool {
        let memory = self.process.memory();
        self.python().is_some_and(|python| {
            hindcast_python::Reader::new(python, &memory).is_in_live_frame(address).unwrap_or(false)
        })
    }

    /// Goes on to where the next Python instruction begins, if the object is a text.
    fn finish_instruction(&mut self, object: u64, author: &Author) -> Result<(), Halted> {
        const LONGEST: usize = 20_000;
        let memory = self.process.memory();
        let is_text = self
            .python()
            .is_some_and(|python| hindcast_python::Reader::new(python, &memory).is_text_object(object));
        let Some(progress) = author.progress.filter(|_| is_text) else { return Ok(()) };
        let before = self.pointer_at(progress);
        for _ in 0..LONGEST {
            match self.process.step(author.tid)? {
                Halt::Stepped(_) if self.pointer_at(progress) == before => {}
                _ => break,
            }
        }
        Ok(())
    }

    /// Where the pointer was before the instruction that the program is about to carry out, if it was there already.
    fn moved_from_slot(&mut self, trail: &Trail) -> Result<Option<u64>, Halted> {
        let slot = self.slot_now(&trail.target);
        let is_moved = |slot: &u64| *slot != trail.slot && self.pointer_at(*slot) == Some(trail.object);
        Ok(slot.filter(is_moved))
    }

    fn slot_now(&mut self, target: &Target) -> Option<u64> {
        let memory = self.process.memory();
        let reader = hindcast_python::Reader::new(self.python()?, &memory);
        // What cannot be read had not been made yet.
        reader.slot_of(target).ok().flatten()
    }

    fn is_alive(&self, object: u64) -> bool {
        let memory = self.process.memory();
        self.python().is_some_and(|python| hindcast_python::Reader::new(python, &memory).is_alive(object))
    }

    fn pointer_at(&self, slot: u64) -> Option<u64> {
        let memory = self.process.memory();
        let reader = hindcast_python::Reader::new(self.python()?, &memory);
        reader.pointer(slot).ok()
    }

    /// The value that the name had before: none where it had none, or where its memory was something else's.
    fn value_at(&mut self, trail: &Trail) -> Result<Option<String>, Halted> {
        let slot = match &trail.target {
            Target::Fixed(address) => {
                let memory = self.process.memory();
                let Some(python) = self.python() else { return Ok(None) };
                let reader = hindcast_python::Reader::new(python, &memory);
                match reader.is_in_live_frame(*address) {
                    Ok(true) => Some(*address),
                    _ if reader.is_in_cell(*address) => Some(*address),
                    _ => None,
                }
            }
            target => self.slot_now(target),
        };
        let object = slot.and_then(|slot| self.pointer_at(slot)).filter(|object| *object != 0);
        let object = object.filter(|object| self.is_alive(*object));
        object.map(|object| self.show_object(object)).transpose()
    }

    fn show_object(&self, object: u64) -> Result<String, Halted> {
        let limits = ValueLimits { depth: 0, children: 8, offset: 0, text: 64 };
        let memory = self.process.memory();
        let python = self.python().ok_or_else(|| DebugError::NoHistory("no Python runs here yet".into()))?;
        Ok(hindcast_python::Reader::new(python, &memory).show("", object, limits).value)
    }
}
