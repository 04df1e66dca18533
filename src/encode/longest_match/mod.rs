//! Encodes a piece, or a document that is one, by longest matches, without merging anything.
//!
//! This is exact where every token encodes to itself, has bytes and a merge of its own, and where merges
//! build on merges of lower rank only (see [`Method`](super::Method)). Then the lowest rank first, the
//! leftmost among equals, is the same as carrying out the merges one after the other by rank, each from
//! left to right over the whole text. Call two tokens *fitting* if their bytes together encode to just
//! these two tokens.
//!
//! **Tokens that fit pairwise are the encoding of their bytes, and only they are.** Suppose that up to
//! some rank no merge has crossed a border between tokens; so far each token's bytes have gone the way
//! they go alone. The merge of the next rank, going from left to right, finds the same at a border as if
//! only the two tokens beside it were there: what stands before the left one can only matter if the merge
//! has equal parts and a run of them reaches the border, and then it was cut afresh at the left token's
//! start, since it did not cross there. So a merge crosses a border of the text exactly if it crosses in
//! the encoding of the two tokens beside it, and by induction none crosses exactly if all neighbours fit;
//! what each token's bytes then become alone is the token.
//!
//! So an encoding is found from left to right: of the tokens that the text goes on with, the longest that
//! fits the one before. The tokens so far are then the encoding of the text so far. Where none fits, the
//! last token is given back and a shorter one takes its place. And two encodings, begun at different
//! places, are the same from the first place on where the same token ends in both; so a text can be
//! encoded by several threads.
//!
//! What merges make of the bytes around a place is a token. So where none spans the border between two characters, what
//! stands before and behind it is encoded each on its own: new pieces of other scripts than the Latin are taken apart
//! so, and a character that then stands alone is looked up. Texts without a split are gone through [abreast], and where
//! there is much of that, an [`automaton`] learns what the early merges make of it, and the rest is looked up in pieces.

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

use crate::pages;
use crate::units::{low32, place};
use crate::vocab::Vocabulary;
use automaton::{Automata, Tokens, early_merges};
use characters::Borders;
use fit::Fitting;
use follow::Order;
use longest::Longest;

/// No token: what stands before a text, and what comes after the shortest.
const NONE: u32 = u32::MAX;

/// What encoding by longest matches needs of a vocabulary, shared by all threads.
///
/// **Memory:** 0.6 MB, and for each token 32 bytes, 8 for each byte that it does not share with the start
/// of another, and 70 to 100 for what fits after it; for whole texts that of [`Tokens`].
#[derive(Debug)]
pub(super) struct Matches {
    longest: Longest,
    tokens: Box<[Token]>,
    fitting: Fitting,
    /// The class of each byte, by which [tokens](Token::followers) know them.
    classes: [u8; 256],
    borders: Borders,
    /// For texts that are not split.
    whole: Option<Tokens>,
    /// For the same: what threads have learned of it.
    automata: Automata,
}

/// What is looked up of a token, two in a line of the processor's cache.
#[derive(Clone, Debug)]
#[repr(align(32))]
struct Token {
    /// One bit a [class](Order::classes) of bytes, clear if no token that begins with one of them fits after it.
    followers: u64,
    /// Where its row begins, in which the tokens are set that do not fit after it, and its column.
    row: u32,
    column: u32,
    length: u32,
    /// The longest token that is a proper prefix of it, or [`NONE`].
    shorter: u32,
}

impl Token {
    /// Whether any token may follow that begins with a byte of this class.
    #[inline]
    fn can_precede(&self, class: u8) -> bool {
        self.followers >> (u32::from(class) % u64::BITS) & 1 == 1
    }
}

impl Matches {
    /// Prepares a vocabulary for which the shortcuts hold, for pieces or for whole texts; `None` if it is too large,
    /// or made up so that preparing it would take too long.
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
        let followers: Vec<u64> = (0..sets.len()).map(|set| order.followers(sets.get(low32(set)))).collect();
        let unused = Token { followers: 0, row: 0, column: 0, length: 0, shorter: NONE };
        let mut tokens = vec![unused; shorter.len()];
        for (id, bytes) in vocabulary.ordinary() {
            let set = sets_after[id.index()];
            tokens[id.index()] = Token {
                followers: followers[place(set)],
                row: Fitting::row(set, &columns),
                column: columns[place(order.number(id.get()))],
                length: low32(bytes.len()),
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

    fn length(&self, token: u32) -> usize {
        place(self.tokens[place(token)].length)
    }

    /// Whether texts are encoded side by side: behind them room is needed for the longest token.
    fn go_abreast(&self) -> bool {
        self.longest.most_bytes() <= automaton::LONGEST
    }

    /// Whether the bytes of these two together encode to the two.
    #[inline(always)] // Once a token.
    fn fit(&self, left: u32, right: u32) -> bool {
        self.fitting.fits(self.tokens[place(left)].row, self.tokens[place(right)].column)
    }

    /// Whether any token may follow that begins with this byte.
    #[inline]
    fn can_follow(&self, token: u32, byte: u8) -> bool {
        self.tokens[place(token)].can_precede(self.classes[usize::from(byte)])
    }

    /// The longest token that is a proper prefix of this one, or [`NONE`].
    fn shorter(&self, token: u32) -> u32 {
        self.tokens[place(token)].shorter
    }

    /// The longest token that a text, which is not empty, begins with, and its length.
    #[inline]
    fn longest(&self, text: &[u8]) -> (u32, usize) {
        self.sized(self.longest.find(text))
    }

    /// A token with its length, of which 0 says that it is long.
    #[inline]
    fn sized(&self, (token, length): (u32, u32)) -> (u32, usize) {
        match length {
            0 => (token, self.length(token)),
            length => (token, place(length)),
        }
    }

    /// Asks for what is looked up of a token.
    fn fetch(&self, token: u32) {
        pages::fetch(&self.tokens, place(token));
    }

    /// Asks for what tells whether one fits after the other.
    fn fetch_fit(&self, left: u32, right: u32) {
        self.fitting.fetch(self.tokens[place(left)].row, self.tokens[place(right)].column);
    }

    /// The same, once that is there.
    fn fetch_fit_word(&self, left: u32, right: u32) {
        self.fitting.fetch_word(self.tokens[place(left)].row, self.tokens[place(right)].column);
    }
}
