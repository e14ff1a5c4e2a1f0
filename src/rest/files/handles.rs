//! List Handles and Force Close Handles: who has a file, or something below a directory, open on the mount.

use super::FilesService;
use super::call::Call;
use super::failure::Result;
use super::place::Place;
use super::ranges::on_blocking_thread;
use crate::fs::requests::{HandleInfo, Which};
use crate::rest::page::Page;
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::wire::xml::{self, HandleLine};
use crate::wire::{Fault, headers};

/// Where programs on this machine are.
const CLIENT: &str = "127.0.0.1:0";
/// All handles.
const ALL: &str = "*";

impl FilesService {
    /// List Handles.
    pub(super) async fn list_handles(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        let page = Page::of(&call.query)?;
        let marker = match page.marker.as_deref() {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| Fault::invalid_query("marker", text))?),
        };
        let recursive = headers::flag(call.headers(), headers::RECURSIVE)?;
        if call.snapshot()?.is_some() {
            // Nobody can have a snapshot open.
            return Ok(Reply::ok().xml(xml::handle_list(&[], None)));
        }
        let share = self.share(call, &at.share).await?;
        let found = share.handles(&at.path, recursive, marker, page.max).await?;
        let next = found.next.map(|next| next.to_string());
        let lines =
            on_blocking_thread(|| Ok(found.handles.into_iter().map(line).collect::<Vec<_>>())).await?;
        Ok(Reply::ok().xml(xml::handle_list(&lines, next.as_deref())))
    }

    /// Force Close Handles.
    pub(super) async fn close_handles(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        let text = headers::required(call.headers(), headers::HANDLE_ID)?;
        let which = match text {
            ALL => Which::All,
            text => Which::One(text.parse().map_err(|_| Fault::invalid_header(headers::HANDLE_ID, text))?),
        };
        let recursive = headers::flag(call.headers(), headers::RECURSIVE)?;
        let share = self.share(call, &at.share).await?;
        let done = share.close_handles(&at.path, which, recursive).await?;
        let reply = Reply::ok()
            .number(headers::HANDLES_CLOSED, done.closed as u64)
            .number(headers::HANDLES_FAILED, done.failed as u64);
        Ok(reply.empty())
    }
}

/// Reads /proc.
fn line(handle: HandleInfo) -> HandleLine {
    let client_name = client_name(&handle);
    HandleLine {
        id: handle.id,
        path: handle.path,
        file: handle.ino.0,
        parent: handle.parent.0,
        session: handle.id,
        access: access_words(handle.access),
        client: CLIENT.to_owned(),
        client_name,
        opened: handle.since,
    }
}

fn access_words(access: crate::share::Access) -> Vec<&'static str> {
    use crate::share::Access;
    let words = [(Access::READ, "Read"), (Access::WRITE, "Write"), (Access::DELETE, "Delete")];
    words.into_iter().filter(|(class, _)| access.contains(*class)).map(|(_, word)| word).collect()
}

/// The program, where it can be seen.
fn client_name(handle: &HandleInfo) -> String {
    match handle.holder.process() {
        Some(process) => format!("{} (process {})", process.program, process.pid),
        None => handle.holder.front_end.as_str().to_owned(),
    }
}
