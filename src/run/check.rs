use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::encode::added_tokens;
use super::fault::Fault;
use super::inputs::Inputs;
use super::plan::{Plan, TrainPlan};
use super::state::State;
use crate::error::{Error, ErrorKind, Result};
use crate::report::{HTML_NAME, JSON_NAME};
use crate::sink::{self, Manifest, TOKENIZER_FOLDER};
use crate::vocab::{self, TrainingRecord, Vocabulary, WriteOptions};

/// Finds what can be wrong with a request, once its inputs are open and before anything is written.
///
/// # Errors
/// What is wrong.
pub(super) fn check(plan: &Plan, inputs: &Inputs<'_>, given: Option<&Vocabulary>) -> Result<()> {
    if plan.train.is_some() && plan.encode.is_some() && inputs.read_once() {
        return Err(Error::new(ErrorKind::Usage, Fault::ReadTwice).with_help("save it to a file first"));
    }
    check_apart(&plan.output, inputs)?;
    let Some(encode) = &plan.encode else { return Ok(()) };
    sink::output_schema(&inputs.columns()?)?;
    given.map_or(Ok(()), |vocabulary| added_tokens(encode, vocabulary).map(|_| ()))
}

/// Finds what is wrong with the place of a job's results, which is known before its inputs are open.
///
/// # Errors
/// They would lie in a folder that is input, replace the report of a training, or a tokenizer of others.
pub(super) fn check_place(plan: &Plan) -> Result<()> {
    let folder = &plan.output;
    check_folder(folder)?;
    check_outside(plan, folder)?;
    if is_result(folder) {
        return Ok(());
    }
    match &plan.train {
        Some(train) => check_replaced(train, State::read(folder, plan.split_name()).is_some(), None),
        None if TrainingRecord::path(folder).is_file() => {
            let fault = Fault::HoldsTokenizer { folder: folder.clone() };
            Err(Error::new(ErrorKind::Usage, fault).with_help("choose another folder for the results"))
        }
        None => Ok(()),
    }
}

/// Finds a file that a training would replace, and none has left: one has a record beside its tokenizer, and beside its
/// report in `reported`, if it makes one. Of what a job has begun all is its own.
///
/// # Errors
/// There is one, or a record cannot be read.
pub(super) fn check_replaced(train: &TrainPlan, begun: bool, reported: Option<&Path>) -> Result<()> {
    if begun {
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
            return Err(Error::new(ErrorKind::Usage, Fault::NotLearnedThere { path })
                .with_help("choose another folder, or move it away"));
        }
    }
    Ok(())
}

/// Finds a file where results go to a folder.
///
/// # Errors
/// There is one.
pub(super) fn check_folder(output: &Path) -> Result<()> {
    if output.exists() && !output.is_dir() {
        let fault = Fault::NoFolder { path: output.to_owned() };
        return Err(Error::new(ErrorKind::Usage, fault).with_help("name a folder for the results"));
    }
    Ok(())
}

/// Finds a source that is a folder in which results go, to a folder or a file: the same job again would find them among
/// its input.
///
/// # Errors
/// There is one.
pub(super) fn check_outside(plan: &Plan, output: &Path) -> Result<()> {
    let resolved = resolved(output);
    let holds =
        |uri: &&String| fs::canonicalize(uri).is_ok_and(|path| path.is_dir() && resolved.starts_with(path));
    match plan.sources.iter().map(|source| &source.uri).find(holds) {
        Some(uri) => {
            let fault = Fault::InputHoldsResults { uri: uri.clone(), folder: output.to_owned() };
            Err(Error::new(ErrorKind::Usage, fault).with_help(
                "choose a place outside of the input, or name the input's files by a pattern such as \"data/*.parquet\"",
            ))
        }
        None => Ok(()),
    }
}

/// A path that need not be there, with all links on the way to it followed.
fn resolved(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = |above: &Path| Some(fs::canonicalize(above).ok()?.join(whole.strip_prefix(above).ok()?));
    whole.ancestors().find_map(there).unwrap_or_else(|| whole.clone())
}

/// Whether a folder holds what a job came to.
pub(super) fn is_result(folder: &Path) -> bool {
    matches!(Manifest::read(folder), Ok(Some(_)))
}

/// The folder that holds what a job came to, if this is one or the one of its tokenizer, or of a smaller one.
pub(super) fn result_of(folder: &Path) -> Option<PathBuf> {
    let tokenizer = |folder: &&Path| folder.file_name().is_some_and(|name| name == TOKENIZER_FOLDER);
    let above = folder.ancestors().take(2).find(tokenizer).and_then(Path::parent);
    [Some(folder), above].into_iter().flatten().find(|folder| is_result(folder)).map(Path::to_owned)
}

/// Finds input that is one of the data files that an earlier job left where results go: it would be removed.
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
            let fault = Fault::AmongResults { name, folder: output.to_owned() };
            Err(Error::new(ErrorKind::Usage, fault).with_help("choose another folder for the results"))
        }
        None => Ok(()),
    }
}
