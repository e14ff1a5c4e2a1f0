//! Cross-origin requests: whether a browser's page may call, by the rules in the service's settings.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use parking_lot::RwLock;

use super::failure::Failure;
use super::reply::Reply;
use super::server::Answer;
use crate::wire::xml::{CorsRule, ServiceProperties};
use crate::wire::{ErrorCode, Fault, headers};

/// The settings as last read or set, so that not every request has to read them.
#[derive(Debug, Default)]
pub(super) struct Settings(RwLock<Option<Arc<ServiceProperties>>>);

impl Settings {
    /// What is known of them.
    pub(super) fn known(&self) -> Option<Arc<ServiceProperties>> {
        self.0.read().clone()
    }

    /// Notes settings that were read. Whoever set new ones meanwhile was later.
    pub(super) fn learn(&self, read: ServiceProperties) -> Arc<ServiceProperties> {
        Arc::clone(self.0.write().get_or_insert_with(|| Arc::new(read)))
    }

    /// Notes settings that are stored.
    pub(super) fn set(&self, settings: ServiceProperties) {
        *self.0.write() = Some(Arc::new(settings));
    }
}

/// A browser's question whether it may send a request.
pub(super) fn preflight(settings: &ServiceProperties, head: &Parts) -> Result<Answer, Failure> {
    let origin = headers::required(&head.headers, headers::ORIGIN)?;
    let method = headers::required(&head.headers, "access-control-request-method")?;
    let asked = headers::text(&head.headers, "access-control-request-headers")?.unwrap_or_default();
    let fits = |rule: &&CorsRule| {
        allows_origin(rule, origin)
            && rule.methods.iter().any(|known| known.eq_ignore_ascii_case(method))
            && names(asked).all(|name| allows_header(rule, name))
    };
    let rule = settings.cors.iter().flatten().find(fits).ok_or_else(|| {
        Fault::new(ErrorCode::CorsPreflightFailure).with("MessageDetails", "No CORS rule fits this request.")
    })?;
    let mut reply = Reply::ok()
        .header("access-control-allow-origin", shown_origin(rule, origin))
        .header("access-control-allow-methods", method)
        .header("access-control-max-age", &rule.max_age.to_string());
    if !asked.is_empty() {
        reply = reply.header("access-control-allow-headers", asked);
    }
    if !is_any(rule) {
        reply = reply.fixed("access-control-allow-credentials", "true").fixed("vary", "Origin");
    }
    Ok(reply.empty())
}

/// Adds to an answer what a browser needs to show it to the page that asked.
pub(super) fn allow_origin(settings: &ServiceProperties, head: &Parts, answer: &mut Answer) {
    let Some(origin) = head.headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok()) else {
        return;
    };
    let Some(rules) = settings.cors.as_ref().filter(|rules| !rules.is_empty()) else { return };
    let method = head.method.as_str();
    let fits = |rule: &&CorsRule| {
        allows_origin(rule, origin) && rule.methods.iter().any(|known| known.eq_ignore_ascii_case(method))
    };
    let rule = rules.iter().find(fits);
    let exposed = rule.map(|rule| exposed(rule, answer.headers())).unwrap_or_default();
    let list = answer.headers_mut();
    let mut set = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            list.insert(HeaderName::from_static(name), value);
        }
    };
    if !rules.iter().all(is_any) {
        set("vary", "Origin");
    }
    let Some(rule) = rule else { return };
    set("access-control-allow-origin", shown_origin(rule, origin));
    if !exposed.is_empty() {
        set("access-control-expose-headers", &exposed);
    }
    if !is_any(rule) {
        set("access-control-allow-credentials", "true");
    }
}

fn is_any(rule: &CorsRule) -> bool {
    rule.origins.iter().any(|origin| origin == "*")
}

/// `*`, or the origin as the browser named it.
fn shown_origin<'o>(rule: &CorsRule, origin: &'o str) -> &'o str {
    if is_any(rule) { "*" } else { origin }
}

fn allows_origin(rule: &CorsRule, origin: &str) -> bool {
    rule.origins.iter().any(|known| {
        known == "*"
            || known == origin
            // `https://*.example.com`
            || known.split_once("*.").is_some_and(|(start, end)| {
                let middle = origin.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
                middle.is_some_and(|name| name.len() > 1 && name.ends_with('.') && !name.contains('/'))
            })
    })
}

fn allows_header(rule: &CorsRule, name: &str) -> bool {
    rule.allowed_headers.iter().any(|known| fits_pattern(known, name))
}

/// A `*` at the end of a pattern stands for any rest.
fn fits_pattern(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        None => pattern.eq_ignore_ascii_case(name),
        Some(start) => name.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start)),
    }
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// The headers of an answer that a page may see.
fn exposed(rule: &CorsRule, answer: &HeaderMap) -> String {
    let shown = answer.keys().map(HeaderName::as_str);
    let shown = shown.filter(|name| rule.exposed_headers.iter().any(|pattern| fits_pattern(pattern, name)));
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(origins: &[&str]) -> CorsRule {
        CorsRule { origins: origins.iter().map(|&origin| origin.to_owned()).collect(), ..CorsRule::default() }
    }

    #[test]
    fn origins_are_compared_whole_or_by_subdomain() {
        assert!(allows_origin(&rule(&["*"]), "http://a"));
        assert!(allows_origin(&rule(&["http://a", "http://b"]), "http://b"));
        assert!(!allows_origin(&rule(&["http://a"]), "http://a.evil"));
        let wild = rule(&["https://*.example.com"]);
        assert!(allows_origin(&wild, "https://www.example.com"));
        assert!(!allows_origin(&wild, "https://example.com"));
        assert!(!allows_origin(&wild, "https://evilexample.com"));
    }

    #[test]
    fn header_patterns_end_with_a_star() {
        assert!(fits_pattern("x-ms-meta-*", "X-MS-Meta-Abc"));
        assert!(fits_pattern("*", "anything"));
        assert!(!fits_pattern("x-ms-date", "x-ms-date2"));
    }
}
