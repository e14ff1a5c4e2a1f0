//! The body of an error.

use super::node::Node;
use super::writer::Writer;
use crate::wire::fault::{Fault, Result};

/// What a server said went wrong. The code is a text: servers have codes we have never heard of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerError {
    /// The code.
    pub code: String,
    /// The message, with request id and time.
    pub message: String,
}

/// The body that tells a fault; `time` is the server's, as in [`date::iso_ticks`](crate::wire::date::iso_ticks).
pub fn error_body(fault: &Fault, request_id: &str, time: &str) -> String {
    Writer::document("Error", &[], |error| {
        error.text("Code", fault.code.as_str());
        error.text("Message", &format!("{}\nRequestId:{request_id}\nTime:{time}", fault.text()));
        for (element, value) in &fault.details {
            error.text(element, value);
        }
    })
}

/// Reads the body of an error.
pub fn parse_error(body: &[u8]) -> Result<ServerError> {
    let error = Node::parse(body, "Error")?;
    let text = |name| error.get(name).unwrap_or_default().to_owned();
    Ok(ServerError { code: text("Code"), message: text("Message") })
}
