use rayon::prelude::*;

use crate::count::PieceCounts;
use crate::units::{Count, amount, place64};

/// The bytes of all sequences, each as often as it occurs, with one more between any two; `None` where
/// they pass 64 bits.
pub(super) fn laid_out(pieces: &PieceCounts) -> Option<u64> {
    let mut bytes = Count::ZERO;
    for (piece, count) in pieces.iter() {
        bytes = bytes.checked_add(count.checked_mul(amount(piece.len() + 1))?)?;
    }
    Some(bytes.get().saturating_sub(1))
}

/// Sequences end to end.
pub(super) struct Layout {
    pub(super) bytes: Vec<u8>,
    /// A byte that occurs nowhere else and stands between sequences, if there is one.
    pub(super) between: Option<u8>,
    /// Where the places between sequences are, last first, if no byte is left that could mark them.
    pub(super) gaps: Vec<usize>,
    /// How many there are.
    pub(super) separators: u64,
}

/// Lays the sequences end to end in place, each as often as it occurs, with a byte between any two.
///
/// # Panics
/// If the sequences are more than memory has places for; what suits scanning is not.
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
    // From the last: no place is written to before what stands there has moved on.
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

/// A byte that does not occur, if there is one.
fn unused(bytes: &[u8]) -> Option<u8> {
    let seen = bytes.par_chunks(1 << 20).map(|part| {
        let mut seen = [false; 256];
        part.iter().for_each(|byte| seen[usize::from(*byte)] = true);
        seen
    });
    let seen = seen.reduce(|| [false; 256], |one, other| std::array::from_fn(|byte| one[byte] | other[byte]));
    (0..=255u8).find(|byte| !seen[usize::from(*byte)])
}
