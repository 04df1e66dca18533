use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::{RankedMerge, SpecialToken, Vocabulary};
use crate::error::{Error, ErrorKind, Result};
use crate::split::SplitPattern;
use crate::train::Merges;
use crate::units::{TokenId, low32, place};

/// A vocabulary may leave this many ids unused; a damaged file with one id near 2³² would otherwise
/// ask for as much memory.
const MAX_HOLES: usize = 1 << 20;

/// What a [`Vocabulary`] is made of, in any order and not checked yet.
#[derive(Clone, Debug)]
pub struct VocabularyParts {
    /// The tokens that are not special, with their bytes.
    pub tokens: Vec<(TokenId, Box<[u8]>)>,
    /// The special tokens.
    pub specials: Vec<SpecialToken>,
    /// The merges. Only the order of their ranks counts.
    pub merges: Vec<RankedMerge>,
    /// How text is cut before it is encoded.
    pub split: SplitPattern,
    /// Whether a piece that is a token as a whole becomes that token whatever the merges make of it.
    pub ignore_merges: bool,
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
            specials: (first_special..)
                .zip(specials)
                .map(|(id, text)| SpecialToken { id: TokenId::from_index(id), text: text.clone() })
                .collect(),
            merges: ranked,
            split,
            ignore_merges: false,
        };
        parts.build().map_err(|fault| Error::new(ErrorKind::Usage, fault))
    }
}

impl VocabularyParts {
    pub(super) fn build(self) -> Result<Vocabulary, Fault> {
        let VocabularyParts { tokens: ordinary, mut specials, mut merges, split, ignore_merges } = self;
        specials.sort_by_key(|special| special.id);
        check_specials(&specials, &ordinary)?;
        let byte_ids = byte_ids(&ordinary)?;
        let tokens = by_id(ordinary, &specials)?;
        merges.sort_by_key(|merge| (merge.rank, merge.left, merge.right));
        check_merges(&merges, &tokens, &specials)?;
        number_ranks(&mut merges);
        Ok(Vocabulary { tokens, byte_ids, merges, specials, split, ignore_merges })
    }
}

fn check_specials(specials: &[SpecialToken], ordinary: &[(TokenId, Box<[u8]>)]) -> Result<(), Fault> {
    let mut texts = FxHashSet::default();
    for special in specials {
        if special.text.is_empty() {
            return Err(Fault::SpecialEmpty);
        }
        if !texts.insert(special.text.as_bytes()) {
            return Err(Fault::SpecialTwice(special.text.clone()));
        }
    }
    match ordinary.iter().find(|(_, bytes)| texts.contains(&**bytes)) {
        Some((id, bytes)) => {
            Err(Fault::SpecialIsToken { text: String::from_utf8_lossy(bytes).into_owned(), id: *id })
        }
        None => Ok(()),
    }
}

fn byte_ids(ordinary: &[(TokenId, Box<[u8]>)]) -> Result<[TokenId; 256], Fault> {
    let mut found = [None; 256];
    for (id, bytes) in ordinary {
        match **bytes {
            [] => return Err(Fault::TokenEmpty(*id)),
            [byte] => {
                if let Some(first) = found[usize::from(byte)].replace(*id) {
                    return Err(Fault::ByteTwice { byte, first, second: *id });
                }
            }
            _ => {}
        }
    }
    let mut ids = [TokenId::default(); 256];
    for (byte, (slot, found)) in (0..=255u8).zip(ids.iter_mut().zip(found)) {
        *slot = found.ok_or(Fault::ByteMissing(byte))?;
    }
    Ok(ids)
}

fn by_id(
    ordinary: Vec<(TokenId, Box<[u8]>)>,
    specials: &[SpecialToken],
) -> Result<Vec<Option<Box<[u8]>>>, Fault> {
    let count = ordinary.len() + specials.len();
    let ids = ordinary.iter().map(|(id, _)| *id).chain(specials.iter().map(|special| special.id));
    let highest = ids.max().unwrap_or_default();
    if highest.index() >= count + MAX_HOLES {
        return Err(Fault::Holes { tokens: count, highest, limit: MAX_HOLES });
    }
    let mut tokens = vec![None; highest.index() + 1];
    let special_bytes = specials.iter().map(|special| (special.id, Box::from(special.text.as_bytes())));
    for (id, bytes) in ordinary.into_iter().chain(special_bytes) {
        if tokens[id.index()].replace(bytes).is_some() {
            return Err(Fault::IdTwice(id));
        }
    }
    Ok(tokens)
}

fn check_merges(
    merges: &[RankedMerge],
    tokens: &[Option<Box<[u8]>>],
    specials: &[SpecialToken],
) -> Result<(), Fault> {
    let specials: FxHashMap<TokenId, &str> = specials.iter().map(|s| (s.id, &*s.text)).collect();
    let mut pairs = FxHashSet::default();
    for (index, &RankedMerge { left, right, result, .. }) in merges.iter().enumerate() {
        let merge = index + 1;
        let bytes = |id: TokenId| match (tokens.get(id.index()), specials.get(&id)) {
            (_, Some(&text)) => Err(Fault::MergeSpecial { merge, id, text: text.to_owned() }),
            (Some(Some(bytes)), None) => Ok(&**bytes),
            _ => Err(Fault::MergeUnknown { merge, id }),
        };
        let (start, end, whole) = (bytes(left)?, bytes(right)?, bytes(result)?);
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
