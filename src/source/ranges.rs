//! Files with random access: local ones, and remote ones that are read by ranges.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::listing::Listed;
use crate::base::int::{to_u64, u64_to_usize};
use crate::error::{Error, Result};

/// A remote file.
pub(super) trait Ranged: fmt::Debug + Send + Sync {
    /// The size of the file in bytes.
    fn bytes(&self) -> u64;

    /// The `length` bytes from the offset `start` on. They must lie within the file.
    ///
    /// # Errors
    /// The bytes cannot be read, or the file is no longer the one that was listed.
    fn range(&self, start: u64, length: usize) -> Result<Bytes>;
}

/// Bytes that are fetched at once when a whole file is read in order (8 MiB).
const SEQUENTIAL_BYTES: u64 = 8 << 20;

/// Reads a remote file from beginning to end, one block at a time.
pub(super) struct InOrder {
    file: Arc<dyn Ranged>,
    /// Offset of the next block.
    next: u64,
    /// The rest of the current block.
    block: Bytes,
}

impl InOrder {
    /// Starts at the beginning of the file.
    pub(super) fn new(file: Arc<dyn Ranged>) -> InOrder {
        InOrder { file, next: 0, block: Bytes::new() }
    }
}

impl Read for InOrder {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.block.is_empty() {
            let length = (self.file.bytes() - self.next).min(SEQUENTIAL_BYTES);
            if length == 0 {
                return Ok(0);
            }
            self.block = self.file.range(self.next, u64_to_usize(length)).map_err(io::Error::other)?;
            self.next += length;
        }
        let read = self.block.len().min(into.len());
        into[..read].copy_from_slice(&self.block.split_to(read));
        Ok(read)
    }
}

/// A file for the Parquet reader. Reads never go past its end, whatever sizes the file declares, and no other thread
/// moves its position.
pub(super) struct Input {
    from: From,
    /// Size of the file in bytes.
    pub(super) bytes: u64,
    code: SystemCode,
}

/// The system's code of the last error of a file; 0 if there was none. Parquet's reader of record batches reports
/// errors of its input as text only, which does not distinguish damaged input from a failed system.
#[derive(Clone, Debug, Default)]
pub(super) struct SystemCode(Arc<AtomicI32>);

impl SystemCode {
    /// Records the code of an error.
    fn heed<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        if let Err(cause) = &outcome {
            self.0.store(cause.raw_os_error().unwrap_or(0), Relaxed);
        }
        outcome
    }

    /// The last error, if it had a system code.
    pub(super) fn error(&self) -> Option<io::Error> {
        Some(self.0.load(Relaxed)).filter(|code| *code != 0).map(io::Error::from_raw_os_error)
    }
}

/// Reads a file and records the codes of errors.
struct Heeded(BufReader<File>, SystemCode);

impl Read for Heeded {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1.heed(self.0.read(into))
    }
}

/// Access to the bytes of a file.
enum From {
    /// A local file.
    File(File),
    /// The fetched ranges, each with its offset. Only these can be read.
    Elsewhere(Arc<dyn Ranged>, Vec<(u64, Bytes)>),
}

impl Input {
    /// Opens a local or remote file. Of a remote file, nothing is fetched yet.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(super) fn open(file: &Listed) -> Result<Input> {
        if let Some(remote) = &file.remote {
            let bytes = remote.bytes();
            let from = From::Elsewhere(Arc::clone(remote), Vec::new());
            return Ok(Input { from, bytes, code: SystemCode::default() });
        }
        let open = || -> io::Result<Input> {
            let file = File::open(&file.path)?;
            let bytes = file.metadata()?.len();
            Ok(Input { from: From::File(file), bytes, code: SystemCode::default() })
        };
        open().map_err(|cause| Error::io("read", &file.path, cause))
    }

    /// Fetches a range, or the part of it before the end of the file, if the file is remote. Only fetched ranges can
    /// be read.
    ///
    /// # Errors
    /// The range cannot be fetched, or the file has changed since it was listed.
    pub(super) fn fetch(&mut self, start: u64, bytes: u64) -> Result<()> {
        let From::Elsewhere(file, fetched) = &mut self.from else { return Ok(()) };
        let bytes = bytes.min(self.bytes.saturating_sub(start));
        // A length that does not fit in memory cannot be read, which reading reports.
        let length = usize::try_from(bytes).unwrap_or(0);
        if length > 0 && part(fetched, start, length).is_none() {
            fetched.push((start, file.range(start, length)?));
        }
        Ok(())
    }

    /// The record of error codes.
    pub(super) fn code(&self) -> SystemCode {
        self.code.clone()
    }

    /// The `length` bytes from the offset `start` on.
    ///
    /// # Errors
    /// The range is not inside the file or the fetched ranges, or cannot be read.
    pub(super) fn read_range(&self, start: u64, length: usize) -> io::Result<Bytes> {
        if start.checked_add(to_u64(length)).is_none_or(|end| end > self.bytes) {
            return Err(past_the_end(start, length));
        }
        match &self.from {
            From::File(_) => {
                let mut bytes = vec![0; length];
                self.reader(start)?.read_exact(&mut bytes)?;
                Ok(bytes.into())
            }
            From::Elsewhere(_, fetched) => {
                part(fetched, start, length).ok_or_else(|| past_the_end(start, length))
            }
        }
    }

    /// A reader of everything from the offset `start` on.
    ///
    /// # Errors
    /// The offset is not inside the fetched ranges, or the file cannot be read.
    pub(super) fn reader(&self, start: u64) -> io::Result<Box<dyn Read + Send>> {
        match &self.from {
            From::File(file) => {
                let mut file = self.code.heed(file.try_clone())?;
                self.code.heed(file.seek(SeekFrom::Start(start)))?;
                Ok(Box::new(Heeded(BufReader::new(file), self.code.clone())))
            }
            From::Elsewhere(_, fetched) => match part(fetched, start, 0) {
                Some(rest) => Ok(Box::new(Cursor::new(rest))),
                None => Err(past_the_end(start, 0)),
            },
        }
    }
}

/// The bytes of a range if they were fetched; for an empty range, all fetched bytes that follow its start.
fn part(fetched: &[(u64, Bytes)], start: u64, length: usize) -> Option<Bytes> {
    fetched.iter().find_map(|(begin, bytes)| {
        let at = usize::try_from(start.checked_sub(*begin)?).ok().filter(|&at| at < bytes.len())?;
        let end = if length == 0 { bytes.len() } else { at.checked_add(length)? };
        (end <= bytes.len()).then(|| bytes.slice(at..end))
    })
}

/// The error that a read goes past the end of the file, or of the fetched ranges.
fn past_the_end(start: u64, length: usize) -> io::Error {
    let problem = format!("{length} bytes at {start} are past the end of the file, or of its columns");
    io::Error::new(io::ErrorKind::UnexpectedEof, problem)
}

impl Length for Input {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for Input {
    type T = Box<dyn Read + Send>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.reader(start)?)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        Ok(self.read_range(start, length)?)
    }
}
