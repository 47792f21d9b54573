//! .NET programs in `hindcast serve`: who may do what to which.

use hindcast_fixtures::dotnet::{self, Runtime};
use serde_json::{Value, json};

use super::{Running, on_both, refusal};
use crate::server::Server;

fn server(runtime: &Runtime, allowed: Option<&str>) -> Server {
    let root = ("DOTNET_ROOT", runtime.root.to_str().unwrap());
    let folders = allowed.map(|folder| ("HINDCAST_DEBUG_ALLOWED_FOLDERS", folder));
    Server::start_with(&[root].into_iter().chain(folders).collect::<Vec<_>>())
}

#[track_caller]
fn done(answer: Value) -> Value {
    assert!(answer["result"].is_object(), "{answer}");
    answer["result"]["structuredContent"].clone()
}

#[test]
fn a_key_that_may_only_read_cannot_run_code_of_the_program() {
    on_both(|runtime| {
        let server = server(runtime, None);
        let key = |scopes: &[&str]| {
            let mut arguments = vec!["--tier", "enterprise", "--owner", "ann"];
            arguments.extend(scopes.iter().flat_map(|scope| ["--scope", scope]));
            server.key(&arguments)
        };
        let (writer, reader) = (
            key(&["debug:read", "debug:write", "debug:unconfined"]),
            key(&["debug:read", "debug:unconfined"]),
        );
        let program = dotnet::program("Exceptions");
        let arguments = json!({ "program": program.dll, "args": ["nullref"] });
        done(server.call(&writer, "debugger/launch", arguments));
        let line = program.line("nullref");
        done(server.call(&writer, "debugger/run_to", json!({ "file": "Exceptions.cs", "line": line })));
        let call = json!({ "expression": "other.Name.ToUpper()", "allow_calls": true });
        for (tool, arguments) in [
            ("debugger/evaluate", call.clone()),
            ("debugger/evaluate", json!({ "expression": "other.Name = null" })),
            ("debugger/get_variables", json!({ "allow_calls": true })),
            ("debugger/continue", json!({})),
        ] {
            let answer = server.call(&reader, tool, arguments);
            let (code, said) = refusal(&answer);
            assert_eq!(code, -32003, "{tool}: {answer}");
            assert!(said.contains("debug:write"), "{tool}: {said}");
        }
        let looked = done(server.call(&reader, "debugger/evaluate", json!({ "expression": "other.Name" })));
        assert_eq!(looked["value"], "\"Bob\"", "{looked}");
        let called = done(server.call(&writer, "debugger/evaluate", call));
        assert_eq!(called["value"], "\"BOB\"", "{called}");
    });
}

#[test]
fn only_assemblies_in_allowed_folders_are_launched_and_attached_to() {
    on_both(|runtime| {
        let allowed = dotnet::program("Server");
        let folder = allowed.dll.parent().unwrap().canonicalize().unwrap();
        let server = server(runtime, Some(folder.to_str().unwrap()));
        let key = server.unlimited_key();
        let denied = |tool: &str, arguments: Value| {
            let answer = server.call(&key, tool, arguments);
            let (code, said) = refusal(&answer);
            assert_eq!(code, -32003, "{answer}");
            said
        };
        let other = dotnet::program("Hello");
        for program in [&other.dll, &other.executable, &runtime.dotnet] {
            let said = denied("debugger/launch", json!({ "program": program, "args": [allowed.dll] }));
            assert!(said.contains("is not among the programs that may be debugged"), "{said}");
        }
        for variable in [
            "DOTNET_ROOT",
            "DOTNET_STARTUP_HOOKS",
            "CORECLR_PROFILER",
            "CLR_OPENSSL_VERSION_OVERRIDE",
            "PATH",
            "HOME",
        ] {
            for program in [&allowed.dll, &allowed.executable] {
                let said =
                    denied("debugger/launch", json!({ "program": program, "env": { variable: "/tmp" } }));
                assert!(said.starts_with(&format!("`{variable}` may not be set")), "{said}");
            }
        }
        // The runtime of 3.1 loads a library from where the program runs.
        let said = denied("debugger/launch", json!({ "program": allowed.dll, "cwd": "/tmp" }));
        assert!(said.contains("is outside the folders"), "{said}");
        for program in [&allowed.dll, &allowed.executable] {
            done(server.call(&key, "debugger/launch", json!({ "program": program, "cwd": folder })));
            done(server.call(&key, "debugger/disconnect", json!({})));
        }

        let running = Running::start(runtime, &allowed, &[]);
        let attached = done(server.call(&key, "debugger/attach", json!({ "pid": running.pid() })));
        assert_eq!(attached["engine"], "dotnet", "{attached}");
        done(server.call(&key, "debugger/disconnect", json!({})));
        let away = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(&folder).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), away.path().join(file.file_name())).unwrap();
        }
        let copy = dotnet::DotnetProgram { dll: away.path().join("Server.dll"), ..allowed.clone() };
        // Its argument is an assembly that is allowed, which does not make it one.
        let stranger = Running::start(runtime, &copy, &[allowed.dll.to_str().unwrap()]);
        let said = denied("debugger/attach", json!({ "pid": stranger.pid() }));
        assert!(said.contains("is not among those that may be debugged"), "{said}");
    });
}

#[test]
fn nobody_else_attaches_to_a_process_that_a_session_has_without_tracing_it() {
    on_both(|runtime| {
        let server = server(runtime, None);
        let (owner, stranger) =
            (server.unlimited_key(), server.unconfined_key(&["--owner", "somebody else"]));
        let mut running = Running::start(runtime, &dotnet::program("Server"), &[]);
        done(server.call(&owner, "debugger/attach", json!({ "pid": running.pid() })));
        for language in ["cpp", "dotnet"] {
            for key in [&stranger, &owner] {
                let arguments = json!({ "pid": running.pid(), "language": language });
                let answer = server.call(key, "debugger/attach", arguments);
                let (code, said) = refusal(&answer);
                assert_eq!(code, -32003, "{answer}");
                assert!(said.contains("belongs to hindcast itself or to a debug session"), "{said}");
            }
        }
        // Another server knows only the lock.
        let mut client = super::client(runtime);
        let arguments = json!({ "pid": running.pid(), "language": "cpp" });
        let answer =
            client.request("tools/call", json!({ "name": "debugger/attach", "arguments": arguments }));
        let (_, said) = refusal(&answer);
        assert!(said.contains("another debugger is attached to it"), "{said}");
        done(server.call(&owner, "debugger/disconnect", json!({})));
        running.ask("abc");
        assert_eq!(running.line(), "1: cba");
    });
}

#[test]
fn resources_and_events_reach_the_owner_over_http_only() {
    on_both(|runtime| {
        let server = server(runtime, None);
        let (owner, stranger) = (server.unlimited_key(), server.key(&["--owner", "somebody else"]));
        let program = dotnet::program("Hello");
        done(server.call(&owner, "debugger/launch", json!({ "program": program.dll })));
        let read =
            |key: &str| server.rpc(key, "resources/read", json!({ "uri": "debugger://session" })).json();
        let found = read(&owner);
        let session: Value =
            serde_json::from_str(found["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(session["runtimeVersion"], super::runtime_name(runtime));
        assert_eq!(session["currentLocation"]["functionName"], "Main");
        assert_eq!(read(&stranger)["error"]["code"], -32005);
        let listed = server.rpc(&stranger, "resources/list", json!({})).json();
        assert!(!listed.to_string().contains("debugger://"), "{listed}");
    });
}

#[test]
fn a_tenants_program_is_debugged_in_its_confinement() {
    on_both(|runtime| {
        let program = dotnet::program("Exceptions");
        let real = |path: &std::path::Path| path.canonicalize().unwrap().display().to_string();
        let readable =
            format!("{},{}", real(program.dll.parent().unwrap()), real(program.source.parent().unwrap()));
        let root = real(&runtime.root);
        let server =
            Server::start_with(&[("HINDCAST_DEBUG_DOTNET", &root), ("HINDCAST_DEBUG_READABLE", &readable)]);
        let key = server.tenant_key();
        let launched =
            server.call(&key, "debugger/launch", json!({ "program": program.dll, "args": ["nullref"] }));
        assert!(launched.to_string().contains("pid namespace"), "{launched}");
        let line = program.line("nullref");
        done(server.call(&key, "debugger/run_to", json!({ "file": "Exceptions.cs", "line": line })));
        let looked = done(server.call(&key, "debugger/evaluate", json!({ "expression": "other.Name" })));
        assert_eq!(looked["value"], "\"Bob\"", "{looked}");
        done(server.call(&key, "debugger/disconnect", json!({})));
    });
}

#[test]
fn a_tenant_whose_runtime_is_hidden_is_told_what_the_operator_can_do() {
    on_both(|runtime| {
        let program = dotnet::program("Exceptions");
        let folder = program.dll.parent().unwrap().canonicalize().unwrap();
        let root = runtime.root.to_str().unwrap();
        let server = Server::start_with(&[
            ("DOTNET_ROOT", root),
            ("HINDCAST_DEBUG_READABLE", folder.to_str().unwrap()),
        ]);
        let key = server.tenant_key();
        let refused = server.call(&key, "debugger/launch", json!({ "program": program.dll }));
        assert!(refused["error"]["data"]["hint"].as_str().unwrap().contains("debug.dotnet"), "{refused}");
    });
}
