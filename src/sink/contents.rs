//! Describes which part of the input some rows of the output hold.

use serde::{Deserialize, Serialize};

/// A position between two documents of the input, in the order of encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The number of the source.
    pub source: usize,
    /// The number of the unit in that source.
    pub unit: usize,
    /// The row of the next document in that unit.
    pub row: u64,
    /// Number of token ids of that document that have already been written. It is 0 unless packing cuts a document.
    pub token: u64,
}

/// The part of the input that some rows of the output hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// Number of rows, nulls included. Documents that are yet to be packed have none.
    pub rows: u64,
    /// Number of token ids in all rows.
    pub tokens: u64,
    /// Number of documents that are complete, null and empty ones included.
    pub documents: u64,
    /// Number of those documents that packing has cut.
    pub cut_documents: u64,
    /// Number of null documents.
    pub null_documents: u64,
    /// Bytes of text.
    pub text_bytes: u64,
    /// The share of each source, in ascending order of sources.
    #[serde(default)]
    pub sources: Vec<SourceShare>,
    /// The ranges of documents, in order.
    pub(super) parts: Vec<Part>,
    /// The position after these documents.
    pub(super) next: Position,
}

/// The documents of one source in an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceShare {
    /// The number of the source, counted from 0.
    pub source: usize,
    /// Number of documents without null ones.
    pub documents: u64,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Number of token ids.
    pub tokens: u64,
}

/// Consecutive documents of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) source: usize,
    pub(super) unit: usize,
    pub(super) first_row: u64,
    pub(super) rows: u64,
}

impl Contents {
    /// No documents yet; the next one is at `next`.
    pub(super) fn before(next: Position) -> Contents {
        Contents { next, ..Contents::default() }
    }

    /// Adds contents that follow these in the input.
    pub(super) fn add(&mut self, other: &Contents) {
        self.rows += other.rows;
        self.tokens += other.tokens;
        self.documents += other.documents;
        self.cut_documents += other.cut_documents;
        self.null_documents += other.null_documents;
        self.text_bytes += other.text_bytes;
        other.sources.iter().for_each(|share| self.add_share(share));
        for part in &other.parts {
            self.add_part(*part);
        }
        self.next = other.next;
    }

    /// Adds a share of a source. Sources stay in ascending order.
    fn add_share(&mut self, share: &SourceShare) {
        match self.sources.binary_search_by_key(&share.source, |own| own.source) {
            Err(place) => self.sources.insert(place, *share),
            Ok(found) => {
                let own = &mut self.sources[found];
                own.documents += share.documents;
                own.text_bytes += share.text_bytes;
                own.tokens += share.tokens;
            }
        }
    }

    /// Adds documents that follow in the input.
    pub(super) fn add_part(&mut self, part: Part) {
        match self.parts.last_mut() {
            Some(last) if (last.source, last.unit) == (part.source, part.unit) => last.rows += part.rows,
            _ => self.parts.push(part),
        }
        self.next =
            Position { source: part.source, unit: part.unit, row: part.first_row + part.rows, token: 0 };
    }
}
