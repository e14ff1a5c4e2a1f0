//! Checksums of bodies: `Content-MD5` and `x-ms-content-crc64` (CRC-64/NVME), over a stream.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc64fast_nvme::Digest as Crc64;
use http::HeaderMap;
use md5::{Digest, Md5};

use super::codes::ErrorCode;
use super::fault::{Fault, Result};
use super::headers;

/// What the sender says about the body it sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// `Content-MD5`.
    pub md5: Option<[u8; 16]>,
    /// `x-ms-content-crc64`.
    pub crc64: Option<u64>,
}

impl Declared {
    /// Reads the two headers; only one may be there.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self> {
        Self::named(headers, headers::CONTENT_MD5, headers::CONTENT_CRC64)
    }

    /// Reads the two headers about the source of a copy; only one may be there.
    pub fn of_source(headers: &HeaderMap) -> Result<Self> {
        Self::named(headers, headers::SOURCE_CONTENT_MD5, headers::SOURCE_CONTENT_CRC64)
    }

    fn named(headers: &HeaderMap, md5: &str, crc64: &str) -> Result<Self> {
        let declared = Self { md5: md5_header(headers, md5)?, crc64: crc64_header(headers, crc64)? };
        if declared.md5.is_some() && declared.crc64.is_some() {
            return Err(Fault::new(ErrorCode::BothCrc64AndMd5HeaderPresent));
        }
        Ok(declared)
    }
}

/// An MD5 in the header `name`, if there is one.
pub fn md5_header(headers: &HeaderMap, name: &str) -> Result<Option<[u8; 16]>> {
    headers::text(headers, name)?
        .map(|text| parse_md5(text).ok_or_else(|| Fault::new(ErrorCode::InvalidMd5)))
        .transpose()
}

fn crc64_header(headers: &HeaderMap, name: &str) -> Result<Option<u64>> {
    headers::text(headers, name)?
        .map(|text| parse_crc64(text).ok_or_else(|| Fault::invalid_header(name, text)))
        .transpose()
}

/// An MD5 as headers have it: base64 of its 16 bytes.
pub fn parse_md5(text: &str) -> Option<[u8; 16]> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

/// The text of an MD5.
pub fn md5_text(md5: &[u8; 16]) -> String {
    STANDARD.encode(md5)
}

/// A CRC64 as headers have it: base64 of its 8 bytes, lowest first.
pub fn parse_crc64(text: &str) -> Option<u64> {
    STANDARD.decode(text).ok()?.try_into().ok().map(u64::from_le_bytes)
}

/// The text of a CRC64.
pub fn crc64_text(crc64: u64) -> String {
    STANDARD.encode(crc64.to_le_bytes())
}

/// Which sums to compute. MD5 costs far more than CRC64, so it is computed only where it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// CRC64 only.
    Crc64,
    /// Both.
    Md5AndCrc64,
}

/// Sums a body piece by piece.
#[derive(Clone)]
pub struct Summing {
    md5: Option<Md5>,
    crc64: Crc64,
    length: u64,
}

impl std::fmt::Debug for Summing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Summing").field("length", &self.length).finish_non_exhaustive()
    }
}

/// The sums of a whole body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sums {
    /// MD5, if it was wanted.
    pub md5: Option<[u8; 16]>,
    /// CRC64.
    pub crc64: u64,
    /// Bytes.
    pub length: u64,
}

impl Summing {
    /// Nothing summed yet.
    pub fn new(wanted: Wanted) -> Self {
        let md5 = match wanted {
            Wanted::Crc64 => None,
            Wanted::Md5AndCrc64 => Some(Md5::new()),
        };
        Self { md5, crc64: Crc64::new(), length: 0 }
    }

    /// The next piece.
    pub fn update(&mut self, piece: &[u8]) {
        if let Some(md5) = &mut self.md5 {
            md5.update(piece);
        }
        self.crc64.write(piece);
        self.length += piece.len() as u64;
    }

    /// The sums.
    pub fn finish(self) -> Sums {
        Sums {
            md5: self.md5.map(|md5| md5.finalize().into()),
            crc64: self.crc64.sum64(),
            length: self.length,
        }
    }
}

impl Sums {
    /// Sums of a body that is in one piece.
    pub fn of(body: &[u8], wanted: Wanted) -> Self {
        let mut summing = Summing::new(wanted);
        summing.update(body);
        summing.finish()
    }

    /// Whether the body is the one that was declared. An MD5 that was declared must have been computed.
    pub fn check(&self, declared: &Declared) -> Result<()> {
        if declared.md5.is_some_and(|md5| self.md5 != Some(md5)) {
            return Err(Fault::new(ErrorCode::Md5Mismatch));
        }
        if declared.crc64.is_some_and(|crc64| self.crc64 != crc64) {
            return Err(Fault::new(ErrorCode::Crc64Mismatch));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn known_sums() {
        let sums = Sums::of(b"123456789", Wanted::Md5AndCrc64);
        assert_eq!(sums.crc64, 0xae8b_1486_0a79_9888, "the check value of CRC-64/NVME");
        assert_eq!(md5_text(&sums.md5.unwrap()), "JfnnlDI7RTiF9RgfG2JNCw==");
        assert_eq!(parse_crc64(&crc64_text(sums.crc64)), Some(sums.crc64));
        assert_eq!(Sums::of(b"", Wanted::Crc64).crc64, 0);
    }

    #[test]
    fn wrong_and_malformed_sums() {
        let sums = Sums::of(b"body", Wanted::Md5AndCrc64);
        let good =
            [("content-md5", md5_text(&sums.md5.unwrap())), ("x-ms-content-crc64", crc64_text(sums.crc64))];
        for (name, value) in &good {
            let declared = Declared::from_headers(&headers(&[(name, value)])).unwrap();
            assert_eq!(sums.check(&declared), Ok(()));
            let other = Sums::of(b"bodi", Wanted::Md5AndCrc64).check(&declared).unwrap_err();
            assert!(matches!(other.code, ErrorCode::Md5Mismatch | ErrorCode::Crc64Mismatch));
        }
        let code = |pairs: &[(&'static str, &str)]| Declared::from_headers(&headers(pairs)).unwrap_err().code;
        let both: Vec<_> = good.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(code(&both), ErrorCode::BothCrc64AndMd5HeaderPresent);
        assert_eq!(code(&[("content-md5", "AAAA")]), ErrorCode::InvalidMd5);
        assert_eq!(code(&[("x-ms-content-crc64", "?")]), ErrorCode::InvalidHeaderValue);
    }

    proptest! {
        #[test]
        fn pieces_sum_to_the_whole(body in proptest::collection::vec(any::<u8>(), 0..2000), cut in 0..2000_usize) {
            let (head, tail) = body.split_at(cut.min(body.len()));
            let mut summing = Summing::new(Wanted::Md5AndCrc64);
            summing.update(head);
            summing.update(tail);
            prop_assert_eq!(summing.finish(), Sums::of(&body, Wanted::Md5AndCrc64));
        }
    }
}
