//! Cutting text into pieces by the patterns that have a name, and by a regular expression.

mod support;

use divan::Bencher;
use divan::counter::BytesCount;
use tokenmill::split::{SplitPattern, splitter};

fn main() {
    divan::main();
}

/// Cuts Proust by a pattern, after checking that the pieces tile it and how many there are.
fn proust(bencher: Bencher, pattern: &SplitPattern, pieces: usize) {
    let (text, splitter) = (support::proust(), splitter(pattern).expect("a right pattern"));
    let mut ends = Vec::new();
    splitter.piece_ends(&text.bytes, &mut ends).expect("no limits");
    assert_eq!(ends.last(), u32::try_from(text.bytes.len()).ok().as_ref());
    assert!(!text.real || ends.len() == pieces, "{} pieces", ends.len());
    bencher.counter(BytesCount::new(text.bytes.len())).bench_local(|| {
        ends.clear();
        splitter.piece_ends(&text.bytes, &mut ends)
    });
}

#[divan::bench(args = [("gpt2", 246_772), ("gpt4", 240_678), ("cl100k", 240_678), ("o200k", 238_952), ("nanochat", 240_679)])]
fn named(bencher: Bencher, (name, pieces): (&str, usize)) {
    proust(bencher, &name.parse().expect("a name"), pieces);
}

/// Qwen 2's pattern, on the regular-expression engine.
#[divan::bench]
fn regex(bencher: Bencher) {
    let pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    proust(bencher, &SplitPattern::from_regex(pattern), 240_711);
}
