//! Counting and learning of parity-aware training: the sources of a mixture, or counts files, are counted separately.

use std::path::Path;

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use serde::{Deserialize, Serialize};

use super::counting::Counting;
use super::inputs::Inputs;
use super::plan::{ParityPlan, Plan, TrainPlan};
use super::resources::{Costs, learning_memory, within_memory};
use super::stages::encoder_of;
use crate::base::int::to_u64;
use crate::count::{CorpusFacts, PretokenCounts};
use crate::encode::Encoder;
use crate::error::{Error, Result};
use crate::observer::{Observer, Quiet};
use crate::report::ParityFacts;
use crate::source::shown_uri;
use crate::train::{
    Learned, ParityPoint, ParityTexts, TrainConfig, learn_merges, learn_parity_merges, memory_estimate,
    with_sequences,
};

/// The result of parity-aware training, before a vocabulary is made of it.
pub(super) struct Balanced {
    /// The merges, and the history of all sources together.
    pub(super) learned: Learned,
    /// The tokens of each source.
    pub(super) tokens: BalancedTokens,
    /// Facts about the text of all sources.
    pub(super) facts: CorpusFacts,
    /// Number of distinct pre-tokens, added up over the sources.
    pub(super) distinct_pretokens: u64,
}

/// The tokens of each source during parity-aware training, and without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BalancedTokens {
    /// The tokens after some of the merges.
    pub(super) history: Vec<ParityPoint>,
    /// The tokens after as many merges that are learned from all sources together, for comparison.
    pub(super) plain: ParityPoint,
}

/// Counts each source, and learns merges that balance them. If `kept` names a folder, the counts of the sources are
/// stored there.
///
/// # Errors
/// - Errors of reading and counting; a source or a development text has no text.
/// - The counts of all sources together do not fit the memory limit.
/// - The observer asks to stop.
pub(super) fn learn_balanced(
    plan: &Plan,
    settings: &TrainPlan,
    parity: &ParityPlan,
    inputs: &Inputs<'_>,
    kept: Option<&Path>,
    costs: &mut Costs,
    observer: &dyn Observer,
) -> Result<Balanced> {
    let (sources, facts) = costs.stage("count", || {
        let counted = Counting { plan, train: settings, inputs, observer }.each_source(kept)?;
        let text_bytes = counted.1.text_bytes;
        Ok((counted, text_bytes))
    })?;
    check_texts("source", &sources, |number| match plan.sources.get(number) {
        Some(source) => shown_uri(&source.uri),
        None => plan.counts[number].display().to_string(),
    })?;
    let development = match (plan.of_development(), inputs.development()) {
        (Some(plan), Some(inputs)) => {
            let counting = Counting { plan: &plan, train: settings, inputs, observer };
            let (texts, _) = counting.each_source(None)?;
            check_texts("development text", &texts, |number| shown_uri(&plan.sources[number].uri))?;
            texts
        }
        _ => Vec::new(),
    };
    inputs.check_stamps()?;
    let distinct = |size: fn(&PretokenCounts) -> usize| to_u64(sources.iter().map(size).sum());
    let (distinct_pretokens, distinct_bytes) =
        (distinct(PretokenCounts::len), distinct(PretokenCounts::bytes));
    let of_development = |size: fn(&PretokenCounts) -> usize| to_u64(development.iter().map(size).sum());
    let bytes = distinct_bytes.saturating_add(of_development(PretokenCounts::bytes));
    let sequences = distinct_pretokens.saturating_add(of_development(PretokenCounts::len));
    // Plain training runs while all texts are held.
    let plain = memory_estimate(&settings.config, distinct_bytes, distinct_pretokens, true);
    let plain = with_sequences(plain.0, bytes, sequences);
    within_memory(learning_memory(settings, bytes, sequences, true).max(plain), plan.memory)?;
    let texts = ParityTexts { sources, development };
    let plain =
        costs.stage("plain", || Ok((plain_tokens(&texts, &settings.config, observer)?, distinct_bytes)))?;
    let learned = costs.stage("train", || {
        Ok((learn_parity_merges(texts, &settings.config, &parity.config(), observer)?, distinct_bytes))
    })?;
    let (learned, tokens) = (learned.learned, BalancedTokens { history: learned.history, plain });
    if let Some(facts) = ParityFacts::of(Vec::new(), tokens.history.clone(), &tokens.plain) {
        observer.noted(&compared(&facts, !parity.ratio.is_empty()));
    }
    Ok(Balanced { learned, tokens, facts, distinct_pretokens })
}

/// Says in a sentence how the sources compare, with parity and without it.
fn compared(facts: &ParityFacts, has_ratio: bool) -> String {
    let (cost, hint) = match (facts.has_development(), has_ratio) {
        (true, _) => ("tokens of the development texts", ""),
        (false, true) => ("tokens per byte", ""),
        (false, false) => (
            "tokens per byte",
            "; without development texts and ratios, parity makes the tokens of all sources equal",
        ),
    };
    format!(
        "{cost}, the most of a source divided by the fewest: {:.3} (without parity {:.3}), Gini coefficient {:.3} \
         (without parity {:.3}){hint}",
        facts.worst_to_best, facts.plain_worst_to_best, facts.gini, facts.plain_gini
    )
}

/// The tokens of all texts after plain training: as many merges, learned from all sources together. It takes a fraction
/// of the time of parity-aware training.
///
/// # Errors
/// Those of [`learn_merges`] and of encoding.
fn plain_tokens(texts: &ParityTexts, config: &TrainConfig, observer: &dyn Observer) -> Result<ParityPoint> {
    let all = texts.sources.iter().flat_map(PretokenCounts::iter).collect();
    let merges = learn_merges(all, config, &Quiet(observer))?.merges;
    let encoder = encoder_of(&merges)?;
    let tokens = |texts: &[PretokenCounts]| -> Result<Vec<u64>> {
        texts.par_iter().map(|text| tokens_of(text, &encoder, observer)).collect()
    };
    Ok(ParityPoint {
        merges: to_u64(merges.len()),
        sources: tokens(&texts.sources)?,
        development: tokens(&texts.development)?,
    })
}

/// Number of tokens of a text.
///
/// # Errors
/// Those of encoding; the observer asks to stop.
fn tokens_of(text: &PretokenCounts, encoder: &Encoder, observer: &dyn Observer) -> Result<u64> {
    let mut worker = encoder.observed_worker(observer);
    let mut sum = 0;
    for (pretoken, count) in text.iter() {
        observer.checkpoint()?;
        sum += count.get() * to_u64(worker.encode(pretoken)?.len());
    }
    Ok(sum)
}

/// Checks that each text has something to learn from or to measure. `name` names the one of a number.
///
/// # Errors
/// One has nothing.
fn check_texts(what: &str, texts: &[PretokenCounts], name: impl Fn(usize) -> String) -> Result<()> {
    let Some(number) = texts.iter().position(PretokenCounts::is_empty) else { return Ok(()) };
    let problem = format!("the {what} {} has no text, so parity cannot balance it", name(number));
    Err(Error::failed(problem).with_help("leave the source out, or check its column and format"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::int::Count;
    use crate::observer::Silent;
    use crate::train::ParityConfig;

    /// Plain training is parity-aware training all of whose merges are global, which counts the tokens as it merges.
    #[test]
    fn plain_tokens_are_those_of_global_merges() {
        let text = |words: &[(&str, u64)]| -> PretokenCounts {
            words.iter().map(|(word, count)| (word.as_bytes(), Count::new(*count))).collect()
        };
        let sources = vec![text(&[("woodchuck", 9), ("wood", 4)]), text(&[("chuck", 5), ("ξύλο", 7)])];
        let development = vec![text(&[("woodwood", 2)]), text(&[("ξύλα", 3), ("x", 1)])];
        let texts = ParityTexts { sources, development };
        for merges in [0, 1, 5, 100] {
            let (config, all) =
                (TrainConfig::new(merges), ParityConfig { global_merges: merges, ..Default::default() });
            let learned = learn_parity_merges(texts.clone(), &config, &all, &Silent).expect("it learns");
            let plain = plain_tokens(&texts, &config, &Silent).expect("it learns");
            assert_eq!(Some(&plain), learned.history.last());
        }
    }
}
