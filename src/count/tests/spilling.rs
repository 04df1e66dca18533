use std::fs;

use proptest::prelude::*;

use super::*;
use crate::base::int::ByteCount;
use crate::base::test_support::{one_case_in, with_threads};
use crate::error::ErrorKind;
use crate::observer::Silent;
use crate::split::Named;

fn limited(tables: u64, scratch: &std::path::Path) -> CountConfig {
    let limit = MemoryLimit { tables: ByteCount(tables), scratch: scratch.to_path_buf() };
    CountConfig { limit: Some(limit), ..CountConfig::default() }
}

fn counts(documents: &[Document], size: usize, threads: usize, config: &CountConfig) -> Result<Counts> {
    let (parts, splitter) = (stream(batches(documents, size)), splitter("gpt2"));
    with_threads(threads, || count_within_limit(parts, splitter.as_ref(), config, &Silent))
}

fn written(counts: Counts, ordered: bool) -> (Vec<u8>, Written) {
    let pattern = SplitPattern::Named(Named::Gpt2);
    let info = CountsInfo { pattern, ordered, ..CountsInfo::default() };
    let mut file = Vec::new();
    let written = counts.write(&mut file, "counts.parquet".as_ref(), &info, &Silent);
    (file, written.expect("memory takes everything"))
}

fn words(number: u32, different: u32) -> Vec<Document> {
    let word = |n: u32| {
        let n = n.wrapping_mul(2_654_435_761) % different;
        if n.is_multiple_of(5) { format!("{n:x>20}x ") } else { format!("w{n} ") }
    };
    documents(&[&(0..number).map(word).collect::<String>()])
}

#[test]
fn a_limit_of_memory_changes_nothing() {
    let inputs = (
        0..20_000_u32,
        1..9_000_u32,
        100..50_000_usize,
        prop::sample::select(vec![0, 1_600_000, 4_000_000]),
        prop::sample::select(vec![1, 2, 7]),
        any::<bool>(),
    );
    one_case_in(16, &inputs, |(number, different, size, tables, threads, ordered)| {
        let (documents, folder) = (words(number, different), tempfile::tempdir().expect("a folder"));
        // Pre-tokens after a special token have later positions than those before it, also in runs.
        let specials = SpecialFinder::new(&["w1"]).expect("a token");
        let none = CountConfig { specials, ..CountConfig::default() };
        let some = CountConfig { limit: limited(tables, folder.path()).limit, ..none.clone() };
        let counts = |config| counts(&documents, size, threads, config).expect("room on the disk");
        let expected = counts(&none).into_counted(&Silent).expect("no limit");
        prop_assert_eq!(
            counts(&some).into_counted(&Silent).map_err(|error| error.kind()),
            match tables {
                0 if counts(&some).spills() > 0 => Err(ErrorKind::Memory),
                _ => Ok(expected.clone()),
            }
        );
        prop_assert_eq!(written(counts(&some), ordered), written(counts(&none), ordered));
        prop_assert!(fs::read_dir(folder.path()).expect("a folder").next().is_none());
        Ok(())
    });
}

#[test]
fn a_limit_holds_within_a_document_that_is_split_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (documents, limit) = (words(200_000, 150_000), 2_000_000);
    let pattern = SplitPattern::Custom(r"\p{L}+|\p{N}+|\s+".to_owned());
    let splitter = crate::split::splitter(&pattern).expect("a regular expression");
    let counts = |config: &CountConfig| {
        let parts = stream(batches(&documents, usize::MAX));
        with_threads(1, || count_within_limit(parts, splitter.as_ref(), config, &Silent)).expect("counts")
    };
    let some = counts(&limited(limit, folder.path()));
    assert!(some.spills() > 3, "{} spills of one document", some.spills());
    assert_eq!(written(some, true), written(counts(&CountConfig::default()), true));
}

#[test]
fn what_does_not_fit_goes_to_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let scratch = folder.path().join("made/when/needed");
    let (many, few) = (words(60_000, 50_000), words(60_000, 50));
    let spills = |documents: &[Document], tables| {
        let counts = counts(documents, 9_000, 2, &limited(tables, &scratch)).expect("room on the disk");
        counts.spills()
    };
    assert_eq!(spills(&few, 3_000_000), 0);
    assert!(!scratch.exists());
    assert!(spills(&many, 3_000_000) > 2);
    assert!(spills(&many, 0) > spills(&many, 3_000_000));
    assert_eq!(spills(&many, 30_000_000), 0);
    // Few pre-tokens, but long ones: 4 MB.
    let first = |number: u32| char::from_u32(u32::from('一') + number).expect("a letter");
    let word = |number| Some(format!("{}{}", first(number), "x".repeat(10_000)).into_bytes());
    let long: Vec<Document> = (0..400).map(|number| (0, word(number))).collect();
    assert!(spills(&long, 3_000_000) > 0);
}

#[test]
fn a_scratch_folder_that_cannot_be_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let scratch = folder.path().join("file");
    fs::write(&scratch, "").expect("a file");
    let error = counts(&words(20_000, 10_000), 9_000, 2, &limited(0, &scratch)).expect_err("no folder");
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert!(error.to_string().contains("file"), "{error}");
}

#[test]
fn counts_that_overflow_across_runs_are_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = |number| (number, Some(format!("big {}", "many other words ".repeat(500)).into_bytes()));
    let documents: Vec<Document> = vec![text(0), text(1)];
    let config = CountConfig { weights: vec![1, u64::MAX - 700], ..limited(0, folder.path()) };
    let one = counts(&documents[..1], 1_000, 1, &config).expect("small counts");
    assert!(one.spills() > 1);
    let both = counts(&documents, 1_000, 1, &config);
    let error = both.and_then(|counts| counts.into_counted(&Silent)).expect_err("500 times and more");
    assert!(error.to_string().contains("does not fit in 64 bits"), "{error}");
}

struct Stopping;

impl Observer for Stopping {
    fn stopping(&self) -> bool {
        true
    }
}

#[test]
fn merging_can_be_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let counts = counts(&words(20_000, 10_000), 9_000, 2, &limited(0, folder.path()));
    let error = counts.expect("room on the disk").into_counted(&Stopping).err().map(|error| error.kind());
    assert_eq!(error, Some(ErrorKind::Interrupted));
}
