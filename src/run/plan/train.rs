//! Checks the settings of training.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::check::{Check, value_of};
use super::{SmallerPlan, StagePlan, TrainPlan};
use crate::base::int::{to_u64, u64_to_usize};
use crate::run::recipe::{BYTE_TOKENS, Command, Field, Given, Origin, Recipe, StageKeys, TrainKeys};
use crate::sink::TOKENIZER_FOLDER;
use crate::split::{NamedPattern, SplitPattern, splitter};
use crate::train::{Merges, Score, TrainConfig};
use crate::vocab::{self, Format, TransformersConfig, Vocabulary, WriteOptions};

/// Number of tokens in a vocabulary, at most (2³¹): ids are written as 32-bit signed integers.
const MAX_TOKENS: u64 = 1 << 31;

/// The beginning of the name of the folder for a smaller vocabulary. Its size follows.
pub(in crate::run) const SMALLER_FOLDER: &str = "vocab-";

impl Check<'_> {
    /// Checks the settings of training. Commands write the tokenizer into the output folder itself, recipes into
    /// a folder within it.
    ///
    /// The formats are tried with a vocabulary without merges only if split, special tokens and formats have no
    /// mistake of their own: one cause is reported once.
    pub(super) fn train(&mut self, keys: &TrainKeys, recipe: &Recipe, output: &Path) -> TrainPlan {
        let specials = self.specials(keys);
        let stages = self.stages(keys, recipe, to_u64(specials.len()));
        let merges = match stages.last() {
            Some(last) => to_u64(last.merges),
            None => self.merges(keys, recipe, to_u64(specials.len())),
        };
        let split = stages.last().map_or_else(|| self.split(keys), |last| last.split.clone());
        let max_words = self.at_least_one("max_words", &keys.max_words).map(u64_to_usize);
        let max_words = max_words.or_else(|| default_max_words(&split));
        let history_every = self.at_least_one("history_every", &keys.history_every);
        let max_token_bytes = self.at_least_one("max_token_bytes", &keys.max_token_bytes);
        let alone = recipe.origin.command().is_some();
        let in_memory = recipe.origin == Origin::Arguments(Command::Train);
        let folder = if alone { output.to_owned() } else { output.join(TOKENIZER_FOLDER) };
        let smaller = smaller(keys, recipe, to_u64(specials.len()), &folder);
        let defaults = TrainConfig::new(u64_to_usize(merges));
        let [bos, eos] = [&keys.bos, &keys.eos].map(|field| value_of(field).flatten());
        let mut plan = TrainPlan {
            split,
            parity: None,
            boundary: value_of(&keys.boundary).unwrap_or_default(),
            config: TrainConfig {
                min_frequency: value_of(&keys.min_frequency).unwrap_or(defaults.min_frequency),
                max_token_bytes: max_token_bytes.map(u64_to_usize),
                max_words: stages.last().map_or(max_words, |last| last.max_words),
                tie_break: value_of(&keys.tie_break).unwrap_or_default(),
                score: value_of(&keys.score).unwrap_or_default(),
                history_every: history_every.map_or(defaults.history_every, u64_to_usize),
                history_at: smaller.iter().map(|smaller| smaller.merges).collect(),
                ..defaults
            },
            only_named: specials[keys.special_tokens.len()..].to_vec(),
            specials,
            specials_at: value_of(&keys.special_tokens_at).unwrap_or_default(),
            bos,
            eos,
            transformers: self.transformers(keys),
            // A tokenizer that a program keeps in memory need not fit into any format.
            formats: if in_memory { Vec::new() } else { self.formats(keys) },
            extend: recipe.extend.as_ref().map(PathBuf::from),
            extend_at: recipe.extend_at.clone(),
            keep_merges: self.keep_merges(recipe),
            stages,
            smaller,
            output: folder,
        };
        plan.parity = self.parity(recipe, &plan);
        let counts_only = matches!(recipe.origin.command(), Some(Command::Count | Command::Verify));
        // If a tokenizer is extended, its formats were checked when it was read.
        if !counts_only
            && recipe.extend.is_none()
            && !["split", "split_regex", "special_tokens", "bos", "eos", "pad", "unk", "mask", "formats"]
                .iter()
                .any(|key| self.is_wrong(key))
        {
            self.formats_hold(keys, &plan);
        }
        plan
    }

    /// Reports formats that cannot hold the tokenizer. Formats refuse a tokenizer because of its split or its special
    /// tokens. A tokenizer without merges shows this before hours are spent on learning.
    ///
    /// If the user named the format, the format is reported. Otherwise the special token is, if the format holds the
    /// tokenizer without special tokens, or else the split.
    fn formats_hold(&mut self, keys: &TrainKeys, plan: &TrainPlan) {
        let empty = Merges::default();
        let with = |specials: &[String]| {
            Vocabulary::from_merges(&empty, specials, plan.specials_at, plan.split.clone())
        };
        let role = |(key, field): (&'static str, &Field<Option<String>>)| {
            let given = field.as_ref()?;
            Some((key, Given { value: given.value.clone()?, span: given.span.clone() }))
        };
        let listed = keys.special_tokens.iter().map(|given| ("special_tokens", given.clone()));
        let named: Vec<(&'static str, Given<String>)> =
            listed.chain(keys.roles().into_iter().filter_map(role)).collect();
        // A token may be wrong on its own, or only together with the others.
        let is_wrong =
            |(_, given): &&(&'static str, Given<String>)| with(std::slice::from_ref(&given.value)).is_err();
        let first = named.iter().find(is_wrong).or(named.first());
        let vocabulary = match (with(&plan.specials), first) {
            (Ok(vocabulary), _) => vocabulary,
            (Err(error), Some((key, given))) => {
                let help = "choose a text of several characters that occurs nowhere else";
                return self.wrong(key, given, &format!("cannot be used: {error}"), help);
            }
            (Err(_), None) => return,
        };
        let bare = with(&[]);
        for (number, &format) in plan.formats.iter().enumerate() {
            let render = |vocabulary| vocab::render(vocabulary, format, &WriteOptions::default());
            let Err(error) = render(&vocabulary) else { continue };
            let help = error.help().unwrap_or("leave that format out");
            let wanted = keys.formats.as_ref().and_then(|formats| formats.value.get(number));
            if let (None, Ok(bare), Some((key, given))) = (wanted, &bare, first)
                && render(bare).is_ok()
            {
                let help = "choose a text of several characters";
                return self.wrong(key, given, &format!("cannot be used: {error}"), help);
            }
            match (wanted, &keys.split) {
                (Some(given), _) => {
                    self.wrong(
                        "formats",
                        given,
                        &format!("names a format that cannot be used: {error}"),
                        help,
                    );
                }
                (None, Some(given)) => {
                    let key = self.split_key(&given.value);
                    self.wrong(key, given, &format!("cannot be written: {error}"), help)
                }
                (None, None) => {}
            }
        }
    }

    /// The key that gave the split: flags have a separate one for regular expressions.
    fn split_key(&self, split: &SplitPattern) -> &'static str {
        match (self.origin, split) {
            (Origin::Flags(_), SplitPattern::Custom(_)) => "split_regex",
            _ => "split",
        }
    }

    /// The split pattern, by default that of GPT-4. Reports a regular expression that cannot be used, and a count
    /// without a split.
    fn split(&mut self, keys: &TrainKeys) -> SplitPattern {
        let Some(given) = &keys.split else { return SplitPattern::Named(NamedPattern::Gpt4) };
        if given.value == SplitPattern::None && self.origin.command() == Some(Command::Count) {
            let problem = "cannot be none: without a split there are no pre-tokens to count";
            self.wrong("split", given, problem, "name a split, or train from the text itself");
        }
        if let SplitPattern::Custom(_) = &given.value
            && let Err(error) = splitter(&given.value)
        {
            let help = error.help().unwrap_or("write a regular expression that matches the pre-tokens");
            let cause =
                std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
            let key = self.split_key(&given.value);
            self.wrong(key, given, &format!("cannot be used: {error}{cause}"), help);
        }
        given.value.clone()
    }

    /// The stages of training; none if the recipe names none. Reports stages that do not follow on each other, and keys
    /// that each stage has or that do not go with stages.
    fn stages(&mut self, keys: &TrainKeys, recipe: &Recipe, specials: u64) -> Vec<StagePlan> {
        let Some(given) = &keys.stages else { return Vec::new() };
        let name = self.origin.name("stages");
        if given.value.is_empty() && !self.is_wrong("stages") {
            self.wrong("stages", given, "names no stage", "leave it out, or name the first stage");
        }
        let other = match (&recipe.extend, recipe.counts.is_empty()) {
            (Some(_), _) => Some(("extend", "extending is a further stage itself")),
            (None, false) => Some(("from_counts", "later stages split the text itself")),
            (None, true) => None,
        };
        if let Some((other, why)) = other {
            // The other keys may be those of the tokenizer or of the counts.
            let problem = format!("cannot be combined with {}: {why}", self.origin.name(other));
            self.wrong("stages", given, &problem, "leave one of them out");
            return Vec::new();
        }
        let in_stages = format!("cannot be combined with {name}: each stage has its own");
        let spans = [
            ("split", keys.split.as_ref().map(|given| given.span.clone())),
            ("vocab_size", keys.vocab_size.as_ref().map(|given| given.span.clone())),
            ("merges", keys.merges.as_ref().map(|given| given.span.clone())),
            ("max_words", keys.max_words.as_ref().map(|given| given.span.clone())),
        ];
        for (key, span) in spans {
            if let Some(span) = span {
                self.wrong(key, &Given { value: (), span }, &in_stages, "write it in the stages");
            }
        }
        if let Some(score) = keys.score.as_ref().filter(|score| score.value != Score::Count) {
            let problem = format!("must be count with {name}");
            self.wrong("score", score, &problem, "leave it out");
        }
        let mut least = BYTE_TOKENS + specials;
        for stage in &given.value {
            let StageKeys { split, vocab_size, max_words } = &stage.value;
            self.vocabulary_fits(
                "stages",
                &Given { value: *vocab_size, span: stage.span.clone() },
                *vocab_size,
            );
            if *vocab_size < least {
                let problem = format!("has a stage of {vocab_size} tokens, fewer than the {least} before it");
                self.wrong("stages", stage, &problem, "a vocabulary grows from stage to stage");
            }
            if *max_words == Some(0) {
                self.wrong("stages", stage, "has a stage whose `max_words` is 0", "write 1 or more");
            }
            if let Err(error) = splitter(split) {
                let problem = format!("has a split that cannot be used: {error}");
                self.wrong("stages", stage, &problem, error.help().unwrap_or("write another one"));
            }
            least = *vocab_size;
        }
        let plan = |stage: &Given<StageKeys>| StagePlan {
            split: stage.value.split.clone(),
            merges: u64_to_usize(recipe.merges_of(stage.value.vocab_size, specials)),
            max_words: stage
                .value
                .max_words
                .map(u64_to_usize)
                .or_else(|| default_max_words(&stage.value.split)),
        };
        given.value.iter().map(plan).collect()
    }

    /// The number of merges that are kept of the tokenizer that is extended. Reports it if no tokenizer is extended.
    fn keep_merges(&mut self, recipe: &Recipe) -> Option<usize> {
        let given = recipe.keep_merges.as_ref()?;
        if recipe.extend.is_none() {
            let problem = format!("needs {}", self.origin.name("extend"));
            self.wrong("keep_merges", given, &problem, "name the tokenizer whose merges are kept");
        }
        Some(u64_to_usize(given.value))
    }

    /// The number of merges to learn, from `merges` or from the largest `vocab_size`.
    ///
    /// The result is 0 if neither is given. That is a mistake, except for commands that only count.
    fn merges(&mut self, keys: &TrainKeys, recipe: &Recipe, specials: u64) -> u64 {
        let (vocab_size, merges) = (self.origin.name("vocab_size"), self.origin.name("merges"));
        match (&keys.vocab_size, &keys.merges) {
            (Some(_), Some(given)) => {
                let problem = format!("cannot be combined with {vocab_size}: each follows from the other");
                self.wrong("merges", given, &problem, "keep one of the two");
                given.value
            }
            (Some(given), None) => {
                self.vocabulary_sizes(given, recipe, specials);
                let largest = given.value.iter().map(|size| size.value).max();
                recipe.merges_of(largest.unwrap_or(0), specials)
            }
            (None, Some(given)) => {
                self.vocabulary_fits("merges", given, recipe.tokens_of(given.value, specials));
                given.value
            }
            (None, None) => {
                let counts_only = matches!(self.origin.command(), Some(Command::Count | Command::Verify));
                if !counts_only && !self.is_wrong("vocab_size") && !self.is_wrong("stages") {
                    let problem = format!("training needs {vocab_size} or {merges}");
                    self.missing(
                        "merges",
                        keys.span.clone(),
                        &problem,
                        "a usual vocabulary has 32768 tokens",
                    );
                }
                0
            }
        }
    }

    /// Reports sizes that are too small, too large, or named twice.
    ///
    /// If a tokenizer is extended, the lower bound is its own size, which is checked when the tokenizer is read.
    fn vocabulary_sizes(&mut self, sizes: &Given<Vec<Given<u64>>>, recipe: &Recipe, specials: u64) {
        let fixed = BYTE_TOKENS + specials;
        if sizes.value.is_empty() && !self.is_wrong("vocab_size") {
            self.wrong("vocab_size", sizes, "names no size", "a usual vocabulary has 32768 tokens");
        }
        let mut seen = HashSet::new();
        for given in &sizes.value {
            self.vocabulary_fits("vocab_size", given, given.value);
            if given.value < fixed && recipe.extended.is_none() {
                let problem =
                    format!("is {}, too small for 256 bytes and {specials} special tokens", given.value);
                // 32,768 is two sizes.
                let comma = match self.origin {
                    Origin::Flags(_) if sizes.value.len() > 1 => "; a comma separates two sizes",
                    _ => "",
                };
                self.wrong("vocab_size", given, &problem, &format!("it is {fixed} or more{comma}"));
            }
            if !seen.insert(given.value) {
                self.wrong("vocab_size", given, &format!("has {} twice", given.value), "name it once");
            }
        }
    }

    /// Reports a vocabulary with more than [`MAX_TOKENS`] tokens.
    fn vocabulary_fits(&mut self, key: &'static str, given: &Given<u64>, tokens: u64) {
        if tokens > MAX_TOKENS {
            let problem = format!("is {}, more than 31-bit token ids can number", given.value);
            self.wrong(key, given, &problem, &format!("a vocabulary has at most {MAX_TOKENS} tokens"));
        }
    }

    /// The special tokens: first those that are listed, then those that are only named for `transformers`. The result
    /// has no repetitions unless they were reported.
    fn specials(&mut self, keys: &TrainKeys) -> Vec<String> {
        let mut seen = HashSet::new();
        for token in &keys.special_tokens {
            if token.value.is_empty() {
                self.wrong("special_tokens", token, "has an empty token", "leave it out");
            } else if !seen.insert(&token.value) {
                self.wrong("special_tokens", token, &format!("has {:?} twice", token.value), "name it once");
            }
        }
        for (key, field) in keys.roles() {
            if let Some(given) = field.as_ref().filter(|given| given.value.as_deref() == Some("")) {
                self.wrong(key, given, "is an empty token", "leave it out");
            }
        }
        let mut specials: Vec<String> = keys.special_tokens.iter().map(|token| token.value.clone()).collect();
        specials.extend(keys.named_beyond(&specials));
        specials
    }

    /// The settings of `tokenizer_config.json` for `transformers`, without the BOS and EOS tokens.
    ///
    /// Tokens that are `false` in the recipe become `None`, as do those that are left out.
    fn transformers(&mut self, keys: &TrainKeys) -> TransformersConfig {
        let model_max_length = self.at_least_one("model_max_length", &keys.model_max_length);
        if let Some(given) =
            keys.model_max_length.as_ref().filter(|given| given.value > TransformersConfig::MAX_LENGTH)
        {
            let most = TransformersConfig::MAX_LENGTH;
            let problem =
                format!("is {}, but other programs read numbers exactly only up to {most}", given.value);
            self.wrong("model_max_length", given, &problem, "leave it out if there is no limit");
        }
        let [pad, unk, mask] = [&keys.pad, &keys.unk, &keys.mask].map(|field| value_of(field).flatten());
        let chat_template = keys.chat_template.as_ref().and_then(|given| self.chat_template(given));
        TransformersConfig { pad, unk, mask, model_max_length, chat_template, kept: keys.kept.clone() }
    }

    /// The text of the chat template. Reports a file that cannot be read.
    ///
    /// The path is relative to the recipe, as for sources. The plan holds the text, so that its hash covers it.
    fn chat_template(&mut self, given: &Given<String>) -> Option<String> {
        let path = self.path("chat_template", given);
        if path.is_empty() {
            return None;
        }
        match vocab::read_chat_template(Path::new(&path)) {
            Ok(template) => Some(template),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                let problem = format!("cannot be used: {error}{}", cause.unwrap_or_default());
                let help = error.help().unwrap_or("write the path of a Jinja template in UTF-8");
                self.wrong("chat_template", given, &problem, help);
                None
            }
        }
    }

    /// The formats to write, by default `hf`. Reports an empty list and repeated formats. The order is that of the
    /// recipe.
    fn formats(&mut self, keys: &TrainKeys) -> Vec<Format> {
        let Some(list) = &keys.formats else { return vec![Format::Hf] };
        if list.value.is_empty() && !self.is_wrong("formats") {
            self.wrong(
                "formats",
                list,
                "is empty, so the tokenizer would be lost",
                "leave it out, or name a format",
            );
        }
        let mut formats = Vec::new();
        for format in &list.value {
            if formats.contains(&format.value) {
                self.wrong("formats", format, "names a format twice", "name it once");
            }
            formats.push(format.value);
        }
        formats
    }
}

impl TrainPlan {
    /// The settings of one of the stages, as of a training of its own.
    pub(in crate::run) fn of_stage(&self, stage: &StagePlan) -> TrainPlan {
        let StagePlan { split, merges, max_words } = stage.clone();
        let config = TrainConfig { merges, max_words, ..self.config.clone() };
        TrainPlan { split, config, stages: Vec::new(), ..self.clone() }
    }

    /// Number of tokens in the vocabulary, at most, if it extends no other. It is the sum of 256 bytes, the special
    /// tokens and the merges.
    pub(in crate::run) fn vocab_size(&self) -> usize {
        u64_to_usize(BYTE_TOKENS) + self.specials.len() + self.config.merges
    }

    /// Says for which purposes the settings for `transformers` name a special token, as the end of a sentence about it.
    pub(in crate::run) fn role_of(&self, token: &str) -> String {
        let TransformersConfig { pad, unk, mask, .. } = &self.transformers;
        let roles = [("bos", &self.bos), ("eos", &self.eos), ("pad", pad), ("unk", unk), ("mask", mask)];
        let named = roles.into_iter().filter(|(_, named)| named.as_deref() == Some(token));
        let keys: Vec<&str> = named.map(|(key, _)| key).collect();
        format!(", which is the {} token for transformers", keys.join(" and "))
    }
}

/// The number of words that tokens may have if the recipe does not say: SuperBPE's for its split.
fn default_max_words(split: &SplitPattern) -> Option<usize> {
    const OF_SUPERWORDS: usize = 4;
    (*split == SplitPattern::Named(NamedPattern::Superword)).then_some(OF_SUPERWORDS)
}

/// All vocabularies except the largest, the smallest first.
///
/// Each gets a folder `vocab-` with its size, within the folder of the largest. `specials` is the number of special
/// tokens.
fn smaller(keys: &TrainKeys, recipe: &Recipe, specials: u64, folder: &Path) -> Vec<SmallerPlan> {
    let given = keys.vocab_size.as_ref().map(|given| given.value.as_slice()).unwrap_or_default();
    let mut sizes: Vec<u64> = given.iter().map(|size| size.value).collect();
    sizes.sort_unstable();
    sizes.pop();
    let plan = |size: u64| SmallerPlan {
        vocab_size: size,
        merges: u64_to_usize(recipe.merges_of(size, specials)),
        output: folder.join(format!("{SMALLER_FOLDER}{size}")),
    };
    sizes.into_iter().map(plan).collect()
}
