//! Sends requests: signs them, tries again where that helps, and reads the answer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::config::AzureConfig;
use super::credential::Credential;
use super::failure::{Failure, FailureKind, Refusal};
use super::retry::{Outcome, Repeat, RetryBudget};
use super::rights::{Right, Rights};
use crate::share::Moment;
use crate::store::{BlobBody, BlobPath, ContainerName, Result, StoreError};
use crate::wire::query::{self, Query};
use crate::wire::signing::Service;
use crate::wire::signing::sas::{Place, SasToken, SignedResource};
use crate::wire::signing::shared_key::{SignedParts, authorization};
use crate::wire::version::ServiceVersion;
use crate::wire::{ErrorCode, date, headers, xml};

/// Requests under way at the same time.
const MAX_CONCURRENT: usize = 64;
/// Connections kept open for the next request.
const MAX_IDLE: usize = 32;
/// How long the service may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the service may be silent.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Files are sent in pieces of this size.
const PIECE: usize = 1024 * 1024;
/// A signed source of a copy can be read for so long.
const SOURCE_MINUTES: u64 = 60;

/// What a request is about.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// The service.
    Service,
    /// A container.
    Container(ContainerName),
    /// A blob.
    Blob(BlobPath),
}

impl From<&BlobPath> for Target {
    fn from(at: &BlobPath) -> Self {
        Target::Blob(at.clone())
    }
}

impl From<&ContainerName> for Target {
    fn from(name: &ContainerName) -> Self {
        Target::Container(name.clone())
    }
}

/// A body that can be sent more than once.
pub(super) enum Payload {
    /// None.
    Empty,
    /// In memory.
    Bytes(Bytes),
    /// In a file. The body is kept, because the file is used for something else once it is dropped.
    File(BlobBody),
}

impl From<BlobBody> for Payload {
    fn from(body: BlobBody) -> Self {
        match body.as_bytes() {
            Some(bytes) => Payload::Bytes(bytes.clone()),
            None => Payload::File(body),
        }
    }
}

impl Payload {
    fn length(&self) -> u64 {
        match self {
            Payload::Empty => 0,
            Payload::Bytes(bytes) => bytes.len() as u64,
            Payload::File(body) => body.size(),
        }
    }

    fn body(&self) -> reqwest::Body {
        match self {
            Payload::Empty => reqwest::Body::from(Bytes::new()),
            Payload::Bytes(bytes) => reqwest::Body::from(bytes.clone()),
            Payload::File(body) => match body.as_file() {
                Some(file) => reqwest::Body::wrap_stream(pieces(Arc::clone(file), body.size())),
                None => reqwest::Body::from(Bytes::new()),
            },
        }
    }
}

/// The first `length` bytes of a file, read where blocking is allowed.
fn pieces(file: Arc<File>, length: u64) -> impl futures_util::Stream<Item = io::Result<Bytes>> {
    futures_util::stream::try_unfold((file, 0_u64), move |(file, at)| async move {
        let size = usize::try_from(length - at).unwrap_or(usize::MAX).min(PIECE);
        if size == 0 {
            return Ok(None);
        }
        let reader = Arc::clone(&file);
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; size];
            reader.read_exact_at(&mut piece, at).map(|()| Bytes::from(piece))
        });
        let piece = read.await.map_err(io::Error::other)??;
        Ok(Some((piece, (file, at + size as u64))))
    })
}

/// A request to be sent.
pub(super) struct Call {
    method: Method,
    target: Target,
    query: Vec<(&'static str, String)>,
    headers: HeaderMap,
    payload: Payload,
    repeat: Repeat,
    piecewise: bool,
}

impl Call {
    /// A request that may be sent twice.
    pub(super) fn new(method: Method, target: impl Into<Target>) -> Self {
        Self {
            method,
            target: target.into(),
            query: Vec::new(),
            headers: HeaderMap::new(),
            payload: Payload::Empty,
            repeat: Repeat::Safe,
            piecewise: false,
        }
    }

    /// Its answer's body is not waited for.
    pub(super) fn piecewise(mut self) -> Self {
        self.piecewise = true;
        self
    }

    /// With a parameter in its query.
    pub(super) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// With a parameter, if there is a value.
    pub(super) fn maybe_query(self, name: &'static str, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// With a header. A value that no header can have is an error when the request is sent.
    pub(super) fn header(mut self, name: &str, value: impl AsRef<str>) -> Result<Self> {
        let refuse = || {
            let text = format!("the value of {name} cannot be sent in a header");
            StoreError::io("a request", io::Error::new(io::ErrorKind::InvalidInput, text))
        };
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refuse())?;
        let value = HeaderValue::from_str(value.as_ref()).map_err(|_| refuse())?;
        self.headers.insert(name, value);
        Ok(self)
    }

    /// With a header, if there is a value.
    pub(super) fn maybe_header(self, name: &str, value: Option<impl AsRef<str>>) -> Result<Self> {
        match value {
            Some(value) => self.header(name, value),
            None => Ok(self),
        }
    }

    /// With a body.
    pub(super) fn body(mut self, payload: impl Into<Payload>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Whether its `comp` parameter is this one.
    pub(super) fn is_about(&self, comp: &str) -> bool {
        self.query.iter().any(|(name, value)| *name == "comp" && value == comp)
    }

    /// Not to be sent twice.
    pub(super) fn once(mut self) -> Self {
        self.repeat = Repeat::Never;
        self
    }
}

/// An answer that is a success.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The body of a [piecewise](Call::piecewise) request, in place of `body`.
    pub(super) coming: Option<Box<Coming>>,
}

/// A body on its way. Holds a slot until it is dropped.
#[derive(Debug)]
pub(super) struct Coming {
    response: reqwest::Response,
    what: String,
    _slot: OwnedSemaphorePermit,
}

impl Coming {
    /// The pieces as they come; the last is an error if the answer breaks off.
    pub(super) fn pieces(self: Box<Self>) -> impl futures_util::Stream<Item = Result<Bytes>> {
        futures_util::stream::try_unfold(self, |mut coming| async move {
            match coming.response.chunk().await {
                Ok(piece) => Ok(piece.map(|piece| (piece, coming))),
                Err(error) => {
                    let (_, kind, text) = described(error);
                    Err(StoreError::io(coming.what, io::Error::new(kind, text)))
                }
            }
        })
    }
}

/// Sends requests to one service.
pub(super) struct Client {
    config: AzureConfig,
    rights: Rights,
    budget: Mutex<RetryBudget>,
    http: reqwest::Client,
    slots: Arc<Semaphore>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("config", &self.config).finish_non_exhaustive()
    }
}

/// One attempt's end.
enum Attempt {
    Done(Answer),
    Failed(Outcome, FailureKind),
}

impl Client {
    pub(super) fn new(config: AzureConfig) -> Result<Self> {
        let mut builder = http_client().pool_max_idle_per_host(MAX_IDLE);
        if config.service.is_loopback() {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| {
            StoreError::io("making an HTTP client", io::Error::other(error.without_url().to_string()))
        })?;
        let rights = Rights::new(config.credential.clone(), config.reread.clone());
        let budget = Mutex::new(RetryBudget::full(Instant::now()));
        Ok(Self { config, rights, budget, http, slots: Arc::new(Semaphore::new(MAX_CONCURRENT)) })
    }

    /// Sends a request, several times if need be.
    pub(super) async fn send(&self, call: &Call) -> std::result::Result<Answer, Box<Failure>> {
        let id = uuid::Uuid::new_v4().to_string();
        let path = self.path(&call.target);
        let what = format!("{} {path} (client request {id})", call.method);
        let (start, mut lost, mut refused_token, mut renewed, mut next) =
            (Instant::now(), false, false, false, 0);
        loop {
            next += 1;
            let right = self.rights.current();
            let (outcome, kind) = match self.attempt(call, &path, &id, &right, refused_token).await {
                Attempt::Done(answer) => {
                    self.budget.lock().gains();
                    return Ok(answer);
                }
                Attempt::Failed(outcome, kind) => (outcome, kind),
            };
            tracing::debug!(what, ?outcome, attempt = next, "request did not succeed");
            lost |= outcome.may_have_happened();
            if outcome.is_status(401) && matches!(right.credential, Credential::Bearer(_)) && !refused_token {
                refused_token = true;
                continue;
            }
            if outcome.is_status(403) {
                if !renewed && self.rights.is_renewed_after(&right).await {
                    renewed = true;
                    continue;
                }
                self.rights.tell_refusal(&what, &kind.to_string());
            }
            let dice = f64::from(uuid::Uuid::new_v4().as_fields().0) / f64::from(u32::MAX);
            match self.config.retry.wait(next, start.elapsed(), outcome, call.repeat, dice) {
                Some(wait) if outcome.is_throttled() || self.budget.lock().takes(Instant::now()) => {
                    tokio::time::sleep(wait).await;
                }
                Some(_) | None => return Err(Box::new(Failure { kind, lost, what })),
            }
        }
    }

    async fn attempt(
        &self,
        call: &Call,
        path: &str,
        id: &str,
        right: &Right,
        refused_token: bool,
    ) -> Attempt {
        let not_sent = |text: String| {
            Attempt::Failed(Outcome::Unsendable, FailureKind::Broken(io::ErrorKind::PermissionDenied, text))
        };
        let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else {
            return not_sent("the client is shut down".to_owned());
        };
        let (url, headers) = match self.prepare(call, path, id, right, refused_token).await {
            Ok(prepared) => prepared,
            Err(text) => return not_sent(text),
        };
        let request = self.http.request(call.method.clone(), url).headers(headers).body(call.payload.body());
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return broken(error),
        };
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let success = (200..300).contains(&status);
        if success && call.piecewise {
            let what = format!("{} {path} (client request {id})", call.method);
            let coming = Coming { response, what, _slot: slot };
            return Attempt::Done(Answer { headers, body: Bytes::new(), coming: Some(Box::new(coming)) });
        }
        match response.bytes().await {
            Ok(body) if success => Attempt::Done(Answer { headers, body, coming: None }),
            Ok(body) => refused(status, &headers, &body),
            Err(error) => broken(error),
        }
    }

    /// The URL and the headers of an attempt: dated and signed.
    async fn prepare(
        &self,
        call: &Call,
        path: &str,
        id: &str,
        right: &Right,
        refused_token: bool,
    ) -> std::result::Result<(reqwest::Url, HeaderMap), String> {
        let mut headers = call.headers.clone();
        let mut set = |name: &'static str, value: String| -> std::result::Result<(), String> {
            let mut value = HeaderValue::from_str(&value).map_err(|_| format!("{name} cannot be sent"))?;
            value.set_sensitive(name == headers::AUTHORIZATION);
            headers.insert(HeaderName::from_static(name), value);
            Ok(())
        };
        set(headers::VERSION, ServiceVersion::NEWEST.to_string())?;
        set(headers::X_MS_DATE, date::http(now()))?;
        set(headers::CLIENT_REQUEST_ID, id.to_owned())?;
        set(headers::CONTENT_LENGTH, call.payload.length().to_string())?;
        let pairs = call.query.iter().map(|(name, value)| format!("{name}={}", query::encode(value)));
        let mut raw = pairs.collect::<Vec<_>>().join("&");
        match &right.credential {
            Credential::Anonymous => {}
            Credential::Sas(token) => {
                if !raw.is_empty() {
                    raw.push('&');
                }
                raw.push_str(token);
            }
            Credential::Bearer(source) => {
                let token = source.token(refused_token).await?;
                set(headers::AUTHORIZATION, format!("Bearer {token}"))?;
            }
            Credential::Key { account, key } => {
                let query = Query::parse(&raw).map_err(|fault| fault.to_string())?;
                let method = call.method.as_str();
                let value = authorization(
                    account,
                    key,
                    &SignedParts { method, path, query: &query, headers: &headers },
                );
                let mut value = HeaderValue::from_str(&value)
                    .map_err(|_| "the account's name cannot be sent".to_owned())?;
                value.set_sensitive(true);
                headers.insert(HeaderName::from_static(headers::AUTHORIZATION), value);
            }
        }
        let mark = if raw.is_empty() { "" } else { "?" };
        let url = format!("{}{path}{mark}{raw}", self.config.service.origin);
        let url = reqwest::Url::parse(&url).map_err(|error| error.to_string())?;
        Ok((url, headers))
    }

    /// The path on the wire.
    fn path(&self, target: &Target) -> String {
        let base = &self.config.service.base;
        match target {
            Target::Service => format!("{base}/"),
            Target::Container(name) => format!("{base}/{name}"),
            Target::Blob(at) => format!("{base}/{}/{}", at.container, query::encode_path(at.name.as_str())),
        }
    }

    /// The URL of a blob or snapshot as the source of a copy. With `signed`, it carries a right of its own, as far
    /// as we can give one.
    pub(super) fn source_url(&self, at: &BlobPath, snapshot: Option<Moment>, signed: bool) -> Result<String> {
        let snapshot = snapshot.map(date::iso_ticks);
        let mut pairs: Vec<String> =
            snapshot.iter().map(|id| format!("snapshot={}", query::encode(id))).collect();
        match &self.rights.current().credential {
            Credential::Sas(token) => pairs.push(token.clone()),
            Credential::Key { account, key } if signed => {
                let until = now().after(Duration::from_secs(60 * SOURCE_MINUTES));
                let place = Place {
                    service: Service::Blob,
                    account,
                    container: Some(at.container.as_str()),
                    name: Some(at.name.as_str()),
                    snapshot: snapshot.as_deref(),
                };
                let resource =
                    if snapshot.is_some() { SignedResource::Snapshot } else { SignedResource::Blob };
                let token = SasToken::service(resource, "r", &date::iso_seconds(until)).sign(key, &place);
                pairs.push(
                    token.map_err(|fault| StoreError::io("signing a source", io::Error::other(fault)))?,
                );
            }
            Credential::Key { .. } | Credential::Bearer(_) | Credential::Anonymous => {}
        }
        let mark = if pairs.is_empty() { "" } else { "?" };
        let path = self.path(&Target::from(at));
        Ok(format!("{}{path}{mark}{}", self.config.service.origin, pairs.join("&")))
    }
}

fn refused(status: u16, headers: &HeaderMap, body: &[u8]) -> Attempt {
    let text =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let error = xml::parse_error(body).unwrap_or_default();
    let code = match text(headers::ERROR_CODE) {
        given if given.is_empty() => error.code,
        given => given,
    };
    let message = error.message.lines().next().unwrap_or_default();
    let known = ErrorCode::parse(&code).or_else(|| bodiless(status));
    let milliseconds = text(headers::RETRY_AFTER_MS).parse().ok().map(Duration::from_millis);
    let after = milliseconds.or_else(|| text(headers::RETRY_AFTER).parse().ok().map(Duration::from_secs));
    let refusal = Refusal {
        status,
        code: known,
        text: format!("{code}: {message}"),
        request_id: text(headers::REQUEST_ID),
    };
    Attempt::Failed(Outcome::Answered { status, code: known, after }, FailureKind::Refused(refusal))
}

/// What a status alone says.
fn bodiless(status: u16) -> Option<ErrorCode> {
    match status {
        404 => Some(ErrorCode::ResourceNotFound),
        412 => Some(ErrorCode::ConditionNotMet),
        _ => None,
    }
}

fn broken(error: reqwest::Error) -> Attempt {
    let (outcome, kind, text) = described(error);
    Attempt::Failed(outcome, FailureKind::Broken(kind, text))
}

/// What an error of the line means, and its text without secrets.
fn described(error: reqwest::Error) -> (Outcome, io::ErrorKind, String) {
    let (outcome, kind) = if error.is_connect() {
        (Outcome::NotSent, io::ErrorKind::ConnectionRefused)
    } else if error.is_timeout() {
        (Outcome::Lost, io::ErrorKind::TimedOut)
    } else {
        (Outcome::Lost, io::ErrorKind::ConnectionAborted)
    };
    // The URL may hold a signature.
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    (outcome, kind, text)
}

/// How every HTTP client of ours begins.
pub(super) fn http_client() -> reqwest::ClientBuilder {
    // Fails if there is a provider already, which is as good.
    rustls::crypto::ring::default_provider().install_default().ok();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .tcp_nodelay(true)
}

pub(super) fn now() -> Moment {
    SystemTime::now().into()
}
