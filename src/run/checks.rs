//! Checks a request before anything is written: whether its results would overwrite or mix with files of others.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::encoding::added_tokens;
use super::inputs::Inputs;
use super::plan::{Plan, TrainPlan};
use super::state::JobState;
use crate::base::atomic_file;
use crate::error::{Error, Result};
use crate::report::{HTML_NAME, JSON_NAME};
use crate::sink::{Manifest, TOKENIZER_FOLDER};
use crate::vocab::{TrainingRecord, Vocabulary, WriteOptions};
use crate::{sink, vocab};

/// Checks what can be known once the inputs are open and before anything is written.
///
/// # Errors
/// - The run must read its input twice, and the input can be read only once.
/// - The input contains data files that an earlier job left in the output folder.
/// - A column cannot be written, or the tokenizer lacks a special token that the plan names.
pub(super) fn check(plan: &Plan, inputs: &Inputs<'_>, given: Option<&Vocabulary>) -> Result<()> {
    check_read_again(plan, inputs)?;
    check_apart(&plan.output, inputs)?;
    let Some(encode) = &plan.encode else { return Ok(()) };
    sink::output_schema(&inputs.columns()?)?;
    given.map_or(Ok(()), |vocabulary| added_tokens(encode, vocabulary).map(|_| ()))
}

/// Checks that the input can be read as often as the plan needs it.
///
/// # Errors
/// The plan encodes what it trains on, or trains in stages, and the input can be read only once.
pub(super) fn check_read_again(plan: &Plan, inputs: &Inputs<'_>) -> Result<()> {
    if !inputs.read_once() {
        return Ok(());
    }
    let what = match &plan.train {
        Some(_) if plan.encode.is_some() => "the run",
        Some(train) if train.stages.len() > 1 => "training in stages",
        _ => return Ok(()),
    };
    let problem = format!(
        "{what} reads its input twice, and standard input, a pipe or an iterator can be read only once"
    );
    Err(Error::usage(problem).with_help("save it to a file first"))
}

/// Checks the output folder of a job, before its inputs are open.
///
/// A folder with a manifest passes: the job itself decides later whether it may replace that result.
///
/// # Errors
/// - The path is a file.
/// - The folder is inside a folder that is a source.
/// - The results would replace the report of a training, or a tokenizer that no training has left.
/// - A training record in the folder cannot be read.
pub(super) fn check_place(plan: &Plan) -> Result<()> {
    let folder = &plan.output;
    check_folder(folder)?;
    check_outside(plan, folder)?;
    if is_result(folder) {
        return Ok(());
    }
    match &plan.train {
        Some(train) => check_replaced(train, JobState::read(folder, plan.split_name()).is_some(), None),
        None if TrainingRecord::path(folder).is_file() => {
            let folder = folder.display();
            let problem =
                format!("{folder} holds a tokenizer, and the report of its training would be replaced");
            Err(Error::usage(problem).with_help("choose another folder for the results"))
        }
        None => Ok(()),
    }
}

/// Checks the folders of [`train_only`](super::train_only()), before its inputs are open.
///
/// # Errors
/// The folder is part of the result of a job, is a file, is inside a source, or cannot be written to; or a file of
/// another origin would be replaced.
pub(super) fn check_training_place(plan: &Plan, settings: &TrainPlan) -> Result<()> {
    if let Some(folder) = result_of(&settings.output) {
        let folder = folder.display();
        let problem =
            format!("{folder} holds the result of a run, whose report or tokenizer would be replaced");
        return Err(Error::usage(problem).with_help("choose another folder for the tokenizer"));
    }
    check_folder(&settings.output)?;
    check_outside(plan, &settings.output)?;
    check_replaced(settings, false, Some(&settings.output))?;
    let mut folders = settings.smaller.iter().map(|smaller| &smaller.output).chain([&settings.output]);
    folders.try_for_each(|folder| atomic_file::check_writable(folder))
}

/// Checks that a training would replace no file that is not its own. A folder with a training record holds the files of
/// a training, which may be replaced. If the job has already begun in this folder (`is_resumed`), all files there are
/// its own. `reported` is the folder for the report, if the training writes one.
///
/// # Errors
/// A file of another origin has the name of a result, or a record cannot be read.
fn check_replaced(train: &TrainPlan, is_resumed: bool, reported: Option<&Path>) -> Result<()> {
    if is_resumed {
        return Ok(());
    }
    for folder in train.smaller.iter().map(|smaller| &smaller.output).chain([&train.output]) {
        let record = TrainingRecord::read(folder);
        if record.map_err(|error| error.with_help("remove it, or choose another folder"))?.is_some() {
            continue;
        }
        let reports = [JSON_NAME, HTML_NAME].map(|name| folder.join(name)).into_iter();
        let reports = reports.filter(|_| reported == Some(folder));
        let tokenizers = vocab::paths(&train.formats, folder, &WriteOptions::default());
        if let Some(path) = tokenizers.into_iter().chain(reports).find(|path| path.exists()) {
            let path = path.display();
            return Err(Error::usage(format!("{path} would be replaced, but no training has written it"))
                .with_help("choose another folder, or move it away"));
        }
    }
    Ok(())
}

/// Checks that the path for the output folder is not a file.
///
/// # Errors
/// It is a file.
fn check_folder(output: &Path) -> Result<()> {
    if output.exists() && !output.is_dir() {
        return Err(Error::usage(format!("{} is a file", output.display()))
            .with_help("name a folder for the results"));
    }
    Ok(())
}

/// Checks that no source is a folder that contains the output folder or file. Running the job again would otherwise
/// read its own results as input.
///
/// # Errors
/// A source contains the output.
pub(super) fn check_outside(plan: &Plan, output: &Path) -> Result<()> {
    let resolved = resolved(output);
    let holds =
        |uri: &&String| fs::canonicalize(uri).is_ok_and(|path| path.is_dir() && resolved.starts_with(path));
    match plan.sources.iter().map(|source| &source.uri).find(holds) {
        Some(uri) => {
            let output = output.display();
            let problem = format!("the results in {output} would be inside the input folder {uri}");
            Err(Error::usage(problem).with_help(
                "choose a place outside of the input, or name the input's files by a pattern such as \"data/*.parquet\"",
            ))
        }
        None => Ok(()),
    }
}

/// An absolute path with symbolic links resolved. The path need not exist: only its existing ancestors are resolved.
///
/// If nothing can be resolved, the absolute path is returned as it is. Nothing is an error here.
fn resolved(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = |above: &Path| Some(fs::canonicalize(above).ok()?.join(whole.strip_prefix(above).ok()?));
    whole.ancestors().find_map(there).unwrap_or_else(|| whole.clone())
}

/// Whether a folder holds the completed result of a job.
///
/// A manifest that cannot be read counts as none.
pub(super) fn is_result(folder: &Path) -> bool {
    matches!(Manifest::read(folder), Ok(Some(_)))
}

/// The folder with the completed result of a job, if `folder` is that folder, the folder of its tokenizer, or one of
/// its smaller tokenizers.
///
/// The folder itself is examined first, then the folder above a tokenizer folder: the smaller tokenizer
/// `out/tokenizer/vocab-1000` leads to `out`.
fn result_of(folder: &Path) -> Option<PathBuf> {
    let tokenizer = |folder: &&Path| folder.file_name().is_some_and(|name| name == TOKENIZER_FOLDER);
    let above = folder.ancestors().take(2).find(tokenizer).and_then(Path::parent);
    [Some(folder), above].into_iter().flatten().find(|folder| is_result(folder)).map(Path::to_owned)
}

/// Checks that no input file is a data file that an earlier job left in the output folder: the run would remove it.
///
/// Paths are compared with symbolic links resolved. Inputs that are not local files never match.
///
/// # Errors
/// An input file is one, or the output folder cannot be read.
fn check_apart(output: &Path, inputs: &Inputs<'_>) -> Result<()> {
    let results = sink::data_files(output)?;
    let results: BTreeSet<PathBuf> = results.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    if results.is_empty() {
        return Ok(());
    }
    let names: BTreeSet<String> = inputs.units().into_iter().flatten().map(|unit| unit.name).collect();
    let is_result = |name: &String| fs::canonicalize(name).is_ok_and(|path| results.contains(&path));
    match names.into_iter().find(is_result) {
        Some(name) => {
            let output = output.display();
            Err(Error::usage(format!("{name} is input, but is among the results in {output}"))
                .with_help("choose another folder for the results"))
        }
        None => Ok(()),
    }
}
