//! Shared access signatures: a URL that carries a right.
//!
//! ```text
//!  query ──SasToken::from_query──▶ SasToken ──check──▶ Grant ──allows(Need)──▶ yes, or a refusal with its own code
//!                                     ▲    signature, stored policy, time, address, protocol
//!  SasToken::account / ::service ─────┘──sign──▶ query
//! ```
//!
//! A token keeps its fields as the texts they were sent as, because those texts were signed.

use core::net::IpAddr;

use super::key::AccountKey;
use super::need::{Level, Need};
use super::permissions::{Permission, Permissions};
use super::{Service, network, not_authenticated};
use crate::share::Moment;
use crate::wire::codes::ErrorCode;
use crate::wire::fault::{Fault, Result};
use crate::wire::query::{self, Query};
use crate::wire::version::ServiceVersion;
use crate::wire::xml::AccessPolicy;
use crate::wire::{date, headers};

/// From this version on the resource's kind and the snapshot are signed.
const SIGNS_RESOURCE_SINCE: ServiceVersion = ServiceVersion::of(2018, 11, 9);
/// From this version on the encryption scope is signed.
const SIGNS_SCOPE_SINCE: ServiceVersion = ServiceVersion::of(2020, 12, 6);

/// Parameters that set headers of the answer, in the order in which they are signed.
const OVERRIDES: [(&str, &str); 5] = [
    ("rscc", headers::CACHE_CONTROL),
    ("rscd", headers::CONTENT_DISPOSITION),
    ("rsce", headers::CONTENT_ENCODING),
    ("rscl", headers::CONTENT_LANGUAGE),
    ("rsct", headers::CONTENT_TYPE),
];

/// A token as it was sent, or as it will be. Prints without its signature.
#[derive(Clone, PartialEq, Eq)]
pub struct SasToken {
    kind: Kind,
    version: ServiceVersion,
    /// `sv` as it was written.
    version_text: String,
    permissions: Option<String>,
    start: Option<String>,
    expiry: Option<String>,
    addresses: Option<String>,
    protocol: Option<String>,
    scope: Option<String>,
    overrides: [Option<String>; 5],
    signature: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// Of an account: `ss`, `srt`.
    Account { services: String, levels: String },
    /// Of a container or blob: `sr`, `si`.
    Service { resource: SignedResource, policy: Option<String> },
}

/// What a service SAS is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedResource {
    /// `c`: a container and its blobs.
    Container,
    /// `b`: one blob.
    Blob,
    /// `bs`: one snapshot.
    Snapshot,
    /// `s`: a share and its files.
    Share,
    /// `f`: one file.
    File,
}

impl SignedResource {
    fn parse(text: &str) -> Option<Self> {
        use SignedResource::{Blob, Container, File, Share, Snapshot};
        [Container, Blob, Snapshot, Share, File].into_iter().find(|resource| resource.letters() == text)
    }

    fn letters(self) -> &'static str {
        match self {
            Self::Container => "c",
            Self::Blob => "b",
            Self::Snapshot => "bs",
            Self::Share => "s",
            Self::File => "f",
        }
    }

    fn is_whole(self) -> bool {
        match self {
            Self::Container | Self::Share => true,
            Self::Blob | Self::Snapshot | Self::File => false,
        }
    }
}

/// What a request with a token is about, with its names decoded.
#[derive(Clone, Copy, Debug)]
pub struct Place<'r> {
    /// Which service was asked.
    pub service: Service,
    /// The account.
    pub account: &'r str,
    /// The container or share, if there is one.
    pub container: Option<&'r str>,
    /// The blob or file, if there is one.
    pub name: Option<&'r str>,
    /// `snapshot` of the query, as it was sent.
    pub snapshot: Option<&'r str>,
}

/// When, from where and how a request came.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// The server's time.
    pub now: Moment,
    /// The client's address; `None` if it has none, as on a local socket.
    pub client: Option<IpAddr>,
    /// It came encrypted.
    pub secure: bool,
}

/// What a checked token allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    permissions: Permissions,
    /// Of an account SAS.
    levels: Option<String>,
    /// Headers to set in answers to reads.
    pub overrides: Vec<(&'static str, String)>,
}

impl std::fmt::Debug for SasToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SasToken")
            .field("kind", &self.kind)
            .field("version", &self.version_text)
            .field("permissions", &self.permissions)
            .field("start", &self.start)
            .field("expiry", &self.expiry)
            .finish_non_exhaustive()
    }
}

/// Reading.
impl SasToken {
    /// The token in a query, if there is one: a query with `sig`.
    pub fn from_query(query: &Query) -> Result<Option<Self>> {
        let Some(signature) = query.get("sig") else { return Ok(None) };
        let text = |name| query.filled(name).map(str::to_owned);
        let version_text = text("sv").ok_or_else(|| not_authenticated("The SAS names no version (sv)."))?;
        let version: ServiceVersion = version_text
            .parse()
            .map_err(|_| not_authenticated("The SAS names a version (sv) that is none."))?;
        if version < ServiceVersion::FIRST_SAS {
            return Err(not_authenticated("SAS versions before 2015-04-05 are not supported."));
        }
        if query.get("skoid").is_some() {
            return Err(not_authenticated("User delegation SAS is not supported."));
        }
        let kind = match (text("ss"), text("srt"), text("sr")) {
            (Some(services), Some(levels), None) => Kind::Account { services, levels },
            (None, None, Some(resource)) => {
                let resource = SignedResource::parse(&resource).ok_or_else(|| {
                    not_authenticated("The SAS names a resource (sr) that is not supported.")
                })?;
                Kind::Service { resource, policy: text("si") }
            }
            _ => return Err(not_authenticated("The SAS has neither ss and srt, nor sr.")),
        };
        Ok(Some(Self {
            kind,
            version,
            version_text,
            permissions: text("sp"),
            start: text("st"),
            expiry: text("se"),
            addresses: text("sip"),
            protocol: text("spr"),
            scope: text("ses"),
            overrides: OVERRIDES.map(|(name, _)| text(name)),
            signature: signature.to_owned(),
        }))
    }

    /// The version of the rules, for requests that name none themselves.
    pub fn version(&self) -> ServiceVersion {
        self.version
    }

    /// The stored policy it refers to.
    pub fn policy(&self) -> Option<&str> {
        match &self.kind {
            Kind::Account { .. } => None,
            Kind::Service { policy, .. } => policy.as_deref(),
        }
    }
}

/// Making.
impl SasToken {
    /// A token for a container, blob or snapshot, to be completed and signed.
    pub fn service(resource: SignedResource, permissions: &str, expiry: &str) -> Self {
        Self::new(Kind::Service { resource, policy: None }, permissions, expiry)
    }

    /// A token for an account, to be completed and signed: services as in `ss`, levels as in `srt`.
    pub fn account(services: &str, levels: &str, permissions: &str, expiry: &str) -> Self {
        let kind = Kind::Account { services: services.to_owned(), levels: levels.to_owned() };
        Self::new(kind, permissions, expiry)
    }

    fn new(kind: Kind, permissions: &str, expiry: &str) -> Self {
        let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Self {
            kind,
            version: ServiceVersion::NEWEST,
            version_text: ServiceVersion::NEWEST.to_string(),
            permissions: filled(permissions),
            start: None,
            expiry: filled(expiry),
            addresses: None,
            protocol: None,
            scope: None,
            overrides: Default::default(),
            signature: String::new(),
        }
    }

    /// With another version.
    #[must_use]
    pub fn with_version(mut self, version: ServiceVersion) -> Self {
        self.version = version;
        self.version_text = version.to_string();
        self
    }

    /// Not before this time.
    #[must_use]
    pub fn with_start(mut self, start: &str) -> Self {
        self.start = Some(start.to_owned());
        self
    }

    /// Only from these addresses.
    #[must_use]
    pub fn with_addresses(mut self, addresses: &str) -> Self {
        self.addresses = Some(addresses.to_owned());
        self
    }

    /// Only by this protocol: `https` or `https,http`.
    #[must_use]
    pub fn with_protocol(mut self, protocol: &str) -> Self {
        self.protocol = Some(protocol.to_owned());
        self
    }

    /// Under this stored policy; nothing to do for an account SAS.
    #[must_use]
    pub fn with_policy(mut self, id: &str) -> Self {
        if let Kind::Service { policy, .. } = &mut self.kind {
            *policy = Some(id.to_owned());
        }
        self
    }

    /// With `value` for the header of the answer that the parameter `rscc`, `rscd`, `rsce`, `rscl` or `rsct` sets.
    #[must_use]
    pub fn with_override(mut self, parameter: &str, value: &str) -> Self {
        if let Some(index) = OVERRIDES.iter().position(|(name, _)| *name == parameter) {
            self.overrides[index] = Some(value.to_owned());
        }
        self
    }

    /// The query that carries the token, signed for this place.
    pub fn sign(&self, key: &AccountKey, place: &Place<'_>) -> Result<String> {
        let text = self.string_to_sign(place).ok_or_else(|| Fault::new(ErrorCode::InvalidInput))?;
        let signature = key.sign(text.as_bytes());
        let mut pairs = vec![("sv", Some(&self.version_text))];
        let (services, levels, resource, policy) = match &self.kind {
            Kind::Account { services, levels } => (Some(services.clone()), Some(levels.clone()), None, None),
            Kind::Service { resource, policy } => {
                (None, None, Some(resource.letters().to_owned()), policy.clone())
            }
        };
        pairs.extend([
            ("ss", services.as_ref()),
            ("srt", levels.as_ref()),
            ("sr", resource.as_ref()),
            ("si", policy.as_ref()),
            ("sp", self.permissions.as_ref()),
            ("st", self.start.as_ref()),
            ("se", self.expiry.as_ref()),
            ("sip", self.addresses.as_ref()),
            ("spr", self.protocol.as_ref()),
            ("ses", self.scope.as_ref()),
        ]);
        pairs.extend(OVERRIDES.iter().zip(&self.overrides).map(|((name, _), value)| (*name, value.as_ref())));
        pairs.push(("sig", Some(&signature)));
        let filled = pairs.iter().filter_map(|(name, value)| value.map(|value| (name, value)));
        Ok(filled
            .map(|(name, value)| format!("{name}={}", query::encode(value)))
            .collect::<Vec<_>>()
            .join("&"))
    }
}

/// Checking.
impl SasToken {
    /// Whether the token is genuine and counts here and now; `policies` are those stored with the container.
    pub fn check(
        &self,
        keys: &[AccountKey],
        place: &Place<'_>,
        policies: &[AccessPolicy],
        circumstances: &Circumstances,
    ) -> Result<Grant> {
        self.check_signature(keys, place)?;
        let terms = self.terms(policies)?;
        terms.check_time(circumstances.now)?;
        self.check_network(circumstances)?;
        if let Kind::Account { services, .. } = &self.kind
            && !services.contains(place.service.letter())
        {
            return Err(Fault::new(ErrorCode::AuthorizationServiceMismatch));
        }
        if self.scope.is_some() {
            return Err(not_authenticated("Encryption scopes (ses) are not supported."));
        }
        let permissions = Permissions::parse(terms.permissions)
            .ok_or_else(|| not_authenticated("The SAS has permissions (sp) that mean nothing."))?;
        let overrides = OVERRIDES.iter().zip(&self.overrides);
        Ok(Grant {
            permissions,
            levels: match &self.kind {
                Kind::Account { levels, .. } => Some(levels.clone()),
                Kind::Service { .. } => None,
            },
            overrides: overrides.filter_map(|((_, header), value)| Some((*header, value.clone()?))).collect(),
        })
    }

    fn check_signature(&self, keys: &[AccountKey], place: &Place<'_>) -> Result<()> {
        let text = self
            .string_to_sign(place)
            .ok_or_else(|| not_authenticated("The SAS is for something else than what was asked for."))?;
        // No key is left out, so that the time does not tell which one it was.
        let signed =
            keys.iter().fold(false, |found, key| key.verifies(text.as_bytes(), &self.signature) | found);
        if signed { Ok(()) } else { Err(not_authenticated("Signature did not match.")) }
    }

    /// What is signed. `None`: a token of this kind cannot be for this place.
    fn string_to_sign(&self, place: &Place<'_>) -> Option<String> {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let (sp, st, se) = (text(&self.permissions), text(&self.start), text(&self.expiry));
        let (sip, spr, sv) = (text(&self.addresses), text(&self.protocol), self.version_text.clone());
        let overrides = self.overrides.iter().map(text);
        let lines: Vec<String> = match &self.kind {
            Kind::Account { services, levels } => {
                let head =
                    [place.account.to_owned(), sp, services.clone(), levels.clone(), st, se, sip, spr, sv];
                let scope = (self.version >= SIGNS_SCOPE_SINCE).then(|| text(&self.scope));
                // The last line is ended too.
                head.into_iter().chain(scope).chain([String::new()]).collect()
            }
            Kind::Service { resource, policy } => {
                let head = [sp, st, se, canonical(*resource, place)?, text(policy), sip, spr, sv];
                let kind = self.kind_lines(*resource, place)?;
                head.into_iter().chain(kind).chain(overrides).collect()
            }
        };
        Some(lines.join("\n"))
    }

    /// Kind of resource, snapshot and scope, as far as the version signs them. The Files service never does.
    fn kind_lines(&self, resource: SignedResource, place: &Place<'_>) -> Option<Vec<String>> {
        let snapshot = match resource {
            SignedResource::Snapshot => place.snapshot?.to_owned(),
            SignedResource::Container
            | SignedResource::Blob
            | SignedResource::Share
            | SignedResource::File => String::new(),
        };
        if place.service == Service::File || self.version < SIGNS_RESOURCE_SINCE {
            return Some(Vec::new());
        }
        let mut lines = vec![resource.letters().to_owned(), snapshot];
        lines.extend((self.version >= SIGNS_SCOPE_SINCE).then(|| self.scope.clone().unwrap_or_default()));
        Some(lines)
    }

    /// Time and permissions, from the token and the stored policy together. Each may stand in one of them only.
    fn terms<'t>(&'t self, policies: &'t [AccessPolicy]) -> Result<Terms<'t>> {
        let policy = match self.policy() {
            None => None,
            Some(id) => Some(policies.iter().find(|policy| policy.id == id).ok_or_else(|| {
                not_authenticated("The stored access policy (si) of the SAS does not exist.")
            })?),
        };
        let one = |own: &'t Option<String>, stored: Option<&'t String>, name: &str| match (own, stored) {
            (Some(_), Some(_)) => {
                Err(not_authenticated(format!("{name} is in the SAS and in its stored access policy.")))
            }
            (own, stored) => Ok(own.as_deref().or(stored.map(String::as_str))),
        };
        let expiry = one(&self.expiry, policy.and_then(|policy| policy.expiry.as_ref()), "se")?;
        Ok(Terms {
            start: one(&self.start, policy.and_then(|policy| policy.start.as_ref()), "st")?,
            expiry: expiry
                .ok_or_else(|| not_authenticated("The SAS never expires (se), which is not allowed."))?,
            permissions: one(&self.permissions, policy.and_then(|policy| policy.permissions.as_ref()), "sp")?
                .ok_or_else(|| not_authenticated("The SAS has no permissions (sp)."))?,
        })
    }

    fn check_network(&self, circumstances: &Circumstances) -> Result<()> {
        if let Some(allowed) = &self.addresses {
            let inside = circumstances.client.and_then(|client| network::contains(allowed, client));
            if inside != Some(true) {
                return Err(Fault::new(ErrorCode::AuthorizationSourceIPMismatch));
            }
        }
        match self.protocol.as_ref().map(|allowed| network::protocol_fits(allowed, circumstances.secure)) {
            None | Some(Some(true)) => Ok(()),
            Some(Some(false)) => Err(Fault::new(ErrorCode::AuthorizationProtocolMismatch)),
            Some(None) => Err(not_authenticated("The SAS names protocols (spr) that are none.")),
        }
    }
}

/// The resource that a service SAS signs: `/blob/account/container/blob`.
fn canonical(resource: SignedResource, place: &Place<'_>) -> Option<String> {
    let container = format!("/{}/{}/{}", place.service.name(), place.account, place.container?);
    if resource.is_whole() { Some(container) } else { Some(format!("{container}/{}", place.name?)) }
}

/// The terms that count for a token.
struct Terms<'t> {
    start: Option<&'t str>,
    expiry: &'t str,
    permissions: &'t str,
}

impl Terms<'_> {
    fn check_time(&self, now: Moment) -> Result<()> {
        let read =
            |text| date::parse_iso(text).ok_or_else(|| not_authenticated(format!("{text} is not a time.")));
        let early = self.start.map(read).transpose()?.is_some_and(|start| now < start);
        if early || now >= read(self.expiry)? {
            let start = self.start.unwrap_or_default();
            return Err(not_authenticated(format!(
                "Signature not valid in the specified time frame: Start [{start}] - Expiry [{}] - Current [{}]",
                self.expiry,
                date::http(now)
            )));
        }
        Ok(())
    }
}

impl Grant {
    /// Whether it is enough for an operation that needs this.
    pub fn allows(&self, need: &Need) -> Result<()> {
        match &self.levels {
            Some(levels) if !levels.contains(need.level.letter()) => {
                return Err(Fault::new(ErrorCode::AuthorizationResourceTypeMismatch));
            }
            None if !need.by_service_sas || need.level == Level::Service => {
                return Err(Fault::new(ErrorCode::AuthorizationFailure));
            }
            Some(_) | None => {}
        }
        if need.permissions.iter().all(|any_of| self.permissions.has_any(*any_of)) {
            Ok(())
        } else {
            Err(Fault::new(ErrorCode::AuthorizationPermissionMismatch))
        }
    }

    /// Whether it may replace a blob that exists; a right to create alone may not.
    pub fn may_overwrite(&self) -> bool {
        self.permissions.has(Permission::Write)
    }
}
