//! The program with a hub, and with the cache that it shares with Python's clients.

#![cfg(feature = "hub")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/hub.rs"]
mod fake;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use fake::{COMMIT, FakeHub, Fault, Part, sha256};

const NAME: &str = "biglam/gutenberg-poetry-corpus";
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers-venv/bin/python");

/// A command of the program, or of Python, that uses this hub, a cache below `home`, and no other network.
fn with_hub(program: impl AsRef<Path>, hub: &FakeHub, home: &Path) -> Command {
    let mut command = Command::new(program.as_ref());
    command.current_dir(home).env("HF_ENDPOINT", &hub.endpoint).env("HF_HOME", home.join("hf"));
    command.env("HF_TOKEN", "secret").env("HF_HUB_DISABLE_TELEMETRY", "1").env("HF_HUB_DISABLE_XET", "1");
    command
}

fn tokenmill(hub: &FakeHub, home: &Path) -> Command {
    with_hub(env!("CARGO_BIN_EXE_tokenmill"), hub, home)
}

/// Reports a skipped test directly on standard error, because the harness hides what a passing test prints with
/// macros.
fn skipped(missing: &Path) {
    let said = format!("SKIPPED for want of {}\n", missing.display());
    std::io::stderr().write_all(said.as_bytes()).unwrap();
}

fn well(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
    said
}

/// Local files, the cache and `--stream` give the same tokenizer for any number of threads. A stream leaves no
/// cache.
#[test]
fn local_files_the_cache_and_the_stream_give_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let hub = poems(home);
    fs::create_dir(home.join("local")).unwrap();
    for seed in [1, 2] {
        fs::copy(home.join(format!("{seed}.parquet")), home.join(format!("local/{seed}.parquet"))).unwrap();
    }
    let uri = format!("hf://datasets/{NAME}");
    let sample = ["--shuffle-buffer", "500", "--seed", "3", "--take", "2500"];
    for split in ["none", "gpt4"] {
        let mut expected = None;
        // The stream comes first, while the cache is still empty.
        for (input, stream) in [(uri.as_str(), true), (uri.as_str(), false), ("local", false)] {
            for threads in ["1", "2", "7"] {
                let mut command = tokenmill(&hub, home);
                command.args(["train", input, "--column", "line", "--merges", "200", "-o", "out"]);
                command.args(sample).args(["--split", split, "--threads", threads]);
                command.args(stream.then_some("--stream"));
                well(&command.output().unwrap());
                let tokenizer = fs::read(home.join("out/tokenizer.json")).unwrap();
                assert!(*expected.get_or_insert_with(|| tokenizer.clone()) == tokenizer, "{input} {threads}");
            }
            assert_eq!(stream, !home.join("hf").exists(), "a stream keeps nothing");
        }
        fs::remove_dir_all(home.join("hf")).unwrap();
    }
}

/// `plan` reads only Parquet footers from the hub, and downloads nothing into the cache.
#[test]
fn a_plan_reads_indexes_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let hub = poems(home);
    let plan = || {
        let output =
            tokenmill(&hub, home).arg("plan").arg(recipe(home, 1_000)).arg("--json").output().unwrap();
        well(&output);
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["sources"][0].clone()
    };
    let (before, sizes) = (plan(), [1, 2].map(|seed| verse(home, seed).len()));
    assert_eq!(
        (&before["rows"], &before["elsewhere_bytes"]),
        (&4_000.into(), &sizes.iter().sum::<usize>().into())
    );
    let sent: usize =
        hub.asked().iter().filter(|asked| asked.part != Part::Api).map(|asked| asked.sent).sum();
    assert!(sent <= 2 * (64 << 10), "{sent} bytes");
    assert!(!home.join("hf").exists());
    well(&tokenmill(&hub, home).arg("run").arg(recipe(home, 1_000)).output().unwrap());
    assert_eq!(plan()["elsewhere_bytes"], 0);
}

/// The text is read in several units and comes from the cache, where a run has put it.
#[test]
fn a_plan_of_cached_files_names_the_files_of_the_run() {
    use tokenmill::base::int::ByteCount;
    use tokenmill::observer::Silent;
    use tokenmill::run::{Environment, ExistingOutput, JobOptions, job, plan, preview, recipe};
    use tokenmill::source::{HubSettings, OpenContext, ReadConfig};

    let folder = tempfile::tempdir().unwrap();
    let hub = FakeHub::start(NAME);
    hub.put(COMMIT, "poems.txt", "a line of verse\n".repeat(1_000), true);
    let recipe = format!(
        "[source]\nuri = \"hf://datasets/{NAME}/poems.txt\"\ndocuments = \"line\"\n\
         [train]\nmerges = 3\n[encode]\n[output]\nfile_text_bytes = 4_000\ndir = {:?}\n",
        folder.path().join("out")
    );
    let environment = Environment { variable: &|_| None, threads: 2, memory: ByteCount(1 << 30) };
    let plan = plan(&recipe::read("poems.toml", &recipe).unwrap(), &environment).unwrap();
    let context = || OpenContext {
        config: ReadConfig { range_bytes: 5_000, ..ReadConfig::default() },
        hub: HubSettings {
            endpoint: hub.endpoint.clone(),
            cache: folder.path().join("hub"),
            ..HubSettings::default()
        },
        ..OpenContext::new(&Silent)
    };
    assert_eq!(preview(&plan, &context()).unwrap().existing_output, ExistingOutput::Nothing);
    let manifest = job(&plan, &JobOptions::default(), &context()).unwrap().manifest.unwrap();
    let names: Vec<String> = manifest.files.into_iter().map(|file| file.name).collect();
    assert_eq!(names.len(), 4);
    let preview = preview(&plan, &context()).unwrap();
    assert_eq!((preview.existing_output, preview.files), (ExistingOutput::Done, Some(names)));
}

/// Runs `gutenberg-poetry` on its real corpus, served by the fake hub. Size of the sample and tokens per byte
/// must agree with the tutorial that the recipe follows.
#[test]
fn the_poetry_of_the_tutorial_comes_out_as_there() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpora/gutenberg-poetry.parquet");
    let Ok(bytes) = fs::read(&corpus) else {
        return skipped(&corpus);
    };
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let hub = FakeHub::start(NAME);
    hub.put(COMMIT, "data/train-00000-of-00001.parquet", bytes, true);
    well(&tokenmill(&hub, home).arg("run").arg(recipe(home, 100_000)).output().unwrap());
    let report = fs::read(home.join("out/gutenberg-poetry/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let number = |part: &str, name: &str| report[part][name].as_u64().unwrap_or_default();
    assert_eq!((number("corpus", "documents"), number("training", "merges_learned")), (100_000, 500));
    // The tutorial reports 1.69 million tokens for 3.84 MB, for a sample that was drawn in another way.
    let (bytes, tokens) = (number("corpus", "text_bytes"), number("training", "tokens_after"));
    assert!((3_700_000..3_900_000).contains(&bytes), "{bytes} bytes");
    assert!((430..450).contains(&(1_000 * tokens / bytes)), "{tokens} tokens of {bytes} bytes");
}

/// Writes the recipe `gutenberg-poetry` with a smaller sample to `home` and returns its path.
fn recipe(home: &Path, sample: usize) -> PathBuf {
    let recipe = concat!(env!("CARGO_MANIFEST_DIR"), "/pipelines/gutenberg-poetry.toml");
    let text = fs::read_to_string(recipe).unwrap().replace("100_000", &sample.to_string());
    let path = home.join("poetry.toml");
    fs::write(&path, text).unwrap();
    path
}

/// A Parquet file of generated verse with the columns of the dataset. Each seed gives another file.
fn verse(home: &Path, seed: usize) -> Vec<u8> {
    let (uri, out) = (format!("demo:verse?lines=2000&seed={seed}"), home.join(format!("{seed}.parquet")));
    fs::create_dir_all(home).unwrap();
    verse_file(&uri, &out);
    fs::read(out).unwrap()
}

fn verse_file(uri: &str, out: &Path) {
    use arrow::array::{ArrayRef, RecordBatch, StringArray};
    use std::sync::Arc;
    use tokenmill::observer::Silent;
    use tokenmill::source::{OpenContext, SourceSpec, open};

    let spec =
        SourceSpec { uri: uri.to_owned(), columns: vec!["gutenberg_id".to_owned()], ..SourceSpec::default() };
    let source = open(&spec, 0, &OpenContext::new(&Silent)).unwrap();
    let mut writer = None;
    for unit in 0..source.units().len() {
        for batch in source.read(unit).unwrap() {
            let batch = batch.unwrap();
            let lines: Vec<&str> =
                batch.iter().map(|line| std::str::from_utf8(line.unwrap()).unwrap()).collect();
            let lines: ArrayRef = Arc::new(StringArray::from(lines));
            let ids = batch.columns.as_ref().unwrap().column(0).clone();
            let rows = RecordBatch::try_from_iter([("line", lines), ("gutenberg_id", ids)]).unwrap();
            let writer = writer.get_or_insert_with(|| {
                parquet::arrow::ArrowWriter::try_new(fs::File::create(out).unwrap(), rows.schema(), None)
                    .unwrap()
            });
            writer.write(&rows).unwrap();
        }
    }
    writer.unwrap().close().unwrap();
}

fn poems(home: &Path) -> FakeHub {
    let hub = FakeHub::start(NAME);
    hub.put(COMMIT, "README.md", "# Poems", false);
    for seed in [1, 2] {
        hub.put(
            COMMIT,
            &format!("data/train-0000{}-of-00002.parquet", seed - 1),
            verse(home, seed),
            seed == 1,
        );
    }
    hub
}

/// A run downloads a dataset once. Another run with the cache, offline, gives the same manifest. The token is
/// not sent to the host of large files.
#[test]
fn a_recipe_of_a_hub_dataset_runs_once_with_the_network_and_again_without() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let hub = poems(home);
    let recipe = recipe(home, 1_000);
    let run = |offline: &str| {
        tokenmill(&hub, home).arg("run").arg(&recipe).env("HF_HUB_OFFLINE", offline).output().unwrap()
    };
    well(&run("0"));
    let asked = hub.asked();
    assert!(asked.iter().any(|asked| asked.part == Part::Files));
    assert!(
        asked.iter().all(|asked| asked.part != Part::Files || !asked.token),
        "the token is for the hub alone"
    );
    let manifest = fs::read_to_string(home.join("out/gutenberg-poetry/manifest.json")).unwrap();
    assert!(manifest.contains(COMMIT), "the manifest names the commit");

    assert!(well(&run("0")).contains("nothing to do"));
    assert!(hub.asked().iter().all(|asked| asked.part == Part::Api), "nothing is downloaded again");
    fs::remove_dir_all(home.join("out")).unwrap();
    well(&run("1"));
    assert!(hub.asked().is_empty(), "offline asks nobody");
    assert_eq!(fs::read_to_string(home.join("out/gutenberg-poetry/manifest.json")).unwrap(), manifest);
}

/// A program that gives the library no token sends none, even where the environment has one.
#[test]
fn without_a_token_none_is_sent() {
    use tokenmill::observer::Silent;
    use tokenmill::source::{HubSettings, OpenContext, SourceSpec, open};

    const ENDPOINT: &str = "TOKENMILL_ENDPOINT_OF_THIS_TEST";
    let folder = tempfile::tempdir().unwrap();
    // This test runs itself again, since only a new process can have another environment.
    if let Ok(endpoint) = std::env::var(ENDPOINT) {
        let hub = HubSettings { endpoint, cache: folder.path().to_owned(), ..HubSettings::default() };
        let uri = format!("hf://datasets/{NAME}/a.txt");
        let spec = SourceSpec { uri, ..SourceSpec::default() };
        open(&spec, 0, &OpenContext { hub, ..OpenContext::new(&Silent) }).unwrap();
        return;
    }
    let hub = FakeHub::start(NAME);
    hub.put(COMMIT, "a.txt", "a line of verse", true);
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "without_a_token_none_is_sent"]).env(ENDPOINT, &hub.endpoint);
    well(&again.env("HF_TOKEN", "secret").output().unwrap());
    let asked = hub.asked();
    assert!(asked.iter().any(|asked| asked.part == Part::Files));
    assert!(asked.iter().all(|asked| !asked.token), "{asked:?}");
}

/// A numbered name, for example `train-00000-of-00002`, contains the number of files in its folder. With other names,
/// an offline run warns that the cache may not have all files.
#[test]
fn an_offline_run_warns_that_the_hub_may_have_more() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let hub = FakeHub::start(NAME);
    hub.put(COMMIT, "texts/000_00000.txt", "a line of verse", true);
    let count = |input: &str, offline: &str| {
        let mut command = tokenmill(&hub, home);
        command.args(["count", input, "--split", "gpt2", "-o", "counts.parquet"]);
        well(&command.env("HF_HUB_OFFLINE", offline).output().unwrap())
    };
    let folder = format!("hf://datasets/{NAME}/texts");
    let unknown = format!("1 file of {folder} in the cache");
    assert!(!count(&folder, "0").contains("in the cache"));
    let said = count(&folder, "1");
    assert!(said.contains(&unknown), "{said}");
    assert!(!count(&format!("{folder}/000_00000.txt"), "1").contains("in the cache"));
}

/// Passwords and query values of an address appear in no message, file or report.
#[test]
fn what_an_address_keeps_secret_is_shown_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let hub = poems(home);
    let host = hub.endpoint.replace("http://", "http://me:hidden@");
    let file = format!(
        "{host}/resolve-cache/{COMMIT}/data/train-00001-of-00002.parquet?key=hidden&part=hidden#hidden"
    );
    let recipe = format!(
        "[[source]]\nuri = \"{file}\"\ncolumn = \"line\"\n[train]\nsplit = \"gpt2\"\nmerges = 50\n\
         [encode]\n[output]\ndir = \"out/run\"\n"
    );
    fs::write(home.join("recipe.toml"), &recipe).unwrap();
    let (base, _) = file.split_once('?').unwrap();
    let variable = recipe.replace(base, "${BASE}").replace("out/run", "out/variable");
    fs::write(home.join("variable.toml"), variable).unwrap();
    let source = [file.as_str(), "--column", "line"];
    let jobs: [&[&str]; 6] = [
        &["run", "recipe.toml"],
        &["run", "variable.toml"],
        &["train", "--split", "none", "--merges", "50", "-o", "out/train"],
        &["encode", "-t", "out/train", "-o", "out/encode"],
        &["count", "--split", "gpt2", "-o", "out/words.parquet"],
        &["compare", "out/train", "--html", "out/compare.html", "--on"],
    ];
    for job in jobs {
        let mut command = tokenmill(&hub, home);
        command.env("BASE", base);
        command.args(job).args(if job[0] == "run" { &source[..0] } else { &source });
        let output = command.output().unwrap();
        assert!(!well(&output).contains("hidden") && !output.stdout.windows(6).any(|six| six == b"hidden"));
    }
    hub.fail(Part::Api, Fault::Body(b"<html>"));
    let of_hub = format!("hf://datasets/{NAME}");
    for (input, says, variable) in [
        (&file, "/resolve-cache/", None),
        (&file, "HF_HUB_OFFLINE", Some(("HF_HUB_OFFLINE", "1"))),
        (&of_hub, "/api/datasets/", Some(("HF_ENDPOINT", host.as_str()))),
    ] {
        let mut command = tokenmill(&hub, home);
        command.args(["count", input, "--column", "none", "-o", "none.parquet"]);
        let wrong = command.envs(variable).output().unwrap();
        let said = String::from_utf8(wrong.stderr).unwrap();
        assert!(said.contains(says) && !said.contains("hidden"), "{said}");
    }
    let mut shown = 0;
    for path in files_below(&home.join("out")) {
        let bytes = fs::read(&path).unwrap();
        assert!(!bytes.windows(6).any(|six| six == b"hidden"), "{}", path.display());
        shown += usize::from(String::from_utf8_lossy(&bytes).contains("?key=…&part=…"));
    }
    assert!(shown > 0, "the address itself is shown");
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// A killed download is resumed from the bytes that are on disk.
#[test]
fn a_killed_download_goes_on() {
    const BYTES: usize = 200_000_000;
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let hub = FakeHub::start(NAME);
    let text = "a line of verse\n".repeat(BYTES / 16);
    hub.put(COMMIT, "poems.txt", text.as_str(), true);
    let train = || {
        let mut command = tokenmill(&hub, home);
        let uri = format!("hf://datasets/{NAME}/poems.txt");
        command.args(["train", &uri, "--documents", "line", "--merges", "3", "-o", "tokenizer"]);
        command.args(["--max-bytes", "1MB"]);
        command
    };
    hub.slow_down(Some(100_000_000));
    let partial = home.join(format!(
        "hf/hub/datasets--{}/blobs/{}.incomplete",
        NAME.replace('/', "--"),
        sha256(text.as_bytes())
    ));
    let mut sent = 0;
    for part in [40_000_000, 110_000_000] {
        let mut child = train().spawn().unwrap();
        let started_at = Instant::now();
        while fs::metadata(&partial).map_or(0, |found| found.len()) < part {
            assert!(started_at.elapsed() < Duration::from_secs(60), "nothing arrives");
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        sent += hub
            .asked()
            .iter()
            .filter(|asked| asked.part == Part::Files)
            .map(|asked| asked.sent)
            .sum::<usize>();
    }
    let kept = usize::try_from(fs::metadata(&partial).unwrap().len()).unwrap();
    hub.slow_down(None);
    well(&train().output().unwrap());
    let rest: Vec<(usize, usize)> = hub
        .asked()
        .iter()
        .filter(|asked| asked.part == Part::Files)
        .map(|asked| (asked.from, asked.sent))
        .collect();
    assert_eq!(rest, [(kept, text.len() - kept)], "only the rest is fetched");
    assert!(sent + text.len() - kept < text.len() + (12 << 20), "few bytes are sent twice");
}

/// This program and Python's clients find each other's downloads in the cache.
#[test]
fn pythons_clients_share_hub_and_cache() {
    if !Path::new(PYTHON).is_file() {
        return skipped(Path::new(PYTHON));
    }
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let hub = poems(home);
    let recipe = recipe(home, 1_000);
    let python = |script: &str, offline: &str| {
        let output = with_hub(PYTHON, &hub, home)
            .args(["-c", script])
            .env("HF_HUB_OFFLINE", offline)
            .output()
            .unwrap();
        well(&output);
        String::from_utf8(output.stdout).unwrap()
    };
    well(&tokenmill(&hub, home).arg("run").arg(&recipe).output().unwrap());
    hub.asked();
    let find = format!(
        "from huggingface_hub import hf_hub_download as get\n\
         for n in (0, 1):\n    print(get('{NAME}', f'data/train-0000{{n}}-of-00002.parquet', repo_type='dataset'))"
    );
    for offline in ["1", "0"] {
        let found = python(&find, offline);
        for (line, seed) in found.lines().zip([1, 2]) {
            assert!(fs::read(line).unwrap() == verse(home, seed), "{line}");
        }
        assert_eq!(found.lines().count(), 2);
    }
    assert!(hub.asked().iter().all(|asked| asked.part != Part::Files), "nothing is downloaded again");

    fs::remove_dir_all(home.join("hf")).unwrap();
    fs::remove_dir_all(home.join("out")).unwrap();
    let rows =
        python(&format!("import datasets\nprint(len(datasets.load_dataset('{NAME}', split='train')))"), "0");
    assert_eq!(rows.trim(), "4000");
    hub.asked();
    well(&tokenmill(&hub, home).arg("run").arg(&recipe).env("HF_HUB_OFFLINE", "0").output().unwrap());
    let downloads = hub.asked().iter().filter(|asked| asked.part == Part::Files).count();
    assert!(downloads <= 1, "the files that Python fetched are used");
}

/// Starts a hub with GPT-2's repository, in which there is a small tokenizer trained here. The folder `local`
/// has the same files.
fn made_up_gpt2(home: &Path) -> FakeHub {
    let hub = FakeHub::start("openai-community/gpt2");
    let mut train = tokenmill(&hub, home);
    train.args(["train", "demo:verse?lines=400&seed=1", "--column", "line", "--merges", "60", "-o", "local"]);
    well(&train.args(["--special-token", "<|endoftext|>", "--eos", "<|endoftext|>"]).output().unwrap());
    for entry in fs::read_dir(home.join("local")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        hub.put(COMMIT, name, fs::read(&path).unwrap(), name == "tokenizer.json");
    }
    fs::write(
        home.join("texts.jsonl"),
        "{\"text\": \"and the sea\"}\n{\"text\": \"of the <|endoftext|>\"}\n",
    )
    .unwrap();
    hub
}

const AT_HUB: &str = "hf://openai-community/gpt2";

/// Every command gives the same results with a tokenizer on the hub as with the same one in a local folder,
/// offline too.
#[test]
fn every_command_takes_a_tokenizer_of_the_hub() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let hub = made_up_gpt2(home);
    let encoded = ["data/train-00000.parquet"];
    let trained = ["tokenizer.json", "tokenizer_config.json"];
    let verse = "demo:verse?lines=400&seed=1";
    let commands: [(&[&str], &[&str]); 9] = [
        (&["tokens", "-t", "T", "and the sea", "--json"], &[]),
        (&["inspect", "T", "--json"], &[]),
        (&["inspect", "T"], &[]),
        (&["convert", "T", "--to", "hf", "-o", "out"], &trained),
        (&["encode", "texts.jsonl", "-t", "T", "-o", "out", "--eos", "<|endoftext|>"], &encoded),
        (&["decode", "tokens", "-t", "T", "--verify", "texts.jsonl"], &[]),
        (
            &[
                "train",
                "demo:verse?lines=600&seed=2",
                "--column",
                "line",
                "--extend",
                "T",
                "--merges",
                "90",
                "-o",
                "out",
            ],
            &trained,
        ),
        (&["verify-merges", "T", "--on", verse, "--column", "line", "--json"], &[]),
        (&["plan", "recipes/encode.toml"], &[]),
    ];
    well(
        &tokenmill(&hub, home)
            .args(["encode", "texts.jsonl", "-t", "local", "-o", "tokens"])
            .output()
            .unwrap(),
    );
    fs::create_dir(home.join("recipes")).unwrap();
    let run = |command: &[&str], files: &[&str], name: &str, variables: &[(&str, &str)]| {
        let uri = if name == "local" { "../local" } else { name };
        let recipe = format!(
            "[source]\nuri = \"../texts.jsonl\"\n[encode]\ntokenizer = \"{uri}\"\n[output]\ndir = \"out\"\n"
        );
        fs::write(home.join("recipes/encode.toml"), recipe).unwrap();
        let _ = fs::remove_dir_all(home.join("out"));
        let words = command.iter().map(|word| if *word == "T" { name } else { word });
        let output = tokenmill(&hub, home).args(words).envs(variables.iter().copied()).output().unwrap();
        let said = well(&output);
        let files: Vec<_> = files.iter().map(|file| fs::read(home.join("out").join(file)).unwrap()).collect();
        let shown = String::from_utf8(output.stdout).unwrap();
        (shown.replace(AT_HUB, "T").replace("recipes/../local", "T"), files, said)
    };
    for (command, files) in commands {
        let (shown, written, _) = run(command, files, "local", &[]);
        for name in [AT_HUB, "gpt2", "hf://openai-community/gpt2@main/tokenizer.json"] {
            for offline in ["0", "1"] {
                let (now, files, said) = run(command, files, name, &[("HF_HUB_OFFLINE", offline)]);
                assert!(now.replace("@main/tokenizer.json", "") == shown, "{command:?} {name}: {now}{said}");
                assert!(files == written, "{command:?} {name}");
            }
        }
    }
    // The output of `compare` and `bench` contains times and names of tokenizers.
    let compared = ["compare", "local", AT_HUB, "gpt2", "--on", "texts.jsonl", "--json"];
    let output = tokenmill(&hub, home).args(compared).output().unwrap();
    well(&output);
    let compared: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let paths: Vec<&str> =
        compared["tokenizers"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["local", AT_HUB, "gpt2"]);
    let tokens: Vec<u64> = compared["text"]["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tokens| tokens.as_u64().unwrap())
        .collect();
    assert!(tokens[0] > 0 && tokens.iter().all(|one| *one == tokens[0]), "{tokens:?}");
    well(&tokenmill(&hub, home).args(["bench", "texts.jsonl", "-t", "gpt2"]).output().unwrap());
}

/// A folder with the name of a known tokenizer takes precedence over it. A recipe looks for the folder beside
/// itself.
#[test]
fn a_folder_goes_before_a_known_name() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let hub = made_up_gpt2(home);
    let mut train = tokenmill(&hub, home);
    well(
        &train
            .args([
                "train",
                "demo:words?distinct=50&lines=50",
                "--column",
                "line",
                "--merges",
                "9",
                "-o",
                "gpt2",
            ])
            .output()
            .unwrap(),
    );
    let inspected = |name: &str| {
        let output = tokenmill(&hub, home).args(["inspect", name]).output().unwrap();
        well(&output);
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(inspected("gpt2"), inspected("./gpt2/tokenizer.json"));
    assert_ne!(inspected("gpt2"), inspected(AT_HUB));
    // A recipe means the folder beside itself, not the one in the working directory.
    fs::create_dir(home.join("recipes")).unwrap();
    let recipe =
        "[source]\nuri = \"../texts.jsonl\"\n[encode]\ntokenizer = \"gpt2\"\n[output]\ndir = \"out\"\n";
    fs::write(home.join("recipes/encode.toml"), recipe).unwrap();
    let encoded = |given: &[&str]| {
        let _ = fs::remove_dir_all(home.join("out"));
        well(&tokenmill(&hub, home).args(given).output().unwrap());
        let manifest = fs::read(home.join("out/manifest.json")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&manifest).unwrap()["tokenizer"].to_string()
    };
    let run = ["run", "recipes/encode.toml"];
    let with = |name| ["encode", "texts.jsonl", "-o", "out", "-t", name];
    assert_eq!(encoded(&run), encoded(&with(AT_HUB)));
    fs::rename(home.join("gpt2"), home.join("recipes/gpt2")).unwrap();
    assert_eq!(encoded(&run), encoded(&with("recipes/gpt2")));
    assert_ne!(encoded(&run), encoded(&with(AT_HUB)));
    assert_eq!(encoded(&with("gpt2")), encoded(&with(AT_HUB)));
}

/// A name that is neither a file nor a known tokenizer is refused with the known names or the right spelling.
#[test]
fn an_unknown_name_is_refused_with_the_known_ones() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let hub = FakeHub::start(NAME);
    for (name, code, says) in [
        (
            "gpt5",
            1,
            &[
                "cannot read gpt5",
                "gpt2, r50k_base, p50k_base, cl100k_base, o200k_base",
                "hf://NAMESPACE/NAME",
            ][..],
        ),
        ("Qwen/Qwen3-8B", 1, &["hub is written hf://Qwen/Qwen3-8B"]),
        ("https://huggingface.co/Qwen/Qwen3-8B", 2, &["write hf://Qwen/Qwen3-8B"]),
        (
            "cl100k_base",
            5,
            &["cl100k_base is not in the cache", "encodings/cl100k_base.tiktoken", "HF_HUB_OFFLINE"],
        ),
        (
            "gpt2",
            5,
            &[
                "hf://openai-community/gpt2 is not in the cache",
                "hf download openai-community/gpt2 tokenizer.json",
            ],
        ),
    ] {
        for command in [
            &["inspect", name][..],
            &["tokens", "-t", name, "a"],
            &["train", "demo:verse", "--extend", name, "-o", "out"],
        ] {
            let mut tokenmill = tokenmill(&hub, home);
            tokenmill.env("HF_HUB_OFFLINE", "1").env("TIKTOKEN_CACHE_DIR", home.join("ranks"));
            let output = tokenmill.args(command).output().unwrap();
            let said =
                String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(output.status.code(), Some(code), "{command:?}: {said}");
            says.iter().for_each(|says| assert!(said.contains(says), "{command:?}: {said}"));
        }
    }
    assert!(hub.asked().is_empty(), "offline asks nobody");
}
