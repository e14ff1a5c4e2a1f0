//! Random operations of one writer, until the daemon is gone.

use crate::tree::{Kind, is_within};
use crate::writer::{Done, Writer};

/// Names that a writer may have at a time.
const NAMES_MAX: usize = 40;

/// Files that stay open at a time.
const APPENDS_MAX: usize = 2;

/// Bytes that one writer keeps; more are removed again.
const BYTES_MAX: usize = 12 << 20;

impl Writer {
    /// Works until the daemon is gone.
    pub fn work(&mut self) {
        while self.anything().is_ok() {}
    }

    fn anything(&mut self) -> Done {
        if self.tree.0.len() >= NAMES_MAX || self.bytes() > BYTES_MAX {
            return self.remove();
        }
        if self.far && self.dice.once_in(3) {
            return self.random_directory_work();
        }
        match self.dice.roll(32) {
            0..=4 => self.random_create(),
            5..=9 => self.random_change(),
            10..=11 => self.random_storm(),
            12..=14 => self.random_save(),
            15..=18 => self.random_append(),
            19 => self.random_mkdir(),
            20..=22 => self.remove(),
            23 => self.random_unlink_open(),
            24..=25 => self.random_rename(),
            26 => self.random_directory_rename(),
            27 => self.random_exchange(),
            28 => self.random_symlink(),
            29..=30 => self.random_attribute(),
            _ => self.sync_directory(""),
        }
    }

    fn bytes(&self) -> usize {
        let size = |kind: &Kind| match kind {
            Kind::File(version) => version.bytes.len(),
            Kind::Directory | Kind::Symlink(_) => 0,
        };
        self.tree.0.values().map(|node| size(&node.kind)).sum()
    }

    fn paths(&self, wanted: impl Fn(&Kind) -> bool) -> Vec<String> {
        self.tree.0.iter().filter(|(_, node)| wanted(&node.kind)).map(|(path, _)| path.clone()).collect()
    }

    fn directories(&self) -> Vec<String> {
        self.paths(|kind| matches!(kind, Kind::Directory))
    }

    /// A file that is not open.
    fn closed_file(&mut self) -> Option<String> {
        let mut files = self.paths(|kind| matches!(kind, Kind::File(_)));
        files.retain(|path| self.is_open(path).is_none());
        self.dice.pick(&files)
    }

    fn is_empty(&self, directory: &str) -> bool {
        !self.tree.0.keys().any(|path| path != directory && is_within(path, directory))
    }

    /// A name that is not taken, in a directory that is not within `except`.
    fn free_name(&mut self, except: Option<&str>) -> String {
        let mut directories = self.directories();
        directories.retain(|path| except.is_none_or(|except| !is_within(path, except)));
        // Not too deep, and the top most of all.
        directories.retain(|path| path.matches('/').count() < 2);
        directories.extend((0..4).map(|_| String::new()));
        loop {
            let directory = self.dice.pick(&directories).expect("the top is always there");
            let name = format!("n{}", self.dice.roll(NAMES_MAX));
            let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
            if !self.tree.0.contains_key(&path) {
                return path;
            }
        }
    }

    fn random_create(&mut self) -> Done {
        let (path, size) = (self.free_name(None), self.dice.size());
        let bytes = self.dice.bytes(size);
        self.create(&path, &bytes)
    }

    /// Parts of a file of `length` bytes, some of them reaching behind its end.
    fn parts(&mut self, length: usize) -> Vec<(usize, Vec<u8>)> {
        (0..=self.dice.roll(3))
            .map(|_| {
                let behind = self.dice.roll(2) * 5000;
                let from = self.dice.roll(length + 1 + behind);
                let most = if self.dice.once_in(6) { 200_000 } else { 6000 };
                let size = 1 + self.dice.roll(most);
                (from, self.dice.bytes(size))
            })
            .collect()
    }

    fn random_change(&mut self) -> Done {
        let Some(path) = self.closed_file() else { return self.random_create() };
        let length = self.tree.content(&path).len();
        match self.dice.roll(8) {
            0..=1 => {
                let size = self.dice.size();
                let bytes = self.dice.bytes(size);
                self.replace(&path, &bytes)
            }
            2..=4 => {
                let parts = self.parts(length);
                self.overwrite(&path, &parts)
            }
            5 => {
                let size = self.dice.size();
                self.truncate(&path, size)
            }
            6 => {
                let (size, part) = (self.dice.roll(length + 1), self.dice.bytes(3000));
                let from = size + self.dice.roll(10_000);
                self.cut_and_grow(&path, size, &part, from)
            }
            _ => {
                let part = self.dice.bytes(3000);
                let from = self.dice.roll(length + 1);
                self.change_under_reader(&path, &part, from)
            }
        }
    }

    /// One file changed again and again, right after each close.
    fn random_storm(&mut self) -> Done {
        let Some(path) = self.closed_file() else { return self.random_create() };
        for _ in 0..4 {
            let length = self.tree.content(&path).len();
            if self.dice.once_in(3) {
                let bytes = self.dice.bytes(length.min(200_000) + 1);
                self.replace(&path, &bytes)?;
            } else {
                let parts = self.parts(length.min(2 << 20));
                self.overwrite(&path, &parts)?;
            }
        }
        Ok(())
    }

    fn random_save(&mut self) -> Done {
        let path = match self.closed_file() {
            Some(path) if !self.dice.once_in(4) => path,
            _ => self.free_name(None),
        };
        if self.tree.0.contains_key(&format!("{path}.new")) {
            // Left by a save that was interrupted.
            return self.remove();
        }
        let size = self.dice.size();
        let bytes = self.dice.bytes(size);
        self.save(&path, &bytes)
    }

    fn random_append(&mut self) -> Done {
        if self.appends.len() < APPENDS_MAX && self.dice.once_in(2) {
            let path = match self.closed_file() {
                Some(path) if self.dice.once_in(2) => path,
                _ => self.free_name(None),
            };
            self.begin_append(&path)?;
        }
        let Some(index) = (!self.appends.is_empty()).then(|| self.dice.roll(self.appends.len())) else {
            return Ok(());
        };
        match self.dice.roll(6) {
            0 => self.end_append(index),
            1 => {
                let size = self.dice.roll(60_000);
                let bytes = self.dice.bytes(size);
                self.append_unsynced(index, &bytes)
            }
            _ => {
                let size = self.dice.roll(40_000);
                let bytes = self.dice.bytes(size);
                self.append(index, &bytes)
            }
        }
    }

    fn random_mkdir(&mut self) -> Done {
        let path = self.free_name(None);
        self.mkdir(&path)
    }

    /// Removes something: a file, a link or an empty directory.
    fn remove(&mut self) -> Done {
        let all: Vec<String> = self.tree.0.keys().cloned().collect();
        let Some(path) = self.dice.pick(&all) else { return Ok(()) };
        match self.tree.0[&path].kind {
            Kind::Directory if self.is_empty(&path) => self.rmdir(&path),
            Kind::Directory => Ok(()),
            Kind::Symlink(_) => self.unlink(&path),
            Kind::File(_) => {
                let open = self.is_open(&path);
                self.unlink(&path)?;
                // Until then the name is taken.
                open.map_or(Ok(()), |index| self.end_append(index))
            }
        }
    }

    fn random_unlink_open(&mut self) -> Done {
        let Some(path) = self.closed_file() else { return Ok(()) };
        match path.rsplit_once('/') {
            Some((directory, _)) if self.dice.once_in(2) => {
                let to = self.free_name(Some(directory));
                self.unlink_open(&path, Some((directory, &to)))
            }
            _ => self.unlink_open(&path, None),
        }
    }

    /// A file or a link gets another name, maybe one that is taken.
    fn random_rename(&mut self) -> Done {
        let all = self.paths(|kind| !matches!(kind, Kind::Directory));
        let (Some(from), Some(taken)) = (self.dice.pick(&all), self.dice.pick(&all)) else { return Ok(()) };
        let to = if self.dice.once_in(2) && taken != from { taken } else { self.free_name(None) };
        self.rename(&from, &to)
    }

    fn random_directory_rename(&mut self) -> Done {
        let directories = self.directories();
        let Some(from) = self.dice.pick(&directories) else { return self.random_mkdir() };
        let empty: Vec<String> =
            directories.into_iter().filter(|path| self.is_empty(path) && !is_within(path, &from)).collect();
        let to = match self.dice.pick(&empty) {
            Some(to) if self.dice.once_in(2) && !is_within(&from, &to) => to,
            _ => self.free_name(Some(&from)),
        };
        self.rename(&from, &to)
    }

    /// What takes several requests at a service.
    fn random_directory_work(&mut self) -> Done {
        match self.dice.roll(10) {
            0..=1 => self.random_mkdir(),
            2..=3 => self.random_rmdir(),
            4..=6 => self.random_directory_rename(),
            7..=8 => self.random_exchange(),
            _ => self.random_rename(),
        }
    }

    fn random_rmdir(&mut self) -> Done {
        let empty: Vec<String> = self.directories().into_iter().filter(|path| self.is_empty(path)).collect();
        match self.dice.pick(&empty) {
            Some(path) => self.rmdir(&path),
            None => self.random_mkdir(),
        }
    }

    fn random_exchange(&mut self) -> Done {
        let all: Vec<String> = self.tree.0.keys().cloned().collect();
        let (Some(one), Some(other)) = (self.dice.pick(&all), self.dice.pick(&all)) else { return Ok(()) };
        if is_within(&one, &other) || is_within(&other, &one) {
            return Ok(());
        }
        self.exchange(&one, &other)
    }

    fn random_symlink(&mut self) -> Done {
        let path = self.free_name(None);
        let target = format!("to/{}", self.dice.number());
        self.symlink(&path, &target)
    }

    fn random_attribute(&mut self) -> Done {
        let all = self.paths(|kind| !matches!(kind, Kind::Symlink(_)));
        let Some(path) = self.dice.pick(&all) else { return Ok(()) };
        if self.dice.once_in(2) {
            let mode = 0o600 | (self.dice.number() as u32 & 0o177);
            self.chmod(&path, mode)
        } else {
            let tag = self.dice.number().to_string();
            self.set_tag(&path, &tag)
        }
    }
}
