use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::fault::Fault;
use super::manifest::{MANIFEST, Manifest};
use super::plan::{DATA_FOLDER, TOKENIZER_FOLDER};
use super::split::{noted, split_of, state_of};
use crate::error::{Error, ErrorKind, Result};
use crate::files::{self, Claim, IfHeld, Pulse, remove};
use crate::observer::{Observer, Silent};

/// The folder within an output folder for the lock, scratch files and state.
pub const STATE_FOLDER: &str = ".tokenmill";

/// In that folder, what the output is going to hold. A run writes it before anything outside of that folder.
pub(crate) const JOB: &str = "job.json";

/// Which row groups there are of a file that is not finished.
const UNFINISHED_JOURNAL: &str = "unfinished.journal";

/// Which data files have been written to their end.
pub(super) const FINISHED_JOURNAL: &str = "finished.journal";

/// The dataset card.
pub(crate) const CARD: &str = "README.md";

/// What an output has beside its folders. The last two are the report, which is written by others.
const BESIDE: [&str; 4] = [CARD, MANIFEST, "report.json", "report.html"];

/// An output folder that this process alone may write, until this value is dropped.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
    /// The split that is written; without one all data files are of this run.
    split: Option<String>,
    state: PathBuf,
    claim: Claim,
    /// Held for its lock.
    _lock: File,
}

/// What the name of the data file that is being written begins with; the number of the run that writes it follows.
const UNFINISHED: &str = "unfinished-";

impl OutputFolder {
    /// Takes a folder for writing: makes it if it is not there, locks it, and removes the unfinished
    /// files that a killed run left.
    ///
    /// # Errors
    /// The folder cannot be made or written, another process holds it, its manifest cannot be read, or it holds
    /// a dataset card, report, manifest or data files that are not this program's ([`ErrorKind::Usage`]): those would be
    /// overwritten, removed, or read as part of the output. Its state or its data lie behind a link
    /// ([`ErrorKind::Usage`]).
    pub fn open(path: impl Into<PathBuf>) -> Result<OutputFolder> {
        OutputFolder::take(path, None, &Silent)
    }

    /// The same. A process of another machine that gives no sign of life is waited for, which takes up to a minute:
    /// `observer` is told so. With the name of a split, what is there of other splits stays.
    ///
    /// # Errors
    /// As of [`open`](OutputFolder::open); the observer says stop.
    pub fn take(
        path: impl Into<PathBuf>,
        split: Option<&str>,
        observer: &dyn Observer,
    ) -> Result<OutputFolder> {
        OutputFolder::take_with(path.into(), split, Pulse::default(), observer)
    }

    /// The same, with a shorter patience.
    #[cfg(test)]
    pub(super) fn take_after(path: &Path, dead_after: std::time::Duration) -> Result<OutputFolder> {
        let pulse = Pulse { dead_after, every: dead_after / 10 };
        OutputFolder::take_with(path.to_owned(), None, pulse, &Silent)
    }

    /// What no other run of the folder has.
    #[cfg(test)]
    pub(super) fn number(&self) -> u64 {
        self.claim.number()
    }

    fn take_with(
        path: PathBuf,
        split: Option<&str>,
        pulse: Pulse,
        observer: &dyn Observer,
    ) -> Result<OutputFolder> {
        let state = path.join(STATE_FOLDER);
        refuse_links(&path)?;
        refuse_foreign(&path)?;
        fs::create_dir_all(&state).map_err(|cause| Error::io("create", &state, cause))?;
        let (lock, locked) = lock(&path, &state.join("lock"))?;
        let claim = Claim::take(&state, locked, IfHeld::Refuse, pulse, observer)?;
        write_holder(&lock, &state.join("lock"))?;
        let (split, state) = (split.map(str::to_owned), state_of(&path, split));
        files::refuse_link(&state)?;
        fs::create_dir_all(&state).map_err(|cause| Error::io("create", &state, cause))?;
        entries(&state)?.iter().try_for_each(|path| files::refuse_link(path))?;
        let report = split.as_ref().map(|split| format!("report-{split}.html"));
        let report = report.filter(|name| !state.join(JOB).exists() && path.join(name).exists());
        if let Some(name) = report {
            let fault = Fault::ForeignFolder { folder: path, name };
            return Err(
                Error::new(ErrorKind::Usage, fault).with_help("move it away, or choose another folder")
            );
        }
        let folder = OutputFolder { path, split, state, claim, _lock: lock };
        folder.take_unfinished()?;
        folder.refuse_unknown_data()?;
        folder.remove_unfinished()?;
        Ok(folder)
    }

    /// Finds what [`open`](OutputFolder::open) would fail of, before long work that the folder is opened after. Leaves
    /// nothing behind.
    ///
    /// # Errors
    /// As of [`open`](OutputFolder::open).
    pub fn check(path: &Path) -> Result<()> {
        refuse_links(path)?;
        refuse_foreign(path)?;
        let state = path.join(STATE_FOLDER);
        let held = state.join("lock");
        if !held.exists() {
            return files::check_writable(path);
        }
        let (_lock, locked) = lock(path, &held)?;
        Claim::check(&state, locked)
    }

    /// Finds whether another process has taken the folder, because this one gave no sign of life for a minute, as when its
    /// machine was suspended.
    pub(crate) fn check_held(&self) -> Result<()> {
        self.claim.check_held()
    }

    /// Gives the unfinished data file of the run before the name of this run's. If that run may wake up and write on, what
    /// it has open is left to it.
    fn take_unfinished(&self) -> Result<()> {
        let state = self.state();
        for path in entries(&state)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !name.starts_with(UNFINISHED) && name != "unfinished" {
                continue;
            }
            if self.claim.follows_ended() {
                let to = self.unfinished();
                fs::rename(&path, &to).map_err(|cause| Error::io("write", to, cause))?;
            } else {
                remove(&path)?;
            }
        }
        if !self.claim.follows_ended() {
            for journal in [self.finished_journal(), self.unfinished_journal()] {
                if let Ok(text) = fs::read(&journal) {
                    files::publish_bytes_within(&journal, &text)?;
                }
            }
        }
        Ok(())
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder for scratch files and state, which no reader of the data sees.
    pub fn state(&self) -> PathBuf {
        self.state.clone()
    }

    /// The split that is written, if it may not be the only one.
    pub fn split(&self) -> Option<&str> {
        self.split.as_deref()
    }

    /// The split that is written, if another one was there first.
    pub(crate) fn later_split(&self) -> Option<&str> {
        self.split().filter(|_| self.state != self.path.join(STATE_FOLDER))
    }

    /// What the manifest says of other splits, if there are any.
    ///
    /// # Errors
    /// It cannot be read, or is not as it was written.
    pub(crate) fn others(&self) -> Result<Option<Manifest>> {
        match Manifest::read(&self.path)?.and_then(|manifest| manifest.without_split(self.split())) {
            Some(others) => Manifest::read_checked(&self.path).map(|_| Some(others)),
            None => Ok(None),
        }
    }

    fn is_own(&self, name: &str) -> bool {
        self.split().is_none_or(|split| split == split_of(name))
    }

    /// Removes all that an earlier output left, so that none of it is taken for part of the next. What is of another split
    /// stays.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn clear_data(&self) -> Result<()> {
        self.remove_manifest()?;
        self.remove_data(|_| false)?;
        for path in [self.finished_journal(), self.unfinished_journal(), self.unfinished()] {
            remove(&path)?;
        }
        Ok(())
    }

    /// Removes the manifest. It goes before the data files: while it stands it vouches for them.
    /// That of other splits takes its place.
    pub(super) fn remove_manifest(&self) -> Result<()> {
        let Some(manifest) = Manifest::read(&self.path)? else { return Ok(()) };
        match manifest.without_split(self.split()) {
            Some(others) if others.files == manifest.files => Ok(()),
            Some(others) => others.write(&self.path),
            None => remove(&self.path.join(MANIFEST)),
        }
    }

    /// Removes data files but those to be kept, by their paths below the folder.
    pub(super) fn remove_data(&self, keep: impl Fn(&str) -> bool) -> Result<()> {
        for path in data_files(&self.path)? {
            let name = data_name(&path);
            if self.is_own(&name) && !keep(&name) {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// The data file that is being written.
    pub(crate) fn unfinished(&self) -> PathBuf {
        self.state().join(format!("{UNFINISHED}{}", self.claim.number()))
    }

    /// Which row groups it has.
    pub(super) fn unfinished_journal(&self) -> PathBuf {
        self.state().join(UNFINISHED_JOURNAL)
    }

    /// Which data files have been written to their end.
    pub(super) fn finished_journal(&self) -> PathBuf {
        self.state().join(FINISHED_JOURNAL)
    }

    /// Finds a data file that neither the manifest lists nor a run has noted: it is somebody else's, and would be
    /// removed with what is left of earlier outputs.
    fn refuse_unknown_data(&self) -> Result<()> {
        let mut known = noted(&self.path)?;
        for file in Manifest::read(&self.path)?.into_iter().flat_map(|manifest| manifest.files) {
            known.extend(file.names().cloned());
        }
        // The index of a file gets its name before the file is noted.
        let draft = self.unfinished().exists();
        let is_early_index = |path: &Path| draft && is_index(path) && !path.with_extension("bin").exists();
        for path in data_files(&self.path)? {
            let name = data_name(&path);
            if !known.contains(&name) && !is_early_index(&path) {
                let fault = Fault::ForeignFolder { folder: self.path.clone(), name };
                return Err(
                    Error::new(ErrorKind::Usage, fault).with_help("move it away, or choose another folder")
                );
            }
        }
        Ok(())
    }

    fn remove_unfinished(&self) -> Result<()> {
        let below = ["", DATA_FOLDER, STATE_FOLDER, TOKENIZER_FOLDER];
        let mut folders: Vec<PathBuf> = below.map(|below| self.path.join(below)).into();
        folders.push(self.state());
        // The smaller tokenizers of a training lie in folders within that of the largest.
        folders.extend(entries(&self.path.join(TOKENIZER_FOLDER))?.into_iter().filter(|path| path.is_dir()));
        for folder in folders {
            for path in entries(&folder)? {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                // Beside the folders others may be writing files at this moment.
                let is_ours =
                    |of: &str| folder != self.path || BESIDE.contains(&of) || of.starts_with("report-");
                if files::unfinished(&name).is_some_and(is_ours) && !path.is_dir() {
                    remove(&path)?;
                }
            }
        }
        Ok(())
    }
}

/// The data files of an output and what goes beside them, by name.
pub(crate) fn data_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = entries(&folder.join(DATA_FOLDER))?;
    let ours = ["parquet", "bin", "idx"].map(OsStr::new);
    files.retain(|path| path.extension().is_some_and(|extension| ours.contains(&extension)));
    files.sort();
    Ok(files)
}

/// A data file's path below its output folder.
pub(super) fn data_name(path: &Path) -> String {
    format!("{DATA_FOLDER}/{}", path.file_name().unwrap_or_default().to_string_lossy())
}

fn is_index(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "idx")
}

/// Whether an output folder has data files, or a part of one that can be gone on with.
///
/// # Errors
/// It cannot be read.
pub(crate) fn holds_data(folder: &Path, split: Option<&str>) -> Result<bool> {
    let journal = state_of(folder, split).join(UNFINISHED_JOURNAL);
    let begun = fs::metadata(journal).is_ok_and(|journal| journal.len() > 0);
    Ok(begun || !split_files(folder, split)?.is_empty())
}

/// The data files of a split, by their paths below the output folder; of all splits without one.
pub(crate) fn split_files(folder: &Path, split: Option<&str>) -> Result<Vec<String>> {
    let mut names: Vec<String> = data_files(folder)?.iter().map(|path| data_name(path)).collect();
    names.retain(|name| split.is_none_or(|split| split == split_of(name)));
    Ok(names)
}

/// What lies in a folder; nothing if there is no such folder.
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |cause| Error::io("read", folder, cause);
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect(),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(cause) => Err(failed(cause)),
    }
}

/// An output is known by what its state folder says of a run or, if it was copied without that, by its manifest.
fn refuse_foreign(folder: &Path) -> Result<()> {
    let state = folder.join(STATE_FOLDER);
    let begun = [JOB, UNFINISHED_JOURNAL, FINISHED_JOURNAL].iter().any(|name| state.join(name).exists());
    if begun || matches!(Manifest::read(folder), Ok(Some(_))) {
        return Ok(());
    }
    let fixed = BESIDE.map(|name| folder.join(name)).into_iter().filter(|path| path.exists());
    if let Some(path) = fixed.chain(data_files(folder)?).next() {
        let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        let fault = Fault::ForeignFolder { folder: folder.to_path_buf(), name };
        return Err(Error::new(ErrorKind::Usage, fault).with_help("choose a new or an empty folder"));
    }
    Ok(())
}

/// Finds a link where the state of an output, or the folder of its data, is to be.
fn refuse_links(folder: &Path) -> Result<()> {
    let state = folder.join(STATE_FOLDER);
    files::refuse_link(&state)?;
    files::refuse_link(&folder.join(DATA_FOLDER))?;
    entries(&state)?.iter().try_for_each(|path| files::refuse_link(path))
}

/// Takes the lock, and gives whether it is locked: some network folders know no locks.
fn lock(folder: &Path, path: &Path) -> Result<(File, bool)> {
    let mut options = OpenOptions::new();
    let options = files::without_links(options.read(true).write(true).create(true).truncate(false));
    let file = options.open(path).map_err(|cause| Error::io("create", path, cause))?;
    match file.try_lock() {
        Ok(()) => Ok((file, true)),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Only digits count: the file may be anything.
            let _ = (&file).take(20).read_to_string(&mut holder);
            let number: String = holder.chars().take_while(char::is_ascii_digit).collect();
            let holder = if number.is_empty() { number } else { format!(" (process {number})") };
            let fault = Fault::Locked { folder: folder.to_path_buf(), holder };
            Err(Error::new(ErrorKind::Failed, fault)
                .with_help("wait until it has ended, or choose another folder"))
        }
        Err(TryLockError::Error(_)) => Ok((file, false)),
    }
}

/// Writes this process's number into the lock, for those who come too late.
fn write_holder(mut lock: &File, path: &Path) -> Result<()> {
    let written = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
    written.map_err(|cause| Error::io("write", path, cause))
}
