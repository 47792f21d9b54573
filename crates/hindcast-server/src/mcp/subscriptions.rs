//! Telling clients that what they look at has changed.
//!
//! Changes are collected for a moment and told once, so that a burst is one notification.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hindcast_core::{
    event::{Change, Event},
    identity::Caller,
};
use hindcast_services::{debug::SourceWatch, gateway::Gateway};
use rmcp::{Peer, RoleServer, model::ResourceUpdatedNotificationParam, service::SubscriptionContext};
use tokio::{
    sync::broadcast::{self, error::RecvError},
    task::AbortHandle,
    time::Instant,
};

use crate::app::App;

/// How long changes are collected before they are told.
const COLLECT: Duration = Duration::from_millis(150);

/// What changed while nobody was told.
#[derive(Default)]
struct Changes {
    resources: HashSet<Arc<str>>,
    list: bool,
    /// So much happened that some of it was missed: everything may have changed.
    missed: bool,
}

/// Hears every change from when it was opened.
pub(super) type Ears = broadcast::Receiver<Event>;

/// The changes one caller may hear of, in bundles.
struct Bundles {
    events: Ears,
    caller: Caller,
    gateway: Arc<Gateway>,
}

impl Bundles {
    fn new(app: &App, events: Ears, caller: Caller) -> Self {
        Self { events, caller, gateway: app.gateway.clone() }
    }

    /// The next bundle; none when the server ends or the caller's key does.
    async fn next(&mut self, interesting: impl Fn(&Change) -> bool) -> Option<Changes> {
        let changes = self.collect(interesting).await?;
        self.gateway.is_still_welcome(&self.caller).await.then_some(changes)
    }

    /// Waits for a change and collects what follows closely.
    async fn collect(&mut self, interesting: impl Fn(&Change) -> bool) -> Option<Changes> {
        let mut changes = Changes::default();
        let mut deadline: Option<Instant> = None;
        loop {
            let received = match deadline {
                None => self.events.recv().await,
                Some(deadline) => match tokio::time::timeout_at(deadline, self.events.recv()).await {
                    Ok(received) => received,
                    Err(_) => return Some(changes),
                },
            };
            match received {
                Ok(event)
                    if event.audience.includes(&self.caller.principal) && interesting(&event.change) =>
                {
                    match event.change {
                        Change::Resource(uri) => drop(changes.resources.insert(uri)),
                        Change::ResourceList => changes.list = true,
                    }
                }
                Ok(_) => continue,
                Err(RecvError::Lagged(_)) => changes.missed = true,
                Err(RecvError::Closed) => return None,
            }
            deadline.get_or_insert_with(|| Instant::now() + COLLECT);
        }
    }
}

/// The subscriptions of one session; ends with it.
pub(super) struct Watcher {
    uris: Arc<Mutex<Subscribed>>,
    task: AbortHandle,
}

/// What is subscribed to, with what has to be held meanwhile.
type Subscribed = HashMap<String, Option<SourceWatch>>;

impl Watcher {
    pub(super) fn start(app: &Arc<App>, caller: Caller, peer: Peer<RoleServer>) -> Self {
        let uris = Arc::new(Mutex::new(Subscribed::new()));
        let bundles = Bundles::new(app, app.events.listen(), caller);
        let task = tokio::spawn(tell(bundles, uris.clone(), peer)).abort_handle();
        Self { uris, task }
    }

    pub(super) fn add(&self, uri: String, source: Option<SourceWatch>) {
        lock(&self.uris).insert(uri, source);
    }

    pub(super) fn remove(&self, uri: &str) {
        lock(&self.uris).remove(uri);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(uris: &Mutex<Subscribed>) -> MutexGuard<'_, Subscribed> {
    uris.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn tell(mut bundles: Bundles, uris: Arc<Mutex<Subscribed>>, peer: Peer<RoleServer>) {
    loop {
        let interesting = |change: &Change| match change {
            Change::Resource(uri) => lock(&uris).contains_key(&**uri),
            Change::ResourceList => true,
        };
        let Some(changes) = bundles.next(interesting).await else { return };
        if (changes.list || changes.missed) && peer.notify_resource_list_changed().await.is_err() {
            return;
        }
        // Unsubscribed in the meantime means untold.
        let told: Vec<_> = lock(&uris)
            .keys()
            .filter(|uri| changes.missed || changes.resources.contains(uri.as_str()))
            .cloned()
            .collect();
        for uri in told {
            if peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await.is_err() {
                return;
            }
        }
    }
}

/// Serves one `subscriptions/listen` until it is cancelled.
pub(super) async fn listen(app: &App, caller: &Caller, ears: Ears, context: &SubscriptionContext) {
    let accepted = context.accepted();
    let mut uris = HashSet::new();
    // Held for as long as they are listened to.
    let mut sources = Vec::new();
    for uri in accepted.resource_subscriptions.iter().flatten() {
        // What the caller may not read it is not told of either.
        if let Ok(source) = app.watch_resource(caller, uri).await {
            uris.insert(uri.as_str());
            sources.extend(source);
        }
    }
    let lists = accepted.resources_list_changed == Some(true);
    let mut bundles = Bundles::new(app, ears, caller.clone());
    let telling = async {
        loop {
            let interesting = |change: &Change| match change {
                Change::Resource(uri) => uris.contains(&**uri),
                Change::ResourceList => lists,
            };
            let Some(changes) = bundles.next(interesting).await else { return };
            if lists
                && (changes.list || changes.missed)
                && context.sink().notify_resource_list_changed().await.is_err()
            {
                return;
            }
            for uri in uris.iter().filter(|uri| changes.missed || changes.resources.contains(**uri)) {
                if context.sink().notify_resource_updated(*uri).await.is_err() {
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = telling => {}
        () = context.cancelled() => {}
    }
}
