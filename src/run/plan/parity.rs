//! Checks the settings of parity-aware training.

use super::check::{Check, value_of};
use super::{ParityPlan, TrainPlan};
use crate::run::recipe::{Given, ParityKeys, Recipe, SampleKeys};
use crate::sample::Weight;
use crate::source::{OnBadInput, SourceSpec};
use crate::split::SplitPattern;
use crate::train::{DEFAULT_PARITY_ALPHA, Score, TieBreak};

impl Check<'_> {
    /// How training balances the sources. Reports settings that make no sense with the others: `plan` has those of
    /// training, without parity.
    pub(super) fn parity(&mut self, recipe: &Recipe, plan: &TrainPlan) -> Option<ParityPlan> {
        let given = recipe.train.as_ref()?.parity.as_ref()?;
        let keys = &given.value;
        self.parity_suits(given, recipe, plan);
        let sources = recipe.sources.len().max(recipe.counts.len());
        let ratio = keys.ratio.as_ref().map_or_else(Vec::new, |list| {
            self.one_for_each("ratio", list, sources);
            list.value.iter().map(|given| given.value).collect()
        });
        if let (Some(alpha), None) = (&keys.alpha, &keys.window) {
            let window = self.origin.name("window");
            self.wrong(
                "alpha",
                alpha,
                &format!("has no effect without {window}"),
                "add it, or leave both out",
            );
        }
        if let Some(alpha) = keys.alpha.as_ref().filter(|alpha| alpha.value < Weight::ONE) {
            let help = "below 1, the limits of all sources together would not allow every merge";
            self.wrong("alpha", alpha, &format!("is {}, but must be 1 or more", alpha.value), help);
        }
        Some(ParityPlan {
            sources,
            development: Vec::new(),
            development_as_written: keys
                .development
                .iter()
                .flat_map(|list| &list.value)
                .map(|given| given.value.clone())
                .collect(),
            ratio,
            window: self.at_least_one("window", &keys.window),
            alpha: value_of(&keys.alpha).unwrap_or_else(default_alpha),
            global_merges: value_of(&keys.global_merges).unwrap_or(0),
        })
    }

    /// Reports settings that do not go together with parity.
    fn parity_suits(&mut self, given: &Given<ParityKeys>, recipe: &Recipe, plan: &TrainPlan) {
        let sources = recipe.sources.len().max(recipe.counts.len());
        if sources < 2 {
            let help = "add a source for each language, or leave it out";
            self.wrong("parity", given, "needs two sources or more: it balances them", help);
        }
        if recipe.extend.is_some() {
            let problem = format!("cannot be combined with {}", self.origin.name("extend"));
            self.wrong("parity", given, &problem, "train a new tokenizer");
        }
        if plan.split == SplitPattern::None {
            let problem = "needs a split: it learns from pre-tokens";
            self.wrong("parity", given, problem, "name a split, for example gpt4");
        }
        if !plan.stages.is_empty() {
            let problem = format!("cannot be combined with {}", self.origin.name("stages"));
            self.wrong("parity", given, &problem, "train in one stage");
        } else if plan.config.max_words.is_some() {
            let problem = format!(
                "cannot be combined with {}, which the split superword has by default",
                self.origin.name("max_words")
            );
            self.wrong("parity", given, &problem, "use a split of single words, for example gpt4");
        }
        if plan.config.score != Score::Count {
            let problem = format!("cannot be combined with the score {}", plan.config.score);
            self.wrong("parity", given, &problem, "use the score `count`");
        }
        if plan.config.tie_break == TieBreak::First {
            let problem = "cannot be combined with the tie rule `first`: sources have no common order";
            self.wrong("parity", given, problem, "use another tie rule");
        }
        if recipe.sample != SampleKeys::default() {
            let problem = "cannot be combined with a sample of all sources together";
            let help = "set `take` or `max_bytes` of each source instead: its counts are kept apart";
            self.wrong("parity", given, problem, help);
        }
    }

    /// The development text of each of these sources, which is read with the settings of the source.
    pub(super) fn development(&mut self, recipe: &Recipe, sources: &[SourceSpec]) -> Vec<SourceSpec> {
        let keys = recipe.train.as_ref().and_then(|train| train.parity.as_ref());
        let Some(list) = keys.and_then(|keys| keys.value.development.as_ref()) else { return Vec::new() };
        if sources.is_empty() {
            let problem = "needs the texts of the sources, with the settings of which it is read";
            self.wrong("development", list, problem, "train from text, or leave it out");
            return Vec::new();
        }
        self.one_for_each("development", list, sources.len());
        let spec = |(given, source): (&Given<String>, &SourceSpec)| {
            if given.value == "-" {
                let help = "write the path of a file: a source is read twice";
                self.wrong("development", given, "cannot be standard input", help);
            }
            let uri = self.path("development", given);
            SourceSpec {
                // The extension says it, as it does for sources.
                format: None,
                on_bad_input: OnBadInput::Fail,
                uri,
                ..source.clone()
            }
        };
        list.value.iter().zip(sources).map(spec).collect()
    }

    /// Reports a list that has not one value for each source.
    fn one_for_each<T>(&mut self, key: &'static str, list: &Given<Vec<T>>, sources: usize) {
        // A value that cannot be read is missing from the list, and was reported.
        if list.value.len() != sources && !self.is_wrong(key) {
            let problem = format!("has {} values for {sources} sources", list.value.len());
            self.wrong(key, list, &problem, "give one for each source, in the same order");
        }
    }
}

/// The default of the definition.
fn default_alpha() -> Weight {
    DEFAULT_PARITY_ALPHA.to_string().parse().expect("a number above 0")
}
