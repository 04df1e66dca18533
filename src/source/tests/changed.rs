//! Tests of files that change after they were listed, before or while they are read.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use ::parquet::file::properties::WriterProperties;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_ipc::writer::{FileWriter, StreamWriter};

use super::columnar::parquet_file;
use super::*;

/// Rows of the tables in these tests.
const ROWS: usize = 400;

fn table() -> RecordBatch {
    let rows: ArrayRef = Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("row {row}"))));
    RecordBatch::try_from_iter([("text", rows)]).expect("one column")
}

/// Writes Parquet with row groups of 100 rows. `rows` = 100 gives a file with only the first row group.
fn parquet(folder: &Path, name: &str, rows: usize) -> PathBuf {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(100)).build();
    parquet_file(folder.join(name), &table().slice(0, rows), properties)
}

fn written_as(folder: &Path, name: &str) -> PathBuf {
    let table = table();
    let lines = |line: &dyn Fn(usize) -> String| (0..ROWS).map(line).collect::<String>();
    let jsonl = || lines(&|row| format!("{{\"text\": \"row {row}\"}}\n"));
    let bytes = match name {
        "a.parquet" => return parquet(folder, name, ROWS),
        "a.arrow" => {
            let mut file = FileWriter::try_new(Vec::new(), &table.schema()).expect("memory");
            (0..ROWS).step_by(100).for_each(|at| file.write(&table.slice(at, 100)).expect("memory"));
            file.into_inner().expect("memory")
        }
        "a.arrows" => {
            let mut stream = StreamWriter::try_new(Vec::new(), &table.schema()).expect("memory");
            (0..ROWS).step_by(100).for_each(|at| stream.write(&table.slice(at, 100)).expect("memory"));
            stream.into_inner().expect("memory")
        }
        "a.jsonl" => jsonl().into_bytes(),
        "a.jsonl.gz" => gzip(jsonl().as_bytes()),
        "a.txt.zst" => zstd::encode_all(lines(&|row| format!("row {row}\n")).as_bytes(), 1).expect("memory"),
        _ => lines(&|row| format!("row {row}\n")).into_bytes(),
    };
    written(folder, name, bytes)
}

const CHANGES: [&str; 8] =
    ["emptied", "appended to", "cut", "replaced", "renamed over", "removed", "a pipe", "led elsewhere"];

/// Changes the file that a link leads to, or the link itself.
fn change(how: &str, file: &Path, link: &Path) {
    let whole = fs::read(file).expect("a file");
    let other = file.with_file_name("other");
    match how {
        "emptied" => fs::write(file, b"").expect("a file"),
        "appended to" => fs::write(file, [&whole[..], b"\n"].concat()).expect("a file"),
        // A Parquet file can only be shortened to a complete file at a row group.
        "cut" if file.extension().is_some_and(|extension| extension == "parquet") => {
            parquet(file.parent().expect("a folder"), "a.parquet", 100);
        }
        "cut" => fs::write(file, &whole[..whole.len() / 2]).expect("a file"),
        // The content has the same length, so only the modification time differs.
        "replaced" => fs::write(file, &whole).expect("a file"),
        "renamed over" => {
            fs::write(&other, &whole).expect("a file");
            fs::rename(&other, file).expect("the same folder");
        }
        "removed" => fs::remove_file(file).expect("a file"),
        "a pipe" => {
            fs::remove_file(file).expect("a file");
            assert!(std::process::Command::new("mkfifo").arg(file).status().expect("mkfifo").success());
        }
        _ => {
            fs::write(&other, &whole).expect("a file");
            old(&other);
            fs::remove_file(link).expect("a link");
            std::os::unix::fs::symlink(&other, link).expect("a link");
        }
    }
}

/// Sets an old modification time, so that a change within the resolution of the clock gives another one.
fn old(file: &Path) {
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::options().append(true).open(file).and_then(|file| file.set_modified(long_ago)).expect("a file");
}

/// Reads all units. The file is changed before that if `at_first` is set, or after the first batch.
fn read_changed(source: &dyn Source, at_first: bool, change: impl Fn()) -> Result<()> {
    let mut changed = false;
    let mut once = || {
        if !std::mem::replace(&mut changed, true) {
            change();
        }
    };
    if at_first {
        once();
    }
    for unit in 0..source.units().len() {
        for batch in source.read(unit)? {
            batch?;
            once();
        }
    }
    Ok(())
}

/// Every kind of change gives the error that the input changed, in every format.
#[test]
fn a_file_that_changes_after_it_was_listed_ends_the_run() {
    let names =
        ["a.parquet", "a.arrow", "a.arrows", "a.jsonl", "a.jsonl.gz", "a.txt", "a.txt.zst"].into_iter();
    for (name, how) in names.flat_map(|name| CHANGES.map(|how| (name, how))) {
        for (at_first, policy) in
            [(true, OnBadInput::Fail), (true, OnBadInput::Skip), (false, OnBadInput::Quarantine)]
        {
            let folder = folder();
            fs::create_dir(folder.path().join("there")).expect("a folder");
            let file = written_as(&folder.path().join("there"), name);
            old(&file);
            let link = folder.path().join(name);
            std::os::unix::fs::symlink(&file, &link).expect("a link");
            let rule = DocumentRule::Line;
            let spec = SourceSpec { documents: rule, on_bad_input: policy, ..spec(&link) };
            let source = opened(&spec, SMALL).expect("what was listed");
            assert_eq!(source.changed(), None);
            let outcome = read_changed(&*source, at_first, || change(how, &file, &link));
            let (kind, message) = failure(outcome);
            let case = format!("{name} {how}, at first {at_first}, {policy:?}: {message}");
            assert_eq!(kind, ErrorKind::InputChanged, "{case}");
            assert!(message.contains(name) && message.contains("changed while it was read"), "{case}");
            assert_eq!(failure(source.identity(0)).0, ErrorKind::InputChanged, "{case}");
            assert!(source.changed().is_some(), "{case}");
        }
    }
}

/// Files that do not change are read without an error.
#[test]
fn files_that_stay_are_read_to_their_end() {
    let folder = folder();
    for name in ["a.parquet", "a.arrow", "a.arrows", "a.jsonl", "a.jsonl.gz", "a.txt", "a.txt.zst"] {
        let spec = SourceSpec { documents: DocumentRule::Line, ..spec(&written_as(folder.path(), name)) };
        assert_eq!(read(&spec, SMALL).expect("the same file").len(), ROWS, "{name}");
    }
}
