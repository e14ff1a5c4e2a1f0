//! A mount on this machine whose daemon is meant to die.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};

use crate::daemon::Daemon;

pub struct Rig {
    daemon: Daemon,
    options: Vec<String>,
}

impl Deref for Rig {
    type Target = Daemon;

    fn deref(&self) -> &Daemon {
        &self.daemon
    }
}

impl DerefMut for Rig {
    fn deref_mut(&mut self) -> &mut Daemon {
        &mut self.daemon
    }
}

impl Rig {
    /// A place for a mount with these options; nothing is mounted yet. None where this machine cannot mount.
    pub fn new(options: &[&str]) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            println!("skipped: mounting needs root and /dev/fuse");
            return None;
        }
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Some(Self { daemon: Daemon::new(), options })
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Mounts, over a dead mount if there is one.
    pub fn start(&mut self) {
        self.start_with(&[]);
    }

    /// The same with more options.
    pub fn start_with(&mut self, more: &[&str]) {
        assert!(self.spawn(None, more), "the mount does not start:\n{}", self.log());
    }

    /// Mounts with a daemon that dies at `point`. Says whether it lived long enough to serve.
    pub fn start_doomed(&mut self, point: &str, posix: bool) -> bool {
        let more: &[&str] = if posix { &["--delete", "posix"] } else { &[] };
        self.spawn(Some(point), more)
    }

    fn spawn(&mut self, point: Option<&str>, more: &[&str]) -> bool {
        let mut arguments = vec!["--data".to_owned(), self.data().to_str().unwrap().to_owned()];
        arguments.extend_from_slice(&self.options);
        arguments.extend(more.iter().map(|option| (*option).to_owned()));
        self.daemon.spawn(point, &arguments)
    }

    /// Runs the store's own check. Nothing may be mounted.
    pub fn check(&self) {
        self.daemon.check(&self.data());
    }
}
