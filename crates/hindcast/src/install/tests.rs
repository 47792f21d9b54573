use std::fs;

use clap::Parser;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{document::Format, *};

/// A home folder and a project of their own.
struct Place {
    folder: TempDir,
    surroundings: Surroundings,
}

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    install: InstallArgs,
}

#[derive(Parser)]
struct UninstallLine {
    #[command(flatten)]
    uninstall: UninstallArgs,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let surroundings = Surroundings {
            home: Some(folder.path().join("home")),
            current_dir: folder.path().join("project"),
            executable: PathBuf::from("/opt/bin/hindcast"),
            system: "linux",
        };
        for name in ["home", "project"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        Self { folder, surroundings }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("a file")
    }

    fn install(&self, arguments: &[&str]) -> Result<Outcome, InstallError> {
        let line = ["install"].iter().chain(arguments);
        let parsed = CommandLine::try_parse_from(line).expect("valid arguments");
        install(&parsed.install, &self.surroundings)
    }

    fn uninstall(&self, arguments: &[&str]) -> Result<Outcome, InstallError> {
        let line = ["uninstall"].iter().chain(arguments);
        let parsed = UninstallLine::try_parse_from(line).expect("valid arguments");
        uninstall(&parsed.uninstall, &self.surroundings)
    }

    /// What went wrong, with the changing name of the folder written as `HERE`.
    fn error(&self, arguments: &[&str]) -> String {
        let error = self.install(arguments).expect_err("an error").to_string();
        error.replace(self.folder.path().to_str().expect("a Unicode path"), "HERE")
    }
}

const CLIENTS: [(&str, &str); 10] = [
    ("claude-code", "project/.mcp.json"),
    ("claude-desktop", "home/.config/Claude/claude_desktop_config.json"),
    ("vscode", "project/.vscode/mcp.json"),
    ("cursor", "home/.cursor/mcp.json"),
    ("windsurf", "home/.codeium/windsurf/mcp_config.json"),
    ("zed", "home/.config/zed/settings.json"),
    ("jetbrains", "home/.junie/mcp/mcp.json"),
    ("gemini-cli", "home/.gemini/settings.json"),
    ("codex", "home/.codex/config.toml"),
    ("opencode", "home/.config/opencode/opencode.json"),
];

#[test]
fn each_client_gets_its_file_in_its_own_shape() {
    let place = Place::new();
    let arguments = json!(["mcp", "--tool-names", "underscore"]);
    let command = "/opt/bin/hindcast";
    let entries = [
        json!({"mcpServers": {"hindcast": {"type": "stdio", "command": command, "args": arguments, "env": {}}}}),
        json!({"mcpServers": {"hindcast": {"command": command, "args": arguments}}}),
        json!({"servers": {"hindcast": {"type": "stdio", "command": command, "args": arguments}}}),
        json!({"mcpServers": {"hindcast": {"type": "stdio", "command": command, "args": arguments}}}),
        json!({"mcpServers": {"hindcast": {"command": command, "args": arguments}}}),
        json!({"context_servers": {"hindcast": {"source": "custom", "command": command, "args": arguments, "env": {}}}}),
        json!({"mcpServers": {"hindcast": {"command": command, "args": arguments}}}),
        json!({"mcpServers": {"hindcast": {"command": command, "args": arguments}}}),
        json!({"mcp_servers": {"hindcast": {"command": command, "args": arguments}}}),
        json!({"mcp": {"hindcast": {
            "type": "local", "command": [command, "mcp", "--tool-names", "underscore"], "enabled": true,
        }}}),
    ];
    for ((client, file), expected) in CLIENTS.iter().zip(entries) {
        let outcome = place.install(&["--client", client]).expect("an outcome");
        assert!(matches!(outcome, Outcome::Written(_)), "{outcome:?}");
        assert!(outcome.text().contains(file), "{outcome:?}");
        let format = if file.ends_with(".toml") { Format::Toml } else { Format::Json };
        assert_eq!(format.parse(&place.read(file)).expect("a document"), expected, "{client}");
    }
}

#[test]
fn a_second_time_nothing_is_written() {
    let place = Place::new();
    for (client, file) in CLIENTS {
        place.install(&["--client", client]).expect("an outcome");
        let before = place.read(file);
        let outcome = place.install(&["--client", client]).expect("an outcome");
        assert!(matches!(&outcome, Outcome::UpToDate(text) if text.contains("already up to date")));
        assert_eq!(place.read(file), before);
    }
}

#[test]
fn what_was_installed_is_taken_out_again_and_nothing_else() {
    let place = Place::new();
    for (client, file) in CLIENTS {
        let (before, rest) = if file.ends_with(".toml") {
            ("model = 'x' # mine\n", "model = 'x' # mine\n".to_owned())
        } else {
            let section = Client::from_str(client, false).expect("a client").section();
            ("{\n  \"theme\": 1\n}\n", format!("{{\n  \"theme\": 1,\n  \"{section}\": {{}}\n}}\n"))
        };
        place.put(file, before);
        place.install(&["--client", client]).expect("an outcome");
        assert_ne!(place.read(file), before, "{client}");
        let removed = place.uninstall(&["--client", client]).expect("an outcome");
        assert!(matches!(&removed, Outcome::Written(text) if text.contains(file)), "{removed:?}");
        assert_eq!(place.read(file), rest, "{client}");
        let again = place.uninstall(&["--client", client]).expect("an outcome");
        assert!(matches!(again, Outcome::UpToDate(_)), "{again:?}");
        assert_eq!(place.read(file), rest, "{client}");
    }
    place.put("home/.cursor/mcp.json", "{\"mcpServers\": {\"hindcast\": {\"command\": \"npx\"}}}");
    let other = place.uninstall(&["--client", "cursor"]).expect_err("another program").to_string();
    assert!(other.contains("starts `npx`, nothing was written"), "{other}");
}

#[test]
fn comments_of_the_user_stay() {
    let place = Place::new();
    let users = "// Zed settings\n{\n  \"theme\": \"One\", // dark\n}\n";
    place.put("home/.config/zed/settings.json", users);
    place.install(&["--client", "zed"]).expect("an outcome");
    let written = place.read("home/.config/zed/settings.json");
    assert!(
        written.starts_with("// Zed settings\n{\n  \"theme\": \"One\", // dark\n  \"context_servers\""),
        "{written}"
    );
    place.put("home/.config/opencode/opencode.jsonc", "{}");
    place.install(&["--client", "opencode"]).expect("an outcome");
    assert!(place.read("home/.config/opencode/opencode.jsonc").contains("\"hindcast\""));
}

#[test]
fn everything_else_in_the_file_is_kept_as_it_is_written() {
    let place = Place::new();
    let before = r#"{
    "zoom": 1.10,
    "mcpServers": {
        "other": {"command": "npx", "args": ["-y", "x"]}
    },
    "also": [ 1,2 ]
}
"#;
    place.put("home/.cursor/mcp.json", before);
    place.install(&["--client", "cursor", "--tool-names", "slash"]).expect("an outcome");
    let expected = r#"{
    "zoom": 1.10,
    "mcpServers": {
        "other": {"command": "npx", "args": ["-y", "x"]},
        "hindcast": {
            "type": "stdio",
            "command": "/opt/bin/hindcast",
            "args": [
                "mcp",
                "--tool-names",
                "slash"
            ]
        }
    },
    "also": [ 1,2 ]
}
"#;
    assert_eq!(place.read("home/.cursor/mcp.json"), expected);
}

#[test]
fn an_older_entry_is_updated_and_keeps_what_the_user_added() {
    let place = Place::new();
    place.put(
        "project/.mcp.json",
        r#"{"mcpServers": {"hindcast": {"command": "/old/hindcast", "args": [], "env": {"A": "1"}, "x": 2}}}"#,
    );
    let outcome = place.install(&["--client", "claude-code"]).expect("an outcome");
    assert!(matches!(outcome, Outcome::Written(_)));
    let written: Value = serde_json::from_str(&place.read("project/.mcp.json")).expect("JSON");
    assert_eq!(
        written["mcpServers"]["hindcast"],
        json!({
            "type": "stdio",
            "command": "/opt/bin/hindcast",
            "args": ["mcp", "--tool-names", "underscore"],
            "env": {"A": "1"},
            "x": 2,
        })
    );
}

#[test]
fn an_empty_file_is_as_good_as_none() {
    let place = Place::new();
    place.put("project/.mcp.json", "\n");
    place.install(&["--client", "claude-code"]).expect("an outcome");
    assert!(place.read("project/.mcp.json").contains("\"hindcast\""));
}

#[test]
fn a_file_that_cannot_be_understood_is_left_alone() {
    for (text, expected) in [
        (
            "{\n  mine\n  \"servers\": {}\n}",
            "HERE/project/.vscode/mcp.json is not valid JSON (key must be a string at line 2 column 3), nothing was \
             written · hint: mend the file; this is the entry:\n{\n  \"servers\": {",
        ),
        ("[]", "the outermost value in HERE/project/.vscode/mcp.json is not an object, nothing was written"),
        ("{\"servers\": 1}", "`servers` in HERE/project/.vscode/mcp.json is not an object"),
        (
            "{\"servers\": {\"hindcast\": 1}}",
            "`servers.hindcast` in HERE/project/.vscode/mcp.json is not an object",
        ),
        (
            "{\"servers\": {\"hindcast\": {\"command\": \"npx\"}}}",
            "`hindcast` in HERE/project/.vscode/mcp.json starts `npx`, nothing was written · hint: choose another \
             name with `--name`",
        ),
    ] {
        let place = Place::new();
        place.put("project/.vscode/mcp.json", text);
        let error = place.error(&["--client", "vscode"]);
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(place.read("project/.vscode/mcp.json"), text);
    }
}

#[test]
fn printing_shows_path_and_snippet_and_writes_nothing() {
    let place = Place::new();
    let outcome = place.install(&["--client", "vscode", "--print"]).expect("an outcome");
    let Outcome::Printed(text) = outcome else { panic!("{outcome:?}") };
    let (path, snippet) = text.split_once('\n').expect("two parts");
    assert_eq!(path, format!("# {}", place.path("project/.vscode/mcp.json").display()));
    let snippet: Value = serde_json::from_str(snippet).expect("JSON");
    assert_eq!(snippet["servers"]["hindcast"]["command"], "/opt/bin/hindcast");
    assert!(!place.path("project/.vscode").exists());
    let all = place.install(&["--print"]).expect("an outcome");
    assert_eq!(all.text().matches("/opt/bin/hindcast").count(), 10);
}

#[test]
fn a_project_can_be_named_where_the_client_has_projects() {
    let place = Place::new();
    fs::create_dir(place.path("project/inner")).expect("a folder");
    for (client, file) in [
        ("claude-code", "project/inner/.mcp.json"),
        ("vscode", "project/inner/.vscode/mcp.json"),
        ("cursor", "project/inner/.cursor/mcp.json"),
    ] {
        place.install(&["--client", client, "--project", "inner"]).expect("an outcome");
        assert!(place.path(file).is_file(), "{client}");
    }
    assert_eq!(
        place.error(&["--client", "claude-desktop", "--project", "inner"]),
        "claude-desktop has no configuration for a project · hint: leave out `--project`"
    );
    assert_eq!(
        place.error(&["--client", "vscode", "--project", "none"]),
        "HERE/project/none is not a folder · hint: give an existing one with `--project`"
    );
}

#[test]
fn without_a_client_the_ones_found_are_listed_and_nothing_is_written() {
    let place = Place::new();
    let none = place.install(&[]).expect("an outcome");
    assert!(none.text().starts_with("found none of claude-code, claude-desktop, vscode, cursor, windsurf,"));
    place.put("home/.cursor/mcp.json", "{ broken\n}");
    place.install(&["--client", "claude-code"]).expect("an outcome");
    fs::create_dir_all(place.path("home/.config/Claude")).expect("a folder");
    let outcome = place.install(&[]).expect("an outcome");
    let Outcome::ClientNeeded(text) = &outcome else { panic!("{outcome:?}") };
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(
        lines[0].starts_with("claude-code     `hindcast` in ") && lines[0].ends_with("is already up to date"),
        "{text}"
    );
    assert!(lines[1].starts_with("claude-desktop  would write `hindcast` in "), "{text}");
    assert!(lines[2].starts_with("cursor          ") && lines[2].contains("is not valid JSON"), "{text}");
    assert!(lines[3].starts_with("nothing was written · hint: name one with `--client`"), "{text}");
    assert!(!place.path("home/.config/Claude/claude_desktop_config.json").exists());
}

#[test]
fn the_folder_of_claude_desktop_depends_on_the_system() {
    for (system, file) in [
        ("linux", "home/.config/Claude/claude_desktop_config.json"),
        ("macos", "home/Library/Application Support/Claude/claude_desktop_config.json"),
    ] {
        let mut place = Place::new();
        place.surroundings.system = system;
        place.install(&["--client", "claude-desktop"]).expect("an outcome");
        assert!(place.path(file).is_file(), "{system}");
    }
}

#[test]
fn without_a_home_folder_only_project_clients_can_be_configured() {
    let mut place = Place::new();
    place.surroundings.home = None;
    place.install(&["--client", "claude-code"]).expect("an outcome");
    assert_eq!(
        place.error(&["--client", "cursor"]),
        "cannot tell where the configuration of cursor is · hint: set `HOME`"
    );
}

#[test]
fn a_name_that_clients_refuse_is_refused_at_once() {
    for name in ["", "has space", "slash/ed", &"x".repeat(65)] {
        assert!(CommandLine::try_parse_from(["install", "--name", name]).is_err(), "{name}");
    }
    let place = Place::new();
    place.install(&["--client", "claude-code", "--name", "my-debugger"]).expect("an outcome");
    assert!(place.read("project/.mcp.json").contains("\"my-debugger\": {"));
}

#[test]
fn a_client_can_be_told_to_offer_only_some_tools() {
    let place = Place::new();
    place.install(&["--client", "cursor", "--toolsets", "debugger,xml"]).expect("installed");
    let kept = place.read("home/.cursor/mcp.json");
    let kept: Value = serde_json::from_str(&kept).expect("JSON");
    let arguments = &kept["mcpServers"]["hindcast"]["args"];
    assert_eq!(*arguments, json!(["mcp", "--tool-names", "underscore", "--toolsets", "debugger,xml"]));
}
