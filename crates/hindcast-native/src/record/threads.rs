//! The threads of a recorded process. One runs; the others wait in the kernel, or stand still until it is their turn.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    rc::Rc,
    time::{Duration, Instant},
};

use hindcast_symbols::Memory as _;

use super::{
    Recorder,
    calls::{Effect, Out},
    chaos::{Chaos, Decision},
    log::{Call, Event, Leaves, Made, Replay, Write},
    pending_call::PendingCall,
    scratch::Slots,
    written::read_word,
};
use crate::{
    process::Overlay,
    replay::{Actor, Cast, settled},
    sys::{self, ProcessMemory, SYSCALL_LENGTH, Stopped, Tid, TraceError},
};

/// Who runs, and where the others stand.
pub(super) struct Threads {
    pub(super) acting: Tid,
    /// Where each stands that does not run, and the one that runs where it is in a call.
    pub(super) standing: BTreeMap<Tid, Rc<Actor>>,
    /// All that there are beside the one that runs.
    pub(super) others: usize,
    /// The word that the system clears when a thread ends.
    pub(super) cleared: HashMap<Tid, u64>,
    slots: Slots,
    has_scratch: Option<bool>,
    /// Since when the one that runs does so, and for how long it may.
    since: Instant,
    /// What the process had computed then.
    computed: Duration,
    turn: Duration,
    /// The code of the program itself, without its libraries; found when it is asked for.
    own_code: Option<Vec<Range<u64>>>,
    /// Who decides about turns, where that is not left to the usual order.
    chaos: Option<Chaos>,
    /// How threads were called that have ended.
    names: BTreeMap<i32, String>,
    /// How often one was preempted: each time needs two checkpoints that must stay.
    preemptions: u32,
}

/// For so long a thread runs while others could, at least.
const SHORTEST_TURN: Duration = Duration::from_millis(20);
/// A turn is no longer than this because of what checkpoints cost: who waits for another thread by computing waits so long.
const LONGEST_TURN: Duration = Duration::from_millis(300);
/// For so long, where no preemption is needed to end it.
const SHORT_TURN: Duration = Duration::from_millis(2);
/// After so many preemptions a turn is twice as long.
const DOUBLED_AFTER: u32 = 300;

impl Threads {
    pub(super) fn new(acting: Tid) -> Self {
        Self {
            acting,
            standing: BTreeMap::new(),
            others: 0,
            cleared: HashMap::new(),
            slots: Slots::default(),
            has_scratch: None,
            since: Instant::now(),
            computed: Duration::ZERO,
            turn: SHORTEST_TURN,
            own_code: None,
            chaos: None,
            names: BTreeMap::new(),
            preemptions: 0,
        }
    }

    /// The process has become another program.
    pub(super) fn begin_anew(&mut self, process: Tid) {
        *self = Self { chaos: self.chaos.take(), ..Self::new(process) };
    }

    pub(super) fn acting(&self) -> Tid {
        self.acting
    }

    pub(super) fn has_others(&self) -> bool {
        self.others > 0
    }

    pub(super) fn has_scratch(&self) -> bool {
        self.has_scratch.is_some()
    }

    pub(super) fn set_scratch(&mut self, mapped: bool) {
        self.has_scratch = Some(mapped);
    }

    /// The scratch memory of a thread.
    pub(super) fn slot(&mut self, tid: Tid) -> Option<u64> {
        if self.has_scratch == Some(true) { self.slots.of(tid) } else { None }
    }

    /// How long the next turn may take, where a checkpoint is worth its cost after so long: two of them end a turn.
    fn next_turn(&mut self, worthwhile: Duration) -> Duration {
        match &mut self.chaos {
            Some(chaos) => chaos.turn(),
            None => {
                let turn = SHORTEST_TURN * 2u32.saturating_pow(self.preemptions / DOUBLED_AFTER);
                turn.max((2 * worthwhile).min(LONGEST_TURN))
            }
        }
    }
}

impl Recorder {
    /// The thread that runs.
    pub(crate) fn acting(&self) -> Tid {
        self.threads.acting
    }

    /// Where a thread stands that does not run.
    pub(crate) fn standing(&self, tid: Tid) -> Option<&Actor> {
        self.threads.standing.get(&tid).filter(|_| tid != self.threads.acting).map(Rc::as_ref)
    }

    /// All threads where they stand.
    pub(crate) fn cast(&self) -> Cast {
        let mut others = self.threads.standing.clone();
        others.remove(&self.threads.acting);
        Cast::new(self.threads.acting, others)
    }

    /// The thread that ran when so many events had happened.
    pub(crate) fn thread_after(&self, events: u64) -> Tid {
        let label = self.timeline.at_event(events).or_else(|| self.timeline.first());
        let Some(anchor) = label.and_then(|label| self.timeline.get(label)) else { return self.process };
        let mut since = self.log.range(anchor.event, events).rev();
        since.find_map(|(_, event)| event.taker()).unwrap_or_else(|| anchor.frozen.cast().acting())
    }

    /// The call that the running thread is in, which another thread may take over from.
    pub(crate) fn is_left_at_call(&self) -> bool {
        let call = self.pending.get(&self.threads.acting);
        call.is_some_and(|call| !call.is_32_bit && gives_way(call.number))
    }

    /// From now on a seed decides who runs when.
    pub(crate) fn begin_chaos(&mut self, seed: u64) {
        self.threads.chaos = Some(Chaos::new(seed));
        self.metronome().hurry();
    }

    /// Whether code is the program's own, and not that of a library.
    pub(crate) fn is_own_code(&mut self, address: u64) -> bool {
        let process = self.process;
        let code = self.threads.own_code.get_or_insert_with(|| {
            let program = sys::executable(process).unwrap_or_default();
            let is_code = |mapping: &sys::Mapping| {
                mapping.permissions.contains('x') && std::path::Path::new(&mapping.name) == program
            };
            let mappings = sys::mappings(process).unwrap_or_default();
            mappings
                .iter()
                .filter(|mapping| is_code(mapping))
                .map(|mapping| mapping.start..mapping.end)
                .collect()
        });
        code.iter().any(|code| code.contains(&address))
    }

    /// Whether a seed decides.
    pub(crate) fn is_chaotic(&self) -> bool {
        self.threads.chaos.is_some()
    }

    /// Who is next among those that could run, if a seed decides.
    pub(crate) fn choose(&mut self, ready: &[Tid]) -> Option<Tid> {
        self.threads.chaos.as_mut()?.choose(ready)
    }

    /// What the running thread does now, if a seed decides.
    pub(crate) fn decide(&mut self) -> Option<Decision> {
        Some(self.threads.chaos.as_mut()?.decide())
    }

    /// Whether the running thread had its turn.
    pub(crate) fn is_turn_over(&self) -> bool {
        self.threads.since.elapsed() >= self.threads.turn
            // Where a seed decides, what happens beside the program must not.
            && (self.threads.chaos.is_none()
                || sys::cpu_time(self.process)
                    .is_ok_and(|now| now.saturating_sub(self.threads.computed) >= self.threads.turn))
    }

    /// The same right behind an event, where giving way costs next to nothing.
    pub(crate) fn is_short_turn_over(&self) -> bool {
        self.threads.since.elapsed() >= SHORT_TURN
    }

    /// A thread is about to make a call, in which it may leave the stage.
    pub(super) fn stands_before_call(
        &mut self,
        thread: &Stopped,
        call: &PendingCall,
    ) -> Result<(), TraceError> {
        if !self.is_active() || !self.threads.has_others() || !may_wait(call.number) {
            return Ok(());
        }
        let interrupted = self.interrupted_number(thread.tid());
        let mut registers = thread.registers()?;
        let number = match (call.number, interrupted) {
            (libc::SYS_restart_syscall, Some(number)) => number,
            (number, _) => number,
        };
        registers.set("rip", call.pc - SYSCALL_LENGTH);
        registers.set("rax", number as u64);
        registers.set("orig_rax", u64::MAX);
        let actor = Actor { registers, vectors: thread.vector_registers()? };
        self.threads.standing.insert(thread.tid(), Rc::new(actor));
        Ok(())
    }

    /// Another thread runs from here on; the one that runs is in a call.
    pub(crate) fn turn_at_call(&mut self, to: Tid) -> bool {
        let Some(&PendingCall { number, pc, .. }) = self.pending.get(&self.threads.acting) else {
            return false;
        };
        self.turned(to, Leaves::AtCall { number, pc });
        true
    }

    /// The same, where it stands right behind an event.
    pub(crate) fn turn_behind_event(&mut self, thread: &Stopped, to: Tid) -> Result<(), TraceError> {
        self.stands_at(thread)?;
        self.turned(to, Leaves::BehindEvent);
        Ok(())
    }

    /// The same, where it stands anywhere.
    pub(crate) fn preempt(
        &mut self,
        thread: Stopped,
        overlay: &Overlay,
        to: Tid,
    ) -> Result<Stopped, TraceError> {
        if let Some(&PendingCall { number, pc, .. }) = self.interrupted.get(&thread.tid())
            && thread.registers()?.is_call_interrupted()
        {
            self.stands_at(&thread)?;
            self.turned(to, Leaves::AtCall { number, pc });
            return Ok(thread);
        }
        let thread = self.anchor_exactly(thread, overlay)?;
        if !self.is_active() {
            return Ok(thread);
        }
        self.stands_at(&thread)?;
        self.threads.preemptions += 1;
        self.turned(to, Leaves::Anywhere);
        // History goes on in a copy of the copy, with the other thread.
        let Some(last) = self.timeline.last().cloned() else { return Ok(thread) };
        let event = self.log.len();
        let anchor = self.timeline.get_mut(&last).ok_or(TraceError::Gone)?;
        let mut copy = anchor.frozen.fork()?;
        let time = anchor.time;
        if !copy.turn(to)? {
            self.end("a thread is missing in a copy of the process");
            return Ok(thread);
        }
        self.timeline.push(copy, event, true, time);
        self.follow_checkpoint()?;
        Ok(thread)
    }

    fn stands_at(&mut self, thread: &Stopped) -> Result<(), TraceError> {
        let registers = settled(thread.registers()?, self.interrupted_number(thread.tid()));
        let actor = Actor { registers, vectors: thread.vector_registers()? };
        self.threads.standing.insert(thread.tid(), Rc::new(actor));
        Ok(())
    }

    fn turned(&mut self, to: Tid, leaves: Leaves) {
        self.log.push(Event::Turn { to, leaves });
        self.timeline.leave_frontier();
        self.acts(to);
    }

    fn acts(&mut self, tid: Tid) {
        self.threads.acting = tid;
        self.threads.turn = self.threads.next_turn(self.metronome().beat());
        self.begin_turn();
    }

    /// The turn of the running thread begins now: what came before does not count.
    pub(crate) fn begin_turn(&mut self) {
        self.threads.since = Instant::now();
        self.threads.computed = sys::cpu_time(self.process).unwrap_or_default();
    }

    /// Whether the last event is a call that came after so many; and then, whether it asked to give way.
    pub(crate) fn yields_since(&self, events: u64) -> Option<bool> {
        let last = self.log.len().checked_sub(1).filter(|&last| last >= events)?;
        match &*self.log.get(last)? {
            Event::Call(call) if self.is_active() => Some(call.number == libc::SYS_sched_yield),
            _ => None,
        }
    }

    /// Whether a thread is in a call.
    pub(crate) fn is_in_call(&self, tid: Tid) -> bool {
        self.pending.contains_key(&tid)
    }

    /// The running thread goes on: it does not stand where it did. False where it did not stand anywhere.
    pub(crate) fn goes_on(&mut self, tid: Tid) -> bool {
        self.threads.standing.remove(&tid).is_some()
    }

    /// Whether the call that a thread is about to make makes a thread.
    pub(crate) fn makes_thread(&self, tid: Tid) -> bool {
        self.is_active() && self.pending.get(&tid).is_some_and(|call| call.effect == Effect::Thread)
    }

    /// Whether the call that a thread is about to make ends it.
    pub(crate) fn ends_thread(&self, tid: Tid) -> bool {
        self.is_active() && self.pending.get(&tid).is_some_and(|call| call.effect == Effect::Leave)
    }

    /// What the making of a process or thread comes to.
    pub(super) fn cloning(&mut self, call: &PendingCall, memory: &ProcessMemory) -> Effect {
        const NARROW: &str = "the program started a thread by a 32-bit call";
        const SHARED: &str = "the program shares its memory with another process";
        let &PendingCall { number, arguments, pc, .. } = call;
        let flags = Cloning::of(call, memory).flags;
        let has = |flag: i32| flags & flag as u64 != 0;
        if has(libc::CLONE_THREAD) {
            return if call.is_32_bit { Effect::EndsRecording(NARROW) } else { Effect::Thread };
        }
        if has(libc::CLONE_VM) && !has(libc::CLONE_VFORK) {
            self.log.push(Event::Barrier { number, arguments, pc, result: 0 });
            self.end(SHARED);
            return Effect::Barrier;
        }
        if let Err(unrepeatable) = self.sharing.on_child(has(libc::CLONE_VM)) {
            self.log.push(Event::Barrier { number, arguments, pc, result: 0 });
            self.end(unrepeatable.reason);
            return Effect::Barrier;
        }
        if has(libc::CLONE_VM) {
            // The new process writes to this one's memory.
            return Effect::Barrier;
        }
        match call.cloning() {
            libc::SYS_clone => Effect::Writes(&[Out::Fixed(2, 4)]),
            libc::SYS_clone3 => Effect::Barrier,
            _ => Effect::Result,
        }
    }

    /// A call has made a thread, which stands at its first instruction. The call is over.
    pub(crate) fn made(
        &mut self,
        thread: Stopped,
        newborn: &Stopped,
        memory: &ProcessMemory,
        overlay: &Overlay,
    ) -> Result<Stopped, TraceError> {
        let Some(call) = self.pending.remove(&thread.tid()) else { return Ok(thread) };
        let tid = newborn.tid();
        let cloning = Cloning::of(&call, memory);
        if let Some(word) = cloning.cleared {
            self.threads.cleared.insert(tid, word);
        }
        let writes = words(&cloning.written, memory);
        let thread = self.map_scratch(thread)?;
        let actor = Rc::new(Actor::of(newborn)?);
        self.threads.standing.insert(tid, actor.clone());
        self.threads.standing.remove(&thread.tid());
        self.threads.others += 1;
        let PendingCall { number, arguments, pc, .. } = call;
        let replay = Replay::Thread(Box::new(Made { tid, actor, writes }));
        self.log.push(Event::Call(Call { number, arguments, pc, result: i64::from(tid.0), replay }));
        self.timeline.leave_frontier();
        self.follow(&thread, overlay)?;
        Ok(thread)
    }

    /// What the system will write when the thread ends, with what is there now.
    pub(crate) fn last_words(&self, tid: Tid, memory: &ProcessMemory) -> Vec<u64> {
        let cleared = self.threads.cleared.get(&tid).copied();
        cleared.into_iter().chain(robust_words(tid, memory)).collect()
    }

    /// How threads were called that have ended.
    pub(crate) fn thread_names(&self) -> &BTreeMap<i32, String> {
        &self.threads.names
    }

    /// A thread is about to end.
    pub(crate) fn keep_name(&mut self, tid: Tid) {
        let name = sys::name(self.process, tid);
        self.threads.names.extend(name.map(|name| (tid.0, name)));
    }

    /// A thread has ended, and another one takes over.
    pub(crate) fn left_stage(&mut self, tid: Tid, last_words: &[u64], memory: &ProcessMemory, to: Tid) {
        let Some(PendingCall { pc, .. }) = self.pending.remove(&tid) else { return };
        self.threads.standing.remove(&tid);
        self.threads.cleared.remove(&tid);
        self.threads.slots.give_back(tid);
        self.threads.others = self.threads.others.saturating_sub(1);
        self.log.push(Event::Left { pc, writes: words(last_words, memory), to });
        self.timeline.leave_frontier();
        self.acts(to);
    }

    /// A thread says which word is cleared at its end.
    pub(super) fn clears(&mut self, tid: Tid, call: &PendingCall) {
        if call.number == libc::SYS_set_tid_address {
            self.threads.cleared.insert(tid, call.arguments[0]);
        }
    }
}

/// What a call that makes a thread was asked for.
struct Cloning {
    flags: u64,
    /// Words that tell its number.
    written: Vec<u64>,
    /// The word that is cleared when it ends.
    cleared: Option<u64>,
}

impl Cloning {
    fn of(call: &PendingCall, memory: &ProcessMemory) -> Self {
        let arguments = call.arguments;
        let word = |offset: u64| read_word(memory, arguments[0] + offset).unwrap_or(0);
        let (flags, descriptor, parent, child) = match call.cloning() {
            libc::SYS_clone => (arguments[0], arguments[2], arguments[2], arguments[3]),
            libc::SYS_clone3 => (word(0), word(8), word(24), word(16)),
            libc::SYS_vfork => ((libc::CLONE_VM | libc::CLONE_VFORK) as u64, 0, 0, 0),
            _ => (0, 0, 0, 0),
        };
        let has = |flag: i32| flags & flag as u64 != 0;
        let told = [
            (libc::CLONE_PIDFD, descriptor),
            (libc::CLONE_PARENT_SETTID, parent),
            (libc::CLONE_CHILD_SETTID, child),
        ];
        let written = told.into_iter().filter(|&(flag, _)| has(flag)).map(|(_, word)| word).collect();
        Self { flags, written, cleared: has(libc::CLONE_CHILD_CLEARTID).then_some(child) }
    }
}

/// Words of 32 bits as they are now.
fn words(addresses: &[u64], memory: &ProcessMemory) -> Box<[Write]> {
    let word = |&address: &u64| {
        let mut bytes = [0; 4];
        memory.read(address, &mut bytes).ok()?;
        Some(Write { address, bytes: bytes.into() })
    };
    addresses.iter().filter_map(word).collect()
}

/// The words of locks that a thread holds and that the system frees when it ends.
fn robust_words(tid: Tid, memory: &ProcessMemory) -> Vec<u64> {
    /// As many as the system looks at.
    const MOST: usize = 2048;
    let Some(head) = sys::robust_list(tid) else { return Vec::new() };
    let word = |address: u64| read_word(memory, address);
    let (Some(first), Some(offset), Some(begun)) = (word(head), word(head + 8), word(head + 16)) else {
        return Vec::new();
    };
    let lock = |entry: u64| (entry & !1).wrapping_add(offset);
    let entries = std::iter::successors(Some(first), |&entry| word(entry & !1));
    let mut locks: Vec<_> =
        entries.take_while(|&entry| entry & !1 != head && entry & !1 != 0).take(MOST).map(lock).collect();
    if begun & !1 != 0 {
        locks.push(lock(begun));
    }
    locks
}

/// Whether a thread in this call may be left for another one.
fn gives_way(number: i64) -> bool {
    !matches!(
        number,
        libc::SYS_execve
            | libc::SYS_execveat
            | libc::SYS_clone
            | libc::SYS_clone3
            | libc::SYS_fork
            | libc::SYS_vfork
            | libc::SYS_exit
            | libc::SYS_exit_group
    ) && may_wait(number)
}

/// Whether a call may take long. These never do.
fn may_wait(number: i64) -> bool {
    !matches!(
        number,
        libc::SYS_mmap
            | libc::SYS_munmap
            | libc::SYS_mprotect
            | libc::SYS_mremap
            | libc::SYS_madvise
            | libc::SYS_brk
            | libc::SYS_clock_gettime
            | libc::SYS_gettimeofday
            | libc::SYS_time
            | libc::SYS_getpid
            | libc::SYS_gettid
            | libc::SYS_getcpu
            | libc::SYS_getrandom
            | libc::SYS_rt_sigprocmask
            | libc::SYS_rt_sigaction
            | libc::SYS_rt_sigreturn
            | libc::SYS_sigaltstack
            | libc::SYS_set_robust_list
            | libc::SYS_set_tid_address
            | libc::SYS_rseq
            | libc::SYS_sched_yield
            | libc::SYS_sched_getaffinity
            | libc::SYS_prctl
            | libc::SYS_arch_prctl
            | libc::SYS_tgkill
            | libc::SYS_lseek
    )
}
