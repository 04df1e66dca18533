//! Files that lie elsewhere: datasets of the Hugging Face hub, downloaded once into the cache that Python's
//! `huggingface_hub` uses too, or read by ranges; and files of any web server or object store, read by ranges.

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
use super::open::Stop;
use super::ranges::Ranged;
#[cfg(feature = "hub")]
use super::secrets::shown_uri;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::Observer;
#[cfg(feature = "hub")]
use crate::units::ByteCount;

pub use named::{KNOWN_TOKENIZERS, tokenizer_address, tokenizer_path};
pub use settings::{HubSettings, Patience, StoreSettings};

/// A file of a dataset: where it is or would be in the cache, its name, and what identifies it.
pub(super) type Fetched = ((PathBuf, String), Identity);

/// The same, and how to read it if it is not in the cache.
pub(super) type Streamed = (Fetched, Option<Arc<dyn Ranged>>);

#[derive(Debug, thiserror::Error)]
enum HubFault {
    #[error("{uri} does not name a dataset")]
    Uri { uri: String },
    #[error("{uri} does not name a repository with a tokenizer")]
    TokenizerUri { uri: String },
    #[error("{address} is no address of a tokenizer")]
    TokenizerAddress { address: String },
    #[error("{uri} has no tokenizer that can be read: {files}")]
    #[cfg(feature = "hub")]
    NoTokenizer { uri: String, files: String },
    #[error("{uri} has several tokenizers: {files}")]
    #[cfg(feature = "hub")]
    SeveralTokenizers { uri: String, files: String },
    #[error("{path} of {uri} has {bytes}, and a file of a tokenizer may have {limit} at most")]
    #[cfg(feature = "hub")]
    TooLong { uri: String, path: String, bytes: ByteCount, limit: ByteCount },
    #[error("{name} is not in the cache {}", path.display())]
    #[cfg(feature = "hub")]
    NoRanks { name: String, path: PathBuf },
    #[error("{name} in the cache is another file than OpenAI publishes: {}", path.display())]
    #[cfg(feature = "hub")]
    OtherRanks { name: String, path: PathBuf },
    #[error("{path} of {repository} leads out of the repository")]
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
    #[error("{what} did not arrive whole: {problem}")]
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
    fn with(self, kind: ErrorKind) -> Error {
        Error::new(kind, self)
    }

    /// A file that is read by ranges is no longer the one that was listed.
    #[cfg(feature = "hub")]
    fn changed(what: &str) -> Error {
        let problem = "it has changed since it was listed".to_owned();
        let error = HubFault::Broken { what: what.to_owned(), problem }.with(ErrorKind::Network);
        error.with_help("run the same command again; what is finished is kept")
    }
}

/// Downloads the files that a URI stands for, unless the cache has them, and says where they are. Files of `any_name` are
/// wanted where their format is given.
///
/// # Errors
/// The URI names no dataset or no files; the hub cannot be reached, refuses, or sends something wrong.
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

/// The same without downloading: what the cache lacks is to be read by ranges.
///
/// # Errors
/// As of [`fetch`].
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

/// Looks at a file of any server, to be read by ranges.
///
/// # Errors
/// The server cannot be reached, refuses, or gives no ranges.
#[cfg(feature = "hub")]
pub(super) fn look(uri: &str, settings: &HubSettings, stop: &Stop) -> Result<Streamed> {
    if settings.offline {
        let fault = HubFault::Refused { what: shown_uri(uri), problem: "HF_HUB_OFFLINE is set".to_owned() };
        return Err(fault.with(ErrorKind::Network));
    }
    web::look(uri, settings, stop)
}

/// Looks at files of an object store, to be read by ranges.
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

/// Refuses: the client is not part of this build.
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

/// Refuses: the client is not part of this build.
#[cfg(not(feature = "hub"))]
pub(super) fn look(uri: &str, _settings: &HubSettings, _stop: &Stop) -> Result<Streamed> {
    Err(without(uri, "the hub", WITH_HUB))
}

/// Refuses: the hub's client is not part of this build.
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

/// Refuses: the hub's client is not part of this build.
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

#[cfg(not(feature = "hub"))]
const WITH_HUB: &str = "build with the feature `hub`, or download the files and name them";

/// The error where a client is not part of this build.
#[cfg(not(all(feature = "hub", feature = "remote")))]
fn without(uri: &str, what: &'static str, help: &'static str) -> Error {
    let fault = HubFault::Without { uri: super::secrets::shown_uri(uri), what };
    fault.with(ErrorKind::Usage).with_help(help)
}
