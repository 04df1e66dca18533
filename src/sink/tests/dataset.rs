use std::collections::BTreeMap;
use std::fs;

use arrow_schema::FieldRef;
use serde_json::Value;

use super::*;
use crate::error::Result;
use crate::observer::Silent;
use crate::sink::{DatasetConfig, DatasetWriter, FilePlan, Manifest, OutputFolder};
use crate::source::{Identity, Range, Unit};

pub(super) fn unit(name: &str, text_bytes: Option<u64>) -> Unit {
    Unit { name: name.to_owned(), range: Range::Whole, rows: None, text_bytes }
}

pub(super) fn config(units: Vec<Vec<Unit>>, file_text_bytes: u64) -> DatasetConfig {
    DatasetConfig {
        job: "job".to_owned(),
        plan: FilePlan::of_units(&units, "train", file_text_bytes).expect("a plan"),
        units,
        columns: Vec::new(),
        ids: 50_000,
        compression: Compression::Default,
        declaration: Declaration::default(),
    }
}

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

/// All files outside of the state folder, with their bytes.
pub(super) fn totals(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for below in ["", "data"] {
        for entry in fs::read_dir(folder.join(below)).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                let name = path.strip_prefix(folder).expect("below").display().to_string();
                files.insert(name, fs::read(&path).expect("a file"));
            }
        }
    }
    files
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
        totals(folder.path())
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
    let names: Vec<String> = totals(folder.path()).into_keys().collect();
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
