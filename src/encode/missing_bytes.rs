//! Bytes without a token. Many tokenizers that were trained on UTF-8 alone lack tokens for some bytes.

use std::str::from_utf8;

use serde::{Deserialize, Serialize};

use crate::base::int::TokenId;
use crate::error::{Error, Result};
use crate::vocab::Vocabulary;

/// Bytes of text that are searched at once. 4 KiB stay in the L1 cache, since the text is passed over once per
/// range.
const CHUNK: usize = 4 << 10;

/// Maximum number of byte ranges that are searched one by one. With more, looking up each byte in a table is faster.
const MAX_RANGES: usize = 8;

/// What to do with text that contains a byte without a token: see
/// [`missing_bytes`](crate::vocab::Vocabulary::missing_bytes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MissingBytes {
    /// Return an error that names the byte and its position.
    #[default]
    Error,
    /// Do as Hugging Face's tokenizers: replace the byte by the tokenizer's `unk_token`, or drop it if the
    /// tokenizer has none. Bytes of a pre-token before and after dropped bytes are merged as if they were
    /// adjacent.
    Hf,
}

impl MissingBytes {
    /// The choice's name in flags, recipes and files.
    pub fn name(self) -> &'static str {
        match self {
            MissingBytes::Error => "error",
            MissingBytes::Hf => "hf",
        }
    }

    /// Whether this is the default, which files omit.
    pub(crate) fn is_default(&self) -> bool {
        *self == MissingBytes::default()
    }
}

/// The bytes that a vocabulary lacks, and how to treat text that contains them.
#[derive(Debug)]
pub(super) struct MissingByteTable {
    /// For each byte value, whether the vocabulary has no token for it.
    is_missing: [bool; 256],
    /// Each range of missing bytes: its first byte, and how many bytes follow it.
    ranges: Vec<(u8, u8)>,
    /// `None` if text with missing bytes is an error.
    substitute: Option<Substitute>,
    /// What the program from which the tokenizer comes does with them, for messages.
    /// Completes a help message: "replaces the byte by …" or "drops the byte".
    own: String,
}

/// What Hugging Face's tokenizers merges for a pre-token with missing bytes.
#[derive(Debug)]
struct Substitute {
    /// The token of each byte: `unk_token` for bytes without one.
    byte_ids: [TokenId; 256],
    /// Missing bytes of each run of consecutive ones that stay in the pre-token and become `unk_token`: all of them, 1
    /// if the token fuses, 0 if there is none. The others are removed before merging.
    max_per_run: usize,
}

impl MissingByteTable {
    /// Collects the missing bytes of a vocabulary; `None` if every byte has a token.
    ///
    /// # Errors
    /// The policy is [`MissingBytes::Hf`], and the tokenizers library fails on such bytes or would merge
    /// `unk_token` with other tokens.
    pub(super) fn new(vocabulary: &Vocabulary, policy: MissingBytes) -> Result<Option<MissingByteTable>> {
        let bytes = vocabulary.missing_bytes();
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut is_missing = [false; 256];
        bytes.iter().for_each(|&byte| is_missing[usize::from(byte)] = true);
        let runs = bytes.chunk_by(|&one, &next| next == one + 1);
        let ranges = runs.map(|run| (run[0], run[run.len() - 1] - run[0])).collect();
        let own = match vocabulary.unknown() {
            Some(token) => format!("replaces the byte by {}", token.text),
            None => "drops the byte".to_owned(),
        };
        let substitute = match policy {
            MissingBytes::Error => None,
            MissingBytes::Hf => Some(Substitute::new(vocabulary)?),
        };
        Ok(Some(MissingByteTable { is_missing, ranges, substitute, own }))
    }

    /// Position of the first missing byte in a text.
    ///
    /// `None` if every byte of the text has a token. Reads the text up to the chunk with that byte: once per range of
    /// missing bytes, or once in all if there are more than [`MAX_RANGES`].
    pub(super) fn first_in(&self, text: &[u8]) -> Option<usize> {
        let at = text.chunks(CHUNK).position(|chunk| self.any_in(chunk))? * CHUNK;
        text[at..].iter().position(|&byte| self.is_missing[usize::from(byte)]).map(|within| at + within)
    }

    /// Whether a chunk has a missing byte.
    fn any_in(&self, chunk: &[u8]) -> bool {
        if self.ranges.len() > MAX_RANGES {
            return chunk.iter().any(|&byte| self.is_missing[usize::from(byte)]);
        }
        // No branch per byte, so that the compiler compares many bytes at once.
        let in_range = |&(first, more): &(u8, u8)| {
            chunk.iter().fold(false, |found, byte| found | (byte.wrapping_sub(first) <= more))
        };
        self.ranges.iter().any(in_range)
    }

    /// The bytes of a pre-token that are to be merged, and the token of each byte value; `None` if missing bytes
    /// are an error.
    ///
    /// Bytes that are dropped are not among those returned, so their neighbours can merge with each other. Copies the
    /// pre-token.
    pub(super) fn substituted(&self, pretoken: &[u8]) -> Option<(Vec<u8>, &[TokenId; 256])> {
        let Substitute { byte_ids, max_per_run } = self.substitute.as_ref()?;
        let mut left = Vec::with_capacity(pretoken.len());
        let mut run = 0;
        for &byte in pretoken {
            run = if self.is_missing[usize::from(byte)] { run + 1 } else { 0 };
            if run <= *max_per_run {
                left.push(byte);
            }
        }
        Some((left, byte_ids))
    }

    /// The error for a text with a missing byte at `at`. `offset` says whether `text` is the document as given,
    /// so that the position can be reported.
    pub(super) fn error(&self, text: &[u8], at: usize, offset: bool) -> Error {
        let place = if offset { format!(" at byte {at}") } else { String::new() };
        let character = character(text, at);
        let character = character.map_or(String::new(), |one| format!(" in U+{:04X}", u32::from(one)));
        Error::failed(format!(
            "the vocabulary has no token for byte 0x{:02X}, which the text contains{place}{character}",
            text[at]
        ))
        .with_help(format!(
            "leave the document out, or use `--missing-bytes hf` (`missing_bytes` in recipes), which {} as Hugging Face's \
             tokenizers does",
            self.own
        ))
    }
}

impl Substitute {
    /// The tokens that replace missing bytes, as Hugging Face's tokenizers does it.
    ///
    /// # Errors
    /// The vocabulary has no id for its `unk_token`, or merges use that token.
    fn new(vocabulary: &Vocabulary) -> Result<Substitute> {
        let mut byte_ids = *vocabulary.byte_ids();
        let Some(unknown) = vocabulary.unknown() else {
            return Ok(Substitute { byte_ids, max_per_run: 0 });
        };
        let text = &unknown.text;
        let cannot = |problem: String| Error::usage(problem).with_help("leave `--missing-bytes hf` out");
        let id = unknown.id.ok_or_else(|| {
            cannot(format!(
                "the vocabulary lacks its unk_token {text:?}, so Hugging Face's tokenizers fails on bytes without a token"
            ))
        })?;
        if vocabulary.merges().iter().any(|merge| merge.left == id || merge.right == id) {
            return Err(cannot(format!(
                "some merges use the unk_token {text:?}; replacing bytes without a token by it is not supported then"
            )));
        }
        vocabulary.missing_bytes().iter().for_each(|&byte| byte_ids[usize::from(byte)] = id);
        Ok(Substitute { byte_ids, max_per_run: if unknown.fuse { 1 } else { usize::MAX } })
    }
}

/// The character that the byte at `at` belongs to, if the bytes around it are one in valid UTF-8.
fn character(text: &[u8], at: usize) -> Option<char> {
    let starts = (at.saturating_sub(3)..=at).rev();
    let ends = |start: usize| (at + 1..=text.len().min(start + 4)).map(move |end| start..end);
    starts.flat_map(ends).find_map(|range| {
        let mut characters = from_utf8(&text[range]).ok()?.chars();
        characters.next().filter(|_| characters.next().is_none())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The character is found from each of its bytes, and not in invalid UTF-8.
    #[test]
    fn the_character_of_a_byte_is_found() {
        let text = "aé\u{E0067}b".as_bytes();
        let found: Vec<Option<char>> = (0..text.len()).map(|at| character(text, at)).collect();
        let [a, e, tag, b] = ['a', 'é', '\u{E0067}', 'b'].map(Some);
        assert_eq!(found, [a, e, e, tag, tag, tag, tag, b]);
        assert_eq!(character(b"a\xC0b", 1), None);
        assert_eq!(character(b"\xF3\xA0", 0), None);
    }
}
