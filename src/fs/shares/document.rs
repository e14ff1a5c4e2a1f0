//! The document of a front end's settings for all shares, and the end of all engines.

use bytes::Bytes;

use super::super::error::Result;
use super::{Running, Shares};

impl Shares {
    /// The document, if one was ever stored. What is in it is the front end's business.
    pub async fn service_document(&self) -> Result<Option<Bytes>> {
        match self.store.local() {
            Some(local) => Ok(local.share_settings()?),
            None => Ok(None),
        }
    }

    /// Stores the document.
    pub async fn set_service_document(&self, document: Bytes) -> Result<()> {
        let local = self
            .store
            .local()
            .ok_or(super::super::FsError::NotSupported("settings of all shares need the embedded store"))?;
        local.set_share_settings(document)?;
        self.durable().await
    }

    /// Ends all engines that were started here. Nobody may ask for one any more.
    pub async fn close(&self) {
        let _changing = self.changing.lock().await;
        let ended: Vec<Running> = {
            let mut running = self.running.lock();
            let names: Vec<_> = running
                .iter()
                .filter(|(_, running)| !running.mounted)
                .map(|(name, _)| name.clone())
                .collect();
            names.iter().filter_map(|name| running.remove(name)).collect()
        };
        for Running { engine, .. } in ended {
            engine.write_directory_times().await;
            engine.release_leases().await;
        }
    }
}
