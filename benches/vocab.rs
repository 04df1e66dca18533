//! Loading and checking a tokenizer that was learned from Proust.

mod support;

use divan::Bencher;
use tokenmill::Count;
use tokenmill::count::PretokenCounts;
use tokenmill::observer::Silent;
use tokenmill::split::SplitPattern;
use tokenmill::train::{TrainConfig, learn_merges};
use tokenmill::vocab::{Format, LoadOptions, SpecialTokensAt, Vocabulary, WriteOptions, check, load, write};

fn main() {
    divan::main();
}

/// A vocabulary of 8 000 tokens, learned without a split pattern.
fn learned() -> Vocabulary {
    let text = support::proust();
    let pretokens: PretokenCounts = [(&*text.bytes, Count::ONE)].into_iter().collect();
    let merges = learn_merges(pretokens, &TrainConfig::new(7_744), &Silent).expect("it trains").merges;
    Vocabulary::from_merges(&merges, &[], SpecialTokensAt::End, SplitPattern::None)
        .expect("a sound vocabulary")
}

#[divan::bench(args = [Format::Hf, Format::Tiktoken, Format::Minbpe])]
fn load_8_000(bencher: Bencher, format: Format) {
    let vocabulary = learned();
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(&vocabulary, format, folder.path(), &WriteOptions::default()).expect("it can be written");
    let again = || load(folder.path(), &LoadOptions::default(), &Silent).expect("it can be read");
    assert_eq!(again(), vocabulary);
    bencher.bench_local(again);
}

#[divan::bench]
fn check_8_000(bencher: Bencher) {
    let vocabulary = learned();
    assert!(check(&vocabulary).shortcuts_hold());
    bencher.bench_local(|| check(&vocabulary));
}
