//! The list of all cases, for whoever runs them.

/// Hands the list to the macro named.
macro_rules! every_case {
    ($run:ident) => {
        $run! {
            containers: made_once_listed_and_deleted metadata_changes_the_tag_and_blobs_do_not
                conditions_and_leases_on_delete a_deleted_container_takes_its_blobs_along;
            blobs: small_and_big_come_back ranges metadata_and_headers deletes_and_missing_blobs
                put_replaces_everything tags_only_grow md5_is_kept;
            conditions: create_only_if_absent change_only_that_version reads_say_not_modified
                star_and_missing_blobs unsupported_combinations lease_before_conditions;
            blocks: staged_blocks_are_invisible_until_committed lists_mix_old_and_new
                replaced_and_dropped_blocks bad_ids_and_lists put_blob_drops_staged_blocks
                leases_guard_staged_blocks big_and_small_blocks_together;
            copies: copies_are_independent copy_conditions snapshots_keep_old_versions
                deletes_and_snapshots snapshots_follow_the_name copies_remember_where_they_came_from
                copies_need_an_infinite_lease_if_asked copies_of_snapshots no_copy_is_ever_under_way
                blocks_from_other_blobs;
            leases: every_action_in_every_state writes_need_the_id expiry_and_renewal
                breaking a_staged_name_can_be_leased container_leases leases_keep_the_tag;
            listing: flat_order_and_pages folded_at_slashes folded_at_other_text prefixes_and_markers
                names_with_trailing_slash snapshots_before_their_blob uncommitted_names;
            appends: blocks_follow_each_other append_conditions sealed_blobs_take_no_more
                appended_copies_and_snapshots_go_their_own_way other_kinds_are_refused
                a_big_append_comes_back appends_are_guarded_like_writes;
            pages: a_new_page_blob_is_zeros pages_are_written_and_cleared bad_ranges_are_refused
                sequence_numbers page_conditions resizing snapshots_and_differences copies_of_page_blobs
                many_small_writes;
            settings: access_and_policies service_settings tiers archived_content_is_not_read stored_md5;
            tags: tags_are_set_and_replaced tags_are_a_condition found_by_tags lease_and_tags;
        }
    };
}
pub(crate) use every_case;
