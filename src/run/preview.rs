use super::check::{check, check_place};
use super::inputs::Inputs;
use super::learned;
use super::lists::load_named;
use super::plan::{Documents, Plan, TrainPlan};
use super::state::State;
use super::train::learning_memory;
use crate::error::Result;
use crate::sink::{FilePlan, Manifest, OutputFormat};
use crate::source::{OpenContext, Unit, shown_uri};
use crate::split::SplitPattern;
use crate::units::{ByteCount, amount, declared_sum};
use crate::vocab::Vocabulary;

/// Bytes of text that make a token, about, in the languages that give the fewest.
const BYTES_A_TOKEN: u64 = 3;

/// Bits that a token takes in Parquet, about.
const BITS_A_TOKEN: u64 = 13;

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
    /// About the room that the data files take with the few bytes a token of languages that have many, where
    /// their text is known.
    pub disk: Option<ByteCount>,
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
/// the hub; the input itself only where the output folder holds a result or a part of one, and nothing less identifies
/// the input.
///
/// # Errors
/// A source cannot be opened, the tokenizer is missing or damaged, or the manifest is.
pub fn preview(plan: &Plan, context: &OpenContext<'_>) -> Result<Preview> {
    let named =
        plan.encode.as_ref().and_then(|encode| Some((encode.tokenizer.as_ref()?, &encode.tokenizer_options)));
    let tokenizer = named.map(|(name, options)| load_named(name, options, context)).transpose()?;
    check_place(plan)?;
    let inputs = Inputs::look(plan, context)?;
    check(plan, &inputs, tokenizer.as_ref())?;
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
    let ids = match (&tokenizer, &plan.train) {
        (Some(tokenizer), _) => tokenizer.id_limit(),
        (None, train) => train.as_ref().map_or(0, TrainPlan::vocab_size),
    };
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
    Ok(Preview {
        training_memory: training_memory(plan, text_bytes, &sources),
        disk: encoded.and_then(|(encode, _, bytes)| Some(disk_estimate(bytes?, ids, encode.format))),
        held: held(plan, &inputs, tokenizer.as_ref())?,
        sources,
        text_bytes,
        files,
    })
}

/// About the room that the ids of so much text take, which are below `ids`.
pub(super) fn disk_estimate(text_bytes: u64, ids: usize, format: OutputFormat) -> ByteCount {
    let bits = format.id_bytes(amount(ids)).map_or(BITS_A_TOKEN, |bytes| 8 * bytes);
    ByteCount((text_bytes / BYTES_A_TOKEN).saturating_mul(bits) / 8)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_as_they_are_take_two_or_four_bytes() {
        for (ids, format, bytes) in [
            (300, OutputFormat::Parquet, 1_625),
            (300, OutputFormat::Bin, 2_000),
            (65_536, OutputFormat::Megatron, 4_000),
            (65_537, OutputFormat::Bin, 4_000),
        ] {
            assert_eq!(disk_estimate(3_000, ids, format), ByteCount(bytes), "{ids} {format:?}");
        }
    }
}
