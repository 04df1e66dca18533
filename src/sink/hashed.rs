//! A writer that counts and hashes its bytes.

use std::io::{self, Write};

use sha2::{Digest, Sha256};

use crate::base::digest::hex;
use crate::base::int::{to_u64, u64_to_usize};

/// Passes bytes on to another writer, and counts and hashes them.
pub(super) struct HashingWriter<W> {
    inner: W,
    hasher: Sha256,
    /// Number of bytes, including those that were there.
    bytes: u64,
    /// Number of bytes that are still to be dropped because they are already in the file and in the hash.
    there: u64,
}

impl<W> HashingWriter<W> {
    pub(super) fn new(inner: W) -> HashingWriter<W> {
        HashingWriter { inner, hasher: Sha256::new(), bytes: 0, there: 0 }
    }

    /// For a writer that starts over although the first `bytes` are already in `inner`, and in `hasher`: these are
    /// dropped when they are written again.
    pub(super) fn resumed(inner: W, hasher: Sha256, bytes: u64) -> HashingWriter<W> {
        HashingWriter { inner, hasher, bytes, there: bytes }
    }

    /// Number of bytes written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// SHA-256 of the bytes written, in hex.
    pub(super) fn sha256(&self) -> String {
        hex(self.hasher.clone().finalize().as_slice())
    }

    /// The underlying writer.
    pub(super) fn into_inner(self) -> W {
        self.inner
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.there > 0 {
            let known = bytes.len().min(u64_to_usize(self.there));
            self.there -= to_u64(known);
            return Ok(known);
        }
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += to_u64(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
