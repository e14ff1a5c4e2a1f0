//! What a directory must hold, and whether it does.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// The extended attribute that the tests set.
const TAG: &std::ffi::CStr = c"user.tag";

/// Content of a file: exactly `bytes`, or a beginning of it with at least `sure` bytes.
#[derive(Clone)]
pub struct Version {
    pub bytes: Arc<[u8]>,
    pub sure: usize,
}

impl Version {
    pub fn exact(bytes: &[u8]) -> Self {
        Self { bytes: bytes.into(), sure: bytes.len() }
    }
}

#[derive(Clone)]
pub enum Kind {
    Directory,
    File(Version),
    Symlink(String),
}

#[derive(Clone)]
pub struct Node {
    /// Follows renames.
    pub id: u64,
    pub kind: Kind,
    /// Permissions, once they were set.
    pub mode: Option<u32>,
    pub tag: Option<String>,
}

impl Node {
    pub fn new(id: u64, kind: Kind) -> Self {
        Self { id, kind, mode: None, tag: None }
    }
}

/// Everything below a directory, by path.
#[derive(Clone, Default)]
pub struct Tree(pub BTreeMap<String, Node>);

/// The same as it was found.
pub type Seen = BTreeMap<String, SeenNode>;

pub struct SeenNode {
    pub kind: SeenKind,
    mode: u32,
    tag: Option<String>,
}

pub enum SeenKind {
    Directory,
    File(Vec<u8>),
    Symlink(String),
    Other,
}

/// Whether `path` is `above` or below it.
pub fn is_within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Tree {
    pub fn with(mut self, path: &str, node: Node) -> Self {
        self.0.insert(path.to_owned(), node);
        self
    }

    pub fn without(mut self, path: &str) -> Self {
        self.0.remove(path);
        self
    }

    /// With one node changed.
    pub fn changed(mut self, path: &str, change: impl FnOnce(&mut Node)) -> Self {
        change(self.0.get_mut(path).expect("a node to change"));
        self
    }

    /// With another content of the file `id`, if it still has a name.
    pub fn written(mut self, id: u64, version: &Version) -> Self {
        if let Some(node) = self.0.values_mut().find(|node| node.id == id) {
            node.kind = Kind::File(version.clone());
        }
        self
    }

    /// After a rename that replaces what is at `to`.
    pub fn renamed(mut self, from: &str, to: &str) -> Self {
        self.0.remove(to);
        let nodes = std::mem::take(&mut self.0);
        let place =
            |path: String| if is_within(&path, from) { format!("{to}{}", &path[from.len()..]) } else { path };
        self.0 = nodes.into_iter().map(|(path, node)| (place(path), node)).collect();
        self
    }

    /// After an exchange.
    pub fn exchanged(self, one: &str, other: &str) -> Self {
        // No name has a NUL.
        self.renamed(one, "\0").renamed(other, one).renamed("\0", other)
    }

    pub fn content(&self, path: &str) -> Vec<u8> {
        match self.0.get(path).map(|node| &node.kind) {
            Some(Kind::File(version)) => version.bytes.to_vec(),
            _ => panic!("{path} is a file"),
        }
    }

    /// Says what is wrong, if something is.
    pub fn holds(&self, seen: &Seen) -> Result<(), String> {
        let mut wrong: Vec<String> = seen
            .keys()
            .filter(|path| !self.0.contains_key(*path))
            .map(|path| format!("{path}: must not be there"))
            .collect();
        for (path, node) in &self.0 {
            match seen.get(path) {
                None => wrong.push(format!("{path}: missing")),
                Some(found) => wrong.extend(node.differs(found).map(|how| format!("{path}: {how}"))),
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n    ")) }
    }

    /// With what was found where the content was left open.
    pub fn settled(mut self, seen: &Seen) -> Self {
        for (path, node) in &mut self.0 {
            if let (Kind::File(version), Some(SeenNode { kind: SeenKind::File(bytes), .. })) =
                (&mut node.kind, seen.get(path))
                && version.sure < version.bytes.len()
            {
                *version = Version::exact(bytes);
            }
        }
        self
    }
}

impl Node {
    fn differs(&self, found: &SeenNode) -> Option<String> {
        let kind = match (&self.kind, &found.kind) {
            (Kind::Directory, SeenKind::Directory) => None,
            (Kind::File(version), SeenKind::File(bytes)) => version.differs(bytes),
            (Kind::Symlink(target), SeenKind::Symlink(found)) => {
                (target != found).then(|| format!("points to {found:?}, not {target:?}"))
            }
            _ => Some("is of another kind".into()),
        };
        let mode = self.mode.filter(|mode| *mode != found.mode);
        let mode = mode.map(|mode| format!("mode {:o}, not {mode:o}", found.mode));
        let tag = (self.tag != found.tag).then(|| format!("tag {:?}, not {:?}", found.tag, self.tag));
        kind.or(mode).or(tag)
    }
}

impl Version {
    fn differs(&self, found: &[u8]) -> Option<String> {
        let wanted = if self.sure == self.bytes.len() {
            format!("{} bytes", self.sure)
        } else {
            format!("{} to {} bytes", self.sure, self.bytes.len())
        };
        if !(self.sure..=self.bytes.len()).contains(&found.len()) {
            return Some(format!("{} bytes, not {wanted}", found.len()));
        }
        if *found == self.bytes[..found.len()] {
            return None;
        }
        let at: Vec<usize> = (0..found.len()).filter(|at| found[*at] != self.bytes[*at]).collect();
        let (first, last) = (at.first().copied().unwrap_or(0), at.last().copied().unwrap_or(0));
        let zeros = at.iter().filter(|at| found[**at] == 0).count();
        Some(format!("{} of {wanted} differ, between {first} and {last}; {zeros} of them are zero", at.len()))
    }
}

/// Reads everything below `root`.
pub fn look(root: &Path) -> io::Result<Seen> {
    let mut seen = Seen::new();
    look_into(root, "", &mut seen)?;
    Ok(seen)
}

fn look_into(root: &Path, below: &str, seen: &mut Seen) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let name = entry?.file_name().into_string().expect("our names are UTF-8");
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        let at = root.join(&path);
        let data = fs::symlink_metadata(&at)?;
        let kind = if data.is_dir() {
            SeenKind::Directory
        } else if data.is_file() {
            let bytes = fs::read(&at)?;
            assert_eq!(bytes.len() as u64, data.len(), "{}: size and content agree", at.display());
            SeenKind::File(bytes)
        } else if data.is_symlink() {
            SeenKind::Symlink(fs::read_link(&at)?.into_os_string().into_string().expect("as made"))
        } else {
            SeenKind::Other
        };
        let tag = if data.is_symlink() { None } else { tag(&at)? };
        let is_directory = data.is_dir();
        seen.insert(path.clone(), SeenNode { kind, mode: data.mode() & 0o7777, tag });
        if is_directory {
            look_into(root, &path, seen)?;
        }
    }
    Ok(())
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL in a path")
}

fn tag(path: &Path) -> io::Result<Option<String>> {
    let (path, mut value) = (c_path(path), [0u8; 64]);
    // SAFETY: both strings end with NUL, and the kernel writes at most the length of `value` into it.
    let length =
        unsafe { libc::getxattr(path.as_ptr(), TAG.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    match usize::try_from(length) {
        Ok(length) => Ok(Some(String::from_utf8_lossy(&value[..length]).into_owned())),
        Err(_) => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENODATA) => Ok(None),
            error => Err(error),
        },
    }
}

/// Sets the extended attribute.
pub fn set_tag(path: &Path, value: &str) -> io::Result<()> {
    let path = c_path(path);
    // SAFETY: both strings end with NUL, and the kernel reads exactly the length of `value` from it.
    let done = unsafe { libc::setxattr(path.as_ptr(), TAG.as_ptr(), value.as_ptr().cast(), value.len(), 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
