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
pub(crate) const AZURITE: &[Difference] = &[];

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
