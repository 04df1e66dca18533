//! The cache of the hub's files, in the layout of Python's `huggingface_hub`, so that both share downloads:
//!
//! ```text
//! CACHE/datasets--NAMESPACE--NAME/blobs/ETAG                    content
//! CACHE/datasets--NAMESPACE--NAME/snapshots/COMMIT/PATH         link to a blob
//! CACHE/datasets--NAMESPACE--NAME/refs/REVISION                 commit
//! CACHE/.locks/datasets--NAMESPACE--NAME/ETAG.lock              held while a blob is downloaded
//! ```
//!
//! Interrupted downloads continue where they ended, and the content is verified. A file gets its final name only after
//! its hash was verified, in one atomic step. Before that, one process at a time appends to a partial file, under a
//! lock that Python's library also uses. On file systems without locks, processes claim a folder instead.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use reqwest::{StatusCode, Url};

use super::repository::{ContentHash, RepoFile, RepoKind, RepoRequest, git_hash, is_commit};
use super::{Fetched, RemoteError};
use crate::base::atomic_file::{self, TEMPORARY_PREFIX, publish_bytes, sync_folder};
use crate::base::folder_lock::{self, Claim, Heartbeat, IfHeld};
use crate::base::folder_of;
use crate::base::int::{to_u64, with_unit};
use crate::base::integrity;
use crate::error::{Error, ErrorKind, Result};
use crate::network::{Head, Http, HubSettings, RequestError, Sink, wait_for};
use crate::observer::{Observer, Stage};
use crate::source::Identity;
use crate::source::listing::ShardSet;

/// A repository's folder in the cache that `huggingface_hub` also uses. `blobs` contains files by entity tag,
/// `snapshots` links to them by commit and path, and `refs` the commit that each revision denoted when the hub was
/// last asked.
pub(in crate::source) struct Cache {
    /// The folder of the repository.
    folder: PathBuf,
    /// The kind of the repository.
    kind: RepoKind,
    /// The name of the repository.
    repository: String,
}

impl Cache {
    /// The cache of the repository that a URI names.
    pub(in crate::source) fn of(wanted: &RepoRequest, settings: &HubSettings) -> Cache {
        let folder = settings.cache.join(format!("{}--{}", wanted.kind.plural(), wanted.joined("--")));
        Cache { folder, kind: wanted.kind, repository: wanted.repository() }
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

    /// The path of a file of a commit, whether it exists or not. `path` must have passed
    /// [`inside`](super::repository::inside).
    pub(in crate::source) fn snapshot(&self, commit: &str, path: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit).join(path)
    }

    /// Whether the file exists and is complete. A link to a missing blob does not count.
    pub(super) fn has(&self, commit: &str, path: &str) -> bool {
        self.snapshot(commit, path).is_file()
    }

    /// Whether the file exists as the hub lists it: with that length, and linked to the blob of that entity tag.
    pub(super) fn holds(&self, commit: &str, entry: &RepoFile) -> bool {
        let snapshot = self.snapshot(commit, &entry.path);
        // On systems without links the snapshot is a copy.
        let linked = fs::read_link(&snapshot).ok();
        let is_blob =
            |name: &std::ffi::OsStr| name.to_str().is_some_and(|etag| entry.digest.is_of(etag, entry.bytes));
        let is_linked = linked.is_none_or(|blob| blob.file_name().is_some_and(is_blob));
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
    ///
    /// The name is the URI of the file with its commit, for messages and manifests. The file need not exist.
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
    /// Sorted by path. `noted` receives notes, for example that the hub may have more files than the cache.
    ///
    /// # Errors
    /// The cache lacks the revision, or a file that the request or a numbered set requires.
    pub(super) fn files(&self, wanted: &RepoRequest, noted: &dyn Fn(&str)) -> Result<Vec<Fetched>> {
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
                return Err(self.not_cached(self.fetched(&commit, &path).0.1));
            }
            if !paths.is_empty() {
                let is_whole = paths.iter().all(|path| ShardSet::of(path).is_some());
                if !is_whole && wanted.path.as_ref() != paths.first() {
                    let files = with_unit(to_u64(paths.len()), "file");
                    let unknown = "in the cache are used; the hub may have more";
                    noted(&format!("offline: {files} of {} {unknown}", wanted.uri));
                }
                return Ok(paths.iter().map(|path| self.fetched(&commit, path)).collect());
            }
        }
        Err(self.not_cached(wanted.uri.clone()))
    }

    /// The commits of the requested revisions that the cache has, in the order in which they are tried, each with the
    /// paths of its complete files in byte order. The hub is not asked.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub(in crate::source) fn complete_files(
        &self,
        wanted: &RepoRequest,
    ) -> Result<Vec<(String, Vec<String>)>> {
        let commits = wanted.revisions().into_iter().filter_map(|revision| self.noted(revision));
        let files = |commit: String| {
            let mut paths = Vec::new();
            below(&self.folder.join("snapshots").join(&commit), "", &mut paths)?;
            paths.retain(|path| self.has(&commit, path));
            paths.sort();
            Ok((commit, paths))
        };
        commits.map(files).collect()
    }

    /// The error that the cache lacks a file.
    pub(in crate::source) fn not_cached(&self, uri: String) -> Error {
        let error = RemoteError::NotCached { uri, cache: self.folder.clone() };
        error.with(ErrorKind::Network).with_help("run it once online, without HF_HUB_OFFLINE")
    }
}

/// Adds the files below a folder as paths with slashes; none if the folder does not exist.
///
/// The order is that of the file system. Names that are not UTF-8 are left out, as no path of the hub has one.
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

/// Copies the blob, since links may need privileges here. The copy is not atomic.
#[cfg(not(unix))]
fn link(_relative: &Path, blob: &Path, snapshot: &Path) -> std::io::Result<()> {
    fs::copy(blob, snapshot).map(|_| ())
}

/// Whether a file has this number of bytes.
pub(super) fn is_whole(path: &Path, bytes: u64) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == bytes)
}

/// Downloads a file of a commit into the cache. Its entity tag must be known.
///
/// The bytes are collected in `blobs/ETAG.incomplete`, where interrupted downloads continue, also those of Python's
/// `huggingface_hub`. The file gets its final name only if it has the size and the hash that the hub lists.
///
/// Returns at once if another process completes the file while this one waits for the lock. If bytes from an earlier
/// download give a wrong hash, the file is downloaded once more from the beginning; after that, a wrong hash is an
/// error.
///
/// # Errors
/// The hub refuses or sends other content, attempts are exhausted, or the cache cannot be written.
pub(super) fn download(
    http: &Http,
    cache: &Cache,
    url: &Url,
    commit: &str,
    entry: &RepoFile,
    observer: &dyn Observer,
) -> Result<()> {
    let etag = entry.digest.hex();
    let what = format!("{} of {}", entry.path, cache.repository);
    let Some(mut partial) = PartialFile::open(cache, entry, observer)? else {
        observer.advanced(Stage::Download, entry.bytes);
        return cache.link(etag, commit, &entry.path);
    };
    let (stop, mut reported) = (|| observer.stopping(), 0);
    let mut is_continued = partial.bytes()? > 0;
    loop {
        let mut download =
            FileDownload { partial: &mut partial, entry, observer, what: &what, reported: &mut reported };
        wait_for(&stop, &what, http.fetch(&what, url, &mut download))?;
        match partial.problem(&entry.digest, observer)? {
            None => break,
            // The bytes that were found here may belong to a different file, so it is downloaded once from the
            // beginning.
            Some(_) if std::mem::take(&mut is_continued) => partial.empty()?,
            Some(problem) => {
                partial.remove()?;
                return Err(broken(&what, problem));
            }
        }
    }
    partial.publish(cache, etag)?;
    cache.link(etag, commit, &entry.path)
}

/// The error that a file did not arrive complete.
fn broken(what: &str, problem: String) -> Error {
    let error = RemoteError::Broken { what: what.to_owned(), problem }.with(ErrorKind::Network);
    error.with_help("run the same command again; complete files are kept")
}

/// The download of one file.
struct FileDownload<'a> {
    /// The bytes so far.
    partial: &'a mut PartialFile,
    /// The size and the hash that the hub lists.
    entry: &'a RepoFile,
    /// Receives the progress.
    observer: &'a dyn Observer,
    /// The file's name in messages.
    what: &'a str,
    /// Number of bytes that were reported. Bytes that are downloaded again are not counted again.
    reported: &'a mut u64,
}

impl Sink for FileDownload<'_> {
    fn missing(&mut self) -> Result<Option<(u64, Option<u64>)>> {
        let mut have = self.partial.bytes()?;
        if have > self.entry.bytes {
            self.partial.empty()?;
            have = 0;
        }
        if have > *self.reported {
            self.observer.advanced(Stage::Download, have - *self.reported);
            *self.reported = have;
        }
        Ok((have < self.entry.bytes).then_some((have, None)))
    }

    /// Checks that an answer is of the listed file and continues where the partial file ends. If the answer starts
    /// from the beginning, empties the partial file.
    fn begin(&mut self, head: &Head, from: u64) -> Result<(), RequestError> {
        let expected = self.entry.digest.hex();
        if let Some(etag) = head.etag.as_ref().filter(|etag| *etag != expected) {
            let problem = format!("the hub now has another file there ({etag}, not {expected})");
            return Err(broken(self.what, problem).into());
        }
        let start = match head.status {
            StatusCode::PARTIAL_CONTENT => head.first_and_total().map(|(first, _)| first),
            StatusCode::RANGE_NOT_SATISFIABLE => None,
            _ => Some(0),
        };
        if start == Some(from) {
            return Ok(());
        }
        self.partial.empty()?;
        let other = || RequestError::passing("its answer has other bytes than were requested");
        start.filter(|start| *start == 0).map(|_| ()).ok_or_else(other)
    }

    fn append(&mut self, block: &[u8]) -> Result<()> {
        let have = self.partial.bytes()? + to_u64(block.len());
        if have > self.entry.bytes {
            let problem = format!("it has more than the {} bytes that the hub lists", self.entry.bytes);
            self.partial.remove()?;
            return Err(broken(self.what, problem));
        }
        self.partial.append(block)?;
        self.missing().map(|_| ())
    }
}

/// A file that is not complete. Other downloads of it wait as long as the lock is held.
struct PartialFile {
    /// The file with the bytes so far, open for appending.
    file: File,
    /// The path of the file.
    path: PathBuf,
    /// Keeps other downloads waiting.
    lock: DownloadLock,
}

/// Keeps other downloads of the file waiting.
enum DownloadLock {
    /// A file lock of the system.
    Lock(#[expect(dead_code, reason = "held for its lock")] File),
    /// A folder that one process claims, where file locks do not work.
    Claim(Claim),
}

impl PartialFile {
    /// Opens the partial file, or creates it. `None` if the complete file exists, perhaps since a moment ago.
    ///
    /// # Errors
    /// The lock or the file cannot be opened, or waiting is interrupted.
    fn open(cache: &Cache, entry: &RepoFile, observer: &dyn Observer) -> Result<Option<PartialFile>> {
        let etag = entry.digest.hex();
        let (blob, lock) = (cache.blob(etag), cache.lock(etag));
        let path = blob.with_file_name(format!("{etag}.incomplete"));
        let open = |path: &Path| {
            cache.make_folder_of(path)?;
            let mut options = OpenOptions::new();
            let options = options.create(true).truncate(false).read(true).append(true);
            options.open(path).map_err(|cause| Error::io("write", path, cause))
        };
        loop {
            if is_whole(&blob, entry.bytes) {
                return Ok(None);
            }
            let locked = open(&lock)?;
            let another = || format!("waiting for another download of {}", lock.display());
            if !folder_lock::wait_for_lock(&locked, another, observer)? {
                return PartialFile::claim(cache, entry, path, open, observer);
            }
            // The previous holder of the lock may have removed the lock file, or completed the download.
            if same_file(&locked, &lock) && !is_whole(&blob, entry.bytes) {
                return Ok(Some(PartialFile { file: open(&path)?, path, lock: DownloadLock::Lock(locked) }));
            }
        }
    }

    /// The same on file systems without locks. A stalled download may resume writing to its file, so this one starts
    /// a new file unless the previous download is known to have ended.
    fn claim(
        cache: &Cache,
        entry: &RepoFile,
        path: PathBuf,
        open: impl Fn(&Path) -> Result<File>,
        observer: &dyn Observer,
    ) -> Result<Option<PartialFile>> {
        let etag = entry.digest.hex();
        let folder = cache.claim(etag);
        fs::create_dir_all(&folder).map_err(|cause| Error::io("create", &folder, cause))?;
        let claim = Claim::take(&folder, false, IfHeld::Wait, Heartbeat::default(), observer)?;
        if is_whole(&cache.blob(etag), entry.bytes) {
            return Ok(None);
        }
        if !claim.follows_ended() {
            atomic_file::remove(&path)?;
        }
        Ok(Some(PartialFile { file: open(&path)?, path, lock: DownloadLock::Claim(claim) }))
    }

    /// Fails if another download has taken over, because this one gave no sign of life.
    ///
    /// # Errors
    /// Another process has claimed the download.
    fn check_held(&self) -> Result<()> {
        match &self.lock {
            DownloadLock::Lock(_) => Ok(()),
            DownloadLock::Claim(claim) => claim.check_held(),
        }
    }

    /// Current size in bytes.
    fn bytes(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|cause| Error::io("read", &self.path, cause))?.len())
    }

    /// Appends bytes.
    fn append(&mut self, block: &[u8]) -> Result<()> {
        self.file.write_all(block).map_err(|cause| Error::io("write", &self.path, cause))
    }

    /// Removes all bytes.
    ///
    /// The file is open for appending, so the next bytes are written to its start.
    fn empty(&mut self) -> Result<()> {
        self.file.set_len(0).map_err(|cause| Error::io("write", &self.path, cause))
    }

    /// Deletes the file.
    ///
    /// # Errors
    /// The file cannot be removed, or another download has taken over and may be writing to it.
    fn remove(&self) -> Result<()> {
        self.check_held()?;
        fs::remove_file(&self.path).map_err(|cause| Error::io("remove", &self.path, cause))
    }

    /// How the content differs from the hash that the hub lists; `None` if it does not.
    ///
    /// Reads the whole file, which may take minutes.
    ///
    /// # Errors
    /// The file cannot be read, or the observer asks to stop.
    fn problem(&mut self, expected: &ContentHash, observer: &dyn Observer) -> Result<Option<String>> {
        let bytes = self.bytes()?;
        let io = |cause| Error::io("read", &self.path, cause);
        self.file.seek(SeekFrom::Start(0)).map_err(io)?;
        let content = UntilStopped { file: &self.file, observer };
        let (name, found) = match expected {
            ContentHash::Sha256(_) => ("SHA-256", integrity::sha256_of(content).map_err(io)?),
            _ => ("Git hash", git_hash(content, bytes).map_err(io)?),
        };
        Ok((found != expected.hex()).then(|| format!("its {name} is {found}, not {}", expected.hex())))
    }

    /// Gives the file its final name.
    ///
    /// # Errors
    /// The file cannot be made durable or renamed, or another download has taken over.
    fn publish(self, cache: &Cache, etag: &str) -> Result<()> {
        self.file.sync_all().map_err(|cause| Error::io("write", &self.path, cause))?;
        self.check_held()?;
        cache.keep(&self.path, etag)
    }
}

/// Reads a file until the observer asks to stop.
struct UntilStopped<'a> {
    /// The file.
    file: &'a File,
    /// Is asked before each block.
    observer: &'a dyn Observer,
}

impl Read for UntilStopped<'_> {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        self.observer.checkpoint().map_err(io::Error::other)?;
        self.file.read(block)
    }
}

/// Whether a path still names the open file.
#[cfg(unix)]
fn same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |found: fs::Metadata| (found.dev(), found.ino());
    let (open, named) = (file.metadata().map(place), fs::metadata(path).map(place));
    matches!((open, named), (Ok(open), Ok(named)) if open == named)
}

/// Only tests whether the path exists, as files have no portable identity.
#[cfg(not(unix))]
fn same_file(_file: &File, path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::base::pools::lock;
    use crate::source::remote::HubSettings;
    use crate::source::remote::repository::RepoRequest;

    /// Records that somebody waits.
    #[derive(Default)]
    struct Hearing(Mutex<Vec<String>>);

    impl Observer for Hearing {
        fn noted(&self, message: &str) {
            lock(&self.0).push(message.to_owned());
        }
    }

    /// The second download starts when the first has ended, and then finds the complete file.
    #[test]
    fn where_nothing_can_be_locked_a_second_download_waits_for_the_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = HubSettings { cache: folder.path().to_owned(), ..HubSettings::default() };
        let cache = Cache::of(&RepoRequest::parse("hf://datasets/a/b").expect("a dataset"), &settings);
        let (text, hearing) = (b"whole", Hearing::default());
        let digest = ContentHash::Sha256(integrity::sha256(text));
        let entry = RepoFile { path: "a.txt".to_owned(), bytes: to_u64(text.len()), digest };
        let etag = entry.digest.hex();
        let path = cache.blob(etag).with_file_name("partial");
        let open = |path: &Path| {
            cache.make_folder_of(path)?;
            let options = OpenOptions::new().create(true).append(true).read(true).open(path);
            options.map_err(|cause| Error::io("write", path, cause))
        };
        let claim =
            || PartialFile::claim(&cache, &entry, path.clone(), open, &hearing).expect("its turn comes");
        let mut first = claim().expect("nothing is there");
        std::thread::scope(|scope| {
            let second = scope.spawn(claim);
            first.append(&text[..2]).expect("written");
            while lock(&hearing.0).is_empty() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            assert!(!second.is_finished());
            first.append(&text[2..]).expect("written");
            assert_eq!(first.problem(&entry.digest, &hearing).expect("read"), None);
            first.publish(&cache, etag).expect("renamed");
            assert!(second.join().expect("no panic").is_none(), "the whole file is there");
        });
        assert_eq!(fs::read(cache.blob(etag)).expect("a file"), text);
    }

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
    #[cfg(unix)]
    #[test]
    fn a_link_is_there_at_every_moment() {
        let folder = tempfile::tempdir().expect("a folder");
        let (folder_path, repository) = (folder.path().to_owned(), "somebody/words".to_owned());
        let cache = Cache { folder: folder_path, kind: RepoKind::Dataset, repository };
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
