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
use crate::count::{
    self, Boundary, CorpusFacts, CountConfig, Counted, Counts, MemoryLimit, PieceCounts, Prepare,
    gather_documents,
};
use crate::error::{Error, ErrorKind, Result};
use crate::files::{self, Together};
use crate::observer::{Observer, Stage};
use crate::report::{HTML_NAME, JSON_NAME};
use crate::source::{Documents, Unit};
use crate::split::{SpecialFinder, SplitPattern, splitter};
use crate::train::{Learned, Merges, extend_memory_estimate, learn_merges, memory_estimate};
use crate::units::{ByteCount, Count, amount, counted};
use crate::vocab::{self, Format, TrainingRecord, Vocabulary, WriteOptions};
use crate::{FORMAT_VERSION, VERSION};

/// What training gives, before it is written.
pub(super) struct Trained {
    pub(super) vocabulary: Arc<Vocabulary>,
    pub(super) learned: Learned,
    /// What training went on from, whose merges are the first.
    pub(super) base: Option<Base>,
    pub(super) corpus: CorpusFacts,
    pub(super) distinct_pieces: u64,
}

impl Trained {
    /// How often the pair of each of the vocabulary's merges occurred when it was merged, by rank.
    pub(super) fn counts(&self) -> Vec<u64> {
        let counts: Vec<u64> = self.learned.merges.iter().map(|merge| merge.count.get()).collect();
        self.base.as_ref().map_or_else(|| counts.clone(), |base| base.given.by_rank(&counts))
    }
}

/// Reads and counts the sample, learns merges from the counts, and makes a vocabulary of them. The counts of the
/// sources of a mixture may be kept in a folder.
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
    let Counted { pieces, facts } = costs.stage("count", || {
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
    if pieces.is_empty() {
        return Err(match plan.counts.is_empty() {
            true => no_text(inputs, |whole| Fault::NothingToTrainOn { whole }),
            false => {
                Error::new(ErrorKind::Failed, Fault::NothingToTrainOn { whole: "input that was counted" })
                    .with_help("check that the counts are those of the right input")
            }
        });
    }
    check_memory(&pieces, train, plan.memory)?;
    let (distinct_pieces, distinct_bytes) = (amount(pieces.len()), amount(pieces.bytes()));
    let learned = costs.stage("train", || {
        let learned = match &base {
            Some(base) => base.learn(pieces, train, observer),
            None => learn_merges(pieces, &train.config, observer),
        };
        Ok((learned?, distinct_bytes))
    })?;
    check_tokens(&learned, plan.memory)?;
    let vocabulary = Arc::new(vocabulary(&learned.merges, train, base.as_ref())?);
    Ok(Trained { vocabulary, learned, base, corpus: facts, distinct_pieces })
}

/// The error of an input without text, or of a sample of it, whose fault says which.
pub(super) fn no_text(inputs: &Inputs<'_>, fault: impl FnOnce(&'static str) -> Fault) -> Error {
    let (whole, help) = if inputs.sample_is_everything() {
        ("input", "check that the input is the right one, and its column or field")
    } else {
        ("sample", TAKE_MORE)
    };
    let help = inputs.first_left_out().unwrap_or_else(|| help.to_owned());
    Error::new(ErrorKind::Failed, fault(whole)).with_help(help)
}

/// The vocabulary of merges, the first of which may be those of another.
fn vocabulary(merges: &Merges, train: &TrainPlan, base: Option<&Base>) -> Result<Vocabulary> {
    match base {
        Some(base) => base.vocabulary.extended(merges),
        None => Vocabulary::from_merges(merges, &train.specials, train.specials_at, train.split.clone()),
    }
}

/// Counts the distinct pieces of the sample, or gathers its documents where there is no split.
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

/// Counts the distinct pieces of the sample; those that do not fit the plan's limit of memory go to
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

/// The documents of the sample, each whole if it is prepared.
fn prepared(inputs: &Inputs<'_>, by: ReadBy, prepare: &Option<Arc<dyn Prepare>>) -> Documents<'static> {
    let documents = inputs.sampled(by);
    if prepare.is_some() { inputs.whole(documents) } else { documents }
}

/// Counts the distinct pieces of some documents, likewise.
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

/// How documents are counted. What is to be prepared is found by that, special tokens too.
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

/// What of the memory is for the tables of counting: what the program and the text that is read do not
/// take, but a quarter in any case.
pub(super) fn memory_of_tables(limit: ByteCount, threads: usize) -> ByteCount {
    memory_for_documents(limit, threads)
}

/// The same for a sum of counts: what is added is held beside it.
pub(super) fn memory_of_sum(plan: &Plan) -> ByteCount {
    ByteCount(memory_of_tables(plan.memory, plan.threads).0 / 2)
}

/// Bytes of text that are certainly trained on, where that is known before reading: those of the longest
/// document, if documents are not split. Others may be equal to each other.
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

fn check_memory(pieces: &PieceCounts, train: &TrainPlan, limit: ByteCount) -> Result<()> {
    let weighted = pieces.iter().any(|(_, count)| count != Count::ONE);
    within_memory(learning_memory(train, amount(pieces.bytes()), amount(pieces.len()), weighted), limit)
}

/// About the most memory that learning from such sequences takes; `weighted` says whether some count more than once.
pub(super) fn learning_memory(train: &TrainPlan, bytes: u64, sequences: u64, weighted: bool) -> ByteCount {
    match train.extend {
        Some(_) => extend_memory_estimate(&train.config, bytes, sequences),
        None => memory_estimate(&train.config, bytes, sequences, weighted),
    }
}

/// Tokens may each be longer than the one before by a byte, and then have far more bytes than the text: where pairs
/// that occur once are merged in the order of the text, for one.
fn check_tokens(learned: &Learned, limit: ByteCount) -> Result<()> {
    /// Bytes of memory for each of a token, while its files are made.
    const A_BYTE: u64 = 50;
    /// What any tokenizer may have.
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

/// What helps where tokens are very long.
const SHORTER_TOKENS: &str = "set --max-token-bytes ([train] max_token_bytes), or learn fewer merges";

fn within_memory(need: ByteCount, limit: ByteCount) -> Result<()> {
    if need <= limit {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Memory, Fault::TooLarge { need, limit })
        .with_help("raise --memory, or learn from a part of the corpus (`take`, `every`, `max_bytes`)"))
}

/// Which formats a folder has, among the settings of its record.
const FORMATS: &str = "formats";

/// Writes the tokenizer, and the smaller ones of the same training, in each format that the plan
/// names, and how they were learned. Says where they take another's place.
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
    // Whether the formats hold all of them is seen before anything that is there is touched.
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

/// Hands each vocabulary of a training to `take`, the smaller ones first, with its record and its folder. One is held at a
/// time.
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

/// Removes the tokenizer that an earlier job learned into a folder, and its smaller ones, known by their records, for an
/// output that is encoded with another one. That one stays: it may have been given from there.
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

/// Removes the smaller tokenizers, known by their records, that an earlier training left, but those to be kept.
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

/// Removes a tokenizer and its record; their folder too, if nothing else lies in it.
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

/// The files that [`write_tokenizer`] gives, by their paths below an output folder.
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

/// The formats that a record says to lie beside it.
fn formats_of(record: &TrainingRecord) -> Vec<Format> {
    serde_json::from_value(record.settings[FORMATS].clone()).unwrap_or_default()
}

/// Writes a tokenizer and its record into a folder. What stands there of another tokenizer, by its record, is removed.
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
    // A record that cannot be read has been refused, unless a job has begun here: then it is about to be replaced too.
    if let Ok(Some(before)) = TrainingRecord::read(folder) {
        let others = formats_of(&before).into_iter().filter(|other| !formats.contains(other));
        if before.vocabulary == record.vocabulary {
            held.extend(others);
        } else {
            let (path, merges) = (folder.display(), before.counts.len());
            let merges = counted(amount(merges), "merge");
            observer.noted(&format!("{path} held another tokenizer, of {merges}, which is replaced"));
            others.into_iter().try_for_each(|other| vocab::remove(other, folder, options))?;
        }
    }
    // The record comes first: by it a training knows its own files, should it end before all of them are there.
    record.settings[FORMATS] = json!(held);
    together.add_before(&TrainingRecord::path(folder), &record.bytes())?;
    together.commit()?;
    if formats.contains(&Format::Hf)
        && let Some(other) = vocab::other_chat_template(folder, options)?
    {
        observer.noted(&format!(
            "{}: transformers takes this chat template in place of the one that is written: remove it",
            other.display()
        ));
    }
    for &format in formats {
        vocab::cautions(vocabulary, format).iter().for_each(|caution| observer.noted(caution));
    }
    Ok(())
}

/// Removes what a training that was killed has begun to write. The folder is locked.
fn remove_unfinished(folder: &Path, options: &WriteOptions) -> Result<()> {
    let cannot = |cause| Error::io("read", folder, cause);
    let mut own = vocab::paths(&Format::ALL, folder, options);
    own.extend([TrainingRecord::path(folder), folder.join(JSON_NAME), folder.join(HTML_NAME)]);
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let written = path.file_name().and_then(|name| files::unfinished(name.to_str()?));
        if written.is_some_and(|name| own.contains(&folder.join(name))) {
            files::remove(&path)?;
        }
    }
    Ok(())
}

/// The record of a smaller vocabulary of the same training.
fn first_part(record: &TrainingRecord, vocabulary: &Vocabulary, smaller: &SmallerPlan) -> TrainingRecord {
    let mut part = record.clone();
    part.vocabulary = vocabulary.fingerprint();
    part.settings["merges"] = json!(smaller.merges);
    part.counts.truncate(smaller.merges);
    part.history.retain(|point| point.merges <= amount(smaller.merges));
    part
}
