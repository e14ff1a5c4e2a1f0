//! Stand-in until the branch `wire` brings the accounts: knows their names, checks no signature yet.

/// The emulators' account.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
/// Its key, known to everybody.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The accounts of a server.
#[derive(Clone, Debug)]
pub struct Accounts(String);

impl Accounts {
    /// The emulators' account alone.
    pub fn development() -> Self {
        Self(DEVELOPMENT_ACCOUNT.to_owned())
    }

    /// One account.
    pub fn single(name: &str, _keys: &[String]) -> Result<Self, String> {
        Ok(Self(name.to_owned()))
    }

    /// Whether there is such an account.
    pub fn knows(&self, name: &str) -> bool {
        self.0 == name
    }
}
