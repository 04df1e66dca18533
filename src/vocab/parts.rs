use rustc_hash::{FxBuildHasher, FxHashSet};
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::{AddedToken, Around, RankedMerge, TextRules, UnknownToken, Vocabulary, alphabet};
use crate::error::{Error, ErrorKind, Result};
use crate::hashing::Map;
use crate::split::SplitPattern;
use crate::train::Merges;
use crate::units::{TokenId, low32, place};

/// A vocabulary may leave this many ids unused; a damaged file with one id near 2³² would otherwise
/// ask for as much memory.
const MAX_HOLES: usize = 1 << 20;

/// What a [`Vocabulary`] is made of, in any order and not checked yet.
#[derive(Clone, Debug, Default)]
pub struct VocabularyParts {
    /// The tokens that are not only added ones, with their bytes.
    pub tokens: Vec<(TokenId, Box<[u8]>)>,
    /// The tokens that are found in a text before it is split.
    pub added: Vec<AddedToken>,
    /// The merges. Only the order of their ranks counts.
    pub merges: Vec<RankedMerge>,
    /// How text is cut before it is encoded.
    pub split: SplitPattern,
    /// What happens to a text before that.
    pub rules: TextRules,
    /// What the tokenizer's own program puts around a text.
    pub around: Around,
    /// Whether a piece that is a token as a whole becomes that token whatever the merges make of it.
    pub ignore_merges: bool,
    /// What the tokenizer's own program gives for a byte without a token. Left out if every byte has one.
    pub unknown: Option<UnknownToken>,
}

/// Which ids the special tokens of a new vocabulary have.
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
    /// Checks the parts and puts them together. Ranks are numbered anew from 0 without gaps, so two
    /// vocabularies that encode alike by the same merges are equal whatever file they come from.
    ///
    /// # Errors
    /// The parts break one of the type's invariants.
    pub fn new(parts: VocabularyParts) -> Result<Vocabulary> {
        parts.build().map_err(|fault| Error::new(ErrorKind::Failed, fault))
    }

    /// The vocabulary of merges just learned. Bytes have the ids 0–255 in order and merges the ids
    /// after them in the order in which they were learned, all shifted by the number of special tokens
    /// where those come first.
    ///
    /// # Errors
    /// A special token is empty, there twice, or equal to a token that was learned.
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
        let id = |token: u32| TokenId::from_index(first_token + place(token));
        let mut tokens: Vec<Box<[u8]>> = (0..=255u8).map(|byte| Box::from([byte])).collect();
        let mut ranked = Vec::with_capacity(merges.len());
        for (merge, rank) in merges.iter().zip(0u32..) {
            let parts = [&*tokens[place(merge.left)], &*tokens[place(merge.right)]];
            let token = parts.concat().into_boxed_slice();
            let (left, right, result) = (id(merge.left), id(merge.right), id(low32(tokens.len())));
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
    // The bytes of most tokens need not be looked at.
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

/// The tokens of single bytes.
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

/// Whether so many tokens may have ids up to this one.
pub(super) fn check_holes(tokens: usize, highest: TokenId) -> Result<(), Fault> {
    match highest.index() < tokens + MAX_HOLES {
        true => Ok(()),
        false => Err(Fault::Holes { tokens, highest, limit: MAX_HOLES }),
    }
}

/// Tokens by their ids, and which of these are added tokens only.
type ById = (Vec<Option<Box<[u8]>>>, Vec<TokenId>);

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

/// Gives the lowest rank 0, the next higher 1, and so on; equal ranks stay equal.
fn number_ranks(merges: &mut [RankedMerge]) {
    let (mut last, mut number) = (merges.first().map_or(0, |merge| merge.rank), 0);
    for merge in merges {
        if merge.rank != last {
            (last, number) = (merge.rank, number + 1);
        }
        merge.rank = number;
    }
}
