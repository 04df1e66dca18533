//! Errors of vocabularies and of the files that hold them. A [`Fault`] becomes an [`Error`] together with the path of
//! its file, a kind that decides the exit code, and a remedy.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use super::sniff::OtherKind;
use super::{Format, Normalizer};
use crate::error::{Error, ErrorKind, excerpt};
use crate::units::{ByteCount, TokenId};

/// What can be wrong with a vocabulary, or with a file that should hold one.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("another tokenizer was written in its place while it was read")]
    Replaced,
    #[error(
        "it is not the tokenizer of training.json beside it: its files are of two trainings, or were changed"
    )]
    OtherTraining,
    #[error("byte 0x{byte:02X} has two tokens, {first} and {second}")]
    ByteTwice { byte: u8, first: TokenId, second: TokenId },
    #[error("two tokens have id {0}")]
    IdTwice(TokenId),
    #[error("{tokens} tokens go up to id {highest}: more than {limit} ids would be unused")]
    Holes { tokens: usize, highest: TokenId, limit: usize },
    #[error("merge {merge} uses token {id}, which does not exist")]
    MergeUnknown { merge: usize, id: TokenId },
    #[error("merge {merge} uses token {id} ({}), which is an added token only", excerpt(text))]
    MergeAdded { merge: usize, id: TokenId, text: String },
    #[error("merge {merge} uses token {id}, which has no bytes")]
    MergeEmpty { merge: usize, id: TokenId },
    #[error("merge {merge} makes token {result}, whose bytes are not those of {left} and {right} together")]
    MergeBytes { merge: usize, left: TokenId, right: TokenId, result: TokenId },
    #[error("merge {merge} joins {left} and {right}, which an earlier merge joins already")]
    PairTwice { merge: usize, left: TokenId, right: TokenId },
    #[error("an added token is empty")]
    AddedEmpty,
    #[error("added token {} is there twice", excerpt(.0))]
    AddedTwice(String),
    #[error("special token {} is also ordinary token {id}", excerpt(text))]
    SpecialIsToken { text: String, id: TokenId },
    #[error(
        "{} is ordinary token {id}, which text is encoded into: as a special token it would be cut out of words",
        excerpt(text)
    )]
    SpecialIsMerged { text: String, id: TokenId },
    #[error("the tokenizer is no plain list of merges: {problem}")]
    NotAList { problem: String },
    #[error("the merges begin otherwise than those of the tokenizer")]
    OtherBeginning,
    #[error("token id {0} is not in the vocabulary")]
    UnknownId(TokenId),

    #[error("longer than the {limit} bytes a tokenizer may have")]
    FileTooLong { limit: u64 },
    #[error("longer than the {limit} bytes a chat template may have")]
    TemplateTooLong { limit: u64 },
    #[error("it is empty, and a chat template must say what a conversation becomes")]
    TemplateEmpty,
    #[error("as {format} the tokenizer would take {bytes}, and a file of one may have {limit} at most")]
    WouldBeTooLong { format: Format, bytes: ByteCount, limit: ByteCount },
    #[error("it is {}", .0.what)]
    OtherKind(OtherKind),
    #[error("not UTF-8")]
    NotText(#[source] std::str::Utf8Error),
    #[error("not the JSON expected")]
    Json(#[source] serde_json::Error),
    #[error("line {line}: {problem}")]
    Line { line: usize, problem: LineProblem },
    #[error("{0} is not supported")]
    Unsupported(String),
    #[error("token {id} ({}) is not written in the byte alphabet of GPT-2", excerpt(key))]
    NotByteLevel { id: TokenId, key: String },
    #[error("token {} is there twice", excerpt(.0))]
    KeyTwice(String),
    #[error(
        "merge {merge} ({} {}) needs token {}, which the vocabulary lacks",
        excerpt(left),
        excerpt(right),
        excerpt(missing)
    )]
    MergeKey { merge: usize, left: String, right: String, missing: String },
    #[error("added token {} has id {added}, but the vocabulary gives it id {listed}", excerpt(text))]
    AddedId { text: String, added: TokenId, listed: TokenId },
    #[error(
        "added token {} has id {added}, but Hugging Face's tokenizers would number it {counted}",
        excerpt(text)
    )]
    AddedNumber { text: String, added: TokenId, counted: TokenId },
    #[error("nothing says how text is split")]
    NoSplit,
    #[error("the split asked for is not the one the file names")]
    OtherSplit,
    #[error("special token {} is named, which is not among those of the file", excerpt(.0))]
    OtherSpecial(String),
    #[error("no tokenizer of a known format is here")]
    UnknownFormat,
    #[error("no tokenizer of format {0} is here")]
    NoSuch(Format),
    #[error("there are several tokenizers: {}", .0.join(", "))]
    Several(Vec<String>),
    #[error("the tokens have more than {limit} bytes together")]
    TokensTooLong { limit: usize },
    #[error(
        "tokens that no merge makes are there, and so many ways to put others together that it takes too long to look at them"
    )]
    TooManyCuts,

    #[error(transparent)]
    Split(Error),

    #[error("{format} cannot hold this vocabulary: {limit}")]
    CannotHold { format: Format, limit: Limit },
}

/// What is wrong with one line of a file.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineProblem {
    #[error("{expected} expected, found {found}")]
    Expected { expected: &'static str, found: String },
    #[error("{expected} expected, but the file ends")]
    Ends { expected: &'static str },
}

/// A property of a vocabulary that a format cannot express.
#[derive(Debug, thiserror::Error)]
pub(super) enum Limit {
    #[error("tokens {first} and {second} have equal bytes")]
    EqualBytes { first: TokenId, second: TokenId },
    #[error("added token {} is spelled as token {id} is there", excerpt(text))]
    AddedSpelled { text: String, id: TokenId },
    #[error("special token {} has white space in it", excerpt(.0))]
    SpecialSpace(String),
    #[error("the split pattern begins or ends with white space, or has a line break")]
    PatternSpace,
    #[error("several merges have equal rank")]
    EqualRanks,
    #[error("its merges do not follow from the order of its token ids")]
    NotByIds,
    #[error("whole pieces are looked up before merging, and some tokens would not be made by merging")]
    IgnoresMerges,
    #[error("token {0} is made by no merge")]
    Unmade(TokenId),
    #[error("byte 0x{0:02X} has no token, and must be {0}")]
    ByteMissing(u8),
    #[error("byte 0x{byte:02X} is token {id}, and must be {byte}")]
    ByteId { byte: u8, id: TokenId },
    #[error("merge {merge} makes token {id}, and must make {expected}")]
    NotConsecutive { merge: usize, id: TokenId, expected: usize },
    #[error("merge {merge} uses token {id}, which no earlier merge makes")]
    PartLater { merge: usize, id: TokenId },
    #[error("it does not split text as GPT-2 does")]
    NotGpt2Split,
    #[error("merge {merge} would read as a header line")]
    LooksLikeHeader { merge: usize },
    #[error("added token {} has id {id}, and would be numbered {counted}", excerpt(text))]
    AddedNumber { text: String, id: TokenId, counted: TokenId },
    #[error("{0}")]
    Foreign(Foreign),
}

/// A change to text that no tokenizer trained by this program makes, and that only `tokenizer.json` can express.
#[derive(Debug, thiserror::Error)]
pub(super) enum Foreign {
    #[error("it brings text into normalization form C")]
    Nfc,
    #[error("it changes text by the normalizer {0}")]
    Normalizer(Normalizer),
    #[error("it puts a space before text")]
    PrefixSpace,
    #[error("it splits text in several steps, or otherwise than at matches")]
    Steps,
    #[error("it has a token for bytes without a token")]
    Unknown,
    #[error("added token {} is not special, or found in a way of its own", excerpt(.0))]
    Added(String),
}

impl Fault {
    /// The fault of a file that uses a feature which cannot be reproduced.
    pub(super) fn unsupported(feature: impl Into<String>) -> Fault {
        Fault::Unsupported(feature.into())
    }

    /// The fault of a line that holds `found` instead of what is expected. Lines are counted from 1.
    pub(super) fn expected(line: usize, expected: &'static str, found: &str) -> Fault {
        let found = excerpt(found);
        Fault::Line { line, problem: LineProblem::Expected { expected, found } }
    }

    /// The fault of a file that ends before this line.
    pub(super) fn ends(line: usize, expected: &'static str) -> Fault {
        Fault::Line { line, problem: LineProblem::Ends { expected } }
    }

    /// Returns the error for a vocabulary that `format` cannot hold.
    pub(super) fn cannot_hold(format: Format, limit: Limit) -> Error {
        // The format hf cannot hold these either, so it is no remedy.
        let nowhere = matches!(
            limit,
            Limit::EqualBytes { .. }
                | Limit::EqualRanks
                | Limit::AddedSpelled { .. }
                | Limit::AddedNumber { .. }
        );
        let error = Error::new(ErrorKind::Usage, Fault::CannotHold { format, limit });
        if format == Format::Hf || nowhere {
            error
        } else {
            error.with_help("write it as hf, which holds more")
        }
    }

    /// Returns the error for a file with this fault.
    pub(super) fn in_file(self, path: &Path) -> Error {
        let help = match &self {
            Fault::Split(wrong) => wrong.help().map(|help| Cow::Owned(help.to_owned())),
            fault => fault.help().map(Cow::Borrowed),
        };
        let kind = match self {
            Fault::NoSplit | Fault::OtherSplit | Fault::OtherSpecial(_) | Fault::Several(_) => {
                ErrorKind::Usage
            }
            _ => ErrorKind::Failed,
        };
        let error = Error::new(kind, InFile { path: path.to_owned(), fault: self });
        match help {
            Some(help) => error.with_help(help),
            None => error,
        }
    }

    fn help(&self) -> Option<&'static str> {
        Some(match self {
            Fault::NoSplit => {
                "name the split pattern it was made for, with `--split NAME` (llama3, for instance) or `--split-regex REGEX`, \
                 in a recipe with `split` in [encode]; and its special tokens with `--special-token TEXT=ID`. Or give what \
                 `convert --split NAME --to tiktoken` makes of it, which says all that. cl100k_base.tiktoken and OpenAI's \
                 other files are known by their names"
            }
            Fault::OtherSpecial(_) => {
                "leave out the special token, or give it the id that it has: the file says which there are"
            }
            Fault::OtherSplit => "leave out the split pattern: the file says it",
            Fault::UnknownFormat => {
                "give a tokenizer.json, a .tiktoken file, a minbpe .model, a vocab.json beside its \
                 merges.txt (or encoder.json and vocab.bpe), or a folder with one of them"
            }
            Fault::Several(_) => "name the file instead of the folder",
            Fault::OtherKind(other) => other.remedy,
            Fault::NotByteLevel { .. } => "only byte-level BPE tokenizers can be used",
            _ => return None,
        })
    }
}

/// A fault with the path of its file. The error's source is that of the fault.
#[derive(Debug)]
struct InFile {
    path: PathBuf,
    fault: Fault,
}

impl fmt::Display for InFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.fault)
    }
}

impl std::error::Error for InFile {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.fault)
    }
}
