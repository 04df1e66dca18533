//! Learns byte-level BPE tokenizers from large corpora on one multi-core machine, and encodes whole
//! datasets into token-id Parquet.
//!
//! Every training job, with or without a split pattern, is the same problem: a bag of weighted byte
//! sequences. With a split the sequences are the distinct pieces and their counts; without one they
//! are the documents. So there is one merge loop, one tie rule, and one encoder for both.
//!
//! To encode and decode texts in a program, begin with [`Tokenizer`]; to learn a tokenizer from texts that it holds, with
//! [`run::learn`]. Whole jobs, as the command line does them, go through [`run::job`].
//!
//! ```
//! use tokenmill::encode::EncodeConfig;
//! use tokenmill::observer::Silent;
//! use tokenmill::run::{LearnConfig, learn};
//! use tokenmill::{Tokenizer, source};
//!
//! let texts = source::texts(["how much wood would a woodchuck chuck", "if a woodchuck could chuck wood?"]);
//! let (vocabulary, _) = learn(texts, &LearnConfig::new(280, &[]), &Silent)?;
//! let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
//! let ids = tokenizer.encode("would a woodchuck chuck?")?;
//! assert_eq!(tokenizer.decode(&ids)?, b"would a woodchuck chuck?");
//! # Ok::<(), tokenmill::Error>(())
//! ```
//!
//! Data flows through the modules in this order, and each knows only those before it that it needs:
//!
//! | module | takes | gives |
//! | --- | --- | --- |
//! | [`source`] | files, datasets of a hub, texts of a program | [`Batch`]es of documents |
//! | [`sample`] | documents | some of them |
//! | [`split`] | a text | where its pieces end |
//! | [`count`] | documents | [`PieceCounts`] |
//! | [`train`] | piece counts | [`Merges`] |
//! | [`vocab`] | merges, or files of a tokenizer | a [`Vocabulary`], and files of it |
//! | [`encode`] | a vocabulary and documents | [`TokenBatch`]es |
//! | [`sink`] | token batches | files of token ids |
//! | [`report`] | what all these have found | a [`RunReport`] |
//! | [`run`] | a recipe | all of this |
//!
//! Features: `cli` (the program) and `hub` (`hf://`, `https://`) are there by default, `remote` (`s3://`, `gs://`, `az://`)
//! is not.

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
pub(crate) mod format_version;
pub(crate) mod draws;
pub(crate) mod hashing;
pub(crate) mod index;
pub(crate) mod pages;
pub(crate) mod parallel;
#[cfg(test)]
pub(crate) mod costly;

/// The version of this program. Results name it, and depend on it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

pub use format_version::FORMAT_VERSION;

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
