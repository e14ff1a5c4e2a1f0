//! Keys of the tree of names.
//!
//! A name is stored segment by segment: under the number of the prefix it is in, a blob has the key
//! `[number][segment]` and the prefix below it `[number][segment]/`. Because a prefix's key carries its slash, the
//! keys read depth first are in byte order of the full names. Moving a prefix moves one key.

/// Key of the blob `segment` in the prefix `parent`; also what names the pair of blob and prefix (the slot).
pub(super) fn slot_key(parent: u64, segment: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(8 + segment.len() + 1);
    set_slot_key(&mut key, parent, segment);
    key
}

/// The same into a buffer that is used again.
pub(super) fn set_slot_key(key: &mut Vec<u8>, parent: u64, segment: &str) {
    key.clear();
    key.extend_from_slice(&parent.to_be_bytes());
    key.extend_from_slice(segment.as_bytes());
}

/// Key of the prefix node that belongs to a slot.
pub(super) fn prefix_key(slot_key: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(slot_key.len() + 1);
    key.extend_from_slice(slot_key);
    key.push(b'/');
    key
}

/// First key behind everything directly in `parent`.
pub(super) fn end_key(parent: u64) -> [u8; 8] {
    // Numbers are handed out one by one from 1, so the last one is never reached.
    (parent + 1).to_be_bytes()
}

/// The prefixes of a name, outermost first, and its last segment (empty if the name ends with a slash).
pub(super) fn split(name: &str) -> (impl Iterator<Item = &str>, &str) {
    let (prefixes, last) = match name.rsplit_once('/') {
        Some((prefixes, last)) => (Some(prefixes), last),
        None => (None, name),
    };
    (prefixes.into_iter().flat_map(|prefixes| prefixes.split('/')), last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_at_their_slashes() {
        let parts = |name| {
            let (prefixes, last) = split(name);
            (prefixes.collect::<Vec<_>>(), last)
        };
        assert_eq!(parts("a"), (vec![], "a"));
        assert_eq!(parts("a/b/c"), (vec!["a", "b"], "c"));
        assert_eq!(parts("a/b/"), (vec!["a", "b"], ""));
    }

    #[test]
    fn keys_sort_like_names() {
        let blob = |segment| slot_key(7, segment);
        let prefix = |segment| prefix_key(&slot_key(7, segment));
        let keys = [blob("a"), blob("a!"), prefix("a!"), blob("a-b"), prefix("a"), blob("a0"), blob("b")];
        assert!(keys.is_sorted());
        assert!(keys.iter().all(|key| key[..] < end_key(7)[..]));
    }
}
