//! Mounting blobs that are elsewhere: what the plan says about them, and opening the service and its mirror.
//!
//! Credentials come from the environment, inside the store. Nothing here sees one, so nothing here can print one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use md5::{Digest, Md5};
use tokio::time::timeout;

use super::error::CliError;
use crate::store::azure::{AzureConfig, AzureStore, Environment, Source};
use crate::store::embedded::EmbeddedStore;
use crate::store::mirror::{Mirror, MirrorOptions, Place};
use crate::store::{BlobStore, ContainerName, ListQuery, Metadata, PublicAccess, StoreError};

/// How long the service may take to answer at all before the mount is given up.
const FIRST_ANSWER: Duration = Duration::from_secs(20);
/// How long what an earlier mount left may keep a mount from starting.
const LEFTOVERS: Duration = Duration::from_secs(5);
/// Longest readable part of the name of a mirror's directory.
const SLUG_MAX: usize = 100;

/// The blobs that are to be mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RemotePlan {
    pub(super) source: Source,
    pub(super) cache_size: Option<u64>,
    pub(super) attr_ttl: Option<Duration>,
    pub(super) write_back: bool,
}

/// A mirror that is connected to its service.
pub(super) struct Connected {
    pub(super) mirror: Arc<Mirror>,
    pub(super) attr_ttl: Duration,
    /// Something the user should know.
    pub(super) note: Option<String>,
}

impl RemotePlan {
    /// Where the mirror of this source is in the cache directory. Two sources never share one.
    pub(super) fn mirror_dir(&self, cache: &Path) -> PathBuf {
        let source = self.source.to_string();
        let bare = source.split_once("://").map_or(source.as_str(), |(_, rest)| rest);
        let readable = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        let slug: String = bare.chars().map(readable).take(SLUG_MAX).collect();
        let hash = Md5::digest(source.as_bytes());
        let hash: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        cache.join(format!("{slug}-{hash}"))
    }

    /// Opens the service, makes sure that it answers, and opens the mirror in `store`.
    pub(super) async fn connect(
        &self,
        store: &Arc<EmbeddedStore>,
        home: ContainerName,
    ) -> Result<Connected, CliError> {
        let source = &self.source;
        let failed = |why: String| CliError::Failed(format!("{source} cannot be mounted: {why}"));
        let service = source.service.clone();
        // Looks at files.
        let config = tokio::task::spawn_blocking(move || {
            AzureConfig::from_environment(&service, &Environment::of_this_process())
        });
        let config = config.await.map_err(|e| failed(e.to_string()))?.map_err(|e| failed(e.to_string()))?;
        let service: Arc<dyn BlobStore> =
            Arc::new(AzureStore::new(config).map_err(|e| failed(e.to_string()))?);
        let note = match timeout(FIRST_ANSWER, self.greet(&*service)).await {
            Ok(answer) => answer.map_err(|e| failed(e.to_string()))?,
            Err(_) => {
                let patience = FIRST_ANSWER.as_secs();
                return Err(failed(format!("the service does not answer within {patience} s")));
            }
        };
        let place = Place::new(source.container.clone(), source.inside.as_deref().unwrap_or_default())
            .map_err(|e| failed(e.to_string()))?;
        let options = self.options();
        let attr_ttl = options.attr_ttl;
        let mirror =
            Mirror::open(store, home, service, place, options).await.map_err(|e| failed(e.to_string()))?;
        if !mirror.leftovers_settled(LEFTOVERS).await {
            tracing::warn!(
                "leases or renames of an earlier mount are not dealt with yet; until then some files cannot be \
                 written, or have their old names"
            );
        }
        Ok(Connected { mirror, attr_ttl, note })
    }

    /// Asks for the first name in the container, which is made if it is not there.
    async fn greet(&self, service: &dyn BlobStore) -> Result<Option<String>, StoreError> {
        let container = &self.source.container;
        let query = ListQuery { max: 1, ..ListQuery::default() };
        match service.list_blobs(container, &query).await {
            Ok(_) => Ok(None),
            Err(StoreError::ContainerNotFound(_)) => {
                match service.create_container(container, Metadata::new(), PublicAccess::None).await {
                    Ok(_) | Err(StoreError::ContainerExists(_)) => {
                        Ok(Some(format!("the container {container} did not exist; it was made")))
                    }
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    fn options(&self) -> MirrorOptions {
        let usual = MirrorOptions::default();
        MirrorOptions {
            attr_ttl: self.attr_ttl.unwrap_or(usual.attr_ttl),
            cache_size: self.cache_size.unwrap_or(usual.cache_size),
            write_back: self.write_back,
            ..usual
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(url: &str) -> RemotePlan {
        let source = Source::parse(url).unwrap();
        RemotePlan { source, cache_size: None, attr_ttl: None, write_back: false }
    }

    #[test]
    fn every_source_has_a_directory_of_its_own() {
        let dir = |url: &str| plan(url).mirror_dir(Path::new("/c"));
        let azure = dir("https://acc.blob.core.windows.net/docs/a b");
        let name = azure.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("acc.blob.core.windows.net-docs-a-20b-"), "{name}");
        assert_ne!(dir("http://127.0.0.1:1/a/bcd-e"), dir("http://127.0.0.1:1/a/bcd/e"));
        assert_eq!(dir("http://127.0.0.1:1/a/bcd"), dir("http://127.0.0.1:1/a/bcd/"));
    }
}
