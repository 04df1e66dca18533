//! Checks what a Parquet file declares before its decoder trusts it. The decoder allocates memory for the declared
//! numbers of bytes, values and columns, and recurses to the declared depth, so a small hostile file could exhaust
//! memory or overflow the stack.
//!
//! The footer and the page headers are structures in Thrift's compact protocol. This module has a small reader of
//! that protocol, which looks only at the fields that matter and skips all others. Where the decoder itself detects a
//! problem, the check ends without an error, so that rows before the problem can still be read.

use std::collections::BTreeSet;
use std::io::{self, Read};

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::ChunkReader;

use crate::base::int::u64_to_usize;

/// Maximum nesting levels of groups in a schema. The decoder takes stack space for each level.
const MAX_LEVELS: usize = 100;

/// Maximum nesting levels of Thrift structures. Parquet's metadata has five.
const MAX_STRUCTURES: usize = 32;

/// Checks the schema in a file's footer, and returns whether anything in the file is encrypted.
///
/// # Errors
/// The footer cannot be read, or its schema declares a wrong number of groups or has too many levels.
pub(crate) fn check_index(file: &impl ChunkReader) -> Result<bool> {
    let Some(footer) = footer(file)? else { return Ok(false) };
    let mut footer = Thrift { from: &footer[..], taken: 0 };
    let mut is_encrypted = false;
    footer.fields(0, &mut |footer, id, kind| match (id, kind) {
        (2, LIST) => check_schema(footer),
        (2, _) => Err(wrong("its schema is not a list")),
        (8, _) => {
            is_encrypted = true;
            footer.skip(kind, 0)
        }
        _ => footer.skip(kind, 0),
    })?;
    Ok(is_encrypted)
}

/// The columns of a file that are encrypted in any row group, as indices of the schema's leaf columns.
///
/// # Errors
/// The footer cannot be read.
pub(crate) fn encrypted_columns(file: &impl ChunkReader) -> Result<BTreeSet<u64>> {
    let mut encrypted = BTreeSet::new();
    let Some(footer) = footer(file)? else { return Ok(encrypted) };
    let mut footer = Thrift { from: &footer[..], taken: 0 };
    footer.fields(0, &mut |footer, id, kind| match (id, kind) {
        (4, LIST) => {
            let (groups, _) = footer.list()?;
            (0..groups).try_for_each(|_| {
                footer.fields(1, &mut |footer, id, kind| match (id, kind) {
                    (1, LIST) => encrypted_of_group(footer, &mut encrypted),
                    _ => footer.skip(kind, 1),
                })
            })
        }
        _ => footer.skip(kind, 0),
    })?;
    Ok(encrypted)
}

/// Adds the encrypted columns of a row group: those that declare how to find their key.
fn encrypted_of_group(footer: &mut Thrift<&[u8]>, encrypted: &mut BTreeSet<u64>) -> Result<()> {
    let (columns, _) = footer.list()?;
    for column in 0..columns {
        footer.fields(2, &mut |footer, id, kind| {
            if id == 8 {
                encrypted.insert(column);
            }
            footer.skip(kind, 2)
        })?;
    }
    Ok(())
}

/// A file's footer; `None` if the file has none that can be read.
///
/// # Errors
/// The file cannot be read.
fn footer(file: &impl ChunkReader) -> Result<Option<Bytes>> {
    let Some(behind) = file.len().checked_sub(8) else { return Ok(None) };
    let tail = file.get_bytes(behind, 8)?;
    let length = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
    let Some(start) = behind.checked_sub(u64::from(length)) else { return Ok(None) };
    // The decoder rejects files that do not end with the magic bytes, and encrypted footers.
    if tail[4..] != b"PAR1"[..] {
        return Ok(None);
    }
    file.get_bytes(start, u64_to_usize(u64::from(length))).map(Some)
}

/// Checks that no group declares more columns than the schema has, and that groups are not nested too deeply.
///
/// # Errors
/// A group declares more columns than the schema has, or groups are nested too deeply.
fn check_schema(footer: &mut Thrift<&[u8]>) -> Result<()> {
    let (count, kind) = footer.list()?;
    // For each open group, the number of columns or groups that still follow in it.
    let mut open: Vec<u64> = Vec::new();
    for _ in 0..count {
        if kind != STRUCT {
            return Err(wrong("its schema is not a list of columns"));
        }
        let mut children = 0;
        footer.fields(1, &mut |footer, id, kind| match (id, kind) {
            (5, I32) => footer.number().map(|number| children = number),
            (5, _) => Err(wrong("a group of its schema has no number of columns")),
            _ => footer.skip(kind, 1),
        })?;
        let children = u64::try_from(children).ok().filter(|children| *children <= count);
        let children =
            children.ok_or_else(|| wrong("a group of its schema has more columns than the schema"))?;
        if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        open.push(children);
        while open.last() == Some(&0) {
            open.pop();
        }
        if open.len() > MAX_LEVELS {
            return Err(wrong(format!("its schema has more than {MAX_LEVELS} levels")));
        }
    }
    Ok(())
}

/// Checks the sizes that the pages of a column declare. `fits` returns an error if memory for that number of bytes is
/// not available.
///
/// The check ends at anything that is no page header: the decoder reports its position, after giving the rows before
/// it.
///
/// # Errors
/// The file cannot be read, or a page declares a larger size than it can have, or `fits` fails.
pub(crate) fn check_pages(
    file: &impl ChunkReader,
    column: &ColumnChunkMetaData,
    fits: impl Fn(u64) -> Result<()>,
) -> Result<()> {
    let (start, length) = column.byte_range();
    let end = start.saturating_add(length).min(file.len());
    let mut at = start;
    while at < end {
        let mut head = Thrift { from: file.get_read(at)?.take(end - at), taken: 0 };
        let page = match PageHeader::read(&mut head) {
            Err(ParquetError::EOF(_)) => return Ok(()),
            page => page?,
        };
        page.check(column.compression())?;
        fits(u64::try_from(page.bytes(column.compression())).unwrap_or(0))?;
        let Ok(body) = u64::try_from(page.compressed) else { return Ok(()) };
        at = at.saturating_add(head.taken).saturating_add(body);
    }
    Ok(())
}

/// The fields of a page header by which the decoder allocates memory.
#[derive(Default)]
struct PageHeader {
    /// Size of the page after decompression.
    uncompressed: i64,
    /// Size of the page in the file, without its header.
    compressed: i64,
    /// Number of values in a dictionary page.
    dictionary_values: i64,
}

impl PageHeader {
    /// Reads a page header.
    ///
    /// # Errors
    /// The header cannot be read, ends early, or has fields of other types.
    fn read(head: &mut Thrift<impl Read>) -> Result<PageHeader> {
        let mut page = PageHeader::default();
        head.fields(0, &mut |head, id, kind| match (id, kind) {
            (2, I32) => head.number().map(|number| page.uncompressed = number),
            (3, I32) => head.number().map(|number| page.compressed = number),
            (7, STRUCT) => head.fields(1, &mut |head, id, kind| match (id, kind) {
                (1, I32) => head.number().map(|number| page.dictionary_values = number),
                _ => head.skip(kind, 1),
            }),
            // The decoder reads these fields with the types that it expects, whatever types the header declares.
            (2 | 3 | 7, _) => Err(wrong("a page header has fields of unexpected types")),
            _ => head.skip(kind, 0),
        })?;
        Ok(page)
    }

    /// Bytes that the decoder allocates. Uncompressed pages are used with their size in the file.
    fn bytes(&self, codec: Compression) -> i64 {
        if codec == Compression::UNCOMPRESSED { self.compressed } else { self.uncompressed }
    }

    /// Checks that the page can have the sizes that it declares.
    ///
    /// # Errors
    /// The page is larger than its compression allows, is larger than the free memory, or has too many values.
    fn check(&self, codec: Compression) -> Result<()> {
        // The maximum ratio of decompression. Decoders of other codecs do not allocate the declared size in advance.
        let ratio = match codec {
            Compression::SNAPPY => 32,
            Compression::LZ4 | Compression::LZ4_RAW => 256,
            Compression::GZIP(_) => 1_100,
            _ => i64::MAX,
        };
        let bytes = self.bytes(codec);
        let max_bytes = self.compressed.saturating_add(64).saturating_mul(ratio);
        let has_room = || Vec::<u8>::new().try_reserve_exact(usize::try_from(bytes).unwrap_or(0)).is_ok();
        if bytes > max_bytes || !has_room() {
            return Err(wrong(format!("a page of {} bytes cannot decompress to {bytes}", self.compressed)));
        }
        // Every value takes at least one byte.
        if self.dictionary_values > bytes {
            return Err(wrong(format!(
                "a dictionary of {bytes} bytes cannot have {} values",
                self.dictionary_values
            )));
        }
        Ok(())
    }
}

// Field types of Thrift's compact protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I8: u8 = 3;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// Reads Thrift's compact protocol and counts the bytes that it consumes.
struct Thrift<R> {
    /// The data.
    from: R,
    /// Number of bytes consumed so far, which gives the offset of the data after a structure.
    taken: u64,
}

/// Callback for a field, given its id and type. It must consume the field's value.
type Each<'e, R> = dyn FnMut(&mut Thrift<R>, i64, u8) -> Result<()> + 'e;

impl<R: Read> Thrift<R> {
    /// The next byte.
    ///
    /// # Errors
    /// The data ends, or cannot be read.
    fn byte(&mut self) -> Result<u8> {
        let mut byte = [0];
        self.from.read_exact(&mut byte).map_err(|cause| match cause.kind() {
            io::ErrorKind::UnexpectedEof => malformed("it is cut off"),
            _ => cause.into(),
        })?;
        self.taken += 1;
        Ok(byte[0])
    }

    /// A variable-length integer of up to 64 bits.
    ///
    /// # Errors
    /// The integer has more than 64 bits, or the data ends.
    fn varint(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(wrong("a number is longer than 64 bits"))
    }

    /// A 32-bit integer in zigzag encoding. Like the decoder, it truncates longer ones.
    fn number(&mut self) -> Result<i64> {
        let number = self.varint()?;
        let number = (number >> 1).cast_signed() ^ -(number & 1).cast_signed();
        let [a, b, c, d, ..] = number.to_le_bytes();
        Ok(i64::from(i32::from_le_bytes([a, b, c, d])))
    }

    /// Skips this number of bytes.
    ///
    /// # Errors
    /// The data ends first.
    fn skip_bytes(&mut self, bytes: u64) -> Result<()> {
        let skipped = io::copy(&mut self.from.by_ref().take(bytes), &mut io::sink())?;
        self.taken += skipped;
        if skipped == bytes { Ok(()) } else { Err(malformed("it is cut off")) }
    }

    /// The header of a list: the number of items and their type.
    fn list(&mut self) -> Result<(u64, u8)> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        Ok((count, head & 15))
    }

    /// Reads the fields of a structure at a nesting level. `each` must consume the value of its field.
    ///
    /// # Errors
    /// Structures are nested too deeply, or the data ends.
    fn fields(&mut self, level: usize, each: &mut Each<'_, R>) -> Result<()> {
        if level > MAX_STRUCTURES {
            return Err(wrong("structures are nested too deeply"));
        }
        let mut id = 0_i64;
        loop {
            let head = self.byte()?;
            if head & 15 == 0 {
                return Ok(());
            }
            id = if head >> 4 == 0 { self.number()? } else { id.saturating_add(i64::from(head >> 4)) };
            each(self, id, head & 15)?;
        }
    }

    /// Skips the value of a field.
    ///
    /// # Errors
    /// The type is unknown, structures are nested too deeply, or the data ends.
    fn skip(&mut self, kind: u8, level: usize) -> Result<()> {
        match kind {
            TRUE | FALSE => Ok(()),
            I8 => self.skip_bytes(1),
            4 | I32 | I64 => self.varint().map(drop),
            DOUBLE => self.skip_bytes(8),
            BINARY => {
                let bytes = self.varint()?;
                self.skip_bytes(bytes)
            }
            UUID => self.skip_bytes(16),
            LIST | SET => {
                let (count, kind) = self.list()?;
                (0..count).try_for_each(|_| self.skip_item(kind, level + 1)).map_err(of_list)
            }
            MAP => {
                let count = self.varint()?;
                let kinds = if count == 0 { 0 } else { self.byte()? };
                let mut pair = || {
                    self.skip_item(kinds >> 4, level + 1)?;
                    self.skip_item(kinds & 15, level + 1)
                };
                (0..count).try_for_each(|_| pair()).map_err(of_list)
            }
            STRUCT => self.fields(level + 1, &mut |thrift, _, kind| thrift.skip(kind, level + 1)),
            _ => Err(malformed("a type is unknown")),
        }
    }

    /// Skips an item of a list. Lists of booleans are rejected: the decoder mistakes the size of their items, and
    /// Parquet has none.
    ///
    /// # Errors
    /// The item is a boolean, or lists are nested too deeply.
    fn skip_item(&mut self, kind: u8, level: usize) -> Result<()> {
        match kind {
            TRUE | FALSE => Err(wrong("it has a list of booleans")),
            _ if level > MAX_STRUCTURES => Err(wrong("lists are nested too deeply")),
            _ => self.skip(kind, level),
        }
    }
}

/// An error that the decoder would report as well.
fn malformed(problem: &str) -> ParquetError {
    ParquetError::EOF(problem.to_owned())
}

/// An error that the decoder would not report: for a list that ends too early, it would skip as many items as
/// declared, which may be billions.
fn of_list(cause: ParquetError) -> ParquetError {
    wrong(format!("a list does not have all of its items: {cause}"))
}

/// An error of the check.
fn wrong(problem: impl Into<String>) -> ParquetError {
    ParquetError::General(problem.into())
}
