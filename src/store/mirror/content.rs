//! Content of the mirror: what is here, how the rest comes, and who is using it.
//!
//! ```text
//!              open of a blob whose sidecar says…
//!   All ────────────▶ the mirror's content as it is
//!   Nothing, Part ──▶ a file of the blob's size becomes its content and is filled (fetch.rs)
//! ```
//!
//! The question whether a blob changed brings its first bytes along if none are here (`ask`, `offer`); a small file is
//! all here then, in the index.
//!
//! Content comes and goes under one ETag of the mirror, so nobody's caches are disturbed. The sidecar is written after
//! the bytes, never before. There is at most one [`Fetching`] per name that opens share, and what has one is never
//! evicted (cache.rs).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::cache::{Cache, ROOM_ATTEMPTS};
use super::chunks::{ChunkMap, without};
use super::fetch::{Fetching, Origin};
use super::{Mirror, MirrorOptions, Place, Presence, Sidecar, Sidecars, Unpushed};
use crate::share::Moment;
use crate::store::embedded::{EmbeddedStore, Filling};
use crate::store::{
    BlobName, BlobPath, BlobProperties, BlobStore, ByteRange, ContainerName, ETag, Fetch, LocalStore,
    Preconditions, Ready, Result, Scratch, StoreError,
};

/// Content up to this size is all here when its open is answered, by one request.
pub(super) const SMALL: u64 = 256 << 10;
/// Mutexes that opens of names are spread over.
const DOORS: usize = 64;
/// First bytes that came with the properties, kept until somebody opens the blob.
const OFFERED: usize = 32;
/// Requests ahead of readers for each that is to carry bytes at a time: while some wait for their answers to begin, the
/// others keep the line busy.
const TURNS_PER_PARALLEL: usize = 2;
/// How long to wait for somebody who is just closing.
const ENDING: Duration = Duration::from_millis(1);
/// The time of the last use is exact to this, so that opening a file does not write every time.
const USED_EXACT: Duration = Duration::from_secs(60);
/// Files that are read here and there are brought as a whole, all together up to one part in so many of the cache.
const WHOLE_PART: u64 = 4;

/// The content of a mirror.
pub(super) struct Contents {
    this: Weak<Contents>,
    service: Arc<dyn BlobStore>,
    place: Place,
    pub(super) store: Arc<EmbeddedStore>,
    home: ContainerName,
    pub(super) sidecars: Arc<Sidecars>,
    options: MirrorOptions,
    live: Mutex<HashMap<BlobName, Weak<Fetching>>>,
    offered: Mutex<lru::LruCache<BlobName, Arc<Fetching>>>,
    doors: [tokio::sync::Mutex<()>; DOORS],
    /// Requests ahead of readers.
    turns: Semaphore,
    /// Bytes of the files that are brought as a whole: nothing of what is open can be evicted.
    promised: AtomicU64,
    pub(super) cache: Cache,
}

/// A blob of the mirror that came from the service.
struct Known {
    blob: Arc<BlobProperties>,
    sidecar: Sidecar,
    there: ETag,
    /// What was changed here and is not pushed.
    changed: Vec<Range<u64>>,
    /// What is behind this was changed, too.
    shortest: u64,
}

impl Known {
    /// The bytes of the service's version that count here: it may have been cut.
    fn size(&self) -> u64 {
        self.sidecar.size.min(self.blob.size).min(self.shortest)
    }

    fn is_changed(&self) -> bool {
        self.blob.etag != self.sidecar.here || !self.changed.is_empty()
    }
}

impl Contents {
    pub(super) async fn start(
        service: Arc<dyn BlobStore>,
        place: Place,
        store: Arc<EmbeddedStore>,
        home: ContainerName,
        sidecars: Arc<Sidecars>,
        options: MirrorOptions,
    ) -> Result<Arc<Self>> {
        let offered = std::num::NonZeroUsize::new(OFFERED).unwrap_or(std::num::NonZeroUsize::MIN);
        let contents = Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            service,
            place,
            store,
            home,
            sidecars,
            live: Mutex::default(),
            offered: Mutex::new(lru::LruCache::new(offered)),
            doors: std::array::from_fn(|_| tokio::sync::Mutex::default()),
            turns: Semaphore::new(options.parallel.max(1) * TURNS_PER_PARALLEL),
            promised: AtomicU64::new(0),
            cache: Cache::new(options.cache_size),
            options,
        });
        contents.distrust_after_power_loss().await?;
        contents.keep_within_limit();
        Ok(contents)
    }

    pub(super) fn service(&self) -> &Arc<dyn BlobStore> {
        &self.service
    }

    /// How far ahead of a reader content is brought.
    pub(super) fn window_max(&self) -> u64 {
        self.options.ahead_bytes
    }

    /// The largest file that is brought as a whole for who reads here and there.
    pub(super) fn whole_max(&self) -> u64 {
        self.options.cache_size / WHOLE_PART
    }

    /// Whether there is room to bring a file as a whole; if so, it is promised until it is taken back.
    pub(super) fn promise_rest(&self, size: u64) -> bool {
        let more = |promised: u64| Some(promised + size).filter(|sum| *sum <= self.whole_max());
        self.has_room(size) && self.promised.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// A file for which room was promised is not used any more.
    pub(super) fn take_back_rest(&self, size: u64) {
        self.promised.fetch_sub(size, Ordering::Relaxed);
    }

    /// Waits for one's turn to bring something ahead.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    pub(super) fn here(&self, name: &BlobName) -> BlobPath {
        BlobPath::new(self.home.clone(), name.clone())
    }

    fn there(&self, name: &BlobName) -> Result<BlobPath> {
        let full = BlobName::new(format!("{}{}", self.place.prefix, name))?;
        Ok(BlobPath::new(self.place.container.clone(), full))
    }

    fn door(&self, name: &BlobName) -> &tokio::sync::Mutex<()> {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(name);
        &self.doors[usize::try_from(hash % DOORS as u64).unwrap_or_default()]
    }

    /// Makes a blob's content ready to be opened: which version it is of, and how to bring what is missing; nothing for
    /// a blob that is all this mount's own.
    pub(super) async fn open(&self, name: &BlobName) -> Result<(ETag, Option<Arc<Fetching>>)> {
        let fetching = {
            let _one_at_a_time = self.door(name).lock().await;
            let (version, known) = self.look(name)?;
            let Some(known) = known else { return Ok((version, None)) };
            self.note_use(name, &known.sidecar)?;
            let fetching = self.ready(name, &known).await?;
            if fetching.is_complete() || known.size() > SMALL {
                return Ok((version, Some(fetching)));
            }
            (version, fetching, known.size())
        };
        let (version, fetching, size) = fetching;
        fetching.bring(0..size).await?;
        Ok((version, Some(fetching)))
    }

    /// What is known of a name.
    fn look(&self, name: &BlobName) -> Result<(ETag, Option<Known>)> {
        let at = self.here(name);
        let missing = || StoreError::BlobNotFound(at.to_string());
        let _tied = self.sidecars.tied();
        let blob = self.store.find(&at)?.blob.ok_or_else(missing)?;
        let version = blob.etag;
        let Some(sidecar) = self.sidecars.get(name)? else { return Ok((version, None)) };
        let Some(there) = sidecar.there else { return Ok((version, None)) };
        let (changed, shortest) = match self.sidecars.unpushed(name)? {
            // A change that was announced and is not made, or never will be, is in none of these bytes. (What is written
            // in place is, but then all of them are here.)
            Some(_) if version == sidecar.here => (Vec::new(), blob.size),
            Some((Unpushed { ranges: None, .. }, _)) => return Ok((version, None)),
            Some((Unpushed { ranges: Some(ranges), shortest, .. }, _)) => (ranges, shortest),
            // Neither the version that the sidecar tells of nor a change of ours: its names must be refreshed first.
            None if version != sidecar.here => return Err(StoreError::ConditionNotMet),
            None => (Vec::new(), blob.size),
        };
        Ok((version, Some(Known { blob, sidecar, there, changed, shortest })))
    }

    /// Whether all of a blob's bytes are here, as far as is known.
    pub(super) fn is_all_here(&self, name: &BlobName) -> bool {
        let all_here = |known: Known| known.sidecar.content == Presence::All;
        self.look(name).is_ok_and(|(_, known)| known.is_none_or(all_here))
    }

    fn note_use(&self, name: &BlobName, sidecar: &Sidecar) -> Result<()> {
        let now = Moment::from(SystemTime::now());
        if now.since(sidecar.used) < USED_EXACT {
            return Ok(());
        }
        let used = |known: Option<Sidecar>| known.map(|known| Sidecar { used: now, ..known });
        match self.sidecars.update(name, used) {
            // A full disk is no reason not to read.
            Ok(_) | Err(StoreError::Full) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The one [`Fetching`] of a name, made if there is none that fits.
    async fn ready(&self, name: &BlobName, known: &Known) -> Result<Arc<Fetching>> {
        let origin = Origin { name: name.clone(), there: self.there(name)?, version: known.there };
        if let Some(fetching) = self.living(name).await
            && self.still_fits(&fetching, &origin, known)?
        {
            return Ok(fetching);
        }
        let mut attempts = 0;
        let fetching = loop {
            attempts += 1;
            match self.begin(&origin, known) {
                Err(StoreError::Full) if attempts < ROOM_ATTEMPTS && self.make_room(known.size()).await => {}
                done => break done?,
            }
        };
        self.live.lock().insert(name.clone(), Arc::downgrade(&fetching));
        Ok(fetching)
    }

    /// The one that is there. One that is just ending is waited for: it still writes down what is here.
    async fn living(&self, name: &BlobName) -> Option<Arc<Fetching>> {
        let offered = self.offered.lock().pop(name);
        if offered.is_some() {
            return offered;
        }
        loop {
            let found = self.live.lock().get(name)?.upgrade();
            if found.is_some() {
                return found;
            }
            tokio::time::sleep(ENDING).await;
        }
    }

    /// Whether what others bring is what is wanted: the same version, or what this mount made of it since.
    fn still_fits(&self, fetching: &Fetching, origin: &Origin, known: &Known) -> Result<bool> {
        if fetching.origin() == *origin {
            return Ok(true);
        }
        let at = self.here(&origin.name);
        let same_file = fetching.with_file(|file| self.store.is_filled_from(&at, known.blob.etag, file));
        let follows =
            matches!(known.sidecar.content, Presence::Part(_)) && same_file.transpose()? == Some(true);
        if follows {
            fetching.follow(origin.clone(), known.size());
        }
        Ok(follows)
    }

    /// Starts to bring a version, from what the sidecar says.
    fn begin(&self, origin: &Origin, known: &Known) -> Result<Arc<Fetching>> {
        let this = self.this.upgrade().ok_or(StoreError::ConditionNotMet)?;
        let map = match &known.sidecar.content {
            Presence::All => None,
            Presence::Nothing => Some(ChunkMap::empty(known.size())),
            Presence::Part(bits) => Some(ChunkMap::from_bits(bits, known.size())),
        };
        let Some(map) = map.filter(|map| !map.is_full()) else {
            return Ok(Fetching::new(&this, origin.clone(), ChunkMap::empty(0), None));
        };
        let file = self.file_for(origin, known, &map)?;
        Ok(Fetching::new(&this, origin.clone(), map, file))
    }

    /// The file to be filled; nothing if what is missing was changed here.
    fn file_for(&self, origin: &Origin, known: &Known, map: &ChunkMap) -> Result<Option<Scratch>> {
        let (at, version) = (self.here(&origin.name), known.blob.etag);
        if known.sidecar.content != Presence::Nothing
            && !known.is_changed()
            && let Some(file) = self.store.hold_filling(&at, version)?
        {
            return Ok(Some(file));
        }
        let runs = map.missing(0..u64::MAX);
        let missing: Vec<Range<u64>> = runs.iter().map(|run| map.bytes(run)).collect();
        let missing = without(&missing, &known.changed);
        if missing.is_empty() {
            return Ok(None);
        }
        let file = self.store.scratch()?;
        let sized = file.file().set_len(known.blob.size);
        sized.map_err(|error| StoreError::io("make content", error))?;
        let all = missing.first() == Some(&(0..known.blob.size));
        let filling = if all { Filling::Scratch(&file) } else { Filling::Ranges(&file, &missing) };
        // Noted first that a file may be here, so that what a crash leaves is found.
        self.note(origin, map);
        self.store.fill(&at, version, filling)?;
        Ok(Some(file))
    }

    /// Small content goes into the index.
    fn keep_small(&self, origin: &Origin, known: &Known, bytes: &Bytes) -> Result<()> {
        self.store.fill(&self.here(&origin.name), known.blob.etag, Filling::Bytes(bytes))?;
        self.note(origin, &ChunkMap::full(known.size()));
        self.grown(known.size());
        Ok(())
    }

    /// Writes down what is here of a version, unless the sidecar is about another by now.
    pub(super) fn note(&self, origin: &Origin, map: &ChunkMap) {
        let change = |sidecar: Sidecar| {
            if sidecar.there != Some(origin.version) || sidecar.content == Presence::All {
                return sidecar;
            }
            let all = map.is_full() && map.size() == sidecar.size;
            let content = if all { Presence::All } else { Presence::Part(map.to_bits()) };
            Sidecar { content, used: SystemTime::now().into(), ..sidecar }
        };
        if let Err(error) = self.sidecars.update(&origin.name, |sidecar| sidecar.map(change)) {
            tracing::warn!(name = %origin.name, %error, "what is here of a blob could not be noted; it will be read again");
        }
    }

    /// Bytes of a file that must reach the disk with the next checkpoint.
    pub(super) fn written(&self, file: &Scratch, size: u64) {
        self.store.note_written(file, size);
    }

    /// More content is here.
    pub(super) fn grown(&self, bytes: u64) {
        self.cache.grow(bytes);
    }

    /// This one is gone, and everything it knew is written down.
    pub(super) fn ended(&self, name: &BlobName, fetching: &Weak<Fetching>) {
        let mut live = self.live.lock();
        if live.get(name).is_some_and(|other| other.ptr_eq(fetching)) {
            live.remove(name);
        }
    }

    /// Whether somebody uses a name's content, or did a moment ago.
    fn is_open(&self, name: &BlobName) -> bool {
        self.live.lock().contains_key(name)
    }

    /// Properties of a blob there, and its first bytes if its content is not here: one request in place of two. Bytes
    /// are for [`Self::offer`], once the mirror has those properties.
    pub(super) async fn ask(&self, name: &BlobName) -> Result<(Arc<BlobProperties>, Bytes)> {
        let (at, always) = (self.there(name)?, Preconditions::default());
        let cold = match self.sidecars.get(name)? {
            Some(sidecar) => sidecar.content == Presence::Nothing && sidecar.size > 0,
            None => false,
        };
        if cold && !self.is_open(name) && !self.sidecars.is_unpushed(name) {
            let range = ByteRange { start: 0, length: Some(SMALL) };
            match self.service.get_blob(&at, None, Some(range), &always).await {
                Ok(answer) => return Ok((answer.properties, answer.body)),
                // It became empty.
                Err(StoreError::InvalidRange { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok((self.service.blob_properties(&at, None, &always).await?, Bytes::new()))
    }

    /// The first bytes of the version `there`, which the mirror knows by now. Best effort: they can be had again.
    pub(super) async fn offer(&self, name: &BlobName, there: ETag, first: Bytes) {
        if first.is_empty() {
            return;
        }
        if let Err(error) = self.take_first(name, there, &first).await {
            tracing::debug!(%name, %error, "first bytes were not kept");
        }
    }

    async fn take_first(&self, name: &BlobName, there: ETag, first: &Bytes) -> Result<()> {
        let _one_at_a_time = self.door(name).lock().await;
        let (_, Some(known)) = self.look(name)? else { return Ok(()) };
        let cold = known.sidecar.content == Presence::Nothing && !known.is_changed();
        if known.there != there || !cold || self.is_open(name) {
            return Ok(());
        }
        let origin = Origin { name: name.clone(), there: self.there(name)?, version: there };
        if known.size() <= self.store.inline_max() && first.len() as u64 == known.size() {
            return self.keep_small(&origin, &known, first);
        }
        let fetching = self.ready(name, &known).await?;
        fetching.accept(0, first)?;
        // Dropped without the mutex: what falls out may be the last of its kind and then writes a note.
        let fell_out = self.offered.lock().push(name.clone(), fetching);
        drop(fell_out);
        Ok(())
    }

    /// Blobs have other names or versions by now, there and in the sidecars. `now` tells the new name of those that do.
    pub(super) fn moved(&self, now: impl Fn(&BlobName) -> Option<BlobName>) {
        // Let go at the end, without the mutex: the last of its kind writes a note, then under its new name.
        let _offered: Vec<Arc<Fetching>> = {
            let mut offered = self.offered.lock();
            let names = offered.iter().map(|(name, _)| name).filter(|name| now(name).is_some());
            let names: Vec<BlobName> = names.cloned().collect();
            names.iter().filter_map(|name| offered.pop(name)).collect()
        };
        // All are taken out before any is put back: two may have changed places.
        let moving: Vec<(BlobName, BlobName, Arc<Fetching>)> = {
            let mut live = self.live.lock();
            let moving = live.iter().filter_map(|(name, fetching)| {
                let new = now(name)?;
                Some((name.clone(), new, fetching.upgrade()?))
            });
            let moving: Vec<_> = moving.collect();
            for (old, ..) in &moving {
                live.remove(old);
            }
            moving
        };
        for (_, new, fetching) in moving {
            let (Ok(there), Ok(Some(sidecar))) = (self.there(&new), self.sidecars.get(&new)) else {
                continue;
            };
            let Some(version) = sidecar.there else { continue };
            fetching.follow(Origin { name: new.clone(), there, version }, sidecar.size);
            self.live.lock().insert(new, Arc::downgrade(&fetching));
        }
    }

    /// Takes a blob's content away, if nobody needs it. Answers how many bytes that were.
    pub(super) fn evict(&self, name: &BlobName) -> Result<u64> {
        let Ok(_one_at_a_time) = self.door(name).try_lock() else { return Ok(0) };
        if self.is_open(name) || self.sidecars.is_unpushed(name) {
            return Ok(0);
        }
        let (_, Some(known)) = self.look(name)? else { return Ok(0) };
        let (at, version) = (self.here(name), known.blob.etag);
        let bytes = bytes_of(&known.sidecar);
        if known.sidecar.content == Presence::Nothing || self.store.is_in_use(&at, version)? {
            return Ok(0);
        }
        // Noted first: a crash in between must not leave a note of bytes that are gone.
        self.sidecars.note_gone(name, version)?;
        self.store.hollow_out(&at, version)?;
        Ok(bytes)
    }
}

/// How many bytes of a blob are here.
pub(super) fn bytes_of(sidecar: &Sidecar) -> u64 {
    match &sidecar.content {
        Presence::Nothing => 0,
        Presence::Part(bits) => ChunkMap::from_bits(bits, sidecar.size).bytes_here(),
        Presence::All => sidecar.size,
    }
}

impl Mirror {
    /// [`Upstream::content`](crate::store::Upstream::content). A version that is replaced meanwhile is asked for again.
    pub(super) async fn open_content(&self, name: &BlobName) -> Result<Ready> {
        let mut opened = self.contents.open(name).await;
        if matches!(opened, Err(StoreError::ConditionNotMet)) {
            self.ask_for(name).await?;
            opened = self.contents.open(name).await;
        }
        let (version, fetching) = opened?;
        Ok(Ready { version, fetch: fetching.map(|fetching| fetching as Arc<dyn Fetch>) })
    }

    /// Makes sure that these bytes of the blob, as it is in the mirror, can be read from the mirror: before a block
    /// that was changed in part is pushed. Nothing to do for bytes that were changed here.
    pub(super) async fn bring_here(&self, name: &BlobName, range: Range<u64>) -> Result<()> {
        match self.contents.open(name).await? {
            (_, Some(fetching)) => fetching.bring(range).await,
            (_, None) => Ok(()),
        }
    }
}
