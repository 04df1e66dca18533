//! The requests to a destination, which are the same for every store.

use std::path::Path;

use crate::error::Result;
use crate::observer::Observer;
use crate::sink::HashedFile;

/// An object as the store describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    /// Its name, relative to the destination.
    pub(super) name: String,
    /// Size in bytes.
    pub(super) bytes: u64,
    /// Its entity tag, or the time of its last change if the store gives no tag. It changes with the content.
    pub(super) version: String,
}

/// The objects of a destination. Names are relative to it. Every request is repeated after temporary failures, and ends
/// soon if the run is asked to stop.
///
/// All functions fail if the store refuses, cannot be reached, or the run is asked to stop.
pub(super) trait Objects: Send + Sync {
    /// The objects in a folder, without those of folders within it. The folder is empty for the destination itself.
    fn list(&self, folder: &str) -> Result<Vec<Object>>;

    /// Describes an object; `None` if there is none of this name.
    fn find(&self, name: &str) -> Result<Option<Object>>;

    /// The first `limit` bytes of an object; `None` if there is none of this name.
    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>>;

    /// Uploads a local file. Its size and hash must be those of `file`. `begun` receives the id of an upload in parts
    /// before any part is sent. The object replaces an earlier one at once when all of it has arrived.
    ///
    /// Fails also if the file differs, and then nothing appears.
    fn write(
        &self,
        file: &HashedFile,
        path: &Path,
        begun: &mut dyn FnMut(&str) -> Result<()>,
        observer: &dyn Observer,
    ) -> Result<Object>;

    /// Begins an upload in parts, which shows whether the run may write. Returns its id.
    fn begin(&self, name: &str) -> Result<String>;

    /// Ends an unfinished upload in parts, so that its parts take no more space. An unknown one is no error.
    fn abort(&self, name: &str, upload: &str) -> Result<()>;

    /// Removes an object. A missing one is no error.
    fn remove(&self, name: &str) -> Result<()>;
}
