use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;
use thiserror::Error;

use super::CountConfig;
use crate::base::hash_index;
use crate::base::int::{ByteCount, to_u64};
use crate::error::{Error, ErrorKind};

/// Errors of counting, and of counts files.
#[derive(Debug, Error)]
pub(super) enum Fault {
    #[error("the count of {} does not fit in 64 bits", shown(pretoken))]
    Overflow { pretoken: Vec<u8> },
    #[error("the distinct pre-tokens need more than {limit}, their share of the memory limit")]
    TooManyPretokens { limit: ByteCount },
    #[error("normalizing a text before the split makes it more than {most} times as long")]
    Grown { most: u64 },
    #[error("the distinct documents need more than {limit}, their share of the memory limit")]
    TooMuchText { limit: ByteCount },
    #[error("the system has no memory for {bytes} of distinct documents")]
    NoRoom { bytes: ByteCount },
    #[error("the corpus has more than {most} distinct pre-tokens, which is the limit")]
    TooManyNumbers { most: usize },
    #[error("the sorted runs in {} are damaged", folder.display())]
    DamagedRun { folder: PathBuf },
    #[error("counts without a split cannot be saved: each pre-token would be a whole document")]
    Unsplit,
    #[error("a pre-token of {bytes} bytes is too long for a counts file")]
    PretokenTooLong { bytes: usize },
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        cause: ParquetError,
    },
    #[error("{} is not a counts file: {problem}", path.display())]
    NotCounts { path: PathBuf, problem: &'static str },
    #[error("{} cannot be summed with {}: it was counted with {what} {two}, not {one}", path.display(), first.display())]
    OtherCounts { first: PathBuf, path: PathBuf, what: &'static str, one: String, two: String },
    #[error("{} is damaged: {problem} in row {row}", path.display())]
    Row { path: PathBuf, row: u64, problem: &'static str },
    #[error("{} is damaged: its counts or pre-tokens do not match its checksum", path.display())]
    Checksum { path: PathBuf },
    #[error("{} is damaged or not Parquet", path.display())]
    Parquet {
        path: PathBuf,
        #[source]
        cause: ParquetError,
    },
    #[error("{} is damaged", path.display())]
    Data {
        path: PathBuf,
        #[source]
        cause: arrow_schema::ArrowError,
    },
    #[error("{}: the value of its metadata key {key} is invalid", path.display())]
    Metadata {
        path: PathBuf,
        key: &'static str,
        #[source]
        cause: serde_json::Error,
    },
}

/// A pre-token, or a document that is not split, that is longer than the memory limit allows. The source and the unit
/// are given by their numbers; a caller that knows their names can add these.
#[derive(Debug, Error)]
#[error("{what} is longer than {limit}, the most that the memory limit allows")]
pub(crate) struct TooLongForMemory {
    pub(crate) source_number: usize,
    pub(crate) unit: usize,
    pub(crate) row: u64,
    pub(super) what: &'static str,
    pub(super) limit: ByteCount,
}

impl TooLongForMemory {
    /// Returns the error for a pre-token that starts in this unit and row.
    pub(super) fn of_pretoken(
        source: usize,
        (unit, row): (usize, u64),
        config: &CountConfig,
    ) -> TooLongForMemory {
        let (what, limit) = ("a pre-token", ByteCount(to_u64(config.longest_pretoken())));
        TooLongForMemory { source_number: source, unit, row, what, limit }
    }
}

impl From<TooLongForMemory> for Error {
    fn from(fault: TooLongForMemory) -> Error {
        Error::new(ErrorKind::Memory, fault).with_help(
            "raise --memory, leave the document out, or cut it: --documents line or paragraph, or --separator",
        )
    }
}

/// Returns the I/O error within a Parquet error, or `Err` with the Parquet error if it contains none.
pub(super) fn io_error(cause: ParquetError) -> Result<Box<io::Error>, ParquetError> {
    match cause {
        ParquetError::External(inner) => inner.downcast().map_err(ParquetError::External),
        other => Err(other),
    }
}

/// Returns the start of a pre-token for messages, and its length if it has more than 40 bytes.
fn shown(pretoken: &[u8]) -> String {
    const MOST: usize = 40;
    let start = String::from_utf8_lossy(&pretoken[..pretoken.len().min(MOST)]);
    if pretoken.len() > MOST {
        format!("{start:?}… ({} bytes)", pretoken.len())
    } else {
        format!("{start:?}")
    }
}

impl From<hash_index::Full> for Fault {
    fn from(_: hash_index::Full) -> Fault {
        Fault::TooManyNumbers { most: hash_index::MOST }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        let (kind, help) = match &fault {
            Fault::Overflow { .. } => (ErrorKind::Failed, "use smaller weights, or sample the corpus"),
            Fault::TooManyPretokens { .. } => (
                ErrorKind::Memory,
                "raise --memory, or count a part of the corpus (`take`, `every`, `max_bytes`)",
            ),
            Fault::Grown { .. } => {
                (ErrorKind::Failed, "use a tokenizer whose normalizer makes text less long")
            }
            Fault::TooMuchText { .. } => (
                ErrorKind::Memory,
                "raise --memory, or learn from a part of the corpus (`take`, `every`, `max_bytes`)",
            ),
            Fault::TooManyNumbers { .. } | Fault::NoRoom { .. } => {
                (ErrorKind::Memory, "use only a part of the corpus (`take`, `every`, `max_bytes`)")
            }
            Fault::DamagedRun { .. } => (ErrorKind::Failed, "check the disk, and count again"),
            Fault::Unsplit => (ErrorKind::Usage, "choose a split pattern, or train from the text directly"),
            Fault::PretokenTooLong { .. } => {
                (ErrorKind::Failed, "use a split pattern that gives shorter pre-tokens")
            }
            Fault::OtherCounts { .. } => {
                (ErrorKind::Usage, "count with the same pattern, boundary and special tokens")
            }
            Fault::Write { .. } => return Error::new(ErrorKind::Failed, fault),
            Fault::NotCounts { .. } => (ErrorKind::Failed, "give a file that `tokenmill count` wrote"),
            Fault::Row { .. }
            | Fault::Checksum { .. }
            | Fault::Parquet { .. }
            | Fault::Data { .. }
            | Fault::Metadata { .. } => (ErrorKind::Failed, "count the corpus again"),
        };
        Error::new(kind, fault).with_help(help)
    }
}
