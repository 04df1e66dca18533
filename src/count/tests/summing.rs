use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::slice::from_ref;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::base::int::{ByteCount, to_u64};
use crate::base::test_support::one_case_in;
use crate::error::ErrorKind;
use crate::observer::Silent;

/// No limit of memory.
const ANY: ByteCount = ByteCount(u64::MAX);

fn write(folder: &Path, name: &str, pretokens: &PretokenCounts, ordered: bool) -> WeightedFile {
    let info = CountsInfo { pattern: "gpt4".parse().expect("a name"), ordered, ..CountsInfo::default() };
    let path = folder.join(name);
    let file = File::create(&path).expect("a writable folder");
    write_counts(file, &path, pretokens, &info, &Silent).expect("room for a small file");
    WeightedFile { path, weight: 1 }
}

fn counts(entries: &[(&str, u64)]) -> PretokenCounts {
    entries.iter().map(|(pretoken, count)| (pretoken.as_bytes(), Count::new(*count))).collect()
}

#[test]
fn a_sum_that_overflows_names_the_pretoken() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    for ordered in [true, false] {
        let full = write(folder.path(), "full", &counts(&[("a", 1), ("often", u64::MAX)]), ordered);
        let one = write(folder.path(), "one", &counts(&[("often", 1)]), ordered);
        let doubled = WeightedFile { weight: 2, ..full.clone() };
        for files in [[full, one.clone()], [one, doubled]] {
            let error = sum_counts(&files, ANY, &Silent).expect_err("too many");
            assert!(error.to_string().contains("often"), "{error}");
            let error = write_sum(&files, Vec::new(), "sum".as_ref(), ANY, &Silent).expect_err("too many");
            assert!(error.to_string().contains("often"), "{error}");
        }
    }
}

#[test]
fn a_sum_that_passes_the_limit_of_memory_is_refused() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let names: Vec<String> = (0..1_000).map(|number| format!("pretoken {number}")).collect();
    let pretokens: PretokenCounts = names.iter().map(|name| (name.as_bytes(), Count::ONE)).collect();
    for (one, other) in [(true, true), (true, false), (false, false)] {
        let files = [
            write(folder.path(), "one", &pretokens, one),
            write(folder.path(), "other", &counts(&[("a", 1)]), other),
        ];
        assert!(sum_counts(&files, ByteCount(70_000), &Silent).is_ok());
        let error = sum_counts(&files, ByteCount(20_000), &Silent).expect_err("too many");
        assert_eq!(error.kind(), ErrorKind::Memory);
    }
    // The pre-tokens of several files in memory keep within the limit together.
    let mut files: Vec<WeightedFile> =
        (0..5).map(|number| write(folder.path(), &format!("ordered {number}"), &pretokens, true)).collect();
    files.push(write(folder.path(), "by bytes", &pretokens, false));
    assert!(sum_counts(&files, ByteCount(5 * 35_000 + 70_000), &Silent).is_ok());
    let error = sum_counts(&files, ByteCount(70_000), &Silent).expect_err("five of them are held");
    assert_eq!(error.kind(), ErrorKind::Memory);
    // Each file fits by itself.
    let others: Vec<String> = names.iter().map(|name| format!("other {name}")).collect();
    let others: PretokenCounts = others.iter().map(|name| (name.as_bytes(), Count::ONE)).collect();
    for ordered in [true, false] {
        let files = [
            write(folder.path(), "one", &pretokens, ordered),
            write(folder.path(), "other", &others, ordered),
        ];
        let limit = ByteCount(if ordered { 70_000 } else { 35_000 });
        assert!(files.iter().all(|file| sum_counts(from_ref(file), limit, &Silent).is_ok()));
        let error = sum_counts(&files, limit, &Silent).expect_err("too many");
        assert_eq!(error.kind(), ErrorKind::Memory);
    }
}

/// If the files are too many to be open at a time, they are summed in groups. The sums of all groups are in memory.
#[test]
fn parts_of_a_sum_keep_within_the_limit_together() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let file = |number: u32| {
        let names: Vec<String> =
            (0..500).map(|pretoken| format!("pretoken {pretoken} of {number}")).collect();
        let pretokens = names.iter().map(|name| (name.as_bytes(), Count::ONE)).collect();
        write(folder.path(), &number.to_string(), &pretokens, false)
    };
    let files: Vec<WeightedFile> = (0..7).map(file).collect();
    let sum = |limit| write_sum(&files, Vec::new(), "sum".as_ref(), ByteCount(limit), &Silent);
    // Three files have about 60 kB, seven about 140 kB.
    assert_eq!(sum(150_000).expect("they fit").pretokens, 3_500);
    assert_eq!(sum(100_000).expect_err("each part fits").kind(), ErrorKind::Memory);
}

#[test]
fn sums_are_those_of_a_map() {
    let inputs = vec((vec(("[ab]{1,3}", 1..1_000u64), 0..20), any::<bool>(), 1..5u64), 1..9);
    one_case_in(4, &inputs, |files| {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let mut order: Vec<String> = Vec::new();
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        let mut written = Vec::new();
        for (number, (entries, ordered, weight)) in files.iter().enumerate() {
            let mut seen = std::collections::HashSet::new();
            let distinct: Vec<(&str, u64)> = entries
                .iter()
                .filter(|(pretoken, _)| seen.insert(pretoken))
                .map(|(pretoken, count)| (pretoken.as_str(), *count))
                .collect();
            for (pretoken, count) in &distinct {
                if !sums.contains_key(*pretoken) {
                    order.push((*pretoken).to_owned());
                }
                *sums.entry((*pretoken).to_owned()).or_default() += count * weight;
            }
            let file = write(folder.path(), &number.to_string(), &counts(&distinct), *ordered);
            written.push(WeightedFile { weight: *weight, ..file });
        }
        let ordered = files.iter().all(|(_, ordered, _)| *ordered);
        if !ordered {
            order.sort();
        }
        let expected: Vec<(&[u8], Count)> =
            order.iter().map(|pretoken| (pretoken.as_bytes(), Count::new(sums[pretoken]))).collect();
        let sum = sum_counts(&written, ANY, &Silent).expect("small counts");
        prop_assert_eq!(sum.pretokens.iter().collect::<Vec<_>>(), expected);
        prop_assert_eq!(sum.info.ordered, ordered);

        let path = folder.path().join("sum");
        let file = File::create(&path).expect("a writable folder");
        let said = write_sum(&written, file, &path, ANY, &Silent).expect("small counts");
        let expected = Sum {
            pretokens: to_u64(order.len()),
            pretoken_bytes: order.iter().map(|pretoken| to_u64(pretoken.len())).sum(),
            info: sum.info.clone(),
        };
        prop_assert_eq!(said, expected);
        prop_assert_eq!(read_counts(&path).expect("a right file"), sum);
        Ok(())
    });
}
