use std::borrow::Cow;
use std::ops::Range;

use arrow_array::RecordBatch;

use super::ids::TokenIds;
use crate::base::int::TokenId;

/// The token ids of consecutive documents, one row per document.
#[derive(Clone, Debug)]
pub struct TokenBatch {
    /// Index of the run's source that the documents come from, from 0.
    pub source: usize,
    /// Index of the unit within that source, from 0.
    pub unit: usize,
    /// Row of the first document within its unit.
    pub first_row: u64,
    /// The ids of all rows, concatenated.
    pub ids: TokenIds,
    /// The end of each row in `ids`: ascending, one entry per row. A null row has no ids, so it ends where the
    /// row before it ends.
    pub ends: Vec<usize>,
    /// For each row, whether it is null; empty if no row is null.
    pub nulls: Vec<bool>,
    /// Bytes of text in all rows.
    pub text_bytes: u64,
    /// Bytes of text in each row, one entry per row; 0 for a null row. Where the sizes of output files are not
    /// planned in advance, files are cut between rows by these lengths.
    pub text_lengths: Vec<u64>,
    /// The pass-through columns, one row per document.
    pub columns: Option<RecordBatch>,
}

impl TokenBatch {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the batch has no rows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The ids of each row, in order; `None` for a null row. Ids that are stored in two bytes, or in several
    /// parts, are copied.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<Cow<'_, [TokenId]>>> {
        self.spans().map(|span| span.map(|span| self.ids.slice(span)))
    }

    /// The range of each row in [`ids`](TokenBatch::ids); `None` for a null row.
    pub fn spans(&self) -> impl ExactSizeIterator<Item = Option<Range<usize>>> {
        self.ends.iter().enumerate().map(|(row, &end)| {
            let start = if row == 0 { 0 } else { self.ends[row - 1] };
            let null = self.nulls.get(row).copied().unwrap_or(false);
            (!null).then_some(start..end)
        })
    }
}
