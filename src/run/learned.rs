//! Stores the merges that a job learned in its output folder, so that an interrupted run does not train again.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::plan::TrainPlan;
use super::train::Trained;
use crate::base::atomic_file;
use crate::base::int::Count;
use crate::count::CorpusFacts;
use crate::error::Result;
use crate::report::StageCost;
use crate::sink::{self, Journal, OutputFolder};
use crate::source::{Incidents, LeftOut};
use crate::train::{HistoryPoint, Learned, Merge, Merges};
use crate::vocab::Vocabulary;

/// Name of the file in the state folder that stores what was learned.
const NAME: &str = "learned.journal";

/// What the file stores.
#[derive(Serialize, Deserialize)]
struct Record {
    /// Left token, right token, count.
    merges: Vec<(u32, u32, Count)>,
    history: Vec<HistoryPoint>,
    corpus: CorpusFacts,
    distinct_pretokens: u64,
    stages: Vec<StageCost>,
    /// Rows that were skipped while the text was read, by source and unit.
    left_out: Vec<(usize, usize, LeftOut)>,
}

/// Stores what a job learned, the cost of its stages, and the rows that were skipped.
///
/// # Errors
/// The file cannot be written.
pub(super) fn note(
    folder: &OutputFolder,
    key: &str,
    trained: &Trained,
    stages: &[StageCost],
    incidents: &Incidents,
) -> Result<()> {
    let Learned { merges, history } = &trained.learned;
    let record = Record {
        merges: merges.iter().map(|merge| (merge.left, merge.right, merge.count)).collect(),
        history: history.clone(),
        corpus: trained.corpus.clone(),
        distinct_pretokens: trained.distinct_pretokens,
        stages: stages.to_vec(),
        left_out: incidents.of_units(),
    };
    let mut journal = Journal::create(folder.state().join(NAME), key)?;
    journal.append(&record)?;
    journal.sync()
}

/// What an earlier run of the job learned, if it got that far; `key` must be the same. The rows that it skipped are
/// added to `incidents`.
///
/// # Errors
/// The file cannot be read, or the merges and settings make no vocabulary.
pub(super) fn recall(
    folder: &OutputFolder,
    key: &str,
    settings: &TrainPlan,
    incidents: &Incidents,
) -> Result<Option<(Trained, Vec<StageCost>)>> {
    let (_, records) = Journal::open::<Record>(folder.state().join(NAME), key)?;
    let Some(record) = records.into_iter().next() else { return Ok(None) };
    let merge = |(left, right, count)| Merge { left, right, count };
    let merges = Merges::new(record.merges.into_iter().map(merge).collect());
    let (specials, at) = (&settings.specials, settings.specials_at);
    let trained = Trained {
        vocabulary: Vocabulary::from_merges(&merges, specials, at, settings.split.clone())?.into(),
        learned: Learned { merges, history: record.history },
        // Only the command `train` extends a tokenizer, and it stores nothing here.
        base: None,
        corpus: record.corpus,
        distinct_pretokens: record.distinct_pretokens,
    };
    record.left_out.iter().for_each(|(source, unit, rows)| incidents.restore(*source, *unit, rows));
    Ok(Some((trained, record.stages)))
}

/// Whether a folder without a manifest holds the beginning of a job: data, or what it learned.
///
/// # Errors
/// The folder cannot be read.
pub(super) fn has_begun(folder: &Path, split: Option<&str>) -> Result<bool> {
    Ok(is_noted(&sink::state_of(folder, split)) || sink::holds_data(folder, split)?)
}

/// Whether a job has stored what it learned in this state folder.
pub(super) fn is_noted(state: &Path) -> bool {
    fs::metadata(state.join(NAME)).is_ok_and(|file| file.len() > 0)
}

/// Removes what was learned, if it was learned from other input or settings.
pub(super) fn forget(folder: &OutputFolder) -> Result<()> {
    atomic_file::remove(&folder.state().join(NAME))
}
