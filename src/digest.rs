//! Hashes in hexadecimal, for recognising content.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

/// SHA-256 of some bytes, in hexadecimal.
pub(crate) fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}

/// SHA-256 of everything that can be read from `from`, in hexadecimal.
pub(crate) fn sha256_of(from: impl Read) -> io::Result<String> {
    hash_of(Sha256::new(), from)
}

/// Continues a hash over everything that can be read from `from`, and returns it in hexadecimal.
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

/// Bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
