//! Splitting text into pre-tokens by the named patterns, and by a regular expression.

mod support;

use divan::Bencher;
use divan::counter::BytesCount;
use tokenmill::base::int::to_u64;
use tokenmill::split::{Instructions, NamedPattern, SplitPattern, Splitter, splitter, splitter_by};

fn main() {
    divan::main();
}

/// Splits Proust by a pattern, after checking that the pre-tokens cover it and what their number is.
fn proust(bencher: Bencher, pattern: &SplitPattern, pretokens: usize) {
    let (text, splitter) = (support::proust(), splitter(pattern).expect("a right pattern"));
    let mut ends = Vec::new();
    splitter.pretoken_ends(&text.bytes, &mut ends).expect("no limits");
    assert_eq!(ends.last(), u32::try_from(text.bytes.len()).ok().as_ref());
    assert!(!text.real || ends.len() == pretokens, "{} pretokens", ends.len());
    bencher.counter(BytesCount::new(text.bytes.len())).bench_local(|| {
        ends.clear();
        splitter.pretoken_ends(&text.bytes, &mut ends)
    });
}

#[divan::bench(args = [("gpt2", 246_772), ("gpt4", 240_678), ("cl100k", 240_678), ("o200k", 238_952), ("nanochat", 240_679), ("qwen2", 240_711), ("deepseek-v3", 241_186)])]
fn named(bencher: Bencher, (name, pretokens): (&str, usize)) {
    proust(bencher, &name.parse().expect("a name"), pretokens);
}

/// A custom pattern, with the regular-expression engine.
#[divan::bench]
fn regex(bencher: Bencher) {
    let pattern = r"\p{L}+|\p{N}{1,3}|[^\p{L}\p{N}]";
    proust(bencher, &SplitPattern::from_regex(pattern), 431_051);
}

/// Number of pre-tokens in a text, split in windows as counting does.
fn windows(splitter: &dyn Splitter, mut text: &[u8], ends: &mut Vec<u32>) -> u64 {
    const WINDOW: usize = 8 << 10;
    let mut pretokens = 0;
    while !text.is_empty() {
        let (window, rest) = text.split_at(splitter.safe_prefix(text, WINDOW));
        ends.clear();
        splitter.pretoken_ends(window, ends).expect("no limits");
        pretokens += to_u64(ends.len());
        text = rest;
    }
    pretokens
}

/// Splits the large texts by all patterns with all instruction sets, after checking that their results agree.
#[divan::bench(args = cases(), sample_count = 5, sample_size = 1)]
fn corpora(bencher: Bencher, case: &(&str, NamedPattern, Instructions)) {
    let (file, pattern, instructions) = *case;
    let text = support::corpus(file);
    let [splitter, obvious] = [instructions, Instructions::Scalar].map(|by| splitter_by(pattern, by));
    let mut ends = Vec::new();
    let pretokens = windows(splitter.as_ref(), &text, &mut ends);
    assert_eq!(pretokens, windows(obvious.as_ref(), &text, &mut ends));
    let cut = || windows(splitter.as_ref(), &text, &mut ends);
    bencher.counter(BytesCount::new(text.len())).bench_local(cut);
}

fn cases() -> Vec<(&'static str, NamedPattern, Instructions)> {
    let mut cases = Vec::new();
    for file in ["classics.txt", "code.txt", "multilingual.txt"] {
        for pattern in NamedPattern::ALL {
            let here = Instructions::ALL.into_iter().filter(|instructions| instructions.are_supported());
            cases.extend(here.map(|instructions| (file, pattern, instructions)));
        }
    }
    cases
}
