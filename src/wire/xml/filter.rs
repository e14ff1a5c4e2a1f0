//! The result of Find Blobs by Tags.

use std::collections::BTreeMap;

use super::node::Node;
use super::tags::{parse_tag_set, tag_set};
use super::writer::Writer;
use crate::wire::fault::Result;

/// A blob that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedLine {
    /// Its container.
    pub container: String,
    /// Its name.
    pub name: String,
    /// The tags that were asked for.
    pub tags: BTreeMap<String, String>,
}

/// One page of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterListing {
    /// What was asked.
    pub query: String,
    /// What was found.
    pub blobs: Vec<TaggedLine>,
    /// Where to go on.
    pub next: Option<String>,
}

/// The body of the answer; `endpoint` is the service's URL.
pub fn filter_result(endpoint: &str, page: &FilterListing) -> String {
    Writer::document("EnumerationResults", &[("ServiceEndpoint", endpoint)], |list| {
        list.text("Where", &page.query);
        list.element("Blobs", |blobs| {
            for line in &page.blobs {
                blobs.element("Blob", |blob| {
                    blob.name("Name", &line.name);
                    blob.text("ContainerName", &line.container);
                    blob.element("Tags", |tags| tag_set(tags, &line.tags));
                });
            }
        });
        list.text("NextMarker", page.next.as_deref().unwrap_or_default());
    })
}

/// Reads the body of the answer.
pub fn parse_filter_result(body: &[u8]) -> Result<FilterListing> {
    let list = Node::parse(body, "EnumerationResults")?;
    let mut blobs = Vec::new();
    for blob in list.child("Blobs").into_iter().flat_map(|blobs| blobs.all("Blob")) {
        blobs.push(TaggedLine {
            container: blob.required("ContainerName")?.to_owned(),
            name: blob.blob_name("Name")?,
            tags: blob.child("Tags").map_or_else(|| Ok(BTreeMap::new()), parse_tag_set)?,
        });
    }
    let text = |name| list.get(name).map(str::to_owned);
    Ok(FilterListing { query: text("Where").unwrap_or_default(), blobs, next: text("NextMarker") })
}
