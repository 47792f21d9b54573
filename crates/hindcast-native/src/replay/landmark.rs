//! An address in a replica at which passes are counted, and states are recognised.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use super::{
    ReplayError, Replica,
    history::Visit,
    repeat::Repeat,
    replica::{Advance, Pause},
    room::{fits, free_entry, site_at},
    state::{Likeness, State},
    trampoline::{self, Pattern, ROOM, Site, Trampoline},
};
use crate::{record::Log, sys::TraceError};

/// The code of the function around an address, where that is known.
pub(crate) type Functions<'a> = &'a dyn Fn(u64) -> Option<Range<u64>>;

/// A landmark in place. It must be taken out again before anybody looks.
pub(super) enum Landmark {
    Jump {
        site: Site,
        /// Where its code begins.
        entry: u64,
        original: Vec<u8>,
        trampoline: Trampoline,
        passes: u64,
    },
    /// Where there is no room for a jump.
    Break { address: u64, passes: u64 },
}

/// More words than this do not fit beside the code.
const MOST_WORDS: usize = 32;
/// A landmark that has to stop at each pass is given up after so many.
const MOST_STOPS: u64 = 200_000;

impl Landmark {
    /// Counts passes at `address`, and stops at pass number `passes` or where the pattern is met.
    pub(super) fn place(
        replica: &mut Replica,
        functions: Functions<'_>,
        address: u64,
        passes: u64,
        pattern: Option<&Pattern>,
    ) -> Result<Self, ReplayError> {
        if let Some(jump) = Self::jump(replica, functions, address, passes, pattern)? {
            return Ok(jump);
        }
        Self::stop(replica, address)
    }

    /// Stops at every pass but the one that a replica stands at, which counts all the same.
    fn stop(replica: &mut Replica, address: u64) -> Result<Self, ReplayError> {
        let passes = u64::from(replica.pc()? == address);
        let landmark = Self::Break { address, passes };
        landmark.renew(replica)?;
        Ok(landmark)
    }

    fn jump(
        replica: &mut Replica,
        functions: Functions<'_>,
        address: u64,
        passes: u64,
        pattern: Option<&Pattern>,
    ) -> Result<Option<Self>, ReplayError> {
        let Some(mut site) = site_at(replica, functions, address) else { return Ok(None) };
        site.keep(replica.detours.iter().map(|(inner, _)| *inner));
        let covered = address + 1..address + site.length as u64;
        // It may not go on in the middle of the jump either.
        if replica.overlay.any_in(address..covered.end) || covered.contains(&replica.pc()?) {
            return Ok(None);
        }
        let Some(entry) = free_entry(replica, &site, &[])? else { return Ok(None) };
        let Some(built) = trampoline::build(&site, entry, pattern) else { return Ok(None) };
        let protection = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        let page = trampoline::mapped_around(entry).start;
        let mapped = replica.frozen.call(libc::SYS_mmap, [page, ROOM, protection, flags, u64::MAX, 0])?;
        if mapped != page as i64 {
            return Ok(None);
        }
        let write = |at: u64, bytes: &[u8]| {
            replica.memory.write(at, bytes).map_err(|_| ReplayError::Trace(TraceError::Gone))
        };
        write(entry, &built.bytes)?;
        write(built.counter, &passes.to_le_bytes())?;
        let mut original = vec![0; site.length];
        replica.memory.read_some(address, &mut original);
        write(address, &trampoline::jump(&site, entry))?;
        replica.traps.push(built.stop);
        let copy_of = |inner: u64| built.moved.iter().find(|(_, original)| *original == inner);
        replica.detours.extend(
            site.inner_addresses().filter_map(|inner| copy_of(inner).map(|&(copy, _)| (inner, copy))),
        );
        Ok(Some(Self::Jump { site, entry, original, trampoline: built, passes }))
    }

    /// Its breakpoint is put in, again where it was taken out for a while.
    fn renew(&self, replica: &mut Replica) -> Result<(), ReplayError> {
        if let Self::Break { address, .. } = self {
            replica
                .overlay
                .insert(&replica.memory, *address)
                .map_err(|error| ReplayError::Diverged(format!("no code at a landmark: {error}")))?;
        }
        Ok(())
    }

    /// Whether a replica was stopped by an access of our own code.
    fn is_own(&self, replica: &Replica) -> Result<bool, TraceError> {
        let Self::Jump { entry, trampoline, .. } = self else { return Ok(false) };
        Ok((*entry..=trampoline.resume).contains(&replica.pc()?))
    }

    /// Whether it compares by itself, and stops only where all is the same.
    fn compares(&self) -> bool {
        matches!(self, Self::Jump { .. })
    }

    /// Whether a breakpoint instruction at `address` is that of this landmark.
    pub(super) fn stops_at(&self, address: u64) -> bool {
        match self {
            Self::Jump { trampoline, .. } => trampoline.stop == address,
            Self::Break { address: site, .. } => *site == address,
        }
    }

    /// A replica stopped here: it stands at the site again, as if there were nothing.
    pub(super) fn arrive(&mut self, replica: &Replica) -> Result<(), ReplayError> {
        match self {
            Self::Jump { site, .. } => {
                let mut registers = replica.registers()?;
                registers.set("rip", site.address);
                Ok(replica.frozen.set_registers(&registers)?)
            }
            Self::Break { passes, .. } => {
                *passes += 1;
                if *passes > MOST_STOPS { Err(ReplayError::TooFar) } else { Ok(()) }
            }
        }
    }

    /// Goes on behind the site.
    pub(super) fn leave(&self, replica: &Replica) -> Result<(), TraceError> {
        if let Self::Jump { trampoline, .. } = self {
            let mut registers = replica.registers()?;
            registers.set("rip", trampoline.resume);
            replica.frozen.set_registers(&registers)?;
        }
        Ok(())
    }

    /// How often the site was passed, or is about to be.
    pub(super) fn passes(&self, replica: &Replica) -> u64 {
        match self {
            Self::Jump { trampoline, passes, .. } => {
                let mut left = [0; 8];
                replica.memory.read_some(trampoline.counter, &mut left);
                passes.wrapping_sub(u64::from_le_bytes(left))
            }
            Self::Break { passes, .. } => *passes,
        }
    }

    /// Takes it out.
    pub(super) fn remove(self, replica: &mut Replica) -> Result<(), ReplayError> {
        match self {
            Self::Jump { site, entry, original, trampoline, .. } => {
                replica.traps.retain(|&trap| trap != trampoline.stop);
                let inner: Vec<_> = site.inner_addresses().collect();
                replica.detours.retain(|(address, _)| !inner.contains(address));
                replica
                    .memory
                    .write(site.address, &original)
                    .map_err(|_| ReplayError::Trace(TraceError::Gone))?;
                let page = trampoline::mapped_around(entry).start;
                replica.frozen.call(libc::SYS_munmap, [page, ROOM, 0, 0, 0, 0])?;
            }
            Self::Break { address, .. } => replica.overlay.remove(&replica.memory, address),
        }
        Ok(())
    }

    /// A replica that was stopped anywhere is taken out of our code, to where it is in the program. The address that it
    /// has to go on from, as long as this is in place, is given back.
    pub(super) fn step_out(&self, replica: &mut Replica, log: &Log) -> Result<Option<u64>, ReplayError> {
        let Self::Jump { site, entry, trampoline, .. } = self else { return Ok(None) };
        for _ in 0..256 {
            let mut registers = replica.registers()?;
            let pc = registers.pc();
            if !trampoline::mapped_around(*entry).contains(&pc) {
                return Ok(None);
            }
            let moved = trampoline.moved.iter().find(|(here, _)| *here == pc).map(|&(_, original)| original);
            if let Some(original) = moved.or((pc == trampoline.stop).then_some(site.address)) {
                registers.set("rip", original);
                replica.frozen.set_registers(&registers)?;
                return Ok(Some(if pc == trampoline.stop { trampoline.resume } else { pc }));
            }
            replica.advance(log, Advance::Step, u64::MAX)?;
        }
        Err(ReplayError::Diverged("a replica did not come out of a landmark".into()))
    }
}

/// Lets a replica run, in a stretch without input, until it is in this state. What else stops it on
/// the way goes to `visit`, which says whether to end there.
pub(super) fn run_to_state(
    replica: &mut Replica,
    log: &Log,
    functions: Functions<'_>,
    state: &State,
    passes: Option<&mut u64>,
    visit: Visit<'_>,
) -> Result<Pause, ReplayError> {
    let mut counted = 0;
    let pause = match state.lead() {
        None => Search::of(state).run(replica, log, functions, &mut counted, visit)?,
        Some(lead) => {
            // Which pass it is, is found out by another replica: this one must not go too far.
            let mut scout = Replica::new(replica.fork()?, replica.event())?;
            let found =
                Search::of(&lead.state)
                    .run(&mut scout, log, functions, &mut counted, &mut |_, _| Ok(false))?;
            match found {
                Pause::Event => run_to_lead(replica, log, functions, state, counted, visit)?,
                other => other,
            }
        }
    };
    if let Some(passes) = passes {
        *passes = counted;
    }
    Ok(pause)
}

/// Lets a replica run, in a stretch without input, until it is in this state or, where that is recognised by a later one,
/// in that one.
pub(super) fn run_to_mark(
    replica: &mut Replica,
    log: &Log,
    functions: Functions<'_>,
    state: &State,
    visit: Visit<'_>,
) -> Result<Pause, ReplayError> {
    let state = state.lead().map_or(state, |lead| &lead.state);
    Search::of(state).run(replica, log, functions, &mut 0, visit)
}

/// Goes to the last pass of the lead's address before the state, and from there by stops at the state's own.
fn run_to_lead(
    replica: &mut Replica,
    log: &Log,
    functions: Functions<'_>,
    state: &State,
    passes: u64,
    visit: Visit<'_>,
) -> Result<Pause, ReplayError> {
    let (address, late) = state.mark();
    let pass = passes.saturating_sub(u64::from(late));
    if pass > 0 {
        let pause = run_to_pass(replica, log, functions, address, pass, visit)?;
        if pause != Pause::Event {
            return Ok(pause);
        }
    }
    Search { stops: true, ..Search::of(state) }.run(replica, log, functions, &mut 0, visit)
}

/// Runs to a pass of an address, in a stretch without input.
pub(super) fn run_to_pass(
    replica: &mut Replica,
    log: &Log,
    functions: Functions<'_>,
    address: u64,
    pass: u64,
    visit: Visit<'_>,
) -> Result<Pause, ReplayError> {
    let event = replica.event();
    if let Some(pause) = step_clear(replica, log, functions, address, visit)? {
        return Ok(pause);
    }
    // All its rounds are one pass.
    let repeat = Repeat::at(replica, address);
    let mut landmark = match repeat {
        Some(_) => Landmark::stop(replica, address)?,
        None => Landmark::place(replica, functions, address, pass, None)?,
    };
    if !landmark.compares() && landmark.passes(replica) >= pass {
        landmark.remove(replica)?;
        return Ok(Pause::Event);
    }
    let mut met = None;
    loop {
        let pause = match met.take() {
            Some(pause) => pause,
            None => replica.advance(log, Advance::Run, event + 1)?,
        };
        match pause {
            Pause::Breakpoint(at) if landmark.stops_at(at) => {
                landmark.arrive(replica)?;
                // Also at the pass that was wanted: whoever goes on from here does not stop where it stands.
                let is_users = is_users(replica, &landmark, at);
                if is_users && visit(replica, &Pause::Breakpoint(at))? {
                    landmark.remove(replica)?;
                    return Ok(Pause::Breakpoint(at));
                }
                if landmark.passes(replica) >= pass {
                    landmark.remove(replica)?;
                    return Ok(Pause::Event);
                }
                if let Some(repeat) = repeat.as_ref().filter(|_| !is_users) {
                    replica.overlay.remove(&replica.memory, at);
                    met = repeat.finish(replica, log)?;
                    landmark.renew(replica)?;
                }
            }
            Pause::Watch(_) if landmark.is_own(replica)? => {}
            pause @ (Pause::Breakpoint(_) | Pause::Watch(_)) => {
                let inside = landmark.step_out(replica, log)?;
                if visit(replica, &pause)? {
                    landmark.remove(replica)?;
                    return Ok(pause);
                }
                go_on_from(replica, inside)?;
            }
            Pause::Interrupted => {
                landmark.step_out(replica, log)?;
                landmark.remove(replica)?;
                return Ok(Pause::Interrupted);
            }
            pause => return Err(ReplayError::Diverged(format!("a landmark was not met again ({pause:?})"))),
        }
    }
}

/// Steps out of the way of a jump, which would take the place of what a replica stands in; says
/// what it is to stop for meanwhile.
fn step_clear(
    replica: &mut Replica,
    log: &Log,
    functions: Functions<'_>,
    address: u64,
    visit: Visit<'_>,
) -> Result<Option<Pause>, ReplayError> {
    let Some(length) = fits(&replica.memory, functions, address) else { return Ok(None) };
    let covered = address + 1..address + length;
    // Where there is a breakpoint, there will be no jump.
    while covered.contains(&replica.pc()?) && !replica.overlay.any_in(address..covered.end) {
        if let Some(pause) = step(replica, log, visit)? {
            return Ok(Some(pause));
        }
    }
    Ok(None)
}

/// One step; says what it is to stop for.
fn step(replica: &mut Replica, log: &Log, visit: Visit<'_>) -> Result<Option<Pause>, ReplayError> {
    Ok(match replica.advance(log, Advance::Step, u64::MAX)? {
        pause @ Pause::Watch(_) if visit(replica, &pause)? => Some(pause),
        Pause::Interrupted => Some(Pause::Interrupted),
        _ => None,
    })
}

/// Puts a replica back into the code of a landmark, where it was stopped.
fn go_on_from(replica: &Replica, address: Option<u64>) -> Result<(), TraceError> {
    let Some(address) = address else { return Ok(()) };
    let mut registers = replica.registers()?;
    registers.set("rip", address);
    replica.frozen.set_registers(&registers)
}

/// The same up to what the state is recognised by, but only for about this long; counts its passes.
pub(super) fn run_for(
    replica: &mut Replica,
    log: &Log,
    functions: Functions<'_>,
    state: &State,
    time: Duration,
    passes: &mut u64,
) -> Result<Pause, ReplayError> {
    let state = state.lead().map_or(state, |lead| &lead.state);
    let search = Search { time: Some(time), ..Search::of(state) };
    search.run(replica, log, functions, passes, &mut |_, _| Ok(false))
}

/// The same, up to so many rounds before a state that stands in a repetition.
pub(super) fn run_shortly_before(
    replica: &mut Replica,
    log: &Log,
    functions: Functions<'_>,
    state: &State,
    rounds: u64,
) -> Result<Pause, ReplayError> {
    let search = Search { rounds_before: rounds, stops: true, ..Search::of(state) };
    search.run(replica, log, functions, &mut 0, &mut |_, _| Ok(false))
}

/// A state that is looked for at its own address.
struct Search<'a> {
    state: &'a State,
    /// Only for so long.
    time: Option<Duration>,
    /// Stop at each pass, without a jump.
    stops: bool,
    /// In a repetition, so many rounds before it will do.
    rounds_before: u64,
}

impl<'a> Search<'a> {
    fn of(state: &'a State) -> Self {
        Self { state, time: None, stops: false, rounds_before: 0 }
    }

    fn run(
        &self,
        replica: &mut Replica,
        log: &Log,
        functions: Functions<'_>,
        counted: &mut u64,
        visit: Visit<'_>,
    ) -> Result<Pause, ReplayError> {
        let state = self.state;
        let deadline = self.time.map(|time| Instant::now() + time);
        let mut pattern = Pattern { registers: Some(state.encoded()), words: Vec::new() };
        // A jump would see only the first round.
        let repeat = Repeat::at(replica, state.pc());
        let stops = self.stops || repeat.is_some();
        if !stops && let Some(pause) = step_clear(replica, log, functions, state.pc(), visit)? {
            return Ok(pause);
        }
        if state.compare(replica)? == Likeness::Same {
            return Ok(Pause::Event);
        }
        let until = replica.event() + 1;
        let mut landmark = match stops {
            true => Landmark::stop(replica, state.pc())?,
            false => Landmark::place(replica, functions, state.pc(), u64::MAX, Some(&pattern))?,
        };
        let mut met = None;
        loop {
            let pause = match (met.take(), deadline) {
                (Some(pause), _) => pause,
                (None, Some(deadline)) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    replica.run_for(log, left, until)?
                }
                (None, None) => replica.advance(log, Advance::Run, until)?,
            };
            match pause {
                Pause::Breakpoint(address) if landmark.stops_at(address) => {
                    landmark.arrive(replica)?;
                    match state.compare(replica)? {
                        Likeness::Same => {
                            *counted += landmark.passes(replica);
                            landmark.remove(replica)?;
                            return Ok(Pause::Event);
                        }
                        Likeness::Word(address, word)
                            if landmark.compares() && pattern.words.len() < MOST_WORDS =>
                        {
                            // Next time this word decides.
                            pattern.words.push((address, word));
                            *counted += landmark.passes(replica);
                            landmark.remove(replica)?;
                            // It stands at the site itself, where there is no landmark now: past it first.
                            if let Some(pause) = step(replica, log, visit)? {
                                return Ok(pause);
                            }
                            if let Some(pause) = step_clear(replica, log, functions, state.pc(), visit)? {
                                return Ok(pause);
                            }
                            landmark =
                                Landmark::place(replica, functions, state.pc(), u64::MAX, Some(&pattern))?;
                            continue;
                        }
                        _ => {}
                    }
                    let is_users = is_users(replica, &landmark, address);
                    if is_users && visit(replica, &Pause::Breakpoint(address))? {
                        landmark.remove(replica)?;
                        return Ok(Pause::Breakpoint(address));
                    }
                    match &repeat {
                        Some(repeat) if !is_users => {
                            replica.overlay.remove(&replica.memory, address);
                            match self.meet_in(repeat, replica, log)? {
                                Meeting::Met => {
                                    *counted += landmark.passes(replica);
                                    return Ok(Pause::Event);
                                }
                                Meeting::Stopped(pause) => met = Some(pause),
                                Meeting::Not => met = repeat.finish(replica, log)?,
                            }
                            landmark.renew(replica)?;
                        }
                        _ if !is_users => landmark.leave(replica)?,
                        _ => {}
                    }
                }
                Pause::Watch(_) if landmark.is_own(replica)? => {}
                Pause::Breakpoint(_) | Pause::Watch(_) => {
                    let inside = landmark.step_out(replica, log)?;
                    if matches!(pause, Pause::Watch(_)) && state.compare(replica)? == Likeness::Same {
                        visit(replica, &pause)?;
                        landmark.remove(replica)?;
                        return Ok(Pause::Event);
                    }
                    if visit(replica, &pause)? {
                        landmark.remove(replica)?;
                        return Ok(pause);
                    }
                    go_on_from(replica, inside)?;
                }
                // A breakpoint instruction of the program's own has the state right behind it.
                Pause::Boundary if state.compare(replica)? == Likeness::Same => {
                    *counted += landmark.passes(replica);
                    landmark.remove(replica)?;
                    return Ok(Pause::Event);
                }
                Pause::Event | Pause::Boundary => {
                    return Err(ReplayError::Diverged("a recorded state was not met again".into()));
                }
                Pause::Interrupted | Pause::Alarm => {
                    landmark.step_out(replica, log)?;
                    landmark.remove(replica)?;
                    return Ok(pause);
                }
                Pause::Stepped => {}
            }
        }
    }

    /// Goes to the state, or shortly before, if it is met within the repetition that a replica stands at.
    fn meet_in(&self, repeat: &Repeat, replica: &mut Replica, log: &Log) -> Result<Meeting, ReplayError> {
        let Some(way) = repeat.leads_to(replica, log, self.state)? else { return Ok(Meeting::Not) };
        let stopped = match way.rounds.saturating_sub(self.rounds_before) {
            0 => None,
            _ if self.rounds_before == 0 => repeat.go(replica, log, way)?,
            rounds => repeat.run(replica, log, rounds)?,
        };
        Ok(stopped.map_or(Meeting::Met, Meeting::Stopped))
    }
}

/// What became of a state within a repetition.
enum Meeting {
    Met,
    Not,
    /// Something is to be told before.
    Stopped(Pause),
}

/// Whether the user has a breakpoint where a landmark had to be one too.
fn is_users(replica: &Replica, landmark: &Landmark, address: u64) -> bool {
    matches!(landmark, Landmark::Break { .. }) && replica.overlay.users(address) > 1
}
