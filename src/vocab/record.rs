//! The record of the training that made a tokenizer, which is stored beside its files.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::format::{Format, not_json};
use super::formats::transformers::WriteOptions;
use super::io::{bytes_if_there, pretty};
use super::vocabulary::Vocabulary;
use crate::base::atomic_file::{self, publish_bytes_within};
use crate::base::folder_of;
use crate::base::integrity;
use crate::error::{Error, Result};
use crate::train::HistoryPoint;

/// Removes the files of a format from a folder, if they exist: those that [`write`](super::write) would replace, and so
/// not the record.
///
/// # Errors
/// A file cannot be removed.
pub(crate) fn remove(format: Format, folder: &Path, options: &WriteOptions) -> Result<()> {
    format.file_names(&options.name).into_iter().try_for_each(|name| atomic_file::remove(&folder.join(name)))
}

/// The name of the record's file. It is fixed, so a folder can hold one record.
const NAME: &str = "training.json";

/// How a vocabulary was learned, which no tokenizer format has a place for. It is stored as `training.json` in the
/// tokenizer's folder.
///
/// Other programs ignore the file. This program reads it to inspect a tokenizer and to train it further, and
/// [`load`](super::load) uses the fingerprint to notice files of different trainings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingRecord {
    /// [`FORMAT_VERSION`](crate::FORMAT_VERSION) of the program that wrote it.
    pub format_version: u32,
    /// The version of this program that learned the vocabulary.
    pub tool_version: String,
    /// The [fingerprint](super::Vocabulary::fingerprint) of the vocabulary. It shows whether the record belongs to
    /// the tokenizer in the same folder.
    pub vocabulary: String,
    /// The settings of the training, in the form that the run chose.
    pub settings: serde_json::Value,
    /// How often the pair of each merge occurred when it was merged, in order of rank.
    pub counts: Vec<u64>,
    /// How many pairs each merge replaced, in order of rank: its count, or less if pairs overlapped. Empty in records
    /// of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<u64>,
    /// The number of tokens in the corpus after selected numbers of merges.
    pub history: Vec<HistoryPoint>,
}

impl TrainingRecord {
    /// Returns the path of a folder's record.
    pub fn path(folder: &Path) -> PathBuf {
        folder.join(NAME)
    }

    /// Writes the record into a folder and returns its path. The file appears complete or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf> {
        let path = TrainingRecord::path(folder);
        publish_bytes_within(&path, &self.bytes())?;
        Ok(path)
    }

    /// Returns the content of the record's file. Equal records give equal bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        pretty(self)
    }

    /// Returns whether the record says that the folder holds a tokenizer in this format. Records of settings without
    /// a list of formats name none.
    pub(super) fn has(&self, format: Format) -> bool {
        let formats = self.settings.get("formats").and_then(serde_json::Value::as_array);
        formats.is_some_and(|formats| formats.iter().any(|name| name.as_str() == Some(format.name())))
    }

    /// Removes the record of a folder.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn remove(folder: &Path) -> Result<()> {
        let path = TrainingRecord::path(folder);
        std::fs::remove_file(&path).map_err(|cause| Error::io("remove", path, cause))
    }

    /// Reads the record of a folder; returns `None` if it has none.
    ///
    /// # Errors
    /// The file is damaged, was written by a later version, or cannot be read.
    pub fn read(folder: &Path) -> Result<Option<TrainingRecord>> {
        let path = TrainingRecord::path(folder);
        let Some(json) = bytes_if_there(&path)? else { return Ok(None) };
        let damaged = |cause| not_json(cause).at(path.display());
        integrity::check_format_version(&path, &json, damaged)?;
        serde_json::from_slice(&json).map(Some).map_err(damaged)
    }
}

/// Refuses files that do not belong to the training record beside them.
///
/// A missing or damaged record proves nothing and is no error. The same holds for files under names that
/// [`write`](super::write) would not give by default, and for formats that the record does not list: such files were
/// put there by somebody else.
///
/// # Errors
/// The record's fingerprint is that of another vocabulary.
pub(super) fn check_record(vocabulary: &Vocabulary, format: Format, path: &Path) -> Result<()> {
    let named = path.file_stem().is_some_and(|stem| *stem == *WriteOptions::default().name);
    let is_ours = format == Format::Gpt2 || named;
    let record = TrainingRecord::read(folder_of(path)).ok().flatten();
    match record.filter(|record| is_ours && record.has(format)) {
        Some(record) if record.vocabulary != vocabulary.fingerprint() => {
            let problem = "it does not match training.json beside it: the files are of two training runs, or were changed";
            Err(Error::failed(problem).at(path.display()).with_help(
                "run the same `train` command again; if the files were changed on purpose, move training.json away",
            ))
        }
        _ => Ok(()),
    }
}
