use std::cmp::Ordering;

use crate::count::PieceCounts;
use crate::train::TieBreak;
use crate::train::order::ById;
use crate::units::place;

/// What a tie rule looks at, for pairs of any score.
pub(super) struct Ties {
    rule: TieBreak,
    gpt2: ById,
    /// The 256 bytes, then the sequences as they lie in the text; nothing unless the rule asks for it.
    bytes: Vec<u8>,
    /// Where in `bytes` each token stands, and its length.
    tokens: Vec<(usize, usize)>,
}

/// A pair as tie rules see it.
#[derive(Clone, Copy)]
pub(super) struct Tied {
    pub(super) left: u32,
    pub(super) right: u32,
    /// Where it occurs first.
    pub(super) first: u32,
}

impl Ties {
    pub(super) fn new(rule: TieBreak, pieces: &PieceCounts) -> Ties {
        let mut bytes: Vec<u8> = (0..=255).collect();
        if matches!(rule, TieBreak::BytesGreatest | TieBreak::BytesSmallest) {
            for (piece, _) in pieces.iter() {
                bytes.push(0);
                bytes.extend_from_slice(piece);
            }
        }
        Ties { rule, gpt2: ById::gpt2_alphabet(), bytes, tokens: (0..256).map(|byte| (byte, 1)).collect() }
    }

    /// A token has been made that has so many bytes and stands at this position of the text.
    pub(super) fn made(&mut self, position: usize, length: usize) {
        self.tokens.push((256 + position, length));
    }

    /// Which of two pairs comes first: the lesser.
    pub(super) fn compare(&self, one: &Tied, two: &Tied) -> Ordering {
        let gpt2 = |pair: &Tied| (self.gpt2.place_of(pair.left), self.gpt2.place_of(pair.right));
        let by_bytes =
            || (self.of(one.left), self.of(one.right)).cmp(&(self.of(two.left), self.of(two.right)));
        match self.rule {
            TieBreak::Ids => (one.left, one.right).cmp(&(two.left, two.right)),
            TieBreak::Hf => gpt2(one).cmp(&gpt2(two)),
            TieBreak::First => one.first.cmp(&two.first),
            TieBreak::BytesSmallest => by_bytes(),
            TieBreak::BytesGreatest => by_bytes().reverse(),
        }
    }

    /// The bytes of a token.
    fn of(&self, token: u32) -> &[u8] {
        let (start, length) = self.tokens[place(token)];
        &self.bytes[start..start + length]
    }
}
