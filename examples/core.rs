//! Learns a tokenizer from the lines of a file, and encodes and decodes a sentence, with the core alone. It builds
//! about forty crates:
//!
//! ```sh
//! cargo run --release --no-default-features --example core -- corpus.txt "a sentence"
//! ```

#![expect(clippy::print_stdout, reason = "it is a program")]

use std::env;
use std::error::Error;
use std::fs;

use tokenmill::Tokenizer;
use tokenmill::count::count_texts;
use tokenmill::encode::EncodeConfig;
use tokenmill::observer::Silent;
use tokenmill::split::{SplitPattern, splitter};
use tokenmill::train::{TrainConfig, learn_merges};
use tokenmill::vocab::{SpecialTokensAt, Vocabulary};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [file, sentence] = &arguments[..] else { return Err("usage: core FILE SENTENCE".into()) };

    let text = fs::read_to_string(file)?;
    let lines: Vec<&str> = text.lines().collect();
    let split: SplitPattern = "gpt4".parse()?;
    let counts = count_texts(&lines, &*splitter(&split)?)?;
    let learned = learn_merges(counts, &TrainConfig::new(1000), &Silent)?;
    let vocabulary = Vocabulary::from_merges(&learned.merges, &[], SpecialTokensAt::End, split)?;

    let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
    let ids = tokenizer.encode(sentence)?;
    println!("{ids:?}");
    println!("{}", String::from_utf8_lossy(&tokenizer.decode(&ids)?));
    Ok(())
}
