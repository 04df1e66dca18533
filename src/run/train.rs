//! Trains the tokenizer of a plan and writes its files.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::base::{Base, STAGES, preparation};
use super::costs::Costs;
use super::counted;
use super::fault::Fault;
use super::inputs::{Inputs, ReadBy, TAKE_MORE};
use super::mixture;
use super::plan::{Plan, SMALLER_FOLDER, SmallerPlan, TrainPlan};
use super::room::memory_for_documents;
use crate::base::atomic_file;
use crate::base::atomic_file::Together;
use crate::base::int::{ByteCount, Count, counted, to_u64};
use crate::count::{
    self, Boundary, CorpusFacts, CountConfig, Counted, Counts, MemoryLimit, Prepare, PretokenCounts,
    gather_documents,
};
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Stage};
use crate::report::{HTML_NAME, JSON_NAME};
use crate::source::{Documents, Unit};
use crate::split::{SpecialFinder, SplitPattern, splitter};
use crate::train::{Learned, Merges, extend_memory_estimate, learn_merges, memory_estimate};
use crate::vocab::{self, Format, TrainingRecord, Vocabulary, WriteOptions};
use crate::{FORMAT_VERSION, VERSION};

/// The result of training, before it is written.
pub(super) struct Trained {
    pub(super) vocabulary: Arc<Vocabulary>,
    pub(super) learned: Learned,
    /// The tokenizer that training extended, if any. Its merges come first.
    pub(super) base: Option<Base>,
    pub(super) corpus: CorpusFacts,
    /// Number of distinct pre-tokens, or of distinct documents if there is no split.
    pub(super) distinct_pretokens: u64,
}

impl Trained {
    /// How often the pair of each merge occurred when it was merged, by rank in the vocabulary.
    pub(super) fn counts(&self) -> Vec<u64> {
        let counts: Vec<u64> = self.learned.merges.iter().map(|merge| merge.count.get()).collect();
        self.base.as_ref().map_or_else(|| counts.clone(), |base| base.given.by_rank(&counts))
    }
}

/// Reads and counts the sample, learns merges from the counts, and builds a vocabulary. If `kept` names a folder, the
/// counts of the sources of a mixture are stored there.
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
    if let Some(bytes) = least_text(plan, train, inputs) {
        within_memory(learning_memory(train, bytes, 1, false), plan.memory)?;
    }
    for token in &train.only_named {
        observer
            .noted(&format!("{token:?} is named for transformers, and so it is added as a special token"));
    }
    let base = Base::load(train, observer)?;
    let prepare = base.as_ref().map(|base| preparation(&base.vocabulary)).transpose()?.flatten();
    let Counted { pretokens, facts } = costs.stage("count", || {
        let counted = match kept {
            _ if !plan.counts.is_empty() => counted::read(plan, train, observer)?,
            Some(folder) if prepare.is_none() && mixture::is_kept(plan, train, inputs) => {
                mixture::count(plan, train, inputs, folder, observer)?
            }
            _ => count(plan, train, inputs, prepare, observer)?,
        };
        inputs.check_stamps()?;
        let text_bytes = counted.facts.text_bytes;
        Ok((counted, text_bytes))
    })?;
    if pretokens.is_empty() {
        return Err(match plan.counts.is_empty() {
            true => no_text(inputs, |whole| Fault::NothingToTrainOn { whole }),
            false => {
                Error::new(ErrorKind::Failed, Fault::NothingToTrainOn { whole: "input that was counted" })
                    .with_help("check that the counts are those of the right input")
            }
        });
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
    Ok(Trained { vocabulary, learned, base, corpus: facts, distinct_pretokens })
}

/// The error for an input or a sample without text. `fault` is given which of the two it is.
pub(super) fn no_text(inputs: &Inputs<'_>, fault: impl FnOnce(&'static str) -> Fault) -> Error {
    let (whole, help) = if inputs.sample_is_everything() {
        ("input", "check that the input is the right one, and its column or field")
    } else {
        ("sample", TAKE_MORE)
    };
    let help = inputs.first_left_out().unwrap_or_else(|| help.to_owned());
    Error::new(ErrorKind::Failed, fault(whole)).with_help(help)
}

/// The vocabulary of these merges. If training extended a tokenizer, the first ones are its own.
fn vocabulary(merges: &Merges, train: &TrainPlan, base: Option<&Base>) -> Result<Vocabulary> {
    match base {
        Some(base) => base.vocabulary.extended(merges),
        None => Vocabulary::from_merges(merges, &train.specials, train.specials_at, train.split.clone()),
    }
}

/// Counts the distinct pre-tokens of the sample, or gathers its documents if there is no split.
pub(super) fn count(
    plan: &Plan,
    train: &TrainPlan,
    inputs: &Inputs<'_>,
    prepare: Option<Arc<dyn Prepare>>,
    observer: &dyn Observer,
) -> Result<Counted> {
    if train.split != SplitPattern::None {
        let counts = count_within_limit(plan, train, inputs, prepare, &train.output, observer)?;
        return counts.into_counted(observer);
    }
    let documents = prepared(inputs, ReadBy::Readers, &prepare);
    let limit = Some(MemoryLimit { tables: plan.memory, scratch: train.output.clone() });
    let config = CountConfig { limit, ..count_config(plan, train, prepare)? };
    observer.started(Stage::Count, inputs.sampled_bytes());
    let counted = gather_documents(documents, &config, observer)?;
    observer.finished(Stage::Count);
    Ok(counted)
}

/// Counts the distinct pre-tokens of the sample. Those that exceed the memory limit are written to the folder
/// `scratch`.
pub(super) fn count_within_limit(
    plan: &Plan,
    train: &TrainPlan,
    inputs: &Inputs<'_>,
    prepare: Option<Arc<dyn Prepare>>,
    scratch: &Path,
    observer: &dyn Observer,
) -> Result<Counts> {
    observer.started(Stage::Count, inputs.sampled_bytes());
    let documents = prepared(inputs, ReadBy::Takers, &prepare);
    let config = CountConfig { weights: plan.weights.clone(), ..count_config(plan, train, prepare)? };
    let counts = count_documents(documents, config, plan, train, scratch, observer);
    let counts = counts.map_err(|error| inputs.with_place(error))?;
    observer.finished(Stage::Count);
    Ok(counts)
}

/// The documents of the sample. They are joined from their parts if they must be prepared.
fn prepared(inputs: &Inputs<'_>, by: ReadBy, prepare: &Option<Arc<dyn Prepare>>) -> Documents<'static> {
    let documents = inputs.sampled(by);
    if prepare.is_some() { inputs.whole(documents) } else { documents }
}

/// Counts the distinct pre-tokens of these documents. Those that exceed the memory limit are written to the folder
/// `scratch`.
pub(super) fn count_documents(
    documents: Documents<'_>,
    config: CountConfig,
    plan: &Plan,
    train: &TrainPlan,
    scratch: &Path,
    observer: &dyn Observer,
) -> Result<Counts> {
    let tables = memory_of_tables(plan.memory, plan.threads);
    let limit = Some(MemoryLimit { tables, scratch: scratch.to_path_buf() });
    let config = CountConfig { limit, ..config };
    let splitter = splitter(&train.split)?;
    count::count_within_limit(documents, &*splitter, &config, observer)
}

/// How documents are counted. If text is prepared, that also finds the special tokens.
pub(super) fn count_config(
    plan: &Plan,
    train: &TrainPlan,
    prepare: Option<Arc<dyn Prepare>>,
) -> Result<CountConfig> {
    let specials: &[String] = if prepare.is_some() { &[] } else { &train.specials };
    Ok(CountConfig {
        specials: SpecialFinder::new(specials)?,
        weights: plan.weights.clone(),
        boundary: train.boundary,
        prepare,
        limit: None,
    })
}

/// Memory for the tables of counting: what remains after the program and the text that is read, but at least a
/// quarter of the limit.
pub(super) fn memory_of_tables(limit: ByteCount, threads: usize) -> ByteCount {
    memory_for_documents(limit, threads)
}

/// Memory for a sum of counts: half of that for tables, since the counts that are added are held as well.
pub(super) fn memory_of_sum(plan: &Plan) -> ByteCount {
    ByteCount(memory_of_tables(plan.memory, plan.threads).0 / 2)
}

/// A lower bound in bytes for the text of the training, if it is known before reading. Without a split it is the
/// longest single document, or the largest source if documents are joined; others may be equal to it and add nothing.
fn least_text(plan: &Plan, train: &TrainPlan, inputs: &Inputs<'_>) -> Option<u64> {
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

/// Checks that learning from these pre-tokens fits the memory limit.
///
/// # Errors
/// It does not ([`ErrorKind::Memory`]).
fn check_memory(pretokens: &PretokenCounts, train: &TrainPlan, limit: ByteCount) -> Result<()> {
    let weighted = pretokens.iter().any(|(_, count)| count != Count::ONE);
    within_memory(learning_memory(train, to_u64(pretokens.bytes()), to_u64(pretokens.len()), weighted), limit)
}

/// Estimated peak memory of learning from sequences of this number and total size. `weighted` says whether some count
/// more than once.
pub(super) fn learning_memory(train: &TrainPlan, bytes: u64, sequences: u64, weighted: bool) -> ByteCount {
    match train.extend {
        Some(_) => extend_memory_estimate(&train.config, bytes, sequences),
        None => memory_estimate(&train.config, bytes, sequences, weighted),
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
    const A_BYTE: u64 = 50;
    /// Bytes of tokens (4 MiB) that any tokenizer may have, whatever the limit.
    const USUAL: u64 = 4 << 20;
    let bytes = learned.merges.token_bytes();
    if bytes > vocab::MAX_FILE_BYTES {
        let (bytes, limit) = (ByteCount(bytes), ByteCount(vocab::MAX_FILE_BYTES));
        return Err(
            Error::new(ErrorKind::Failed, Fault::NoFileHolds { bytes, limit }).with_help(SHORTER_TOKENS)
        );
    }
    let need = bytes.saturating_mul(A_BYTE);
    if bytes <= USUAL || need <= limit.0 {
        return Ok(());
    }
    let fault = Fault::LongTokens { bytes: ByteCount(bytes), need: ByteCount(need), limit };
    Err(Error::new(ErrorKind::Memory, fault).with_help(format!("{SHORTER_TOKENS}, or raise --memory")))
}

/// The help for very long tokens.
const SHORTER_TOKENS: &str = "set --max-token-bytes ([train] max_token_bytes), or learn fewer merges";

/// Checks an estimate against the memory limit.
///
/// # Errors
/// The estimate exceeds it ([`ErrorKind::Memory`]).
fn within_memory(need: ByteCount, limit: ByteCount) -> Result<()> {
    if need <= limit {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Memory, Fault::TooLarge { need, limit })
        .with_help("raise --memory, or learn from a part of the corpus (`take`, `every`, `max_bytes`)"))
}

/// The key in a record's settings for the formats in the folder.
const FORMATS: &str = "formats";

/// Writes the tokenizer, the smaller ones of the same training, and their records, in each format that the plan
/// names. Tells the observer which other tokenizers are replaced.
///
/// # Errors
/// A format cannot hold one of the tokenizers, which is found before any existing file is changed; or a file cannot
/// be written.
pub(super) fn write_tokenizer(
    trained: &Trained,
    plan: &Plan,
    train: &TrainPlan,
    options: &WriteOptions,
    observer: &dyn Observer,
) -> Result<()> {
    let mut record = TrainingRecord {
        format_version: FORMAT_VERSION,
        tool_version: VERSION.to_owned(),
        vocabulary: trained.vocabulary.fingerprint(),
        settings: json!({
            "recipe_sha256": plan.recipe_hash,
            "split": train.split.to_string(),
            "boundary": train.boundary,
            "merges": train.config.merges,
            "min_frequency": train.config.min_frequency,
            "max_token_bytes": train.config.max_token_bytes,
            "tie_break": train.config.tie_break,
            "score": train.config.score,
            "extends": train.extend,
            "special_tokens": train.specials,
            "special_tokens_at": train.specials_at,
        }),
        counts: trained.counts(),
        history: trained.learned.history.clone(),
    };
    if let Some(base) = &trained.base {
        record.settings[STAGES] = json!(base.stages(train));
    }
    let learned = trained.learned.merges.len();
    for smaller in train.smaller.iter().filter(|smaller| smaller.merges > learned) {
        let (path, tokens) = (smaller.output.display(), trained.vocabulary.tokens().count());
        observer.noted(&format!("{path} has the whole vocabulary, of {tokens} tokens: no more were learned"));
    }
    // Check that the formats can hold all sizes before any existing file is changed.
    each_size(trained, train, &record, |vocabulary, _, _| {
        train.formats.iter().try_for_each(|&format| vocab::render(vocabulary, format, options).map(drop))
    })?;
    let kept =
        |folder: &Path, _: &TrainingRecord| train.smaller.iter().any(|smaller| smaller.output == folder);
    remove_smaller(&train.output, kept, options, observer)?;
    each_size(trained, train, &record, |vocabulary, record, folder| {
        write_files(vocabulary, record, &train.formats, folder, options, observer)
    })
}

/// Passes each vocabulary of a training to `take`, with its record and folder, the smaller ones first. One is in
/// memory at a time.
fn each_size(
    trained: &Trained,
    train: &TrainPlan,
    record: &TrainingRecord,
    mut take: impl FnMut(&Vocabulary, TrainingRecord, &Path) -> Result<()>,
) -> Result<()> {
    for smaller in &train.smaller {
        let merges = trained.learned.merges.first(smaller.merges);
        let vocabulary = vocabulary(&merges, train, trained.base.as_ref())?;
        take(&vocabulary, first_part(record, &vocabulary, smaller), &smaller.output)?;
    }
    take(&trained.vocabulary, record.clone(), &train.output)
}

/// Removes the tokenizer that an earlier job trained in a folder, and its smaller ones, when the output is encoded
/// with another tokenizer. They are recognized by their records. The given tokenizer itself stays: it may be stored
/// there.
pub(super) fn remove_others(
    folder: &Path,
    given: &Vocabulary,
    options: &WriteOptions,
    observer: &dyn Observer,
) -> Result<()> {
    let given = given.fingerprint();
    let Ok(Some(record)) = TrainingRecord::read(folder) else { return Ok(()) };
    if record.vocabulary == given {
        return Ok(());
    }
    remove_smaller(folder, |_, record| record.vocabulary == given, options, observer)?;
    observer.noted(&format!("{} held the tokenizer of an earlier run, which is removed", folder.display()));
    remove_tokenizer(folder, &record, options)
}

/// Removes the smaller tokenizers that an earlier training left, except those for which `kept` returns true. They are
/// recognized by their records.
fn remove_smaller(
    of: &Path,
    kept: impl Fn(&Path, &TrainingRecord) -> bool,
    options: &WriteOptions,
    observer: &dyn Observer,
) -> Result<()> {
    let cannot = |cause| Error::io("read", of, cause);
    let entries = match fs::read_dir(of) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(cannot)?,
    };
    for entry in entries {
        let entry = entry.map_err(cannot)?;
        let (name, folder) = (entry.file_name(), entry.path());
        let size = name.to_str().and_then(|name| name.strip_prefix(SMALLER_FOLDER));
        let is_smaller = size.is_some_and(|size| size.parse::<u64>().is_ok()) && !folder.is_symlink();
        if !is_smaller {
            continue;
        }
        let Ok(Some(record)) = TrainingRecord::read(&folder) else { continue };
        if kept(&folder, &record) {
            continue;
        }
        let path = folder.display();
        observer.noted(&format!("{path} held a smaller tokenizer of an earlier training, which is removed"));
        remove_tokenizer(&folder, &record, options)?;
    }
    Ok(())
}

/// Removes a tokenizer and its record, and their folder if it is empty then.
fn remove_tokenizer(folder: &Path, record: &TrainingRecord, options: &WriteOptions) -> Result<()> {
    formats_of(record).into_iter().try_for_each(|format| vocab::remove(format, folder, options))?;
    TrainingRecord::remove(folder)?;
    remove_unfinished(folder, options)?;
    match fs::remove_dir(folder) {
        Err(cause) if cause.kind() != io::ErrorKind::DirectoryNotEmpty => {
            Err(Error::io("remove", folder, cause))
        }
        _ => Ok(()),
    }
}

/// The files that [`write_tokenizer`] writes, as paths relative to the output folder.
pub(super) fn tokenizer_files(train: &TrainPlan, output: &Path, options: &WriteOptions) -> Vec<String> {
    let folders = train.smaller.iter().map(|smaller| &smaller.output).chain([&train.output]);
    let files = folders.flat_map(|folder| {
        vocab::paths(&train.formats, folder, options).into_iter().chain([TrainingRecord::path(folder)])
    });
    let below = files.filter_map(|path| {
        let parts = path.strip_prefix(output).ok()?.components();
        let parts: Option<Vec<&str>> = parts.map(|part| part.as_os_str().to_str()).collect();
        Some(parts?.join("/"))
    });
    below.collect()
}

/// The formats that a record says its folder has.
fn formats_of(record: &TrainingRecord) -> Vec<Format> {
    serde_json::from_value(record.settings[FORMATS].clone()).unwrap_or_default()
}

/// Writes a tokenizer and its record into a folder. Files of another tokenizer, as listed by its record, are removed.
fn write_files(
    vocabulary: &Vocabulary,
    mut record: TrainingRecord,
    formats: &[Format],
    folder: &Path,
    options: &WriteOptions,
    observer: &dyn Observer,
) -> Result<()> {
    fs::create_dir_all(folder).map_err(|cause| Error::io("create", folder, cause))?;
    remove_unfinished(folder, options)?;
    let mut held = formats.to_vec();
    let mut together = Together::default();
    for &format in formats {
        vocab::stage(vocabulary, format, folder, options, &mut together)?;
    }
    // An unreadable record has already been refused, unless a job has begun here. Then it is about to be replaced
    // anyway.
    if let Ok(Some(before)) = TrainingRecord::read(folder) {
        let others = formats_of(&before).into_iter().filter(|other| !formats.contains(other));
        if before.vocabulary == record.vocabulary {
            held.extend(others);
        } else {
            let (path, merges) = (folder.display(), before.counts.len());
            let merges = counted(to_u64(merges), "merge");
            observer.noted(&format!("{path} held another tokenizer, of {merges}, which is replaced"));
            others.into_iter().try_for_each(|other| vocab::remove(other, folder, options))?;
        }
    }
    // The record is written first: if the training ends before all files are written, the next one still knows which
    // files are its own.
    record.settings[FORMATS] = json!(held);
    together.add_before(&TrainingRecord::path(folder), &record.bytes())?;
    together.commit()?;
    if formats.contains(&Format::Hf)
        && let Some(other) = vocab::other_chat_template(folder, options)?
    {
        observer.noted(&format!(
            "{}: transformers uses this chat template instead of the one that is written: remove it",
            other.display()
        ));
    }
    for &format in formats {
        vocab::cautions(vocabulary, format).iter().for_each(|caution| observer.noted(caution));
    }
    Ok(())
}

/// Removes temporary files that an interrupted training left. The folder is locked.
fn remove_unfinished(folder: &Path, options: &WriteOptions) -> Result<()> {
    let cannot = |cause| Error::io("read", folder, cause);
    let mut own = vocab::paths(&Format::ALL, folder, options);
    own.extend([TrainingRecord::path(folder), folder.join(JSON_NAME), folder.join(HTML_NAME)]);
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let written = path.file_name().and_then(|name| atomic_file::unfinished(name.to_str()?));
        if written.is_some_and(|name| own.contains(&folder.join(name))) {
            atomic_file::remove(&path)?;
        }
    }
    Ok(())
}

/// The record of a smaller vocabulary of the same training, with only the counts and history of its merges.
fn first_part(record: &TrainingRecord, vocabulary: &Vocabulary, smaller: &SmallerPlan) -> TrainingRecord {
    let mut part = record.clone();
    part.vocabulary = vocabulary.fingerprint();
    part.settings["merges"] = json!(smaller.merges);
    part.counts.truncate(smaller.merges);
    part.history.retain(|point| point.merges <= to_u64(smaller.merges));
    part
}
