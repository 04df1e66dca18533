//! Trains the tokenizer of a plan: counts the sample, learns merges, and builds the vocabulary.
//!
//! The state folder of a job stores the merges in a journal, so that an interrupted job does not train again.
//! [`learn`] trains from documents in one call.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::checks::check_read_again;
use super::counting::Counting;
use super::extend::{ExtendedTokenizer, preparation};
use super::inputs::{Inputs, no_text};
use super::over_memory;
use super::parity::{Balanced, BalancedTokens, learn_balanced};
use super::plan::{Plan, StagePlan, TrainPlan};
use super::resources::{Costs, check_memory, learning_memory, within_memory};
use super::stages::{FurtherStage, learn_further};
use crate::base::atomic_file;
use crate::base::int::{ByteCount, Count, to_u64};
use crate::count::{
    Boundary, CorpusCounts, CorpusFacts, CountConfig, Prepare, count_pretokens, count_whole_documents,
};
use crate::error::{Error, Result};
use crate::observer::{Observer, Stage};
use crate::report::StageCost;
use crate::sink::{Journal, OutputFolder};
use crate::source::{Documents, SkippedRows, Unit, UnitSkips};
use crate::split::{NamedPattern, SpecialFinder, SplitPattern, splitter};
use crate::train::{HistoryPoint, Learned, Merge, Merges, TrainConfig, learn_merges};
use crate::vocab::{SpecialTokensAt, Vocabulary};
use crate::{sink, vocab};

/// The result of training, before it is written.
pub(super) struct Trained {
    /// The complete vocabulary, special tokens included.
    pub(super) vocabulary: Arc<Vocabulary>,
    /// The merges, with those of an extended tokenizer first, and the history of learning.
    pub(super) learned: Learned,
    /// Number of merges before each stage, if the plan has several; otherwise empty.
    pub(super) stage_starts: Vec<usize>,
    /// The tokenizer that training extended, if any. Its merges come first.
    pub(super) base: Option<ExtendedTokenizer>,
    /// Facts about the text that was counted.
    pub(super) corpus: CorpusFacts,
    /// Number of distinct pre-tokens, or of distinct documents if there is no split.
    pub(super) distinct_pretokens: u64,
    /// The tokens of each source if training was parity-aware.
    pub(super) parity: Option<BalancedTokens>,
}

impl Trained {
    /// How often the pair of each merge occurred when it was merged, by rank in the vocabulary.
    pub(super) fn counts(&self) -> Vec<u64> {
        let counts: Vec<u64> = self.learned.merges.iter().map(|merge| merge.count.get()).collect();
        self.by_rank(counts)
    }

    /// How many pairs each merge replaced, by rank in the vocabulary.
    pub(super) fn replaced(&self) -> Vec<u64> {
        self.by_rank(self.learned.replaced.clone())
    }

    /// Brings a value for each merge from the order of training to that of the ranks.
    fn by_rank(&self, of_merges: Vec<u64>) -> Vec<u64> {
        match &self.base {
            Some(base) => base.given.by_rank(&of_merges),
            None => of_merges,
        }
    }
}

/// Reads and counts the sample, learns merges from the counts, and builds a vocabulary. If `kept` names a folder, the
/// counts of the sources of a mixture are stored there.
///
/// The memory of learning is checked twice: before reading, from a lower bound if one is known, and after counting.
///
/// # Errors
/// - Errors of reading and counting; there is no text.
/// - The text or the learned tokens do not fit the memory limit.
/// - The observer asks to stop.
pub(super) fn train(
    plan: &Plan,
    train: &TrainPlan,
    inputs: &Inputs<'_>,
    kept: Option<&Path>,
    costs: &mut Costs,
    observer: &dyn Observer,
) -> Result<Trained> {
    check_read_again(plan, inputs)?;
    if let Some(bytes) = min_text_bytes(plan, train, inputs) {
        within_memory(learning_memory(train, bytes, 1, false), plan.memory)?;
    }
    if let [first, later @ ..] = &train.stages[..] {
        return train_stages(plan, train, (first, later), inputs, kept, costs, observer);
    }
    for token in &train.only_named {
        observer.noted(&format!("adding the special token {token:?}{}", train.role_of(token)));
    }
    if let Some(parity) = &train.parity {
        let balanced = learn_balanced(plan, train, parity, inputs, kept, costs, observer)?;
        return balanced_tokenizer(plan, train, balanced);
    }
    let base = ExtendedTokenizer::load(train, observer)?;
    let prepare = base.as_ref().map(|base| preparation(&base.vocabulary)).transpose()?.flatten();
    let counting = Counting { plan, train, inputs, observer };
    if let Some(base) = base.as_ref().filter(|base| base.is_further_stage(train))
        && plan.counts.is_empty()
        && !inputs.read_once()
    {
        return extend_with_cuts(counting, base.clone(), prepare, costs);
    }
    let counted = costs.stage("count", || {
        let counted = match kept {
            _ if !plan.counts.is_empty() => counting.read_files()?,
            Some(folder) if prepare.is_none() && counting.is_mixture() => counting.mixture(folder)?,
            _ => counting.sample(prepare)?,
        };
        inputs.check_stamps()?;
        let text_bytes = counted.facts.text_bytes;
        Ok((counted, text_bytes))
    })?;
    if counted.pretokens.is_empty() && plan.counts.is_empty() {
        return Err(no_text(inputs, "train"));
    }
    learn_from_counts(plan, train, base, counted, costs, observer)
}

/// Trains in stages: the first as any training, each later one from the merges of those before it.
///
/// Facts about the text are those of the first stage. Each merge has the count at which its stage learned it.
///
/// # Errors
/// Those of [`train`] and [`learn_further`].
fn train_stages(
    plan: &Plan,
    train: &TrainPlan,
    (first, later): (&StagePlan, &[StagePlan]),
    inputs: &Inputs<'_>,
    kept: Option<&Path>,
    costs: &mut Costs,
    observer: &dyn Observer,
) -> Result<Trained> {
    let mut trained = self::train(plan, &train.of_stage(first), inputs, kept, costs, observer)?;
    trained.stage_starts.push(0);
    for stage in later {
        let settings = train.of_stage(stage);
        let before = trained.learned.merges.len();
        let wanted = train.stages[trained.stage_starts.len() - 1].merges;
        if before < wanted {
            observer.noted(&format!(
                "stage {} ended after {before} of {wanted} merges: no pair was left that is frequent enough; the next \
                 stage learns the others",
                trained.stage_starts.len()
            ));
        }
        trained.stage_starts.push(before);
        let counting = Counting { plan, train: &settings, inputs, observer };
        let text_bytes = Some(trained.corpus.text_bytes);
        let FurtherStage { learned, .. } =
            learn_further(counting, &trained.learned.merges, None, text_bytes, costs)?;
        let further = learned.history.into_iter().filter(|point| point.merges > to_u64(before));
        trained.learned.history.extend(further);
        (trained.learned.merges, trained.learned.replaced) = (learned.merges, learned.replaced);
    }
    check_tokens(&trained.learned, plan.memory)?;
    trained.vocabulary = Arc::new(vocabulary(&trained.learned.merges, train, None)?);
    Ok(trained)
}

/// Extends a tokenizer by merges of text that is split in another way.
///
/// # Errors
/// Those of [`learn_further`], and of the vocabulary.
fn extend_with_cuts(
    counting: Counting<'_>,
    base: ExtendedTokenizer,
    prepare: Option<Arc<dyn Prepare>>,
    costs: &mut Costs,
) -> Result<Trained> {
    let Counting { plan, train, .. } = counting;
    let given = base.given.merges();
    let text_bytes = counting.inputs.sampled_bytes().or(plan.sample.max_bytes);
    let FurtherStage { learned, facts, runs } = learn_further(counting, given, prepare, text_bytes, costs)?;
    let Learned { merges, history, replaced } = learned;
    let applied = replaced[..given.len()].iter().copied().map(Some);
    let counts = applied.chain(std::iter::repeat(None));
    let counted = |(merge, applied): (&Merge, Option<u64>)| Merge {
        count: applied.map_or(merge.count, Count::new),
        ..*merge
    };
    let merges = Merges::new(merges.iter().zip(counts).map(counted).collect());
    let learned = Learned { merges, history, replaced };
    check_tokens(&learned, plan.memory)?;
    let vocabulary = Arc::new(vocabulary(&learned.merges, train, Some(&base))?);
    let (base, stage_starts, parity) = (Some(base), Vec::new(), None);
    Ok(Trained { vocabulary, learned, stage_starts, base, corpus: facts, distinct_pretokens: runs, parity })
}

/// Learns merges from counts, and builds a vocabulary.
///
/// # Errors
/// There are no counts, the memory limit does not suffice, or the observer asks to stop.
pub(super) fn learn_from_counts(
    plan: &Plan,
    train: &TrainPlan,
    base: Option<ExtendedTokenizer>,
    counted: CorpusCounts,
    costs: &mut Costs,
    observer: &dyn Observer,
) -> Result<Trained> {
    let CorpusCounts { pretokens, facts } = counted;
    if pretokens.is_empty() {
        return Err(Error::failed("there is nothing to train on: the input that was counted has no text")
            .with_help("check that the counts are those of the right input"));
    }
    check_memory(&pretokens, train, plan.memory)?;
    let (distinct_pretokens, distinct_bytes) = (to_u64(pretokens.len()), to_u64(pretokens.bytes()));
    let learned = costs.stage("train", || {
        let learned = match &base {
            Some(base) => base.learn(pretokens, train, observer),
            None => learn_merges(pretokens, &train.config, observer),
        };
        Ok((learned?, distinct_bytes))
    })?;
    check_tokens(&learned, plan.memory)?;
    let vocabulary = Arc::new(vocabulary(&learned.merges, train, base.as_ref())?);
    let (stage_starts, parity) = Default::default();
    Ok(Trained { vocabulary, learned, stage_starts, base, corpus: facts, distinct_pretokens, parity })
}

/// Builds the vocabulary of parity-aware training.
///
/// # Errors
/// The learned tokens do not fit the memory limit.
fn balanced_tokenizer(plan: &Plan, train: &TrainPlan, balanced: Balanced) -> Result<Trained> {
    let Balanced { learned, tokens, facts, distinct_pretokens } = balanced;
    check_tokens(&learned, plan.memory)?;
    let vocabulary = Arc::new(vocabulary(&learned.merges, train, None)?);
    let (stage_starts, parity) = (Vec::new(), Some(tokens));
    Ok(Trained { vocabulary, learned, stage_starts, base: None, corpus: facts, distinct_pretokens, parity })
}

/// A lower bound in bytes for the text of the training, if it is known before reading. Without a split it is the
/// longest single document, or the largest source if documents are joined; others may be equal to it and add nothing.
///
/// It allows a run to fail before it reads a text that cannot fit the memory.
fn min_text_bytes(plan: &Plan, train: &TrainPlan, inputs: &Inputs<'_>) -> Option<u64> {
    let everything = inputs.sample_is_everything() && plan.counts.is_empty() && train.specials.is_empty();
    let unsplit = train.split == SplitPattern::None;
    if !unsplit || !everything {
        return None;
    }
    let counted = inputs.units().into_iter().zip(plan.weights.iter().chain(std::iter::repeat(&1)));
    let sources = counted.filter(|(_, weight)| **weight > 0).map(|(units, _)| units);
    match train.boundary {
        Boundary::Join => {
            let known = |units: Vec<Unit>| {
                units.iter().filter_map(|unit| unit.text_bytes).fold(0, u64::saturating_add)
            };
            sources.map(known).max()
        }
        Boundary::Document => {
            sources.flatten().filter(|unit| unit.rows == Some(1)).filter_map(|unit| unit.text_bytes).max()
        }
    }
}

/// Checks the total size of the learned tokens. It can be far larger than the text, since each token may be one byte
/// longer than the one before: for example, if pairs that occur once are merged in the order of the text.
///
/// # Errors
/// The tokens exceed what the file of a tokenizer may have ([`ErrorKind::Failed`]), or what the memory limit allows
/// ([`ErrorKind::Memory`]).
fn check_tokens(learned: &Learned, limit: ByteCount) -> Result<()> {
    /// Bytes of memory per byte of the tokens while their files are made.
    const MEMORY_PER_TOKEN_BYTE: u64 = 50;
    /// Bytes of tokens (4 MiB) that any tokenizer may have, whatever the limit.
    const ALWAYS_ALLOWED: u64 = 4 << 20;
    let bytes = learned.merges.token_bytes();
    if bytes > vocab::MAX_FILE_BYTES {
        let (bytes, limit) = (ByteCount(bytes), ByteCount(vocab::MAX_FILE_BYTES));
        let limit = format!("the limit of a tokenizer file is {limit}");
        return Err(Error::failed(format!("the learned tokens have {bytes} in total, and {limit}"))
            .with_help(SHORTER_TOKENS));
    }
    let need = bytes.saturating_mul(MEMORY_PER_TOKEN_BYTE);
    if bytes <= ALWAYS_ALLOWED || need <= limit.0 {
        return Ok(());
    }
    let what = format!("the learned tokens have {} in total and need", ByteCount(bytes));
    Err(over_memory(&what, ByteCount(need), limit).with_help(format!("{SHORTER_TOKENS}, or raise --memory")))
}

/// The help for very long tokens.
const SHORTER_TOKENS: &str = "set --max-token-bytes ([train] max_token_bytes), or learn fewer merges";

/// Number of tokens for single bytes. Every vocabulary has all of them.
const BYTE_TOKENS: usize = 256;

/// How [`learn`](learn()) trains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnConfig {
    /// How texts are split into pre-tokens, by training and by the tokenizer.
    pub split: SplitPattern,
    /// The special tokens. They are cut out of the text that is learned from, and get ids of their own.
    pub specials: Vec<String>,
    /// The position of the special tokens among the ids.
    pub specials_at: SpecialTokensAt,
    /// The extent of a text that is split on its own: a document, or all documents of a source.
    pub boundary: Boundary,
    /// How many merges to learn, and which.
    pub train: TrainConfig,
}

impl LearnConfig {
    /// The program's defaults for a vocabulary of this size: the 256 bytes, the special tokens, and merges for the
    /// remaining tokens, which may be none.
    pub fn new(vocab_size: usize, specials: &[&str]) -> LearnConfig {
        LearnConfig {
            split: SplitPattern::Named(NamedPattern::Gpt4),
            specials: specials.iter().map(|&text| text.to_owned()).collect(),
            specials_at: SpecialTokensAt::default(),
            boundary: Boundary::default(),
            train: TrainConfig::new(vocab_size.saturating_sub(BYTE_TOKENS + specials.len())),
        }
    }
}

/// Trains a tokenizer on documents: counts pre-tokens, or gathers whole documents if there is no split, learns
/// merges, and builds a vocabulary. For whole jobs, with samples, mixtures and memory limits, use
/// [`job`](super::job()).
///
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::run::{LearnConfig, learn};
/// use tokenmill::vocab::{self, Format, WriteOptions};
/// use tokenmill::{Tokenizer, source};
///
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path();
/// let texts = source::texts(["how much wood would a woodchuck chuck", "if a woodchuck could chuck wood?"]);
/// let (vocabulary, learned) = learn(texts, &LearnConfig::new(280, &["<|endoftext|>"]), &Silent)?;
/// assert!(learned.merges.len() > 10);
///
/// vocab::write(&vocabulary, Format::Hf, folder, &WriteOptions::default())?;
/// let tokenizer = Tokenizer::from_file(folder)?;
/// assert!(tokenizer.count("would a woodchuck chuck?")? < 12);
/// assert!(tokenizer.special_token("<|endoftext|>").is_some());
/// # Ok::<(), tokenmill::Error>(())
/// ```
///
/// **Memory:** that of [`count_pretokens`] or [`count_whole_documents`], then that of [`learn_merges`].
///
/// # Errors
/// - The special tokens or the split cannot be used. This is found before anything is read.
/// - Errors from reading `documents`, and those of the three functions named above.
pub fn learn(
    documents: Documents<'_>,
    config: &LearnConfig,
    observer: &dyn Observer,
) -> Result<(Vocabulary, Learned)> {
    let vocabulary = |merges: &Merges| {
        Vocabulary::from_merges(merges, &config.specials, config.specials_at, config.split.clone())
    };
    vocabulary(&Merges::default())?;
    let (specials, boundary) = (SpecialFinder::new(&config.specials)?, config.boundary);
    let counting = CountConfig { specials, boundary, ..CountConfig::default() };
    observer.started(Stage::Count, None);
    let counted = match &config.split {
        SplitPattern::None => count_whole_documents(documents, &counting, observer)?,
        split => count_pretokens(documents, &*splitter(split)?, &counting, observer)?,
    };
    observer.finished(Stage::Count);
    let learned = learn_merges(counted.pretokens, &config.train, observer)?;
    Ok((vocabulary(&learned.merges)?, learned))
}

/// Name of the file in the state folder that stores the learned merges and the facts for the report.
const LEARNED: &str = "learned.journal";

/// The one record of the journal. It holds all that a resumed job needs to write the same tokenizer and the same
/// report.
#[derive(Serialize, Deserialize)]
struct LearnedRecord {
    /// Left token, right token and count of each merge, with the token numbers of training.
    merges: Vec<(u32, u32, Count)>,
    /// The history of learning, for the report.
    history: Vec<HistoryPoint>,
    /// How many pairs each merge replaced.
    replaced: Vec<u64>,
    /// Number of merges before each stage, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stage_starts: Vec<usize>,
    /// Facts about the text that was counted.
    corpus: CorpusFacts,
    /// Number of distinct pre-tokens, or of distinct documents without a split.
    distinct_pretokens: u64,
    /// The cost of counting and training, so that the report includes them.
    stages: Vec<StageCost>,
    /// Rows that were skipped while the text was read, by source and unit.
    left_out: Vec<(usize, usize, UnitSkips)>,
    /// The tokens of each source if training was parity-aware.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    parity: Option<BalancedTokens>,
}

/// Stores the merges that a job learned, the cost of its stages, and the rows that were skipped. The journal is
/// synced to disk. `key` is the fingerprint of the job.
///
/// # Errors
/// The file cannot be written.
pub(super) fn store_learned(
    folder: &OutputFolder,
    key: &str,
    trained: &Trained,
    stages: &[StageCost],
    skipped_rows: &SkippedRows,
) -> Result<()> {
    let Learned { merges, history, replaced } = &trained.learned;
    let record = LearnedRecord {
        merges: merges.iter().map(|merge| (merge.left, merge.right, merge.count)).collect(),
        history: history.clone(),
        replaced: replaced.clone(),
        stage_starts: trained.stage_starts.clone(),
        corpus: trained.corpus.clone(),
        distinct_pretokens: trained.distinct_pretokens,
        stages: stages.to_vec(),
        left_out: skipped_rows.by_unit(),
        parity: trained.parity.clone(),
    };
    let mut journal = Journal::create(folder.state().join(LEARNED), key)?;
    journal.append(&record)?;
    journal.sync()
}

/// The training of an earlier run of the job; `None` if the folder stores none for this `key`. The rows that it
/// skipped are added to `skipped_rows`.
///
/// # Errors
/// The file cannot be read, or the merges and settings make no vocabulary.
pub(super) fn restore_learned(
    folder: &OutputFolder,
    key: &str,
    settings: &TrainPlan,
    skipped_rows: &SkippedRows,
) -> Result<Option<(Trained, Vec<StageCost>)>> {
    let (_, records) = Journal::open::<LearnedRecord>(folder.state().join(LEARNED), key)?;
    let Some(record) = records.into_iter().next() else { return Ok(None) };
    let merge = |(left, right, count)| Merge { left, right, count };
    let merges = Merges::new(record.merges.into_iter().map(merge).collect());
    let (specials, at) = (&settings.specials, settings.specials_at);
    let trained = Trained {
        vocabulary: Vocabulary::from_merges(&merges, specials, at, settings.split.clone())?.into(),
        learned: Learned { merges, history: record.history, replaced: record.replaced },
        stage_starts: record.stage_starts,
        // Only the command `train` extends a tokenizer, and it stores nothing here.
        base: None,
        corpus: record.corpus,
        distinct_pretokens: record.distinct_pretokens,
        parity: record.parity,
    };
    record.left_out.iter().for_each(|(source, unit, rows)| skipped_rows.restore(*source, *unit, rows));
    Ok(Some((trained, record.stages)))
}

/// Whether a folder without a manifest holds the beginning of a job: data files, or learned merges.
///
/// # Errors
/// The folder cannot be read.
pub(super) fn has_begun(folder: &Path, split: Option<&str>) -> Result<bool> {
    Ok(has_learned(&sink::state_of(folder, split)) || sink::holds_data(folder, split)?)
}

/// Whether a job has stored learned merges in this state folder. An empty file does not count.
pub(super) fn has_learned(state: &Path) -> bool {
    fs::metadata(state.join(LEARNED)).is_ok_and(|file| file.len() > 0)
}

/// Removes the stored merges, if there are any. The caller has found that they belong to another job.
///
/// # Errors
/// The file cannot be removed.
pub(super) fn forget_learned(folder: &OutputFolder) -> Result<()> {
    atomic_file::remove(&folder.state().join(LEARNED))
}

/// The vocabulary of these merges. If training extended a tokenizer, the first ones are its own.
///
/// # Errors
/// The merges and the special tokens do not fit together, for example if a merge makes the text of a special token.
pub(super) fn vocabulary(
    merges: &Merges,
    train: &TrainPlan,
    base: Option<&ExtendedTokenizer>,
) -> Result<Vocabulary> {
    match base {
        Some(base) => base.vocabulary.extended(merges),
        None => Vocabulary::from_merges(merges, &train.specials, train.specials_at, train.split.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::int::Count;
    use crate::observer::Silent;
    use crate::source::texts;

    #[test]
    fn with_and_without_a_split_special_tokens_are_cut_out() {
        let once = |split| {
            let mut config = LearnConfig::new(259, &["<s>"]);
            (config.split, config.train.min_frequency) = (split, Count::ONE);
            let (vocabulary, learned) = learn(texts(["ab<s>ab"]), &config, &Silent).expect("two texts");
            let merges: Vec<_> = learned.merges.iter().map(|merge| (merge.left, merge.right)).collect();
            assert_eq!(merges, [(97, 98)], "of two that are asked for: nothing else is left");
            assert_eq!(vocabulary.specials().next().map(|special| special.text.as_str()), Some("<s>"));
        };
        once(SplitPattern::None);
        once(SplitPattern::Named(NamedPattern::Gpt4));
        let unusable = LearnConfig::new(300, &["a"]);
        assert!(learn(texts(["ab"]), &unusable, &Silent).is_err(), "it is a byte's token");
    }
}
