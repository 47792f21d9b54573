//! Requests and their answers, over one or several connections.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::Instant,
};

use hindcast_core::debug::Interrupt;
use serde_json::{Value, json};

use crate::{
    protocol::{Capabilities, Response},
    transport::{ConnectionId, Incoming, Writer},
};

/// So many messages wait to be looked at before an adapter has to.
const WAITING: usize = 4096;

/// The connections of a session.
pub(crate) struct Client {
    incoming: Receiver<Incoming>,
    sender: SyncSender<Incoming>,
    pub(crate) connections: Vec<Connection>,
    answers: HashMap<(ConnectionId, i64), Response>,
    /// How many messages were looked at after the time was up.
    overtime: usize,
}

/// One connection.
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    writer: Option<Writer>,
    pub(crate) capabilities: Capabilities,
    /// Whether the adapter wants to be told of breakpoints.
    pub(crate) is_initialized: bool,
    /// Whether the request that begins it was answered.
    pub(crate) is_launched: bool,
    /// That request, where nobody waits for its answer.
    pub(crate) begun_by: Option<i64>,
    /// Whether its program has ended, or the connection.
    pub(crate) is_over: bool,
    /// Why it was closed.
    pub(crate) closed: Option<String>,
    /// The requests that nobody waits for.
    forgotten: Vec<i64>,
}

/// Ends a movement early.
pub(crate) struct Bell {
    rung: AtomicBool,
    sender: SyncSender<Incoming>,
}

impl Bell {
    /// Whether it rang since the last time this was asked.
    pub(crate) fn take(&self) -> bool {
        self.rung.swap(false, Ordering::AcqRel)
    }
}

impl Interrupt for Bell {
    fn interrupt(&self) {
        self.rung.store(true, Ordering::Release);
        // Where it is full, whoever waits is awake already.
        let _ = self.sender.try_send(Incoming::Bell);
    }
}

impl Client {
    pub(crate) fn new() -> Self {
        let (sender, incoming) = sync_channel(WAITING);
        Self { incoming, sender, connections: Vec::new(), answers: HashMap::new(), overtime: 0 }
    }

    /// What ends movements.
    pub(crate) fn bell(&self) -> Arc<Bell> {
        Arc::new(Bell { rung: AtomicBool::new(false), sender: self.sender.clone() })
    }

    /// Where connections tell what comes in.
    pub(crate) fn sender(&self) -> SyncSender<Incoming> {
        self.sender.clone()
    }

    /// Makes a connection.
    pub(crate) fn connect(
        &mut self,
        by: impl FnOnce(ConnectionId, SyncSender<Incoming>) -> io::Result<Writer>,
    ) -> io::Result<ConnectionId> {
        let id = ConnectionId(self.connections.len());
        let writer = by(id, self.sender.clone())?;
        self.connections.push(Connection {
            id,
            writer: Some(writer),
            capabilities: Capabilities::default(),
            is_initialized: false,
            is_launched: false,
            begun_by: None,
            is_over: false,
            closed: None,
            forgotten: Vec::new(),
        });
        Ok(id)
    }

    /// Sends a request; the answer is for whoever asks for it by this number.
    pub(crate) fn send(&mut self, to: ConnectionId, command: &str, arguments: Value) -> io::Result<i64> {
        let mut message = json!({ "type": "request", "command": command });
        if !arguments.is_null() {
            message["arguments"] = arguments;
        }
        self.write(to, message)
    }

    /// The same, where nobody waits for the answer.
    pub(crate) fn send_and_forget(
        &mut self,
        to: ConnectionId,
        command: &str,
        arguments: Value,
    ) -> io::Result<()> {
        let seq = self.send(to, command, arguments)?;
        self.connections[to.0].forgotten.push(seq);
        Ok(())
    }

    /// Answers a request of the adapter.
    pub(crate) fn answer(&mut self, to: ConnectionId, seq: i64, command: &str, body: Result<Value, String>) {
        let mut message = json!({ "type": "response", "request_seq": seq, "command": command,
            "success": body.is_ok() });
        match body {
            Ok(body) => message["body"] = body,
            Err(why) => message["message"] = why.into(),
        }
        // An adapter that is gone is noticed where it is read from.
        let _ = self.write(to, message);
    }

    fn write(&mut self, to: ConnectionId, message: Value) -> io::Result<i64> {
        match &mut self.connections[to.0].writer {
            Some(writer) => writer.send(message),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// What comes in next; `None` where nothing has by then. What waits then is still looked at, but an adapter that sends
    /// without end does not keep anybody longer.
    pub(crate) fn next(&mut self, until: Option<Instant>) -> Option<Incoming> {
        let Some(until) = until else { return self.incoming.recv().ok() };
        let left = until.saturating_duration_since(Instant::now());
        self.overtime = if left.is_zero() { self.overtime + 1 } else { 0 };
        let incoming = (self.overtime <= WAITING).then(|| self.incoming.recv_timeout(left).ok()).flatten();
        if incoming.is_none() {
            self.overtime = 0;
        }
        incoming
    }

    /// Keeps an answer for whoever asked.
    pub(crate) fn keep_answer(&mut self, from: ConnectionId, response: Response) {
        let forgotten = &mut self.connections[from.0].forgotten;
        if let Some(at) = forgotten.iter().position(|seq| *seq == response.request_seq) {
            forgotten.swap_remove(at);
            return;
        }
        // An adapter that answers what nobody asked must not fill the memory.
        if self.answers.len() < WAITING {
            self.answers.insert((from, response.request_seq), response);
        }
    }

    /// The answer to a request, if it has come.
    pub(crate) fn take_answer(&mut self, from: ConnectionId, seq: i64) -> Option<Response> {
        self.answers.remove(&(from, seq))
    }

    /// Whether the adapter has answered the request that begins a connection.
    pub(crate) fn has_begun(&mut self, id: ConnectionId) -> bool {
        if let Some(seq) = self.connections[id.0].begun_by
            && self.take_answer(id, seq).is_some()
        {
            self.connections[id.0].is_launched = true;
        }
        self.connections[id.0].is_launched
    }

    /// Gives up waiting for an answer.
    pub(crate) fn forget(&mut self, from: ConnectionId, seq: i64) {
        self.connections[from.0].forgotten.push(seq);
    }

    /// Ends all connections.
    pub(crate) fn hang_up(&mut self) {
        self.connections.iter_mut().for_each(|connection| connection.writer = None);
    }

    /// No more comes from there.
    pub(crate) fn close(&mut self, id: ConnectionId, why: Option<String>) {
        let connection = &mut self.connections[id.0];
        connection.writer = None;
        connection.is_over = true;
        connection.closed = Some(why.unwrap_or_else(|| "it has ended".into()));
    }
}
