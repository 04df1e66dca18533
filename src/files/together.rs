//! Groups of files that belong together. Readers find either a complete group or none.

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::{Pending, folder_of, remove, remove_stale, sync_folder};
use crate::error::{Error, Result};

/// Files that are written and do not have their final names yet.
///
/// A group has a first file, by which readers find it, and other files that they read with it. Before a group
/// replaces another one, the old first file is removed; the new first file gets its name last. So whenever the
/// process ends, an existing first file has its own other files beside it.
#[derive(Debug, Default)]
pub(crate) struct Together {
    replaced: Vec<PathBuf>,
    others: Vec<Pending>,
    firsts: Vec<Pending>,
}

/// One step of naming the files.
enum Step {
    Remove(PathBuf),
    Name(Pending),
    Sync(PathBuf),
}

impl Together {
    /// Adds a file that gets its name before all groups.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn add_before(&mut self, path: &Path, bytes: &[u8]) -> Result<()> {
        self.others.insert(0, written(path, bytes)?);
        Ok(())
    }

    /// Adds a group, with its first file first. Unchanged groups keep their first file at every moment.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn add_group(&mut self, files: &[(PathBuf, Vec<u8>)]) -> Result<()> {
        let same = |(path, bytes): &(PathBuf, Vec<u8>)| fs::read(path).is_ok_and(|found| found == *bytes);
        for (number, (path, bytes)) in files.iter().enumerate() {
            let pending = written(path, bytes)?;
            if number > 0 {
                self.others.push(pending);
                continue;
            }
            if path.symlink_metadata().is_ok() && !files.iter().all(same) {
                self.replaced.push(path.clone());
            }
            self.firsts.push(pending);
        }
        Ok(())
    }

    /// Gives all files their final names.
    ///
    /// # Errors
    /// A file cannot be removed or renamed.
    pub(crate) fn commit(self) -> Result<()> {
        self.steps().into_iter().try_for_each(Step::take)
    }

    /// Returns the steps in their order: old first files are removed, other files are named, first files are named.
    fn steps(self) -> VecDeque<Step> {
        let folder = self.replaced.first().map(|path| Step::Sync(folder_of(path).to_owned()));
        let removed = self.replaced.into_iter().map(Step::Remove).chain(folder);
        removed.chain(self.others.into_iter().chain(self.firsts).map(Step::Name)).collect()
    }
}

impl Step {
    fn take(self) -> Result<()> {
        match self {
            Step::Remove(path) => remove(&path),
            Step::Name(pending) => pending.commit(),
            Step::Sync(folder) => sync_folder(&folder),
        }
    }
}

/// Writes and syncs a file without its final name.
fn written(path: &Path, bytes: &[u8]) -> Result<Pending> {
    remove_stale(path);
    let mut pending = Pending::create_within(path)?;
    let synced = pending.write_all(bytes).and_then(|()| pending.file_mut().sync_all());
    synced.map_err(|cause| Error::io("write", path, cause))?;
    Ok(pending)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(folder: &Path, name: &str, version: &str) -> Vec<(PathBuf, Vec<u8>)> {
        ["first", "second"].map(|file| (folder.join(format!("{name}.{file}")), version.into())).into()
    }

    /// Checks this after every number of steps after which the process could end.
    #[test]
    fn a_first_file_has_its_own_others_at_every_moment() {
        let mut seen = Vec::new();
        for steps in 0..10 {
            let folder = tempfile::tempdir().expect("a folder");
            let made = |version: &str| {
                let mut together = Together::default();
                together.add_before(&folder.path().join("record"), version.as_bytes()).expect("room");
                for name in ["a", "b"] {
                    together.add_group(&group(folder.path(), name, version)).expect("room");
                }
                together
            };
            made("old").commit().expect("a folder");
            made("new").steps().into_iter().take(steps).try_for_each(Step::take).expect("a folder");
            let read = |name: String| fs::read_to_string(folder.path().join(name)).ok();
            for name in ["a", "b"] {
                if let Some(first) = read(format!("{name}.first")) {
                    assert_eq!(read(format!("{name}.second")), Some(first.clone()), "after {steps} steps");
                    seen.push(first);
                }
            }
        }
        assert!(seen.contains(&"old".to_owned()) && seen.contains(&"new".to_owned()));
    }

    /// A group that is replaced by an equal one exists at every moment.
    #[test]
    fn what_is_the_same_is_there_at_every_moment() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = group(folder.path(), "a", "same");
        for _ in 0..2 {
            let mut together = Together::default();
            together.add_group(&files).expect("room");
            assert!(together.replaced.is_empty());
            together.commit().expect("a folder");
        }
    }
}
