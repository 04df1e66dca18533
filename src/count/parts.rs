//! Divides the stream of batches into chunks that threads can count independently.

use std::ops::Range;

use super::carry::Carry;
use super::facts::FactFinder;
use super::fault::TooLongForMemory;
use super::{Boundary, CountConfig};
use crate::base::int::to_u64;
use crate::error::Result;
use crate::source::{Batch, Documents};
use crate::split::Splitter;

/// A chunk of the corpus: texts that can each be split on their own, with the same result as splitting whole
/// documents.
pub(super) struct Part {
    /// Bytes of text in the corpus before this chunk.
    pub(super) place: u64,
    /// The number of its source.
    pub(super) source: usize,
    /// The factor of its counts.
    pub(super) weight: u64,
    /// The continuation of a text that started in an earlier chunk, or a whole text that was carried; may be empty.
    head: Vec<u8>,
    /// The unit and the row in which `head` starts.
    begun: (usize, u64),
    /// The other texts, as rows of a batch.
    rows: Option<Rows>,
}

/// Rows of a batch that are texts. The first row counts from offset `from` on, the last one up to offset `to`.
struct Rows {
    batch: Batch,
    texts: Range<usize>,
    from: usize,
    to: usize,
    /// The rows that are whole documents.
    whole: Range<usize>,
}

/// Returns the text of a document; the text of a null document is empty.
fn text(batch: &Batch, row: usize) -> &[u8] {
    let null = arrow_array::Array::is_null(&batch.documents, row);
    if null { &[] } else { batch.documents.value(row) }
}

impl Rows {
    /// Returns the part of a row that belongs to this chunk.
    fn text(&self, row: usize) -> &[u8] {
        let text = text(&self.batch, row);
        let to = if row + 1 == self.texts.end { self.to.min(text.len()) } else { text.len() };
        let from = if row == self.texts.start { self.from } else { 0 };
        &text[from..to]
    }
}

impl Part {
    /// Returns the texts in order, first the head and then the rows. Some may be empty.
    pub(super) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let rows = self.rows.iter().flat_map(|rows| rows.texts.clone().map(|row| rows.text(row)));
        std::iter::once(&self.head[..]).chain(rows)
    }

    /// Returns the unit and the row of a text, by its index in [`texts`](Part::texts).
    pub(super) fn row(&self, number: usize) -> (usize, u64) {
        match (&self.rows, number.checked_sub(1)) {
            (Some(rows), Some(row)) => {
                (rows.batch.unit, rows.batch.first_row + to_u64(rows.texts.start + row))
            }
            _ => self.begun,
        }
    }

    /// Returns the documents that this chunk contains whole; `None` is a null document.
    pub(super) fn whole_documents(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.rows.iter().flat_map(|rows| rows.batch.iter().take(rows.whole.end).skip(rows.whole.start))
    }
}

/// Turns batches into chunks ([`Part`]s). A document can continue from one batch to the next.
///
/// It divides such documents at safe split points. The text after the last safe split point of a batch is carried
/// over to the next chunk. Only the text around the borders of batches is copied, unless it has no safe split points,
/// or documents are joined.
pub(super) struct Parts<'a> {
    /// The remaining batches.
    documents: Documents<'a>,
    /// A batch that was read before the carried text of the previous source was passed on.
    waiting: Option<Batch>,
    config: &'a CountConfig,
    carry: Carry<'a>,
    /// The unit and the row in which the carried text starts.
    begun: (usize, u64),
    /// The source of the carried text.
    source: usize,
    /// Bytes of text in the chunks so far.
    place: u64,
    /// Facts about the documents that are in several chunks.
    pub(super) facts: FactFinder,
}

impl<'a> Parts<'a> {
    pub(super) fn new(
        documents: Documents<'a>,
        splitter: &'a dyn Splitter,
        config: &'a CountConfig,
    ) -> Parts<'a> {
        Parts {
            documents,
            waiting: None,
            config,
            carry: Carry::new(splitter, &config.specials, config.longest_pretoken()),
            begun: (0, 0),
            source: 0,
            place: 0,
            facts: FactFinder::default(),
        }
    }

    /// Ends the stream: nothing more is read.
    pub(super) fn stop(&mut self) {
        self.documents = Box::new(std::iter::empty());
        self.waiting = None;
        self.carry.end();
    }

    /// Makes a chunk of the carried text and a batch, and carries the rest.
    ///
    /// # Errors
    /// The carried text is longer than a pre-token may be.
    fn part_of(&mut self, batch: Batch) -> Result<Part> {
        self.source = batch.source;
        let begun = self.begun;
        if self.carry.is_empty() {
            self.begun = (batch.unit, batch.first_row);
        }
        let whole = self.facts.saw_parts(&batch);
        let (head, texts, from, to) = match self.config.boundary {
            Boundary::Document => self.cut(&batch, batch.continued, batch.open),
            Boundary::Join if batch.len() == 1 => self.cut(&batch, true, true),
            Boundary::Join => {
                (0..batch.len()).for_each(|row| self.carry.extend(text(&batch, row)));
                (self.carry.cut(), 0..0, 0, 0)
            }
        };
        if self.carry.is_too_long() {
            return Err(self.too_long().into());
        }
        if !head.is_empty() && !self.carry.is_empty() {
            self.begun = (batch.unit, batch.first_row + to_u64(batch.len()).saturating_sub(1));
        }
        Ok(Part { begun, ..self.part(head, Some(Rows { batch, texts, from, to, whole })) })
    }

    /// Returns the error for a carried text that takes more memory than it may.
    fn too_long(&self) -> TooLongForMemory {
        let (unit, row) = self.begun;
        TooLongForMemory::of_pretoken(self.source, (unit, row), self.config)
    }

    /// Divides a batch into the texts that can be split now and the rest, which is carried.
    ///
    /// Returns the head, the rows of the texts, the offset from which the first row counts, and the one up to which
    /// the last row counts. `continued` says that the first row continues a text, and `open` that the last row ends
    /// within a text.
    fn cut(&mut self, batch: &Batch, continued: bool, open: bool) -> (Vec<u8>, Range<usize>, usize, usize) {
        let mut texts = 0..batch.len();
        let (mut head, mut from, mut to) = (Vec::new(), 0, usize::MAX);
        if !continued {
            head = self.carry.end();
        } else if !texts.is_empty() {
            match self.carry.join(text(batch, 0)) {
                Some((joined, cut)) => (head, from) = (joined, cut),
                None => {
                    texts.start = 1;
                    if !open || !texts.is_empty() {
                        head = self.carry.end();
                    }
                }
            }
        }
        if open && let Some(last) = texts.clone().next_back() {
            let start = if last == texts.start { from } else { 0 };
            to = start + self.carry.begin(&text(batch, last)[start..]);
        }
        (head, texts, from, to)
    }

    /// Makes a chunk, and advances the position in the corpus.
    fn part(&mut self, head: Vec<u8>, rows: Option<Rows>) -> Part {
        let (place, source) = (self.place, self.source);
        let weight = self.config.weight(source);
        let part = Part { place, source, weight, head, begun: self.begun, rows };
        self.place += part.texts().map(|text| to_u64(text.len())).sum::<u64>();
        part
    }

    /// Returns whether the carried text must be passed on before a batch of this source.
    fn ends_text(&self, source: usize) -> bool {
        source != self.source && !self.carry.is_empty()
    }
}

impl Iterator for Parts<'_> {
    type Item = Result<Part>;

    fn next(&mut self) -> Option<Result<Part>> {
        let batch = match self.waiting.take() {
            Some(batch) => Some(batch),
            None => match self.documents.next().transpose() {
                Ok(batch) => batch,
                Err(error) => return Some(Err(error)),
            },
        };
        match batch {
            Some(batch) if !self.ends_text(batch.source) => Some(self.part_of(batch)),
            rest => {
                self.waiting = rest;
                let head = self.carry.end();
                (!head.is_empty()).then(|| Ok(self.part(head, None)))
            }
        }
    }
}
