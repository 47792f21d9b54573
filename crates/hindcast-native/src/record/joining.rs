//! Beginning to record a process in the middle of its run, and leaving it as it was.

use std::rc::Rc;

use super::{Recorder, pending_call::interrupted_call, remote_call, running, set_traps, threads::Threads};
use crate::{
    process::Overlay,
    replay::{Actor, settled},
    sys::{self, ProcessMemory, Stopped, Tid, TraceError},
};
use hindcast_symbols::Memory as _;

/// Asks for the word that the system clears when a thread ends.
const PR_GET_TID_ADDRESS: u64 = 40;
/// Below the part of the stack that a function may use without saying so.
const BELOW_STACK: u64 = 1024;

impl Recorder {
    /// Begins to record a process that was running already, of which these are all threads; the first one runs.
    /// [`Self::let_go`] undoes it. One that `is_gentle` survives us.
    pub(crate) fn join(
        process: Tid,
        threads: Vec<Stopped>,
        overlay: &Overlay,
        is_gentle: bool,
    ) -> Result<(Self, Vec<Stopped>), TraceError> {
        let mut recorder = Self::new(process)?;
        recorder.is_gentle = is_gentle;
        let (threads, taken) = running::take(threads, process, recorder.gate)?;
        recorder.taken = Some(taken);
        let mut ready = Vec::new();
        for thread in threads {
            let thread = recorder.joins(thread)?;
            recorder.interrupted.extend(interrupted_call(&thread)?.map(|call| (thread.tid(), call)));
            ready.push(thread);
        }
        recorder.confined = !sys::is_our_equal(process);
        recorder.sharing.on_join();
        recorder.note_mapped_files();
        let memory = ProcessMemory::open(process).map_err(|_| TraceError::Gone)?;
        recorder.take_out_random_numbers(&memory, &(0..u64::MAX));
        let mut threads = ready.into_iter();
        let acting = threads.next().ok_or(TraceError::Gone)?;
        let others: Vec<_> = threads.collect();
        recorder.threads.enter(acting.tid(), others.len());
        for other in &others {
            let interrupted = recorder.interrupted_number(other.tid());
            let registers = settled(other.registers()?, interrupted);
            let actor = Actor { registers, vectors: other.vector_registers()? };
            recorder.threads.stands(other.tid(), Rc::new(actor));
        }
        let acting = match others.is_empty() {
            true => acting,
            // What a call writes there would be lost if we died.
            false if is_gentle => {
                recorder.threads.set_scratch(false);
                acting
            }
            false => recorder.map_scratch(acting)?,
        };
        let acting = recorder.checkpoint(acting, overlay, false)?;
        let acting = recorder.rest(acting)?;
        Ok((recorder, std::iter::once(acting).chain(others).collect()))
    }

    /// Makes a thread repeatable, and learns what the system does at its end.
    fn joins(&mut self, thread: Stopped) -> Result<Stopped, TraceError> {
        let (tid, mut held) = (thread.tid(), Vec::new());
        let thread = if self.is_gentle { thread } else { set_traps(thread, self.gate, true, &mut held)? };
        let memory = ProcessMemory::open(self.process).map_err(|_| TraceError::Gone)?;
        let place = (thread.registers()?.sp() - BELOW_STACK) & !7;
        let mut before = [0; 8];
        memory.read(place, &mut before).map_err(|_| TraceError::Gone)?;
        let arguments = [PR_GET_TID_ADDRESS, place, 0, 0, 0, 0];
        let remote = remote_call(thread, self.gate, libc::SYS_prctl, arguments)?;
        held.extend(remote.held);
        let mut word = [0; 8];
        memory.read(place, &mut word).map_err(|_| TraceError::Gone)?;
        memory.write(place, &before).map_err(|_| TraceError::Gone)?;
        match remote.result {
            0 => self.threads.ends_with(tid, u64::from_le_bytes(word)),
            _ if tid == self.process => {}
            _ => {
                return Err(TraceError::NotRecordable(
                    "it has several threads, and this system does not tell what it writes when one ends",
                ));
            }
        }
        let mut thread = remote.thread;
        if self.is_gentle {
            thread = sys::rest(thread, &mut held)?;
        }
        // What came meanwhile is still to come.
        held.iter().for_each(|info| sys::send_again(self.process, tid, info));
        Ok(thread)
    }

    /// Why a running process cannot be recorded, if that is so: others may write to memory that it shares.
    pub(crate) fn obstacle(process: Tid) -> Option<&'static str> {
        sys::has_writable_shares(process)
            .unwrap_or(true)
            .then_some("it shares memory with others, and what they write there is not recorded")
    }

    /// A process that we did not start would survive us where it stands.
    pub(crate) fn rest(&mut self, thread: Stopped) -> Result<Stopped, TraceError> {
        if self.is_gentle { sys::rest(thread, &mut self.held) } else { Ok(thread) }
    }

    /// The process goes on as it was, with all its threads.
    pub(crate) fn let_go(&mut self, threads: Vec<Stopped>) -> Result<Vec<Stopped>, TraceError> {
        match self.taken.take() {
            Some(taken) => running::give_back(threads, self.process, self.gate, &taken),
            None => Ok(threads),
        }
    }
}

impl Threads {
    /// This thread runs, and there are so many others.
    fn enter(&mut self, acting: Tid, others: usize) {
        (self.acting, self.others) = (acting, others);
    }

    /// A thread that does not run stands here.
    fn stands(&mut self, tid: Tid, actor: Rc<Actor>) {
        self.standing.insert(tid, actor);
    }

    /// The system clears this word when a thread ends.
    fn ends_with(&mut self, tid: Tid, word: u64) {
        if word != 0 {
            self.cleared.insert(tid, word);
        }
    }
}
