//! Exclusive use of a folder where file locks may not work, or not between machines.
//!
//! The holder is the process that created the file `owner-N` with the greatest N. The file is created exclusively, so
//! of several processes that want to follow the same holder one succeeds. Numbers only grow, since the last holder's
//! file stays; so a process that is delayed between reading and creating cannot become a second holder. The holder
//! rewrites its file every few seconds. A holder whose process cannot be observed is replaced once its file has not
//! changed for a minute by the clock of the waiting process.
//!
//! Identifies the process that writes a file, and whether it is still running.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::sync::{LazyLock, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::atomic_file::without_links;
use super::digest::sha256;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::Observer;

/// The prefix of the files' names, before the number.
const PREFIX: &str = "owner-";

/// Length of each file in bytes (1 KiB), padded with spaces, so that rewriting a file needs no more disk space.
const BYTES: usize = 1 << 10;

/// How often a holder gives a sign of life, and the time without one after which it counts as dead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pulse {
    pub(crate) every: Duration,
    pub(crate) dead_after: Duration,
}

/// 10 s and 60 s, long enough for network file systems to show a change to all machines.
impl Default for Pulse {
    fn default() -> Pulse {
        Pulse { every: Duration::from_secs(10), dead_after: Duration::from_secs(60) }
    }
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    owner: Owner,
    /// Number of signs of life that the holder has given.
    pulses: u64,
    /// Whether the holder has ended.
    released: bool,
}

/// Exclusive use of a folder by this process until this value is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    folder: PathBuf,
    number: u64,
    proven: bool,
    stop: Option<Sender<()>>,
    pulse: Option<JoinHandle<()>>,
}

/// What is known about the holder of a folder.
enum Holder {
    /// No process holds it: the last holder, if any, has ended.
    Nobody,
    Running(Owner),
    /// The holder cannot be observed and has not given a sign of life yet, so it may be dead.
    Unseen(Owner),
}

/// What to do if the holder is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfHeld {
    Refuse,
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
        pulse: Pulse,
        observer: &dyn Observer,
    ) -> Result<Claim> {
        let (mut told, mut proven) = (false, true);
        let number = loop {
            observer.checkpoint()?;
            let last = last(folder)?;
            let holder = last.map_or(Ok(Holder::Nobody), |number| holder(folder, number, locked))?;
            match (holder, if_held) {
                (Holder::Nobody, _) => {}
                (Holder::Running(owner), IfHeld::Refuse) => return Err(held(folder, &owner)),
                (Holder::Running(owner), IfHeld::Wait) => {
                    if !std::mem::replace(&mut told, true) {
                        observer.noted(&format!("waiting for {}", described(folder, &owner)));
                    }
                    std::thread::sleep(pulse.every.min(Duration::from_millis(200)));
                    continue;
                }
                (Holder::Unseen(owner), _) => {
                    let number = last.unwrap_or_default();
                    if shows_life(folder, number, &owner, pulse, observer)? {
                        if if_held == IfHeld::Refuse {
                            return Err(held(folder, &owner));
                        }
                        continue;
                    }
                    proven = false;
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
            let mut pulses = 0;
            while stopped.recv_timeout(pulse.every) == Err(RecvTimeoutError::Timeout) {
                pulses += 1;
                // A failed write is visible to both sides: a follower sees no sign of life, and this holder sees that
                // it was replaced.
                let _ = rewrite(&own, number, pulses, false);
            }
            let _ = rewrite(&own, number, pulses + 1, true);
        };
        let thread = std::thread::Builder::new().name("tokenmill-owner".to_owned()).spawn(beat);
        let thread = thread.map_err(|cause| Error::io("start a thread that holds", folder, cause))?;
        Ok(Claim { folder: folder.to_owned(), number, proven, stop: Some(stop), pulse: Some(thread) })
    }

    /// Refuses a folder that another process certainly holds.
    ///
    /// # Errors
    /// A running process holds the folder, or it cannot be read.
    pub(crate) fn check(folder: &Path, locked: bool) -> Result<()> {
        let Some(number) = last(folder)? else { return Ok(()) };
        match holder(folder, number, locked)? {
            Holder::Running(owner) => Err(held(folder, &owner)),
            Holder::Nobody | Holder::Unseen(_) => Ok(()),
        }
    }

    /// Returns a number that no earlier and no later holder has.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether the previous holder has certainly ended. If not, it may wake up and continue to write.
    pub(crate) fn follows_ended(&self) -> bool {
        self.proven
    }

    /// Checks that no other process has taken the folder because this one gave no sign of life.
    ///
    /// # Errors
    /// Another process has taken it, or the folder cannot be read.
    pub(crate) fn check_held(&self) -> Result<()> {
        match last(&self.folder)? {
            Some(number) if number == self.number => Ok(()),
            _ => Err(Error::new(ErrorKind::Failed, Lost { folder: self.folder.clone() })
                .with_help("this run leaves the files of the other one alone; run the command again when the other has ended")),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.pulse.take() {
            // A panic of the thread has no consequences here.
            let _ = thread.join();
        }
    }
}

/// Watches a holder that cannot be observed directly, for at most `pulse.dead_after`. Returns whether its file
/// changed in that time to anything but a release, or was followed by another.
fn shows_life(
    folder: &Path,
    number: u64,
    owner: &Owner,
    pulse: Pulse,
    observer: &dyn Observer,
) -> Result<bool> {
    let before = content(folder, number)?;
    let (begun, mut told) = (Instant::now(), false);
    while begun.elapsed() < pulse.dead_after {
        observer.checkpoint()?;
        std::thread::sleep(pulse.every.min(Duration::from_millis(200)));
        if last(folder)? != Some(number) {
            return Ok(true);
        }
        let now = content(folder, number)?;
        if now != before {
            return Ok(!parsed(&now).is_some_and(|record| record.released));
        }
        if !std::mem::replace(&mut told, true) {
            let seconds = pulse.dead_after.as_secs();
            let who = described(folder, owner);
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

/// Reads the file of a holder and returns what is known about it.
fn holder(folder: &Path, number: u64, locked: bool) -> Result<Holder> {
    let unknown = || Owner::unseen("an unknown machine", 0);
    // The file is empty for a moment after it is created.
    let record = parsed(&content(folder, number)?);
    let Some(record) = record else { return Ok(Holder::Unseen(unknown())) };
    if record.released || (locked && record.owner.same_kernel()) {
        return Ok(Holder::Nobody);
    }
    Ok(match record.owner.is_running() {
        Some(true) => Holder::Running(record.owner),
        Some(false) => Holder::Nobody,
        None => Holder::Unseen(record.owner),
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

fn parsed(content: &[u8]) -> Option<Record> {
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
    super::atomic_file::remove(&path)?;
    Ok(false)
}

/// Overwrites the file of this holder in place.
fn rewrite(folder: &Path, number: u64, pulses: u64, released: bool) -> io::Result<()> {
    let file = without_links(OpenOptions::new().write(true)).open(path(folder, number))?;
    write(file, pulses, released)
}

/// Writes a record, padded to [`BYTES`].
fn write(mut file: File, pulses: u64, released: bool) -> io::Result<()> {
    let record = Record { owner: Owner::this().clone(), pulses, released };
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

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{PREFIX}{number}"))
}

/// Returns the folder to name in messages: the one whose state folder this is.
fn shown(folder: &Path) -> &Path {
    super::atomic_file::folder_of(folder)
}

fn described(folder: &Path, owner: &Owner) -> String {
    let Owner { host, process, .. } = owner;
    format!("process {process} on {host}, which writes to {}", shown(folder).display())
}

fn held(folder: &Path, owner: &Owner) -> Error {
    let fault = Held { folder: shown(folder).to_owned(), process: owner.process, host: owner.host.clone() };
    Error::new(ErrorKind::Failed, fault).with_help("wait until it has ended, or choose another folder")
}

#[derive(Debug, thiserror::Error)]
#[error("{} is being written by another process (process {process} on {host})", folder.display())]
struct Held {
    folder: PathBuf,
    process: u32,
    host: String,
}

#[derive(Debug, thiserror::Error)]
#[error("{}: another process took over this folder, because this process gave no sign of life for too long", shown(folder).display())]
struct Lost {
    folder: PathBuf,
}

/// Number of characters in a file name that identify a machine (6) and a process (7).
const MACHINE_CHARS: usize = 6;
const PROCESS_CHARS: usize = 7;

/// A process, identified across machines and containers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// The machine's host name.
    pub(crate) host: String,
    /// The kernel's boot id and the process's PID namespace; empty if the system has none.
    boot: String,
    namespace: String,
    /// The process id.
    pub(crate) process: u32,
    /// The start time of the process in clock ticks since boot; 0 if unknown. It distinguishes processes that reuse
    /// an id.
    started: u64,
}

static THIS: LazyLock<Owner> = LazyLock::new(|| Owner {
    host: host(),
    boot: first_line("/proc/sys/kernel/random/boot_id"),
    namespace: std::fs::read_link("/proc/self/ns/pid")
        .map(|link| link.to_string_lossy().into_owned())
        .unwrap_or_default(),
    process: std::process::id(),
    started: start_of(std::process::id()),
});

impl Owner {
    /// Returns this process.
    pub(crate) fn this() -> &'static Owner {
        &THIS
    }

    /// Returns a process that cannot be observed from here.
    pub(crate) fn unseen(host: &str, process: u32) -> Owner {
        Owner {
            host: host.to_owned(),
            boot: "another".to_owned(),
            namespace: String::new(),
            process,
            started: 0,
        }
    }

    /// Returns whether the process ran under this kernel. All processes under one kernel share its file locks.
    pub(crate) fn same_kernel(&self) -> bool {
        !self.boot.is_empty() && self.boot == THIS.boot
    }

    /// Returns whether the process is still running. `None` if it cannot be observed, because it belongs to another
    /// machine or container.
    pub(crate) fn is_running(&self) -> Option<bool> {
        let visible = match THIS.boot.is_empty() {
            true => self.boot.is_empty() && self.host == THIS.host,
            false => self.same_kernel() && self.namespace == THIS.namespace,
        };
        if !visible {
            return None;
        }
        let started = start_of(self.process);
        Some(runs(self.process)? && (started == 0 || self.started == 0 || started == self.started))
    }

    /// Returns [`TAG_CHARS`](Owner::TAG_CHARS) letters and digits that identify the process in file names.
    pub(crate) fn tag(&self) -> String {
        let process = format!("{:0>width$}", base36(u64::from(self.process)), width = PROCESS_CHARS);
        format!("{}{process}", self.machine())
    }

    /// Returns whether the process that a [tag](Owner::tag) identifies is still running; `None` if it cannot be
    /// observed.
    pub(crate) fn tagged_is_running(tag: &str) -> Option<bool> {
        let (machine, process) = tag.split_at_checked(MACHINE_CHARS)?;
        if machine != THIS.machine() {
            return None;
        }
        runs(u32::from_str_radix(process, 36).ok()?)
    }

    /// Number of characters in a [tag](Owner::tag).
    pub(crate) const TAG_CHARS: usize = MACHINE_CHARS + PROCESS_CHARS;

    /// Returns the part of the tag that identifies the machine and the container.
    fn machine(&self) -> String {
        let machine = sha256(format!("{}\n{}\n{}", self.boot, self.namespace, self.host));
        machine[..MACHINE_CHARS].to_owned()
    }
}

fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(u32::try_from(number % 36).unwrap_or(0), 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

/// Returns the first line of a file; empty if it cannot be read.
fn first_line(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// Returns the start time of a process from Linux's `/proc`, in clock ticks since boot; 0 if unknown.
fn start_of(process: u32) -> u64 {
    let stat = first_line(&format!("/proc/{process}/stat"));
    // The program's name is in parentheses and may contain any character, even a parenthesis.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_whitespace().nth(19).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    String::new()
}

/// Returns whether a process with this id exists.
#[cfg(unix)]
fn runs(process: u32) -> Option<bool> {
    let process = rustix::process::Pid::from_raw(i32::try_from(process).ok()?)?;
    // Signalling a process of another user is not permitted, but the error shows that the process exists.
    Some(!matches!(rustix::process::test_kill_process(process), Err(rustix::io::Errno::SRCH)))
}

#[cfg(not(unix))]
fn runs(_process: u32) -> Option<bool> {
    None
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::observer::Silent;

    const QUICK: Pulse = Pulse { every: Duration::from_millis(20), dead_after: Duration::from_millis(300) };

    fn take(folder: &Path) -> Result<Claim> {
        Claim::take(folder, false, IfHeld::Refuse, QUICK, &Silent)
    }

    /// Writes the file of a process on another machine that has ended or cannot be reached.
    fn left_by_another(folder: &Path, number: u64) {
        let owner = Owner::unseen("far", 7);
        let record = Record { owner, pulses: 3, released: false };
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
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let taken = Claim::take(folder.path(), false, IfHeld::Wait, QUICK, &Silent);
                        let claim = taken.expect("its turn comes");
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(1));
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
        let begun = Instant::now();
        let claim = take(folder.path()).expect("it is dead");
        assert!(begun.elapsed() >= QUICK.dead_after && claim.number() == 10 && !claim.follows_ended());
        drop(claim);
        fs::write(path(folder.path(), 11), "not whole").expect("a file");
        assert!(!take(folder.path()).expect("it is dead").follows_ended());
    }

    /// A holder that cannot be observed but changes its file is respected.
    #[test]
    fn one_that_cannot_be_seen_but_lives_is_heeded() {
        let folder = tempfile::tempdir().expect("a folder");
        left_by_another(folder.path(), 9);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(QUICK.dead_after / 3);
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

    /// Running processes are distinguished from ended ones.
    #[cfg(unix)]
    #[test]
    fn processes_that_run_are_told_from_those_that_ended() {
        let this = Owner::this();
        assert_eq!(this.is_running(), Some(true));
        assert_eq!(Owner::tagged_is_running(&this.tag()), Some(true));
        assert_eq!(this.tag().len(), Owner::TAG_CHARS);
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        let ended = Owner { process: child.id(), started: 0, ..this.clone() };
        child.wait().expect("its end");
        assert_eq!(ended.is_running(), Some(false));
        assert_eq!(Owner::tagged_is_running(&ended.tag()), Some(false));
    }

    /// A process that reuses the id of an ended one is not mistaken for it.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_number_that_another_process_has_now_is_no_sign_of_life() {
        let this = Owner::this();
        assert!(this.started > 0);
        let before = Owner { started: this.started - 1, ..this.clone() };
        assert_eq!(before.is_running(), Some(false));
    }

    /// Processes of other machines and containers cannot be observed.
    #[test]
    fn of_other_machines_and_containers_nothing_is_seen() {
        let this = Owner::this();
        let others = [
            Owner { boot: "another".to_owned(), ..this.clone() },
            Owner { namespace: "pid:[1]".to_owned(), boot: "another".to_owned(), ..this.clone() },
        ];
        for other in others {
            assert_eq!(other.is_running(), None);
            assert_eq!(Owner::tagged_is_running(&other.tag()), None);
        }
        for nonsense in ["", "Abc123", "ééé1234567890"] {
            assert_eq!(Owner::tagged_is_running(nonsense), None, "{nonsense}");
        }
    }
}
