//! The counts of a corpus, in memory or in sorted runs on disk.
//!
//! If the distinct pre-tokens exceed the limit of memory, full tables are written to [`SpillFile`]s as runs, sorted by
//! the bytes of the pre-tokens. A k-way [`merge`] sums the runs, also those of counts files. For the order of first
//! appearance, the merged pre-tokens are written to runs again, sorted by first position.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io, vec};

use super::counts_file::CountsWriter;
use super::facts::FactCollector;
use super::pretokens::{BYTES_EACH, PretokenReader, sum_of_counts};
use super::table::KeyArena;
use super::{CorpusCounts, CorpusFacts, CountsInfo, MemoryLimit, PretokenCounts};
use crate::base::int::{Count, to_u64, u64_to_usize};
use crate::error::{Error, Result};
use crate::observer::Observer;

/// The counts of a corpus, in memory or, if the limit of memory did not suffice, in sorted runs on disk. Get them
/// from [`count_spilling`](super::count_spilling).
pub struct SpillableCounts {
    /// The distinct pre-tokens with their total counts, or runs that are still to be merged.
    pub(super) pretokens: CountStorage,
    /// Statistics of the whole corpus.
    pub(super) facts: FactCollector,
}

impl fmt::Debug for SpillableCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpillableCounts").finish_non_exhaustive()
    }
}

/// Where counted pre-tokens are stored.
pub(super) enum CountStorage {
    /// In memory.
    InMemory(PretokenCounts),
    /// In runs sorted by bytes, one file per thread.
    OnDisk(Vec<SpillFile>, MemoryLimit),
}

/// The contents of a counts file, as [`SpillableCounts::write`] wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenCounts {
    /// Number of distinct pre-tokens.
    pub pretokens: u64,
    /// Total bytes of the distinct pre-tokens.
    pub pretoken_bytes: u64,
    /// Facts about the text.
    pub facts: CorpusFacts,
}

impl SpillableCounts {
    /// Returns the number of sorted runs on disk; 0 if the memory sufficed.
    pub fn spills(&self) -> u64 {
        match &self.pretokens {
            CountStorage::InMemory(_) => 0,
            CountStorage::OnDisk(runs, _) => runs.iter().map(|runs| to_u64(runs.len())).sum(),
        }
    }

    /// Collects all pre-tokens in memory, in order of first appearance.
    ///
    /// # Errors
    /// The pre-tokens exceed the limit of memory, a run cannot be written or read, a count exceeds 2⁶⁴ − 1, or the
    /// observer stops the run.
    pub fn into_corpus_counts(self, observer: &dyn Observer) -> Result<CorpusCounts> {
        let SpillableCounts { pretokens, mut facts } = self;
        let pretokens = match pretokens {
            CountStorage::InMemory(pretokens) => pretokens,
            CountStorage::OnDisk(runs, limit) => {
                collected(by_first(runs, &limit, observer)?, &limit, observer)?
            }
        };
        facts.record_bytes(&pretokens.bytes);
        Ok(CorpusCounts { pretokens, facts: facts.finish() })
    }

    /// Writes a counts file with the same bytes as [`write_counts`](super::write_counts), also if the pre-tokens are on
    /// disk.
    ///
    /// **Memory:** the limit, and about 40 MB.
    ///
    /// # Errors
    /// Those of [`write_counts`](super::write_counts), a run cannot be written or read, a count exceeds 2⁶⁴ − 1, or the
    /// observer stops the run.
    pub fn write(
        self,
        out: impl Write + Send,
        path: &Path,
        info: &CountsInfo,
        observer: &dyn Observer,
    ) -> Result<WrittenCounts> {
        let SpillableCounts { pretokens, mut facts } = self;
        let mut writer = CountsWriter::begin(out, path, info, observer)?;
        match pretokens {
            CountStorage::InMemory(pretokens) => {
                facts.record_bytes(&pretokens.bytes);
                writer.push_all(&pretokens)?;
            }
            CountStorage::OnDisk(runs, limit) => {
                let (runs, order) = match info.ordered {
                    true => (vec![by_first(runs, &limit, observer)?], RunOrder::First),
                    false => (runs, RunOrder::Bytes),
                };
                let memory = (u64_to_usize(limit.table_bytes.0), &*limit.spill_folder);
                merge_runs(runs, order, memory, observer, |pretoken, count, _| {
                    facts.record_bytes(pretoken);
                    writer.push(pretoken, count)
                })?;
            }
        }
        let (pretokens, pretoken_bytes) = writer.end()?;
        Ok(WrittenCounts { pretokens, pretoken_bytes, facts: facts.finish() })
    }
}

/// Merges runs that are sorted by bytes, and sorts the result into runs by first position.
fn by_first(runs: Vec<SpillFile>, limit: &MemoryLimit, observer: &dyn Observer) -> Result<SpillFile> {
    let mut sorted = SpillFile::create(&limit.spill_folder)?;
    let memory = u64_to_usize(limit.table_bytes.0);
    let mut waiting = FirstOrderSorter::default();
    merge_runs(
        runs,
        RunOrder::Bytes,
        (memory / 4, &limit.spill_folder),
        observer,
        |pretoken, count, first| {
            if waiting.bytes() > memory / 2 {
                waiting.spill(&mut sorted)?;
            }
            waiting.push(pretoken, count, first);
            Ok(())
        },
    )?;
    waiting.spill(&mut sorted)?;
    Ok(sorted)
}

/// Distinct pre-tokens that are to be sorted by first position.
#[derive(Default)]
struct FirstOrderSorter {
    /// The bytes of the pre-tokens, in the order in which they were pushed.
    arena: KeyArena,
    /// For each pre-token its first position, number and count, in this order, so that sorting reads nothing else.
    order: Vec<(u64, u64, Count)>,
}

impl FirstOrderSorter {
    /// Returns the memory in bytes.
    fn bytes(&self) -> usize {
        self.arena.memory() + size_of_val(&self.order[..])
    }

    /// Adds a pre-token, which must be new.
    fn push(&mut self, pretoken: &[u8], count: Count, first: u64) {
        self.order.push((first, self.arena.push(pretoken, first), count));
    }

    /// Writes the pre-tokens as a run, sorted by first position, and removes them.
    fn spill(&mut self, runs: &mut SpillFile) -> Result<()> {
        self.order.sort_unstable();
        runs.write(
            self.order.iter().map(|&(first, number, count)| (self.arena.pretoken(number), count, first)),
        )?;
        self.arena.clear();
        self.order.clear();
        Ok(())
    }
}

/// Collects the pre-tokens of runs that are sorted by first position.
fn collected(runs: SpillFile, limit: &MemoryLimit, observer: &dyn Observer) -> Result<PretokenCounts> {
    let mut pretokens = PretokenCounts::new();
    let memory = u64_to_usize(limit.table_bytes.0);
    merge_runs(
        vec![runs],
        RunOrder::First,
        (memory / 4, &limit.spill_folder),
        observer,
        |pretoken, count, _| {
            pretokens.push(pretoken, count);
            pretokens.check_fits(BYTES_EACH, limit.table_bytes)
        },
    )?;
    Ok(pretokens)
}

/// Bytes (256 KiB) of the write buffer of a run.
const WRITE_BUFFER: usize = 1 << 18;

/// Maximum number of bytes of an encoded number. Numbers are written with seven bits per byte, the lowest bits first
/// (LEB128).
const MAX_NUMBER_BYTES: usize = 10;

/// Sorted runs of pre-tokens in one unnamed temporary file. The system removes the file however the program ends.
///
/// Each record has the length of the pre-token, its count, its first position in the corpus, and its bytes.
pub(super) struct SpillFile {
    /// The file, which has no name. Readers share its handle.
    file: File,
    /// The folder in which it was created, for messages.
    folder: PathBuf,
    /// The byte range of each run in the file.
    runs: Vec<Range<u64>>,
}

impl SpillFile {
    /// Creates an empty file for runs in this folder. The folder is created if it does not exist.
    pub(super) fn create(folder: &Path) -> Result<SpillFile> {
        let failed = |cause| Error::io("create", folder, cause);
        fs::create_dir_all(folder).map_err(failed)?;
        let file = tempfile::tempfile_in(folder).map_err(failed)?;
        Ok(SpillFile { file, folder: folder.to_path_buf(), runs: Vec::new() })
    }

    /// Returns the number of runs.
    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Returns the bytes of all runs.
    pub(super) fn bytes(&self) -> u64 {
        self.runs.last().map_or(0, |last| last.end)
    }

    /// Writes pre-tokens, with their counts and first positions, as a run. The caller has sorted them.
    pub(super) fn write<P: AsRef<[u8]>>(
        &mut self,
        mut pretokens: impl Iterator<Item = (P, Count, u64)>,
    ) -> Result<()> {
        self.write_with(|run| {
            pretokens.try_for_each(|(pretoken, count, first)| run.push(pretoken.as_ref(), count, first))
        })
    }

    /// Writes a run with the pre-tokens that `write` pushes, in sorted order.
    pub(super) fn write_with(&mut self, write: impl FnOnce(&mut RunWriter<'_>) -> Result<()>) -> Result<()> {
        let start = self.bytes();
        let out = BufWriter::with_capacity(WRITE_BUFFER, &self.file);
        let mut run = RunWriter { out, folder: &self.folder, length: 0 };
        write(&mut run)?;
        let length = run.end()?;
        self.runs.push(start..start + length);
        Ok(())
    }

    /// Returns readers of all runs. Each has a buffer of `memory` bytes, or more for a longer record.
    pub(super) fn readers(&self, memory: usize) -> impl Iterator<Item = RunReader<'_>> {
        self.runs.iter().map(move |run| RunReader {
            runs: self,
            rest: run.clone(),
            memory,
            buffer: Vec::new(),
            at: 0,
            pretoken: 0..0,
            count: Count::ZERO,
            first: 0,
        })
    }
}

/// Writes the pre-tokens of a run one after another.
pub(super) struct RunWriter<'a> {
    /// Collects records to writes of [`WRITE_BUFFER`] bytes.
    out: BufWriter<&'a File>,
    /// The folder of the file, for messages.
    folder: &'a Path,
    /// Bytes written so far.
    length: u64,
}

impl RunWriter<'_> {
    /// Writes a record.
    pub(super) fn push(&mut self, pretoken: &[u8], count: Count, first: u64) -> Result<()> {
        let mut push = || {
            for number in [to_u64(pretoken.len()), count.get(), first] {
                self.length += write_number(&mut self.out, number)?;
            }
            self.length += to_u64(pretoken.len());
            self.out.write_all(pretoken)
        };
        push().map_err(|cause| write_error(self.folder, cause))
    }

    /// Writes the buffered bytes, and returns the length of the run in bytes.
    fn end(mut self) -> Result<u64> {
        self.out.flush().map_err(|cause| write_error(self.folder, cause))?;
        Ok(self.length)
    }
}

/// Returns an I/O error that names the folder, because the file has no name.
fn write_error(folder: &Path, cause: io::Error) -> Error {
    Error::io("write sorted runs in", folder, cause)
}

/// Writes a number in LEB128, and returns the number of bytes.
fn write_number(out: &mut impl Write, mut number: u64) -> io::Result<u64> {
    let (mut bytes, mut length) = ([0; MAX_NUMBER_BYTES], 0);
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        bytes[length] = if number > 0 { low | 0x80 } else { low };
        length += 1;
        if number == 0 {
            out.write_all(&bytes[..length])?;
            return Ok(to_u64(length));
        }
    }
}

/// Decodes the number at the start of `bytes`. Returns it and the number of its bytes; `None` if it is incomplete.
fn read_number(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0;
    for (at, byte) in bytes.iter().take(MAX_NUMBER_BYTES).enumerate() {
        number |= u64::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((number, at + 1));
        }
    }
    None
}

/// Reads the pre-tokens of a run one after another.
pub(super) struct RunReader<'a> {
    /// The file. Readers of several runs use it in turn, and each seeks to its own position.
    runs: &'a SpillFile,
    /// The byte range of the file that has not been read yet.
    rest: Range<u64>,
    /// Usual size of the buffer in bytes.
    memory: usize,
    /// Bytes of the run that were read, among them the current pre-token.
    buffer: Vec<u8>,
    /// The start of the next record in the buffer.
    at: usize,
    /// The bytes of the current pre-token in the buffer.
    pretoken: Range<usize>,
    /// The count of the current pre-token.
    count: Count,
    /// The first position of the current pre-token.
    first: u64,
}

impl PretokenReader for RunReader<'_> {
    fn advance(&mut self) -> Result<bool> {
        loop {
            if self.decode() {
                return Ok(true);
            }
            if self.rest.is_empty() {
                if self.at == self.buffer.len() {
                    return Ok(false);
                }
                let problem = format!("the sorted runs in {} are damaged", self.runs.folder.display());
                return Err(Error::failed(problem).with_help("check the disk, and count again"));
            }
            self.refill().map_err(|cause| Error::io("read sorted runs in", &self.runs.folder, cause))?;
        }
    }

    fn current(&self) -> (&[u8], Count, u64) {
        (&self.buffer[self.pretoken.clone()], self.count, self.first)
    }
}

impl RunReader<'_> {
    /// Decodes the next record. Returns `false` if the buffer does not contain all of it.
    fn decode(&mut self) -> bool {
        let mut at = self.at;
        let mut numbers = [0; 3];
        for number in &mut numbers {
            let Some((value, length)) = read_number(&self.buffer[at..]) else { return false };
            (*number, at) = (value, at + length);
        }
        let [length, count, first] = numbers;
        let end = at.saturating_add(u64_to_usize(length));
        if end > self.buffer.len() {
            return false;
        }
        (self.pretoken, self.at) = (at..end, end);
        (self.count, self.first) = (Count::new(count), first);
        true
    }

    /// Drops the decoded records from the buffer and reads more bytes: [`memory`](RunReader::memory), or as many as
    /// the buffer has left if that is more, so that the buffer doubles for a long record.
    fn refill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let wanted = to_u64(self.memory.max(self.buffer.len())).min(self.rest.end - self.rest.start);
        let mut file = &self.runs.file;
        file.seek(SeekFrom::Start(self.rest.start))?;
        let read = file.take(wanted).read_to_end(&mut self.buffer)?;
        if to_u64(read) < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.rest.start += wanted;
        Ok(())
    }
}

/// Maximum number of bytes (1 MiB) of the buffer of one reader.
const MAX_READ_BUFFER: usize = 1 << 20;
/// Minimum number of bytes (16 KiB) of the buffer of one reader.
const MIN_READ_BUFFER: usize = 16 << 10;

/// Sorted runs that are merged at a time however little memory is allowed.
const MIN_RUNS_AT_ONCE: usize = if cfg!(test) { 3 } else { 16 };

/// Distinct pre-tokens between two checks whether to stop.
const PRETOKENS_PER_CHECKPOINT: usize = 1 << 16;

/// The order of sorted runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunOrder {
    /// By the bytes of the pre-tokens.
    Bytes,
    /// By the first positions. No pre-token may then be in two runs.
    First,
}

/// Merges sorted runs like [`merge`]. If the runs are too many for the memory, it merges groups of them to files in
/// `spill_folder` first.
///
/// **Memory:** `memory`, but at least 256 kB.
///
/// # Errors
/// Those of [`merge`], or a merged group cannot be written.
pub(super) fn merge_runs(
    runs: Vec<SpillFile>,
    order: RunOrder,
    (memory, spill_folder): (usize, &Path),
    observer: &dyn Observer,
    take: impl FnMut(&[u8], Count, u64) -> Result<()>,
) -> Result<()> {
    let runs = few_runs(runs, order, (memory, spill_folder), observer)?;
    merge(readers(&runs, memory), order, observer, take)
}

/// Merges groups of sorted runs to files in `spill_folder`, until the runs are few enough to be merged at a time within
/// the memory.
///
/// # Errors
/// Those of [`merge`], or a merged group cannot be written.
pub(super) fn few_runs(
    mut runs: Vec<SpillFile>,
    order: RunOrder,
    (memory, spill_folder): (usize, &Path),
    observer: &dyn Observer,
) -> Result<Vec<SpillFile>> {
    let at_once = runs_at_once(memory);
    while runs.iter().map(SpillFile::len).sum::<usize>() > at_once {
        let mut sums = SpillFile::create(spill_folder)?;
        let mut readers = readers(&runs, memory).peekable();
        while readers.peek().is_some() {
            sums.write_with(|run| {
                let group = readers.by_ref().take(at_once);
                merge(group, order, observer, |pretoken, count, first| run.push(pretoken, count, first))
            })?;
        }
        drop(readers);
        runs = vec![sums];
    }
    Ok(runs)
}

/// Returns how many runs are merged at a time within the memory.
fn runs_at_once(memory: usize) -> usize {
    (memory / MIN_READ_BUFFER).max(MIN_RUNS_AT_ONCE)
}

/// Returns readers of all runs, of which as many as [`few_runs`] leaves share the memory.
pub(super) fn readers(runs: &[SpillFile], memory: usize) -> impl Iterator<Item = RunReader<'_>> {
    let run_count: usize = runs.iter().map(SpillFile::len).sum();
    let each = memory / run_count.clamp(1, runs_at_once(memory));
    runs.iter().flat_map(move |runs| runs.readers(each.clamp(MIN_READ_BUFFER, MAX_READ_BUFFER)))
}

/// Bytes that [`Sorted`] takes for each pre-token in addition to its own bytes, including 8 for the sorted index.
pub(super) const BYTES_EACH_SORTED: u64 = BYTES_EACH + 8;

/// Reads pre-tokens from memory, sorted by bytes.
pub(super) struct Sorted {
    /// All pre-tokens, in their own order.
    pretokens: PretokenCounts,
    /// The indexes of the remaining pre-tokens, in order.
    rest: vec::IntoIter<usize>,
    /// The index of the current pre-token.
    index: usize,
}

impl Sorted {
    /// Sorts the pre-tokens.
    pub(super) fn new(pretokens: PretokenCounts) -> Sorted {
        Sorted { rest: pretokens.by_bytes().into_iter(), pretokens, index: 0 }
    }
}

impl PretokenReader for Sorted {
    fn advance(&mut self) -> Result<bool> {
        let next = self.rest.next();
        self.index = next.unwrap_or(self.index);
        Ok(next.is_some())
    }

    /// The first position is the index in the list.
    fn current(&self) -> (&[u8], Count, u64) {
        (self.pretokens.pretoken(self.index), self.pretokens.counts[self.index], to_u64(self.index))
    }
}

/// Merges sorted readers. Calls `take` once for each distinct pre-token, in order, with the sum of its counts and its
/// earliest first position.
///
/// # Errors
/// `take` fails, a pre-token cannot be read, a count exceeds 2⁶⁴ − 1, or the observer stops the run.
pub(super) fn merge<R: PretokenReader>(
    readers: impl Iterator<Item = R>,
    order: RunOrder,
    observer: &dyn Observer,
    mut take: impl FnMut(&[u8], Count, u64) -> Result<()>,
) -> Result<()> {
    let mut heap = BinaryHeap::new();
    for mut reader in readers {
        if reader.advance()? {
            heap.push(QueuedReader { reader, order });
        }
    }
    let (mut pretoken, mut pretokens) = (Vec::new(), 0_usize);
    while let Some(smallest) = heap.peek() {
        if pretokens.is_multiple_of(PRETOKENS_PER_CHECKPOINT) {
            observer.checkpoint()?;
        }
        pretokens += 1;
        pretoken.clear();
        let (bytes, mut count, mut first) = smallest.reader.current();
        pretoken.extend_from_slice(bytes);
        advance(&mut heap)?;
        while let Some((bytes, more, position)) = heap.peek().map(|same| same.reader.current())
            && bytes == pretoken
        {
            count = sum_of_counts(&pretoken, count, more)?;
            first = first.min(position);
            advance(&mut heap)?;
        }
        take(&pretoken, count, first)?;
    }
    Ok(())
}

/// Moves the reader of the smallest pre-token on, and drops it at its end and if it fails: then it has no current
/// pre-token that the heap could compare.
fn advance<R: PretokenReader>(heap: &mut BinaryHeap<QueuedReader<R>>) -> Result<()> {
    let Some(mut smallest) = heap.peek_mut() else { return Ok(()) };
    let more = smallest.reader.advance();
    if !matches!(more, Ok(true)) {
        PeekMut::pop(smallest);
    }
    more.map(drop)
}

/// A reader at the smallest of its pre-tokens that were not passed on. The reader with the smallest one of all is the
/// greatest, because it leaves the heap first.
struct QueuedReader<R> {
    reader: R,
    /// How pre-tokens are compared.
    order: RunOrder,
}

impl<R: PretokenReader> Ord for QueuedReader<R> {
    fn cmp(&self, other: &QueuedReader<R>) -> Ordering {
        let ((one, _, first), (two, _, second)) = (self.reader.current(), other.reader.current());
        match self.order {
            RunOrder::Bytes => two.cmp(one),
            RunOrder::First => second.cmp(&first),
        }
    }
}

impl<R: PretokenReader> PartialOrd for QueuedReader<R> {
    fn partial_cmp(&self, other: &QueuedReader<R>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<R: PretokenReader> PartialEq for QueuedReader<R> {
    fn eq(&self, other: &QueuedReader<R>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<R: PretokenReader> Eq for QueuedReader<R> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;

    #[test]
    fn numbers_of_any_length_are_read_back() {
        for number in [0, 1, 127, 128, 300, u64::MAX / 3, u64::MAX] {
            let mut bytes = Vec::new();
            write_number(&mut bytes, number).expect("memory takes everything");
            assert_eq!(read_number(&bytes), Some((number, bytes.len())));
            assert_eq!(read_number(&bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn a_run_is_read_back_and_a_cut_one_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut runs = SpillFile::create(folder.path()).expect("a writable folder");
        let pretokens = ["a".to_owned(), "b".repeat(15), "c".repeat(300), "d".repeat(70_000)];
        let records = pretokens.iter().map(|pretoken| {
            let pretoken = pretoken.as_bytes();
            (pretoken, Count::new(to_u64(pretoken.len()) * 9), 1 << 40)
        });
        runs.write(records).expect("room on the disk");
        for memory in [1, 7, 4096, 1 << 20] {
            let mut reader = runs.readers(memory).next().expect("a run");
            for pretoken in &pretokens {
                assert!(reader.advance().expect("a whole run"));
                let count = Count::new(to_u64(pretoken.len()) * 9);
                assert_eq!(reader.current(), (pretoken.as_bytes(), count, 1 << 40));
            }
            assert!(!reader.advance().expect("a whole run"));
        }
        runs.runs[0].end -= 1;
        let mut reader = runs.readers(4096).next().expect("a run");
        assert!((0..3).all(|_| reader.advance().expect("whole pre-tokens")));
        assert!(reader.advance().is_err());
        runs.runs[0].end += 9;
        let mut reader = runs.readers(1 << 20).next().expect("a run");
        assert!(reader.advance().is_err());
    }

    #[test]
    fn a_cut_run_among_others_is_an_error_of_their_merge() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut runs = SpillFile::create(folder.path()).expect("a writable folder");
        for run in [["a", "c"], ["b", "d"], ["b", "e"]] {
            let records = run.iter().map(|pretoken| (pretoken.as_bytes(), Count::ONE, 0));
            runs.write(records).expect("room on the disk");
        }
        runs.runs[0].end -= 1;
        let mut merged = Vec::new();
        let outcome = merge(runs.readers(4096), RunOrder::Bytes, &Silent, |pretoken, count, _| {
            merged.push((pretoken.to_vec(), count.get()));
            Ok(())
        });
        assert!(outcome.is_err());
        assert!(merged.is_empty(), "the reader of the first pre-token fails at its second");
    }
}
