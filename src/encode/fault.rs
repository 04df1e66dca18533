use crate::units::TokenId;

#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("the vocabulary has no token {id} to use as {role}")]
    NoSuchToken { role: &'static str, id: TokenId },
    #[error("the vocabulary uses ids up to {limit}; encoding takes those below {most}")]
    TooManyIds { limit: usize, most: usize },
    #[error("the text holds the special token {text:?} at byte {offset}")]
    SpecialInText { text: String, offset: usize },
    #[error("the text, in normalization form C, holds the special token {text:?}")]
    SpecialInNormal { text: String },
    #[error("{place}: the document comes in parts")]
    DocumentInParts { place: String },
    #[error("a piece of the text has {bytes} bytes; encoding takes up to {most}")]
    PieceTooLong { bytes: usize, most: usize },
}
