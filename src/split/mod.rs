//! Cuts text into pieces across which no merge goes.
//!
//! Takes bytes, gives the places where pieces end. The obvious way is a regular expression; it is the
//! oracle for any faster one. Knows nothing of documents, counts or tokens.

use crate::error::Result;

/// How text is cut into pieces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SplitPattern {
    /// Not at all: a document is one piece.
    None,
    /// By one of the patterns that have a name.
    Named(Named),
    /// By a regular expression: matches and the text between matches are the pieces.
    Custom(String),
}

/// The patterns that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Named {
    /// GPT-2's.
    Gpt2,
    /// GPT-4's, as Hugging Face, rustbpe and minbpe write it.
    Gpt4,
    /// tiktoken's present cl100k string, which differs from `Gpt4` on white space at the end of a text.
    Cl100k,
    /// GPT-4o's.
    O200k,
    /// nanochat's: GPT-4's with at most two digits together.
    Nanochat,
}

/// Cuts text by one pattern.
///
/// Every byte belongs to exactly one piece. Bytes that are not UTF-8 are cut as
/// [`String::from_utf8_lossy`] of them would be, with the cuts mapped back to the bytes.
pub trait Splitter: Send + Sync {
    /// Appends to `ends` the end of each piece of `text`, ascending; the last is `text.len()`.
    /// Pieces are never empty; empty text has none.
    ///
    /// # Errors
    /// A custom pattern ran past its limit of backtracking.
    fn piece_ends(&self, text: &[u8], ends: &mut Vec<usize>) -> Result<()>;

    /// The last place at or before `limit` where the pattern certainly cuts, whatever stands before
    /// `text` and after it: then both sides can be split on their own. `None` if there is none to be seen.
    fn certain_cut(&self, text: &[u8], limit: usize) -> Option<usize>;
}

/// Makes the splitter of a pattern.
///
/// # Errors
/// A custom pattern is not a regular expression, or can match nothing at all.
pub fn splitter(_pattern: &SplitPattern) -> Result<Box<dyn Splitter>> {
    unreachable!("not written yet")
}
