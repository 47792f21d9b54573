//! Progress from a tool to the client that asked for it.

use std::sync::Arc;

use hindcast_core::progress::Progress;
use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// The newest state of the work; a slow client misses states, never the newest.
#[derive(Clone, PartialEq)]
struct State {
    done: u64,
    total: Option<u64>,
    message: String,
}

struct Watched {
    cancelled: CancellationToken,
    state: Option<watch::Sender<Option<State>>>,
}

impl Progress for Watched {
    fn report(&self, done: u64, total: Option<u64>, message: &str) {
        let Some(sender) = &self.state else { return };
        sender.send_if_modified(|state| {
            // Progress must grow with every notification.
            let grows = state.as_ref().is_none_or(|state| done > state.done);
            if grows {
                *state = Some(State { done, total, message: message.into() });
            }
            grows
        });
    }

    fn cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }
}

/// Passes progress on until the work is done.
pub(super) struct Forwarder(Option<JoinHandle<()>>);

impl Forwarder {
    /// Waits until the last state is on its way.
    pub(super) async fn finish(self) {
        if let Some(task) = self.0 {
            // It ends by itself once the work has dropped its end.
            let _ = task.await;
        }
    }
}

/// What to hand to the work, and what to wait for after it.
pub(super) fn watch(context: &RequestContext<RoleServer>, plain: bool) -> (Arc<dyn Progress>, Forwarder) {
    let cancelled = if plain { CancellationToken::new() } else { context.ct.clone() };
    let token = context.meta.get_progress_token().filter(|_| !plain);
    let Some(token) = token else {
        return (Arc::new(Watched { cancelled, state: None }), Forwarder(None));
    };
    let (sender, receiver) = watch::channel(None);
    let task = tokio::spawn(forward(receiver, token, context.peer.clone()));
    (Arc::new(Watched { cancelled, state: Some(sender) }), Forwarder(Some(task)))
}

async fn forward(mut states: watch::Receiver<Option<State>>, token: ProgressToken, peer: Peer<RoleServer>) {
    while states.changed().await.is_ok() {
        let Some(state) = states.borrow_and_update().clone() else { continue };
        #[allow(clippy::cast_precision_loss, reason = "counts of things that were really counted")]
        let mut notice =
            ProgressNotificationParam::new(token.clone(), state.done as f64).with_message(state.message);
        #[allow(clippy::cast_precision_loss, reason = "counts of things that were really counted")]
        if let Some(total) = state.total {
            notice = notice.with_total(total.max(state.done) as f64);
        }
        if peer.notify_progress(notice).await.is_err() {
            return;
        }
    }
}
