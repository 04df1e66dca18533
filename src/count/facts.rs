use serde::{Deserialize, Serialize};

use super::{Histogram, PieceCounts};
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
}

/// Facts being gathered.
pub(super) struct FactFinder {
    facts: CorpusFacts,
    seen: [bool; 256],
    /// Bytes of the document that goes on in the next batch.
    open: Option<u64>,
}

impl Default for FactFinder {
    fn default() -> FactFinder {
        FactFinder { facts: CorpusFacts::default(), seen: [false; 256], open: None }
    }
}

impl FactFinder {
    /// Takes note of a batch's documents, but not of their characters.
    pub(super) fn saw_batch(&mut self, batch: &Batch) {
        for (row, document) in batch.iter().enumerate() {
            if row > 0 || !batch.continued {
                self.end_document();
            }
            match document {
                None => self.facts.null_documents += 1,
                Some(text) => {
                    self.facts.text_bytes += amount(text.len());
                    *self.open.get_or_insert(0) += amount(text.len());
                }
            }
        }
        if !batch.open {
            self.end_document();
        }
    }

    fn end_document(&mut self) {
        let Some(length) = self.open.take() else { return };
        self.facts.documents += 1;
        self.facts.document_lengths.add(length);
    }

    /// Takes note of text whose documents are known already.
    pub(super) fn saw_text(&mut self, text: &[u8]) {
        let characters = text.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
        self.facts.characters += amount(characters);
    }

    /// Takes note of a special token that was cut out.
    pub(super) fn saw_special(&mut self, token: &[u8]) {
        self.facts.special_tokens += 1;
        self.saw_bytes(token);
    }

    /// Takes note of the bytes of the distinct pieces: with those of special tokens they are all there are.
    pub(super) fn saw_pieces(&mut self, pieces: &PieceCounts) {
        self.saw_bytes(pieces.all_bytes());
    }

    fn saw_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.seen[usize::from(*byte)] = true;
        }
    }

    /// Adds what was found in other parts of the same text, with documents counted on one side only.
    pub(super) fn add(&mut self, other: &FactFinder) {
        self.facts.characters += other.facts.characters;
        self.facts.special_tokens += other.facts.special_tokens;
        for (seen, also) in self.seen.iter_mut().zip(other.seen) {
            *seen |= also;
        }
    }

    pub(super) fn finish(mut self) -> CorpusFacts {
        self.end_document();
        self.facts.distinct_bytes = amount(self.seen.iter().filter(|seen| **seen).count());
        self.facts
    }
}
