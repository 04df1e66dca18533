//! Tests of whole outputs: their files, resuming, and the manifest.

use std::fs;
use std::path::PathBuf;

use arrow_schema::{DataType, Field, FieldRef};
use serde_json::{Value, json};

use super::*;
use crate::base::test_support::with_threads;
use crate::error::Result;
use crate::observer::Observer;
use crate::sink::{DocumentSpan, Manifest, OutputFile, Reused};

fn run(folder: &Path, config: DatasetConfig, batches: Vec<TokenBatch>) -> Result<Manifest> {
    let folder = OutputFolder::open(folder)?;
    let mut writer = DatasetWriter::create(&folder, config, &Silent)?;
    for batch in batches {
        writer.write(batch)?;
    }
    let (manifest, _) = writer.finish(|_, _| Ok(Identity::Generated))?;
    manifest.write(folder.path())?;
    Ok(manifest)
}

fn of_unit(source: usize, unit: usize, rows: &[Row]) -> TokenBatch {
    TokenBatch { source, unit, ..batch(rows) }
}

#[test]
fn planned_units_go_to_their_files() {
    let units =
        vec![vec![unit("a", Some(6)), unit("b", Some(6))], vec![unit("c", Some(9)), unit("d", Some(1))]];
    let folder = tempfile::tempdir().expect("a folder");
    let (some, more) = (some_rows(40), some_rows(7));
    // Unit b and all units of the second file are empty. Unit d comes in two batches.
    let batches = vec![of_unit(0, 0, &some), of_unit(1, 1, &more), of_unit(1, 1, &[None])];
    let manifest = run(folder.path(), config(units, 8), batches).expect("an output");
    let seen: Vec<_> = manifest.files.iter().map(|file| (file.name.as_str(), file.rows)).collect();
    assert_eq!(
        seen,
        [
            ("data/train-00000-of-00004.parquet", 40),
            ("data/train-00001-of-00004.parquet", 0),
            ("data/train-00002-of-00004.parquet", 0),
            ("data/train-00003-of-00004.parquet", 8)
        ]
    );
    assert_eq!((manifest.files[3].units[0].name.as_str(), manifest.files[3].units[0].rows), ("d", 8));
    let all: Vec<Row> = [some, more, vec![None]].concat();
    assert_eq!(read_rows(folder.path()), all);
    manifest.verify(folder.path(), &Silent).expect("as the manifest says");
}

#[test]
fn rolling_files_are_cut_between_rows_whatever_the_batches() {
    let rows = some_rows(200);
    let write = |size: usize| {
        let folder = tempfile::tempdir().expect("a folder");
        let batches = rows
            .chunks(size)
            .enumerate()
            .map(|(number, rows)| TokenBatch { first_row: to_u64(number * size), ..batch(rows) });
        run(folder.path(), config(vec![vec![unit("in", None)]], 1_000), batches.collect())
            .expect("an output");
        assert_eq!(read_rows(folder.path()), rows);
        output_bytes(folder.path())
    };
    let whole = write(200);
    assert!(whole.len() > 6, "several data files");
    for size in [1, 7, 64] {
        assert!(write(size) == whole, "batches of {size}");
    }
    let manifest: Manifest = serde_json::from_slice(&whole["manifest.json"]).expect("a manifest");
    let mut next = 0;
    for file in &manifest.files {
        assert!(file.text_bytes <= 1_000);
        assert_eq!(file.units[0].first_row, next);
        next += file.rows;
    }
    assert_eq!((next, manifest.rows()), (200, 200));
}

#[test]
fn an_output_without_rows_is_an_output() {
    for text_bytes in [None, Some(0)] {
        let folder = tempfile::tempdir().expect("a folder");
        let manifest =
            run(folder.path(), config(vec![vec![unit("in", text_bytes)]], 10), vec![]).expect("an output");
        assert_eq!((manifest.files.len(), manifest.rows()), (1, 0));
        assert!(read_rows(folder.path()).is_empty());
    }
}

#[test]
fn an_earlier_output_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let unit = || vec![vec![unit("in", None)]];
    run(folder.path(), config(unit(), 100), vec![batch(&some_rows(50))]).expect("many files");
    let manifest =
        run(folder.path(), config(unit(), 1 << 30), vec![batch(&some_rows(50))]).expect("one file");
    manifest.verify(folder.path(), &Silent).expect("no file too many");
}

#[test]
fn a_run_that_ends_early_leaves_no_half_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = OutputFolder::open(folder.path()).expect("a folder");
    let units = vec![vec![unit("in", None)]];
    let mut writer = DatasetWriter::create(&output, config(units, 1_000), &Silent).expect("a writer");
    writer.write(batch(&some_rows(50))).expect("a batch");
    drop(writer);
    let names: Vec<String> = output_bytes(folder.path()).into_keys().collect();
    assert!(!names.is_empty() && names.iter().all(|name| name.ends_with(".parquet")), "{names:?}");
    let rows: Vec<Row> = names.iter().flat_map(|name| read_rows(&folder.path().join(name))).collect();
    assert!(rows.len() < 50 && some_rows(50).starts_with(&rows));
}

#[test]
fn batches_out_of_order_are_refused() {
    let units = vec![vec![unit("a", Some(9)), unit("b", Some(9))]];
    let folder = tempfile::tempdir().expect("a folder");
    let batches = vec![of_unit(0, 1, &[None]), of_unit(0, 0, &[None])];
    run(folder.path(), config(units.clone(), 9), batches).expect_err("backwards");
    run(folder.path(), config(units, 9), vec![of_unit(0, 2, &[None])]).expect_err("no such unit");
}

#[test]
fn the_card_tells_readers_what_there_is() {
    let column = strings("na\"me|\n\u{7f}\u{2028}é", &[Some("x"), None]);
    let fields: Vec<FieldRef> = column.schema().fields().to_vec();
    let folder = tempfile::tempdir().expect("a folder");
    let passing = DatasetConfig { columns: fields, ..config(vec![vec![unit("in", None)]], 10) };
    run(folder.path(), passing, vec![batch_with(&[Some(vec![1, 2, 3]), None], &column)]).expect("an output");
    let card = fs::read_to_string(folder.path().join("README.md")).expect("a card");
    for line in [
        "    path: \"data/train-*.parquet\"",
        "  - {\"name\":\"input_ids\",\"sequence\":\"int32\"}",
        "  - {\"name\":\"length\",\"dtype\":\"int32\"}",
        r#"  - {"name":"na\"me|\n\u007f\u2028é","dtype":"string"}"#,
        r#"| `na\"me\|\n\u{7f}\u{2028}é` | passed through |"#,
    ] {
        assert!(card.lines().any(|found| found == line), "{line} in\n{card}");
    }
    // The size of the extra column in memory is not known, and `datasets` warns of splits with only some figures.
    assert!(!card.contains("splits:"), "{card}");
    let folder = tempfile::tempdir().expect("a folder");
    let plain = config(vec![vec![unit("in", None)]], 10);
    run(folder.path(), plain, vec![batch(&[Some(vec![1, 2, 3]), None])]).expect("an output");
    let card = fs::read_to_string(folder.path().join("README.md")).expect("a card");
    let splits = "  splits:\n  - name: \"train\"\n    num_bytes: 28\n    num_examples: 2\n  download_size: ";
    assert!(card.contains(splits), "{card}");
}

#[test]
fn files_are_used_again_only_if_all_that_their_bytes_depend_on_is_the_same() {
    let same = || config(vec![vec![unit("in", None)]], 1 << 30);
    let columns = strings("name", &[]).schema().fields().to_vec();
    let declaration = Declaration { tokenizer: "another".to_owned(), ..Declaration::default() };
    let others = [
        DatasetConfig { columns, ..same() },
        DatasetConfig { ids: 60_000, ..same() },
        DatasetConfig { compression: Compression::Fast, ..same() },
        DatasetConfig { declaration, ..same() },
    ];
    // The name of an input depends on the working directory.
    let renamed = DatasetConfig { units: vec![vec![unit("there/in", None)]], ..same() };
    let used = [(same(), 1), (renamed, 1)];
    for (config, files) in used.into_iter().chain(others.map(|other| (other, 0))) {
        let folder = tempfile::tempdir().expect("a folder");
        run(folder.path(), same(), vec![batch(&some_rows(20))]).expect("an output");
        let output = OutputFolder::open(folder.path()).expect("a folder");
        let writer = DatasetWriter::create(&output, config.clone(), &Silent).expect("a writer");
        assert_eq!(writer.reused().files, files, "{config:?}");
    }
}

/// Units share a file or have their own, and two have the same number in different sources.
#[test]
fn the_manifest_has_the_identity_of_each_unit() {
    let two = |name: &str| vec![unit(&format!("{name}0"), Some(2)), unit(&format!("{name}1"), Some(2))];
    let folder = tempfile::tempdir().expect("a folder");
    let output = OutputFolder::open(folder.path()).expect("a folder");
    let config = config(vec![two("a"), two("b")], 6);
    let mut writer = DatasetWriter::create(&output, config, &Silent).expect("a writer");
    for (source, unit) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        writer.write(of_unit(source, unit, &[Some(vec![1, 2])])).expect("a batch");
    }
    let identity = |source, unit| Identity::Content { bytes: 0, sha256: format!("of {source} {unit}") };
    let (manifest, _) = writer.finish(|source, unit| Ok(identity(source, unit))).expect("an output");
    let found: Vec<Vec<_>> = manifest
        .files
        .into_iter()
        .map(|file| file.units.into_iter().map(|unit| (unit.name, unit.identity)).collect())
        .collect();
    let of = |name: &str, source, unit| (name.to_owned(), identity(source, unit));
    assert_eq!(found, [vec![of("a0", 0, 0), of("a1", 0, 1), of("b0", 1, 0)], vec![of("b1", 1, 1)]]);
}

/// The first remarks are made before there is a file.
#[test]
fn what_was_remarked_of_files_is_found_by_a_later_writer() {
    let (folder, rows) = (tempfile::tempdir().expect("a folder"), some_rows(100));
    let output = OutputFolder::open(folder.path()).expect("a folder");
    let writer = || {
        let config = config(vec![vec![unit("in", None)]], 600);
        DatasetWriter::create(&output, config, &Silent).expect("a writer")
    };
    let mut first = writer();
    for (number, rows) in rows.chunks(5).enumerate() {
        first.remark(number.into());
        first.write(TokenBatch { first_row: to_u64(number * 5), ..batch(rows) }).expect("a batch");
    }
    drop(first);
    let second = writer();
    let found: Vec<u64> = second.reused().remarks.iter().filter_map(Value::as_u64).collect();
    assert!(second.reused().files > 2 && found.len() > 6, "{found:?}");
    assert_eq!(found, (0..to_u64(found.len())).collect::<Vec<u64>>());
}

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
    output_bytes(folder.path())
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
    assert!(output_bytes(folder.path()) == whole);
    // Once the output is complete, no rows are asked for.
    assert_eq!(write_on(folder.path(), job(), 0).0.files, 2);
    assert!(output_bytes(folder.path()) == whole);
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
    assert!(output_bytes(killed.path()) == output_bytes(whole.path()));
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
        assert!(output_bytes(folder.path()) == whole, "{name}");
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
    assert!(output_bytes(folder.path()) == output_bytes(whole.path()));
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
        assert!(output_bytes(folder.path()) == whole, "{damaged}");
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
    assert!(output_bytes(folder.path()) == whole);
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

fn output(folder: &Path) -> Manifest {
    for name in ["data", "tokenizer"] {
        fs::create_dir(folder.join(name)).expect("a folder");
    }
    fs::write(folder.join("tokenizer/tokenizer.json"), "{}").expect("a file");
    let (bytes, facts) = write([batch(&some_rows(500))], None, Compression::Default, 1);
    fs::write(folder.join("data/train-00000.parquet"), bytes).expect("a file");
    let file = OutputFile {
        name: "data/train-00000.parquet".to_owned(),
        rows: facts.rows,
        tokens: facts.tokens,
        text_bytes: 1,
        bytes: facts.bytes,
        sha256: facts.sha256,
        index: None,
        units: Vec::new(),
    };
    Manifest {
        format_version: 1,
        tool_version: "0".to_owned(),
        job: "j".to_owned(),
        tokenizer: "t".to_owned(),
        declaration: None,
        inputs: Vec::new(),
        files: vec![file],
        tokenizer_files: vec!["tokenizer/tokenizer.json".to_owned()],
        other_files: Vec::new(),
        reports: Vec::new(),
        splits: Vec::new(),
    }
}

#[test]
fn reads_what_it_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(Manifest::read(folder.path()).expect("nothing there"), None);
    let manifest = output(folder.path());
    manifest.write(folder.path()).expect("written");
    assert_eq!(Manifest::read(folder.path()).expect("there"), Some(manifest));
}

#[test]
fn any_change_to_a_file_is_noticed() {
    type Change = fn(&Path);
    let truncate: Change = |path| {
        let bytes = fs::read(path).expect("a file");
        fs::write(path, &bytes[..bytes.len() - 1]).expect("a file");
    };
    let flip: Change = |path| {
        let mut bytes = fs::read(path).expect("a file");
        bytes[100] ^= 1;
        fs::write(path, bytes).expect("a file");
    };
    let remove: Change = |path| fs::remove_file(path).expect("removed");
    let another: Change = |path| fs::write(path.with_file_name("stray.parquet"), "x").expect("a file");
    let tokenizer: Change = |path| {
        let output = path.ancestors().nth(2).expect("the output folder");
        fs::remove_file(output.join("tokenizer/tokenizer.json")).expect("removed");
    };
    for (change, says) in [
        (truncate, "train-00000.parquet: the size"),
        (flip, "train-00000.parquet: the SHA-256"),
        (remove, "train-00000.parquet: listed in the manifest, but missing"),
        (another, "stray.parquet"),
        (tokenizer, "tokenizer.json: listed in the manifest, but missing"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let manifest = output(folder.path());
        manifest.verify(folder.path(), &Silent).expect("unchanged");
        change(&folder.path().join("data/train-00000.parquet"));
        let error = manifest.verify(folder.path(), &Silent).expect_err(says);
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert!(error.to_string().contains(says), "{error}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut manifest = output(folder.path());
    manifest.files[0].rows += 1;
    let error = manifest.verify(folder.path(), &Silent).expect_err("rows");
    assert!(error.to_string().contains("rows is 500"), "{error}");
}

#[test]
fn verifying_stops_when_asked() {
    struct Stop;
    impl Observer for Stop {
        fn stopping(&self) -> bool {
            true
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let error = output(folder.path()).verify(folder.path(), &Stop).expect_err("stopped");
    assert_eq!(error.kind(), ErrorKind::Interrupted);
}

#[test]
fn hostile_manifests_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = serde_json::to_string(&output(folder.path())).expect("JSON");
    let file = |name: &str| good.replace("data/train-00000.parquet", name);
    let twice = good.replace("\"files\":[", "\"files\":[{\"name\":\"data/train-00000.parquet\",\"rows\":0,\"tokens\":0,\"text_bytes\":0,\"bytes\":0,\"sha256\":\"\",\"units\":[]},");
    let tokenizer = good.replace("tokenizer/tokenizer.json", "../tokenizer.json");
    let other = twice.replacen("data/train-00000.parquet", "other", 1);
    let sum = |of: &str| other.replacen(&format!("\"{of}\":0"), &format!("\"{of}\":{}", u64::MAX), 1);
    for (text, says) in [
        (String::new(), "not a manifest"),
        ("[".repeat(100_000), "not a manifest"),
        (good.replace("\"rows\":500", "\"rows\":-1"), "not a manifest"),
        (good.replace("\"format_version\":1", "\"format_version\":2"), "format version 2"),
        ("{\"format_version\":9}".to_owned(), "format version 9"),
        (file("../x.parquet"), "outside"),
        (file("/etc/passwd"), "outside"),
        (file(""), "outside"),
        (tokenizer, "outside"),
        (twice, "twice"),
        (sum("rows"), "64 bits"),
        (sum("tokens"), "64 bits"),
        (sum("text_bytes"), "64 bits"),
        (sum("bytes"), "64 bits"),
    ] {
        fs::write(folder.path().join("manifest.json"), &text).expect("a file");
        let error = Manifest::read(folder.path()).expect_err(says);
        assert_eq!(error.kind(), ErrorKind::Failed);
        assert!(error.to_string().contains(says), "{says}: {error}");
        assert!(error.to_string().contains("manifest.json"), "{error}");
    }
}
