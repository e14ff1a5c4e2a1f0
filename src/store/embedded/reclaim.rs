//! When the room of removed values is taken back. This module only judges; the keeper acts.
//!
//! The library drops a value only in a merge into its last level, and merges for the size of a level, never for what
//! was removed. Once a space is bigger than [`LEVEL_TABLES`] tables, removed keys end one level above their values
//! and stay there. So two things are done about them: many are written to a table of their own, which is cheap and
//! enough while the space is small; and when much of the space is dead, all of it is rewritten.

/// So many removed keys are worth a table of their own.
pub(super) const REMOVED_VALUES: u64 = 10_000;

/// Tables that the library keeps in the first level below the fresh ones. A merge of fresh tables takes in all of it.
const LEVEL_TABLES: u64 = 4;

/// On a disk with room a rewrite must free one part in so many of the space, and a whole table. What was written for
/// the values a rewrite frees pays for it: it copies at most as many as it frees.
const WORTH_PART: u64 = 2;

/// On a full disk less will do.
const TIGHT_PART: u64 = 8;
const TIGHT_BYTES: u64 = 1 << 20;

/// What is known of a space without reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tables {
    /// Bytes of all tables.
    pub(super) bytes: u64,
    /// Bytes of those that are not merged yet.
    pub(super) fresh: u64,
    /// Values in tables, removed or not.
    pub(super) values: u64,
    /// Removed keys in tables. They outlive a restart, as the values do.
    pub(super) removed: u64,
    /// Removed keys that are only in memory.
    pub(super) unwritten: u64,
    /// Bytes in memory, which a seal writes out.
    pub(super) memory: u64,
    /// What a table may grow to.
    pub(super) table: u64,
}

impl Tables {
    /// About so many bytes belong to removed values. Too many if some values went in an earlier merge and only their
    /// removed keys are left; a rewrite does away with those.
    fn dead(&self) -> u64 {
        let removed = self.removed.saturating_add(self.unwritten).min(self.values);
        let part = u128::from(self.bytes) * u128::from(removed) / u128::from(self.values.max(1));
        u64::try_from(part).unwrap_or(self.bytes)
    }

    /// What a rewrite needs for a while: what is alive comes to the disk once more. All of it if `distrusted`.
    fn rewrite_needs(&self, distrusted: bool) -> u64 {
        let alive = if distrusted { self.bytes } else { self.bytes - self.dead() };
        alive.saturating_add(self.memory)
    }

    /// What the merge that one more table can set off needs for a while.
    fn merge_needs(&self) -> u64 {
        let level = self.table.saturating_mul(LEVEL_TABLES);
        self.bytes.min(level.saturating_add(self.fresh)).saturating_add(self.memory)
    }
}

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// For everybody. Without any, the disk counts as full.
    pub(super) left: u64,
    /// For work that frees more than it takes.
    pub(super) for_upkeep: u64,
}

/// What to do about the removed keys of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upkeep {
    Nothing,
    /// Have them written to a table.
    WriteOut,
    /// Rewrite the space without them.
    Rewrite,
}

/// What to do about a space that is looked into by key only: a removed key slows nothing down there, but keeps its
/// value's room. `distrusted` after a rewrite that failed, perhaps because it needed more room than it seemed.
pub(super) fn judge(tables: &Tables, room: Room, distrusted: bool) -> Upkeep {
    let dead = tables.dead();
    let (worth, usable) = match room.left {
        0 => (dead >= TIGHT_BYTES.max(tables.bytes / TIGHT_PART), room.for_upkeep),
        left => (dead >= tables.table.max(tables.bytes / WORTH_PART), left),
    };
    if worth && tables.rewrite_needs(distrusted) <= usable {
        Upkeep::Rewrite
    } else if tables.unwritten >= REMOVED_VALUES && tables.merge_needs() <= room.for_upkeep {
        Upkeep::WriteOut
    } else {
        Upkeep::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const PLENTY: Room = Room { left: 1 << 40, for_upkeep: 1 << 40 };
    /// 100,000 values of 8 KiB.
    const FULL: Tables = Tables {
        bytes: 800 * MIB,
        fresh: 0,
        values: 100_000,
        removed: 0,
        unwritten: 0,
        memory: MIB,
        table: 64 * MIB,
    };

    fn tight(for_upkeep: u64) -> Room {
        Room { left: 0, for_upkeep }
    }

    #[test]
    fn a_space_that_is_half_dead_is_rewritten() {
        assert_eq!(judge(&FULL, PLENTY, false), Upkeep::Nothing);
        assert_eq!(judge(&Tables { removed: 49_999, ..FULL }, PLENTY, false), Upkeep::Nothing);
        assert_eq!(judge(&Tables { removed: 50_000, ..FULL }, PLENTY, false), Upkeep::Rewrite);
        assert_eq!(
            judge(&Tables { removed: 45_000, unwritten: 5_000, ..FULL }, PLENTY, false),
            Upkeep::Rewrite
        );
        // More removed keys than values: some were removed before they were ever written.
        assert_eq!(judge(&Tables { removed: 500_000, ..FULL }, PLENTY, false), Upkeep::Rewrite);
        let small = Tables { bytes: 63 * MIB, values: 8_000, removed: 8_000, ..FULL };
        assert_eq!(judge(&small, PLENTY, false), Upkeep::Nothing);
        assert_eq!(judge(&Tables { bytes: 0, values: 0, ..FULL }, PLENTY, false), Upkeep::Nothing);
    }

    #[test]
    fn room_is_wanted_for_what_is_alive() {
        let removed = Tables { removed: 75_000, ..FULL };
        let room = |left| Room { left, for_upkeep: left };
        assert_eq!(judge(&removed, room(201 * MIB), false), Upkeep::Rewrite);
        assert_eq!(judge(&removed, room(200 * MIB), false), Upkeep::Nothing);
        // It did not fit the last time.
        assert_eq!(judge(&removed, room(201 * MIB), true), Upkeep::Nothing);
        assert_eq!(judge(&removed, room(801 * MIB), true), Upkeep::Rewrite);
    }

    #[test]
    fn a_full_disk_is_worth_a_rewrite_for_less() {
        let some = Tables { bytes: 16 * MIB, values: 2_000, removed: 250, ..FULL };
        assert_eq!(judge(&some, PLENTY, false), Upkeep::Nothing);
        assert_eq!(judge(&some, tight(15 * MIB), false), Upkeep::Rewrite);
        assert_eq!(judge(&some, tight(15 * MIB - 1), false), Upkeep::Nothing);
        assert_eq!(judge(&Tables { removed: 249, ..some }, tight(64 * MIB), false), Upkeep::Nothing);
        let little = Tables { bytes: MIB, values: 100, removed: 99, ..FULL };
        assert_eq!(judge(&little, tight(64 * MIB), false), Upkeep::Nothing);
    }

    #[test]
    fn a_table_is_written_only_with_room_for_the_merge_that_follows() {
        let many = Tables { unwritten: REMOVED_VALUES, fresh: 10 * MIB, ..FULL };
        assert_eq!(judge(&many, PLENTY, false), Upkeep::WriteOut);
        assert_eq!(judge(&Tables { unwritten: REMOVED_VALUES - 1, ..many }, PLENTY, false), Upkeep::Nothing);
        assert_eq!(judge(&many, tight(267 * MIB), false), Upkeep::WriteOut);
        assert_eq!(judge(&many, tight(267 * MIB - 1), false), Upkeep::Nothing);
        // No merge takes more than there is.
        let small = Tables { bytes: 20 * MIB, values: 1 << 40, ..many };
        assert_eq!(judge(&small, tight(21 * MIB), false), Upkeep::WriteOut);
        assert_eq!(judge(&small, tight(21 * MIB - 1), false), Upkeep::Nothing);
    }
}
