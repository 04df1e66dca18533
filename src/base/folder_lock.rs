//! Exclusive use of a folder: file locks where the system has them, and otherwise files that announce the holder.
//!
//! Without locks, the holder is the process that created the file `owner-N` with the greatest N. The file is created
//! exclusively, so of several processes that want to follow the same holder one succeeds. Numbers only grow, since
//! the last holder's file stays; so a process that is delayed between reading and creating cannot become a second
//! holder. The holder rewrites its file every ten seconds. A holder on another machine or in another container cannot
//! be observed. It is replaced once its file has not changed for a minute by the clock of the waiting process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use serde::{Deserialize, Serialize};

use super::atomic_file::{refuse_link, remove, without_links};
use super::folder_of;
use super::process::Process;
use crate::error::{Error, Result};
use crate::observer::Observer;

/// Exclusive use of a folder by this process until this value is dropped.
#[derive(Debug)]
pub(crate) enum FolderLock {
    /// By a file lock of the system.
    #[expect(dead_code, reason = "held for its lock")]
    File(File),
    /// By a file that announces the holder to other processes.
    #[expect(dead_code, reason = "held until it is dropped")]
    Claim(Claim),
}

/// Takes a folder for this process alone until the returned lock is dropped, so that files of several processes do
/// not mix. The folder is created if it does not exist. If another process holds it, this reports so to `observer`
/// and waits. Where folders cannot be locked, files in the subfolder `state` announce the holder.
///
/// # Errors
/// The folder cannot be created or written, or the observer asks to stop.
pub(crate) fn lock_folder(folder: &Path, state: &str, observer: &dyn Observer) -> Result<FolderLock> {
    fs::create_dir_all(folder).map_err(|cause| Error::io("create", folder, cause))?;
    if let Ok(file) = File::open(folder) {
        let others = || format!("waiting for another run that writes to {}", folder.display());
        if wait_for_lock(&file, others, observer)? {
            return Ok(FolderLock::File(file));
        }
    }
    let state = folder.join(state);
    refuse_link(&state)?;
    fs::create_dir_all(&state).map_err(|cause| Error::io("create", &state, cause))?;
    Claim::take(&state, false, IfHeld::Wait, Heartbeat::default(), observer).map(FolderLock::Claim)
}

/// Locks an open file or folder. While another process holds the lock, this waits and reports the message `waiting`
/// to `observer` once. Returns `false` if the file system does not support locks, as some network file systems do
/// not.
///
/// # Errors
/// The observer asks to stop.
pub(crate) fn wait_for_lock(
    file: &File,
    waiting: impl FnOnce() -> String,
    observer: &dyn Observer,
) -> Result<bool> {
    let mut waiting = Some(waiting);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(_)) => return Ok(false),
        }
        if let Some(waiting) = waiting.take() {
            observer.noted(&waiting());
        }
        observer.checkpoint()?;
        thread::sleep(Duration::from_millis(100));
    }
}

/// The prefix of the files' names, before the number.
const PREFIX: &str = "owner-";

/// Length of each file in bytes (1 KiB), padded with spaces, so that rewriting a file needs no more disk space.
const BYTES: usize = 1 << 10;

/// How often a holder gives a sign of life, and the time without one after which it counts as dead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heartbeat {
    /// Time between two signs of life.
    pub(crate) every: Duration,
    /// Must be several times `every`, since a sign may be late.
    pub(crate) dead_after: Duration,
}

/// 10 s and 60 s, long enough for network file systems to show a change to all machines.
impl Default for Heartbeat {
    fn default() -> Heartbeat {
        Heartbeat { every: Duration::from_secs(10), dead_after: Duration::from_secs(60) }
    }
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HolderRecord {
    /// The process that created the file.
    holder: Process,
    /// Number of signs of life that the holder has given.
    beats: u64,
    /// Whether the holder has ended.
    released: bool,
}

/// Exclusive use of a folder by this process until this value is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The folder with the files of the holders.
    folder: PathBuf,
    /// The number in the name of the own file.
    number: u64,
    /// See [`follows_ended`](Claim::follows_ended).
    predecessor_ended: bool,
    /// Dropped to end the thread; `None` only while the claim is dropped.
    stop: Option<Sender<()>>,
    /// The thread that gives signs of life and, at its end, releases the folder.
    heartbeat: Option<JoinHandle<()>>,
}

/// The state of the holder of a folder, as far as this process can see it.
enum Holder {
    /// No process holds it: the last holder, if any, has ended.
    Nobody,
    /// A process that certainly runs, or ran when it was asked.
    Running(Process),
    /// The holder cannot be observed and has not given a sign of life yet, so it may be dead.
    Unobservable(Process),
}

/// What to do if the holder is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfHeld {
    /// End with an error.
    Refuse,
    /// Wait until it has ended or the observer asks to stop.
    Wait,
}

impl Claim {
    /// Takes a folder, which must exist. `locked` says that the caller holds a file lock there, which no other
    /// process under this kernel can hold at the same time.
    ///
    /// Waits for a running holder if `if_held` says so, and for a sign of life of one that cannot be observed.
    ///
    /// # Errors
    /// Another process holds the folder and `if_held` says to refuse, the folder cannot be written, or the observer
    /// asks to stop.
    pub(crate) fn take(
        folder: &Path,
        locked: bool,
        if_held: IfHeld,
        heartbeat: Heartbeat,
        observer: &dyn Observer,
    ) -> Result<Claim> {
        let (mut reported, mut predecessor_ended) = (false, true);
        let number = loop {
            observer.checkpoint()?;
            let last = last(folder)?;
            let holder = last.map_or(Ok(Holder::Nobody), |number| holder(folder, number, locked))?;
            match (holder, if_held) {
                (Holder::Nobody, _) => {}
                (Holder::Running(process), IfHeld::Refuse) => return Err(already_held(folder, &process)),
                (Holder::Running(process), IfHeld::Wait) => {
                    if !std::mem::replace(&mut reported, true) {
                        observer.noted(&format!("waiting for {}", described(folder, &process)));
                    }
                    thread::sleep(heartbeat.every.min(Duration::from_millis(200)));
                    continue;
                }
                (Holder::Unobservable(process), _) => {
                    let number = last.unwrap_or_default();
                    if gives_sign_of_life(folder, number, &process, heartbeat, observer)? {
                        if if_held == IfHeld::Refuse {
                            return Err(already_held(folder, &process));
                        }
                        continue;
                    }
                    predecessor_ended = false;
                }
            }
            let next = last.unwrap_or_default() + 1;
            if create(folder, next)? {
                break next;
            }
        };
        remove_below(folder, number);
        let (stop, stopped) = mpsc::channel::<()>();
        let own = folder.to_owned();
        let beat = move || {
            let mut beats = 0;
            while stopped.recv_timeout(heartbeat.every) == Err(RecvTimeoutError::Timeout) {
                beats += 1;
                // A failed write is visible to both sides: a follower sees no sign of life, and this holder sees that
                // it was replaced.
                let _ = rewrite(&own, number, beats, false);
            }
            let _ = rewrite(&own, number, beats + 1, true);
        };
        let thread = thread::Builder::new().name("tokenmill-owner".to_owned()).spawn(beat);
        let thread = thread.map_err(|cause| Error::io("start a thread that holds", folder, cause))?;
        Ok(Claim {
            folder: folder.to_owned(),
            number,
            predecessor_ended,
            stop: Some(stop),
            heartbeat: Some(thread),
        })
    }

    /// Refuses a folder that another process certainly holds.
    ///
    /// # Errors
    /// A running process holds the folder, or it cannot be read.
    pub(crate) fn check(folder: &Path, locked: bool) -> Result<()> {
        let Some(number) = last(folder)? else { return Ok(()) };
        match holder(folder, number, locked)? {
            Holder::Running(process) => Err(already_held(folder, &process)),
            Holder::Nobody | Holder::Unobservable(_) => Ok(()),
        }
    }

    /// Returns a number that no earlier and no later holder has.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether the previous holder has certainly ended. If not, it may wake up and continue to write.
    pub(crate) fn follows_ended(&self) -> bool {
        self.predecessor_ended
    }

    /// Checks that no other process has taken the folder because this one gave no sign of life.
    ///
    /// # Errors
    /// Another process has taken it, or the folder cannot be read.
    pub(crate) fn check_held(&self) -> Result<()> {
        match last(&self.folder)? {
            Some(number) if number == self.number => Ok(()),
            _ => Err(Error::failed(format!(
                "{}: another process took over this folder, because this process gave no sign of life for too long",
                folder_of(&self.folder).display()
            ))
            .with_help("this run leaves the files of the other one alone; run the command again when the other has ended")),
        }
    }
}

impl Drop for Claim {
    /// Marks the folder as released, and waits for that.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.heartbeat.take() {
            // A panic of the thread has no consequences here.
            let _ = thread.join();
        }
    }
}

/// Watches a holder that cannot be observed directly, for at most `heartbeat.dead_after`. Returns whether its file
/// changed in that time to anything but a release, or was followed by another.
fn gives_sign_of_life(
    folder: &Path,
    number: u64,
    process: &Process,
    heartbeat: Heartbeat,
    observer: &dyn Observer,
) -> Result<bool> {
    let before = content(folder, number)?;
    let (started_at, mut reported) = (Instant::now(), false);
    while started_at.elapsed() < heartbeat.dead_after {
        observer.checkpoint()?;
        thread::sleep(heartbeat.every.min(Duration::from_millis(200)));
        if last(folder)? != Some(number) {
            return Ok(true);
        }
        let now = content(folder, number)?;
        if now != before {
            return Ok(!parsed(&now).is_some_and(|record| record.released));
        }
        if !std::mem::replace(&mut reported, true) {
            let seconds = heartbeat.dead_after.as_secs();
            let who = described(folder, process);
            observer.noted(&format!("waiting up to {seconds} s for a sign of life from {who}"));
        }
    }
    Ok(false)
}

/// Returns the number of the last holder.
fn last(folder: &Path) -> Result<Option<u64>> {
    Ok(numbers(folder)?.into_iter().max())
}

/// Returns the numbers of all holders with a file.
fn numbers(folder: &Path) -> Result<Vec<u64>> {
    let cannot = |cause| Error::io("read", folder, cause);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let name = entry.map_err(cannot)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        // After `u64::MAX` there would be no next number. No folder gets there.
        found
            .extend(number.and_then(|number| number.parse::<u64>().ok()).filter(|&number| number < u64::MAX));
    }
    Ok(found)
}

/// Reads the file of a holder and returns its state. `locked` says that this process holds a file lock on the folder:
/// a holder under the same kernel would still hold that lock, so it has ended.
fn holder(folder: &Path, number: u64, locked: bool) -> Result<Holder> {
    let unknown = || Process::unobservable("an unknown machine", 0);
    // The file is empty for a moment after it is created.
    let record = parsed(&content(folder, number)?);
    let Some(record) = record else { return Ok(Holder::Unobservable(unknown())) };
    if record.released || (locked && record.holder.same_kernel()) {
        return Ok(Holder::Nobody);
    }
    Ok(match record.holder.is_running() {
        Some(true) => Holder::Running(record.holder),
        Some(false) => Holder::Nobody,
        None => Holder::Unobservable(record.holder),
    })
}

/// Returns the content of a holder's file; empty if the file does not exist any more.
fn content(folder: &Path, number: u64) -> Result<Vec<u8>> {
    let path = path(folder, number);
    let mut text = Vec::new();
    let opened = without_links(OpenOptions::new().read(true)).open(&path);
    match opened.and_then(|file| file.take(u64::try_from(BYTES).unwrap_or(0)).read_to_end(&mut text)) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(Error::io("read", path, cause)),
        _ => Ok(text),
    }
}

/// `None` if the file is empty or incomplete, as it can be for a moment.
fn parsed(content: &[u8]) -> Option<HolderRecord> {
    serde_json::from_slice(content).ok()
}

/// Creates the file of a holder. Returns whether this process is now the holder.
fn create(folder: &Path, number: u64) -> Result<bool> {
    let path = path(folder, number);
    let file = match without_links(OpenOptions::new().write(true).create_new(true)).open(&path) {
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        opened => opened.map_err(|cause| Error::io("create", &path, cause))?,
    };
    if let Err(cause) = write(file, 0, false) {
        let _ = fs::remove_file(&path);
        return Err(Error::io("write", path, cause));
    }
    // Other holders may have come and gone, and may have removed the file that this one follows.
    if last(folder)? == Some(number) {
        return Ok(true);
    }
    remove(&path)?;
    Ok(false)
}

/// Overwrites the file of this holder in place.
fn rewrite(folder: &Path, number: u64, beats: u64, released: bool) -> io::Result<()> {
    let file = without_links(OpenOptions::new().write(true)).open(path(folder, number))?;
    write(file, beats, released)
}

/// Writes a record, padded to [`BYTES`].
fn write(mut file: File, beats: u64, released: bool) -> io::Result<()> {
    let record = HolderRecord { holder: Process::this(), beats, released };
    let mut text = serde_json::to_string(&record).expect("plain fields with text keys");
    text.extend(std::iter::repeat_n(' ', (BYTES - 1).saturating_sub(text.len())));
    text.push('\n');
    file.write_all(text.as_bytes())
}

/// Removes the files of earlier holders. One that stays is harmless.
fn remove_below(folder: &Path, number: u64) {
    for before in numbers(folder).unwrap_or_default().into_iter().filter(|&before| before < number) {
        let _ = fs::remove_file(path(folder, before));
    }
}

/// Returns the path of the file of the holder with this number.
fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{PREFIX}{number}"))
}

// Messages name the output folder, which contains this state folder.

/// Describes a holder in messages that tell why this process waits.
fn described(folder: &Path, process: &Process) -> String {
    let Process { host, id, .. } = process;
    format!("process {id} on {host}, which writes to {}", folder_of(folder).display())
}

/// The error if the folder is held and the caller does not want to wait.
fn already_held(folder: &Path, process: &Process) -> Error {
    let Process { host, id, .. } = process;
    let folder = folder_of(folder).display();
    Error::failed(format!("{folder} is being written by another process (process {id} on {host})"))
        .with_help("wait until it has ended, or choose another folder")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::observer::Silent;

    const QUICK: Heartbeat =
        Heartbeat { every: Duration::from_millis(20), dead_after: Duration::from_millis(300) };

    fn take(folder: &Path) -> Result<Claim> {
        Claim::take(folder, false, IfHeld::Refuse, QUICK, &Silent)
    }

    /// Writes the file of a process on another machine that has ended or cannot be reached.
    fn left_by_another(folder: &Path, number: u64) {
        let holder = Process::unobservable("far", 7);
        let record = HolderRecord { holder, beats: 3, released: false };
        fs::write(path(folder, number), serde_json::to_vec(&record).expect("plain")).expect("a file");
    }

    /// A second process is refused until the first holder ends, and then gets a higher number.
    #[test]
    fn a_folder_has_one_holder_and_the_next_one_has_another_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = take(folder.path()).expect("nobody holds it");
        let error = take(folder.path()).expect_err("it is held");
        assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
        Claim::check(folder.path(), false).expect_err("it is held");
        let number = first.number();
        drop(first);
        Claim::check(folder.path(), false).expect("it is free");
        let second = take(folder.path()).expect("it is free again");
        assert!(second.number() > number && second.follows_ended());
        assert_eq!(numbers(folder.path()).expect("a folder"), [second.number()]);
    }

    /// Of many threads that take a folder at the same time, one at a time holds it.
    #[test]
    fn of_many_that_come_at_once_one_holds() {
        let folder = tempfile::tempdir().expect("a folder");
        left_by_another(folder.path(), 4);
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let taken = Claim::take(folder.path(), false, IfHeld::Wait, QUICK, &Silent);
                        let claim = taken.expect("its turn comes");
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(1));
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(claim);
                    }
                });
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert_eq!(last(folder.path()).expect("a folder"), Some(84));
    }

    /// A holder that cannot be observed is replaced after the time without a sign of life.
    #[test]
    fn one_that_cannot_be_seen_is_followed_after_some_time_without_a_sign_of_life() {
        let folder = tempfile::tempdir().expect("a folder");
        left_by_another(folder.path(), 9);
        let started_at = Instant::now();
        let claim = take(folder.path()).expect("it is dead");
        assert!(started_at.elapsed() >= QUICK.dead_after && claim.number() == 10 && !claim.follows_ended());
        drop(claim);
        fs::write(path(folder.path(), 11), "not whole").expect("a file");
        assert!(!take(folder.path()).expect("it is dead").follows_ended());
    }

    /// A holder that cannot be observed but changes its file is respected.
    #[test]
    fn one_that_cannot_be_seen_but_lives_is_heeded() {
        let folder = tempfile::tempdir().expect("a folder");
        left_by_another(folder.path(), 9);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(QUICK.dead_after / 3);
                fs::write(path(folder.path(), 9), "another content").expect("a file");
            });
            let error = take(folder.path()).expect_err("it lives");
            assert!(error.to_string().contains("process 7 on far"), "{error}");
        });
    }

    /// A holder notices that it was replaced and does not touch its successor's file.
    #[test]
    fn a_holder_learns_that_it_was_followed_and_leaves_the_other_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = take(folder.path()).expect("nobody holds it");
        first.check_held().expect("it holds");
        left_by_another(folder.path(), first.number() + 1);
        let before = content(folder.path(), first.number() + 1).expect("a file");
        assert!(first.check_held().expect_err("another does").to_string().contains("took over this folder"));
        drop(first);
        assert_eq!(content(folder.path(), 2).expect("a file"), before);
    }

    /// A link in place of a holder's file is refused, and its target keeps its content.
    #[cfg(unix)]
    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious").expect("a file");
        for number in [1, 2] {
            std::os::unix::fs::symlink(&victim, path(folder.path(), number)).expect("a link");
            take(folder.path()).expect_err("a link");
        }
        assert_eq!(fs::read(&victim).expect("a file"), b"precious");
    }

    /// A folder is locked until the lock is dropped.
    #[cfg(unix)]
    #[test]
    fn a_folder_is_locked_until_the_lock_is_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new");
        let lock = lock_folder(&path, "state", &Silent).expect("a new folder");
        let other = File::open(&path).expect("the folder");
        assert!(other.try_lock().is_err());
        drop(lock);
        assert!(other.try_lock().is_ok());
    }
}
