//! The clients: where each keeps its configuration and what an entry looks like there.

use std::path::{Path, PathBuf};

use super::{InstallError, Surroundings};

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
}

impl Client {
    /// The name as typed after `--client`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::VsCode => "vscode",
            Self::Cursor => "cursor",
        }
    }

    /// The object in the file that holds the servers.
    pub(super) fn section(self) -> &'static str {
        match self {
            Self::VsCode => "servers",
            Self::ClaudeCode | Self::ClaudeDesktop | Self::Cursor => "mcpServers",
        }
    }

    /// Whether an entry has this field beyond what is needed to start a program.
    pub(super) fn knows_field(self, field: &str) -> bool {
        match field {
            "type" => self != Self::ClaudeDesktop,
            "env" => self == Self::ClaudeCode,
            _ => true,
        }
    }

    /// What the user has to do before the client sees the change.
    pub(super) fn next_step(self) -> &'static str {
        match self {
            Self::ClaudeCode => "start `claude` in that folder and allow the server when asked",
            Self::ClaudeDesktop => "quit and start Claude Desktop",
            Self::VsCode => "open the folder in VS Code and start the server from that file",
            Self::Cursor => "enable the server in Cursor's settings under MCP",
        }
    }

    /// The file to write. `for_project`: asked for a project, not for the user.
    pub(super) fn path(
        self,
        surroundings: &Surroundings,
        project: &Path,
        for_project: bool,
    ) -> Result<PathBuf, InstallError> {
        let home = surroundings.home.as_ref().ok_or(InstallError::NoHome { client: self.name() });
        match self {
            Self::ClaudeCode => Ok(project.join(".mcp.json")),
            Self::VsCode => Ok(project.join(".vscode").join("mcp.json")),
            Self::Cursor if for_project => Ok(project.join(".cursor").join("mcp.json")),
            Self::Cursor => Ok(home?.join(".cursor").join("mcp.json")),
            Self::ClaudeDesktop if for_project => Err(InstallError::NoProjects { client: self.name() }),
            Self::ClaudeDesktop => {
                let folder = application_folder(home?, surroundings.system).join("Claude");
                Ok(folder.join("claude_desktop_config.json"))
            }
        }
    }

    /// Whether the client has left traces in the home folder or the project.
    pub(super) fn is_present(self, surroundings: &Surroundings, project: &Path) -> bool {
        let home = surroundings.home.as_deref();
        let at_home = |name: &str| home.is_some_and(|home| home.join(name).exists());
        let application = |name: &str| {
            home.is_some_and(|home| application_folder(home, surroundings.system).join(name).is_dir())
        };
        match self {
            Self::ClaudeCode => {
                at_home(".claude") || at_home(".claude.json") || project.join(".mcp.json").exists()
            }
            Self::ClaudeDesktop => application("Claude"),
            Self::VsCode => application("Code") || at_home(".vscode") || project.join(".vscode").is_dir(),
            Self::Cursor => at_home(".cursor") || application("Cursor") || project.join(".cursor").is_dir(),
        }
    }
}

/// Where applications keep their settings.
fn application_folder(home: &Path, system: &str) -> PathBuf {
    match system {
        "macos" => home.join("Library").join("Application Support"),
        "windows" => home.join("AppData").join("Roaming"),
        _ => home.join(".config"),
    }
}
