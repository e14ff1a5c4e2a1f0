//! Copies inside the service.

use std::sync::Arc;
use std::time::Duration;

use http::Method;

use super::AzureStore;
use super::answers::{Reader, kind_name, tier_name};
use super::blobs::pairs;
use super::client::Call;
use super::conditions::is_conditional;
use crate::share::lease::LeaseId;
use crate::store::{
    BlobKind, BlobPath, BlobProperties, CopyRequest, CopySource, Preconditions, Result, StoreError,
};
use crate::wire::{ErrorCode, headers, tags};

/// How often a copy under way is looked at.
const POLL: Duration = Duration::from_millis(500);
/// How long a copy may take.
const PATIENCE: Duration = Duration::from_secs(600);

impl AzureStore {
    /// Copy Blob, waited for until it is done. It asks for an infinite lease on a leased target; where the caller says
    /// that a finite one will do, or gives headers, one of the synchronous forms.
    pub(super) async fn copy(
        &self,
        source: &CopySource,
        to: &BlobPath,
        request: CopyRequest,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let finite_lease = conditions.lease.is_some() && !request.infinite_lease;
        let synchronous = finite_lease || request.headers.is_some();
        let url = self.client.source_url(&source.at, source.snapshot.map(|id| id.0), synchronous)?;
        let tags = (!request.tags.is_empty()).then(|| tags::to_header(&pairs(&request.tags)));
        let own_metadata = request.metadata.is_some();
        let call = Call::new(Method::PUT, to)
            .header(headers::COPY_SOURCE, url)?
            .metadata(&request.metadata.unwrap_or_default())?
            .maybe_header(headers::TAGS, tags)?
            .maybe_header(headers::ACCESS_TIER, request.tier.map(tier_name))?
            .source_conditions(&source.conditions)?
            .conditions(conditions)?;
        // The source's metadata is copied only if none is given, so then there is no place for a token.
        let (mut call, token) = match own_metadata {
            true => call.write_token(conditions)?,
            false if is_conditional(conditions) => (call.once(), None),
            false => (call, None),
        };
        if request.seal {
            call = call.header(headers::SEAL_BLOB, "true")?;
        }
        if let Some(stored) = &request.headers {
            call = call.header(headers::BLOB_TYPE, kind_name(BlobKind::Block))?.blob_headers(stored, None)?;
        } else if synchronous {
            call = call.header(headers::REQUIRES_SYNC, "true")?;
        }
        let mut status = match (self.client.send(&call).await, token) {
            (Ok(answer), _) => Reader(&answer.headers).text(headers::COPY_STATUS).map(str::to_owned),
            // Refused because of its own success, or not answered at all: what is there tells.
            (Err(failure), Some(token)) if failure.lost => match self.written_with(to, &token).await {
                // Looked at below, where it may still be under way.
                Some(_) => Some("pending".to_owned()),
                None => return Err(failure.about(to)),
            },
            (Err(failure), _) if failure.code() == Some(ErrorCode::CannotVerifyCopySource) => {
                return Err(StoreError::BlobNotFound(source.at.to_string()));
            }
            (Err(failure), _) => return Err(failure.about(to)),
        };
        let start = std::time::Instant::now();
        while status.as_deref() == Some("pending") {
            if start.elapsed() > PATIENCE {
                return Err(super::answers::nonsense("a copy that does not end"));
            }
            tokio::time::sleep(POLL).await;
            let answer = self.client.send(&Call::new(Method::HEAD, to)).await;
            let answer = answer.map_err(|failure| failure.about(to))?;
            status = Reader(&answer.headers).text(headers::COPY_STATUS).map(str::to_owned);
        }
        match status.as_deref() {
            None | Some("success") => self.properties(to, None, &Preconditions::default()).await,
            Some(other) => Err(super::answers::nonsense(&format!("a copy that ended as {other}"))),
        }
    }

    pub(super) async fn end_copy(&self, at: &BlobPath, copy_id: &str, lease: Option<LeaseId>) -> Result<()> {
        let call = Call::new(Method::PUT, at)
            .query("comp", "copy")
            .query("copyid", copy_id)
            .header(headers::COPY_ACTION, "abort")?
            .lease(lease)?;
        self.client.send(&call).await.map_err(|failure| failure.about(at)).map(|_| ())
    }
}
