//! Signatures: who sent a request, and what a signed URL allows. Making them and checking them.
//!
//! * [`AccountKey`]: a secret that signs and compares in constant time, and never prints itself.
//! * [`shared_key`]: the `Authorization` header of the owner of an account.
//! * [`sas`]: signed URLs, of an account or of a container or blob, and what each of them [grants](sas::Grant).
//! * [`need`]: what an operation needs, so that a grant can be compared with it.
//!
//! The strings to sign are built in one place each, for both directions. No message of this module holds a key, a
//! signature, or a string to sign.

mod collation;
mod key;
pub mod need;
mod network;
mod permissions;
pub mod sas;
pub mod shared_key;
#[cfg(test)]
mod tests;

pub use key::{AccountKey, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, InvalidKey};
pub use need::{Level, Need, Public};
pub use permissions::{Permission, Permissions};

use super::codes::ErrorCode;
use super::fault::Fault;

/// Which service a signature is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Blobs.
    Blob,
    /// Files.
    File,
}

impl Service {
    /// Its name in the resource that a SAS signs.
    fn name(self) -> &'static str {
        match self {
            Service::Blob => "blob",
            Service::File => "file",
        }
    }

    /// Its letter in `ss`.
    fn letter(self) -> char {
        match self {
            Service::Blob => 'b',
            Service::File => 'f',
        }
    }
}

/// The refusal of a request whose sender cannot be believed; `why` tells without telling secrets.
fn not_authenticated(why: impl Into<String>) -> Fault {
    Fault::new(ErrorCode::AuthenticationFailed).with("AuthenticationErrorDetail", why)
}
