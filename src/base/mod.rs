//! What every stage may use: integers, hashes, thread pools, memory, and files that are written completely or not
//! at all. Nothing here imports a stage.

pub mod atomic_file;
mod claim;
pub(crate) mod digest;
pub(crate) mod hash_index;
pub(crate) mod huge_pages;
pub mod int;
/// Turns panics of decoders into errors.
pub mod panics;
pub(crate) mod pools;
pub(crate) mod random;
pub(crate) mod secrets;
pub(crate) mod seeded_hash;
#[cfg(test)]
pub(crate) mod test_support;
pub(crate) mod version;
