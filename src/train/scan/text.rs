//! The scanned text: sequences laid out as codes in chunks, rare bytes that share a code at first, and dense
//! tables of pair counts.

use rayon::prelude::*;

use crate::base::int::{Count, to_u64, u64_to_usize};
use crate::count::PretokenCounts;
use crate::error::Result;
use crate::observer::{Observer, Stage};

/// Code of a token in the scanned text.
pub(super) type Code = u16;

/// The text as codes: a plane with their low bytes, and a plane with their high bytes once these are needed.
///
/// It is divided into chunks of equal capacity. Each chunk is filled from its start with the codes that it has
/// left. A merge across two chunks replaces the last code of the first one; otherwise no code moves to another
/// chunk, so each thread can work on some chunks independently.
pub(super) struct CodeText {
    /// Low byte of each code.
    pub(super) low: Vec<u8>,
    /// High byte of each code. Empty as long as all codes fit one byte, otherwise as long as `low`.
    pub(super) high: Vec<u8>,
    /// Number of codes in each chunk.
    pub(super) lengths: Vec<usize>,
    /// Capacity of each chunk except the last, in codes.
    pub(super) chunk_capacity: usize,
}

impl CodeText {
    /// The text with one code per byte, in chunks of `chunk_capacity` codes.
    pub(super) fn new(bytes: Vec<u8>, chunk_capacity: usize) -> CodeText {
        let lengths = bytes.chunks(chunk_capacity).map(<[u8]>::len).collect();
        CodeText { low: bytes, high: Vec::new(), lengths, chunk_capacity }
    }

    /// Adds the plane of high bytes.
    pub(super) fn widen(&mut self) {
        // Zeroed memory is not allocated until it is written, so the end of chunks that will never be filled
        // again costs nothing.
        self.high = vec![0; self.low.len()];
    }

    /// The code at index `at` of a chunk.
    pub(super) fn code(&self, chunk: usize, at: usize) -> Code {
        let at = chunk * self.chunk_capacity + at;
        Code::from_le_bytes([self.low[at], self.high.get(at).copied().unwrap_or(0)])
    }

    /// The chunks that are not empty.
    pub(super) fn nonempty_chunks(&self) -> impl Iterator<Item = usize> {
        (0..self.lengths.len()).filter(|&chunk| self.lengths[chunk] > 0)
    }

    /// The first code after a chunk.
    pub(super) fn first_after(&self, chunk: usize) -> Option<Code> {
        let next = (chunk + 1..self.lengths.len()).find(|&next| self.lengths[next] > 0)?;
        Some(self.code(next, 0))
    }

    /// Pairs across chunks: the last code of each chunk, with the first of the next chunk that is not empty.
    pub(super) fn chunk_borders(&self) -> impl Iterator<Item = (Code, Code)> {
        let next = self.nonempty_chunks().skip(1);
        self.nonempty_chunks()
            .zip(next)
            .map(|(chunk, next)| (self.code(chunk, self.lengths[chunk] - 1), self.code(next, 0)))
    }
}

/// Length in bytes of all sequences laid end to end, each repeated as often as it occurs, with a separator
/// between any two. `None` if it does not fit 64 bits.
pub(super) fn joined_length(pretokens: &PretokenCounts) -> Option<u64> {
    let mut bytes = Count::ZERO;
    for (pretoken, count) in pretokens.iter() {
        bytes = bytes.checked_add(count.checked_mul(to_u64(pretoken.len() + 1))?)?;
    }
    Some(bytes.get().saturating_sub(1))
}

/// Sequences laid end to end.
pub(super) struct JoinedSequences {
    /// The bytes, with one byte between any two sequences.
    pub(super) bytes: Vec<u8>,
    /// Separator: a byte that occurs in no sequence, if any is left.
    pub(super) separator: Option<u8>,
    /// Positions of the separators, last first, if no byte is left that could mark them. Otherwise empty.
    pub(super) separator_positions: Vec<usize>,
    /// Number of separators.
    pub(super) separators: u64,
}

/// Lays the sequences end to end in place, each repeated as often as it occurs, with a separator between any
/// two.
///
/// # Panics
/// If the length is larger than memory can address. [`is_suitable`](super::is_suitable) has excluded such sequences.
pub(super) fn join(pretokens: PretokenCounts) -> JoinedSequences {
    let total = joined_length(&pretokens).expect("what suits scanning has been added up");
    let copies: u64 = pretokens.iter().map(|(_, count)| count.get()).sum();
    let (mut bytes, ends, counts) = pretokens.into_parts();
    if copies <= 1 {
        return JoinedSequences { bytes, separator: None, separator_positions: Vec::new(), separators: 0 };
    }
    let separator = unused_byte(&bytes);
    let mut separator_positions = Vec::new();
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
                bytes[to] = separator.unwrap_or(0);
                if separator.is_none() {
                    separator_positions.push(to);
                }
            }
        }
    }
    JoinedSequences { bytes, separator, separator_positions, separators: copies - 1 }
}

/// A byte that does not occur, if any.
fn unused_byte(bytes: &[u8]) -> Option<u8> {
    let seen = bytes.par_chunks(1 << 20).map(|part| {
        let mut seen = [false; 256];
        part.iter().for_each(|byte| seen[usize::from(*byte)] = true);
        seen
    });
    let seen = seen.reduce(|| [false; 256], |one, other| std::array::from_fn(|byte| one[byte] | other[byte]));
    (0..=255u8).find(|byte| !seen[usize::from(*byte)])
}

/// Codes that fit the largest table.
pub(super) const MAX_CODES: usize = 1 << 10;

/// How often each pair of codes occurs, in a dense table.
///
/// **Memory:** 8 bytes per pair: 0.5 MB for one-byte codes, 8 MB for two-byte codes.
pub(super) struct PairCounts {
    /// Number of codes that the table has space for.
    pub(super) side: usize,
    /// Counts by left code × `side` + right code.
    counts: Vec<u64>,
}

impl PairCounts {
    /// A table for codes below `side`, with all counts 0.
    pub(super) fn new(side: usize) -> PairCounts {
        PairCounts { side, counts: vec![0; side * side] }
    }

    /// The same counts in a larger table, for codes below `side`.
    pub(super) fn widened(&self, side: usize) -> PairCounts {
        let mut wide = PairCounts::new(side);
        for (to, from) in wide.counts.chunks_exact_mut(side).zip(self.counts.chunks_exact(self.side)) {
            to[..self.side].copy_from_slice(from);
        }
        wide
    }

    /// Count of a pair.
    pub(super) fn get(&self, left: Code, right: Code) -> u64 {
        self.counts[usize::from(left) * self.side + usize::from(right)]
    }

    /// Count of a pair, to be changed.
    pub(super) fn get_mut(&mut self, left: Code, right: Code) -> &mut u64 {
        &mut self.counts[usize::from(left) * self.side + usize::from(right)]
    }

    /// Counts of the pairs with this left code, by right code.
    pub(super) fn row(&self, left: Code) -> &[u64] {
        let start = usize::from(left) * self.side;
        &self.counts[start..start + self.side]
    }
}

impl PairCounts {
    /// Adds all counts of the code `from` to those of the code `to`, and clears them.
    pub(super) fn move_counts(&mut self, from: Code, to: Code) {
        if from == to {
            return;
        }
        let (from, to) = (usize::from(from), usize::from(to));
        for other in 0..self.side {
            let count = std::mem::take(&mut self.counts[from * self.side + other]);
            self.counts[to * self.side + other] += count;
        }
        for other in 0..self.side {
            let count = std::mem::take(&mut self.counts[other * self.side + from]);
            self.counts[other * self.side + to] += count;
        }
    }
}

/// Counters of 64 bits that are incremented as 32-bit numbers, because twice as many of those fit the caches.
///
/// [`reserve`](Self::reserve) must be called before `recent` is incremented.
pub(super) struct Counters {
    /// The counts since they were last added to `sums`.
    pub(super) recent: Vec<u32>,
    /// Upper bound of each count in `recent`: below 2³², so that none overflows.
    bound: u64,
    /// Sums of earlier contents of `recent`. Empty at first.
    sums: Vec<u64>,
}

impl Counters {
    /// `length` counters at 0.
    pub(super) fn new(length: usize) -> Counters {
        Counters { recent: vec![0; length], bound: 0, sums: Vec::new() }
    }

    /// Makes sure that `increments` more increments of one counter do not overflow.
    pub(super) fn reserve(&mut self, increments: usize) {
        if self.bound + to_u64(increments) > u64::from(u32::MAX) {
            self.flush();
        }
        self.bound += to_u64(increments);
    }

    /// Adds the recent counts to the sums and clears them.
    fn flush(&mut self) {
        self.sums.resize(self.recent.len(), 0);
        for (sum, recent) in self.sums.iter_mut().zip(&mut self.recent) {
            *sum += u64::from(std::mem::take(recent));
        }
        self.bound = 0;
    }

    /// The counts in 64 bits.
    pub(super) fn into_sums(mut self) -> Vec<u64> {
        self.flush();
        self.sums
    }

    /// The sums of two sets of counters.
    pub(super) fn add(mut self, other: Counters) -> Counters {
        self.flush();
        self.sums.iter_mut().zip(other.into_sums()).for_each(|(sum, more)| *sum += more);
        self
    }
}

/// Counts the pairs of bytes within a chunk of a text, by right byte × 256 + left byte.
fn count_byte_pairs(counters: &mut Counters, text: &[u8]) {
    counters.reserve(text.len());
    let counts = counters.recent.first_chunk_mut::<{ 1 << 16 }>().expect("a count for each pair of bytes");
    let mut rest = text;
    // Eight pairs from two loads: one has the pairs that begin at even bytes, the other those that begin at odd
    // bytes.
    while let Some((nine, _)) = rest.split_first_chunk::<9>() {
        let [even @ .., _] = *nine;
        let [_, odd @ ..] = *nine;
        let (even, odd) = (u64::from_le_bytes(even), u64::from_le_bytes(odd));
        for shift in [0, 16, 32, 48] {
            counts[u64_to_usize(even >> shift & 0xFFFF)] += 1;
            counts[u64_to_usize(odd >> shift & 0xFFFF)] += 1;
        }
        rest = &rest[8..];
    }
    for pair in rest.windows(2) {
        counts[usize::from(pair[1]) << 8 | usize::from(pair[0])] += 1;
    }
}

/// Bytes so rare that no pair with one of them is merged yet. They share one code in the text.
///
/// A pair is at most as frequent as either of its tokens. So while only pairs more frequent than
/// [`max_count`](Self::max_count) are merged, none of these bytes takes part in a merge and each keeps its place in the
/// text. A list, in the order of the text, says which byte each of them is.
///
/// Pairs with the shared code are counted together, and none of them is a candidate for a merge.
/// [`restore`](Self::restore) ends this state.
pub(super) struct RareBytes {
    /// The code that these bytes share.
    pub(super) code: u8,
    /// How often the most frequent of these bytes occurs.
    pub(super) max_count: u64,
    /// Whether each byte is one of them.
    has: [bool; 256],
    /// The byte at each occurrence of `code`, in the order of the text.
    pub(super) bytes: Vec<u8>,
}

impl RareBytes {
    /// The bytes that make up less than `1 / share` of the text; `None` if no byte does. `used` has the count
    /// of each byte.
    pub(super) fn choose(used: &[u64; 256], token_count: u64, share: u64) -> Option<RareBytes> {
        let has: [bool; 256] =
            std::array::from_fn(|byte| used[byte] > 0 && used[byte].saturating_mul(share) < token_count);
        let code = (0..=255u8).find(|&byte| has[usize::from(byte)])?;
        let max_count = used.iter().zip(has).filter(|(_, has)| *has).map(|(count, _)| *count).max()?;
        Some(RareBytes { code, max_count, has, bytes: Vec::new() })
    }

    /// Whether `byte` is one of the rare bytes.
    pub(super) fn has(&self, byte: u8) -> bool {
        self.has[usize::from(byte)]
    }

    /// Gives each rare byte its own code in a text of two-byte codes, and adds the pairs with these bytes to
    /// the counts.
    pub(super) fn restore(self, codes: &[(u8, Code)], text: &mut CodeText, counts: &mut PairCounts) {
        let mut code_of = [0; 256];
        for &(byte, code) in codes {
            code_of[usize::from(byte)] = code;
        }
        let shared = Code::from(self.code);
        let mut bytes = self.bytes.iter();
        let mut before: Option<Code> = None;
        for chunk in 0..text.lengths.len() {
            let (start, length) = (chunk * text.chunk_capacity, text.lengths[chunk]);
            let mut from = 0;
            while let Some(found) = memchr::memchr(self.code, &text.low[start + from..start + length]) {
                let at = from + found;
                from = at + 1;
                if text.code(chunk, at) != shared {
                    continue;
                }
                let byte = *bytes.next().expect("one byte was kept for each place");
                let code = code_of[usize::from(byte)];
                let left = if at == 0 { before } else { Some(text.code(chunk, at - 1)) };
                let right =
                    if at + 1 < length { Some(text.code(chunk, at + 1)) } else { text.first_after(chunk) };
                if let Some(left) = left {
                    *counts.get_mut(left, code) += 1;
                }
                if let Some(right) = right.filter(|&right| right != shared) {
                    *counts.get_mut(code, right) += 1;
                }
                [text.low[start + at], text.high[start + at]] = code.to_le_bytes();
            }
            if length > 0 {
                before = Some(text.code(chunk, length - 1));
            }
        }
    }
}

/// Counts the pairs of a text of one-byte codes.
///
/// # Errors
/// The observer asks to stop.
pub(super) fn count_pairs(text: &CodeText, observer: &dyn Observer) -> Result<PairCounts> {
    let new = || Counters::new(1 << 16);
    let counters = text
        .low
        .par_chunks(text.chunk_capacity)
        .try_fold(new, |mut counters, chunk| -> Result<Counters> {
            observer.checkpoint()?;
            count_byte_pairs(&mut counters, chunk);
            observer.advanced(Stage::Prepare, to_u64(chunk.len()));
            Ok(counters)
        })
        .try_reduce_with(|sum, more| Ok(sum.add(more)))
        .unwrap_or_else(|| Ok(new()))?;
    let sums = counters.into_sums();
    let by_left = (0..1 << 16).map(|pair| sums[(pair & 0xFF) << 8 | pair >> 8]).collect();
    let mut counts = PairCounts { side: 256, counts: by_left };
    for (left, right) in text.chunk_borders() {
        *counts.get_mut(left, right) += 1;
    }
    Ok(counts)
}

/// Replaces rare bytes by their shared code, in the text and in the counts of pairs.
///
/// # Errors
/// The observer asks to stop.
pub(super) fn share_code(
    rare: RareBytes,
    text: &mut CodeText,
    counts: &mut PairCounts,
    observer: &dyn Observer,
) -> Result<RareBytes> {
    for byte in (0..=255).filter(|&byte| rare.has(byte)) {
        counts.move_counts(Code::from(byte), Code::from(rare.code));
    }
    let chunks = text.low.par_chunks_mut(text.chunk_capacity);
    let lists: Vec<Vec<u8>> = chunks
        .map(|chunk| {
            observer.checkpoint()?;
            let list = replace_rare(&rare, chunk);
            observer.advanced(Stage::Prepare, to_u64(chunk.len()));
            Ok(list)
        })
        .collect::<Result<_>>()?;
    Ok(RareBytes { bytes: lists.concat(), ..rare })
}

/// Replaces the rare bytes of a chunk by the shared code, and returns them in order.
fn replace_rare(rare: &RareBytes, chunk: &mut [u8]) -> Vec<u8> {
    let mut list = Vec::new();
    for eight in chunk.chunks_mut(8) {
        // Seldom true, so this costs one branch per eight bytes.
        if !eight.iter().fold(false, |any, &byte| any | rare.has(byte)) {
            continue;
        }
        for byte in eight.iter_mut().filter(|byte| rare.has(**byte)) {
            list.push(*byte);
            *byte = rare.code;
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_bytes_are_counted_beyond_32_bits() {
        let at = usize::from(b'b') << 8 | usize::from(b'a');
        let counters = || {
            let mut counters = Counters::new(1 << 16);
            // The state after four billion pairs.
            (counters.recent[at], counters.bound) = (u32::MAX, u64::from(u32::MAX));
            count_byte_pairs(&mut counters, b"ab ab");
            counters
        };
        assert_eq!(counters().into_sums()[at], u64::from(u32::MAX) + 2);
        assert_eq!(counters().add(counters()).into_sums()[at], 2 * (u64::from(u32::MAX) + 2));
    }
}
