//! Mixtures of sources: the counts that are kept and reused per source, and the share that weights and limits
//! give to each.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::path::Path;
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use tokenmill::base::int::ByteCount;
use tokenmill::run::{Environment, JobOptions, Outcome, job, plan, recipe};
use tokenmill::source::OpenContext;

/// Collects the notes of a run.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl tokenmill::Observer for Heard {
    fn noted(&self, note: &str) {
        self.0.lock().unwrap().push(note.to_owned());
    }
}

/// Runs a recipe of these sources, whose keys say more. A line of a text file is a document. Returns the outcome and the
/// number of sources with reused counts.
fn run(sources: &[(&Path, &str)], more: &str, out: &Path) -> (Outcome, usize) {
    let section = |(path, keys): &(&Path, &str)| {
        let lines = path.extension().is_some_and(|extension| extension == "txt");
        format!("[[source]]\nuri = {path:?}\n{}{keys}\n", if lines { "documents = \"line\"\n" } else { "" })
    };
    let sources: String = sources.iter().map(section).collect();
    let recipe = format!("{sources}{more}[output]\ndir = {out:?}\n");
    let environment = Environment { variable: &|_| None, threads: 2, memory: ByteCount(1 << 30) };
    let plan = plan(&recipe::read("r.toml", &recipe).unwrap(), &environment).unwrap();
    let heard = Heard::default();
    let options = JobOptions { force: true, ..JobOptions::default() };
    let outcome = job(&plan, &options, &OpenContext::new(&heard)).unwrap();
    let notes = heard.0.into_inner().unwrap();
    (outcome, notes.iter().filter(|note| note.starts_with("using the counts of")).count())
}

fn tokenizer(out: &Path) -> Vec<u8> {
    fs::read(out.join("tokenizer/tokenizer.json")).unwrap()
}

fn text(seed: u64, lines: u64) -> String {
    let line = |n: u64| format!("l{n} w{} <|x|> v{}\n", n * n * (seed + 2) % 31, n * seed % 17);
    (0..lines).map(line).collect()
}

const TRAIN: &str =
    "[train]\nsplit = \"gpt2\"\nmerges = 80\nspecial_tokens = [\"<|x|>\"]\n[encode]\nspecial = \"allow\"\n";

/// The counts of a source are those of its text, so another template or another separator of items is counted again.
#[test]
fn another_text_of_the_same_rows_is_counted_again() {
    let folder = tempfile::tempdir().unwrap();
    let (rows, lines) = (folder.path().join("rows.jsonl"), folder.path().join("lines.txt"));
    let (kept, fresh) = (folder.path().join("kept"), folder.path().join("fresh"));
    let row = |n: u64| format!("{{\"title\":\"t{}\",\"turns\":[\"a{}\",\"b{n}\"]}}\n", n % 7, n % 5);
    fs::write(&rows, (0..300).map(row).collect::<String>()).unwrap();
    fs::write(&lines, text(2, 200)).unwrap();
    let texts = [
        "template = \"{title}\"",
        "template = \"{title}, {title}!\"",
        "column = \"turns[]\"\njoin = \" \"",
        "column = \"turns[]\"\njoin = \"--\"",
    ];
    for (round, keys) in texts.into_iter().enumerate() {
        let sources = [(rows.as_path(), keys), (lines.as_path(), "")];
        let (_, reused) = run(&sources, TRAIN, &kept);
        assert_eq!(reused, usize::from(round > 0), "{keys}: only the lines are as they were");
        run(&sources, TRAIN, &fresh);
        assert!(tokenizer(&kept) == tokenizer(&fresh), "{keys}");
        fs::remove_dir_all(&fresh).unwrap();
    }
}

/// Other weights for the same sources reuse their counts, with the same result as fresh ones. Changed sources
/// and damaged counts are counted again.
#[test]
fn another_mixture_of_the_same_sources_needs_no_counting() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("1.txt"), folder.path().join("2.txt"));
    let (kept, fresh) = (folder.path().join("kept"), folder.path().join("fresh"));
    fs::write(&one, text(1, 300)).unwrap();
    fs::write(&two, text(2, 200)).unwrap();
    for train in [TRAIN.to_owned(), TRAIN.replace("merges", "tie_break = \"first\"\nmerges")] {
        for (round, (weight, found)) in
            [("weight = 1", 0), ("weight = 7", 2), ("weight = 0.5", 2)].iter().enumerate()
        {
            // Counts do not depend on the settings of training, so the other tie rule reuses them.
            let expected = if round == 0 && train != TRAIN { 2 } else { *found };
            let sources = [(one.as_path(), *weight), (two.as_path(), "")];
            let (outcome, reused) = run(&sources, &train, &kept);
            assert_eq!(reused, expected, "{weight}");
            let (again, none) = run(&sources, &train, &fresh);
            assert_eq!(none, 0);
            assert!(tokenizer(&kept) == tokenizer(&fresh), "{weight}");
            let (report, again) = (outcome.report.unwrap(), again.report.unwrap());
            assert_eq!((report.corpus, report.encoding), (again.corpus, again.encoding));
            fs::remove_dir_all(&fresh).unwrap();
        }
    }
    // The counts of a changed source are not reused, and neither are damaged counts.
    fs::write(&two, text(3, 200)).unwrap();
    let sources = [(one.as_path(), ""), (two.as_path(), "")];
    assert_eq!(run(&sources, TRAIN, &kept).1, 1);
    let counts = kept.join(".tokenmill/counts");
    let files = || fs::read_dir(&counts).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(files().count(), 4, "two of each source");
    // Damage the counts, then a figure in the recorded facts about the text.
    for (extension, from_end, merges) in [("parquet", 20, "70"), ("journal", 6, "50")] {
        for file in files().filter(|path| path.extension().is_some_and(|found| found == extension)) {
            let mut bytes = fs::read(&file).unwrap();
            let at = bytes.len() - from_end;
            bytes[at] ^= 1;
            fs::write(&file, bytes).unwrap();
        }
        assert_eq!(run(&sources, &TRAIN.replace("80", merges), &kept).1, 0, "{extension}");
        assert_eq!(run(&sources, &TRAIN.replace("80", &format!("{merges}1")), &kept).1, 2);
    }
}

/// Writes a Parquet file without dictionary and statistics, so that its footer reveals nothing about the
/// content. For words of equal length the footers are equal.
fn write_untold(path: &Path, word: &str) {
    let texts: Vec<String> = (0..500).map(|n| format!("{word} {n:04}")).collect();
    let texts: ArrayRef = Arc::new(StringArray::from(texts));
    let batch = RecordBatch::try_from_iter([("text", texts)]).unwrap();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// Two files with equal sizes and footers have counts of their own.
#[test]
fn files_that_nothing_but_their_names_tell_apart_are_counted_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (one, two) = (path("1.parquet"), path("2.parquet"));
    write_untold(&one, "alpha");
    write_untold(&two, "gamma");
    let sources = [(one.as_path(), ""), (two.as_path(), "")];
    assert_eq!(run(&sources, TRAIN, &path("both")).1, 0);
    let both = String::from_utf8(tokenizer(&path("both"))).unwrap();
    assert!(both.contains("alpha") && both.contains("gamma"), "{both}");
}

/// The report has documents, bytes, weight and share of each source.
#[test]
fn the_report_tells_what_was_learned_from_each_source() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("1.txt"), "aaaa\nbb\ncccc\n").unwrap();
    fs::write(path("2.txt"), "dddddd\nffff\n").unwrap();
    fs::write(path("3.txt"), "").unwrap();
    // Counts are not kept for a sample of all sources together, nor without a split.
    for more in ["", "[sample]\nevery = 1\nseed = 1\nshuffle_buffer = 9\n"] {
        for split in ["gpt2", "none"] {
            let names = [path("1.txt"), path("2.txt"), path("3.txt")];
            let weights = ["weight = 0.5", "weight = 1.5", "weight = 3"];
            let sources: Vec<(&Path, &str)> = names.iter().map(|name| &**name).zip(weights).collect();
            let (outcome, _) =
                run(&sources, &format!("{more}{}", TRAIN.replace("gpt2", split)), &path("out"));
            let training = outcome.report.unwrap().training.unwrap();
            let told = training
                .sources
                .iter()
                .map(|source| (source.documents, source.text_bytes, source.weight, source.share));
            assert_eq!(
                told.collect::<Vec<_>>(),
                [(3, 10, 1, 0.25), (2, 10, 3, 0.75), (0, 0, 6, 0.0)],
                "{split}"
            );
        }
    }
}

/// A recipe with another value of a variable is another job, and needs `force` to replace the first result.
#[test]
fn another_value_of_a_variable_is_another_job() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let recipe = format!(
        "[[source]]\nuri = \"demo:verse?lines=300&seed=${{SEED}}\"\n{TRAIN}[output]\ndir = {out:?}\n"
    );
    let recipe = recipe::read("r.toml", &recipe).unwrap();
    let learned = |seed: &'static str, force| {
        let variable = move |_: &str| Some(seed.to_owned());
        let environment = Environment { variable: &variable, threads: 2, memory: ByteCount(1 << 30) };
        let options = JobOptions { force, ..JobOptions::default() };
        job(&plan(&recipe, &environment).unwrap(), &options, &OpenContext::new(&Heard::default()))
    };
    assert!(learned("1", false).unwrap().report.is_some());
    assert!(learned("1", false).unwrap().report.is_none(), "it is done");
    let first = tokenizer(&out);
    assert!(learned("2", false).is_err(), "another input, without being forced");
    assert!(learned("2", true).unwrap().report.is_some());
    assert!(tokenizer(&out) != first);
}

/// `take` and `max_bytes` of a source select its first documents, as if the source had no others.
#[test]
fn limits_take_the_first_documents_of_each_source() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let lines = |text: &str, count: usize| -> String { text.split_inclusive('\n').take(count).collect() };
    let (one, two) = (text(1, 300), text(2, 200));
    fs::write(path("1.txt"), &one).unwrap();
    fs::write(path("2.txt"), &two).unwrap();
    fs::write(path("1-short.txt"), lines(&one, 40)).unwrap();
    let bytes: usize = two.lines().take(25).map(str::len).sum();
    fs::write(path("2-short.txt"), lines(&two, 25)).unwrap();
    for split in ["gpt2", "none"] {
        let train = TRAIN.replace("gpt2", split);
        let limited =
            [(path("1.txt"), "take = 40".to_owned()), (path("2.txt"), format!("max_bytes = {}", bytes + 1))];
        let short = [(path("1-short.txt"), String::new()), (path("2-short.txt"), String::new())];
        let reports = [limited, short].map(|sources| {
            let sources: Vec<(&Path, &str)> =
                sources.iter().map(|(path, keys)| (path.as_path(), keys.as_str())).collect();
            let (outcome, _) = run(&sources, &train, &path("out"));
            (outcome.report.unwrap(), tokenizer(&path("out")))
        });
        let [(limited, one), (short, two)] = reports;
        assert!(one == two, "{split}");
        let by_source = |report: &tokenmill::report::RunReport| {
            let sources = &report.encoding.as_ref().unwrap().sources;
            sources
                .iter()
                .map(|source| (source.documents, source.text_bytes, source.tokens))
                .collect::<Vec<_>>()
        };
        assert_eq!(by_source(&limited), by_source(&short), "{split}");
        assert_eq!(by_source(&limited).iter().map(|source| source.0).collect::<Vec<_>>(), [40, 25]);
        let encoding = limited.encoding.unwrap();
        assert_eq!(encoding.sources.iter().map(|source| source.tokens).sum::<u64>(), encoding.tokens);
    }
}
