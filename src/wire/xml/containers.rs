//! The list of containers.

use super::blobs::{LeaseFields, metadata, parse_metadata};
use super::node::{Node, invalid};
use super::writer::Writer;
use crate::share::Moment;
use crate::wire::date;
use crate::wire::etag::Etag;
use crate::wire::fault::Result;
use crate::wire::metadata::Metadata;

/// A container in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerLine {
    /// Its name.
    pub name: String,
    /// Last change.
    pub modified: Moment,
    /// Version tag.
    pub etag: Option<Etag>,
    /// The lease on it.
    pub lease: LeaseFields,
    /// `blob`, `container`, or absent: nobody.
    pub public_access: Option<String>,
    /// Metadata, if it was asked for.
    pub metadata: Option<Metadata>,
}

/// One page of containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerListing {
    /// The prefix asked for.
    pub prefix: Option<String>,
    /// Where this page starts.
    pub marker: Option<String>,
    /// The most lines asked for.
    pub max: Option<u32>,
    /// The lines.
    pub lines: Vec<ContainerLine>,
    /// Where to go on.
    pub next: Option<String>,
}

/// The body of List Containers; `endpoint` is the service's URL.
pub fn container_list(endpoint: &str, page: &ContainerListing) -> String {
    Writer::document("EnumerationResults", &[("ServiceEndpoint", endpoint)], |list| {
        list.maybe("Prefix", page.prefix.as_deref());
        list.maybe("Marker", page.marker.as_deref());
        if let Some(max) = page.max {
            list.value("MaxResults", max);
        }
        list.element("Containers", |containers| {
            for line in &page.lines {
                containers.element("Container", |container| container_line(container, line));
            }
        });
        list.text("NextMarker", page.next.as_deref().unwrap_or_default());
    })
}

fn container_line(writer: &mut Writer, line: &ContainerLine) {
    writer.text("Name", &line.name);
    writer.element("Properties", |properties| {
        properties.value("Last-Modified", date::http(line.modified));
        if let Some(etag) = line.etag {
            properties.text("Etag", &etag.to_string());
        }
        line.lease.write(properties);
        properties.maybe("PublicAccess", line.public_access.as_deref());
        properties.value("HasImmutabilityPolicy", false);
        properties.value("HasLegalHold", false);
    });
    if let Some(pairs) = &line.metadata {
        metadata(writer, pairs);
    }
}

/// Reads the body of List Containers.
pub fn parse_container_list(body: &[u8]) -> Result<ContainerListing> {
    let list = Node::parse(body, "EnumerationResults")?;
    let text = |name| list.get(name).map(str::to_owned);
    let lines = list.child("Containers").into_iter().flat_map(|containers| containers.all("Container"));
    Ok(ContainerListing {
        prefix: text("Prefix"),
        marker: text("Marker"),
        max: list.parsed("MaxResults")?,
        lines: lines.map(parse_line).collect::<Result<_>>()?,
        next: text("NextMarker"),
    })
}

fn parse_line(node: &Node) -> Result<ContainerLine> {
    let properties = node.child("Properties").ok_or_else(|| invalid("Properties", ""))?;
    Ok(ContainerLine {
        name: node.required("Name")?.to_owned(),
        modified: properties
            .read("Last-Modified", date::parse_http)?
            .ok_or_else(|| invalid("Last-Modified", ""))?,
        etag: properties.get("Etag").and_then(Etag::parse),
        lease: LeaseFields::read(properties),
        public_access: properties.get("PublicAccess").map(str::to_owned),
        metadata: node.child("Metadata").map(parse_metadata),
    })
}
