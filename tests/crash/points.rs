//! The named points: which there are, how each is reached, and which a mount cannot reach.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// How a point is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the script of operations, or by the unmount that follows it.
    Script,
    /// The same, with removes that free the name at once.
    PosixScript,
    /// The same; only where the kernel reads and writes content files itself.
    KernelScript,
    /// By the first start in an empty directory.
    FirstStart,
    /// By the start after a crash that left something to finish.
    NextStart,
}

/// Every point that a mount reaches, how, and the counts at which the daemon dies there: `1` is the first time.
pub const REACHED: &[(&str, Way, &[u32])] = &[
    // The engine.
    ("create_after_publish", Way::Script, &[1, 3]),
    ("make_after_put", Way::Script, &[1, 3]),
    ("commit_after_publish", Way::Script, &[1, 4, 7]),
    ("commit_after_patch", Way::Script, &[1, 2]),
    ("release_after_commit", Way::Script, &[1, 5]),
    ("truncate_after_publish", Way::Script, &[1, 2]),
    ("write_after_take_over", Way::KernelScript, &[1]),
    ("fsync_after_data_sync", Way::Script, &[1, 2]),
    ("fsync_after_commit", Way::Script, &[1, 2, 4]),
    ("unlink_after_delete", Way::Script, &[1]),
    ("unlink_after_mark", Way::Script, &[1, 2]),
    ("undelete_after_unmark", Way::Script, &[1]),
    ("unlink_after_detach", Way::PosixScript, &[1]),
    ("finish_remove_after_delete", Way::Script, &[1, 2]),
    ("rmdir_after_delete", Way::Script, &[1]),
    ("rename_after_move", Way::Script, &[1, 3, 4, 5, 6, 7, 8, 9, 10]),
    ("rename_after_marks", Way::Script, &[1, 2, 4, 5]),
    ("drain_after_commits", Way::Script, &[1]),
    ("drain_after_times", Way::Script, &[1]),
    ("finish_old_remove_after_delete", Way::NextStart, &[1]),
    // The store.
    ("create_container_before_batch", Way::FirstStart, &[1]),
    ("create_container_after_batch", Way::FirstStart, &[1]),
    ("startup_after_format_new", Way::FirstStart, &[1]),
    ("startup_after_kv", Way::FirstStart, &[1]),
    ("leftovers_before_unlink", Way::NextStart, &[1]),
    ("set_container_metadata_before_batch", Way::Script, &[1]),
    ("set_container_metadata_after_batch", Way::Script, &[1]),
    ("put_blob_before_batch", Way::Script, &[1, 3, 6]),
    ("put_blob_after_batch", Way::Script, &[1, 3, 6]),
    ("publish_after_read", Way::Script, &[1, 2, 4, 8]),
    ("publish_before_batch", Way::Script, &[1, 2, 4, 8]),
    ("publish_after_batch", Way::Script, &[1, 2, 4, 8]),
    ("patch_after_base", Way::Script, &[1, 2]),
    ("patch_before_batch", Way::Script, &[1, 2]),
    ("patch_after_batch", Way::Script, &[1, 2]),
    ("set_metadata_before_batch", Way::Script, &[1, 2, 3]),
    ("set_metadata_after_batch", Way::Script, &[1, 2, 3]),
    ("rename_before_batch", Way::Script, &[1, 5, 9, 10]),
    ("rename_after_batch", Way::Script, &[1, 5, 9, 10]),
    ("delete_before_batch", Way::Script, &[1, 2, 4]),
    ("delete_after_batch", Way::Script, &[1, 2, 4]),
    ("delete_before_unlink", Way::Script, &[1]),
    ("give_back_after_release", Way::Script, &[1, 2]),
    ("take_over_after_copy", Way::KernelScript, &[1]),
    ("take_over_before_batch", Way::KernelScript, &[1]),
    ("take_over_after_batch", Way::KernelScript, &[1]),
    ("tidy_after_first_sync", Way::Script, &[1]),
    ("tidy_after_piece", Way::Script, &[1]),
    ("tidy_after_write", Way::Script, &[1]),
    ("tidy_after_rewrite", Way::Script, &[1]),
    ("tidy_before_batch", Way::Script, &[1, 2]),
    ("tidy_after_batch", Way::Script, &[1, 2]),
    ("sync_after_content", Way::Script, &[1, 2]),
    ("sync_after_journal", Way::Script, &[1, 2]),
    ("checkpoint_after_files", Way::Script, &[1]),
];

/// Points of operations that no mount asks for; the store's own crash tests reach them.
pub const NOT_REACHED: &[(&str, &str)] = &[
    ("put_blob_after_write", "a mount puts only links and marks, which are in the index"),
    ("put_block_after_write", "a mount stages no blocks"),
    ("put_block_before_batch", "a mount stages no blocks"),
    ("put_block_after_batch", "a mount stages no blocks"),
    ("put_block_list_before_batch", "a mount commits no block lists"),
    ("put_block_list_after_batch", "a mount commits no block lists"),
    ("copy_after_write", "a mount copies bytes, not blobs"),
    ("copy_before_batch", "a mount copies bytes, not blobs"),
    ("copy_after_batch", "a mount copies bytes, not blobs"),
    ("snapshot_before_batch", "a mount takes no snapshots"),
    ("snapshot_after_batch", "a mount takes no snapshots"),
    ("delete_snapshot_before_batch", "a mount has no snapshots to delete"),
    ("delete_snapshot_after_batch", "a mount has no snapshots to delete"),
    ("snapshot_container_after_copy", "a mount takes no snapshots of the share"),
    ("snapshot_container_step_before_batch", "a mount takes no snapshots of the share"),
    ("snapshot_container_step_after_batch", "a mount takes no snapshots of the share"),
    ("snapshot_container_before_batch", "a mount takes no snapshots of the share"),
    ("snapshot_container_after_batch", "a mount takes no snapshots of the share"),
    ("delete_container_snapshot_before_batch", "a mount takes no snapshots of the share"),
    ("delete_container_snapshot_after_batch", "a mount takes no snapshots of the share"),
    ("set_headers_before_batch", "a mount changes headers only with the content"),
    ("set_headers_after_batch", "a mount changes headers only with the content"),
    ("lease_before_batch", "a mount takes no leases"),
    ("lease_after_batch", "a mount takes no leases"),
    ("lease_container_before_batch", "a mount takes no leases"),
    ("lease_container_after_batch", "a mount takes no leases"),
    ("delete_container_before_batch", "a mount deletes no containers"),
    ("delete_container_after_batch", "a mount deletes no containers"),
    ("purge_before_batch", "a mount deletes no containers"),
    ("purge_after_batch", "a mount deletes no containers"),
    ("create_append_before_batch", "a mount appends to files, not to append blobs"),
    ("create_append_after_batch", "a mount appends to files, not to append blobs"),
    ("append_after_write", "a mount appends to files, not to append blobs"),
    ("append_before_batch", "a mount appends to files, not to append blobs"),
    ("append_after_batch", "a mount appends to files, not to append blobs"),
    ("seal_before_batch", "a mount appends to files, not to append blobs"),
    ("seal_after_batch", "a mount appends to files, not to append blobs"),
    ("create_pages_before_batch", "a mount makes no page blobs"),
    ("create_pages_after_batch", "a mount makes no page blobs"),
    ("put_pages_after_write", "a mount makes no page blobs"),
    ("put_pages_before_batch", "a mount makes no page blobs"),
    ("put_pages_after_batch", "a mount makes no page blobs"),
    ("set_tier_before_batch", "a mount sets no tiers"),
    ("set_tier_after_batch", "a mount sets no tiers"),
    ("set_tags_before_batch", "a mount sets no tags"),
    ("set_tags_after_batch", "a mount sets no tags"),
    ("set_acl_before_batch", "a mount sets no access policies"),
    ("set_acl_after_batch", "a mount sets no access policies"),
    ("set_service_before_batch", "a mount sets no service properties"),
    ("set_service_after_batch", "a mount sets no service properties"),
    ("adopt_before_batch", "a mirror takes a version over: tests/mirror/crashes.rs"),
    ("adopt_after_batch", "a mirror takes a version over: tests/mirror/crashes.rs"),
    ("fill_before_batch", "content comes to a mirror; it is only a cache"),
    ("fill_after_batch", "content comes to a mirror; it is only a cache"),
    ("push_after_note", "remote shares: tests/remote_crash.rs"),
    ("push_later_after_note", "remote shares: tests/remote_crash.rs"),
    ("remove_there_after_delete", "remote shares: tests/remote_crash.rs"),
    ("rename_there_after_move", "remote shares: tests/remote_crash.rs"),
    ("rename_there_after_state", "remote shares: tests/remote_crash.rs"),
    ("rename_there_after_here", "remote shares: tests/remote_crash.rs"),
    ("exchange_before_here", "remote shares: tests/remote_crash.rs"),
    ("push_before_commit", "remote shares: tests/mirror/crashes.rs"),
    ("push_after_commit", "remote shares: tests/mirror/crashes.rs"),
    ("rename_after_note", "remote shares: tests/mirror/crashes.rs"),
    ("rename_after_copy", "remote shares: tests/mirror/crashes.rs"),
    ("exchange_after_aside", "remote shares: tests/mirror/crashes.rs"),
    ("exchange_after_copy", "remote shares: tests/mirror/crashes.rs"),
    ("exchange_before_leg", "remote shares: tests/mirror/crashes.rs"),
    ("exchange_after_legs", "remote shares: tests/mirror/crashes.rs"),
];

/// The names of all points in the sources.
pub fn in_sources() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    scan(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut names);
    names
}

fn scan(path: &Path, names: &mut BTreeSet<String>) {
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| scan(&entry.unwrap().path(), names));
        return;
    }
    let text = fs::read_to_string(path).unwrap();
    // Unit tests of a file come last in it, and their points are not real.
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let literals = |before: &'static str| {
        let parts = product.split(before).skip(1);
        parts.filter_map(|rest| rest.split_once('"').map(|(name, _)| name.to_owned()))
    };
    names.extend(literals("crash_point(\""));
    for operation in literals("points!(\"") {
        names.insert(format!("{operation}_before_batch"));
        names.insert(format!("{operation}_after_batch"));
    }
}
