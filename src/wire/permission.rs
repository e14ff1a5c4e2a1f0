//! Permissions of files: a security descriptor as text or bytes, and the key under which a share keeps it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::codes::ErrorCode;
use super::fault::{Fault, Result};

/// The longest permission that may stand in a header.
pub const INLINE_MAX: usize = 8 * 1024;
/// The longest permission that a share keeps.
pub const STORED_MAX: usize = 64 * 1024;
/// What files have whose permission nobody set: everything for everybody who may use the share.
pub const INHERITED: &str = "O:SYG:SYD:(A;;FA;;;SY)(A;;FA;;;BA)(A;;FA;;;AU)";

/// How a permission is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Security descriptor definition language: text.
    #[default]
    Sddl,
    /// The descriptor's bytes in base64.
    Binary,
}

impl Format {
    /// The format with this name; absent: text.
    pub fn parse(name: Option<&str>) -> Result<Self> {
        match name {
            None => Ok(Self::Sddl),
            Some(name) if name.eq_ignore_ascii_case("sddl") => Ok(Self::Sddl),
            Some(name) if name.eq_ignore_ascii_case("binary") => Ok(Self::Binary),
            Some(name) => Err(Fault::invalid_header(super::headers::FILE_PERMISSION_FORMAT, name)),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Sddl => "Sddl",
            Self::Binary => "Binary",
        }
    }
}

/// The body of Create Permission and Get Permission.
#[derive(Serialize, Deserialize)]
struct Body {
    permission: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    format: Option<String>,
}

/// Reads the body of Create Permission.
pub fn parse_body(bytes: &[u8]) -> Result<(String, Format)> {
    let body: Body = serde_json::from_slice(bytes).map_err(|_| {
        Fault::new(ErrorCode::InvalidInput).saying("The body must be JSON with a permission.")
    })?;
    let format = Format::parse(body.format.as_deref())?;
    check(&body.permission, format, STORED_MAX)?;
    Ok((body.permission, format))
}

/// The body of Get Permission. `format` is told only if it was asked for.
pub fn body(permission: &str, format: Option<Format>) -> String {
    let format = format.map(|format| format.name().to_owned());
    let body = Body { permission: permission.to_owned(), format };
    // Two texts can always be written.
    serde_json::to_string(&body).unwrap_or_default()
}

/// Refuses what cannot be a permission. What the descriptor means is not looked at: leasefs has no Windows users.
pub fn check(permission: &str, format: Format, max: usize) -> Result<()> {
    let plausible = match format {
        Format::Sddl => {
            let mut parts = permission.match_indices([':']).peekable();
            parts.peek().is_some() && permission.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        }
        Format::Binary => STANDARD.decode(permission).is_ok_and(|bytes| bytes.len() >= 20),
    };
    if plausible && permission.len() <= max {
        Ok(())
    } else {
        Err(Fault::new(ErrorCode::FileInvalidPermission))
    }
}

/// The key under which a share keeps a permission: equal permissions have equal keys.
pub fn key(permission: &str) -> String {
    let sum = Sha256::digest(permission.as_bytes());
    let number = |from: usize| {
        let bytes: [u8; 8] = sum[from..from + 8].try_into().unwrap_or_default();
        u64::from_be_bytes(bytes)
    };
    format!("{}*{}", number(0), number(8))
}

/// Whether a text can be such a key.
pub fn is_key(text: &str) -> bool {
    let number = |part: &str| part.parse::<u64>().is_ok_and(|value| value.to_string() == part);
    text.split_once('*').is_some_and(|(one, other)| number(one) && number(other))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bodies_are_read() {
        let (text, format) = parse_body(br#"{"permission": "O:SYG:SYD:"}"#).unwrap();
        assert_eq!((text.as_str(), format), ("O:SYG:SYD:", Format::Sddl));
        for bad in [&b"{}"[..], b"", b"[1]", br#"{"permission":"x"}"#, br#"{"permission":"O:","format":"?"}"#]
        {
            assert!(parse_body(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
        assert_eq!(body("O:SY", None), r#"{"permission":"O:SY"}"#);
        assert_eq!(parse_body(body("O:SY", Some(Format::Sddl)).as_bytes()).unwrap().0, "O:SY");
    }

    #[test]
    fn keys_are_two_numbers() {
        assert!(is_key(&key(INHERITED)));
        assert_eq!(key("a:"), key("a:"));
        assert_ne!(key("a:"), key("b:"));
        for bad in ["", "1", "*", "1*", "01*2", "1*2*3", "-1*2", "99999999999999999999*1"] {
            assert!(!is_key(bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse_body(&bytes);
        }

        #[test]
        fn any_text_is_checked(text in ".{0,40}") {
            let _ = (check(&text, Format::Sddl, INLINE_MAX), check(&text, Format::Binary, INLINE_MAX), is_key(&text));
        }
    }
}
