//! Which tokens can be adjacent in an encoding: finds the incompatible pairs of a vocabulary, and stores them in a
//! compressed bit matrix.

use std::cmp::Reverse;
use std::iter;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use rayon::iter::ParallelIterator;
use rayon::slice::ParallelSlice;

use crate::base::hash::HashIndex;
use crate::base::huge_pages;
use crate::base::int::{to_u64, to_usize, truncate_to_u32, u64_to_usize};
use crate::vocab::{RankedMerge, Vocabulary};

/// Maximum number of intervals of incompatible tokens that are examined: `BUDGET` per token and `MIN_BUDGET` more. This
/// is eight times what learned vocabularies have.
const BUDGET: usize = 256;
/// Intervals that even a small vocabulary may have.
const MIN_BUDGET: usize = 1 << 20;

/// Tokens that all threads examine before their sets are numbered.
const AT_A_TIME: usize = if cfg!(test) { 64 } else { 1 << 14 };
/// Tokens that one thread examines at a time.
const PART: usize = if cfg!(test) { 16 } else { 1 << 10 };

/// Number of byte classes.
const CLASSES: usize = 64;

/// An interval of incompatible tokens by their numbers: the first, and the first after the interval.
pub(super) type IncompatibleRange = (u32, u32);

/// The incompatible followers of some tokens.
#[derive(Default)]
struct FoundRanges {
    /// Intervals of the last token, before overlapping ones are joined.
    sorted: Vec<u64>,
    /// The intervals of all tokens, one token after the other. Those of a token are ascending and do not overlap.
    incompatible: Vec<IncompatibleRange>,
    /// The end of each token's intervals in `incompatible`.
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
pub(super) struct FollowOrder {
    /// The number of each token, by id.
    number: Vec<u32>,
    /// For each token, the number after the last token that begins with it.
    end: Vec<u32>,
    /// For each token, the merges that it is the left part of, by rank.
    merges: Vec<Vec<RankedMerge>>,
    /// For each of these merges, its rank and the tokens that it makes incompatible after its left part.
    excluded: Vec<Vec<(u32, IncompatibleRange)>>,
    /// For each token that a merge makes, its right part and the rank of that merge.
    ends: Vec<Option<(u32, u32)>>,
    /// The class of each byte value.
    class: [u8; 256],
    /// For each class, the numbers of the tokens that begin with a byte of the class.
    classes: Vec<Range<u32>>,
}

impl FollowOrder {
    /// Numbers the tokens of a vocabulary that allows backtracking.
    pub(super) fn new(vocabulary: &Vocabulary) -> FollowOrder {
        let limit = vocabulary.id_limit();
        let (mut merges, mut ends) = (vec![Vec::new(); limit], vec![None; limit]);
        for merge in vocabulary.merges() {
            merges[merge.left.index()].push(*merge);
            ends[merge.result.index()] = Some((merge.right.get(), merge.rank));
        }
        let mut order = FollowOrder {
            number: vec![0; limit],
            end: vec![0; limit],
            merges,
            excluded: Vec::new(),
            ends,
            class: [0; 256],
            classes: Vec::new(),
        };
        order.number_all(vocabulary);
        let excluded = |merges: &Vec<RankedMerge>| merges.iter().map(|merge| order.excluded(merge)).collect();
        order.excluded = order.merges.iter().map(excluded).collect();
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

    /// One bit per byte class, clear if all tokens that begin with a byte of the class are among `incompatible`, so
    /// none of them is compatible.
    pub(super) fn followers(&self, incompatible: &[IncompatibleRange]) -> u64 {
        let mut followers = u64::MAX;
        for &(first, end) in incompatible {
            let from = self.classes.partition_point(|class| class.start < first);
            let inside = self.classes.iter().enumerate().skip(from).take_while(|(_, class)| class.end <= end);
            inside.for_each(|(class, _)| followers &= !(1 << class));
        }
        followers
    }

    /// For each token by id, the number of the set of tokens that are not compatible after it; and the sets. Ids
    /// that are not in use have set 0, which is empty. `None` if this takes too long: in constructed vocabularies
    /// each token can have as many intervals as there are tokens.
    pub(super) fn sets_after(&self) -> Option<(Vec<u32>, InternedLists<IncompatibleRange>)> {
        let mut sets = InternedLists::new(&[]);
        let mut sets_after = Vec::with_capacity(self.ends.len());
        let budget = AtomicUsize::new(MIN_BUDGET + BUDGET * self.ends.len());
        let tokens: Vec<u32> = (0..truncate_to_u32(self.ends.len())).collect();
        for tokens in tokens.chunks(AT_A_TIME) {
            let found: Vec<Option<FoundRanges>> =
                tokens.par_chunks(PART).map(|tokens| self.incompatible_ranges(tokens, &budget)).collect();
            for found in found {
                let FoundRanges { incompatible, ends, .. } = found?;
                let starts = iter::once(0).chain(ends.iter().copied());
                sets_after
                    .extend(starts.zip(&ends).map(|(start, &end)| sets.number(&incompatible[start..end])));
            }
        }
        Some((sets_after, sets))
    }

    /// The intervals of some tokens; `None` if all threads together exceed `budget`.
    fn incompatible_ranges(&self, tokens: &[u32], budget: &AtomicUsize) -> Option<FoundRanges> {
        let mut found = FoundRanges::default();
        for &token in tokens {
            let examined = self.add_incompatible(token, &mut found);
            budget.try_update(Relaxed, Relaxed, |left| left.checked_sub(examined)).ok()?;
        }
        Some(found)
    }

    /// Adds the intervals of tokens that are incompatible after `token`, in order and without overlaps. Returns
    /// the number of steps, plus that of intervals before they were joined.
    fn add_incompatible(&self, token: u32, found: &mut FoundRanges) -> usize {
        let mut steps = 0;
        found.sorted.clear();
        // From the token itself, which no merge absorbs, down to its last byte.
        let mut at_border = Some((token, u32::MAX));
        while let Some((left, until)) = at_border {
            let merges = self.excluded[to_usize(left)].iter().take_while(|(rank, _)| *rank < until);
            found.sorted.extend(merges.map(|(_, incompatible)| incompatible.bits()));
            at_border = self.ends[to_usize(left)];
            steps += 1;
        }
        found.sorted.sort_unstable();
        let start = found.incompatible.len();
        for &bits in &found.sorted {
            let (first, end) = interval(bits);
            match found.incompatible[start..].last_mut().filter(|last| first <= last.1) {
                Some(last) => last.1 = last.1.max(end),
                None => found.incompatible.push((first, end)),
            }
        }
        found.ends.push(found.incompatible.len());
        steps + found.sorted.len()
    }

    /// The rank of a merge, and the tokens that it makes incompatible after its left part.
    fn excluded(&self, merge: &RankedMerge) -> (u32, IncompatibleRange) {
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
        let mut first_byte_counts = [0_u32; 256];
        for (_, bytes) in vocabulary.ordinary() {
            first_byte_counts[usize::from(bytes[0])] += 1;
        }
        let mut bytes: Vec<u8> = (0..=u8::MAX).collect();
        bytes.sort_by_key(|&byte| Reverse(first_byte_counts[usize::from(byte)]));
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

/// The interval with these [bits](ListItem::bits).
fn interval(bits: u64) -> IncompatibleRange {
    let low = |bits: u64| truncate_to_u32(u64_to_usize(bits & u64::from(u32::MAX)));
    (low(bits >> u32::BITS), low(bits))
}

/// Columns in a group (64 words), and in a word.
const GROUP: u32 = 4096;
/// Columns in a word: one bit each.
const WORD: u32 = u64::BITS;

/// Maximum number of groups (256 MiB). Only vocabularies of about a million tokens need more.
const MAX_GROUPS: usize = 1 << 24;
/// Maximum number of words (256 MiB). Only constructed vocabularies need more.
const MAX_WORDS: usize = 1 << 25;

/// Which pairs of tokens are compatible: a bit matrix that is looked up by row (left token) and column (right
/// token).
///
/// Tokens with the same incompatible followers share a row. Tokens that are adjacent in
/// [order](FollowOrder) and are incompatible after the same tokens share a column. So 32 768 tokens have
/// about 14 000 rows and 16 000 columns. A set bit means incompatible. Few bits are set, and most of them are
/// adjacent, so only words that are not zero are stored, and equal lists of words are stored once.
///
/// **Memory:** 16 bytes per row for each 4 096 columns, and 8 per stored word: 3 MB for 32 768 tokens.
#[derive(Debug)]
pub(super) struct CompatibleMatrix {
    /// The groups of all rows, one row after the other. All rows have equally many.
    groups: Box<[Group]>,
    /// Words that are not zero. Groups with equal lists of words share them.
    words: Box<[u64]>,
}

/// 4 096 columns of a row.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// One bit per word, set if the word is stored because it is not zero.
    kept: u64,
    /// Index of the first stored word of this group.
    first: u32,
}

impl Group {
    /// Index of a word of this group, if it is stored.
    #[inline(always)]
    fn place(self, word: u32) -> usize {
        to_usize(self.first + (self.kept & ((1 << word) - 1)).count_ones())
    }
}

impl ListItem for u64 {
    fn bits(self) -> u64 {
        self
    }
}

impl CompatibleMatrix {
    /// Builds the matrix from the sets of incompatible tokens, which are given as numbers below `numbers`. Also
    /// returns the column of each number. `None` if the matrix would take too much memory.
    pub(super) fn new(
        sets: &InternedLists<IncompatibleRange>,
        numbers: usize,
    ) -> Option<(CompatibleMatrix, Vec<u32>)> {
        let columns = columns(sets, numbers);
        let groups_a_row = to_usize(columns[numbers] / GROUP) + 1;
        if sets.len().saturating_mul(groups_a_row) > MAX_GROUPS {
            return None;
        }
        let mut groups = Vec::with_capacity(sets.len() * groups_a_row);
        let mut words = InternedLists::new(&[]);
        let mut row = Row::default();
        for set in 0..sets.len() {
            let incompatible = sets.get(truncate_to_u32(set)).iter();
            let mut incompatible = incompatible
                .map(|&(first, end)| (columns[to_usize(first)], columns[to_usize(end)]))
                .peekable();
            for group in (0..truncate_to_u32(groups_a_row)).map(|group| group * GROUP) {
                row.clear();
                while let Some(&(first, end)) =
                    incompatible.peek().filter(|(first, _)| *first < group + GROUP)
                {
                    row.add(first.max(group) - group, end.min(group + GROUP) - group);
                    if end > group + GROUP {
                        break;
                    }
                    incompatible.next();
                }
                // Most groups have no set bit.
                let list = if row.kept == 0 { 0 } else { words.number(&row.words) };
                groups.push(Group { kept: row.kept, first: truncate_to_u32(words.range(list).start) });
            }
            if words.items.len() > MAX_WORDS {
                return None;
            }
        }
        Some((CompatibleMatrix { groups: groups.into(), words: words.items.into() }, columns))
    }

    /// Start of the row of a set.
    pub(super) fn row(set: u32, columns: &[u32]) -> u32 {
        set * (columns[columns.len() - 1] / GROUP + 1)
    }

    /// Whether a token of this column is compatible after one of this row.
    #[inline(always)] // Once per token.
    pub(super) fn is_compatible(&self, row: u32, column: u32) -> bool {
        let (group, word) = self.group(row, column);
        group.kept >> word & 1 == 0 || self.words[group.place(word)] >> (column % WORD) & 1 == 0
    }

    /// The group of a column, and the index of the column's word within it.
    #[inline(always)]
    fn group(&self, row: u32, column: u32) -> (Group, u32) {
        (self.groups[to_usize(row + column / GROUP)], column / WORD % (GROUP / WORD))
    }

    /// Prefetches the group, which a lookup reads first.
    pub(super) fn fetch(&self, row: u32, column: u32) {
        huge_pages::fetch(&self.groups, to_usize(row + column / GROUP));
    }

    /// Prefetches the word, which a lookup reads second.
    #[inline]
    pub(super) fn fetch_word(&self, row: u32, column: u32) {
        let (group, word) = self.group(row, column);
        huge_pages::fetch(&self.words, group.place(word));
    }
}

/// The words of a group that are not zero, while it is built.
#[derive(Debug, Default)]
struct Row {
    /// One bit per word of the group, set if the word is in `words`.
    kept: u64,
    /// The words that are not zero, in order.
    words: Vec<u64>,
}

impl Row {
    /// Starts another group, with no bits set. The memory is reused.
    fn clear(&mut self) {
        self.kept = 0;
        self.words.clear();
    }

    /// Sets the bits of the columns from `first` to before `end`, which must come after all that are set.
    fn add(&mut self, first: u32, end: u32) {
        for word in first / WORD..=(end - 1) / WORD {
            let start = word * WORD;
            let below = |bit: u32| u64::MAX.unbounded_shr(WORD - bit.min(WORD));
            let bits = below(end - start) & !below(first.saturating_sub(start));
            match self.words.last_mut().filter(|_| self.kept >> word & 1 == 1) {
                Some(last) => *last |= bits,
                None => self.words.push(bits),
            }
            self.kept |= 1 << word;
        }
    }
}

/// The column of each number, and of the number after the last. A new column begins wherever an interval of some
/// set begins or ends.
fn columns(sets: &InternedLists<IncompatibleRange>, numbers: usize) -> Vec<u32> {
    let mut begins = vec![false; numbers + 1];
    for set in 0..sets.len() {
        for &(first, end) in sets.get(truncate_to_u32(set)) {
            (begins[to_usize(first)], begins[to_usize(end)]) = (true, true);
        }
    }
    let column = |column: &mut u32, begins: bool| {
        *column += u32::from(begins);
        Some(*column)
    };
    begins.into_iter().scan(0, column).collect()
}

/// Short lists without duplicates, each identified by a number.
#[derive(Debug)]
pub(super) struct InternedLists<T> {
    /// The items of all lists, concatenated in the order of the lists' numbers.
    pub(super) items: Vec<T>,
    /// The end of each list in `items`, where the next one begins.
    ends: Vec<u32>,
    /// Finds a list's number by a hash of its items.
    index: HashIndex,
}

/// An item of such lists.
pub(super) trait ListItem: Copy + Eq {
    /// The item as a number, or a hash of it.
    fn bits(self) -> u64;
}

impl ListItem for IncompatibleRange {
    fn bits(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.1)
    }
}

impl<T: ListItem> InternedLists<T> {
    /// Creates the lists, with `first` as number 0.
    pub(super) fn new(first: &[T]) -> InternedLists<T> {
        let mut lists = InternedLists { items: Vec::new(), ends: Vec::new(), index: HashIndex::default() };
        lists.number(first);
        lists
    }

    /// Number of lists.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The list with this number.
    pub(super) fn get(&self, number: u32) -> &[T] {
        &self.items[self.range(number)]
    }

    /// The range of a list among the items of all lists.
    pub(super) fn range(&self, number: u32) -> Range<usize> {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[to_usize(before)]);
        to_usize(start)..to_usize(self.ends[to_usize(number)])
    }

    /// Prefetches the item at an index.
    pub(super) fn fetch(&self, at: usize) {
        huge_pages::fetch(&self.items, at);
    }

    /// The number of a list; adds it if it is new.
    pub(super) fn number(&mut self, list: &[T]) -> u32 {
        let hash = list.iter().fold(to_u64(list.len()), |hash, item| mixed(hash ^ item.bits()));
        // The index uses numbers from 1 on.
        if let Some(known) = self.index.find(hash, |known| self.get(truncate_to_u32(known - 1)) == list) {
            return truncate_to_u32(known - 1);
        }
        self.items.extend_from_slice(list);
        self.ends.push(truncate_to_u32(self.items.len()));
        self.index.insert(hash, self.len()).expect("a full table comes first");
        truncate_to_u32(self.len() - 1)
    }
}

/// A hash with high bits that depend on all bits.
fn mixed(bits: u64) -> u64 {
    let bits = (bits ^ bits >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (bits ^ bits >> 29).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Intervals in order that do not touch, given the gap before each and its length.
    fn intervals(steps: &[(u32, u32)]) -> Vec<IncompatibleRange> {
        let mut end = 0;
        let interval = |&(gap, length): &(u32, u32)| {
            let first = end + gap;
            end = first + length;
            (first, end)
        };
        steps.iter().map(interval).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

        /// Few columns in some cases, and several groups of them in others.
        #[test]
        fn tokens_in_no_set_are_compatible(
            sets in vec(prop_oneof![vec((1..4_u32, 1..4_u32), 0..3000), vec((0..400_u32, 1..4000_u32), 0..3)], 0..4),
            more in 0..70_usize,
        ) {
            let mut lists = InternedLists::new(&[]);
            let sets: Vec<Vec<IncompatibleRange>> = sets.iter().map(|steps| intervals(steps)).collect();
            // Only at the start may a gap be 0.
            let apart = |set: &&Vec<IncompatibleRange>| set.windows(2).all(|pair| pair[0].1 < pair[1].0);
            let numbered: Vec<(u32, &Vec<IncompatibleRange>)> =
                sets.iter().filter(apart).map(|set| (lists.number(set), set)).collect();
            let numbers = sets.iter().flatten().map(|incompatible| to_usize(incompatible.1)).max().unwrap_or(0) + more;
            let (compatibility, columns) = CompatibleMatrix::new(&lists, numbers).expect("little memory");
            for (list, set) in numbered {
                let row = CompatibleMatrix::row(list, &columns);
                let mut are_compatible = vec![true; numbers];
                set.iter().for_each(|&(first, end)| are_compatible[to_usize(first)..to_usize(end)].fill(false));
                for (number, (are_compatible, &column)) in are_compatible.into_iter().zip(&columns).enumerate() {
                    prop_assert_eq!(compatibility.is_compatible(row, column), are_compatible, "{}", number);
                }
            }
        }
    }
}
