//! What every stage may use: integers, hashes, thread pools, memory, and files that are written completely or not at
//! all. Nothing here imports a stage.

pub mod atomic_file;
pub(crate) mod folder_lock;
pub(crate) mod hash;
pub(crate) mod huge_pages;
pub mod int;
pub(crate) mod integrity;
pub(crate) mod pools;
pub(crate) mod process;
pub(crate) mod random;
pub(crate) mod secrets;
#[cfg(test)]
pub(crate) mod test_support;
