//! Files that an earlier run left behind. Whatever is damaged in them, a run that accepts them must produce the
//! same output.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tokenmill::observer::Silent;
use tokenmill::run::{JobOptions, Plan, job, plan, recipe};
use tokenmill::source::OpenContext;

use super::readers::ENVIRONMENT;
use super::{Result, Target};

const RECIPE: &str = r#"
[[source]]
uri = "demo:verse?lines=60&seed=1"
column = "line"
[[source]]
uri = "demo:verse?lines=40&seed=2"
column = "line"
[train]
split = "gpt2"
vocab_size = 280
[encode]
eos = "<|x|>"
[output]
file_text_bytes = 1000
"#;

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A target for each state file of a run that ended before its last data file was written.
pub(crate) fn targets(out: &Path) -> Result<Vec<Target>> {
    let text = RECIPE
        .replace("vocab_size = 280", "vocab_size = 280\nspecial_tokens = [\"<|x|>\"]")
        .replace("[output]", &format!("[output]\ndir = {out:?}"));
    let planned = plan(&recipe::read("state.toml", &text)?, &ENVIRONMENT)?;
    job(&planned, &JobOptions::default(), &OpenContext::new(&Silent))?;
    let whole = files(out)?;
    let mut left = whole.clone();
    left.remove(Path::new("manifest.json"));
    let data = |path: &PathBuf| path.starts_with("data");
    let last = left.keys().rfind(|path| data(path)).cloned().ok_or("no data files")?;
    left.remove(&last);
    let mut targets = Vec::new();
    let mut names = BTreeSet::new();
    for (path, bytes) in left.clone() {
        // One file of each kind, because the counts of the two sources are alike.
        // An owner file says who holds the folder, and nothing about the output. A damaged one makes a run wait a
        // minute for a sign of life.
        if !is_state(&path) || label(&path).starts_with("owner-") || !names.insert(label(&path)) {
            continue;
        }
        let mut left = left.clone();
        // A run reads the counts only if the learned merges are missing.
        if path.components().count() > 2 {
            left.remove(Path::new(".tokenmill/learned.journal"));
        }
        let (planned, out, whole) = (planned.clone(), out.to_owned(), whole.clone());
        targets.push(Target::new(format!("state {}", label(&path)), "state", vec![bytes], move |damaged| {
            let mut left = left.clone();
            left.insert(path.clone(), fs::read(damaged).unwrap_or_default());
            resumes(&planned, &out, &left, &whole)
        }));
    }
    Ok(targets)
}

fn is_state(path: &Path) -> bool {
    path.starts_with(".tokenmill") && !path.ends_with("lock")
}

/// A name that does not depend on the hashes in file names.
fn label(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match path.components().count() {
        2 => name.into_owned(),
        _ => format!("counts.{}", path.extension().unwrap_or_default().to_string_lossy()),
    }
}

/// Whether a run continues from the files that are left. If it does, its output must be complete and unchanged.
fn resumes(planned: &Plan, out: &Path, left: &Files, whole: &Files) -> bool {
    put(out, left).expect("a folder to write to");
    let outcome = job(planned, &JobOptions::default(), &OpenContext::new(&Silent));
    let told = |path: &&PathBuf| !is_state(path) && !path.to_string_lossy().starts_with("report");
    if outcome.is_ok() {
        let found = files(out).expect("the output");
        for path in whole.keys().filter(told) {
            assert!(found.get(path) == whole.get(path), "{} is another", path.display());
        }
    }
    outcome.is_ok()
}

/// All files below a folder.
fn files(folder: &Path) -> Result<Files> {
    let (mut found, mut folders) = (Files::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(folder)?.to_owned(), fs::read(&path)?);
            }
        }
    }
    Ok(found)
}

fn put(folder: &Path, files: &Files) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    for (path, bytes) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, bytes)?;
    }
    Ok(())
}
