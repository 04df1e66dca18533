//! Client of the hub and of web servers: finds the files that a URI requests, and downloads them or opens them for
//! reading by ranges.
//!
//! Answers of the hub are not trusted. Sizes and numbers of pages are limited, paths must stay inside the repository,
//! and hashes must have their form. An answer that violates this is an error and never a shorter list of files. A file
//! that changes while it is read by ranges is an error too.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use ureq::Agent;
use ureq::http::StatusCode;

use super::cache::{Cache, download};
use super::http::{
    self, ByteSpan, Head, Http, NextPage, RequestError, Server, agent, first_and_total, header, is_empty,
    next_page, origin, percent_encode_path, percent_encode_segment, resolve_location,
};
use super::repository::{CONVERTED, ContentHash, RepoFile, RepoRequest, inside, is_commit};
use super::tokenizer::{check_sizes, choose};
use super::{Fetched, HubSettings, RemoteError, Streamed};
use crate::base::int::{declared_sum, to_u64};
use crate::base::secrets::shown_uri;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Stage};
use crate::source::content::RangeRead;
use crate::source::{Identity, Stop};

/// The commit that a URI names, and its requested files.
struct CommitFiles {
    /// The revision that was found.
    revision: String,
    /// The commit that the revision denotes.
    commit: String,
    /// The requested files of the commit.
    files: Vec<RepoFile>,
}

/// Asks the hub for the commit and the files. Without revision and path, the converted branch is tried second.
///
/// The answer is complete or an error. With [`everything`](RepoRequest::everything) set, an empty list is an answer
/// too, since the caller reports what is missing.
///
/// # Errors
/// The hub has no such repository, revision or file; or it cannot be reached, or refuses.
fn find(wanted: &RepoRequest, http: &Http<'_>, settings: &HubSettings) -> Result<CommitFiles> {
    let api = Api::new(http, wanted, &settings.endpoint);
    for revision in wanted.revisions() {
        let commit = match api.commit(revision) {
            Ok(commit) => commit,
            // A dataset that cannot be converted has no such branch.
            Err(error) if revision == CONVERTED && error.kind() == ErrorKind::Failed => break,
            Err(error) => return Err(error),
        };
        let mut files = api.files(&commit)?;
        wanted.keep_train(&mut files, |file| &file.path, &*settings.noted);
        if !files.is_empty() || wanted.everything {
            return Ok(CommitFiles { revision: revision.to_owned(), commit, files });
        }
    }
    let error = RemoteError::NoFiles { uri: wanted.uri.clone() }.with(ErrorKind::Failed);
    Err(error.with_help(
        "check the path or pattern after the name; without one the dataset's Parquet files are read",
    ))
}

/// Downloads the files that the cache lacks, and returns all of them.
///
/// Files are downloaded one after the other. The commit of the revision is recorded in the cache only after all of
/// them are there.
///
/// # Errors
/// The files cannot be listed or downloaded, or the cache cannot be written.
pub(super) fn fetch(
    wanted: &RepoRequest,
    cache: &Cache,
    settings: &HubSettings,
    observer: &dyn Observer,
) -> Result<Vec<Fetched>> {
    let stop = || observer.stopping();
    let http = Http::new(agent(&settings.patience), Server::Hub, settings, &stop);
    let CommitFiles { revision, commit, files } = find(wanted, &http, settings)?;
    let files: Vec<&RepoFile> = files.iter().collect();
    download_missing(&files, &commit, wanted, &http, cache, settings, observer)?;
    cache.note(&revision, &commit)?;
    Ok(files.iter().map(|file| cache.fetched(&commit, &file.path)).collect())
}

/// Downloads the files of a tokenizer that the cache lacks, all of the same commit, and returns the path of its main
/// file.
///
/// Files beside the main one are downloaded as well, because other programs expect them there.
///
/// # Errors
/// The repository has no tokenizer at the path, or several; or the files cannot be downloaded.
pub(super) fn fetch_tokenizer(
    wanted: &RepoRequest,
    cache: &Cache,
    settings: &HubSettings,
    observer: &dyn Observer,
) -> Result<PathBuf> {
    let stop = || observer.stopping();
    let http = Http::new(agent(&settings.patience), Server::Hub, settings, &stop);
    let CommitFiles { revision, commit, files } = find(wanted, &http, settings)?;
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let chosen = choose(&paths, wanted.path.as_deref()).map_err(|unchosen| unchosen.error(wanted))?;
    // The main file comes last: if it is in the cache, so are the others.
    let needed: Vec<&RepoFile> = chosen
        .companions
        .iter()
        .chain([&chosen.main])
        .filter_map(|path| files.iter().find(|file| file.path == *path))
        .collect();
    check_sizes(wanted, &needed)?;
    download_missing(&needed, &commit, wanted, &http, cache, settings, observer)?;
    cache.note(&revision, &commit)?;
    Ok(cache.snapshot(&commit, chosen.main))
}

/// Downloads those of the given files of a commit that the cache lacks.
///
/// Observers see one download stage with the sum of the listed sizes, or none if nothing is missing.
///
/// # Errors
/// A file cannot be downloaded. The files before it stay in the cache.
fn download_missing(
    files: &[&RepoFile],
    commit: &str,
    wanted: &RepoRequest,
    http: &Http<'_>,
    cache: &Cache,
    settings: &HubSettings,
    observer: &dyn Observer,
) -> Result<()> {
    let missing: Vec<&RepoFile> = files.iter().copied().filter(|file| !cache.holds(commit, file)).collect();
    if !missing.is_empty() {
        observer.started(Stage::Download, declared_sum(missing.iter().map(|file| Some(file.bytes))));
        for file in missing {
            let url = resolve(wanted, settings, commit, &file.path);
            download(http, cache, &url, commit, file, observer)?;
        }
        observer.finished(Stage::Download);
    }
    Ok(())
}

/// Returns the files; those that the cache lacks are opened for reading by ranges.
///
/// The files are those of the commit at the time of the call, even if the revision moves later. Nothing is written to
/// the cache.
///
/// # Errors
/// The files cannot be listed.
pub(super) fn stream(
    wanted: &RepoRequest,
    cache: &Cache,
    settings: &HubSettings,
    stop: &Stop,
) -> Result<Vec<Streamed>> {
    let agent = agent(&settings.patience);
    let CommitFiles { commit, files, .. } =
        find(wanted, &Http::new(agent.clone(), Server::Hub, settings, &**stop), settings)?;
    let remote = |file: RepoFile| {
        let (place, identity) = cache.fetched(&commit, &file.path);
        if cache.holds(&commit, &file) {
            return ((place, identity), None);
        }
        let etag = file.digest.etag().to_owned();
        let identity = Identity::Hub { commit: commit.clone(), etag: etag.clone() };
        let remote: Arc<dyn RangeRead> = Arc::new(RemoteFile {
            agent: agent.clone(),
            settings: settings.clone(),
            stop: Arc::clone(stop),
            url: resolve(wanted, settings, &commit, &file.path),
            what: place.1.clone(),
            bytes: file.bytes,
            version: Version::tagged(etag),
            server: Server::Hub,
        });
        ((place, identity), Some(remote))
    };
    Ok(files.into_iter().map(remote).collect())
}

/// The address of a file's content.
///
/// It contains the commit and not the revision, so that all files are of the same version.
fn resolve(wanted: &RepoRequest, settings: &HubSettings, commit: &str, path: &str) -> String {
    let (prefix, name) = (wanted.kind.prefix(), http::percent_encode_path(&wanted.repository()));
    format!("{}/{prefix}{name}/resolve/{commit}/{}", settings.endpoint, http::percent_encode_path(path))
}

/// Maximum bytes of an answer of the API. A larger answer is treated as malicious.
const ANSWER_BYTES: usize = 64 << 20;
/// Maximum number of pages of a list.
const PAGES: usize = 10_000;
/// Maximum bytes of all pages of a file list together, which is about 800 000 files.
const TREE_BYTES: usize = 256 << 20;

/// Queries the hub's API about one repository.
pub(super) struct Api<'a> {
    /// Sends the requests and repeats those that fail.
    http: &'a Http<'a>,
    /// The repository, and which of its files to keep.
    wanted: &'a RepoRequest,
    /// Address of the repository in the API.
    base: String,
}

/// The part of a revision's description that is needed.
#[derive(Deserialize)]
struct RevisionInfo {
    /// The hash of the commit, which is checked before use.
    sha: Option<String>,
}

/// An entry of the tree, as the hub sends it.
#[derive(Deserialize)]
struct TreeEntry {
    /// `file` or `directory`. Entries of any other kind than `file` are skipped.
    #[serde(rename = "type")]
    kind: String,
    /// The path inside the repository, not yet checked.
    path: String,
    /// Size in bytes. For a large file, the size in `lfs` counts.
    #[serde(default)]
    size: u64,
    /// Git's hash of the blob; that of the pointer to it for a large file.
    #[serde(default)]
    oid: String,
    /// Present exactly for large files.
    lfs: Option<LfsPointer>,
}

/// The size and SHA-256 of a large file.
#[derive(Deserialize)]
struct LfsPointer {
    /// SHA-256 of the content in hex.
    oid: String,
    /// Size of the content in bytes.
    size: u64,
}

impl<'a> Api<'a> {
    /// The API for the repository that `wanted` names, at this hub.
    pub(super) fn new(http: &'a Http<'a>, wanted: &'a RepoRequest, endpoint: &str) -> Api<'a> {
        let base =
            format!("{endpoint}/api/{}/{}", wanted.kind.plural(), percent_encode_path(&wanted.repository()));
        Api { http, wanted, base }
    }

    /// The commit that a revision currently denotes.
    ///
    /// A commit is 40 hex digits; an answer with another text is not accepted.
    ///
    /// # Errors
    /// The revision does not exist, or the hub cannot be asked.
    pub(super) fn commit(&self, revision: &str) -> Result<String> {
        let url = format!("{}/revision/{}", self.base, percent_encode_segment(revision));
        let (_, body) = self.http.whole(&self.wanted.uri, &url, ANSWER_BYTES)?;
        let info: RevisionInfo = serde_json::from_slice(&body).map_err(|_| self.unusable("description"))?;
        info.sha.filter(|commit| is_commit(commit)).ok_or_else(|| self.unusable("commit"))
    }

    /// The requested files of a commit, in byte order of their paths.
    ///
    /// Follows the links from page to page. A page that was requested before, or that has another origin, makes the
    /// list invalid.
    ///
    /// # Errors
    /// The list is invalid, leads out of the repository, or is larger than the limits.
    pub(super) fn files(&self, commit: &str) -> Result<Vec<RepoFile>> {
        let mut url = format!("{}/tree/{}?recursive=true", self.base, percent_encode_segment(commit));
        let (mut files, mut seen) = (Vec::new(), BTreeSet::from([url.clone()]));
        let mut left = TREE_BYTES;
        for _ in 0..PAGES {
            let (headers, body) = self.http.whole(&self.wanted.uri, &url, ANSWER_BYTES)?;
            left = left.checked_sub(body.len()).ok_or_else(|| self.too_long())?;
            let nodes: Vec<TreeEntry> =
                serde_json::from_slice(&body).map_err(|_| self.unusable("list of files"))?;
            for node in nodes {
                files.extend(self.entry(node)?);
            }
            match next_page(&headers) {
                NextPage::Next(next) => url = resolve_location(&url, &next),
                NextPage::Last => return self.each_once(files),
                NextPage::Unreadable => break,
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
    fn each_once(&self, mut files: Vec<RepoFile>) -> Result<Vec<RepoFile>> {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let differ = |pair: &[RepoFile]| pair[0].path == pair[1].path && pair[0] != pair[1];
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
    fn entry(&self, node: TreeEntry) -> Result<Option<RepoFile>> {
        if node.kind != "file" {
            return Ok(None);
        }
        if !inside(&node.path) {
            let error = RemoteError::Outside { repository: self.wanted.repository(), path: node.path };
            return Err(error.with(ErrorKind::Network));
        }
        if !self.wanted.wants(&node.path) {
            return Ok(None);
        }
        let (bytes, digest) = match node.lfs {
            Some(large) => (large.size, ContentHash::Sha256(large.oid)),
            None => (node.size, ContentHash::Git(node.oid)),
        };
        let length = if matches!(digest, ContentHash::Git(_)) { 40 } else { 64 };
        let hex = digest.etag();
        if hex.len() != length || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(self.unusable("hash of a file"));
        }
        Ok(Some(RepoFile { path: node.path, bytes, digest }))
    }

    /// The error that the list exceeds the limit.
    fn too_long(&self) -> Error {
        let error = self.unusable("list of files");
        error.with_help("the list has more than 256 MB: name a folder of the repository that has fewer files")
    }

    /// The error that an answer of the hub is invalid.
    fn unusable(&self, what: &'static str) -> Error {
        let error = RemoteError::Answer {
            repository: self.wanted.repository(),
            address: shown_uri(&self.base),
            what,
        };
        let error = error.with(ErrorKind::Network);
        error.with_help("check HF_ENDPOINT, and whether a proxy answers instead of the hub")
    }
}

/// A file that is read by ranges and never stored. For a file of the hub, each range is requested from the hub, which
/// returns a newly signed address.
pub(super) struct RemoteFile {
    /// Keeps connections open. Clones share them.
    pub(super) agent: Agent,
    /// Token, address of the hub, and limits for repeating requests.
    pub(super) settings: HubSettings,
    /// Asked while a range arrives.
    pub(super) stop: Stop,
    /// The address of the file, without signatures.
    pub(super) url: String,
    /// The file's name in messages.
    pub(super) what: String,
    /// Size in bytes.
    pub(super) bytes: u64,
    /// Its version when it was listed.
    pub(super) version: Version,
    /// Which messages apply if a request fails.
    pub(super) server: Server,
}

/// The information by which a server distinguishes versions of a file, as far as it sends any.
#[derive(Clone, Default)]
pub(super) struct Version {
    /// The entity tag.
    etag: Option<String>,
    /// The header `Last-Modified`.
    last_modified: Option<String>,
}

impl Version {
    /// The version that the headers of an answer show.
    pub(super) fn of(head: &Head) -> Version {
        let last_modified = header(&head.headers, "last-modified").map(str::to_owned);
        Version { etag: head.etag.clone(), last_modified }
    }

    /// The version with this entity tag.
    pub(super) fn tagged(etag: String) -> Version {
        Version { etag: Some(etag), ..Version::default() }
    }

    /// The entity tag, or otherwise the time of the last change; empty if neither is known.
    pub(super) fn name(&self) -> &str {
        self.etag.as_deref().or(self.last_modified.as_deref()).unwrap_or_default()
    }

    /// Whether the contents certainly differ. Answers of a server need not all have the same headers.
    fn differs(&self, other: &Version) -> bool {
        match (&self.etag, &other.etag, &self.last_modified, &other.last_modified) {
            (Some(one), Some(other), ..) | (_, _, Some(one), Some(other)) => one != other,
            _ => false,
        }
    }
}

impl fmt::Debug for RemoteFile {
    /// Shows neither the settings nor the version.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteFile")
            .field("url", &self.url)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl RangeRead for RemoteFile {
    /// The size when the file was listed.
    fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Requests the range until all of it has arrived, each time only the bytes that are missing.
    ///
    /// # Errors
    /// Those of [`resume`](RemoteFile::resume), after all attempts.
    fn range(&self, start: u64, length: usize) -> Result<Bytes> {
        let http = Http::new(self.agent.clone(), self.server, &self.settings, &*self.stop);
        let mut tries = http.tries(&self.what);
        let mut got = Vec::new();
        while got.len() < length {
            let before = got.len();
            let outcome = self.resume(&http, start, length, &mut got);
            tries.is_done(got.len() > before, outcome)?;
        }
        Ok(got.into())
    }
}

impl RemoteFile {
    /// Requests the missing bytes of a range and appends those that arrive.
    ///
    /// # Errors
    /// The file has changed, the server does not support ranges, or the connection fails.
    fn resume(
        &self,
        http: &Http<'_>,
        start: u64,
        length: usize,
        got: &mut Vec<u8>,
    ) -> Result<(), RequestError> {
        let from = start + to_u64(got.len());
        let mut answer = http.get(&self.url, ByteSpan { from, to: Some(start + to_u64(length)) })?;
        let head = &answer.head;
        let is_other = Version::of(head).differs(&self.version);
        if head.status == StatusCode::OK && !is_other {
            return Err(RequestError::Final(without_ranges(&self.what)));
        }
        if is_other || first_and_total(&head.headers) != Some((from, self.bytes)) {
            return Err(RequestError::Final(RemoteError::changed(&self.what)));
        }
        while let Some(block) = answer.next()? {
            if got.len() + block.len() > length {
                return Err(RequestError::Final(RemoteError::changed(&self.what)));
            }
            got.extend_from_slice(&block);
        }
        let whole = got.len() == length;
        if whole {
            Ok(())
        } else {
            Err(RequestError::passing("the connection ended in the middle of a range"))
        }
    }
}

/// Requests the size and version of a file on a web server. The file is read by ranges and never stored.
///
/// A range of one byte is requested, because the answer to it shows the total size and whether ranges are supported.
///
/// # Errors
/// The server cannot be reached, refuses, or does not support ranges.
pub(super) fn open_without_download(uri: &str, settings: &HubSettings, stop: &Stop) -> Result<Streamed> {
    let settings = HubSettings { endpoint: origin(uri).to_owned(), token: None, ..settings.clone() };
    let agent = agent(&settings.patience);
    let http = Http::new(agent.clone(), Server::Web, &settings, &**stop);
    let what = shown_uri(uri);
    let mut tries = http.tries(&what);
    let head = loop {
        match http.get(uri, ByteSpan { from: 0, to: Some(1) }) {
            Ok(answer) => break answer.head,
            Err(trouble) => tries.failed(trouble)?,
        }
    };
    let total = first_and_total(&head.headers).map(|(_, total)| total);
    let bytes = total.or(is_empty(&head).then_some(0)).ok_or_else(|| without_ranges(&what))?;
    let version = Version::of(&head);
    let identity = Identity::Web { bytes, etag: version.name().to_owned() };
    let remote: Arc<dyn RangeRead> = Arc::new(RemoteFile {
        agent,
        stop: Arc::clone(stop),
        url: uri.to_owned(),
        what: what.clone(),
        bytes,
        version,
        settings,
        server: Server::Web,
    });
    // The query is not part of the name from which the format is derived.
    let path = uri.split(['?', '#']).next().unwrap_or(uri);
    Ok((((PathBuf::from(path), what), identity), Some(remote)))
}

/// The error that a server does not support ranges.
pub(super) fn without_ranges(what: &str) -> Error {
    let error = RemoteError::Refused {
        what: what.to_owned(),
        problem: "its host does not support range requests".to_owned(),
    };
    error
        .with(ErrorKind::Network)
        .with_help("download the file, and give its local path; on the hub leave `stream` out")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Versions differ only if both have the same kind of information.
    #[test]
    fn contents_differ_where_both_answers_say_so_in_one_way() {
        let version = |etag: Option<&str>, last_modified: Option<&str>| Version {
            etag: etag.map(str::to_owned),
            last_modified: last_modified.map(str::to_owned),
        };
        let listed = version(Some("a"), Some("Monday"));
        for (etag, last_modified, differs) in [
            (Some("a"), Some("Tuesday"), false),
            (Some("b"), Some("Monday"), true),
            (None, Some("Monday"), false),
            (None, Some("Tuesday"), true),
            (None, None, false),
        ] {
            let now = version(etag, last_modified);
            assert_eq!((now.differs(&listed), listed.differs(&now)), (differs, differs), "{etag:?}");
        }
        assert!(!version(None, Some("Monday")).differs(&version(Some("a"), None)));
        assert_eq!([listed.name(), version(None, Some("Monday")).name()], ["a", "Monday"]);
    }
}
