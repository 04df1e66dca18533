//! Hashes in hex, by which content is known again.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

/// The SHA-256 of some bytes, in hex.
pub(crate) fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}

/// The SHA-256 of all that can be read, in hex.
pub(crate) fn sha256_of(from: impl Read) -> io::Result<String> {
    hash_of(Sha256::new(), from)
}

/// A hash, in hex, that goes on over all that can be read.
pub(crate) fn hash_of(mut hash: impl Digest, mut from: impl Read) -> io::Result<String> {
    let mut block = vec![0; 1 << 16];
    loop {
        match from.read(&mut block) {
            Ok(0) => return Ok(hex(&hash.finalize())),
            Ok(read) => hash.update(&block[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
