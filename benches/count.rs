//! Counting pre-tokens, from batches in memory or from a file to the finished counts, on one thread and on all.

mod support;

use arrow::array::BinaryViewArray;
use divan::Bencher;
use divan::counter::BytesCount;
use tokenmill::count::{CorpusCounts, CountConfig, count_pretokens, count_whole_documents};
use tokenmill::observer::Silent;
use tokenmill::source::{Batch, OpenContext, SourceSpec, in_order, open};
use tokenmill::split::splitter;

/// Bytes per document. With documents of one line each, the time for reading would hide that for counting.
const DOCUMENT: usize = 20_000;
/// Number of copies of the text that are counted.
const COPIES: usize = 20;

fn main() {
    divan::main();
}

fn batches(text: &[u8]) -> Vec<Batch> {
    let documents = BinaryViewArray::from_iter(text.chunks(DOCUMENT).map(Some));
    let batch =
        Batch { source: 0, unit: 0, first_row: 0, documents, columns: None, continued: false, open: false };
    vec![batch; COPIES]
}

/// Times `count` on many copies of Proust, after checking the number of distinct pre-tokens.
fn proust(
    bencher: Bencher,
    threads: usize,
    pretokens: usize,
    count: impl Fn(Vec<Batch>) -> CorpusCounts + Sync,
) {
    let text = support::proust();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a small pool");
    let found = count(batches(&text.bytes)).pretokens.len();
    assert!(!text.real || found == pretokens, "{found} pretokens");
    bencher
        .counter(BytesCount::new(text.bytes.len() * COPIES))
        .with_inputs(|| batches(&text.bytes))
        .bench_local_values(|batches| pool.install(|| count(batches)));
}

/// 0 threads means one per core.
#[divan::bench(args = [1, 0])]
fn gpt2_pretokens(bencher: Bencher, threads: usize) {
    let splitter = splitter(&"gpt2".parse().expect("a name")).expect("a right pattern");
    proust(bencher, threads, 17_289, |batches| {
        let documents = Box::new(batches.into_iter().map(Ok));
        count_pretokens(documents, splitter.as_ref(), &CountConfig::default(), &Silent).expect("no limits")
    });
}

/// The same text from a file, as one document. The time includes reading.
#[divan::bench(args = [1, 0])]
fn file_to_pretokens(bencher: Bencher, threads: usize) {
    let text = support::proust().bytes.repeat(COPIES);
    let file = tempfile::NamedTempFile::with_suffix(".txt").expect("a temporary folder");
    std::fs::write(file.path(), &text).expect("room for 22 MB");
    let splitter = splitter(&"gpt2".parse().expect("a name")).expect("a right pattern");
    let spec = SourceSpec { uri: file.path().display().to_string(), ..SourceSpec::default() };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a small pool");
    bencher.counter(BytesCount::new(text.len())).bench_local(|| {
        let source = open(&spec, 0, &OpenContext::new(&Silent)).expect("the file was just written");
        let documents = in_order(vec![source], pool.current_num_threads());
        let count = || count_pretokens(documents, splitter.as_ref(), &CountConfig::default(), &Silent);
        pool.install(count).expect("no limits")
    });
}

#[divan::bench]
fn documents(bencher: Bencher) {
    proust(bencher, 1, 55, |batches| {
        let documents = Box::new(batches.into_iter().map(Ok));
        count_whole_documents(documents, &CountConfig::default(), &Silent).expect("no limits")
    });
}
