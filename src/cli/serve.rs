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
use super::daemon::raise_file_limit;
use super::endpoint::{EndpointPlan, Endpoints, ShareMaker};
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
        let mut endpoints = plan.start(&data, &store).await?;
        endpoints.until_signal(&mut signals).await;
        report::say("finishing what is running; a second signal ends at once");
        let ending = async {
            let closed = endpoints.stop().await;
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
            (None, None) => (Some(BLOBS), Some(FILES)),
            given => given,
        };
        let plan = |addr: Option<_>| addr.map(|addr| EndpointPlan::new(addr, args.clone())).transpose();
        Ok(Self { blobs: plan(blobs)?, files: plan(files)? })
    }

    async fn start(&self, data: &Path, store: &Arc<EmbeddedStore>) -> Result<Endpoints, CliError> {
        let shares = ShareMaker { own: backend::shares(store), other: Box::new(backend::shares) };
        let plans = (self.blobs.as_ref(), self.files.as_ref());
        let endpoints = Endpoints::start(plans, (data, store), shares).await?;
        let told = |what: &str, url: &str, connection: &str| {
            report::say(&format!("{what} in {} are served at {url}", data.display()));
            report::say(&format!("connection string: {connection}"));
        };
        if let Some(blobs) = &endpoints.blobs {
            told("blobs", &blobs.url, &blobs.connection);
        }
        if let Some(files) = &endpoints.files {
            told("files", &files.url, &files.connection);
        }
        Ok(endpoints)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_which_services_there_are() {
        let at = |port: u16| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        let plan = |blobs, files| {
            let plan = ServePlan::new(blobs, files, &EndpointArgs::default()).unwrap();
            (plan.blobs.map(|plan| plan.addr), plan.files.map(|plan| plan.addr))
        };
        assert_eq!(plan(None, None), (Some(BLOBS), Some(FILES)));
        assert_eq!(plan(at(1), None), (at(1), None));
        assert_eq!(plan(None, at(2)), (None, at(2)));
        assert_eq!(plan(at(1), at(2)), (at(1), at(2)));
    }
}
