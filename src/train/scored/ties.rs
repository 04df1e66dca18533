//! Tie rules for training by scores.

use std::cmp::Ordering;

use crate::base::int::to_usize;
use crate::train::corpus::SEPARATOR;
use crate::train::order::ById;
use crate::train::text::Text;
use crate::train::{Merge, TieBreak};

/// The data that a tie rule compares, for training by any score.
///
/// The bytes of a new token are a slice of the text, at its first occurrence, so they are not copied.
pub(super) struct Ties {
    rule: TieBreak,
    /// Ranks of the bytes in GPT-2's byte alphabet.
    gpt2: ById,
    /// The bytes of all tokens: the 256 bytes, then the tokens made by the merges given at the start, then the
    /// text. This field and the next two are empty unless the rule compares bytes.
    bytes: Vec<u8>,
    /// Start in `bytes` and length of each token.
    tokens: Vec<(usize, usize)>,
    /// Start in `bytes` of each position of the text.
    places: Vec<usize>,
}

/// A pair, as tie rules compare it.
#[derive(Clone, Copy)]
pub(super) struct Tied {
    pub(super) left: u32,
    pub(super) right: u32,
    /// Position of its first occurrence.
    pub(super) first: u32,
}

impl Ties {
    /// For a text in which every token spans one position; the tokens are bytes or made by `merges`.
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

    /// Writes out the bytes of all tokens and of the text.
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
                let (start, length) = self.tokens[to_usize(token)];
                self.bytes.extend_from_within(start..start + length);
            }
        }
    }

    /// Notes that a new token of `length` bytes has been made, which occurs at `position`.
    pub(super) fn made(&mut self, position: usize, length: usize) {
        if let Some(&place) = self.places.get(position) {
            self.tokens.push((place, length));
        }
    }

    /// Compares two pairs by the rule; the lesser is merged first.
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
        let (start, length) = self.tokens[to_usize(token)];
        &self.bytes[start..start + length]
    }
}
