//! Errors of vocabularies and of the files that hold them. A [`VocabError`] becomes an [`Error`] together with the
//! path of its file, a kind that decides the exit code, and a remedy.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use super::other_files::OtherFileKind;
use super::{Format, Normalizer};
use crate::base::int::{ByteCount, TokenId};
use crate::error::{Error, ErrorKind, excerpt};

/// What can be wrong with a vocabulary, or with a file that should hold one.
///
/// Numbers of merges and lines in the messages count from 1, in the order of the file or of the ranks. The first
/// group is about vocabularies, the second about their files.
#[derive(Debug, thiserror::Error)]
pub(super) enum VocabError {
    /// The files changed between the beginning and the end of reading.
    #[error("another tokenizer replaced it while it was being read")]
    Replaced,
    /// The fingerprint differs from the one in the training record.
    #[error("it does not match training.json beside it: the files are of two training runs, or were changed")]
    OtherTraining,
    /// Only ordinary tokens are compared. The text of an added token may be one byte, too.
    #[error("byte 0x{byte:02X} has two tokens, {first} and {second}")]
    ByteTwice { byte: u8, first: TokenId, second: TokenId },
    /// An added token may share the id of an ordinary token only if it is spelled like it.
    #[error("two tokens have id {0}")]
    IdTwice(TokenId),
    /// Tables grow with the highest id, so unused ids are limited.
    #[error("{tokens} tokens have ids up to {highest}: more than {limit} ids would be unused")]
    Holes { tokens: usize, highest: TokenId, limit: usize },
    #[error("merge {merge} uses token {id}, which does not exist")]
    MergeUnknown { merge: usize, id: TokenId },
    /// Merging never makes or uses such a token: it is cut out of texts before.
    #[error("merge {merge} uses token {id} ({}), which is only an added token", excerpt(text))]
    MergeAdded { merge: usize, id: TokenId, text: String },
    /// A part without bytes never occurs in a text.
    #[error("merge {merge} uses token {id}, which has no bytes")]
    MergeEmpty { merge: usize, id: TokenId },
    #[error(
        "merge {merge} makes token {result}, whose bytes are not those of {left} followed by those of {right}"
    )]
    MergeBytes { merge: usize, left: TokenId, right: TokenId, result: TokenId },
    /// The second merge of a pair could never be applied.
    #[error("merge {merge} joins {left} and {right}, which an earlier merge already joins")]
    PairTwice { merge: usize, left: TokenId, right: TokenId },
    /// It would be found everywhere.
    #[error("an added token is empty")]
    AddedEmpty,
    #[error("added token {} is listed twice", excerpt(.0))]
    AddedTwice(String),
    /// Both would have the same bytes and different ids.
    #[error("special token {} is also ordinary token {id}", excerpt(text))]
    SpecialIsToken { text: String, id: TokenId },
    /// The text was to become a special token of an existing vocabulary.
    #[error(
        "{} is ordinary token {id}, which occurs in encoded text: as a special token it would be cut out of words",
        excerpt(text)
    )]
    SpecialIsMerged { text: String, id: TokenId },
    /// `problem` is a clause that names the first merge or token in the way.
    #[error("the tokenizer is not a plain list of merges: {problem}")]
    NotAList { problem: String },
    #[error("the merges do not begin with those of the tokenizer")]
    OtherBeginning,
    /// Decoding or a template names an id that is not in use.
    #[error("token id {0} is not in the vocabulary")]
    UnknownId(TokenId),

    /// Longer files are not read, whatever length they declare.
    #[error("longer than {limit} bytes, the limit for a tokenizer")]
    FileTooLong { limit: u64 },
    #[error("longer than {limit} bytes, the limit for a chat template")]
    TemplateTooLong { limit: u64 },
    #[error("the chat template is empty")]
    TemplateEmpty,
    /// Writing refuses what reading would refuse.
    #[error("a tokenizer file in format {format} would take {bytes}; the limit is {limit}")]
    WouldBeTooLong { format: Format, bytes: ByteCount, limit: ByteCount },
    /// The file is of a known kind that is no tokenizer.
    #[error("it is {}", .0.what)]
    OtherFileKind(OtherFileKind),
    #[error("not UTF-8")]
    NotText(#[source] std::str::Utf8Error),
    #[error("not the JSON expected")]
    Json(#[source] serde_json::Error),
    /// `line` is the number of the line in a text format.
    #[error("line {line}: {problem}")]
    Line { line: usize, problem: LineProblem },
    /// The phrase names a feature that changes ids and cannot be reproduced.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// All letters of a key must be letters of the byte alphabet.
    #[error("token {id} ({}) is not written in the byte alphabet of GPT-2", excerpt(key))]
    NotByteLevel { id: TokenId, key: String },
    #[error("token {} is listed twice", excerpt(.0))]
    KeyTwice(String),
    /// `missing` is one of the parts, or both joined.
    #[error(
        "merge {merge} ({} {}) needs token {}, which the vocabulary lacks",
        excerpt(left),
        excerpt(right),
        excerpt(missing)
    )]
    MergeKey { merge: usize, left: String, right: String, missing: String },
    /// The token is in both lists of the file, with different ids.
    #[error("added token {} has id {added}, but the vocabulary gives it id {listed}", excerpt(text))]
    AddedId { text: String, added: TokenId, listed: TokenId },
    /// That program ignores the ids that a file gives to such tokens, so this file would have other ids there.
    #[error(
        "added token {} has id {added}, but Hugging Face's tokenizers would number it {counted}",
        excerpt(text)
    )]
    AddedNumber { text: String, added: TokenId, counted: TokenId },
    /// A rank file on its own has only tokens.
    #[error("the file does not say how text is split")]
    NoSplit,
    /// The options name a split, and so does the file.
    #[error("the requested split is not the one that the file names")]
    OtherSplit,
    /// The options name a special token, and the file has others.
    #[error("special token {} is not among those of the file", excerpt(.0))]
    OtherSpecial(String),
    /// Neither the name nor the content shows a format.
    #[error("no tokenizer of a known format found")]
    UnknownFormat,
    #[error("no tokenizer of format {0} found")]
    NoSuch(Format),
    /// The names of the files, sorted.
    #[error("several tokenizers found: {}", .0.join(", "))]
    Several(Vec<String>),
    /// A short list of merges can make tokens of enormous length.
    #[error("the tokens have more than {limit} bytes in total")]
    TokensTooLong { limit: usize },
    /// Every cut of every token would become a merge, and their number is limited.
    #[error(
        "some tokens are made by no merge, and the others can be put together in too many ways to find their merges"
    )]
    TooManyDecompositions,

    /// The pattern does not compile, or means something else here than in its own program.
    #[error(transparent)]
    Split(Error),

    /// Writing in `format` was refused. [`FormatLimit`] names the property.
    #[error("{format} cannot hold this vocabulary: {limit}")]
    CannotHold { format: Format, limit: FormatLimit },
}

/// The difference between a line of a file and its format.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineProblem {
    /// `found` is an [`excerpt`] of the line.
    #[error("{expected} expected, found {found}")]
    Expected { expected: &'static str, found: String },
    /// The line after the last one was needed.
    #[error("{expected} expected, but the file ends")]
    Ends { expected: &'static str },
}

/// A property of a vocabulary that a format cannot express.
///
/// Its message completes "FORMAT cannot hold this vocabulary: …".
#[derive(Debug, thiserror::Error)]
pub(super) enum FormatLimit {
    /// Keys must be unique.
    #[error("tokens {first} and {second} have equal bytes")]
    EqualBytes { first: TokenId, second: TokenId },
    /// An added token is a key by its text, which then equals the spelling of another token's bytes.
    #[error("added token {} would be spelled like token {id}", excerpt(text))]
    AddedSpelled { text: String, id: TokenId },
    /// minbpe separates text and id by white space.
    #[error("special token {} contains white space", excerpt(.0))]
    SpecialSpace(String),
    /// minbpe strips the line of the pattern.
    #[error("the split pattern begins or ends with white space, or has a line break")]
    PatternSpace,
    /// Lists of merges have a strict order.
    #[error("several merges have equal rank")]
    EqualRanks,
    /// tiktoken merges by the ids of the results.
    #[error("its merges do not follow from the order of its token ids")]
    NotByIds,
    /// The format has no such flag.
    #[error("whole pre-tokens are looked up before merging, and merging alone would not make some tokens")]
    IgnoresMerges,
    /// A reader would take the token for a special one, or could not list it.
    #[error("no merge makes token {0}")]
    Unmade(TokenId),
    #[error("byte 0x{0:02X} has no token; it must be token {0}")]
    ByteMissing(u8),
    #[error("byte 0x{byte:02X} is token {id}; it must be token {byte}")]
    ByteId { byte: u8, id: TokenId },
    /// minbpe numbers tokens by the lines of their merges.
    #[error("merge {merge} makes token {id}; it must make token {expected}")]
    NotConsecutive { merge: usize, id: TokenId, expected: usize },
    #[error("merge {merge} uses token {id}, which no earlier merge makes")]
    PartLater { merge: usize, id: TokenId },
    /// The format has no place for a split.
    #[error("it does not split text as GPT-2 does")]
    NotGpt2Split,
    /// Readers skip such lines.
    #[error("merge {merge} would be read as a header line")]
    LooksLikeHeader { merge: usize },
    #[error("added token {} has id {id}, but would get id {counted}", excerpt(text))]
    AddedNumber { text: String, id: TokenId, counted: TokenId },
    #[error("{0}")]
    HfOnly(HfOnly),
}

/// A change to text that no tokenizer trained by this program makes, and that only `tokenizer.json` can express.
/// [`Vocabulary::hf_only`](super::Vocabulary) finds it.
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
    /// The error of a file that uses a feature which cannot be reproduced. `feature` is a noun phrase.
    pub(super) fn unsupported(feature: impl Into<String>) -> VocabError {
        VocabError::Unsupported(feature.into())
    }

    /// Returns the error of a line that holds `found` instead of `expected`. Lines are counted from 1.
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

    /// Returns the error for a file with this problem. Errors that other options would avoid are errors of
    /// [usage](ErrorKind::Usage). All others mean that the file cannot be used.
    pub(super) fn in_file(self, path: &Path) -> Error {
        let help = match &self {
            VocabError::Split(error) => error.help().map(|help| Cow::Owned(help.to_owned())),
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

    /// Returns the remedy; `None` if the message already implies it or none is known.
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

/// An error with the path of its file. Its source is that of the error, so no message appears twice in a chain.
#[derive(Debug)]
struct FileError {
    /// The file or folder that was read, which begins the message.
    path: PathBuf,
    /// The problem, which ends the message.
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
