use rayon::prelude::*;

use super::counts::{ByteTally, PairCounts};
use super::text::{Code, Text};
use crate::error::Result;
use crate::observer::Observer;

/// Bytes so rare that no pair of theirs is merged yet: they share one code in the text.
///
/// A pair is no more frequent than either of its tokens. So as long as pairs more frequent than
/// [`most`](Self::most) are merged, none of these bytes takes part in a merge; each stays where it is, and
/// which one it is can wait in a list in the order of the text.
pub(super) struct Rare {
    /// The code that they share.
    pub(super) code: u8,
    /// How often the most frequent of them occurs.
    pub(super) most: u64,
    has: [bool; 256],
    /// One byte for each place in the text where the code stands, in order.
    bytes: Vec<u8>,
}

impl Rare {
    /// The bytes that make up less than one in `share` of the text, if there are any.
    pub(super) fn choose(used: &[u64; 256], in_text: u64, share: u64) -> Option<Rare> {
        let has: [bool; 256] =
            std::array::from_fn(|byte| used[byte] > 0 && used[byte].saturating_mul(share) < in_text);
        let code = (0..=255u8).find(|&byte| has[usize::from(byte)])?;
        let most = used.iter().zip(has).filter(|(_, has)| *has).map(|(count, _)| *count).max()?;
        Some(Rare { code, most, has, bytes: Vec::new() })
    }

    pub(super) fn has(&self, byte: u8) -> bool {
        self.has[usize::from(byte)]
    }

    /// One of them for each place in the text where their code stands, in order.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Gives each its own code in a text of wide codes, and counts the pairs in which they stand.
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

/// Counts the pairs of a text of bytes.
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

/// Puts the shared code in the place of rare bytes, in the text and in the counts of pairs.
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

fn take_out(rare: &Rare, chunk: &mut [u8]) -> Vec<u8> {
    let mut list = Vec::new();
    for eight in chunk.chunks_mut(8) {
        // Seldom true, so that eight bytes cost one branch.
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
