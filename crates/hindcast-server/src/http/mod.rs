//! MCP over HTTPS.

mod answer;
mod body;
mod crowd;
mod direct;
mod drain;
mod front;
mod guard;
mod held;
mod listener;
mod operations;
mod page;
mod polish;
mod refusals;
mod replay;
mod sessions;
mod tls;
mod workers;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use bytes::Bytes;
pub use front::Front;
use http_body_util::combinators::BoxBody;
pub use listener::{Listener, serve};
pub use page::Ticket;
pub use tls::{Certificate, TlsError};

const PROTOCOL_VERSION: &str = "mcp-protocol-version";

type Body = BoxBody<Bytes, std::convert::Infallible>;

/// What the operator decided about the HTTP side.
#[derive(Debug, Clone)]
pub struct HttpPolicy {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Host names it answers to, beyond loopback and the address it listens on.
    pub allowed_hosts: Vec<String>,
    /// Web pages that may call it.
    pub allowed_origins: Vec<String>,
    /// Larger bodies are refused.
    pub max_body_bytes: usize,
    /// More connections wait to be accepted.
    pub max_connections: usize,
    /// For a TLS handshake, for a request's head, between two pieces of its body.
    pub connection_timeout: Duration,
    /// For an answer.
    pub request_timeout: Duration,
    /// For requests in flight when the server is told to stop.
    pub drain_timeout: Duration,
    /// Whether it speaks TLS itself, so that what a browser keeps never travels in clear.
    pub is_encrypted: bool,
    /// Where whoever may read the data folder leaves tickets for the page; none where there are none.
    pub tickets: Option<PathBuf>,
    /// Shows its figures to everybody, and not only to keys with the scope `admin`.
    pub open_metrics: bool,
}
