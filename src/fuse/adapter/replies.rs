//! Engine answers as FUSE replies. The only place that turns a result into one or the other kind of reply.

use fuser::{
    Errno, Generation, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
};

use crate::fs::{Engine, FsError, Result, Stat};

use super::super::attr::{attr_ttl, file_attr, name_ttl};
use super::super::errno::errno;

/// Generations tell reused numbers apart; ours are never reused.
pub(super) const GENERATION: Generation = Generation(0);

/// A reply that can say no.
pub(super) trait Refuse: Send + 'static {
    /// Answers with the errno of `error`.
    fn refuse(self, error: &FsError);
}

macro_rules! refuse {
    ($($reply:ty),* $(,)?) => {
        $(impl Refuse for $reply {
            fn refuse(self, error: &FsError) {
                self.error(errno(error));
            }
        })*
    };
}

refuse!(
    ReplyAttr,
    ReplyCreate,
    ReplyData,
    ReplyDirectory,
    ReplyDirectoryPlus,
    ReplyEmpty,
    ReplyEntry,
    ReplyIoctl,
    ReplyLock,
    ReplyLseek,
    ReplyOpen,
    ReplyStatfs,
    ReplyWrite,
    ReplyXattr,
);

/// Answers with what `tell` makes of the result, or with its error.
pub(super) fn answer<R: Refuse, T>(reply: R, result: Result<T>, tell: impl FnOnce(R, T)) {
    match result {
        Ok(value) => tell(reply, value),
        Err(error) => reply.refuse(&error),
    }
}

pub(super) fn entry(engine: &Engine, reply: ReplyEntry, result: Result<Stat>) {
    answer(reply, result, |reply, stat| {
        let ttls = (name_ttl(engine), attr_ttl(engine, &stat));
        reply.entry_with_ttls(&ttls.0, &ttls.1, &file_attr(&stat), GENERATION);
    });
}

pub(super) fn attr(engine: &Engine, reply: ReplyAttr, result: Result<Stat>) {
    answer(reply, result, |reply, stat| reply.attr(&attr_ttl(engine, &stat), &file_attr(&stat)));
}

pub(super) fn empty(reply: ReplyEmpty, result: Result<()>) {
    answer(reply, result, |reply, ()| reply.ok());
}

pub(super) fn xattr(reply: ReplyXattr, size: u32, result: Result<Vec<u8>>) {
    answer(reply, result, |reply, value| {
        if size == 0 {
            // Metadata is far below 4 GiB.
            reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX));
        } else if value.len() > size as usize {
            reply.error(Errno::ERANGE);
        } else {
            reply.data(&value);
        }
    });
}
