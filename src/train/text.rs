use super::corpus::SEPARATOR;
use super::fault::Fault;
use super::{Merges, TokenSequences};
use crate::count::PieceCounts;
use crate::error::Result;
use crate::units::{Count, amount, low32, place};

/// Stands where a token began that is a part of another one now; no token has this id.
const DEAD: u32 = u32::MAX - 1;

/// The weighted sequences laid end to end, plainly: what scores, replaying and verifying work on.
///
/// A token that spans positions p..q has its id at p and at q − 1; what lies between is stale, or dead. So
/// the token after one is found at p + its span, the token before one at p − 1.
///
/// **Memory:** 8 bytes a position.
pub(super) struct Text {
    pub(super) tokens: Vec<u32>,
    sequences: Vec<u32>,
    weights: Vec<u64>,
    /// How many positions each token spans: its bytes, or one if it stood there from the start.
    spans: Vec<u32>,
    /// Bytes of each token.
    lengths: Vec<u32>,
    /// How often each token stands in the text: the sum over sequences of weight × times.
    pub(super) counts: Vec<u64>,
    /// The sum of `counts`.
    pub(super) total: u64,
}

impl Text {
    /// Lays out the sequences.
    ///
    /// # Errors
    /// There are more positions than 32 bits can number, or more tokens than 64 bits can count.
    pub(super) fn new(pieces: &PieceCounts) -> Result<Text> {
        let positions = pieces.bytes() + pieces.len() + 1;
        if amount(positions) >= u64::from(DEAD) {
            return Err(Fault::too_many(positions));
        }
        let mut text = Text {
            tokens: Vec::with_capacity(positions),
            sequences: Vec::with_capacity(positions),
            weights: Vec::with_capacity(pieces.len()),
            spans: vec![1; 256],
            lengths: vec![1; 256],
            counts: vec![0; 256],
            total: 0,
        };
        text.tokens.push(SEPARATOR);
        text.sequences.push(0);
        for (piece, count) in pieces.iter() {
            text.push(piece, count).ok_or_else(|| Fault::overflow(piece))?;
        }
        Ok(text)
    }

    /// Lays out sequences of tokens that `merges` make.
    ///
    /// # Errors
    /// As of [`new`](Text::new).
    pub(super) fn of_sequences(sequences: TokenSequences, merges: &Merges) -> Result<Text> {
        let TokenSequences { tokens, ends, counts, alone, .. } = sequences;
        let positions = tokens.len() + ends.len() + 1;
        if amount(positions) >= u64::from(DEAD) {
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
            let length = |token| text.lengths[place(token)];
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

    /// Appends a sequence; gives nothing if its tokens are too many.
    fn push<T: Copy + Into<u32>>(&mut self, piece: &[T], weight: Count) -> Option<()> {
        let tokens = weight.checked_mul(amount(piece.len()))?;
        self.total = self.total.checked_add(tokens.get())?;
        for token in piece.iter().map(|&token| token.into()) {
            self.tokens.push(token);
            self.counts[place(token)] += weight.get();
        }
        self.tokens.push(SEPARATOR);
        self.sequences.extend(std::iter::repeat_n(low32(self.weights.len()), piece.len() + 1));
        self.weights.push(weight.get());
        Some(())
    }

    /// How much an occurrence at this position counts.
    pub(super) fn weight(&self, position: usize) -> u64 {
        self.weights[place(self.sequences[position])]
    }

    /// How many positions a token spans.
    pub(super) fn span(&self, token: u32) -> usize {
        place(self.spans[place(token)])
    }

    /// How many bytes a token has.
    pub(super) fn length(&self, token: u32) -> usize {
        place(self.lengths[place(token)])
    }

    /// The bytes of each token.
    pub(super) fn into_lengths(self) -> Vec<u32> {
        self.lengths
    }

    /// Where the token before a position begins.
    pub(super) fn before(&self, position: usize) -> Option<usize> {
        let token = self.tokens[position - 1];
        (token != SEPARATOR).then(|| position - self.span(token))
    }

    /// Whether a pair that once began at a position still does.
    pub(super) fn stands(&self, (left, right): (u32, u32), position: usize) -> bool {
        self.tokens[position] == left && self.tokens[position + self.span(left)] == right
    }

    /// The pair that begins at a position where a token does, if one follows it.
    pub(super) fn pair_at(&self, position: usize) -> Option<(u32, u32)> {
        let left = self.tokens[position];
        if left == SEPARATOR {
            return None;
        }
        let right = self.tokens[position + self.span(left)];
        (right != SEPARATOR).then_some((left, right))
    }

    /// A new token of two, which does not stand in the text yet.
    pub(super) fn add_token(&mut self, left: u32, right: u32) -> u32 {
        let token = low32(self.lengths.len());
        self.spans.push(self.spans[place(left)].saturating_add(self.spans[place(right)]));
        self.lengths.push(self.lengths[place(left)].saturating_add(self.lengths[place(right)]));
        self.counts.push(0);
        token
    }

    /// Writes a token over the two that it is made of.
    pub(super) fn replace(&mut self, position: usize, (left, right): (u32, u32), token: u32) {
        let weight = self.weight(position);
        let inner = position + self.span(left);
        let end = position + self.span(token);
        self.tokens[inner] = DEAD;
        self.tokens[position] = token;
        self.tokens[end - 1] = token;
        self.counts[place(left)] -= weight;
        self.counts[place(right)] -= weight;
        self.counts[place(token)] += weight;
        self.total -= weight;
    }

    /// The same text with every token at one position.
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

    /// Sequences of tokens with their weights; of a text in which each token stands at one position.
    pub(super) fn sequences(&self) -> impl Iterator<Item = (&[u32], u64)> {
        let inner = self.tokens.get(1..self.tokens.len() - 1).unwrap_or_default();
        inner.split(|&token| token == SEPARATOR).zip(self.weights.iter().copied())
    }

    /// How often two tokens stand side by side.
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
