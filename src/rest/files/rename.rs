//! Rename File and Rename Directory. The request goes to the new name and names the old one in a header.

use super::FilesService;
use super::call::Call;
use super::failure::Result;
use super::operation::{FileOp, Operation};
use super::place::Place;
use super::properties::changed;
use super::route::FILE_LABEL;
use super::source::own_place;
use crate::fs::requests::RenameRequest;
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::rest::sources::{is_same_server, named_url, without_query};
use crate::wire::{Fault, headers, lease};

impl FilesService {
    /// Rename File, or Rename Directory.
    pub(super) async fn rename(&self, call: &Call<'_>, at: &Place, directory: bool) -> Result<Answer> {
        at.check_new_name()?;
        let (text, url) = named_url(call.headers(), headers::FILE_RENAME_SOURCE)?;
        let invalid = || Fault::invalid_header(headers::FILE_RENAME_SOURCE, without_query(text));
        let authority = url.authority().map_or("", |authority| authority.as_str());
        if !is_same_server(call.host(), authority, FILE_LABEL) {
            return Err(invalid().into());
        }
        let dots = headers::flag(call.headers(), headers::SOURCE_ALLOW_TRAILING_DOT)?;
        let (from, target, query) = own_place(&url, headers::FILE_RENAME_SOURCE, dots)?;
        if from.share != at.share {
            return Err(invalid().saying("A rename stays in its share.").into());
        }
        // Who takes a name away needs the right to.
        let need = super::needs::need(&Operation::File(from.clone(), FileOp::Rename), call.headers());
        self.authorize_other(call, &url, &target, &query, &need).await?;
        let id = |name| lease::id_header(call.headers(), name);
        let flag = |name| headers::flag(call.headers(), name);
        let request = RenameRequest {
            replace: flag(headers::FILE_RENAME_REPLACE_IF_EXISTS)?,
            ignore_read_only: flag(headers::FILE_RENAME_IGNORE_READONLY)?
                || flag(headers::IGNORE_READONLY_OLD)?,
            source_lease: id(headers::SOURCE_LEASE_ID)?,
            target_lease: id(headers::DESTINATION_LEASE_ID)?,
            directory,
            smb: call.smb_change(false)?,
            metadata: call.metadata_if_any()?,
            content_type: call.header(headers::CONTENT_TYPE_STORED)?.map(str::to_owned),
        };
        let share = self.share(call, &at.share).await?;
        let smb = self.with_permission(call, &share, request.smb).await?;
        let _turn = self.shares.moving_turn(&at.share).await;
        let entry = share.rename(&from.path, &at.path, RenameRequest { smb, ..request }).await?;
        Ok(changed(Reply::ok(), &entry).empty())
    }
}
