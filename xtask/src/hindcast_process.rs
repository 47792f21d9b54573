//! The `hindcast` binary as a running server.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::command;

const START_LIMIT: Duration = Duration::from_secs(20);

/// Where a `hindcast` keeps what it keeps.
#[derive(Clone, Copy)]
pub(crate) struct Home<'a> {
    /// Its data folder.
    pub(crate) data_folder: &'a Path,
    /// The database for keys, limits and audit trail; without one they are in the data folder.
    pub(crate) database: Option<&'a str>,
}

impl<'a> Home<'a> {
    /// Everything in the data folder.
    pub(crate) fn folder(data_folder: &'a Path) -> Self {
        Self { data_folder, database: None }
    }

    fn give_to(self, command: &mut Command) {
        command.arg("--data-dir").arg(self.data_folder);
        if let Some(database) = self.database {
            command.args(["--store-url", database]);
        }
    }
}

/// How `hindcast serve` listens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// `serve --http`
    Http,
    /// `serve`, with its own self-signed certificate
    Https,
}

/// A started `hindcast serve`; ends with this value.
pub(crate) struct HindcastServer {
    child: Child,
    /// Where it answers, such as `http://127.0.0.1:4000/mcp`.
    pub(crate) url: String,
}

impl HindcastServer {
    /// Starts on a free loopback port and waits until it has said where it answers.
    pub(crate) fn start(binary: &Path, home: Home<'_>, transport: Transport) -> Result<Self> {
        let mut serve = Command::new(binary);
        serve.args(["serve", "--listen", "127.0.0.1:0"]);
        home.give_to(&mut serve);
        if transport == Transport::Http {
            serve.arg("--http");
        }
        let mut child = serve
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let stdout = child.stdout.take().context("serve has no standard output")?;
        // From here on the child must not outlive an error.
        let mut server = Self { child, url: String::new() };
        let (send_url, receive_url) = mpsc::channel();
        // The thread goes on reading until the server ends: a full pipe would block it.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(url) = endpoint_in(&line) {
                    // Nobody listens any more after the first.
                    let _ = send_url.send(url.to_owned());
                }
            }
        });
        server.url =
            receive_url.recv_timeout(START_LIMIT).context("`hindcast serve` did not say where it answers")?;
        Ok(server)
    }

    /// Its process number.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for HindcastServer {
    fn drop(&mut self) {
        // Both fail only when the server has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first `http(s)://…/mcp` in a line that `serve` printed.
fn endpoint_in(line: &str) -> Option<&str> {
    line.split_whitespace()
        .filter(|word| word.starts_with("http://") || word.starts_with("https://"))
        .find(|word| word.ends_with("/mcp"))
}

#[derive(Deserialize)]
struct CreatedKey {
    key: String,
}

/// Makes a key with the limits of an enterprise customer, so that a run is not cut short.
pub(crate) fn create_key(binary: &Path, home: Home<'_>, name: &str) -> Result<String> {
    let mut create = Command::new(binary);
    create.args(["keys", "create", "--name", name, "--tier", "enterprise", "--json"]);
    home.give_to(&mut create);
    let json = command::capture(&mut create)?;
    let created: CreatedKey = serde_json::from_str(&json)
        .with_context(|| format!("`keys create --json` printed `{}`", json.trim()))?;
    if !created.key.starts_with("kdb_live_") {
        bail!("`keys create` made a key of an unknown form");
    }
    Ok(created.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_is_found_in_what_serve_prints() {
        assert_eq!(
            endpoint_in("hindcast listens on http://127.0.0.1:4000/mcp (plain HTTP)"),
            Some("http://127.0.0.1:4000/mcp")
        );
        assert_eq!(endpoint_in("https://[::1]:8443/mcp"), Some("https://[::1]:8443/mcp"));
        assert_eq!(endpoint_in("dashboard https://localhost:8443/"), None);
    }
}
