//! The format of counts files.
//!
//! A counts file is a Parquet file. Each row is a distinct pre-token:
//!
//! | column | type | content |
//! | --- | --- | --- |
//! | `pretoken` | binary | the bytes of the pre-token, not empty |
//! | `count` | 64-bit unsigned integer | how often it occurs, at least 1 |
//! | `first` | 64-bit unsigned integer | the number of the row; only if the file is in order of first appearance |
//!
//! Without the column `first`, rows are sorted by `pretoken`. The key-value metadata of the file has the [`CountsInfo`]
//! as JSON under `tokenmill.counts`, and a checksum of it and of all rows under `tokenmill.counts.sha256`.

use std::path::Path;

use arrow_schema::{DataType, Field, Schema};

use super::counts::{EACH, EACH_INDEXED, check_fits};
use super::counts_reader::CountsReader;
use super::fault::Fault;
use super::merge::PretokenReader;
use super::{Boundary, PretokenCounts};
use crate::base::hash_index::HashIndex;
use crate::base::int::{ByteCount, to_u64};
use crate::base::seeded_hash::Hashing;
use crate::error::Result;
use crate::split::SplitPattern;
use crate::{FORMAT_VERSION, VERSION};

const PRETOKEN: &str = "pretoken";
const COUNT: &str = "count";
const FIRST: &str = "first";
/// The metadata key of the [`CountsInfo`], as JSON.
pub(super) const KEY: &str = "tokenmill.counts";

/// The metadata of a counts file.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CountsInfo {
    /// [`FORMAT_VERSION`](crate::FORMAT_VERSION) of the program that wrote the file.
    pub format_version: u32,
    /// The split pattern. It must not be [`SplitPattern::None`].
    pub pattern: SplitPattern,
    /// The extent of a text that was split on its own.
    pub boundary: Boundary,
    /// The special tokens that were removed from the text.
    pub special_tokens: Vec<String>,
    /// The sources that were counted: their names and identities, as the run describes them.
    pub sources: serde_json::Value,
    /// Whether the pre-tokens are in order of first appearance, which the tie rule `first` needs. Otherwise they are
    /// sorted by their bytes.
    pub ordered: bool,
    /// Version of the program that counted.
    pub tool_version: String,
}

impl Default for CountsInfo {
    /// Returns the versions of this program, and empty values otherwise.
    fn default() -> CountsInfo {
        CountsInfo {
            format_version: FORMAT_VERSION,
            pattern: SplitPattern::default(),
            boundary: Boundary::default(),
            special_tokens: Vec::new(),
            sources: serde_json::Value::Null,
            ordered: false,
            tool_version: VERSION.to_owned(),
        }
    }
}

/// The contents of a counts file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountsFile {
    /// The pre-tokens. [`CountsInfo::ordered`] says in which order.
    pub pretokens: PretokenCounts,
    /// The metadata.
    pub info: CountsInfo,
}

/// Returns the columns of a counts file.
pub(super) fn schema(ordered: bool) -> Schema {
    let mut fields =
        vec![Field::new(PRETOKEN, DataType::Binary, false), Field::new(COUNT, DataType::UInt64, false)];
    if ordered {
        fields.push(Field::new(FIRST, DataType::UInt64, false));
    }
    Schema::new(fields)
}

/// Reads and checks a counts file. A damaged or foreign file is an error, never a wrong count.
///
/// **Memory:** that of the [`PretokenCounts`]. For a file in order of first appearance, 11 to 32 bytes more for each
/// pre-token while reading.
///
/// # Errors
/// The file cannot be read, is not a counts file, or contains values that no counts file can contain.
pub fn read_counts(path: &Path) -> Result<CountsFile> {
    read_counts_within(path, ByteCount(u64::MAX))
}

/// Does the same as [`read_counts`]. Pre-tokens that take more than `limit` are an error.
pub(super) fn read_counts_within(path: &Path, limit: ByteCount) -> Result<CountsFile> {
    let mut reader = CountsReader::open(path)?;
    let (mut pretokens, mut index) = (PretokenCounts::new(), HashIndex::default());
    while reader.advance()? {
        if reader.info().ordered {
            // In a file sorted by bytes, the reader itself detects equal pre-tokens.
            let (hash, before) = (Hashing::of_process().bytes(reader.pretoken()), pretokens.len());
            if index.find(hash, |number| pretokens.pretoken(number - 1) == reader.pretoken()).is_some() {
                let (path, problem) = (path.to_path_buf(), "the pre-token is repeated");
                return Err(Fault::Row { path, row: to_u64(before), problem }.into());
            }
            index.insert(hash, before + 1).map_err(Fault::from)?;
        }
        pretokens.push(reader.pretoken(), reader.count());
        check_fits(&pretokens, if reader.info().ordered { EACH_INDEXED } else { EACH }, limit)?;
    }
    Ok(CountsFile { pretokens, info: reader.into_info() })
}

/// Reads the metadata of a counts file, without the counts.
///
/// # Errors
/// The file cannot be read, or is not a counts file.
pub fn read_counts_info(path: &Path) -> Result<CountsInfo> {
    CountsReader::open(path).map(CountsReader::into_info)
}
