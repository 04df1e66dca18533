//! Input that cannot be read.

use super::*;

/// A text file with the name of a Parquet file is refused.
#[test]
fn a_text_named_parquet_is_damaged_input() {
    let folder = folder();
    write(&folder, "a.parquet", TEXT);
    refuses(&folder, &train("a.parquet", &[]), 1, &["a.parquet"]);
}

/// The message names a truncated Parquet file, wherever it was cut.
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

/// If rows are skipped, the program ends with code 3, also when the output exists already.
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
        // The report of the finished output has the number of skipped rows, but not where they were.
        assert_eq!(said.contains("a.jsonl: line 2"), time == "first", "the {time} time: {said}");
    }
    // Whoever gets the output is told, too.
    let card = fs::read_to_string(folder.path().join("ids/README.md")).expect("a card");
    assert!(
        card.contains("\nLeft out, because unreadable: 1 of the input's rows or files. See `report.html`.\n"),
        "{card}"
    );
    let inspected = tokenmill(&folder).args(["inspect", "ids"]).output().expect("a run");
    let shown = String::from_utf8_lossy(&inspected.stdout);
    assert!(shown.contains("left out      1 of the input's rows or files"), "{shown}");
    let (code, said) = ended(&folder, &["verify", "ids"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("left out when it was written: 1 of the input's rows or files"), "{said}");
    fs::write(folder.path().join("b.txt"), TEXT).expect("a file");
    let add = ["encode", "b.txt", "-t", "out", "-o", "ids", "--split-name", "test"];
    assert_eq!(ended(&folder, &add).0, Some(0));
    let manifest = fs::read_to_string(folder.path().join("ids/manifest.json")).expect("a manifest");
    assert_eq!(manifest.matches("\"skipped_inputs\": 1").count(), 2, "of all, and of the split: {manifest}");
    assert!(fs::read_to_string(folder.path().join("ids/README.md")).expect("a card").contains("Left out"));
}

/// Every command names each row in quarantine once, with its file and line.
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

/// What is in quarantine is named by `plan` before a run if it is a file, and again if the run is repeated.
#[test]
fn what_is_in_quarantine_is_named_before_a_run_and_when_it_is_repeated() {
    let folder = folder();
    fs::create_dir(folder.path().join("in")).expect("a folder");
    for name in ["in/part-0.parquet", "in/part-1.parquet"] {
        write_parquet(&folder, name, &[Some("the cat the cat"); 100]);
    }
    let whole = fs::read(folder.path().join("in/part-1.parquet")).expect("the file");
    write(&folder, "in/part-1.parquet", &whole[..whole.len() / 2]);
    write(
        &folder,
        "r.toml",
        "[source]\nuri = \"in\"\non_bad_input = \"quarantine\"\n[train]\nmerges = 3\n[encode]\n[output]\ndir = \"o\"\n",
    );
    for (command, code) in [("plan", 0), ("run", 3), ("run", 3)] {
        let (ended_with, said) = ended(&folder, &[command, "r.toml"]);
        let named = said.matches("left out: in/part-1.parquet is cut off").count();
        assert_eq!((ended_with, named), (Some(code), 1), "{command}: {said}");
    }
}

/// Columns of one name whose types have no common type are an error that names both, in words.
#[test]
fn columns_of_numbers_and_of_text_are_told_apart() {
    let folder = folder();
    write_parquet(&folder, "a.parquet", &[Some("the cat")]);
    write(&folder, "b.jsonl", "{\"text\": \"the mat\", \"id\": 1}\n");
    write(&folder, "text.txt", TEXT);
    assert_eq!(ended(&folder, &["train", "text.txt", "-o", "tok", "--merges", "3"]).0, Some(0));
    let encode = ["encode", "a.parquet", "b.jsonl", "-t", "tok", "-o", "out", "--columns", "id"];
    let said = ["holds integers (Int64) in a.parquet, and text in b.jsonl", "separate folders"];
    refuses(&folder, &encode, 2, &said);
}

/// The message names the first skipped row in input order, whichever thread found it.
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

/// If all input was skipped, the error includes the reason for the first skipped file.
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

/// `decode` names the output, row and value of an id that the vocabulary does not have.
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

/// A signal ends a run that waits for a silent pipe.
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
    // Opening the pipe for writing blocks until the program reads it.
    let _silent = fs::File::options().write(true).open(&pipe).expect("a writer");
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.expect("kill").success());
    assert_eq!(child.wait().expect("an end").code(), Some(130));
}

/// A pipe is read in the format of its name. `plan` does not open it.
#[cfg(unix)]
#[test]
fn a_pipe_is_read_by_its_name_and_not_by_plans() {
    let folder = folder();
    let pipe = folder.path().join("rows.jsonl");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    // The writer waits until somebody reads the pipe. What `plan` read from it would be lost for `count`.
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

/// These runs read a pipe first. A file after it is listed and hashed before, and read after, so that the test
/// can change the file in between.
#[cfg(unix)]
mod changed {
    use std::process::{Command, Stdio};

    use super::*;

    /// Writes a recipe that reads a pipe and three files in this order. The tests change the second file.
    fn recipe(folder: &TempDir, name: &str, more: &str) {
        let uris = ["pipe", "a.txt", name, "c.txt"];
        let sources = uris.map(|uri| format!("[[source]]\nuri = \"{uri}\"\n{LINES}"));
        write(folder, "r.toml", format!("{}{more}", sources.concat()));
    }

    const LINES: &str = "documents = \"line\"\n";

    /// Runs a command on the pipe and the files, and changes a file once the pipe is being read. Returns exit
    /// code and messages.
    fn run(folder: &TempDir, arguments: &[&str], change: impl FnOnce(&Path)) -> (Option<i32>, String) {
        let pipe = folder.path().join("pipe");
        let _ = fs::remove_file(&pipe);
        assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
        let mut program = Command::new(env!("CARGO_BIN_EXE_tokenmill"));
        program.args(arguments).args(["--threads", "1"]).current_dir(folder.path());
        let child = program.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("a run");
        // Opening the pipe for writing blocks until the program reads it.
        let mut writer = fs::File::options().write(true).open(&pipe).expect("a reader");
        change(folder.path());
        std::io::Write::write_all(&mut writer, b"from the pipe\n").expect("a reader");
        drop(writer);
        let output = child.wait_with_output().expect("an end");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// A file that is emptied during the run ends it. The output has neither data files nor a manifest, and a
    /// later run with the original file succeeds.
    #[test]
    fn input_that_is_emptied_after_it_was_hashed_ends_a_run_and_nothing_of_it_stays() {
        let folder = folder();
        for name in ["a.txt", "b.txt", "c.txt"] {
            write(&folder, name, TEXT.repeat(20));
        }
        assert_eq!(ended(&folder, &train("a.txt", &[])).0, Some(0));
        let encode = "[encode]\ntokenizer = \"out\"\n[output]\ndir = \"ids\"\n";
        recipe(&folder, "b.txt", encode);
        let (code, said) = run(&folder, &["run", "r.toml"], |folder| {
            fs::write(folder.join("b.txt"), "").expect("a file");
        });
        assert!(code == Some(1) && said.contains("b.txt changed while it was read"), "{code:?}: {said}");
        let there = files(&folder.path().join("ids"));
        assert!(
            !there.iter().any(|file| file.ends_with(".parquet") || file.ends_with("manifest.json")),
            "{there:?}"
        );
        // With its former content, the run gives all rows.
        write(&folder, "b.txt", TEXT.repeat(20));
        let (code, said) = run(&folder, &["run", "r.toml"], |_| ());
        assert_eq!(code, Some(0), "{said}");
        let output = tokenmill(&folder).args(["decode", "ids/data", "-t", "out"]).output();
        let rows = output.expect("a run").stdout;
        assert_eq!(
            String::from_utf8_lossy(&rows).lines().count(),
            1 + 3 * 20 * 3,
            "an empty line is no document"
        );
    }

    /// A file that is emptied, removed, extended or replaced by a pipe during a run is an error, under every
    /// policy for bad input.
    #[test]
    fn every_command_notices_what_changed_before_it_was_read() {
        let folder = folder();
        let row = "{\"text\": \"the cat sat\"}\n";
        for name in ["a.txt", "c.txt"] {
            write(&folder, name, TEXT.repeat(20));
        }
        assert_eq!(ended(&folder, &train("a.txt", &[])).0, Some(0));
        let output = |dir: &str| format!("[output]\ndir = \"{dir}\"\n");
        let encode = format!("[encode]\ntokenizer = \"out\"\n{}", output("ids"));
        let sampled = format!("[sample]\nevery = 2\n{encode}");
        let learn = format!("[train]\nvocab_size = 263\n{}", output("made"));
        type Change = fn(&Path);
        let changes: [(&str, Change); 4] = [
            ("emptied", |file| fs::write(file, "").expect("a file")),
            ("removed", |file| fs::remove_file(file).expect("a file")),
            ("appended to", |file| {
                let whole = fs::read(file).expect("a file");
                fs::write(file, [whole, b"\n".to_vec()].concat()).expect("a file");
            }),
            ("a pipe", |file| {
                fs::remove_file(file).expect("a file");
                assert!(Command::new("mkfifo").arg(file).status().expect("mkfifo").success());
            }),
        ];
        let work = [("encode", &encode), ("sample", &sampled), ("train", &learn)];
        for ((command, recipe_of), (how, change)) in
            work.iter().flat_map(|one| changes.iter().map(move |other| (one, other)))
        {
            for (name, policy) in [("b.jsonl", "fail"), ("b.jsonl", "skip"), ("b.parquet", "quarantine")] {
                let _ = fs::remove_file(folder.path().join(name));
                match name {
                    "b.parquet" => write_parquet(&folder, name, &[Some("the cat sat"); 300]),
                    _ => write(&folder, name, row.repeat(300)),
                }
                recipe(&folder, name, recipe_of);
                let text = fs::read_to_string(folder.path().join("r.toml")).expect("the recipe");
                let lines = format!("uri = \"{name}\"\n{LINES}");
                let others = format!("uri = \"{name}\"\non_bad_input = \"{policy}\"\n");
                write(&folder, "r.toml", text.replace(&lines, &others));
                let (code, said) = run(&folder, &["run", "r.toml"], |folder| change(&folder.join(name)));
                let case = format!("{command}, {name} {how}, {policy}: {code:?}, {said}");
                assert!(
                    code == Some(1) && said.contains(&format!("{name} changed while it was read")),
                    "{case}"
                );
                let _ = fs::remove_dir_all(folder.path().join("ids"));
                let _ = fs::remove_dir_all(folder.path().join("made"));
            }
        }
    }
}

/// A failure of the system is not bad input. If rows were skipped for it, later runs would take the incomplete
/// output for the whole result.
#[cfg(unix)]
#[test]
fn no_row_is_left_out_for_too_few_open_files() {
    use std::process::Command;
    let folder = folder();
    let rows: Vec<Option<&str>> = vec![Some("the cat sat on the mat"); 3_000];
    write_parquet(&folder, "a.parquet", &rows);
    write(&folder, "a.jsonl", "{\"text\": \"the cat sat on the mat\"}\n".repeat(3_000));
    write(&folder, "a.txt", TEXT.repeat(1_000));
    let lines = ["--documents", "line"];
    assert_eq!(ended(&folder, &train("a.txt", &lines)).0, Some(0));
    let mut refused = 0;
    for (name, policy, rule) in
        [("a.parquet", "skip", &[][..]), ("a.jsonl", "quarantine", &[][..]), ("a.txt", "skip", &lines[..])]
    {
        let encode = ["encode", name, "-t", "out", "-o", "ids", "--on-bad-input", policy, "--threads", "2"];
        let encode = [&encode[..], rule].concat();
        for limit in [5, 6, 7, 8, 9, 10, 12, 16] {
            let _ = fs::remove_dir_all(folder.path().join("ids"));
            let mut limited = Command::new("sh");
            limited.args([
                "-c",
                &format!("ulimit -n {limit}; exec \"$0\" \"$@\""),
                env!("CARGO_BIN_EXE_tokenmill"),
            ]);
            let output = limited.args(&encode).current_dir(folder.path()).output().expect("a run");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            // Under a low limit, the program may not even start.
            let code = output.status.code();
            assert!(code == Some(0) || code == Some(1) || limit < 6, "{name}, {limit}: {code:?}, {said}");
            if said.contains(name) && code == Some(1) {
                assert!(said.contains("ulimit -n"), "{name}, {limit}: {said}");
                refused += 1;
            }
            let (code, said) = ended(&folder, &encode);
            assert!(code == Some(0) && !said.contains("left out"), "{name}, {limit}: {code:?}, {said}");
            let (code, said) = ended(&folder, &["verify", "ids"]);
            assert!(code == Some(0) && said.contains("3000 rows"), "{name}, {limit}: {said}");
        }
    }
    assert!(refused > 3, "{refused}");
}

/// A reader of a plain `.bin` file does not see where documents end, and cannot map a file without bytes into
/// memory.
#[test]
fn a_bin_without_marks_or_without_ids_is_told() {
    let folder = folder();
    write(&folder, "a.txt", "the cat\nthe mat\n");
    write(&folder, "empty.txt", "");
    let more = ["--documents", "line", "--special-token", "<|e|>"];
    assert_eq!(ended(&folder, &train("a.txt", &more)).0, Some(0));
    let encode = |input: &str, more: &[&str]| {
        let bin = ["encode", input, "-t", "out", "-o", "ids", "--force", "--output-format", "bin"];
        let (code, said) = ended(&folder, &[&bin, more].concat());
        assert_eq!(code, Some(0), "{said}");
        said
    };
    let bare = "no token separates the documents";
    assert!(encode("a.txt", &["--documents", "line"]).contains(bare));
    assert!(!encode("a.txt", &["--documents", "line", "--eos", "<|e|>"]).contains(bare));
    assert!(!encode("a.txt", &[]).contains(bare), "there is one document");
    assert!(encode("empty.txt", &[]).contains("the .bin has no ids"));
}

/// A few kB of zstd can hold a single pre-token of any length. It is refused before it takes the memory.
#[test]
fn a_long_pretoken_is_refused_within_the_limit_of_memory() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    assert_eq!(ended(&folder, &train("a.txt", &[])).0, Some(0));
    let zeros = vec![0; 40_000_000];
    write(&folder, "z.txt.zst", zstd::encode_all(&zeros[..], 1).expect("memory"));
    let line = [&b"{\"text\": \""[..], &vec![b'0'; 40_000_000], b"\"}\n"].concat();
    write(&folder, "z.jsonl.zst", zstd::encode_all(&line[..], 1).expect("memory"));
    drop((zeros, line));
    for name in ["z.txt.zst", "z.jsonl.zst"] {
        for command in [
            &["count", name, "-o", "c.parquet"][..],
            &["train", name, "-o", "made", "--vocab-size", "300"],
            &["train", name, "-o", "made", "--vocab-size", "300", "--split", "none"],
            &["encode", name, "-t", "out", "-o", "ids"],
            &["encode", name, "-t", "out", "-o", "ids", "--on-bad-input", "skip"],
        ] {
            let (code, said) = ended(&folder, &[command, &["--memory", "60MB", "--threads", "2"]].concat());
            assert!(code == Some(8) && said.contains("--memory"), "{command:?}: {code:?}, {said}");
            let placed = said.contains(name) || command.contains(&"none");
            assert!(placed, "{command:?}: {said}");
        }
    }
}

/// No command ends by a signal, however little memory the system grants.
#[cfg(target_os = "linux")]
#[test]
fn too_little_memory_has_its_exit_code() {
    use std::process::Command;
    let folder = folder();
    write(&folder, "a.txt", (0..60_000).map(|word| format!("word{word} ")).collect::<String>());
    assert_eq!(ended(&folder, &train("a.txt", &[])).0, Some(0));
    for kilobytes in [20_000, 40_000, 60_000, 80_000, 120_000, 160_000, 200_000, 250_000, 300_000, 400_000] {
        let _ = fs::remove_dir_all(folder.path().join("ids"));
        let mut limited = Command::new("sh");
        limited.args([
            "-c",
            &format!("ulimit -v {kilobytes}; exec \"$0\" \"$@\""),
            env!("CARGO_BIN_EXE_tokenmill"),
        ]);
        limited.args(["encode", "a.txt", "-t", "out", "-o", "ids", "--threads", "2"]);
        let output = limited.current_dir(folder.path()).output().expect("a run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code();
        // With less memory than loading the program takes, the system itself refuses to start it.
        let begun = kilobytes > 70_000;
        assert!(!begun || matches!(code, Some(0 | 1 | 8)), "{kilobytes} kB: {:?}, {said}", output.status);
    }
}
