//! From the headers and lists of the service to the store's values.

use std::collections::BTreeMap;
use std::io;

use http::HeaderMap;
use sha2::{Digest, Sha256};

use super::client::now;
use crate::share::Moment;
use crate::share::lease::{Lease, LeaseState};
use crate::store::{
    AccessTier, BlobKind, BlobPath, BlobProperties, BlobTier, ContainerAcl, ContainerName,
    ContainerProperties, CopyState, ETag, HttpHeaders, Metadata, PublicAccess, Result, StoreError, Tags,
};
use crate::wire::etag::Etag;
use crate::wire::xml::{BlobFields, ContainerLine, LeaseFields};
use crate::wire::{checksum, date, headers};

/// The metadata that tells a conditional write from its repetition. Only letters, so that it sorts alike everywhere.
pub(super) const WRITE_TOKEN: &str = "leasefswrite";
/// What the service says of content without a type.
const DEFAULT_TYPE: &str = "application/octet-stream";

/// Reads headers of an answer; what makes no sense is an error, because nothing could be relied on then.
pub(super) struct Reader<'h>(pub(super) &'h HeaderMap);

impl Reader<'_> {
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(|value| value.to_str().ok()).map(str::trim).filter(|text| !text.is_empty())
    }

    fn owned(&self, name: &str) -> Option<String> {
        self.text(name).map(str::to_owned)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    pub(super) fn time(&self, name: &str) -> Option<Moment> {
        self.text(name).and_then(date::parse_http)
    }

    pub(super) fn etag(&self) -> Result<ETag> {
        let tag = self.text(headers::ETAG).and_then(Etag::parse);
        tag.map(|tag| ETag(tag.0)).ok_or_else(|| nonsense("an ETag that is not one of the service's"))
    }

    pub(super) fn modified(&self) -> Result<Moment> {
        self.time(headers::LAST_MODIFIED).ok_or_else(|| nonsense("no Last-Modified"))
    }

    pub(super) fn lease(&self) -> Lease {
        let state = self.text(headers::LEASE_STATE).and_then(LeaseFields::parse_state);
        let infinite = self.text(headers::LEASE_DURATION) == Some("infinite");
        Lease::observed(state.unwrap_or(LeaseState::Available), infinite, now())
    }

    /// User metadata, without our own mark.
    pub(super) fn metadata(&self) -> Metadata {
        let mut metadata = Metadata::new();
        for (name, value) in self.0 {
            if let (Some(name), Ok(value)) =
                (name.as_str().strip_prefix(headers::META_PREFIX), value.to_str())
            {
                metadata.set(name, value);
            }
        }
        metadata.remove(WRITE_TOKEN);
        metadata
    }

    /// The mark of the write that made this version.
    pub(super) fn write_token(&self) -> Option<&str> {
        self.text(&format!("{}{WRITE_TOKEN}", headers::META_PREFIX))
    }

    fn http_headers(&self) -> HttpHeaders {
        HttpHeaders {
            content_type: own_type(self.owned(headers::CONTENT_TYPE)),
            content_encoding: self.owned(headers::CONTENT_ENCODING),
            content_language: self.owned(headers::CONTENT_LANGUAGE),
            content_disposition: self.owned(headers::CONTENT_DISPOSITION),
            cache_control: self.owned(headers::CACHE_CONTROL),
        }
    }

    fn copy(&self) -> Option<CopyState> {
        Some(CopyState {
            id: self.owned(headers::COPY_ID)?,
            source: self.owned(headers::COPY_SOURCE).unwrap_or_default(),
            bytes: copied_bytes(self.text(headers::COPY_PROGRESS)),
            completed: self.time(headers::COPY_COMPLETION_TIME).unwrap_or_default(),
        })
    }

    fn tier(&self) -> Option<BlobTier> {
        if self.text(headers::ACCESS_TIER_INFERRED) == Some("true") {
            return None;
        }
        let tier = self.text(headers::ACCESS_TIER).and_then(parse_tier)?;
        Some(BlobTier { tier, changed: self.time(headers::ACCESS_TIER_CHANGE_TIME) })
    }

    /// Everything about a blob; its tags are not in the headers.
    pub(super) fn blob(&self, at: &BlobPath) -> Result<BlobProperties> {
        let range = self.text(headers::CONTENT_RANGE).and_then(crate::wire::range::parse_content_range);
        let size = range.map_or_else(|| self.number(headers::CONTENT_LENGTH), |(_, size)| Some(size));
        // With a range, the MD5 in the plain header is the range's.
        let md5 = if range.is_some() { headers::BLOB_CONTENT_MD5 } else { headers::CONTENT_MD5 };
        let modified = self.modified()?;
        Ok(BlobProperties {
            id: number_of(&at.container, at.name.as_str()),
            etag: self.etag()?,
            kind: parse_kind(self.text(headers::BLOB_TYPE).unwrap_or_default()),
            size: size.ok_or_else(|| nonsense("no length"))?,
            created: self.time(headers::CREATION_TIME).unwrap_or(modified),
            modified,
            metadata: self.metadata(),
            headers: self.http_headers(),
            content_md5: self.text(md5).and_then(checksum::parse_md5),
            lease: self.lease(),
            tier: self.tier(),
            tags: Tags::NONE,
            copy: self.copy().map(Box::new),
            sequence_number: self.number(headers::BLOB_SEQUENCE_NUMBER).unwrap_or_default(),
            appended_blocks: self
                .number(headers::BLOB_COMMITTED_BLOCK_COUNT)
                .and_then(|count| u32::try_from(count).ok())
                .unwrap_or_default(),
            sealed: self.text(headers::BLOB_SEALED) == Some("true"),
        })
    }

    /// Everything about a container; its policies are not in the headers.
    pub(super) fn container(&self, name: &ContainerName) -> Result<ContainerProperties> {
        Ok(ContainerProperties {
            name: name.clone(),
            id: number_of(name, ""),
            etag: self.etag()?,
            modified: self.modified()?,
            metadata: self.metadata(),
            acl: ContainerAcl {
                access: parse_access(self.text(headers::BLOB_PUBLIC_ACCESS)),
                policies: Vec::new(),
            },
            lease: self.lease(),
        })
    }
}

/// A blob as a list shows it.
pub(super) fn listed_blob(
    at: (&ContainerName, &str),
    fields: &BlobFields,
    metadata: Option<Metadata>,
    tags: Option<BTreeMap<String, String>>,
) -> Result<BlobProperties> {
    let (etag, modified) = match (fields.etag, fields.modified) {
        (Some(etag), Some(modified)) => (ETag(etag.0), modified),
        _ => return Err(nonsense("a blob without ETag or date in a list")),
    };
    let mut metadata = metadata.unwrap_or_default();
    metadata.remove(WRITE_TOKEN);
    let tier = fields.access_tier.as_deref().and_then(parse_tier).filter(|_| !fields.access_tier_inferred);
    let copy = fields.copy.as_ref().map(|copy| CopyState {
        id: copy.id.clone(),
        source: copy.source.clone(),
        bytes: copied_bytes(Some(&copy.progress)),
        completed: copy.completed.unwrap_or_default(),
    });
    Ok(BlobProperties {
        id: number_of(at.0, at.1),
        etag,
        kind: parse_kind(&fields.blob_type),
        size: fields.content_length,
        created: fields.created.unwrap_or(modified),
        modified,
        metadata,
        headers: HttpHeaders {
            content_type: own_type(fields.content_type.clone()),
            content_encoding: fields.content_encoding.clone(),
            content_language: fields.content_language.clone(),
            content_disposition: fields.content_disposition.clone(),
            cache_control: fields.cache_control.clone(),
        },
        content_md5: fields.content_md5,
        lease: fields.lease.map(listed_lease).unwrap_or_default(),
        tier: tier.map(|tier| BlobTier { tier, changed: fields.access_tier_changed }),
        tags: Tags::new(tags.unwrap_or_default())?,
        copy: copy.map(Box::new),
        sequence_number: fields.sequence_number.unwrap_or_default(),
        appended_blocks: 0,
        sealed: fields.sealed.unwrap_or_default(),
    })
}

/// A container as a list shows it: without its policies.
pub(super) fn listed_container(line: ContainerLine) -> Result<ContainerProperties> {
    let name = ContainerName::new(&line.name)?;
    Ok(ContainerProperties {
        id: number_of(&name, ""),
        name,
        etag: line.etag.map(|tag| ETag(tag.0)).ok_or_else(|| nonsense("a container without an ETag"))?,
        modified: line.modified,
        metadata: line.metadata.unwrap_or_default(),
        acl: ContainerAcl { access: parse_access(line.public_access.as_deref()), policies: Vec::new() },
        lease: listed_lease(line.lease),
    })
}

pub(super) fn listed_lease(lease: LeaseFields) -> Lease {
    Lease::observed(lease.state, lease.infinite == Some(true), now())
}

/// A number for a name: the service has none, so it is made from the name. A blob and the prefix of the same name share it.
pub(super) fn number_of(container: &ContainerName, name: &str) -> u64 {
    let digest = Sha256::digest(format!("{container}/{}", name.trim_end_matches('/')));
    let first: [u8; 8] = std::array::from_fn(|index| digest[index]);
    u64::from_be_bytes(first).max(1)
}

pub(super) fn kind_name(kind: BlobKind) -> &'static str {
    match kind {
        BlobKind::Block => "BlockBlob",
        BlobKind::Append => "AppendBlob",
        BlobKind::Page => "PageBlob",
    }
}

fn parse_kind(text: &str) -> BlobKind {
    match text {
        "AppendBlob" => BlobKind::Append,
        "PageBlob" => BlobKind::Page,
        _ => BlobKind::Block,
    }
}

pub(super) fn tier_name(tier: AccessTier) -> &'static str {
    match tier {
        AccessTier::Hot => "Hot",
        AccessTier::Cool => "Cool",
        AccessTier::Cold => "Cold",
        AccessTier::Archive => "Archive",
    }
}

fn parse_tier(text: &str) -> Option<AccessTier> {
    use AccessTier::{Archive, Cold, Cool, Hot};
    [Hot, Cool, Cold, Archive].into_iter().find(|tier| tier_name(*tier) == text)
}

pub(super) fn access_name(access: PublicAccess) -> Option<&'static str> {
    match access {
        PublicAccess::None => None,
        PublicAccess::Blob => Some("blob"),
        PublicAccess::Container => Some("container"),
    }
}

pub(super) fn parse_access(text: Option<&str>) -> PublicAccess {
    match text {
        Some("blob") => PublicAccess::Blob,
        Some("container") => PublicAccess::Container,
        _ => PublicAccess::None,
    }
}

/// `done/all`: how much.
fn copied_bytes(progress: Option<&str>) -> u64 {
    progress.and_then(|text| text.split('/').next()?.parse().ok()).unwrap_or_default()
}

fn own_type(content_type: Option<String>) -> Option<String> {
    content_type.filter(|text| text != DEFAULT_TYPE)
}

/// The service's answer cannot be relied on.
pub(super) fn nonsense(what: &str) -> StoreError {
    StoreError::io("reading an answer", io::Error::new(io::ErrorKind::InvalidData, what.to_owned()))
}
