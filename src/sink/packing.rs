//! The rules by which documents are packed into rows.
//!
//! Packs the documents of a window into rows.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::row_group::{GROUP_IDS, GROUP_ROWS, RowGroup};

/// Length of a packed row in token ids, at most: a row group holds at least one row.
pub const MAX_PACKED_LENGTH: usize = GROUP_IDS;

/// How documents are packed into rows of equal length.
///
/// All tokens are kept, and those of a document keep their order. BOS and EOS tokens stay with their documents within
/// the rows. Documents without tokens, including null ones, are left out. The column `seq_lengths` gives the lengths
/// of the documents in each row, or of their parts. Rows are not padded, so some are shorter: the last one of a file
/// with [`Concat`](PackRule::Concat), and any with [`BestFit`](PackRule::BestFit).
///
/// Each file holds complete documents, so packing does not change which documents a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packing {
    /// The rule for documents that share a row.
    pub rule: PackRule,
    /// Token ids per row, from 1 to [`MAX_PACKED_LENGTH`].
    pub length: usize,
    /// Token ids per window, about. Documents are packed within a window, which becomes a row group.
    pub window: usize,
}

/// The rule for documents that share a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PackRule {
    /// Concatenates all documents of a file, and cuts them wherever a row is full. The window only determines where
    /// row groups end.
    Concat,
    /// Keeps a document whole if it is not longer than a row. Full rows are first cut off longer documents. Within a
    /// window, documents and remainders are placed longest first, each into the fullest row that has room. Among
    /// equals, the earlier document and the row begun earlier come first. Rows are in the order of their last
    /// documents, and the documents of a row in the order of the input.
    BestFit,
}

impl fmt::Display for PackRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PackRule::Concat => "concat",
            PackRule::BestFit => "best-fit",
        })
    }
}

impl Packing {
    /// Packs with windows of about 4 million tokens.
    pub fn new(rule: PackRule, length: usize) -> Packing {
        Packing { rule, length, window: GROUP_IDS }
    }

    /// Number of ids of the next document, which has `document` ids, that go into a window with `ids` ids of
    /// `documents` documents: all, some, or none.
    pub(super) fn room(&self, ids: usize, documents: usize, document: usize) -> usize {
        match self.rule {
            PackRule::Concat => {
                let full_rows = (self.window / self.length).max(1) * self.length;
                document.min(full_rows.saturating_sub(ids))
            }
            PackRule::BestFit => {
                let fits = ids + document <= self.window && documents < GROUP_ROWS;
                if fits || ids == 0 { document } else { 0 }
            }
        }
    }

    /// Whether packing cuts a document. `ids` ids of it come at offset `at` of a window. `continued` says that
    /// earlier ids of it are in an earlier window.
    pub(super) fn cuts(&self, at: usize, ids: usize, continued: bool) -> bool {
        match self.rule {
            PackRule::Concat => continued || (ids > 0 && at / self.length != (at + ids - 1) / self.length),
            PackRule::BestFit => ids > self.length,
        }
    }
}

/// The assignment of ids to rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PackedRows {
    /// Documents and parts of documents, as ranges of ids, in the order of the rows.
    pub(super) segments: Vec<Range<usize>>,
    /// For each row, the end of its range in `segments`.
    pub(super) row_ends: Vec<usize>,
}

/// Packs the documents of a row group into rows.
///
/// **Memory:** about 50 bytes per document, and for best-fit a second copy of the ids.
pub(super) fn pack(documents: RowGroup, packing: &Packing) -> RowGroup {
    match packing.rule {
        PackRule::Concat => {
            let rows = concat(documents.gathered_documents(), packing.length);
            documents.into_rows(&rows)
        }
        PackRule::BestFit => {
            let rows = best_fit(documents.gathered_documents(), packing.length);
            documents.in_order_of(&rows.segments).into_rows(&rows)
        }
    }
}

/// Cuts documents wherever a row is full. No document is empty, and each begins where the one before ends.
fn concat(documents: impl Iterator<Item = Range<usize>>, length: usize) -> PackedRows {
    let mut rows = PackedRows::default();
    for document in documents {
        let mut start = document.start;
        while start < document.end {
            let row_end = (start / length + 1) * length;
            let end = row_end.min(document.end);
            rows.segments.push(start..end);
            if end == row_end {
                rows.row_ends.push(rows.segments.len());
            }
            start = end;
        }
    }
    if rows.row_ends.last().copied().unwrap_or(0) < rows.segments.len() {
        rows.row_ends.push(rows.segments.len());
    }
    rows
}

/// Cuts full rows off documents that are longer than a row. Then puts the remaining chunks, longest first, each into
/// the fullest row that has room for it (best-fit decreasing).
fn best_fit(documents: impl Iterator<Item = Range<usize>>, length: usize) -> PackedRows {
    let cut = |document: Range<usize>| {
        let end = document.end;
        document.step_by(length).map(move |start| start..end.min(start + length))
    };
    let segments: Vec<Range<usize>> = documents.flat_map(cut).collect();
    let row_of = rows_by_best_fit(&segments, length);
    let mut last = vec![0; row_of.len()];
    row_of.iter().enumerate().for_each(|(segment, &row)| last[row] = segment);
    // In the order of their first documents, the rest of a document could come before its full rows.
    let mut order: Vec<usize> = (0..segments.len()).collect();
    order.sort_by_key(|&segment| (last[row_of[segment]], segment));
    let row_ends = order.iter().enumerate().filter(|&(_, &segment)| last[row_of[segment]] == segment);
    PackedRows {
        row_ends: row_ends.map(|(place, _)| place + 1).collect(),
        segments: order.iter().map(|&segment| segments[segment].clone()).collect(),
    }
}

/// The row of each chunk. Rows are numbered in the order in which they were begun.
fn rows_by_best_fit(segments: &[Range<usize>], length: usize) -> Vec<usize> {
    let mut longest_first: Vec<usize> = (0..segments.len()).collect();
    longest_first.sort_by_key(|&segment| Reverse(segments[segment].len()));
    let mut row_of = vec![0; segments.len()];
    let mut rows = 0;
    // The rows that are not full, as pairs of free room and row.
    let mut open: BTreeSet<(usize, usize)> = BTreeSet::new();
    for segment in longest_first {
        let ids = segments[segment].len();
        let fullest = open.range((ids, 0)..).next().copied();
        let (room, row) = fullest.unwrap_or_else(|| {
            rows += 1;
            (length, rows - 1)
        });
        open.remove(&(room, row));
        row_of[segment] = row;
        if room > ids {
            open.insert((room - ids, row));
        }
    }
    row_of
}
