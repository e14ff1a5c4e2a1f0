//! What a service does with every request whatever it speaks: framing, health, browsers, failures, what every answer
//! carries, and a line in the log.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};

use super::cors;
use super::failure::Failure;
use super::reply::{Reply, close_after};
use super::server::{Answer, AnswerBody, Request, RequestBody, check_framing};
use crate::share::Moment;
use crate::wire::version::ServiceVersion;
use crate::wire::xml::ServiceProperties;
use crate::wire::{date, headers};

/// Longest `x-ms-client-request-id` that is repeated in the answer.
const CLIENT_ID_MAX: usize = 1024;
/// Answers without asking who asks.
const HEALTH_PATH: &str = "/healthz";

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    /// Its address.
    pub(super) peer: std::net::SocketAddr,
    /// Whether the connection is encrypted.
    pub(super) secure: bool,
}

/// A service, as far as it does not matter what it speaks.
pub(super) trait Service: Send + Sync {
    /// How it shows itself.
    fn face(&self) -> &Face;

    /// What time it is.
    fn now(&self) -> Moment;

    /// Its settings.
    fn settings(&self) -> impl Future<Output = Result<Arc<ServiceProperties>, Failure>> + Send;

    /// Does what a well-formed request asks for.
    fn handle(
        &self,
        head: &Parts,
        body: &mut RequestBody,
        caller: Caller,
    ) -> impl Future<Output = Result<Answer, Failure>> + Send;
}

/// Answers one request.
pub(super) async fn answer<S: Service>(service: &S, request: Request) -> Answer {
    let started = Instant::now();
    let Request { head, mut body, peer, secure } = request;
    let id = service.face().request_id();
    let mut answer = match outcome(service, &head, &mut body, Caller { peer, secure }).await {
        Ok(answer) => answer,
        Err(failure) => {
            let unfit = check_framing(&head).is_err();
            if !unfit {
                body.drain();
            }
            let mut answer = failure.into_answer(&head.method, &id, &date::iso_ticks(service.now()));
            if unfit {
                close_after(&mut answer);
            }
            answer
        }
    };
    service.face().sign(&mut answer, &head, &id);
    if head.headers.contains_key(header::ORIGIN)
        && let Ok(settings) = service.settings().await
    {
        cors::allow_origin(&settings, &head, &mut answer);
    }
    log(&head, &answer, &id, peer, started);
    answer
}

async fn outcome<S: Service>(
    service: &S,
    head: &Parts,
    body: &mut RequestBody,
    caller: Caller,
) -> Result<Answer, Failure> {
    check_framing(head)?;
    if head.uri.path() == HEALTH_PATH && head.method == Method::GET {
        return Ok(Reply::ok().with(AnswerBody::Bytes("ok\n".into())));
    }
    if head.method == Method::OPTIONS {
        return cors::preflight(&*service.settings().await?, head);
    }
    service.handle(head, body, caller).await
}

/// How a service shows itself: its name, and the numbers of its requests.
pub(super) struct Face {
    /// What the `Server` header says.
    name: &'static str,
    /// Numbers requests; starts at random so that ids of two runs differ.
    requests: AtomicU64,
    run: u64,
}

impl Face {
    pub(super) fn new(name: &'static str) -> Self {
        let (run, _) = uuid::Uuid::new_v4().as_u64_pair();
        Self { name, requests: AtomicU64::new(0), run }
    }

    /// An id that no other request has, in the form of a GUID.
    pub(super) fn request_id(&self) -> String {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let (a, b, c) = (self.run >> 32, (self.run >> 16) & 0xffff, self.run & 0xffff);
        format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", number >> 48, number & 0xffff_ffff_ffff)
    }

    /// Adds what every answer carries.
    pub(super) fn sign(&self, answer: &mut Answer, head: &Parts, id: &str) {
        let version = ServiceVersion::from_headers(&head.headers).ok().flatten();
        let version = version.unwrap_or(ServiceVersion::NEWEST).effective().to_string();
        let list = answer.headers_mut();
        list.insert(header::SERVER, HeaderValue::from_static(self.name));
        for (name, value) in [(headers::REQUEST_ID, id), (headers::VERSION, &version)] {
            if let Ok(value) = HeaderValue::from_str(value) {
                list.insert(name, value);
            }
        }
        if let Some(given) = head.headers.get(headers::CLIENT_REQUEST_ID)
            && given.len() <= CLIENT_ID_MAX
        {
            list.insert(headers::CLIENT_REQUEST_ID, given.clone());
        }
    }
}

/// One line per request: refusals by the service at debug, its own failures as errors. Never a signature.
fn log(head: &Parts, answer: &Answer, id: &str, peer: std::net::SocketAddr, started: Instant) {
    let status = answer.status();
    let failed = status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED;
    if !failed && !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let url = redacted(head.uri.path(), head.uri.query());
    let code = answer.headers().get(headers::ERROR_CODE).and_then(|code| code.to_str().ok()).unwrap_or("-");
    let (method, millis) = (&head.method, started.elapsed().as_millis());
    if failed {
        tracing::error!(%peer, %method, url, status = status.as_u16(), code, millis, id, "request failed");
    } else {
        tracing::debug!(%peer, %method, url, status = status.as_u16(), code, millis, id, "request");
    }
}

/// A URL for the log: without the signature of a SAS.
pub(super) fn redacted(path: &str, query: Option<&str>) -> String {
    let Some(query) = query else { return path.to_owned() };
    let is_signature = |part: &str| part.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("sig="));
    let parts: Vec<&str> =
        query.split('&').map(|part| if is_signature(part) { "sig=REDACTED" } else { part }).collect();
    format!("{path}?{}", parts.join("&"))
}

/// The time of this machine.
pub(super) fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_shows_no_signature() {
        assert_eq!(redacted("/a/b", None), "/a/b");
        assert_eq!(redacted("/a", Some("sv=1&SIG=abc%3D&sp=r")), "/a?sv=1&sig=REDACTED&sp=r");
    }
}
