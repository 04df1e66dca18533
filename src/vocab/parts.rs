//! Builds vocabularies from parts and checks their invariants.

use rustc_hash::{FxBuildHasher, FxHashSet};
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::{AddedToken, Around, RankedMerge, TextRules, UnknownToken, Vocabulary, alphabet};
use crate::base::hash::Map;
use crate::base::int::{TokenId, to_usize, truncate_to_u32};
use crate::error::{Error, ErrorKind, Result};
use crate::split::SplitPattern;
use crate::train::Merges;

/// Most ids that a vocabulary may leave unused (2^20). Memory grows with the highest id, so a damaged file with one
/// id near 2^32 would otherwise take gigabytes.
const MAX_HOLES: usize = 1 << 20;

/// The parts of a [`Vocabulary`], in any order and not checked yet.
///
/// ```
/// use tokenmill::TokenId;
/// use tokenmill::vocab::{RankedMerge, Vocabulary, VocabularyParts};
///
/// let token = |(id, text): (u32, &str)| (TokenId::new(id), Box::<[u8]>::from(text.as_bytes()));
/// let vocabulary = Vocabulary::new(VocabularyParts {
///     tokens: (0..).zip(["a", "b", "ab"]).map(token).collect(),
///     merges: vec![RankedMerge { left: TokenId::new(0), right: TokenId::new(1), result: TokenId::new(2), rank: 7 }],
///     ..VocabularyParts::default()
/// })?;
/// assert_eq!(vocabulary.merges()[0].rank, 0); // ranks are renumbered
/// assert_eq!(vocabulary.missing_bytes().len(), 254);
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct VocabularyParts {
    /// The tokens with their bytes, without those that are only added tokens.
    pub tokens: Vec<(TokenId, Box<[u8]>)>,
    /// The tokens that are found in a text before it is split.
    pub added: Vec<AddedToken>,
    /// The merges. Only the order of their ranks matters, not the numbers.
    pub merges: Vec<RankedMerge>,
    /// The pattern that splits text into pre-tokens.
    pub split: SplitPattern,
    /// The changes that a text undergoes before it is split.
    pub rules: TextRules,
    /// The tokens that the tokenizer's own program puts around a text.
    pub around: Around,
    /// Whether a pre-token that equals a token becomes that token even if the merges would not make it.
    pub ignore_merges: bool,
    /// The token that the tokenizer's own program gives for a byte without a token. Ignored if every byte has one.
    pub unknown: Option<UnknownToken>,
}

/// Which ids the special tokens of a new vocabulary get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpecialTokensAt {
    /// The lowest.
    Start,
    /// The highest.
    #[default]
    End,
}

impl Vocabulary {
    /// Checks the parts and combines them. Ranks are renumbered from 0 without gaps, so vocabularies that encode
    /// alike by the same merges are equal, whatever file they come from. O(n log n) in the number of tokens and
    /// merges.
    ///
    /// # Errors
    /// The parts break one of the [invariants](Vocabulary), or leave more than 2^20 ids unused.
    pub fn new(parts: VocabularyParts) -> Result<Vocabulary> {
        parts.build().map_err(|fault| Error::new(ErrorKind::Failed, fault))
    }

    /// Builds the vocabulary of merges that were just learned. Bytes get the ids 0–255, and merges the next ids in
    /// the order in which they were learned. If special tokens come first, all these ids are shifted by their number.
    ///
    /// # Errors
    /// A special token is empty, is given twice, or equals a token that was learned.
    pub fn from_merges(
        merges: &Merges,
        specials: &[String],
        at: SpecialTokensAt,
        split: SplitPattern,
    ) -> Result<Vocabulary> {
        let (first_token, first_special) = match at {
            SpecialTokensAt::Start => (specials.len(), 0),
            SpecialTokensAt::End => (0, 256 + merges.len()),
        };
        let id = |token: u32| TokenId::from_index(first_token + to_usize(token));
        let mut tokens: Vec<Box<[u8]>> = (0..=255u8).map(|byte| Box::from([byte])).collect();
        let mut ranked = Vec::with_capacity(merges.len());
        for (merge, rank) in merges.iter().zip(0u32..) {
            let parts = [&*tokens[to_usize(merge.left)], &*tokens[to_usize(merge.right)]];
            let token = parts.concat().into_boxed_slice();
            let (left, right, result) = (id(merge.left), id(merge.right), id(truncate_to_u32(tokens.len())));
            ranked.push(RankedMerge { left, right, result, rank });
            tokens.push(token);
        }
        let parts = VocabularyParts {
            tokens: (0u32..).map(id).zip(tokens).collect(),
            added: (first_special..)
                .zip(specials)
                .map(|(id, text)| AddedToken::special(TokenId::from_index(id), text))
                .collect(),
            merges: ranked,
            split,
            ..VocabularyParts::default()
        };
        parts.build().map_err(|fault| Error::new(ErrorKind::Usage, fault))
    }
}

impl VocabularyParts {
    /// Checks the parts against the invariants of [`Vocabulary`] and combines them.
    pub(super) fn build(self) -> Result<Vocabulary, Fault> {
        let VocabularyParts { tokens: ordinary, mut added, mut merges, split, rules, around, .. } = self;
        let VocabularyParts { ignore_merges, unknown, .. } = self;
        added.sort_by_key(|added| added.id);
        check_texts(&added, &ordinary)?;
        let byte_tokens = byte_tokens(&ordinary)?;
        let (tokens, apart) = by_id(ordinary, &added)?;
        let missing_bytes: Vec<u8> =
            (0..=u8::MAX).filter(|&byte| byte_tokens[usize::from(byte)].is_none()).collect();
        let mut without = tokens.len()..;
        let byte_ids = byte_tokens
            .map(|id| id.unwrap_or_else(|| TokenId::from_index(without.next().unwrap_or_default())));
        let unknown = unknown.filter(|_| !missing_bytes.is_empty());
        merges.sort_by_key(|merge| (merge.rank, merge.left, merge.right));
        check_merges(&merges, &tokens, &apart)?;
        number_ranks(&mut merges);
        let unknown_id = unknown.as_ref().and_then(|token| token.id);
        let mut named = around.before.iter().chain(&around.after).copied().chain(unknown_id);
        match named.find(|id| tokens.get(id.index()).is_none_or(Option::is_none)) {
            Some(id) => Err(Fault::UnknownId(id)),
            None => Ok(Vocabulary {
                tokens,
                byte_ids,
                missing_bytes,
                unknown,
                merges,
                added,
                apart,
                split,
                rules,
                around,
                ignore_merges,
            }),
        }
    }
}

/// Refuses added tokens that are empty or given twice, and special ones that equal an ordinary token of another id.
fn check_texts(added: &[AddedToken], ordinary: &[(TokenId, Box<[u8]>)]) -> Result<(), Fault> {
    let mut texts = Map::default();
    for token in added {
        if token.text.is_empty() {
            return Err(Fault::AddedEmpty);
        }
        if texts.insert(token.text.as_bytes(), token).is_some() {
            return Err(Fault::AddedTwice(token.text.clone()));
        }
    }
    // Most tokens have a length that no added token has, so their bytes need not be hashed.
    let lengths: FxHashSet<usize> = texts.keys().map(|text| text.len()).collect();
    let clash = |(id, bytes): &&(TokenId, Box<[u8]>)| {
        let same = || texts.get(&**bytes);
        lengths.contains(&bytes.len()) && same().is_some_and(|token| token.special && token.id != *id)
    };
    match ordinary.iter().find(clash) {
        Some((id, bytes)) => {
            Err(Fault::SpecialIsToken { text: String::from_utf8_lossy(bytes).into_owned(), id: *id })
        }
        None => Ok(()),
    }
}

/// Returns the token of each byte.
///
/// # Errors
/// A byte has two tokens.
fn byte_tokens(ordinary: &[(TokenId, Box<[u8]>)]) -> Result<[Option<TokenId>; 256], Fault> {
    let mut found = [None; 256];
    for (id, bytes) in ordinary {
        if let [byte] = **bytes
            && let Some(first) = found[usize::from(byte)].replace(*id)
        {
            return Err(Fault::ByteTwice { byte, first, second: *id });
        }
    }
    Ok(found)
}

/// Refuses a highest id that leaves more than [`MAX_HOLES`] ids unused by this number of tokens.
pub(super) fn check_holes(tokens: usize, highest: TokenId) -> Result<(), Fault> {
    match highest.index() < tokens + MAX_HOLES {
        true => Ok(()),
        false => Err(Fault::Holes { tokens, highest, limit: MAX_HOLES }),
    }
}

/// The bytes of each token by id, and the ids of the tokens that are only added ones, ascending.
type ById = (Vec<Option<Box<[u8]>>>, Vec<TokenId>);

/// Arranges tokens by id. An added token may share the id of an ordinary one that is spelled like it.
fn by_id(ordinary: Vec<(TokenId, Box<[u8]>)>, added: &[AddedToken]) -> Result<ById, Fault> {
    let count = ordinary.len() + added.len();
    let ids = ordinary.iter().map(|(id, _)| *id).chain(added.iter().map(|token| token.id));
    let highest = ids.max().unwrap_or_default();
    check_holes(count, highest)?;
    let mut tokens: Vec<Option<Box<[u8]>>> = vec![None; highest.index() + 1];
    for (id, bytes) in ordinary {
        if tokens[id.index()].replace(bytes).is_some() {
            return Err(Fault::IdTwice(id));
        }
    }
    let mut apart = Vec::new();
    let mut last = None;
    for AddedToken { id, text, .. } in added {
        let slot = &mut tokens[id.index()];
        match slot {
            _ if last.replace(id) == Some(id) => return Err(Fault::IdTwice(*id)),
            Some(bytes) if alphabet::spell(bytes) == *text => {}
            Some(_) => return Err(Fault::IdTwice(*id)),
            None => {
                *slot = Some(Box::from(text.as_bytes()));
                apart.push(*id);
            }
        }
    }
    Ok((tokens, apart))
}

/// Refuses merges that use ids without a token, tokens that are only added ones or have no bytes, results that are
/// not the parts joined, and pairs that occur twice.
fn check_merges(
    merges: &[RankedMerge],
    tokens: &[Option<Box<[u8]>>],
    apart: &[TokenId],
) -> Result<(), Fault> {
    let mut pairs = FxHashSet::with_capacity_and_hasher(merges.len(), FxBuildHasher);
    for (index, &RankedMerge { left, right, result, .. }) in merges.iter().enumerate() {
        let merge = index + 1;
        let bytes = |id: TokenId| match tokens.get(id.index()) {
            Some(Some(text)) if apart.binary_search(&id).is_ok() => {
                let text = String::from_utf8_lossy(text).into_owned();
                Err(Fault::MergeAdded { merge, id, text })
            }
            Some(Some(bytes)) => Ok(&**bytes),
            _ => Err(Fault::MergeUnknown { merge, id }),
        };
        let (start, end, whole) = (bytes(left)?, bytes(right)?, bytes(result)?);
        if let Some((id, _)) = [(left, start), (right, end)].into_iter().find(|(_, part)| part.is_empty()) {
            return Err(Fault::MergeEmpty { merge, id });
        }
        if whole.strip_prefix(start) != Some(end) {
            return Err(Fault::MergeBytes { merge, left, right, result });
        }
        if !pairs.insert((left, right)) {
            return Err(Fault::PairTwice { merge, left, right });
        }
    }
    Ok(())
}

/// Renumbers sorted ranks as 0, 1, 2 and so on without gaps. Equal ranks stay equal.
fn number_ranks(merges: &mut [RankedMerge]) {
    let (mut last, mut number) = (merges.first().map_or(0, |merge| merge.rank), 0);
    for merge in merges {
        if merge.rank != last {
            (last, number) = (merge.rank, number + 1);
        }
        merge.rank = number;
    }
}
