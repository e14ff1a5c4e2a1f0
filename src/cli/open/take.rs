//! One attempt to open a file with a share mode.
//!
//! Linux has no word for share modes in open(2), so the file is opened as usual and the mode set on the descriptor.
//! Both steps can be refused; the daemon judges each of them completely, so nothing is missed in between.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;

use super::super::error::CliError;
use super::holders::Holders;
use crate::fuse::ioctl;
use crate::share::{Access, ShareMode};

/// What somebody wants.
pub(super) struct Take<'a> {
    pub(super) path: &'a Path,
    pub(super) access: Access,
    pub(super) share: ShareMode,
    pub(super) create: bool,
}

/// Why it did not work.
pub(super) enum TakeError {
    /// Others hold the file.
    Busy(Holders),
    /// Something that waiting does not help against.
    Failed(CliError),
}

impl Take<'_> {
    pub(super) fn attempt(&self) -> Result<File, TakeError> {
        let file = match self.options().open(self.path) {
            Ok(file) => file,
            Err(e) if is_busy(&e) => return Err(TakeError::Busy(Holders::of_path(self.path, self.claim()))),
            Err(e) => return Err(TakeError::Failed(self.cannot_open(&e))),
        };
        match ioctl::set_share(&file, self.access, self.share) {
            Ok(()) => Ok(file),
            Err(e) if is_busy(&e) => Err(TakeError::Busy(Holders::of_file(&file, self.claim()))),
            Err(e) => Err(TakeError::Failed(self.cannot_share(&e))),
        }
    }

    fn claim(&self) -> (Access, ShareMode) {
        (self.access, self.share)
    }

    fn options(&self) -> OpenOptions {
        let (read, write) = (self.access.contains(Access::READ), self.access.contains(Access::WRITE));
        let mut options = OpenOptions::new();
        if read || write {
            options.read(read).write(write);
        } else {
            // Neither: the kernel's mode 3, a descriptor for ioctl only. std asks for one of both and mode 3 wins.
            options.read(true).custom_flags(libc::O_ACCMODE);
        }
        if self.create {
            options.custom_flags(libc::O_CREAT);
        }
        options
    }

    fn cannot_open(&self, problem: &io::Error) -> CliError {
        let path = self.path.display();
        CliError::Failed(match problem.kind() {
            io::ErrorKind::NotFound if !self.create => {
                format!("{path} does not exist; --create makes it")
            }
            io::ErrorKind::IsADirectory => is_directory(self.path),
            _ => format!("{path} cannot be opened: {problem}"),
        })
    }

    fn cannot_share(&self, problem: &io::Error) -> CliError {
        let path = self.path.display();
        CliError::Failed(match problem.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOTTY) if self.path.is_dir() => is_directory(self.path),
            Some(Errno::ENOTTY) => {
                format!("the daemon of the mount with {path} is too old for share modes; unmount and mount it again")
            }
            _ => format!("the share mode of {path} cannot be set: {problem}"),
        })
    }
}

fn is_directory(path: &Path) -> String {
    format!("{} is a directory; share modes are for files", path.display())
}

fn is_busy(problem: &io::Error) -> bool {
    problem.raw_os_error() == Some(libc::EBUSY)
}
