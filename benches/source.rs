//! Reading: Proust from a file, by lines and as one document, and generated verse.

mod support;

use divan::Bencher;
use divan::counter::BytesCount;
use tokenmill::base::int::to_u64;
use tokenmill::observer::Silent;
use tokenmill::source::{DocumentRule, Documents, OpenContext, SourceSpec, in_order, open};

fn main() {
    divan::main();
}

/// The documents of a source, read by two threads.
fn documents(spec: &SourceSpec) -> Documents<'static> {
    let source = open(spec, 0, &OpenContext::new(&Silent)).expect("the source can be listed");
    in_order(vec![source], 2)
}

fn read(documents: Documents<'_>) -> (u64, u64) {
    documents.map(|batch| batch.expect("it can be read")).fold((0, 0), |(rows, bytes), batch| {
        (rows + to_u64(batch.len()) - u64::from(batch.continued), bytes + batch.text_bytes())
    })
}

/// Times reading, after checking the number of documents and of bytes.
fn bench(bencher: Bencher, spec: &SourceSpec, expected: (u64, u64)) {
    assert_eq!(read(documents(spec)), expected);
    bencher.counter(BytesCount::new(expected.1)).bench_local(|| read(documents(spec)));
}

#[divan::bench(args = ["line", "file"])]
fn proust(bencher: Bencher, rule: &str) {
    let text = support::proust().bytes;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("proust.txt");
    std::fs::write(&path, &text).expect("room for a megabyte");
    let lines = text.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let lines = lines.filter(|line| !line.is_empty());
    let (documents, expected) = match rule {
        "line" => {
            (DocumentRule::Line, lines.fold((0, 0), |(n, bytes), line| (n + 1, bytes + to_u64(line.len()))))
        }
        _ => (DocumentRule::File, (1, to_u64(text.len()))),
    };
    let uri = path.to_str().expect("a plain path").to_owned();
    bench(bencher, &SourceSpec { uri, documents, ..SourceSpec::default() }, expected);
}

#[divan::bench]
fn verse(bencher: Bencher) {
    let spec = SourceSpec { uri: "demo:verse?lines=25000&seed=1".to_owned(), ..SourceSpec::default() };
    let (rows, bytes) = read(documents(&spec));
    assert_eq!(rows, 25_000);
    bench(bencher, &spec, (rows, bytes));
}
