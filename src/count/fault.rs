use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;
use thiserror::Error;

use super::CountConfig;
use crate::error::{Error, ErrorKind};
use crate::index;
use crate::units::{ByteCount, amount};

/// Errors of counting, and of counts files.
#[derive(Debug, Error)]
pub(super) enum Fault {
    #[error("the count of {} passes 2^64", shown(piece))]
    Overflow { piece: Vec<u8> },
    #[error("the distinct pieces do not fit the memory limit, of which {limit} are for them")]
    TooManyPieces { limit: ByteCount },
    #[error("what happens to a text before it is split makes it more than {most} times as long")]
    Grown { most: u64 },
    #[error("the distinct documents have more than {limit}, which is what the memory limit leaves for them")]
    TooMuchText { limit: ByteCount },
    #[error("the system has no memory for {bytes} of distinct documents")]
    NoRoom { bytes: ByteCount },
    #[error("no more than {most} distinct pieces can be held")]
    TooManyNumbers { most: usize },
    #[error("the sorted runs in {} are damaged", folder.display())]
    DamagedRun { folder: PathBuf },
    #[error("counts without a split cannot be kept: the pieces are whole documents")]
    Unsplit,
    #[error("a piece of {bytes} bytes is too long for a counts file")]
    PieceTooLong { bytes: usize },
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
    #[error("{} is damaged: its counts or pieces are not those that were written", path.display())]
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
    #[error("{}: the metadata {key} is not what this program writes", path.display())]
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
#[error("{what} has more than {limit}, which is the most that the memory limit allows")]
pub(crate) struct TooLongForMemory {
    pub(crate) source_number: usize,
    pub(crate) unit: usize,
    pub(crate) row: u64,
    pub(super) what: &'static str,
    pub(super) limit: ByteCount,
}

impl TooLongForMemory {
    /// Returns the error for a pre-token that starts in this unit and row.
    pub(super) fn of_piece(
        source: usize,
        (unit, row): (usize, u64),
        config: &CountConfig,
    ) -> TooLongForMemory {
        let (what, limit) = ("a piece of text", ByteCount(amount(config.longest_piece())));
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
fn shown(piece: &[u8]) -> String {
    const MOST: usize = 40;
    let start = String::from_utf8_lossy(&piece[..piece.len().min(MOST)]);
    if piece.len() > MOST { format!("{start:?}… ({} bytes)", piece.len()) } else { format!("{start:?}") }
}

impl From<index::Full> for Fault {
    fn from(_: index::Full) -> Fault {
        Fault::TooManyNumbers { most: index::MOST }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        let (kind, help) = match &fault {
            Fault::Overflow { .. } => (ErrorKind::Failed, "use smaller weights, or sample the corpus"),
            Fault::TooManyPieces { .. } => (
                ErrorKind::Memory,
                "raise --memory, or count a part of the corpus (`take`, `every`, `max_bytes`)",
            ),
            Fault::Grown { .. } => (ErrorKind::Failed, "use a tokenizer that puts less in the place of text"),
            Fault::TooMuchText { .. } => (
                ErrorKind::Memory,
                "raise --memory, or learn from a part of the corpus (`take`, `every`, `max_bytes`)",
            ),
            Fault::TooManyNumbers { .. } | Fault::NoRoom { .. } => {
                (ErrorKind::Memory, "take a part of the corpus")
            }
            Fault::DamagedRun { .. } => (ErrorKind::Failed, "check the disk, and count again"),
            Fault::Unsplit => (ErrorKind::Usage, "choose a split pattern, or train directly"),
            Fault::PieceTooLong { .. } => (ErrorKind::Failed, "use a pattern that cuts more often"),
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
