//! The training record, which the program keeps beside a tokenizer that it learned.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::format::{Format, bytes_if_there};
use super::hf::pretty;
use crate::base::atomic_file::publish_bytes_within;
use crate::base::integrity;
use crate::error::{Error, Result};
use crate::train::HistoryPoint;

/// The name of the record's file.
const NAME: &str = "training.json";

/// How a vocabulary was learned, which no tokenizer format has a place for. It is stored as `training.json` in the
/// tokenizer's folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

    /// Returns the content of the record's file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        pretty(self)
    }

    /// Returns whether the record says that the folder holds a tokenizer in this format.
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
        let damaged = |cause| Fault::Json(cause).in_file(&path);
        integrity::check_format_version(&path, &json, damaged)?;
        serde_json::from_slice(&json).map(Some).map_err(damaged)
    }
}
