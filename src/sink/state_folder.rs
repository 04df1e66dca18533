//! The state folder of an output: its job file, and journals of what a run has written, from which a later run
//! resumes.
//!
//! State is trusted only if its checksum is right. Damaged state counts as missing: the run writes the data again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::layout::{STATE_FOLDER, entries, read_up_to, split_files, split_of};
use crate::base::atomic_file;
use crate::base::hash::Set;
use crate::base::int::to_u64;
use crate::base::integrity::{JSON_CHECKSUM, sha256};
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
    /// The file, at its end.
    file: File,
    /// The path for messages.
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

    /// The records at `path` that can be parsed, whatever their key and whether or not their hashes are right. They
    /// are no more than hints, for example at the names of written files. Empty if there is no journal.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn parsable_records<R: DeserializeOwned>(path: &Path) -> Result<Vec<R>> {
        let text = read_up_to(MAX_JOURNAL_BYTES, path)?.unwrap_or_default();
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
        atomic_file::sync_folder(crate::base::folder_of(&path))?;
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

/// The hash of a line. `last` is the hash of the line before, in hex.
fn chained_hash(last: &str, json: &[u8]) -> String {
    sha256([last.as_bytes(), json].concat())
}

/// The valid records, the number of bytes that they take, and the hash of the last one. The rest of the text is not
/// used, even if it could be parsed.
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
///
/// # Errors
/// The file cannot be changed.
fn cut(file: &mut File, length: u64) -> io::Result<()> {
    file.set_len(length)?;
    file.seek(SeekFrom::Start(length)).map(|_| ())
}

/// In the state folder, the file that identifies the job of the output. A run writes it before anything outside of
/// that folder.
pub(super) const JOB_FILE: &str = "job.json";

/// In the state folder, the journal of the row groups of an incomplete data file.
pub(super) const ROW_GROUP_JOURNAL: &str = "row-groups.journal";

/// In the state folder, the journal of completed data files.
pub(super) const FILE_JOURNAL: &str = "files.journal";

/// Bytes of a job file that are read, at most (1 MiB). Real ones have a few hundred.
const MAX_JOB_BYTES: u64 = 1 << 20;

/// The beginning of the name of the state folder for a split that is not the first of its output.
const SPLIT_FOLDER: &str = "split-";

/// The state folder of a split: that of the output for its first split, a folder within it for any other. The folder
/// need not exist.
pub(crate) fn state_of(output: &Path, split: Option<&str>) -> PathBuf {
    let state = output.join(STATE_FOLDER);
    match split.filter(|split| first_split(&state).is_some_and(|first| first != *split)) {
        Some(split) => state.join(format!("{SPLIT_FOLDER}{split}")),
        None => state,
    }
}

/// The first split of an output. Its job file names it, or else the journal of completed data files shows it. `None`
/// if the output has no job file, or neither of the two names a split.
fn first_split(state: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Job {
        split: Option<String>,
    }
    if !state.join(JOB_FILE).exists() {
        return None;
    }
    read_job::<Job>(state).and_then(|job| job.split).or_else(|| {
        let name = names_in(&state.join(FILE_JOURNAL)).ok()?.into_iter().next()?;
        Some(split_of(&name).to_owned()).filter(|split| !split.is_empty())
    })
}

/// Reads the job file of a state folder; `None` if there is none, or if it is not as it was written: a changed one
/// would let a run continue the output of another job, or put its state and reports elsewhere.
pub(crate) fn read_job<T: DeserializeOwned>(state: &Path) -> Option<T> {
    let text = read_up_to(MAX_JOB_BYTES, &state.join(JOB_FILE)).ok()??;
    if JSON_CHECKSUM.holds(&text) == Some(true) { serde_json::from_slice(&text).ok() } else { None }
}

/// Writes the job file of a state folder, with a checksum at its end.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_job(state: &Path, job: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(job).expect("plain data");
    let text = JSON_CHECKSUM.end(&format!("{text}\n"));
    atomic_file::publish_bytes_within(&state.join(JOB_FILE), text.as_bytes())
}

/// A file of the listing from which a shard follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListedFile {
    /// The path or URI of the file.
    pub(crate) name: String,
    /// A hash of what the listing says of the file, without the folder that it is in.
    pub(crate) sha256: String,
}

/// In the state folder of a shard, the listing of the whole input.
const LISTING: &str = "listing.json";

/// Writes the listing of the whole input into the state folder of a shard.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_listing(state: &Path, listing: &[ListedFile]) -> Result<()> {
    let text = serde_json::to_string(listing).expect("plain data");
    atomic_file::publish_bytes_within(&state.join(LISTING), text.as_bytes())
}

/// Reads the listing in the state folder of a shard. Empty if there is none, or if it is damaged: it only says in
/// messages what differs.
pub(super) fn read_listing(state: &Path) -> Vec<ListedFile> {
    let text = read_up_to(MAX_JOURNAL_BYTES, &state.join(LISTING)).ok().flatten().unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Whether an output folder has data files, or an incomplete data file from which a run can resume.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn holds_data(folder: &Path, split: Option<&str>) -> Result<bool> {
    let journal = state_of(folder, split).join(ROW_GROUP_JOURNAL);
    let has_row_groups = fs::metadata(journal).is_ok_and(|journal| journal.len() > 0);
    Ok(has_row_groups || !split_files(folder, split)?.is_empty())
}

/// The names of all data files and indexes in the journals of all splits, as paths relative to the output folder:
/// files that this program wrote, or was about to name.
///
/// # Errors
/// A journal cannot be read.
pub(super) fn recorded_files(output: &Path) -> Result<Set<String>> {
    let state = output.join(STATE_FOLDER);
    let mut states = entries(&state)?;
    states.retain(|path| {
        path.is_dir() && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(SPLIT_FOLDER))
    });
    let mut names = Set::default();
    for state in states.iter().chain([&state]) {
        names.extend(names_in(&state.join(FILE_JOURNAL))?);
    }
    Ok(names)
}

/// The names of the files in a journal of completed data files, whatever its job.
///
/// # Errors
/// The journal cannot be read.
fn names_in(journal: &Path) -> Result<Vec<String>> {
    /// The names in a `FileRecord`.
    #[derive(Deserialize)]
    struct Record {
        file: Names,
    }
    #[derive(Deserialize)]
    struct Names {
        name: String,
        index: Option<Box<Names>>,
    }
    let records = Journal::parsable_records::<Record>(journal)?.into_iter();
    let names = records.flat_map(|Record { file }| [Some(file.name), file.index.map(|index| index.name)]);
    Ok(names.flatten().collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_come_back_under_their_key_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal");
        let (mut journal, none) = Journal::open::<String>(&path, "key").expect("a journal");
        assert!(none.is_empty());
        journal.append(&"one\ntwo").expect("a record");
        drop(journal);
        let (mut journal, one) = Journal::open::<String>(&path, "key").expect("a journal");
        assert_eq!(one, ["one\ntwo"]);
        journal.append(&"three").expect("a record");
        assert_eq!(Journal::open::<String>(&path, "key").expect("a journal").1, ["one\ntwo", "three"]);
        assert_eq!(Journal::parsable_records::<String>(&path).expect("a journal"), ["one\ntwo", "three"]);
        assert!(Journal::open::<String>(&path, "other").expect("a journal").1.is_empty());
        assert_eq!(fs::metadata(&path).expect("a file").len(), 0);
    }

    proptest! {
        #[test]
        fn what_is_damaged_is_no_record(flip: prop::sample::Index, bit in 0_u32..8, cut: prop::sample::Index) {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("journal");
            let mut journal = Journal::create(&path, "key").expect("a journal");
            let records: Vec<Vec<u32>> = (0..5).map(|length| (0..length * 3).collect()).collect();
            records.iter().for_each(|record| journal.append(record).expect("a record"));
            let mut bytes = fs::read(&path).expect("a file");
            let at = flip.index(bytes.len());
            bytes[at] ^= 1 << bit;
            bytes.truncate(bytes.len() - cut.index(2) * cut.index(bytes.len()));
            let sound = bytes[..at.min(bytes.len())].iter().filter(|&&byte| byte == b'\n').count();
            fs::write(&path, &bytes).expect("a file");
            let (mut journal, found) = Journal::open::<Vec<u32>>(&path, "key").expect("a journal");
            prop_assert_eq!(&found, &records[..sound]);
            // Appending continues after the last valid record.
            journal.append(&vec![7_u32]).expect("a record");
            prop_assert_eq!(Journal::open::<Vec<u32>>(&path, "key").expect("a journal").1.len(), sound + 1);
        }
    }
}
