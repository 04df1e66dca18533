//! Encodes a pre-token, or a document that is not split, by longest matches with backtracking, without carrying
//! out merges.
//!
//! This is exact if every token encodes to itself, has bytes and a merge of its own, and every merge builds only
//! on merges of lower rank (see [`Method`](super::Method)). For such vocabularies, merging the lowest rank first,
//! the leftmost among equals, is the same as carrying out the merges one after the other by rank, each from left
//! to right over the whole text. Two tokens are *compatible* if their bytes together encode to exactly these two
//! tokens.
//!
//! **Theorem. A sequence of tokens is the encoding of its bytes exactly if all adjacent tokens are compatible.**
//! Suppose that up to some rank no merge has crossed a border between tokens of the sequence. Then the bytes of
//! each token have been merged as they would be alone. The merge of the next rank, going from left to right, does
//! at each border what it would do if only the two tokens beside it existed. Text before the left token could
//! matter only if the two parts of the merge are equal and a run of them reaches the border; but the merge did
//! not cross the left token's start, so the run was paired up afresh from there. So a merge crosses a border of
//! the text exactly if it crosses in the encoding of the two tokens beside it. By induction, no merge crosses any
//! border exactly if all adjacent tokens are compatible, and then the bytes of each token become that token.
//!
//! So an encoding is found from left to right: of the tokens that begin the remaining text, take the longest that
//! is compatible with the token before. The tokens so far are then the encoding of the text so far. If none is
//! compatible, backtrack: replace the last token by a shorter one. A consequence is stitching: two encodings that
//! begin at different positions agree from the first position on at which the same token ends in both. So several
//! threads can encode one text.
//!
//! Whatever the merges make of the bytes around a position is a token. So if no token spans the border between
//! two characters, the text before and after it is encoded independently. New pre-tokens in scripts other than
//! Latin are cut at such borders, and a character that is then alone is looked up. Texts without a split are
//! encoded [interleaved](abreast). With much such text, a [lazy DFA](automaton) learns what the early merges
//! produce, and the remaining segments are looked up in a cache.

mod trie;
mod longest;
mod lists;
mod follow;
mod fit;
mod path;
mod document;
mod joining;
mod characters;
mod together;
mod abreast;
mod automaton;

#[cfg(test)]
mod tests;

pub(super) use document::Scratch;
pub(super) use joining::{EncodedPart, Ending};
pub(super) use path::Path;
pub(super) use together::Together;

use crate::base::huge_pages;
use crate::base::int::{to_usize, truncate_to_u32};
use crate::vocab::Vocabulary;
use automaton::{Automata, Tokens, early_merges};
use characters::Borders;
use fit::Fitting;
use follow::Order;
use longest::Longest;

/// No token: the predecessor of a text's first token, and the next shorter token of the shortest one.
const NONE: u32 = u32::MAX;

/// The backtracking tables of a vocabulary, shared by all threads.
///
/// **Memory:** 0.6 MB; for each token 32 bytes, 8 for each byte that it does not share with the start of another
/// token, and 70 to 100 for its incompatible followers; for whole texts also that of [`Tokens`].
#[derive(Debug)]
pub(super) struct Matches {
    longest: Longest,
    tokens: Box<[Token]>,
    fitting: Fitting,
    /// The class of each byte value, as an index into [`Token::followers`].
    classes: [u8; 256],
    borders: Borders,
    /// For texts that are not split: the tokens that the lazy DFA finds.
    whole: Option<Tokens>,
    /// For texts that are not split: the states that threads have learned.
    automata: Automata,
}

/// What encoding looks up for a token. Two of these share one line of the CPU cache.
#[derive(Clone, Debug)]
#[repr(align(32))]
struct Token {
    /// One bit per [class](Order::classes) of bytes, clear if no token that begins with a byte of the class is
    /// compatible after this one.
    followers: u64,
    /// Start of the row of this token's incompatible followers, and the column of this token as a follower.
    row: u32,
    column: u32,
    length: u32,
    /// The longest token that is a proper prefix of this one, or [`NONE`].
    shorter: u32,
}

impl Token {
    /// Whether any token that begins with a byte of this class is compatible after this one.
    #[inline]
    fn can_precede(&self, class: u8) -> bool {
        self.followers >> (u32::from(class) % u64::BITS) & 1 == 1
    }
}

impl Matches {
    /// Builds the tables of a vocabulary that allows longest matches, for pre-tokens or for whole texts. `None`
    /// if the vocabulary is too large, or constructed so that this would take too long.
    pub(super) fn new(vocabulary: &Vocabulary, whole_texts: bool) -> Option<Matches> {
        let (longest, after) = rayon::join(
            || Longest::new(vocabulary),
            || {
                let order = Order::new(vocabulary);
                let (sets_after, sets) = order.sets_after()?;
                let (fitting, columns) = Fitting::new(&sets, order.numbers())?;
                Some((order, sets_after, sets, fitting, columns))
            },
        );
        let (longest, shorter) = longest?;
        let (order, sets_after, sets, fitting, columns) = after?;
        let followers: Vec<u64> =
            (0..sets.len()).map(|set| order.followers(sets.get(truncate_to_u32(set)))).collect();
        let unused = Token { followers: 0, row: 0, column: 0, length: 0, shorter: NONE };
        let mut tokens = vec![unused; shorter.len()];
        for (id, bytes) in vocabulary.ordinary() {
            let set = sets_after[id.index()];
            tokens[id.index()] = Token {
                followers: followers[to_usize(set)],
                row: Fitting::row(set, &columns),
                column: columns[to_usize(order.number(id.get()))],
                length: truncate_to_u32(bytes.len()),
                shorter: shorter[id.index()],
            };
        }
        let whole = whole_texts.then(|| Tokens::new(vocabulary, early_merges(vocabulary))).flatten();
        Some(Matches {
            longest,
            tokens: tokens.into(),
            fitting,
            whole,
            classes: order.classes(),
            borders: Borders::new(vocabulary),
            automata: Automata::default(),
        })
    }

    /// Length of a token in bytes.
    fn length(&self, token: u32) -> usize {
        to_usize(self.tokens[to_usize(token)].length)
    }

    /// Whether texts can be encoded interleaved. That needs padding as long as the longest token after each text.
    fn go_abreast(&self) -> bool {
        self.longest.most_bytes() <= automaton::LONGEST
    }

    /// Whether two tokens are compatible: whether the bytes of both together encode to the two.
    #[inline(always)] // Once per token.
    fn fit(&self, left: u32, right: u32) -> bool {
        self.fitting.fits(self.tokens[to_usize(left)].row, self.tokens[to_usize(right)].column)
    }

    /// Whether any token that begins with this byte is compatible after `token`.
    #[inline]
    fn can_follow(&self, token: u32, byte: u8) -> bool {
        self.tokens[to_usize(token)].can_precede(self.classes[usize::from(byte)])
    }

    /// The longest token that is a proper prefix of this one, or [`NONE`].
    fn shorter(&self, token: u32) -> u32 {
        self.tokens[to_usize(token)].shorter
    }

    /// The longest token that a text begins with, and its length in bytes. The text must not be empty.
    #[inline]
    fn longest(&self, text: &[u8]) -> (u32, usize) {
        self.sized(self.longest.find(text))
    }

    /// Replaces the length 0, which means 256 or more, by the token's real length.
    #[inline]
    fn sized(&self, (token, length): (u32, u32)) -> (u32, usize) {
        match length {
            0 => (token, self.length(token)),
            length => (token, to_usize(length)),
        }
    }

    /// Prefetches the entry of a token.
    fn fetch(&self, token: u32) {
        huge_pages::fetch(&self.tokens, to_usize(token));
    }

    /// Prefetches the first of the two words that say whether two tokens are compatible.
    fn fetch_fit(&self, left: u32, right: u32) {
        self.fitting.fetch(self.tokens[to_usize(left)].row, self.tokens[to_usize(right)].column);
    }

    /// Prefetches the second of these words. The first must have arrived, as its content gives the address.
    fn fetch_fit_word(&self, left: u32, right: u32) {
        self.fitting.fetch_word(self.tokens[to_usize(left)].row, self.tokens[to_usize(right)].column);
    }
}
