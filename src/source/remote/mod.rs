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
//!
//! The library reads no environment variables itself. [`HubSettings`] and [`StoreSettings`] hold the values that other
//! tools take from them.

#[cfg(feature = "hub")]
mod cache;
#[cfg(feature = "hub")]
mod http;
#[cfg(feature = "hub")]
mod hub;
mod named;
mod repository;
#[cfg(feature = "remote")]
mod store;
#[cfg(feature = "hub")]
mod tokenizer;

#[cfg(test)]
#[cfg(feature = "hub")]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs};

use super::content::RangeRead;
use super::{Identity, Note, Stop};
#[cfg(feature = "hub")]
use crate::base::int::ByteCount;
#[cfg(feature = "hub")]
use crate::base::secrets::shown_uri;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::Observer;

pub use named::{KNOWN_TOKENIZERS, tokenizer_address, tokenizer_path};

/// A file of a dataset: its path in the cache, whether it exists or not; its name; and its identity.
pub(super) type Fetched = ((PathBuf, String), Identity);

/// The same, with access by ranges if the file is not in the cache.
pub(super) type Streamed = (Fetched, Option<Arc<dyn RangeRead>>);

/// The ways in which a request for remote files can fail.
#[derive(Debug, thiserror::Error)]
enum RemoteError {
    /// The URI of a dataset does not have the required form.
    #[error("{uri} does not name a dataset")]
    Uri { uri: String },
    /// The same for the URI of a repository with a tokenizer.
    #[error("{uri} does not name a repository with a tokenizer")]
    TokenizerUri { uri: String },
    /// An address with a scheme is neither `hf://` nor that of a known rank file.
    #[error("{address} is not an address of a tokenizer")]
    TokenizerAddress { address: String },
    /// No file of the repository, or of the folder in it, is a tokenizer. `files` is part of the message.
    #[error("{uri} has no tokenizer that can be read: {files}")]
    #[cfg(feature = "hub")]
    NoTokenizer { uri: String, files: String },
    /// The user must name one of these files.
    #[error("{uri} has several tokenizers: {files}")]
    #[cfg(feature = "hub")]
    SeveralTokenizers { uri: String, files: String },
    /// A file of a tokenizer is too large. It is not downloaded.
    #[error("{path} of {uri} has {bytes}, and the limit of a tokenizer file is {limit}")]
    #[cfg(feature = "hub")]
    TooLong { uri: String, path: String, bytes: ByteCount, limit: ByteCount },
    /// A rank file is not cached, and the network must not be used.
    #[error("{name} is not in the cache {}", path.display())]
    #[cfg(feature = "hub")]
    NoRanks { name: String, path: PathBuf },
    /// A rank file in the cache has a wrong hash, and the network must not be used.
    #[error("{name} in the cache differs from the file that OpenAI publishes: {}", path.display())]
    #[cfg(feature = "hub")]
    OtherRanks { name: String, path: PathBuf },
    /// The hub lists a path that would lead out of the folder of the repository.
    #[error("{path} of {repository} points outside of the repository")]
    #[cfg(feature = "hub")]
    Outside { repository: String, path: String },
    /// The repository exists, but none of its files is requested.
    #[error("{uri} has no files to read")]
    #[cfg(feature = "hub")]
    NoFiles { uri: String },
    /// The network must not be used, and the cache lacks the revision or a file.
    #[error("{uri} is not in the cache {}", cache.display())]
    #[cfg(feature = "hub")]
    NotCached { uri: String, cache: PathBuf },
    /// A request has failed for good. `what` names the file or list, and `problem` gives the reason.
    #[error("{what} cannot be fetched: {problem}")]
    #[cfg(feature = "hub")]
    Refused { what: String, problem: String },
    /// The hub's answer is not of the expected form, or exceeds a limit.
    #[error("{repository} has no usable {what} at {address}")]
    #[cfg(feature = "hub")]
    Answer { repository: String, address: String, what: &'static str },
    /// A file has changed since it was listed, or other bytes arrived than were listed.
    #[error("{what} did not arrive completely: {problem}")]
    #[cfg(feature = "hub")]
    Broken { what: String, problem: String },
    /// The URI of an object store has no bucket.
    #[error("{uri} does not name a place in an object store")]
    #[cfg(feature = "remote")]
    Store { uri: String },
    /// This build lacks the cargo feature for the URI. `what` is the kind of server.
    #[error("{uri} cannot be fetched: this program was built without {what}")]
    #[cfg(not(all(feature = "hub", feature = "remote")))]
    Without { uri: String, what: &'static str },
}

impl RemoteError {
    /// The error of this kind.
    fn with(self, kind: ErrorKind) -> Error {
        Error::new(kind, self)
    }

    /// The error that a file that is read by ranges is no longer the one that was listed.
    #[cfg(feature = "hub")]
    fn changed(what: &str) -> Error {
        let problem = "it has changed since it was listed".to_owned();
        let error = RemoteError::Broken { what: what.to_owned(), problem }.with(ErrorKind::Network);
        error.with_help("run the same command again; finished work is kept")
    }
}

/// Downloads the files that a URI names, unless the cache has them, and returns their paths. `any_name` says that the
/// format is given, so that files of any name are requested.
///
/// All files are of one commit. With `offline`, only the cache is searched, and the network is never used. Files that
/// were complete before an error stay in the cache.
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
    let wanted = repository::RepoRequest { any_name, ..repository::RepoRequest::parse(uri)? };
    let cache = cache::Cache::of(&wanted, settings);
    if settings.offline {
        cache.files(&wanted, &*settings.noted)
    } else {
        hub::fetch(&wanted, &cache, settings, observer)
    }
}

/// Like [`fetch`], without downloading: files that the cache lacks are to be read by ranges.
///
/// The result has `None` for a file that the cache has. With `offline` that is every file.
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
    let wanted = repository::RepoRequest { any_name, ..repository::RepoRequest::parse(uri)? };
    let cache = cache::Cache::of(&wanted, settings);
    if settings.offline {
        return Ok(cache
            .files(&wanted, &*settings.noted)?
            .into_iter()
            .map(|fetched| (fetched, None))
            .collect());
    }
    hub::stream(&wanted, &cache, settings, stop)
}

/// Requests the size and version of a file on a web server, which is to be read by ranges.
///
/// The request is for the first byte of the file alone. It never has the hub's token.
///
/// # Errors
/// The server cannot be reached, refuses, or does not support ranges.
#[cfg(feature = "hub")]
pub(super) fn open_without_download(uri: &str, settings: &HubSettings, stop: &Stop) -> Result<Streamed> {
    if settings.offline {
        let error =
            RemoteError::Refused { what: shown_uri(uri), problem: "HF_HUB_OFFLINE is set".to_owned() };
        return Err(error.with(ErrorKind::Network));
    }
    hub::open_without_download(uri, settings, stop)
}

/// Lists files of an object store, which are to be read by ranges.
///
/// The files are in byte order of their names. None of their content is read.
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
pub(super) fn open_without_download(uri: &str, _settings: &HubSettings, _stop: &Stop) -> Result<Streamed> {
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
    repository::RepoRequest::parse(uri)?;
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
    repository::RepoRequest::parse(uri)?;
    Err(without(uri, "the hub", WITH_HUB))
}

/// The advice if this build lacks the hub's client.
#[cfg(not(feature = "hub"))]
const WITH_HUB: &str = "build with the feature `hub`, or download the files and name them";

/// The error that this build lacks a client.
#[cfg(not(all(feature = "hub", feature = "remote")))]
fn without(uri: &str, what: &'static str, help: &'static str) -> Error {
    let error = RemoteError::Without { uri: crate::base::secrets::shown_uri(uri), what };
    error.with(ErrorKind::Usage).with_help(help)
}

/// How to reach the Hugging Face hub, and the location of its cache.
///
/// The `Debug` form does not show the token.
#[derive(Clone)]
pub struct HubSettings {
    /// Address of the hub.
    pub endpoint: String,
    /// The user's token. It is sent only to `endpoint`.
    pub token: Option<String>,
    /// Folder of the cache, with a folder for each repository. The default is relative to the working directory;
    /// [`from_variables`](HubSettings::from_variables) finds the user's cache.
    pub cache: PathBuf,
    /// Whether to use only the cache and never the network.
    pub offline: bool,
    /// Address of the server with OpenAI's rank files (`cl100k_base.tiktoken` and others).
    pub ranks_endpoint: String,
    /// Folder in which these files are stored, which is that of Python's `tiktoken`.
    pub ranks_cache: PathBuf,
    /// When to repeat failed requests, and when to give up.
    pub patience: Patience,
    /// Callback that reports each wait of at least one second before a request is repeated, with the reason.
    pub noted: Note,
}

/// The limits for repeating requests to a server or on a connection that fails.
///
/// The wait after the n-th successive failure is `first_wait` · 2^(n − 1), at most `longest_wait`, or the time that
/// the server asks for if that is longer. With the defaults (6 attempts, 1 second, 300 seconds), a request that
/// always fails is given up after waits of 1, 2, 4, 8 and 16 seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Number of successive failures, without a byte of progress between them, after which to give up.
    pub attempts: u32,
    /// Wait after the first failure. It doubles with each further failure.
    pub first_wait: Duration,
    /// Maximum wait. It is an error if a server asks for a longer one.
    pub longest_wait: Duration,
    /// Time without any activity after which a connection counts as broken.
    pub silence: Duration,
    /// Time within which a description or a list of files must arrive completely. After this time, a file must arrive
    /// with at least 1 kB/s on average. This stops a server that sends a byte now and then from blocking the program.
    pub whole: Duration,
}

impl Default for Patience {
    /// Six attempts, within about half a minute of waits. A connection may be silent for 30 seconds.
    fn default() -> Patience {
        Patience {
            attempts: 6,
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(300),
            silence: Duration::from_secs(30),
            whole: Duration::from_secs(600),
        }
    }
}

impl HubSettings {
    /// Settings from the environment variables that other tools use. The hub is found as by Python's
    /// `huggingface_hub`: `HF_ENDPOINT`, `HF_TOKEN` or the token file (`HF_TOKEN_PATH`), `HF_HOME`, `HF_HUB_CACHE`,
    /// `HF_HUB_OFFLINE`, `HF_HUB_DOWNLOAD_TIMEOUT` and `XDG_CACHE_HOME`. OpenAI's rank files are found as by
    /// `tiktoken`: `TIKTOKEN_CACHE_DIR`, `DATA_GYM_CACHE_DIR` and `TMPDIR`; `TOKENMILL_RANKS_ENDPOINT` names another
    /// server for them.
    ///
    /// `variable` returns the value of a variable, and `user` is the user's home folder; the function looks up
    /// nothing else in the environment. Empty values count as not set.
    ///
    /// ```no_run
    /// use std::env;
    /// use tokenmill::source::HubSettings;
    ///
    /// let hub = HubSettings::from_variables(&|name| env::var(name).ok(), env::home_dir().as_deref());
    /// ```
    pub fn from_variables(variable: &dyn Fn(&str) -> Option<String>, user: Option<&Path>) -> HubSettings {
        let set =
            |name| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let in_home = |path: String| match path
            .strip_prefix('~')
            .filter(|rest| rest.is_empty() || rest.starts_with('/'))
        {
            Some(rest) => user.map(|user| user.join(rest.trim_start_matches('/'))),
            None => Some(PathBuf::from(path)),
        };
        let path = |name| set(name).and_then(in_home);
        let cache = path("XDG_CACHE_HOME").or_else(|| Some(user?.join(".cache")));
        let home = path("HF_HOME").or_else(|| Some(cache?.join("huggingface")));
        let token_file = path("HF_TOKEN_PATH").or_else(|| Some(home.as_ref()?.join("token")));
        let stored = || Some(fs::read_to_string(token_file?).ok()?.trim().to_owned());
        let silence = set("HF_HUB_DOWNLOAD_TIMEOUT").and_then(|seconds| seconds.parse().ok());
        let silence = silence
            .filter(|&seconds| seconds > 0)
            .map(|seconds: u64| Duration::from_secs(seconds.min(A_DAY)));
        let defaults = HubSettings::default();
        let address = |name: &'static str, other: String| {
            set(name).map_or(other, |url| url.trim_end_matches('/').to_owned())
        };
        let ranks_cache = set("TIKTOKEN_CACHE_DIR").or_else(|| set("DATA_GYM_CACHE_DIR")).map(PathBuf::from);
        let temporary = || ["TMPDIR", "TEMP", "TMP"].into_iter().find_map(set).map(PathBuf::from);
        HubSettings {
            endpoint: address("HF_ENDPOINT", defaults.endpoint),
            ranks_endpoint: address("TOKENMILL_RANKS_ENDPOINT", defaults.ranks_endpoint),
            ranks_cache: ranks_cache
                .or_else(|| Some(temporary()?.join(RANKS_FOLDER)))
                .unwrap_or(defaults.ranks_cache),
            token: set("HF_TOKEN").or_else(stored).filter(|token| !token.is_empty()),
            cache: path("HF_HUB_CACHE").or_else(|| Some(home?.join("hub"))).unwrap_or(defaults.cache),
            offline: set("HF_HUB_OFFLINE").is_some_and(|value| is_true(&value)),
            patience: Patience { silence: silence.unwrap_or(defaults.patience.silence), ..defaults.patience },
            noted: defaults.noted,
        }
    }
}

/// Folder in which `tiktoken` stores files, inside the folder for temporary files.
const RANKS_FOLDER: &str = "data-gym-cache";

/// Maximum timeout, in seconds. It bounds a value that means to wait forever.
const A_DAY: u64 = 24 * 60 * 60;

/// Whether a variable's value means true, as in `huggingface_hub`.
///
/// Case does not matter. All other values, such as `0`, mean false.
fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_uppercase().as_str(), "1" | "ON" | "YES" | "TRUE")
}

impl Default for HubSettings {
    /// The public hub without a token, online, and a cache below the working directory. Notes are dropped.
    fn default() -> HubSettings {
        let endpoint = "https://huggingface.co".to_owned();
        let cache = PathBuf::from(".cache/huggingface/hub");
        let ranks_endpoint = "https://openaipublic.blob.core.windows.net".to_owned();
        let ranks_cache = Path::new("/tmp").join(RANKS_FOLDER);
        let (patience, noted): (_, Note) = (Patience::default(), Arc::new(|_| ()));
        HubSettings {
            endpoint,
            token: None,
            cache,
            offline: false,
            ranks_endpoint,
            ranks_cache,
            patience,
            noted,
        }
    }
}

impl fmt::Debug for HubSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        f.debug_struct("HubSettings")
            .field("endpoint", &self.endpoint)
            .field("token", &token)
            .field("cache", &self.cache)
            .field("offline", &self.offline)
            .field("ranks_endpoint", &self.ranks_endpoint)
            .field("ranks_cache", &self.ranks_cache)
            .field("patience", &self.patience)
            .finish()
    }
}

/// How to reach object stores.
///
/// The default has no variables, and so no credentials. The `Debug` form does not show values.
#[derive(Clone, Default)]
pub struct StoreSettings {
    /// Environment variables that the stores' own tools read: names (`AWS_ACCESS_KEY_ID`) and values.
    /// A store ignores names that it does not know.
    pub variables: Vec<(String, String)>,
}

impl fmt::Debug for StoreSettings {
    /// Shows only the names, because some values are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.variables.iter().map(|(name, _)| name)).finish()
    }
}
