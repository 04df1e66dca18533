//! Verifies finished work: an output folder against its manifest, and the merges of a tokenizer against the text that
//! they were learned from.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::counting::Counting;
use super::extend::{
    MERGES_BEFORE, PARITY, check_preparation, complete, encoded, fill, fill_rules, preparation, record_of,
    stages, without_missing_bytes,
};
use super::inputs::{Inputs, no_text};
use super::over_memory;
use super::plan::Plan;
use super::recipe::{Given, Recipe};
use crate::base::int::{Count, TokenId, to_u64, u64_to_usize};
use crate::count::CorpusCounts;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Silent};
use crate::report;
use crate::sink::{CARD_FILE, Manifest, TOKENIZER_FOLDER};
use crate::source::OpenContext;
use crate::split::SplitPattern;
use crate::train::{Deviation, verify_memory_estimate, verify_merges, verify_sequences};
use crate::vocab::{self, Format, LoadOptions, Vocabulary};

/// The verified contents of an output folder.
#[derive(Clone, Debug)]
pub struct Verified {
    /// The manifest of the folder.
    pub manifest: Manifest,
    /// Names of files that differ from those that were written, and may: the dataset card, which people edit.
    pub edited: Vec<String>,
    /// The formats in which the folder holds its tokenizer. Empty if the tokenizer was given to the run, and is
    /// stored elsewhere.
    pub formats: Vec<Format>,
}

/// Compares an output folder with its manifest: [the files that it lists](Manifest::verify), the tokenizer in each of
/// its formats, and the checksums of the manifest and the reports. Returns `None` if the folder has no manifest.
///
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::run::verify_output;
///
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path();
/// match verify_output(folder, &Silent)? {
///     Some(verified) => println!("{} rows are as they were written", verified.manifest.rows()),
///     None => println!("not complete"),
/// }
/// # Ok::<(), tokenmill::Error>(())
/// ```
///
/// # Errors
/// - Something is missing, differs, or is not listed ([`ErrorKind::Mismatch`]).
/// - A file cannot be read.
/// - The observer asks to stop.
pub fn verify_output(folder: &Path, observer: &dyn Observer) -> Result<Option<Verified>> {
    let Some(manifest) = Manifest::read_checked(folder)? else { return Ok(None) };
    manifest.verify(folder, observer)?;
    manifest.reports.iter().try_for_each(|name| report::check(&folder.join(name)))?;
    let is_edited = manifest.card_is_edited(folder, observer)?;
    let edited = is_edited.then(|| CARD_FILE.to_owned()).into_iter().collect();
    let folder = folder.join(TOKENIZER_FOLDER);
    let formats = if folder.is_dir() { vocab::formats_in(&folder)? } else { Vec::new() };
    if manifest.files.is_empty() && formats.is_empty() {
        let problem = format!("{} is missing", folder.display());
        return Err(Error::message(ErrorKind::Mismatch, problem));
    }
    for &format in &formats {
        let options = LoadOptions { format: Some(format), ..LoadOptions::default() };
        let vocabulary = vocab::load(&folder, &options, &Silent).map_err(not_as_it_was)?;
        if vocabulary.fingerprint() != manifest.tokenizer {
            let folder = folder.display();
            let problem =
                format!("the {format} files in {folder} are of another tokenizer than the manifest names");
            return Err(Error::message(ErrorKind::Mismatch, problem));
        }
    }
    Ok(Some(Verified { manifest, edited, formats }))
}

/// Treats a tokenizer that cannot be loaded as a mismatch: no run wrote it like that.
///
/// Errors of other kinds are returned as they are, for example a request to stop.
fn not_as_it_was(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Failed | ErrorKind::Usage => Error::new(ErrorKind::Mismatch, error),
        _ => error,
    }
}

/// Selects the merges of a tokenizer to check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckedMerges {
    /// Those of the last recorded stage of training: all merges, unless the training extended another tokenizer.
    #[default]
    LastStage,
    /// Those of one recorded stage, counted from 1.
    Stage(usize),
    /// Those after this number of merges, which are applied without a check.
    Behind(usize),
}

/// Completes a recipe for replaying the merges of a tokenizer on data. Pattern and special tokens come from the
/// tokenizer, which messages call `name`. Where the recipe is silent, the rules of training come from the record of
/// its training. Without a record, every pair that occurs may be merged (`min_frequency` 1).
///
/// Returns the range of the merges to check. Those before it are applied without a check.
///
/// `path` is the file or folder of the tokenizer: its record is read there. A number of merges beyond the end of the
/// list gives an empty range.
///
/// # Errors
/// The record is damaged, has no such stage, or is that of parity-aware training.
pub fn complete_from_training(
    recipe: &mut Recipe,
    name: &str,
    path: &Path,
    vocabulary: &Vocabulary,
    checked: CheckedMerges,
) -> Result<Range<usize>> {
    if record_of(path, vocabulary)?.is_some_and(|record| !record.settings[PARITY].is_null()) {
        let problem =
            format!("{name} was trained with parity, so its merges are the best of one source each");
        return Err(
            Error::usage(problem).with_help("train again from the same sources, and compare the merges")
        );
    }
    complete(recipe, name, vocabulary);
    let keys = recipe.train.get_or_insert_default();
    let all = vocabulary.merges().len();
    let stages = stages(path, vocabulary)?;
    let first = |stage: &Value| stage[MERGES_BEFORE].as_u64().map_or(0, u64_to_usize).min(all);
    let number = match checked {
        CheckedMerges::LastStage => stages.len(),
        CheckedMerges::Stage(number) => number,
        CheckedMerges::Behind(given) => {
            1 + stages.iter().rposition(|stage| first(stage) <= given).unwrap_or(0)
        }
    };
    let Some(stage) = number.checked_sub(1).and_then(|number| stages.get(number)) else {
        let recorded = match stages.len() {
            1 => "one stage".to_owned(),
            stages => format!("{stages} stages"),
        };
        let problem =
            format!("there is no stage {number}: as far as is recorded, {name} was trained in {recorded}");
        return Err(Error::usage(problem)
            .with_help("if stages are not recorded, --skip-merges says how many merges came before"));
    };
    // An earlier stage may have split text in another way than the tokenizer does.
    if let Ok(split) = SplitPattern::deserialize(&stage["split"]) {
        keys.split = Some(Given::flag(split));
    }
    fill(&mut keys.boundary, &stage["boundary"]);
    fill_rules(keys, stage);
    keys.min_frequency.get_or_insert(Given::flag(Count::ONE));
    check_preparation(recipe, name, vocabulary);
    let end = stages.get(number).map_or(all, first);
    Ok(match checked {
        CheckedMerges::Behind(given) => given.min(all)..all,
        _ => first(stage)..end,
    })
}

/// The result of replaying merges.
///
/// `deviation` is `None` if every checked merge joined the best pair at its time.
#[derive(Clone, Debug)]
pub struct Verification {
    /// Number of merges in the list.
    pub merges: usize,
    /// The merges that were checked. Those before them were applied without a check.
    pub checked: Range<usize>,
    /// The first checked merge at which a better pair existed, if there is one.
    pub deviation: Option<Deviation>,
    /// Token ids by the numbers of training, in which byte b is b and merge k makes 256 + k.
    pub ids: Vec<TokenId>,
    /// Bytes of text that the merges were replayed on.
    pub text_bytes: u64,
    /// Number of rows or files that were skipped.
    pub skipped: u64,
}

/// Replays the merges of a tokenizer on a plan's documents, and checks those in a range: whether each merged the best
/// pair at that time.
///
/// **Memory:** about [`verify_memory_estimate`], at most `plan.memory`.
///
/// # Errors
/// - Errors of reading and counting.
/// - The merges to check were not learned one after another.
/// - The input has no text ([`ErrorKind::Failed`]), or more than fits the memory ([`ErrorKind::Memory`]).
///
/// # Panics
/// The plan has no training.
pub fn verify_list(
    plan: &Plan,
    vocabulary: &Vocabulary,
    checked: Range<usize>,
    context: &OpenContext<'_>,
) -> Result<Verification> {
    let settings = plan.train.as_ref().expect("a plan that trains");
    let list = vocabulary.given_merges(checked.start).map_err(|error| {
        let help = "give a tokenizer whose merges were learned one after the other, or say with --skip-merges how many are not to be checked";
        error.with_help(help)
    })?;
    super::with_threads(plan.threads, || {
        let inputs = Inputs::open(plan, context)?;
        let prepare = preparation(vocabulary)?;
        let counting = Counting { plan, train: settings, inputs: &inputs, observer: context.observer };
        let CorpusCounts { pretokens, facts } = counting.sample(prepare)?;
        inputs.check_stamps()?;
        if pretokens.is_empty() {
            return Err(no_text(&inputs, "replay merges"));
        }
        let need = verify_memory_estimate(to_u64(pretokens.bytes()), to_u64(pretokens.len()));
        if need > plan.memory {
            return Err(over_memory("replaying the merges needs", need, plan.memory)
                .with_help("take a part of the corpus (--take, --every, --max-bytes), or raise --memory"));
        }
        let pretokens = without_missing_bytes(pretokens, vocabulary);
        let (merges, config) = (list.merges().first(checked.end), &settings.config);
        let deviation = match encoded(&pretokens, &list, context.observer)? {
            Some((sequences, _)) => {
                verify_sequences(sequences, &merges, checked.start, config, context.observer)
            }
            None => verify_merges(&pretokens, &merges, checked.start, config, context.observer),
        }?;
        Ok(Verification {
            merges: list.merges().len(),
            checked,
            deviation,
            ids: list.ids().to_vec(),
            text_bytes: facts.text_bytes,
            skipped: inputs.skipped(context.observer),
        })
    })
}
