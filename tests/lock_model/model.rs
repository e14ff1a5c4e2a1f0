//! What must come of each operation, written as simply as possible: lists, and one entry per byte.

use std::collections::BTreeMap;
use std::ops::Range;

/// As many bytes as range locks are tried on.
pub const BYTES: usize = 6;

/// Why something is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum No {
    NotFound,
    Exists,
    Shared,
    Pending,
    Locked,
    CannotDelete,
    Nameless,
}

#[derive(Clone, Debug)]
struct Open {
    file: usize,
    id: usize,
    access: u8,
    share: u8,
}

#[derive(Clone, Debug, Default)]
struct File {
    pending: bool,
    /// Who has which byte: by key; through which open, and whether exclusively.
    locks: BTreeMap<(u64, usize), (usize, bool)>,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    names: BTreeMap<&'static str, usize>,
    files: Vec<File>,
    opens: Vec<Open>,
    next: usize,
}

impl Model {
    fn fits(&self, file: usize, access: u8, share: u8, except: Option<usize>) -> bool {
        self.opens.iter().filter(|open| open.file == file && Some(open.id) != except).all(|open| {
            access == 0 || open.access == 0 || (access & !open.share == 0 && open.access & !share == 0)
        })
    }

    fn count(&self, file: usize) -> usize {
        self.opens.iter().filter(|open| open.file == file).count()
    }

    pub fn look_up(&self, name: &str) -> Result<(), No> {
        match self.names.get(name) {
            None => Err(No::NotFound),
            Some(file) if self.files[*file].pending => Err(No::Pending),
            Some(_) => Ok(()),
        }
    }

    pub fn create(&mut self, name: &'static str) -> Result<(), No> {
        match self.look_up(name) {
            Ok(()) => Err(No::Exists),
            Err(No::NotFound) => {
                self.files.push(File::default());
                self.names.insert(name, self.files.len() - 1);
                self.add(self.files.len() - 1, 3);
                Ok(())
            }
            Err(no) => Err(no),
        }
    }

    fn add(&mut self, file: usize, access: u8) {
        self.next += 1;
        self.opens.push(Open { file, id: self.next, access, share: 7 });
    }

    pub fn open(&mut self, name: &str, access: u8) -> Result<(), No> {
        self.look_up(name)?;
        let file = self.names[name];
        if !self.fits(file, access, 7, None) {
            return Err(No::Shared);
        }
        self.add(file, access);
        Ok(())
    }

    pub fn data_access(&self, n: usize) -> u8 {
        self.opens[n].access & 3
    }

    pub fn claim(&mut self, n: usize, access: u8, share: u8) -> Result<(), No> {
        let Open { file, id, .. } = self.opens[n];
        if !self.fits(file, access, share, Some(id)) {
            return Err(No::Shared);
        }
        (self.opens[n].access, self.opens[n].share) = (access, share);
        Ok(())
    }

    pub fn lock(
        &mut self,
        n: usize,
        key: u64,
        bytes: Range<usize>,
        exclusive: Option<bool>,
    ) -> Result<(), No> {
        let Open { file, id, .. } = self.opens[n];
        let locks = &mut self.files[file].locks;
        let Some(exclusive) = exclusive else {
            locks.retain(|(by, at), _| *by != key || !bytes.contains(at));
            return Ok(());
        };
        // The same open and process, or the same key: keys and processes are the same here.
        let in_the_way = |((by, at), (_, other)): (&(u64, usize), &(usize, bool))| {
            *by != key && bytes.contains(at) && (exclusive || *other)
        };
        if locks.iter().any(in_the_way) {
            return Err(No::Locked);
        }
        for at in bytes {
            locks.insert((key, at), (id, exclusive));
        }
        Ok(())
    }

    pub fn held(&self, n: usize, key: u64, byte: usize) -> Option<bool> {
        self.files[self.opens[n].file].locks.get(&(key, byte)).map(|(_, exclusive)| *exclusive)
    }

    pub fn remove(&mut self, name: &str) -> Result<(), No> {
        self.look_up(name)?;
        let file = self.names[name];
        if !self.fits(file, 4, 7, None) {
            return Err(No::Shared);
        }
        if self.count(file) == 0 {
            self.names.remove(name);
        } else {
            self.files[file].pending = true;
        }
        Ok(())
    }

    pub fn rename(&mut self, from: &str, to: &'static str) -> Result<(), No> {
        // What is pending is noticed first.
        if [from, to].iter().any(|name| self.look_up(name) == Err(No::Pending)) {
            return Err(No::Pending);
        }
        self.look_up(from)?;
        if from == to {
            return Ok(());
        }
        let file = self.names[from];
        let fits_target = self.names.get(to).is_none_or(|target| self.fits(*target, 4, 7, None));
        if !self.fits(file, 4, 7, None) || !fits_target {
            return Err(No::Shared);
        }
        self.names.remove(from);
        self.names.insert(to, file);
        Ok(())
    }

    pub fn has_name(&self, n: usize) -> bool {
        self.names.values().any(|file| *file == self.opens[n].file)
    }

    pub fn mark(&mut self, n: usize, pending: bool) -> Result<(), No> {
        if self.opens[n].access & 4 == 0 {
            return Err(No::CannotDelete);
        }
        if !self.has_name(n) {
            return Err(No::Nameless);
        }
        self.files[self.opens[n].file].pending = pending;
        Ok(())
    }

    pub fn close(&mut self, n: usize) {
        let Open { file, id, .. } = self.opens.remove(n);
        self.files[file].locks.retain(|_, (by, _)| *by != id);
        if self.files[file].pending && self.count(file) == 0 {
            self.names.retain(|_, named| *named != file);
        }
    }

    /// Access, share mode, delete pending, opens.
    pub fn state(&self, n: usize) -> (u8, u8, bool, usize) {
        let Open { file, access, share, .. } = self.opens[n];
        (access, share, self.files[file].pending, self.count(file))
    }

    /// Whether an open of the file is one that takes the lease: it writes, and lets nobody else write.
    pub fn leased(&self, n: usize) -> bool {
        let file = self.opens[n].file;
        self.opens.iter().any(|o| o.file == file && o.access & 2 != 0 && o.share & 2 == 0)
    }
}
