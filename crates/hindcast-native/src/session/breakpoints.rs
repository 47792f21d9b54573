//! The user's breakpoints: what was asked for, and where that is in the program.

use std::{collections::BTreeMap, fmt, iter};

use hindcast_core::debug::{
    Binding, Breakpoint, BreakpointChange, BreakpointId, CodeBreakpoint, DebugError, ExceptionBreakpoint,
    Location, Place, Reason, Remedy, RuntimeAddr, Trigger,
};
use hindcast_symbols::{
    FunctionPattern, FunctionTarget, Symbols,
    expression::{Expression, ExpressionError, Template},
    in_last_parentheses,
    names::cut,
    read_plain,
};

use super::{
    Session,
    awaited::{Awaited, Watch},
    exceptions::ExceptionKind,
    hidden::Hidden,
    judge::Ordinal,
    watch::Watching,
};
use crate::look::{file_name, too_long};

/// No source that a person reads is larger. Debug information may name any file.
const LARGEST_SOURCE: u64 = 8 << 20;

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

/// What a place means in the program as it is.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub(super) targets: Vec<Location>,
    /// What is to be said of it; why there is nothing, where there is nothing.
    pub(super) note: Option<Reason>,
    /// Whether nothing that is loaded later can change that there is nothing.
    is_impossible: bool,
}

/// So many places at most; a regular expression may match everything.
const MOST_TARGETS: usize = 1000;

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
        self.condition = condition.as_deref().map(Expression::parse).transpose().map_err(failed)?;
        if self.condition.as_ref().is_some_and(Expression::writes) {
            let reason = Reason::new("a condition cannot assign").advise("compare with `==`");
            return Err(DebugError::BreakpointFailed(reason));
        }
        self.template = message.as_deref().map(Template::parse).transpose().map_err(failed)?;
        Ok(())
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
            hit_count: self.hit_count,
            notifications_sent: self.notifications_sent,
        }
    }
}

/// Parameters without what can be written in several ways: blanks, and where `const` stands.
fn parameter_words(parameters: &str) -> String {
    let marked = ['*', '&', ',', '<', '>', '(', ')']
        .iter()
        .fold(parameters.to_owned(), |text, &mark| text.replace(mark, &format!(" {mark} ")));
    let words = marked.split_whitespace().filter(|&word| word != "const");
    words.collect::<Vec<_>>().join(" ")
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
    fn bind(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        let entry = self.breakpoints.get(id)?;
        if matches!(entry.trigger, Trigger::Watch(_)) {
            return Ok(());
        }
        let resolved = match (&entry.trigger, &entry.exception) {
            (Trigger::Code(code), _) => self.resolve(&code.place),
            (Trigger::Exception(exception), Some(kind)) => self.resolve_exception(kind, exception),
            _ => Resolved::default(),
        };
        let hidden = match &entry.trigger {
            Trigger::Code(code) => Hidden::of(&self.symbols, &code.place, resolved.addresses()),
            _ => Hidden::default(),
        };
        self.take_out(id)?;
        let entry = self.breakpoints.get_mut(id)?;
        (entry.targets, entry.hidden) = (resolved.targets, hidden);
        entry.note = resolved.note.map(|note| in_words(&note, &note.remedies));
        if entry.is_enabled() {
            self.put_in(id)?;
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
        match entry.is_enabled() {
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
        Ok(())
    }

    /// Libraries came or went: breakpoints may bind now, or elsewhere.
    pub(super) fn rebind(&mut self) -> Result<(), DebugError> {
        self.tellers = None;
        let ids: Vec<_> = self.breakpoints.iter().map(|(id, _)| id).collect();
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

    /// What a place means in the program as it is.
    pub(super) fn resolve(&self, place: &Place) -> Resolved {
        if let Some(reason) = too_long(place) {
            return Resolved::nothing(reason);
        }
        match place {
            Place::Address(address) => {
                Resolved { targets: vec![self.location(address.0)], ..Resolved::default() }
            }
            Place::Line { file, line } => self.resolve_line(file, *line),
            Place::Function(name) => self.resolve_function(name),
            Place::Statement { file, text } => self.resolve_statement(file, text),
        }
    }

    fn resolve_line(&self, file: &str, line: u32) -> Resolved {
        let found = self.symbols.addresses_of_line(file, line);
        let targets: Vec<_> =
            found.targets.iter().take(MOST_TARGETS).map(|target| self.location(target.address)).collect();
        let is_impossible = found.last.is_some() && !is_header(file);
        let bound = targets.first().and_then(|target| target.line).filter(|&bound| bound != line);
        let note = match (bound, found.last) {
            (Some(bound), _) if found.moved_to.is_some() => {
                Some(format!("line {line} has no code; moved to line {bound}").into())
            }
            // The beginning of a function, or of what is inlined there.
            (Some(bound), _) => {
                let place = targets.first().and_then(|target| target.file.as_deref()).map(file_name);
                let place = place.unwrap_or_default();
                Some(format!("it stops at {place}:{bound}, the first statement there").into())
            }
            (None, Some(last)) => {
                let binds = if is_impossible { "" } else { "; it binds when a library has some there" };
                let file = cut(file);
                let what = format!("`{file}` has no code at line {line} or behind it{binds}");
                Some(Reason::new(what).advise(format!("line {last} is its last with code")))
            }
            (None, None) if targets.is_empty() => {
                let similar = self.nearest_file(file);
                let what = "it binds when a library with it is loaded";
                Some(format!("no loaded symbols name the file `{}`{similar}; {what}", cut(file)).into())
            }
            (None, None) => None,
        };
        Resolved { targets, note, is_impossible }
    }

    fn nearest_file(&self, file: &str) -> String {
        let name = file_name(file);
        match self.symbols.source_files(&name, 3).first() {
            Some(similar) => format!(" (there is `{similar}`)"),
            None => String::new(),
        }
    }

    fn resolve_function(&self, name: &str) -> Resolved {
        let pattern = match FunctionPattern::read(name) {
            Ok(pattern) => pattern,
            Err(error) => return Resolved::nothing(error.to_string().into()),
        };
        let mut found = self.symbols.functions_named(&pattern, MOST_TARGETS);
        let mut said = self.choose_overload(&mut found, name);
        if matches!(pattern, FunctionPattern::Exact(_)) && !name.contains("::") {
            said = said.or(self.prefer_own(&mut found));
        }
        let mut targets: Vec<_> = found.iter().map(|target| self.location(target.address)).collect();
        targets.dedup_by_key(|target| target.address);
        let note = targets.is_empty().then(|| {
            let similar = self.symbols.complete_function(name.rsplit("::").next().unwrap_or(name), 3);
            let hint = if similar.is_empty() {
                String::new()
            } else {
                format!(" (there is `{}`)", similar.join("`, `"))
            };
            format!(
                "no loaded symbols name a function `{}`{hint}; it binds when a library with it is loaded",
                cut(name)
            )
        });
        Resolved { targets, note: note.or(said).map(Reason::from), is_impossible: false }
    }

    /// A bare name means the program's own functions, if it has some of that name; says how many others there are.
    fn prefer_own(&self, found: &mut Vec<FunctionTarget>) -> Option<String> {
        let is_own = |target: &FunctionTarget| {
            let file = target.file.as_deref();
            file.is_some() && !self.image.whose(target.address, self.main, file).1
        };
        let all = found.len();
        if found.iter().any(is_own) {
            found.retain(is_own);
        }
        let others = all - found.len();
        (others > 0)
            .then(|| format!("{others} more in libraries; to stop there, write the name with its `::`"))
    }

    /// Leaves those functions whose parameters are the ones in `name`, where it has any; says so if there are
    /// none.
    fn choose_overload(&self, found: &mut Vec<FunctionTarget>, name: &str) -> Option<String> {
        let wanted =
            parameter_words(in_last_parentheses(name.trim()).filter(|_| name.trim().ends_with(')'))?);
        let told: Vec<_> = found.iter().map(|target| self.symbols.parameters_at(target.address)).collect();
        let fits: Vec<_> = std::iter::zip(&*found, &told)
            // What is inlined has no symbol of its own.
            .map(|(target, told)| {
                target.inlined || told.as_deref().map(parameter_words).as_ref() == Some(&wanted)
            })
            .collect();
        if fits.iter().any(|&fits| fits) {
            let mut fits = fits.into_iter();
            found.retain(|_| fits.next().unwrap_or(true));
            return None;
        }
        let known: Vec<_> = told.iter().flatten().map(|parameters| format!("({parameters})")).collect();
        (!known.is_empty())
            .then(|| format!("none has these parameters, so all are meant: {}", known.join(", ")))
    }

    fn resolve_statement(&self, file: &str, text: &str) -> Resolved {
        let Some(path) = self.symbols.find_source(file) else {
            return self.resolve_line(file, 1).without_targets();
        };
        let Ok(source) = read_plain(path.as_ref().as_ref(), LARGEST_SOURCE) else {
            let what = format!("cannot read `{path}` to look for the statement");
            return Resolved::nothing(Reason::new(what).advise("use `line` instead"));
        };
        let squeezed = |text: &str| text.split_whitespace().collect::<String>();
        let wanted = squeezed(text);
        let source = String::from_utf8_lossy(&source);
        let lines = (1..).zip(source.lines()).filter(|(_, line)| squeezed(line).contains(&wanted));
        let found: Vec<_> = lines.take(20).map(|(line, _)| self.resolve_line(&path, line)).collect();
        // A line that only speaks of it, as a comment does, counts where no other has it.
        let has_code = found.iter().any(|at_line| at_line.note.is_none());
        let mut resolved = Resolved::default();
        for at_line in found.into_iter().filter(|at_line| !has_code || at_line.note.is_none()) {
            resolved.targets.extend(at_line.targets);
            resolved.note = resolved.note.or(at_line.note);
        }
        resolved.targets.sort_by_key(|target| target.address);
        resolved.targets.dedup_by_key(|target| target.address);
        if resolved.targets.is_empty() && resolved.note.is_none() {
            resolved.note = Some(format!("no line of `{path}` contains `{text}`").into());
        }
        resolved
    }

    /// All that is known of an address of code.
    pub(super) fn location(&self, address: u64) -> Location {
        self.scribe().location(address)
    }
}

/// Whether code of a file is found in whatever includes it: also in what is loaded later.
fn is_header(file: &str) -> bool {
    let extension = std::path::Path::new(file).extension().and_then(|extension| extension.to_str());
    !matches!(
        extension,
        Some("c" | "cc" | "cp" | "cpp" | "cxx" | "c++" | "C" | "rs" | "s" | "S" | "f90" | "f")
    )
}

impl Resolved {
    pub(super) fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.targets.iter().filter_map(|target| Some(target.address?.0))
    }

    fn nothing(why: Reason) -> Self {
        Self { note: Some(why), ..Self::default() }
    }

    fn without_targets(self) -> Self {
        Self { targets: Vec::new(), ..self }
    }
}

/// The executable's `main`: that of the source where there is one, not the start-up code's.
pub(super) fn main_function(symbols: &Symbols) -> Option<u64> {
    let found = symbols.functions_named(&FunctionPattern::Exact("main".into()), 20);
    let with_source = found.iter().find(|target| target.line.is_some() && !target.inlined);
    with_source.or(found.first()).map(|target| target.address)
}
