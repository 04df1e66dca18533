//! Recipes: what the user wrote in a file or in the flags of a command, read but not yet checked as a whole.
//!
//! Both give the same [`Recipe`], and [`plan`](super::plan()) checks both by the same rules. Only the words of the
//! messages differ: keys and lines of a file, or flags.

mod choice;
mod keys;
mod mistake;
mod read;
mod value;

pub use choice::{Choice, named, names};
pub use keys::{CountsKeys, EncodeKeys, OutputKeys, RunKeys, SampleKeys, SourceKeys, TrainKeys};
use mistake::MOST_TOLD;
pub use mistake::{Mistake, Mistakes};
pub use read::read;

use std::ops::Range;
use std::path::PathBuf;

/// A value and the place where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given<T> {
    /// The value.
    pub value: T,
    /// The place of the value in the recipe's text, in bytes. `None` if it comes from a flag.
    pub span: Option<Range<usize>>,
}

impl<T> Given<T> {
    /// A value from a flag.
    pub fn flag(value: T) -> Given<T> {
        Given { value, span: None }
    }
}

/// The value of a key; `None` if the key was left out.
pub type Field<T> = Option<Given<T>>;

/// Where the values were written. Messages name the keys accordingly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A recipe file.
    File {
        /// The path as the user gave it.
        path: String,
        /// The text, to which places refer.
        text: String,
    },
    /// The flags of a command.
    Flags(Command),
}

/// The commands whose flags make a recipe. They differ in the keys that they require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Trains a tokenizer and writes it into the output folder itself.
    Train,
    /// Counts pre-tokens. Needs no number of merges.
    Count,
    /// Counts pre-tokens or gathers documents to replay merges on. Needs no number of merges.
    Verify,
    /// Encodes with a tokenizer from a file.
    Encode,
    /// Only reads documents (`bench`, `compare`, `decode --verify`). Writes no folder.
    Read,
}

/// What the user wrote, section by section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Where it was written.
    pub origin: Origin,
    /// `[source]`, or each `[[source]]`.
    pub sources: Vec<SourceKeys>,
    /// Counts files, which take the place of the sources. Only flags can name them.
    pub counts: Vec<CountsKeys>,
    /// The tokenizer that training extends. Only a flag can name it.
    pub extend: Option<String>,
    /// The local path of that tokenizer, if its name is not a path.
    pub extend_at: Option<PathBuf>,
    /// The size of that tokenizer, once it has been read.
    pub extended: Option<Extended>,
    /// `[sample]`.
    pub sample: SampleKeys,
    /// `[train]`, if there is one.
    pub train: Option<TrainKeys>,
    /// `[encode]`, if there is one.
    pub encode: Option<EncodeKeys>,
    /// `[output]`.
    pub output: OutputKeys,
    /// `[run]`.
    pub run: RunKeys,
    /// Mistakes found while reading. Their keys count as left out.
    pub mistakes: Vec<Mistake>,
}

/// The size of a tokenizer that training extends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    /// Number of tokens, including the added ones.
    pub tokens: u64,
    /// Number of merges.
    pub merges: u64,
}

impl Recipe {
    /// Number of merges in a vocabulary with this number of tokens and special tokens; 0 if it is too small for any.
    pub(in crate::run) fn merges_of(&self, tokens: u64, specials: u64) -> u64 {
        let base = self.extended.unwrap_or(Extended { tokens: BYTE_TOKENS + specials, merges: 0 });
        tokens.saturating_sub(base.tokens).saturating_add(base.merges)
    }

    /// Number of tokens in a vocabulary with this number of merges and special tokens.
    pub(in crate::run) fn tokens_of(&self, merges: u64, specials: u64) -> u64 {
        let base = self.extended.unwrap_or(Extended { tokens: BYTE_TOKENS + specials, merges: 0 });
        merges.saturating_sub(base.merges).saturating_add(base.tokens)
    }
}

/// Number of tokens for single bytes, which every trained vocabulary has.
pub(in crate::run) const BYTE_TOKENS: u64 = 256;

impl Origin {
    /// The name of a key in messages: the key itself, or the flag that sets it.
    pub fn name(&self, key: &str) -> String {
        match (self, key) {
            (Origin::File { .. }, _) => format!("`{key}`"),
            (Origin::Flags(_), "uri") => "INPUT".to_owned(),
            (Origin::Flags(_), "dir") => "`--output`".to_owned(),
            (Origin::Flags(_), "special_tokens") => "`--special-token`".to_owned(),
            (Origin::Flags(_), _) => format!("`--{}`", key.replace('_', "-")),
        }
    }
}

impl Recipe {
    /// A recipe without any keys.
    pub fn empty(origin: Origin) -> Recipe {
        Recipe {
            origin,
            sources: Vec::new(),
            counts: Vec::new(),
            extend: None,
            extend_at: None,
            extended: None,
            sample: SampleKeys::default(),
            train: None,
            encode: None,
            output: OutputKeys::default(),
            run: RunKeys::default(),
            mistakes: Vec::new(),
        }
    }
}
