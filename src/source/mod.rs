//! Reads documents: URIs in, batches of documents out, in a fixed order and in bounded memory.
//!
//! A source is listed once, as [`Unit`]s, and each unit can then be read on its own, in any order and
//! by any thread. Knows nothing of what the documents are read for.

mod batch;
mod secrets;
mod spec;
mod fault;
mod incidents;
mod open;
mod shards;
mod splits;
mod listing;
mod watch;
mod files;
mod identified;
mod pipe;
mod content;
mod decompress;
mod beginning;
mod encodings;
mod row_text;
mod views;
mod ranges;
mod parquet;
mod ipc;
mod arrow;
mod fields;
mod passed;
mod mended;
mod jsonl;
mod json;
mod table;
mod records;
mod cuts;
mod blocks;
mod plain;
mod demo;
mod texts;
mod remote;
mod order;
mod whole;

#[cfg(test)]
mod tests;

pub use batch::{Batch, Documents};
pub(crate) use fault::changed;
pub use incidents::{Incident, Incidents, LISTED_INCIDENTS, LeftOut};
pub use open::{
    DEFAULT_BATCH_BYTES, DEFAULT_RANGE_BYTES, DEFAULT_WINDOW_BYTES, Note, OpenContext, ReadConfig, Stop,
    look, open,
};
pub use order::{in_order, in_order_from};
pub(crate) use passed::{value_in_path, without_annotation};
pub use remote::{HubSettings, KNOWN_TOKENIZERS, Patience, StoreSettings, tokenizer_address, tokenizer_path};
pub(crate) use row_text::check_template;
pub use secrets::{shown_uri, with_secrets_covered, without_secrets};
pub use spec::{DocumentRule, Format, NotFormat, SourceSpec};
pub(crate) use splits::splits;
pub use texts::texts;
pub use whole::{LONGEST_DOCUMENT, whole_documents, whole_documents_of};

use crate::error::Result;

use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};

/// What identifies the content of a unit, so that a change is noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Identity {
    /// A file of the hub at a commit.
    Hub {
        /// The commit's full hash.
        commit: String,
        /// The file's entity tag.
        etag: String,
    },
    /// A Parquet file: its size and the SHA-256 of its footer.
    Footer {
        /// Size of the file.
        bytes: u64,
        /// SHA-256 of the footer, in hex.
        sha256: String,
    },
    /// Any other file: its size and the SHA-256 of the unit's bytes.
    Content {
        /// Size of the file.
        bytes: u64,
        /// SHA-256 of the bytes of the unit's range, in hex.
        sha256: String,
    },
    /// A file of a web server or an object store: its size, and its entity tag or else the time of its last
    /// change, as the server gives them. Of one that gives neither a file is identified as if it lay here.
    Web {
        /// Size of the file.
        bytes: u64,
        /// Entity tag or time.
        etag: String,
    },
    /// Generated: the URI says it all.
    Generated,
    /// Standard input, which cannot be read again.
    Stream,
}

impl Identity {
    /// Whether nothing but the name of the source tells one from another.
    pub(crate) fn is_told_by_name(&self) -> bool {
        matches!(self, Identity::Generated)
    }
}

/// Which part of a file a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Range {
    /// All of it.
    Whole,
    /// The bytes from the first number up to the second. A document belongs to the range in which it begins.
    Bytes(u64, u64),
    /// The row groups from the first number up to the second.
    RowGroups(u64, u64),
    /// The rows from the first number up to the second.
    Rows(u64, u64),
}

/// A part of a source that is read on its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// The path or URI, as messages name it.
    pub name: String,
    /// Which part of it.
    pub range: Range,
    /// Rows, where they are known before reading.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rows: Option<u64>,
    /// Bytes of text, where they are known (exactly or closely) before reading.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub text_bytes: Option<u64>,
}

/// What to do with a row or file that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnBadInput {
    /// End the run with an error.
    #[default]
    Fail,
    /// Leave it out, count it, go on.
    Skip,
    /// As `Skip`, and list it with its place.
    Quarantine,
    /// Read U+FFFD in the place of what is no character in the text of JSON: half of a surrogate pair, or bytes that are not
    /// UTF-8. For anything else as `Fail`.
    Replace,
}

/// Documents that can be listed and read.
///
/// Listing happens when a source is opened; it reads names, footers and schemas, and of text no more than the first
/// bytes of each file and what stands where a large file is cut into units.
pub trait Source: Send + Sync {
    /// The source's parts, in document order.
    fn units(&self) -> &[Unit];

    /// The pass-through columns' names and types; `None` if none were asked for.
    fn columns(&self) -> Option<SchemaRef> {
        None
    }

    /// The format of its files; `None` if it has none, as what is generated.
    fn format(&self) -> Option<Format> {
        None
    }

    /// Whether it can be read once only.
    fn is_stream(&self) -> bool {
        false
    }

    /// Bytes of its files that are neither on this machine nor generated.
    fn bytes_elsewhere(&self) -> u64 {
        0
    }

    /// Whether reading it takes hardly longer than copying its text, so that nothing is won by reading several units at
    /// once.
    fn is_plain(&self) -> bool {
        false
    }

    /// What identifies the content of a unit now. Reads the unit if nothing less will do.
    ///
    /// # Errors
    /// The unit cannot be read.
    fn identity(&self, unit: usize) -> Result<Identity>;

    /// The name of a file that is not as it was when the source was opened, by its size and the time of its last change;
    /// so far as files lie here. Whoever does not compare identities asks for this when all is read.
    fn changed(&self) -> Option<&str> {
        None
    }

    /// The first of the units that have one identity together with this one, as the row groups of a file do: it need be
    /// asked for once only.
    fn identified_with(&self, unit: usize) -> usize {
        unit
    }

    /// Reads a unit's documents in order.
    ///
    /// # Errors
    /// The unit cannot be opened; later trouble is an item of the iterator.
    fn read(&self, unit: usize) -> Result<Documents<'static>>;

    /// How many rows of a unit its latest reading has left out so far; 0 in sources that leave nothing out.
    fn left_out(&self, _unit: usize) -> u64 {
        0
    }

    /// Tells that what was read of a unit was taken up to where it had left out so many rows: these count as left out of
    /// the run. [`in_order`] does that with what is taken of it. Sources that leave nothing out need not heed it.
    fn taken(&self, _unit: usize, _left_out: u64) {}
}
