//! Lists of blobs: List Blobs, flat or with a delimiter, and Find Blobs by Tags.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::BlobService;
use super::call::Call;
use super::failure::Result;
use super::properties::tier_name;
use super::read::kind_name;
use super::reply::Reply;
use crate::rest::server::Answer;
use crate::share::Moment;
use crate::share::lease::Lease;
use crate::store::conditions::TagExpression;
use crate::store::{AccessTier, BlobKind, BlobProperties, ContainerName, ListItem, ListQuery, Tags};
use crate::wire::etag::Etag;
use crate::wire::xml::{self, BlobFields, BlobLine, BlobListing, CopyFields, LeaseFields};
use crate::wire::{ErrorCode, Fault, query};

/// The most lines of a page.
const PAGE_MAX: usize = 5000;

/// What a request says about the page it wants.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    pub(super) prefix: Option<String>,
    /// As the client gave it.
    pub(super) marker: Option<String>,
    /// As the client gave it.
    pub(super) asked_max: Option<u32>,
    pub(super) max: usize,
}

impl Page {
    /// Reads `prefix`, `marker` and `maxresults`.
    pub(super) fn of(call: &Call<'_>) -> Result<Self> {
        let asked_max = match call.query.filled("maxresults") {
            None => None,
            Some(text) => Some(text.parse::<i64>().map_err(|_| Fault::invalid_query("maxresults", text))?),
        };
        let max = match asked_max {
            None => PAGE_MAX,
            Some(asked) if asked <= 0 => {
                return Err(Fault::new(ErrorCode::OutOfRangeQueryParameterValue)
                    .with("QueryParameterName", "maxresults")
                    .with("QueryParameterValue", asked.to_string())
                    .into());
            }
            Some(asked) => usize::try_from(asked).unwrap_or(PAGE_MAX).min(PAGE_MAX),
        };
        Ok(Self {
            prefix: call.query.filled("prefix").map(str::to_owned),
            marker: call.query.filled("marker").map(str::to_owned),
            asked_max: asked_max.map(|asked| u32::try_from(asked).unwrap_or(u32::MAX)),
            max,
        })
    }

    pub(super) fn prefix_text(&self) -> &str {
        self.prefix.as_deref().unwrap_or_default()
    }
}

/// What `include` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Include {
    metadata: bool,
    snapshots: bool,
    uncommitted: bool,
    copy: bool,
    tags: bool,
}

impl Include {
    fn parse(text: &str) -> Result<Self> {
        let mut include = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word.to_ascii_lowercase().as_str() {
                "metadata" => include.metadata = true,
                "snapshots" => include.snapshots = true,
                "uncommittedblobs" => include.uncommitted = true,
                "copy" => include.copy = true,
                "tags" => include.tags = true,
                // There are no versions, deleted blobs, holds or permissions to show.
                "versions"
                | "deleted"
                | "deletedwithversions"
                | "immutabilitypolicy"
                | "legalhold"
                | "permissions" => {}
                _ => return Err(Fault::invalid_query("include", word).into()),
            }
        }
        Ok(include)
    }
}

impl BlobService {
    /// List Blobs.
    pub(super) async fn list_blobs(&self, call: &Call<'_>, container: &ContainerName) -> Result<Answer> {
        let page = Page::of(call)?;
        let include = Include::parse(call.query.filled("include").unwrap_or_default())?;
        let delimiter = call.query.filled("delimiter").map(str::to_owned);
        if include.snapshots && delimiter.is_some() {
            return Err(Fault::invalid_query("include", "snapshots").into());
        }
        let wanted = ListQuery {
            prefix: page.prefix_text().to_owned(),
            delimiter: delimiter.clone(),
            marker: page.marker.as_deref().map(read_marker).transpose()?,
            max: page.max,
            snapshots: include.snapshots,
            uncommitted: include.uncommitted,
        };
        let listed = self.store.list_blobs(container, &wanted).await?;
        let listing = BlobListing {
            prefix: page.prefix,
            marker: page.marker,
            max: page.asked_max,
            delimiter,
            lines: listed.items.into_iter().map(|item| line(item, include, call.now)).collect(),
            next: listed.next.as_deref().map(show_marker),
        };
        Ok(Reply::ok().xml(xml::blob_list(&call.endpoint(), container.as_str(), &listing)))
    }

    /// Find Blobs by Tags, in the account or in one container.
    pub(super) async fn find_by_tags(
        &self,
        call: &Call<'_>,
        container: Option<&ContainerName>,
    ) -> Result<Answer> {
        let page = Page::of(call)?;
        let text = call.query.filled("where").ok_or_else(|| Fault::missing_query("where"))?;
        let wanted = TagExpression::search(text)
            .map_err(|why| Fault::invalid_query("where", text).saying(why.to_string()))?;
        let marker = page.marker.as_deref().map(read_marker).transpose()?;
        let found = self.store.find_by_tags(container, &wanted, marker.as_deref(), page.max).await?;
        let line = |blob: crate::store::TaggedBlob| xml::TaggedLine {
            container: blob.container.to_string(),
            name: blob.name,
            tags: pairs(&blob.tags),
        };
        let listing = xml::FilterListing {
            query: text.to_owned(),
            blobs: found.blobs.into_iter().map(line).collect(),
            next: found.next.as_deref().map(show_marker),
        };
        Ok(Reply::ok().xml(xml::filter_result(&call.endpoint(), &listing)))
    }
}

impl Call<'_> {
    /// The service's URL as the client reached it.
    pub(super) fn endpoint(&self) -> String {
        let scheme = if self.caller.secure { "https" } else { "http" };
        let host = self.headers().get("host").and_then(|host| host.to_str().ok()).unwrap_or_default();
        let secondary = if self.target.secondary { "-secondary" } else { "" };
        if self.target.in_host {
            format!("{scheme}://{host}/")
        } else {
            format!("{scheme}://{host}/{}{secondary}/", query::encode(&self.target.account))
        }
    }
}

/// What a marker starts with that is not a name. No name has a NUL, and no client sends one by chance.
const OPAQUE: &str = "2!";

/// Where a list goes on, in letters that survive XML and a URL.
fn show_marker(next: &str) -> String {
    format!("{OPAQUE}{}", URL_SAFE_NO_PAD.encode(next))
}

/// A marker of ours, or a name, which is a marker too.
fn read_marker(text: &str) -> Result<String> {
    let Some(encoded) = text.strip_prefix(OPAQUE) else { return Ok(text.to_owned()) };
    let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| Fault::invalid_query("marker", text))?;
    Ok(String::from_utf8(bytes).map_err(|_| Fault::invalid_query("marker", text))?)
}

fn line(item: ListItem, include: Include, now: Moment) -> BlobLine {
    match item {
        ListItem::Prefix { name, .. } => BlobLine::Prefix { name },
        ListItem::Blob { name, properties } => {
            let lease = Some(lease_fields(&properties.lease, now));
            blob_line(name, None, lease, &properties, include)
        }
        ListItem::Snapshot { name, snapshot, properties } => {
            blob_line(name, Some(snapshot.0), None, &properties, include)
        }
        ListItem::Uncommitted { name, touched, lease } => BlobLine::Blob {
            name,
            snapshot: None,
            fields: Box::new(BlobFields {
                created: Some(touched),
                modified: Some(touched),
                blob_type: "BlockBlob".into(),
                lease: Some(lease_fields(&lease, now)),
                ..BlobFields::default()
            }),
            metadata: None,
            tags: None,
        },
    }
}

fn blob_line(
    name: String,
    snapshot: Option<Moment>,
    lease: Option<LeaseFields>,
    blob: &Arc<BlobProperties>,
    include: Include,
) -> BlobLine {
    let tier = blob.tier.map(|tier| tier.tier);
    let block = blob.kind == BlobKind::Block;
    let fields = BlobFields {
        created: Some(blob.created),
        modified: Some(blob.modified),
        etag: Some(Etag(blob.etag.0)),
        content_length: blob.size,
        content_type: Some(
            blob.headers.content_type.clone().unwrap_or_else(|| "application/octet-stream".into()),
        ),
        content_encoding: blob.headers.content_encoding.clone(),
        content_language: blob.headers.content_language.clone(),
        content_md5: blob.content_md5,
        cache_control: blob.headers.cache_control.clone(),
        content_disposition: blob.headers.content_disposition.clone(),
        sequence_number: (blob.kind == BlobKind::Page).then_some(blob.sequence_number),
        blob_type: kind_name(blob).to_owned(),
        access_tier: block.then(|| tier_name(tier.unwrap_or(AccessTier::Hot)).to_owned()),
        access_tier_inferred: block && tier.is_none(),
        access_tier_changed: blob.tier.and_then(|tier| tier.changed),
        lease,
        copy: blob.copy.as_ref().filter(|_| include.copy).map(|copy| CopyFields {
            id: copy.id.clone(),
            source: copy.source.clone(),
            status: "success".into(),
            progress: format!("{0}/{0}", copy.bytes),
            completed: Some(copy.completed),
        }),
        sealed: (blob.kind == BlobKind::Append).then_some(blob.sealed),
        tag_count: u32::try_from(blob.tags.len()).ok().filter(|count| *count > 0),
    };
    BlobLine::Blob {
        name,
        snapshot,
        fields: Box::new(fields),
        metadata: include.metadata.then(|| blob.metadata.clone()),
        tags: include.tags.then(|| pairs(&blob.tags)),
    }
}

/// A lease as lists show it.
pub(super) fn lease_fields(lease: &Lease, now: Moment) -> LeaseFields {
    let infinite = lease.duration(now).map(crate::share::lease::LeaseDuration::is_infinite);
    LeaseFields { state: lease.state(now), infinite }
}

/// Tags as plain pairs.
pub(super) fn pairs(tags: &Tags) -> std::collections::BTreeMap<String, String> {
    tags.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_come_back() {
        for next in ["a/b", "a\0\u{1}", "ü", ""] {
            assert_eq!(read_marker(&show_marker(next)).unwrap(), next);
        }
        assert_eq!(read_marker("plain/name").unwrap(), "plain/name");
        assert!(read_marker("2!***").is_err());
    }

    #[test]
    fn includes_are_known_or_refused() {
        let include = Include::parse("metadata, Snapshots,deleted").unwrap();
        assert_eq!(include, Include { metadata: true, snapshots: true, ..Include::default() });
        assert!(Include::parse("everything").is_err());
    }
}
