//! A root of apt's own, from which packages of another suite are downloaded without a trace in the system's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command;

/// Sources, lists and archives of one suite. No package counts as installed there.
pub(super) struct AptRoot {
    folder: PathBuf,
}

impl AptRoot {
    /// Takes the machine's own sources of Debian, with the suite changed. Their mirrors, keys and options stay, and so does the
    /// rest of apt's configuration: signatures are checked exactly as for the machine's own packages.
    pub(super) fn create(folder: PathBuf, suite: &str) -> Result<Self> {
        for inside in ["sources", "lists/partial", "archives/partial"] {
            fs::create_dir_all(folder.join(inside)).context("cannot create a root for apt")?;
        }
        fs::write(folder.join("status"), "").context("cannot create a list of packages")?;
        fs::write(folder.join("apt.conf"), configuration(&folder)).context("cannot configure apt")?;
        let own = codename(&fs::read_to_string("/etc/os-release").context("cannot tell the system")?)?;
        let mut found = false;
        for file in configured() {
            let text =
                fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let is_list = file.extension().is_some_and(|end| end == "list");
            let change = if is_list { changed_list } else { changed_stanzas };
            let changed = change(&text, &own, suite);
            if !changed.is_empty() {
                let copy = folder.join("sources").join(file.file_name().context("a file has a name")?);
                fs::write(&copy, changed).with_context(|| format!("cannot write {}", copy.display()))?;
                found = true;
            }
        }
        if !found {
            bail!("apt has no source of `{own}` whose mirror could be asked for `{suite}`");
        }
        Ok(Self { folder })
    }

    /// Downloads a package and all that it depends on.
    pub(super) fn download(&self, package: &str) -> Result<Vec<PathBuf>> {
        // A source of somebody else need not have the suite; what counts is whether the package is found.
        if let Err(error) = command::run(&mut self.apt_get(&["update"])) {
            println!("{error:#}");
        }
        let install = ["install", "--download-only", "--no-install-recommends", package];
        command::run(&mut self.apt_get(&install))?;
        let archives = self.folder.join("archives");
        let entries =
            fs::read_dir(&archives).with_context(|| format!("cannot list {}", archives.display()))?;
        let files = entries.flatten().map(|entry| entry.path());
        Ok(files.filter(|path| path.extension().is_some_and(|end| end == "deb")).collect())
    }

    fn apt_get(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("apt-get");
        // Prints nothing but what fails, and asks nothing.
        command.arg("-c").arg(self.folder.join("apt.conf")).arg("-qq").args(arguments);
        command
    }
}

/// What is unlike the machine's configuration of apt: where everything is, and that less is downloaded.
fn configuration(folder: &Path) -> String {
    let here = folder.display();
    format!(
        r#"Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "{here}/sources";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State "{here}";
Dir::State::Status "{here}/status";
Dir::Cache "{here}";
APT::Default-Release "";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
// They tend to the system's own lists.
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"#
    )
}

/// The files of the machine's sources, in both formats.
fn configured() -> Vec<PathBuf> {
    let entries = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    let parts = entries.map(|entry| entry.path());
    let parts = parts.filter(|path| path.extension().is_some_and(|end| end == "list" || end == "sources"));
    let list = Path::new("/etc/apt/sources.list").to_owned();
    std::iter::once(list).filter(|list| list.is_file()).chain(parts).collect()
}

/// The name of the suite that the machine has.
fn codename(os_release: &str) -> Result<String> {
    let name = os_release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    Ok(name.context("the system has no codename")?.trim_matches('"').to_owned())
}

/// The lines for `own`, made for `suite`: `deb [options] mirror suite main`.
fn changed_list(text: &str, own: &str, suite: &str) -> String {
    let change = |line: &str| {
        let rest = line.trim().strip_prefix("deb ")?.trim_start();
        let (options, rest) = match rest.starts_with('[') {
            true => rest.split_at(rest.find(']')? + 1),
            false => ("", rest),
        };
        let mut words = rest.split_whitespace();
        let (mirror, distribution) = (words.next()?, words.next()?);
        let is_ours = distribution == own && words.any(|component| component == "main");
        is_ours.then(|| format!("deb {options} {mirror} {suite} main\n"))
    };
    text.lines().filter_map(change).collect()
}

/// The stanzas for `own`, made for `suite`.
fn changed_stanzas(text: &str, own: &str, suite: &str) -> String {
    let change = |stanza: &str| {
        let mut fields = fields_of(stanza);
        let has = |name: &str, word: &str| {
            fields
                .iter()
                .any(|(key, value)| key == name && value.split_whitespace().any(|found| found == word))
        };
        let is_ours = has("types", "deb") && has("suites", own) && has("components", "main");
        if !is_ours || has("enabled", "no") {
            return None;
        }
        fields.retain(|(key, _)| !["types", "suites", "components"].contains(&key.as_str()));
        let kept: String = fields.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
        Some(format!("types: deb\nsuites: {suite}\ncomponents: main\n{kept}\n"))
    };
    text.split("\n\n").filter_map(change).collect()
}

/// The fields of a stanza, their names in lower case; a value may have several lines, such as a key.
fn fields_of(stanza: &str) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in stanza.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                value.push('\n');
                value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_machines_own_suite_keeps_its_options() {
        let text = "# deb http://other.test/debian bookworm main\n\
            deb [trusted=yes arch=amd64] http://mirror.test/debian/ bookworm main contrib\n\
            deb-src http://mirror.test/debian/ bookworm main\n\
            deb http://mirror.test/debian bookworm-updates main\n\
            deb http://else.test/linux bookworm stable\n";
        let expected = "deb [trusted=yes arch=amd64] http://mirror.test/debian/ trixie main\n";
        assert_eq!(changed_list(text, "bookworm", "trixie"), expected);
        let plain = changed_list("deb http://mirror.test/ bookworm main", "bookworm", "sid");
        assert_eq!(plain, "deb  http://mirror.test/ sid main\n");
    }

    #[test]
    fn a_stanza_of_the_machines_own_suite_keeps_its_key() {
        let text = "Types: deb deb-src\n# why\nURIs: http://mirror.test/debian\nSuites: bookworm bookworm-updates\n\
            Components: main contrib\nSigned-By:\n -----BEGIN\n .\n abc\n\n\
            Types: deb\nURIs: http://mirror.test/security\nSuites: bookworm-security\nComponents: main\n\n\
            Types: deb\nURIs: http://off.test/debian\nSuites: bookworm\nComponents: main\nEnabled: no\n";
        let expected = "types: deb\nsuites: sid\ncomponents: main\nuris: http://mirror.test/debian\n\
            signed-by: \n -----BEGIN\n .\n abc\n\n";
        assert_eq!(changed_stanzas(text, "bookworm", "sid"), expected);
    }

    #[test]
    fn the_codename_is_told_without_quotes() {
        assert_eq!(codename("NAME=x\nVERSION_CODENAME=\"bookworm\"\n").expect("a name"), "bookworm");
        assert!(codename("NAME=x\n").is_err());
    }
}
