//! Detects local files that change between listing and reading, or while they are read.
//!
//! Units are lists of byte ranges and row groups, which would be wrong for a changed file. So a file is checked
//! before each unit, after its last document, and when an error occurs: an error in a changed file is not bad input.

use std::fs;
use std::io;
use std::io::ErrorKind::{NotADirectory, NotFound};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::fault::changed;
use super::listing::Listed;
use super::{Batch, Documents};
use crate::error::{Error, Result};

/// Detects whether a local file is still the one that was listed, by its size, modification time and the target of
/// its links. Remote files have entity tags for this.
#[derive(Debug)]
pub(super) struct Watch {
    /// The path that was listed, which may be a link.
    path: PathBuf,
    /// The name in messages.
    pub(super) name: String,
    /// The state when the file was listed; `None` if it could not be determined or the file is remote.
    listed: Option<Stamp>,
}

/// The state of a file that shows changes.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    /// Size in bytes.
    bytes: u64,
    /// Modification time, if the file system has one.
    modified: Option<SystemTime>,
    /// The path with links resolved.
    target: PathBuf,
}

impl Watch {
    /// Records the current state of a file.
    pub(super) fn new(file: &Listed) -> Watch {
        let listed = file.remote.is_none().then(|| stamp(&file.path).ok().flatten()).flatten();
        Watch { path: file.path.clone(), name: file.name.clone(), listed }
    }

    /// Compares the file with its recorded state. Does not open it: if a pipe has replaced it, opening would block.
    ///
    /// # Errors
    /// The file is no longer the one that was listed, or cannot be examined.
    pub(super) fn check(&self) -> Result<()> {
        let Some(listed) = &self.listed else { return Ok(()) };
        match stamp(&self.path) {
            Ok(now) if now.as_ref() == Some(listed) => Ok(()),
            Ok(_) => Err(changed(&self.name)),
            Err(cause) if matches!(cause.kind(), NotFound | NotADirectory) => Err(changed(&self.name)),
            Err(cause) => Err(Error::io("read", &self.path, cause)),
        }
    }
}

/// The state of a regular file; `None` for anything else.
///
/// # Errors
/// The path does not exist or cannot be examined.
fn stamp(path: &Path) -> io::Result<Option<Stamp>> {
    let found = fs::metadata(path)?;
    let stamp = |target| Stamp { bytes: found.len(), modified: found.modified().ok(), target };
    found.is_file().then(|| fs::canonicalize(path).map(stamp)).transpose()
}

/// Documents of a file, which is checked again after the last one: a file that was truncated while it was read gives
/// no error of its own.
pub(super) struct Watched {
    documents: Documents<'static>,
    watch: Option<Arc<Watch>>,
}

impl Watched {
    /// Gives `documents`, then checks the file.
    pub(super) fn new(documents: Documents<'static>, watch: Arc<Watch>) -> Watched {
        Watched { documents, watch: Some(watch) }
    }
}

impl Iterator for Watched {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        match self.documents.next() {
            None => self.watch.take().and_then(|watch| watch.check().err()).map(Err),
            batch => batch,
        }
    }
}
