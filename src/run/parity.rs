//! Counting and learning of parity-aware training: the sources of a mixture, or counts files, are counted separately.

use std::path::Path;

use super::counting::Counting;
use super::inputs::Inputs;
use super::plan::{ParityPlan, Plan, TrainPlan};
use super::resources::{Costs, learning_memory, within_memory};
use crate::base::int::to_u64;
use crate::count::{CorpusFacts, PretokenCounts};
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::source::shown_uri;
use crate::train::{ParityLearned, ParityTexts, learn_parity_merges};

/// The result of parity-aware training, before a vocabulary is made of it.
pub(super) struct Balanced {
    /// The merges, and the tokens of each source.
    pub(super) learned: ParityLearned,
    /// Facts about the text of all sources.
    pub(super) facts: CorpusFacts,
    /// Number of distinct pre-tokens, added up over the sources.
    pub(super) distinct_pretokens: u64,
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
    within_memory(learning_memory(settings, bytes, sequences, true), plan.memory)?;
    let learned = costs.stage("train", || {
        let texts = ParityTexts { sources, development };
        Ok((learn_parity_merges(texts, &settings.config, &parity.config(), observer)?, distinct_bytes))
    })?;
    Ok(Balanced { learned, facts, distinct_pretokens })
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
