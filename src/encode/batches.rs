use serde::{Deserialize, Serialize};

use super::batch::TokenBatch;
use super::draft::Draft;
use super::encoder::Encoder;
use super::fault::Fault;
use super::stretches::{self, Joiner, STRETCH, Stretch, Stretched, Work};
use super::worker::Worker;
use crate::base::int::{to_u64, to_usize};
use crate::base::pools;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Stage};
use crate::source::{Batch, Documents};

/// Bytes of text per work item (4 MiB). Larger batches are cut into items of about this size, so that every
/// thread has work.
const RUN_BYTES: u64 = 4 << 20;

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
    fn add(&mut self, other: &EncodeFacts) {
        self.documents += other.documents;
        self.null_documents += other.null_documents;
        self.empty_documents += other.empty_documents;
        self.text_bytes += other.text_bytes;
        self.tokens += other.tokens;
        self.specials += other.specials;
    }
}

/// Encodes documents on all threads and passes the results to `take` in document order.
///
/// Each batch must hold whole documents: pass batches that are read from files through
/// [`whole_documents`](crate::source::whole_documents) first. `unit_name` returns the name of a unit, given its
/// source and its index, for error messages. A batch's bytes are reported to the observer after `take` has returned.
/// Several threads share a long document, unless normalizing changes it or added tokens occur in it.
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
/// **Memory:** per thread, two batches with their tokens, and a [`Worker`]. A batch is about 4 MiB of text, or
/// one document that is larger. In addition, the tokens of a long document that is encoded in chunks.
///
/// # Errors
/// - Those of [`Worker::encode`], with the unit and the row.
/// - Errors from reading `documents`, and errors that `take` returns.
/// - [`ErrorKind::Interrupted`] if the observer asks to stop.
/// - [`ErrorKind::Usage`] if a batch holds only part of a document.
pub fn encode_batches(
    documents: Documents<'_>,
    encoder: &Encoder,
    unit_name: impl Fn(usize, usize) -> String + Sync,
    observer: &dyn Observer,
    take: impl FnMut(TokenBatch) -> Result<()>,
) -> Result<EncodeFacts> {
    encode_in_stretches(documents, encoder, STRETCH, unit_name, observer, take)
}

/// The result of one work item.
enum Encoded {
    Whole(TokenBatch, EncodeFacts),
    Stretch(Stretch, Stretched),
}

/// Implements [`encode_batches`], with long documents cut into chunks of about `stretch` bytes.
pub(super) fn encode_in_stretches(
    documents: Documents<'_>,
    encoder: &Encoder,
    stretch: usize,
    unit_name: impl Fn(usize, usize) -> String + Sync,
    observer: &dyn Observer,
    mut take: impl FnMut(TokenBatch) -> Result<()>,
) -> Result<EncodeFacts> {
    let mut facts = EncodeFacts::default();
    let items = documents.flat_map(|batch| {
        let (runs, error) = match batch.and_then(|batch| whole(batch, &unit_name)) {
            Ok(batch) => (Some(runs(batch)), None),
            Err(error) => (None, Some(Err(error))),
        };
        let work = runs.into_iter().flatten().flat_map(|run| stretches::cut(encoder, run, stretch));
        work.map(Ok).chain(error)
    });
    let ahead = 2 * rayon::current_num_threads();
    let encode = |worker: &mut Worker<'_>, work: Work| {
        observer.checkpoint()?;
        Ok(match work {
            Work::Whole(batch) => {
                let (batch, facts) = encode_run(worker, batch, &unit_name)?;
                Encoded::Whole(batch, facts)
            }
            Work::Stretch(stretch) => {
                let (batch, row) = stretch.document();
                let in_row = |wrong: Error| wrong.at(row_name(&unit_name, batch, row));
                let stretched = stretch.encode(worker).map_err(in_row)?;
                Encoded::Stretch(stretch, stretched)
            }
        })
    };
    let mut joiner = Joiner::new(encoder);
    pools::ordered(
        items,
        ahead,
        || encoder.observed_worker(observer),
        encode,
        |encoded| {
            let document = match encoded {
                Encoded::Whole(batch, facts) => Some((batch, facts)),
                Encoded::Stretch(stretch, stretched) => {
                    let document = joiner.join(&stretch, stretched);
                    let tokens =
                        document.as_ref().map_or_else(|| joiner.tokens(), |(batch, _)| batch.ids.len());
                    encoder.room_for.check_tokens(tokens).map_err(|wrong| {
                        let (batch, row) = stretch.document();
                        wrong.at(row_name(&unit_name, batch, row))
                    })?;
                    document
                }
            };
            let Some((batch, one)) = document else { return Ok(()) };
            take(batch)?;
            facts.add(&one);
            observer.advanced(Stage::Encode, one.text_bytes);
            observer.checkpoint()
        },
    )?;
    Ok(facts)
}

/// Returns the batch, or an error if it holds only part of a document.
fn whole(batch: Batch, unit_name: &impl Fn(usize, usize) -> String) -> Result<Batch> {
    if !batch.continued && !batch.open {
        return Ok(batch);
    }
    let row = if batch.continued { 0 } else { to_u64(batch.len()).saturating_sub(1) };
    let place = row_name(unit_name, &batch, batch.first_row + row);
    Err(Error::new(ErrorKind::Usage, Fault::DocumentInParts { place })
        .with_help("collect the parts of documents with `source::whole_documents` before encoding"))
}

/// Cuts a batch into batches of about [`RUN_BYTES`] of text, each with at least one row.
fn runs(batch: Batch) -> impl Iterator<Item = Batch> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |length: &u32| {
            bytes += u64::from(*length);
            bytes <= RUN_BYTES
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
fn encode_run(
    worker: &mut Worker<'_>,
    batch: Batch,
    unit_name: &impl Fn(usize, usize) -> String,
) -> Result<(TokenBatch, EncodeFacts)> {
    let mut facts = EncodeFacts { documents: to_u64(batch.len()), ..EncodeFacts::default() };
    let text_bytes: usize = batch.documents.lengths().map(to_usize).sum();
    let mut draft = worker.draft(worker.room(text_bytes));
    let (mut text_lengths, mut nulls) = (Vec::with_capacity(batch.len()), Vec::new());
    let specials = worker.specials();
    for (row, document) in (batch.first_row..).zip(batch.iter()) {
        match document {
            Some(text) => {
                let in_row = |wrong: Error| wrong.at(row_name(unit_name, &batch, row));
                worker
                    .document(text, &mut draft)
                    .and_then(|()| check_tokens(worker, text, &draft))
                    .map_err(in_row)?;
                facts.text_bytes += to_u64(text.len());
                facts.empty_documents += u64::from(text.is_empty());
            }
            None => {
                nulls.resize(batch.len(), false);
                nulls[text_lengths.len()] = true;
                facts.null_documents += 1;
                worker.end(&mut draft);
            }
        }
        text_lengths.push(document.map_or(0, |text| to_u64(text.len())));
    }
    let (mut ids, ends) = worker.finish(draft);
    worker.settle(&mut ids, text_bytes);
    facts.tokens = to_u64(ids.len());
    facts.specials = worker.specials() - specials;
    let Batch { source, unit, first_row, columns, .. } = batch;
    let text_bytes = facts.text_bytes;
    let tokens = TokenBatch { source, unit, first_row, ids, ends, nulls, text_bytes, text_lengths, columns };
    Ok((tokens, facts))
}

/// Checks the number of tokens of a document that is longer than [`RUN_BYTES`]. It is the only document of its
/// batch, so all tokens of `draft` are its own.
fn check_tokens(worker: &Worker<'_>, text: &[u8], draft: &Draft<'_>) -> Result<()> {
    if to_u64(text.len()) <= RUN_BYTES { Ok(()) } else { worker.check_tokens(draft.ids.len()) }
}

/// Names a row in error messages.
fn row_name(unit_name: &impl Fn(usize, usize) -> String, batch: &Batch, row: u64) -> String {
    format!("{}: row {row}", unit_name(batch.source, batch.unit))
}
