//! Several splits of one dataset in one output folder: which files and states belong to which split, and how
//! manifests are joined.

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
use crate::base::digest::JSON_CHECKSUM;
use crate::base::seeded_hash::Set;
use crate::error::{Error, ErrorKind, Result};

/// Bytes of a job file that are read (1 MiB). Such a file has a few hundred.
const MOST_BYTES: u64 = 1 << 20;

/// The beginning of the name of the state folder for a split that is not the first of its output.
const FOLDER: &str = "split-";

/// The name of the split of a data file. `name` is its path relative to the output folder, or its file name.
pub(super) fn split_of(name: &str) -> &str {
    let file = name.strip_prefix(DATA_FOLDER).map_or(name, |file| file.trim_start_matches('/'));
    match file.split_once('-') {
        Some((split, _)) => split,
        // If a split has a single file, the file is named by the split alone.
        None => file.rsplit_once('.').map_or("", |(split, _)| split),
    }
}

/// The state folder of a split: that of the output for its first split, a folder within it for any other.
pub(crate) fn state_of(output: &Path, split: Option<&str>) -> PathBuf {
    let state = output.join(STATE_FOLDER);
    match split.filter(|split| first_split(output).is_some_and(|first| first != *split)) {
        Some(split) => state.join(format!("{FOLDER}{split}")),
        None => state,
    }
}

/// The first split of an output. Its job file names it, or else the journal of completed data files shows it.
fn first_split(output: &Path) -> Option<String> {
    let state = output.join(STATE_FOLDER);
    let mut text = Vec::new();
    std::fs::File::open(state.join(JOB)).ok()?.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    // A changed name would put the state and the reports elsewhere, so only one with its checksum is believed.
    if JSON_CHECKSUM.holds(&text) == Some(true) {
        let job: Value = serde_json::from_slice(&text).ok()?;
        if let Some(split) = job.get("split").and_then(Value::as_str) {
            return Some(split.to_owned());
        }
    }
    let noted = finished::noted(&state.join(FINISHED_JOURNAL)).unwrap_or_default();
    let first = noted.into_iter().next();
    first.map(|name| split_of(&name).to_owned()).filter(|split| !split.is_empty())
}

/// The state folders of all splits.
pub(super) fn states(output: &Path) -> Result<Vec<PathBuf>> {
    let state = output.join(STATE_FOLDER);
    let mut found = super::folder::entries(&state)?;
    found.retain(|path| {
        path.is_dir() && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(FOLDER))
    });
    found.push(state);
    Ok(found)
}

/// The names of all data files in the journals of all splits.
pub(super) fn noted(output: &Path) -> Result<Set<String>> {
    let mut known = Set::default();
    for state in states(output)? {
        known.extend(finished::noted(&state.join(FINISHED_JOURNAL))?);
    }
    Ok(known)
}

impl Manifest {
    /// The names of the splits, in the order of their files.
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

    /// The fingerprint of the job that wrote a split, or of the whole output if `split` is `None`. Returns `None` if
    /// the manifest has no such split.
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

    /// The manifest of one split alone; `None` if the manifest has no such split. If `split` is `None`, returns all
    /// of it.
    pub fn of_split(&self, split: Option<&str>) -> Option<Manifest> {
        match split {
            None => Some(self.clone()),
            Some(split) => self
                .job_of(Some(split))
                .and_then(|_| self.only(|name| name == split).or_else(|| Some(self.clone()))),
        }
    }

    /// The manifest without one split; `None` if no split remains.
    pub(crate) fn without_split(&self, split: Option<&str>) -> Option<Manifest> {
        self.only(|name| split.is_some_and(|split| split != name))
    }

    /// The manifest of the splits for which `keep` returns true; `None` if they have no files.
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

    /// Joins the manifest of a split with that of the other splits of an output. Files of both are listed once, as
    /// this one has them.
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

/// Appends names that are not in a list yet, and moves those that are to its end.
fn joined_names(mut names: Vec<String>, more: &[String]) -> Vec<String> {
    names.retain(|name| !more.contains(name));
    [&*names, more].concat()
}

/// Whether two declarations describe the same tokens, whatever the recipe and the version of the program.
pub(super) fn same_tokens(one: Option<&Declaration>, other: Option<&Declaration>) -> bool {
    let plain = |declaration: &Declaration| Declaration {
        recipe: String::new(),
        tool_version: String::new(),
        ..declaration.clone()
    };
    one.map(plain) == other.map(plain)
}

/// Checks that a split fits the other splits: readers expect the same of all splits of a dataset.
///
/// # Errors
/// Something differs ([`ErrorKind::Usage`]), or a file of another split cannot be read.
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
        return refused("other BOS or EOS tokens, another policy for special tokens, or other packing");
    }
    if !is_flat && columns_of(&path)? != *shape.schema.fields() {
        return refused("other columns");
    }
    Ok(())
}
