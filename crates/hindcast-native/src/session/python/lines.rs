//! Breakpoints on lines of Python.
//!
//! Before an instruction runs, the interpreter reads it: whoever watches the first instructions of a line sees each visit, in whatever
//! frame. The processor tells of it a little early, and of other reads as well. So a visit is only what leads, within a few
//! instructions of the machine, to the line being begun; there the program stops.

use std::{collections::BTreeMap, path::Path};

use hindcast_core::debug::{
    BreakpointId, CodeBreakpoint, DebugError, Evaluation, FrameRef, Location, NumberFormat, Place, Reason,
    Stop, StopReason, Trigger, ValueLimits, View,
};
use hindcast_python::{Code, LineMap, Progress, Python, Reader, Standing};

use super::{absolute, of_thread};
use crate::{
    debuggee::{Claims, Found, Judge, Quarry},
    process::{CleanMemory, Halt},
    replay::{Pause, Position, ReplayError, Replica},
    session::{
        Session, function_around, hits::Condition, movement::Verdict, places::Resolved, system,
        travel::Halted,
    },
    sys::{Tid, WatchKind},
};

/// The line of a breakpoint in one piece of code.
#[derive(Debug, Clone)]
pub(in crate::session) struct Site {
    code: Code,
    line: u32,
    lines: LineMap,
    /// The instructions at which the line is come to.
    starts: Vec<u64>,
    location: Location,
}

impl Site {
    /// Whether a frame is about to begin the line.
    fn is_begun_from(&self, standing: &Standing) -> bool {
        standing.code == self.code.address && !self.is_in_line(standing)
    }

    fn is_in_line(&self, standing: &Standing) -> bool {
        standing.code == self.code.address && self.lines.at(standing.instruction) == Progress::Line(self.line)
    }
}

/// The lines of all breakpoints in Python.
pub(in crate::session) type Sites = BTreeMap<BreakpointId, Vec<Site>>;

/// A run that breakpoints on lines of Python may end.
#[derive(Debug, Default)]
pub(in crate::session) struct RunToLines {
    /// The debug registers that it takes; nothing before it has begun.
    registers: Option<Vec<usize>>,
    /// Where the interpreter begins to run a module, if breakpoints wait for one.
    modules: Option<u64>,
}

/// From the read of an instruction to its beginning there are not more instructions of the machine.
const LEAD: usize = 64;

/// Whether a place is a line of Python; such a breakpoint has nothing of a native one.
pub(in crate::session) fn is_line(trigger: &Trigger) -> bool {
    matches!(trigger, Trigger::Code(CodeBreakpoint { place: Place::Line { file, .. } | Place::Statement { file, .. }, .. })
        if super::is_script(file))
}

impl Session {
    /// Refuses what breakpoints on lines of Python cannot do.
    pub(in crate::session) fn check_line(code: &CodeBreakpoint) -> Result<(), DebugError> {
        let is_plain = code.log_message.is_none()
            && code.hit_count <= 1
            && code.hit_count_multiple <= 1
            && !code.count_only
            && code.count_by.is_none();
        match is_plain {
            true => Ok(()),
            false => Err(DebugError::BreakpointFailed(
                Reason::new("a breakpoint on a line of a recorded Python program neither counts nor logs")
                    .advise("use a `condition`"),
            )),
        }
    }

    /// What a line of a script means in the program as it is, which is remembered.
    pub(in crate::session) fn resolve_script(&mut self, id: BreakpointId, place: &Place) -> Resolved {
        let (mut has_code, mut sites) = self.sites_of(place);
        if self.process.ended().is_some() {
            (has_code, sites) = self.sites_at_end(place);
        }
        let targets: Vec<_> = sites.iter().map(|site| site.location.clone()).collect();
        let note = targets.is_empty().then(|| match has_code {
            false => {
                Reason::new("no code of this file is loaded here").advise("it binds when the module is run")
            }
            true => Reason::new("no code that is loaded here has this line").advise(
                "at the end of the program code of modules is gone: go to an earlier moment, or name a line in a function",
            ),
        });
        self.interpreter.sites.insert(id, sites);
        Resolved { targets, note, is_impossible: false }
    }

    /// Where a place is in what is loaded, and whether any code of its file is.
    fn sites_of(&mut self, place: &Place) -> (bool, Vec<Site>) {
        if self.process.ended().is_some() || self.find_python().is_err() {
            return (false, Vec::new());
        }
        let folder = self.working_folder();
        let memory = self.process.memory();
        let Some(python) = self.interpreter.known() else { return (false, Vec::new()) };
        let codes = Reader::new(python, &memory).code_of(&|file| is_file(file, file_of(place), &folder));
        let codes: Vec<_> = codes.into_iter().map(|code| (*code).clone()).collect();
        (!codes.is_empty(), self.sites_in(place, &codes))
    }

    /// The same for what was loaded when the interpreter was about to end, and where an exception was raised that ended it.
    /// The session stands where it stood before.
    fn sites_at_end(&mut self, place: &Place) -> (bool, Vec<Site>) {
        let Ok(end) = self.last() else { return (false, Vec::new()) };
        let raised = self.uncaught.as_ref().and_then(|uncaught| uncaught.as_ref()?.moment.clone());
        let finish = self.interpreters_function("Py_FinalizeEx");
        let finish = finish.and_then(|finish| {
            self.land(&end).ok()?;
            self.find(&end, Quarry::Call { address: finish, stack: None }).ok()?
        });
        let (mut has_code, mut sites) = (false, Vec::new());
        for moment in raised.into_iter().chain(finish.map(|found| found.position)) {
            if self.land(&moment).is_ok() {
                let (has_more, more) = self.sites_of(place);
                has_code |= has_more;
                let is_new = |site: &Site| {
                    sites.iter().all(|known: &Site| (&known.code, known.line) != (&site.code, site.line))
                };
                let more: Vec<_> = more.into_iter().filter(is_new).collect();
                sites.extend(more);
            }
        }
        self.process.go_live();
        let _ = self.after_travel();
        (has_code, sites)
    }

    fn sites_in(&mut self, place: &Place, codes: &[Code]) -> Vec<Site> {
        let folder = self.working_folder();
        let memory = self.process.memory();
        let mut sites = Vec::new();
        for code in codes {
            let lines = code.line_map();
            let file = absolute(&code.file, &folder);
            for line in lines_of(place, file.as_deref()) {
                let starts = match self.interpreter.known() {
                    Some(python) => Reader::new(python, &memory).starts_of_line(code, &lines, line),
                    None => continue,
                };
                let starts = starts.unwrap_or_default();
                if !starts.is_empty() {
                    let location = Location {
                        file: file.clone(),
                        line: Some(line),
                        function: Some(code.name.clone()),
                        library: code.is_library(),
                        ..Location::default()
                    };
                    sites.push(Site { code: code.clone(), line, lines: lines.clone(), starts, location });
                }
            }
        }
        sites
    }

    /// The breakpoints on lines of Python that are enabled.
    fn enabled_sites(&self) -> Vec<(BreakpointId, Site)> {
        let is_enabled = |id: &BreakpointId| self.breakpoints.get(*id).is_ok_and(|entry| entry.is_enabled());
        let enabled = self.interpreter.sites.iter().filter(|(id, _)| is_enabled(id));
        enabled.flat_map(|(id, sites)| sites.iter().map(|site| (*id, site.clone()))).collect()
    }

    pub(in crate::session) fn has_lines(&self) -> bool {
        self.breakpoints.iter().any(|(_, entry)| entry.is_enabled() && is_line(&entry.trigger))
    }

    /// Looks again for the lines that are not in what is loaded.
    pub(in crate::session) fn bind_lines(&mut self) -> Result<(), DebugError> {
        let pending: Vec<_> = self
            .breakpoints
            .iter()
            .filter(|(_, entry)| is_line(&entry.trigger) && entry.targets.is_empty())
            .map(|(id, _)| id)
            .collect();
        pending.into_iter().try_for_each(|id| self.bind(id))
    }

    /// Where a thread stands in Python.
    fn standing(&mut self, tid: Tid) -> Option<Standing> {
        let found = self.with_python(View::Python, tid, |speaker| speaker.reader.standing(&speaker.thread));
        found.ok().flatten()?.ok().flatten()
    }

    /// Where one of the breakpoints on lines of Python last stopped before a moment, and behind another one if there is one.
    pub(in crate::session) fn last_line_stop(
        &mut self,
        before: &Position,
        behind: Option<&Position>,
    ) -> Result<Option<(Position, BreakpointId)>, Halted> {
        let mut best: Option<(Position, BreakpointId)> = None;
        for (id, site) in self.enabled_sites() {
            for start in site.starts.clone() {
                let floor = best.as_ref().map(|best| best.0.clone()).or_else(|| behind.cloned());
                if let Some(found) = self.last_visit(id, &site, start, before, floor.as_ref())? {
                    best = Some((found, id));
                }
            }
        }
        Ok(best)
    }

    fn last_visit(
        &mut self,
        id: BreakpointId,
        site: &Site,
        start: u64,
        before: &Position,
        behind: Option<&Position>,
    ) -> Result<Option<Position>, Halted> {
        let mut until = before.clone();
        loop {
            self.land(&until)?;
            // Before the interpreter has started it runs nothing.
            let _ = self.find_python();
            let (Some(python), symbols) = (self.interpreter.known(), &self.symbols) else { return Ok(None) };
            let mut judge = Visits { python, site };
            let quarry = Quarry::Access { address: start, size: 2 };
            let found = self.process.find_change(&until, behind, quarry, &mut judge, &|address| {
                function_around(symbols, address)
            })?;
            let Some(found) = found else { return Ok(None) };
            self.land(&found.position)?;
            if let Some((begun, slot)) = self.line_begun_here(site)?
                && !self.is_same_visit(&begun, before, slot)?
            {
                self.land(&begun)?;
                if !matches!(self.line_condition(id)?, Condition::False) {
                    return Ok(Some(begun));
                }
            }
            until = found.position;
        }
    }

    /// Goes on to where the line that is about to begin does so. Nowhere if it does not.
    fn line_begun_here(&mut self, site: &Site) -> Result<Option<(Position, u64)>, Halted> {
        let tid = self.process.acting();
        if !self.step_into_line(site, tid)? {
            return Ok(None);
        }
        let Some(standing) = self.standing(tid) else { return Ok(None) };
        let Some(position) = self.process.position()? else { return Ok(None) };
        Ok(Some((position, standing.frame)))
    }

    fn step_into_line(&mut self, site: &Site, tid: Tid) -> Result<bool, DebugError> {
        for _ in 0..LEAD {
            match self.process.step(tid).map_err(system)? {
                Halt::Stepped(_) => {}
                // Something else comes first.
                _ => return Ok(false),
            }
            if self.standing(tid).is_some_and(|standing| site.is_in_line(&standing)) {
                return Ok(self.runs(site, tid));
            }
        }
        Ok(false)
    }

    /// Whether the code that a thread runs is really the one that is meant: before it was made its memory was something else's.
    fn runs(&mut self, site: &Site, tid: Tid) -> bool {
        let frame = self
            .with_python(View::Python, tid, |speaker| speaker.reader.frames(&speaker.thread, 1).frames.pop());
        frame.ok().flatten().flatten().is_some_and(|frame| *frame.code == site.code)
    }

    /// Whether a moment is the one that a search began at, where the frame stands.
    fn is_same_visit(&mut self, begun: &Position, origin: &Position, frame: u64) -> Result<bool, Halted> {
        self.land(origin)?;
        let tid = self.process.acting();
        let course = self.innermost(tid).filter(|course| course.frame == frame);
        let Some(course) = course else { return Ok(false) };
        let has_gone_on = self.last_change(origin, Some(begun), (course.slot, 8), &|_, _| Some(true))?;
        Ok(has_gone_on.is_none())
    }

    fn line_condition(&mut self, id: BreakpointId) -> Result<Condition, DebugError> {
        let Trigger::Code(CodeBreakpoint { condition: Some(condition), .. }) =
            &self.breakpoints.get(id)?.trigger
        else {
            return Ok(Condition::True);
        };
        let tid = self.process.acting();
        let evaluation = Evaluation {
            expression: format!("not ({condition})"),
            frame: FrameRef::of(of_thread(tid), 0).seen_as(View::Python),
            limits: ValueLimits::default(),
            format: NumberFormat::Auto,
            may_write: false,
            allow_calls: None,
        };
        Ok(match self.python_evaluate(tid, &evaluation) {
            Ok(Some(value)) if value.value == "True" => Condition::False,
            Ok(_) => Condition::True,
            // Stopping tells the user of the mistake; going on would hide it for ever.
            Err(error) => Condition::Failed(format!("the condition of breakpoint {id} fails: {error}")),
        })
    }

    /// Makes the next movement of a run.
    pub(in crate::session) fn next_of_run_to_lines(
        &mut self,
        run: &mut RunToLines,
    ) -> Result<Halt, DebugError> {
        if run.registers.is_none() {
            self.begin_run_to_lines(run)?;
        }
        self.run_watching().map_err(system)
    }

    fn begin_run_to_lines(&mut self, run: &mut RunToLines) -> Result<(), DebugError> {
        self.bind_lines()?;
        let is_pending = |(_, entry): (BreakpointId, &crate::session::breakpoints::Entry)| {
            entry.is_enabled() && is_line(&entry.trigger) && entry.targets.is_empty()
        };
        if self.breakpoints.iter().any(is_pending) && run.modules.is_none() {
            run.modules = self.interpreters_function("PyEval_EvalCode");
            if let Some(address) = run.modules {
                self.insert_all(&[address])?;
            }
        }
        let mut starts: Vec<_> = self.enabled_sites().into_iter().flat_map(|(_, site)| site.starts).collect();
        starts.sort_unstable();
        starts.dedup();
        let registers = run.registers.insert(Vec::new());
        for start in starts {
            match self.process.watch(start, 2, WatchKind::ReadWrite).map_err(system)? {
                Some(taken) => registers.extend(taken),
                None => {
                    let reason = Reason::new(
                        "the breakpoints on lines of Python need more than the processor's four debug registers on the way forwards",
                    );
                    return Err(DebugError::Unsupported(
                        reason.advise("disable some of them; `debugger/reverse_continue` takes any number"),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Gives back what a run has taken.
    pub(in crate::session) fn end_run_to_lines(&mut self, run: &RunToLines) {
        // A program that has ended has nothing to give back.
        let _ = self.process.unwatch(run.registers.as_deref().unwrap_or_default());
        if let Some(address) = run.modules {
            self.process.remove_breakpoint(address);
        }
    }

    /// The interpreter is about to run a module: breakpoints may bind in it.
    pub(in crate::session) fn module_begins(
        &mut self,
        run: &mut RunToLines,
        tid: Tid,
        address: u64,
    ) -> Result<(), DebugError> {
        if run.modules != Some(address) {
            return Ok(());
        }
        let code = self.process.registers(tid).map_err(system)?.get("rdi").unwrap_or(0);
        let pending: Vec<_> = self
            .breakpoints
            .iter()
            .filter_map(|(id, entry)| match &entry.trigger {
                trigger @ Trigger::Code(code) if is_line(trigger) && entry.targets.is_empty() => {
                    Some((id, code.place.clone()))
                }
                _ => None,
            })
            .collect();
        if self.find_python().is_err() {
            return Ok(());
        }
        let folder = self.working_folder();
        let mut is_bound = false;
        for (id, place) in pending {
            let memory = self.process.memory();
            let Some(python) = self.interpreter.known() else { return Ok(()) };
            let codes = Reader::new(python, &memory).code_within(code).unwrap_or_default();
            let codes: Vec<_> = codes
                .iter()
                .filter(|code| is_file(&code.file, file_of(&place), &folder))
                .map(|code| (**code).clone())
                .collect();
            let sites = self.sites_in(&place, &codes);
            if !sites.is_empty() {
                let entry = self.breakpoints.get_mut(id)?;
                entry.targets = sites.iter().map(|site| site.location.clone()).collect();
                entry.note = None;
                self.interpreter.sites.insert(id, sites);
                is_bound = true;
            }
        }
        if is_bound {
            self.end_run_to_lines(run);
            (run.registers, run.modules) = (None, None);
        }
        Ok(())
    }

    /// Something that a run watches was read: stops where that begins a line.
    pub(in crate::session) fn line_read(&mut self, tid: Tid) -> Result<Option<Stop>, DebugError> {
        if self.python().is_none() {
            // On the way from the start of the history the interpreter may have come as a library.
            self.update_image()?;
        }
        let Some(standing) = self.standing(tid) else { return Ok(None) };
        let begun: Vec<_> =
            self.enabled_sites().into_iter().filter(|(_, site)| site.is_begun_from(&standing)).collect();
        for _ in 0..if begun.is_empty() { 0 } else { LEAD } {
            match self.process.step(tid).map_err(system)? {
                Halt::Stepped(_) => {}
                halt => match self.judge(halt)? {
                    Verdict::Stop(stop) => return Ok(Some(*stop)),
                    // Some builds of the interpreter read an instruction once more as it begins.
                    Verdict::Stepped(_) => {}
                    _ => return Ok(None),
                },
            }
            let Some(standing) = self.standing(tid) else { continue };
            let mut ids = Vec::new();
            for (id, site) in begun.iter().filter(|(_, site)| site.is_in_line(&standing)) {
                ids.extend(self.runs(site, tid).then_some(*id));
            }
            if ids.is_empty() {
                continue;
            }
            let mut stopping = Vec::new();
            for id in ids {
                if !stopping.contains(&id) && !matches!(self.line_condition(id)?, Condition::False) {
                    self.breakpoints.get_mut(id)?.hit_count += 1;
                    stopping.push(id);
                }
            }
            if stopping.is_empty() {
                return Ok(None);
            }
            return self.stop_at_line(tid, stopping).map(Some);
        }
        Ok(None)
    }

    /// The stop of a breakpoint on a line of Python before a moment, if it comes later than what else was found.
    pub(in crate::session) fn line_stop_before(
        &mut self,
        position: &Position,
        found: Option<&Found>,
    ) -> Result<Option<Stop>, Halted> {
        let behind = found.map(|found| &found.position);
        let Some((at, id)) = self.last_line_stop(position, behind)? else {
            self.land(position)?;
            return Ok(None);
        };
        self.land(&at)?;
        self.interpreter.departed = None;
        Ok(Some(self.stop_at_line(self.process.acting(), vec![id])?))
    }

    fn stop_at_line(&mut self, tid: Tid, breakpoints: Vec<BreakpointId>) -> Result<Stop, DebugError> {
        let mut stop = self.stop_at(tid, StopReason::Breakpoint);
        for &id in &breakpoints {
            if let Condition::Failed(reason) = self.line_condition(id)? {
                stop.detail = Some(reason);
            }
        }
        stop.breakpoints = breakpoints;
        Ok(stop)
    }
}

/// Looks in replicas for visits of a line.
struct Visits<'v> {
    python: &'v Python,
    site: &'v Site,
}

impl Judge for Visits<'_> {
    fn begin(&mut self, _: &Replica) {}

    fn meet(&mut self, replica: &Replica, _: &Pause) -> Result<Claims, ReplayError> {
        let is_visit =
            standing_of(self.python, replica).is_some_and(|standing| self.site.is_begun_from(&standing));
        Ok(Claims { breakpoints: Vec::new(), needs_look: is_visit })
    }

    fn stops(&mut self, claims: &Claims) -> bool {
        claims.needs_look
    }
}

/// Where the thread of a replica stands in Python.
fn standing_of(python: &Python, replica: &Replica) -> Option<Standing> {
    let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
    let reader = Reader::new(python, &memory);
    let ident = replica.registers().ok()?.fs_base();
    let thread = reader.threads().ok()?.into_iter().find(|thread| thread.ident == ident)?;
    reader.standing(&thread).ok()?
}

fn file_of(place: &Place) -> &str {
    match place {
        Place::Line { file, .. } | Place::Statement { file, .. } => file,
        _ => "",
    }
}

/// Whether a file of Python is the one that a breakpoint names, by its last parts.
fn is_file(file: &str, wanted: &str, folder: &str) -> bool {
    absolute(file, folder).is_some_and(|file| Path::new(&file).ends_with(wanted.trim_start_matches("./")))
}

/// The lines that a place means.
fn lines_of(place: &Place, file: Option<&str>) -> Vec<u32> {
    const LARGEST: u64 = 8 << 20;
    let squeezed = |text: &str| text.split_whitespace().collect::<String>();
    match (place, file) {
        (Place::Line { line, .. }, _) => vec![*line],
        (Place::Statement { text, .. }, Some(file)) => {
            let source = hindcast_symbols::read_plain(file.as_ref(), LARGEST).unwrap_or_default();
            let source = String::from_utf8_lossy(&source);
            let wanted = squeezed(text);
            let lines = (1..).zip(source.lines()).filter(|(_, line)| squeezed(line).contains(&wanted));
            lines.map(|(number, _)| number).collect()
        }
        _ => Vec::new(),
    }
}
