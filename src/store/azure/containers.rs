//! Operations on containers and on the service.

use bytes::Bytes;
use http::Method;

use super::AzureStore;
use super::answers::{Reader, access_name, listed_container, number_of, parse_access};
use super::client::{Call, Payload, Target};
use crate::share::lease::{Lease, LeaseId};
use crate::store::{
    ContainerAcl, ContainerName, ContainerProperties, Limit, Metadata, POLICIES_MAX, Preconditions,
    PublicAccess, Result, StoreError, StoredPolicy,
};
use crate::wire::{ErrorCode, headers, metadata, xml};

impl Call {
    /// A request about a container.
    pub(super) fn on_container(method: Method, name: &ContainerName) -> Self {
        Call::new(method, name).query("restype", "container")
    }

    /// With metadata.
    pub(super) fn metadata(self, pairs: &Metadata) -> Result<Self> {
        let mut call = self;
        for (name, value) in metadata::to_headers(pairs) {
            call = call.header(&name, value)?;
        }
        Ok(call)
    }
}

impl AzureStore {
    pub(super) async fn create(
        &self,
        name: &ContainerName,
        metadata: Metadata,
        access: PublicAccess,
    ) -> Result<ContainerProperties> {
        let call = Call::on_container(Method::PUT, name)
            .metadata(&metadata)?
            .maybe_header(headers::BLOB_PUBLIC_ACCESS, access_name(access))?;
        let answer = match self.client.send(&call).await {
            Ok(answer) => answer,
            // Our own first attempt made it.
            Err(failure) if failure.lost && failure.code() == Some(ErrorCode::ContainerAlreadyExists) => {
                return self.properties_of(name, None).await;
            }
            Err(failure) => return Err(failure.about(name)),
        };
        let reader = Reader(&answer.headers);
        Ok(ContainerProperties {
            name: name.clone(),
            id: number_of(name, ""),
            etag: reader.etag()?,
            modified: reader.modified()?,
            metadata,
            acl: ContainerAcl { access, policies: Vec::new() },
            lease: Lease::default(),
        })
    }

    /// Properties and policies: two requests, because the service tells them apart.
    pub(super) async fn properties_of(
        &self,
        name: &ContainerName,
        lease: Option<LeaseId>,
    ) -> Result<ContainerProperties> {
        let call = Call::on_container(Method::HEAD, name).lease(lease)?;
        let answer = self.client.send(&call).await.map_err(|failure| about(*failure, name))?;
        let mut properties = Reader(&answer.headers).container(name)?;
        let call = Call::on_container(Method::GET, name).query("comp", "acl");
        match self.client.send(&call).await {
            Ok(answer) => {
                let access = parse_access(Reader(&answer.headers).text(headers::BLOB_PUBLIC_ACCESS));
                properties.acl = ContainerAcl { access, policies: policies(&answer.body)? };
            }
            // Only the account's key may read policies; everybody else does without.
            Err(failure) if failure.code().is_some_and(|code| code.status() == 403) => {}
            Err(failure) => return Err(failure.about(name)),
        }
        Ok(properties)
    }

    pub(super) async fn set_metadata_of(
        &self,
        name: &ContainerName,
        metadata: Metadata,
        conditions: &Preconditions,
    ) -> Result<ContainerProperties> {
        let call = Call::on_container(Method::PUT, name)
            .query("comp", "metadata")
            .metadata(&metadata)?
            .container_conditions(conditions)?;
        self.client.send(&call).await.map_err(|failure| about(*failure, name))?;
        self.properties_of(name, None).await
    }

    pub(super) async fn set_acl_of(
        &self,
        name: &ContainerName,
        acl: ContainerAcl,
        conditions: &Preconditions,
    ) -> Result<ContainerProperties> {
        if acl.policies.len() > POLICIES_MAX {
            return Err(StoreError::LimitExceeded(Limit::Policies));
        }
        let list: Vec<_> = acl.policies.iter().map(to_wire).collect();
        let call = Call::on_container(Method::PUT, name)
            .query("comp", "acl")
            .maybe_header(headers::BLOB_PUBLIC_ACCESS, access_name(acl.access))?
            .container_conditions(conditions)?
            .body(Payload::Bytes(xml::signed_identifiers(&list).into()));
        self.client.send(&call).await.map_err(|failure| about(*failure, name))?;
        self.properties_of(name, None).await
    }

    pub(super) async fn delete(&self, name: &ContainerName, conditions: &Preconditions) -> Result<()> {
        let call = Call::on_container(Method::DELETE, name).container_conditions(conditions)?;
        match self.client.send(&call).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.lost && failure.code() == Some(ErrorCode::ContainerNotFound) => Ok(()),
            Err(failure) => Err(about(*failure, name)),
        }
    }

    pub(super) async fn list(
        &self,
        prefix: &str,
        marker: Option<&str>,
        max: usize,
    ) -> Result<(Vec<ContainerProperties>, Option<String>)> {
        let call = Call::new(Method::GET, Target::Service)
            .query("comp", "list")
            .query("include", "metadata")
            .query("maxresults", max.to_string())
            .maybe_query("prefix", (!prefix.is_empty()).then_some(prefix))
            .maybe_query("marker", marker);
        let answer = self.client.send(&call).await.map_err(|failure| failure.about(&prefix))?;
        let page =
            xml::parse_container_list(&answer.body).map_err(|fault| super::blobs::unreadable(&fault))?;
        let lines = page.lines.into_iter().map(listed_container).collect::<Result<_>>()?;
        Ok((lines, page.next))
    }

    pub(super) async fn settings(&self) -> Result<Option<Bytes>> {
        let call =
            Call::new(Method::GET, Target::Service).query("restype", "service").query("comp", "properties");
        let answer = self.client.send(&call).await.map_err(|failure| failure.about(&"the service"))?;
        Ok(Some(answer.body))
    }

    pub(super) async fn set_settings(&self, document: Bytes) -> Result<()> {
        let call = Call::new(Method::PUT, Target::Service)
            .query("restype", "service")
            .query("comp", "properties")
            .body(Payload::Bytes(document));
        self.client.send(&call).await.map_err(|failure| failure.about(&"the service")).map(|_| ())
    }
}

/// An answer to HEAD has no code in its body, so "not found" is about the container here.
fn about(failure: super::failure::Failure, name: &ContainerName) -> StoreError {
    match failure.code() {
        Some(ErrorCode::ResourceNotFound | ErrorCode::BlobNotFound) => {
            StoreError::ContainerNotFound(name.to_string())
        }
        _ => failure.about(name),
    }
}

fn policies(body: &[u8]) -> Result<Vec<StoredPolicy>> {
    let list = xml::parse_signed_identifiers(body).map_err(|fault| super::blobs::unreadable(&fault))?;
    let policy = |policy: xml::AccessPolicy| StoredPolicy {
        id: policy.id,
        start: policy.start,
        expiry: policy.expiry,
        permissions: policy.permissions,
    };
    Ok(list.into_iter().map(policy).collect())
}

fn to_wire(policy: &StoredPolicy) -> xml::AccessPolicy {
    xml::AccessPolicy {
        id: policy.id.clone(),
        start: policy.start.clone(),
        expiry: policy.expiry.clone(),
        permissions: policy.permissions.clone(),
    }
}
