//! Histograms of lengths with few bins.

use serde::{Deserialize, Serialize};

use crate::base::int::{to_u64, u64_to_usize};

/// Smallest length that shares a bin with others. From here on, each doubling of the length has [`STEPS`] bins.
const FINE: u64 = 16;

/// Number of bins per doubling of the length.
const STEPS: u64 = 4;

/// A histogram of lengths with at most 256 bins.
///
/// Lengths below 16 have a bin each. From there on, each doubling of the length has four bins of equal width.
///
/// ```
/// use tokenmill::count::{Bin, Histogram};
///
/// let mut lengths = Histogram::default();
/// [3, 41, 45].into_iter().for_each(|length| lengths.add(length));
/// assert_eq!(lengths.bins(), [Bin { from: 3, to: 3, count: 1 }, Bin { from: 40, to: 47, count: 2 }]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Histogram {
    bins: Vec<Bin>,
}

/// A bin of a [`Histogram`]: the lengths from `from` to `to`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// The smallest length of the bin.
    pub from: u64,
    /// The largest length of the bin.
    pub to: u64,
    /// Number of items with these lengths.
    pub count: u64,
}

impl Histogram {
    /// Creates the histogram with these counts, by the numbers of the bins.
    pub(super) fn of_counts(counts: &[u64]) -> Histogram {
        let counted = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let bin = |(number, &count): (usize, &u64)| {
            let (from, to) = Histogram::bounds(number);
            Bin { from, to, count }
        };
        Histogram { bins: counted.map(bin).collect() }
    }

    /// Counts one item of this length.
    pub fn add(&mut self, length: u64) {
        let (from, to) = Histogram::bounds(Histogram::bin_number(length));
        match self.bins.binary_search_by_key(&from, |bin| bin.from) {
            Ok(found) => self.bins[found].count += 1,
            Err(place) => self.bins.insert(place, Bin { from, to, count: 1 }),
        }
    }

    /// Adds the counts of another histogram.
    pub fn add_all(&mut self, other: &Histogram) {
        for &bin in &other.bins {
            match self.bins.binary_search_by_key(&bin.from, |own| own.from) {
                Ok(found) => self.bins[found].count += bin.count,
                Err(place) => self.bins.insert(place, bin),
            }
        }
    }

    /// Returns the bins that are not empty, by ascending length.
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// Returns the number of the bin of a length, from 0 on.
    pub(crate) fn bin_number(length: u64) -> usize {
        if length < FINE {
            return u64_to_usize(length);
        }
        let doublings = length.ilog2() - FINE.ilog2();
        let step = (length >> (length.ilog2() - STEPS.ilog2())) & (STEPS - 1);
        u64_to_usize(FINE + STEPS * u64::from(doublings) + step)
    }

    /// Returns the smallest and the largest length of a bin.
    pub(crate) fn bounds(number: usize) -> (u64, u64) {
        let number = to_u64(number);
        if number < FINE {
            return (number, number);
        }
        let (doublings, step) = ((number - FINE) / STEPS, (number - FINE) % STEPS);
        let width = (FINE / STEPS) << doublings;
        let from = (FINE << doublings) + step * width;
        (from, from + (width - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_cover_every_length_once() {
        for number in 0..Histogram::bin_number(u64::MAX) {
            let ((from, to), (next, _)) = (Histogram::bounds(number), Histogram::bounds(number + 1));
            assert!(from <= to && to + 1 == next, "{number}");
            assert_eq!((Histogram::bin_number(from), Histogram::bin_number(to)), (number, number));
        }
        assert_eq!(Histogram::bounds(Histogram::bin_number(u64::MAX)).1, u64::MAX);
    }

    #[test]
    fn things_of_nearly_equal_length_share_a_bin() {
        let mut histogram = Histogram::default();
        [45, 3, 41, 48].into_iter().for_each(|length| histogram.add(length));
        let bin = |from, to, count| Bin { from, to, count };
        assert_eq!(histogram.bins(), [bin(3, 3, 1), bin(40, 47, 2), bin(48, 55, 1)]);
        let mut sum = Histogram::default();
        [3, 9].into_iter().for_each(|length| sum.add(length));
        sum.add_all(&histogram);
        assert_eq!(sum.bins(), [bin(3, 3, 2), bin(9, 9, 1), bin(40, 47, 2), bin(48, 55, 1)]);
    }
}
