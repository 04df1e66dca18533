//! The files that are read if the input is a folder or a pattern.

use super::*;

/// Counts an input. Returns the messages and the number of documents.
fn counted(folder: &TempDir, input: &str) -> (String, serde_json::Value) {
    let count = ["count", input, "--split", "gpt2", "-o", "counts.parquet", "--json"];
    let output = tokenmill(folder).args(count).output().expect("a run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (said, found["documents"].clone())
}

/// Files and folders that start with `_` or `.` are skipped in a folder, but a pattern can select them.
#[test]
fn what_others_note_beside_their_data_is_left_out() {
    let folder = folder();
    fs::create_dir_all(folder.path().join("data/_temporary")).expect("a folder");
    for name in ["part-0.txt", "_SUCCESS.txt", ".part.txt", "_temporary/part-0.txt"] {
        write(&folder, &format!("data/{name}"), TEXT);
    }
    assert_eq!(counted(&folder, "data").1, 1);
    assert_eq!(counted(&folder, "data/_temporary/*").1, 1, "a pattern names what it wants");
}

/// Cache files of `datasets` beside a saved dataset are skipped.
#[test]
fn what_datasets_has_computed_is_left_out() {
    let folder = folder();
    fs::create_dir(folder.path().join("saved")).expect("a folder");
    write_parquet(&folder, "saved/data.parquet", &[Some("the cat"), Some("the mat")]);
    write(&folder, "saved/cache-0123456789abcdef.arrow", "no Arrow file");
    refuses(&folder, &train("saved", &[]), 2, &["files of several formats"]);
    write(&folder, "saved/dataset_info.json", "{}");
    assert_eq!(counted(&folder, "saved").1, 2);
}

/// A note says that a folder has files of several splits and that all are read.
#[test]
fn the_splits_of_a_dataset_are_told() {
    let folder = folder();
    fs::create_dir(folder.path().join("data")).expect("a folder");
    for name in ["data/train-00000-of-00001.txt", "data/test-00000-of-00001.txt"] {
        write(&folder, name, TEXT);
    }
    let (said, documents) = counted(&folder, "data");
    assert!(documents == 2 && said.contains("data has files of test and train: all are read"), "{said}");
    assert!(!counted(&folder, "data/train*").0.contains("all are read"));
}

/// A file without an extension that is an archive or a binary table is refused by its kind.
#[test]
fn what_is_no_text_is_not_taken_for_some() {
    let folder = folder();
    let mut tar = vec![0; 1024];
    tar[257..262].copy_from_slice(b"ustar");
    for (name, content, what) in [
        ("c", &tar[..], "a tar archive"),
        ("d", b"Obj\x01\x04\x14avro.codec", "an Avro file"),
        ("e", b"\xff\xff\xff\xff\x80\0\0\0", "an Arrow stream"),
    ] {
        write(&folder, name, content);
        refuses(&folder, &train(name, &[]), 1, &[what]);
    }
}

/// A note counts the skipped files of a folder by extension, and another names JSON files beside JSONL files. `plan`
/// and `run` repeat them, and the report contains them.
#[test]
fn files_of_a_folder_that_are_left_out_are_told() {
    let folder = folder();
    fs::create_dir_all(folder.path().join("in/more")).expect("folders");
    for name in ["a.jsonl", "more/b.jsonl"] {
        write(&folder, &format!("in/{name}"), "{\"text\": \"the cat on the mat\"}\n");
    }
    assert!(!counted(&folder, "in").0.contains("left out"));
    for name in
        ["c.json.gz", "d.json.gz", "README.md", "more/notes", ".hidden", "_SUCCESS", ".part-0.jsonl.crc"]
    {
        write(&folder, &format!("in/{name}"), "x");
    }
    let told = "2 files of in are left out, with names that show no format: 1 .md, 1 without an ending";
    let tables = "in/c.json.gz and 1 other file of in are not read, because JSON, CSV and TSV files beside files of \
                  other formats are often metadata: if they hold documents, name them as a further input";
    let (said, documents) = counted(&folder, "in");
    assert!(documents == 2 && said.contains(told) && said.contains(tables), "{said}");
    assert!(!counted(&folder, "in/*.jsonl").0.contains("left out"), "a pattern names what it wants");
    write(
        &folder,
        "r.toml",
        "[source]\nuri = \"in\"\n[train]\nmerges = 3\n[encode]\n[output]\ndir = \"o\"\n",
    );
    for command in ["plan", "run", "run"] {
        let (code, said) = ended(&folder, &[command, "r.toml"]);
        assert!(code == Some(0) && said.contains(told), "{command}: {said}");
    }
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("o/report.json")).expect("a report"))
            .expect("JSON");
    assert_eq!(report["input_notes"], serde_json::json!([told, tables]));
    let page = fs::read_to_string(folder.path().join("o/report.html")).expect("a page");
    assert!(page.contains(told));
}

/// `save_to_disk` leaves the files of an earlier dataset beside those of a later one. Its `state.json` lists
/// the files of the later one.
#[test]
fn of_a_saved_dataset_those_files_are_read_that_it_has() {
    let folder = folder();
    fs::create_dir_all(folder.path().join("saved/train")).expect("folders");
    let text: ArrayRef = Arc::new(StringArray::from(vec!["the cat", "the mat"]));
    let rows = RecordBatch::try_from_iter([("text", text)]).expect("a column");
    let arrow = |name: &str| {
        let file = fs::File::create(folder.path().join(name)).expect("a file");
        let mut writer = arrow::ipc::writer::StreamWriter::try_new(file, &rows.schema()).expect("a header");
        writer.write(&rows).and_then(|()| writer.finish()).expect("a stream");
    };
    let state = |files: &[&str]| {
        let files: Vec<_> = files.iter().map(|name| serde_json::json!({ "filename": name })).collect();
        serde_json::json!({ "_data_files": files, "_fingerprint": "x" }).to_string()
    };
    for number in 0..5 {
        arrow(&format!("saved/train/data-{number:05}-of-00005.arrow"));
    }
    let names = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"];
    names.iter().for_each(|name| arrow(&format!("saved/train/{name}")));
    write(&folder, "saved/dataset_dict.json", "{\"splits\": [\"train\"]}");
    write(&folder, "saved/train/dataset_info.json", "{}");
    write(&folder, "saved/train/state.json", state(&names));
    for input in ["saved", "saved/train"] {
        let (said, documents) = counted(&folder, input);
        assert!(
            documents == 4
                && said
                    .contains("left out, because by state.json they are of an earlier dataset: 5 files of"),
            "{said}"
        );
        assert!(!said.contains("differ in the number of shards"), "{said}");
    }
    let (said, documents) = counted(&folder, "saved/train/*.arrow");
    let told =
        "data-00000-of-00002.arrow and saved/train/data-00000-of-00005.arrow differ in the number of shards";
    assert!(documents == 14 && said.contains(told), "{said}");
    fs::remove_file(folder.path().join("saved/train").join(names[1])).expect("the file");
    refuses(
        &folder,
        &train("saved", &[]),
        1,
        &[names[1], "of the dataset that was saved in saved/train is missing"],
    );
    // A `state.json` that `datasets` did not write has no effect.
    write(&folder, "saved/train/state.json", "{\"step\": 1}");
    assert_eq!(counted(&folder, "saved").1, 12);
}

/// A note names missing shards of a numbered series, and files that are read twice.
#[test]
fn shards_that_are_missing_and_files_given_twice_are_told() {
    let folder = folder();
    fs::create_dir(folder.path().join("in")).expect("a folder");
    for number in [0, 1, 3] {
        write(&folder, &format!("in/train-{number:05}-of-00004.txt"), TEXT);
    }
    for input in ["in", "in/*.txt"] {
        let (said, documents) = counted(&folder, input);
        let told = "in/train-00002-of-00004.txt is missing: 3 of 4 files exist";
        assert!(documents == 3 && said.contains(told), "{said}");
    }
    let both = ["count", "in", "in/../in/train-00001*", "--split", "gpt2", "-o", "counts.parquet"];
    let (code, said) = ended(&folder, &both);
    assert!(code == Some(0) && said.contains("is read twice: by in and by in/../in/train-00001*"), "{said}");
}

/// `file://` addresses of this machine are read as paths, with or without percent-encoding. Others are refused.
#[test]
fn addresses_of_files_on_this_machine_are_paths() {
    let folder = folder();
    write(&folder, "a b.txt", TEXT);
    let path = folder.path().join("a b.txt").display().to_string();
    for uri in [
        format!("file://{}", path.replace(' ', "%20")),
        format!("file://localhost{}", path.replace(' ', "%20")),
        format!("file://{path}"),
    ] {
        assert_eq!(counted(&folder, &uri).1, 1, "{uri}");
    }
    for uri in ["file://elsewhere/a.txt", "file://a.txt", "file:///%ff"] {
        refuses(&folder, &train(uri, &[]), 2, &["file:///PATH"]);
    }
}
