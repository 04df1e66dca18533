use std::cmp::Reverse;
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::base::int::{to_usize, truncate_to_u32};
use crate::encode::longest_match::NONE;
use crate::vocab::Vocabulary;

/// The empty prefix.
pub(super) const ROOT: u32 = 0;

/// Longer tokens above which a prefix is large.
const MANY: usize = 64;

/// A trie of the prefixes of all tokens, ordered by length, then by bytes.
///
/// **Memory:** 17 bytes per prefix, 4 per token, and 4 for each token that begins with a large prefix.
#[derive(Debug)]
pub(in crate::encode::longest_match) struct Prefixes {
    /// The children of each prefix follow those of the prefix before. One sentinel at the end.
    all: Vec<Prefix>,
    /// The last byte of each prefix, and eight bytes of padding.
    last: Vec<u8>,
    /// See [`codes`](Prefixes::codes).
    codes: [u8; 256],
    /// The first prefix of each length.
    lengths: Vec<u32>,
    /// For each token, in order of the tokens' bytes, its number as a follower.
    numbers: Vec<u32>,
    /// For each large prefix, the numbers of the tokens that are longer than it, in ascending order.
    longer: FxHashMap<u32, Vec<u32>>,
}

#[derive(Debug)]
struct Prefix {
    /// The first child.
    children: u32,
    /// The token with exactly these bytes, or [`NONE`].
    token: u32,
    /// The longer tokens that begin with this prefix, as a range in the order of bytes.
    longer: Range<u32>,
}

/// The bytes of a token, and its id.
type Spelled<'t> = (&'t [u8], u32);

impl Prefixes {
    /// The trie of a vocabulary. `number` returns the number of a token as a follower.
    pub(in crate::encode::longest_match) fn new(
        vocabulary: &Vocabulary,
        number: impl Fn(u32) -> u32,
    ) -> Prefixes {
        let mut tokens: Vec<Spelled<'_>> =
            vocabulary.ordinary().map(|(id, bytes)| (bytes, id.get())).collect();
        tokens.sort_unstable();
        let mut prefixes = Prefixes {
            all: Vec::new(),
            last: vec![0],
            codes: codes(&tokens),
            lengths: Vec::new(),
            numbers: tokens.iter().map(|&(_, token)| number(token)).collect(),
            longer: FxHashMap::default(),
        };
        let mut level = vec![Range { start: 0, end: tokens.len() }];
        while !level.is_empty() {
            level = prefixes.add(&tokens, level);
        }
        prefixes.all.push(Prefix {
            children: truncate_to_u32(prefixes.last.len()),
            token: NONE,
            longer: 0..0,
        });
        prefixes.last.extend([0; 8]);
        prefixes
    }

    /// Adds the prefixes of the next length, each given as the range of tokens that begin with it. Returns the
    /// ranges for the length after.
    fn add(&mut self, tokens: &[Spelled<'_>], level: Vec<Range<usize>>) -> Vec<Range<usize>> {
        let length = self.lengths.len();
        self.lengths.push(truncate_to_u32(self.all.len()));
        let mut next = Vec::new();
        for Range { mut start, end } in level {
            let prefix = truncate_to_u32(self.all.len());
            let (bytes, mut token) = tokens[start];
            match bytes.len() == length {
                true => start += 1,
                false => token = NONE,
            }
            let longer = truncate_to_u32(start)..truncate_to_u32(end);
            self.all.push(Prefix { children: truncate_to_u32(self.last.len()), token, longer });
            if end - start > MANY {
                let mut numbers = self.numbers[start..end].to_vec();
                numbers.sort_unstable();
                self.longer.insert(prefix, numbers);
            }
            for begun in tokens[start..end].chunk_by(|one, other| one.0[length] == other.0[length]) {
                self.last.push(begun[0].0[length]);
                next.push(start..start + begun.len());
                start += begun.len();
            }
        }
        next
    }

    /// A code for each byte, lower for bytes that occur in tokens more often, so that the most frequent
    /// transitions are adjacent in memory.
    pub(super) fn codes(&self) -> &[u8; 256] {
        &self.codes
    }

    /// The code of a byte.
    pub(super) fn code(&self, byte: u8) -> u8 {
        self.codes[usize::from(byte)]
    }

    /// The prefix that is this byte.
    pub(super) fn byte(byte: u8) -> u32 {
        // Every byte is a token, so all of them are children of the empty prefix.
        1 + u32::from(byte)
    }

    /// This prefix with one more byte, if any token begins so.
    pub(super) fn child(&self, prefix: u32, byte: u8) -> Option<u32> {
        let [this, next] =
            [to_usize(prefix), to_usize(prefix) + 1].map(|prefix| to_usize(self.all[prefix].children));
        let nth = match self.last[this..].first_chunk() {
            Some(bytes) if next - this <= 8 => first_of(u64::from_le_bytes(*bytes), byte),
            _ => self.last[this..next].iter().position(|&last| last == byte)?,
        };
        (nth < next - this).then(|| truncate_to_u32(this + nth))
    }

    /// The token with exactly these bytes, or [`NONE`].
    pub(super) fn token(&self, prefix: u32) -> u32 {
        self.all[to_usize(prefix)].token
    }

    /// The longer tokens that begin with this prefix, as a range in the order of bytes. If the prefix is a token
    /// itself, its index is directly before the range.
    pub(super) fn longer(&self, prefix: u32) -> Range<u32> {
        self.all[to_usize(prefix)].longer.clone()
    }

    /// The number as a follower of the token with this index in the order of bytes.
    pub(super) fn number(&self, nth: u32) -> u32 {
        self.numbers[to_usize(nth)]
    }

    /// Whether more than [`MANY`] longer tokens begin with a prefix.
    pub(super) fn is_large(&self, prefix: u32) -> bool {
        self.longer(prefix).len() > MANY
    }

    /// The numbers as followers of the longer tokens, ascending, if the prefix is large.
    pub(super) fn numbers_of_longer(&self, prefix: u32) -> Option<&[u32]> {
        self.is_large(prefix).then(|| &*self.longer[&prefix])
    }

    /// Length of the longest token in bytes. This is also the most partial tokens at any position.
    pub(in crate::encode::longest_match) fn longest(&self) -> usize {
        self.lengths.len() - 1
    }

    /// Length of a prefix in bytes.
    pub(super) fn length(&self, prefix: u32) -> usize {
        self.lengths.partition_point(|&first| first <= prefix) - 1
    }
}

/// For each byte, its index in the order of frequency in tokens.
fn codes(tokens: &[Spelled<'_>]) -> [u8; 256] {
    let mut frequency = [0_u32; 256];
    for &byte in tokens.iter().flat_map(|(bytes, _)| *bytes) {
        frequency[usize::from(byte)] += 1;
    }
    let mut bytes: Vec<u8> = (0..=u8::MAX).collect();
    bytes.sort_by_key(|&byte| Reverse(frequency[usize::from(byte)]));
    let mut codes = [0; 256];
    for (code, byte) in (0..=u8::MAX).zip(bytes) {
        codes[usize::from(byte)] = code;
    }
    codes
}

/// The index of the first of eight bytes, from the low end of a word, that equals `byte`; 8 if none does.
#[inline(always)]
pub(super) fn first_of(bytes: u64, byte: u8) -> usize {
    const LOW: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = LOW << 7;
    let unlike = bytes ^ (LOW * u64::from(byte));
    let equal = unlike.wrapping_sub(LOW) & !unlike & HIGH;
    to_usize(equal.trailing_zeros() / 8)
}
