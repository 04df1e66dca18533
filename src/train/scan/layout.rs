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

/// How often each byte occurs.
pub(super) fn histogram(text: &[u8]) -> [u64; 256] {
    let parts = text.par_chunks(1 << 20).map(|part| {
        // Four tables, so that a byte need not wait for the one before it to be counted.
        let mut tables = [[0u32; 256]; 4];
        let mut quads = part.chunks_exact(4);
        for quad in &mut quads {
            for (table, byte) in tables.iter_mut().zip(quad) {
                table[usize::from(*byte)] += 1;
            }
        }
        for byte in quads.remainder() {
            tables[0][usize::from(*byte)] += 1;
        }
        std::array::from_fn(|byte| tables.iter().map(|table| u64::from(table[byte])).sum())
    });
    let sum = |a: [u64; 256], b: [u64; 256]| std::array::from_fn(|byte| a[byte] + b[byte]);
    parts.reduce(|| [0; 256], sum)
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
    let used = histogram(&bytes);
    let between = (0..=255u8).find(|byte| used[usize::from(*byte)] == 0);
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
