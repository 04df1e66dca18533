use super::follow::Misfits;
use super::lists::{Item, Lists};
use crate::pages;
use crate::units::{low32, place};

/// Columns in a group, and in a word.
const GROUP: u32 = 4096;
const WORD: u32 = u64::BITS;

/// More groups or words than these, 256 MiB each, are too much memory: groups of about a million tokens, and words of made up
/// vocabularies only.
const MOST_GROUPS: usize = 1 << 24;
const MOST_WORDS: usize = 1 << 25;

/// Which tokens fit after which: a matrix of bits, looked up by a row and a column.
///
/// Tokens after which the same tokens fit share a row; those next to each other in [order](super::follow::Order) that fit
/// after the same ones share a column. So 32 768 tokens have some 14 000 rows and 16 000 columns. Few of the bits are set,
/// most of them beside each other, so that only words that are not zero are kept, and equal lists of them once.
///
/// **Memory:** 16 bytes a row for each 4 096 columns, and 8 for each word kept: 3 MB for 32 768 tokens.
#[derive(Debug)]
pub(super) struct Fitting {
    groups: Box<[Group]>,
    words: Box<[u64]>,
}

/// Columns of a row.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// A bit for each word, set if that has one of a token that does not fit.
    kept: u64,
    /// Where the first of the words kept stands.
    first: u32,
}

impl Group {
    /// Where this word stands, if it is kept.
    #[inline(always)]
    fn place(self, word: u32) -> usize {
        place(self.first + (self.kept & ((1 << word) - 1)).count_ones())
    }
}

impl Item for u64 {
    fn bits(self) -> u64 {
        self
    }
}

impl Fitting {
    /// Given the sets of tokens that do not fit, by their numbers below `numbers`. Also gives the column of each number.
    /// `None` if it would take too much memory.
    pub(super) fn new(sets: &Lists<Misfits>, numbers: usize) -> Option<(Fitting, Vec<u32>)> {
        let columns = columns(sets, numbers);
        let groups_a_row = place(columns[numbers] / GROUP) + 1;
        if sets.len().saturating_mul(groups_a_row) > MOST_GROUPS {
            return None;
        }
        let mut groups = Vec::with_capacity(sets.len() * groups_a_row);
        let mut words = Lists::new(&[]);
        let mut row = Row::default();
        for set in 0..sets.len() {
            let misfits = sets.get(low32(set)).iter();
            let mut misfits =
                misfits.map(|&(first, end)| (columns[place(first)], columns[place(end)])).peekable();
            for group in (0..low32(groups_a_row)).map(|group| group * GROUP) {
                row.clear();
                while let Some(&(first, end)) = misfits.peek().filter(|(first, _)| *first < group + GROUP) {
                    row.add(first.max(group) - group, end.min(group + GROUP) - group);
                    if end > group + GROUP {
                        break;
                    }
                    misfits.next();
                }
                // Most have none.
                let list = if row.kept == 0 { 0 } else { words.number(&row.words) };
                groups.push(Group { kept: row.kept, first: low32(words.range(list).start) });
            }
            if words.items() > MOST_WORDS {
                return None;
            }
        }
        Some((Fitting { groups: groups.into(), words: words.into_items().into() }, columns))
    }

    /// Where the row of a set begins.
    pub(super) fn row(set: u32, columns: &[u32]) -> u32 {
        set * (columns[columns.len() - 1] / GROUP + 1)
    }

    /// Whether a token of this column fits after one of this row.
    #[inline(always)] // Once a token.
    pub(super) fn fits(&self, row: u32, column: u32) -> bool {
        let (group, word) = self.group(row, column);
        group.kept >> word & 1 == 0 || self.words[group.place(word)] >> (column % WORD) & 1 == 0
    }

    /// A column's group, and the number of its word in there.
    #[inline(always)]
    fn group(&self, row: u32, column: u32) -> (Group, u32) {
        (self.groups[place(row + column / GROUP)], column / WORD % (GROUP / WORD))
    }

    /// Asks for what is looked up first.
    pub(super) fn fetch(&self, row: u32, column: u32) {
        pages::fetch(&self.groups, place(row + column / GROUP));
    }

    /// Asks for what is looked up then.
    #[inline]
    pub(super) fn fetch_word(&self, row: u32, column: u32) {
        let (group, word) = self.group(row, column);
        pages::fetch(&self.words, group.place(word));
    }
}

/// The words of a group that are not zero.
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

    /// Sets the bits of some columns, which come behind all that were set.
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

/// The column of each number, and of the one after the last: a new one wherever some set begins or ends.
fn columns(sets: &Lists<Misfits>, numbers: usize) -> Vec<u32> {
    let mut begins = vec![false; numbers + 1];
    for set in 0..sets.len() {
        for &(first, end) in sets.get(low32(set)) {
            (begins[place(first)], begins[place(end)]) = (true, true);
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

    /// Some intervals, apart and in order, given how far apart they are and how long.
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

        /// Many columns, so that there are several groups, and few.
        #[test]
        fn what_is_in_no_set_fits(
            sets in vec(prop_oneof![vec((1..4_u32, 1..4_u32), 0..3000), vec((0..400_u32, 1..4000_u32), 0..3)], 0..4),
            more in 0..70_usize,
        ) {
            let mut lists = Lists::new(&[]);
            let sets: Vec<Vec<Misfits>> = sets.iter().map(|steps| intervals(steps)).collect();
            // A gap of none at the start is the only one that there may be.
            let apart = |set: &&Vec<Misfits>| set.windows(2).all(|pair| pair[0].1 < pair[1].0);
            let numbered: Vec<(u32, &Vec<Misfits>)> =
                sets.iter().filter(apart).map(|set| (lists.number(set), set)).collect();
            let numbers = sets.iter().flatten().map(|misfits| place(misfits.1)).max().unwrap_or(0) + more;
            let (fitting, columns) = Fitting::new(&lists, numbers).expect("little memory");
            for (list, set) in numbered {
                let row = Fitting::row(list, &columns);
                let mut fit = vec![true; numbers];
                set.iter().for_each(|&(first, end)| fit[place(first)..place(end)].fill(false));
                for (number, (fit, &column)) in fit.into_iter().zip(&columns).enumerate() {
                    prop_assert_eq!(fitting.fits(row, column), fit, "{}", number);
                }
            }
        }
    }
}
