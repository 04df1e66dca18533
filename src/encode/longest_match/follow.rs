use std::cmp::Reverse;
use std::iter;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use rayon::iter::ParallelIterator;
use rayon::slice::ParallelSlice;

use super::lists::{Item, Lists};
use crate::units::{low32, place, place64};
use crate::vocab::{RankedMerge, Vocabulary};

/// So many intervals of tokens that do not fit are looked at for each token, and so many more: eight times as many as
/// vocabularies that were learned have.
const PATIENCE: usize = 256;
const LEAST_PATIENCE: usize = 1 << 20;

/// So many tokens are looked at by all threads before their sets are numbered, and so many by one at a time.
const AT_A_TIME: usize = if cfg!(test) { 64 } else { 1 << 14 };
const PART: usize = if cfg!(test) { 16 } else { 1 << 10 };

/// Classes of bytes.
const CLASSES: usize = 64;

/// The numbers of tokens that do not fit: the first, and the first after them.
pub(super) type Misfits = (u32, u32);

/// What does not fit after some tokens.
#[derive(Default)]
struct Found {
    /// Of the last token, before they were put together.
    sorted: Vec<u64>,
    misfits: Vec<Misfits>,
    /// Where those of each token end.
    ends: Vec<usize>,
}

/// Which tokens fit after a given one.
///
/// While two tokens that stand beside each other are made, the tokens at the border between them are, on
/// the left, the left one's last byte, then what that is merged into, and so on up to the left token
/// itself; on the right likewise, from the first byte on. The two do not fit exactly if at some time the two
/// tokens at the border have a merge of that time: the first such merge is carried out in the encoding of
/// both, as until then all went as it goes alone. A token is at the border until the merge that takes it
/// up. At the very time of that merge it is still there for one that crosses if it is the right one (all
/// three are then equal, and the merge goes from left to right), but not if it is the left one.
///
/// So each merge that has at its left a token from the end of the given one, and a lower rank than what
/// takes that up, keeps from fitting what begins with its right part and takes that up at its own rank or
/// later. Tokens are numbered so that these stand together, and what does not fit is a few intervals: depth first by their
/// left parts, of those with the same left part the later ones first.
pub(super) struct Order {
    /// The number of each token.
    number: Vec<u32>,
    /// After the last that begins with each token.
    end: Vec<u32>,
    /// The merges that each token is the left part of, by rank.
    merges: Vec<Vec<RankedMerge>>,
    /// The rank of each of these, and the tokens that it keeps from fitting after its left part.
    kept_off: Vec<Vec<(u32, Misfits)>>,
    /// The right part of each token, and the rank of the merge that made it.
    ends: Vec<Option<(u32, u32)>>,
    /// The class of each byte.
    class: [u8; 256],
    /// Where the tokens stand that begin with the bytes of each class.
    classes: Vec<Range<u32>>,
}

impl Order {
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

    /// The class of each byte.
    pub(super) fn classes(&self) -> [u8; 256] {
        self.class
    }

    /// The number of a token.
    pub(super) fn number(&self, token: u32) -> u32 {
        self.number[place(token)]
    }

    /// How many numbers there are.
    pub(super) fn numbers(&self) -> usize {
        self.classes.last().map_or(0, |last| place(last.end))
    }

    /// One bit a class of bytes, clear if no token that begins with one of them fits, given those that do not.
    pub(super) fn followers(&self, misfits: &[Misfits]) -> u64 {
        let mut followers = u64::MAX;
        for &(first, end) in misfits {
            let from = self.classes.partition_point(|class| class.start < first);
            let inside = self.classes.iter().enumerate().skip(from).take_while(|(_, class)| class.end <= end);
            inside.for_each(|(class, _)| followers &= !(1 << class));
        }
        followers
    }

    /// The set of the tokens that do not fit after each, by id; those that are no tokens have the first, which is empty.
    /// `None` if that takes too long: of made up vocabularies each token can keep off as many intervals as there are
    /// tokens.
    pub(super) fn sets_after(&self) -> Option<(Vec<u32>, Lists<Misfits>)> {
        let mut sets = Lists::new(&[]);
        let mut sets_after = Vec::with_capacity(self.ends.len());
        let patience = AtomicUsize::new(LEAST_PATIENCE + PATIENCE * self.ends.len());
        let tokens: Vec<u32> = (0..low32(self.ends.len())).collect();
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

    /// The sets of some tokens; `None` if all threads together look at more than `patience`.
    fn misfits_of(&self, tokens: &[u32], patience: &AtomicUsize) -> Option<Found> {
        let mut found = Found::default();
        for &token in tokens {
            let looked_at = self.add_misfits(token, &mut found);
            patience.try_update(Relaxed, Relaxed, |left| left.checked_sub(looked_at)).ok()?;
        }
        Some(found)
    }

    /// Adds the intervals of tokens that do not fit after this one, in order and apart. Gives how many steps that took, and
    /// intervals before they were put together.
    fn add_misfits(&self, token: u32, found: &mut Found) -> usize {
        let mut steps = 0;
        found.sorted.clear();
        // From the token itself, which nothing takes up, to its last byte.
        let mut at_border = Some((token, u32::MAX));
        while let Some((left, until)) = at_border {
            let merges = self.kept_off[place(left)].iter().take_while(|(rank, _)| *rank < until);
            found.sorted.extend(merges.map(|(_, misfits)| misfits.bits()));
            at_border = self.ends[place(left)];
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

    /// The rank of a merge, and the tokens that it keeps from fitting after its left part.
    fn kept_off(&self, merge: &RankedMerge) -> (u32, Misfits) {
        let right = merge.right.get();
        (merge.rank, (self.number(right), self.end_from(right, merge.rank)))
    }

    /// After the last token that begins with this one, whole or taken up at this rank or later.
    fn end_from(&self, token: u32, rank: u32) -> u32 {
        let merges = &self.merges[place(token)];
        let earlier = merges.partition_point(|merge| merge.rank < rank);
        match earlier.checked_sub(1) {
            Some(latest) => self.number(merges[latest].result.get()),
            None => self.end[place(token)],
        }
    }

    /// Numbers byte by byte. Those bytes that begin the most tokens have a class of their own; the others
    /// come last and have one together.
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

    /// Numbers a byte's token and all that begin with it, from `next` on.
    fn number_below(&mut self, byte: u32, next: &mut u32) {
        let mut open = vec![(byte, false)];
        while let Some((token, done)) = open.pop() {
            if done {
                self.end[place(token)] = *next;
                continue;
            }
            self.number[place(token)] = *next;
            *next += 1;
            open.push((token, true));
            // The last to be put here is taken first.
            open.extend(self.merges[place(token)].iter().map(|merge| (merge.result.get(), false)));
        }
    }
}

/// The interval that has these [bits](Item::bits).
fn interval(bits: u64) -> Misfits {
    let low = |bits: u64| low32(place64(bits & u64::from(u32::MAX)));
    (low(bits >> u32::BITS), low(bits))
}
