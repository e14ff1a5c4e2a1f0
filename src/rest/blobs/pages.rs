//! Page blobs: Put Page (write or clear), Get Page Ranges and differences between snapshots.

use super::BlobService;
use super::call::Call;
use super::failure::Result;
use super::put::{put_reply, sums_headers};
use super::receive::{Received, receive};
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::store::{BlobPath, BlobProperties, ByteRange, PAGE_BYTES, SequenceConditions};
use crate::wire::checksum::{Declared, Wanted};
use crate::wire::conditions as wire;
use crate::wire::range::RequestedRange;
use crate::wire::{ErrorCode, Fault, headers, xml};

/// The longest write of pages.
pub(super) const PAGES_MAX: u64 = 4 * 1024 * 1024;

impl BlobService {
    /// Put Page: write or clear.
    pub(super) async fn put_page(&self, call: &mut Call<'_>, at: &BlobPath) -> Result<Answer> {
        call.refuse_unsupported()?;
        let action = headers::required(call.headers(), headers::PAGE_WRITE)?.to_ascii_lowercase();
        let range = page_range(call)?;
        let (conditions, sequence) = (call.write_conditions()?, sequence_conditions(call)?);
        let declared = Declared::from_headers(call.headers())?;
        let length = range.end - range.start;
        match action.as_str() {
            "clear" if call.body.length() != 0 => {
                Err(Fault::invalid_header(headers::CONTENT_LENGTH, call.body.length().to_string()).into())
            }
            "clear" => {
                let blob = self.store.clear_pages(at, range, sequence, &conditions).await?;
                Ok(page_reply(&blob).empty())
            }
            "update" if length > PAGES_MAX => Err(ErrorCode::RequestBodyTooLarge.into()),
            "update" if call.body.length() != length => {
                Err(Fault::invalid_header(headers::CONTENT_LENGTH, call.body.length().to_string()).into())
            }
            "update" => {
                let upload = self.store.upload();
                let Received { body, sums } =
                    receive(call.body, upload, PAGES_MAX, declared, Wanted::Crc64).await?;
                let blob = self.store.put_pages(at, range.start, body, sequence, &conditions).await?;
                Ok(sums_headers(page_reply(&blob), &sums).empty())
            }
            other => Err(Fault::invalid_header(headers::PAGE_WRITE, other).into()),
        }
    }

    /// Get Page Ranges, or what differs from an earlier snapshot.
    pub(super) async fn get_page_ranges(&self, call: &Call<'_>, at: &BlobPath) -> Result<Answer> {
        let since = call.snapshot_named("prevsnapshot")?;
        if call.headers().contains_key("x-ms-previous-snapshot-url") {
            return Err(Fault::new(ErrorCode::UnsupportedHeader)
                .with("HeaderName", "x-ms-previous-snapshot-url")
                .into());
        }
        let range = RequestedRange::of_read(call.headers())?
            .map(|range| ByteRange { start: range.first, length: range.length() });
        let page =
            self.store.page_ranges(at, call.snapshot()?, since, range, &call.read_conditions()?).await?;
        let (start, max) = paging(call)?;
        let rest: Vec<_> = page.ranges.iter().filter(|part| part.range.start >= start).collect();
        let next = rest.get(max).map(|part| part.range.start.to_string());
        let lines = rest.into_iter().take(max).map(|part| xml::PageRangeLine {
            start: part.range.start,
            end: part.range.end.saturating_sub(1),
            clear: part.cleared,
        });
        let body = xml::page_list(lines, next.as_deref());
        let reply = Reply::ok().version(page.properties.etag, page.properties.modified);
        Ok(reply.number(headers::BLOB_CONTENT_LENGTH, page.properties.size).xml(body))
    }
}

/// Ranges per answer, if the client does not say.
const RANGES_MAX: usize = 10_000;

fn paging(call: &Call<'_>) -> Result<(u64, usize)> {
    let number = |name: &str| -> Result<Option<u64>> {
        let Some(text) = call.query.filled(name) else { return Ok(None) };
        Ok(Some(text.parse().map_err(|_| Fault::invalid_query(name, text))?))
    };
    let max = match number("maxresults")? {
        None => RANGES_MAX,
        Some(0) => return Err(ErrorCode::OutOfRangeQueryParameterValue.into()),
        Some(max) => usize::try_from(max).unwrap_or(RANGES_MAX).min(RANGES_MAX),
    };
    Ok((number("marker")?.unwrap_or(0), max))
}

/// The pages a write names: whole ones.
pub(super) fn page_range(call: &Call<'_>) -> Result<std::ops::Range<u64>> {
    let asked = RequestedRange::of_write(call.headers())?;
    let length = asked.length().unwrap_or(0);
    let end = asked.first.checked_add(length);
    match end {
        Some(end) if asked.first.is_multiple_of(PAGE_BYTES) && length.is_multiple_of(PAGE_BYTES) => {
            Ok(asked.first..end)
        }
        _ => Err(Fault::invalid_header(headers::X_MS_RANGE, asked.to_text()).into()),
    }
}

pub(super) fn sequence_conditions(call: &Call<'_>) -> Result<SequenceConditions> {
    let given = wire::SequenceConditions::from_headers(call.headers())?;
    Ok(SequenceConditions { at_most: given.at_most, below: given.less_than, equal: given.equal })
}

pub(super) fn page_reply(blob: &BlobProperties) -> Reply {
    put_reply(blob).number(headers::BLOB_SEQUENCE_NUMBER, blob.sequence_number)
}
