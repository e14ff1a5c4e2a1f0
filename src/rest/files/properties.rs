//! What answers tell about a file or directory.

use crate::fs::requests::Entry;
use crate::rest::leases::lease_headers;
use crate::rest::reply::Reply;
use crate::share::Moment;
use crate::store::HttpHeaders;
use crate::wire::checksum::md5_text;
use crate::wire::{date, headers, permission, smb};

/// What a stored file without a type is sent as.
const DEFAULT_TYPE: &str = "application/octet-stream";

/// The answer to a change: version, and what SMB knows.
pub(super) fn changed(reply: Reply, entry: &Entry) -> Reply {
    smb_headers(reply.version(entry.etag, entry.modified), entry)
        .fixed(headers::REQUEST_SERVER_ENCRYPTED, "false")
}

/// Attributes, times, numbers and permission.
pub(super) fn smb_headers(reply: Reply, entry: &Entry) -> Reply {
    reply
        .header(headers::FILE_ATTRIBUTES, &smb::attributes_text(entry.attributes.0))
        .header(headers::FILE_CREATION_TIME, &date::iso_ticks(entry.created))
        .header(headers::FILE_LAST_WRITE_TIME, &date::iso_ticks(entry.last_write))
        .header(headers::FILE_CHANGE_TIME, &date::iso_ticks(entry.changed))
        .number(headers::FILE_ID, entry.ino.0)
        .number(headers::FILE_PARENT_ID, entry.parent.0)
        .header(headers::FILE_PERMISSION_KEY, &permission_key(entry))
}

/// The key of an entry's permission. What nobody gave one has the one that all such files have.
pub(super) fn permission_key(entry: &Entry) -> String {
    entry.permission.clone().unwrap_or_else(|| permission::key(permission::INHERITED))
}

/// Everything a read says about a file besides length and checksum.
pub(super) fn file_headers(reply: Reply, entry: &Entry, now: Moment) -> Reply {
    let HttpHeaders { content_type, content_encoding, content_language, content_disposition, cache_control } =
        &entry.headers;
    let reply = reply
        .version(entry.etag, entry.modified)
        .header(headers::CONTENT_TYPE, content_type.as_deref().unwrap_or(DEFAULT_TYPE))
        .maybe(headers::CONTENT_ENCODING, content_encoding.as_deref())
        .maybe(headers::CONTENT_LANGUAGE, content_language.as_deref())
        .maybe(headers::CONTENT_DISPOSITION, content_disposition.as_deref())
        .maybe(headers::CACHE_CONTROL, cache_control.as_deref())
        .fixed(headers::ACCEPT_RANGES, "bytes")
        .fixed(headers::FILE_TYPE, "File")
        .fixed(headers::SERVER_ENCRYPTED, "false")
        .metadata(&entry.metadata);
    copy_headers(lease_headers(smb_headers(reply, entry), &entry.lease, now), entry)
}

fn copy_headers(reply: Reply, entry: &Entry) -> Reply {
    let Some(copy) = &entry.copy else { return reply };
    reply
        .header(headers::COPY_ID, &copy.id)
        .header(headers::COPY_SOURCE, &copy.source)
        .fixed(headers::COPY_STATUS, "success")
        .header(headers::COPY_PROGRESS, &format!("{0}/{0}", copy.bytes))
        .header(headers::COPY_COMPLETION_TIME, &date::http(copy.completed))
}

/// Everything a read says about a directory.
pub(super) fn directory_headers(reply: Reply, entry: &Entry) -> Reply {
    smb_headers(reply.version(entry.etag, entry.modified), entry)
        .fixed(headers::SERVER_ENCRYPTED, "false")
        .metadata(&entry.metadata)
}

/// The MD5 that is stored with a file, under the name that the answer gives it.
pub(super) fn stored_md5(reply: Reply, name: &'static str, entry: &Entry) -> Reply {
    reply.maybe(name, entry.content_md5.as_ref().map(md5_text).as_deref())
}
