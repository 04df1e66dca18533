//! Identifies the process that writes a file, also across machines and containers, and says whether it is still
//! running.

use serde::{Deserialize, Serialize};

use super::integrity::sha256;
use super::lazy::Lazy;

/// Number of characters (6) in a file name that identify a machine and a container.
const MACHINE_CHARS: usize = 6;
/// Number of characters (7) in a file name that identify a process: enough for 32 bits in base 36.
const PROCESS_CHARS: usize = 7;

/// A process, identified across machines and containers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    /// The machine's host name.
    pub(crate) host: String,
    /// The kernel's boot id, which is new after each start; empty if the system has none.
    boot: String,
    /// The process's PID namespace, which containers have of their own; empty if the system has none.
    namespace: String,
    /// The process id.
    pub(crate) id: u32,
    /// The start time of the process in clock ticks since boot; 0 if unknown. It distinguishes processes that reuse
    /// an id.
    started: u64,
}

/// This machine and container, as a process without an id. It is described once, since its facts do not change. A process
/// that is forked has another id than its parent, but is at the same place.
static HERE: Lazy<Process> = Lazy::new(|| Process {
    host: host(),
    boot: first_line("/proc/sys/kernel/random/boot_id"),
    namespace: std::fs::read_link("/proc/self/ns/pid")
        .map(|link| link.to_string_lossy().into_owned())
        .unwrap_or_default(),
    id: 0,
    started: 0,
});

impl Process {
    /// Returns this process.
    pub(crate) fn this() -> Process {
        let id = std::process::id();
        Process { id, started: start_of(id), ..HERE.clone() }
    }

    /// Returns a process that cannot be observed from here.
    pub(crate) fn unobservable(host: &str, id: u32) -> Process {
        Process {
            host: host.to_owned(),
            boot: "another".to_owned(),
            namespace: String::new(),
            id,
            started: 0,
        }
    }

    /// Returns whether the process ran under this kernel. All processes under one kernel share its file locks.
    pub(crate) fn same_kernel(&self) -> bool {
        !self.boot.is_empty() && self.boot == HERE.boot
    }

    /// Returns whether the process is still running. `None` if it cannot be observed, because it belongs to another
    /// machine or container.
    pub(crate) fn is_running(&self) -> Option<bool> {
        let visible = match HERE.boot.is_empty() {
            true => self.boot.is_empty() && self.host == HERE.host,
            false => self.same_kernel() && self.namespace == HERE.namespace,
        };
        if !visible {
            return None;
        }
        let started = start_of(self.id);
        Some(runs(self.id)? && (started == 0 || self.started == 0 || started == self.started))
    }

    /// Returns [`TAG_CHARS`](Process::TAG_CHARS) letters and digits that identify the process in file names.
    pub(crate) fn tag(&self) -> String {
        let id = format!("{:0>width$}", base36(u64::from(self.id)), width = PROCESS_CHARS);
        format!("{}{id}", self.machine())
    }

    /// Returns whether the process that a [tag](Process::tag) identifies is still running; `None` if it cannot be
    /// observed.
    pub(crate) fn tagged_is_running(tag: &str) -> Option<bool> {
        let (machine, id) = tag.split_at_checked(MACHINE_CHARS)?;
        if machine != HERE.machine() {
            return None;
        }
        runs(u32::from_str_radix(id, 36).ok()?)
    }

    /// Number of characters in a [tag](Process::tag).
    pub(crate) const TAG_CHARS: usize = MACHINE_CHARS + PROCESS_CHARS;

    /// Returns the part of the tag that identifies the machine and the container.
    fn machine(&self) -> String {
        let machine = sha256(format!("{}\n{}\n{}", self.boot, self.namespace, self.host));
        machine[..MACHINE_CHARS].to_owned()
    }
}

/// Returns a number in digits from `0` to `z`, without leading zeros.
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
fn start_of(id: u32) -> u64 {
    let stat = first_line(&format!("/proc/{id}/stat"));
    // The program's name is in parentheses and may contain any character, even a parenthesis.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_whitespace().nth(19).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// Returns the machine's host name.
#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns an empty name: the host name is not known on this system.
#[cfg(not(unix))]
fn host() -> String {
    String::new()
}

/// Returns whether a process with this id exists.
#[cfg(unix)]
fn runs(id: u32) -> Option<bool> {
    let process = rustix::process::Pid::from_raw(i32::try_from(id).ok()?)?;
    // Signalling a process of another user is not permitted, but the error shows that the process exists.
    Some(!matches!(rustix::process::test_kill_process(process), Err(rustix::io::Errno::SRCH)))
}

/// Returns `None`: processes cannot be observed on this system.
#[cfg(not(unix))]
fn runs(_process: u32) -> Option<bool> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Running processes are distinguished from ended ones.
    #[cfg(unix)]
    #[test]
    fn processes_that_run_are_told_from_those_that_ended() {
        let this = Process::this();
        assert_eq!(this.is_running(), Some(true));
        assert_eq!(Process::tagged_is_running(&this.tag()), Some(true));
        assert_eq!(this.tag().len(), Process::TAG_CHARS);
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        let ended = Process { id: child.id(), started: 0, ..this.clone() };
        child.wait().expect("its end");
        assert_eq!(ended.is_running(), Some(false));
        assert_eq!(Process::tagged_is_running(&ended.tag()), Some(false));
    }

    /// A process that reuses the id of an ended one is not mistaken for it.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_number_that_another_process_has_now_is_no_sign_of_life() {
        let this = Process::this();
        assert!(this.started > 0);
        let before = Process { started: this.started - 1, ..this.clone() };
        assert_eq!(before.is_running(), Some(false));
    }

    /// Processes of other machines and containers cannot be observed.
    #[test]
    fn of_other_machines_and_containers_nothing_is_seen() {
        let this = Process::this();
        let others = [
            Process { boot: "another".to_owned(), ..this.clone() },
            Process { namespace: "pid:[1]".to_owned(), boot: "another".to_owned(), ..this.clone() },
        ];
        for other in others {
            assert_eq!(other.is_running(), None);
            assert_eq!(Process::tagged_is_running(&other.tag()), None);
        }
        for nonsense in ["", "Abc123", "ééé1234567890"] {
            assert_eq!(Process::tagged_is_running(nonsense), None, "{nonsense}");
        }
    }
}
