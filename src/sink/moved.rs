//! Data files that leave the output folder as soon as they are complete.
//!
//! A run with a destination elsewhere writes in a local folder as always, but each complete data file moves on, so that
//! the folder never holds more than two. This stage knows of that place only [`FileStore`].

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::{self, Scope, ScopedJoinHandle};

use super::layout::split_of;
use super::manifest::{FileStore, OutputFile};
use super::state_folder::state_of;
use crate::base::pools::lock;
use crate::error::{Error, Result};

/// Moves data files on a thread of their own, so that the next file is encoded meanwhile. One file moves at a time:
/// the next one waits for it, so the folder holds two data files at most.
pub(crate) struct InBackground<'scope, 'env> {
    /// Ends after the thread.
    scope: &'scope Scope<'scope, 'env>,
    /// Where files go.
    store: &'scope dyn FileStore,
    /// The file that is moving.
    moving: Mutex<Option<ScopedJoinHandle<'scope, Result<()>>>>,
}

impl<'scope, 'env> InBackground<'scope, 'env> {
    /// Moves nothing yet.
    pub(crate) fn new(scope: &'scope Scope<'scope, 'env>, store: &'scope dyn FileStore) -> Self {
        InBackground { scope, store, moving: Mutex::new(None) }
    }
}

impl FileStore for InBackground<'_, '_> {
    fn take(&self, file: &OutputFile) -> Result<()> {
        self.settle()?;
        let (store, file) = (self.store, file.clone());
        let thread = thread::Builder::new().spawn_scoped(self.scope, move || store.take(&file));
        *lock(&self.moving) = Some(thread.map_err(|cause| Error::io("start", "a thread", cause))?);
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        let moving = lock(&self.moving).take();
        let Some(moving) = moving else { return Ok(()) };
        moving.join().unwrap_or_else(|_| Err(Error::failed("moving a data file ended in a panic")))
    }

    fn holds(&self, file: &OutputFile) -> Result<bool> {
        self.store.holds(file)
    }

    fn keep_only(&self, keep: &dyn Fn(&str) -> bool) -> Result<()> {
        self.store.keep_only(keep)
    }
}

/// The name of a data file without rows, in the state folder of its split. It has the columns and the declaration of
/// the files that have moved.
const EMPTY_FILE: &str = "empty.parquet";

/// The path of the data file without rows of a split, in the state folder `state`.
pub(super) fn empty_file(state: &Path) -> PathBuf {
    state.join(EMPTY_FILE)
}

/// The path of a file with the columns and the declaration of a data file: the file itself, or the one without rows in
/// its place if it has moved.
pub(super) fn with_columns_of(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    let empty = empty_file(&state_of(folder, Some(split_of(name))));
    if !path.exists() && empty.exists() { empty } else { path }
}
