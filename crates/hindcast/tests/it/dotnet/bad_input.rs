//! Files and processes that are no .NET programs, or not here.

use std::{
    io::Write,
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use hindcast_fixtures::dotnet::{self, DotnetFixture};
use serde_json::json;

use super::{Running, client, data, on_both, once, refused, text};
use crate::knowledge::{Client, until};

/// Nobody.
const NOBODY: u32 = 65_534;

/// A copy of the hello program that can be damaged.
fn copy(into: &Path) -> std::path::PathBuf {
    let program = dotnet::program("Hello");
    for file in std::fs::read_dir(program.dll.parent().unwrap()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), into.join(file.file_name())).unwrap();
    }
    into.join("Hello.dll")
}

#[test]
fn files_that_are_no_assemblies_are_refused_by_what_they_are() {
    once(|runtime| {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let assembly = std::fs::read(dotnet::program("Hello").dll).unwrap();
        let elf = folder.path().join("elf.dll");
        std::fs::copy("/bin/true", &elf).unwrap();
        let mut client = client(runtime);
        let mut check = |arguments: serde_json::Value, sentence: &str| {
            let (code, said) = refused(&mut client, "launch", arguments);
            assert_eq!(code, -32602);
            assert!(said.contains(sentence) && said.contains("name the program's .dll"), "{said}");
        };
        let dotnet = "dotnet";
        check(json!({ "program": elf, "language": dotnet }), "the file is an ELF file, not a .NET assembly");
        let native = "is a native program without a .NET assembly beside it";
        check(json!({ "program": "/bin/true", "language": dotnet }), native);
        check(json!({ "program": put("text.dll", b"text\n") }), "neither a PE file nor a portable PDB");
        check(json!({ "program": put("empty.dll", b"") }), "the file is empty");
        check(json!({ "program": put("cut.dll", &assembly[..3000]) }), "the file ends within");
        let library = runtime.framework.join("System.Console.dll");
        let (_, said) = refused(&mut client, "launch", json!({ "program": library }));
        assert!(said.contains("is a library: it has no `Main` · name the program that uses"), "{said}");
        let (_, said) = refused(&mut client, "launch", json!({ "program": folder.path() }));
        assert!(said.contains("is a folder, and not of one .NET program"), "{said}");
        let started = text(&mut client, "launch", json!({ "program": elf }));
        assert!(started.ends_with("Engine: native"), "what it is counts, not its name: {started}");
    });
}

/// A command that runs hindcast where no `dotnet` is installed, whatever is on this machine; none where that cannot be done.
fn without_dotnet(folder: &str) -> Option<Command> {
    let usual = ["/usr/share/dotnet", "/usr/lib/dotnet", "/usr/local/share/dotnet", "/opt/dotnet"];
    let there: Vec<_> = usual.into_iter().filter(|folder| Path::new(folder).exists()).collect();
    let variables = [("DOTNET_ROOT", folder), ("PATH", folder), ("HOME", folder)];
    let plain = crate::server::command();
    if there.is_empty() {
        let mut command = plain;
        command.envs(variables);
        return Some(command);
    }
    let may_mount = Command::new("unshare").args(["-Urm", "true"]).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        let test = "without_a_runtime_the_error_says_where_it_was_looked_for";
        // Past the test runner, which keeps what passing tests print to itself.
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: .NET is installed, and there is no `unshare`");
        return None;
    }
    let mut command = Command::new("unshare");
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let hidden = there.iter().map(|folder| format!("mount -t tmpfs none {folder} && ")).collect::<String>();
    let set = variables.map(|(name, value)| format!("{name}='{value}'")).join(" ");
    let script = format!("{hidden} exec /usr/bin/env {set} \"$@\"");
    command.args(["-Urm", "sh", "-ec", &script, "sh"]).arg(plain.get_program());
    Some(command)
}

#[test]
fn without_a_runtime_the_error_says_where_it_was_looked_for() {
    once(|_| {
        let empty = tempfile::tempdir().unwrap();
        let Some(command) = without_dotnet(empty.path().to_str().unwrap()) else { return };
        let mut client = Client::by(Arc::new(tempfile::tempdir().unwrap()), command);
        let program = dotnet::program("Hello").dll;
        let (code, said) = refused(&mut client, "launch", json!({ "program": program }));
        assert_eq!(code, -32602);
        let sentence =
            "no .NET runtime was found: there is no `dotnet` in DOTNET_ROOT, PATH or the usual folders";
        assert!(said.starts_with(sentence) && said.contains("`hindcast doctor`"), "{said}");
    });
}

#[test]
fn assemblies_that_cannot_run_here_are_refused_with_how_to_build_them() {
    once(|runtime| {
        let folder = tempfile::tempdir().unwrap();
        let program = copy(folder.path());
        let mut image = std::fs::read(&program).unwrap();
        // The header of managed code: its size and version, then two other fields, then the flags.
        let header = [0x48, 0, 0, 0, 2, 0, 5, 0];
        let at = image.windows(header.len()).position(|window| window == header).unwrap();
        let requires_32_bit = 0x2;
        image[at + 16] |= requires_32_bit;
        std::fs::write(&program, &image).unwrap();
        let mut client = client(runtime);
        let (code, said) = refused(&mut client, "launch", json!({ "program": program }));
        assert_eq!(code, -32602);
        let sentence = format!(
            "`{}` is a 32-bit assembly, which this 64-bit debugger cannot run · \
             build it with the platform `AnyCPU` or `x64`",
            program.display()
        );
        assert_eq!(said, sentence);
        let windows = dotnet::program("Windows").dll;
        let (code, said) = refused(&mut client, "launch", json!({ "program": windows }));
        assert_eq!(code, -32602);
        let sentence = format!(
            "`{}` is made for .NET Framework (.NETFramework,Version=v4.8), which runs only on Windows · \
             build it for .NET (`net8.0` or later)",
            windows.display()
        );
        assert_eq!(said, sentence);
    });
}

#[test]
fn the_configured_dotnet_is_used_where_no_variable_names_one() {
    on_both(|runtime| {
        let environment = [
            ("HINDCAST_DEBUG_DOTNET", runtime.root.to_str().unwrap()),
            ("DOTNET_ROOT", ""),
            ("PATH", "/usr/bin:/bin"),
        ];
        for executable in [false, true] {
            let program = dotnet::program("Hello");
            let program = if executable { program.executable } else { program.dll };
            let mut client = Client::over(tempfile::tempdir().unwrap(), &environment);
            data(&mut client, "launch", json!({ "program": program }));
            let session = client.read_json("debugger://session");
            assert_eq!(session["runtimeVersion"], super::runtime_name(runtime));
        }
    });
}

#[test]
fn what_the_host_says_of_a_missing_framework_is_passed_on() {
    on_both(|runtime| {
        let folder = tempfile::tempdir().unwrap();
        let program = copy(folder.path());
        let settings = json!({ "runtimeOptions": { "framework": { "name": "Microsoft.NETCore.App", "version": "99.0.0" } } });
        std::fs::write(folder.path().join("Hello.runtimeconfig.json"), settings.to_string()).unwrap();
        let mut client = client(runtime);
        for program in [program.clone(), folder.path().join("Hello")] {
            let (code, said) = refused(&mut client, "launch", json!({ "program": program }));
            assert_eq!(code, -32602);
            assert!(
                said.starts_with("the program ended before its runtime had started (exit code 150)"),
                "{said}"
            );
            assert!(said.contains("'Microsoft.NETCore.App', version '99.0.0'"), "{said}");
            assert!(said.contains(runtime.version), "which there are instead: {said}");
            assert!(said.contains("DOTNET_ROLL_FORWARD"), "{said}");
        }
    });
}

#[test]
fn a_pdb_of_another_build_is_not_used_and_the_modules_say_so() {
    on_both(|runtime| {
        let folder = tempfile::tempdir().unwrap();
        let program = copy(folder.path());
        let pdb = folder.path().join("Hello.pdb");
        std::fs::copy(dotnet::program("Exceptions").pdb.unwrap(), &pdb).unwrap();
        let mut client = client(runtime);
        let stopped = text(&mut client, "launch", json!({ "program": program }));
        assert!(stopped.contains("Stopped at entry (Hello.Main)"), "{stopped}");
        let set = text(&mut client, "set_breakpoint", json!({ "file": "Hello.cs", "line": 14 }));
        let pending = "Breakpoint 1 is pending: no loaded assembly has symbols for `Hello.cs`";
        assert!(set.starts_with(pending), "{set}");
        let modules = text(&mut client, "get_modules", json!({ "filter": "Hello.dll" }));
        assert!(modules.contains(&format!("`{}` is of another build", pdb.display())), "{modules}");
        let set = text(&mut client, "set_breakpoint", json!({ "function": "Hello.Echo" }));
        assert!(set.starts_with("Breakpoint 2 set at Hello.Echo"), "methods need no symbols: {set}");
    });
}

/// Killed and waited for when dropped.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        dotnet::kill(&mut self.0);
    }
}

#[test]
fn processes_without_a_runtime_are_refused() {
    once(|runtime| {
        let mut client = client(runtime);
        let sleeper = Started(Command::new("sleep").arg("1000").spawn().unwrap());
        let pid = sleeper.0.id();
        let (code, said) = refused(&mut client, "attach", json!({ "pid": pid, "language": "dotnet" }));
        assert_eq!(code, -32602);
        assert!(said.starts_with(&format!("process {pid} has not loaded a .NET runtime · ")), "{said}");
        assert!(said.contains("attach a moment later"), "{said}");
        let (code, said) = refused(&mut client, "attach", json!({ "pid": 99_999_999, "language": "dotnet" }));
        assert_eq!(code, -32004, "{said}");
        let program = dotnet::program("Hello").dll;
        let arguments = json!({ "program": program, "cwd": "/nonexistent" });
        let (_, said) = refused(&mut client, "launch", arguments);
        assert!(said.contains("in `/nonexistent`: No such file"), "{said}");
        assert!(said.ends_with("`cwd` must be an existing folder"), "{said}");
    });
}

#[test]
fn a_process_that_has_not_loaded_its_runtime_yet_is_attached_to_a_moment_later() {
    on_both(|runtime| {
        let folder = tempfile::tempdir().unwrap();
        let program = copy(folder.path());
        // The host reads it before it loads the runtime, and waits for somebody to write it.
        let settings = folder.path().join("Hello.runtimeconfig.json");
        std::fs::remove_file(&settings).unwrap();
        assert!(Command::new("mkfifo").arg(&settings).status().unwrap().success());
        let mut host = Command::new(&runtime.dotnet);
        host.arg("exec").arg(&program).env("DOTNET_ROOT", &runtime.root);
        let host = Started(host.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
        let maps = format!("/proc/{}/maps", host.0.id());
        // It loads what reads the settings, and gets no further.
        until("the host has begun", || std::fs::read_to_string(&maps).unwrap().contains("/libhostfxr.so"));
        let mut client = client(runtime);
        let early = json!({ "pid": host.0.id(), "language": "dotnet" });
        let (code, said) = refused(&mut client, "attach", early);
        assert_eq!(code, -32602);
        let sentence = format!(
            "process {} has not loaded a .NET runtime · if it is a .NET program, attach a moment later or launch it; \
             otherwise attach with `language: c`",
            host.0.id()
        );
        assert_eq!(said, sentence);
        drop(host);

        // The remedy is one.
        let program = dotnet::program("Server");
        let running = Running::start(runtime, &program, &[]);
        let attached = text(&mut client, "attach", json!({ "pid": running.pid(), "language": "dotnet" }));
        assert!(attached.ends_with("Engine: .NET"), "{attached}");
        text(&mut client, "disconnect", json!({}));
    });
}

/// A client that runs as another user than a process, and that process; none where there is no such process.
fn client_of_another_user() -> Option<(Client, u32, Option<Started>)> {
    let folder = tempfile::tempdir().unwrap();
    let us = folder.path().metadata().unwrap().uid();
    let first = Path::new("/proc/1").metadata().map(|process| process.uid());
    if us == 0 {
        // Root may look into all processes, so hindcast is the other user.
        std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        let hindcast = folder.path().join("hindcast");
        let plain = crate::server::command();
        // Where it was built may be closed to others.
        std::fs::hard_link(plain.get_program(), &hindcast)
            .or_else(|_| std::fs::copy(plain.get_program(), &hindcast).map(drop))
            .unwrap();
        let mut command = Command::new(hindcast);
        command.env_clear().env("XDG_CONFIG_HOME", "/nonexistent").env("HOME", folder.path());
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
        let sleeper = Started(Command::new("sleep").arg("1000").spawn().unwrap());
        let pid = sleeper.0.id();
        return Some((Client::by(Arc::new(folder), command), pid, Some(sleeper)));
    }
    if first.is_ok_and(|owner| owner != us) {
        return Some((Client::over(folder, &[]), 1, None));
    }
    let test = "a_process_of_another_user_is_refused_with_whom_to_be";
    // Past the test runner, which keeps what passing tests print to itself.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: there is no process of another user");
    None
}

#[test]
fn a_process_of_another_user_is_refused_with_whom_to_be() {
    let Some((mut client, pid, _sleeper)) = client_of_another_user() else { return };
    let (code, said) = refused(&mut client, "attach", json!({ "pid": pid, "language": "dotnet" }));
    assert_eq!(code, -32003, "{said}");
    let sentence = format!("process {pid} belongs to another user (uid 0): ");
    assert!(said.starts_with(&sentence) && said.ends_with(" · run hindcast as that user"), "{said}");
}

#[test]
fn a_source_that_was_changed_since_the_build_is_shown_with_that_warning() {
    on_both(|runtime| {
        let text_of = std::fs::read_to_string(dotnet::program("Statics").source).unwrap();
        // No other test takes the source of this one away.
        let program = DotnetFixture::new("Statics").losing_source().build();
        let mut client = client(runtime);
        let mut stop_with = |source: &str| {
            std::fs::write(&program.source, source).unwrap();
            let stopped = text(&mut client, "launch", json!({ "program": program.dll }));
            text(&mut client, "disconnect", json!({}));
            stopped
        };
        let note = format!(
            "note: `{}` was changed since the program was built: its lines may not fit",
            program.source_text()
        );
        let (as_built, changed) = (stop_with(&text_of), stop_with(&format!("// Changed.\n{text_of}")));
        std::fs::remove_file(&program.source).unwrap();
        assert!(!as_built.contains("was changed"), "{as_built}");
        assert!(changed.contains(&note), "{changed}");
    });
}
