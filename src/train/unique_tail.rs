//! The last phase of training by ids: the pairs that occur once.

use super::corpus::SEPARATOR;
use super::word_rule::WordRule;
use crate::base::int::{to_usize, truncate_to_u32};
use crate::error::Result;
use crate::observer::Observer;

/// Merges between two checks whether the observer asks to stop: some milliseconds.
const MERGES_PER_CHECK: usize = 1 << 16;

/// End of a linked list.
const NONE: u32 = u32::MAX;

/// Merges the pairs that occur once, ordered by the ids of (left, right). Works only if no pair that may be
/// merged occurs more often.
///
/// All remaining merges then follow the order of ids, so neither a heap nor a hash table is needed: each pair
/// is filed under its left token, and the tokens have their turns in order. Merging (l, r) into x between a and b
/// creates (a, x) and (x, b). Token x ranks after all others, so its turn is still to come. The turn of a is
/// also still to come, or it is the current turn and (a, x) is the last pair in it. For if a ranked before l,
/// then (a, l) would have been merged in the turn of a, unless its token is refused for its length or its words; and
/// then the token of (a, x), which contains it, is refused as well.
///
/// **Memory:** 12 bytes per token of the current text, and 20 to 44 per merge.
pub(super) struct UniqueTail<'a> {
    /// Tokens at both ends of their spans, as in [`Corpus`](super::corpus::Corpus), but laid out again without
    /// stale positions.
    text: Vec<u32>,
    /// Number of positions that each token spans.
    widths: Vec<u32>,
    /// Length of each token in bytes.
    lengths: &'a mut Vec<u32>,
    /// Maximum length in bytes of a token.
    longest: usize,
    /// Which tokens may have several words; `None` if all may.
    word_rule: &'a mut Option<WordRule>,
    /// Rank of each byte in the tie order; all other tokens follow by id.
    byte_order: [u32; 256],
    /// The pairs of the original text, grouped by the rank of their left tokens.
    initial: Vec<InitialPair>,
    /// The pairs filed under each left token, by its rank.
    by_left: Vec<PairsOfToken>,
    /// The pairs that merges have created, in linked lists.
    created: Vec<CreatedPair>,
}

/// The pairs with one left token: a range of `initial`, and a linked list in `created`.
#[derive(Clone, Copy)]
struct PairsOfToken {
    /// Start of the range in `initial`.
    start: u32,
    /// End of the range in `initial`.
    end: u32,
    /// Index of the first pair in `created`, or [`NONE`].
    first: u32,
    /// Index of the last pair in `created`, to which the next one is appended.
    last: u32,
}

impl Default for PairsOfToken {
    fn default() -> PairsOfToken {
        PairsOfToken { start: 0, end: 0, first: NONE, last: NONE }
    }
}

/// A pair of the original text, ordered by the rank of its right token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct InitialPair {
    /// Rank of its right token in the tie order.
    right_rank: u32,
    /// Position of its left token.
    position: u32,
}

/// A pair created by a merge. Its right token ranks after those of all pairs filed earlier under the same left
/// token.
#[derive(Clone, Copy)]
struct CreatedPair {
    /// Its right token.
    right: u32,
    /// Position of its left token.
    position: u32,
    /// Index of the next pair with the same left token, or [`NONE`].
    next: u32,
}

impl<'a> UniqueTail<'a> {
    /// Files the pairs of a text, which is given as its tokens with the separators around the sequences.
    /// `longest` is the maximum length of a token in bytes; `lengths` and `word_rule` grow with each merge.
    pub(super) fn new(
        text: Vec<u32>,
        byte_order: &[u32; 256],
        longest: usize,
        lengths: &'a mut Vec<u32>,
        word_rule: &'a mut Option<WordRule>,
    ) -> UniqueTail<'a> {
        let mut unique = UniqueTail {
            text,
            widths: vec![1; lengths.len()],
            longest,
            word_rule,
            byte_order: *byte_order,
            initial: Vec::new(),
            by_left: vec![PairsOfToken::default(); lengths.len()],
            created: Vec::new(),
            lengths,
        };
        unique.sort_initial();
        unique
    }

    /// Files the pairs of the text under their left tokens, with a counting sort.
    fn sort_initial(&mut self) {
        let pairs =
            || (0..).zip(self.text.array_windows()).filter(|&(_, &[left, right])| self.fits(left, right));
        let mut by_left = vec![PairsOfToken::default(); self.by_left.len()];
        for (_, &[left, _]) in pairs() {
            by_left[self.rank(left)].end += 1;
        }
        let mut start = 0;
        for pairs in &mut by_left {
            (pairs.start, pairs.end, start) = (start, start, start + pairs.end);
        }
        let mut initial = vec![InitialPair::default(); to_usize(start)];
        for (position, &[left, right]) in pairs() {
            let end = &mut by_left[self.rank(left)].end;
            initial[to_usize(*end)] = InitialPair { right_rank: truncate_to_u32(self.rank(right)), position };
            *end += 1;
        }
        (self.by_left, self.initial) = (by_left, initial);
    }

    /// Rank of a token in the tie order.
    fn rank(&self, token: u32) -> usize {
        to_usize(self.byte_order.get(to_usize(token)).copied().unwrap_or(token))
    }

    /// Whether two adjacent tokens are a pair that may be merged.
    fn fits(&self, left: u32, right: u32) -> bool {
        let length = |token| to_usize(self.lengths[to_usize(token)]);
        left != SEPARATOR
            && right != SEPARATOR
            && length(left) + length(right) <= self.longest
            && self.word_rule.as_ref().is_none_or(|rule| rule.allows(left, right))
    }

    /// Merges at most `limit` pairs, and calls `made` with the two tokens of each.
    ///
    /// # Errors
    /// The observer asks to stop.
    pub(super) fn merge(
        &mut self,
        limit: usize,
        observer: &dyn Observer,
        mut made: impl FnMut(u32, u32),
    ) -> Result<()> {
        let mut tokens: Vec<u32> = (0..truncate_to_u32(self.lengths.len())).collect();
        tokens[..256].sort_unstable_by_key(|&byte| self.byte_order[to_usize(byte)]);
        let (mut rank, mut remaining) = (0, limit);
        while rank < self.by_left.len() && remaining > 0 {
            let left = tokens.get(rank).copied().unwrap_or(truncate_to_u32(rank));
            let mut merged = 0;
            self.merge_pairs_of(left, rank, remaining, &mut |right| {
                merged += 1;
                made(left, right);
            });
            if (remaining - merged) / MERGES_PER_CHECK != remaining / MERGES_PER_CHECK {
                observer.checkpoint()?;
            }
            remaining -= merged;
            rank += 1;
        }
        Ok(())
    }

    /// Merges the pairs filed under `left`, `limit` at most. `rank` is that of `left`.
    fn merge_pairs_of(&mut self, left: u32, rank: usize, limit: usize, made: &mut impl FnMut(u32)) {
        let PairsOfToken { start, end, .. } = self.by_left[rank];
        let mut merged = 0;
        self.initial[to_usize(start)..to_usize(end)].sort_unstable();
        for number in to_usize(start)..to_usize(end) {
            let InitialPair { right_rank, position } = self.initial[number];
            let Some(right) = self.right_of(left, position) else { continue };
            if merged < limit && self.rank(right) == to_usize(right_rank) {
                self.merge_at(left, right, position);
                made(right);
                merged += 1;
            }
        }
        // Merging can append to the list that is being walked.
        let mut next = self.by_left[rank].first;
        while next != NONE && merged < limit {
            let CreatedPair { right, position, .. } = self.created[to_usize(next)];
            if self.right_of(left, position) == Some(right) {
                self.merge_at(left, right, position);
                made(right);
                merged += 1;
            }
            next = self.created[to_usize(next)].next;
        }
    }

    /// The token after the `left` at `position`, or `None` if that `left` has been merged.
    fn right_of(&self, left: u32, position: u32) -> Option<u32> {
        let (start, after) = (to_usize(position), to_usize(position + self.widths[to_usize(left)]));
        // A token that became the right part of another may still be visible at its start, but not at its end.
        (self.text[start] == left && self.text[after - 1] == left).then(|| self.text[after])
    }

    /// Merges the pair at `position` and files the two pairs that this creates.
    fn merge_at(&mut self, left: u32, right: u32, position: u32) {
        let token = truncate_to_u32(self.lengths.len());
        self.lengths.push(self.lengths[to_usize(left)] + self.lengths[to_usize(right)]);
        if let Some(rule) = &mut *self.word_rule {
            rule.add(left, right);
        }
        let width = self.widths[to_usize(left)] + self.widths[to_usize(right)];
        self.widths.push(width);
        self.by_left.push(PairsOfToken::default());
        let (start, end) = (to_usize(position), to_usize(position + width));
        self.text[start] = token;
        self.text[end - 1] = token;
        let (before, after) = (self.text[start - 1], self.text[end]);
        if self.fits(before, token) {
            self.append(before, token, position - self.widths[to_usize(before)]);
        }
        if self.fits(token, after) {
            self.append(token, after, position);
        }
    }

    /// Appends a pair to the list of its left token.
    fn append(&mut self, left: u32, right: u32, position: u32) {
        let number = truncate_to_u32(self.created.len());
        self.created.push(CreatedPair { right, position, next: NONE });
        let rank = self.rank(left);
        let pairs = &mut self.by_left[rank];
        if pairs.first == NONE {
            pairs.first = number;
        } else {
            self.created[to_usize(pairs.last)].next = number;
        }
        pairs.last = number;
    }
}
