//! Recognises files: hashes of their content in hexadecimal, a checksum at their end, and the version of their format.

use std::io::{self, Read, Write};
use std::path::Path;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::int::{to_u64, u64_to_usize};
use crate::error::{Error, Result};

/// SHA-256 of some bytes, in hexadecimal.
pub(crate) fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}

/// SHA-256 of everything that can be read from `from`, in hexadecimal.
pub(crate) fn sha256_of(from: impl Read) -> io::Result<String> {
    hash_of(Sha256::new(), from)
}

/// Continues a hash over everything that can be read from `from`, and returns it in hexadecimal.
pub(crate) fn hash_of(mut hash: impl Digest, from: impl Read) -> io::Result<String> {
    update_from(&mut hash, from)?;
    Ok(hex(&hash.finalize()))
}

/// Continues a hash over everything that can be read from `from`. Returns the number of bytes.
pub(crate) fn update_from(hash: &mut impl Digest, mut from: impl Read) -> io::Result<u64> {
    let (mut block, mut bytes) = (vec![0; 1 << 16], 0);
    loop {
        match from.read(&mut block) {
            Ok(0) => return Ok(bytes),
            Ok(read) => {
                hash.update(&block[..read]);
                bytes += to_u64(read);
            }
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

/// The end of a text that carries the SHA-256 of all that is before it.
#[derive(Debug)]
pub(crate) struct Checksum {
    /// The text between the content and the hexadecimal digits.
    before: &'static str,
    /// The text behind the digits, which ends the file.
    after: &'static str,
}

/// The last key of a JSON object that has a line for each key.
pub(crate) const JSON_CHECKSUM: Checksum = Checksum { before: ",\n  \"sha256\": \"", after: "\"\n}\n" };

/// A comment at the end of a page.
pub(crate) const HTML_CHECKSUM: Checksum = Checksum { before: "\n<!-- sha256: ", after: " -->\n" };

impl Checksum {
    /// Ends a text with the checksum of all that is before it. The closing line of a JSON object may be there
    /// already; it is moved behind the checksum.
    pub(crate) fn end(&self, text: &str) -> String {
        let text = text.strip_suffix(self.after.trim_start_matches('"')).unwrap_or(text);
        format!("{text}{}{}{}", self.before, sha256(text), self.after)
    }

    /// Whether a text is as it was when it was ended; `None` if it has no checksum at its end.
    pub(crate) fn holds(&self, text: &[u8]) -> Option<bool> {
        /// A SHA-256 in hex.
        const DIGITS: usize = 64;
        let text = text.strip_suffix(self.after.as_bytes())?;
        let (text, recorded) = text.split_at_checked(text.len().checked_sub(DIGITS)?)?;
        let text = text.strip_suffix(self.before.as_bytes())?;
        Some(sha256(text).as_bytes() == recorded)
    }
}

/// Passes bytes on to another writer, and counts and hashes them.
pub(crate) struct HashingWriter<W> {
    /// Receives the bytes that are not dropped.
    inner: W,
    /// Has taken the bytes that are in `inner`.
    hasher: Sha256,
    /// Number of bytes, including those that were in `inner` at the start.
    bytes: u64,
    /// Number of bytes that are still to be dropped because they are already in `inner` and in the hash.
    skip: u64,
}

impl<W> HashingWriter<W> {
    /// For a writer that has no bytes yet.
    pub(crate) fn new(inner: W) -> HashingWriter<W> {
        HashingWriter { inner, hasher: Sha256::new(), bytes: 0, skip: 0 }
    }

    /// For a writer that starts over although the first `bytes` are already in `inner`, and in `hasher`: these are
    /// dropped when they are written again.
    pub(crate) fn resumed(inner: W, hasher: Sha256, bytes: u64) -> HashingWriter<W> {
        HashingWriter { inner, hasher, bytes, skip: bytes }
    }

    /// Number of bytes in the underlying writer.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// SHA-256 of these bytes, in hexadecimal.
    pub(crate) fn sha256(&self) -> String {
        hex(&self.hasher.clone().finalize())
    }

    /// The underlying writer.
    pub(crate) fn into_inner(self) -> W {
        self.inner
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.skip > 0 {
            let skipped = bytes.len().min(u64_to_usize(self.skip));
            self.skip -= to_u64(skipped);
            return Ok(skipped);
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

/// Version of manifests, training records, reports, and of the metadata in files of token ids and counts. Readers
/// refuse later versions.
pub const FORMAT_VERSION: u32 = 1;

/// Refuses files of later versions. Only the version is read from the JSON, since a later version may differ in
/// everything else.
///
/// # Errors
/// The file has a later version, or the version cannot be read; the latter is the error that `damaged` makes.
pub(crate) fn check_format_version(
    path: &Path,
    json: &[u8],
    damaged: impl FnOnce(serde_json::Error) -> Error,
) -> Result<()> {
    #[derive(Deserialize)]
    struct Versioned {
        /// Stored in every version of the format.
        format_version: u32,
    }
    let Versioned { format_version: found } = serde_json::from_slice(json).map_err(damaged)?;
    if found <= FORMAT_VERSION {
        return Ok(());
    }
    let path = path.display();
    Err(Error::failed(format!(
        "{path}: format version {found}; this program knows versions up to {FORMAT_VERSION}"
    ))
    .with_help("use the version of tokenmill that wrote it, or a later one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_notices_every_bit() {
        let object = "{\n  \"a\": 1\n}\n";
        for (checksum, text) in [(&JSON_CHECKSUM, object), (&HTML_CHECKSUM, "<p>a\n"), (&HTML_CHECKSUM, "")] {
            let ended = checksum.end(text);
            assert_eq!(checksum.holds(text.as_bytes()), None, "{text}");
            assert_eq!(checksum.holds(ended.as_bytes()), Some(true), "{ended}");
            for bit in 0..8 * ended.len() {
                let mut changed = ended.clone().into_bytes();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(checksum.holds(&changed), Some(true), "bit {bit} of {ended}");
            }
        }
        let parsed: serde_json::Value = serde_json::from_str(&JSON_CHECKSUM.end(object)).expect("JSON");
        assert_eq!(parsed["a"], 1);
    }
}
