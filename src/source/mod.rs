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

mod arrow;
mod cast;
mod common_type;
mod content;
mod documents;
mod error;
mod files;
mod json_fields;
mod jsonl;
mod listing;
mod open;
mod order;
mod parquet;
mod passthrough;
mod program;
mod records;
mod remote;
mod row_text;
mod shard;
mod skipped_rows;
mod sniff;
mod text;
mod tokenizer;
mod verse;

#[cfg(test)]
mod tests;

pub use crate::base::secrets::{shown_uri, with_secrets_covered, without_secrets};
pub use crate::network::{HubSettings, Note, Patience, StoreSettings};
pub(crate) use cast::cast;
pub use documents::{
    Batch, Documents, LONGEST_DOCUMENT, collected_documents, collected_documents_named, texts, texts_from,
};
pub(crate) use documents::{TextBuilder, row_bytes};
pub(crate) use error::changed;
pub(crate) use listing::splits;
pub use open::{OpenContext, open, open_without_download};
pub use order::{in_order, in_order_from};
pub(crate) use parquet::footer_check::{check_index, check_pages};
#[cfg(test)]
pub(crate) use passthrough::with_extension;
pub(crate) use passthrough::{
    common_field, kept_annotations, lost_annotations, value_in_path, without_annotation,
};
pub use program::{once, record_batches};
#[cfg(feature = "hub")]
pub(crate) use remote::{WritableStore, object_version, refused_by_store, store};
pub(crate) use row_text::check_template;
pub use shard::InputShard;
pub(crate) use shard::missing_or_doubled;
pub use skipped_rows::{LISTED_SKIPPED_ROWS, SkippedRow, SkippedRows, UnitSkips};
pub(crate) use tokenizer::belongs_to_tokenizer;
pub use tokenizer::{KNOWN_TOKENIZERS, tokenizer_address, tokenizer_path};

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use ::arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};

use crate::base::int::{ByteCount, to_u64};
use crate::error::{Error, Result};

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
///
/// ```
/// use tokenmill::source::RowRange;
///
/// let json = serde_json::to_string(&RowRange::RowGroups(2, 3))?;
/// assert_eq!(json, r#"{"row-groups":[2,3]}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowRange {
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
    pub range: RowRange,
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

/// The format of a source's files.
///
/// ```
/// use tokenmill::source::Format;
///
/// let format: Format = "jsonl".parse()?;
/// assert_eq!(format, Format::Jsonl);
/// assert_eq!(Format::Csv.to_string(), "csv");
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, file or stream (`.arrow`, `.feather` version 2).
    Arrow,
    /// One JSON object per line (JSON Lines), also compressed (gzip, zstd, bzip2, xz, LZ4).
    Jsonl,
    /// JSON in any layout, also compressed: an array of objects, a sequence of objects, or JSON Lines.
    Json,
    /// Comma-separated values with a header (RFC 4180), also compressed.
    Csv,
    /// Tab-separated values with a header, otherwise like [`Csv`](Format::Csv), also compressed.
    Tsv,
    /// Plain text, also compressed.
    Text,
}

impl Format {
    /// All formats, in the order in which messages list them.
    pub const ALL: [Format; 7] =
        [Format::Parquet, Format::Arrow, Format::Jsonl, Format::Json, Format::Csv, Format::Tsv, Format::Text];

    /// The name of the format in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
            Format::Jsonl => "jsonl",
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Tsv => "tsv",
            Format::Text => "text",
        }
    }

    /// Whether the format is text that consists of records with fields.
    pub(super) fn has_fields(self) -> bool {
        matches!(self, Format::Jsonl | Format::Json | Format::Csv | Format::Tsv)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The compression of a text file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstd,
    Bzip2,
    Xz,
    Lz4,
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Format> {
        let named = Format::ALL.into_iter().find(|format| format.name() == name);
        named.ok_or_else(|| {
            let formats = "parquet, arrow, jsonl, json, csv, tsv and text";
            Error::usage(format!("{name:?} is not a format; the formats are {formats}"))
        })
    }
}

/// The rule that divides plain text into documents.
///
/// `Line`, `Paragraph` and `Separator` skip empty documents, and the separating bytes belong to no document.
///
/// ```
/// use std::io::Cursor;
/// use std::sync::Mutex;
/// use tokenmill::observer::Silent;
/// use tokenmill::source::{self, DocumentRule, OpenContext, SourceSpec};
///
/// let text = Cursor::new("one\n\ntwo\nlines\n");
/// let context = OpenContext { stdin: Mutex::new(Some(Box::new(text))), ..OpenContext::new(&Silent) };
/// let documents = DocumentRule::Paragraph;
/// let spec = SourceSpec { uri: "-".to_owned(), documents, ..SourceSpec::default() };
/// let source = source::open(&spec, 0, &context)?;
/// let mut found = Vec::new();
/// for batch in source::collected_documents(source::in_order(vec![source], 0)) {
///     found.extend(batch?.iter().flatten().map(<[u8]>::to_vec));
/// }
/// assert_eq!(found, [b"one".to_vec(), b"two\nlines\n".to_vec()]);
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DocumentRule {
    /// Each file is one document, even an empty file.
    #[default]
    File,
    /// Each line is a document. A line ends at `\n` or `\r\n`.
    Line,
    /// Split at every two line breaks, each `\n` or `\r\n`, searching from the left: `a\n\n\nb` gives `a` and `\nb`.
    Paragraph,
    /// Split at each occurrence of this text, searching from the left. The text must not be empty.
    Separator(String),
}

/// What to read, and how. The default reads the column `text` and fails on bad input.
///
/// ```
/// use tokenmill::source::{OnBadInput, SourceSpec};
///
/// let spec = SourceSpec {
///     uri: "data/*.parquet".to_owned(),
///     template: Some("{title}\n{body}".to_owned()),
///     columns: vec!["id".to_owned()],
///     on_bad_input: OnBadInput::Skip,
///     ..SourceSpec::default()
/// };
/// assert_eq!(spec.column, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceSpec {
    /// The location: a path, folder, glob or named pipe; `file:///…`; `hf://datasets/…`; `https://…`; `s3://…`,
    /// `gs://…` or `az://…`; `demo:…`; or `-` for standard input.
    pub uri: String,
    /// The column or field that holds the text. `a.b` names a nested one. `a[]` or `a[].b` names all items of a list,
    /// which are joined to one text. A column with exactly that name takes precedence. `None` means `text`, or `line`
    /// for the generator. Plain text has no columns and ignores this.
    pub column: Option<String>,
    /// A template that composes the text from several columns: `{title}: {a.b}`. Each name in braces means the same
    /// as in `column`, and doubled braces are literal ones. If all its columns are null or missing, the document is
    /// null; otherwise null or missing columns are empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The separator between joined items of a list; `None` is a line break.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<String>,
    /// The format; `None` derives it from the file name's extension.
    pub format: Option<Format>,
    /// The rule that divides plain text into documents.
    pub documents: DocumentRule,
    /// Whether remote files are read by ranges and not stored locally. Arrow files are refused then.
    pub stream: bool,
    /// The treatment of a row or file that cannot be read.
    pub on_bad_input: OnBadInput,
    /// Columns that are passed through to the output with their documents. Fields of JSONL are passed through as
    /// text: strings as they are, other values as their JSON.
    pub columns: Vec<String>,
    /// The largest number of bytes that one line of JSONL, page of Parquet or message of Arrow may take, since each
    /// is read as a whole. Larger ones are errors of kind [`ErrorKind::Memory`](crate::ErrorKind::Memory). `None`
    /// leaves only the limits of the formats.
    #[serde(skip)]
    pub longest_read: Option<ByteCount>,
}

impl SourceSpec {
    /// Maximum number of bytes that may be read as a whole.
    pub(super) fn longest_read(&self) -> u64 {
        self.longest_read.map_or(u64::MAX, |most| most.0)
    }

    /// The column that holds the text in files.
    pub(super) fn text_column(&self) -> &str {
        self.column.as_deref().unwrap_or("text")
    }
}

/// Default of [`ReadConfig::batch_bytes`]: 4 MiB.
pub const DEFAULT_BATCH_BYTES: u64 = 4 << 20;

/// Default of [`ReadConfig::range_bytes`]: 64 MiB.
pub const DEFAULT_RANGE_BYTES: u64 = 64 << 20;

/// Default of [`ReadConfig::window_bytes`]: 128 MiB. The programs `zstd` and `xz` accept such a window by default.
pub const DEFAULT_WINDOW_BYTES: u64 = 128 << 20;

/// Sizes of the portions in which sources are read. The documents do not depend on them.
///
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::source::{self, OpenContext, ReadConfig, SourceSpec};
///
/// let config = ReadConfig { batch_bytes: 1 << 10, ..ReadConfig::default() };
/// let context = OpenContext { config, ..OpenContext::new(&Silent) };
/// let spec = SourceSpec { uri: "demo:verse?lines=100".to_owned(), ..SourceSpec::default() };
/// let source = source::open(&spec, 0, &context)?;
/// for batch in source::in_order(vec![source], 0) {
///     assert!(batch?.text_bytes() < 2 << 10);
/// }
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadConfig {
    /// Approximate bytes of text in a batch. A larger row is a batch of its own.
    pub batch_bytes: u64,
    /// Approximate bytes of a unit of uncompressed text or JSONL.
    pub range_bytes: u64,
    /// Bytes of memory for the decompression windows of all compressed texts that are read at once. A window of
    /// [`DEFAULT_WINDOW_BYTES`] is always allowed.
    pub window_bytes: u64,
    /// Maximum number of files that are read at once.
    pub readers: usize,
}

impl Default for ReadConfig {
    fn default() -> ReadConfig {
        ReadConfig {
            batch_bytes: DEFAULT_BATCH_BYTES,
            range_bytes: DEFAULT_RANGE_BYTES,
            window_bytes: DEFAULT_WINDOW_BYTES,
            readers: 1,
        }
    }
}

impl ReadConfig {
    /// Maximum window size in bytes of one of `files` compressed files: the limit divided by the number that is read
    /// at once.
    pub(super) fn window(&self, files: usize) -> u64 {
        self.window_bytes / to_u64(files.min(self.readers).max(1))
    }
}

/// Callback that returns whether to stop. Code that waits for a network or a pipe while documents are read calls it.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// A source that has been opened: its units, their identities, and their documents.
///
/// A program can implement this trait to give documents of its own to the functions that read sources:
///
/// ```
/// use std::sync::Arc;
///
/// use tokenmill::Result;
/// use tokenmill::source::{self, Documents, Identity, RowRange, Source, Unit};
///
/// struct Greetings(Vec<Unit>);
///
/// impl Source for Greetings {
///     fn units(&self) -> &[Unit] {
///         &self.0
///     }
///
///     fn identity(&self, _unit: usize) -> Result<Identity> {
///         Ok(Identity::Generated)
///     }
///
///     fn read(&self, _unit: usize) -> Result<Documents<'static>> {
///         Ok(source::texts(["good morning", "good night"]))
///     }
/// }
///
/// let name = "greetings".to_owned();
/// let unit = Unit { name, range: RowRange::Whole, rows: Some(2), text_bytes: None };
/// let source: Arc<dyn Source> = Arc::new(Greetings(vec![unit]));
/// let batch = source::in_order(vec![source], 1).next().expect("a batch")?;
/// assert_eq!(batch.len(), 2);
/// # Ok::<(), tokenmill::Error>(())
/// ```
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

    /// The bytes that each unit takes where it is stored, about, by the listing alone. They divide an input into shards
    /// if the bytes of text are not known.
    fn stored_bytes(&self) -> Vec<u64> {
        self.units().iter().map(|unit| unit.text_bytes.unwrap_or(1)).collect()
    }

    /// Leaves out all units except those in `range`, which are then numbered from 0. Nothing may have been read before.
    /// Returns `false` if the source cannot leave out units.
    fn keep_units(&mut self, _range: Range<usize>) -> bool {
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
    fn skipped(&self, _unit: usize) -> u64 {
        0
    }

    /// Reports that the consumer has taken the unit's documents up to the point at which `skipped` rows had been
    /// skipped: these rows count as skipped in the run. [`in_order`] calls this for the batches that are taken from
    /// it. Sources that skip nothing can ignore it.
    fn taken(&self, _unit: usize, _skipped: u64) {}
}
