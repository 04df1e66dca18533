//! Counts the documents of a plan into a counts file.

use std::path::Path;

use serde_json::{Value, json};

use super::check::check_outside;
use super::inputs::Inputs;
use super::plan::Plan;
use super::train::count_within_limit;
use crate::base::atomic_file;
use crate::count::{CorpusFacts, CountsInfo, Written, read_counts_info};
use crate::error::Result;
use crate::source::{OpenContext, shown_uri};

/// The result of counting.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Number of distinct pre-tokens.
    pub pretokens: u64,
    /// Bytes of the distinct pre-tokens.
    pub pretoken_bytes: u64,
    /// Facts about the text.
    pub corpus: CorpusFacts,
    /// Number of sorted runs of pre-tokens that were written to disk because memory did not suffice.
    pub spills: u64,
    /// Number of rows or files that were skipped.
    pub skipped: u64,
}

/// Counts the pre-tokens of a plan's documents and writes them to a counts file, completely or not at all.
///
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::run::recipe::{self, Given};
/// use tokenmill::run::{Surroundings, count_only, plan};
/// use tokenmill::source::OpenContext;
/// use tokenmill::base::int::ByteCount;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("counts.parquet");
/// let text = r#"
///     source = { uri = "demo:verse?lines=500", column = "line" }
///     train = { split = "gpt4", vocab_size = 400 }
/// "#;
/// let mut recipe = recipe::read("verse.toml", text)?;
/// recipe.output.dir = Some(Given::flag("out".to_owned())); // not used here
/// let surroundings = Surroundings { variable: &|_| None, threads: 2, memory: ByteCount(1 << 30) };
/// let plan = plan(&recipe, &surroundings)?;
/// let tally = count_only(&plan, &path, false, &OpenContext::new(&Silent))?;
/// assert!(tally.pretokens > 0 && path.is_file());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// **Memory:** about `plan.memory` at most. Further pre-tokens are written to unnamed files in the folder of `path`
/// until counting ends.
///
/// `ordered` keeps the order in which pre-tokens first appear. The tie rule `first` needs it.
///
/// # Errors
/// - Errors of reading and counting.
/// - The file cannot be written, or `path` exists and is not a counts file.
///
/// # Panics
/// The plan has no training.
pub fn count_only(plan: &Plan, path: &Path, ordered: bool, context: &OpenContext<'_>) -> Result<Tally> {
    let settings = plan.train.as_ref().expect("a plan that trains");
    check_output(path)?;
    check_outside(plan, path)?;
    super::with_threads(plan.threads, || {
        let inputs = Inputs::open(plan, context)?;
        let counts = count_within_limit(
            plan,
            settings,
            &inputs,
            None,
            atomic_file::folder_of(path),
            context.observer,
        )?;
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
            atomic_file::publish(path, |file| counts.write(file, path, &info, context.observer))?;
        Ok(Tally {
            pretokens: written.pretokens,
            pretoken_bytes: written.pretoken_bytes,
            corpus: written.facts,
            spills,
            skipped: inputs.skipped(context.observer),
        })
    })
}

/// Describes the sources and the identity of each of their units, for the counts file.
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

/// Checks that `path` does not exist or is a counts file.
pub(super) fn check_output(path: &Path) -> Result<()> {
    atomic_file::check_replaced(path, "counts file", |path| read_counts_info(path).is_ok())
}
