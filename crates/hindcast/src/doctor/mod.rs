//! `hindcast doctor`: will hindcast work here, and if not, what to do about it.
//!
//! Each check tries the thing itself where that is possible without leaving a trace (attach to a
//! child, bind the port, write a file) and says so where it only reads a setting. Whatever a check
//! creates it removes again.

#[cfg(target_os = "linux")]
mod adapters;
mod brief_command;
mod clock;
mod confinement;
mod data_folder;
mod dotnet;
#[cfg(target_os = "linux")]
mod linux;
mod port;
mod recording;
mod store;
mod vectors;

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use hindcast_core::debug::{Capability, Layer};
use serde::Serialize;
use serde_json::{Value, json};

use crate::config::Config;

/// What to check.
#[derive(Debug, Clone)]
pub(crate) struct DoctorInput {
    /// The data folder of the configuration.
    pub(crate) data_dir: PathBuf,
    /// Where keys, limits and audit trail are kept.
    pub(crate) store: crate::config::Store,
    /// Where vectors are kept.
    pub(crate) vectors: crate::config::Vectors,
    /// The address that `hindcast serve` would listen on.
    pub(crate) listen: SocketAddr,
    /// `$PATH`: where debuggers and small system programs are looked for.
    pub(crate) search_path: Option<OsString>,
    /// The time now.
    pub(crate) now: jiff::Timestamp,
    /// What the debug engine found out by trying.
    pub(crate) capabilities: Vec<Capability>,
    /// `$DOTNET_ROOT`.
    pub(crate) dotnet_root: Option<OsString>,
    /// `$HOME`.
    pub(crate) home: Option<OsString>,
    /// `debug.dotnet` of the configuration.
    pub(crate) configured_dotnet: Option<PathBuf>,
    /// What keeps programs of key holders in, where that was tried.
    pub(crate) confinement: Option<Result<Vec<Layer>, String>>,
    /// The debug adapters that there may be.
    #[cfg(target_os = "linux")]
    pub(crate) profiles: hindcast_dap::Profiles,
}

/// The outcome of one check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Check {
    /// What was looked at.
    pub(crate) name: Cow<'static, str>,
    /// How it is.
    pub(crate) status: Status,
    /// What was seen.
    pub(crate) detail: String,
    /// What to do; always there unless the status is ok.
    pub(crate) remedy: Option<String>,
}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// Works, or is not needed.
    Ok,
    /// Works in part.
    Warn,
    /// Does not work.
    Fail,
}

/// Runs every check. Takes some tens of milliseconds and blocks the thread; ptrace needs it to stay
/// on one.
pub(crate) fn run(input: &DoctorInput) -> Vec<Check> {
    let mut checks = system_checks(input);
    checks.extend(recording::checks(&input.capabilities));
    checks.extend(input.confinement.as_ref().map(confinement::check));
    checks.push(port::check(input.listen));
    checks.push(data_folder::check(&input.data_dir));
    checks.push(clock::check(input.now));
    checks.extend(store::check(&input.store));
    checks.extend(vectors::check(&input.vectors));
    #[cfg(target_os = "linux")]
    checks.extend(adapters::checks(&input.profiles, &input.variables()));
    checks.push(dotnet::check(input));
    checks
}

#[cfg(target_os = "linux")]
fn system_checks(input: &DoctorInput) -> Vec<Check> {
    linux::checks(input.search_path.as_deref())
}

#[cfg(not(target_os = "linux"))]
fn system_checks(_input: &DoctorInput) -> Vec<Check> {
    let names = ["ptrace", "seccomp", "kernel", "address randomisation", "core dumps", "open files"];
    let detail =
        format!("does not apply on {}: native debugging is for Linux on x86-64", std::env::consts::OS);
    names.into_iter().map(|name| Check::ok(name, detail.clone())).collect()
}

/// Whether nothing failed; the exit code follows from it.
pub(crate) fn is_healthy(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.status != Status::Fail)
}

/// The checks for people, one a line with its remedy below, and a summary. `colour` is for
/// terminals.
pub(crate) fn render_text(checks: &[Check], colour: bool) -> String {
    let width = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    for check in checks {
        let status = format!("{:4}", check.status.to_string());
        let status = if colour { check.status.coloured(&status) } else { status };
        text.push_str(&format!("{status}  {:width$}  {}\n", check.name, check.detail));
        if let Some(remedy) = &check.remedy {
            text.push_str(&format!("{:4}  {:width$}  hint: {remedy}\n", "", ""));
        }
    }
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    text.push_str(&format!(
        "\n{} checks: {} ok, {} to look at, {} failed\n",
        checks.len(),
        count(Status::Ok),
        count(Status::Warn),
        count(Status::Fail)
    ));
    text
}

/// The checks for programs: `{"healthy", "checks": [{"name", "status", "detail", "remedy"}]}`.
pub(crate) fn render_json(checks: &[Check]) -> Value {
    json!({ "healthy": is_healthy(checks), "checks": checks })
}

impl DoctorInput {
    /// The variables with which adapters are looked for.
    #[cfg(target_os = "linux")]
    fn variables(&self) -> std::collections::BTreeMap<String, String> {
        let mut variables: std::collections::BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let text =
            |value: &Option<OsString>| value.as_ref().and_then(|value| value.to_str().map(str::to_owned));
        variables.extend(text(&self.search_path).map(|path| ("PATH".to_owned(), path)));
        variables.extend(text(&self.home).map(|home| ("HOME".to_owned(), home)));
        variables
    }

    /// Checks of this process's environment, for a configuration.
    pub(crate) fn from_process(config: &Config) -> Self {
        let engine = crate::wiring::debug_engine(&config.debug).ok().flatten();
        Self {
            data_dir: config.data_dir.clone(),
            store: config.store.clone(),
            vectors: config.vectors.clone(),
            listen: config.server.listen,
            search_path: std::env::var_os("PATH"),
            now: jiff::Timestamp::now(),
            capabilities: engine.map(|engine| engine.capabilities()).unwrap_or_default(),
            dotnet_root: std::env::var_os("DOTNET_ROOT"),
            home: std::env::var_os("HOME"),
            configured_dotnet: config.debug.dotnet.clone(),
            confinement: None,
            // A configuration with bad profiles is not loaded.
            #[cfg(target_os = "linux")]
            profiles: crate::wiring::profiles(&config.debug).unwrap_or_default(),
        }
    }
}

impl Check {
    fn ok(name: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        Self { name: name.into(), status: Status::Ok, detail: detail.into(), remedy: None }
    }

    fn warn(
        name: impl Into<Cow<'static, str>>,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let remedy = Some(remedy.into());
        Self { name: name.into(), status: Status::Warn, detail: detail.into(), remedy }
    }

    fn fail(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { status: Status::Fail, ..Self::warn(name, detail, remedy) }
    }
}

impl Status {
    fn coloured(self, text: &str) -> String {
        let code = match self {
            Self::Ok => 32,
            Self::Warn => 33,
            Self::Fail => 31,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        })
    }
}

/// The first executable file called `name` in the folders of `search_path`.
fn find_program(search_path: Option<&OsStr>, name: &str) -> Option<PathBuf> {
    let file_name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    std::env::split_paths(search_path?).map(|folder| folder.join(&file_name)).find(|path| is_executable(path))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<Check> {
        vec![
            Check::ok("ptrace", "attached to a child and let it go"),
            Check::warn("open files", "limit 1024", "run `ulimit -n 4096` first"),
            Check::fail("port", "127.0.0.1:7443 is taken", "choose another with `--listen`"),
        ]
    }

    #[test]
    fn the_text_has_a_line_for_each_check_and_its_remedy_below() {
        let expected = "\
ok    ptrace      attached to a child and let it go
warn  open files  limit 1024
                  hint: run `ulimit -n 4096` first
fail  port        127.0.0.1:7443 is taken
                  hint: choose another with `--listen`

3 checks: 1 ok, 1 to look at, 1 failed
";
        assert_eq!(render_text(&examples(), false), expected);
    }

    #[test]
    fn colour_marks_only_the_status() {
        let text = render_text(&examples(), true);
        assert!(text.starts_with("\u{1b}[32mok  \u{1b}[0m  ptrace"), "{text}");
        assert!(text.contains("\u{1b}[31mfail\u{1b}[0m  port"), "{text}");
    }

    #[test]
    fn the_json_carries_every_field() {
        let rendered = render_json(&examples());
        assert_eq!(rendered["healthy"], false);
        assert_eq!(
            rendered["checks"][1],
            json!({
                "name": "open files",
                "status": "warn",
                "detail": "limit 1024",
                "remedy": "run `ulimit -n 4096` first",
            })
        );
        assert_eq!(rendered["checks"][0]["remedy"], Value::Null);
        assert!(is_healthy(&examples()[..2]));
    }

    #[test]
    fn a_real_run_names_each_check_once_gives_every_remedy_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config { data_dir: folder.path().join("not/yet/there"), ..Config::default() };
        config.server.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let input = DoctorInput::from_process(&config);
        let checks = run(&input);
        for check in &checks {
            assert!(check.status == Status::Ok || check.remedy.is_some(), "{check:?}");
            let same_name = checks.iter().filter(|other| other.name == check.name).count();
            assert_eq!(same_name, 1, "{check:?}");
        }
        for name in [
            "ptrace",
            "seccomp",
            "system calls can be emulated",
            "a process can be copied",
            "port",
            "data folder",
            "kernel",
            "open files",
            "clock",
            "debugpy",
            "js-debug",
            "delve",
            "dotnet",
        ] {
            assert!(checks.iter().any(|check| check.name == name), "{name}");
        }
        let left = std::fs::read_dir(folder.path()).expect("the folder").count();
        assert_eq!(left, 0);
    }
}
