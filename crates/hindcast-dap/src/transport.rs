//! One connection to an adapter: messages with a header, over pipes or TCP.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    os::{linux::net::TcpStreamExt, unix::net::UnixStream},
    sync::mpsc::{SyncSender, TrySendError, sync_channel},
};

use serde_json::Value;

use crate::protocol::Message;

/// No honest message is longer.
const LONGEST_MESSAGE: usize = 64 << 20;
/// No honest header is longer.
const LONGEST_HEADER: u64 = 4 << 10;

/// Which connection of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnectionId(pub(crate) usize);

/// What comes in, from whichever connection.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A message.
    Message(ConnectionId, Message),
    /// No more will come from there; why, unless the adapter just closed it.
    Closed(ConnectionId, Option<String>),
    /// The program that we started has ended.
    ProgramEnded,
    /// Somebody wants the movement to end.
    Bell,
}

/// So many messages wait at most for an adapter to read them.
const WAITING: usize = 1024;

/// The writing end. A thread of its own writes: an adapter that does not read must not keep anybody.
pub(crate) struct Writer {
    to: SyncSender<Vec<u8>>,
    /// Ends the thread that reads.
    hang_up: Option<Box<dyn Fn() + Send>>,
    next: i64,
}

impl Writer {
    /// Sends a message, which gets the next number.
    pub(crate) fn send(&mut self, mut message: Value) -> io::Result<i64> {
        let seq = self.next;
        self.next += 1;
        message["seq"] = seq.into();
        tracing::trace!(%message, "to the adapter");
        let body = serde_json::to_vec(&message)?;
        // In one piece: each write wakes the other side.
        let mut bytes = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
        bytes.extend(body);
        self.to.try_send(bytes).map_err(|error| match error {
            TrySendError::Full(_) => io::ErrorKind::WouldBlock,
            TrySendError::Disconnected(_) => io::ErrorKind::BrokenPipe,
        })?;
        Ok(seq)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(hang_up) = &self.hang_up {
            hang_up();
        }
    }
}

/// Reads from `from` on a thread of its own into `incoming`, and writes to `to`.
pub(crate) fn connect(
    id: ConnectionId,
    from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    incoming: SyncSender<Incoming>,
) -> io::Result<Writer> {
    let (sender, messages) = sync_channel::<Vec<u8>>(WAITING);
    std::thread::Builder::new().name("to adapter".into()).spawn(move || {
        for message in messages {
            // The one who reads notices that it is gone.
            if to.write_all(&message).and_then(|()| to.flush()).is_err() {
                break;
            }
        }
    })?;
    std::thread::Builder::new().name("adapter".into()).spawn(move || {
        let why = read_all(id, BufReader::new(from), &incoming).err().map(|error| error.to_string());
        // Nobody listens any more where this fails.
        let _ = incoming.send(Incoming::Closed(id, why));
    })?;
    Ok(Writer { to: sender, hang_up: None, next: 1 })
}

/// The same over a socket.
pub(crate) fn connect_socket(
    id: ConnectionId,
    socket: TcpStream,
    incoming: SyncSender<Incoming>,
) -> io::Result<Writer> {
    socket.set_nodelay(true)?;
    let from = Prompt(socket.try_clone()?);
    let mut writer = connect(id, from, socket.try_clone()?, incoming)?;
    writer.hang_up = Some(Box::new(move || drop(socket.shutdown(Shutdown::Both))));
    Ok(writer)
}

/// The same over a socket that is a file.
pub(crate) fn connect_file(
    id: ConnectionId,
    socket: UnixStream,
    incoming: SyncSender<Incoming>,
) -> io::Result<Writer> {
    let mut writer = connect(id, socket.try_clone()?, socket.try_clone()?, incoming)?;
    writer.hang_up = Some(Box::new(move || drop(socket.shutdown(Shutdown::Both))));
    Ok(writer)
}

/// A socket that acknowledges at once what it reads: an adapter that sends a message in two pieces would wait 40 ms for the
/// system to do so.
struct Prompt(TcpStream);

impl Read for Prompt {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        // It is only slower without.
        let _ = self.0.set_quickack(true);
        Ok(count)
    }
}

fn read_all(
    id: ConnectionId,
    mut from: impl BufRead,
    incoming: &SyncSender<Incoming>,
) -> Result<(), BadMessage> {
    while let Some(body) = read_body(&mut from)? {
        tracing::trace!(connection = id.0, message = %String::from_utf8_lossy(&body), "from the adapter");
        let message = serde_json::from_slice(&body).map_err(|error| BadMessage::Json {
            start: String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned(),
            error,
        })?;
        if incoming.send(Incoming::Message(id, message)).is_err() {
            break;
        }
    }
    Ok(())
}

/// The content of the next message; `None` at the end.
fn read_body(from: &mut impl BufRead) -> Result<Option<Vec<u8>>, BadMessage> {
    let mut length = None;
    let mut seen = 0;
    loop {
        let mut line = Vec::new();
        let read = from.by_ref().take(LONGEST_HEADER).read_until(b'\n', &mut line)?;
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\r', '\n']);
        match text.split_once(':') {
            _ if read == 0 && seen == 0 => return Ok(None),
            _ if read == 0 => return Err(BadMessage::Cut),
            // What is printed between two messages is not for us, but blank lines do no harm.
            _ if text.is_empty() && length.is_none() && seen == 0 => continue,
            _ if text.is_empty() => break,
            Some((name, value)) if name.trim().eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().ok();
            }
            Some((name, _)) if name.trim().eq_ignore_ascii_case("content-type") => {}
            _ => return Err(BadMessage::Header(text.chars().take(80).collect())),
        }
        seen += 1;
    }
    match length {
        Some(length) if length <= LONGEST_MESSAGE => {
            let mut body = vec![0; length];
            from.read_exact(&mut body).map_err(|_| BadMessage::Cut)?;
            Ok(Some(body))
        }
        Some(length) => Err(BadMessage::TooLong(length)),
        None => Err(BadMessage::Header("no length".into())),
    }
}

/// What an adapter sent that is no message.
#[derive(Debug, thiserror::Error)]
enum BadMessage {
    #[error("it sent `{0}` where a message should begin")]
    Header(String),
    #[error("it announced a message of {0} bytes")]
    TooLong(usize),
    #[error("it ended in the middle of a message")]
    Cut,
    #[error("it sent `{start}`, which is no message: {error}")]
    Json { start: String, error: serde_json::Error },
    #[error("it cannot be read from: {0}")]
    Io(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let (sender, receiver) = std::sync::mpsc::sync_channel(8);
        let outcome = read_all(ConnectionId(0), text.as_bytes(), &sender);
        drop(sender);
        let events = receiver.iter().map(|incoming| match incoming {
            Incoming::Message(_, Message::Event(event)) => event.event,
            other => format!("{other:?}"),
        });
        let mut seen: Vec<String> = events.collect();
        seen.extend(outcome.err().map(|error| error.to_string()));
        assert_eq!(seen.join(" "), expected);
    }

    fn framed(body: &str) -> String {
        format!("Content-Length: {}\r\n\r\n{body}", body.len())
    }

    #[test]
    fn messages_are_read_one_after_the_other() {
        let event = |name| framed(&format!(r#"{{"seq":1,"type":"event","event":"{name}"}}"#));
        check(&(event("one") + &event("two")), "one two");
        check(&format!("\r\n{}", event("one")), "one");
        check(&event("one").replace("Content-Length", "content-length"), "one");
    }

    #[test]
    fn garbage_is_refused_with_what_was_sent() {
        check("hello\n", "it sent `hello` where a message should begin");
        check("Content-Length: 9999999999\r\n\r\n", "it announced a message of 9999999999 bytes");
        check("Content-Length: 10\r\n\r\n{}", "it ended in the middle of a message");
        check("Content-Length: x\r\n\r\n{}", "it sent `no length` where a message should begin");
        check(&"x".repeat(1 << 20), &format!("it sent `{}` where a message should begin", "x".repeat(80)));
        let bad = framed("{}");
        let (sender, _receiver) = std::sync::mpsc::sync_channel(8);
        let error = read_all(ConnectionId(0), bad.as_bytes(), &sender).unwrap_err().to_string();
        assert!(error.starts_with("it sent `{}`, which is no message: "), "{error}");
    }
}
