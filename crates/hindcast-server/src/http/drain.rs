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
use http_body_util::BodyExt as _;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

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

/// A body that ends early when the server no longer waits for its end.
pub(super) struct CutShort {
    body: Body,
    cut: Option<Cut>,
}

/// What is sent last then.
struct Cut {
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    last: Bytes,
}

impl CutShort {
    /// The same body, which ends with `last` when it has not ended before `cut`.
    pub(super) fn new(body: Body, cut: &CancellationToken, last: Bytes) -> Self {
        let cancelled = Box::pin(cut.clone().cancelled_owned());
        Self { body, cut: Some(Cut { cancelled, last }) }
    }
}

impl http_body::Body for CutShort {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let is_cut = polled.is_pending()
            && self.cut.as_mut().is_some_and(|cut| cut.cancelled.as_mut().poll(context).is_ready());
        match self.cut.take_if(|_| is_cut) {
            Some(cut) => {
                self.body = http_body_util::Empty::new().boxed();
                Poll::Ready(Some(Ok(Frame::data(cut.last))))
            }
            None => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
