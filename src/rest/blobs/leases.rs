//! Lease Blob and Lease Container: five actions, one request shape.

use super::BlobService;
use super::call::Call;
use super::failure::Result;
use crate::rest::leases::{reply, request};
use crate::rest::server::Answer;
use crate::store::{BlobPath, ContainerName};
use crate::wire::ErrorCode;
use crate::wire::lease::LeaseCommand;

impl BlobService {
    /// Lease Blob.
    pub(super) async fn lease_blob(&self, call: &Call<'_>, at: &BlobPath) -> Result<Answer> {
        if call.snapshot()?.is_some() {
            return Err(ErrorCode::InvalidOperation.into());
        }
        let command = LeaseCommand::from_headers(call.headers())?;
        let conditions = call.write_conditions()?.without_lease();
        let report = self.store.lease_blob(at, request(command), &conditions).await?;
        Ok(reply(command, &report))
    }

    /// Lease Container.
    pub(super) async fn lease_container(&self, call: &Call<'_>, name: &ContainerName) -> Result<Answer> {
        let command = LeaseCommand::from_headers(call.headers())?;
        let conditions = call.container_conditions()?.without_lease();
        let report = self.store.lease_container(name, request(command), &conditions).await?;
        Ok(reply(command, &report))
    }
}
