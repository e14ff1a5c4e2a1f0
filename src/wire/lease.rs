//! Lease headers: `x-ms-lease-action` and what it needs.

use http::HeaderMap;

use crate::share::lease::{LeaseDuration, LeaseId, MAX_BREAK_SECONDS};

use super::fault::{Fault, Result};
use super::headers;

/// A lease action as asked for. Unlike a store's request, an acquire may leave the id to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseCommand {
    /// Take the lease.
    Acquire {
        /// The id it shall have.
        proposed: Option<LeaseId>,
        /// How long.
        duration: LeaseDuration,
    },
    /// Restart the clock.
    Renew {
        /// The lease's id.
        id: LeaseId,
    },
    /// Give it another id.
    Change {
        /// The id it has.
        id: LeaseId,
        /// The id it shall have.
        proposed: LeaseId,
    },
    /// Give it up.
    Release {
        /// The lease's id.
        id: LeaseId,
    },
    /// End somebody's lease.
    Break {
        /// Seconds until then.
        period: Option<u8>,
    },
}

impl LeaseCommand {
    /// Reads the headers of a Lease Blob or Lease Container request.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self> {
        let action = headers::required(headers, headers::LEASE_ACTION)?;
        let id = |name| id_header(headers, name)?.ok_or_else(|| Fault::missing_header(name));
        match action.to_ascii_lowercase().as_str() {
            "acquire" => Ok(Self::Acquire {
                proposed: id_header(headers, headers::PROPOSED_LEASE_ID)?,
                duration: duration(headers)?,
            }),
            "renew" => Ok(Self::Renew { id: id(headers::LEASE_ID)? }),
            "change" => {
                Ok(Self::Change { id: id(headers::LEASE_ID)?, proposed: id(headers::PROPOSED_LEASE_ID)? })
            }
            "release" => Ok(Self::Release { id: id(headers::LEASE_ID)? }),
            "break" => Ok(Self::Break { period: period(headers)? }),
            _ => Err(Fault::invalid_header(headers::LEASE_ACTION, action)),
        }
    }

    /// The headers that say it.
    pub fn to_headers(self) -> Vec<(&'static str, String)> {
        let action = |name: &str| (headers::LEASE_ACTION, name.to_owned());
        match self {
            Self::Acquire { proposed, duration } => {
                let seconds = duration.as_seconds().map_or(-1, i32::from).to_string();
                let mut list = vec![action("acquire"), (headers::LEASE_DURATION, seconds)];
                list.extend(proposed.map(|id| (headers::PROPOSED_LEASE_ID, id.to_string())));
                list
            }
            Self::Renew { id } => vec![action("renew"), (headers::LEASE_ID, id.to_string())],
            Self::Change { id, proposed } => vec![
                action("change"),
                (headers::LEASE_ID, id.to_string()),
                (headers::PROPOSED_LEASE_ID, proposed.to_string()),
            ],
            Self::Release { id } => vec![action("release"), (headers::LEASE_ID, id.to_string())],
            Self::Break { period } => {
                let mut list = vec![action("break")];
                list.extend(period.map(|seconds| (headers::LEASE_BREAK_PERIOD, seconds.to_string())));
                list
            }
        }
    }

    /// The status of the answer when it worked.
    pub fn success_status(self) -> u16 {
        match self {
            Self::Acquire { .. } => 201,
            Self::Renew { .. } | Self::Change { .. } | Self::Release { .. } => 200,
            Self::Break { .. } => 202,
        }
    }
}

/// A lease id in the header `name`, if there is one.
pub fn id_header(headers: &HeaderMap, name: &str) -> Result<Option<LeaseId>> {
    headers::text(headers, name)?
        .map(|text| text.parse().map_err(|_| Fault::invalid_header(name, text)))
        .transpose()
}

fn duration(headers: &HeaderMap) -> Result<LeaseDuration> {
    let text = headers::required(headers, headers::LEASE_DURATION)?;
    let invalid = || Fault::invalid_header(headers::LEASE_DURATION, text);
    match text.parse::<i32>().map_err(|_| invalid())? {
        -1 => Ok(LeaseDuration::INFINITE),
        seconds => u8::try_from(seconds).ok().and_then(LeaseDuration::seconds).ok_or_else(invalid),
    }
}

fn period(headers: &HeaderMap) -> Result<Option<u8>> {
    let Some(text) = headers::text(headers, headers::LEASE_BREAK_PERIOD)? else { return Ok(None) };
    match text.parse::<u8>() {
        Ok(seconds) if seconds <= MAX_BREAK_SECONDS => Ok(Some(seconds)),
        _ => Err(Fault::invalid_header(headers::LEASE_BREAK_PERIOD, text)),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::wire::codes::ErrorCode;

    fn map(pairs: &[(&'static str, String)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn every_action_comes_back() {
        let (a, b) = (LeaseId(1), LeaseId(u128::MAX));
        let thirty = LeaseDuration::seconds(30).unwrap();
        for command in [
            LeaseCommand::Acquire { proposed: None, duration: thirty },
            LeaseCommand::Acquire { proposed: Some(a), duration: LeaseDuration::INFINITE },
            LeaseCommand::Renew { id: a },
            LeaseCommand::Change { id: a, proposed: b },
            LeaseCommand::Release { id: b },
            LeaseCommand::Break { period: None },
            LeaseCommand::Break { period: Some(0) },
            LeaseCommand::Break { period: Some(60) },
        ] {
            assert_eq!(LeaseCommand::from_headers(&map(&command.to_headers())), Ok(command));
        }
    }

    #[test]
    fn numbers_and_ids_are_checked() {
        let parse = |pairs: &[(&'static str, &str)]| {
            let pairs: Vec<_> = pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
            LeaseCommand::from_headers(&map(&pairs)).unwrap_err().code
        };
        for seconds in ["0", "14", "61", "-2", "x", "256", "300"] {
            let code = parse(&[("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", seconds)]);
            assert_eq!(code, ErrorCode::InvalidHeaderValue, "{seconds}");
        }
        assert_eq!(parse(&[("x-ms-lease-action", "acquire")]), ErrorCode::MissingRequiredHeader);
        assert_eq!(parse(&[("x-ms-lease-action", "renew")]), ErrorCode::MissingRequiredHeader);
        assert_eq!(parse(&[]), ErrorCode::MissingRequiredHeader);
        assert_eq!(parse(&[("x-ms-lease-action", "steal")]), ErrorCode::InvalidHeaderValue);
        for seconds in ["61", "-1", "x"] {
            let code = parse(&[("x-ms-lease-action", "break"), ("x-ms-lease-break-period", seconds)]);
            assert_eq!(code, ErrorCode::InvalidHeaderValue, "{seconds}");
        }
        let bad_id = [("x-ms-lease-action", "renew"), ("x-ms-lease-id", "mine")];
        assert_eq!(parse(&bad_id), ErrorCode::InvalidHeaderValue);
    }
}
