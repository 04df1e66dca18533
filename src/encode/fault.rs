use crate::units::TokenId;

#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("the vocabulary has no token {id} to use as {role}")]
    NoSuchToken { role: &'static str, id: TokenId },
    #[error("the vocabulary uses ids up to {limit}; encoding takes those below {most}")]
    TooManyIds { limit: usize, most: usize },
    #[error("the text holds the special token {text:?} at byte {offset}")]
    SpecialInText { text: String, offset: usize },
    #[error("the text, normalized, holds the special token {text:?}")]
    SpecialInNormal { text: String },
    #[error(
        "the vocabulary has no token for byte 0x{byte:02X}, which the text has{}{}",
        place.map_or(String::new(), |place| format!(" at byte {place}")),
        character.map_or(String::new(), |character| format!(" in U+{:04X}", u32::from(character)))
    )]
    ByteWithoutToken { byte: u8, character: Option<char>, place: Option<usize> },
    #[error(
        "the vocabulary lacks its unk_token {text:?}, so that Hugging Face's tokenizers fails on bytes without a token"
    )]
    UnknownLacking { text: String },
    #[error("merges use the unk_token {text:?}; what they make of bytes without a token is not supported")]
    UnknownMerged { text: String },
    #[error("normalizing makes more than {most} bytes of a text of {bytes}")]
    NormalGrows { bytes: usize, most: usize },
    #[error("{place}: the document comes in parts")]
    DocumentInParts { place: String },
    #[error("a piece of the text has {bytes} bytes, and the memory limit allows {most}")]
    LongPiece { bytes: usize, most: usize },
    #[error("the document has more than {most} tokens, which is what the memory limit allows")]
    ManyTokens { most: usize },
    #[error("a piece of the text has {bytes} bytes; encoding takes up to {most}")]
    PieceTooLong { bytes: usize, most: usize },
}
