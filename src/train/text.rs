//! The text as replay, verification and training by scores use it.

use super::corpus::SEPARATOR;
use super::fault::Fault;
use super::{Merges, TokenSequences};
use crate::base::int::{Count, to_u64, to_usize, truncate_to_u32};
use crate::count::PretokenCounts;
use crate::error::Result;

/// Overwrites the start of a token that became the right token of another one. No token has this id.
const DEAD: u32 = u32::MAX - 1;

/// The weighted sequences laid end to end, without the pair ids of [`Corpus`](super::corpus::Corpus). Scores,
/// replay and verification work on this type.
///
/// A token that spans positions p..q has its id at p and at q − 1; positions in between are stale or [`DEAD`].
/// So the next token begins at p + span, and the token before ends at p − 1.
///
/// **Memory:** 8 bytes per position.
pub(super) struct Text {
    /// Token ids by position.
    pub(super) tokens: Vec<u32>,
    /// Index of the sequence at each position.
    sequences: Vec<u32>,
    /// Weight of each sequence.
    weights: Vec<u64>,
    /// Number of positions that each token spans: 1 if the text was laid out with it, otherwise the sum over
    /// its two tokens.
    spans: Vec<u32>,
    /// Length of each token in bytes.
    lengths: Vec<u32>,
    /// Number of occurrences of each token: the sum over sequences of weight × occurrences.
    pub(super) counts: Vec<u64>,
    /// Number of tokens in the corpus: the sum of `counts`, and the tokens that were left out because they are a
    /// whole sequence each.
    pub(super) total: u64,
}

impl Text {
    /// Lays out byte sequences.
    ///
    /// # Errors
    /// The text has more positions than 32 bits can number, or more tokens than 64 bits can count.
    pub(super) fn new(pretokens: &PretokenCounts) -> Result<Text> {
        let positions = pretokens.bytes() + pretokens.len() + 1;
        if to_u64(positions) >= u64::from(DEAD) {
            return Err(Fault::too_many(positions));
        }
        let mut text = Text {
            tokens: Vec::with_capacity(positions),
            sequences: Vec::with_capacity(positions),
            weights: Vec::with_capacity(pretokens.len()),
            spans: vec![1; 256],
            lengths: vec![1; 256],
            counts: vec![0; 256],
            total: 0,
        };
        text.tokens.push(SEPARATOR);
        text.sequences.push(0);
        for (pretoken, count) in pretokens.iter() {
            text.push(pretoken, count).ok_or_else(|| Fault::overflow(pretoken))?;
        }
        Ok(text)
    }

    /// Lays out sequences of tokens, which are bytes or made by `merges`.
    ///
    /// # Errors
    /// The same as [`new`](Text::new).
    pub(super) fn of_sequences(sequences: TokenSequences, merges: &Merges) -> Result<Text> {
        let TokenSequences { tokens, ends, counts, alone, .. } = sequences;
        let positions = tokens.len() + ends.len() + 1;
        if to_u64(positions) >= u64::from(DEAD) {
            return Err(Fault::too_many(positions));
        }
        let mut text = Text {
            tokens: Vec::with_capacity(positions),
            sequences: Vec::with_capacity(positions),
            weights: Vec::with_capacity(ends.len()),
            spans: Vec::new(),
            lengths: vec![1; 256],
            counts: vec![0; 256 + merges.len()],
            total: alone,
        };
        for merge in merges {
            let length = |token| text.lengths[to_usize(token)];
            text.lengths.push(length(merge.left).saturating_add(length(merge.right)));
        }
        text.spans = vec![1; text.lengths.len()];
        text.tokens.push(SEPARATOR);
        text.sequences.push(0);
        let mut start = 0;
        for (end, weight) in ends.into_iter().zip(counts) {
            let sequence = &tokens[start..end];
            text.push(sequence, weight).ok_or_else(Fault::overflow_of_tokens)?;
            start = end;
        }
        Ok(text)
    }

    /// Appends a sequence. Returns `None` if the number of tokens no longer fits 64 bits.
    fn push<T: Copy + Into<u32>>(&mut self, pretoken: &[T], weight: Count) -> Option<()> {
        let tokens = weight.checked_mul(to_u64(pretoken.len()))?;
        self.total = self.total.checked_add(tokens.get())?;
        for token in pretoken.iter().map(|&token| token.into()) {
            self.tokens.push(token);
            self.counts[to_usize(token)] += weight.get();
        }
        self.tokens.push(SEPARATOR);
        self.sequences.extend(std::iter::repeat_n(truncate_to_u32(self.weights.len()), pretoken.len() + 1));
        self.weights.push(weight.get());
        Some(())
    }

    /// Weight of the sequence at a position.
    pub(super) fn weight(&self, position: usize) -> u64 {
        self.weights[to_usize(self.sequences[position])]
    }

    /// Number of positions that a token spans.
    pub(super) fn span(&self, token: u32) -> usize {
        to_usize(self.spans[to_usize(token)])
    }

    /// Length of a token in bytes.
    pub(super) fn length(&self, token: u32) -> usize {
        to_usize(self.lengths[to_usize(token)])
    }

    /// Length of each token in bytes.
    pub(super) fn into_lengths(self) -> Vec<u32> {
        self.lengths
    }

    /// Start of the token before `position`, or `None` at the start of a sequence.
    pub(super) fn before(&self, position: usize) -> Option<usize> {
        let token = self.tokens[position - 1];
        (token != SEPARATOR).then(|| position - self.span(token))
    }

    /// Whether a pair that began at `position` earlier still does.
    pub(super) fn stands(&self, (left, right): (u32, u32), position: usize) -> bool {
        self.tokens[position] == left && self.tokens[position + self.span(left)] == right
    }

    /// The pair that begins at `position`, which must be the start of a token or a separator. `None` if no
    /// token of the same sequence follows.
    pub(super) fn pair_at(&self, position: usize) -> Option<(u32, u32)> {
        let left = self.tokens[position];
        if left == SEPARATOR {
            return None;
        }
        let right = self.tokens[position + self.span(left)];
        (right != SEPARATOR).then_some((left, right))
    }

    /// Adds the token made of `left` and `right`, which does not occur in the text yet, and returns its id.
    pub(super) fn add_token(&mut self, left: u32, right: u32) -> u32 {
        let token = truncate_to_u32(self.lengths.len());
        self.spans.push(self.spans[to_usize(left)].saturating_add(self.spans[to_usize(right)]));
        self.lengths.push(self.lengths[to_usize(left)].saturating_add(self.lengths[to_usize(right)]));
        self.counts.push(0);
        token
    }

    /// Replaces the pair at `position` by `token`, and updates the counts of the three tokens.
    pub(super) fn replace(&mut self, position: usize, (left, right): (u32, u32), token: u32) {
        let weight = self.weight(position);
        let inner = position + self.span(left);
        let end = position + self.span(token);
        self.tokens[inner] = DEAD;
        self.tokens[position] = token;
        self.tokens[end - 1] = token;
        self.counts[to_usize(left)] -= weight;
        self.counts[to_usize(right)] -= weight;
        self.counts[to_usize(token)] += weight;
        self.total -= weight;
    }

    /// The same text laid out again, with every token at one position.
    pub(super) fn compacted(mut self) -> Text {
        let (mut position, mut kept) = (0, 0);
        while let Some(&token) = self.tokens.get(position) {
            self.tokens[kept] = token;
            self.sequences[kept] = self.sequences[position];
            kept += 1;
            position += if token == SEPARATOR { 1 } else { self.span(token) };
        }
        self.tokens.truncate(kept);
        self.sequences.truncate(kept);
        self.spans.fill(1);
        self
    }

    /// The sequences of tokens with their weights. Every token must span one position.
    pub(super) fn sequences(&self) -> impl Iterator<Item = (&[u32], u64)> {
        let inner = self.tokens.get(1..self.tokens.len() - 1).unwrap_or_default();
        inner.split(|&token| token == SEPARATOR).zip(self.weights.iter().copied())
    }

    /// Number of occurrences of a pair, by weight. Walks through the whole text.
    pub(super) fn count_of(&self, pair: (u32, u32)) -> Count {
        let (mut position, mut count) = (0, 0);
        while let Some(&token) = self.tokens.get(position) {
            if self.pair_at(position) == Some(pair) {
                count += self.weight(position);
            }
            position += if token == SEPARATOR { 1 } else { self.span(token) };
        }
        Count::new(count)
    }
}
