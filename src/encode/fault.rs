use crate::base::int::TokenId;

#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("the vocabulary has no token {id} to use as {role}")]
    NoSuchToken { role: &'static str, id: TokenId },
    #[error("the vocabulary has ids up to {limit}; encoding supports ids below {most}")]
    TooManyIds { limit: usize, most: usize },
    #[error("the text contains the special token {text:?} at byte {offset}")]
    SpecialInText { text: String, offset: usize },
    #[error("the normalized text contains the special token {text:?}")]
    SpecialInNormal { text: String },
    #[error(
        "the vocabulary has no token for byte 0x{byte:02X}, which the text contains{}{}",
        place.map_or(String::new(), |place| format!(" at byte {place}")),
        character.map_or(String::new(), |character| format!(" in U+{:04X}", u32::from(character)))
    )]
    ByteWithoutToken { byte: u8, character: Option<char>, place: Option<usize> },
    #[error(
        "the vocabulary lacks its unk_token {text:?}, so Hugging Face's tokenizers fails on bytes without a token"
    )]
    UnknownLacking { text: String },
    #[error(
        "some merges use the unk_token {text:?}; replacing bytes without a token by it is not supported then"
    )]
    UnknownMerged { text: String },
    #[error("normalizing a text of {bytes} bytes gives more than {most} bytes")]
    NormalGrows { bytes: usize, most: usize },
    #[error("{place}: the batch holds only a part of the document")]
    DocumentInParts { place: String },
    #[error("a pre-token has {bytes} bytes; the memory limit allows {most}")]
    LongPretoken { bytes: usize, most: usize },
    #[error("the document has more than {most} tokens, the most that the memory limit allows")]
    ManyTokens { most: usize },
    #[error("a pre-token has {bytes} bytes; the limit is {most}")]
    PretokenTooLong { bytes: usize, most: usize },
}
