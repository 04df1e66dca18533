//! Recognizes numbered shards of a dataset: `train-00001-of-00007.parquet`.
//!
//! Missing shards are a common result of an interrupted copy, and would silently leave out a part of a dataset. The
//! names contain the number of shards, so gaps can be reported.

use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of digits of a shard number.
const MOST_DIGITS: usize = 6;

/// The parts of a file name that all shards of a set share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShardSet<'a> {
    /// The path up to the shard number.
    start: &'a str,
    /// The text after the number of files, for example the extension.
    rest: &'a str,
    /// The number of files as written, with leading zeros.
    files: &'a str,
}

impl<'a> ShardSet<'a> {
    /// The set that a file belongs to and its number in the set, if its name has this form.
    pub(super) fn of(path: &'a str) -> Option<(ShardSet<'a>, u32)> {
        let (before, after) = path.rsplit_once("-of-")?;
        let (start, number) = before.rsplit_once('-')?;
        let (files, rest) = after.split_at_checked(number.len())?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let numbered = (1..=MOST_DIGITS).contains(&number.len())
            && digits(number)
            && digits(files)
            && !rest.starts_with(|c: char| c.is_ascii_digit());
        numbered.then(|| (ShardSet { start, rest, files }, number.parse().unwrap_or(0)))
    }

    /// The path of the shard with this number.
    fn path(&self, number: u32) -> String {
        let ShardSet { start, files, rest } = self;
        format!("{start}-{number:0digits$}-of-{files}{rest}", digits = files.len())
    }

    /// The paths of all shards of the set.
    pub(super) fn paths(self) -> impl Iterator<Item = String> {
        let files = self.files.parse().unwrap_or(0_u32);
        (0..files).map(move |number| self.path(number))
    }
}

/// Sentences about oddities in a list of paths: a set with missing shards, and two sets with one name, which usually
/// are the results of two runs.
pub(super) fn told<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut sets: BTreeMap<ShardSet<'a>, BTreeSet<u32>> = BTreeMap::new();
    for (set, number) in paths.filter_map(ShardSet::of) {
        sets.entry(set).or_default().insert(number);
    }
    let mut told = Vec::new();
    let mut before: Option<ShardSet<'a>> = None;
    for (set, numbers) in &sets {
        if let Some(other) = before.filter(|other| (other.start, other.rest) == (set.start, set.rest)) {
            told.push(format!(
                "{} and {} differ in the number of shards, as if from two runs: all are read",
                other.path(0),
                set.path(0)
            ));
        }
        before = Some(*set);
        let files = set.files.parse().unwrap_or(0_u32);
        // A set that is numbered from 1 has a shard with the last number too.
        let first = u32::from(!numbers.contains(&0) && numbers.contains(&files));
        let missing = (first..files + first).find(|number| !numbers.contains(number));
        if let Some(missing) = missing {
            let there = numbers.len();
            told.push(format!("{} is missing: {there} of {files} files exist", set.path(missing)));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Complete sets and other names are not reported; numbers may start at 0 or 1.
    #[test]
    fn sets_that_are_incomplete_or_mixed_are_told() {
        let set = |name: &str, files: u32, numbers: &[u32]| {
            numbers.iter().map(|number| format!("{name}-{number:05}-of-{files:05}.txt")).collect::<Vec<_>>()
        };
        let all: Vec<u32> = (0..1024).collect();
        let whole =
            [set("a/train", 2, &[0, 1]), set("a/test", 3, &[0, 1, 2]), set("b/train", 1, &[0])].concat();
        let plain = ["part-0.txt", "a-1-of-22.txt", "a-b-of-c", "-of-"].map(str::to_owned).to_vec();
        for (paths, expected) in [
            (whole, &[][..]),
            (plain, &[]),
            (set("train", 4, &[1, 2, 3, 4]), &[]),
            (set("train", 4, &[0, 1, 3]), &["train-00002-of-00004.txt is missing: 3 of 4 files exist"]),
            (set("x", 1024, &all[..1023]), &["x-01023-of-01024.txt is missing: 1023 of 1024 files exist"]),
            (
                [set("t", 2, &[0, 1]), set("t", 3, &[0, 1, 2])].concat(),
                &[
                    "t-00000-of-00002.txt and t-00000-of-00003.txt differ in the number of shards, as if from two runs: all are read",
                ],
            ),
            (set("t", 999_999, &[5]), &["t-00000-of-999999.txt is missing: 1 of 999999 files exist"][..0]),
        ] {
            let found = told(paths.iter().map(String::as_str));
            assert_eq!(found, expected, "{:?}", &paths[..1]);
        }
    }
}
