//! The list of blobs: flat or folded at a delimiter, with snapshots, metadata, tags and copies as asked for.

use std::collections::BTreeMap;

use super::node::{Node, invalid};
use super::tags::{parse_tag_set, tag_set};
use super::writer::Writer;
use crate::share::Moment;
use crate::share::lease::LeaseState;
use crate::wire::etag::Etag;
use crate::wire::fault::Result;
use crate::wire::metadata::Metadata;
use crate::wire::{checksum, date};

/// One line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlobLine {
    /// A blob, or a snapshot of one.
    Blob {
        /// Its full name.
        name: String,
        /// Which snapshot, if it is one.
        snapshot: Option<Moment>,
        /// Its properties.
        fields: Box<BlobFields>,
        /// Metadata, if asked for.
        metadata: Option<Metadata>,
        /// Tags, if asked for and if there are any.
        tags: Option<BTreeMap<String, String>>,
    },
    /// Names that were folded at the delimiter.
    Prefix {
        /// The prefix, delimiter included.
        name: String,
    },
}

/// Properties of a blob in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobFields {
    /// First made.
    pub created: Option<Moment>,
    /// This version made.
    pub modified: Option<Moment>,
    /// Version tag; a blob with staged blocks only has none.
    pub etag: Option<Etag>,
    /// Bytes.
    pub content_length: u64,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Content-Encoding`.
    pub content_encoding: Option<String>,
    /// `Content-Language`.
    pub content_language: Option<String>,
    /// `Content-MD5`.
    pub content_md5: Option<[u8; 16]>,
    /// `Cache-Control`.
    pub cache_control: Option<String>,
    /// `Content-Disposition`.
    pub content_disposition: Option<String>,
    /// Page blobs: the sequence number.
    pub sequence_number: Option<u64>,
    /// `BlockBlob`, `AppendBlob` or `PageBlob`.
    pub blob_type: String,
    /// `Hot`, `Cool`, …
    pub access_tier: Option<String>,
    /// Nobody set the tier.
    pub access_tier_inferred: bool,
    /// When the tier was set.
    pub access_tier_changed: Option<Moment>,
    /// The lease on it; a snapshot has none.
    pub lease: Option<LeaseFields>,
    /// The copy that made it, if asked for.
    pub copy: Option<CopyFields>,
    /// Append blobs: sealed.
    pub sealed: Option<bool>,
    /// How many tags it has.
    pub tag_count: Option<u32>,
}

/// A lease as lists show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseFields {
    /// Its state.
    pub state: LeaseState,
    /// While leased: for ever?
    pub infinite: Option<bool>,
}

impl Default for LeaseFields {
    fn default() -> Self {
        Self { state: LeaseState::Available, infinite: None }
    }
}

/// A copy as lists show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyFields {
    /// Its id.
    pub id: String,
    /// Where from.
    pub source: String,
    /// `success` or another word.
    pub status: String,
    /// `done/all`, in bytes.
    pub progress: String,
    /// When it was done.
    pub completed: Option<Moment>,
}

/// One page of blobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobListing {
    /// The prefix asked for.
    pub prefix: Option<String>,
    /// Where this page starts.
    pub marker: Option<String>,
    /// The most lines asked for.
    pub max: Option<u32>,
    /// The delimiter asked for.
    pub delimiter: Option<String>,
    /// The lines.
    pub lines: Vec<BlobLine>,
    /// Where to go on.
    pub next: Option<String>,
}

/// The words for a lease on the wire.
impl LeaseFields {
    /// `locked` or `unlocked`.
    pub fn status(self) -> &'static str {
        match self.state {
            LeaseState::Leased | LeaseState::Breaking => "locked",
            LeaseState::Available | LeaseState::Expired | LeaseState::Broken => "unlocked",
        }
    }

    /// `infinite` or `fixed`, while leased.
    pub fn duration(self) -> Option<&'static str> {
        self.infinite.map(|infinite| if infinite { "infinite" } else { "fixed" })
    }

    /// The state with this name.
    pub fn parse_state(text: &str) -> Option<LeaseState> {
        use LeaseState::{Available, Breaking, Broken, Expired, Leased};
        [Available, Leased, Expired, Breaking, Broken].into_iter().find(|state| state.to_string() == text)
    }

    pub(super) fn write(self, writer: &mut Writer) {
        writer.text("LeaseStatus", self.status());
        writer.value("LeaseState", self.state);
        writer.maybe("LeaseDuration", self.duration());
    }

    /// What an answer says; nothing said is available.
    pub(super) fn read(node: &Node) -> Self {
        let state = node.get("LeaseState").and_then(Self::parse_state).unwrap_or(LeaseState::Available);
        Self { state, infinite: node.get("LeaseDuration").map(|text| text == "infinite") }
    }
}

/// The body of List Blobs; `endpoint` is the service's URL.
pub fn blob_list(endpoint: &str, container: &str, page: &BlobListing) -> String {
    let attributes = [("ServiceEndpoint", endpoint), ("ContainerName", container)];
    Writer::document("EnumerationResults", &attributes, |list| {
        if let Some(prefix) = &page.prefix {
            list.name("Prefix", prefix);
        }
        list.maybe("Marker", page.marker.as_deref());
        if let Some(max) = page.max {
            list.value("MaxResults", max);
        }
        if let Some(delimiter) = &page.delimiter {
            list.name("Delimiter", delimiter);
        }
        list.element("Blobs", |blobs| {
            for line in &page.lines {
                blob_line(blobs, line);
            }
        });
        list.text("NextMarker", page.next.as_deref().unwrap_or_default());
    })
}

fn blob_line(writer: &mut Writer, line: &BlobLine) {
    match line {
        BlobLine::Prefix { name } => writer.element("BlobPrefix", |prefix| prefix.name("Name", name)),
        BlobLine::Blob { name, snapshot, fields, metadata: pairs, tags } => writer.element("Blob", |blob| {
            blob.name("Name", name);
            if let Some(snapshot) = snapshot {
                blob.value("Snapshot", date::iso_ticks(*snapshot));
            }
            blob.element("Properties", |properties| blob_fields(properties, fields));
            if let Some(pairs) = pairs {
                metadata(blob, pairs);
            }
            if let Some(tags) = tags.as_ref().filter(|tags| !tags.is_empty()) {
                blob.element("Tags", |writer| tag_set(writer, tags));
            }
        }),
    }
}

/// In the service's order.
fn blob_fields(writer: &mut Writer, fields: &BlobFields) {
    let time = |writer: &mut Writer, name, moment: Option<Moment>| {
        if let Some(moment) = moment {
            writer.value(name, date::http(moment));
        }
    };
    time(writer, "Creation-Time", fields.created);
    time(writer, "Last-Modified", fields.modified);
    if let Some(etag) = fields.etag {
        writer.value("Etag", etag.bare());
    }
    writer.value("Content-Length", fields.content_length);
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    writer.text("Content-Type", &text(&fields.content_type));
    writer.text("Content-Encoding", &text(&fields.content_encoding));
    writer.text("Content-Language", &text(&fields.content_language));
    writer.text("Content-CRC64", "");
    writer.text("Content-MD5", &fields.content_md5.as_ref().map(checksum::md5_text).unwrap_or_default());
    writer.text("Cache-Control", &text(&fields.cache_control));
    writer.text("Content-Disposition", &text(&fields.content_disposition));
    if let Some(number) = fields.sequence_number {
        writer.value("x-ms-blob-sequence-number", number);
    }
    writer.text("BlobType", &fields.blob_type);
    writer.maybe("AccessTier", fields.access_tier.as_deref());
    if fields.access_tier_inferred {
        writer.value("AccessTierInferred", true);
    }
    time(writer, "AccessTierChangeTime", fields.access_tier_changed);
    if let Some(lease) = fields.lease {
        lease.write(writer);
    }
    if let Some(copy) = &fields.copy {
        writer.text("CopyId", &copy.id);
        writer.text("CopySource", &copy.source);
        writer.text("CopyStatus", &copy.status);
        writer.text("CopyProgress", &copy.progress);
        time(writer, "CopyCompletionTime", copy.completed);
    }
    writer.value("ServerEncrypted", false);
    if let Some(sealed) = fields.sealed {
        writer.value("Sealed", sealed);
    }
    if let Some(count) = fields.tag_count {
        writer.value("TagCount", count);
    }
}

/// The metadata of a line. Names are the elements' names.
pub(super) fn metadata(writer: &mut Writer, pairs: &Metadata) {
    writer.element("Metadata", |metadata| {
        for (name, value) in pairs.iter() {
            metadata.text(name, value);
        }
    });
}

pub(super) fn parse_metadata(node: &Node) -> Metadata {
    node.children.iter().map(|pair| (&pair.name, &pair.text)).collect()
}

/// Reads the body of List Blobs.
pub fn parse_blob_list(body: &[u8]) -> Result<BlobListing> {
    let list = Node::parse(body, "EnumerationResults")?;
    let name = |name| list.child(name).map(|_| list.blob_name(name)).transpose();
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    let lines = list.child("Blobs").into_iter().flat_map(|blobs| &blobs.children);
    Ok(BlobListing {
        prefix: filled(name("Prefix")?),
        marker: list.get("Marker").map(str::to_owned),
        max: list.parsed("MaxResults")?,
        delimiter: filled(name("Delimiter")?),
        lines: lines.filter_map(parse_line).collect::<Result<_>>()?,
        next: list.get("NextMarker").map(str::to_owned),
    })
}

fn parse_line(node: &Node) -> Option<Result<BlobLine>> {
    match node.name.as_str() {
        "BlobPrefix" => Some(node.blob_name("Name").map(|name| BlobLine::Prefix { name })),
        "Blob" => Some(parse_blob(node)),
        _ => None,
    }
}

fn parse_blob(node: &Node) -> Result<BlobLine> {
    let properties = node.child("Properties").ok_or_else(|| invalid("Properties", ""))?;
    Ok(BlobLine::Blob {
        name: node.blob_name("Name")?,
        snapshot: node.read("Snapshot", date::parse_iso)?,
        fields: Box::new(parse_fields(properties)?),
        metadata: node.child("Metadata").map(parse_metadata),
        tags: node.child("Tags").map(parse_tag_set).transpose()?,
    })
}

fn parse_fields(node: &Node) -> Result<BlobFields> {
    let text = |name| node.get(name).map(str::to_owned);
    let copy = match text("CopyId") {
        None => None,
        Some(id) => Some(CopyFields {
            id,
            source: text("CopySource").unwrap_or_default(),
            status: text("CopyStatus").unwrap_or_default(),
            progress: text("CopyProgress").unwrap_or_default(),
            completed: node.read("CopyCompletionTime", date::parse_http)?,
        }),
    };
    Ok(BlobFields {
        created: node.read("Creation-Time", date::parse_http)?,
        modified: node.read("Last-Modified", date::parse_http)?,
        etag: node.get("Etag").and_then(Etag::parse),
        content_length: node.parsed("Content-Length")?.unwrap_or_default(),
        content_type: text("Content-Type"),
        content_encoding: text("Content-Encoding"),
        content_language: text("Content-Language"),
        content_md5: node.read("Content-MD5", checksum::parse_md5)?,
        cache_control: text("Cache-Control"),
        content_disposition: text("Content-Disposition"),
        sequence_number: node.parsed("x-ms-blob-sequence-number")?,
        blob_type: text("BlobType").unwrap_or_default(),
        access_tier: text("AccessTier"),
        access_tier_inferred: node.parsed("AccessTierInferred")?.unwrap_or_default(),
        access_tier_changed: node.read("AccessTierChangeTime", date::parse_http)?,
        lease: node.child("LeaseState").map(|_| LeaseFields::read(node)),
        copy,
        sealed: node.parsed("Sealed")?,
        tag_count: node.parsed("TagCount")?,
    })
}
