use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::base::int::to_u64;
use crate::base::test_support::{one_case_in, with_threads};
use crate::error::{Error, ErrorKind};
use crate::observer::{Silent, Stage};

fn document() -> impl Strategy<Value = Option<Vec<u8>>> {
    let word = prop_oneof![
        6 => "[a-c]{1,3} ",
        2 => "[ \n]{1,3}",
        1 => "[a-z]{14,18}",
        1 => Just("<s>".to_owned()),
        1 => Just("b < s".to_owned()),
        1 => Just("漢字é".to_owned()),
    ];
    let text = prop::collection::vec(word, 0..30).prop_map(|words| words.concat().into_bytes());
    prop_oneof![6 => text.prop_map(Some), 1 => Just(None), 1 => prop::collection::vec(any::<u8>(), 0..9).prop_map(Some)]
}

fn corpus() -> impl Strategy<Value = Vec<Document>> {
    let source = prop::collection::vec(document(), 0..6);
    prop::collection::vec(source, 1..4).prop_map(|sources| {
        let numbered = sources.into_iter().enumerate();
        numbered
            .flat_map(|(number, documents)| documents.into_iter().map(move |text| (number, text)))
            .collect()
    })
}

/// Special tokens. One of them contains an offset at which the patterns split.
fn config(boundary: Boundary, weights: Vec<u64>) -> CountConfig {
    CountConfig {
        specials: SpecialFinder::new(&["<s>", "b < s", "<"]).expect("tokens"),
        weights,
        boundary,
        ..CountConfig::default()
    }
}

#[test]
fn threads_and_batches_change_nothing() {
    let inputs = (
        corpus(),
        prop::collection::vec(0_u64..4, 0..3),
        any::<bool>(),
        prop::sample::select(vec!["gpt2", "gpt4", "cl100k", "o200k"]),
    );
    one_case_in(8, &inputs, |(documents, weights, joined, pattern)| {
        let boundary = if joined { Boundary::Join } else { Boundary::Document };
        let (config, splitter) = (config(boundary, weights), splitter(pattern));
        let expected = reference::count_pretokens(&documents, splitter.as_ref(), &config).expect("no limits");
        let (mut facts, by_source) = (None, by_source(&documents));
        for (threads, size) in [(1, 1_000_000), (1, 1), (2, 7), (7, 3), (3, 40)] {
            let parts = batches(&documents, size);
            let counted =
                with_threads(threads, || count_pretokens(stream(parts), splitter.as_ref(), &config, &Silent));
            let counted = counted.expect("no limits");
            prop_assert_eq!(&counted.pretokens, &expected, "{} threads, batches of {}", threads, size);
            prop_assert_eq!(facts.get_or_insert(counted.facts.clone()), &counted.facts);
            prop_assert_eq!(&counted.facts.sources, &by_source);
            let gathered = gather_documents(stream(batches(&documents, size)), &config, &Silent);
            prop_assert_eq!(&gathered.expect("no limits").facts.sources, &by_source);
        }
        Ok(())
    });
}

/// The facts of each source, up to the last one with documents.
fn by_source(documents: &[Document]) -> Vec<SourceFacts> {
    let mut sources = vec![SourceFacts::default(); documents.last().map_or(0, |(source, _)| source + 1)];
    for (source, document) in documents {
        let facts = &mut sources[*source];
        facts.documents += u64::from(document.is_some());
        facts.null_documents += u64::from(document.is_none());
        facts.text_bytes += document.as_ref().map_or(0, |text| to_u64(text.len()));
    }
    sources
}

#[test]
fn pretokens_of_all_lengths_are_counted() {
    // More than one window, more entries than the first slots, and pre-tokens of about 16 bytes.
    let text: String = (0..30_000).map(|n| format!("{} {} ", "x".repeat(n % 40), n % 7_001)).collect();
    let (documents, config) = (documents(&[&text, &text]), CountConfig::default());
    let splitter = splitter("gpt2");
    let expected = reference::count_pretokens(&documents, splitter.as_ref(), &config).expect("no limits");
    for threads in [1, 2, 5] {
        let parts = stream(batches(&documents, 9_999));
        let counted = with_threads(threads, || count_pretokens(parts, splitter.as_ref(), &config, &Silent));
        assert!(counted.expect("no limits").pretokens == expected, "{threads} threads");
    }
}

#[test]
fn tables_beyond_the_caches_count_alike() {
    let word = |n: usize| if n.is_multiple_of(7) { format!("{n} {n:x<17}y ") } else { format!("{n} ") };
    let text: String = (0..300_000).chain(5..40_000).map(word).collect();
    let (documents, config, splitter) = (documents(&[&text]), CountConfig::default(), splitter("gpt2"));
    let expected = reference::count_pretokens(&documents, splitter.as_ref(), &config).expect("no limits");
    for threads in [1, 2] {
        let parts = stream(batches(&documents, 900_000));
        let counted = with_threads(threads, || count_pretokens(parts, splitter.as_ref(), &config, &Silent));
        assert!(counted.expect("no limits").pretokens == expected, "{threads} threads");
    }
}

#[test]
fn facts_describe_the_corpus() {
    let documents: Vec<Document> = ["aé<s>", "", "abcd"]
        .map(|text| (0, Some(text.as_bytes().to_vec())))
        .into_iter()
        .chain([(1, None)])
        .collect();
    let config = config(Boundary::Document, vec![0]);
    for size in [2, 100] {
        let counted =
            count_pretokens(stream(batches(&documents, size)), splitter("gpt4").as_ref(), &config, &Silent);
        let facts = counted.expect("no limits").facts;
        assert_eq!((facts.documents, facts.null_documents), (3, 1));
        assert_eq!((facts.text_bytes, facts.characters, facts.special_tokens), (10, 9, 1));
        let lengths = facts.document_lengths.bins().iter().map(|bin| (bin.from, bin.count));
        assert_eq!(lengths.collect::<Vec<_>>(), [(0, 1), (4, 1), (6, 1)]);
    }
    let all = CountConfig { weights: Vec::new(), ..config };
    let counted = count_pretokens(stream(batches(&documents, 9)), splitter("gpt4").as_ref(), &all, &Silent);
    assert_eq!(counted.expect("no limits").facts.distinct_bytes, 9);
}

#[test]
fn a_count_that_overflows_is_an_error_that_names_the_pretoken() {
    let config = CountConfig { weights: vec![u64::MAX - 1, 2], ..CountConfig::default() };
    let documents = |texts: [&str; 2]| -> Vec<Document> {
        texts.map(|text| text.as_bytes().to_vec()).into_iter().map(Some).enumerate().collect()
    };
    let long = "long".repeat(5);
    for (texts, overflows) in
        [(["a a", "b"], None), (["a", "a"], Some("\"a\"")), ([&long, &long], Some("\"long"))]
    {
        let documents = documents(texts);
        for threads in [1, 2] {
            let parts = stream(batches(&documents, 1_000));
            let counted =
                with_threads(threads, || count_pretokens(parts, splitter("gpt2").as_ref(), &config, &Silent));
            let error = counted.err().map(|error| error.to_string());
            assert_eq!(error.is_some(), overflows.is_some(), "{texts:?}");
            assert!(error.unwrap_or_default().contains(overflows.unwrap_or_default()));
            let gathered = gather_documents(stream(batches(&documents, 1_000)), &config, &Silent);
            assert_eq!(gathered.is_err(), overflows.is_some(), "{texts:?}");
        }
    }
}

struct Meter {
    bytes: AtomicU64,
    most: u64,
}

impl Observer for Meter {
    fn advanced(&self, stage: Stage, amount: u64) {
        assert_eq!(stage, Stage::Count);
        self.bytes.fetch_add(amount, Ordering::Relaxed);
    }

    fn stopping(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.most
    }
}

#[test]
fn progress_adds_up_and_a_run_can_be_stopped() {
    let documents = documents(&["some words", "and some more of these words", "end"]);
    for (most, kind) in [(1_000, None), (15, Some(ErrorKind::Interrupted))] {
        let outcomes = [false, true].map(|split| {
            let observer = Meter { bytes: AtomicU64::new(0), most };
            let (parts, config) = (stream(batches(&documents, 10)), CountConfig::default());
            let outcome = match split {
                true => count_pretokens(parts, splitter("gpt2").as_ref(), &config, &observer),
                false => gather_documents(parts, &config, &observer),
            };
            (outcome.err().map(|error| error.kind()), observer.bytes.into_inner())
        });
        for (stopped, bytes) in outcomes {
            assert_eq!(stopped, kind);
            assert!(if kind.is_none() { bytes == 41 } else { bytes < 41 });
        }
    }
}

#[test]
fn an_error_of_the_source_is_passed_on() {
    let batches = batches(&documents(&["a b c d e f g h"]), 2);
    for threads in [1, 3] {
        let broken = batches.clone().into_iter().map(Ok).chain([Err(Error::interrupted())]);
        let (parts, config) =
            (Box::new(broken.chain(batches.clone().into_iter().map(Ok))), CountConfig::default());
        let counted =
            with_threads(threads, || count_pretokens(parts, splitter("gpt2").as_ref(), &config, &Silent));
        assert_eq!(counted.err().map(|error| error.kind()), Some(ErrorKind::Interrupted));
    }
}

#[test]
fn characters_are_counted_whatever_their_bytes() {
    let all: String = ('\0'..=char::MAX).collect();
    assert_eq!(characters(all.as_bytes()), crate::base::int::to_u64(all.chars().count()));
}
