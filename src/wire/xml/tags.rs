//! Tags of a blob.

use std::collections::BTreeMap;

use super::node::Node;
use super::writer::Writer;
use crate::wire::codes::ErrorCode;
use crate::wire::fault::{Fault, Result};
use crate::wire::tags;

/// The body of Get and Set Blob Tags.
pub fn tags_body(tags: &BTreeMap<String, String>) -> String {
    Writer::document("Tags", &[], |writer| tag_set(writer, tags))
}

/// Reads the body of Get and Set Blob Tags, and checks the tags.
pub fn parse_tags_body(body: &[u8]) -> Result<BTreeMap<String, String>> {
    parse_tag_set(&Node::parse(body, "Tags")?)
}

pub(super) fn tag_set(writer: &mut Writer, tags: &BTreeMap<String, String>) {
    writer.element("TagSet", |set| {
        for (name, value) in tags {
            set.element("Tag", |tag| {
                tag.text("Key", name);
                tag.text("Value", value);
            });
        }
    });
}

/// The tags in a `Tags` element.
pub(super) fn parse_tag_set(tags: &Node) -> Result<BTreeMap<String, String>> {
    let set = tags.child("TagSet").ok_or_else(|| Fault::new(ErrorCode::InvalidXmlDocument))?;
    let text = |tag: &Node, name| tag.child(name).map(|node| node.text.clone()).unwrap_or_default();
    tags::collect(set.all("Tag").map(|tag| Ok((text(tag, "Key"), text(tag, "Value")))))
}
