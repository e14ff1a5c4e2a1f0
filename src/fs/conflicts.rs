//! Content that its blob does not take: kept beside it, under a name that says what happened.
//!
//! `report.txt` becomes `report.txt.conflict-HOST-20261117T113000Z` in the same directory. The file's own opens keep
//! their content; every flush, fsync and close of a writer fails until the file has been closed by all.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::share::Moment;
use crate::store::{BlobName, BlobPath, Changed, ETag, Preconditions, StoreError};

use super::attributes::Attributes;
use super::commit::Committing;
use super::content::Live;
use super::error::{FsError, Result};
use super::file::{CommitInfo, Fenced, OpenFile};
use super::names::{NAME_BYTES_MAX, Segment};
use super::nodes::{Ino, ROOT};
use super::place::Guarded;
use super::{Engine, now};

/// So many copies of one name within one second get names of their own.
const SAME_SECOND_MAX: usize = 1000;

impl Engine {
    /// Keeps the content of `file`, if there is any that is not kept yet, and says what its writers are told.
    pub(super) fn set_aside(&self, file: &OpenFile, guarded: &Guarded<'_>, why: Fenced) -> FsError {
        file.fence_off(why);
        // What the kernel has cached of it is nobody's version.
        self.nodes.set_cached(file.ino(), None);
        let why = file.fenced().unwrap_or(why);
        match self.save_aside(file, guarded, why) {
            Ok(false) => {}
            // Written later, if it is time for that: not by the holder of a guard.
            Ok(true) => _ = self.note_touched(guarded.parent),
            Err(error) => {
                tracing::error!(ino = file.ino().0, at = %guarded.at, %error, "content could not be kept beside");
                return error;
            }
        }
        why.into()
    }

    /// Says whether a new file was made.
    fn save_aside(&self, file: &OpenFile, guarded: &Guarded<'_>, why: Fenced) -> Result<bool> {
        if !file.needs_saving()? {
            return Ok(false);
        }
        let store = self.local()?;
        let info = Committing { engine: self, ino: file.ino(), blob: file.base(), shown: None };
        if let Some(copy) = file.aside() {
            let _changing = self.will_change(&copy.name, Changed::Everything)?;
            file.save(store, &copy, &info, &Preconditions::default())?;
            return Ok(false);
        }
        let name = guarded.segment.file_name();
        for attempt in 1..=SAME_SECOND_MAX {
            let copy_name = conflict_name(&name, &self.config.fencing.host, now(), attempt);
            let copy = match self.beside(guarded.parent, &copy_name) {
                // The path would be too long: better in the root than nowhere.
                Err(FsError::NameTooLong) => self.beside(ROOT, &copy_name)?,
                other => other?,
            };
            let _changing = self.will_change(&copy.name, Changed::Everything)?;
            match file.save(store, &copy, &info, &Preconditions::if_absent()) {
                Ok(()) => {
                    self.conflicts.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(at = %guarded.at, %copy, reason = %FsError::from(why), "content was kept beside its file");
                    return Ok(true);
                }
                Err(FsError::Exists) => {}
                Err(error) => return Err(error),
            }
        }
        Err(FsError::Exists)
    }

    /// Keeps the mirror's version of a blob that nobody has open under another name; says which, and
    /// of which version. The bytes must be here.
    pub(super) fn copy_aside(&self, at: &BlobPath, why: Fenced) -> Result<Option<(BlobPath, ETag)>> {
        let store = self.local()?;
        let reader = match store.reader(at) {
            Err(StoreError::BlobNotFound(_)) => return Ok(None),
            other => other?,
        };
        let (directory, name) = at.name.as_str().rsplit_once('/').unwrap_or(("", at.name.as_str()));
        let name = Segment::from_stored(name).file_name();
        let blob = Arc::clone(reader.properties());
        let new = Committing { engine: self, ino: Ino::of(blob.id), blob: Arc::clone(&blob), shown: None };
        let attributes = Attributes::of_blob(&blob, self.config.owner);
        let content = Live::copy_of(&reader, reader.size(), store.scratch()?, attributes.mtime)?;
        for attempt in 1..=SAME_SECOND_MAX {
            let copy_name = conflict_name(&name, &self.config.fencing.host, now(), attempt);
            let segment = Segment::from_file_name(copy_name.as_bytes())?;
            let joined = if directory.is_empty() { String::new() } else { format!("{directory}/") };
            let copy = BlobName::new(joined + segment.as_str()).map_err(|_| FsError::NameTooLong)?;
            let copy = self.at(copy);
            let _changing = self.will_change(&copy.name, Changed::Everything)?;
            let new = new.new_content(attributes.mtime, attributes.ctime)?;
            match store.publish(&copy, content.scratch(), reader.size(), new, &Preconditions::if_absent()) {
                Ok(_) => {
                    self.conflicts.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(%at, %copy, reason = %FsError::from(why), "content was kept beside its file");
                    return Ok(Some((copy, blob.etag)));
                }
                Err(StoreError::BlobExists(_) | StoreError::ConditionNotMet) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(FsError::Exists)
    }

    fn beside(&self, parent: Ino, name: &str) -> Result<BlobPath> {
        let segment = Segment::from_file_name(name.as_bytes())?;
        Ok(self.at(self.nodes.child_name(parent, &segment)?))
    }

    /// Keeps what could not be committed at a last close, whatever the reason was.
    pub(super) async fn rescue(&self, file: &Arc<OpenFile>) {
        self.bring_all(file).await;
        {
            if let Ok(Some(guarded)) = self.guard_name(file.ino()).await {
                drop(self.set_aside(file, &guarded, Fenced::Failed));
            }
        }
        self.push_aside(file).await;
    }

    /// How many conflict copies were made since the start.
    pub fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::Relaxed)
    }
}

/// `name.conflict-host-time`, with a number from the second on, and cut where it would be too long.
fn conflict_name(name: &str, host: &str, at: Moment, attempt: usize) -> String {
    let mut tail = format!(".conflict-{host}-{}", timestamp(at));
    if attempt > 1 {
        tail.push_str(&format!("-{attempt}"));
    }
    let room = NAME_BYTES_MAX.saturating_sub(tail.len());
    format!("{}{tail}", &name[..name.floor_char_boundary(room)])
}

/// `20261117T113000Z`.
fn timestamp(at: Moment) -> String {
    let seconds = at.0.div_euclid(1_000_000_000);
    let utc = time::OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = (utc.year(), u8::from(utc.month()), utc.day());
    let (hour, minute, second) = utc.to_hms();
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflict_copies_say_where_and_when() {
        let at = Moment(1_794_914_999 * 1_000_000_000);
        assert_eq!(conflict_name("a.txt", "box", at, 1), "a.txt.conflict-box-20261117T112959Z");
        assert_eq!(conflict_name("a.txt", "box", at, 2), "a.txt.conflict-box-20261117T112959Z-2");
        let long = conflict_name(&"ä".repeat(127), "box", at, 1);
        assert!(long.len() <= NAME_BYTES_MAX && long.starts_with('ä') && long.ends_with("112959Z"), "{long}");
    }
}
