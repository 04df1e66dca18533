//! Throws damaged files at everything that reads files: no panic, no hang, no memory that a file only claims to need.
//!
//! `TOKENMILL_FUZZ_S` is the seconds for each target, 5 unless set; `TOKENMILL_FUZZ_SEED` begins elsewhere. Seeds are made
//! by the program's own writers and then cut, flipped, repeated, spliced, and given other numbers. What ends in a panic, takes
//! longer than two seconds, or more than a gigabyte, is a finding: it is kept in `target/fuzz`, and the run fails. Run it with
//! `ulimit -v 6000000`, so that a huge allocation is one too.

#![expect(clippy::print_stdout, reason = "a benchmark says what it measured")]

use std::error::Error;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokenmill::count::{CountsInfo, PieceCounts, read_counts, write_counts};
use tokenmill::observer::Silent;
use tokenmill::run::{JobOptions, Surroundings, job, plan, recipe};
use tokenmill::sink::{Manifest, TokenReader};
use tokenmill::source::{OpenContext, SourceSpec, in_order, open};
use tokenmill::split::{Named, SplitPattern};
use tokenmill::units::{ByteCount, Count};
use tokenmill::vocab::{LoadOptions, load};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Longer is a hang.
const SLOW: Duration = Duration::from_secs(2);

/// What stretches of a file are overwritten with.
const FILLS: [u8; 5] = [0, 0xFF, b' ', b'9', 0x80];

/// A reader, the name that its file must have, and files that it reads.
struct Target {
    name: &'static str,
    file: &'static str,
    seeds: Vec<Vec<u8>>,
    read: fn(&Path),
}

fn main() -> Result<()> {
    let seconds = number("TOKENMILL_FUZZ_S")?.unwrap_or(5);
    let mut random = Random(number("TOKENMILL_FUZZ_SEED")?.unwrap_or(1).max(1));
    let scratch = tempfile::tempdir()?;
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/fuzz");
    std::panic::set_hook(Box::new(|_| {}));
    let (mut all, mut findings) = (0, 0);
    for target in targets(scratch.path())? {
        let folder = scratch.path().join("damaged");
        fs::create_dir_all(&folder)?;
        let path = folder.join(target.file);
        let (begun, mut executions, mut found) = (Instant::now(), 0_u64, 0);
        while begun.elapsed() < Duration::from_secs(seconds) {
            let input = random.damaged(&target.seeds);
            fs::write(&path, &input)?;
            let start = Instant::now();
            let outcome = catch_unwind(AssertUnwindSafe(|| (target.read)(&path)));
            executions += 1;
            if outcome.is_err() || start.elapsed() > SLOW {
                found += 1;
                fs::create_dir_all(&kept)?;
                fs::write(kept.join(format!("{}-{executions}-{}", target.name, target.file)), &input)?;
            }
        }
        println!("{:16} {executions:9} executions, {found} findings", target.name);
        fs::remove_dir_all(&folder)?;
        (all, findings) = (all + executions, findings + found);
    }
    println!("{:16} {all:9} executions, {findings} findings", "all");
    let peak = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = peak.lines().find(|line| line.starts_with("VmHWM"));
    println!("{}", peak.unwrap_or_default());
    assert_eq!(findings, 0, "see {}", kept.display());
    Ok(())
}

fn number(variable: &str) -> Result<Option<u64>> {
    Ok(std::env::var(variable).ok().map(|text| text.parse()).transpose()?)
}

/// Runs a small job, and takes what it wrote for seeds.
fn targets(scratch: &Path) -> Result<Vec<Target>> {
    let out = scratch.join("made");
    let text = format!(
        "[source]\nuri = \"demo:verse?lines=300&seed=1\"\ncolumn = \"line\"\n[sample]\ntake = 250\n[train]\nsplit = \"gpt2\"\n\
         vocab_size = 300\nspecial_tokens = [\"<|x|>\"]\nformats = [\"hf\", \"tiktoken\", \"minbpe\", \"gpt2\"]\n\
         tie_break = \"ids\"\n[encode]\neos = \"<|x|>\"\ncolumns = [\"gutenberg_id\"]\n[output]\ndir = {out:?}\n"
    );
    let surroundings = Surroundings { variable: &|_| None, threads: 1, memory: ByteCount(1 << 30) };
    let planned = plan(&recipe::read("seed.toml", &text)?, &surroundings)?;
    job(&planned, &JobOptions::default(), &OpenContext::new(&Silent))?;
    let made = |name: &str| fs::read(out.join(name));
    let mut counts = Vec::new();
    let pieces: Vec<Vec<u8>> = (0_u8..200).map(|byte| vec![byte; 1 + usize::from(byte % 20)]).collect();
    let pieces: PieceCounts = pieces.iter().map(|piece| (&piece[..], Count::ONE)).collect();
    let info = CountsInfo { pattern: SplitPattern::Named(Named::Gpt2), ..CountsInfo::default() };
    write_counts(&mut counts, Path::new("counts"), &pieces, &info)?;
    let parquet = made("data/train-00000.parquet").or_else(|_| made("data/train-00000-of-00001.parquet"))?;
    let jsonl =
        b"{\"line\": \"one\", \"other\": [1, {\"a\": null}]}\n{\"line\": \"two \\u00e9\\ud83d\\ude42\"}\n"
            .to_vec();
    let target = |name, file, seeds, read| Target { name, file, seeds, read };
    Ok(vec![
        target("tokenizer.json", "tokenizer.json", vec![made("tokenizer/tokenizer.json")?], read_tokenizer),
        target("tiktoken", "a.tiktoken", vec![made("tokenizer/tokenizer.tiktoken")?], read_tokenizer),
        target(
            "tiktoken sidecar",
            "a.tiktoken.json",
            vec![made("tokenizer/tokenizer.tiktoken.json")?],
            read_sidecar,
        ),
        target("minbpe", "a.model", vec![made("tokenizer/tokenizer.model")?], read_tokenizer),
        target("gpt2 vocab", "vocab.json", vec![made("tokenizer/vocab.json")?], read_gpt2),
        target("gpt2 merges", "merges.txt", vec![made("tokenizer/merges.txt")?], read_gpt2),
        target("recipe", "r.toml", vec![text.into_bytes()], read_recipe),
        target("parquet", "a.parquet", vec![parquet.clone(), counts.clone()], read_source),
        target("ids", "ids.parquet", vec![parquet], read_ids),
        target("jsonl", "a.jsonl", vec![jsonl.clone()], read_source),
        target("jsonl.gz", "a.jsonl.gz", vec![gzip(&jsonl)?], read_source),
        target("counts", "counts.parquet", vec![counts], |path| drop(read_counts(path))),
        target("manifest", "manifest.json", vec![made("manifest.json")?], read_manifest),
    ])
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    use std::io::Write;

    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn read_tokenizer(path: &Path) {
    let split = Some(SplitPattern::None);
    if let Ok(vocabulary) = load(path, &LoadOptions { format: None, split }, &Silent) {
        // What is accepted must also work.
        if let Ok(encoder) = tokenmill::encode::Encoder::new(&vocabulary, Default::default()) {
            drop(encoder.worker().encode("some text, é 🙂 <|x|>".as_bytes()));
        }
    }
}

fn read_sidecar(path: &Path) {
    let ranks = path.with_extension("");
    if fs::write(&ranks, "YQ== 0\nYg== 1\nYWI= 2\n").is_ok() {
        drop(load(&ranks, &LoadOptions::default(), &Silent));
    }
}

/// Beside the one that is damaged stands the other.
fn read_gpt2(path: &Path) {
    if let Some(folder) = path.parent() {
        let (vocab, merges) = (folder.join("vocab.json"), folder.join("merges.txt"));
        let other: PathBuf = if path == vocab { merges } else { vocab };
        if !other.exists() {
            drop(fs::write(
                &other,
                if other.ends_with("vocab.json") { "{\"a\":0,\"b\":1,\"ab\":2}" } else { "a b\n" },
            ));
        }
        drop(load(folder, &LoadOptions::default(), &Silent));
    }
}

fn read_recipe(path: &Path) {
    let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let surroundings = Surroundings { variable: &|_| None, threads: 1, memory: ByteCount(1 << 30) };
    match recipe::read("r.toml", &text) {
        Ok(read) => drop(plan(&read, &surroundings).map_err(|mistakes| mistakes.to_string())),
        Err(mistakes) => drop(mistakes.to_string()),
    }
}

fn read_source(path: &Path) {
    for column in ["line", "input_ids", "piece", "length"] {
        let spec = SourceSpec {
            uri: path.to_string_lossy().into_owned(),
            column: Some(column.to_owned()),
            ..SourceSpec::default()
        };
        if let Ok(source) = open(&spec, 0, &OpenContext::new(&Silent)) {
            in_order(vec![source], 1).take_while(|batch| batch.is_ok()).for_each(drop);
        }
    }
}

fn read_ids(path: &Path) {
    if let Ok(reader) = TokenReader::open(path) {
        reader.take_while(|batch| batch.is_ok()).for_each(drop);
    }
}

fn read_manifest(path: &Path) {
    if let Some(folder) = path.parent()
        && let Ok(Some(manifest)) = Manifest::read(folder)
    {
        drop(manifest.verify(folder, &Silent));
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % limit).unwrap_or(0)
    }

    /// A seed with one to eight things done to it.
    fn damaged(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(8) {
            self.damage(&mut bytes);
        }
        bytes
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        // Near the end, too: there Parquet has its footer.
        let near_end = self.below(3) == 0;
        let span = if near_end { bytes.len().min(400) } else { bytes.len() };
        let at = (bytes.len() - span) + self.below(span);
        let length = self.below(32).min(bytes.len() - at);
        match self.below(9) {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_within(at..at + length),
            2 => drop(bytes.drain(at..at + length)),
            3 => bytes[at..at + length].fill(FILLS[self.below(FILLS.len())]),
            4 => {
                let huge = [
                    &b"18446744073709551615"[..],
                    b"-1",
                    b"1e309",
                    b"4294967296",
                    b"null",
                    b"\"\"",
                    b"[]",
                    b"{",
                ];
                let chosen = huge[self.below(huge.len())];
                drop(bytes.splice(at..at + length.min(3), chosen.iter().copied()));
            }
            5 => {
                let from = self.below(bytes.len());
                let block: Vec<u8> = bytes.iter().skip(from).take(64).copied().collect();
                drop(bytes.splice(at..at, block));
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << (self.0 % 8);
                }
            }
        }
    }
}
