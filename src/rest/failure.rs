//! Why there is no success to answer, and the answer that tells it. What a store's or an engine's error means is
//! said by each service in one total match.

use http::{Method, StatusCode};

use super::reply::{Reply, status_of};
use super::server::{Answer, BodyError, Unfit};
use crate::share::lease::LeaseRefusal;
use crate::wire::{ErrorCode, Fault, headers, xml};

/// Why an operation was not done.
#[derive(Debug)]
pub(super) enum Failure {
    /// Refused, with the service's code.
    Refused(Fault),
    /// A read that only wanted something newer. Not an error, but told with one's code.
    NotModified,
    /// The source of a copy cannot be used; the status says why.
    Source(StatusCode, String),
}

impl Failure {
    /// The status it is told with.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Failure::Refused(fault) => status_of(fault.code),
            Failure::NotModified => StatusCode::NOT_MODIFIED,
            Failure::Source(status, _) => *status,
        }
    }

    /// The answer that tells it. HEAD and 304 have no body, so the code stands in a header too.
    pub(super) fn into_answer(self, method: &Method, request_id: &str, time: &str) -> Answer {
        let reply = Reply::new(self.status());
        let fault = match self {
            Failure::NotModified => {
                return reply.header(headers::ERROR_CODE, ErrorCode::ConditionNotMet.as_str()).empty();
            }
            Failure::Source(_, why) => Fault::new(ErrorCode::CannotVerifyCopySource).saying(why),
            Failure::Refused(fault) => fault,
        };
        let reply = reply.header(headers::ERROR_CODE, fault.code.as_str());
        if *method == Method::HEAD {
            return reply.empty();
        }
        reply.xml(xml::error_body(&fault, request_id, time))
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Failure::Refused(fault)
    }
}

impl From<ErrorCode> for Failure {
    fn from(code: ErrorCode) -> Self {
        Failure::Refused(code.into())
    }
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        let code = match error {
            BodyError::Incomplete => ErrorCode::InvalidInput,
            BodyError::TooSlow => ErrorCode::OperationTimedOut,
            BodyError::TooLong { .. } => ErrorCode::RequestBodyTooLarge,
        };
        Failure::Refused(Fault::new(code).saying(sentence(&error)))
    }
}

impl From<Unfit> for Failure {
    fn from(unfit: Unfit) -> Self {
        Failure::Refused(match unfit {
            Unfit::NoLength => ErrorCode::MissingContentLengthHeader.into(),
            Unfit::Host => Fault::invalid_header(headers::HOST, "exactly one is needed"),
            Unfit::Target => ErrorCode::InvalidUri.into(),
            Unfit::Method => ErrorCode::UnsupportedHttpVerb.into(),
            Unfit::Expect => Fault::invalid_header("expect", "only 100-continue is known"),
            Unfit::Repeated(name) => Fault::invalid_header(name.as_str(), "given more than once"),
        })
    }
}

/// What the service knows and this one does not offer.
pub(super) fn unsupported(what: &str) -> Fault {
    Fault::new(ErrorCode::APINotImplemented).saying(format!("{what} is not supported by leasefs."))
}

/// The code of a refused lease action, for blobs and containers.
pub(super) fn lease_code(refusal: LeaseRefusal) -> ErrorCode {
    match refusal {
        LeaseRefusal::AlreadyPresent => ErrorCode::LeaseAlreadyPresent,
        LeaseRefusal::IsBreakingAndCannotBeAcquired => ErrorCode::LeaseIsBreakingAndCannotBeAcquired,
        LeaseRefusal::IsBrokenAndCannotBeRenewed => ErrorCode::LeaseIsBrokenAndCannotBeRenewed,
        LeaseRefusal::IsBreakingAndCannotBeChanged => ErrorCode::LeaseIsBreakingAndCannotBeChanged,
        LeaseRefusal::IdMismatchWithLeaseOperation => ErrorCode::LeaseIdMismatchWithLeaseOperation,
        LeaseRefusal::NotPresentWithLeaseOperation => ErrorCode::LeaseNotPresentWithLeaseOperation,
        LeaseRefusal::IdMissing => ErrorCode::LeaseIdMissing,
        LeaseRefusal::IdMismatchWithBlobOperation => ErrorCode::LeaseIdMismatchWithBlobOperation,
        LeaseRefusal::NotPresentWithBlobOperation => ErrorCode::LeaseNotPresentWithBlobOperation,
        LeaseRefusal::IdMismatchWithContainerOperation => ErrorCode::LeaseIdMismatchWithContainerOperation,
        LeaseRefusal::NotPresentWithContainerOperation => ErrorCode::LeaseNotPresentWithContainerOperation,
        LeaseRefusal::InfiniteDurationRequired => ErrorCode::InfiniteLeaseDurationRequired,
    }
}

/// An error's text as a sentence.
pub(super) fn sentence(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), chars.as_str().trim_end_matches('.')),
        None => text,
    }
}
