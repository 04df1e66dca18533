use std::cmp::Reverse;
use std::iter;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use rayon::iter::ParallelIterator;
use rayon::slice::ParallelSlice;

use super::lists::{Item, Lists};
use crate::base::int::{to_usize, truncate_to_u32, u64_to_usize};
use crate::vocab::{RankedMerge, Vocabulary};

/// Most intervals of incompatible tokens that are examined: `PATIENCE` per token and `LEAST_PATIENCE` more. This
/// is eight times what learned vocabularies have.
const PATIENCE: usize = 256;
const LEAST_PATIENCE: usize = 1 << 20;

/// Tokens that all threads examine before their sets are numbered, and tokens that one thread examines at a time.
const AT_A_TIME: usize = if cfg!(test) { 64 } else { 1 << 14 };
const PART: usize = if cfg!(test) { 16 } else { 1 << 10 };

/// Number of byte classes.
const CLASSES: usize = 64;

/// An interval of incompatible tokens by their numbers: the first, and the first after the interval.
pub(super) type Misfits = (u32, u32);

/// The incompatible followers of some tokens.
#[derive(Default)]
struct Found {
    /// Intervals of the last token, before overlapping ones are joined.
    sorted: Vec<u64>,
    misfits: Vec<Misfits>,
    /// The end of each token's intervals in `misfits`.
    ends: Vec<usize>,
}

/// For each token, the tokens that are not compatible after it.
///
/// Consider two adjacent tokens while merges build them from bytes. Directly left of the border between them is
/// first the left token's last byte, then what that byte is merged into, and so on up to the whole left token.
/// Directly right of the border it is the same from the right token's first byte on. The two tokens are
/// incompatible exactly if at some rank the two tokens at the border are a pair that merges at that rank. The
/// first such merge is carried out when both are encoded together, because until then each side has been merged
/// as it would be alone. A token stays at the border until the merge that absorbs it into a longer one. At the
/// rank of that very merge, the right one of the border can still be merged across the border (all three tokens
/// are then equal, and the merge goes from left to right), but the left one cannot.
///
/// So take each merge with a left part that is at the border as an end of the given token, and a lower rank than
/// the merge that absorbs that part. It makes incompatible every token that begins with the merge's right part
/// and absorbs that part at the same rank or later. Tokens are numbered so that these are contiguous: depth first
/// by left parts, and of those with the same left part the later ones first. So the incompatible tokens are a few
/// intervals.
pub(super) struct Order {
    /// The number of each token, by id.
    number: Vec<u32>,
    /// For each token, the number after the last token that begins with it.
    end: Vec<u32>,
    /// For each token, the merges that it is the left part of, by rank.
    merges: Vec<Vec<RankedMerge>>,
    /// For each of these merges, its rank and the tokens that it makes incompatible after its left part.
    kept_off: Vec<Vec<(u32, Misfits)>>,
    /// For each token that a merge makes, its right part and the rank of that merge.
    ends: Vec<Option<(u32, u32)>>,
    /// The class of each byte value.
    class: [u8; 256],
    /// For each class, the numbers of the tokens that begin with a byte of the class.
    classes: Vec<Range<u32>>,
}

impl Order {
    /// Numbers the tokens of a vocabulary that allows longest matches.
    pub(super) fn new(vocabulary: &Vocabulary) -> Order {
        let limit = vocabulary.id_limit();
        let (mut merges, mut ends) = (vec![Vec::new(); limit], vec![None; limit]);
        for merge in vocabulary.merges() {
            merges[merge.left.index()].push(*merge);
            ends[merge.result.index()] = Some((merge.right.get(), merge.rank));
        }
        let mut order = Order {
            number: vec![0; limit],
            end: vec![0; limit],
            merges,
            kept_off: Vec::new(),
            ends,
            class: [0; 256],
            classes: Vec::new(),
        };
        order.number_all(vocabulary);
        let kept_off = |merges: &Vec<RankedMerge>| merges.iter().map(|merge| order.kept_off(merge)).collect();
        order.kept_off = order.merges.iter().map(kept_off).collect();
        order
    }

    /// The class of each byte value.
    pub(super) fn classes(&self) -> [u8; 256] {
        self.class
    }

    /// The number of a token.
    pub(super) fn number(&self, token: u32) -> u32 {
        self.number[to_usize(token)]
    }

    /// How many numbers are in use.
    pub(super) fn numbers(&self) -> usize {
        self.classes.last().map_or(0, |last| to_usize(last.end))
    }

    /// One bit per byte class, clear if all tokens that begin with a byte of the class are among `misfits`, so
    /// none of them is compatible.
    pub(super) fn followers(&self, misfits: &[Misfits]) -> u64 {
        let mut followers = u64::MAX;
        for &(first, end) in misfits {
            let from = self.classes.partition_point(|class| class.start < first);
            let inside = self.classes.iter().enumerate().skip(from).take_while(|(_, class)| class.end <= end);
            inside.for_each(|(class, _)| followers &= !(1 << class));
        }
        followers
    }

    /// For each token by id, the number of the set of tokens that are not compatible after it; and the sets. Ids
    /// that are not in use have set 0, which is empty. `None` if this takes too long: in constructed vocabularies
    /// each token can have as many intervals as there are tokens.
    pub(super) fn sets_after(&self) -> Option<(Vec<u32>, Lists<Misfits>)> {
        let mut sets = Lists::new(&[]);
        let mut sets_after = Vec::with_capacity(self.ends.len());
        let patience = AtomicUsize::new(LEAST_PATIENCE + PATIENCE * self.ends.len());
        let tokens: Vec<u32> = (0..truncate_to_u32(self.ends.len())).collect();
        for tokens in tokens.chunks(AT_A_TIME) {
            let found: Vec<Option<Found>> =
                tokens.par_chunks(PART).map(|tokens| self.misfits_of(tokens, &patience)).collect();
            for found in found {
                let Found { misfits, ends, .. } = found?;
                let starts = iter::once(0).chain(ends.iter().copied());
                sets_after.extend(starts.zip(&ends).map(|(start, &end)| sets.number(&misfits[start..end])));
            }
        }
        Some((sets_after, sets))
    }

    /// The intervals of some tokens; `None` if all threads together exceed `patience`.
    fn misfits_of(&self, tokens: &[u32], patience: &AtomicUsize) -> Option<Found> {
        let mut found = Found::default();
        for &token in tokens {
            let looked_at = self.add_misfits(token, &mut found);
            patience.try_update(Relaxed, Relaxed, |left| left.checked_sub(looked_at)).ok()?;
        }
        Some(found)
    }

    /// Adds the intervals of tokens that are incompatible after `token`, in order and without overlaps. Returns
    /// the number of steps, plus that of intervals before they were joined.
    fn add_misfits(&self, token: u32, found: &mut Found) -> usize {
        let mut steps = 0;
        found.sorted.clear();
        // From the token itself, which no merge absorbs, down to its last byte.
        let mut at_border = Some((token, u32::MAX));
        while let Some((left, until)) = at_border {
            let merges = self.kept_off[to_usize(left)].iter().take_while(|(rank, _)| *rank < until);
            found.sorted.extend(merges.map(|(_, misfits)| misfits.bits()));
            at_border = self.ends[to_usize(left)];
            steps += 1;
        }
        found.sorted.sort_unstable();
        let start = found.misfits.len();
        for &bits in &found.sorted {
            let (first, end) = interval(bits);
            match found.misfits[start..].last_mut().filter(|last| first <= last.1) {
                Some(last) => last.1 = last.1.max(end),
                None => found.misfits.push((first, end)),
            }
        }
        found.ends.push(found.misfits.len());
        steps + found.sorted.len()
    }

    /// The rank of a merge, and the tokens that it makes incompatible after its left part.
    fn kept_off(&self, merge: &RankedMerge) -> (u32, Misfits) {
        let right = merge.right.get();
        (merge.rank, (self.number(right), self.end_from(right, merge.rank)))
    }

    /// The number after the last token that begins with `token` and is that token, or absorbs it at this rank or
    /// later.
    fn end_from(&self, token: u32, rank: u32) -> u32 {
        let merges = &self.merges[to_usize(token)];
        let earlier = merges.partition_point(|merge| merge.rank < rank);
        match earlier.checked_sub(1) {
            Some(latest) => self.number(merges[latest].result.get()),
            None => self.end[to_usize(token)],
        }
    }

    /// Numbers the tokens byte by byte. The bytes that begin the most tokens have a class each; the others come
    /// last and share one.
    fn number_all(&mut self, vocabulary: &Vocabulary) {
        let mut begun = [0_u32; 256];
        for (_, bytes) in vocabulary.ordinary() {
            begun[usize::from(bytes[0])] += 1;
        }
        let mut bytes: Vec<u8> = (0..=u8::MAX).collect();
        bytes.sort_by_key(|&byte| Reverse(begun[usize::from(byte)]));
        let mut next = 0;
        for byte in bytes {
            let start = next;
            self.number_below(vocabulary.byte_ids()[usize::from(byte)].get(), &mut next);
            match self.classes.get_mut(CLASSES - 1) {
                Some(last) => last.end = next,
                None => self.classes.push(start..next),
            }
            self.class[usize::from(byte)] = u8::try_from(self.classes.len() - 1).expect("few classes");
        }
    }

    /// Numbers the token of a byte and all tokens that begin with it, from `next` on.
    fn number_below(&mut self, byte: u32, next: &mut u32) {
        let mut open = vec![(byte, false)];
        while let Some((token, done)) = open.pop() {
            if done {
                self.end[to_usize(token)] = *next;
                continue;
            }
            self.number[to_usize(token)] = *next;
            *next += 1;
            open.push((token, true));
            // The last one pushed is popped first.
            open.extend(self.merges[to_usize(token)].iter().map(|merge| (merge.result.get(), false)));
        }
    }
}

/// The interval with these [bits](Item::bits).
fn interval(bits: u64) -> Misfits {
    let low = |bits: u64| truncate_to_u32(u64_to_usize(bits & u64::from(u32::MAX)));
    (low(bits >> u32::BITS), low(bits))
}
