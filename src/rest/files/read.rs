//! Get File.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;

use super::FilesService;
use super::call::Call;
use super::failure::Result;
use super::file::md5_of;
use super::place::Place;
use super::properties::{file_headers, stored_md5};
use super::ranges::{RANGE_MAX, on_blocking_thread};
use crate::fs::FsError;
use crate::fs::requests::Reading;
use crate::rest::reply::Reply;
use crate::rest::server::{Answer, AnswerBody, Source};
use crate::wire::range::{RequestedRange, content_range};
use crate::wire::{ErrorCode, Fault, headers};

/// Answers up to this length are read at once.
const AT_ONCE_MAX: u64 = 64 * 1024;

impl FilesService {
    /// Get File: the whole, or a range of it.
    pub(super) async fn get_file(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        let range = RequestedRange::of_read(call.headers())?;
        let with_md5 = headers::flag(call.headers(), headers::RANGE_GET_CONTENT_MD5)?;
        if with_md5 && range.is_none() {
            return Err(
                Fault::invalid_header(headers::RANGE_GET_CONTENT_MD5, "a range is needed with it").into()
            );
        }
        let reading = self.view(call, at).await?.read(&at.path, call.lease()?).await?;
        let (entry, size) = (reading.entry.clone(), reading.size());
        let (start, length) = match range {
            None => (0, size),
            Some(range) if range.first >= size => return Err(FsError::OutOfRange { size }.into()),
            Some(range) => (range.first, range.length().unwrap_or(u64::MAX).min(size - range.first)),
        };
        let status = if range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
        let reply =
            file_headers(Reply::new(status), &entry, call.now).number(headers::CONTENT_LENGTH, length);
        let mut reply = call.overridden(match range {
            None => stored_md5(reply, headers::CONTENT_MD5, &entry),
            Some(_) => stored_md5(reply, headers::CONTENT_MD5_STORED, &entry)
                .header(headers::CONTENT_RANGE, &content_range(start, length, size)),
        });
        if !with_md5 {
            return Ok(reply.with(body_of(reading, start, length).await?));
        }
        if length > RANGE_MAX {
            return Err(ErrorCode::OutOfRangeInput.into());
        }
        let bytes = read_part(reading, start, length).await?;
        reply = reply.maybe(headers::CONTENT_MD5, md5_of(&bytes).as_deref());
        Ok(reply.with(AnswerBody::Bytes(bytes)))
    }
}

async fn body_of(reading: Reading, start: u64, length: u64) -> Result<AnswerBody> {
    if let Some(bytes) = slice(&reading, start, length) {
        return Ok(AnswerBody::Bytes(bytes));
    }
    if length <= AT_ONCE_MAX {
        reading.bring(start..start + length).await?;
        return Ok(AnswerBody::Bytes(read_now(&reading, start, length)?));
    }
    // What is elsewhere is brought while it is sent; but whether there is anything is told by the status.
    reading.bring(start..start + AT_ONCE_MAX).await?;
    let source = FileSource { reading, runtime: tokio::runtime::Handle::current() };
    Ok(AnswerBody::from_source(Arc::new(source), start, length))
}

/// Bytes of a file as many as there are, from the memory or by a thread that may block.
pub(super) async fn read_part(reading: Reading, start: u64, length: u64) -> Result<Bytes> {
    match slice(&reading, start, length) {
        Some(bytes) => Ok(bytes),
        None => {
            reading.bring(start..start.saturating_add(length)).await?;
            on_blocking_thread(move || read_now(&reading, start, length)).await
        }
    }
}

fn read_now(reading: &Reading, start: u64, length: u64) -> Result<Bytes> {
    let mut buffer = vec![0; usize::try_from(length).map_err(|_| ErrorCode::OutOfRangeInput)?];
    fill(reading, &mut buffer, start)?;
    Ok(buffer.into())
}

/// Reads until the buffer is full. What a program cut off meanwhile reads as zeros: its length was told already.
fn fill(reading: &Reading, buffer: &mut [u8], offset: u64) -> std::result::Result<(), FsError> {
    let mut done = 0;
    while done < buffer.len() {
        match reading.read_at(&mut buffer[done..], offset + done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    buffer[done..].fill(0);
    Ok(())
}

/// The part as bytes, if the content is in memory.
fn slice(reading: &Reading, start: u64, length: u64) -> Option<Bytes> {
    let bytes = reading.in_memory()?;
    let start = usize::try_from(start).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    (end <= bytes.len()).then(|| bytes.slice(start..end))
}

/// A file as the source of an answer.
struct FileSource {
    reading: Reading,
    /// Brings what is elsewhere, while the thread that reads waits.
    runtime: tokio::runtime::Handle,
}

impl Source for FileSource {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        loop {
            match fill(&self.reading, buffer, offset) {
                Err(FsError::NotHere(range)) => {
                    self.runtime.block_on(self.reading.bring(range)).map_err(io::Error::other)?;
                }
                other => return other.map_err(io::Error::other),
            }
        }
    }
}
