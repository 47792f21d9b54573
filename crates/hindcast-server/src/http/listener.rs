//! Connections: accepting them, timing them out, closing them.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{Certificate, Front, TlsError, workers::Workers};

/// The longest head of a request.
const LARGEST_HEAD: usize = 64 << 10;

/// Connections beyond the most that are served…
const RESERVE: usize = 32;
/// …and how long they may take to say what they want.
const CROWDED_WAIT: Duration = Duration::from_secs(1);

/// An open port.
pub struct Listener {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl Listener {
    /// Opens the port; without a certificate it speaks plain HTTP.
    pub async fn bind(address: SocketAddr, certificate: Option<&Certificate>) -> Result<Self, ListenError> {
        let tls = certificate.map(Certificate::server_config).transpose()?.map(TlsAcceptor::from);
        let socket =
            TcpListener::bind(address).await.map_err(|source| ListenError::Bind { address, source })?;
        Ok(Self { socket, tls })
    }

    /// Where it really listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// Why the port is not open.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ListenError {
    #[error(
        "cannot listen on {address}: {source} · hint: choose another with `--listen`, or stop what uses it"
    )]
    Bind { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Serves until `stop` ends, then lets requests in flight finish and tells newcomers that it stops.
pub async fn serve(listener: Listener, front: Arc<Front>, stop: impl Future<Output = ()>) -> io::Result<()> {
    let closing = CancellationToken::new();
    let workers = Workers::start()?;
    let accepting = accept(&listener, &front, &closing, &workers);
    let stopping = async {
        stop.await;
        front.drain().await;
    };
    tokio::select! {
        () = accepting => {}
        () = stopping => {}
    }
    closing.cancel();
    // What is left now has only its last bytes to write.
    let _ = timeout(std::time::Duration::from_secs(1), workers.emptied()).await;
    Ok(())
}

async fn accept(listener: &Listener, front: &Arc<Front>, closing: &CancellationToken, workers: &Workers) {
    let places = Arc::new(Semaphore::new(front.policy().max_connections));
    let reserve = Arc::new(Semaphore::new(RESERVE));
    loop {
        let accepted = listener.socket.accept().await.and_then(|(stream, peer)| {
            // It is to be woken by the worker that it is handed to.
            Ok((stream.into_std()?, peer))
        });
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, most likely: wait for some to be closed.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        // After it is accepted: what is free now counts, not what was free when the one before came.
        let Some((place, kind)) = room(&places, &reserve).await else { return };
        let (front, tls, closing) = (front.clone(), listener.tls.clone(), closing.clone());
        workers.spawn(async move {
            let _place = place;
            let conversed = match TcpStream::from_std(stream) {
                Ok(stream) => converse(stream, Peer { address: peer, kind }, tls, front, closing).await,
                Err(error) => Err(error),
            };
            if let Err(error) = conversed {
                tracing::debug!(%peer, %error, "a connection ended badly");
            }
        });
    }
}

/// Waits for a place. Where all are taken, there are some that are given back soon: whoever gets one is told that there is no
/// room, and whoever watches over the server hears that it is alive.
async fn room(places: &Arc<Semaphore>, reserve: &Arc<Semaphore>) -> Option<(OwnedSemaphorePermit, Kind)> {
    tokio::select! {
        biased;
        place = places.clone().acquire_owned() => place.ok().map(|place| (place, Kind::Usual)),
        place = reserve.clone().acquire_owned() => place.ok().map(|place| (place, Kind::Crowded)),
    }
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Usual,
    /// One answer, soon.
    Crowded,
}

/// Who is at the other end.
#[derive(Debug, Clone, Copy)]
struct Peer {
    address: SocketAddr,
    kind: Kind,
}

impl Peer {
    /// How long it may take to say what it wants.
    fn patience(self, front: &Front) -> Duration {
        let usual = front.policy().connection_timeout;
        if self.kind == Kind::Crowded { usual.min(CROWDED_WAIT) } else { usual }
    }
}

async fn converse(
    stream: TcpStream,
    peer: Peer,
    tls: Option<TlsAcceptor>,
    front: Arc<Front>,
    closing: CancellationToken,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let limit = peer.patience(&front);
    // A client that does not read its answers must not keep them, and its place, for ever.
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limit));
    let stream = Box::pin(stream);
    let Some(tls) = tls else { return exchange(stream, peer, front, closing).await };
    let stream = timeout(limit, tls.accept(stream)).await.map_err(|_| io::ErrorKind::TimedOut)??;
    exchange(stream, peer, front, closing).await
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    front: Arc<Front>,
    closing: CancellationToken,
) -> io::Result<()> {
    let limit = peer.patience(&front);
    let service = service_fn(move |request: http::Request<Incoming>| {
        let front = front.clone();
        async move {
            Ok::<_, Infallible>(match peer.kind {
                Kind::Usual => front.answer(request, peer.address.ip()).await,
                Kind::Crowded => front.answer_crowded(&request),
            })
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limit)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    ended.map_err(io::Error::other)
}
