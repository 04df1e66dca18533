//! Queries the hub's API: the commit of a revision, and the files of a commit.
//!
//! Answers are not trusted. Sizes and numbers of pages are limited, paths must stay inside the repository, and hashes
//! must have their form. An answer that violates this is an error and never a shorter list of files.

use std::collections::BTreeSet;

use super::HubFault;
use super::address::{join, origin, path, segment};
use super::cache::{inside, is_commit};
use super::http::Http;
use super::links::{Links, next_page};
use super::uri::Wanted;
use crate::base::secrets::shown_uri;
use crate::error::{Error, ErrorKind, Result};
use serde::Deserialize;

/// Maximum bytes of an answer of the API. A larger answer is treated as malicious.
const ANSWER_BYTES: usize = 64 << 20;
/// Maximum number of pages of a list.
const PAGES: usize = 10_000;
/// Maximum bytes of all pages of a file list together, which is about 800 000 files.
const TREE_BYTES: usize = 256 << 20;

/// Queries the hub's API about one repository.
pub(super) struct Api<'a> {
    http: &'a Http<'a>,
    wanted: &'a Wanted,
    /// Address of the repository in the API.
    base: String,
}

/// A file in the hub's list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The path inside the repository.
    pub(super) path: String,
    /// Size in bytes.
    pub(super) bytes: u64,
    /// The hash of the content.
    pub(super) digest: Digest,
}

/// The hash of a file's content. It is also the file's entity tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Digest {
    /// SHA-256, for large files (LFS).
    Sha256(String),
    /// Git's blob hash, for other files: the SHA-1 of `blob SIZE\0` and the content.
    Git(String),
}

impl Digest {
    /// The hash in hex, which is the entity tag.
    pub(super) fn etag(&self) -> &str {
        match self {
            Digest::Sha256(hex) | Digest::Git(hex) => hex,
        }
    }
}

/// The part of a revision's description that is needed.
#[derive(Deserialize)]
struct Info {
    sha: Option<String>,
}

/// An entry of the tree, as the hub sends it.
#[derive(Deserialize)]
struct Node {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    oid: String,
    lfs: Option<Large>,
}

/// The size and SHA-256 of a large file.
#[derive(Deserialize)]
struct Large {
    oid: String,
    size: u64,
}

impl<'a> Api<'a> {
    /// The API for the repository that `wanted` names, at this hub.
    pub(super) fn new(http: &'a Http<'a>, wanted: &'a Wanted, endpoint: &str) -> Api<'a> {
        let base = format!("{endpoint}/api/{}/{}", wanted.kind.plural(), path(&wanted.repository()));
        Api { http, wanted, base }
    }

    /// The commit that a revision currently denotes.
    ///
    /// # Errors
    /// The revision does not exist, or the hub cannot be asked.
    pub(super) fn commit(&self, revision: &str) -> Result<String> {
        let url = format!("{}/revision/{}", self.base, segment(revision));
        let (_, body) = self.http.whole(&self.wanted.uri, &url, ANSWER_BYTES)?;
        let info: Info = serde_json::from_slice(&body).map_err(|_| self.unusable("description"))?;
        info.sha.filter(|commit| is_commit(commit)).ok_or_else(|| self.unusable("commit"))
    }

    /// The requested files of a commit, in byte order of their paths.
    ///
    /// # Errors
    /// The list is invalid, leads out of the repository, or is larger than the limits.
    pub(super) fn files(&self, commit: &str) -> Result<Vec<Entry>> {
        let mut url = format!("{}/tree/{}?recursive=true", self.base, segment(commit));
        let (mut files, mut seen) = (Vec::new(), BTreeSet::from([url.clone()]));
        let mut left = TREE_BYTES;
        for _ in 0..PAGES {
            let (headers, body) = self.http.whole(&self.wanted.uri, &url, ANSWER_BYTES)?;
            left = left.checked_sub(body.len()).ok_or_else(|| self.too_long())?;
            let nodes: Vec<Node> =
                serde_json::from_slice(&body).map_err(|_| self.unusable("list of files"))?;
            for node in nodes {
                files.extend(self.entry(node)?);
            }
            match next_page(&headers) {
                Links::Next(next) => url = join(&url, &next),
                Links::Last => return self.each_once(files),
                Links::Unreadable => break,
            }
            // A page on another host would have to be requested without the token.
            if origin(&url) != origin(&self.base) || !seen.insert(url.clone()) {
                break;
            }
        }
        Err(self.unusable("list of files"))
    }

    /// Sorts the files and removes duplicates, since overlapping pages list files twice. Entries for one path must be
    /// equal.
    ///
    /// # Errors
    /// Two entries for the same path differ.
    fn each_once(&self, mut files: Vec<Entry>) -> Result<Vec<Entry>> {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let differ = |pair: &[Entry]| pair[0].path == pair[1].path && pair[0] != pair[1];
        if files.windows(2).any(differ) {
            return Err(self.unusable("list of files"));
        }
        files.dedup();
        Ok(files)
    }

    /// The entry for a node of the tree, if it is a requested file.
    ///
    /// # Errors
    /// The path leaves the repository, or the hash is invalid.
    fn entry(&self, node: Node) -> Result<Option<Entry>> {
        if node.kind != "file" {
            return Ok(None);
        }
        if !inside(&node.path) {
            let fault = HubFault::Outside { repository: self.wanted.repository(), path: node.path };
            return Err(fault.with(ErrorKind::Network));
        }
        if !self.wanted.wants(&node.path) {
            return Ok(None);
        }
        let (bytes, digest) = match node.lfs {
            Some(large) => (large.size, Digest::Sha256(large.oid)),
            None => (node.size, Digest::Git(node.oid)),
        };
        let length = if matches!(digest, Digest::Git(_)) { 40 } else { 64 };
        let hex = digest.etag();
        if hex.len() != length || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(self.unusable("hash of a file"));
        }
        Ok(Some(Entry { path: node.path, bytes, digest }))
    }

    /// The error that the list exceeds the limit.
    fn too_long(&self) -> Error {
        let error = self.unusable("list of files");
        error.with_help("the list has more than 256 MB: name a folder of the repository that has fewer files")
    }

    /// The error that an answer of the hub is invalid.
    fn unusable(&self, what: &'static str) -> Error {
        let fault =
            HubFault::Answer { repository: self.wanted.repository(), address: shown_uri(&self.base), what };
        let error = fault.with(ErrorKind::Network);
        error.with_help("check HF_ENDPOINT, and whether a proxy answers instead of the hub")
    }
}
