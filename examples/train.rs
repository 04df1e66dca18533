//! Trains a tokenizer on the lines of a file and writes it to a folder:
//!
//! ```sh
//! cargo run --release --example train -- corpus.txt my-tokenizer
//! ```

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::env;
use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokenmill::run::{LearnConfig, learn};
use tokenmill::source::{self, DocumentRule, OpenContext, SourceSpec};
use tokenmill::vocab::{self, Format, WriteOptions};
use tokenmill::{Observer, Stage};

/// Reports progress on standard error. A program that can be interrupted would also implement `stopping`, for
/// example with a flag that its signal handler sets.
#[derive(Default)]
struct Progress {
    bytes: AtomicU64,
}

impl Observer for Progress {
    fn advanced(&self, stage: Stage, amount: u64) {
        if stage == Stage::Count {
            self.bytes.fetch_add(amount, Relaxed);
        }
    }

    fn finished(&self, stage: Stage) {
        eprintln!("{} is done, {} bytes have been read", stage.name(), self.bytes.load(Relaxed));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [text, folder] = &arguments[..] else { return Err("usage: train TEXT FOLDER".into()) };
    let progress = Progress::default();

    let spec = SourceSpec { uri: text.clone(), documents: DocumentRule::Line, ..SourceSpec::default() };
    let source = source::open(&spec, 0, &OpenContext::new(&progress))?;
    // 4 096 tokens: the 256 bytes, 3 839 merges, and the special token, which has the last id, 4 095. There are fewer
    // merges if no pair is left that occurs twice.
    let config = LearnConfig::new(4096, &["<|endoftext|>"]);
    let (vocabulary, learned) = learn(source::in_order(vec![source], 2), &config, &progress)?;

    let files = vocab::write(&vocabulary, Format::Hf, Path::new(folder), &WriteOptions::default())?;
    println!("{} merges in {}", learned.merges.len(), files[0].display());
    Ok(())
}
