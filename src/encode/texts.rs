//! Encoding of several texts in memory: on all threads to a list of ids for each text, or on one thread to one list.

use std::ops::Range;

use rayon::prelude::*;

use super::backtrack::EncodedChunk;
use super::encoder::CHUNK_BYTES;
use super::ids::TokenIds;
use super::tokenizer::Tokenizer;
use super::worker::Worker;
use crate::base::huge_pages;
use crate::base::int::{TokenId, to_u64};
use crate::error::Result;
use crate::observer::{Observer, Silent};

/// Most bytes of short texts (1 MiB) that a thread takes at a time.
const MOST_AT_A_TIME: usize = 1 << 20;

/// Fewest bytes of short texts (4 KiB) that a thread takes at a time, if there are as many.
const FEWEST_AT_A_TIME: usize = 4 << 10;

/// Bytes of ids (256 KiB) from which on their memory is populated.
const POPULATED_BYTES: usize = 256 << 10;

/// Bytes that a text counts in addition to its own.
const PER_TEXT: usize = 32;

/// The ids of several texts in one list.
///
/// See [`Tokenizer::encode_flat`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlatIds {
    /// The ids of all texts, one text after the other.
    pub ids: Vec<u32>,
    /// Where the ids of each text end in `ids`. They begin where those of the text before it end.
    pub ends: Vec<usize>,
}

impl FlatIds {
    /// The ids of each text, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.ids[std::mem::replace(&mut start, end)..end])
    }

    /// The ids of each text in a list of its own.
    pub(super) fn into_rows(self) -> Vec<Vec<u32>> {
        if self.ends.len() == 1 { vec![self.ids] } else { self.iter().map(<[u32]>::to_vec).collect() }
    }
}

impl Tokenizer {
    /// Encodes each text as a whole document, and returns the ids in the order of the texts.
    ///
    /// All threads of the current rayon pool share the work. Several threads share one long text, unless
    /// normalizing changes it or added tokens occur in it.
    ///
    /// # Errors
    /// Those of [`Worker::encode`], for the first text that fails, with its index.
    pub fn encode_batch<T: AsRef<[u8]> + Sync>(&self, texts: &[T]) -> Result<Vec<Vec<u32>>> {
        self.encode_in_chunks(texts, CHUNK_BYTES)
    }

    /// Implements [`encode_batch`](Tokenizer::encode_batch), with long texts cut into chunks of about `chunk_bytes`
    /// bytes.
    pub(super) fn encode_in_chunks<T: AsRef<[u8]> + Sync>(
        &self,
        texts: &[T],
        chunk_bytes: usize,
    ) -> Result<Vec<Vec<u32>>> {
        let runs = runs(texts, rayon::current_num_threads());
        let encode = |run: &Range<usize>| {
            let flat = self.encode_flat_in_chunks(&texts[run.clone()], chunk_bytes, run.start, &Silent);
            flat.map(FlatIds::into_rows)
        };
        let encoded: Vec<Result<Vec<Vec<u32>>>> = runs.par_iter().map(encode).collect();
        let mut rows = Vec::with_capacity(texts.len());
        // Going in order returns the first error.
        for run in encoded {
            rows.extend(run?);
        }
        Ok(rows)
    }

    /// Encodes each text as a whole document, and returns the ids of all of them in one list.
    ///
    /// It is for programs that share texts among threads themselves: the calling thread encodes the texts, except that
    /// all threads of the current rayon pool share each text of 2 MiB or more under the conditions of
    /// [`encode_batch`](Tokenizer::encode_batch). `observer` is asked, also within a long text, whether to stop.
    ///
    /// ```
    /// use tokenmill::Tokenizer;
    /// use tokenmill::encode::EncodeConfig;
    /// use tokenmill::observer::Silent;
    /// # use tokenmill::{split::SplitPattern, train::Merges, vocab::{SpecialTokensAt, Vocabulary}};
    ///
    /// # fn main() -> tokenmill::Result<()> {
    /// # let vocabulary = Vocabulary::from_merges(&Merges::default(), &[], SpecialTokensAt::End, SplitPattern::None)?;
    /// // A vocabulary of the 256 bytes alone.
    /// let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
    /// let flat = tokenizer.encode_flat(&["ab", "", "c"], &Silent)?;
    /// assert_eq!(flat.ids, [97, 98, 99]);
    /// assert_eq!(flat.ends, [2, 2, 3]);
    /// assert_eq!(flat.iter().collect::<Vec<_>>(), [&[97, 98][..], &[], &[99]]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - Those of [`Worker::encode`], for the first text that fails, with its index.
    /// - [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted) if the observer asks to stop.
    pub fn encode_flat<T: AsRef<[u8]>>(&self, texts: &[T], observer: &dyn Observer) -> Result<FlatIds> {
        self.encode_flat_in_chunks(texts, CHUNK_BYTES, 0, observer)
    }

    /// Implements [`encode_flat`](Tokenizer::encode_flat), with long texts cut into chunks of about `chunk_bytes`
    /// bytes. `first_row` is the index of the first text, for errors.
    pub(super) fn encode_flat_in_chunks<T: AsRef<[u8]>>(
        &self,
        texts: &[T],
        chunk_bytes: usize,
        first_row: usize,
        observer: &dyn Observer,
    ) -> Result<FlatIds> {
        let (mut ids, mut ends) = (TokenIds::default(), Vec::with_capacity(texts.len()));
        while let Some(text) = texts.get(ends.len()).map(T::as_ref) {
            observer.checkpoint()?;
            let row = first_row + ends.len();
            let chunks = self.encoder().chunks(text, chunk_bytes);
            if chunks.is_empty() {
                let rest = &texts[ends.len()..];
                let is_short = |text: &&T| text.as_ref().len() < 2 * chunk_bytes;
                let run = &rest[..1 + rest[1..].iter().take_while(is_short).count()];
                let encoded = self.work(observer, |worker| encode_run(worker, run, row, ids))?;
                ids = encoded.0;
                ends.extend(encoded.1);
            } else {
                let long = self.encode_long(text, row, &chunks, observer);
                ids.join(long.map_err(|error| error.at(format_args!("the batch: row {row}")))?);
                ends.push(ids.len());
            }
        }
        Ok(FlatIds { ids: ids.into_wide().into_iter().map(TokenId::get).collect(), ends })
    }

    /// Encodes the chunks of one long text on all threads. `row` is its number in the batch.
    fn encode_long(
        &self,
        text: &[u8],
        row: usize,
        chunks: &[Range<usize>],
        observer: &dyn Observer,
    ) -> Result<TokenIds> {
        let encoder = self.encoder();
        let encode = |range: &Range<usize>| {
            observer.checkpoint()?;
            self.work(observer, |worker| {
                worker.set_document(0, 0, to_u64(row));
                worker.chunk(text, range.clone())
            })
        };
        let encoded: Vec<Result<EncodedChunk>> = chunks.par_iter().map(encode).collect();
        let mut stitcher = encoder.stitcher();
        for (range, chunk) in chunks.iter().zip(encoded) {
            stitcher.push(encoder.tables(), text, range.start, chunk?);
        }
        Ok(encoder.stitched(stitcher))
    }
}

/// Appends the ids of texts to `ids`. Returns the ids and where those of each text end. `first_row` is the index of
/// the first text, for errors.
fn encode_run<T: AsRef<[u8]>>(
    worker: &mut Worker<'_>,
    texts: &[T],
    first_row: usize,
    ids: TokenIds,
) -> Result<(TokenIds, Vec<usize>)> {
    let text_bytes = texts.iter().map(|text| text.as_ref().len()).sum();
    let (before, room) = (ids.len(), worker.expected_ids(text_bytes));
    // With four bytes for each id from the beginning, the caller need not widen them.
    let mut output = worker.output(if before == 0 { wide(room).into() } else { ids });
    for (text, row) in texts.iter().zip(first_row..) {
        worker.set_document(0, 0, to_u64(row));
        let outcome = worker.document(text.as_ref(), &mut output);
        outcome.map_err(|error| error.at(format_args!("the batch: row {row}")))?;
    }
    let (mut ids, ends) = worker.finish(output);
    if before == 0 {
        worker.release_unused(&mut ids, text_bytes);
    }
    Ok((ids, ends))
}

/// Memory for ids of four bytes each, which the kernel provides at once.
fn wide(room: usize) -> Vec<TokenId> {
    let mut ids = Vec::with_capacity(room);
    if size_of::<TokenId>() * room >= POPULATED_BYTES {
        huge_pages::populate(&mut ids, room);
    }
    ids
}

/// Ranges of texts that threads take one by one. They have about the same number of bytes unless a text is longer.
fn runs<T: AsRef<[u8]>>(texts: &[T], threads: usize) -> Vec<Range<usize>> {
    let bytes = |text: &T| text.as_ref().len() + PER_TEXT;
    let all: usize = texts.iter().map(bytes).sum();
    let most = (all / (8 * threads)).clamp(FEWEST_AT_A_TIME, MOST_AT_A_TIME);
    let (mut runs, mut start, mut sum) = (Vec::new(), 0, 0);
    for (row, text) in texts.iter().enumerate() {
        if sum + bytes(text) > most && row > start {
            runs.push(start..row);
            (start, sum) = (row, 0);
        }
        sum += bytes(text);
    }
    if start < texts.len() {
        runs.push(start..texts.len());
    }
    runs
}
