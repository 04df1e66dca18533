//! What is no text, told by its first bytes.

use std::io::{Chain, Cursor, Read};

use super::fault::Fault;
use super::listing::Compression;
use crate::error::{Error, Result};

/// How what is no text begins.
pub(super) struct Beginning {
    /// After so many bytes.
    after: usize,
    /// A `?` stands for any byte.
    bytes: &'static [u8],
    what: &'static str,
    /// What it is compressed with, if this program can unpack it.
    pub(super) compression: Option<Compression>,
    /// What to do with a file that begins like this, and with what comes from a pipe.
    remedies: [&'static str; 2],
}

const TO_A_FILE: &str = "write it to a file first";
const AS_PARQUET: [&str; 2] = ["give it a name that ends in .parquet, or say its format", TO_A_FILE];
const AS_ARROW: [&str; 2] = ["give it a name that ends in .arrow, or say its format", TO_A_FILE];
const UNPACK: [&str; 2] = ["unpack it first"; 2];

const LEAVE_OUT: [&str; 2] = ["take its text out of it first, or leave it out"; 2];
const AS_UTF_8: [&str; 2] = ["make it UTF-8 first, with `iconv -t UTF-8` for instance"; 2];

/// What begins like another stands before it.
const BEGINNINGS: [Beginning; 23] = [
    Beginning {
        compression: Some(Compression::Gzip),
        ..other(b"\x1f\x8b\x08", "compressed with gzip", ["give it a name that ends in .gz", ""])
    },
    Beginning {
        compression: Some(Compression::Zstd),
        ..other(b"\x28\xb5\x2f\xfd", "compressed with zstd", ["give it a name that ends in .zst", ""])
    },
    other(b"PAR1\x15", "a Parquet file", AS_PARQUET),
    other(b"ARROW1\0\0", "an Arrow file", AS_ARROW),
    other(b"\xff\xff\xff\xff", "an Arrow stream", AS_ARROW),
    other(b"\xfd7zXZ\0", "compressed with xz", UNPACK),
    other(b"BZh?1AY&SY", "compressed with bzip2", UNPACK),
    other(b"PK\x03\x04", "a zip archive", UNPACK),
    Beginning { after: 257, ..other(b"ustar", "a tar archive", UNPACK) },
    other(b"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
    other(b"\x04\x22\x4d\x18", "compressed with LZ4", UNPACK),
    other(b"\xff\xfe\0\0", "UTF-32, not UTF-8", AS_UTF_8),
    other(b"\0\0\xfe\xff", "UTF-32, not UTF-8", AS_UTF_8),
    other(b"\xff\xfe", "UTF-16, not UTF-8", AS_UTF_8),
    other(b"\xfe\xff", "UTF-16, not UTF-8", AS_UTF_8),
    other(b"%PDF-", "a PDF file", LEAVE_OUT),
    other(b"\x89PNG\r\n\x1a\n", "a PNG picture", LEAVE_OUT),
    other(b"\xff\xd8\xff", "a JPEG picture", LEAVE_OUT),
    other(b"\x7fELF", "a program (ELF)", LEAVE_OUT),
    other(b"SQLite format 3\0", "an SQLite database", LEAVE_OUT),
    other(b"\x89HDF\r\n\x1a\n", "an HDF5 file", LEAVE_OUT),
    other(b"Obj\x01", "an Avro file", LEAVE_OUT),
    other(b"\x93NUMPY", "a NumPy array", LEAVE_OUT),
];

/// What this program cannot make text of.
const fn other(bytes: &'static [u8], what: &'static str, remedies: [&'static str; 2]) -> Beginning {
    Beginning { after: 0, bytes, what, compression: None, remedies }
}

/// Enough to tell them all.
const LONGEST: u64 = 512;

/// A file of which the first bytes were read, with these.
type Begun<R> = Chain<Cursor<Vec<u8>>, R>;

impl Beginning {
    /// Of what begins with these bytes, if it is no text.
    fn of(first: &[u8]) -> Option<&'static Beginning> {
        BEGINNINGS.iter().find(|known| {
            let there = first.get(known.after..known.after + known.bytes.len()).unwrap_or_default();
            !there.is_empty()
                && known.bytes.iter().zip(there).all(|(byte, found)| *byte == b'?' || byte == found)
        })
    }

    /// Reads the first bytes of a file, and gives them back with what follows.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) fn read<R: Read>(mut from: R, file: &str) -> Result<(Option<&'static Beginning>, Begun<R>)> {
        let mut first = Vec::new();
        let read = from.by_ref().take(LONGEST).read_to_end(&mut first);
        read.map_err(|cause| Fault::damaged(file, "its text from byte 0 on", cause))?;
        Ok((Beginning::of(&first), Cursor::new(first).chain(from)))
    }

    /// Why a file of this name is not read as text.
    pub(super) fn of_file(&self, file: &str) -> Error {
        self.error(file, self.remedies[0])
    }

    /// Why what comes from a pipe is not read as text.
    pub(super) fn of_pipe(&self, name: &str) -> Error {
        self.error(name, self.remedies[1])
    }

    fn error(&self, file: &str, remedy: &'static str) -> Error {
        let fault = Fault::IsNoText { file: file.to_owned(), what: self.what };
        fault.failed().with_help(remedy)
    }
}

/// Checks that a file begins as its name says, and gives it back.
///
/// # Errors
/// It is something else than text, or than text that is compressed so, also text that is not compressed; or it cannot be
/// read.
pub(super) fn check<R: Read>(from: R, file: &str, named: Compression) -> Result<Begun<R>> {
    let (known, from) = Beginning::read(from, file)?;
    match known {
        Some(known) if known.compression != Some(named) => Err(known.of_file(file)),
        None if named != Compression::None && is_text(from.get_ref().0.get_ref()) => {
            let fault = Fault::NotCompressed { file: file.to_owned() };
            Err(fault.failed().with_help("give it a name without that ending, or compress it"))
        }
        _ => Ok(from),
    }
}

/// Whether a file with these first bytes can only be text. What begins in another way may be damaged.
fn is_text(first: &[u8]) -> bool {
    looks_like_text(first) && !first.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace())
}

/// Whether these first bytes of a file are UTF-8, but for a character that is cut at the end, without NUL.
pub(super) fn looks_like_text(head: &[u8]) -> bool {
    let valid = std::str::from_utf8(head).map_or_else(|error| error.valid_up_to(), str::len);
    !head.is_empty() && valid + 4 > head.len() && !head.contains(&0)
}
