//! What a backend does differently from the contract, as data: every line is a promise that the case fails there.
//!
//! A case that is listed and passes is an error too: then the difference has disappeared, and its line must go.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A case that does not hold on a backend.
pub(crate) struct Difference {
    pub(crate) case: &'static str,
    /// Why, and why that is right or has to be lived with.
    pub(crate) reason: &'static str,
}

const fn differs(case: &'static str, reason: &'static str) -> Difference {
    Difference { case, reason }
}

/// `leasefs serve`, through the client of this project.
pub(crate) const SERVED: &[Difference] = &[
    differs(
        "blobs::put_replaces_everything",
        "an answer to Put Blob does not say when the blob was first made",
    ),
    differs(
        "copies::copies_remember_where_they_came_from",
        "the server makes the id of a copy, not the client",
    ),
    differs("copies::no_copy_is_ever_under_way", "the server makes the id of a copy, not the client"),
    differs(
        "settings::service_settings",
        "the server reads the settings and refuses documents that are none",
    ),
];

/// Azurite 3.37.0, through the client of this project.
///
/// Where both documents and SDK recordings of Azure say otherwise, the contract follows Azure.
pub(crate) const AZURITE: &[Difference] = &[
    differs("blobs::ranges", "a range that starts exactly at the end is answered 206 with nothing, not 416"),
    differs("blobs::tags_only_grow", "ETags are random numbers; the service promises no order either"),
    differs(
        "blobs::put_replaces_everything",
        "an answer to Put Blob does not say when the blob was first made",
    ),
    differs(
        "conditions::star_and_missing_blobs",
        "If-Match on a missing blob is answered 412, not 404 (Azurite #2751)",
    ),
    differs("conditions::lease_before_conditions", "conditions are judged before the lease (Azurite #2637)"),
    differs("blocks::bad_ids_and_lists", "a block list may name the same block twice"),
    differs("blocks::put_blob_drops_staged_blocks", "Put Blob leaves staged blocks behind"),
    differs(
        "copies::copy_conditions",
        "a condition on the source is refused as ConditionNotMet, not SourceConditionNotMet",
    ),
    differs(
        "copies::copies_remember_where_they_came_from",
        "the server makes the id of a copy, not the client",
    ),
    differs(
        "copies::copies_need_an_infinite_lease_if_asked",
        "a copy onto a blob under a finite lease is accepted",
    ),
    differs("copies::no_copy_is_ever_under_way", "the server makes the id of a copy, not the client"),
    differs(
        "listing::folded_at_other_text",
        "of a delimiter of several characters only the first one counts",
    ),
    differs(
        "listing::prefixes_and_markers",
        "a marker is the last name of the page before, not the first of the next",
    ),
    differs(
        "listing::snapshots_before_their_blob",
        "a page ends in the middle of a blob's snapshots and the rest is lost",
    ),
    differs("listing::uncommitted_names", "names with staged blocks only look like empty blobs in a list"),
    differs("appends::sealed_blobs_take_no_more", "Seal does not look at the append position"),
    differs(
        "appends::appended_copies_and_snapshots_go_their_own_way",
        "copies share their content with the source: what is appended to one is seen in the other",
    ),
    differs("appends::other_kinds_are_refused", "Put Blob replaces a blob of another kind"),
    differs("pages::bad_ranges_are_refused", "a page write behind the end of the blob has another code"),
    differs("pages::sequence_numbers", "a sequence number for a block blob is not refused"),
    differs("pages::pages_are_written_and_cleared", "page ranges that touch are not joined"),
    differs("pages::resizing", "a size for a block blob is not refused"),
    differs("pages::copies_of_page_blobs", "a copy of a page blob changes when its source is written"),
    differs(
        "pages::snapshots_and_differences",
        "differences to a snapshot show all pages and no cleared ones",
    ),
    differs(
        "settings::service_settings",
        "the server reads the settings and refuses documents that are none",
    ),
    differs("settings::stored_md5", "Put Blob compares x-ms-blob-content-md5 with the body"),
    differs("settings::tiers", "a tier for an append blob is not refused as a wrong kind"),
    differs("tags::tags_are_a_condition", "Set Blob Tags does not look at x-ms-if-tags"),
    differs("tags::found_by_tags", "a page of a search can be empty and say that there is no more"),
];

/// Runs a case and compares how it ends with what is expected of it.
pub(crate) fn judge(table: &[Difference], name: &str, case: impl FnOnce()) {
    let listed = table.iter().find(|difference| difference.case == name);
    match (listed, catch_unwind(AssertUnwindSafe(case))) {
        (None, Ok(())) => {}
        (None, Err(panic)) => resume_unwind(panic),
        (Some(difference), Err(_)) => println!("{name} differs as expected: {}", difference.reason),
        (Some(difference), Ok(())) => {
            panic!("{name} holds, though it should not ({}): remove it from the table", difference.reason)
        }
    }
}
