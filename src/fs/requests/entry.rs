//! What is told about a file or directory, and how SMB's attributes and a caller's metadata are kept in a blob's.
//!
//! ReadOnly is not kept by itself alone: it says the same as the write bits of the mode. See [`SmbAttributes`].

use crate::share::Moment;
use crate::share::lease::Lease;
use crate::store::{BlobProperties, CopyState, ETag, Found, HttpHeaders, Metadata};

use super::super::Engine;
use super::super::attributes::{Attributes, Kind, is_own_key};
use super::super::error::Result;
use super::super::nodes::{Ino, ROOT};
use super::super::stat::Stat;

/// The key of SMB's attributes: their number in decimal.
const ATTRIBUTES: &str = "smbattributes";
/// The key of the name of a stored permission.
const PERMISSION: &str = "smbpermission";
/// What else is kept for SMB begins like this: the settings of a share.
const SMB: &str = "smb";
/// Before the caller's keys that look like one of ours.
const ESCAPED: &str = "filemeta";

const WRITE_BITS: u32 = 0o222;
const OWNER_MAY_WRITE: u32 = 0o200;

/// SMB's file attributes, with the bits that SMB gives them.
///
/// A file is `READ_ONLY` exactly if nobody has a write bit in its mode: setting it takes the write bits away, taking it
/// away gives the owner one back, and `chmod` does the same from the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SmbAttributes(pub u32);

impl SmbAttributes {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// Must not be changed.
    pub const READ_ONLY: Self = Self(0x1);
    /// Not shown unless asked for. Kept for the caller.
    pub const HIDDEN: Self = Self(0x2);
    /// Belongs to the system. Kept for the caller.
    pub const SYSTEM: Self = Self(0x4);
    /// A directory. Follows from what it is.
    pub const DIRECTORY: Self = Self(0x10);
    /// To be archived. Kept for the caller; what was never told has it.
    pub const ARCHIVE: Self = Self(0x20);
    /// Kept for the caller.
    pub const TEMPORARY: Self = Self(0x100);
    /// Kept for the caller.
    pub const OFFLINE: Self = Self(0x1000);
    /// Kept for the caller.
    pub const NOT_CONTENT_INDEXED: Self = Self(0x2000);
    /// Kept for the caller.
    pub const NO_SCRUB_DATA: Self = Self(0x2_0000);

    /// What is kept as it is given.
    const KEPT: Self = Self(0x2_3126);

    /// Both together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are among them.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// A change of what SMB knows about a file. What is absent stays as it is, or is what a new file has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SmbChange {
    /// Attributes, all of them.
    pub attributes: Option<SmbAttributes>,
    /// When it was made.
    pub created: Option<Moment>,
    /// When its content was last changed.
    pub last_write: Option<Moment>,
    /// When anything about it was last changed; absent: now.
    pub changed: Option<Moment>,
    /// The name of a stored permission.
    pub permission: Option<String>,
}

/// A file or directory as a caller sees it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its number, stable for as long as it lives. The root has 1.
    pub ino: Ino,
    /// The number of the directory it is in; 0 for the root.
    pub parent: Ino,
    /// What it is.
    pub kind: Kind,
    /// How long it is, with what programs have written and not closed yet. 0 for directories.
    pub size: u64,
    /// Version tag of what is committed.
    pub etag: ETag,
    /// When that version was made.
    pub modified: Moment,
    /// SMB's attributes.
    pub attributes: SmbAttributes,
    /// When it was made.
    pub created: Moment,
    /// When its content was last changed.
    pub last_write: Moment,
    /// When anything about it was last changed.
    pub changed: Moment,
    /// When it was last read, as far as that was ever noted.
    pub accessed: Moment,
    /// The name of a stored permission.
    pub permission: Option<String>,
    /// The caller's metadata.
    pub metadata: Metadata,
    /// Stored headers.
    pub headers: HttpHeaders,
    /// MD5 of the content, where it was given.
    pub content_md5: Option<[u8; 16]>,
    /// The lease as stored; `lease.state(now)` tells what it means.
    pub lease: Lease,
    /// The copy that made the content, if one did.
    pub copy: Option<Box<CopyState>>,
}

impl Entry {
    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }
}

impl Engine {
    /// What a look-up found, as a caller sees it.
    pub(super) fn entry(&self, ino: Ino, parent: Ino, found: &Found) -> Result<Entry> {
        let stat = self.stat_found(ino, found)?;
        Ok(match &found.blob {
            Some(blob) => entry_of(&stat, parent, blob),
            None => bare(&stat, parent),
        })
    }

    /// The root, as a caller sees it.
    pub(super) async fn root_entry(&self) -> Result<Entry> {
        let stat = self.stat_root().await?;
        let container = self.store.container_properties(&self.share, None).await?;
        let mut entry = bare(&stat, Ino(0));
        entry.ino = ROOT;
        (entry.etag, entry.modified) = (container.etag, container.modified);
        entry.attributes = smb_attributes(&container.metadata, &stat.attributes);
        Ok(entry)
    }
}

pub(super) fn entry_of(stat: &Stat, parent: Ino, blob: &BlobProperties) -> Entry {
    let directory = stat.attributes.kind == Kind::Directory;
    Entry {
        size: if directory { 0 } else { stat.size },
        etag: blob.etag,
        modified: blob.modified,
        attributes: smb_attributes(&blob.metadata, &stat.attributes),
        permission: blob.metadata.get(PERMISSION).map(str::to_owned),
        metadata: callers_metadata(&blob.metadata),
        headers: blob.headers.clone(),
        content_md5: blob.content_md5,
        lease: blob.lease,
        copy: blob.copy.clone(),
        ..bare(stat, parent)
    }
}

/// What is known without a blob.
pub(super) fn bare(stat: &Stat, parent: Ino) -> Entry {
    let Attributes { kind, btime, mtime, ctime, atime, .. } = stat.attributes;
    Entry {
        ino: stat.ino,
        parent,
        kind,
        size: 0,
        etag: ETag(stat.ino.0),
        modified: mtime,
        attributes: smb_attributes(&Metadata::new(), &stat.attributes),
        created: btime,
        last_write: mtime,
        changed: ctime,
        accessed: atime,
        permission: None,
        metadata: Metadata::new(),
        headers: HttpHeaders::default(),
        content_md5: None,
        lease: Lease::default(),
        copy: None,
    }
}

/// SMB's attributes of something with this metadata and these attributes.
fn smb_attributes(metadata: &Metadata, attributes: &Attributes) -> SmbAttributes {
    let stored = metadata.get(ATTRIBUTES).and_then(|text| text.parse().ok()).map(SmbAttributes);
    if attributes.kind == Kind::Directory {
        let kept = stored.unwrap_or_default().without(SmbAttributes::READ_ONLY);
        return kept.union(SmbAttributes::DIRECTORY);
    }
    let kept = stored.unwrap_or(SmbAttributes::ARCHIVE).without(SmbAttributes::READ_ONLY);
    if attributes.mode & WRITE_BITS == 0 { kept.union(SmbAttributes::READ_ONLY) } else { kept }
}

/// Whether a file was made read-only by somebody who meant the attribute, and still is. That binds root, too.
pub(in crate::fs) fn is_read_only_by_attribute(metadata: &Metadata, attributes: &Attributes) -> bool {
    attributes.mode & WRITE_BITS == 0
        && metadata
            .get(ATTRIBUTES)
            .and_then(|text| text.parse().ok())
            .is_some_and(|stored| SmbAttributes(stored).contains(SmbAttributes::READ_ONLY))
}

impl SmbChange {
    /// Applies the change to attributes and to the metadata beside them.
    pub(super) fn apply(&self, attributes: &mut Attributes, metadata: &mut Metadata, now: Moment) {
        if let Some(wanted) = self.attributes {
            let read_only = wanted.contains(SmbAttributes::READ_ONLY);
            // Of a directory it says nothing about its entries, so it changes nothing there.
            if attributes.kind != Kind::Directory {
                match (read_only, attributes.mode & WRITE_BITS == 0) {
                    (true, false) => attributes.mode &= !WRITE_BITS,
                    (false, true) => attributes.mode |= OWNER_MAY_WRITE,
                    (true, true) | (false, false) => {}
                }
            }
            let kept = wanted.0 & SmbAttributes::KEPT.0 | u32::from(read_only);
            metadata.set(ATTRIBUTES, &kept.to_string());
        }
        if let Some(permission) = &self.permission {
            metadata.set(PERMISSION, permission);
        }
        attributes.btime = self.created.unwrap_or(attributes.btime);
        attributes.mtime = self.last_write.unwrap_or(attributes.mtime);
        attributes.ctime = self.changed.unwrap_or(now);
    }
}

fn is_reserved_key(key: &str) -> bool {
    let starts = |with: &str| key.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    is_own_key(key) || starts(SMB) || starts(ESCAPED)
}

/// The caller's part of stored metadata.
pub(in crate::fs) fn callers_metadata(stored: &Metadata) -> Metadata {
    let shown = |(key, value)| match str::strip_prefix(key, ESCAPED) {
        Some(key) => Some((key, value)),
        None => (!is_reserved_key(key)).then_some((key, value)),
    };
    stored.iter().filter_map(shown).collect()
}

/// Replaces the caller's part of stored metadata.
pub(in crate::fs) fn replace_callers_metadata(stored: &mut Metadata, given: &Metadata) {
    stored.retain(|key| is_reserved_key(key) && !key.starts_with(ESCAPED));
    for (key, value) in given.iter() {
        if is_reserved_key(key) {
            stored.set(&format!("{ESCAPED}{key}"), value);
        } else {
            stored.set(key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(mode: u32) -> Attributes {
        Attributes::new(Kind::File, mode, 1, 1, Moment(5))
    }

    #[test]
    fn read_only_and_the_mode_agree() {
        let (mut attributes, mut metadata) = (file(0o664), Metadata::new());
        let set = |wanted| SmbChange { attributes: Some(wanted), ..SmbChange::default() };
        let hidden = SmbAttributes::HIDDEN;
        set(hidden.union(SmbAttributes::READ_ONLY)).apply(&mut attributes, &mut metadata, Moment(6));
        assert_eq!((attributes.mode, attributes.ctime), (0o444, Moment(6)));
        assert_eq!(smb_attributes(&metadata, &attributes), hidden.union(SmbAttributes::READ_ONLY));
        assert!(is_read_only_by_attribute(&metadata, &attributes));
        // Somebody's chmod from the other side.
        attributes.mode = 0o644;
        assert_eq!(smb_attributes(&metadata, &attributes), hidden);
        assert!(!is_read_only_by_attribute(&metadata, &attributes));
        attributes.mode = 0o400;
        set(hidden).apply(&mut attributes, &mut metadata, Moment(7));
        assert_eq!(attributes.mode, 0o600);
        assert_eq!(smb_attributes(&metadata, &attributes), hidden);
    }

    #[test]
    fn what_was_never_told_is_to_be_archived_and_none_stays_none() {
        let (mut attributes, mut metadata) = (file(0o644), Metadata::new());
        assert_eq!(smb_attributes(&metadata, &attributes), SmbAttributes::ARCHIVE);
        let none = SmbChange { attributes: Some(SmbAttributes::NONE), ..SmbChange::default() };
        none.apply(&mut attributes, &mut metadata, Moment(6));
        assert_eq!(smb_attributes(&metadata, &attributes), SmbAttributes::NONE);
        attributes.mode = 0o444;
        assert!(!is_read_only_by_attribute(&metadata, &attributes), "only chmod said so");
    }

    #[test]
    fn a_callers_metadata_never_touches_ours() {
        let mut stored = file(0o640).to_metadata();
        let before = stored.clone();
        let given =
            Metadata::from([("color", "red"), ("Permissions", "0"), ("filemetax", "y"), ("xattr61", "z")]);
        replace_callers_metadata(&mut stored, &given);
        assert_eq!(callers_metadata(&stored), given);
        replace_callers_metadata(&mut stored, &Metadata::new());
        assert_eq!(stored, before);
    }
}
