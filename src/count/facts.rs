use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Histogram;
use crate::source::Batch;
use crate::units::amount;

/// What the text that was read is like. Weights do not count here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusFacts {
    /// Documents, empty ones included, null ones not.
    pub documents: u64,
    /// Null documents, which were skipped.
    pub null_documents: u64,
    /// Bytes of text, special tokens included.
    pub text_bytes: u64,
    /// Characters: bytes that do not continue a character.
    pub characters: u64,
    /// Special tokens that were cut out.
    pub special_tokens: u64,
    /// How many of the 256 bytes occur.
    pub distinct_bytes: u64,
    /// Documents by their length in bytes.
    pub document_lengths: Histogram,
    /// What came from each source, by its number, as far as sources gave anything. Not known of counts of pieces.
    #[serde(default)]
    pub sources: Vec<SourceFacts>,
}

/// What came from one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFacts {
    /// Documents, empty ones included, null ones not.
    pub documents: u64,
    /// Null documents, which were skipped.
    pub null_documents: u64,
    /// Bytes of text, special tokens included.
    pub text_bytes: u64,
}

impl SourceFacts {
    fn add(&mut self, other: &SourceFacts) {
        self.documents += other.documents;
        self.null_documents += other.null_documents;
        self.text_bytes += other.text_bytes;
    }
}

impl CorpusFacts {
    /// Adds the facts of a source that was counted by itself, but for the distinct bytes, which cannot be added.
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

/// Bins of a [`Histogram`] of lengths, which have 64 bits.
const BINS: usize = 256;

/// Facts being gathered.
pub(super) struct FactFinder {
    /// Without the lengths of documents, and without what the sources tell.
    facts: CorpusFacts,
    /// Documents by the bin of their length.
    lengths: [u64; BINS],
    seen: [bool; 256],
    /// The source of the document that goes on in the next batch, and its bytes so far.
    open: Option<(usize, u64)>,
}

impl Default for FactFinder {
    fn default() -> FactFinder {
        FactFinder { facts: CorpusFacts::default(), lengths: [0; BINS], seen: [false; 256], open: None }
    }
}

impl FactFinder {
    /// Takes note of a batch's documents, but not of their characters.
    pub(super) fn saw_batch(&mut self, batch: &Batch) {
        let whole = self.saw_parts(batch);
        let documents = batch.iter().take(whole.end).skip(whole.start);
        documents.for_each(|document| self.saw_document(batch.source, document));
    }

    /// Takes note of the documents that are not whole in a batch, and gives the rows that are.
    pub(super) fn saw_parts(&mut self, batch: &Batch) -> Range<usize> {
        let mut whole = 0..batch.len();
        if !batch.continued {
            self.end_document();
        } else if let Some(first) = whole.next() {
            self.saw_part(batch, first);
            if !batch.open || !whole.is_empty() {
                self.end_document();
            }
        }
        if batch.open
            && let Some(last) = whole.next_back()
        {
            self.saw_part(batch, last);
        }
        whole
    }

    fn saw_part(&mut self, batch: &Batch, row: usize) {
        let (_, length) = self.open.get_or_insert((batch.source, 0));
        *length += amount(batch.documents.value(row).len());
    }

    fn end_document(&mut self) {
        if let Some((source, length)) = self.open.take() {
            self.saw_length(source, length);
        }
    }

    /// Takes note of a whole document, but not of its characters.
    pub(super) fn saw_document(&mut self, source: usize, document: Option<&[u8]>) {
        match document {
            None => self.source(source).null_documents += 1,
            Some(text) => self.saw_length(source, amount(text.len())),
        }
    }

    fn saw_length(&mut self, source: usize, length: u64) {
        let facts = self.source(source);
        facts.documents += 1;
        facts.text_bytes += length;
        self.lengths[Histogram::bin_number(length)] += 1;
    }

    fn source(&mut self, source: usize) -> &mut SourceFacts {
        let sources = &mut self.facts.sources;
        if sources.len() <= source {
            sources.resize(source + 1, SourceFacts::default());
        }
        &mut sources[source]
    }

    /// Takes note of text whose documents are known already.
    pub(super) fn saw_text(&mut self, text: &[u8]) {
        self.facts.characters += characters(text);
    }

    /// Characters so far.
    pub(super) fn characters(&self) -> u64 {
        self.facts.characters
    }

    /// Takes note of a text as it was before it was prepared; characters were `before` then.
    pub(super) fn saw_prepared(&mut self, before: u64, text: &[u8]) {
        self.facts.characters = before + characters(text);
    }

    /// Takes note of a special token that was cut out.
    pub(super) fn saw_special(&mut self, token: &[u8]) {
        self.facts.special_tokens += 1;
        self.saw_bytes(token);
    }

    /// Takes note of the bytes of distinct pieces: with those of special tokens they are all there are.
    pub(super) fn saw_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.seen[usize::from(*byte)] = true;
        }
    }

    /// Adds what was found in other parts of the same text.
    pub(super) fn add(&mut self, other: &FactFinder) {
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

    pub(super) fn finish(mut self) -> CorpusFacts {
        self.end_document();
        let mut all = SourceFacts::default();
        self.facts.sources.iter().for_each(|source| all.add(source));
        let SourceFacts { documents, null_documents, text_bytes } = all;
        self.facts = CorpusFacts { documents, null_documents, text_bytes, ..self.facts };
        self.facts.document_lengths = Histogram::of_counts(&self.lengths);
        self.facts.distinct_bytes = amount(self.seen.iter().filter(|seen| **seen).count());
        self.facts
    }
}

/// How many bytes of a text do not continue a character.
pub(crate) fn characters(text: &[u8]) -> u64 {
    /// Few enough for the sum to fit a byte: so the compiler adds bytes, many at a time.
    const CHUNK: usize = 192;
    // As signed numbers, the bytes that continue a character are the least.
    let begins = |byte: &u8| u8::from(byte.cast_signed() > -65);
    let (chunks, rest) = text.as_chunks::<CHUNK>();
    let in_chunks: u64 = chunks.iter().map(|chunk| u64::from(chunk.iter().map(begins).sum::<u8>())).sum();
    in_chunks + rest.iter().map(|byte| u64::from(begins(byte))).sum::<u64>()
}
