//! Extends tokenizers: completes a recipe from the tokenizer that training starts from, and replays a tokenizer's
//! merges on data.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::base::{MERGES_BEFORE, encoded, of_known_bytes, preparation, stages};
use super::fault::Fault;
use super::fixed::Fixed;
use super::inputs::Inputs;
use super::plan::Plan;
use super::recipe::{Extended, Field, Given, Mistake, Recipe, TrainKeys};
use super::train::{count, no_text};
use crate::base::int::{Count, TokenId, to_u64, truncate_to_u32, u64_to_usize};
use crate::count::{Boundary, Counted};
use crate::error::{Error, ErrorKind, Result};
use crate::observer::Observer;
use crate::source::{OpenContext, tokenizer_path};
use crate::split::SplitPattern;
use crate::train::{Deviation, Merge, Merges, verify_from, verify_memory_estimate, verify_sequences};
use crate::vocab::{self, Format, LoadOptions, SpecialTokensAt, TrainingRecord, Vocabulary, WriteOptions};

/// Completes a recipe whose training extends a tokenizer. Pattern, special tokens and their position come from the
/// tokenizer. Where the recipe is silent, the BOS and EOS tokens come from it too, and the rules of training from the
/// record beside it, if there is one. If the recipe contradicts the tokenizer, mistakes are added to it.
///
/// # Errors
/// The tokenizer or its record cannot be read.
pub fn heed_tokenizer(recipe: &mut Recipe, observer: &dyn Observer) -> Result<()> {
    let Some(path) = recipe.extend.clone() else { return Ok(()) };
    let split = recipe.train.as_ref().and_then(|keys| keys.split.as_ref()).map(|split| &split.value);
    let place = recipe.extend_at.clone().unwrap_or_else(|| PathBuf::from(&path));
    let before = to_extend(&place, split, observer)?;
    let keys = recipe.train.get_or_insert_default();
    let held: Vec<String> = before.specials().map(|special| special.text.clone()).collect();
    let vocabulary = match before.with_special_tokens(&keys.named_beyond(&held)) {
        Ok(vocabulary) => vocabulary,
        Err(wrong) => {
            let help = wrong.help().map(str::to_owned);
            recipe.mistakes.push(Mistake { help, ..Mistake::new(None, None, wrong.to_string()) });
            before.clone()
        }
    };
    let (tokens, merges) = (to_u64(vocabulary.tokens().count()), to_u64(vocabulary.merges().len()));
    recipe.extended = Some(Extended { tokens, merges });
    heed(recipe, &path, &before);
    let counted = !recipe.counts.is_empty();
    let keys = recipe.train.get_or_insert_default();
    let settings = heed_record(keys, &place, &before)?;
    // Formats other than `hf` cannot hold these tokens.
    if keys.formats.as_ref().is_none_or(|formats| formats.value.iter().any(|one| one.value == Format::Hf)) {
        let named = vocab::named_beside(&place, &vocabulary, observer)?;
        for (field, token) in [(&mut keys.bos, named.bos), (&mut keys.eos, named.eos)] {
            *field = field.take().or(token.map(|token| Given::flag(Some(token))));
        }
        keys.kept = named.transformers.kept;
    } else {
        vocab::tell_left_out(&place, &vocabulary, observer);
    }
    // The rule `first` of a record is not taken over for counts files, which may lack the order that it needs.
    if !counted || settings["tie_break"] != "first" {
        fill(&mut keys.tie_break, &settings["tie_break"]);
    }
    let asked = keys.merges.as_ref().map(|merges| merges.value);
    let sizes = keys.vocab_size.as_ref().and_then(|sizes| sizes.value.iter().map(|size| size.value).min());
    for (key, asked, held, what) in
        [("merges", asked, merges, "merges"), ("vocab_size", sizes, tokens, "tokens")]
    {
        if asked.is_some_and(|asked| asked < held) {
            let message =
                format!("{} is less than the {held} {what} that {path} has", recipe.origin.name(key));
            let help = Some(format!("it is the number of all {what}, old and new"));
            recipe.mistakes.push(Mistake { help, ..Mistake::new(Some(key), None, message) });
        }
    }
    let named = keys.formats.is_some();
    let formats = keys.formats.as_ref().map(|formats| formats.value.iter().map(|one| one.value).collect());
    let formats: Vec<Format> = formats.unwrap_or_else(|| vec![Format::Hf]);
    if let Some(grown) = grown(&vocabulary)? {
        let held = |format: Format| vocab::render(&grown, format, &WriteOptions::default());
        if let Some((format, wrong)) =
            formats.into_iter().find_map(|format| Some((format, held(format).err()?)))
        {
            let message = match named {
                true => {
                    format!("{} names a format that cannot be used: {wrong}", recipe.origin.name("formats"))
                }
                false => format!("{path} cannot be extended in the format {format}: {wrong}"),
            };
            let help = wrong.help().map(str::to_owned);
            recipe.mistakes.push(Mistake { help, ..Mistake::new(Some("formats"), None, message) });
        }
    }
    heed_preparation(recipe, &path, &vocabulary);
    Ok(())
}

/// Adds mistakes for what cannot be combined with a tokenizer that changes text before it is split: it prepares each
/// document on its own, and counts files hold pre-tokens of unprepared text.
fn heed_preparation(recipe: &mut Recipe, path: &str, vocabulary: &Vocabulary) {
    if !vocabulary.prepares_text() {
        return;
    }
    let does = format!("{path} normalizes text, or finds added tokens in it that are not special tokens");
    if !recipe.counts.is_empty() {
        let message =
            format!("`--from-counts` cannot be used: {does}, but the pre-tokens were counted without that");
        let help = Some("give the text itself".to_owned());
        recipe.mistakes.push(Mistake { help, ..Mistake::new(Some("from_counts"), None, message) });
    }
    let boundary = recipe.train.as_ref().and_then(|keys| keys.boundary.as_ref());
    if boundary.is_some_and(|boundary| boundary.value == Boundary::Join) {
        let name = recipe.origin.name("boundary");
        let message = format!("{name} join cannot be used: {does}, in each document separately");
        let help = Some("leave it out".to_owned());
        recipe.mistakes.push(Mistake { help, ..Mistake::new(Some("boundary"), None, message) });
    }
}

/// Loads the tokenizer that a training extends. `split` is the pattern to use if its files do not name one. If the
/// files name another pattern, [`heed`] adds a mistake to the recipe.
///
/// # Errors
/// The tokenizer cannot be read, or nothing says how text is split.
pub(super) fn to_extend(
    path: &Path,
    split: Option<&SplitPattern>,
    observer: &dyn Observer,
) -> Result<Vocabulary> {
    let options = LoadOptions { split: split.cloned(), ..LoadOptions::default() };
    load_as_needed(path, &options, observer)
}

/// Loads a tokenizer that is named by its path, or as [`tokenizer_path`] describes.
///
/// # Errors
/// It cannot be found or read.
pub(super) fn load_named(
    name: &Path,
    options: &LoadOptions,
    context: &OpenContext<'_>,
) -> Result<Vocabulary> {
    let path = tokenizer_path(name, &context.hub, context.observer)?;
    vocab::load(&path, options, context.observer)
}

/// Loads a tokenizer. The options are used only if its files alone are not enough.
///
/// # Errors
/// It cannot be read.
pub(super) fn load_as_needed(
    path: &Path,
    options: &LoadOptions,
    observer: &dyn Observer,
) -> Result<Vocabulary> {
    let load = |options: &LoadOptions| vocab::load(path, options, observer);
    load(&LoadOptions::default()).or_else(|error| match error.kind() {
        ErrorKind::Usage if *options != LoadOptions::default() => load(options),
        _ => Err(error),
    })
}

/// A vocabulary with one more token, as the first step of extending it makes it; `None` if that is no valid
/// vocabulary.
fn grown(vocabulary: &Vocabulary) -> Result<Option<Vocabulary>> {
    let list = vocabulary.given_merges(vocabulary.merges().len())?;
    let merges = list.merges();
    let mut bytes = (0..=u8::MAX).filter(|&byte| vocabulary.byte_id(byte).is_some()).map(u32::from);
    // No merge begins with this token, so the new pair is none of the old ones.
    let (Some(right), end) = (bytes.next(), bytes.next_back()) else { return Ok(None) };
    let left = if merges.is_empty() { end.unwrap_or(right) } else { truncate_to_u32(merges.len() + 255) };
    let more = merges.iter().copied().chain([Merge { left, right, count: Count::ZERO }]);
    Ok(vocabulary.extended(&Merges::new(more.collect())).ok())
}

/// Completes a recipe with pattern, special tokens and their position from a tokenizer.
fn heed(recipe: &mut Recipe, path: &str, vocabulary: &Vocabulary) {
    let specials: Vec<String> = vocabulary.specials().map(|special| special.text.clone()).collect();
    let first = vocabulary.specials().next().map(|special| {
        (0..=u8::MAX).find_map(|byte| vocabulary.byte_id(byte)).is_none_or(|id| special.id < id)
    });
    let specials_at = first.map(|first| if first { SpecialTokensAt::Start } else { SpecialTokensAt::End });
    let split = vocabulary.split();
    Fixed { by: path, split, boundary: None, specials: &specials, specials_at }.heed(recipe);
}

/// Selects the merges of a tokenizer to check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checked {
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
/// # Errors
/// The record is damaged, or has no such stage.
pub fn heed_training(
    recipe: &mut Recipe,
    name: &str,
    path: &Path,
    vocabulary: &Vocabulary,
    checked: Checked,
) -> Result<Range<usize>> {
    heed(recipe, name, vocabulary);
    let keys = recipe.train.get_or_insert_default();
    let all = vocabulary.merges().len();
    let stages = stages(path, vocabulary)?;
    let first = |stage: &Value| stage[MERGES_BEFORE].as_u64().map_or(0, u64_to_usize).min(all);
    let number = match checked {
        Checked::LastStage => stages.len(),
        Checked::Stage(number) => number,
        Checked::Behind(given) => 1 + stages.iter().rposition(|stage| first(stage) <= given).unwrap_or(0),
    };
    let Some(stage) = number.checked_sub(1).and_then(|number| stages.get(number)) else {
        let fault = Fault::NoSuchStage { path: name.into(), stage: number, stages: stages.len() };
        return Err(Error::new(ErrorKind::Usage, fault)
            .with_help("say with --skip-merges how many merges came before, if that is not recorded"));
    };
    fill(&mut keys.boundary, &stage["boundary"]);
    fill_rules(keys, stage);
    keys.min_frequency.get_or_insert(Given::flag(Count::ONE));
    heed_preparation(recipe, name, vocabulary);
    let end = stages.get(number).map_or(all, first);
    Ok(match checked {
        Checked::Behind(given) => given.min(all)..all,
        _ => first(stage)..end,
    })
}

/// Takes the rules that the recipe does not name, by which pairs are counted and chosen, from the training record of
/// a tokenizer. Returns all settings of the record; null if there is no record.
fn heed_record(keys: &mut TrainKeys, path: &Path, vocabulary: &Vocabulary) -> Result<Value> {
    let record = record_of(path, vocabulary)?;
    let settings = record.map_or(Value::Null, |record| record.settings);
    fill(&mut keys.boundary, &settings["boundary"]);
    fill_rules(keys, &settings);
    Ok(settings)
}

/// Takes rules of choosing pairs that the recipe does not name from the settings of a stage.
fn fill_rules(keys: &mut TrainKeys, settings: &Value) {
    fill(&mut keys.score, &settings["score"]);
    fill(&mut keys.max_token_bytes, &settings["max_token_bytes"]);
    fill(&mut keys.min_frequency, &settings["min_frequency"]);
}

/// The training record beside a tokenizer; `None` if there is none, or if it describes another tokenizer.
///
/// # Errors
/// The record is damaged.
pub(super) fn record_of(path: &Path, vocabulary: &Vocabulary) -> Result<Option<TrainingRecord>> {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    let record = TrainingRecord::read(folder)?;
    Ok(record.filter(|record| record.vocabulary == vocabulary.fingerprint()))
}

/// Sets a key that the recipe does not name to a recorded setting, if that has the right type.
fn fill<T: for<'de> Deserialize<'de>>(field: &mut Field<T>, setting: &Value) {
    if field.is_none() {
        *field = T::deserialize(setting).ok().map(Given::flag);
    }
}

/// The result of replaying merges.
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
        let Counted { pretokens, facts } = count(plan, settings, &inputs, prepare, context.observer)?;
        inputs.check_stamps()?;
        if pretokens.is_empty() {
            return Err(no_text(&inputs, |whole| Fault::NothingToReplayOn { whole }));
        }
        let need = verify_memory_estimate(to_u64(pretokens.bytes()), to_u64(pretokens.len()));
        if need > plan.memory {
            return Err(Error::new(ErrorKind::Memory, Fault::TooLarge { need, limit: plan.memory })
                .with_help("take a part of the corpus (--take, --every, --max-bytes), or raise --memory"));
        }
        let pretokens = of_known_bytes(pretokens, vocabulary);
        let (merges, config) = (list.merges().first(checked.end), &settings.config);
        let deviation = match encoded(&pretokens, &list, context.observer)? {
            Some((sequences, _)) => {
                verify_sequences(sequences, &merges, checked.start, config, context.observer)
            }
            None => verify_from(&pretokens, &merges, checked.start, config, context.observer),
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
