use std::cmp::Ordering;

use crate::train::corpus::SEPARATOR;
use crate::train::order::ById;
use crate::train::text::Text;
use crate::train::{Merge, TieBreak};
use crate::units::place;

/// What a tie rule looks at, for pairs of any score.
pub(super) struct Ties {
    rule: TieBreak,
    gpt2: ById,
    /// The 256 bytes, the tokens that the text began with, then the sequences. This and what follows are
    /// empty unless the rule asks for bytes.
    bytes: Vec<u8>,
    /// Where in `bytes` each token stands, and its length.
    tokens: Vec<(usize, usize)>,
    /// Where in `bytes` each position of the text is.
    places: Vec<usize>,
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
    /// For a text whose tokens are bytes or made by `merges`, each at one position.
    pub(super) fn new(rule: TieBreak, text: &Text, merges: &[Merge]) -> Ties {
        let mut ties = Ties {
            rule,
            gpt2: ById::gpt2_alphabet(),
            bytes: Vec::new(),
            tokens: Vec::new(),
            places: Vec::new(),
        };
        if rule.looks_at_bytes() {
            ties.lay_out(text, merges);
        }
        ties
    }

    fn lay_out(&mut self, text: &Text, merges: &[Merge]) {
        self.bytes.extend(0..=255);
        self.tokens.extend((0..256).map(|byte| (byte, 1)));
        for merge in merges {
            let token = [self.of(merge.left), self.of(merge.right)].concat();
            self.tokens.push((self.bytes.len(), token.len()));
            self.bytes.extend(token);
        }
        for &token in &text.tokens {
            self.places.push(self.bytes.len());
            if token == SEPARATOR {
                self.bytes.push(0);
            } else {
                let (start, length) = self.tokens[place(token)];
                self.bytes.extend_from_within(start..start + length);
            }
        }
    }

    /// A token has been made that has so many bytes and stands at this position of the text.
    pub(super) fn made(&mut self, position: usize, length: usize) {
        if let Some(&place) = self.places.get(position) {
            self.tokens.push((place, length));
        }
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
