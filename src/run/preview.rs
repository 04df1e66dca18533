//! Says what a job would do, without doing it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::checks::{check, check_outside, check_place, check_read_again, check_training_place};
use super::counting::check_output;
use super::disk::{DiskNeed, disk_need, refuse_too_little};
use super::extend::load_named;
use super::inputs::Inputs;
use super::job::of_another_run;
use super::plan::{EncodedDocuments, Plan};
use super::resources::learning_memory;
use super::state::JobState;
use super::training::has_begun;
use crate::base::atomic_file::free_space;
use crate::base::int::{ByteCount, declared_sum, to_u64};
use crate::error::Result;
use crate::publish::uploaded_data;
use crate::sink::{FilePlan, Manifest, OutputFolder};
use crate::source::{OpenContext, Unit, shown_uri};
use crate::split::SplitPattern;
use crate::vocab::{TrainingRecord, Vocabulary};

/// What a job would do.
///
/// All figures are as of the time of the preview. The job checks everything again.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The contents of each source.
    pub sources: Vec<SourcePreview>,
    /// Bytes of text that will be trained on, or encoded if the sample is encoded: an upper bound. `None` if it is
    /// not known before reading.
    pub text_bytes: Option<u64>,
    /// Peak memory of training, estimated, if it depends only on the size of the text: without a split. With a split
    /// it depends on the number of distinct pre-tokens, which only counting can find.
    pub training_memory: Option<ByteCount>,
    /// Names of the data files, if they are known before reading.
    pub files: Option<Vec<String>>,
    /// Disk space for the data files, estimated, if enough is known of the text.
    pub disk: Option<DiskNeed>,
    /// Free space on the disk of the output folder, if the system reports it.
    pub disk_free: Option<ByteCount>,
    /// What the output folder already holds.
    pub existing_output: ExistingOutput,
}

/// The figures that a source declares before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePreview {
    /// The address of the source, in the form for messages.
    pub uri: String,
    /// Number of units in which it is read.
    pub units: u64,
    /// Number of rows, if all units declare it.
    pub rows: Option<u64>,
    /// Bytes of text, if all units declare it, exactly or closely.
    pub text_bytes: Option<u64>,
    /// Bytes of files on other machines. Generated text and files in the cache of the hub have none.
    pub elsewhere: ByteCount,
}

/// What an output folder holds, compared with a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingOutput {
    /// No complete or partial result.
    Nothing,
    /// A tokenizer of an earlier training, which a training replaces.
    Tokenizer,
    /// The result of this plan. Running the job only checks it.
    Done,
    /// The result of this plan, but this number of files is missing or has another size. Running the job writes them
    /// again.
    Damaged(u64),
    /// The result of another job. The text names what differs.
    Other(&'static str),
    /// A partial result. Running the job resumes from it, unless the text names a difference, in which case it
    /// belongs to another job.
    Incomplete(Option<&'static str>),
}

/// Says what [`job`](super::job()) would do with a plan, without writing anything.
///
/// Reads the tokenizer, the names and footers of files, also on the hub, and excerpts of local text to estimate the
/// disk space. The whole input is read only if the output folder holds a result or part of one, and the input can
/// only be identified by its content. The observer is told of the files that are left out because they cannot be
/// opened.
///
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::run::recipe::{self, Given};
/// use tokenmill::run::{ExistingOutput, Environment, plan, preview};
/// use tokenmill::source::OpenContext;
/// use tokenmill::base::int::ByteCount;
///
/// # let folder = tempfile::tempdir()?;
/// # let dir = folder.path().join("out");
/// let text = r#"
///     source = { uri = "demo:verse?lines=500", column = "line" }
///     train = { vocab_size = 400 }
/// "#;
/// let mut recipe = recipe::read("verse.toml", text)?;
/// recipe.output.dir = Some(Given::flag(dir.display().to_string()));
/// let environment = Environment { variable: &|_| None, threads: 2, memory: ByteCount(1 << 30) };
/// let preview = preview(&plan(&recipe, &environment)?, &OpenContext::new(&Silent))?;
/// assert_eq!((preview.sources.len(), preview.existing_output), (1, ExistingOutput::Nothing));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// - A source cannot be opened.
/// - The tokenizer or the manifest is damaged, or the tokenizer is missing.
/// - The output folder or the columns cannot be used, as [`job`](super::job()) would report.
pub fn preview(plan: &Plan, context: &OpenContext<'_>) -> Result<Preview> {
    let named =
        plan.encode.as_ref().and_then(|encode| Some((encode.tokenizer.as_ref()?, &encode.tokenizer_options)));
    let tokenizer = named.map(|(name, options)| load_named(name, options, context)).transpose()?;
    let tokenizer = tokenizer.map(Arc::new);
    check_place(plan)?;
    OutputFolder::check_files(&plan.output)?;
    if let Err(held) = OutputFolder::check_unheld(&plan.output) {
        context.observer.noted(&held.to_string());
    }
    let inputs = Inputs::open_without_download(plan, context)?;
    // Files that cannot be opened. Later, rows of the excerpts that are read would count too.
    inputs.skipped(context.observer);
    check(plan, &inputs, tokenizer.as_deref())?;
    let existing_output = compare_output(plan, &inputs, tokenizer.as_deref())?;
    declared(plan, &inputs, tokenizer.as_ref(), existing_output, context)
}

/// Says what [`train_only`](super::train_only()) would do with a plan, without writing anything. It reads what
/// [`preview`] reads.
///
/// # Errors
/// A source cannot be opened, or the folder cannot be used, as [`train_only`](super::train_only()) would report.
///
/// # Panics
/// On a plan that trains nothing.
pub fn preview_training(plan: &Plan, context: &OpenContext<'_>) -> Result<Preview> {
    let settings = plan.train.as_ref().expect("a plan that trains");
    check_training_place(plan, settings)?;
    let inputs = Inputs::open_without_download(plan, context)?;
    let is_trained = TrainingRecord::path(&settings.output).is_file();
    let existing_output = if is_trained { ExistingOutput::Tokenizer } else { ExistingOutput::Nothing };
    declared(plan, &inputs, None, existing_output, context)
}

/// Says what [`count_only`](super::count_only()) would read, without writing anything. `path` is the counts file.
///
/// # Errors
/// A source cannot be opened, or the file cannot be written, as [`count_only`](super::count_only()) would report.
pub fn preview_counting(plan: &Plan, path: &Path, context: &OpenContext<'_>) -> Result<Preview> {
    check_output(path)?;
    check_outside(plan, path)?;
    let inputs = Inputs::open_without_download(plan, context)?;
    declared(plan, &inputs, None, ExistingOutput::Nothing, context)
}

impl Preview {
    /// Checks what [`job`](super::job()) checks once its inputs are open and before it writes: that the output folder
    /// can be written, that it holds no result of another job unless `force` is set, and that its disk has space.
    ///
    /// # Errors
    /// Those of the job.
    pub fn check_output(&self, plan: &Plan, force: bool) -> Result<()> {
        OutputFolder::check(&plan.output)?;
        let of_another = |changed, held| of_another_run(plan, changed, held);
        match self.existing_output {
            ExistingOutput::Other(changed) if !force => Err(of_another(changed, "the result")),
            ExistingOutput::Incomplete(Some(changed)) if !force => {
                Err(of_another(changed, "the unfinished result"))
            }
            // The files that are there will be kept or replaced, so their space counts as free.
            ExistingOutput::Nothing => match (self.disk, self.disk_free) {
                // Files that move elsewhere never need their space all at once.
                (Some(need), Some(free)) if plan.destination.is_none() => {
                    refuse_too_little(&plan.output, need, free)
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// The figures that the open inputs of a plan declare.
///
/// # Errors
/// The name of the split is not allowed, or the excerpt cannot be read.
fn declared(
    plan: &Plan,
    inputs: &Inputs<'_>,
    tokenizer: Option<&Arc<Vocabulary>>,
    existing_output: ExistingOutput,
    context: &OpenContext<'_>,
) -> Result<Preview> {
    check_read_again(plan, inputs)?;
    let units = inputs.units();
    let all = units.iter().zip(&plan.sources).zip(inputs.bytes_elsewhere());
    let sources: Vec<SourcePreview> = all
        .map(|((units, spec), elsewhere)| source(shown_uri(&spec.uri), units, ByteCount(elsewhere)))
        .collect();
    let limit = |all: Option<u64>, most: Option<u64>| match (all, most) {
        (Some(all), Some(most)) => Some(all.min(most)),
        (all, most) => all.or(most),
    };
    let limited = sources
        .iter()
        .zip(&plan.source_samples)
        .map(|(source, sample)| limit(source.text_bytes, sample.max_bytes));
    let text_bytes = limit(declared_sum(limited), plan.sample.max_bytes);
    let everything = inputs.sample_is_everything();
    let encoded = plan.encode.as_ref().map(|encode| {
        let all = everything || encode.documents == EncodedDocuments::All;
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
    let disk =
        encoded.map(|(encode, _, bytes)| disk_need(plan, encode, inputs, tokenizer, bytes, context.observer));
    Ok(Preview {
        training_memory: training_memory(plan, text_bytes, &sources),
        disk: disk.transpose()?.flatten(),
        disk_free: free_space(&plan.output).map(ByteCount),
        existing_output,
        sources,
        text_bytes,
        files,
    })
}

/// Sums up what the units of a source declare.
///
/// A figure is `None` if one of the units does not declare it.
fn source(uri: String, units: &[Unit], elsewhere: ByteCount) -> SourcePreview {
    SourcePreview {
        uri,
        units: to_u64(units.len()),
        rows: declared_sum(units.iter().map(|unit| unit.rows)),
        text_bytes: declared_sum(units.iter().map(|unit| unit.text_bytes)),
        elsewhere,
    }
}

/// The estimated peak memory of training without a split; `None` with one, or if the size of the text is not known.
///
/// If the number of rows is unknown, one row is assumed, with counts above 1.
fn training_memory(plan: &Plan, text_bytes: Option<u64>, sources: &[SourcePreview]) -> Option<ByteCount> {
    let train = plan.train.as_ref().filter(|train| train.split == SplitPattern::None)?;
    let rows = declared_sum(sources.iter().map(|source| source.rows));
    Some(learning_memory(train, text_bytes?, rows.unwrap_or(1), rows != Some(1)))
}

/// Compares the output folder with a plan. The input is identified only if the folder holds something.
///
/// A stream has no identity, so any result in the folder counts as one of another input.
///
/// # Errors
/// The manifest is damaged, or the input cannot be identified.
fn compare_output(
    plan: &Plan,
    inputs: &Inputs<'_>,
    tokenizer: Option<&Vocabulary>,
) -> Result<ExistingOutput> {
    let manifest = Manifest::read(&plan.output)?.and_then(|all| all.of_split(plan.split_name()));
    if inputs.read_once() {
        return Ok(manifest.map_or(ExistingOutput::Nothing, |_| ExistingOutput::Other("the input")));
    }
    if manifest.is_none() && !has_begun(&plan.output, plan.split_name())? {
        return Ok(ExistingOutput::Nothing);
    }
    let state = JobState::of(plan, inputs, tokenizer)?;
    let changed =
        JobState::read(&plan.output, plan.split_name()).and_then(|earlier| state.difference(&earlier));
    Ok(match manifest {
        None => ExistingOutput::Incomplete(changed),
        Some(manifest) if manifest.job == state.fingerprint() => {
            let moved = match &plan.destination {
                Some(uri) => uploaded_data(&plan.output, uri)?,
                None => BTreeSet::new(),
            };
            match manifest.files_of_other_size(&plan.output, |name| moved.contains(name)) {
                0 => ExistingOutput::Done,
                damaged => ExistingOutput::Damaged(damaged),
            }
        }
        Some(_) => ExistingOutput::Other(changed.unwrap_or("something")),
    })
}
