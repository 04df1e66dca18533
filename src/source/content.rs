use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;

use super::Range;
use super::beginning::{self, Beginning, Named};
use super::listing::{Compression, Listed};
use super::ranges::InOrder;

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

/// The text of a file's range, decompressed as its name says.
pub(super) fn text(file: &Listed, range: Range) -> io::Result<Box<dyn Read + Send>> {
    let raw: Box<dyn Read + Send> = match (&file.remote, range) {
        (Some(remote), _) => Box::new(InOrder::new(Arc::clone(remote))),
        (None, Range::Bytes(from, to)) => {
            Box::new(Exactly { left: to.saturating_sub(from), from: raw(&file.path, range)? })
        }
        (None, _) => Box::new(raw(&file.path, range)?),
    };
    match range {
        Range::Bytes(from, _) if from > 0 => decompressed(raw, file.compression),
        _ => decompressed(Named::new(raw, file.compression), file.compression),
    }
}

/// The text of a stream, which has no name: decompressed as its first bytes say.
pub(super) fn text_of_stream(mut stream: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut first = Vec::new();
    stream.by_ref().take(beginning::LONGEST).read_to_end(&mut first)?;
    let compression = match Beginning::of(&first) {
        Some(known) => known.compression.ok_or_else(|| known.error())?,
        None => Compression::None,
    };
    decompressed(Cursor::new(first).chain(stream), compression)
}

/// All members of a gzip file, all frames of a zstd file.
fn decompressed(
    raw: impl Read + Send + 'static,
    compression: Compression,
) -> io::Result<Box<dyn Read + Send>> {
    Ok(match compression {
        Compression::None => Box::new(raw),
        Compression::Gzip => Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 16, raw))),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(raw)?),
    })
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
