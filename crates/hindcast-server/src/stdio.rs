//! MCP over standard input and output, for one local user.

use std::{
    collections::HashSet,
    sync::{Arc, PoisonError},
};

use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ClientNotification, RequestId, ServerJsonRpcMessage},
    transport::Transport,
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    sync::{Mutex, Notify, Semaphore},
};

use crate::{
    app::App,
    catalogue::{ErrorKind, WireError, explain},
    jsonrpc::{Message, Refused},
    mcp::Handler,
};

/// A line longer than this is refused; the rest of it is skipped.
const LONGEST_LINE: usize = 4 << 20;

/// Nothing more is read while this many refusals wait to be written.
const MOST_REFUSALS: u32 = 64;

/// Serves until the client closes its end and everything it asked for is answered.
pub async fn serve(app: Arc<App>) -> std::io::Result<()> {
    serve_over(app, BufReader::with_capacity(64 << 10, tokio::io::stdin()), tokio::io::stdout()).await
}

/// The same over any pair of streams.
pub(crate) async fn serve_over<R, W>(app: Arc<App>, reader: R, writer: W) -> std::io::Result<()>
where
    R: AsyncBufRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let lines = Lines::new(reader, writer);
    match rmcp::serve_server(Handler::local(app), lines).await {
        Ok(running) => running.waiting().await.map(|_| ()).map_err(std::io::Error::other),
        // A client that leaves before it has said anything is no failure of ours.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(std::io::Error::other(error)),
    }
}

/// One message a line. Lines that are no messages are answered here and go no further.
struct Lines<R, W> {
    reader: R,
    line: Vec<u8>,
    outgoing: Arc<Outgoing<W>>,
    /// Room for answers to lines that are no messages, on their way out.
    refusals: Arc<Semaphore>,
}

struct Outgoing<W> {
    writer: Mutex<W>,
    /// Requests that were read and are neither answered nor cancelled.
    open: std::sync::Mutex<HashSet<RequestId>>,
    answered: Notify,
}

impl<W: AsyncWrite + Unpin> Outgoing<W> {
    async fn write(&self, value: &impl serde::Serialize) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        let mut writer = self.writer.lock().await;
        writer.write_all(&line).await?;
        writer.flush().await
    }

    async fn all_answered(&self) {
        loop {
            let answered = self.answered.notified();
            if self.open().is_empty() {
                return;
            }
            answered.await;
        }
    }

    fn open(&self) -> std::sync::MutexGuard<'_, HashSet<RequestId>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settled(&self, id: Option<&RequestId>) {
        if let Some(id) = id {
            self.open().remove(id);
            self.answered.notify_waiters();
        }
    }
}

impl<R: AsyncBufRead + Unpin + Send, W: AsyncWrite + Unpin + Send + 'static> Lines<R, W> {
    fn new(reader: R, writer: W) -> Self {
        let outgoing = Outgoing {
            writer: Mutex::new(writer),
            open: std::sync::Mutex::default(),
            answered: Notify::new(),
        };
        Self {
            reader,
            line: Vec::new(),
            outgoing: Arc::new(outgoing),
            refusals: Arc::new(Semaphore::new(MOST_REFUSALS as usize)),
        }
    }

    /// Reads on to the end of a line, in pieces, so that being dropped in between loses nothing.
    /// False at the end of the input.
    async fn read_line(&mut self) -> std::io::Result<bool> {
        loop {
            let buffer = self.reader.fill_buf().await?;
            if buffer.is_empty() {
                return Ok(!self.line.is_empty());
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(buffer.len(), |end| end + 1);
            // One byte more than allowed marks the line as too long; the rest is not kept.
            let room = (LONGEST_LINE + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(&buffer[..end.unwrap_or(taken).min(room)]);
            self.reader.consume(taken);
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    fn message(line: &[u8]) -> Result<ClientJsonRpcMessage, Refused> {
        if line.len() > LONGEST_LINE {
            let error = WireError::new(
                ErrorKind::InvalidRequest,
                format!("the message is longer than {LONGEST_LINE} bytes"),
            )
            .hint("send less at a time");
            return Err(Refused { id: Value::Null, error });
        }
        Message::read(line)?.into_protocol()
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncBufRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = std::io::Result<()>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        async move {
            let written = match &item {
                // The protocol library's own errors do not say what to do next.
                ServerJsonRpcMessage::Error(_) => {
                    let mut answer = serde_json::to_value(&item)?;
                    explain(&mut answer["error"]);
                    outgoing.write(&answer).await
                }
                _ => outgoing.write(&item).await,
            };
            match &item {
                ServerJsonRpcMessage::Response(response) => outgoing.settled(Some(&response.id)),
                ServerJsonRpcMessage::Error(error) => outgoing.settled(error.id.as_ref()),
                _ => {}
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            match self.read_line().await {
                Ok(true) => {}
                // Whoever pipes in a few requests and closes still gets every answer.
                Ok(false) => {
                    self.outgoing.all_answered().await;
                    let _ = self.refusals.acquire_many(MOST_REFUSALS).await;
                    return None;
                }
                Err(error) => {
                    tracing::warn!(%error, "standard input failed");
                    return None;
                }
            }
            let Ok(room) = self.refusals.clone().acquire_owned().await else { return None };
            let line = std::mem::take(&mut self.line);
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match Self::message(&line) {
                Ok(message) => {
                    match &message {
                        ClientJsonRpcMessage::Request(request) => {
                            self.outgoing.open().insert(request.id.clone());
                        }
                        ClientJsonRpcMessage::Notification(notification) => {
                            if let ClientNotification::CancelledNotification(cancelled) =
                                &notification.notification
                            {
                                self.outgoing.settled(cancelled.params.request_id.as_ref());
                            }
                        }
                        _ => {}
                    }
                    return Some(message);
                }
                Err(refused) => {
                    // In a task of its own: whoever waits here may stop waiting at any moment.
                    let outgoing = self.outgoing.clone();
                    tokio::spawn(async move {
                        let _room = room;
                        // Whether the client still reads is found out by the next answer.
                        let _ = outgoing.write(&refused.error.answer(&refused.id)).await;
                    });
                }
            }
        }
    }

    async fn close(&mut self) -> std::io::Result<()> {
        self.outgoing.writer.lock().await.flush().await
    }
}
