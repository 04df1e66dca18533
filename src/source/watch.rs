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

/// Tells whether a file is still the one that was listed: by its size, the time of its last change, and where its links
/// lead. What lies elsewhere tells that itself, by entity tags.
#[derive(Debug)]
pub(super) struct Watch {
    path: PathBuf,
    /// As messages name it.
    pub(super) name: String,
    /// What was found when the file was listed; `None` if it could not be told, or lies elsewhere.
    listed: Option<Stamp>,
}

#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    /// The path without links.
    target: PathBuf,
}

impl Watch {
    /// Notes what a file is now.
    pub(super) fn new(file: &Listed) -> Watch {
        let listed = file.remote.is_none().then(|| stamp(&file.path).ok().flatten()).flatten();
        Watch { path: file.path.clone(), name: file.name.clone(), listed }
    }

    /// Looks at the file again. Opens nothing: where a pipe took its place that would not come back.
    ///
    /// # Errors
    /// It is no longer what was listed, or cannot be looked at.
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

/// The stamp of a regular file; `None` of anything else.
fn stamp(path: &Path) -> io::Result<Option<Stamp>> {
    let found = fs::metadata(path)?;
    let stamp = |target| Stamp { bytes: found.len(), modified: found.modified().ok(), target };
    found.is_file().then(|| fs::canonicalize(path).map(stamp)).transpose()
}

/// Documents of a file, after which it is looked at again: what was emptied while it was read has no error of its own.
pub(super) struct Watched {
    documents: Documents<'static>,
    watch: Option<Arc<Watch>>,
}

impl Watched {
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
