//! Encoding of batches of documents on all threads, in order. This is the only part of the stage that needs Arrow.

use std::borrow::Cow;
use std::mem;
use std::ops::Range;

use arrow::array::{Array, RecordBatch};
use serde::{Deserialize, Serialize};

use super::backtrack::EncodedChunk;
use super::encoder::{CHUNK_BYTES, Encoder};
use super::ids::TokenIds;
use super::pending::PendingOutput;
use super::worker::Worker;
use crate::base::int::{TokenId, to_u64, to_usize};
use crate::base::pools;
use crate::error::{Error, Result};
use crate::observer::{Observer, Stage};
use crate::source::{Batch, Documents};

/// The token ids of consecutive documents, one row per document.
#[derive(Clone, Debug)]
pub struct TokenBatch {
    /// Index of the run's source that the documents come from, from 0.
    pub source: usize,
    /// Index of the unit within that source, from 0.
    pub unit: usize,
    /// Row of the first document within its unit.
    pub first_row: u64,
    /// The ids of all rows, concatenated.
    pub ids: TokenIds,
    /// The end of each row in `ids`: ascending, one entry per row. A null row has no ids, so it ends where the
    /// row before it ends.
    pub ends: Vec<usize>,
    /// For each row, whether it is null; empty if no row is null.
    pub nulls: Vec<bool>,
    /// Bytes of text in all rows.
    pub text_bytes: u64,
    /// Bytes of text in each row, one entry per row; 0 for a null row. If the output files are not planned in advance,
    /// these lengths decide after which row a new file begins.
    pub text_lengths: Vec<u64>,
    /// The pass-through columns, one row per document.
    pub columns: Option<RecordBatch>,
}

impl TokenBatch {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the batch has no rows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The ids of each row, in order; `None` for a null row. Ids that are stored in two bytes, or in several
    /// parts, are copied.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<Cow<'_, [TokenId]>>> {
        self.spans().map(|span| span.map(|span| self.ids.slice(span)))
    }

    /// The range of each row in [`ids`](TokenBatch::ids); `None` for a null row.
    pub fn spans(&self) -> impl ExactSizeIterator<Item = Option<Range<usize>>> {
        self.ends.iter().enumerate().map(|(row, &end)| {
            let start = if row == 0 { 0 } else { self.ends[row - 1] };
            let null = self.nulls.get(row).copied().unwrap_or(false);
            (!null).then_some(start..end)
        })
    }
}

/// Bytes of text per work item (4 MiB). Larger batches are cut into items of about this size, so that every
/// thread has work.
const ITEM_BYTES: u64 = 4 << 20;

/// Counts of the encoded documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncodeFacts {
    /// Rows, including null and empty ones.
    pub documents: u64,
    /// Null rows. They stay null rows in the output, without tokens.
    pub null_documents: u64,
    /// Rows that were not null but had no text.
    pub empty_documents: u64,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Tokens, including BOS and EOS.
    pub tokens: u64,
    /// Special tokens found in the texts. Always 0 under [`SpecialPolicy::Text`](super::SpecialPolicy::Text),
    /// which does not look for them.
    pub specials: u64,
}

impl EncodeFacts {
    /// Adds the counts of the next batch to those of the batches before it.
    fn add(&mut self, other: &EncodeFacts) {
        self.documents += other.documents;
        self.null_documents += other.null_documents;
        self.empty_documents += other.empty_documents;
        self.text_bytes += other.text_bytes;
        self.tokens += other.tokens;
        self.specials += other.specials;
    }
}

/// Encodes documents on all threads and passes the results to `sink` in document order.
///
/// Each batch must hold whole documents: pass batches that are read from files through
/// [`collected_documents`](crate::source::collected_documents) first. `unit_name` returns the name of a unit, given its
/// source and its index, for error messages. A batch's bytes are reported to the observer after `sink` has returned.
/// Several threads share a document of 2 MiB or more, unless normalizing changes it, an added token occurs in it, one
/// of its bytes has no token, or the vocabulary neither splits text nor allows backtracking.
///
/// ```
/// use tokenmill::encode::{EncodeConfig, Encoder, encode_batches};
/// use tokenmill::observer::Silent;
/// # use tokenmill::{split::SplitPattern, train::Merges, vocab::{SpecialTokensAt, Vocabulary}};
///
/// # fn main() -> tokenmill::Result<()> {
/// # let vocabulary = Vocabulary::from_merges(&Merges::default(), &[], SpecialTokensAt::End, SplitPattern::None)?;
/// let encoder = Encoder::new(vocabulary, EncodeConfig::default())?;
/// let documents = tokenmill::source::texts(["one", "three"]);
/// let name = |source, unit| format!("source {source}, unit {unit}");
/// let mut lengths = Vec::new();
/// let facts = encode_batches(documents, &encoder, name, &Silent, |batch| {
///     lengths.extend(batch.spans().map(|row| row.map_or(0, |ids| ids.len())));
///     Ok(())
/// })?;
/// assert_eq!(lengths, [3, 5]); // this vocabulary has single bytes only
/// assert_eq!((facts.documents, facts.tokens), (2, 8));
/// # Ok(())
/// # }
/// ```
///
/// **Memory:** per thread, two work items with their tokens, and a [`Worker`]. A work item is about 4 MiB of text, or
/// one document that is larger. In addition, the tokens of a long document that is encoded in chunks.
///
/// # Errors
/// - Those of [`Worker::encode`], with the unit and the row.
/// - Errors from reading `documents`, and errors that `sink` returns.
/// - [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted) if the observer asks to stop.
/// - [`ErrorKind::Usage`](crate::ErrorKind::Usage) if a batch holds only part of a document.
pub fn encode_batches(
    documents: Documents<'_>,
    encoder: &Encoder,
    unit_name: impl Fn(usize, usize) -> String + Sync,
    observer: &dyn Observer,
    sink: impl FnMut(TokenBatch) -> Result<()>,
) -> Result<EncodeFacts> {
    encode_in_chunks(documents, encoder, CHUNK_BYTES, unit_name, observer, sink)
}

/// A work item of one thread.
enum WorkItem {
    /// Documents to encode whole.
    Batch(Batch),
    /// A chunk of the only document of a batch.
    Chunk(DocumentChunk),
}

/// The result of one work item.
enum EncodedItem {
    /// The rows of a batch, and their counts.
    Batch(TokenBatch, EncodeFacts),
    /// The tokens of a chunk. The chunks of a document become one [`TokenBatch`] when a `Stitcher` has joined all of
    /// them.
    Chunk(DocumentChunk, EncodedChunk),
}

/// A chunk of the only document of a batch.
struct DocumentChunk {
    /// The batch with the document in row 0. All chunks of a document share its text: cloning a batch copies
    /// references.
    batch: Batch,
    /// The bytes of the document that belong to the chunk. The chunks of a document are adjacent, in order, and not
    /// empty.
    range: Range<usize>,
}

impl DocumentChunk {
    /// The whole document.
    fn text(&self) -> &[u8] {
        self.batch.documents.value(0)
    }

    /// Whether the document ends with this chunk.
    fn is_last(&self) -> bool {
        self.range.end == self.text().len()
    }

    /// The document as a batch, given its ids.
    ///
    /// `ids` are the ids of the whole document, with BOS and EOS. The document is not empty and has no special tokens:
    /// [`Encoder::chunks`] does not cut other documents.
    fn document(self, ids: TokenIds) -> (TokenBatch, EncodeFacts) {
        let text_bytes = to_u64(self.text().len());
        let facts =
            EncodeFacts { documents: 1, text_bytes, tokens: to_u64(ids.len()), ..EncodeFacts::default() };
        let Batch { source, unit, first_row, columns, .. } = self.batch;
        let (ends, nulls, text_lengths) = (vec![ids.len()], Vec::new(), vec![text_bytes]);
        (TokenBatch { source, unit, first_row, ids, ends, nulls, text_bytes, text_lengths, columns }, facts)
    }
}

/// The chunks of a batch that is one long document, or else the batch itself.
///
/// A batch of several rows stays whole, as does a null row or a document that [`Encoder::chunks`] does not cut.
fn work_items(encoder: &Encoder, batch: Batch, chunk_bytes: usize) -> impl Iterator<Item = WorkItem> {
    let document = (batch.len() == 1 && !batch.documents.is_null(0)).then(|| batch.documents.value(0));
    let chunks = document.map_or_else(Vec::new, |text| encoder.chunks(text, chunk_bytes));
    let whole = chunks.is_empty().then(|| WorkItem::Batch(batch.clone()));
    let chunks =
        chunks.into_iter().map(move |range| WorkItem::Chunk(DocumentChunk { batch: batch.clone(), range }));
    whole.into_iter().chain(chunks)
}

/// Implements [`encode_batches`], with long documents cut into chunks of about `chunk_bytes` bytes.
///
/// Threads encode items in any order, but results are taken in the order of the items. So the chunks of a document
/// arrive one after the other, and one stitcher is enough.
pub(super) fn encode_in_chunks(
    documents: Documents<'_>,
    encoder: &Encoder,
    chunk_bytes: usize,
    unit_name: impl Fn(usize, usize) -> String + Sync,
    observer: &dyn Observer,
    mut sink: impl FnMut(TokenBatch) -> Result<()>,
) -> Result<EncodeFacts> {
    let mut facts = EncodeFacts::default();
    let items = documents.flat_map(|batch| {
        let (parts, error) = match batch.and_then(|batch| require_whole(batch, &unit_name)) {
            Ok(batch) => (Some(cut_between_rows(batch)), None),
            Err(error) => (None, Some(Err(error))),
        };
        let work = parts.into_iter().flatten().flat_map(|part| work_items(encoder, part, chunk_bytes));
        work.map(Ok).chain(error)
    });
    let in_row = |error: Error, chunk: &DocumentChunk| {
        error.at(row_name(&unit_name, &chunk.batch, chunk.batch.first_row))
    };
    let encode = |worker: &mut Worker<'_>, item: WorkItem| {
        observer.checkpoint()?;
        Ok(match item {
            WorkItem::Batch(batch) => {
                let (batch, facts) = encode_documents(worker, batch, &unit_name)?;
                EncodedItem::Batch(batch, facts)
            }
            WorkItem::Chunk(chunk) => {
                worker.set_document(chunk.batch.source, chunk.batch.unit, chunk.batch.first_row);
                let encoded =
                    worker.chunk(chunk.text(), chunk.range.clone()).map_err(|error| in_row(error, &chunk))?;
                EncodedItem::Chunk(chunk, encoded)
            }
        })
    };
    let mut stitcher = encoder.stitcher();
    let deliver = |encoded| {
        let (batch, batch_facts) = match encoded {
            EncodedItem::Batch(batch, facts) => (batch, facts),
            EncodedItem::Chunk(chunk, encoded) => {
                stitcher.push(encoder.tables(), chunk.text(), chunk.range.start, encoded);
                if !chunk.is_last() {
                    let checked = encoder.limits.check_tokens(stitcher.len());
                    return checked.map_err(|error| in_row(error, &chunk));
                }
                let ids = encoder.stitched(mem::replace(&mut stitcher, encoder.stitcher()));
                encoder.limits.check_tokens(ids.len()).map_err(|error| in_row(error, &chunk))?;
                chunk.document(ids)
            }
        };
        sink(batch)?;
        facts.add(&batch_facts);
        observer.advanced(Stage::Encode, batch_facts.text_bytes);
        observer.checkpoint()
    };
    let max_in_flight = 2 * rayon::current_num_threads();
    pools::ordered(items, max_in_flight, || encoder.observed_worker(observer), encode, deliver)?;
    Ok(facts)
}

/// Returns the batch, or an error if it holds only part of a document.
///
/// # Errors
/// [`ErrorKind::Usage`](crate::ErrorKind::Usage), with the place of the row that is incomplete: the first row if it continues an earlier
/// batch, else the last.
fn require_whole(batch: Batch, unit_name: &impl Fn(usize, usize) -> String) -> Result<Batch> {
    if !batch.continued && !batch.open {
        return Ok(batch);
    }
    let row = if batch.continued { 0 } else { to_u64(batch.len()).saturating_sub(1) };
    let place = row_name(unit_name, &batch, batch.first_row + row);
    Err(Error::usage(format!("{place}: the batch holds only a part of the document"))
        .with_help("collect the parts of documents with `source::collected_documents` before encoding"))
}

/// Cuts a batch into batches of about [`ITEM_BYTES`] of text, each with at least one row.
///
/// A row with more text than that is a batch by itself. The batches share the text and the columns of the given one,
/// and each has its own `first_row`. A batch without rows gives no batches.
fn cut_between_rows(batch: Batch) -> impl Iterator<Item = Batch> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |length: &u32| {
            bytes += u64::from(*length);
            bytes <= ITEM_BYTES
        };
        let rows = batch.documents.lengths().skip(start).take_while(fits).count();
        let rows = rows.max(1).min(batch.len() - start);
        let first = start;
        start += rows;
        (rows > 0).then(|| Batch {
            first_row: batch.first_row + to_u64(first),
            documents: batch.documents.slice(first, rows),
            columns: batch.columns.as_ref().map(|columns| columns.slice(first, rows)),
            ..batch
        })
    })
}

/// Encodes all rows of a batch with one worker.
///
/// BOS and EOS are put around every document, even an empty one, and count as tokens. A null row has no tokens at
/// all.
///
/// # Errors
/// Those of [`Worker::encode`], with the unit and the row. Nothing of the batch is returned then.
fn encode_documents(
    worker: &mut Worker<'_>,
    batch: Batch,
    unit_name: &impl Fn(usize, usize) -> String,
) -> Result<(TokenBatch, EncodeFacts)> {
    let mut facts = EncodeFacts { documents: to_u64(batch.len()), ..EncodeFacts::default() };
    let text_bytes: usize = batch.documents.lengths().map(to_usize).sum();
    let mut output = worker.output(worker.reserve_ids(text_bytes));
    let (mut text_lengths, mut nulls) = (Vec::with_capacity(batch.len()), Vec::new());
    let specials_before = worker.specials();
    for (row, document) in (batch.first_row..).zip(batch.iter()) {
        match document {
            Some(text) => {
                let in_row = |error: Error| error.at(row_name(unit_name, &batch, row));
                worker.set_document(batch.source, batch.unit, row);
                worker
                    .document(text, &mut output)
                    .and_then(|()| check_long_document(worker, text, &output))
                    .map_err(in_row)?;
                facts.text_bytes += to_u64(text.len());
                facts.empty_documents += u64::from(text.is_empty());
            }
            None => {
                nulls.resize(batch.len(), false);
                nulls[text_lengths.len()] = true;
                facts.null_documents += 1;
                worker.end(&mut output);
            }
        }
        text_lengths.push(document.map_or(0, |text| to_u64(text.len())));
    }
    let (mut ids, ends) = worker.finish(output);
    worker.release_unused(&mut ids, text_bytes);
    facts.tokens = to_u64(ids.len());
    facts.specials = worker.specials() - specials_before;
    let Batch { source, unit, first_row, columns, .. } = batch;
    let text_bytes = facts.text_bytes;
    let tokens = TokenBatch { source, unit, first_row, ids, ends, nulls, text_bytes, text_lengths, columns };
    Ok((tokens, facts))
}

/// Checks the number of tokens of a document that is longer than [`ITEM_BYTES`]. It is the only document of its
/// batch, so all tokens of `output` are its own.
///
/// Shorter documents are not checked, since they can share `output` with other documents.
fn check_long_document(worker: &Worker<'_>, text: &[u8], output: &PendingOutput<'_>) -> Result<()> {
    if to_u64(text.len()) <= ITEM_BYTES { Ok(()) } else { worker.check_tokens(output.ids.len()) }
}

/// Names a row in error messages.
fn row_name(unit_name: &impl Fn(usize, usize) -> String, batch: &Batch, row: u64) -> String {
    format!("{}: row {row}", unit_name(batch.source, batch.unit))
}
