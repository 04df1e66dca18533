//! The tie rules, and the keys by which they order pairs of equal count.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::corpus::{Cell, PairId, Weight, positions};
use super::pairs::{KeptPairs, Pair};
use crate::base::int::{ALL_BYTES, to_usize, truncate_to_u32};
use crate::count::PretokenCounts;

/// Rule that decides which of several pairs with the same score is merged first. Each rule is a total order of
/// the pairs, so the result never depends on threads or hash order.
///
/// ```
/// use tokenmill::Count;
/// use tokenmill::count::PretokenCounts;
/// use tokenmill::observer::Silent;
/// use tokenmill::train::{TieBreak, TrainConfig, learn_merges};
///
/// // (z, a) and (b, c) both occur twice.
/// let text: PretokenCounts = [(&b"zaza bcbc"[..], Count::ONE)].into_iter().collect();
/// let first_merge = |tie_break| {
///     let config = TrainConfig { tie_break, ..TrainConfig::new(1) };
///     let learned = learn_merges(text.clone(), &config, &Silent).unwrap();
///     learned.merges.iter().map(|merge| (merge.left, merge.right)).next()
/// };
/// assert_eq!(first_merge(TieBreak::Ids), Some((u32::from(b'b'), u32::from(b'c'))));
/// assert_eq!(first_merge(TieBreak::First), Some((u32::from(b'z'), u32::from(b'a'))));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TieBreak {
    /// The smallest (left id, right id), with byte `b` as id `b`; as in rustbpe and bpeasy.
    #[default]
    Ids,
    /// The smallest ids, with the bytes in the order of GPT-2's byte alphabet; as in HF tokenizers.
    Hf,
    /// The pair that occurs first in the current text; as in minbpe.
    First,
    /// The greatest (left bytes, right bytes); as in the Stanford CS336 assignment.
    BytesGreatest,
    /// The smallest (left bytes, right bytes); as in fastboundlessbpe.
    BytesSmallest,
    /// The greatest (left bytes, right bytes), with the bytes in the order of GPT-2's byte alphabet; as in the
    /// parity-aware trainer of HF tokenizers.
    AlphabetGreatest,
}

impl TieBreak {
    /// Every rule.
    #[cfg(test)]
    pub(crate) const ALL: [TieBreak; 6] = [
        TieBreak::Ids,
        TieBreak::Hf,
        TieBreak::First,
        TieBreak::BytesGreatest,
        TieBreak::BytesSmallest,
        TieBreak::AlphabetGreatest,
    ];

    /// Whether the rule compares the ids of tokens and nothing else.
    pub(super) fn compares_ids(self) -> bool {
        match self {
            TieBreak::Ids | TieBreak::Hf => true,
            TieBreak::First
            | TieBreak::BytesGreatest
            | TieBreak::BytesSmallest
            | TieBreak::AlphabetGreatest => false,
        }
    }

    /// The byte that the rule compares in place of each byte, if it compares bytes.
    pub(super) fn compared_bytes(self) -> [u8; 256] {
        match self {
            TieBreak::AlphabetGreatest => gpt2_ranks(),
            _ => ALL_BYTES,
        }
    }

    /// Whether the rule compares the bytes of tokens. Training otherwise knows tokens by their ids alone.
    pub(super) fn compares_bytes(self) -> bool {
        match self {
            TieBreak::Ids | TieBreak::Hf | TieBreak::First => false,
            TieBreak::BytesGreatest | TieBreak::BytesSmallest | TieBreak::AlphabetGreatest => true,
        }
    }
}

/// A tie rule: orders pairs of equal count by a key. The pair with the smallest key is merged first.
///
/// The key of a pair is computed when the queue reaches the pair's count, and is compared only with keys of
/// pairs that have the same count.
pub(super) trait TieOrder: Send {
    /// Type of the keys.
    type Key: Ord + Copy + Send;

    /// Key of a pair that occurs in the text. It stays the same until the pair's count changes.
    fn key<W: Weight + Default>(&self, id: PairId, pairs: &KeptPairs<W>, cells: &[Cell]) -> Self::Key;

    /// Rank of each byte, for rules that compare the ids of (left, right) with the bytes in some order before
    /// all other tokens. `None` for other rules.
    fn byte_order(&self) -> Option<&[u32; 256]> {
        None
    }

    /// Notes that a new token of `length` bytes has been made, which occurs at `position`.
    fn token_created(&mut self, _position: usize, _length: usize) {}
}

/// Order by (left id, right id), with the single bytes ranked by a table.
pub(super) struct ById {
    /// Rank of each byte; all other tokens come after the bytes, ranked by their ids.
    pub(super) byte_order: [u32; 256],
}

impl ById {
    /// The order of the rule: [`TieBreak::Hf`] ranks the bytes as GPT-2's byte alphabet does, any other rule by
    /// value.
    pub(super) fn new(rule: TieBreak) -> ById {
        match rule {
            TieBreak::Hf => ById { byte_order: gpt2_ranks().map(u32::from) },
            // The other rules do not compare ids.
            TieBreak::Ids
            | TieBreak::First
            | TieBreak::BytesGreatest
            | TieBreak::BytesSmallest
            | TieBreak::AlphabetGreatest => ById { byte_order: std::array::from_fn(truncate_to_u32) },
        }
    }

    /// Rank of a token in this order.
    pub(super) fn rank(&self, token: u32) -> u64 {
        u64::from(self.byte_order.get(to_usize(token)).copied().unwrap_or(token))
    }
}

impl TieOrder for ById {
    type Key = u64;

    fn key<W: Weight + Default>(&self, id: PairId, pairs: &KeptPairs<W>, _cells: &[Cell]) -> u64 {
        let Pair { left, right, .. } = pairs.pair(id);
        self.rank(left) << 32 | self.rank(right)
    }

    fn byte_order(&self) -> Option<&[u32; 256]> {
        Some(&self.byte_order)
    }
}

/// Order by the position of the first occurrence in the current text.
///
/// The first position stays the same as long as the count does: an occurrence that disappears lowers the count,
/// and no occurrence is added after the pair was created.
pub(super) struct ByFirstPosition;

impl TieOrder for ByFirstPosition {
    type Key = u32;

    fn key<W: Weight + Default>(&self, id: PairId, pairs: &KeptPairs<W>, cells: &[Cell]) -> u32 {
        pairs.first_position(id, cells)
    }
}

/// Rank of each byte by its code point in GPT-2's byte alphabet: 33–126, 161–172 and 174–255 map to themselves and
/// come first; the other 68 map to code points above them, in ascending order.
fn gpt2_ranks() -> [u8; 256] {
    let stays = |byte: &u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let first = (0..=255u8).filter(stays);
    let then = (0..=255u8).filter(|byte| !stays(byte));
    let mut ranks = [0; 256];
    for (rank, byte) in (0..=255).zip(first.chain(then)) {
        ranks[usize::from(byte)] = rank;
    }
    ranks
}

/// The bytes that a tie rule compares, each at the position where [`Corpus`](super::corpus::Corpus) has its token.
/// Separators are 0. Empty if the rule compares no bytes.
pub(super) fn compared_text(pretokens: &PretokenCounts, rule: TieBreak) -> Vec<u8> {
    if !rule.compares_bytes() {
        return Vec::new();
    }
    let compared = rule.compared_bytes();
    let mut bytes = Vec::with_capacity(positions(pretokens));
    bytes.push(0);
    for (pretoken, _) in pretokens.iter() {
        bytes.extend(pretoken.iter().map(|byte| compared[usize::from(*byte)]));
        bytes.push(0);
    }
    bytes
}

/// Order by the bytes of (left, right), smallest first.
pub(super) struct ByBytes<'a> {
    bytes: &'a [u8],
    /// The byte that is compared in place of each byte, as in `bytes`.
    compared: [u8; 256],
    /// Start in `bytes` and length of each token that is not a single byte.
    created_tokens: Vec<(usize, usize)>,
}

impl<'a> ByBytes<'a> {
    /// `bytes` has the byte at each position of the corpus, in place of which `compared` is compared.
    pub(super) fn new(bytes: &'a [u8], compared: [u8; 256]) -> ByBytes<'a> {
        ByBytes { bytes, compared, created_tokens: Vec::new() }
    }

    /// The bytes of a token.
    pub(super) fn of(&self, token: u32) -> &'a [u8] {
        let token = to_usize(token);
        if let Some(&byte) = self.compared.get(token) {
            return &ALL_BYTES[usize::from(byte)..=usize::from(byte)];
        }
        let (start, length) = self.created_tokens[token - 256];
        &self.bytes[start..start + length]
    }
}

impl<'a> TieOrder for ByBytes<'a> {
    type Key = (&'a [u8], &'a [u8]);

    fn key<W: Weight + Default>(&self, id: PairId, pairs: &KeptPairs<W>, _cells: &[Cell]) -> Self::Key {
        let Pair { left, right, .. } = pairs.pair(id);
        (self.of(left), self.of(right))
    }

    fn token_created(&mut self, position: usize, length: usize) {
        self.created_tokens.push((position, length));
    }
}

/// The reverse of another order.
pub(super) struct Reversed<O>(pub(super) O);

impl<O: TieOrder> TieOrder for Reversed<O> {
    type Key = Reverse<O::Key>;

    fn key<W: Weight + Default>(&self, id: PairId, pairs: &KeptPairs<W>, cells: &[Cell]) -> Self::Key {
        Reverse(self.0.key(id, pairs, cells))
    }

    fn token_created(&mut self, position: usize, length: usize) {
        self.0.token_created(position, length);
    }
}
