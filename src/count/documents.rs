//! Reads documents: divides them into chunks that threads can count independently, or counts them whole.

use std::mem;
use std::ops::Range;

use super::facts::FactCollector;
use super::pretokens::DistinctPretokens;
use super::{Boundary, CorpusCounts, CountConfig, Prepared, PretokenExceedsLimit, USE_A_PART};
use crate::base::int::{ByteCount, Count, to_u64};
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Stage};
use crate::source::{Batch, Documents};
use crate::split::{Segment, SpecialFinder, Splitter};

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
/// use tokenmill::count::{CountConfig, count_whole_documents};
/// use tokenmill::observer::Silent;
/// use tokenmill::source;
///
/// let documents = source::texts(["to be", "or not", "to be"]);
/// let gathered = count_whole_documents(documents, &CountConfig::default(), &Silent)?;
/// let counts: Vec<_> = gathered.pretokens.iter().map(|(text, count)| (text, count.get())).collect();
/// assert_eq!(counts, [(&b"to be"[..], 2), (b"or not", 1)]);
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn count_whole_documents(
    documents: Documents<'_>,
    config: &CountConfig,
    observer: &dyn Observer,
) -> Result<CorpusCounts> {
    let mut counter = DocumentCounter::new(config);
    for batch in documents {
        observer.checkpoint()?;
        let batch = batch?;
        counter.batch(&batch)?;
        observer.advanced(Stage::Count, batch.text_bytes());
    }
    counter.end_text()?;
    let DocumentCounter { distinct: DistinctPretokens { pretokens, .. }, mut facts, mut open, .. } = counter;
    open.end(&mut facts);
    facts.record_bytes(&pretokens.bytes);
    Ok(CorpusCounts { pretokens, facts: facts.finish() })
}

/// The distinct texts so far. The text that is being read follows them in the same buffer.
struct DocumentCounter<'a> {
    /// The boundary, weights, special tokens, preparation and memory limit.
    config: &'a CountConfig,
    /// The distinct texts, and behind them in `bytes` the text that is being read.
    distinct: DistinctPretokens,
    /// The start of the text that is being read, in the bytes of `distinct`.
    start: usize,
    /// The source of the text that is being read.
    source: usize,
    /// The statistics so far.
    facts: FactCollector,
    /// The document that may continue in the next batch, for the statistics.
    open: OpenDocument,
}

impl<'a> DocumentCounter<'a> {
    /// Creates a counter that has read nothing.
    fn new(config: &'a CountConfig) -> DocumentCounter<'a> {
        DocumentCounter {
            config,
            distinct: DistinctPretokens::default(),
            start: 0,
            source: 0,
            facts: FactCollector::default(),
            open: OpenDocument::default(),
        }
    }

    /// Reads the documents of a batch.
    fn batch(&mut self, batch: &Batch) -> Result<()> {
        let whole = self.open.whole_rows(batch, &mut self.facts);
        let documents = batch.iter().take(whole.end).skip(whole.start);
        documents.for_each(|document| self.facts.record_document(batch.source, document));
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
                self.facts.record_text(text);
                self.reserve(text.len())?;
                self.distinct.pretokens.bytes.extend_from_slice(text);
            }
        }
        Ok(())
    }

    /// Reserves memory for more text. Text beyond the limit is an error here, because training could not use it
    /// either.
    ///
    /// # Errors
    /// The text of all distinct documents exceeds the limit, or the system gives no memory.
    fn reserve(&mut self, more: usize) -> Result<()> {
        let bytes = &mut self.distinct.pretokens.bytes;
        let length = bytes.len().saturating_add(more);
        match &self.config.limit {
            Some(limit) if to_u64(length) > limit.table_bytes.0 => {
                let problem = format!(
                    "the distinct documents need more than {}, their share of the memory limit",
                    limit.table_bytes
                );
                Err(Error::message(ErrorKind::Memory, problem).with_help(
                    "raise --memory, or learn from a part of the corpus (`take`, `every`, `max_bytes`)",
                ))
            }
            _ if length <= bytes.capacity() => Ok(()),
            _ => bytes.try_reserve(more).map_err(|_| {
                let bytes = ByteCount(to_u64(length));
                let problem = format!("the system has no memory for {bytes} of distinct documents");
                Error::message(ErrorKind::Memory, problem).with_help(USE_A_PART)
            }),
        }
    }

    /// Ends the text that was read, and counts its segments.
    fn end_text(&mut self) -> Result<()> {
        let config = self.config;
        if let Some(prepare) = config.prepare.as_deref() {
            let text = self.distinct.pretokens.bytes.split_off(self.start);
            return prepare.each(&text, &mut |chunk| {
                match chunk {
                    Prepared::Text(chunk) => {
                        self.distinct.pretokens.bytes.extend_from_slice(chunk);
                        let end = self.distinct.pretokens.bytes.len();
                        self.start = self.keep(self.start..end)?;
                        self.distinct.pretokens.bytes.truncate(self.start);
                    }
                    Prepared::Token(token) => self.facts.record_special(token),
                }
                Ok(())
            });
        }
        let (start, mut kept) = (self.start, self.start);
        for range in texts(&self.config.specials, &self.distinct.pretokens.bytes[start..], &mut self.facts) {
            self.distinct.pretokens.bytes.copy_within(start + range.start..start + range.end, kept);
            kept = self.keep(kept..kept + range.len())?;
        }
        self.distinct.pretokens.bytes.truncate(kept);
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
        let weight = Count::new(weight);
        match self.distinct.find(&self.distinct.pretokens.bytes[range.clone()]) {
            Ok(index) => {
                self.distinct.add_at(index, weight)?;
                return Ok(range.start);
            }
            Err(hash) => self.distinct.push_in_place(hash, range.end, weight)?,
        }
        Ok(range.end)
    }
}

/// The document that continues in the next batch, if there is one: its source, and its bytes so far.
#[derive(Debug, Default)]
struct OpenDocument(Option<(usize, u64)>);

impl OpenDocument {
    /// Measures the documents that a batch contains in part. Returns the rows with whole documents.
    fn whole_rows(&mut self, batch: &Batch, facts: &mut FactCollector) -> Range<usize> {
        let mut whole = 0..batch.len();
        if !batch.continued {
            self.end(facts);
        } else if let Some(first) = whole.next() {
            self.extend(batch, first);
            if !batch.open || !whole.is_empty() {
                self.end(facts);
            }
        }
        if batch.open
            && let Some(last) = whole.next_back()
        {
            self.extend(batch, last);
        }
        whole
    }

    /// Adds the bytes of a row.
    fn extend(&mut self, batch: &Batch, row: usize) {
        let (_, length) = self.0.get_or_insert((batch.source, 0));
        *length += to_u64(batch.documents.value(row).len());
    }

    /// Records the document, if there is one.
    fn end(&mut self, facts: &mut FactCollector) {
        if let Some((source, length)) = self.0.take() {
            facts.record_length(source, length);
        }
    }
}

/// Returns the ranges of the text between special tokens.
fn texts(specials: &SpecialFinder, text: &[u8], facts: &mut FactCollector) -> Vec<Range<usize>> {
    let mut texts = Vec::new();
    for segment in specials.segments(text) {
        match segment {
            Segment::Text(range) => texts.push(range),
            Segment::Special(_, range) => facts.record_special(&text[range]),
        }
    }
    texts
}

/// A chunk of the corpus: texts that can each be split on their own, with the same result as splitting whole
/// documents.
pub(super) struct CorpusChunk {
    /// Bytes of text in the corpus before this chunk.
    pub(super) position: u64,
    /// The number of its source.
    pub(super) source: usize,
    /// The factor of its counts.
    pub(super) weight: u64,
    /// The continuation of a text that started in an earlier chunk, or a whole text that was held back; may be empty.
    head: Vec<u8>,
    /// The unit and the row in which `head` starts.
    head_start: (usize, u64),
    /// The other texts, as rows of a batch.
    rows: Option<ChunkRows>,
}

/// Rows of a batch that are texts. The first row counts from offset `from` on, the last one up to offset `to`.
struct ChunkRows {
    /// The whole batch, with rows that other chunks have text of.
    batch: Batch,
    /// The rows of the batch that this chunk has a part of.
    texts: Range<usize>,
    /// Offset in the first of these rows at which the chunk starts.
    from: usize,
    /// Offset in the last of these rows before which the chunk ends. It may exceed the length of the row.
    to: usize,
    /// The rows that are whole documents.
    whole: Range<usize>,
}

/// Returns the text of a document; the text of a null document is empty.
fn text(batch: &Batch, row: usize) -> &[u8] {
    let null = arrow::array::Array::is_null(&batch.documents, row);
    if null { &[] } else { batch.documents.value(row) }
}

impl ChunkRows {
    /// Returns the part of a row that belongs to this chunk.
    fn text(&self, row: usize) -> &[u8] {
        let text = text(&self.batch, row);
        let to = if row + 1 == self.texts.end { self.to.min(text.len()) } else { text.len() };
        let from = if row == self.texts.start { self.from } else { 0 };
        &text[from..to]
    }
}

impl CorpusChunk {
    /// Returns the texts in order, first the head and then the rows. Some may be empty.
    pub(super) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let rows = self.rows.iter().flat_map(|rows| rows.texts.clone().map(|row| rows.text(row)));
        std::iter::once(&self.head[..]).chain(rows)
    }

    /// Returns the unit and the row of a text, by its index in [`texts`](CorpusChunk::texts).
    pub(super) fn row(&self, number: usize) -> (usize, u64) {
        match (&self.rows, number.checked_sub(1)) {
            (Some(rows), Some(row)) => {
                (rows.batch.unit, rows.batch.first_row + to_u64(rows.texts.start + row))
            }
            _ => self.head_start,
        }
    }

    /// Returns the documents that this chunk contains whole; `None` is a null document.
    pub(super) fn whole_documents(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.rows.iter().flat_map(|rows| rows.batch.iter().take(rows.whole.end).skip(rows.whole.start))
    }
}

/// Turns batches into chunks ([`CorpusChunk`]s). A document can continue from one batch to the next.
///
/// It divides such documents at safe split points. The text after the last safe split point of a batch is held
/// over to the next chunk. Only the text around the borders of batches is copied, unless it has no safe split points,
/// or documents are joined.
pub(super) struct CorpusChunks<'a> {
    /// The remaining batches.
    documents: Documents<'a>,
    /// A batch that was read before the pending text of the previous source was passed on.
    waiting: Option<Batch>,
    /// The boundary, weights, special tokens and memory limit.
    config: &'a CountConfig,
    /// The text after the last safe split point so far.
    pending: PendingText<'a>,
    /// The unit and the row in which the pending text starts.
    head_start: (usize, u64),
    /// The source of the pending text.
    source: usize,
    /// Bytes of text in the chunks so far.
    position: u64,
    /// Facts about the documents that are in several chunks.
    facts: FactCollector,
    /// The document that may continue in the next batch.
    open: OpenDocument,
}

impl<'a> CorpusChunks<'a> {
    /// Creates the chunks of these documents. Nothing is read yet.
    pub(super) fn new(
        documents: Documents<'a>,
        splitter: &'a dyn Splitter,
        config: &'a CountConfig,
    ) -> CorpusChunks<'a> {
        CorpusChunks {
            documents,
            waiting: None,
            config,
            pending: PendingText::new(splitter, &config.specials, config.longest_pretoken()),
            head_start: (0, 0),
            source: 0,
            position: 0,
            facts: FactCollector::default(),
            open: OpenDocument::default(),
        }
    }

    /// Returns the facts about the documents that are in several chunks.
    pub(super) fn into_facts(mut self) -> FactCollector {
        self.open.end(&mut self.facts);
        self.facts
    }

    /// Ends the stream: nothing more is read.
    pub(super) fn stop(&mut self) {
        self.documents = Box::new(std::iter::empty());
        self.waiting = None;
        self.pending.take();
    }

    /// Makes a chunk of the pending text and a batch, and holds back the rest.
    ///
    /// # Errors
    /// The pending text is longer than a pre-token may be.
    fn chunk_of(&mut self, batch: Batch) -> Result<CorpusChunk> {
        self.source = batch.source;
        let head_start = self.head_start;
        if self.pending.is_empty() {
            self.head_start = (batch.unit, batch.first_row);
        }
        let whole = self.open.whole_rows(&batch, &mut self.facts);
        let (head, texts, from, to) = match self.config.boundary {
            Boundary::Document => self.cut(&batch, batch.continued, batch.open),
            Boundary::Join if batch.len() == 1 => self.cut(&batch, true, true),
            Boundary::Join => {
                (0..batch.len()).for_each(|row| self.pending.extend(text(&batch, row)));
                (self.pending.take_safe(), 0..0, 0, 0)
            }
        };
        if self.pending.is_too_long() {
            return Err(PretokenExceedsLimit::new(self.source, self.head_start, self.config).into());
        }
        if !head.is_empty() && !self.pending.is_empty() {
            self.head_start = (batch.unit, batch.first_row + to_u64(batch.len()).saturating_sub(1));
        }
        Ok(CorpusChunk { head_start, ..self.chunk(head, Some(ChunkRows { batch, texts, from, to, whole })) })
    }

    /// Divides a batch into the texts that can be split now and the rest, which is held back.
    ///
    /// Returns the head, the rows of the texts, the offset from which the first row counts, and the one up to which
    /// the last row counts. `continued` says that the first row continues a text, and `open` that the last row ends
    /// within a text.
    fn cut(&mut self, batch: &Batch, continued: bool, open: bool) -> (Vec<u8>, Range<usize>, usize, usize) {
        let mut texts = 0..batch.len();
        let (mut head, mut from, mut to) = (Vec::new(), 0, usize::MAX);
        if !continued {
            head = self.pending.take();
        } else if !texts.is_empty() {
            match self.pending.complete(text(batch, 0)) {
                Some((joined, cut)) => (head, from) = (joined, cut),
                None => {
                    texts.start = 1;
                    if !open || !texts.is_empty() {
                        head = self.pending.take();
                    }
                }
            }
        }
        if open && let Some(last) = texts.clone().next_back() {
            let start = if last == texts.start { from } else { 0 };
            to = start + self.pending.start(&text(batch, last)[start..]);
        }
        (head, texts, from, to)
    }

    /// Makes a chunk, and advances the position in the corpus.
    fn chunk(&mut self, head: Vec<u8>, rows: Option<ChunkRows>) -> CorpusChunk {
        let (position, source) = (self.position, self.source);
        let weight = self.config.weight(source);
        let chunk = CorpusChunk { position, source, weight, head, head_start: self.head_start, rows };
        self.position += chunk.texts().map(|text| to_u64(text.len())).sum::<u64>();
        chunk
    }

    /// Returns whether the pending text must be passed on before a batch of this source.
    fn ends_text(&self, source: usize) -> bool {
        source != self.source && !self.pending.is_empty()
    }
}

impl Iterator for CorpusChunks<'_> {
    type Item = Result<CorpusChunk>;

    /// Reads a batch and makes a chunk of it. Before the first batch of another source, and at the end, makes a chunk
    /// of the pending text alone.
    fn next(&mut self) -> Option<Result<CorpusChunk>> {
        let batch = match self.waiting.take() {
            Some(batch) => Some(batch),
            None => match self.documents.next().transpose() {
                Ok(batch) => batch,
                Err(error) => return Some(Err(error)),
            },
        };
        match batch {
            Some(batch) if !self.ends_text(batch.source) => Some(self.chunk_of(batch)),
            rest => {
                self.waiting = rest;
                let head = self.pending.take();
                (!head.is_empty()).then(|| Ok(self.chunk(head, None)))
            }
        }
    }
}

/// Bytes of a new text that are first appended to the pending text when looking for a safe split point. The number
/// doubles until one is found.
const FIRST_LOOKAHEAD: usize = 1 << 10;

/// The text that was read but not yet passed on, because it has no safe split point.
pub(super) struct PendingText<'a> {
    /// Finds safe split points.
    splitter: &'a dyn Splitter,
    /// Finds special tokens, which affect where text can be cut.
    specials: &'a SpecialFinder,
    /// The pending text.
    text: Vec<u8>,
    /// Searches start at this offset. Earlier offsets have no safe split point, or a later one serves as well.
    searched: usize,
    /// The maximum number of bytes that may be held.
    max_bytes: usize,
}

impl<'a> PendingText<'a> {
    /// Creates an empty text for at most `max_bytes` bytes. More are kept, too; the caller asks
    /// [`is_too_long`](PendingText::is_too_long).
    pub(super) fn new(
        splitter: &'a dyn Splitter,
        specials: &'a SpecialFinder,
        max_bytes: usize,
    ) -> PendingText<'a> {
        PendingText { splitter, specials, text: Vec::new(), searched: 0, max_bytes }
    }

    /// Returns whether more text is held than allowed.
    pub(super) fn is_too_long(&self) -> bool {
        self.text.len() > self.max_bytes
    }

    /// Returns whether no text is held.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Appends to the pending text.
    pub(super) fn extend(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
    }

    /// Takes all of the pending text.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.searched = 0;
        mem::take(&mut self.text)
    }

    /// Returns the pending text before its last safe split point, and keeps the rest.
    pub(super) fn take_safe(&mut self) -> Vec<u8> {
        let limit = self.limit(self.text.len());
        let Some(cut) = self.last_safe_split_point(&self.text, self.searched) else {
            self.searched = limit;
            return Vec::new();
        };
        self.searched = limit - cut;
        let rest = self.text.split_off(cut);
        mem::replace(&mut self.text, rest)
    }

    /// Appends the start of a text, up to a safe split point. Returns all of the pending text, and the offset of the
    /// split point in `text`. If `text` has no safe split point, appends all of it and returns `None`.
    pub(super) fn complete(&mut self, text: &[u8]) -> Option<(Vec<u8>, usize)> {
        if self.text.is_empty() {
            return Some((Vec::new(), 0));
        }
        let (carried, mut joined) = (self.text.len(), 0);
        let mut wanted = FIRST_LOOKAHEAD + self.specials.longest();
        while joined < text.len() {
            let more = wanted.min(text.len());
            self.text.extend_from_slice(&text[joined..more]);
            (joined, wanted) = (more, wanted * 2);
            // A safe split point in the text that was held before may show only now. It is of no use here.
            if let Some(cut) =
                self.last_safe_split_point(&self.text, self.searched).filter(|&cut| cut >= carried)
            {
                self.text.truncate(cut);
                return Some((self.take(), cut - carried));
            }
            self.searched = self.limit(self.text.len());
        }
        None
    }

    /// Carries the text after the last safe split point of `text`, and returns the offset of that point, or 0. No
    /// text may be held already.
    pub(super) fn start(&mut self, text: &[u8]) -> usize {
        let cut = self.last_safe_split_point(text, 0).unwrap_or(0);
        self.text.extend_from_slice(&text[cut..]);
        self.searched = self.limit(text.len()).saturating_sub(cut);
        cut
    }

    /// Returns the last offset of a text at which a split point can be known to be safe: a special token that starts
    /// before it also ends within the text.
    fn limit(&self, length: usize) -> usize {
        length.saturating_sub(self.specials.longest())
    }

    /// Returns the last safe split point of a text from `searched` on. It is never within a special token.
    fn last_safe_split_point(&self, text: &[u8], searched: usize) -> Option<usize> {
        // The range includes `searched`: a safe split point at the former end of the text could not be seen.
        let before = |limit: usize| self.splitter.safe_split_point(text, searched..=limit);
        let mut cut = before(self.limit(text.len()))?;
        if self.specials.longest() == 0 {
            return Some(cut);
        }
        let found: Vec<Range<usize>> = self
            .specials
            .segments(text)
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

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::error::Result;
    use crate::observer::Observer;

    /// Has safe split points before spaces, and counts the offsets that are searched.
    #[derive(Default)]
    struct Spaces {
        asked: AtomicUsize,
    }

    impl Splitter for Spaces {
        fn pretoken_ends_observed(
            &self,
            _text: &[u8],
            _ends: &mut Vec<u32>,
            _observer: &dyn Observer,
        ) -> Result<()> {
            unreachable!("only safe split points are asked for")
        }

        fn safe_split_point(&self, text: &[u8], places: RangeInclusive<usize>) -> Option<usize> {
            let (first, last) = places.into_inner();
            let found = (first.max(1)..=last.min(text.len() - 1)).rev().find(|&at| text[at] == b' ');
            self.asked.fetch_add(last.saturating_sub(found.unwrap_or(first)), Relaxed);
            found
        }
    }

    #[test]
    fn each_place_is_looked_at_few_times_wherever_the_only_cut_is() {
        const BATCH: usize = 4 << 10;
        let specials = SpecialFinder::new(&["<|endoftext|>".to_owned()]).expect("a token");
        for from_end in 1..=30 {
            let splitter = Spaces::default();
            let mut pending = PendingText::new(&splitter, &specials, usize::MAX);
            let mut first = vec![b'a'; BATCH];
            first[BATCH - from_end] = b' ';
            let mut length = BATCH - pending.start(&first);
            for _ in 0..100 {
                assert_eq!(pending.complete(&[b'a'; BATCH]), None, "no cut in {from_end}");
                length += BATCH;
            }
            assert_eq!(pending.take().len(), length);
            let asked = splitter.asked.into_inner();
            assert!(asked < 3 * 100 * BATCH, "{asked} places, with a space {from_end} before the first end");
        }
    }
}
