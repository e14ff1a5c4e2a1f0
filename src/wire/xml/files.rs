//! What a directory holds, who has it open, and which ranges of a file have data. Only written.

use super::writer::Writer;
use crate::share::Moment;
use crate::wire::etag::Etag;
use crate::wire::{date, smb};

/// A file or directory in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryLine {
    /// Its name in the directory.
    pub name: String,
    /// Its number.
    pub id: u64,
    /// The length of a file; directories have none.
    pub length: Option<u64>,
    /// More about it, as far as it was asked for.
    pub details: EntryDetails,
}

/// What a list says about an entry when it is asked to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryDetails {
    /// The times.
    pub times: Option<EntryTimes>,
    /// Version tag.
    pub etag: Option<Etag>,
    /// Windows' attributes.
    pub attributes: Option<u32>,
    /// The key of its permission.
    pub permission: Option<String>,
}

/// The times of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryTimes {
    /// When it was made.
    pub created: Moment,
    /// When it was last read.
    pub accessed: Moment,
    /// When its content was last changed.
    pub written: Moment,
    /// When anything about it was last changed.
    pub changed: Moment,
    /// The same, as HTTP tells it.
    pub modified: Moment,
}

/// One page of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryListing {
    /// The share.
    pub share: String,
    /// The snapshot asked for, as it was asked for.
    pub snapshot: Option<String>,
    /// The directory's path; empty for the root.
    pub path: String,
    /// The directory's number, for versions that show it.
    pub id: Option<u64>,
    /// The prefix asked for.
    pub prefix: Option<String>,
    /// Where this page starts.
    pub marker: Option<String>,
    /// The most lines asked for.
    pub max: Option<u32>,
    /// The lines.
    pub lines: Vec<EntryLine>,
    /// Where to go on.
    pub next: Option<String>,
}

/// The body of List Directories and Files; `endpoint` is the service's URL.
pub fn directory_list(endpoint: &str, page: &DirectoryListing) -> String {
    let attributes = [
        ("ServiceEndpoint", endpoint),
        ("ShareName", &page.share),
        ("ShareSnapshot", page.snapshot.as_deref().unwrap_or_default()),
        ("DirectoryPath", &page.path),
    ];
    // Only what is there is said; some clients take an empty snapshot for one.
    let attributes: Vec<_> = attributes
        .into_iter()
        .filter(|(name, value)| *name != "ShareSnapshot" || !value.is_empty())
        .collect();
    Writer::document("EnumerationResults", &attributes, |list| {
        if let Some(prefix) = &page.prefix {
            list.name("Prefix", prefix);
        }
        list.maybe("Marker", page.marker.as_deref());
        if let Some(max) = page.max {
            list.value("MaxResults", max);
        }
        if let Some(id) = page.id {
            list.value("DirectoryId", id);
        }
        list.element("Entries", |entries| {
            for line in &page.lines {
                let kind = if line.length.is_some() { "File" } else { "Directory" };
                entries.element(kind, |entry| entry_line(entry, line));
            }
        });
        list.text("NextMarker", page.next.as_deref().unwrap_or_default());
    })
}

fn entry_line(writer: &mut Writer, line: &EntryLine) {
    writer.value("FileId", line.id);
    writer.name("Name", &line.name);
    writer.element("Properties", |properties| {
        if let Some(length) = line.length {
            properties.value("Content-Length", length);
        }
        if let Some(times) = line.details.times {
            properties.value("CreationTime", date::iso_ticks(times.created));
            properties.value("LastAccessTime", date::iso_ticks(times.accessed));
            properties.value("LastWriteTime", date::iso_ticks(times.written));
            properties.value("ChangeTime", date::iso_ticks(times.changed));
            properties.value("Last-Modified", date::http(times.modified));
        }
        if let Some(etag) = line.details.etag {
            properties.text("Etag", &etag.to_string());
        }
    });
    if let Some(bits) = line.details.attributes {
        writer.text("Attributes", &smb::attributes_text(bits));
    }
    writer.maybe("PermissionKey", line.details.permission.as_deref());
}

/// Somebody who has a file or directory open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandleLine {
    /// Its number.
    pub id: u64,
    /// What is open.
    pub path: String,
    /// The number of what is open.
    pub file: u64,
    /// The number of the directory it is in.
    pub parent: u64,
    /// The number of the client's connection.
    pub session: u64,
    /// `Read`, `Write`, `Delete`.
    pub access: Vec<&'static str>,
    /// Where the client is.
    pub client: String,
    /// The client's name.
    pub client_name: String,
    /// Since when.
    pub opened: Moment,
}

/// The body of List Handles.
pub fn handle_list(lines: &[HandleLine], next: Option<&str>) -> String {
    Writer::document("EnumerationResults", &[], |list| {
        list.element("Entries", |entries| {
            for line in lines {
                entries.element("Handle", |handle| handle_line(handle, line));
            }
        });
        list.text("NextMarker", next.unwrap_or_default());
    })
}

fn handle_line(writer: &mut Writer, line: &HandleLine) {
    writer.value("HandleId", line.id);
    writer.name("Path", &line.path);
    writer.value("FileId", line.file);
    writer.value("ParentId", line.parent);
    writer.value("SessionId", line.session);
    writer.text("ClientIp", &line.client);
    writer.text("ClientName", &line.client_name);
    writer.value("OpenTime", date::http(line.opened));
    writer.element("AccessRightList", |rights| {
        for right in &line.access {
            rights.text("AccessRight", right);
        }
    });
}

/// A stretch of a file, with both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLine {
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub end: u64,
    /// In a difference: no data any more.
    pub clear: bool,
}

/// The body of List Ranges.
pub fn range_list(lines: impl IntoIterator<Item = RangeLine>) -> String {
    Writer::document("Ranges", &[], |list| {
        for line in lines {
            list.element(if line.clear { "ClearRange" } else { "Range" }, |range| {
                range.value("Start", line.start);
                range.value("End", line.end);
            });
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::xml::node::Node;

    fn file(name: &str) -> EntryLine {
        EntryLine { name: name.to_owned(), id: 7, length: Some(3), details: EntryDetails::default() }
    }

    #[test]
    fn directories_have_no_length_and_files_do() {
        let folder = EntryLine { length: None, ..file("d") };
        let lines = vec![folder, file("f")];
        let page = DirectoryListing { share: "s".into(), path: "a/b".into(), lines, ..Default::default() };
        let text = directory_list("http://h/", &page);
        let wanted = "ShareName=\"s\" DirectoryPath=\"a/b\"><Entries><Directory><FileId>7</FileId><Name>d</Name>\
                      <Properties></Properties></Directory><File><FileId>7</FileId><Name>f</Name><Properties>\
                      <Content-Length>3</Content-Length></Properties></File></Entries><NextMarker />";
        assert!(text.contains(wanted), "{text}");
    }

    #[test]
    fn details_are_told_when_asked_for() {
        let times = EntryTimes {
            created: Moment(100),
            accessed: Moment(0),
            written: Moment(0),
            changed: Moment(0),
            modified: Moment(0),
        };
        let details = EntryDetails {
            times: Some(times),
            etag: Some(Etag(1)),
            attributes: Some(smb::READ_ONLY),
            permission: Some("1*2".to_owned()),
        };
        let page = DirectoryListing { lines: vec![EntryLine { details, ..file("f") }], ..Default::default() };
        let text = directory_list("http://h/", &page);
        assert!(text.contains("<CreationTime>1970-01-01T00:00:00.0000001Z</CreationTime>"), "{text}");
        assert!(
            text.contains("<Attributes>ReadOnly</Attributes><PermissionKey>1*2</PermissionKey>"),
            "{text}"
        );
    }

    #[test]
    fn ranges_and_handles() {
        let lines =
            [RangeLine { start: 0, end: 511, clear: false }, RangeLine { start: 512, end: 600, clear: true }];
        let text = range_list(lines);
        assert!(text.contains("<Range><Start>0</Start><End>511</End></Range><ClearRange><Start>512</Start>"));
        let handle = HandleLine {
            id: 1,
            path: "d/f".into(),
            file: 2,
            parent: 3,
            session: 4,
            access: vec!["Read", "Write"],
            client: "127.0.0.1:0".into(),
            client_name: "host".into(),
            opened: Moment(0),
        };
        let text = handle_list(&[handle], Some("5"));
        assert!(text.contains("<HandleId>1</HandleId><Path>d/f</Path><FileId>2</FileId>"), "{text}");
        assert!(text.contains("<AccessRight>Read</AccessRight><AccessRight>Write</AccessRight>"), "{text}");
        assert!(text.ends_with("<NextMarker>5</NextMarker></EnumerationResults>"), "{text}");
    }

    proptest! {
        #[test]
        fn any_name_comes_back(name in "[^\u{0}]{1,20}") {
            let page = DirectoryListing { lines: vec![file(&name)], ..Default::default() };
            let text = directory_list("http://h/", &page);
            let tree = Node::parse(text.as_bytes(), "EnumerationResults").unwrap();
            let entry = &tree.child("Entries").unwrap().children[0];
            prop_assert_eq!(entry.blob_name("Name").unwrap(), name);
        }
    }
}
