//! What a server holds that has searched by meaning and then was left alone.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

use crate::bench::{machine, mcp_client::McpClient};
use crate::workspace::Workspace;
use crate::{command, peers};

/// Idle for so long, the model leaves memory; and a little longer.
const REST: Duration = Duration::from_secs(300 + 20);
const LONGEST: Duration = Duration::from_secs(4 * 3600);

/// A server that rests while other things are measured.
pub(super) struct Resting {
    client: McpClient,
    since: Instant,
    with_model: u64,
}

/// Memory in kB.
pub(super) struct Figures {
    pub(super) with_model: u64,
    pub(super) rested: u64,
    /// The part of `rested` that is no file that is mapped.
    pub(super) rested_anonymous: u64,
}

impl Resting {
    pub(super) fn begin(workspace: &Workspace, hindcast: &Path, scratch: &Path) -> Result<Self> {
        let data = scratch.join("resting");
        let models = peers::models_folder(workspace).join("all-MiniLM-L6-v2");
        let run = || {
            let mut hindcast = Command::new(hindcast);
            hindcast.arg("--data-dir").arg(&data);
            hindcast
        };
        command::capture(run().args(["models", "pull", "--from"]).arg(models))?;
        let mut client = McpClient::lasting("hindcast", run().arg("mcp"), LONGEST)?;
        let text = "The keeper of the lighthouse hid the ledger under the stairs.";
        client.call("knowledge/add", &json!({ "collection": "notes", "name": "ledger", "text": text }))?;
        client.call("knowledge/search", &json!({ "query": "where is the book of accounts" }))?;
        let with_model = machine::memory(client.conversation().process())?.resident;
        Ok(Self { client, since: Instant::now(), with_model })
    }

    /// Waits for the rest of the rest.
    pub(super) fn end(self) -> Result<Figures> {
        std::thread::sleep(REST.saturating_sub(self.since.elapsed()));
        let rested = machine::memory(self.client.conversation().process())?;
        Ok(Figures {
            with_model: self.with_model,
            rested: rested.resident,
            rested_anonymous: rested.anonymous,
        })
    }
}
