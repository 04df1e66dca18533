//! Writes token ids into files that appear only when they are complete, and a manifest that lists what each file
//! holds.
//!
//! Takes token batches in order, and distributes them among the data files of an output folder. Reads such files
//! back. The bytes of a file depend only on its rows: not on batches, threads or interruptions. The module knows the
//! pass-through columns, but not how ids are made.
//!
//! [`DatasetWriter`] writes all files of a folder and resumes an interrupted run, [`ShardWriter`] writes a single
//! file, and [`TokenReader`] reads. [`merge_shards`] joins the folders of several runs.

mod packing;
mod hf_features;
mod schema;
mod layout;
mod state_folder;
mod row_group;
mod flat_file;
mod parquet_file;
mod file_reader;
mod manifest;
mod folder;
mod moved;
mod resume;
mod shard;
mod read;
mod card;
mod dataset;
mod merge;

pub use dataset::{DatasetConfig, DatasetWriter, Reused};
pub use folder::OutputFolder;
pub(crate) use folder::is_root_file;
pub(crate) use hf_features::{UnsupportedColumn, columns_datasets_cannot_read};
pub(crate) use layout::{CARD_FILE, data_files, is_data_name, split_files, split_name_help, split_of};
pub use layout::{DATA_FOLDER, FilePlan, MANIFEST, STATE_FOLDER, TOKENIZER_FOLDER, is_split_name};
pub(crate) use manifest::FileStore;
pub use manifest::{HashedFile, Manifest, ManifestInput, ManifestShard, OutputFile, SplitJob, UnitPart};
pub use merge::{MergedShards, merge_shards};
pub(crate) use moved::InBackground;
pub use packing::{MAX_PACKED_LENGTH, PackRule, Packing};
pub use read::TokenReader;
pub use resume::DocumentSpan;
pub use row_group::{Position, RowTotals, SourceShare};
pub(crate) use schema::dropped_annotations;
pub use schema::{
    Compression, DECLARATION_KEY, Declaration, DeclaredToken, FEATURES_KEY, FileSpec, INPUT_IDS, LENGTH,
    OutputFormat, SEQ_LENGTHS, output_schema,
};
pub use shard::{RowGroupEncoders, ShardFacts, ShardWriter};
pub(crate) use state_folder::{
    Journal, ListedFile, holds_data, read_job, state_of, write_job, write_listing,
};

#[cfg(test)]
mod tests;
