//! Describes a source: its location, its format, and the columns to read.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::OnBadInput;
use crate::base::int::ByteCount;
use crate::error::{Error, ErrorKind};

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

/// The error of parsing a name that is not a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a format; the formats are parquet, arrow, jsonl, json, csv, tsv and text")]
pub struct NotFormat {
    /// The name that was given.
    name: String,
}

impl From<NotFormat> for Error {
    fn from(wrong: NotFormat) -> Error {
        Error::new(ErrorKind::Usage, wrong)
    }
}

impl FromStr for Format {
    type Err = NotFormat;

    fn from_str(name: &str) -> Result<Format, NotFormat> {
        let named = Format::ALL.into_iter().find(|format| format.name() == name);
        named.ok_or_else(|| NotFormat { name: name.to_owned() })
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
/// for batch in source::whole_documents(source::in_order(vec![source], 0)) {
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
    /// Split at each `\n\n`, searching from the left: `a\n\n\nb` gives `a` and `\nb`.
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
