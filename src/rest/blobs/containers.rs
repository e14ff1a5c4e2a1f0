//! Containers: create, properties, metadata, access, delete.

use super::BlobService;
use super::call::Call;
use super::failure::Result;
use crate::rest::leases::lease_headers;
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::store::{
    ContainerAcl, ContainerName, ContainerProperties, Preconditions, PublicAccess, StoredPolicy,
};
use crate::wire::{ErrorCode, Fault, headers, xml};

/// Largest body of Set Container ACL.
const ACL_BODY_MAX: u64 = 64 * 1024;

impl BlobService {
    /// Create Container.
    pub(super) async fn create_container(&self, call: &Call<'_>, name: &ContainerName) -> Result<Answer> {
        call.refuse_unsupported()?;
        let container = self.store.create_container(name, call.metadata()?, public_access(call)?).await?;
        Ok(Reply::created().version(container.etag, container.modified).empty())
    }

    /// Get Container Properties.
    pub(super) async fn get_container_properties(
        &self,
        call: &Call<'_>,
        name: &ContainerName,
    ) -> Result<Answer> {
        let container = self.store.container_properties(name, call.lease()?).await?;
        let reply = Reply::ok()
            .version(container.etag, container.modified)
            .metadata(&container.metadata)
            .maybe(headers::BLOB_PUBLIC_ACCESS, access_name(container.acl.access))
            .fixed(headers::HAS_IMMUTABILITY_POLICY, "false")
            .fixed(headers::HAS_LEGAL_HOLD, "false")
            .fixed(headers::IMMUTABLE_STORAGE_WITH_VERSIONING_ENABLED, "false")
            .fixed(headers::DEFAULT_ENCRYPTION_SCOPE, "$account-encryption-key")
            .fixed(headers::DENY_ENCRYPTION_SCOPE_OVERRIDE, "false");
        Ok(lease_headers(reply, &container.lease, call.now).empty())
    }

    /// Get Container Metadata.
    pub(super) async fn get_container_metadata(
        &self,
        call: &Call<'_>,
        name: &ContainerName,
    ) -> Result<Answer> {
        let container = self.store.container_properties(name, call.lease()?).await?;
        Ok(versioned(&container).metadata(&container.metadata).empty())
    }

    /// Set Container Metadata.
    pub(super) async fn set_container_metadata(
        &self,
        call: &Call<'_>,
        name: &ContainerName,
    ) -> Result<Answer> {
        let conditions = call.container_conditions()?;
        let container = self.store.set_container_metadata(name, call.metadata()?, &conditions).await?;
        Ok(versioned(&container).empty())
    }

    /// Get Container ACL.
    pub(super) async fn get_container_acl(&self, call: &Call<'_>, name: &ContainerName) -> Result<Answer> {
        let container = self.store.container_properties(name, call.lease()?).await?;
        let policies = container.acl.policies.iter().map(|policy| xml::AccessPolicy {
            id: policy.id.clone(),
            start: policy.start.clone(),
            expiry: policy.expiry.clone(),
            permissions: policy.permissions.clone(),
        });
        let reply =
            versioned(&container).maybe(headers::BLOB_PUBLIC_ACCESS, access_name(container.acl.access));
        Ok(reply.xml(xml::signed_identifiers(&policies.collect::<Vec<_>>())))
    }

    /// Set Container ACL.
    pub(super) async fn set_container_acl(
        &self,
        call: &mut Call<'_>,
        name: &ContainerName,
    ) -> Result<Answer> {
        let (access, conditions) = (public_access(call)?, call.container_conditions()?);
        let body = call.whole_body(ACL_BODY_MAX).await?;
        let policies = xml::parse_signed_identifiers(&body)?.into_iter().map(|policy| StoredPolicy {
            id: policy.id,
            start: policy.start,
            expiry: policy.expiry,
            permissions: policy.permissions,
        });
        let acl = ContainerAcl { access, policies: policies.collect() };
        let container = self.store.set_container_acl(name, acl, &conditions).await?;
        Ok(versioned(&container).empty())
    }

    /// Delete Container.
    pub(super) async fn delete_container(&self, call: &Call<'_>, name: &ContainerName) -> Result<Answer> {
        self.store.delete_container(name, &call.container_conditions()?).await?;
        Ok(Reply::accepted().empty())
    }
}

impl Call<'_> {
    /// Conditions of a change to a container: the lease and dates. The service knows no ETag conditions here, and
    /// ignoring one that was meant would be worse than saying so.
    pub(super) fn container_conditions(&self) -> Result<Preconditions> {
        let all = self.write_conditions()?;
        if all.if_match.is_some() || all.if_none_match.is_some() || all.if_tags.is_some() {
            return Err(Fault::new(ErrorCode::ConditionHeadersNotSupported)
                .saying("Containers take conditions on dates and leases only.")
                .into());
        }
        Ok(all)
    }
}

fn versioned(container: &ContainerProperties) -> Reply {
    Reply::ok().version(container.etag, container.modified)
}

fn public_access(call: &Call<'_>) -> Result<PublicAccess> {
    match call.header(headers::BLOB_PUBLIC_ACCESS)? {
        None => Ok(PublicAccess::None),
        Some(text) if text.eq_ignore_ascii_case("blob") => Ok(PublicAccess::Blob),
        Some(text) if text.eq_ignore_ascii_case("container") => Ok(PublicAccess::Container),
        Some(text) => Err(Fault::invalid_header(headers::BLOB_PUBLIC_ACCESS, text).into()),
    }
}

/// The access's name on the wire; private containers have none.
pub(super) fn access_name(access: PublicAccess) -> Option<&'static str> {
    match access {
        PublicAccess::None => None,
        PublicAccess::Blob => Some("blob"),
        PublicAccess::Container => Some("container"),
    }
}
