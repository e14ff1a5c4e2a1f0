//! Why a request was refused, in the protocol's words.

use std::fmt;

use super::codes::ErrorCode;

/// The result of reading something off the wire.
pub type Result<T> = std::result::Result<T, Fault>;

/// A refusal: its code, and what the error body tells beyond the code's own message.
///
/// Details are shown to the caller. They must never hold a key or a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The code; status and default message follow from it.
    pub code: ErrorCode,
    /// A better message than the default one.
    pub message: Option<String>,
    /// Extra elements of the error body, in order, such as `HeaderName`.
    pub details: Vec<(&'static str, String)>,
}

impl Fault {
    /// A refusal that says no more than its code.
    pub fn new(code: ErrorCode) -> Self {
        Self { code, message: None, details: Vec::new() }
    }

    /// The same refusal with its own message.
    #[must_use]
    pub fn saying(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// The same refusal with one more element in its body.
    #[must_use]
    pub fn with(mut self, element: &'static str, value: impl Into<String>) -> Self {
        self.details.push((element, value.into()));
        self
    }

    /// A header whose value cannot be understood or is not allowed.
    pub fn invalid_header(name: &str, value: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidHeaderValue).with("HeaderName", name).with("HeaderValue", value)
    }

    /// A header that is needed and absent.
    pub fn missing_header(name: &str) -> Self {
        Self::new(ErrorCode::MissingRequiredHeader).with("HeaderName", name)
    }

    /// A query parameter whose value cannot be understood or is not allowed.
    pub fn invalid_query(name: &str, value: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidQueryParameterValue)
            .with("QueryParameterName", name)
            .with("QueryParameterValue", value)
    }

    /// A query parameter that is needed and absent.
    pub fn missing_query(name: &str) -> Self {
        Self::new(ErrorCode::MissingRequiredQueryParameter).with("QueryParameterName", name)
    }

    /// The message for people: its own, else the code's.
    pub fn text(&self) -> &str {
        self.message.as_deref().unwrap_or_else(|| self.code.message())
    }
}

impl From<ErrorCode> for Fault {
    fn from(code: ErrorCode) -> Self {
        Self::new(code)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.text())?;
        for (element, value) in &self.details {
            write!(f, " ({element}: {value})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}
