//! Complete jobs, from a recipe to the files that they write.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod output;

use std::collections::BTreeMap;
use std::path::Path;

use tokenmill::base::int::{ByteCount, to_f64, to_u64};
use tokenmill::observer::Silent;
use tokenmill::run::{Environment, JobOptions, Outcome, job, plan, recipe};
use tokenmill::sink::TokenReader;
use tokenmill::source::{OpenContext, ReadConfig};
use tokenmill::vocab::{LoadOptions, load};
use tokenmill::{ErrorKind, Observer, Result, Stage, TokenId};

use output::files;

/// Runs a recipe into a folder. Documents are read in batches of about `batch_bytes`.
fn run(text: &str, folder: &Path, threads: usize, batch_bytes: u64, force: bool) -> Result<Outcome> {
    run_observed(text, folder, threads, batch_bytes, force, &Silent)
}

fn run_observed(
    text: &str,
    folder: &Path,
    threads: usize,
    batch_bytes: u64,
    force: bool,
    observer: &dyn Observer,
) -> Result<Outcome> {
    let recipe = format!("{text}\n[output]\ndir = {:?}\n", folder.to_str().expect("a plain path"));
    let environment = Environment { variable: &|_| None, threads, memory: ByteCount(1 << 30) };
    let recipe = recipe::read("flow.toml", &recipe).expect("the recipe can be read");
    let plan = plan(&recipe, &environment).expect("the recipe is right");
    let mut context = OpenContext::new(observer);
    context.config = ReadConfig { batch_bytes, range_bytes: 40 * batch_bytes, ..ReadConfig::default() };
    job(&plan, &JobOptions { force, ..JobOptions::default() }, &context)
}

const SPLIT: &str = r#"
[source]
uri = "demo:verse?lines=4000&seed=7"
column = "line"
[train]
split = "gpt4"
vocab_size = 900
special_tokens = ["<|endoftext|>"]
formats = ["hf", "tiktoken", "minbpe"]
[encode]
columns = ["gutenberg_id"]
eos = "<|endoftext|>"
"#;

const UNSPLIT: &str = r#"
[source]
uri = "demo:verse?lines=3000&seed=2"
column = "line"
[sample]
every = 2
shuffle_buffer = 200
seed = 42
skip = 10
take = 1000
[train]
split = "none"
boundary = "join"
merges = 400
min_frequency = 1
tie_break = "first"
[encode]
documents = "all"
"#;

/// All output files are identical for any number of threads and any batch size.
#[test]
fn the_files_do_not_depend_on_threads_or_batches() {
    for recipe in [SPLIT, UNSPLIT] {
        let mut first: Option<BTreeMap<String, Vec<u8>>> = None;
        for (threads, batch_bytes) in [(1, 1 << 20), (7, 1 << 20), (2, 700), (7, 10_000)] {
            let folder = tempfile::tempdir().unwrap();
            run(recipe, folder.path(), threads, batch_bytes, false).unwrap();
            let found = files(folder.path());
            assert!(found.contains_key("manifest.json") && found.contains_key("tokenizer/tokenizer.json"));
            let first = first.get_or_insert_with(|| found.clone());
            assert_eq!(first.keys().collect::<Vec<_>>(), found.keys().collect::<Vec<_>>());
            for (name, bytes) in &found {
                assert!(first[name] == *bytes, "{name} with {threads} threads");
            }
        }
    }
}

/// A second run of a finished job does nothing. A damaged data file is written again, with the same bytes.
#[test]
fn a_second_run_does_nothing_and_damage_is_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let first = run(SPLIT, folder.path(), 2, 1 << 20, false).unwrap();
    assert!(first.report.is_some());
    let before = files(folder.path());
    assert!(run(SPLIT, folder.path(), 1, 1 << 20, false).unwrap().report.is_none());
    assert_eq!(before, files(folder.path()));

    let damaged = folder.path().join(before.keys().find(|name| name.starts_with("data/")).unwrap());
    std::fs::write(&damaged, b"PAR1").unwrap();
    assert!(run(SPLIT, folder.path(), 2, 1 << 20, false).unwrap().report.is_some());
    assert_eq!(before, files(folder.path()));
}

/// A tokenizer file that was changed or replaced is written again.
#[test]
fn a_changed_tokenizer_file_is_written_again() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let sizes = SPLIT.replace("900", "[700, 900]");
    run(&sizes, folder.path(), 2, 1 << 20, false).unwrap();
    run(&sizes.replace("seed=7", "seed=8"), other.path(), 2, 1 << 20, false).unwrap();
    let before = files(folder.path());
    for name in ["tokenizer.json", "tokenizer.tiktoken", "tokenizer.model", "vocab-700/tokenizer.json"] {
        let at = |folder: &Path| folder.join("tokenizer").join(name);
        // A valid tokenizer, but not the one that this run learned.
        std::fs::copy(at(other.path()), at(folder.path())).unwrap();
        let report = run(&sizes, folder.path(), 2, 1 << 20, false).unwrap().report;
        assert!(report.is_some(), "{name}");
        assert!(before == files(folder.path()), "{name}");
    }
    for name in ["tokenizer_config.json", "tokenizer.vocab", "vocab-700/tokenizer_config.json"] {
        let path = folder.path().join("tokenizer").join(name);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[1..]).unwrap();
        let report = run(&sizes, folder.path(), 2, 1 << 20, false).unwrap().report;
        assert!(report.is_some() && before == files(folder.path()), "{name}");
    }
    assert!(run(&sizes, folder.path(), 2, 1 << 20, false).unwrap().report.is_none(), "all is as it was");
}

/// The result of another recipe, finished or not, is replaced only with `force`.
#[test]
fn what_another_job_made_or_began_is_replaced_only_when_asked() {
    for (finished, says) in [(true, "result of another run"), (false, "unfinished result of another run")] {
        let folder = tempfile::tempdir().unwrap();
        run(SPLIT, folder.path(), 2, 1 << 20, false).unwrap();
        if !finished {
            std::fs::remove_file(folder.path().join("manifest.json")).unwrap();
        }
        let before = files(folder.path());
        let other = SPLIT.replace("900", "800");
        let refused = run(&other, folder.path(), 2, 1 << 20, false).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Usage);
        let told = refused.to_string();
        assert!(told.contains(says) && told.contains("the recipe changed"), "{told}");
        assert_eq!(before, files(folder.path()));
        assert!(run(&other, folder.path(), 2, 1 << 20, true).unwrap().report.is_some());
        assert_ne!(before, files(folder.path()));
    }
}

/// Appends a line to a file when encoding begins.
struct Appending<'a>(&'a Path);

impl Observer for Appending<'_> {
    fn started(&self, stage: Stage, _: Option<u64>) {
        if stage == Stage::Encode {
            let text = std::fs::read_to_string(self.0).unwrap();
            std::fs::write(self.0, text + "one more\n").unwrap();
        }
    }
}

/// After a run whose input changed, the same command starts from the beginning and needs no `force`.
#[test]
fn the_same_command_succeeds_once_nothing_writes_to_the_input() {
    let (folder, input) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = input.path().join("a.txt");
    std::fs::write(&file, "the cat sat on the mat\n".repeat(200)).unwrap();
    let text =
        format!("[source]\nuri = {file:?}\ndocuments = \"line\"\n[train]\nmerges = 5\n[encode]\neos = false");
    let changed = run_observed(&text, folder.path(), 2, 1 << 20, false, &Appending(&file)).unwrap_err();
    assert_eq!(changed.kind(), ErrorKind::InputChanged);
    assert!(changed.help().unwrap().contains("starts from the beginning"), "{changed:?}");
    let manifest = run(&text, folder.path(), 2, 1 << 20, false).unwrap().manifest.unwrap();
    assert_eq!(manifest.rows(), 201);

    // The result is then that of another text, and the file that changed is named.
    std::fs::write(&file, "another text\n").unwrap();
    let refused = run(&text, folder.path(), 2, 1 << 20, false).unwrap_err();
    assert!(refused.to_string().contains("a.txt) changed since"), "{refused}");
}

/// The ids of each row decode to the text of the document, followed by EOS.
#[test]
fn what_was_written_decodes_to_the_text() {
    let folder = tempfile::tempdir().unwrap();
    run(SPLIT, folder.path(), 2, 1 << 20, false).unwrap();
    let vocabulary = load(&folder.path().join("tokenizer"), &LoadOptions::default(), &Silent).unwrap();
    let spec = tokenmill::source::SourceSpec {
        uri: "demo:verse?lines=4000&seed=7".to_owned(),
        ..tokenmill::source::SourceSpec::default()
    };
    let source = tokenmill::source::open(&spec, 0, &OpenContext::new(&Silent)).unwrap();
    let texts: Vec<Vec<u8>> = tokenmill::source::in_order(vec![source], 2)
        .flat_map(|batch| batch.unwrap().iter().map(|text| text.unwrap().to_vec()).collect::<Vec<_>>())
        .collect();
    let end = vocabulary.added()[0].id;
    let mut row = 0;
    for batch in TokenReader::open(folder.path()).unwrap() {
        for ids in batch.unwrap().iter() {
            let ids = ids.unwrap();
            let (last, ids) = ids.split_last().unwrap();
            let mut decoded = Vec::new();
            vocabulary.decode(ids, &mut decoded).unwrap();
            assert_eq!((*last, &decoded), (end, &texts[row]));
            row += 1;
        }
    }
    assert_eq!(row, texts.len());
}

/// The recipe [`SPLIT`] with packed rows of 100 tokens. A packed row cannot pass the source column through.
fn packing(rule: &str) -> String {
    let pack = format!("pack = {rule:?}\nlength = 100");
    SPLIT.replace("columns = [\"gutenberg_id\"]", &pack)
}

/// The ids of an output, one list per row.
fn rows(folder: &Path) -> Vec<Vec<TokenId>> {
    let batches = TokenReader::open(folder).unwrap().map(Result::unwrap);
    batches.flat_map(|batch| batch.iter().map(|ids| ids.unwrap().to_vec()).collect::<Vec<_>>()).collect()
}

/// Packed rows hold the tokens of all documents, for any number of threads and any batch size. The report has
/// the right utilisation.
#[test]
fn packed_files_have_the_tokens_of_the_documents() {
    let plain = tempfile::tempdir().unwrap();
    run(SPLIT, plain.path(), 2, 1 << 20, false).unwrap();
    let documents = rows(plain.path());
    for rule in ["concat", "best-fit"] {
        let folder = tempfile::tempdir().unwrap();
        let outcome = run(&packing(rule), folder.path(), 1, 1 << 20, false).unwrap();
        let packed = rows(folder.path());
        let tokens: usize = packed.iter().map(Vec::len).sum();
        assert!(packed.iter().all(|row| row.len() <= 100));
        let report = outcome.report.unwrap();
        let utilisation = tokenmill::report::Ratios::of(&report).packing_utilisation.unwrap();
        let facts = report.encoding.unwrap().packing.unwrap();
        assert_eq!((facts.rule.as_str(), facts.length, facts.rows), (rule, 100, to_u64(packed.len())));
        assert_eq!(facts.padding, to_u64(packed.len() * 100 - tokens));
        assert!((utilisation - to_f64(to_u64(tokens)) / to_f64(to_u64(packed.len() * 100))).abs() < 1e-9);
        if rule == "concat" {
            assert_eq!(packed.concat(), documents.concat());
        } else {
            let (mut packed, mut documents) = (packed.concat(), documents.concat());
            packed.sort();
            documents.sort();
            assert_eq!((packed, facts.cut_documents), (documents, 0));
        }
        for (threads, batch_bytes) in [(2, 1 << 20), (7, 1 << 20), (3, 10_000)] {
            let other = tempfile::tempdir().unwrap();
            run(&packing(rule), other.path(), threads, batch_bytes, false).unwrap();
            let (first, found) = (files(folder.path()), files(other.path()));
            assert!(first == found, "{rule} with {threads} threads");
        }
    }
}

/// Counts the stages that start.
#[derive(Default)]
struct Begun(std::sync::atomic::AtomicUsize);

impl tokenmill::Observer for Begun {
    fn started(&self, _stage: tokenmill::Stage, _total: Option<u64>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Training without a split refuses a text that exceeds the memory limit before it learns. A single document is
/// refused before it is read.
#[test]
fn what_does_not_fit_the_memory_is_refused_before_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("long.txt");
    std::fs::write(&text, "some text ".repeat(100_000)).unwrap();
    for (documents, begun) in [("file", 0), ("line", 1)] {
        let recipe = format!(
            "[source]\nuri = {text:?}\ndocuments = {documents:?}\n[train]\nsplit = \"none\"\nmerges = 9\n\
             [run]\nmemory = \"3MB\"\n[output]\ndir = {:?}\n",
            folder.path().join(documents)
        );
        let environment = Environment { variable: &|_| None, threads: 1, memory: ByteCount(1 << 30) };
        let plan = plan(&recipe::read("r.toml", &recipe).unwrap(), &environment).unwrap();
        let observer = Begun::default();
        let outcome = job(&plan, &JobOptions::default(), &OpenContext::new(&observer));
        let Err(error) = outcome else { panic!("{documents}: it does not fit") };
        assert_eq!(error.kind(), ErrorKind::Memory);
        assert!(error.to_string().contains("3.0 MB") && error.help().is_some(), "{error}");
        assert_eq!(observer.0.into_inner(), begun, "{documents}");
    }
}

/// A weight has the same effect as repeating the text that often. Only the ratios of the weights matter.
#[test]
fn weights_count_as_repetition_does() {
    let folder = tempfile::tempdir().unwrap();
    let text = |seed: u64| -> String {
        let word = |n: u64| format!("w{} ", (n * n * (seed + 2)) % (7 + 3 * seed));
        (0..120).map(word).collect()
    };
    let weights = [("1", 4), ("0.25", 1), ("3", 12)];
    for split in ["gpt2", "none"] {
        let train = format!("[train]\nsplit = {split:?}\nmerges = 60\nmin_frequency = 3\n");
        let mut recipes = [train.clone(), train];
        for ((seed, (weight, times)), name) in (0..).zip(weights).zip(["a", "b", "c"]) {
            let path = |of: &str| folder.path().join(format!("{name}-{of}.txt"));
            std::fs::write(path("once"), text(seed)).unwrap();
            // One document per line: the repetitions must stay separate documents, just as the weighted text is
            // one.
            std::fs::write(path("often"), format!("{}\n", text(seed)).repeat(times)).unwrap();
            let source = |of: &str, more: &str| {
                format!("[[source]]\nuri = {:?}\ndocuments = \"line\"\n{more}\n", path(of))
            };
            recipes[0] += &source("once", &format!("weight = {weight}"));
            recipes[1] += &source("often", "");
        }
        let tokenizers = recipes.map(|recipe| {
            let out = folder.path().join("out");
            run(&recipe, &out, 2, 1_000, true).unwrap();
            std::fs::read(out.join("tokenizer/tokenizer.json")).unwrap()
        });
        assert!(tokenizers[0] == tokenizers[1], "{split}");
    }
}
