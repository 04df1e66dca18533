use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::Vocabulary;
use crate::split::SplitPattern;
use crate::units::amount;

/// Names this way of writing a vocabulary down; another way needs another name.
const SCHEME: &[u8] = b"tokenmill vocabulary 1\n";

impl Vocabulary {
    /// A SHA-256 in hexadecimal over everything that decides how text is encoded and decoded: tokens,
    /// ids, merges, special tokens, split. The same whatever file the vocabulary was read from.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(SCHEME);
        number(&mut hash, amount(self.tokens.len()));
        for token in &self.tokens {
            match token {
                // A token is never empty, so its length cannot be mistaken for a hole.
                None => number(&mut hash, 0),
                Some(bytes) => text(&mut hash, bytes),
            }
        }
        number(&mut hash, amount(self.specials.len()));
        for special in &self.specials {
            number(&mut hash, u64::from(special.id.get()));
        }
        number(&mut hash, amount(self.merges.len()));
        for merge in &self.merges {
            for part in [merge.left.get(), merge.right.get(), merge.result.get(), merge.rank] {
                hash.update(part.to_le_bytes());
            }
        }
        match &self.split {
            SplitPattern::None => hash.update([0]),
            SplitPattern::Named(named) => {
                hash.update([1]);
                text(&mut hash, named.name().as_bytes());
            }
            SplitPattern::Custom(regex) => {
                hash.update([2]);
                text(&mut hash, regex.as_bytes());
            }
        }
        hash.update([u8::from(self.ignore_merges)]);
        hash.finalize().iter().fold(String::with_capacity(64), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("a string takes everything");
            hex
        })
    }
}

fn number(hash: &mut Sha256, number: u64) {
    hash.update(number.to_le_bytes());
}

fn text(hash: &mut Sha256, bytes: &[u8]) {
    number(hash, amount(bytes.len()));
    hash.update(bytes);
}
