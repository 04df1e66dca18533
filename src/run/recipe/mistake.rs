use std::fmt;
use std::ops::Range;

use super::Origin;
use crate::error::{Error, ErrorKind};

/// Mistakes that are told at once; others are told once these are mended. Each costs a look through the recipe.
pub(super) const MOST_TOLD: usize = 100;

/// One thing that is wrong with a recipe or with the flags of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The key that it is about (or was probably meant), if that is known.
    pub key: Option<&'static str>,
    /// Where it stands in the recipe's text; `None` for a flag, and for what is missing altogether.
    pub span: Option<Range<usize>>,
    /// What is wrong.
    pub message: String,
    /// What to write instead, if that can be said.
    pub help: Option<String>,
}

impl Mistake {
    /// A mistake for which there is no remedy to name.
    pub(crate) fn new(key: Option<&'static str>, span: Option<Range<usize>>, message: String) -> Mistake {
        Mistake { key, span, message, help: None }
    }
}

/// All that is wrong with a recipe or with the flags of a command, in the order of the text.
///
/// `Display` gives one line, with the first mistake and the number of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes {
    origin: Origin,
    mistakes: Vec<Mistake>,
}

impl Mistakes {
    /// Puts mistakes in the order of the text; those without a place come last, in the order given.
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

    /// Whether there may be more mistakes, since so many are told that no others were looked for.
    pub fn may_be_more(&self) -> bool {
        self.mistakes.len() == MOST_TOLD
    }

    /// The recipe's path and text; `None` where flags are wrong.
    pub fn file(&self) -> Option<(&str, &str)> {
        match &self.origin {
            Origin::File { path, text } => Some((path, text)),
            Origin::Flags(_) => None,
        }
    }

    /// Where a mistake stands, as `path:line:column`, or the path alone; `None` where flags are wrong.
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
