//! The user's breakpoints: what was asked for, and where that is in the program.

use std::{collections::BTreeMap, fmt, iter};

use hindcast_core::debug::{
    Binding, Breakpoint, BreakpointChange, BreakpointId, CodeBreakpoint, Count, DebugError,
    ExceptionBreakpoint, Location, Place, Reason, Remedy, RuntimeAddr, Trigger,
};
use hindcast_symbols::{
    FunctionPattern,
    expression::{Check, CountedNumber, Expression, ExpressionError, Template},
};

use super::{
    Session,
    awaited::{Awaited, Watch},
    exceptions::ExceptionKind,
    hidden::Hidden,
    judge::{MOST_GATES, Ordinal},
    places::Resolved,
    python::is_line,
    watch::Watching,
};
use crate::look::too_long;

/// All breakpoints of a session.
#[derive(Debug, Default)]
pub(super) struct Breakpoints {
    last: u32,
    entries: BTreeMap<BreakpointId, Entry>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) trigger: Trigger,
    /// Read once, evaluated at every hit.
    pub(super) condition: Option<Expression>,
    pub(super) template: Option<Template>,
    pub(super) exception: Option<ExceptionKind>,
    /// Where it is, when it is anywhere.
    pub(super) targets: Vec<Location>,
    pub(super) hidden: Hidden,
    /// What code can judge of the condition at each of these places.
    pub(super) checks: Vec<Option<Check>>,
    /// What hits are counted by; and the same where code can read it, if there is one place only.
    pub(super) count_by: Option<Template>,
    pub(super) number: Option<CountedNumber>,
    /// Hits on the way forwards since one last went back, and how often each value was met.
    pub(super) counted: u64,
    values: BTreeMap<String, u64>,
    /// Whether its breakpoint instructions are in the program.
    inserted: bool,
    pub(super) note: Option<String>,
    pub(super) watching: Option<Watching>,
    /// What is to be watched once it has a place.
    pub(super) awaited: Option<Awaited>,
    pub(super) hit_count: u64,
    /// The same up to the moment that is looked at, and below zero before it was set.
    pub(super) ordinal: Ordinal,
    pub(super) notifications_sent: u64,
}

/// What is said of a condition that is none of those that code can judge.
const EVALUATED: &str = "its condition is evaluated at each pass, which is slow";

impl Breakpoints {
    pub(super) fn get(&self, id: BreakpointId) -> Result<&Entry, DebugError> {
        self.entries.get(&id).ok_or(DebugError::NoSuchBreakpoint(id))
    }

    pub(super) fn get_mut(&mut self, id: BreakpointId) -> Result<&mut Entry, DebugError> {
        self.entries.get_mut(&id).ok_or(DebugError::NoSuchBreakpoint(id))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (BreakpointId, &Entry)> {
        self.entries.iter().map(|(&id, entry)| (id, entry))
    }

    /// Those with a breakpoint instruction at `address`.
    pub(super) fn at(&self, address: u64) -> Vec<BreakpointId> {
        self.iter()
            .filter(|(_, entry)| {
                entry.inserted
                    && entry.targets.iter().any(|target| target.address == Some(RuntimeAddr(address)))
            })
            .map(|(id, _)| id)
            .collect()
    }

    /// One went back in time.
    pub(super) fn count_anew(&mut self) {
        self.entries.values_mut().for_each(Entry::count_anew);
    }

    pub(super) fn is_at(&self, address: u64) -> bool {
        !self.at(address).is_empty()
    }

    /// The one that stops at a signal.
    pub(super) fn signal(&mut self, signal: i32) -> Option<BreakpointId> {
        let (&id, entry) = self.entries.iter_mut().find(|(_, entry)| {
            entry.is_enabled() && entry.exception == Some(ExceptionKind::Signal(signal))
        })?;
        entry.hit_count += 1;
        Some(id)
    }

    /// Signals that are to stop the program.
    pub(super) fn signals(&self) -> impl Iterator<Item = i32> + '_ {
        self.entries.values().filter(|entry| entry.is_enabled()).filter_map(|entry| match entry.exception {
            Some(ExceptionKind::Signal(signal)) => Some(signal),
            _ => None,
        })
    }

    /// The breakpoint as it is told.
    pub(super) fn describe(&self, id: BreakpointId) -> Result<Breakpoint, DebugError> {
        self.get(id).map(|entry| entry.describe(id))
    }

    pub(super) fn all(&self) -> Vec<Breakpoint> {
        self.iter().map(|(id, entry)| entry.describe(id)).collect()
    }
}

impl Entry {
    fn new(trigger: Trigger) -> Result<Self, DebugError> {
        let mut entry = Self {
            trigger,
            condition: None,
            template: None,
            exception: None,
            targets: Vec::new(),
            hidden: Hidden::default(),
            checks: Vec::new(),
            count_by: None,
            number: None,
            counted: 0,
            values: BTreeMap::new(),
            inserted: false,
            note: None,
            watching: None,
            awaited: None,
            hit_count: 0,
            ordinal: 0,
            notifications_sent: 0,
        };
        entry.read_texts()?;
        Ok(entry)
    }

    /// Reads condition, message and exception, so that a mistake is told at once.
    fn read_texts(&mut self) -> Result<(), DebugError> {
        let (condition, message) = match &self.trigger {
            Trigger::Code(code) => (&code.condition, &code.log_message),
            Trigger::Watch(watch) => (&watch.condition, &None),
            Trigger::Exception(exception) => {
                self.exception = Some(ExceptionKind::read(&exception.exception_type)?);
                (&None, &None)
            }
        };
        if let (true, Trigger::Code(code)) = (is_line(&self.trigger), &self.trigger) {
            // Its condition is Python, which is read where it stops.
            return Session::check_line(code);
        }
        self.condition = condition.as_deref().map(Expression::parse).transpose().map_err(failed)?;
        if self.condition.as_ref().is_some_and(Expression::writes) {
            let reason = Reason::new("a condition cannot assign").advise("compare with `==`");
            return Err(DebugError::BreakpointFailed(reason));
        }
        self.template = message.as_deref().map(Template::parse).transpose().map_err(failed)?;
        self.count_by = match &self.trigger {
            Trigger::Code(CodeBreakpoint { count_by: Some(by), .. }) => Some(count_by(by)?),
            _ => None,
        };
        Ok(())
    }

    /// So many hits came on the way forwards.
    pub(super) fn pass(&mut self, hits: u64, values: Vec<(String, u64)>) {
        /// More values than this are not told apart.
        const MOST_VALUES: usize = 10_000;
        const OTHERS: &str = "other values";
        self.set_ordinal(self.ordinal.saturating_add_unsigned(hits));
        self.counted += hits;
        for (value, hits) in values {
            let is_known = self.values.len() < MOST_VALUES || self.values.contains_key(&value);
            *self.values.entry(if is_known { value } else { OTHERS.into() }).or_default() += hits;
        }
    }

    /// One went back: what is counted from here on is counted anew.
    fn count_anew(&mut self) {
        self.counted = 0;
        self.values.clear();
    }

    /// The most frequent values first.
    fn counts(&self) -> Vec<Count> {
        const MOST_TOLD: usize = 200;
        let mut counts: Vec<_> =
            self.values.iter().map(|(value, &hits)| Count { value: value.clone(), hits }).collect();
        counts.sort_by_key(|count| std::cmp::Reverse(count.hits));
        counts.truncate(MOST_TOLD);
        counts
    }

    /// So many hits there were up to the moment that is looked at.
    pub(super) fn set_ordinal(&mut self, ordinal: Ordinal) {
        self.ordinal = ordinal;
        self.hit_count = u64::try_from(ordinal).unwrap_or(0);
    }

    pub(super) fn is_enabled(&self) -> bool {
        match &self.trigger {
            Trigger::Code(code) => code.enabled,
            Trigger::Watch(watch) => watch.enabled,
            Trigger::Exception(exception) => exception.enabled,
        }
    }

    fn only_counts(&self) -> bool {
        matches!(&self.trigger, Trigger::Code(code) if code.count_only)
    }

    fn describe(&self, id: BreakpointId) -> Breakpoint {
        let is_pending = match (&self.trigger, &self.exception) {
            (Trigger::Exception(_), Some(ExceptionKind::Signal(_))) => false,
            (Trigger::Watch(_), _) => !self.watching.as_ref().is_some_and(Watching::is_mapped),
            _ => self.targets.is_empty(),
        };
        let binding = if is_pending {
            Binding::Pending { reason: self.note.clone().unwrap_or_default() }
        } else {
            Binding::Bound { locations: self.targets.clone(), note: self.note.clone() }
        };
        Breakpoint {
            id,
            trigger: self.trigger.clone(),
            binding,
            hit_count: if self.only_counts() { self.counted } else { self.hit_count },
            notifications_sent: self.notifications_sent,
            counts: self.counts(),
        }
    }
}

/// What hits are counted by, as a text with one value.
fn count_by(text: &str) -> Result<Template, DebugError> {
    if Expression::parse(text).map_err(failed)?.writes() {
        let reason = Reason::new("what is counted by cannot assign").advise("give a value, such as `state`");
        return Err(DebugError::BreakpointFailed(reason));
    }
    Template::parse(&format!("{{{text}}}")).map_err(failed)
}

fn failed(error: ExpressionError) -> DebugError {
    DebugError::BreakpointFailed(error.into())
}

/// A note of a breakpoint: what happened and the advice in one sentence.
pub(super) fn in_words(what: &impl fmt::Display, remedies: &[Remedy]) -> String {
    let advice = remedies.iter().filter_map(|remedy| match remedy {
        Remedy::Advice(text) => Some(&**text),
        _ => None,
    });
    iter::once(&*what.to_string()).chain(advice).collect::<Vec<_>>().join("; ")
}

impl Session {
    pub(super) fn added(&mut self, trigger: Trigger) -> Result<Breakpoint, DebugError> {
        let mut entry = Entry::new(trigger)?;
        if let Trigger::Code(CodeBreakpoint { place, .. }) = &entry.trigger
            && let Some(reason) = too_long(place)
        {
            return Err(DebugError::BreakpointFailed(reason));
        }
        // Its hits count from here on, so those of the others have to be known here, too.
        self.count_hits_up_to_here()?;
        match &entry.trigger {
            Trigger::Code(CodeBreakpoint { place: Place::Address(address), .. }) => {
                self.check_code(*address)?;
            }
            trigger if is_line(trigger) => {}
            Trigger::Code(CodeBreakpoint { place: place @ Place::Line { .. }, .. }) => {
                let resolved = self.resolve(place);
                if resolved.is_impossible {
                    let reason = resolved.note.unwrap_or_else(|| Reason::new("it has no code"));
                    return Err(DebugError::BreakpointFailed(reason));
                }
            }
            Trigger::Watch(watch) => match self.watch(&watch.clone())? {
                Watch::Begun(watching) => entry.begin_watching(watching),
                Watch::Awaited(awaited, reason) => {
                    (entry.awaited, entry.note) = (Some(awaited), Some(reason));
                }
            },
            _ => {}
        }
        self.breakpoints.last += 1;
        let id = BreakpointId(self.breakpoints.last);
        self.breakpoints.entries.insert(id, entry);
        self.keep_tally();
        self.bind(id)?;
        self.breakpoints.describe(id)
    }

    fn check_code(&self, address: RuntimeAddr) -> Result<(), DebugError> {
        let mapping = self.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address.0));
        match mapping {
            Some(mapping) if mapping.permissions.contains('x') => Ok(()),
            Some(mapping) => {
                let what = format!("{address} is data ({} {}), not code", mapping.permissions, mapping.name);
                Err(DebugError::BreakpointFailed(Reason::new(what).remedy(Remedy::ShowCode)))
            }
            None => {
                let reason = Reason::new(format!("nothing is mapped at {address}"));
                Err(DebugError::BreakpointFailed(reason.remedy(Remedy::ListModules)))
            }
        }
    }

    /// Puts a breakpoint where it belongs by now, and takes it from where it does not.
    pub(super) fn bind(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        let entry = self.breakpoints.get(id)?;
        if matches!(entry.trigger, Trigger::Watch(_)) {
            return Ok(());
        }
        let resolved = match (&entry.trigger, &entry.exception) {
            (trigger @ Trigger::Code(code), _) if is_line(trigger) => {
                let place = code.place.clone();
                self.resolve_script(id, &place)
            }
            (Trigger::Code(code), _) => self.resolve(&code.place),
            (Trigger::Exception(exception), Some(kind)) => self.resolve_exception(kind, exception),
            _ => Resolved::default(),
        };
        let hidden = match &self.breakpoints.get(id)?.trigger {
            Trigger::Code(code) => Hidden::of(&self.symbols, &code.place, resolved.addresses()),
            _ => Hidden::default(),
        };
        self.take_out(id)?;
        let entry = self.breakpoints.get_mut(id)?;
        (entry.targets, entry.hidden) = (resolved.targets, hidden);
        entry.note = resolved.note.map(|note| in_words(&note, &note.remedies));
        self.compile_condition(id)?;
        let entry = self.breakpoints.get(id)?;
        if entry.is_enabled() {
            self.put_in(id)?;
        }
        Ok(())
    }

    /// Finds out what code can judge of a condition, and says so where that is not all of it.
    fn compile_condition(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        let symbols = &self.symbols;
        let entry = self.breakpoints.entries.get_mut(&id).ok_or(DebugError::NoSuchBreakpoint(id))?;
        entry.checks.clear();
        entry.number = None;
        if let (Trigger::Code(CodeBreakpoint { count_by: Some(by), .. }), [place]) =
            (&entry.trigger, &*entry.targets)
            && let (Some(address), Ok(expression)) = (place.address, Expression::parse(by))
            && entry.hidden.at(address.0) == 0
        {
            entry.number = expression.number_at(symbols, address.0);
        }
        if let Some(note) =
            entry.note.as_mut().and_then(|note| note.strip_suffix(EVALUATED).map(str::to_owned))
        {
            entry.note = Some(note.trim_end_matches("; ").to_owned()).filter(|note| !note.is_empty());
        }
        let (Trigger::Code(_), Some(condition)) = (&entry.trigger, &entry.condition) else { return Ok(()) };
        let addresses: Vec<_> = entry.targets.iter().filter_map(|target| Some(target.address?.0)).collect();
        if addresses.len() <= MOST_GATES {
            let check = |&address: &u64| {
                let is_plain = entry.hidden.at(address) == 0;
                is_plain.then(|| condition.check_at(symbols, address)).flatten()
            };
            entry.checks = addresses.iter().map(check).collect();
        }
        let is_judged = addresses.is_empty()
            || entry.checks.len() == addresses.len() && entry.checks.iter().all(Option::is_some);
        if !is_judged {
            let note = entry.note.take();
            entry.note = Some(note.map_or_else(|| EVALUATED.into(), |note| format!("{note}; {EVALUATED}")));
        }
        Ok(())
    }

    fn resolve_exception(&self, kind: &ExceptionKind, wanted: &ExceptionBreakpoint) -> Resolved {
        let functions = kind.functions(wanted);
        let mut targets = Vec::new();
        for name in functions {
            let found = self.symbols.symbol_addresses(&[name]).into_iter();
            let mut addresses: Vec<_> = found.map(|(_, address)| address).collect();
            addresses.dedup();
            if addresses.is_empty() {
                // Rust mangles even what has a fixed name.
                let mangled = self.symbols.functions_named(&FunctionPattern::Exact((*name).into()), 4);
                addresses.extend(mangled.iter().map(|target| target.address));
            }
            targets.extend(addresses.into_iter().map(|address| self.location(address)));
        }
        let note = (targets.is_empty() && !functions.is_empty())
            .then(|| format!("nothing that is loaded can raise it (`{}` is missing)", functions[0]).into());
        Resolved { targets, note, is_impossible: false }
    }

    /// Inserts the breakpoint instructions of an enabled breakpoint.
    fn put_in(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        let entry = self.breakpoints.get(id)?;
        if entry.inserted {
            return Ok(());
        }
        let addresses: Vec<_> =
            entry.targets.iter().filter_map(|target| target.address).map(|at| at.0).collect();
        self.insert_all(&addresses)?;
        self.breakpoints.get_mut(id)?.inserted = true;
        Ok(())
    }

    fn take_out(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        let entry = self.breakpoints.get_mut(id)?;
        if std::mem::take(&mut entry.inserted) {
            for address in entry.targets.iter().filter_map(|target| target.address) {
                self.process.remove_breakpoint(address.0);
            }
        }
        Ok(())
    }

    pub(super) fn changed(
        &mut self,
        id: BreakpointId,
        change: BreakpointChange,
    ) -> Result<Breakpoint, DebugError> {
        let before = self.breakpoints.get(id)?.trigger.clone();
        let trigger = before.changed(change)?;
        let entry = self.breakpoints.get_mut(id)?;
        entry.trigger = trigger;
        if let Err(error) = entry.read_texts() {
            entry.trigger = before;
            entry.read_texts()?;
            return Err(error);
        }
        self.compile_condition(id)?;
        match self.breakpoints.get(id)?.is_enabled() {
            true => self.put_in_or_watch(id)?,
            false => self.take_out_or_unwatch(id)?,
        }
        self.breakpoints.describe(id)
    }

    fn put_in_or_watch(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        match self.breakpoints.get(id)?.trigger {
            Trigger::Watch(_) => self.resume_watching(id),
            _ => self.put_in(id),
        }
    }

    fn take_out_or_unwatch(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        match self.breakpoints.get(id)?.trigger {
            Trigger::Watch(_) => self.suspend_watching(id),
            _ => self.take_out(id),
        }
    }

    pub(super) fn removed(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        self.take_out_or_unwatch(id)?;
        self.breakpoints.entries.remove(&id);
        self.interpreter.sites.remove(&id);
        Ok(())
    }

    /// Libraries came or went: breakpoints may bind now, or elsewhere.
    pub(super) fn rebind(&mut self) -> Result<(), DebugError> {
        self.tellers = None;
        // A script is no file that is loaded.
        let ids: Vec<_> =
            self.breakpoints.iter().filter(|(_, entry)| !is_line(&entry.trigger)).map(|(id, _)| id).collect();
        for id in ids {
            self.bind(id)?;
        }
        Ok(())
    }

    /// After an exec: nothing of ours is in the memory any more.
    pub(super) fn forget_insertions(&mut self) {
        for entry in self.breakpoints.entries.values_mut() {
            entry.inserted = false;
            (entry.watching, entry.awaited) = (None, None);
        }
        self.breakpoints.entries.retain(|_, entry| !matches!(entry.trigger, Trigger::Watch(_)));
    }
}
