//! The text as the training loop with lists uses it, and the weights of its sequences.

use rayon::prelude::*;

use super::fault::Fault;
use super::pairs::{NOT_KEPT, PairId};
use super::scan::BETWEEN;
use super::text::Text;
use crate::base::huge_pages;
use crate::base::int::{Count, to_u64, to_usize, truncate_to_u32, u64_to_usize};
use crate::count::PretokenCounts;
use crate::error::Result;
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
