//! Encoding on one thread: Proust with and without a split pattern, texts that are hard to merge, single calls with short
//! texts, and decoding.

mod support;

use std::collections::HashMap;

use divan::Bencher;
use divan::counter::BytesCount;
use tokenmill::base::int::to_usize;
use tokenmill::count::PretokenCounts;
use tokenmill::encode::{EncodeConfig, Encoder, Worker};
use tokenmill::observer::Silent;
use tokenmill::split::{NamedPattern, SplitPattern, splitter};
use tokenmill::train::{TrainConfig, learn_merges};
use tokenmill::vocab::{SpecialTokensAt, Vocabulary};
use tokenmill::{Count, TokenId, Tokenizer};

fn main() {
    divan::main();
}

/// The pre-tokens of a text in order of first appearance, with their counts.
fn pretokens(text: &[u8], split: &SplitPattern) -> PretokenCounts {
    let mut ends = Vec::new();
    let splitter = splitter(split).expect("a pattern with a name");
    splitter.pretoken_ends(text, &mut ends).expect("it needs no backtracking");
    let mut counts: HashMap<&[u8], u64> = HashMap::new();
    let ends = ends.into_iter().map(to_usize);
    let starts = std::iter::once(0).chain(ends.clone());
    let all: Vec<&[u8]> = starts.zip(ends).map(|(start, end)| &text[start..end]).collect();
    for pretoken in &all {
        *counts.entry(pretoken).or_default() += 1;
    }
    all.into_iter().filter_map(|pretoken| Some((pretoken, Count::new(counts.remove(pretoken)?)))).collect()
}

/// A vocabulary learned from a text, and the number of tokens in the text at the end of training.
fn trained(text: &[u8], split: SplitPattern, merges: usize) -> (Vocabulary, u64) {
    let config = TrainConfig { min_frequency: Count::ONE, ..TrainConfig::new(merges) };
    let learned = learn_merges(pretokens(text, &split), &config, &Silent).expect("it trains");
    let tokens = learned.history.last().expect("it has an end").tokens;
    let vocabulary = Vocabulary::from_merges(&learned.merges, &[], SpecialTokensAt::End, split);
    (vocabulary.expect("merges just learned"), tokens)
}

/// Encodes the text from which a vocabulary was learned, after checking that the number of tokens is that at
/// the end of training and that they decode to the text. `fresh` uses a new worker each time, with an empty
/// cache.
fn encode(bencher: Bencher, text: &[u8], split: SplitPattern, merges: usize, fresh: bool) {
    let (vocabulary, tokens) = trained(text, split, merges);
    let encoder =
        Encoder::new(vocabulary.clone(), EncodeConfig::default()).expect("no special tokens").prepared();
    let mut worker = encoder.worker();
    let ids = worker.encode(text).expect("any bytes encode");
    assert_eq!(u64::try_from(ids.len()), Ok(tokens));
    let bytes = |id: &TokenId| vocabulary.bytes(*id).expect("ids come from the vocabulary");
    assert!(ids.iter().flat_map(bytes).eq(text), "it decodes to something else");
    let bencher = bencher.counter(BytesCount::new(text.len()));
    if fresh {
        let again = |mut worker: Worker<'_>| worker.encode(text).expect("any bytes encode").len();
        bencher.with_inputs(|| encoder.worker()).bench_local_values(again);
    } else {
        bencher.bench_local(|| worker.encode(text).expect("any bytes encode").len());
    }
}

#[divan::bench(args = [7_936, 99_744])]
fn proust_unsplit(bencher: Bencher, merges: usize) {
    encode(bencher, &support::proust().bytes, SplitPattern::None, merges, false);
}

#[divan::bench(args = [NamedPattern::Gpt2, NamedPattern::Gpt4])]
fn proust_split(bencher: Bencher, pattern: NamedPattern) {
    encode(bencher, &support::proust().bytes, SplitPattern::Named(pattern), 7_936, false);
}

#[divan::bench]
fn proust_split_by_a_fresh_worker(bencher: Bencher) {
    encode(bencher, &support::proust().bytes, SplitPattern::Named(NamedPattern::Gpt2), 7_936, true);
}

/// A megabyte of text for which a vocabulary learned from Proust has few tokens, or of one long run.
#[divan::bench(args = ["a", " ", "\n", "the ", "😀", "letters", "bytes"])]
fn megabyte_unlike_proust(bencher: Bencher, of: &str) {
    const SIZE: usize = 1_000_000;
    let mut state = 1_u32;
    let mut chance = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_le_bytes()[3]
    };
    let text: Vec<u8> = match of {
        "letters" => (0..SIZE).map(|_| b'a' + chance() % 26).collect(),
        "bytes" => (0..SIZE).map(|_| chance()).collect(),
        _ => of.bytes().cycle().take(SIZE).collect(),
    };
    let (vocabulary, _) = trained(&support::proust().bytes, SplitPattern::None, 7_936);
    let encoder =
        Encoder::new(vocabulary.clone(), EncodeConfig::default()).expect("no special tokens").prepared();
    let mut worker = encoder.worker();
    let mut decoded = Vec::new();
    let ids = worker.encode(&text).expect("any bytes encode");
    vocabulary.decode(ids, &mut decoded).expect("ids come from the vocabulary");
    assert!(decoded == text, "it decodes to something else");
    let bencher = bencher.counter(BytesCount::new(SIZE));
    bencher.bench_local(|| worker.encode(&text).expect("any bytes encode").len());
}

/// A tokenizer that was learned from Proust.
fn tokenizer() -> Tokenizer {
    let (vocabulary, _) = trained(&support::proust().bytes, SplitPattern::Named(NamedPattern::Gpt2), 7_936);
    Tokenizer::new(vocabulary, EncodeConfig::default()).expect("no special tokens")
}

/// 1 000 calls that count the ids of a short text each, after the first.
#[divan::bench(args = [1, 20, 200, 2_000])]
fn thousand_calls(bencher: Bencher, bytes: usize) {
    let (tokenizer, proust) = (tokenizer(), support::proust());
    let step = (proust.bytes.len() - bytes) / 1_000;
    let texts: Vec<&[u8]> = (0..1_000).map(|at| &proust.bytes[at * step..][..bytes]).collect();
    let count = || texts.iter().map(|text| tokenizer.count(text).expect("any bytes encode")).sum::<usize>();
    let ids = texts.iter().map(|text| tokenizer.encode(text).expect("any bytes encode").len());
    assert_eq!(ids.sum::<usize>(), count());
    bencher.bench_local(count);
}

#[divan::bench]
fn proust_decoded(bencher: Bencher) {
    let (tokenizer, proust) = (tokenizer(), support::proust());
    let ids = tokenizer.encode(&proust.bytes).expect("any bytes encode");
    assert!(tokenizer.decode(&ids).expect("its own ids") == proust.bytes, "it decodes to something else");
    let bencher = bencher.counter(BytesCount::new(proust.bytes.len()));
    bencher.bench_local(|| tokenizer.decode(&ids).expect("its own ids").len());
}

/// A megabyte of one letter, of letters in turn, and of random letters, without a split pattern.
#[divan::bench(args = ["a", "ab c", "etaoinshrdlu"])]
fn megabyte(bencher: Bencher, letters: &str) {
    let mut state = 1_u32;
    let letter = |at: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let chance = usize::try_from(state >> 16).expect("16 bits");
        letters.as_bytes()[if letters.len() > 4 { chance } else { at } % letters.len()]
    };
    let text: Vec<u8> = (0..1_000_000).map(letter).collect();
    encode(bencher, &text, SplitPattern::None, 7_936, false);
}
