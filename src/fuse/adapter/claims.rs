//! The ioctls: what a program asks for through an open descriptor.

use fuser::ReplyIoctl;

use crate::fs::names::Segment;
use crate::fs::{Caller, FsError, HandleId};

use super::super::ioctl::{Ioctl, state};
use super::Adapter;
use super::replies::answer;

impl Adapter {
    pub(super) fn ask_file(&self, handle: HandleId, asked: Ioctl, reply: ReplyIoctl) {
        let announcer = self.announcer.clone();
        self.with_engine(|engine| async move {
            match asked {
                Ioctl::SetShare(claim) => {
                    let done = engine.set_share(handle, claim).await;
                    answer(reply, done, |reply, ()| reply.ioctl(0, &[]));
                }
                Ioctl::GetState => {
                    answer(reply, engine.handle_state(handle), |reply, now| reply.ioctl(0, &state(&now)));
                }
                Ioctl::SetDelete(pending) => {
                    let done = engine.set_delete(handle, pending).await;
                    if let Ok(Some(hidden)) = &done {
                        announcer.name(hidden.clone()).await;
                    }
                    answer(reply, done, |reply, _| reply.ioctl(0, &[]));
                }
                Ioctl::Undelete(_) => {
                    let problem = Err(FsError::Invalid("ask the directory that the file was in"));
                    answer(reply, problem, |reply, ()| reply.ioctl(0, &[]));
                }
            }
        });
    }

    pub(super) fn ask_directory(&self, caller: Caller, handle: HandleId, asked: Ioctl, reply: ReplyIoctl) {
        self.with_engine(|engine| async move {
            match asked {
                Ioctl::SetShare(claim) => {
                    let done = engine.set_directory_share(handle, claim, caller).await;
                    answer(reply, done, |reply, ()| reply.ioctl(0, &[]));
                }
                Ioctl::GetState => {
                    answer(reply, engine.directory_state(handle), |reply, now| reply.ioctl(0, &state(&now)));
                }
                Ioctl::SetDelete(_) => {
                    let problem = Err(FsError::Invalid("directories are removed with rmdir"));
                    answer(reply, problem, |reply, ()| reply.ioctl(0, &[]));
                }
                Ioctl::Undelete(name) => {
                    let done = match Segment::from_file_name(&name) {
                        Ok(name) => engine.undelete_in(handle, &name, caller).await,
                        Err(problem) => Err(problem),
                    };
                    answer(reply, done, |reply, ()| reply.ioctl(0, &[]));
                }
            }
        });
    }
}
