//! Bytes that no token stands for, which many tokenizers have that were trained on UTF-8 alone.

use std::str::from_utf8;

use super::config::MissingBytes;
use super::fault::Fault;
use crate::error::{Error, ErrorKind, Result};
use crate::units::TokenId;
use crate::vocab::Vocabulary;

/// Bytes of text that are looked through at once.
const CHUNK: usize = 4 << 10;

/// More ranges of bytes than these take longer to look for than a table takes to look up.
const MOST_RANGES: usize = 8;

/// The bytes that a vocabulary lacks, and what becomes of text that has some.
#[derive(Debug)]
pub(super) struct Missing {
    is_missing: [bool; 256],
    /// The first byte of each range, and how many bytes follow it there.
    ranges: Vec<(u8, u8)>,
    /// `None` if such text is an error.
    substitute: Option<Substitute>,
    /// What the tokenizer's own program does, for messages.
    own: String,
}

/// What Hugging Face's tokenizers merges of a piece.
#[derive(Debug)]
struct Substitute {
    /// The tokens of bytes, and `unk_token` for those without one.
    byte_ids: [TokenId; 256],
    kept: Kept,
}

/// Which of the bytes without a token give `unk_token`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    None,
    /// The first of each run.
    First,
    All,
}

impl Missing {
    /// The missing bytes of a vocabulary; `None` if every byte has a token.
    ///
    /// # Errors
    /// The policy is to do as tokenizers, and that fails on such bytes or merges `unk_token` with others.
    pub(super) fn new(vocabulary: &Vocabulary, policy: MissingBytes) -> Result<Option<Missing>> {
        let bytes = vocabulary.missing_bytes();
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut is_missing = [false; 256];
        bytes.iter().for_each(|&byte| is_missing[usize::from(byte)] = true);
        let runs = bytes.chunk_by(|&one, &next| next == one + 1);
        let ranges = runs.map(|run| (run[0], run[run.len() - 1] - run[0])).collect();
        let own = match vocabulary.unknown() {
            Some(token) => format!("gives {}", token.text),
            None => "drops it".to_owned(),
        };
        let substitute = match policy {
            MissingBytes::Error => None,
            MissingBytes::Hf => Some(Substitute::new(vocabulary)?),
        };
        Ok(Some(Missing { is_missing, ranges, substitute, own }))
    }

    /// Where the first of them stands in a text.
    pub(super) fn first_in(&self, text: &[u8]) -> Option<usize> {
        let at = text.chunks(CHUNK).position(|chunk| self.any_in(chunk))? * CHUNK;
        text[at..].iter().position(|&byte| self.is_missing[usize::from(byte)]).map(|within| at + within)
    }

    fn any_in(&self, chunk: &[u8]) -> bool {
        if self.ranges.len() > MOST_RANGES {
            return chunk.iter().any(|&byte| self.is_missing[usize::from(byte)]);
        }
        // Without a branch for each byte, so that many are compared at once.
        let in_range = |&(first, more): &(u8, u8)| {
            chunk.iter().fold(false, |found, byte| found | (byte.wrapping_sub(first) <= more))
        };
        self.ranges.iter().any(in_range)
    }

    /// What is to be merged of a piece, and the token of each of its bytes; `None` if such a piece is an error.
    pub(super) fn substituted(&self, piece: &[u8]) -> Option<(Vec<u8>, &[TokenId; 256])> {
        let Substitute { byte_ids, kept } = self.substitute.as_ref()?;
        let is_missing = |byte: u8| self.is_missing[usize::from(byte)];
        let mut left = Vec::with_capacity(piece.len());
        let mut in_run = false;
        for &byte in piece {
            let missing = is_missing(byte);
            let keep = match kept {
                _ if !missing => true,
                Kept::None => false,
                Kept::First => !in_run,
                Kept::All => true,
            };
            if keep {
                left.push(byte);
            }
            in_run = missing;
        }
        Some((left, byte_ids))
    }

    /// The error of a text that has one of them at a place. `offset` says whether the text is a document as it is.
    pub(super) fn error(&self, text: &[u8], at: usize, offset: bool) -> Error {
        let place = offset.then_some(at);
        let fault = Fault::ByteWithoutToken { byte: text[at], character: character(text, at), place };
        Error::new(ErrorKind::Failed, fault).with_help(format!(
            "leave the document out, or do as Hugging Face's tokenizers, which here {}: `--missing-bytes hf` \
             (`missing_bytes` in recipes)",
            self.own
        ))
    }
}

impl Substitute {
    fn new(vocabulary: &Vocabulary) -> Result<Substitute> {
        let mut byte_ids = *vocabulary.byte_ids();
        let Some(unknown) = vocabulary.unknown() else {
            return Ok(Substitute { byte_ids, kept: Kept::None });
        };
        let text = || unknown.text.clone();
        let cannot = |fault| Error::new(ErrorKind::Usage, fault).with_help("leave `--missing-bytes hf` out");
        let id = unknown.id.ok_or_else(|| cannot(Fault::UnknownLacking { text: text() }))?;
        if vocabulary.merges().iter().any(|merge| merge.left == id || merge.right == id) {
            return Err(cannot(Fault::UnknownMerged { text: text() }));
        }
        vocabulary.missing_bytes().iter().for_each(|&byte| byte_ids[usize::from(byte)] = id);
        Ok(Substitute { byte_ids, kept: if unknown.fuse { Kept::First } else { Kept::All } })
    }
}

/// The character of several bytes that the byte at a place belongs to, or that it is.
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
