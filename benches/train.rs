//! Learning merges: Proust without a split, the standing benchmark, from weighted sequences to merges.

mod support;

use divan::Bencher;
use tokenmill::Count;
use tokenmill::count::PieceCounts;
use tokenmill::observer::Silent;
use tokenmill::train::{TrainConfig, learn_merges};

fn main() {
    divan::main();
}

/// Learns from one text as a single sequence, after checking that as many merges come out as are known to.
fn unsplit(bencher: Bencher, text: &support::Text, config: &TrainConfig, merges: usize) {
    let pieces: PieceCounts = [(&*text.bytes, Count::ONE)].into_iter().collect();
    let learned = learn_merges(pieces.clone(), config, &Silent).expect("it trains");
    assert!(!text.real || learned.merges.len() == merges, "{} merges", learned.merges.len());
    bencher
        .counter(divan::counter::BytesCount::new(text.bytes.len()))
        .with_inputs(|| pieces.clone())
        .bench_values(|pieces| learn_merges(pieces, config, &Silent));
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
