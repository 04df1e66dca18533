//! The parts that the readers and writers of all formats share: the options of reading, access to files, and JSON.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::format::{Format, not_json, not_text, of_other_kind, too_long};
use super::{SpecialToken, other_files};
use crate::base::int::{TokenId, to_u64};
use crate::error::{Error, Result};
use crate::split::SplitPattern;

/// Maximum size of a tokenizer file (256 MiB). The largest files in use have some tens of megabytes.
pub(crate) const MAX_FILE_BYTES: u64 = 256 << 20;

/// What to assume where a tokenizer's files do not say it.
///
/// A `vocab.json` itself names no split, so [`split`](LoadOptions::split) takes precedence over the tokenizer class
/// in a `tokenizer_config.json` beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// The format. By default it follows from the file's name and content, or from the files in a folder.
    pub format: Option<Format>,
    /// The split pattern. It is required if no file names one (a `.tiktoken` on its own) and optional for a
    /// `vocab.json`, which otherwise means GPT-2's pattern. It is an error if a file names another one.
    pub split: Option<SplitPattern>,
    /// Special tokens that no file names, for a `.tiktoken` on its own or a `vocab.json`. If a file names special
    /// tokens, these must be among them.
    pub special_tokens: Vec<SpecialToken>,
}

impl LoadOptions {
    /// Returns the split that a file names. Without a wish in the options, any split is right.
    ///
    /// # Errors
    /// The options ask for another one.
    pub(super) fn same_split(&self, named: SplitPattern) -> Result<SplitPattern> {
        match &self.split {
            Some(wanted) if *wanted != named => {
                Err(Error::usage("the requested split is not the one that the file names")
                    .with_help("leave out the split pattern: the file names its own"))
            }
            _ => Ok(named),
        }
    }
}

/// The contents of a format's files, in the order of their [names](Format::file_names). The file that
/// [`load`](super::load) reads first is the first one.
pub(super) type Rendered = [Vec<u8>; 2];

/// The byte order mark that some editors put before UTF-8 text. No format begins with it. It is removed before
/// parsing.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns the bytes of a file, without a byte order mark. A file may have at most [`MAX_FILE_BYTES`].
///
/// **Memory:** the size of the file. The length that the file system reports is not trusted, so pipes and growing
/// files are limited, too.
///
/// # Errors
/// The file is longer, is of another known kind, or cannot be read.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    read_bytes_up_to(MAX_FILE_BYTES, "a tokenizer", path)
}

/// Does the same for a file of at most `limit` bytes, which should be `what`.
pub(super) fn read_bytes_up_to(limit: u64, what: &str, path: &Path) -> Result<Vec<u8>> {
    let cannot = |cause| Error::io("read", path, cause);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(cannot)?;
    // One byte more than allowed, to detect a longer file.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if to_u64(bytes.len()) > limit {
        return Err(too_long(limit, what).at(path.display()));
    }
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    match other_files::by_first_bytes(&bytes) {
        Some(other) => Err(of_other_kind(other).at(path.display())),
        None => Ok(bytes),
    }
}

/// Returns the bytes of a file, or `None` if it does not exist.
///
/// # Errors
/// Those of [`read_bytes`], or the system does not say whether the file exists.
pub(super) fn bytes_if_there(path: &Path) -> Result<Option<Vec<u8>>> {
    let is_there = path.try_exists().map_err(|cause| Error::io("read", path, cause))?;
    is_there.then(|| read_bytes(path)).transpose()
}

/// Parses a JSON file; returns `None` if it does not exist.
///
/// # Errors
/// Those of [`bytes_if_there`], or the file is not the JSON expected.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let Some(bytes) = bytes_if_there(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| not_json(error).at(path.display()))
}

/// Returns the content of a UTF-8 file.
///
/// # Errors
/// Those of [`read_bytes`], or the file is not UTF-8.
pub(super) fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read_bytes(path)?).map_err(|error| not_text(error).at(path.display()))
}

/// Returns JSON with line breaks, so that the difference between two vocabularies is a few lines. Equal values give
/// equal bytes. The last byte is a line break.
pub(super) fn pretty(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("names and numbers are always JSON");
    bytes.push(b'\n');
    bytes
}

/// The entries of a JSON object that maps names to ids, in the order of the file. Duplicate names are kept, so that
/// they can be refused; a map would silently keep the last one. Ids are not checked here. They may repeat or leave
/// holes.
#[derive(Debug, Default)]
pub(super) struct VocabularyEntries(pub(super) Vec<(String, TokenId)>);

impl<'de> Deserialize<'de> for VocabularyEntries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<VocabularyEntries, D::Error> {
        /// A map is visited entry by entry, because every map type of the standard library would drop duplicates.
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = VocabularyEntries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tokens with their ids")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<VocabularyEntries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(VocabularyEntries(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor)
    }
}

impl Serialize for VocabularyEntries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, id)| (name, id)))
    }
}
