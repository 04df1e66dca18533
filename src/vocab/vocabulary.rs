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
    /// Lower ranks merge first; among equals the leftmost. Equal ranks are legal: a rank file
    /// (tiktoken) ranks tokens, and a token can have several ways to be made.
    pub rank: u32,
}

/// A byte-level BPE vocabulary: what encoding and decoding need, whatever program learned it.
///
/// Invariants, checked on construction: every byte has a token; ids are unique (holes are legal);
/// every merge's parts and result are tokens, and the result's bytes are the parts' put together;
/// merges stand by ascending rank, and ranks are 0, 1, 2 and so on without gaps; no pair stands twice;
/// the texts of added tokens are not empty and differ from each other, and those of special tokens from
/// every other token; an added token takes part in merges only if its text is its spelling in GPT-2's
/// byte alphabet.
///
/// **Memory:** about 40 bytes and the token's own bytes for each token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// Bytes by id; `None` is a hole. Tokens that are added only stand here with their text's bytes.
    pub(super) tokens: Vec<Option<Box<[u8]>>>,
    pub(super) byte_ids: [TokenId; 256],
    pub(super) merges: Vec<RankedMerge>,
    pub(super) added: Vec<AddedToken>,
    /// The ids, ascending, of those added tokens that take no part in merging.
    pub(super) apart: Vec<TokenId>,
    pub(super) split: SplitPattern,
    pub(super) rules: TextRules,
    pub(super) around: Around,
    pub(super) ignore_merges: bool,
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

    /// The token of each single byte.
    pub fn byte_ids(&self) -> &[TokenId; 256] {
        &self.byte_ids
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
    pub fn rules(&self) -> TextRules {
        self.rules
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
