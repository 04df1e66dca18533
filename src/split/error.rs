//! Errors of split patterns and of splitting by them.

use thiserror::Error;

use crate::error::{Error, ErrorKind, excerpt};

/// An error in a pattern, a text or a special token.
#[derive(Debug, Error)]
pub(super) enum SplitError {
    /// The engine cannot read or compile the pattern.
    #[error("{} is not a regular expression", excerpt(pattern))]
    Syntax {
        pattern: String,
        #[source]
        cause: Box<fancy_regex::Error>,
    },
    /// A pre-token is never empty, so a match of the empty text alone is always a mistake.
    #[error("the pattern {} can match the empty text", excerpt(pattern))]
    MatchesEmpty { pattern: String },
    /// One search exceeded its last limit. `at` is an offset into the text, with replacement characters.
    #[error("the pattern {} needs too many backtracking steps at byte {at} of a text", excerpt(pattern))]
    Backtracking {
        pattern: String,
        at: usize,
        #[source]
        cause: Box<fancy_regex::Error>,
    },
    /// All searches in one text together exceeded their limit.
    #[error("the pattern {} needs too many backtracking steps at many places of a text", excerpt(pattern))]
    Steps { pattern: String },
    /// Oniguruma and fancy-regex understand a construct of the pattern differently.
    #[error(
        "{construct} in the pattern {} has a different meaning in Hugging Face's regular expression engine",
        excerpt(pattern)
    )]
    Dialect { pattern: String, construct: String },
    /// To compare the dialects could take too long.
    #[error("the regular expression has {bytes} bytes; the limit is {max}")]
    LongExpression { bytes: usize, max: usize },
    /// The offsets of pre-tokens have 32 bits.
    #[error(
        "a text of {bytes} bytes has no safe split point; the limit for such a text is {} bytes",
        u32::MAX
    )]
    TooLong { bytes: usize },
    /// A pattern that must cover a text leaves out a section of it. `text` is the start of that section.
    #[error(
        "the pattern {} does not match {text:?}, which Hugging Face's tokenizers would drop",
        excerpt(pattern)
    )]
    Unmatched { pattern: String, text: String },
    /// The empty text cannot be found.
    #[error("special token number {number} is empty")]
    EmptySpecial { number: usize },
    /// The search for the special tokens would exceed a limit of the aho-corasick crate.
    #[error("the special tokens are too many or too long to search for")]
    Specials(#[source] aho_corasick::BuildError),
}

impl From<SplitError> for Error {
    fn from(error: SplitError) -> Error {
        use SplitError::*;
        let kind = match error {
            Backtracking { .. } | Steps { .. } | TooLong { .. } | Unmatched { .. } => ErrorKind::Failed,
            _ => ErrorKind::Usage,
        };
        let help = match error {
            MatchesEmpty { .. } => {
                "every alternative must match at least one character: write + instead of *"
            }
            Backtracking { .. } | Steps { .. } => {
                "use a named pattern, or one without look-around and nested repetitions"
            }
            Dialect { .. } => {
                r"write (?>x{1,3}) instead of x{1,3}+, \A instead of ^, \z instead of $, and [\p{L}\p{M}\p{Nd}\p{Pc}] instead of \w"
            }
            TooLong { .. } => "cut the document, or use a named pattern",
            Unmatched { .. } => "leave the document out",
            Syntax { .. } | LongExpression { .. } | EmptySpecial { .. } | Specials(_) => {
                return Error::new(kind, error);
            }
        };
        Error::new(kind, error).with_help(help)
    }
}
