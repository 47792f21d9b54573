//! A copy of a past state that is let run again: what came from outside comes from the log.

use std::{ops::Range, sync::Arc, time::Duration};

use hindcast_symbols::Memory as _;

use super::{Frozen, ReplayError, Running, alarm::Alarm, reel::Reel};
use crate::{
    process::Overlay,
    record::{self, Call, Event, Leaves, Log, MappedFile, Replay, Write},
    sys::{
        self, ALARM_MARK, DebugRegisters, INTERRUPT_MARK, ProcessInterrupt, ProcessMemory, Resume,
        SYSCALL_LENGTH, Stopped, Tid, TraceError, WatchKind,
    },
};

/// A process that lives through the past again.
pub(crate) struct Replica {
    pub(crate) frozen: Frozen,
    pub(crate) memory: ProcessMemory,
    pub(crate) overlay: Overlay,
    debug_registers: DebugRegisters,
    /// Where the code of landmarks stops it.
    pub(super) traps: Vec<u64>,
    /// Instructions that gave way to the jump of a landmark, and where their copies are.
    pub(super) detours: Vec<(u64, u64)>,
    /// Code of ours that reads the program's memory, and where it goes on where there is none.
    pub(super) escapes: Vec<(Range<u64>, u64)>,
    /// The last steps, where they are kept.
    pub(super) reel: Option<Reel>,
    /// Where breakpoint instructions are to be as soon as there is code: in libraries that are not loaded yet.
    awaited: Vec<u64>,
    /// How many events have happened to it.
    event: u64,
    /// Whether it stands in a call that was emulated, whose end is yet to come.
    in_call: bool,
    /// Whether it runs for a time. An alarm can come when nobody waits for it any more.
    timed: bool,
    interrupt: Arc<ProcessInterrupt>,
    running: Arc<Running>,
}

/// Why a replica stands still.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The event that was asked for has happened.
    Event,
    /// It made one step.
    Stepped,
    /// It stands before a breakpoint instruction.
    Breakpoint(u64),
    /// These debug registers tell of an access.
    Watch(Vec<usize>),
    /// What comes next cannot be replayed: a barrier, or the end of the log.
    Boundary,
    /// Somebody asked.
    Interrupted,
    /// The time that was given is over.
    Alarm,
}

/// How a replica is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advance {
    Run,
    Step,
}

/// The mapping calls of a replica find the file here, for the moment of the call.
const PATH_ROOM: u64 = 512;

impl Replica {
    pub(crate) fn new(frozen: Frozen, event: u64) -> Result<Self, TraceError> {
        let unopened = |source| TraceError::System { what: "cannot open the memory of a replica", source };
        let memory = ProcessMemory::open(frozen.tid()).map_err(unopened)?;
        let interrupt = Arc::new(ProcessInterrupt::new(frozen.tid())?);
        Ok(Self {
            frozen,
            memory,
            overlay: Overlay::default(),
            debug_registers: DebugRegisters::default(),
            traps: Vec::new(),
            detours: Vec::new(),
            escapes: Vec::new(),
            reel: None,
            awaited: Vec::new(),
            event,
            in_call: false,
            timed: false,
            interrupt,
            running: Running::of_this_thread(),
        })
    }

    pub(crate) fn event(&self) -> u64 {
        self.event
    }

    pub(crate) fn registers(&self) -> Result<sys::GeneralRegisters, TraceError> {
        self.frozen.registers()
    }

    pub(crate) fn pc(&self) -> Result<u64, TraceError> {
        Ok(self.registers()?.pc())
    }

    pub(crate) fn interrupt(&self) -> Arc<ProcessInterrupt> {
        self.interrupt.clone()
    }

    /// Another one that stands where this one does, without its breakpoints.
    pub(crate) fn fork(&mut self) -> Result<Frozen, TraceError> {
        let copy = self.frozen.fork()?;
        if let Ok(memory) = ProcessMemory::open(copy.tid()) {
            self.overlay.write_originals(&memory);
        }
        Ok(copy)
    }

    /// Another one that stands where this one does, to look at.
    pub(crate) fn stand_in(&mut self) -> Result<Self, TraceError> {
        Self::new(self.fork()?, self.event)
    }

    pub(crate) fn debug_registers(&self) -> DebugRegisters {
        self.debug_registers
    }

    pub(crate) fn set_debug_registers(&mut self, debug_registers: DebugRegisters) -> Result<(), TraceError> {
        if self.debug_registers != debug_registers {
            self.debug_registers = debug_registers;
            self.debug_registers.apply(self.frozen.thread()?)?;
        }
        Ok(())
    }

    pub(crate) fn watch(
        &mut self,
        address: u64,
        size: u64,
        kind: WatchKind,
    ) -> Result<Option<Vec<usize>>, TraceError> {
        let slots = self.debug_registers.watch(address, size, kind);
        self.debug_registers.apply(self.frozen.thread()?)?;
        Ok(slots)
    }

    pub(crate) fn unwatch(&mut self, slots: &[usize]) -> Result<(), TraceError> {
        self.debug_registers.release(slots);
        self.debug_registers.apply(self.frozen.thread()?)
    }

    /// The same as [`Self::advance`]; no steps are kept.
    pub(super) fn go_on(&mut self, log: &Log, how: Advance, until: u64) -> Result<Pause, ReplayError> {
        let here = self.pc()?;
        if !self.overlay.contains(here) {
            return self.resume(log, how, until);
        }
        self.overlay.lift(&self.memory, here);
        let pause = self.resume(log, Advance::Step, until);
        self.overlay.lower(&self.memory, here);
        match pause? {
            Pause::Stepped if how == Advance::Run => {
                // Its next instruction can have a breakpoint too, but not be executed yet.
                self.resume(log, Advance::Run, until)
            }
            pause => Ok(pause),
        }
    }

    /// How long it has computed since it began.
    pub(crate) fn time(&self) -> Duration {
        sys::cpu_time(self.frozen.tid()).unwrap_or_default()
    }

    /// Runs for about this long, not counting when others run. A breakpoint that it stands at is passed.
    pub(crate) fn run_for(&mut self, log: &Log, time: Duration, until: u64) -> Result<Pause, ReplayError> {
        let _alarm = self.alarm_in(time);
        self.timed = true;
        let pause = self.advance(log, Advance::Run, until);
        self.timed = false;
        pause
    }

    /// Stops it after so long, unless that is dropped before.
    pub(super) fn alarm_in(&self, time: Duration) -> Alarm {
        Alarm::set(self.interrupt(), self.frozen.tid(), time)
    }

    fn resume(&mut self, log: &Log, how: Advance, until: u64) -> Result<Pause, ReplayError> {
        if how == Advance::Run {
            return self.go(log, how, until);
        }
        self.settle()?;
        let pushes = sys::pushes_flags(&self.memory, self.pc()?);
        let pause = self.go(log, how, until)?;
        if pushes {
            sys::clean_pushed_flags(&self.memory, self.registers()?.sp());
        }
        Ok(pause)
    }

    fn go(&mut self, log: &Log, how: Advance, until: u64) -> Result<Pause, ReplayError> {
        loop {
            if let Some(&Event::Turn { to, leaves: Leaves::BehindEvent }) = log.get(self.event).as_deref() {
                self.turn(to)?;
                if how == Advance::Step {
                    self.settle()?;
                    return Ok(Pause::Stepped);
                }
                if self.event >= until {
                    self.settle()?;
                    return Ok(Pause::Event);
                }
                continue;
            }
            if how == Advance::Step
                && let Some(behind) = sys::behind_popped_flags(&self.memory, self.registers()?)
            {
                self.frozen.set_registers(&behind)?;
                return Ok(Pause::Stepped);
            }
            let kind = match how {
                Advance::Run => Resume::Emulate,
                Advance::Step => Resume::EmulateStep,
            };
            let waited = self.running.wait(&self.interrupt, || {
                self.frozen.take()?.resume(kind, 0)?;
                self.in_call = false;
                sys::wait_for(self.frozen.tid())
            });
            let Some(event) = waited else { return Ok(Pause::Interrupted) };
            let pause = match event? {
                sys::Event::Call(thread) => {
                    self.frozen.put(thread);
                    self.called(log)?
                }
                sys::Event::Signal(thread, signal) => {
                    let pause = self.signalled(&thread, signal, log);
                    self.frozen.put(thread);
                    pause?
                }
                sys::Event::Exited(..) | sys::Event::Killed(..) => return Err(TraceError::Gone.into()),
                sys::Event::Stop(thread, _)
                | sys::Event::Clone(thread, _)
                | sys::Event::Fork(thread, _)
                | sys::Event::Vfork(thread, _)
                | sys::Event::VforkDone(thread)
                | sys::Event::Exec(thread)
                | sys::Event::Other(thread) => {
                    self.frozen.put(thread);
                    None
                }
            };
            match pause {
                Some(Pause::Event) if how == Advance::Step => {
                    self.settle()?;
                    return Ok(Pause::Stepped);
                }
                Some(Pause::Event) if self.event >= until => {
                    self.settle()?;
                    return Ok(Pause::Event);
                }
                Some(Pause::Event) | None => {}
                Some(pause) => return Ok(pause),
            }
        }
    }

    /// Ends an emulated call, so that the next step is one of the program.
    fn settle(&mut self) -> Result<(), ReplayError> {
        if !std::mem::take(&mut self.in_call) {
            return Ok(());
        }
        let before = self.registers()?;
        self.frozen.take()?.resume(Resume::Step, 0)?;
        match sys::wait_for(self.frozen.tid())? {
            sys::Event::Signal(thread, libc::SIGTRAP) => self.frozen.put(thread),
            sys::Event::Signal(thread, _) | sys::Event::Stop(thread, _) => {
                // Somebody's interruption; the call has ended all the same.
                self.frozen.put(thread);
            }
            _ => return Err(TraceError::Gone.into()),
        }
        if self.pc()? != before.pc() {
            return Err(ReplayError::Diverged("an emulated call did not end where it began".into()));
        }
        Ok(())
    }

    /// A system call is about to be made.
    fn called(&mut self, log: &Log) -> Result<Option<Pause>, ReplayError> {
        self.in_call = true;
        let sys::Call::Entry { number, arguments, pc, .. } = self.frozen.thread()?.call()? else {
            return Ok(None);
        };
        let number = number as i64;
        let what = |expected: &str| {
            ReplayError::Diverged(format!(
                "event {}: system call {number} at {pc:#x}, where {expected} was recorded",
                self.event
            ))
        };
        let event = log.get(self.event);
        let call = match event.as_deref() {
            None => return Ok(Some(Pause::Boundary)),
            Some(event) if event.is_interruption() => return Ok(Some(Pause::Boundary)),
            Some(Event::Barrier { number: expected, pc: at, .. }) if (*expected, *at) == (number, pc) => {
                return Ok(Some(Pause::Boundary));
            }
            Some(Event::Interrupted { number: expected, pc: at, writes })
                if (*expected, *at) == (number, pc) =>
            {
                self.write(writes)?;
                self.stand_before_call(number, pc)?;
                self.event += 1;
                return Ok(Some(Pause::Event));
            }
            Some(&Event::Turn { to, leaves: Leaves::AtCall { number: expected, pc: at } })
                if (expected, at) == (number, pc) =>
            {
                self.stand_before_call(number, pc)?;
                self.turn(to)?;
                return Ok(Some(Pause::Event));
            }
            Some(Event::Left { pc: at, writes, to }) if (libc::SYS_exit, *at) == (number, pc) => {
                self.write(writes)?;
                if !self.frozen.turn_for_good(*to)? {
                    return Err(ReplayError::Diverged(format!("there is no thread {}", to.0)));
                }
                self.event += 1;
                return Ok(Some(Pause::Event));
            }
            Some(Event::Call(call)) => call,
            Some(Event::Unreadable) => return Err(ReplayError::unreadable(self.event)),
            Some(_) => return Err(what("something else")),
        };
        if call.number != number || call.pc != pc {
            return Err(what(&format!("{} at {:#x}", call.number, call.pc)));
        }
        if call.arguments != arguments {
            return Err(what(&format!("it with other arguments ({:x?})", call.arguments)));
        }
        self.replay(call)?;
        self.event += 1;
        Ok(Some(Pause::Event))
    }

    pub(super) fn replay(&mut self, call: &Call) -> Result<(), ReplayError> {
        match &call.replay {
            Replay::Emulate(writes) => self.write(writes)?,
            Replay::Real if call.number == libc::SYS_rt_sigreturn => return self.return_from_signal(call.pc),
            Replay::Real if call.number == libc::SYS_arch_prctl => {
                const ARCH_SET_GS: u64 = 0x1001;
                let [what, base, ..] = call.arguments;
                let mut registers = self.registers()?;
                registers.set(if what == ARCH_SET_GS { "gs_base" } else { "fs_base" }, base);
                self.frozen.set_registers(&registers)?;
            }
            Replay::Real => {
                let mut arguments = call.arguments;
                if call.number == libc::SYS_mremap {
                    arguments[3] |= (libc::MREMAP_FIXED | libc::MREMAP_MAYMOVE) as u64;
                    arguments[4] = call.result as u64;
                    if arguments[0] == arguments[4] {
                        arguments[3] = call.arguments[3] & !(libc::MREMAP_MAYMOVE as u64);
                    }
                }
                if call.number == libc::SYS_madvise && arguments[2] as i32 == libc::MADV_FREE {
                    arguments[2] = libc::MADV_DONTNEED as u64;
                }
                self.make(call, call.number, arguments)?;
            }
            Replay::Map(file) => {
                self.map(call, file.as_deref())?;
                self.arm_awaited(call);
            }
            Replay::Thread(made) => {
                self.write(&made.writes)?;
                self.frozen.enter(made.tid, made.actor.clone());
            }
        }
        let registers = record::after_call(self.registers()?, call.result);
        self.frozen.set_registers(&registers)?;
        Ok(())
    }

    /// Another thread runs from here on.
    fn turn(&mut self, to: Tid) -> Result<(), ReplayError> {
        if !self.frozen.turn(to)? {
            return Err(ReplayError::Diverged(format!("event {}: there is no thread {}", self.event, to.0)));
        }
        self.event += 1;
        Ok(())
    }

    fn write(&self, writes: &[Write]) -> Result<(), ReplayError> {
        for write in writes {
            self.memory.write(write.address, &write.bytes).map_err(|error| {
                ReplayError::Diverged(format!("what a system call wrote cannot be written: {error}"))
            })?;
        }
        Ok(())
    }

    /// An interrupted call will be made again, from its instruction on.
    fn stand_before_call(&self, number: i64, pc: u64) -> Result<(), TraceError> {
        let mut registers = self.registers()?;
        registers.set("rip", pc - SYSCALL_LENGTH);
        registers.set("rax", number as u64);
        registers.set("orig_rax", u64::MAX);
        self.frozen.set_registers(&registers)
    }

    /// Makes a call in the replica and holds its result against the first one.
    fn make(&mut self, call: &Call, number: i64, arguments: [u64; 6]) -> Result<(), ReplayError> {
        let result = self.frozen.call(number, arguments)?;
        self.in_call = false;
        if result == call.result {
            return Ok(());
        }
        Err(ReplayError::Diverged(format!(
            "system call {number} came to {result:#x}, and to {:#x} the first time",
            call.result
        )))
    }

    /// Puts a breakpoint instruction somewhere, now or when the code there is mapped.
    pub(crate) fn arm(&mut self, address: u64) {
        if self.overlay.insert(&self.memory, address).is_err() {
            self.awaited.push(address);
        }
    }

    /// Code was mapped: puts in what waited for it.
    fn arm_awaited(&mut self, call: &Call) {
        let [_, length, protection, ..] = call.arguments;
        // A loader maps a whole library first and its code into that: only there it is as it stays.
        if protection as i32 & libc::PROT_EXEC == 0 {
            return;
        }
        let mapped = call.result as u64..(call.result as u64).saturating_add(length);
        let (now, later) = self.awaited.drain(..).partition(|address| mapped.contains(address));
        self.awaited = later;
        let now: Vec<u64> = now;
        now.into_iter().for_each(|address| self.arm(address));
    }

    fn map(&mut self, call: &Call, file: Option<&MappedFile>) -> Result<(), ReplayError> {
        use std::os::fd::AsRawFd;
        let mut arguments = call.arguments;
        arguments[0] = call.result as u64;
        let kept = arguments[3] as i32 & !(libc::MAP_TYPE | libc::MAP_FIXED_NOREPLACE);
        arguments[3] = (kept | libc::MAP_FIXED | libc::MAP_PRIVATE) as u64;
        let Some(file) = file else { return self.make(call, libc::SYS_mmap, arguments) };
        if file.is_changed() {
            return Err(ReplayError::changed(file));
        }
        let path = format!("/proc/{}/fd/{}\0", std::process::id(), file.file().as_raw_fd());
        let room = self.registers()?.sp().wrapping_sub(PATH_ROOM);
        let mut before = vec![0; path.len()];
        let unwritable =
            |error| ReplayError::Diverged(format!("there is no room to map a file again: {error}"));
        self.memory.read(room, &mut before).map_err(unwritable)?;
        self.memory.write(room, path.as_bytes()).map_err(unwritable)?;
        let descriptor = self.frozen.call(libc::SYS_open, [room, libc::O_RDONLY as u64, 0, 0, 0, 0])?;
        self.memory.write(room, &before).map_err(unwritable)?;
        if descriptor < 0 {
            return Err(ReplayError::Diverged("a mapped file cannot be opened again".into()));
        }
        arguments[4] = descriptor as u64;
        let made = self.make(call, libc::SYS_mmap, arguments);
        self.frozen.call(libc::SYS_close, [descriptor as u64, 0, 0, 0, 0, 0])?;
        made
    }

    /// The system takes the registers from the stack, so that the call is made where it stands.
    fn return_from_signal(&mut self, pc: u64) -> Result<(), ReplayError> {
        self.stand_before_call(libc::SYS_rt_sigreturn, pc)?;
        self.in_call = false;
        // The first step only ends the emulated call.
        for _ in 0..4 {
            self.frozen.take()?.resume(Resume::Step, 0)?;
            let sys::Event::Signal(thread, _) = sys::wait_for(self.frozen.tid())? else {
                return Err(TraceError::Gone.into());
            };
            self.frozen.put(thread);
            if self.pc()? != pc - SYSCALL_LENGTH {
                return Ok(());
            }
        }
        Err(ReplayError::Diverged("a signal handler did not return".into()))
    }

    fn signalled(&mut self, thread: &Stopped, signal: i32, log: &Log) -> Result<Option<Pause>, ReplayError> {
        let details = thread.signal_details()?;
        match signal {
            libc::SIGSTOP if details.value == Some(INTERRUPT_MARK) => Ok(Some(Pause::Interrupted)),
            libc::SIGSTOP if details.value == Some(ALARM_MARK) => Ok(self.timed.then_some(Pause::Alarm)),
            libc::SIGSTOP => Ok(None),
            libc::SIGTRAP if details.code == libc::SI_KERNEL => self.trapped(thread, log),
            libc::SIGTRAP => {
                let hits = match self.debug_registers.is_empty() {
                    true => Vec::new(),
                    false => DebugRegisters::hits(thread)?,
                };
                Ok(Some(if hits.is_empty() { Pause::Stepped } else { Pause::Watch(hits) }))
            }
            libc::SIGILL if self.detour(thread)? => Ok(None),
            libc::SIGSEGV | libc::SIGBUS if self.escape(thread)? => Ok(None),
            signal => self.faulted(thread, signal, log),
        }
    }

    /// Where the program jumped to an instruction that gave way to a landmark, it goes on with the copy.
    fn detour(&self, thread: &Stopped) -> Result<bool, TraceError> {
        let mut registers = thread.registers()?;
        let Some(&(_, copy)) = self.detours.iter().find(|(address, _)| *address == registers.pc()) else {
            return Ok(false);
        };
        registers.set("rip", copy);
        thread.set_registers(&registers)?;
        Ok(true)
    }

    /// Where our own code could not read the program's memory, it goes on with what it does then.
    fn escape(&self, thread: &Stopped) -> Result<bool, TraceError> {
        if self.escapes.is_empty() {
            return Ok(false);
        }
        let mut registers = thread.registers()?;
        let Some((_, next)) = self.escapes.iter().find(|(code, _)| code.contains(&registers.pc())) else {
            return Ok(false);
        };
        registers.set("rip", *next);
        thread.set_registers(&registers)?;
        Ok(true)
    }

    fn trapped(&mut self, thread: &Stopped, log: &Log) -> Result<Option<Pause>, ReplayError> {
        let mut registers = thread.registers()?;
        let site = registers.pc().wrapping_sub(1);
        if self.overlay.contains(site) {
            registers.set("rip", site);
            thread.set_registers(&registers)?;
            return Ok(Some(Pause::Breakpoint(site)));
        }
        if self.traps.contains(&site) {
            return Ok(Some(Pause::Breakpoint(site)));
        }
        // The program's own, which is a signal like others.
        self.faulted(thread, libc::SIGTRAP, log)
    }

    fn faulted(&mut self, thread: &Stopped, signal: i32, log: &Log) -> Result<Option<Pause>, ReplayError> {
        let registers = thread.registers()?;
        match log.get(self.event).as_deref() {
            Some(Event::Answer(answer)) if answer.pc == registers.pc() && signal == libc::SIGSEGV => {
                thread.set_registers(&record::apply(answer, registers))?;
                self.event += 1;
                Ok(Some(Pause::Event))
            }
            None => Ok(Some(Pause::Boundary)),
            Some(Event::Unreadable) => Err(ReplayError::unreadable(self.event)),
            Some(Event::Signal { number, .. }) if *number == signal => Ok(Some(Pause::Boundary)),
            Some(Event::Turn { leaves: Leaves::Anywhere, .. }) => Ok(Some(Pause::Boundary)),
            Some(_) => Err(ReplayError::Diverged(format!(
                "event {}: signal {signal} at {:#x}, which was not recorded",
                self.event,
                registers.pc()
            ))),
        }
    }
}
