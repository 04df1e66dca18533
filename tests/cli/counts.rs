//! Counts files: written, added up, and used for training.

use super::*;

/// `count` writes a counts file, and needs a split.
#[test]
fn pretokens_are_counted_into_a_file() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let (code, said) = ended(&folder, &["count", "a.txt", "-o", "counts.parquet", "--order"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("distinct pre-tokens"), "{said}");
    assert!(folder.path().join("counts.parquet").exists());
    refuses(&folder, &["count", "a.txt", "-o", "out", "--split", "none"], 2, &["`--split`"]);
}

/// Runs a command that must succeed and returns its messages.
#[track_caller]
fn does(folder: &TempDir, arguments: &[&str]) -> String {
    let (code, said) = ended(folder, arguments);
    assert_eq!(code, Some(0), "{arguments:?} said\n{said}");
    said
}

#[track_caller]
fn same_files(folder: &TempDir, one: &str, two: &str, names: &[&str]) {
    for name in names {
        let read = |side: &str| fs::read_to_string(folder.path().join(side).join(name)).expect(name);
        assert_eq!(read(one), read(two), "{name}");
    }
}

const MORE: &str = "a rat and a bat\n\nthe end of the cat\n";

/// Two texts and their counts files `a.parquet` and `b.parquet`.
fn counted(more: &[&str]) -> TempDir {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    write(&folder, "b.txt", MORE);
    for name in ["a", "b"] {
        let (text, counts) = (format!("{name}.txt"), format!("{name}.parquet"));
        does(&folder, &[&["count", &text, "-o", &counts], more].concat());
    }
    folder
}

/// `inspect` shows the split, the order, the special tokens and the inputs of a counts file.
#[test]
fn a_counts_file_is_inspected() {
    let folder = counted(&["--order", "--split", "gpt2", "--special-token", "<end>"]);
    let inspected = tokenmill(&folder).args(["inspect", "a.parquet"]).output().expect("a run");
    let said = String::from_utf8_lossy(&inspected.stdout);
    for line in [
        "split         gpt2",
        "order         of first appearance",
        "special       <end>",
        "inputs        1",
        "  a.txt",
    ] {
        assert!(said.lines().any(|found| found == line), "{line} in\n{said}");
    }
    assert!(
        said.lines().any(|line| line.starts_with("distinct      ") && line.ends_with(" pre-tokens")),
        "{said}"
    );
    does(&folder, &["merge-counts", "a.parquet", "b.parquet", "-o", "sum.parquet"]);
    let inspected = tokenmill(&folder).args(["inspect", "sum.parquet"]).output().expect("a run");
    assert!(String::from_utf8_lossy(&inspected.stdout).contains("inputs        2\n  a.txt\n  b.txt\n"));
    write(&folder, "other.parquet", "PAR1");
    refuses(&folder, &["inspect", "other.parquet"], 1, &["other.parquet"]);
}

/// A note says that text counts twice: in a sum and one of its parts, in a file that is given twice, and in two files
/// that counted the same input. Samples of the same input are no reason for it unless they are equal.
#[test]
fn text_that_counts_twice_is_told() {
    let folder = counted(&["--split", "gpt2"]);
    let merge =
        |files: &[&str]| does(&folder, &[&["merge-counts"][..], files, &["-o", "all.parquet"]].concat());
    assert!(!merge(&["a.parquet", "b.parquet"]).contains("counts twice"));
    let told = "all.parquet and a.parquet both have the counts of a.txt: its text counts twice";
    let sum = ["merge-counts", "all.parquet", "a.parquet", "-o", "more.parquet"];
    assert!(does(&folder, &sum).contains(told));
    let train = ["train", "--from-counts", "all.parquet", "a.parquet", "--merges", "3", "-o", "made"];
    assert!(does(&folder, &train).contains(told));
    assert!(merge(&["a.parquet", "a.parquet"]).contains("a.parquet is given twice: its text counts twice"));
    for (name, sample) in [("head.parquet", "--take"), ("tail.parquet", "--skip")] {
        let count = ["count", "b.txt", "--documents", "line", "--split", "gpt2", sample, "1", "-o", name];
        does(&folder, &count);
    }
    assert!(!merge(&["head.parquet", "tail.parquet"]).contains("counts twice"));
}

/// A counts file that is given as text is recognised.
#[test]
fn counts_files_in_the_wrong_place_are_named() {
    let folder = counted(&[]);
    refuses(&folder, &train("a.parquet", &[]), 2, &["this is a counts file", "--from-counts"]);
    refuses(&folder, &["verify", "a.parquet"], 2, &["a.parquet is a file, not an output folder"]);
}

/// Notes say that a counts file has no pre-tokens, and that it replaces the counts of another input or split.
#[test]
fn an_empty_count_and_one_that_replaces_another_are_told() {
    let folder = counted(&["--split", "gpt2"]);
    let again = ["count", "a.txt", "-o", "a.parquet", "--split"];
    let replaced = "a.parquet is replaced";
    assert!(!does(&folder, &[&again[..], &["gpt2"]].concat()).contains(replaced));
    assert!(does(&folder, &[&again[..], &["gpt4"]].concat()).contains(replaced));
    write(&folder, "a.txt", "");
    let said = does(&folder, &[&again[..], &["gpt4"]].concat());
    assert!(said.contains(replaced) && said.contains("the counts file is empty"), "{said}");
}

/// Training from counts files, weighted or summed, gives the same tokenizer files as training from the text.
#[test]
fn training_from_counts_is_training_from_the_text() {
    let folder = counted(&["--order", "--split", "gpt2", "--special-token", "<end>"]);
    let train = ["--vocab-size", "275", "--formats", "hf,tiktoken", "--tie-break", "first"];
    let text = ["train", "a.txt", "b.txt", "--split", "gpt2", "--special-token", "<end>", "-o", "text"];
    does(&folder, &[&text[..], &["--weight", "1", "--weight", "2.5"], &train].concat());
    let names = ["tokenizer.json", "tokenizer.tiktoken"];
    let weighted = ["train", "--from-counts", "a.parquet", "b.parquet=2.5", "-o", "counts"];
    does(&folder, &[&weighted[..], &train].concat());
    same_files(&folder, "text", "counts", &names);
    let merge = ["merge-counts", "a.parquet", "b.parquet", "--weight", "2", "--weight", "5", "-o", "sum"];
    assert!(does(&folder, &merge).contains("in order"));
    does(&folder, &[&["train", "--from-counts", "sum", "-o", "merged"][..], &train].concat());
    same_files(&folder, "text", "merged", &names);
}

/// `--vocab-size A,B,C` writes the same tokenizer for each size as separate trainings.
#[test]
fn several_sizes_come_from_one_training() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let train = ["train", "a.txt", "--formats", "hf,minbpe", "--special-token", "<end>"];
    let all = [&train[..], &["-o", "all", "--vocab-size", "270,262,265"]].concat();
    let said = does(&folder, &all);
    assert!(said.contains("vocab-262") && said.contains("vocab-265"), "{said}");
    assert!(!does(&folder, &all).contains("another tokenizer"));
    for (size, made) in [("262", "all/vocab-262"), ("265", "all/vocab-265"), ("270", "all")] {
        does(&folder, &[&train[..], &["-o", "one", "--vocab-size", size]].concat());
        same_files(&folder, "one", made, &["tokenizer.json", "tokenizer.model", "tokenizer.vocab"]);
        let inspected = does(&folder, &["inspect", made]);
        assert!(inspected.is_empty(), "{inspected}");
    }
    refuses(&folder, &train_to("263,263"), 2, &["`--vocab-size`", "twice"]);
    refuses(&folder, &train_to("263,255"), 2, &["`--vocab-size`", "255", "too small"]);
    write(
        &folder,
        "r.toml",
        "[source]\nuri = \"a.txt\"\n[train]\nvocab_size = [262, 258]\n[output]\ndir = \"made\"\n",
    );
    let plan = tokenmill(&folder).args(["plan", "r.toml"]).output().expect("a run");
    assert!(String::from_utf8_lossy(&plan.stdout).contains("first 2 merges to made/tokenizer/vocab-258"));
    does(&folder, &["run", "r.toml"]);
    assert!(does(&folder, &["run", "r.toml"]).contains("nothing to do"));
    fs::remove_file(folder.path().join("made/tokenizer/vocab-258/tokenizer.json")).expect("it was written");
    assert!(does(&folder, &["run", "r.toml"]).contains("doing it again"));
}

fn train_to(sizes: &str) -> [&str; 6] {
    ["train", "a.txt", "-o", "out", "--vocab-size", sizes]
}

/// Flags that contradict the settings in a counts file are refused, and equal ones are accepted.
#[test]
fn what_the_counts_say_cannot_be_contradicted() {
    let folder = counted(&["--special-token", "<end>"]);
    let train = ["train", "--from-counts", "a.parquet", "-o", "out", "--vocab-size", "263"];
    let refused = |more: &[&str], said: &[&str]| refuses(&folder, &[&train[..], more].concat(), 2, said);
    refused(&["--split", "gpt2"], &["`--split`", "a.parquet", "gpt4"]);
    refused(&["--boundary", "join"], &["`--boundary`", "a.parquet", "document"]);
    refused(&["--special-token", "<s>"], &["`--special-token`", "<end>"]);
    refused(&["--tie-break", "first"], &["`--tie-break`", "a.parquet", "--order"]);
    refused(&["--column", "text"], &["--from-counts", "--column"]);
    refused(&["--take", "5"], &["--from-counts", "--take"]);
    refuses(&folder, &["train", "-o", "out", "--vocab-size", "263"], 2, &["INPUT"]);
    does(&folder, &[&train[..], &["--split", "gpt4", "--special-token", "<end>"]].concat());
}

/// If the distinct pre-tokens do not fit into memory, `train` ends with code 8 before it creates its output
/// folder.
#[test]
fn pretokens_that_do_not_fit_leave_no_folder() {
    let folder = folder();
    let train = ["train", "demo:words?distinct=300000", "--column", "line", "--merges", "3", "-o", "out"];
    refuses(
        &folder,
        &[&train[..], &["--memory", "4MB"]].concat(),
        8,
        &["distinct pre-tokens need more than"],
    );
    assert!(!folder.path().join("out").exists(), "what did not fit the memory went there");
}

/// Training from the counts of an empty input is refused.
#[test]
fn counts_of_an_empty_input_are_none_to_learn_from() {
    let folder = folder();
    write(&folder, "none.txt", "");
    does(&folder, &["count", "none.txt", "--split", "gpt2", "-o", "none.parquet"]);
    let train = ["train", "--from-counts", "none.parquet", "--merges", "3", "-o", "out"];
    refuses(&folder, &train, 1, &["the input that was counted has no text", "counts are those of"]);
}

/// Counts files with different splits, boundaries or special tokens are not added up, and a sum does not
/// replace its own input.
#[test]
fn counts_of_other_pretokens_are_not_summed() {
    let folder = counted(&[]);
    does(&folder, &["count", "b.txt", "-o", "join.parquet", "--boundary", "join"]);
    does(&folder, &["count", "b.txt", "-o", "gpt2.parquet", "--split", "gpt2"]);
    does(&folder, &["count", "b.txt", "-o", "end.parquet", "--special-token", "<end>"]);
    for (other, what) in [("join", "boundary"), ("gpt2", "gpt2"), ("end", "<end>")] {
        let other = format!("{other}.parquet");
        let said = [other.as_str(), "a.parquet", what];
        refuses(&folder, &["merge-counts", "a.parquet", &other, "-o", "out"], 2, &said);
        let train = ["train", "--from-counts", "a.parquet", &other, "-o", "out", "--vocab-size", "263"];
        refuses(&folder, &train, 2, &said);
    }
    refuses(
        &folder,
        &["merge-counts", "a.parquet", "--weight", "1", "--weight", "2", "-o", "out"],
        2,
        &["2 times for 1 file\n"],
    );
    refuses(&folder, &["merge-counts", "a.txt", "-o", "out"], 1, &["a.txt"]);
    let before = fs::read(folder.path().join("a.parquet")).expect("counts");
    let onto = ["merge-counts", "a.parquet", "b.parquet", "-o", "./a.parquet"];
    refuses(&folder, &onto, 2, &["the sum would replace a.parquet", "name another file"]);
    assert_eq!(fs::read(folder.path().join("a.parquet")).expect("counts"), before);
    refuses(&folder, &["merge-counts", "none.parquet", "-o", "out"], 1, &["none.parquet"]);
}

/// 100 000 different words of seven letters, 800 kB in all.
fn many_words() -> String {
    let letter =
        |n: u32, place: u32| char::from(b'a' + u8::try_from(n / 26_u32.pow(place) % 26).expect("a letter"));
    let word = |n: u32| (0..7).map(move |place| letter(n.wrapping_mul(2_654_435_761), place)).chain([' ']);
    (0..100_000).flat_map(word).collect()
}

/// Counts that exceed the memory limit go to sorted runs on disk. The resulting file is the same.
#[test]
fn what_memory_does_not_hold_goes_to_disk() {
    let folder = folder();
    write(&folder, "a.txt", many_words());
    for order in [&[][..], &["--order"]] {
        let count = |more: &[&str]| {
            let mut command = tokenmill(&folder);
            let output = command.args(["count", "a.txt", "--json"]).args(order).args(more).output();
            let output = output.expect("a run");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{said}");
            (String::from_utf8_lossy(&output.stdout).into_owned(), said)
        };
        let (whole, _) = count(&["-o", "whole.parquet"]);
        let (spilled, said) = count(&["-o", "spilled.parquet", "--memory", "2MB"]);
        assert!(whole.contains("\"spills\":0"), "{whole}");
        assert!(spilled.contains("\"spills\":") && !spilled.contains("\"spills\":0"), "{spilled}");
        assert!(said.contains("sorted runs"), "{said}");
        let read = |name: &str| fs::read(folder.path().join(name)).expect(name);
        assert!(read("whole.parquet") == read("spilled.parquet"));
    }
    assert_eq!(files(folder.path()).len(), 3);
    refuses(&folder, &train("a.txt", &["--split", "gpt2", "--memory", "2MB"]), 8, &["memory"]);
}

/// A full disk ends `count` with code 7 and leaves no files.
#[cfg(unix)]
#[test]
fn a_full_disk_ends_counting_with_a_code_of_its_own() {
    let folder = folder();
    write(&folder, "a.txt", many_words());
    let program = assert_cmd::cargo::cargo_bin("tokenmill");
    let script = "ulimit -f 20; exec \"$0\" count a.txt -o counts.parquet --memory 2MB --quiet";
    let mut shell = std::process::Command::new("sh");
    let output =
        shell.args(["-c", script]).arg(program).current_dir(folder.path()).output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("sorted runs") && said.contains("ulimit"), "{said}");
    assert_eq!(files(folder.path()).len(), 1);
}

/// `merge-counts` takes a pattern and a folder, in which hidden files and those with `_` do not count.
#[test]
fn folders_and_patterns_of_counts_files_are_summed() {
    let folder = counted(&["--split", "gpt2"]);
    fs::create_dir(folder.path().join("parts")).expect("a folder");
    for (from, to) in [("a.parquet", "parts/part-0.parquet"), ("b.parquet", "parts/part-1.parquet")] {
        fs::copy(folder.path().join(from), folder.path().join(to)).expect("a copy");
    }
    write(&folder, "parts/_SUCCESS", "");
    write(&folder, "parts/.part-0.parquet.crc", "crc");
    does(&folder, &["merge-counts", "a.parquet", "b.parquet", "-o", "one.parquet"]);
    let one = tokenmill(&folder).args(["inspect", "one.parquet"]).output().expect("a run").stdout;
    for (counts, out) in [("parts", "two.parquet"), ("parts/*.parquet", "three.parquet")] {
        assert!(does(&folder, &["merge-counts", counts, "-o", out]).contains("of 2 files; wrote"));
        let inspected = tokenmill(&folder).args(["inspect", out]).output().expect("a run").stdout;
        let lines = |text: &[u8]| {
            String::from_utf8_lossy(text).lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(&inspected), lines(&one));
    }
    let train = ["train", "--vocab-size", "270", "--from-counts"];
    does(&folder, &[&train[..], &["parts", "-o", "of-folder"]].concat());
    does(&folder, &[&train[..], &["one.parquet", "-o", "of-sum"]].concat());
    same_files(&folder, "of-folder", "of-sum", &["tokenizer.json"]);
    refuses(&folder, &["merge-counts", "parts", "-o", "out", "--boundary", "join"], 2, &["need `--split`"]);
    refuses(&folder, &["merge-counts", "parts", "-o", "out", "--split", "gpt4"], 2, &["gpt2, not gpt4"]);
    refuses(&folder, &["merge-counts", "other", "-o", "out"], 1, &["other"]);
}
