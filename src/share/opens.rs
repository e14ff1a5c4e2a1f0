//! The opens of one file, and whether another fits beside them.
//!
//! [`conflict`] is the rule, for two opens. [`OpenSet`] answers it for all opens of a file at once from counters, so
//! the price of an open does not grow with the number of opens. The counters are exact at every moment: an open is
//! counted once when it comes and uncounted once when it goes.
//!
//! This module must never know delete pending; that is the file's affair ([`super::FileShareState`]).

use super::access::{Access, CLASSES, ShareMode};

#[cfg(test)]
mod tests;

/// Names an open. Whoever grants opens chooses the number; it is never used twice for one file at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpenId(pub u64);

/// What an open holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenClaim {
    /// What it may do.
    pub access: Access,
    /// What it lets others do.
    pub share: ShareMode,
    /// Whether its close makes the file delete pending.
    pub delete_on_close: bool,
}

/// Whether two opens cannot exist side by side: one has a class of access that the other does not share. An open with
/// no class of access neither conflicts nor is conflicted with, whatever its share mode.
pub fn conflict(a: Access, share_a: ShareMode, b: Access, share_b: ShareMode) -> bool {
    let both_contend = !a.is_empty() && !b.is_empty();
    both_contend && (!share_a.admits(b) || !share_b.admits(a))
}

/// The opens of one file, sorted by id: 16 bytes each. Finding one is a binary search; new ids are mostly the highest,
/// so adding is mostly a push. Removing leaves a gap; when there are more gaps than opens they are taken out together,
/// so a close does not move all opens behind it.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenSet {
    claims: Vec<(OpenId, Option<OpenClaim>)>,
    /// How many of them are not gaps.
    living: usize,
    /// For each class, how many opens have that access.
    granted: [u32; CLASSES],
    /// For each class, how many opens with any access do not share it.
    denied: [u32; CLASSES],
}

impl OpenSet {
    /// Whether an open that asks for this conflicts with any open here.
    pub(super) fn conflicts(&self, access: Access, share: ShareMode) -> bool {
        !access.is_empty()
            && (0..CLASSES).any(|class| {
                (access.has(class) && self.denied[class] > 0)
                    || (!share.has(class) && self.granted[class] > 0)
            })
    }

    /// The opens that stand in the way. Looks at every open: for messages, not for decisions.
    pub(super) fn blockers(&self, access: Access, share: ShareMode) -> Vec<OpenId> {
        let in_the_way = self.iter().filter(|(_, open)| conflict(access, share, open.access, open.share));
        in_the_way.map(|(id, _)| id).collect()
    }

    /// Whether some open with any access does not share delete.
    pub(super) fn denies_delete(&self) -> bool {
        self.conflicts(Access::DELETE, ShareMode::ALL)
    }

    /// Adds an open. Returns false, and adds nothing, if the id is taken.
    pub(super) fn insert(&mut self, id: OpenId, claim: OpenClaim) -> bool {
        match self.place(id) {
            Ok(place) if self.claims[place].1.is_some() => return false,
            Ok(gap) => self.claims[gap].1 = Some(claim),
            Err(place) => {
                if self.claims.is_empty() {
                    // Most files are open once: do not let the vector start with room for four.
                    self.claims.reserve_exact(1);
                }
                self.claims.insert(place, (id, Some(claim)));
            }
        }
        self.living += 1;
        self.count(claim, |n| n + 1);
        true
    }

    pub(super) fn remove(&mut self, id: OpenId) -> Option<OpenClaim> {
        let place = self.place(id).ok()?;
        let claim = self.claims[place].1.take()?;
        self.living -= 1;
        self.count(claim, |n| n - 1);
        self.close_gaps();
        Some(claim)
    }

    /// Takes gaps out where that is cheap: at the end, and when they are the greater part.
    fn close_gaps(&mut self) {
        while self.claims.last().is_some_and(|(_, claim)| claim.is_none()) {
            self.claims.pop();
        }
        if self.claims.len() > 2 * self.living {
            self.claims.retain(|(_, claim)| claim.is_some());
        }
        if self.claims.len() < self.claims.capacity() / 4 {
            self.claims.shrink_to(self.claims.len() * 2);
        }
    }

    /// Puts another claim in the place of an open's old one; returns the old one.
    pub(super) fn replace(&mut self, id: OpenId, claim: OpenClaim) -> Option<OpenClaim> {
        let place = self.place(id).ok()?;
        let old = self.claims[place].1.replace(claim)?;
        self.count(old, |n| n - 1);
        self.count(claim, |n| n + 1);
        Some(old)
    }

    pub(super) fn get(&self, id: OpenId) -> Option<&OpenClaim> {
        self.place(id).ok().and_then(|place| self.claims[place].1.as_ref())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (OpenId, OpenClaim)> + '_ {
        self.iter_from(0)
    }

    /// The opens with an id above `id`.
    pub(super) fn iter_after(&self, id: OpenId) -> impl Iterator<Item = (OpenId, OpenClaim)> + '_ {
        self.iter_from(self.place(id).map_or_else(|place| place, |place| place + 1))
    }

    fn iter_from(&self, place: usize) -> impl Iterator<Item = (OpenId, OpenClaim)> + '_ {
        self.claims[place..].iter().filter_map(|(id, claim)| Some((*id, (*claim)?)))
    }

    pub(super) fn len(&self) -> usize {
        self.living
    }

    fn place(&self, id: OpenId) -> Result<usize, usize> {
        self.claims.binary_search_by_key(&id, |(id, _)| *id)
    }

    fn count(&mut self, claim: OpenClaim, change: impl Fn(u32) -> u32) {
        if claim.access.is_empty() {
            return;
        }
        for class in 0..CLASSES {
            if claim.access.has(class) {
                self.granted[class] = change(self.granted[class]);
            }
            if !claim.share.has(class) {
                self.denied[class] = change(self.denied[class]);
            }
        }
    }

    /// What must hold at every moment. Compares every pair of opens: for tests and checks.
    pub(super) fn invariants(&self) -> Result<(), String> {
        if !self.claims.is_sorted_by(|a, b| a.0 < b.0) {
            return Err("the opens are not sorted by id, or an id is there twice".to_owned());
        }
        let mut recounted = Self::default();
        for (n, (id, open)) in self.iter().enumerate() {
            recounted.count(open, |count| count + 1);
            for (other_id, other) in self.iter().take(n) {
                if conflict(open.access, open.share, other.access, other.share) {
                    return Err(format!("the opens {} and {} conflict", other_id.0, id.0));
                }
            }
        }
        if self.living != self.iter().count() || self.claims.len() > 2 * self.living {
            return Err("the opens are counted wrong, or there are too many gaps".to_owned());
        }
        if (self.granted, self.denied) != (recounted.granted, recounted.denied) {
            return Err("the counters differ from the opens".to_owned());
        }
        Ok(())
    }
}

impl PartialEq for OpenSet {
    /// Gaps make no difference.
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for OpenSet {}
