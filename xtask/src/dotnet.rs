//! .NET runtimes and compilers for the tests of the .NET engine, under `target/peers/dotnet`.
//!
//! | folder | what it has |
//! |---|---|
//! | `runtime-3.1`, `runtime-10.0` | `dotnet` and one runtime each |
//! | `reference` | what programs are compiled against |
//! | `compiler` | `compile.dll`, a C# 12 compiler that runs on the newer runtime |
//! | `fsharp` | `fsc.exe`, an F# compiler that does so too |
//! | `apphost` | the executable that a program's own executable is made from |

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::scratch::ScratchFolder;
use crate::workspace::Workspace;
use crate::{command, install, peers};

/// What decides what is in the folder, below `peers/dotnet`.
const INPUTS: [&str; 4] = ["requirements.txt", "packages.txt", "unpack.py", "Compile.cs"];
/// What `Compile.cs` is compiled against, of the newer runtime.
const BOOTSTRAP_REFERENCES: [&str; 6] = [
    "System.Private.CoreLib",
    "System.Runtime",
    "System.Linq",
    "System.Console",
    "System.Collections",
    "netstandard",
];

/// Installs both runtimes and the compilers, unless they are there and up to date.
pub(crate) fn prepare(workspace: &Workspace) -> Result<()> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        println!("no .NET: its packages are for Linux on x86-64");
        return Ok(());
    }
    let sources = workspace.root.join("peers/dotnet");
    let folder = workspace.peers().join("dotnet");
    let content = stamp_of(&sources)?;
    if std::fs::read_to_string(folder.join("made-from")).is_ok_and(|found| found == content) {
        println!("{} is up to date", folder.display());
        return Ok(());
    }
    install::ensure_program("npm", "npm")?;
    let scratch = ScratchFolder::create(workspace, "dotnet")?;
    let made = scratch.path().join("made");
    download_and_unpack(workspace, &sources, scratch.path(), &made)?;
    compile_the_compiler(&sources, &made)?;
    std::fs::write(made.join("made-from"), content).context("cannot write the stamp")?;
    put_in_place(&made, &folder)
}

fn stamp_of(sources: &Path) -> Result<String> {
    let read = |name: &str| {
        let path = sources.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    INPUTS.into_iter().map(read).collect()
}

/// Keeps no archive, and of their content only what is needed.
fn download_and_unpack(workspace: &Workspace, sources: &Path, scratch: &Path, made: &Path) -> Result<()> {
    let python = peers::python(workspace);
    let downloads = scratch.join("downloads");
    std::fs::create_dir_all(&downloads).context("cannot create a folder for downloads")?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    pip.args(["--require-hashes", "--only-binary=:all:", "--dest"]).arg(&downloads);
    command::run(pip.arg("-r").arg(sources.join("requirements.txt")))?;

    let manifest = sources.join("packages.txt");
    for package in packages_in(&std::fs::read_to_string(&manifest).context("cannot read packages.txt")?) {
        let mut npm = Command::new("npm");
        command::run(npm.current_dir(&downloads).args(["pack", "--silent", "--loglevel", "error", package]))?;
    }
    command::run(
        Command::new(&python).arg(sources.join("unpack.py")).arg(&downloads).arg(&manifest).arg(made),
    )
}

/// The packages, with their versions, that a list names before their hashes.
fn packages_in(manifest: &str) -> impl Iterator<Item = &str> {
    let lines = manifest.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().next())
}

/// Makes `compile.dll` with the old compiler, which is not needed any more then.
fn compile_the_compiler(sources: &Path, made: &Path) -> Result<()> {
    let runtime = made.join("runtime-10.0");
    let compiler = made.join("compiler");
    let bootstrap = made.join("bootstrap");
    let mut csc = Command::new(runtime.join("dotnet"));
    csc.env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1");
    csc.args(["exec", "--roll-forward", "LatestMajor", "--fx-version", "10.0.0"])
        .arg(bootstrap.join("csc.dll"));
    // 1701: the library wants another version of what the runtime has, which the runtime settles when it loads it.
    csc.args(["-nologo", "-noconfig", "-nostdlib", "-optimize", "-warnaserror", "-nowarn:1701,1702"]);
    let framework = runtime.join("shared/Microsoft.NETCore.App/10.0.0");
    let immutable = framework.join("System.Collections.Immutable.dll");
    let references = BOOTSTRAP_REFERENCES.map(|name| framework.join(format!("{name}.dll")));
    let libraries = ["Microsoft.CodeAnalysis.dll", "Microsoft.CodeAnalysis.CSharp.dll"];
    for reference in
        references.into_iter().chain([immutable]).chain(libraries.map(|name| compiler.join(name)))
    {
        csc.arg(format!("-r:{}", reference.display()));
    }
    csc.arg(format!("-out:{}", compiler.join("compile.dll").display()));
    command::run(csc.arg(sources.join("Compile.cs")))?;
    std::fs::write(compiler.join("compile.runtimeconfig.json"), COMPILER_SETTINGS)
        .context("cannot write the compiler's settings")?;
    std::fs::remove_dir_all(&bootstrap).context("cannot remove the old compiler")
}

/// It lives for a second or two: what pays off later only costs.
const COMPILER_SETTINGS: &str = r#"{
  "runtimeOptions": {
    "framework": { "name": "Microsoft.NETCore.App", "version": "10.0.0" },
    "configProperties": {
      "System.GC.Concurrent": false,
      "System.Globalization.Invariant": true,
      "System.Runtime.TieredPGO": false
    }
  }
}
"#;

/// Moves a folder to where it belongs, in place of what was there.
pub(crate) fn put_in_place(made: &Path, folder: &Path) -> Result<()> {
    let parent = folder.parent().context("a folder is in another")?;
    std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    std::fs::rename(made, folder).with_context(|| format!("cannot move to {}", folder.display()))
}
