//! How merges derive tokens from bytes, and the checks of vocabularies that follow from it.
//!
//! - [`BpeMerger`] merges a sequence as the definition of byte-pair encoding says.
//! - [`TokenDerivation`] decides whether merges make a token of its own bytes, by looking only at the border between
//!   its two parts instead of merging its bytes.
//! - [`Decompositions`] finds all ways to compose tokens of two other tokens, for files that list tokens without
//!   merges.
//! - [`check`] says which fast ways to encode are exact for a vocabulary.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::iter::successors;
use std::ops::Range;

use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};
use rustc_hash::{FxBuildHasher, FxHashMap};
use serde::Serialize;

use super::vocabulary::{RankedMerge, Vocabulary};
use crate::base::hash::Set;
use crate::base::int::{TokenId, to_usize};

/// Properties of a vocabulary beyond its invariants. Vocabularies learned by this program have all of them; edited or
/// concatenated ones lack some.
///
/// None of these is an error: every vocabulary can be used. They decide [how](crate::encode::Method) a vocabulary is
/// encoded and which formats can hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Checks {
    /// Number of ids below [`id_limit`](Vocabulary::id_limit) that no token has.
    pub holes: usize,
    /// Number of tokens of several bytes that no merge makes.
    pub without_merge: usize,
    /// Number of tokens that are not what the merges make of their own bytes. Tokens without bytes are not counted.
    pub not_self_encoding: usize,
    /// Whether no two tokens have equal bytes.
    pub unique_bytes: bool,
    /// Whether each token is made by one merge at most.
    pub one_merge_each: bool,
    /// Whether all ranks differ, and the parts of each merge are bytes or are made by merges of lower rank only.
    pub rank_order: bool,
    /// Whether the merges in order of rank make tokens in order of id.
    pub ids_in_rank_order: bool,
}

impl Checks {
    /// Returns whether the shortcuts for trained vocabularies are exact for this one: merging by the rank of the
    /// joined bytes equals merging by the list of merges, whole pre-tokens may be looked up before merging, and a
    /// sequence of tokens is an encoding if every two adjacent tokens in it are.
    ///
    /// Otherwise an encoder carries out the merges one by one, which is slower and exact for every vocabulary.
    pub fn shortcuts_hold(&self) -> bool {
        self.not_self_encoding == 0 && self.unique_bytes && self.one_merge_each && self.rank_order
    }
}

/// Checks a vocabulary on the threads of the current Rayon pool. Takes a few tens of milliseconds for 100 000 tokens.
///
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::run::{LearnConfig, learn};
/// use tokenmill::source;
///
/// let texts = source::texts(["how much wood would a woodchuck chuck"]);
/// let (vocabulary, _) = learn(texts, &LearnConfig::new(300, &["<|endoftext|>"]), &Silent)?;
/// assert!(tokenmill::vocab::check(&vocabulary).shortcuts_hold());
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn check(vocabulary: &Vocabulary) -> Checks {
    let merges_by_token = merges_by_token(vocabulary);
    let results: Vec<TokenId> = vocabulary.merges.iter().map(|merge| merge.result).collect();
    let one_merge_each = merges_by_token.iter().all(|made_by| made_by.merges <= 1);
    let rank_order = rank_order(vocabulary, &merges_by_token);
    let (mut without_merge, mut unique, mut seen) = (0, true, Set::default());
    for (id, bytes) in vocabulary.ordinary() {
        without_merge += usize::from(bytes.len() > 1 && merges_by_token[id.index()].merges == 0);
        unique &= seen.insert(bytes);
    }
    Checks {
        holes: vocabulary.tokens.iter().filter(|token| token.is_none()).count(),
        without_merge,
        not_self_encoding: not_self_encoding(vocabulary, one_merge_each && rank_order).len(),
        unique_bytes: unique,
        one_merge_each,
        rank_order,
        ids_in_rank_order: results.is_sorted(),
    }
}

/// Returns the tokens that the merges do not make of the tokens' own bytes, by ascending id. Tokens without bytes are
/// not among them. No text is encoded to one of these tokens by merging: a token in an encoding is made of its bytes as
/// if they stood alone, since no merge crossed its borders.
pub(super) fn unmade_tokens(vocabulary: &Vocabulary) -> Vec<TokenId> {
    let merges_by_token = merges_by_token(vocabulary);
    let one_merge_each = merges_by_token.iter().all(|made_by| made_by.merges <= 1);
    not_self_encoding(vocabulary, one_merge_each && rank_order(vocabulary, &merges_by_token))
}

/// Does the same as [`unmade_tokens`]. `ordered` says that each token has one merge at most, with parts that merges of
/// lower rank make.
fn not_self_encoding(vocabulary: &Vocabulary, ordered: bool) -> Vec<TokenId> {
    if ordered { underived(vocabulary) } else { unmerged(vocabulary) }
}

/// Returns the tokens that the merges do not make of the tokens' own bytes. Requires that each token has one merge at
/// most, with parts that merges of lower rank make.
///
/// Each merge takes at most one look-up per byte of its token, so the sum is linear in the bytes of all tokens. A
/// token counts as derived only if both of its parts do.
fn underived(vocabulary: &Vocabulary) -> Vec<TokenId> {
    let mut derivation = TokenDerivation::new(vocabulary.tokens.len(), vocabulary.merges.len());
    vocabulary.merges.iter().for_each(|merge| derivation.add(merge));
    let derived: Vec<bool> = vocabulary.merges.par_iter().map(|merge| derivation.is_derived(merge)).collect();
    let mut is_derived = vec![false; vocabulary.tokens.len()];
    (0..=u8::MAX).filter_map(|byte| vocabulary.byte_id(byte)).for_each(|id| is_derived[id.index()] = true);
    for (merge, derived) in vocabulary.merges.iter().zip(derived) {
        let parts = is_derived[merge.left.index()] && is_derived[merge.right.index()];
        is_derived[merge.result.index()] = parts && derived;
    }
    let tokens = vocabulary.ordinary().filter(|(_, bytes)| !bytes.is_empty());
    tokens.map(|(id, _)| id).filter(|id| !is_derived[id.index()]).collect()
}

/// Returns the tokens that the merges do not make of the tokens' own bytes, for any vocabulary, by applying all
/// merges.
///
/// O(n log n) in the length of each token, in parallel over the tokens.
fn unmerged(vocabulary: &Vocabulary) -> Vec<TokenId> {
    let table = MergeTable::new(vocabulary);
    let fails = |merger: &mut BpeMerger, (id, bytes): (TokenId, &[u8])| {
        (table.merged(merger, bytes).0 != [id.get()]).then_some(id)
    };
    let tokens: Vec<_> = vocabulary.ordinary().filter(|(_, bytes)| !bytes.is_empty()).collect();
    tokens.into_par_iter().map_init(BpeMerger::default, fails).flatten_iter().collect()
}

/// The merge of each pair of tokens of a vocabulary, to merge single sequences as the definition says.
pub(super) struct MergeTable<'a> {
    /// The vocabulary, for the tokens of bytes.
    vocabulary: &'a Vocabulary,
    /// The rank and the result of each pair's merge.
    pairs: FxHashMap<(u32, u32), (u32, u32)>,
}

impl<'a> MergeTable<'a> {
    /// Creates the table. O(number of merges) in time and memory.
    pub(super) fn new(vocabulary: &'a Vocabulary) -> MergeTable<'a> {
        let entry =
            |merge: &RankedMerge| ((merge.left.get(), merge.right.get()), (merge.rank, merge.result.get()));
        MergeTable { vocabulary, pairs: vocabulary.merges.iter().map(entry).collect() }
    }

    /// Returns the ids that all merges make of the tokens of these bytes, and the pair that is merged last, if any is.
    /// O(n log n) in the number of bytes.
    pub(super) fn merged<'b>(
        &self,
        merger: &'b mut BpeMerger,
        bytes: &[u8],
    ) -> (&'b [u32], Option<(u32, u32)>) {
        let symbols = bytes.iter().map(|&byte| self.vocabulary.byte_ids[usize::from(byte)].get());
        let mut last = None;
        let left = merger.run(symbols, |pair, _| self.pairs.get(&pair).copied(), |pair| last = Some(pair));
        (left, last)
    }
}

/// Returns for each id the two parts of which the token is made whenever it is made: those that are left of its own
/// bytes before the last merge. `None` for holes, bytes, and tokens that the merges do not make of their bytes.
///
/// O(n log n) in the length of each token, in parallel over the tokens.
pub(super) fn parts_of_tokens(vocabulary: &Vocabulary) -> Vec<Option<[TokenId; 2]>> {
    let table = MergeTable::new(vocabulary);
    let ids: Vec<TokenId> = (0..vocabulary.tokens.len()).map(TokenId::from_index).collect();
    let parts = |merger: &mut BpeMerger, &id: &TokenId| {
        let bytes = vocabulary.bytes(id).filter(|_| !vocabulary.is_added_only(id))?;
        let (left, last) = table.merged(merger, bytes);
        let (left_part, right_part) = last.filter(|_| left == [id.get()])?;
        Some([left_part, right_part].map(TokenId::new))
    };
    ids.par_iter().map_init(BpeMerger::default, parts).collect()
}

/// The number of merges that make one token, and the highest rank among them. Enough for [`rank_order`] to decide
/// whether a part exists before a merge uses it.
#[derive(Clone, Copy, Default)]
struct MakerSummary {
    /// 0 for bytes and for tokens that no merge makes.
    merges: usize,
    /// 0 if there are no such merges.
    highest: u32,
}

/// Summarizes the merges that make each token, by id. The result has one entry for each id below `id_limit`, holes
/// included.
fn merges_by_token(vocabulary: &Vocabulary) -> Vec<MakerSummary> {
    let mut merges_by_token = vec![MakerSummary::default(); vocabulary.tokens.len()];
    for merge in &vocabulary.merges {
        let made_by = &mut merges_by_token[merge.result.index()];
        made_by.merges += 1;
        made_by.highest = made_by.highest.max(merge.rank);
    }
    merges_by_token
}

/// Returns whether ranks differ and the parts of each merge are made before it; see [`Checks::rank_order`].
fn rank_order(vocabulary: &Vocabulary, merges_by_token: &[MakerSummary]) -> bool {
    let made_before = |id: TokenId, rank: u32| {
        let made_by = merges_by_token[id.index()];
        let is_byte = vocabulary.bytes(id).is_some_and(|bytes| bytes.len() == 1);
        is_byte || (made_by.merges > 0 && made_by.highest < rank)
    };
    let parts =
        |merge: &RankedMerge| made_before(merge.left, merge.rank) && made_before(merge.right, merge.rank);
    vocabulary.merges.iter().all(parts)
        && vocabulary.merges.is_sorted_by(|earlier, later| earlier.rank < later.rank)
}

/// Merges one sequence by rank: the pair with the lowest rank first, and among equal ranks the leftmost.
///
/// O(n log n), so that a file with one enormous token takes no longer than its size suggests. The buffers are reused
/// between calls.
#[derive(Debug, Default)]
pub(super) struct BpeMerger {
    /// The symbol at each position; positions that were merged away keep an old one.
    symbols: Vec<u32>,
    /// The position of each symbol's right neighbour, or [`END`]. For a symbol that was merged away it is the
    /// symbol's own position.
    next: Vec<usize>,
    /// The position of each symbol's left neighbour, or [`END`].
    previous: Vec<usize>,
    /// The pairs that can merge, the next one first. Some are outdated: they are skipped when they come up.
    queue: BinaryHeap<Reverse<MergeCandidate>>,
    /// The result: the symbols that are left.
    remaining: Vec<u32>,
}

/// A pair to merge. The derived order compares the fields from first to last, so rank and position decide. The pair
/// says whether the candidate is still valid when its turn comes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MergeCandidate {
    /// The rank that the look-up gave for the pair.
    rank: u32,
    /// The index of the left symbol in the original sequence. It breaks ties, so that the leftmost pair merges first.
    position: usize,
    /// The two symbols at the time when the candidate was queued.
    pair: (u32, u32),
    /// The symbol that replaces the pair.
    result: u32,
}

/// Marks the absence of a neighbour.
const END: usize = usize::MAX;

impl BpeMerger {
    /// Merges until no adjacent pair has a rank, and returns the remaining symbols. `lookup` receives a pair and the
    /// range of original symbols that it covers. It returns the pair's rank and the symbol that replaces it. `merged`
    /// receives each pair that is merged, in order; not one that was queued but lost a symbol to another merge.
    ///
    /// The range has the indices of the sequence as it was given. Each merge leads to at most two further look-ups,
    /// one for the pair on either side of the new symbol. Merging is deterministic: it depends only on the symbols
    /// and on what `lookup` returns.
    pub(super) fn run(
        &mut self,
        symbols: impl IntoIterator<Item = u32>,
        mut lookup: impl FnMut((u32, u32), Range<usize>) -> Option<(u32, u32)>,
        mut merged: impl FnMut((u32, u32)),
    ) -> &[u32] {
        self.start(symbols);
        for position in 0..self.symbols.len() {
            self.offer(position, &mut lookup);
        }
        while let Some(Reverse(candidate)) = self.queue.pop() {
            if self.apply(&candidate, &mut lookup) {
                merged(candidate.pair);
            }
        }
        self.collect()
    }

    /// Fills the buffers with unmerged symbols. The queue is already empty, since each run empties it.
    fn start(&mut self, symbols: impl IntoIterator<Item = u32>) {
        self.symbols.clear();
        self.symbols.extend(symbols);
        let length = self.symbols.len();
        self.next.clear();
        self.next.extend((1..length).chain([END]).take(length));
        self.previous.clear();
        self.previous.extend([END].into_iter().chain(0..).take(length));
    }

    /// Adds the pair that begins at `position` to the queue if it can merge. A symbol at the end of the sequence
    /// begins no pair.
    fn offer(
        &mut self,
        position: usize,
        lookup: &mut impl FnMut((u32, u32), Range<usize>) -> Option<(u32, u32)>,
    ) {
        let next = self.next[position];
        if next != END {
            let pair = (self.symbols[position], self.symbols[next]);
            let end = self.next[next].min(self.symbols.len());
            if let Some((rank, result)) = lookup(pair, position..end) {
                self.queue.push(Reverse(MergeCandidate { rank, position, pair, result }));
            }
        }
    }

    /// Merges a pair if it still exists, and returns whether it did. It no longer exists if one of its symbols was
    /// merged away or replaced since the candidate was queued. Both new pairs beside the result are queued.
    fn apply(
        &mut self,
        candidate: &MergeCandidate,
        lookup: &mut impl FnMut((u32, u32), Range<usize>) -> Option<(u32, u32)>,
    ) -> bool {
        let position = candidate.position;
        let right = self.next[position];
        if right == END
            || right == position
            || (self.symbols[position], self.symbols[right]) != candidate.pair
        {
            return false;
        }
        self.symbols[position] = candidate.result;
        let after = self.next[right];
        self.next[right] = right;
        self.next[position] = after;
        if after != END {
            self.previous[after] = position;
        }
        if self.previous[position] != END {
            self.offer(self.previous[position], lookup);
        }
        self.offer(position, lookup);
        true
    }

    /// Collects the symbols that are left, from left to right, into the buffer that the caller receives.
    fn collect(&mut self) -> &[u32] {
        self.remaining.clear();
        let mut position = if self.symbols.is_empty() { END } else { 0 };
        while position != END {
            self.remaining.push(self.symbols[position]);
            position = self.next[position];
        }
        &self.remaining
    }
}

/// How tokens are derived, for vocabularies in which one merge at most makes each token, of parts that merges of
/// lower rank make.
///
/// **Memory:** 16 bytes per id, and a hash map with an entry per merge.
pub(super) struct TokenDerivation {
    /// The merge of each token, by id; `None` for bytes and tokens that no merge makes.
    merge_of: Vec<Option<DerivingMerge>>,
    /// The rank of the merge of each pair.
    ranks: FxHashMap<(u32, u32), u32>,
}

/// The merge that makes a token. Ids are plain numbers here, because they are keys of the map of ranks.
#[derive(Clone, Copy)]
struct DerivingMerge {
    /// The id of the left part.
    left: u32,
    /// The id of the right part.
    right: u32,
    /// The merge's rank. It is higher than the ranks of the merges that make the parts.
    rank: u32,
}

/// The token next to the border between two parts. It stays there until a merge consumes it.
#[derive(Clone, Copy)]
struct BorderToken {
    /// The token's id.
    token: u32,
    /// The rank of the merge that consumes it. A merge across the border comes first only if its rank is lower; on
    /// the right side, an equal rank suffices.
    consumed_at: u32,
}

impl TokenDerivation {
    /// Creates the derivations of a vocabulary with ids below `id_limit`. They are empty:
    /// [`add`](TokenDerivation::add) adds its merges, about `merges` of them.
    pub(super) fn new(id_limit: usize, merges: usize) -> TokenDerivation {
        let ranks = FxHashMap::with_capacity_and_hasher(merges, FxBuildHasher);
        TokenDerivation { merge_of: vec![None; id_limit], ranks }
    }

    /// Adds a merge. The parts must be bytes or results of merges that were added before. If the token already has a
    /// merge, the new one replaces it.
    pub(super) fn add(&mut self, merge: &RankedMerge) {
        let (left, right) = (merge.left.get(), merge.right.get());
        self.merge_of[merge.result.index()] = Some(DerivingMerge { left, right, rank: merge.rank });
        self.ranks.insert((left, right), merge.rank);
    }

    /// Returns whether the merges turn the bytes of this merge's result into that token, given that they turn the
    /// bytes of each part into that part. Takes at most one look-up per byte of the token.
    ///
    /// They do unless an earlier merge crosses the border between the parts. While the parts are derived side by
    /// side, the token left of the border is first the last byte of the left part, then the token that consumes that
    /// byte, and so on up to the whole left part. The token right of the border changes likewise, from the first byte
    /// of the right part on. The loop visits all pairs of tokens that are ever adjacent at the border, from the last
    /// to the first. A crossing merge can have the same rank as the merge that consumes one of its tokens. On the
    /// right it still finds its token: all three tokens are then equal, and merging goes from left to right. On the
    /// left the token is already consumed.
    pub(super) fn is_derived(&self, merge: &RankedMerge) -> bool {
        let mut left = BorderToken { token: merge.left.get(), consumed_at: merge.rank };
        let mut right = BorderToken { token: merge.right.get(), consumed_at: merge.rank };
        loop {
            let crossing = self.ranks.get(&(left.token, right.token));
            if crossing.is_some_and(|&rank| rank < left.consumed_at && rank <= right.consumed_at) {
                return false;
            }
            let [last, first] = [left, right].map(|part| self.merge_of[to_usize(part.token)]);
            let [left_rank, right_rank] = [last, first].map(|merge| merge.map(|merge| merge.rank));
            if left_rank.is_none() && right_rank.is_none() {
                return true;
            }
            if let Some(DerivingMerge { right: token, rank: consumed_at, .. }) =
                last.filter(|_| left_rank >= right_rank)
            {
                left = BorderToken { token, consumed_at };
            }
            if let Some(DerivingMerge { left: token, rank: consumed_at, .. }) =
                first.filter(|_| right_rank >= left_rank)
            {
                right = BorderToken { token, consumed_at };
            }
        }
    }
}

/// Marks the absence of a token. Tokens are indices here, and there are fewer than 2^32 − 1 of them.
const NONE: u32 = u32::MAX;

/// Number of bytes of a token that are compared as one number (16).
const PREFIX_BYTES: usize = 16;

/// For each token, the longest other token that is its prefix, and the longest that is its suffix.
///
/// They are found without look-ups. In the order of their bytes, tokens come after their prefixes. Among the earlier
/// tokens that are a prefix of a token, the last is the longest, and all the others are prefixes of it.
///
/// **Memory:** 16 bytes per token, and 64 more during construction.
#[derive(Debug)]
pub(super) struct Decompositions {
    /// By token, its length in bytes.
    lengths: Vec<usize>,
    /// By token, the index of the longest other token that is its prefix, or [`NONE`].
    prefixes: Vec<u32>,
    /// By token, the index of the longest other token that is its suffix, or [`NONE`].
    suffixes: Vec<u32>,
}

/// The indices of two equal tokens. The lower index is first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EqualTokens(pub(super) usize, pub(super) usize);

impl Decompositions {
    /// Finds the prefixes and suffixes of distinct tokens, which are identified by their indices from now on. O(n log
    /// n) comparisons, on two threads.
    ///
    /// # Errors
    /// Two tokens are equal.
    pub(super) fn new(tokens: &[&[u8]]) -> Result<Decompositions, EqualTokens> {
        let (prefixes, suffixes) =
            rayon::join(|| longest(tokens, TokenEnd::Start), || longest(tokens, TokenEnd::End));
        let lengths = tokens.iter().map(|token| token.len()).collect();
        Ok(Decompositions { lengths, prefixes: prefixes?, suffixes: suffixes? })
    }

    /// Returns the ways to cut a token into two others, those with the longest left part first.
    ///
    /// Both parts are tokens, and together they have exactly the token's bytes. The two chains are walked once, so
    /// the whole iteration takes at most one step for each prefix and each suffix that is a token.
    pub(super) fn of(&self, token: usize) -> impl Iterator<Item = (usize, usize)> {
        let length = |token: usize| self.lengths[token];
        // The shortest suffix is last, so that it can be popped.
        let mut ends: Vec<usize> = chain(&self.suffixes, token).collect();
        chain(&self.prefixes, token).filter_map(move |left| {
            let rest = length(token) - length(left);
            while ends.pop_if(|end| length(*end) < rest).is_some() {}
            ends.last().filter(|end| length(**end) == rest).map(|&right| (left, right))
        })
    }
}

/// Returns a token's longest prefix (or suffix), the longest one of that, and so on. Lengths decrease, so the chain
/// ends.
fn chain(longest: &[u32], token: usize) -> impl Iterator<Item = usize> {
    let next = |&token: &usize| (longest[token] != NONE).then(|| to_usize(longest[token]));
    successors(next(&token), next)
}

/// The side of a token at which another token is looked for: prefixes or suffixes. One implementation serves both,
/// since suffixes are the prefixes of reversed tokens.
#[derive(Clone, Copy, Debug)]
enum TokenEnd {
    Start,
    End,
}

impl TokenEnd {
    /// Returns the first bytes from this side as a big-endian number, padded with zeros. Comparing two keys compares
    /// up to 16 bytes at once. A key does not show how long its token is.
    fn key(self, token: &[u8]) -> u128 {
        let mut key = [0; PREFIX_BYTES];
        let bytes = &mut key[..token.len().min(PREFIX_BYTES)];
        match self {
            TokenEnd::Start => bytes.copy_from_slice(&token[..bytes.len()]),
            TokenEnd::End => {
                bytes.copy_from_slice(&token[token.len() - bytes.len()..]);
                bytes.reverse();
            }
        }
        u128::from_be_bytes(key)
    }

    /// Compares two tokens byte by byte from this side. A token comes after its prefixes on this side.
    fn order(self, one: &[u8], other: &[u8]) -> Ordering {
        match self {
            TokenEnd::Start => one.cmp(other),
            TokenEnd::End => one.iter().rev().cmp(other.iter().rev()),
        }
    }

    /// Returns whether `token` has `part` at this side.
    fn has(self, token: &[u8], part: &[u8]) -> bool {
        match self {
            TokenEnd::Start => token.starts_with(part),
            TokenEnd::End => token.ends_with(part),
        }
    }
}

/// Returns the number of leading bytes that two [keys](TokenEnd::key) have in common, at most 16. Padding counts as
/// bytes, so the caller must compare lengths, too.
fn same_bytes(key: u128, other: u128) -> usize {
    to_usize((key ^ other).leading_zeros() / u8::BITS)
}

/// Returns for each token the longest other token that it has at a side. The result has an entry per token, [`NONE`]
/// if there is no such token.
///
/// # Errors
/// Two tokens are equal.
fn longest(tokens: &[&[u8]], end: TokenEnd) -> Result<Vec<u32>, EqualTokens> {
    let mut sorted: Vec<(u128, u32)> =
        (0..).zip(tokens).map(|(index, token)| (end.key(token), index)).collect();
    let bytes = |index: u32| tokens[to_usize(index)];
    sorted.sort_unstable_by(|(key, index), (other_head, other)| {
        key.cmp(other_head).then_with(|| end.order(bytes(*index), bytes(*other)))
    });
    let mut longest = vec![NONE; tokens.len()];
    // The candidates for the next token. Each has all those before it at this side.
    let mut open: Vec<(u128, u32)> = Vec::new();
    for (key, index) in sorted {
        let has = |&(part_head, part): &(u128, u32)| {
            let (token, part) = (bytes(index), bytes(part));
            // Few tokens are longer than their keys, and only for these all bytes are compared.
            match part.len() {
                ..=PREFIX_BYTES => token.len() >= part.len() && same_bytes(key, part_head) >= part.len(),
                _ => end.has(token, part),
            }
        };
        while open.pop_if(|part| !has(part)).is_some() {}
        if let Some(&(_, part)) = open.last() {
            if bytes(part).len() == bytes(index).len() {
                return Err(EqualTokens(to_usize(part.min(index)), to_usize(part.max(index))));
            }
            longest[to_usize(index)] = part;
        }
        open.push((key, index));
    }
    Ok(longest)
}

#[cfg(test)]
mod tests {
    use proptest::collection::{hash_set, vec};
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Generates tokens. Some are longer than a head, and many of those begin or end with others. Some contain the
    /// byte with which heads are padded.
    fn token() -> impl Strategy<Value = Vec<u8>> {
        const LONG: &[u8] = b"aabaab\0aabaabaab\0\0aabaabaabaabaabaab\0aab";
        let long = (0..LONG.len(), 12..30_usize);
        let long = long.prop_map(|(start, length)| LONG[start.min(LONG.len() - length)..][..length].to_vec());
        prop_oneof![3 => vec(select(b"aab\0".to_vec()), 0..6), 2 => long]
    }

    proptest! {
        /// Equal tokens are reported with their indices.
        #[test]
        fn tokens_that_are_the_same_are_found(tokens in vec(token(), 0..12)) {
            let tokens: Vec<&[u8]> = tokens.iter().map(|token| &token[..]).collect();
            let equal = (0..tokens.len()).any(|index| tokens[..index].contains(&tokens[index]));
            match Decompositions::new(&tokens) {
                Ok(_) => prop_assert!(!equal),
                Err(EqualTokens(one, other)) => prop_assert!(one < other && tokens[one] == tokens[other]),
            }
        }

        /// Cuts are all ways to cut a token into two others.
        #[test]
        fn cuts_are_all_the_ways_to_cut_a_token_in_two(
            tokens in hash_set(token(), 0..30).prop_map(Vec::from_iter).prop_shuffle(),
        ) {
            let tokens: Vec<&[u8]> = tokens.iter().map(|token| &token[..]).collect();
            let affixes = Decompositions::new(&tokens).expect("a set");
            let find = |bytes: &[u8]| tokens.iter().position(|token| *token == bytes);
            for (index, token) in tokens.iter().enumerate() {
                let others = |&(left, right): &(usize, usize)| left != index && right != index;
                let ways = (0..=token.len()).rev().filter_map(|middle| {
                    let (left, right) = token.split_at(middle);
                    Some((find(left)?, find(right)?))
                });
                let expected: Vec<_> = ways.filter(others).collect();
                prop_assert_eq!(affixes.of(index).collect::<Vec<_>>(), expected);
            }
        }
    }
}
