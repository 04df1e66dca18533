//! Reads documents: takes URIs, gives batches of documents in a fixed order and in bounded memory.
//!
//! [`open()`] lists a source once, as [`Unit`]s. Any thread can then read each unit independently, in any order;
//! [`in_order`] reads the units of several sources with several threads and gives their documents in a fixed order.
//! This module does not know what the documents are read for.
//!
//! ```
//! use tokenmill::observer::Silent;
//! use tokenmill::source::{self, OpenContext, SourceSpec};
//!
//! let spec = SourceSpec { uri: "demo:verse?lines=100".to_owned(), ..SourceSpec::default() };
//! let source = source::open(&spec, 0, &OpenContext::new(&Silent))?;
//! let mut documents = 0;
//! for batch in source::in_order(vec![source], 2) {
//!     documents += batch?.len();
//! }
//! assert_eq!(documents, 100);
//! # Ok::<(), tokenmill::Error>(())
//! ```

mod arrow_sizes;
mod cast;
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

pub(crate) use arrow_sizes::row_bytes;
pub use batch::{Batch, Documents};
#[cfg(test)]
pub(crate) use cast::with_extension;
pub(crate) use cast::{cast, common_field, kept_annotations, lost_annotations};
pub(crate) use fault::changed;
pub use incidents::{Incident, Incidents, LISTED_INCIDENTS, LeftOut};
pub use open::{
    DEFAULT_BATCH_BYTES, DEFAULT_RANGE_BYTES, DEFAULT_WINDOW_BYTES, Note, OpenContext, ReadConfig, Stop,
    look, open,
};
pub use order::{in_order, in_order_from};
pub(crate) use parquet::footer_check::{check_index, check_pages};
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

/// Identifies the content of a unit, so that a change of the input is noticed. Manifests and caches of counts store
/// it. Equal identities mean equal content, except for [`Stream`](Identity::Stream), which says nothing about the
/// content.
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
    /// A file of a web server or an object store: its size, and its entity tag or otherwise the time of its last
    /// change, as the server reports them. If the server reports neither, the file is identified by
    /// [`Footer`](Identity::Footer) or [`Content`](Identity::Content), like a local one.
    Web {
        /// Size of the file.
        bytes: u64,
        /// The entity tag, or the time of the last change.
        etag: String,
    },
    /// A generated source, which its URI describes completely.
    Generated,
    /// Standard input or a named pipe, which cannot be read again.
    Stream,
}

impl Identity {
    /// Whether the source's URI is the only difference between two such identities, so that the URI must be compared
    /// as well.
    pub(crate) fn is_told_by_name(&self) -> bool {
        matches!(self, Identity::Generated)
    }
}

/// The part of a file that a unit covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Range {
    /// The whole file.
    Whole,
    /// The bytes from the first offset up to the second, exclusive. A document belongs to the range in which it
    /// begins, and is read to its end there.
    Bytes(u64, u64),
    /// The row groups from the first index up to the second, exclusive.
    RowGroups(u64, u64),
    /// The rows from the first index up to the second, exclusive.
    Rows(u64, u64),
}

/// A part of a source that can be read independently of the others: a file, or a range of a file. A unit is the
/// smallest amount of work that is given to a reading thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// The path or URI of the file, as messages show it, without secrets.
    pub name: String,
    /// The part of the file.
    pub range: Range,
    /// Number of rows, if it is known before reading.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rows: Option<u64>,
    /// Bytes of text, if the number is known, exactly or approximately, before reading.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub text_bytes: Option<u64>,
}

/// The treatment of a row or file that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnBadInput {
    /// End the run with an error.
    #[default]
    Fail,
    /// Leave the row or file out, count it, and continue.
    Skip,
    /// Like `Skip`, and also list the row or file with its position.
    Quarantine,
    /// In the text of JSON, replace invalid characters by U+FFFD: half of a surrogate pair, or bytes that are not
    /// UTF-8. Anything else is an error, as with `Fail`.
    Replace,
}

/// A source that has been opened: its units, their identities, and their documents.
///
/// Opening a source lists it. Listing reads names, footers and schemas. Of text it reads only the first bytes of each
/// file and the bytes around the offsets at which a large file is cut into units.
///
/// All methods take `&self`, and threads may read different units at the same time.
pub trait Source: Send + Sync {
    /// The source's units, in document order.
    fn units(&self) -> &[Unit];

    /// The schema of the pass-through columns; `None` if none were requested.
    fn columns(&self) -> Option<SchemaRef> {
        None
    }

    /// The format of the files; `None` for sources without files, like generated ones.
    fn format(&self) -> Option<Format> {
        None
    }

    /// Whether the source can be read only once, like standard input.
    fn is_stream(&self) -> bool {
        false
    }

    /// Total size in bytes of the files that are neither on this machine nor generated.
    fn bytes_elsewhere(&self) -> u64 {
        0
    }

    /// Whether reading takes hardly longer than copying the text, so that reading several units at once gains
    /// nothing.
    fn is_plain(&self) -> bool {
        false
    }

    /// The current identity of a unit. Reads the whole unit only if nothing cheaper identifies it.
    ///
    /// # Errors
    /// The unit cannot be read.
    fn identity(&self, unit: usize) -> Result<Identity>;

    /// The name of a local file that has another size or modification time than at opening, if any. Callers that do
    /// not compare identities check this after reading everything.
    fn changed(&self) -> Option<&str> {
        None
    }

    /// The first of the units that share their identity with this one, like the row groups of one file, so that
    /// [`identity`](Source::identity) needs to be called only once for all of them.
    fn identified_with(&self, unit: usize) -> usize {
        unit
    }

    /// Reads a unit's documents in order, batch by batch, as the iterator is advanced.
    ///
    /// # Errors
    /// The unit cannot be opened. Errors after that are items of the iterator.
    fn read(&self, unit: usize) -> Result<Documents<'static>>;

    /// The number of rows that the latest reading of a unit has skipped so far; 0 in sources that skip nothing.
    fn left_out(&self, _unit: usize) -> u64 {
        0
    }

    /// Reports that the consumer has taken the unit's documents up to the point at which `left_out` rows had been
    /// skipped: these rows count as skipped in the run. [`in_order`] calls this for the batches that are taken from
    /// it. Sources that skip nothing can ignore it.
    fn taken(&self, _unit: usize, _left_out: u64) {}
}
