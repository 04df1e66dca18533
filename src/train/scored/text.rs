use crate::count::PieceCounts;
use crate::error::{Error, ErrorKind, Result};
use crate::train::fault::Fault;
use crate::units::{Count, amount, low32, place};

/// Stands before, between and after the sequences; no token has this id.
pub(super) const SEPARATOR: u32 = u32::MAX;

/// No pair begins here that is worth keeping.
pub(super) const NO_PAIR: u32 = u32::MAX;

/// The weighted sequences laid end to end.
///
/// A token that spans positions p..q has its id at p and at q − 1; what lies between is stale. So the
/// token after one is found at p + its length, the token before one at p − 1.
///
/// **Memory:** 12 bytes a position.
pub(super) struct Text {
    pub(super) tokens: Vec<u32>,
    /// The pair that begins at each position.
    pub(super) pairs: Vec<u32>,
    sequences: Vec<u32>,
    weights: Vec<u64>,
    /// Bytes of each token.
    pub(super) lengths: Vec<u32>,
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
        if amount(positions) >= u64::from(u32::MAX) {
            let fault = Fault::TooManyPositions { positions: amount(pieces.bytes()) };
            return Err(Error::new(ErrorKind::Memory, fault).with_help(
                "train on a part of it ([sample] take, every or max_bytes), or choose a split pattern",
            ));
        }
        let mut text = Text {
            tokens: Vec::with_capacity(positions),
            pairs: vec![NO_PAIR; positions],
            sequences: Vec::with_capacity(positions),
            weights: Vec::with_capacity(pieces.len()),
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

    /// Appends a sequence; gives nothing if its tokens are too many.
    fn push(&mut self, piece: &[u8], weight: Count) -> Option<()> {
        let tokens = weight.checked_mul(amount(piece.len()))?;
        self.total = self.total.checked_add(tokens.get())?;
        for &byte in piece {
            self.tokens.push(u32::from(byte));
            self.counts[usize::from(byte)] += weight.get();
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

    pub(super) fn length(&self, token: u32) -> usize {
        place(self.lengths[place(token)])
    }

    /// Where the token before a position begins.
    pub(super) fn before(&self, position: usize) -> Option<usize> {
        let token = self.tokens[position - 1];
        (token != SEPARATOR).then(|| position - self.length(token))
    }

    /// The pair that begins at a position, if two tokens of a sequence do.
    pub(super) fn pair_at(&self, position: usize) -> Option<(u32, u32)> {
        let left = self.tokens[position];
        if left == SEPARATOR {
            return None;
        }
        let right = self.tokens[position + self.length(left)];
        (right != SEPARATOR).then_some((left, right))
    }

    /// A new token of two, which does not stand in the text yet.
    pub(super) fn add_token(&mut self, left: u32, right: u32) -> u32 {
        let token = low32(self.lengths.len());
        self.lengths.push(self.lengths[place(left)] + self.lengths[place(right)]);
        self.counts.push(0);
        token
    }

    /// Writes a token over the two that it is made of.
    pub(super) fn replace(&mut self, position: usize, (left, right): (u32, u32), token: u32) {
        let weight = self.weight(position);
        let end = position + self.length(token);
        self.tokens[position] = token;
        self.tokens[end - 1] = token;
        self.counts[place(left)] -= weight;
        self.counts[place(right)] -= weight;
        self.counts[place(token)] += weight;
        self.total -= weight;
    }
}
