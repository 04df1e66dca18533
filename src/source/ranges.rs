//! Files that are read at any place: local ones, and ones that lie elsewhere and are asked for by ranges.

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
use crate::error::{Error, Result};
use crate::units::{amount, place64};

/// A file that lies elsewhere.
pub(super) trait Ranged: fmt::Debug + Send + Sync {
    /// Its size in bytes.
    fn bytes(&self) -> u64;

    /// So many bytes from a place on, which lie within the file.
    ///
    /// # Errors
    /// It cannot be read, or is no longer the file that was listed.
    fn range(&self, start: u64, length: usize) -> Result<Bytes>;
}

/// How much of a file is fetched at a time when all of it is read in order.
const SEQUENTIAL_BYTES: u64 = 8 << 20;

/// A file that lies elsewhere, read from its begin to its end.
pub(super) struct InOrder {
    file: Arc<dyn Ranged>,
    next: u64,
    block: Bytes,
}

impl InOrder {
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
            self.block = self.file.range(self.next, place64(length)).map_err(io::Error::other)?;
            self.next += length;
        }
        let read = self.block.len().min(into.len());
        into[..read].copy_from_slice(&self.block.split_to(read));
        Ok(read)
    }
}

/// A file that is never read past its end, whatever sizes it declares, and whose place no other thread moves.
pub(super) struct Input {
    from: From,
    pub(super) bytes: u64,
    code: SystemCode,
}

/// The system's code of the last error of a file, 0 if there was none. Parquet's reader of record batches gives errors of
/// what it reads from as text alone, which does not tell damaged input from a system that failed.
#[derive(Clone, Debug, Default)]
pub(super) struct SystemCode(Arc<AtomicI32>);

impl SystemCode {
    fn heed<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        if let Err(cause) = &outcome {
            self.0.store(cause.raw_os_error().unwrap_or(0), Relaxed);
        }
        outcome
    }

    /// The error, if there was one that the system had a code for.
    pub(super) fn error(&self) -> Option<io::Error> {
        Some(self.0.load(Relaxed)).filter(|code| *code != 0).map(io::Error::from_raw_os_error)
    }
}

/// Reads a file, and keeps the code of what goes wrong.
struct Heeded(BufReader<File>, SystemCode);

impl Read for Heeded {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1.heed(self.0.read(into))
    }
}

enum From {
    File(File),
    /// What was fetched, each part with the place where it begins, is all that can be read.
    Elsewhere(Arc<dyn Ranged>, Vec<(u64, Bytes)>),
}

impl Input {
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

    /// Fetches what of a range lies in the file, if it is elsewhere: only that can be read then.
    pub(super) fn fetch(&mut self, start: u64, bytes: u64) -> Result<()> {
        let From::Elsewhere(file, fetched) = &mut self.from else { return Ok(()) };
        let bytes = bytes.min(self.bytes.saturating_sub(start));
        // A length that does not fit is more than can be read, which reading says.
        let length = usize::try_from(bytes).unwrap_or(0);
        if length > 0 && part(fetched, start, length).is_none() {
            fetched.push((start, file.range(start, length)?));
        }
        Ok(())
    }

    /// What keeps the codes of errors.
    pub(super) fn code(&self) -> SystemCode {
        self.code.clone()
    }

    /// So many bytes from a place on.
    pub(super) fn piece(&self, start: u64, length: usize) -> io::Result<Bytes> {
        if start.checked_add(amount(length)).is_none_or(|end| end > self.bytes) {
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

    /// All from a place on.
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

/// What was fetched of a range; of an empty one, all that follows it.
fn part(fetched: &[(u64, Bytes)], start: u64, length: usize) -> Option<Bytes> {
    fetched.iter().find_map(|(begin, bytes)| {
        let at = usize::try_from(start.checked_sub(*begin)?).ok().filter(|&at| at < bytes.len())?;
        let end = if length == 0 { bytes.len() } else { at.checked_add(length)? };
        (end <= bytes.len()).then(|| bytes.slice(at..end))
    })
}

fn past_the_end(start: u64, length: usize) -> io::Error {
    let problem = format!("{length} bytes at {start} lie past the end of the file, or of its columns");
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
        Ok(self.piece(start, length)?)
    }
}
