//! Reads XML from strangers into a small tree.
//!
//! No document types, no entities but XML's own five and characters by number, at most [`MAX_DEPTH`] levels. The
//! caller bounds the size; memory is a small multiple of it. Nothing here panics, whatever the bytes are.

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesStart, Event};

use crate::wire::codes::ErrorCode;
use crate::wire::fault::{Fault, Result};
use crate::wire::query;

/// Deepest nesting of elements.
pub(super) const MAX_DEPTH: usize = 16;

/// An element.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) name: String,
    /// Its own text, all pieces together.
    pub(super) text: String,
    pub(super) children: Vec<Node>,
    /// It has `Encoded="true"`.
    encoded: bool,
}

impl Node {
    /// Reads a document whose root is called `root`.
    pub(super) fn parse(bytes: &[u8], root: &str) -> Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|_| malformed())?;
        let tree = read(text.trim_start_matches('\u{feff}')).ok_or_else(malformed)?;
        if tree.name == root { Ok(tree) } else { Err(malformed()) }
    }

    /// The first child of this name.
    pub(super) fn child(&self, name: &str) -> Option<&Node> {
        self.children.iter().find(|child| child.name == name)
    }

    /// All children of this name.
    pub(super) fn all<'n>(&'n self, name: &'n str) -> impl Iterator<Item = &'n Node> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// Text of the child of this name, without blanks around it, unless that is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.trim()).filter(|text| !text.is_empty())
    }

    /// The same, or refused.
    pub(super) fn required(&self, name: &'static str) -> Result<&str> {
        self.get(name).ok_or_else(|| Fault::new(ErrorCode::MissingRequiredXmlNode).with("XmlNodeName", name))
    }

    /// The child as something that can be read from text.
    pub(super) fn parsed<T: std::str::FromStr>(&self, name: &'static str) -> Result<Option<T>> {
        self.get(name).map(|text| text.parse().map_err(|_| invalid(name, text))).transpose()
    }

    /// The child as something that `read` makes of the text.
    pub(super) fn read<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        self.get(name).map(|text| read(text).ok_or_else(|| invalid(name, text))).transpose()
    }

    /// The name of a blob or prefix in the child: blanks count, and it may be percent-encoded.
    pub(super) fn blob_name(&self, name: &'static str) -> Result<String> {
        let child = self.child(name).ok_or_else(|| invalid(name, ""))?;
        if !child.encoded {
            return Ok(child.text.clone());
        }
        query::decode(&child.text).map_err(|_| invalid(name, &child.text))
    }
}

/// A node whose text makes no sense.
pub(super) fn invalid(name: &'static str, text: &str) -> Fault {
    Fault::new(ErrorCode::InvalidXmlNodeValue).with("XmlNodeName", name).with("XmlNodeValue", text)
}

fn malformed() -> Fault {
    Fault::new(ErrorCode::InvalidXmlDocument)
}

fn read(text: &str) -> Option<Node> {
    let mut reader = Reader::from_str(text);
    let mut open: Vec<Node> = Vec::new();
    let mut root = None;
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) => {
                if open.len() == MAX_DEPTH || root.is_some() {
                    return None;
                }
                open.push(started(&start)?);
            }
            Event::Empty(start) => {
                if root.is_some() {
                    return None;
                }
                close(started(&start)?, &mut open, &mut root);
            }
            // The reader has checked that the names fit.
            Event::End(_) => close(open.pop()?, &mut open, &mut root),
            Event::Text(piece) => add(&mut open, &piece.xml10_content())?,
            Event::CData(piece) => add(&mut open, &piece.xml10_content())?,
            Event::GeneralRef(reference) => match reference.resolve_char_ref().ok()? {
                Some(c) => add(&mut open, c.encode_utf8(&mut [0; 4]))?,
                None => add(&mut open, resolve_xml_entity(&reference)?)?,
            },
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
            Event::DocType(_) => return None,
            Event::Eof => return if open.is_empty() { root } else { None },
        }
    }
}

fn started(start: &BytesStart<'_>) -> Option<Node> {
    let mut encoded = false;
    for attribute in start.attributes() {
        let attribute = attribute.ok()?;
        encoded |= attribute.key.as_ref() == "Encoded" && attribute.value.eq_ignore_ascii_case("true");
    }
    Some(Node { name: start.local_name().as_ref().to_owned(), encoded, ..Node::default() })
}

fn close(node: Node, open: &mut [Node], root: &mut Option<Node>) {
    match open.last_mut() {
        Some(parent) => parent.children.push(node),
        None => *root = Some(node),
    }
}

/// Text belongs to the element around it; outside the root there are only blanks.
fn add(open: &mut [Node], text: &str) -> Option<()> {
    match open.last_mut() {
        Some(node) => node.text.push_str(text),
        None if text.trim().is_empty() => {}
        None => return None,
    }
    Some(())
}
