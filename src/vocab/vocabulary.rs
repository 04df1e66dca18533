use std::borrow::Cow;

use serde::Serialize;

use super::added::{AddedToken, Around, TextRules};
use super::fault::Fault;
use crate::error::{Error, ErrorKind, Result};
use crate::split::SplitPattern;
use crate::units::TokenId;

/// A merge as encoding needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RankedMerge {
    /// The left token.
    pub left: TokenId,
    /// The right token.
    pub right: TokenId,
    /// The token that takes their place.
    pub result: TokenId,
    /// Lower ranks merge first; among equals the leftmost. Equal ranks are legal.
    pub rank: u32,
}

/// A byte-level BPE vocabulary: what encoding and decoding need, whatever program learned it.
///
/// Invariants, checked on construction: no byte has two tokens; ids are unique (holes are legal); every merge's parts and result are tokens, and the result's bytes are the parts' put together;
/// no part is a token without bytes;
/// merges stand by ascending rank, and ranks are 0, 1, 2 and so on without gaps; no pair stands twice;
/// the texts of added tokens are not empty and differ from each other, and those of special tokens from
/// every other token; an added token takes part in merges only if its text is its spelling in GPT-2's
/// byte alphabet.
///
/// A byte can lack a token: tokenizers that were trained on UTF-8 alone often have none for 0xC0, 0xC1 and 0xF5–0xFF,
/// which UTF-8 never has. [`MissingBytes`](crate::encode::MissingBytes) says what becomes of text with such a byte.
/// A token can have no bytes, as one of Whisper's does: no text gives it, and it decodes to nothing.
///
/// **Memory:** about 40 bytes and the token's own bytes for each token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// Bytes by id; `None` is a hole. Tokens that are added only stand here with their text's bytes.
    pub(super) tokens: Vec<Option<Box<[u8]>>>,
    /// The token of each byte. A byte without one has an id of its own from [`id_limit`](Vocabulary::id_limit) on.
    pub(super) byte_ids: [TokenId; 256],
    /// Ascending.
    pub(super) missing_bytes: Vec<u8>,
    pub(super) unknown: Option<UnknownToken>,
    pub(super) merges: Vec<RankedMerge>,
    pub(super) added: Vec<AddedToken>,
    /// The ids, ascending, of those added tokens that take no part in merging.
    pub(super) apart: Vec<TokenId>,
    pub(super) split: SplitPattern,
    pub(super) rules: TextRules,
    pub(super) around: Around,
    pub(super) ignore_merges: bool,
}

/// Bytes as people read them, in ranges: `0xC0–0xC1, 0xF5–0xFF`. They must ascend.
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
    /// Its name in the file.
    pub text: String,
    /// Its id; `None` if the vocabulary lacks it, so that the tokenizer's own program fails on such a byte.
    pub id: Option<TokenId>,
    /// Whether several such bytes in a row, in one piece, give it once (`fuse_unk`).
    pub fuse: bool,
}

impl Vocabulary {
    /// Ids in use are below this: the highest id plus one.
    pub fn id_limit(&self) -> usize {
        self.tokens.len()
    }

    /// The bytes of a token; of a special token, its text. `None` where the id is not in use.
    pub fn bytes(&self, id: TokenId) -> Option<&[u8]> {
        self.tokens.get(id.index())?.as_deref()
    }

    /// The lowest id that has these bytes, be it of an ordinary or of an added token.
    ///
    /// Looks at all tokens: for many look-ups make a map of [`tokens`](Vocabulary::tokens).
    pub fn id_of(&self, bytes: &[u8]) -> Option<TokenId> {
        self.tokens().find(|(_, found)| *found == bytes).map(|(id, _)| id)
    }

    /// All tokens with their bytes, by id.
    pub fn tokens(&self) -> impl Iterator<Item = (TokenId, &[u8])> {
        let tokens = self.tokens.iter().enumerate();
        tokens.filter_map(|(id, bytes)| Some((TokenId::from_index(id), bytes.as_deref()?)))
    }

    /// The tokens that text is encoded into besides added ones, by id.
    pub fn ordinary(&self) -> impl Iterator<Item = (TokenId, &[u8])> {
        self.tokens().filter(|(id, _)| self.apart.binary_search(id).is_err())
    }

    /// The added token that has this id.
    pub fn added_token(&self, id: TokenId) -> Option<&AddedToken> {
        let place = self.added.binary_search_by_key(&id, |added| added.id).ok()?;
        Some(&self.added[place])
    }

    /// The special token that has this id.
    pub fn special(&self, id: TokenId) -> Option<&AddedToken> {
        self.added_token(id).filter(|added| added.special)
    }

    /// Appends the bytes of each token. What encoding takes apart comes back byte for byte, unless
    /// [`keeps_text`](Vocabulary::keeps_text) says otherwise; added tokens give their text.
    ///
    /// # Errors
    /// An id is not in use; what stands before it has been appended.
    pub fn decode(&self, ids: &[TokenId], text: &mut Vec<u8>) -> Result<()> {
        for &id in ids {
            match self.bytes(id) {
                Some(bytes) => text.extend_from_slice(bytes),
                None => return Err(Error::new(ErrorKind::Failed, Fault::UnknownId(id))),
            }
        }
        Ok(())
    }

    /// The token of a byte; `None` if it is [missing](Vocabulary::missing_bytes).
    pub fn byte_id(&self, byte: u8) -> Option<TokenId> {
        Some(self.byte_ids[usize::from(byte)]).filter(|id| id.index() < self.id_limit())
    }

    /// The bytes that have no token, ascending.
    pub fn missing_bytes(&self) -> &[u8] {
        &self.missing_bytes
    }

    /// Those of them that text in UTF-8 can have.
    pub(crate) fn missing_in_utf8(&self) -> Vec<u8> {
        let in_utf8 = |byte: &&u8| !matches!(byte, 0xC0 | 0xC1 | 0xF5..);
        self.missing_bytes.iter().filter(in_utf8).copied().collect()
    }

    /// What the tokenizer's own program gives for them; `None` if it drops them, or none is missing.
    pub fn unknown(&self) -> Option<&UnknownToken> {
        self.unknown.as_ref()
    }

    /// The token of each single byte. One that is missing has an id that no token has.
    pub(crate) fn byte_ids(&self) -> &[TokenId; 256] {
        &self.byte_ids
    }

    /// The same with a token for every byte and none without bytes. It encodes text without
    /// [missing](Vocabulary::missing_bytes) bytes to the same ids.
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

    /// The merges by ascending rank.
    pub fn merges(&self) -> &[RankedMerge] {
        &self.merges
    }

    /// The tokens that are found in a text before it is split, by ascending id.
    pub fn added(&self) -> &[AddedToken] {
        &self.added
    }

    /// Those of them that are special, by ascending id.
    pub fn specials(&self) -> impl Iterator<Item = &AddedToken> {
        self.added.iter().filter(|added| added.special)
    }

    /// What happens to a text before it is split.
    pub fn rules(&self) -> &TextRules {
        &self.rules
    }

    /// What the tokenizer's own program puts around a text. Encoding here does not.
    pub fn around(&self) -> &Around {
        &self.around
    }

    /// Whether every text comes back from its tokens byte for byte. If not, the text that encoding makes
    /// of it does: normalized, with a space before it, or without the space that an added token took.
    pub fn keeps_text(&self) -> bool {
        let strips = |added: &AddedToken| added.lstrip || added.rstrip;
        let respelled =
            |added: &AddedToken| self.bytes(added.id).is_some_and(|bytes| bytes != added.text.as_bytes());
        self.rules == TextRules::default()
            && !self.added.iter().any(|added| strips(added) || respelled(added))
    }

    /// How text is cut before it is encoded.
    pub fn split(&self) -> &SplitPattern {
        &self.split
    }

    /// Whether a piece that is a token as a whole becomes that token even if the merges would not
    /// make it (Llama 3's `ignore_merges`).
    pub fn ignore_merges(&self) -> bool {
        self.ignore_merges
    }
}
