//! Finds the files of the hub that a URI requests, and downloads them or opens them for reading by ranges.
//!
//! Commits and lists come from the library of the hub, `hf-hub`, and the content from the hub's addresses of files. It
//! needs no other protocol: the hub redirects to the whole content of every file, however the file is stored.
//!
//! Answers of the hub are not trusted. The number of listed files is limited, paths must stay inside the repository,
//! and hashes must have their form. An answer that violates this is an error and never a shorter list of files.
//!
//! **Memory:** the description of a commit and each page of a list are in memory as a whole. The library reads them,
//! and limits their sizes by nothing but time.

use std::collections::HashSet;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use hf_hub::repository::{RepoSibling, RepoTreeEntry, RepoTypeAny};
use hf_hub::{HFClient, HFError, HFResult};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, Url};
use tokio::time::timeout;

use super::cache::{Cache, download};
use super::file::{Place, RemoteFile, Version};
use super::repository::{CONVERTED, ContentHash, RepoFile, RepoKind, RepoRequest, inside, is_commit, is_hex};
use super::{Fetched, RemoteError, Streamed};
use crate::base::int::declared_sum;
use crate::base::secrets::shown_uri;
use crate::error::{Error, ErrorKind, Result};
use crate::network::{
    Http, HubFailure, HubSettings, Request, RequestError, Server, address, connection_failure, hub_client,
    refused, too_slow, wait_for,
};
use crate::observer::{Observer, Stage};
use crate::source::content::RangeRead;
use crate::source::{Identity, Stop};

/// Maximum number of files and folders in a list.
const MAX_ENTRIES: usize = 800_000;
/// Maximum number of files and folders that a list repeats. Pages may overlap, but a list that leads in a circle would
/// not end.
const MAX_REPEATED: usize = 10_000;
/// Number of entity tags that are requested at a time.
const TAGS_AT_ONCE: usize = 16;
/// The characters that an address must encode in the name of a repository, or in a path.
const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The commit that a URI names, and its requested files.
struct CommitFiles {
    /// The revision that was found.
    revision: String,
    /// The commit that the revision denotes.
    commit: String,
    /// The requested files of the commit.
    files: Vec<RepoFile>,
}

/// A repository of the hub.
struct Hub<'a> {
    /// Requests the content of files.
    http: Arc<Http>,
    /// Requests facts about the repository.
    client: HFClient,
    /// The repository, and which of its files to keep.
    wanted: &'a RepoRequest,
    /// The address of the hub, the limits, and the callback for notes.
    settings: &'a HubSettings,
    /// The cache of the repository's files.
    cache: Cache,
}

/// The files that a URI names. Those that the cache lacks are downloaded.
///
/// Files are downloaded one after the other. The cache records the commit of the revision only after it has all of
/// them.
///
/// # Errors
/// The files cannot be listed or downloaded, or the cache cannot be written.
pub(super) fn fetch(
    wanted: &RepoRequest,
    settings: &HubSettings,
    observer: &dyn Observer,
) -> Result<Vec<Fetched>> {
    if settings.offline {
        return Cache::of(wanted, settings).files(wanted, &*settings.noted);
    }
    let hub = Hub::new(wanted, settings)?;
    let found = wait_for(&|| observer.stopping(), &wanted.uri, hub.find())?;
    let files: Vec<&RepoFile> = found.files.iter().collect();
    hub.download_missing(&files, &found, observer)?;
    Ok(files.iter().map(|file| hub.cache.fetched(&found.commit, &file.path)).collect())
}

/// Downloads some files of one commit, unless the cache has them, and returns the path of the last. `choose` selects
/// them from all files of the repository.
///
/// # Errors
/// Those of `choose` and of [`fetch`].
pub(in crate::source) fn fetch_chosen(
    wanted: &RepoRequest,
    settings: &HubSettings,
    observer: &dyn Observer,
    choose: impl for<'f> FnOnce(&'f [RepoFile]) -> Result<Vec<&'f RepoFile>>,
) -> Result<PathBuf> {
    let hub = Hub::new(wanted, settings)?;
    let found = wait_for(&|| observer.stopping(), &wanted.uri, hub.find())?;
    let chosen = choose(&found.files)?;
    hub.download_missing(&chosen, &found, observer)?;
    let last = chosen.last().map(|file| file.path.as_str()).unwrap_or_default();
    Ok(hub.cache.snapshot(&found.commit, last))
}

/// The files that a URI names. Those that the cache lacks are opened for reading by ranges.
///
/// The files are those of the commit at the time of the call, even if the revision moves later. Nothing is written to
/// the cache.
///
/// # Errors
/// The files cannot be listed.
pub(super) fn stream(wanted: &RepoRequest, settings: &HubSettings, stop: &Stop) -> Result<Vec<Streamed>> {
    if settings.offline {
        let files = Cache::of(wanted, settings).files(wanted, &*settings.noted)?;
        return Ok(files.into_iter().map(|file| (file, None)).collect());
    }
    let hub = Hub::new(wanted, settings)?;
    wait_for(&**stop, &wanted.uri, async {
        let CommitFiles { commit, files, .. } = hub.find().await?;
        let opened = files.into_iter().map(|file| hub.opened(&commit, file, stop));
        stream::iter(opened).buffered(TAGS_AT_ONCE).try_collect().await
    })
}

impl<'a> Hub<'a> {
    /// The repository that `wanted` names.
    ///
    /// # Errors
    /// Those of [`hub_client`].
    fn new(wanted: &'a RepoRequest, settings: &'a HubSettings) -> Result<Hub<'a>> {
        let (http, client) = (Arc::new(Http::hub(settings)?), hub_client(settings)?);
        Ok(Hub { http, client, wanted, settings, cache: Cache::of(wanted, settings) })
    }

    /// The commit and the requested files. Without revision and path, the converted branch is tried second.
    ///
    /// The answer is complete or an error. With [`everything`](RepoRequest::everything) set, an empty list is an answer
    /// too: the caller reports that no file is suitable.
    ///
    /// # Errors
    /// The hub has no such repository, revision or file; or it cannot be reached, or refuses.
    async fn find(&self) -> Result<CommitFiles> {
        let wanted = self.wanted;
        for revision in wanted.revisions() {
            let (commit, siblings) = match self.http.repeat(&wanted.uri, || self.commit(revision)).await {
                Ok(found) => found,
                // A dataset that cannot be converted has no such branch.
                Err(error) if revision == CONVERTED && error.kind() == ErrorKind::Failed => break,
                Err(error) => return Err(error),
            };
            let mut files = self.http.repeat(&wanted.uri, || self.files(&commit, &siblings)).await?;
            wanted.keep_train(&mut files, |file| &file.path, &*self.settings.noted);
            if !files.is_empty() || wanted.everything {
                return Ok(CommitFiles { revision: revision.to_owned(), commit, files });
            }
        }
        let error = RemoteError::NoFiles { uri: wanted.uri.clone() }.with(ErrorKind::Failed);
        Err(error.with_help(
            "check the path or pattern after the name; without one the dataset's Parquet files are read",
        ))
    }

    /// The commit that a revision currently denotes, and the paths of its files as far as the hub names them there.
    ///
    /// # Errors
    /// The revision does not exist, or the hub cannot be asked.
    async fn commit(&self, revision: &str) -> Result<(String, Vec<RepoSibling>), RequestError> {
        let patience = self.settings.patience.whole;
        let answer = timeout(patience, self.description(revision)).await;
        let (commit, siblings) =
            answer.map_err(|_| too_slow(patience))?.map_err(|cause| self.refused(cause))?;
        let commit = commit.filter(|commit| is_commit(commit)).ok_or_else(|| self.unusable("commit"))?;
        Ok((commit, siblings.unwrap_or_default()))
    }

    /// The parts of a revision's description that are needed.
    async fn description(&self, revision: &str) -> HFResult<(Option<String>, Option<Vec<RepoSibling>>)> {
        let [owner, name] = [&self.wanted.namespace, &self.wanted.name].map(|part| encoded(part));
        Ok(match self.wanted.kind {
            RepoKind::Dataset => {
                let info = self.client.dataset(owner, name).info().revision(revision).send().await?;
                (info.sha, info.siblings)
            }
            RepoKind::Model => {
                let info = self.client.model(owner, name).info().revision(revision).send().await?;
                (info.sha, info.siblings)
            }
        })
    }

    /// The requested files of a commit, in byte order of their paths.
    ///
    /// The library ends a list without an error if it cannot read the link to the next page. So a list counts only if
    /// it has all files that the description of the commit names.
    ///
    /// # Errors
    /// The list is invalid or incomplete, leads out of the repository, or is larger than the limits.
    async fn files(&self, commit: &str, siblings: &[RepoSibling]) -> Result<Vec<RepoFile>, RequestError> {
        let [owner, name] = [&self.wanted.namespace, &self.wanted.name].map(|part| encoded(part));
        let kind = match self.wanted.kind {
            RepoKind::Dataset => RepoTypeAny::Dataset,
            RepoKind::Model => RepoTypeAny::Model,
        };
        let repository = self.client.repository(kind, owner, name);
        let listed = repository.list_tree().revision(commit).recursive(true).send();
        let mut listed = pin!(listed.map_err(|cause| self.refused(cause))?);
        let mut missing: HashSet<&str> = siblings.iter().map(|file| file.rfilename.as_str()).collect();
        let (mut files, mut entries, mut repeated, mut seen) = (Vec::new(), 0, 0, HashSet::new());
        let patience = self.settings.patience.whole;
        while let Some(entry) = timeout(patience, listed.next()).await.map_err(|_| too_slow(patience))? {
            let entry = entry.map_err(|cause| self.refused(cause))?;
            let (RepoTreeEntry::File { path, .. } | RepoTreeEntry::Directory { path, .. }) = &entry;
            entries += 1;
            repeated += usize::from(!seen.insert(path.clone()));
            if entries > MAX_ENTRIES || repeated > MAX_REPEATED {
                return Err(self.too_long().into());
            }
            let RepoTreeEntry::File { oid, size, path, lfs, .. } = entry else { continue };
            missing.remove(path.as_str());
            let digest = if lfs.is_some() { ContentHash::Pointer(oid) } else { ContentHash::Git(oid) };
            files.extend(self.kept(RepoFile { path, bytes: size, digest })?);
        }
        if !missing.is_empty() {
            return Err(self.unusable("list of files").into());
        }
        Ok(self.each_once(files)?)
    }

    /// The entry of a file, if it is requested.
    ///
    /// # Errors
    /// The path leaves the repository, or the hash is invalid.
    fn kept(&self, file: RepoFile) -> Result<Option<RepoFile>> {
        if !inside(&file.path) {
            let error = RemoteError::Outside { repository: self.wanted.repository(), path: file.path };
            return Err(error.with(ErrorKind::Network));
        }
        if !self.wanted.wants(&file.path) {
            return Ok(None);
        }
        let is_hash = is_hex(file.digest.hex(), 40);
        if is_hash { Ok(Some(file)) } else { Err(self.unusable("hash of a file")) }
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

    /// The file with the entity tag of its content. For a large file, the list has only the hash of the pointer to it,
    /// so the hub is asked for the tag. Messages call the file `what`.
    ///
    /// # Errors
    /// The hub cannot be asked, or has another file there.
    async fn tagged(&self, what: &str, commit: &str, file: RepoFile) -> Result<RepoFile> {
        let ContentHash::Pointer(_) = file.digest else { return Ok(file) };
        let head =
            self.http.head(what, &Request::new(Method::HEAD, self.resolve(commit, &file.path)?)).await?;
        let sha256 = head.etag.filter(|etag| is_hex(etag, 64)).ok_or_else(|| RemoteError::changed(what))?;
        Ok(RepoFile { digest: ContentHash::Sha256(sha256), ..file })
    }

    /// A file of a commit, opened for reading by ranges if the cache lacks it.
    ///
    /// # Errors
    /// Those of [`tagged`](Hub::tagged).
    async fn opened(&self, commit: &str, file: RepoFile, stop: &Stop) -> Result<Streamed> {
        let (place, identity) = self.cache.fetched(commit, &file.path);
        if self.cache.holds(commit, &file) {
            return Ok(((place, identity), None));
        }
        let what = place.1.clone();
        let file = self.tagged(&what, commit, file).await?;
        let etag = file.digest.hex().to_owned();
        let identity = Identity::Hub { commit: commit.to_owned(), etag: etag.clone() };
        let remote: Arc<dyn RangeRead> = Arc::new(RemoteFile {
            place: Place::Address(Arc::clone(&self.http), self.resolve(commit, &file.path)?),
            what,
            bytes: file.bytes,
            version: Version { etag: Some(etag), ..Version::default() },
            stop: Arc::clone(stop),
        });
        Ok(((place, identity), Some(remote)))
    }

    /// Downloads those of the given files that the cache lacks, and then records the commit of the revision.
    ///
    /// Observers see one download stage with the sum of the listed sizes, or none if nothing is missing.
    ///
    /// # Errors
    /// A file cannot be downloaded. The files before it stay in the cache.
    fn download_missing(
        &self,
        files: &[&RepoFile],
        found: &CommitFiles,
        observer: &dyn Observer,
    ) -> Result<()> {
        let commit = &found.commit;
        let missing: Vec<&RepoFile> =
            files.iter().copied().filter(|file| !self.cache.holds(commit, file)).collect();
        if !missing.is_empty() {
            observer.started(Stage::Download, declared_sum(missing.iter().map(|file| Some(file.bytes))));
            for file in missing {
                let what = format!("{} of {}", file.path, self.wanted.repository());
                let tagged = self.tagged(&what, commit, file.clone());
                let file = wait_for(&|| observer.stopping(), &what, tagged)?;
                let url = self.resolve(commit, &file.path)?;
                download(&self.http, &self.cache, &url, commit, &file, observer)?;
            }
            observer.finished(Stage::Download);
        }
        self.cache.note(&found.revision, commit)
    }

    /// The address of a file's content.
    ///
    /// It contains the commit and not the revision, so that all files are of the same version.
    ///
    /// # Errors
    /// The address of the hub is invalid.
    fn resolve(&self, commit: &str, path: &str) -> Result<Url> {
        let (prefix, name) = (self.wanted.kind.prefix(), encoded(&self.wanted.repository()));
        let endpoint = &self.settings.endpoint;
        address(&format!("{endpoint}/{prefix}{name}/resolve/{commit}/{}", encoded(path)))
    }

    /// Classifies an error of the library.
    fn refused(&self, cause: HFError) -> RequestError {
        match HubFailure::from(cause) {
            HubFailure::Refused { status, code, message, wait } => {
                refused(status, &code, &message, wait, Server::Hub, true)
            }
            HubFailure::Connection(cause) if self.is_elsewhere(&cause) => {
                self.unusable("list of files").into()
            }
            HubFailure::Connection(cause) => connection_failure(&cause),
            HubFailure::Unusable(_) => self.unusable("answer").into(),
        }
    }

    /// Whether a request was for another host than the hub. A list has named it, and the client lets nothing through
    /// to it.
    fn is_elsewhere(&self, cause: &reqwest::Error) -> bool {
        let hub = address(&self.settings.endpoint).map(|hub| hub.origin());
        cause.url().is_some_and(|url| hub.is_ok_and(|hub| hub != url.origin()))
    }

    /// The error that the list exceeds a limit.
    fn too_long(&self) -> Error {
        let error = self.unusable("list of files");
        error.with_help(format!(
            "the list has more than {MAX_ENTRIES} entries, or repeats itself: check HF_ENDPOINT, and whether a proxy \
             answers instead of the hub"
        ))
    }

    /// The error that an answer of the hub is invalid.
    fn unusable(&self, what: &'static str) -> Error {
        let (kind, repository) = (self.wanted.kind.plural(), self.wanted.repository());
        let address = shown_uri(&format!("{}/api/{kind}/{}", self.settings.endpoint, encoded(&repository)));
        let error = RemoteError::Answer { repository, address, what }.with(ErrorKind::Network);
        error.with_help("check HF_ENDPOINT, and whether a proxy answers instead of the hub")
    }
}

/// Percent-encodes a path or the name of a repository, except for slashes.
fn encoded(text: &str) -> String {
    utf8_percent_encode(text, &RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything but slashes is encoded that has a meaning in an address.
    #[test]
    fn paths_are_encoded() {
        assert_eq!(encoded("a b/ü#?.parquet"), "a%20b/%C3%BC%23%3F.parquet");
    }
}
