use std::mem;
use std::ops::Range;

use arrow_array::Array;

use super::batch::TokenBatch;
use super::batches::EncodeFacts;
use super::encoder::Encoder;
use super::ids::TokenIds;
use super::longest_match::{EncodedPart, Ending, Scratch};
use super::worker::Worker;
use crate::error::Result;
use crate::source::Batch;
use crate::units::{amount, place64};

/// A long document is encoded in stretches of about so many bytes, each on its own as if the text began
/// there. A document of less than two of them stays whole.
pub(super) const STRETCH: usize = 1 << 20;

/// So many bytes before the end of a stretch a certain cut is looked for. Where there is none there hardly is one
/// before, and all of a long text without any would be looked through once more than its worker does.
const REACH: usize = 64 << 10;

/// What a thread is given at a time.
pub(super) enum Work {
    /// Documents to be encoded whole.
    Whole(Batch),
    /// A part of the only document of a batch.
    Stretch(Stretch),
}

/// A part of the only document of a batch.
pub(super) struct Stretch {
    batch: Batch,
    range: Range<usize>,
}

/// What a stretch was encoded to.
pub(super) enum Stretched {
    /// Between certain cuts.
    Ids(TokenIds),
    /// As if the text began where it does; the end may be past its own.
    Part(EncodedPart),
}

impl Stretch {
    /// Encodes it.
    pub(super) fn encode(&self, worker: &mut Worker<'_>) -> Result<Stretched> {
        worker.stretch(self.text(), self.range.clone())
    }

    /// The batch of the document, and its row in it.
    pub(super) fn document(&self) -> (&Batch, u64) {
        (&self.batch, self.batch.first_row)
    }

    fn text(&self) -> &[u8] {
        self.batch.documents.value(0)
    }
}

/// Whether a text is worth cutting up, and can be: none that normalizing changes, or that has added tokens that are looked
/// for, or bytes that have no token.
pub(super) fn can_be_cut(encoder: &Encoder, text: &[u8], stretch: usize) -> bool {
    let plain = || encoder.preparation.as_ref().is_none_or(|preparation| preparation.leaves(text));
    let independent = || encoder.splitter.is_some() || encoder.matches_for(text.len()).is_some();
    let complete = || encoder.missing.as_ref().is_none_or(|missing| missing.first_in(text).is_none());
    text.len() >= 2 * stretch && plain() && complete() && independent()
}

/// The stretch of a text that begins at a place, if the text does not end there. Where there is a pattern it ends
/// where that certainly cuts.
pub(super) fn next(encoder: &Encoder, text: &[u8], start: usize, stretch: usize) -> Option<Range<usize>> {
    let rest = &text[start..];
    let length = match encoder.splitter.as_deref() {
        Some(splitter) => {
            let mut ends = (stretch..rest.len()).step_by(stretch);
            let cut = |end: usize| splitter.certain_cut(rest, end + 1 - stretch.min(REACH)..=end);
            ends.find_map(cut).unwrap_or(rest.len())
        }
        None => stretch.min(rest.len()),
    };
    (!rest.is_empty()).then(|| start..start + length)
}

/// The stretches of a batch, if it is one document that can be cut up, or the batch itself.
pub(super) fn cut(encoder: &Encoder, batch: Batch, stretch: usize) -> impl Iterator<Item = Work> {
    let bytes = place64(batch.text_bytes());
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

/// Joins the stretches of texts, which come in order.
pub(super) struct Joiner<'e> {
    encoder: &'e Encoder,
    scratch: Scratch,
    /// Of the text so far.
    ids: TokenIds,
    ending: Ending,
}

impl<'e> Joiner<'e> {
    pub(super) fn new(encoder: &'e Encoder) -> Joiner<'e> {
        let ids = encoder.config.bos.into_iter().collect();
        Joiner { encoder, scratch: Scratch::default(), ids, ending: Ending::new() }
    }

    /// Joins the next stretch of a document; gives the document when it was the last one.
    pub(super) fn join(&mut self, stretch: &Stretch, next: Stretched) -> Option<(TokenBatch, EncodeFacts)> {
        self.push(stretch.text(), stretch.range.start, next);
        (stretch.range.end == stretch.text().len()).then(|| self.document(stretch))
    }

    /// How many tokens the text has so far.
    pub(super) fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// Joins what comes next of a text, from a place on.
    pub(super) fn push(&mut self, text: &[u8], start: usize, next: Stretched) {
        match next {
            Stretched::Ids(next) => self.ids.join(next),
            Stretched::Part(part) => {
                let matches = self.encoder.matches().expect("parts are made of longest matches");
                self.ending.join(&mut self.ids, (matches, &mut self.scratch), (text, start), part);
            }
        }
    }

    /// Ends a text; gives its ids, and is ready for another.
    pub(super) fn end(&mut self) -> TokenIds {
        let next = Joiner::new(self.encoder);
        let mut ids = mem::replace(self, next).ids;
        self.encoder.config.eos.into_iter().for_each(|eos| ids.push(eos));
        ids
    }

    fn document(&mut self, stretch: &Stretch) -> (TokenBatch, EncodeFacts) {
        let ids = self.end();
        let text_bytes = amount(stretch.text().len());
        let facts =
            EncodeFacts { documents: 1, text_bytes, tokens: amount(ids.len()), ..EncodeFacts::default() };
        let Batch { source, unit, first_row, ref columns, .. } = stretch.batch;
        let (ends, nulls) = (vec![ids.len()], Vec::new());
        let (text_lengths, columns) = (vec![text_bytes], columns.clone());
        (TokenBatch { source, unit, first_row, ids, ends, nulls, text_bytes, text_lengths, columns }, facts)
    }
}
