//! Turns text into token ids.
//!
//! One shared [`Encoder`]; one cheap [`Worker`] a thread; and both in one behind [`Tokenizer`]. Knows nothing of
//! counting and training: a tokenizer from elsewhere encodes as well as ours.
//!
//! First, where the vocabulary says so, added tokens are found in a text and what stands between them is normalized;
//! then it is split into pieces. What a piece met before was encoded to is looked up; new ones wait for each other
//! where they are rare, and are encoded together.
//!
//! Text with a byte that has no token in the vocabulary is an error, or what Hugging Face's tokenizers makes of it.
//!
//! To encode a piece means: while any adjacent pair of tokens is in the merge list, merge the pair of
//! lowest rank, the leftmost among equals. [`mod@reference`] says just that; everything else here gives
//! the same ids sooner, for every text and every merge list.

mod ids;
mod batch;
mod config;
mod fault;
mod pairs;
mod merge;
mod long;
mod cache;
mod normal;
mod missing;
mod prepare;
mod longest_match;
mod method;
mod by_bytes;
mod shortcut;
mod encoder;
mod draft;
mod worker;
mod stretches;
mod batches;
mod tokenizer;
mod stream;
#[doc(hidden)]
pub mod reference;

#[cfg(test)]
mod tests;

pub use batch::TokenBatch;
pub use batches::{EncodeFacts, encode_batches};
pub use config::{EncodeConfig, MissingBytes, SpecialPolicy};
pub use encoder::Encoder;
pub use ids::TokenIds;
pub use method::Method;
pub(crate) use prepare::{Part, Preparation};
pub use stream::DecodeStream;
pub use tokenizer::Tokenizer;
pub use worker::Worker;
