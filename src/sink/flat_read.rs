//! Reads files of bare ids by the index beside them.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::fault::Fault;
use super::flat_file::{IdWidth, MEGATRON_MAGIC, MEGATRON_VERSION};
use super::read::{BATCH_IDS, BATCH_ROWS};
use crate::base::int::{TokenId, to_u64, to_usize, u64_to_usize};
use crate::encode::TokenBatch;
use crate::error::{Error, ErrorKind, Result};

/// The contents of an index file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) width: IdWidth,
    /// Number of ids of each document.
    pub(super) lengths: Vec<u32>,
}

/// The path of the index for a data file.
pub(super) fn index_path(data: &Path) -> PathBuf {
    data.with_extension("idx")
}

impl Index {
    /// Reads the index beside a data file, and checks that it belongs to the file.
    ///
    /// **Memory:** the index file, and 4 bytes per document.
    ///
    /// # Errors
    /// The index is missing, damaged, of an unknown kind, or does not fit the size of the data file.
    pub(super) fn read(data: &Path) -> Result<Index> {
        let path = index_path(data);
        let text = fs::read(&path).map_err(|cause| Error::io("read", &path, cause))?;
        let bytes = fs::metadata(data).map_err(|cause| Error::io("read", data, cause))?.len();
        let index = match text.strip_prefix(MEGATRON_MAGIC) {
            Some(rest) => megatron(rest),
            None => offsets(&text, bytes),
        };
        let fault = |what| {
            Error::new(ErrorKind::Failed, Fault::IndexDamaged { path: path.clone(), what })
                .with_help("write the output again, or restore the file that belongs to the ids")
        };
        let index = index.map_err(fault)?;
        if index.lengths.iter().map(|&length| u64::from(length)).sum::<u64>() * index.width.bytes() != bytes {
            return Err(fault("it does not fit the size of the file of ids"));
        }
        Ok(index)
    }
}

/// Reads consecutive little-endian 64-bit numbers.
fn words(bytes: &[u8]) -> impl ExactSizeIterator<Item = u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// Parses an index of offsets. `bytes` is the size of the data file, which gives the width of ids.
///
/// # Errors
/// The offsets do not ascend from 0, or a document is too long.
fn offsets(text: &[u8], bytes: u64) -> Result<Index, &'static str> {
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
    Ok(Index { width, lengths })
}

/// Parses Megatron-LM's index after its magic bytes.
///
/// # Errors
/// It is cut off, of another version or type, or inconsistent.
fn megatron(rest: &[u8]) -> Result<Index, &'static str> {
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
    if before == sizes.len() { Ok(Index { width, lengths }) } else { Err("it has sequences of no document") }
}

/// A file of ids that is being read.
pub(super) struct FlatFileReader {
    /// The number of the file, which batches have as `unit`.
    number: usize,
    path: PathBuf,
    ids: BufReader<File>,
    index: Index,
    /// The number of the next row.
    row: usize,
}

impl FlatFileReader {
    /// Opens a file and its index.
    ///
    /// # Errors
    /// Those of [`Index::read`].
    pub(super) fn open(number: usize, path: PathBuf) -> Result<FlatFileReader> {
        let index = Index::read(&path)?;
        let file = File::open(&path).map_err(|cause| Error::io("read", &path, cause))?;
        Ok(FlatFileReader { number, path, ids: BufReader::new(file), index, row: 0 })
    }

    /// The next rows, at most [`BATCH_ROWS`] with about [`BATCH_IDS`] ids; `None` at the end.
    pub(super) fn read(&mut self) -> Result<Option<TokenBatch>> {
        let first = self.row;
        let mut ends: Vec<usize> = Vec::new();
        for &length in self.index.lengths[first..].iter().take(u64_to_usize(BATCH_ROWS)) {
            let end = ends.last().copied().unwrap_or(0) + to_usize(length);
            if to_u64(end) > BATCH_IDS && !ends.is_empty() {
                break;
            }
            ends.push(end);
        }
        let Some(&count) = ends.last() else { return Ok(None) };
        let mut bytes = Vec::new();
        let wanted = to_u64(count) * self.index.width.bytes();
        let read = (&mut self.ids).take(wanted).read_to_end(&mut bytes);
        read.map_err(|cause| Error::io("read", &self.path, cause))?;
        if to_u64(bytes.len()) < wanted {
            let what = "it does not fit the size of the file of ids";
            let fault = Fault::IndexDamaged { path: index_path(&self.path), what };
            return Err(Error::new(ErrorKind::Failed, fault));
        }
        let ids = match self.index.width {
            IdWidth::Two => {
                let ids = bytes.as_chunks::<2>().0.iter();
                ids.map(|id| u16::from_le_bytes(*id)).collect::<Vec<_>>().into()
            }
            IdWidth::Four => {
                let ids = bytes.as_chunks::<4>().0.iter();
                ids.map(|id| TokenId::new(u32::from_le_bytes(*id))).collect::<Vec<_>>().into()
            }
        };
        self.row += ends.len();
        Ok(Some(TokenBatch {
            source: 0,
            unit: self.number,
            first_row: to_u64(first),
            ids,
            nulls: Vec::new(),
            text_bytes: 0,
            text_lengths: vec![0; ends.len()],
            ends,
            columns: None,
        }))
    }
}
