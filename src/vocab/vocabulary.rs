//! The vocabulary type, which all formats are read into and written from.

use std::borrow::Cow;

use serde::Serialize;

use super::added::{AddedToken, Around, TextRules};
use super::fault::Fault;
use crate::base::int::TokenId;
use crate::error::{Error, ErrorKind, Result};
use crate::split::SplitPattern;

/// A merge of two tokens into one, with its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RankedMerge {
    /// The left token.
    pub left: TokenId,
    /// The right token.
    pub right: TokenId,
    /// The token that replaces the pair.
    pub result: TokenId,
    /// The merge's priority: lower ranks merge first, and among equal ranks the leftmost pair. Merges may share a
    /// rank.
    pub rank: u32,
}

/// A byte-level BPE vocabulary: what encoding and decoding need, whichever program learned it.
///
/// Invariants, checked on construction:
///
/// - No byte has two tokens. Ids are unique; unused ids (holes) are legal.
/// - Both parts and the result of every merge are tokens, and the result's bytes are those of the parts joined. No
///   part is a token without bytes.
/// - Merges are in ascending order of rank, and ranks are 0, 1, 2 and so on without gaps. No pair occurs twice.
/// - The texts of added tokens are not empty and differ from each other, and those of special tokens from every other
///   token. An added token takes part in merges only if its text is its spelling in GPT-2's byte alphabet.
///
/// A byte may lack a token. Tokenizers that were trained on UTF-8 alone often have none for 0xC0, 0xC1 and 0xF5–0xFF,
/// which never occur in UTF-8. [`MissingBytes`](crate::encode::MissingBytes) decides how text with such a byte is
/// encoded. A token may have no bytes, as one of Whisper's does: no text is encoded into it, and it decodes to
/// nothing.
///
/// **Memory:** about 40 bytes per token, plus the token's own bytes.
///
/// ```
/// use tokenmill::TokenId;
/// # use tokenmill::{observer::Silent, run::{LearnConfig, learn}, source};
///
/// # let texts = source::texts(["how much wood would a woodchuck chuck"]);
/// # let (vocabulary, _) = learn(texts, &LearnConfig::new(300, &["<|endoftext|>"]), &Silent)?;
/// let chuck = vocabulary.id_of(b"chuck").expect("a learned token");
/// let end = vocabulary.id_of(b"<|endoftext|>").expect("a special token");
/// assert!(vocabulary.special(end).is_some() && vocabulary.special(chuck).is_none());
///
/// let mut text = Vec::new();
/// vocabulary.decode(&[chuck, end], &mut text)?;
/// assert_eq!(text, b"chuck<|endoftext|>");
/// assert!(vocabulary.decode(&[TokenId::new(1_000_000)], &mut text).is_err());
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// Bytes by id; `None` is a hole. A token that is only an added one has the bytes of its text.
    pub(super) tokens: Vec<Option<Box<[u8]>>>,
    /// The token of each byte. Each byte without a token has an id of its own, from
    /// [`id_limit`](Vocabulary::id_limit) on.
    pub(super) byte_ids: [TokenId; 256],
    /// The bytes without a token, ascending.
    pub(super) missing_bytes: Vec<u8>,
    /// The token that the tokenizer's own program gives for missing bytes; `None` if no byte is missing.
    pub(super) unknown: Option<UnknownToken>,
    /// By ascending rank.
    pub(super) merges: Vec<RankedMerge>,
    /// By ascending id.
    pub(super) added: Vec<AddedToken>,
    /// The ids of the added tokens that take no part in merging, ascending.
    pub(super) apart: Vec<TokenId>,
    /// The pattern that splits text into pre-tokens.
    pub(super) split: SplitPattern,
    /// The changes that a text undergoes before it is split.
    pub(super) rules: TextRules,
    /// The tokens that the tokenizer's own program puts around a text.
    pub(super) around: Around,
    /// Whether pre-tokens are looked up as whole tokens before merging.
    pub(super) ignore_merges: bool,
}

/// Formats bytes as ranges of hexadecimal numbers. `bytes` must be ascending.
///
/// ```
/// assert_eq!(tokenmill::vocab::byte_ranges(&[0xC0, 0xC1, 0xFF]), "0xC0–0xC1, 0xFF");
/// ```
pub fn byte_ranges(bytes: &[u8]) -> String {
    let ranges = bytes.chunk_by(|&one, &next| one.checked_add(1) == Some(next)).map(|run| match *run {
        [first, .., last] => format!("0x{first:02X}–0x{last:02X}"),
        _ => format!("0x{:02X}", run[0]),
    });
    ranges.collect::<Vec<_>>().join(", ")
}

/// The token that the tokenizer's own program gives for a byte without a token (`unk_token`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct UnknownToken {
    /// The token's text in the file.
    pub text: String,
    /// Its id. `None` if the vocabulary lacks it; the tokenizer's own program then fails on such a byte.
    pub id: Option<TokenId>,
    /// Whether several such bytes in a row, within one pre-token, give the token once (`fuse_unk`).
    pub fuse: bool,
}

impl Vocabulary {
    /// Returns the highest id in use plus one: the size of a table indexed by id.
    pub fn id_limit(&self) -> usize {
        self.tokens.len()
    }

    /// Returns the bytes of a token, for a special token those of its text. `None` if the id is not in use.
    pub fn bytes(&self, id: TokenId) -> Option<&[u8]> {
        self.tokens.get(id.index())?.as_deref()
    }

    /// Returns the lowest id with these bytes, of an ordinary or an added token.
    ///
    /// O(number of tokens): for many look-ups, build a map from [`tokens`](Vocabulary::tokens).
    pub fn id_of(&self, bytes: &[u8]) -> Option<TokenId> {
        self.tokens().find(|(_, found)| *found == bytes).map(|(id, _)| id)
    }

    /// Returns all tokens with their bytes, by ascending id.
    pub fn tokens(&self) -> impl Iterator<Item = (TokenId, &[u8])> {
        let tokens = self.tokens.iter().enumerate();
        tokens.filter_map(|(id, bytes)| Some((TokenId::from_index(id), bytes.as_deref()?)))
    }

    /// Returns the tokens that byte-pair encoding produces, by ascending id: all except those that are only added
    /// tokens.
    pub fn ordinary(&self) -> impl Iterator<Item = (TokenId, &[u8])> {
        self.tokens().filter(|(id, _)| self.apart.binary_search(id).is_err())
    }

    /// Returns the added token with this id. O(log n).
    pub fn added_token(&self, id: TokenId) -> Option<&AddedToken> {
        let place = self.added.binary_search_by_key(&id, |added| added.id).ok()?;
        Some(&self.added[place])
    }

    /// Returns the special token with this id. O(log n).
    pub fn special(&self, id: TokenId) -> Option<&AddedToken> {
        self.added_token(id).filter(|added| added.special)
    }

    /// Appends the bytes of each token to `text`; added tokens give their text. Decoding restores an encoded text
    /// byte for byte unless [`keeps_text`](Vocabulary::keeps_text) is `false`.
    ///
    /// # Errors
    /// An id is not in use. The bytes of the ids before it have been appended.
    pub fn decode(&self, ids: &[TokenId], text: &mut Vec<u8>) -> Result<()> {
        for &id in ids {
            match self.bytes(id) {
                Some(bytes) => text.extend_from_slice(bytes),
                None => return Err(Error::new(ErrorKind::Failed, Fault::UnknownId(id))),
            }
        }
        Ok(())
    }

    /// Returns the token of a byte, or `None` if it is [missing](Vocabulary::missing_bytes).
    pub fn byte_id(&self, byte: u8) -> Option<TokenId> {
        Some(self.byte_ids[usize::from(byte)]).filter(|id| id.index() < self.id_limit())
    }

    /// Returns the bytes without a token, ascending.
    pub fn missing_bytes(&self) -> &[u8] {
        &self.missing_bytes
    }

    /// Returns the [missing bytes](Vocabulary::missing_bytes) that can occur in UTF-8.
    pub(crate) fn missing_in_utf8(&self) -> Vec<u8> {
        let in_utf8 = |byte: &&u8| !matches!(byte, 0xC0 | 0xC1 | 0xF5..);
        self.missing_bytes.iter().filter(in_utf8).copied().collect()
    }

    /// Returns the token that the tokenizer's own program gives for missing bytes. `None` if it drops them, or if no
    /// byte is missing.
    pub fn unknown(&self) -> Option<&UnknownToken> {
        self.unknown.as_ref()
    }

    /// Returns the token of each byte. A missing byte has an id that no token has.
    pub(crate) fn byte_ids(&self) -> &[TokenId; 256] {
        &self.byte_ids
    }

    /// Returns this vocabulary with a token for every byte and without tokens that have no bytes. Text without
    /// [missing](Vocabulary::missing_bytes) bytes is encoded to the same ids.
    pub(crate) fn completed(&self) -> Cow<'_, Vocabulary> {
        let is_empty = |token: &Option<Box<[u8]>>| token.as_ref().is_some_and(|bytes| bytes.is_empty());
        if self.missing_bytes.is_empty() && !self.tokens.iter().any(is_empty) {
            return Cow::Borrowed(self);
        }
        let mut completed = self.clone();
        completed.tokens.iter_mut().filter(|token| is_empty(token)).for_each(|token| *token = None);
        completed.tokens.extend(self.missing_bytes.iter().map(|&byte| Some(Box::from([byte]))));
        completed.missing_bytes.clear();
        completed.unknown = None;
        Cow::Owned(completed)
    }

    /// Returns the merges by ascending rank.
    pub fn merges(&self) -> &[RankedMerge] {
        &self.merges
    }

    /// Returns the tokens that are found in a text before it is split, by ascending id.
    pub fn added(&self) -> &[AddedToken] {
        &self.added
    }

    /// Returns the special ones among the [added tokens](Vocabulary::added), by ascending id.
    pub fn specials(&self) -> impl Iterator<Item = &AddedToken> {
        self.added.iter().filter(|added| added.special)
    }

    /// Returns the changes that a text undergoes before it is split.
    pub fn rules(&self) -> &TextRules {
        &self.rules
    }

    /// Returns the tokens that the tokenizer's own program puts around a text. Encoding in this crate does not add
    /// them.
    pub fn around(&self) -> &Around {
        &self.around
    }

    /// Returns whether decoding restores every text byte for byte. If not, it restores the text as encoding changed
    /// it: normalized, with a space before it, or without the white space that an added token took.
    pub fn keeps_text(&self) -> bool {
        let strips = |added: &AddedToken| added.lstrip || added.rstrip;
        let respelled =
            |added: &AddedToken| self.bytes(added.id).is_some_and(|bytes| bytes != added.text.as_bytes());
        self.rules == TextRules::default()
            && !self.added.iter().any(|added| strips(added) || respelled(added))
    }

    /// Returns the pattern that splits text into pre-tokens.
    pub fn split(&self) -> &SplitPattern {
        &self.split
    }

    /// Returns whether a pre-token that equals a token becomes that token even if the merges would not make it (Llama
    /// 3's `ignore_merges`).
    pub fn ignore_merges(&self) -> bool {
        self.ignore_merges
    }
}
