//! Token ids, their bytes, and the files that hold them.
//!
//! A [`Vocabulary`] is made from merges just learned or read from a file of any supported format, and
//! checked either way. Token id and merge rank are separate things: byte b need not have id b.

mod vocabulary;

pub use vocabulary::{RankedMerge, SpecialToken, Vocabulary};
