//! The text as training uses it, the weights of its sequences, and what can go wrong when it is laid out.

use rayon::prelude::*;

use super::progress::PassProgress;
use super::word_rule::{WordRule, token_lengths};
use super::{Merge, Merges, TrainConfig};
use crate::base::huge_pages;
use crate::base::int::{Count, to_u64, to_usize, truncate_to_u32, u64_to_usize};
use crate::count::PretokenCounts;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::Observer;

/// Marks the positions before, between and after the sequences. No token has this id.
pub(super) const SEPARATOR: u32 = u32::MAX;

/// Separates the sequences of a text with 16-bit token ids. No token has this id.
pub(super) const SCAN_SEPARATOR: u16 = u16::MAX;

/// Id of a pair in [`KeptPairs`](super::pairs::KeptPairs). [`NOT_KEPT`] means no pair.
pub(super) type PairId = u32;

/// Pair id at positions where no kept pair begins: at the last token of a sequence, inside a token, and at
/// pairs that occur too seldom to matter.
pub(super) const NOT_KEPT: PairId = 0;

/// Positions from which on starting threads pays off.
const LARGE: usize = if cfg!(test) { 50 } else { 1 << 22 };

/// One position of the text: the token that begins or ends there, and the pair that begins there. They are
/// stored side by side because code that needs one mostly needs the other, so that it reads one cache line.
#[derive(Clone, Copy)]
pub(super) struct Cell {
    /// The token, or [`SEPARATOR`]. Stale at positions inside a token.
    pub(super) token: u32,
    /// The pair, or [`NOT_KEPT`].
    pub(super) pair: PairId,
}

impl Cell {
    /// A position at which no kept pair begins.
    fn new(token: u32) -> Cell {
        Cell { token, pair: NOT_KEPT }
    }
}

/// Prefetches the cells that merging a pair at `position` reads: its start, the token before it, and the token
/// after its span.
#[inline]
pub(super) fn prefetch_around(cells: &[Cell], position: usize, width: usize) {
    // The token before begins a few positions earlier, in the same cache line or the previous one.
    const BEFORE: usize = 4;
    huge_pages::fetch(cells, position.saturating_sub(BEFORE));
    huge_pages::fetch(cells, position + width);
}

/// Weighted sequences of tokens, in the order in which they first appear in the corpus: pre-tokens or documents
/// that a vocabulary has encoded.
///
/// ```
/// use tokenmill::Count;
/// use tokenmill::train::TokenSequences;
///
/// // `ab` twice and `abc` once, where token 256 is `ab`. The sequence `ab` is one token.
/// let sequences = TokenSequences {
///     tokens: vec![256, 99],
///     ends: vec![2],
///     counts: vec![Count::ONE],
///     bytes: 7,
///     alone: 2,
/// };
/// assert_eq!(sequences.ends.len(), sequences.counts.len());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSequences {
    /// The tokens of all sequences, one sequence after the other, with the ids of training.
    pub tokens: Vec<u32>,
    /// End of each sequence in `tokens`.
    pub ends: Vec<usize>,
    /// Weight of each sequence: how often it occurs.
    pub counts: Vec<Count>,
    /// Number of bytes in the corpus: the sum over sequences of weight × length in bytes.
    pub bytes: u64,
    /// Number of further tokens in the corpus that are whole sequences by themselves. They are not in `tokens`,
    /// because no merge applies to them.
    pub alone: u64,
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
    /// Number of positions that each token spans: 1 if the text was laid out with it, otherwise the sum over its
    /// two tokens.
    pub(super) widths: Vec<u32>,
    /// Length of each token in bytes.
    pub(super) lengths: Vec<u32>,
    /// Which tokens may have several words; `None` if all may.
    pub(super) word_rule: Option<WordRule>,
    /// Weight of each sequence.
    weights: Vec<W>,
    /// Weights too large for a [`CompactWeight`].
    pub(super) heavy: Vec<u64>,
    /// Number of tokens in the corpus: the sum over sequences of weight × tokens, and the tokens that were left
    /// out because they are a whole sequence each.
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
pub(super) struct UnitWeight;

impl Weight for UnitWeight {
    const ONCE: bool = true;

    fn value(self, _heavy: &[u64]) -> u64 {
        1
    }

    fn keep(_weight: u64, _heavy: &mut Vec<u64>) -> UnitWeight {
        UnitWeight
    }
}

/// A weight below 2³¹, or [`HEAVY`] plus an index into the heavy weights. Occurrences carry it, and 4 bytes are
/// cheaper to move than 8.
#[derive(Clone, Copy, Default)]
pub(super) struct CompactWeight(u32);

/// Values from here on are indices of heavy weights.
const HEAVY: u32 = 1 << 31;

impl Weight for CompactWeight {
    const ONCE: bool = false;

    #[inline]
    fn value(self, heavy: &[u64]) -> u64 {
        if self.0 < HEAVY { u64::from(self.0) } else { heavy[to_usize(self.0 - HEAVY)] }
    }

    fn keep(weight: u64, heavy: &mut Vec<u64>) -> CompactWeight {
        match u32::try_from(weight) {
            Ok(light) if light < HEAVY => CompactWeight(light),
            _ => {
                heavy.push(weight);
                CompactWeight(HEAVY + truncate_to_u32(heavy.len() - 1))
            }
        }
    }
}

impl<W: Weight> Corpus<W> {
    /// Lays out byte sequences, as one pass of [`Stage::Prepare`](crate::Stage::Prepare).
    ///
    /// # Errors
    /// The text has more positions than 32 bits can number, or more tokens than 64 bits can count. After the
    /// second check no count of a pair can overflow. Or the observer asks to stop.
    pub(super) fn new(pretokens: &PretokenCounts, observer: &dyn Observer) -> Result<Corpus<W>> {
        let mut corpus = Corpus::with_capacity(pretokens.bytes(), pretokens.len(), vec![1; 256])?;
        let mut pass = PassProgress::new(observer);
        for (pretoken, count) in pretokens.iter() {
            let tokens = pretoken.iter().map(|&byte| u32::from(byte));
            corpus.push_sequence(tokens, count).ok_or_else(|| {
                const SHOWN: usize = 60;
                let pretoken = pretoken[..pretoken.len().min(SHOWN)].escape_ascii();
                let problem =
                    format!("the number of tokens does not fit in 64 bits at the sequence {pretoken}");
                Error::failed(problem).with_help(SMALLER_WEIGHTS)
            })?;
            pass.reached(corpus.cells.len())?;
        }
        pass.ended(corpus.cells.len());
        Ok(corpus)
    }

    /// Lays out sequences of tokens, which are bytes or made by `merges`.
    ///
    /// # Errors
    /// The same as [`new`](Corpus::new).
    pub(super) fn of_sequences(
        sequences: TokenSequences,
        merges: &Merges,
        observer: &dyn Observer,
    ) -> Result<Corpus<W>> {
        let TokenSequences { tokens, ends, counts, alone, .. } = sequences;
        let mut corpus = Corpus::with_capacity(tokens.len(), ends.len(), token_lengths(merges))?;
        corpus.tokens = alone;
        let mut pass = PassProgress::new(observer);
        let mut start = 0;
        for (end, weight) in ends.into_iter().zip(counts) {
            let sequence = tokens[start..end].iter().copied();
            corpus.push_sequence(sequence, weight).ok_or_else(|| {
                Error::failed("the number of tokens does not fit in 64 bits").with_help(SMALLER_WEIGHTS)
            })?;
            start = end;
            pass.reached(corpus.cells.len())?;
        }
        pass.ended(corpus.cells.len());
        Ok(corpus)
    }

    /// Takes over a text to which `merges` have been applied: one token at each position, in sequences of
    /// weight 1. `tokens` is their number, without the [`SCAN_SEPARATOR`]s.
    ///
    /// # Errors
    /// The text has more positions than 32 bits can number.
    pub(super) fn of_scanned(
        text: Vec<u16>,
        tokens: u64,
        merges: &[Merge],
        observer: &dyn Observer,
    ) -> Result<Corpus<W>> {
        let sequences = 1 + text.par_iter().filter(|token| **token == SCAN_SEPARATOR).count();
        let mut corpus = Corpus::with_capacity(u64_to_usize(tokens), sequences, token_lengths(merges))?;
        // In parallel, because the first access to this much new memory is slow.
        corpus.cells.par_extend(
            text.par_iter()
                .map(|&token| Cell::new(if token == SCAN_SEPARATOR { SEPARATOR } else { u32::from(token) })),
        );
        corpus.cells.push(Cell::new(SEPARATOR));
        corpus.weights.resize(sequences, W::keep(1, &mut Vec::new()));
        corpus.tokens = tokens;
        PassProgress::new(observer).ended(corpus.cells.len());
        Ok(corpus)
    }

    /// An empty corpus with capacity for `sequences` sequences of `tokens` tokens in all. `lengths` has the
    /// length of each token of the vocabulary.
    fn with_capacity(tokens: usize, sequences: usize, lengths: Vec<u32>) -> Result<Corpus<W>> {
        let positions = tokens + sequences + 1;
        if to_u64(positions) >= u64::from(u32::MAX) {
            let problem = format!(
                "the training text has {positions} positions (one per token and one per end of a pre-token); the limit is about 2^32"
            );
            return Err(Error::message(ErrorKind::Memory, problem).with_help(
                "take a part of the corpus (`take`, `every`, `max_bytes`), or choose a split pattern",
            ));
        }
        let mut cells = huge_pages::with_capacity(positions);
        cells.push(Cell::new(SEPARATOR));
        let (widths, weights) = (vec![1; lengths.len()], Vec::with_capacity(sequences));
        Ok(Corpus { cells, widths, lengths, word_rule: None, weights, heavy: Vec::new(), tokens: 0 })
    }

    /// Sets the rule for words of a configuration. `merges` are those that made the tokens of the corpus.
    pub(super) fn with_word_rule<'a>(
        self,
        config: &TrainConfig,
        merges: impl IntoIterator<Item = &'a Merge>,
    ) -> Corpus<W> {
        Corpus { word_rule: config.max_words.map(|max_words| WordRule::new(max_words, merges)), ..self }
    }

    /// Whether the rule for words allows to merge two tokens.
    pub(super) fn words_allow(&self, left: u32, right: u32) -> bool {
        self.word_rule.as_ref().is_none_or(|rule| rule.allows(left, right))
    }

    /// Appends a sequence and the separator after it. Returns `None` if the number of tokens no longer fits 64
    /// bits.
    fn push_sequence(&mut self, tokens: impl ExactSizeIterator<Item = u32>, weight: Count) -> Option<()> {
        let added = weight.checked_mul(to_u64(tokens.len()))?;
        self.tokens = self.tokens.checked_add(added.get())?;
        self.cells.extend(tokens.map(Cell::new));
        self.cells.push(Cell::new(SEPARATOR));
        self.weights.push(W::keep(weight.get(), &mut self.heavy));
        Some(())
    }

    /// Adds the token made of `left` and `right`, which does not occur in the text yet, and returns its id.
    pub(super) fn add_token(&mut self, left: u32, right: u32) -> u32 {
        let token = truncate_to_u32(self.lengths.len());
        if let Some(rule) = &mut self.word_rule {
            rule.add(left, right);
        }
        let [left, right] = [left, right].map(to_usize);
        self.lengths.push(self.lengths[left].saturating_add(self.lengths[right]));
        self.widths.push(self.widths[left].saturating_add(self.widths[right]));
        token
    }

    /// Length of a token in bytes.
    pub(super) fn length(&self, token: u32) -> usize {
        to_usize(self.lengths[to_usize(token)])
    }

    /// Number of positions that a token spans.
    fn width(&self, token: u32) -> usize {
        to_usize(self.widths[to_usize(token)])
    }

    /// Index of the sequence at each position.
    pub(super) fn sequence_numbers(&self) -> Vec<u32> {
        let mut numbers = Vec::with_capacity(self.cells.len());
        // The separator before the first sequence.
        numbers.push(0);
        let mut sequence = 0;
        for cell in &self.cells[1..] {
            numbers.push(sequence);
            sequence += u32::from(cell.token == SEPARATOR);
        }
        numbers
    }

    /// Weight of the sequence with this index.
    pub(super) fn weight(&self, sequence: u32) -> u64 {
        self.weights[to_usize(sequence)].value(&self.heavy)
    }

    /// Start of the token before `position`, or `None` at the start of a sequence.
    pub(super) fn before(&self, position: usize) -> Option<usize> {
        let token = self.cells[position - 1].token;
        (token != SEPARATOR).then(|| position - self.width(token))
    }

    /// The tokens of the pair that begins at `position`, which must be the start of a token or a separator.
    /// `None` if no token of the same sequence follows.
    pub(super) fn pair_at(&self, position: usize) -> Option<(u32, u32)> {
        let left = self.cells[position].token;
        if left == SEPARATOR {
            return None;
        }
        let right = self.cells[position + self.width(left)].token;
        (right != SEPARATOR).then_some((left, right))
    }

    /// Writes `token` over the pair at `position`, which begins with the token `left`. Clears and returns the
    /// ids of the pairs that end there: the pair itself, and those with the tokens before and after it.
    pub(super) fn replace(&mut self, position: usize, left: u32, token: u32) -> [PairId; 3] {
        let starts = [self.before(position).unwrap_or(position), position, position + self.width(left)];
        let ended = starts.map(|start| std::mem::replace(&mut self.cells[start].pair, NOT_KEPT));
        let end = position + self.width(token);
        self.cells[position].token = token;
        self.cells[end - 1].token = token;
        ended
    }

    /// Lays the text out again, with every token at one position and without pair ids.
    pub(super) fn compact(&mut self) {
        let (mut position, mut length) = (0, 0);
        while let Some(&Cell { token, .. }) = self.cells.get(position) {
            self.cells[length] = Cell::new(token);
            length += 1;
            position += if token == SEPARATOR { 1 } else { self.width(token) };
        }
        self.cells.truncate(length);
        self.cells.shrink_to_fit();
        self.widths.fill(1);
    }

    /// Number of occurrences of a pair, by weight. Walks through the whole text.
    pub(super) fn count_of(&self, pair: (u32, u32)) -> Count {
        let (mut position, mut sequence, mut count) = (1, 0, 0);
        while let Some(&Cell { token, .. }) = self.cells.get(position) {
            if self.pair_at(position) == Some(pair) {
                count += self.weight(sequence);
            }
            sequence += u32::from(token == SEPARATOR);
            position += if token == SEPARATOR { 1 } else { self.width(token) };
        }
        Count::new(count)
    }

    /// The tokens of the current text in order, with the separators.
    pub(super) fn live_tokens(&self) -> Vec<u32> {
        let mut tokens = Vec::new();
        let mut position = 0;
        while let Some(&Cell { token, .. }) = self.cells.get(position) {
            tokens.push(token);
            position += if token == SEPARATOR { 1 } else { to_usize(self.widths[to_usize(token)]) };
        }
        tokens
    }

    /// Maximum number of occurrences that merges can replace in the text as it was laid out: all tokens but one of each
    /// sequence.
    pub(super) fn mergeable(&self) -> usize {
        self.cells.len().saturating_sub(1 + 2 * self.weights.len())
    }

    /// Whether the text is long enough for threads to pay off.
    pub(super) fn is_large(&self) -> bool {
        self.cells.len() >= LARGE
    }

    /// Whether every token spans one position.
    pub(super) fn has_unit_widths(&self) -> bool {
        self.widths.iter().all(|width| *width == 1)
    }

    /// Calls `visit` with every pair of adjacent tokens in the text, from left to right, as one pass of
    /// [`Stage::Prepare`](crate::Stage::Prepare).
    ///
    /// # Errors
    /// The observer asks to stop.
    pub(super) fn for_each_pair(
        &mut self,
        observer: &dyn Observer,
        mut visit: impl FnMut(AdjacentPair<'_, W>),
    ) -> Result<()> {
        let (mut position, mut pass) = (0, PassProgress::new(observer));
        // In a dense text the next position does not depend on the token here, so the processor need not wait
        // for it.
        let dense = self.has_unit_widths();
        let mut weights = self.weights.iter();
        let mut weight = None;
        while position + 1 < self.cells.len() {
            pass.reached(position)?;
            let left = self.cells[position].token;
            if left == SEPARATOR {
                weight = weights.next();
                position += 1;
                continue;
            }
            let next = position + if dense { 1 } else { to_usize(self.widths[to_usize(left)]) };
            let right = self.cells[next].token;
            if let Some(&weight) = weight.filter(|_| right != SEPARATOR) {
                let pair = &mut self.cells[position].pair;
                let value = weight.value(&self.heavy);
                visit(AdjacentPair { position, left, right, weight, value, pair });
            }
            position = next;
        }
        pass.ended(self.cells.len());
        Ok(())
    }
}

/// Two adjacent tokens of the same sequence.
pub(super) struct AdjacentPair<'a, W> {
    /// Position at which the left token begins.
    pub(super) position: usize,
    pub(super) left: u32,
    pub(super) right: u32,
    /// Weight of the sequence, as occurrences carry it.
    pub(super) weight: W,
    /// The weight as a number.
    pub(super) value: u64,
    /// Pair id at this position, for the visitor to write.
    pub(super) pair: &'a mut PairId,
}

/// Number of positions of a [`Corpus`] of these sequences.
pub(super) fn positions(pretokens: &PretokenCounts) -> usize {
    pretokens.bytes() + pretokens.len() + 1
}

/// What to do if the number of tokens does not fit in 64 bits.
const SMALLER_WEIGHTS: &str = "use smaller weights";
