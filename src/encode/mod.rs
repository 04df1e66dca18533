//! Encoding: text to token ids, and ids back to text.
//!
//! All threads share one [`Encoder`]; each thread has its own cheap [`Worker`]. [`Tokenizer`] wraps both behind
//! one type. This stage does not depend on counting or training, so it encodes with tokenizers from other
//! programs as well as with tokenmill's own.
//!
//! A document passes through these steps:
//!
//! 1. If the vocabulary asks for it, added tokens are found, and the text between them is normalized.
//! 2. The text is split into pre-tokens.
//! 3. Each pre-token is looked up in a cache. On a miss it is encoded at once or, where misses are rare,
//!    collected and encoded in a batch with others.
//!
//! A byte that has no token in the vocabulary is an error, or becomes what Hugging Face's tokenizers would
//! produce, depending on [`MissingBytes`].
//!
//! **Definition.** To encode a pre-token: while any adjacent pair of tokens is in the merge list, merge the pair
//! of lowest rank, and the leftmost one if several have that rank. [`mod@reference`] implements exactly this.
//! Everything else here produces the same ids faster, for every text and every merge list.

mod backtrack;
mod pending;
mod missing_bytes;
mod preprocess;
mod ids;
#[cfg(feature = "data")]
mod batch;
mod merge;
mod cache;
mod encoder;
mod worker;
mod tokenizer;
#[doc(hidden)]
pub mod reference;

#[cfg(test)]
mod tests;

#[cfg(feature = "data")]
pub use batch::{EncodeFacts, TokenBatch, encode_batches};
pub use encoder::Method;
pub use encoder::{EncodeConfig, Encoder};
pub use ids::TokenIds;
pub use missing_bytes::MissingBytes;
pub use preprocess::SpecialPolicy;
pub(crate) use preprocess::{Preprocessor, TextOrToken};
pub use tokenizer::DecodeStream;
pub use tokenizer::Tokenizer;
pub use worker::Worker;

use crate::base::int::TokenId;

/// What can be wrong with a configuration, a vocabulary or a text.
#[derive(Debug, thiserror::Error)]
enum EncodeError {
    #[error("the vocabulary has no token {id} to use as {role}")]
    NoSuchToken { role: &'static str, id: TokenId },
    #[error("the vocabulary has ids up to {limit}; encoding supports ids below {max}")]
    TooManyIds { limit: usize, max: usize },
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
    #[error("normalizing a text of {bytes} bytes gives more than {max} bytes")]
    NormalGrows { bytes: usize, max: usize },
    #[error("{place}: the batch holds only a part of the document")]
    DocumentInParts { place: String },
    #[error("a pre-token has {bytes} bytes; the memory limit allows {max}")]
    LongPretoken { bytes: usize, max: usize },
    #[error("the document has more than {max} tokens, the most that the memory limit allows")]
    ManyTokens { max: usize },
    #[error("a pre-token has {bytes} bytes; the limit is {max}")]
    PretokenTooLong { bytes: usize, max: usize },
}
