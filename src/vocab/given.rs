use rustc_hash::{FxHashMap, FxHashSet};

use super::list::{listed, not_a_list};
use super::merging::Merging;
use super::{Around, Vocabulary, VocabularyParts, check};
use crate::error::Result;
use crate::hashing::Map;
use crate::train::{Merge, Merges};
use crate::units::{Count, TokenId, low32};

/// The merges of a vocabulary, the first of which are given: training and checking begin with what they make of a text.
/// Those behind them were learned one after the other.
///
/// Tokens are numbered as training numbers them: byte b is b, and merge k makes token 256 + k.
///
/// Given merges are a plain list, which can be carried out merge by merge, or anything else: several merges that make one
/// token or have one rank, parts that only later ones make, whole pieces that are looked up
/// ([`ignore_merges`](Vocabulary::ignore_merges)). Then text is [encoded](GivenMerges::encoder) by them, and in the list they
/// stand by the length of their tokens, so that parts come before what is made of them. A token that several of them make
/// has the number of the first.
#[derive(Clone, Debug)]
pub struct GivenMerges {
    merges: Merges,
    given: usize,
    /// The token of each number.
    ids: Vec<TokenId>,
    /// Which of the vocabulary's merges each is.
    ranks: Vec<usize>,
    encoding: Option<Encoding>,
}

/// How text is encoded by merges that are no plain list.
#[derive(Clone, Debug, Default)]
struct Encoding {
    pairs: FxHashMap<(u32, u32), Joined>,
    /// The pieces that become a token whatever merges make of them; `None` of a token that merges never make, which takes
    /// no part in any.
    whole: Map<Box<[u8]>, Option<u32>>,
}

#[derive(Clone, Copy, Debug)]
struct Joined {
    rank: u32,
    result: u32,
    /// The merge's place in the list.
    index: usize,
}

impl Vocabulary {
    /// The merges, of which the first `given`, at most all, are carried out as they stand, whatever they are.
    ///
    /// # Errors
    /// Those behind the given ones are no plain list.
    pub fn given_merges(&self, given: usize) -> Result<GivenMerges> {
        let given = given.min(self.merges.len());
        // Where merges are checked from the first on, pieces are bytes.
        let from_bytes = given == 0 && !self.merges.is_empty();
        let looked_up = self.ignore_merges && !from_bytes && self.looks_up(given);
        let plain = if looked_up { None } else { self.as_list(given).ok() };
        let (first, mut numbers, mut ids, ranks, encoding) = match plain {
            Some((merges, numbers)) => {
                let made = self.merges.iter().take(given).map(|merge| merge.result);
                let ids = self.byte_ids.into_iter().chain(made).collect();
                (merges, numbers, ids, (0..given).collect(), None)
            }
            None if from_bytes => (Merges::default(), self.numbers(), self.byte_ids.to_vec(), vec![], None),
            None => self.by_length(given),
        };
        let mut merges: Vec<Merge> = first.iter().copied().collect();
        let mut ranks: Vec<usize> = ranks;
        for (index, merge) in self.merges.iter().enumerate().skip(given) {
            if index > 0 && merge.rank == self.merges[index - 1].rank {
                return Err(not_a_list(format!("merges {index} and {} have the same rank", index + 1)));
            }
            merges.push(listed(merge, index, &mut numbers).map_err(not_a_list)?);
            ids.push(merge.result);
            ranks.push(index);
        }
        Ok(GivenMerges { merges: Merges::new(merges), given, ids, ranks, encoding })
    }

    /// The numbers of the bytes.
    fn numbers(&self) -> FxHashMap<TokenId, u32> {
        (0..).zip(self.byte_ids).map(|(byte, id)| (id, byte)).collect()
    }

    /// Whether some token of the first merges comes about as a whole piece alone.
    fn looks_up(&self, given: usize) -> bool {
        let later = self.made_later(given);
        let mut parts = VocabularyParts { around: Around::default(), ..self.parts() };
        parts.merges.truncate(given);
        parts.tokens.retain(|(id, _)| !later.contains(id));
        parts.build().is_ok_and(|vocabulary| check(&vocabulary).not_self_encoding > 0)
    }

    /// The tokens that only merges behind the first `given` make.
    fn made_later(&self, given: usize) -> FxHashSet<TokenId> {
        let (first, later) = self.merges.split_at(given);
        let first: FxHashSet<TokenId> = first.iter().map(|merge| merge.result).collect();
        later.iter().map(|merge| merge.result).filter(|id| !first.contains(id)).collect()
    }

    /// The first merges by the length of their tokens, the number of each token, the token of each number, which merge each
    /// is, and how text is encoded by them.
    #[expect(clippy::type_complexity, reason = "taken apart at once")]
    fn by_length(
        &self,
        given: usize,
    ) -> (Merges, FxHashMap<TokenId, u32>, Vec<TokenId>, Vec<usize>, Option<Encoding>) {
        let mut numbers = self.numbers();
        let mut ids = self.byte_ids.to_vec();
        let length = |id: TokenId| self.bytes(id).map_or(0, <[u8]>::len);
        let mut ranks: Vec<usize> = (0..given).collect();
        ranks.sort_by_key(|&rank| length(self.merges[rank].result));
        let (mut merges, mut encoding) = (Vec::with_capacity(given), Encoding::default());
        for (index, &rank) in ranks.iter().enumerate() {
            let merge = &self.merges[rank];
            ids.push(merge.result);
            let parts = (numbers.get(&merge.left).copied(), numbers.get(&merge.right).copied());
            let (Some(left), Some(right)) = parts else {
                // A part that no merge makes is never there. The place in the list is kept.
                merges.push(Merge { left: 0, right: 0, count: Count::ZERO });
                continue;
            };
            merges.push(Merge { left, right, count: Count::ZERO });
            let result = *numbers.entry(merge.result).or_insert(256 + low32(index));
            encoding.pairs.insert((left, right), Joined { rank: merge.rank, result, index });
        }
        if self.ignore_merges {
            let later = self.made_later(given);
            let pieces = self.ordinary().filter(|(id, _)| !later.contains(id));
            // Of equal ones the lowest id counts.
            for (id, bytes) in pieces {
                encoding.whole.entry(bytes.into()).or_insert_with(|| numbers.get(&id).copied());
            }
        }
        (Merges::new(merges), numbers, ids, ranks, Some(encoding))
    }
}

impl GivenMerges {
    /// All merges, as training numbers tokens.
    pub fn merges(&self) -> &Merges {
        &self.merges
    }

    /// How many of them are given.
    pub fn given(&self) -> usize {
        self.given
    }

    /// The token of each number.
    pub fn ids(&self) -> &[TokenId] {
        &self.ids
    }

    /// What follows the order of this list in the order of the vocabulary's merges. What goes beyond the list stays behind.
    pub fn by_rank<T: Clone>(&self, of_merges: &[T]) -> Vec<T> {
        let mut ordered = of_merges.to_vec();
        for (value, &rank) in of_merges.iter().zip(&self.ranks) {
            ordered[rank] = value.clone();
        }
        ordered
    }

    /// Encodes pieces by the given merges, if these are no plain list, which can be carried out merge by merge.
    pub fn encoder(&self) -> Option<GivenEncoder<'_>> {
        let encoding = self.encoding.as_ref()?;
        Some(GivenEncoder { encoding, merging: Merging::default(), merged: vec![0; self.given] })
    }
}

/// Encodes pieces by [`GivenMerges`].
pub struct GivenEncoder<'a> {
    encoding: &'a Encoding,
    merging: Merging,
    merged: Vec<u64>,
}

impl std::fmt::Debug for GivenEncoder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GivenEncoder").finish_non_exhaustive()
    }
}

impl GivenEncoder<'_> {
    /// Appends the tokens of a piece that occurs so often. `false` if it is a token that takes no part in any merge, which has no number.
    pub fn append(&mut self, piece: &[u8], count: Count, tokens: &mut Vec<u32>) -> bool {
        let GivenEncoder { encoding, merging, merged } = self;
        if let Some(whole) = encoding.whole.get(piece) {
            tokens.extend(whole);
            return whole.is_some();
        }
        let symbols = piece.iter().map(|&byte| u32::from(byte));
        let lookup = |pair: (u32, u32), _| {
            let joined = encoding.pairs.get(&pair)?;
            Some((joined.rank, joined.result))
        };
        let left = merging.run_told(symbols, lookup, |pair| {
            if let Some(joined) = encoding.pairs.get(&pair) {
                let merged = &mut merged[joined.index];
                *merged = merged.saturating_add(count.get());
            }
        });
        tokens.extend_from_slice(left);
        true
    }

    /// How often each of the given merges was carried out, in the order of the list.
    pub fn into_counts(self) -> Vec<u64> {
        self.merged
    }
}
