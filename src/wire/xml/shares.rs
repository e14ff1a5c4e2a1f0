//! The list of shares, and how much of a share is used. Only written: nobody here reads another server's shares.

use super::blobs::{LeaseFields, metadata};
use super::writer::Writer;
use crate::share::Moment;
use crate::wire::date;
use crate::wire::etag::Etag;
use crate::wire::metadata::Metadata;

/// A share, or a snapshot of one, in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareLine {
    /// The share's name.
    pub name: String,
    /// The snapshot, if it is one.
    pub snapshot: Option<Moment>,
    /// Last change of the share itself.
    pub modified: Moment,
    /// Version tag.
    pub etag: Etag,
    /// The most it may hold, in GiB.
    pub quota: u64,
    /// The name of its tier.
    pub tier: String,
    /// The lease on it.
    pub lease: LeaseFields,
    /// Metadata, if it was asked for.
    pub metadata: Option<Metadata>,
}

/// One page of shares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareListing {
    /// The prefix asked for.
    pub prefix: Option<String>,
    /// Where this page starts.
    pub marker: Option<String>,
    /// The most lines asked for.
    pub max: Option<u32>,
    /// The lines.
    pub lines: Vec<ShareLine>,
    /// Where to go on.
    pub next: Option<String>,
}

/// The body of List Shares; `endpoint` is the service's URL.
pub fn share_list(endpoint: &str, page: &ShareListing) -> String {
    Writer::document("EnumerationResults", &[("ServiceEndpoint", endpoint)], |list| {
        list.maybe("Prefix", page.prefix.as_deref());
        list.maybe("Marker", page.marker.as_deref());
        if let Some(max) = page.max {
            list.value("MaxResults", max);
        }
        list.element("Shares", |shares| {
            for line in &page.lines {
                shares.element("Share", |share| share_line(share, line));
            }
        });
        list.text("NextMarker", page.next.as_deref().unwrap_or_default());
    })
}

fn share_line(writer: &mut Writer, line: &ShareLine) {
    writer.text("Name", &line.name);
    if let Some(snapshot) = line.snapshot {
        writer.value("Snapshot", date::iso_ticks(snapshot));
    }
    writer.element("Properties", |properties| {
        properties.value("Last-Modified", date::http(line.modified));
        properties.text("Etag", &line.etag.to_string());
        properties.value("Quota", line.quota);
        properties.text("AccessTier", &line.tier);
        properties.text("EnabledProtocols", "SMB");
        line.lease.write(properties);
    });
    if let Some(pairs) = &line.metadata {
        metadata(writer, pairs);
    }
}

/// The body of Get Share Stats: bytes, or whole GiB in old versions.
pub fn share_stats(bytes: u64, in_gib: bool) -> String {
    Writer::document("ShareStats", &[], |stats| {
        if in_gib {
            stats.value("ShareUsage", bytes.div_ceil(1 << 30));
        } else {
            stats.value("ShareUsageBytes", bytes);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_listed_with_what_was_asked_for() {
        let line = ShareLine {
            name: "docs".to_owned(),
            snapshot: Some(Moment(0)),
            modified: Moment(0),
            etag: Etag(0x8DC),
            quota: 5,
            tier: "TransactionOptimized".to_owned(),
            lease: LeaseFields::default(),
            metadata: Some(Metadata::from([("a", "<b>")])),
        };
        let page = ShareListing { max: Some(1), lines: vec![line], ..ShareListing::default() };
        let text = share_list("http://h/acct/", &page);
        for wanted in [
            "<EnumerationResults ServiceEndpoint=\"http://h/acct/\"><MaxResults>1</MaxResults><Shares><Share>",
            "<Name>docs</Name><Snapshot>1970-01-01T00:00:00.0000000Z</Snapshot>",
            "<Quota>5</Quota><AccessTier>TransactionOptimized</AccessTier><EnabledProtocols>SMB</EnabledProtocols>",
            "<LeaseState>available</LeaseState>",
            "<Metadata><a>&lt;b&gt;</a></Metadata></Share></Shares><NextMarker />",
        ] {
            assert!(text.contains(wanted), "{wanted}\nin\n{text}");
        }
    }

    #[test]
    fn old_versions_count_in_gib() {
        assert!(
            share_stats(5, false).ends_with("<ShareStats><ShareUsageBytes>5</ShareUsageBytes></ShareStats>")
        );
        assert!(share_stats(5, true).contains("<ShareUsage>1</ShareUsage>"));
    }
}
