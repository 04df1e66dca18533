//! Writes token ids: files that are whole or not there, and a manifest that says what each holds.
//!
//! Takes token batches in order and routes them to Parquet files by a plan that is fixed beforehand;
//! reads such files back. The bytes depend on the rows alone, not on how they came in batches nor on
//! the number of threads. Knows the pass-through columns, nothing of how the ids came about.

mod fault;
/// The output contract: columns, types, and what a file says about itself.
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
/// Which documents go to which file.
pub mod plan;
mod folder;
mod split;
mod finished;
mod dataset;
mod card;
/// What an output folder holds, and whether that is still so.
pub mod manifest;
mod flat_read;
/// Reads token ids back.
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
