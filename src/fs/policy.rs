//! Share policies: which share mode a program gets that cannot ask for one.
//!
//! A policy concerns opens with write access only. The first of these that says something decides:
//!
//! 1. the sticky attribute `user.leasefs.share` of the file itself,
//! 2. that of the nearest directory above it that has one,
//! 3. the first rule (`--share-rule`) whose pattern matches,
//! 4. the policy of the mount (`--share-policy`).
//!
//! A pattern without `/` is matched with the file's name, one with `/` with the whole path inside the share, from its
//! root on (a leading `/` is allowed). `*` stands for any characters but `/`, `**` for any at all, `?` for one that is
//! not `/`, `[a-z]` and `[!a-z]` for one that is, or is not, in the set. A backslash takes the next character as it is.
//! Upper and lower case differ.
//!
//! Only decides; the gate enforces. Never reads attributes itself.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::share::{Access, ShareMode};

/// Longest pattern, in characters: as long as the longest path.
const PATTERN_CHARS_MAX: usize = 1024;

/// Most rules that a mount takes.
pub const RULES_MAX: usize = 256;

/// What an open with write access lets others do while it lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharePolicy {
    /// Everything, as Linux programs expect.
    #[default]
    Shared,
    /// Read only: nobody else writes, removes or renames the file.
    DenyWrite,
    /// Nothing.
    Exclusive,
}

/// The text names no policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one of shared, deny-write, exclusive")]
pub struct InvalidPolicy;

impl SharePolicy {
    /// All policies, for help and messages.
    pub const ALL: [Self; 3] = [Self::Shared, Self::DenyWrite, Self::Exclusive];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::DenyWrite => "deny-write",
            Self::Exclusive => "exclusive",
        }
    }

    /// The share mode that an open with this access gets.
    pub fn share_mode(self, access: Access) -> ShareMode {
        match self {
            _ if !access.contains(Access::WRITE) => ShareMode::ALL,
            Self::Shared => ShareMode::ALL,
            Self::DenyWrite => ShareMode::READ,
            Self::Exclusive => ShareMode::NONE,
        }
    }
}

impl fmt::Display for SharePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for SharePolicy {
    type Err = InvalidPolicy;

    fn from_str(text: &str) -> Result<Self, InvalidPolicy> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == text).ok_or(InvalidPolicy)
    }
}

/// What a pattern is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// This character.
    Char(char),
    /// Any character but `/`.
    One,
    /// Any number of characters but `/`.
    Run,
    /// Any number of characters.
    Deep,
    /// A character (not `/`) that is, or is not, in one of the ranges.
    Set { ranges: Vec<(char, char)>, negated: bool },
}

/// A glob pattern for file names or paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
    /// Matched with the whole path, not with the name alone.
    whole_path: bool,
}

/// A pattern and what holds for the files it matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareRule {
    pattern: Pattern,
    policy: SharePolicy,
}

/// Why a text is no rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRule {
    /// There is no `=`.
    #[error("expected PATTERN=POLICY, such as *.xlsx=exclusive")]
    NoPolicy,
    /// What follows the last `=` is no policy.
    #[error("after the last =: {0}")]
    Policy(#[from] InvalidPolicy),
    /// There is nothing before the last `=`.
    #[error("the pattern is empty")]
    Empty,
    /// The pattern is longer than any path.
    #[error("the pattern has more than {PATTERN_CHARS_MAX} characters")]
    TooLong,
    /// A set without its end.
    #[error("the pattern has a [ without its ]")]
    OpenSet,
    /// A backslash at the end.
    #[error("the pattern ends with a backslash")]
    OpenEscape,
}

impl FromStr for Pattern {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        if text.is_empty() {
            return Err(InvalidRule::Empty);
        }
        if text.chars().count() > PATTERN_CHARS_MAX {
            return Err(InvalidRule::TooLong);
        }
        let mut parts = Vec::new();
        let mut chars = text.strip_prefix('/').unwrap_or(text).chars().peekable();
        while let Some(c) = chars.next() {
            parts.push(match c {
                '*' if chars.next_if_eq(&'*').is_some() => Part::Deep,
                '*' => Part::Run,
                '?' => Part::One,
                '[' => set(&mut chars)?,
                '\\' => Part::Char(chars.next().ok_or(InvalidRule::OpenEscape)?),
                c => Part::Char(c),
            });
        }
        Ok(Self { parts, whole_path: text.contains('/') })
    }
}

/// Reads a set behind its `[`. A `]` that comes first is a member.
fn set(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Part, InvalidRule> {
    let negated = chars.next_if_eq(&'!').is_some();
    let mut ranges = Vec::new();
    loop {
        let from = match chars.next().ok_or(InvalidRule::OpenSet)? {
            ']' if !ranges.is_empty() => return Ok(Part::Set { ranges, negated }),
            c => c,
        };
        let mut ahead = chars.clone();
        let is_range = ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']');
        let to = if is_range { chars.nth(1).ok_or(InvalidRule::OpenSet)? } else { from };
        ranges.push((from, to));
    }
}

impl Part {
    fn takes(&self, c: char) -> bool {
        match self {
            Part::Char(own) => *own == c,
            Part::One | Part::Run => c != '/',
            Part::Deep => true,
            Part::Set { ranges, negated } => {
                c != '/' && ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *negated
            }
        }
    }

    fn repeats(&self) -> bool {
        matches!(self, Part::Run | Part::Deep)
    }
}

impl Pattern {
    /// Whether it matches the file at `path` inside the share (without a leading `/`).
    pub fn matches(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.matches_text(if self.whole_path { path } else { name })
    }

    /// Follows all ways through the pattern at once, so the time is bounded by length times length.
    fn matches_text(&self, text: &str) -> bool {
        // at[n]: what was read so far can be matched by the first n parts.
        let mut at = vec![false; self.parts.len() + 1];
        at[0] = true;
        self.skip_empty_runs(&mut at);
        for c in text.chars() {
            let mut next = vec![false; at.len()];
            for (n, part) in self.parts.iter().enumerate() {
                if at[n] && part.takes(c) {
                    next[if part.repeats() { n } else { n + 1 }] = true;
                }
            }
            self.skip_empty_runs(&mut next);
            at = next;
        }
        at[self.parts.len()]
    }

    fn skip_empty_runs(&self, at: &mut [bool]) {
        for (n, part) in self.parts.iter().enumerate() {
            at[n + 1] |= at[n] && part.repeats();
        }
    }
}

impl FromStr for ShareRule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        let (pattern, policy) = text.rsplit_once('=').ok_or(InvalidRule::NoPolicy)?;
        let policy = policy.parse()?;
        Ok(Self { pattern: pattern.parse()?, policy })
    }
}

/// The rules and the policy of a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharePolicies {
    rules: Arc<[ShareRule]>,
    default: SharePolicy,
}

impl SharePolicies {
    /// These rules, the first first, and `default` for what none of them matches.
    pub fn new(rules: Vec<ShareRule>, default: SharePolicy) -> Self {
        Self { rules: rules.into(), default }
    }

    /// Whether a path has to be known for an answer.
    pub fn need_path(&self) -> bool {
        !self.rules.is_empty()
    }

    /// What holds for the file at `path` inside the share, as far as rules and mount go.
    pub fn of_path(&self, path: &str) -> SharePolicy {
        let rule = self.rules.iter().find(|rule| rule.pattern.matches(path));
        rule.map_or(self.default, |rule| rule.policy)
    }

    /// What holds for files that no rule matches.
    pub fn default_policy(&self) -> SharePolicy {
        self.default
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        pattern.parse::<Pattern>().unwrap().matches(path)
    }

    #[test]
    fn patterns_match_names_or_paths() {
        let yes = [
            ("*.xlsx", "a.xlsx"),
            ("*.xlsx", "deep/down/a.xlsx"),
            ("a?c", "abc"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[]x]", "]"),
            ("[a-]", "-"),
            ("\\*", "*"),
            ("docs/*.txt", "docs/a.txt"),
            ("/docs/*.txt", "docs/a.txt"),
            ("/top", "top"),
            ("docs/**", "docs/a/b/c"),
            ("docs/**.txt", "docs/a/b.txt"),
            ("**/b", "a/b"),
            ("*", ".hidden"),
            ("a=b", "a=b"),
            ("ä*", "äö"),
        ];
        for (pattern, path) in yes {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        let no = [
            ("*.xlsx", "a.xls"),
            ("*.XLSX", "a.xlsx"),
            ("a?c", "ac"),
            ("docs/*.txt", "docs/deep/a.txt"),
            ("docs/*.txt", "other/docs/a.txt"),
            ("/top", "deep/top"),
            ("[!a]/b", "//b"),
            ("a", "ab"),
            ("a", "ba"),
        ];
        for (pattern, path) in no {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn a_hostile_pattern_costs_little() {
        let pattern = "*a".repeat(400);
        assert!(!matches(&pattern, &"a".repeat(255)));
    }

    #[test]
    fn bad_rules_are_refused_with_a_reason() {
        for (text, why) in [
            ("*.xlsx", InvalidRule::NoPolicy),
            ("*.xlsx=all", InvalidRule::Policy(InvalidPolicy)),
            ("=shared", InvalidRule::Empty),
            ("[a=shared", InvalidRule::OpenSet),
            ("a\\=shared", InvalidRule::OpenEscape),
        ] {
            assert_eq!(text.parse::<ShareRule>(), Err(why), "{text}");
        }
        let long = "x".repeat(PATTERN_CHARS_MAX + 1) + "=shared";
        assert_eq!(long.parse::<ShareRule>(), Err(InvalidRule::TooLong));
    }

    #[test]
    fn the_first_rule_wins() {
        let rules = ["free.xlsx=shared", "*.xlsx=exclusive", "db/**=deny-write"];
        let policies =
            SharePolicies::new(rules.map(|rule| rule.parse().unwrap()).to_vec(), SharePolicy::Shared);
        for (path, policy) in [
            ("free.xlsx", SharePolicy::Shared),
            ("other.xlsx", SharePolicy::Exclusive),
            ("db/x.xlsx", SharePolicy::Exclusive),
            ("db/deep/x", SharePolicy::DenyWrite),
            ("x", SharePolicy::Shared),
        ] {
            assert_eq!(policies.of_path(path), policy, "{path}");
        }
    }

    #[test]
    fn policies_concern_writers_only() {
        for policy in SharePolicy::ALL {
            assert_eq!(policy.share_mode(Access::READ), ShareMode::ALL);
            assert_eq!(policy.share_mode(Access::NONE), ShareMode::ALL);
            assert_eq!(policy.as_str().parse(), Ok(policy));
        }
        assert_eq!(SharePolicy::Shared.share_mode(Access::WRITE), ShareMode::ALL);
        assert_eq!(SharePolicy::DenyWrite.share_mode(Access::READ_WRITE), ShareMode::READ);
        assert_eq!(SharePolicy::Exclusive.share_mode(Access::WRITE), ShareMode::NONE);
        assert_eq!("Shared".parse::<SharePolicy>(), Err(InvalidPolicy));
    }
}
