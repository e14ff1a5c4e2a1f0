//! One connection, from the accepted socket to its end.
//!
//! Waits for nothing without a limit: the handshake, the head, the body and the client's reading all have one.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::body::RequestBody;
use super::limits::Limits;
use super::stall::Stall;
use super::{Protocol, Request};

/// What connections are told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Serve requests as they come.
    Serving,
    /// Finish the running one, take no other.
    Finishing,
}

/// What a connection needs besides its socket.
pub(super) struct Connection<P> {
    pub(super) protocol: Arc<P>,
    pub(super) phases: watch::Receiver<Phase>,
    pub(super) limits: Limits,
    pub(super) peer: SocketAddr,
    /// Given back when the connection has ended.
    pub(super) place: OwnedSemaphorePermit,
}

impl<P: Protocol> Connection<P> {
    /// Serves the connection until one side has enough.
    pub(super) async fn run(self, socket: TcpStream, tls: Option<TlsAcceptor>) {
        // Answers are written whole; waiting for more to send would only delay them.
        socket.set_nodelay(true).ok();
        let Some(tls) = tls else { return self.serve(socket, false).await };
        match timeout(self.limits.handshake_timeout, tls.accept(socket)).await {
            Ok(Ok(stream)) => Box::pin(self.serve(stream, true)).await,
            Ok(Err(error)) => tracing::debug!(peer = %self.peer, %error, "the TLS handshake failed"),
            Err(_) => tracing::debug!(peer = %self.peer, "the TLS handshake took too long"),
        }
    }

    async fn serve<S>(mut self, socket: S, secure: bool)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let (protocol, peer, limits) = (&self.protocol, self.peer, &self.limits);
        let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let (head, body) = request.into_parts();
            let body = RequestBody::new(body, &head, limits);
            let answer = Arc::clone(protocol).answer(Request { head, body, peer, secure });
            // On the heap: an idle connection must not keep room for a request.
            let answer = Box::pin(answer);
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let io = TokioIo::new(Stall::new(socket, limits.write_stall));
        let mut served = pin!(builder(limits).serve_connection(io, service));
        let ended = tokio::select! {
            ended = served.as_mut() => Some(ended),
            () = told_to_finish(&mut self.phases) => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                served.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = served.as_mut() => ended,
                    // The server is gone: its patience is over.
                    () = gone(&mut self.phases) => Ok(()),
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, %error, "a connection ended early");
        }
        drop(self.place);
    }
}

fn builder(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_headers(limits.headers)
        .max_header_size(limits.head_bytes)
        .half_close(false)
        .keep_alive(true);
    builder
}

async fn told_to_finish(phases: &mut watch::Receiver<Phase>) {
    phases.wait_for(|phase| *phase == Phase::Finishing).await.ok();
}

async fn gone(phases: &mut watch::Receiver<Phase>) {
    while phases.changed().await.is_ok() {}
}
