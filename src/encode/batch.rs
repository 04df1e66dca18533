use std::borrow::Cow;
use std::ops::Range;

use arrow_array::RecordBatch;

use super::ids::TokenIds;
use crate::units::TokenId;

/// The token ids of a run of consecutive documents, one row each.
#[derive(Clone, Debug)]
pub struct TokenBatch {
    /// Which of the run's sources the documents come from, counted from 0.
    pub source: usize,
    /// Which unit of that source, counted from 0.
    pub unit: usize,
    /// The row of the first document within its unit.
    pub first_row: u64,
    /// The ids of all rows, one after the other.
    pub ids: TokenIds,
    /// Where each row's ids end in `ids`; ascending, one a row. A null row has none.
    pub ends: Vec<usize>,
    /// Which rows are null; empty if none is.
    pub nulls: Vec<bool>,
    /// Bytes of text the rows had.
    pub text_bytes: u64,
    /// Bytes of text that each row had, one a row, 0 for a null row. Output files that are not planned
    /// beforehand are cut between rows by this.
    pub text_lengths: Vec<u64>,
    /// The pass-through columns, one row a document.
    pub columns: Option<RecordBatch>,
}

impl TokenBatch {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The rows in order; `None` is a null row. Ids of two bytes, and joined ones, are copied.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<Cow<'_, [TokenId]>>> {
        self.spans().map(|span| span.map(|span| self.ids.slice(span)))
    }

    /// Where the ids of each row stand; `None` is a null row.
    pub fn spans(&self) -> impl ExactSizeIterator<Item = Option<Range<usize>>> {
        self.ends.iter().enumerate().map(|(row, &end)| {
            let start = if row == 0 { 0 } else { self.ends[row - 1] };
            let null = self.nulls.get(row).copied().unwrap_or(false);
            (!null).then_some(start..end)
        })
    }
}
