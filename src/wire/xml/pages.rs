//! Page ranges, also as a difference to an earlier snapshot.

use super::node::{Node, invalid};
use super::writer::Writer;
use crate::wire::fault::Result;

/// One stretch of a page blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRangeLine {
    /// First byte.
    pub start: u64,
    /// Last byte, included.
    pub end: u64,
    /// In a difference: cleared since.
    pub clear: bool,
}

/// The body of Get Page Ranges.
pub fn page_list(lines: impl IntoIterator<Item = PageRangeLine>, next: Option<&str>) -> String {
    Writer::document("PageList", &[], |list| {
        for line in lines {
            list.element(if line.clear { "ClearRange" } else { "PageRange" }, |range| {
                range.value("Start", line.start);
                range.value("End", line.end);
            });
        }
        list.maybe("NextMarker", next);
    })
}

/// Reads the body of Get Page Ranges: the ranges, and where to go on.
pub fn parse_page_list(body: &[u8]) -> Result<(Vec<PageRangeLine>, Option<String>)> {
    let list = Node::parse(body, "PageList")?;
    let lines = list
        .children
        .iter()
        .filter(|node| matches!(node.name.as_str(), "PageRange" | "ClearRange"))
        .map(|node| {
            let number = |name| node.parsed(name)?.ok_or_else(|| invalid(name, ""));
            let line = PageRangeLine {
                start: number("Start")?,
                end: number("End")?,
                clear: node.name == "ClearRange",
            };
            if line.end < line.start { Err(invalid("End", "")) } else { Ok(line) }
        })
        .collect::<Result<_>>()?;
    Ok((lines, list.get("NextMarker").map(str::to_owned)))
}
