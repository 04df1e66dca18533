//! Learning merges, from weighted sequences to merges: Proust without a split pattern, the standard benchmark.

mod support;

use divan::Bencher;
use tokenmill::Count;
use tokenmill::count::PretokenCounts;
use tokenmill::observer::Silent;
use tokenmill::train::{ScanEngine, TrainConfig, learn_merges, merges_by_scanning};

fn main() {
    divan::main();
}

/// Learns from one text as a single sequence, after checking the number of merges.
fn unsplit(bencher: Bencher, text: &support::Text, config: &TrainConfig, merges: usize) {
    let pretokens: PretokenCounts = [(&*text.bytes, Count::ONE)].into_iter().collect();
    let learned = learn_merges(pretokens.clone(), config, &Silent).expect("it trains");
    assert!(!text.real || learned.merges.len() == merges, "{} merges", learned.merges.len());
    bencher
        .counter(divan::counter::BytesCount::new(text.bytes.len()))
        .with_inputs(|| pretokens.clone())
        .bench_values(|pretokens| learn_merges(pretokens, config, &Silent));
}

#[divan::bench(args = [(1, 99_744), (2, 29_517)])]
fn proust_to_100_000(bencher: Bencher, (min_frequency, merges): (u64, usize)) {
    let config = TrainConfig { min_frequency: Count::new(min_frequency), ..TrainConfig::new(99_744) };
    unsplit(bencher, &support::proust(), &config, merges);
}

#[divan::bench]
fn taylorswift_to_10_000(bencher: Bencher) {
    let config = TrainConfig { min_frequency: Count::ONE, ..TrainConfig::new(9_744) };
    unsplit(bencher, &support::taylorswift(), &config, 9_744);
}

/// Scans a long text with each engine that runs on this processor, after checking that it learns the same as
/// the portable one.
#[divan::bench(args = ScanEngine::available(), sample_count = 3)]
fn scan_32_mb_to_512(bencher: Bencher, engine: &ScanEngine) {
    let text = support::generated(32 << 20);
    let pretokens: PretokenCounts = [(&*text, Count::ONE)].into_iter().collect();
    let scan = |pretokens, engine| {
        merges_by_scanning(pretokens, &TrainConfig::new(256), engine, &Silent).expect("nothing stops it")
    };
    assert_eq!(scan(pretokens.clone(), *engine), scan(pretokens.clone(), ScanEngine::Portable));
    bencher
        .counter(divan::counter::BytesCount::new(text.len()))
        .with_inputs(|| pretokens.clone())
        .bench_values(|pretokens| scan(pretokens, *engine));
}
