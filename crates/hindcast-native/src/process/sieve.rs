//! Breakpoints of the live program that are passed very often: while it runs, code beside it judges their conditions and
//! counts their hits, and stops it only where somebody has to know.
//!
//! That code is in the program only while it runs. A thread that is stopped within it for anything is put to where it would be
//! without it, before anybody looks. All places of it share their memory with all threads, so only what is recorded has
//! it: there, one thread runs at a time.

use std::{collections::HashMap, ops::Range, rc::Rc};

use hindcast_core::debug::BreakpointId;
use hindcast_symbols::Memory as _;

use super::{
    Halt, Process,
    task::{Task, is_about_to_trap},
};
use crate::{
    replay::{Back, Functions, LiveGate, LiveSieve, VALUES},
    sys::{self, Event, GeneralRegisters, ProcessMemory, Stopped, Tid, TraceError},
};

/// What a breakpoint counted without stopping anybody.
#[derive(Debug)]
pub(crate) struct Hits {
    pub(crate) breakpoint: BreakpointId,
    pub(crate) count: u64,
    /// How often each number was noted.
    pub(crate) values: HashMap<u64, u64>,
}

/// Places where instructions gave way, and where they are instead.
pub(super) type Detours = Rc<Vec<(u64, u64)>>;

/// The code that is mapped into the program, and what of it is in use.
#[derive(Default)]
pub(super) struct LiveSieves {
    mapped: Vec<LiveSieve>,
    /// Where hits note their numbers.
    buffers: Vec<(BreakpointId, u64)>,
    /// Where no code fits.
    refused: Vec<LiveGate>,
    /// Those that are in use while the program runs.
    armed: Vec<Counter>,
    /// Whether the breakpoints are back in their places, though the program still runs.
    lifted: bool,
    /// A thread that was stopped at a breakpoint before it was judged there.
    unjudged: Option<Tid>,
    detours: Detours,
    ways_past: Detours,
}

struct Counter {
    breakpoint: BreakpointId,
    address: u64,
    from: u64,
    /// What was left when somebody last looked.
    left: u64,
    /// Where hits note their numbers, and what was found there.
    buffer: Option<u64>,
    values: HashMap<u64, u64>,
    /// What was left when the numbers were last read.
    read: u64,
}

impl Counter {
    /// Reads the numbers of the hits since this was last done.
    fn read_values(&mut self, memory: &ProcessMemory) {
        let Some(buffer) = self.buffer.filter(|_| self.left < self.read) else { return };
        let mut bytes = vec![0; 8 * (self.read - self.left) as usize];
        if memory.read(buffer + 8 * self.left, &mut bytes).is_ok() {
            for value in bytes.as_chunks::<8>().0 {
                *self.values.entry(u64::from_le_bytes(*value)).or_default() += 1;
            }
            self.read = self.left;
        }
    }

    fn hits(self) -> Hits {
        // Numbers that are lost were not counted.
        let left = if self.buffer.is_some() { self.read } else { self.left };
        Hits { breakpoint: self.breakpoint, count: self.from.wrapping_sub(left), values: self.values }
    }
}

impl LiveSieves {
    fn is_armed(&self, sieve: &LiveSieve) -> bool {
        !self.lifted && self.armed.iter().any(|counter| counter.breakpoint == sieve.breakpoint)
    }

    fn armed(&self) -> impl Iterator<Item = &LiveSieve> {
        self.mapped.iter().filter(|sieve| self.is_armed(sieve))
    }

    fn armed_at(&self, address: u64) -> Option<&LiveSieve> {
        self.armed().find(|sieve| sieve.address() == address)
    }

    /// The program may be about to end, and its memory with it.
    fn look(&mut self, memory: &ProcessMemory) {
        if self.lifted {
            return;
        }
        for counter in &mut self.armed {
            let mut left = [0; 8];
            if memory.read(counter.address, &mut left).is_ok() {
                counter.left = u64::from_le_bytes(left);
            }
        }
    }
}

impl Process {
    /// As [`run`](Self::run). Of each breakpoint among the gates that code can judge, only the hit with the given number,
    /// counted from here on, stops the program; what cannot be judged stops it, too.
    pub(crate) fn run_sieved(
        &mut self,
        gates: &[LiveGate],
        functions: Functions<'_>,
    ) -> Result<(Halt, Vec<Hits>), TraceError> {
        self.wake();
        if self.can_sieve() {
            self.map_sieves(gates, functions)?;
            self.arm_sieves(gates);
        }
        let halt = self.run();
        let hits = self.disarm_sieves();
        Ok((halt?, hits))
    }

    /// The thread that stands at a breakpoint which nobody has judged yet, though it looks as if it had been hit.
    pub(crate) fn take_unjudged(&mut self) -> Option<Tid> {
        self.sieves.unjudged.take()
    }

    /// Threads go on, and are judged where they come to.
    pub(super) fn forget_unjudged(&mut self) {
        self.sieves.unjudged = None;
    }

    fn can_sieve(&self) -> bool {
        let acting = self.tasks.get(&self.acting());
        let stands = acting.is_some_and(|task| task.signal == 0 && !task.is_running());
        self.ended.is_none()
            && self.owned
            && self.is_recording()
            && self.following.is_none()
            && !self.recorder.as_ref().is_some_and(|recorder| recorder.is_chaotic())
            && self.debug_registers.is_empty()
            && !self.overlay.is_lifted()
            && self.tasks.values().all(|task| task.pending.is_none() && task.interrupted.is_none())
            && stands
    }

    /// Maps the code of those gates that have none yet, and takes away that of the others.
    fn map_sieves(&mut self, gates: &[LiveGate], functions: Functions<'_>) -> Result<(), TraceError> {
        let is_wanted = |sieve: &LiveSieve| {
            gates.iter().any(|LiveGate { gate, number, .. }| {
                gate.address == sieve.address()
                    && gate.breakpoint == sieve.breakpoint
                    && gate.check == sieve.check
                    && *number == sieve.number
            })
        };
        if !self.sieves.mapped.iter().all(is_wanted) {
            // They can share counters: all or none.
            self.unmap_sieves()?;
        }
        for wanted in gates {
            let gate = &wanted.gate;
            let is_same = |known: &LiveGate| {
                (known.gate.address, &known.gate.check, &known.number)
                    == (gate.address, &gate.check, &wanted.number)
            };
            let is_known = self.sieves.mapped.iter().any(|sieve| sieve.address() == gate.address);
            if is_known || self.sieves.refused.iter().any(is_same) {
                continue;
            }
            let values = match wanted.number {
                Some(_) => self.buffer_of(gate.breakpoint)?,
                None => None,
            };
            if wanted.number.is_some() && values.is_none() {
                self.sieves.refused.push(wanted.clone());
                continue;
            }
            let place = (self.witness(), &self.memory, &self.overlay);
            let planned =
                LiveSieve::plan(place, functions, wanted, values, &self.sieves.mapped).ok().flatten();
            match planned {
                Some(sieve) if self.map_sieve(&sieve)? => self.sieves.mapped.push(sieve),
                _ => self.sieves.refused.push(wanted.clone()),
            }
        }
        Ok(())
    }

    /// Where hits of a breakpoint note their numbers.
    fn buffer_of(&mut self, breakpoint: BreakpointId) -> Result<Option<u64>, TraceError> {
        if let Some((_, buffer)) = self.sieves.buffers.iter().find(|(id, _)| *id == breakpoint) {
            return Ok(Some(*buffer));
        }
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let mapped = self.call_live(libc::SYS_mmap, [0, 8 * VALUES, protection, flags, u64::MAX, 0])?;
        let Ok(buffer) = u64::try_from(mapped) else { return Ok(None) };
        self.call_live(libc::SYS_madvise, [buffer, 8 * VALUES, libc::MADV_DONTFORK as u64, 0, 0, 0])?;
        self.sieves.buffers.push((breakpoint, buffer));
        Ok(Some(buffer))
    }

    fn map_sieve(&mut self, sieve: &LiveSieve) -> Result<bool, TraceError> {
        let room = sieve.room();
        let length = room.end - room.start;
        let protection = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        let mapped = self.call_live(libc::SYS_mmap, [room.start, length, protection, flags, u64::MAX, 0])?;
        if mapped != room.start as i64 {
            return Ok(false);
        }
        // A copy of the process gets the program's own code back, and needs none of ours.
        let kept = self
            .call_live(libc::SYS_madvise, [room.start, length, libc::MADV_DONTFORK as u64, 0, 0, 0])
            .is_ok_and(|result| result == 0);
        let (entry, code) = sieve.code();
        if kept && self.memory.write(entry, code).is_ok() {
            return Ok(true);
        }
        self.call_live(libc::SYS_munmap, [room.start, length, 0, 0, 0, 0])?;
        Ok(false)
    }

    /// A call of ours, by the thread on stage.
    fn call_live(&mut self, number: i64, arguments: [u64; 6]) -> Result<i64, TraceError> {
        let acting = self.acting();
        let recorder = self.recorder.as_mut().ok_or(TraceError::Gone)?;
        let task = self.tasks.get_mut(&acting).ok_or(TraceError::Gone)?;
        let remote = sys::remote_call(task.take()?, recorder.live_gate(), number, arguments)?;
        task.put(remote.thread);
        recorder.hold(&remote.held);
        Ok(remote.result)
    }

    /// Puts in jumps to the code of all breakpoints that have it at all of their places.
    fn arm_sieves(&mut self, gates: &[LiveGate]) {
        for LiveGate { gate, limit, number } in gates {
            let limit = if number.is_some() { VALUES.min(*limit) } else { *limit };
            let breakpoint = gate.breakpoint;
            if self.sieves.armed.iter().any(|counter| counter.breakpoint == breakpoint) {
                continue;
            }
            let places = gates.iter().filter(|other| other.gate.breakpoint == breakpoint).count();
            let own: Vec<_> =
                self.sieves.mapped.iter().filter(|sieve| sieve.breakpoint == breakpoint).collect();
            let Some(counter) = own.first().map(|sieve| sieve.counter).filter(|_| own.len() == places) else {
                continue;
            };
            if self.memory.write(counter, &limit.to_le_bytes()).is_err() {
                continue;
            }
            let jumps: Vec<_> = own.iter().map(|sieve| (sieve.address(), sieve.jump())).collect();
            let mut placed = Vec::new();
            for (address, jump) in &jumps {
                if !self.overlay.replace(&self.memory, *address, jump) {
                    break;
                }
                placed.push(*address);
            }
            if placed.len() < jumps.len() {
                for address in placed {
                    self.overlay.put_back(&self.memory, address);
                }
                continue;
            }
            let known = self.sieves.buffers.iter().find(|(id, _)| *id == breakpoint);
            let buffer = known.map(|(_, buffer)| *buffer).filter(|_| number.is_some());
            let values = HashMap::new();
            let (from, left, read) = (limit, limit, limit);
            let counter = Counter { breakpoint, address: counter, from, left, buffer, values, read };
            self.sieves.armed.push(counter);
        }
        if !self.sieves.armed.is_empty() {
            let detours = self.sieves.armed().flat_map(LiveSieve::detours).collect();
            let ways_past = self.sieves.armed().filter_map(LiveSieve::way_past).collect();
            self.set_detours(detours, ways_past);
        }
    }

    fn set_detours(&mut self, detours: Vec<(u64, u64)>, ways_past: Vec<(u64, u64)>) {
        self.sieves.detours = Rc::new(detours);
        self.sieves.ways_past = Rc::new(ways_past);
        for task in self.tasks.values_mut() {
            (task.detours, task.ways_past) = (self.sieves.detours.clone(), self.sieves.ways_past.clone());
        }
    }

    /// A thread that has just begun goes the same ways.
    pub(super) fn lead_through_sieves(&self, task: &mut Task) {
        (task.detours, task.ways_past) = (self.sieves.detours.clone(), self.sieves.ways_past.clone());
    }

    /// Everything stands still, and the breakpoints are as they were. Says how often they were hit.
    fn disarm_sieves(&mut self) -> Vec<Hits> {
        if self.sieves.armed.is_empty() {
            return Vec::new();
        }
        if self.ended.is_none() {
            self.look_at_sieves();
        }
        self.lift_sieves();
        self.sieves.lifted = false;
        std::mem::take(&mut self.sieves.armed).into_iter().map(Counter::hits).collect()
    }

    /// The breakpoints are in their places again, and nobody comes to the code any more.
    fn lift_sieves(&mut self) {
        let addresses: Vec<_> = self.sieves.armed().map(LiveSieve::address).collect();
        for address in addresses {
            self.overlay.put_back(&self.memory, address);
        }
        self.set_detours(Vec::new(), Vec::new());
        self.sieves.lifted = true;
    }

    /// Takes the code out of the program, which stands still for somebody to look.
    pub(crate) fn unmap_sieves(&mut self) -> Result<(), TraceError> {
        self.sieves.refused.clear();
        for sieve in std::mem::take(&mut self.sieves.mapped) {
            if self.ended.is_some() || self.recorder.is_none() {
                continue;
            }
            let room = sieve.room();
            self.call_live(libc::SYS_munmap, [room.start, room.end - room.start, 0, 0, 0, 0])?;
        }
        for (_, buffer) in std::mem::take(&mut self.sieves.buffers) {
            if self.ended.is_none() && self.recorder.is_some() {
                self.call_live(libc::SYS_munmap, [buffer, 8 * VALUES, 0, 0, 0, 0])?;
            }
        }
        Ok(())
    }

    /// The program has become another one: nothing of ours is in its memory. What was counted is still to be told.
    pub(super) fn forget_sieves(&mut self) {
        self.sieves.mapped.clear();
        self.sieves.buffers.clear();
        self.sieves.refused.clear();
        self.set_detours(Vec::new(), Vec::new());
        self.sieves.lifted = true;
    }

    /// The program is about to have other memory in a place. Where that is the place of our code, it runs without that.
    pub(super) fn make_room(&mut self, range: &Range<u64>) {
        let room = self.sieves.armed().map(LiveSieve::room);
        if room.into_iter().any(|room| room.start < range.end && range.start < room.end) {
            self.look_at_sieves();
            self.lift_sieves();
        }
    }

    /// Memory is gone, or other memory now.
    pub(super) fn forget_sieves_in(&mut self, range: &Range<u64>) {
        // What is in use is needed to put back what gave way; nobody comes there any more.
        if self.sieves.armed.is_empty() {
            self.sieves.mapped.retain(|sieve| !sieve.is_in(range));
        }
        self.sieves.refused.retain(|refused| !range.contains(&refused.gate.address));
    }

    /// The program is about to end, or to become another one.
    pub(super) fn look_at_sieves(&mut self) {
        if self.sieves.armed.is_empty() || self.sieves.lifted {
            return;
        }
        self.sieves.look(&self.memory);
        self.sieves.armed.iter_mut().for_each(|counter| counter.read_values(&self.memory));
    }

    /// Whether code is in use that only one thread at a time may come to, and several could from now on.
    pub(super) fn must_leave_sieves(&self) -> bool {
        !self.sieves.armed.is_empty() && !self.is_recording() && self.ended.is_none()
    }

    /// Whether a breakpoint has given way to code that judges it.
    pub(super) fn is_sieved(&self, address: u64) -> bool {
        self.sieves.armed_at(address).is_some()
    }

    /// A signal is about to be handled by a thread that has not gone past the breakpoint that was told of. When it comes back
    /// from its handler, only a breakpoint instruction tells that it is the same hit.
    pub(super) fn leave_sieves_for_handler(&mut self, tid: Tid) {
        let Some(task) = self.tasks.get(&tid) else { return };
        if task.signal != 0 && task.passed.is_some_and(|address| self.is_sieved(address)) {
            self.look_at_sieves();
            self.lift_sieves();
        }
    }

    /// What an event is where nobody stands in code of ours.
    pub(super) fn off_sieve(&mut self, event: Event) -> Result<Event, TraceError> {
        if self.sieves.armed.is_empty() {
            return Ok(event);
        }
        match event {
            Event::Signal(stopped, signal) if self.knows(&stopped) => {
                self.sieves.look(&self.memory);
                let cause = match stopped.signal_details() {
                    Ok(details) => details.code,
                    // It was killed, and tells so itself.
                    Err(TraceError::Gone) => return Ok(Event::Other(stopped)),
                    Err(error) => return Err(error),
                };
                let back = self.stand_off_sieve(&stopped, |sieve, registers, memory| {
                    sieve.after_signal(registers, memory, (signal, cause))
                })?;
                Ok(match back {
                    Back::GoesOn => Event::Other(stopped),
                    _ => Event::Signal(stopped, signal),
                })
            }
            Event::Stop(stopped, signal) if self.knows(&stopped) => {
                // What it is about to be told of says where it stands.
                if !is_about_to_trap(&stopped)? {
                    self.stand_off_sieve(&stopped, LiveSieve::stand)?;
                }
                Ok(Event::Stop(stopped, signal))
            }
            other => Ok(other),
        }
    }

    fn stand_off_sieve(
        &mut self,
        stopped: &Stopped,
        stand: impl Fn(&LiveSieve, &mut GeneralRegisters, &ProcessMemory) -> Result<Back, TraceError>,
    ) -> Result<Back, TraceError> {
        let mut registers = match stopped.registers() {
            Ok(registers) => registers,
            // It was killed, and tells so itself.
            Err(TraceError::Gone) => return Ok(Back::Elsewhere),
            Err(error) => return Err(error),
        };
        let (mut passed, mut result) = (None, Back::Elsewhere);
        for sieve in self.sieves.armed() {
            let back = stand(sieve, &mut registers, &self.memory)?;
            if back == Back::Elsewhere {
                continue;
            }
            if back == Back::Hit {
                // As if a breakpoint instruction had been executed there.
                registers.set("rip", sieve.address() + 1);
            }
            stopped.set_registers(&registers)?;
            if back == Back::Passed {
                passed = Some(sieve.address());
            }
            result = back;
            break;
        }
        if result == Back::Unjudged {
            self.sieves.unjudged = Some(stopped.tid());
        }
        if let Some(task) = self.tasks.get_mut(&stopped.tid()).filter(|_| passed.is_some()) {
            task.passed = passed;
        }
        Ok(result)
    }
}
