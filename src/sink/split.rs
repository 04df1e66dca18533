//! Several splits of one dataset in one output folder.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::dataset::OTHER_SPLIT;
use super::fault::Fault;
use super::finished;
use super::folder::{FINISHED_JOURNAL, JOB, STATE_FOLDER};
use super::manifest::{Manifest, OutputFile, SplitJob};
use super::plan::DATA_FOLDER;
use super::read::{TokenReader, columns_of};
use super::schema::{Declaration, FileShape};
use crate::error::{Error, ErrorKind, Result};
use crate::hashing::Set;

/// Bytes that are read of a file that should hold a job, which has some hundred.
const MOST_BYTES: u64 = 1 << 20;

/// What the folder begins with that has the state of a split which is not the first of its output.
const FOLDER: &str = "split-";

/// The name of the split that a data file belongs to, by its path below the output folder.
pub(super) fn split_of(name: &str) -> &str {
    let file = name.strip_prefix(DATA_FOLDER).map_or(name, |file| file.trim_start_matches('/'));
    match file.split_once('-') {
        Some((split, _)) => split,
        // The one file of a split is called by it alone.
        None => file.rsplit_once('.').map_or("", |(split, _)| split),
    }
}

/// The folder with the state of a split: that of the output for its first split, one within it for another.
pub(crate) fn state_of(output: &Path, split: Option<&str>) -> PathBuf {
    let state = output.join(STATE_FOLDER);
    match split.filter(|split| first_split(output).is_some_and(|first| first != *split)) {
        Some(split) => state.join(format!("{FOLDER}{split}")),
        None => state,
    }
}

/// The split that the state of an output is of, as its job says; where that does not, as the data files do.
fn first_split(output: &Path) -> Option<String> {
    let state = output.join(STATE_FOLDER);
    let mut text = Vec::new();
    std::fs::File::open(state.join(JOB)).ok()?.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    let job: Value = serde_json::from_slice(&text).ok()?;
    if let Some(split) = job.get("split").and_then(Value::as_str) {
        return Some(split.to_owned());
    }
    let noted = finished::noted(&state.join(FINISHED_JOURNAL)).unwrap_or_default();
    let first = noted.into_iter().next();
    first.map(|name| split_of(&name).to_owned()).filter(|split| !split.is_empty())
}

/// The folders with the state of all splits.
pub(super) fn states(output: &Path) -> Result<Vec<PathBuf>> {
    let state = output.join(STATE_FOLDER);
    let mut found = super::folder::entries(&state)?;
    found.retain(|path| {
        path.is_dir() && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(FOLDER))
    });
    found.push(state);
    Ok(found)
}

/// The names of all files that were noted, whatever split they are of.
pub(super) fn noted(output: &Path) -> Result<Set<String>> {
    let mut known = Set::default();
    for state in states(output)? {
        known.extend(finished::noted(&state.join(FINISHED_JOURNAL))?);
    }
    Ok(known)
}

impl Manifest {
    /// The names of its splits, in their order.
    pub fn split_names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for file in &self.files {
            let name = split_of(&file.name);
            if names.last() != Some(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The fingerprint of the job that wrote a split; that of the whole output without one.
    pub fn job_of(&self, split: Option<&str>) -> Option<&str> {
        let Some(split) = split else { return Some(&self.job) };
        match self.splits.as_slice() {
            [] => {
                let own = self.files.first().is_none_or(|file| split_of(&file.name) == split);
                own.then_some(&*self.job)
            }
            splits => splits.iter().find(|part| part.name == split).map(|part| &*part.job),
        }
    }

    /// What it says of one split alone; `None` if it has no such split.
    pub fn of_split(&self, split: Option<&str>) -> Option<Manifest> {
        match split {
            None => Some(self.clone()),
            Some(split) => self
                .job_of(Some(split))
                .and_then(|_| self.only(|name| name == split).or_else(|| Some(self.clone()))),
        }
    }

    /// What it says of the other splits; `None` if there are none.
    pub(crate) fn without_split(&self, split: Option<&str>) -> Option<Manifest> {
        self.only(|name| split.is_some_and(|split| split != name))
    }

    fn only(&self, keep: impl Fn(&str) -> bool) -> Option<Manifest> {
        let files: Vec<OutputFile> =
            self.files.iter().filter(|file| keep(split_of(&file.name))).cloned().collect();
        let first = split_of(&files.first()?.name).to_owned();
        let (mut inputs, mut splits, mut at) = (Vec::new(), Vec::new(), 0);
        for part in &self.splits {
            let end = (at + part.inputs).min(self.inputs.len());
            if keep(&part.name) {
                inputs.extend_from_slice(&self.inputs[at..end]);
                splits.push(part.clone());
            }
            at = end;
        }
        if self.splits.is_empty() {
            inputs.clone_from(&self.inputs);
        }
        let job = self.job_of(Some(&first)).unwrap_or(&self.job).to_owned();
        if splits.len() < 2 {
            splits.clear();
        }
        Some(Manifest { job, inputs, files, splits, ..self.clone() })
    }

    /// Adds a split to the others of an output.
    pub(crate) fn joined(self, others: Option<Manifest>) -> Manifest {
        let Some(others) = others else { return self };
        let part = |manifest: &Manifest| match manifest.splits.as_slice() {
            [] => vec![SplitJob {
                name: manifest.split_names().first().copied().unwrap_or_default().to_owned(),
                job: manifest.job.clone(),
                inputs: manifest.inputs.len(),
            }],
            splits => splits.to_vec(),
        };
        let splits = [part(&others), part(&self)].concat();
        let tokenizer_files =
            if self.tokenizer_files.is_empty() { others.tokenizer_files } else { self.tokenizer_files };
        let own: Set<&str> = self.other_files.iter().map(|file| &*file.name).collect();
        let mut other_files = others.other_files;
        other_files.retain(|file| !own.contains(&*file.name));
        Manifest {
            other_files: [&*other_files, &*self.other_files].concat(),
            reports: joined_names(others.reports, &self.reports),
            inputs: [others.inputs, self.inputs].concat(),
            files: [others.files, self.files].concat(),
            tokenizer_files,
            splits,
            ..self
        }
    }
}

fn joined_names(mut names: Vec<String>, more: &[String]) -> Vec<String> {
    names.retain(|name| !more.contains(name));
    [&*names, more].concat()
}

/// Whether files say the same of their tokens, whatever recipe and version made them.
pub(super) fn same_tokens(one: Option<&Declaration>, other: Option<&Declaration>) -> bool {
    let plain = |declaration: &Declaration| Declaration {
        recipe: String::new(),
        tool_version: String::new(),
        ..declaration.clone()
    };
    one.map(plain) == other.map(plain)
}

/// Finds what keeps a split from lying beside the others: whoever loads a dataset expects the same of all its splits.
pub(super) fn check_fits(
    output: &Path,
    others: &Manifest,
    declaration: &Declaration,
    shape: &FileShape,
) -> Result<()> {
    let Some(file) = others.files.first() else { return Ok(()) };
    let refused = |what| {
        let fault =
            Fault::OtherSplit { folder: output.to_owned(), split: split_of(&file.name).to_owned(), what };
        Err(Error::new(ErrorKind::Usage, fault).with_help(OTHER_SPLIT))
    };
    if others.tokenizer != declaration.tokenizer {
        return refused("another tokenizer");
    }
    let path = output.join(&file.name);
    let is_flat = path.extension().is_some_and(|extension| extension == "bin");
    if is_flat != shape.flat.is_some() {
        return refused("another format");
    }
    let reader = TokenReader::open(&path);
    let declared = if is_flat { others.declaration.clone() } else { reader?.declaration().cloned() };
    if !same_tokens(declared.as_ref(), Some(declaration)) {
        return refused("other tokens around documents, another policy for special tokens, or other packing");
    }
    if !is_flat && columns_of(&path)? != *shape.schema.fields() {
        return refused("other columns");
    }
    Ok(())
}
