//! One attempt to open a file with a share mode.
//!
//! Linux has no word for share modes in open(2), so the file is opened as usual and the mode set on the descriptor.
//! Both steps can be refused; the daemon judges each of them completely, so nothing is missed in between.

use std::fs::File;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use super::super::error::CliError;
use super::super::ioctl;
use super::holders::Holders;

use crate::share::{Access, ShareMode};

/// What somebody wants.
pub(in crate::cli) struct Take<'a> {
    pub(in crate::cli) path: &'a Path,
    pub(in crate::cli) access: Access,
    pub(in crate::cli) share: ShareMode,
    pub(in crate::cli) create: bool,
}

/// Why it did not work.
pub(in crate::cli) enum TakeError {
    /// Others hold the file.
    Busy(Holders),
    /// Something that waiting does not help against.
    Failed(CliError),
}

impl Take<'_> {
    pub(in crate::cli) fn attempt(&self) -> Result<File, TakeError> {
        let file = match self.open() {
            Ok(file) => file,
            Err(Errno::EBUSY) => return Err(TakeError::Busy(Holders::of_path(self.path, self.claim()))),
            Err(e) => return Err(TakeError::Failed(self.cannot_open(e))),
        };
        match ioctl::set_share(&file, self.access, self.share) {
            Ok(()) => Ok(file),
            Err(Errno::EBUSY) => {
                let own = ioctl::state(&file).ok().map(|state| state.open);
                Err(TakeError::Busy(Holders::of_file(&file, self.claim(), own)))
            }
            Err(e) => Err(TakeError::Failed(self.cannot_share(e))),
        }
    }

    fn claim(&self) -> (Access, ShareMode) {
        (self.access, self.share)
    }

    fn open(&self) -> nix::Result<File> {
        let (read, write) = (self.access.contains(Access::READ), self.access.contains(Access::WRITE));
        let mode = match (read, write) {
            (true, true) => OFlag::O_RDWR,
            (true, false) => OFlag::O_RDONLY,
            (false, true) => OFlag::O_WRONLY,
            // Neither: the kernel's fourth mode, a descriptor for ioctl only.
            (false, false) => OFlag::O_ACCMODE,
        };
        let create = if self.create { OFlag::O_CREAT } else { OFlag::empty() };
        let rights = Mode::from_bits_truncate(0o666);
        Ok(open(self.path, mode | create | OFlag::O_CLOEXEC, rights)?.into())
    }

    fn cannot_open(&self, problem: Errno) -> CliError {
        let path = self.path.display();
        CliError::Failed(match problem {
            Errno::ENOENT if !self.create => format!("{path} does not exist; --create makes it"),
            Errno::EISDIR => format!("{path} is a directory; it can be held with --access r or rd"),
            _ => format!("{path} cannot be opened: {}", problem.desc()),
        })
    }

    fn cannot_share(&self, problem: Errno) -> CliError {
        let path = self.path.display();
        CliError::Failed(match problem {
            Errno::ENOTTY => {
                format!(
                    "the daemon of the mount with {path} is too old for share modes; unmount and mount it again"
                )
            }
            _ => format!("the share mode of {path} cannot be set: {}", problem.desc()),
        })
    }
}
