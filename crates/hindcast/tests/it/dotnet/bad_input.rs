//! Files and processes that are no .NET programs, or not here.

use std::{path::Path, process::Command};

use hindcast_fixtures::dotnet;
use serde_json::json;

use super::{client, data, on_both, refused, text};
use crate::knowledge::Client;

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
    on_both(|runtime| {
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

#[test]
fn without_a_runtime_the_error_says_where_it_was_looked_for() {
    let usual = ["/usr/share/dotnet", "/usr/lib/dotnet", "/usr/local/share/dotnet", "/opt/dotnet"];
    if usual.iter().any(|folder| Path::new(folder).join("dotnet").exists()) {
        // It would be found there, which no variable prevents.
        return;
    }
    on_both(|_| {
        let empty = tempfile::tempdir().unwrap();
        let folder = empty.path().to_str().unwrap();
        let environment = [("DOTNET_ROOT", folder), ("PATH", folder), ("HOME", folder)];
        let mut client = Client::over(tempfile::tempdir().unwrap(), &environment);
        let program = dotnet::program("Hello").dll;
        let (code, said) = refused(&mut client, "launch", json!({ "program": program }));
        assert_eq!(code, -32602);
        let sentence =
            "no .NET runtime was found: there is no `dotnet` in DOTNET_ROOT, PATH or the usual folders";
        assert!(said.starts_with(sentence) && said.contains("`hindcast doctor`"), "{said}");
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

#[test]
fn processes_without_a_runtime_are_refused() {
    on_both(|runtime| {
        let mut client = client(runtime);
        let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = sleeper.id();
        let (code, said) = refused(&mut client, "attach", json!({ "pid": pid, "language": "dotnet" }));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
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
