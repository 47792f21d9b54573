//! Frequent system calls are noted in the program itself, at a page of ours, without stopping it. What is noted there is
//! taken into the log whenever the program stops, and is the same as if each call had been seen.
//!
//! Who makes a call elsewhere stops before it: "syscall user dispatch" of the system sees to that. It can be switched off
//! at any time, is not inherited by processes that the program makes, and leaves the calls of the page alone.

mod kinds;
mod sites;
mod unwind;

use hindcast_symbols::Memory as _;

pub(crate) use self::unwind::{Stand, Told};
use super::{
    Recorder,
    calls::Effect,
    log::{Call, Event, Replay, Write},
    pending_call::PendingCall,
};
use crate::{
    process::Overlay,
    sys::{
        self, ProcessMemory, SYSCALL_LENGTH, SignalInfo, Stopped, Tid, TraceError,
        call_page::{self, Addresses, BUFFER, DATA, PAGE, ROOM, place},
        remote_call,
    },
};

/// What is known of the page in a process.
pub(crate) struct Page {
    addresses: Addresses,
    sites: sites::Sites,
    /// Whether no call is made here for now.
    is_off: bool,
    /// Whether calls are told without the page's help for now: we ask for each, which is faster where all have to be seen.
    pub(crate) is_put_aside: bool,
    /// Whether the next call is to be seen.
    wants_call: bool,
    /// How many calls were noted here.
    pub(crate) noted: u64,
    /// Threads that block SIGSYS, by which a call is told: the system unblocks it then.
    blocking: std::collections::BTreeSet<Tid>,
}

/// A call as the code notes it: its length, number, `pc`, arguments and result, and the length of what it wrote.
const HEADER: usize = 88;
const SIGSYS: u64 = 1 << (libc::SIGSYS - 1);

#[cfg(test)]
thread_local! {
    /// Whether what a test records from now on has no page.
    pub(crate) static WITHOUT_PAGE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl Page {
    /// Where the calls of the recorded process itself are made that are ours.
    pub(crate) const GATE: u64 = PAGE;

    /// Puts the page into a process that has just begun. `None` where the system does not offer what it needs.
    pub(super) fn set_up(
        thread: Stopped,
        gate: u64,
        memory: &ProcessMemory,
    ) -> Result<(Stopped, Option<Self>), TraceError> {
        #[cfg(test)]
        if WITHOUT_PAGE.get() {
            return Ok((thread, None));
        }
        let (read, write, execute) =
            (libc::PROT_READ as u64, libc::PROT_WRITE as u64, libc::PROT_EXEC as u64);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        let length = ROOM.end - ROOM.start;
        let calls = [
            (libc::SYS_mmap, [PAGE, length, read | write, flags as u64, u64::MAX, 0], PAGE as i64),
            (libc::SYS_mprotect, [PAGE, DATA - PAGE, read | execute, 0, 0, 0], 0),
            // Copies of the process need none of it.
            (libc::SYS_madvise, [PAGE, length, libc::MADV_DONTFORK as u64, 0, 0, 0], 0),
        ];
        let mut thread = thread;
        for (number, arguments, expected) in calls {
            let remote = remote_call(thread, gate, number, arguments)?;
            thread = remote.thread;
            if remote.result != expected {
                return Ok((thread, None));
            }
        }
        let proc_device =
            std::os::unix::fs::MetadataExt::dev(&std::fs::metadata("/proc").map_err(|_| TraceError::Gone)?);
        let table: Vec<u8> = kinds::table().into_iter().flat_map(u64::to_le_bytes).collect();
        let parts: [(u64, &[u8]); 4] = [
            (PAGE, call_page::code()),
            (place::LIMIT, &(BUFFER.end - BUFFER.start).to_le_bytes()),
            (place::PROC, &proc_device.to_le_bytes()),
            (place::KINDS, &table),
        ];
        for (address, bytes) in parts {
            memory.write(address, bytes).map_err(|_| TraceError::Gone)?;
        }
        // Nobody sends signals to a process that has just begun.
        let (thread, is_told) = tell_calls(thread, gate, &mut Vec::new())?;
        if !is_told {
            return Ok((thread, None));
        }
        let page = Self {
            addresses: call_page::addresses(),
            sites: sites::Sites::default(),
            is_off: false,
            is_put_aside: false,
            wants_call: false,
            noted: 0,
            blocking: std::collections::BTreeSet::new(),
        };
        page.select(memory, true);
        Ok((thread, Some(page)))
    }

    /// Whether calls elsewhere are told.
    pub(crate) fn select(&self, memory: &ProcessMemory, told: bool) {
        // Fails only where the process is gone.
        let _ = memory.write(place::SELECTOR, &[u8::from(told)]);
    }

    /// Has all calls be seen, or not. Only while the process stands still.
    pub(crate) fn put_aside(&mut self, memory: &ProcessMemory, aside: bool) {
        if self.is_put_aside != aside {
            self.is_put_aside = aside;
            self.select(memory, !aside);
        }
        self.set_off(memory, aside || self.wants_call);
    }

    fn set_off(&mut self, memory: &ProcessMemory, off: bool) {
        if self.is_off != off {
            self.is_off = off;
            let _ = memory.write(place::OFF, &[u8::from(off)]);
        }
    }

    /// The next call is to be seen, also while the process runs. False where that was asked for before.
    pub(crate) fn ask_for_call(&mut self, memory: &ProcessMemory) -> bool {
        let is_new = !std::mem::replace(&mut self.wants_call, true);
        self.set_off(memory, true);
        is_new
    }

    /// Where the program makes the call that a thread is at the beginning of, where it has come from the page.
    pub(crate) fn called_from(&self, pc: u64, memory: &ProcessMemory) -> Result<Option<u64>, TraceError> {
        Ok(match self.told_at(pc, memory)? {
            Told::Call { pc, is_at_page: true } => Some(pc),
            _ => None,
        })
    }

    /// A call is seen.
    pub(crate) fn saw_call(&mut self) {
        self.wants_call = false;
    }

    /// The thread has these signals blocked: nothing of ours has changed that yet.
    pub(crate) fn note_mask(&mut self, thread: &Stopped) -> Result<(), TraceError> {
        match thread.signal_mask()? & SIGSYS {
            0 => self.blocking.remove(&thread.tid()),
            _ => self.blocking.insert(thread.tid()),
        };
        Ok(())
    }

    /// A thread was told of by SIGSYS, which unblocked it.
    pub(crate) fn mend_mask(&self, thread: &Stopped) -> Result<(), TraceError> {
        if self.blocking.contains(&thread.tid()) {
            thread.set_signal_mask(thread.signal_mask()? | SIGSYS)?;
        }
        Ok(())
    }

    /// A thread has the same signals blocked as the one that made it.
    pub(crate) fn on_thread(&mut self, by: Tid, made: Tid) {
        if self.blocking.contains(&by) {
            self.blocking.insert(made);
        }
    }

    /// Has a site jump to the page from now on, if it can. Signals that come meanwhile are held.
    pub(crate) fn take_over(
        &mut self,
        thread: Stopped,
        pc: u64,
        program: (&ProcessMemory, &mut Overlay),
        held: &mut Vec<SignalInfo>,
    ) -> Result<Stopped, TraceError> {
        self.sites.take_over(thread, pc, self.addresses.entry, program, held)
    }

    /// Whether a thread stands at the page, or on the way there.
    pub(crate) fn is_at(&self, pc: u64) -> bool {
        is_here(pc) || self.sites.on_way(pc).is_some()
    }

    /// Whether a call can be made at the page.
    pub(crate) fn takes(number: u64) -> bool {
        static TABLE: std::sync::OnceLock<Vec<u64>> = std::sync::OnceLock::new();
        let table = TABLE.get_or_init(kinds::table);
        usize::try_from(number).is_ok_and(|number| table.get(number).is_some_and(|kind| *kind != 0))
    }

    /// Whether calls were noted since it was last looked.
    pub(crate) fn is_busy(&self, memory: &ProcessMemory) -> bool {
        let mut cursor = [0; 8];
        memory.read(place::CURSOR, &mut cursor).is_ok() && cursor != [0; 8]
    }

    /// Code is gone, or is other code now.
    pub(crate) fn forget_sites(&mut self, range: &std::ops::Range<u64>) {
        self.sites.forget(range);
    }

    /// Takes what was noted out of the buffer.
    fn take_noted(&mut self, memory: &ProcessMemory) -> Result<Vec<Call>, &'static str> {
        const DAMAGED: &str = "the program has written over what is noted of its system calls";
        let mut cursor = [0; 8];
        memory.read(place::CURSOR, &mut cursor).map_err(|_| DAMAGED)?;
        let used = u64::from_le_bytes(cursor);
        if used == 0 {
            return Ok(Vec::new());
        }
        if used > BUFFER.end - BUFFER.start {
            return Err(DAMAGED);
        }
        let mut bytes = vec![0; used as usize];
        memory.read(BUFFER.start, &mut bytes).map_err(|_| DAMAGED)?;
        memory.write(place::CURSOR, &[0; 8]).map_err(|_| DAMAGED)?;
        let mut calls = Vec::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (call, length) = read_call(rest).ok_or(DAMAGED)?;
            calls.push(call);
            rest = &rest[length..];
        }
        self.noted += calls.len() as u64;
        Ok(calls)
    }
}

/// A call and how much it takes in the buffer.
fn read_call(bytes: &[u8]) -> Option<(Call, usize)> {
    let header = bytes.get(..HEADER)?;
    let mut words =
        header.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
    let mut word = || words.next();
    let (length, number, pc) = (word()?, word()? as i64, word()?);
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = word()?;
    }
    let (result, written) = (word()? as i64, word()?);
    let (length, written) = (usize::try_from(length).ok()?, usize::try_from(written).ok()?);
    let data = bytes.get(HEADER..HEADER.checked_add(written)?)?;
    if length < HEADER + written || length > bytes.len() {
        return None;
    }
    let is_made_again = matches!(super::calls::effect_of(number, &arguments), Effect::Space) && result >= 0;
    let replay = match kinds::written_to(number, &arguments) {
        _ if is_made_again => Replay::Real,
        Some(address) if !data.is_empty() => {
            Replay::Emulate(Box::new([Write { address, bytes: data.into() }]))
        }
        _ => Replay::Emulate(Box::default()),
    };
    Some((Call { number, arguments, pc, result, replay }, length))
}

/// Has a thread's calls be told before they are made, unless they come from the page; each thread needs it.
pub(crate) fn tell_calls(
    thread: Stopped,
    gate: u64,
    held: &mut Vec<SignalInfo>,
) -> Result<(Stopped, bool), TraceError> {
    const PR_SYS_DISPATCH_ON: u64 = 1;
    let range = call_page::ALLOWED;
    dispatch(thread, gate, held, [PR_SYS_DISPATCH_ON, range.start, range.end - range.start, place::SELECTOR])
}

/// The opposite: needed before the page goes away, because the system looks there at each call.
pub(crate) fn tell_no_calls(
    thread: Stopped,
    gate: u64,
    held: &mut Vec<SignalInfo>,
) -> Result<Stopped, TraceError> {
    Ok(dispatch(thread, gate, held, [0; 4])?.0)
}

fn dispatch(
    thread: Stopped,
    gate: u64,
    held: &mut Vec<SignalInfo>,
    [how, start, length, selector]: [u64; 4],
) -> Result<(Stopped, bool), TraceError> {
    let what = call_page::PR_SET_SYSCALL_USER_DISPATCH as u64;
    let arguments = [what, how, start, length, selector, 0];
    let remote = remote_call(thread, gate, libc::SYS_prctl, arguments)?;
    held.extend(remote.held);
    Ok((remote.thread, remote.result == 0))
}

impl Recorder {
    pub(crate) fn page_mut(&mut self) -> Option<&mut Page> {
        self.page.as_mut()
    }

    pub(crate) fn page(&self) -> Option<&Page> {
        self.page.as_ref()
    }

    /// The process, which stands still, makes all its calls by itself again.
    pub(crate) fn put_page_away(&mut self) {
        if let Some(page) = self.page.take()
            && let Ok(memory) = ProcessMemory::open(self.process)
        {
            page.sites.give_back(&memory);
            page.select(&memory, false);
        }
    }

    /// The number and the arguments of the call that a thread is in.
    pub(crate) fn call_of(&self, tid: Tid) -> Option<(i64, [u64; 6])> {
        self.pending.get(&tid).filter(|call| !call.is_32_bit).map(|call| (call.number, call.arguments))
    }

    /// Notices which threads block the signal by which calls are told, and puts the page away where the program has a use for
    /// that signal.
    pub(crate) fn watch_signals(&mut self, thread: &Stopped, call: sys::Call) -> Result<(), TraceError> {
        let Some(page) = &mut self.page else { return Ok(()) };
        match call {
            sys::Call::Entry { number, arguments: [signal, action, ..], .. }
                if number == libc::SYS_rt_sigaction as u64
                    && signal == libc::SIGSYS as u64
                    && action != 0 =>
            {
                self.put_page_away();
            }
            sys::Call::Exit { .. } => {
                let number = self.pending.get(&thread.tid()).map(|call| call.number);
                if matches!(number, Some(libc::SYS_rt_sigprocmask | libc::SYS_rt_sigreturn)) {
                    page.note_mask(thread)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Where the calls of the process itself are made that are ours.
    pub(crate) fn live_gate(&self) -> u64 {
        if self.page.is_some() { Page::GATE } else { self.gate }
    }

    /// Puts the page into a process that has just begun.
    pub(super) fn set_up_page(&mut self, thread: Stopped) -> Result<Stopped, TraceError> {
        self.page = None;
        if !self.traps_instructions() {
            // Should we be killed, a process that we did not start would die of it.
            return Ok(thread);
        }
        let memory = ProcessMemory::open(self.process).map_err(|_| TraceError::Gone)?;
        let (thread, page) = Page::set_up(thread, self.gate, &memory)?;
        self.page = page;
        if let Some(page) = &mut self.page {
            page.note_mask(&thread)?;
        }
        Ok(thread)
    }

    /// Whether all calls have to be seen for now.
    pub(crate) fn must_see_calls(&self) -> bool {
        self.is_chaotic() || !self.sharing.is_quiet()
    }

    /// Takes what was noted at the page into the log.
    pub(crate) fn take_noted(&mut self, memory: &ProcessMemory) {
        let Some(page) = &mut self.page else { return };
        let calls = match page.take_noted(memory) {
            Ok(calls) => calls,
            Err(reason) => return self.end(reason),
        };
        if calls.is_empty() || !self.is_active() {
            return;
        }
        for call in calls {
            self.log.push(Event::Call(call));
        }
        self.timeline.leave_frontier();
        self.keep_to_budget();
    }

    /// A call that was made at the page and not noted there, because its thread was stopped right behind it. What came of it
    /// that has to be looked at is, but the process is not copied.
    pub(crate) fn made_at_page(&mut self, call: &Made, memory: &ProcessMemory) {
        if !self.is_active() {
            return;
        }
        let &Made { number, arguments, pc, result } = call;
        let pending = PendingCall::new(number, arguments, pc, memory);
        match self.replay(&pending, result, memory) {
            Ok(Some(replay)) => {
                self.log.push(Event::Call(Call { number, arguments, pc, result, replay }));
                self.timeline.leave_frontier();
            }
            Ok(None) => {
                self.log.push(Event::Barrier { number, arguments, pc, result });
                self.end("a system call did something that cannot be repeated, while it was interrupted");
            }
            Err(unrepeatable) => self.end(unrepeatable.reason),
        }
    }

    /// The same where the process can be copied.
    pub(crate) fn handed_over(
        &mut self,
        thread: Stopped,
        call: &Made,
        memory: &ProcessMemory,
        overlay: &Overlay,
    ) -> Result<Stopped, TraceError> {
        let &Made { number, arguments, pc, result } = call;
        self.pending.insert(thread.tid(), PendingCall::new(number, arguments, pc, memory));
        self.left(thread, result, memory, overlay)
    }
}

/// A call that was made at the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) number: i64,
    pub(crate) arguments: [u64; 6],
    pub(crate) pc: u64,
    pub(crate) result: i64,
}

/// Whether memory is the page's, or of what leads there.
pub(crate) fn is_here(address: u64) -> bool {
    ROOM.contains(&address) || sites::is_here(address)
}

/// Whether some of the memory is.
pub(crate) fn overlaps(range: &std::ops::Range<u64>) -> bool {
    range.start < ROOM.end && ROOM.start < range.end || sites::overlaps(range)
}

/// Where the program makes the call that is told at `pc`, also where there is no page any more.
pub(crate) fn told_from(pc: u64, memory: &ProcessMemory) -> Result<u64, TraceError> {
    unwind::told_at(&call_page::addresses(), pc, memory).map(|told| match told {
        Told::Call { pc, .. } => pc,
        Told::HandedOver => pc,
    })
}

/// A thread as it is told of by SIGSYS because it is about to make a call.
pub(crate) fn is_told_of_call(thread: &Stopped) -> Result<bool, TraceError> {
    const SYS_USER_DISPATCH: i32 = 2;
    let info = thread.signal()?;
    Ok(info.number() == libc::SIGSYS && info.details().code == SYS_USER_DISPATCH)
}

/// Has a thread that is about to make a call come to its beginning, as if it were told by the system.
pub(crate) fn begin_call(thread: Stopped, pc: u64, number: u64) -> Result<sys::Event, TraceError> {
    let tid = thread.tid();
    let mut registers = thread.registers()?;
    registers.set("rip", Page::GATE);
    registers.set("rax", number);
    registers.set("orig_rax", u64::MAX);
    thread.set_registers(&registers)?;
    thread.resume(sys::Resume::Call, 0)?;
    let mut is_interrupted = false;
    loop {
        match sys::wait_for(tid)? {
            sys::Event::Call(thread) => {
                let mut registers = thread.registers()?;
                registers.set("rip", pc);
                registers.set("rcx", pc);
                thread.set_registers(&registers)?;
                return Ok(sys::Event::Call(if is_interrupted { thread.asked_to_stop()? } else { thread }));
            }
            // An interruption of ours: it stops in the call.
            sys::Event::Stop(thread, libc::SIGTRAP) => {
                is_interrupted = true;
                thread.resume(sys::Resume::Call, 0)?;
            }
            // A signal came first.
            sys::Event::Signal(thread, signal) => {
                stand_before(&thread, pc, number)?;
                return Ok(sys::Event::Signal(thread, signal));
            }
            // The whole process is being stopped.
            sys::Event::Stop(thread, signal) => {
                stand_before(&thread, pc, number)?;
                return Ok(sys::Event::Stop(thread, signal));
            }
            event => return Ok(event),
        }
    }
}

/// The thread stands before the call again.
fn stand_before(thread: &Stopped, pc: u64, number: u64) -> Result<(), TraceError> {
    const GOES_ON_WITH_WHAT_IS_LEFT: i64 = -516;
    let mut registers = thread.registers()?;
    if number == libc::SYS_restart_syscall as u64 {
        // Or rather, it stands in the call that was interrupted before.
        registers.set("rip", pc);
        registers.set("rax", GOES_ON_WITH_WHAT_IS_LEFT as u64);
        registers.set("orig_rax", number);
    } else {
        registers.set("rip", pc - SYSCALL_LENGTH);
        registers.set("rax", number);
        registers.set("orig_rax", u64::MAX);
    }
    thread.set_registers(&registers)
}
