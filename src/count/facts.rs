//! Statistics of the corpus, collected while counting, among them a histogram of document lengths.
//!
//! Each thread has a [`FactCollector`]. Sums of collectors do not depend on how documents are divided among threads.

use serde::{Deserialize, Serialize};

use crate::base::int::{to_u64, u64_to_usize};

/// Statistics of the text that was read. Weights do not affect them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusFacts {
    /// Number of documents, including empty ones but not null ones.
    pub documents: u64,
    /// Number of null documents, which were skipped.
    pub null_documents: u64,
    /// Bytes of text, including special tokens.
    pub text_bytes: u64,
    /// Number of characters, counted as the bytes that are not UTF-8 continuation bytes.
    pub characters: u64,
    /// Number of special tokens that were removed.
    pub special_tokens: u64,
    /// Number of the 256 byte values that occur.
    pub distinct_bytes: u64,
    /// Lengths of the documents in bytes.
    pub document_lengths: Histogram,
    /// The statistics of each source, by its number. Sources after the last one with documents are missing. Empty if
    /// the pre-tokens come from a counts file.
    #[serde(default)]
    pub sources: Vec<SourceFacts>,
}

/// Statistics of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFacts {
    /// Number of documents, including empty ones but not null ones.
    pub documents: u64,
    /// Number of null documents, which were skipped.
    pub null_documents: u64,
    /// Bytes of text, including special tokens.
    pub text_bytes: u64,
}

impl SourceFacts {
    /// Adds other statistics: of the same source from another collector, or of another source for a total.
    fn add(&mut self, other: &SourceFacts) {
        self.documents += other.documents;
        self.null_documents += other.null_documents;
        self.text_bytes += other.text_bytes;
    }
}

impl CorpusFacts {
    /// Adds the statistics of a source that was counted separately, as the next source. The number of distinct bytes
    /// stays as it is: the sum cannot be computed from two numbers.
    pub fn add_source(&mut self, other: &CorpusFacts) {
        let &CorpusFacts { documents, null_documents, text_bytes, .. } = other;
        self.sources.push(SourceFacts { documents, null_documents, text_bytes });
        self.documents += other.documents;
        self.null_documents += other.null_documents;
        self.text_bytes += other.text_bytes;
        self.characters += other.characters;
        self.special_tokens += other.special_tokens;
        self.document_lengths.add_all(&other.document_lengths);
    }
}

/// Number of bins of a [`Histogram`] of 64-bit lengths.
const BINS: usize = 480;

/// Collects [`CorpusFacts`].
pub(super) struct FactCollector {
    /// The statistics so far, without document lengths, distinct bytes, and the sums over sources.
    facts: CorpusFacts,
    /// Number of documents in each bin of lengths.
    lengths: [u64; BINS],
    /// The byte values that occur.
    seen: [bool; 256],
}

impl Default for FactCollector {
    /// Creates a collector that has seen no text.
    fn default() -> FactCollector {
        FactCollector { facts: CorpusFacts::default(), lengths: [0; BINS], seen: [false; 256] }
    }
}

impl FactCollector {
    /// Records a whole document, but not its characters.
    pub(super) fn record_document(&mut self, source: usize, document: Option<&[u8]>) {
        match document {
            None => self.source(source).null_documents += 1,
            Some(text) => self.record_length(source, to_u64(text.len())),
        }
    }

    /// Records a document by its length in bytes.
    pub(super) fn record_length(&mut self, source: usize, length: u64) {
        let facts = self.source(source);
        facts.documents += 1;
        facts.text_bytes += length;
        self.lengths[Histogram::bin_number(length)] += 1;
    }

    /// Returns the statistics of a source.
    fn source(&mut self, source: usize) -> &mut SourceFacts {
        let sources = &mut self.facts.sources;
        if sources.len() <= source {
            sources.resize(source + 1, SourceFacts::default());
        }
        &mut sources[source]
    }

    /// Records the characters of a text. Its documents are recorded separately.
    pub(super) fn record_text(&mut self, text: &[u8]) {
        self.facts.characters += count_characters(text);
    }

    /// Returns the number of characters so far.
    pub(super) fn characters(&self) -> u64 {
        self.facts.characters
    }

    /// Replaces the number of characters by `before` plus those of a text before its preparation.
    pub(super) fn replace_characters(&mut self, before: u64, text: &[u8]) {
        self.facts.characters = before + count_characters(text);
    }

    /// Records a special token that was removed.
    pub(super) fn record_special(&mut self, token: &[u8]) {
        self.facts.special_tokens += 1;
        self.record_bytes(token);
    }

    /// Records the byte values of distinct pre-tokens. Together with those of special tokens, these are all that
    /// occur.
    pub(super) fn record_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.seen[usize::from(*byte)] = true;
        }
    }

    /// Adds the records of other chunks of the same corpus.
    pub(super) fn add(&mut self, other: &FactCollector) {
        for (number, source) in other.facts.sources.iter().enumerate() {
            self.source(number).add(source);
        }
        for (here, there) in self.lengths.iter_mut().zip(other.lengths) {
            *here += there;
        }
        self.facts.characters += other.facts.characters;
        self.facts.special_tokens += other.facts.special_tokens;
        for (seen, also) in self.seen.iter_mut().zip(other.seen) {
            *seen |= also;
        }
    }

    /// Returns the statistics.
    pub(super) fn finish(mut self) -> CorpusFacts {
        let mut all = SourceFacts::default();
        self.facts.sources.iter().for_each(|source| all.add(source));
        let SourceFacts { documents, null_documents, text_bytes } = all;
        self.facts = CorpusFacts { documents, null_documents, text_bytes, ..self.facts };
        self.facts.document_lengths = Histogram::of_counts(&self.lengths);
        self.facts.distinct_bytes = to_u64(self.seen.iter().filter(|seen| **seen).count());
        self.facts
    }
}

/// Returns the number of bytes that are not UTF-8 continuation bytes; in valid UTF-8, the number of characters.
pub(crate) fn count_characters(text: &[u8]) -> u64 {
    /// Bytes per chunk: below 256, so that a sum fits in a byte and the compiler adds bytes with vector instructions.
    const CHUNK: usize = 192;
    // As signed numbers, the continuation bytes are the smallest: -128 to -65.
    let begins = |byte: &u8| u8::from(byte.cast_signed() > -65);
    let (chunks, rest) = text.as_chunks::<CHUNK>();
    let in_chunks: u64 = chunks.iter().map(|chunk| u64::from(chunk.iter().map(begins).sum::<u8>())).sum();
    in_chunks + rest.iter().map(|byte| u64::from(begins(byte))).sum::<u64>()
}

/// Smallest length that shares a bin with others. From here on, each doubling of the length has [`STEPS`] bins.
const FINE: u64 = 256;

/// Number of bins per doubling of the length.
const STEPS: u64 = 4;

/// A histogram of lengths with at most 480 bins.
///
/// Lengths below 256 have a bin each. From there on, each doubling of the length has four bins of equal width.
///
/// ```
/// use tokenmill::count::{Bin, Histogram};
///
/// let mut lengths = Histogram::default();
/// [3, 641, 645].into_iter().for_each(|length| lengths.add(length));
/// assert_eq!(lengths.bins(), [Bin { from: 3, to: 3, count: 1 }, Bin { from: 640, to: 767, count: 2 }]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Histogram {
    /// The bins that are not empty, in ascending order.
    bins: Vec<Bin>,
}

/// A bin of a [`Histogram`]: the lengths from `from` to `to`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// The smallest length of the bin.
    pub from: u64,
    /// The largest length of the bin.
    pub to: u64,
    /// Number of items with these lengths.
    pub count: u64,
}

impl Histogram {
    /// Creates the histogram with these counts, by the numbers of the bins.
    pub(super) fn of_counts(counts: &[u64]) -> Histogram {
        let counted = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let bin = |(number, &count): (usize, &u64)| {
            let (from, to) = Histogram::bounds(number);
            Bin { from, to, count }
        };
        Histogram { bins: counted.map(bin).collect() }
    }

    /// Counts one item of this length.
    pub fn add(&mut self, length: u64) {
        let (from, to) = Histogram::bounds(Histogram::bin_number(length));
        self.add_bin(Bin { from, to, count: 1 });
    }

    /// Adds the counts of another histogram.
    pub fn add_all(&mut self, other: &Histogram) {
        other.bins.iter().for_each(|bin| self.add_bin(*bin));
    }

    fn add_bin(&mut self, bin: Bin) {
        match self.bins.binary_search_by_key(&bin.from, |own| own.from) {
            Ok(found) => self.bins[found].count += bin.count,
            Err(place) => self.bins.insert(place, bin),
        }
    }

    /// Returns the bins that are not empty, by ascending length.
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// Returns the number of the bin of a length, from 0 on.
    fn bin_number(length: u64) -> usize {
        if length < FINE {
            return u64_to_usize(length);
        }
        let doublings = length.ilog2() - FINE.ilog2();
        let step = (length >> (length.ilog2() - STEPS.ilog2())) & (STEPS - 1);
        u64_to_usize(FINE + STEPS * u64::from(doublings) + step)
    }

    /// Returns the smallest and the largest length of a bin.
    fn bounds(number: usize) -> (u64, u64) {
        let number = to_u64(number);
        if number < FINE {
            return (number, number);
        }
        let (doublings, step) = ((number - FINE) / STEPS, (number - FINE) % STEPS);
        let width = (FINE / STEPS) << doublings;
        let from = (FINE << doublings) + step * width;
        (from, from + (width - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_cover_every_length_once() {
        for number in 0..Histogram::bin_number(u64::MAX) {
            let ((from, to), (next, _)) = (Histogram::bounds(number), Histogram::bounds(number + 1));
            assert!(from <= to && to + 1 == next, "{number}");
            assert_eq!((Histogram::bin_number(from), Histogram::bin_number(to)), (number, number));
        }
        assert_eq!(Histogram::bounds(Histogram::bin_number(u64::MAX)).1, u64::MAX);
    }

    #[test]
    fn things_of_nearly_equal_length_share_a_bin() {
        let mut histogram = Histogram::default();
        [700, 3, 641, 768].into_iter().for_each(|length| histogram.add(length));
        let bin = |from, to, count| Bin { from, to, count };
        assert_eq!(histogram.bins(), [bin(3, 3, 1), bin(640, 767, 2), bin(768, 895, 1)]);
        let mut sum = Histogram::default();
        [3, 9].into_iter().for_each(|length| sum.add(length));
        sum.add_all(&histogram);
        assert_eq!(sum.bins(), [bin(3, 3, 2), bin(9, 9, 1), bin(640, 767, 2), bin(768, 895, 1)]);
    }
}
