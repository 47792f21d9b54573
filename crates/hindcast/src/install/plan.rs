//! What to put where.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Client, EntryArgs, InstallError, Surroundings, atomic_write, document::Format, project_folder};

/// Our entry in one file.
pub(super) struct Plan {
    path: PathBuf,
    format: Format,
    /// The object that holds the servers.
    section: &'static str,
    name: String,
    /// The program that the client shall start.
    command: String,
    fields: Vec<(&'static str, Value)>,
}

impl Plan {
    pub(super) fn new(
        client: Client,
        entry: &EntryArgs,
        arguments: &[String],
        surroundings: &Surroundings,
    ) -> Result<Self, InstallError> {
        let executable = &surroundings.executable;
        let command =
            executable.to_str().ok_or_else(|| InstallError::NotUnicode { path: executable.clone() })?;
        let project = project_folder(entry, surroundings);
        if !project.is_dir() {
            return Err(InstallError::NoSuchProject { path: project });
        }
        Ok(Self {
            path: client.path(surroundings, &project, entry.project.is_some())?,
            format: client.format(),
            section: client.section(),
            name: entry.name.clone(),
            command: command.to_owned(),
            fields: client.entry(command, arguments),
        })
    }

    /// The entry and its file, for people.
    pub(super) fn place(&self) -> String {
        format!("`{}` in {}", self.name, self.path.display())
    }

    /// The file's new text with our entry, `None` when it needs no change.
    pub(super) fn with_entry(&self) -> Result<Option<String>, InstallError> {
        let before = self.text()?;
        // Some clients create an empty file first.
        let before = if before.trim().is_empty() { self.format.empty().to_owned() } else { before };
        let value = self.checked(&before)?;
        let entry = &value[self.section][self.name.as_str()];
        let mut after = before.clone();
        for (field, wanted) in &self.fields {
            // Environment and switch are the user's.
            let is_users = matches!(*field, "env" | "enabled");
            if entry.get(field).is_some_and(|found| found == wanted || is_users) {
                continue;
            }
            after = self
                .format
                .set(&after, &[self.section, &self.name, field], wanted)
                .ok_or_else(|| self.not_an_object("something"))?;
        }
        Ok((after != before).then_some(after))
    }

    /// The file's new text without our entry, `None` when there is none.
    pub(super) fn without_entry(&self) -> Result<Option<String>, InstallError> {
        let before = self.text()?;
        if before.trim().is_empty() {
            return Ok(None);
        }
        self.checked(&before)?;
        Ok(self.format.remove(&before, &[self.section, &self.name]))
    }

    pub(super) fn write(&self, text: &str) -> Result<(), InstallError> {
        atomic_write::replace(&self.path, text).map_err(|error| self.files_error(error))
    }

    pub(super) fn to_print(&self) -> String {
        format!("# {}\n{}\n", self.path.display(), self.snippet())
    }

    fn text(&self) -> Result<String, InstallError> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(self.files_error(error)),
        }
    }

    /// What the file says, if our entry can be in it.
    fn checked(&self, text: &str) -> Result<Value, InstallError> {
        let value = self.format.parse(text).map_err(|message| InstallError::Invalid {
            path: self.path.clone(),
            format: self.format.name(),
            message,
            snippet: self.snippet(),
        })?;
        self.check_shape(&value)?;
        Ok(value)
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
        // behind a URL. Some clients keep the program and its arguments in one list.
        let program = entry["command"].as_str().or(entry["command"][0].as_str());
        let command = program.or(entry["url"].as_str()).unwrap_or_default();
        if command.is_empty() || Path::new(command).file_name() == Path::new(&self.command).file_name() {
            return Ok(());
        }
        let (path, name) = (self.path.clone(), self.name.clone());
        Err(InstallError::NameTaken { path, name, command: command.to_owned() })
    }

    fn snippet(&self) -> String {
        let mut text = self.format.empty().trim_end().to_owned();
        for (field, value) in &self.fields {
            let path = [self.section, &self.name, field];
            text = self.format.set(&text, &path, value).unwrap_or(text);
        }
        text.trim_end().to_owned()
    }

    fn not_an_object(&self, what: &str) -> InstallError {
        InstallError::NotAnObject { path: self.path.clone(), what: what.to_owned() }
    }

    fn files_error(&self, error: io::Error) -> InstallError {
        InstallError::Files { path: self.path.clone(), error }
    }
}
