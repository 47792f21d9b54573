//! Processes and workers that the program starts, which have connections of their own.

use std::{net::TcpStream, time::Duration};

use serde_json::{Value, json};

use super::{Session, State, ask::Refusal};
use crate::{
    protocol::Capabilities,
    transport::{ConnectionId, connect_socket},
};

/// So many are followed at once.
const MOST_CONNECTIONS: usize = 64;
/// An adapter that does not go on with so many children is not waited for any more.
const MOST_LATE: u32 = 2;
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const READY_WITHIN: Duration = Duration::from_secs(10);

/// A session that an adapter wants to have opened.
#[derive(Debug)]
pub(super) struct Child {
    /// `launch` or `attach`.
    request: String,
    configuration: Value,
    /// Where it is, where that is not the adapter's own address.
    address: Option<(String, u16)>,
}

impl Child {
    /// By the request `startDebugging`.
    pub(super) fn asked_for(arguments: &Value) -> Self {
        let request = arguments["request"].as_str().unwrap_or("launch");
        Self::new(request, arguments["configuration"].clone())
    }

    /// By the event of older versions of debugpy, which has the arguments of `attach`.
    pub(super) fn announced(configuration: Value) -> Self {
        Self::new("attach", configuration)
    }

    fn new(request: &str, configuration: Value) -> Self {
        // debugpy listens for them elsewhere.
        let connect = &configuration["connect"];
        let host = connect["host"].as_str().unwrap_or("127.0.0.1").to_owned();
        let port = connect["port"].as_u64().and_then(|port| u16::try_from(port).ok());
        Self { request: request.to_owned(), address: port.map(|port| (host, port)), configuration }
    }
}

impl Session {
    /// Opens the sessions that were asked for. Not while one is being opened: this is called wherever something comes in.
    pub(super) fn adopt_children(&mut self) {
        if self.is_adopting || self.children.is_empty() {
            return;
        }
        self.is_adopting = true;
        while let Some(child) = (!self.children.is_empty()).then(|| self.children.remove(0)) {
            if self.late_children >= MOST_LATE {
                self.refused_children += 1;
                continue;
            }
            let adopted = self.adopt(&child);
            if let Err(refusal) = adopted {
                self.late_children += u32::from(matches!(refusal, Refusal::Late { .. }));
                let why = refusal.why();
                tracing::debug!(%why, "a child session cannot be opened");
                self.refused_children += 1;
                self.notes.push(format!("a process that the program started is not followed: {why}"));
            }
        }
        self.is_adopting = false;
    }

    fn adopt(&mut self, child: &Child) -> Result<(), Refusal> {
        if self.client.connections.len() >= MOST_CONNECTIONS {
            return Err(Refusal::Refused(format!("{MOST_CONNECTIONS} are followed already")));
        }
        let address = child.address.clone().or_else(|| Some(("127.0.0.1".into(), self.port?)));
        let Some((host, port)) = address else {
            return Err(Refusal::Refused("the adapter does not say where it is".into()));
        };
        let failed =
            |error: std::io::Error| Refusal::Refused(format!("cannot connect to port {port}: {error}"));
        let address = std::net::ToSocketAddrs::to_socket_addrs(&(host.as_str(), port))
            .map_err(failed)?
            .find(|address| address.ip().is_loopback())
            .ok_or_else(|| Refusal::Refused(format!("`{host}` is not this machine")))?;
        let socket = TcpStream::connect_timeout(&address, CONNECT_WITHIN).map_err(failed)?;
        let id = self.client.connect(|id, sender| connect_socket(id, socket, sender)).map_err(failed)?;
        let within = READY_WITHIN.min(self.answer_within());
        self.initialize(id, within)?;
        let launch = self
            .client
            .send(id, &child.request, child.configuration.clone())
            .map_err(|error| Refusal::Refused(error.to_string()))?;
        self.client.connections[id.0].begun_by = Some(launch);
        self.await_initialized(id, launch, READY_WITHIN)?;
        self.configure(id)?;
        Ok(())
    }

    /// Introduces ourselves.
    pub(super) fn initialize(&mut self, id: ConnectionId, within: Duration) -> Result<(), Refusal> {
        let arguments = json!({
            "clientID": "hindcast",
            "clientName": "hindcast",
            "adapterID": self.profile.adapter_id,
            "locale": "en",
            "linesStartAt1": true,
            "columnsStartAt1": true,
            "pathFormat": "path",
            "supportsVariableType": true,
            "supportsVariablePaging": true,
            "supportsRunInTerminalRequest": true,
            "supportsStartDebuggingRequest": true,
            "supportsMemoryReferences": false,
            "supportsProgressReporting": false,
        });
        let capabilities: Capabilities = self.ask_within(id, "initialize", arguments, within)?;
        self.client.connections[id.0].capabilities = capabilities;
        Ok(())
    }

    /// Waits until the adapter wants to hear of breakpoints.
    pub(super) fn await_initialized(
        &mut self,
        id: ConnectionId,
        launch: i64,
        within: Duration,
    ) -> Result<(), Refusal> {
        let until = std::time::Instant::now() + within;
        loop {
            if let Some(response) = self.client.take_answer(id, launch) {
                if !response.success {
                    return Err(Refusal::Refused(response.failure()));
                }
                self.client.connections[id.0].is_launched = true;
            }
            let connection = &self.client.connections[id.0];
            if connection.is_initialized {
                return Ok(());
            }
            if let Some(why) = connection.closed.clone() {
                return Err(Refusal::Gone(why));
            }
            if matches!(self.state, State::Ended { .. }) {
                return Err(Refusal::Refused("the program ended before it could be debugged".into()));
            }
            if !self.pump(Some(until)) {
                return Err(Refusal::Late { command: "launch".into(), waited: within });
            }
        }
    }

    /// Tells a connection of all breakpoints, and lets it go.
    pub(super) fn configure(&mut self, id: ConnectionId) -> Result<(), Refusal> {
        self.send_all_breakpoints(id)?;
        if self.stops_by_request() {
            let request = self.profile.entry_request.clone();
            self.tell(id, &request.command, request.ask)?;
        }
        if self.client.connections[id.0].capabilities.supports_configuration_done_request {
            self.tell(id, "configurationDone", Value::Null)?;
        }
        Ok(())
    }
}
