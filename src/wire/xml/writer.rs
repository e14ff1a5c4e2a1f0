//! Writes XML into a string: elements, text that is escaped, and names that XML cannot say.

use crate::wire::query;

/// A document being written.
pub(super) struct Writer(String);

impl Writer {
    /// A document with this root, whose attributes are `attributes`.
    pub(super) fn document(
        root: &str,
        attributes: &[(&str, &str)],
        content: impl FnOnce(&mut Writer),
    ) -> String {
        let mut writer = Self(String::with_capacity(1024));
        writer.0.push_str("<?xml version=\"1.0\" encoding=\"utf-8\"?>");
        writer.element_with(root, attributes, content);
        writer.0
    }

    /// An element with other elements in it.
    pub(super) fn element(&mut self, name: &str, content: impl FnOnce(&mut Writer)) {
        self.element_with(name, &[], content);
    }

    fn element_with(&mut self, name: &str, attributes: &[(&str, &str)], content: impl FnOnce(&mut Writer)) {
        self.0.push('<');
        self.0.push_str(name);
        for (key, value) in attributes {
            self.0.push(' ');
            self.0.push_str(key);
            self.0.push_str("=\"");
            self.escape(value);
            self.0.push('"');
        }
        self.0.push('>');
        content(self);
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
    }

    /// An element with text in it; characters that XML cannot say are left out.
    pub(super) fn text(&mut self, name: &str, text: &str) {
        if text.is_empty() {
            self.empty(name);
        } else {
            self.element(name, |writer| writer.escape(text));
        }
    }

    /// An element with something that prints itself and needs no escapes: numbers, dates, flags.
    pub(super) fn value(&mut self, name: &str, value: impl std::fmt::Display) {
        use std::fmt::Write;
        self.element(name, |writer| {
            // Writing to a string does not fail.
            let _ = write!(writer.0, "{value}");
        });
    }

    /// An element with text, if there is any.
    pub(super) fn maybe(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    /// A name of a blob or prefix. One that XML cannot say is percent-encoded and marked.
    pub(super) fn name(&mut self, element: &str, name: &str) {
        if name.chars().all(can_be_said) {
            self.element(element, |writer| writer.escape(name));
        } else {
            let encoded = query::encode_path(name);
            self.element_with(element, &[("Encoded", "true")], |writer| writer.escape(&encoded));
        }
    }

    fn empty(&mut self, name: &str) {
        self.0.push('<');
        self.0.push_str(name);
        self.0.push_str(" />");
    }

    fn escape(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '&' => self.0.push_str("&amp;"),
                '"' => self.0.push_str("&quot;"),
                // A reader turns a bare one into a line feed.
                '\r' => self.0.push_str("&#xD;"),
                c if can_be_said(c) => self.0.push(c),
                _ => {}
            }
        }
    }
}

/// Whether XML 1.0 has this character.
fn can_be_said(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}
