use std::fmt;

use crate::error::Error;
use crate::units::TokenId;

#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("the vocabulary has no token {id} to use as {role}")]
    NoSuchToken { role: &'static str, id: TokenId },
    #[error("the vocabulary uses ids up to {limit}; encoding takes those below {most}")]
    TooManyIds { limit: usize, most: usize },
    #[error("the text holds the special token {text:?} at byte {offset}")]
    SpecialInText { text: String, offset: usize },
    #[error("a piece of the text has {bytes} bytes; encoding takes up to {most}")]
    PieceTooLong { bytes: usize, most: usize },
}

/// An error of one document, with the document's place before it.
#[derive(Debug)]
pub(super) struct InRow {
    unit: String,
    row: u64,
    cause: Error,
}

impl InRow {
    /// `cause`, at that row of that unit; its kind and remedy stay.
    pub(super) fn wrap(unit: String, row: u64, cause: Error) -> Error {
        let (kind, help) = (cause.kind(), cause.help().map(str::to_owned));
        let error = Error::new(kind, InRow { unit, row, cause });
        match help {
            Some(help) => error.with_help(help),
            None => error,
        }
    }
}

impl fmt::Display for InRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: row {}: {}", self.unit, self.row, self.cause)
    }
}

impl std::error::Error for InRow {
    // The cause itself is in the message already.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.cause)
    }
}
