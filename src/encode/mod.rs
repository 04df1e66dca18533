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
//! Everything else here produces the same ids faster, for every text and every merge list. The exception is
//! [`Dropout`], which leaves merges out at random; it has a definition of its own.

mod backtrack;
mod pending;
mod missing_bytes;
mod preprocess;
mod ids;
#[cfg(feature = "data")]
mod batch;
mod merge;
mod dropout;
mod cache;
mod encoder;
mod worker;
mod tokenizer;
mod texts;
#[doc(hidden)]
pub mod reference;

#[cfg(test)]
mod tests;

#[cfg(feature = "data")]
pub use batch::{EncodeFacts, TokenBatch, encode_batches};
pub use dropout::{Dropout, Probability};
pub use encoder::{EncodeConfig, Encoder, Method};
pub use ids::TokenIds;
pub use missing_bytes::MissingBytes;
pub use preprocess::SpecialPolicy;
pub(crate) use preprocess::{Preprocessor, TextOrToken};
pub use texts::FlatIds;
pub use tokenizer::{DecodeStream, Tokenizer};
pub use worker::Worker;
