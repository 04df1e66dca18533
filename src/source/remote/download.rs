//! Downloads files of the hub into the cache, continuing interrupted downloads and verifying the content.
//!
//! A file gets its final name only after its hash was verified, in one atomic step. Before that, one process at a
//! time appends to a partial file, under a lock that Python's library also uses. On file systems without locks,
//! processes claim a folder instead.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sha1::{Digest as _, Sha1};
use ureq::http::StatusCode;

use super::HubFault;
use super::api::{Digest, Entry};
use super::cache::{Cache, is_whole};
use super::http::{Answer, Http, Span, first_and_total};
use super::refusal::Trouble;
use crate::base::atomic_file;
use crate::base::folder_lock::{Claim, Heartbeat, IfHeld};
use crate::base::int::to_u64;
use crate::base::{folder_lock, integrity};
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Stage};

/// Downloads a file of a commit into the cache.
///
/// The bytes are collected in `blobs/ETAG.incomplete`, where interrupted downloads continue, also those of Python's
/// `huggingface_hub`. The file gets its final name only if it has the size and the hash that the hub lists.
///
/// # Errors
/// The hub refuses or sends other content, attempts are exhausted, or the cache cannot be written.
pub(super) fn download(
    http: &Http<'_>,
    cache: &Cache,
    url: &str,
    commit: &str,
    entry: &Entry,
    observer: &dyn Observer,
) -> Result<()> {
    let etag = entry.digest.etag();
    let what = format!("{} of {}", entry.path, cache.repository());
    let Some(mut partial) = Partial::open(cache, entry, observer)? else {
        observer.advanced(Stage::Download, entry.bytes);
        return cache.link(etag, commit, &entry.path);
    };
    let landing = Landing { http, url, entry, observer, what: &what };
    let mut told = 0;
    let mut tries = http.tries(&what);
    let mut reached = partial.bytes()?;
    let mut from_before = reached > 0;
    loop {
        let outcome = landing.go_on(&mut partial, &mut told);
        // A download that restarts from the beginning each time makes no progress.
        let now = partial.bytes()?;
        let progressed = now > reached;
        reached = reached.max(now);
        if !tries.is_done(progressed, outcome)? {
            continue;
        }
        match partial.problem(&entry.digest)? {
            None => break,
            // The bytes that were found here may belong to a different file, so it is downloaded once from the
            // beginning.
            Some(_) if std::mem::take(&mut from_before) => {
                partial.empty()?;
                reached = 0;
            }
            Some(problem) => {
                partial.remove()?;
                return Err(broken(&what, problem));
            }
        }
    }
    partial.land(cache, etag)?;
    cache.link(etag, commit, &entry.path)
}

/// The error that a file did not arrive complete.
fn broken(what: &str, problem: String) -> Error {
    let error = HubFault::Broken { what: what.to_owned(), problem }.with(ErrorKind::Network);
    error.with_help("run the same command again; complete files are kept")
}

/// The download of one file.
struct Landing<'a> {
    http: &'a Http<'a>,
    url: &'a str,
    entry: &'a Entry,
    observer: &'a dyn Observer,
    /// The file's name in messages.
    what: &'a str,
}

impl Landing<'_> {
    /// Requests the missing bytes and writes them until the file is complete. `told` counts the bytes already
    /// reported.
    ///
    /// # Errors
    /// The connection fails or ends early, the hub has a different file, or the file cannot be written.
    fn go_on(&self, partial: &mut Partial, told: &mut u64) -> Result<(), Trouble> {
        let mut have = partial.bytes().map_err(Trouble::Final)?;
        if have > self.entry.bytes {
            partial.empty().map_err(Trouble::Final)?;
            have = 0;
        }
        self.tell(have, told);
        if have == self.entry.bytes {
            return Ok(());
        }
        let mut answer = self.http.get(self.url, Span { from: have, to: None })?;
        self.check(&answer, have, partial)?;
        have = partial.bytes().map_err(Trouble::Final)?;
        while let Some(block) = answer.next()? {
            have += to_u64(block.len());
            if have > self.entry.bytes {
                let problem = format!("it has more than the {} bytes that the hub lists", self.entry.bytes);
                partial.remove().map_err(Trouble::Final)?;
                return Err(Trouble::Final(broken(self.what, problem)));
            }
            partial.append(&block).map_err(Trouble::Final)?;
            self.tell(have, told);
        }
        if have < self.entry.bytes {
            return Err(Trouble::passing(format!(
                "the connection ended after {have} of {} bytes",
                self.entry.bytes
            )));
        }
        Ok(())
    }

    /// Checks that an answer is of the listed file and continues where the partial file ends. If the answer starts
    /// from the beginning, empties the partial file.
    ///
    /// # Errors
    /// The answer is of a different file or range.
    fn check(&self, answer: &Answer<'_>, have: u64, partial: &mut Partial) -> Result<(), Trouble> {
        let head = &answer.head;
        let expected = self.entry.digest.etag();
        if let Some(etag) = head.etag.as_ref().filter(|etag| *etag != expected) {
            let problem = format!("the hub now has another file there ({etag}, not {expected})");
            return Err(Trouble::Final(broken(self.what, problem)));
        }
        let start = match head.status {
            StatusCode::PARTIAL_CONTENT => first_and_total(&head.headers).map(|(first, _)| first),
            StatusCode::RANGE_NOT_SATISFIABLE => None,
            _ => Some(0),
        };
        if start == Some(have) {
            return Ok(());
        }
        partial.empty().map_err(Trouble::Final)?;
        if start == Some(0) {
            Ok(())
        } else {
            Err(Trouble::passing("its answer has other bytes than were requested"))
        }
    }

    /// Reports progress. Bytes that are downloaded again are not counted again.
    fn tell(&self, have: u64, told: &mut u64) {
        if have > *told {
            self.observer.advanced(Stage::Download, have - *told);
            *told = have;
        }
    }
}

/// A file that is not complete. Other downloads of it wait as long as the lock is held.
struct Partial {
    /// The file with the bytes so far, open for appending.
    file: File,
    /// The path of the file.
    path: PathBuf,
    /// Keeps other downloads waiting.
    lock: Held,
}

/// Keeps other downloads of the file waiting.
enum Held {
    /// A file lock of the system.
    Lock(#[expect(dead_code, reason = "held for its lock")] File),
    /// A folder that one process claims, where file locks do not work.
    Claim(Claim),
}

impl Partial {
    /// Opens the partial file, or creates it. `None` if the complete file exists, perhaps since a moment ago.
    ///
    /// # Errors
    /// The lock or the file cannot be opened, or waiting is interrupted.
    fn open(cache: &Cache, entry: &Entry, observer: &dyn Observer) -> Result<Option<Partial>> {
        let etag = entry.digest.etag();
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
                return Partial::claim(cache, entry, path, open, observer);
            }
            // The previous holder of the lock may have removed the lock file, or completed the download.
            if same_file(&locked, &lock) && !is_whole(&blob, entry.bytes) {
                return Ok(Some(Partial { file: open(&path)?, path, lock: Held::Lock(locked) }));
            }
        }
    }

    /// The same on file systems without locks. A stalled download may resume writing to its file, so this one starts
    /// a new file unless the previous download is known to have ended.
    fn claim(
        cache: &Cache,
        entry: &Entry,
        path: PathBuf,
        open: impl Fn(&Path) -> Result<File>,
        observer: &dyn Observer,
    ) -> Result<Option<Partial>> {
        let etag = entry.digest.etag();
        let folder = cache.claim(etag);
        fs::create_dir_all(&folder).map_err(|cause| Error::io("create", &folder, cause))?;
        let claim = Claim::take(&folder, false, IfHeld::Wait, Heartbeat::default(), observer)?;
        if is_whole(&cache.blob(etag), entry.bytes) {
            return Ok(None);
        }
        if !claim.follows_ended() {
            atomic_file::remove(&path)?;
        }
        Ok(Some(Partial { file: open(&path)?, path, lock: Held::Claim(claim) }))
    }

    /// Fails if another download has taken over, because this one gave no sign of life.
    ///
    /// # Errors
    /// Another process has claimed the download.
    fn check_held(&self) -> Result<()> {
        match &self.lock {
            Held::Lock(_) => Ok(()),
            Held::Claim(claim) => claim.check_held(),
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
    fn empty(&mut self) -> Result<()> {
        self.file.set_len(0).map_err(|cause| Error::io("write", &self.path, cause))
    }

    /// Deletes the file.
    fn remove(&self) -> Result<()> {
        self.check_held()?;
        fs::remove_file(&self.path).map_err(|cause| Error::io("remove", &self.path, cause))
    }

    /// How the content differs from the hash that the hub lists; `None` if it does not.
    fn problem(&mut self, expected: &Digest) -> Result<Option<String>> {
        let bytes = self.bytes()?;
        let io = |cause| Error::io("read", &self.path, cause);
        self.file.seek(SeekFrom::Start(0)).map_err(io)?;
        let (name, found) = match expected {
            Digest::Sha256(_) => ("SHA-256", integrity::sha256_of(&self.file).map_err(io)?),
            Digest::Git(_) => ("Git hash", git_hash(&self.file, bytes).map_err(io)?),
        };
        Ok((found != expected.etag()).then(|| format!("its {name} is {found}, not {}", expected.etag())))
    }

    /// Gives the file its final name.
    ///
    /// # Errors
    /// The file cannot be made durable or renamed, or another download has taken over.
    fn land(self, cache: &Cache, etag: &str) -> Result<()> {
        self.file.sync_all().map_err(|cause| Error::io("write", &self.path, cause))?;
        self.check_held()?;
        cache.keep(&self.path, etag)
    }
}

/// Git's hash of a blob.
fn git_hash(from: impl Read, bytes: u64) -> std::io::Result<String> {
    let mut hash = Sha1::new();
    hash.update(format!("blob {bytes}\0"));
    integrity::hash_of(hash, from)
}

/// Whether a path still names the open file.
#[cfg(unix)]
fn same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |found: fs::Metadata| (found.dev(), found.ino());
    let (open, named) = (file.metadata().map(place), fs::metadata(path).map(place));
    matches!((open, named), (Ok(open), Ok(named)) if open == named)
}

#[cfg(not(unix))]
fn same_file(_file: &File, path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::HubSettings;
    use super::super::uri::Wanted;
    use super::*;
    use crate::base::pools::lock;

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
        let cache = Cache::of(&Wanted::parse("hf://datasets/a/b").expect("a dataset"), &settings);
        let (text, hearing) = (b"whole", Hearing::default());
        let digest = Digest::Sha256(integrity::sha256(text));
        let entry = Entry { path: "a.txt".to_owned(), bytes: to_u64(text.len()), digest };
        let etag = entry.digest.etag();
        let path = cache.blob(etag).with_file_name("partial");
        let open = |path: &Path| {
            cache.make_folder_of(path)?;
            let options = OpenOptions::new().create(true).append(true).read(true).open(path);
            options.map_err(|cause| Error::io("write", path, cause))
        };
        let claim = || Partial::claim(&cache, &entry, path.clone(), open, &hearing).expect("its turn comes");
        let mut first = claim().expect("nothing is there");
        std::thread::scope(|scope| {
            let second = scope.spawn(claim);
            first.append(&text[..2]).expect("written");
            while lock(&hearing.0).is_empty() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            assert!(!second.is_finished());
            first.append(&text[2..]).expect("written");
            assert_eq!(first.problem(&entry.digest).expect("read"), None);
            first.land(&cache, etag).expect("renamed");
            assert!(second.join().expect("no panic").is_none(), "the whole file is there");
        });
        assert_eq!(fs::read(cache.blob(etag)).expect("a file"), text);
    }
}
