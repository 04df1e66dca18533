use std::fs::{self, File};
use std::path::Path;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::contents::{Contents, Position};
use super::folder::OutputFolder;
use super::journal::Journal;
use super::manifest::OutputFile;
use crate::error::{Error, ErrorKind, Result};
use crate::files;
use crate::hashing::Set;
use crate::observer::{Observer, Stage};

/// A data file that was written to its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FileRecord {
    pub(super) number: usize,
    /// Where in the input its documents begin.
    pub(super) start: Position,
    /// The file, its units not yet named.
    pub(super) file: OutputFile,
    pub(super) contents: Contents,
    /// What the caller noted.
    pub(super) remarks: Vec<Value>,
}

/// Some consecutive documents, which go to one data file or, where none follow, to as many as they fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Number of the data file, or of the first.
    pub(super) number: usize,
    /// Where in the input the documents begin.
    pub from: Position,
    /// How many there are; `None` is all that follow.
    pub documents: Option<u64>,
}

/// The data files that were written to their end, and which of them are still as they were.
pub(super) struct FinishedFiles {
    journal: Journal,
    /// By number.
    records: Vec<FileRecord>,
    good: Vec<bool>,
}

impl FinishedFiles {
    /// Reads what was noted under this key and compares the files with it. A file that was not given its
    /// name any more is given it.
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

    /// What is still to be encoded.
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

    /// Where a file begins in the input.
    pub(super) fn start(&self, number: usize) -> Position {
        match number {
            0 => Position::default(),
            _ => self.records.get(number - 1).map_or_else(Position::default, |before| before.contents.next),
        }
    }

    fn end(&self) -> Position {
        self.start(self.records.len())
    }

    /// Whether a file is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.records
            .iter()
            .zip(&self.good)
            .any(|(record, good)| *good && record.file.names().any(|known| known == name))
    }

    /// The files that are there.
    pub(super) fn there(&self) -> impl Iterator<Item = &FileRecord> {
        self.records.iter().zip(&self.good).filter(|(_, good)| **good).map(|(record, _)| record)
    }

    /// Notes a file that is about to get its name.
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

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn into_records(self) -> Vec<FileRecord> {
        self.records
    }
}

/// The names of all files that a journal notes, of whatever job: what this program wrote, or was about to name.
pub(super) fn noted(journal: &Path) -> Result<Set<String>> {
    let records = Journal::said::<FileRecord>(journal)?;
    Ok(records.iter().flat_map(|record| record.file.names()).cloned().collect())
}

/// A run can end after a file was noted and before it got its name.
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

/// Gives a file that is on disk its name.
pub(super) fn publish(draft: &Path, path: &Path) -> Result<()> {
    fs::rename(draft, path).map_err(|cause| Error::io("write", path, cause))?;
    files::sync_folder(files::folder_of(path))
}

/// Waits until a file is on disk.
pub(super) fn sync(file: &File, path: &Path) -> Result<()> {
    file.sync_all().map_err(|cause| Error::io("write", path, cause))
}

/// Which files are as they were when they were noted. One that cannot be read may be, and is not to be replaced.
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
