//! Preparation of texts before they are split.

use std::fmt;

use super::fault::Fault;
use crate::base::int::to_u64;
use crate::error::Result;

/// Prepares a whole text before it is split: it normalizes the text, for example, or removes added tokens from it. So
/// counting sees the text that a tokenizer merges.
///
/// ```
/// use tokenmill::Result;
/// use tokenmill::count::{Prepare, Prepared};
///
/// #[derive(Debug)]
/// struct Lowercase;
///
/// impl Prepare for Lowercase {
///     fn each(&self, text: &[u8], take: &mut dyn FnMut(Prepared<'_>) -> Result<()>) -> Result<()> {
///         if text.is_empty() { Ok(()) } else { take(Prepared::Text(&text.to_ascii_lowercase())) }
///     }
/// }
/// ```
pub trait Prepare: fmt::Debug + Send + Sync {
    /// Passes the segments of the prepared text to `take`, in order.
    ///
    /// All of them together may have at most 1 024 times as many bytes as `text`.
    ///
    /// # Errors
    /// The first error of `take`.
    fn each(&self, text: &[u8], take: &mut dyn FnMut(Prepared<'_>) -> Result<()>) -> Result<()>;
}

/// A segment of a prepared text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared<'a> {
    /// Text to split and to count, never empty.
    Text(&'a [u8]),
    /// The text of a token that was removed. It is not counted.
    Token(&'a [u8]),
}

/// Largest factor by which preparation may lengthen a text. Positions in a prepared corpus are spaced by this factor,
/// so that each byte of a prepared text has its own.
const MOST_GROWTH: u64 = 1 << 10;

/// Returns the position of a text in a prepared corpus, given the bytes of the original corpus before it.
pub(super) fn place_of(bytes_before: u64) -> u64 {
    bytes_before.saturating_mul(MOST_GROWTH)
}

/// Checks that a text has not become more than [`MOST_GROWTH`] times as long. `prepared` is its length afterwards, in
/// bytes.
pub(super) fn check_growth(prepared: u64, text: &[u8]) -> Result<()> {
    let most = MOST_GROWTH;
    if prepared > to_u64(text.len()).saturating_mul(most) {
        Err(Fault::Grown { most }.into())
    } else {
        Ok(())
    }
}
