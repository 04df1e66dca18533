//! Several splits of one dataset in one output.

use super::*;

fn done(folder: &TempDir, arguments: &[&str]) -> String {
    let (code, said) = ended(folder, arguments);
    assert_eq!(code, Some(0), "{arguments:?} said\n{said}");
    said
}

const OTHER: &str = "a rat and a bat\nthe end\n";

const RECIPE: &str = "source = { uri = \"a.txt\", documents = \"line\" }\ntrain = { merges = 3 }\nencode = {}\n\
                      output = { dir = \"made\" }";

fn encode<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let encode = ["encode", "b.txt", "-t", "made/tokenizer", "-o", "made", "--split-name", "validation"];
    [&encode[..], &["--documents", "line"], more].concat()
}

/// An output with the splits `train` and `validation`.
fn two_splits(format: &str) -> TempDir {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    write(&folder, "b.txt", OTHER);
    write(&folder, "r.toml", RECIPE.replace("\"made\"", &format!("\"made\", format = \"{format}\"")));
    done(&folder, &["run", "r.toml"]);
    done(&folder, &encode(&["--output-format", format]));
    folder
}

fn read(folder: &TempDir, name: &str) -> String {
    fs::read_to_string(folder.path().join("made").join(name)).expect(name)
}

/// Several splits share an output in every format. Each is found finished, decoded and verified by itself.
#[test]
fn splits_lie_beside_each_other() {
    for format in ["parquet", "bin", "megatron"] {
        let folder = two_splits(format);
        let manifest = read(&folder, "manifest.json");
        for name in ["data/train-00000-of-00001", "data/validation-00000-of-00001", "\"splits\""] {
            assert!(manifest.contains(name), "{format}: {manifest}");
        }
        assert!(done(&folder, &["verify", "made"]).contains("2 files with 5 rows"));
        done(&folder, &["inspect", "made"]);
        let said = done(&folder, &["run", "r.toml"]);
        assert!(said.contains("nothing to do") && said.contains("3 rows"), "{said}");
        let said = done(&folder, &encode(&["--output-format", format]));
        assert!(said.contains("nothing to do") && said.contains("2 rows"), "{said}");
        for (split, text) in [("train", TEXT.replace("\n\n", "\n")), ("validation", OTHER.to_owned())] {
            let decode = ["decode", "made", "-t", "made/tokenizer", "--split-name", split];
            let decoded = tokenmill(&folder).args(decode).output().expect("a run");
            assert_eq!(String::from_utf8_lossy(&decoded.stdout), text, "{format}");
        }
        let input = ["--verify", "b.txt", "--documents", "line"];
        let decode = ["decode", "made", "-t", "made/tokenizer"];
        done(&folder, &[&decode[..], &["--split-name", "validation"], &input].concat());
        refuses(&folder, &decode, 2, &["several splits: train, validation", "--split-name"]);
        refuses(&folder, &[&decode[..], &["--split-name", "test"]].concat(), 2, &["no split \"test\""]);
        assert_ne!(read(&folder, "report.json"), read(&folder, "report-validation.json"));
        assert_eq!(manifest, read(&folder, "manifest.json"), "nothing has changed");
    }
}

/// The dataset card lists the files and row counts of all splits.
#[test]
fn the_card_has_all_splits() {
    let folder = two_splits("parquet");
    let card = read(&folder, "README.md");
    for said in [
        "  - split: \"train\"\n    path: \"data/train-*.parquet\"\n  - split: \"validation\"\n    path: \"data/validation-*.parquet\"",
        "  - name: \"train\"\n",
        "num_examples: 3\n",
        "  - name: \"validation\"\n",
        "num_examples: 2\n",
        "Rows of the splits: `train` 3, `validation` 2.",
    ] {
        assert!(card.contains(said), "{said:?} in\n{card}");
    }
}

/// A note says that two splits of one input may have documents in common, unless both have the same order and one
/// ends where the other begins.
#[test]
fn splits_with_common_documents_are_told() {
    let folder = folder();
    let lines: String = (0..40).map(|line| format!("the cat sat on mat {line}\n")).collect();
    write(&folder, "a.txt", lines);
    done(&folder, &["train", "a.txt", "-o", "tokenizer", "--merges", "3"]);
    let encode = |split: &str, sample: &[&str]| {
        let encode = ["encode", "a.txt", "-t", "tokenizer", "-o", "out", "--documents", "line"];
        done(&folder, &[&encode[..], &["--split-name", split, "--force"], sample].concat())
    };
    let told = "may have documents in common";
    assert!(!encode("train", &["--skip", "10", "--shuffle-buffer", "20", "--seed", "1"]).contains(told));
    let said = encode("validation", &["--take", "10", "--shuffle-buffer", "20"]);
    for part in ["\"train\" and \"validation\"", told, "`seed` 1, `skip` 10", "`seed` 0, `take` 10"] {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    let said = encode("validation", &["--take", "10", "--shuffle-buffer", "20", "--seed", "1"]);
    assert!(
        said.contains("the recipe changed since the last run (`seed`)") && !said.contains(told),
        "{said}"
    );
    assert!(encode("test", &[]).contains(told), "it is all of the input");
    // All three have one input.
    let inspected = tokenmill(&folder).args(["inspect", "out"]).output().expect("a run");
    let shown = String::from_utf8_lossy(&inspected.stdout);
    for line in
        ["splits        3\n", "  train  30 rows, ", "  validation  10 rows, ", "inputs        1\n  a.txt"]
    {
        assert!(shown.contains(line), "{line:?} in {shown}");
    }
}

/// Repairing or replacing a split does not touch the other split.
#[test]
fn what_is_done_again_is_one_split() {
    let folder = two_splits("parquet");
    let path = |name: &str| folder.path().join("made").join(name);
    let (train, validation) = ("data/train-00000-of-00001.parquet", "data/validation-00000-of-00001.parquet");
    let before = [train, validation].map(|name| fs::read(path(name)).expect("a file"));
    for (damaged, again) in [(validation, encode(&[])), (train, vec!["run", "r.toml"])] {
        fs::write(path(damaged), "damaged").expect("a file");
        assert_eq!(ended(&folder, &["verify", "made"]).0, Some(4));
        assert!(done(&folder, &again).contains("doing it again"));
        assert_eq!([train, validation].map(|name| fs::read(path(name)).expect("a file")), before);
        done(&folder, &["verify", "made"]);
    }
    // The refusal names the data file at stake, and `--force` replaces that file alone.
    write(&folder, "b.txt", "another text\n");
    let replaced = format!("replace the data file {validation}");
    let arguments = encode(&[]);
    refuses(&folder, &arguments, 2, &["the input", &replaced, "--force"]);
    let said = done(&folder, &encode(&["--force"]));
    assert!(said.contains(&format!("replacing the data file {validation}")), "{said}");
    assert_eq!(fs::read(path(train)).expect("a file"), before[0]);
    assert!(done(&folder, &["verify", "made"]).contains("2 files with 4 rows"));
    assert!(done(&folder, &["run", "r.toml"]).contains("nothing to do"));
}

/// The command of one split does not repair another. A split is removed with its files and the manifest, which the
/// commands of the others write again.
#[test]
fn a_split_whose_files_are_missing_is_told_and_can_be_removed() {
    let folder = two_splits("parquet");
    let path = |name: &str| folder.path().join("made").join(name);
    let train = fs::read(path("data/train-00000-of-00001.parquet")).expect("a file");
    fs::remove_file(path("data/validation-00000-of-00001.parquet")).expect("removed");
    assert_eq!(ended(&folder, &["verify", "made"]).0, Some(4));
    let said = done(&folder, &["run", "r.toml"]);
    for part in ["missing. It is of the split \"validation\"", "nothing to do"] {
        assert!(said.contains(part) && !said.contains("doing it again"), "{said}");
    }
    fs::remove_file(path("manifest.json")).expect("removed");
    assert!(done(&folder, &["run", "r.toml"]).contains("continuing an earlier run"));
    assert!(done(&folder, &["verify", "made"]).contains("1 file with 3 rows"));
    assert!(!read(&folder, "README.md").contains("validation"));
    assert_eq!(fs::read(path("data/train-00000-of-00001.parquet")).expect("a file"), train);
}

/// A split with another tokenizer, format, policy or packing is refused, even with `--force`, and changes
/// nothing.
#[test]
fn a_split_of_other_settings_is_refused() {
    let folder = two_splits("parquet");
    done(&folder, &["train", "a.txt", "-o", "other", "--merges", "2", "--special-token", "<|end|>"]);
    let files_before = read(&folder, "manifest.json");
    let test = |more: &[&str], says: &str| {
        let encode = ["encode", "b.txt", "-o", "made", "--split-name", "test", "--force"];
        refuses(&folder, &[&encode[..], more].concat(), 2, &["holds the split \"train\"", says]);
        assert_eq!(read(&folder, "manifest.json"), files_before);
        done(&folder, &["verify", "made"]);
    };
    test(&["-t", "other"], "another tokenizer");
    test(&["-t", "made/tokenizer", "--output-format", "bin"], "another format");
    test(&["-t", "made/tokenizer", "--special", "allow"], "another policy for special tokens");
    test(&["-t", "made/tokenizer", "--pack", "concat", "--length", "4"], "other packing");
    let validation =
        ["encode", "b.txt", "-o", "made", "--split-name", "validation", "--force", "-t", "other"];
    refuses(&folder, &validation, 2, &["holds the split \"train\"", "another tokenizer"]);
    assert!(read(&folder, "manifest.json") == files_before, "not even its own files are removed");
    done(&folder, &["verify", "made"]);
    // Training again would replace the tokenizer of the other split.
    write(&folder, "r.toml", RECIPE.replace("merges = 3", "merges = 2"));
    refuses(&folder, &["run", "r.toml", "--force"], 2, &["holds other splits (validation)"]);
    done(&folder, &["verify", "made"]);
    // A report that somebody else wrote is kept.
    fs::write(folder.path().join("made/report-test.html"), "mine").expect("a file");
    let test = ["encode", "b.txt", "-o", "made", "--split-name", "test", "-t", "made/tokenizer"];
    refuses(&folder, &test, 2, &["report-test.html"]);
}

/// A run that is killed before it writes the manifest leaves this.
#[test]
fn a_split_that_is_not_complete_is_gone_on_with() {
    let folder = two_splits("parquet");
    let whole = read(&folder, "manifest.json");
    let test = ["encode", "a.txt", "-t", "made/tokenizer", "-o", "made", "--split-name", "test"];
    done(&folder, &test);
    write(&folder, "made/manifest.json", &whole);
    let (code, said) = ended(&folder, &["verify", "made"]);
    assert!(code == Some(4) && said.contains("its split is not complete"), "{said}");
    let said = done(&folder, &encode(&[]));
    let told = "It is of the split \"test\": give the command of that split again";
    assert!(said.contains(told) && said.contains("nothing to do"), "{said}");
    assert!(done(&folder, &test).contains("continuing an earlier run"));
    assert!(done(&folder, &["verify", "made"]).contains("3 files"));
}

/// With `--one-file`, each split is a single file with the name of the split, as nanoGPT expects it.
#[test]
fn a_split_may_be_one_file() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    write(&folder, "b.txt", OTHER);
    write(&folder, "lines.jsonl", "{\"text\": \"a rat\"}\n{\"text\": \"a bat\"}\n");
    done(&folder, &["train", "a.txt", "-o", "tokenizer", "--merges", "3"]);
    for format in ["bin", "megatron"] {
        let encode = |input: &'static str, split: &'static str| {
            let encode = ["encode", input, "-t", "tokenizer", "-o", format, "--split-name", split];
            [&encode[..], &["--output-format", format, "--documents", "line", "--one-file"]].concat()
        };
        let (train, val) = (encode("a.txt", "train"), encode("b.txt", "val"));
        done(&folder, &train);
        done(&folder, &val);
        // The number of files is not known before this text is read.
        done(
            &folder,
            &[&encode("lines.jsonl", "test")[..8], &["--output-format", format, "--one-file"]].concat(),
        );
        let names: Vec<String> = ["test", "train", "val"]
            .into_iter()
            .flat_map(|split| ["bin", "idx"].map(|end| format!("{split}.{end}")))
            .collect();
        let mut found: Vec<String> = fs::read_dir(folder.path().join(format).join("data"))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        found.sort();
        assert_eq!(found, names);
        assert!(done(&folder, &["verify", format]).contains("3 files with 7 rows"));
        for arguments in [&train, &val] {
            assert!(done(&folder, arguments).contains("nothing to do"));
        }
        for (split, text) in [("train", TEXT.replace("\n\n", "\n")), ("val", OTHER.to_owned())] {
            let decode = ["decode", format, "-t", "tokenizer", "--split-name", split];
            let decoded = tokenmill(&folder).args(decode).output().expect("a run");
            assert_eq!(String::from_utf8_lossy(&decoded.stdout), text, "{format}");
        }
        let ids = fs::read(folder.path().join(format).join("data/val.bin")).expect("a file");
        let tokens =
            |ids: &[u8]| ids.as_chunks::<2>().0.iter().map(|id| u16::from_le_bytes(*id)).collect::<Vec<_>>();
        done(
            &folder,
            &[&["encode", "b.txt", "-t", "tokenizer", "-o", "many", "--force"][..], &val[8..12]].concat(),
        );
        let many = fs::read(folder.path().join("many/data/train-00000-of-00001.bin")).expect("a file");
        assert_eq!(tokens(&ids), tokens(&many));
        // Repeating the split with many files replaces its single file, and touches no other split.
        let before = fs::read(folder.path().join(format).join("data/train.bin")).expect("a file");
        write(&folder, "b.txt", "another text\n");
        refuses(&folder, &val, 2, &["data/val.bin to data/val.idx", "--force"]);
        done(&folder, &[&val[..], &["--force"]].concat());
        done(&folder, &[&encode("b.txt", "val")[..12], &["--force"]].concat());
        assert!(!folder.path().join(format).join("data/val.bin").exists());
        assert!(folder.path().join(format).join("data/val-00000-of-00001.bin").exists());
        assert_eq!(fs::read(folder.path().join(format).join("data/train.bin")).expect("a file"), before);
        done(&folder, &["verify", format]);
        write(&folder, "b.txt", OTHER);
    }
    let parquet = ["encode", "a.txt", "-t", "tokenizer", "-o", "out", "--one-file"];
    refuses(&folder, &parquet, 2, &["is for files of ids alone", "`bin` or `megatron`"]);
    let limit = [&parquet[..], &["--output-format", "bin", "--file-text-bytes", "1MB"]].concat();
    refuses(&folder, &limit, 2, &["makes `--file-text-bytes` meaningless"]);
}

/// With more ids than 16 bits have, whoever reads the file has to know.
#[test]
fn ids_of_32_bits_are_noted() {
    use base64::Engine;

    let folder = folder();
    write(&folder, "a.txt", TEXT);
    let bytes = (0..=255_u8).map(|byte| vec![byte]);
    let pairs = (0..=u16::MAX).map(|pair| pair.to_be_bytes().to_vec());
    for (tokens, width) in [(1 << 16, 2), ((1 << 16) + 1, 4)] {
        let ranks: String = bytes
            .clone()
            .chain(pairs.clone())
            .take(tokens)
            .enumerate()
            .map(|(rank, token)| format!("{} {rank}\n", base64::prelude::BASE64_STANDARD.encode(token)))
            .collect();
        write(&folder, "ranks.tiktoken", ranks);
        let encode = ["encode", "a.txt", "-t", "ranks.tiktoken", "--split", "gpt2", "-o", "out", "--force"];
        let said = done(&folder, &[&encode[..], &["--output-format", "bin", "--one-file"]].concat());
        let note = "the .bin has 32 bits per id, because the tokenizer has 65537 ids: read it as np.uint32";
        assert_eq!(said.contains(note), width == 4, "{tokens}: {said}");
        let index = fs::read(folder.path().join("out/data/train.idx")).expect("a file");
        let ids = u64::from_le_bytes(*index.as_chunks::<8>().0.last().expect("an offset"));
        let size = fs::metadata(folder.path().join("out/data/train.bin")).expect("a file").len();
        assert_eq!(size, width * ids, "{tokens}");
    }
}
