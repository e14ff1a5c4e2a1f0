//! Directories: create, properties, metadata, list, delete.

use super::FilesService;
use super::call::Call;
use super::failure::Result;
use super::place::Place;
use super::properties::{changed, directory_headers, permission_key};
use crate::fs::requests::{Entry, ListRequest, Listed};
use crate::rest::page::{Page, read_marker, show_marker};
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::wire::etag::Etag;
use crate::wire::version::ServiceVersion;
use crate::wire::xml::{self, EntryDetails, EntryLine, EntryTimes};
use crate::wire::{Fault, headers};

/// From this version on lists tell the number of the directory.
const DIRECTORY_ID_SINCE: ServiceVersion = ServiceVersion::of(2020, 10, 2);

/// What `include` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Include {
    timestamps: bool,
    etag: bool,
    attributes: bool,
    permission: bool,
}

impl Include {
    fn parse(text: &str) -> Result<Self> {
        let mut include = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word.to_ascii_lowercase().as_str() {
                "timestamps" => include.timestamps = true,
                "etag" => include.etag = true,
                "attributes" => include.attributes = true,
                "permissionkey" => include.permission = true,
                _ => return Err(Fault::invalid_query("include", word).into()),
            }
        }
        Ok(include)
    }
}

impl FilesService {
    /// Create Directory.
    pub(super) async fn create_directory(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        at.check_new_name()?;
        let share = self.share(call, &at.share).await?;
        let smb = self.with_permission(call, &share, call.smb_change(true)?).await?;
        let entry = share.create_directory(&at.path, smb, call.metadata()?).await?;
        Ok(changed(Reply::created(), &entry).empty())
    }

    /// Get Directory Properties.
    pub(super) async fn get_directory_properties(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        let entry = self.view(call, at).await?.directory_properties(&at.path).await?;
        Ok(directory_headers(Reply::ok(), &entry).empty())
    }

    /// Set Directory Properties.
    pub(super) async fn set_directory_properties(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        let share = self.share(call, &at.share).await?;
        let smb = self.with_permission(call, &share, call.smb_change(false)?).await?;
        let entry = share.set_directory_properties(&at.path, smb).await?;
        Ok(changed(Reply::ok(), &entry).empty())
    }

    /// Get Directory Metadata.
    pub(super) async fn get_directory_metadata(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        let entry = self.view(call, at).await?.directory_properties(&at.path).await?;
        Ok(Reply::ok().version(entry.etag, entry.modified).metadata(&entry.metadata).empty())
    }

    /// Set Directory Metadata.
    pub(super) async fn set_directory_metadata(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        let share = self.share(call, &at.share).await?;
        let entry = share.set_directory_metadata(&at.path, call.metadata()?).await?;
        Ok(changed(Reply::ok(), &entry).empty())
    }

    /// Delete Directory.
    pub(super) async fn delete_directory(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        self.share(call, &at.share).await?.delete_directory(&at.path).await?;
        Ok(Reply::accepted().empty())
    }

    /// List Directories and Files.
    pub(super) async fn list_directory(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        let page = Page::of(&call.query)?;
        let include = Include::parse(call.query.filled("include").unwrap_or_default())?;
        // Sizes are always those that programs see, so the header asks for nothing more.
        headers::flag(call.headers(), headers::FILE_EXTENDED_INFO)?;
        let wanted = ListRequest {
            prefix: page.prefix_text().to_owned(),
            marker: page.marker.as_deref().map(read_marker).transpose()?,
            max: page.max,
        };
        let listed = self.view(call, at).await?.list(&at.path, wanted).await?;
        let listing = xml::DirectoryListing {
            share: at.share.to_string(),
            snapshot: call.query.filled("sharesnapshot").map(str::to_owned),
            path: at.path.to_string(),
            id: (call.version >= DIRECTORY_ID_SINCE).then_some(listed.directory.ino.0),
            prefix: page.prefix,
            marker: page.marker,
            max: page.asked_max,
            lines: listed.entries.into_iter().map(|entry| line(entry, include)).collect(),
            next: listed.next.as_deref().map(show_marker),
        };
        Ok(Reply::ok().xml(xml::directory_list(&call.endpoint(), &listing)))
    }
}

fn line(listed: Listed, include: Include) -> EntryLine {
    let Listed { name, entry } = listed;
    EntryLine {
        name,
        id: entry.ino.0,
        length: (!entry.is_directory()).then_some(entry.size),
        details: EntryDetails {
            times: include.timestamps.then(|| times(&entry)),
            etag: include.etag.then_some(Etag(entry.etag.0)),
            attributes: include.attributes.then_some(entry.attributes.0),
            permission: include.permission.then(|| permission_key(&entry)),
        },
    }
}

fn times(entry: &Entry) -> EntryTimes {
    EntryTimes {
        created: entry.created,
        accessed: entry.accessed,
        written: entry.last_write,
        changed: entry.changed,
        modified: entry.modified,
    }
}
