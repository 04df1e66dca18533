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
    pub(super) pieces: Vec<Range<usize>>,
    /// For each row, the end of its range in `pieces`.
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
            documents.in_order_of(&rows.pieces).into_rows(&rows)
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
            rows.pieces.push(start..end);
            if end == row_end {
                rows.row_ends.push(rows.pieces.len());
            }
            start = end;
        }
    }
    if rows.row_ends.last().copied().unwrap_or(0) < rows.pieces.len() {
        rows.row_ends.push(rows.pieces.len());
    }
    rows
}

/// Cuts full rows off documents that are longer than a row. Then puts the remaining pieces, longest first, each into
/// the fullest row that has room for it (best-fit decreasing).
fn best_fit(documents: impl Iterator<Item = Range<usize>>, length: usize) -> PackedRows {
    let cut = |document: Range<usize>| {
        let end = document.end;
        document.step_by(length).map(move |start| start..end.min(start + length))
    };
    let pieces: Vec<Range<usize>> = documents.flat_map(cut).collect();
    let row_of = rows_by_best_fit(&pieces, length);
    let mut last = vec![0; row_of.len()];
    row_of.iter().enumerate().for_each(|(piece, &row)| last[row] = piece);
    // In the order of their first documents, the rest of a document could come before its full rows.
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|&piece| (last[row_of[piece]], piece));
    let row_ends = order.iter().enumerate().filter(|&(_, &piece)| last[row_of[piece]] == piece);
    PackedRows {
        row_ends: row_ends.map(|(place, _)| place + 1).collect(),
        pieces: order.iter().map(|&piece| pieces[piece].clone()).collect(),
    }
}

/// The row of each piece. Rows are numbered in the order in which they were begun.
fn rows_by_best_fit(pieces: &[Range<usize>], length: usize) -> Vec<usize> {
    let mut longest_first: Vec<usize> = (0..pieces.len()).collect();
    longest_first.sort_by_key(|&piece| Reverse(pieces[piece].len()));
    let mut row_of = vec![0; pieces.len()];
    let mut rows = 0;
    // The rows that are not full, as pairs of free room and row.
    let mut open: BTreeSet<(usize, usize)> = BTreeSet::new();
    for piece in longest_first {
        let ids = pieces[piece].len();
        let fullest = open.range((ids, 0)..).next().copied();
        let (room, row) = fullest.unwrap_or_else(|| {
            rows += 1;
            (length, rows - 1)
        });
        open.remove(&(room, row));
        row_of[piece] = row;
        if room > ids {
            open.insert((room - ids, row));
        }
    }
    row_of
}
