//! The version that files record, with which a program knows whether it can read them.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use crate::error::{Error, ErrorKind, Result};

/// Version of manifests, training records, reports, and of the metadata in files of token ids and counts.
/// Readers refuse later versions; the crate does not read reports.
pub const FORMAT_VERSION: u32 = 1;

#[derive(Debug, Error)]
#[error("{}: format version {found}; this program knows versions up to {FORMAT_VERSION}", path.display())]
struct Later {
    path: PathBuf,
    found: u32,
}

/// Refuses files of later versions. Only the version is read from the JSON, since a later version may differ in
/// everything else.
///
/// # Errors
/// The file has a later version, or the version cannot be read; the latter is the error that `damaged` makes.
pub(crate) fn check(
    path: &Path,
    json: &[u8],
    damaged: impl FnOnce(serde_json::Error) -> Error,
) -> Result<()> {
    #[derive(Deserialize)]
    struct Versioned {
        format_version: u32,
    }
    let Versioned { format_version: found } = serde_json::from_slice(json).map_err(damaged)?;
    if found <= FORMAT_VERSION {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Failed, Later { path: path.to_path_buf(), found })
        .with_help("use the version of tokenmill that wrote it, or a later one"))
}
