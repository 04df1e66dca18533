//! Input that cannot be read.

use super::*;

#[test]
fn a_text_named_parquet_is_damaged_input() {
    let folder = folder();
    write(&folder, "a.parquet", TEXT);
    refuses(&folder, &train("a.parquet", &[]), 1, &["a.parquet"]);
}

#[test]
fn a_truncated_parquet_file_is_named() {
    let folder = folder();
    write_parquet(&folder, "a.parquet", &[Some("the cat the cat"); 1000]);
    let whole = fs::read(folder.path().join("a.parquet")).expect("the file");
    for kept in [0, 3, whole.len() / 2, whole.len() - 1] {
        write(&folder, "cut.parquet", &whole[..kept]);
        refuses(&folder, &train("cut.parquet", &[]), 1, &["cut.parquet"]);
    }
}

#[test]
fn what_was_left_out_gives_a_code_of_its_own() {
    let folder = folder();
    write(&folder, "a.jsonl", "{\"text\": \"the cat the cat\"}\n{\"text\": 5\n{\"text\": \"the mat\"}\n");
    refuses(&folder, &train("a.jsonl", &[]), 1, &["a.jsonl"]);
    let output =
        tokenmill(&folder).args(train("a.jsonl", &["--on-bad-input", "skip"])).output().expect("a run");
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let encode = ["encode", "a.jsonl", "-t", "out", "-o", "ids", "--on-bad-input", "skip"];
    for time in ["first", "second"] {
        let (code, said) = ended(&folder, &encode);
        assert!(code == Some(3) && said.contains("1 row or file was left out"), "the {time} time: {said}");
        // The report keeps of what is skipped how much it is.
        assert_eq!(said.contains("a.jsonl: line 2"), time == "first", "the {time} time: {said}");
    }
}

#[test]
fn all_that_is_put_in_quarantine_is_named_with_its_file() {
    let folder = folder();
    fs::create_dir(folder.path().join("in")).expect("a folder");
    for (name, bad) in [("a", "5"), ("b", "6")] {
        write(
            &folder,
            &format!("in/{name}.jsonl"),
            format!("{{\"text\": \"the cat\"}}\n{{\"text\": {bad}}}\n"),
        );
    }
    refuses(&folder, &train("in", &[]), 1, &["a.jsonl: line 2", "--on-bad-input skip"]);
    write(&folder, "text.txt", TEXT);
    assert_eq!(ended(&folder, &["train", "text.txt", "-o", "tok", "--merges", "3"]).0, Some(0));
    for command in [
        &["train", "in", "-o", "made", "--merges", "3"][..],
        &["count", "in", "-o", "c.parquet"],
        &["encode", "in", "-t", "tok", "-o", "ids"],
        &["bench", "in", "-t", "tok"],
    ] {
        let (code, said) = ended(&folder, &[command, &["--on-bad-input", "quarantine"]].concat());
        let named = ["a", "b"].map(|name| said.matches(&format!("{name}.jsonl: line 2")).count());
        assert!(code == Some(3) && named == [1, 1], "{command:?}: {said}");
    }
}

#[test]
fn the_first_that_was_left_out_is_named_whatever_unit_it_is_of() {
    let folder = folder();
    fs::create_dir(folder.path().join("in")).expect("a folder");
    for (name, bad) in [("a", ""), ("b", "{\"text\": 5}\n"), ("c", "{\"text\": 6}\n"), ("d", "")] {
        let rows = format!("{{\"text\": \"the cat the cat\"}}\n{bad}{{\"text\": \"the mat\"}}\n");
        write(&folder, &format!("in/{name}.jsonl"), &rows);
    }
    let skip = ["--on-bad-input", "skip"];
    assert_eq!(ended(&folder, &train("in", &skip)).0, Some(3));
    let (code, said) = ended(&folder, &[&["encode", "in", "-t", "out", "-o", "ids"][..], &skip].concat());
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("the first that was left out: ") && said.contains("b.jsonl: line 2"), "{said}");
    assert!(said.contains("2 rows or files were left out"), "{said}");
}

#[test]
fn why_there_is_nothing_to_train_on_is_said_where_all_was_left_out() {
    let folder = folder();
    write(&folder, "a.txt", TEXT.repeat(100));
    let zipped = std::process::Command::new("gzip").arg(folder.path().join("a.txt")).status();
    assert!(zipped.expect("gzip").success());
    let whole = fs::read(folder.path().join("a.txt.gz")).expect("the file");
    write(&folder, "a.txt.gz", &whole[..20]);
    let skip = train("a.txt.gz", &["--on-bad-input", "skip"]);
    refuses(&folder, &skip, 1, &["nothing to train on", "the first that was left out: a.txt.gz: "]);
}

#[test]
fn ids_of_another_vocabulary_are_named_by_file_and_row() {
    let folder = folder();
    write(&folder, "a.txt", "the cat\nthe mat\n");
    assert_eq!(ended(&folder, &train("a.txt", &["--documents", "line"])).0, Some(0));
    let encode =
        ["encode", "a.txt", "-t", "out", "-o", "ids", "--documents", "line", "--output-format", "bin"];
    assert_eq!(ended(&folder, &encode).0, Some(0));
    let files = fs::read_dir(folder.path().join("ids/data")).expect("the output");
    let mut files = files.map(|file| file.expect("a file").path());
    let path = files.find(|path| path.extension().is_some_and(|extension| extension == "bin"));
    let path = path.expect("a file of ids");
    let mut bytes = fs::read(&path).expect("the ids");
    let last = bytes.len() - 2;
    bytes[last..].fill(0xFF);
    fs::write(&path, bytes).expect("other ids");
    let (code, said) = ended(&folder, &["decode", "ids", "-t", "out"]);
    assert_eq!(code, Some(1), "{said}");
    for part in ["ids: row 1", "65535", "name the tokenizer"] {
        assert!(said.contains(part), "{said}");
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_that_nothing_comes_from_does_not_hold_the_program() {
    use std::process::Command;
    let folder = folder();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let train = ["train", "pipe", "-o", "made", "--merges", "3"];
    let mut program = Command::new(env!("CARGO_BIN_EXE_tokenmill"));
    let mut child = program.args(train).current_dir(folder.path()).spawn().expect("a run");
    // Waits until it is read.
    let _silent = fs::File::options().write(true).open(&pipe).expect("a writer");
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.expect("kill").success());
    assert_eq!(child.wait().expect("an end").code(), Some(130));
}

#[cfg(unix)]
#[test]
fn a_pipe_is_read_by_its_name_and_not_by_plans() {
    let folder = folder();
    let pipe = folder.path().join("rows.jsonl");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    // A writer that nobody reads from would wait, so what a plan takes from it would be lost.
    let writer =
        std::thread::spawn(move || fs::write(pipe, "{\"text\": \"the cat\"}\n{\"text\": \"the mat\"}\n"));
    write(
        &folder,
        "r.toml",
        "[source]\nuri = \"rows.jsonl\"\n[train]\nmerges = 3\n[output]\ndir = \"out\"\n",
    );
    let (code, said) = ended(&folder, &["plan", "r.toml"]);
    assert_eq!(code, Some(0), "{said}");
    let count = ["count", "rows.jsonl", "-o", "c.parquet", "--json"];
    let counted = tokenmill(&folder).args(count).output().expect("a run").stdout;
    assert!(String::from_utf8_lossy(&counted).contains("\"documents\":2,"));
    writer.join().expect("a writer").expect("all is read");
}
