//! Reading a body that is neither too large nor too slow.

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::time::timeout;

use super::{
    HttpPolicy,
    crowd::{Presence, TooMuch},
};
use crate::catalogue::{ErrorKind, WireError};

/// The whole body, or the status and error to answer with.
pub(super) async fn read(
    body: Incoming,
    policy: &HttpPolicy,
    presence: &mut Presence,
) -> Result<Bytes, (StatusCode, WireError)> {
    timeout(policy.request_timeout, collect(body, policy, presence)).await.unwrap_or_else(|_| Err(too_slow()))
}

async fn collect(
    mut body: Incoming,
    policy: &HttpPolicy,
    presence: &mut Presence,
) -> Result<Bytes, (StatusCode, WireError)> {
    let most = policy.max_body_bytes;
    // Without waiting for what its head says is too much.
    if body.size_hint().lower() > most as u64 {
        return Err(too_large(most));
    }
    let mut collected = BytesMut::new();
    loop {
        let frame = timeout(policy.connection_timeout, body.frame()).await.map_err(|_| too_slow())?;
        let Some(frame) = frame else { return Ok(collected.freeze()) };
        let frame = frame.map_err(|error| {
            let error = WireError::new(ErrorKind::InvalidRequest, format!("the body broke off: {error}"));
            (StatusCode::BAD_REQUEST, error)
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if collected.len() + data.len() > most {
            return Err(too_large(most));
        }
        presence.take_bytes(data.len()).map_err(too_much)?;
        collected.extend_from_slice(&data);
    }
}

fn too_large(most: usize) -> (StatusCode, WireError) {
    let details = format!("the body is larger than {most} bytes");
    let error = WireError::new(ErrorKind::InvalidRequest, details)
        .hint("send less at a time, or raise `server.max_body_bytes`");
    (StatusCode::PAYLOAD_TOO_LARGE, error)
}

fn too_much(too_much: TooMuch) -> (StatusCode, WireError) {
    if too_much.is_of_others {
        let error = WireError::new(ErrorKind::InternalError, "the server is reading too many bodies at once")
            .hint("try again in a moment");
        return (StatusCode::SERVICE_UNAVAILABLE, error);
    }
    let details = format!("the owner of this key is sending more than {} bytes at once", too_much.limit);
    let error =
        WireError::new(ErrorKind::QuotaExceeded, details).hint("send fewer large requests at the same time");
    (StatusCode::TOO_MANY_REQUESTS, error)
}

fn too_slow() -> (StatusCode, WireError) {
    let error = WireError::new(ErrorKind::InvalidRequest, "the body did not arrive in time")
        .hint("send it without pauses");
    (StatusCode::REQUEST_TIMEOUT, error)
}
