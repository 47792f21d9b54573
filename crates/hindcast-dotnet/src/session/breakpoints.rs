//! The user's breakpoints: what was asked for, where that is in the program, and what happens when it is hit.

use std::{collections::BTreeMap, rc::Rc};

use hindcast_core::debug::{
    Binding, Breakpoint, BreakpointChange, BreakpointId, CodeBreakpoint, DebugError, FrameRef, OutputStream,
    Place, Reason, Stop, StopAtEntry, StopReason, Trigger,
};

use super::{
    Session,
    events::Plan,
    places::CodePlace,
    sites::{Site, Sites},
};
use crate::{
    cor::{Breakpoint as CorBreakpoint, Com, FunctionBreakpoint, Hresult, Module, Module2, Thread},
    expression::{Expression, Template},
    modules::LoadedModule,
};

/// Compile without optimization, so that every variable has a place and every line is met.
const NO_OPTIMIZATION: u32 = 3;

/// All breakpoints of a session.
#[derive(Debug, Default)]
pub(super) struct Breakpoints {
    last: u32,
    entries: BTreeMap<BreakpointId, Entry>,
    /// Where a launched program first stops.
    entry: Vec<Rc<Site>>,
}

/// One of them.
#[derive(Debug)]
struct Entry {
    trigger: Trigger,
    condition: Option<Expression>,
    template: Option<Template>,
    bound: Vec<Bound>,
    note: Option<String>,
    hit_count: u64,
    notifications_sent: u64,
}

/// A place where a breakpoint is in the program.
#[derive(Debug)]
struct Bound {
    place: CodePlace,
    /// Held while the breakpoint is enabled.
    site: Option<Rc<Site>>,
}

impl Entry {
    fn new(trigger: Trigger) -> Result<Self, DebugError> {
        let (condition, message) = match &trigger {
            Trigger::Code(code) => (code.condition.as_deref(), code.log_message.as_deref()),
            _ => (None, None),
        };
        let failed = |error: crate::expression::ParseError| DebugError::BreakpointFailed(error.into());
        let condition = condition.map(Expression::parse).transpose().map_err(failed)?;
        if condition.as_ref().is_some_and(Expression::writes) {
            return Err(DebugError::BreakpointFailed(
                Reason::new("a condition cannot assign").advise("compare with `==`"),
            ));
        }
        if condition.as_ref().is_some_and(Expression::calls) {
            let what = "a condition cannot call methods: that would run code of the program at every hit";
            return Err(DebugError::BreakpointFailed(Reason::new(what).advise("compare fields")));
        }
        let template = message.map(Template::parse).transpose().map_err(failed)?;
        Ok(Self {
            trigger,
            condition,
            template,
            bound: Vec::new(),
            note: None,
            hit_count: 0,
            notifications_sent: 0,
        })
    }

    fn is_enabled(&self) -> bool {
        match &self.trigger {
            Trigger::Code(code) => code.enabled,
            Trigger::Watch(watch) => watch.enabled,
            Trigger::Exception(exception) => exception.enabled,
        }
    }

    fn describe(&self, id: BreakpointId) -> Breakpoint {
        let is_pending = matches!(self.trigger, Trigger::Code(_)) && self.bound.is_empty();
        let binding = if is_pending {
            Binding::Pending { reason: self.note.clone().unwrap_or_default() }
        } else {
            let locations = self.bound.iter().map(|bound| bound.place.location.clone()).collect();
            Binding::Bound { locations, note: self.note.clone() }
        };
        Breakpoint {
            id,
            trigger: self.trigger.clone(),
            binding,
            hit_count: self.hit_count,
            notifications_sent: self.notifications_sent,
            counts: Vec::new(),
        }
    }

    /// Puts it into the program, or takes it out, as it is enabled or not.
    fn settle(&mut self, sites: &Sites) {
        let is_enabled = self.is_enabled();
        for bound in &mut self.bound {
            // A place whose module is gone cannot be hit any more.
            bound.site = is_enabled.then(|| sites.hold(&bound.place).ok()).flatten();
        }
    }

    fn holds(&self, hit: usize) -> bool {
        self.bound.iter().filter_map(|bound| bound.site.as_ref()).any(|site| site.is(hit))
    }
}

impl Breakpoints {
    fn get(&self, id: BreakpointId) -> Result<&Entry, DebugError> {
        self.entries.get(&id).ok_or(DebugError::NoSuchBreakpoint(id))
    }

    fn get_mut(&mut self, id: BreakpointId) -> Result<&mut Entry, DebugError> {
        self.entries.get_mut(&id).ok_or(DebugError::NoSuchBreakpoint(id))
    }

    pub(super) fn all(&self) -> Vec<Breakpoint> {
        self.entries.iter().map(|(&id, entry)| entry.describe(id)).collect()
    }

    /// The enabled exception breakpoints, with what counts their hits.
    pub(super) fn exceptions(
        &mut self,
    ) -> impl Iterator<Item = (BreakpointId, &hindcast_core::debug::ExceptionBreakpoint, &mut u64)> {
        self.entries.iter_mut().filter_map(|(&id, entry)| match &entry.trigger {
            Trigger::Exception(exception) if exception.enabled => Some((id, exception, &mut entry.hit_count)),
            _ => None,
        })
    }

    /// Takes everything out of the program, before it is let go of.
    pub(super) fn take_out_all(&mut self) {
        for bound in self.entries.values_mut().flat_map(|entry| &mut entry.bound) {
            bound.site = None;
        }
        self.entry.clear();
    }
}

impl Session {
    pub(super) fn added(&mut self, trigger: Trigger) -> Result<Breakpoint, DebugError> {
        if let Trigger::Watch(_) = &trigger {
            let reason = Reason::new("a .NET session cannot watch memory, because objects move");
            return Err(DebugError::Unsupported(reason.advise(
                "set a breakpoint in the property's setter, or with a condition where the value is used",
            )));
        }
        if let Trigger::Exception(exception) = &trigger {
            super::exceptions::check_name(&exception.exception_type)?;
        }
        let mut entry = Entry::new(trigger)?;
        self.bind(&mut entry, None)?;
        self.breakpoints.last += 1;
        let id = BreakpointId(self.breakpoints.last);
        let described = entry.describe(id);
        self.breakpoints.entries.insert(id, entry);
        Ok(described)
    }

    /// Puts a breakpoint wherever it belongs in what is loaded, or only in one module.
    fn bind(&self, entry: &mut Entry, only: Option<&Rc<LoadedModule>>) -> Result<(), DebugError> {
        if let Trigger::Exception(wanted) = &entry.trigger {
            entry.note = self.unknown_exception(&wanted.exception_type, only, entry.note.take());
        }
        let Trigger::Code(CodeBreakpoint { place, .. }) = &entry.trigger else { return Ok(()) };
        let is_by_source = matches!(place, Place::Line { .. } | Place::Statement { .. });
        if is_by_source && only.is_some_and(|module| module.pdb().is_none()) {
            return Ok(());
        }
        let asked = place.clone();
        let resolved = self.resolve(&asked)?;
        let is_wanted = |place: &&CodePlace| only.is_none_or(|module| Rc::ptr_eq(module, &place.module));
        for place in resolved.places.iter().filter(is_wanted) {
            if entry.bound.iter().any(|bound| bound.place.is_same(place)) {
                continue;
            }
            match self.sites.hold(place) {
                Ok(site) => {
                    let site = entry.is_enabled().then_some(site);
                    entry.bound.push(Bound { place: place.clone(), site });
                }
                Err(error) => self.bind_before(entry, place, &error.to_string()),
            }
        }
        let is_news = only.is_none_or(|module| module.is_mine());
        if resolved.places.is_empty() && entry.bound.is_empty() && is_news {
            let hint = self.hint(&asked);
            let waits = if resolved.may_come { "; it binds when one is loaded" } else { "" };
            entry.note = resolved.note.map(|note| note + &hint + waits).or(entry.note.take());
        } else if !resolved.places.is_empty() {
            entry.note = resolved.note.or(entry.note.take());
        }
        Ok(())
    }

    /// Puts a breakpoint at the next statement before one that the runtime cannot stop at: optimised code goes from one to the
    /// other without a place between them.
    fn bind_before(&self, entry: &mut Entry, place: &CodePlace, why: &str) {
        let points = place.module.pdb().and_then(|pdb| pdb.sequence_points(place.method).ok());
        let mut before = points.unwrap_or_default();
        before.retain(|point| point.il < place.offset && point.span.is_some());
        let places = before.iter().rev().map(|point| self.code_place(&place.module, place.method, point.il));
        let mut held = places.filter_map(|place| Some((self.sites.hold(&place).ok()?, place)));
        let Some((site, place)) = held.next() else {
            entry.note = Some(format!("it cannot be set: {why}; a line before it may do"));
            return;
        };
        if !entry.bound.iter().any(|bound| bound.place.is_same(&place)) {
            let (line, column) = (place.location.line.unwrap_or(0), place.location.column.unwrap_or(0));
            entry.note = Some(format!(
                "the optimised program does not stop there; it is at the statement before, line {line}, column {column}"
            ));
            entry.bound.push(Bound { place, site: entry.is_enabled().then_some(site) });
        }
    }

    pub(super) fn changed(
        &mut self,
        id: BreakpointId,
        change: BreakpointChange,
    ) -> Result<Breakpoint, DebugError> {
        // Read first, so that a mistake changes nothing.
        let read = Entry::new(self.breakpoints.get(id)?.trigger.changed(change)?)?;
        let entry = self.breakpoints.get_mut(id)?;
        (entry.trigger, entry.condition, entry.template) = (read.trigger, read.condition, read.template);
        entry.settle(&self.sites);
        Ok(entry.describe(id))
    }

    pub(super) fn removed(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        self.breakpoints.entries.remove(&id).map(drop).ok_or(DebugError::NoSuchBreakpoint(id))
    }

    /// Takes in an assembly that was loaded, and puts into it what waited for it.
    pub(super) fn module_loaded(&mut self, module: Com<Module>) {
        let loaded = self.modules.add(module);
        if let Some(control) = loaded.module.cast::<Module2>() {
            if loaded.is_mine() && self.launched.is_some() {
                // Refused for code that was compiled ahead; then it is as it is.
                let _ = control.set_jit_compiler_flags(NO_OPTIMIZATION);
            }
            let _ = control.set_just_my_code(loaded.is_mine());
        }
        self.hide_what_asks_for_it(&loaded);
        let mut entries = std::mem::take(&mut self.breakpoints.entries);
        for entry in entries.values_mut() {
            // What cannot be resolved in this module may be in the next.
            let _ = self.bind(entry, Some(&loaded));
        }
        self.breakpoints.entries = entries;
        self.set_entry_breakpoint(&loaded);
    }

    /// Methods that say that debuggers should not stop in them are not the user's own.
    fn hide_what_asks_for_it(&self, module: &LoadedModule) {
        const MARKS: [&str; 3] = [
            "System.Diagnostics.DebuggerHiddenAttribute",
            "System.Diagnostics.DebuggerStepThroughAttribute",
            "System.Diagnostics.DebuggerNonUserCodeAttribute",
        ];
        let Some(assembly) = module.assembly().filter(|_| module.is_mine() && self.just_my_code) else {
            return;
        };
        for of in assembly.types() {
            let whole = MARKS.iter().any(|mark| assembly.has_attribute(of.token(), mark));
            for method in of.methods() {
                if whole || MARKS.iter().any(|mark| assembly.has_attribute(method.token(), mark)) {
                    let function = module.module.function_from_token(method.token().0);
                    let function =
                        function.ok().and_then(|function| function.cast::<crate::cor::Function2>());
                    if let Some(function) = function {
                        let _ = function.set_just_my_code(0);
                    }
                }
            }
        }
    }

    /// A launched program first stops in `Main`, once its assembly is there.
    fn set_entry_breakpoint(&mut self, module: &Rc<LoadedModule>) {
        let is_program = module.path == self.target.executable || self.is_same_file(&module.path);
        if self.stop_at_entry != StopAtEntry::Main || !matches!(self.plan, Plan::Begin) || !is_program {
            return;
        }
        let main = module.assembly().and_then(|assembly| {
            let entry = assembly.method(assembly.entry_point()?)?;
            // An asynchronous `Main` is called by a stub that the compiler made.
            let is_stub = entry.name() == Some("<Main>");
            let written = entry
                .declaring_type()
                .and_then(|of| of.methods().find(|method| matches!(method.name(), Some("Main" | "<Main>$"))));
            self.beginning(module, if is_stub { written? } else { entry })
        });
        if let Some(site) = main.and_then(|place| self.sites.hold(&place).ok()) {
            self.breakpoints.entry.push(site);
        }
    }

    fn is_same_file(&self, path: &str) -> bool {
        let real = |path: &str| std::fs::canonicalize(path).ok();
        real(path).is_some_and(|path| Some(path) == real(&self.target.executable))
    }

    /// The runtime could not put a breakpoint into the code that it has compiled.
    pub(super) fn breakpoint_refused(&mut self, breakpoint: &Com<CorBreakpoint>, code: u32) {
        let Some(refused) = breakpoint.cast::<FunctionBreakpoint>() else { return };
        let refused = refused.identity();
        let mut entries = std::mem::take(&mut self.breakpoints.entries);
        for entry in entries.values_mut() {
            let is_refused = |bound: &Bound| bound.site.as_ref().is_some_and(|site| site.is(refused));
            while let Some(at) = entry.bound.iter().position(is_refused) {
                let bound = entry.bound.remove(at);
                self.bind_before(entry, &bound.place, &Hresult(code).to_string());
            }
        }
        self.breakpoints.entries = entries;
    }

    /// A breakpoint was hit: one of the user's, where the program begins, or where the movement goes.
    pub(super) fn breakpoint_hit(
        &mut self,
        thread: &Com<Thread>,
        breakpoint: &Com<CorBreakpoint>,
    ) -> Result<Option<Stop>, DebugError> {
        let Some(hit) = breakpoint.cast::<FunctionBreakpoint>() else { return Ok(None) };
        let hit = hit.identity();
        let is_entry = self.breakpoints.entry.iter().any(|site| site.is(hit));
        if is_entry {
            self.breakpoints.entry.clear();
        }
        let ids: Vec<BreakpointId> = self
            .breakpoints
            .entries
            .iter()
            .filter(|(_, entry)| entry.holds(hit))
            .map(|(&id, _)| id)
            .collect();
        let (mut stopping, mut details) = (Vec::new(), Vec::new());
        for id in ids {
            if let Some(detail) = self.code_hit(thread, id)? {
                stopping.push(id);
                details.extend(detail);
            }
        }
        if !stopping.is_empty() {
            for id in &stopping {
                if matches!(&self.breakpoints.get(*id)?.trigger, Trigger::Code(code) if code.temporary) {
                    self.removed(*id)?;
                }
            }
            let detail = (!details.is_empty()).then(|| details.join("; "));
            let mut stop = self.stop_at(thread, StopReason::Breakpoint, detail.as_deref());
            stop.breakpoints = stopping;
            return Ok(Some(stop));
        }
        if is_entry {
            return Ok(Some(self.stop_at(thread, StopReason::Entry, None)));
        }
        let arrived = matches!(&self.plan, Plan::RunTo { sites, .. }
            if sites.iter().any(|site| site.is(hit)));
        if arrived {
            return Ok(Some(self.stop_at(thread, StopReason::Step, None)));
        }
        self.gate_passed(thread, hit)
    }

    /// `Some` where it stops, with what is to be said of that.
    fn code_hit(
        &mut self,
        thread: &Com<Thread>,
        id: BreakpointId,
    ) -> Result<Option<Option<String>>, DebugError> {
        let frame = FrameRef::of(self.thread_id(thread), 0);
        if let Some(condition) = self.breakpoints.get(id)?.condition.clone() {
            match self.is_true(&condition, frame) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                // Stopping tells the user of the mistake; going on would hide it for ever.
                Err(error) => {
                    self.breakpoints.get_mut(id)?.hit_count += 1;
                    return Ok(Some(Some(format!("the condition of breakpoint {id} fails: {error}"))));
                }
            }
        }
        let entry = self.breakpoints.get_mut(id)?;
        entry.hit_count += 1;
        let Trigger::Code(code) = &entry.trigger else { return Ok(None) };
        let is_due = entry.hit_count >= code.hit_count
            && (code.hit_count_multiple == 0 || entry.hit_count.is_multiple_of(code.hit_count_multiple));
        if !is_due {
            return Ok(None);
        }
        let Some(template) = entry.template.clone() else { return Ok(Some(None)) };
        if code.max_notifications == 0 || entry.notifications_sent < code.max_notifications {
            entry.notifications_sent += 1;
            let mut text = self.filled(&template, frame);
            text.push('\n');
            self.output.push(OutputStream::Log, text.as_bytes());
        }
        Ok(None)
    }
}
