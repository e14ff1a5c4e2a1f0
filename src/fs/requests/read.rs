//! Reading: properties, bytes, and which bytes are there.

use std::ops::Range;
use std::sync::Arc;

use crate::share::lease::LeaseId;
use crate::share::{Access, ShareMode};
use crate::store::{BlobProperties, ContentReader, Fetch, Found};

use super::super::Engine;
use super::super::content::Content;
use super::super::error::{FsError, Result};
use super::super::file::OpenFile;
use super::super::gate::Claim;
use super::Requests;
use super::brief::{LeaseRule, Target, Wanted};
use super::entry::Entry;
use super::failure::Answer;
use super::path::FilePath;

/// To look, for a moment: neither refuses nor is refused, but a file that is delete pending is not looked at.
const LOOK: Claim = Claim { access: Access::NONE, share: ShareMode::ALL };
const READ: Claim = Claim { access: Access::READ, share: ShareMode::ALL };

/// The bytes of a file, as they are for a program that has it open now. Holds no open: what nobody has open is read from
/// the version that was there at the call, whatever happens to the file.
#[derive(Clone, Debug)]
pub struct Reading {
    /// What the file is.
    pub entry: Entry,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    /// One committed version, and how to bring what is not here of it.
    Version(ContentReader, Option<Arc<dyn Fetch>>),
    /// What programs that have the file open see, and who brings what is not here of it.
    Open(Arc<OpenFile>, Bringer),
}

/// The engine, for bytes that are elsewhere.
#[derive(Clone)]
struct Bringer(Arc<Engine>);

impl std::fmt::Debug for Bringer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bringer")
    }
}

impl Reading {
    /// One version that nobody changes any more.
    pub(super) fn of_version(entry: Entry, reader: ContentReader) -> Self {
        Self { entry: Entry { size: reader.size(), ..entry }, source: Source::Version(reader, None) }
    }

    /// Where it differs from an earlier version: what was written, and (`true`) what has no data any more. May say
    /// more than is strictly true, never less.
    pub fn changes_since(
        &self,
        earlier: &Self,
        within: Option<Range<u64>>,
    ) -> Result<Vec<(Range<u64>, bool)>> {
        let within = within.unwrap_or(0..u64::MAX);
        let cut = |range: Range<u64>| range.start.max(within.start)..range.end.min(within.end);
        let changes = match (&self.source, &earlier.source) {
            (Source::Version(now, None), Source::Version(before, None)) => {
                now.changes_since(before)?.into_iter().map(|page| (page.range, page.cleared)).collect()
            }
            // What a program has open may change at any moment.
            _ => self.everything()?,
        };
        Ok(changes
            .into_iter()
            .map(|(range, cleared)| (cut(range), cleared))
            .filter(|(range, _)| range.start < range.end)
            .collect())
    }

    /// All data as written, all holes as cleared.
    fn everything(&self) -> Result<Vec<(Range<u64>, bool)>> {
        let (mut all, mut at) = (Vec::new(), 0);
        for data in self.ranges(None)? {
            all.push((at..data.start, true));
            at = data.end;
            all.push((data, false));
        }
        all.push((at..self.size(), true));
        Ok(all)
    }

    /// How long it is.
    pub fn size(&self) -> u64 {
        self.entry.size
    }

    /// The bytes, if they are in memory.
    pub fn in_memory(&self) -> Option<&bytes::Bytes> {
        match &self.source {
            Source::Version(reader, None) => reader.as_bytes(),
            Source::Version(_, Some(_)) | Source::Open(..) => None,
        }
    }

    /// Brings bytes that are elsewhere. [`FsError::Stale`] if the service has another version by now.
    pub async fn bring(&self, range: Range<u64>) -> Result<()> {
        match &self.source {
            Source::Version(_, None) => Ok(()),
            Source::Version(_, Some(fetch)) if fetch.is_here(&range) => Ok(()),
            Source::Version(_, Some(fetch)) => Ok(fetch.bring(range).await?),
            Source::Open(file, bringer) => bringer.0.bring(file, range).await,
        }
    }

    /// Reads at `offset` until `buffer` is full or the file ends. May wait for the disk. [`FsError::NotHere`] names
    /// bytes that must be brought first.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        match &self.source {
            Source::Version(reader, fetch) => {
                let range = offset..offset.saturating_add(buffer.len() as u64).min(reader.size());
                match fetch {
                    Some(fetch) if !range.is_empty() && !fetch.is_here(&range) => {
                        Err(FsError::NotHere(range))
                    }
                    Some(_) | None => Ok(reader.read_at(buffer, offset)?),
                }
            }
            Source::Open(file, _) => file.read(buffer, offset),
        }
    }

    fn next_data(&self, from: u64) -> Result<Option<u64>> {
        self.seek(from, OpenFile::next_data, Content::next_data, |from, _| from)
    }

    fn next_hole(&self, from: u64) -> Result<Option<u64>> {
        self.seek(from, OpenFile::next_hole, Content::next_hole, |_, size| size)
    }

    fn seek(
        &self,
        from: u64,
        open: impl Fn(&OpenFile, u64) -> Result<u64>,
        version: impl Fn(&Content, u64) -> std::io::Result<Option<u64>>,
        elsewhere: impl Fn(u64, u64) -> u64,
    ) -> Result<Option<u64>> {
        match &self.source {
            // What is not here looks like a hole in the local file: all of it counts as data.
            Source::Version(reader, Some(fetch)) if !fetch.is_here(&(0..reader.size())) => {
                Ok((from < reader.size()).then_some(elsewhere(from, reader.size())))
            }
            Source::Version(reader, _) => Ok(version(&Content::Clean(reader.clone()), from)?),
            Source::Open(file, _) => match open(file, from) {
                Ok(at) => Ok(Some(at)),
                Err(FsError::NoSuchOffset) => Ok(None),
                Err(error) => Err(error),
            },
        }
    }

    /// The stretches that have data among these bytes; between them are zeros that take no room.
    pub fn ranges(&self, within: Option<Range<u64>>) -> Result<Vec<Range<u64>>> {
        let within = within.unwrap_or(0..self.size());
        let end = within.end.min(self.size());
        let (mut at, mut ranges) = (within.start, Vec::new());
        while at < end {
            let Some(start) = self.next_data(at)?.filter(|start| *start < end) else { break };
            let stop = self.next_hole(start)?.unwrap_or(end).min(end);
            ranges.push(start..stop);
            at = stop;
        }
        Ok(ranges)
    }
}

impl Requests {
    /// What a file is.
    pub async fn file_properties(&self, path: &FilePath, lease: Option<LeaseId>) -> Answer<Entry> {
        self.properties(path, Wanted::NoDirectory, lease).await
    }

    /// What a directory is.
    pub async fn directory_properties(&self, path: &FilePath) -> Answer<Entry> {
        if path.is_root() {
            return Ok(self.engine.root_entry().await?);
        }
        self.properties(path, Wanted::Directory, None).await
    }

    async fn properties(&self, path: &FilePath, wanted: Wanted, lease: Option<LeaseId>) -> Answer<Entry> {
        let (target, permit) = self.pass(path, wanted, LOOK, LeaseRule::Read(lease)).await?;
        let entry = self.engine.entry(target.ino, target.parent, &target.found);
        self.engine.leave(target.ino, &permit).await;
        Ok(entry?)
    }

    /// The bytes of a file.
    pub async fn read(&self, path: &FilePath, lease: Option<LeaseId>) -> Answer<Reading> {
        let (target, permit) = self.pass(path, Wanted::File, READ, LeaseRule::Read(lease)).await?;
        let reading = self.reading(&target).await;
        self.engine.leave(target.ino, &permit).await;
        Ok(reading?)
    }

    async fn reading(&self, target: &Target) -> Result<Reading> {
        let engine = &self.engine;
        let source = match engine.open_file(target.ino) {
            Some(file) => Source::Open(file, Bringer(Arc::clone(engine))),
            None => {
                let (reader, fetch) = self.version_of(target).await?;
                Source::Version(reader, fetch)
            }
        };
        // The version that is read, not the one that was looked at.
        let found = match &source {
            Source::Version(reader, _) => {
                let mut blob = Arc::clone(reader.properties());
                if let Some(lease) = target.asked {
                    blob = Arc::new(BlobProperties { lease, ..BlobProperties::clone(&blob) });
                }
                Found { blob: Some(blob), prefix: target.found.prefix }
            }
            Source::Open(..) => target.found.clone(),
        };
        let mut entry = engine.entry(target.ino, target.parent, &found)?;
        match &source {
            Source::Version(reader, _) => entry.size = reader.size(),
            Source::Open(file, _) => entry.size = file.stat()?.size,
        }
        Ok(Reading { entry, source })
    }
}
