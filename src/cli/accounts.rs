//! The accounts of an endpoint: from a file with names and keys to a store for each.
//!
//! ```text
//! DATA                  the containers of one account: the first there was, or the one a mount shows
//! DATA/account          its name, noted when a file with accounts is first used with this directory
//! DATA/accounts/NAME    a store for every other account
//! ```
//!
//! Keys are never printed, nor are lines of the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::backend;
use super::error::CliError;
use crate::rest::auth::Accounts;
use crate::store::embedded::EmbeddedStore;

/// A file with accounts larger than this is not one.
const FILE_MAX: u64 = 64 * 1024;
/// Each account has a store of its own, with threads and memory.
const ACCOUNTS_MAX: usize = 64;
/// Notes whose containers are in the data directory itself.
const OWNER_FILE: &str = "account";
/// The stores of the others.
const FOLDER: &str = "accounts";

/// What a file with accounts says.
#[derive(Clone, Debug)]
pub(super) struct AccountsFile {
    pub(super) accounts: Accounts,
    /// The account named first.
    pub(super) first: String,
}

impl AccountsFile {
    /// Reads the file: one account per line, its name and one key or two in base64; `#` starts a comment.
    pub(super) fn read(path: &Path) -> Result<Self, CliError> {
        let text = private_text(path, FILE_MAX).map_err(|why| {
            CliError::Failed(format!("the accounts file {} cannot be used: {why}", path.display()))
        })?;
        Self::parse(&text).map_err(|(line, why)| {
            CliError::Failed(format!("the accounts file {}, line {line}: {why}", path.display()))
        })
    }

    /// The error carries the number of the line.
    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let (mut accounts, mut first) = (Accounts::none(), None);
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(name) = words.next() else { continue };
            let keys: Vec<String> = words.map(str::to_owned).collect();
            let refused = |why: String| (index + 1, why);
            if accounts.names().count() == ACCOUNTS_MAX {
                return Err(refused(format!("there are more than {ACCOUNTS_MAX} accounts")));
            }
            accounts = accounts.with(name, &keys).map_err(refused)?;
            first.get_or_insert_with(|| name.to_owned());
        }
        let nobody = || (text.lines().count().max(1), "the file names no account".to_owned());
        Ok(Self { accounts, first: first.ok_or_else(nobody)? })
    }
}

/// The text of a file that nobody else may read: whoever knows a key owns its account.
pub(super) fn private_text(path: &Path, max: u64) -> Result<String, String> {
    let about = fs::metadata(path).map_err(|e| e.to_string())?;
    if about.len() > max {
        return Err(format!("it is larger than {max} bytes"));
    }
    if about.mode() & 0o007 != 0 {
        return Err(format!("everybody can read it; chmod 600 {}", path.display()));
    }
    fs::read_to_string(path).map_err(|e| e.to_string())
}

/// Stores by the names of their accounts.
pub(super) type StoresOf = BTreeMap<String, Arc<EmbeddedStore>>;

/// The stores of the accounts of all endpoints of a process.
#[derive(Debug)]
pub(super) struct AccountStores {
    data: PathBuf,
    /// The store in the data directory itself; whoever opened it closes it.
    own: Arc<EmbeddedStore>,
    more: StoresOf,
}

impl AccountStores {
    /// Of the data directory `data`, whose own store is open.
    pub(super) fn new(data: &Path, own: Arc<EmbeddedStore>) -> Self {
        Self { data: data.to_owned(), own, more: BTreeMap::new() }
    }

    /// The store in the data directory itself.
    pub(super) fn own(&self) -> &Arc<EmbeddedStore> {
        &self.own
    }

    /// One account, whatever its name: the containers are those in the data directory.
    pub(super) fn single(&self, name: &str) -> StoresOf {
        StoresOf::from([(name.to_owned(), Arc::clone(&self.own))])
    }

    /// A store for each account of a file. A store that is open stays so, also when its account is gone.
    pub(super) async fn of(&mut self, file: &AccountsFile) -> Result<StoresOf, CliError> {
        let owner = owner_of(&self.data, &file.first)?;
        if !file.accounts.knows(&owner) {
            tracing::warn!(
                account = owner,
                "the containers of this account are not served: the file does not name it"
            );
        }
        let mut stores = StoresOf::new();
        for name in file.accounts.names() {
            let store = if name == owner { &self.own } else { self.other(name).await? };
            let store = Arc::clone(store);
            stores.insert(name.to_owned(), store);
        }
        Ok(stores)
    }

    async fn other(&mut self, name: &str) -> Result<&Arc<EmbeddedStore>, CliError> {
        if !self.more.contains_key(name) {
            let store = backend::open_store(&self.data.join(FOLDER).join(name)).await?;
            self.more.insert(name.to_owned(), store);
        }
        Ok(&self.more[name])
    }

    /// Writes the last words of the stores it opened.
    pub(super) async fn close(self) -> Result<(), String> {
        let mut result = Ok(());
        for store in self.more.into_values() {
            result = result.and(backend::close_store(store).await);
        }
        result
    }
}

/// Whose containers are in the data directory itself: `first`, if nobody has been noted before.
fn owner_of(data: &Path, first: &str) -> Result<String, CliError> {
    let path = data.join(OWNER_FILE);
    let failed = |e: io::Error| CliError::Failed(format!("{} cannot be used: {e}", path.display()));
    match fs::read_to_string(&path) {
        Ok(name) => return Ok(name.trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let note = || -> io::Result<()> {
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        writeln!(file, "{first}")?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(data)?.sync_all()
    };
    note().map_err(failed)?;
    Ok(first.to_owned())
}

/// The data directories of the further accounts below `data`.
pub(super) fn folders(data: &Path) -> io::Result<BTreeSet<PathBuf>> {
    match fs::read_dir(data.join(FOLDER)) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "a2V5MWtleTFrZXkxa2V5MQ==";

    fn parsed(text: &str) -> Result<AccountsFile, (usize, String)> {
        AccountsFile::parse(text)
    }

    #[test]
    fn a_line_is_an_account_and_its_keys() {
        let file = parsed(&format!("# ours\n\nzeta {KEY} {KEY} # both\n\talpha\t{KEY}\n")).unwrap();
        assert_eq!(file.accounts.names().collect::<Vec<_>>(), ["alpha", "zeta"]);
        assert_eq!(file.first, "zeta");
    }

    #[test]
    fn a_bad_line_is_named_by_its_number_and_never_shown() {
        for (text, line, why) in [
            (format!("alpha {KEY}\nbeta\n"), 2, "one key or two"),
            (format!("alpha {KEY} {KEY} {KEY}"), 1, "one key or two"),
            (format!("\n\nAlpha {KEY}"), 3, "lower-case"),
            (format!("alpha {KEY}\nalpha {KEY}"), 2, "named twice"),
            ("# nobody\n\n".to_owned(), 2, "no account"),
            (String::new(), 1, "no account"),
            (format!("alpha {KEY}\nbeta not-base64!"), 2, "base64"),
            ((0..=ACCOUNTS_MAX).map(|n| format!("acc{n} {KEY}\n")).collect(), ACCOUNTS_MAX + 1, "more than"),
        ] {
            let (at, said) = parsed(&text).unwrap_err();
            assert_eq!(at, line, "{said}");
            assert!(said.contains(why) && !said.contains("a2V5") && !said.contains("not-"), "{said}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("accounts");
        fs::write(&path, format!("alpha {KEY}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
        let refused = AccountsFile::read(&path).unwrap_err().to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(AccountsFile::read(&path).is_ok());
    }

    #[test]
    fn the_owner_of_the_directory_stays_the_first_there_was() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(owner_of(dir.path(), "alpha").unwrap(), "alpha");
        assert_eq!(owner_of(dir.path(), "beta").unwrap(), "alpha");
    }
}
