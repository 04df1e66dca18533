use std::collections::BTreeSet;

use serde::Deserialize;
use ureq::http::HeaderMap;

use super::HubFault;
use super::address::{join, origin, segment};
use super::cache::{inside, is_commit};
use super::http::{Http, text};
use super::uri::Wanted;
use crate::error::{Error, ErrorKind, Result};

/// An answer of the API in bytes, and a tree in pages: more is not an answer but an attack.
const ANSWER_BYTES: usize = 64 << 20;
const PAGES: usize = 10_000;

/// The hub's answers about one dataset.
pub(super) struct Api<'a> {
    http: &'a Http<'a>,
    wanted: &'a Wanted,
    base: String,
}

/// A file as the hub lists it.
#[derive(Debug)]
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
        let base =
            format!("{endpoint}/api/datasets/{}/{}", segment(&wanted.namespace), segment(&wanted.name));
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
        for _ in 0..PAGES {
            let (headers, body) = self.http.whole(&self.wanted.uri, &url, ANSWER_BYTES)?;
            let nodes: Vec<Node> =
                serde_json::from_slice(&body).map_err(|_| self.unusable("list of files"))?;
            for node in nodes {
                files.extend(self.entry(node)?);
            }
            match next_page(&headers).map(|next| join(&url, next)) {
                // A page of another host would have to be asked for without the token.
                Some(next) if origin(&next) == origin(&url) && seen.insert(next.clone()) => url = next,
                Some(_) => break,
                None => {
                    files.sort_by(|a: &Entry, b| a.path.cmp(&b.path));
                    return Ok(files);
                }
            }
        }
        Err(self.unusable("list of files"))
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

    fn unusable(&self, what: &'static str) -> Error {
        HubFault::Answer { repository: self.wanted.repository(), what }.with(ErrorKind::Network)
    }
}

/// `Link: <address>; rel="next"`, among other links.
fn next_page(headers: &HeaderMap) -> Option<&str> {
    text(headers, "link")?.split(',').find_map(|link| {
        let (address, relation) = link.trim().strip_prefix('<')?.split_once('>')?;
        relation.contains("rel=\"next\"").then_some(address)
    })
}
