use serde::Serialize;

use crate::source::OnBadInput;

/// What to read, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SourceSpec {
    /// A path, folder or glob; `hf://datasets/…`; `demo:…`; or `-` for standard input.
    pub uri: String,
    /// The column or field that holds the text.
    pub column: Option<String>,
    /// The format; `None` goes by the file name's extension.
    pub format: Option<Format>,
    /// Where documents begin and end in plain text.
    pub documents: DocumentRule,
    /// What to do with a row or file that cannot be read.
    pub on_bad_input: OnBadInput,
    /// Columns that follow their documents to the output.
    pub columns: Vec<String>,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC.
    Arrow,
    /// One JSON object a line.
    Jsonl,
    /// Plain text.
    Text,
}

/// Where the documents of a plain text begin and end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DocumentRule {
    /// The whole file is one document.
    #[default]
    File,
    /// A line ends at `\n`.
    Line,
    /// Cut at `\n\n`.
    Paragraph,
    /// Cut at this text.
    Separator(String),
}

/// Which documents are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SampleConfig {
    /// Every so manieth document.
    pub every: u64,
    /// Documents held while shuffling; 0 keeps the order.
    pub shuffle_buffer: u64,
    /// What the shuffle follows from.
    pub seed: u64,
    /// Documents left out at the start.
    pub skip: u64,
    /// Documents taken at most.
    pub take: Option<u64>,
    /// Bytes of text taken at most.
    pub max_bytes: Option<u64>,
}

/// What text that looks like a special token becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpecialPolicy {
    /// Ordinary tokens.
    #[default]
    Text,
    /// The special token.
    Allow,
    /// An error.
    Forbid,
}

/// Where the ids of special tokens stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpecialsAt {
    /// After the last merge.
    #[default]
    End,
    /// Before the bytes.
    Start,
}

/// How token ids are encoded and compressed in Parquet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// So that every reader can read it.
    #[default]
    Default,
    /// Smaller and faster.
    Fast,
}

/// A format of tokenizer files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenizerFormat {
    /// `tokenizer.json`.
    Hf,
    /// `.tiktoken` and its sidecar.
    Tiktoken,
    /// minbpe's `.model` and `.vocab`.
    Minbpe,
    /// `vocab.json` and `merges.txt`.
    Gpt2,
}
