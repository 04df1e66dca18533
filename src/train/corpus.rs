use rayon::prelude::*;

use super::fault::Fault;
use super::pairs::{NOT_KEPT, PairId};
use super::scan::BETWEEN;
use super::text::Text;
use crate::count::PieceCounts;
use crate::error::Result;
use crate::observer::Observer;
use crate::pages;
use crate::units::{Count, amount, low32, place, place64};

/// Stands before, between and after the sequences; no token has this id.
pub(super) const SEPARATOR: u32 = u32::MAX;

/// The observer is asked whether to stop after so many positions, some tens of milliseconds.
const POSITIONS_A_CHECK: usize = 1 << 22;

/// So many positions are worth the making of threads.
const LARGE: usize = if cfg!(test) { 50 } else { 1 << 22 };

/// What stands at a position: the token that begins or ends there, and the pair that begins there. They
/// lie side by side because whoever needs one mostly needs the other.
#[derive(Clone, Copy)]
pub(super) struct Cell {
    pub(super) token: u32,
    pub(super) pair: PairId,
}

/// Fetches the cells that merging a pair reads: where it begins, what comes before that, and after its span.
#[inline]
pub(super) fn fetch_around(cells: &[Cell], position: usize, span: usize) {
    // The token before begins a few positions earlier: in the same line of the cache or the one before.
    const BEFORE: usize = 4;
    pages::fetch(cells, position.saturating_sub(BEFORE));
    pages::fetch(cells, position + span);
}

/// The weighted sequences laid end to end, with a separator around every sequence.
///
/// A token that spans positions p..q stands at p and at q − 1; what lies between is stale. So the token
/// after one is found at p + its span, the token before one at p − 1, without links.
///
/// **Memory:** 8 bytes a position.
pub(super) struct Corpus<W> {
    pub(super) cells: Vec<Cell>,
    /// How many positions each token spans.
    pub(super) spans: Vec<u32>,
    weights: Vec<W>,
    /// Weights too large for a [`Weighted`].
    pub(super) heavy: Vec<u64>,
    /// Sum over sequences of weight × tokens.
    pub(super) tokens: u64,
}

/// How much the occurrences of a sequence count.
pub(super) trait Weight: Copy + Send + Sync {
    /// The weight itself; `heavy` has those too large to be kept here.
    fn value(self, heavy: &[u64]) -> u64;

    /// Whether every weight is 1.
    const ONCE: bool;

    /// Keeps a weight.
    fn keep(weight: u64, heavy: &mut Vec<u64>) -> Self;
}

/// Every sequence counts once.
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

/// A weight below 2³¹, or where among the heavy ones it stands: occurrences carry this with them, and 4
/// bytes are less to move than 8.
#[derive(Clone, Copy, Default)]
pub(super) struct Weighted(u32);

const HEAVY: u32 = 1 << 31;

impl Weight for Weighted {
    const ONCE: bool = false;

    #[inline]
    fn value(self, heavy: &[u64]) -> u64 {
        if self.0 < HEAVY { u64::from(self.0) } else { heavy[place(self.0 - HEAVY)] }
    }

    fn keep(weight: u64, heavy: &mut Vec<u64>) -> Weighted {
        match u32::try_from(weight) {
            Ok(light) if light < HEAVY => Weighted(light),
            _ => {
                heavy.push(weight);
                Weighted(HEAVY + low32(heavy.len() - 1))
            }
        }
    }
}

impl<W: Weight> Corpus<W> {
    /// Lays out sequences of bytes.
    ///
    /// # Errors
    /// There are more positions than 32 bits can number, or the tokens of the corpus are more than 64
    /// bits can count. Passing the second check means that no pair's count can overflow later.
    pub(super) fn new(pieces: &PieceCounts) -> Result<Corpus<W>> {
        let mut corpus = Corpus::with_room(pieces.bytes(), pieces.len(), 256)?;
        let mut tokens = Count::ZERO;
        for (piece, count) in pieces.iter() {
            corpus.push_sequence(piece.iter().map(|&byte| u32::from(byte)), count.get());
            tokens = count
                .checked_mul(amount(piece.len()))
                .and_then(|weighted| tokens.checked_add(weighted))
                .ok_or_else(|| Fault::overflow(piece))?;
        }
        corpus.tokens = tokens.get();
        Ok(corpus)
    }

    /// Takes a text that has been merged already, of tokens below `kinds`, each at one position.
    ///
    /// # Errors
    /// There are more positions than 32 bits can number.
    pub(super) fn of_tokens(text: Vec<u16>, tokens: u64, kinds: usize) -> Result<Corpus<W>> {
        let sequences = 1 + text.par_iter().filter(|token| **token == BETWEEN).count();
        let mut corpus = Corpus::with_room(place64(tokens), sequences, kinds)?;
        // In parallel, because touching so much memory for the first time takes long.
        corpus.cells.par_extend(text.par_iter().map(|&token| Cell {
            token: if token == BETWEEN { SEPARATOR } else { u32::from(token) },
            pair: NOT_KEPT,
        }));
        corpus.cells.push(Cell { token: SEPARATOR, pair: NOT_KEPT });
        corpus.weights.resize(sequences, W::keep(1, &mut Vec::new()));
        corpus.tokens = tokens;
        Ok(corpus)
    }

    /// Room for sequences of so many tokens in all, of a vocabulary of `kinds` tokens.
    fn with_room(tokens: usize, sequences: usize, kinds: usize) -> Result<Corpus<W>> {
        let positions = tokens + sequences + 1;
        if amount(positions) >= u64::from(u32::MAX) {
            return Err(Fault::too_many(positions));
        }
        let mut cells = pages::with_capacity(positions);
        cells.push(Cell { token: SEPARATOR, pair: NOT_KEPT });
        let weights = Vec::with_capacity(sequences);
        Ok(Corpus { cells, spans: vec![1; kinds], weights, heavy: Vec::new(), tokens: 0 })
    }

    fn push_sequence(&mut self, tokens: impl Iterator<Item = u32>, weight: u64) {
        self.cells.extend(tokens.map(|token| Cell { token, pair: NOT_KEPT }));
        self.cells.push(Cell { token: SEPARATOR, pair: NOT_KEPT });
        self.weights.push(W::keep(weight, &mut self.heavy));
    }

    /// Takes over a text in which every token stands at one position.
    ///
    /// # Errors
    /// There are more positions than 32 bits can number.
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

    /// The tokens of the text as it stands, with the separators.
    pub(super) fn live_tokens(&self) -> Vec<u32> {
        let mut tokens = Vec::new();
        let mut position = 0;
        while let Some(&Cell { token, .. }) = self.cells.get(position) {
            tokens.push(token);
            position += if token == SEPARATOR { 1 } else { place(self.spans[place(token)]) };
        }
        tokens
    }

    /// Whether it is worth the making of threads.
    pub(super) fn is_large(&self) -> bool {
        self.cells.len() >= LARGE
    }

    /// Whether every token spans one position.
    pub(super) fn is_dense(&self) -> bool {
        self.spans.iter().all(|span| *span == 1)
    }

    /// Calls back with every pair of neighbours in the text, unless the observer wants to stop.
    pub(super) fn for_each_pair(
        &mut self,
        observer: &dyn Observer,
        mut visit: impl FnMut(Neighbours<'_, W>),
    ) -> Result<()> {
        let (mut position, mut check) = (0, 0);
        // Then the next position is known before the token here is read.
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
            let next = position + if dense { 1 } else { place(self.spans[place(left)]) };
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

/// Two tokens side by side.
pub(super) struct Neighbours<'a, W> {
    pub(super) position: usize,
    pub(super) left: u32,
    pub(super) right: u32,
    pub(super) weight: W,
    /// The weight itself.
    pub(super) value: u64,
    /// What names the pair at this position.
    pub(super) pair: &'a mut PairId,
}

/// The bytes of the sequences, each at the position where [`Corpus`] has its token.
pub(super) fn bytes_by_position(pieces: &PieceCounts) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(pieces.bytes() + pieces.len() + 1);
    bytes.push(0);
    for (piece, _) in pieces.iter() {
        bytes.extend_from_slice(piece);
        bytes.push(0);
    }
    bytes
}
