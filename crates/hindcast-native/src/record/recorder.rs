//! Writes down what a live process is told from outside, and copies it from time to time.

use std::{
    collections::{BTreeSet, HashMap},
    os::unix::fs::MetadataExt as _,
    time::{Duration, Instant},
};

use super::{
    calls::Effect,
    log::{BUDGET, Call, Event, Log},
    metronome::Metronome,
    page::Page,
    pending_call::PendingCall,
    random_numbers::made_executable,
    running::Taken,
    sharing::Sharing,
    threads::Threads,
    written::read_word,
};
use crate::{
    process::Overlay,
    replay::{Follower, Gates, Kin, Timeline, copy_live},
    sys::{self, GeneralRegisters, ProcessMemory, SignalDetails, SignalInfo, Stopped, Tid, TraceError},
};

/// The recording of one process.
pub(crate) struct Recorder {
    pub(crate) log: Log,
    pub(crate) timeline: Timeline,
    pub(super) process: Tid,
    /// Where a system call instruction is.
    pub(super) gate: u64,
    /// What each thread is in.
    pub(super) pending: HashMap<Tid, PendingCall>,
    /// Calls that were interrupted, and will be made again under another name.
    pub(super) interrupted: HashMap<Tid, PendingCall>,
    pub(super) threads: Threads,
    pub(super) sharing: Sharing,
    /// Whether the process may not open what we can: its copies cannot map files again.
    pub(super) confined: bool,
    /// Lives through the recording right behind the process, where that is asked for.
    pub(super) follower: Option<Follower>,
    /// Why nothing more is recorded.
    ended: Option<String>,
    /// Whether the program went on after that.
    went_on: bool,
    metronome: Metronome,
    /// Of the process, up to the last checkpoint.
    faults: u64,
    /// Signals that came while the process worked for us.
    pub(super) held: Vec<SignalInfo>,
    /// Until the process has computed for so long it gets no signal: it would otherwise do nothing but handle them.
    spared_until: Option<Duration>,
    /// What the log may take.
    budget: u64,
    /// What a process that was running before had then.
    pub(super) taken: Option<Taken>,
    /// Whether the process has to survive us, because we did not start it.
    pub(super) is_gentle: bool,
    /// Where instructions for random numbers gave way to one that traps.
    pub(super) random_numbers: BTreeSet<u64>,
    /// Where the process makes frequent calls.
    pub(super) page: Option<Page>,
}

/// What it costs that a page which a checkpoint shares has to be copied when it is written.
const FAULT: Duration = Duration::from_micros(10);
/// What copies of shared memory may take, all together.
const COPIES_BUDGET: u64 = 1 << 30;

impl Recorder {
    /// Makes a process that has just become a program repeatable, and begins to record it.
    pub(crate) fn start(leader: Stopped, overlay: &Overlay) -> Result<(Self, Stopped), TraceError> {
        let mut recorder = Self::new(leader.tid())?;
        let leader = super::tame(leader, recorder.gate)?;
        // One that sets its user may not open what we can.
        recorder.confined = !sys::is_our_equal(recorder.process);
        recorder.sharing.on_start();
        recorder.know_program()?;
        let leader = recorder.set_up_page(leader)?;
        let leader = recorder.checkpoint(leader, overlay, false)?;
        Ok((recorder, leader))
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
        let (ended, is_gentle) = (Some(ended), !traps);
        Ok(Self { log, timeline, ended, went_on, is_gentle, ..Self::with_gate(process, 0)? })
    }

    /// Whether instructions trap whose answer is never the same twice.
    pub(crate) fn traps_instructions(&self) -> bool {
        !self.is_gentle
    }

    /// The process has just become a program.
    fn know_program(&mut self) -> Result<(), TraceError> {
        self.note_mapped_files();
        let memory = ProcessMemory::open(self.process).map_err(|_| TraceError::Gone)?;
        self.take_out_random_numbers(&memory, &(0..u64::MAX));
        Ok(())
    }

    /// Remembers how the files are that the system mapped for the program.
    pub(super) fn note_mapped_files(&mut self) {
        for mapping in sys::mappings(self.process).unwrap_or_default() {
            let data = std::fs::metadata(&mapping.name);
            if mapping.inode != 0 && data.is_ok_and(|data| data.ino() == mapping.inode) {
                // One that we may not read is not looked at.
                let _ = self.log.files.open(&mapping.name);
            }
        }
    }

    pub(super) fn new(process: Tid) -> Result<Self, TraceError> {
        Self::with_gate(process, super::gate(process)?)
    }

    fn with_gate(process: Tid, gate: u64) -> Result<Self, TraceError> {
        Ok(Self {
            log: Log::default(),
            timeline: Timeline::default(),
            process,
            gate,
            pending: HashMap::new(),
            interrupted: HashMap::new(),
            threads: Threads::new(process),
            sharing: Sharing::new(process),
            confined: false,
            follower: None,
            ended: None,
            went_on: false,
            metronome: Metronome::start(process)?,
            faults: 0,
            held: Vec::new(),
            spared_until: None,
            budget: BUDGET,
            taken: None,
            is_gentle: false,
            random_numbers: BTreeSet::new(),
            page: None,
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

    /// Whether it is time for another checkpoint.
    pub(crate) fn is_due(&self) -> bool {
        self.metronome.is_due(self.log.len())
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

    /// A signal was delivered, which took us so long. The program is to have as much time for itself.
    pub(crate) fn spare(&mut self, cost: Duration) {
        self.spared_until = sys::cpu_time(self.process).ok().map(|now| now + cost);
    }

    /// Whether a signal should wait.
    pub(crate) fn is_spared(&self) -> bool {
        self.is_active()
            && self.spared_until.is_some_and(|until| sys::cpu_time(self.process).is_ok_and(|now| now < until))
    }

    /// The user changed the program's memory or registers.
    pub(crate) fn edited(&mut self) {
        self.log.push(Event::Edit);
        self.timeline.leave_frontier();
    }

    /// Nothing is recorded from here on.
    pub(crate) fn end(&mut self, reason: impl Into<String>) {
        if self.is_active() {
            self.put_page_away();
            self.timeline.end_at(sys::cpu_time(self.process).ok());
        }
        self.ended.get_or_insert_with(|| reason.into());
        self.follower = None;
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
            sys::Call::Entry { number, arguments, pc, is_32_bit } => {
                let call = match is_32_bit {
                    true => PendingCall::of_32_bits(number as i64, arguments, pc),
                    false => PendingCall::new(number as i64, arguments, pc, memory),
                };
                self.stands_before_call(&thread, &call)?;
                self.entered(&thread, call, memory, overlay)?;
                Ok((thread, false))
            }
            sys::Call::Exit { result } => Ok((self.left(thread, result, memory, overlay)?, true)),
            sys::Call::None => Ok((thread, true)),
        }
    }

    fn entered(
        &mut self,
        thread: &Stopped,
        mut call: PendingCall,
        memory: &ProcessMemory,
        overlay: &Overlay,
    ) -> Result<(), TraceError> {
        let PendingCall { number, arguments, pc, .. } = call;
        if number == libc::SYS_restart_syscall
            && let Some(interrupted) = self.interrupted.remove(&thread.tid())
        {
            self.pending.insert(thread.tid(), interrupted);
            return Ok(());
        }
        self.interrupted.remove(&thread.tid());
        self.watch_openings(&call);
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
            Effect::Exit if number == libc::SYS_exit && self.threads.has_others() => {
                if thread.tid() == self.process && self.is_active() {
                    self.log.push(Event::Barrier { number, arguments, pc, result: 0 });
                    self.end("the program's first thread ended before the others");
                } else {
                    call.effect = Effect::Leave;
                }
            }
            Effect::Exit => {
                self.follow_to_end(thread, overlay)?;
                self.log.push(Event::Barrier { number, arguments, pc, result: 0 });
                self.timeline.end_at(sys::cpu_time(self.process).ok());
                self.timeline.leave_frontier();
            }
            Effect::Spawn => call.effect = self.cloning(&call, memory),
            _ => {}
        }
        self.redirect(thread, &mut call, memory)?;
        self.pending.insert(thread.tid(), call);
        Ok(())
    }

    pub(super) fn left(
        &mut self,
        thread: Stopped,
        result: i64,
        memory: &ProcessMemory,
        overlay: &Overlay,
    ) -> Result<Stopped, TraceError> {
        let Some(mut call) = self.pending.remove(&thread.tid()) else { return Ok(thread) };
        call.copy_back(&thread, result, memory)?;
        self.clears(thread.tid(), &call);
        self.goes_on(thread.tid());
        if !self.is_active() {
            return Ok(thread);
        }
        if sys::restarts(result) {
            self.interrupted(&call, memory);
            self.interrupted.insert(thread.tid(), call);
            return Ok(thread);
        }
        let &PendingCall { number, arguments, pc, .. } = &call;
        let mut thread = thread;
        if number == libc::SYS_madvise && arguments[2] as i32 == libc::MADV_FREE && result == 0 {
            // When such memory really goes is up to the system; at once is as good to the program.
            let at_once = [arguments[0], arguments[1], libc::MADV_DONTNEED as u64, 0, 0, 0];
            let remote = sys::remote_call(thread, self.live_gate(), number, at_once)?;
            self.held.extend(remote.held);
            thread = remote.thread;
        }
        let barrier = Event::Barrier { number, arguments, pc, result };
        let replay = self.replay(&call, result, memory);
        // What is changed in the code is in a copy right behind the call.
        let is_changed =
            made_executable(&call, result).is_some_and(|code| self.take_out_random_numbers(memory, &code));
        match replay.map(|replay| replay.filter(|_| !is_changed)) {
            Ok(Some(replay)) => {
                self.log.push(Event::Call(Call { number, arguments, pc, result, replay }));
                self.timeline.leave_frontier();
                self.keep_to_budget();
                self.follow(&thread, overlay)?;
                if self.is_due() { self.checkpoint(thread, overlay, false) } else { Ok(thread) }
            }
            Ok(None) => {
                self.log.push(barrier);
                self.checkpoint(thread, overlay, false)
            }
            Err(unrepeatable) => {
                if unrepeatable.since_last_look {
                    self.withdraw(unrepeatable.reason);
                } else {
                    self.log.push(barrier);
                    self.end(unrepeatable.reason);
                }
                Ok(thread)
            }
        }
    }

    /// There is a second thread, which goes on when the call that made it is not over yet.
    pub(crate) fn made_thread(&mut self) {
        let call = self.pending.get(&self.threads.acting());
        if let Some(&PendingCall { number, arguments, pc, effect: Effect::EndsRecording(reason), .. }) = call
            && self.is_active()
        {
            self.log.push(Event::Barrier { number, arguments, pc, result: 0 });
            self.end(reason);
        }
    }

    /// Notices who else opens what the program has mapped, before it does so itself.
    fn watch_openings(&mut self, call: &PendingCall) {
        if self.is_active()
            && call.opens()
            && let Err(unrepeatable) = self.sharing.before_opening()
        {
            self.withdraw(unrepeatable.reason);
        }
    }

    /// Nothing is recorded from here on, and nobody knows how long what was recorded since the last checkpoint is right.
    pub(super) fn withdraw(&mut self, reason: String) {
        if let Some(last) = self.timeline.last().and_then(|last| self.timeline.get(last)) {
            self.log.withdraw_from(last.event);
        }
        self.end(reason);
    }

    /// Copies the process as it is now. With `asynchronous` it is not right behind an event.
    pub(crate) fn checkpoint(
        &mut self,
        thread: Stopped,
        overlay: &Overlay,
        asynchronous: bool,
    ) -> Result<Stopped, TraceError> {
        if let Err(unrepeatable) = self.sharing.look() {
            match unrepeatable.since_last_look {
                true => self.withdraw(unrepeatable.reason),
                false => self.end(unrepeatable.reason),
            }
        }
        if !self.is_active() {
            return Ok(thread);
        }
        let begun = Instant::now();
        let interrupted = self.interrupted_number(thread.tid());
        let kin = if self.is_gentle { Kin::Orphan } else { Kin::Ours };
        let gates = Gates { live: self.live_gate(), copy: self.gate };
        let copied =
            copy_live(thread, gates, overlay, self.sharing.areas(), interrupted, (kin, self.cast()))?;
        self.held.extend(copied.held);
        let thread = copied.original;
        let copy = match copied.copy {
            Ok(copy) => copy,
            Err(error) => {
                self.end(format!("the process can no longer be copied: {error}"));
                return Ok(thread);
            }
        };
        let time = sys::cpu_time(self.process).ok();
        self.sharing.on_copied();
        self.timeline.push(copy, self.log.len(), !asynchronous, time);
        let faults = sys::minor_faults(self.process).unwrap_or(self.faults);
        let copied_pages = u32::try_from(faults.saturating_sub(self.faults)).unwrap_or(u32::MAX);
        self.faults = faults;
        self.metronome.restart(begun.elapsed() + FAULT.saturating_mul(copied_pages), self.log.len());
        let is_short = sys::memory_is_short();
        self.timeline.thin(&self.log, is_short);
        if is_short {
            // Each checkpoint adds one; in this way there will be fewer.
            self.timeline.thin(&self.log, is_short);
        }
        self.keep_to_budget();
        self.follow_checkpoint()?;
        Ok(thread)
    }

    /// Names the moment at which the process stands, unless it has a name.
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

    /// The call of a thread that the system makes again under another name, if there is one.
    pub(crate) fn interrupted_number(&self, tid: Tid) -> Option<i64> {
        self.interrupted.get(&tid).map(|call| call.number)
    }

    /// The signals that are blocked only while the interrupted call waits, if it blocks others than the program does.
    pub(crate) fn waiting_mask(&self, tid: Tid, memory: &ProcessMemory) -> Option<u64> {
        let PendingCall { number, arguments, .. } = self.interrupted.get(&tid)?;
        let mask = match *number {
            libc::SYS_rt_sigsuspend => arguments[0],
            libc::SYS_ppoll => arguments[3],
            libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => arguments[4],
            libc::SYS_pselect6 => read_word(memory, arguments[5])?,
            _ => return None,
        };
        read_word(memory, mask)
    }

    /// A signal is about to be handled: history goes on in the handler.
    pub(crate) fn signalled(&mut self, number: i32, details: Option<SignalDetails>) {
        let (code, address) = details.map_or((0, None), |details| (details.code, details.address));
        self.log.push(Event::Signal { number, code, address });
        self.timeline.leave_frontier();
    }

    /// The process has just become another program.
    pub(crate) fn executed(&mut self, thread: Stopped, overlay: &Overlay) -> Result<Stopped, TraceError> {
        let call = self.pending.remove(&self.threads.acting());
        self.pending.clear();
        self.interrupted.clear();
        self.threads.begin_anew(self.process);
        if !self.is_active() {
            return Ok(thread);
        }
        if let Some(PendingCall { number, arguments, pc, .. }) = call {
            self.log.push(Event::Barrier { number, arguments, pc, result: 0 });
        }
        self.sharing.on_exec();
        self.confined |= !sys::is_our_equal(self.process);
        self.page = None;
        self.gate = super::gate(self.process)?;
        self.taken = None;
        let thread = match self.is_gentle {
            false => super::tame(thread, self.gate)?,
            true => {
                super::hide_kernel_functions(&thread)?;
                thread
            }
        };
        self.know_program()?;
        let thread = self.set_up_page(thread)?;
        self.checkpoint(thread, overlay, false)
    }

    /// Answers an instruction whose answer is never the same twice, if that is what failed.
    pub(crate) fn answered(
        &mut self,
        thread: &Stopped,
        memory: &ProcessMemory,
        overlay: &Overlay,
    ) -> Result<bool, TraceError> {
        let registers = thread.registers()?;
        let Some(answer) = super::instructions::answer(&registers, memory) else { return Ok(false) };
        thread.set_registers(&super::instructions::apply(&answer, registers))?;
        if self.is_active() {
            self.log.push(Event::Answer(answer));
            self.timeline.leave_frontier();
            self.follow(thread, overlay)?;
        }
        Ok(true)
    }

    #[cfg(test)]
    pub(crate) fn set_budget(&mut self, budget: u64) {
        self.budget = budget;
    }

    pub(super) fn keep_to_budget(&mut self) {
        if let Some(failure) = self.log.failure()
            && self.is_active()
        {
            self.end(format!(
                "the log has outgrown memory, and {failure}; make room there, or let `TMPDIR` name another folder"
            ));
        }
        let copied: u64 = self.sharing.areas().iter().map(|area| area.end - area.start).sum();
        let is_over = |recorder: &Self| {
            recorder.log.bytes() > recorder.budget
                || recorder.timeline.is_full()
                || copied * recorder.timeline.len() as u64 > COPIES_BUDGET
        };
        while is_over(self)
            && let Some(event) = self.timeline.forget_first()
        {
            self.log.forget_before(event);
        }
    }
}

/// What the registers are that a program sees, without what only the system keeps in them.
pub(crate) fn visible(registers: &GeneralRegisters) -> [u64; 27] {
    let mut registers = *registers;
    registers.set("orig_rax", u64::MAX);
    registers.words()
}
