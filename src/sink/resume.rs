//! Records the row groups of the incomplete data file and the completed data files, and finds those that are
//! undamaged, from which a later run resumes.
//!
//! - [`RowGroupJournal`] gets a record after each row group, with the hash of the file up to there. After an
//!   interruption, [`IncompleteFile`] is the file up to the last record with a right hash.
//! - [`CompletedFiles`] gets a record of a data file before the file is renamed to its final name. So every file with
//!   a final name has a record, and only the last recorded file may still have to be renamed.
//!
//! Both journals have a *key*, a hash of all that the bytes of the data files depend on. A journal with another key
//! counts as empty, so a run never continues the files of another job.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::{fs, io};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::folder::OutputFolder;
use super::manifest::{FileStore, OutputFile};
use super::row_group::{Position, RowTotals};
use super::state_folder::Journal;
use crate::base::atomic_file;
use crate::base::int::{to_u64, with_unit};
use crate::base::integrity::{HashingWriter, hex, update_from};
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Stage};

/// A row group that is in the incomplete file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RowGroupRecord {
    /// The number of the file.
    number: usize,
    /// The offset in the file at which the row group ends.
    end: u64,
    /// SHA-256, in hex, of the file from its beginning to `end`. So one damaged byte makes its row group and all
    /// later ones invalid.
    sha256: String,
    /// Its entries for the footer, in base 64.
    metadata: String,
    /// What the row group holds of the input.
    totals: RowTotals,
    /// The [remarks](super::DatasetWriter::remark) that the caller made since the row group before.
    remarks: Vec<Value>,
}

/// The journal of the row groups that have been written to an incomplete file.
pub(super) struct RowGroupJournal {
    /// The journal on disk, which is not synced: a row group that a failure of the machine takes is written again.
    journal: Journal,
    /// The number of the data file, the same in all records.
    number: usize,
    /// The [remarks](super::DatasetWriter::remark) that the caller made since the file was begun. Each is stored with
    /// the next row group.
    pub(super) remarks: Vec<Value>,
    /// Number of remarks that are in the journal.
    stored_remarks: usize,
}

impl RowGroupJournal {
    /// Starts the journal of an empty file.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(super) fn create(path: &Path, key: &str, number: usize) -> Result<RowGroupJournal> {
        let journal = Journal::create(path, key)?;
        Ok(RowGroupJournal { journal, number, remarks: Vec::new(), stored_remarks: 0 })
    }

    /// Records a row group that has been written to the end of the file. Call it after the row group's bytes are
    /// flushed: the hash is that of the bytes in the file.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(super) fn commit<W>(
        &mut self,
        file: &HashingWriter<W>,
        metadata: &[u8],
        totals: &RowTotals,
    ) -> Result<()> {
        let record = RowGroupRecord {
            number: self.number,
            end: file.bytes(),
            sha256: file.sha256(),
            metadata: BASE64_STANDARD.encode(metadata),
            totals: totals.clone(),
            remarks: self.remarks[self.stored_remarks..].to_vec(),
        };
        self.stored_remarks = self.remarks.len();
        self.journal.append(&record)
    }
}

/// The undamaged row groups of an incomplete file, with everything that is needed to resume.
pub(super) struct IncompleteFile {
    /// The number of the data file.
    pub(super) number: usize,
    /// What each row group holds, and its entries for the footer.
    pub(super) groups: Vec<(RowTotals, Vec<u8>)>,
    /// The file, cut off after the last of them.
    pub(super) file: HashingWriter<File>,
    /// The journal, to which further row groups are added.
    pub(super) log: RowGroupJournal,
}

impl IncompleteFile {
    /// Opens the incomplete file at `path` and its journal, and cuts off everything after the last undamaged row
    /// group, in both. To find it, the file is read from its beginning.
    ///
    /// `None` if there is nothing to resume from: the file or its journal is missing, the journal has another key, or
    /// the first row group is damaged.
    ///
    /// # Errors
    /// The file or the journal exists, but cannot be read or written.
    pub(super) fn find(path: &Path, journal: &Path, key: &str) -> Result<Option<IncompleteFile>> {
        if !journal.exists() {
            return Ok(None);
        }
        let (mut log, mut records) = Journal::open::<RowGroupRecord>(journal, key)?;
        let Some(number) = records.first().map(|record| record.number) else { return Ok(None) };
        let mut file = match atomic_file::without_links(OpenOptions::new().read(true).write(true)).open(path)
        {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|cause| Error::io("read", path, cause))?,
        };
        let listed = records.len();
        let hasher = undamaged(&mut file, &mut records).map_err(|cause| Error::io("read", path, cause))?;
        let Some(end) = records.last().map(|record| record.end) else { return Ok(None) };
        if records.len() < listed {
            log = Journal::create(journal, key)?;
            records.iter().try_for_each(|record| log.append(record))?;
        }
        let cut = file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end)));
        cut.map_err(|cause| Error::io("write", path, cause))?;
        let remarks: Vec<Value> = records.iter().flat_map(|record| record.remarks.clone()).collect();
        let group = |record: RowGroupRecord| {
            // A valid record was written by this program, so its metadata can be decoded.
            (record.totals, BASE64_STANDARD.decode(record.metadata).unwrap_or_default())
        };
        Ok(Some(IncompleteFile {
            number,
            groups: records.into_iter().map(group).collect(),
            file: HashingWriter::resumed(file, hasher, end),
            log: RowGroupJournal { journal: log, number, stored_remarks: remarks.len(), remarks },
        }))
    }

    /// What all row groups hold together.
    pub(super) fn totals(&self) -> RowTotals {
        let mut sum = RowTotals::default();
        self.groups.iter().for_each(|(totals, _)| sum.add(totals));
        sum
    }
}

/// Keeps the records of the row groups that are undamaged in the file. Returns the hash of these row groups. The file
/// must be at its beginning. The first damaged record ends the list, since each hash covers all bytes before.
///
/// # Errors
/// The file cannot be read.
fn undamaged(file: &mut File, records: &mut Vec<RowGroupRecord>) -> io::Result<Sha256> {
    let number = records.first().map(|record| record.number);
    let (mut hasher, mut undamaged_hash) = (Sha256::new(), Sha256::new());
    let (mut end, mut good) = (0, 0);
    for record in &*records {
        let length = record.end.saturating_sub(end);
        if Some(record.number) != number || update_from(&mut hasher, (&mut *file).take(length))? < length {
            break;
        }
        if hex(&hasher.clone().finalize()) != record.sha256 {
            break;
        }
        (end, undamaged_hash, good) = (record.end, hasher.clone(), good + 1);
    }
    records.truncate(good);
    Ok(undamaged_hash)
}

/// A completed data file. The record is written before the file is renamed to its final name. It contains what the
/// manifest says of the file, except for the names and identities of the input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FileRecord {
    /// The number of the file, from 0. Records of one file may follow each other, and the last one counts.
    pub(super) number: usize,
    /// The position of its first document in the input.
    pub(super) start: Position,
    /// The file's entry for the manifest. Its [units](OutputFile::units) are empty; they are added when the manifest
    /// is made.
    pub(super) file: OutputFile,
    /// What the file holds of the input.
    pub(super) totals: RowTotals,
    /// The [remarks](super::DatasetWriter::remark) that the caller made while the file was written.
    pub(super) remarks: Vec<Value>,
}

/// Consecutive documents that are still to be encoded and written.
///
/// If their number is given, they replace one damaged data file. Otherwise they are all documents after the last data
/// file, and fill as many new files as they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentSpan {
    /// Number of the data file, or of the first one.
    pub(super) number: usize,
    /// The position of the first document in the input.
    pub from: Position,
    /// Number of documents. `None` means all that follow.
    pub documents: Option<u64>,
}

/// The completed data files.
pub(super) struct CompletedFiles {
    /// The journal, to which further files are added.
    journal: Journal,
    /// The files in the order of their numbers.
    pub(super) records: Vec<FileRecord>,
    /// The numbers of files that are missing or damaged.
    damaged: BTreeSet<usize>,
}

impl CompletedFiles {
    /// Reads the folder's journal of data files, if it has the key `key`, and verifies the files that it lists. First
    /// renames the last one to its final name, if that has not been done and its bytes are undamaged. With a store,
    /// files that the folder lacks are looked for there.
    ///
    /// # Errors
    /// A file cannot be read or written, or the observer asks to stop.
    pub(super) fn find(
        folder: &OutputFolder,
        key: &str,
        store: Option<&dyn FileStore>,
        observer: &dyn Observer,
    ) -> Result<CompletedFiles> {
        let (journal, listed) = Journal::open::<FileRecord>(folder.file_journal(), key)?;
        let mut files = CompletedFiles { journal, records: Vec::new(), damaged: BTreeSet::new() };
        for record in listed {
            if record.number > files.records.len() {
                break;
            }
            files.insert(record);
        }
        if let Some(last) = files.records.last() {
            publish_if_complete(folder, last, observer)?;
        }
        files.damaged = damaged_files(folder.path(), &files.records, store, observer)?;
        if let Some(&first) = files.damaged.first() {
            let name = &files.records[first].file.name;
            observer.noted(&match files.damaged.len() {
                1 => format!("{name} is missing or differs from its record: encoding it again"),
                many => format!(
                    "{name} and {} are missing or differ from their records: encoding them again",
                    with_unit(to_u64(many - 1), "other data file")
                ),
            });
        }
        Ok(files)
    }

    /// The documents that must still be encoded: those of damaged files, then all after the last file.
    pub(super) fn missing(&self) -> Vec<DocumentSpan> {
        let again = |&number: &usize| {
            let FileRecord { start, totals, .. } = &self.records[number];
            DocumentSpan { number, from: *start, documents: Some(totals.documents) }
        };
        let next = self.records.len();
        let rest = DocumentSpan { number: next, from: self.start(next), documents: None };
        self.damaged.iter().map(again).chain([rest]).collect()
    }

    /// The position in the input where a file begins. It follows from the record before, so all earlier files must be
    /// recorded.
    pub(super) fn start(&self, number: usize) -> Position {
        let before = number.checked_sub(1).and_then(|before| self.records.get(before));
        before.map_or_else(Position::default, |before| before.totals.next)
    }

    /// Whether this is the name of an undamaged data file, or of the `.idx` file that is its index.
    pub(super) fn has(&self, name: &str) -> bool {
        self.undamaged().any(|record| record.file.names().any(|known| known == name))
    }

    /// The undamaged files.
    pub(super) fn undamaged(&self) -> impl Iterator<Item = &FileRecord> {
        self.records.iter().filter(|record| !self.damaged.contains(&record.number))
    }

    /// Records a file that is about to be given its name. The record is on disk when this returns.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(super) fn push(&mut self, record: FileRecord) -> Result<()> {
        self.journal.append(&record)?;
        self.journal.sync()?;
        self.damaged.remove(&record.number);
        self.insert(record);
        Ok(())
    }

    /// Inserts a record after those of the files before it, or in place of an earlier one of the same file.
    fn insert(&mut self, record: FileRecord) {
        match self.records.get_mut(record.number) {
            Some(earlier) => *earlier = record,
            None => self.records.push(record),
        }
    }
}

/// Gives the last recorded file its name, if the run ended between recording and naming it, and its bytes are
/// undamaged.
///
/// # Errors
/// A file cannot be read or renamed, or the observer asks to stop.
fn publish_if_complete(folder: &OutputFolder, last: &FileRecord, observer: &dyn Observer) -> Result<()> {
    let (path, incomplete_path) = (folder.path().join(&last.file.name), folder.incomplete_file());
    if path.exists() || !incomplete_path.exists() {
        return Ok(());
    }
    let name = incomplete_path.strip_prefix(folder.path()).unwrap_or(&incomplete_path);
    let name = name.to_string_lossy().into_owned();
    let not_yet_named = OutputFile { name, ..last.file.clone() };
    match not_yet_named.verify_bytes(folder.path(), observer) {
        Ok(()) => publish(&incomplete_path, &path),
        Err(error) if error.kind() == ErrorKind::Mismatch => Ok(()),
        Err(error) => Err(error),
    }
}

/// Gives a synced file its final name. The name is on disk when this returns.
///
/// # Errors
/// The file cannot be renamed, or its folder cannot be synced.
pub(super) fn publish(incomplete_path: &Path, path: &Path) -> Result<()> {
    fs::rename(incomplete_path, path).map_err(|cause| Error::io("write", path, cause))?;
    atomic_file::sync_folder(crate::base::folder_of(path))
}

/// The numbers of the files that are not as they were recorded. A file that cannot be read is an error: it may be
/// undamaged, and must not be replaced.
///
/// # Errors
/// A file cannot be read, or the observer asks to stop.
fn damaged_files(
    folder: &Path,
    records: &[FileRecord],
    store: Option<&dyn FileStore>,
    observer: &dyn Observer,
) -> Result<BTreeSet<usize>> {
    if records.is_empty() {
        return Ok(BTreeSet::new());
    }
    observer.started(Stage::Verify, Some(records.iter().map(|record| record.file.bytes).sum()));
    let damaged = |record: &FileRecord| match record.file.verify_in(folder, store, observer) {
        Err(error) if error.kind() == ErrorKind::Mismatch => Some(Ok(record.number)),
        verified => verified.err().map(Err),
    };
    let damaged = records.par_iter().with_max_len(1).filter_map(damaged).collect();
    observer.finished(Stage::Verify);
    damaged
}
