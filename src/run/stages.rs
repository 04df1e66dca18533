//! Further stages of training: merges that are learned after given ones, from text that is split in another way.
//!
//! The pre-tokens of a coarse split, such as `superword`, are so long that most of them occur once, so counting them
//! would hold all of the text. Therefore they are cut into *runs* wherever no merge can be learned, and the runs, which
//! repeat, are counted instead.
//!
//! A token that crosses the border between two tokens of the given merges contains both of them. So it occurs at most
//! as often as the two are neighbours, and it is refused if the token of the two is refused. Hence the text can be cut
//! between two neighbours that are refused, or that occur together less often than every pair that is merged. The
//! result is the same as without cuts.
//!
//! The text is read twice: once to count neighbours, once to count runs. The least count of a merged pair is not known
//! before, so it is guessed from the counts of the neighbours. If fewer merges reach it than are wanted, the runs are
//! counted again with a lower one.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::counting::Counting;
use super::inputs::no_text;
use super::resources::{Costs, within_memory};
use crate::base::huge_pages;
use crate::base::int::{
    ByteCount, Count, TokenId, to_u64, to_usize, truncate_to_u32, u64_to_usize, with_unit,
};
use crate::base::pools::lock;
use crate::count::{CorpusCounts, CorpusFacts, Prepare, PretokenCounts};
use crate::encode::{EncodeConfig, Encoder, Worker};
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::split::{SplitPattern, Splitter, splitter};
use crate::train::{
    Learned, Merge, Merges, TokenLimits, TokenSequences, TrainConfig, extend_memory_estimate,
    extend_sequences,
};
use crate::vocab::{SpecialTokensAt, Vocabulary};

/// The result of a further stage.
pub(super) struct FurtherStage {
    /// All merges, the given ones first, and the history of this stage. What the merges replaced is of its text.
    pub(super) learned: Learned,
    /// Facts about the text.
    pub(super) facts: CorpusFacts,
    /// Number of distinct runs that the merges were learned from.
    pub(super) runs: u64,
}

/// Learns merges after those of `base`, from the text of `counting`. The merges are those of
/// [`extend_merges`](crate::train::extend_merges) on the counted pre-tokens.
///
/// **Memory:** a sixteenth of the limit for the counts of neighbours; then that of counting, and of learning.
///
/// `text_bytes` is the size of the text, if it is known.
///
/// # Errors
/// Errors of reading, counting and learning; there is no text.
pub(super) fn learn_further(
    counting: Counting<'_>,
    base: &Merges,
    prepare: Option<Arc<dyn Prepare>>,
    text_bytes: Option<u64>,
    costs: &mut Costs,
) -> Result<FurtherStage> {
    let Counting { plan, train, inputs, observer } = counting;
    let encoder = encoder_of(base)?;
    let tokenizer = StageTokenizer::new(&encoder, &train.split)?;
    let limits = TokenLimits::new(&train.config, base);
    let neighbours = NeighbourCounts::new(plan.memory, text_bytes);
    costs.stage("neighbours", || {
        counting.visit(prepare.clone(), &*tokenizer.splitter, &|text, ends, weight| {
            tokenizer.with_borders(text, ends, &limits, |borders| neighbours.add(borders, &limits, weight))
        })?;
        inputs.check_stamps()?;
        Ok(((), text_bytes.unwrap_or(0)))
    })?;
    let lowest = train.config.min_frequency.get().max(1);
    let wanted = train.config.merges.saturating_sub(base.len());
    let mut least = lowest.max(neighbours.nth_greatest(wanted) / LEAST_DIVISOR);
    loop {
        let runs = RunSplitter { tokenizer: &tokenizer, limits: &limits, neighbours: &neighbours, least };
        let CorpusCounts { pretokens, facts } = costs.stage("count", || {
            let counted = counting.counted_by(prepare.clone(), &runs)?;
            inputs.check_stamps()?;
            let text_bytes = counted.facts.text_bytes;
            Ok((counted, text_bytes))
        })?;
        if pretokens.is_empty() {
            return Err(no_text(inputs, "train"));
        }
        let (number, bytes) = (to_u64(pretokens.len()), to_u64(pretokens.bytes()));
        observer.noted(&format!(
            "{} of {}, cut where fewer than {least} neighbours are alike",
            with_unit(number, "distinct run"),
            ByteCount(bytes)
        ));
        let learned = costs.stage("train", || {
            let (sequences, applied) = encoded_runs(pretokens, base, &tokenizer, observer)?;
            let config = TrainConfig { min_frequency: Count::new(least), ..train.config.clone() };
            let (tokens, runs) = (to_u64(sequences.tokens.len()), to_u64(sequences.ends.len()));
            within_memory(extend_memory_estimate(&config, tokens, runs), plan.memory)?;
            let mut learned = extend_sequences(sequences, base, &config, observer)?;
            learned.replaced[..applied.len()].copy_from_slice(&applied);
            Ok((learned, bytes))
        })?;
        if learned.merges.len() >= train.config.merges || least <= lowest {
            return Ok(FurtherStage { learned, facts, runs: number });
        }
        least = lowest.max(least / LOWER_DIVISOR);
        observer.noted(&format!(
            "only {} of {} merges have pairs that occur so often: counting again",
            learned.merges.len(),
            train.config.merges
        ));
    }
}

/// Divisor of the count of the n-th most frequent pair of neighbours, if n merges are wanted. The last pair that is
/// merged occurs a little less often than that pair.
const LEAST_DIVISOR: u64 = 4;

/// Divisor of the least count, if too few merges reach it.
const LOWER_DIVISOR: u64 = 16;

/// Encodes the runs. Returns their tokens, and how often each given merge was applied.
///
/// # Errors
/// Encoding fails, or the text has more bytes than 64 bits can count.
fn encoded_runs(
    runs: PretokenCounts,
    base: &Merges,
    tokenizer: &StageTokenizer<'_>,
    observer: &dyn Observer,
) -> Result<(TokenSequences, Vec<u64>)> {
    /// Runs that are encoded at a time.
    const SHARE: usize = 1 << 14;
    let shares = (0..runs.len()).step_by(SHARE).collect::<Vec<_>>();
    let encode = |start: usize| -> Result<(Vec<TokenId>, Vec<usize>)> {
        observer.checkpoint()?;
        let share = runs.range(start..runs.len().min(start + SHARE)).map(|(run, _)| run);
        tokenizer.with_scratch(|Scratch { worker, .. }| {
            let mut ids = Vec::new();
            let ends = worker.append_texts(share, &mut ids)?;
            Ok((ids, ends))
        })
    };
    let encoded = shares.into_par_iter().map(encode).collect::<Result<Vec<_>>>()?;
    let mut sequences = TokenSequences::default();
    let mut uses = vec![0_u64; 256 + base.len()];
    sequences.tokens.reserve_exact(encoded.iter().map(|(ids, _)| ids.len()).sum());
    let mut weighted = runs.iter();
    for (ids, ends) in encoded {
        let mut start = 0;
        for (end, (run, count)) in ends.into_iter().zip(&mut weighted) {
            let tokens = &ids[start..end];
            start = end;
            let bytes = count.get().checked_mul(to_u64(run.len()));
            let sum = bytes.and_then(|bytes| sequences.bytes.checked_add(bytes));
            sequences.bytes =
                sum.ok_or_else(|| Error::failed("the number of bytes in the corpus exceeds 64 bits"))?;
            tokens.iter().for_each(|id| uses[id.index()] += count.get());
            if tokens.len() > 1 {
                sequences.tokens.extend(tokens.iter().map(|id| id.get()));
                sequences.ends.push(sequences.tokens.len());
                sequences.counts.push(count);
            } else {
                sequences.alone += count.get();
            }
        }
    }
    // A merge was applied once for each use of its token, also as a part of others.
    for (index, Merge { left, right, .. }) in base.iter().enumerate().rev() {
        let applied = uses[256 + index];
        uses[to_usize(*left)] += applied;
        uses[to_usize(*right)] += applied;
    }
    Ok((sequences, uses.split_off(256)))
}

/// Splits text by the pattern of a stage, and encodes its pre-tokens by the merges before the stage. Tokens have the
/// numbers of training.
struct StageTokenizer<'e> {
    splitter: Box<dyn Splitter>,
    encoder: &'e Encoder,
    /// What threads use one at a time, and no thread uses at present.
    idle: Mutex<Vec<Scratch<'e>>>,
}

/// What one thread needs to encode.
struct Scratch<'e> {
    worker: Worker<'e>,
    ids: Vec<TokenId>,
    borders: Vec<Border>,
}

/// Two tokens that are neighbours in a pre-token, and where the right one begins in the text.
#[derive(Clone, Copy)]
struct Border {
    left: u32,
    right: u32,
    position: u32,
}

/// The encoder of these merges, for pre-tokens of any split. Its ids are the numbers of training.
///
/// # Errors
/// Those of [`Encoder::new`].
pub(super) fn encoder_of(merges: &Merges) -> Result<Encoder> {
    let vocabulary = Vocabulary::from_merges(merges, &[], SpecialTokensAt::End, SplitPattern::None)?;
    let cuts = Box::new(TokenCuts::new(merges));
    Encoder::with_splitter(Arc::new(vocabulary), EncodeConfig::default(), Some(cuts))
}

/// Splits text between all bytes that are adjacent in no token. The tokens of a text are those of its parts, which are
/// mostly words if the tokens are, so the encoder knows most of them already.
struct TokenCuts {
    /// A bit for each pair of bytes, a row for each first byte: whether they are adjacent in a token.
    adjacent: Box<[[u64; 4]; 256]>,
}

impl TokenCuts {
    /// The bytes that are adjacent in the tokens that `merges` make: some merge joins two tokens between them.
    fn new(merges: &Merges) -> TokenCuts {
        let mut ends: Vec<(u8, u8)> = (0..=u8::MAX).map(|byte| (byte, byte)).collect();
        let mut cuts = TokenCuts { adjacent: Box::new([[0; 4]; 256]) };
        for merge in merges {
            let (left, right) = (ends[to_usize(merge.left)], ends[to_usize(merge.right)]);
            cuts.adjacent[usize::from(left.1)][usize::from(right.0 >> 6)] |= 1 << (right.0 & 63);
            ends.push((left.0, right.1));
        }
        cuts
    }

    #[inline]
    fn are_adjacent(&self, left: u8, right: u8) -> bool {
        self.adjacent[usize::from(left)][usize::from(right >> 6)] >> (right & 63) & 1 != 0
    }
}

impl Splitter for TokenCuts {
    fn pretoken_ends_observed(&self, text: &[u8], ends: &mut Vec<u32>, _: &dyn Observer) -> Result<()> {
        let cut = |(end, &[left, right]): (u32, &[u8; 2])| (!self.are_adjacent(left, right)).then_some(end);
        ends.extend((1..).zip(text.array_windows()).filter_map(cut));
        ends.extend((!text.is_empty()).then_some(truncate_to_u32(text.len())));
        Ok(())
    }

    fn safe_split_point(&self, text: &[u8], range: RangeInclusive<usize>) -> Option<usize> {
        let last = text.len().checked_sub(1)?.min(*range.end());
        (1.max(*range.start())..=last).rev().find(|&at| !self.are_adjacent(text[at - 1], text[at]))
    }
}

impl<'e> StageTokenizer<'e> {
    /// # Errors
    /// The split cannot be used.
    fn new(encoder: &'e Encoder, split: &SplitPattern) -> Result<StageTokenizer<'e>> {
        Ok(StageTokenizer { splitter: splitter(split)?, encoder, idle: Mutex::default() })
    }

    /// Calls `work` with a worker and buffers that no other thread uses.
    fn with_scratch<T>(&self, work: impl FnOnce(&mut Scratch<'e>) -> T) -> T {
        let idle = lock(&self.idle).pop();
        let mut scratch = idle.unwrap_or_else(|| Scratch {
            worker: self.encoder.worker(),
            ids: Vec::new(),
            borders: Vec::new(),
        });
        let result = work(&mut scratch);
        lock(&self.idle).push(scratch);
        result
    }

    /// Encodes the pre-tokens of a text, which end at `ends`, and calls `take` with the borders between their tokens.
    ///
    /// # Errors
    /// Encoding fails.
    fn with_borders<T>(
        &self,
        text: &[u8],
        ends: &[u32],
        limits: &TokenLimits,
        take: impl FnOnce(&[Border]) -> T,
    ) -> Result<T> {
        let starts = std::iter::once(&0).chain(ends);
        let pretokens = starts.zip(ends).map(|(&start, &end)| &text[to_usize(start)..to_usize(end)]);
        self.with_scratch(|Scratch { worker, ids, borders }| {
            ids.clear();
            borders.clear();
            let token_ends = worker.append_texts(pretokens, ids)?;
            let (mut first, mut position) = (0, 0);
            for end in token_ends {
                for two in ids[first..end].array_windows() {
                    let [left, right] = two.map(TokenId::get);
                    position += limits.length(left);
                    borders.push(Border { left, right, position: truncate_to_u32(position) });
                }
                position += ids[first..end].last().map_or(0, |last| limits.length(last.get()));
                first = end;
            }
            Ok(take(borders))
        })
    }
}

/// Neighbours by which entries of [`NeighbourCounts`] are fetched ahead.
const AHEAD: usize = 16;

/// How often tokens are neighbours. The counts share entries of a table by a hash, so each is at least the true count.
///
/// **Memory:** 8 bytes per entry.
struct NeighbourCounts {
    entries: Box<[AtomicU64]>,
    /// Bits of a hash that are left out.
    shift: u32,
}

impl NeighbourCounts {
    /// No neighbours. The table is large enough for text of this size, as far as a sixteenth of the memory allows.
    fn new(memory: ByteCount, text_bytes: Option<u64>) -> NeighbourCounts {
        /// Bytes of text per entry. Of English text, one token in nine has a new neighbour, and a token 4.5 bytes.
        const BYTES_PER_ENTRY: u64 = 16;
        // Tests have little text, and their neighbours share entries, too.
        const MIN_ENTRIES: u64 = if cfg!(test) { 1 << 5 } else { 1 << 16 };
        const MEMORY_DIVISOR: u64 = 16 * 8;
        let wanted = text_bytes.map_or(u64::MAX, |bytes| bytes / BYTES_PER_ENTRY);
        let entries = wanted.min(memory.0 / MEMORY_DIVISOR).max(MIN_ENTRIES);
        let bits = entries.ilog2();
        NeighbourCounts { entries: huge_pages::atomics(u64_to_usize(1 << bits)), shift: u64::BITS - bits }
    }

    /// The entry of two neighbours.
    #[inline]
    fn entry(&self, left: u32, right: u32) -> usize {
        /// 2⁶⁴ divided by the golden ratio: multiplication spreads the bits over the upper ones.
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let pair = u64::from(left) << 32 | u64::from(right);
        u64_to_usize((pair ^ pair >> 29).wrapping_mul(GOLDEN) >> self.shift)
    }

    /// Adds neighbours of a text with this weight, unless the limits refuse their token.
    fn add(&self, borders: &[Border], limits: &TokenLimits, weight: Count) {
        let allowed = borders.iter().filter(|border| limits.allow(border.left, border.right));
        let entries: Vec<usize> = allowed.map(|border| self.entry(border.left, border.right)).collect();
        for (number, &entry) in entries.iter().enumerate() {
            if let Some(&later) = entries.get(number + AHEAD) {
                huge_pages::fetch(&self.entries, later);
            }
            self.entries[entry].fetch_add(weight.get(), Ordering::Relaxed);
        }
    }

    /// At least the count of two neighbours.
    #[inline]
    fn count(&self, border: &Border) -> u64 {
        self.entries[self.entry(border.left, border.right)].load(Ordering::Relaxed)
    }

    /// The `n`-th greatest entry, or somewhat less if it is large. 0 if fewer are used.
    fn nth_greatest(&self, n: usize) -> u64 {
        /// Greater entries count as this.
        const GREATEST: u64 = (1 << 16) - 1;
        let mut numbers = vec![0_usize; u64_to_usize(GREATEST) + 1];
        for entry in &self.entries {
            numbers[u64_to_usize(entry.load(Ordering::Relaxed).min(GREATEST))] += 1;
        }
        let mut before = 0;
        let of_count = |(_, number): &(u64, &usize)| {
            before += **number;
            before >= n
        };
        let found = (1..=GREATEST).rev().zip(numbers[1..].iter().rev()).find(of_count);
        found.map_or(0, |(count, _)| count)
    }
}

/// Splits text into runs: pre-tokens of a stage that are cut where no merge can be learned.
struct RunSplitter<'a> {
    tokenizer: &'a StageTokenizer<'a>,
    limits: &'a TokenLimits,
    neighbours: &'a NeighbourCounts,
    /// Neighbours that occur less often are cut apart.
    least: u64,
}

impl Splitter for RunSplitter<'_> {
    fn pretoken_ends_observed(
        &self,
        text: &[u8],
        ends: &mut Vec<u32>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let RunSplitter { tokenizer, limits, neighbours, least } = *self;
        let mut pretoken_ends = Vec::new();
        tokenizer.splitter.pretoken_ends_observed(text, &mut pretoken_ends, observer)?;
        let is_cut =
            |border: &&Border| neighbours.count(border) < least || !limits.allow(border.left, border.right);
        tokenizer.with_borders(text, &pretoken_ends, limits, |borders| {
            let fetched = borders.iter().enumerate().map(|(number, border)| {
                if let Some(later) = borders.get(number + AHEAD) {
                    huge_pages::fetch(&neighbours.entries, neighbours.entry(later.left, later.right));
                }
                border
            });
            let mut cuts = fetched.filter(is_cut).map(|border| border.position).peekable();
            for &end in &pretoken_ends {
                while let Some(cut) = cuts.next_if(|&cut| cut < end) {
                    ends.push(cut);
                }
                ends.push(end);
            }
        })
    }

    fn safe_split_point(&self, text: &[u8], range: RangeInclusive<usize>) -> Option<usize> {
        self.tokenizer.splitter.safe_split_point(text, range)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::base::test_support::one_case_in;
    use crate::observer::Silent;
    use crate::run::{Environment, Inputs, plan, recipe, train_in_memory};
    use crate::source::OpenContext;
    use crate::train::{TieBreak, reference};

    /// Texts in which words follow each other again and again, with what superwords must not contain.
    fn texts() -> impl Strategy<Value = Vec<String>> {
        let word =
            prop::sample::select(vec!["the", "of", "in", "a", "world", "it's", "end", "né", "x7", "to be"]);
        let between = prop::sample::select(vec![
            " ", " ", " ", " ", ", ", ": ", ". ", "  ", "\n", " 12 ", "!! ", ".\"",
        ]);
        let phrase = vec((word, between), 1..8).prop_map(|parts| {
            parts.iter().map(|(word, between)| format!("{word}{between}")).collect::<String>()
        });
        vec((phrase, 1..40_usize), 1..6)
            .prop_map(|phrases| phrases.iter().map(|(phrase, times)| phrase.repeat(*times)).collect())
    }

    /// The merges of both stages by counting all pairs again at each step.
    fn obvious(texts: &[String], stages: [(&str, TrainConfig); 2]) -> Merges {
        let mut merges = Merges::default();
        for (split, config) in stages {
            let splitter = splitter(&split.parse().expect("a name")).expect("a pattern");
            let mut pretokens = PretokenCounts::new();
            for text in texts {
                let (mut ends, mut start) = (Vec::new(), 0);
                splitter.pretoken_ends(text.as_bytes(), &mut ends).expect("short");
                for end in ends.into_iter().map(to_usize) {
                    pretokens.push(&text.as_bytes()[start..end], Count::ONE);
                    start = end;
                }
            }
            let before = merges.len();
            let learned = reference::extend_merges(&pretokens, &merges, &config).merges;
            let counts: Vec<Count> = merges.iter().map(|merge| merge.count).collect();
            let kept = |(index, merge): (usize, &Merge)| Merge {
                count: if index < before { counts[index] } else { merge.count },
                ..*merge
            };
            merges = Merges::new(learned.iter().enumerate().map(kept).collect());
        }
        merges
    }

    #[test]
    fn two_stages_learn_what_the_reference_learns() {
        let rules: Vec<TieBreak> =
            TieBreak::ALL.into_iter().filter(|rule| *rule != TieBreak::First).collect();
        let rule = prop::sample::select(rules);
        let sizes = (0..12_usize, 1..40_usize, 1..5_usize, prop_oneof![Just(1_000), 4..12_usize]);
        let inputs = (texts(), sizes, 1..4_u64, rule, 1..4_usize);
        one_case_in(4, &inputs, |(texts, sizes, min_frequency, tie_break, threads)| {
            let (first, more, max_words, max_token_bytes) = sizes;
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("texts.jsonl");
            let lines: String =
                texts.iter().map(|text| format!("{}\n", serde_json::json!({ "text": text }))).collect();
            std::fs::write(&path, lines).expect("a file");
            let (t, all) = (256 + first, 256 + first + more);
            let text = format!(
                "source.uri = {path:?}\noutput.dir = {:?}\n[train]\nmin_frequency = {min_frequency}\n\
                 tie_break = {}\nmax_token_bytes = {max_token_bytes}\n\
                 stages = [{{ split = \"gpt4\", vocab_size = {t} }},\n\
                 {{ split = \"superword\", vocab_size = {all}, max_words = {max_words} }}]\n",
                folder.path(),
                serde_json::json!(tie_break)
            );
            let environment = Environment { variable: &|_| None, threads, memory: ByteCount(1 << 30) };
            let plan = plan(&recipe::read("two.toml", &text).expect("TOML"), &environment).expect("right");
            let learned = crate::run::with_threads(threads, || {
                let inputs = Inputs::open(&plan, &OpenContext::new(&Silent))?;
                train_in_memory(&plan, &inputs, &Silent)
            });
            let learned = learned.expect("it learns").vocabulary;
            let config = |merges| TrainConfig {
                min_frequency: Count::new(min_frequency),
                max_token_bytes: Some(max_token_bytes),
                tie_break,
                ..TrainConfig::new(merges)
            };
            let second = TrainConfig { max_words: Some(max_words), ..config(first + more) };
            let expected = obvious(&texts, [("gpt4", config(first)), ("superword", second)]);
            let found = learned.merge_list().expect("a list");
            let pairs =
                |merges: &Merges| merges.iter().map(|merge| (merge.left, merge.right)).collect::<Vec<_>>();
            prop_assert_eq!(pairs(&found), pairs(&expected));
            prop_assert_eq!(learned.split().to_string(), "superword");
            Ok(())
        });
    }

    #[test]
    fn an_entry_is_at_least_the_count_of_its_neighbours() {
        let merges = Merges::default();
        let limits = TokenLimits::new(&TrainConfig::new(0), &merges);
        let counts = NeighbourCounts::new(ByteCount(0), Some(0));
        let border = |left, right| Border { left, right, position: 0 };
        for left in 0..256 {
            let borders: Vec<Border> = (0..256).map(|right| border(left, right)).collect();
            counts.add(&borders, &limits, Count::new(u64::from(left)));
        }
        assert!(
            (0..256).all(|left| (0..256).all(|right| counts.count(&border(left, right)) >= u64::from(left)))
        );
        assert!(counts.nth_greatest(1) >= 255 && counts.nth_greatest(1 << 17) == 0);
    }
}
