//! Files of bare ids, one after another, and the index that separates documents.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use super::hashed::Hashed;
use super::row_group::RowGroup;
use super::schema::OutputFormat;
use crate::base::int::{to_u64, u64_to_usize};
use crate::error::{Error, Result};

/// The first bytes of Megatron-LM's index files. Their version follows.
pub(super) const MEGATRON_MAGIC: &[u8; 9] = b"MMIDIDX\0\0";
pub(super) const MEGATRON_VERSION: u64 = 1;

/// The size of an id in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdWidth {
    Two,
    Four,
}

impl IdWidth {
    /// The width for ids below `ids`. Megatron-LM itself uses four bytes from 65 500 ids on.
    pub(super) fn of(ids: u64, format: OutputFormat) -> IdWidth {
        let two = if format == OutputFormat::Megatron { ids < 65_500 } else { ids <= 1 << 16 };
        if two { IdWidth::Two } else { IdWidth::Four }
    }

    /// The width in bytes.
    pub(super) fn bytes(self) -> u64 {
        match self {
            IdWidth::Two => 2,
            IdWidth::Four => 4,
        }
    }

    /// Megatron-LM's code for the type: `uint16`, or `int32`, which holds all ids below 2³¹ unchanged.
    pub(super) fn megatron_code(self) -> u8 {
        match self {
            IdWidth::Two => 8,
            IdWidth::Four => 4,
        }
    }
}

/// Rows of ids as they are written to the file.
pub(super) struct FlatGroup {
    /// The ids, little-endian.
    ids: Vec<u8>,
    /// Number of ids per row; 0 for a null row.
    lengths: Vec<u32>,
}

impl FlatGroup {
    /// Lays out the ids of a row group.
    ///
    /// # Panics
    /// An id does not fit the width, which is chosen by the largest possible id.
    pub(super) fn new(group: &RowGroup, width: IdWidth) -> FlatGroup {
        let narrow = |id: u32| u16::try_from(id).expect("the width is chosen by the greatest id");
        let mut ids = Vec::with_capacity(group.ids().len() * u64_to_usize(width.bytes()));
        match width {
            IdWidth::Two => group.ids().append_to(&mut ids, |id| narrow(id.get()).to_le_bytes()),
            IdWidth::Four => group.ids().append_to(&mut ids, |id| id.get().to_le_bytes()),
        }
        let length = |span: Option<std::ops::Range<usize>>| {
            span.map_or(0, |ids| u32::try_from(ids.len()).expect("checked when the row came"))
        };
        FlatGroup { ids, lengths: group.spans().map(length).collect() }
    }
}

/// A file of bare ids, and the index beside it.
///
/// **Memory:** 4 bytes per document of the file.
pub(super) struct FlatFile<W> {
    out: Hashed<W>,
    path: PathBuf,
    format: OutputFormat,
    width: IdWidth,
    /// Number of ids of each document so far.
    lengths: Vec<u32>,
}

impl<W: Write> FlatFile<W> {
    pub(super) fn new(out: Hashed<W>, path: PathBuf, format: OutputFormat, width: IdWidth) -> FlatFile<W> {
        FlatFile { out, path, format, width, lengths: Vec::new() }
    }

    /// Appends rows. Returns the data for [`resume_group`](FlatFile::resume_group): the lengths.
    pub(super) fn append(&mut self, group: FlatGroup) -> Result<Vec<u8>> {
        let written = self.out.write_all(&group.ids).and_then(|()| self.out.flush());
        written.map_err(|cause| Error::io("write", &self.path, cause))?;
        self.lengths.extend_from_slice(&group.lengths);
        Ok(group.lengths.iter().flat_map(|length| length.to_le_bytes()).collect())
    }

    /// Adds rows whose ids are already in the file, as an earlier run left them.
    pub(super) fn resume_group(&mut self, lengths: &[u8]) -> Result<()> {
        let (lengths, _) = lengths.as_chunks::<4>();
        let lengths = lengths.iter().map(|bytes| u32::from_le_bytes(*bytes));
        let ids: u64 = lengths.clone().map(u64::from).sum();
        self.lengths.extend(lengths);
        let there = io::copy(&mut io::repeat(0).take(ids * self.width.bytes()), &mut self.out);
        there.map(|_| ()).map_err(|cause| Error::io("write", &self.path, cause))
    }

    /// The output so far.
    pub(super) fn written(&self) -> &Hashed<W> {
        &self.out
    }

    /// The finished file, and the contents of its index.
    pub(super) fn finish(self) -> (Hashed<W>, Vec<u8>) {
        let index = match self.format {
            OutputFormat::Megatron => megatron(&self.lengths, self.width),
            OutputFormat::Bin | OutputFormat::Parquet => offsets(&self.lengths),
        };
        (self.out, index)
    }
}

/// The index of a `.bin` file: the offset of the first id of each document, and of the end, as 64-bit numbers.
fn offsets(lengths: &[u32]) -> Vec<u8> {
    let ends = lengths.iter().scan(0_u64, |end, &length| {
        *end += u64::from(length);
        Some(*end)
    });
    std::iter::once(0).chain(ends).flat_map(u64::to_le_bytes).collect()
}

/// The index as Megatron-LM's own tool writes it. A document without ids has no sequence, every other document has
/// one.
fn megatron(lengths: &[u32], width: IdWidth) -> Vec<u8> {
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
