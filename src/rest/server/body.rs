//! Bodies: a request's, read piece by piece at a minimum pace, and an answer's, from memory or from files.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::header;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::limits::{DRAIN_MAX, Limits};

/// Why a request's body could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The client went away, or its connection broke.
    #[error("the body ended before its declared length")]
    Incomplete,
    /// The client sends too slowly.
    #[error("the body arrives too slowly")]
    TooSlow,
    /// The body is longer than the operation allows.
    #[error("the body is longer than {max} bytes")]
    TooLong {
        /// The most it may have.
        max: u64,
    },
}

/// The body of a request.
pub struct RequestBody {
    /// Absent: no body.
    incoming: Option<Incoming>,
    length: u64,
    received: u64,
    /// Whether the client waits for a word before it sends.
    asks_first: bool,
    pace: Pace,
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").field("length", &self.length).finish_non_exhaustive()
    }
}

/// The least a client must send in a stretch of time.
struct Pace {
    time: Duration,
    bytes: u64,
    /// End of the running stretch, and what it brought.
    stretch: Option<(Instant, u64)>,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, head: &http::request::Parts, limits: &Limits) -> Self {
        let length = incoming.size_hint().exact().unwrap_or(0);
        let pace = Pace { time: limits.body_pace_time, bytes: limits.body_pace_bytes, stretch: None };
        Self {
            incoming: Some(incoming),
            length,
            received: 0,
            asks_first: head.headers.contains_key(header::EXPECT),
            pace,
        }
    }

    /// No body, for a request that is part of another one.
    pub fn empty() -> Self {
        let pace = Pace { time: Duration::ZERO, bytes: 0, stretch: None };
        Self { incoming: None, length: 0, received: 0, asks_first: false, pace }
    }

    /// The length the client declared.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The next piece, or nothing at the end. A body that ends early is an error, never an end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        let Some(incoming) = &mut self.incoming else { return Ok(None) };
        loop {
            let frame = match incoming.frame().now_or_never() {
                Some(frame) => frame,
                None => {
                    let deadline = self.pace.deadline();
                    timeout_at(deadline, incoming.frame()).await.map_err(|_| BodyError::TooSlow)?
                }
            };
            match frame {
                None => return Ok(None),
                Some(Err(_)) => return Err(BodyError::Incomplete),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.pace.came(bytes.len() as u64);
                        self.received += bytes.len() as u64;
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }

    /// The whole body, if it is no longer than `max`.
    pub async fn whole(&mut self, max: u64) -> Result<Bytes, BodyError> {
        if self.length > max {
            return Err(BodyError::TooLong { max });
        }
        let Some(first) = self.next().await? else { return Ok(Bytes::new()) };
        if first.len() as u64 == self.length {
            return Ok(first);
        }
        let mut all = BytesMut::with_capacity(usize::try_from(self.length).unwrap_or(0));
        all.extend_from_slice(&first);
        while let Some(more) = self.next().await? {
            all.extend_from_slice(&more);
        }
        Ok(all.freeze())
    }

    /// Reads a body that nobody wants to its end, in the background, so that a client that is still sending gets to
    /// see its answer. Too long a rest is not read; the connection then closes behind the answer.
    pub fn drain(mut self) {
        let left = self.length - self.received.min(self.length);
        if left > 0 && left <= DRAIN_MAX && !self.asks_first {
            tokio::spawn(async move { while let Ok(Some(_)) = self.next().await {} });
        }
    }
}

impl Pace {
    fn deadline(&mut self) -> Instant {
        self.stretch.get_or_insert_with(|| (Instant::now() + self.time, 0)).0
    }

    fn came(&mut self, count: u64) {
        let Some((_, brought)) = &mut self.stretch else { return };
        *brought += count;
        if *brought >= self.bytes {
            self.stretch = None;
        }
    }
}

/// Where the pieces of a long answer come from. Read on a thread that may block.
pub trait Source: Send + Sync + 'static {
    /// Reads at `offset` until `buffer` is full.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

/// Bytes of a long answer that are read and on their way at once, twice: one piece is sent, the next one read.
const PIECE: usize = 512 * 1024;

/// The body of an answer.
pub enum AnswerBody {
    /// Bytes in memory; empty when sent.
    Bytes(Bytes),
    /// Bytes that are read while they are sent.
    Pieces(Pieces),
}

impl AnswerBody {
    /// No bytes.
    pub fn empty() -> Self {
        Self::Bytes(Bytes::new())
    }

    /// `length` bytes from `offset` of a source.
    pub fn from_source(source: Arc<dyn Source>, offset: u64, length: u64) -> Self {
        Self::Pieces(Pieces { source, at: offset, end: offset + length, sent: offset, reading: None })
    }
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerBody").field("length", &self.size_hint().exact()).finish()
    }
}

/// A source being sent. One piece is read ahead.
pub struct Pieces {
    source: Arc<dyn Source>,
    /// Where the next read starts.
    at: u64,
    end: u64,
    sent: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl Pieces {
    fn read_ahead(&mut self) {
        if self.reading.is_some() || self.at == self.end {
            return;
        }
        let length = usize::try_from(self.end - self.at).unwrap_or(PIECE).min(PIECE);
        let (source, offset) = (Arc::clone(&self.source), self.at);
        self.at += length as u64;
        self.reading = Some(tokio::task::spawn_blocking(move || {
            let mut buffer = vec![0; length];
            source.read_exact_at(&mut buffer, offset)?;
            Ok(buffer.into())
        }));
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        self.read_ahead();
        let Some(reading) = &mut self.reading else { return Poll::Ready(None) };
        let read = match Pin::new(reading).poll(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(read) => read,
        };
        self.reading = None;
        let bytes = match read {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => return Poll::Ready(Some(Err(error))),
            Err(error) => return Poll::Ready(Some(Err(io::Error::other(error)))),
        };
        self.sent += bytes.len() as u64;
        self.read_ahead();
        Poll::Ready(Some(Ok(bytes)))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Self::Bytes(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Bytes(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Pieces(pieces) => pieces.poll_next(cx).map(|next| next.map(|bytes| bytes.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Pieces(pieces) => pieces.sent == pieces.end,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Pieces(pieces) => pieces.end - pieces.sent,
        })
    }
}
