//! Ranges of files: Put Range (write or clear), Put Range From URL, List Ranges and differences between snapshots.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::SemaphorePermit;

use super::FilesService;
use super::call::Call;
use super::failure::Result;
use super::place::Place;
use crate::fs::requests::{Entry, LastWrite};
use crate::rest::reply::Reply;
use crate::rest::server::{Answer, BodyError};
use crate::wire::checksum::{Declared, Sums, Wanted, crc64_text, md5_text};
use crate::wire::range::RequestedRange;
use crate::wire::smb::{Setting, SmbSettings};
use crate::wire::xml::{self, RangeLine};
use crate::wire::{ErrorCode, Fault, date, headers};

/// The longest range that one request writes.
pub(super) const RANGE_MAX: u64 = 4 * 1024 * 1024;
/// Bodies up to this length need no room of their own.
const SMALL_BODY: u64 = 64 * 1024;
/// How long a request waits for room for its body.
const ROOM_PATIENCE: Duration = Duration::from_secs(30);

/// What Put Range does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    Update,
    Clear,
}

impl FilesService {
    /// Put Range: write or clear.
    pub(super) async fn put_range(&self, call: &mut Call<'_>, at: &Place) -> Result<Answer> {
        let write = match headers::required(call.headers(), headers::FILE_WRITE)? {
            text if text.eq_ignore_ascii_case("update") => Write::Update,
            text if text.eq_ignore_ascii_case("clear") => Write::Clear,
            text => return Err(Fault::invalid_header(headers::FILE_WRITE, text).into()),
        };
        let range = span(RequestedRange::of_write(call.headers())?)?;
        let (last_write, lease) = (last_write(call)?, call.lease()?);
        let declared = Declared::from_headers(call.headers())?;
        match write {
            Write::Update => {
                let (_room, body) = self.range_body(call, &range).await?;
                let wanted = if declared.crc64.is_some() { Wanted::Crc64 } else { Wanted::Md5AndCrc64 };
                let sums = Sums::of(&body, wanted);
                sums.check(&declared)?;
                let share = self.share(call, &at.share).await?;
                let entry = share.put_range(&at.path, range.start, body, last_write, lease).await?;
                let reply =
                    written(&entry).maybe(headers::CONTENT_MD5, sums.md5.as_ref().map(md5_text).as_deref());
                Ok(reply.empty())
            }
            Write::Clear => {
                if call.body.length() > 0 || declared != Declared::default() {
                    return Err(Fault::new(ErrorCode::InvalidHeaderValue)
                        .with("HeaderName", headers::CONTENT_LENGTH)
                        .saying("A range is cleared without a body and without a checksum.")
                        .into());
                }
                let share = self.share(call, &at.share).await?;
                let entry = share.clear_range(&at.path, range, last_write, lease).await?;
                Ok(written(&entry).empty())
            }
        }
    }

    /// Put Range From URL.
    pub(super) async fn put_range_from_url(&self, call: &mut Call<'_>, at: &Place) -> Result<Answer> {
        let write = headers::required(call.headers(), headers::FILE_WRITE)?;
        if !write.eq_ignore_ascii_case("update") {
            return Err(Fault::invalid_header(headers::FILE_WRITE, write).into());
        }
        if call.body.length() > 0 {
            return Err(Fault::invalid_header(headers::CONTENT_LENGTH, "must be 0").into());
        }
        let range = span(RequestedRange::of_write(call.headers())?)?;
        let text = headers::required(call.headers(), headers::SOURCE_RANGE)?;
        let from = RequestedRange::parse(text)?
            .filter(|from| from.length() == Some(range.end - range.start))
            .ok_or_else(|| Fault::invalid_header(headers::SOURCE_RANGE, text))?;
        check_length(&range)?;
        let (last_write, lease) = (last_write(call)?, call.lease()?);
        let declared = Declared::of_source(call.headers())?;
        let _room = self.room(range.end - range.start).await?;
        let source = self.source(call).await?;
        let body = self.fetch_range(&source, from).await?;
        let sums = Sums::of(&body, Wanted::Md5AndCrc64);
        sums.check(&declared)?;
        let share = self.share(call, &at.share).await?;
        let entry = share.put_range(&at.path, range.start, body, last_write, lease).await?;
        Ok(written(&entry).header(headers::CONTENT_CRC64, &crc64_text(sums.crc64)).empty())
    }

    /// List Ranges: where a file has data; with `prevsharesnapshot`, where it differs from that snapshot.
    pub(super) async fn list_ranges(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        let within = RequestedRange::of_read(call.headers())?
            .map(|range| range.first..range.last.map_or(u64::MAX, |last| last.saturating_add(1)));
        let reading = self.view(call, at).await?.read(&at.path, call.lease()?).await?;
        let before = match call.snapshot_named("prevsharesnapshot")? {
            None => None,
            Some(id) => {
                Some(self.view_of(call, &at.share, Some(id)).await.map_err(
                    |failure| match failure.code() {
                        Some(ErrorCode::ShareSnapshotNotFound) => ErrorCode::PreviousSnapshotNotFound.into(),
                        _ => failure,
                    },
                )?)
            }
        };
        let entry = reading.entry.clone();
        let lines = match before {
            None => on_blocking_thread(move || Ok(plain(reading.ranges(within)?))).await?,
            Some(view) => {
                let support_rename = headers::flag(call.headers(), headers::FILE_SUPPORT_RENAME)?;
                match view.read(&at.path, None).await {
                    Ok(earlier) => {
                        let differing = move || Ok(lines_of(reading.changes_since(&earlier, within)?));
                        on_blocking_thread(differing).await?
                    }
                    // What was not there then is new as a whole.
                    Err(failure)
                        if failure.code() == Some(ErrorCode::ResourceNotFound) && !support_rename =>
                    {
                        on_blocking_thread(move || Ok(plain(reading.ranges(within)?))).await?
                    }
                    Err(failure) => return Err(failure),
                }
            }
        };
        let reply = Reply::ok()
            .version(entry.etag, entry.modified)
            .number(headers::CONTENT_LENGTH_STORED, entry.size);
        Ok(reply.xml(xml::range_list(lines)))
    }

    /// The bytes that Put Range brings, exactly as many as the range has.
    async fn range_body(&self, call: &mut Call<'_>, range: &Range<u64>) -> Result<(Room<'_>, Bytes)> {
        check_length(range)?;
        if call.body.length() != range.end - range.start {
            return Err(Fault::invalid_header(headers::CONTENT_LENGTH, call.body.length().to_string())
                .saying("The body must be as long as the range.")
                .into());
        }
        self.small_body(call, RANGE_MAX).await
    }

    /// A whole body of at most `max` bytes, and the room it takes.
    pub(super) async fn small_body(&self, call: &mut Call<'_>, max: u64) -> Result<(Room<'_>, Bytes)> {
        let length = call.body.length();
        if length > max {
            return Err(BodyError::TooLong { max }.into());
        }
        let room = self.room(length).await?;
        let body = call.whole_body(max).await?;
        Ok((room, body))
    }

    /// Room for bytes in memory; waits for it, but not for ever.
    async fn room(&self, bytes: u64) -> Result<Room<'_>> {
        if bytes <= SMALL_BODY {
            return Ok(None);
        }
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        match tokio::time::timeout(ROOM_PATIENCE, self.bodies.acquire_many(kib)).await {
            Ok(Ok(room)) => Ok(Some(room)),
            Ok(Err(_)) | Err(_) => Err(ErrorCode::ServerBusy.into()),
        }
    }
}

/// Room for a body while it is in memory.
type Room<'s> = Option<SemaphorePermit<'s>>;

/// Runs what may wait for the disk.
pub(super) async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(ErrorCode::InternalError.into()),
    }
}

/// The bytes that a range with both ends names.
fn span(range: RequestedRange) -> Result<Range<u64>> {
    let end = range.last.and_then(|last| last.checked_add(1)).ok_or(ErrorCode::InvalidRange)?;
    Ok(range.first..end)
}

fn check_length(range: &Range<u64>) -> Result<()> {
    if range.end - range.start > RANGE_MAX {
        Err(BodyError::TooLong { max: RANGE_MAX }.into())
    } else {
        Ok(())
    }
}

fn last_write(call: &Call<'_>) -> Result<LastWrite> {
    match SmbSettings::from_headers(call.headers(), false)?.written {
        None | Some(Setting::Now) => Ok(LastWrite::Now),
        Some(Setting::Preserve) => Ok(LastWrite::Preserve),
        Some(Setting::To(_) | Setting::Source) => {
            Err(Fault::invalid_header(headers::FILE_LAST_WRITE_TIME, "now or preserve is expected").into())
        }
    }
}

fn written(entry: &Entry) -> Reply {
    Reply::created()
        .version(entry.etag, entry.modified)
        .header(headers::FILE_LAST_WRITE_TIME, &date::iso_ticks(entry.last_write))
        .fixed(headers::REQUEST_SERVER_ENCRYPTED, "false")
}

fn plain(ranges: Vec<Range<u64>>) -> Vec<RangeLine> {
    lines_of(ranges.into_iter().map(|range| (range, false)).collect())
}

fn lines_of(ranges: Vec<(Range<u64>, bool)>) -> Vec<RangeLine> {
    let line =
        |(range, clear): (Range<u64>, bool)| RangeLine { start: range.start, end: range.end - 1, clear };
    ranges.into_iter().filter(|(range, _)| !range.is_empty()).map(line).collect()
}
