//! Writes token ids into files that appear only when they are complete, and a manifest that lists what each file
//! holds.
//!
//! Takes token batches in order, and distributes them among the data files of an output folder. Reads such files
//! back. The bytes of a file depend only on its rows: not on batches, threads or interruptions. The module knows the
//! pass-through columns, but not how ids are made.
//!
//! [`DatasetWriter`] writes all files of a folder and resumes an interrupted run, [`ShardWriter`] writes a single
//! file, and [`TokenReader`] reads.

mod error;
mod resume;
mod shard;
mod hf_features;
pub mod layout;
pub mod schema;
mod packing;
mod row_group;
mod hashed;
mod flat_file;
mod parquet_file;
mod journal;
mod folder;
mod dataset;
mod card;
pub mod manifest;
pub mod read;

pub use dataset::{DatasetConfig, DatasetWriter, Reused};
pub(crate) use folder::data_files;
pub(crate) use folder::{CARD_FILE, JOB_FILE};
pub use folder::{OutputFolder, STATE_FOLDER};
pub(crate) use folder::{holds_data, split_files};
pub(crate) use hf_features::{UnsupportedColumn, columns_datasets_cannot_read};
pub(crate) use journal::Journal;
pub(crate) use layout::split_name_help;
pub use layout::{FilePlan, TOKENIZER_FOLDER, is_split_name};
pub(crate) use manifest::state_of;
pub use manifest::{HashedFile, Manifest, ManifestInput, OutputFile, SplitJob, UnitPart};
pub use packing::{MAX_PACKED_LENGTH, PackRule, Packing};
pub use read::TokenReader;
pub use resume::DocumentSpan;
pub use row_group::{Position, RowTotals, SourceShare};
pub(crate) use schema::dropped_annotations;
pub use schema::{
    Compression, Declaration, DeclaredToken, FileSpec, INPUT_IDS, LENGTH, OutputFormat, output_schema,
};
pub use shard::RowGroupEncoders;
pub use shard::{ShardFacts, ShardWriter};

#[cfg(test)]
mod tests;
