//! The account: settings of the service, and List Shares.

use std::sync::Arc;

use super::FilesService;
use super::call::Call;
use super::failure::{Failure, Result};
use super::shares::share_line;
use crate::rest::page::{Page, read_marker, show_marker};
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::wire::xml::{self, Metrics, ServiceProperties};
use crate::wire::{ErrorCode, Fault};

/// Largest body of Set File Service Properties.
const PROPERTIES_BODY_MAX: u64 = 64 * 1024;

impl FilesService {
    /// The settings of the service.
    pub(super) async fn stored_settings(&self) -> Result<Arc<ServiceProperties>> {
        if let Some(known) = self.settings.known() {
            return Ok(known);
        }
        let read = match self.shares.service_document().await? {
            Some(document) => xml::parse_service_properties(&document)?,
            None => ServiceProperties::default(),
        };
        Ok(self.settings.learn(read))
    }

    /// Get File Service Properties: what was set, with the service's defaults for the rest.
    pub(super) async fn get_service_properties(&self) -> Result<Answer> {
        let set = self.stored_settings().await?.as_ref().clone();
        let shown = ServiceProperties {
            hour_metrics: set.hour_metrics.or_else(|| Some(Metrics::default())),
            minute_metrics: set.minute_metrics.or_else(|| Some(Metrics::default())),
            cors: set.cors.or_else(|| Some(Vec::new())),
            ..ServiceProperties::default()
        };
        Ok(Reply::ok().xml(xml::service_properties(&shown)))
    }

    /// Set File Service Properties: what the request names replaces what there is, the rest stays.
    pub(super) async fn set_service_properties(&self, call: &mut Call<'_>) -> Result<Answer> {
        let body = call.whole_body(PROPERTIES_BODY_MAX).await?;
        let given = xml::parse_service_properties(&body)?;
        for (node, named) in [
            ("Logging", given.logging.is_some()),
            ("DefaultServiceVersion", given.default_version.is_some()),
            ("StaticWebsite", given.static_website.is_some()),
            ("DeleteRetentionPolicy", given.delete_retention.is_some_and(|policy| policy.days.is_some())),
        ] {
            if named {
                return Err(unsupported_node(node));
            }
        }
        let old = self.stored_settings().await?.as_ref().clone();
        let merged = ServiceProperties {
            hour_metrics: given.hour_metrics.or(old.hour_metrics),
            minute_metrics: given.minute_metrics.or(old.minute_metrics),
            cors: given.cors.or(old.cors),
            ..ServiceProperties::default()
        };
        self.shares.set_service_document(xml::service_properties(&merged).into()).await?;
        self.settings.set(merged);
        Ok(Reply::accepted().empty())
    }

    /// List Shares.
    pub(super) async fn list_shares(&self, call: &Call<'_>) -> Result<Answer> {
        let page = Page::of(&call.query)?;
        let (mut metadata, mut snapshots) = (false, false);
        let include = call.query.filled("include").unwrap_or_default();
        for word in include.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word.to_ascii_lowercase().as_str() {
                "metadata" => metadata = true,
                "snapshots" => snapshots = true,
                // Nothing is kept after its deletion: there is nothing to add.
                "deleted" => {}
                _ => return Err(Fault::invalid_query("include", word).into()),
            }
        }
        let marker = page.marker.as_deref().map(read_marker).transpose()?;
        let listed = self.shares.list(page.prefix_text(), marker.as_deref(), page.max, snapshots).await?;
        let listing = xml::ShareListing {
            prefix: page.prefix.clone(),
            marker: page.marker.clone(),
            max: page.asked_max,
            lines: listed.0.into_iter().map(|share| share_line(share, metadata, call.now)).collect(),
            next: listed.1.as_deref().map(show_marker),
        };
        Ok(Reply::ok().xml(xml::share_list(&call.endpoint(), &listing)))
    }
}

fn unsupported_node(node: &str) -> Failure {
    Fault::new(ErrorCode::UnsupportedXmlNode).with("XmlNodeName", node).into()
}
