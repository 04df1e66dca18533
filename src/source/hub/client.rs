use std::fs::{self, File};
use std::path::Path;

use hf_hub::repository::{RepoTreeEntry, RepoTypeDataset};
use hf_hub::{HFClient, HFClientSync, HFError, HFRepositorySync};

use super::cache::{Cache, inside, is_commit};
use super::uri::Wanted;
use super::{Fetched, HubFault, HubSettings};
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Stage};
use crate::source::content;

/// A file as the hub lists it.
struct Entry {
    path: String,
    bytes: u64,
}

/// Finds the revision's commit and its files, and downloads those that the cache lacks.
pub(super) fn fetch(
    wanted: &Wanted,
    cache: &Cache,
    settings: &HubSettings,
    observer: &dyn Observer,
) -> Result<Vec<Fetched>> {
    let hub = Hub::new(wanted, settings, &settings.cache)?;
    for revision in wanted.revisions() {
        let commit = match hub.commit(revision) {
            Ok(commit) => commit,
            // A dataset that has nothing to convert has no converted branch.
            Err(error) if revision == super::uri::CONVERTED && error.kind() == ErrorKind::Failed => break,
            Err(error) => return Err(error),
        };
        let files = hub.files(&commit)?;
        if files.is_empty() {
            continue;
        }
        let missing: Vec<&Entry> = files.iter().filter(|file| !cache.has(&commit, &file.path)).collect();
        if !missing.is_empty() {
            download(wanted, cache, settings, &commit, &missing, observer)?;
        }
        cache.note(revision, &commit)?;
        return Ok(files.iter().map(|file| cache.fetched(&commit, &file.path)).collect());
    }
    Err(HubFault::NoFiles { uri: wanted.uri.clone() }.with(ErrorKind::Failed))
}

/// Downloads into a folder of their own beside the cache's, from where files move only once verified: the
/// client would give a cut-off body or an error page the name of the whole file.
fn download(
    wanted: &Wanted,
    cache: &Cache,
    settings: &HubSettings,
    commit: &str,
    files: &[&Entry],
    observer: &dyn Observer,
) -> Result<()> {
    fs::create_dir_all(cache.folder()).map_err(|cause| Error::io("create", cache.folder(), cause))?;
    let staging = tempfile::Builder::new().prefix(crate::files::TEMPORARY_PREFIX).tempdir_in(cache.folder());
    let staging = staging.map_err(|cause| Error::io("create", cache.folder(), cause))?;
    let hub = Hub::new(wanted, settings, staging.path())?;
    observer.started(Stage::Download, Some(files.iter().map(|file| file.bytes).sum()));
    for file in files {
        observer.checkpoint()?;
        let link = hub.repository.download_file().filename(file.path.as_str()).revision(commit).send();
        let link =
            link.map_err(|cause| refused(format!("{} of {}", file.path, cache.repository()), cause))?;
        let arrived = fs::canonicalize(&link).map_err(|cause| Error::io("read", &link, cause))?;
        let etag = arrived.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        verify(&arrived, &etag, file)?;
        cache.keep(&arrived, &etag, commit, &file.path)?;
        observer.advanced(Stage::Download, file.bytes);
    }
    observer.finished(Stage::Download);
    Ok(())
}

/// Compares a file with what the hub said of it. The entity tag of a large file is its SHA-256; that of
/// a small one is Git's hash, and its size alone is compared.
fn verify(arrived: &Path, etag: &str, file: &Entry) -> Result<()> {
    let io = |cause| Error::io("read", arrived, cause);
    let broken = |problem: String| {
        let error = HubFault::Broken { path: file.path.clone(), problem }.with(ErrorKind::Network);
        Err(error.with_help("run the same command again; files that are whole are kept"))
    };
    let bytes = fs::metadata(arrived).map_err(io)?.len();
    if bytes != file.bytes {
        return broken(format!("it has {bytes} bytes of {}", file.bytes));
    }
    if etag.len() == 64 {
        let sha256 = content::sha256(File::open(arrived).map_err(io)?).map_err(io)?;
        if sha256 != etag {
            return broken(format!("its SHA-256 is {sha256}, not {etag}"));
        }
    }
    Ok(())
}

/// The hub's answers about one dataset.
struct Hub<'a> {
    wanted: &'a Wanted,
    repository: HFRepositorySync<RepoTypeDataset>,
}

impl Hub<'_> {
    fn new<'a>(wanted: &'a Wanted, settings: &HubSettings, cache: &Path) -> Result<Hub<'a>> {
        let mut builder = HFClient::builder().endpoint(settings.endpoint.as_str()).cache_dir(cache);
        if let Some(token) = &settings.token {
            builder = builder.token(token.as_str());
        }
        let client: HFClientSync =
            builder.build_sync().map_err(|cause| refused(wanted.uri.clone(), cause))?;
        let repository = client.dataset(wanted.namespace.as_str(), wanted.name.as_str());
        Ok(Hub { wanted, repository })
    }

    /// The commit that a revision is now.
    fn commit(&self, revision: &str) -> Result<String> {
        let info = self.repository.info().revision(revision).send();
        let commit = info.map_err(|cause| refused(self.wanted.uri.clone(), cause))?.sha;
        commit.filter(|commit| is_commit(commit)).ok_or_else(|| self.answer("commit"))
    }

    /// The files that are wanted, in byte order of their paths.
    fn files(&self, commit: &str) -> Result<Vec<Entry>> {
        let tree = self.repository.list_tree().revision(commit).recursive(true).send();
        let mut files = Vec::new();
        for entry in tree.map_err(|cause| refused(self.wanted.uri.clone(), cause))? {
            let RepoTreeEntry::File { path, size, .. } = entry else { continue };
            if !inside(&path) {
                let fault = HubFault::Outside { repository: self.wanted.repository(), path };
                return Err(fault.with(ErrorKind::Network));
            }
            if self.wanted.wants(&path) {
                files.push(Entry { path, bytes: size });
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    fn answer(&self, what: &'static str) -> Error {
        HubFault::Answer { repository: self.wanted.repository(), what }.with(ErrorKind::Network)
    }
}

/// The client's error with what it means for the user.
fn refused(uri: String, cause: HFError) -> Error {
    let (kind, help) = match &cause {
        HFError::AuthRequired { .. } => (
            ErrorKind::Authorisation,
            "the dataset is missing, or private: check its name, or set HF_TOKEN to a token that may read it",
        ),
        HFError::Forbidden { .. } => (
            ErrorKind::Authorisation,
            "accept the dataset's terms on its page, and set HF_TOKEN to a token that may read it",
        ),
        HFError::RepoNotFound { .. } => (ErrorKind::Failed, "check the dataset's name"),
        HFError::RevisionNotFound { .. } => (ErrorKind::Failed, "check the revision after the @"),
        HFError::EntryNotFound { .. } => (ErrorKind::Failed, "check the path in the dataset"),
        HFError::Io(_) => (ErrorKind::Failed, "check that the cache's folder can be written to"),
        HFError::RateLimited { .. } => {
            (ErrorKind::Network, "wait some minutes, then run the same command again")
        }
        _ => (ErrorKind::Network, "check the network, then run the same command again"),
    };
    Error::new(kind, HubFault::Refused { uri, cause }).with_help(help)
}
