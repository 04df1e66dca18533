use std::fmt::Write as _;
use std::io::{self, Write};

use sha2::{Digest, Sha256};

use crate::units::amount;

/// Passes bytes on, counts them and hashes them.
pub(super) struct Hashed<W> {
    inner: W,
    hasher: Sha256,
    bytes: u64,
}

impl<W> Hashed<W> {
    pub(super) fn new(inner: W) -> Hashed<W> {
        Hashed { inner, hasher: Sha256::new(), bytes: 0 }
    }

    /// What was written to, how many bytes it got, and their SHA-256 in hex.
    pub(super) fn finish(self) -> (W, u64, String) {
        let mut hex = String::with_capacity(64);
        for byte in self.hasher.finalize() {
            write!(hex, "{byte:02x}").expect("writing to memory does not fail");
        }
        (self.inner, self.bytes, hex)
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += amount(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
