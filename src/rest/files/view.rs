//! What a read looks at: a share as it is, or a snapshot of it. The calls are the same.

use super::FilesService;
use super::call::Call;
use super::failure::Result;
use super::place::Place;
use crate::fs::requests::{Entry, FilePath, Frozen, ListRequest, Listing, Reading, Requests};
use crate::share::lease::LeaseId;
use crate::store::{ContainerName, SnapshotId};

/// A share, or a snapshot of one, for reading.
pub(super) enum View {
    Live(Requests),
    Frozen(Frozen),
}

impl FilesService {
    /// Calls on a share that exists.
    pub(super) async fn share(&self, call: &Call<'_>, name: &ContainerName) -> Result<Requests> {
        Ok(self.shares.open(name).await?.from_client(call.caller.peer.ip().to_canonical()))
    }

    /// What the URL of a request names.
    pub(super) async fn view(&self, call: &Call<'_>, place: &Place) -> Result<View> {
        self.view_of(call, &place.share, call.snapshot()?).await
    }

    /// A share, or a snapshot of it.
    pub(super) async fn view_of(
        &self,
        call: &Call<'_>,
        share: &ContainerName,
        snapshot: Option<SnapshotId>,
    ) -> Result<View> {
        match snapshot {
            None => Ok(View::Live(self.share(call, share).await?)),
            Some(id) => Ok(View::Frozen(self.shares.frozen(share, id).await?)),
        }
    }
}

impl View {
    pub(super) async fn file_properties(&self, path: &FilePath, lease: Option<LeaseId>) -> Result<Entry> {
        match self {
            View::Live(share) => Ok(share.file_properties(path, lease).await?),
            View::Frozen(snapshot) => Ok(snapshot.file_properties(path).await?),
        }
    }

    pub(super) async fn directory_properties(&self, path: &FilePath) -> Result<Entry> {
        match self {
            View::Live(share) => Ok(share.directory_properties(path).await?),
            View::Frozen(snapshot) => Ok(snapshot.directory_properties(path).await?),
        }
    }

    pub(super) async fn read(&self, path: &FilePath, lease: Option<LeaseId>) -> Result<Reading> {
        match self {
            View::Live(share) => Ok(share.read(path, lease).await?),
            View::Frozen(snapshot) => Ok(snapshot.read(path).await?),
        }
    }

    pub(super) async fn list(&self, path: &FilePath, request: ListRequest) -> Result<Listing> {
        match self {
            View::Live(share) => Ok(share.list(path, request).await?),
            View::Frozen(snapshot) => Ok(snapshot.list(path, request).await?),
        }
    }
}
