//! What is no text, told by its first bytes.

use std::io::{self, Read};
use std::mem;

use super::listing::Compression;

/// How what is no text begins.
pub(super) struct Beginning {
    bytes: &'static [u8],
    said: &'static str,
    /// What it is, if this program can unpack it.
    pub(super) compression: Option<Compression>,
}

const BEGINNINGS: [Beginning; 7] = [
    Beginning {
        compression: Some(Compression::Gzip),
        ..Beginning::new(b"\x1f\x8b\x08", "it is compressed with gzip: give it a name that ends in .gz")
    },
    Beginning {
        compression: Some(Compression::Zstd),
        ..Beginning::new(b"\x28\xb5\x2f\xfd", "it is compressed with zstd: give it a name that ends in .zst")
    },
    Beginning::new(b"\xfd7zXZ\0", "it is compressed with xz: unpack it first"),
    Beginning::new(b"BZh91AY&SY", "it is compressed with bzip2: unpack it first"),
    Beginning::new(b"PK\x03\x04", "it is a zip archive: unpack it first"),
    Beginning::new(b"PAR1\x15", "it is a Parquet file: say so by its name or format"),
    Beginning::new(b"ARROW1\0\0", "it is an Arrow file: say so by its name or format"),
];

/// Bytes of the longest of them.
pub(super) const LONGEST: u64 = 10;

impl Beginning {
    const fn new(bytes: &'static [u8], said: &'static str) -> Beginning {
        Beginning { bytes, said, compression: None }
    }

    /// Of what begins with these bytes, if it is no text.
    pub(super) fn of(first: &[u8]) -> Option<&'static Beginning> {
        BEGINNINGS.iter().find(|known| first.starts_with(known.bytes))
    }

    pub(super) fn error(&self) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, self.said)
    }
}

/// A file from its beginning on, which is an error if that is not of what the file's name says.
pub(super) struct Named<R> {
    from: R,
    compression: Compression,
    begun: bool,
}

impl<R> Named<R> {
    pub(super) fn new(from: R, compression: Compression) -> Named<R> {
        Named { from, compression, begun: false }
    }
}

impl<R: Read> Read for Named<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        if read > 0 && !mem::replace(&mut self.begun, true) {
            match Beginning::of(&into[..read]) {
                Some(known) if known.compression != Some(self.compression) => return Err(known.error()),
                _ => {}
            }
        }
        Ok(read)
    }
}
