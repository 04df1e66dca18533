//! The text as training uses it, the weights of its sequences, and what can go wrong when it is laid out.

use rayon::prelude::*;

use super::pairs::{NOT_KEPT, PairId};
use super::scan::BETWEEN;
use super::{Merges, TokenSequences};
use crate::base::huge_pages;
use crate::base::int::{Count, to_u64, to_usize, truncate_to_u32, u64_to_usize};
use crate::count::PretokenCounts;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::Observer;

/// Marks the positions before, between and after the sequences. No token has this id.
pub(super) const SEPARATOR: u32 = u32::MAX;

/// Positions between two checks whether the observer asks to stop: some tens of milliseconds.
const POSITIONS_A_CHECK: usize = 1 << 22;

/// Positions from which on starting threads pays off.
const LARGE: usize = if cfg!(test) { 50 } else { 1 << 22 };

/// One position of the text: the token that begins or ends there, and the pair that begins there. They are
/// stored side by side because code that needs one mostly needs the other, so that it reads one cache line.
#[derive(Clone, Copy)]
pub(super) struct Cell {
    pub(super) token: u32,
    pub(super) pair: PairId,
}

/// Prefetches the cells that merging a pair at `position` reads: its start, the token before it, and the token
/// after its span.
#[inline]
pub(super) fn fetch_around(cells: &[Cell], position: usize, span: usize) {
    // The token before begins a few positions earlier, in the same cache line or the previous one.
    const BEFORE: usize = 4;
    huge_pages::fetch(cells, position.saturating_sub(BEFORE));
    huge_pages::fetch(cells, position + span);
}

/// The weighted sequences laid end to end, with a separator around every sequence.
///
/// Merging never moves a token, so that positions in lists of occurrences stay valid. It only writes the new
/// token over both ends of its span.
///
/// A token that spans positions p..q is stored at p and at q − 1; positions in between are stale. So the next
/// token begins at p + span, and the token before ends at p − 1: no links are needed.
///
/// **Memory:** 8 bytes per position.
pub(super) struct Corpus<W> {
    pub(super) cells: Vec<Cell>,
    /// Number of positions that each token spans.
    pub(super) spans: Vec<u32>,
    /// Weight of each sequence.
    weights: Vec<W>,
    /// Weights too large for a [`Weighted`].
    pub(super) heavy: Vec<u64>,
    /// Number of tokens in the text: the sum over sequences of weight × tokens.
    pub(super) tokens: u64,
}

/// Weight of a sequence, in the form that occurrences carry.
pub(super) trait Weight: Copy + Send + Sync {
    /// The weight as a number. `heavy` has the weights that are too large to be stored in `self`.
    fn value(self, heavy: &[u64]) -> u64;

    /// Whether every weight is 1.
    const ONCE: bool;

    /// Stores a weight, in `heavy` if it is too large.
    fn keep(weight: u64, heavy: &mut Vec<u64>) -> Self;
}

/// Weight 1, for corpora in which every sequence has it. Takes no memory.
#[derive(Clone, Copy, Default)]
pub(super) struct Once;

impl Weight for Once {
    const ONCE: bool = true;

    fn value(self, _heavy: &[u64]) -> u64 {
        1
    }

    fn keep(_weight: u64, _heavy: &mut Vec<u64>) -> Once {
        Once
    }
}

/// A weight below 2³¹, or [`HEAVY`] plus an index into the heavy weights. Occurrences carry it, and 4 bytes are
/// cheaper to move than 8.
#[derive(Clone, Copy, Default)]
pub(super) struct Weighted(u32);

/// Values from here on are indices of heavy weights.
const HEAVY: u32 = 1 << 31;

impl Weight for Weighted {
    const ONCE: bool = false;

    #[inline]
    fn value(self, heavy: &[u64]) -> u64 {
        if self.0 < HEAVY { u64::from(self.0) } else { heavy[to_usize(self.0 - HEAVY)] }
    }

    fn keep(weight: u64, heavy: &mut Vec<u64>) -> Weighted {
        match u32::try_from(weight) {
            Ok(light) if light < HEAVY => Weighted(light),
            _ => {
                heavy.push(weight);
                Weighted(HEAVY + truncate_to_u32(heavy.len() - 1))
            }
        }
    }
}

impl<W: Weight> Corpus<W> {
    /// Lays out byte sequences.
    ///
    /// # Errors
    /// The text has more positions than 32 bits can number, or more tokens than 64 bits can count. After the
    /// second check no count of a pair can overflow.
    pub(super) fn new(pretokens: &PretokenCounts) -> Result<Corpus<W>> {
        let mut corpus = Corpus::with_room(pretokens.bytes(), pretokens.len(), 256)?;
        let mut tokens = Count::ZERO;
        for (pretoken, count) in pretokens.iter() {
            corpus.push_sequence(pretoken.iter().map(|&byte| u32::from(byte)), count.get());
            tokens = count
                .checked_mul(to_u64(pretoken.len()))
                .and_then(|weighted| tokens.checked_add(weighted))
                .ok_or_else(|| Fault::overflow(pretoken))?;
        }
        corpus.tokens = tokens.get();
        Ok(corpus)
    }

    /// Takes over a text that is already merged in part: tokens below `kinds`, each at one position, in
    /// sequences of weight 1. `tokens` is their number, without the [`BETWEEN`]s.
    ///
    /// # Errors
    /// The text has more positions than 32 bits can number.
    pub(super) fn of_tokens(text: Vec<u16>, tokens: u64, kinds: usize) -> Result<Corpus<W>> {
        let sequences = 1 + text.par_iter().filter(|token| **token == BETWEEN).count();
        let mut corpus = Corpus::with_room(u64_to_usize(tokens), sequences, kinds)?;
        // In parallel, because the first access to this much new memory is slow.
        corpus.cells.par_extend(text.par_iter().map(|&token| Cell {
            token: if token == BETWEEN { SEPARATOR } else { u32::from(token) },
            pair: NOT_KEPT,
        }));
        corpus.cells.push(Cell { token: SEPARATOR, pair: NOT_KEPT });
        corpus.weights.resize(sequences, W::keep(1, &mut Vec::new()));
        corpus.tokens = tokens;
        Ok(corpus)
    }

    /// An empty corpus with capacity for `sequences` sequences of `tokens` tokens in all, from a vocabulary of
    /// `kinds` tokens.
    fn with_room(tokens: usize, sequences: usize, kinds: usize) -> Result<Corpus<W>> {
        let positions = tokens + sequences + 1;
        if to_u64(positions) >= u64::from(u32::MAX) {
            return Err(Fault::too_many(positions));
        }
        let mut cells = huge_pages::with_capacity(positions);
        cells.push(Cell { token: SEPARATOR, pair: NOT_KEPT });
        let weights = Vec::with_capacity(sequences);
        Ok(Corpus { cells, spans: vec![1; kinds], weights, heavy: Vec::new(), tokens: 0 })
    }

    /// Appends a sequence and the separator after it.
    fn push_sequence(&mut self, tokens: impl Iterator<Item = u32>, weight: u64) {
        self.cells.extend(tokens.map(|token| Cell { token, pair: NOT_KEPT }));
        self.cells.push(Cell { token: SEPARATOR, pair: NOT_KEPT });
        self.weights.push(W::keep(weight, &mut self.heavy));
    }

    /// Takes over a text in which every token spans one position.
    ///
    /// # Errors
    /// The text has more positions than 32 bits can number.
    pub(super) fn of_text(text: &Text) -> Result<Corpus<W>> {
        let sequences = text.sequences().count();
        let tokens = text.tokens.len() - sequences - 1;
        let mut corpus = Corpus::with_room(tokens, sequences, text.counts.len())?;
        for (sequence, weight) in text.sequences() {
            corpus.push_sequence(sequence.iter().copied(), weight);
        }
        corpus.tokens = text.total;
        Ok(corpus)
    }

    /// The tokens of the current text in order, with the separators.
    pub(super) fn live_tokens(&self) -> Vec<u32> {
        let mut tokens = Vec::new();
        let mut position = 0;
        while let Some(&Cell { token, .. }) = self.cells.get(position) {
            tokens.push(token);
            position += if token == SEPARATOR { 1 } else { to_usize(self.spans[to_usize(token)]) };
        }
        tokens
    }

    /// Whether the text is long enough for threads to pay off.
    pub(super) fn is_large(&self) -> bool {
        self.cells.len() >= LARGE
    }

    /// Whether every token spans one position.
    pub(super) fn is_dense(&self) -> bool {
        self.spans.iter().all(|span| *span == 1)
    }

    /// Calls `visit` with every pair of adjacent tokens in the text, from left to right.
    ///
    /// # Errors
    /// The observer asks to stop.
    pub(super) fn for_each_pair(
        &mut self,
        observer: &dyn Observer,
        mut visit: impl FnMut(Neighbours<'_, W>),
    ) -> Result<()> {
        let (mut position, mut check) = (0, 0);
        // In a dense text the next position does not depend on the token here, so the processor need not wait
        // for it.
        let dense = self.is_dense();
        let mut weights = self.weights.iter();
        let mut weight = None;
        while position + 1 < self.cells.len() {
            if position >= check {
                observer.checkpoint()?;
                check = position + POSITIONS_A_CHECK;
            }
            let left = self.cells[position].token;
            if left == SEPARATOR {
                weight = weights.next();
                position += 1;
                continue;
            }
            let next = position + if dense { 1 } else { to_usize(self.spans[to_usize(left)]) };
            let right = self.cells[next].token;
            if let Some(&weight) = weight.filter(|_| right != SEPARATOR) {
                let pair = &mut self.cells[position].pair;
                let value = weight.value(&self.heavy);
                visit(Neighbours { position, left, right, weight, value, pair });
            }
            position = next;
        }
        Ok(())
    }
}

/// Two adjacent tokens of the same sequence.
pub(super) struct Neighbours<'a, W> {
    pub(super) position: usize,
    pub(super) left: u32,
    pub(super) right: u32,
    pub(super) weight: W,
    /// The weight as a number.
    pub(super) value: u64,
    /// Pair id at this position, for the visitor to write.
    pub(super) pair: &'a mut PairId,
}

/// The bytes of the sequences, each at the position where [`Corpus`] has its token. Separators are 0.
pub(super) fn bytes_by_position(pretokens: &PretokenCounts) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(pretokens.bytes() + pretokens.len() + 1);
    bytes.push(0);
    for (pretoken, _) in pretokens.iter() {
        bytes.extend_from_slice(pretoken);
        bytes.push(0);
    }
    bytes
}

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

/// What can go wrong in training.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(
        "the training text has {positions} positions (one per token and one per end of a pre-token); the limit is about 2^32"
    )]
    TooManyPositions { positions: u64 },
    #[error("the number of tokens does not fit in 64 bits at the sequence {pretoken}")]
    Overflow { pretoken: String },
    #[error("the number of tokens does not fit in 64 bits")]
    OverflowOfTokens,
}

impl Fault {
    /// The text has more positions than 32 bits can number.
    pub(super) fn too_many(positions: usize) -> Error {
        let fault = Fault::TooManyPositions { positions: to_u64(positions) };
        Error::new(ErrorKind::Memory, fault)
            .with_help("take a part of the corpus (`take`, `every`, `max_bytes`), or choose a split pattern")
    }

    /// The number of tokens overflows when a sequence of tokens is added.
    pub(super) fn overflow_of_tokens() -> Error {
        Error::new(ErrorKind::Failed, Fault::OverflowOfTokens).with_help("use smaller weights")
    }

    /// The number of tokens overflows when this sequence of bytes is added. The message quotes its first 60
    /// bytes.
    pub(super) fn overflow(pretoken: &[u8]) -> Error {
        const SHOWN: usize = 60;
        let pretoken = pretoken[..pretoken.len().min(SHOWN)].escape_ascii().to_string();
        Error::new(ErrorKind::Failed, Fault::Overflow { pretoken }).with_help("use smaller weights")
    }
}
