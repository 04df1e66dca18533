//! Packs the documents of a window into rows.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

use super::packing::{PackRule, Packing};
use super::row_group::RowGroup;

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
            let rows = concat(documents.parts(), packing.length);
            documents.into_rows(&rows)
        }
        PackRule::BestFit => {
            let rows = best_fit(documents.parts(), packing.length);
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
