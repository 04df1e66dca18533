//! Lays out sequences as one text with separators.

use rayon::prelude::*;

use crate::count::PieceCounts;
use crate::units::{Count, amount, place64};

/// Length in bytes of all sequences laid end to end, each repeated as often as it occurs, with a separator
/// between any two. `None` if it does not fit 64 bits.
pub(super) fn laid_out(pieces: &PieceCounts) -> Option<u64> {
    let mut bytes = Count::ZERO;
    for (piece, count) in pieces.iter() {
        bytes = bytes.checked_add(count.checked_mul(amount(piece.len() + 1))?)?;
    }
    Some(bytes.get().saturating_sub(1))
}

/// Sequences laid end to end.
pub(super) struct Layout {
    /// The bytes, with one byte between any two sequences.
    pub(super) bytes: Vec<u8>,
    /// Separator: a byte that occurs in no sequence, if any is left.
    pub(super) between: Option<u8>,
    /// Positions of the separators, last first, if no byte is left that could mark them. Otherwise empty.
    pub(super) gaps: Vec<usize>,
    /// Number of separators.
    pub(super) separators: u64,
}

/// Lays the sequences end to end in place, each repeated as often as it occurs, with a separator between any
/// two.
///
/// # Panics
/// If the length is larger than memory can address. [`suits`](super::suits) has excluded such sequences.
pub(super) fn lay_out(pieces: PieceCounts) -> Layout {
    let total = laid_out(&pieces).expect("what suits scanning has been added up");
    let copies: u64 = pieces.iter().map(|(_, count)| count.get()).sum();
    let (mut bytes, ends, counts) = pieces.into_parts();
    if copies <= 1 {
        return Layout { bytes, between: None, gaps: Vec::new(), separators: 0 };
    }
    let between = unused(&bytes);
    let mut gaps = Vec::new();
    bytes.reserve_exact(place64(total) - bytes.len());
    bytes.resize(place64(total), 0);
    // From the last sequence to the first, so that no bytes are overwritten before they have moved.
    let mut to = bytes.len();
    for piece in (0..counts.len()).rev() {
        let start = if piece == 0 { 0 } else { ends[piece - 1] };
        let end = ends[piece];
        for _ in 0..counts[piece].get() {
            let from = to - (end - start);
            bytes.copy_within(start..end, from);
            if from > 0 {
                to = from - 1;
                bytes[to] = between.unwrap_or(0);
                if between.is_none() {
                    gaps.push(to);
                }
            }
        }
    }
    Layout { bytes, between, gaps, separators: copies - 1 }
}

/// A byte that does not occur, if any.
fn unused(bytes: &[u8]) -> Option<u8> {
    let seen = bytes.par_chunks(1 << 20).map(|part| {
        let mut seen = [false; 256];
        part.iter().for_each(|byte| seen[usize::from(*byte)] = true);
        seen
    });
    let seen = seen.reduce(|| [false; 256], |one, other| std::array::from_fn(|byte| one[byte] | other[byte]));
    (0..=255u8).find(|byte| !seen[usize::from(*byte)])
}
