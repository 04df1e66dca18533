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

/// A token that stands for itself and takes part in no merge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpecialToken {
    /// Its id.
    pub id: TokenId,
    /// The text that stands for it.
    pub text: String,
}

/// A byte-level BPE vocabulary: what encoding and decoding need, whatever program learned it.
///
/// Invariants, checked on construction: every byte has a token; ids are unique (holes are legal);
/// every merge's parts and result are tokens, and the result's bytes are the parts' put together;
/// merges stand by ascending rank, and ranks are 0, 1, 2 and so on without gaps; no pair stands twice;
/// special tokens are not empty, differ from each other and from every other token, and take part in
/// no merge.
///
/// **Memory:** about 40 bytes and the token's own bytes for each token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// Bytes by id; `None` is a hole. Special tokens stand here with their text's bytes.
    pub(super) tokens: Vec<Option<Box<[u8]>>>,
    pub(super) byte_ids: [TokenId; 256],
    pub(super) merges: Vec<RankedMerge>,
    pub(super) specials: Vec<SpecialToken>,
    pub(super) split: SplitPattern,
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

    /// All tokens with their bytes, by id.
    pub fn tokens(&self) -> impl Iterator<Item = (TokenId, &[u8])> {
        let tokens = self.tokens.iter().enumerate();
        tokens.filter_map(|(id, bytes)| Some((TokenId::from_index(id), bytes.as_deref()?)))
    }

    /// The tokens that are not special, by id.
    pub fn ordinary(&self) -> impl Iterator<Item = (TokenId, &[u8])> {
        self.tokens().filter(|(id, _)| self.special(*id).is_none())
    }

    /// The special token that has this id.
    pub fn special(&self, id: TokenId) -> Option<&SpecialToken> {
        let place = self.specials.binary_search_by_key(&id, |special| special.id).ok()?;
        Some(&self.specials[place])
    }

    /// Appends the bytes of each token. What encoding takes apart comes back byte for byte; special
    /// tokens give their text.
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

    /// The special tokens by ascending id.
    pub fn specials(&self) -> &[SpecialToken] {
        &self.specials
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
