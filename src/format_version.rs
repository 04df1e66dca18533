//! The version of what files say of themselves, by which a program knows which it can read.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use crate::error::{Error, ErrorKind, Result};

/// Version of manifests, of records of training, of reports, and of what files of token ids and of counts say of themselves.
/// Readers refuse later ones; nothing here reads reports.
pub const FORMAT_VERSION: u32 = 1;

#[derive(Debug, Error)]
#[error("{}: format version {found}; this program knows versions up to {FORMAT_VERSION}", path.display())]
struct Later {
    path: PathBuf,
    found: u32,
}

/// Refuses what a later version of the program wrote. Of the JSON nothing but the version is looked at, since a later one
/// may differ in all else.
///
/// # Errors
/// It is of a later version, or `damaged` if that cannot be told.
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
