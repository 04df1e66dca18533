//! Lays out sequences as one text with separators.

use rayon::prelude::*;

use crate::base::int::{Count, to_u64, u64_to_usize};
use crate::count::PretokenCounts;

/// Length in bytes of all sequences laid end to end, each repeated as often as it occurs, with a separator
/// between any two. `None` if it does not fit 64 bits.
pub(super) fn laid_out(pretokens: &PretokenCounts) -> Option<u64> {
    let mut bytes = Count::ZERO;
    for (pretoken, count) in pretokens.iter() {
        bytes = bytes.checked_add(count.checked_mul(to_u64(pretoken.len() + 1))?)?;
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
pub(super) fn lay_out(pretokens: PretokenCounts) -> Layout {
    let total = laid_out(&pretokens).expect("what suits scanning has been added up");
    let copies: u64 = pretokens.iter().map(|(_, count)| count.get()).sum();
    let (mut bytes, ends, counts) = pretokens.into_parts();
    if copies <= 1 {
        return Layout { bytes, between: None, gaps: Vec::new(), separators: 0 };
    }
    let between = unused(&bytes);
    let mut gaps = Vec::new();
    bytes.reserve_exact(u64_to_usize(total) - bytes.len());
    bytes.resize(u64_to_usize(total), 0);
    // From the last sequence to the first, so that no bytes are overwritten before they have moved.
    let mut to = bytes.len();
    for pretoken in (0..counts.len()).rev() {
        let start = if pretoken == 0 { 0 } else { ends[pretoken - 1] };
        let end = ends[pretoken];
        for _ in 0..counts[pretoken].get() {
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
