//! Mistakes in recipes and flags, and where they are.

use std::fmt;
use std::ops::Range;

use super::Origin;
use crate::error::{Error, ErrorKind};

/// Number of mistakes to report at once. The others are reported once these are corrected. Each mistake takes a pass
/// over the recipe.
pub(super) const MOST_TOLD: usize = 100;

/// A mistake in a recipe or in the flags of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The key that is wrong, or was probably meant, if it is known.
    pub key: Option<&'static str>,
    /// The place in the recipe's text, in bytes. `None` for a flag, and for a missing key or section.
    pub span: Option<Range<usize>>,
    /// What is wrong.
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
    /// Sorts the mistakes by place. Those without a place come last, in the given order. At most [`MOST_TOLD`] are
    /// kept.
    ///
    /// `mistakes` must not be empty.
    pub(crate) fn new(origin: Origin, mut mistakes: Vec<Mistake>) -> Mistakes {
        debug_assert!(!mistakes.is_empty());
        mistakes.truncate(MOST_TOLD);
        mistakes.sort_by_key(|mistake| mistake.span.as_ref().map_or(usize::MAX, |span| span.start));
        Mistakes { origin, mistakes }
    }

    /// The mistakes in the order of the text.
    pub fn iter(&self) -> std::slice::Iter<'_, Mistake> {
        self.mistakes.iter()
    }

    /// Whether there may be further mistakes, because the search ended at the maximum number.
    pub fn may_be_more(&self) -> bool {
        self.mistakes.len() == MOST_TOLD
    }

    /// The path and the text of the recipe; `None` if the mistakes are in flags.
    pub fn file(&self) -> Option<(&str, &str)> {
        match &self.origin {
            Origin::File { path, text } => Some((path, text)),
            Origin::Flags(_) => None,
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
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = &self.mistakes[0];
        if let Some(place) = self.place(first) {
            write!(f, "{place}: ")?;
        }
        f.write_str(&first.message)?;
        match self.mistakes.len() - 1 {
            0 => Ok(()),
            1 => f.write_str(" (and one more mistake)"),
            _ if self.may_be_more() => write!(f, " (and {} more mistakes, or more)", MOST_TOLD - 1),
            more => write!(f, " (and {more} more mistakes)"),
        }
    }
}

impl std::error::Error for Mistakes {}

impl From<Mistakes> for Error {
    fn from(mistakes: Mistakes) -> Error {
        let help = mistakes.mistakes[0].help.clone();
        let error = Error::new(ErrorKind::Usage, mistakes);
        match help {
            Some(help) => error.with_help(help),
            None => error,
        }
    }
}
