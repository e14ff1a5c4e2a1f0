//! Opening files, and making them. What follows a close is in [`close`](super::close).

use std::sync::Arc;

use bytes::Bytes;

use crate::share::{Access, ShareMode};
use crate::store::{
    BlobPath, BlobProperties, Changed, Changing, ContentReader, ETag, LocalStore, NewContent, Ready,
    StoreError, crash_point,
};

use super::attributes::{Attributes, Kind};
use super::commit::Committing;
use super::content::{Content, Live};
use super::error::{FsError, Result};
use super::file::{Intent, OpenFile, Place, Route};
use super::gate::{Claim, OpenPermit};
use super::handles::{Handle, HandleId};
use super::holders::Holder;
use super::lease_keeper::LeaseHold;
use super::memory::Memory;
use super::names::Segment;
use super::namespace::{Caller, Spot, must_be_new};
use super::nodes::Ino;
use super::place::Guarded;
use super::remote::{Need, OUTRUN_MAX};
use super::requests::is_read_only_by_attribute;
use super::stat::Stat;
use super::{Engine, now};

/// How a program wants to open a file. With neither reading nor writing: for attributes only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenRequest {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// The content is thrown away at the open.
    pub truncate: bool,
    /// The name must be new. Only for creates.
    pub exclusive: bool,
}

impl OpenRequest {
    fn access(self) -> Access {
        let mut access = Access::NONE;
        if self.read {
            access = access.union(Access::READ);
        }
        if self.write || self.truncate {
            access = access.union(Access::WRITE);
        }
        access
    }
}

impl From<OpenRequest> for Intent {
    fn from(request: OpenRequest) -> Self {
        match (request.truncate, request.write) {
            (true, _) => Intent::Truncate { read: request.read },
            (false, true) => Intent::Write { read: request.read },
            (false, false) => Intent::Read,
        }
    }
}

/// A granted open.
#[derive(Debug)]
pub struct Opened {
    /// Its number.
    pub handle: HandleId,
    /// Who moves the bytes.
    pub route: Route,
}

impl Engine {
    /// Opens the file `ino`.
    pub async fn open(&self, ino: Ino, request: OpenRequest, caller: Caller) -> Result<Opened> {
        let opened = self.open_at_once(ino, request, caller).await?;
        if matches!(opened.route, Route::Engine { keep_cache: false }) {
            // The kernel may still know the size of another version, and would cut what it reads.
            self.catch_up().await;
        }
        Ok(opened)
    }

    /// The same without waiting for the watcher: during a create the kernel holds the directory, and the watcher may
    /// wait for that.
    async fn open_at_once(&self, ino: Ino, request: OpenRequest, caller: Caller) -> Result<Opened> {
        self.outlast_close(ino, request.write || request.truncate).await;
        let claim = self.claim_of(ino, request).await?;
        let permit = self.gate.open(ino, claim, Holder::new(caller, now())).await?;
        let attached = async {
            if request.truncate {
                self.may_touch(ino, None, None, (0, u64::MAX), true)?;
                self.drop_set_id(ino, caller).await?;
                self.copy_before_truncate(ino).await?;
            }
            self.attach(ino, Some(request), &permit, self.take_lease(claim)).await
        };
        let Attached { file, route, lease } = match attached.await {
            Ok(attached) => attached,
            Err(error) => {
                self.leave(ino, &permit).await;
                return Err(error);
            }
        };
        let handle = self.handles.insert(Handle::new(file, permit, lease));
        tracing::trace!(ino = ino.0, handle = handle.0, ?request, ?route, "open");
        Ok(Opened { handle, route })
    }

    /// Makes the long copy that cutting off an open file may need, if it does.
    async fn copy_before_truncate(&self, ino: Ino) -> Result<()> {
        // A use of its own: if the others ended meanwhile, the next open would load the content once more, and it would
        // be taken away from that one.
        let Some(file) = self.attach_open(ino) else { return Ok(()) };
        self.nodes.hold_again(ino);
        let copied = self.copy_first(&file, None).await;
        self.let_go(&file).await;
        copied
    }

    async fn claim_of(&self, ino: Ino, request: OpenRequest) -> Result<Claim> {
        let access = request.access();
        Ok(Claim { access, share: self.share_mode_of(ino, access).await? })
    }

    /// Creates a file and opens it; opens an existing one unless the request is exclusive.
    pub async fn create(
        &self,
        parent: Ino,
        segment: &Segment,
        mode: u32,
        request: OpenRequest,
        caller: Caller,
    ) -> Result<(Stat, Opened)> {
        match self.create_new(parent, segment, mode, request, caller).await? {
            Created::New(stat, opened) => {
                self.reserve(&opened, request).await?;
                self.touch_directory(parent).await;
                Ok((stat, opened))
            }
            // Somebody made it between the kernel's look-up and its create.
            Created::Exists(stat) => match self.open_at_once(stat.ino, request, caller).await {
                Ok(opened) => Ok((self.stat(stat.ino).await.unwrap_or(stat), opened)),
                Err(error) => {
                    self.nodes.forget(stat.ino, 1);
                    Err(error)
                }
            },
        }
    }

    async fn create_new(
        &self,
        parent: Ino,
        segment: &Segment,
        mode: u32,
        request: OpenRequest,
        caller: Caller,
    ) -> Result<Created> {
        self.may_create(parent, segment).await?;
        let share = self.share_mode_in(parent, segment, request.access()).await?;
        let _entry = self.guard_entry(parent, segment).await;
        let Spot { at, inherit } = self.free_name(parent, segment).await?;
        let found = self.local()?.find(&at)?;
        if let Some(id) = found.id() {
            if request.exclusive {
                return Err(FsError::Exists);
            }
            let ino = Ino::of(id);
            let stat = self.stat_found(ino, &found)?;
            if stat.attributes.kind == Kind::Directory {
                return Err(FsError::IsADirectory);
            }
            self.nodes.remember(ino, parent, segment);
            return Ok(Created::Exists(stat));
        }
        let attributes = inherit.apply(Attributes::new(Kind::File, mode, caller.uid, caller.gid, now()));
        self.make_file((parent, segment), &at, attributes, (request, share), caller).await
    }

    /// Stores an empty file and opens it.
    async fn make_file(
        &self,
        (parent, segment): (Ino, &Segment),
        at: &BlobPath,
        attributes: Attributes,
        (request, share): (OpenRequest, ShareMode),
        caller: Caller,
    ) -> Result<Created> {
        let store = self.local()?;
        // A file that is made with set-id bits loses them with a write, of which the kernel would not tell.
        let kernel_allowed =
            self.kernel_may_write() && !attributes.has_set_id() && !self.habits.makes_small_files(caller.pid);
        // First what may fail (no descriptor is left): the name must not be there when the create is refused.
        let content = self.fresh_content(store, kernel_allowed)?;
        let new = NewContent { metadata: attributes.to_metadata(), ..NewContent::default() };
        let changing = self.will_change(&at.name, Changed::Everything)?;
        let blob = store.put_small(at, Bytes::new(), new, &must_be_new())?;
        drop(changing);
        crash_point("create_after_publish");
        let ino = Ino::of(blob.id);
        // Nobody else can know the number yet, so the gate grants at once.
        let claim = Claim { access: request.access(), share };
        let permit = self.gate.open(ino, claim, Holder::new(caller, attributes.ctime)).await?;
        let lease = match self.take_lease(claim) {
            TakeLease::Yes if self.upstream().is_none() => Some(self.leases.acquire(ino, at, now()).await?),
            // Elsewhere there is no blob yet that could be leased; `reserve` follows.
            TakeLease::Yes | TakeLease::No | TakeLease::Judged => None,
        };
        let file = Arc::new(OpenFile::new(ino, content, blob));
        file.note_unpushed();
        file.set_maker(caller.pid);
        let mtime = attributes.mtime;
        let place = Place { store, at: Some(at), info: None, mtime, now: mtime };
        let route = file.route(request.into(), kernel_allowed, place)?;
        self.nodes.remember_held(ino, parent, segment);
        self.files.lock().insert(ino, Arc::clone(&file));
        let stat = Stat { ino, size: 0, blocks: 0, links: 1, attributes, volatile: true };
        let handle = self.handles.insert(Handle::new(file, permit, lease));
        Ok(Created::New(stat, Opened { handle, route }))
    }

    fn take_lease(&self, claim: Claim) -> TakeLease {
        if self.config.fencing.concurrency.takes_lease(claim) { TakeLease::Yes } else { TakeLease::No }
    }

    /// Where the bytes of a file are going to be that was just made.
    fn fresh_content(&self, store: &dyn LocalStore, kernel_allowed: bool) -> Result<Content> {
        if !kernel_allowed && let Some(room) = self.memory.take() {
            return Ok(Content::Memory(Memory::new(room, store.inline_max())));
        }
        let scratch = store.scratch()?;
        Ok(Content::Live(Live::fresh(&scratch)?.with(scratch)))
    }

    /// One more use of the file: the shared state of its opens, loaded for the first of them, and who moves the
    /// bytes of an open like `request`. Undone by [`detach`](Self::detach); who is refused has the permit to
    /// [`leave`](Self::leave). Somebody else's lease refuses writers.
    pub(super) async fn attach(
        &self,
        ino: Ino,
        request: Option<OpenRequest>,
        permit: &OpenPermit,
        take_lease: TakeLease,
    ) -> Result<Attached> {
        if self.upstream().is_none() {
            return self.attach_ready(ino, request, permit, take_lease, None, Need::Nothing).await;
        }
        // Elsewhere: the lease comes first, or somebody could write between the look and the lease.
        let lease = match take_lease {
            TakeLease::Yes => self.hold_lease(ino).await?,
            TakeLease::No | TakeLease::Judged => None,
        };
        let writes = permit.access().contains(Access::WRITE);
        let refused_by_lease = writes && take_lease != TakeLease::Judged;
        let need = match request {
            Some(OpenRequest { truncate: true, .. }) => Need::Nothing,
            _ if writes => Need::Change,
            _ => Need::Read,
        };
        for _ in 0..OUTRUN_MAX {
            let ready = self.make_ready(ino, refused_by_lease, need).await?;
            match self.attach_ready(ino, request, permit, TakeLease::No, ready.as_ref(), need).await {
                // The mirror got another version after this one was made ready.
                Err(FsError::NotHere(_)) => {}
                Ok(attached) => return Ok(Attached { lease, ..attached }),
                Err(error) => return Err(error),
            }
        }
        Err(FsError::Stale)
    }

    /// [`attach`](Self::attach) with content that was made ready. [`FsError::NotHere`] if that was another version.
    async fn attach_ready(
        &self,
        ino: Ino,
        request: Option<OpenRequest>,
        permit: &OpenPermit,
        take_lease: TakeLease,
        ready: Option<&Ready>,
        need: Need,
    ) -> Result<Attached> {
        let store = self.local()?;
        let Some(Guarded { at, parent, segment, .. }) = &self.guard_name(ino).await? else {
            // Without a name it can only be opened again while it is open; else the path leads elsewhere by now.
            let file = self.attach_open(ino).ok_or(FsError::Stale)?;
            self.nodes.hold_again(ino);
            let place = Place { store, at: None, info: None, mtime: now(), now: now() };
            let (file, route) = self.routed(file, request, false, place)?;
            return Ok(Attached { file, route, lease: None });
        };
        let (blob, content) = self.one_look(ino, at)?;
        let attributes = Attributes::of_blob(&blob, self.config.owner);
        must_be_file(attributes.kind)?;
        if !self.is_ready(ready, need, blob.etag) {
            return Err(FsError::NotHere(0..0));
        }
        let fetch = || ready.and_then(|ready| ready.fetch.clone());
        let _changing = match request {
            Some(OpenRequest { truncate: true, .. }) => self.will_change(&at.name, Changed::Everything)?,
            Some(_) | None => Changing::nothing(),
        };
        if request.is_some_and(|request| request.access().contains(Access::WRITE))
            && is_read_only_by_attribute(&blob.metadata, &attributes)
        {
            return Err(FsError::ReadOnly);
        }
        let lease = match take_lease {
            TakeLease::Yes => Some(self.leases.acquire(ino, at, now()).await?),
            TakeLease::No if permit.access().contains(Access::WRITE) => {
                self.lease_for(&blob)?;
                None
            }
            TakeLease::No | TakeLease::Judged => None,
        };
        let file = match self.attach_open(ino) {
            Some(file) => {
                // What was committed elsewhere is seen by the next open, as far as nothing here gets lost.
                match file.refresh(blob.etag, || Ok((store.reader(at)?, fetch()))) {
                    Ok(_) => {}
                    Err(error) => tracing::debug!(ino = ino.0, %error, "an open file stays as it is"),
                }
                file
            }
            None => {
                // Before the lease was ours somebody may have written.
                let content = content.filter(|_| lease.is_none());
                let file = self.load(ino, content.map_or_else(|| store.reader(at), Ok)?);
                file.set_fetch(fetch());
                file
            }
        };
        self.nodes.hold(ino, *parent, segment);
        // Not the version that the store has by now: the one whose bytes this open is going to see.
        let (etag, mtime) = (file.base().etag, attributes.mtime);
        let info = Committing { engine: self, ino, blob, shown: None };
        let place = Place { store, at: Some(at), info: Some(&info), mtime, now: now() };
        let (file, route) = self.routed(file, request, attributes.has_set_id(), place)?;
        Ok(Attached { file, route: self.note_cache(ino, etag, route), lease })
    }

    fn routed(
        &self,
        file: Arc<OpenFile>,
        request: Option<OpenRequest>,
        set_id: bool,
        place: Place<'_>,
    ) -> Result<(Arc<OpenFile>, Route)> {
        let Some(request) = request else {
            return Ok((file, Route::Engine { keep_cache: false }));
        };
        // The kernel would not tell us to drop set-id bits when it writes by itself.
        let kernel_allowed = match request.access().contains(Access::WRITE) {
            true => self.kernel_may_write() && !(request.write && set_id),
            false => self.passthrough(),
        };
        match file.route(request.into(), kernel_allowed, place) {
            Ok(route) => Ok((file, route)),
            Err(error) => {
                self.give_up(&file);
                Err(error)
            }
        }
    }

    /// What an open begins with: the blob and, if nobody has it open, its content. Both from one look at the store,
    /// because others may change it between two.
    fn one_look(&self, ino: Ino, at: &BlobPath) -> Result<(Arc<BlobProperties>, Option<ContentReader>)> {
        let store = self.local()?;
        let (blob, content) = if self.open_file(ino).is_some() {
            (store.find(at)?.blob, None)
        } else {
            match store.reader(at) {
                Ok(reader) => (Some(Arc::clone(reader.properties())), Some(reader)),
                Err(StoreError::BlobNotFound(_)) => (None, None),
                Err(error) => return Err(error.into()),
            }
        };
        match blob {
            Some(blob) if Ino::of(blob.id) == ino => Ok((blob, content)),
            None if store.find(at)?.prefix.is_some() => Err(FsError::IsADirectory),
            // The path leads elsewhere, or nowhere: whoever came by it looks it up again.
            Some(_) | None => Err(FsError::Stale),
        }
    }

    /// Puts a file with this content, and one use, among the open ones.
    pub(super) fn load(&self, ino: Ino, reader: ContentReader) -> Arc<OpenFile> {
        let base = Arc::clone(reader.properties());
        let file = Arc::new(OpenFile::new(ino, Content::Clean(reader), base));
        self.files.lock().insert(ino, Arc::clone(&file));
        file
    }

    fn attach_open(&self, ino: Ino) -> Option<Arc<OpenFile>> {
        let files = self.files.lock();
        let file = files.get(&ino)?;
        file.add_open();
        Some(Arc::clone(file))
    }

    /// Notes what the page cache is going to hold, and says whether it holds it already.
    fn note_cache(&self, ino: Ino, version: ETag, route: Route) -> Route {
        match route {
            Route::Engine { .. } => {
                let keep_cache = self.nodes.swap_cached(ino, Some(version)) == Some(version);
                Route::Engine { keep_cache }
            }
            Route::Kernel(_) | Route::Direct(_) => {
                self.nodes.set_cached(ino, None);
                route
            }
        }
    }

    /// The kernel would not serve this open's bytes itself.
    pub fn kernel_refused(&self, handle: HandleId) -> Result<()> {
        self.handles.peek(handle)?.file.kernel_refused();
        Ok(())
    }
}

fn must_be_file(kind: Kind) -> Result<()> {
    match kind {
        Kind::File => Ok(()),
        Kind::Directory => Err(FsError::IsADirectory),
        Kind::Symlink | Kind::Fifo | Kind::Socket => Err(FsError::Invalid("not a regular file")),
    }
}

/// Whether an open takes the blob's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakeLease {
    Yes,
    No,
    /// No, and it was judged already whether one is in the way.
    Judged,
}

/// One more use of a file.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) file: Arc<OpenFile>,
    pub(super) route: Route,
    pub(super) lease: Option<LeaseHold>,
}

enum Created {
    New(Stat, Opened),
    Exists(Stat),
}
