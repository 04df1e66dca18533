//! Files of bare ids, one after another (`.bin`), and the index that separates documents (`.idx`): how both are
//! written, and how the index is read.
//!
//! The ids are little-endian, with 2 or 4 bytes each. There are two formats of the index:
//!
//! - of [`OutputFormat::Bin`]: the offset of each document's first id, then the number of all ids, as 64-bit numbers;
//! - of [`OutputFormat::Megatron`]: Megatron-LM's `MMIDIDX`, version 1. After the magic bytes, the version, and a
//!   code for the type of the ids come the number of sequences, the number of documents plus one, the length of each
//!   sequence (32 bits), the offset of each sequence in bytes, and the number of sequences before each document.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::layout::index_path;
use super::row_group::RowGroup;
use super::schema::{IdWidth, OutputFormat};
use crate::base::int::{to_u64, u64_to_usize};
use crate::base::integrity::HashingWriter;
use crate::error::{Error, Result};

/// The first bytes of Megatron-LM's index files. Their version follows.
pub(super) const MEGATRON_MAGIC: &[u8; 9] = b"MMIDIDX\0\0";
/// The only version of Megatron-LM's index that is written and read.
pub(super) const MEGATRON_VERSION: u64 = 1;

/// Rows of ids in the form of the file. They are made on a thread of the encoders, so that the writing thread only
/// copies bytes.
pub(super) struct FlatRowGroup {
    /// The ids, little-endian.
    ids: Vec<u8>,
    /// Number of ids per row; 0 for a null row.
    lengths: Vec<u32>,
}

impl FlatRowGroup {
    /// Lays out the ids of a row group.
    ///
    /// # Panics
    /// An id does not fit the width, which is chosen by the largest possible id.
    pub(super) fn new(group: &RowGroup, width: IdWidth) -> FlatRowGroup {
        let narrow = |id: u32| u16::try_from(id).expect("the width is chosen by the greatest id");
        let mut ids = Vec::with_capacity(group.ids.len() * u64_to_usize(width.bytes()));
        match width {
            IdWidth::Two => group.ids.append_to(&mut ids, |id| narrow(id.get()).to_le_bytes()),
            IdWidth::Four => group.ids.append_to(&mut ids, |id| id.get().to_le_bytes()),
        }
        let length = |span: Option<std::ops::Range<usize>>| {
            span.map_or(0, |ids| u32::try_from(ids.len()).expect("checked when the row came"))
        };
        FlatRowGroup { ids, lengths: group.spans().map(length).collect() }
    }
}

/// A file of bare ids, and the index beside it.
///
/// **Memory:** 4 bytes per document of the file.
pub(super) struct FlatFile<W> {
    /// The file of ids.
    out: HashingWriter<W>,
    /// The path for messages.
    path: PathBuf,
    /// Decides the form of the index.
    format: OutputFormat,
    /// Bytes per id, the same in all files of an output.
    width: IdWidth,
    /// Number of ids of each document so far.
    lengths: Vec<u32>,
}

impl<W: Write> FlatFile<W> {
    /// Begins a file in `out`. It has no header, so nothing is written yet.
    pub(super) fn new(
        out: HashingWriter<W>,
        path: PathBuf,
        format: OutputFormat,
        width: IdWidth,
    ) -> FlatFile<W> {
        FlatFile { out, path, format, width, lengths: Vec::new() }
    }

    /// Appends rows. Returns the data for [`resume_group`](FlatFile::resume_group): the lengths.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn append(&mut self, group: FlatRowGroup) -> Result<Vec<u8>> {
        let written = self.out.write_all(&group.ids).and_then(|()| self.out.flush());
        written.map_err(|cause| Error::io("write", &self.path, cause))?;
        self.lengths.extend_from_slice(&group.lengths);
        Ok(group.lengths.iter().flat_map(|length| length.to_le_bytes()).collect())
    }

    /// Counts rows of an earlier run. Their ids are in the file already, and `lengths` is the result of
    /// [`append`](FlatFile::append) for them.
    pub(super) fn resume_group(&mut self, lengths: &[u8]) -> Result<()> {
        let (lengths, _) = lengths.as_chunks::<4>();
        let lengths = lengths.iter().map(|bytes| u32::from_le_bytes(*bytes));
        let ids: u64 = lengths.clone().map(u64::from).sum();
        self.lengths.extend(lengths);
        let skipped = io::copy(&mut io::repeat(0).take(ids * self.width.bytes()), &mut self.out);
        skipped.map(|_| ()).map_err(|cause| Error::io("write", &self.path, cause))
    }

    /// Bytes per id.
    pub(super) fn width(&self) -> IdWidth {
        self.width
    }

    /// The output so far.
    pub(super) fn written(&self) -> &HashingWriter<W> {
        &self.out
    }

    /// The complete file of ids, and the content of its index, which the caller writes.
    pub(super) fn finish(self) -> (HashingWriter<W>, Vec<u8>) {
        let index = match self.format {
            OutputFormat::Megatron => megatron_index(&self.lengths, self.width),
            OutputFormat::Bin | OutputFormat::Parquet => offset_index(&self.lengths),
        };
        (self.out, index)
    }
}

/// The index of a `.bin` file: the offset of the first id of each document, and of the end, as 64-bit numbers.
fn offset_index(lengths: &[u32]) -> Vec<u8> {
    let ends = lengths.iter().scan(0_u64, |end, &length| {
        *end += u64::from(length);
        Some(*end)
    });
    std::iter::once(0).chain(ends).flat_map(u64::to_le_bytes).collect()
}

/// The index as Megatron-LM's own tool writes it. A document without ids has no sequence, every other document has
/// one. Offsets are in bytes, unlike those of [`offset_index`].
fn megatron_index(lengths: &[u32], width: IdWidth) -> Vec<u8> {
    let sequences = || lengths.iter().copied().filter(|&length| length > 0);
    let mut index = MEGATRON_MAGIC.to_vec();
    index.extend(MEGATRON_VERSION.to_le_bytes());
    index.push(width.megatron_code());
    index.extend(to_u64(sequences().count()).to_le_bytes());
    index.extend(to_u64(lengths.len() + 1).to_le_bytes());
    index.extend(sequences().flat_map(u32::to_le_bytes));
    let mut at = 0_u64;
    for length in sequences() {
        index.extend(at.to_le_bytes());
        at += u64::from(length) * width.bytes();
    }
    let mut before = 0_u64;
    index.extend(before.to_le_bytes());
    for &length in lengths {
        before += u64::from(length > 0);
        index.extend(before.to_le_bytes());
    }
    index
}

/// The content of an index file, of either format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlatIndex {
    /// Bytes per id. An index of offsets does not state it: it follows from the size of the data file.
    pub(super) width: IdWidth,
    /// Number of ids of each document.
    pub(super) lengths: Vec<u32>,
}

impl FlatIndex {
    /// Reads the index beside a data file, and checks that it belongs to the file.
    ///
    /// **Memory:** the index file, and 4 bytes per document.
    ///
    /// # Errors
    /// The index is missing, damaged, of an unknown kind, or does not fit the size of the data file.
    pub(super) fn read(data: &Path) -> Result<FlatIndex> {
        let path = index_path(data);
        let text = fs::read(&path).map_err(|cause| Error::io("read", &path, cause))?;
        let bytes = fs::metadata(data).map_err(|cause| Error::io("read", data, cause))?.len();
        let index = match text.strip_prefix(MEGATRON_MAGIC) {
            Some(rest) => parse_megatron_index(rest),
            None => parse_offset_index(&text, bytes),
        };
        let error = |problem| index_damaged(&path, problem);
        let index = index.map_err(error)?;
        if index.lengths.iter().map(|&length| u64::from(length)).sum::<u64>() * index.width.bytes() != bytes {
            return Err(error("it does not fit the size of the file of ids"));
        }
        Ok(index)
    }
}

/// Reads consecutive little-endian 64-bit numbers. A rest of fewer than 8 bytes is ignored.
fn words(bytes: &[u8]) -> impl ExactSizeIterator<Item = u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// Parses an index of offsets. `bytes` is the size of the data file, which gives the width of ids.
///
/// # Errors
/// The offsets do not ascend from 0, or a document is too long.
fn parse_offset_index(text: &[u8], bytes: u64) -> Result<FlatIndex, &'static str> {
    if text.is_empty() || !text.len().is_multiple_of(8) {
        return Err("it is not a list of 64-bit offsets");
    }
    let mut before = 0;
    let mut lengths = Vec::with_capacity(text.len() / 8 - 1);
    for (number, offset) in words(text).enumerate() {
        let length = offset.checked_sub(before).filter(|_| number > 0 || offset == 0);
        let length = length.and_then(|length| u32::try_from(length).ok());
        let length = length.ok_or("its offsets do not ascend from 0, or a document is too long")?;
        lengths.extend((number > 0).then_some(length));
        before = offset;
    }
    let width = if before.checked_mul(2) == Some(bytes) { IdWidth::Two } else { IdWidth::Four };
    Ok(FlatIndex { width, lengths })
}

/// Parses Megatron-LM's index after its magic bytes.
///
/// # Errors
/// It is cut off, of another version or type, or inconsistent.
fn parse_megatron_index(rest: &[u8]) -> Result<FlatIndex, &'static str> {
    const SHORT: &str = "it is cut off";
    let (head, rest) = rest.split_at_checked(25).ok_or(SHORT)?;
    let mut counts = words(&head[9..]).map(u64_to_usize);
    let (sequences, documents) = (counts.next().unwrap_or(0), counts.next().unwrap_or(0));
    if words(&head[..8]).next() != Some(MEGATRON_VERSION) {
        return Err("its version is unknown");
    }
    let width = match head[8] {
        8 => IdWidth::Two,
        4 => IdWidth::Four,
        _ => return Err("its ids are neither uint16 nor int32"),
    };
    let wanted = sequences.checked_mul(12).zip(documents.checked_mul(8)).and_then(|(a, b)| a.checked_add(b));
    if wanted != Some(rest.len()) || documents == 0 {
        return Err(SHORT);
    }
    let (sizes, rest) = rest.split_at(sequences * 4);
    let (pointers, ends) = rest.split_at(sequences * 8);
    let sizes: Vec<u32> = sizes.as_chunks::<4>().0.iter().map(|size| u32::from_le_bytes(*size)).collect();
    let mut at = 0;
    for (pointer, &size) in words(pointers).zip(&sizes) {
        if pointer != at || i32::try_from(size).is_err() {
            return Err("its sequences do not follow each other");
        }
        at += u64::from(size) * width.bytes();
    }
    let mut lengths = Vec::with_capacity(documents - 1);
    let mut before = 0;
    for (number, end) in words(ends).map(u64_to_usize).enumerate() {
        let sizes = sizes.get(before..end).filter(|_| number > 0 || end == 0);
        let length: Option<u64> = sizes.map(|sizes| sizes.iter().map(|&size| u64::from(size)).sum());
        let length = length.and_then(|length| u32::try_from(length).ok());
        let length = length.ok_or("its documents do not ascend, or one is too long")?;
        lengths.extend((number > 0).then_some(length));
        before = end;
    }
    if before == sizes.len() {
        Ok(FlatIndex { width, lengths })
    } else {
        Err("it has sequences of no document")
    }
}

/// The error that an index of token ids is damaged. `problem` is a clause.
pub(super) fn index_damaged(path: &Path, problem: &str) -> Error {
    Error::failed(format!("{}: not an index of token ids: {problem}", path.display()))
        .with_help("write the output again, or restore the file that belongs to the ids")
}
