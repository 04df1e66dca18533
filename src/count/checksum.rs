use sha2::{Digest, Sha256};

use crate::digest::hex;
use crate::units::{Count, amount};

/// The metadata of a counts file that tell its checksum.
pub(super) const KEY: &str = "tokenmill.counts.sha256";

/// So many bytes are hashed at once.
const AT_ONCE: usize = 16 << 10;

/// The SHA-256 of what a counts file says of itself, as it stands there, and of its rows: of each in turn how many bytes
/// its piece has, these, and its count; numbers of eight bytes, the lowest first.
#[derive(Debug)]
pub(super) struct Checksum {
    hash: Sha256,
    rows: Vec<u8>,
}

impl Checksum {
    pub(super) fn new(info: &str) -> Checksum {
        Checksum { hash: Sha256::new_with_prefix(info), rows: Vec::new() }
    }

    pub(super) fn add(&mut self, piece: &[u8], count: Count) {
        self.rows.extend_from_slice(&amount(piece.len()).to_le_bytes());
        self.rows.extend_from_slice(piece);
        self.rows.extend_from_slice(&count.get().to_le_bytes());
        if self.rows.len() >= AT_ONCE {
            self.hash.update(&self.rows);
            self.rows.clear();
        }
    }

    /// In hexadecimal, of the rows so far.
    pub(super) fn get(&self) -> String {
        hex(&self.hash.clone().chain_update(&self.rows).finalize())
    }
}
