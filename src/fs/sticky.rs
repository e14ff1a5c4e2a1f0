//! The attributes of leasefs itself: `user.leasefs.share`, a sticky share policy for a file or for all below a
//! directory, and `user.leasefs.holders`, which shows who has a file open.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::share::{Access, ShareMode};
use crate::store::Metadata;

use super::Engine;
use super::attributes::{xattr_decode, xattr_key};
use super::error::{FsError, Result};
use super::names::Segment;
use super::nodes::{Ino, ROOT};
use super::policy::SharePolicy;

/// Names below this belong to leasefs (after `user.`).
const OURS: &str = "leasefs.";
const SHARE: &str = "leasefs.share";
const HOLDERS: &str = "leasefs.holders";

/// So many directories' attributes are remembered.
const REMEMBERED_MAX: usize = 16_384;
/// For so long, should somebody else change them.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);

/// What directories say about share policies, remembered for a moment because every open for writing asks.
#[derive(Debug, Default)]
pub(super) struct Stickies {
    known: Mutex<HashMap<Ino, (Instant, Option<SharePolicy>)>>,
}

impl Stickies {
    fn get(&self, ino: Ino, now: Instant) -> Option<Option<SharePolicy>> {
        let known = self.known.lock();
        let (at, policy) = known.get(&ino)?;
        (now.duration_since(*at) < REMEMBERED_FOR).then_some(*policy)
    }

    fn put(&self, ino: Ino, now: Instant, policy: Option<SharePolicy>) {
        let mut known = self.known.lock();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(ino, (now, policy));
    }

    /// The attributes of `ino` were changed.
    pub(super) fn forget(&self, ino: Ino) {
        self.known.lock().remove(&ino);
    }
}

/// Whether a program may set an attribute to this. `name` is what follows `user.`.
pub(super) fn may_set(name: &str, value: &[u8]) -> Result<()> {
    match name {
        SHARE => parse(value).map(drop).ok_or(FsError::Invalid("one of shared, deny-write, exclusive")),
        _ if name.starts_with(OURS) => Err(FsError::NotPermitted("the attribute belongs to leasefs")),
        _ => Ok(()),
    }
}

/// Whether this is the attribute that shows the holders.
pub(super) fn is_holders(name: &str) -> bool {
    name == HOLDERS
}

fn parse(value: &[u8]) -> Option<SharePolicy> {
    std::str::from_utf8(value).ok()?.trim_end_matches('\0').parse().ok()
}

fn sticky(metadata: &Metadata) -> Option<SharePolicy> {
    metadata.get(&xattr_key(SHARE)).and_then(|text| parse(&xattr_decode(text)?))
}

impl Engine {
    /// The share mode of an open of `ino` by a program that cannot ask for one.
    pub(super) async fn share_mode_of(&self, ino: Ino, access: Access) -> Result<ShareMode> {
        if !access.contains(Access::WRITE) {
            return Ok(ShareMode::ALL);
        }
        // A file without a name has no policy, and the gate knows its opens.
        let Some((parent, segment)) = self.nodes.place(ino) else { return Ok(ShareMode::ALL) };
        let own = {
            let _path = self.path_stays(ino).await;
            let Ok(Some(name)) = self.nodes.blob_name(ino) else { return Ok(ShareMode::ALL) };
            self.local()?.find(&self.at(name))?.blob.and_then(|blob| sticky(&blob.metadata))
        };
        match own {
            Some(policy) => Ok(policy.share_mode(access)),
            None => self.share_mode_in(parent, &segment, access).await,
        }
    }

    /// The same for a file that is just being made, and has no attributes yet.
    pub(super) async fn share_mode_in(
        &self,
        parent: Ino,
        segment: &Segment,
        access: Access,
    ) -> Result<ShareMode> {
        if !access.contains(Access::WRITE) {
            return Ok(ShareMode::ALL);
        }
        let mut at = parent;
        loop {
            if let Some(policy) = self.sticky_of(at).await? {
                return Ok(policy.share_mode(access));
            }
            if at == ROOT {
                break;
            }
            at = self.parent(at);
        }
        let policies = &self.config.policies;
        let policy = if policies.need_path() {
            policies.of_path(self.child_path(parent, segment)?.trim_start_matches('/'))
        } else {
            policies.default_policy()
        };
        Ok(policy.share_mode(access))
    }

    /// What the directory `ino` itself says.
    async fn sticky_of(&self, ino: Ino) -> Result<Option<SharePolicy>> {
        let now = Instant::now();
        if let Some(known) = self.stickies.get(ino, now) {
            return Ok(known);
        }
        let policy = sticky(&self.metadata(ino).await?);
        self.stickies.put(ino, now, policy);
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_policies_can_be_set() {
        assert!(may_set("leasefs.share", b"exclusive").is_ok());
        assert!(may_set("leasefs.share", b"exclusive\0").is_ok(), "as C programs write it");
        assert!(matches!(may_set("leasefs.share", b"none"), Err(FsError::Invalid(_))));
        assert!(matches!(may_set("leasefs.share", b"\xff"), Err(FsError::Invalid(_))));
        assert!(matches!(may_set("leasefs.holders", b""), Err(FsError::NotPermitted(_))));
        assert!(matches!(may_set("leasefs.new", b""), Err(FsError::NotPermitted(_))));
        assert!(may_set("other", b"x").is_ok());
    }
}
