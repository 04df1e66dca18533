//! The obvious trainer: count all pairs again, take the best, replace it, repeat.
//!
//! Tests compare it with [`learn_merges`](super::learn_merges) on all known cases and on random corpora. Time
//! grows with merges × length of the text.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use super::scores::Measures;
use super::{
    HistoryPoint, Learned, Merge, Merges, ParityConfig, ParityLearned, ParityPoint, ParityTexts, Score,
    TieBreak, TrainConfig,
};
use crate::base::int::{Count, to_f64, to_u64, to_usize, truncate_to_u32};
use crate::count::PretokenCounts;

/// Does what [`learn_merges`](super::learn_merges) does.
pub fn learn_merges(pretokens: &PretokenCounts, config: &TrainConfig) -> Learned {
    extend_merges(pretokens, &Merges::default(), config)
}

/// Does what [`extend_merges`](super::extend_merges) does.
pub fn extend_merges(pretokens: &PretokenCounts, base: &Merges, config: &TrainConfig) -> Learned {
    let mut sequences = sequences_of(pretokens);
    let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    let (mut merges, mut replaced) = (Vec::new(), Vec::new());
    let mut history = vec![HistoryPoint { merges: 0, tokens: count_tokens(&sequences) }];
    while merges.len() < config.merges.max(base.len()) {
        let given = base.iter().nth(merges.len()).map(|merge| (merge.left, merge.right));
        let given = given.map(|pair| (pair, count_pair(&sequences, pair)));
        let best = given.or_else(|| best_pair(&sequences, &tokens, config));
        let Some(((left, right), count)) = best else { break };
        let token = truncate_to_u32(tokens.len());
        tokens.push([&*tokens[to_usize(left)], &tokens[to_usize(right)]].concat());
        merges.push(Merge { left, right, count: Count::new(count) });
        let before = count_tokens(&sequences);
        for (sequence, _) in &mut sequences {
            *sequence = replace(sequence, (left, right), token);
        }
        replaced.push(before - count_tokens(&sequences));
        if merges.len() % config.history_every.max(1) == 0 || config.history_at.contains(&merges.len()) {
            history.push(HistoryPoint { merges: to_u64(merges.len()), tokens: count_tokens(&sequences) });
        }
    }
    if history.last().is_some_and(|last| last.merges != to_u64(merges.len())) {
        history.push(HistoryPoint { merges: to_u64(merges.len()), tokens: count_tokens(&sequences) });
    }
    Learned { merges: Merges::new(merges), history, replaced }
}

/// Does what [`learn_parity_merges`](super::learn_parity_merges) does, for texts and settings that suit each other.
pub fn learn_parity_merges(
    texts: &ParityTexts,
    config: &TrainConfig,
    parity: &ParityConfig,
) -> ParityLearned {
    let mut sources: Vec<_> = texts.sources.iter().map(sequences_of).collect();
    let mut development: Vec<_> = texts.development.iter().map(sequences_of).collect();
    let lengths = |texts: &[Vec<(Vec<u32>, u64)>]| -> Vec<u64> {
        texts.iter().map(|text| count_tokens(text)).collect()
    };
    let initial = lengths(&sources);
    let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    let (mut merges, mut replaced, mut points, mut choices) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut exhausted: Vec<bool> = initial.iter().map(|tokens| *tokens == 0).collect();
    loop {
        let is_end = |merges: &[Merge]| merges.len() >= config.merges;
        let point = ParityPoint {
            merges: to_u64(merges.len()),
            sources: lengths(&sources),
            development: lengths(&development),
        };
        let present = if parity.ratio.is_none() && !development.is_empty() {
            &point.development
        } else {
            &point.sources
        };
        let best = loop {
            if is_end(&merges) {
                break None;
            }
            if merges.len() < parity.global_merges {
                break best_pair(&sources.concat(), &tokens, config);
            }
            let Some(source) = worst_off(present, &initial, &exhausted, &choices, parity) else { break None };
            choices.push(source);
            let best = best_pair(&sources[source], &tokens, config);
            if best.is_some() {
                break best;
            }
            exhausted[source] = true;
        };
        let is_recorded = config.records_after(merges.len());
        if merges.is_empty() || is_recorded || best.is_none() {
            points.push(point);
        }
        let Some(((left, right), _)) = best else { break };
        let token = truncate_to_u32(tokens.len());
        tokens.push([&*tokens[to_usize(left)], &tokens[to_usize(right)]].concat());
        let count = sources.iter().map(|text| count_pair(text, (left, right))).sum();
        merges.push(Merge { left, right, count: Count::new(count) });
        let before: u64 = lengths(&sources).iter().sum();
        for (sequence, _) in sources.iter_mut().chain(&mut development).flatten() {
            *sequence = replace(sequence, (left, right), token);
        }
        replaced.push(before - lengths(&sources).iter().sum::<u64>());
    }
    let total =
        |point: &ParityPoint| HistoryPoint { merges: point.merges, tokens: point.sources.iter().sum() };
    let history = points.iter().map(total).collect();
    ParityLearned { learned: Learned { merges: Merges::new(merges), history, replaced }, history: points }
}

/// The source to choose next, of those that are not exhausted: in the order of need, the first that the window
/// allows, else the first.
fn worst_off(
    tokens: &[u64],
    initial: &[u64],
    exhausted: &[bool],
    choices: &[usize],
    parity: &ParityConfig,
) -> Option<usize> {
    let need = |source: usize| match &parity.ratio {
        None => to_f64(tokens[source]),
        Some(ratio) => -(to_f64(initial[source]) / to_f64(tokens[source]) / ratio[source]),
    };
    let is_allowed = |source: usize| {
        parity.window.is_none_or(|window| {
            let recent = choices.iter().rev().take(window.length).filter(|chosen| **chosen == source);
            to_f64(to_u64(recent.count())) / to_f64(to_u64(window.length))
                <= window.alpha / to_f64(to_u64(tokens.len()))
        })
    };
    let worst = |candidates: Vec<usize>| {
        let before = |one: usize, two: usize| if need(two) > need(one) { two } else { one };
        candidates.into_iter().reduce(before)
    };
    let left: Vec<usize> = (0..tokens.len()).filter(|source| !exhausted[*source]).collect();
    worst(left.iter().copied().filter(|source| is_allowed(*source)).collect()).or_else(|| worst(left))
}

/// The sequences as bytes, with their weights.
fn sequences_of(pretokens: &PretokenCounts) -> Vec<(Vec<u32>, u64)> {
    let bytes = |pretoken: &[u8]| pretoken.iter().map(|&byte| u32::from(byte)).collect();
    pretokens.iter().map(|(pretoken, count)| (bytes(pretoken), count.get())).collect()
}

/// How often a pair occurs, by weight; overlapping occurrences count each.
fn count_pair(sequences: &[(Vec<u32>, u64)], pair: (u32, u32)) -> u64 {
    let times = |sequence: &[u32]| sequence.windows(2).filter(|two| (two[0], two[1]) == pair).count();
    sequences.iter().map(|(sequence, weight)| to_u64(times(sequence)) * weight).sum()
}

/// The pair to merge next, with its count.
fn best_pair(
    sequences: &[(Vec<u32>, u64)],
    tokens: &[Vec<u8>],
    config: &TrainConfig,
) -> Option<((u32, u32), u64)> {
    let mut counts: FxHashMap<(u32, u32), (u64, usize)> = FxHashMap::default();
    let mut place_in_text = 0;
    for (sequence, weight) in sequences {
        for pair in sequence.windows(2) {
            counts.entry((pair[0], pair[1])).or_insert((0, place_in_text)).0 += weight;
            place_in_text += 1;
        }
    }
    let mut token_counts = vec![0; tokens.len()];
    for (sequence, weight) in sequences {
        sequence.iter().for_each(|&token| token_counts[to_usize(token)] += weight);
    }
    let bytes = |(left, right): (u32, u32)| (&tokens[to_usize(left)], &tokens[to_usize(right)]);
    let length = |pair: (u32, u32)| bytes(pair).0.len() + bytes(pair).1.len();
    let measures = |pair: (u32, u32), count: u64| Measures {
        count,
        left: token_counts[to_usize(pair.0)],
        right: token_counts[to_usize(pair.1)],
        bytes: to_u64(length(pair)),
    };
    let min_count = config.min_frequency.get().max(1);
    let few_words = |pair: (u32, u32), max_words: usize| {
        has_few_words(&[&**bytes(pair).0, bytes(pair).1].concat(), max_words)
    };
    let fits = |pair: (u32, u32)| {
        config.max_token_bytes.is_none_or(|max_bytes| length(pair) <= max_bytes)
            && config.max_words.is_none_or(|max_words| few_words(pair, max_words))
    };
    let candidates = counts.into_iter().filter(|&(pair, (count, _))| count >= min_count && fits(pair));
    let hf = |(left, right): (u32, u32)| (hf_order(left), hf_order(right));
    let spelled =
        |token: u32| tokens[to_usize(token)].iter().map(|&b| hf_order(u32::from(b))).collect::<Vec<_>>();
    let alphabet = |(left, right): (u32, u32)| (spelled(left), spelled(right));
    let best = candidates.max_by(|&(one, (one_count, one_first)), &(two, (two_count, two_first))| {
        let by_score = compare_scores(config.score, &measures(one, one_count), &measures(two, two_count));
        // `max_by` takes the greatest, so for rules that prefer the smaller pair the operands are swapped.
        by_score.then_with(|| match config.tie_break {
            TieBreak::Ids => two.cmp(&one),
            TieBreak::Hf => hf(two).cmp(&hf(one)),
            TieBreak::First => two_first.cmp(&one_first),
            TieBreak::BytesGreatest => bytes(one).cmp(&bytes(two)),
            TieBreak::BytesSmallest => bytes(two).cmp(&bytes(one)),
            TieBreak::AlphabetGreatest => alphabet(one).cmp(&alphabet(two)),
        })
    });
    best.map(|(pair, (count, _))| (pair, count))
}

/// Whether a token has at most this number of words, and no colon followed by a space.
pub(super) fn has_few_words(token: &[u8], max_words: usize) -> bool {
    let words = token.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).count();
    words <= max_words && !token.windows(2).any(|two| two == b": ")
}

/// Compares the scores of two pairs; fractions by cross-multiplication.
pub(super) fn compare_scores(score: Score, one: &Measures, two: &Measures) -> Ordering {
    match score {
        Score::Count => one.count.cmp(&two.count),
        Score::CountLength => product(&[one.count, one.bytes - 1]).cmp(&product(&[two.count, two.bytes - 1])),
        Score::Conditional(powers) => {
            let [p, q, r] = powers.values().map(usize::from);
            let side = |count: u64, other: &Measures| {
                product(&[vec![count; p], vec![other.left; q], vec![other.right; r]].concat())
            };
            side(one.count, two).cmp(&side(two.count, one))
        }
    }
}

/// The product as digits to base 2⁶⁴, highest first, after their number. So tuples compare as the products do.
fn product(factors: &[u64]) -> (usize, Vec<u64>) {
    let mut digits = vec![1];
    for &factor in factors {
        let mut carry = 0;
        for digit in digits.iter_mut().rev() {
            let sum = u128::from(*digit) * u128::from(factor) + carry;
            *digit = u64::try_from(sum % (1 << 64)).expect("the rest is less than the base");
            carry = sum >> 64;
        }
        if carry > 0 {
            digits.insert(0, u64::try_from(carry).expect("less than the factor"));
        }
    }
    (digits.len(), digits)
}

/// A byte's code point in GPT-2's byte alphabet. Any other token comes after all bytes.
fn hf_order(token: u32) -> u32 {
    match token {
        33..=126 | 161..=172 | 174..=255 => token,
        0..=32 => 256 + token,
        127..=160 => 256 + 33 + (token - 127),
        173 => 256 + 33 + 34,
        _ => token + 1_000,
    }
}

/// Replaces a pair from left to right, without overlap.
fn replace(sequence: &[u32], pair: (u32, u32), token: u32) -> Vec<u32> {
    let mut replaced = Vec::with_capacity(sequence.len());
    let mut rest = sequence;
    while let [first, after @ ..] = rest {
        if after.first().is_some_and(|&second| (*first, second) == pair) {
            replaced.push(token);
            rest = &after[1..];
        } else {
            replaced.push(*first);
            rest = after;
        }
    }
    replaced
}

/// Number of tokens in the corpus, by weight.
fn count_tokens(sequences: &[(Vec<u32>, u64)]) -> u64 {
    sequences.iter().map(|(sequence, weight)| to_u64(sequence.len()) * weight).sum()
}
