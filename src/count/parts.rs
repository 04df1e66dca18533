use std::mem;
use std::ops::Range;

use super::facts::FactFinder;
use super::{Boundary, CountConfig};
use crate::error::Result;
use crate::source::{Batch, Documents};
use crate::split::{Segment, SpecialFinder, Splitter};
use crate::units::amount;

/// Texts that can each be split on its own, with the same result as splitting whole documents.
pub(super) struct Part {
    /// Bytes of text in the corpus before this part.
    pub(super) place: u64,
    /// What its counts are multiplied by.
    pub(super) weight: u64,
    /// The end of a text that began in an earlier part; empty if there is none.
    head: Vec<u8>,
    /// Whole documents: rows of a batch.
    whole: Option<(Batch, Range<usize>)>,
    /// The beginning of a text that goes on in a later part; empty if there is none.
    tail: Vec<u8>,
}

impl Part {
    /// The texts in order. Some may be empty.
    pub(super) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let whole = self.whole.iter().flat_map(|(batch, rows)| {
            rows.clone()
                .filter(|row| !arrow_array::Array::is_null(&batch.documents, *row))
                .map(|row| batch.documents.value(row))
        });
        std::iter::once(&self.head[..]).chain(whole).chain(std::iter::once(&self.tail[..]))
    }
}

/// Turns batches, in which documents can go on from one to the next, into [`Part`]s, by cutting
/// documents where the pattern certainly does; what follows the last such place is carried on.
pub(super) struct Parts<'a> {
    documents: Documents<'a>,
    /// Read, but a text of another source must be ended first.
    waiting: Option<Batch>,
    splitter: &'a dyn Splitter,
    config: &'a CountConfig,
    carry: Carry,
    source: usize,
    place: u64,
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
            splitter,
            config,
            carry: Carry::default(),
            source: 0,
            place: 0,
            facts: FactFinder::default(),
        }
    }

    /// Ends the stream: nothing more is read.
    pub(super) fn stop(&mut self) {
        self.documents = Box::new(std::iter::empty());
        (self.waiting, self.carry) = (None, Carry::default());
    }

    fn part_of(&mut self, batch: Batch) -> Part {
        self.source = batch.source;
        match self.config.boundary {
            Boundary::Document => self.part_of_documents(batch),
            Boundary::Join => {
                for text in batch.iter().flatten() {
                    self.carry.text.extend_from_slice(text);
                }
                let tail = self.carry.cut(self.splitter, &self.config.specials);
                self.part(Vec::new(), None, tail)
            }
        }
    }

    fn part_of_documents(&mut self, batch: Batch) -> Part {
        let mut rows = 0..batch.len();
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        let runs_through = batch.continued && batch.open && rows.len() == 1;
        if !batch.continued {
            head = self.carry.end();
        } else if let Some(row) = rows.next() {
            self.carry.extend(&batch, row);
            if !runs_through {
                head = self.carry.end();
            }
        }
        if batch.open {
            if let Some(row) = rows.next_back() {
                self.carry.extend(&batch, row);
            }
            tail = self.carry.cut(self.splitter, &self.config.specials);
        }
        self.part(head, Some((batch, rows)), tail)
    }

    fn part(&mut self, head: Vec<u8>, whole: Option<(Batch, Range<usize>)>, tail: Vec<u8>) -> Part {
        let part = Part { place: self.place, weight: self.config.weight(self.source), head, whole, tail };
        self.place += part.texts().map(|text| amount(text.len())).sum::<u64>();
        part
    }

    /// Whether the carried text has to be ended before a batch of this source.
    fn ends_text(&self, source: usize) -> bool {
        source != self.source && !self.carry.text.is_empty()
    }
}

impl Iterator for Parts<'_> {
    type Item = Result<Part>;

    fn next(&mut self) -> Option<Result<Part>> {
        let batch = match self.waiting.take() {
            Some(batch) => Some(batch),
            None => match self.documents.next().transpose() {
                Ok(batch) => {
                    batch.iter().for_each(|batch| self.facts.saw_batch(batch));
                    batch
                }
                Err(error) => return Some(Err(error)),
            },
        };
        match batch {
            Some(batch) if !self.ends_text(batch.source) => Some(Ok(self.part_of(batch))),
            rest => {
                self.waiting = rest;
                let head = self.carry.end();
                (!head.is_empty()).then(|| Ok(self.part(head, None, Vec::new())))
            }
        }
    }
}

/// The part of a text that has been read and not yet been given on.
#[derive(Default)]
struct Carry {
    text: Vec<u8>,
    /// Up to here there is no cut.
    searched: usize,
}

impl Carry {
    fn extend(&mut self, batch: &Batch, row: usize) {
        if !arrow_array::Array::is_null(&batch.documents, row) {
            self.text.extend_from_slice(batch.documents.value(row));
        }
    }

    /// Gives all of it.
    fn end(&mut self) -> Vec<u8> {
        self.searched = 0;
        mem::take(&mut self.text)
    }

    /// Gives what stands before the last certain cut, and keeps the rest.
    fn cut(&mut self, splitter: &dyn Splitter, specials: &SpecialFinder) -> Vec<u8> {
        // A special token that begins before this place ends in the text that is here.
        let limit = self.text.len().saturating_sub(specials.longest());
        let Some(cut) = self.find_cut(limit, splitter, specials) else {
            self.searched = limit;
            return Vec::new();
        };
        self.searched = limit - cut;
        let rest = self.text.split_off(cut);
        mem::replace(&mut self.text, rest)
    }

    fn find_cut(&self, limit: usize, splitter: &dyn Splitter, specials: &SpecialFinder) -> Option<usize> {
        // The byte before is needed to see that there is a cut.
        let from = self.searched.saturating_sub(1);
        let before = |limit: usize| {
            let limit = limit.checked_sub(from)?;
            Some(from + splitter.certain_cut(&self.text[from..], limit)?)
        };
        let mut cut = before(limit)?;
        if specials.longest() == 0 {
            return Some(cut);
        }
        let found: Vec<Range<usize>> = specials
            .segments(&self.text)
            .filter_map(|segment| match segment {
                Segment::Special(_, range) => Some(range),
                Segment::Text(_) => None,
            })
            .collect();
        for special in found.iter().rev() {
            if special.start < cut && cut < special.end {
                cut = before(special.start)?;
            }
        }
        Some(cut)
    }
}
