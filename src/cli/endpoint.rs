//! The endpoints of `leasefs serve` and of `leasefs mount --blob-addr`: from what was typed to a running server.
//!
//! Keys come from files, never from arguments, and are never printed.

mod files;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;

use super::accounts::{AccountStores, AccountsFile, StoresOf, private_text};
use super::args::EndpointArgs;
use super::error::CliError;
use super::paths;
use super::signals::{Heard, Signals};
use crate::rest::auth::{Accounts, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use crate::rest::blobs::{BlobAccounts, CopySources, ServedStore, Stores};
use crate::rest::server::{Limits, Protocol, Server, ServerConfig, load_tls};
use crate::store::embedded::EmbeddedStore;

pub(super) use files::{FilesEndpoint, ShareMaker};

/// A key file larger than this is not one.
const KEY_FILE_MAX: u64 = 4 * 1024;

/// Where content may be copied from, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum CopyChoice {
    Own,
    Loopback,
    Any,
}

/// Whom an endpoint serves.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Whom {
    /// The emulators' well-known account.
    Development,
    /// One account: its name and the file with its keys.
    One(String, PathBuf),
    /// Those of a file.
    Listed(PathBuf),
}

/// Everything an endpoint needs to know; checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EndpointPlan {
    pub(super) addr: SocketAddr,
    whom: Whom,
    /// Certificate and key.
    tls: Option<(PathBuf, PathBuf)>,
    copy: CopyChoice,
}

impl EndpointPlan {
    /// Checks what was typed.
    pub(super) fn new(addr: SocketAddr, args: EndpointArgs) -> Result<Self, CliError> {
        let whom = match (args.account, args.account_key_file, args.accounts) {
            (Some(name), Some(file), None) => Whom::One(name, file),
            // A mount leaves its directory, and the file is read again.
            (None, None, Some(file)) => Whom::Listed(paths::absolute(&file).unwrap_or(file)),
            (None, None, None) => Whom::Development,
            (_, _, Some(_)) => return Err(usage("--accounts replaces --account and --account-key-file")),
            (Some(_), None, None) => return Err(usage("--account needs --account-key-file")),
            (None, Some(_), None) => return Err(usage("--account-key-file needs --account")),
        };
        let tls = match (args.tls_cert, args.tls_key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err(usage("--tls-cert needs --tls-key")),
            (None, Some(_)) => return Err(usage("--tls-key needs --tls-cert")),
        };
        let local = is_loopback(addr.ip());
        if whom == Whom::Development && !local {
            return Err(CliError::Usage(format!(
                "the address {addr} can be reached from other machines, and the default account's key is known to \
                 everybody; name an account with --account and --account-key-file, or several with --accounts"
            )));
        }
        // Who can ask for a copy could reach this machine's own servers through it.
        let copy = args.copy_from.unwrap_or(if local { CopyChoice::Loopback } else { CopyChoice::Own });
        Ok(Self { addr, whom, tls, copy })
    }

    /// Starts the Blob service on these stores. Must be called on the runtime.
    pub(super) async fn start(&self, stores: &mut AccountStores) -> Result<Endpoint, CliError> {
        let (accounts, served) = self.accounts(stores).await?;
        let service = BlobAccounts::new(stores.own().durable_user(), self.copy_sources());
        service.serve(&accounts, &durable(&served));
        let server = self.listen("--blob-addr", Arc::clone(&service))?;
        Ok(Endpoint {
            connection: self.connection_string("BlobEndpoint", server.addr()),
            url: self.url(server.addr()),
            server,
            plan: self.clone(),
            service,
        })
    }

    /// Listens, and answers with `protocol`. `option` is where the address was given.
    fn listen<P: Protocol>(&self, option: &str, protocol: Arc<P>) -> Result<Server, CliError> {
        let tls = match &self.tls {
            Some((certificate, key)) => {
                Some(load_tls(certificate, key).map_err(|problem| CliError::Failed(problem.to_string()))?)
            }
            None => None,
        };
        let config = ServerConfig { addr: self.addr, tls, limits: Limits::default() };
        let server =
            Server::start(&config, protocol).map_err(|problem| cannot_listen(self.addr, option, &problem))?;
        if self.tls.is_none() && !is_loopback(self.addr.ip()) {
            tracing::warn!(addr = %server.addr(), "without --tls-cert and --tls-key, content and signatures travel unencrypted");
        }
        Ok(server)
    }

    fn copy_sources(&self) -> CopySources {
        match self.copy {
            CopyChoice::Own => CopySources::Own,
            CopyChoice::Loopback => CopySources::Loopback,
            CopyChoice::Any => CopySources::Any,
        }
    }

    /// The accounts, and a store for each.
    async fn accounts(&self, stores: &mut AccountStores) -> Result<(Accounts, StoresOf), CliError> {
        let (accounts, served) = match &self.whom {
            Whom::Development => (Accounts::development(), stores.single(DEVELOPMENT_ACCOUNT)),
            Whom::One(name, file) => (one_account(name, file)?, stores.single(name)),
            Whom::Listed(file) => {
                let listed = AccountsFile::read(file)?;
                let served = stores.of(&listed).await?;
                (listed.accounts, served)
            }
        };
        self.refuse_known_keys(&accounts)?;
        Ok((accounts, served))
    }

    fn refuse_known_keys(&self, accounts: &Accounts) -> Result<(), CliError> {
        if accounts.has_development_key() && !is_loopback(self.addr.ip()) {
            return Err(CliError::Failed(format!(
                "the address {} can be reached from other machines, and one of the keys is known to everybody; \
                 make another one: openssl rand -base64 64 | tr -d '\\n'",
                self.addr
            )));
        }
        Ok(())
    }

    /// Whether the accounts come from a file.
    pub(super) fn is_listed(&self) -> bool {
        matches!(self.whom, Whom::Listed(_))
    }

    /// The account's name, to show.
    fn account_name(&self) -> &str {
        match &self.whom {
            Whom::Development => DEVELOPMENT_ACCOUNT,
            Whom::One(name, _) => name,
            Whom::Listed(_) => "ACCOUNT",
        }
    }

    /// The account's URL at `addr`.
    fn url(&self, addr: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{addr}/{}", self.account_name())
    }

    /// What a client needs, to paste. The well-known key is no secret; a key of one's own is not shown.
    fn connection_string(&self, service: &str, addr: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let key = match &self.whom {
            Whom::Development => DEVELOPMENT_KEY.to_owned(),
            Whom::One(_, file) => format!("(a key in {})", file.display()),
            Whom::Listed(file) => format!("(its key in {})", file.display()),
        };
        format!(
            "DefaultEndpointsProtocol={scheme};AccountName={};AccountKey={key};{service}={};",
            self.account_name(),
            self.url(addr)
        )
    }
}

/// A running endpoint.
pub(super) struct Endpoint {
    server: Server,
    /// The account's URL.
    pub(super) url: String,
    /// For clients.
    pub(super) connection: String,
    plan: EndpointPlan,
    service: Arc<BlobAccounts>,
}

impl Endpoint {
    /// Reads the accounts again, if they come from a file; says whether they do.
    async fn read_again(&self, stores: &mut AccountStores) -> bool {
        if !self.plan.is_listed() {
            return false;
        }
        match self.plan.accounts(stores).await {
            Ok((accounts, served)) => {
                self.service.serve(&accounts, &durable(&served));
                tracing::info!(accounts = accounts.names().count(), "the accounts were read again");
            }
            Err(problem) => tracing::error!("the accounts stay as they were: {problem}"),
        }
        true
    }
}

/// The endpoints of a process, and the stores of their accounts.
pub(super) struct Endpoints {
    pub(super) blobs: Option<Endpoint>,
    pub(super) files: Option<FilesEndpoint>,
    stores: AccountStores,
}

impl Endpoints {
    /// Starts what is planned on the open store of the data directory `data`. `shares` are its shares, and how those of
    /// a store of another account are served. Must be called on the runtime.
    pub(super) async fn start(
        (blobs, files): (Option<&EndpointPlan>, Option<&EndpointPlan>),
        (data, store): (&Path, &Arc<EmbeddedStore>),
        shares: ShareMaker,
    ) -> Result<Self, CliError> {
        let mut stores = AccountStores::new(data, Arc::clone(store));
        let blobs = match blobs {
            Some(plan) => Some(plan.start(&mut stores).await?),
            None => None,
        };
        let files = match files {
            Some(plan) => Some(plan.start_files(&mut stores, shares).await?),
            None => None,
        };
        Ok(Self { blobs, files, stores })
    }

    /// Waits for a signal to end. A hang-up is none where accounts come from a file: it is read again.
    pub(super) async fn until_signal(&mut self, signals: &mut Signals) {
        while signals.next().await == Heard::HangUp {
            let mut read = false;
            if let Some(blobs) = &self.blobs {
                read |= blobs.read_again(&mut self.stores).await;
            }
            if let Some(files) = &mut self.files {
                read |= files.read_again(&mut self.stores).await;
            }
            if !read {
                return;
            }
        }
    }

    /// Finishes running requests, then ends the engines and closes the stores that were opened for them.
    pub(super) async fn stop(self) -> Result<(), String> {
        if let Some(files) = self.files {
            files.stop().await;
        }
        if let Some(blobs) = self.blobs {
            blobs.server.stop().await;
        }
        self.stores.close().await
    }
}

/// Each store as somebody who promises durability.
fn durable(stores: &StoresOf) -> Stores {
    let user = |(name, store): (&String, &Arc<EmbeddedStore>)| {
        (name.clone(), store.durable_user() as Arc<dyn ServedStore>)
    };
    stores.iter().map(user).collect()
}

fn one_account(name: &str, file: &Path) -> Result<Accounts, CliError> {
    let keys = read_keys(file)?;
    Accounts::single(name, &keys).map_err(|problem| {
        CliError::Failed(format!(
            "the account {name} with the keys in {} cannot be used: {problem}",
            file.display()
        ))
    })
}

/// The keys in a file: one or two lines of base64.
fn read_keys(path: &Path) -> Result<Vec<String>, CliError> {
    let failed = |why: String| {
        CliError::Failed(format!("the account key file {} cannot be used: {why}", path.display()))
    };
    let text = private_text(path, KEY_FILE_MAX).map_err(failed)?;
    let keys: Vec<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    match keys.len() {
        1 | 2 => Ok(keys),
        count => Err(failed(format!("it must hold one or two keys, one per line, and it holds {count}"))),
    }
}

fn cannot_listen(addr: SocketAddr, option: &str, problem: &io::Error) -> CliError {
    CliError::Failed(match problem.kind() {
        io::ErrorKind::AddrInUse => {
            format!("the address {addr} is in use by another program; choose another port with {option}")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("the address {addr} is not one of this machine's; choose another one with {option}")
        }
        io::ErrorKind::PermissionDenied => {
            format!("the port {} needs more rights than this user has; choose one above 1023", addr.port())
        }
        _ => format!("the address {addr} cannot be listened on: {problem}"),
    })
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.is_loopback()
}

fn usage(text: &str) -> CliError {
    CliError::Usage(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(addr: &str, args: EndpointArgs) -> Result<EndpointPlan, String> {
        EndpointPlan::new(addr.parse().unwrap(), args).map_err(|problem| problem.to_string())
    }

    #[test]
    fn the_well_known_account_stays_on_this_machine() {
        assert!(plan("127.0.0.1:0", EndpointArgs::default()).is_ok());
        assert!(plan("[::1]:0", EndpointArgs::default()).is_ok());
        assert!(plan("0.0.0.0:0", EndpointArgs::default()).unwrap_err().contains("--account-key-file"));
        let own = EndpointArgs {
            account: Some("mine".into()),
            account_key_file: Some("keys".into()),
            ..EndpointArgs::default()
        };
        assert_eq!(plan("0.0.0.0:0", own.clone()).unwrap().copy, CopyChoice::Own);
        assert_eq!(plan("127.0.0.1:0", own).unwrap().copy, CopyChoice::Loopback);
    }

    #[test]
    fn half_of_a_pair_is_refused() {
        for args in [
            EndpointArgs { account: Some("a".into()), ..EndpointArgs::default() },
            EndpointArgs { account_key_file: Some("a".into()), ..EndpointArgs::default() },
            EndpointArgs { tls_cert: Some("a".into()), ..EndpointArgs::default() },
            EndpointArgs { tls_key: Some("a".into()), ..EndpointArgs::default() },
        ] {
            assert!(plan("127.0.0.1:0", args).unwrap_err().contains("needs"));
        }
    }

    #[test]
    fn keys_are_read_from_private_files_only() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("keys");
        std::fs::write(&file, "a2V5MQ==\n\na2V5Mg==\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read_keys(&file).unwrap_err().to_string().contains("chmod 600"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read_keys(&file).unwrap(), ["a2V5MQ==", "a2V5Mg=="]);
    }
}
