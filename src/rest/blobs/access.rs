//! Who may do what: the meeting point of operations and authorization.

use http::Uri;

use super::BlobService;
use super::call::Call;
use super::failure::Result;
use super::route::Target;
use super::source::SourceRight;
use crate::store::BlobPath;
use crate::wire::query::Query;

impl BlobService {
    /// Whether the caller may read a blob of ours as the source of a copy.
    pub(super) async fn authorize_source(
        &self,
        _call: &Call<'_>,
        _url: &Uri,
        _target: &Target,
        _query: &Query,
        _at: &BlobPath,
        _right: SourceRight,
    ) -> Result<()> {
        Ok(())
    }
}
