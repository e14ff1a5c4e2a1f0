//! What is stored about blobs, prefixes and containers, and how it is encoded.
//!
//! Encoded with postcard: no field names, so the order of fields *is* the format. Changing it needs a new format
//! version in `startup`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::share::Moment;
use crate::share::lease::Lease;
use crate::store::{
    BlobKind, BlobProperties, BlobTier, ContainerAcl, CopyState, ETag, HttpHeaders, Metadata, Result,
    StoreError, Tags,
};

/// Where a version's bytes are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Content {
    /// No bytes.
    #[default]
    Empty,
    /// In the database under this number. Never shared between records.
    Inline(u64),
    /// In files, piece after piece.
    Extents(Vec<Extent>),
    /// In the page map of this number: what is not in it is zeros. Never shared between records.
    Pages(PageMap),
}

/// Where the pages of a page blob are, and the how manieth state of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PageMap {
    pub(super) number: u64,
    pub(super) version: u64,
}

/// A piece of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Extent {
    /// How long it is.
    pub(super) len: u64,
    /// Where it is; zeros if nowhere.
    pub(super) source: Option<Source>,
}

/// A place in a content file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Source {
    /// The file's number.
    pub(super) file: u64,
    /// The first byte in it.
    pub(super) offset: u64,
}

impl Content {
    /// Numbers of the files that hold a piece, each once, sorted.
    pub(super) fn files(&self) -> Vec<u64> {
        let Content::Extents(extents) = self else { return Vec::new() };
        let mut files: Vec<u64> = extents.iter().filter_map(|extent| Some(extent.source?.file)).collect();
        files.sort_unstable();
        files.dedup();
        files
    }

    /// The pieces; none for content in the database.
    pub(super) fn extents(&self) -> &[Extent] {
        match self {
            Content::Extents(extents) => extents,
            Content::Empty | Content::Inline(_) | Content::Pages(_) => &[],
        }
    }
}

/// One version of a blob: what everybody may see, and where the bytes are.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) properties: Arc<BlobProperties>,
    pub(super) content: Content,
    /// Number of the encoded list of committed blocks, if the content was made of blocks.
    pub(super) block_list: Option<u64>,
    /// How many snapshots the blob has.
    pub(super) snapshots: u32,
}

/// What most blobs do not have; one byte if there is none of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Extra {
    tier: Option<BlobTier>,
    tags: Tags,
    copy: Option<Box<CopyState>>,
    sequence_number: u64,
    appended_blocks: u32,
    sealed: bool,
}

impl Extra {
    fn of(blob: &BlobProperties) -> Option<Self> {
        let extra = Self {
            tier: blob.tier,
            tags: blob.tags.clone(),
            copy: blob.copy.clone(),
            sequence_number: blob.sequence_number,
            appended_blocks: blob.appended_blocks,
            sealed: blob.sealed,
        };
        (extra != Self::default()).then_some(extra)
    }
}

#[derive(Serialize)]
struct BlobOut<'a> {
    id: u64,
    etag: ETag,
    kind: BlobKind,
    size: u64,
    created: Moment,
    modified: Moment,
    lease: Lease,
    content: &'a Content,
    block_list: Option<u64>,
    snapshots: u32,
    metadata: &'a Metadata,
    headers: Option<&'a HttpHeaders>,
    content_md5: Option<[u8; 16]>,
    extra: Option<Extra>,
}

#[derive(Deserialize)]
struct BlobIn {
    id: u64,
    etag: ETag,
    kind: BlobKind,
    size: u64,
    created: Moment,
    modified: Moment,
    lease: Lease,
    content: Content,
    block_list: Option<u64>,
    snapshots: u32,
    metadata: Metadata,
    headers: Option<HttpHeaders>,
    content_md5: Option<[u8; 16]>,
    extra: Option<Extra>,
}

impl Entry {
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let blob = &*self.properties;
        encode(&BlobOut {
            id: blob.id,
            etag: blob.etag,
            kind: blob.kind,
            size: blob.size,
            created: blob.created,
            modified: blob.modified,
            lease: blob.lease,
            content: &self.content,
            block_list: self.block_list,
            snapshots: self.snapshots,
            metadata: &blob.metadata,
            headers: (blob.headers != HttpHeaders::default()).then_some(&blob.headers),
            content_md5: blob.content_md5,
            extra: Extra::of(blob),
        })
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let blob: BlobIn = decode(bytes, "a blob record")?;
        let extra = blob.extra.unwrap_or_default();
        let properties = BlobProperties {
            id: blob.id,
            etag: blob.etag,
            kind: blob.kind,
            size: blob.size,
            created: blob.created,
            modified: blob.modified,
            metadata: blob.metadata,
            headers: blob.headers.unwrap_or_default(),
            content_md5: blob.content_md5,
            lease: blob.lease,
            tier: extra.tier,
            tags: extra.tags,
            copy: extra.copy,
            sequence_number: extra.sequence_number,
            appended_blocks: extra.appended_blocks,
            sealed: extra.sealed,
        };
        Ok(Self {
            properties: Arc::new(properties),
            content: blob.content,
            block_list: blob.block_list,
            snapshots: blob.snapshots,
        })
    }
}

/// The version tag in an encoded blob record, without decoding the rest.
pub(super) fn etag_of(bytes: &[u8]) -> Option<ETag> {
    let ((_id, etag), _) = postcard::take_from_bytes::<(u64, ETag)>(bytes).ok()?;
    Some(etag)
}

/// The node of a prefix `name/`: exists while any blob is below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Prefix {
    /// Parent number of everything directly below.
    pub(super) id: u64,
    /// How many blobs and prefixes are directly below.
    pub(super) children: u64,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ContainerRecord {
    /// Parent number of the names at its top.
    pub(super) root: u64,
    pub(super) etag: ETag,
    pub(super) modified: Moment,
    pub(super) metadata: Metadata,
    pub(super) acl: ContainerAcl,
    pub(super) lease: Lease,
}

/// A staged block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StagedBlock {
    pub(super) size: u64,
    pub(super) content: Content,
}

/// What is known of a name that has staged blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Staging {
    /// Last Put Block.
    pub(super) touched: Moment,
    /// How many blocks are staged.
    pub(super) blocks: u32,
    /// Length that every staged block id has.
    pub(super) id_length: u8,
    /// The lease of a blob that has nothing but staged blocks.
    pub(super) lease: Lease,
}

pub(super) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    postcard::to_allocvec(value)
        .map_err(|error| StoreError::Damaged(format!("cannot encode a record: {error}")))
}

pub(super) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &str) -> Result<T> {
    postcard::from_bytes(bytes)
        .map_err(|error| StoreError::Damaged(format!("{what} cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_record_comes_back_as_it_was() {
        let source = Some(Source { file: 7, offset: 4096 });
        let entry = Entry {
            properties: Arc::new(BlobProperties {
                id: 3,
                etag: ETag(0x8D0),
                kind: BlobKind::Page,
                size: 30,
                created: Moment(1),
                modified: Moment(-2),
                metadata: [("k".to_owned(), "v".to_owned())].into(),
                headers: HttpHeaders { content_type: Some("text/plain".into()), ..HttpHeaders::default() },
                content_md5: Some([9; 16]),
                lease: Lease::default(),
                tier: None,
                tags: Tags::new([("k".to_owned(), "v".to_owned())].into()).unwrap(),
                copy: None,
                sequence_number: 7,
                appended_blocks: 0,
                sealed: false,
            }),
            content: Content::Extents(vec![Extent { len: 10, source }, Extent { len: 20, source: None }]),
            block_list: Some(4),
            snapshots: 2,
        };
        assert_eq!(etag_of(&entry.encode().unwrap()), Some(ETag(0x8D0)));
        let back = Entry::decode(&entry.encode().unwrap()).unwrap();
        assert_eq!(back.properties, entry.properties);
        assert_eq!(back.content, entry.content);
        assert_eq!((back.block_list, back.snapshots), (Some(4), 2));
        assert_eq!(back.content.files(), [7]);
    }

    #[test]
    fn a_cut_record_is_damage() {
        assert!(matches!(Entry::decode(&[1, 2]), Err(StoreError::Damaged(_))));
    }
}
