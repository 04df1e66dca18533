//! Remote files: datasets of the Hugging Face hub, downloaded once into the cache that Python's `huggingface_hub`
//! also uses, or read by ranges; and files of web servers and object stores, read by ranges.
//!
//! | URI | cargo feature | access |
//! | --- | --- | --- |
//! | `hf://…` | `hub` | downloaded into the cache, or by ranges with [`SourceSpec::stream`](super::SourceSpec::stream) |
//! | `https://…`, `http://…` | `hub` | by ranges |
//! | `s3://…`, `gs://…`, `az://…` | `remote` | by ranges |
//!
//! A build without a feature has functions in its place that fail with an error which names the feature.

#[cfg(feature = "hub")]
mod address;
#[cfg(feature = "hub")]
mod api;
#[cfg(feature = "hub")]
mod cache;
#[cfg(feature = "hub")]
mod client;
#[cfg(feature = "remote")]
mod connector;
#[cfg(feature = "hub")]
mod download;
#[cfg(feature = "hub")]
mod http;
#[cfg(feature = "hub")]
mod links;
#[cfg(feature = "hub")]
mod refusal;
#[cfg(feature = "hub")]
mod ranged;
#[cfg(feature = "hub")]
mod ranks;
mod settings;
#[cfg(feature = "remote")]
mod store;
#[cfg(feature = "hub")]
mod tokenizer;
mod uri;
mod named;
#[cfg(feature = "hub")]
mod web;

#[cfg(test)]
#[cfg(feature = "hub")]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use super::Identity;
use super::Stop;
use super::content::RangeRead;
#[cfg(feature = "hub")]
use crate::base::int::ByteCount;
#[cfg(feature = "hub")]
use crate::base::secrets::shown_uri;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::Observer;

pub use named::{KNOWN_TOKENIZERS, tokenizer_address, tokenizer_path};
pub use settings::{HubSettings, Patience, StoreSettings};

/// A file of a dataset: its path in the cache, whether it exists or not; its name; and its identity.
pub(super) type Fetched = ((PathBuf, String), Identity);

/// The same, with access by ranges if the file is not in the cache.
pub(super) type Streamed = (Fetched, Option<Arc<dyn RangeRead>>);

/// The ways in which a request for remote files can fail.
#[derive(Debug, thiserror::Error)]
enum HubFault {
    #[error("{uri} does not name a dataset")]
    Uri { uri: String },
    #[error("{uri} does not name a repository with a tokenizer")]
    TokenizerUri { uri: String },
    #[error("{address} is not an address of a tokenizer")]
    TokenizerAddress { address: String },
    #[error("{uri} has no tokenizer that can be read: {files}")]
    #[cfg(feature = "hub")]
    NoTokenizer { uri: String, files: String },
    #[error("{uri} has several tokenizers: {files}")]
    #[cfg(feature = "hub")]
    SeveralTokenizers { uri: String, files: String },
    #[error("{path} of {uri} has {bytes}, and the limit of a tokenizer file is {limit}")]
    #[cfg(feature = "hub")]
    TooLong { uri: String, path: String, bytes: ByteCount, limit: ByteCount },
    #[error("{name} is not in the cache {}", path.display())]
    #[cfg(feature = "hub")]
    NoRanks { name: String, path: PathBuf },
    #[error("{name} in the cache differs from the file that OpenAI publishes: {}", path.display())]
    #[cfg(feature = "hub")]
    OtherRanks { name: String, path: PathBuf },
    #[error("{path} of {repository} points outside of the repository")]
    #[cfg(feature = "hub")]
    Outside { repository: String, path: String },
    #[error("{uri} has no files to read")]
    #[cfg(feature = "hub")]
    NoFiles { uri: String },
    #[error("{uri} is not in the cache {}", cache.display())]
    #[cfg(feature = "hub")]
    NotCached { uri: String, cache: PathBuf },
    #[error("{what} cannot be fetched: {problem}")]
    #[cfg(feature = "hub")]
    Refused { what: String, problem: String },
    #[error("{repository} has no usable {what} at {address}")]
    #[cfg(feature = "hub")]
    Answer { repository: String, address: String, what: &'static str },
    #[error("{what} did not arrive completely: {problem}")]
    #[cfg(feature = "hub")]
    Broken { what: String, problem: String },
    #[error("{uri} does not name a place in an object store")]
    #[cfg(feature = "remote")]
    Store { uri: String },
    #[error("{uri} cannot be fetched: this program was built without {what}")]
    #[cfg(not(all(feature = "hub", feature = "remote")))]
    Without { uri: String, what: &'static str },
}

impl HubFault {
    /// The error of this kind.
    fn with(self, kind: ErrorKind) -> Error {
        Error::new(kind, self)
    }

    /// The error that a file that is read by ranges is no longer the one that was listed.
    #[cfg(feature = "hub")]
    fn changed(what: &str) -> Error {
        let problem = "it has changed since it was listed".to_owned();
        let error = HubFault::Broken { what: what.to_owned(), problem }.with(ErrorKind::Network);
        error.with_help("run the same command again; finished work is kept")
    }
}

/// Downloads the files that a URI names, unless the cache has them, and returns their paths. `any_name` says that the
/// format is given, so that files of any name are requested.
///
/// # Errors
/// The URI names no dataset or no files; or the hub cannot be reached, refuses, or sends invalid data.
#[cfg(feature = "hub")]
pub(super) fn fetch(
    uri: &str,
    any_name: bool,
    settings: &HubSettings,
    observer: &dyn Observer,
) -> Result<Vec<Fetched>> {
    let wanted = uri::Wanted { any_name, ..uri::Wanted::parse(uri)? };
    let cache = cache::Cache::of(&wanted, settings);
    if settings.offline {
        cache.files(&wanted, &*settings.noted)
    } else {
        client::fetch(&wanted, &cache, settings, observer)
    }
}

/// Like [`fetch`], without downloading: files that the cache lacks are to be read by ranges.
///
/// # Errors
/// Those of [`fetch`].
#[cfg(feature = "hub")]
pub(super) fn stream(
    uri: &str,
    any_name: bool,
    settings: &HubSettings,
    stop: &Stop,
) -> Result<Vec<Streamed>> {
    let wanted = uri::Wanted { any_name, ..uri::Wanted::parse(uri)? };
    let cache = cache::Cache::of(&wanted, settings);
    if settings.offline {
        return Ok(cache
            .files(&wanted, &*settings.noted)?
            .into_iter()
            .map(|fetched| (fetched, None))
            .collect());
    }
    client::stream(&wanted, &cache, settings, stop)
}

/// Requests the size and version of a file on a web server, which is to be read by ranges.
///
/// # Errors
/// The server cannot be reached, refuses, or does not support ranges.
#[cfg(feature = "hub")]
pub(super) fn look(uri: &str, settings: &HubSettings, stop: &Stop) -> Result<Streamed> {
    if settings.offline {
        let fault = HubFault::Refused { what: shown_uri(uri), problem: "HF_HUB_OFFLINE is set".to_owned() };
        return Err(fault.with(ErrorKind::Network));
    }
    web::look(uri, settings, stop)
}

/// Lists files of an object store, which are to be read by ranges.
///
/// # Errors
/// The store cannot be reached, refuses, or has no such files.
#[cfg(feature = "remote")]
pub(super) fn list(
    uri: &str,
    any_name: bool,
    settings: &StoreSettings,
    patience: &Patience,
    stop: &Stop,
) -> Result<Vec<Streamed>> {
    store::list(uri, any_name, settings, patience, stop)
}

/// Fails, because this build lacks the client.
#[cfg(not(feature = "remote"))]
pub(super) fn list(
    uri: &str,
    _any_name: bool,
    _settings: &StoreSettings,
    _patience: &Patience,
    _stop: &Stop,
) -> Result<Vec<Streamed>> {
    Err(without(uri, "object stores", "build with `--features remote`, or copy the files and name them"))
}

/// Fails, because this build lacks the client.
#[cfg(not(feature = "hub"))]
pub(super) fn look(uri: &str, _settings: &HubSettings, _stop: &Stop) -> Result<Streamed> {
    Err(without(uri, "the hub", WITH_HUB))
}

/// Fails, because this build lacks the hub's client.
#[cfg(not(feature = "hub"))]
pub(super) fn stream(
    uri: &str,
    _any_name: bool,
    _settings: &HubSettings,
    _stop: &Stop,
) -> Result<Vec<Streamed>> {
    uri::Wanted::parse(uri)?;
    Err(without(uri, "the hub", WITH_HUB))
}

/// Fails, because this build lacks the hub's client.
#[cfg(not(feature = "hub"))]
pub(super) fn fetch(
    uri: &str,
    _any_name: bool,
    _settings: &HubSettings,
    _observer: &dyn Observer,
) -> Result<Vec<Fetched>> {
    uri::Wanted::parse(uri)?;
    Err(without(uri, "the hub", WITH_HUB))
}

/// The advice if this build lacks the hub's client.
#[cfg(not(feature = "hub"))]
const WITH_HUB: &str = "build with the feature `hub`, or download the files and name them";

/// The error that this build lacks a client.
#[cfg(not(all(feature = "hub", feature = "remote")))]
fn without(uri: &str, what: &'static str, help: &'static str) -> Error {
    let fault = HubFault::Without { uri: crate::base::secrets::shown_uri(uri), what };
    fault.with(ErrorKind::Usage).with_help(help)
}
