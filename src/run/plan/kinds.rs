use serde::Serialize;

/// Which documents are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SampleConfig {
    /// Every so manieth document.
    pub every: u64,
    /// Documents held while shuffling; 0 keeps the order.
    pub shuffle_buffer: u64,
    /// What the shuffle follows from.
    pub seed: u64,
    /// Documents left out at the start.
    pub skip: u64,
    /// Documents taken at most.
    pub take: Option<u64>,
    /// Bytes of text taken at most.
    pub max_bytes: Option<u64>,
}
