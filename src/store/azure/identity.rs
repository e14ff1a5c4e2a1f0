//! Tokens of an Entra identity, through `azure_identity`: a service principal of the environment, workload identity,
//! managed identity, or who is logged in with `az login`. The first that gives a token is kept.
//!
//! A token is replaced five minutes before it ends. If that fails, the old one is used while it lasts. Tokens and
//! secrets never reach a log, an error or `Debug`.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use azure_core::credentials::{Secret, TokenCredential};
use azure_core::http::{ClientOptions, Transport};
use azure_identity::{
    AzureCliCredential, ClientAssertionCredentialOptions, ClientSecretCredential,
    ClientSecretCredentialOptions, ManagedIdentityCredential, ManagedIdentityCredentialOptions,
    UserAssignedId, WorkloadIdentityCredential, WorkloadIdentityCredentialOptions,
};
use time::OffsetDateTime;
use tokio::sync::Mutex;

use super::credential::TokenSource;
use super::environment::Environment;

/// What the tokens are for.
const SCOPE: &str = "https://storage.azure.com/.default";
/// So long before its end a token is replaced.
const REFRESH_BEFORE: Duration = Duration::from_secs(300);
/// After a failure, and after a token that was refused, nobody asks again for so long.
const HOLD_OFF: Duration = Duration::from_secs(10);
/// How long one kind of identity may take; `az` takes seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// Where machines in Azure ask for their identity, and how long it may take to find that this is none.
const MACHINE_ENDPOINT: &str = "169.254.169.254:80";
const MACHINE_PATIENCE: Duration = Duration::from_secs(1);

/// The kinds of identity, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Principal,
    Workload,
    Managed,
    AzLogin,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Principal, Kind::Workload, Kind::Managed, Kind::AzLogin];

    fn name(self) -> &'static str {
        match self {
            Kind::Principal => "environment",
            Kind::Workload => "workload identity",
            Kind::Managed => "managed identity",
            Kind::AzLogin => "az login",
        }
    }
}

/// An identity of this process.
pub(super) struct Identity {
    environment: Environment,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    chosen: Option<Arc<dyn TokenCredential>>,
    token: Option<Held>,
    failed: Option<(Instant, String)>,
}

struct Held {
    text: String,
    until: OffsetDateTime,
    got: Instant,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

impl Identity {
    /// The identity that these variables describe. Asks nobody yet.
    pub(super) fn of(environment: &Environment) -> Self {
        Self { environment: environment.clone(), state: Mutex::default() }
    }

    /// A new token from the kind of identity that worked before, or the first that does.
    async fn fetch(&self, state: &mut State) -> Result<Held, String> {
        if let Some(chosen) = state.chosen.clone() {
            return ask(&*chosen).await;
        }
        let mut tried = Vec::new();
        for kind in Kind::ALL {
            let credential = match self.credential(kind).await {
                Ok(credential) => credential,
                Err(why) => {
                    tried.push(format!("{}: {why}", kind.name()));
                    continue;
                }
            };
            match ask(&*credential).await {
                Ok(held) => {
                    tracing::info!(by = kind.name(), "an identity of Entra is used");
                    state.chosen = Some(credential);
                    return Ok(held);
                }
                Err(why) => tried.push(format!("{}: {why}", kind.name())),
            }
        }
        Err(format!("no identity gives a token ({})", tried.join("; ")))
    }

    async fn credential(&self, kind: Kind) -> Result<Arc<dyn TokenCredential>, String> {
        let get = |name: &str| self.environment.get(name).ok_or_else(|| format!("{name} is not set"));
        match kind {
            Kind::Principal => {
                let (tenant, client) = (get("AZURE_TENANT_ID")?, get("AZURE_CLIENT_ID")?);
                if self.environment.get("AZURE_CLIENT_CERTIFICATE_PATH").is_some() {
                    return Err("certificates are not supported, only AZURE_CLIENT_SECRET".to_owned());
                }
                let secret = Secret::new(get("AZURE_CLIENT_SECRET")?);
                let options = ClientSecretCredentialOptions { client_options: over_http(false)? };
                Ok(ClientSecretCredential::new(&tenant, client, secret, Some(options)).map_err(told)?)
            }
            Kind::Workload => {
                get("AZURE_FEDERATED_TOKEN_FILE")?;
                let inner = ClientAssertionCredentialOptions { client_options: over_http(false)? };
                let options =
                    WorkloadIdentityCredentialOptions { credential_options: inner, ..Default::default() };
                Ok(WorkloadIdentityCredential::new(Some(options)).map_err(told)?)
            }
            Kind::Managed => {
                if get("IDENTITY_ENDPOINT").is_err() && !is_machine_in_azure().await {
                    return Err("this machine has none".to_owned());
                }
                let user_assigned_id = self.environment.get("AZURE_CLIENT_ID").map(UserAssignedId::ClientId);
                let options =
                    ManagedIdentityCredentialOptions { user_assigned_id, client_options: over_http(true)? };
                Ok(ManagedIdentityCredential::new(Some(options)).map_err(told)?)
            }
            Kind::AzLogin => Ok(AzureCliCredential::new(None).map_err(told)?),
        }
    }
}

#[async_trait]
impl TokenSource for Identity {
    async fn token(&self, refused: bool) -> Result<String, String> {
        let mut state = self.state.lock().await;
        let now = OffsetDateTime::now_utc();
        // Many requests can be refused because of one token; only the first of them gets a new one.
        let known_bad = |held: &Held| refused && held.got.elapsed() > HOLD_OFF;
        let usable = |held: &&Held| !known_bad(held) && held.until > now;
        if let Some(held) = state.token.as_ref().filter(usable)
            && held.until > now + REFRESH_BEFORE
        {
            return Ok(held.text.clone());
        }
        if state.token.as_ref().is_some_and(known_bad) {
            // The credential remembers its tokens, too.
            (state.chosen, state.token) = (None, None);
        }
        let resting = state.failed.as_ref().filter(|(at, _)| at.elapsed() < HOLD_OFF);
        let failure = match resting {
            Some((_, why)) => why.clone(),
            None => match self.fetch(&mut state).await {
                Ok(held) => {
                    let text = held.text.clone();
                    (state.token, state.failed) = (Some(held), None);
                    return Ok(text);
                }
                Err(why) => {
                    tracing::warn!(%why, "no new token");
                    state.failed = Some((Instant::now(), why.clone()));
                    why
                }
            },
        };
        state.token.as_ref().filter(usable).map(|held| held.text.clone()).ok_or(failure)
    }
}

async fn ask(credential: &dyn TokenCredential) -> Result<Held, String> {
    let asked = tokio::time::timeout(PATIENCE, credential.get_token(&[SCOPE], None)).await;
    let token = asked.map_err(|_| format!("no answer within {} s", PATIENCE.as_secs()))?.map_err(told)?;
    Ok(Held { text: token.token.secret().to_owned(), until: token.expires_on, got: Instant::now() })
}

/// An error of the library in one line. Its texts hold no secrets; what a service sent is not among them.
#[allow(clippy::needless_pass_by_value, reason = "used as a function to map errors")]
fn told(error: azure_core::Error) -> String {
    let text = error.to_string();
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

/// The library sends its requests with our HTTP client. What is on this machine or beside it is asked directly.
fn over_http(nearby: bool) -> Result<ClientOptions, String> {
    let mut builder = super::client::http_client();
    if nearby {
        builder = builder.no_proxy();
    }
    let client = builder.build().map_err(|error| error.without_url().to_string())?;
    Ok(ClientOptions { transport: Some(Transport::new(Arc::new(client))), ..ClientOptions::default() })
}

/// Looks whether anybody answers, because the library would ask again and again.
async fn is_machine_in_azure() -> bool {
    let connecting = tokio::net::TcpStream::connect(MACHINE_ENDPOINT);
    matches!(tokio::time::timeout(MACHINE_PATIENCE, connecting).await, Ok(Ok(_)))
}
