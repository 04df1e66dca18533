//! The standard benchmark as a whole run: Proust from the file to a tokenizer of 100 000 tokens, token ids and
//! a report; and the report alone.

mod support;

use std::path::Path;

use divan::Bencher;
use tokenmill::base::int::ByteCount;
use tokenmill::observer::Silent;
use tokenmill::report::{RunReport, to_html};
use tokenmill::run::{Environment, JobOptions, job, plan, recipe};
use tokenmill::source::OpenContext;

fn main() {
    divan::main();
}

/// Runs a recipe in a folder that has the text, and returns the report.
fn run(folder: &Path) -> RunReport {
    let path = |name: &str| folder.join(name).to_str().expect("a plain path").to_owned();
    let text = format!(
        "[source]\nuri = {:?}\n[train]\nsplit = \"none\"\nvocab_size = 100_000\nmin_frequency = 1\n\
         [encode]\n[output]\ndir = {:?}\n",
        path("proust.txt"),
        path("out"),
    );
    let environment = Environment { variable: &|_| None, threads: 2, memory: ByteCount(1 << 30) };
    let recipe = recipe::read("proust.toml", &text).expect("the recipe can be read");
    let plan = plan(&recipe, &environment).expect("the recipe is right");
    let outcome = job(&plan, &JobOptions::default(), &OpenContext::new(&Silent)).expect("it runs");
    outcome.report.expect("the folder is new")
}

/// A new folder with the text in it.
fn folder(text: &support::Text) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("proust.txt"), &text.bytes).expect("room for a megabyte");
    folder
}

#[divan::bench(sample_count = 10)]
fn proust_to_100_000(bencher: Bencher) {
    let text = support::proust();
    let report = run(folder(&text).path());
    let tokens = report.encoding.as_ref().map(|encoding| encoding.tokens);
    assert_eq!(tokens, report.training.as_ref().map(|training| training.tokens_after));
    assert!(!text.real || tokens == Some(86_873), "{tokens:?} tokens");
    bencher.with_inputs(|| folder(&text)).bench_local_values(|folder| run(folder.path()));
}

#[divan::bench]
fn report_as_a_page(bencher: Bencher) {
    let report = run(folder(&support::proust()).path());
    assert!(to_html(&report).contains("</html>"));
    bencher.bench_local(|| to_html(&report));
}
