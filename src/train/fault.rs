//! Errors of training.

use crate::base::int::to_u64;
use crate::error::{Error, ErrorKind};

/// What can go wrong in training.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(
        "the training text has {positions} positions (one per token and one per end of a pre-token); the limit is about 2^32"
    )]
    TooManyPositions { positions: u64 },
    #[error("the number of tokens does not fit in 64 bits at the sequence {pretoken}")]
    Overflow { pretoken: String },
    #[error("the number of tokens does not fit in 64 bits")]
    OverflowOfTokens,
}

impl Fault {
    /// The text has more positions than 32 bits can number.
    pub(super) fn too_many(positions: usize) -> Error {
        let fault = Fault::TooManyPositions { positions: to_u64(positions) };
        Error::new(ErrorKind::Memory, fault)
            .with_help("take a part of the corpus (`take`, `every`, `max_bytes`), or choose a split pattern")
    }

    /// The number of tokens overflows when a sequence of tokens is added.
    pub(super) fn overflow_of_tokens() -> Error {
        Error::new(ErrorKind::Failed, Fault::OverflowOfTokens).with_help("use smaller weights")
    }

    /// The number of tokens overflows when this sequence of bytes is added. The message quotes its first 60
    /// bytes.
    pub(super) fn overflow(pretoken: &[u8]) -> Error {
        const SHOWN: usize = 60;
        let pretoken = pretoken[..pretoken.len().min(SHOWN)].escape_ascii().to_string();
        Error::new(ErrorKind::Failed, Fault::Overflow { pretoken }).with_help("use smaller weights")
    }
}
