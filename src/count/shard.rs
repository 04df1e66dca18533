//! The counting threads. Each takes chunks from a common queue, splits them, and counts into its own table.

use std::mem;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

use rayon::iter::{IntoParallelRefMutIterator, ParallelIterator};

use super::documents::{CorpusChunk, CorpusChunks};
use super::facts::FactCollector;
use super::fold::fold;
use super::spill::{CountStorage, SpillFile, SpillableCounts};
use super::table::PretokenTable;
use super::{
    CorpusCounts, CountConfig, MemoryLimit, Prepare, Prepared, PretokenExceedsLimit, check_growth,
    prepared_position,
};
use crate::base::int::{ByteCount, Count, to_u64, to_usize, u64_to_usize};
use crate::base::pools::{lock, spawn_up_to};
use crate::error::{Error, Result};
use crate::observer::{Observer, Stage};
use crate::source::Documents;
use crate::split::{Segment, Splitter};

/// Bytes, approximately, of the windows in which text is split (8 KiB), so that the ends of the pre-tokens stay in
/// the cache.
const WINDOW: usize = 8 << 10;

/// Pre-tokens between two checks whether the table is full. Most windows have fewer.
const PRETOKENS_PER_CHECK: usize = 4 << 10;

/// Minimum share of the memory limit for each thread (2 MiB). If the limit is too small to give all threads that much,
/// fewer threads count: a smaller table would be written out after every few windows of text.
const MIN_THREAD_BYTES: usize = if cfg!(test) { 0 } else { 2 << 20 };

/// Minimum size of a table (2 MiB), however small the limit is. In a smaller table, empty slots would take most of the
/// space, so it would be written out after every few pre-tokens.
const MIN_TABLE_BYTES: usize = if cfg!(test) { 1 } else { 2 << 20 };

/// Counts the pre-tokens of documents, and collects all of them in memory; see [`count_spilling`].
///
/// # Errors
/// Those of [`count_spilling`] and [`SpillableCounts::into_corpus_counts`].
pub fn count_pretokens(
    documents: Documents<'_>,
    splitter: &dyn Splitter,
    config: &CountConfig,
    observer: &dyn Observer,
) -> Result<CorpusCounts> {
    count_spilling(documents, splitter, config, observer)?.into_corpus_counts(observer)
}

/// Counts the pre-tokens of documents, on as many threads as the current rayon pool has.
///
/// The result depends neither on the number of threads, nor on how documents are divided into batches, nor on the
/// limit of memory.
///
/// Calls `observer.advanced` with bytes of text, but neither `started` nor `finished`.
///
/// **Memory:** for each distinct pre-token that a thread has met, its bytes and about 150 bytes more: 59 to 101 in the
/// thread's table, the rest while tables grow and are summed. With a limit, at most that limit, or 2 MiB if that is more.
/// In addition, a few batches, and the longest section of a document (with [`Boundary::Join`](super::Boundary::Join), of
/// a source) without a safe split point.
///
/// # Errors
/// - Reading or splitting fails.
/// - A pre-token has more than an eighth of the limit of memory and more than 1 MiB
///   ([`ErrorKind::Memory`](crate::ErrorKind::Memory)).
/// - A count exceeds 2⁶⁴ − 1.
/// - A sorted run cannot be written.
/// - The observer stops the run.
pub fn count_spilling(
    documents: Documents<'_>,
    splitter: &dyn Splitter,
    config: &CountConfig,
    observer: &dyn Observer,
) -> Result<SpillableCounts> {
    let (mut shards, facts) = count_chunks(documents, splitter, config, observer, None)?;
    let pretokens = match &config.limit {
        Some(limit) if shards.iter().any(|shard| shard.runs.is_some()) => {
            shards.par_iter_mut().try_for_each(Shard::spill)?;
            let runs: Vec<SpillFile> = shards.into_iter().filter_map(|shard| shard.runs).collect();
            let run_count: usize = runs.iter().map(SpillFile::len).sum();
            observer.noted(&format!(
                "pre-tokens were written to {} in {run_count} sorted runs ({} in total): the memory limit leaves {} for them",
                limit.spill_folder.display(),
                ByteCount(runs.iter().map(SpillFile::bytes).sum()),
                limit.table_bytes,
            ));
            CountStorage::OnDisk(runs, limit.clone())
        }
        _ => CountStorage::InMemory(fold(shards.into_iter().map(|shard| shard.table).collect())?),
    };
    Ok(SpillableCounts { pretokens, facts })
}

/// Takes the first bytes of a text, the ends of all pre-tokens in them, and the weight of the text.
pub type PretokenVisitor<'a> = dyn Fn(&[u8], &[u32], Count) -> Result<()> + Sync + 'a;

/// Passes the pre-tokens of documents to `visit` instead of counting them, on as many threads as the current rayon pool
/// has. `visit` gets the same pre-tokens for any number of threads, in no particular order.
///
/// Calls `observer.advanced` as [`count_spilling`] does.
///
/// **Memory:** a few batches, and the longest section of a document without a safe split point.
///
/// # Errors
/// - Reading or splitting fails, or a pre-token is too long, as for [`count_spilling`].
/// - Those of `visit`.
/// - The observer stops the run.
pub fn visit_pretokens(
    documents: Documents<'_>,
    splitter: &dyn Splitter,
    config: &CountConfig,
    observer: &dyn Observer,
    visit: &PretokenVisitor<'_>,
) -> Result<()> {
    count_chunks(documents, splitter, config, observer, Some(visit)).map(drop)
}

/// Counts all chunks, or passes them to a visitor, on as many threads as the current rayon pool has, or on fewer if the
/// limit of memory is too small.
///
/// The threads are started here and not taken from the pool: they block while one of them reads, and threads of a pool
/// must not block.
///
/// # Errors
/// The error of the earliest chunk that failed, which is the same for any number of threads.
fn count_chunks<'a>(
    documents: Documents<'a>,
    splitter: &'a dyn Splitter,
    config: &'a CountConfig,
    observer: &'a dyn Observer,
    visitor: Option<&'a PretokenVisitor<'a>>,
) -> Result<(Vec<Shard<'a>>, FactCollector)> {
    let chunks = CorpusChunks::new(documents, splitter, config);
    let threads = threads(config.limit.as_ref(), MIN_THREAD_BYTES);
    let queue = Mutex::new(ChunkQueue { chunks, taken: 0 });
    let work = || {
        let mut shard = Shard { visitor, ..Shard::new(splitter, config, observer, threads) };
        shard.run(&queue).map(|()| shard)
    };
    let outcomes = thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, work);
        // If the system starts no thread, the current one does all of the work.
        let Ok(threads) = spawn_up_to(threads, spawn) else { return vec![work()] };
        let join =
            |thread: thread::ScopedJoinHandle<_>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        threads.into_iter().map(join).collect()
    });
    let mut facts = queue.into_inner().unwrap_or_else(PoisonError::into_inner).chunks.into_facts();
    let (mut shards, mut failures) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Ok(shard) => {
                facts.add(&shard.facts);
                shards.push(shard);
            }
            Err(failure) => failures.push(failure),
        }
    }
    if let Some(earliest) = failures.into_iter().min_by_key(|failure| failure.chunk) {
        return Err(earliest.error);
    }
    Ok((shards, facts))
}

/// Returns the number of threads: that of the current rayon pool, or fewer, so that each has at least `min_bytes` bytes
/// of the limit.
fn threads(limit: Option<&MemoryLimit>, min_bytes: usize) -> usize {
    let shares = limit.and_then(|limit| u64_to_usize(limit.table_bytes.0).checked_div(min_bytes));
    let max_threads = shares.unwrap_or(usize::MAX);
    rayon::current_num_threads().min(max_threads).max(1)
}

/// Passes chunks to threads, in order, up to the last one or the first that cannot be read.
struct ChunkQueue<'a> {
    /// Reads the corpus. The thread that holds the lock reads, and the others count or wait.
    chunks: CorpusChunks<'a>,
    /// Number of chunks taken so far.
    taken: u64,
}

/// An error, and the number of the chunk in which it occurred. If several chunks fail, the error of the first of them
/// is reported. It is the same for any number of threads, because all earlier chunks were counted.
struct ChunkError {
    /// The number of the chunk, from 1.
    chunk: u64,
    /// Why the chunk failed.
    error: Error,
}

impl ChunkQueue<'_> {
    /// Returns the next chunk and its number. An error ends the queue.
    fn take(&mut self) -> (u64, Option<Result<CorpusChunk>>) {
        self.taken += 1;
        let chunk = self.chunks.next();
        if let Some(Err(_)) = chunk {
            self.chunks.stop();
        }
        (self.taken, chunk)
    }
}

/// Where a document is in the input. Source and unit are numbers, from 0.
#[derive(Clone, Copy, Default)]
struct DocumentPlace {
    source: usize,
    unit: usize,
    row: u64,
}

/// The state of one counting thread.
struct Shard<'a> {
    /// Splits texts into pre-tokens.
    splitter: &'a dyn Splitter,
    /// Weights, special tokens, preparation and limits.
    config: &'a CountConfig,
    /// Takes the pre-tokens; `None` if they are counted.
    visitor: Option<&'a PretokenVisitor<'a>>,
    /// Receives the bytes that were counted, and is asked whether to stop.
    observer: &'a dyn Observer,
    /// The place of the current text, for errors.
    document: DocumentPlace,
    /// The maximum size of the table in bytes, and the folder to which a full table is written.
    limit: Option<(usize, &'a Path)>,
    /// The counts since the last sorted run was written.
    table: PretokenTable,
    /// The sorted runs that this thread has written; `None` if there are none.
    runs: Option<SpillFile>,
    /// Statistics of the texts that this thread counted, and of the documents that lie completely within one chunk.
    facts: FactCollector,
    /// Buffer for the ends of the pre-tokens of a window, which is reused for every window.
    ends: Vec<u32>,
}

impl<'a> Shard<'a> {
    /// Creates the state of one of `threads` threads.
    fn new(
        splitter: &'a dyn Splitter,
        config: &'a CountConfig,
        observer: &'a dyn Observer,
        threads: usize,
    ) -> Shard<'a> {
        let share = |limit: &'a MemoryLimit| {
            ((u64_to_usize(limit.table_bytes.0) / threads).max(MIN_TABLE_BYTES), &*limit.spill_folder)
        };
        Shard {
            splitter,
            config,
            visitor: None,
            observer,
            document: DocumentPlace::default(),
            limit: config.limit.as_ref().map(share),
            table: PretokenTable::new(),
            runs: None,
            facts: FactCollector::default(),
            ends: Vec::new(),
        }
    }

    /// Writes the table to disk as a sorted run, if a limit is set.
    fn spill(&mut self) -> Result<()> {
        let Some((max_bytes, spill_folder)) = self.limit else { return Ok(()) };
        let runs = match &mut self.runs {
            Some(runs) => runs,
            slot @ None => slot.insert(SpillFile::create(spill_folder)?),
        };
        self.table.drain_sorted(max_bytes, |sorted| runs.write(sorted))
    }

    /// Counts chunks until the queue is empty.
    fn run(&mut self, queue: &Mutex<ChunkQueue<'_>>) -> Result<(), ChunkError> {
        loop {
            // The lock is held only while taking a chunk: the guard is dropped at the end of this statement.
            let taken = lock(queue).take();
            let (number, Some(chunk)) = taken else { return Ok(()) };
            let counted = chunk.and_then(|chunk| self.count_chunk(&chunk));
            if let Err(error) = counted {
                lock(queue).chunks.stop();
                return Err(ChunkError { chunk: number, error });
            }
        }
    }

    /// Counts the texts of a chunk.
    fn count_chunk(&mut self, chunk: &CorpusChunk) -> Result<()> {
        self.observer.checkpoint()?;
        let config = self.config;
        let mut position = chunk.position;
        chunk.whole_documents().for_each(|document| self.facts.record_document(chunk.source, document));
        for (number, text) in chunk.texts().enumerate() {
            let (unit, row) = chunk.row(number);
            self.document = DocumentPlace { source: chunk.source, unit, row };
            if let Some(prepare) = config.prepare.as_deref() {
                self.count_prepared(prepare, text, chunk.weight, position)?;
                position += to_u64(text.len());
                continue;
            }
            for segment in config.specials.segments(text) {
                match segment {
                    Segment::Text(range) if chunk.weight > 0 => {
                        let position = position + to_u64(range.start);
                        self.count_text(&text[range], Count::new(chunk.weight), position)?;
                    }
                    Segment::Text(range) => self.facts.record_text(&text[range]),
                    Segment::Special(_, range) => {
                        self.facts.record_text(&text[range.clone()]);
                        self.facts.record_special(&text[range]);
                    }
                }
            }
            position += to_u64(text.len());
        }
        self.observer.advanced(Stage::Count, position - chunk.position);
        Ok(())
    }

    /// Prepares a whole text, and counts its segments.
    fn count_prepared(
        &mut self,
        prepare: &dyn Prepare,
        text: &[u8],
        weight: u64,
        position: u64,
    ) -> Result<()> {
        let before = self.facts.characters();
        let (start, mut prepared) = (prepared_position(position), 0);
        prepare.each(text, &mut |segment| {
            match segment {
                Prepared::Text(segment) => {
                    let position = start + prepared;
                    prepared += to_u64(segment.len());
                    check_growth(prepared, text)?;
                    if weight > 0 {
                        self.count_text(segment, Count::new(weight), position)?;
                    }
                }
                Prepared::Token(token) => self.facts.record_special(token),
            }
            Ok(())
        })?;
        self.facts.replace_characters(before, text);
        Ok(())
    }

    /// Counts a text in windows that end at safe split points.
    fn count_text(&mut self, mut text: &[u8], weight: Count, mut position: u64) -> Result<()> {
        while !text.is_empty() {
            let length = self.splitter.safe_prefix(text, WINDOW);
            self.count_window(text, length, weight, position)?;
            position += to_u64(length);
            text = &text[length..];
        }
        Ok(())
    }

    /// Counts the first `length` bytes of a text, which end at a safe split point or at the end of the text.
    ///
    /// # Errors
    /// A pre-token is too long, splitting fails, a count overflows, or a run cannot be written.
    fn count_window(&mut self, text: &[u8], length: usize, weight: Count, position: u64) -> Result<()> {
        let mut ends = mem::take(&mut self.ends);
        ends.clear();
        self.facts.record_text(&text[..length]);
        self.splitter.pretoken_ends_observed(&text[..length], &mut ends, self.observer)?;
        let longest = self.config.longest_pretoken();
        if length > longest && longest_pretoken(&ends) > longest {
            let DocumentPlace { source, unit, row } = self.document;
            return Err(PretokenExceedsLimit::new(source, (unit, row), self.config).into());
        }
        if let Some(visit) = self.visitor {
            visit(&text[..length], &ends, weight)?;
            self.ends = ends;
            return Ok(());
        }
        let mut start = 0;
        // Without safe split points, a window is a whole document and can have any number of pre-tokens.
        for ends in ends.chunks(PRETOKENS_PER_CHECK) {
            if self.limit.is_some_and(|(max_bytes, _)| self.table.is_full(max_bytes)) {
                self.spill()?;
            }
            self.table.count(text, start, ends, weight, position)?;
            start = ends.last().copied().unwrap_or(start);
        }
        self.ends = ends;
        Ok(())
    }
}

/// Returns the length of the longest pre-token, given their ends; the first one starts at 0.
fn longest_pretoken(ends: &[u32]) -> usize {
    let starts = std::iter::once(&0).chain(ends);
    to_usize(starts.zip(ends).map(|(start, end)| end - start).max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::base::test_support::with_threads;

    #[test]
    fn as_many_threads_count_as_have_their_share() {
        let limited = |tables, least| {
            let limit = MemoryLimit { table_bytes: ByteCount(tables), spill_folder: PathBuf::new() };
            with_threads(4, || threads(Some(&limit), least))
        };
        assert_eq!([0, 9, 10, 25, 1000].map(|tables| limited(tables, 10)), [1, 1, 1, 2, 4]);
        assert_eq!(limited(0, 0), 4);
        assert_eq!(with_threads(4, || threads(None, 10)), 4);
    }
}
