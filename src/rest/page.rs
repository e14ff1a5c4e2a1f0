//! Which page of a list a request asks for.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::wire::query::Query;
use crate::wire::{ErrorCode, Fault};

/// The most lines of a page.
pub(super) const PAGE_MAX: usize = 5000;

/// What a request says about the page it wants.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    pub(super) prefix: Option<String>,
    /// As the client gave it.
    pub(super) marker: Option<String>,
    /// As the client gave it.
    pub(super) asked_max: Option<u32>,
    pub(super) max: usize,
}

impl Page {
    /// Reads `prefix`, `marker` and `maxresults`.
    pub(super) fn of(query: &Query) -> Result<Self, Fault> {
        let asked_max = match query.filled("maxresults") {
            None => None,
            Some(text) => Some(text.parse::<i64>().map_err(|_| Fault::invalid_query("maxresults", text))?),
        };
        let max = match asked_max {
            None => PAGE_MAX,
            Some(asked) if asked <= 0 => {
                return Err(Fault::new(ErrorCode::OutOfRangeQueryParameterValue)
                    .with("QueryParameterName", "maxresults")
                    .with("QueryParameterValue", asked.to_string()));
            }
            Some(asked) => usize::try_from(asked).unwrap_or(PAGE_MAX).min(PAGE_MAX),
        };
        Ok(Self {
            prefix: query.filled("prefix").map(str::to_owned),
            marker: query.filled("marker").map(str::to_owned),
            asked_max: asked_max.map(|asked| u32::try_from(asked).unwrap_or(u32::MAX)),
            max,
        })
    }

    pub(super) fn prefix_text(&self) -> &str {
        self.prefix.as_deref().unwrap_or_default()
    }
}

/// What a marker starts with that is not a name. No name has a NUL, and no client sends one by chance.
const OPAQUE: &str = "2!";

/// Where a list goes on, in letters that survive XML and a URL.
pub(super) fn show_marker(next: &str) -> String {
    format!("{OPAQUE}{}", URL_SAFE_NO_PAD.encode(next))
}

/// A marker of ours, or a name, which is a marker too.
pub(super) fn read_marker(text: &str) -> Result<String, Fault> {
    let Some(encoded) = text.strip_prefix(OPAQUE) else { return Ok(text.to_owned()) };
    let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| Fault::invalid_query("marker", text))?;
    String::from_utf8(bytes).map_err(|_| Fault::invalid_query("marker", text))
}
