//! Errors of split patterns and of splitting by them.

use thiserror::Error;

use crate::error::{Error, ErrorKind, excerpt};

/// What is wrong with a pattern, a text or a special token.
#[derive(Debug, Error)]
pub(super) enum SplitError {
    #[error("{} is not a regular expression", excerpt(pattern))]
    Syntax {
        pattern: String,
        #[source]
        cause: Box<fancy_regex::Error>,
    },
    #[error("the pattern {} can match the empty text", excerpt(pattern))]
    MatchesEmpty { pattern: String },
    #[error("the pattern {} needs too many backtracking steps at byte {at} of a text", excerpt(pattern))]
    Backtracking {
        pattern: String,
        at: usize,
        #[source]
        cause: Box<fancy_regex::Error>,
    },
    #[error("the pattern {} needs too many backtracking steps at many places of a text", excerpt(pattern))]
    Steps { pattern: String },
    #[error(
        "{construct} in the pattern {} has a different meaning in Hugging Face's regular expression engine",
        excerpt(pattern)
    )]
    Dialect { pattern: String, construct: String },
    #[error("the regular expression has {bytes} bytes; the limit is {most}")]
    LongExpression { bytes: usize, most: usize },
    #[error(
        "a text of {bytes} bytes has no safe split point; the limit for such a text is {} bytes",
        u32::MAX
    )]
    TooLong { bytes: usize },
    #[error(
        "the pattern {} does not match {text:?}, which Hugging Face's tokenizers would drop",
        excerpt(pattern)
    )]
    Unmatched { pattern: String, text: String },
    #[error("special token number {number} is empty")]
    EmptySpecial { number: usize },
    #[error("the special tokens are too many or too long to search for")]
    Specials(#[source] aho_corasick::BuildError),
}

impl From<SplitError> for Error {
    fn from(error: SplitError) -> Error {
        let (kind, help) = match &error {
            SplitError::Syntax { .. } => (ErrorKind::Usage, None),
            SplitError::MatchesEmpty { .. } => (
                ErrorKind::Usage,
                Some("every alternative must match at least one character: write + instead of *"),
            ),
            SplitError::Backtracking { .. } | SplitError::Steps { .. } => (
                ErrorKind::Failed,
                Some("use a named pattern, or one without look-around and nested repetitions"),
            ),
            SplitError::Dialect { .. } => (
                ErrorKind::Usage,
                Some(
                    r"write (?>x{1,3}) instead of x{1,3}+, \A instead of ^, \z instead of $, and [\p{L}\p{M}\p{Nd}\p{Pc}] instead of \w",
                ),
            ),
            SplitError::TooLong { .. } => {
                (ErrorKind::Failed, Some("cut the document, or use a named pattern"))
            }
            SplitError::Unmatched { .. } => (ErrorKind::Failed, Some("leave the document out")),
            SplitError::LongExpression { .. } | SplitError::EmptySpecial { .. } | SplitError::Specials(_) => {
                (ErrorKind::Usage, None)
            }
        };
        let error = Error::new(kind, error);
        match help {
            Some(help) => error.with_help(help),
            None => error,
        }
    }
}
