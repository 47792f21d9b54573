//! Stopping without cutting anybody off.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::watch;

use super::Body;

/// Counts what is under way and knows whether the server is stopping.
#[derive(Clone)]
pub(super) struct Drain {
    stopping: Arc<AtomicBool>,
    in_flight: watch::Sender<usize>,
}

/// One request under way, until its answer has been sent.
pub(super) struct InFlight(watch::Sender<usize>);

impl Drain {
    pub(super) fn new() -> Self {
        Self { stopping: Arc::default(), in_flight: watch::Sender::new(0) }
    }

    /// Counts a request in; none when the server is stopping.
    pub(super) fn enter(&self) -> Option<InFlight> {
        // Count first, look second: a stop that comes in between waits for this one.
        self.in_flight.send_if_modified(|count| {
            *count += 1;
            false
        });
        let entered = InFlight(self.in_flight.clone());
        (!self.stopping.load(Ordering::SeqCst)).then_some(entered)
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Waits until nothing is under way.
    pub(super) async fn emptied(&self) {
        // The sender is held here, so waiting cannot fail.
        let _ = self.in_flight.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        // Only the last one is waited for.
        self.0.send_if_modified(|count| {
            *count -= 1;
            *count == 0
        });
    }
}

/// A body that keeps its request counted until it has been sent or dropped.
pub(super) struct Counted {
    body: Body,
    _in_flight: InFlight,
}

impl Counted {
    pub(super) fn new(body: Body, in_flight: InFlight) -> Self {
        Self { body, _in_flight: in_flight }
    }
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
