//! Requests about range locks: fcntl, OFD and flock locks all arrive alike.

use fuser::{ReplyEmpty, ReplyLock};

use crate::fs::nodes::Ino;
use crate::fs::{FsError, HandleId, RangeAsker, RangeChange, Result};
use crate::share::{RangeKind, Span};

use super::Adapter;
use super::replies::{Refuse, answer, empty};

/// The kernel's words: `F_RDLCK`, `F_WRLCK`, `F_UNLCK`.
fn change_of(kind: i32) -> Result<RangeChange> {
    match kind {
        libc::F_RDLCK => Ok(RangeChange::Set(RangeKind::Shared)),
        libc::F_WRLCK => Ok(RangeChange::Set(RangeKind::Exclusive)),
        libc::F_UNLCK => Ok(RangeChange::Clear),
        _ => Err(FsError::Invalid("unknown kind of range lock")),
    }
}

fn span_of((start, end): (u64, u64)) -> Result<Span> {
    Span::new(start, end).map_err(|_| FsError::Invalid("the range ends before it begins"))
}

fn kind_of(kind: RangeKind) -> i32 {
    match kind {
        RangeKind::Shared => libc::F_RDLCK,
        RangeKind::Exclusive => libc::F_WRLCK,
    }
}

impl Adapter {
    pub(super) fn test_range(
        &self,
        handle: HandleId,
        asker: RangeAsker,
        range: (u64, u64),
        kind: i32,
        reply: ReplyLock,
    ) {
        let (kind, span) = match change_of(kind).and_then(|change| Ok((change, span_of(range)?))) {
            Ok((RangeChange::Set(kind), span)) => (kind, span),
            Ok((RangeChange::Clear, _)) => return reply.refuse(&FsError::Invalid("nothing to test")),
            Err(error) => return reply.refuse(&error),
        };
        self.with_engine(|engine| async move {
            let found = engine.test_range(handle, asker, kind, span).await;
            answer(reply, found, |reply, found| match found {
                Some(lock) => {
                    // The highest signed offset means "to the end".
                    let (start, end) = (lock.span.start(), lock.span.last().min(i64::MAX as u64));
                    reply.locked(start, end, kind_of(lock.kind), lock.owner.process);
                }
                None => reply.locked(range.0, range.1, libc::F_UNLCK, 0),
            });
        });
    }

    pub(super) fn change_range(
        &self,
        (ino, handle): (Ino, HandleId),
        asker: RangeAsker,
        range: (u64, u64),
        kind: i32,
        wait: bool,
        reply: ReplyEmpty,
    ) {
        match change_of(kind).and_then(|change| Ok((change, span_of(range)?))) {
            Ok((change, span)) => {
                let announcer = self.announcer.clone();
                self.with_engine(|engine| async move {
                    let done = engine.change_range(handle, asker, change, span, wait).await;
                    if matches!(done, Ok(true)) {
                        announcer.content(ino).await;
                    }
                    empty(reply, done.map(drop));
                });
            }
            Err(error) => reply.refuse(&error),
        }
    }
}
