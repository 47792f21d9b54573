//! Requests to Qdrant, and what their failures mean.

use std::{
    path::PathBuf,
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use hindcast_core::knowledge::IndexError;
use reqwest::{
    Certificate, Method, StatusCode, Url,
    blocking::{Client, Response},
    header::HeaderValue,
    redirect,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::SERVER;
use crate::tls;

/// Who does not take the connection by then is not there.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// For searches and other short questions.
pub(super) const READ_LIMIT: Duration = Duration::from_secs(10);
/// For changes. A cluster that has just lost a node needs half a minute to notice.
pub(super) const WRITE_LIMIT: Duration = Duration::from_secs(60);
/// After a failure nobody waits for the server again so soon: searches go on without it.
const REST: Duration = Duration::from_millis(500);
/// An answer that is longer is not one.
const LONGEST_REASON: usize = 500;

/// A server and how to get into it. Cannot be used on a thread of an asynchronous runtime.
pub(super) struct QdrantClient {
    /// Made at the first request, on a thread that may wait.
    http: OnceLock<Client>,
    base: Url,
    key: Option<HeaderValue>,
    tls_ca: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When the last request failed because nobody answered, and why.
    failed: Option<(Instant, String)>,
}

#[derive(Deserialize)]
struct Answer<T> {
    result: T,
}

/// What Qdrant says instead of a result.
#[derive(Deserialize)]
struct Refusal {
    status: RefusalStatus,
}

#[derive(Deserialize)]
struct RefusalStatus {
    error: String,
}

impl QdrantClient {
    /// The server at an address. Nothing is sent yet.
    pub(super) fn new(url: &str, key: Option<&str>, tls_ca: Option<PathBuf>) -> Result<Self, IndexError> {
        let bad = |reason: String| IndexError::Unavailable(format!("`vectors.url`: {reason}"));
        let mut base = Url::parse(url).map_err(|error| bad(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(bad("it is not the address of an HTTP server".into()));
        }
        // Everything is asked for below it.
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let key = key.map(|key| {
            let mut value = HeaderValue::from_str(key).map_err(|_| {
                IndexError::Unavailable("`vectors.api_key_file` has letters that no key has".into())
            })?;
            value.set_sensitive(true);
            Ok(value)
        });
        Ok(Self { http: OnceLock::new(), base, key: key.transpose()?, tls_ca, state: Mutex::default() })
    }

    /// Whether what is sent stays on this machine or is encrypted.
    pub(super) fn is_private(&self) -> bool {
        let is_loopback = match self.base.host_str() {
            Some("localhost") => true,
            Some(host) => host
                .trim_matches(['[', ']'])
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback()),
            None => false,
        };
        self.base.scheme() == "https" || is_loopback
    }

    /// Gets something; none where it is not there.
    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, IndexError> {
        self.ask(Method::GET, path, None::<&()>, READ_LIMIT)
    }

    /// Sends something and gives the result; none where the collection is not there.
    pub(super) fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        limit: Duration,
    ) -> Result<Option<T>, IndexError> {
        let Some(answer) = self.send(method, path, body, limit)? else { return Ok(None) };
        let answer = serde_json::from_slice::<Answer<T>>(&answer);
        answer
            .map(|answer| Some(answer.result))
            .map_err(|error| refused(format!("the answer to `{path}` cannot be read: {error}")))
    }

    /// The same, and gives the answer as it came.
    pub(super) fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        limit: Duration,
    ) -> Result<Option<Vec<u8>>, IndexError> {
        self.check_rest()?;
        let url = self.base.join(path).map_err(|error| refused(error.to_string()))?;
        let mut request = self.http()?.request(method, url).timeout(limit);
        if let Some(key) = &self.key {
            request = request.header("api-key", key.clone());
        }
        if let Some(body) = body {
            let body = serde_json::to_vec(body).map_err(|error| refused(error.to_string()))?;
            request = request.header("content-type", "application/json").body(body);
        }
        let answer = request.send().map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        if status == StatusCode::NOT_FOUND {
            self.note_answer();
            return Ok(None);
        }
        if !status.is_success() {
            return Err(self.refusal(status, answer));
        }
        let bytes = answer.bytes().map_err(|error| self.unreachable(&error))?;
        self.note_answer();
        Ok(Some(bytes.into()))
    }

    fn http(&self) -> Result<&Client, IndexError> {
        if let Some(client) = self.http.get() {
            return Ok(client);
        }
        tls::ensure_provider();
        let mut builder =
            Client::builder().connect_timeout(CONNECT_LIMIT).redirect(redirect::Policy::none()).no_proxy();
        if let Some(file) = &self.tls_ca {
            let unreadable = |error: &dyn std::fmt::Display| {
                IndexError::Unavailable(format!(
                    "`vectors.tls_ca`, `{}`, cannot be read: {error} · hint: give a file with certificates in PEM",
                    file.display()
                ))
            };
            let text = std::fs::read(file).map_err(|error| unreadable(&error))?;
            let trusted = Certificate::from_pem_bundle(&text).map_err(|error| unreadable(&error))?;
            if trusted.is_empty() {
                return Err(unreadable(&"it has no certificate"));
            }
            builder = builder.tls_certs_only(trusted);
        }
        let client = builder.build().map_err(|error| IndexError::Unavailable(error.to_string()))?;
        Ok(self.http.get_or_init(|| client))
    }

    /// Fails at once while a failure is fresh.
    fn check_rest(&self) -> Result<(), IndexError> {
        match &self.state().failed {
            Some((at, reason)) if at.elapsed() < REST => Err(unreachable(reason.clone())),
            _ => Ok(()),
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> IndexError {
        // The innermost says why.
        let mut cause: &dyn std::error::Error = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        let limit = if error.is_timeout() { "it did not answer in time: " } else { "" };
        let place = self.base.host_str().unwrap_or_default();
        self.note_failure(format!("{place}: {limit}{cause}"))
    }

    /// Remembers that nobody answered, and tells the log when that is new.
    fn note_failure(&self, reason: String) -> IndexError {
        let before = self.state().failed.replace((Instant::now(), reason.clone()));
        if before.is_none() {
            tracing::warn!(%reason, "{SERVER} does not answer");
        }
        unreachable(reason)
    }

    fn note_answer(&self) {
        if self.state().failed.take().is_some() {
            tracing::info!("{SERVER} answers again");
        }
    }

    /// An answer that is no result. Where the server or its cluster failed, it may answer better later.
    fn refusal(&self, status: StatusCode, answer: Response) -> IndexError {
        let text = answer.text().unwrap_or_default();
        let said = serde_json::from_str::<Refusal>(&text).map_or(text, |refusal| refusal.status.error);
        let reason = format!("{status}: {}", said.chars().take(LONGEST_REASON).collect::<String>());
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return self.note_failure(reason);
        }
        self.note_answer();
        tracing::warn!(%reason, "{SERVER} refuses a request");
        refused(reason)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unreachable(reason: String) -> IndexError {
    IndexError::Unreachable { server: SERVER, reason }
}

pub(super) fn refused(reason: String) -> IndexError {
    IndexError::Refused { server: SERVER, reason }
}
