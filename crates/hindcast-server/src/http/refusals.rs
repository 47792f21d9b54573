//! Saying no, and writing it down without letting a flood of it fill the trail.

use std::{
    net::IpAddr,
    num::NonZeroU32,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use hindcast_core::{audit::AuditRecord, identity::PrincipalId};
use hindcast_services::gateway::Refusal;
use http::Response;
use serde_json::Value;

use super::{
    Body,
    answer::{self, With},
};
use crate::{
    app::App,
    catalogue::{ErrorKind, WireError},
    excerpt::excerpt,
};

/// After a burst of this many refusals…
const BURST: NonZeroU32 = NonZeroU32::new(1000).expect("not zero");
/// …so many a second are written down.
const PER_SECOND: NonZeroU32 = NonZeroU32::new(10).expect("not zero");

/// What is known of a request that is turned away.
pub(super) struct Attempt<'a> {
    pub(super) from: IpAddr,
    pub(super) principal: Option<&'a PrincipalId>,
    pub(super) method: &'a str,
    /// The tool or resource it named.
    pub(super) subject: Option<&'a str>,
    pub(super) id: &'a Value,
}

/// Writes refusals down, up to a rate.
pub(super) struct Refusals {
    rate: governor::DefaultDirectRateLimiter,
    unwritten: AtomicU64,
}

impl Refusals {
    pub(super) fn new() -> Self {
        let quota = governor::Quota::per_second(PER_SECOND).allow_burst(BURST);
        Self { rate: governor::RateLimiter::direct(quota), unwritten: AtomicU64::new(0) }
    }

    /// The answer to somebody who was refused.
    pub(super) async fn turn_away(
        &self,
        app: &App,
        refusal: Refusal,
        attempt: Attempt<'_>,
    ) -> Response<Body> {
        let error = WireError::of(refusal.failure, app.tool_names);
        // The trail is in the same store: waiting for it would only make the answer later.
        let can_write = error.kind != ErrorKind::StoreUnreachable;
        if let Some(unwritten) = can_write.then(|| self.may_write()).flatten() {
            let record = AuditRecord {
                time: app.now(),
                principal: attempt.principal.cloned(),
                key_id: refusal.key,
                ip: Some(attempt.from.to_canonical().to_string()),
                method: attempt.method.to_owned().into(),
                tool: attempt.subject.map(|subject| excerpt(subject, 80)),
                target: (unwritten > 0).then(|| format!("and {unwritten} more refusals not written down")),
                session_id: None,
                outcome: error.kind.entry().outcome.into(),
                duration_us: 0,
            };
            if let Err(failure) = app.gateway.audit().append(record).await {
                tracing::error!(%failure, "a refusal could not be written down");
            }
        }
        let mut response = answer::error(&error, attempt.id);
        if error.kind == ErrorKind::AuthenticationFailed {
            response = response.with("www-authenticate", r#"Bearer realm="hindcast", error="invalid_token""#);
        }
        if let Some(seconds) = refusal.retry_after {
            response = response.with("retry-after", seconds);
        }
        answer::with_limit(response, refusal.used_up.as_ref())
    }

    /// How many went unwritten since the last one, if this one may be written.
    fn may_write(&self) -> Option<u64> {
        if self.rate.check().is_ok() {
            return Some(self.unwritten.swap(0, Relaxed));
        }
        self.unwritten.fetch_add(1, Relaxed);
        None
    }
}
