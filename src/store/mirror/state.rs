//! What is known of a blob besides the blob: its sidecar, its blocks, and what of it is not pushed. And the
//! leases that are held.
//!
//! Each is a small blob in a container of its own, under the blob's name. A sidecar that does not fit the blob (it names
//! another version of the mirror's) says nothing: the blob is then taken as unknown, and its content as not here. An
//! unpushed entry always counts, even one that cannot be read.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::share::Moment;
use crate::share::lease::LeaseId;
use crate::store::embedded::EmbeddedStore;
use crate::store::{
    BlobName, BlobPath, BlobStore, ContainerName, ETag, ListItem, ListQuery, LocalStore, Metadata,
    NewContent, Preconditions, PublicAccess, Result, StoreError,
};

/// Containers of the mirror's store that are not the share.
const STATE: &str = "mirror-state";
const BLOCKS: &str = "mirror-blocks";
const UNPUSHED: &str = "mirror-unpushed";
const LEASES: &str = "mirror-leases";
/// Where a mirror keeps its own name, among the sidecars. No blob of a share is called that.
const OWNER: &str = ".leasefs/owner";
/// The first byte of everything that is stored here; changes with its form.
const FORM: u8 = 1;
/// Mutexes that updates of sidecars are spread over.
const STRIPES: usize = 64;

/// What ties a blob of the mirror to its version at the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sidecar {
    /// The service's version; nothing for a directory that has no blob of its own there.
    pub there: Option<ETag>,
    /// The mirror's version that corresponds to it. The blob was changed here iff it has another by now.
    pub here: ETag,
    /// Length of the service's version.
    pub size: u64,
    /// Which of its bytes are in the mirror.
    pub content: Presence,
    /// When it was last opened.
    pub used: Moment,
}

/// Which bytes of a version are here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Presence {
    /// None: the mirror's content is a hole.
    #[default]
    Nothing,
    /// Some chunks: one bit each, the first in the lowest bit of the first byte.
    Part(Vec<u8>),
    /// All.
    All,
}

/// The blocks a version at the service is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Which version.
    pub there: ETag,
    /// In order of the content. None for a version that was put in one piece.
    pub blocks: Vec<Block>,
}

/// One block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Its id.
    pub id: Vec<u8>,
    /// Its length.
    pub len: u64,
    /// What its bytes are recognised by, if this mirror sent them.
    pub digest: Option<[u8; 16]>,
}

/// A change that the service does not have yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpushed {
    /// Which bytes may have changed, sorted, apart from each other; `None` for all of them.
    pub ranges: Option<Vec<Range<u64>>>,
    /// The shortest the content has been since: what is behind that may have changed, too.
    pub shortest: u64,
    /// The mark that pushes of it carry: a version that has it at the service is ours.
    pub token: String,
    /// Whether the push may go over a version that somebody else made meanwhile.
    pub unchecked: bool,
    /// The blob is being removed, moved or replaced: should the service not have the version any more that it was changed
    /// from, the change is void.
    pub leaving: bool,
}

/// What is kept in memory of an unpushed entry.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    /// Grows with every change, so that a push knows whether it had everything.
    number: u64,
    /// Length of the content when it was last changed.
    bytes: u64,
    /// Whether the content is written in place: then there may always be more.
    in_place: bool,
    /// [`Unpushed::leaving`].
    leaving: bool,
}

/// An unpushed entry that was taken out, to be put back under another name.
#[derive(Debug)]
pub(super) struct Taken {
    entry: Unpushed,
    in_place: bool,
}

impl Taken {
    /// Void, should the service not have the version any more that it was changed from.
    pub(super) fn leaving(self) -> Self {
        Self { entry: Unpushed { leaving: true, ..self.entry }, ..self }
    }

    /// Changed in every byte.
    pub(super) fn of_anything(self) -> Self {
        Self { entry: Unpushed { ranges: None, leaving: false, ..self.entry }, ..self }
    }
}

/// All of them.
#[derive(Debug, Default)]
struct AllWaiting {
    names: BTreeMap<String, Waiting>,
    /// How many changes of a name are announced and not made yet.
    announced: HashMap<String, usize>,
    /// Their bytes together.
    bytes: u64,
}

impl AllWaiting {
    fn set(&mut self, name: &str, entry: Waiting) {
        self.bytes += entry.bytes;
        if let Some(old) = self.names.insert(name.to_owned(), entry) {
            self.bytes -= old.bytes;
        }
    }

    /// Whether there is, or is going to be, a change behind the one of this number.
    fn has_more(&self, name: &str, number: u64) -> bool {
        self.announced.contains_key(name)
            || self.names.get(name).is_some_and(|entry| entry.number != number || entry.in_place)
    }

    fn remove(&mut self, name: &str) {
        self.bytes -= self.names.remove(name).map_or(0, |old| old.bytes);
    }
}

/// A change that was announced, until it is made or given up. What is pushed meanwhile may not contain it.
pub(super) struct Announced {
    sidecars: Arc<Sidecars>,
    name: String,
}

impl Drop for Announced {
    fn drop(&mut self) {
        let mut waiting = self.sidecars.waiting.lock();
        // A push that looked before the change was made does not count as one of it.
        if let Some(entry) = waiting.names.get_mut(&self.name) {
            entry.number += 1;
        }
        if let Entry::Occupied(mut count) = waiting.announced.entry(std::mem::take(&mut self.name)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// The sidecars, layouts and unpushed entries of a mirror.
pub struct Sidecars {
    store: Arc<EmbeddedStore>,
    state: ContainerName,
    blocks: ContainerName,
    unpushed: ContainerName,
    leases: ContainerName,
    stripes: [Mutex<()>; STRIPES],
    /// See [`tying`](Self::tying).
    ties: RwLock<()>,
    /// Names that have an unpushed entry.
    waiting: Mutex<AllWaiting>,
}

impl std::fmt::Debug for Sidecars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sidecars").finish_non_exhaustive()
    }
}

impl Sidecars {
    /// Those in `store`; the containers are made if they are not there.
    pub(super) async fn open(store: Arc<EmbeddedStore>) -> Result<Self> {
        let container = async |name: &str| {
            let name = ContainerName::new(name)?;
            match store.create_container(&name, Metadata::new(), PublicAccess::None).await {
                Ok(_) | Err(StoreError::ContainerExists(_)) => Ok::<_, StoreError>(name),
                Err(error) => Err(error),
            }
        };
        let (state, blocks, unpushed) =
            (container(STATE).await?, container(BLOCKS).await?, container(UNPUSHED).await?);
        let leases = container(LEASES).await?;
        let stripes = std::array::from_fn(|_| Mutex::default());
        let waiting = AllWaiting { names: names_in(&store, &unpushed).await?, ..AllWaiting::default() };
        let waiting = Mutex::new(waiting);
        let ties = RwLock::default();
        let sidecars = Self { store, state, blocks, unpushed, leases, stripes, ties, waiting };
        sidecars.find_leaving()?;
        Ok(sidecars)
    }

    /// Learns which of the entries that were found are of blobs that were being removed, moved or replaced.
    fn find_leaving(&self) -> Result<()> {
        let waiting = &mut self.waiting.lock().names;
        for (name, waiting) in waiting {
            let entry = self.read_unpushed(&BlobName::new(name.as_str())?)?;
            waiting.leaving = entry.is_some_and(|entry| entry.leaving);
        }
        Ok(())
    }

    /// For whoever gives blobs of the mirror versions of the service, and then the sidecars that say so. In between a
    /// version looks like a change that was made here.
    pub(super) fn tying(&self) -> RwLockWriteGuard<'_, ()> {
        self.ties.write()
    }

    /// For whoever compares a blob of the mirror with its sidecar.
    pub(super) fn tied(&self) -> RwLockReadGuard<'_, ()> {
        self.ties.read()
    }

    /// The sidecar of a name, if there is one that can be read.
    pub fn get(&self, name: &BlobName) -> Result<Option<Sidecar>> {
        Ok(self.read(&self.state, name)?.and_then(|bytes| decode(&bytes)))
    }

    /// Some sidecars in the order of their names, from `marker` on, and where to go on.
    pub(super) async fn page(
        &self,
        marker: Option<String>,
        max: usize,
    ) -> Result<(Vec<(BlobName, Sidecar)>, Option<String>)> {
        let query = ListQuery { marker, max, ..ListQuery::default() };
        let page = self.store.list_blobs(&self.state, &query).await?;
        let mut sidecars = Vec::with_capacity(page.items.len());
        for item in page.items {
            if let ListItem::Blob { name, .. } = item {
                let name = BlobName::new(name)?;
                sidecars.extend(self.get(&name)?.map(|sidecar| (name, sidecar)));
            }
        }
        Ok((sidecars, page.next))
    }

    /// Changes the sidecar of a name: `change` sees what is there and answers what is to be there. No two changes of one
    /// name happen at a time.
    pub fn update(
        &self,
        name: &BlobName,
        change: impl FnOnce(Option<Sidecar>) -> Option<Sidecar>,
    ) -> Result<Option<Sidecar>> {
        let _one_at_a_time = self.stripe(name).lock();
        let old = self.get(name)?;
        let new = change(old.clone());
        if new != old {
            match &new {
                Some(sidecar) => self.write(&self.state, name, sidecar)?,
                None => self.delete(&self.state, name)?,
            }
        }
        Ok(new)
    }

    /// Notes that nothing of the version `here` is here, before that is so. Works on a full disk, too.
    pub(super) fn note_gone(&self, name: &BlobName, here: ETag) -> Result<()> {
        let _one_at_a_time = self.stripe(name).lock();
        match self.get(name)? {
            Some(sidecar) if sidecar.here == here => {
                let bytes = encode(&Sidecar { content: Presence::Nothing, ..sidecar })?;
                let at = BlobPath::new(self.state.clone(), name.clone());
                self.store.put_before_freeing(&at, bytes)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The blocks of the version `there` of a name, as far as they are known.
    pub fn layout(&self, name: &BlobName, there: ETag) -> Result<Option<Layout>> {
        let layout: Option<Layout> = self.read(&self.blocks, name)?.and_then(|bytes| decode(&bytes));
        Ok(layout.filter(|layout| layout.there == there))
    }

    /// Notes the blocks of a version, in place of those of the version before.
    pub fn set_layout(&self, name: &BlobName, layout: &Layout) -> Result<()> {
        self.write(&self.blocks, name, layout)
    }

    /// What of a name is not pushed, and the number of the last change. An entry that cannot be read stands for
    /// everything.
    pub fn unpushed(&self, name: &BlobName) -> Result<Option<(Unpushed, u64)>> {
        let Some(waiting) = self.waiting.lock().names.get(name.as_str()).copied() else { return Ok(None) };
        Ok(self.read_unpushed(name)?.map(|entry| (entry, waiting.number)))
    }

    fn read_unpushed(&self, name: &BlobName) -> Result<Option<Unpushed>> {
        Ok(self.read(&self.unpushed, name)?.map(|bytes| decode(&bytes).unwrap_or_default()))
    }

    /// A change of this name is going to be made. To be called before [`note`](Self::note).
    pub(super) fn announce(self: &Arc<Self>, name: &BlobName) -> Announced {
        let name = name.as_str().to_owned();
        *self.waiting.lock().announced.entry(name.clone()).or_default() += 1;
        Announced { sidecars: Arc::clone(self), name }
    }

    /// Notes a change that is about to be made to content of this length: `change` sees what is not pushed and answers
    /// what will be.
    pub(super) fn note(
        &self,
        name: &BlobName,
        bytes: u64,
        change: impl FnOnce(Option<Unpushed>) -> Unpushed,
    ) -> Result<()> {
        let _one_at_a_time = self.stripe(name).lock();
        let old = if self.is_unpushed(name) { self.read_unpushed(name)? } else { None };
        let new = change(old.clone());
        if old.as_ref() != Some(&new) {
            self.write(&self.unpushed, name, &new)?;
        }
        let mut waiting = self.waiting.lock();
        let old = waiting.names.get(name.as_str()).copied().unwrap_or_default();
        waiting.set(name.as_str(), Waiting { number: old.number + 1, bytes, leaving: new.leaving, ..old });
        Ok(())
    }

    /// Notes whether the content of a name with changes is written in place.
    pub(super) fn set_in_place(&self, name: &BlobName, in_place: bool) {
        if let Some(entry) = self.waiting.lock().names.get_mut(name.as_str()) {
            entry.in_place = in_place;
        }
    }

    /// Notes under which fence what is not pushed is to be pushed later, and how long the content is now.
    pub(super) fn note_fence(&self, name: &BlobName, bytes: u64, unchecked: bool) -> Result<()> {
        let _one_at_a_time = self.stripe(name).lock();
        {
            let mut waiting = self.waiting.lock();
            if let Some(old) = waiting.names.get(name.as_str()).copied() {
                waiting.set(name.as_str(), Waiting { bytes, ..old });
            }
        }
        match self.read_unpushed(name)? {
            Some(entry) if entry.unchecked != unchecked => {
                self.write(&self.unpushed, name, &Unpushed { unchecked, ..entry })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Notes that a blob with changes is being removed, moved or replaced, or that it stays after all. Answers what is not
    /// pushed of it.
    pub(super) fn note_leaving(&self, name: &BlobName, leaving: bool) -> Result<Option<Unpushed>> {
        let _one_at_a_time = self.stripe(name).lock();
        if !self.is_unpushed(name) {
            return Ok(None);
        }
        let Some(entry) = self.read_unpushed(name)? else { return Ok(None) };
        let entry = Unpushed { leaving, ..entry };
        self.write(&self.unpushed, name, &entry)?;
        if let Some(waiting) = self.waiting.lock().names.get_mut(name.as_str()) {
            waiting.leaving = leaving;
        }
        Ok(Some(entry))
    }

    /// Everything up to the change of this number was pushed. Answers whether that was all.
    pub(super) fn settle(&self, name: &BlobName, number: u64) -> Result<bool> {
        let _one_at_a_time = self.stripe(name).lock();
        if self.waiting.lock().has_more(name.as_str(), number) {
            // What is not pushed of the rest is not told from what is; and it gets a mark of its own.
            if let Some(entry) = self.read_unpushed(name)? {
                self.write(&self.unpushed, name, &Unpushed { token: new_token(), ..entry })?;
            }
            return Ok(false);
        }
        self.delete(&self.unpushed, name)?;
        self.waiting.lock().remove(name.as_str());
        Ok(true)
    }

    /// Drops what is not pushed of a name.
    pub(super) fn drop_unpushed(&self, name: &BlobName) -> Result<()> {
        self.take_unpushed(name).map(drop)
    }

    /// Takes out what is not pushed of a name.
    pub(super) fn take_unpushed(&self, name: &BlobName) -> Result<Option<Taken>> {
        let _one_at_a_time = self.stripe(name).lock();
        let Some(Waiting { in_place, .. }) = self.waiting.lock().names.get(name.as_str()).copied() else {
            return Ok(None);
        };
        let old = self.read_unpushed(name)?;
        self.delete(&self.unpushed, name)?;
        self.waiting.lock().remove(name.as_str());
        Ok(old.map(|entry| Taken { entry, in_place }))
    }

    /// Takes what is known of a blob along to its new name, whose version at the service is `there` now if it had the
    /// version `was`. What belongs to any other version is not believed any more.
    pub(super) fn rename(&self, from: &BlobName, to: &BlobName, moved: Option<(ETag, ETag)>) -> Result<()> {
        let (sidecar, layout) = self.moved(from, moved)?;
        self.replace(to, sidecar, layout)?;
        self.forget(from)
    }

    /// The same for two blobs that change places.
    pub(super) fn exchange(
        &self,
        (one, one_moved): (&BlobName, Option<(ETag, ETag)>),
        (other, other_moved): (&BlobName, Option<(ETag, ETag)>),
    ) -> Result<()> {
        let (first, second) = (self.moved(one, one_moved)?, self.moved(other, other_moved)?);
        self.replace(one, second.0, second.1)?;
        self.replace(other, first.0, first.1)
    }

    /// The same content has another version there by now.
    pub(super) fn follow(&self, name: &BlobName, (was, is): (ETag, ETag)) -> Result<()> {
        let layout = self.layout(name, was)?;
        let mut follows = false;
        self.update(name, |known| {
            let known = known?;
            follows = known.there == Some(was);
            Some(if follows { Sidecar { there: Some(is), ..known } } else { known })
        })?;
        match layout.filter(|_| follows) {
            Some(layout) => self.set_layout(name, &Layout { there: is, ..layout }),
            None => Ok(()),
        }
    }

    /// What is known of a blob after it was moved.
    pub(super) fn moved(
        &self,
        from: &BlobName,
        moved: Option<(ETag, ETag)>,
    ) -> Result<(Option<Sidecar>, Option<Layout>)> {
        Ok(match (self.get(from)?, moved) {
            (Some(sidecar), Some((was, there))) if sidecar.there == Some(was) => {
                let layout = self.layout(from, was)?.map(|layout| Layout { there, ..layout });
                (Some(Sidecar { there: Some(there), ..sidecar }), layout)
            }
            (Some(sidecar), None) if sidecar.there.is_none() => (Some(sidecar), None),
            (Some(_) | None, _) => (None, None),
        })
    }

    pub(super) fn replace(
        &self,
        name: &BlobName,
        sidecar: Option<Sidecar>,
        layout: Option<Layout>,
    ) -> Result<()> {
        if let Some(layout) = layout {
            self.set_layout(name, &layout)?;
        }
        self.update(name, |_| sidecar).map(|_| ())
    }

    /// Puts an entry back that was taken out, perhaps under another name.
    pub(super) fn restore_unpushed(&self, name: &BlobName, taken: Taken) -> Result<()> {
        let Taken { entry, in_place } = taken;
        self.note(name, entry.shortest, |_| entry)?;
        self.set_in_place(name, in_place);
        Ok(())
    }

    /// A name for this mirror that no other mirror has.
    pub(super) fn owner(&self) -> Result<String> {
        let name = BlobName::new(OWNER)?;
        if let Some(owner) = self.read(&self.state, &name)?.and_then(|bytes| decode(&bytes)) {
            return Ok(owner);
        }
        let owner = new_token();
        self.write(&self.state, &name, &owner)?;
        Ok(owner)
    }

    /// Notes the lease that is held on a blob of the service, or is going to be.
    pub(super) fn note_lease(&self, at: &BlobName, id: LeaseId) -> Result<()> {
        let _one_at_a_time = self.stripe(at).lock();
        self.write(&self.leases, at, &id.0)
    }

    /// Strikes it out, unless another is noted by now.
    pub(super) fn strike_lease(&self, at: &BlobName, id: LeaseId) -> Result<()> {
        let _one_at_a_time = self.stripe(at).lock();
        match self.noted_lease(at)? {
            Some(noted) if noted == id => self.delete(&self.leases, at),
            Some(_) | None => Ok(()),
        }
    }

    fn noted_lease(&self, at: &BlobName) -> Result<Option<LeaseId>> {
        Ok(self.read(&self.leases, at)?.and_then(|bytes| decode(&bytes)).map(LeaseId))
    }

    /// All leases that are noted.
    pub(super) async fn noted_leases(&self) -> Result<Vec<(BlobName, LeaseId)>> {
        let mut noted = Vec::new();
        for name in names_in(&self.store, &self.leases).await?.into_keys() {
            let name = BlobName::new(name)?;
            noted.extend(self.noted_lease(&name)?.map(|id| (name, id)));
        }
        Ok(noted)
    }

    /// The names whose changes may be void.
    pub(super) fn leaving_names(&self) -> Vec<BlobName> {
        let waiting = &self.waiting.lock().names;
        let leaving = waiting.iter().filter(|(_, entry)| entry.leaving);
        leaving.filter_map(|(name, _)| BlobName::new(name.as_str()).ok()).collect()
    }

    /// Whether a name has changes that are not pushed.
    pub fn is_unpushed(&self, name: &BlobName) -> bool {
        self.waiting.lock().names.contains_key(name.as_str())
    }

    /// Whether a name or any below it has.
    pub(super) fn is_unpushed_below(&self, name: &str) -> bool {
        let waiting = &self.waiting.lock().names;
        waiting.contains_key(name) || below(waiting, name).next().is_some()
    }

    /// The names that have changes that are not pushed: a name and those below it, or all.
    pub(super) fn unpushed_names(&self, top: Option<&str>) -> Vec<BlobName> {
        let waiting = &self.waiting.lock().names;
        let names: Vec<&String> = match top {
            Some(top) => waiting
                .get_key_value(top)
                .map(|(name, _)| name)
                .into_iter()
                .chain(below(waiting, top))
                .collect(),
            None => waiting.keys().collect(),
        };
        names.into_iter().filter_map(|name| BlobName::new(name.as_str()).ok()).collect()
    }

    /// How many names have changes that are not pushed, and how many bytes they have together.
    pub(super) fn unpushed_total(&self) -> (u64, u64) {
        let waiting = self.waiting.lock();
        (waiting.names.len() as u64, waiting.bytes)
    }

    /// Forgets a blob that is not there any more, except what of it is not pushed.
    pub(super) fn forget(&self, name: &BlobName) -> Result<()> {
        self.update(name, |_| None)?;
        self.delete(&self.blocks, name)
    }

    fn stripe(&self, name: &BlobName) -> &Mutex<()> {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(name);
        &self.stripes[usize::try_from(hash % STRIPES as u64).unwrap_or_default()]
    }

    fn read(&self, container: &ContainerName, name: &BlobName) -> Result<Option<Bytes>> {
        let at = BlobPath::new(container.clone(), name.clone());
        let reader = match self.store.reader(&at) {
            Ok(reader) => reader,
            Err(StoreError::BlobNotFound(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        if let Some(bytes) = reader.as_bytes() {
            return Ok(Some(bytes.clone()));
        }
        let mut bytes = vec![0; usize::try_from(reader.size()).unwrap_or(usize::MAX)];
        let read = reader.read_at(&mut bytes, 0);
        read.map_err(|error| StoreError::io("read the mirror's state", error))?;
        Ok(Some(bytes.into()))
    }

    fn write(&self, container: &ContainerName, name: &BlobName, value: &impl Serialize) -> Result<()> {
        let at = BlobPath::new(container.clone(), name.clone());
        let bytes = encode(value)?;
        let (new, always) = (NewContent::default(), Preconditions::default());
        if bytes.len() as u64 <= self.store.inline_max() {
            return match self.store.put_small(&at, bytes.clone(), new, &always) {
                // That something was pushed is what lets its content go: a full disk must not forbid to say so.
                Err(StoreError::Full) if *container == self.state || *container == self.blocks => {
                    self.store.put_before_freeing(&at, bytes)
                }
                other => other.map(|_| ()),
            };
        }
        let scratch = self.store.scratch()?;
        let written = std::os::unix::fs::FileExt::write_all_at(&**scratch.file(), &bytes, 0);
        written.map_err(|error| StoreError::io("write the mirror's state", error))?;
        self.store.publish(&at, &scratch, bytes.len() as u64, new, &always).map(|_| ())
    }

    fn delete(&self, container: &ContainerName, name: &BlobName) -> Result<()> {
        let at = BlobPath::new(container.clone(), name.clone());
        self.store.discard(&at, &Preconditions::default())
    }
}

/// A mark that no other push has.
pub(super) fn new_token() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// The names in a container.
async fn names_in(store: &EmbeddedStore, container: &ContainerName) -> Result<BTreeMap<String, Waiting>> {
    let mut names = BTreeMap::new();
    let mut query = ListQuery { max: 1000, ..ListQuery::default() };
    loop {
        let page = store.list_blobs(container, &query).await?;
        names.extend(page.items.into_iter().filter_map(|item| match item {
            ListItem::Blob { name, .. } => Some((name, Waiting::default())),
            ListItem::Snapshot { .. } | ListItem::Uncommitted { .. } | ListItem::Prefix { .. } => None,
        }));
        query.marker = page.next;
        if query.marker.is_none() {
            return Ok(names);
        }
    }
}

/// The names below one.
fn below<'s>(names: &'s BTreeMap<String, Waiting>, top: &str) -> impl Iterator<Item = &'s String> {
    let prefix = format!("{top}/");
    names.range(prefix.clone()..).map(|(name, _)| name).take_while(move |name| name.starts_with(&prefix))
}

fn encode(value: &impl Serialize) -> Result<Bytes> {
    let bytes = postcard::to_extend(value, vec![FORM])
        .map_err(|error| StoreError::Damaged(format!("the mirror's state cannot be written: {error}")))?;
    Ok(bytes.into())
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (&FORM, rest) = bytes.split_first()? else { return None };
    postcard::from_bytes(rest).ok()
}
