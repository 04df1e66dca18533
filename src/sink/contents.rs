use serde::{Deserialize, Serialize};

/// A place between two documents of the input, in the order in which they are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The source.
    pub source: usize,
    /// The unit of that source.
    pub unit: usize,
    /// The row of the unit that comes next.
    pub row: u64,
    /// How many of its token ids have been written already; more than 0 only where packing has cut a document.
    pub token: u64,
}

/// What of the input some rows of the output hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// Rows; nulls included, but not of documents that are still to be packed.
    pub rows: u64,
    /// Token ids in all rows.
    pub tokens: u64,
    /// Documents, null and empty ones included, that are there to their end.
    pub documents: u64,
    /// Those of them that packing has cut.
    pub cut_documents: u64,
    /// Null documents.
    pub null_documents: u64,
    /// Bytes of text.
    pub text_bytes: u64,
    /// How the documents came from sources, in the order of these.
    #[serde(default)]
    pub sources: Vec<SourceShare>,
    /// Which documents.
    pub(super) parts: Vec<Part>,
    /// What of the input comes after them.
    pub(super) next: Position,
}

/// What came from one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceShare {
    /// The source, counted from 0.
    pub source: usize,
    /// Documents, null ones not counted.
    pub documents: u64,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Their token ids.
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
    /// Nothing, before what comes at a place.
    pub(super) fn before(next: Position) -> Contents {
        Contents { next, ..Contents::default() }
    }

    /// Adds what comes after these in the input.
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

    pub(super) fn add_part(&mut self, part: Part) {
        match self.parts.last_mut() {
            Some(last) if (last.source, last.unit) == (part.source, part.unit) => last.rows += part.rows,
            _ => self.parts.push(part),
        }
        self.next =
            Position { source: part.source, unit: part.unit, row: part.first_row + part.rows, token: 0 };
    }
}
