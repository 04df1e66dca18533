//! Counting, in memory and on disk, against the reference and within limits.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::BinaryViewArray;
use proptest::prelude::*;

use super::*;
use crate::base::int::{ByteCount, to_u64};
use crate::base::test_support::{one_case_in, with_threads};
use crate::error::{Error, ErrorKind};
use crate::observer::{Observer, Silent, Stage};
use crate::source::{Batch, Documents, texts};
use crate::split::{NamedPattern, SplitPattern, Splitter};

/// A document and the number of its source.
type Document = (usize, Option<Vec<u8>>);

fn splitter(pattern: &str) -> Box<dyn Splitter> {
    let pattern: SplitPattern = pattern.parse().expect("the name of a pattern");
    crate::split::splitter(&pattern).expect("named patterns are always right")
}

fn batch(source: usize, documents: &[Option<&[u8]>], continued: bool, open: bool) -> Batch {
    let documents = BinaryViewArray::from_iter(documents.iter().copied());
    Batch { source, unit: 0, first_row: 0, documents, columns: None, continued, open }
}

/// Batches of about `size` bytes. A document is divided where a batch is full.
fn batches(documents: &[Document], size: usize) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut rows: Vec<Option<&[u8]>> = Vec::new();
    let (mut continued, mut room, mut source) = (false, size, 0);
    for (of, document) in documents {
        if *of != source && !rows.is_empty() {
            batches.push(batch(source, &std::mem::take(&mut rows), continued, false));
            (continued, room) = (false, size);
        }
        source = *of;
        let Some(mut text) = document.as_deref() else {
            rows.push(None);
            continue;
        };
        while text.len() > room {
            let (now, later) = text.split_at(room);
            rows.push(Some(now));
            batches.push(batch(source, &std::mem::take(&mut rows), continued, true));
            (text, continued, room) = (later, true, size);
        }
        rows.push(Some(text));
        room -= text.len();
    }
    batches.push(batch(source, &rows, continued, false));
    batches
}

fn stream(batches: Vec<Batch>) -> Documents<'static> {
    Box::new(batches.into_iter().map(Ok))
}

fn documents(texts: &[&str]) -> Vec<Document> {
    texts.iter().map(|text| (0, Some(text.as_bytes().to_vec()))).collect()
}

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
            let gathered = count_whole_documents(stream(batches(&documents, size)), &config, &Silent);
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
            let gathered = count_whole_documents(stream(batches(&documents, 1_000)), &config, &Silent);
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
                false => count_whole_documents(parts, &config, &observer),
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
    assert_eq!(count_characters(all.as_bytes()), crate::base::int::to_u64(all.chars().count()));
}

proptest! {
    #[test]
    fn whole_documents_are_the_pretokens(
        texts in prop::collection::vec((0..3_usize, prop::option::of("(<s>|[ab ]){0,4}")), 0..12),
        weights in prop::collection::vec(0_u64..4, 0..3),
        joined: bool,
        size in 1..20_usize,
    ) {
        let mut documents: Vec<Document> =
            texts.into_iter().map(|(source, text)| (source, text.map(String::into_bytes))).collect();
        documents.sort_by_key(|(source, _)| *source);
        let boundary = if joined { Boundary::Join } else { Boundary::Document };
        let specials = SpecialFinder::new(&["<s>"]).expect("a token");
        let config = CountConfig { specials, weights, boundary, ..CountConfig::default() };
        let whole = splitter("none");
        let expected = reference::count_pretokens(&documents, whole.as_ref(), &config).expect("no limits");
        let gathered = count_whole_documents(stream(batches(&documents, size)), &config, &Silent).expect("no limits");
        let counted = count_pretokens(stream(batches(&documents, size)), whole.as_ref(), &config, &Silent);
        prop_assert_eq!(&gathered.pretokens, &expected);
        prop_assert_eq!(gathered, counted.expect("no limits"));
    }
}

/// Bytes that fit however small the limit is.
const FITS: usize = 1 << 20;

fn within(tables: u64, boundary: Boundary, folder: &tempfile::TempDir) -> CountConfig {
    let limit = MemoryLimit { table_bytes: ByteCount(tables), spill_folder: folder.path().to_owned() };
    CountConfig { limit: Some(limit), boundary, ..CountConfig::default() }
}

/// Batches as a reader of plain text gives them: a document of one word, then `text` as one document in several
/// batches.
fn in_parts(text: &[u8]) -> Documents<'static> {
    let parts: Vec<Vec<u8>> = text.chunks(300_000).map(<[u8]>::to_vec).collect();
    let last = parts.len();
    let first = texts(["one word"]);
    let parts = parts.into_iter().enumerate().map(move |(number, part)| {
        let documents = arrow::array::BinaryViewArray::from_iter_values([part]);
        let (source, unit, first_row, columns) = (0, 0, 1, None);
        let (continued, open) = (number > 0, number + 1 < last);
        Ok(Batch { source, unit, first_row, documents, columns, continued, open })
    });
    Box::new(first.chain(parts))
}

#[test]
fn a_pretoken_that_is_too_long_for_the_limit_is_an_error_with_its_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let custom = SplitPattern::Custom("[^ ]+| +".to_owned());
    let named = ["gpt4", "gpt2"].map(|name| name.parse().expect("a name"));
    for pattern in named.into_iter().chain([custom]) {
        let splitter = crate::split::splitter(&pattern).expect("a pattern");
        let name = pattern.to_string();
        for boundary in [Boundary::Document, Boundary::Join] {
            for (length, fits) in [(FITS - 20, true), (FITS + 400_000, false)] {
                let config = within(0, boundary, &folder);
                // With joined documents, the previous word would be part of it.
                let text = [&b" "[..], &vec![b'a'; length]].concat();
                let all_at_once = || texts([b"one word".to_vec(), text.clone()]);
                for documents in [in_parts(&text), all_at_once()] {
                    let outcome = count_spilling(documents, &*splitter, &config, &Silent);
                    let Err(error) = outcome else {
                        assert!(fits, "{name}, {boundary:?}, {length}");
                        continue;
                    };
                    assert!(!fits, "{name}, {boundary:?}, {length}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
                    let found =
                        error.get_ref().downcast_ref::<PretokenExceedsLimit>().expect("of a pre-token");
                    assert_eq!((found.source_number, found.unit), (0, 0));
                    assert!(
                        found.row == 1 || boundary == Boundary::Join,
                        "{name}, {boundary:?}: row {}",
                        found.row
                    );
                }
            }
        }
    }
}

#[test]
fn documents_that_do_not_fit_are_not_gathered() {
    let folder = tempfile::tempdir().expect("a folder");
    let documents = || texts(["a".repeat(60), "b".repeat(30), "a".repeat(60)]);
    for (limit, fits) in [(160, true), (100, false), (89, false), (59, false)] {
        let outcome =
            count_whole_documents(documents(), &within(limit, Boundary::Document, &folder), &Silent);
        match outcome {
            Ok(counted) => assert!(fits && counted.pretokens.len() == 2, "{limit}"),
            Err(error) => assert!(!fits && error.kind() == ErrorKind::Memory, "{limit}: {error}"),
        }
    }
    assert_eq!(count_of_all(documents()), 2);
}

fn count_of_all(documents: Documents<'_>) -> usize {
    count_whole_documents(documents, &CountConfig::default(), &Silent).expect("no limit").pretokens.len()
}

fn limited(tables: u64, spill_folder: &std::path::Path) -> CountConfig {
    let limit = MemoryLimit { table_bytes: ByteCount(tables), spill_folder: spill_folder.to_path_buf() };
    CountConfig { limit: Some(limit), ..CountConfig::default() }
}

fn counts(
    documents: &[Document],
    size: usize,
    threads: usize,
    config: &CountConfig,
) -> Result<SpillableCounts> {
    let (parts, splitter) = (stream(batches(documents, size)), splitter("gpt2"));
    with_threads(threads, || count_spilling(parts, splitter.as_ref(), config, &Silent))
}

fn written(counts: SpillableCounts, ordered: bool) -> (Vec<u8>, WrittenCounts) {
    let pattern = SplitPattern::Named(NamedPattern::Gpt2);
    let info = CountsInfo { pattern, ordered, ..CountsInfo::default() };
    let mut file = Vec::new();
    let written = counts.write(&mut file, "counts.parquet".as_ref(), &info, &Silent);
    (file, written.expect("memory takes everything"))
}

fn words(number: u32, different: u32) -> Vec<Document> {
    let word = |n: u32| {
        let n = n.wrapping_mul(2_654_435_761) % different;
        if n.is_multiple_of(5) { format!("{n:x>20}x ") } else { format!("w{n} ") }
    };
    documents(&[&(0..number).map(word).collect::<String>()])
}

#[test]
fn a_limit_of_memory_changes_nothing() {
    let inputs = (
        0..20_000_u32,
        1..9_000_u32,
        100..50_000_usize,
        prop::sample::select(vec![0, 1_600_000, 4_000_000]),
        prop::sample::select(vec![1, 2, 7]),
        any::<bool>(),
    );
    one_case_in(64, &inputs, |(number, different, size, tables, threads, ordered)| {
        let (documents, folder) = (words(number, different), tempfile::tempdir().expect("a folder"));
        // Pre-tokens after a special token have later positions than those before it, also in runs.
        let specials = SpecialFinder::new(&["w1"]).expect("a token");
        let none = CountConfig { specials, ..CountConfig::default() };
        let some = CountConfig { limit: limited(tables, folder.path()).limit, ..none.clone() };
        let counts = |config| counts(&documents, size, threads, config).expect("room on the disk");
        let expected = counts(&none).into_corpus_counts(&Silent).expect("no limit");
        prop_assert_eq!(
            counts(&some).into_corpus_counts(&Silent).map_err(|error| error.kind()),
            match tables {
                0 if counts(&some).spills() > 0 => Err(ErrorKind::Memory),
                _ => Ok(expected.clone()),
            }
        );
        prop_assert_eq!(written(counts(&some), ordered), written(counts(&none), ordered));
        prop_assert!(fs::read_dir(folder.path()).expect("a folder").next().is_none());
        Ok(())
    });
}

#[test]
fn a_limit_holds_within_a_document_that_is_split_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (documents, limit) = (words(200_000, 150_000), 2_000_000);
    let pattern = SplitPattern::Custom(r"\p{L}+|\p{N}+|\s+".to_owned());
    let splitter = crate::split::splitter(&pattern).expect("a regular expression");
    let counts = |config: &CountConfig| {
        let parts = stream(batches(&documents, usize::MAX));
        with_threads(1, || count_spilling(parts, splitter.as_ref(), config, &Silent)).expect("counts")
    };
    let some = counts(&limited(limit, folder.path()));
    assert!(some.spills() > 3, "{} spills of one document", some.spills());
    assert_eq!(written(some, true), written(counts(&CountConfig::default()), true));
}

#[test]
fn what_does_not_fit_goes_to_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let spill_folder = folder.path().join("made/when/needed");
    let (many, few) = (words(60_000, 50_000), words(60_000, 50));
    let spills = |documents: &[Document], tables| {
        let counts = counts(documents, 9_000, 2, &limited(tables, &spill_folder)).expect("room on the disk");
        counts.spills()
    };
    assert_eq!(spills(&few, 3_000_000), 0);
    assert!(!spill_folder.exists());
    assert!(spills(&many, 3_000_000) > 2);
    assert!(spills(&many, 0) > spills(&many, 3_000_000));
    assert_eq!(spills(&many, 30_000_000), 0);
    // Few pre-tokens, but long ones: 4 MB.
    let first = |number: u32| char::from_u32(u32::from('一') + number).expect("a letter");
    let word = |number| Some(format!("{}{}", first(number), "x".repeat(10_000)).into_bytes());
    let long: Vec<Document> = (0..400).map(|number| (0, word(number))).collect();
    assert!(spills(&long, 3_000_000) > 0);
}

#[test]
fn a_scratch_folder_that_cannot_be_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let spill_folder = folder.path().join("file");
    fs::write(&spill_folder, "").expect("a file");
    let error = counts(&words(20_000, 10_000), 9_000, 2, &limited(0, &spill_folder)).expect_err("no folder");
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert!(error.to_string().contains("file"), "{error}");
}

#[test]
fn counts_that_overflow_across_runs_are_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = |number| (number, Some(format!("big {}", "many other words ".repeat(500)).into_bytes()));
    let documents: Vec<Document> = vec![text(0), text(1)];
    let config = CountConfig { weights: vec![1, u64::MAX - 700], ..limited(0, folder.path()) };
    let one = counts(&documents[..1], 1_000, 1, &config).expect("small counts");
    assert!(one.spills() > 1);
    let both = counts(&documents, 1_000, 1, &config);
    let error = both.and_then(|counts| counts.into_corpus_counts(&Silent)).expect_err("500 times and more");
    assert!(error.to_string().contains("does not fit in 64 bits"), "{error}");
}

struct Stopping;

impl Observer for Stopping {
    fn stopping(&self) -> bool {
        true
    }
}

#[test]
fn merging_can_be_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let counts = counts(&words(20_000, 10_000), 9_000, 2, &limited(0, folder.path()));
    let error =
        counts.expect("room on the disk").into_corpus_counts(&Stopping).err().map(|error| error.kind());
    assert_eq!(error, Some(ErrorKind::Interrupted));
}
