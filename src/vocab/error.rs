//! Errors of vocabularies and of the files that hold them. A [`VocabError`] becomes an [`Error`] together with the path of
//! its file, a kind that decides the exit code, and a remedy.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use super::format::OtherFileKind;
use super::{Format, Normalizer};
use crate::base::int::{ByteCount, TokenId};
use crate::error::{Error, ErrorKind, excerpt};

/// What can be wrong with a vocabulary, or with a file that should hold one.
#[derive(Debug, thiserror::Error)]
pub(super) enum VocabError {
    #[error("another tokenizer replaced it while it was being read")]
    Replaced,
    #[error("it does not match training.json beside it: the files are of two training runs, or were changed")]
    OtherTraining,
    #[error("byte 0x{byte:02X} has two tokens, {first} and {second}")]
    ByteTwice { byte: u8, first: TokenId, second: TokenId },
    #[error("two tokens have id {0}")]
    IdTwice(TokenId),
    #[error("{tokens} tokens have ids up to {highest}: more than {limit} ids would be unused")]
    Holes { tokens: usize, highest: TokenId, limit: usize },
    #[error("merge {merge} uses token {id}, which does not exist")]
    MergeUnknown { merge: usize, id: TokenId },
    #[error("merge {merge} uses token {id} ({}), which is only an added token", excerpt(text))]
    MergeAdded { merge: usize, id: TokenId, text: String },
    #[error("merge {merge} uses token {id}, which has no bytes")]
    MergeEmpty { merge: usize, id: TokenId },
    #[error(
        "merge {merge} makes token {result}, whose bytes are not those of {left} followed by those of {right}"
    )]
    MergeBytes { merge: usize, left: TokenId, right: TokenId, result: TokenId },
    #[error("merge {merge} joins {left} and {right}, which an earlier merge already joins")]
    PairTwice { merge: usize, left: TokenId, right: TokenId },
    #[error("an added token is empty")]
    AddedEmpty,
    #[error("added token {} is listed twice", excerpt(.0))]
    AddedTwice(String),
    #[error("special token {} is also ordinary token {id}", excerpt(text))]
    SpecialIsToken { text: String, id: TokenId },
    #[error(
        "{} is ordinary token {id}, which occurs in encoded text: as a special token it would be cut out of words",
        excerpt(text)
    )]
    SpecialIsMerged { text: String, id: TokenId },
    #[error("the tokenizer is not a plain list of merges: {problem}")]
    NotAList { problem: String },
    #[error("the merges do not begin with those of the tokenizer")]
    OtherBeginning,
    #[error("token id {0} is not in the vocabulary")]
    UnknownId(TokenId),

    #[error("longer than {limit} bytes, the limit for a tokenizer")]
    FileTooLong { limit: u64 },
    #[error("longer than {limit} bytes, the limit for a chat template")]
    TemplateTooLong { limit: u64 },
    #[error("the chat template is empty")]
    TemplateEmpty,
    #[error("a tokenizer file in format {format} would take {bytes}; the limit is {limit}")]
    WouldBeTooLong { format: Format, bytes: ByteCount, limit: ByteCount },
    #[error("it is {}", .0.what)]
    OtherFileKind(OtherFileKind),
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
    #[error("token {} is listed twice", excerpt(.0))]
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
    #[error("the file does not say how text is split")]
    NoSplit,
    #[error("the requested split is not the one that the file names")]
    OtherSplit,
    #[error("special token {} is not among those of the file", excerpt(.0))]
    OtherSpecial(String),
    #[error("no tokenizer of a known format found")]
    UnknownFormat,
    #[error("no tokenizer of format {0} found")]
    NoSuch(Format),
    #[error("several tokenizers found: {}", .0.join(", "))]
    Several(Vec<String>),
    #[error("the tokens have more than {limit} bytes in total")]
    TokensTooLong { limit: usize },
    #[error(
        "some tokens are made by no merge, and the others can be put together in too many ways to find their merges"
    )]
    TooManyDecompositions,

    #[error(transparent)]
    Split(Error),

    #[error("{format} cannot hold this vocabulary: {limit}")]
    CannotHold { format: Format, limit: FormatLimit },
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
pub(super) enum FormatLimit {
    #[error("tokens {first} and {second} have equal bytes")]
    EqualBytes { first: TokenId, second: TokenId },
    #[error("added token {} would be spelled like token {id}", excerpt(text))]
    AddedSpelled { text: String, id: TokenId },
    #[error("special token {} contains white space", excerpt(.0))]
    SpecialSpace(String),
    #[error("the split pattern begins or ends with white space, or has a line break")]
    PatternSpace,
    #[error("several merges have equal rank")]
    EqualRanks,
    #[error("its merges do not follow from the order of its token ids")]
    NotByIds,
    #[error("whole pre-tokens are looked up before merging, and merging alone would not make some tokens")]
    IgnoresMerges,
    #[error("no merge makes token {0}")]
    Unmade(TokenId),
    #[error("byte 0x{0:02X} has no token; it must be token {0}")]
    ByteMissing(u8),
    #[error("byte 0x{byte:02X} is token {id}; it must be token {byte}")]
    ByteId { byte: u8, id: TokenId },
    #[error("merge {merge} makes token {id}; it must make token {expected}")]
    NotConsecutive { merge: usize, id: TokenId, expected: usize },
    #[error("merge {merge} uses token {id}, which no earlier merge makes")]
    PartLater { merge: usize, id: TokenId },
    #[error("it does not split text as GPT-2 does")]
    NotGpt2Split,
    #[error("merge {merge} would be read as a header line")]
    LooksLikeHeader { merge: usize },
    #[error("added token {} has id {id}, but would get id {counted}", excerpt(text))]
    AddedNumber { text: String, id: TokenId, counted: TokenId },
    #[error("{0}")]
    HfOnly(HfOnly),
}

/// A change to text that no tokenizer trained by this program makes, and that only `tokenizer.json` can express.
#[derive(Debug, thiserror::Error)]
pub(super) enum HfOnly {
    #[error("it normalizes text to NFC")]
    Nfc,
    #[error("it changes text with the normalizer {0}")]
    Normalizer(Normalizer),
    #[error("it adds a space before text")]
    PrefixSpace,
    #[error("it splits text in several steps, or not only at matches of a pattern")]
    Steps,
    #[error("it has an unk_token for bytes without a token")]
    Unknown,
    #[error("added token {} is not special, or has matching rules of its own", excerpt(.0))]
    Added(String),
}

impl VocabError {
    /// The error of a file that uses a feature which cannot be reproduced.
    pub(super) fn unsupported(feature: impl Into<String>) -> VocabError {
        VocabError::Unsupported(feature.into())
    }

    /// The error of a line that holds `found` instead of what is expected. Lines are counted from 1.
    pub(super) fn expected(line: usize, expected: &'static str, found: &str) -> VocabError {
        let found = excerpt(found);
        VocabError::Line { line, problem: LineProblem::Expected { expected, found } }
    }

    /// The error of a file that ends before this line.
    pub(super) fn ends(line: usize, expected: &'static str) -> VocabError {
        VocabError::Line { line, problem: LineProblem::Ends { expected } }
    }

    /// Returns the error for a vocabulary that `format` cannot hold.
    pub(super) fn cannot_hold(format: Format, limit: FormatLimit) -> Error {
        // The format hf cannot hold these either, so it is no remedy.
        let nowhere = matches!(
            limit,
            FormatLimit::EqualBytes { .. }
                | FormatLimit::EqualRanks
                | FormatLimit::AddedSpelled { .. }
                | FormatLimit::AddedNumber { .. }
        );
        let error = Error::new(ErrorKind::Usage, VocabError::CannotHold { format, limit });
        if format == Format::Hf || nowhere {
            error
        } else {
            error.with_help("write it in the format hf, which can hold more")
        }
    }

    /// Returns the error for a file with this problem.
    pub(super) fn in_file(self, path: &Path) -> Error {
        let help = match &self {
            VocabError::Split(wrong) => wrong.help().map(|help| Cow::Owned(help.to_owned())),
            error => error.help().map(Cow::Borrowed),
        };
        let kind = match self {
            VocabError::NoSplit
            | VocabError::OtherSplit
            | VocabError::OtherSpecial(_)
            | VocabError::Several(_) => ErrorKind::Usage,
            _ => ErrorKind::Failed,
        };
        let error = Error::new(kind, FileError { path: path.to_owned(), error: self });
        match help {
            Some(help) => error.with_help(help),
            None => error,
        }
    }

    fn help(&self) -> Option<&'static str> {
        Some(match self {
            VocabError::NoSplit => {
                "name its split pattern with `--split NAME` (for instance llama3) or `--split-regex REGEX` (in a recipe: \
                 `split` in [encode]), and its special tokens with `--special-token TEXT=ID`. Or convert it once with \
                 `convert --split NAME --to tiktoken`: the converted tokenizer names both. OpenAI's files, such as \
                 cl100k_base.tiktoken, are recognized by their names"
            }
            VocabError::OtherSpecial(_) => {
                "leave out the special token, or give it the id that it has in the file"
            }
            VocabError::OtherSplit => "leave out the split pattern: the file names its own",
            VocabError::UnknownFormat => {
                "give a tokenizer.json, a .tiktoken file, a minbpe .model, a vocab.json beside its \
                 merges.txt (or encoder.json and vocab.bpe), or a folder with one of them"
            }
            VocabError::Several(_) => "name the file instead of the folder",
            VocabError::OtherFileKind(other) => other.remedy,
            VocabError::NotByteLevel { .. } => "only byte-level BPE tokenizers can be used",
            _ => return None,
        })
    }
}

/// An error with the path of its file. Its source is that of the error.
#[derive(Debug)]
struct FileError {
    path: PathBuf,
    error: VocabError,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}
