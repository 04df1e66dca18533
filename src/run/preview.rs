use std::sync::Arc;

use super::check::{check, check_place};
use super::disk::{DiskNeed, disk_need};
use super::inputs::Inputs;
use super::learned;
use super::lists::load_named;
use super::plan::{Documents, Plan};
use super::state::State;
use super::train::learning_memory;
use crate::error::Result;
use crate::files::free_space;
use crate::sink::{FilePlan, Manifest};
use crate::source::{OpenContext, Unit, shown_uri};
use crate::split::SplitPattern;
use crate::units::{ByteCount, amount, declared_sum};
use crate::vocab::Vocabulary;

/// What a run would do.
#[derive(Clone, Debug)]
pub struct Preview {
    /// What each source has.
    pub sources: Vec<SourcePreview>,
    /// Bytes of text that will be learned from, or encoded if that is of the sample, at most, where that is known before
    /// reading.
    pub text_bytes: Option<u64>,
    /// About the most memory that training takes, where that follows from the text: without a split.
    /// With one it grows with the distinct pieces, which only counting can tell.
    pub training_memory: Option<ByteCount>,
    /// The data files, where they are known before reading.
    pub files: Option<Vec<String>>,
    /// About the room that the data files take, where enough is known of the text.
    pub disk: Option<DiskNeed>,
    /// What is free on the disk of the output folder, where the system says it.
    pub disk_free: Option<ByteCount>,
    /// What the output folder holds already.
    pub held: Held,
}

/// What can be known of a source before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePreview {
    /// Its address.
    pub uri: String,
    /// In how many units it is read.
    pub units: u64,
    /// Rows, where all units tell.
    pub rows: Option<u64>,
    /// Bytes of text, where all units tell, exactly or closely.
    pub text_bytes: Option<u64>,
    /// Bytes of files that are neither on this machine, as in the cache of the hub, nor generated.
    pub elsewhere: ByteCount,
}

/// What an output folder holds, seen from a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nothing that is complete.
    Nothing,
    /// The result of this plan: `run` checks it and does nothing more.
    Done,
    /// The result of another job; the text says what differs.
    Other(&'static str),
    /// A part of a result, with which `run` goes on; or of that of another job, if something differs.
    Begun(Option<&'static str>),
}

/// Says what a run would do, without doing it. Reads the tokenizer, and names and footers, also of files on
/// the hub, and parts of texts that lie here, to estimate the room that their ids take; the input as a whole only where the
/// output folder holds a result or a part of one, and nothing less identifies the input.
///
/// # Errors
/// A source cannot be opened, the tokenizer is missing or damaged, or the manifest is.
pub fn preview(plan: &Plan, context: &OpenContext<'_>) -> Result<Preview> {
    let named =
        plan.encode.as_ref().and_then(|encode| Some((encode.tokenizer.as_ref()?, &encode.tokenizer_options)));
    let tokenizer = named.map(|(name, options)| load_named(name, options, context)).transpose()?;
    let tokenizer = tokenizer.map(Arc::new);
    check_place(plan)?;
    let inputs = Inputs::look(plan, context)?;
    check(plan, &inputs, tokenizer.as_deref())?;
    let units = inputs.units();
    let all = units.iter().zip(&plan.sources).zip(inputs.bytes_elsewhere());
    let sources: Vec<SourcePreview> = all
        .map(|((units, spec), elsewhere)| source(shown_uri(&spec.uri), units, ByteCount(elsewhere)))
        .collect();
    let limit = |all: Option<u64>, most: Option<u64>| match (all, most) {
        (Some(all), Some(most)) => Some(all.min(most)),
        (all, most) => all.or(most),
    };
    let limited =
        sources.iter().zip(&plan.limits).map(|(source, most)| limit(source.text_bytes, most.max_bytes));
    let text_bytes = limit(declared_sum(limited), plan.sample.max_bytes);
    let everything = inputs.sample_is_everything();
    let encoded = plan.encode.as_ref().map(|encode| {
        let all = everything || encode.documents == Documents::All;
        (encode, all, if all { inputs.text_bytes() } else { text_bytes })
    });
    let files = match &encoded {
        Some((encode, ..)) if encode.one_file => {
            let plan = FilePlan::rolling(&encode.split_name, encode.file_text_bytes.0)?;
            plan.with_format(encode.format).in_one_file().names()
        }
        Some((encode, true, Some(_))) => {
            let plan = FilePlan::of_units(&units, &encode.split_name, encode.file_text_bytes.0)?;
            plan.with_format(encode.format).names()
        }
        _ => None,
    };
    let disk = encoded.map(|(encode, _, bytes)| {
        disk_need(plan, encode, &inputs, tokenizer.as_ref(), bytes, context.observer)
    });
    Ok(Preview {
        training_memory: training_memory(plan, text_bytes, &sources),
        disk: disk.transpose()?.flatten(),
        disk_free: free_space(&plan.output).map(ByteCount),
        held: held(plan, &inputs, tokenizer.as_deref())?,
        sources,
        text_bytes,
        files,
    })
}

fn source(uri: String, units: &[Unit], elsewhere: ByteCount) -> SourcePreview {
    SourcePreview {
        uri,
        units: amount(units.len()),
        rows: declared_sum(units.iter().map(|unit| unit.rows)),
        text_bytes: declared_sum(units.iter().map(|unit| unit.text_bytes)),
        elsewhere,
    }
}

fn training_memory(plan: &Plan, text_bytes: Option<u64>, sources: &[SourcePreview]) -> Option<ByteCount> {
    let train = plan.train.as_ref().filter(|train| train.split == SplitPattern::None)?;
    let rows = declared_sum(sources.iter().map(|source| source.rows));
    Some(learning_memory(train, text_bytes?, rows.unwrap_or(1), rows != Some(1)))
}

fn held(plan: &Plan, inputs: &Inputs<'_>, tokenizer: Option<&Vocabulary>) -> Result<Held> {
    let manifest = Manifest::read(&plan.output)?.and_then(|all| all.of_split(plan.split_name()));
    if inputs.read_once() {
        return Ok(manifest.map_or(Held::Nothing, |_| Held::Other("the input")));
    }
    if manifest.is_none() && !learned::has_begun(&plan.output, plan.split_name())? {
        return Ok(Held::Nothing);
    }
    let state = State::of(plan, inputs, tokenizer)?;
    let changed = State::read(&plan.output, plan.split_name()).and_then(|held| state.difference(&held));
    Ok(match manifest {
        None => Held::Begun(changed),
        Some(manifest) if manifest.job == state.fingerprint() => Held::Done,
        Some(_) => Held::Other(changed.unwrap_or("something")),
    })
}
