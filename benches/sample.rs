//! Sampling generated verse, shuffled and limited, compared with the plain stream.

use divan::Bencher;
use divan::counter::ItemsCount;
use tokenmill::base::int::to_u64;
use tokenmill::observer::Silent;
use tokenmill::sample::{SampleConfig, sample};
use tokenmill::source::{OpenContext, SourceSpec, in_order, open};

const LINES: u64 = 50_000;

fn main() {
    divan::main();
}

fn count(config: &SampleConfig) -> u64 {
    let spec = SourceSpec { uri: format!("demo:verse?lines={LINES}&seed=1"), ..SourceSpec::default() };
    let source = open(&spec, 0, &OpenContext::new(&Silent)).expect("verse can be generated");
    let batches = sample(in_order(vec![source], 2), config);
    batches.map(|batch| to_u64(batch.expect("verse can be read").len())).sum()
}

#[divan::bench(args = [0, 10_000])]
fn verse(bencher: Bencher, shuffle_buffer: u64) {
    let config =
        SampleConfig { shuffle_buffer, seed: 42, skip: 100, take: Some(40_000), ..SampleConfig::default() };
    assert_eq!(count(&config), 40_000);
    bencher.counter(ItemsCount::new(LINES)).bench_local(|| count(&config));
}
