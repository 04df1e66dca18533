use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::mem;
use std::path::Path;
use std::sync::Arc;

use flate2::bufread::GzDecoder;

use super::Range;
use super::beginning::{self, Beginning};
use super::listing::{Compression, Listed};
use super::ranges::InOrder;
use crate::error::{Error, Result};

/// The bytes of a file's range, as they stand in the file.
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

/// The text of a file's range, decompressed. One on this machine was looked at when it was listed.
pub(super) fn text(file: &Listed, range: Range) -> Result<Box<dyn Read + Send>> {
    let Listed { path, name, compression, remote, .. } = file;
    let io = |cause| Error::io("read", name, cause);
    if let Some(remote) = remote {
        let raw = beginning::check(InOrder::new(Arc::clone(remote)), name, *compression)?;
        return decompressed(raw, *compression).map_err(io);
    }
    let raw = raw(path, range).map_err(io)?;
    match range {
        Range::Bytes(from, to) => {
            decompressed(Exactly { left: to.saturating_sub(from), from: raw }, *compression)
        }
        _ => decompressed(raw, *compression),
    }
    .map_err(io)
}

/// The text that comes from a pipe, decompressed as its first bytes say.
pub(super) fn text_of_pipe(pipe: impl Read + Send + 'static, name: &str) -> Result<Box<dyn Read + Send>> {
    let (known, raw) = Beginning::read(pipe, name)?;
    let compression = match known {
        Some(known) => known.compression.ok_or_else(|| known.of_pipe(name))?,
        None => Compression::None,
    };
    decompressed(raw, compression).map_err(|cause| Error::io("read", name, cause))
}

/// All members of a gzip file, all frames of a zstd file.
fn decompressed(
    raw: impl Read + Send + 'static,
    compression: Compression,
) -> io::Result<Box<dyn Read + Send>> {
    Ok(match compression {
        Compression::None => Box::new(raw),
        Compression::Gzip => Box::new(Members::Before(BufReader::with_capacity(1 << 16, raw))),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(raw)?),
    })
}

/// The text of a gzip file's members, one after the other. A file without a byte has none; and zeros may follow a
/// member, as tapes and file systems fill up their blocks with them.
enum Members<R> {
    Before(R),
    Within(Box<GzDecoder<R>>),
    Ended,
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let is_at_end = match self {
                Members::Before(from) => from.fill_buf()?.is_empty(),
                Members::Within(member) => {
                    let read = member.read(into)?;
                    if read > 0 || into.is_empty() {
                        return Ok(read);
                    }
                    pass_zeros(member.get_mut())?;
                    false
                }
                Members::Ended => true,
            };
            *self = match mem::replace(self, Members::Ended) {
                _ if is_at_end => return Ok(0),
                Members::Before(from) => Members::Within(Box::new(GzDecoder::new(from))),
                Members::Within(member) => Members::Before(member.into_inner()),
                Members::Ended => Members::Ended,
            };
        }
    }
}

fn pass_zeros(from: &mut impl BufRead) -> io::Result<()> {
    loop {
        let block = from.fill_buf()?;
        let zeros = block.iter().take_while(|byte| **byte == 0).count();
        let is_over = zeros < block.len() || block.is_empty();
        from.consume(zeros);
        if is_over {
            return Ok(());
        }
    }
}

/// A reader whose end before the expected length is an error: the file was cut since it was listed.
struct Exactly<R> {
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
        self.left = self.left.saturating_sub(crate::units::amount(read));
        Ok(read)
    }
}
