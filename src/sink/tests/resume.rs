use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field};
use serde_json::{Value, json};

use super::dataset::{config, totals, unit};
use super::*;
use crate::base::int::u64_to_usize;
use crate::base::test_support::with_threads;
use crate::observer::Silent;
use crate::sink::row_group::GROUP_ROWS;
use crate::sink::{DatasetConfig, DatasetWriter, DocumentSpan, Manifest, OutputFolder, Reused};
use crate::source::{Identity, Unit};

/// Rows of the input: slightly more than eight row groups.
const ROWS: usize = 8 * GROUP_ROWS + 77;
const BATCH: usize = GROUP_ROWS / 4;

/// Bytes of text per row. All rows fill two files.
const ROW_TEXT: u64 = 10;

fn job() -> DatasetConfig {
    with_row_groups(5)
}

/// The job with this number of row groups per file.
fn with_row_groups(groups: u64) -> DatasetConfig {
    config(vec![vec![unit("in", None)]], ROW_TEXT * groups * to_u64(GROUP_ROWS))
}

/// Rows from one number on, each with at most one id.
fn rows(from: usize, count: usize) -> TokenBatch {
    let ids = |row: usize| usize::from(!row.is_multiple_of(3));
    let mut end = 0;
    TokenBatch {
        first_row: to_u64(from),
        ids: (from..from + count)
            .filter(|&row| ids(row) == 1)
            .map(|row| TokenId::from_index(row % 999))
            .collect(),
        ends: (from..from + count)
            .map(|row| {
                end += ids(row);
                end
            })
            .collect(),
        nulls: (from..from + count).map(|row| row % 7 == 0 && ids(row) == 0).collect(),
        text_lengths: vec![ROW_TEXT; count],
        text_bytes: ROW_TEXT * to_u64(count),
        ..batch(&[])
    }
}

/// The job with the number of each row in a column. There are too many distinct values for a dictionary.
fn numbered_job() -> DatasetConfig {
    let number = Arc::new(Field::new("number", DataType::Int64, true));
    DatasetConfig { columns: vec![number], ..job() }
}

fn with_numbers(batch: TokenBatch) -> TokenBatch {
    let first = i64::try_from(batch.first_row).expect("few rows");
    let rows = i64::try_from(batch.len()).expect("few rows");
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + rows));
    let columns = RecordBatch::try_from_iter_with_nullable([("number", numbers, true)]).expect("one column");
    TokenBatch { columns: Some(columns), ..batch }
}

/// Writes the missing rows, at most `most` batches. Returns what was kept, and the manifest if the output is
/// complete. Otherwise leaves everything as a killed process does.
fn write_on(folder: &Path, job: DatasetConfig, most: usize) -> (Reused, Option<Manifest>) {
    let numbered = !job.columns.is_empty();
    let folder = OutputFolder::open(folder).expect("the folder");
    let mut writer = with_threads(1, || DatasetWriter::create(&folder, job, &Silent)).expect("a writer");
    let reused = writer.reused().clone();
    let mut batches = 0;
    for span in writer.missing() {
        let DocumentSpan { from, documents, .. } = writer.begin(span).expect("a span");
        let (mut row, end) =
            (u64_to_usize(from.row), documents.map_or(ROWS, |count| u64_to_usize(from.row + count)));
        while row < end {
            if batches == most {
                std::mem::forget(writer);
                return (reused, None);
            }
            let count = BATCH.min(end - row);
            writer.remark(json!(row));
            let batch = rows(row, count);
            writer.write(if numbered { with_numbers(batch) } else { batch }).expect("a batch");
            row += count;
            batches += 1;
        }
        writer.end(span).expect("the end of a span");
    }
    let (manifest, sum) = writer.finish(|_, _| Ok(Identity::Generated)).expect("an output");
    assert_eq!((sum.documents, sum.text_bytes), (to_u64(ROWS), to_u64(ROWS) * ROW_TEXT));
    manifest.write(folder.path()).expect("a manifest");
    (reused, Some(manifest))
}

fn undisturbed() -> std::collections::BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(write_on(folder.path(), job(), usize::MAX).0, Reused::default());
    totals(folder.path())
}

/// A folder with a run that ended after this number of batches.
fn ended_after(batches: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(write_on(folder.path(), job(), batches).1.is_none());
    folder
}

fn state(folder: &Path, name: &str) -> PathBuf {
    folder.join(".tokenmill").join(name)
}

#[test]
fn a_run_goes_on_where_it_was_killed() {
    let whole = undisturbed();
    assert_eq!(whole.keys().filter(|name| name.starts_with("data/")).count(), 2);
    let folder = tempfile::tempdir().expect("a folder");
    // Each attempt gets further, and none starts over.
    let mut reused = Vec::new();
    while let (so_far, None) = write_on(folder.path(), job(), 14) {
        reused.push((so_far.files, so_far.row_groups));
        assert_eq!(so_far.remarks.first().and_then(Value::as_u64).is_some(), so_far.text_bytes > 0);
        assert!(reused.len() < 9, "it does not get on: {reused:?}");
    }
    assert!(reused.iter().any(|&(_, groups)| groups > 0), "{reused:?}");
    assert!(reused.is_sorted(), "{reused:?}");
    assert!(totals(folder.path()) == whole);
    // Once the output is complete, no rows are asked for.
    assert_eq!(write_on(folder.path(), job(), 0).0.files, 2);
    assert!(totals(folder.path()) == whole);
}

/// The resumed file must list pages at their offsets, also after a dictionary that is not at the end of its column.
#[test]
fn columns_that_outgrow_their_dictionary_are_gone_on_with() {
    let write = |most| {
        let folder = tempfile::tempdir().expect("a folder");
        let manifest = write_on(folder.path(), numbered_job(), most).1;
        (folder, manifest.is_some())
    };
    let (whole, _) = write(usize::MAX);
    let (killed, finished) = write(14);
    assert!(!finished);
    let (reused, manifest) = write_on(killed.path(), numbered_job(), usize::MAX);
    assert!(reused.row_groups > 0 && manifest.is_some());
    assert!(totals(killed.path()) == totals(whole.path()));
}

#[test]
fn what_is_damaged_is_written_again() {
    let whole = undisturbed();
    let flip = |path: PathBuf, at: usize| {
        let mut bytes = fs::read(&path).expect("a file");
        let at = at.min(bytes.len() - 1);
        bytes[at] ^= 1;
        fs::write(&path, bytes).expect("a file");
    };
    let cut = |path: PathBuf, bytes: u64| {
        let file = fs::OpenOptions::new().write(true).open(path).expect("a file");
        file.set_len(bytes).expect("a shorter file");
    };
    type Damage<'a> = (&'a str, &'a dyn Fn(&Path));
    let damages: [Damage<'_>; 6] = [
        ("first byte", &|folder| flip(state(folder, "incomplete-1"), 0)),
        ("last byte", &|folder| flip(state(folder, "incomplete-1"), usize::MAX)),
        ("cut file", &|folder| cut(state(folder, "incomplete-1"), 1_000)),
        ("no file", &|folder| fs::remove_file(state(folder, "incomplete-1")).expect("removed")),
        ("journal", &|folder| flip(state(folder, "row-groups.journal"), 2_000)),
        ("cut journal", &|folder| cut(state(folder, "row-groups.journal"), 3_000)),
    ];
    for (name, damage) in damages {
        let folder = ended_after(20);
        damage(folder.path());
        let (reused, manifest) = write_on(folder.path(), job(), usize::MAX);
        assert!(manifest.is_some() && reused.row_groups < 3, "{name}: {reused:?}");
        assert!(totals(folder.path()) == whole, "{name}");
    }
}

#[test]
fn a_damaged_file_before_the_unfinished_one_is_written_again() {
    let job = || with_row_groups(4);
    let (whole, folder) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    write_on(whole.path(), job(), usize::MAX);
    // The first file is complete, and the second has some of its row groups.
    assert!(write_on(folder.path(), job(), 30).1.is_none());
    assert!(fs::metadata(state(folder.path(), "incomplete-1")).expect("a file").len() > 1_000);
    fs::write(folder.path().join("data/train-00000.parquet"), "PAR1").expect("a damaged file");
    let (reused, manifest) = write_on(folder.path(), job(), usize::MAX);
    assert!(reused.files == 0 && manifest.is_some());
    assert!(totals(folder.path()) == totals(whole.path()));
}

#[test]
fn of_a_finished_output_only_the_damaged_file_is_written_again() {
    let whole = undisturbed();
    for damaged in ["data/train-00000.parquet", "data/train-00001.parquet"] {
        let folder = tempfile::tempdir().expect("a folder");
        write_on(folder.path(), job(), usize::MAX);
        fs::write(folder.path().join(damaged), "PAR1").expect("a damaged file");
        // It is also killed during the repair.
        let (reused, manifest) = write_on(folder.path(), job(), 3);
        assert!(reused.files == 1 && manifest.is_none());
        let (reused, manifest) = write_on(folder.path(), job(), usize::MAX);
        assert!(reused.files == 1 && manifest.is_some());
        assert!(totals(folder.path()) == whole, "{damaged}");
    }
}

/// A file that cannot be read may be undamaged.
#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_read_is_not_written_again() {
    let folder = tempfile::tempdir().expect("a folder");
    write_on(folder.path(), job(), usize::MAX);
    for name in ["data/train-00000.parquet", "data/train-00001.parquet"] {
        let (path, good) = (folder.path().join(name), folder.path().join("good"));
        fs::rename(&path, &good).expect("moved");
        // A link to itself cannot be opened.
        std::os::unix::fs::symlink(&path, &path).expect("a link");
        let output = OutputFolder::open(folder.path()).expect("the folder");
        let error = DatasetWriter::create(&output, job(), &Silent).expect_err(name);
        assert!(error.to_string().contains(name) && path.is_symlink(), "{error}");
        fs::rename(&good, &path).expect("moved back");
    }
    assert_eq!(write_on(folder.path(), job(), 0).0.files, 2);
}

#[test]
fn a_file_that_was_not_yet_named_is_named() {
    let whole = undisturbed();
    let folder = tempfile::tempdir().expect("a folder");
    write_on(folder.path(), job(), usize::MAX);
    let last = folder.path().join("data/train-00001.parquet");
    fs::rename(last, state(folder.path(), "incomplete-1")).expect("the file as it was before");
    let (reused, manifest) = write_on(folder.path(), job(), 0);
    assert!(reused.files == 2 && manifest.is_some());
    assert!(totals(folder.path()) == whole);
}

#[test]
fn nothing_of_another_job_is_used() {
    let other = |config: DatasetConfig| DatasetConfig { job: "another".to_owned(), ..config };
    let renamed = |config: DatasetConfig| DatasetConfig {
        units: vec![vec![Unit { rows: Some(1), ..unit("in", None) }]],
        ..config
    };
    for config in [other(job()), renamed(job())] {
        let folder = ended_after(20);
        let (reused, manifest) = write_on(folder.path(), config, usize::MAX);
        assert_eq!((reused, manifest.is_some()), (Reused::default(), true));
    }
}
