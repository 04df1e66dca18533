//! Learns a tokenizer of 1 000 merges from the lines of a file, writes it into a folder, and shows the tokens of a
//! sentence: id, bytes of the sentence, and text. It needs the core alone, which builds about forty crates:
//!
//! ```sh
//! cargo run --release --no-default-features --example core -- corpus.txt "a sentence" my-tokenizer
//! ```

#![expect(clippy::print_stdout, reason = "it is a program")]

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

use tokenmill::Tokenizer;
use tokenmill::count::count_texts;
use tokenmill::encode::EncodeConfig;
use tokenmill::observer::Silent;
use tokenmill::split::{SplitPattern, splitter};
use tokenmill::train::{TrainConfig, learn_merges};
use tokenmill::vocab::{Format, SpecialTokensAt, Vocabulary, WriteOptions, render};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [file, sentence, folder] = &arguments[..] else {
        return Err("usage: core FILE SENTENCE FOLDER".into());
    };

    let text = fs::read_to_string(file)?;
    let lines: Vec<&str> = text.lines().collect();
    let split: SplitPattern = "gpt4".parse()?;
    let counts = count_texts(&lines, &*splitter(&split)?)?;
    let learned = learn_merges(counts, &TrainConfig::new(1000), &Silent)?; // 1 256 tokens with those of the bytes
    let vocabulary = Vocabulary::from_merges(&learned.merges, &[], SpecialTokensAt::End, split)?;

    fs::create_dir_all(folder)?;
    for (name, bytes) in render(&vocabulary, Format::Hf, &WriteOptions::default())? {
        fs::write(Path::new(folder).join(name), bytes)?;
    }

    let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
    // Ids 0 to 255 are the bytes, and merge k, counted from 0, made the token 256 + k: the lower its id above 255, the
    // earlier, and so the more frequent, was the pair of tokens that it replaces.
    for (id, bytes) in tokenizer.encode_with_offsets(sentence)? {
        let token = tokenizer.token(id).unwrap_or_default();
        println!("{id:>5}  bytes {bytes:?}  {:?}", String::from_utf8_lossy(token));
    }
    assert_eq!(tokenizer.decode_to_string(&tokenizer.encode(sentence)?)?, *sentence);
    Ok(())
}
