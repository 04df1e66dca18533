use std::io::{self, Write};

use sha2::{Digest, Sha256};

use crate::digest::hex;
use crate::units::{amount, place64};

/// Passes bytes on, counts them and hashes them.
pub(super) struct Hashed<W> {
    inner: W,
    hasher: Sha256,
    bytes: u64,
    /// How many of the bytes that are about to be written are there and hashed already.
    there: u64,
}

impl<W> Hashed<W> {
    pub(super) fn new(inner: W) -> Hashed<W> {
        Hashed { inner, hasher: Sha256::new(), bytes: 0, there: 0 }
    }

    /// For a writer that begins again although the first `bytes` are in `inner` already, and have been
    /// hashed: they are not passed on when they come.
    pub(super) fn resumed(inner: W, hasher: Sha256, bytes: u64) -> Hashed<W> {
        Hashed { inner, hasher, bytes, there: bytes }
    }

    /// How many bytes were written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Their SHA-256, in hex.
    pub(super) fn sha256(&self) -> String {
        hex(self.hasher.clone().finalize().as_slice())
    }

    /// What was written to.
    pub(super) fn into_inner(self) -> W {
        self.inner
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.there > 0 {
            let known = bytes.len().min(place64(self.there));
            self.there -= amount(known);
            return Ok(known);
        }
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += amount(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
