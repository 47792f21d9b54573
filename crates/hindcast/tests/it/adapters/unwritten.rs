//! Programs that nobody wrote for these tests: tools that come with the languages.

use serde_json::json;

use super::{client, data, refused, text};

#[test]
fn a_tool_of_pythons_library_stops_at_its_first_statement_and_where_it_fails() {
    let Some(mut client) = client() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("broken.json");
    std::fs::write(&file, "{\"a\": [1, 2], }").unwrap();
    let arguments = json!({ "program": "python3", "args": ["-m", "json.tool", file], "timeout_ms": 60_000 });
    let launched = data(&mut client, "launch", arguments);
    assert_eq!(launched["reason"], "entry", "{launched}");
    assert!(launched["location"]["file"].as_str().unwrap().ends_with("json/tool.py"), "{launched}");
    assert!(launched["detail"].as_str().unwrap().contains("belongs to a library"), "{launched}");
    text(&mut client, "set_exception_breakpoint", json!({ "exception_type": "JSONDecodeError" }));
    let stop = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!(stop["exception"]["exception_type"], "JSONDecodeError", "{stop}");
    assert_eq!(stop["location"]["function"], "raw_decode", "{stop}");
    // Not again in the four functions that it comes through.
    let ended = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!((&ended["state"], &ended["exit_code"]), (&json!("exited"), &json!(1)), "{ended}");
}

#[test]
fn erb_of_ruby_tells_the_error_of_a_template_when_it_is_raised_and_when_it_ends_it() {
    let Some(mut client) = client() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.erb");
    std::fs::write(&file, "<% [1, 2].each do |x| %>row <%= x * y %>\n<% end %>").unwrap();
    let arguments = json!({ "program": "ruby", "args": ["-S", "erb", file], "timeout_ms": 60_000 });
    data(&mut client, "launch", arguments);
    text(&mut client, "set_exception_breakpoint", json!({ "exception_type": "NameError" }));
    for unhandled in [false, true] {
        let stop = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
        let raised = &stop["exception"];
        assert_eq!(
            (&raised["exception_type"], &raised["unhandled"]),
            (&json!("NameError"), &json!(unhandled))
        );
        assert!(stop["location"]["file"].as_str().unwrap().ends_with("page.erb"), "{stop}");
        assert_eq!(super::local(&stop, "x"), "1", "{stop}");
    }
    let ended = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!((&ended["state"], &ended["exit_code"]), (&json!("exited"), &json!(1)), "{ended}");
}

#[test]
fn the_compiler_of_java_stops_at_its_beginning_as_a_module() {
    let Some(mut client) = client() else { return };
    let args = ["-m", "jdk.compiler/com.sun.tools.javac.Main", "-version"];
    let launched =
        data(&mut client, "launch", json!({ "program": "java", "args": args, "timeout_ms": 60_000 }));
    assert_eq!(launched["reason"], "entry", "{launched}");
    assert_eq!(launched["location"]["function"], "com.sun.tools.javac.Main.main", "{launched}");
    let ended = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!(ended["exit_code"], 0, "{ended}");
}

#[test]
fn a_folder_of_go_is_refused_with_how_to_launch_it() {
    let Some(mut client) = client() else { return };
    let package = hindcast_fixtures::adapters::Script::new("go/shop/main.go");
    let folder = package.path.parent().unwrap();
    let (_, why) = refused(&mut client, "launch", json!({ "program": folder }));
    assert!(why.contains("`program: go` with `args: [run, .]` and the folder as `cwd`"), "{why}");
    let arguments = json!({ "program": "go", "args": ["run", "."], "cwd": folder, "timeout_ms": 60_000 });
    let launched = data(&mut client, "launch", arguments);
    assert_eq!(launched["location"]["function"], "main.main", "{launched}");
}

#[test]
fn a_package_of_node_that_is_launched_itself_is_no_library() {
    let Some(mut client) = client() else { return };
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("node_modules/tool");
    std::fs::create_dir_all(&package).unwrap();
    let program = package.join("cli.js");
    std::fs::write(&program, "try {\n  null.x;\n} catch {\n  console.log('caught');\n}\n").unwrap();
    let launched = data(&mut client, "launch", json!({ "program": program, "timeout_ms": 60_000 }));
    assert_eq!(launched["reason"], "entry", "{launched}");
    text(&mut client, "set_exception_breakpoint", json!({ "exception_type": "TypeError" }));
    let stop = data(&mut client, "continue", json!({ "timeout_ms": 60_000 }));
    assert_eq!((&stop["reason"], &stop["location"]["line"]), (&json!("exception"), &json!(2)), "{stop}");
}
