//! Who asks, and may they: accounts with their keys, and the judgement of a request's claim.
//!
//! A request claims its right by an `Authorization` header, by a signed URL, or not at all. [`Claim::of`] reads the
//! claim, [`Claim::judge`] compares it with what the operation [needs](Need). The text of signatures is the business
//! of [`wire::signing`](crate::wire::signing); who has opened what is the business of the engine.

use std::collections::BTreeMap;

use http::HeaderMap;

use crate::store::{ContainerAcl, PublicAccess};
use crate::wire::query::Query;
use crate::wire::signing::sas::{Circumstances, Place, SasToken};
use crate::wire::signing::shared_key::{Authorization, SignedParts};
use crate::wire::signing::{AccountKey, Need, Public};
use crate::wire::xml::AccessPolicy;
use crate::wire::{ErrorCode, Fault, headers};

pub use crate::wire::signing::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};

/// The most keys an account has.
const MAX_KEYS: usize = 2;

/// The accounts of a server. Prints names, never keys.
#[derive(Clone, Debug)]
pub struct Accounts(BTreeMap<String, Vec<AccountKey>>);

impl Accounts {
    /// The emulators' account alone. Everybody knows its key, so it is for loopback addresses only.
    pub fn development() -> Self {
        let key = AccountKey::parse(DEVELOPMENT_KEY).expect("the well-known key is a key");
        Self(BTreeMap::from([(DEVELOPMENT_ACCOUNT.to_owned(), vec![key])]))
    }

    /// No account.
    pub fn none() -> Self {
        Self(BTreeMap::new())
    }

    /// One account with one key or two.
    pub fn single(name: &str, keys: &[String]) -> Result<Self, String> {
        Self::none().with(name, keys)
    }

    /// These accounts and one more.
    pub fn with(mut self, name: &str, keys: &[String]) -> Result<Self, String> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if !(3..=24).contains(&name.len()) || !name.bytes().all(plain) {
            return Err("an account's name has 3 to 24 lower-case letters and digits".to_owned());
        }
        if !(1..=MAX_KEYS).contains(&keys.len()) {
            return Err("an account has one key or two".to_owned());
        }
        let keys = keys.iter().map(|text| AccountKey::parse(text)).collect::<Result<Vec<_>, _>>();
        let keys = keys.map_err(|invalid| invalid.to_string())?;
        if self.0.insert(name.to_owned(), keys).is_some() {
            return Err("the account is named twice".to_owned());
        }
        Ok(self)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// That account alone, if there is such a one.
    #[must_use]
    pub fn only(&self, name: &str) -> Self {
        Self(
            self.0.get_key_value(name).map(|(name, keys)| (name.clone(), keys.clone())).into_iter().collect(),
        )
    }

    /// Whether there is such an account.
    pub fn knows(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether some account uses the key that everybody knows.
    pub fn has_development_key(&self) -> bool {
        self.0.values().flatten().any(AccountKey::is_development)
    }

    fn keys(&self, name: &str) -> &[AccountKey] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
}

/// By what right a request claims to come.
#[derive(Clone, Debug)]
pub enum Claim {
    /// The account's key.
    Key(Authorization),
    /// A signed URL.
    Sas(Box<SasToken>),
    /// None.
    Anonymous,
}

/// A request as far as it matters for who may make it.
#[derive(Clone, Copy)]
pub struct Asked<'r> {
    /// What a key signs.
    pub parts: SignedParts<'r>,
    /// What it is about.
    pub place: Place<'r>,
    /// When, from where and how it came.
    pub circumstances: Circumstances,
}

/// What a caller whose operation was allowed may do in its course.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// May create, but not replace what exists.
    pub create_only: bool,
    /// Headers of the answer that a signed URL sets on reads.
    pub overrides: Vec<(&'static str, String)>,
}

impl Claim {
    /// The claim a request makes. A header that cannot be read is refused, not ignored.
    pub fn of(headers: &HeaderMap, query: &Query) -> Result<Self, Fault> {
        if let Some(text) = headers::text(headers, headers::AUTHORIZATION)? {
            return Authorization::parse(text).map(Claim::Key);
        }
        Ok(SasToken::from_query(query)?.map_or(Claim::Anonymous, |token| Claim::Sas(Box::new(token))))
    }

    /// Whether the container's ACL is needed to judge it.
    pub fn asks_for_acl(&self) -> bool {
        match self {
            Claim::Key(_) => false,
            Claim::Sas(token) => token.policy().is_some(),
            Claim::Anonymous => true,
        }
    }

    /// Whether the claim covers an operation that needs this. `acl` is the container's, where there is one and
    /// [`Self::asks_for_acl`] says so.
    pub fn judge(
        &self,
        accounts: &Accounts,
        asked: &Asked<'_>,
        acl: Option<&ContainerAcl>,
        need: &Need,
    ) -> Result<Allowed, Fault> {
        let account = asked.place.account;
        match self {
            Claim::Key(authorization) => {
                // A wrong account has no keys here, and the answer is that of a wrong signature.
                let keys = if authorization.account == account { accounts.keys(account) } else { &[] };
                authorization.check(keys, &asked.parts, asked.circumstances.now)?;
                Ok(Allowed::default())
            }
            Claim::Sas(token) => {
                let policies: Vec<_> = acl.iter().flat_map(|acl| acl.policies.iter().map(stored)).collect();
                let keys = accounts.keys(account);
                let grant = token.check(keys, &asked.place, &policies, &asked.circumstances)?;
                grant.allows(need)?;
                Ok(Allowed { create_only: !grant.may_overwrite(), overrides: grant.overrides })
            }
            Claim::Anonymous => {
                let access = acl.map_or(PublicAccess::None, |acl| acl.access);
                if is_public(need.public, access) {
                    Ok(Allowed::default())
                } else {
                    Err(Fault::new(ErrorCode::NoAuthenticationInformation))
                }
            }
        }
    }
}

fn stored(policy: &crate::store::StoredPolicy) -> AccessPolicy {
    AccessPolicy {
        id: policy.id.clone(),
        start: policy.start.clone(),
        expiry: policy.expiry.clone(),
        permissions: policy.permissions.clone(),
    }
}

/// Whether the container's public access permits what needs this much of it.
fn is_public(needed: Public, access: PublicAccess) -> bool {
    match (needed, access) {
        (Public::Never, _) | (_, PublicAccess::None) => false,
        (Public::Blob, PublicAccess::Blob | PublicAccess::Container) => true,
        (Public::Container, PublicAccess::Blob) => false,
        (Public::Container, PublicAccess::Container) => true,
    }
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::share::Moment;
    use crate::store::StoredPolicy;
    use crate::wire::signing::sas::SignedResource;
    use crate::wire::signing::{Permission, Service, shared_key};

    const NOON: Moment = Moment(1_794_917_233_000_000_000);
    const TOMORROW: &str = "2026-11-18T00:00:00Z";

    fn place() -> Place<'static> {
        Place {
            service: Service::Blob,
            account: DEVELOPMENT_ACCOUNT,
            container: Some("share"),
            name: Some("f"),
            snapshot: None,
        }
    }

    /// Judges a read of `f` that comes with these headers and this query.
    fn read(headers: &HeaderMap, query: &str, acl: &ContainerAcl) -> Result<Allowed, ErrorCode> {
        let query = Query::parse(query).unwrap();
        let parts = SignedParts { method: "GET", path: "/devstoreaccount1/share/f", query: &query, headers };
        let circumstances =
            Circumstances { now: NOON, client: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), secure: false };
        let need = Need::blob(&[Permission::Read]).or_public(Public::Blob);
        let claim = Claim::of(headers, &query).map_err(|fault| fault.code)?;
        claim
            .judge(
                &Accounts::development(),
                &Asked { parts, place: place(), circumstances },
                Some(acl),
                &need,
            )
            .map_err(|fault| fault.code)
    }

    fn signed(account: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-ms-date", crate::wire::date::http(NOON).parse().unwrap());
        let query = Query::default();
        let parts = SignedParts {
            method: "GET",
            path: "/devstoreaccount1/share/f",
            query: &query,
            headers: &headers,
        };
        let key = AccountKey::parse(DEVELOPMENT_KEY).unwrap();
        let value = shared_key::authorization(account, &key, &parts);
        headers.insert("authorization", value.parse().unwrap());
        headers
    }

    #[test]
    fn the_key_opens_everything() {
        assert_eq!(read(&signed(DEVELOPMENT_ACCOUNT), "", &ContainerAcl::default()), Ok(Allowed::default()));
        let refused = read(&signed("otheraccount"), "", &ContainerAcl::default());
        assert_eq!(refused, Err(ErrorCode::AuthenticationFailed));
        let mut bearer = HeaderMap::new();
        bearer.insert("authorization", "Bearer eyJ0".parse().unwrap());
        let refused = read(&bearer, "", &ContainerAcl::default());
        assert_eq!(refused, Err(ErrorCode::InvalidAuthenticationInfo));
    }

    #[test]
    fn strangers_see_public_containers_only() {
        let nobody = HeaderMap::new();
        for (access, allowed) in
            [(PublicAccess::None, false), (PublicAccess::Blob, true), (PublicAccess::Container, true)]
        {
            let acl = ContainerAcl { access, ..ContainerAcl::default() };
            assert_eq!(read(&nobody, "", &acl).is_ok(), allowed, "{access:?}");
        }
        assert!(!is_public(Public::Container, PublicAccess::Blob));
        assert!(is_public(Public::Container, PublicAccess::Container));
        assert!(!is_public(Public::Never, PublicAccess::Container));
    }

    #[test]
    fn a_signed_url_may_rest_on_a_stored_policy() {
        let key = AccountKey::parse(DEVELOPMENT_KEY).unwrap();
        let url = SasToken::service(SignedResource::Container, "", "").with_policy("p").sign(&key, &place());
        let policy = |permissions: &str| StoredPolicy {
            id: "p".to_owned(),
            start: None,
            expiry: Some(TOMORROW.to_owned()),
            permissions: Some(permissions.to_owned()),
        };
        let judge = |policies: Vec<StoredPolicy>| {
            let acl = ContainerAcl { policies, ..ContainerAcl::default() };
            read(&HeaderMap::new(), &url.clone().unwrap(), &acl)
        };
        assert_eq!(judge(vec![policy("rl")]).map(|allowed| allowed.create_only), Ok(true));
        assert_eq!(judge(vec![policy("rw")]).map(|allowed| allowed.create_only), Ok(false));
        assert_eq!(judge(vec![policy("l")]), Err(ErrorCode::AuthorizationPermissionMismatch));
        assert_eq!(judge(vec![]), Err(ErrorCode::AuthenticationFailed));
    }

    #[test]
    fn accounts_are_checked_and_never_print_a_key() {
        let key = DEVELOPMENT_KEY.to_owned();
        let accounts = Accounts::single("mine", &[key.clone(), key.clone()]).unwrap();
        assert!(accounts.knows("mine") && !accounts.knows("other") && accounts.has_development_key());
        assert!(!format!("{accounts:?}").contains("Eby8"), "{accounts:?}");
        assert!(accounts.with("mine", std::slice::from_ref(&key)).is_err());
        for (name, keys) in [
            ("UP", vec![key.clone()]),
            ("mine", vec![]),
            ("mine", vec![key; 3]),
            ("mine", vec!["?".to_owned()]),
        ] {
            let refused = Accounts::single(name, &keys).unwrap_err();
            assert!(!refused.contains("Eby8"), "{refused}");
        }
    }
}
