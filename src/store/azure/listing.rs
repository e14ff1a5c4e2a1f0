//! Lists of blobs, of snapshots, and of what was found by tags.

use std::sync::Arc;

use http::Method;

use super::AzureStore;
use super::answers::{listed_blob, listed_lease, number_of};
use super::blobs::unreadable;
use super::client::{Call, Target};
use crate::store::{
    BlobPage, BlobPath, BlobProperties, ContainerName, ListItem, ListQuery, Result, SnapshotId,
    TagExpression, TaggedBlob, TaggedPage, Tags,
};
use crate::wire::xml::{self, BlobLine};

impl AzureStore {
    pub(super) async fn list_in(&self, container: &ContainerName, query: &ListQuery) -> Result<BlobPage> {
        let mut include = vec!["metadata", "tags", "copy"];
        include.extend(query.snapshots.then_some("snapshots"));
        include.extend(query.uncommitted.then_some("uncommittedblobs"));
        let call = Call::on_container(Method::GET, container)
            .query("comp", "list")
            .query("include", include.join(","))
            .query("maxresults", query.max.to_string())
            .maybe_query("prefix", (!query.prefix.is_empty()).then_some(query.prefix.as_str()))
            .maybe_query("delimiter", query.delimiter.as_deref())
            .maybe_query("marker", query.marker.as_deref());
        let answer = self.client.send(&call).await.map_err(|failure| failure.about(container))?;
        let page = xml::parse_blob_list(&answer.body).map_err(|fault| unreadable(&fault))?;
        let mut items =
            page.lines.into_iter().map(|line| item(container, line)).collect::<Result<Vec<_>>>()?;
        // Some servers list blobs and prefixes apart. What has the same name keeps its order.
        items.sort_by(|one, other| name_of(one).cmp(name_of(other)));
        Ok(BlobPage { items, next: page.next })
    }

    pub(super) async fn snapshots_of(&self, at: &BlobPath) -> Result<Vec<(SnapshotId, Arc<BlobProperties>)>> {
        let mut found = Vec::new();
        let mut query = ListQuery {
            prefix: at.name.as_str().to_owned(),
            max: 1000,
            snapshots: true,
            ..ListQuery::default()
        };
        loop {
            let page = self.list_in(&at.container, &query).await?;
            for item in page.items {
                if let ListItem::Snapshot { name, snapshot, properties } = item
                    && name == at.name.as_str()
                {
                    found.push((snapshot, properties));
                }
            }
            query.marker = page.next;
            if query.marker.is_none() {
                return Ok(found);
            }
        }
    }

    pub(super) async fn find(
        &self,
        container: Option<&ContainerName>,
        tags: &TagExpression,
        marker: Option<&str>,
        max: usize,
    ) -> Result<TaggedPage> {
        let call = match container {
            Some(name) => Call::on_container(Method::GET, name),
            None => Call::new(Method::GET, Target::Service),
        };
        let call = call
            .query("comp", "blobs")
            .query("where", tags.to_string())
            .query("maxresults", max.to_string())
            .maybe_query("marker", marker);
        let about = container.map_or_else(|| "the service".to_owned(), ToString::to_string);
        let answer = self.client.send(&call).await.map_err(|failure| failure.about(&about))?;
        let page = xml::parse_filter_result(&answer.body).map_err(|fault| unreadable(&fault))?;
        let blobs = page.blobs.into_iter().map(|line| {
            Ok(TaggedBlob {
                container: ContainerName::new(&line.container)?,
                name: line.name,
                tags: Tags::new(line.tags)?,
            })
        });
        Ok(TaggedPage { blobs: blobs.collect::<Result<_>>()?, next: page.next })
    }
}

fn name_of(item: &ListItem) -> &str {
    match item {
        ListItem::Blob { name, .. }
        | ListItem::Snapshot { name, .. }
        | ListItem::Uncommitted { name, .. }
        | ListItem::Prefix { name, .. } => name,
    }
}

fn item(container: &ContainerName, line: BlobLine) -> Result<ListItem> {
    match line {
        BlobLine::Prefix { name } => Ok(ListItem::Prefix { id: number_of(container, &name), name }),
        BlobLine::Blob { name, snapshot: None, fields, .. } if fields.etag.is_none() => {
            let touched = fields.modified.or(fields.created).unwrap_or_default();
            Ok(ListItem::Uncommitted {
                name,
                touched,
                lease: fields.lease.map(listed_lease).unwrap_or_default(),
            })
        }
        BlobLine::Blob { name, snapshot, fields, metadata, tags } => {
            let properties = Arc::new(listed_blob((container, &name), &fields, metadata, tags)?);
            Ok(match snapshot {
                Some(moment) => ListItem::Snapshot { name, snapshot: SnapshotId(moment), properties },
                None => ListItem::Blob { name, properties },
            })
        }
    }
}
