//! Datasets of the Hugging Face hub: their files are downloaded once into the cache that Python's
//! `huggingface_hub` uses too, and then read as local files.

mod uri;

use std::fmt;
use std::path::PathBuf;

use super::Identity;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::Observer;

/// How to reach the hub, and where its files are kept.
#[derive(Clone)]
pub struct HubSettings {
    /// The hub's address.
    pub endpoint: String,
    /// The user's token; it is sent to the endpoint only.
    pub token: Option<String>,
    /// The folder of the cache, with a folder for each repository.
    pub cache: PathBuf,
    /// Use what is in the cache alone.
    pub offline: bool,
}

impl Default for HubSettings {
    fn default() -> HubSettings {
        let endpoint = "https://huggingface.co".to_owned();
        HubSettings { endpoint, token: None, cache: PathBuf::from(".cache/huggingface/hub"), offline: false }
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
            .finish()
    }
}

/// A file of a dataset in the cache.
pub(super) type Fetched = ((PathBuf, String), Identity);

#[derive(Debug, thiserror::Error)]
enum HubFault {
    #[error("{uri} does not name a dataset")]
    Uri { uri: String },
    #[error("{uri} cannot be fetched: this program was built without the hub")]
    Without { uri: String },
}

impl HubFault {
    fn with(self, kind: ErrorKind) -> Error {
        Error::new(kind, self)
    }
}

/// Refuses: the hub's client is not part of this build.
pub(super) fn fetch(uri: &str, _settings: &HubSettings, _observer: &dyn Observer) -> Result<Vec<Fetched>> {
    uri::Wanted::parse(uri)?;
    let error = HubFault::Without { uri: uri.to_owned() }.with(ErrorKind::Usage);
    Err(error.with_help("build with the feature `hub`, or download the files and name them"))
}
