//! Trains byte-level BPE tokenizers on large corpora on one multi-core machine, and encodes whole datasets into
//! Parquet files of token ids.
//!
//! Every training job, with or without a split pattern, is the same problem: a bag of weighted byte sequences.
//! With a split pattern, the sequences are the distinct pre-tokens with their counts; without one they are the
//! documents. So one merge loop, one tie rule and one encoder serve both.
//!
//! To encode and decode text in a program, start with [`Tokenizer`]. To train a tokenizer on texts that the
//! program holds, use [`run::learn`], which needs the feature `pipeline`; with the core alone, use
//! [`count::count_texts`] and [`train::learn_merges`]. To run whole jobs, as the command line does, use [`run::job`].
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
//! The same with the core alone, which saves the files that [`vocab::render`] returns:
//!
//! ```
//! use tokenmill::count::count_texts;
//! use tokenmill::observer::Silent;
//! use tokenmill::split::{SplitPattern, splitter};
//! use tokenmill::train::{TrainConfig, learn_merges};
//! use tokenmill::vocab::{Format, SpecialTokensAt, Vocabulary, WriteOptions, render};
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let texts = ["how much wood would a woodchuck chuck", "if a woodchuck could chuck wood?"];
//! let split: SplitPattern = "gpt4".parse()?;
//! let learned = learn_merges(count_texts(&texts, &*splitter(&split)?)?, &TrainConfig::new(10), &Silent)?;
//! let vocabulary = Vocabulary::from_merges(&learned.merges, &[], SpecialTokensAt::End, split)?;
//! for (name, bytes) in render(&vocabulary, Format::Hf, &WriteOptions::default())? {
//!     std::fs::write(folder.join(name), bytes)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Data passes through the modules in this order. Each module uses only those before it that it needs:
//!
//! | module | takes | gives |
//! | --- | --- | --- |
//! | [`source`] | files, datasets of a hub, texts of a program | [`Batch`]es of documents |
//! | [`sample`] | documents | a selection of them |
//! | [`split`] | a text | the positions where its pre-tokens end |
//! | [`count`] | documents | [`PretokenCounts`]: distinct pre-tokens with counts |
//! | [`train`] | counted pre-tokens | [`Merges`] |
//! | [`vocab`] | merges, or the files of a tokenizer | a [`Vocabulary`], and its files |
//! | [`encode`] | a vocabulary and documents | [`TokenBatch`]es |
//! | [`sink`] | token batches | files of token ids |
//! | [`report`] | the results of these modules | a [`RunReport`] |
//! | [`publish`] | the folder of an output or a tokenizer | a commit in a repository of the hub |
//! | [`run`] | a recipe | all of this |
//!
//! # Cargo features
//!
//! Without default features, this crate is a core of few dependencies, bytes in and ids out: [`split`], [`count`],
//! [`train`], [`vocab`] and [`encode`], without reading datasets and without writing files.
//!
//! | feature | adds | default |
//! | --- | --- | --- |
//! | `data` | [`source`], [`sample`], [`sink`], counts files, batches of documents: all that needs Arrow | yes |
//! | `pipeline` | [`run`], [`report`] and [`publish`]: whole jobs by recipes, and their publication | yes |
//! | `hub` | the Hugging Face hub, web servers, and object stores | yes |
//! | `cli` | `cli`: the program as a function | yes |

// Some helpers of the lower stages are called by the higher ones alone.
#![cfg_attr(not(feature = "pipeline"), allow(dead_code, unused_imports, unfulfilled_lint_expectations))]

/// The error type of the crate, the kinds of failure, and panics of decoders that become errors.
pub mod error;
/// What every stage may use.
pub mod base;
/// Reports the progress of a run, and lets a program stop it.
pub mod observer;
/// Requests to other machines, for reading and publishing.
#[cfg(feature = "data")]
mod network;

/// Version of this program. Output files record it, and their contents may depend on it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

#[cfg(feature = "data")]
pub use base::integrity::FORMAT_VERSION;

// The stages, in the order in which data passes through them. Each `mod.rs` begins with its input and output.
#[cfg(feature = "data")]
pub mod source;
#[cfg(feature = "data")]
pub mod sample;
pub mod split;
pub mod count;
pub mod train;
pub mod vocab;
pub mod encode;
#[cfg(feature = "data")]
pub mod sink;
#[cfg(feature = "pipeline")]
pub mod report;
#[cfg(feature = "pipeline")]
pub mod publish;
#[cfg(feature = "pipeline")]
pub mod run;

// The program. It names the library as any other program does.
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
extern crate self as tokenmill;

pub use base::int::{Count, TokenId};
pub use encode::{DecodeStream, Tokenizer};
pub use error::{Error, ErrorKind, Result};
pub use observer::{Observer, Stage};

// The types at the boundaries between stages, in the order of the stages.
#[rustfmt::skip]
pub use self::{count::PretokenCounts, train::Merges, vocab::Vocabulary};
#[cfg(feature = "pipeline")]
pub use self::report::RunReport;
#[cfg(feature = "data")]
pub use self::{encode::TokenBatch, source::Batch};

// Documents and columns are made of its types: see `source::Batch` and `encode::TokenBatch`.
#[cfg(feature = "data")]
pub use arrow;

#[cfg(all(doctest, feature = "pipeline"))]
#[doc = include_str!("../README.md")]
struct Readme;
