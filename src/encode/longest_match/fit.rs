use super::follow::Misfits;
use super::lists::{Item, Lists};
use crate::base::huge_pages;
use crate::base::int::{to_usize, truncate_to_u32};

/// Columns in a group (64 words), and in a word.
const GROUP: u32 = 4096;
const WORD: u32 = u64::BITS;

/// Most groups and most words, 256 MiB each. More groups than that need about a million tokens; more words occur
/// only with constructed vocabularies.
const MOST_GROUPS: usize = 1 << 24;
const MOST_WORDS: usize = 1 << 25;

/// Which pairs of tokens are compatible: a bit matrix that is looked up by row (left token) and column (right
/// token).
///
/// Tokens with the same incompatible followers share a row. Tokens that are adjacent in
/// [order](super::follow::Order) and are incompatible after the same tokens share a column. So 32 768 tokens have
/// about 14 000 rows and 16 000 columns. A set bit means incompatible. Few bits are set, and most of them are
/// adjacent, so only words that are not zero are stored, and equal lists of words are stored once.
///
/// **Memory:** 16 bytes per row for each 4 096 columns, and 8 per stored word: 3 MB for 32 768 tokens.
#[derive(Debug)]
pub(super) struct Fitting {
    groups: Box<[Group]>,
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

impl Item for u64 {
    fn bits(self) -> u64 {
        self
    }
}

impl Fitting {
    /// Builds the matrix from the sets of incompatible tokens, which are given as numbers below `numbers`. Also
    /// returns the column of each number. `None` if the matrix would take too much memory.
    pub(super) fn new(sets: &Lists<Misfits>, numbers: usize) -> Option<(Fitting, Vec<u32>)> {
        let columns = columns(sets, numbers);
        let groups_a_row = to_usize(columns[numbers] / GROUP) + 1;
        if sets.len().saturating_mul(groups_a_row) > MOST_GROUPS {
            return None;
        }
        let mut groups = Vec::with_capacity(sets.len() * groups_a_row);
        let mut words = Lists::new(&[]);
        let mut row = Row::default();
        for set in 0..sets.len() {
            let misfits = sets.get(truncate_to_u32(set)).iter();
            let mut misfits =
                misfits.map(|&(first, end)| (columns[to_usize(first)], columns[to_usize(end)])).peekable();
            for group in (0..truncate_to_u32(groups_a_row)).map(|group| group * GROUP) {
                row.clear();
                while let Some(&(first, end)) = misfits.peek().filter(|(first, _)| *first < group + GROUP) {
                    row.add(first.max(group) - group, end.min(group + GROUP) - group);
                    if end > group + GROUP {
                        break;
                    }
                    misfits.next();
                }
                // Most groups have no set bit.
                let list = if row.kept == 0 { 0 } else { words.number(&row.words) };
                groups.push(Group { kept: row.kept, first: truncate_to_u32(words.range(list).start) });
            }
            if words.items() > MOST_WORDS {
                return None;
            }
        }
        Some((Fitting { groups: groups.into(), words: words.into_items().into() }, columns))
    }

    /// Start of the row of a set.
    pub(super) fn row(set: u32, columns: &[u32]) -> u32 {
        set * (columns[columns.len() - 1] / GROUP + 1)
    }

    /// Whether a token of this column is compatible after one of this row.
    #[inline(always)] // Once per token.
    pub(super) fn fits(&self, row: u32, column: u32) -> bool {
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
    kept: u64,
    words: Vec<u64>,
}

impl Row {
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
fn columns(sets: &Lists<Misfits>, numbers: usize) -> Vec<u32> {
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Intervals in order that do not touch, given the gap before each and its length.
    fn intervals(steps: &[(u32, u32)]) -> Vec<Misfits> {
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
        fn what_is_in_no_set_fits(
            sets in vec(prop_oneof![vec((1..4_u32, 1..4_u32), 0..3000), vec((0..400_u32, 1..4000_u32), 0..3)], 0..4),
            more in 0..70_usize,
        ) {
            let mut lists = Lists::new(&[]);
            let sets: Vec<Vec<Misfits>> = sets.iter().map(|steps| intervals(steps)).collect();
            // Only at the start may a gap be 0.
            let apart = |set: &&Vec<Misfits>| set.windows(2).all(|pair| pair[0].1 < pair[1].0);
            let numbered: Vec<(u32, &Vec<Misfits>)> =
                sets.iter().filter(apart).map(|set| (lists.number(set), set)).collect();
            let numbers = sets.iter().flatten().map(|misfits| to_usize(misfits.1)).max().unwrap_or(0) + more;
            let (fitting, columns) = Fitting::new(&lists, numbers).expect("little memory");
            for (list, set) in numbered {
                let row = Fitting::row(list, &columns);
                let mut fit = vec![true; numbers];
                set.iter().for_each(|&(first, end)| fit[to_usize(first)..to_usize(end)].fill(false));
                for (number, (fit, &column)) in fit.into_iter().zip(&columns).enumerate() {
                    prop_assert_eq!(fitting.fits(row, column), fit, "{}", number);
                }
            }
        }
    }
}
