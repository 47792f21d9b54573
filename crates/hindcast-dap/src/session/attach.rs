//! Attaching: to a process by its number, or at the door where it waits for debuggers.

use std::{
    collections::BTreeMap,
    net::TcpStream,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

use hindcast_core::debug::{AttachRequest, DebugError, Engine, HowBegun, Reason, Target};
use jiff::Timestamp;

use super::{ROOT, Session, ask::Refusal, begin::ADAPTER_WITHIN};
use crate::{
    door::{self, Door},
    profile::{Profile, Waiting, spell},
    transport::{connect_file, connect_socket},
};

/// What the system tells of a process.
struct Process {
    name: String,
    program: PathBuf,
    args: Vec<String>,
    cwd: PathBuf,
}

impl Process {
    fn of(pid: u32) -> Self {
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_else(|_| "/".into());
        let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let args = door::words_of(pid).into_iter().skip(1).collect();
        Self { name, program, args, cwd }
    }
}

/// The process that a debugger which listens has launched.
fn traced_by(debugger: u32) -> Option<u32> {
    let is_its = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        tracer.and_then(|tracer| tracer.trim().parse().ok()) == Some(debugger)
    };
    door::processes().find(is_its)
}

impl Session {
    /// Attaches to a process through the adapter of a profile.
    pub(crate) fn attach(profile: &Profile, request: &AttachRequest) -> Result<Self, DebugError> {
        let door = match request.port {
            Some(port) => Some(Door::at(port)),
            None if profile.attaches_by_number() => None,
            None => Some(door::of(profile, request.pid)?),
        };
        let process = Process::of(request.pid);
        let env: BTreeMap<String, String> = std::env::vars().collect();
        let spelled = spell(profile, &process.program, &process.args, &process.cwd, &env);
        let pid = match (request.port, profile.waiting) {
            (None, _) => Some(request.pid),
            // An adapter listens, which tells later which process it is.
            (Some(_), Waiting::Debugpy) => None,
            (Some(_), _) => Some(traced_by(request.pid).unwrap_or(request.pid)),
        };
        let process = pid.map_or(process, Process::of);
        let target = Target {
            engine: Engine::Adapter,
            pid,
            name: process.name,
            executable: process.program.display().to_string(),
            args: process.args,
            cwd: process.cwd.display().to_string(),
            how: HowBegun::Attach,
            since: Timestamp::now(),
            runtime: Some(format!("{} ({})", profile.title, profile.adapter)),
            followed: None,
        };
        let mut session = Self::new(profile, spelled, target, env, process.cwd, &request.output);
        session.was_attached = true;
        session.sources.begin_at(Path::new(""), session.spelled.program.as_deref());
        let mut words = session.usual_words(request.just_my_code);
        words.set("pid", request.pid);
        words.set("pid_text", request.pid.to_string());
        words.set("attach_mode", "local");
        if let Some(Door::Port(address)) = &door {
            words.set("attach_host", address.ip().to_string());
            words.set("attach_port", address.port());
        }
        match &door {
            Some(door) if profile.port_speaks_protocol => session.knock(door)?,
            _ => session.start_adapter(&words, None)?,
        }
        let arguments = if door.is_some() { &profile.attach_to_port } else { &profile.attach };
        session.request_program("attach", arguments, &words)?;
        Ok(session)
    }

    /// Connects to what speaks the protocol itself.
    fn knock(&mut self, door: &Door) -> Result<(), DebugError> {
        let connected = match door {
            Door::Port(address) => TcpStream::connect_timeout(address, ADAPTER_WITHIN)
                .and_then(|socket| self.client.connect(|id, sender| connect_socket(id, socket, sender))),
            Door::File(path) => UnixStream::connect(path)
                .and_then(|socket| self.client.connect(|id, sender| connect_file(id, socket, sender))),
        };
        if let Door::Port(address) = door {
            self.port = Some(address.port());
        }
        let connected = connected.map_err(|error| Refusal::Refused(error.to_string()));
        connected.and_then(|_| self.initialize(ROOT, ADAPTER_WITHIN)).map_err(|refusal| {
            let what = format!("{} cannot be reached at {door}: {}", self.profile.adapter, refusal.why());
            DebugError::Unsupported(Reason::new(what).advise(
                "see whether another debugger is connected already, and whether `language` is that of the program",
            ))
        })
    }

    /// The process that was attached to is this one: who listened for debuggers stood before it.
    pub(super) fn describe(&mut self, pid: u32) {
        let process = Process::of(pid);
        self.target.pid = Some(pid);
        if process.program.as_os_str().is_empty() {
            return;
        }
        let env: BTreeMap<String, String> = std::env::vars().collect();
        self.spelled = spell(&self.profile, &process.program, &process.args, &process.cwd, &env);
        self.sources.also_in(&process.cwd);
        self.sources.begin_at(Path::new(""), self.spelled.program.as_deref());
        self.target.name = process.name;
        self.target.executable = process.program.display().to_string();
        self.target.args = process.args;
        self.target.cwd = process.cwd.display().to_string();
    }
}
