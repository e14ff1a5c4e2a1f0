//! What is known of a blob besides the blob: its sidecar, its blocks, and what of it is not pushed.
//!
//! Each is a small blob in a container of its own, under the blob's name. A sidecar that does not fit the blob (it names
//! another version of the mirror's) says nothing: the blob is then taken as unknown, and its content as not here. An
//! unpushed entry always counts, even one that cannot be read.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::share::Moment;
use crate::store::embedded::EmbeddedStore;
use crate::store::{
    BlobName, BlobPath, BlobStore, ContainerName, ETag, LocalStore, Metadata, NewContent, Preconditions,
    PublicAccess, Result, StoreError,
};

/// Containers of the mirror's store that are not the share.
const STATE: &str = "mirror-state";
const BLOCKS: &str = "mirror-blocks";
const UNPUSHED: &str = "mirror-unpushed";
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
    /// Grows with every change, so that a push knows whether it had everything.
    pub number: u64,
    /// Which bytes may have changed, sorted, apart from each other; `None` for all of them.
    pub ranges: Option<Vec<Range<u64>>>,
    /// The mark of the last push that was tried: what has it at the service is ours.
    pub token: Option<String>,
}

/// The sidecars, layouts and unpushed entries of a mirror.
pub struct Sidecars {
    store: Arc<EmbeddedStore>,
    state: ContainerName,
    blocks: ContainerName,
    unpushed: ContainerName,
    stripes: [Mutex<()>; STRIPES],
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
        let stripes = std::array::from_fn(|_| Mutex::default());
        Ok(Self { store, state, blocks, unpushed, stripes })
    }

    /// The sidecar of a name, if there is one that can be read.
    pub fn get(&self, name: &BlobName) -> Result<Option<Sidecar>> {
        Ok(self.read(&self.state, name)?.and_then(|bytes| decode(&bytes)))
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

    /// The blocks of the version `there` of a name, as far as they are known.
    pub fn layout(&self, name: &BlobName, there: ETag) -> Result<Option<Layout>> {
        let layout: Option<Layout> = self.read(&self.blocks, name)?.and_then(|bytes| decode(&bytes));
        Ok(layout.filter(|layout| layout.there == there))
    }

    /// Notes the blocks of a version, in place of those of the version before.
    pub fn set_layout(&self, name: &BlobName, layout: &Layout) -> Result<()> {
        self.write(&self.blocks, name, layout)
    }

    /// What of a name is not pushed. An entry that cannot be read stands for everything.
    pub fn unpushed(&self, name: &BlobName) -> Result<Option<Unpushed>> {
        Ok(self.read(&self.unpushed, name)?.map(|bytes| decode(&bytes).unwrap_or_default()))
    }

    /// Changes what of a name is not pushed, as [`update`](Self::update) does.
    pub fn update_unpushed(
        &self,
        name: &BlobName,
        change: impl FnOnce(Option<Unpushed>) -> Option<Unpushed>,
    ) -> Result<Option<Unpushed>> {
        let _one_at_a_time = self.stripe(name).lock();
        let old = self.unpushed(name)?;
        let new = change(old.clone());
        if new != old {
            match &new {
                Some(entry) => self.write(&self.unpushed, name, entry)?,
                None => self.delete(&self.unpushed, name)?,
            }
        }
        Ok(new)
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
            return self.store.put_small(&at, bytes, new, &always).map(|_| ());
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

fn encode(value: &impl Serialize) -> Result<Bytes> {
    let bytes = postcard::to_extend(value, vec![FORM])
        .map_err(|error| StoreError::Damaged(format!("the mirror's state cannot be written: {error}")))?;
    Ok(bytes.into())
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (&FORM, rest) = bytes.split_first()? else { return None };
    postcard::from_bytes(rest).ok()
}
