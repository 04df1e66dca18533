//! Turns text into token ids.
//!
//! One shared, read-only [`Encoder`]; one cheap [`Worker`] a thread. Knows nothing of counting and
//! training: a tokenizer from elsewhere encodes as well as ours.

mod batch;

pub use batch::TokenBatch;
