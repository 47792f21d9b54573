//! The clients: where each keeps its configuration and what an entry looks like there.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{InstallError, Surroundings, document::Format};

/// An MCP client that can be configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Client {
    /// Claude Code: `.mcp.json` in the project
    ClaudeCode,
    /// Claude Desktop
    ClaudeDesktop,
    /// VS Code: `.vscode/mcp.json` in the project
    #[value(name = "vscode")]
    VsCode,
    /// Cursor: `.cursor/mcp.json` in the home folder or the project
    Cursor,
    /// Windsurf: `.codeium/windsurf/mcp_config.json` in the home folder
    Windsurf,
    /// Zed: `settings.json` of the user, or `.zed/settings.json` in the project
    Zed,
    /// JetBrains' agent Junie: `.junie/mcp/mcp.json` in the home folder or the project
    #[value(name = "jetbrains")]
    JetBrains,
    /// Gemini CLI: `.gemini/settings.json` in the home folder or the project
    GeminiCli,
    /// Codex CLI: `.codex/config.toml` in the home folder or the project
    Codex,
    /// OpenCode: `opencode.json` of the user or in the project
    #[value(name = "opencode")]
    OpenCode,
}

impl Client {
    /// The name as typed after `--client`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::VsCode => "vscode",
            Self::Cursor => "cursor",
            Self::Windsurf => "windsurf",
            Self::Zed => "zed",
            Self::JetBrains => "jetbrains",
            Self::GeminiCli => "gemini-cli",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
        }
    }

    /// How its file is written.
    pub(super) fn format(self) -> Format {
        if self == Self::Codex { Format::Toml } else { Format::Json }
    }

    /// The object in the file that holds the servers.
    pub(super) fn section(self) -> &'static str {
        match self {
            Self::VsCode => "servers",
            Self::Zed => "context_servers",
            Self::Codex => "mcp_servers",
            Self::OpenCode => "mcp",
            Self::ClaudeCode
            | Self::ClaudeDesktop
            | Self::Cursor
            | Self::Windsurf
            | Self::JetBrains
            | Self::GeminiCli => "mcpServers",
        }
    }

    /// The fields of an entry, in the order in which a person would write them.
    pub(super) fn entry(self, command: &str, arguments: &[String]) -> Vec<(&'static str, Value)> {
        let program = [("command", json!(command)), ("args", json!(arguments))];
        let with = |first: Option<(&'static str, Value)>, last: Option<(&'static str, Value)>| {
            first.into_iter().chain(program.clone()).chain(last).collect()
        };
        match self {
            Self::ClaudeCode => with(Some(("type", json!("stdio"))), Some(("env", json!({})))),
            Self::VsCode | Self::Cursor => with(Some(("type", json!("stdio"))), None),
            Self::Zed => with(Some(("source", json!("custom"))), Some(("env", json!({})))),
            Self::OpenCode => {
                let command: Vec<&str> =
                    std::iter::once(command).chain(arguments.iter().map(String::as_str)).collect();
                vec![("type", json!("local")), ("command", json!(command)), ("enabled", json!(true))]
            }
            Self::ClaudeDesktop | Self::Windsurf | Self::JetBrains | Self::GeminiCli | Self::Codex => {
                with(None, None)
            }
        }
    }

    /// What the user has to do before the client sees the change.
    pub(super) fn next_step(self) -> &'static str {
        match self {
            Self::ClaudeCode => "start `claude` in that folder and allow the server when asked",
            Self::ClaudeDesktop => "quit and start Claude Desktop",
            Self::VsCode => "open the folder in VS Code and start the server from that file",
            Self::Cursor => "enable the server in Cursor's settings under MCP",
            Self::Windsurf => "refresh the servers in Windsurf's settings under Cascade",
            Self::Zed => "Zed starts the server by itself; its agent panel's settings show it",
            Self::JetBrains => "the server stands in the IDE's settings under Tools, Junie, MCP Settings",
            Self::GeminiCli => "start `gemini` anew; `/mcp` shows the server",
            Self::Codex => "start `codex` anew; `/mcp` shows the server",
            Self::OpenCode => "start `opencode` anew",
        }
    }

    /// Whether it is configured for a project unless told otherwise.
    fn is_of_projects(self) -> bool {
        matches!(self, Self::ClaudeCode | Self::VsCode)
    }

    /// The file to write. `for_project`: asked for a project, not for the user.
    pub(super) fn path(
        self,
        surroundings: &Surroundings,
        project: &Path,
        for_project: bool,
    ) -> Result<PathBuf, InstallError> {
        if for_project || self.is_of_projects() {
            return self.path_in_project(project).ok_or(InstallError::NoProjects { client: self.name() });
        }
        let home = surroundings.home.as_deref().ok_or(InstallError::NoHome { client: self.name() })?;
        Ok(self.path_of_user(home, surroundings.system, project))
    }

    fn path_in_project(self, project: &Path) -> Option<PathBuf> {
        Some(match self {
            Self::ClaudeCode => project.join(".mcp.json"),
            Self::VsCode => project.join(".vscode/mcp.json"),
            Self::Cursor => project.join(".cursor/mcp.json"),
            Self::Zed => project.join(".zed/settings.json"),
            Self::JetBrains => project.join(".junie/mcp/mcp.json"),
            Self::GeminiCli => project.join(".gemini/settings.json"),
            Self::Codex => project.join(".codex/config.toml"),
            Self::OpenCode => with_or_without_comments(project, "opencode"),
            Self::ClaudeDesktop | Self::Windsurf => return None,
        })
    }

    fn path_of_user(self, home: &Path, system: &str, project: &Path) -> PathBuf {
        match self {
            Self::ClaudeDesktop => {
                application_folder(home, system).join("Claude").join("claude_desktop_config.json")
            }
            Self::Windsurf => home.join(".codeium/windsurf/mcp_config.json"),
            Self::Zed if system == "windows" => application_folder(home, system).join("Zed/settings.json"),
            Self::Zed => home.join(".config/zed/settings.json"),
            Self::OpenCode => with_or_without_comments(&home.join(".config/opencode"), "opencode"),
            // The rest keep the same file in the home folder as in a project.
            Self::ClaudeCode
            | Self::VsCode
            | Self::Cursor
            | Self::JetBrains
            | Self::GeminiCli
            | Self::Codex => self.path_in_project(home).unwrap_or_else(|| project.to_owned()),
        }
    }

    /// Whether the client has left traces in the home folder or the project.
    pub(super) fn is_present(self, surroundings: &Surroundings, project: &Path) -> bool {
        let home = surroundings.home.as_deref();
        let at_home = |name: &str| home.is_some_and(|home| home.join(name).exists());
        let in_project = |name: &str| project.join(name).exists();
        let application = |name: &str| {
            home.is_some_and(|home| application_folder(home, surroundings.system).join(name).is_dir())
        };
        match self {
            Self::ClaudeCode => at_home(".claude") || at_home(".claude.json") || in_project(".mcp.json"),
            Self::ClaudeDesktop => application("Claude"),
            Self::VsCode => application("Code") || at_home(".vscode") || in_project(".vscode"),
            Self::Cursor => at_home(".cursor") || application("Cursor") || in_project(".cursor"),
            Self::Windsurf => at_home(".codeium/windsurf"),
            Self::Zed => at_home(".config/zed") || application("Zed") || in_project(".zed"),
            Self::JetBrains => at_home(".junie") || application("JetBrains") || in_project(".junie"),
            Self::GeminiCli => at_home(".gemini") || in_project(".gemini"),
            Self::Codex => at_home(".codex") || in_project(".codex"),
            Self::OpenCode => {
                at_home(".config/opencode") || in_project("opencode.json") || in_project("opencode.jsonc")
            }
        }
    }
}

/// `NAME.jsonc` where the user has that one, else `NAME.json`.
fn with_or_without_comments(folder: &Path, name: &str) -> PathBuf {
    let with = folder.join(format!("{name}.jsonc"));
    if with.exists() { with } else { folder.join(format!("{name}.json")) }
}

/// Where applications keep their settings.
fn application_folder(home: &Path, system: &str) -> PathBuf {
    match system {
        "macos" => home.join("Library").join("Application Support"),
        "windows" => home.join("AppData").join("Roaming"),
        _ => home.join(".config"),
    }
}
