use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::OnBadInput;
use crate::error::{Error, ErrorKind};
use crate::units::ByteCount;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, file or stream (`.arrow`, `.feather` version 2).
    Arrow,
    /// One JSON object a line, also compressed (gzip, zstd, bzip2, xz, LZ4).
    Jsonl,
    /// JSON however it is laid out, also compressed: an array of objects, objects one after the other, or JSON Lines.
    Json,
    /// A table of fields with commas between them, with a header (RFC 4180), also compressed.
    Csv,
    /// The same with tabs.
    Tsv,
    /// Plain text, also compressed.
    Text,
}

impl Format {
    /// Every format, in the order in which messages list them.
    pub const ALL: [Format; 7] =
        [Format::Parquet, Format::Arrow, Format::Jsonl, Format::Json, Format::Csv, Format::Tsv, Format::Text];

    /// The name as recipes write it.
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

    /// Whether it is text that consists of records with fields.
    pub(super) fn has_fields(self) -> bool {
        matches!(self, Format::Jsonl | Format::Json | Format::Csv | Format::Tsv)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that names no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a format; the formats are parquet, arrow, jsonl, json, csv, tsv and text")]
pub struct NotFormat {
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

/// Where the documents of a plain text begin and end.
///
/// Line, paragraph and separator leave out empty documents; the bytes that separate belong to none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DocumentRule {
    /// The whole file is one document, even if it is empty.
    #[default]
    File,
    /// A line ends at `\n`, and a `\r` before it goes too.
    Line,
    /// Cut at `\n\n` from the left: `a\n\n\nb` gives `a` and `\nb`.
    Paragraph,
    /// Cut at this text, which is not empty, from the left.
    Separator(String),
}

/// What to read, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceSpec {
    /// A path, folder, glob or named pipe; `hf://datasets/…`; `https://…`; `s3://…`, `gs://…` or `az://…`;
    /// `demo:…`; or `-` for standard input.
    pub uri: String,
    /// The column or field that holds the text; a nested one as `a.b`, and as `a[]` or `a[].b` all items of a list, joined
    /// to one text. A column that is called so goes first. `None` is `text`, for the generator `line`. Plain text has no
    /// columns and needs none.
    pub column: Option<String>,
    /// What the text is put together from instead, as `{title}: {a.b}`; each name means what it does as a `column`, and two
    /// braces stand for one. Where all columns are null or missing the document is null; else those that are have no bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// What stands between the items of a list; `None` is the end of a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<String>,
    /// The format; `None` goes by the file name's extension.
    pub format: Option<Format>,
    /// Where documents begin and end in plain text.
    pub documents: DocumentRule,
    /// Read remote files by ranges, without keeping them. Arrow files are refused.
    pub stream: bool,
    /// What to do with a row or file that cannot be read.
    pub on_bad_input: OnBadInput,
    /// Columns that follow their documents to the output; of JSONL fields, as text: strings as they are, other values as
    /// their JSON.
    pub columns: Vec<String>,
    /// The most bytes that a line of JSONL, a page of Parquet or a message of Arrow may take, which are read as a whole;
    /// `None` is no limit but those of the formats. More is an error of
    /// [`ErrorKind::Memory`](crate::ErrorKind::Memory).
    #[serde(skip)]
    pub longest_read: Option<ByteCount>,
}

impl SourceSpec {
    /// The most bytes that may be read as a whole.
    pub(super) fn longest_read(&self) -> u64 {
        self.longest_read.map_or(u64::MAX, |most| most.0)
    }

    /// The column that files are read for.
    pub(super) fn text_column(&self) -> &str {
        self.column.as_deref().unwrap_or("text")
    }
}
