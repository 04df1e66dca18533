use super::fault::Fault;
use crate::count::PieceCounts;
use crate::error::{Error, ErrorKind, Result};
use crate::units::{Count, amount, low32, place};

/// Stands before, between and after the sequences; no token has this id.
pub(super) const SEPARATOR: u32 = u32::MAX;

/// The weighted sequences laid end to end: token ids with a separator around every sequence.
///
/// A token that spans positions p..q has its id at p and at q − 1; what lies between is stale. So the
/// token after one is found at p + its length, the token before one at p − 1, without links.
///
/// **Memory:** 4 bytes a position, and 4 more where weights differ.
pub(super) struct Corpus {
    pub(super) text: Vec<u32>,
    weights: Weights,
    /// Sum over sequences of weight × tokens.
    pub(super) tokens: u64,
}

/// How much an occurrence counts, by where it stands.
enum Weights {
    /// Everything counts once.
    One,
    /// By the sequence that a position belongs to.
    BySequence { sequence_at: Vec<u32>, weights: Vec<u64> },
}

impl Corpus {
    /// Lays out the sequences.
    ///
    /// # Errors
    /// There are more positions than 32 bits can number, or the tokens of the corpus are more than 64
    /// bits can count. Passing the second check means that no pair's count can overflow later.
    pub(super) fn new(pieces: &PieceCounts) -> Result<Corpus> {
        let positions = pieces.bytes() + pieces.len() + 1;
        if amount(positions) >= u64::from(u32::MAX) {
            let fault = Fault::TooManyPositions { bytes: amount(pieces.bytes()) };
            return Err(Error::new(ErrorKind::Memory, fault).with_help(
                "train on a part of it ([sample] take, every or max_bytes), or choose a split pattern",
            ));
        }
        let mut text = Vec::with_capacity(positions);
        text.push(SEPARATOR);
        let mut tokens = Count::ZERO;
        for (piece, count) in pieces.iter() {
            text.extend(piece.iter().map(|&byte| u32::from(byte)));
            text.push(SEPARATOR);
            tokens = count
                .checked_mul(amount(piece.len()))
                .and_then(|weighted| tokens.checked_add(weighted))
                .ok_or_else(|| Fault::overflow(piece))?;
        }
        Ok(Corpus { text, weights: Weights::new(pieces), tokens: tokens.get() })
    }

    /// How much an occurrence at this position counts.
    pub(super) fn weight(&self, position: usize) -> u64 {
        match &self.weights {
            Weights::One => 1,
            Weights::BySequence { sequence_at, weights } => weights[place(sequence_at[position])],
        }
    }
}

impl Weights {
    fn new(pieces: &PieceCounts) -> Weights {
        if pieces.iter().all(|(_, count)| count == Count::ONE) {
            return Weights::One;
        }
        let mut sequence_at = Vec::with_capacity(pieces.bytes() + pieces.len() + 1);
        sequence_at.push(0);
        let mut weights = Vec::with_capacity(pieces.len());
        for (index, (piece, count)) in pieces.iter().enumerate() {
            sequence_at.extend(std::iter::repeat_n(low32(index), piece.len() + 1));
            weights.push(count.get());
        }
        Weights::BySequence { sequence_at, weights }
    }
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
