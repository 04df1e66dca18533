//! Identifies a job by all that its output depends on.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::inputs::Inputs;
use super::plan::Plan;
use crate::VERSION;
use crate::base::integrity::sha256;
use crate::error::Result;
use crate::sink::{self, OutputFolder, state_of};
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
        })
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
    /// Of several differences, the first in the order recipe, input, tokenizer, version is named.
    pub(super) fn difference(&self, other: &JobState) -> Option<&'static str> {
        if self.recipe != other.recipe {
            Some("the recipe")
        } else if self.inputs != other.inputs {
            Some("the input")
        } else if self.tokenizer != other.tokenizer {
            Some("the tokenizer")
        } else {
            (self.version != other.version).then_some("the version of the program")
        }
    }

    /// Stores the state in the folder that will hold the result.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, folder: &OutputFolder) -> Result<()> {
        sink::write_job(&folder.state(), &StoredState { state: self, split: folder.split() })
    }

    /// The state that is stored in a folder, for a split if one is named; `None` if there is none.
    ///
    /// A state that cannot be parsed counts as none.
    pub(super) fn read(folder: &Path, split: Option<&str>) -> Option<JobState> {
        sink::read_job(&state_of(folder, split))
    }
}

/// The stored form of a state. It names the split if the output may have several.
#[derive(Serialize)]
struct StoredState<'a> {
    #[serde(flatten)]
    state: &'a JobState,
    #[serde(skip_serializing_if = "Option::is_none")]
    split: Option<&'a str>,
}
