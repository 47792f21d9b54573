//! Waiting for a program that the launched one, or something below it, executes.

use std::fmt;

use hindcast_core::debug::{
    DebugError, Followed, Happening, HappeningKind, LaunchRequest, Moment, OutputStream, Reason,
};

use super::{Session, recording::last_moment, system};
use crate::{
    image::Image,
    look::file_name,
    process::{Crash, Ended, Process, Waited, Wanted},
    sys::{self, Tid},
};

/// What is waited for, and what then happens.
#[derive(Debug)]
pub(super) struct Search {
    what: Goal,
    /// The command that was launched.
    launched: String,
    /// Whether the first process that the program forks is waited for then.
    forks: bool,
    record: bool,
    chaos: Option<u64>,
}

#[derive(Debug)]
enum Goal {
    /// A program, as it was written.
    Program(String),
    /// The first process that the program of this name forks.
    Fork(String),
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(program) => write!(f, "`{program}` was never executed"),
            Self::Fork(program) => write!(f, "`{program}` never forked a process"),
        }
    }
}

impl Search {
    /// For what a launch is to follow; none where that is the launched program itself.
    pub(super) fn begin(request: &LaunchRequest, process: &mut Process) -> Option<Self> {
        let name = request.program.to_string_lossy().into_owned();
        let is_there = match &request.follow {
            Some(program) => process.want(Wanted::new(program, request.cwd.as_deref())),
            None => true,
        };
        let what = match request.follow.clone().filter(|_| !is_there) {
            Some(program) => Goal::Program(program),
            None if request.follow_forks => {
                process.want(Wanted::Forked);
                Goal::Fork(file_name(&name))
            }
            None => return None,
        };
        // Otherwise it is recorded later.
        let record = request.record && request.record_from.is_none();
        let launched = in_a_line(std::iter::once(&name).chain(&request.args));
        Some(Self { what, launched, forks: request.follow_forks, record, chaos: request.chaos })
    }
}

impl Session {
    /// Lets the launched program run until there is what is followed, which the session then is about. False when that was
    /// interrupted.
    pub(super) fn await_program(&mut self) -> Result<bool, DebugError> {
        loop {
            let waited = self.process.await_program().map_err(system)?;
            match (waited, self.search.take()) {
                (Waited::Interrupted, search) => {
                    self.search = search;
                    return Ok(false);
                }
                (Waited::Found, Some(search @ Search { what: Goal::Program(_), forks: true, .. })) => {
                    let name =
                        file_name(&sys::executable(self.process.pid()).unwrap_or_default().to_string_lossy());
                    self.process.want_fork();
                    self.search = Some(Search { what: Goal::Fork(name), ..search });
                }
                (Waited::Found, Some(search)) => return self.found(search).map(|()| true),
                (Waited::Found, None) => return Ok(true),
                (Waited::Missed { root, executed }, search) => {
                    return Err(missed(search.as_ref(), root, &executed));
                }
            }
        }
    }

    /// The process is the one that was waited for.
    fn found(&mut self, search: Search) -> Result<(), DebugError> {
        let pid = self.process.pid();
        let parent = sys::parent(pid).unwrap_or(Tid(0));
        let is_forked = matches!(search.what, Goal::Fork(_));
        let recorded = match is_forked {
            _ if !search.record => Ok(()),
            true => self.process.record_running(pid),
            false => self.process.record(),
        };
        self.unrecorded = match recorded {
            Err(error) => Some(format!("this program cannot be recorded here: {error}")),
            Ok(()) if search.record => None,
            Ok(()) => self.unrecorded.take(),
        };
        if let Some(seed) = search.chaos {
            self.process.begin_chaos(seed);
        }
        self.image = Image::of_process(pid);
        self.executed(pid)?;
        self.is_forked = is_forked;
        self.target.pid = Some(pid.0.unsigned_abs());
        self.target.args = sys::command_line(pid).unwrap_or_default().into_iter().skip(1).collect();
        self.target.cwd = sys::current_folder(pid).unwrap_or_default().to_string_lossy().into_owned();
        self.target.followed = Some(Followed {
            launched: search.launched,
            parent_pid: parent.0.unsigned_abs(),
            parent: in_a_line(&sys::command_line(parent).unwrap_or_default()),
        });
        Ok(())
    }

    /// Tells of processes beside the program that a signal ended: otherwise one sees only what whoever waited for them
    /// made of it.
    pub(super) fn tell_crashes(&mut self) {
        for Crash { process, program, signal } in self.process.take_crashes() {
            let (name, signal) = (file_name(&program.to_string_lossy()), sys::signal_name(signal));
            let what = format!("process {} (`{name}`) was killed by {signal}", process.0);
            let told = format!("{what}; `follow` or `follow_forks` of the launch debug it instead\n");
            self.log.push(OutputStream::Log, told.as_bytes());
            let recorder = self.process.recorder().filter(|recorder| recorder.is_active());
            if let Some(last) = recorder.and_then(|recorder| last_moment(&recorder.timeline, &recorder.log)) {
                let moment = Moment(last.to_string());
                let kind = HappeningKind::Signal;
                self.happenings.push(Happening { moment, kind, what, location: None, thread: None });
            }
        }
    }

    /// Says what cannot be done before the wanted program is there.
    pub(super) fn not_before_found(&self) -> Option<DebugError> {
        let what = match &self.search.as_ref()?.what {
            Goal::Program(program) => {
                format!("`{program}` has not been executed yet, and is not there to move")
            }
            Goal::Fork(program) => format!("`{program}` has not forked yet, and nobody is there to move"),
        };
        Some(DebugError::Unsupported(
            Reason::new(what).advise("let it continue: it stops where the program begins"),
        ))
    }
}

fn missed(search: Option<&Search>, root: Ended, executed: &[String]) -> DebugError {
    let how = match root {
        Ended::Exited(code) => format!("exited with code {code}"),
        Ended::Killed(number) => format!("was killed by {}", sys::signal_name(number)),
    };
    let Some(Search { what, launched, .. }) = search else { return DebugError::Ended };
    DebugError::LaunchFailed(match what {
        Goal::Program(program) => {
            let names = executed.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let told = format!("{what}: `{launched}` {how}, and these programs were executed last: {names}");
            Reason::new(told).advise(match program.contains('/') {
                true => "give the file name alone, which may contain `*`, or the path of one of these",
                false => "give one of these names, which may contain `*`, or have it built and run first",
            })
        }
        Goal::Fork(_) => {
            Reason::new(format!("{what}: `{launched}` {how}")).advise("leave `follow_forks` out")
        }
    })
}

/// A command line, cut where it is long.
fn in_a_line<'a>(arguments: impl IntoIterator<Item = &'a String>) -> String {
    const LONGEST: usize = 200;
    let line = arguments.into_iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
