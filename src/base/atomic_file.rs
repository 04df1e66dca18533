//! Files that appear complete or not at all, and groups of files that appear together.
//!
//! Input: paths and the bytes to write there. Output: files under their final names, which are complete whenever they
//! exist. Content is opaque here.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use tempfile::NamedTempFile;

use super::folder_of;
use super::process::Process;
use crate::error::{Error, Result};

/// The prefix of the names of unfinished files.
pub(crate) const TEMPORARY_PREFIX: &str = ".tmp-";

/// Number of random letters and digits at the end of the name of an unfinished file. They follow a `-` and the tag of
/// the process that writes it.
const RANDOM_CHARS: usize = 6;

/// Time since the last write (a week) after which an unfinished file is removed if its process cannot be observed,
/// because it belongs to another machine or container.
const UNSEEN: Duration = Duration::from_secs(7 * 24 * 3600);

/// Maximum number of characters of the final name (32) in the name of an unfinished file, since file systems limit the
/// length of names.
const NAME_CHARS: usize = 32;

/// A file that is being written and does not have its final name yet.
///
/// It is in the folder of its final path. Its temporary name consists of `.tmp-`, the beginning of the final name,
/// and letters for the process and at random. It is removed when dropped before [`commit`](Pending::commit).
///
/// ```
/// use std::io::Write;
/// use tokenmill::base::atomic_file::Pending;
///
/// let folder = tempfile::tempdir().expect("a folder");
/// let path = folder.path().join("ids.bin");
/// let mut pending = Pending::create(&path)?;
/// pending.write_all(b"content").expect("room on the disk");
/// assert!(!path.exists());
/// pending.commit()?;
/// assert_eq!(std::fs::read(&path).expect("the file"), b"content");
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Debug)]
pub struct Pending {
    /// Removes itself when dropped.
    file: NamedTempFile,
    /// The final path, with a link resolved unless links are to be replaced.
    path: PathBuf,
}

impl Pending {
    /// Creates the temporary file in the folder of `path`, which must exist. If `path` is a symbolic link, this is
    /// the folder of the link's target, and the target will be replaced.
    ///
    /// # Errors
    /// The file cannot be created, or `path` is a device or a pipe, which must not be replaced.
    pub fn create(path: impl Into<PathBuf>) -> Result<Pending> {
        Pending::at(destination(path.into())?)
    }

    /// Does the same as [`create`](Pending::create), but a link at `path` will itself be replaced. In a folder of
    /// results, nothing outside the folder may be written through a link.
    ///
    /// # Errors
    /// Those of [`create`](Pending::create).
    pub(crate) fn create_within(path: impl Into<PathBuf>) -> Result<Pending> {
        let path = path.into();
        Pending::at(if path.is_symlink() { path } else { destination(path)? })
    }

    /// Creates the temporary file for exactly this path, without following links.
    fn at(path: PathBuf) -> Result<Pending> {
        let mut builder = tempfile::Builder::new();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name: String = name.chars().take(NAME_CHARS).collect();
        let prefix = format!("{TEMPORARY_PREFIX}{name}-{}", Process::this().tag());
        builder.prefix(&prefix).rand_bytes(RANDOM_CHARS);
        readable_by_others(&mut builder);
        match builder.tempfile_in(folder_of(&path)) {
            Ok(file) => Ok(Pending { file, path }),
            Err(cause) => Err(Error::io("create", path, of_the_system(cause))),
        }
    }

    /// Returns the unfinished file.
    pub fn file_mut(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Returns the path that the file will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the file, renames it to its final path, and syncs the folder. An existing file at that path is replaced
    /// atomically.
    ///
    /// # Errors
    /// One of the three steps fails. If it is one of the first two, the temporary file is removed and an existing
    /// file stays.
    pub fn commit(self) -> Result<()> {
        let Pending { file, path } = self;
        file.as_file().sync_all().map_err(|cause| Error::io("write", &path, cause))?;
        file.persist(&path).map_err(|failed| Error::io("write", &path, failed.error))?;
        sync_folder(folder_of(&path))
    }

    /// Fills the file and gives it its name.
    fn publish<T>(mut self, write: impl FnOnce(&mut File) -> Result<T>) -> Result<T> {
        let written = write(self.file_mut())?;
        self.commit().map(|()| written)
    }
}

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_file_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_file_mut().flush()
    }
}

/// Writes a file completely or not at all.
///
/// `write` fills a file with a temporary name in the folder of `path`. The file is then synced and renamed to `path`,
/// the folder is synced, and the result of `write` is returned. An existing file is replaced atomically, also if
/// `path` is a link to it. A link without a target is itself replaced. If `write` fails, no file is left behind. A
/// crash leaves at most a file with the prefix `.tmp-`. The next call for the same path removes it.
///
/// # Errors
/// Those of `write`, and any failure to create, sync or rename the file; the message names `path`.
pub fn publish<T>(path: &Path, write: impl FnOnce(&mut File) -> Result<T>) -> Result<T> {
    remove_stale(path);
    Pending::create(path)?.publish(write)
}

/// Does the same as [`publish`] with content in memory.
///
/// ```
/// let folder = tempfile::tempdir().expect("a folder");
/// let path = folder.path().join("notes.txt");
/// tokenmill::base::atomic_file::publish_bytes(&path, b"content")?;
/// assert_eq!(std::fs::read(&path).expect("the file"), b"content");
/// # Ok::<(), tokenmill::Error>(())
/// ```
///
/// # Errors
/// The file cannot be created, written, synced or renamed; the message names `path`.
pub fn publish_bytes(path: &Path, content: &[u8]) -> Result<()> {
    publish(path, |file| file.write_all(content).map_err(|cause| Error::io("write", path, cause)))
}

/// Writes a file in a folder of results completely or not at all, as [`publish`] does, but replaces a link at `path`
/// itself.
///
/// # Errors
/// Those of [`publish`].
pub(crate) fn publish_within<T>(path: &Path, write: impl FnOnce(&mut File) -> Result<T>) -> Result<T> {
    Pending::create_within(path)?.publish(write)
}

/// Does the same as [`publish_within`] with content in memory.
///
/// # Errors
/// Those of [`publish`].
pub(crate) fn publish_bytes_within(path: &Path, content: &[u8]) -> Result<()> {
    publish_within(path, |file| file.write_all(content).map_err(|cause| Error::io("write", path, cause)))
}

/// Makes `open` fail on symbolic links, where the system supports that.
#[cfg(unix)]
pub(crate) fn without_links(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let flag = rustix::fs::OFlags::NOFOLLOW.bits();
    options.custom_flags(i32::try_from(flag).unwrap_or_default())
}

/// Returns the options unchanged, since this system has no option to refuse symbolic links.
#[cfg(not(unix))]
pub(crate) fn without_links(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Creates and opens a new file at `path`. An existing file or link there is removed first; the file itself, or the
/// link's target, keeps its content for processes that have it open.
///
/// # Errors
/// The existing file cannot be removed, or the new one cannot be created.
pub(crate) fn create_anew(path: &Path) -> Result<File> {
    remove(path)?;
    let created = without_links(OpenOptions::new().read(true).write(true).create_new(true)).open(path);
    created.map_err(|cause| Error::io("create", path, cause))
}

/// Refuses a symbolic link at the path of a folder or file of results. Otherwise, whoever can create links there
/// could have any file replaced.
///
/// # Errors
/// The path is a link ([`Usage`](crate::ErrorKind::Usage)).
pub(crate) fn refuse_link(path: &Path) -> Result<()> {
    if path.is_symlink() {
        return Err(Error::usage(format!("{} is a symbolic link", path.display()))
            .with_help("remove the link, or choose another folder: tokenmill does not write through links"));
    }
    Ok(())
}

/// Removes unfinished files of `path` that ended processes left. Files of running processes stay, and so do files
/// that cannot be removed. Files of processes that cannot be observed stay until a week after the last write.
pub(crate) fn remove_stale(path: &Path) {
    let Ok(path) = destination(path.to_path_buf()) else { return };
    let name: String =
        path.file_name().unwrap_or_default().to_string_lossy().chars().take(NAME_CHARS).collect();
    for entry in std::fs::read_dir(folder_of(&path)).into_iter().flatten().flatten() {
        let found = entry.file_name();
        let is_of_path = |found: &&str| unfinished(found) == Some(&name);
        if found.to_str().filter(is_of_path).is_some_and(|found| is_stale(found, &entry.path())) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Returns whether an unfinished file is left over: its process has ended, or cannot be observed and has not written
/// for a week.
fn is_stale(name: &str, path: &Path) -> bool {
    let random = name.rsplit_once('-').map_or("", |(_, random)| random);
    let running = random.get(..Process::TAG_CHARS).and_then(Process::tagged_is_running);
    let written = || path.symlink_metadata().and_then(|there| there.modified()).ok();
    let age = || SystemTime::now().duration_since(written()?).ok();
    match running {
        Some(running) => !running && path.symlink_metadata().is_ok_and(|there| there.is_file()),
        None => age().is_some_and(|age| age > UNSEEN),
    }
}

/// Returns the final name of the unfinished file with this name, or the beginning of a long one. `None` if this
/// program gives no such names.
pub(crate) fn unfinished(name: &str) -> Option<&str> {
    let (written, random) = name.strip_prefix(TEMPORARY_PREFIX)?.rsplit_once('-')?;
    // Earlier versions put no process tag before the random characters.
    let lengths = [RANDOM_CHARS, Process::TAG_CHARS + RANDOM_CHARS];
    let is_random =
        lengths.contains(&random.len()) && random.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_random.then_some(written)
}

/// Removes a file if it exists.
///
/// # Errors
/// It cannot be removed.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, cause)),
        _ => Ok(()),
    }
}

/// Returns the path to write for `path`: the target if it is a link.
///
/// # Errors
/// The path is a device or a pipe, or a link's target cannot be determined.
fn destination(path: PathBuf) -> Result<PathBuf> {
    match std::fs::metadata(&path) {
        Ok(there) if !there.is_file() && !there.is_dir() => {
            Err(Error::io("replace", path, io::Error::other("it is a device or a pipe, not a file")))
        }
        Ok(_) if path.is_symlink() => path.canonicalize().map_err(|cause| Error::io("find", &path, cause)),
        _ => Ok(path),
    }
}

/// Checks, before long work begins, that a file can be created at `path`, or at its target if it is a link. An
/// existing file may be replaced if it is empty or `is_of_kind` accepts it; `kind` names that kind in the error. A
/// mistyped path must not destroy other data, nor cost the time to read a corpus.
///
/// # Errors
/// The file exists and is of another kind ([`Usage`](crate::ErrorKind::Usage)). The path is a folder, a device or a
/// pipe. Its folder does not exist or is not writable.
pub fn check_replaced(path: &Path, kind: &str, is_of_kind: impl FnOnce(&Path) -> bool) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(there) if there.is_file() && there.len() > 0 && !is_of_kind(path) => {
            let path = path.display();
            Err(Error::usage(format!("{path} exists and is not a {kind}, so it is not replaced"))
                .with_help("name another file, or remove this one first"))
        }
        Ok(there) if there.is_dir() => Err(Error::io("write", path, io::ErrorKind::IsADirectory.into())),
        Err(cause) if path.file_name().is_none() || !folder_of(path).is_dir() => {
            let missing = Error::io("write", path, cause);
            Err(missing.with_help("create its folder first, or name another file"))
        }
        _ => check_writable(folder_of(&destination(path.to_path_buf())?)),
    }
}

/// Checks, before long work begins, that files can be created in a folder, or that the folder can be created if it is
/// missing. Leaves no file behind.
///
/// # Errors
/// They cannot be created.
pub(crate) fn check_writable(folder: &Path) -> Result<()> {
    // With a trailing slash, a link would not be recognized as one.
    let whole: PathBuf = folder.components().collect();
    let mut missing = whole.ancestors().take_while(|ancestor| !ancestor.exists());
    if let Some(link) = missing.find(|ancestor| ancestor.is_symlink()) {
        return Err(Error::io("create", link, io::Error::other("it is a broken link")));
    }
    let there = folder.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("."));
    let action = if folder.is_dir() { "write in" } else { "create" };
    tempfile::tempfile_in(there).map(drop).map_err(|cause| Error::io(action, folder, of_the_system(cause)))
}

/// Returns the free space for this user, in bytes, on the disk of a folder, which need not exist yet. `None` if the
/// system does not report it.
#[cfg(unix)]
pub(crate) fn free_space(folder: &Path) -> Option<u64> {
    let there = folder.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("."));
    let disk = rustix::fs::statvfs(there).ok()?;
    // Some network file systems report zeros.
    (disk.f_blocks > 0).then(|| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Returns `None`: the free space is not known on this system.
#[cfg(not(unix))]
pub(crate) fn free_space(_folder: &Path) -> Option<u64> {
    None
}

/// Returns the system's error without the message of `tempfile`, which names a temporary file that users do not know.
fn of_the_system(cause: io::Error) -> io::Error {
    if cause.raw_os_error().is_some() { cause } else { cause.kind().into() }
}

/// Gives a published file the permissions that the process's umask leaves; temporary files are private by default.
#[cfg(unix)]
fn readable_by_others(builder: &mut tempfile::Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(std::fs::Permissions::from_mode(0o666));
}

/// Does nothing, since this system has no such permissions.
#[cfg(not(unix))]
fn readable_by_others(_builder: &mut tempfile::Builder<'_, '_>) {}

/// Waits until the names in a folder are on disk. Without this a rename may not survive a crash. On systems where
/// folders cannot be opened it does nothing.
///
/// # Errors
/// The folder cannot be synced.
#[cfg(unix)]
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|cause| Error::io("write", folder, cause))
}

/// Does nothing, since folders cannot be synced on this system.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub(crate) fn sync_folder(_folder: &Path) -> Result<()> {
    Ok(())
}

/// Files that are written and do not have their final names yet.
///
/// A group has a first file, by which readers find it, and other files that they read with it. Before a group
/// replaces another one, the old first file is removed; the new first file gets its name last. So whenever the
/// process ends, an existing first file has its own other files beside it.
#[derive(Debug, Default)]
pub(crate) struct FileGroups {
    /// First files of groups that exist with another content; they are removed first.
    replaced: Vec<PathBuf>,
    /// Files that get their names before the first files.
    others: Vec<Pending>,
    /// First files, which get their names last.
    firsts: Vec<Pending>,
}

/// One step of naming the files.
type CommitStep = Box<dyn FnOnce() -> Result<()>>;

impl FileGroups {
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
        self.steps().try_for_each(|step| step())
    }

    /// Returns the steps in their order: old first files are removed, other files are named, first files are named.
    fn steps(self) -> impl Iterator<Item = CommitStep> {
        // Waits until the removals are on disk.
        let folder = self.replaced.first().map(|path| folder_of(path).to_owned());
        let removed = self.replaced.into_iter().map(|path| -> CommitStep { Box::new(move || remove(&path)) });
        let synced = folder.map(|folder| -> CommitStep { Box::new(move || sync_folder(&folder)) });
        let named = self.others.into_iter().chain(self.firsts);
        removed.chain(synced).chain(named.map(|file| -> CommitStep { Box::new(|| file.commit()) }))
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
    use std::ffi::OsString;
    use std::fs;
    use std::io::Write;

    use super::*;

    fn names(folder: &Path) -> Vec<OsString> {
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect()
    }

    /// An existing file keeps its content until the new one is complete.
    #[test]
    fn replaces_a_file_in_one_step() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.txt");
        fs::write(&path, "old").expect("a file");
        publish(&path, |file| {
            assert_eq!(fs::read(&path).expect("the old file"), b"old");
            file.write_all(b"new").map_err(|cause| Error::io("write", &path, cause))
        })
        .expect("published");
        assert_eq!(fs::read(&path).expect("the new file"), b"new");
        assert_eq!(names(folder.path()), ["out.txt"]);
    }

    /// If the writer fails, neither the file nor a temporary one is left.
    #[test]
    fn leaves_nothing_where_writing_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.txt");
        publish(&path, |file| {
            file.write_all(b"half").map_err(|cause| Error::io("write", &path, cause))?;
            Err::<(), _>(Error::interrupted())
        })
        .expect_err("the error of the writer");
        assert!(names(folder.path()).is_empty());
    }

    /// Names of unfinished files are recognized, and other names are not.
    #[test]
    fn unfinished_files_are_known_by_their_names() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, begins) in [("out-1.txt", "out-1.txt"), (&"é".repeat(127), &"é".repeat(NAME_CHARS))] {
            let pending = Pending::create(folder.path().join(name)).expect("a file");
            let there = names(folder.path()).pop().expect("an unfinished file").into_string().expect("UTF-8");
            assert_eq!(unfinished(&there), Some(begins), "{there}");
            drop(pending);
        }
        for name in [".tmp-mine", ".tmp-abcdef", ".tmp-my-notes.md", ".tmp-my-notes-", "my-abcdef"] {
            assert_eq!(unfinished(name), None, "{name}");
        }
    }

    /// Only unfinished files of ended processes, for this path, are removed.
    #[cfg(target_os = "linux")]
    #[test]
    fn stale_files_are_those_of_processes_that_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("c-1.parquet");
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        let dead = format!("{}{:0>7}", &Process::this().tag()[..6], {
            let (mut number, mut digits) = (child.id(), String::new());
            while number > 0 {
                digits.insert(0, char::from_digit(number % 36, 36).expect("a digit"));
                number /= 36;
            }
            digits
        });
        child.wait().expect("its end");
        let stale = format!(".tmp-c-1.parquet-{dead}Abc123");
        let others = [
            format!(".tmp-d-1.parquet-{dead}Abc123"),
            ".tmp-c-1.parquet-Abc123".to_owned(),
            format!(".tmp-c-1.parquet-000000{}Abc123", &dead[6..]),
            ".tmp-c-1.parquet-mine".to_owned(),
            "c-1.parquet".to_owned(),
        ];
        others
            .iter()
            .chain([&stale])
            .for_each(|name| fs::write(folder.path().join(name), "x").expect("a file"));
        let pending = Pending::create(&path).expect("one that is being written");
        remove_stale(&path);
        let mut left = names(folder.path());
        left.sort();
        assert!(!left.contains(&OsString::from(&stale)) && left.len() == others.len() + 1, "{left:?}");
        drop(pending);
    }

    /// Within a folder of results, a link is replaced and its target keeps its content.
    #[cfg(unix)]
    #[test]
    fn within_results_a_link_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (victim, link) = (folder.path().join("victim"), folder.path().join("link"));
        fs::write(&victim, "precious").expect("a file");
        let linked = || std::os::unix::fs::symlink(&victim, &link).expect("a link");
        linked();
        refuse_link(&link).expect_err("a link");
        publish_bytes_within(&link, b"new").expect("published");
        assert!(!link.is_symlink() && fs::read(&link).expect("a file") == b"new");
        fs::remove_file(&link).expect("removed");
        linked();
        create_anew(&link).expect("a file").write_all(b"new").expect("written");
        assert!(!link.is_symlink() && fs::read(&victim).expect("a file") == b"precious");
    }

    /// The error names the path and not the temporary file.
    #[test]
    fn names_the_path_it_cannot_create() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("missing").join("out.txt");
        let error = publish(&path, |_| Ok(())).expect_err("no such folder");
        assert!(error.to_string().contains("out.txt"), "{error}");
    }

    /// A folder that cannot be created is an error, and checking creates nothing.
    #[test]
    fn a_folder_that_cannot_be_made_is_noticed_and_one_that_can_is_not_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let new = folder.path().join("new/one");
        check_writable(&new).expect("it can be made");
        check_writable(folder.path()).expect("files can be made");
        assert!(names(folder.path()).is_empty());
        fs::write(folder.path().join("new"), "a file").expect("a file");
        let error = check_writable(&new).expect_err("a file stands in the way").to_string();
        assert!(error.contains("new/one"), "{error}");
    }

    /// A published file has the permissions of any other new file.
    #[cfg(unix)]
    #[test]
    fn others_may_read_what_is_published() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
        publish(&ours, |_| Ok(())).expect("published");
        fs::write(&plain, "").expect("a file");
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
    }

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
                let mut together = FileGroups::default();
                together.add_before(&folder.path().join("record"), version.as_bytes()).expect("room");
                for name in ["a", "b"] {
                    together.add_group(&group(folder.path(), name, version)).expect("room");
                }
                together
            };
            made("old").commit().expect("a folder");
            made("new").steps().take(steps).try_for_each(|step| step()).expect("a folder");
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
            let mut together = FileGroups::default();
            together.add_group(&files).expect("room");
            assert!(together.replaced.is_empty());
            together.commit().expect("a folder");
        }
    }
}
