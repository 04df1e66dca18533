//! Files with identities that are known without reading them: the hub and most servers send entity tags.
//!
//! Everything but the identity is delegated to [`Files`].

use std::sync::Arc;

use arrow_schema::SchemaRef;

use super::files::Files;
use super::listing::Listed;
use super::parquet;
use super::ranges::{InOrder, Ranged};
use super::{Documents, Format, Identity, Source, Unit};
use crate::base::digest;
use crate::base::int::declared_sum;
use crate::error::{Error, Result};

/// A source of files that have known identities, like files of a hub.
pub(super) struct Identified {
    /// The files, which do everything else.
    pub(super) files: Files,
    /// The identity of each file.
    pub(super) identities: Vec<Identity>,
}

impl Source for Identified {
    fn units(&self) -> &[Unit] {
        self.files.units()
    }

    fn columns(&self) -> Option<SchemaRef> {
        self.files.columns()
    }

    fn format(&self) -> Option<Format> {
        self.files.format()
    }

    fn identity(&self, unit: usize) -> Result<Identity> {
        let owner = self.files.owners[unit];
        let (file, known) = (&self.files.files[owner], &self.identities[owner]);
        match (known, &file.remote) {
            // Only the size is known, so different content of the same size would not be noticed.
            (Identity::Web { etag, .. }, Some(remote)) if etag.is_empty() => by_content(file, remote),
            _ => Ok(known.clone()),
        }
    }

    fn identified_with(&self, unit: usize) -> usize {
        self.files.identified_with(unit)
    }

    fn changed(&self) -> Option<&str> {
        self.files.changed()
    }

    fn is_plain(&self) -> bool {
        self.files.is_plain()
    }

    fn bytes_elsewhere(&self) -> u64 {
        let elsewhere = self.files.files.iter().filter_map(|file| file.remote.as_ref());
        declared_sum(elsewhere.map(|remote| Some(remote.bytes()))).unwrap_or(0)
    }

    fn read(&self, unit: usize) -> Result<Documents<'static>> {
        self.files.read(unit)
    }

    fn left_out(&self, unit: usize) -> u64 {
        self.files.left_out(unit)
    }

    fn taken(&self, unit: usize, left_out: u64) {
        self.files.taken(unit, left_out);
    }
}

/// Identifies a remote file by reading it.
///
/// # Errors
/// The file cannot be read.
fn by_content(file: &Listed, remote: &Arc<dyn Ranged>) -> Result<Identity> {
    if file.format == Format::Parquet {
        return parquet::identity(file);
    }
    let sha256 = digest::sha256_of(InOrder::new(Arc::clone(remote)));
    let sha256 = sha256.map_err(|cause| Error::io("read", &file.name, cause))?;
    Ok(Identity::Content { bytes: remote.bytes(), sha256 })
}
