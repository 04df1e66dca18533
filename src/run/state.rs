use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::inputs::Inputs;
use super::plan::Plan;
use crate::VERSION;
use crate::digest::sha256;
use crate::error::Result;
use crate::files;
use crate::sink::{JOB, OutputFolder, state_of};
use crate::vocab::Vocabulary;

/// Bytes that are read of a file that should hold a state, which has some hundred.
const MOST_BYTES: u64 = 1 << 20;

/// All that an output depends on: two jobs with the same state write the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// The program's version.
    version: String,
    /// Hash of the settings that decide what is written.
    recipe: String,
    /// Fingerprint of what the inputs hold.
    pub(super) inputs: String,
    /// Fingerprint of the tokenizer that the job was given, if it was given one.
    tokenizer: Option<String>,
}

impl State {
    pub(super) fn of(plan: &Plan, inputs: &Inputs<'_>, given: Option<&Vocabulary>) -> Result<State> {
        Ok(State {
            version: VERSION.to_owned(),
            recipe: plan.recipe_hash.clone(),
            inputs: inputs.fingerprint()?,
            tokenizer: given.map(Vocabulary::fingerprint),
        })
    }

    /// The job's fingerprint, which the manifest carries.
    pub(super) fn fingerprint(&self) -> String {
        let canonical = serde_json::to_vec(self).expect("plain data");
        sha256(canonical)
    }

    /// What differs from another job's state, as a sentence has it; `None` if nothing does.
    pub(super) fn difference(&self, other: &State) -> Option<&'static str> {
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

    /// Notes in the folder whose result it is going to hold.
    pub(super) fn write(&self, folder: &OutputFolder) -> Result<()> {
        let path = folder.state().join(JOB);
        let noted = Noted { state: self, split: folder.split() };
        let text = serde_json::to_vec_pretty(&noted).expect("plain data");
        files::publish_bytes_within(&path, &text)
    }

    /// What the folder was noted to hold, of a split if one is named; `None` where nothing legible says it.
    pub(super) fn read(folder: &Path, split: Option<&str>) -> Option<State> {
        let mut text = Vec::new();
        let file = File::open(state_of(folder, split).join(JOB)).ok()?;
        file.take(MOST_BYTES).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

/// A state as it is noted, with what it is the state of.
#[derive(Serialize)]
struct Noted<'a> {
    #[serde(flatten)]
    state: &'a State,
    #[serde(skip_serializing_if = "Option::is_none")]
    split: Option<&'a str>,
}
