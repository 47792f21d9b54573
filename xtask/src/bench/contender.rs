//! The servers that are measured against each other, each with one trivial tool.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::load::{Load, Target, Wrk};
use super::machine::{self, TreeWatch};
use crate::hindcast_process::{HindcastServer, Home, Transport};
use crate::workspace::Workspace;
use crate::{command, http, peers};

/// How many clients call at once.
pub(super) const CONNECTIONS: [u32; 3] = [1, 16, 128];
const WARM_UP_SECONDS: u32 = 4;
const SETTLE: Duration = Duration::from_secs(2);
const PEER_START_LIMIT: Duration = Duration::from_secs(60);

/// A server that is up and answers correctly.
pub(super) struct Contender {
    /// What the table calls it.
    pub(super) name: &'static str,
    target: Target,
    server: Server,
}

enum Server {
    Hindcast(HindcastServer),
    Peer(Peer),
}

/// A peer's process; ends with this value.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        // Both fail only when the peer has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What was measured of one contender.
pub(super) struct Measured {
    /// What the table calls it.
    pub(super) name: &'static str,
    /// One for each of [`CONNECTIONS`].
    pub(super) loads: Vec<Load>,
    /// Resident memory before the load, in kB.
    pub(super) idle_memory: u64,
    /// The most memory under load, in kB.
    pub(super) peak_memory: u64,
    /// Which share of the processor other programs took meanwhile.
    pub(super) neighbours_share: f64,
}

impl Contender {
    /// Ourselves, with key, limits and audit.
    pub(super) fn hindcast(
        name: &'static str,
        binary: &Path,
        home: Home<'_>,
        key: &str,
        transport: Transport,
    ) -> Result<Self> {
        let server = HindcastServer::start(binary, home, transport)?;
        let target =
            Target { url: server.url.clone(), tool: "debugger/license_info", key: Some(key.to_owned()) };
        Self { name, target, server: Server::Hindcast(server) }.checked()
    }

    /// FastMCP as its `run` sets it up, stateless and with plain JSON.
    pub(super) fn fastmcp(workspace: &Workspace) -> Result<Self> {
        let script = workspace.root.join("peers/bench/fastmcp_server.py");
        Self::peer("FastMCP", Command::new(peers::python(workspace)).arg(script))
    }

    /// The TypeScript SDK on Node's own HTTP server, stateless and with plain JSON.
    pub(super) fn typescript_sdk(workspace: &Workspace) -> Result<Self> {
        // Node looks for imports beside the script.
        let script = peers::node_folder(workspace).join("sdk_server.mjs");
        std::fs::copy(workspace.root.join("peers/bench/sdk_server.mjs"), &script)
            .with_context(|| format!("cannot write {}", script.display()))?;
        Self::peer(
            "TypeScript SDK",
            Command::new(peers::node(workspace)).arg(script).env("NODE_ENV", "production"),
        )
    }

    fn peer(name: &'static str, command: &mut Command) -> Result<Self> {
        let port = free_port()?;
        let child = command
            .arg(port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let mut peer = Peer(child);
        let target = Target { url: format!("http://127.0.0.1:{port}/mcp"), tool: "license_info", key: None };
        let start = Instant::now();
        while call_tool(&target).is_err() {
            if let Some(status) = peer.0.try_wait()? {
                bail!("{name} ended with {status} before it answered");
            }
            if start.elapsed() > PEER_START_LIMIT {
                bail!("{name} did not answer within {PEER_START_LIMIT:?}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Self { name, target, server: Server::Peer(peer) }.checked()
    }

    fn checked(self) -> Result<Self> {
        call_tool(&self.target).with_context(|| format!("{} does not answer as it should", self.name))?;
        Ok(self)
    }

    /// Loads it at every number of connections.
    pub(super) fn measure(self, wrk: &Wrk, seconds: u32) -> Result<Measured> {
        let process = match &self.server {
            Server::Hindcast(server) => server.process(),
            Server::Peer(peer) => peer.0.id(),
        };
        std::thread::sleep(SETTLE);
        let idle_memory = machine::memory(process)?.resident;
        wrk.measure(&self.target, CONNECTIONS[1], WARM_UP_SECONDS)?;
        let mut loads = Vec::new();
        let mut neighbours_share: f64 = 0.0;
        for connections in CONNECTIONS {
            // All that is ours: the server may have a database at work beside it.
            let watch = TreeWatch::start()?;
            let load = wrk.measure(&self.target, connections, seconds)?;
            let share = watch.share()?;
            println!(
                "{} (connections: {connections}): {:.0} requests/s, p50 {} µs, p99 {} µs, {:.0} % taken by neighbours",
                self.name,
                load.requests_per_second(),
                load.p50,
                load.p99,
                share * 100.0,
            );
            neighbours_share = neighbours_share.max(share);
            loads.push(load);
        }
        // Still right after the load, not only before.
        call_tool(&self.target)?;
        let peak_memory = machine::memory(process)?.peak;
        Ok(Measured { name: self.name, loads, idle_memory, peak_memory, neighbours_share })
    }
}

/// One call whose answer is looked at.
fn call_tool(target: &Target) -> Result<()> {
    let request = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{}","arguments":{{}}}}}}"#,
        target.tool
    );
    let authorization = target.key.as_ref().map(|key| format!("Bearer {key}"));
    let body = if target.url.starts_with("https://") {
        // The certificate is self-signed; curl fails on any status that is no success.
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--fail",
            "--insecure",
            "--header",
            "Content-Type: application/json",
        ]);
        if let Some(authorization) = &authorization {
            curl.arg("--header").arg(format!("Authorization: {authorization}"));
        }
        command::capture(curl.args(["--data", &request, &target.url]))?
    } else {
        let mut headers = vec![("MCP-Protocol-Version", "2025-11-25")];
        headers.extend(authorization.iter().map(|authorization| ("Authorization", authorization.as_str())));
        let answer = http::post_json(&target.url, &headers, &request)?;
        if answer.status != 200 {
            bail!("status {}: {}", answer.status, answer.body);
        }
        answer.body
    };
    check_result(&body)
}

fn check_result(body: &str) -> Result<()> {
    let answer: Value = serde_json::from_str(body).with_context(|| format!("no JSON: `{body}`"))?;
    let result = &answer["result"];
    let has_text = result["content"][0]["text"].as_str().is_some_and(|text| !text.is_empty());
    let is_error = result["isError"].as_bool().unwrap_or(false);
    if !has_text || is_error {
        bail!("not a tool's result: `{body}`");
    }
    Ok(())
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on loopback")?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_result_with_text_counts() {
        assert!(
            check_result(r#"{"id":1,"result":{"content":[{"type":"text","text":"Community"}]}}"#).is_ok()
        );
        assert!(
            check_result(r#"{"id":1,"result":{"content":[{"type":"text","text":"x"}],"isError":true}}"#)
                .is_err()
        );
        assert!(check_result(r#"{"id":1,"error":{"code":-32002,"message":"Quota exceeded"}}"#).is_err());
        assert!(check_result("busy").is_err());
    }
}
