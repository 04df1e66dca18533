use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::plan::TrainPlan;
use super::train::Trained;
use crate::count::CorpusFacts;
use crate::error::Result;
use crate::files;
use crate::report::StageCost;
use crate::sink::{self, Journal, OutputFolder};
use crate::source::{Incidents, LeftOut};
use crate::train::{HistoryPoint, Learned, Merge, Merges};
use crate::units::Count;
use crate::vocab::Vocabulary;

/// The file in the state folder that keeps what was learned, for a run that ends later and is begun again.
const NAME: &str = "learned.journal";

#[derive(Serialize, Deserialize)]
struct Record {
    /// Left token, right token, count.
    merges: Vec<(u32, u32, Count)>,
    history: Vec<HistoryPoint>,
    corpus: CorpusFacts,
    distinct_pieces: u64,
    stages: Vec<StageCost>,
    /// What had to be left out of the text, by source and unit.
    left_out: Vec<(usize, usize, LeftOut)>,
}

/// Notes what a job learned, what that cost, and what was left out.
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
        distinct_pieces: trained.distinct_pieces,
        stages: stages.to_vec(),
        left_out: incidents.of_units(),
    };
    let mut journal = Journal::create(folder.state().join(NAME), key)?;
    journal.append(&record)?;
    journal.sync()
}

/// What an earlier run of the job learned, if it got so far. What it left out counts as left out by this one.
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
        // Only a command goes on from a tokenizer, and it is not gone on with itself.
        base: None,
        corpus: record.corpus,
        distinct_pieces: record.distinct_pieces,
    };
    record.left_out.iter().for_each(|(source, unit, rows)| incidents.restore(*source, *unit, rows));
    Ok(Some((trained, record.stages)))
}

/// Whether a folder without a manifest has what a job began: data, or what it learned.
pub(super) fn has_begun(folder: &Path, split: Option<&str>) -> Result<bool> {
    Ok(is_noted(&sink::state_of(folder, split)) || sink::holds_data(folder, split)?)
}

/// Whether a job has learned something, by the folder of its state.
pub(super) fn is_noted(state: &Path) -> bool {
    fs::metadata(state.join(NAME)).is_ok_and(|file| file.len() > 0)
}

/// Removes it, where it was learned from something else.
pub(super) fn forget(folder: &OutputFolder) -> Result<()> {
    files::remove(&folder.state().join(NAME))
}
