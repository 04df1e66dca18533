//! The formats of tokenizers, the names of their files, and the errors that several readers and writers return.
//! [`Error::at`] puts the path of the file before an error.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::string::FromUtf8Error;

use serde::{Deserialize, Serialize};

use super::other_files::OtherFileKind;
use crate::base::int::TokenId;
use crate::error::{Error, ErrorKind, Result, excerpt, json_problem_at};

/// The file that Hugging Face's tokenizers reads.
pub(super) const TOKENIZER: &str = "tokenizer.json";

/// The file that `transformers` expects beside a `tokenizer.json`.
pub(super) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

/// GPT-2's file that maps tokens to ids.
pub(super) const VOCABULARY: &str = "vocab.json";

/// GPT-2's file that lists the merges.
pub(super) const MERGES: &str = "merges.txt";

/// A file format of tokenizers.
///
/// All formats hold tokens with their ids. They differ in what else they hold: only [`Hf`](Format::Hf) has
/// normalizers, split steps and flags of added tokens. `render` refuses a vocabulary that a format cannot express.
///
/// ```
/// use tokenmill::vocab::Format;
///
/// let format: Format = "tiktoken".parse()?;
/// assert_eq!(format, Format::Tiktoken);
/// assert_eq!(format.to_string(), "tiktoken");
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Format {
    /// Hugging Face's `tokenizer.json`, with a `tokenizer_config.json`.
    #[default]
    Hf,
    /// tiktoken's ranks, `NAME.tiktoken`, and the pattern and special tokens in `NAME.tiktoken.json`.
    Tiktoken,
    /// minbpe's `NAME.model`, and the human-readable `NAME.vocab`.
    Minbpe,
    /// GPT-2's `vocab.json` and `merges.txt`.
    Gpt2,
}

impl Format {
    /// All formats, in the order in which a folder is searched for a tokenizer.
    pub const ALL: [Format; 4] = [Format::Hf, Format::Tiktoken, Format::Minbpe, Format::Gpt2];

    /// The format's name in flags and recipes.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Hf => "hf",
            Format::Tiktoken => "tiktoken",
            Format::Minbpe => "minbpe",
            Format::Gpt2 => "gpt2",
        }
    }

    /// Returns the names of the format's two files. `name` is their stem where the format does not fix the names.
    pub(super) fn file_names(self, name: &str) -> [String; 2] {
        match self {
            Format::Hf => [TOKENIZER.to_owned(), TOKENIZER_CONFIG.to_owned()],
            Format::Tiktoken => [format!("{name}.tiktoken"), format!("{name}.tiktoken.json")],
            Format::Minbpe => [format!("{name}.model"), format!("{name}.vocab")],
            Format::Gpt2 => [VOCABULARY.to_owned(), MERGES.to_owned()],
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Format> {
        let found = Format::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| {
            let formats = "the formats are hf, tiktoken, minbpe and gpt2";
            Error::usage(format!("unknown tokenizer format {name:?}; {formats}"))
        })
    }
}

/// Returns the error of a file that uses a feature which changes ids and cannot be reproduced. `feature` is a noun
/// phrase.
pub(super) fn unsupported(feature: impl Display) -> Error {
    Error::failed(format!("{feature} is not supported"))
}

/// Returns the error of a line that holds `found` instead of `expected`. Lines are counted from 1.
pub(super) fn expected(line: usize, expected: &str, found: &str) -> Error {
    Error::failed(format!("line {line}: {expected} expected, found {}", excerpt(found)))
}

/// Returns the error of a file that is not the JSON of its format.
pub(super) fn not_json(cause: serde_json::Error) -> Error {
    Error::failed(format!("not the JSON expected: {}", json_problem_at(&cause)))
}

/// Returns the error of a file that is not UTF-8.
pub(super) fn not_text(cause: FromUtf8Error) -> Error {
    Error::caused(ErrorKind::Failed, "not UTF-8", cause.utf8_error())
}

/// Returns the error of a file of a known kind that is no tokenizer.
pub(super) fn of_other_kind(other: OtherFileKind) -> Error {
    Error::failed(format!("it is {}", other.what)).with_help(other.remedy)
}

/// Returns the error of a file, which should be `what`, with more than `limit` bytes. Longer files are not read,
/// whatever length they declare.
pub(super) fn too_long(limit: u64, what: &str) -> Error {
    Error::failed(format!("longer than {limit} bytes, the limit for {what}"))
}

/// Returns the error for a path if neither its name nor its content shows a format.
pub(super) fn unknown_format() -> Error {
    Error::failed("no tokenizer of a known format found").with_help(
        "give a tokenizer.json, a .tiktoken file, a minbpe .model, a vocab.json beside its merges.txt (or \
         encoder.json and vocab.bpe), or a folder with one of them",
    )
}

/// Returns the error of a file that lists a token twice.
pub(super) fn token_twice(key: &str) -> Error {
    Error::failed(format!("token {} is listed twice", excerpt(key)))
}

/// Returns the error of an id with two tokens. An added token may share the id of an ordinary token only if it is
/// spelled like it.
pub(super) fn id_twice(id: TokenId) -> Error {
    Error::failed(format!("two tokens have id {id}"))
}

/// Returns the error of an id that decoding or a template names and that is not in use. All ids of the vocabulary are
/// below `limit`.
pub(super) fn unknown_id(id: TokenId, limit: usize) -> Error {
    let highest = limit.saturating_sub(1);
    Error::failed(format!("token id {id} is not in the vocabulary"))
        .with_help(format!("the ids of this vocabulary go from 0 to {highest}"))
}

/// The reason of lists of merges, which have a strict order.
pub(super) const EQUAL_RANKS: &str = "several merges have equal rank";
/// The reason of formats without a flag for it.
pub(super) const IGNORES_MERGES: &str =
    "whole pre-tokens are looked up before merging, and merging alone would not make some tokens";

/// Returns the error for a vocabulary that neither `format` nor another one can hold.
pub(super) fn cannot_hold(format: Format, problem: impl Display) -> Error {
    Error::usage(format!("{format} cannot hold this vocabulary: {problem}"))
}

/// Returns the error for a vocabulary that `format` cannot hold. The format hf, which can hold more, is the remedy for
/// the others.
pub(super) fn only_hf_holds(format: Format, problem: impl Display) -> Error {
    let error = cannot_hold(format, problem);
    if format == Format::Hf {
        error
    } else {
        error.with_help("write it in the format hf, which can hold more")
    }
}
