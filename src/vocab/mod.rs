//! Token ids, their bytes, and the files that hold them.
//!
//! A [`Vocabulary`] is made from merges just learned or read from a file of any supported format, and
//! checked either way. Token id and merge rank are separate things: byte b need not have id b.

mod alphabet;
mod checks;
mod fault;
mod fingerprint;
mod format;
mod gpt2;
mod hf_read;
mod hf_write;
mod keyed;
mod list;
mod merging;
mod minbpe;
mod parts;
mod record;
mod tiktoken;
mod vocabulary;

pub use checks::{Checks, check};
pub use format::{Format, LoadOptions, NotFormat, WriteOptions, load, render, write};
pub use parts::{SpecialTokensAt, VocabularyParts};
pub use record::TrainingRecord;
pub use vocabulary::{RankedMerge, SpecialToken, Vocabulary};
