//! For how long what the mirror has of names can be believed. Pure bookkeeping: time is an argument.
//!
//! A directory that was listed completely answers for every name in it, also for those that are not there. A name that
//! was asked for alone answers for itself.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use lru::LruCache;

/// Directories and names remembered at most.
const DIRECTORIES: NonZeroUsize = NonZeroUsize::new(64 << 10).unwrap();
const NAMES: NonZeroUsize = NonZeroUsize::new(64 << 10).unwrap();
/// How long the service is not asked after it did not answer.
const PAUSE: Duration = Duration::from_secs(2);

/// What is known of a directory besides its names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Directory {
    /// When its last complete listing began.
    pub(super) listed: Option<Instant>,
    /// Whether its names do not fit on one page, so that asking for single names is cheaper.
    pub(super) big: bool,
    /// Whether the service has a marker with a trailing slash for it.
    pub(super) slash_marker: bool,
}

/// What is known, and since when.
#[derive(Debug)]
pub(super) struct Known {
    /// By path with a slash at the end; the root has none.
    directories: LruCache<String, Directory>,
    names: LruCache<String, Instant>,
    /// The service does not answer; it is asked again then.
    away_until: Option<Instant>,
    /// What was asked for up to this moment is not believed.
    outdated: Option<Instant>,
}

impl Default for Known {
    fn default() -> Self {
        let (directories, names) = (LruCache::new(DIRECTORIES), LruCache::new(NAMES));
        Self { directories, names, away_until: None, outdated: None }
    }
}

impl Known {
    /// Whether the names in a directory need not be asked for.
    pub(super) fn directory_is_fresh(&mut self, prefix: &str, now: Instant, ttl: Duration) -> bool {
        let listed = self.directories.get(prefix).and_then(|directory| directory.listed);
        listed.is_some_and(|listed| self.is_fresh(listed, now, ttl))
    }

    fn is_fresh(&self, asked: Instant, now: Instant, ttl: Duration) -> bool {
        now.saturating_duration_since(asked) < ttl && self.outdated.is_none_or(|outdated| asked > outdated)
    }

    /// Whether a name need not be asked for.
    pub(super) fn name_is_fresh(&mut self, name: &str, now: Instant, ttl: Duration) -> bool {
        let asked = self.names.get(name).copied();
        asked.is_some_and(|asked| self.is_fresh(asked, now, ttl))
            || self.directory_is_fresh(parent_prefix(name), now, ttl)
    }

    pub(super) fn directory(&mut self, prefix: &str) -> Directory {
        self.directories.get(prefix).copied().unwrap_or_default()
    }

    /// A listing found this out.
    pub(super) fn note_directory(&mut self, prefix: &str, directory: Directory) {
        self.directories.put(prefix.to_owned(), directory);
    }

    /// A name was asked for at this moment.
    pub(super) fn note_name(&mut self, name: &str, asked: Instant) {
        self.names.put(name.to_owned(), asked);
    }

    /// Nothing is known of a name any more: it was removed or replaced.
    pub(super) fn forget(&mut self, name: &str) {
        self.names.pop(name);
        self.directories.pop(&format!("{name}/"));
    }

    /// Nothing is known of a tree any more: it was moved or replaced.
    pub(super) fn forget_below(&mut self, name: &str) {
        let prefix = format!("{name}/");
        let gone: Vec<String> = self
            .directories
            .iter()
            .map(|(key, _)| key)
            .filter(|key| key.starts_with(&prefix))
            .cloned()
            .collect();
        for key in gone {
            self.directories.pop(&key);
        }
        self.names.pop(name);
    }

    /// Names changed at the service behind the mirror's back: whatever was asked for until now is asked for again.
    pub(super) fn doubt_all(&mut self, now: Instant) {
        self.outdated = Some(now);
    }

    /// Two trees have changed places. What is known of their directories goes along, except when they were listed.
    pub(super) fn exchange(&mut self, one: &str, other: &str) {
        let moved = |key: &str| {
            let rest =
                |top: &str| key.strip_prefix(top).filter(|rest| rest.starts_with('/')).map(str::to_owned);
            let to_other = rest(one).map(|rest| format!("{other}{rest}"));
            to_other.or_else(|| rest(other).map(|rest| format!("{one}{rest}")))
        };
        let directories = self.directories.iter().filter_map(|(key, known)| {
            Some((key.clone(), moved(key)?, Directory { listed: None, ..*known }))
        });
        let directories: Vec<_> = directories.collect();
        for (old, ..) in &directories {
            self.directories.pop(old);
        }
        for (_, new, known) in directories {
            self.directories.put(new, known);
        }
        let is_top = |name: &str| name == one || name == other;
        let names =
            self.names.iter().map(|(name, _)| name).filter(|name| is_top(name) || moved(name).is_some());
        let names: Vec<String> = names.cloned().collect();
        for name in names {
            self.names.pop(&name);
        }
    }

    /// The service did not answer. It is left alone for a while. Answers whether that is news.
    pub(super) fn note_away(&mut self, now: Instant) -> bool {
        self.away_until.replace(now + PAUSE).is_none()
    }

    /// The service answered.
    pub(super) fn note_back(&mut self) {
        self.away_until = None;
    }

    /// Whether it is pointless to ask just now.
    pub(super) fn is_away(&self, now: Instant) -> bool {
        self.away_until.is_some_and(|until| now < until)
    }
}

/// The directory a name is in, as a prefix.
pub(super) fn parent_prefix(name: &str) -> &str {
    name.rfind('/').map_or("", |slash| &name[..=slash])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(1);

    #[test]
    fn a_complete_listing_answers_for_every_name_until_its_time_is_over() {
        let (mut known, now) = (Known::default(), Instant::now());
        let listed = Directory { listed: Some(now), ..Directory::default() };
        known.note_directory("d/", listed);
        assert!(known.name_is_fresh("d/none", now, TTL) && known.directory_is_fresh("d/", now, TTL));
        assert!(!known.name_is_fresh("d/e/f", now, TTL) && !known.name_is_fresh("d", now, TTL));
        assert!(!known.name_is_fresh("d/none", now + TTL, TTL));
        known.note_name("d/one", now + TTL);
        assert!(
            known.name_is_fresh("d/one", now + TTL, TTL) && !known.name_is_fresh("d/two", now + TTL, TTL)
        );
        known.note_directory("d/e/", listed);
        known.forget_below("d");
        assert_eq!(known.directory("d/"), Directory::default());
        assert!(!known.directory_is_fresh("d/e/", now, TTL));
    }

    #[test]
    fn what_was_asked_for_before_a_doubt_is_asked_for_again() {
        let (mut known, began) = (Known::default(), Instant::now());
        let listed = |at| Directory { listed: Some(at), ..Directory::default() };
        let (doubt, later) = (began + TTL / 4, began + TTL / 2);
        known.note_name("f", began);
        known.doubt_all(doubt);
        // A listing that was under way.
        known.note_directory("d/", listed(began));
        assert!(!known.name_is_fresh("f", later, TTL) && !known.directory_is_fresh("d/", later, TTL));
        known.note_name("f", later);
        known.note_directory("d/", listed(later));
        assert!(known.name_is_fresh("f", later, TTL) && known.directory_is_fresh("d/", later, TTL));
    }

    #[test]
    fn what_is_known_of_two_trees_changes_places_with_them() {
        let (mut known, now) = (Known::default(), Instant::now());
        let listed = Directory { listed: Some(now), ..Directory::default() };
        known.note_directory("d/", Directory { slash_marker: true, ..listed });
        known.note_directory("d/e/", Directory { big: true, ..listed });
        known.note_directory("f/", listed);
        known.note_directory("ff/", listed);
        known.note_name("f/one", now);
        known.exchange("d", "f");
        assert_eq!(known.directory("f/"), Directory { slash_marker: true, ..Directory::default() });
        assert_eq!(known.directory("f/e/"), Directory { big: true, ..Directory::default() });
        for gone in ["d/", "d/e/"] {
            assert_eq!(known.directory(gone), Directory::default(), "{gone}");
        }
        assert!(!known.name_is_fresh("f/one", now, TTL) && known.directory_is_fresh("ff/", now, TTL));
    }

    #[test]
    fn a_service_that_is_away_is_left_alone_for_a_while() {
        let (mut known, now) = (Known::default(), Instant::now());
        assert!(known.note_away(now));
        assert!(!known.note_away(now), "no news");
        assert!(known.is_away(now + PAUSE / 2) && !known.is_away(now + PAUSE));
        known.note_back();
        assert!(!known.is_away(now));
    }
}
