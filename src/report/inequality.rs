//! How unequally a cost is divided, for example the tokens of the same text in several languages.

use crate::base::int::{to_f64, to_u64};

/// The Gini coefficient of some costs: half of the mean absolute difference between two of them, divided by their
/// mean. Pairs are drawn with replacement, as is usual for a whole population.
///
/// It is 0 if all are equal, and 1 − 1/n if one of n has everything. It does not depend on the unit or the order of the
/// values. 0 for no values and for zeros. Values must be finite and not negative.
///
/// ```
/// use tokenmill::report::gini;
///
/// assert_eq!(gini(&[3.0, 3.0, 3.0]), 0.0);
/// assert_eq!(gini(&[0.0, 0.0, 0.0, 8.0]), 0.75);
/// // |1 − 3| occurs in 2 of 4 pairs: mean difference 1, mean 2.
/// assert_eq!(gini(&[1.0, 3.0]), 0.25);
/// ```
pub fn gini(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let total: f64 = sorted.iter().sum();
    if total <= 0.0 {
        return 0.0;
    }
    // In ascending order, the value at rank i (from 1) is the larger of a pair i − 1 times and the smaller n − i
    // times, so the differences add up to the sum of (2i − n − 1) · value.
    let n = to_f64(to_u64(sorted.len()));
    let mut weight = 1.0 - n;
    let mut weighted = 0.0;
    for value in sorted {
        weighted += weight * value;
        weight += 2.0;
    }
    // Rounding may leave equal values a little below 0.
    (weighted / (n * total)).max(0.0)
}

/// The largest of some costs divided by the smallest: 1 if all are equal, 2 if the worst is twice the best. `None`
/// without values, and if the smallest is not above 0.
///
/// ```
/// use tokenmill::report::worst_to_best;
///
/// assert_eq!(worst_to_best(&[20.0, 50.0, 30.0]), Some(2.5));
/// assert_eq!(worst_to_best(&[0.0, 50.0]), None);
/// assert_eq!(worst_to_best(&[]), None);
/// ```
pub fn worst_to_best(costs: &[f64]) -> Option<f64> {
    let best = costs.iter().copied().min_by(f64::total_cmp)?;
    let worst = costs.iter().copied().max_by(f64::total_cmp)?;
    (best > 0.0).then(|| worst / best)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition: half of the mean difference of all pairs, divided by the mean.
    fn by_pairs(values: &[f64]) -> f64 {
        let n = to_f64(to_u64(values.len()));
        let differences: f64 =
            values.iter().flat_map(|one| values.iter().map(move |other| (one - other).abs())).sum();
        let mean = values.iter().sum::<f64>() / n;
        if mean > 0.0 { differences / (n * n) / (2.0 * mean) } else { 0.0 }
    }

    proptest! {
        #[test]
        fn ranks_give_what_pairs_give(values in prop::collection::vec(0.0..1e6, 1..20)) {
            prop_assert!((gini(&values) - by_pairs(&values)).abs() < 1e-9);
        }
    }

    #[test]
    fn no_values_are_not_unequal() {
        assert_eq!((gini(&[]), gini(&[7.0]), gini(&[0.1; 10])), (0.0, 0.0, 0.0));
    }
}
