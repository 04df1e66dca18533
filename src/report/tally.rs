use super::{CorpusFacts, Histogram};
use crate::units::amount;

/// Gathers the facts about a corpus, document by document. Tallies of several threads add up to the tally
/// of all documents, in any order.
///
/// **Memory:** some kilobytes, whatever the corpus.
#[derive(Clone, Debug)]
pub struct Tally {
    documents: u64,
    null_documents: u64,
    text_bytes: u64,
    characters: u64,
    seen: [bool; 256],
    lengths: Histogram,
    /// Bytes so far of a document that comes in parts.
    open: u64,
}

impl Tally {
    /// Nothing gathered yet.
    pub fn new() -> Tally {
        Tally {
            documents: 0,
            null_documents: 0,
            text_bytes: 0,
            characters: 0,
            seen: [false; 256],
            lengths: Histogram::default(),
            open: 0,
        }
    }

    /// Adds a null row.
    pub fn null(&mut self) {
        self.null_documents += 1;
    }

    /// Adds a whole document.
    pub fn document(&mut self, text: &[u8]) {
        self.part(text, true);
    }

    /// Adds a part of a document; `last` says that the document ends with it. All parts of a document go
    /// to the same tally, with nothing between them.
    pub fn part(&mut self, text: &[u8], last: bool) {
        for &byte in text {
            self.seen[usize::from(byte)] = true;
        }
        self.characters += amount(text.iter().filter(|&byte| byte & 0xC0 != 0x80).count());
        self.text_bytes += amount(text.len());
        self.open += amount(text.len());
        if last {
            self.documents += 1;
            self.lengths.add(std::mem::take(&mut self.open));
        }
    }

    /// Adds what another tally gathered.
    pub fn merge(&mut self, other: &Tally) {
        debug_assert_eq!(other.open, 0, "a document's parts go to one tally");
        self.documents += other.documents;
        self.null_documents += other.null_documents;
        self.text_bytes += other.text_bytes;
        self.characters += other.characters;
        self.lengths.merge(&other.lengths);
        for (seen, &elsewhere) in self.seen.iter_mut().zip(&other.seen) {
            *seen |= elsewhere;
        }
    }

    /// The facts, for these sources.
    pub fn facts(&self, sources: Vec<String>) -> CorpusFacts {
        CorpusFacts {
            sources,
            documents: self.documents,
            null_documents: self.null_documents,
            text_bytes: self.text_bytes,
            characters: self.characters,
            distinct_bytes: amount(self.seen.iter().filter(|&&seen| seen).count()),
            document_lengths: self.lengths.clone(),
        }
    }
}

impl Default for Tally {
    fn default() -> Tally {
        Tally::new()
    }
}
