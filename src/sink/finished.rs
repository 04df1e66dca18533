//! Keeps a journal of completed data files, and finds those that are undamaged.

use std::fs::{self, File};
use std::path::Path;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::contents::{Contents, Position};
use super::folder::OutputFolder;
use super::journal::Journal;
use super::manifest::OutputFile;
use crate::base::atomic_file;
use crate::base::seeded_hash::Set;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Stage};

/// A completed data file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FileRecord {
    pub(super) number: usize,
    /// The position of its first document in the input.
    pub(super) start: Position,
    /// The entry for the manifest, without its units.
    pub(super) file: OutputFile,
    pub(super) contents: Contents,
    /// The caller's remarks.
    pub(super) remarks: Vec<Value>,
}

/// Consecutive documents that are written to one data file, or, if they are the last ones, to any number of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Number of the data file, or of the first one.
    pub(super) number: usize,
    /// The position of the first document in the input.
    pub from: Position,
    /// Number of documents. `None` means all that follow.
    pub documents: Option<u64>,
}

/// The completed data files, and whether each is undamaged.
pub(super) struct FinishedFiles {
    journal: Journal,
    /// The files in the order of their numbers.
    records: Vec<FileRecord>,
    /// For each record, whether its file exists and is undamaged.
    good: Vec<bool>,
}

impl FinishedFiles {
    /// Reads the journal of this key and verifies the files that it lists. If the last one had not been given its
    /// name yet, it is named.
    ///
    /// # Errors
    /// A file cannot be read or written, or the observer asks to stop.
    pub(super) fn find(folder: &OutputFolder, key: &str, observer: &dyn Observer) -> Result<FinishedFiles> {
        let (journal, listed) = Journal::open::<FileRecord>(folder.finished_journal(), key)?;
        let mut records: Vec<FileRecord> = Vec::new();
        for record in listed {
            match record.number {
                again if again < records.len() => records[again] = record,
                next if next == records.len() => records.push(record),
                _ => break,
            }
        }
        if let Some(last) = records.last() {
            publish_if_finished(folder, last, observer)?;
        }
        let good = check(folder.path(), &records, observer)?;
        Ok(FinishedFiles { journal, records, good })
    }

    /// The documents that must still be encoded: those of damaged files, then all after the last file.
    pub(super) fn missing(&self) -> Vec<Span> {
        let damaged = self.records.iter().zip(&self.good).filter(|(_, good)| !**good);
        let again = |(record, _): (&FileRecord, _)| Span {
            number: record.number,
            from: record.start,
            documents: Some(record.contents.documents),
        };
        let rest = Span { number: self.records.len(), from: self.end(), documents: None };
        damaged.map(again).chain([rest]).collect()
    }

    /// The position in the input where a file begins.
    pub(super) fn start(&self, number: usize) -> Position {
        match number {
            0 => Position::default(),
            _ => self.records.get(number - 1).map_or_else(Position::default, |before| before.contents.next),
        }
    }

    /// The position after the last file.
    fn end(&self) -> Position {
        self.start(self.records.len())
    }

    /// Whether a file of this name is complete and undamaged.
    pub(super) fn has(&self, name: &str) -> bool {
        self.records
            .iter()
            .zip(&self.good)
            .any(|(record, good)| *good && record.file.names().any(|known| known == name))
    }

    /// The complete and undamaged files.
    pub(super) fn there(&self) -> impl Iterator<Item = &FileRecord> {
        self.records.iter().zip(&self.good).filter(|(_, good)| **good).map(|(record, _)| record)
    }

    /// Records a file that is about to be given its name.
    pub(super) fn push(&mut self, record: FileRecord) -> Result<()> {
        self.journal.append(&record)?;
        self.journal.sync()?;
        match record.number {
            again if again < self.records.len() => {
                self.good[again] = true;
                self.records[again] = record;
            }
            _ => {
                self.good.push(true);
                self.records.push(record);
            }
        }
        Ok(())
    }

    /// Number of files, including damaged ones.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn into_records(self) -> Vec<FileRecord> {
        self.records
    }
}

/// The names of all files in a journal, whatever its job: files that this program wrote, or was about to name.
pub(super) fn noted(journal: &Path) -> Result<Set<String>> {
    let records = Journal::said::<FileRecord>(journal)?;
    Ok(records.iter().flat_map(|record| record.file.names()).cloned().collect())
}

/// Gives the last recorded file its name, if the run ended between recording and naming it, and its bytes are
/// undamaged.
fn publish_if_finished(folder: &OutputFolder, last: &FileRecord, observer: &dyn Observer) -> Result<()> {
    let (path, draft) = (folder.path().join(&last.file.name), folder.unfinished());
    if path.exists() || !draft.exists() {
        return Ok(());
    }
    let name = draft.strip_prefix(folder.path()).unwrap_or(&draft).to_string_lossy().into_owned();
    let as_draft = OutputFile { name, ..last.file.clone() };
    match as_draft.verify_bytes(folder.path(), observer) {
        Ok(()) => publish(&draft, &path),
        Err(error) if error.kind() == ErrorKind::Mismatch => Ok(()),
        Err(error) => Err(error),
    }
}

/// Gives a synced file its final name.
pub(super) fn publish(draft: &Path, path: &Path) -> Result<()> {
    fs::rename(draft, path).map_err(|cause| Error::io("write", path, cause))?;
    atomic_file::sync_folder(atomic_file::folder_of(path))
}

/// Waits until the contents of a file are on disk.
pub(super) fn sync(file: &File, path: &Path) -> Result<()> {
    file.sync_all().map_err(|cause| Error::io("write", path, cause))
}

/// Whether each file is as it was recorded. A file that cannot be read is an error: it may be undamaged, and must not
/// be replaced.
fn check(folder: &Path, records: &[FileRecord], observer: &dyn Observer) -> Result<Vec<bool>> {
    if records.is_empty() {
        return Ok(Vec::new());
    }
    observer.started(Stage::Verify, Some(records.iter().map(|record| record.file.bytes).sum()));
    let check = |record: &FileRecord| match record.file.verify(folder, observer) {
        Err(error) if error.kind() != ErrorKind::Mismatch => Err(error),
        compared => Ok(compared.is_ok()),
    };
    let good = records.par_iter().with_max_len(1).map(check).collect();
    observer.finished(Stage::Verify);
    good
}
