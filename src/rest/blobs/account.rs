//! The account: settings of the service, statistics, account information, List Containers.

use super::BlobService;
use super::call::Call;
use super::containers::access_name;
use super::failure::Result;
use super::listing::lease_fields;
use crate::rest::face::Service as _;
use crate::rest::page::Page;
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::store::ContainerProperties;
use crate::wire::etag::Etag;
use crate::wire::xml::{self, Logging, Metrics, Retention, ServiceProperties, StaticWebsite};
use crate::wire::{ErrorCode, Fault, headers};

/// Largest body of Set Blob Service Properties.
const PROPERTIES_BODY_MAX: u64 = 64 * 1024;

impl BlobService {
    /// Get Blob Service Properties.
    pub(super) async fn get_service_properties(&self) -> Result<Answer> {
        let properties = complete(self.settings().await?.as_ref().clone());
        Ok(Reply::ok().xml(xml::service_properties(&properties)))
    }

    /// Set Blob Service Properties: what the request names replaces what there is, the rest stays.
    pub(super) async fn set_service_properties(&self, call: &mut Call<'_>) -> Result<Answer> {
        let body = call.whole_body(PROPERTIES_BODY_MAX).await?;
        let given = xml::parse_service_properties(&body)?;
        if given.delete_retention.is_some_and(|retention| retention.days.is_some()) {
            return Err(unsupported("DeleteRetentionPolicy", "Deleted blobs are not kept."));
        }
        if given.static_website.as_ref().is_some_and(|site| site.enabled) {
            return Err(unsupported("StaticWebsite", "Static web sites are not served."));
        }
        let old = self.settings().await?;
        let merged = merge(&old, given);
        self.store.set_service_properties(xml::service_properties(&merged).into()).await?;
        self.settings.set(merged);
        Ok(Reply::accepted().empty())
    }

    /// Get Blob Service Stats: of the secondary endpoint only, which is never behind.
    pub(super) async fn get_service_stats(&self, call: &Call<'_>) -> Result<Answer> {
        if !call.target.account.secondary {
            return Err(Fault::new(ErrorCode::InvalidQueryParameterValue)
                .with("QueryParameterName", "comp")
                .saying("Statistics are answered by the secondary endpoint.")
                .into());
        }
        Ok(Reply::ok().xml(xml::service_stats(call.now)))
    }

    /// Get Account Information.
    pub(super) async fn get_account_info(&self) -> Result<Answer> {
        let reply = Reply::ok().fixed(headers::SKU_NAME, "Standard_RAGRS");
        Ok(reply.fixed(headers::ACCOUNT_KIND, "StorageV2").fixed(headers::IS_HNS_ENABLED, "false").empty())
    }

    /// List Containers.
    pub(super) async fn list_containers(&self, call: &Call<'_>) -> Result<Answer> {
        let page = Page::of(&call.query)?;
        let mut metadata = false;
        for word in
            call.query.filled("include").unwrap_or_default().split(',').filter(|word| !word.is_empty())
        {
            match word.trim().to_ascii_lowercase().as_str() {
                "metadata" => metadata = true,
                // Nothing is kept after its deletion, and no container is the system's: there is nothing to add.
                "deleted" | "system" => {}
                _ => return Err(Fault::invalid_query("include", word).into()),
            }
        }
        let listed = self.store.list_containers(page.prefix_text(), page.marker.as_deref(), page.max).await?;
        let line = |container: ContainerProperties| xml::ContainerLine {
            name: container.name.to_string(),
            modified: container.modified,
            etag: Some(Etag(container.etag.0)),
            lease: lease_fields(&container.lease, call.now),
            public_access: access_name(container.acl.access).map(str::to_owned),
            metadata: metadata.then_some(container.metadata),
        };
        let listing = xml::ContainerListing {
            prefix: page.prefix.clone(),
            marker: page.marker.clone(),
            max: page.asked_max,
            lines: listed.0.into_iter().map(line).collect(),
            next: listed.1,
        };
        Ok(Reply::ok().xml(xml::container_list(&call.endpoint(), &listing)))
    }
}

fn unsupported(node: &str, why: &str) -> super::failure::Failure {
    Fault::new(ErrorCode::UnsupportedXmlNode).with("XmlNodeName", node).saying(why).into()
}

/// What was set, with what a request names in its place.
fn merge(old: &ServiceProperties, new: ServiceProperties) -> ServiceProperties {
    let old = old.clone();
    ServiceProperties {
        logging: new.logging.or(old.logging),
        hour_metrics: new.hour_metrics.or(old.hour_metrics),
        minute_metrics: new.minute_metrics.or(old.minute_metrics),
        cors: new.cors.or(old.cors),
        default_version: new.default_version.or(old.default_version),
        delete_retention: new.delete_retention.or(old.delete_retention),
        static_website: new.static_website.or(old.static_website),
    }
}

/// The settings with the service's defaults for what nobody set.
fn complete(set: ServiceProperties) -> ServiceProperties {
    ServiceProperties {
        logging: set.logging.or_else(|| Some(Logging::default())),
        hour_metrics: set.hour_metrics.or_else(|| Some(Metrics::default())),
        minute_metrics: set.minute_metrics.or_else(|| Some(Metrics::default())),
        cors: set.cors.or_else(|| Some(Vec::new())),
        default_version: set.default_version,
        delete_retention: set.delete_retention.or_else(|| Some(Retention::default())),
        static_website: set.static_website.or_else(|| Some(StaticWebsite::default())),
    }
}
