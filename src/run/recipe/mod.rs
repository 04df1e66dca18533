//! What the user wrote: a recipe file or the flags of a command, read but not yet checked as a whole.
//!
//! Both give the same [`Recipe`], so that [`plan`](super::plan()) checks them by the same rules and only
//! the words of its messages differ: keys and lines of a file, or flags.

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

/// A value with the place where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given<T> {
    /// The value.
    pub value: T,
    /// Its bytes in the recipe's text; `None` where it comes from a flag.
    pub span: Option<Range<usize>>,
}

impl<T> Given<T> {
    /// A value that comes from a flag.
    pub fn flag(value: T) -> Given<T> {
        Given { value, span: None }
    }
}

/// A key that may have been left out.
pub type Field<T> = Option<Given<T>>;

/// Where the values come from, and so how messages name the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A recipe's text.
    File {
        /// The path as it was given.
        path: String,
        /// The text, to point into.
        text: String,
    },
    /// The flags of a command.
    Flags(Command),
}

/// The commands whose flags make a recipe; what each needs differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Learns a tokenizer and writes it into the output folder itself.
    Train,
    /// Counts pieces; needs no number of merges.
    Count,
    /// Counts pieces, or gathers documents, to replay merges on; needs no number of merges either.
    Verify,
    /// Encodes with a tokenizer from a file.
    Encode,
    /// Only reads documents (`bench`, `compare`, `decode --verify`); writes no folder.
    Read,
}

/// What the user wrote, section by section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Where it was written.
    pub origin: Origin,
    /// `[source]`, or each `[[source]]`.
    pub sources: Vec<SourceKeys>,
    /// Files of counts, which take the place of the sources; flags alone name them.
    pub counts: Vec<CountsKeys>,
    /// The tokenizer whose merges training goes on from; a flag alone names it.
    pub extend: Option<String>,
    /// Where it lies on this machine, if what names it is no path.
    pub extend_at: Option<PathBuf>,
    /// What that has, once it has been looked at.
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
    /// What could not be read; the keys concerned count as left out.
    pub mistakes: Vec<Mistake>,
}

/// What a tokenizer has that training goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    /// How many tokens, added ones among them.
    pub tokens: u64,
    /// How many merges.
    pub merges: u64,
}

impl Recipe {
    /// How many merges a vocabulary of so many tokens has, if there are so many special tokens; 0 if it is smaller than it can be.
    pub(in crate::run) fn merges_of(&self, tokens: u64, specials: u64) -> u64 {
        let base = self.extended.unwrap_or(Extended { tokens: BYTE_TOKENS + specials, merges: 0 });
        tokens.saturating_sub(base.tokens).saturating_add(base.merges)
    }

    /// How many tokens a vocabulary of so many merges has, likewise.
    pub(in crate::run) fn tokens_of(&self, merges: u64, specials: u64) -> u64 {
        let base = self.extended.unwrap_or(Extended { tokens: BYTE_TOKENS + specials, merges: 0 });
        merges.saturating_sub(base.merges).saturating_add(base.tokens)
    }
}

/// Tokens that every vocabulary has that is learned here: one for each byte.
pub(in crate::run) const BYTE_TOKENS: u64 = 256;

impl Origin {
    /// How messages name a key: by itself, or as the flag that sets it.
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
    /// A recipe in which nothing is written yet.
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
