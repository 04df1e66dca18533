use crate::base::hash::HashIndex;
use crate::base::hash::SeededHash;
use crate::base::int::TokenId;
use crate::vocab::Vocabulary;

/// Finds a token by its bytes. If several tokens have the same bytes, the one with the lowest id is found.
///
/// **Memory:** 11 to 21 bytes per token.
#[derive(Debug)]
pub(super) struct ByBytes {
    index: HashIndex,
    hashing: SeededHash,
}

impl ByBytes {
    /// Indexes the vocabulary's ordinary tokens: all but the added ones.
    pub(super) fn new(vocabulary: &Vocabulary) -> ByBytes {
        let mut tokens = ByBytes { index: HashIndex::default(), hashing: SeededHash::of_process() };
        for (id, bytes) in vocabulary.ordinary() {
            if tokens.find(vocabulary, bytes).is_none() {
                let added = tokens.index.insert(tokens.hashing.bytes(bytes), id.index() + 1);
                added.expect("ids are below 2³¹");
            }
        }
        tokens
    }

    /// The token with exactly these bytes. `vocabulary` must be the one that was passed to [`new`](ByBytes::new).
    pub(super) fn find(&self, vocabulary: &Vocabulary, bytes: &[u8]) -> Option<TokenId> {
        let token = |number: usize| TokenId::from_index(number - 1);
        let same = |number| vocabulary.bytes(token(number)) == Some(bytes);
        self.index.find(self.hashing.bytes(bytes), same).map(token)
    }
}
