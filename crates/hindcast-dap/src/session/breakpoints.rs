//! Breakpoints: what was asked for, and what adapters made of it.

use std::collections::{BTreeMap, HashMap};

use hindcast_core::debug::{
    Binding, Breakpoint, BreakpointChange, BreakpointId, CodeBreakpoint, DebugError, Location, Place, Reason,
    Trigger,
};
use serde_json::{Value, json};

use super::{Session, State, ask::Refusal, movement::Plan};
use crate::{protocol::BoundBreakpoint, transport::ConnectionId};

/// All breakpoints of a session.
#[derive(Debug, Default)]
pub(super) struct Breakpoints {
    entries: Vec<Entry>,
    last_id: u32,
    /// Lines that adapters were told to forget. Some do not.
    forgotten: Vec<(String, u32)>,
    /// What connections have been told, by file: a file without breakpoints left must be told so once.
    told_files: BTreeMap<ConnectionId, Vec<String>>,
}

/// A breakpoint.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: BreakpointId,
    pub(super) trigger: Trigger,
    pub(super) sites: Vec<Site>,
    /// What to say beside where it is.
    note: Option<String>,
    pub(super) hits: u64,
    pub(super) sent: u64,
}

/// One place where an adapter is told to stop.
#[derive(Debug, Clone)]
pub(super) struct Site {
    pub(super) at: At,
    /// What each connection made of it.
    bound: HashMap<ConnectionId, BoundBreakpoint>,
    /// Where the function is, as far as the sources tell.
    known_at: Option<(String, u32)>,
}

/// Where that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum At {
    Line { path: String, line: u32 },
    Function(String),
}

impl Site {
    pub(super) fn line(path: String, line: u32) -> Self {
        Self { at: At::Line { path, line }, bound: HashMap::new(), known_at: None }
    }

    pub(super) fn function(name: String, known_at: Option<(String, u32)>) -> Self {
        Self { at: At::Function(name), bound: HashMap::new(), known_at }
    }

    /// Whether an adapter tells where it is in what the asked file was compiled to, as long as it has not read how.
    fn is_in_compiled(&self, bound: &BoundBreakpoint) -> bool {
        let At::Line { path, .. } = &self.at else { return false };
        let told = bound.source.as_ref().and_then(|source| source.path.as_deref());
        let real = |path: &str| std::fs::canonicalize(path).ok();
        told.is_some_and(|told| told != path && real(told).is_some_and(|told| Some(told) != real(path)))
    }

    fn location(&self, bound: &BoundBreakpoint) -> Option<Location> {
        let source = bound.source.as_ref().and_then(|source| source.path.clone());
        let (file, line) = match &self.at {
            At::Line { path, line } if self.is_in_compiled(bound) => (Some(path.clone()), Some(*line)),
            At::Line { path, line } => (source.or(Some(path.clone())), bound.line.or(Some(*line))),
            At::Function(_) => match (&self.known_at, source, bound.line) {
                (_, Some(file), Some(line)) => (Some(file), Some(line)),
                (Some((file, line)), _, _) => (Some(file.clone()), Some(*line)),
                _ => return None,
            },
        };
        let function = match &self.at {
            At::Function(name) => Some(name.clone()),
            At::Line { .. } => None,
        };
        Some(Location { file, line, function, ..Location::default() })
    }
}

impl Entry {
    pub(super) fn code(&self) -> Option<&CodeBreakpoint> {
        match &self.trigger {
            Trigger::Code(code) => Some(code),
            Trigger::Watch(_) | Trigger::Exception(_) => None,
        }
    }

    fn is_enabled(&self) -> bool {
        match &self.trigger {
            Trigger::Code(code) => {
                let is_done = code.max_notifications > 0
                    && code.log_message.is_some()
                    && self.sent >= code.max_notifications;
                code.enabled && !is_done
            }
            Trigger::Watch(watch) => watch.enabled,
            Trigger::Exception(exception) => exception.enabled,
        }
    }

    fn binding(&self, is_running: bool) -> Binding {
        if matches!(self.trigger, Trigger::Exception(_)) {
            return Binding::Bound { locations: Vec::new(), note: self.note.clone() };
        }
        let answers =
            || self.sites.iter().flat_map(|site| site.bound.values().map(move |bound| (site, bound)));
        let mut locations: Vec<_> = answers()
            .filter(|(_, bound)| bound.verified)
            .filter_map(|(site, bound)| site.location(bound))
            .collect();
        locations.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        locations.dedup();
        let is_verified = answers().any(|(_, bound)| bound.verified);
        // Adapters take functions by name without looking whether there is one.
        let is_unseen_function = locations.is_empty() && is_verified;
        if !locations.is_empty() {
            return Binding::Bound { locations, note: self.note.clone().or_else(|| self.moved()) };
        }
        let said = answers().find_map(|(_, bound)| bound.message.clone()).filter(|said| !said.is_empty());
        let reason = match said {
            _ if is_unseen_function => {
                "no file below the working folder defines it; it stops if a function of that name is called"
                    .into()
            }
            Some(said) => said,
            None if is_running => "the adapter has not found it in the program yet".into(),
            None => "it binds when the program loads the file".into(),
        };
        let reason = match &self.note {
            Some(note) => format!("{reason}; {note}"),
            None => reason,
        };
        Binding::Pending { reason }
    }

    /// That it is at another line than was asked for.
    fn moved(&self) -> Option<String> {
        self.sites.iter().find_map(|site| {
            let At::Line { line, .. } = &site.at else { return None };
            let bound = site.bound.values().find(|bound| bound.verified)?;
            let bound = bound.line.filter(|_| !site.is_in_compiled(bound))?;
            (bound != *line).then(|| format!("line {line} has no code of its own: it is at line {bound}"))
        })
    }
}

impl Breakpoints {
    pub(super) fn all(&self) -> Vec<Breakpoint> {
        self.entries.iter().map(|entry| self.shown(entry)).collect()
    }

    fn shown(&self, entry: &Entry) -> Breakpoint {
        Breakpoint {
            id: entry.id,
            trigger: entry.trigger.clone(),
            binding: entry.binding(!self.told_files.is_empty()),
            hit_count: entry.hits,
            notifications_sent: entry.sent,
            counts: Vec::new(),
        }
    }

    pub(super) fn entry(&mut self, id: BreakpointId) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.id == id)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_enabled())
    }

    /// Whether an adapter was ever told of one.
    pub(super) fn were_there(&self) -> bool {
        !self.told_files.is_empty()
    }

    pub(super) fn has_tracepoints(&self) -> bool {
        self.entries().any(|entry| entry.code().is_some_and(|code| code.log_message.is_some()))
    }

    /// What an adapter says of a breakpoint later.
    pub(super) fn update(&mut self, from: ConnectionId, told: &BoundBreakpoint) {
        let sites = self.entries.iter_mut().flat_map(|entry| &mut entry.sites);
        for site in sites {
            if let Some(bound) = site.bound.get_mut(&from)
                && bound.id.is_some()
                && bound.id == told.id
            {
                bound.verified = told.verified;
                bound.message.clone_from(&told.message);
                bound.line = told.line.or(bound.line);
                if told.source.is_some() {
                    bound.source.clone_from(&told.source);
                }
            }
        }
    }

    /// The breakpoints that an adapter names by its own numbers.
    pub(super) fn by_adapter_ids(&self, from: ConnectionId, ids: &[i64]) -> Vec<BreakpointId> {
        let is_hit = |entry: &&Entry| {
            entry.sites.iter().any(|site| {
                let id = site.bound.get(&from).and_then(|bound| bound.id);
                id.is_some_and(|id| ids.contains(&id))
            })
        };
        self.entries().filter(is_hit).map(|entry| entry.id).collect()
    }

    /// The breakpoints at a line.
    pub(super) fn by_line(&self, from: ConnectionId, path: &str, line: u32) -> Vec<BreakpointId> {
        let is_hit = |entry: &&Entry| {
            entry.sites.iter().any(|site| {
                let (At::Line { path: file, line: asked }, Some(bound)) = (&site.at, site.bound.get(&from))
                else {
                    return false;
                };
                let source = bound.source.as_ref().and_then(|source| source.path.as_deref());
                (file == path || source == Some(path)) && bound.line.unwrap_or(*asked) == line
            })
        };
        self.entries().filter(is_hit).map(|entry| entry.id).collect()
    }

    /// Whether an adapter was told to forget a breakpoint at this line.
    pub(super) fn is_forgotten(&self, path: &str, line: u32) -> bool {
        self.forgotten.iter().any(|(file, at)| file == path && *at == line)
    }

    /// An adapter will be told to forget these, or to remember them again.
    fn note_forgotten(&mut self, sites: &[Site], is_forgotten: bool) {
        for site in sites {
            let At::Line { path, line } = &site.at else { continue };
            let lines = site.bound.values().filter_map(|bound| bound.line).chain([*line]);
            for line in lines.collect::<Vec<_>>() {
                self.forgotten.retain(|known| *known != (path.clone(), line));
                if is_forgotten {
                    self.forgotten.push((path.clone(), line));
                }
            }
        }
    }

    /// The breakpoints of a function.
    pub(super) fn by_function(&self, name: &str) -> Vec<BreakpointId> {
        let short = |name: &str| name.rsplit(['.', ':', '#']).next().unwrap_or(name).to_owned();
        let is_hit = |entry: &&Entry| {
            entry.sites.iter().any(|site| match &site.at {
                At::Function(asked) => asked == name || short(asked) == short(name),
                At::Line { .. } => false,
            })
        };
        self.entries().filter(is_hit).map(|entry| entry.id).collect()
    }
}

impl Session {
    pub(super) fn added(&mut self, trigger: Trigger) -> Result<Breakpoint, DebugError> {
        let (sites, note) = match &trigger {
            Trigger::Code(code) => self.sites_of(&code.place)?,
            Trigger::Exception(exception) => (Vec::new(), self.check_exception(exception)?),
            Trigger::Watch(_) => {
                let reason = Reason::new("a debug adapter's session cannot watch memory");
                return Err(DebugError::Unsupported(
                    reason.advise("set a breakpoint where the value is set, with a condition on it"),
                ));
            }
        };
        self.breakpoints.last_id += 1;
        let id = BreakpointId(self.breakpoints.last_id);
        self.breakpoints.note_forgotten(&sites, false);
        let entry = Entry { id, trigger, sites, note, hits: 0, sent: 0 };
        self.breakpoints.entries.push(entry);
        if let Err(error) = self.tell_of(id) {
            self.breakpoints.entries.retain(|entry| entry.id != id);
            // Whoever does not answer would not answer this either.
            if !matches!(error, DebugError::System(_)) {
                let _ = self.tell_all();
            }
            return Err(error);
        }
        // Adapters may bind a moment later.
        self.catch_up();
        Ok(self.shown_of(id))
    }

    pub(super) fn changed(
        &mut self,
        id: BreakpointId,
        change: BreakpointChange,
    ) -> Result<Breakpoint, DebugError> {
        let entry = self.breakpoints.entry(id).ok_or(DebugError::NoSuchBreakpoint(id))?;
        let before = entry.trigger.clone();
        entry.trigger = before.changed(change)?;
        if self.alive().is_ok()
            && let Err(error) = self.tell_of(id)
        {
            if let Some(entry) = self.breakpoints.entry(id) {
                entry.trigger = before;
            }
            let _ = self.tell_of(id);
            return Err(error);
        }
        Ok(self.shown_of(id))
    }

    pub(super) fn removed(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        let at = self.breakpoints.entries.iter().position(|entry| entry.id == id);
        let at = at.ok_or(DebugError::NoSuchBreakpoint(id))?;
        let removed = self.breakpoints.entries.remove(at);
        self.breakpoints.note_forgotten(&removed.sites, true);
        if self.alive().is_ok() {
            self.tell_all_about(&removed)?;
        }
        Ok(())
    }

    fn shown_of(&mut self, id: BreakpointId) -> Breakpoint {
        let all = self.breakpoints.all();
        let found = all.into_iter().find(|breakpoint| breakpoint.id == id);
        found.unwrap_or_else(|| Breakpoint {
            id,
            trigger: Trigger::Code(CodeBreakpoint::at(Place::Function(String::new()))),
            binding: Binding::Pending { reason: "it is gone".into() },
            hit_count: 0,
            notifications_sent: 0,
            counts: Vec::new(),
        })
    }

    fn tell_of(&mut self, id: BreakpointId) -> Result<(), DebugError> {
        let Some(entry) = self.breakpoints.entry(id) else { return Ok(()) };
        let copy = Entry {
            id,
            trigger: entry.trigger.clone(),
            sites: entry.sites.clone(),
            note: None,
            hits: 0,
            sent: 0,
        };
        self.tell_all_about(&copy)
    }

    /// Tells all connections again what concerns a breakpoint.
    fn tell_all_about(&mut self, entry: &Entry) -> Result<(), DebugError> {
        for connection in self.told_connections() {
            let told = match &entry.trigger {
                Trigger::Exception(_) => self.send_exceptions(connection),
                Trigger::Code(_) | Trigger::Watch(_) => self.send_sites(connection, &entry.sites),
            };
            told.map_err(|refusal| match refusal {
                Refusal::Refused(why) => DebugError::BreakpointFailed(
                    Reason::new(format!("{} refuses it: {why}", self.profile.adapter))
                        .advise("change what the message names"),
                ),
                other => other.into(),
            })?;
        }
        Ok(())
    }

    fn tell_all(&mut self) -> Result<(), Refusal> {
        for connection in self.told_connections() {
            self.send_all_breakpoints(connection)?;
        }
        Ok(())
    }

    /// The connections that hear of breakpoints now.
    fn told_connections(&self) -> Vec<ConnectionId> {
        if matches!(self.state, State::Ended { told: true }) {
            return Vec::new();
        }
        let hears = |it: &&crate::client::Connection| it.is_initialized && !it.is_over && it.closed.is_none();
        self.client.connections.iter().filter(hears).map(|it| it.id).collect()
    }

    fn send_sites(&mut self, connection: ConnectionId, sites: &[Site]) -> Result<(), Refusal> {
        let mut files: Vec<&str> = Vec::new();
        let mut has_functions = false;
        for site in sites {
            match &site.at {
                At::Line { path, .. } if !files.contains(&path.as_str()) => files.push(path),
                At::Line { .. } => {}
                At::Function(_) => has_functions = true,
            }
        }
        for file in files {
            self.send_file(connection, file)?;
        }
        if has_functions {
            self.send_functions(connection)?;
        }
        Ok(())
    }

    /// Tells a connection of everything.
    pub(super) fn send_all_breakpoints(&mut self, connection: ConnectionId) -> Result<(), Refusal> {
        let sites: Vec<Site> =
            self.breakpoints.entries.iter().flat_map(|entry| entry.sites.clone()).collect();
        self.send_sites(connection, &sites)?;
        if let Some((path, _)) = self.entry_line.clone().filter(|_| matches!(self.plan, Plan::Begin))
            && !sites.iter().any(|site| matches!(&site.at, At::Line { path: file, .. } if *file == path))
        {
            self.send_file(connection, &path)?;
        }
        if self.entry_function().is_some() && !sites.iter().any(|site| matches!(site.at, At::Function(_))) {
            self.send_functions(connection)?;
        }
        self.send_exceptions(connection)
    }

    /// Tells of all breakpoints in a file: adapters forget the others. Several at a line are one to them.
    fn send_file(&mut self, connection: ConnectionId, file: &str) -> Result<(), Refusal> {
        let mut lines: BTreeMap<u32, Vec<BreakpointId>> = BTreeMap::new();
        for entry in self.breakpoints.entries().filter(|_| !self.is_calling) {
            for site in &entry.sites {
                if let At::Line { path, line } = &site.at
                    && path == file
                {
                    lines.entry(*line).or_default().push(entry.id);
                }
            }
        }
        if let Some((_, line)) = self.entry_line.as_ref().filter(|(path, _)| path == file)
            && matches!(self.plan, Plan::Begin)
        {
            lines.entry(*line).or_default();
        }
        let capabilities = self.client.connections[connection.0].capabilities.clone();
        let counts = self.adapter_counts(connection);
        let told: Vec<Value> = lines
            .iter()
            .map(|(line, ids)| {
                let mut told = json!({ "line": line });
                if let [only] = ids.as_slice()
                    && let Some(entry) = self.breakpoints.entry(*only)
                    && let Some(code) = entry.code()
                {
                    if let Some(condition) = &code.condition
                        && capabilities.supports_conditional_breakpoints
                    {
                        told["condition"] = condition.as_str().into();
                    }
                    if let Some(hits) = native_hits(code).filter(|_| counts) {
                        told["hitCondition"] = hits.into();
                    }
                }
                told
            })
            .collect();
        self.forget_lines(connection, file, &told)?;
        let name = file.rsplit('/').next().unwrap_or(file);
        let arguments = json!({
            "source": { "path": file, "name": name },
            "breakpoints": told,
            "lines": lines.keys().collect::<Vec<_>>(),
            "sourceModified": false,
        });
        let body: Value = self.ask(connection, "setBreakpoints", arguments)?;
        let bound: Vec<BoundBreakpoint> =
            serde_json::from_value(body["breakpoints"].clone()).unwrap_or_default();
        let told = self.breakpoints.told_files.entry(connection).or_default();
        if !told.iter().any(|known| known == file) {
            told.push(file.to_owned());
        }
        for ((line, ids), bound) in lines.iter().zip(bound) {
            for entry in self.breakpoints.entries.iter_mut().filter(|entry| ids.contains(&entry.id)) {
                let here = At::Line { path: file.to_owned(), line: *line };
                for site in entry.sites.iter_mut().filter(|site| site.at == here) {
                    site.bound.insert(connection, bound.clone());
                }
            }
        }
        Ok(())
    }

    fn send_functions(&mut self, connection: ConnectionId) -> Result<(), Refusal> {
        if !self.client.connections[connection.0].capabilities.supports_function_breakpoints {
            return Ok(());
        }
        let capabilities = self.client.connections[connection.0].capabilities.clone();
        let counts = self.adapter_counts(connection);
        let mut told: Vec<Value> = Vec::new();
        let mut names: Vec<(BreakpointId, String)> = Vec::new();
        for entry in self.breakpoints.entries().filter(|_| !self.is_calling) {
            for site in &entry.sites {
                let At::Function(name) = &site.at else { continue };
                let mut one = json!({ "name": name });
                if let Some(code) = entry.code() {
                    if let Some(condition) = &code.condition
                        && capabilities.supports_conditional_breakpoints
                    {
                        one["condition"] = condition.as_str().into();
                    }
                    if let Some(hits) = native_hits(code).filter(|_| counts) {
                        one["hitCondition"] = hits.into();
                    }
                }
                told.push(one);
                names.push((entry.id, name.clone()));
            }
        }
        if let Some(entry) = self.entry_function() {
            told.push(json!({ "name": entry }));
        }
        let body: Value = self.ask(connection, "setFunctionBreakpoints", json!({ "breakpoints": told }))?;
        let bound: Vec<BoundBreakpoint> =
            serde_json::from_value(body["breakpoints"].clone()).unwrap_or_default();
        for ((id, name), bound) in names.into_iter().zip(bound) {
            let Some(entry) = self.breakpoints.entry(id) else { continue };
            for site in entry.sites.iter_mut().filter(|site| site.at == At::Function(name.clone())) {
                site.bound.insert(connection, bound.clone());
            }
        }
        Ok(())
    }

    /// Whether an adapter counts hits by itself.
    pub(super) fn adapter_counts(&self, connection: ConnectionId) -> bool {
        let capabilities = &self.client.connections[connection.0].capabilities;
        capabilities.supports_hit_conditional_breakpoints && !self.profile.hits_are_counted_here
    }

    /// Takes out what was only to stop the program at first.
    pub(super) fn forget_entry(&mut self, by_request: bool) {
        let line = self.entry_line.take();
        let request = by_request.then(|| self.profile.entry_request.clone());
        for connection in self.told_connections() {
            // Whoever does not answer stops once more, which is told then.
            let _ = match (&request, &line) {
                (Some(request), _) => self.tell(connection, &request.command, request.take_back.clone()),
                (None, Some((path, _))) => self.send_file(connection, path),
                (None, None) => self.send_functions(connection),
            };
        }
    }
}

/// How an adapter is told to count, where it can do that alone. What is logged is counted here.
pub(super) fn native_hits(code: &CodeBreakpoint) -> Option<String> {
    match (code.hit_count, code.hit_count_multiple, &code.log_message) {
        (from @ 2.., 0, None) => Some(format!(">= {from}")),
        (0 | 1, multiple @ 2.., None) => Some(format!("% {multiple}")),
        _ => None,
    }
}
