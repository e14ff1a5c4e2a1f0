//! By what right a service is used: from the variables and the file that Azure's own tools read.
//!
//! ```text
//!   AZURE_STORAGE_CONNECTION_STRING, _ACCOUNT + _KEY or _SAS_TOKEN     the first that fits the account
//!   [storage] in $AZURE_CONFIG_DIR/config (~/.azure/config)            the same words; read again after a refusal
//!   devstoreaccount1 on this machine                                   the emulators' well-known key
//!   an identity of Entra                                               identity.rs
//! ```
//!
//! Never from arguments. Nothing here prints a value.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::config::ConfigError;
use super::credential::Credential;
use super::identity;
use super::source::ServiceUrl;
use crate::wire::signing::{AccountKey, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};

/// What begins the names of all variables about storage.
const PREFIX: &str = "AZURE_STORAGE_";
/// The same options under the names that different tools give them, the most usual first.
const ACCOUNT: &[&str] = &["ACCOUNT", "ACCOUNT_NAME"];
const KEY: &[&str] = &["KEY", "ACCESS_KEY", "ACCOUNT_KEY"];
const SAS: &[&str] = &["SAS_TOKEN", "SAS_KEY"];
const CONNECTION: &[&str] = &["CONNECTION_STRING"];

/// The value of a variable.
type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The variables of a process.
#[derive(Clone)]
pub struct Environment {
    variable: Arc<Lookup>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}

/// One place with options of storage: the variables, or the file.
struct Layer {
    options: BTreeMap<String, String>,
    /// What a person calls an option of this place.
    called: fn(&str) -> String,
}

/// What a layer says about an account.
enum Found {
    Right(Credential),
    /// A right to this other account.
    Other(String),
    Nothing,
}

impl Environment {
    /// Of this process.
    pub fn of_this_process() -> Self {
        Self::new(|name| std::env::var(name).ok())
    }

    /// With these variables.
    pub fn new(variable: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { variable: Arc::new(variable) }
    }

    /// A variable that is set to something.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// The right to use a service. Reads the file of the Azure CLI, so it blocks for a moment.
    pub fn credential(&self, service: &ServiceUrl) -> Result<Credential, ConfigError> {
        let mut other = None;
        for layer in [self.variables(), self.file()?] {
            match layer.right_to(service)? {
                Found::Right(credential) => return Ok(credential),
                Found::Other(account) => other = other.or(Some(account)),
                Found::Nothing => {}
            }
        }
        if service.account() == DEVELOPMENT_ACCOUNT && service.is_loopback() {
            let key = key("the development key", DEVELOPMENT_KEY)?;
            return Ok(Credential::Key { account: DEVELOPMENT_ACCOUNT.to_owned(), key });
        }
        if let Some(given) = other {
            return Err(ConfigError::OtherAccount { given, wanted: service.account().to_owned() });
        }
        // Whoever reads a token on the way can use it, unlike a signature of one request.
        if !service.is_encrypted() && !service.is_loopback() {
            return Err(ConfigError::NoRight(service.account().to_owned()));
        }
        Ok(Credential::Bearer(Arc::new(identity::Identity::of(self))))
    }

    fn variables(&self) -> Layer {
        let names = [ACCOUNT, KEY, SAS, CONNECTION].concat();
        let options = names.into_iter().filter_map(|name| {
            let value = self.get(&format!("{PREFIX}{name}"))?;
            Some((name.to_owned(), value))
        });
        Layer { options: options.collect(), called: |name| format!("{PREFIX}{name}") }
    }

    /// The section `[storage]` of the Azure CLI's file.
    fn file(&self) -> Result<Layer, ConfigError> {
        let called: fn(&str) -> String = |name| {
            format!("{} in the [storage] section of the Azure CLI's config", name.to_ascii_lowercase())
        };
        let folder = self.get("AZURE_CONFIG_DIR").map(PathBuf::from);
        let folder = folder.or_else(|| Some(PathBuf::from(self.get("HOME")?).join(".azure")));
        let Some(path) = folder.map(|folder| folder.join("config")) else {
            return Ok(Layer { options: BTreeMap::new(), called });
        };
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Layer { options: section(&text, "storage"), called }),
            Err(problem) if is_absent(&problem) => Ok(Layer { options: BTreeMap::new(), called }),
            Err(problem) => Err(ConfigError::File(path.display().to_string(), problem.to_string())),
        }
    }
}

fn is_absent(problem: &io::Error) -> bool {
    matches!(
        problem.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory
    )
}

/// The options of one section, names in capitals as in the variables.
fn section(text: &str, wanted: &str) -> BTreeMap<String, String> {
    let mut inside = false;
    let mut options = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[') {
            inside = name.trim_end_matches(']').trim() == wanted;
        } else if let (true, Some((name, value))) = (inside, line.split_once('=')) {
            options.insert(name.trim().to_ascii_uppercase(), value.trim().to_owned());
        }
    }
    options
}

impl Layer {
    /// The first of these options that has a value, with its name.
    fn first(&self, names: &[&str]) -> Option<(String, &str)> {
        let found = names.iter().find_map(|name| Some((*name, self.options.get(*name)?)));
        found
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| ((self.called)(name), value.as_str()))
    }

    fn right_to(&self, service: &ServiceUrl) -> Result<Found, ConfigError> {
        if let Some((name, text)) = self.first(CONNECTION) {
            return connection(&name, text, service);
        }
        // Without an account, the right is taken to be for the one that the URL names.
        let account = self.first(ACCOUNT).map_or(service.account(), |(_, account)| account);
        let right = match (self.first(KEY), self.first(SAS)) {
            (Some((name, text)), _) => {
                Credential::Key { account: account.to_owned(), key: key(&name, text)? }
            }
            (None, Some((_, text))) => sas(text),
            (None, None) => return Ok(Found::Nothing),
        };
        Ok(if account == service.account() { Found::Right(right) } else { Found::Other(account.to_owned()) })
    }
}

/// What a connection string gives. Only its right is used: where the service is, the URL says.
fn connection(name: &str, text: &str, service: &ServiceUrl) -> Result<Found, ConfigError> {
    let nonsense = || ConfigError::Variable(name.to_owned());
    let pairs: Vec<(&str, &str)> = text.split(';').filter_map(|pair| pair.trim().split_once('=')).collect();
    let get = |name: &str| {
        let found = pairs.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| *value).filter(|value| !value.is_empty())
    };
    let development = get("UseDevelopmentStorage").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let endpoint =
        get("BlobEndpoint").map(ServiceUrl::split).transpose()?.map(|(service, _)| service.account);
    let account = match (development, get("AccountName")) {
        (true, _) => Some(DEVELOPMENT_ACCOUNT.to_owned()),
        (false, Some(account)) => Some(account.to_owned()),
        (false, None) => endpoint,
    };
    let account = account.ok_or_else(nonsense)?;
    let right = match (development, get("AccountKey"), get("SharedAccessSignature")) {
        (true, ..) => Credential::Key { account: account.clone(), key: key(name, DEVELOPMENT_KEY)? },
        (false, Some(text), _) => Credential::Key { account: account.clone(), key: key(name, text)? },
        (false, None, Some(text)) => sas(text),
        (false, None, None) => return Err(nonsense()),
    };
    Ok(if account == service.account() { Found::Right(right) } else { Found::Other(account) })
}

fn key(name: &str, text: &str) -> Result<AccountKey, ConfigError> {
    AccountKey::parse(text).map_err(|_| ConfigError::Variable(name.to_owned()))
}

fn sas(text: &str) -> Credential {
    Credential::Sas(text.trim_start_matches('?').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY_B: &str = "c2Vjb25kIGtleSwgbm90IGEgc2VjcmV0";

    fn environment(pairs: &[(&'static str, &str)]) -> Environment {
        let pairs: BTreeMap<&str, String> = pairs.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
        Environment::new(move |name| pairs.get(name).cloned())
    }

    fn to(url: &str, pairs: &[(&'static str, &str)]) -> Result<String, ConfigError> {
        let (service, _) = ServiceUrl::split(url).unwrap();
        environment(pairs).credential(&service).map(|right| format!("{right:?}"))
    }

    const REAL: &str = "https://acct.blob.core.windows.net";
    const EMULATOR: &str = "http://127.0.0.1:10000/devstoreaccount1";

    #[test]
    fn variables_of_other_tools_are_understood() {
        for (name, value) in [
            ("AZURE_STORAGE_KEY", DEVELOPMENT_KEY),
            ("AZURE_STORAGE_ACCESS_KEY", DEVELOPMENT_KEY),
            ("AZURE_STORAGE_ACCOUNT_KEY", DEVELOPMENT_KEY),
        ] {
            assert_eq!(to(REAL, &[(name, value)]).unwrap(), "Key(acct)");
            assert_eq!(to(REAL, &[("AZURE_STORAGE_ACCOUNT", "acct"), (name, value)]).unwrap(), "Key(acct)");
        }
        assert_eq!(to(REAL, &[("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=s3cret")]).unwrap(), "Sas(***)");
        let text = format!("DefaultEndpointsProtocol=https;AccountName=acct;AccountKey={DEVELOPMENT_KEY}");
        assert_eq!(to(REAL, &[("AZURE_STORAGE_CONNECTION_STRING", &text)]).unwrap(), "Key(acct)");
        let text = format!("BlobEndpoint={REAL};SharedAccessSignature=sv=1&sig=s3cret");
        assert_eq!(to(REAL, &[("AZURE_STORAGE_CONNECTION_STRING", &text)]).unwrap(), "Sas(***)");
        assert_eq!(to(REAL, &[]).unwrap(), "Bearer(***)", "an identity is what is left");
    }

    #[test]
    fn emulators_need_nothing_and_are_not_confused_by_other_accounts() {
        assert_eq!(to(EMULATOR, &[]).unwrap(), "Key(devstoreaccount1)");
        let other = [("AZURE_STORAGE_ACCOUNT", "acct"), ("AZURE_STORAGE_KEY", KEY_B)];
        assert_eq!(to(EMULATOR, &other).unwrap(), "Key(devstoreaccount1)");
        let development = [("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true")];
        assert_eq!(to(EMULATOR, &development).unwrap(), "Key(devstoreaccount1)");
        let far = "http://10.0.0.1:10000/devstoreaccount1";
        assert!(matches!(to(far, &[]), Err(ConfigError::NoRight(_))), "its key protects nothing elsewhere");
    }

    #[test]
    fn wrong_values_are_named_and_not_shown() {
        let error = to(REAL, &[("AZURE_STORAGE_KEY", "s3cret")]).unwrap_err();
        assert_eq!(error, ConfigError::Variable("AZURE_STORAGE_KEY".to_owned()));
        let error = to(REAL, &[("AZURE_STORAGE_CONNECTION_STRING", "AccountKey=s3cret")]).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("s3cret"));
        let other = [("AZURE_STORAGE_ACCOUNT", "two"), ("AZURE_STORAGE_KEY", KEY_B)];
        let error = to(REAL, &other).unwrap_err();
        assert!(
            matches!(error, ConfigError::OtherAccount { given, wanted } if given == "two" && wanted == "acct")
        );
    }

    #[test]
    fn the_azure_clis_file_is_read_again_when_asked() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let here = folder.path().to_str().unwrap().to_owned();
        let environment = environment(&[("AZURE_CONFIG_DIR", &here)]);
        let (service, _) = ServiceUrl::split(REAL).unwrap();
        let read = || environment.credential(&service).unwrap();
        assert!(matches!(read(), Credential::Bearer(_)), "no file, no key");
        std::fs::write(&file, format!("[core]\nkey = x\n[storage]\naccount = acct\nkey = {KEY_B}\n"))
            .unwrap();
        let first = read();
        assert!(matches!(first, Credential::Key { .. }));
        assert!(first.is_same(&read()));
        std::fs::write(&file, format!("[storage]\naccount = acct\nkey = {DEVELOPMENT_KEY}\n")).unwrap();
        assert!(!first.is_same(&read()));
    }
}
