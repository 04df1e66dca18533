//! Chunks of long documents: cut, encoded by several threads, and stitched together again.

use std::mem;
use std::ops::Range;

use arrow_array::Array;

use super::batch::TokenBatch;
use super::batches::EncodeFacts;
use super::encoder::Encoder;
use super::ids::TokenIds;
use super::longest_match::{EncodedPart, Ending, Scratch};
use super::worker::Worker;
use crate::base::int::{to_u64, u64_to_usize};
use crate::error::Result;
use crate::source::Batch;

/// Bytes per chunk of a long document (1 MiB). Each chunk is encoded as if the text began there. A document of
/// less than two chunks stays whole.
pub(super) const STRETCH: usize = 1 << 20;

/// Bytes before the end of a chunk in which a safe split point is searched for. If these have none, earlier bytes
/// hardly have one, and searching all of a long text without any would read it once more than encoding does.
const REACH: usize = 64 << 10;

/// A work item of one thread.
pub(super) enum Work {
    /// Documents to encode whole.
    Whole(Batch),
    /// A chunk of the only document of a batch.
    Stretch(Stretch),
}

/// A chunk of the only document of a batch.
pub(super) struct Stretch {
    batch: Batch,
    range: Range<usize>,
}

/// The result of encoding a chunk.
pub(super) enum Stretched {
    /// The ids of a chunk between two safe split points.
    Ids(TokenIds),
    /// The tokens of a chunk, encoded as if the text began there. The last one may end after the chunk.
    Part(EncodedPart),
}

impl Stretch {
    /// Encodes this chunk.
    ///
    /// # Errors
    /// Those of [`Worker::stretch`].
    pub(super) fn encode(&self, worker: &mut Worker<'_>) -> Result<Stretched> {
        worker.stretch(self.text(), self.range.clone())
    }

    /// The batch of the document, and the document's row within its unit.
    pub(super) fn document(&self) -> (&Batch, u64) {
        (&self.batch, self.batch.first_row)
    }

    /// The whole document.
    fn text(&self) -> &[u8] {
        self.batch.documents.value(0)
    }
}

/// Whether a text has at least two chunks and can be cut: normalizing does not change it, no added token occurs
/// in it, no byte lacks a token, and chunks can be encoded independently.
pub(super) fn can_be_cut(encoder: &Encoder, text: &[u8], stretch: usize) -> bool {
    let plain = || encoder.preparation.as_ref().is_none_or(|preparation| preparation.leaves(text));
    let independent = || encoder.splitter.is_some() || encoder.matches_for(text.len()).is_some();
    let complete = || encoder.missing.as_ref().is_none_or(|missing| missing.first_in(text).is_none());
    text.len() >= 2 * stretch && plain() && complete() && independent()
}

/// The chunk that begins at `start`; `None` if the text ends there. With a split pattern, the chunk ends at a
/// safe split point.
pub(super) fn next(encoder: &Encoder, text: &[u8], start: usize, stretch: usize) -> Option<Range<usize>> {
    let rest = &text[start..];
    let length = match encoder.splitter.as_deref() {
        Some(splitter) => {
            let mut ends = (stretch..rest.len()).step_by(stretch);
            let cut = |end: usize| splitter.safe_split_point(rest, end + 1 - stretch.min(REACH)..=end);
            ends.find_map(cut).unwrap_or(rest.len())
        }
        None => stretch.min(rest.len()),
    };
    (!rest.is_empty()).then(|| start..start + length)
}

/// The chunks of a batch that is one document which can be cut, or else the batch itself.
pub(super) fn cut(encoder: &Encoder, batch: Batch, stretch: usize) -> impl Iterator<Item = Work> {
    let bytes = u64_to_usize(batch.text_bytes());
    let document = (batch.len() == 1 && !batch.documents.is_null(0)).then(|| batch.documents.value(0));
    let possible = document.is_some_and(|text| can_be_cut(encoder, text, stretch));
    let whole = (!possible).then(|| Work::Whole(batch.clone()));
    let mut start = if possible { 0 } else { bytes };
    let stretches = std::iter::from_fn(move || {
        if start == bytes {
            return None;
        }
        let range = next(encoder, batch.documents.value(0), start, stretch)?;
        start = range.end;
        Some(Work::Stretch(Stretch { batch: batch.clone(), range }))
    });
    whole.into_iter().chain(stretches)
}

/// Stitches the encoded chunks of texts, which arrive in order.
pub(super) struct Joiner<'e> {
    encoder: &'e Encoder,
    scratch: Scratch,
    /// The ids of the text so far.
    ids: TokenIds,
    ending: Ending,
}

impl<'e> Joiner<'e> {
    /// A joiner at the start of a text, which begins with BOS if configured.
    pub(super) fn new(encoder: &'e Encoder) -> Joiner<'e> {
        let ids = encoder.config.bos.into_iter().collect();
        Joiner { encoder, scratch: Scratch::default(), ids, ending: Ending::new() }
    }

    /// Appends the next chunk of a document. Returns the encoded document after its last chunk.
    pub(super) fn join(&mut self, stretch: &Stretch, next: Stretched) -> Option<(TokenBatch, EncodeFacts)> {
        self.push(stretch.text(), stretch.range.start, next);
        (stretch.range.end == stretch.text().len()).then(|| self.document(stretch))
    }

    /// Number of tokens of the text so far.
    pub(super) fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// Appends the next chunk of a text, which begins at `start`.
    pub(super) fn push(&mut self, text: &[u8], start: usize, next: Stretched) {
        match next {
            Stretched::Ids(next) => self.ids.join(next),
            Stretched::Part(part) => {
                let matches = self.encoder.matches().expect("parts are made of longest matches");
                self.ending.join(&mut self.ids, (matches, &mut self.scratch), (text, start), part);
            }
        }
    }

    /// Ends a text and returns its ids. The next chunk then begins another text.
    pub(super) fn end(&mut self) -> TokenIds {
        let next = Joiner::new(self.encoder);
        let mut ids = mem::replace(self, next).ids;
        self.encoder.config.eos.into_iter().for_each(|eos| ids.push(eos));
        ids
    }

    /// Ends the document of a chunk, and returns it as a batch with its facts.
    fn document(&mut self, stretch: &Stretch) -> (TokenBatch, EncodeFacts) {
        let ids = self.end();
        let text_bytes = to_u64(stretch.text().len());
        let facts =
            EncodeFacts { documents: 1, text_bytes, tokens: to_u64(ids.len()), ..EncodeFacts::default() };
        let Batch { source, unit, first_row, ref columns, .. } = stretch.batch;
        let (ends, nulls) = (vec![ids.len()], Vec::new());
        let (text_lengths, columns) = (vec![text_bytes], columns.clone());
        (TokenBatch { source, unit, first_row, ids, ends, nulls, text_bytes, text_lengths, columns }, facts)
    }
}
