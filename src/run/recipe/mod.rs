//! Recipes: what the user wrote in a file or in the flags of a command, read but not yet checked as a whole.
//!
//! Both give the same [`Recipe`], and [`plan`](super::plan()) checks both by the same rules. Only the words of the
//! messages differ: keys and lines of a file, or flags.
//!
//! A [`Mistake`] describes an error and its place. `FixedSettings` come from a file: a counts file, or a tokenizer
//! to extend.

mod keys;
mod read;

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use serde::Serialize;

use crate::count::Boundary;
use crate::error::{Error, ErrorKind};
use crate::split::SplitPattern;
use crate::vocab::SpecialTokensAt;

pub use keys::{
    Choice, CountsKeys, EncodeKeys, OutputKeys, ParityKeys, RunKeys, SampleKeys, SourceKeys, StageKeys,
    TrainKeys, WrittenSection, WrittenValue, named, names,
};
pub use read::{read, read_with};

/// A value and the place where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given<T> {
    /// The value.
    pub value: T,
    /// The place of the value in the recipe's text, in bytes. `None` if it comes from a flag. The end is exclusive.
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
    /// The arguments with which a program calls a function that does what a command does.
    Arguments(Command),
}

/// The commands that make a recipe from their flags or arguments. They differ in the keys that they require.
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

/// The text of a recipe or the flags of a command, section by section.
///
/// `[train]` and `[encode]` are options because their presence turns a stage on. The other sections are empty if they
/// are left out.
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
    /// The number of its first merges that training keeps; all if `None`. Only a flag can name it.
    pub keep_merges: Field<u64>,
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
    ///
    /// If a tokenizer is extended, its merges count, and its own size takes the place of bytes and special tokens.
    pub(super) fn merges_of(&self, tokens: u64, specials: u64) -> u64 {
        let base = self.extended.unwrap_or(Extended { tokens: BYTE_TOKENS + specials, merges: 0 });
        tokens.saturating_sub(base.tokens).saturating_add(base.merges)
    }

    /// Number of tokens in a vocabulary with this number of merges and special tokens.
    ///
    /// It is the inverse of `merges_of` for sizes that are not too small.
    pub(super) fn tokens_of(&self, merges: u64, specials: u64) -> u64 {
        let base = self.extended.unwrap_or(Extended { tokens: BYTE_TOKENS + specials, merges: 0 });
        merges.saturating_sub(base.merges).saturating_add(base.tokens)
    }

    /// A recipe without any keys.
    pub fn empty(origin: Origin) -> Recipe {
        Recipe {
            origin,
            sources: Vec::new(),
            counts: Vec::new(),
            extend: None,
            extend_at: None,
            keep_merges: None,
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

/// Number of tokens for single bytes, which every trained vocabulary has.
pub(super) const BYTE_TOKENS: u64 = 256;

impl Origin {
    /// The command; `None` for a recipe file.
    pub(super) fn command(&self) -> Option<Command> {
        match self {
            Origin::File { .. } => None,
            Origin::Flags(command) | Origin::Arguments(command) => Some(*command),
        }
    }

    /// The name of a key in messages: the key itself, or the flag that sets it.
    pub fn name(&self, key: &str) -> String {
        match (self, key) {
            (Origin::Arguments(_), "dir") => "`out`".to_owned(),
            (Origin::File { .. } | Origin::Arguments(_), _) => format!("`{key}`"),
            (Origin::Flags(_), "uri") => "INPUT".to_owned(),
            (Origin::Flags(_), "dir") => "`--output`".to_owned(),
            (Origin::Flags(_), "special_tokens") => "`--special-token`".to_owned(),
            (Origin::Flags(_), "stages") => "`--stage`".to_owned(),
            (Origin::Flags(_), _) => format!("`--{}`", key.replace('_', "-")),
        }
    }
}

/// Number of mistakes to report at once. The others are reported once these are corrected. Each mistake takes a pass
/// over the recipe.
const MAX_LISTED: usize = 100;

/// A mistake in a recipe or in the flags of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The key that is wrong, or was probably meant, if it is known.
    pub key: Option<&'static str>,
    /// The place in the recipe's text, in bytes. `None` for a flag, and for a missing key or section.
    pub span: Option<Range<usize>>,
    /// The description of the error: one sentence, without the place and without a final period.
    pub message: String,
    /// What to write instead, if that is known.
    pub help: Option<String>,
}

impl Mistake {
    /// A mistake without help.
    pub(crate) fn new(key: Option<&'static str>, span: Option<Range<usize>>, message: String) -> Mistake {
        Mistake { key, span, message, help: None }
    }
}

/// All mistakes in a recipe or in the flags of a command, in the order of the text. There is at least one.
///
/// `Display` writes one line: the first mistake with its place, and the number of further ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes {
    origin: Origin,
    mistakes: Vec<Mistake>,
}

impl Mistakes {
    /// Sorts the mistakes by place. Those without a place come last, in the given order. At most [`MAX_LISTED`] are
    /// kept.
    ///
    /// `mistakes` must not be empty.
    pub(crate) fn new(origin: Origin, mut mistakes: Vec<Mistake>) -> Mistakes {
        debug_assert!(!mistakes.is_empty());
        mistakes.truncate(MAX_LISTED);
        mistakes.sort_by_key(|mistake| mistake.span.as_ref().map_or(usize::MAX, |span| span.start));
        Mistakes { origin, mistakes }
    }

    /// The mistakes in the order of the text.
    pub fn iter(&self) -> std::slice::Iter<'_, Mistake> {
        self.mistakes.iter()
    }

    /// Whether there may be further mistakes, because the search ended at the maximum number.
    pub fn may_be_more(&self) -> bool {
        self.mistakes.len() == MAX_LISTED
    }

    /// The path and the text of the recipe; `None` if the mistakes are in flags.
    pub fn file(&self) -> Option<(&str, &str)> {
        match &self.origin {
            Origin::File { path, text } => Some((path, text)),
            Origin::Flags(_) | Origin::Arguments(_) => None,
        }
    }

    /// The place of a mistake as `path:line:column`, or the path alone if the mistake has no place. `None` if the
    /// mistakes are in flags.
    ///
    /// Lines and columns count from 1, columns in characters.
    pub fn place(&self, mistake: &Mistake) -> Option<String> {
        let (path, text) = self.file()?;
        let Some(before) = mistake.span.as_ref().and_then(|span| text.get(..span.start)) else {
            return Some(path.to_owned());
        };
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = 1 + before.matches('\n').count();
        let column = 1 + before[line_start..].chars().count();
        Some(format!("{path}:{line}:{column}"))
    }
}

impl fmt::Display for Mistakes {
    /// Writes the first mistake on one line, then the number of further ones.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = &self.mistakes[0];
        if let Some(place) = self.place(first) {
            write!(f, "{place}: ")?;
        }
        f.write_str(&first.message)?;
        match self.mistakes.len() - 1 {
            0 => Ok(()),
            1 => f.write_str(" (and one more mistake)"),
            _ if self.may_be_more() => write!(f, " (and {} more mistakes, or more)", MAX_LISTED - 1),
            more => write!(f, " (and {more} more mistakes)"),
        }
    }
}

impl std::error::Error for Mistakes {}

impl From<Mistakes> for Error {
    /// The error has the kind [`ErrorKind::Usage`] and the help of the first mistake.
    fn from(mistakes: Mistakes) -> Error {
        let help = mistakes.mistakes[0].help.clone();
        let error = Error::new(ErrorKind::Usage, mistakes);
        match help {
            Some(help) => error.with_help(help),
            None => error,
        }
    }
}

/// The settings that a file determines. A recipe may repeat them but not contradict them.
pub(super) struct FixedSettings<'a> {
    /// The name of the file, for messages.
    pub(super) by: &'a str,
    /// The split pattern. Every such file contains one.
    pub(super) split: &'a SplitPattern,
    /// The boundary, if the file contains it.
    pub(super) boundary: Option<Boundary>,
    /// The texts of the special tokens, in the order of the file. There may be none.
    pub(super) specials: &'a [String],
    /// The position of the special tokens, if the file contains it.
    pub(super) specials_at: Option<SpecialTokensAt>,
}

impl FixedSettings<'_> {
    /// Completes the recipe, and adds a mistake to it for each setting that contradicts the file.
    ///
    /// Split, boundary and position take the value of the file even then. Special tokens of the recipe stay.
    pub(super) fn complete(&self, recipe: &mut Recipe) {
        let keys = recipe.train.get_or_insert_default();
        let mut wrong: Vec<(&'static str, String)> = Vec::new();
        if differs(&mut keys.split, self.split) {
            wrong.push(("split", format!("the split {}", self.split)));
        }
        if let Some(boundary) = &self.boundary
            && differs(&mut keys.boundary, boundary)
        {
            wrong.push(("boundary", format!("the boundary {}", word(boundary))));
        }
        if !self.heed_specials(keys) {
            wrong.push(("special_tokens", format!("the special tokens {:?}", self.specials)));
        }
        if let Some(at) = &self.specials_at
            && differs(&mut keys.special_tokens_at, at)
        {
            wrong.push(("special_tokens_at", format!("its special tokens at the {}", word(at))));
        }
        for (key, fixed) in wrong {
            let message = format!("{}: {} has {fixed}", recipe.origin.name(key), self.by);
            let help = Some("leave it out: it follows from the file".to_owned());
            recipe.mistakes.push(Mistake { help, ..Mistake::new(Some(key), None, message) });
        }
    }

    /// Takes the file's special tokens if the recipe names none. Returns whether the recipe agrees: it must name the
    /// same ones, in any order.
    fn heed_specials(&self, keys: &mut TrainKeys) -> bool {
        if keys.special_tokens.is_empty() {
            keys.special_tokens = self.specials.iter().cloned().map(Given::flag).collect();
            return true;
        }
        let mut given: Vec<&String> = keys.special_tokens.iter().map(|token| &token.value).collect();
        let mut fixed: Vec<&String> = self.specials.iter().collect();
        given.sort();
        fixed.sort();
        given == fixed
    }
}

/// Sets a key to the value of the file. Returns whether the recipe had another value; a key that was left out agrees.
fn differs<T: Clone + PartialEq>(field: &mut Field<T>, fixed: &T) -> bool {
    field.replace(Given::flag(fixed.clone())).is_some_and(|given| given.value != *fixed)
}

/// The name of a choice in recipes, from its serialized form.
///
/// # Panics
/// The choice has fields, so that its serialized form is no string.
pub(in crate::run) fn word(choice: &impl Serialize) -> String {
    match serde_json::to_value(choice) {
        Ok(serde_json::Value::String(word)) => word,
        _ => unreachable!("choices without fields are words"),
    }
}
