//! Attributes of files and directories, and how they are kept in a blob's metadata.
//!
//! The key names are AzCopy's, so that its copies carry the attributes along. A blob without them (written by some
//! other tool) gets sensible defaults. Extended attributes are our own keys: `xattr` + the name in hexadecimal,
//! which sorts alike in byte order and in the service's collation.

use std::fmt::Write as _;

use crate::share::Moment;
use crate::store::{BlobProperties, Metadata};

const MODE: &str = "permissions";
const OWNER: &str = "posix_owner";
const GROUP: &str = "posix_group";
const ATIME: &str = "posix_atime";
const MTIME: &str = "modtime";
const CTIME: &str = "posix_ctime";
const BTIME: &str = "linux_btime";
const IS_FOLDER: &str = "hdi_isfolder";
const IS_SYMLINK: &str = "is_symlink";
const IS_FIFO: &str = "is_fifo";
const IS_SOCKET: &str = "is_socket";
const XATTR: &str = "xattr";

const TYPE_BITS: u32 = 0o170_000;
const PERMISSION_BITS: u32 = 0o7777;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe: the name only, the kernel does the rest.
    Fifo,
    /// A socket: the name only.
    Socket,
}

impl Kind {
    fn type_bits(self) -> u32 {
        match self {
            Kind::File => 0o100_000,
            Kind::Directory => 0o040_000,
            Kind::Symlink => 0o120_000,
            Kind::Fifo => 0o010_000,
            Kind::Socket => 0o140_000,
        }
    }

    fn marker(self) -> Option<&'static str> {
        match self {
            Kind::File => None,
            Kind::Directory => Some(IS_FOLDER),
            Kind::Symlink => Some(IS_SYMLINK),
            Kind::Fifo => Some(IS_FIFO),
            Kind::Socket => Some(IS_SOCKET),
        }
    }

    /// The kind that is marked by `key`.
    fn marked(key: &str) -> Option<Self> {
        match key {
            IS_FOLDER => Some(Kind::Directory),
            IS_SYMLINK => Some(Kind::Symlink),
            IS_FIFO => Some(Kind::Fifo),
            IS_SOCKET => Some(Kind::Socket),
            _ => None,
        }
    }
}

/// What `stat` shows beside size and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// What it is.
    pub kind: Kind,
    /// Permission bits, set-id bits and sticky bit.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last access, as far as it was ever set: reading does not change it.
    pub atime: Moment,
    /// Last change of the content.
    pub mtime: Moment,
    /// Last change of content or attributes.
    pub ctime: Moment,
    /// Creation.
    pub btime: Moment,
}

/// Who owns what carries no owner of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultOwner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Attributes {
    /// Attributes of something made just now.
    pub fn new(kind: Kind, mode: u32, uid: u32, gid: u32, now: Moment) -> Self {
        let mode = mode & PERMISSION_BITS;
        Self { kind, mode, uid, gid, atime: now, mtime: now, ctime: now, btime: now }
    }

    /// Reads a blob's attributes; what is missing or unreadable becomes a default.
    pub fn of_blob(blob: &BlobProperties, default: DefaultOwner) -> Self {
        Self::of_metadata(&blob.metadata, blob.created, blob.modified, default)
    }

    /// The same for metadata that does not belong to a blob.
    pub fn of_metadata(
        metadata: &Metadata,
        created: Moment,
        modified: Moment,
        default: DefaultOwner,
    ) -> Self {
        let mut kind = None;
        let (mut mode, mut uid, mut gid) = (None, None, None);
        let (mut atime, mut mtime, mut ctime, mut btime) = (None, None, None, None);
        let id = |value: &str| value.parse().ok();
        let time = |value: &str| value.parse().ok().map(Moment);
        // Once through all of them: this is done for every name that is looked up or listed.
        for (key, value) in metadata.iter() {
            match key {
                MODE => mode = id(value),
                OWNER => uid = id(value),
                GROUP => gid = id(value),
                ATIME => atime = time(value),
                MTIME => mtime = time(value),
                CTIME => ctime = time(value),
                BTIME => btime = time(value),
                _ if value == "true" => kind = kind.or(Kind::marked(key)),
                _ => {}
            }
        }
        let kind = kind.unwrap_or(Kind::File);
        let mtime = mtime.unwrap_or(modified);
        let mode = mode.unwrap_or(match kind {
            Kind::Directory => 0o755,
            Kind::Symlink => 0o777,
            Kind::File | Kind::Fifo | Kind::Socket => 0o644,
        });
        Self {
            kind,
            mode: mode & PERMISSION_BITS,
            uid: uid.unwrap_or(default.uid),
            gid: gid.unwrap_or(default.gid),
            atime: atime.unwrap_or(mtime),
            mtime,
            ctime: ctime.unwrap_or(modified),
            btime: btime.unwrap_or(created),
        }
    }

    /// Writes the attributes over those in `metadata` and leaves every other key alone.
    pub fn write_to(&self, metadata: &mut Metadata) {
        let mut text = String::new();
        let mut set = |key: &str, value: i64| {
            text.clear();
            // Writing to a String cannot fail.
            let _ = write!(text, "{value}");
            metadata.set(key, &text);
        };
        // In the order of their names, so that fresh ones are put one behind the other.
        set(BTIME, self.btime.0);
        set(MTIME, self.mtime.0);
        set(MODE, i64::from((self.kind.type_bits() & TYPE_BITS) | self.mode));
        set(ATIME, self.atime.0);
        set(CTIME, self.ctime.0);
        set(GROUP, i64::from(self.gid));
        set(OWNER, i64::from(self.uid));
        if let Some(marker) = self.kind.marker() {
            metadata.set(marker, "true");
        }
    }

    /// The attributes as fresh metadata.
    pub fn to_metadata(self) -> Metadata {
        let mut metadata = Metadata::new();
        self.write_to(&mut metadata);
        metadata
    }

    /// What a change of content or owner by anybody does to the set-id bits.
    pub fn drop_set_id(&mut self) {
        if self.kind == Kind::File {
            self.mode &= !0o4000;
            if self.mode & 0o010 != 0 {
                self.mode &= !0o2000;
            }
        }
    }

    /// Whether writing would have to drop a set-id bit.
    pub fn has_set_id(&self) -> bool {
        is_set_id(self.mode)
    }

    /// The same for what is in `metadata`, without reading the rest of it.
    pub fn has_set_id_in(metadata: &Metadata) -> bool {
        metadata.get(MODE).and_then(|mode| mode.parse().ok()).is_some_and(is_set_id)
    }
}

fn is_set_id(mode: u32) -> bool {
    mode & 0o4000 != 0 || mode & 0o2010 == 0o2010
}

/// Whether `key` is one of ours: attributes and extended attributes are under it.
pub fn is_own_key(key: &str) -> bool {
    let ours = [MODE, OWNER, GROUP, ATIME, MTIME, CTIME, BTIME, IS_FOLDER, IS_SYMLINK, IS_FIFO, IS_SOCKET];
    ours.iter().any(|own| own.eq_ignore_ascii_case(key))
        || key.get(..XATTR.len()).is_some_and(|start| start.eq_ignore_ascii_case(XATTR))
}

/// The metadata key of the extended attribute `user.NAME`.
pub fn xattr_key(name: &str) -> String {
    hex(XATTR, name.as_bytes())
}

/// The name behind `user.` of the extended attribute stored under `key`, if it is one.
pub fn xattr_name(key: &str) -> Option<String> {
    let bytes = unhex(key.strip_prefix(XATTR)?)?;
    String::from_utf8(bytes).ok()
}

/// The value of an extended attribute as metadata text. Metadata is ASCII, so it is written in hexadecimal.
pub fn xattr_encode(value: &[u8]) -> String {
    hex("", value)
}

/// The other way round.
pub fn xattr_decode(text: &str) -> Option<Vec<u8>> {
    unhex(text)
}

fn hex(prefix: &str, bytes: &[u8]) -> String {
    let mut text = String::with_capacity(prefix.len() + 2 * bytes.len());
    text.push_str(prefix);
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let digit = |byte: u8| (byte as char).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: DefaultOwner = DefaultOwner { uid: 65534, gid: 65534 };

    #[test]
    fn attributes_survive_the_metadata() {
        for kind in [Kind::File, Kind::Directory, Kind::Symlink, Kind::Fifo, Kind::Socket] {
            let mut attributes = Attributes::new(kind, 0o4751, 7, 8, Moment(-5));
            attributes.mtime = Moment(1_700_000_000_123_456_789);
            let metadata = attributes.to_metadata();
            assert_eq!(Attributes::of_metadata(&metadata, Moment(1), Moment(2), NOBODY), attributes);
        }
    }

    #[test]
    fn set_id_bits_are_found_without_reading_everything() {
        for (mode, has) in [(0o644, false), (0o4644, true), (0o2755, true), (0o2644, false), (0o1777, false)]
        {
            let attributes = Attributes::new(Kind::File, mode, 7, 8, Moment(0));
            let found = (attributes.has_set_id(), Attributes::has_set_id_in(&attributes.to_metadata()));
            assert_eq!(found, (has, has), "{mode:o}");
        }
        assert!(!Attributes::has_set_id_in(&Metadata::new()));
    }

    #[test]
    fn foreign_blobs_get_defaults() {
        let mut metadata = Metadata::new();
        metadata.set("permissions", "what");
        let attributes = Attributes::of_metadata(&metadata, Moment(1), Moment(2), NOBODY);
        assert_eq!((attributes.kind, attributes.mode, attributes.uid), (Kind::File, 0o644, 65534));
        assert_eq!((attributes.mtime, attributes.btime), (Moment(2), Moment(1)));
        metadata.set("hdi_isfolder", "true");
        let attributes = Attributes::of_metadata(&metadata, Moment(1), Moment(2), NOBODY);
        assert_eq!((attributes.kind, attributes.mode), (Kind::Directory, 0o755));
    }

    #[test]
    fn extended_attributes_survive_the_metadata() {
        let key = xattr_key("a.b\u{e9}");
        assert!(key.bytes().all(|b| b.is_ascii_alphanumeric()), "{key}");
        assert_eq!(xattr_name(&key).as_deref(), Some("a.b\u{e9}"));
        assert_eq!(xattr_name("permissions"), None);
        let value = [0u8, 255, 10, 128];
        assert_eq!(xattr_decode(&xattr_encode(&value)).as_deref(), Some(&value[..]));
        assert_eq!(xattr_decode("abc"), None);
    }
}
