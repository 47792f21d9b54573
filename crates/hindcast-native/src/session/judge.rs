//! Which of the user's breakpoints stop a movement through the past.
//!
//! A hit has a number: how many hits it is away from the moment at which the breakpoint was set, whichever of the two is
//! earlier. So `hit_count` and `hit_count_multiple` choose the same moments backwards and forwards, now and in the past.

use std::collections::{BTreeMap, HashMap};

use hindcast_core::debug::{BreakpointId, CodeBreakpoint, DebugError, NumberFormat, Trigger, ValueLimits};
use hindcast_symbols::{
    Symbols,
    types::ModuleId,
    value::{DerivedTypes, Inspector, Placed},
};

use super::{
    Session,
    breakpoints::{Breakpoints, Entry},
    function_around, system,
    travel::Halted,
};
use crate::{
    debuggee::{Claims, Found, Judge, Quarry},
    image::Image,
    look::{FrameScope, Scene, ThreadScene},
    process::{CleanMemory, Halt},
    replay::{Gate, LiveGate, Pause, Position, ReplayError, Replica},
    sys::TraceError,
};

/// How many hits of a breakpoint there were up to a moment, from the moment on at which it was set. Below zero before that.
pub(super) type Ordinal = i64;

/// The hits of breakpoints that count them, up to a moment.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    at: Position,
    hits: BTreeMap<BreakpointId, Ordinal>,
}

/// Whether a breakpoint stops at the hit with this ordinal.
pub(super) fn stops_at(code: &CodeBreakpoint, ordinal: Ordinal) -> bool {
    if code.count_only {
        return false;
    }
    // The last hit before it was set is one away.
    let number = if ordinal > 0 { ordinal.unsigned_abs() } else { 1 + ordinal.unsigned_abs() };
    number >= code.hit_count
        && (code.hit_count_multiple == 0 || number.is_multiple_of(code.hit_count_multiple))
}

/// Whether a breakpoint stops at some of its hits only.
fn counts(code: &CodeBreakpoint) -> bool {
    code.hit_count > 1 || code.hit_count_multiple > 1 || code.count_only
}

/// How many hits from where the live program is the next one is that somebody wants to know of.
fn next_stop(code: &CodeBreakpoint, entry: &Entry) -> u64 {
    let is_silent = entry.template.is_some()
        && code.max_notifications > 0
        && entry.notifications_sent >= code.max_notifications;
    if is_silent || code.count_only {
        return u64::MAX;
    }
    let passed = u64::try_from(entry.ordinal).unwrap_or(0);
    let first = code.hit_count.max(passed + 1);
    let wanted = match code.hit_count_multiple {
        0 => first,
        multiple => first.div_ceil(multiple).saturating_mul(multiple),
    };
    wanted - passed
}

/// Looks at replicas for [`Session`].
struct PastJudge<'a> {
    symbols: &'a Symbols,
    image: &'a Image,
    main: Option<ModuleId>,
    breakpoints: &'a Breakpoints,
    panic_event: Option<u64>,
    /// Of the breakpoints that count, up to where the search has come.
    hits: BTreeMap<BreakpointId, Ordinal>,
    /// Whether nothing stops, because hits are only counted.
    counts_only: bool,
    /// What was in watched memory when it was last looked at.
    last: HashMap<BreakpointId, Vec<u8>>,
    /// Hits that were passed on the way forwards.
    ahead: BTreeMap<BreakpointId, u64>,
}

impl PastJudge<'_> {
    fn condition_holds(&self, replica: &Replica, id: BreakpointId) -> Result<bool, ReplayError> {
        let Ok(entry) = self.breakpoints.get(id) else { return Ok(true) };
        let Some(condition) = &entry.condition else { return Ok(true) };
        let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
        let scene = Scene { symbols: self.symbols, image: self.image, memory: &memory, main: self.main };
        let registers = replica.registers()?;
        let thread = ThreadScene {
            registers,
            vectors: replica.frozen.thread()?.vector_registers().ok(),
            hidden: entry.hidden.at(registers.pc()),
        };
        let holds = FrameScope::enter(&scene, &thread, 0).map(|scope| condition.is_true(&scope));
        // As in the present, a condition that fails stops, so that its mistake is seen.
        Ok(!matches!(holds, Ok(Ok(false))))
    }

    /// Whether a watchpoint is about the access that a replica has just made.
    fn is_accessed(&mut self, replica: &Replica, id: BreakpointId) -> Result<bool, ReplayError> {
        let Some(watching) = self.breakpoints.get(id).ok().and_then(|entry| entry.watching.as_ref()) else {
            return Ok(false);
        };
        let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
        let Some(now) = watching.read(&memory) else { return Ok(false) };
        let before = self.last.insert(id, now.clone());
        let changed = before.is_some_and(|before| before != now);
        Ok(watching.wants(&memory, self.symbols, &replica.registers()?, changed))
    }
}

impl Judge for PastJudge<'_> {
    fn begin(&mut self, replica: &Replica) {
        let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
        self.last.clear();
        for (id, entry) in self.breakpoints.iter() {
            if let Some(now) = entry.watching.as_ref().and_then(|watching| watching.read(&memory)) {
                self.last.insert(id, now);
            }
        }
    }

    fn meet(&mut self, replica: &Replica, pause: &Pause) -> Result<Claims, ReplayError> {
        let mut claims = Claims::default();
        match pause {
            Pause::Breakpoint(address) => {
                claims.needs_look = self.panic_event == Some(*address);
                for id in self.breakpoints.at(*address) {
                    let Ok(entry) = self.breakpoints.get(id) else { continue };
                    match &entry.trigger {
                        Trigger::Exception(_) => claims.needs_look = true,
                        Trigger::Code(_)
                            if entry.template.is_none() && self.condition_holds(replica, id)? =>
                        {
                            claims.breakpoints.push(id);
                        }
                        Trigger::Code(_) | Trigger::Watch(_) => {}
                    }
                }
            }
            Pause::Watch(slots) => {
                let is_hit = |entry: &super::breakpoints::Entry| {
                    entry.watching.as_ref().is_some_and(|watching| watching.is_hit_by(slots))
                };
                let hit: Vec<_> =
                    self.breakpoints.iter().filter(|(_, entry)| is_hit(entry)).map(|(id, _)| id).collect();
                for id in hit {
                    if self.is_accessed(replica, id)? && self.condition_holds(replica, id)? {
                        claims.breakpoints.push(id);
                    }
                }
            }
            _ => {}
        }
        Ok(claims)
    }

    fn stops(&mut self, claims: &Claims) -> bool {
        let mut stops = claims.needs_look;
        for id in &claims.breakpoints {
            let Some(ordinal) = self.hits.get_mut(id) else {
                stops = true;
                continue;
            };
            let this = *ordinal;
            *ordinal -= 1;
            if let Ok(Trigger::Code(code)) = self.breakpoints.get(*id).map(|entry| &entry.trigger) {
                stops |= stops_at(code, this);
            }
        }
        stops && !self.counts_only
    }

    fn gates(&self) -> Vec<Gate> {
        gates(self.symbols, self.breakpoints, self.panic_event)
    }

    fn last_stop(&self, breakpoint: BreakpointId, hits: u64) -> Option<u64> {
        if self.counts_only {
            return None;
        }
        let Some(&ordinal) = self.hits.get(&breakpoint) else { return Some(hits).filter(|hits| *hits > 0) };
        let Ok(Trigger::Code(code)) = self.breakpoints.get(breakpoint).map(|entry| &entry.trigger) else {
            return None;
        };
        (1..=hits).rev().find(|hit| stops_at(code, ordinal.saturating_sub_unsigned(hits - hit)))
    }

    fn pass(&mut self, breakpoint: BreakpointId, hits: u64) {
        if let Some(ordinal) = self.hits.get_mut(&breakpoint) {
            *ordinal = ordinal.saturating_sub_unsigned(hits);
        }
    }

    fn first_stop(&self, breakpoint: BreakpointId, hits: u64) -> Option<u64> {
        let entry = self.breakpoints.get(breakpoint).ok()?;
        let Trigger::Code(code) = &entry.trigger else { return None };
        let passed = entry.ordinal.saturating_add_unsigned(self.ahead.get(&breakpoint).copied().unwrap_or(0));
        (1..=hits).find(|hit| stops_at(code, passed.saturating_add_unsigned(*hit)))
    }

    fn go_past(&mut self, breakpoint: BreakpointId, hits: u64) {
        *self.ahead.entry(breakpoint).or_default() += hits;
    }
}

/// More places than this are not worth code of their own.
pub(super) const MOST_GATES: usize = 16;

/// The places of breakpoints whose hits code can count: those that are alone there, and whose conditions are simple.
fn gates(symbols: &Symbols, breakpoints: &Breakpoints, panic_event: Option<u64>) -> Vec<Gate> {
    let mut gates = Vec::new();
    for (id, entry) in breakpoints.iter() {
        let is_stop =
            matches!(&entry.trigger, Trigger::Code(code) if code.enabled) && entry.template.is_none();
        let gate = |address: u64| {
            let is_alone = breakpoints.at(address) == [id] && panic_event != Some(address);
            let check = match &entry.condition {
                Some(_) if entry.hidden.at(address) > 0 => return None,
                Some(condition) => Some(condition.check_at(symbols, address)?),
                None => None,
            };
            is_alone.then_some(Gate { address, breakpoint: id, check })
        };
        let addresses = entry.targets.iter().filter_map(|target| target.address);
        let own: Option<Vec<_>> =
            if is_stop { addresses.map(|address| gate(address.0)).collect() } else { None };
        gates.extend(own.into_iter().flatten());
    }
    if gates.len() > MOST_GATES { Vec::new() } else { gates }
}

impl Session {
    /// Where the user's breakpoints last stopped the program before a moment.
    pub(super) fn find_stop(&mut self, position: &Position, quarry: Quarry) -> Result<Option<Found>, Halted> {
        let (found, hits) = self.judged(|session, judge| {
            let symbols = judge.symbols;
            let functions = |address| function_around(symbols, address);
            session.find_before(position, quarry, Some(judge), &functions)
        })?;
        // Standing at a hit, that one counts: it was passed by the search.
        for (id, mut ordinal) in hits {
            let is_there = found.as_ref().is_some_and(|found| found.claims.breakpoints.contains(&id));
            ordinal += i64::from(is_there);
            self.breakpoints.get_mut(id)?.set_ordinal(ordinal);
        }
        Ok(found)
    }

    /// Works with a judge of the breakpoints as they are; returns what it has counted, too.
    fn judged<T>(
        &mut self,
        work: impl FnOnce(&mut crate::debuggee::Debuggee, &mut PastJudge<'_>) -> Result<T, ReplayError>,
    ) -> Result<(T, BTreeMap<BreakpointId, Ordinal>), Halted> {
        let hits = self.counted_hits();
        let mut judge = PastJudge {
            symbols: &self.symbols,
            image: &self.image,
            main: self.main,
            breakpoints: &self.breakpoints,
            panic_event: self.panic_event,
            hits,
            counts_only: false,
            last: HashMap::new(),
            ahead: BTreeMap::new(),
        };
        let done = work(&mut self.process, &mut judge)?;
        Ok((done, judge.hits))
    }

    /// Lets the live program run with the conditions of breakpoints judged and their hits counted by code beside it. `None`
    /// where there is nothing to gain by that.
    fn run_judged(&mut self) -> Result<Option<Halt>, TraceError> {
        if self.process.is_fixed() || self.breakpoints.iter().any(|(_, entry)| entry.watching.is_some()) {
            return Ok(None);
        }
        let mut gates = Vec::new();
        for (id, entry) in self.breakpoints.iter() {
            let Trigger::Code(code) = &entry.trigger else { continue };
            if !code.enabled || !(counts(code) || entry.condition.is_some()) {
                continue;
            }
            gates.extend(self.live_gates(id, entry, next_stop(code, entry)).unwrap_or_default());
        }
        if gates.is_empty() || gates.len() > MOST_GATES {
            return Ok(None);
        }
        let symbols = &self.symbols;
        let (halt, hits) = self.process.run_sieved(&gates, &|address| function_around(symbols, address))?;
        for hits in hits {
            let types = DerivedTypes::new(&self.symbols);
            let memory = self.process.memory();
            let inspector = Inspector::new(&types, &memory, ValueLimits::default(), NumberFormat::Auto);
            let Ok(entry) = self.breakpoints.get_mut(hits.breakpoint) else { continue };
            let mut values = Vec::new();
            if let Some(number) = &entry.number {
                let text = |value: u64| {
                    let bytes = value.to_le_bytes();
                    inspector.line(&Placed::computed(number.type_ref, &bytes[..usize::from(number.size)]))
                };
                values = hits.values.iter().map(|(&value, &hits)| (text(value), hits)).collect();
            }
            entry.pass(hits.count, values);
        }
        Ok(Some(halt))
    }

    /// All places of a breakpoint, if code can judge it at each of them.
    fn live_gates(&self, id: BreakpointId, entry: &Entry, limit: u64) -> Option<Vec<LiveGate>> {
        let addresses = entry.targets.iter().filter_map(|target| Some(target.address?.0));
        let gate = |(index, address): (usize, u64)| {
            let is_alone = self.breakpoints.at(address) == [id]
                && self.panic_event != Some(address)
                && self.library_event != Some(address);
            let check = match &entry.condition {
                Some(_) => Some(entry.checks.get(index)?.clone()?),
                None => None,
            };
            // One number at one place: elsewhere it may be of another type.
            let number = match (&entry.count_by, &entry.number) {
                (Some(_), Some(counted)) => Some(counted.number.clone()),
                (Some(_), None) => return None,
                (None, _) => None,
            };
            is_alone.then_some(LiveGate { gate: Gate { address, breakpoint: id, check }, limit, number })
        };
        // Before the moment at which it was set, hits count the other way.
        (entry.ordinal >= 0).then(|| addresses.enumerate().map(gate).collect()).flatten()
    }

    /// Forwards in the past with hits counted by code. `None` where breakpoints have to be looked at one by one.
    pub(super) fn run_sifting(&mut self) -> Result<Option<Halt>, TraceError> {
        if !self.process.is_in_past() {
            return self.run_judged();
        }
        let is_code = |entry: &Entry| matches!(&entry.trigger, Trigger::Code(code) if code.enabled);
        let gates = gates(&self.symbols, &self.breakpoints, self.panic_event);
        let is_counted = |id: BreakpointId| gates.iter().any(|gate| gate.breakpoint == id);
        let chooses = |(id, entry): (BreakpointId, &Entry)| {
            let counts = matches!(&entry.trigger, Trigger::Code(code) if counts(code));
            is_counted(id) && (counts || entry.condition.is_some())
        };
        let watches = self.breakpoints.iter().any(|(_, entry)| entry.watching.is_some());
        let all_counted = self
            .breakpoints
            .iter()
            .all(|(id, entry)| !is_code(entry) || entry.targets.is_empty() || is_counted(id));
        // Values are told by looking.
        let tells_apart = |(_, entry): (BreakpointId, &Entry)| is_code(entry) && entry.count_by.is_some();
        if self.breakpoints.iter().any(tells_apart)
            || watches
            || !all_counted
            || !self.breakpoints.iter().any(chooses)
        {
            return Ok(None);
        }
        let mut judge = PastJudge {
            symbols: &self.symbols,
            image: &self.image,
            main: self.main,
            breakpoints: &self.breakpoints,
            panic_event: self.panic_event,
            hits: BTreeMap::new(),
            counts_only: false,
            last: HashMap::new(),
            ahead: BTreeMap::new(),
        };
        let symbols = &self.symbols;
        let halt = self.process.run_sifting(&|address| function_around(symbols, address), &mut judge);
        for (id, hits) in judge.ahead {
            if let Ok(entry) = self.breakpoints.get_mut(id) {
                entry.pass(hits, Vec::new());
            }
        }
        halt.map(Some)
    }

    /// The breakpoints that count their hits, with how many there were.
    fn counted_hits(&self) -> BTreeMap<BreakpointId, Ordinal> {
        let counting = self.breakpoints.iter().filter(
            |(_, entry)| matches!(&entry.trigger, Trigger::Code(code) if counts(code) && code.enabled),
        );
        counting.map(|(id, entry)| (id, entry.ordinal)).collect()
    }

    /// The hits are those up to where the program stands.
    pub(super) fn keep_tally(&mut self) {
        if let Some(at) = self.process.known_position() {
            self.tally = Some(Tally { at, hits: self.counted_hits() });
        }
    }

    /// Brings the hits of breakpoints that count them to a moment that was come to in another way than past them.
    pub(super) fn count_hits_up_to(&mut self, position: &Position) -> Result<(), Halted> {
        let Some(Tally { at, hits: known }) = self.tally.clone() else { return Ok(()) };
        if at == *position || self.counted_hits().keys().all(|id| !known.contains_key(id)) {
            return Ok(());
        }
        for (&id, &ordinal) in &known {
            if let Ok(entry) = self.breakpoints.get_mut(id) {
                entry.set_ordinal(ordinal);
            }
        }
        let (earlier, later) = if at < *position { (&at, position) } else { (position, &at) };
        let ((), counted) = self.judged(|process, judge| {
            judge.counts_only = true;
            let symbols = judge.symbols;
            process.count_between(earlier, later, judge, &|address| function_around(symbols, address))
        })?;
        for (id, ordinal) in counted {
            let Some(&before) = known.get(&id) else { continue };
            let between = before - ordinal;
            let there = if at < *position { before + between } else { before - between };
            self.breakpoints.get_mut(id)?.set_ordinal(there);
        }
        Ok(())
    }

    /// The present was come to through the past: a breakpoint that the program stands at counts.
    pub(super) fn count_hits_at_present(&mut self) -> Result<(), DebugError> {
        let tid = self.process.acting();
        // It is counted here.
        let _ = self.process.take_unjudged();
        let pc = self.process.registers(tid).map_err(system)?.pc();
        for id in self.breakpoints.at(pc) {
            if self.counted_hits().contains_key(&id) && self.condition_holds(tid, id)? {
                self.count_hit(tid, id)?;
            }
        }
        Ok(())
    }

    /// The same for where the program stands, before it goes on. False when that was interrupted.
    pub(super) fn count_hits_up_to_here(&mut self) -> Result<bool, DebugError> {
        if !self.process.is_fixed()
            && self
                .tally
                .as_ref()
                .is_none_or(|tally| Some(&tally.at) == self.process.known_position().as_ref())
        {
            return Ok(true);
        }
        let here = match self.process.position() {
            Ok(Some(here)) => here,
            Err(ReplayError::Interrupted) => return Ok(false),
            Ok(None) | Err(_) => return Ok(true),
        };
        match self.count_hits_up_to(&here) {
            Ok(()) => Ok(true),
            Err(Halted::Interrupted) => Ok(false),
            Err(Halted::Failed(error)) => Err(error),
        }
    }
}
