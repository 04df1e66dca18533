use std::fs;

use proptest::prelude::*;

use super::dataset::{config, totals, unit};
use super::*;
use crate::observer::Silent;
use crate::sink::flat_file::FlatIndex;
use crate::sink::flat_file::IdWidth;
use crate::sink::{DatasetConfig, DatasetWriter, OutputFolder, OutputFormat};
use crate::source::Identity;

fn write_flat(folder: &Path, format: OutputFormat, ids: u64, rows: &[Row]) {
    let config = config(vec![vec![unit("in", None)]], 1_000);
    let config = DatasetConfig { plan: config.plan.with_format(format), ids, ..config };
    let folder = OutputFolder::open(folder).expect("the folder");
    let mut writer = DatasetWriter::create(&folder, config, &Silent).expect("a writer");
    for (number, rows) in rows.chunks(7).enumerate() {
        writer.write(TokenBatch { first_row: to_u64(number * 7), ..batch(rows) }).expect("a batch");
    }
    let (manifest, _) = writer.finish(|_, _| Ok(Identity::Generated)).expect("an output");
    assert_eq!(manifest.rows(), to_u64(rows.len()));
    manifest.write(folder.path()).expect("a manifest");
    manifest.verify(folder.path(), &Silent).expect("as the manifest says");
}

/// The rows as a format without nulls stores them.
fn without_nulls(rows: &[Row]) -> Vec<Row> {
    rows.iter().map(|row| Some(row.clone().unwrap_or_default())).collect()
}

proptest! {
    #[test]
    fn flat_files_give_the_rows_back(
        rows in prop::collection::vec(prop::option::weighted(0.9, prop::collection::vec(0_u32..60_000, 0..90)), 0..60),
        megatron in any::<bool>(),
        wide in any::<bool>(),
    ) {
        let times = |id| if wide { id * 17 } else { id };
        let rows: Vec<Row> = rows.into_iter().map(|row| row.map(|ids| ids.into_iter().map(times).collect())).collect();
        let format = if megatron { OutputFormat::Megatron } else { OutputFormat::Bin };
        let folder = tempfile::tempdir().expect("a folder");
        write_flat(folder.path(), format, if wide { 1 << 20 } else { 60_000 }, &rows);
        prop_assert_eq!(read_rows(folder.path()), without_nulls(&rows));
    }
}

#[test]
fn the_width_of_ids_is_the_least_that_holds_all() {
    for (ids, format, width) in [
        (65_536, OutputFormat::Bin, IdWidth::Two),
        (65_537, OutputFormat::Bin, IdWidth::Four),
        (65_499, OutputFormat::Megatron, IdWidth::Two),
        (65_500, OutputFormat::Megatron, IdWidth::Four),
    ] {
        assert_eq!(IdWidth::of(ids, format), width, "{ids} {format:?}");
    }
}

#[test]
fn the_bytes_are_those_of_the_formats() {
    let rows = [Some(vec![1, 258]), None, Some(vec![]), Some(vec![3])];
    for (format, index) in [
        (OutputFormat::Bin, [0_u64, 2, 2, 2, 3].map(u64::to_le_bytes).concat()),
        (
            OutputFormat::Megatron,
            [
                b"MMIDIDX\0\0".as_slice(),
                &1_u64.to_le_bytes(),
                &[8],
                &[2_u64, 5].map(u64::to_le_bytes).concat(),
                &[2_i32, 1].map(i32::to_le_bytes).concat(),
                &[0_i64, 4].map(i64::to_le_bytes).concat(),
                &[0_i64, 1, 1, 1, 2].map(i64::to_le_bytes).concat(),
            ]
            .concat(),
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        write_flat(folder.path(), format, 300, &rows);
        let files = totals(folder.path());
        assert_eq!(files["data/train-00000.bin"], [1, 0, 2, 1, 3, 0]);
        assert_eq!(files["data/train-00000.idx"], index, "{format:?}");
    }
}

#[test]
fn damaged_indexes_are_errors() {
    for format in [OutputFormat::Bin, OutputFormat::Megatron] {
        let folder = tempfile::tempdir().expect("a folder");
        write_flat(folder.path(), format, 60_000, &some_rows(20));
        let data = folder.path().join("data/train-00000.bin");
        let path = data.with_extension("idx");
        let whole = fs::read(&path).expect("the index");
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).expect("a cut index");
            assert!(FlatIndex::read(&data).is_err(), "{format:?} cut to {length} bytes");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x80;
            fs::write(&path, bytes).expect("a damaged index");
            // Only the border between two documents can be wrong unnoticed.
            let lengths = FlatIndex::read(&data).map(|index| index.lengths.len());
            assert!(lengths.is_err() || lengths.is_ok_and(|count| count == 20), "{format:?} at {at}");
        }
    }
}

#[test]
fn a_missing_index_is_noticed_and_made_again() {
    let rows = some_rows(300);
    let folder = tempfile::tempdir().expect("a folder");
    write_flat(folder.path(), OutputFormat::Megatron, 60_000, &rows);
    let whole = totals(folder.path());
    fs::remove_file(folder.path().join("data/train-00001.idx")).expect("removed");
    let other = tempfile::tempdir().expect("a folder");
    write_flat(other.path(), OutputFormat::Megatron, 60_000, &rows);
    assert!(totals(other.path()) == whole);
    let output = OutputFolder::open(folder.path()).expect("the folder");
    let config = config(vec![vec![unit("in", None)]], 1_000);
    let config =
        DatasetConfig { plan: config.plan.with_format(OutputFormat::Megatron), ids: 60_000, ..config };
    let writer = DatasetWriter::create(&output, config, &Silent).expect("a writer");
    assert!(writer.missing()[0].documents.is_some_and(|documents| documents > 0));
}
