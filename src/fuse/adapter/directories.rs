//! Requests that read directories.

use fuser::{FileType, INodeNo, ReplyDirectory, ReplyDirectoryPlus};

use crate::fs::nodes::{Ino, ROOT};
use crate::fs::{Engine, HandleId};

use super::super::attr::{absent, attr_ttl, file_attr, file_type, name_ttl};
use super::Adapter;
use super::replies::{GENERATION, answer};

/// `.` and `..` come before the entries of the engine.
const DOTS: u64 = 2;

impl Adapter {
    pub(super) fn list(&self, ino: Ino, handle: HandleId, offset: u64, mut reply: ReplyDirectory) {
        self.with_engine(|engine| async move {
            for (position, name, target) in dots(&engine, ino).into_iter().filter(|dot| dot.0 > offset) {
                if reply.add(INodeNo(target.0), position, FileType::Directory, name) {
                    return reply.ok();
                }
            }
            let read = engine.read_directory(handle, offset.saturating_sub(DOTS), |at, entry| {
                let kind = file_type(entry.kind);
                !reply.add(INodeNo(entry.ino.0), at + DOTS, kind, entry.segment.file_name())
            });
            let read = read.await;
            answer(reply, read, |reply, ()| reply.ok());
        });
    }

    pub(super) fn list_plus(&self, ino: Ino, handle: HandleId, offset: u64, mut reply: ReplyDirectoryPlus) {
        let under_way = self.requests.begin();
        self.with_engine(|engine| async move {
            // Until it is answered.
            let _under_way = under_way;
            for (position, name, target) in dots(&engine, ino).into_iter().filter(|dot| dot.0 > offset) {
                // The kernel takes no attributes from these two, but programs see the number, and skip entries without.
                let attr = fuser::FileAttr { ino: INodeNo(target.0), kind: FileType::Directory, ..absent() };
                if reply.add(INodeNo(target.0), position, name, &name_ttl(&engine), &attr, GENERATION) {
                    return reply.ok();
                }
            }
            let read = engine.read_directory(handle, offset.saturating_sub(DOTS), |at, entry| {
                // An entry that went away meanwhile is left out.
                let Ok(stat) = engine.entry_stat(ino, entry) else {
                    return true;
                };
                if !engine.remember_entry(ino, entry) {
                    return true;
                }
                let (attr, ttl, name) =
                    (file_attr(&stat), attr_ttl(&engine, &stat), entry.segment.file_name());
                let full = reply.add(INodeNo(entry.ino.0), at + DOTS, name, &ttl, &attr, GENERATION);
                if full {
                    engine.forget(entry.ino, 1);
                }
                !full
            });
            let read = read.await;
            answer(reply, read, |reply, ()| reply.ok());
        });
    }
}

/// `.` and `..` with their positions.
fn dots(engine: &Engine, ino: Ino) -> [(u64, &'static str, Ino); 2] {
    let parent = if ino == ROOT { ROOT } else { engine.parent(ino) };
    [(1, ".", ino), (2, "..", parent)]
}
