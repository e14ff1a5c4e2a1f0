//! The Files endpoint: of `leasefs serve --files-addr` and, over a mount's own engine, of `leasefs mount --files-addr`.

use std::sync::Arc;

use super::super::error::CliError;
use super::{EndpointPlan, Whom, usage};
use crate::fs::shares::Shares;
use crate::rest::auth::Accounts;
use crate::rest::files::FilesService;
use crate::rest::server::Server;

/// A running Files endpoint.
pub(in crate::cli) struct FilesEndpoint {
    server: Server,
    shares: Arc<Shares>,
    /// The account's URL.
    pub(in crate::cli) url: String,
    /// For clients.
    pub(in crate::cli) connection: String,
}

impl EndpointPlan {
    /// Starts the Files service over these shares. Must be called on the runtime.
    pub(in crate::cli) fn start_files(&self, shares: Arc<Shares>) -> Result<FilesEndpoint, CliError> {
        let accounts = match &self.whom {
            Whom::Development => Accounts::development(),
            Whom::One(name, file) => super::one_account(name, file)?,
            // Each account has containers of its own, and only one of them is the store of the shares.
            Whom::Listed(_) => return Err(usage("--files-addr serves one account, not those of --accounts")),
        };
        self.refuse_known_keys(&accounts)?;
        let service = FilesService::new(Arc::clone(&shares), accounts, self.copy_sources());
        let server = self.listen("--files-addr", Arc::new(service))?;
        Ok(FilesEndpoint {
            connection: self.connection_string("FileEndpoint", server.addr()),
            url: self.url(server.addr()),
            server,
            shares,
        })
    }
}

impl FilesEndpoint {
    /// Finishes running requests, then ends the engines that were started for them.
    pub(in crate::cli) async fn stop(self) {
        self.server.stop().await;
        self.shares.close().await;
    }
}
