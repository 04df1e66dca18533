use super::address;
use super::api::{Api, Entry};
use super::cache::Cache;
use super::download::download;
use super::http::Http;
use super::uri::{CONVERTED, Wanted};
use super::{Fetched, HubFault, HubSettings};
use crate::error::{ErrorKind, Result};
use crate::observer::{Observer, Stage};

/// Finds the revision's commit and its files, and downloads those that the cache lacks.
pub(super) fn fetch(
    wanted: &Wanted,
    cache: &Cache,
    settings: &HubSettings,
    observer: &dyn Observer,
) -> Result<Vec<Fetched>> {
    let http = Http::new(settings, observer);
    let api = Api::new(&http, wanted, &settings.endpoint);
    for revision in wanted.revisions() {
        let commit = match api.commit(revision) {
            Ok(commit) => commit,
            // A dataset that has nothing to convert has no converted branch.
            Err(error) if revision == CONVERTED && error.kind() == ErrorKind::Failed => break,
            Err(error) => return Err(error),
        };
        let files = api.files(&commit)?;
        if files.is_empty() {
            continue;
        }
        let missing: Vec<&Entry> = files.iter().filter(|file| !cache.has(&commit, &file.path)).collect();
        if !missing.is_empty() {
            observer.started(Stage::Download, Some(missing.iter().map(|file| file.bytes).sum()));
            for file in missing {
                let url = resolve(wanted, settings, &commit, &file.path);
                download(&http, cache, &url, &commit, file, observer)?;
            }
            observer.finished(Stage::Download);
        }
        cache.note(revision, &commit)?;
        return Ok(files.iter().map(|file| cache.fetched(&commit, &file.path)).collect());
    }
    Err(HubFault::NoFiles { uri: wanted.uri.clone() }.with(ErrorKind::Failed))
}

/// The address of a file's content.
fn resolve(wanted: &Wanted, settings: &HubSettings, commit: &str, path: &str) -> String {
    let (namespace, name) = (address::segment(&wanted.namespace), address::segment(&wanted.name));
    format!("{}/datasets/{namespace}/{name}/resolve/{commit}/{}", settings.endpoint, address::path(path))
}
