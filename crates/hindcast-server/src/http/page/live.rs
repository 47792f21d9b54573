//! Telling an open page that what it shows has changed.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hindcast_core::{
    event::{Change, Event},
    identity::Caller,
};
use hindcast_services::{
    Failure, FailureKind,
    debug::{BREAKPOINTS_URI, SESSION_URI, THREADS_URI, TIMELINE_URI},
};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt as _;
use tokio::sync::{
    broadcast::{self, error::RecvError},
    mpsc,
};
use tokio_util::sync::CancellationToken;

use super::{Body, Turned, Visit, answer::With as _, door::Entry, frame};
use crate::{
    app::App,
    http::{crowd::Presence, held::Held},
};

/// Changes are collected for so long and told once.
const COLLECT: Duration = Duration::from_millis(200);
/// A sign of life, by which both sides notice when the other is gone.
const BEAT: Duration = Duration::from_secs(20);
/// The page asks again after so long when the connection broke.
const AGAIN: &str = "retry: 3000\n\n";

/// The stream of a page.
pub(super) async fn stream(visit: Visit<'_>, mut presence: Presence) -> Result<Response<Body>, Turned> {
    presence.become_stream().map_err(|too_much| {
        let details = format!("there are {} {} already", too_much.limit, too_much.of);
        let failure = Failure::new(FailureKind::QuotaExceeded, details).hint("close some pages");
        Box::new(frame::failed(StatusCode::TOO_MANY_REQUESTS, None, &failure))
    })?;
    let app = visit.front.app.clone();
    let ears = Ears {
        events: app.events.listen(),
        caller: visit.desk.caller,
        entry: visit.entry,
        end: visit.front.streams.clone(),
        app,
        first: true,
    };
    // A task of its own: what it waits for is no part of a body that threads may share.
    let (telling, told) = mpsc::channel(1);
    tokio::spawn(tell(ears, telling));
    let body = Told(told).boxed();
    let response = Response::new(Held::new(body, presence).boxed());
    Ok(response
        .with("content-type", "text/event-stream")
        .with("cache-control", "no-store")
        .with("x-content-type-options", "nosniff"))
}

async fn tell(mut ears: Ears, telling: mpsc::Sender<&'static str>) {
    loop {
        let text = tokio::select! {
            () = telling.closed() => return,
            text = ears.next() => text,
        };
        let Some(text) = text else { return };
        if telling.send(text).await.is_err() {
            return;
        }
    }
}

/// What is told, piece by piece.
struct Told(mpsc::Receiver<&'static str>);

impl http_body::Body for Told {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let text = self.0.poll_recv(context);
        text.map(|text| text.map(|text| Ok(Frame::data(Bytes::from_static(text.as_bytes())))))
    }
}

struct Ears {
    events: broadcast::Receiver<Event>,
    caller: Caller,
    entry: Entry,
    app: Arc<App>,
    end: CancellationToken,
    first: bool,
}

impl Ears {
    /// What to send next; none when the key or the server ends, or who listens has signed out.
    async fn next(&mut self) -> Option<&'static str> {
        if std::mem::take(&mut self.first) {
            return Some(AGAIN);
        }
        let end = self.end.clone();
        let text = tokio::select! {
            () = end.cancelled() => return None,
            text = self.wait() => text?,
        };
        let is_inside = self.entry.is_still_inside(self.app.now());
        (is_inside && self.app.gateway.is_still_welcome(&self.caller).await).then_some(text)
    }

    async fn wait(&mut self) -> Option<&'static str> {
        let changed = async {
            loop {
                match self.events.recv().await {
                    Ok(event) if self.concerns(&event) => return Some(()),
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return Some(()),
                    Err(RecvError::Closed) => return None,
                }
            }
        };
        match tokio::time::timeout(BEAT, changed).await {
            Err(_) => Some(": still here\n\n"),
            Ok(None) => None,
            Ok(Some(())) => {
                tokio::time::sleep(COLLECT).await;
                self.forget();
                Some("event: change\ndata: {}\n\n")
            }
        }
    }

    /// Passes over what came meanwhile: the page looks at all of it.
    fn forget(&mut self) {
        loop {
            match self.events.try_recv() {
                Ok(_) | Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => return,
            }
        }
    }

    fn concerns(&self, event: &Event) -> bool {
        let shown = [SESSION_URI, BREAKPOINTS_URI, THREADS_URI, TIMELINE_URI];
        event.audience.includes(&self.caller.principal)
            && match &event.change {
                Change::Resource(uri) => shown.contains(&&**uri),
                Change::ResourceList => true,
            }
    }
}
