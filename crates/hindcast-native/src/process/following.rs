//! Waiting for a program that something in the tree of a launched one executes, and moving to it.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use super::{Crash, Ended, Halt, Process, Task, open_memory};
use crate::sys::{self, DebugRegisters, Event, Life, Stopped, Tid, TraceError};

/// So many names are kept of programs that were executed.
const NAMES: usize = 20;

/// The program that is waited for.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// By the name of its file; `*` stands for any letters.
    Name(String),
    /// By its path, without links.
    Path(PathBuf),
    /// The first process that the program forks.
    Forked,
}

impl Wanted {
    /// A name, or a path seen from this folder.
    pub(crate) fn new(program: &str, folder: Option<&Path>) -> Self {
        if !program.contains('/') {
            return Self::Name(program.to_owned());
        }
        let path = folder.map_or_else(|| PathBuf::from(program), |folder| folder.join(program));
        // One that is not there yet may be built first.
        Self::Path(path.canonicalize().or_else(|_| std::path::absolute(&path)).unwrap_or(path))
    }

    fn is(&self, executed: &Executed) -> bool {
        let files = [Some(&executed.file), executed.asked_for.as_ref()];
        let mut files = files.into_iter().flatten();
        match self {
            Self::Forked => false,
            Self::Name(pattern) => files.any(|file| {
                let name = file.file_name().unwrap_or_default();
                is_like(pattern.as_bytes(), name.as_bytes())
            }),
            Self::Path(path) => {
                let path = path.canonicalize().unwrap_or_else(|_| path.clone());
                files.any(|file| file.canonicalize().is_ok_and(|file| file == path))
            }
        }
    }
}

/// Whether a name is like a pattern.
fn is_like(pattern: &[u8], name: &[u8]) -> bool {
    let mut parts = pattern.split(|&letter| letter == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    // Each as early as it can be: that leaves the most for what follows.
    for part in parts {
        let Some(at) = memchr::memmem::find(rest, part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// A program that a process has just become.
struct Executed {
    file: PathBuf,
    /// As the call named it: a link or a script has another file.
    asked_for: Option<PathBuf>,
}

impl Executed {
    fn by(process: Tid) -> Self {
        let named = sys::executed_as(process).map(|name| {
            let folder = sys::current_folder(process).unwrap_or_default();
            folder.join(OsStr::from_bytes(&name))
        });
        Self { file: sys::executable(process).unwrap_or_default(), asked_for: named }
    }

    fn name(&self) -> String {
        let path = self.asked_for.as_ref().unwrap_or(&self.file);
        path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// What is known while a program is waited for.
#[derive(Debug)]
pub(super) struct Following {
    wanted: Wanted,
    /// The last names of programs that were executed, each once.
    executed: Vec<String>,
    found: Option<Stopped>,
    /// A process that the program made, at its first instruction; it is not known yet how it was made.
    newborn: Option<Stopped>,
    /// The number of the wanted process, which has not been seen yet.
    forked: Option<Tid>,
}

impl Following {
    fn new(wanted: Wanted) -> Self {
        Self { wanted, executed: Vec::new(), found: None, newborn: None, forked: None }
    }

    /// Whether the first process is waited for that the program forks, and there was none yet.
    fn wants_fork(&self) -> bool {
        matches!(self.wanted, Wanted::Forked) && self.found.is_none()
    }

    /// Takes note of a program; whether it is the one.
    fn note(&mut self, process: Tid) -> bool {
        let executed = Executed::by(process);
        let name = executed.name();
        self.executed.retain(|known| *known != name);
        self.executed.push(name);
        if self.executed.len() > NAMES {
            self.executed.remove(0);
        }
        self.wanted.is(&executed)
    }
}

/// What came of waiting.
#[derive(Debug)]
pub(crate) enum Waited {
    /// The process is the wanted one now, and stands at its first instruction.
    Found,
    Interrupted,
    /// All processes have ended. The last names of what they executed, each once.
    Missed {
        root: Ended,
        executed: Vec<String>,
    },
}

impl Process {
    /// All that it starts ends with it, also what is not traced.
    pub(crate) fn grow(&mut self, tree: Option<sys::Tree>) {
        self.tree = tree;
    }

    /// From now on a program is waited for. Whether this is it.
    pub(crate) fn want(&mut self, wanted: Wanted) -> bool {
        let mut following = Following::new(wanted);
        let is_this = following.note(self.pid);
        self.following = (!is_this).then_some(following);
        is_this
    }

    /// Lets everything run until a process of the tree becomes the wanted program. Then that is the process, and all others
    /// go on untraced.
    pub(crate) fn await_program(&mut self) -> Result<Waited, TraceError> {
        loop {
            if let Some(found) = self.following.as_mut().and_then(|following| following.found.take()) {
                self.move_to(found)?;
                return Ok(Waited::Found);
            }
            let halt = if self.ended.is_some() { self.wait_for_companions()? } else { self.run()? };
            match halt {
                Halt::Exec(tid) if tid == self.pid && self.is_wanted(tid) => {
                    self.following = None;
                    self.release_companions()?;
                    return Ok(Waited::Found);
                }
                Halt::Signal(tid, details) => self.deliver(tid, details.signal),
                Halt::Interrupted(_) => return Ok(Waited::Interrupted),
                Halt::Ended(root) if self.is_search_over() => {
                    let executed = self.following.as_ref().map(|following| following.executed.clone());
                    return Ok(Waited::Missed { root, executed: executed.unwrap_or_default() });
                }
                _ => {}
            }
        }
    }

    fn is_wanted(&mut self, process: Tid) -> bool {
        self.following.as_mut().is_some_and(|following| following.note(process))
    }

    fn is_search_over(&self) -> bool {
        let wants_fork = self.following.as_ref().is_some_and(Following::wants_fork);
        wants_fork || self.companions.is_empty() && !self.companions.expects_any()
    }

    /// What was found is to be told.
    pub(super) fn found_halt(&self) -> Option<Halt> {
        let found = self.following.as_ref()?.found.as_ref()?;
        Some(Halt::Exec(found.tid()))
    }

    /// Keeps a process that may be the wanted one where it begins; gives back others.
    pub(super) fn keep_newborn(&mut self, stopped: Stopped) -> Option<Stopped> {
        let tid = stopped.tid();
        let parent = self.pid;
        match self.following.as_mut().filter(|following| following.wants_fork()) {
            Some(following) if following.forked == Some(tid) => {
                self.companions.forget(tid);
                following.found = Some(stopped);
                None
            }
            Some(following)
                if following.newborn.is_none()
                    && !self.companions.knows(tid)
                    && sys::parent(tid) == Some(parent) =>
            {
                following.newborn = Some(stopped);
                None
            }
            _ => Some(stopped),
        }
    }

    /// A thread made a process, by `fork` or so that it has the memory of its parent.
    pub(super) fn made_process(&mut self, parent: Tid, child: Tid, forked: bool) {
        let is_ours = self.tasks.contains_key(&parent);
        let Some(following) = self.following.as_mut().filter(|following| following.wants_fork() && is_ours)
        else {
            return;
        };
        if forked && following.forked.is_none() {
            following.forked = Some(child);
        }
        let Some(newborn) = following.newborn.take_if(|newborn| newborn.tid() == child) else { return };
        if let Some(other) = self.keep_newborn(newborn) {
            self.companions.begin(other, libc::SIGTRAP, &self.overlay, self.owned);
        }
    }

    /// Processes beside this one that a signal ended since this was last asked.
    pub(crate) fn take_crashes(&mut self) -> Vec<Crash> {
        self.companions.take_crashes()
    }

    /// The launched program has ended, but not all that it started.
    fn wait_for_companions(&mut self) -> Result<Halt, TraceError> {
        let ended = self.ended.unwrap_or(Ended::Exited(0));
        while !self.companions.is_empty() || self.companions.expects_any() {
            let Some(bell) = &mut self.bell else { break };
            if bell.rung().interrupt {
                return Ok(Halt::Interrupted(self.pid));
            }
            match bell.hear(sys::wait_for_any()?) {
                Ok(rung) if rung.interrupt => return Ok(Halt::Interrupted(self.pid)),
                Ok(_) => {}
                Err(event) => {
                    if let Some(halt) = self.consider(event)? {
                        return Ok(halt);
                    }
                }
            }
        }
        Ok(Halt::Ended(ended))
    }

    /// Another process has become another program.
    pub(super) fn executed_beside(&mut self, stopped: Stopped) -> Option<Halt> {
        let tid = stopped.tid();
        if let Ok(former) = stopped.former()
            && former != tid
        {
            // The thread that made the call has the number of the first one now.
            self.companions.forget(former);
        }
        if let Some(following) = self.following.as_mut().filter(|following| following.found.is_none())
            && following.note(tid)
        {
            self.companions.forget(tid);
            following.found = Some(stopped);
            return Some(Halt::Exec(tid));
        }
        self.companions.resume(stopped, 0);
        None
    }

    /// This is about another process from now on, which has just become a program. The others go on untraced.
    fn move_to(&mut self, stopped: Stopped) -> Result<(), TraceError> {
        self.following = None;
        self.let_go()?;
        let pid = stopped.tid();
        self.memory = open_memory(pid)?;
        self.life = Life::of(pid)?;
        self.debug_registers = DebugRegisters::default();
        self.awaited.clear();
        self.sent_again.clear();
        (self.is_headless, self.is_staged, self.rests) = (false, false, false);
        self.became_another = None;
        self.ended = None;
        self.pid = pid;
        self.tasks.insert(pid, Task::stopped(stopped));
        Ok(())
    }

    /// Lets all other processes go on untraced.
    pub(super) fn release_companions(&mut self) -> Result<(), TraceError> {
        // All at once: one may wait for another, as a parent does for its child after `vfork`.
        self.companions.interrupt();
        while !self.companions.is_empty() || self.companions.expects_any() {
            let event = match &mut self.bell {
                Some(bell) => bell.hear(sys::wait_for_any()?),
                None => Err(sys::wait_for_any()?),
            };
            match event {
                Ok(rung) => self.rung_meanwhile |= rung.interrupt,
                Err(event) => self.release(event),
            }
        }
        Ok(())
    }

    /// Lets go of a process that tells something. What it stopped for happens to it.
    fn release(&mut self, event: Event) {
        let (stopped, signal) = match event {
            Event::Exited(tid, _) | Event::Killed(tid, _) => return self.companions.forget(tid),
            Event::Signal(stopped, signal) => (stopped, signal),
            Event::Clone(stopped, made) | Event::Fork(stopped, made) | Event::Vfork(stopped, made) => {
                self.companions.expect(made);
                (stopped, 0)
            }
            Event::Stop(stopped, _)
            | Event::Call(stopped)
            | Event::VforkDone(stopped)
            | Event::Exec(stopped)
            | Event::Other(stopped) => (stopped, 0),
        };
        let tid = stopped.tid();
        if !self.companions.knows(tid) {
            self.companions.came_early(tid);
        }
        self.companions.forget(tid);
        // One that was killed needs no mending, and tells so itself.
        let _ = stopped.mend_call();
        let _ = stopped.detach(signal);
    }
}
