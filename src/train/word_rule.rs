//! Which tokens merges may make, as far as their texts decide.

use super::{Merge, Merges, TrainConfig};
use crate::base::int::{to_usize, truncate_to_u32};

/// Refuses tokens with too many words, and tokens that contain a colon followed by a space, as SuperBPE does.
///
/// A token that contains a refused token is refused as well.
///
/// **Memory:** 8 bytes per token.
pub(super) struct WordRule {
    max_words: u32,
    /// The words of each token.
    tokens: Vec<TokenWords>,
}

/// What must be known of the words of a token to tell those of a longer one.
#[derive(Clone, Copy)]
struct TokenWords {
    /// Number of words: the parts between spaces that are not empty.
    words: u32,
    first: u8,
    last: u8,
    /// Whether the token contains a colon followed by a space.
    has_colon_space: bool,
}

impl TokenWords {
    /// The token of a byte.
    fn of_byte(byte: u8) -> TokenWords {
        TokenWords { words: u32::from(byte != b' '), first: byte, last: byte, has_colon_space: false }
    }

    /// This token, followed by another one.
    fn followed_by(self, right: TokenWords) -> TokenWords {
        let shared = u32::from(self.last != b' ' && right.first != b' ');
        TokenWords {
            words: self.words.saturating_add(right.words - shared),
            first: self.first,
            last: right.last,
            has_colon_space: self.has_colon_space
                || right.has_colon_space
                || (self.last, right.first) == (b':', b' '),
        }
    }
}

impl WordRule {
    /// The rule for the bytes and the tokens that `merges` make.
    pub(super) fn new<'a>(max_words: usize, merges: impl IntoIterator<Item = &'a Merge>) -> WordRule {
        let max_words = truncate_to_u32(max_words.min(to_usize(u32::MAX)));
        let mut rule = WordRule { max_words, tokens: (0..=u8::MAX).map(TokenWords::of_byte).collect() };
        merges.into_iter().for_each(|merge| rule.add(merge.left, merge.right));
        rule
    }

    /// Adds the token made of two others.
    pub(super) fn add(&mut self, left: u32, right: u32) {
        self.tokens.push(self.joined(left, right));
    }

    /// Whether two tokens may be merged.
    pub(super) fn allows(&self, left: u32, right: u32) -> bool {
        let TokenWords { words, has_colon_space, .. } = self.joined(left, right);
        words <= self.max_words && !has_colon_space
    }

    fn joined(&self, left: u32, right: u32) -> TokenWords {
        self.tokens[to_usize(left)].followed_by(self.tokens[to_usize(right)])
    }
}

/// Which two tokens the limits of a configuration allow to merge: that of length, and that of words.
///
/// If two tokens are refused, so is every token that contains them side by side.
///
/// **Memory:** 12 bytes per token.
pub(crate) struct TokenLimits {
    longest: usize,
    lengths: Vec<u32>,
    word_rule: Option<WordRule>,
}

impl TokenLimits {
    /// The limits for the bytes and the tokens that `merges` make.
    pub(crate) fn new(config: &TrainConfig, merges: &Merges) -> TokenLimits {
        let word_rule = config.max_words.map(|max_words| WordRule::new(max_words, merges));
        TokenLimits { longest: config.max_bytes(), lengths: token_lengths(merges), word_rule }
    }

    /// Whether two tokens may be merged.
    #[inline]
    pub(crate) fn allow(&self, left: u32, right: u32) -> bool {
        self.length(left) + self.length(right) <= self.longest
            && self.word_rule.as_ref().is_none_or(|rule| rule.allows(left, right))
    }

    /// Length of a token in bytes.
    #[inline]
    pub(crate) fn length(&self, token: u32) -> usize {
        to_usize(self.lengths[to_usize(token)])
    }
}

/// Length in bytes of each token: of the 256 bytes, then of those that `merges` make.
pub(super) fn token_lengths<'a>(merges: impl IntoIterator<Item = &'a Merge>) -> Vec<u32> {
    let mut lengths: Vec<u32> = vec![1; 256];
    for merge in merges {
        lengths.push(lengths[to_usize(merge.left)].saturating_add(lengths[to_usize(merge.right)]));
    }
    lengths
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::int::Count;
    use crate::train::reference;

    proptest! {
        #[test]
        fn words_are_counted_as_in_the_text(text in "[ab :\u{A0}]{2,9}", max_words in 0_usize..5) {
            let text = text.as_bytes();
            let bytes: Vec<u32> = text.iter().map(|&byte| u32::from(byte)).collect();
            let merge = |(number, &right): (usize, &u32)| {
                let left = if number == 0 { bytes[0] } else { 255 + truncate_to_u32(number) };
                Merge { left, right, count: Count::ONE }
            };
            let merges: Vec<Merge> = bytes[1..].iter().enumerate().map(merge).collect();
            let (last, before) = merges.split_last().expect("a merge");
            let rule = WordRule::new(max_words, before);
            prop_assert_eq!(rule.allows(last.left, last.right), reference::has_few_words(text, max_words));
        }
    }
}
