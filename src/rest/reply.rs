//! Putting an answer together: status, headers, body. Only shapes; what goes in is the handlers' business.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::rest::server::{Answer, AnswerBody};
use crate::share::Moment;
use crate::store::{ETag, Metadata};
use crate::wire::{ErrorCode, date, headers};

/// Header lines of a usual answer.
const USUAL_HEADERS: usize = 24;

/// An answer under construction.
#[derive(Debug)]
pub(super) struct Reply {
    status: StatusCode,
    headers: HeaderMap,
}

impl Reply {
    pub(super) fn new(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::with_capacity(USUAL_HEADERS) }
    }

    pub(super) fn ok() -> Self {
        Self::new(StatusCode::OK)
    }

    pub(super) fn created() -> Self {
        Self::new(StatusCode::CREATED)
    }

    pub(super) fn accepted() -> Self {
        Self::new(StatusCode::ACCEPTED)
    }

    /// Sets a header. A value that no header can carry (stored by somebody who knows no HTTP) is left out.
    #[must_use]
    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    /// Sets a header to a text that is known already.
    #[must_use]
    pub(super) fn fixed(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        self
    }

    #[must_use]
    pub(super) fn number(mut self, name: &'static str, value: u64) -> Self {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::from(value));
        self
    }

    #[must_use]
    pub(super) fn maybe(self, name: &'static str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.header(name, value),
            None => self,
        }
    }

    /// ETag and Last-Modified.
    #[must_use]
    pub(super) fn version(self, etag: ETag, modified: Moment) -> Self {
        self.header(headers::ETAG, &etag.to_string()).header(headers::LAST_MODIFIED, &date::http(modified))
    }

    /// `x-ms-meta-…` for every name.
    #[must_use]
    pub(super) fn metadata(mut self, metadata: &Metadata) -> Self {
        for (name, value) in metadata.iter() {
            let name = HeaderName::from_bytes(format!("{}{name}", headers::META_PREFIX).as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
                self.headers.insert(name, value);
            }
        }
        self
    }

    pub(super) fn empty(self) -> Answer {
        self.with(AnswerBody::empty())
    }

    pub(super) fn xml(self, body: impl Into<bytes::Bytes>) -> Answer {
        self.fixed(headers::CONTENT_TYPE, "application/xml").with(AnswerBody::Bytes(body.into()))
    }

    pub(super) fn with(self, body: AnswerBody) -> Answer {
        let mut answer = Answer::new(body);
        *answer.status_mut() = self.status;
        *answer.headers_mut() = self.headers;
        answer
    }
}

/// The status a code is sent with.
pub(super) fn status_of(code: ErrorCode) -> StatusCode {
    StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Closes the connection behind this answer.
pub(super) fn close_after(answer: &mut Answer) {
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
}
