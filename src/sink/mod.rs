//! Writes token ids into files that appear only when they are complete, and a manifest that lists what each file
//! holds.
//!
//! Takes token batches in order, and distributes them among the data files of an output folder. Reads such files
//! back. The bytes of a file depend only on its rows: not on batches, threads or interruptions. The module knows the
//! pass-through columns, but not how ids are made.
//!
//! [`DatasetWriter`] writes all files of a folder and resumes an interrupted run, [`ShardWriter`] writes a single
//! file, and [`TokenReader`] reads.

mod fault;
pub mod schema;
mod features;
mod contents;
mod packing;
mod row_group;
mod pack;
mod chunk;
mod encoders;
mod hashed;
mod flat_file;
mod footer;
mod parquet_file;
mod journal;
mod unfinished;
mod writer;
pub mod plan;
mod folder;
mod split;
mod finished;
mod dataset;
mod card;
pub mod manifest;
mod flat_read;
pub mod read;

pub use contents::{Contents, Position, SourceShare};
pub use dataset::{DatasetConfig, DatasetWriter, Reused};
pub use encoders::Encoders;
pub(crate) use features::{Unread, unread_by_datasets};
pub use finished::Span;
pub(crate) use folder::data_files;
pub(crate) use folder::{CARD, JOB};
pub use folder::{OutputFolder, STATE_FOLDER};
pub(crate) use folder::{holds_data, split_files};
pub(crate) use journal::Journal;
pub use manifest::{HashedFile, Input, Manifest, OutputFile, SplitJob, UnitPart};
pub use packing::{MAX_PACKED_LENGTH, PackRule, Packing};
pub(crate) use plan::split_name_help;
pub use plan::{FilePlan, TOKENIZER_FOLDER, is_split_name};
pub use read::TokenReader;
pub(crate) use schema::unkept;
pub use schema::{
    Compression, Declaration, DeclaredToken, FileShape, INPUT_IDS, LENGTH, OutputFormat, output_schema,
};
pub(crate) use split::state_of;
pub use writer::{ShardFacts, ShardWriter};

#[cfg(test)]
mod tests;
