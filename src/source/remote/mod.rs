//! Remote files: datasets of the Hugging Face hub, downloaded once into the cache that Python's `huggingface_hub`
//! also uses, or read by ranges; and files of web servers and object stores, read by ranges.
//!
//! | URI | access |
//! | --- | --- |
//! | `hf://…` | downloaded into the cache, or by ranges with [`SourceSpec::stream`](super::SourceSpec::stream) |
//! | `https://…`, `http://…` | by ranges |
//! | `s3://…`, `gs://…`, `az://…` | by ranges |
//!
//! [`open`] finds the files of a URI, and [`fetch_chosen`] downloads some files of a repository. The client of
//! [`network`](crate::network) sends all requests, also those to object stores, which [`store()`] opens.
//!
//! In a build without the feature `hub`, `open` fails with an error that names the feature.

#[cfg(feature = "hub")]
mod cache;
#[cfg(feature = "hub")]
mod file;
#[cfg(feature = "hub")]
mod hub;
#[cfg(feature = "hub")]
mod repository;
#[cfg(feature = "hub")]
mod store;

#[cfg(test)]
#[cfg(feature = "hub")]
pub(super) mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use super::content::RangeRead;
use super::{Identity, Stop};
#[cfg(feature = "hub")]
use crate::error::ErrorKind;
use crate::error::{Error, Result};
use crate::network::{HubSettings, StoreSettings};
use crate::observer::Observer;

#[cfg(feature = "hub")]
pub(super) use cache::Cache;
#[cfg(feature = "hub")]
pub(super) use file::download;
#[cfg(feature = "hub")]
pub(crate) use file::{object_version, refused_by_store};
#[cfg(feature = "hub")]
pub(super) use hub::fetch_chosen;
#[cfg(feature = "hub")]
pub(super) use repository::{RepoFile, RepoKind, RepoRequest};
#[cfg(feature = "hub")]
pub(crate) use store::{WritableStore, store};

/// A file of a dataset: its path in the cache, whether it exists or not; its name; and its identity.
pub(super) type Fetched = ((PathBuf, String), Identity);

/// The same, with access by ranges if the file is not in the cache.
pub(super) type Streamed = (Fetched, Option<Arc<dyn RangeRead>>);

/// The ways in which a request for remote files can fail.
#[derive(Debug, thiserror::Error)]
#[cfg(feature = "hub")]
enum RemoteError {
    /// The URI of a dataset does not have the required form.
    #[error("{uri} does not name a dataset")]
    Uri { uri: String },
    /// The same for the URI of a repository with a tokenizer.
    #[error("{uri} does not name a repository with a tokenizer")]
    TokenizerUri { uri: String },
    /// The hub lists a path that would lead out of the folder of the repository.
    #[error("{path} of {repository} points outside of the repository")]
    Outside { repository: String, path: String },
    /// The repository exists, but none of its files is requested.
    #[error("{uri} has no files to read")]
    NoFiles { uri: String },
    /// The network must not be used, and the cache lacks the revision or a file.
    #[error("{uri} is not in the cache {}", cache.display())]
    NotCached { uri: String, cache: PathBuf },
    /// The hub's answer is not of the expected form, or exceeds a limit.
    #[error("{repository} has no usable {what} at {address}")]
    Answer { repository: String, address: String, what: &'static str },
    /// A file has changed since it was listed, or other bytes arrived than were listed.
    #[error("{what} did not arrive completely: {problem}")]
    Broken { what: String, problem: String },
    /// The URI of an object store has no bucket.
    #[error("{uri} does not name a place in an object store")]
    Store { uri: String },
}

#[cfg(feature = "hub")]
impl RemoteError {
    /// The error of this kind.
    fn with(self, kind: ErrorKind) -> Error {
        Error::new(kind, self)
    }

    /// The error that a file is no longer the one that was listed.
    fn changed(what: &str) -> Error {
        let problem = "it has changed since it was listed".to_owned();
        let error = RemoteError::Broken { what: what.to_owned(), problem }.with(ErrorKind::Network);
        error.with_help("run the same command again; finished work is kept")
    }
}

/// Whether a URI names files elsewhere, which [`open`] finds.
pub(super) fn is_remote(uri: &str) -> bool {
    ["hf://", "https://", "http://", "s3://", "gs://", "az://"].iter().any(|scheme| uri.starts_with(scheme))
}

/// Finds the files that a URI names. With `download`, files of the hub that its cache lacks are downloaded; otherwise
/// they are to be read by ranges, like those of other servers. `any_name` says that the format is given, so that files
/// of any name are requested.
///
/// All files of the hub are of one commit. If the hub is not to be asked, only its cache is searched, and the network
/// is never used for files of the hub and of web servers. Files that were complete before an error stay in the cache.
/// `stop` interrupts everything but downloads, which `observer` can stop.
///
/// # Errors
/// The URI names no dataset, place or files; or the server cannot be reached, refuses, or sends invalid data.
#[cfg(feature = "hub")]
pub(super) fn open(
    uri: &str,
    any_name: bool,
    download: bool,
    settings: &HubSettings,
    stores: &StoreSettings,
    observer: &dyn Observer,
    stop: &Stop,
) -> Result<Vec<Streamed>> {
    if uri.starts_with("hf://") {
        let wanted = RepoRequest { any_name, ..RepoRequest::parse(uri)? };
        if download {
            let fetched = hub::fetch(&wanted, settings, observer)?;
            return Ok(fetched.into_iter().map(|file| (file, None)).collect());
        }
        return hub::stream(&wanted, settings, stop);
    }
    if uri.starts_with("http") {
        return Ok(vec![file::open(uri, settings, stop)?]);
    }
    store::list(uri, any_name, stores, settings, stop)
}

/// Fails, because this build lacks the client.
#[cfg(not(feature = "hub"))]
pub(super) fn open(
    uri: &str,
    _any_name: bool,
    _download: bool,
    _settings: &HubSettings,
    _stores: &StoreSettings,
    _observer: &dyn Observer,
    _stop: &Stop,
) -> Result<Vec<Streamed>> {
    Err(without(uri))
}

/// The error that this build lacks a client.
#[cfg(not(feature = "hub"))]
pub(super) fn without(uri: &str) -> Error {
    let uri = crate::base::secrets::shown_uri(uri);
    Error::usage(format!("{uri} cannot be fetched: this program was built without the feature `hub`"))
        .with_help("build it with that feature, or download the files and name them")
}
