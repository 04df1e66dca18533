//! Reads a job as JSON from standard input, trains, and prints the merges, one a line.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;

use serde::Deserialize;
use tk_train::trainers::bpe::{ParityBpeTrainer, ParityVariant};

/// Words in GPT-2's byte alphabet, with their counts.
type Words = BTreeMap<String, usize>;

#[derive(Deserialize)]
struct Job {
    sources: Vec<Words>,
    development: Vec<Words>,
    merges: usize,
    min_frequency: u64,
    max_token_length: Option<usize>,
    ratio: Option<Vec<f64>>,
    window: Option<usize>,
    alpha: f64,
    global_merges: usize,
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let job: Job = serde_json::from_reader(io::stdin().lock())?;
    let mut builder = ParityBpeTrainer::builder()
        .show_progress(false)
        .num_merges(job.merges)
        .min_frequency(job.min_frequency)
        .max_token_length(job.max_token_length)
        .alpha(job.alpha)
        .global_merges(job.global_merges);
    if let Some(ratio) = job.ratio {
        builder = builder.ratio(ratio);
    }
    if let Some(window) = job.window {
        builder = builder.variant(ParityVariant::Window).window_size(window);
    }
    let mut trainer = builder.build();
    for (number, words) in job.sources.iter().enumerate() {
        trainer.feed_language_from_iter(number, words.keys(), |word| Ok(vec![word.to_owned(); words[word]]))?;
    }
    for (number, words) in job.development.iter().enumerate() {
        trainer.feed_dev_language_from_iter(number, words.keys(), |word| Ok(vec![word.to_owned(); words[word]]))?;
    }
    let (_, merges, _) = trainer.do_train()?;
    for (left, right) in merges {
        println!("{left} {right}");
    }
    Ok(())
}
