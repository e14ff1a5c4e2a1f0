//! Shares: create, properties, quota, metadata, access policies, statistics, snapshots, lease, delete.

use super::FilesService;
use super::call::Call;
use super::failure::{Result, of_share};
use super::place::Place;
use crate::fs::requests::Requests;
use crate::fs::shares::{Grant, ShareInfo, ShareSettings};
use crate::rest::leases::{self, lease_headers};
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::share::Moment;
use crate::share::lease::LeaseDuration;
use crate::store::{ContainerAcl, ContainerName, DeleteSnapshots, StoredPolicy};
use crate::wire::etag::Etag;
use crate::wire::lease::LeaseCommand;
use crate::wire::version::ServiceVersion;
use crate::wire::xml::{self, LeaseFields};
use crate::wire::{ErrorCode, Fault, date, headers};

/// Largest body of Set Share ACL.
const ACL_BODY_MAX: u64 = 64 * 1024;
/// The quota of a share that nobody gave one, in GiB.
const QUOTA_DEFAULT: u64 = 5 * 1024;
/// The largest quota, in GiB.
const QUOTA_MAX: u64 = 100 * 1024;
/// Names of our settings of a share.
const QUOTA: &str = "quota";
const TIER: &str = "tier";
/// The tier of a share that nobody gave one.
const TIER_DEFAULT: &str = "TransactionOptimized";
const TIERS: [&str; 4] = [TIER_DEFAULT, "Hot", "Cool", "Premium"];
/// From this version on usage is told in bytes.
const USAGE_IN_BYTES_SINCE: ServiceVersion = ServiceVersion::of(2018, 11, 9);

impl FilesService {
    /// Create Share.
    pub(super) async fn create_share(&self, call: &Call<'_>, name: &ContainerName) -> Result<Answer> {
        let settings = new_settings(call, ShareSettings::new())?;
        let share = self.shares.create(name, &call.metadata()?, &settings).await.map_err(of_share)?;
        Ok(versioned(Reply::created(), &share).empty())
    }

    /// Get Share Properties.
    pub(super) async fn get_share_properties(&self, call: &Call<'_>, name: &ContainerName) -> Result<Answer> {
        let share = self.share_info(call, name).await?;
        let reply = versioned(Reply::ok(), &share)
            .metadata(&share.metadata)
            .number(headers::SHARE_QUOTA, quota(&share))
            .header(headers::ACCESS_TIER, tier(&share))
            .fixed(headers::ENABLED_PROTOCOLS, "SMB");
        Ok(lease_headers(reply, &share.lease, call.now).empty())
    }

    /// Set Share Properties: quota and tier.
    pub(super) async fn set_share_properties(&self, call: &Call<'_>, name: &ContainerName) -> Result<Answer> {
        let old = self.share_info(call, name).await?;
        let settings = new_settings(call, old.settings)?;
        let share = self.shares.set_settings(name, &settings, call.lease()?).await.map_err(of_share)?;
        Ok(versioned(Reply::ok(), &share).empty())
    }

    /// Get Share Metadata.
    pub(super) async fn get_share_metadata(&self, call: &Call<'_>, name: &ContainerName) -> Result<Answer> {
        let share = self.share_info(call, name).await?;
        Ok(versioned(Reply::ok(), &share).metadata(&share.metadata).empty())
    }

    /// Set Share Metadata.
    pub(super) async fn set_share_metadata(&self, call: &Call<'_>, name: &ContainerName) -> Result<Answer> {
        let share = self.shares.set_metadata(name, &call.metadata()?, call.lease()?).await;
        Ok(versioned(Reply::ok(), &share.map_err(of_share)?).empty())
    }

    /// Get Share ACL.
    pub(super) async fn get_share_acl(&self, call: &Call<'_>, name: &ContainerName) -> Result<Answer> {
        let share = self.share_info(call, name).await?;
        let policies = share.acl.policies.iter().map(|policy| xml::AccessPolicy {
            id: policy.id.clone(),
            start: policy.start.clone(),
            expiry: policy.expiry.clone(),
            permissions: policy.permissions.clone(),
        });
        let body = xml::signed_identifiers(&policies.collect::<Vec<_>>());
        Ok(versioned(Reply::ok(), &share).xml(body))
    }

    /// Set Share ACL.
    pub(super) async fn set_share_acl(&self, call: &mut Call<'_>, name: &ContainerName) -> Result<Answer> {
        let lease = call.lease()?;
        let body = call.whole_body(ACL_BODY_MAX).await?;
        let policies = xml::parse_signed_identifiers(&body)?.into_iter().map(|policy| StoredPolicy {
            id: policy.id,
            start: policy.start,
            expiry: policy.expiry,
            permissions: policy.permissions,
        });
        let policies = policies.collect();
        // What the Blob service lets anybody do with the container is not ours to change.
        let old = self.shares.properties(name, lease).await.map_err(of_share)?;
        let acl = ContainerAcl { access: old.acl.access, policies };
        let share = self.shares.set_acl(name, acl, lease).await.map_err(of_share)?;
        Ok(versioned(Reply::ok(), &share).empty())
    }

    /// Get Share Stats: how much is used.
    pub(super) async fn get_share_stats(&self, call: &Call<'_>, name: &ContainerName) -> Result<Answer> {
        let share = self.share_info(call, name).await?;
        let bytes = self.shares.usage(name).await.map_err(of_share)?;
        let body = xml::share_stats(bytes, call.version < USAGE_IN_BYTES_SINCE);
        Ok(versioned(Reply::ok(), &share).xml(body))
    }

    /// Snapshot Share.
    pub(super) async fn snapshot_share(&self, call: &Call<'_>, name: &ContainerName) -> Result<Answer> {
        let (id, share) = self.shares.snapshot(name, call.metadata_if_any()?).await.map_err(of_share)?;
        let reply = versioned(Reply::created(), &share);
        Ok(reply.header(headers::SNAPSHOT, &date::iso_ticks(id.0)).empty())
    }

    /// Delete Share, or one of its snapshots.
    pub(super) async fn delete_share(&self, call: &Call<'_>, name: &ContainerName) -> Result<Answer> {
        let option = call.header(headers::DELETE_SNAPSHOTS)?;
        let invalid = |text: &str| Fault::invalid_header(headers::DELETE_SNAPSHOTS, text);
        if let Some(snapshot) = call.snapshot()? {
            if let Some(text) = option {
                return Err(invalid(text).into());
            }
            self.shares.delete_snapshot(name, snapshot).await.map_err(of_share)?;
            return Ok(Reply::accepted().empty());
        }
        let snapshots = match option {
            None => DeleteSnapshots::Refuse,
            Some(text)
                if ["include", "include-leased"].iter().any(|word| word.eq_ignore_ascii_case(text)) =>
            {
                DeleteSnapshots::Include
            }
            Some(text) => return Err(invalid(text).into()),
        };
        self.shares.delete(name, snapshots, call.lease()?).await.map_err(of_share)?;
        Ok(Reply::accepted().empty())
    }

    /// Lease Share.
    pub(super) async fn lease_share(&self, call: &Call<'_>, name: &ContainerName) -> Result<Answer> {
        if call.snapshot()?.is_some() {
            return Err(ErrorCode::ShareSnapshotOperationNotSupported.into());
        }
        let command = LeaseCommand::from_headers(call.headers())?;
        let report = self.shares.lease(name, leases::request(command)).await.map_err(of_share)?;
        Ok(leases::reply(command, &report))
    }

    /// Room in a share with a quota for a file of `size` bytes at a place that may have one already. To be kept until
    /// that is done.
    pub(super) async fn room_for(
        &self,
        at: &Place,
        share: &Requests,
        size: Option<u64>,
    ) -> Result<RoomInShare> {
        let Some(size) = size else { return Ok(RoomInShare(None)) };
        let info = self.shares.properties(&at.share, None).await.map_err(of_share)?;
        // Who was given no quota has one that no disk reaches.
        let Some(quota) = info.settings.get(QUOTA).and_then(|text| text.parse::<u64>().ok()) else {
            return Ok(RoomInShare(None));
        };
        let made = self.shares.make_room(&at.share, quota << 30, (share, &at.path), size).await;
        match made.map_err(of_share)? {
            Some(grant) => Ok(RoomInShare(Some(grant))),
            None => Err(ErrorCode::ShareSizeLimitReached.into()),
        }
    }

    /// The share, or the snapshot of it, that a request is about.
    async fn share_info(&self, call: &Call<'_>, name: &ContainerName) -> Result<ShareInfo> {
        let found = match call.snapshot()? {
            None => self.shares.properties(name, call.lease()?).await,
            Some(id) => self.shares.snapshot_properties(name, id).await,
        };
        found.map_err(of_share)
    }
}

/// Room in a share while a file is being made larger; nothing where that needs none.
#[derive(Debug)]
#[must_use = "the room is given back when this is dropped"]
pub(super) struct RoomInShare(Option<Grant>);

impl RoomInShare {
    /// It was used, if what was done with it went well.
    pub(super) fn after<T, E>(self, done: std::result::Result<T, E>) -> std::result::Result<T, E> {
        if let (Some(grant), true) = (self.0, done.is_ok()) {
            grant.used();
        }
        done
    }
}

/// The settings a request asks for; what it does not name stays.
fn new_settings(call: &Call<'_>, mut settings: ShareSettings) -> Result<ShareSettings> {
    if let Some(protocols) = call.header(headers::ENABLED_PROTOCOLS)?
        && !protocols.eq_ignore_ascii_case("SMB")
    {
        return Err(crate::rest::failure::unsupported("A share for other protocols than SMB").into());
    }
    if call.header(headers::ROOT_SQUASH)?.is_some() {
        return Err(Fault::new(ErrorCode::UnsupportedHeader).with("HeaderName", headers::ROOT_SQUASH).into());
    }
    if let Some(text) = call.header(headers::SHARE_QUOTA)? {
        let quota = text.parse::<u64>().ok().filter(|quota| (1..=QUOTA_MAX).contains(quota));
        let quota = quota.ok_or_else(|| Fault::invalid_header(headers::SHARE_QUOTA, text))?;
        settings.insert(QUOTA.to_owned(), quota.to_string());
    }
    if let Some(text) = call.header(headers::ACCESS_TIER)? {
        let known = TIERS.iter().find(|tier| tier.eq_ignore_ascii_case(text));
        let tier = known.ok_or_else(|| Fault::invalid_header(headers::ACCESS_TIER, text))?;
        settings.insert(TIER.to_owned(), (*tier).to_owned());
    }
    Ok(settings)
}

fn versioned(reply: Reply, share: &ShareInfo) -> Reply {
    reply.version(share.etag, share.modified)
}

fn quota(share: &ShareInfo) -> u64 {
    share.settings.get(QUOTA).and_then(|text| text.parse().ok()).unwrap_or(QUOTA_DEFAULT)
}

fn tier(share: &ShareInfo) -> &str {
    share.settings.get(TIER).map_or(TIER_DEFAULT, String::as_str)
}

/// A share as a list shows it.
pub(super) fn share_line(share: ShareInfo, metadata: bool, now: Moment) -> xml::ShareLine {
    xml::ShareLine {
        name: share.name.to_string(),
        snapshot: share.snapshot.map(|id| id.0),
        modified: share.modified,
        etag: Etag(share.etag.0),
        quota: quota(&share),
        tier: tier(&share).to_owned(),
        lease: LeaseFields {
            state: share.lease.state(now),
            infinite: share.lease.duration(now).map(LeaseDuration::is_infinite),
        },
        metadata: metadata.then_some(share.metadata),
    }
}
