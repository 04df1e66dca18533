//! Learns byte-level BPE tokenizers from large corpora on one multi-core machine, and encodes whole
//! datasets into token-id Parquet.
//!
//! Every training job, with or without a split pattern, is the same problem: a bag of weighted byte
//! sequences. With a split the sequences are the distinct pieces and their counts; without one they
//! are the documents. So there is one merge loop, one tie rule, and one encoder for both.
//!
//! The modules stand in the order in which data flows, and each knows only those before it that it
//! needs (`ARCHITECTURE.md` has the graph).

/// The crate's one error type, and what kind of failure it stands for.
pub mod error;
/// Ids and amounts as types, and every integer cast of the crate.
pub mod units;
/// How a stage tells what it has done, and learns that it should stop.
pub mod observer;
/// Work on all cores with results in order.
pub mod parallel;
/// Writes a file whole or not at all.
pub mod files;

/// Reads documents from Parquet, JSONL, text, Arrow, the hub, or a generator.
pub mod source;
/// Chooses the documents of a run.
pub mod sample;
/// Cuts text into pieces.
pub mod split;
/// Counts distinct pieces.
pub mod count;
/// Learns merges from weighted byte sequences.
pub mod train;
/// Token ids, their bytes, and the files that hold them.
pub mod vocab;
/// Turns text into token ids.
pub mod encode;
/// Writes token ids.
pub mod sink;
/// Says what a run did, as JSON and as a page.
pub mod report;
/// Knows the order of the stages.
pub mod run;

pub use error::{Error, ErrorKind, Result};
pub use observer::{Observer, Stage};
pub use units::{Count, TokenId};
