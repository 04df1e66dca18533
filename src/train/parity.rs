//! Parity-aware training: at each step it merges the most frequent pair of the source that is worst off, in all
//! sources.
//!
//! The definition is that of Foroutan et al., "Parity-Aware Byte-Pair Encoding" (ACL 2026, arXiv 2508.04796). The
//! text of all sources is laid out end to end, followed by that of all development texts. A pair has a count for each
//! source, and one list of its occurrences in all of them. Occurrences in development texts have no counts: merging
//! them only shortens the text.

use std::cmp::Reverse;
use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::corpus::{CompactWeight, Corpus, NOT_KEPT, PairId, SEPARATOR, positions};
use super::progress::{PassProgress, TrainProgress};
use super::queue::{PairOrder, PairQueue};
use super::scores::changed_positions;
use super::tie_break::{ByBytes, ById, TieOrder, compared_text};
use super::{Learned, Merge, MergeLog, Score, TieBreak, TrainConfig};
use crate::base::int::{Count, to_f64, to_u64, to_usize, truncate_to_u32};
use crate::count::PretokenCounts;
use crate::error::{Error, Result};
use crate::observer::{Observer, Stage};

/// How [`learn_parity_merges`] chooses the source of each merge. By default it is the source with the most tokens, of
/// several the first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParityConfig {
    /// The compression that each source should have in proportion to that of the others: the number of tokens before
    /// the first merge, divided by the present one. The source with the least compression, divided by its ratio, is
    /// chosen. Development texts then decide nothing.
    pub ratio: Option<Vec<f64>>,
    /// Limits how often the same source is chosen. `None` means no limit.
    pub window: Option<ParityWindow>,
    /// Number of merges at the beginning that are learned from all sources together, as without parity.
    pub global_merges: usize,
}

/// A limit for the choice of the same source: the moving window of the definition.
///
/// A source is passed over while more than `alpha` / n of the last `length` choices were this source, where n is the
/// number of sources. If all that have a pair left are over this limit, there is none for this choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParityWindow {
    /// Number of choices that are looked back at. At least 1.
    pub length: usize,
    /// How many times its even share of the choices a source may have. At least 1.
    pub alpha: f64,
}

/// Default of [`ParityWindow::length`].
pub const DEFAULT_PARITY_WINDOW: usize = 100;

/// Default of [`ParityWindow::alpha`].
pub const DEFAULT_PARITY_ALPHA: f64 = 2.0;

impl Default for ParityWindow {
    fn default() -> ParityWindow {
        ParityWindow { length: DEFAULT_PARITY_WINDOW, alpha: DEFAULT_PARITY_ALPHA }
    }
}

/// The texts of parity-aware training.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParityTexts {
    /// The training text of each source.
    pub sources: Vec<PretokenCounts>,
    /// A development text for each source, or none at all. They are best translations of one text, so that equal
    /// numbers of tokens mean equal costs. Their tokens are compared instead of those of the training texts, and no
    /// merge is learned from them.
    pub development: Vec<PretokenCounts>,
}

/// Numbers of tokens of all sources after some merges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParityPoint {
    /// Number of merges so far.
    pub merges: u64,
    /// Number of tokens in the training text of each source.
    pub sources: Vec<u64>,
    /// Number of tokens in the development text of each source; empty if there are none.
    pub development: Vec<u64>,
}

/// Result of parity-aware training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParityLearned {
    /// The merges with their counts in all sources together, and the history of all training texts together.
    pub learned: Learned,
    /// The tokens of each source, after the same numbers of merges as in the history.
    pub history: Vec<ParityPoint>,
}

/// Learns merges from several sources so that none of them is left behind: at each step it chooses a source, as
/// [`ParityConfig`] says, and merges the most frequent pair of this source, in all sources. A source that has no pair
/// of the minimum frequency left is not chosen again. Training ends with the last such source.
///
/// The merges are those of `ParityBpeTrainer` in Hugging Face's crate `tk-train` if
/// [`tie_break`](TrainConfig::tie_break) is [`TieBreak::AlphabetGreatest`]. The result depends on the texts and the
/// settings alone.
///
/// **Memory:** about [`parity_memory_estimate`](super::parity_memory_estimate).
///
/// # Errors
/// - [`ErrorKind::Usage`](crate::ErrorKind::Usage): there are fewer than two sources, the score is not
///   [`Score::Count`], the tie rule is [`TieBreak::First`], the words of a token are limited, or a setting is out of
///   range.
/// - [`ErrorKind::Memory`](crate::ErrorKind::Memory) if the positions of all texts together do not fit 32 bits.
/// - The number of tokens in all texts together does not fit 64 bits.
/// - The observer asks to stop.
///
/// # Examples
/// ```
/// use tokenmill::count::PretokenCounts;
/// use tokenmill::observer::Silent;
/// use tokenmill::train::{ParityConfig, ParityTexts, TrainConfig, learn_parity_merges};
/// use tokenmill::Count;
///
/// let text = |word: &[u8], count| PretokenCounts::from_iter([(word, Count::new(count))]);
/// let texts = ParityTexts { sources: vec![text(b"abcd", 9), text(b"xyz", 8)], development: Vec::new() };
/// let learned = learn_parity_merges(texts, &TrainConfig::new(2), &ParityConfig::default(), &Silent)?.learned;
/// // The first source has 36 tokens, then 27. The second, which has 24, waits.
/// let pairs: Vec<_> = learned.merges.iter().map(|merge| (merge.left, merge.right)).collect();
/// assert_eq!(pairs, [(97, 98), (99, 100)]);
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn learn_parity_merges(
    texts: ParityTexts,
    config: &TrainConfig,
    parity: &ParityConfig,
    observer: &dyn Observer,
) -> Result<ParityLearned> {
    check(&texts, config, parity)?;
    let sources = texts.sources.len();
    let (text, parts) = joined(texts);
    observer.started(Stage::Prepare, Some(to_u64(2 * positions(&text))));
    let corpus = Corpus::new(&text, observer)?;
    let bytes = compared_text(&text, config.tie_break);
    drop(text);
    let progress = TrainProgress::new(Stage::Train, config.merges, config, corpus.mergeable());
    let log = MergeLog::new(config, 0, progress);
    let ties = Ties::new(config.tie_break, &bytes);
    ParityTrainer::new(corpus, parts, sources, log, ties, parity, observer)?.run(observer)
}

/// Checks that the settings suit each other and the texts.
///
/// # Errors
/// They do not ([`ErrorKind::Usage`](crate::ErrorKind::Usage)).
fn check(texts: &ParityTexts, config: &TrainConfig, parity: &ParityConfig) -> Result<()> {
    let sources = texts.sources.len();
    let wrong = |problem: String, help: &'static str| Err(Error::usage(problem).with_help(help));
    if sources < 2 {
        return wrong(format!("parity needs two sources or more, not {sources}"), "add the other sources");
    }
    if !texts.development.is_empty() && texts.development.len() != sources {
        let problem = format!("{} development texts for {sources} sources", texts.development.len());
        return wrong(problem, "give each source one, or none");
    }
    if config.score != Score::Count {
        return wrong(format!("parity cannot be combined with the score {}", config.score), "use `count`");
    }
    if config.max_words.is_some() {
        return wrong("parity cannot be combined with `max_words`".to_owned(), "leave it out");
    }
    if config.tie_break == TieBreak::First {
        let problem = "parity cannot be combined with the tie rule `first`: sources have no common order";
        return wrong(problem.to_owned(), "use another tie rule");
    }
    if let Some(ratio) = &parity.ratio {
        if ratio.len() != sources {
            return wrong(format!("{} ratios for {sources} sources", ratio.len()), "give each source one");
        }
        if let Some(ratio) = ratio.iter().find(|ratio| !(ratio.is_finite() && **ratio > 0.0)) {
            return wrong(format!("a ratio cannot be {ratio}"), "it is above 0");
        }
    }
    if let Some(ParityWindow { length, alpha }) = parity.window {
        if length == 0 {
            return wrong("the window of parity cannot be 0".to_owned(), "it is 1 or more");
        }
        if !(alpha.is_finite() && alpha >= 1.0) {
            let help = "it is 1 or more: below, the limits of all sources leave a part of the merges to none";
            return wrong(format!("alpha cannot be {alpha}"), help);
        }
    }
    Ok(())
}

/// All texts one after the other, first those of the sources, and the position at which each of them ends.
fn joined(ParityTexts { sources, development }: ParityTexts) -> (PretokenCounts, Vec<usize>) {
    let (mut text, mut ends) = (PretokenCounts::new(), Vec::new());
    for part in sources.into_iter().chain(development) {
        part.iter().for_each(|(pretoken, count)| text.push(pretoken, count));
        ends.push(positions(&text));
    }
    (text, ends)
}

/// A pair of tokens that may be merged.
struct ParityPair {
    left: u32,
    right: u32,
    /// Positions at which the pair occurred when it was created, ascending.
    positions: Vec<u32>,
}

/// State of the training loop. A step takes time for the occurrences that it merges, in all sources.
struct ParityTrainer<'a> {
    log: MergeLog<'a>,
    /// The texts as they are now, with the ids of the kept pairs.
    corpus: Corpus<CompactWeight>,
    /// Index of the sequence at each position.
    sequences: Vec<u32>,
    /// Position at which each text ends: those of the sources, then the development texts.
    parts: Vec<usize>,
    /// Number of tokens in each text.
    tokens: Vec<u64>,
    /// Number of sources.
    sources: usize,
    /// All pairs that were ever kept, by id. The first is a placeholder for [`NOT_KEPT`].
    pairs: Vec<ParityPair>,
    /// How often each pair occurs in each source, by pair, then by source.
    counts: Vec<u64>,
    /// The pairs that may be merged: a queue for each source, and one for all together if merges begin globally.
    queues: Vec<PairQueue<PairKey<'a>>>,
    ties: Ties<'a>,
    selection: Selection<'a>,
    history: Vec<ParityPoint>,
}

impl<'a> ParityTrainer<'a> {
    /// Starts on texts that end at the positions `parts`: first those of the sources, then the development texts.
    ///
    /// # Errors
    /// The observer asks to stop.
    fn new(
        corpus: Corpus<CompactWeight>,
        parts: Vec<usize>,
        sources: usize,
        log: MergeLog<'a>,
        ties: Ties<'a>,
        parity: &'a ParityConfig,
        observer: &dyn Observer,
    ) -> Result<ParityTrainer<'a>> {
        let queues = sources + usize::from(parity.global_merges > 0);
        let min_count = log.config.min_count();
        let mut trainer = ParityTrainer {
            log,
            sequences: corpus.sequence_numbers(),
            tokens: vec![0; parts.len()],
            parts,
            sources,
            pairs: vec![ParityPair { left: SEPARATOR, right: SEPARATOR, positions: Vec::new() }],
            counts: vec![0; sources],
            queues: std::iter::repeat_with(|| PairQueue::new(min_count)).take(queues).collect(),
            ties,
            selection: Selection::new(parity, sources),
            history: Vec::new(),
            corpus,
        };
        trainer.count_tokens();
        let length = trainer.corpus.cells.len();
        let mut pass = PassProgress::new(observer);
        trainer.find_pairs(0..length, |position| pass.reached(position))?;
        pass.ended(length);
        trainer.log.progress.prepared(length, observer);
        trainer.log.report(observer);
        Ok(trainer)
    }

    /// Counts the tokens of each text, before the first merge.
    fn count_tokens(&mut self) {
        let mut part = 0;
        for (position, cell) in self.corpus.cells.iter().enumerate() {
            while position >= self.parts[part] && part + 1 < self.parts.len() {
                part += 1;
            }
            if cell.token != SEPARATOR {
                self.tokens[part] += self.corpus.weight(self.sequences[position]);
            }
        }
        self.log.tokens = self.text_tokens();
        self.log.history[0].tokens = self.log.tokens;
        self.selection.exhausted = self.tokens[..self.sources].iter().map(|tokens| *tokens == 0).collect();
        self.selection.initial = balanced(&self.tokens, self.sources, self.selection.config).to_vec();
        self.record();
    }

    /// Merges pairs until there are enough merges or no source has a pair left that may be merged.
    fn run(mut self, observer: &dyn Observer) -> Result<ParityLearned> {
        while self.log.remaining() > 0 {
            observer.checkpoint()?;
            let Some(best) = self.best() else { break };
            self.merge(best);
            self.log.report(observer);
        }
        let tokens = self.text_tokens();
        let learned = self.log.finish(tokens, observer);
        if let (Some(point), Some(last)) = (self.history.last(), learned.history.last())
            && point.merges != last.merges
        {
            self.history.push(ParityPoint { merges: last.merges, ..point_of(&self.tokens, self.sources) });
        }
        Ok(ParityLearned { learned, history: self.history })
    }

    /// Whether the next merge is learned from all sources together.
    fn is_global(&self) -> bool {
        self.log.merges.len() < self.selection.config.global_merges
    }

    /// The pair to merge next.
    fn best(&mut self) -> Option<PairId> {
        if self.is_global() {
            return self.pop(None);
        }
        while let Some(source) =
            self.selection.next(balanced(&self.tokens, self.sources, self.selection.config))
        {
            if let Some(best) = self.pop(Some(source)) {
                return Some(best);
            }
            self.selection.exhausted[source] = true;
        }
        None
    }

    /// The most frequent pair of a source, or of all sources together.
    fn pop(&mut self, source: Option<usize>) -> Option<PairId> {
        let ParityTrainer { pairs, counts, queues, ties, sources, .. } = self;
        let order = SourceOrder { source, sources: *sources, pairs, counts, ties };
        queues[source.unwrap_or(*sources)].pop(&order)
    }

    /// Number of tokens in the texts of all sources.
    fn text_tokens(&self) -> u64 {
        self.tokens[..self.sources].iter().sum()
    }

    /// Records the present numbers of tokens.
    fn record(&mut self) {
        let merges = to_u64(self.log.merges.len());
        self.history.push(ParityPoint { merges, ..point_of(&self.tokens, self.sources) });
    }

    /// Merges a pair in all texts.
    fn merge(&mut self, best: PairId) {
        let ParityPair { left, right, .. } = self.pairs[to_usize(best)];
        let count = self.counts_of(best).iter().sum();
        let token = self.corpus.add_token(left, right);
        let sites = self.replace(best, token);
        self.log.push(Merge { left, right, count: Count::new(count) }, sites.len(), self.text_tokens());
        if self.log.history.len() > self.history.len() {
            self.record();
        }
        self.ties.bytes.token_created(sites[0], self.corpus.length(token));
        let changed = changed_positions(&self.corpus, &sites, token).into_iter();
        self.find_pairs(changed, |_| Ok(())).expect("nothing stops it");
    }

    /// How often a pair occurs in each source.
    fn counts_of(&self, pair: PairId) -> &[u64] {
        &self.counts[to_usize(pair) * self.sources..][..self.sources]
    }

    /// Writes the token over the occurrences of its pair, from left to right without overlap, and lowers the
    /// counts of the pairs that end there. Returns the positions.
    fn replace(&mut self, best: PairId, token: u32) -> Vec<usize> {
        let left = self.pairs[to_usize(best)].left;
        let positions = std::mem::take(&mut self.pairs[to_usize(best)].positions);
        let (mut sites, mut lowered, mut part) = (Vec::new(), Vec::new(), 0);
        for position in positions.into_iter().map(to_usize) {
            if self.corpus.cells[position].pair != best {
                continue;
            }
            while position >= self.parts[part] {
                part += 1;
            }
            let weight = self.corpus.weight(self.sequences[position]);
            for pair in self.corpus.replace(position, left, token) {
                if pair != NOT_KEPT && part < self.sources {
                    self.counts[to_usize(pair) * self.sources + part] -= weight;
                    lowered.push(pair);
                }
            }
            self.tokens[part] -= weight;
            sites.push(position);
        }
        lowered.sort_unstable();
        lowered.dedup();
        for pair in lowered {
            if !self.may_be_merged(self.counts_of(pair)) {
                self.pairs[to_usize(pair)].positions = Vec::new();
            }
        }
        sites
    }

    /// Whether a pair with these counts may ever be merged: counts only fall.
    fn may_be_merged(&self, counts: &[u64]) -> bool {
        let min_count = self.log.config.min_count();
        let globally = || self.is_global() && counts.iter().sum::<u64>() >= min_count;
        counts.iter().any(|count| *count >= min_count) || globally()
    }

    /// Finds the pairs that begin at these positions, all of them new, and keeps those that may ever be merged.
    /// Positions of each pair are ascending. `reached` is called with each position.
    ///
    /// # Errors
    /// Those of `reached`.
    fn find_pairs(
        &mut self,
        positions: impl Iterator<Item = usize>,
        mut reached: impl FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let (mut found, mut counts, mut part) = (Vec::new(), Vec::new(), 0);
        let mut ids: FxHashMap<(u32, u32), usize> = FxHashMap::default();
        for position in positions {
            reached(position)?;
            let Some((left, right)) = self.corpus.pair_at(position) else { continue };
            while position >= self.parts[part] {
                part += 1;
            }
            let id = *ids.entry((left, right)).or_insert_with(|| {
                found.push(ParityPair { left, right, positions: Vec::new() });
                counts.resize(counts.len() + self.sources, 0);
                found.len() - 1
            });
            if part < self.sources {
                counts[id * self.sources + part] += self.corpus.weight(self.sequences[position]);
            }
            found[id].positions.push(truncate_to_u32(position));
        }
        drop(ids);
        let longest = self.log.config.max_bytes();
        for (pair, counts) in found.into_iter().zip(counts.chunks(self.sources)) {
            let bytes = self.corpus.length(pair.left) + self.corpus.length(pair.right);
            if bytes <= longest && self.may_be_merged(counts) {
                self.keep(pair, counts);
            }
        }
        Ok(())
    }

    /// Adds a pair and puts it into the queues.
    fn keep(&mut self, pair: ParityPair, of_sources: &[u64]) {
        let id = truncate_to_u32(self.pairs.len());
        for &position in &pair.positions {
            self.corpus.cells[to_usize(position)].pair = id;
        }
        self.pairs.push(pair);
        self.counts.extend(of_sources);
        let ParityTrainer { pairs, counts, queues, ties, sources, .. } = self;
        for (number, queue) in queues.iter_mut().enumerate() {
            let source = (number < *sources).then_some(number);
            queue.push(id, &SourceOrder { source, sources: *sources, pairs, counts, ties });
        }
    }
}

/// The numbers of tokens by which the sources are compared, of those of all texts: ratios are of training texts.
fn balanced<'t>(tokens: &'t [u64], sources: usize, parity: &ParityConfig) -> &'t [u64] {
    let (texts, development) = tokens.split_at(sources);
    if development.is_empty() || parity.ratio.is_some() { texts } else { development }
}

/// The numbers of tokens of all texts, without that of merges.
fn point_of(tokens: &[u64], sources: usize) -> ParityPoint {
    let (texts, development) = tokens.split_at(sources);
    ParityPoint { merges: 0, sources: texts.to_vec(), development: development.to_vec() }
}

/// Chooses the source of each merge.
struct Selection<'a> {
    config: &'a ParityConfig,
    /// Numbers of tokens by which the sources are compared, before the first merge.
    initial: Vec<u64>,
    /// Whether each source has no pair left that may be merged.
    exhausted: Vec<bool>,
    /// The last choices, as many as the window has. One that found a source exhausted is among them, as in the
    /// definition.
    recent: VecDeque<usize>,
}

impl<'a> Selection<'a> {
    /// No choice so far.
    fn new(config: &'a ParityConfig, sources: usize) -> Selection<'a> {
        Selection { config, initial: Vec::new(), exhausted: vec![false; sources], recent: VecDeque::new() }
    }

    /// Chooses a source by the present numbers of tokens. `None` if all are exhausted.
    fn next(&mut self, tokens: &[u64]) -> Option<usize> {
        let mut left: Vec<usize> = (0..tokens.len()).filter(|&source| !self.exhausted[source]).collect();
        // Stable sorting puts the first of equal sources first.
        match &self.config.ratio {
            None => left.sort_by_key(|&source| Reverse(tokens[source])),
            Some(ratio) => {
                let compression = |source: usize| to_f64(self.initial[source]) / to_f64(tokens[source]);
                let adjusted = |source: usize| compression(source) / ratio[source];
                left.sort_by(|&one, &two| adjusted(one).total_cmp(&adjusted(two)));
            }
        }
        let Some(window) = self.config.window else { return left.first().copied() };
        let limit = window.alpha / to_f64(to_u64(tokens.len()));
        let share = |source: usize| {
            let chosen = self.recent.iter().filter(|recent| **recent == source).count();
            to_f64(to_u64(chosen)) / to_f64(to_u64(window.length))
        };
        let within = left.iter().find(|source| share(**source) <= limit);
        let source = *within.or(left.first())?;
        self.recent.push_back(source);
        if self.recent.len() > window.length {
            self.recent.pop_front();
        }
        Some(source)
    }
}

/// The tie rule, and the bytes that it compares.
struct Ties<'a> {
    rule: TieBreak,
    ids: ById,
    bytes: ByBytes<'a>,
}

/// What a tie rule compares. The pair with the smallest key is merged first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PairKey<'a> {
    Ranks(u64, u64),
    Smallest(&'a [u8], &'a [u8]),
    Greatest(Reverse<(&'a [u8], &'a [u8])>),
}

impl<'a> Ties<'a> {
    /// `bytes` has the byte at each position of the corpus, if the rule compares bytes.
    fn new(rule: TieBreak, bytes: &'a [u8]) -> Ties<'a> {
        Ties { rule, ids: ById::new(rule), bytes: ByBytes::new(bytes, rule.compared_bytes()) }
    }

    /// The key of a pair.
    fn key(&self, pair: &ParityPair) -> PairKey<'a> {
        let bytes = || (self.bytes.of(pair.left), self.bytes.of(pair.right));
        match self.rule {
            // The order of the text was refused.
            TieBreak::Ids | TieBreak::Hf | TieBreak::First => {
                PairKey::Ranks(self.ids.rank(pair.left), self.ids.rank(pair.right))
            }
            TieBreak::BytesSmallest => PairKey::Smallest(bytes().0, bytes().1),
            TieBreak::BytesGreatest | TieBreak::AlphabetGreatest => PairKey::Greatest(Reverse(bytes())),
        }
    }
}

/// Gives a [`PairQueue`] access to the counts of its source, or of all sources together.
struct SourceOrder<'v, 'a> {
    source: Option<usize>,
    sources: usize,
    pairs: &'v [ParityPair],
    counts: &'v [u64],
    ties: &'v Ties<'a>,
}

impl<'a> PairOrder for SourceOrder<'_, 'a> {
    type Key = PairKey<'a>;

    fn count(&self, pair: PairId) -> u64 {
        let counts = &self.counts[to_usize(pair) * self.sources..][..self.sources];
        self.source.map_or_else(|| counts.iter().sum(), |source| counts[source])
    }

    fn key(&self, pair: PairId) -> PairKey<'a> {
        self.ties.key(&self.pairs[to_usize(pair)])
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::observer::Silent;
    use crate::train::{learn_merges, reference};

    /// Random texts of several sources, over few symbols, with development texts or without.
    fn texts() -> impl Strategy<Value = ParityTexts> {
        let word = || {
            let symbols = proptest::sample::select(b"aab\xc3 ".as_slice());
            prop_oneof![vec(symbols, 1..12), vec(any::<u8>(), 1..6)]
        };
        let text = move || {
            vec((word(), 0..40u64), 0..8).prop_map(|words| {
                words.iter().map(|(word, count)| (&**word, Count::new(*count))).collect::<PretokenCounts>()
            })
        };
        (2..5usize, any::<bool>()).prop_flat_map(move |(sources, develops)| {
            let development = vec(text(), if develops { sources } else { 0 });
            (vec(text(), sources), development)
                .prop_map(|(sources, development)| ParityTexts { sources, development })
        })
    }

    fn parity() -> impl Strategy<Value = ParityConfig> {
        let window = (1..7usize, prop_oneof![Just(1.0), Just(1.5), Just(2.0)])
            .prop_map(|(length, alpha)| ParityWindow { length, alpha });
        let ratio = proptest::option::of(vec(prop_oneof![Just(1.0), Just(0.5), Just(1.7)], 4));
        (ratio, proptest::option::of(window), prop_oneof![Just(0), 1..20usize])
            .prop_map(|(ratio, window, global_merges)| ParityConfig { ratio, window, global_merges })
    }

    fn config() -> impl Strategy<Value = TrainConfig> {
        let rules = TieBreak::ALL.into_iter().filter(|rule| *rule != TieBreak::First).collect::<Vec<_>>();
        let max_token_bytes = proptest::option::of(2..6usize);
        (0..50usize, proptest::sample::select(rules), 0..4u64, max_token_bytes, 1..5usize).prop_map(
            |(merges, tie_break, min_frequency, max_token_bytes, history_every)| TrainConfig {
                tie_break,
                min_frequency: Count::new(min_frequency),
                max_token_bytes,
                history_every,
                ..TrainConfig::new(merges)
            },
        )
    }

    proptest! {
        #[test]
        fn the_loop_learns_what_the_reference_learns(
            texts in texts(),
            config in config(),
            mut parity in parity(),
        ) {
            if let Some(ratio) = &mut parity.ratio {
                ratio.truncate(texts.sources.len());
            }
            let learned = learn_parity_merges(texts.clone(), &config, &parity, &Silent).unwrap();
            prop_assert_eq!(learned, reference::learn_parity_merges(&texts, &config, &parity));
        }

        #[test]
        fn global_merges_alone_are_those_of_one_text(texts in texts(), config in config()) {
            let whole: PretokenCounts = texts.sources.iter().flat_map(PretokenCounts::iter).collect();
            let parity = ParityConfig { global_merges: config.merges, ..ParityConfig::default() };
            let learned = learn_parity_merges(texts, &config, &parity, &Silent).unwrap().learned;
            prop_assert_eq!(learned, learn_merges(whole, &config, &Silent).unwrap());
        }
    }

    fn text<const N: usize>(words: [(&[u8], u64); N]) -> PretokenCounts {
        words.into_iter().map(|(word, count)| (word, Count::new(count))).collect()
    }

    fn pairs(texts: &ParityTexts, merges: usize, parity: &ParityConfig) -> Vec<String> {
        let learned = learn_parity_merges(texts.clone(), &TrainConfig::new(merges), parity, &Silent).unwrap();
        let letter = |token| char::from_u32(token).filter(char::is_ascii).unwrap_or('+');
        learned.learned.merges.iter().map(|m| [letter(m.left), letter(m.right)].iter().collect()).collect()
    }

    #[test]
    fn the_source_with_the_most_tokens_is_served() {
        let sources = vec![text([(b"ab", 30), (b"cd", 20)]), text([(b"xy", 12), (b"uv", 10)])];
        let texts = ParityTexts { sources, development: Vec::new() };
        assert_eq!(pairs(&texts, 4, &ParityConfig::default()), ["ab", "cd", "xy", "uv"]);
        // The second has the more tokens in the development texts.
        let development = vec![text([(b"ab", 1)]), text([(b"xyuv", 1)])];
        let developed = ParityTexts { development, ..texts.clone() };
        assert_eq!(pairs(&developed, 4, &ParityConfig::default()), ["xy", "uv", "ab", "cd"]);
        // Both have the same compression at first, so the first is chosen; after that the second has less.
        let by_ratio = ParityConfig { ratio: Some(vec![1.0, 1.0]), ..ParityConfig::default() };
        assert_eq!(pairs(&texts, 4, &by_ratio), ["ab", "xy", "uv", "cd"]);
        let window = Some(ParityWindow { length: 2, alpha: 1.0 });
        let limited = ParityConfig { window, ..ParityConfig::default() };
        assert_eq!(pairs(&texts, 4, &limited), ["ab", "cd", "xy", "uv"]);
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let two =
            ParityTexts { sources: vec![text([(b"ab", 3)]), text([(b"cd", 3)])], development: Vec::new() };
        let refused = |texts: &ParityTexts, config: TrainConfig, parity: ParityConfig| {
            let error = learn_parity_merges(texts.clone(), &config, &parity, &Silent).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Usage);
            error.to_string()
        };
        let (config, parity) = (TrainConfig::new(3), ParityConfig::default());
        let one = ParityTexts { sources: two.sources[..1].to_vec(), development: Vec::new() };
        assert!(refused(&one, config.clone(), parity.clone()).contains("two sources"));
        let uneven = ParityTexts { development: one.sources.clone(), ..two.clone() };
        assert!(refused(&uneven, config.clone(), parity.clone()).contains("development"));
        let scored = TrainConfig { score: Score::CountLength, ..config.clone() };
        assert!(refused(&two, scored, parity.clone()).contains("score"));
        let first = TrainConfig { tie_break: TieBreak::First, ..config.clone() };
        assert!(refused(&two, first, parity.clone()).contains("first"));
        let ratio = |ratio| ParityConfig { ratio: Some(ratio), ..parity.clone() };
        assert!(refused(&two, config.clone(), ratio(vec![1.0])).contains("1 ratios for 2"));
        assert!(refused(&two, config.clone(), ratio(vec![1.0, 0.0])).contains("cannot be 0"));
        let window =
            |length, alpha| ParityConfig { window: Some(ParityWindow { length, alpha }), ..parity.clone() };
        assert!(refused(&two, config.clone(), window(0, 2.0)).contains("window"));
        assert!(refused(&two, config, window(10, 0.9)).contains("alpha cannot be 0.9"));
    }
}
