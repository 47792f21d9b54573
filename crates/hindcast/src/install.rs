//! `hindcast mcp install` and `uninstall`: tell an MCP client to start hindcast, or no longer to.
//!
//! Only our entry in the client's file is touched; every other byte stays as it is, and a file
//! that cannot be understood is not written at all.

mod atomic_write;
mod client;
mod document;
mod json_edit;
mod plan;
mod toml_document;

pub(crate) use client::Client;

use std::{io, path::PathBuf};

use clap::ValueEnum;
use thiserror::Error;

use crate::{config::ToolNames, options::Offered};
use plan::Plan;

/// Tell an MCP client to start hindcast
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct InstallArgs {
    /// Client to configure; without it, the ones found here are listed and nothing is written
    #[arg(long, value_enum)]
    pub(crate) client: Option<Client>,
    /// Only print what would be written, and where
    #[arg(long)]
    pub(crate) print: bool,
    #[command(flatten)]
    pub(crate) entry: EntryArgs,
    /// How tools are listed; these clients refuse a slash
    #[arg(long, value_enum, default_value_t = ToolNames::Underscore)]
    pub(crate) tool_names: ToolNames,
    #[command(flatten)]
    pub(crate) offered: Offered,
}

/// Tell an MCP client to start hindcast no longer
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct UninstallArgs {
    /// Client to configure
    #[arg(long, value_enum)]
    pub(crate) client: Client,
    #[command(flatten)]
    pub(crate) entry: EntryArgs,
}

/// Which entry of which file.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct EntryArgs {
    /// Project to configure; without it, the current folder for claude-code and vscode, the whole user for the others
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// Name of the server in the client's configuration
    #[arg(long, value_name = "NAME", default_value = "hindcast", value_parser = parse_name)]
    pub(crate) name: String,
}

/// What the client starts this program with.
fn start_arguments(install: &InstallArgs) -> Vec<String> {
    let toolsets: Vec<_> = install.offered.toolsets.iter().map(|toolset| toolset.name()).collect();
    let mut arguments =
        vec!["mcp".to_owned(), "--tool-names".to_owned(), install.tool_names.as_str().to_owned()];
    if !toolsets.is_empty() {
        arguments.extend(["--toolsets".to_owned(), toolsets.join(",")]);
    }
    arguments
}

/// Where this program runs; tests make their own.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    /// The user's home folder.
    pub(crate) home: Option<PathBuf>,
    /// The current folder.
    pub(crate) current_dir: PathBuf,
    /// This program, which the client shall start.
    pub(crate) executable: PathBuf,
    /// The operating system, named as in `std::env::consts::OS`.
    pub(crate) system: &'static str,
}

/// What was done, as text for standard output.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The client's configuration was written.
    Written(String),
    /// It already said what it should, or had nothing to remove; nothing was written.
    UpToDate(String),
    /// Asked for with `--print`; nothing was written.
    Printed(String),
    /// No client was named: the text tells which there are. Nothing was written.
    ClientNeeded(String),
}

/// Why a client was not configured. Nothing was written.
#[derive(Debug, Error)]
pub(crate) enum InstallError {
    /// The file is broken: it must be edited by hand.
    #[error(
        "{path} is not valid {format} ({message}), nothing was written · hint: mend the file; this is the entry:\n{snippet}",
        path = .path.display()
    )]
    Invalid { path: PathBuf, format: &'static str, message: String, snippet: String },
    /// The file can be read, but is not of the expected shape.
    #[error(
        "{what} in {path} is not an object, nothing was written · hint: mend the file, or move it away",
        path = .path.display()
    )]
    NotAnObject { path: PathBuf, what: String },
    /// The name belongs to another server.
    #[error(
        "`{name}` in {path} starts `{command}`, nothing was written · hint: choose another name with `--name`",
        path = .path.display()
    )]
    NameTaken { path: PathBuf, name: String, command: String },
    /// The client has one configuration for all projects.
    #[error("{client} has no configuration for a project · hint: leave out `--project`")]
    NoProjects { client: &'static str },
    /// `--project` names no folder.
    #[error("{path} is not a folder · hint: give an existing one with `--project`", path = .path.display())]
    NoSuchProject { path: PathBuf },
    /// The configuration is in the home folder, and there is none.
    #[error("cannot tell where the configuration of {client} is · hint: set `HOME`")]
    NoHome { client: &'static str },
    /// No configuration can hold the path of this program.
    #[error("{path} is not valid Unicode · hint: move the program to a path that is", path = .path.display())]
    NotUnicode { path: PathBuf },
    /// Reading or writing failed.
    #[error("{path}: {error} · hint: add the entry by hand, as `--print` shows it", path = .path.display())]
    Files { path: PathBuf, error: io::Error },
}

/// Configures the client that `arguments` name, or tells which there are.
pub(crate) fn install(arguments: &InstallArgs, surroundings: &Surroundings) -> Result<Outcome, InstallError> {
    let Some(client) = arguments.client else {
        return list_clients(arguments, surroundings);
    };
    let plan = Plan::new(client, &arguments.entry, &start_arguments(arguments), surroundings)?;
    if arguments.print {
        return Ok(Outcome::Printed(plan.to_print()));
    }
    let place = plan.place();
    match plan.with_entry()? {
        None => Ok(Outcome::UpToDate(format!("{place} is already up to date\n"))),
        Some(text) => {
            plan.write(&text)?;
            Ok(Outcome::Written(format!("wrote {place}\n{}\n", client.next_step())))
        }
    }
}

/// Takes our entry out of the client's configuration.
pub(crate) fn uninstall(
    arguments: &UninstallArgs,
    surroundings: &Surroundings,
) -> Result<Outcome, InstallError> {
    let plan = Plan::new(arguments.client, &arguments.entry, &[], surroundings)?;
    let place = plan.place();
    match plan.without_entry()? {
        None => Ok(Outcome::UpToDate(format!("{place} is not there, nothing was removed\n"))),
        Some(text) => {
            plan.write(&text)?;
            Ok(Outcome::Written(format!(
                "removed {place}\nrestart the client to end a server that it runs\n"
            )))
        }
    }
}

fn list_clients(arguments: &InstallArgs, surroundings: &Surroundings) -> Result<Outcome, InstallError> {
    let plans = Client::value_variants().iter().filter_map(|client| {
        // A client that keeps no project configuration can still be named for the whole user.
        Some((*client, Plan::new(*client, &arguments.entry, &start_arguments(arguments), surroundings).ok()?))
    });
    if arguments.print {
        let printed: Vec<_> = plans.map(|(_, plan)| plan.to_print()).collect();
        return Ok(Outcome::Printed(printed.join("\n")));
    }
    let project = project_folder(&arguments.entry, surroundings);
    let mut text = String::new();
    for (client, plan) in plans.filter(|(client, _)| client.is_present(surroundings, &project)) {
        let would = match plan.with_entry() {
            Ok(Some(_)) => format!("would write {}", plan.place()),
            Ok(None) => format!("{} is already up to date", plan.place()),
            Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        };
        text.push_str(&format!("{:15} {would}\n", client.name()));
    }
    let names: Vec<_> = Client::value_variants().iter().map(|client| client.name()).collect();
    let names = names.join(", ");
    if text.is_empty() {
        text = format!("found none of {names}\n");
    }
    text.push_str(&format!("nothing was written · hint: name one with `--client` ({names})\n"));
    Ok(Outcome::ClientNeeded(text))
}

impl Outcome {
    /// The text for standard output, ending with a newline.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Written(text) | Self::UpToDate(text) | Self::Printed(text) | Self::ClientNeeded(text) => {
                text
            }
        }
    }
}

impl Surroundings {
    /// Those of this process.
    pub(crate) fn from_process() -> io::Result<Self> {
        Ok(Self {
            home: std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute()),
            current_dir: std::env::current_dir()?,
            executable: std::env::current_exe()?,
            system: std::env::consts::OS,
        })
    }
}

fn project_folder(entry: &EntryArgs, surroundings: &Surroundings) -> PathBuf {
    let current = &surroundings.current_dir;
    entry.project.as_ref().map_or(current.clone(), |project| current.join(project))
}

/// What all clients accept as a name.
fn parse_name(text: &str) -> Result<String, String> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if !text.is_empty() && text.len() <= 64 && text.chars().all(fits) {
        Ok(text.to_owned())
    } else {
        Err("a name has 1 to 64 letters, digits, `_` and `-`".to_owned())
    }
}

#[cfg(test)]
mod tests;
