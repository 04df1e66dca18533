use crate::error::{Error, ErrorKind};

/// What can go wrong in training.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(
        "the text to train on is {positions} tokens long, more than the 2^32 that can be trained on at once"
    )]
    TooManyPositions { positions: u64 },
    #[error("the number of tokens passes 64 bits at the sequence {piece}")]
    Overflow { piece: String },
}

impl Fault {
    /// The count of tokens overflows when this sequence is added.
    pub(super) fn overflow(piece: &[u8]) -> Error {
        const SHOWN: usize = 60;
        let piece = piece[..piece.len().min(SHOWN)].escape_ascii().to_string();
        Error::new(ErrorKind::Failed, Fault::Overflow { piece }).with_help("use smaller weights")
    }
}
