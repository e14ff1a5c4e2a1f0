//! Opening and closing files.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::share::{Access, ShareMode};
use crate::store::{BlobPath, NewContent, crash_point};

use super::attributes::{Attributes, Kind};
use super::commit::Committing;
use super::content::Content;
use super::error::{FsError, Result};
use super::file::{Intent, OpenFile, Place, Route, fresh};
use super::gate::{Closing, OpenPermit, RemovePermit};
use super::handles::{Handle, HandleId};
use super::names::Segment;
use super::namespace::Caller;
use super::nodes::Ino;
use super::stat::Stat;
use super::{Engine, now};

/// How a program wants to open a file.
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

    fn intent(self) -> Intent {
        match (self.truncate, self.write) {
            (true, _) => Intent::Truncate,
            (false, true) => Intent::Write,
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
        if request.write || request.truncate {
            self.outlast_in_place(ino).await;
        }
        let permit = self.gate.open(ino, request.access(), ShareMode::ALL).await?;
        if request.truncate {
            self.drop_set_id(ino, caller).await?;
        }
        let file = self.attach(ino).await?;
        match self.route(&file, request).await {
            Ok(route) => {
                let handle = self.handles.insert(Handle::new(file, permit));
                tracing::trace!(ino = ino.0, handle = handle.0, ?request, ?route, "open");
                Ok(Opened { handle, route })
            }
            Err(error) => {
                self.detach(file, &permit).await;
                Err(error)
            }
        }
    }

    /// What was closed is whole and stays so until the next commit. A file that is written in place is not that
    /// until the kernel has told us of its close, so a new writer waits for it.
    async fn outlast_in_place(&self, ino: Ino) {
        if self.open_file(ino).is_some_and(|file| file.is_in_place()) {
            self.gate.outlast_ghosts(ino).await;
        }
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
        let created = self.create_new(parent, segment, mode, request, caller).await?;
        match created {
            Created::New(stat, opened) => {
                self.touch_directory(parent).await;
                Ok((stat, opened))
            }
            // Somebody made it between the kernel's look-up and its create.
            Created::Exists(stat) => match self.open(stat.ino, request, caller).await {
                Ok(opened) => Ok((self.stat(stat.ino).await?, opened)),
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
        let _tree = self.guards.tree().await;
        let _name = self.guards.name(parent, segment).await;
        let at = self.free_name(parent, segment)?;
        let found = self.local()?.find(&at)?;
        if let Some(id) = found.blob.as_ref().map(|blob| blob.id).or(found.prefix) {
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
        let attributes = Attributes::new(Kind::File, mode, caller.uid, caller.gid, now());
        let (ino, file) = self.make_file(parent, segment, &at, &attributes)?;
        // Nobody else can know the number yet, so the gate grants at once.
        let permit = self.gate.open(ino, request.access(), ShareMode::ALL).await?;
        let (store, mtime) = (self.local()?, attributes.mtime);
        let place = Place { store, at: Some(&at), info: None, mtime, now: mtime };
        let route = file.route(Intent::Write, self.passthrough(), place)?;
        self.nodes.remember(ino, parent, segment);
        let stat = self.new_stat(ino, attributes);
        let handle = self.handles.insert(Handle::new(file, permit));
        Ok(Created::New(stat, Opened { handle, route }))
    }

    /// Stores an empty file and puts it among the open ones.
    fn make_file(
        &self,
        parent: Ino,
        segment: &Segment,
        at: &BlobPath,
        attributes: &Attributes,
    ) -> Result<(Ino, Arc<OpenFile>)> {
        let local = self.local()?;
        let scratch = local.scratch()?;
        let new = NewContent { metadata: attributes.to_metadata(), ..NewContent::default() };
        let blob = local.publish(at, &scratch, 0, new, &super::namespace::must_be_new())?;
        crash_point("create_after_publish");
        let ino = Ino::of(blob.id);
        let file = Arc::new(OpenFile::new(ino, fresh(scratch)));
        self.nodes.hold(ino, parent, segment);
        self.files.lock().insert(ino, Arc::clone(&file));
        Ok((ino, file))
    }

    pub(super) fn new_stat(&self, ino: Ino, attributes: Attributes) -> Stat {
        Stat { ino, size: 0, blocks: 0, links: 1, attributes, volatile: true }
    }

    /// Runs `action` with what a change of content may need, while the file's name stays where it is.
    pub(super) async fn with_place<T>(
        &self,
        ino: Ino,
        action: impl FnOnce(Place<'_>) -> Result<T>,
    ) -> Result<T> {
        let _tree = self.guards.tree().await;
        let Some((parent, segment)) = self.nodes.place(ino) else {
            return action(Place { store: self.local()?, at: None, info: None, mtime: now(), now: now() });
        };
        let _name = self.guards.name(parent, &segment).await;
        let at = self.at(self.nodes.child_name(parent, &segment)?);
        let found = self.local()?.find(&at)?;
        let blob = found.blob.ok_or(FsError::NotFound)?;
        let mtime = Attributes::of_blob(&blob, self.config.owner).mtime;
        let info = Committing { engine: self, ino, blob };
        action(Place { store: self.local()?, at: Some(&at), info: Some(&info), mtime, now: now() })
    }

    async fn route(&self, file: &Arc<OpenFile>, request: OpenRequest) -> Result<Route> {
        let ino = file.ino();
        let stat = self.stat(ino).await?;
        // The kernel would not tell us to drop set-id bits when it writes by itself.
        let kernel_allowed = self.passthrough() && !(request.write && stat.attributes.has_set_id());
        let route = self.with_place(ino, |place| file.route(request.intent(), kernel_allowed, place)).await?;
        Ok(match route {
            Route::Engine { .. } => Route::Engine { keep_cache: self.keep_cache(file).await },
            Route::Kernel(_) => {
                self.nodes.set_cached(ino, None);
                route
            }
            Route::Direct(_) => route,
        })
    }

    /// Whether the page cache holds this version already; notes that it is going to.
    async fn keep_cache(&self, file: &OpenFile) -> bool {
        let ino = file.ino();
        let Ok(Some(name)) = self.nodes.blob_name(ino) else {
            return false;
        };
        let found = self.local().and_then(|local| Ok(local.find(&self.at(name))?));
        let version = found.ok().and_then(|found| found.blob).map(|blob| blob.etag);
        let keep = version.is_some() && self.nodes.cached(ino) == version;
        self.nodes.set_cached(ino, version);
        keep
    }

    /// The shared state of an open file; loads it for the first open.
    pub(super) async fn attach(&self, ino: Ino) -> Result<Arc<OpenFile>> {
        let _tree = self.guards.tree().await;
        let Some((parent, segment)) = self.nodes.place(ino) else {
            // Without a name it can only be opened again while it is open.
            let file = self.attach_open(ino).ok_or(FsError::NotFound)?;
            self.nodes.hold_again(ino);
            return Ok(file);
        };
        let _name = self.guards.name(parent, &segment).await;
        if let Some(file) = self.attach_open(ino) {
            self.nodes.hold(ino, parent, &segment);
            return Ok(file);
        }
        let at = self.at(self.nodes.child_name(parent, &segment)?);
        let reader = self.local()?.reader(&at)?;
        match Attributes::of_blob(reader.properties(), self.config.owner).kind {
            Kind::File => {}
            Kind::Directory => return Err(FsError::IsADirectory),
            Kind::Symlink | Kind::Fifo | Kind::Socket => {
                return Err(FsError::Invalid("not a regular file"));
            }
        }
        self.nodes.hold(ino, parent, &segment);
        let file = Arc::new(OpenFile::new(ino, Content::Clean(reader)));
        self.files.lock().insert(ino, Arc::clone(&file));
        Ok(file)
    }

    fn attach_open(&self, ino: Ino) -> Option<Arc<OpenFile>> {
        let files = self.files.lock();
        let file = files.get(&ino)?;
        file.add_open();
        Some(Arc::clone(file))
    }

    /// The kernel would not serve this open's bytes itself.
    pub fn kernel_refused(&self, handle: HandleId) -> Result<()> {
        self.handles.peek(handle)?.file.kernel_refused();
        Ok(())
    }

    /// Closes a handle: commits what is not committed yet, and finishes a pending remove with the last close.
    pub async fn release(&self, handle: HandleId) -> Result<ReleaseReport> {
        let handle = self.handles.remove(handle)?;
        let ino = handle.file.ino();
        let changed = handle.file.needs_commit()?;
        tracing::trace!(ino = ino.0, changed, "release");
        if let Err(error) = self.commit(&handle.file).await {
            tracing::error!(ino = ino.0, %error, "a file could not be committed at its close");
        }
        crash_point("release_after_commit");
        self.detach(Arc::clone(&handle.file), &handle.permit).await;
        Ok(ReleaseReport { ino, changed })
    }

    /// The other side of [`attach`](Self::attach), with the permit that went with it.
    pub(super) async fn detach(&self, file: Arc<OpenFile>, permit: &OpenPermit) {
        let ino = file.ino();
        let last = self.drop_file(&file);
        let in_pieces = last && file.in_pieces();
        drop(file);
        self.nodes.unhold(ino);
        if let Closing::Remove(permit) = permit.close() {
            if let Err(error) = self.finish_remove(ino, permit).await {
                tracing::error!(ino = ino.0, %error, "a removed file could not be taken away at its last close");
            }
        } else if in_pieces {
            self.tidy(ino).await;
        }
    }

    /// Takes the file out of the table if this was its last open.
    fn drop_file(&self, file: &Arc<OpenFile>) -> bool {
        let mut files = self.files.lock();
        if !file.drop_open() {
            return false;
        }
        if let Entry::Occupied(entry) = files.entry(file.ino())
            && Arc::ptr_eq(entry.get(), file)
        {
            entry.remove();
        }
        true
    }

    /// Takes away a pending file whose last open is closed.
    async fn finish_remove(&self, ino: Ino, permit: RemovePermit) -> Result<()> {
        let _tree = self.guards.tree().await;
        let Some((parent, segment)) = self.nodes.place(ino) else {
            permit.confirm();
            return Ok(());
        };
        let _name = self.guards.name(parent, &segment).await;
        let at = self.at(self.nodes.child_name(parent, &segment)?);
        self.delete_blob(&at).await?;
        crash_point("finish_remove_after_delete");
        self.forget_pending(parent, &segment, ino).await?;
        self.nodes.unnamed(ino);
        permit.confirm();
        Ok(())
    }

    /// Puts content back together after the last close of a file that was changed in places.
    async fn tidy(&self, ino: Ino) {
        let _tree = self.guards.tree().await;
        let Some((parent, segment)) = self.nodes.place(ino) else {
            return;
        };
        let _name = self.guards.name(parent, &segment).await;
        let tidied = self.nodes.child_name(parent, &segment).and_then(|name| {
            self.local()?.tidy(&self.at(name))?;
            Ok(())
        });
        if let Err(error) = tidied {
            tracing::debug!(ino = ino.0, %error, "content stays in pieces");
        }
    }
}

/// What a close did.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseReport {
    /// The file.
    pub ino: Ino,
    /// Bytes were changed after the last flush (through a mapping): cached attributes are wrong.
    pub changed: bool,
}

enum Created {
    New(Stat, Opened),
    Exists(Stat),
}
