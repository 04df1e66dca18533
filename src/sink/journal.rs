//! A file of records that detects damage and records of other jobs.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::base::atomic_file;
use crate::base::digest::sha256;
use crate::base::int::to_u64;
use crate::error::{Error, Result};

/// Bytes of a journal that are read, at most (1 GiB). The journal for a terabyte of text has some tens of megabytes.
const MAX_JOURNAL_BYTES: u64 = 1 << 30;

/// Length of a SHA-256 in hex.
const HASH_CHARS: usize = 64;

/// Records on disk that a later run can trust.
///
/// Each line is the SHA-256 of the previous line's hash and the record, followed by the record in JSON. The first
/// line uses the hash of a key instead of a previous line. So a record that is cut off or damaged, every record after
/// it, and all records for another key are recognized and ignored.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    /// The hash in the last line, or of the key.
    last: String,
}

impl Journal {
    /// Opens the journal at `path`. Returns its records up to the first invalid one, and cuts the file off after
    /// them. Creates an empty journal if there is none.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn open<R: DeserializeOwned>(
        path: impl Into<PathBuf>,
        key: &str,
    ) -> Result<(Journal, Vec<R>)> {
        let path = path.into();
        if path.symlink_metadata().is_err() {
            let journal = Journal::create(path, key)?;
            return Ok((journal, Vec::new()));
        }
        let opened = atomic_file::without_links(OpenOptions::new().read(true).write(true)).open(&path);
        let mut file = opened.map_err(|cause| Error::io("read", &path, cause))?;
        let mut text = Vec::new();
        let read = (&file).take(MAX_JOURNAL_BYTES).read_to_end(&mut text);
        read.map_err(|cause| Error::io("read", &path, cause))?;
        let (records, length, last) = records(&text, sha256(key.as_bytes()));
        cut(&mut file, length).map_err(|cause| Error::io("write", &path, cause))?;
        Ok((Journal { file, path, last }, records))
    }

    /// The records at `path` that can be parsed, for any key, valid or not. They are traces of what was done, and
    /// must not be relied on for more. Empty if there is no journal.
    pub(super) fn parsable_records<R: DeserializeOwned>(path: &Path) -> Result<Vec<R>> {
        let mut text = Vec::new();
        match File::open(path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened.and_then(|file| file.take(MAX_JOURNAL_BYTES).read_to_end(&mut text)),
        }
        .map_err(|cause| Error::io("read", path, cause))?;
        let lines = text.split(|&byte| byte == b'\n');
        let json = lines.filter_map(|line| line.split_at_checked(HASH_CHARS).map(|(_, json)| json));
        Ok(json.filter_map(|json| serde_json::from_slice(json).ok()).collect())
    }

    /// Creates an empty journal. An existing file at `path` is replaced by a new one, so that a process that has the
    /// old one open writes only to that.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn create(path: impl Into<PathBuf>, key: &str) -> Result<Journal> {
        let path = path.into();
        let file = atomic_file::create_anew(&path)?;
        // Later syncs of the file survive a failure of the machine only if its directory entry does.
        atomic_file::sync_folder(atomic_file::folder_of(&path))?;
        Ok(Journal { file, path, last: sha256(key.as_bytes()) })
    }

    /// Appends a record. It survives the end of this process, but a failure of the machine only after
    /// [`sync`](Journal::sync).
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn append(&mut self, record: &impl Serialize) -> Result<()> {
        let json = serde_json::to_string(record).expect("plain fields with text keys");
        let hash = chained_hash(&self.last, json.as_bytes());
        let line = format!("{hash} {json}\n");
        self.file.write_all(line.as_bytes()).map_err(|cause| Error::io("write", &self.path, cause))?;
        self.last = hash;
        Ok(())
    }

    /// Waits until all records are on disk.
    ///
    /// # Errors
    /// They cannot be written to disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|cause| Error::io("write", &self.path, cause))
    }
}

/// The hash of a line.
fn chained_hash(last: &str, json: &[u8]) -> String {
    sha256([last.as_bytes(), json].concat())
}

/// The valid records, the number of bytes that they take, and the hash of the last one.
fn records<R: DeserializeOwned>(text: &[u8], key: String) -> (Vec<R>, u64, String) {
    let (mut records, mut length, mut last) = (Vec::new(), 0, key);
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let Some((hash, json)) = line.strip_suffix(b"\n").and_then(|line| line.split_at_checked(HASH_CHARS))
        else {
            break;
        };
        let json = json.strip_prefix(b" ").unwrap_or_default();
        let wanted = chained_hash(&last, json);
        let Some(record) = (hash == wanted.as_bytes()).then(|| serde_json::from_slice(json).ok()).flatten()
        else {
            break;
        };
        records.push(record);
        length += to_u64(line.len());
        last = wanted;
    }
    (records, length, last)
}

/// Cuts a file off and moves to its end.
fn cut(file: &mut File, length: u64) -> io::Result<()> {
    file.set_len(length)?;
    file.seek(SeekFrom::Start(length)).map(|_| ())
}
