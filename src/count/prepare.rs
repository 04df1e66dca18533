use std::fmt;

use super::fault::Fault;
use crate::error::Result;
use crate::units::amount;

/// What happens to a whole text before it is split, so that what is counted is what a tokenizer merges: it is normalized,
/// say, and some tokens are cut out of it.
pub trait Prepare: fmt::Debug + Send + Sync {
    /// Hands the parts of a text to `take`, in order.
    ///
    /// # Errors
    /// Those of `take`.
    fn each(&self, text: &[u8], take: &mut dyn FnMut(Prepared<'_>) -> Result<()>) -> Result<()>;
}

/// A part of a prepared text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared<'a> {
    /// Text to split and to count, never empty.
    Text(&'a [u8]),
    /// A token that was cut out, by its text.
    Token(&'a [u8]),
}

/// A prepared text may be so many times as long as it was: the places of its parts in the corpus are numbered with room for
/// that.
const MOST_GROWTH: u64 = 1 << 10;

/// The place of a text in a corpus that is prepared, of the bytes before it.
pub(super) fn place_of(bytes_before: u64) -> u64 {
    bytes_before.saturating_mul(MOST_GROWTH)
}

/// Checks that so many bytes of prepared text have a place of their own.
pub(super) fn check_growth(prepared: u64, text: &[u8]) -> Result<()> {
    let most = MOST_GROWTH;
    if prepared > amount(text.len()).saturating_mul(most) {
        Err(Fault::Grown { most }.into())
    } else {
        Ok(())
    }
}
