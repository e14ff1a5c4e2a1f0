//! Whether an open file has set-id bits, which change by those without the privilege to keep them drops.
//!
//! The kernel says of every write by such a program that it lacks the privilege, whatever the file's mode, so this is
//! asked before each of them: it answers from memory and never asks the store. "Maybe" is a right answer, "no" for a file
//! that has them is not.

use std::sync::atomic::Ordering;

use super::super::attributes::Attributes;
use super::OpenFile;

impl OpenFile {
    /// Whether a change of the content may have to drop a set-id bit.
    pub fn may_have_set_id(&self) -> bool {
        if self.other_attributes.load(Ordering::Acquire) {
            return true;
        }
        let state = self.state.read();
        match &state.nameless {
            Some(attributes) => attributes.has_set_id(),
            None => Attributes::has_set_id_in(&state.base.metadata),
        }
    }

    /// Notes that the blob may have other attributes than the version that the content began with.
    pub fn doubt_attributes(&self) {
        self.other_attributes.store(true, Ordering::Release);
    }
}
