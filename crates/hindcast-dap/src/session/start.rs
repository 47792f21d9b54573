//! Programs that we start ourselves: the adapter attaches to them.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use hindcast_core::debug::{DebugError, Reason};
use hindcast_streams::{Opened, Pump};

use super::{
    Session,
    begin::{free_port, quiet_log},
};
use crate::{
    door, find,
    keeper::{Kept, Start, stdio},
    profile::{Words, fill_words, root_of},
    transport::Incoming,
};

/// How long a program may take until it listens for the adapter.
const LISTENS_WITHIN: Duration = Duration::from_secs(15);
/// Between two looks whether it does: no system call waits until another process listens.
const GLANCE: Duration = Duration::from_millis(4);

impl Session {
    /// Compiles the program, where it is a source, into our own folder.
    pub(super) fn build(&mut self) -> Result<(), DebugError> {
        let (Some(source), Some(main)) = (self.spelled.source.clone(), self.spelled.program.clone()) else {
            return Ok(());
        };
        let source = self.cwd.join(source);
        let beside = self.spelled.interpreter.as_deref().map(|java| Path::new(java).with_file_name("javac"));
        let beside = beside.and_then(|javac| find::in_path(&javac.display().to_string(), &self.env));
        let Some(compiler) = beside.or_else(|| find::in_path("javac", &self.env)) else {
            return Err(self.not_there("there is no `javac` to compile the source"));
        };
        let root = root_of(&source, &main).display().to_string();
        let folder = self.scratch.clone().unwrap_or_default().display().to_string();
        let mut command = Command::new(&compiler);
        // It ends before optimizing it would pay.
        command.args(["-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC"]);
        command.args(["-g", "-d", &folder, "-sourcepath", &root]);
        if let Some(path) = self.class_path() {
            command.args(["-cp", &path]);
        }
        command.arg(&source).current_dir(&self.cwd).env_clear().envs(&self.env).stdin(Stdio::null());
        let built = command.output().map_err(|error| {
            DebugError::LaunchFailed(format!("`{}` cannot be started: {error}", compiler.display()).into())
        })?;
        if !built.status.success() {
            let said = String::from_utf8_lossy(&built.stderr);
            let said: Vec<_> = said.lines().take(12).collect();
            let what = format!("`{}` does not compile:\n{}", source.display(), said.join("\n"));
            return Err(DebugError::LaunchFailed(Reason::new(what).advise("mend it, and launch it again")));
        }
        let path = [Some(folder), self.class_path(), Some(root)].into_iter().flatten();
        let path = path.collect::<Vec<_>>().join(":");
        self.spelled.interpreter_args.extend(["-cp".to_owned(), path]);
        Ok(())
    }

    /// What was given as the class path.
    fn class_path(&self) -> Option<String> {
        let options = &self.spelled.interpreter_args;
        let at =
            options.iter().position(|word| ["-cp", "-classpath", "--class-path"].contains(&word.as_str()))?;
        options.get(at + 1).cloned()
    }

    /// Starts the program, which waits for the adapter.
    pub(super) fn start_program(&mut self, words: &mut Words, opened: Opened) -> Result<(), DebugError> {
        let failed = |what: String| DebugError::LaunchFailed(what.into());
        let port =
            free_port().map_err(|error| failed(format!("no port is free for the program: {error}")))?;
        words.set("attach_port", port);
        words.set("attach_host", "127.0.0.1");
        words.set("interpreter_args", serde_json::json!(self.spelled.interpreter_args));
        let command = fill_words(&self.profile.start, words);
        let Some((program, args)) = command.split_first() else {
            return Err(self.not_there("its profile does not say how to start a program"));
        };
        let Some(program) = find::in_path(program, &self.env) else {
            return Err(self.not_there(&format!("there is no `{program}`")));
        };
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let (env, cwd) = (self.env.clone(), self.cwd.clone());
        self.awaited_port = Some(port);
        self.keep_program(program.as_os_str(), &args, &cwd, &env, opened)
            .map_err(|why| failed(format!("cannot start `{}`: {why}", program.display())))?;
        Ok(())
    }

    /// Waits until the program listens for the adapter. Whoever connected to see would be taken for it.
    pub(super) fn await_program(&mut self) -> Result<(), DebugError> {
        let Some(port) = self.awaited_port.take() else { return Ok(()) };
        let until = Instant::now() + LISTENS_WITHIN;
        loop {
            let program = self.program.as_ref();
            if program.is_some_and(|program| door::listens_at(program.pid(), port)) {
                return Ok(());
            }
            if program.is_none_or(|program| program.ended().is_some()) {
                return Err(self.not_begun("it ended before it could be debugged"));
            }
            if Instant::now() > until {
                return Err(self.not_begun("the program does not wait for the debugger"));
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// Starts a process with these streams, which ends with us.
    pub(super) fn keep_program(
        &mut self,
        program: &OsStr,
        args: &[OsString],
        cwd: &Path,
        env: &std::collections::BTreeMap<String, String>,
        opened: Opened,
    ) -> Result<u32, String> {
        let sender = self.client.sender();
        let what = Start {
            program,
            args,
            cwd: Some(cwd),
            env,
            stdin: stdio(opened.theirs.stdin),
            stdout: stdio(opened.theirs.stdout),
            stderr: stdio(opened.theirs.stderr),
            folder: self.scratch.as_deref().filter(|_| self.awaited_port.is_some()),
        };
        let tell = move || drop(sender.send(Incoming::ProgramEnded));
        let kept = Kept::start(what, tell).map_err(|error| error.to_string())?;
        let pid = kept.pid();
        self.program = Some(kept);
        self.target.pid.get_or_insert(pid);
        self.pump = Pump::start(opened.ours, quiet_log(&self.output, &self.profile, &self.is_ready)).ok();
        Ok(pid)
    }
}
