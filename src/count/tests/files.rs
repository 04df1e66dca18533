use std::path::PathBuf;
use std::{fs, io};

use proptest::prelude::*;

use super::*;
use crate::count::counts_file::CountsWriter;
use crate::error::ErrorKind;
use crate::observer::Silent;
use crate::split::Named;

fn info(ordered: bool) -> CountsInfo {
    CountsInfo {
        pattern: SplitPattern::Named(Named::Gpt4),
        special_tokens: vec!["<s>".to_owned()],
        sources: serde_json::json!([{ "name": "a.txt" }]),
        ordered,
        ..CountsInfo::default()
    }
}

fn written(pretokens: &PretokenCounts, info: &CountsInfo) -> Vec<u8> {
    let mut file = Vec::new();
    write_counts(&mut file, "counts.parquet".as_ref(), pretokens, info, &Silent)
        .expect("memory takes everything");
    file
}

fn read_bytes(bytes: &[u8]) -> Result<CountsFile> {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path: PathBuf = folder.path().join("counts.parquet");
    fs::write(&path, bytes).expect("room for a small file");
    read_counts(&path)
}

fn pretokens(entries: &[(&str, u64)]) -> PretokenCounts {
    entries.iter().map(|(pretoken, count)| (pretoken.as_bytes(), Count::new(*count))).collect()
}

#[test]
fn writing_can_be_stopped() {
    struct Stops;
    impl crate::observer::Observer for Stops {
        fn stopping(&self) -> bool {
            true
        }
    }
    for ordered in [true, false] {
        let stopped = write_counts(Vec::new(), "x".as_ref(), &pretokens(&[("a", 1)]), &info(ordered), &Stops);
        assert_eq!(stopped.expect_err("stopped").kind(), ErrorKind::Interrupted);
    }
}

#[test]
fn counts_of_a_later_version_are_refused_by_name() {
    let later = CountsInfo { format_version: 2, ..info(false) };
    let refused = read_bytes(&written(&pretokens(&[("a", 1)]), &later)).expect_err("nobody knows it yet");
    assert!(refused.to_string().contains("counts.parquet: format version 2"), "{refused}");
}

#[test]
fn what_is_written_is_read() {
    let counted =
        pretokens(&[(" the", u64::MAX), ("a", 3), ("\n", 1), (" a longer pretoken than fifteen", 7)]);
    for ordered in [true, false] {
        let read = read_bytes(&written(&counted, &info(ordered))).expect("a right file");
        assert_eq!(read.info, info(ordered));
        let mut expected: Vec<_> = counted.iter().collect();
        if !ordered {
            expected.sort();
        }
        assert_eq!(read.pretokens.iter().collect::<Vec<_>>(), expected);
    }
    let empty = read_bytes(&written(&PretokenCounts::new(), &info(false))).expect("a right file");
    assert!(empty.pretokens.is_empty());
}

#[test]
fn equal_pretokens_are_written_once() {
    let counted = pretokens(&[("b", 1), ("a", 2), ("", 3), ("b", 4), ("c", 0), ("b", 5)]);
    let read = read_bytes(&written(&counted, &info(false))).expect("a right file");
    assert_eq!(read.pretokens, pretokens(&[("a", 2), ("b", 10)]));
    let often = pretokens(&[("b", u64::MAX), ("b", 1)]);
    let error = write_counts(Vec::new(), "x".as_ref(), &often, &info(false), &Silent).expect_err("too often");
    assert!(error.to_string().contains(r#""b" does not fit in 64 bits"#), "{error}");
}

#[test]
fn many_rows_keep_their_order() {
    let names: Vec<String> = (0..150_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_string()).collect();
    let counted: PretokenCounts = names.iter().map(|name| (name.as_bytes(), Count::ONE)).collect();
    let read = read_bytes(&written(&counted, &info(true))).expect("a right file");
    assert!(read.pretokens == counted);
}

#[test]
fn wrong_counts_are_refused() {
    for entries in [["a", "a", "b"], ["b", "a", "b"]] {
        for ordered in [true, false] {
            let (mut file, info) = (Vec::new(), info(ordered));
            let writer = CountsWriter::begin(&mut file, "counts.parquet".as_ref(), &info, &Silent);
            let mut writer = writer.expect("memory takes everything");
            entries
                .iter()
                .for_each(|pretoken| writer.push(pretoken.as_bytes(), Count::ONE).expect("as before"));
            writer.end().expect("as before");
            let error = read_bytes(&file).expect_err("twice the same");
            assert!(error.to_string().contains("row"), "{error}");
        }
    }
    // Rows are read in batches of 8 192. The last row of the first batch occurs again as the next row.
    let mut names: Vec<String> = (0..8_192).map(|n| format!("{n:04}")).collect();
    names.push(names[8_191].clone());
    let (mut file, info_of_many) = (Vec::new(), info(false));
    let mut writer =
        CountsWriter::begin(&mut file, "counts.parquet".as_ref(), &info_of_many, &Silent).expect("as before");
    names.iter().for_each(|name| writer.push(name.as_bytes(), Count::ONE).expect("as before"));
    writer.end().expect("as before");
    let error = read_bytes(&file).expect_err("twice the same");
    assert!(error.to_string().contains("row 8192"), "{error}");
    let unsplit = CountsInfo { pattern: SplitPattern::None, ..info(false) };
    let error = write_counts(Vec::new(), "x".as_ref(), &PretokenCounts::new(), &unsplit, &Silent)
        .expect_err("no split");
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[test]
fn a_foreign_or_missing_file_is_an_error() {
    assert!(read_counts("nowhere/counts.parquet".as_ref()).is_err());
    for bytes in [&b""[..], b"PAR1", b"no parquet at all, but long enough for a footer"] {
        assert!(read_bytes(bytes).is_err());
    }
    let mut file = written(&pretokens(&[("a", 1)]), &info(false));
    let metadata = &b"\"ordered\":false"[..];
    let at =
        file.windows(metadata.len()).position(|bytes| bytes == metadata).expect("metadata is plain JSON");
    file[at..at + metadata.len()].copy_from_slice(b"\"ordered\":true ");
    let error = read_bytes(&file).expect_err("there is no column of the order");
    assert!(error.to_string().contains("columns"), "{error}");
}

struct Full;

impl io::Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told_as_such() {
    let error = write_counts(Full, "counts.parquet".as_ref(), &pretokens(&[("a", 1)]), &info(false), &Silent);
    assert_eq!(error.expect_err("nothing fits").kind(), ErrorKind::DiskFull);
}

proptest! {
    #[test]
    fn damaged_files_are_errors_or_right(at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>()) {
        let names: Vec<String> = (0..500).map(|n| format!("pretoken {n}")).collect();
        let counts = (1..).map(|n| Count::new(n * n));
        let counted: PretokenCounts = names.iter().map(String::as_bytes).zip(counts).collect();
        let mut file = written(&counted, &info(true));
        let place = at.index(file.len());
        file[place] = byte;
        let read = read_bytes(&file);
        prop_assert!(read.is_err() || read.is_ok_and(|read| read.pretokens == counted && read.info == info(true)));
        file.truncate(cut.index(file.len()));
        prop_assert!(read_bytes(&file).is_err());
    }
}
