//! Lists of blobs: List Blobs, flat or with a delimiter, and Find Blobs by Tags.

use std::sync::Arc;

use super::BlobService;
use super::call::Call;
use super::failure::Result;
use super::properties::tier_name;
use super::read::kind_name;
use crate::rest::page::{Page, read_marker, show_marker};
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::share::Moment;
use crate::share::lease::Lease;
use crate::store::conditions::TagExpression;
use crate::store::{AccessTier, BlobKind, BlobProperties, ContainerName, ListItem, ListQuery, Tags};
use crate::wire::Fault;
use crate::wire::etag::Etag;
use crate::wire::xml::{self, BlobFields, BlobLine, BlobListing, CopyFields, LeaseFields};

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
        let page = Page::of(&call.query)?;
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
        let page = Page::of(&call.query)?;
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
        let host = self.headers().get("host").and_then(|host| host.to_str().ok()).unwrap_or_default();
        self.target.account.endpoint(self.caller, host)
    }
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
