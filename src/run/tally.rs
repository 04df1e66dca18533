use std::path::Path;

use serde_json::{Value, json};

use super::check::check_outside;
use super::inputs::Inputs;
use super::plan::Plan;
use super::train::count_within_limit;
use crate::count::{CorpusFacts, CountsInfo, Written, read_counts_info};
use crate::error::Result;
use crate::files;
use crate::source::{OpenContext, shown_uri};

/// What counting came to.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Distinct pieces.
    pub pieces: u64,
    /// Bytes of the distinct pieces.
    pub piece_bytes: u64,
    /// Facts about the text.
    pub corpus: CorpusFacts,
    /// How many sorted runs of pieces went to disk, because memory did not suffice.
    pub spills: u64,
    /// How many rows or files were left out.
    pub skipped: u64,
}

/// Counts the pieces of a plan's documents and writes them to a counts file, whole or not at all.
///
/// Pieces that do not fit the plan's limit of memory go to unnamed files in the folder of `path` meanwhile.
/// `ordered` keeps them in order of first appearance, which the tie rule `first` needs.
///
/// # Errors
/// What reading and counting give; the file cannot be written.
///
/// # Panics
/// On a plan that trains nothing.
pub fn count_only(plan: &Plan, path: &Path, ordered: bool, context: &OpenContext<'_>) -> Result<Tally> {
    let settings = plan.train.as_ref().expect("a plan that trains");
    check_output(path)?;
    check_outside(plan, path)?;
    super::with_threads(plan.threads, || {
        let inputs = Inputs::open(plan, context)?;
        let counts =
            count_within_limit(plan, settings, &inputs, None, files::folder_of(path), context.observer)?;
        inputs.check_stamps()?;
        let spills = counts.spills();
        let info = CountsInfo {
            pattern: settings.split.clone(),
            boundary: settings.boundary,
            special_tokens: settings.specials.clone(),
            sources: described(plan, &inputs)?,
            ordered,
            ..CountsInfo::default()
        };
        let written: Written =
            files::publish(path, |file| counts.write(file, path, &info, context.observer))?;
        Ok(Tally {
            pieces: written.pieces,
            piece_bytes: written.piece_bytes,
            corpus: written.facts,
            spills,
            skipped: inputs.skipped(context.observer),
        })
    })
}

/// The sources and what identifies each of their units.
fn described(plan: &Plan, inputs: &Inputs<'_>) -> Result<Value> {
    let (mut sources, found) = (Vec::new(), inputs.identities_now()?);
    for (number, ((units, spec), identities)) in
        inputs.units().iter().zip(&plan.sources).zip(found).enumerate()
    {
        let units: Vec<Value> = units
            .iter()
            .zip(identities)
            .map(|(unit, identity)| json!({ "name": unit.name, "range": unit.range, "identity": identity }))
            .collect();
        sources.push(
            json!({ "uri": shown_uri(&spec.uri), "column": spec.column, "weight": plan.weights[number], "units": units }),
        );
    }
    Ok(json!({ "sources": sources, "sample": plan.sample }))
}

/// Checks that a counts file would replace nothing but a counts file.
pub(super) fn check_output(path: &Path) -> Result<()> {
    files::check_replaced(path, "counts file", |path| read_counts_info(path).is_ok())
}
