use std::collections::BTreeSet;

use super::HubFault;
use super::address::{join, origin, path, segment};
use super::cache::{inside, is_commit};
use super::http::Http;
use super::links::{Links, next_page};
use super::uri::Wanted;
use crate::error::{Error, ErrorKind, Result};
use crate::source::secrets::shown_uri;
use serde::Deserialize;

/// An answer of the API in bytes, and a tree in pages: more is not an answer but an attack.
const ANSWER_BYTES: usize = 64 << 20;
const PAGES: usize = 10_000;
/// All pages of a tree together: some 800 000 files.
const TREE_BYTES: usize = 256 << 20;

/// The hub's answers about one repository.
pub(super) struct Api<'a> {
    http: &'a Http<'a>,
    wanted: &'a Wanted,
    base: String,
}

/// A file as the hub lists it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) digest: Digest,
}

/// The hash of a file's content, which is its entity tag too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Digest {
    /// SHA-256, of large files.
    Sha256(String),
    /// Git's hash of a blob: SHA-1 of `blob SIZE\0` and the content.
    Git(String),
}

impl Digest {
    pub(super) fn etag(&self) -> &str {
        match self {
            Digest::Sha256(hex) | Digest::Git(hex) => hex,
        }
    }
}

#[derive(Deserialize)]
struct Info {
    sha: Option<String>,
}

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

#[derive(Deserialize)]
struct Large {
    oid: String,
    size: u64,
}

impl<'a> Api<'a> {
    pub(super) fn new(http: &'a Http<'a>, wanted: &'a Wanted, endpoint: &str) -> Api<'a> {
        let base = format!("{endpoint}/api/{}/{}", wanted.kind.plural(), path(&wanted.repository()));
        Api { http, wanted, base }
    }

    /// The commit that a revision is now.
    pub(super) fn commit(&self, revision: &str) -> Result<String> {
        let url = format!("{}/revision/{}", self.base, segment(revision));
        let (_, body) = self.http.whole(&self.wanted.uri, &url, ANSWER_BYTES)?;
        let info: Info = serde_json::from_slice(&body).map_err(|_| self.unusable("description"))?;
        info.sha.filter(|commit| is_commit(commit)).ok_or_else(|| self.unusable("commit"))
    }

    /// The files that are wanted, in byte order of their paths.
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
            // A page of another host would have to be asked for without the token.
            if origin(&url) != origin(&self.base) || !seen.insert(url.clone()) {
                break;
            }
        }
        Err(self.unusable("list of files"))
    }

    /// The files in order. Where pages overlap a file is listed twice.
    fn each_once(&self, mut files: Vec<Entry>) -> Result<Vec<Entry>> {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let differ = |pair: &[Entry]| pair[0].path == pair[1].path && pair[0] != pair[1];
        if files.windows(2).any(differ) {
            return Err(self.unusable("list of files"));
        }
        files.dedup();
        Ok(files)
    }

    /// What is known of a node of the tree, if it is a file that is wanted.
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

    fn too_long(&self) -> Error {
        let error = self.unusable("list of files");
        error.with_help("the list has more than 256 MB: name a folder of the repository that has fewer files")
    }

    fn unusable(&self, what: &'static str) -> Error {
        let fault =
            HubFault::Answer { repository: self.wanted.repository(), address: shown_uri(&self.base), what };
        let error = fault.with(ErrorKind::Network);
        error.with_help(
            "check HF_ENDPOINT, and whether a proxy between here and there answers in the hub's place",
        )
    }
}
