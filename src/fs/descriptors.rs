//! Whether a program that closes a descriptor has others of the same file.
//!
//! A shell opens `> file` with one descriptor, copies it to where the command expects its output, and closes the first. The
//! kernel tells of that close as of any other. For a share elsewhere it would be a push of an empty file for nothing: the
//! close of the copy comes with the content. Only looks, and in doubt there is no other.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use super::names::Segment;
use super::nodes::Ino;

/// Who has more descriptors than this is not looked at: looking costs more than a push may save.
const DESCRIPTORS_MAX: usize = 64;
/// The part of the flags of `open(2)` that says what is opened for, and its value for reading only.
const ACCESS_MODE: i32 = 0o3;
const READ_ONLY: i32 = 0;

/// Whether the process of `thread` has a descriptor of the file `ino`, which is called `segment`.
pub(super) fn are_left(thread: u32, ino: Ino, segment: &Segment) -> bool {
    thread != 0 && find(thread, ino, segment).unwrap_or(false)
}

fn find(thread: u32, ino: Ino, segment: &Segment) -> std::io::Result<bool> {
    let (folder, name) = (format!("/proc/{thread}/fd"), segment.file_name());
    let mut seen = 0;
    for entry in fs::read_dir(&folder)? {
        let number = entry?.file_name();
        seen += 1;
        if seen > DESCRIPTORS_MAX {
            return Ok(false);
        }
        // The link is read and never followed: that would be a request to ourselves.
        let target = fs::read_link(Path::new(&folder).join(&number))?;
        if target.file_name() != Some(OsStr::new(&name)) {
            continue;
        }
        let about = fs::read_to_string(Path::new(&format!("/proc/{thread}/fdinfo")).join(&number))?;
        if is_writer(&about, ino) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether this is what the kernel says about a descriptor of `ino` that can be written to.
fn is_writer(about: &str, ino: Ino) -> bool {
    let field = |name| about.lines().find_map(|line: &str| line.strip_prefix(name)).map(str::trim);
    let flags = field("flags:").and_then(|flags| i32::from_str_radix(flags, 8).ok());
    let writes = flags.is_some_and(|flags| flags & ACCESS_MODE != READ_ONLY);
    writes && field("ino:").is_some_and(|found| found.parse() == Ok(ino.0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn of(file: &fs::File, name: &str) -> (Ino, Segment) {
        (Ino(file.metadata().unwrap().ino()), Segment::from_stored(name))
    }

    #[test]
    fn a_copy_of_a_descriptor_is_found_until_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let file = fs::File::create(folder.path().join("output")).unwrap();
        let (ino, segment) = of(&file, "output");
        let thread = std::process::id();
        let copy = file.try_clone().unwrap();
        drop(file);
        assert!(are_left(thread, ino, &segment));
        assert!(!are_left(thread, Ino(ino.0 + 1), &segment), "another file of that name");
        assert!(!are_left(thread, ino, &Segment::from_stored("other")), "a file elsewhere of that number");
        drop(copy);
        let _reader = fs::File::open(folder.path().join("output")).unwrap();
        assert!(!are_left(thread, ino, &segment));
    }

    #[test]
    fn who_cannot_be_seen_has_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let name = file.path().file_name().unwrap().to_str().unwrap().to_owned();
        let (ino, segment) = of(file.as_file(), &name);
        assert!(!are_left(0, ino, &segment));
        assert!(!are_left(u32::MAX, ino, &segment));
    }
}
