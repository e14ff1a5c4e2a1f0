//! `leasefs serve`: the blob service alone, over an embedded store.
//!
//! ```text
//!   starting --listening--> serving --signal--> finishing requests --> store closed --> exit 0
//!   any state --second signal--> exit 1
//! ```

use super::args::ServeArgs;
use super::backend;
use super::config;
use super::daemon::raise_file_limit;
use super::endpoint::EndpointPlan;
use super::error::CliError;
use super::log;
use super::paths::{self, Places};
use super::report;
use super::settings::LogLevel;
use super::signals::Signals;

/// Serves until a signal comes.
pub(super) fn run(args: ServeArgs, places: &Places) -> Result<(), CliError> {
    let data = config::data_or_default(args.data, places)?;
    let plan = EndpointPlan::new(args.blob_addr, args.endpoint)?;
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
        let mut endpoint = plan.start(&data, &store).await?;
        report::say(&format!("blobs in {} are served at {}", data.display(), endpoint.url));
        report::say(&format!("connection string: {}", endpoint.connection));
        endpoint.until_signal(&mut signals).await;
        report::say("finishing what is running; a second signal ends at once");
        let ending = async {
            let closed = endpoint.stop().await;
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
