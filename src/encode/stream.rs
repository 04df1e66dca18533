use std::fmt;
use std::str::from_utf8;
use std::sync::Arc;

use crate::base::int::TokenId;
use crate::error::Result;
use crate::vocab::Vocabulary;

/// Decodes token ids one by one, as a model emits them, to text that never ends within a character.
///
/// The returned texts, concatenated, are the whole decoded text, with U+FFFD for bytes that are not UTF-8,
/// exactly as [`String::from_utf8_lossy`] gives it.
///
/// ```
/// use tokenmill::Tokenizer;
/// use tokenmill::encode::EncodeConfig;
/// # use tokenmill::{split::SplitPattern, train::Merges, vocab::{SpecialTokensAt, Vocabulary}};
///
/// # fn main() -> tokenmill::Result<()> {
/// # let vocabulary = Vocabulary::from_merges(&Merges::default(), &[], SpecialTokensAt::End, SplitPattern::None)?;
/// // A vocabulary of the 256 bytes alone.
/// let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
/// let mut stream = tokenizer.decode_stream();
/// assert_eq!(stream.push(0xC3)?, "");
/// assert_eq!(stream.push(0xA9)?, "é");
/// assert_eq!(stream.push(0xC3)?, "");
/// assert_eq!(stream.finish(), "\u{FFFD}");
/// # Ok(())
/// # }
/// ```
///
/// **Memory:** the text of the last id, and up to three bytes of an incomplete character.
pub struct DecodeStream {
    vocabulary: Arc<Vocabulary>,
    /// Bytes that are not decoded yet. Between calls: at most the beginning of one character.
    open: Vec<u8>,
    text: String,
}

impl fmt::Debug for DecodeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeStream").field("open", &self.open).finish_non_exhaustive()
    }
}

impl DecodeStream {
    /// A stream at the start of a text.
    pub(super) fn new(vocabulary: Arc<Vocabulary>) -> DecodeStream {
        DecodeStream { vocabulary, open: Vec::new(), text: String::new() }
    }

    /// Decodes the next id and returns the text that is complete with it, which may be empty. A special token
    /// gives its text. The result is valid until the next call.
    ///
    /// # Errors
    /// The id is not in the vocabulary; the stream is then unchanged.
    pub fn push(&mut self, id: u32) -> Result<&str> {
        self.vocabulary.decode(&[TokenId::new(id)], &mut self.open)?;
        self.text.clear();
        let mut rest = self.open.as_slice();
        while let Err(error) = from_utf8(rest) {
            let (valid, behind) = rest.split_at(error.valid_up_to());
            self.text.extend(from_utf8(valid));
            rest = behind;
            let Some(invalid) = error.error_len() else { break };
            self.text.push(char::REPLACEMENT_CHARACTER);
            rest = &rest[invalid..];
        }
        if let Ok(valid) = from_utf8(rest) {
            self.text.push_str(valid);
            rest = &[];
        }
        let done = self.open.len() - rest.len();
        self.open.drain(..done);
        Ok(&self.text)
    }

    /// Ends the text: an incomplete character becomes U+FFFD. The next id begins another text.
    pub fn finish(&mut self) -> &str {
        self.text.clear();
        if !self.open.is_empty() {
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        self.open.clear();
        &self.text
    }
}
