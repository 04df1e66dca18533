//! Counts whole documents, for training without a split.

use std::ops::Range;

use super::facts::FactFinder;
use super::fault::Fault;
use super::{Boundary, CountConfig, Counted, Prepared, PretokenCounts};
use crate::base::hash_index::HashIndex;
use crate::base::int::{ByteCount, Count, to_u64};
use crate::base::seeded_hash::Hashing;
use crate::error::Result;
use crate::observer::{Observer, Stage};
use crate::source::{Batch, Documents};
use crate::split::{Segment, SpecialFinder};

/// Counts whole documents, for training without a split: returns each distinct document once, with its count.
///
/// Special tokens are removed, and the texts between them are counted separately. With [`Boundary::Join`] all
/// documents of a source are one.
///
/// Calls `observer.advanced` with bytes of text, but neither `started` nor `finished`.
///
/// **Memory:** the bytes of the distinct documents, and up to twice that while the buffer grows.
///
/// # Errors
/// Reading fails, a count exceeds 2⁶⁴ − 1, the documents take more memory than the limit or the system allows
/// ([`ErrorKind::Memory`](crate::ErrorKind::Memory)), or the observer stops the run.
///
/// ```
/// use tokenmill::count::{CountConfig, gather_documents};
/// use tokenmill::observer::Silent;
/// use tokenmill::source;
///
/// let documents = source::texts(["to be", "or not", "to be"]);
/// let gathered = gather_documents(documents, &CountConfig::default(), &Silent)?;
/// let counts: Vec<_> = gathered.pretokens.iter().map(|(text, count)| (text, count.get())).collect();
/// assert_eq!(counts, [(&b"to be"[..], 2), (b"or not", 1)]);
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn gather_documents(
    documents: Documents<'_>,
    config: &CountConfig,
    observer: &dyn Observer,
) -> Result<Counted> {
    let mut gatherer = Gatherer::new(config);
    for batch in documents {
        observer.checkpoint()?;
        let batch = batch?;
        gatherer.batch(&batch)?;
        observer.advanced(Stage::Count, batch.text_bytes());
    }
    gatherer.end_text()?;
    let Gatherer { pretokens, mut facts, .. } = gatherer;
    facts.saw_bytes(pretokens.all_bytes());
    Ok(Counted { pretokens, facts: facts.finish() })
}

/// The distinct texts so far. The text that is being read follows them in the same buffer.
struct Gatherer<'a> {
    config: &'a CountConfig,
    pretokens: PretokenCounts,
    /// The start of the text that is being read, in the bytes of `pretokens`.
    start: usize,
    source: usize,
    index: HashIndex,
    facts: FactFinder,
}

impl<'a> Gatherer<'a> {
    fn new(config: &'a CountConfig) -> Gatherer<'a> {
        Gatherer {
            config,
            pretokens: PretokenCounts::new(),
            start: 0,
            source: 0,
            index: HashIndex::default(),
            facts: FactFinder::default(),
        }
    }

    /// Reads the documents of a batch.
    fn batch(&mut self, batch: &Batch) -> Result<()> {
        self.facts.saw_batch(batch);
        let joined = self.config.boundary == Boundary::Join;
        if batch.source != self.source {
            self.end_text()?;
            self.source = batch.source;
        }
        for (row, document) in batch.iter().enumerate() {
            if !joined && (row > 0 || !batch.continued) {
                self.end_text()?;
            }
            if let Some(text) = document {
                self.facts.saw_text(text);
                self.check_room(text.len())?;
                self.pretokens.bytes.extend_from_slice(text);
            }
        }
        Ok(())
    }

    /// Reserves memory for more text. Text beyond the limit is an error here, because training could not use it
    /// either.
    fn check_room(&mut self, more: usize) -> Result<()> {
        let bytes = &mut self.pretokens.bytes;
        let length = bytes.len().saturating_add(more);
        match &self.config.limit {
            Some(limit) if to_u64(length) > limit.tables.0 => {
                Err(Fault::TooMuchText { limit: limit.tables }.into())
            }
            _ if length <= bytes.capacity() => Ok(()),
            _ => {
                Ok(bytes.try_reserve(more).map_err(|_| Fault::NoRoom { bytes: ByteCount(to_u64(length)) })?)
            }
        }
    }

    /// Ends the text that was read, and counts its segments.
    fn end_text(&mut self) -> Result<()> {
        let config = self.config;
        if let Some(prepare) = config.prepare.as_deref() {
            let text = self.pretokens.bytes.split_off(self.start);
            return prepare.each(&text, &mut |part| {
                match part {
                    Prepared::Text(part) => {
                        self.pretokens.bytes.extend_from_slice(part);
                        let end = self.pretokens.bytes.len();
                        self.start = self.keep(self.start..end)?;
                        self.pretokens.bytes.truncate(self.start);
                    }
                    Prepared::Token(token) => self.facts.saw_special(token),
                }
                Ok(())
            });
        }
        let (start, mut kept) = (self.start, self.start);
        for range in texts(&self.config.specials, &self.pretokens.bytes[start..], &mut self.facts) {
            self.pretokens.bytes.copy_within(start + range.start..start + range.end, kept);
            kept = self.keep(kept..kept + range.len())?;
        }
        self.pretokens.bytes.truncate(kept);
        self.start = kept;
        Ok(())
    }

    /// Counts the text at `range`, directly after the distinct texts. Returns the start for the next text: the end of
    /// the range if the text is new, else its start.
    fn keep(&mut self, range: Range<usize>) -> Result<usize> {
        let weight = self.config.weight(self.source);
        if weight == 0 {
            return Ok(range.start);
        }
        let pretoken = &self.pretokens.bytes[range.clone()];
        let hash = Hashing::of_process().bytes(pretoken);
        if let Some(number) = self.index.find(hash, |number| self.pretokens.pretoken(number - 1) == pretoken)
        {
            let count = &mut self.pretokens.counts[number - 1];
            *count = count
                .checked_add(Count::new(weight))
                .ok_or_else(|| Fault::Overflow { pretoken: pretoken.to_vec() })?;
            return Ok(range.start);
        }
        self.pretokens.ends.push(range.end);
        self.pretokens.counts.push(Count::new(weight));
        self.index.insert(hash, self.pretokens.len()).map_err(Fault::from)?;
        Ok(range.end)
    }
}

/// Returns the ranges of the text between special tokens.
fn texts(specials: &SpecialFinder, text: &[u8], facts: &mut FactFinder) -> Vec<Range<usize>> {
    let mut texts = Vec::new();
    for segment in specials.segments(text) {
        match segment {
            Segment::Text(range) => texts.push(range),
            Segment::Special(_, range) => facts.saw_special(&text[range]),
        }
    }
    texts
}
