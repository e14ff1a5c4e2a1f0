//! Every limit on connections and requests, by name. `docs/BLOB-SERVICE.md` lists them for people.

use std::time::Duration;

/// Connections at once; further ones wait in the kernel's queue.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Connections the kernel may hold that nobody has accepted yet.
pub const BACKLOG: u32 = 4_096;
/// Header lines of a request.
pub const HEADERS_MAX: usize = 100;
/// Bytes of a request's first line and headers together.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// From the end of one request (or the connection's start) to the complete head of the next. Ends idle connections
/// and those that send their headers drop by drop.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a TLS handshake may take.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A body must bring [`BODY_PACE_BYTES`] (or its end) in this time, again and again.
pub const BODY_PACE_TIME: Duration = Duration::from_secs(60);
/// See [`BODY_PACE_TIME`].
pub const BODY_PACE_BYTES: u64 = 4 * 1024;
/// How long a client may refuse to take any byte of its answer.
pub const WRITE_STALL: Duration = Duration::from_secs(120);
/// How much of an unwanted body is read to its end, so that the client sees the answer; with more to come the
/// connection is closed.
pub const DRAIN_MAX: u64 = 16 * 1024 * 1024;
/// How long running requests may go on after the server was told to stop.
pub const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(10);

/// The limits of one server. The defaults are the constants above; tests use smaller ones.
#[derive(Clone, Debug)]
pub struct Limits {
    /// See [`CONNECTIONS_MAX`].
    pub connections: usize,
    /// See [`BACKLOG`].
    pub backlog: u32,
    /// See [`HEADERS_MAX`].
    pub headers: usize,
    /// See [`HEAD_BYTES_MAX`].
    pub head_bytes: usize,
    /// See [`HEAD_TIMEOUT`].
    pub head_timeout: Duration,
    /// See [`HANDSHAKE_TIMEOUT`].
    pub handshake_timeout: Duration,
    /// See [`BODY_PACE_TIME`].
    pub body_pace_time: Duration,
    /// See [`BODY_PACE_BYTES`].
    pub body_pace_bytes: u64,
    /// See [`WRITE_STALL`].
    pub write_stall: Duration,
    /// See [`SHUTDOWN_PATIENCE`].
    pub shutdown_patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS_MAX,
            backlog: BACKLOG,
            headers: HEADERS_MAX,
            head_bytes: HEAD_BYTES_MAX,
            head_timeout: HEAD_TIMEOUT,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            body_pace_time: BODY_PACE_TIME,
            body_pace_bytes: BODY_PACE_BYTES,
            write_stall: WRITE_STALL,
            shutdown_patience: SHUTDOWN_PATIENCE,
        }
    }
}
