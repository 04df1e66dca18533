//! The formats of tokenizers, and the names of their files.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

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
