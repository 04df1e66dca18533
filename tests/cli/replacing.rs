//! The files that commands replace, and those that they must keep.

use std::process::Command;

use super::*;

fn text_stays(folder: &TempDir) {
    assert_eq!(fs::read_to_string(folder.path().join("a.txt")).expect("the text"), TEXT);
}

/// Commands that write one file replace an empty file or an earlier result, but nothing else.
#[test]
fn only_files_of_their_own_kind_are_replaced() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    assert_eq!(ended(&folder, &["train", "a.txt", "-o", "made", "--merges", "3"]).0, Some(0));
    let count = ["count", "a.txt", "--split", "gpt2", "-o"];
    let merge = ["merge-counts", "c.parquet", "c.parquet", "-o"];
    let tokens = ["tokens", "-t", "made", "the cat", "--html"];
    let compare = ["compare", "made", "--on", "a.txt", "--html"];
    assert_eq!(ended(&folder, &[&count[..], &["c.parquet"]].concat()).0, Some(0));
    for command in [&count[..], &merge, &tokens, &compare] {
        refuses(&folder, &[command, &["a.txt"]].concat(), 2, &["a.txt exists", "remove"]);
        text_stays(&folder);
        write(&folder, "empty", "");
        for _ in 0..2 {
            assert_eq!(ended(&folder, &[command, &["empty"]].concat()).0, Some(0), "{command:?}");
        }
    }
}

/// An input file in the data folder of the output is refused if readers would take it for a result.
#[test]
fn input_among_results_is_refused() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    assert_eq!(ended(&folder, &["train", "a.txt", "-o", "learned", "--merges", "3"]).0, Some(0));
    let encode = |input| ["encode", input, "-t", "learned", "-o", "made", "--force"];
    assert_eq!(ended(&folder, &encode("a.txt")).0, Some(0));
    write(&folder, "made/data/b.bin", TEXT);
    let arguments = [&encode("made/data/b.bin")[..], &["--format", "text"]].concat();
    refuses(&folder, &arguments, 2, &["made/data/b.bin is input", "another folder"]);
    fs::remove_file(folder.path().join("made/data/b.bin")).expect("it stays");
    // Files that readers do not take for results are kept in any case.
    write(&folder, "made/data/b.txt", TEXT);
    assert_eq!(ended(&folder, &encode("made/data/b.txt")).0, Some(0));
    assert!(folder.path().join("made/data/b.txt").exists());
}

/// Files that the program did not write are kept: beside the results, with the name of a temporary file, or in
/// a folder with the name of a result.
#[test]
fn what_others_called_as_results_are_stays() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    assert_eq!(ended(&folder, &["train", "a.txt", "-o", "learned", "--merges", "3"]).0, Some(0));
    fn encode(to: &str) -> [&str; 6] {
        ["encode", "a.txt", "-t", "learned", "-o", to]
    }
    fs::create_dir(folder.path().join("made")).expect("a folder");
    for name in ["made/.tmp-mine", "made/.tmp-c.parquet-Abc123", "made/notes.txt"] {
        write(&folder, name, "mine");
    }
    assert_eq!(ended(&folder, &encode("made")).0, Some(0));
    let entries = fs::read_dir(folder.path().join("made")).expect("the output");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    let (mine, results): (Vec<String>, Vec<String>) = names
        .filter(|name| folder.path().join("made").join(name).is_file())
        .partition(|name| fs::read(folder.path().join("made").join(name)).is_ok_and(|text| text == b"mine"));
    assert_eq!((mine.len(), results.len()), (3, 4), "{mine:?} {results:?}");
    for name in results {
        fs::create_dir(folder.path().join(&name)).expect("a folder");
        let path = format!("{name}/{name}");
        write(&folder, &path, "mine");
        refuses(&folder, &encode(&name), 2, &[&format!("holds {name}"), "choose a new or an empty folder"]);
        assert_eq!(fs::read(folder.path().join(&path)).expect("a file"), b"mine");
    }
}

/// A data file that cannot be read may be intact, so it is neither replaced nor does the output count as
/// damaged.
#[cfg(unix)]
#[test]
fn a_data_file_that_cannot_be_read_stays() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    assert_eq!(ended(&folder, &["train", "a.txt", "-o", "learned", "--merges", "3"]).0, Some(0));
    let encode = ["encode", "a.txt", "-t", "learned", "-o", "made"];
    assert_eq!(ended(&folder, &encode).0, Some(0));
    let path = folder.path().join("made/data/train-00000-of-00001.parquet");
    fs::rename(&path, folder.path().join("good")).expect("moved");
    std::os::unix::fs::symlink(&path, &path).expect("a link to itself, which nobody can open");
    refuses(&folder, &encode, 1, &["cannot read", "train-00000-of-00001.parquet"]);
    assert!(path.is_symlink() && folder.path().join("made/manifest.json").exists());
    fs::rename(folder.path().join("good"), &path).expect("moved back");
    let (code, said) = ended(&folder, &encode);
    assert!(code == Some(0) && said.contains("nothing to do"), "{said}");
}

/// `encode` refuses to write beside a data file that it did not write. No option changes this, and neither does
/// it matter whether the file is a copy of a result.
#[test]
fn a_data_file_that_was_put_beside_the_results_stays() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    assert_eq!(ended(&folder, &["train", "a.txt", "-o", "learned", "--merges", "3"]).0, Some(0));
    let encode = ["encode", "a.txt", "-t", "learned", "-o", "made"];
    assert_eq!(ended(&folder, &encode).0, Some(0));
    let at = |name: &str| folder.path().join("made").join(name);
    let (ours, put) = (at("data/train-00000-of-00001.parquet"), at("data/test-00000-of-00001.parquet"));
    fs::copy(&ours, &put).expect("a copy");
    // The number in this file's name changes with each run.
    let all = || files(&at("")).into_iter().filter(|path| !path.contains("/owner-")).collect::<Vec<_>>();
    let refused = |more: &[&str]| {
        let before = all();
        let said = ["made holds data/test-00000-of-00001.parquet", "did not write", "move it away"];
        refuses(&folder, &[&encode, more].concat(), 2, &said);
        assert_eq!(all(), before, "{more:?}");
    };
    refused(&[]);
    refused(&["--force", "--documents", "line"]);
    fs::write(&ours, "damaged").expect("a file");
    refused(&[]);
    // Without the manifest, a record from the time of writing still has the names of the program's own files.
    fs::remove_file(at("manifest.json")).expect("a manifest");
    refused(&[]);
    fs::remove_file(&put).expect("moved away");
    assert_eq!(ended(&folder, &encode).0, Some(0));
    let another = [&encode[..], &["--force", "--split-name", "other"]].concat();
    assert_eq!(ended(&folder, &another).0, Some(0));
    assert!(ours.exists() && at("data/other-00000-of-00001.parquet").exists());
}

/// Training replaces all files of another tokenizer in the folder, keeps other formats of the same one, and
/// does not touch files of others.
#[test]
fn a_folder_has_one_tokenizer() {
    const MADE: [&str; 4] = ["tokenizer.json", "tokenizer.tiktoken", "tokenizer.model", "tokenizer.vocab"];
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let made = |formats, merges| {
        let arguments = ["train", "a.txt", "-o", "made", "--formats", formats, "--merges", merges];
        let (code, said) = ended(&folder, &arguments);
        assert_eq!(code, Some(0), "{said}");
        let there = |name: &&str| folder.path().join("made").join(name).exists();
        (MADE.into_iter().filter(there).collect::<Vec<_>>(), said.contains("held another tokenizer"))
    };
    assert_eq!(made("hf,minbpe", "3"), (vec![MADE[0], MADE[2], MADE[3]], false));
    write(&folder, "made/merges.txt", "not learned here");
    assert_eq!(made("hf,tiktoken", "3"), (MADE.to_vec(), false), "the same one in another format");
    assert_eq!(made("hf", "4"), (vec![MADE[0]], true));
    assert!(folder.path().join("made/merges.txt").exists(), "it is none of the other tokenizer's");
}

/// A training that is killed between writing two files leaves a mixture of old and new files, unless it removes
/// the old files first.
#[test]
fn files_of_two_trainings_are_no_tokenizer() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let train = |to, split, more: &[&str]| {
        let train = ["train", "a.txt", "-o", to, "--formats", "tiktoken,gpt2", "--split", split, "--merges"];
        assert_eq!(ended(&folder, &[&train[..], more].concat()).0, Some(0));
    };
    train("old", "gpt2", &["3"]);
    train("new", "gpt2", &["5", "--special-token", "<|z|>"]);
    assert_eq!(ended(&folder, &["inspect", "new/tokenizer.tiktoken"]).0, Some(0));
    for (format, files) in [
        ("tokenizer.tiktoken", ["tokenizer.tiktoken", "tokenizer.tiktoken.json"]),
        ("vocab.json", ["vocab.json", "merges.txt"]),
    ] {
        for name in files {
            let path = |of: &str| folder.path().join(of).join(name);
            let good = fs::read(path("new")).expect("a file");
            fs::copy(path("old"), path("new")).expect("a file");
            let tokenizer = format!("new/{format}");
            for command in [
                &["inspect", &tokenizer][..],
                &["encode", "a.txt", "-o", "out", "-t", &tokenizer],
                &["tokens", "-t", &tokenizer, "the cat"],
            ] {
                let (code, said) = ended(&folder, command);
                assert_eq!(code, Some(1), "{name}: {command:?} said {said}");
            }
            fs::write(path("new"), good).expect("a file");
        }
    }
    let (_, said) = {
        fs::copy(
            folder.path().join("old/tokenizer.tiktoken.json"),
            folder.path().join("new/tokenizer.tiktoken.json"),
        )
        .expect("a file");
        ended(&folder, &["inspect", "new/tokenizer.tiktoken"])
    };
    assert!(
        said.contains("does not match training.json") && said.contains("same `train` command again"),
        "{said}"
    );
    train("new", "gpt2", &["5", "--special-token", "<|z|>"]);
    assert_eq!(ended(&folder, &["inspect", "new/tokenizer.tiktoken"]).0, Some(0));
}

/// Training with several sizes removes the sizes of an earlier training, but not the files of others in their
/// folders.
#[test]
fn smaller_tokenizers_of_an_earlier_training_do_not_stay() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let train = |sizes, formats| {
        let arguments = ["train", "a.txt", "-o", "made", "--vocab-size", sizes, "--formats", formats];
        let (code, said) = ended(&folder, &arguments);
        assert_eq!(code, Some(0), "{said}");
        said.contains("a smaller tokenizer of an earlier training")
    };
    let there = |name: &str| folder.path().join("made").join(name).exists();
    assert!(!train("258,260,262,266", "hf,minbpe"));
    write(&folder, "made/vocab-260/notes.txt", "mine");
    fs::create_dir(folder.path().join("made/vocab-300")).expect("a folder");
    write(&folder, "made/vocab-300/tokenizer.json", "not trained here");
    assert!(train("262,266", "hf"));
    assert!(there("tokenizer.json") && there("vocab-262/tokenizer.json") && !there("vocab-258"));
    assert_eq!(files(&folder.path().join("made/vocab-260")).len(), 1);
    assert!(there("vocab-260/notes.txt") && there("vocab-300/tokenizer.json"), "none of the training's");
    assert!(train("266", "hf") && !there("vocab-262"));
}

/// `convert`, `train` and `run` replace no tokenizer that they did not write themselves.
#[test]
fn tokenizers_of_others_are_not_replaced() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let at = |name: &str| fs::read(folder.path().join(name)).expect("a file");
    for (to, merges) in [("small", "3"), ("large", "5")] {
        let train = ["train", "a.txt", "-o", to, "--merges", merges, "--split", "gpt2"];
        assert_eq!(ended(&folder, &train).0, Some(0));
    }
    for format in ["hf", "tiktoken", "minbpe", "gpt2"] {
        let convert = |from| ["convert", from, "--to", format, "-o", format];
        for _ in 0..2 {
            let (code, said) = ended(&folder, &convert("small"));
            assert_eq!(code, Some(0), "{format}: {said}");
        }
        let before = files(&folder.path().join(format)).into_iter().map(fs::read);
        let before: Vec<Vec<u8>> = before.map(|bytes| bytes.expect("a file")).collect();
        refuses(&folder, &convert("large"), 2, &["belongs to another tokenizer", "choose another folder"]);
        let train = ["train", "a.txt", "-o", format, "--merges", "3", "--split", "gpt2", "--formats", format];
        refuses(&folder, &train, 2, &["no training has written it", "choose another folder"]);
        let after = files(&folder.path().join(format)).into_iter().map(fs::read);
        assert_eq!(after.map(|bytes| bytes.expect("a file")).collect::<Vec<_>>(), before, "{format}");
    }
    let before = at("large/tokenizer.json");
    refuses(
        &folder,
        &["convert", "small", "--to", "hf", "-o", "large"],
        2,
        &["large/tokenizer.json would be"],
    );
    assert_eq!(at("large/tokenizer.json"), before);
    fs::create_dir_all(folder.path().join("out2/tokenizer")).expect("folders");
    write(&folder, "out2/tokenizer/tokenizer.json", "mine");
    let recipe =
        "source = { uri = \"a.txt\" }\ntrain = { merges = 3 }\nencode = {}\noutput = { dir = \"out2\" }";
    write(&folder, "r.toml", recipe);
    for command in ["plan", "run"] {
        refuses(&folder, &[command, "r.toml"], 2, &["out2/tokenizer/tokenizer.json would be replaced"]);
    }
    assert_eq!(at("out2/tokenizer/tokenizer.json"), b"mine");
}

/// An output of a training holds all files of its tokenizer. Encoding into it again with another tokenizer
/// removes them.
#[test]
fn an_output_has_the_tokenizer_that_it_is_encoded_with() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let recipe = "source = { uri = \"a.txt\" }\ntrain = { vocab_size = [258, 262], formats = [\"hf\", \"tiktoken\"] }\n\
                  encode = {}\noutput = { dir = \"made\" }";
    write(&folder, "r.toml", recipe);
    let run = || assert_eq!(ended(&folder, &["run", "r.toml", "--force"]).0, Some(0));
    let there = |name: &str| folder.path().join("made/tokenizer").join(name).exists();
    let verified = || assert_eq!(ended(&folder, &["verify", "made"]).0, Some(0));
    let encode = |with: &str| {
        let (code, said) = ended(&folder, &["encode", "a.txt", "-t", with, "-o", "made", "--force"]);
        assert_eq!(code, Some(0), "{said}");
        verified();
    };
    assert_eq!(ended(&folder, &["train", "a.txt", "-o", "other", "--merges", "3"]).0, Some(0));
    run();
    for name in
        ["tokenizer.json", "tokenizer.tiktoken", "training.json", "vocab-258/tokenizer.json", "vocab-258", ""]
    {
        let path = folder.path().join("made/tokenizer").join(name);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.expect("it was written");
        let (code, said) = ended(&folder, &["verify", "made"]);
        assert!(code == Some(4) && said.contains("missing"), "{name}: {said}");
        let (code, said) = ended(&folder, &["run", "r.toml"]);
        assert!(code == Some(0) && said.contains("doing it again"), "{name}: {said}");
        verified();
    }
    fs::write(folder.path().join("made/tokenizer/notes.txt"), "mine").expect("a file");
    encode("made/tokenizer");
    assert!(there("training.json") && there("vocab-258/tokenizer.json"), "they are of the same training");
    run();
    encode("made/tokenizer/vocab-258");
    assert!(there("vocab-258/training.json") && !there("tokenizer.json"), "what was given stays");
    run();
    encode("other");
    assert_eq!(files(&folder.path().join("made/tokenizer")).len(), 1, "none of what was learned is left");
    let inspected = tokenmill(&folder).args(["inspect", "made"]).output().expect("a run");
    assert!(inspected.status.success() && there("notes.txt"));
    // A file in the tokenizer folder that no run has written there is not part of the output.
    write(&folder, "made/tokenizer/training.json", "{}");
    let (code, said) =
        ended(&folder, &["encode", "a.txt", "-t", "other", "-o", "made", "--force", "--documents", "line"]);
    assert!(code == Some(0) && there("training.json"), "{said}");
}

/// Another process can hold the lock for any length of time, so a signal must end the wait.
#[cfg(unix)]
#[test]
fn waiting_for_a_folder_can_be_interrupted() {
    use std::io::{BufRead, BufReader};
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    fs::create_dir(folder.path().join("made")).expect("a folder");
    let lock = fs::File::open(folder.path().join("made")).expect("the folder");
    lock.lock().expect("a lock");
    let mut program = Command::new(env!("CARGO_BIN_EXE_tokenmill"));
    program.args(["train", "a.txt", "-o", "made", "--merges", "3"]).current_dir(folder.path());
    let mut child = program.stderr(std::process::Stdio::piped()).spawn().expect("a run");
    let said = BufReader::new(child.stderr.take().expect("what it says"));
    let waits = |line: std::io::Result<String>| line.expect("text").contains("waiting for another run");
    let mut lines = said.lines();
    assert!(lines.by_ref().any(waits), "it did not wait");
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.expect("kill").success());
    lines.for_each(drop);
    assert_eq!(child.wait().expect("an end").code(), Some(130));
    assert!(files(&folder.path().join("made")).is_empty());
}

/// A result is written to the target of a link. A pipe is refused and kept.
#[cfg(unix)]
#[test]
fn links_are_followed_and_pipes_stay() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let count = |to| ended(&folder, &["count", "a.txt", "--split", "gpt2", "-o", to]);
    assert_eq!(count("real").0, Some(0));
    symlink("real", folder.path().join("link")).expect("a link");
    assert_eq!(count("link").0, Some(0));
    assert!(folder.path().join("link").is_symlink());
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let (code, said) = count("pipe");
    assert!(code == Some(1) && said.contains("a device or a pipe"), "{said}");
    assert!(fs::metadata(&pipe).expect("the pipe").file_type().is_fifo());
}

/// A note or an error explains why an output has no tokens: null documents, a wrong field, or an empty sample.
#[test]
fn where_nothing_is_encoded_that_is_told() {
    let folder = folder();
    write(&folder, "a.jsonl", "{\"text\": \"the cat\"}\n{\"text\": \"the mat\"}\n");
    write(&folder, "none.jsonl", "");
    assert_eq!(ended(&folder, &["train", "a.jsonl", "-o", "made", "--merges", "3"]).0, Some(0));
    let encode = |input: &str, options: &[&str]| {
        let (code, said) =
            ended(&folder, &[&["encode", input, "-t", "made", "-o", "ids", "--force"], options].concat());
        assert_eq!(code, Some(0), "{said}");
        said
    };
    write(&folder, "nulls.jsonl", "{\"text\": null}\n{\"txt\": \"the mat\"}\n");
    assert!(encode("nulls.jsonl", &[]).contains("all documents are null"));
    let wrong = ["encode", "a.jsonl", "-t", "made", "-o", "ids", "--force", "--column", "txt"];
    let (code, said) = ended(&folder, &wrong);
    assert!(code == Some(2) && said.contains("have no field \"txt\""), "{said}");
    write(&folder, "marked.jsonl", "\u{feff}{\"body\": \"the cat\"}\n");
    let (_, said) = ended(&folder, &["train", "marked.jsonl", "-o", "none", "--merges", "3"]);
    assert!(said.contains("the fields of the first are body"), "{said}");
    assert!(encode("a.jsonl", &["--max-bytes", "6"]).contains("the sample has no documents: take more"));
    write(&folder, "book.txt", TEXT);
    let said = encode("book.txt", &["--skip", "1000"]);
    for part in ["no more documents than `skip` leaves out, 1000", "a text file is one document"] {
        assert!(said.contains(part) && !said.contains("does not fit"), "{said}");
    }
    assert!(encode("none.jsonl", &[]).contains("the input has no documents: check"));
    let said = encode("a.jsonl", &[]);
    assert!(!said.contains("null") && !said.contains("no documents"), "{said}");
}

/// Training into an output, and encoding into a tokenizer folder, are refused, so that neither report is lost.
#[test]
fn reports_of_training_and_of_encoding_do_not_replace_each_other() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    assert_eq!(ended(&folder, &["train", "a.txt", "-o", "made", "--merges", "3"]).0, Some(0));
    assert_eq!(ended(&folder, &["encode", "a.txt", "-t", "made", "-o", "ids"]).0, Some(0));
    let report = |of: &str| fs::read(folder.path().join(of).join("report.json")).expect("a report");
    let before = [report("made"), report("ids")];
    let cases = [
        (["train", "a.txt", "-o", "ids", "--merges", "3"], "holds the result of a run"),
        (["encode", "a.txt", "-t", "made", "-o", "made"], "holds a tokenizer"),
    ];
    for (command, says) in cases {
        let (code, said) = ended(&folder, &command);
        assert!(code == Some(2) && said.contains(says) && said.contains("choose another folder"), "{said}");
    }
    assert_eq!([report("made"), report("ids")], before);
}

/// Results within an input folder are refused, because the next run would read them. With a pattern as input
/// they are allowed.
#[test]
fn results_do_not_go_among_the_input() {
    let folder = folder();
    fs::create_dir_all(folder.path().join("corpus/texts")).expect("folders");
    write(&folder, "corpus/texts/a.txt", TEXT);
    assert_eq!(ended(&folder, &["train", "corpus", "-o", "made", "--merges", "3"]).0, Some(0));
    let encode = ["encode", "corpus", "-t", "made", "-o"];
    let train = ["train", "corpus", "--merges", "3", "-o"];
    let count = ["count", "corpus", "-o"];
    for (command, output) in [
        (&encode[..], "corpus"),
        (&encode, "corpus/ids"),
        (&encode, "corpus/texts/../new/ids"),
        (&encode, "./corpus/texts"),
        (&train, "corpus/made"),
        (&count, "corpus/texts/c.parquet"),
    ] {
        let (code, said) = ended(&folder, &[command, &[output]].concat());
        assert!(
            code == Some(2)
                && said.contains("would be inside the input folder")
                && said.contains("a pattern"),
            "{said}"
        );
    }
    let recipe = |output: &str| {
        format!(
            "source = {{ uri = \"corpus\" }}\ntrain = {{ merges = 3 }}\noutput = {{ dir = \"{output}\" }}"
        )
    };
    write(&folder, "within.toml", recipe("corpus/made"));
    for command in ["plan", "run"] {
        refuses(&folder, &[command, "within.toml"], 2, &["would be inside the input folder"]);
    }
    assert_eq!(fs::read_dir(folder.path().join("corpus")).expect("the input").count(), 1);
    for _ in 0..2 {
        let command = ["encode", "corpus/texts/*.txt", "-t", "made", "-o", "corpus/ids"];
        assert_eq!(ended(&folder, &command).0, Some(0));
    }
}

/// An output that cannot be written is refused before any input is read.
#[test]
fn what_cannot_be_written_is_told_before_anything_is_read() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    #[cfg(target_os = "linux")]
    {
        // Nobody can create a file in `/proc`.
        assert_eq!(ended(&folder, &["train", "a.txt", "-o", "made", "--merges", "3"]).0, Some(0));
        let count = ["count", "a.txt", "-o", "/proc/c.parquet"];
        let compare = ["compare", "made", "--on", "a.txt", "--html", "/proc/c.html"];
        for command in [&count[..], &compare] {
            refuses(&folder, command, 1, &["cannot write in /proc:"]);
            let (_, message) = ended(&folder, command);
            assert!(!message.contains("MB/s") && !message.contains(".tmp"), "{message}");
        }
        // The refusal comes before the program looks for the input.
        let train = ["train", "missing.txt", "-o", "/proc/made", "--merges", "3"];
        let encode = ["encode", "missing.txt", "-t", "made", "-o", "/proc/made"];
        write(
            &folder,
            "r.toml",
            "source = { uri = \"missing.txt\" }\ntrain = { merges = 3 }\noutput = { dir = \"/proc/made\" }",
        );
        for command in [&train[..], &encode, &["run", "r.toml"]] {
            refuses(&folder, command, 1, &["cannot create /proc/made"]);
        }
    }
    let held = tokenmill::sink::OutputFolder::open(folder.path().join("held")).expect("a folder");
    refuses(
        &folder,
        &["encode", "missing.txt", "-t", "made", "-o", "held"],
        1,
        &["held is being written by"],
    );
    drop(held);
    for (output, said) in [("no/such/c.parquet", "create its folder first"), (".", "directory")] {
        let count = ["count", "a.txt", "-o", output];
        let (code, message) = ended(&folder, &count);
        assert!(code == Some(1) && message.contains(said), "{output}: {message}");
        assert!(!message.contains("MB/s"), "counted before: {message}");
    }
}

/// A negative number is reported as an invalid value of its flag, not as an unknown flag.
#[test]
fn numbers_below_zero_are_wrong_values_of_the_flag_they_follow() {
    let folder = folder();
    for flag in ["--vocab-size", "--seed", "--threads"] {
        refuses(&folder, &["train", "a.txt", "-o", "out", flag, "-1"], 2, &[flag, "'-1'"]);
    }
    refuses(&folder, &["encode", "a.txt", "-t", "t", "-o", "out", "--split-name", "all"], 2, &["\"all\""]);
}

/// Whether a format can hold a tokenizer may turn out only after training.
#[test]
fn what_a_format_cannot_hold_leaves_what_was_there() {
    let folder = folder();
    write(&folder, "a.txt", "hello world hello there\n");
    write(&folder, "b.txt", "a hello hello a hello\n");
    // This special token is spelled like ` hello` in `tokenizer.json`.
    let train = |text, sizes, split| {
        let train = ["train", text, "-o", "made", "--split", split, "--special-token", "Ġhello"];
        [&train[..], &["--min-frequency", "1", "--vocab-size", sizes]].concat()
    };
    assert_eq!(ended(&folder, &train("a.txt", "259,264", "none")).0, Some(0));
    let left = ["tokenizer.json", "report.html", "tokenizer.tiktoken"];
    let left = left.map(|name| format!("made/vocab-259/.tmp-{name}-Abc123"));
    left.iter().for_each(|path| write(&folder, path, "of a training that was killed"));
    let before = contents(&folder.path().join("made"));
    refuses(&folder, &train("b.txt", "258,300", "gpt4"), 2, &["hf cannot hold this vocabulary", "Ġhello"]);
    assert_eq!(contents(&folder.path().join("made")), before);
    assert_eq!(ended(&folder, &train("a.txt", "259,264", "none")).0, Some(0));
    assert!(left.iter().all(|path| !folder.path().join(path).exists()));
}

/// The files below a folder, with their contents.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    files(folder).into_iter().map(|path| (path.clone(), fs::read(path).expect("a file"))).collect()
}

/// Training refuses a folder with a report or a record that no training wrote, and links to nowhere.
#[test]
fn training_replaces_no_report_or_record_of_others() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    for (name, code, said) in [
        ("report.html", 2, "no training has written it"),
        ("report.json", 2, "no training has written it"),
        ("training.json", 1, "remove it, or choose another folder"),
    ] {
        let path = format!("{name} beside/{name}");
        fs::create_dir(folder.path().join(format!("{name} beside"))).expect("a folder");
        write(&folder, &path, "mine");
        let to = format!("{name} beside");
        let train = ["train", "a.txt", "-o", &to, "--merges", "3"];
        refuses(&folder, &train, code, &[name, said]);
        assert_eq!(fs::read_to_string(folder.path().join(path)).expect("the file"), "mine");
    }
    // A smaller tokenizer has no report, so training does not touch a file of that name beside it.
    fs::create_dir_all(folder.path().join("sizes/vocab-258")).expect("folders");
    write(&folder, "sizes/vocab-258/report.html", "mine");
    let sizes = ["train", "a.txt", "-o", "sizes", "--vocab-size", "258,259"];
    assert_eq!(ended(&folder, &sizes).0, Some(0));
    assert_eq!(fs::read_to_string(folder.path().join("sizes/vocab-258/report.html")).expect("it"), "mine");
    #[cfg(unix)]
    for to in ["link", "link/", "link/below"] {
        let _ = std::os::unix::fs::symlink("nowhere", folder.path().join("link"));
        let train = ["train", "a.txt", "-o", to, "--merges", "3"];
        refuses(&folder, &train, 1, &["a broken link"]);
    }
}
