//! Divides an input into shards, so that machines that share nothing but the input each read a part of it.
//!
//! A shard is a contiguous run of the input's units, in the order of the listing. It follows from the listing alone:
//! every machine that lists the same input finds the same shards.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::base::int::to_u64;
use crate::error::{Error, Result};

/// One of several parts of an input that have about equal sizes, such as `3/7`. Shards are numbered from 1.
///
/// ```
/// use tokenmill::source::InputShard;
///
/// let bytes = [40, 10, 30, 20]; // of the units of an input
/// let units = |shard: &str| shard.parse::<InputShard>().map(|shard| shard.units(&bytes));
/// assert_eq!((units("1/2")?, units("2/2")?), (0..2, 2..4));
/// assert!(units("0/2").is_err() && units("3/2").is_err());
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputShard {
    /// The number of the shard, from 1.
    index: u64,
    /// The number of all shards.
    of: u64,
}

impl InputShard {
    /// Number of shards, at most.
    const MAX: u64 = 1_000_000;

    /// Shard `index` of `of`.
    ///
    /// # Errors
    /// `index` is 0 or more than `of`, or `of` is more than a million.
    pub fn new(index: u64, of: u64) -> Result<InputShard> {
        let help = match (index, of) {
            (_, 0) => "the number of shards is 1 or more".to_owned(),
            (_, InputShard::MAX..) if of > InputShard::MAX => {
                format!("the number of shards is {} at most", InputShard::MAX)
            }
            (0, _) => format!("shards are numbered from 1: the first is 1/{of}"),
            _ if index > of => format!("the last one is {of}/{of}"),
            _ => return Ok(InputShard { index, of }),
        };
        Err(Error::usage(format!("there is no shard {index}/{of}")).with_help(help))
    }

    /// The number of the shard, from 1.
    pub fn index(self) -> u64 {
        self.index
    }

    /// The number of all shards.
    pub fn of(self) -> u64 {
        self.of
    }

    /// The units of the shard, by the bytes of all units of the input in order. Each unit is in exactly one shard. The
    /// bytes of a shard differ from an equal share by those of the largest unit, at most. If there are more shards than
    /// units, some are empty.
    pub fn units(self, bytes: &[u64]) -> Range<usize> {
        self.end(self.index - 1, bytes)..self.end(self.index, bytes)
    }

    /// The number of units in the first `shards` shards: those of which more than half lies before the point where the
    /// shards would end if units could be cut.
    fn end(self, shards: u64, bytes: &[u64]) -> usize {
        if shards == self.of {
            return bytes.len();
        }
        // A unit without bytes counts as one byte, so that there is something to divide.
        let sizes = || bytes.iter().map(|&bytes| u128::from(bytes.max(1)));
        let all: u128 = sizes().sum();
        let mut before = 0;
        let is_before = |size: &u128| {
            let middle = 2 * before + size;
            before += size;
            middle * u128::from(self.of) <= 2 * all * u128::from(shards)
        };
        sizes().take_while(is_before).count()
    }
}

impl fmt::Display for InputShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for InputShard {
    type Err = Error;

    /// Reads `I/N`.
    fn from_str(text: &str) -> Result<InputShard> {
        let number = |digits: &str| {
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
        };
        let numbers = text.split_once('/').and_then(|(index, of)| Some((number(index)?, number(of)?)));
        match numbers {
            Some((index, of)) => InputShard::new(index, of),
            None => Err(Error::usage(format!("{text:?} is not a shard"))
                .with_help("write I/N, such as 3/7 for the third of seven")),
        }
    }
}

/// Says which of `of` shards are missing, and which are there more than once; `None` if each is there once. `found` has
/// the number of each shard, from 1 to `of`, and the place where it is.
pub(crate) fn missing_or_doubled(found: &[(u64, String)], of: u64) -> Option<String> {
    /// Missing shards that are named, at most.
    const NAMED: usize = 20;
    let mut places: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for (index, place) in found {
        places.entry(*index).or_default().push(place);
    }
    let doubled = places.iter().filter(|(_, places)| places.len() > 1);
    let doubled = doubled
        .map(|(index, places)| format!("shard {index}/{of} is there more than once: {}", places.join(", ")));
    let missing = (1..=of).filter(|index| !places.contains_key(index)).take(NAMED);
    let named: Vec<String> = missing.map(|index| format!("{index}/{of}")).collect();
    let more = of.saturating_sub(to_u64(places.len() + named.len()));
    let more = if more > 0 { format!(" and {more} others") } else { String::new() };
    let missing = match named.as_slice() {
        [] => None,
        [one] => Some(format!("shard {one} is missing")),
        named => Some(format!("shards {}{more} are missing", named.join(", "))),
    };
    let problems: Vec<String> = doubled.chain(missing).collect();
    (!problems.is_empty()).then(|| problems.join("; "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(of: u64) -> impl Iterator<Item = InputShard> {
        (1..=of).map(move |index| InputShard::new(index, of).expect("a shard"))
    }

    #[test]
    fn shards_are_numbered_from_1_to_their_number() {
        for (text, help) in [
            ("0/7", "the first is 1/7"),
            ("8/7", "the last one is 7/7"),
            ("1/0", "1 or more"),
            ("1/1000001", "1000000 at most"),
            ("3", "write I/N"),
            ("3/", "write I/N"),
            ("+3/7", "write I/N"),
            ("3/7/9", "write I/N"),
            ("99999999999999999999/7", "write I/N"),
        ] {
            let error = text.parse::<InputShard>().expect_err(text);
            assert!(error.help().is_some_and(|found| found.contains(help)), "{text}: {error:?}");
        }
        assert_eq!("7/7".parse::<InputShard>().expect("a shard").to_string(), "7/7");
    }

    #[test]
    fn there_may_be_more_shards_than_units() {
        for bytes in [&[][..], &[5], &[0, 0], &[u64::MAX, u64::MAX]] {
            let units: Vec<usize> = all(5).flat_map(|shard| shard.units(bytes)).collect();
            assert_eq!(units, (0..bytes.len()).collect::<Vec<_>>(), "{bytes:?}");
        }
    }

    #[test]
    fn missing_and_doubled_shards_are_named() {
        let said = |found: &[u64], of| {
            let found: Vec<_> =
                found.iter().zip('a'..).map(|(&index, place)| (index, place.to_string())).collect();
            missing_or_doubled(&found, of)
        };
        assert_eq!(said(&[2, 1, 3], 3), None);
        assert_eq!(said(&[1, 3], 3).as_deref(), Some("shard 2/3 is missing"));
        let both = "shard 1/4 is there more than once: a, c; shards 2/4, 4/4 are missing";
        assert_eq!(said(&[1, 3, 1], 4).as_deref(), Some(both));
        let many = said(&[1], 1_000_000).expect("many");
        assert!(
            many.starts_with("shards 2/1000000, ") && many.ends_with(" and 999979 others are missing"),
            "{many}"
        );
    }

    proptest! {
        #[test]
        fn each_unit_is_in_one_shard_and_shards_are_about_equal(
            bytes in prop::collection::vec(0_u64..1_000, 0..80),
            of in 1_u64..20,
        ) {
            let ranges: Vec<_> = all(of).map(|shard| shard.units(&bytes)).collect();
            let units: Vec<usize> = ranges.iter().cloned().flatten().collect();
            prop_assert_eq!(units, (0..bytes.len()).collect::<Vec<_>>());
            let sizes: Vec<u64> = bytes.iter().map(|&bytes| bytes.max(1)).collect();
            let (sum, largest) = (sizes.iter().sum::<u64>(), sizes.iter().max().copied().unwrap_or(0));
            for range in ranges {
                let own: u64 = sizes[range].iter().sum();
                prop_assert!((own * of).abs_diff(sum) <= largest * of, "{own} of {sum}");
            }
        }
    }
}
