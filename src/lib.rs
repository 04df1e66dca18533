//! Learns byte-level BPE tokenizers from large corpora on one multi-core machine, and encodes whole
//! datasets into token-id Parquet.
//!
//! Every training job, with or without a split pattern, is the same problem: a bag of weighted byte
//! sequences. With a split the sequences are the distinct pieces and their counts; without one they
//! are the documents. So there is one merge loop, one tie rule, and one encoder for both.
//!
//! To encode and decode texts in a program, begin with [`Tokenizer`]; whole jobs go through [`run`].
//!
//! The modules stand in the order in which data flows, and each knows only those before it that it
//! needs (`ARCHITECTURE.md` has the graph).

/// The crate's one error type, and what kind of failure it stands for.
pub mod error;
/// Ids and amounts as types, and every integer cast of the crate.
pub mod units;
/// How a stage tells what it has done, and learns that it should stop.
pub mod observer;
/// Writes a file whole or not at all.
pub mod files;
/// Makes errors of the panics of decoders.
pub mod panics;
pub(crate) mod cast;
pub(crate) mod lengths;
pub(crate) mod declared;
pub(crate) mod digest;
pub(crate) mod draws;
pub(crate) mod hashing;
pub(crate) mod index;
pub(crate) mod pages;
pub(crate) mod parallel;
#[cfg(test)]
pub(crate) mod costly;

/// The version of this program. Results name it, and depend on it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

// The stages in the order of the flow; each one's mod.rs says what it takes and what it gives.
pub mod source;
pub mod sample;
pub mod split;
pub mod count;
pub mod train;
pub mod vocab;
pub mod encode;
pub mod sink;
pub mod report;
pub mod run;

pub use encode::{DecodeStream, Tokenizer};
pub use error::{Error, ErrorKind, Result};
pub use observer::{Observer, Stage};
pub use units::{Count, TokenId};

// The flow of the data, by the types at the stages' boundaries.
#[rustfmt::skip]
pub use self::{
    source::Batch, count::PieceCounts, train::Merges, vocab::Vocabulary, encode::TokenBatch, report::RunReport,
};

// Of which documents and columns are made: `source::Batch`, `encode::TokenBatch`.
pub use {arrow_array, arrow_schema};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
