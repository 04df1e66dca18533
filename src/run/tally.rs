use std::path::Path;

use serde_json::{Value, json};

use super::inputs::Inputs;
use super::plan::Plan;
use super::train::count;
use crate::count::{CorpusFacts, Counted, CountsInfo, write_counts};
use crate::error::Result;
use crate::files;
use crate::source::OpenContext;
use crate::units::amount;

/// What counting came to.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Distinct pieces.
    pub pieces: u64,
    /// Bytes of the distinct pieces.
    pub piece_bytes: u64,
    /// Facts about the text.
    pub corpus: CorpusFacts,
    /// How many rows or files were left out.
    pub skipped: u64,
}

/// Counts the pieces of a plan's documents and writes them to a counts file, whole or not at all.
///
/// `ordered` keeps them in order of first appearance, which the tie rule `first` needs.
///
/// # Errors
/// What reading and counting give; the file cannot be written.
///
/// # Panics
/// On a plan that trains nothing.
pub fn count_only(plan: &Plan, path: &Path, ordered: bool, context: &OpenContext<'_>) -> Result<Tally> {
    let settings = plan.train.as_ref().expect("a plan that trains");
    super::with_threads(plan.threads, || {
        let inputs = Inputs::open(plan, context)?;
        let Counted { pieces, facts } = count(plan, settings, &inputs, context.observer)?;
        let info = CountsInfo {
            pattern: settings.split.clone(),
            boundary: settings.boundary,
            special_tokens: settings.specials.clone(),
            sources: described(plan, &inputs)?,
            ordered,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        files::publish(path, |file| write_counts(file, path, &pieces, &info))?;
        Ok(Tally {
            pieces: amount(pieces.len()),
            piece_bytes: amount(pieces.bytes()),
            corpus: facts,
            skipped: inputs.incidents().count(),
        })
    })
}

/// The sources and what identifies each of their units.
fn described(plan: &Plan, inputs: &Inputs) -> Result<Value> {
    let mut sources = Vec::new();
    for (number, (units, spec)) in inputs.units().iter().zip(&plan.sources).enumerate() {
        let identities =
            (0..units.len()).map(|unit| inputs.identity(number, unit)).collect::<Result<Vec<_>>>()?;
        let units: Vec<Value> = units
            .iter()
            .zip(identities)
            .map(|(unit, identity)| json!({ "name": unit.name, "range": unit.range, "identity": identity }))
            .collect();
        sources.push(
            json!({ "uri": spec.uri, "column": spec.column, "weight": plan.weights[number], "units": units }),
        );
    }
    Ok(json!({ "sources": sources, "sample": plan.sample }))
}
