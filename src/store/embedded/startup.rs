//! Taking possession of a data directory: whose it is, which format it has, how it was left.
//!
//! ```text
//! FOLDER/FORMAT     one line that says what this is; FORMAT.new while the store is being made
//!        owner      held by the process that has the store open; holds its pid
//!        ballast    room for deletes on a full disk
//!        clean      there only if the last process left in order
//!        kv/        the database
//!        content/   up to 256 folders of content files
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use crate::store::{StoreError, crash_point};

use super::kv::{Kv, KvError, KvOptions, TABLE_BYTES};
use super::options::EmbeddedOptions;

const FORMAT_PREFIX: &str = "leasefs embedded store, format ";
const FORMAT_VERSION: &str = "2";
const FORMAT_FILE: &str = "FORMAT";
const FORMAT_NEW_FILE: &str = "FORMAT.new";
const OWNER_FILE: &str = "owner";
const CLEAN_FILE: &str = "clean";
const KV_FOLDER: &str = "kv";
const CONTENT_FOLDER: &str = "content";

/// What an empty directory may contain.
const HARMLESS: [&str; 2] = [OWNER_FILE, "lost+found"];

/// Why a data directory was not opened. Each says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Something else is in the directory.
    #[error(
        "{path} is not empty and holds no leasefs store; choose an empty directory or one made by leasefs"
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// A store of another version.
    #[error(
        "{path} holds a leasefs store of format {found}, and this program knows format {FORMAT_VERSION}; \
         use the version of leasefs that made it"
    )]
    Version {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: String,
    },
    /// Another process has it.
    #[error("{path} is in use by process {pid}; stop that process or choose another directory")]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process.
        pid: u32,
    },
    /// The database cannot be read.
    #[error("the store in {path} is damaged ({detail}); restore the directory from a backup")]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// What the database said.
        detail: String,
    },
    /// No room to open it.
    #[error("there is no room on the disk of {path} to open the store; free some space and try again")]
    Full {
        /// The directory.
        path: PathBuf,
    },
    /// The system refused something.
    #[error("cannot {action} {path}: {source}; check the path and its permissions")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| match StoreError::io(action, source) {
        StoreError::Io { source, .. } => OpenError::Io { action, path, source },
        _ => OpenError::Full { path },
    }
}

/// A data directory that is ours until dropped.
pub(super) struct Claim {
    folder: PathBuf,
    made: bool,
    after_crash: bool,
    _owner: Flock<File>,
}

impl Claim {
    /// Takes the directory, making a store in it if it is empty.
    pub(super) fn take(folder: &Path) -> Result<Self, OpenError> {
        fs::create_dir_all(folder).map_err(failed("create the directory", folder))?;
        read_format(folder)?;
        let owner = take_owner(folder)?;
        // Again, now that nobody else can be making it.
        let made = read_format(folder)? == Found::Store;
        let content = folder.join(CONTENT_FOLDER);
        if made {
            for path in [folder.join(KV_FOLDER), content.clone()] {
                if !path.is_dir() {
                    let detail = format!("the directory {} is missing", path.display());
                    return Err(OpenError::Damaged { path: folder.to_owned(), detail });
                }
            }
        } else {
            begin_making(folder)?;
        }
        let clean = folder.join(CLEAN_FILE);
        let was_clean = match fs::remove_file(&clean) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(failed("remove", &clean)(error)),
        };
        // From here on a crash must look like one.
        sync_folder(folder).and_then(|()| sync_folder(&content)).map_err(failed("sync", folder))?;
        Ok(Self { folder: folder.to_owned(), made, after_crash: made && !was_clean, _owner: owner })
    }

    /// Whether the last process left without closing the store.
    pub(super) fn after_crash(&self) -> bool {
        self.after_crash
    }

    pub(super) fn content_folder(&self) -> PathBuf {
        self.folder.join(CONTENT_FOLDER)
    }

    /// Opens the database.
    pub(super) fn open_kv(&self, options: &EmbeddedOptions) -> Result<Kv, OpenError> {
        let options = KvOptions {
            cache: options.cache_bytes,
            memtable: options.memtable_bytes,
            table: TABLE_BYTES,
            after_crash: self.after_crash,
        };
        let path = self.folder.join(KV_FOLDER);
        // The library panics on some kinds of damage.
        let opened = catch_unwind(AssertUnwindSafe(|| Kv::open(&path, options)));
        let error = match opened {
            Ok(Ok(kv)) => {
                if !self.made {
                    end_making(&self.folder)?;
                }
                return Ok(kv);
            }
            Ok(Err(error)) => error,
            Err(_) => KvError::Damaged("the database could not be understood".into()),
        };
        let path = self.folder.clone();
        Err(match error {
            KvError::Full => OpenError::Full { path },
            KvError::InUse => OpenError::InUse { path, pid: 0 },
            KvError::Damaged(detail) => OpenError::Damaged { path, detail },
            KvError::Io(source) => OpenError::Io { action: "open the database in", path, source },
        })
    }

    /// The error for a record that cannot be read at the start.
    pub(super) fn damaged(&self, error: &StoreError) -> OpenError {
        OpenError::Damaged { path: self.folder.clone(), detail: error.to_string() }
    }

    /// Everything is on the disk and nothing is left over.
    pub(super) fn leave_clean(self) {
        let path = self.folder.join(CLEAN_FILE);
        let written =
            File::create(&path).and_then(|file| file.sync_all()).and_then(|()| sync_folder(&self.folder));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "the next start will look for leftovers");
        }
    }
}

/// What is in a directory that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Nothing, or a store whose making was interrupted.
    Nothing,
    /// A store.
    Store,
}

fn read_format(folder: &Path) -> Result<Found, OpenError> {
    if has_format(folder, FORMAT_FILE)? {
        return Ok(Found::Store);
    }
    if has_format(folder, FORMAT_NEW_FILE)? {
        return Ok(Found::Nothing);
    }
    for entry in fs::read_dir(folder).map_err(failed("read the directory", folder))? {
        let entry = entry.map_err(failed("read the directory", folder))?;
        // A format file without text is the first step of an interrupted making.
        if entry.file_name() != FORMAT_NEW_FILE && !HARMLESS.iter().any(|name| entry.file_name() == *name) {
            return Err(OpenError::Foreign { path: folder.to_owned() });
        }
    }
    Ok(Found::Nothing)
}

fn has_format(folder: &Path, name: &str) -> Result<bool, OpenError> {
    let path = folder.join(name);
    let text = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed("read", &path)(error)),
    };
    match text.trim_end().strip_prefix(FORMAT_PREFIX) {
        Some(FORMAT_VERSION) => Ok(true),
        Some(found) => Err(OpenError::Version { path: folder.to_owned(), found: found.to_owned() }),
        None if text.is_empty() && name == FORMAT_NEW_FILE => Ok(false),
        None => Err(OpenError::Foreign { path: folder.to_owned() }),
    }
}

fn take_owner(folder: &Path) -> Result<Flock<File>, OpenError> {
    let path = folder.join(OWNER_FILE);
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let file = options.map_err(failed("open", &path))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut owner) => {
            let write = |file: &mut File| {
                file.set_len(0)?;
                file.write_all(std::process::id().to_string().as_bytes())
            };
            write(&mut owner).map_err(failed("write", &path))?;
            Ok(owner)
        }
        Err((mut file, nix::errno::Errno::EWOULDBLOCK)) => {
            let mut text = String::new();
            let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok()).unwrap_or(0);
            Err(OpenError::InUse { path: folder.to_owned(), pid })
        }
        Err((_, errno)) => Err(failed("lock", &path)(errno.into())),
    }
}

/// Says that a store is being made here, so that what an interruption leaves is known to be ours.
fn begin_making(folder: &Path) -> Result<(), OpenError> {
    let (new, content) = (folder.join(FORMAT_NEW_FILE), folder.join(CONTENT_FOLDER));
    let write = || -> io::Result<()> {
        let mut file = File::create(&new)?;
        writeln!(file, "{FORMAT_PREFIX}{FORMAT_VERSION}")?;
        file.sync_all()?;
        sync_folder(folder)
    };
    write().map_err(failed("write", &new))?;
    crash_point("startup_after_format_new");
    fs::create_dir_all(&content).map_err(failed("create the directory", &content))
}

/// Says that the store is whole.
fn end_making(folder: &Path) -> Result<(), OpenError> {
    crash_point("startup_after_kv");
    let (new, path) = (folder.join(FORMAT_NEW_FILE), folder.join(FORMAT_FILE));
    fs::rename(new, &path).and_then(|()| sync_folder(folder)).map_err(failed("write", &path))
}

/// Makes the entries of a folder survive a power loss.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
