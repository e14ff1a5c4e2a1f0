//! `leasefs serve`: the Blob service and the Files service alone, over an embedded store.
//!
//! ```text
//!   starting --listening--> serving --signal--> finishing requests --> store closed --> exit 0
//!   any state --second signal--> exit 1
//! ```

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use super::args::{EndpointArgs, ServeArgs};
use super::backend;
use super::config;
use super::daemon::{self, raise_file_limit};
use super::endpoint::{Endpoint, EndpointPlan, FilesEndpoint};
use super::error::CliError;
use super::log;
use super::paths::{self, Places};
use super::report;
use super::settings::LogLevel;
use super::signals::Signals;
use crate::store::embedded::EmbeddedStore;

/// Where each service listens when no address is given at all.
const BLOBS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10_000);
const FILES: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10_004);

/// Serves until a signal comes.
pub(super) fn run(args: ServeArgs, places: &Places) -> Result<(), CliError> {
    let data = config::data_or_default(args.data, places)?;
    let plan = ServePlan::new(args.blob_addr, args.files_addr, &args.endpoint)?;
    let log_file = match &args.log_file {
        None => None,
        Some(path) => {
            let failed =
                |e| CliError::Failed(format!("the log file {} cannot be opened: {e}", path.display()));
            Some(log::open(&paths::absolute(path).map_err(failed)?).map_err(failed)?)
        }
    };
    log::start(args.log.or(config::log_level_of_environment()?).unwrap_or(LogLevel::Info), log_file);
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| CliError::Failed(format!("the server's threads cannot be started: {e}")))?;
    let result = runtime.block_on(async {
        let store = backend::open_store(&data).await?;
        let mut signals = Signals::new()?;
        let mut blobs = plan.start_blobs(&data, &store).await?;
        let files = plan.start_files(&data, &store)?;
        daemon::until_signal(blobs.as_mut(), &mut signals).await;
        report::say("finishing what is running; a second signal ends at once");
        let ending = async {
            if let Some(files) = files {
                files.stop().await;
            }
            let closed = match blobs {
                Some(blobs) => blobs.stop().await,
                None => Ok(()),
            };
            closed.and(backend::close_store(store).await).map_err(CliError::Failed)
        };
        tokio::select! {
            ended = ending => ended,
            _ = signals.next() => std::process::exit(1),
        }
    });
    // A thread that still waits for something must not keep the process.
    runtime.shutdown_background();
    result
}

/// Which services there are, and where.
#[derive(Debug, PartialEq, Eq)]
struct ServePlan {
    blobs: Option<EndpointPlan>,
    files: Option<EndpointPlan>,
}

impl ServePlan {
    /// Both, unless addresses say which.
    fn new(
        blobs: Option<SocketAddr>,
        files: Option<SocketAddr>,
        args: &EndpointArgs,
    ) -> Result<Self, CliError> {
        let (blobs, files) = match (blobs, files) {
            // The shares of several accounts are not served; whoever did not ask for them does not miss them.
            (None, None) if args.accounts.is_some() => (Some(BLOBS), None),
            (None, None) => (Some(BLOBS), Some(FILES)),
            given => given,
        };
        let plan = |addr: Option<_>| addr.map(|addr| EndpointPlan::new(addr, args.clone())).transpose();
        Ok(Self { blobs: plan(blobs)?, files: plan(files)? })
    }

    async fn start_blobs(
        &self,
        data: &Path,
        store: &Arc<EmbeddedStore>,
    ) -> Result<Option<Endpoint>, CliError> {
        let Some(plan) = &self.blobs else { return Ok(None) };
        let endpoint = plan.start(data, store).await?;
        report::say(&format!("blobs in {} are served at {}", data.display(), endpoint.url));
        report::say(&format!("connection string: {}", endpoint.connection));
        Ok(Some(endpoint))
    }

    fn start_files(
        &self,
        data: &Path,
        store: &Arc<EmbeddedStore>,
    ) -> Result<Option<FilesEndpoint>, CliError> {
        let Some(plan) = &self.files else { return Ok(None) };
        let endpoint = plan.start_files(backend::shares(store))?;
        report::say(&format!("files in {} are served at {}", data.display(), endpoint.url));
        report::say(&format!("connection string: {}", endpoint.connection));
        Ok(Some(endpoint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_which_services_there_are() {
        let at = |port: u16| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        let plan = |blobs, files, accounts: Option<&str>| {
            let args = EndpointArgs { accounts: accounts.map(Into::into), ..EndpointArgs::default() };
            let plan = ServePlan::new(blobs, files, &args).unwrap();
            (plan.blobs.map(|plan| plan.addr), plan.files.map(|plan| plan.addr))
        };
        assert_eq!(plan(None, None, None), (Some(BLOBS), Some(FILES)));
        assert_eq!(plan(None, None, Some("file")), (Some(BLOBS), None));
        assert_eq!(plan(at(1), None, None), (at(1), None));
        assert_eq!(plan(None, at(2), None), (None, at(2)));
        assert_eq!(plan(at(1), at(2), None), (at(1), at(2)));
    }
}
