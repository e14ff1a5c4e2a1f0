//! Blob Batch: many deletes, or many tier changes, in one request. Each is a request of its own, with its own
//! authorization and its own answer; that one fails says nothing about the others.

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};
use http_body_util::BodyExt;

use super::BlobService;
use super::call::Call;
use super::failure::Result;
use super::operation::{BlobOp, Operation};
use crate::rest::reply::Reply;
use crate::rest::server::{Answer, AnswerBody, RequestBody};
use crate::store::ContainerName;
use crate::wire::{ErrorCode, Fault, date, headers};

/// Largest body of a batch.
const BATCH_BODY_MAX: u64 = 4 * 1024 * 1024;
/// Requests in a batch.
const BATCH_REQUESTS_MAX: usize = 256;
/// Header lines of one request in a batch.
const PART_HEADERS_MAX: usize = 64;

/// One request of a batch, as read from its part.
#[derive(Debug)]
struct Item {
    content_id: Option<String>,
    head: Parts,
}

impl BlobService {
    /// Blob Batch, of an account or of one container.
    pub(super) async fn batch(
        &self,
        call: &mut Call<'_>,
        container: Option<&ContainerName>,
    ) -> Result<Answer> {
        let boundary = boundary(call.header(headers::CONTENT_TYPE)?)?;
        let body = call.whole_body(BATCH_BODY_MAX).await?;
        let items = parse(&body, &boundary)?;
        let separator = format!("batchresponse_{}", uuid::Uuid::new_v4());
        let mut answers = Vec::with_capacity(body.len());
        for item in items {
            let answer = self.batch_item(call, container, &item.head).await;
            let (mut answer, id) = match answer {
                Ok(answer) => (answer, self.face.request_id()),
                Err(failure) => {
                    let id = self.face.request_id();
                    (failure.into_answer(&item.head.method, &id, &date::iso_ticks(call.now)), id)
                }
            };
            self.face.sign(&mut answer, &item.head, &id);
            write_part(&mut answers, &separator, item.content_id.as_deref(), answer).await;
        }
        answers.extend_from_slice(format!("--{separator}--\r\n").as_bytes());
        let kind = format!("multipart/mixed; boundary={separator}");
        Ok(Reply::accepted().header(headers::CONTENT_TYPE, &kind).with(AnswerBody::Bytes(answers.into())))
    }

    async fn batch_item(
        &self,
        call: &Call<'_>,
        container: Option<&ContainerName>,
        head: &Parts,
    ) -> Result<Answer> {
        let host = headers::text(call.headers(), headers::HOST)?.unwrap_or_default();
        let path = full_path(head.uri.path(), &call.target.account.name, call.target.account.in_host);
        let mut body = RequestBody::empty();
        let (mut inner, operation) = self.admit(head, &mut body, call.caller, host, &path).await?;
        match &operation {
            Operation::Blob(at, BlobOp::Delete | BlobOp::SetTier)
                if container.is_none_or(|container| *container == at.container) => {}
            Operation::Blob(..) | Operation::Container(..) | Operation::Account(_) => {
                return Err(Fault::new(ErrorCode::InvalidInput)
                    .saying("A batch deletes blobs or sets their tiers, in the account or container it was sent to.")
                    .into());
            }
        }
        self.perform(&mut inner, &operation).await
    }
}

/// Clients name the account in the parts' URLs or leave it out, in both URL styles.
fn full_path(path: &str, account: &str, in_host: bool) -> String {
    let names_account = path.strip_prefix('/').and_then(|path| path.strip_prefix(account));
    let names_account =
        names_account.is_some_and(|rest| rest.starts_with('/') && rest.matches('/').count() >= 2);
    match (in_host, names_account) {
        (true, _) | (false, true) => path.to_owned(),
        (false, false) => format!("/{account}{path}"),
    }
}

/// The boundary that a Content-Type names.
fn boundary(content_type: Option<&str>) -> Result<String> {
    let invalid = || Fault::invalid_header(headers::CONTENT_TYPE, content_type.unwrap_or_default());
    let text = content_type.ok_or_else(|| Fault::missing_header(headers::CONTENT_TYPE))?;
    let mut parts = text.split(';').map(str::trim);
    if !parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("multipart/mixed")) {
        return Err(invalid().into());
    }
    let named = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"').to_owned())
    });
    Ok(named.filter(|text| (1..=70).contains(&text.len())).ok_or_else(invalid)?)
}

/// The requests of a batch, in order.
fn parse(body: &[u8], boundary: &str) -> Result<Vec<Item>> {
    let malformed =
        |why: &str| Fault::new(ErrorCode::InvalidInput).saying(format!("The batch is malformed: {why}."));
    let text = std::str::from_utf8(body).map_err(|_| malformed("it is not text"))?;
    let separator = format!("--{boundary}");
    let mut pieces = text.split(separator.as_str());
    pieces.next();
    let mut items = Vec::new();
    let mut ended = false;
    for piece in pieces {
        if piece.starts_with("--") {
            ended = true;
            break;
        }
        if items.len() == BATCH_REQUESTS_MAX {
            return Err(malformed("it has more than 256 requests").into());
        }
        items.push(parse_item(piece).ok_or_else(|| malformed("one of its requests cannot be read"))?);
    }
    if !ended {
        return Err(malformed("its end is missing").into());
    }
    if items.is_empty() {
        return Err(malformed("it has no request").into());
    }
    Ok(items)
}

/// One part: its own headers, a blank line, and a request's first line and headers.
fn parse_item(piece: &str) -> Option<Item> {
    let mut lines = piece.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    // What follows the boundary on its line.
    if !lines.next()?.trim().is_empty() {
        return None;
    }
    let outer = read_headers(&mut lines)?;
    let content_id = outer.get("content-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let first = lines.find(|line| !line.is_empty())?;
    let mut words = first.split(' ');
    let (method, target, protocol) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || protocol != "HTTP/1.1" || !target.starts_with('/') {
        return None;
    }
    let mut request = Request::new(());
    *request.method_mut() = method.parse::<Method>().ok()?;
    *request.uri_mut() = target.parse::<Uri>().ok()?;
    *request.version_mut() = Version::HTTP_11;
    *request.headers_mut() = read_headers(&mut lines)?;
    // A body, which neither operation has, would follow here.
    lines.all(str::is_empty).then_some(())?;
    Some(Item { content_id, head: request.into_parts().0 })
}

/// Header lines up to the blank one.
fn read_headers<'t>(lines: &mut impl Iterator<Item = &'t str>) -> Option<HeaderMap> {
    let mut list = HeaderMap::new();
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        if list.len() == PART_HEADERS_MAX {
            return None;
        }
        let (name, value) = line.split_once(':')?;
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        list.append(name, HeaderValue::from_str(value.trim()).ok()?);
    }
    Some(list)
}

/// Writes one answer into the answer of the batch.
async fn write_part(out: &mut Vec<u8>, separator: &str, content_id: Option<&str>, answer: Answer) {
    let status = answer.status();
    let reason = status.canonical_reason().unwrap_or("");
    out.extend_from_slice(format!("--{separator}\r\nContent-Type: application/http\r\n").as_bytes());
    if let Some(id) = content_id {
        out.extend_from_slice(format!("Content-ID: {id}\r\n").as_bytes());
    }
    out.extend_from_slice(format!("\r\nHTTP/1.1 {} {reason}\r\n", status.as_u16()).as_bytes());
    let (head, body) = answer.into_parts();
    for (name, value) in &head.headers {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    // These answers are short and in memory.
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_else(|_| Bytes::new());
    if !body.is_empty() {
        out.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&body);
    out.extend_from_slice(b"\r\n");
}

/// Reads a batch as far as that goes, for tests of what it must survive.
#[cfg(test)]
pub(super) fn read(body: &[u8], content_type: &str) {
    if let Ok(boundary) = boundary(Some(content_type)) {
        let _ = parse(body, &boundary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "--b1\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\n\
        DELETE /c/x?snapshot=1 HTTP/1.1\r\nx-ms-date: d\r\nContent-Length: 0\r\n\r\n\r\n\
        --b1\r\nContent-Type: application/http\r\n\r\nPUT /c/y?comp=tier HTTP/1.1\r\n\r\n--b1--\r\n";

    #[test]
    fn requests_are_read_in_order() {
        let items = parse(BODY.as_bytes(), "b1").unwrap();
        assert_eq!(items.len(), 2);
        assert_eq!((items[0].content_id.as_deref(), items[1].content_id.as_deref()), (Some("0"), None));
        assert_eq!(items[0].head.uri.to_string(), "/c/x?snapshot=1");
        assert_eq!(items[0].head.headers["x-ms-date"], "d");
        assert_eq!(items[1].head.method, Method::PUT);
    }

    #[test]
    fn malformed_batches_are_refused() {
        for bad in [
            "",
            "--b1--",
            "--b1\r\n\r\n\r\n--b1--",
            &BODY[..BODY.len() - 6],
            &BODY.replace("HTTP/1.1", "HTTP/9"),
        ] {
            assert!(parse(bad.as_bytes(), "b1").is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_boundary_is_in_the_content_type() {
        assert_eq!(boundary(Some("multipart/mixed; boundary=batch_1")).unwrap(), "batch_1");
        assert_eq!(boundary(Some("Multipart/Mixed; charset=x; boundary=\"a b\"")).unwrap(), "a b");
        assert!(boundary(Some("text/plain")).is_err() && boundary(None).is_err());
    }

    #[test]
    fn paths_with_and_without_the_account() {
        assert_eq!(full_path("/acct/c/b", "acct", false), "/acct/c/b");
        assert_eq!(full_path("/c/b", "acct", false), "/acct/c/b");
        assert_eq!(full_path("/acct/b", "acct", false), "/acct/acct/b");
        assert_eq!(full_path("/c/b", "acct", true), "/c/b");
    }
}
