//! The pairs themselves.
//!
//! Every record of a blob has some, and a listing makes them by the hundred thousand: so they are one text and one
//! row of numbers, not a tree of strings.

use std::fmt;
use std::ops::Range;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// User metadata: names in order, each once, kept as given and compared byte for byte.
///
/// Its encoding is that of a map. It can only be read from formats that have its text as it is (postcard), not from
/// those that would have to take escapes out of it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Name, value, name, value, …
    text: String,
    /// Where each of them ends.
    ends: Vec<u32>,
}

/// What most names and values have together: room for that is made before they are known.
const USUAL_BYTES: usize = 24;

impl Metadata {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.ends.len() / 2
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.find(name).ok().map(|pair| &self.text[self.span(2 * pair + 1)])
    }

    /// Whether there is one of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.find(name).is_ok()
    }

    /// All pairs, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut start = 0;
        self.ends.chunks_exact(2).map(move |ends| {
            let (middle, end) = (ends[0] as usize, ends[1] as usize);
            let pair = (&self.text[start..middle], &self.text[middle..end]);
            start = end;
            pair
        })
    }

    /// Sets the value of `name`; says whether it had one before.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        match self.find(name) {
            Ok(pair) => {
                self.replace(2 * pair + 1, value);
                true
            }
            // Behind all others, as they mostly come.
            Err(pair) if pair == self.len() => {
                for part in [name, value] {
                    self.text.push_str(part);
                    self.ends.push(place(self.text.len()));
                }
                false
            }
            Err(pair) => {
                let at = self.span(2 * pair).start;
                self.ends.splice(2 * pair..2 * pair, [place(at), place(at)]);
                self.replace(2 * pair, name);
                self.replace(2 * pair + 1, value);
                false
            }
        }
    }

    /// Takes `name` out; says whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        let Ok(pair) = self.find(name) else { return false };
        self.replace(2 * pair, "");
        self.replace(2 * pair + 1, "");
        self.ends.drain(2 * pair..2 * pair + 2);
        true
    }

    /// Keeps the pairs whose name fits.
    pub fn retain(&mut self, fits: impl Fn(&str) -> bool) {
        *self = self.iter().filter(|(name, _)| fits(name)).collect();
    }

    /// Where the name is, or where it would be.
    fn find(&self, name: &str) -> Result<usize, usize> {
        let last = self.ends.len().checked_sub(2).map(|last| &self.text[self.span(last)]);
        if last.is_none_or(|last| last < name) {
            return Err(self.len());
        }
        // They are few: walking along is quicker than jumping.
        for (pair, (found, _)) in self.iter().enumerate() {
            if found >= name {
                return if found == name { Ok(pair) } else { Err(pair) };
            }
        }
        Err(self.len())
    }

    /// Where the name or value of that number is in the text; at its end if there is none.
    fn span(&self, number: usize) -> Range<usize> {
        let end = |number: usize| self.ends.get(number).map_or(self.text.len(), |end| *end as usize);
        number.checked_sub(1).map_or(0, end)..end(number)
    }

    /// Puts `new` in the place of the name or value of that number.
    fn replace(&mut self, number: usize, new: &str) {
        let span = self.span(number);
        for end in &mut self.ends[number..] {
            *end = place(*end as usize - span.len() + new.len());
        }
        self.text.replace_range(span, new);
    }
}

/// A place in the text.
fn place(at: usize) -> u32 {
    u32::try_from(at).expect("metadata has at most a few KiB: whoever takes it in limits it")
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<N: AsRef<str>, V: AsRef<str>> Extend<(N, V)> for Metadata {
    fn extend<T: IntoIterator<Item = (N, V)>>(&mut self, pairs: T) {
        for (name, value) in pairs {
            self.set(name.as_ref(), value.as_ref());
        }
    }
}

impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(N, V)> for Metadata {
    fn from_iter<T: IntoIterator<Item = (N, V)>>(pairs: T) -> Self {
        let mut metadata = Self::new();
        metadata.extend(pairs);
        metadata
    }
}

impl<N: AsRef<str>, V: AsRef<str>, const COUNT: usize> From<[(N, V); COUNT]> for Metadata {
    fn from(pairs: [(N, V); COUNT]) -> Self {
        pairs.into_iter().collect()
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Metadata;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Metadata, A::Error> {
                // Whoever says more than there is gets room for no more than this.
                const COUNT_MAX: usize = 64;
                let count = pairs.size_hint().unwrap_or(0).min(COUNT_MAX);
                let mut metadata = Metadata {
                    text: String::with_capacity(count * USUAL_BYTES),
                    ends: Vec::with_capacity(2 * count),
                };
                while let Some((name, value)) = pairs.next_entry::<&'de str, &'de str>()? {
                    metadata.set(name, value);
                }
                Ok(metadata)
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Set(String, String),
        Remove(String),
        Retain(char),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => ("[a-dé]{0,2}", "[0-9ü]{0,3}").prop_map(|(name, value)| Step::Set(name, value)),
            2 => "[a-dé]{0,2}".prop_map(Step::Remove),
            1 => prop::char::range('a', 'd').prop_map(Step::Retain),
        ]
    }

    fn pairs(metadata: &Metadata) -> Vec<(String, String)> {
        metadata.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    proptest! {
        #[test]
        fn agrees_with_a_map_of_strings_and_is_stored_like_one(steps in prop::collection::vec(step(), 0..30)) {
            let (mut metadata, mut model) = (Metadata::new(), BTreeMap::<String, String>::new());
            for step in steps {
                match step {
                    Step::Set(name, value) => {
                        prop_assert_eq!(metadata.set(&name, &value), model.insert(name, value).is_some());
                    }
                    Step::Remove(name) => {
                        prop_assert_eq!(metadata.remove(&name), model.remove(&name).is_some());
                    }
                    Step::Retain(first) => {
                        metadata.retain(|name| name.starts_with(first));
                        model.retain(|name, _| name.starts_with(first));
                    }
                }
                prop_assert_eq!(pairs(&metadata), model.clone().into_iter().collect::<Vec<_>>());
                prop_assert_eq!((metadata.len(), metadata.is_empty()), (model.len(), model.is_empty()));
                for name in ["", "a", "b", "cd", "é"] {
                    prop_assert_eq!(metadata.get(name), model.get(name).map(String::as_str));
                    prop_assert_eq!(metadata.contains(name), model.contains_key(name));
                }
            }
            let stored = postcard::to_allocvec(&metadata).unwrap();
            prop_assert_eq!(&stored, &postcard::to_allocvec(&model).unwrap());
            prop_assert_eq!(&postcard::from_bytes::<Metadata>(&stored).unwrap(), &metadata);
            prop_assert_eq!(model.iter().rev().collect::<Metadata>(), metadata);
        }
    }

    #[test]
    fn a_count_that_promises_too_much_takes_no_memory() {
        assert!(postcard::from_bytes::<Metadata>(&[0xff, 0xff, 0xff, 0xff, 0x0f, 1, b'a']).is_err());
    }

    #[test]
    fn it_is_shown_as_pairs() {
        assert_eq!(format!("{:?}", Metadata::from([("b", "2"), ("a", "1")])), r#"{"a": "1", "b": "2"}"#);
    }
}
