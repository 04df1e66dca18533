//! The tokenizer that a training extends.
//!
//! It determines settings of the recipe, prepares text before it is split, and encodes the pre-tokens that further
//! merges are learned from. Its training record lists the stages in which it was trained.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::iter::ParallelIterator;
use rayon::slice::ParallelSlice;
use serde::Deserialize;
use serde_json::{Value, json};

use super::plan::TrainPlan;
use super::recipe::{Extended, Field, FixedSettings, Given, Mistake, Recipe, TrainKeys};
use crate::base::int::{Count, to_u64, truncate_to_u32, u64_to_usize};
use crate::count::{Boundary, Prepare, Prepared, PretokenCounts};
use crate::encode::{Preprocessor, SpecialPolicy, TextOrToken};
use crate::error::{Error, ErrorKind, Result};
use crate::observer::Observer;
use crate::source::{OpenContext, tokenizer_path};
use crate::split::{NamedPattern, SplitPattern};
use crate::train::{Learned, Merge, Merges, Score, TokenSequences, extend_merges, extend_sequences};
use crate::vocab::{
    self, Format, GivenMerges, LoadOptions, SpecialTokensAt, TrainingRecord, Vocabulary, WriteOptions,
};

/// The tokenizer that a training extends.
///
/// Training starts with all of its merges and adds further ones, so existing ids stay valid.
#[derive(Clone)]
pub(super) struct ExtendedTokenizer {
    /// The vocabulary, with the special tokens of the plan added. Its tokens keep their ids.
    pub(super) vocabulary: Vocabulary,
    /// Its merges as training numbers them: the first part of every list that is learned.
    pub(super) given: GivenMerges,
    /// The stages in which it was trained, as far as they are recorded; see [`stages`].
    stages: Vec<Value>,
}

/// The key in a record's settings for the stages of a training that extended another. Each stage holds the number of
/// merges before it, and the rules by which its own merges were learned.
pub(super) const STAGES: &str = "stages";

/// The key in a record's settings for those of parity-aware training.
pub(super) const PARITY: &str = "parity";

/// The key in a stage for the number of merges before it.
pub(super) const MERGES_BEFORE: &str = "merges_before";

impl ExtendedTokenizer {
    /// Loads the tokenizer that a plan extends; `None` if it extends none.
    ///
    /// The local path `extend_at` takes precedence over the name `extend`.
    ///
    /// # Errors
    /// The tokenizer or its record cannot be read, its files do not say how text is split, or the special tokens of
    /// the plan cannot be added to it.
    pub(super) fn load(train: &TrainPlan, observer: &dyn Observer) -> Result<Option<ExtendedTokenizer>> {
        let Some(path) = train.extend_at.as_ref().or(train.extend.as_ref()) else { return Ok(None) };
        let before = to_extend(path, Some(&train.split), observer)?;
        let mut stages = stages(path, &before)?;
        let before = before.with_first_merges(train.keep_merges)?.with_split(&train.split)?;
        stages.retain(|stage| {
            stage[MERGES_BEFORE].as_u64().is_none_or(|first| first < to_u64(before.merges().len()).max(1))
        });
        let vocabulary = before.with_special_tokens(&train.specials)?;
        let given = vocabulary.given_merges(vocabulary.merges().len())?;
        Ok(Some(ExtendedTokenizer { vocabulary, given, stages }))
    }

    /// Whether the merges that are added are learned as a [further stage](super::stages): with the split of superwords,
    /// and after merges that are a plain list, with a token for every byte.
    pub(super) fn is_further_stage(&self, train: &TrainPlan) -> bool {
        is_superword(&train.split)
            && train.config.score == Score::Count
            && self.given.encoder().is_none()
            && self.vocabulary.missing_bytes().is_empty()
    }

    /// Learns further merges after those of the tokenizer, from pre-tokens with their counts.
    ///
    /// Merges that form a plain list are applied one by one. Otherwise the pre-tokens are encoded first, and the
    /// counts of the given merges are those of the encoding.
    ///
    /// **Memory:** the pre-tokens are released before learning if they were encoded.
    ///
    /// # Errors
    /// - Errors of learning, for example if the observer asks to stop.
    /// - The text has more bytes than 64 bits can count.
    pub(super) fn learn(
        &self,
        pretokens: PretokenCounts,
        train: &TrainPlan,
        observer: &dyn Observer,
    ) -> Result<Learned> {
        let pretokens = without_missing_bytes(pretokens, &self.vocabulary);
        let Some((sequences, counts)) = encoded(&pretokens, &self.given, observer)? else {
            return extend_merges(pretokens, self.given.merges(), &train.config, observer);
        };
        drop(pretokens);
        let counted = |(merge, count): (&Merge, u64)| Merge { count: Count::new(count), ..*merge };
        let merges = Merges::new(self.given.merges().iter().zip(counts).map(counted).collect());
        extend_sequences(sequences, &merges, &train.config, observer)
    }

    /// The stages of the tokenizer, followed by the stage that a plan describes.
    ///
    /// Stages are in the order of training. The new one begins after all merges of the tokenizer.
    pub(super) fn stages(&self, train: &TrainPlan) -> Vec<Value> {
        let mut stages = self.stages.clone();
        stages.push(json!({
            MERGES_BEFORE: self.vocabulary.merges().len(),
            "split": train.split,
            "boundary": train.boundary,
            "min_frequency": train.config.min_frequency,
            "max_token_bytes": train.config.max_token_bytes,
            "max_words": train.config.max_words,
            "tie_break": train.config.tie_break,
            "score": train.config.score,
        }));
        stages
    }
}

/// The stages of a training that has several from the start. `starts` has the number of merges before each.
pub(super) fn planned_stages(train: &TrainPlan, starts: &[usize]) -> Vec<Value> {
    let stages = train.stages.iter().zip(starts).map(|(stage, before)| {
        json!({
            MERGES_BEFORE: before,
            "split": stage.split,
            "boundary": train.boundary,
            "min_frequency": train.config.min_frequency,
            "max_token_bytes": train.config.max_token_bytes,
            "max_words": stage.max_words,
            "tie_break": train.config.tie_break,
            "score": train.config.score,
        })
    });
    stages.collect()
}

/// The stages in which a tokenizer was trained. A tokenizer without a record, or with a record without stages, has
/// one stage with all merges.
///
/// # Errors
/// The record is damaged.
pub(super) fn stages(path: &Path, vocabulary: &Vocabulary) -> Result<Vec<Value>> {
    let Some(record) = record_of(path, vocabulary)? else { return Ok(vec![json!({ MERGES_BEFORE: 0 })]) };
    if let Some(stages) = record.settings[STAGES].as_array() {
        return Ok(stages.clone());
    }
    let mut only = json!({ MERGES_BEFORE: 0, "split": vocabulary.split() });
    for rule in ["boundary", "min_frequency", "max_token_bytes", "max_words", "tie_break", "score"] {
        if let Some(value) = record.settings.get(rule) {
            only[rule] = value.clone();
        }
    }
    Ok(vec![only])
}

/// How a tokenizer prepares text before it is split, if it does more than find special tokens the way training does.
///
/// `None` means that counting itself finds the special tokens.
///
/// # Errors
/// The tokenizer has more added tokens than can be searched for.
pub(super) fn preparation(vocabulary: &Vocabulary) -> Result<Option<Arc<dyn Prepare>>> {
    if !vocabulary.prepares_text() {
        return Ok(None);
    }
    let preparation = Preprocessor::new(vocabulary, SpecialPolicy::Allow)?;
    Ok(preparation.map(|preparation| -> Arc<dyn Prepare> { Arc::new(EncodePreparation(preparation)) }))
}

/// Prepares text for counting as encoding does.
struct EncodePreparation(Preprocessor);

impl std::fmt::Debug for EncodePreparation {
    /// Writes a fixed name, without the contents.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("EncodePreparation").finish_non_exhaustive()
    }
}

impl Prepare for EncodePreparation {
    /// Passes the parts of a text to `take`, in order: prepared text, and the texts of added tokens.
    ///
    /// # Errors
    /// Those of `take`, and those of the preparation.
    fn each(&self, text: &[u8], take: &mut dyn FnMut(Prepared<'_>) -> Result<()>) -> Result<()> {
        self.0.each(text, &mut |part| match part {
            TextOrToken::Text(text) => take(Prepared::Text(text)),
            TextOrToken::Token(token) => take(Prepared::Token(token.text.as_bytes())),
        })
    }
}

/// Cuts pre-tokens at the bytes for which a tokenizer has no token: no merge contains them.
///
/// The result is the input itself if every byte has a token. Otherwise it is a copy of the known parts.
pub(super) fn without_missing_bytes(pretokens: PretokenCounts, vocabulary: &Vocabulary) -> PretokenCounts {
    let missing = vocabulary.missing_bytes();
    if missing.is_empty() {
        return pretokens;
    }
    let parts = |(pretoken, count): (&[u8], Count)| {
        let parts = pretoken.split(|byte| missing.contains(byte)).map(<[u8]>::to_vec);
        parts.map(move |part| (part, count)).collect::<Vec<_>>()
    };
    let mut known = PretokenCounts::new();
    pretokens.iter().flat_map(parts).for_each(|(part, count)| known.push(&part, count));
    known
}

/// Encodes pre-tokens by given merges. Returns the sequences, and how often each given merge was applied. `None` if
/// the merges form a plain list, which can be applied merge by merge instead.
///
/// The work is divided among the threads of the current pool.
///
/// The result does not depend on the number of threads: the shares are joined in the order of the pre-tokens.
///
/// # Errors
/// - The observer asks to stop.
/// - The text has more bytes than 64 bits can count.
pub(super) fn encoded(
    pretokens: &PretokenCounts,
    given: &GivenMerges,
    observer: &dyn Observer,
) -> Result<Option<(TokenSequences, Vec<u64>)>> {
    /// Number of pre-tokens between two checks whether the observer asks to stop.
    const PRETOKENS_PER_CHECK: usize = 1 << 10;
    if given.encoder().is_none() {
        return Ok(None);
    }
    let all: Vec<(&[u8], Count)> = pretokens.iter().collect();
    let share = all.len().div_ceil(rayon::current_num_threads()).max(1);
    let encode = |pretokens: &[(&[u8], Count)]| -> Result<(TokenSequences, Vec<u64>)> {
        let mut sequences = TokenSequences::default();
        let Some(mut encoder) = given.encoder() else { return Ok((sequences, Vec::new())) };
        for (number, &(pretoken, count)) in pretokens.iter().enumerate() {
            if number % PRETOKENS_PER_CHECK == 0 {
                observer.checkpoint()?;
            }
            let bytes = count.get().checked_mul(to_u64(pretoken.len()));
            let sum = bytes.and_then(|bytes| sequences.bytes.checked_add(bytes));
            sequences.bytes =
                sum.ok_or_else(|| Error::failed("the number of bytes in the corpus exceeds 64 bits"))?;
            if encoder.append(pretoken, count, &mut sequences.tokens) {
                sequences.ends.push(sequences.tokens.len());
                sequences.counts.push(count);
            } else {
                sequences.alone += count.get();
            }
        }
        Ok((sequences, encoder.into_counts()))
    };
    let shares: Vec<_> = all.par_chunks(share).map(encode).collect();
    let (mut sequences, mut counts) = (TokenSequences::default(), vec![0; given.given()]);
    for encoded in shares {
        let (part, merged) = encoded?;
        let start = sequences.tokens.len();
        sequences.tokens.extend(part.tokens);
        sequences.ends.extend(part.ends.iter().map(|end| start + end));
        sequences.counts.extend(part.counts);
        sequences.alone = sequences.alone.saturating_add(part.alone);
        sequences.bytes = sequences.bytes.saturating_add(part.bytes);
        counts
            .iter_mut()
            .zip(merged)
            .for_each(|(sum, merged): (&mut u64, u64)| *sum = sum.saturating_add(merged));
    }
    Ok(Some((sequences, counts)))
}

/// Completes a recipe in which training extends a tokenizer. Pattern, special tokens and their position come from the
/// tokenizer. Where the recipe is silent, the BOS and EOS tokens come from it too. The rules of training then come
/// from the record beside it, if there is one. If the recipe contradicts the tokenizer, mistakes are added to the
/// recipe.
///
/// A recipe that extends no tokenizer stays as it is.
///
/// # Errors
/// The tokenizer or its record cannot be read.
pub fn complete_from_tokenizer(recipe: &mut Recipe, observer: &dyn Observer) -> Result<()> {
    let Some(path) = recipe.extend.clone() else { return Ok(()) };
    let split = recipe.train.as_ref().and_then(|keys| keys.split.as_ref()).map(|split| &split.value);
    let place = recipe.extend_at.clone().unwrap_or_else(|| PathBuf::from(&path));
    let before = to_extend(&place, split, observer)?;
    let record = record_of(&place, &before)?;
    let kept = recipe.keep_merges.as_ref().map(|given| u64_to_usize(given.value));
    if let Some(kept) = kept.filter(|&kept| kept > before.merges().len()) {
        let name = recipe.origin.name("keep_merges");
        let message = format!("{name} is {kept}, but {path} has {} merges", before.merges().len());
        recipe.mistakes.push(Mistake::new(Some("keep_merges"), None, message));
    }
    let other_split = split.filter(|split| kept.is_some() || is_superword(split)).cloned();
    let before = before.with_first_merges(kept)?;
    let before = other_split.map_or(Ok(before.clone()), |split| before.with_split(&split))?;
    let keys = recipe.train.get_or_insert_default();
    let specials: Vec<String> = before.specials().map(|special| special.text.clone()).collect();
    let vocabulary = match before.with_special_tokens(&keys.named_beyond(&specials)) {
        Ok(vocabulary) => vocabulary,
        Err(error) => {
            let help = error.help().map(str::to_owned);
            recipe.mistakes.push(Mistake { help, ..Mistake::new(None, None, error.to_string()) });
            before.clone()
        }
    };
    let (tokens, merges) = (to_u64(vocabulary.tokens().count()), to_u64(vocabulary.merges().len()));
    recipe.extended = Some(Extended { tokens, merges });
    complete(recipe, &path, &before);
    let counted = !recipe.counts.is_empty();
    let keys = recipe.train.get_or_insert_default();
    let settings = record.map_or(Value::Null, |record| record.settings);
    fill(&mut keys.boundary, &settings["boundary"]);
    fill_rules(keys, &settings);
    // Formats other than `hf` cannot hold these tokens.
    if keys.formats.as_ref().is_none_or(|formats| formats.value.iter().any(|one| one.value == Format::Hf)) {
        let named = vocab::read_transformers_settings(&place, &vocabulary, observer)?;
        for (field, token) in [(&mut keys.bos, named.bos), (&mut keys.eos, named.eos)] {
            *field = field.take().or(token.map(|token| Given::flag(Some(token))));
        }
        keys.kept = named.transformers.kept;
    } else {
        vocab::note_left_out_settings(&place, &vocabulary, observer);
    }
    // The rule `first` of a record is not taken over for counts files, which may lack the order that it needs.
    if !counted || settings["tie_break"] != "first" {
        fill(&mut keys.tie_break, &settings["tie_break"]);
    }
    let asked = keys.merges.as_ref().map(|merges| merges.value);
    let sizes = keys.vocab_size.as_ref().and_then(|sizes| sizes.value.iter().map(|size| size.value).min());
    for (key, asked, existing, what) in
        [("merges", asked, merges, "merges"), ("vocab_size", sizes, tokens, "tokens")]
    {
        if asked.is_some_and(|asked| asked < existing) {
            let message =
                format!("{} is less than the {existing} {what} that {path} has", recipe.origin.name(key));
            let help = Some(format!("it is the number of all {what}, old and new"));
            recipe.mistakes.push(Mistake { help, ..Mistake::new(Some(key), None, message) });
        }
    }
    let named = keys.formats.is_some();
    let formats = keys.formats.as_ref().map(|formats| formats.value.iter().map(|one| one.value).collect());
    let formats: Vec<Format> = formats.unwrap_or_else(|| vec![Format::Hf]);
    if let Some(grown) = grown(&vocabulary)? {
        let render = |format: Format| vocab::render(&grown, format, &WriteOptions::default());
        if let Some((format, error)) =
            formats.into_iter().find_map(|format| Some((format, render(format).err()?)))
        {
            let message = match named {
                true => {
                    format!("{} names a format that cannot be used: {error}", recipe.origin.name("formats"))
                }
                false => format!("{path} cannot be extended in the format {format}: {error}"),
            };
            let help = error.help().map(str::to_owned);
            recipe.mistakes.push(Mistake { help, ..Mistake::new(Some("formats"), None, message) });
        }
    }
    check_preparation(recipe, &path, &vocabulary);
    Ok(())
}

/// Adds mistakes for what cannot be combined with a tokenizer that changes text before it is split: it prepares each
/// document on its own, and counts files hold pre-tokens of unprepared text.
pub(super) fn check_preparation(recipe: &mut Recipe, path: &str, vocabulary: &Vocabulary) {
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
/// files name another pattern, [`complete`] adds a mistake to the recipe.
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
///
/// It shows early, before text is read, whether a format can hold an extended vocabulary. The new token joins two
/// existing tokens: the last merge and the first byte.
///
/// # Errors
/// Those of [`Vocabulary::given_merges`].
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
///
/// The special tokens are at the start if the first of them has a lower id than the token of the lowest byte.
pub(super) fn complete(recipe: &mut Recipe, path: &str, vocabulary: &Vocabulary) {
    let specials: Vec<String> = vocabulary.specials().map(|special| special.text.clone()).collect();
    let first = vocabulary.specials().next().map(|special| {
        (0..=u8::MAX).find_map(|byte| vocabulary.byte_id(byte)).is_none_or(|id| special.id < id)
    });
    let specials_at = first.map(|first| if first { SpecialTokensAt::Start } else { SpecialTokensAt::End });
    let split = vocabulary.split();
    FixedSettings { by: path, split, boundary: None, specials: &specials, specials_at }.complete(recipe);
}

/// Whether a split may take the place of that of the tokenizer that is extended, without `--keep-merges`.
fn is_superword(split: &SplitPattern) -> bool {
    *split == SplitPattern::Named(NamedPattern::Superword)
}

/// Takes rules of choosing pairs that the recipe does not name from the settings of a stage.
///
/// These are `score`, `max_token_bytes`, `min_frequency` and `max_words`. The tie rule is left to the caller.
pub(super) fn fill_rules(keys: &mut TrainKeys, settings: &Value) {
    fill(&mut keys.score, &settings["score"]);
    fill(&mut keys.max_token_bytes, &settings["max_token_bytes"]);
    fill(&mut keys.min_frequency, &settings["min_frequency"]);
    fill(&mut keys.max_words, &settings["max_words"]);
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

/// Sets a key that the recipe does not name to a recorded setting, if that has the right type. A key that the recipe
/// names stays as it is. The new value has no span.
pub(super) fn fill<T: for<'de> Deserialize<'de>>(field: &mut Field<T>, setting: &Value) {
    if field.is_none() {
        *field = T::deserialize(setting).ok().map(Given::flag);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::base::int::{TokenId, to_usize};
    use crate::encode::reference::encode_pretoken;
    use crate::observer::Silent;
    use crate::vocab::{RankedMerge, VocabularyParts};

    /// A vocabulary of the bytes and these texts as tokens, in order. Every way to join two tokens into one is a
    /// merge. Each merge has its own rank, or all merges that make one token share a rank.
    fn vocabulary(texts: &[String], one_rank: bool, ignore_merges: bool) -> Vocabulary {
        let mut tokens: Vec<Box<[u8]>> = (0..=255).map(|byte| Box::from([byte])).collect();
        for text in texts {
            if !tokens.iter().any(|token| **token == *text.as_bytes()) {
                tokens.push(text.as_bytes().into());
            }
        }
        let find = |bytes: &[u8]| tokens.iter().position(|token| **token == *bytes);
        let mut merges = Vec::new();
        for (number, token) in tokens.iter().enumerate() {
            for middle in 1..token.len() {
                let (left, right) = token.split_at(middle);
                if let (Some(left), Some(right)) = (find(left), find(right)) {
                    let [left, right, result] = [left, right, number].map(TokenId::from_index);
                    let rank =
                        if one_rank { result.get() } else { u32::try_from(merges.len()).expect("few") };
                    merges.push(RankedMerge { left, right, result, rank });
                }
            }
        }
        let tokens = (0..).map(TokenId::from_index).zip(tokens).collect();
        Vocabulary::new(VocabularyParts { tokens, merges, ignore_merges, ..VocabularyParts::default() })
            .expect("tokens of parts that are there")
    }

    /// A pre-token after all merges, applied one after another.
    fn carried_out(given: &GivenMerges, pretoken: &[u8]) -> Vec<TokenId> {
        let mut tokens: Vec<u32> = pretoken.iter().map(|&byte| u32::from(byte)).collect();
        for (merge, token) in given.merges().iter().zip(256..) {
            let mut at = 0;
            while at + 1 < tokens.len() {
                if (tokens[at], tokens[at + 1]) == (merge.left, merge.right) {
                    tokens.splice(at..at + 2, [token]);
                }
                at += 1;
            }
        }
        tokens.into_iter().map(|token| given.ids()[to_usize(token)]).collect()
    }

    proptest! {
        #[test]
        fn given_merges_make_of_a_text_what_the_tokenizer_does(
            texts in vec("[abc]{2,6}", 0..14),
            pretokens in vec("[abc]{1,12}", 1..6),
            one_rank in any::<bool>(),
            ignore_merges in any::<bool>(),
        ) {
            let vocabulary = vocabulary(&texts, one_rank, ignore_merges);
            let all = vocabulary.merges().len();
            let given = vocabulary.given_merges(all).expect("nothing is checked");
            let pretokens: PretokenCounts = pretokens.iter().map(|pretoken| (pretoken.as_bytes(), Count::new(3))).collect();
            let Some((sequences, counts)) = encoded(&pretokens, &given, &Silent).expect("few") else {
                for (pretoken, _) in pretokens.iter() {
                    prop_assert_eq!(carried_out(&given, pretoken), encode_pretoken(&vocabulary, pretoken));
                }
                return Ok(());
            };
            // Tokens are longer than their parts, and some tokens are made by no merge.
            let mut made: HashSet<TokenId> = (0..=255).map(TokenId::new).collect();
            for _ in 0..6 {
                for merge in vocabulary.merges() {
                    if made.contains(&merge.left) && made.contains(&merge.right) {
                        made.insert(merge.result);
                    }
                }
            }
            let mut start = 0;
            let mut alone = 0;
            let mut ends = sequences.ends.iter();
            for (pretoken, _) in pretokens.iter() {
                let expected = encode_pretoken(&vocabulary, pretoken);
                if expected.len() == 1 && !made.contains(&expected[0]) {
                    alone += 3;
                    continue;
                }
                let &end = ends.next().expect("a sequence");
                let found: Vec<TokenId> = sequences.tokens[start..end].iter().map(|&token| {
                    given.ids()[to_usize(token)]
                }).collect();
                prop_assert_eq!(found, expected);
                start = end;
            }
            prop_assert_eq!(sequences.alone, alone);
            let tokens = to_u64(sequences.tokens.len()) * 3 + alone;
            let whole = if ignore_merges { u64::MAX } else { counts.iter().sum::<u64>() };
            prop_assert!(whole == u64::MAX || sequences.bytes - tokens == whole, "each merge takes a token away");
            // New merges get the last ranks, and text without them is encoded as before.
            let more = given.merges().iter().copied();
            let more = Merges::new(more.chain([Merge { left: 100, right: 101, count: Count::ONE }]).collect());
            let grown = vocabulary.extended(&more).expect("its own come first");
            for (pretoken, _) in pretokens.iter() {
                prop_assert_eq!(encode_pretoken(&grown, pretoken), encode_pretoken(&vocabulary, pretoken));
            }
            prop_assert_eq!(encode_pretoken(&grown, b"de"), [TokenId::from_index(vocabulary.id_limit())]);
        }
    }
}
