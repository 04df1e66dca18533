//! Downloads the rank files that OpenAI publishes into the cache of Python's `tiktoken`.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha1::{Digest as _, Sha1};

use super::TokenizerError;
use crate::base::atomic_file::publish_bytes;
use crate::base::folder_of;
use crate::base::integrity::{hex, sha256};
use crate::error::{Error, ErrorKind, Result};
use crate::network::HubSettings;
use crate::observer::Observer;
use crate::source::remote::download;

/// A file that OpenAI publishes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankFile {
    /// The address of the file.
    pub(super) address: &'static str,
    /// The SHA-256 of its content in hex, which `tiktoken` checks too.
    pub(super) sha256: &'static str,
}

/// The files of `tiktoken`'s encodings.
pub(super) const PUBLISHED: [RankFile; 4] = [
    RankFile {
        address: "https://openaipublic.blob.core.windows.net/encodings/r50k_base.tiktoken",
        sha256: "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    },
    RankFile {
        address: "https://openaipublic.blob.core.windows.net/encodings/p50k_base.tiktoken",
        sha256: "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    },
    RankFile {
        address: "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken",
        sha256: "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    },
    RankFile {
        address: "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken",
        sha256: "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    },
];

impl RankFile {
    /// The name of the encoding.
    fn name(&self) -> &'static str {
        self.address.rsplit(['/', '.']).nth(1).unwrap_or_default()
    }

    /// The path in `tiktoken`'s cache: the SHA-1 of the published address, even if another server sent the file.
    fn path(&self, cache: &Path) -> PathBuf {
        cache.join(hex(&Sha1::digest(self.address)))
    }

    /// Whether the cache has the right file.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    fn cached(&self, path: &Path) -> Result<CachedRanks> {
        use std::io::ErrorKind::NotFound;
        match fs::read(path) {
            Ok(bytes) if sha256(&bytes) == self.sha256 => Ok(CachedRanks::Right),
            Ok(_) => Ok(CachedRanks::Other),
            Err(cause) if cause.kind() == NotFound => Ok(CachedRanks::Nothing),
            Err(cause) => Err(Error::io("read", path, cause)),
        }
    }

    /// Advice on how to get the file otherwise.
    fn alternatives(&self) -> String {
        let name = self.name();
        format!(
            "download {} on a machine with a network and give its path, with the file name {name}.tiktoken; \
             or let Python do it, with `tiktoken.get_encoding({name:?})`, and copy its cache \
             (TIKTOKEN_CACHE_DIR)",
            self.address
        )
    }

    /// Downloads the file unless the cache has it, and returns its path. A file counts only if its hash is right.
    ///
    /// # Errors
    /// The file cannot be downloaded or has a wrong hash, or the cache cannot be written.
    pub(super) fn fetch(&self, settings: &HubSettings, observer: &dyn Observer) -> Result<PathBuf> {
        let path = self.path(&settings.ranks_cache);
        let cached = self.cached(&path)?;
        if matches!(cached, CachedRanks::Right) {
            return Ok(path);
        }
        if settings.offline {
            let error = match cached {
                CachedRanks::Other => TokenizerError::OtherRanks { name: self.name().to_owned(), path },
                _ => TokenizerError::NoRanks { name: self.name().to_owned(), path },
            };
            let help = format!("run it once online, without HF_HUB_OFFLINE; or {}", self.alternatives());
            return Err(error.with(ErrorKind::Network).with_help(help));
        }
        let bytes = self.download(settings, observer)?;
        let unwritable =
            |error: Error| error.with_help("set TIKTOKEN_CACHE_DIR to a folder that can be written");
        let folder = folder_of(&path);
        fs::create_dir_all(folder).map_err(|cause| unwritable(Error::io("create", folder, cause)))?;
        publish_bytes(&path, &bytes).map_err(unwritable)?;
        Ok(path)
    }

    /// Downloads the file and checks its hash.
    ///
    /// # Errors
    /// The file cannot be downloaded, or its hash is wrong. Except for an interruption, the error has advice on how
    /// to get the file otherwise.
    fn download(&self, settings: &HubSettings, observer: &dyn Observer) -> Result<Bytes> {
        let path = self.address.splitn(4, '/').nth(3).unwrap_or_default();
        let url = format!("{}/{path}", settings.ranks_endpoint);
        let alternatives = |error: Error| match error.kind() {
            ErrorKind::Interrupted => error,
            _ => error.with_help(format!("check the network; or {}", self.alternatives())),
        };
        let bytes = download(&url, settings, &|| observer.stopping()).map_err(alternatives)?;
        let found = sha256(&bytes);
        if found != self.sha256 {
            let error = TokenizerError::WrongRanks { url, found, expected: self.sha256 };
            return Err(alternatives(error.with(ErrorKind::Network)));
        }
        Ok(bytes)
    }
}

/// What the cache has at the path of a file.
enum CachedRanks {
    /// The right file.
    Right,
    /// A different file.
    Other,
    /// No file.
    Nothing,
}
