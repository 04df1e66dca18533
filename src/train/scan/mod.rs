//! Learns the first merges of a long text without lists of occurrences.
//!
//! Takes unweighted sequences; gives the text as tokens and the [merges](Scanned::log) so far, from which
//! the trainer with lists continues. The text is kept in place as one-byte codes (two bytes once these run
//! out), and a dense table holds the count of every pair. A round chooses an exact [batch] of pairs, merges it
//! in one [pass] over the text, and records the merges. The pass also compacts the text and counts the
//! neighbours of the merged pairs while they are in cache.
//!
//! On a long text the first lists would have nearly as many entries as the text has bytes; after some hundred
//! merges they are much shorter.

mod text;
mod batch;
mod pass;
mod simd;
#[cfg(test)]
mod tests;

use batch::{Limits, Rule, Rules, Token, choose};
use pass::apply;
use rayon::prelude::*;
use text::{Code, Layout, MOST_CODES, PairCounts, Rare, Text, count, lay_out, set_aside};

use super::tie_break::ById;
use super::{Merge, MergeLog, Merges, Score, TieBreak, TrainConfig};
use crate::base::int::{Count, to_u64};
use crate::count::PretokenCounts;
use crate::error::Result;
use crate::observer::{Observer, Stage};

pub use simd::Engine;

/// Separates sequences in [`Scanned::text`]. No token has this id.
pub(super) const BETWEEN: u16 = u16::MAX;

/// State after the merges that were learned by scanning.
pub(super) struct Scanned<'a> {
    /// Token ids of training, one per token, with [`BETWEEN`] between sequences. `None` if training is
    /// complete: there are enough merges, or no pair is left that may be merged.
    pub(super) text: Option<Vec<u16>>,
    /// The merges so far, with exact counts, and the history so far.
    pub(super) log: MergeLog<'a>,
    /// Number of tokens in the text, without the separators.
    pub(super) tokens: u64,
}

/// Parameters of the scan. Results do not depend on them, except for the number of merges learned by scanning.
#[derive(Clone, Copy, Debug)]
struct Tuning {
    /// Codes per chunk. A thread works on one chunk of the text at a time.
    chunk: usize,
    /// Bytes that make up less than `1 / rare_share` of the text share one code at first.
    rare_share: u64,
    /// Maximum number of merges that get one-byte codes.
    narrow_merges: usize,
    /// Number of codes at which the scan ends.
    most_codes: usize,
    /// Cost of merging one occurrence with lists, as the number of codes that can be scanned in the same time.
    codes_a_merge: u64,
    /// Implementation of the pass over the text.
    engine: Engine,
}

/// Value of [`Tuning::codes_a_merge`] with which lists are never cheaper.
const NEVER: u64 = u64::MAX;

impl Tuning {
    /// Parameters for a text of `bytes` bytes.
    fn new(engine: Engine, bytes: usize) -> Tuning {
        let is_cached = to_u64(bytes) < CACHED_BYTES;
        Tuning {
            chunk: if is_cached { 1 << 21 } else { 1 << 18 },
            rare_share: 2_500,
            narrow_merges: 256,
            most_codes: text::MOST_CODES,
            codes_a_merge: codes_a_merge(engine, is_cached),
            engine,
        }
    }
}

/// Bytes. Shorter texts are learned faster with lists from the start.
const LEAST_BYTES: u64 = 1 << 18;

/// Bytes. For shorter texts the lists refer to memory that fits the caches, so that they become cheaper
/// earlier.
const CACHED_BYTES: u64 = 1 << 24;

/// Learns merges by scanning for as long as that is cheaper than lists, or until there are enough merges or no
/// pair is left that may be merged.
///
/// The text is scanned on all threads of the current
/// pool; the result does not depend on their number.
///
/// **Memory:** 1 byte per byte of the text, 1 more per token once more than 256 codes are needed, and 2 per
/// token of the result.
///
/// # Errors
/// The observer asks to stop.
pub(super) fn learn_by_scanning<'a>(
    pretokens: PretokenCounts,
    config: &'a TrainConfig,
    observer: &'a dyn Observer,
) -> Result<Scanned<'a>> {
    let tuning = Tuning::new(Engine::best(), pretokens.bytes());
    Rounds::new(pretokens, config, tuning, observer)?.run()
}

/// The merges that are learned by scanning alone, even where lists would be cheaper. For tests and benchmarks.
///
/// # Errors
/// The observer asks to stop.
pub fn merges_by_scanning(
    pretokens: PretokenCounts,
    config: &TrainConfig,
    engine: Engine,
    observer: &dyn Observer,
) -> Result<Merges> {
    let tuning = Tuning { codes_a_merge: NEVER, ..Tuning::new(engine, pretokens.bytes()) };
    Ok(Merges::new(Rounds::new(pretokens, config, tuning, observer)?.run()?.log.merges))
}

/// Whether [`learn_by_scanning`] supports these settings and pays off for these sequences.
pub(super) fn suits(pretokens: &PretokenCounts, config: &TrainConfig) -> bool {
    let bytes = to_u64(pretokens.bytes());
    is_for(config, bytes) && text::laid_out(pretokens).is_some_and(|laid_out| laid_out <= bytes / 4 * 5)
}

/// Whether `bytes` bytes of sequences that seldom repeat are scanned for long enough that the lists after it
/// are short.
pub(super) fn keeps_lists_short(config: &TrainConfig, bytes: u64) -> bool {
    is_for(config, bytes) && bytes >= CACHED_BYTES
}

/// Whether scanning supports these settings, and the text is long enough.
fn is_for(config: &TrainConfig, bytes: u64) -> bool {
    let by_ids = matches!(config.tie_break, TieBreak::Ids | TieBreak::Hf);
    by_ids && config.score == Score::Count && config.merges > 0 && bytes >= LEAST_BYTES
}

/// State of the scan between rounds.
///
/// At first a code is one byte. Frequent bytes have their own values as codes, the rare bytes share the value
/// of one of them, and one value separates the sequences if no byte needs it. All other values are free for new
/// tokens.
///
/// When these run out, or when no pair is left that is more frequent than the rare bytes, the text gets codes
/// of two bytes and each rare byte a code of its own. If no value is left for the separator, codes have two
/// bytes from the start. The scan ends when the two-byte codes run out as well.
struct Rounds<'a> {
    order: ById,
    tuning: Tuning,
    observer: &'a dyn Observer,
    /// The text as it is now.
    text: Text,
    /// The count of every pair of codes in the text.
    counts: PairCounts,
    /// The tokens that may be merged.
    tokens: Vec<Token>,
    /// Id in training of each code's token.
    numbers: Vec<u16>,
    /// Unused codes for new tokens; the last one is used first.
    free: Vec<Code>,
    /// The bytes that share a code, until codes have two bytes.
    rare: Option<Rare>,
    /// Number of tokens in the text now.
    in_text: u64,
    log: MergeLog<'a>,
    /// Decides when lists become cheaper.
    worth: Worth,
}

impl<'a> Rounds<'a> {
    /// Lays out the text, assigns codes to the bytes, and counts the pairs.
    ///
    /// # Errors
    /// The observer asks to stop.
    fn new(
        pretokens: PretokenCounts,
        config: &'a TrainConfig,
        tuning: Tuning,
        observer: &'a dyn Observer,
    ) -> Result<Rounds<'a>> {
        let Layout { bytes, between, gaps, separators } = lay_out(pretokens);
        let in_text = to_u64(bytes.len()) - separators;
        let mut text = Text::new(bytes, tuning.chunk);
        let mut counts = count(&text, observer)?;
        let mut used = occurrences(&text, &counts);
        if let Some(between) = between {
            used[usize::from(between)] = 0;
        }
        let rare = if gaps.is_empty() { Rare::choose(&used, in_text, tuning.rare_share) } else { None };
        let rare = rare.map(|rare| set_aside(rare, &mut text, &mut counts, observer)).transpose()?;
        let is_rare = |byte| rare.as_ref().is_some_and(|rare| rare.has(byte));
        let frequent = |byte: &u8| used[usize::from(*byte)] > 0 && !is_rare(*byte);
        let kept = |byte: &u8| Some(*byte) == between || rare.as_ref().is_some_and(|rare| rare.code == *byte);
        let free = (0..=255).rev().filter(|byte| !frequent(byte) && !kept(byte)).map(Code::from);
        let mut rounds = Rounds {
            order: ById::new(config.tie_break),
            tuning,
            observer,
            text,
            counts,
            tokens: Vec::new(),
            numbers: vec![BETWEEN; MOST_CODES],
            free: free.take(tuning.narrow_merges).collect(),
            rare: None,
            in_text,
            log: MergeLog::new(config, in_text),
            worth: Worth::default(),
        };
        (0..=255).filter(frequent).for_each(|byte| rounds.add_byte(byte, Code::from(byte)));
        rounds.rare = rare;
        if !gaps.is_empty() {
            rounds.widen();
            rounds.mark_gaps(&gaps);
        }
        Ok(rounds)
    }

    /// Merges in rounds until there are enough merges, no pair is left that may be merged, the codes run out,
    /// or lists are cheaper.
    fn run(mut self) -> Result<Scanned<'a>> {
        let config = self.log.config;
        let exhausted = loop {
            let wanted = self.log.remaining();
            if wanted == 0 {
                break false;
            }
            if self.free.is_empty() {
                if self.is_wide() {
                    break false;
                }
                self.widen();
                continue;
            }
            self.observer.checkpoint()?;
            let limits = Limits {
                least: config.min_count().max(self.rare.as_ref().map_or(0, |rare| rare.most + 1)),
                longest: config.max_bytes(),
                most: wanted.min(self.free.len()),
            };
            let batch = choose(&self.counts, &self.tokens, limits);
            if batch.is_empty() {
                if self.rare.is_none() {
                    break true;
                }
                self.widen();
                continue;
            }
            if self.worth.lists_are_cheaper(wanted, self.tuning.codes_a_merge) {
                break false;
            }
            self.worth.note(batch.len(), batch.iter().map(|rule| rule.count).sum(), self.in_text);
            self.merge(batch)?;
        };
        Ok(self.finish(exhausted))
    }

    /// Whether codes have two bytes.
    fn is_wide(&self) -> bool {
        self.counts.side() > 256
    }

    /// Adds a byte to the tokens that may be merged.
    fn add_byte(&mut self, byte: u8, code: Code) {
        let order = self.order.byte_order[usize::from(byte)];
        self.tokens.push(Token { code, order, bytes: 1 });
        self.numbers[usize::from(code)] = u16::from(byte);
    }

    /// Switches to codes of two bytes, and gives the rare bytes their own codes.
    fn widen(&mut self) {
        self.text.widen();
        self.counts = self.counts.widened(MOST_CODES);
        // The first two-byte code separates sequences, if no byte was left for that.
        let last = Code::try_from(self.tuning.most_codes.min(MOST_CODES)).expect("tables are small");
        self.free.splice(..0, (WIDE_BETWEEN + 1..last).rev());
        let Some(rare) = self.rare.take() else { return };
        let codes: Vec<(u8, Code)> =
            (0..=255).filter(|&byte| rare.has(byte)).zip(WIDE_BETWEEN + 1..).collect();
        self.free.retain(|code| !codes.iter().any(|(_, taken)| taken == code));
        codes.iter().for_each(|&(byte, code)| self.add_byte(byte, code));
        rare.put_back(&codes, &mut self.text, &mut self.counts);
    }

    /// Replaces the zeros between sequences by a separator code of their own.
    fn mark_gaps(&mut self, gaps: &[usize]) {
        let [low, high] = WIDE_BETWEEN.to_le_bytes();
        for &gap in gaps {
            let (left, right) = (Code::from(self.text.low[gap - 1]), Code::from(self.text.low[gap + 1]));
            *self.counts.get_mut(left, 0) -= 1;
            *self.counts.get_mut(0, right) -= 1;
            *self.counts.get_mut(left, WIDE_BETWEEN) += 1;
            *self.counts.get_mut(WIDE_BETWEEN, right) += 1;
            (self.text.low[gap], self.text.high[gap]) = (low, high);
        }
    }

    /// Merges a batch in one pass over the text.
    fn merge(&mut self, mut batch: Vec<Rule>) -> Result<()> {
        for rule in &mut batch {
            rule.made = self.free.pop().expect("no more pairs are chosen than there are codes");
        }
        let rules = Rules::new(batch);
        apply(&rules, &mut self.text, &mut self.counts, self.tuning.engine, self.observer)?;
        for rule in &rules.list {
            self.note(rule);
        }
        self.observer.advanced(Stage::Train, to_u64(rules.list.len()));
        Ok(())
    }

    /// Records one merge of a batch, as if the later merges of the batch were still to come.
    fn note(&mut self, rule: &Rule) {
        let id = u16::try_from(256 + self.log.merges.len()).expect("there are fewer codes");
        let [left, right] = [rule.left, rule.right].map(|code| u32::from(self.numbers[usize::from(code)]));
        let bytes = self.length(rule.left) + self.length(rule.right);
        self.numbers[usize::from(rule.made)] = id;
        self.tokens.push(Token { code: rule.made, order: u32::from(id), bytes });
        let mut merged = rule.count;
        if rule.left == rule.right {
            // A run of n tokens has n − 1 pairs. Those between two new tokens, and the one before an odd token,
            // are not merged.
            merged -= self.counts.get(rule.made, rule.made) + self.counts.get(rule.made, rule.left);
        }
        self.in_text -= merged;
        self.log.push(Merge { left, right, count: Count::new(rule.count) }, self.in_text);
    }

    /// Length in bytes of the token with this code.
    fn length(&self, code: Code) -> usize {
        self.tokens.iter().find(|token| token.code == code).map_or(0, |token| token.bytes)
    }

    /// The result. `exhausted` says that no pair is left that may be merged.
    fn finish(self, exhausted: bool) -> Scanned<'a> {
        let goes_on = !exhausted && self.log.remaining() > 0;
        let text = goes_on.then(|| {
            let shared = self.rare.as_ref().map(|rare| (rare.code, rare.bytes()));
            numbered(&self.text, &self.numbers, shared)
        });
        Scanned { text, log: self.log, tokens: self.in_text }
    }
}

/// How often each byte occurs: once as the left byte of each of its pairs, and once more if it ends the text.
fn occurrences(text: &Text, counts: &PairCounts) -> [u64; 256] {
    let mut used = std::array::from_fn(|byte| counts.row(Code::try_from(byte).expect("a byte")).iter().sum());
    if let Some(last) = text.low.last() {
        used[usize::from(*last)] += 1;
    }
    used
}

/// The text in the token ids of training. `shared` has the code that rare bytes share, and these bytes in
/// order.
fn numbered(text: &Text, numbers: &[u16], shared: Option<(u8, &[u8])>) -> Vec<u16> {
    let (code, mut bytes) = shared.unwrap_or_default();
    let mut numbered = vec![0; text.lengths.iter().sum()];
    let mut rest = numbered.as_mut_slice();
    let mut parts = Vec::with_capacity(text.lengths.len());
    for (chunk, &length) in text.lengths.iter().enumerate() {
        let (part, behind) = std::mem::take(&mut rest).split_at_mut(length);
        let places = chunk * text.room..chunk * text.room + length;
        let low = &text.low[places.clone()];
        let set_aside = if bytes.is_empty() { 0 } else { low.iter().filter(|&&low| low == code).count() };
        let (here, after) = bytes.split_at(set_aside);
        parts.push((part, low, text.high.get(places).unwrap_or_default(), here));
        (rest, bytes) = (behind, after);
    }
    parts.into_par_iter().for_each(|(part, low, high, set_aside)| {
        let highs = high.iter().copied().chain(std::iter::repeat(0));
        for ((number, &low), high) in part.iter_mut().zip(low).zip(highs) {
            *number = numbers[usize::from(Code::from_le_bytes([low, high]))];
        }
        let places = (0..low.len()).filter(|_| !set_aside.is_empty()).filter(|&at| low[at] == code);
        for (at, &byte) in places.zip(set_aside) {
            part[at] = u16::from(byte);
        }
    });
    numbered
}

/// Separates sequences if no one-byte code is left for that.
const WIDE_BETWEEN: Code = 256;

/// Rounds that are averaged, because single rounds differ much.
const ROUNDS: usize = 8;

/// Rounds. If no more than these are likely to do all remaining merges, building lists does not pay off.
const FEW_ROUNDS: usize = 60;

/// Cost of merging one occurrence with lists, and of finding it for them, in codes that are scanned in the same
/// time. For texts that the caches do not hold, values from 150 to 500 are about equally fast with AVX-512; and
/// the later the lists are built, the less memory they take.
fn codes_a_merge(engine: Engine, is_cached: bool) -> u64 {
    match engine {
        _ if !is_cached => 400,
        Engine::Portable => 40,
        #[cfg(target_arch = "x86_64")]
        Engine::Avx2 => 80,
        #[cfg(target_arch = "x86_64")]
        Engine::Avx512 => 130,
    }
}

/// Decides when scanning is no longer worth it.
#[derive(Default)]
struct Worth {
    /// The last rounds, in a ring.
    rounds: [Round; ROUNDS],
    /// Number of rounds so far.
    next: usize,
}

/// The costs of one round.
#[derive(Clone, Copy, Default)]
struct Round {
    /// Number of pairs merged.
    merges: usize,
    /// Number of their occurrences.
    occurrences: u64,
    /// Number of codes scanned.
    codes: u64,
}

impl Worth {
    /// Records a round: the number of pairs that it merges, the number of their occurrences, and the number of
    /// codes that it scans.
    fn note(&mut self, merges: usize, occurrences: u64, codes: u64) {
        self.rounds[self.next % ROUNDS] = Round { merges, occurrences, codes };
        self.next += 1;
    }

    /// Whether `wanted` more merges would take less time with lists, if merging one occurrence with them takes
    /// as long as scanning `codes_a_merge` codes.
    fn lists_are_cheaper(&self, wanted: usize, codes_a_merge: u64) -> bool {
        if self.next < ROUNDS {
            return false;
        }
        let merges: usize = self.rounds.iter().map(|round| round.merges).sum();
        let occurrences: u64 = self.rounds.iter().map(|round| round.occurrences).sum();
        let codes: u64 = self.rounds.iter().map(|round| round.codes).sum();
        let few = to_u64(wanted).saturating_mul(to_u64(ROUNDS)) <= to_u64(merges) * to_u64(FEW_ROUNDS);
        occurrences.saturating_mul(codes_a_merge) < codes && !few
    }
}
