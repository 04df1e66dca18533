//! Shards of a job: encoded and counted by several processes, and joined to what one run gives.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::WriterProperties;
use tokenmill::observer::Silent;
use tokenmill::run::verify_output;
use tokenmill::sink::{Declaration, Manifest, TokenReader};

use super::*;

/// The shards that most tests make.
const SHARDS: usize = 7;

/// Line `number` of a text; lines differ in their lengths.
fn line(number: i64) -> String {
    format!("line {number} {}", "of the cat and the rat ".repeat(usize::try_from(number % 7).expect("small")))
}

/// Writes a Parquet file with the columns `text` and `id`, in row groups of 100 rows.
fn write_groups(folder: &TempDir, name: &str, ids: std::ops::Range<i64>) {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(ids.clone().map(line)));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    let batch = RecordBatch::try_from_iter([("text", texts), ("id", ids)]).expect("columns of equal length");
    let file = fs::File::create(folder.path().join(name)).expect("a writable folder");
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(100)).build();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a Parquet writer");
    writer.write(&batch).expect("a batch");
    writer.close().expect("a footer");
}

/// A folder with a tokenizer, `in/` with three Parquet files of several row groups, and `texts/` with five text files.
fn corpus() -> TempDir {
    let folder = folder();
    for sub in ["in", "texts"] {
        fs::create_dir(folder.path().join(sub)).expect("a writable folder");
    }
    for (name, ids) in
        [("in/a.parquet", 0..450), ("in/b.parquet", 450..1_500), ("in/c.parquet", 1_500..1_700)]
    {
        write_groups(&folder, name, ids);
    }
    for number in 0..5 {
        let lines: String = (0..40 * number).map(|number| line(number) + "\n").collect();
        write(&folder, &format!("texts/{number}.txt"), lines);
    }
    does(&folder, &["train", "in", "-o", "tokenizer", "--vocab-size", "300", "--eos", "<end>"]);
    folder
}

/// Runs a command that must succeed.
#[track_caller]
fn does(folder: &TempDir, arguments: &[&str]) -> String {
    let output = tokenmill(folder).args(arguments).output().expect("a run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?} said\n{said}");
    said
}

/// Runs a command that must fail with code 2 and say all of `said`.
#[track_caller]
fn fails(folder: &TempDir, arguments: &[&str], said: &[&str]) {
    let output = tokenmill(folder).args(arguments).output().expect("a run");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?} said\n{message}");
    for expected in said {
        assert!(message.contains(expected), "{arguments:?} did not say {expected:?} but\n{message}");
    }
}

/// The words of the command that encodes a shard of `input` into the folder `shards/I`.
fn encode(input: &[&str], index: usize, of: usize) -> Vec<String> {
    let (shard, out) = (format!("{index}/{of}"), format!("shards/{index}"));
    let words = ["-t", "tokenizer", "-o", &out, "--shard", &shard, "--file-text-bytes", "5kB"];
    [&["encode"], input, &words].concat().into_iter().map(str::to_owned).collect()
}

/// The folders of the shards with these numbers.
fn folders(shards: impl IntoIterator<Item = usize>) -> Vec<String> {
    shards.into_iter().map(|index| format!("shards/{index}")).collect()
}

/// Encodes all shards of `input`.
#[track_caller]
fn encode_all(folder: &TempDir, input: &[&str], of: usize) {
    for index in 1..=of {
        let words = encode(input, index, of);
        does(folder, &words.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// The words of the command that merges shards into `merged`.
fn merge(folders: &[String]) -> Vec<&str> {
    let folders = folders.iter().map(String::as_str);
    ["merge"].into_iter().chain(folders).chain(["-o", "merged"]).collect()
}

/// Runs commands, three at a time.
fn three_at_once(folder: &TempDir, commands: Vec<Vec<String>>) {
    let program = assert_cmd::cargo::cargo_bin("tokenmill");
    let start = |words: Vec<String>| -> Child {
        let mut command = std::process::Command::new(&program);
        command.args(words).current_dir(folder.path()).stderr(Stdio::piped()).spawn().expect("a process")
    };
    let mut running: Vec<Child> = Vec::new();
    let end = |child: Child| {
        let output = child.wait_with_output().expect("an end");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    for words in commands {
        if running.len() == 3 {
            end(running.remove(0));
        }
        running.push(start(words));
    }
    running.into_iter().for_each(end);
}

/// The ids of all rows of an output.
fn ids(folder: &TempDir, output: &str) -> Vec<Vec<tokenmill::TokenId>> {
    let reader = TokenReader::open(&folder.path().join(output)).expect("an output");
    let batches = reader.map(|batch| batch.expect("a batch"));
    let rows = |batch: tokenmill::encode::TokenBatch| -> Vec<Vec<tokenmill::TokenId>> {
        batch.spans().map(|span| batch.ids.slice(span.unwrap_or(0..0)).to_vec()).collect()
    };
    batches.flat_map(rows).collect()
}

/// The values of the column `id` of all data files.
fn passed(folder: &TempDir, output: &str) -> Vec<i64> {
    let manifest = manifest(folder, output);
    let mut values = Vec::new();
    for file in manifest.files {
        let file = fs::File::open(folder.path().join(output).join(file.name)).expect("a data file");
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).and_then(|reader| reader.build());
        for batch in reader.expect("Parquet") {
            let batch = batch.expect("a batch");
            let column = batch.column_by_name("id").expect("the column");
            values.extend(column.as_primitive::<Int64Type>().values());
        }
    }
    values
}

fn manifest(folder: &TempDir, output: &str) -> Manifest {
    Manifest::read(&folder.path().join(output)).expect("a manifest").expect("a complete output")
}

/// Checks that `merged` has the rows of `one`, and that `verify` passes.
#[track_caller]
fn is_as_one_run(folder: &TempDir) {
    assert_eq!(ids(folder, "merged"), ids(folder, "one"));
    let (merged, one) = (manifest(folder, "merged"), manifest(folder, "one"));
    assert_eq!(merged.inputs, one.inputs);
    assert_eq!(
        (merged.rows(), merged.tokens(), merged.text_bytes()),
        (one.rows(), one.tokens(), one.text_bytes())
    );
    let declared = |manifest: &Manifest| {
        let declaration = manifest.declaration.clone().expect("a declaration");
        // The runs of some tests differ in the size of files, which is a setting.
        Declaration { recipe: String::new(), ..declaration }
    };
    assert_eq!((&merged.shard, declared(&merged)), (&None, declared(&one)));
    let units = |manifest: &Manifest| -> Vec<(String, u64)> {
        let units = manifest.files.iter().flat_map(|file| &file.units);
        units
            .filter(|unit| unit.rows > 0)
            .map(|unit| (format!("{} {:?}", unit.name, unit.range), unit.rows))
            .collect()
    };
    assert_eq!(units(&merged), units(&one));
    assert!(verify_output(&folder.path().join("merged"), &Silent).expect("as it was written").is_some());
}

/// Seven shards by three processes at once have the rows of one run, in the same order, and their counts are those of
/// one run, byte for byte.
#[test]
fn shards_by_three_processes_give_what_one_run_gives() {
    for (input, columns) in [
        (&["in", "--columns", "id", "--eos", "<end>"][..], true),
        (&["texts", "--documents", "line"], false),
        (&["texts/*.txt", "in/../texts/3.txt"], false),
    ] {
        let folder = corpus();
        does(&folder, &[&["encode"], input, &["-t", "tokenizer", "-o", "one"]].concat());
        three_at_once(&folder, (1..=SHARDS).map(|index| encode(input, index, SHARDS)).collect());
        let said = does(&folder, &merge(&folders([3, 1, 2, 7, 6, 5, 4])));
        assert!(said.contains("7 shards of "), "{said}");
        is_as_one_run(&folder);
        if columns {
            assert_eq!(passed(&folder, "merged"), passed(&folder, "one"));
        }
        let card = fs::read_to_string(folder.path().join("merged/README.md")).expect("a card");
        let of_one = fs::read_to_string(folder.path().join("one/README.md")).expect("a card");
        let plain = |card: &str| -> Vec<String> {
            card.lines().filter(|line| !line.contains("download_size")).map(str::to_owned).collect()
        };
        assert_eq!(plain(&card), plain(&of_one));

        let reading: Vec<&str> = input.iter().copied().take_while(|word| *word != "--columns").collect();
        for order in [&[][..], &["--order"]] {
            does(&folder, &[&["count"], &reading[..], &["-o", "one.parquet"], order].concat());
            let count = |index: usize| {
                let (shard, out) = (format!("{index}/{SHARDS}"), format!("{index}.parquet"));
                let words = [&["count"], &reading[..], &["-o", &out, "--shard", &shard], order].concat();
                words.into_iter().map(str::to_owned).collect()
            };
            three_at_once(&folder, (1..=SHARDS).map(count).collect());
            let parts = ["2", "1", "3", "7", "6", "5", "4"].map(|index| format!("{index}.parquet"));
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            does(&folder, &[&["merge-counts"], &parts[..], &["-o", "sum.parquet"]].concat());
            let read = |name: &str| fs::read(folder.path().join(name)).expect(name);
            assert!(read("sum.parquet") == read("one.parquet"), "{order:?}");
            let some: Vec<&str> = parts.iter().copied().filter(|part| *part != "3.parquet").collect();
            let wrong = [&["merge-counts", "2.parquet"], &some[..], &["-o", "wrong.parquet"]].concat();
            let said = ["shard 2/7 is there more than once: 2.parquet, 2.parquet", "shard 3/7 is missing"];
            fails(&folder, &wrong, &said);
            let train = ["train", "--from-counts", "2.parquet", "-o", "wrong", "--vocab-size", "300"];
            fails(&folder, &train, &["shards 1/7, 3/7, 4/7, 5/7, 6/7, 7/7 are missing"]);
            assert!(!folder.path().join("wrong.parquet").exists());
        }
    }
}

/// A merge says which shards are missing, there twice, or of another job, and writes nothing.
#[test]
fn a_merge_names_what_is_wrong_with_the_shards() {
    let folder = corpus();
    encode_all(&folder, &["in"], 4);
    let all = folders(1..=4);
    fails(&folder, &merge(&all[..2]), &["shards 3/4, 4/4 are missing"]);
    let doubled = ["shard 1/4 is there more than once: shards/1, shards/1", "shard 3/4 is missing"];
    fails(&folder, &merge(&folders([1, 2, 1, 4])), &doubled);
    does(&folder, &["train", "texts", "-o", "other", "--vocab-size", "300"]);
    for (name, tokenizer, shard, more, said) in [
        (
            "settings",
            "tokenizer",
            "4/4",
            &["--eos", "<end>"][..],
            "encoded with other settings than shards/1 (shard 1/4)",
        ),
        ("tokenizer", "other", "4/4", &[], "has another tokenizer than shards/1 (shard 1/4)"),
        ("number", "tokenizer", "4/5", &[], "(shard 4/5) is of another number of shards than shards/1"),
    ] {
        let out = format!("shards/{name}");
        let words =
            ["encode", "in", "-t", tokenizer, "-o", &out, "--shard", shard, "--file-text-bytes", "5kB"];
        does(&folder, &[&words[..], more].concat());
        fails(&folder, &merge(&[&all[..3], &[out.clone()]].concat()), &[&out, said]);
    }
    does(&folder, &["encode", "in", "-t", "tokenizer", "-o", "whole"]);
    fails(&folder, &merge(&["tokenizer".to_owned()]), &["tokenizer is not a complete shard"]);
    fails(&folder, &merge(&["whole".to_owned()]), &["whole is not a shard"]);
    let into = |out: &'static str| [&merge(&all)[..5], &["-o", out]].concat();
    fails(&folder, &into("shards/2"), &["shards/2 is one of the shards"]);
    fails(&folder, &into("whole"), &["whole holds another result"]);
    assert!(!folder.path().join("merged").exists());
    fs::remove_file(folder.path().join("shards/2/data").join(first_file(&folder, "shards/2")))
        .expect("a file");
    let (code, said) = ended(&folder, &merge(&all));
    assert!(
        code == Some(4) && said.contains("shards/2/data/train-00000-of-") && said.contains("is missing"),
        "{said}"
    );
}

/// The name of the first data file of an output.
fn first_file(folder: &TempDir, output: &str) -> String {
    manifest(folder, output).files[0].name.trim_start_matches("data/").to_owned()
}

/// The file that changed between two shards is named, whether or not it is divided between them.
#[test]
fn an_input_that_changed_between_shards_is_named() {
    let folder = corpus();
    let last = |folder: &TempDir| {
        let words = encode(&["in"], 2, 2);
        does(folder, &[&words.iter().map(String::as_str).collect::<Vec<_>>()[..], &["--force"]].concat());
        merge(&folders(1..=2)).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    does(&folder, &encode(&["in"], 1, 2).iter().map(String::as_str).collect::<Vec<_>>());
    for (file, ids, said) in [
        ("in/c.parquet", 1_500..1_650, "in/c.parquet changed between them"),
        ("in/d.parquet", 1_500..1_600, "only one of them has in/d.parquet"),
        ("in/b.parquet", 451..1_501, "in/b.parquet"),
    ] {
        let kept = fs::read(folder.path().join(file)).ok();
        write_groups(&folder, file, ids);
        let words = last(&folder);
        fails(
            &folder,
            &words.iter().map(String::as_str).collect::<Vec<_>>(),
            &["shards/2 (shard 2/2)", said],
        );
        match kept {
            Some(kept) => write(&folder, file, kept),
            None => fs::remove_file(folder.path().join(file)).expect("a file"),
        }
    }
    let words = last(&folder);
    does(&folder, &words.iter().map(String::as_str).collect::<Vec<_>>());
}

/// More shards than parts of the input: some have no rows, and the data set is that of one run.
#[test]
fn there_may_be_more_shards_than_parts_of_the_input() {
    let folder = corpus();
    let input = ["in/c.parquet"];
    does(&folder, &["encode", "in/c.parquet", "-t", "tokenizer", "-o", "one"]);
    encode_all(&folder, &input, 5);
    let rows = (1..=5).map(|index| manifest(&folder, &format!("shards/{index}")).rows());
    assert_eq!(rows.filter(|&rows| rows == 0).count(), 3);
    does(&folder, &merge(&folders(1..=5)));
    is_as_one_run(&folder);
    assert_eq!(manifest(&folder, "merged").files.len(), 2);
    write(&folder, "empty.txt", "");
    encode_all(&folder, &["empty.txt", "--documents", "line", "--force"], 3);
    does(&folder, &["merge", "shards/1", "shards/2", "shards/3", "-o", "nothing"]);
    does(&folder, &["verify", "nothing"]);
    assert_eq!((manifest(&folder, "nothing").files.len(), manifest(&folder, "nothing").rows()), (1, 0));
}

/// A merge that is repeated does nothing. One that was interrupted starts again, and a changed shard is merged anew
/// into another folder alone.
#[test]
fn a_merge_is_done_once_and_starts_again_after_an_interruption() {
    let folder = corpus();
    does(&folder, &["encode", "in", "-t", "tokenizer", "-o", "one"]);
    encode_all(&folder, &["in"], 3);
    let all = folders(1..=3);
    let words = merge(&all);
    does(&folder, &words);
    assert!(does(&folder, &words).contains("nothing to do: merged already holds the data set"));
    let (first, out) = (first_file(&folder, "merged"), folder.path().join("merged"));
    for (what, removed) in
        [("the manifest", "manifest.json"), ("a file", &*format!("data/{first}")), ("the card", "README.md")]
    {
        fs::remove_file(out.join(removed)).expect(what);
        assert!(does(&folder, &words).contains("wrote merged"), "{what}");
        is_as_one_run(&folder);
    }
    fs::remove_file(out.join("manifest.json")).expect("a manifest");
    encode_all(&folder, &["in", "--eos", "<end>", "--force"], 3);
    fails(&folder, &words, &["merged holds the unfinished result of another run"]);
    write(&folder, "merged/data/mine.parquet", "PAR1");
    encode_all(&folder, &["in", "--force"], 3);
    fails(&folder, &words, &["data/mine.parquet"]);
}

/// The data files of a data set and of its shards are the same files on disk, and one folder can go without the other.
#[cfg(unix)]
#[test]
fn merged_files_take_no_space_and_outlive_the_shards() {
    use std::os::unix::fs::MetadataExt;
    let folder = corpus();
    does(&folder, &["encode", "in", "-t", "tokenizer", "-o", "one"]);
    encode_all(&folder, &["in"], 2);
    does(&folder, &merge(&folders(1..=2)));
    let inode = |output: &str| {
        let path = folder.path().join(output).join("data").join(first_file(&folder, output));
        path.metadata().expect("a file").ino()
    };
    assert_eq!(inode("merged"), inode("shards/1"));
    encode_all(&folder, &["in", "--eos", "<end>", "--force"], 2);
    is_as_one_run(&folder);
    fs::remove_dir_all(folder.path().join("shards")).expect("shards");
    is_as_one_run(&folder);
}

/// Formats of bare ids are merged with their indexes, and another split than `train` keeps its name.
#[test]
fn formats_of_bare_ids_and_named_splits_are_merged() {
    for (format, what) in [("bin", "the position of each document"), ("megatron", "MMIDIDX")] {
        let folder = corpus();
        let input = ["in", "--output-format", format, "--split-name", "val"];
        does(&folder, &[&["encode"], &input[..], &["-t", "tokenizer", "-o", "one"]].concat());
        encode_all(&folder, &input, 3);
        does(&folder, &merge(&folders(1..=3)));
        is_as_one_run(&folder);
        does(&folder, &["verify", "merged"]);
        assert!(first_file(&folder, "merged").starts_with("val-00000-of-0"));
        let card = fs::read_to_string(folder.path().join("merged/README.md")).expect("a card");
        assert!(card.contains(what), "{card}");
    }
}

/// Packed rows are packed within each shard: all ids are there, in order.
#[test]
fn packed_shards_have_all_ids() {
    let folder = corpus();
    let input = ["in", "--pack", "concat", "--length", "64", "--eos", "<end>"];
    does(&folder, &[&["encode"], &input[..], &["-t", "tokenizer", "-o", "one"]].concat());
    encode_all(&folder, &input, 3);
    does(&folder, &merge(&folders(1..=3)));
    does(&folder, &["verify", "merged"]);
    assert_eq!(ids(&folder, "merged").concat(), ids(&folder, "one").concat());
}

/// Rows and files that are left out are counted once, also files that no shard can open.
#[test]
fn what_is_left_out_is_counted_once() {
    let folder = corpus();
    write(&folder, "in/broken.parquet", "PAR1 and nothing else");
    write(&folder, "rows.jsonl", "{\"text\": \"a\"}\n{\"text\": 1}\n".repeat(9));
    let left_out = |words: &[&str]| {
        let (code, said) = ended(&folder, words);
        assert!(matches!(code, Some(0 | 3)), "{words:?} said\n{said}");
    };
    let input = ["in", "--on-bad-input", "skip"];
    left_out(&[&["encode"], &input[..], &["-t", "tokenizer", "-o", "one"]].concat());
    for index in 1..=3 {
        left_out(&encode(&input, index, 3).iter().map(String::as_str).collect::<Vec<_>>());
    }
    does(&folder, &merge(&folders(1..=3)));
    is_as_one_run(&folder);
    assert_eq!(manifest(&folder, "merged").skipped_inputs, 1);
    let lines = ["rows.jsonl", "--on-bad-input", "skip", "--force"];
    for index in 1..=2 {
        left_out(&encode(&lines, index, 2).iter().map(String::as_str).collect::<Vec<_>>());
    }
    does(&folder, &["merge", "shards/1", "shards/2", "-o", "lines"]);
    assert_eq!((manifest(&folder, "lines").rows(), manifest(&folder, "lines").skipped_inputs), (9, 9));
}

/// A shard that was killed goes on, and gives the rows of an undisturbed one.
#[test]
fn a_killed_shard_goes_on() {
    let folder = corpus();
    let words = |out: &'static str| {
        let input = "demo:verse?lines=1400000";
        ["encode", input, "-t", "tokenizer", "-o", out, "--shard", "2/2", "--file-text-bytes", "11MB"]
    };
    does(&folder, &words("whole"));
    let program = assert_cmd::cargo::cargo_bin("tokenmill");
    let journal = folder.path().join("killed/.tokenmill/files.journal");
    let is_killed = (0..5).any(|_| {
        let _ = fs::remove_dir_all(folder.path().join("killed"));
        let mut child = std::process::Command::new(&program)
            .args(words("killed"))
            .current_dir(folder.path())
            .stderr(Stdio::null())
            .spawn()
            .expect("a process");
        let begin = Instant::now();
        while child.try_wait().expect("a process").is_none()
            && !fs::metadata(&journal).is_ok_and(|file| file.len() > 0)
        {
            assert!(begin.elapsed() < Duration::from_secs(120), "no file is finished");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().expect("killed");
        child.wait().expect("an end").code().is_none()
    });
    assert!(is_killed, "five times the shard was done before it could be killed");
    assert!(does(&folder, &words("killed")).contains("continuing an earlier run"));
    assert_eq!(manifest(&folder, "killed"), manifest(&folder, "whole"));
    let mut other = words("killed");
    other[7] = "1/2";
    fails(&folder, &other, &["killed holds the result of another run: the shard changed"]);
}

/// What has no meaning for a part of the input is refused by name, in flags and in recipes.
#[test]
fn what_a_shard_cannot_have_is_named() {
    let folder = corpus();
    let encode = ["encode", "in", "-t", "tokenizer", "-o", "out", "--shard"];
    for (shard, help) in [("0/7", "the first is 1/7"), ("8/7", "the last one is 7/7"), ("seven", "write I/N")]
    {
        refuses(&folder, &[&encode[..], &[shard]].concat(), 2, &["`--shard`", shard, help]);
    }
    for (flags, name) in [
        (&["--take", "5"][..], "`--take`"),
        (&["--max-bytes", "5kB"], "`--max-bytes`"),
        (&["--skip", "5"], "`--skip`"),
        (&["--every", "2"], "`--every`"),
        (&["--shuffle-buffer", "5"], "`--shuffle-buffer`"),
        (&["--output-format", "bin", "--one-file"], "`--one-file`"),
        (&["--push", "hf://datasets/me/tokens"], "`--push`"),
    ] {
        let words = [&encode[..], &["1/2"], flags].concat();
        refuses(&folder, &words, 2, &[&format!("{name} cannot be combined with `--shard`")]);
    }
    let stdin = ["encode", "-", "-t", "tokenizer", "-o", "out", "--shard", "1/2"];
    refuses(&folder, &stdin, 2, &["INPUT cannot be combined with `--shard`"]);
    let count = ["count", "in", "-o", "out.parquet", "--shard", "1/2", "--boundary", "join"];
    refuses(&folder, &count, 2, &["`--boundary` cannot be combined with `--shard`"]);
    let recipe = "source = { uri = \"in\" }\ntrain = { vocab_size = 300 }\noutput = { dir = \"out\" }\nrun = { shard = \"1/2\" }\n";
    write(&folder, "r.toml", recipe);
    refuses(&folder, &["run", "r.toml"], 2, &["r.toml:4:", "`shard` divides counting and encoding"]);
    let read_once = folder.path().join("pipe");
    if std::process::Command::new("mkfifo").arg(&read_once).status().is_ok_and(|status| status.success()) {
        let words = ["encode", "pipe", "-t", "tokenizer", "-o", "out", "--shard", "1/2"];
        refuses(&folder, &words, 2, &["pipe cannot be divided into shards"]);
    }
}

/// A recipe names its shard, also by a variable, and the preview shows it.
#[test]
fn a_recipe_has_its_shard_from_a_variable() {
    let folder = corpus();
    let recipe = "source = { uri = \"in\" }\nencode = { tokenizer = \"tokenizer\" }\n\
                  output = { dir = \"shards/${TASK}\" }\nrun = { shard = \"${TASK}/3\" }\n";
    write(&folder, "r.toml", recipe);
    does(&folder, &["encode", "in", "-t", "tokenizer", "-o", "one"]);
    for task in ["1", "2", "3"] {
        let output = tokenmill(&folder).env("TASK", task).args(["plan", "r.toml"]).output().expect("a run");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            said.contains(&format!("shard    {task}/3")) && said.contains(&format!("--shard {task}/3")),
            "{said}"
        );
        assert!(
            tokenmill(&folder)
                .env("TASK", task)
                .args(["run", "r.toml"])
                .output()
                .expect("a run")
                .status
                .success()
        );
    }
    does(&folder, &merge(&folders(1..=3)));
    is_as_one_run(&folder);
    let inspected = tokenmill(&folder).args(["inspect", "shards/2"]).output().expect("a run");
    assert!(String::from_utf8_lossy(&inspected.stdout).contains("shard         2/3"));
}

/// The script for Slurm, run by hand, gives what one run gives.
#[cfg(unix)]
#[test]
fn the_script_for_slurm_runs_by_hand() {
    let folder = corpus();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines/slurm.sh");
    let program = assert_cmd::cargo::cargo_bin("tokenmill");
    let output = std::process::Command::new(script)
        .arg("here")
        .current_dir(folder.path())
        .env("TOKENMILL", &program)
        .env("INPUT", "in/*.parquet")
        .env("OUT", "out")
        .env("SHARDS", "4")
        .env("VOCAB_SIZE", "300")
        .output()
        .expect("the script");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let train = [
        "train",
        "in/*.parquet",
        "-o",
        "out/again",
        "--vocab-size",
        "300",
        "--special-token",
        "<|endoftext|>",
    ];
    does(&folder, &[&train[..], &["--eos", "<|endoftext|>"]].concat());
    let read = |name: &str| fs::read(folder.path().join(name)).expect(name);
    assert!(read("out/again/tokenizer.json") == read("out/tokenizer/tokenizer.json"));
    does(&folder, &["encode", "in/*.parquet", "-t", "out/tokenizer", "-o", "one", "--eos", "<|endoftext|>"]);
    fs::rename(folder.path().join("out/tokens"), folder.path().join("merged")).expect("the data set");
    is_as_one_run(&folder);
}
