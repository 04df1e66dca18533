//! Tokens that no text is encoded to. They take up rows of a model's embedding that are never trained.

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use serde::Serialize;

use super::derivation::{BpeMerger, MergeTable, unmade_tokens};
use super::vocabulary::Vocabulary;
use crate::base::hash::{Map, Set};
use crate::base::int::{TokenId, to_usize};
use crate::error::Result;
use crate::split::{Splitter, splitter};

/// A token that no text is encoded to, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreachableToken {
    /// The token's id.
    pub id: TokenId,
    /// Why no text is encoded to it.
    #[serde(flatten)]
    pub reason: UnreachableReason,
}

/// Why no text is encoded to a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", content = "becomes", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum UnreachableReason {
    /// It has no bytes.
    Empty,
    /// Its bytes become these tokens instead. A token in an encoding is made of its bytes as if they stood alone, so
    /// what text surrounds them does not matter.
    Merges(Vec<TokenId>),
    /// The split cuts its bytes. They were split alone, and between two characters of several kinds.
    Split,
}

/// Returns the tokens that no text is encoded to, by ascending id.
///
/// Added tokens are never among them, because they are found in a text before it is split. Parts of characters at the
/// ends of a token are left out when its bytes are split, because a text has the whole characters. Normalizers are not
/// considered: a token that they would change is not returned. Nor is a token with the bytes of another one if the
/// vocabulary [looks up](Vocabulary::ignore_merges) whole pre-tokens, and it may occur in longer ones.
///
/// Takes about 0.1 s for 100 000 tokens, on the threads of the current Rayon pool.
///
/// ```
/// use tokenmill::TokenId;
/// use tokenmill::vocab::{RankedMerge, UnreachableReason, Vocabulary, VocabularyParts, unreachable_tokens};
///
/// let token = |(id, text): (u32, &str)| (TokenId::new(id), Box::<[u8]>::from(text.as_bytes()));
/// let [a, b, c, ab, bc, abc] = [0, 1, 2, 3, 4, 5].map(TokenId::new);
/// let vocabulary = Vocabulary::new(VocabularyParts {
///     tokens: (0..).zip(["a", "b", "c", "ab", "bc", "abc"]).map(token).collect(),
///     merges: vec![
///         RankedMerge { left: a, right: b, result: ab, rank: 0 },
///         RankedMerge { left: b, right: c, result: bc, rank: 1 },
///         RankedMerge { left: a, right: bc, result: abc, rank: 2 },
///     ],
///     ..VocabularyParts::default()
/// })?;
/// let found = unreachable_tokens(&vocabulary)?;
/// // In "abc", "ab" is merged before "bc" could be.
/// assert_eq!((found[0].id, &found[0].reason), (abc, &UnreachableReason::Merges(vec![ab, c])));
/// assert_eq!(found.len(), 1);
/// # Ok::<(), tokenmill::Error>(())
/// ```
///
/// # Errors
/// The split's regular expression is invalid.
pub fn unreachable_tokens(vocabulary: &Vocabulary) -> Result<Vec<UnreachableToken>> {
    let splitter = splitter(vocabulary.split())?;
    let (table, unmade) = (MergeTable::new(vocabulary), Set::from_iter(unmade_tokens(vocabulary)));
    let looked_up = first_by_bytes(vocabulary);
    let reason = |merger: &mut BpeMerger, (id, bytes): &(TokenId, &[u8])| {
        let reason = match *bytes {
            [] => UnreachableReason::Empty,
            bytes if unmade.contains(id) && looked_up.get(bytes) != Some(id) => {
                let becomes = looked_up.get(bytes).map_or_else(
                    || table.merged(merger, bytes).0.iter().copied().map(TokenId::new).collect(),
                    |&other| vec![other],
                );
                UnreachableReason::Merges(becomes)
            }
            // A token that no merges make is only found if it is a whole pre-token.
            bytes if is_cut(&*splitter, bytes, unmade.contains(id)) => UnreachableReason::Split,
            _ => return None,
        };
        Some(UnreachableToken { id: *id, reason })
    };
    let tokens: Vec<_> =
        vocabulary.ordinary().filter(|(id, _)| vocabulary.added_token(*id).is_none()).collect();
    Ok(tokens.par_iter().map_init(BpeMerger::default, reason).flatten_iter().collect())
}

/// Returns the token that a whole pre-token becomes before merging, by its bytes: of equal tokens the one with the
/// lowest id. Empty unless the vocabulary [looks up](Vocabulary::ignore_merges) whole pre-tokens.
fn first_by_bytes(vocabulary: &Vocabulary) -> Map<&[u8], TokenId> {
    let mut first = Map::default();
    if vocabulary.ignore_merges() {
        for (id, bytes) in vocabulary.ordinary() {
            first.entry(bytes).or_insert(id);
        }
    }
    first
}

/// A character of each kind that split patterns tell apart, and the ends of English contractions ("'s", "'re", "'ll").
/// A token is split between every two of them, and at the ends of a text.
const NEIGHBOURS: [&str; 13] = ["", "a", "A", "1", " ", "\n", "'", "!", "中", "\u{301}", "s", "e", "l"];

/// Returns whether the splitter cuts a token wherever it stands, or, if it must be `alone`, whether it is a whole
/// pre-token nowhere. Most tokens are not cut when they stand alone, so only the few others are tried between
/// [`NEIGHBOURS`].
fn is_cut(splitter: &dyn Splitter, bytes: &[u8], alone: bool) -> bool {
    let bytes = whole_characters(bytes);
    let is_whole = |before: &str, after: &str| {
        let text = [before.as_bytes(), bytes, after.as_bytes()].concat();
        let (start, end, mut ends) = (before.len(), before.len() + bytes.len(), Vec::new());
        // A text that a pattern must match and does not match is not encoded.
        if splitter.pretoken_ends(&text, &mut ends).is_err() {
            return false;
        }
        let is_border = |at: usize| at == 0 || ends.iter().any(|&end| to_usize(end) == at);
        (start + 1..end).all(|at| !is_border(at)) && (!alone || is_border(start) && is_border(end))
    };
    bytes.len() > 1
        && !is_whole("", "")
        && !NEIGHBOURS.iter().any(|before| NEIGHBOURS.iter().any(|after| is_whole(before, after)))
}

/// Returns a token without the parts of characters at its ends. Empty if the rest is not UTF-8 either: such a token is
/// found in no UTF-8 text, and how other texts are split is not what matters.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    let is_continuation = |byte: &&u8| **byte & 0xC0 == 0x80;
    let bytes = &bytes[bytes.iter().take_while(is_continuation).count()..];
    match str::from_utf8(bytes) {
        Ok(_) => bytes,
        // The last character is incomplete.
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        Err(_) => &[],
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::encode::{EncodeConfig, Encoder};
    use crate::split::{NamedPattern, SplitPattern};
    use crate::vocab::{RankedMerge, VocabularyParts};

    /// A vocabulary of bytes and merges of random pairs of tokens; merges of pairs that occur twice are left out. The
    /// merges get their ranks in a random order, so that many tokens cannot be reached.
    fn vocabularies() -> impl Strategy<Value = Vocabulary> {
        let pairs = vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..12);
        (pairs.prop_shuffle(), any::<bool>(), any::<u64>()).prop_map(|(pairs, ignore_merges, seed)| {
            let mut tokens: Vec<Vec<u8>> = b"ab 1".iter().map(|&byte| vec![byte]).collect();
            let mut merges: Vec<RankedMerge> = Vec::new();
            for (left, right) in pairs {
                let (left, right) = (left.index(tokens.len()), right.index(tokens.len()));
                let token = [&*tokens[left], &*tokens[right]].concat();
                let (left, right) = (TokenId::from_index(left), TokenId::from_index(right));
                let is_known = merges.iter().any(|merge| (merge.left, merge.right) == (left, right));
                // Of two equal tokens, one may occur in long pre-tokens only, and not all lengths are tried.
                if is_known || token.len() > 4 || ignore_merges && tokens.contains(&token) {
                    continue;
                }
                let rank = u32::try_from(merges.len()).expect("few") ^ u32::try_from(seed % 8).expect("few");
                let result = TokenId::from_index(tokens.len());
                merges.push(RankedMerge { left, right, result, rank });
                tokens.push(token);
            }
            let tokens = tokens.into_iter().enumerate();
            let tokens =
                tokens.map(|(id, bytes)| (TokenId::from_index(id), bytes.into_boxed_slice())).collect();
            let split = SplitPattern::Named(NamedPattern::Gpt2);
            let parts =
                VocabularyParts { tokens, merges, split, ignore_merges, ..VocabularyParts::default() };
            Vocabulary::new(parts).expect("distinct pairs")
        })
    }

    /// Returns all texts of the four bytes up to a length.
    fn texts(longest: usize) -> Vec<Vec<u8>> {
        let mut texts = vec![Vec::new()];
        let mut from = 0;
        for _ in 0..longest {
            let end = texts.len();
            for at in from..end {
                texts.extend(b"ab 1".map(|byte| [&*texts[at], &[byte]].concat()));
            }
            from = end;
        }
        texts
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 16))]

        /// Exactly the tokens that occur in the encoding of no text are returned. All texts of a length that suffices
        /// for every token and a character on both sides are tried.
        #[test]
        fn the_tokens_are_those_that_no_text_gives(vocabulary in vocabularies()) {
            let longest = vocabulary.ordinary().map(|(_, bytes)| bytes.len()).max().unwrap_or(0);
            let encoder = Encoder::new(vocabulary.clone(), EncodeConfig::default()).expect("a vocabulary");
            let encoder = encoder.prepared();
            let mut worker = encoder.worker();
            let mut used = vec![false; vocabulary.id_limit()];
            for text in texts(longest + 2) {
                worker.encode(&text).expect("bytes with tokens").iter().for_each(|id| used[id.index()] = true);
            }
            let expected: Vec<TokenId> =
                vocabulary.ordinary().map(|(id, _)| id).filter(|id| !used[id.index()]).collect();
            let found = unreachable_tokens(&vocabulary).expect("a valid split");
            prop_assert_eq!(found.iter().map(|token| token.id).collect::<Vec<_>>(), expected);
        }
    }

    /// Tokens that a split cuts alone may be whole between certain characters.
    #[test]
    fn a_token_is_cut_only_if_no_neighbours_keep_it_whole() {
        let o200k = splitter(&SplitPattern::Named(NamedPattern::O200k)).expect("a named split");
        for (token, cut) in [(" I'", false), (" I'v", false), ("a b", true), ("1a", true), ("we", false)] {
            assert_eq!(is_cut(&*o200k, token.as_bytes(), false), cut, "{token:?}");
        }
        for (token, cut) in [(" I'", true), (" I'm", false), ("we", false)] {
            assert_eq!(is_cut(&*o200k, token.as_bytes(), true), cut, "{token:?} alone");
        }
    }

    /// Parts of characters at the ends of a token do not count.
    #[test]
    fn parts_of_characters_are_left_out() {
        assert_eq!(whole_characters("é a中".as_bytes()), "é a中".as_bytes());
        assert_eq!(whole_characters(&"é a中".as_bytes()[1..6]), b" a");
        assert_eq!(whole_characters(b"a\xFFb"), b"");
        assert_eq!(whole_characters(b"\x80\x80"), b"");
    }
}
