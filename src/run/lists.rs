//! Trainings that begin with a list of merges, and lists replayed on data.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::fault::Fault;
use super::fixed::Fixed;
use super::inputs::Inputs;
use super::plan::Plan;
use super::recipe::{Field, Given, Mistake, Recipe, TrainKeys};
use super::train::{count, no_text};
use crate::count::Counted;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::Observer;
use crate::source::OpenContext;
use crate::split::SplitPattern;
use crate::train::{Deviation, Merge, Merges, verify_memory_estimate, verify_merges};
use crate::units::{Count, amount, low32};
use crate::vocab::{self, Format, LoadOptions, SpecialTokensAt, TrainingRecord, Vocabulary, WriteOptions};

/// Completes a recipe that goes on from a tokenizer by what this says: pattern and special tokens, and
/// where these stand; and, where nothing is said, by the tokens that begin and end documents and by how it was trained, if
/// that is recorded beside it. What the recipe says otherwise than the tokenizer is added to its mistakes.
///
/// # Errors
/// The tokenizer or the record cannot be read, or it is no plain list of merges.
pub fn heed_tokenizer(recipe: &mut Recipe, observer: &dyn Observer) -> Result<()> {
    let Some(path) = recipe.extend.clone() else { return Ok(()) };
    let split = recipe.train.as_ref().and_then(|keys| keys.split.as_ref()).map(|split| &split.value);
    let vocabulary = to_extend(Path::new(&path), split, observer)?;
    let list = vocabulary.merge_list()?;
    let merges = amount(list.len());
    heed(recipe, &path, &vocabulary);
    let counted = !recipe.counts.is_empty();
    let keys = recipe.train.get_or_insert_default();
    let settings = heed_record(keys, &path, &vocabulary)?;
    // Other formats have no place for these.
    if keys.formats.as_ref().is_none_or(|formats| formats.value.iter().any(|one| one.value == Format::Hf)) {
        let named = vocab::named_beside(Path::new(&path), &vocabulary)?;
        for (field, token) in [(&mut keys.bos, named.bos), (&mut keys.eos, named.eos)] {
            *field = field.take().or(token.map(|token| Given::flag(Some(token))));
        }
    }
    // Counts may have no order, and those that do are asked for it.
    if !counted || settings["tie_break"] != "first" {
        fill(&mut keys.tie_break, &settings["tie_break"]);
    }
    let asked = keys.merges.as_ref().map(|merges| merges.value);
    let sizes = keys.vocab_size.as_ref().and_then(|sizes| sizes.value.iter().map(|size| size.value).min());
    let tokens = merges + amount(256 + vocabulary.specials().count());
    for (key, asked, held, what) in
        [("merges", asked, merges, "merges"), ("vocab_size", sizes, tokens, "tokens")]
    {
        if asked.is_some_and(|asked| asked < held) {
            let message =
                format!("{} is less than the {held} {what} that {path} has", recipe.origin.name(key));
            let help = Some(format!("it tells all {what}, old and new"));
            recipe.mistakes.push(Mistake { help, ..Mistake::new(Some(key), None, message) });
        }
    }
    if let (Some(formats), Some(grown)) = (&keys.formats, grown(&vocabulary, &list)) {
        let held = |format: Format| vocab::render(&grown, format, &WriteOptions::default());
        if let Some(wrong) = formats.value.iter().find_map(|format| held(format.value).err()) {
            let message = format!("{} names one that will not do: {wrong}", recipe.origin.name("formats"));
            let help = wrong.help().map(str::to_owned);
            recipe.mistakes.push(Mistake { help, ..Mistake::new(Some("formats"), None, message) });
        }
    }
    Ok(())
}

/// The tokenizer that training goes on from, and by which pattern text is cut, where its files do not say it. A pattern that
/// they contradict is told among the mistakes of the recipe.
///
/// # Errors
/// It cannot be read, or nothing says how text is cut.
pub(super) fn to_extend(
    path: &Path,
    split: Option<&SplitPattern>,
    observer: &dyn Observer,
) -> Result<Vocabulary> {
    let load = |split| vocab::load(path, &LoadOptions { split, ..LoadOptions::default() }, observer);
    load(None).or_else(|error| match split {
        Some(split) if error.kind() == ErrorKind::Usage => load(Some(split.clone())),
        _ => Err(error),
    })
}

/// A vocabulary with one token more, as the first step of going on from it makes it; `None` if it cannot be one.
fn grown(vocabulary: &Vocabulary, list: &Merges) -> Option<Vocabulary> {
    let bytes = || (0..=u8::MAX).filter(|&byte| vocabulary.byte_id(byte).is_some()).map(u32::from);
    // No merge begins with it.
    let last = if list.is_empty() { bytes().next_back()? } else { low32(list.len() + 255) };
    let more = list.iter().copied().chain([Merge { left: last, right: bytes().next()?, count: Count::ZERO }]);
    vocabulary.extended(&Merges::new(more.collect())).ok()
}

fn heed(recipe: &mut Recipe, path: &str, vocabulary: &Vocabulary) {
    let specials: Vec<String> = vocabulary.specials().map(|special| special.text.clone()).collect();
    let first = vocabulary.specials().next().map(|special| {
        (0..=u8::MAX).find_map(|byte| vocabulary.byte_id(byte)).is_none_or(|id| special.id < id)
    });
    let specials_at = first.map(|first| if first { SpecialTokensAt::Start } else { SpecialTokensAt::End });
    let split = vocabulary.split();
    Fixed { by: path, split, boundary: None, specials: &specials, specials_at }.heed(recipe);
}

/// Completes a recipe whose data a tokenizer's merges are to be replayed on: by the tokenizer, and, where
/// nothing is said, by the record of its training. Without a record every pair that occurs counts.
///
/// # Errors
/// The record is damaged.
pub fn heed_training(recipe: &mut Recipe, path: &str, vocabulary: &Vocabulary) -> Result<()> {
    heed(recipe, path, vocabulary);
    let keys = recipe.train.get_or_insert_default();
    heed_record(keys, path, vocabulary)?;
    keys.min_frequency.get_or_insert(Given::flag(Count::ONE));
    Ok(())
}

/// Takes from the record of a tokenizer's training, if there is one, what is not said of how pairs are counted and chosen
/// from. Gives all its settings.
fn heed_record(keys: &mut TrainKeys, path: &str, vocabulary: &Vocabulary) -> Result<Value> {
    let folder = Path::new(path);
    let folder = if folder.is_dir() { folder } else { folder.parent().unwrap_or(Path::new("")) };
    let record = TrainingRecord::read(folder)?;
    let record = record.filter(|record| record.vocabulary == vocabulary.fingerprint());
    let settings = record.map_or(Value::Null, |record| record.settings);
    fill(&mut keys.boundary, &settings["boundary"]);
    fill(&mut keys.score, &settings["score"]);
    fill(&mut keys.max_token_bytes, &settings["max_token_bytes"]);
    fill(&mut keys.min_frequency, &settings["min_frequency"]);
    Ok(settings)
}

fn fill<T: for<'de> Deserialize<'de>>(field: &mut Field<T>, setting: &Value) {
    if field.is_none() {
        *field = T::deserialize(setting).ok().map(Given::flag);
    }
}

/// What replaying merges came to.
#[derive(Clone, Debug)]
pub struct Verification {
    /// How many merges the list has.
    pub merges: usize,
    /// The first that was not the best, if one was not.
    pub deviation: Option<Deviation>,
    /// Bytes of text that they were replayed on.
    pub text_bytes: u64,
    /// How many rows or files were left out.
    pub skipped: u64,
}

/// Replays the merges of a tokenizer on a plan's documents.
///
/// # Errors
/// What reading and counting give; the tokenizer is no plain list of merges; there is no text, or too much.
///
/// # Panics
/// On a plan that trains nothing.
pub fn verify_list(plan: &Plan, vocabulary: &Vocabulary, context: &OpenContext<'_>) -> Result<Verification> {
    let settings = plan.train.as_ref().expect("a plan that trains");
    let merges = vocabulary.merge_list()?;
    super::with_threads(plan.threads, || {
        let inputs = Inputs::open(plan, context)?;
        let Counted { pieces, facts } = count(plan, settings, &inputs, context.observer)?;
        inputs.check_stamps()?;
        if pieces.is_empty() {
            return Err(no_text(&inputs, |whole| Fault::NothingToReplayOn { whole }));
        }
        let need = verify_memory_estimate(amount(pieces.bytes()), amount(pieces.len()));
        if need > plan.memory {
            return Err(Error::new(ErrorKind::Memory, Fault::TooLarge { need, limit: plan.memory })
                .with_help("take a part of the corpus (--take, --every, --max-bytes), or raise --memory"));
        }
        let deviation = verify_merges(&pieces, &merges, &settings.config, context.observer)?;
        let (text_bytes, skipped) = (facts.text_bytes, inputs.skipped(context.observer));
        Ok(Verification { merges: merges.len(), deviation, text_bytes, skipped })
    })
}
