//! What was sent on event streams, kept for a while so that a client whose connection broke can fetch it.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use async_trait::async_trait;
use rmcp::{
    model::ServerJsonRpcMessage,
    transport::streamable_http_server::session::{
        EventStore, EventStoreError, EventStream, ServerSseMessage,
    },
};
use tokio::sync::watch;

/// All kept events together are no larger than this.
const MOST_BYTES: usize = 16 << 20;

/// The newest events of all streams. An event's id is its stream's name and its number; the name holds a
/// random id that only the stream's own client was told.
pub(super) struct Replay {
    kept: Mutex<Kept>,
    stored: watch::Sender<u64>,
    /// For streams that follow it.
    itself: Weak<Self>,
}

#[derive(Default)]
struct Kept {
    streams: HashMap<Arc<str>, VecDeque<Event>>,
    /// Oldest first, for forgetting.
    order: VecDeque<(Arc<str>, usize)>,
    bytes: usize,
    next: u64,
}

struct Event {
    number: u64,
    message: ServerSseMessage,
}

impl Replay {
    pub(super) fn new() -> Arc<Self> {
        Arc::new_cyclic(|itself| Self {
            kept: Mutex::default(),
            stored: watch::Sender::new(0),
            itself: itself.clone(),
        })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The event after `number`; `Err` when there will be none.
    fn after(&self, stream: &str, number: u64) -> Result<Option<(u64, ServerSseMessage)>, Ended> {
        let kept = self.kept();
        let events = kept.streams.get(stream).ok_or(Ended)?;
        match events.iter().find(|event| event.number > number) {
            Some(event) => Ok(Some((event.number, event.message.clone()))),
            None if events.back().is_some_and(|event| is_last(&event.message)) => Err(Ended),
            None => Ok(None),
        }
    }
}

/// Nothing more comes on this stream, or it is forgotten.
struct Ended;

/// The stream of a request ends with its answer.
fn is_last(event: &ServerSseMessage) -> bool {
    let message = event.message.as_deref();
    matches!(message, Some(ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_)))
}

impl Kept {
    fn keep(&mut self, stream: &str, message: &ServerSseMessage) -> (String, u64) {
        self.next += 1;
        let number = self.next;
        let id = format!("{stream}#{number}");
        let mut message = message.clone();
        message.event_id = Some(id.clone());
        let bytes = size_of(&message);
        let stream: Arc<str> = stream.into();
        self.streams.entry(stream.clone()).or_default().push_back(Event { number, message });
        self.order.push_back((stream, bytes));
        self.bytes += bytes;
        while self.bytes > MOST_BYTES {
            let Some((oldest, bytes)) = self.order.pop_front() else { break };
            self.bytes -= bytes;
            if let Some(events) = self.streams.get_mut(&oldest) {
                events.pop_front();
                if events.is_empty() {
                    self.streams.remove(&oldest);
                }
            }
        }
        (id, number)
    }
}

/// About what an event takes.
fn size_of(event: &ServerSseMessage) -> usize {
    let text = event.message.as_deref().and_then(|message| serde_json::to_vec(message).ok());
    text.map_or(0, |text| text.len()) + 200
}

#[async_trait]
impl EventStore for Replay {
    async fn store_event(
        &self,
        stream_id: &str,
        event: &ServerSseMessage,
    ) -> Result<String, EventStoreError> {
        let (id, number) = self.kept().keep(stream_id, event);
        self.stored.send_replace(number);
        Ok(id)
    }

    /// What was kept, and then what comes, until the stream ends.
    async fn replay_events_after(&self, last_event_id: &str) -> Result<EventStream, EventStoreError> {
        let (stream, number) = last_event_id.rsplit_once('#').ok_or("the event id is none of ours")?;
        let start = (stream.to_owned(), number.parse::<u64>()?, self.stored.subscribe());
        let replay = self.itself.upgrade().ok_or("the server is stopping")?;
        Ok(Box::pin(futures::stream::unfold(start, move |(stream, number, mut stored)| {
            let replay = replay.clone();
            async move {
                loop {
                    stored.mark_unchanged();
                    match replay.after(&stream, number) {
                        Err(Ended) => return None,
                        Ok(Some((number, message))) => return Some((message, (stream, number, stored))),
                        Ok(None) => stored.changed().await.ok()?,
                    }
                }
            }
        })))
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use serde_json::json;

    use super::*;

    fn message(value: serde_json::Value) -> ServerSseMessage {
        ServerSseMessage::from_message(serde_json::from_value(value).unwrap())
    }

    fn progress() -> ServerSseMessage {
        message(
            json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": 1, "progress": 1.0 } }),
        )
    }

    fn answer() -> ServerSseMessage {
        message(json!({ "jsonrpc": "2.0", "id": 1, "result": {} }))
    }

    #[tokio::test]
    async fn a_stream_is_replayed_and_followed_to_its_answer() {
        let replay = Replay::new();
        let first = replay.store_event("session:1", &progress()).await.unwrap();
        replay.store_event("session:2", &progress()).await.unwrap();
        let second = replay.store_event("session:1", &progress()).await.unwrap();
        let mut rest = replay.replay_events_after(&first).await.unwrap();
        assert_eq!(rest.next().await.unwrap().event_id, Some(second));
        let last = replay.store_event("session:1", &answer()).await.unwrap();
        assert_eq!(rest.next().await.unwrap().event_id, Some(last.clone()));
        assert!(rest.next().await.is_none());
        assert!(replay.replay_events_after(&last).await.unwrap().next().await.is_none());
    }

    #[tokio::test]
    async fn the_oldest_events_are_forgotten() {
        let replay = Replay::new();
        let large =
            message(json!({ "jsonrpc": "2.0", "id": 1, "result": { "x": "x".repeat(MOST_BYTES / 4) } }));
        let first = replay.store_event("session:1", &progress()).await.unwrap();
        for number in 0..8 {
            replay.store_event(&format!("session:{number}"), &large).await.unwrap();
        }
        assert!(replay.kept().bytes <= MOST_BYTES);
        assert!(replay.replay_events_after(&first).await.unwrap().next().await.is_none());
    }
}
