//! `hindcast mcp install`: tells an MCP client to start hindcast.
//!
//! Only our entry in the client's JSON file is touched; every other byte stays as it is, and a file
//! that cannot be understood is not written at all.

mod atomic_write;
mod client;
mod json_edit;

pub(crate) use client::Client;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use serde_json::{Value, json};
use thiserror::Error;

use crate::config::ToolNames;

/// Tell an MCP client to start hindcast
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct InstallArgs {
    /// Client to configure; without it, the ones found here are listed and nothing is written
    #[arg(long, value_enum)]
    pub(crate) client: Option<Client>,
    /// Only print what would be written, and where
    #[arg(long)]
    pub(crate) print: bool,
    /// Project to configure; the current folder for claude-code and vscode, the whole user for
    /// cursor
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// Name of the server in the client's configuration
    #[arg(long, value_name = "NAME", default_value = "hindcast", value_parser = parse_name)]
    pub(crate) name: String,
    /// How tools are listed; these clients refuse a slash
    #[arg(long, value_enum, default_value_t = ToolNames::Underscore)]
    pub(crate) tool_names: ToolNames,
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
    /// It already said what it should; nothing was written.
    UpToDate(String),
    /// Asked for with `--print`; nothing was written.
    Printed(String),
    /// No client was named: the text tells which there are. Nothing was written.
    ClientNeeded(String),
}

/// Why a client was not configured. Nothing was written.
#[derive(Debug, Error)]
pub(crate) enum InstallError {
    /// The file has comments or is broken: it must be edited by hand.
    #[error(
        "{path} is not valid JSON ({message}), nothing was written \
         · hint: comments are fine for some clients but not here; add this by hand:\n{snippet}",
        path = .path.display()
    )]
    InvalidJson { path: PathBuf, message: String, snippet: String },
    /// The file is JSON, but not of the expected shape.
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
    /// JSON cannot hold the path of this program.
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
    let plan = Plan::new(client, arguments, surroundings)?;
    if arguments.print {
        return Ok(Outcome::Printed(plan.to_print()));
    }
    let name = &plan.name;
    let path = plan.path.display();
    match plan.changed_text()? {
        None => Ok(Outcome::UpToDate(format!("`{name}` in {path} is already up to date\n"))),
        Some(text) => {
            atomic_write::replace(&plan.path, &text).map_err(|error| plan.files_error(error))?;
            Ok(Outcome::Written(format!("wrote `{name}` to {path}\n{}\n", client.next_step())))
        }
    }
}

fn list_clients(arguments: &InstallArgs, surroundings: &Surroundings) -> Result<Outcome, InstallError> {
    let plans = Client::value_variants().iter().filter_map(|client| {
        // A client that keeps no project configuration can still be named for the whole user.
        Some((*client, Plan::new(*client, arguments, surroundings).ok()?))
    });
    if arguments.print {
        let printed: Vec<_> = plans.map(|(_, plan)| plan.to_print()).collect();
        return Ok(Outcome::Printed(printed.join("\n")));
    }
    let project = project_folder(arguments, surroundings);
    let mut text = String::new();
    for (client, plan) in plans.filter(|(client, _)| client.is_present(surroundings, &project)) {
        let path = plan.path.display();
        let would = match plan.changed_text() {
            Ok(Some(_)) => format!("would write `{}` to {path}", plan.name),
            Ok(None) => format!("already up to date in {path}"),
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

/// What to put where.
struct Plan {
    path: PathBuf,
    /// The object that holds the servers.
    section: &'static str,
    name: String,
    /// In the order in which a person would write them.
    fields: Vec<(&'static str, Value)>,
}

impl Plan {
    fn new(
        client: Client,
        arguments: &InstallArgs,
        surroundings: &Surroundings,
    ) -> Result<Self, InstallError> {
        let executable = &surroundings.executable;
        let command =
            executable.to_str().ok_or_else(|| InstallError::NotUnicode { path: executable.clone() })?;
        let project = project_folder(arguments, surroundings);
        if !project.is_dir() {
            return Err(InstallError::NoSuchProject { path: project });
        }
        let for_project = arguments.project.is_some();
        let mut fields = vec![
            ("type", json!("stdio")),
            ("command", json!(command)),
            ("args", json!(["mcp", "--tool-names", arguments.tool_names.as_str()])),
            ("env", json!({})),
        ];
        fields.retain(|(field, _)| client.knows_field(field));
        Ok(Self {
            path: client.path(surroundings, &project, for_project)?,
            section: client.section(),
            name: arguments.name.clone(),
            fields,
        })
    }

    /// The whole new text of the file, `None` when it needs no change.
    fn changed_text(&self) -> Result<Option<String>, InstallError> {
        let before = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(self.files_error(error)),
        };
        // Some clients create an empty file first.
        let before = if before.trim().is_empty() { "{}\n".to_owned() } else { before };
        let value: Value = serde_json::from_str(&before).map_err(|error| self.invalid_json(&error))?;
        self.check_shape(&value)?;
        let entry = &value[self.section][self.name.as_str()];
        let mut after = before.clone();
        for (field, wanted) in &self.fields {
            // The environment is the user's to fill in.
            let fine = entry.get(field).is_some_and(|found| found == wanted || *field == "env");
            if fine {
                continue;
            }
            after = json_edit::set(&after, &[self.section, &self.name, field], wanted)
                .ok_or_else(|| self.not_an_object("something"))?;
        }
        Ok((after != before).then_some(after))
    }

    fn check_shape(&self, value: &Value) -> Result<(), InstallError> {
        let Some(root) = value.as_object() else {
            return Err(self.not_an_object("the outermost value"));
        };
        let Some(section) = root.get(self.section) else {
            return Ok(());
        };
        let Some(servers) = section.as_object() else {
            return Err(self.not_an_object(&format!("`{}`", self.section)));
        };
        let Some(entry) = servers.get(&self.name) else {
            return Ok(());
        };
        if !entry.is_object() {
            return Err(self.not_an_object(&format!("`{}.{}`", self.section, self.name)));
        }
        // An older hindcast elsewhere is ours to replace, another program is not; nor is a server
        // behind a URL.
        let command = entry["command"].as_str().or(entry["url"].as_str()).unwrap_or_default();
        let ours = self.fields.iter().find(|(field, _)| *field == "command");
        let ours = ours.and_then(|(_, command)| command.as_str()).unwrap_or_default();
        if command.is_empty() || Path::new(command).file_name() == Path::new(ours).file_name() {
            return Ok(());
        }
        let (path, name) = (self.path.clone(), self.name.clone());
        Err(InstallError::NameTaken { path, name, command: command.to_owned() })
    }

    fn snippet(&self) -> String {
        let mut text = "{}".to_owned();
        for (field, value) in &self.fields {
            let path = [self.section, &self.name, field];
            text = json_edit::set(&text, &path, value).unwrap_or(text);
        }
        text
    }

    fn to_print(&self) -> String {
        format!("# {}\n{}\n", self.path.display(), self.snippet())
    }

    fn invalid_json(&self, error: &serde_json::Error) -> InstallError {
        InstallError::InvalidJson {
            path: self.path.clone(),
            message: error.to_string(),
            snippet: self.snippet(),
        }
    }

    fn not_an_object(&self, what: &str) -> InstallError {
        InstallError::NotAnObject { path: self.path.clone(), what: what.to_owned() }
    }

    fn files_error(&self, error: io::Error) -> InstallError {
        InstallError::Files { path: self.path.clone(), error }
    }
}

fn project_folder(arguments: &InstallArgs, surroundings: &Surroundings) -> PathBuf {
    let current = &surroundings.current_dir;
    arguments.project.as_ref().map_or(current.clone(), |project| current.join(project))
}

/// What all four clients accept as a name.
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
