//! Programs that belong to a library, such as `python3 -m http.server`: the adapter stops in no library, so their first
//! statement is looked for, and stops are made in libraries, too.

use std::process::{Command, Stdio};

use super::Session;
use crate::{find, profile::Spelling};

/// Prints the file and the line of a program that belongs to a library.
const PYTHON_ENTRY: &str = include_str!("../profile/builtin/python_entry.py");

impl Session {
    /// Whether the program belongs to a package of Node, which is passed over otherwise.
    pub(super) fn is_in_package(&self) -> bool {
        let program = self.spelled.program.as_deref().filter(|_| self.profile.spelling == Spelling::Node);
        let path = program.and_then(|program| self.cwd.join(program).canonicalize().ok());
        path.is_some_and(|path| path.components().any(|part| part.as_os_str() == "node_modules"))
    }

    /// The first statement of a program that belongs to a library; none where it is the user's own, or runs the user's tests.
    pub(super) fn entry_in_library(&self) -> Option<(String, u32)> {
        if self.profile.spelling != Spelling::Python || self.spelled.is_test {
            return None;
        }
        let (kind, name) = match (&self.spelled.module, &self.spelled.program) {
            (Some(module), _) => ("-m", module.clone()),
            (None, Some(program)) => {
                let path = self.cwd.join(program).canonicalize().ok()?.display().to_string();
                // The others need not be asked for.
                let may_be = ["/site-packages/", "/dist-packages/", "/lib/python"];
                may_be.iter().any(|part| path.contains(part)).then_some(("-f", path))?
            }
            (None, None) => return None,
        };
        let python = find::in_path(self.spelled.interpreter.as_deref()?, &self.env)?;
        let mut command = Command::new(python);
        command.args(["-c", PYTHON_ENTRY, kind, &name]).current_dir(&self.cwd);
        command.env_clear().envs(&self.env).stdin(Stdio::null());
        // What cannot be found is told by the adapter.
        let said = command.output().ok()?;
        serde_json::from_slice(&said.stdout).ok()
    }
}
