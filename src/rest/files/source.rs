//! Where a file's content is copied from: a file of this service, resolved inside, or a URL elsewhere, if that is
//! allowed.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::{StatusCode, Uri};

use super::FilesService;
use super::call::{Call, snapshot_in};
use super::failure::{Failure, Result};
use super::operation::{FileOp, Operation};
use super::place::Place;
use super::read::read_part;
use super::route::{FILE_LABEL, Resource, Target};
use crate::fs::requests::Reading;
use crate::rest::failure as common;
use crate::rest::sources::{cannot_read, is_same_server, named_url, open_elsewhere, without_query};
use crate::wire::query::Query;
use crate::wire::range::RequestedRange;
use crate::wire::{ErrorCode, Fault, headers};

/// A source that may be read.
pub(super) enum CopyFrom {
    /// A file of this service, or of a snapshot.
    Own(Box<Reading>),
    /// Elsewhere.
    Elsewhere(String),
}

impl FilesService {
    /// The source a request names, if the caller may read it.
    pub(super) async fn source(&self, call: &Call<'_>) -> Result<CopyFrom> {
        let (text, url) = named_url(call.headers(), headers::COPY_SOURCE)?;
        let authority = url.authority().map_or("", |authority| authority.as_str());
        if !is_same_server(call.host(), authority, FILE_LABEL) {
            self.copy_sources.check(url.host().unwrap_or_default())?;
            return Ok(CopyFrom::Elsewhere(text.to_owned()));
        }
        let dots = headers::flag(call.headers(), headers::SOURCE_ALLOW_TRAILING_DOT)?;
        let (place, target, query) = own_place(&url, headers::COPY_SOURCE, dots)?;
        let need = super::needs::need(&Operation::File(place.clone(), FileOp::Get), call.headers());
        let neighbour = (target.account.name != call.target.account.name)
            .then(|| self.neighbours.find(&target.account.name))
            .flatten();
        let owner = neighbour.as_deref().unwrap_or(self);
        owner.authorize_other(call, &url, &target, &query, &need).await?;
        let view = owner.view_of(call, &place.share, snapshot_in(&query, "sharesnapshot")?).await;
        let reading = match view {
            Ok(view) => view.read(&place.path, None).await,
            Err(failure) => Err(failure),
        };
        Ok(CopyFrom::Own(Box::new(reading.map_err(about_source)?)))
    }

    /// A range of a source.
    pub(super) async fn fetch_range(&self, source: &CopyFrom, range: RequestedRange) -> Result<Bytes> {
        let length = range.length().ok_or(ErrorCode::InvalidRange)?;
        match source {
            CopyFrom::Own(reading) => {
                if range.first.checked_add(length).is_none_or(|end| end > reading.size()) {
                    return Err(ErrorCode::InvalidRange.into());
                }
                read_part(Reading::clone(reading), range.first, length).await
            }
            CopyFrom::Elsewhere(url) => fetch_elsewhere(url, range, length).await,
        }
    }
}

async fn fetch_elsewhere(url: &str, range: RequestedRange, length: u64) -> Result<Bytes> {
    let answer = open_elsewhere(url, Vec::new(), Some(range)).await?;
    let (mut all, mut pieces) = (BytesMut::new(), answer.bytes_stream());
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| cannot_read(url, &error.without_url()))?;
        if (all.len() + piece.len()) as u64 > length {
            return Err(cannot_read(url, &"more bytes than the range has").into());
        }
        all.extend_from_slice(&piece);
    }
    if all.len() as u64 != length {
        return Err(ErrorCode::InvalidRange.into());
    }
    Ok(all.freeze())
}

/// A file of this service that a header names by URL.
pub(super) fn own_place(url: &Uri, header: &'static str, dots: bool) -> Result<(Place, Target, Query)> {
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let target = Target::parse(authority, url.path()).map_err(|_| ErrorCode::InvalidUri)?;
    let query = Query::parse(url.query().unwrap_or_default())?;
    let Resource::Path(share, path) = &target.resource else {
        return Err(Fault::invalid_header(header, without_query(&url.to_string())).into());
    };
    let place = Place::named(share, path, dots)?;
    Ok((place, target, query))
}

/// What a refusal means when it is about the source.
fn about_source(failure: Failure) -> Failure {
    match failure.code() {
        Some(ErrorCode::ResourceNotFound | ErrorCode::ParentNotFound | ErrorCode::ShareNotFound) => {
            let text = "The source of the copy does not exist.".to_owned();
            common::Failure::Source(StatusCode::NOT_FOUND, text).into()
        }
        _ => failure,
    }
}
