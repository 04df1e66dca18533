//! Takes an output folder for writing: locks it, refuses files of others, and finds what earlier runs left.
//!
//! A file belongs to this program if the manifest or a journal lists it. Any other file in a place where the output
//! would have one is refused, so that nothing of others is overwritten, removed, or read as data.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::layout::{
    CARD_FILE, DATA_FOLDER, MANIFEST, STATE_FOLDER, TOKENIZER_FOLDER, data_files, data_name, entries,
    is_index, split_of,
};
use super::manifest::Manifest;
use super::state_folder::{FILE_JOURNAL, JOB_FILE, ROW_GROUP_JOURNAL, recorded_files, state_of};
use crate::base::atomic_file::{self, remove};
use crate::base::folder_lock::{Claim, Heartbeat, IfHeld};
use crate::error::{Error, Result};
use crate::observer::{Observer, Silent};

/// The files of an output besides its folders. The last two are the report, which another module writes.
const ROOT_FILES: [&str; 4] = [CARD_FILE, MANIFEST, "report.json", "report.html"];

/// Whether an output has a file of this name besides its folders.
pub(crate) fn is_root_file(name: &str) -> bool {
    let is_report = name.starts_with("report-") && (name.ends_with(".html") || name.ends_with(".json"));
    ROOT_FILES.contains(&name) || (is_report && !name.contains('/'))
}

/// The beginning of the name of the data file that is being written. The number of the run follows. The number keeps
/// a run that lost the folder from writing to the file of its successor.
const INCOMPLETE: &str = "incomplete-";

/// An output folder that only this process may write, until this value is dropped.
///
/// A lock on a file keeps other processes out. Where file systems have no locks, or machines do not share them, a
/// file does so that the holder rewrites every few seconds.
///
/// Dropping the value releases the folder. Its files stay.
///
/// ```
/// use tokenmill::sink::OutputFolder;
///
/// # let temporary = tempfile::tempdir().expect("a folder");
/// # let path = temporary.path().join("out");
/// let folder = OutputFolder::open(&path)?;
/// assert!(OutputFolder::open(&path).is_err());
/// drop(folder);
/// assert!(OutputFolder::open(&path).is_ok());
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Debug)]
pub struct OutputFolder {
    /// The output folder.
    path: PathBuf,
    /// The split that is written. `None` if all data files belong to this run.
    split: Option<String>,
    /// The state folder of the split.
    state: PathBuf,
    /// The number of this run, and the signs of life where locks do not work.
    claim: Claim,
    /// The locked file, which stays open to keep the lock.
    _lock: File,
}

impl OutputFolder {
    /// Takes a folder for writing: creates it if it does not exist, locks it, and removes temporary files that an
    /// interrupted run left.
    ///
    /// # Errors
    /// - The folder cannot be created or written.
    /// - Another process holds it.
    /// - Its manifest cannot be read.
    /// - It holds a dataset card, report, manifest or data files of others, which would be overwritten, removed, or
    ///   read as part of the output ([`Usage`](crate::ErrorKind::Usage)).
    /// - The folder of its state or its data is a symbolic link ([`Usage`](crate::ErrorKind::Usage)).
    pub fn open(path: impl Into<PathBuf>) -> Result<OutputFolder> {
        OutputFolder::open_split(path, None, &Silent)
    }

    /// Takes a folder for writing, like [`open`](OutputFolder::open). If a process of another machine holds it
    /// without giving a sign of life, this waits up to a minute, and tells `observer` so. If `split` is given, files
    /// of other splits are kept.
    ///
    /// # Errors
    /// Those of [`open`](OutputFolder::open), or the observer asks to stop.
    pub fn open_split(
        path: impl Into<PathBuf>,
        split: Option<&str>,
        observer: &dyn Observer,
    ) -> Result<OutputFolder> {
        OutputFolder::open_with(path.into(), split, Heartbeat::default(), observer)
    }

    /// Takes a folder, and waits only this long for a sign of life.
    #[cfg(test)]
    pub(super) fn open_after(path: &Path, dead_after: std::time::Duration) -> Result<OutputFolder> {
        let pulse = Heartbeat { dead_after, every: dead_after / 10 };
        OutputFolder::open_with(path.to_owned(), None, pulse, &Silent)
    }

    /// The number of this run, which no other run of the folder has.
    #[cfg(test)]
    pub(super) fn number(&self) -> u64 {
        self.claim.number()
    }

    /// Takes a folder, and waits for other processes as `pulse` says.
    ///
    /// The order matters: what can be refused without writing comes first, and nothing of an earlier run changes
    /// before the folder is held.
    ///
    /// # Errors
    /// Those of [`open_split`](OutputFolder::open_split).
    fn open_with(
        path: PathBuf,
        split: Option<&str>,
        pulse: Heartbeat,
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
        atomic_file::refuse_link(&state)?;
        fs::create_dir_all(&state).map_err(|cause| Error::io("create", &state, cause))?;
        entries(&state)?.iter().try_for_each(|path| atomic_file::refuse_link(path))?;
        let report = split.as_ref().map(|split| format!("report-{split}.html"));
        let report = report.filter(|name| !state.join(JOB_FILE).exists() && path.join(name).exists());
        if let Some(name) = report {
            return Err(foreign_file(&path, &name));
        }
        let folder = OutputFolder { path, split, state, claim, _lock: lock };
        folder.take_over_incomplete_file()?;
        folder.refuse_unrecorded_data()?;
        folder.remove_temporary_files()?;
        Ok(folder)
    }

    /// Checks for what would make [`open`](OutputFolder::open) fail, so that it is found before long work. Leaves
    /// nothing behind.
    ///
    /// # Errors
    /// Those of [`open`](OutputFolder::open).
    pub fn check(path: &Path) -> Result<()> {
        OutputFolder::check_files(path)?;
        let state = path.join(STATE_FOLDER);
        let lock_path = state.join("lock");
        if !lock_path.exists() {
            return atomic_file::check_writable(path);
        }
        let (_lock, locked) = lock(path, &lock_path)?;
        Claim::check(&state, locked)
    }

    /// Checks for files of others that would make [`open`](OutputFolder::open) fail. Writes nothing.
    ///
    /// # Errors
    /// Those of [`open`](OutputFolder::open) about symbolic links, and about a folder to which no run has written.
    pub(crate) fn check_files(path: &Path) -> Result<()> {
        refuse_links(path)?;
        refuse_foreign(path)
    }

    /// Checks that no process is writing the output, as far as this process can see. Writes nothing.
    ///
    /// # Errors
    /// A process is writing it, or its state cannot be read.
    pub fn check_unheld(path: &Path) -> Result<()> {
        let state = path.join(STATE_FOLDER);
        let lock_path = state.join("lock");
        if !lock_path.symlink_metadata().is_ok_and(|file| file.is_file()) {
            return Ok(());
        }
        let lock = File::open(&lock_path).map_err(|cause| Error::io("read", &lock_path, cause))?;
        let locked = try_lock(&lock, path)?;
        Claim::check(&state, locked)
    }

    /// Checks that no other process has taken the folder. This happens if this process gave no sign of life for a
    /// minute, for example while its machine was suspended.
    ///
    /// # Errors
    /// Another process has taken it.
    pub(crate) fn check_held(&self) -> Result<()> {
        self.claim.check_held()
    }

    /// Renames the incomplete data file of the previous run to the name for this run. If the previous run may still
    /// wake up and continue to write, its data file is removed and the journals are replaced by copies: then it
    /// writes only to files that have no name any more.
    ///
    /// # Errors
    /// A file cannot be renamed, removed or copied.
    fn take_over_incomplete_file(&self) -> Result<()> {
        let state = self.state();
        for path in entries(&state)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !name.starts_with(INCOMPLETE) {
                continue;
            }
            if self.claim.follows_ended() {
                let to = self.incomplete_file();
                fs::rename(&path, &to).map_err(|cause| Error::io("write", to, cause))?;
            } else {
                remove(&path)?;
            }
        }
        if !self.claim.follows_ended() {
            for journal in [self.file_journal(), self.row_group_journal()] {
                if let Ok(text) = fs::read(&journal) {
                    atomic_file::publish_bytes_within(&journal, &text)?;
                }
            }
        }
        Ok(())
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder for scratch files and state. Readers of the data do not look into it. Each split except the first
    /// has its own.
    pub fn state(&self) -> PathBuf {
        self.state.clone()
    }

    /// The split that is written, if the output may have several.
    pub fn split(&self) -> Option<&str> {
        self.split.as_deref()
    }

    /// The split that is written, if it is not the first of the output.
    pub(crate) fn additional_split(&self) -> Option<&str> {
        self.split().filter(|_| self.state != self.path.join(STATE_FOLDER))
    }

    /// The manifest without the split that is written; `None` if no other split is in it.
    ///
    /// # Errors
    /// The manifest cannot be read or is damaged.
    pub(crate) fn other_splits(&self) -> Result<Option<Manifest>> {
        match Manifest::read(&self.path)?.and_then(|manifest| manifest.without_split(self.split())) {
            Some(other_splits) => Manifest::read_checked(&self.path).map(|_| Some(other_splits)),
            None => Ok(None),
        }
    }

    /// Whether a data file belongs to the split that is written. Without a split, all files belong to the output.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.split().is_none_or(|split| split == split_of(name))
    }

    /// Removes everything that an earlier run left of the split, so that none of it is taken for part of the next
    /// output. Other splits are kept.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn clear_data(&self) -> Result<()> {
        self.remove_manifest()?;
        self.remove_data(|_| false)?;
        for path in [self.file_journal(), self.row_group_journal(), self.incomplete_file()] {
            remove(&path)?;
        }
        Ok(())
    }

    /// Removes the split from the manifest, and the manifest if no other split is in it. This must happen before data
    /// files are removed, since the manifest says that they are complete.
    ///
    /// # Errors
    /// The manifest cannot be read, written or removed.
    pub(super) fn remove_manifest(&self) -> Result<()> {
        let Some(manifest) = Manifest::read(&self.path)? else { return Ok(()) };
        match manifest.without_split(self.split()) {
            Some(other_splits) if other_splits.files == manifest.files => Ok(()),
            Some(other_splits) => other_splits.write(&self.path),
            None => remove(&self.path.join(MANIFEST)),
        }
    }

    /// Removes the split's data files, except those for which `keep` returns true. It gets paths relative to the
    /// folder.
    ///
    /// # Errors
    /// The folder cannot be read, or a file cannot be removed.
    pub(super) fn remove_data(&self, keep: impl Fn(&str) -> bool) -> Result<()> {
        for path in data_files(&self.path)? {
            let name = data_name(&path);
            if self.is_own(&name) && !keep(&name) {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// The path of the data file that is being written. It differs for each run.
    pub(crate) fn incomplete_file(&self) -> PathBuf {
        self.state().join(format!("{INCOMPLETE}{}", self.claim.number()))
    }

    /// The path of the journal of its row groups.
    pub(super) fn row_group_journal(&self) -> PathBuf {
        self.state().join(ROW_GROUP_JOURNAL)
    }

    /// The path of the journal of completed data files.
    pub(super) fn file_journal(&self) -> PathBuf {
        self.state().join(FILE_JOURNAL)
    }

    /// Refuses the folder if it has a data file that is neither in the manifest nor in a journal. It belongs to
    /// somebody else, and would be removed together with the rest of earlier outputs.
    ///
    /// # Errors
    /// The folder has an unrecorded data file, or a journal or the manifest cannot be read.
    fn refuse_unrecorded_data(&self) -> Result<()> {
        let mut known = recorded_files(&self.path)?;
        for file in Manifest::read(&self.path)?.into_iter().flat_map(|manifest| manifest.files) {
            known.extend(file.names().cloned());
        }
        // An index is named before its data file is recorded.
        let incomplete = self.incomplete_file().exists();
        let is_early_index =
            |path: &Path| incomplete && is_index(path) && !path.with_extension("bin").exists();
        for path in data_files(&self.path)? {
            let name = data_name(&path);
            if !known.contains(&name) && !is_early_index(&path) {
                return Err(foreign_file(&self.path, &name));
            }
        }
        Ok(())
    }

    /// Removes temporary files of an interrupted run. They are recognized by their names. Folders are left alone.
    ///
    /// # Errors
    /// A folder cannot be read, or a file cannot be removed.
    fn remove_temporary_files(&self) -> Result<()> {
        let below = ["", DATA_FOLDER, STATE_FOLDER, TOKENIZER_FOLDER];
        let mut folders: Vec<PathBuf> = below.map(|below| self.path.join(below)).into();
        folders.push(self.state());
        // The smaller tokenizers of a training are in folders within that of the largest.
        folders.extend(entries(&self.path.join(TOKENIZER_FOLDER))?.into_iter().filter(|path| path.is_dir()));
        for folder in folders {
            for path in entries(&folder)? {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                // In the output folder itself, others may be writing files right now.
                let is_ours =
                    |of: &str| folder != self.path || ROOT_FILES.contains(&of) || of.starts_with("report-");
                if atomic_file::unfinished(&name).is_some_and(is_ours) && !path.is_dir() {
                    remove(&path)?;
                }
            }
        }
        Ok(())
    }
}

/// Refuses a folder with files that no run wrote. An output is recognized by its state folder or, if it was copied
/// without that, by its manifest.
///
/// # Errors
/// There is a file with the name of an output's file.
fn refuse_foreign(folder: &Path) -> Result<()> {
    let state = folder.join(STATE_FOLDER);
    let was_used = [JOB_FILE, ROW_GROUP_JOURNAL, FILE_JOURNAL].iter().any(|name| state.join(name).exists());
    if was_used || matches!(Manifest::read(folder), Ok(Some(_))) {
        return Ok(());
    }
    let fixed = ROOT_FILES.map(|name| folder.join(name)).into_iter().filter(|path| path.exists());
    if let Some(path) = fixed.chain(data_files(folder)?).next() {
        let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        return Err(foreign_file(folder, &name).with_help("choose a new or an empty folder"));
    }
    Ok(())
}

/// Refuses symbolic links in place of the state or data folder of an output, and in the state folder. A link could
/// lead writes and removals to files outside of the output.
///
/// # Errors
/// There is a symbolic link, or the state folder cannot be read.
fn refuse_links(folder: &Path) -> Result<()> {
    let state = folder.join(STATE_FOLDER);
    atomic_file::refuse_link(&state)?;
    atomic_file::refuse_link(&folder.join(DATA_FOLDER))?;
    entries(&state)?.iter().try_for_each(|path| atomic_file::refuse_link(path))
}

/// Takes the lock. Returns the file, and whether it is locked: some network file systems have no locks.
///
/// # Errors
/// Another process holds the lock, or the file cannot be created.
fn lock(folder: &Path, path: &Path) -> Result<(File, bool)> {
    let mut options = OpenOptions::new();
    let options = atomic_file::without_links(options.read(true).write(true).create(true).truncate(false));
    let file = options.open(path).map_err(|cause| Error::io("create", path, cause))?;
    let locked = try_lock(&file, folder)?;
    Ok((file, locked))
}

/// Locks the open lock file of a folder. Returns false if the file system has no locks.
///
/// # Errors
/// Another process holds the lock.
fn try_lock(file: &File, folder: &Path) -> Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Read only digits: the file may contain anything.
            let _ = file.take(20).read_to_string(&mut holder);
            let number: String = holder.chars().take_while(char::is_ascii_digit).collect();
            let holder = if number.is_empty() { number } else { format!(" (process {number})") };
            let folder = folder.display();
            Err(Error::failed(format!("{folder} is being written by another process{holder}"))
                .with_help("wait until it has ended, or choose another folder"))
        }
        Err(TryLockError::Error(_)) => Ok(false),
    }
}

/// Writes the id of this process into the lock file, for the messages of other processes.
///
/// # Errors
/// The file cannot be written.
fn write_holder(mut lock: &File, path: &Path) -> Result<()> {
    let written = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
    written.map_err(|cause| Error::io("write", path, cause))
}

/// The error that writing would overwrite, remove or adopt a file.
fn foreign_file(folder: &Path, name: &str) -> Error {
    let folder = folder.display();
    Error::usage(format!("{folder} holds {name}, which tokenmill did not write, or has no record of"))
        .with_help("move it away, or choose another folder")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn one_writer_at_a_time() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("new/out");
        let first = OutputFolder::open(&path).expect("the first");
        for error in [OutputFolder::check(&path), OutputFolder::open(&path).map(|_| ())] {
            let error = error.expect_err("a second");
            assert_eq!(error.kind(), ErrorKind::Failed);
            assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
        }
        drop(first);
        OutputFolder::check(&path).expect("free again");
        OutputFolder::open(&path).expect("and still free");
    }

    #[test]
    fn what_a_killed_run_left_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        drop(OutputFolder::open(folder.path()).expect("a first run"));
        let unfinished = [
            "data/.tmp-train-00000.idx-Abc123",
            ".tmp-report.html-Abc123",
            ".tokenmill/.tmp-job.json-Abc123",
            "tokenizer/.tmp-tokenizer.json-Abc123",
            "tokenizer/vocab-300/.tmp-tokenizer.json-Abc123",
        ];
        // Another program may be writing the last one right now.
        let others =
            ["notes.txt", "data/notes.txt", "mine/.tmp-a-Abc123", ".tmp-mine", ".tmp-c.parquet-Abc123"];
        for name in unfinished.iter().chain(&others) {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "x").expect("a file");
        }
        OutputFolder::open(folder.path()).expect("the next run");
        let left = |name: &str| folder.path().join(name).exists();
        assert!(!unfinished.into_iter().any(left) && others.into_iter().all(left));
    }

    #[test]
    fn files_of_others_are_not_overwritten() {
        for name in ["README.md", "manifest.json", "report.json", "report.html", "data/x.parquet"] {
            for opened_before in [false, true] {
                let folder = tempfile::tempdir().expect("a folder");
                if opened_before {
                    drop(OutputFolder::open(folder.path()).expect("an empty folder"));
                }
                fs::create_dir_all(folder.path().join("data")).expect("a folder");
                fs::write(folder.path().join(name), "mine").expect("a file");
                for error in
                    [OutputFolder::check(folder.path()), OutputFolder::open(folder.path()).map(|_| ())]
                {
                    let error = error.expect_err(name);
                    assert_eq!(error.kind(), ErrorKind::Usage);
                    assert!(error.to_string().contains(name), "{error}");
                }
                assert_eq!(folder.path().join(".tokenmill").exists(), opened_before);
            }
        }
    }

    /// The index alone exists if a run is killed before it names the data file.
    #[test]
    fn an_index_without_its_file_is_known_while_the_file_is_incomplete() {
        let folder = tempfile::tempdir().expect("a folder");
        drop(OutputFolder::open(folder.path()).expect("a first run"));
        fs::create_dir(folder.path().join("data")).expect("a folder");
        fs::write(folder.path().join(".tokenmill/job.json"), "{}").expect("a file");
        let index = folder.path().join("data/train-00000.idx");
        fs::write(&index, "x").expect("a file");
        let error = OutputFolder::open(folder.path()).expect_err("no file is incomplete");
        assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("train-00000.idx"), "{error}");
        fs::write(folder.path().join(".tokenmill/incomplete-1"), "").expect("a file");
        OutputFolder::open(folder.path()).expect("it is the next file's");
        assert!(index.exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_path_below_a_file_cannot_be_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("a file");
        let error = OutputFolder::open(file.join("out")).expect_err("no folder");
        assert!(error.to_string().contains("file/out"), "{error}");
    }

    /// If any part of an output's state is a link, nothing is written through it.
    #[cfg(unix)]
    #[test]
    fn links_in_the_state_are_refused_and_not_followed() {
        use std::os::unix::fs::symlink;
        for name in [
            ".tokenmill",
            "data",
            ".tokenmill/lock",
            ".tokenmill/job.json",
            ".tokenmill/owner-1",
            ".tokenmill/incomplete-1",
            ".tokenmill/row-groups.journal",
            ".tokenmill/files.journal",
            ".tokenmill/learned.journal",
            ".tokenmill/counts",
        ] {
            for (is_folder, dangling) in [(false, false), (true, false), (false, true)] {
                let folder = tempfile::tempdir().expect("a folder");
                let (victim, chained_hash) =
                    (folder.path().join("victim"), folder.path().join("out").join(name));
                match (is_folder, dangling) {
                    (_, true) => {}
                    (true, _) => fs::create_dir(&victim).expect("a folder"),
                    (false, _) => fs::write(&victim, "precious").expect("a file"),
                }
                fs::create_dir_all(chained_hash.parent().expect("a folder")).expect("a folder");
                symlink(&victim, &chained_hash).expect("a link");
                let out = folder.path().join("out");
                for error in [OutputFolder::check(&out), OutputFolder::open(&out).map(|_| ())] {
                    let error = error.expect_err(name);
                    assert!(error.kind() == ErrorKind::Usage && error.to_string().contains(name), "{error}");
                }
                assert!(chained_hash.is_symlink() && victim.exists() != dangling, "{name}");
                assert!(is_folder || dangling || fs::read(&victim).expect("a file") == b"precious");
                assert!(!is_folder || fs::read_dir(&victim).expect("a folder").next().is_none(), "{name}");
            }
        }
    }

    /// A holder that may wake up keeps the files that it has open.
    #[test]
    fn what_a_run_of_unknown_fate_left_is_not_written_on() {
        use std::io::Write;
        let folder = tempfile::tempdir().expect("a folder");
        drop(OutputFolder::open(folder.path()).expect("a first run"));
        let at = |name: &str| folder.path().join(".tokenmill").join(name);
        for alive in [false, true] {
            let mut old = fs::File::create(at("incomplete-1")).expect("a file");
            fs::write(at("files.journal"), "").expect("a file");
            let mut journal = fs::OpenOptions::new().append(true).open(at("files.journal")).expect("a file");
            if alive {
                // The file of a holder that was cut off says nothing.
                let last =
                    fs::read_dir(at("")).expect("a folder").map(|entry| entry.expect("an entry").path());
                let owner =
                    last.filter(|path| path.to_string_lossy().contains("owner-")).max().expect("an owner");
                fs::write(owner, "").expect("a file");
            }
            let next = OutputFolder::open_after(folder.path(), std::time::Duration::from_millis(300))
                .expect("it is free");
            old.write_all(b"late").and_then(|()| journal.write_all(b"late")).expect("written");
            let late = |path: &std::path::Path| fs::read(path).is_ok_and(|text| text == b"late");
            assert_eq!(late(&at(&format!("incomplete-{}", next.number()))), !alive);
            assert_eq!(late(&at("files.journal")), !alive);
            drop(next);
        }
    }
}
