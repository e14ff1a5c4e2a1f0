//! A line to a blob service that can be slow, lossy or cut: an HTTP proxy that counts requests and injects faults.
//!
//! For tests (in this process) and, as `examples/fault_proxy.rs`, for the benchmark. Passes bytes on unchanged, so that
//! signatures stay valid. Every fault is decided when the request's head is read, by [`Plan`].

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

mod message;
mod plan;

use message::{Head, Length, Reader};
pub(crate) use plan::{Counts, Dice, Fault, Plan, Tally};

/// A proxy; it listens until it is dropped.
pub(crate) struct FaultProxy {
    /// Where it listens.
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
    listener: tokio::task::JoinHandle<()>,
}

struct Shared {
    upstream: SocketAddr,
    plan: Mutex<Plan>,
    /// Every request waits so long.
    delay: watch::Sender<Duration>,
    /// Whether nothing passes.
    cut: watch::Sender<bool>,
    /// Requests of this kind do not pass.
    held: watch::Sender<Option<&'static str>>,
    /// How many of them wait.
    waiting: AtomicUsize,
}

/// What becomes of the connection.
enum Next {
    Go,
    End,
}

impl FaultProxy {
    /// Listens at `listen` and passes on to `upstream`.
    pub(crate) async fn start(listen: SocketAddr, upstream: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream,
            plan: Mutex::default(),
            delay: watch::Sender::new(Duration::ZERO),
            cut: watch::Sender::new(false),
            held: watch::Sender::new(None),
            waiting: AtomicUsize::new(0),
        });
        let serving = Arc::clone(&shared);
        let listener = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(converse(near, Arc::clone(&serving)));
            }
        });
        Ok(Self { addr, shared, listener })
    }

    /// What is to happen and what has happened.
    pub(crate) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.shared.plan()
    }

    /// From now on every request takes so much longer.
    pub(crate) fn delay(&self, delay: Duration) {
        self.shared.delay.send_replace(delay);
    }

    /// Cuts the line, or mends it. While it is cut, nothing passes and nothing ends, as with a cable pulled.
    pub(crate) fn cut(&self, cut: bool) {
        self.shared.cut.send_replace(cut);
    }

    /// Requests of this kind, such as `PUT copy`, wait until they are let go.
    pub(crate) fn hold(&self, kind: Option<&'static str>) {
        self.shared.held.send_replace(kind);
    }

    /// How many requests are held.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::SeqCst)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Shared {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Waits until the line is whole.
    async fn whole(&self) {
        let mut cut = self.cut.subscribe();
        cut.wait_for(|cut| !*cut).await.ok();
    }

    /// Waits until requests of this kind pass.
    async fn let_go(&self, kind: &str) {
        let mut held = self.held.subscribe();
        if *held.borrow() == Some(kind) {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            held.wait_for(|held| *held != Some(kind)).await.ok();
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Waits until the line was cut and mended.
    async fn thawed(&self) {
        let mut cut = self.cut.subscribe();
        cut.wait_for(|cut| *cut).await.ok();
        cut.wait_for(|cut| !*cut).await.ok();
    }
}

async fn converse(near: TcpStream, shared: Arc<Shared>) {
    shared.whole().await;
    let Ok(far) = TcpStream::connect(shared.upstream).await else { return };
    near.set_nodelay(true).ok();
    far.set_nodelay(true).ok();
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    let mut line =
        Line { near: Reader::new(near_in), answer: near_out, far: Reader::new(far_in), ask: far_out };
    while let Some(request) = line.near.head().await {
        match line.exchange(&request, &shared).await {
            Some(Next::Go) => {}
            Some(Next::End) | None => return,
        }
    }
}

/// A connection of a client, and ours for it.
struct Line {
    near: Reader<OwnedReadHalf>,
    answer: OwnedWriteHalf,
    far: Reader<OwnedReadHalf>,
    ask: OwnedWriteHalf,
}

impl Line {
    /// One request and its answer, or what is to happen instead. `None`: a line ended.
    async fn exchange(&mut self, request: &Head, shared: &Shared) -> Option<Next> {
        let fault = shared.plan().next();
        let delay = *shared.delay.borrow();
        tokio::time::sleep(delay).await;
        shared.let_go(&request.kind()).await;
        shared.whole().await;
        match fault {
            Some(Fault::DropBefore) => return Some(Next::End),
            Some(Fault::Error) => return self.refuse(request, "500 Oops", "InternalError", shared).await,
            Some(Fault::Busy) => return self.refuse(request, "503 Busy", "ServerBusy", shared).await,
            Some(Fault::Delay(more)) => tokio::time::sleep(more).await,
            Some(Fault::Freeze) => shared.thawed().await,
            Some(Fault::DropAfter | Fault::ErrorAfter | Fault::Truncate | Fault::Garble) | None => {}
        }
        self.ask.write_all(&request.bytes).await.ok()?;
        let sent = match fault {
            Some(Fault::Garble) => self.garbled(request.request_length()).await?,
            Some(_) | None => self.near.pass(request.request_length(), &mut self.ask).await?,
        };
        let sent = sent + request.bytes.len() as u64;
        let kind = request.kind();
        let method = request.first_line().split(' ').next().unwrap_or_default();
        let answer = loop {
            let head = self.far.head().await?;
            if head.status() >= 200 {
                break head;
            }
            self.answer.write_all(&head.bytes).await.ok()?;
        };
        shared.whole().await;
        let length = answer.answer_length(method);
        match fault {
            Some(Fault::DropAfter) => {
                shared.plan().count(&kind, sent, 0);
                Some(Next::End)
            }
            Some(Fault::ErrorAfter) => {
                self.far.pass(length, &mut tokio::io::sink()).await?;
                shared.plan().count(&kind, sent, 0);
                self.say("500 Oops", "OperationTimedOut", false).await
            }
            Some(Fault::Truncate) => {
                shared.plan().count(&kind, sent, 0);
                self.cut_short(&answer, length).await
            }
            Some(_) | None => {
                self.answer.write_all(&answer.bytes).await.ok()?;
                let received = self.far.pass(length, &mut self.answer).await?;
                shared.plan().count(&kind, sent, received + answer.bytes.len() as u64);
                let over = answer.closes() || length == Length::Open;
                Some(if over { Next::End } else { Next::Go })
            }
        }
    }

    /// Passes a body on with another first byte.
    async fn garbled(&mut self, length: Length) -> Option<u64> {
        let mut body = Vec::new();
        let sent = self.near.pass(length, &mut body).await?;
        if let Some(first) = body.first_mut() {
            *first ^= 1;
        }
        self.ask.write_all(&body).await.ok()?;
        Some(sent)
    }

    /// Half of an answer: of its body if it has one, else of its head.
    async fn cut_short(&mut self, answer: &Head, length: Length) -> Option<Next> {
        match length {
            Length::Bytes(bytes) if bytes > 1 => {
                self.answer.write_all(&answer.bytes).await.ok()?;
                self.far.pass(Length::Bytes(bytes / 2), &mut self.answer).await?;
            }
            Length::Bytes(_) | Length::Chunked | Length::Open => {
                self.answer.write_all(&answer.bytes[..answer.bytes.len() / 2]).await.ok()?;
            }
        }
        self.answer.flush().await.ok()?;
        Some(Next::End)
    }

    /// Answers in place of the service, which never hears of the request.
    async fn refuse(&mut self, request: &Head, status: &str, code: &str, shared: &Shared) -> Option<Next> {
        let sent = self.near.pass(request.request_length(), &mut tokio::io::sink()).await?;
        shared.plan().count(&request.kind(), sent + request.bytes.len() as u64, 0);
        self.say(status, code, code == "ServerBusy").await
    }

    async fn say(&mut self, status: &str, code: &str, later: bool) -> Option<Next> {
        // The finer header counts where both are given; nobody needs to wait long here.
        let later = if later { "retry-after: 1\r\nx-ms-retry-after-ms: 20\r\n" } else { "" };
        let text =
            format!("HTTP/1.1 {status}\r\nx-ms-error-code: {code}\r\n{later}content-length: 0\r\n\r\n");
        self.answer.write_all(text.as_bytes()).await.ok()?;
        Some(Next::Go)
    }
}
