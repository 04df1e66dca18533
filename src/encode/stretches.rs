use std::ops::Range;

use super::batch::TokenBatch;
use super::batches::EncodeFacts;
use super::encoder::Encoder;
use super::ids::TokenIds;
use super::longest_match::{Path, Scratch};
use super::worker::Worker;
use crate::error::Result;
use crate::source::Batch;
use crate::units::{amount, place64};

/// A long document is encoded in stretches of about so many bytes, each on its own as if the text began
/// there. A document of less than two of them stays whole.
pub(super) const STRETCH: usize = 4 << 20;

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
    Path(Path),
}

impl Stretch {
    /// Encodes it; BOS comes before the first.
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

/// The stretches of a batch, if it is one document that can be cut up, or the batch itself. Where there is
/// a pattern they end where it certainly cuts.
pub(super) fn cut(encoder: &Encoder, batch: Batch, stretch: usize) -> impl Iterator<Item = Work> {
    let bytes = place64(batch.text_bytes());
    let long = batch.len() == 1 && bytes >= 2 * stretch;
    let independent = encoder.splitter.is_some() || encoder.matches.is_some();
    let possible = long && independent && encoder.preparation.is_none();
    let whole = (!possible).then(|| Work::Whole(batch.clone()));
    let (mut start, end) = (0, if possible { bytes } else { 0 });
    let stretches = std::iter::from_fn(move || {
        if start == end {
            return None;
        }
        let rest = &batch.documents.value(0)[start..];
        let length = match encoder.splitter.as_deref() {
            Some(splitter) => splitter.first_part(rest, stretch),
            None => stretch.min(rest.len()),
        };
        let range = start..start + length;
        start = range.end;
        Some(Work::Stretch(Stretch { batch: batch.clone(), range }))
    });
    whole.into_iter().chain(stretches)
}

/// Joins the stretches of documents, which come in order.
pub(super) struct Joiner<'e> {
    encoder: &'e Encoder,
    scratch: Scratch,
    joined: Option<Stretched>,
}

impl<'e> Joiner<'e> {
    pub(super) fn new(encoder: &'e Encoder) -> Joiner<'e> {
        Joiner { encoder, scratch: Scratch::default(), joined: None }
    }

    /// Joins the next stretch; gives the document when it was the last one.
    pub(super) fn join(&mut self, stretch: &Stretch, next: Stretched) -> Option<(TokenBatch, EncodeFacts)> {
        let text = stretch.text();
        let joined = match (self.joined.take(), next) {
            (Some(Stretched::Ids(mut ids)), Stretched::Ids(next)) => {
                ids.extend(&next, 0..next.len());
                Stretched::Ids(ids)
            }
            (Some(Stretched::Path(mut path)), Stretched::Path(next)) => {
                let matches = self.encoder.matches.as_ref().expect("paths are made of longest matches");
                self.scratch.join(matches, text, &mut path, &next, stretch.range.start);
                Stretched::Path(path)
            }
            (None, first) => first,
            _ => unreachable!("one encoder makes one kind"),
        };
        if stretch.range.end == text.len() {
            return Some(self.document(stretch, joined));
        }
        self.joined = Some(joined);
        None
    }

    fn document(&self, stretch: &Stretch, joined: Stretched) -> (TokenBatch, EncodeFacts) {
        let mut ids = match joined {
            Stretched::Ids(ids) => ids,
            Stretched::Path(path) => TokenIds::Wide(path.ids),
        };
        self.encoder.config.eos.into_iter().for_each(|eos| ids.push(eos));
        let text_bytes = amount(stretch.text().len());
        let facts =
            EncodeFacts { documents: 1, text_bytes, tokens: amount(ids.len()), ..EncodeFacts::default() };
        let Batch { source, unit, first_row, ref columns, .. } = stretch.batch;
        let (ends, nulls) = (vec![ids.len()], Vec::new());
        let (text_lengths, columns) = (vec![text_bytes], columns.clone());
        (TokenBatch { source, unit, first_row, ids, ends, nulls, text_bytes, text_lengths, columns }, facts)
    }
}
