//! Writes down what a live process is told from outside, and copies it from time to time.

use std::{
    collections::HashMap,
    fs::File,
    os::unix::fs::{FileExt as _, MetadataExt},
    rc::Rc,
    time::{Duration, Instant},
};

use super::{
    calls::{self, Effect, Out},
    log::{Call, Event, Log, Replay, Write},
    metronome::Metronome,
    running::{self, Taken},
};
use crate::{
    process::Overlay,
    replay::{Kin, Timeline, copy_live},
    sys::{self, GeneralRegisters, ProcessMemory, SignalInfo, Stopped, Tid, TraceError},
};

/// The recording of one process.
pub(crate) struct Recorder {
    pub(crate) log: Log,
    pub(crate) timeline: Timeline,
    process: Tid,
    /// Where a system call instruction is.
    gate: u64,
    pending: Option<PendingCall>,
    /// A call that was interrupted, and will be made again under another name.
    interrupted: Option<PendingCall>,
    files: HashMap<(u64, u64), Rc<File>>,
    /// Whether the process shares memory with others.
    shares: bool,
    /// Why nothing more is recorded.
    ended: Option<String>,
    /// Whether the program went on after that.
    went_on: bool,
    metronome: Metronome,
    /// Of the process, up to the last checkpoint.
    faults: u64,
    /// Signals that came while the process worked for us.
    held: Vec<SignalInfo>,
    /// What the log may take in memory.
    budget: u64,
    /// What a process that we did not start had before.
    taken: Option<Taken>,
}

#[derive(Debug, Clone, Copy)]
struct PendingCall {
    number: i64,
    arguments: [u64; 6],
    pc: u64,
    effect: Effect,
    /// Whether an argument was changed on its way to the system.
    advice: Option<u64>,
}

/// What may be taken for the log, unless told otherwise.
const BUDGET: u64 = 512 << 20;
/// What it costs that a page which a checkpoint shares has to be copied when it is written.
const FAULT: Duration = Duration::from_micros(10);
/// More than any call writes at once that is not counted by its result.
const LONGEST_NAMED: u64 = 1 << 20;

impl Recorder {
    /// Makes a process that has just become a program repeatable, and begins to record it.
    pub(crate) fn start(leader: Stopped, overlay: &Overlay) -> Result<(Self, Stopped), TraceError> {
        let mut recorder = Self::new(leader.tid())?;
        let leader = super::tame(leader, recorder.gate)?;
        let leader = recorder.checkpoint(leader, overlay, false)?;
        Ok((recorder, leader))
    }

    /// The same with a process that was running already; [`Self::let_go`] undoes it.
    pub(crate) fn join(leader: Stopped, overlay: &Overlay) -> Result<(Self, Stopped), TraceError> {
        let mut recorder = Self::new(leader.tid())?;
        let (leader, taken) = running::take(leader, recorder.gate, &mut recorder.held)?;
        recorder.taken = Some(taken);
        let mappings = sys::mappings(recorder.process).map_err(|_| TraceError::Gone)?;
        recorder.shares = mappings.iter().any(|mapping| mapping.permissions.starts_with("rw-s"));
        recorder.interrupted = interrupted_call(&leader.registers()?);
        let leader = recorder.checkpoint(leader, overlay, false)?;
        let leader = recorder.rest(leader)?;
        Ok((recorder, leader))
    }

    /// A process that we did not start would survive us where it stands.
    pub(crate) fn rest(&mut self, thread: Stopped) -> Result<Stopped, TraceError> {
        if self.taken.is_some() { sys::rest(thread, &mut self.held) } else { Ok(thread) }
    }

    /// The process goes on without us, as it was.
    pub(crate) fn let_go(&mut self, thread: Stopped) -> Result<Stopped, TraceError> {
        match self.taken.take() {
            Some(taken) => running::give_back(thread, self.gate, &taken, &mut self.held),
            None => Ok(thread),
        }
    }

    /// A recording that was made before, of which this process is a copy. It does not go on. `reason` is why it ended before
    /// the program stopped.
    pub(crate) fn opened(
        process: Tid,
        (log, timeline): (Log, Timeline),
        reason: Option<String>,
        traps: bool,
    ) -> Result<Self, TraceError> {
        let went_on = reason.is_some();
        let ended = reason.unwrap_or_else(|| "it is a recording from a file, which ends here".into());
        let (ended, taken) = (Some(ended), (!traps).then(Taken::default));
        Ok(Self { log, timeline, ended, went_on, taken, ..Self::with_gate(process, 0)? })
    }

    /// Whether instructions trap whose answer is never the same twice.
    pub(crate) fn traps_instructions(&self) -> bool {
        self.taken.is_none()
    }

    fn new(process: Tid) -> Result<Self, TraceError> {
        Self::with_gate(process, super::gate(process)?)
    }

    fn with_gate(process: Tid, gate: u64) -> Result<Self, TraceError> {
        Ok(Self {
            log: Log::default(),
            timeline: Timeline::default(),
            process,
            gate,
            pending: None,
            interrupted: None,
            files: HashMap::new(),
            shares: false,
            ended: None,
            went_on: false,
            metronome: Metronome::start(process)?,
            faults: 0,
            held: Vec::new(),
            budget: BUDGET,
            taken: None,
        })
    }

    pub(crate) fn is_active(&self) -> bool {
        self.ended.is_none()
    }

    pub(crate) fn why_ended(&self) -> Option<&str> {
        self.ended.as_deref()
    }

    /// The same where the program went on, so that there is more than can be visited.
    pub(crate) fn why_incomplete(&self) -> Option<&str> {
        self.ended.as_deref().filter(|_| self.went_on)
    }

    pub(crate) fn gate(&self) -> u64 {
        self.gate
    }

    pub(crate) fn metronome(&self) -> &Metronome {
        &self.metronome
    }

    /// Signals that are still to be delivered.
    pub(crate) fn take_held(&mut self) -> Vec<SignalInfo> {
        std::mem::take(&mut self.held)
    }

    pub(crate) fn held_mut(&mut self) -> &mut Vec<SignalInfo> {
        &mut self.held
    }

    /// The user changed the program's memory or registers.
    pub(crate) fn edited(&mut self) {
        self.log.push(Event::Edit);
        self.timeline.leave_frontier();
    }

    /// Nothing is recorded from here on.
    pub(crate) fn end(&mut self, reason: impl Into<String>) {
        self.ended.get_or_insert_with(|| reason.into());
        self.went_on = true;
        self.timeline.leave_frontier();
    }

    /// A system call begins or ends. Returns the thread, and whether the call is over.
    pub(crate) fn called(
        &mut self,
        thread: Stopped,
        memory: &ProcessMemory,
        overlay: &Overlay,
    ) -> Result<(Stopped, bool), TraceError> {
        match thread.call()? {
            sys::Call::Entry { number, arguments, pc } => {
                self.entered(&thread, number as i64, arguments, pc, memory)?;
                Ok((thread, false))
            }
            sys::Call::Exit { result } => Ok((self.left(thread, result, memory, overlay)?, true)),
            sys::Call::None => Ok((thread, true)),
        }
    }

    fn entered(
        &mut self,
        thread: &Stopped,
        number: i64,
        arguments: [u64; 6],
        pc: u64,
        memory: &ProcessMemory,
    ) -> Result<(), TraceError> {
        if number == libc::SYS_restart_syscall
            && let Some(interrupted) = self.interrupted.take()
        {
            self.pending = Some(interrupted);
            return Ok(());
        }
        self.interrupted = None;
        let mut call = PendingCall { number, arguments, pc, effect: calls::effect(number), advice: None };
        if call.effect == Effect::Control {
            call.effect = calls::control(number, &arguments);
        }
        match call.effect {
            Effect::Refused
                if number == libc::SYS_rseq && super::is_left(super::Wild::RestartableSequence) =>
            {
                call.effect = Effect::Result;
            }
            Effect::Refused => {
                let mut registers = thread.registers()?;
                registers.set("orig_rax", u64::MAX);
                thread.set_registers(&registers)?;
                call.effect = Effect::Result;
            }
            Effect::Exit => {
                self.log.push(Event::Barrier { number, arguments, pc, result: 0 });
                self.timeline.leave_frontier();
            }
            Effect::Spawn => call.effect = self.cloning(number, &arguments, pc, memory),
            Effect::Space if number == libc::SYS_madvise && arguments[2] as i32 == libc::MADV_FREE => {
                // When such memory really goes is up to the system; at once is as good to the program.
                let mut registers = thread.registers()?;
                registers.set("rdx", libc::MADV_DONTNEED as u64);
                thread.set_registers(&registers)?;
                call.advice = Some(arguments[2]);
            }
            _ => {}
        }
        self.pending = Some(call);
        Ok(())
    }

    /// What the making of a process comes to; a thread ends the recording.
    fn cloning(&mut self, number: i64, arguments: &[u64; 6], pc: u64, memory: &ProcessMemory) -> Effect {
        let flags = match number {
            libc::SYS_clone => arguments[0],
            libc::SYS_clone3 => read_word(memory, arguments[0]).unwrap_or(0),
            libc::SYS_vfork => (libc::CLONE_VM | libc::CLONE_VFORK) as u64,
            _ => 0,
        };
        let has = |flag: i32| flags & flag as u64 != 0;
        if has(libc::CLONE_THREAD) || has(libc::CLONE_VM) && !has(libc::CLONE_VFORK) {
            self.log.push(Event::Barrier { number, arguments: *arguments, pc, result: 0 });
            self.end("the program started a thread, and only programs of one thread are recorded");
            return Effect::Barrier;
        }
        if has(libc::CLONE_VM) {
            // The new process writes to this one's memory.
            return Effect::Barrier;
        }
        match number {
            libc::SYS_clone => Effect::Writes(&[Out::Fixed(2, 4)]),
            libc::SYS_clone3 => Effect::Barrier,
            _ => Effect::Result,
        }
    }

    fn left(
        &mut self,
        thread: Stopped,
        result: i64,
        memory: &ProcessMemory,
        overlay: &Overlay,
    ) -> Result<Stopped, TraceError> {
        let Some(call) = self.pending.take() else { return Ok(thread) };
        if !self.is_active() {
            return Ok(thread);
        }
        if sys::restarts(result) {
            self.interrupted = Some(call);
            return Ok(thread);
        }
        if let Some(advice) = call.advice {
            let mut registers = thread.registers()?;
            registers.set("rdx", advice);
            thread.set_registers(&registers)?;
        }
        let PendingCall { number, arguments, pc, .. } = call;
        let replay = match call.effect {
            Effect::Result if number == libc::SYS_write && matches!(arguments[0], 1 | 2) => {
                Some(Replay::Emulate(printed(memory, &arguments, result)))
            }
            Effect::Result => Some(Replay::Emulate(Box::default())),
            Effect::Writes(outs) => written(memory, outs, &arguments, result).map(Replay::Emulate),
            Effect::SignalReturn => Some(Replay::Real),
            Effect::Space => self.space(number, &arguments, result),
            _ => None,
        };
        let Some(replay) = replay else {
            self.log.push(Event::Barrier { number, arguments, pc, result });
            return self.checkpoint(thread, overlay, false);
        };
        self.log.push(Event::Call(Call { number, arguments, pc, result, replay }));
        self.timeline.leave_frontier();
        self.keep_to_budget();
        if self.metronome.is_due() { self.checkpoint(thread, overlay, false) } else { Ok(thread) }
    }

    /// How a change of the address space is replayed; `None` where it cannot be.
    fn space(&mut self, number: i64, arguments: &[u64; 6], result: i64) -> Option<Replay> {
        const FAILED: std::ops::Range<i64> = -4095..0;
        if FAILED.contains(&result) {
            return Some(Replay::Emulate(Box::default()));
        }
        if number != libc::SYS_mmap {
            return Some(Replay::Real);
        }
        let [_, _, protection, flags, descriptor, _] = *arguments;
        let (flags, descriptor) = (flags as i32, descriptor as i32);
        let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
        if shared && protection as i32 & libc::PROT_WRITE != 0 {
            self.shares = true;
        }
        if flags & libc::MAP_ANONYMOUS != 0 {
            return Some(Replay::Map(None));
        }
        let file = self.file(descriptor)?;
        Some(Replay::Map(Some(file)))
    }

    /// The file behind a descriptor of the process, to be mapped again later.
    fn file(&mut self, descriptor: i32) -> Option<Rc<File>> {
        let path = format!("/proc/{}/fd/{descriptor}", self.process.0);
        let data = std::fs::metadata(&path).ok()?;
        if !data.is_file() {
            return None;
        }
        let identity = (data.dev(), data.ino());
        if let Some(file) = self.files.get(&identity) {
            return Some(file.clone());
        }
        let file = Rc::new(File::open(&path).ok()?);
        // A file that cannot be read can be mapped by who opened it, but not by us.
        file.read_at(&mut [0], 0).ok()?;
        self.files.insert(identity, file.clone());
        Some(file)
    }

    /// Copies the process as it is now. With `asynchronous` it is not right behind an event.
    pub(crate) fn checkpoint(
        &mut self,
        thread: Stopped,
        overlay: &Overlay,
        asynchronous: bool,
    ) -> Result<Stopped, TraceError> {
        let begun = Instant::now();
        let kin = if self.taken.is_some() { Kin::Orphan } else { Kin::Ours };
        let copied = copy_live(thread, self.gate, overlay, self.shares, kin)?;
        self.held.extend(copied.held);
        let time = sys::cpu_time(self.process).ok();
        self.timeline.push(copied.copy, self.log.len(), !asynchronous, time);
        let faults = sys::minor_faults(self.process).unwrap_or(self.faults);
        let copied_pages = u32::try_from(faults.saturating_sub(self.faults)).unwrap_or(u32::MAX);
        self.faults = faults;
        self.metronome.restart(begun.elapsed() + FAULT.saturating_mul(copied_pages));
        self.timeline.thin(&self.log);
        self.keep_to_budget();
        Ok(copied.original)
    }

    /// Makes sure that where the process stands now has a name.
    pub(crate) fn anchor(&mut self, thread: Stopped, overlay: &Overlay) -> Result<Stopped, TraceError> {
        if !self.is_active() || self.timeline.frontier().is_some() {
            return Ok(thread);
        }
        self.checkpoint(thread, overlay, true)
    }

    /// The same before something that comes between two instructions: nothing but an anchor of its own tells when that was.
    pub(crate) fn anchor_exactly(
        &mut self,
        thread: Stopped,
        overlay: &Overlay,
    ) -> Result<Stopped, TraceError> {
        if !self.is_active() || self.timeline.frontier().is_some_and(|position| position.steps == 0) {
            return Ok(thread);
        }
        self.checkpoint(thread, overlay, true)
    }

    /// A signal is about to be handled: history goes on in the handler.
    pub(crate) fn signalled(&mut self, number: i32) {
        self.log.push(Event::Signal { number });
        self.timeline.leave_frontier();
    }

    /// The process has just become another program.
    pub(crate) fn executed(&mut self, thread: Stopped, overlay: &Overlay) -> Result<Stopped, TraceError> {
        let call = self.pending.take();
        if !self.is_active() {
            return Ok(thread);
        }
        if let Some(PendingCall { number, arguments, pc, .. }) = call {
            self.log.push(Event::Barrier { number, arguments, pc, result: 0 });
        }
        self.shares = false;
        self.gate = super::gate(self.process)?;
        let thread = match &mut self.taken {
            None => super::tame(thread, self.gate)?,
            Some(taken) => {
                *taken = Taken::default();
                super::hide_kernel_functions(&thread)?;
                thread
            }
        };
        self.checkpoint(thread, overlay, false)
    }

    /// Answers an instruction whose answer is never the same twice, if that is what failed.
    pub(crate) fn answered(&mut self, thread: &Stopped, memory: &ProcessMemory) -> Result<bool, TraceError> {
        let registers = thread.registers()?;
        let Some(event) = super::instructions::answer(&registers, memory) else { return Ok(false) };
        thread.set_registers(&super::instructions::apply(&event, registers))?;
        if self.is_active() {
            self.log.push(event);
            self.timeline.leave_frontier();
        }
        Ok(true)
    }

    fn keep_to_budget(&mut self) {
        while (self.log.bytes() > self.budget || self.timeline.is_full())
            && let Some(event) = self.timeline.forget_first()
        {
            self.log.forget_before(event);
        }
    }
}

/// The call in which a process was stopped that will be made again, under another name where it has to go on with what is
/// left of it.
fn interrupted_call(registers: &GeneralRegisters) -> Option<PendingCall> {
    let value = |name: &str| registers.get(name).unwrap_or_default();
    let number = value("orig_rax") as i64;
    let arguments = ["rdi", "rsi", "rdx", "r10", "r8", "r9"].map(value);
    (number >= 0 && sys::restarts(value("rax") as i64)).then(|| PendingCall {
        number,
        arguments,
        pc: registers.pc(),
        effect: calls::effect(number),
        advice: None,
    })
}

fn read_word(memory: &ProcessMemory, address: u64) -> Option<u64> {
    let mut word = [0; 8];
    (memory.read_some(address, &mut word) == 8).then(|| u64::from_le_bytes(word))
}

/// The beginning of what was printed, for the timeline: written back where it is, it changes nothing. Of errors it is
/// enough for the message of a panic.
fn printed(memory: &ProcessMemory, arguments: &[u64; 6], result: i64) -> Box<[Write]> {
    let shown = if arguments[0] == 2 { 1024 } else { 64 };
    let mut writes = Vec::new();
    push(&mut writes, memory, arguments[1], u64::try_from(result).unwrap_or(0).min(shown));
    writes.into()
}

/// What a call wrote; `None` where that cannot be told.
fn written(memory: &ProcessMemory, outs: &[Out], arguments: &[u64; 6], result: i64) -> Option<Box<[Write]>> {
    let mut writes = Vec::new();
    let count = u64::try_from(result).unwrap_or(0);
    for &out in outs {
        match out {
            Out::Fixed(at, size) => push(&mut writes, memory, arguments[at], size),
            Out::Result(at) => push(&mut writes, memory, arguments[at], count),
            Out::ResultTimes(at, size) => {
                push(&mut writes, memory, arguments[at], count.saturating_mul(size));
            }
            Out::Counted(at, number, size) => {
                let length = arguments[number].saturating_mul(size).min(LONGEST_NAMED);
                push(&mut writes, memory, arguments[at], length);
            }
            Out::Length(at, length) if arguments[length] != 0 => {
                let told = read_word(memory, arguments[length])? as u32;
                push(&mut writes, memory, arguments[length], 4);
                push(&mut writes, memory, arguments[at], u64::from(told).min(LONGEST_NAMED));
            }
            Out::Length(..) => {}
            Out::Vectors(at, number) => {
                vectors(&mut writes, memory, arguments[at], arguments[number], count)?;
            }
            Out::Message(at) => message(&mut writes, memory, arguments[at], count)?,
        }
    }
    Some(writes.into())
}

fn push(writes: &mut Vec<Write>, memory: &ProcessMemory, address: u64, length: u64) {
    if address == 0 || length == 0 {
        return;
    }
    let mut bytes = vec![0; length as usize];
    let count = memory.read_some(address, &mut bytes);
    bytes.truncate(count);
    if count > 0 {
        writes.push(Write { address, bytes: bytes.into() });
    }
}

fn vectors(
    writes: &mut Vec<Write>,
    memory: &ProcessMemory,
    list: u64,
    count: u64,
    mut remaining: u64,
) -> Option<()> {
    for index in 0..count.min(1024) {
        if remaining == 0 {
            break;
        }
        let base = read_word(memory, list + 16 * index)?;
        let length = read_word(memory, list + 16 * index + 8)?.min(remaining);
        push(writes, memory, base, length);
        remaining -= length;
    }
    Some(())
}

fn message(writes: &mut Vec<Write>, memory: &ProcessMemory, header: u64, count: u64) -> Option<()> {
    const HEADER: u64 = 56;
    push(writes, memory, header, HEADER);
    let word = |offset: u64| read_word(memory, header + offset);
    push(writes, memory, word(0)?, (word(8)? & 0xffff_ffff).min(128));
    push(writes, memory, word(32)?, word(40)?.min(LONGEST_NAMED));
    vectors(writes, memory, word(16)?, word(24)?, count)
}

/// What the registers are that a program sees, without what only the system keeps in them.
pub(crate) fn visible(registers: &GeneralRegisters) -> [u64; 27] {
    let mut registers = *registers;
    registers.set("orig_rax", u64::MAX);
    registers.words()
}
