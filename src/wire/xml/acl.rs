//! Stored access policies of a container or share.

use std::collections::BTreeSet;

use super::node::{Node, invalid};
use super::writer::Writer;
use crate::wire::codes::ErrorCode;
use crate::wire::date;
use crate::wire::fault::{Fault, Result};

/// The most policies a container has.
const MAX_POLICIES: usize = 5;
/// The longest id of a policy, in characters.
const MAX_ID: usize = 64;

/// A stored access policy. Dates are kept as given, because they are shown again as given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessPolicy {
    /// The id that a SAS names.
    pub id: String,
    /// From when.
    pub start: Option<String>,
    /// Until when.
    pub expiry: Option<String>,
    /// What is allowed, in the letters of SAS.
    pub permissions: Option<String>,
}

/// The body of Get and Set Container ACL.
pub fn signed_identifiers(policies: &[AccessPolicy]) -> String {
    Writer::document("SignedIdentifiers", &[], |list| {
        for policy in policies {
            list.element("SignedIdentifier", |identifier| {
                identifier.text("Id", &policy.id);
                identifier.element("AccessPolicy", |access| {
                    access.maybe("Start", policy.start.as_deref());
                    access.maybe("Expiry", policy.expiry.as_deref());
                    access.maybe("Permission", policy.permissions.as_deref());
                });
            });
        }
    })
}

/// Reads the body of Get and Set Container ACL. An empty body is an empty list.
pub fn parse_signed_identifiers(body: &[u8]) -> Result<Vec<AccessPolicy>> {
    if body.is_empty() {
        return Ok(Vec::new());
    }
    let list = Node::parse(body, "SignedIdentifiers")?;
    let policies = list.all("SignedIdentifier").map(policy).collect::<Result<Vec<_>>>()?;
    let ids: BTreeSet<_> = policies.iter().map(|policy| &policy.id).collect();
    if policies.len() > MAX_POLICIES || ids.len() < policies.len() {
        return Err(Fault::new(ErrorCode::InvalidXmlDocument)
            .saying("A container has at most 5 access policies with different ids."));
    }
    Ok(policies)
}

fn policy(node: &Node) -> Result<AccessPolicy> {
    let id = node.required("Id")?.to_owned();
    if id.chars().count() > MAX_ID {
        return Err(invalid("Id", &id));
    }
    let mut policy = AccessPolicy { id, ..AccessPolicy::default() };
    if let Some(access) = node.child("AccessPolicy") {
        let checked = |name| access.read(name, |text| date::parse_iso(text).map(|_| text.to_owned()));
        policy.start = checked("Start")?;
        policy.expiry = checked("Expiry")?;
        policy.permissions = access.read("Permission", |text| {
            text.bytes().all(|byte| byte.is_ascii_lowercase()).then(|| text.to_owned())
        })?;
    }
    Ok(policy)
}
