//! Confidence intervals of a comparison, by resampling documents.
//!
//! In each of [`REPLICATES`] replicates, each document counts as often as a Poisson number of mean 1 says: the Poisson
//! bootstrap, which needs no document twice. The numbers depend on the key of a document alone, so neither threads nor
//! the order of documents matter, and the versions of one text in several languages count equally often.

use crate::base::int::{to_f64, to_u64};
use crate::base::random::{SeededRandom, mix};
use crate::report::Interval;

/// Number of replicates.
pub(super) const REPLICATES: usize = 500;

/// Number of documents below which resampling says nothing about others.
const MIN_DOCUMENTS: u64 = 10;

/// The sums of some figures over the documents of each replicate.
#[derive(Clone, Debug)]
pub(super) struct Replicates {
    /// Number of documents.
    documents: u64,
    /// Number of figures.
    width: usize,
    /// The sums of one replicate after the other.
    sums: Vec<u64>,
}

impl Replicates {
    /// Replicates without documents.
    pub(super) fn new(width: usize) -> Replicates {
        Replicates { documents: 0, width, sums: vec![0; width * REPLICATES] }
    }

    /// Adds a document. Its figures have the order of `width` of `new`.
    pub(super) fn add(&mut self, key: u64, figures: &[u64]) {
        self.documents += 1;
        let mut random = SeededRandom::of(key);
        for sums in self.sums.chunks_mut(self.width) {
            let times = poisson(&mut random);
            if times > 0 {
                sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += times * figure);
            }
        }
    }

    /// Adds the documents of other replicates.
    pub(super) fn add_all(&mut self, other: &Replicates) {
        self.documents += other.documents;
        self.sums.iter_mut().zip(&other.sums).for_each(|(sum, more)| *sum += more);
    }

    /// The interval of the quotient of two figures, each a figure of one of two replicates. `None` if there are fewer
    /// than [`MIN_DOCUMENTS`], or if a replicate in 20 or more has no quotient, since the divisor is 0.
    pub(super) fn interval(&self, dividend: usize, other: &Replicates, divisor: usize) -> Option<Interval> {
        let dividends = self.sums.iter().skip(dividend).step_by(self.width);
        let divisors = other.sums.iter().skip(divisor).step_by(other.width);
        let pairs = dividends.zip(divisors).filter(|(_, divisor)| **divisor > 0);
        let mut quotients: Vec<f64> =
            pairs.map(|(dividend, divisor)| to_f64(*dividend) / to_f64(*divisor)).collect();
        if self.documents.min(other.documents) < MIN_DOCUMENTS || quotients.len() * 20 <= REPLICATES * 19 {
            return None;
        }
        quotients.sort_by(f64::total_cmp);
        // A fortieth, 2.5 %, is beyond each end.
        let beyond = quotients.len() / 40;
        Some(Interval { low: quotients[beyond], high: quotients[quotients.len() - 1 - beyond] })
    }
}

/// The key of a document by its place.
pub(super) fn key_of_place(source: usize, unit: usize, row: u64) -> u64 {
    [to_u64(source), to_u64(unit), row].into_iter().fold(0, |key, number| mix(key ^ number))
}

/// The key of a document by its id, the same in each language.
pub(super) fn key_of_id(id: &str) -> u64 {
    let parts = id.as_bytes().chunks(8).map(|part| {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        u64::from_le_bytes(bytes)
    });
    parts.chain([to_u64(id.len())]).fold(0, |key, part| mix(key ^ part))
}

/// A Poisson number of mean 1.
fn poisson(random: &mut SeededRandom) -> u64 {
    let drawn = random.fraction();
    let (mut chance, mut below, mut number) = (std::f64::consts::E.recip(), 0.0, 0);
    // 20 and more have less than one chance in 2⁶⁰.
    while number < 20 && drawn >= below + chance {
        below += chance;
        number += 1;
        chance /= to_f64(number);
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poisson_numbers_have_mean_and_variance_1() {
        let mut random = SeededRandom::of(1);
        let numbers: Vec<f64> = (0..100_000).map(|_| to_f64(poisson(&mut random))).collect();
        let mean = numbers.iter().sum::<f64>() / 1e5;
        let variance = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }

    /// The interval of a mean is about two standard errors to each side.
    #[test]
    fn intervals_have_the_width_of_the_standard_error() {
        let mut replicates = Replicates::new(2);
        let mut random = SeededRandom::of(2);
        for document in 0..1_000 {
            // Numbers from 0 to 99 have a standard deviation of 28.9, so the mean of 1 000 has 0.91.
            replicates.add(key_of_place(0, 0, document), &[to_u64(random.below(100)), 1]);
        }
        let Interval { low, high } = replicates.interval(0, &replicates, 1).expect("an interval");
        let width = high - low;
        assert!((3.0..4.2).contains(&width) && low < 49.5 && high > 47.0, "{low} to {high}");
        assert_eq!(Replicates::new(2).interval(0, &replicates, 1), None);
        assert_eq!(replicates.interval(0, &Replicates::new(2), 1), None);
        let few = |documents| {
            let mut few = Replicates::new(2);
            (0..documents).for_each(|document| few.add(key_of_place(0, 0, document), &[document, 1]));
            few.interval(0, &few, 1)
        };
        assert!(few(MIN_DOCUMENTS - 1).is_none() && few(MIN_DOCUMENTS).is_some());
    }
}
