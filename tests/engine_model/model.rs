//! The naive tree: what a share must look like, written as simply as possible.

use std::collections::BTreeMap;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    Directory,
    File(usize),
    Symlink(String),
}

/// A file with or without a name.
#[derive(Clone, Debug, Default)]
pub struct File {
    pub data: Vec<u8>,
    /// What the last flush or close made durable.
    pub committed: Vec<u8>,
    pub opens: usize,
    /// Removed by name, waiting for its last close.
    pub pending: bool,
    /// Written in place since a commit: after a crash the later bytes may show.
    pub in_place: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    NotFound,
    Exists,
    NotEmpty,
    NotADirectory,
    IsADirectory,
    Busy,
    Invalid,
    NotSupported,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub entries: BTreeMap<String, Entry>,
    pub files: Vec<File>,
}

pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn below<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    if directory.is_empty() { Some(path) } else { path.strip_prefix(directory)?.strip_prefix('/') }
}

impl Model {
    pub fn is_directory(&self, path: &str) -> bool {
        path.is_empty() || self.entries.get(path) == Some(&Entry::Directory)
    }

    fn has_children(&self, path: &str) -> bool {
        self.entries.keys().any(|other| below(other, path).is_some())
    }

    pub fn pending(&self, path: &str) -> bool {
        matches!(self.entries.get(path), Some(Entry::File(file)) if self.files[*file].pending)
    }

    /// Checks that a new name may be made.
    fn free(&self, path: &str) -> Result<(), Refused> {
        if !self.is_directory(parent(path)) {
            return Err(Refused::NotFound);
        }
        match self.entries.get(path) {
            None => Ok(()),
            Some(_) if self.pending(path) => Err(Refused::Busy),
            Some(_) => Err(Refused::Exists),
        }
    }

    pub fn create(&mut self, path: &str) -> Result<usize, Refused> {
        self.free(path)?;
        self.files.push(File { opens: 1, ..File::default() });
        self.entries.insert(path.to_owned(), Entry::File(self.files.len() - 1));
        Ok(self.files.len() - 1)
    }

    pub fn make(&mut self, path: &str, entry: Entry) -> Result<(), Refused> {
        self.free(path)?;
        self.entries.insert(path.to_owned(), entry);
        Ok(())
    }

    pub fn open(&mut self, path: &str) -> Result<usize, Refused> {
        match self.entries.get(path) {
            None => Err(Refused::NotFound),
            Some(Entry::Directory) => Err(Refused::IsADirectory),
            Some(Entry::Symlink(_)) => Err(Refused::Invalid),
            Some(Entry::File(file)) if self.files[*file].pending => Err(Refused::Busy),
            Some(Entry::File(file)) => {
                self.files[*file].opens += 1;
                Ok(*file)
            }
        }
    }

    pub fn commit(&mut self, file: usize) {
        let file = &mut self.files[file];
        file.committed = file.data.clone();
        file.in_place = false;
    }

    pub fn close(&mut self, file: usize, commits: bool) {
        if commits {
            self.commit(file);
        }
        self.files[file].opens -= 1;
        if self.files[file].opens == 0 && self.files[file].pending {
            self.entries.retain(|_, entry| *entry != Entry::File(file));
        }
    }

    pub fn unlink(&mut self, path: &str, posix: bool) -> Result<(), Refused> {
        match self.entries.get(path) {
            None => Err(Refused::NotFound),
            Some(Entry::Directory) => Err(Refused::IsADirectory),
            Some(_) if self.pending(path) => Err(Refused::Busy),
            Some(Entry::File(file)) if self.files[*file].opens > 0 && !posix => {
                self.files[*file].pending = true;
                Ok(())
            }
            Some(Entry::File(_) | Entry::Symlink(_)) => {
                self.entries.remove(path);
                Ok(())
            }
        }
    }

    pub fn remove_directory(&mut self, path: &str) -> Result<(), Refused> {
        match self.entries.get(path) {
            None => Err(Refused::NotFound),
            Some(Entry::Directory) if self.has_children(path) => Err(Refused::NotEmpty),
            Some(Entry::Directory) => {
                self.entries.remove(path);
                Ok(())
            }
            Some(Entry::File(_) | Entry::Symlink(_)) => Err(Refused::NotADirectory),
        }
    }

    pub fn rename(&mut self, from: &str, to: &str, replace: bool) -> Result<(), Refused> {
        let source = self.entries.get(from).cloned().ok_or(Refused::NotFound)?;
        if !self.is_directory(parent(to)) {
            return Err(Refused::NotFound);
        }
        if self.pending(from) || self.pending(to) {
            return Err(Refused::Busy);
        }
        if from == to {
            return if replace { Ok(()) } else { Err(Refused::Exists) };
        }
        if let Some(target) = self.entries.get(to) {
            let directories = (source == Entry::Directory, *target == Entry::Directory);
            match directories {
                _ if !replace => return Err(Refused::Exists),
                (true, false) => return Err(Refused::NotADirectory),
                (false, true) => return Err(Refused::IsADirectory),
                (true, true) if self.has_children(to) => return Err(Refused::NotEmpty),
                _ => {}
            }
        }
        if source == Entry::Directory && below(to, from).is_some() {
            return Err(Refused::Invalid);
        }
        self.entries.remove(to);
        let moved: Vec<(String, Entry)> = self
            .entries
            .iter()
            .filter(|(path, _)| *path == from || below(path, from).is_some())
            .map(|(path, entry)| (path.clone(), entry.clone()))
            .collect();
        for (path, entry) in moved {
            self.entries.remove(&path);
            self.entries.insert(format!("{to}{}", &path[from.len()..]), entry);
        }
        Ok(())
    }

    pub fn exchange(&mut self, a: &str, b: &str) -> Result<(), Refused> {
        if !self.entries.contains_key(a) || !self.entries.contains_key(b) {
            return Err(Refused::NotFound);
        }
        if self.pending(a) || self.pending(b) {
            return Err(Refused::Busy);
        }
        if a == b {
            return Ok(());
        }
        if below(a, b).is_some() || below(b, a).is_some() {
            return Err(Refused::Invalid);
        }
        let entries = std::mem::take(&mut self.entries);
        for (path, entry) in entries {
            let path = if path == a || below(&path, a).is_some() {
                format!("{b}{}", &path[a.len()..])
            } else if path == b || below(&path, b).is_some() {
                format!("{a}{}", &path[b.len()..])
            } else {
                path
            };
            self.entries.insert(path, entry);
        }
        Ok(())
    }

    /// The process dies: everything is closed without a commit, pending removes are finished.
    pub fn crash(&mut self) {
        let gone: Vec<usize> = (0..self.files.len()).filter(|file| self.files[*file].pending).collect();
        self.entries.retain(|_, entry| !matches!(entry, Entry::File(file) if gone.contains(file)));
        for file in &mut self.files {
            file.opens = 0;
        }
    }

    /// Names in a directory, without what is hidden.
    pub fn list(&self, directory: &str) -> Vec<(String, Entry)> {
        self.entries
            .iter()
            .filter(|(path, _)| !self.pending(path))
            .filter_map(|(path, entry)| Some((below(path, directory)?, entry)))
            .filter(|(name, _)| !name.contains('/'))
            .map(|(name, entry)| (name.to_owned(), entry.clone()))
            .collect()
    }
}
