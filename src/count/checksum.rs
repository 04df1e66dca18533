//! The checksum in the metadata of counts files.

use sha2::{Digest, Sha256};

use crate::base::digest::hex;
use crate::base::int::{Count, to_u64};

/// The metadata key of the checksum in a counts file.
pub(super) const KEY: &str = "tokenmill.counts.sha256";

/// Bytes that are buffered for one call of the hash function.
const AT_ONCE: usize = 16 << 10;

/// The checksum of a counts file: the SHA-256 of its [`CountsInfo`](super::CountsInfo), as the JSON in the file, and
/// of its rows.
///
/// Each row gives the length of the pre-token, its bytes, and its count. Both numbers have eight bytes,
/// little-endian.
#[derive(Debug)]
pub(super) struct Checksum {
    hash: Sha256,
    rows: Vec<u8>,
}

impl Checksum {
    /// Starts a checksum with the JSON of the [`CountsInfo`](super::CountsInfo).
    pub(super) fn new(info: &str) -> Checksum {
        Checksum { hash: Sha256::new_with_prefix(info), rows: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn add(&mut self, pretoken: &[u8], count: Count) {
        self.rows.extend_from_slice(&to_u64(pretoken.len()).to_le_bytes());
        self.rows.extend_from_slice(pretoken);
        self.rows.extend_from_slice(&count.get().to_le_bytes());
        if self.rows.len() >= AT_ONCE {
            self.hash.update(&self.rows);
            self.rows.clear();
        }
    }

    /// Returns the checksum of the rows so far, in hexadecimal.
    pub(super) fn get(&self) -> String {
        hex(&self.hash.clone().chain_update(&self.rows).finalize())
    }
}
