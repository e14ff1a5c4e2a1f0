//! An HTTP/1.1 server for one [`Protocol`]: listening, TLS, limits, the life of a connection, an orderly end.
//!
//! ```text
//!   accepting --stop--> finishing running requests --all done, or patience over--> ended
//! ```
//!
//! Knows sockets and HTTP framing. It must never know what a request means.

mod body;
mod connection;
mod framing;
pub mod limits;
mod stall;
mod tls;
mod to_its_end;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

pub use body::{AnswerBody, BodyError, RequestBody, Source};
pub use framing::{Unfit, check_framing};
pub use limits::Limits;
pub use tls::{TlsError, load_tls};

use connection::{Connection, Phase};
pub(in crate::rest) use to_its_end::ToItsEnd;

/// After a failed accept (out of descriptors, usually) the next one waits this long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is spoken on the connections of a server.
pub trait Protocol: Send + Sync + 'static {
    /// Answers one request. Dropped, not awaited to its end, when the client goes away: what must not end in the middle
    /// is wrapped in `ToItsEnd`.
    fn answer(self: Arc<Self>, request: Request) -> impl Future<Output = Answer> + Send;
}

/// A request whose head is complete and whose body is still arriving.
#[derive(Debug)]
pub struct Request {
    /// Method, target and headers.
    pub head: http::request::Parts,
    /// The body.
    pub body: RequestBody,
    /// Who asks.
    pub peer: SocketAddr,
    /// Whether the connection is encrypted.
    pub secure: bool,
}

/// A response.
pub type Answer = http::Response<AnswerBody>;

/// How a server listens.
#[derive(Clone)]
pub struct ServerConfig {
    /// Where; port 0 takes a free one.
    pub addr: SocketAddr,
    /// Certificate and key, if connections are to be encrypted.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Limits on connections and requests.
    pub limits: Limits,
}

impl std::fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerConfig")
            .field("addr", &self.addr)
            .field("tls", &self.tls.is_some())
            .field("limits", &self.limits)
            .finish()
    }
}

/// A server that is running. Dropping it ends its connections without ceremony.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    phase: watch::Sender<Phase>,
    places: Arc<Semaphore>,
    limits: Limits,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Listens and starts to answer. Must be called on a tokio runtime.
    pub fn start<P: Protocol>(config: &ServerConfig, protocol: Arc<P>) -> io::Result<Self> {
        let listener = listen(config.addr, config.limits.backlog)?;
        let addr = listener.local_addr()?;
        let (phase, phases) = watch::channel(Phase::Serving);
        let places = Arc::new(Semaphore::new(config.limits.connections));
        let acceptor = Acceptor {
            listener,
            tls: config.tls.clone().map(TlsAcceptor::from),
            places: Arc::clone(&places),
            phases,
            limits: config.limits.clone(),
        };
        let accepting = tokio::spawn(acceptor.run(protocol));
        Ok(Self { addr, phase, places, limits: config.limits.clone(), accepting })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Accepts nothing more, lets running requests finish for as long as the limits say, then ends the rest.
    pub async fn stop(self) {
        self.accepting.abort();
        self.phase.send_replace(Phase::Finishing);
        let all = u32::try_from(self.limits.connections).unwrap_or(u32::MAX);
        if timeout(self.limits.shutdown_patience, self.places.acquire_many(all)).await.is_err() {
            tracing::warn!("requests are still running; they end now");
        }
        // The sender's end tells the remaining connections to go at once.
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn listen(addr: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A server that just ended leaves connections in TIME_WAIT; they must not keep the port.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(backlog)
}

/// Takes connections in, as many as there are places.
struct Acceptor {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    places: Arc<Semaphore>,
    phases: watch::Receiver<Phase>,
    limits: Limits,
}

impl Acceptor {
    async fn run<P: Protocol>(self, protocol: Arc<P>) {
        loop {
            // A client beyond the limit waits in the kernel's queue until somebody leaves.
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else { return };
            let (socket, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let connection = Connection {
                protocol: Arc::clone(&protocol),
                phases: self.phases.clone(),
                limits: self.limits.clone(),
                peer,
                place,
            };
            tokio::spawn(connection.run(socket, self.tls.clone()));
        }
    }
}
