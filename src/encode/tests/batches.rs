//! Encoding of batches: the same ids and facts whatever the batches, threads and chunks, and errors with their
//! place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{ArrayRef, BinaryViewArray, Int64Array, RecordBatch};

use super::*;
use crate::base::int::to_u64;
use crate::base::test_support::{one_case_in, with_threads};
use crate::encode::batch::encode_in_chunks;
use crate::error::{Error, ErrorKind};
use crate::observer::{Observer, Silent, Stage};
use crate::source::Batch;
use crate::train::Merges;

type Row = Option<Vec<u8>>;

/// A batch of these rows, with their numbers as a column that passes through.
fn batch(rows: &[Row], first_row: u64) -> Batch {
    let numbers: Int64Array =
        (0..).take(rows.len()).map(|row| i64::try_from(first_row).expect("few") + row).collect();
    let numbers: ArrayRef = Arc::new(numbers);
    Batch {
        source: 3,
        unit: 5,
        first_row,
        documents: BinaryViewArray::from_iter(rows.iter().map(Option::as_deref)),
        columns: Some(RecordBatch::try_from_iter([("row", numbers)]).expect("one column")),
        continued: false,
        open: false,
    }
}

/// Rows in batches of `size`.
fn documents(rows: &[Row], size: usize) -> Vec<Batch> {
    rows.chunks(size).enumerate().map(|(number, rows)| batch(rows, to_u64(number * size))).collect()
}

/// Encodes batches on a number of threads, and collects the results.
fn encode(
    threads: usize,
    batches: Vec<Batch>,
    encoder: &Encoder,
    observer: &dyn Observer,
) -> Result<(EncodeFacts, Vec<TokenBatch>)> {
    let mut taken = Vec::new();
    let facts = with_threads(threads, || {
        let documents = Box::new(batches.into_iter().map(Ok));
        let name = |source, unit| format!("source {source} unit {unit}");
        encode_batches(documents, encoder, name, observer, |batch| {
            taken.push(batch);
            Ok(())
        })
    })?;
    Ok((facts, taken))
}

/// The ids of all rows; `None` for null rows.
fn rows(batches: &[TokenBatch]) -> Vec<Option<Vec<TokenId>>> {
    batches.iter().flat_map(|batch| batch.iter().map(|row| row.map(std::borrow::Cow::into_owned))).collect()
}

/// Checks that batches are consecutive and that their columns and lengths match their rows.
fn check_places(batches: &[TokenBatch]) {
    let mut row = 0;
    for batch in batches {
        assert_eq!((batch.source, batch.unit, batch.first_row), (3, 5, row));
        let columns = batch.columns.as_ref().expect("they pass through");
        assert_eq!(columns.num_rows(), batch.len());
        assert_eq!(batch.text_lengths.iter().sum::<u64>(), batch.text_bytes);
        row += to_u64(batch.len());
    }
}

/// Any sizes of batches and numbers of threads give the ids of single documents, and the same facts.
#[test]
fn batches_and_threads_change_nothing() {
    let inputs = (vec(proptest::option::weighted(0.8, text()), 1..30), 1..12usize);
    one_case_in(8, &inputs, |(texts, size)| {
        let vocabulary =
            trained(&texts.iter().flatten().flatten().copied().collect::<Vec<u8>>(), SplitPattern::None);
        let eos = Some(TokenId::new(7));
        let encoder = prepared(&vocabulary, EncodeConfig { eos, ..EncodeConfig::default() });
        let mut worker = encoder.worker();
        let encode_alone: Vec<_> = texts
            .iter()
            .map(|text| text.as_ref().map(|text| worker.encode(text).expect("any bytes encode").to_vec()))
            .collect();
        for (threads, size) in [(1, size), (2, size), (7, size), (2, texts.len())] {
            let (facts, taken) =
                encode(threads, documents(&texts, size), &encoder, &Silent).expect("encodes");
            prop_assert_eq!(&rows(&taken), &encode_alone);
            check_places(&taken);
            let present = texts.iter().flatten();
            let facts_alone = EncodeFacts {
                documents: to_u64(texts.len()),
                null_documents: to_u64(texts.iter().filter(|text| text.is_none()).count()),
                empty_documents: to_u64(present.clone().filter(|text| text.is_empty()).count()),
                text_bytes: to_u64(present.map(Vec::len).sum()),
                tokens: to_u64(encode_alone.iter().flatten().map(Vec::len).sum()),
                specials: 0,
            };
            prop_assert_eq!(facts, facts_alone);
        }
        Ok(())
    });
}

/// Ids above 2¹⁶ are not truncated.
#[test]
fn ids_of_more_than_two_bytes_are_kept() {
    let eos = TokenId::new(70_000);
    let vocabulary = Vocabulary::new(VocabularyParts {
        tokens: (0..=255).map(|byte: u8| (TokenId::new(byte.into()), Box::from([byte]))).collect(),
        added: vec![AddedToken::special(eos, "<|end|>")],
        ..VocabularyParts::default()
    });
    let config = EncodeConfig { eos: Some(eos), ..EncodeConfig::default() };
    let encoder = prepared(&vocabulary.expect("valid"), config);
    let texts = [Some(b"ab".to_vec()), None, Some(Vec::new())];
    let (_, taken) = encode(2, documents(&texts, 2), &encoder, &Silent).expect("encodes");
    let ids = |ids: &[u32]| Some(ids.iter().copied().map(TokenId::new).collect());
    assert_eq!(rows(&taken), [ids(&[97, 98, 70_000]), None, ids(&[70_000])]);
}

/// Memory for ids is reserved by the number of ids per byte of the batch before.
#[test]
fn rows_without_text_make_no_room_for_those_after_them() {
    let eos = Some(TokenId::new(256));
    let special = ["<|end|>".to_owned()];
    let vocabulary = trained_beside(&special, b"", SplitPattern::None);
    let encoder = prepared(&vocabulary, EncodeConfig { eos, ..EncodeConfig::default() });
    let mut texts = vec![Some(Vec::new()); 1 << 20];
    texts[0] = Some(b"a".to_vec());
    let batches = [batch(&texts, 0), batch(&[Some(vec![b'b'; 1 << 20])], 1 << 20)];
    let (facts, _) = encode(1, batches.into(), &encoder, &Silent).expect("encodes");
    assert_eq!(facts.tokens, 1 + (1 << 20) + (1 << 20) + 1);
}

/// Documents that are cut into chunks of any size encode as whole ones.
#[test]
fn chunks_of_long_documents_change_nothing() {
    let inputs = (
        vec(proptest::option::weighted(0.9, text()), 1..8),
        1..40usize,
        any::<bool>(),
        proptest::sample::select(vec![SplitPattern::None, SplitPattern::Named(Named::Gpt2)]),
        any::<bool>(),
    );
    one_case_in(4, &inputs, |(mut texts, chunk_bytes, bos, split, found)| {
        let learned_from = texts.iter().flatten().flatten().copied().collect::<Vec<u8>>();
        let vocabulary = trained_beside(&["<s>".to_owned()], &learned_from, split);
        // Some texts have none of the tokens that are searched for, and some have one.
        for text in texts.iter_mut().flatten().step_by(2) {
            text.splice(text.len() / 2..text.len() / 2, *b"<s>");
        }
        let config = EncodeConfig {
            special: if found { SpecialPolicy::Allow } else { SpecialPolicy::Text },
            bos: bos.then_some(TokenId::new(7)),
            eos: Some(TokenId::new(8)),
            ..EncodeConfig::default()
        };
        let encoder = prepared(&vocabulary, config);
        let (facts, taken) = encode(2, documents(&texts, 1), &encoder, &Silent).expect("encodes");
        for threads in [1, 3] {
            let mut cut = Vec::new();
            let facts_cut = with_threads(threads, || {
                let documents = Box::new(documents(&texts, 1).into_iter().map(Ok));
                encode_in_chunks(
                    documents,
                    &encoder,
                    chunk_bytes,
                    |_, _| String::new(),
                    &Silent,
                    |batch| {
                        cut.push(batch);
                        Ok(())
                    },
                )
            });
            prop_assert_eq!(facts_cut.expect("encodes"), facts);
            prop_assert_eq!(rows(&cut), rows(&taken));
            check_places(&cut);
        }
        Ok(())
    });
}

/// If ids take two bytes, a long pre-token is encoded chunk by chunk, and the following tokens are appended to
/// its chunks.
#[test]
fn a_long_pretoken_encodes_as_its_merges_do() {
    let inputs = (vec((0..3usize, prop_oneof![Just(1usize), 1..40usize]), 1_000..2_000), any::<bool>());
    one_case_in(4, &inputs, |(runs, split)| {
        let pretoken: Vec<u8> =
            runs.iter().flat_map(|&(letter, run)| std::iter::repeat_n(b"abc"[letter], run)).collect();
        let split = if split { SplitPattern::Named(Named::Gpt2) } else { SplitPattern::None };
        let vocabulary = trained(&pretoken[..500], split);
        let encoder = prepared(&vocabulary, EncodeConfig::default());
        let mut expected = Vec::new();
        Merger::default()
            .merge(&encoder.pairs, &encoder.byte_ids, &pretoken, &mut expected, &Silent)
            .expect("merged");
        let texts = [Some(pretoken.clone()), Some(b"a".to_vec()), Some(pretoken)];
        let (_, taken) = encode(1, documents(&texts, 3), &encoder, &Silent).expect("encodes");
        let all = rows(&taken);
        prop_assert!(all[0].as_deref() == Some(&expected) && all[2] == all[0]);
        prop_assert_eq!(all[1].as_deref(), Some(&[TokenId::new(b'a'.into())][..]));
        Ok(())
    });
}

/// Chunks end at safe split points, and a chunk without one continues to the next.
#[test]
fn chunks_end_at_safe_split_points() {
    let text = b"ab cd efghijklmn op";
    let vocabulary = trained(text, SplitPattern::Named(Named::Gpt2));
    let encoder = prepared(&vocabulary, EncodeConfig::default());
    assert_eq!(encoder.chunks(text, 4), [0..2, 2..5, 5..16, 16..19]);
}

/// Work items have at most 4 MiB of text, or one row.
#[test]
fn large_batches_are_cut_between_rows() {
    let three: [Row; 3] = [Some(vec![b'x'; 1_500_000]), None, Some(vec![b'y'; 5_000_000])];
    let texts: Vec<Row> = three.iter().cycle().take(9).cloned().collect();
    let vocabulary = trained(b"xxyy", SplitPattern::None);
    let encoder = prepared(&vocabulary, EncodeConfig::default());
    let (facts, taken) = encode(2, documents(&texts, 9), &encoder, &Silent).expect("encodes");
    assert!(taken.iter().all(|batch| batch.text_bytes <= 4 << 20 || batch.len() == 1));
    assert!(taken.len() > 3);
    check_places(&taken);
    assert_eq!((facts.documents, facts.text_bytes), (9, 19_500_000));
    assert_eq!(rows(&taken).len(), 9);
}

/// A batch with part of a document is an error that names the row.
#[test]
fn partial_documents_are_refused_by_their_row() {
    let vocabulary = trained(b"xy", SplitPattern::None);
    let encoder = prepared(&vocabulary, EncodeConfig::default());
    let texts: Vec<Row> = ["a", "b", "c"].map(|text| Some(text.into())).into();
    for (continued, open, row) in [(true, false, 0), (false, true, 2)] {
        let mut batches = documents(&texts, 3);
        (batches[0].continued, batches[0].open) = (continued, open);
        let refused = encode(2, batches, &encoder, &Silent).expect_err("a part of a document");
        assert_eq!(refused.kind(), ErrorKind::Usage);
        assert!(
            refused.to_string().ends_with(&format!("row {row}: the batch holds only a part of the document")),
            "{refused}"
        );
    }
}

/// The error names the unit, the row and the position.
#[test]
fn a_forbidden_special_token_is_named_with_its_unit_and_row() {
    let specials = [String::from("<|end|>")];
    let (none, at) = (Merges::default(), SpecialTokensAt::End);
    let vocabulary = Vocabulary::from_merges(&none, &specials, at, SplitPattern::None);
    let config = EncodeConfig { special: SpecialPolicy::Forbid, ..EncodeConfig::default() };
    let encoder = prepared(&vocabulary.expect("valid"), config);
    let texts: Vec<Row> = ["a", "b", "c", "d", "e <|end|>", "<|end|>"].map(|text| Some(text.into())).into();
    let error = encode(3, documents(&texts, 2), &encoder, &Silent).expect_err("forbidden");
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert_eq!(
        error.to_string(),
        r#"source 3 unit 5: row 4: the text contains the special token "<|end|>" at byte 2"#
    );
    assert!(error.help().is_some());
}

/// Counts the bytes that are reported, and stops the run at a number of them.
struct Stops {
    bytes: AtomicU64,
    at: u64,
}

impl Observer for Stops {
    fn advanced(&self, stage: Stage, amount: u64) {
        assert_eq!(stage, Stage::Encode);
        self.bytes.fetch_add(amount, Ordering::Relaxed);
    }

    fn stopping(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.at
    }
}

/// All bytes are reported to the observer, and no batch is taken after it has asked to stop.
#[test]
fn the_observer_hears_every_byte_and_can_stop_the_run() {
    let texts: Vec<Row> = vec![Some(b"some text".to_vec()); 100];
    let encoder = prepared(&trained(b"", SplitPattern::None), EncodeConfig::default());
    let run = |at| {
        let observer = Stops { bytes: AtomicU64::new(0), at };
        let outcome = encode(2, documents(&texts, 3), &encoder, &observer);
        (observer.bytes.into_inner(), outcome.map(|(facts, _)| facts.documents).map_err(|error| error.kind()))
    };
    assert_eq!(run(u64::MAX), (900, Ok(100)));
    assert_eq!(run(54), (54, Err(ErrorKind::Interrupted)));
}

/// The batches before the error are still taken.
#[test]
fn an_error_of_the_source_ends_it() {
    let encoder = prepared(&trained(b"", SplitPattern::None), EncodeConfig::default());
    let good = batch(&[Some(b"a".to_vec())], 0);
    let documents = Box::new([Ok(good), Err(Error::interrupted())].into_iter());
    let mut taken = 0;
    let outcome = encode_batches(
        documents,
        &encoder,
        |_, _| String::new(),
        &Silent,
        |batch| {
            taken += batch.len();
            Ok(())
        },
    );
    assert!(outcome.is_err());
    assert_eq!(taken, 1);
}

/// Stops the run at the second check.
struct StopsOnceUnderWay(AtomicU64);

impl Observer for StopsOnceUnderWay {
    fn stopping(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) > 0
    }
}

/// The observer can stop a worker within a document, by either method, and the worker can be used afterwards.
#[test]
fn a_worker_stops_within_a_long_document_and_works_on() {
    let mut state = 1_u64;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if state >> 63 == 0 { b'a' } else { b'b' }
    };
    let text: Vec<u8> = (0..900_000).map(|_| letter()).collect();
    for split in [SplitPattern::None, SplitPattern::Named(Named::Gpt2)] {
        let vocabulary = trained(&text[..2_000], split.clone());
        let by_longest_matches = prepared(&vocabulary, EncodeConfig::default());
        let merging = Encoder::new(vocabulary, EncodeConfig::default()).expect("valid").worth(usize::MAX);
        let text: &[u8] = if split == SplitPattern::None { &text } else { &b"ab c ".repeat(100_000) };
        for encoder in [by_longest_matches, merging] {
            let observer = StopsOnceUnderWay(AtomicU64::new(0));
            let mut worker = encoder.observed_worker(&observer);
            let error =
                worker.encode(text).map(<[_]>::len).expect_err("it is asked in the midst of the text");
            assert_eq!(error.kind(), ErrorKind::Interrupted, "{split}");
            let mut ids = Vec::new();
            observer.0.store(0, Ordering::Relaxed);
            worker.append(&text[..200], &mut ids).expect("it is asked once at most");
            assert_eq!(encoder.worker().encode(&text[..200]).expect("any bytes encode"), ids, "{split}");
        }
    }
}

/// Texts, and what exceeds the limit in them: pre-tokens of 1 MiB and documents of 2 million tokens never do.
#[test]
fn documents_beyond_the_memory_limit_are_refused_by_their_row() {
    use crate::base::int::ByteCount;

    let long = "a".repeat((1 << 20) + 1);
    let short = "a".repeat(1 << 20);
    let words = "a b ".repeat(1_300_000);
    for (split, text, fits, said) in [
        ("gpt4", &short, true, ""),
        ("gpt4", &long, false, "a pre-token has 1048577 bytes"),
        ("none", &long, true, ""),
        ("gpt4", &words, false, "more than 2097152 tokens"),
        ("none", &words, false, "more than 2097152 tokens"),
    ] {
        let split: SplitPattern = split.parse().expect("a name");
        let vocabulary =
            Vocabulary::from_merges(&Default::default(), &[], SpecialTokensAt::End, split.clone())
                .expect("bytes");
        let encode = |limit: Option<u64>| {
            let encoder = Encoder::new(vocabulary.clone(), EncodeConfig::default()).expect("a vocabulary");
            let encoder = match limit {
                Some(limit) => encoder.within(ByteCount(limit)),
                None => encoder,
            };
            let texts = crate::source::texts(["one", text.as_str()]);
            let mut ids = Vec::new();
            encode_batches(
                texts,
                &encoder,
                |_, _| "a.txt".to_owned(),
                &Silent,
                |batch| {
                    ids.extend(batch.ids.iter().collect::<Vec<_>>());
                    Ok(())
                },
            )
            .map(|_| ids)
        };
        let all = encode(None).expect("no limit");
        assert_eq!(encode(Some(1 << 40)).expect("room"), all, "{split}");
        match encode(Some(0)) {
            Ok(ids) => assert!(fits && ids == all, "{split}, {}", text.len()),
            Err(error) => {
                assert!(!fits && error.kind() == ErrorKind::Memory, "{split}, {}: {error}", text.len());
                assert!(error.to_string().starts_with("a.txt: row 1: "), "{error}");
                assert!(error.to_string().contains(said), "{error}");
            }
        }
    }
}
