//! What adapters tell and ask by themselves.

use std::ffi::{OsStr, OsString};

use hindcast_core::debug::{OutputLog, OutputStream};
use serde_json::{Value, json};

use super::{ROOT, Session, State, children::Child};
use crate::{
    profile::StartedBy,
    protocol::{BoundBreakpoint, DapModule, Event, Request, RunInTerminal, Source, Stopped},
    transport::ConnectionId,
};

impl Session {
    pub(super) fn on_event(&mut self, from: ConnectionId, event: Event) {
        let Event { event, body } = event;
        match event.as_str() {
            "initialized" => self.client.connections[from.0].is_initialized = true,
            "stopped" => self.on_stopped(from, read(body)),
            "continued" => {
                self.standing.remove(&from);
            }
            "output" => self.on_output(&body),
            "exited" if self.exit_code.is_none() || from == ROOT => {
                self.exit_code = body["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
            }
            "terminated" => self.on_terminated(from),
            "breakpoint" => {
                let bound: BoundBreakpoint = read(body["breakpoint"].clone());
                self.breakpoints.update(from, &bound);
            }
            "module" => self.on_module(&body),
            "loadedSource" => {
                let source: Source = read(body["source"].clone());
                self.sources.learn(&source);
            }
            "process" => self.on_process(from, &body),
            "debugpyAttach" => self.children.push(Child::announced(body)),
            _ => {}
        }
    }

    fn on_stopped(&mut self, from: ConnectionId, stopped: Stopped) {
        self.standing.insert(from, stopped.thread_id.unwrap_or_default());
        self.stops.push_back((from, stopped));
    }

    fn on_terminated(&mut self, from: ConnectionId) {
        self.client.connections[from.0].is_over = true;
        self.standing.remove(&from);
        self.stops.retain(|(of, _)| *of != from);
        if from == ROOT && matches!(self.state, State::Configuring | State::Live) {
            self.state = State::Ended { told: false };
        }
    }

    /// Where the program's streams are ours, what adapters tell of them would be told twice.
    fn on_output(&mut self, body: &Value) {
        let text = body["output"].as_str().unwrap_or_default();
        let stream = match body["category"].as_str() {
            Some("stdout") => OutputStream::Stdout,
            Some("stderr") => OutputStream::Stderr,
            Some("telemetry") => return,
            // Messages of the adapter, which tell why it cannot go on.
            _ => {
                // The only way in which delve tells it.
                let code = text.split_once(" has exited with status ").map(|(_, code)| code.trim().parse());
                if let Some(Ok(code)) = code {
                    self.exit_code = Some(code);
                }
                self.remark(text);
                return;
            }
        };
        match self.profile.program_is_started_by {
            StartedBy::Events => push(&self.output, stream, text),
            StartedBy::Adapter | StartedBy::Terminal | StartedBy::Hindcast => self.remark(text),
        }
    }

    /// Keeps what an adapter says, for errors.
    fn remark(&mut self, text: &str) {
        const KEPT: usize = 2 << 10;
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        self.remarks.push_str(text);
        self.remarks.push('\n');
        if self.remarks.len() > KEPT {
            let mut from = self.remarks.len() - KEPT;
            while !self.remarks.is_char_boundary(from) {
                from += 1;
            }
            self.remarks.drain(..from);
        }
    }

    fn on_module(&mut self, body: &Value) {
        const MOST: usize = 4096;
        let module: DapModule = read(body["module"].clone());
        if let Some(path) = &module.path {
            self.sources.learn(&Source { path: Some(path.clone()), ..Source::default() });
        }
        self.modules.retain(|known| known.id != module.id || known.name != module.name);
        if body["reason"] != "removed" && self.modules.len() < MOST {
            self.modules.push(module);
        }
    }

    fn on_process(&mut self, from: ConnectionId, body: &Value) {
        let Some(pid) = body["systemProcessId"].as_u64().and_then(|pid| u32::try_from(pid).ok()) else {
            return;
        };
        let is_first = std::mem::replace(&mut self.knows_pid, true);
        if self.was_attached && !is_first && self.target.pid != Some(pid) {
            self.describe(pid);
        } else if !is_first || from == ROOT {
            self.target.pid = Some(pid);
        } else if self.target.pid != Some(pid) && self.known_children.insert(pid) && from != ROOT {
            let name = body["name"].as_str().unwrap_or("it");
            self.notes
                .push(format!("process {pid} (`{name}`) was started by the program and is followed, too"));
        }
    }

    pub(super) fn on_request(&mut self, from: ConnectionId, request: Request) {
        let Request { seq, command, arguments } = request;
        let answer = match command.as_str() {
            "runInTerminal" => self.run_in_terminal(read(arguments)),
            "startDebugging" => {
                self.children.push(Child::asked_for(&arguments));
                Ok(json!({}))
            }
            // js-debug asks for it to be told which child sessions there are.
            "attachedChildSession" => Ok(json!({})),
            other => Err(format!("`{other}` is not supported")),
        };
        self.client.answer(from, seq, &command, answer);
    }

    /// Starts what the adapter wants to have started, with the streams that were prepared for it.
    fn run_in_terminal(&mut self, wanted: RunInTerminal) -> Result<Value, String> {
        let Some((program, args)) = wanted.args.split_first() else { return Err("no command".into()) };
        let mut env = self.env.clone();
        for (name, value) in wanted.env {
            match value {
                Some(value) => drop(env.insert(name, value)),
                None => drop(env.remove(&name)),
            }
        }
        let Some(opened) = self.streams.take() else {
            return Err("the program has been started already".into());
        };
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let cwd = if wanted.cwd.is_empty() { self.cwd.clone() } else { wanted.cwd.into() };
        let pid = self
            .keep_program(OsStr::new(program), &args, &cwd, &env, opened)
            .map_err(|why| format!("cannot start `{program}`: {why}"))?;
        Ok(json!({ "processId": pid, "shellProcessId": pid }))
    }
}

fn push(output: &OutputLog, stream: OutputStream, text: &str) {
    if !text.is_empty() {
        output.push(stream, text.as_bytes());
    }
}

/// What can be read of it; adapters may send anything.
fn read<T: serde::de::DeserializeOwned + Default>(body: Value) -> T {
    serde_json::from_value(body).unwrap_or_default()
}
