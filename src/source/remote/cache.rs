//! The cache of the hub's files, in the layout of Python's `huggingface_hub`, so that both share downloads:
//!
//! ```text
//! CACHE/datasets--NAMESPACE--NAME/blobs/ETAG                    content
//! CACHE/datasets--NAMESPACE--NAME/snapshots/COMMIT/PATH         link to a blob
//! CACHE/datasets--NAMESPACE--NAME/refs/REVISION                 commit
//! CACHE/.locks/datasets--NAMESPACE--NAME/ETAG.lock              held while a blob is downloaded
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::api::Entry;
use super::tokenizer::{choose, is_complete_alone, with_elsewhere};
use super::uri::{Kind, Wanted};
use super::{Fetched, HubFault, HubSettings};
use crate::base::atomic_file::{TEMPORARY_PREFIX, folder_of, publish_bytes, sync_folder};
use crate::base::int::{counted, to_u64};
use crate::error::{Error, ErrorKind, Result};
use crate::source::Identity;
use crate::source::listing::ShardSet;

/// A repository's folder in the cache that `huggingface_hub` also uses. `blobs` contains files by entity tag,
/// `snapshots` links to them by commit and path, and `refs` the commit that each revision denoted when the hub was
/// last asked.
pub(super) struct Cache {
    /// The folder of the repository.
    folder: PathBuf,
    /// The kind of the repository.
    kind: Kind,
    /// The name of the repository.
    repository: String,
}

impl Cache {
    /// The cache of the repository that a URI names.
    pub(super) fn of(wanted: &Wanted, settings: &HubSettings) -> Cache {
        let folder = settings.cache.join(format!("{}--{}", wanted.kind.plural(), wanted.joined("--")));
        Cache { folder, kind: wanted.kind, repository: wanted.repository() }
    }

    /// The name of the repository.
    pub(super) fn repository(&self) -> &str {
        &self.repository
    }

    /// The file that other programs, including Python's, lock as well while they download the file with an entity
    /// tag.
    pub(super) fn lock(&self, etag: &str) -> PathBuf {
        let (cache, name) = (folder_of(&self.folder), self.folder.file_name().unwrap_or_default());
        cache.join(".locks").join(name).join(format!("{etag}.lock"))
    }

    /// The folder that serves as a lock on file systems without locks: whoever claims it downloads the file.
    pub(super) fn claim(&self, etag: &str) -> PathBuf {
        self.lock(etag).with_extension("claim")
    }

    /// The path of a file of a commit, whether it exists or not. `path` must have passed [`inside`].
    pub(super) fn snapshot(&self, commit: &str, path: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit).join(path)
    }

    /// Whether the file exists and is complete. A link to a missing blob does not count.
    pub(super) fn has(&self, commit: &str, path: &str) -> bool {
        self.snapshot(commit, path).is_file()
    }

    /// Whether the file exists as the hub lists it: with that length, and linked to the blob of that entity tag.
    pub(super) fn holds(&self, commit: &str, entry: &Entry) -> bool {
        let snapshot = self.snapshot(commit, &entry.path);
        // On systems without links the snapshot is a copy.
        let linked = fs::read_link(&snapshot).ok();
        let is_linked =
            linked.is_none_or(|blob| blob.file_name().is_some_and(|name| name == entry.digest.etag()));
        is_linked && is_whole(&snapshot, entry.bytes)
    }

    /// The path of the blob with an entity tag, whether it exists or not.
    pub(super) fn blob(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(etag)
    }

    /// Creates the folder of a file.
    pub(super) fn make_folder_of(&self, place: &Path) -> Result<()> {
        let folder = folder_of(place);
        fs::create_dir_all(folder).map_err(|cause| Error::io("create", folder, cause))
    }

    /// Moves a verified file to the blobs.
    ///
    /// # Errors
    /// The file cannot be renamed, or the rename cannot be made durable.
    pub(super) fn keep(&self, file: &Path, etag: &str) -> Result<()> {
        let blob = self.blob(etag);
        fs::rename(file, &blob).map_err(|cause| Error::io("write", &blob, cause))?;
        sync_folder(folder_of(&blob))
    }

    /// Links the snapshot of a commit to a blob.
    ///
    /// # Errors
    /// The link cannot be created.
    pub(super) fn link(&self, etag: &str, commit: &str, path: &str) -> Result<()> {
        let snapshot = self.snapshot(commit, path);
        self.make_folder_of(&snapshot)?;
        let up = "../".repeat(path.split('/').count() + 1);
        link(Path::new(&format!("{up}blobs/{etag}")), &self.blob(etag), &snapshot)
            .map_err(|cause| Error::io("write", &snapshot, cause))
    }

    /// Records the commit of a revision. If it is recorded already, the cache need not be writable.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub(super) fn note(&self, revision: &str, commit: &str) -> Result<()> {
        if self.noted(revision).as_deref() == Some(commit) {
            return Ok(());
        }
        let path = self.folder.join("refs").join(revision);
        self.make_folder_of(&path)?;
        publish_bytes(&path, commit.as_bytes())
    }

    /// The recorded commit of a revision. A commit denotes itself.
    fn noted(&self, revision: &str) -> Option<String> {
        if is_commit(revision) {
            return Some(revision.to_owned());
        }
        let commit = fs::read_to_string(self.folder.join("refs").join(revision)).ok()?;
        Some(commit.trim().to_owned()).filter(|commit| is_commit(commit))
    }

    /// A file of the cache, as a source reads it.
    pub(super) fn fetched(&self, commit: &str, path: &str) -> Fetched {
        let snapshot = self.snapshot(commit, path);
        // On systems without links the snapshot is a copy, and only the commit identifies it.
        let blob = fs::read_link(&snapshot).ok();
        let etag = blob.and_then(|blob| Some(blob.file_name()?.to_string_lossy().into_owned()));
        let identity = Identity::Hub { commit: commit.to_owned(), etag: etag.unwrap_or_default() };
        let name = format!("hf://{}{}@{commit}/{path}", self.kind.prefix(), self.repository);
        ((snapshot, name), identity)
    }

    /// The files in the cache that a URI names, without asking the hub.
    ///
    /// # Errors
    /// The cache lacks the revision, or a file that the request or a numbered set requires.
    pub(super) fn files(&self, wanted: &Wanted, noted: &dyn Fn(&str)) -> Result<Vec<Fetched>> {
        for revision in wanted.revisions() {
            let Some(commit) = self.noted(revision) else { continue };
            let root = self.folder.join("snapshots").join(&commit);
            let mut paths = Vec::new();
            below(&root, "", &mut paths)?;
            paths.retain(|path| wanted.wants(path));
            wanted.keep_train(&mut paths, String::as_str, noted);
            paths.sort();
            // A missing file would silently remove rows from the dataset. It may be a blob that somebody removed, to
            // which a link still exists, or a shard that was never downloaded.
            let sets: BTreeSet<ShardSet<'_>> =
                paths.iter().filter_map(|path| ShardSet::of(path)).map(|(set, _)| set).collect();
            let numbered = sets.into_iter().flat_map(ShardSet::paths).filter(|path| wanted.wants(path));
            if let Some(path) = paths.iter().cloned().chain(numbered).find(|path| !self.has(&commit, path)) {
                return Err(self.lacks(self.fetched(&commit, &path).0.1));
            }
            if !paths.is_empty() {
                let is_whole = paths.iter().all(|path| ShardSet::of(path).is_some());
                if !is_whole && wanted.path.as_ref() != paths.first() {
                    let files = counted(to_u64(paths.len()), "file");
                    let unknown = "in the cache are used; the hub may have more";
                    noted(&format!("offline: {files} of {} {unknown}", wanted.uri));
                }
                return Ok(paths.iter().map(|path| self.fetched(&commit, path)).collect());
            }
        }
        Err(self.lacks(wanted.uri.clone()))
    }

    /// The main file of a tokenizer in the cache, without asking the hub.
    ///
    /// # Errors
    /// The cache lacks the revision, or has no tokenizer there.
    pub(super) fn tokenizer(&self, wanted: &Wanted, noted: &dyn Fn(&str)) -> Result<PathBuf> {
        for revision in wanted.revisions() {
            let Some(commit) = self.noted(revision) else { continue };
            let mut paths = Vec::new();
            below(&self.folder.join("snapshots").join(&commit), "", &mut paths)?;
            paths.retain(|path| self.has(&commit, path));
            paths.sort();
            let names: Vec<&str> = paths.iter().map(String::as_str).collect();
            let Ok(chosen) = choose(&names, wanted.path.as_deref()) else { continue };
            if !is_complete_alone(chosen.main) {
                let unknown = "the hub may have more files beside it";
                noted(&format!("offline: {} of {} is used; {unknown}", chosen.main, wanted.uri));
            }
            return Ok(self.snapshot(&commit, chosen.main));
        }
        Err(with_elsewhere(self.lacks(wanted.uri.clone()), wanted))
    }

    /// The error that the cache lacks a file.
    fn lacks(&self, uri: String) -> Error {
        let fault = HubFault::NotCached { uri, cache: self.folder.clone() };
        fault.with(ErrorKind::Network).with_help("run it once online, without HF_HUB_OFFLINE")
    }
}

/// Adds the files below a folder as paths with slashes; none if the folder does not exist.
///
/// # Errors
/// A folder cannot be read. Leaving its files out would silently remove rows from the dataset.
fn below(folder: &Path, prefix: &str, found: &mut Vec<String>) -> Result<()> {
    let io = |cause| Error::io("read", folder, cause);
    let entries = match fs::read_dir(folder) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(io)?,
    };
    for entry in entries {
        let entry = entry.map_err(io)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{prefix}{name}");
        if entry.file_type().map_err(io)?.is_dir() {
            below(&entry.path(), &format!("{path}/"), found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

/// Creates or replaces a link. Another process may be reading, so the link exists at every moment: a wrong one is
/// replaced atomically.
#[cfg(unix)]
fn link(relative: &Path, blob: &Path, snapshot: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::symlink;
    if fs::read_link(snapshot).is_ok_and(|there| there == relative) {
        return Ok(());
    }
    // The temporary link is not created beside its final name, because files there count as part of the dataset.
    let link = tempfile::Builder::new()
        .prefix(TEMPORARY_PREFIX)
        .make_in(folder_of(blob), |path| symlink(relative, path))?;
    link.into_temp_path().persist(snapshot).map_err(|failed| failed.error)
}

#[cfg(not(unix))]
fn link(_relative: &Path, blob: &Path, snapshot: &Path) -> std::io::Result<()> {
    fs::copy(blob, snapshot).map(|_| ())
}

/// Whether a text is the full hash of a commit.
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a file has this number of bytes.
pub(super) fn is_whole(path: &Path, bytes: u64) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == bytes)
}

/// Whether a path from a server stays inside the folder that it is joined to.
pub(super) fn inside(path: &str) -> bool {
    let leads_out = |letter| letter == '\0' || cfg!(windows) && matches!(letter, '\\' | ':');
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(leads_out);
    path.split('/').all(plain)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A shard's name gives the names of the whole set.
    #[test]
    fn a_file_may_say_how_many_there_are() {
        let all = |path| ShardSet::of(path).map(|(set, _)| set.paths().collect::<Vec<_>>());
        let expected = ["a/t-00000-of-00002.x", "a/t-00001-of-00002.x"].map(str::to_owned).to_vec();
        assert_eq!(all("a/t-00001-of-00002.x"), Some(expected));
        assert_eq!(all("t-7-of-1"), Some(vec!["t-0-of-1".to_owned()]));
        for path in [
            "a.parquet",
            "best-of-2.x",
            "t-1-of-",
            "t-001-of-2",
            "t--of-",
            "t-x-of-2",
            "t-1-of-é",
            "t-0000000-of-9999999",
        ] {
            assert_eq!(all(path), None, "{path}");
        }
    }

    /// A reader sees the link at every moment while it is replaced.
    #[test]
    fn a_link_is_there_at_every_moment() {
        let folder = tempfile::tempdir().expect("a folder");
        let (folder_path, repository) = (folder.path().to_owned(), "somebody/words".to_owned());
        let cache = Cache { folder: folder_path, kind: Kind::Dataset, repository };
        for etag in ["one", "two"] {
            cache.make_folder_of(&cache.blob(etag)).expect("a folder");
            fs::write(cache.blob(etag), etag).expect("a blob");
        }
        cache.link("one", "commit", "data/a.txt").expect("a link");
        std::thread::scope(|scope| {
            let linking = scope.spawn(|| {
                for etag in ["two", "two", "one"].repeat(300) {
                    cache.link(etag, "commit", "data/a.txt").expect("a link");
                }
            });
            while !linking.is_finished() {
                assert!(cache.has("commit", "data/a.txt"));
            }
        });
        assert_eq!(fs::read(cache.snapshot("commit", "data/a.txt")).expect("a file"), b"one");
        assert_eq!(fs::read_dir(folder.path().join("blobs")).expect("a folder").count(), 2);
    }
}
