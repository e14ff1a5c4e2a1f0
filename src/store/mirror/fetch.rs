//! One version's content on its way from the service into a file of the mirror.
//!
//! ```text
//!   read ──▶ is_here? ── yes ──▶ the file            bytes are written first, then their chunks count as here
//!               │ no                  ▲
//!               ▼                     │ pieces of at most WRITE bytes
//!             bring ──▶ flights: ranged GETs, each for chunks that no other flight brings
//! ```
//!
//! Whoever needs a chunk that is on its way waits for that flight. A flight that fails is over: who waited for it is
//! told, or asks again if nobody had asked for it yet (it was brought ahead), and the next reader starts anew. Every
//! request is pinned to the version (If-Match), so a file never holds bytes of two versions.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, SemaphorePermit};

use super::ahead::{Ahead, REQUEST_MAX, REQUEST_REST};
use super::cache::ROOM_ATTEMPTS;
use super::chunks::{CHUNK, ChunkMap};
use super::content::Contents;
use crate::store::{BlobName, BlobPath, ByteRange, ETag, Fetch, Preconditions, Result, Scratch, StoreError};

/// Bytes that are collected before they are written.
const WRITE: usize = 256 << 10;
/// How often a body that breaks off without having brought anything is asked for again.
const TRIES: u32 = 4;
/// The longest that one request may take, with everything that is tried again.
const FLIGHT_MAX: Duration = Duration::from_secs(180);
/// A question about more bytes than this is not a read.
const READ_MAX: u64 = 8 << 20;
/// Who asks for more than this at a time gets it step by step, so that others get their turn.
const BULK: u64 = 32 << 20;
/// What is here is noted after so many new bytes, for the case that this process is killed.
const NOTE_EVERY: u64 = 64 << 20;
/// Requests for one file that are under way or wait for their turn, at most.
const FLIGHTS_MAX: usize = 64;
/// The same while the rest of a file is brought that is read here and there. About as many as get their turn at once, so
/// that readers of other files do not wait behind all of it.
const REST_FLIGHTS_MAX: usize = 8;

/// What is brought, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// The name in the mirror.
    pub(super) name: BlobName,
    /// The blob at the service.
    pub(super) there: BlobPath,
    /// Its version.
    pub(super) version: ETag,
}

/// Content of one version, here in part or as a whole.
pub(super) struct Fetching {
    contents: Weak<Contents>,
    this: Weak<Fetching>,
    runtime: Handle,
    origin: Mutex<Origin>,
    /// Nothing is missing: the way without a mutex.
    complete: AtomicBool,
    state: Mutex<State>,
    /// Chunks came, or a flight ended.
    moved: Notify,
}

struct State {
    map: ChunkMap,
    /// The file that is filled; nothing once it is full.
    file: Option<Scratch>,
    flights: Vec<Arc<Flight>>,
    ahead: Ahead,
    /// Everything is brought; room for so many bytes was promised for it.
    rest: Option<u64>,
    /// Bytes that came since the sidecar was written.
    not_noted: u64,
}

/// A request for some chunks.
#[derive(Debug)]
struct Flight {
    chunks: Range<u64>,
    /// Somebody waits for it; else it is ahead of the readers.
    wanted: bool,
    /// Told when somebody waits for it after all.
    hurry: Notify,
    failed: OnceLock<StoreError>,
    over: AtomicBool,
}

impl std::fmt::Debug for Fetching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetching").field("origin", &*self.origin.lock()).finish_non_exhaustive()
    }
}

impl Fetching {
    /// Content that is in `file` as far as `map` says; without a file it is all here.
    pub(super) fn new(
        contents: &Arc<Contents>,
        origin: Origin,
        map: ChunkMap,
        file: Option<Scratch>,
    ) -> Arc<Self> {
        let complete = AtomicBool::new(file.is_none());
        let ahead = Ahead::new(contents.window_max(), contents.whole_max());
        let state = State { map, file, flights: Vec::new(), ahead, rest: None, not_noted: 0 };
        Arc::new_cyclic(|this| Self {
            contents: Arc::downgrade(contents),
            this: Weak::clone(this),
            runtime: Handle::current(),
            origin: Mutex::new(origin),
            complete,
            state: Mutex::new(state),
            moved: Notify::new(),
        })
    }

    /// What is brought.
    pub(super) fn origin(&self) -> Origin {
        self.origin.lock().clone()
    }

    /// Whether nothing is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    /// The file that is being filled, if it is not full.
    pub(super) fn with_file<T>(&self, look: impl FnOnce(&Scratch) -> T) -> Option<T> {
        self.state.lock().file.as_ref().map(look)
    }

    /// The same bytes have another version there by now, of which the first `size` are these.
    pub(super) fn follow(&self, origin: Origin, size: u64) {
        *self.origin.lock() = origin;
        self.state.lock().map.cut(size);
        self.settle_if_full();
    }

    /// Bytes from `start` that came by other means.
    pub(super) fn accept(&self, start: u64, bytes: &[u8]) -> Result<()> {
        let file = self.state.lock().file.as_ref().map(|scratch| Arc::clone(scratch.file()));
        if let Some(file) = file {
            file.write_all_at(bytes, start).map_err(|error| StoreError::io("write content", error))?;
            self.arrived(start..start + bytes.len() as u64);
        }
        Ok(())
    }

    /// Notes chunks that are whole within `written`, which begins with a chunk.
    fn arrived(&self, written: Range<u64>) {
        let (new, note) = {
            let mut state = self.state.lock();
            let end = if written.end >= state.map.size() { u64::MAX / CHUNK } else { written.end / CHUNK };
            let new = state.map.add(written.start.div_ceil(CHUNK)..end);
            state.not_noted += new;
            (new, state.not_noted >= NOTE_EVERY)
        };
        if new > 0 {
            if let Some(contents) = self.contents.upgrade() {
                contents.grown(new);
            }
            if note {
                self.note();
            }
            self.moved.notify_waiters();
        }
        self.settle_if_full();
    }

    /// Once everything is here the file is the content, and nobody's to write any more.
    fn settle_if_full(&self) {
        let file = {
            let mut state = self.state.lock();
            if state.map.is_full() { state.file.take() } else { None }
        };
        if let Some(file) = file {
            self.note_of(Some(&file));
            self.complete.store(true, Ordering::Release);
            self.moved.notify_waiters();
        }
    }

    /// Writes down what is here.
    pub(super) fn note(&self) {
        self.note_of(None);
    }

    fn note_of(&self, full: Option<&Scratch>) {
        let Some(contents) = self.contents.upgrade() else { return };
        let origin = self.origin();
        let map = {
            let mut state = self.state.lock();
            state.not_noted = 0;
            if let Some(file) = full.or(state.file.as_ref()) {
                contents.written(file, state.map.size());
            }
            state.map.clone()
        };
        contents.note(&origin, &map);
    }

    /// Hears of a read, and whether it has to wait: brings more around or ahead of it if that is worth it.
    fn heard(&self, range: &Range<u64>, missed: bool) {
        let mut state = self.state.lock();
        let size = state.map.size();
        let plan = state.ahead.read(range, size, missed);
        let mut wanted = state.map.missing(state.map.chunks(&plan.ahead));
        state.leave_out_flights(&mut wanted);
        for chunks in wanted {
            self.start(&mut state, chunks, plan.request, false);
        }
        if plan.rest && state.rest.is_none() {
            let contents = self.contents.upgrade();
            state.rest = contents.filter(|contents| contents.promise_rest(size)).map(|_| size);
        }
        self.bring_rest(&mut state);
    }

    /// Goes on with bringing everything, if that was decided: a few requests at a time, from the start on.
    fn bring_rest(&self, state: &mut State) {
        if state.rest.is_none() {
            return;
        }
        let step = REQUEST_REST / CHUNK;
        while state.flights.len() < REST_FLIGHTS_MAX {
            let flying = state.flying();
            let Some(next) = state.map.first_missing(step, &flying) else { return };
            self.start(state, next, REQUEST_REST, false);
        }
    }

    /// Starts flights for chunks that nobody brings.
    fn start(&self, state: &mut State, chunks: Range<u64>, request: u64, wanted: bool) {
        let step = (request.min(REQUEST_MAX) / CHUNK).max(1);
        let mut from = chunks.start;
        while from < chunks.end {
            if !wanted && state.flights.len() >= FLIGHTS_MAX {
                return;
            }
            let to = (from + step).min(chunks.end);
            let (hurry, failed, over) = (Notify::new(), OnceLock::new(), AtomicBool::new(false));
            let flight = Arc::new(Flight { chunks: from..to, wanted, hurry, failed, over });
            state.flights.push(Arc::clone(&flight));
            if let Some(this) = self.this.upgrade() {
                self.runtime.spawn(async move { this.fly(flight).await });
            }
            from = to;
        }
    }

    async fn fly(self: Arc<Self>, flight: Arc<Flight>) {
        let result = match self.contents.upgrade() {
            None => Err(gone()),
            Some(contents) => {
                // Who waits goes first; what is ahead of readers takes turns.
                let _turn = if flight.wanted { None } else { flight.turn(&contents).await };
                if !flight.wanted && !self.is_used() {
                    return self.landed(&flight, Err(gone()));
                }
                let transfer = tokio::time::timeout(FLIGHT_MAX, self.transfer(&contents, &flight));
                let too_long = || StoreError::io("read", io::ErrorKind::TimedOut.into());
                transfer.await.unwrap_or_else(|_| Err(too_long()))
            }
        };
        self.landed(&flight, result);
    }

    fn landed(&self, flight: &Arc<Flight>, result: Result<()>) {
        {
            let mut state = self.state.lock();
            state.flights.retain(|other| !Arc::ptr_eq(other, flight));
            // After a failure the next reader starts anew.
            if result.is_ok() {
                self.bring_rest(&mut state);
            }
        }
        if let Err(error) = result {
            tracing::debug!(origin = ?self.origin(), chunks = ?flight.chunks, %error, "content did not come");
            let _ = flight.failed.set(error);
        }
        flight.over.store(true, Ordering::Release);
        self.moved.notify_waiters();
    }

    /// Whether anybody but the flights has it: bringing more ahead of nobody is of no use.
    fn is_used(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > self.state.lock().flights.len()
    }

    /// Brings the bytes of a flight; goes on where an answer broke off.
    async fn transfer(&self, contents: &Contents, flight: &Flight) -> Result<()> {
        let range = self.state.lock().map.bytes(&flight.chunks);
        let (mut at, mut tries) = (range.start, 0);
        while at < range.end {
            let before = at;
            let broken = self.stream(contents, &mut at, &range).await?;
            tries = if at > before { 0 } else { tries + 1 };
            if at < range.end && tries >= TRIES {
                let short = || StoreError::io("read", io::ErrorKind::UnexpectedEof.into());
                return Err(broken.unwrap_or_else(short));
            }
        }
        Ok(())
    }

    /// One request for what is left of `range`, pinned to the version. `at` tells how far it came; answers why the
    /// body broke off, if it did.
    async fn stream(
        &self,
        contents: &Contents,
        at: &mut u64,
        range: &Range<u64>,
    ) -> Result<Option<StoreError>> {
        let Origin { there, version, .. } = self.origin();
        // Chunks count as here from their first byte on, so a broken one is asked for again as a whole.
        let from = range.start.max(*at / CHUNK * CHUNK);
        *at = from;
        let wanted = ByteRange { start: from, length: Some(range.end - from) };
        let mut answer =
            contents.service().stream_blob(&there, wanted, &Preconditions::if_version(version)).await?;
        if answer.offset != from || answer.properties.etag != version {
            return Err(StoreError::ConditionNotMet);
        }
        let mut waiting = BytesMut::new();
        loop {
            let piece = answer.pieces.next().await;
            let over = !matches!(piece, Some(Ok(_)));
            if let Some(Ok(piece)) = &piece {
                let room = usize::try_from(range.end - *at).unwrap_or(usize::MAX) - waiting.len();
                waiting.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            if waiting.len() >= WRITE || (over && !waiting.is_empty()) {
                let written = waiting.len() as u64;
                self.write(contents, *at, waiting.split().freeze()).await?;
                *at += written;
                self.arrived(from..*at);
            }
            match piece {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Ok(Some(error)),
                None => return Ok(None),
            }
        }
    }

    /// Writes where blocking is allowed. A full disk is given what the cache can spare.
    async fn write(&self, contents: &Contents, at: u64, bytes: Bytes) -> Result<()> {
        let Some(file) = self.with_file(|scratch| Arc::clone(scratch.file())) else { return Ok(()) };
        let attempt = |file: Arc<std::fs::File>, bytes: Bytes| {
            tokio::task::spawn_blocking(move || file.write_all_at(&bytes, at))
        };
        let failed = |error: io::Error| StoreError::io("write content", error);
        let joined = |error: tokio::task::JoinError| failed(io::Error::other(error));
        if !contents.has_room(bytes.len() as u64) {
            // Before the store itself has no room left for names and notes.
            contents.make_room(bytes.len() as u64).await;
        }
        let mut attempts = 0;
        loop {
            let written = attempt(Arc::clone(&file), bytes.clone()).await.map_err(joined)?;
            attempts += 1;
            match written.map_err(failed) {
                Err(StoreError::Full)
                    if attempts < ROOM_ATTEMPTS && contents.make_room(bytes.len() as u64).await => {}
                done => return done,
            }
        }
    }

    /// What a reader of `range` has to wait for; nothing if it is here. Starts what nobody brings.
    fn await_what(&self, range: &Range<u64>) -> Option<Vec<Arc<Flight>>> {
        let mut state = self.state.lock();
        if state.map.covers(range) {
            return None;
        }
        let chunks = state.map.chunks(range);
        let mut wanted = state.map.missing(chunks.clone());
        state.leave_out_flights(&mut wanted);
        for run in wanted {
            self.start(&mut state, run, REQUEST_MAX, true);
        }
        let meets =
            |flight: &&Arc<Flight>| flight.chunks.start < chunks.end && chunks.start < flight.chunks.end;
        let flights: Vec<Arc<Flight>> = state.flights.iter().filter(meets).cloned().collect();
        flights.iter().for_each(|flight| flight.hurry.notify_one());
        Some(flights)
    }

    /// Waits for these flights, and for others if they were not enough.
    async fn land(&self, range: &Range<u64>, first: Vec<Arc<Flight>>) -> Result<()> {
        let mut next = Some(first);
        while let Some(flights) = next {
            loop {
                let mut moved = std::pin::pin!(self.moved.notified());
                // Listens before it looks, so that nothing is missed in between.
                moved.as_mut().enable();
                if self.complete.load(Ordering::Acquire) || self.state.lock().map.covers(range) {
                    return Ok(());
                }
                let failed = flights.iter().find(|flight| flight.wanted && flight.failed.get().is_some());
                if let Some(error) = failed.and_then(|flight| flight.failed.get()) {
                    return Err(told_again(error));
                }
                if flights.iter().all(|flight| flight.over.load(Ordering::Acquire)) {
                    // Brought ahead for nobody, and failed: now somebody asks.
                    break;
                }
                moved.await;
            }
            next = self.await_what(range);
        }
        Ok(())
    }
}

impl Flight {
    /// Waits for a turn, or until somebody waits for these bytes: then it is as good as wanted.
    async fn turn<'a>(&self, contents: &'a Contents) -> Option<SemaphorePermit<'a>> {
        tokio::select! {
            turn = contents.turn() => turn,
            () = self.hurry.notified() => None,
        }
    }
}

impl State {
    /// Chunks that are on their way, in order.
    fn flying(&self) -> Vec<Range<u64>> {
        let mut flying: Vec<Range<u64>> = self.flights.iter().map(|flight| flight.chunks.clone()).collect();
        flying.sort_unstable_by_key(|chunks| chunks.start);
        flying
    }

    /// Leaves out the chunks that are on their way.
    fn leave_out_flights(&self, runs: &mut Vec<Range<u64>>) {
        *runs = super::chunks::without(runs, &self.flying());
    }
}

#[async_trait]
impl Fetch for Fetching {
    fn is_here(&self, range: &Range<u64>) -> bool {
        if self.is_complete() {
            return true;
        }
        let here = self.state.lock().map.covers(range);
        if here && range.end.saturating_sub(range.start) <= READ_MAX {
            self.heard(range, false);
        }
        here
    }

    async fn bring(&self, range: Range<u64>) -> Result<()> {
        if self.is_complete() {
            return Ok(());
        }
        let size = self.state.lock().map.size();
        let range = range.start.min(size)..range.end.min(size);
        if range.is_empty() {
            return Ok(());
        }
        let mut at = range.start;
        while at < range.end {
            let part = at..range.end.min(at + BULK);
            at = part.end;
            // What is asked for flies before what is ahead of it.
            let flights = self.await_what(&part);
            if range.end - range.start <= READ_MAX {
                self.heard(&part, flights.is_some());
            }
            if let Some(flights) = flights {
                self.land(&part, flights).await?;
            }
        }
        Ok(())
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        if self.state.get_mut().not_noted > 0 {
            self.note();
        }
        // The file is let go before anybody else may take it.
        self.state.get_mut().file = None;
        if let Some(contents) = self.contents.upgrade() {
            contents.take_back_rest(self.state.get_mut().rest.take().unwrap_or_default());
            contents.ended(&self.origin.get_mut().name, &self.this);
        }
    }
}

/// Nobody is there who would need it.
fn gone() -> StoreError {
    StoreError::io("read", io::Error::other("the file is closed"))
}

/// The same failure, for somebody else who waited for it.
fn told_again(error: &StoreError) -> StoreError {
    match error {
        StoreError::ConditionNotMet => StoreError::ConditionNotMet,
        StoreError::BlobNotFound(name) => StoreError::BlobNotFound(name.clone()),
        StoreError::ContainerNotFound(name) => StoreError::ContainerNotFound(name.clone()),
        StoreError::BlobArchived(name) => StoreError::BlobArchived(name.clone()),
        StoreError::Full => StoreError::Full,
        StoreError::Io { context, source } => {
            StoreError::io(context.clone(), io::Error::new(source.kind(), source.to_string()))
        }
        other => StoreError::io("read", io::Error::other(other.to_string())),
    }
}
