//! The XML of the protocol, in both directions.
//!
//! One file per shape: what writes it and what reads it stand together, so that a test can send every value
//! around. Readers take bytes from strangers: they are bounded (`node`) and skip elements they do not know.

mod acl;
mod blobs;
mod blocks;
mod containers;
mod error;
mod files;
mod filter;
mod node;
mod pages;
mod service;
mod shares;
mod tags;
#[cfg(test)]
mod tests;
mod writer;

pub use acl::{AccessPolicy, parse_signed_identifiers, signed_identifiers};
pub use blobs::{BlobFields, BlobLine, BlobListing, CopyFields, LeaseFields, blob_list, parse_blob_list};
pub use blocks::{BlockWhere, block_list, block_list_report, parse_block_list, parse_block_list_report};
pub use containers::{ContainerLine, ContainerListing, container_list, parse_container_list};
pub use error::{ServerError, error_body, parse_error};
pub use files::{
    DirectoryListing, EntryDetails, EntryLine, EntryTimes, HandleLine, RangeLine, directory_list,
    handle_list, range_list,
};
pub use filter::{FilterListing, TaggedLine, filter_result, parse_filter_result};
pub use pages::{PageRangeLine, page_list, parse_page_list};
pub use service::{
    CorsRule, Logging, Metrics, Retention, ServiceProperties, StaticWebsite, parse_service_properties,
    service_properties, service_stats,
};
pub use shares::{ShareLine, ShareListing, share_list, share_stats};
pub use tags::{parse_tags_body, tags_body};
