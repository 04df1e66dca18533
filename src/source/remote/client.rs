//! The hub's client: finds the files that a URI requests, and downloads them or opens them for reading by ranges.

use std::path::PathBuf;
use std::sync::Arc;

use super::address;
use super::api::{Api, Entry};
use super::cache::Cache;
use super::download::download;
use super::http::{Http, agent};
use super::ranged::{RemoteFile, Version};
use super::refusal::Server;
use super::tokenizer::{check_sizes, choose};
use super::uri::{CONVERTED, Wanted};
use super::{Fetched, HubFault, HubSettings, Streamed};
use crate::base::int::declared_sum;
use crate::error::{ErrorKind, Result};
use crate::observer::{Observer, Stage};
use crate::source::Identity;
use crate::source::Stop;
use crate::source::content::RangeRead;

/// The commit that a URI names, and its requested files.
struct Found {
    /// The revision that was found.
    revision: String,
    /// The commit that the revision denotes.
    commit: String,
    /// The requested files of the commit.
    files: Vec<Entry>,
}

/// Asks the hub for the commit and the files. Without revision and path, the converted branch is tried second.
///
/// # Errors
/// The hub has no such repository, revision or file; or it cannot be reached, or refuses.
fn find(wanted: &Wanted, http: &Http<'_>, settings: &HubSettings) -> Result<Found> {
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
            return Ok(Found { revision: revision.to_owned(), commit, files });
        }
    }
    let error = HubFault::NoFiles { uri: wanted.uri.clone() }.with(ErrorKind::Failed);
    Err(error.with_help(
        "check the path or pattern after the name; without one the dataset's Parquet files are read",
    ))
}

/// Downloads the files that the cache lacks, and returns all of them.
///
/// # Errors
/// The files cannot be listed or downloaded, or the cache cannot be written.
pub(super) fn fetch(
    wanted: &Wanted,
    cache: &Cache,
    settings: &HubSettings,
    observer: &dyn Observer,
) -> Result<Vec<Fetched>> {
    let stop = || observer.stopping();
    let http = Http::new(agent(&settings.patience), Server::Hub, settings, &stop);
    let Found { revision, commit, files } = find(wanted, &http, settings)?;
    let files: Vec<&Entry> = files.iter().collect();
    bring(&files, &commit, wanted, &http, cache, settings, observer)?;
    cache.note(&revision, &commit)?;
    Ok(files.iter().map(|file| cache.fetched(&commit, &file.path)).collect())
}

/// Downloads the files of a tokenizer that the cache lacks, all of the same commit, and returns the path of its main
/// file.
///
/// # Errors
/// The repository has no tokenizer at the path, or several; or the files cannot be downloaded.
pub(super) fn fetch_tokenizer(
    wanted: &Wanted,
    cache: &Cache,
    settings: &HubSettings,
    observer: &dyn Observer,
) -> Result<PathBuf> {
    let stop = || observer.stopping();
    let http = Http::new(agent(&settings.patience), Server::Hub, settings, &stop);
    let Found { revision, commit, files } = find(wanted, &http, settings)?;
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let chosen = choose(&paths, wanted.path.as_deref()).map_err(|unchosen| unchosen.error(wanted))?;
    // The main file comes last: if it is in the cache, so are the others.
    let needed: Vec<&Entry> = chosen
        .beside
        .iter()
        .chain([&chosen.main])
        .filter_map(|path| files.iter().find(|file| file.path == *path))
        .collect();
    check_sizes(wanted, &needed)?;
    bring(&needed, &commit, wanted, &http, cache, settings, observer)?;
    cache.note(&revision, &commit)?;
    Ok(cache.snapshot(&commit, chosen.main))
}

/// Downloads those of the given files of a commit that the cache lacks.
fn bring(
    files: &[&Entry],
    commit: &str,
    wanted: &Wanted,
    http: &Http<'_>,
    cache: &Cache,
    settings: &HubSettings,
    observer: &dyn Observer,
) -> Result<()> {
    let missing: Vec<&Entry> = files.iter().copied().filter(|file| !cache.holds(commit, file)).collect();
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
/// # Errors
/// The files cannot be listed.
pub(super) fn stream(
    wanted: &Wanted,
    cache: &Cache,
    settings: &HubSettings,
    stop: &Stop,
) -> Result<Vec<Streamed>> {
    let agent = agent(&settings.patience);
    let Found { commit, files, .. } =
        find(wanted, &Http::new(agent.clone(), Server::Hub, settings, &**stop), settings)?;
    let remote = |file: Entry| {
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
fn resolve(wanted: &Wanted, settings: &HubSettings, commit: &str, path: &str) -> String {
    let (prefix, name) = (wanted.kind.prefix(), address::path(&wanted.repository()));
    format!("{}/{prefix}{name}/resolve/{commit}/{}", settings.endpoint, address::path(path))
}
