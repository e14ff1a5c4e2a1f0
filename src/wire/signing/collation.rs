//! The order in which the service sorts header names before it signs them.
//!
//! It is not the order of bytes: `_` comes before digits, and `-` counts only between names that are equal without it.
//! A signature over byte order is refused for metadata such as `a_b` beside `a1`.

use std::cmp::Ordering;

/// What counts, in its order.
const ORDER: &[u8] = b"!#$%&*.^_`|~+0123456789abcdefghijklmnopqrstuvwxyz";

/// Compares two header names as the service does.
pub(super) fn compare(one: &str, other: &str) -> Ordering {
    let weights = |name: &str| name.bytes().filter_map(weight).collect::<Vec<_>>();
    weights(one).cmp(&weights(other)).then_with(|| hyphens(one, other))
}

fn weight(byte: u8) -> Option<usize> {
    let byte = byte.to_ascii_lowercase();
    ORDER.iter().position(|known| *known == byte)
}

/// Of names that differ in what does not count only, the one that has it first comes last.
fn hyphens(one: &str, other: &str) -> Ordering {
    let marks =
        |name: &str| name.bytes().map(|byte| weight(byte).is_none().then_some(byte)).collect::<Vec<_>>();
    let (one, other) = (marks(one), marks(other));
    let shared = one.len().min(other.len());
    one[..shared].cmp(&other[..shared]).then(one.len().cmp(&other.len()))
}
