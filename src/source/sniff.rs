//! Recognizes data that is not text by its first bytes (magic bytes).
//!
//! Any file may be read as text, whatever its name, so a file of another kind would become one large nonsensical
//! document. This module detects compressed data, Parquet and Arrow data, pictures, archives, text in UTF-16 or UTF-32,
//! and pointers of Git LFS and git-annex, and gives an error that says what to do with each. Text that merely resembles
//! a format must stay text: patterns are as long as the formats allow.
//!
//! UTF-16 and UTF-32 are recognized without a byte order mark too, which many programs on Windows do not write. Such a
//! file contains zero bytes, so reading it as text would give unusable training data without any error. The decision
//! errs on the side of text in other encodings: a file counts as UTF-16 only if every code unit is a common character
//! and enough of them belong to alphabets or East Asian scripts.

use std::io::{self, Cursor, Read};
use std::ptr;

use memchr::{memchr, memmem};

use super::error::damaged;
use super::{Compression, Format};
use crate::base::int::to_u64;
use crate::error::{Error, Result};

/// A kind of data that is not text, and how to recognize it.
pub(super) struct FileKind {
    /// Offset of `bytes` in the file.
    after: usize,
    /// The magic bytes. A `?` matches any byte.
    bytes: &'static [u8],
    /// The kind of data, as messages call it.
    what: &'static str,
    /// The compression, if this program can decompress it.
    pub(super) compression: Option<Compression>,
    /// The advice in three cases: a file begins with these bytes, data from a pipe does, or decompressed data does.
    remedies: [&'static str; 3],
}

/// Advice for data from a pipe in a format that is read from its end.
const TO_A_FILE: &str = "write it to a file first";
/// Advice for compressed data that this program cannot decompress, or that lies inside of compressed data.
const UNPACK: &str = "unpack it first";
/// Advice for Parquet data under another name.
const AS_PARQUET: [&str; 3] = ["give it a name that ends in .parquet, or say its format", TO_A_FILE, UNPACK];
/// Advice for Arrow data under another name.
const AS_ARROW: [&str; 3] = ["give it a name that ends in .arrow, or say its format", TO_A_FILE, UNPACK];
/// Advice for archives.
const UNPACKED: [&str; 3] = [UNPACK; 3];
/// Advice for data that contains no text in any form that this program reads.
const LEAVE_OUT: [&str; 3] = ["extract its text first, or leave it out"; 3];
/// Advice for text in another encoding.
const AS_UTF_8: [&str; 3] = ["convert it to UTF-8 first, for example with `iconv -t UTF-8`"; 3];
/// Advice for web archives.
const EXTRACT: [&str; 3] =
    ["extract the texts from its records first, for example with `warcio` or `resiliparse` in Python"; 3];

/// The continuation marker that every message of an Arrow stream begins with.
const ARROW_STREAM: &[u8] = b"\xff\xff\xff\xff";

/// A kind of data that this program can decompress: its magic bytes, the compression and its name, and the ending of
/// file names that show it.
macro_rules! compressed {
    ($bytes:literal, $compression:ident, $name:literal, $ending:literal) => {
        FileKind {
            compression: Some(Compression::$compression),
            ..kind(
                $bytes,
                concat!("compressed with ", $name),
                [concat!("give it a name that ends in ", $ending), "", UNPACK],
            )
        }
    };
}

/// The first match counts, so a longer pattern precedes one that is its prefix.
const FILE_KINDS: [FileKind; 42] = [
    compressed!(b"\x1f\x8b\x08", Gzip, "gzip", ".gz"),
    compressed!(b"\x28\xb5\x2f\xfd", Zstd, "zstd", ".zst"),
    kind(b"PAR1\x15", "a Parquet file", AS_PARQUET),
    kind(b"ARROW1\0\0", "an Arrow file", AS_ARROW),
    kind(ARROW_STREAM, "an Arrow stream", AS_ARROW),
    compressed!(b"\xfd7zXZ\0", Xz, "xz", ".xz"),
    compressed!(b"BZh?1AY&SY", Bzip2, "bzip2", ".bz2"),
    // The end of an empty bzip2 stream: compressed data without a byte in it.
    compressed!(b"BZh?\x17rE8P\x90", Bzip2, "bzip2", ".bz2"),
    kind(b"PK\x03\x04", "a zip archive", UNPACKED),
    FileKind { after: 257, ..kind(b"ustar", "a tar archive", UNPACKED) },
    kind(b"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACKED),
    compressed!(b"\x04\x22\x4d\x18", Lz4, "LZ4", ".lz4"),
    kind(b"\x02\x21\x4c\x18", "compressed with LZ4 in its legacy format", UNPACKED),
    kind(b"LZIP\x01", "compressed with lzip", UNPACKED),
    kind(b"\x89LZO\0\r\n\x1a\n", "compressed with lzop", UNPACKED),
    kind(b"\x1f\x9d\x90", "compressed with compress", UNPACKED),
    kind(b"\xff\x06\0\0sNaPpY", "compressed with Snappy", UNPACKED),
    kind(b"Rar!\x1a\x07", "a RAR archive", UNPACKED),
    kind(b"\xff\xfe\0\0", "UTF-32, not UTF-8", AS_UTF_8),
    kind(b"\0\0\xfe\xff", "UTF-32, not UTF-8", AS_UTF_8),
    kind(b"\xff\xfe", "UTF-16, not UTF-8", AS_UTF_8),
    kind(b"\xfe\xff", "UTF-16, not UTF-8", AS_UTF_8),
    kind(b"%PDF-", "a PDF file", LEAVE_OUT),
    kind(b"\x89PNG\r\n\x1a\n", "a PNG image", LEAVE_OUT),
    kind(b"\xff\xd8\xff", "a JPEG image", LEAVE_OUT),
    kind(b"GIF8?a", "a GIF image", LEAVE_OUT),
    FileKind { after: 4, ..kind(b"ftyp", "a video or audio file (MP4)", LEAVE_OUT) },
    kind(b"RIFF????WAVE", "an audio file (WAV)", LEAVE_OUT),
    kind(b"RIFF????WEBP", "a WebP image", LEAVE_OUT),
    kind(b"fLaC\0\0\0\x22", "an audio file (FLAC)", LEAVE_OUT),
    kind(b"OggS\0", "an audio or video file (Ogg)", LEAVE_OUT),
    kind(b"ID3?\0", "an audio file (MP3)", LEAVE_OUT),
    kind(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a Microsoft Office document", LEAVE_OUT),
    kind(b"GGUF?\0\0\0", "a model (GGUF)", LEAVE_OUT),
    kind(b"WARC/1.?\r\n", "a web archive (WARC or WET)", EXTRACT),
    kind(b"WARC/1.?\n", "a web archive (WARC or WET)", EXTRACT),
    kind(b"filedesc://", "a web archive (ARC)", EXTRACT),
    kind(b"\x7fELF", "a program (ELF)", LEAVE_OUT),
    kind(b"SQLite format 3\0", "an SQLite database", LEAVE_OUT),
    kind(b"\x89HDF\r\n\x1a\n", "an HDF5 file", LEAVE_OUT),
    kind(b"Obj\x01", "an Avro file", LEAVE_OUT),
    kind(b"\x93NUMPY", "a NumPy array", LEAVE_OUT),
];

/// The kinds that need more than a comparison of their first bytes.
static LFS_POINTER: FileKind =
    kind(b"", "a Git LFS pointer to the data", ["fetch the data: `git lfs pull` in its repository"; 3]);
static ANNEX_POINTER: FileKind =
    kind(b"", "a git-annex pointer to the data", ["fetch the data: `git annex get` in its repository"; 3]);
static ORC: FileKind = kind(b"", "an ORC file", LEAVE_OUT);
static UTF_16: FileKind = kind(b"", "UTF-16, not UTF-8", AS_UTF_8);
static UTF_32: FileKind = kind(b"", "UTF-32, not UTF-8", AS_UTF_8);
/// Zstd or LZ4 frames without data that are longer than the bytes read ahead.
static SKIPPABLE_FRAME: FileKind = compressed!(b"", Zstd, "zstd", ".zst");

/// A kind of data that this program can neither read as text nor decompress.
const fn kind(bytes: &'static [u8], what: &'static str, remedies: [&'static str; 3]) -> FileKind {
    FileKind { after: 0, bytes, what, compression: None, remedies }
}

/// A mark that some programs write before text in UTF-8. It is neither JSON nor part of a table's header.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Bytes that suffice to recognize every kind.
const SNIFFED_BYTES: u64 = 1024;

/// A reader that has read its first bytes ahead. It gives them again, then the error that stopped reading ahead if
/// any, then the rest.
pub(super) struct PeekReader<R> {
    /// The bytes that were read ahead, from the next one to give.
    first: Cursor<Vec<u8>>,
    /// The error that stopped reading ahead, until it is reported.
    failed: Option<io::Error>,
    /// Everything after the bytes that were read ahead.
    rest: R,
}

impl<R: Read> PeekReader<R> {
    /// Reads the first [`SNIFFED_BYTES`] bytes ahead.
    pub(super) fn new(from: R) -> PeekReader<R> {
        PeekReader::with(from, SNIFFED_BYTES)
    }

    /// Reads this number of first bytes ahead, or fewer at the end of the data.
    pub(super) fn with(mut from: R, bytes: u64) -> PeekReader<R> {
        let mut first = Vec::new();
        let failed = from.by_ref().take(bytes).read_to_end(&mut first).err();
        PeekReader { first: Cursor::new(first), failed, rest: from }
    }

    /// Passes over a mark at the beginning that some programs write before text.
    pub(super) fn without_byte_order_mark(mut self) -> PeekReader<R> {
        if self.first().starts_with(BYTE_ORDER_MARK) {
            self.first.set_position(to_u64(BYTE_ORDER_MARK.len()));
        }
        self
    }

    /// The bytes that were read ahead.
    pub(super) fn first(&self) -> &[u8] {
        self.first.get_ref()
    }

    /// The kind of the data, if it is not text.
    pub(super) fn known(&self) -> Option<&'static FileKind> {
        FileKind::of(self.first())
    }

    /// Takes the error that stopped reading ahead, as one of this file.
    ///
    /// # Errors
    /// The first bytes could not be read.
    fn read_error(&mut self, file: &str) -> Result<()> {
        self.failed.take().map_or(Ok(()), |cause| Err(damaged(file, "its text from byte 0 on", cause)))
    }
}

impl<R: Read> Read for PeekReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.first.read(into)?;
        if read > 0 {
            return Ok(read);
        }
        match self.failed.take() {
            Some(cause) => Err(cause),
            None => self.rest.read(into),
        }
    }
}

impl FileKind {
    /// The kind of data that begins with these bytes; `None` if they may be text.
    pub(super) fn of(first: &[u8]) -> Option<&'static FileKind> {
        if let Some(behind) = after_skippable(first) {
            return behind.and_then(FileKind::of).filter(|next| next.is_frame()).or(Some(&SKIPPABLE_FRAME));
        }
        let known = FILE_KINDS.iter().find(|known| {
            let there = first.get(known.after..known.after + known.bytes.len()).unwrap_or_default();
            !there.is_empty()
                && known.bytes.iter().zip(there).all(|(byte, found)| *byte == b'?' || byte == found)
        });
        known.or_else(|| pointer(first)).or_else(|| {
            let is_orc = first.starts_with(b"ORC") && !is_text(first);
            let wide = [(is_orc, &ORC), (is_utf_32(first), &UTF_32), (is_utf_16(first), &UTF_16)];
            wide.into_iter().find(|(is_it, _)| *is_it).map(|(_, known)| known)
        })
    }

    /// Whether data of this kind may follow a skippable frame: zstd and LZ4 data may.
    fn is_frame(&self) -> bool {
        matches!(self.compression, Some(Compression::Zstd | Compression::Lz4))
    }

    /// Whether a file name with the ending of this compression is right. Skippable frames are common to zstd and LZ4.
    fn is(&self, named: Compression) -> bool {
        self.compression == Some(named) || (ptr::eq(self, &SKIPPABLE_FRAME) && named == Compression::Lz4)
    }

    /// The error that a file of this kind cannot be read as text.
    pub(super) fn file_error(&self, file: &str) -> Error {
        self.error(file, "", self.remedies[0])
    }

    /// The error that data of this kind from a pipe cannot be read as text.
    pub(super) fn pipe_error(&self, name: &str) -> Error {
        self.error(name, "", self.remedies[1])
    }

    /// The error that a compressed file has content of this kind, not text.
    pub(super) fn compressed_error(&self, file: &str) -> Error {
        self.error(file, "decompressed ", self.remedies[2])
    }

    /// Whether this is an Arrow stream.
    pub(super) fn is_arrow_stream(&self) -> bool {
        self.bytes == ARROW_STREAM
    }

    /// The error that data of this kind from a pipe cannot be read in a format that needs random access.
    pub(super) fn pipe_format_error(&self, format: Format, name: &str) -> Error {
        Error::failed(format!("{format} cannot be read from {name}"))
            .with_help(format!("it is {}, which is read from its end: {}", self.what, self.remedies[1]))
    }

    /// The error that a file of this kind cannot be read as Parquet or Arrow data.
    pub(super) fn wrong_format_error(&self, format: Format, file: &str) -> Error {
        let remedy = if self.compression.is_some() { UNPACK } else { self.remedies[0] };
        Error::failed(format!("{file} is not {format}: it is {}", self.what)).with_help(remedy)
    }

    /// The error that a file is not text, with advice. `how` says if the content was decompressed.
    fn error(&self, file: &str, how: &str, remedy: &'static str) -> Error {
        Error::failed(format!("{file} is not text: {how}it is {}", self.what)).with_help(remedy)
    }
}

/// Checks that the first bytes of a file agree with the compression in its name, and returns a reader of the whole
/// file.
///
/// # Errors
/// The content is neither text nor compressed as the name says; the name says that it is compressed, but it is
/// uncompressed text; or it cannot be read.
pub(super) fn check<R: Read>(from: R, file: &str, named: Compression) -> Result<PeekReader<R>> {
    let mut from = PeekReader::new(from);
    from.read_error(file)?;
    match from.known() {
        Some(known) if !known.is(named) => Err(known.file_error(file)),
        None if named != Compression::None && is_text(from.first()) => {
            let problem = format!("{file} has the name of a compressed file, but is not compressed");
            Err(Error::failed(problem).with_help("give it a name without that ending, or compress it"))
        }
        _ => Ok(from),
    }
}

/// Reads the first bytes of data from a pipe, after skipping any skippable frames, which a pipe cannot return to.
///
/// # Errors
/// The data cannot be read, or ends within a skippable frame.
pub(super) fn pipe_error<R: Read>(mut pipe: R, name: &str) -> Result<PeekReader<impl Read + use<R>>> {
    let damaged = |cause| damaged(name, "its text from byte 0 on", cause);
    let head = loop {
        let mut head = Vec::new();
        pipe.by_ref().take(SKIPPABLE_HEADER_BYTES).read_to_end(&mut head).map_err(damaged)?;
        let Some(length) = skippable(&head) else { break head };
        let skipped = io::copy(&mut pipe.by_ref().take(length), &mut io::sink()).map_err(damaged)?;
        if skipped < length {
            return Err(damaged(io::Error::new(io::ErrorKind::UnexpectedEof, "it is cut off")));
        }
    };
    let mut reader = PeekReader::new(Cursor::new(head).chain(pipe));
    reader.read_error(name)?;
    Ok(reader)
}

/// Bytes of a skippable frame's header: a magic number and the length of the content, 4 bytes each.
const SKIPPABLE_HEADER_BYTES: u64 = 8;

/// The content length in bytes of the skippable frame that begins here, if one does. Zstd and LZ4 share the format of
/// skippable frames, which hold no data for the reader.
pub(super) fn skippable(first: &[u8]) -> Option<u64> {
    match first {
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, length @ ..] => {
            length.first_chunk().map(|length| u64::from(u32::from_le_bytes(*length)))
        }
        _ => None,
    }
}

/// The data after the skippable frame that begins here, if one does; `Some(None)` if the frame is longer than
/// `first`.
fn after_skippable(first: &[u8]) -> Option<Option<&[u8]>> {
    let end = usize::try_from(skippable(first)?.saturating_add(SKIPPABLE_HEADER_BYTES)).ok();
    Some(end.and_then(|end| first.get(end..)).filter(|rest| !rest.is_empty()))
}

/// The pointer file of Git LFS or git-annex that replaces a file that was not fetched. Pointers are shorter than
/// [`SNIFFED_BYTES`].
fn pointer(first: &[u8]) -> Option<&'static FileKind> {
    if to_u64(first.len()) >= SNIFFED_BYTES {
        return None;
    }
    let is_lfs =
        [&b"version https://git-lfs.github.com/spec/"[..], b"version https://hawser.github.com/spec/"]
            .iter()
            .any(|version| first.starts_with(version))
            && memmem::find(first, b"\noid sha256:").is_some();
    let is_annex =
        first.starts_with(b"/annex/objects/") && memchr(b'\n', first).is_none_or(|at| at + 1 == first.len());
    match (is_lfs, is_annex) {
        (true, _) => Some(&LFS_POINTER),
        (_, true) => Some(&ANNEX_POINTER),
        _ => None,
    }
}

/// Whether a file that begins with these bytes can only be text. A file that begins otherwise may be damaged data.
fn is_text(first: &[u8]) -> bool {
    is_utf8_start(first) && !first.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace())
}

/// Whether these first bytes of a file are UTF-8 without NUL. The last character may be incomplete.
pub(super) fn is_utf8_start(head: &[u8]) -> bool {
    let valid = std::str::from_utf8(head).map_or_else(|error| error.valid_up_to(), str::len);
    !head.is_empty() && valid + 4 > head.len() && !head.contains(&0)
}

/// Minimum number of characters to decide by; fewer give too little evidence.
const MIN_CHARACTERS: usize = 4;

/// Whether bytes can only be UTF-16, in either byte order: they decode to common characters, and some code units have
/// a zero byte, which text in other encodings does not have.
pub(super) fn is_utf_16(first: &[u8]) -> bool {
    let (pairs, _) = first.as_chunks();
    first.contains(&0)
        && [u16::from_le_bytes, u16::from_be_bytes].into_iter().any(|unit| {
            let units: Vec<u16> = pairs.iter().map(|&pair| unit(pair)).collect();
            is_text_of(&units)
        })
}

/// Whether bytes can only be UTF-32, in either byte order.
pub(super) fn is_utf_32(first: &[u8]) -> bool {
    let (fours, _) = first.as_chunks();
    fours.len() >= MIN_CHARACTERS
        && [u32::from_le_bytes, u32::from_be_bytes]
            .into_iter()
            .any(|unit| fours.iter().all(|&four| char::from_u32(unit(four)).is_some_and(is_common)))
}

/// Whether code units are text of an alphabetic or an East Asian script.
fn is_text_of(units: &[u16]) -> bool {
    // The last surrogate pair may be incomplete.
    let whole = match units {
        [whole @ .., 0xD800..=0xDBFF] => whole,
        all => all,
    };
    if whole.len() < MIN_CHARACTERS
        || !char::decode_utf16(whole.iter().copied()).all(|c| c.is_ok_and(is_common))
    {
        return false;
    }
    let share = |is_one: fn(u16) -> bool| whole.iter().filter(|&&unit| is_one(unit)).count();
    // If the bytes were ASCII, the first of two characters would be the high byte of an ideograph; and a NUL after
    // each word or field would give at most half of the code units a zero byte. Both stay below these thresholds.
    let alphabetic = share(|unit| unit < 0x2000);
    let asian = share(|unit| matches!(unit, 0x3000..=0x30FF | 0xAC00..=0xD7A3 | 0xFF00..=0xFFEF));
    let spaces = share(|unit| matches!(unit, 0x0A | 0x20));
    let has_zeros = share(|unit| unit < 0x100) > 0;
    has_zeros
        && (alphabetic * 3 >= whole.len() * 2
            || (asian * 10 >= whole.len() && spaces > 0 && !is_utf_8(whole)))
}

/// Whether the bytes of these code units are UTF-8, in either byte order. The last character may be incomplete.
fn is_utf_8(units: &[u16]) -> bool {
    [u16::to_le_bytes, u16::to_be_bytes].into_iter().any(|bytes| {
        let bytes: Vec<u8> = units.iter().flat_map(|&unit| bytes(unit)).collect();
        std::str::from_utf8(&bytes).map_or_else(|error| error.error_len().is_none(), |_| true)
    })
}

/// Whether a character occurs in ordinary text: not a control character, not private use, not unassigned.
fn is_common(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{A0}'..='\u{1FFF}' | '\u{2000}'..='\u{2BFF}' | '\u{2C00}'..='\u{9FFF}'
        | '\u{A000}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}' | '\u{10000}'..='\u{1FBFF}'
        | '\u{20000}'..='\u{323AF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text in UTF-16 and in UTF-32, each in both byte orders.
    fn encoded(text: &str) -> ([Vec<u8>; 2], [Vec<u8>; 2]) {
        let units = || text.encode_utf16();
        let two =
            [units().flat_map(u16::to_le_bytes).collect(), units().flat_map(u16::to_be_bytes).collect()];
        let wide = || text.chars().map(u32::from);
        let four = [wide().flat_map(u32::to_le_bytes).collect(), wide().flat_map(u32::to_be_bytes).collect()];
        (two, four)
    }

    /// Texts of many scripts are recognized without a byte order mark, and not in UTF-8.
    #[test]
    fn utf_16_and_utf_32_are_recognized_without_a_byte_order_mark() {
        for text in [
            "some text\n",
            "text",
            "{\"text\": \"a\"}\r\n",
            "„Grün“ ist schön — naïve café",
            "Zażółć gęślą jaźń",
            "Tiếng Việt có dấu",
            "кот сидел на ковре и смотрел\n",
            "Η γάτα κάθισε στο χαλί",
            "החתול ישב על השטיח",
            "जय हो भारत",
            "猫はマットの上に座った。\n一匹の猫。\n",
            "고양이가 매트 위에 앉았다",
            "一只猫，坐在垫子上。\n它很高兴。\n",
            "smile 🙂 and on 🙂",
        ] {
            let (two, four) = encoded(text);
            assert!(two.iter().all(|bytes| is_utf_16(bytes)), "{text}");
            assert!(four.iter().all(|bytes| is_utf_32(bytes)), "{text}");
            assert!(!is_utf_16(text.as_bytes()) && !is_utf_32(text.as_bytes()), "{text}");
        }
    }

    /// Other text is not mistaken for UTF-16 or UTF-32, even if it has zeros or decodes as two-byte characters.
    #[test]
    fn other_bytes_are_no_wide_encoding() {
        let cases: [&[u8]; 14] = [
            b"",
            b"a\0",
            b"a\0b\0",
            b"\0\0\0\0\0\0\0\0",
            b"Bush hid the facts",
            b"a\tb\tc\td\t1\t2\t3\t",
            b"one\0two\0three\0four\0",
            b"foo\0bar\0baz\0qux\0",
            b"ab\0cd\0ef\0gh\0ij\0kl\0",
            b"2024-01-01T\x002024-01-02T\0",
            b"caf\xe9\0th\xe9\0d\xe9j\xe0 vu\0",
            b"\xca\xce\xd2\0\xf1\xe8\xe4\xe5\xeb\0 \0\xed\xe0\0",
            b"\x01\0\x02\0\x03\0\x04\0\x05\0\x06\0",
            b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09",
        ];
        for bytes in cases {
            assert!(!is_utf_16(bytes) && !is_utf_32(bytes), "{bytes:?}");
        }
    }
}
