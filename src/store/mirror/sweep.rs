//! Everything below a name at the service is moved, a page at a time and many blobs at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{StreamExt, stream};

use super::Mirror;
use super::journal::{Note, TOUCH};
use super::moving::Moved;
use crate::store::{BlobProperties, ListItem, ListQuery, Result};

/// Blobs that are moved at a time.
pub(super) const PARALLEL: usize = 32;
/// Blobs that are listed at a time.
const PAGE: usize = 1000;

/// A blob that a sweep has come to: what follows the name that it is below, and how it was listed.
pub(super) type Met = (String, Arc<BlobProperties>);
/// One of them as it ends: under which name it is noted as moved, nothing if it was not.
pub(super) type Swept = Result<Option<(String, Moved)>>;

/// What was moved, and how far that is.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) moved: HashMap<String, Moved>,
    /// How many moves that are, with those of earlier sweeps.
    count: u64,
    /// Of how many that were seen as yet.
    seen: u64,
}

impl Done {
    /// Notes a move. Answers how many that are, and of how many.
    pub(super) fn add(&mut self, name: String, moved: Moved) -> (u64, u64) {
        self.moved.insert(name, moved);
        self.count += 1;
        (self.count, self.seen.max(self.count))
    }
}

impl Mirror {
    /// Moves what is below `top`, as `begin` says for each page. The note is touched meanwhile. Can be repeated.
    pub(super) async fn sweep<M>(
        &self,
        note: &Note,
        top: &str,
        done: &mut Done,
        begin: impl Fn(Vec<Met>) -> Result<Vec<M>>,
    ) -> Result<()>
    where
        M: Future<Output = Swept>,
    {
        let mut query = ListQuery { prefix: format!("{top}/"), max: PAGE, ..ListQuery::default() };
        let mut touched = Instant::now();
        loop {
            let page = self.service.list_blobs(&self.place.container, &query).await?;
            query.marker.clone_from(&page.next);
            let met = page.items.into_iter().filter_map(|item| match item {
                ListItem::Blob { name, properties } => Some((name.strip_prefix(top)?.to_owned(), properties)),
                ListItem::Prefix { .. } | ListItem::Snapshot { .. } | ListItem::Uncommitted { .. } => None,
            });
            let begun = begin(met.collect())?;
            done.seen += begun.len() as u64;
            let mut moves = stream::iter(begun).buffer_unordered(PARALLEL);
            let mut failed = Ok(());
            while let Some(moved) = moves.next().await {
                match moved {
                    Ok(Some((name, moved))) => *self.moving.lock() = Some(done.add(name, moved)),
                    Ok(None) => {}
                    // Those under way are waited for, so that all that was done can be undone.
                    Err(error) => failed = failed.and(Err(error)),
                }
                if touched.elapsed() >= TOUCH {
                    self.note_rename(note).await?;
                    touched = Instant::now();
                }
            }
            failed?;
            if query.marker.is_none() {
                return Ok(());
            }
        }
    }
}
