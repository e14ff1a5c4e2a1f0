//! An account's key.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// The account every emulator of the service knows.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
/// Its key. It is printed in the service's documentation and protects nothing.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A secret key. Prints as stars.
#[derive(Clone)]
pub struct AccountKey(Vec<u8>);

/// The text is not a key. Does not say which text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an account key is base64 of at least 16 bytes")]
pub struct InvalidKey;

impl AccountKey {
    /// Reads a key as the service shows it: base64.
    pub fn parse(text: &str) -> Result<Self, InvalidKey> {
        let bytes = STANDARD.decode(text.trim()).map_err(|_| InvalidKey)?;
        if bytes.len() < 16 { Err(InvalidKey) } else { Ok(Self(bytes)) }
    }

    /// The signature of a text, in base64.
    pub fn sign(&self, text: &[u8]) -> String {
        STANDARD.encode(self.mac(text))
    }

    /// Whether `signature` is this key's for `text`. Takes the same time whatever the signature is.
    pub fn verifies(&self, text: &[u8], signature: &str) -> bool {
        let expected = self.sign(text);
        expected.as_bytes().ct_eq(signature.as_bytes()).into()
    }

    /// Whether it is the key that everybody knows.
    pub fn is_development(&self) -> bool {
        Self::parse(DEVELOPMENT_KEY).is_ok_and(|known| known == *self)
    }

    fn mac(&self, text: &[u8]) -> Vec<u8> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(text);
        mac.finalize().into_bytes().to_vec()
    }
}

/// Takes the same time whatever the keys are.
impl PartialEq for AccountKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountKey(***)")
    }
}
