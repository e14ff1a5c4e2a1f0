//! Where a blob's content is copied from: a blob of this service, resolved inside, or a URL elsewhere, if that is
//! allowed.

use std::io;
use std::sync::Arc;

use futures_util::StreamExt;
use http::{StatusCode, Uri};
use reqwest::header::{HeaderMap, HeaderName};

use super::BlobService;
use super::call::Call;
use super::failure::{Failure, Result};
use super::receive::Received;
use super::route::{BLOB_LABEL, Resource, Target};
use crate::rest::server::BodyError;
use crate::rest::sources::{cannot_read, is_same_server, named_url, open_elsewhere, without_query};
use crate::store::{
    BlobName, BlobPath, ContainerName, HttpHeaders, Metadata, Preconditions, SnapshotId, StoreError, Tags,
};
use crate::wire::checksum::{Declared, Summing, Wanted};
use crate::wire::query::Query;
use crate::wire::range::RequestedRange;
use crate::wire::{ErrorCode, Fault, date, headers};

/// Content of our own blobs is copied in pieces of this size.
const PIECE: usize = 1024 * 1024;

/// A source that may be read.
#[derive(Clone, Debug)]
pub(super) enum CopyFrom {
    /// A blob of this service.
    Own(OwnSource),
    /// A blob of another account of this server.
    Neighbour(Arc<BlobService>, OwnSource),
    /// Elsewhere.
    Elsewhere(String),
}

/// A blob of a service, or one of its snapshots.
#[derive(Clone, Debug)]
pub(super) struct OwnSource {
    pub(super) at: BlobPath,
    pub(super) snapshot: Option<SnapshotId>,
}

/// Content that was fetched, and what its source says about it.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) received: Received,
    pub(super) headers: HttpHeaders,
    /// Of a blob of this server; what is elsewhere keeps its own to itself.
    pub(super) metadata: Metadata,
    pub(super) tags: Tags,
}

/// Whether the caller's own signature lets it read its account's blobs as a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceRight {
    /// It does: Copy Blob.
    BySignature,
    /// The source needs a right of its own, in its URL: everything that reads the source while the client waits.
    ByUrl,
}

impl BlobService {
    /// The source a request names, if the caller may read it.
    pub(super) async fn source(&self, call: &Call<'_>, right: SourceRight) -> Result<CopyFrom> {
        let (text, url) = named_url(call.headers(), headers::COPY_SOURCE)?;
        let authority = url.authority().map_or("", |authority| authority.as_str());
        let host = headers::text(call.headers(), headers::HOST)?.unwrap_or_default();
        if is_same_server(host, authority, BLOB_LABEL) {
            return self.own_source(call, &url, right).await;
        }
        self.copy_sources.check(url.host().unwrap_or_default())?;
        Ok(CopyFrom::Elsewhere(text.to_owned()))
    }

    async fn own_source(&self, call: &Call<'_>, url: &Uri, right: SourceRight) -> Result<CopyFrom> {
        let authority = url.authority().map_or("", |authority| authority.as_str());
        let target = Target::parse(authority, url.path(), false).map_err(|_| ErrorCode::InvalidUri)?;
        let query = Query::parse(url.query().unwrap_or_default())?;
        let Resource::Blob(container, name) = &target.resource else {
            return Err(Fault::invalid_header(headers::COPY_SOURCE, without_query(&url.to_string())).into());
        };
        let snapshot = match query.filled("snapshot") {
            None => None,
            Some(text) => {
                Some(SnapshotId(date::parse_iso(text).ok_or_else(|| Fault::invalid_query("snapshot", text))?))
            }
        };
        let at = BlobPath::new(
            ContainerName::new(container).map_err(StoreError::from)?,
            BlobName::new(name.as_str()).map_err(StoreError::from)?,
        );
        let source = OwnSource { at, snapshot };
        let neighbour = (target.account.name != call.target.account.name)
            .then(|| self.neighbours.find(&target.account.name));
        match neighbour.flatten() {
            None => {
                self.authorize_source(call, url, &target, &query, &source.at, right).await?;
                Ok(CopyFrom::Own(source))
            }
            Some(other) => {
                other.authorize_source(call, url, &target, &query, &source.at, right).await?;
                Ok(CopyFrom::Neighbour(other, source))
            }
        }
    }

    /// Refuses a source of ours that is not there or does not meet its conditions, in the words for sources.
    pub(super) async fn check_source(&self, source: &OwnSource, conditions: &Preconditions) -> Result<()> {
        let found = self.store.blob_properties(&source.at, source.snapshot, conditions).await;
        found.map(|_| ()).map_err(about_source)
    }

    /// Takes a source's bytes, or a range of them, in: at most `max`.
    pub(super) async fn fetch(
        &self,
        call: &Call<'_>,
        source: &CopyFrom,
        range: Option<RequestedRange>,
        max: u64,
        wanted: Wanted,
    ) -> Result<Fetched> {
        let declared = Declared::of_source(call.headers())?;
        let wanted = if declared.md5.is_some() { Wanted::Md5AndCrc64 } else { wanted };
        let fetched = match source {
            CopyFrom::Own(own) => {
                self.fetch_local(self, own, call.source_conditions()?, range, max, wanted).await?
            }
            CopyFrom::Neighbour(other, own) => {
                self.fetch_local(other, own, call.source_conditions()?, range, max, wanted).await?
            }
            CopyFrom::Elsewhere(url) => self.fetch_elsewhere(call, url, range, max, wanted).await?,
        };
        fetched.received.sums.check(&declared)?;
        Ok(fetched)
    }

    async fn fetch_local(
        &self,
        of: &BlobService,
        source: &OwnSource,
        conditions: Preconditions,
        range: Option<RequestedRange>,
        max: u64,
        wanted: Wanted,
    ) -> Result<Fetched> {
        let reader =
            of.store.open_version(&source.at, source.snapshot, None, &conditions).map_err(about_source)?;
        let blob = Arc::clone(reader.properties());
        let (start, length) = match range {
            None => (0, blob.size),
            Some(range) if range.first >= blob.size => return Err(ErrorCode::InvalidRange.into()),
            Some(range) => (range.first, range.length().unwrap_or(u64::MAX).min(blob.size - range.first)),
        };
        if length > max {
            return Err(BodyError::TooLong { max }.into());
        }
        let mut upload = self.store.upload().without_md5();
        let copying = tokio::task::spawn_blocking(move || {
            let mut summing = Summing::new(wanted);
            let mut buffer = vec![0; usize::try_from(length).unwrap_or(PIECE).min(PIECE)];
            let (mut at, end) = (start, start + length);
            while at < end {
                let count = usize::try_from(end - at).unwrap_or(PIECE).min(buffer.len());
                let read = reader.read_at(&mut buffer[..count], at);
                let read = read.map_err(|error| StoreError::io("read the source of a copy", error))?;
                if read == 0 {
                    return Err(StoreError::io(
                        "read the source of a copy",
                        io::ErrorKind::UnexpectedEof.into(),
                    ));
                }
                summing.update(&buffer[..read]);
                upload.write(&buffer[..read])?;
                at += read as u64;
            }
            Ok(Received { body: upload.finish(), sums: summing.finish() })
        });
        let lost = |_| StoreError::Damaged("a thread that copied content ended early".into());
        let received = copying.await.map_err(lost)??;
        Ok(Fetched {
            received,
            headers: blob.headers.clone(),
            metadata: blob.metadata.clone(),
            tags: blob.tags.clone(),
        })
    }

    async fn fetch_elsewhere(
        &self,
        call: &Call<'_>,
        url: &str,
        range: Option<RequestedRange>,
        max: u64,
        wanted: Wanted,
    ) -> Result<Fetched> {
        let answer = open_elsewhere(url, source_condition_headers(call), range).await?;
        let headers = headers_of(answer.headers());
        let (mut upload, mut summing) = (self.store.upload().without_md5(), Summing::new(wanted));
        let mut pieces = answer.bytes_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| cannot_read(url, &error.without_url()))?;
            if upload.size() + piece.len() as u64 > max {
                return Err(BodyError::TooLong { max }.into());
            }
            summing.update(&piece);
            upload.write(&piece)?;
        }
        let received = Received { body: upload.finish(), sums: summing.finish() };
        Ok(Fetched { received, headers, metadata: Metadata::default(), tags: Tags::NONE })
    }
}

/// What a store's refusal means when it is about the source.
fn about_source(error: StoreError) -> Failure {
    match error {
        StoreError::BlobNotFound(_) | StoreError::ContainerNotFound(_) => {
            Failure::Source(StatusCode::NOT_FOUND, "The source of the copy does not exist.".into())
        }
        StoreError::ConditionNotMet | StoreError::NotModified => ErrorCode::SourceConditionNotMet.into(),
        other => other.into(),
    }
}

/// The conditions on the source, as the source itself reads them.
fn source_condition_headers(call: &Call<'_>) -> Vec<(&'static str, String)> {
    let pairs = [
        (headers::SOURCE_IF_MATCH, headers::IF_MATCH),
        (headers::SOURCE_IF_NONE_MATCH, headers::IF_NONE_MATCH),
        (headers::SOURCE_IF_MODIFIED_SINCE, headers::IF_MODIFIED_SINCE),
        (headers::SOURCE_IF_UNMODIFIED_SINCE, headers::IF_UNMODIFIED_SINCE),
    ];
    let text = |name| headers::text(call.headers(), name).ok().flatten().map(str::to_owned);
    pairs.into_iter().filter_map(|(ours, theirs)| Some((theirs, text(ours)?))).collect()
}

fn headers_of(given: &HeaderMap) -> HttpHeaders {
    let text = |name: &'static str| {
        let value = given.get(HeaderName::from_static(name))?.to_str().ok()?;
        (!value.is_empty()).then(|| value.to_owned())
    };
    HttpHeaders {
        content_type: text(headers::CONTENT_TYPE),
        content_encoding: text(headers::CONTENT_ENCODING),
        content_language: text(headers::CONTENT_LANGUAGE),
        content_disposition: text(headers::CONTENT_DISPOSITION),
        cache_control: text(headers::CACHE_CONTROL),
    }
}
