//! Opens the content of a file, of one of its ranges, or of a pipe, as text that is already decompressed.
//!
//! A file's compression follows from its name, and its first bytes must agree with the name. A pipe's compression
//! follows from its first bytes alone.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use super::Range;
use super::beginning::{self, Begun};
use super::decompress::decompressed;
use super::listing::{Compression, Listed};
use super::ranges::InOrder;
use crate::error::{Error, Result};

/// The bytes of a range of a local file, as stored, not decompressed. Ranges other than of bytes give the whole file.
///
/// # Errors
/// The file cannot be opened.
pub(super) fn raw(path: &Path, range: Range) -> io::Result<io::Take<File>> {
    let mut file = File::open(path)?;
    let bytes = match range {
        Range::Bytes(from, to) => {
            file.seek(SeekFrom::Start(from))?;
            to.saturating_sub(from)
        }
        _ => u64::MAX,
    };
    Ok(file.take(bytes))
}

/// The text of a range of a file, decompressed. The first bytes of a local file were checked when it was listed;
/// those of a remote file are checked here. Windows of compressed text have at most `window` bytes.
///
/// # Errors
/// The file cannot be read; or its content is not text, or not compressed as its name says.
pub(super) fn text(file: &Listed, range: Range, window: u64) -> Result<Box<dyn Read + Send>> {
    let Listed { path, name, compression, remote, .. } = file;
    if let Some(remote) = remote {
        let raw = beginning::check(InOrder::new(Arc::clone(remote)), name, *compression)?;
        return unpacked(raw, *compression, window, name);
    }
    let raw = raw(path, range).map_err(|cause| Error::io("read", name, cause))?;
    match (range, compression) {
        (Range::Bytes(from, to), _) => Ok(Box::new(Exactly { left: to.saturating_sub(from), from: raw })),
        (_, Compression::None) => Ok(Box::new(raw)),
        _ => unpacked(Begun::new(raw), *compression, window, name),
    }
}

/// The text of data from a pipe, decompressed as its first bytes indicate.
///
/// # Errors
/// The data is not text, or is compressed in an unsupported way.
pub(super) fn text_of_pipe(
    pipe: impl Read + Send + 'static,
    window: u64,
    name: &str,
) -> Result<Box<dyn Read + Send>> {
    let raw = beginning::of_pipe(pipe, name)?;
    let compression = match raw.known() {
        Some(known) => known.compression.ok_or_else(|| known.of_pipe(name))?,
        None => Compression::None,
    };
    unpacked(raw, compression, window, name)
}

/// Decompresses data. Its first bytes must agree with `compression`.
///
/// # Errors
/// The decompressed data is not text.
pub(super) fn unpacked<R: Read + Send + 'static>(
    raw: Begun<R>,
    compression: Compression,
    window: u64,
    name: &str,
) -> Result<Box<dyn Read + Send>> {
    if compression == Compression::None {
        return Ok(Box::new(raw));
    }
    // Reading ahead keeps an error of decompression until it is read again: there may be text before it.
    let text = Begun::new(decompressed(raw, compression, window, name)?);
    match text.known() {
        Some(known) => Err(known.of_compressed(name)),
        None => Ok(Box::new(text)),
    }
}

/// A reader that fails if the data ends before the expected length: then the file was truncated after it was listed.
struct Exactly<R> {
    /// Number of bytes that must still come.
    left: u64,
    from: R,
}

impl<R: Read> Read for Exactly<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        if read == 0 && self.left > 0 && !into.is_empty() {
            let problem = "the file has become shorter since it was listed";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, problem));
        }
        self.left = self.left.saturating_sub(crate::base::int::to_u64(read));
        Ok(read)
    }
}
