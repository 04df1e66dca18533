//! The folder of a tokenizer: which files it holds, in which format they are, whether they belong together, and the
//! record of the training that made them.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::VocabError;
use super::format::{Format, TOKENIZER, by_first_bytes, by_lines};
use super::formats::transformers::WriteOptions;
use super::formats::{gpt2, tiktoken};
use super::io::{BYTE_ORDER_MARK, bytes_if_there, pretty};
use super::vocabulary::Vocabulary;
use crate::base::atomic_file::{self, folder_of, publish_bytes_within};
use crate::base::integrity;
use crate::error::{Error, Result};
use crate::train::HistoryPoint;

/// Returns a file's length and modification time. A change in them shows that another file has replaced it.
pub(super) fn stamp(path: &Path) -> Option<(u64, std::time::SystemTime)> {
    let found = fs::metadata(path).ok()?;
    Some((found.len(), found.modified().ok()?))
}

/// Refuses files of two tokenizers, in the formats that need several files: files that another training replaced
/// while they were read, and files that do not belong to the training record beside them.
pub(super) fn check_one_tokenizer(
    vocabulary: &Vocabulary,
    format: Format,
    path: &Path,
    before: Option<(u64, std::time::SystemTime)>,
) -> Result<()> {
    if !matches!(format, Format::Tiktoken | Format::Gpt2) {
        return Ok(());
    }
    if stamp(path) != before {
        return Err(VocabError::Replaced.in_file(path).with_help("run the same command again"));
    }
    let named = path.file_stem().is_some_and(|stem| *stem == *WriteOptions::default().name);
    let is_ours = format == Format::Gpt2 || named;
    let record = TrainingRecord::read(folder_of(path)).ok().flatten();
    match record.filter(|record| is_ours && record.has(format)) {
        Some(record) if record.vocabulary != vocabulary.fingerprint() => {
            Err(VocabError::OtherTraining.in_file(path).with_help(
                "run the same `train` command again; if the files were changed on purpose, move training.json away",
            ))
        }
        _ => Ok(()),
    }
}

/// Returns the paths of the files that [`write()`] would write in these formats.
pub(crate) fn paths(formats: &[Format], folder: &Path, options: &WriteOptions) -> Vec<PathBuf> {
    let names = formats.iter().flat_map(|format| format.file_names(&options.name));
    names.map(|name| folder.join(name)).collect()
}

/// Removes the files of a format from a folder, if they exist. These are the files that [`write()`] would replace.
///
/// # Errors
/// A file cannot be removed.
pub(crate) fn remove(format: Format, folder: &Path, options: &WriteOptions) -> Result<()> {
    format.file_names(&options.name).into_iter().try_for_each(|name| atomic_file::remove(&folder.join(name)))
}

/// Returns the formats in which a folder holds a tokenizer, in the order of [`Format::ALL`].
///
/// # Errors
/// The folder cannot be read, or has several files of one format.
pub fn formats_in(folder: &Path) -> Result<Vec<Format>> {
    let there = |&format: &Format| in_folder(folder, format).map(|file| file.map(|_| format));
    Format::ALL.iter().filter_map(|format| there(format).transpose()).collect()
}

/// Returns the format and the main file of the tokenizer at `path`.
pub(super) fn locate(path: &Path, format: Option<Format>) -> Result<(Format, PathBuf)> {
    let metadata = fs::metadata(path).map_err(|cause| Error::io("read", path, cause))?;
    if !metadata.is_dir() {
        let format = match format.or_else(|| of_file(path)) {
            // Rank files also have this extension; Llama 3's is `tokenizer.model`.
            Some(Format::Minbpe) if format.is_none() => of_content(path)?.unwrap_or(Format::Minbpe),
            Some(format) => format,
            None if metadata.is_file() => {
                of_content(path)?.ok_or_else(|| VocabError::UnknownFormat.in_file(path))?
            }
            None => return Err(VocabError::UnknownFormat.in_file(path)),
        };
        return Ok((format, path.to_owned()));
    }
    let formats = match &format {
        Some(format) => std::slice::from_ref(format),
        None => &Format::ALL,
    };
    for &candidate in formats {
        if let Some(file) = in_folder(path, candidate)? {
            let is_ranks = || Ok::<_, Error>(of_content(&file)? == Some(Format::Tiktoken));
            return Ok(match candidate {
                Format::Minbpe if format.is_none() && is_ranks()? => (Format::Tiktoken, file),
                candidate => (candidate, file),
            });
        }
    }
    // Other tokenizer kinds use these names, so that their content gives a more precise error.
    for other in ["vocab.txt", "tokenizer.pkl"].map(|name| path.join(name)) {
        if format.is_none() && other.is_file() {
            of_content(&other)?;
        }
    }
    let error = format.map_or(VocabError::UnknownFormat, VocabError::NoSuch).in_file(path);
    Err(match deeper(path) {
        Some(found) => error.with_help(format!("name {} instead, which has one", found.display())),
        None => error,
    })
}

/// Returns the first subfolder that holds a tokenizer. An output folder of `run` has one.
fn deeper(folder: &Path) -> Option<PathBuf> {
    let below = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let has_one = |path: &PathBuf| path.is_dir() && formats_in(path).is_ok_and(|formats| !formats.is_empty());
    below.filter(has_one).min()
}

fn of_file(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?;
    Some(match path.extension()?.to_str()? {
        _ if gpt2::NAMES.as_flattened().contains(&name) => Format::Gpt2,
        "json" if !name.ends_with(".tiktoken.json") => Format::Hf,
        "tiktoken" => Format::Tiktoken,
        "model" => Format::Minbpe,
        _ => return None,
    })
}

/// Returns the format of a file whose name does not determine it.
///
/// # Errors
/// The file is of another known kind, or cannot be read.
fn of_content(path: &Path) -> Result<Option<Format>> {
    /// Bytes read from the beginning of the file (64 KiB), enough for the first tokens of any list.
    const BEGINNING: u64 = 1 << 16;
    let cannot = |cause| Error::io("read", path, cause);
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(BEGINNING).read_to_end(&mut bytes)).map_err(cannot)?;
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
    if tiktoken::begins_with_a_rank(bytes) {
        return Ok(Some(Format::Tiktoken));
    }
    match by_first_bytes(bytes).or_else(|| by_lines(bytes)) {
        Some(other) => Err(VocabError::OtherFileKind(other).in_file(path)),
        None => Ok(None),
    }
}

fn in_folder(folder: &Path, format: Format) -> Result<Option<PathBuf>> {
    match format {
        Format::Hf => match existing(folder.join(TOKENIZER))? {
            None => existing(folder.join(tiktoken::TEKKEN)),
            found => Ok(found),
        },
        Format::Gpt2 => {
            let named = gpt2::NAMES.iter().map(|[vocabulary, _]| existing(folder.join(vocabulary)));
            named.filter_map(Result::transpose).next().transpose()
        }
        Format::Tiktoken => only(folder, "tiktoken"),
        Format::Minbpe => only(folder, "model"),
    }
}

/// Returns the path if it is a file. A path that the system does not let this process inspect is an error, since it
/// may be a file.
fn existing(path: PathBuf) -> Result<Option<PathBuf>> {
    match fs::metadata(&path) {
        Ok(metadata) => Ok(metadata.is_file().then_some(path)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Error::io("read", path, cause)),
    }
}

/// Returns the only file of a folder with this extension.
fn only(folder: &Path, extension: &str) -> Result<Option<PathBuf>> {
    let cannot = |cause| Error::io("read", folder, cause);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    if found.len() > 1 {
        let names = found.iter().filter_map(|path| path.file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned()).collect();
        return Err(VocabError::Several(names).in_file(folder));
    }
    Ok(found.pop())
}

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
        let damaged = |cause| VocabError::Json(cause).in_file(&path);
        integrity::check_format_version(&path, &json, damaged)?;
        serde_json::from_slice(&json).map(Some).map_err(damaged)
    }
}
