//! Block lists: the list to commit, and the report of what is there.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::node::{Node, invalid};
use super::writer::Writer;
use crate::wire::codes::ErrorCode;
use crate::wire::fault::{Fault, Result};

/// The most blocks a blob has.
const MAX_BLOCKS: usize = 50_000;
/// The longest block id before its encoding.
const MAX_ID: usize = 64;

/// Blocks with their sizes.
type Blocks = Vec<(Vec<u8>, u64)>;

/// Where a block of a list is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockWhere {
    /// Among the committed ones.
    Committed,
    /// Among the staged ones.
    Uncommitted,
    /// Staged first, then committed.
    Latest,
}

impl BlockWhere {
    fn element(self) -> &'static str {
        match self {
            Self::Committed => "Committed",
            Self::Uncommitted => "Uncommitted",
            Self::Latest => "Latest",
        }
    }
}

/// The body of Put Block List.
pub fn block_list<'b>(list: impl IntoIterator<Item = (BlockWhere, &'b [u8])>) -> String {
    Writer::document("BlockList", &[], |writer| {
        for (place, id) in list {
            writer.value(place.element(), STANDARD.encode(id));
        }
    })
}

/// Reads the body of Put Block List, in its order.
pub fn parse_block_list(body: &[u8]) -> Result<Vec<(BlockWhere, Vec<u8>)>> {
    let list = Node::parse(body, "BlockList")?;
    if list.children.len() > MAX_BLOCKS {
        return Err(Fault::new(ErrorCode::BlockListTooLong));
    }
    list.children
        .iter()
        .map(|node| {
            let place = match node.name.as_str() {
                "Committed" => BlockWhere::Committed,
                "Uncommitted" => BlockWhere::Uncommitted,
                "Latest" => BlockWhere::Latest,
                other => return Err(Fault::new(ErrorCode::UnsupportedXmlNode).with("XmlNodeName", other)),
            };
            Ok((place, parse_id(&node.text)?))
        })
        .collect()
}

/// The body of Get Block List; an absent list was not asked for.
pub fn block_list_report(
    committed: Option<&[(Vec<u8>, u64)]>,
    uncommitted: Option<&[(Vec<u8>, u64)]>,
) -> String {
    let blocks = |writer: &mut Writer, name, list: Option<&[(Vec<u8>, u64)]>| {
        let Some(list) = list else { return };
        writer.element(name, |writer| {
            for (id, size) in list {
                writer.element("Block", |block| {
                    block.value("Name", STANDARD.encode(id));
                    block.value("Size", size);
                });
            }
        });
    };
    Writer::document("BlockList", &[], |writer| {
        blocks(writer, "CommittedBlocks", committed);
        blocks(writer, "UncommittedBlocks", uncommitted);
    })
}

/// Reads the body of Get Block List: committed and staged blocks with their sizes.
pub fn parse_block_list_report(body: &[u8]) -> Result<(Blocks, Blocks)> {
    let list = Node::parse(body, "BlockList")?;
    let blocks = |name| -> Result<Blocks> {
        let Some(list) = list.child(name) else { return Ok(Vec::new()) };
        list.all("Block")
            .map(|block| {
                let size = block.parsed("Size")?.ok_or_else(|| invalid("Size", ""))?;
                Ok((parse_id(block.required("Name")?)?, size))
            })
            .collect()
    };
    Ok((blocks("CommittedBlocks")?, blocks("UncommittedBlocks")?))
}

/// A block id is base64 of 1 to 64 bytes.
fn parse_id(text: &str) -> Result<Vec<u8>> {
    let id = STANDARD.decode(text.trim()).map_err(|_| Fault::new(ErrorCode::InvalidBlockId))?;
    if (1..=MAX_ID).contains(&id.len()) { Ok(id) } else { Err(Fault::new(ErrorCode::InvalidBlockId)) }
}
