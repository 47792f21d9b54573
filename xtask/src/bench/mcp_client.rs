//! Just enough of an MCP client over standard streams.

use std::{process::Command, time::Duration};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::conversation::{Answer, Conversation};

/// A server that has answered `initialize`.
pub(super) struct McpClient {
    conversation: Conversation,
    last_id: u64,
}

/// A tool's result.
pub(super) struct ToolAnswer {
    /// Its size and text.
    pub(super) answer: Answer,
    /// `structuredContent`, or null.
    pub(super) structured: Value,
}

impl McpClient {
    /// Starts the server and shakes hands.
    pub(super) fn start(name: &'static str, command: &mut Command) -> Result<Self> {
        Self::shaking_hands(Conversation::start(name, command)?)
    }

    /// The same for one that is there for up to `limit`.
    pub(super) fn lasting(name: &'static str, command: &mut Command, limit: Duration) -> Result<Self> {
        Self::shaking_hands(Conversation::lasting(name, command, limit)?)
    }

    fn shaking_hands(conversation: Conversation) -> Result<Self> {
        let mut client = Self { conversation, last_id: 0 };
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "bench", "version": "1.0.0" },
        });
        client.request("initialize", &hello)?;
        client.conversation.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
        Ok(client)
    }

    /// Its process.
    pub(super) fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// The size of `tools/list`, all pages together.
    pub(super) fn tools_list(&mut self) -> Result<Answer> {
        let mut all = Answer { text: String::new(), bytes: 0 };
        let mut parameters = json!({});
        loop {
            let (result, line) = self.request("tools/list", &parameters)?;
            all.bytes += line.len();
            all.text.push_str(&line);
            match &result["nextCursor"] {
                Value::String(cursor) => parameters = json!({ "cursor": cursor }),
                _ => return Ok(all),
            }
        }
    }

    /// Calls a tool; a result that says that it is an error is one here too.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Result<ToolAnswer> {
        let (mut result, line) =
            self.request("tools/call", &json!({ "name": tool, "arguments": arguments }))?;
        if result["isError"] == true {
            bail!("{tool}: {}", line.trim_end());
        }
        let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        let answer = Answer { text: texts.join("\n"), bytes: line.len() };
        Ok(ToolAnswer { answer, structured: result["structuredContent"].take() })
    }

    /// The result and the line it came in.
    fn request(&mut self, method: &str, parameters: &Value) -> Result<(Value, String)> {
        self.last_id += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": parameters });
        self.conversation.send(&request.to_string())?;
        loop {
            let line = self.conversation.read_line()?;
            let mut message: Value =
                serde_json::from_str(&line).with_context(|| format!("no JSON: `{}`", line.trim_end()))?;
            // Notifications come in between.
            if message["id"] != self.last_id {
                continue;
            }
            if message["result"].is_null() {
                bail!("{method}: {}", line.trim_end());
            }
            return Ok((message["result"].take(), line));
        }
    }
}
