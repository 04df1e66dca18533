//! Identifies a job by all that its output depends on, and says how it differs from an earlier job.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::inputs::Inputs;
use super::plan::{EncodedDocuments, Plan};
use super::shard::ShardState;
use crate::VERSION;
use crate::base::integrity::sha256;
use crate::error::Result;
use crate::report::RecipeFacts;
use crate::sample::SampleConfig;
use crate::sink::{self, ManifestShard, OutputFolder, state_of};
use crate::vocab::Vocabulary;

/// Everything that an output depends on: two jobs with equal states write the same bytes.
///
/// The number of threads, the memory limit and the output folder are no part of it. The serialized form is stored in
/// the state folder and hashed for the manifest, so the order of the fields matters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobState {
    /// The version of the program.
    version: String,
    /// SHA-256, in hex, of all settings on which the output depends: [`Plan::recipe_hash`].
    recipe: String,
    /// Fingerprint of the content of the inputs, in hex; see [`Inputs::fingerprint`].
    pub(super) inputs: String,
    /// Fingerprint of the tokenizer that the job was given; `None` if it trains one.
    tokenizer: Option<String>,
    /// The shard of the input; `None` if the job reads all of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    shard: Option<ShardState>,
}

impl JobState {
    /// The state of a job.
    ///
    /// Identifying the inputs may read all of their text. `Inputs` keeps the result.
    ///
    /// # Errors
    /// The inputs cannot be identified.
    pub(super) fn of(plan: &Plan, inputs: &Inputs<'_>, given: Option<&Vocabulary>) -> Result<JobState> {
        Ok(JobState {
            version: VERSION.to_owned(),
            recipe: plan.recipe_hash.clone(),
            inputs: inputs.fingerprint()?,
            tokenizer: given.map(Vocabulary::fingerprint),
            shard: inputs.shard(),
        })
    }

    /// The shard for the manifest; `None` if the job reads all of its input.
    pub(super) fn manifest_shard(&self) -> Option<ManifestShard> {
        let ShardState { index, of, listing } = self.shard.clone()?;
        let whole = json!([self.version, self.recipe, self.tokenizer, of, listing]);
        Some(ManifestShard { index, of, job: sha256(whole.to_string()), listing })
    }

    /// The fingerprint of the job in hex, which the manifest records.
    ///
    /// It is the SHA-256 of the state as JSON.
    pub(super) fn fingerprint(&self) -> String {
        let canonical = serde_json::to_vec(self).expect("plain data");
        sha256(canonical)
    }

    /// What differs from the state of another job, as a phrase for messages; `None` if nothing differs.
    ///
    /// Of several differences, the first in the order recipe, shard, input, tokenizer, version is named.
    pub(super) fn difference(&self, other: &JobState) -> Option<&'static str> {
        let shard = |state: &JobState| state.shard.as_ref().map(|shard| (shard.index, shard.of));
        let listing = |state: &JobState| state.shard.as_ref().map(|shard| shard.listing.clone());
        if self.recipe != other.recipe {
            Some("the recipe")
        } else if shard(self) != shard(other) {
            Some("the shard")
        } else if self.inputs != other.inputs || listing(self) != listing(other) {
            Some("the input")
        } else if self.tokenizer != other.tokenizer {
            Some("the tokenizer")
        } else {
            (self.version != other.version).then_some("the version of the program")
        }
    }

    /// Stores the state, the settings of the plan, and the command that gave the recipe, in the folder that will hold
    /// the result.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, folder: &OutputFolder, plan: &Plan, recipe: &RecipeFacts) -> Result<()> {
        let settings = StoredSettings { command: command_of(recipe), ..StoredSettings::of(plan) };
        sink::write_job(&folder.state(), &StoredState { state: self, split: folder.split(), settings })
    }

    /// The state that is stored in a folder, for a split if one is named; `None` if there is none.
    ///
    /// A state that cannot be parsed counts as none.
    pub(super) fn read(folder: &Path, split: Option<&str>) -> Option<JobState> {
        sink::read_job(&state_of(folder, split))
    }
}

/// The command that gave a recipe, for messages; `None` if a program ran the job and says nothing of its recipe.
fn command_of(recipe: &RecipeFacts) -> Option<String> {
    /// Characters that are kept, so that the names of many inputs do not make the job file too long to be read.
    const KEPT: usize = 2_000;
    let RecipeFacts { name, text, .. } = recipe;
    let command = if name.is_empty() { text.clone() } else { format!("tokenmill run {name}") };
    match command.char_indices().nth(KEPT) {
        Some((end, _)) => Some(format!("{}…", &command[..end])),
        None => Some(command).filter(|command| !command.is_empty()),
    }
}

/// The command that began the job of an output folder, with secrets hidden. `None` if it is not known.
pub fn started_as(folder: &Path) -> Option<String> {
    StoredSettings::read(folder, None).command
}

/// The stored form of a state. It names the split if the output may have several.
#[derive(Serialize)]
struct StoredState<'a> {
    #[serde(flatten)]
    state: &'a JobState,
    #[serde(skip_serializing_if = "Option::is_none")]
    split: Option<&'a str>,
    #[serde(flatten)]
    settings: StoredSettings,
}

/// The settings of a job that are stored beside its state, for messages about two jobs.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredSettings {
    /// Hashes by section and key: [`Plan::setting_hashes`].
    setting_hashes: BTreeMap<String, String>,
    /// The sample that is encoded; `None` if nothing is, or if a source has a limit of its own.
    sample: Option<SampleConfig>,
    /// The command that began the job. It does not decide whether a result is kept.
    pub(super) command: Option<String>,
}

/// Settings that decide which documents a file holds.
const DOCUMENT_SETTINGS: [&str; 4] =
    ["sources.column", "sources.documents", "sources.format", "sources.text"];

impl StoredSettings {
    /// The settings of a plan.
    pub(super) fn of(plan: &Plan) -> StoredSettings {
        let sample = plan.encode.as_ref().and_then(|encode| match encode.documents {
            EncodedDocuments::All => Some(SampleConfig::default()),
            EncodedDocuments::Sample => {
                plan.source_samples.iter().all(SampleConfig::is_everything).then_some(plan.sample)
            }
        });
        StoredSettings { setting_hashes: plan.setting_hashes.clone(), sample, command: None }
    }

    /// The settings that are stored in a folder, for a split if one is named. There are none if the file cannot be
    /// parsed, or if an earlier version wrote it.
    pub(super) fn read(folder: &Path, split: Option<&str>) -> StoredSettings {
        sink::read_job(&state_of(folder, split)).unwrap_or_default()
    }

    /// The keys of the settings that differ from those of an earlier job, for the end of a message: `` (`seed`) ``.
    /// Empty if none differs, or if the earlier ones are not known.
    pub(super) fn changed_keys(&self, earlier: &StoredSettings) -> String {
        /// Keys that are named, at most.
        const NAMED: usize = 4;
        let (now, before) = (&self.setting_hashes, &earlier.setting_hashes);
        let all = now.keys().chain(before.keys());
        let changed: BTreeSet<&str> =
            all.filter(|key| now.get(*key) != before.get(*key)).map(|key| recipe_key(key)).collect();
        if before.is_empty() || changed.is_empty() {
            return String::new();
        }
        let named: Vec<String> = changed.iter().take(NAMED).map(|key| format!("`{key}`")).collect();
        let more = if changed.len() > NAMED { " and others" } else { "" };
        format!(" ({}{more})", named.join(", "))
    }

    /// Says how the sample of the split `own` and that of the split `other` come to have documents in common, which
    /// both take from the same input. `None` if they have none, or if that is not known.
    pub(super) fn common_documents(
        &self,
        own: &str,
        other: &str,
        of_other: &StoredSettings,
    ) -> Option<String> {
        let (sample, other_sample) = (self.sample?, of_other.sample?);
        let same_documents = DOCUMENT_SETTINGS
            .iter()
            .all(|key| self.setting_hashes.get(*key) == of_other.setting_hashes.get(*key));
        (same_documents && may_overlap(&sample, &other_sample)).then(|| {
            format!(
                "the splits {other:?} and {own:?} may have documents in common: they are of the same input, \
                 {other:?} with {}, {own:?} with {}. Give both the same `shuffle_buffer` and `seed`, one of them \
                 `skip`, and the other `take` with the same number",
                sample_in_words(&other_sample),
                sample_in_words(&sample)
            )
        })
    }
}

/// Whether a document may be in both samples of one input. They have none in common only if their documents come in
/// the same order, and one of them ends before the other begins.
fn may_overlap(one: &SampleConfig, two: &SampleConfig) -> bool {
    let order = |sample: &SampleConfig| {
        let seed = if sample.shuffle_buffer == 0 { 0 } else { sample.seed };
        (sample.every.max(1), sample.shuffle_buffer, seed)
    };
    let end = |sample: &SampleConfig| sample.take.map_or(u64::MAX, |take| sample.skip.saturating_add(take));
    order(one) != order(two) || one.skip.max(two.skip) < end(one).min(end(two))
}

/// The rules of a sample that have an effect, by their keys.
fn sample_in_words(sample: &SampleConfig) -> String {
    let SampleConfig { every, shuffle_buffer, seed, skip, take, max_bytes } = *sample;
    let is_shuffled = shuffle_buffer > 0;
    let rules = [
        ("every", (every > 1).then_some(every)),
        ("shuffle_buffer", is_shuffled.then_some(shuffle_buffer)),
        ("seed", is_shuffled.then_some(seed)),
        ("skip", (skip > 0).then_some(skip)),
        ("take", take),
        ("max_bytes", max_bytes),
    ];
    let rules: Vec<String> =
        rules.into_iter().filter_map(|(key, value)| Some(format!("`{key}` {}", value?))).collect();
    if rules.is_empty() { "all documents".to_owned() } else { rules.join(", ") }
}

/// The key of a recipe for a setting, which is named by section and key.
fn recipe_key(setting: &str) -> &str {
    match setting.rsplit('.').next().unwrap_or(setting) {
        "merges" | "smaller" => "vocab_size",
        "text" => "template",
        "trained" => "tokenizer",
        "limits" => "take",
        "files" => "counts",
        "weights" => "weight",
        "rule" => "pack",
        "kept" => "extend",
        key => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_apart_only_in_one_order_and_one_after_the_other() {
        let all = SampleConfig::default();
        let shuffled = SampleConfig { shuffle_buffer: 100, seed: 1, ..all };
        let skips = SampleConfig { skip: 500, ..shuffled };
        let takes = SampleConfig { take: Some(500), ..shuffled };
        for (one, two, overlap) in [
            (all, all, true),
            (skips, takes, false),
            (skips, SampleConfig { take: Some(501), ..takes }, true),
            (skips, SampleConfig { seed: 0, ..takes }, true),
            (skips, SampleConfig { shuffle_buffer: 0, ..takes }, true),
            (skips, SampleConfig { every: 2, ..takes }, true),
            (all, takes, true),
            (SampleConfig { skip: 500, seed: 7, ..all }, SampleConfig { take: Some(500), ..all }, false),
        ] {
            assert_eq!(
                (may_overlap(&one, &two), may_overlap(&two, &one)),
                (overlap, overlap),
                "{one:?} {two:?}"
            );
        }
    }

    #[test]
    fn settings_that_differ_are_named_by_their_keys() {
        let stored = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(key, hash)| ((*key).to_owned(), (*hash).to_owned()));
            StoredSettings { setting_hashes: pairs.collect(), ..StoredSettings::default() }
        };
        let now = stored(&[("sample.seed", "a"), ("sources.take", "b"), ("train.merges", "c")]);
        for (earlier, named) in [
            (&now, ""),
            (&stored(&[]), ""),
            (&stored(&[("sample.seed", "a"), ("sources.take", "x")]), " (`take`, `vocab_size`)"),
        ] {
            assert_eq!(now.changed_keys(earlier), named);
        }
    }
}
