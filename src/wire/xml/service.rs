//! Settings of the service, and its statistics.

use super::node::{Node, invalid};
use super::writer::Writer;
use crate::share::Moment;
use crate::wire::codes::ErrorCode;
use crate::wire::date;
use crate::wire::fault::{Fault, Result};

/// The most CORS rules a service has.
const MAX_RULES: usize = 5;
/// The longest retention, in days.
const MAX_DAYS: u32 = 365;

/// Settings of the service. In a request, what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceProperties {
    /// Logging of requests.
    pub logging: Option<Logging>,
    /// Metrics per hour.
    pub hour_metrics: Option<Metrics>,
    /// Metrics per minute.
    pub minute_metrics: Option<Metrics>,
    /// Who may call from a browser.
    pub cors: Option<Vec<CorsRule>>,
    /// The version of requests that name none.
    pub default_version: Option<String>,
    /// How long deleted blobs are kept.
    pub delete_retention: Option<Retention>,
    /// Whether a container is a web site.
    pub static_website: Option<StaticWebsite>,
}

/// What is logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    /// Deletes.
    pub delete: bool,
    /// Reads.
    pub read: bool,
    /// Writes.
    pub write: bool,
    /// For how long.
    pub retention: Retention,
}

/// What is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Anything at all.
    pub enabled: bool,
    /// Per operation.
    pub include_apis: Option<bool>,
    /// For how long.
    pub retention: Retention,
}

/// How long something is kept; not enabled: no days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The days, if it is enabled.
    pub days: Option<u32>,
}

/// One CORS rule. Lists are kept as lists; `*` is one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorsRule {
    /// Origins that may call.
    pub origins: Vec<String>,
    /// Methods they may use.
    pub methods: Vec<String>,
    /// Headers they may send; a `*` at the end stands for any rest.
    pub allowed_headers: Vec<String>,
    /// Headers they may see.
    pub exposed_headers: Vec<String>,
    /// How long a browser may remember.
    pub max_age: u32,
}

/// Whether and how a container is a web site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaticWebsite {
    /// It is.
    pub enabled: bool,
    /// Name of the page of a folder.
    pub index: Option<String>,
    /// Path of the page shown for errors.
    pub error: Option<String>,
}

/// The body of Get and Set Blob Service Properties.
pub fn service_properties(properties: &ServiceProperties) -> String {
    Writer::document("StorageServiceProperties", &[], |root| {
        if let Some(logging) = &properties.logging {
            root.element("Logging", |writer| {
                writer.text("Version", "1.0");
                writer.value("Delete", logging.delete);
                writer.value("Read", logging.read);
                writer.value("Write", logging.write);
                retention(writer, "RetentionPolicy", logging.retention);
            });
        }
        for (name, metrics) in
            [("HourMetrics", &properties.hour_metrics), ("MinuteMetrics", &properties.minute_metrics)]
        {
            let Some(metrics) = metrics else { continue };
            root.element(name, |writer| {
                writer.text("Version", "1.0");
                writer.value("Enabled", metrics.enabled);
                if let Some(include) = metrics.include_apis {
                    writer.value("IncludeAPIs", include);
                }
                retention(writer, "RetentionPolicy", metrics.retention);
            });
        }
        if let Some(rules) = &properties.cors {
            root.element("Cors", |cors| rules.iter().for_each(|rule| cors_rule(cors, rule)));
        }
        root.maybe("DefaultServiceVersion", properties.default_version.as_deref());
        if let Some(policy) = properties.delete_retention {
            retention(root, "DeleteRetentionPolicy", policy);
        }
        if let Some(site) = &properties.static_website {
            root.element("StaticWebsite", |writer| {
                writer.value("Enabled", site.enabled);
                writer.maybe("IndexDocument", site.index.as_deref());
                writer.maybe("ErrorDocument404Path", site.error.as_deref());
            });
        }
    })
}

fn retention(writer: &mut Writer, name: &str, retention: Retention) {
    writer.element(name, |policy| {
        policy.value("Enabled", retention.days.is_some());
        if let Some(days) = retention.days {
            policy.value("Days", days);
        }
    });
}

fn cors_rule(writer: &mut Writer, rule: &CorsRule) {
    writer.element("CorsRule", |writer| {
        writer.text("AllowedOrigins", &rule.origins.join(","));
        writer.text("AllowedMethods", &rule.methods.join(","));
        writer.value("MaxAgeInSeconds", rule.max_age);
        writer.text("ExposedHeaders", &rule.exposed_headers.join(","));
        writer.text("AllowedHeaders", &rule.allowed_headers.join(","));
    });
}

/// Reads the body of Get and Set Blob Service Properties.
pub fn parse_service_properties(body: &[u8]) -> Result<ServiceProperties> {
    let root = Node::parse(body, "StorageServiceProperties")?;
    let cors = match root.child("Cors") {
        None => None,
        Some(cors) => Some(cors.all("CorsRule").map(parse_rule).collect::<Result<Vec<_>>>()?),
    };
    if cors.as_ref().is_some_and(|rules| rules.len() > MAX_RULES) {
        return Err(Fault::new(ErrorCode::InvalidXmlDocument).saying("A service has at most 5 CORS rules."));
    }
    Ok(ServiceProperties {
        logging: root.child("Logging").map(parse_logging).transpose()?,
        hour_metrics: root.child("HourMetrics").map(parse_metrics).transpose()?,
        minute_metrics: root.child("MinuteMetrics").map(parse_metrics).transpose()?,
        cors,
        default_version: root.get("DefaultServiceVersion").map(str::to_owned),
        delete_retention: root.child("DeleteRetentionPolicy").map(parse_retention).transpose()?,
        static_website: root.child("StaticWebsite").map(parse_website).transpose()?,
    })
}

fn flag(node: &Node, name: &'static str) -> Result<bool> {
    node.required(name).and_then(|text| text.parse().map_err(|_| invalid(name, text)))
}

fn parse_logging(node: &Node) -> Result<Logging> {
    Ok(Logging {
        delete: flag(node, "Delete")?,
        read: flag(node, "Read")?,
        write: flag(node, "Write")?,
        retention: node.child("RetentionPolicy").map_or_else(|| Ok(Retention::default()), parse_retention)?,
    })
}

fn parse_metrics(node: &Node) -> Result<Metrics> {
    Ok(Metrics {
        enabled: flag(node, "Enabled")?,
        include_apis: node.parsed("IncludeAPIs")?,
        retention: node.child("RetentionPolicy").map_or_else(|| Ok(Retention::default()), parse_retention)?,
    })
}

fn parse_retention(node: &Node) -> Result<Retention> {
    if !flag(node, "Enabled")? {
        return Ok(Retention::default());
    }
    let days = node.required("Days")?;
    match days.parse() {
        Ok(number) if (1..=MAX_DAYS).contains(&number) => Ok(Retention { days: Some(number) }),
        _ => Err(invalid("Days", days)),
    }
}

fn parse_rule(node: &Node) -> Result<CorsRule> {
    let list = |name| -> Vec<String> {
        let text = node.get(name).unwrap_or_default();
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let rule = CorsRule {
        origins: list("AllowedOrigins"),
        methods: list("AllowedMethods"),
        allowed_headers: list("AllowedHeaders"),
        exposed_headers: list("ExposedHeaders"),
        max_age: node.parsed("MaxAgeInSeconds")?.ok_or_else(|| invalid("MaxAgeInSeconds", ""))?,
    };
    let known = ["DELETE", "GET", "HEAD", "MERGE", "OPTIONS", "PATCH", "POST", "PUT"];
    if rule.origins.is_empty() {
        return Err(invalid("AllowedOrigins", ""));
    }
    if rule.methods.is_empty() || !rule.methods.iter().all(|method| known.contains(&method.as_str())) {
        return Err(invalid("AllowedMethods", &rule.methods.join(",")));
    }
    Ok(rule)
}

fn parse_website(node: &Node) -> Result<StaticWebsite> {
    Ok(StaticWebsite {
        enabled: flag(node, "Enabled")?,
        index: node.get("IndexDocument").map(str::to_owned),
        error: node.get("ErrorDocument404Path").map(str::to_owned),
    })
}

/// The body of Get Blob Service Stats: the secondary is as fresh as `synced`.
pub fn service_stats(synced: Moment) -> String {
    Writer::document("StorageServiceStats", &[], |stats| {
        stats.element("GeoReplication", |replication| {
            replication.text("Status", "live");
            replication.value("LastSyncTime", date::http(synced));
        });
    })
}
