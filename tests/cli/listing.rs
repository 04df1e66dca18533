//! Which files a folder stands for.

use super::*;

/// What counting an input says, and how many documents it has.
fn counted(folder: &TempDir, input: &str) -> (String, serde_json::Value) {
    let count = ["count", input, "--split", "gpt2", "-o", "counts.parquet", "--json"];
    let output = tokenmill(folder).args(count).output().expect("a run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (said, found["documents"].clone())
}

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

#[test]
fn the_splits_of_a_dataset_are_told() {
    let folder = folder();
    fs::create_dir(folder.path().join("data")).expect("a folder");
    for name in ["data/train-00000-of-00001.txt", "data/test-00000-of-00001.txt"] {
        write(&folder, name, TEXT);
    }
    let (said, documents) = counted(&folder, "data");
    assert!(documents == 2 && said.contains("data has files of test and train: all are taken"), "{said}");
    assert!(!counted(&folder, "data/train*").0.contains("all are taken"));
}

#[test]
fn what_is_no_text_is_not_taken_for_some() {
    let folder = folder();
    write(&folder, "a.csv", "id,text\n1,the cat\n");
    write(&folder, "b.TSV.gz", "id\ttext\n");
    for table in ["a.csv", "b.TSV.gz"] {
        refuses(&folder, &train(table, &[]), 2, &[table, "is a table", "format text"]);
    }
    assert_eq!(ended(&folder, &train("a.csv", &["--format", "text"])).0, Some(0));
    fs::remove_dir_all(folder.path().join("out")).expect("the tokenizer");
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
