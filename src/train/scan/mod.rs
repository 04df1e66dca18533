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

use batch::{BatchLimits, BatchRule, BatchRules, CodeToken, choose};
use pass::apply;
use rayon::prelude::*;
use text::{
    Code, CodeText, JoinedSequences, MAX_CODES, PairCounts, RareBytes, count_pairs, join, share_code,
};

use super::corpus::SCAN_SEPARATOR;
use super::progress::TrainProgress;
use super::tie_break::ById;
use super::{Merge, MergeLog, Merges, Score, TrainConfig};
use crate::base::int::{Count, to_u64, u64_to_usize};
use crate::count::PretokenCounts;
use crate::error::Result;
use crate::observer::{Observer, Stage};

pub use simd::ScanEngine;

/// State after the merges that were learned by scanning.
pub(super) struct Scanned<'a> {
    /// Token ids of training, one per token, with [`SCAN_SEPARATOR`] between sequences. `None` if training is
    /// complete: there are enough merges, or no pair is left that may be merged.
    pub(super) text: Option<Vec<u16>>,
    /// The merges so far, with exact counts, and the history so far.
    pub(super) log: MergeLog<'a>,
    /// Number of tokens in the text, without the separators.
    pub(super) tokens: u64,
}

/// Parameters of the scan. Results do not depend on them, except for the number of merges learned by scanning.
#[derive(Clone, Copy, Debug)]
struct ScanTuning {
    /// Codes per chunk. A thread works on one chunk of the text at a time.
    chunk: usize,
    /// Bytes that make up less than `1 / rare_share` of the text share one code at first.
    rare_share: u64,
    /// Maximum number of merges that get one-byte codes.
    narrow_merges: usize,
    /// Number of codes at which the scan ends.
    max_codes: usize,
    /// Cost of merging one occurrence with lists, as the number of codes that can be scanned in the same time.
    codes_per_merge: u64,
    /// Implementation of the pass over the text.
    engine: ScanEngine,
}

/// Value of [`ScanTuning::codes_per_merge`] with which lists are never cheaper.
const NEVER: u64 = u64::MAX;

impl ScanTuning {
    /// Parameters for a text of `bytes` bytes.
    fn new(engine: ScanEngine, bytes: usize) -> ScanTuning {
        let is_cached = to_u64(bytes) < CACHED_BYTES;
        ScanTuning {
            chunk: if is_cached { 1 << 21 } else { 1 << 18 },
            rare_share: 2_500,
            narrow_merges: 256,
            max_codes: text::MAX_CODES,
            codes_per_merge: codes_per_merge(engine, is_cached),
            engine,
        }
    }
}

/// Bytes. Shorter texts are learned faster with lists from the start.
const MIN_BYTES: u64 = 1 << 18;

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
    let tuning = ScanTuning::new(ScanEngine::best(), pretokens.bytes());
    Scanner::new(pretokens, config, tuning, observer)?.run()
}

/// The merges that are learned by scanning alone, even where lists would be cheaper. For tests and benchmarks.
///
/// # Errors
/// The observer asks to stop.
pub fn merges_by_scanning(
    pretokens: PretokenCounts,
    config: &TrainConfig,
    engine: ScanEngine,
    observer: &dyn Observer,
) -> Result<Merges> {
    let tuning = ScanTuning { codes_per_merge: NEVER, ..ScanTuning::new(engine, pretokens.bytes()) };
    Ok(Merges::new(Scanner::new(pretokens, config, tuning, observer)?.run()?.log.merges))
}

/// Whether [`learn_by_scanning`] supports these settings and pays off for these sequences.
pub(super) fn is_suitable(pretokens: &PretokenCounts, config: &TrainConfig) -> bool {
    let bytes = to_u64(pretokens.bytes());
    supports(config, bytes)
        && text::joined_length(pretokens).is_some_and(|joined_length| joined_length <= bytes / 4 * 5)
}

/// Whether `bytes` bytes of sequences that seldom repeat are scanned for long enough that the lists after it
/// are short.
pub(super) fn shortens_lists(config: &TrainConfig, bytes: u64) -> bool {
    supports(config, bytes) && bytes >= CACHED_BYTES
}

/// Whether scanning supports these settings, and the text is long enough.
fn supports(config: &TrainConfig, bytes: u64) -> bool {
    let refuses_by_words = config.max_words.is_some();
    config.tie_break.compares_ids()
        && config.score == Score::Count
        && !refuses_by_words
        && config.merges > 0
        && bytes >= MIN_BYTES
}

/// State of the scan between two passes.
///
/// At first a code is one byte. Frequent bytes have their own values as codes, the rare bytes share the value
/// of one of them, and one value separates the sequences if no byte needs it. All other values are free for new
/// tokens.
///
/// When these run out, or when no pair is left that is more frequent than the rare bytes, the text gets codes
/// of two bytes and each rare byte a code of its own. If no value is left for the separator, codes have two
/// bytes from the start. The scan ends when the two-byte codes run out as well.
struct Scanner<'a> {
    order: ById,
    tuning: ScanTuning,
    observer: &'a dyn Observer,
    /// The text as it is now.
    text: CodeText,
    /// The count of every pair of codes in the text.
    counts: PairCounts,
    /// The tokens that may be merged.
    tokens: Vec<CodeToken>,
    /// Id in training of each code's token.
    ids: Vec<u16>,
    /// Unused codes for new tokens; the last one is used first.
    free: Vec<Code>,
    /// The bytes that share a code, until codes have two bytes.
    rare: Option<RareBytes>,
    /// Number of tokens in the text now.
    token_count: u64,
    log: MergeLog<'a>,
    /// Decides when lists become cheaper.
    costs: CostTracker,
}

impl<'a> Scanner<'a> {
    /// Lays out the text, assigns codes to the bytes, and counts the pairs.
    ///
    /// # Errors
    /// The observer asks to stop.
    fn new(
        pretokens: PretokenCounts,
        config: &'a TrainConfig,
        tuning: ScanTuning,
        observer: &'a dyn Observer,
    ) -> Result<Scanner<'a>> {
        // The text is laid out, its pairs are counted, and its rare bytes are found.
        const PASSES: u64 = 3;
        let length = text::joined_length(&pretokens).unwrap_or_default();
        observer.started(Stage::Prepare, Some(PASSES * length));
        let JoinedSequences { bytes, separator, separator_positions, separators } = join(pretokens);
        observer.advanced(Stage::Prepare, to_u64(bytes.len()));
        // All tokens but one of each sequence.
        let mergeable = bytes.len().saturating_sub(1 + 2 * u64_to_usize(separators));
        let token_count = to_u64(bytes.len()) - separators;
        let mut text = CodeText::new(bytes, tuning.chunk);
        let mut counts = count_pairs(&text, observer)?;
        let mut used = occurrences(&text, &counts);
        if let Some(separator) = separator {
            used[usize::from(separator)] = 0;
        }
        let rare = if separator_positions.is_empty() {
            RareBytes::choose(&used, token_count, tuning.rare_share)
        } else {
            None
        };
        let rare = rare.map(|rare| share_code(rare, &mut text, &mut counts, observer)).transpose()?;
        let is_rare = |byte| rare.as_ref().is_some_and(|rare| rare.has(byte));
        let frequent = |byte: &u8| used[usize::from(*byte)] > 0 && !is_rare(*byte);
        let kept =
            |byte: &u8| Some(*byte) == separator || rare.as_ref().is_some_and(|rare| rare.code == *byte);
        let free = (0..=255).rev().filter(|byte| !frequent(byte) && !kept(byte)).map(Code::from);
        let progress = TrainProgress::new(Stage::Train, config.merges, config, mergeable);
        let mut scanner = Scanner {
            order: ById::new(config.tie_break),
            tuning,
            observer,
            text,
            counts,
            tokens: Vec::new(),
            ids: vec![SCAN_SEPARATOR; MAX_CODES],
            free: free.take(tuning.narrow_merges).collect(),
            rare: None,
            token_count,
            log: MergeLog::new(config, token_count, progress),
            costs: CostTracker::default(),
        };
        (0..=255).filter(frequent).for_each(|byte| scanner.add_byte(byte, Code::from(byte)));
        scanner.rare = rare;
        if !separator_positions.is_empty() {
            scanner.widen();
            scanner.mark_separators(&separator_positions);
        }
        Ok(scanner)
    }

    /// Merges in rounds until there are enough merges, no pair is left that may be merged, the codes run out,
    /// or lists are cheaper.
    fn run(mut self) -> Result<Scanned<'a>> {
        let config = self.log.config;
        self.log.progress.prepared(0, self.observer);
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
            let limits = BatchLimits {
                min_count: config.min_count().max(self.rare.as_ref().map_or(0, |rare| rare.max_count + 1)),
                max_bytes: config.max_bytes(),
                max_pairs: wanted.min(self.free.len()),
            };
            let batch = choose(&self.counts, &self.tokens, limits);
            if batch.is_empty() {
                if self.rare.is_none() {
                    break true;
                }
                self.widen();
                continue;
            }
            if self.costs.lists_are_cheaper(wanted, self.tuning.codes_per_merge) {
                break false;
            }
            self.costs.note(batch.len(), batch.iter().map(|rule| rule.count).sum(), self.token_count);
            self.merge(batch)?;
        };
        Ok(self.finish(exhausted))
    }

    /// Number of further codes that two bytes give, if codes have one byte now.
    fn codes_to_come(&self) -> usize {
        if self.is_wide() { 0 } else { self.tuning.max_codes.saturating_sub(256) }
    }

    /// Whether codes have two bytes.
    fn is_wide(&self) -> bool {
        self.counts.side > 256
    }

    /// Adds a byte to the tokens that may be merged.
    fn add_byte(&mut self, byte: u8, code: Code) {
        let order = self.order.byte_order[usize::from(byte)];
        self.tokens.push(CodeToken { code, order, bytes: 1 });
        self.ids[usize::from(code)] = u16::from(byte);
    }

    /// Switches to codes of two bytes, and gives the rare bytes their own codes.
    fn widen(&mut self) {
        self.text.widen();
        self.counts = self.counts.widened(MAX_CODES);
        // The first two-byte code separates sequences, if no byte was left for that.
        let last = Code::try_from(self.tuning.max_codes.min(MAX_CODES)).expect("tables are small");
        self.free.splice(..0, (WIDE_SEPARATOR + 1..last).rev());
        let Some(rare) = self.rare.take() else { return };
        let codes: Vec<(u8, Code)> =
            (0..=255).filter(|&byte| rare.has(byte)).zip(WIDE_SEPARATOR + 1..).collect();
        self.free.retain(|code| !codes.iter().any(|(_, taken)| taken == code));
        codes.iter().for_each(|&(byte, code)| self.add_byte(byte, code));
        rare.restore(&codes, &mut self.text, &mut self.counts);
    }

    /// Replaces the zeros between sequences by a separator code of their own.
    fn mark_separators(&mut self, separator_positions: &[usize]) {
        let [low, high] = WIDE_SEPARATOR.to_le_bytes();
        for &gap in separator_positions {
            let (left, right) = (Code::from(self.text.low[gap - 1]), Code::from(self.text.low[gap + 1]));
            *self.counts.get_mut(left, 0) -= 1;
            *self.counts.get_mut(0, right) -= 1;
            *self.counts.get_mut(left, WIDE_SEPARATOR) += 1;
            *self.counts.get_mut(WIDE_SEPARATOR, right) += 1;
            (self.text.low[gap], self.text.high[gap]) = (low, high);
        }
    }

    /// Merges a batch in one pass over the text.
    fn merge(&mut self, mut batch: Vec<BatchRule>) -> Result<()> {
        for rule in &mut batch {
            rule.new_code = self.free.pop().expect("no more pairs are chosen than there are codes");
        }
        let rules = BatchRules::new(batch);
        let merges = rules.list.len();
        let limit = self.log.merges.len() + merges + self.free.len() + self.codes_to_come();
        self.log.progress.work.scanned(merges, self.token_count, limit);
        apply(&rules, &mut self.text, &mut self.counts, self.tuning.engine, self.observer)?;
        for rule in &rules.list {
            self.note(rule);
        }
        self.log.report(self.observer);
        Ok(())
    }

    /// Records one merge of a batch, as if the later merges of the batch were still to come.
    fn note(&mut self, rule: &BatchRule) {
        let id = u16::try_from(256 + self.log.merges.len()).expect("there are fewer codes");
        let [left, right] = [rule.left, rule.right].map(|code| u32::from(self.ids[usize::from(code)]));
        let bytes = self.length(rule.left) + self.length(rule.right);
        self.ids[usize::from(rule.new_code)] = id;
        self.tokens.push(CodeToken { code: rule.new_code, order: u32::from(id), bytes });
        let mut merged = rule.count;
        if rule.left == rule.right {
            // A run of n tokens has n − 1 pairs. Those between two new tokens, and the one before an odd token,
            // are not merged.
            merged -=
                self.counts.get(rule.new_code, rule.new_code) + self.counts.get(rule.new_code, rule.left);
        }
        self.token_count -= merged;
        let merge = Merge { left, right, count: Count::new(rule.count) };
        // Scanned sequences have weight 1, so pairs occur at as many positions as their counts say.
        self.log.push(merge, u64_to_usize(rule.count), self.token_count);
    }

    /// Length in bytes of the token with this code.
    fn length(&self, code: Code) -> usize {
        self.tokens.iter().find(|token| token.code == code).map_or(0, |token| token.bytes)
    }

    /// The result. `exhausted` says that no pair is left that may be merged.
    fn finish(mut self, exhausted: bool) -> Scanned<'a> {
        // The text gets the ids of training and is laid out for lists; its pairs are counted and listed.
        const PASSES: usize = 4;
        let continues = !exhausted && self.log.remaining() > 0;
        let text = continues.then(|| {
            let length = self.text.lengths.iter().sum::<usize>();
            self.log.progress.prepare(PASSES * length, self.observer);
            let shared = self.rare.as_ref().map(|rare| (rare.code, &*rare.bytes));
            let token_ids = to_token_ids(&self.text, &self.ids, shared);
            self.observer.advanced(Stage::Prepare, to_u64(length));
            token_ids
        });
        Scanned { text, log: self.log, tokens: self.token_count }
    }
}

/// How often each byte occurs: once as the left byte of each of its pairs, and once more if it ends the text.
fn occurrences(text: &CodeText, counts: &PairCounts) -> [u64; 256] {
    let mut used = std::array::from_fn(|byte| counts.row(Code::try_from(byte).expect("a byte")).iter().sum());
    if let Some(last) = text.low.last() {
        used[usize::from(*last)] += 1;
    }
    used
}

/// The text in the token ids of training. `shared` has the code that rare bytes share, and these bytes in
/// order.
fn to_token_ids(text: &CodeText, ids: &[u16], shared: Option<(u8, &[u8])>) -> Vec<u16> {
    let (code, mut bytes) = shared.unwrap_or_default();
    let mut token_ids = vec![0; text.lengths.iter().sum()];
    let mut rest = token_ids.as_mut_slice();
    let mut parts = Vec::with_capacity(text.lengths.len());
    for (chunk, &length) in text.lengths.iter().enumerate() {
        let (part, behind) = std::mem::take(&mut rest).split_at_mut(length);
        let range = chunk * text.chunk_capacity..chunk * text.chunk_capacity + length;
        let low = &text.low[range.clone()];
        let rare = if bytes.is_empty() { 0 } else { low.iter().filter(|&&low| low == code).count() };
        let (here, after) = bytes.split_at(rare);
        parts.push((part, low, text.high.get(range).unwrap_or_default(), here));
        (rest, bytes) = (behind, after);
    }
    parts.into_par_iter().for_each(|(part, low, high, rare)| {
        let highs = high.iter().copied().chain(std::iter::repeat(0));
        for ((number, &low), high) in part.iter_mut().zip(low).zip(highs) {
            *number = ids[usize::from(Code::from_le_bytes([low, high]))];
        }
        let shared = (0..low.len()).filter(|_| !rare.is_empty()).filter(|&at| low[at] == code);
        for (at, &byte) in shared.zip(rare) {
            part[at] = u16::from(byte);
        }
    });
    token_ids
}

/// Separates sequences if no one-byte code is left for that.
const WIDE_SEPARATOR: Code = 256;

/// Rounds that are averaged, because single rounds differ much.
const ROUNDS: usize = 8;

/// Rounds. If no more than these are likely to do all remaining merges, building lists does not pay off.
const FEW_ROUNDS: usize = 60;

/// Cost of merging one occurrence with lists, and of finding it for them, in codes that are scanned in the same
/// time. For texts that the caches do not hold, values from 150 to 500 are about equally fast with AVX-512; and
/// the later the lists are built, the less memory they take.
fn codes_per_merge(engine: ScanEngine, is_cached: bool) -> u64 {
    match engine {
        _ if !is_cached => 400,
        ScanEngine::Portable => 40,
        #[cfg(target_arch = "x86_64")]
        ScanEngine::Avx2 => 80,
        #[cfg(target_arch = "x86_64")]
        ScanEngine::Avx512 => 130,
    }
}

/// Decides when scanning is no longer worth it.
#[derive(Default)]
struct CostTracker {
    /// The last rounds, in a ring.
    rounds: [RoundCost; ROUNDS],
    /// Number of rounds so far.
    next: usize,
}

/// The costs of one round.
#[derive(Clone, Copy, Default)]
struct RoundCost {
    /// Number of pairs merged.
    merges: usize,
    /// Number of their occurrences.
    occurrences: u64,
    /// Number of codes scanned.
    codes: u64,
}

impl CostTracker {
    /// Records a round: the number of pairs that it merges, the number of their occurrences, and the number of
    /// codes that it scans.
    fn note(&mut self, merges: usize, occurrences: u64, codes: u64) {
        self.rounds[self.next % ROUNDS] = RoundCost { merges, occurrences, codes };
        self.next += 1;
    }

    /// Whether `wanted` more merges would take less time with lists, if merging one occurrence with them takes
    /// as long as scanning `codes_per_merge` codes.
    fn lists_are_cheaper(&self, wanted: usize, codes_per_merge: u64) -> bool {
        if self.next < ROUNDS {
            return false;
        }
        let merges: usize = self.rounds.iter().map(|round| round.merges).sum();
        let occurrences: u64 = self.rounds.iter().map(|round| round.occurrences).sum();
        let codes: u64 = self.rounds.iter().map(|round| round.codes).sum();
        let few = to_u64(wanted).saturating_mul(to_u64(ROUNDS)) <= to_u64(merges) * to_u64(FEW_ROUNDS);
        occurrences.saturating_mul(codes_per_merge) < codes && !few
    }
}
