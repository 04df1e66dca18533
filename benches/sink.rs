//! Writing token ids: from rows in memory to a Parquet file in memory.

use std::sync::Arc;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use tokenmill::TokenId;
use tokenmill::base::int::to_u64;
use tokenmill::encode::TokenBatch;
use tokenmill::sink::{
    Compression, Declaration, FileSpec, RowGroupEncoders, ShardFacts, ShardWriter, output_schema,
};

/// A little more than four row groups.
const TOKENS: usize = 18_000_000;
const TOKENS_A_ROW: usize = 500;
const ROWS_A_BATCH: usize = 1_000;

fn main() {
    divan::main();
}

/// Ids as skewed as those of prose: small ids are more frequent.
fn batches() -> Vec<TokenBatch> {
    let mut state = 1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let below = |limit: u64| ((state >> 32) * limit) >> 32;
        let magnitude = below(16);
        TokenId::new(
            u32::try_from((1 << magnitude) + (below(u64::MAX >> 33) & ((1 << magnitude) - 1)))
                .expect("below 2^16"),
        )
    };
    (0..TOKENS / (TOKENS_A_ROW * ROWS_A_BATCH))
        .map(|number| TokenBatch {
            source: 0,
            unit: 0,
            first_row: to_u64(number * ROWS_A_BATCH),
            ids: (0..TOKENS_A_ROW * ROWS_A_BATCH).map(|_| next()).collect(),
            ends: (1..=ROWS_A_BATCH).map(|row| row * TOKENS_A_ROW).collect(),
            nulls: Vec::new(),
            text_bytes: 0,
            text_lengths: vec![0; ROWS_A_BATCH],
            columns: None,
        })
        .collect()
}

fn write(batches: &[TokenBatch], compression: Compression, encoders: &Arc<RowGroupEncoders>) -> ShardFacts {
    let schema = output_schema(&[]).expect("no pass-through columns");
    let spec = FileSpec::new(schema, compression, &Declaration::default()).expect("a legal schema");
    let mut writer = ShardWriter::new(std::io::sink(), "nowhere", &spec, encoders).expect("a writer");
    for batch in batches {
        writer.write(batch.clone()).expect("a written batch");
    }
    writer.finish().expect("a finished file").1
}

#[divan::bench(args = [1, 2, 4], sample_count = 5)]
fn default(bencher: Bencher<'_, '_>, threads: usize) {
    compress(bencher, Compression::Default, threads);
}

#[divan::bench(args = [1, 2, 4], sample_count = 5)]
fn fast(bencher: Bencher<'_, '_>, threads: usize) {
    compress(bencher, Compression::Fast, threads);
}

fn compress(bencher: Bencher<'_, '_>, compression: Compression, threads: usize) {
    let batches = batches();
    let alone = write(&batches, compression, &RowGroupEncoders::start(1).expect("threads"));
    assert_eq!((alone.rows, alone.tokens), (to_u64(TOKENS / TOKENS_A_ROW), to_u64(TOKENS)));
    let encoders = RowGroupEncoders::start(threads).expect("threads");
    assert_eq!(write(&batches, compression, &encoders), alone, "the same bytes on {threads} threads");
    bencher
        .counter(ItemsCount::new(TOKENS))
        .bench_local(|| write(black_box(&batches), compression, &encoders));
}
