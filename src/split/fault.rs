use thiserror::Error;

use crate::error::{Error, ErrorKind, excerpt};

/// Errors of patterns and of splitting by them.
#[derive(Debug, Error)]
pub(super) enum Fault {
    #[error("{} is not a regular expression", excerpt(pattern))]
    Syntax {
        pattern: String,
        #[source]
        cause: Box<fancy_regex::Error>,
    },
    #[error("the pattern {} can match the empty text", excerpt(pattern))]
    MatchesNothing { pattern: String },
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
    Gap { pattern: String, text: String },
    #[error("special token number {number} is empty")]
    EmptySpecial { number: usize },
    #[error("the special tokens are too many or too long to search for")]
    Specials(#[source] aho_corasick::BuildError),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        let (kind, help) = match &fault {
            Fault::Syntax { .. } => (ErrorKind::Usage, None),
            Fault::MatchesNothing { .. } => (
                ErrorKind::Usage,
                Some("every alternative must match at least one character: write + instead of *"),
            ),
            Fault::Backtracking { .. } | Fault::Steps { .. } => (
                ErrorKind::Failed,
                Some("use a named pattern, or one without look-around and nested repetitions"),
            ),
            Fault::Dialect { .. } => (
                ErrorKind::Usage,
                Some(
                    r"write (?>x{1,3}) instead of x{1,3}+, \A instead of ^, \z instead of $, and [\p{L}\p{M}\p{Nd}\p{Pc}] instead of \w",
                ),
            ),
            Fault::TooLong { .. } => (ErrorKind::Failed, Some("cut the document, or use a named pattern")),
            Fault::Gap { .. } => (ErrorKind::Failed, Some("leave the document out")),
            Fault::LongExpression { .. } | Fault::EmptySpecial { .. } | Fault::Specials(_) => {
                (ErrorKind::Usage, None)
            }
        };
        let error = Error::new(kind, fault);
        match help {
            Some(help) => error.with_help(help),
            None => error,
        }
    }
}
