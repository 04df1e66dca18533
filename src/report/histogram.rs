use serde::{Deserialize, Serialize};

use crate::units::place;

/// Lengths below this have a bin of their own; from here on there are [`STEPS`] bins to a doubling.
const FINE: u64 = 16;

/// Bins to a doubling.
const STEPS: u64 = 4;

/// How many things have which length: exact for short ones, to a quarter of a doubling for others, so
/// that a histogram is small whatever the lengths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Histogram {
    bins: Vec<Bin>,
}

/// The things with a length from `from` to `to`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// The least length.
    pub from: u64,
    /// The greatest length.
    pub to: u64,
    /// How many there are.
    pub count: u64,
}

impl Histogram {
    /// The histogram of counts of things with length 0, 1, 2–3, 4–7, and so on.
    pub fn of_doublings(counts: &[u64]) -> Histogram {
        let ends = std::iter::successors(Some(0u64), |end| Some(end.saturating_mul(2).saturating_add(1)));
        let mut from = 0;
        let mut bins = Vec::new();
        for (&count, to) in counts.iter().zip(ends) {
            if count > 0 {
                bins.push(Bin { from, to, count });
            }
            from = to.saturating_add(1);
        }
        Histogram { bins }
    }

    /// Counts one thing of this length.
    pub fn add(&mut self, length: u64) {
        let (from, to) = bounds(bin_number(length));
        self.add_bin(Bin { from, to, count: 1 });
    }

    /// Adds another histogram, such as another thread's.
    pub fn merge(&mut self, other: &Histogram) {
        for &bin in &other.bins {
            self.add_bin(bin);
        }
    }

    /// The bins that are not empty, by ascending length.
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// How many things were counted.
    pub fn total(&self) -> u64 {
        self.bins.iter().map(|bin| bin.count).sum()
    }

    fn add_bin(&mut self, new: Bin) {
        match self.bins.binary_search_by_key(&new.from, |bin| bin.from) {
            Ok(found) => self.bins[found].count = self.bins[found].count.saturating_add(new.count),
            Err(place) => self.bins.insert(place, new),
        }
    }
}

/// Which bin a length falls into, counted from 0.
pub(super) fn bin_number(length: u64) -> usize {
    if length < FINE {
        return usize::try_from(length).expect("below sixteen");
    }
    let doublings = length.ilog2() - FINE.ilog2();
    let step = (length >> (length.ilog2() - STEPS.ilog2())) & (STEPS - 1);
    place(u32::try_from(FINE + STEPS * u64::from(doublings) + step).expect("a few hundred bins at most"))
}

/// The least and the greatest length of a bin.
pub(super) fn bounds(number: usize) -> (u64, u64) {
    let number = crate::units::amount(number);
    if number < FINE {
        return (number, number);
    }
    let (doublings, step) = ((number - FINE) / STEPS, (number - FINE) % STEPS);
    let width = (FINE / STEPS) << doublings;
    let from = (FINE << doublings) + step * width;
    (from, from + (width - 1))
}
