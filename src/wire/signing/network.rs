//! `sip` and `spr`: from where and how a SAS may be used.

use core::net::IpAddr;

/// Whether `address` is in `allowed`: one address, or two with a dash between them, both included. `None`: `allowed`
/// is neither.
pub(super) fn contains(allowed: &str, address: IpAddr) -> Option<bool> {
    let (first, last) = allowed.split_once('-').unwrap_or((allowed, allowed));
    let (first, last): (IpAddr, IpAddr) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    let address = address.to_canonical();
    // Addresses of the two families do not compare.
    let same_family = first.is_ipv4() == last.is_ipv4() && first.is_ipv4() == address.is_ipv4();
    Some(same_family && (first..=last).contains(&address))
}

/// Whether a request may come like this: `https`, or also in the clear. `None`: `allowed` is neither.
pub(super) fn protocol_fits(allowed: &str, secure: bool) -> Option<bool> {
    match allowed {
        "https" => Some(secure),
        "https,http" | "http,https" => Some(true),
        _ => None,
    }
}
