//! A copy of a past moment that goes on by itself, with what was changed in it.
//!
//! It does nothing outside of itself. What it asks the system for is answered as it was in the recording, as long as it asks
//! for the same; where it asks for something that nobody can know, it ends.

mod answers;
mod printed;

use std::{collections::HashMap, rc::Rc, time::Duration};

use self::answers::{Answers, Known};
pub(crate) use self::printed::Printed;
use super::{Advance, ReplayError, Replica, Running};
use crate::{
    record::{self, Call, Event, Log, Replay},
    sys::{self, ALARM_MARK, INTERRUPT_MARK, Resume, SignalDetails, Stopped, Tid, TraceError},
};

/// So much memory a copy gets beside what it has.
const MOST_MEMORY: u64 = 4 << 30;

/// What calls were given, by their events: the same again is answered the same.
pub(crate) type Inputs = HashMap<u64, Vec<u8>>;

/// A copy that goes on.
pub(crate) struct Trial {
    replica: Replica,
    printed: Printed,
    answers: Answers,
    left: Duration,
}

/// What is left of a trial.
pub(crate) struct Over {
    /// Where it ended.
    pub(crate) replica: Replica,
    pub(crate) printed: Printed,
    /// What the calls were given that it made.
    pub(crate) inputs: Rc<Inputs>,
    /// What was made up on the way.
    pub(crate) notes: Vec<String>,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TrialEnd {
    Exited(i32),
    /// The program's own handlers are not called.
    Signal(SignalDetails),
    /// It stands where it was to stop.
    Arrived,
    /// What it asks for here, nobody knows.
    Unknown(String),
    OutOfTime,
}

impl Trial {
    /// For a replica that stands at a moment. It stops at these addresses, once it has left the place where it is. `inputs` are
    /// those of the same moment without a change.
    pub(crate) fn new(
        mut replica: Replica,
        log: &Log,
        stops: &[u64],
        time: Duration,
        inputs: Option<Rc<Inputs>>,
    ) -> Result<Self, ReplayError> {
        if stops.contains(&replica.pc()?) {
            replica.go_on(log, Advance::Step, u64::MAX)?;
        }
        for &address in stops {
            let inserted = replica.overlay.insert(&replica.memory, address);
            inserted.map_err(|error| ReplayError::Diverged(format!("it cannot stop there: {error}")))?;
        }
        limit_memory(replica.frozen.tid());
        let answers = Answers::from(log, replica.event(), inputs);
        Ok(Self { replica, printed: Printed::default(), answers, left: time })
    }

    /// What is left of it.
    pub(crate) fn over(self) -> Over {
        let notes = self.answers.notes.iter().map(|&note| note.to_owned()).collect();
        Over { replica: self.replica, printed: self.printed, inputs: Rc::new(self.answers.seen), notes }
    }

    /// Goes on to its end. After an interruption it can go on again.
    pub(crate) fn run(&mut self, log: &Log) -> Result<TrialEnd, ReplayError> {
        let began = self.replica.time();
        let alarm = self.replica.alarm_in(self.left);
        let ended = loop {
            match self.go(log) {
                Ok(None) => {}
                Ok(Some(end)) => break Ok(end),
                Err(error) => break Err(error),
            }
        };
        drop(alarm);
        self.left = self.left.saturating_sub(self.replica.time().saturating_sub(began));
        ended
    }

    fn go(&mut self, log: &Log) -> Result<Option<TrialEnd>, ReplayError> {
        let replica = &mut self.replica;
        let waited = Running::of_this_thread().wait(&replica.interrupt(), || {
            replica.frozen.take()?.resume(Resume::Emulate, 0)?;
            sys::wait_for(replica.frozen.tid())
        });
        match waited.ok_or(ReplayError::Interrupted)?? {
            sys::Event::Call(thread) => {
                let call = thread.call()?;
                self.replica.frozen.put(thread);
                let sys::Call::Entry { number, arguments, .. } = call else { return Ok(None) };
                self.called(number as i64, arguments, log)
            }
            sys::Event::Signal(thread, signal) => {
                let details = thread.signal_details()?;
                let end = self.signalled(&thread, signal, details, log);
                self.replica.frozen.put(thread);
                end
            }
            sys::Event::Exited(..) | sys::Event::Killed(..) => Err(TraceError::Gone.into()),
            sys::Event::Stop(thread, _)
            | sys::Event::Clone(thread, _)
            | sys::Event::Fork(thread, _)
            | sys::Event::Vfork(thread, _)
            | sys::Event::VforkDone(thread)
            | sys::Event::Exec(thread)
            | sys::Event::Other(thread) => {
                self.replica.frozen.put(thread);
                Ok(None)
            }
        }
    }

    fn signalled(
        &mut self,
        thread: &Stopped,
        signal: i32,
        details: SignalDetails,
        log: &Log,
    ) -> Result<Option<TrialEnd>, ReplayError> {
        let mut registers = thread.registers()?;
        match signal {
            libc::SIGSTOP if details.value == Some(INTERRUPT_MARK) => return Err(ReplayError::Interrupted),
            libc::SIGSTOP if details.value == Some(ALARM_MARK) => return Ok(Some(TrialEnd::OutOfTime)),
            libc::SIGSTOP => return Ok(None),
            libc::SIGTRAP if self.replica.overlay.contains(registers.pc().wrapping_sub(1)) => {
                registers.set("rip", registers.pc() - 1);
                thread.set_registers(&registers)?;
                return Ok(Some(TrialEnd::Arrived));
            }
            libc::SIGSEGV => {
                if let Some(answered) = self.answers.of_processor(log, registers, &self.replica.memory) {
                    thread.set_registers(&answered)?;
                    return Ok(None);
                }
            }
            _ => {}
        }
        Ok(Some(TrialEnd::Signal(details)))
    }

    /// A system call is about to be made.
    fn called(
        &mut self,
        number: i64,
        arguments: [u64; 6],
        log: &Log,
    ) -> Result<Option<TrialEnd>, ReplayError> {
        let memory = &self.replica.memory;
        match number {
            libc::SYS_exit_group | libc::SYS_exit => {
                return Ok(Some(TrialEnd::Exited((arguments[0] & 0xff) as i32)));
            }
            libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64 => {
                self.printed.take(number, &arguments, memory);
            }
            _ => {}
        }
        let acting = self.replica.frozen.cast().acting();
        if let Some(signal) = answers::signal_to_itself(number, &arguments, acting) {
            let details = SignalDetails { signal, code: 0, address: None, sender: None, value: None };
            return Ok(Some(TrialEnd::Signal(details)));
        }
        let result = match self.answers.of_system(log, number, &arguments, memory, acting) {
            Known::Event(event) => match log.get(event).as_deref() {
                Some(Event::Call(call)) if call.arguments == arguments => {
                    return self.replica.replay(call).map(|()| None);
                }
                Some(Event::Call(call)) => self.write_elsewhere(call, &arguments)?,
                _ => return Err(ReplayError::Diverged("an event is missing".into())),
            },
            Known::Result { result, zeroes } => {
                if let Some((address, length)) = zeroes {
                    // A bad pointer is the program's own fault, which the system would answer with an error.
                    let _ = memory.write(address, &vec![0; length]);
                }
                result
            }
            Known::Real => {
                let result = self.replica.frozen.call(number, arguments)?;
                if result == -i64::from(libc::ENOMEM) {
                    self.answers
                        .notes
                        .insert("a copy gets no more than 4 GB of memory, and this one wanted more");
                }
                result
            }
            Known::Nothing => return Ok(Some(TrialEnd::Unknown(self.described(number, &arguments)))),
        };
        let registers = record::after_call(self.replica.registers()?, result);
        self.replica.frozen.set_registers(&registers)?;
        Ok(None)
    }

    /// What a call wrote, where the program wants it now; gives back its result.
    fn write_elsewhere(&self, call: &Call, arguments: &[u64; 6]) -> Result<i64, ReplayError> {
        let Replay::Emulate(writes) = &call.replay else {
            return Err(ReplayError::Diverged("a call cannot be made elsewhere".into()));
        };
        for write in writes {
            let moved = answers::moved(call, arguments, write.address);
            self.replica.memory.write(moved, &write.bytes).map_err(|error| {
                ReplayError::Diverged(format!("what a system call wrote cannot be written: {error}"))
            })?;
        }
        Ok(call.result)
    }

    fn described(&self, number: i64, arguments: &[u64; 6]) -> String {
        let name = record::call_name(number);
        let path = answers::path_of(number, arguments, &self.replica.memory);
        let path = path.map(|path| format!(" of `{}`", String::from_utf8_lossy(&path)));
        format!("`{name}`{}", path.unwrap_or_default())
    }
}

/// A change can make a program want all the memory there is.
fn limit_memory(process: Tid) {
    let mappings = sys::mappings(process).unwrap_or_default();
    let has = mappings.iter().map(|mapping| mapping.end - mapping.start).sum::<u64>();
    sys::limit_memory(process, has + MOST_MEMORY);
}
