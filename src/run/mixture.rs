//! Counts the sources of a mixture one by one and stores the counts, so that other weights need no reading.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::inputs::Inputs;
use super::plan::{Plan, TrainPlan};
use super::train::{count_config, count_documents, memory_of_sum};
use crate::base::atomic_file;
use crate::base::digest::{sha256, sha256_of};
use crate::base::int::to_u64;
use crate::count::{
    CorpusFacts, CountConfig, Counted, CountsFile, CountsInfo, WeightedFile, Written, sum_counts,
};
use crate::error::{Error, Result};
use crate::observer::{Observer, Stage};
use crate::sink::Journal;
use crate::source::shown_uri;
use crate::split::SplitPattern;
use crate::{FORMAT_VERSION, VERSION};

/// Whether the counts of each source can be stored separately, so that a mixture of the same sources with other
/// weights needs no reading. This requires that text is split, that no sample is drawn from all sources together, and
/// that each source can be read again.
pub(super) fn is_kept(plan: &Plan, train: &TrainPlan, inputs: &Inputs<'_>) -> bool {
    let split = train.split != SplitPattern::None;
    plan.sources.len() > 1 && split && plan.sample.is_everything() && !inputs.read_once()
}

/// Counts the pre-tokens of each source, unless an earlier run did so in the same folder, and sums the counts by
/// weight.
///
/// The facts equal those of counting all sources at once, with one exception. If one of several special tokens was
/// found, the distinct bytes include those of all special tokens.
///
/// # Errors
/// Errors of reading and counting; a file cannot be written or read.
pub(super) fn count(
    plan: &Plan,
    train: &TrainPlan,
    inputs: &Inputs<'_>,
    folder: &Path,
    observer: &dyn Observer,
) -> Result<Counted> {
    std::fs::create_dir_all(folder).map_err(|cause| Error::io("create", folder, cause))?;
    let mut facts = CorpusFacts::default();
    let mut weighted = Vec::new();
    for (number, (source, &weight)) in plan.sources.iter().zip(&plan.weights).enumerate() {
        let kept = Kept::new(plan, train, inputs, number, folder)?;
        let found = match kept.recall() {
            Some(found) => {
                observer
                    .noted(&format!("using the counts of {} from an earlier run", shown_uri(&source.uri)));
                found
            }
            None => kept.count(plan, train, inputs, number, observer)?,
        };
        facts.add_source(&found);
        weighted.push(WeightedFile { path: kept.counts, weight });
    }
    forget_others(folder, &weighted)?;
    observer.started(Stage::Count, None);
    let CountsFile { pretokens, .. } = sum_counts(&weighted, memory_of_sum(plan), observer)?;
    observer.advanced(Stage::Count, to_u64(pretokens.bytes()));
    observer.finished(Stage::Count);
    let specials = train.specials.iter().filter(|_| facts.special_tokens > 0);
    let bytes: BTreeSet<u8> = pretokens
        .iter()
        .flat_map(|(pretoken, _)| pretoken)
        .copied()
        .chain(specials.flat_map(|text| text.bytes()))
        .collect();
    facts.distinct_bytes = to_u64(bytes.len());
    Ok(Counted { pretokens, facts })
}

/// Removes stored counts of sources that no longer belong to the mixture.
fn forget_others(folder: &Path, kept: &[WeightedFile]) -> Result<()> {
    let io = |cause| Error::io("read", folder, cause);
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if !kept.iter().any(|file| file.path.file_stem() == path.file_stem()) {
            std::fs::remove_file(&path).map_err(|cause| Error::io("remove", &path, cause))?;
        }
    }
    Ok(())
}

/// The stored counts of one source, and a journal of one record with the facts about its text.
struct Kept {
    /// The counts file.
    counts: PathBuf,
    /// The journal.
    note: PathBuf,
    /// Hash of everything that the counts depend on.
    key: String,
}

/// The record of the journal.
#[derive(Serialize, Deserialize)]
struct Note {
    /// SHA-256 of the counts file, in hex.
    sha256: String,
    corpus: CorpusFacts,
}

impl Kept {
    /// The files for the counts of a source. Their names contain a hash of everything that the counts depend on, so
    /// that other settings use other files.
    fn new(
        plan: &Plan,
        train: &TrainPlan,
        inputs: &Inputs<'_>,
        number: usize,
        folder: &Path,
    ) -> Result<Kept> {
        let spec = &plan.sources[number];
        let units = inputs.identified(number)?;
        let key = json!({
            "version": VERSION,
            "format_version": FORMAT_VERSION,
            "units": units,
            // Different files can have equal identities.
            "uri": spec.uri,
            "column": spec.column,
            "format": spec.format,
            "documents": spec.documents,
            "on_bad_input": spec.on_bad_input,
            "limit": plan.limits[number],
            "split": train.split,
            "boundary": train.boundary,
            "special_tokens": train.specials,
        });
        let key = sha256(key.to_string());
        let file = |extension| folder.join(format!("{}.{extension}", &key[..32]));
        Ok(Kept { counts: file("parquet"), note: file("journal"), key })
    }

    /// The facts about the text, if its counts were stored completely.
    fn recall(&self) -> Option<CorpusFacts> {
        let (_, notes) = Journal::open::<Note>(&self.note, &self.key).ok()?;
        let note = notes.into_iter().next()?;
        (file_sha256(&self.counts).ok()? == note.sha256).then_some(note.corpus)
    }

    /// Counts a source and stores its counts, without weights.
    fn count(
        &self,
        plan: &Plan,
        train: &TrainPlan,
        inputs: &Inputs<'_>,
        number: usize,
        observer: &dyn Observer,
    ) -> Result<CorpusFacts> {
        let left_out = inputs.incidents().count();
        observer.started(Stage::Count, inputs.bytes_of(number));
        let scratch = self.counts.parent().unwrap_or(Path::new("."));
        // The sum applies the weights.
        let config = CountConfig { weights: Vec::new(), ..count_config(plan, train, None)? };
        let counts = count_documents(inputs.limited(number), config, plan, train, scratch, observer);
        let counts = counts.map_err(|error| inputs.with_place(error))?;
        inputs.check_stamps()?;
        observer.finished(Stage::Count);
        let info = CountsInfo {
            pattern: train.split.clone(),
            boundary: train.boundary,
            special_tokens: train.specials.clone(),
            sources: json!({ "uri": shown_uri(&plan.sources[number].uri) }),
            ordered: true,
            ..CountsInfo::default()
        };
        let mut written = Written::default();
        atomic_file::publish_within(&self.counts, |file| {
            written = counts.write(file, &self.counts, &info, observer)?;
            Ok(())
        })?;
        // If rows were skipped, no note is written: a later run must report them too, so it reads the source again.
        if inputs.incidents().count() == left_out {
            let sha256 = file_sha256(&self.counts).map_err(|cause| Error::io("read", &self.counts, cause))?;
            let note = Note { sha256, corpus: written.facts.clone() };
            let mut journal = Journal::create(&self.note, &self.key)?;
            journal.append(&note)?;
            journal.sync()?;
        }
        Ok(written.facts)
    }
}

fn file_sha256(path: &Path) -> std::io::Result<String> {
    sha256_of(std::fs::File::open(path)?)
}
