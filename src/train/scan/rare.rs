//! Rare bytes, which share one code at first, so that more one-byte codes are left for new tokens.

use rayon::prelude::*;

use super::counts::{ByteTally, PairCounts};
use super::text::{Code, Text};
use crate::error::Result;
use crate::observer::Observer;

/// Bytes so rare that no pair with one of them is merged yet. They share one code in the text.
///
/// A pair is at most as frequent as either of its tokens. So while only pairs more frequent than
/// [`most`](Self::most) are merged, none of these bytes takes part in a merge and each keeps its place in the
/// text. A list, in the order of the text, says which byte each of them is.
///
/// Pairs with the shared code are counted together, and none of them is a candidate for a merge.
/// [`put_back`](Self::put_back) ends this state.
pub(super) struct Rare {
    /// The code that these bytes share.
    pub(super) code: u8,
    /// How often the most frequent of these bytes occurs.
    pub(super) most: u64,
    /// Whether each byte is one of them.
    has: [bool; 256],
    /// The byte at each occurrence of `code`, in the order of the text.
    bytes: Vec<u8>,
}

impl Rare {
    /// The bytes that make up less than `1 / share` of the text; `None` if no byte does. `used` has the count
    /// of each byte.
    pub(super) fn choose(used: &[u64; 256], in_text: u64, share: u64) -> Option<Rare> {
        let has: [bool; 256] =
            std::array::from_fn(|byte| used[byte] > 0 && used[byte].saturating_mul(share) < in_text);
        let code = (0..=255u8).find(|&byte| has[usize::from(byte)])?;
        let most = used.iter().zip(has).filter(|(_, has)| *has).map(|(count, _)| *count).max()?;
        Some(Rare { code, most, has, bytes: Vec::new() })
    }

    /// Whether `byte` is one of the rare bytes.
    pub(super) fn has(&self, byte: u8) -> bool {
        self.has[usize::from(byte)]
    }

    /// The byte at each occurrence of the shared code, in the order of the text.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Gives each rare byte its own code in a text of two-byte codes, and adds the pairs with these bytes to
    /// the counts.
    pub(super) fn put_back(self, codes: &[(u8, Code)], text: &mut Text, counts: &mut PairCounts) {
        let mut code_of = [0; 256];
        for &(byte, code) in codes {
            code_of[usize::from(byte)] = code;
        }
        let shared = Code::from(self.code);
        let mut bytes = self.bytes.iter();
        let mut before: Option<Code> = None;
        for chunk in 0..text.lengths.len() {
            let (start, length) = (chunk * text.room, text.lengths[chunk]);
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
pub(super) fn count(text: &Text, observer: &dyn Observer) -> Result<PairCounts> {
    let tally = text
        .low
        .par_chunks(text.room)
        .try_fold(ByteTally::new, |mut tally, chunk| -> Result<ByteTally> {
            observer.checkpoint()?;
            tally.count(chunk);
            Ok(tally)
        })
        .try_reduce_with(|tally, more| Ok(tally.add(more)))
        .unwrap_or_else(|| Ok(ByteTally::new()))?;
    let mut counts = tally.finish();
    for (left, right) in text.edges() {
        *counts.get_mut(left, right) += 1;
    }
    Ok(counts)
}

/// Replaces rare bytes by their shared code, in the text and in the counts of pairs.
///
/// # Errors
/// The observer asks to stop.
pub(super) fn set_aside(
    rare: Rare,
    text: &mut Text,
    counts: &mut PairCounts,
    observer: &dyn Observer,
) -> Result<Rare> {
    for byte in (0..=255).filter(|&byte| rare.has(byte)) {
        counts.hand_over(Code::from(byte), Code::from(rare.code));
    }
    let chunks = text.low.par_chunks_mut(text.room);
    let lists: Vec<Vec<u8>> =
        chunks.map(|chunk| observer.checkpoint().map(|()| take_out(&rare, chunk))).collect::<Result<_>>()?;
    Ok(Rare { bytes: lists.concat(), ..rare })
}

/// Replaces the rare bytes of a chunk by the shared code, and returns them in order.
fn take_out(rare: &Rare, chunk: &mut [u8]) -> Vec<u8> {
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
