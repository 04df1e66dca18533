//! The bytes of all tokens of a vocabulary, end to end, so that decoding finds them in little memory.

use crate::base::int::TokenId;

/// Length in bytes up to which a token is copied as if it had this length. Most tokens are shorter.
const SHORT: usize = 16;

/// Marks the end of an id without a token.
const HOLE: usize = 1 << (usize::BITS - 1);

/// The bytes of tokens by id. An id can be a hole, which has no token.
///
/// **Memory:** 8 bytes per id, plus the tokens' own bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TokenBytes {
    /// The bytes of all tokens by ascending id, and [`SHORT`] zeros.
    bytes: Vec<u8>,
    /// 0, and for each id where its token ends in `bytes`. A hole ends where the token before it does, and is marked.
    ends: Vec<usize>,
}

impl TokenBytes {
    /// Number of ids, with holes.
    pub(super) fn len(&self) -> usize {
        self.ends.len() - 1
    }

    /// The bytes of the token with this id. `None` if the id is not in use.
    #[inline]
    pub(super) fn get(&self, id: TokenId) -> Option<&[u8]> {
        let (start, length) = self.place(id)?;
        Some(&self.bytes[start..][..length])
    }

    /// The bytes of each token by ascending id, `None` for a hole.
    pub(super) fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        (0..self.len()).map(|id| self.get(TokenId::from_index(id)))
    }

    /// Appends the bytes of a token to `text`. Returns whether the id is in use.
    #[inline]
    pub(super) fn append(&self, id: TokenId, text: &mut Vec<u8>) -> bool {
        let Some((start, length)) = self.place(id) else { return false };
        let from = &self.bytes[start..];
        match from.first_chunk::<SHORT>() {
            // A copy of a fixed length is a single instruction.
            Some(enough) if length <= SHORT => {
                let end = text.len() + length;
                text.extend_from_slice(enough);
                text.truncate(end);
            }
            _ => text.extend_from_slice(&from[..length]),
        }
        true
    }

    /// Where the bytes of a token start, and how many they are. `None` if the id is not in use.
    #[inline]
    fn place(&self, id: TokenId) -> Option<(usize, usize)> {
        let &[before, end] = self.ends.get(id.index()..)?.first_chunk()?;
        let start = before & !HOLE;
        (end & HOLE == 0).then(|| (start, end - start))
    }
}

impl<T: AsRef<[u8]>> FromIterator<Option<T>> for TokenBytes {
    fn from_iter<I: IntoIterator<Item = Option<T>>>(tokens: I) -> TokenBytes {
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for token in tokens {
            match token {
                Some(token) => {
                    bytes.extend_from_slice(token.as_ref());
                    ends.push(bytes.len());
                }
                None => ends.push(bytes.len() | HOLE),
            }
        }
        bytes.extend([0; SHORT]);
        bytes.shrink_to_fit();
        ends.shrink_to_fit();
        TokenBytes { bytes, ends }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Tokens of any lengths are found and appended as they are, and holes are not.
        #[test]
        fn tokens_are_found_by_id(
            tokens in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..40)), 0..60),
        ) {
            let flat: TokenBytes = tokens.iter().map(Option::as_ref).collect();
            prop_assert!(flat.iter().eq(tokens.iter().map(Option::as_deref)));
            prop_assert_eq!(flat.len(), tokens.len());
            for (id, token) in tokens.iter().chain([&None]).enumerate() {
                let mut text = b"before ".to_vec();
                prop_assert_eq!(flat.append(TokenId::from_index(id), &mut text), token.is_some());
                prop_assert_eq!(&text[..7], b"before ");
                prop_assert_eq!(&text[7..], token.as_deref().unwrap_or_default());
            }
        }
    }
}
