//! Which process writes a file, and whether it still runs.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::digest::sha256;

/// How many characters name a machine in a file name, and a process.
const MACHINE_CHARS: usize = 6;
const PROCESS_CHARS: usize = 7;

/// A process, as it is named to processes of this and of other machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// The name of the machine.
    pub(crate) host: String,
    /// The kernel's boot id and the process's PID namespace; empty where the system has none.
    boot: String,
    namespace: String,
    /// The number of the process.
    pub(crate) process: u32,
    /// When the process started, in ticks since the boot; 0 where the system does not tell.
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
    /// This process.
    pub(crate) fn this() -> &'static Owner {
        &THIS
    }

    /// A process of which nothing can be seen from here.
    pub(crate) fn unseen(host: &str, process: u32) -> Owner {
        Owner {
            host: host.to_owned(),
            boot: "another".to_owned(),
            namespace: String::new(),
            process,
            started: 0,
        }
    }

    /// Whether the process ran under this kernel, whose locks all its processes share.
    pub(crate) fn same_kernel(&self) -> bool {
        !self.boot.is_empty() && self.boot == THIS.boot
    }

    /// Whether the process still runs; `None` if that cannot be seen from here: it is of another machine or container.
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

    /// Letters and digits that name the process in file names.
    pub(crate) fn tag(&self) -> String {
        let process = format!("{:0>width$}", base36(u64::from(self.process)), width = PROCESS_CHARS);
        format!("{}{process}", self.machine())
    }

    /// Whether the process still runs that a [tag](Owner::tag) names; `None` if that cannot be seen from here.
    pub(crate) fn tagged_is_running(tag: &str) -> Option<bool> {
        let (machine, process) = tag.split_at_checked(MACHINE_CHARS)?;
        if machine != THIS.machine() {
            return None;
        }
        runs(u32::from_str_radix(process, 36).ok()?)
    }

    /// How many characters a [tag](Owner::tag) has.
    pub(crate) const TAG_CHARS: usize = MACHINE_CHARS + PROCESS_CHARS;

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

fn first_line(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// When a process started, as Linux tells it.
fn start_of(process: u32) -> u64 {
    let stat = first_line(&format!("/proc/{process}/stat"));
    // The name of the program stands in brackets, and may have any characters in it.
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

/// Whether there is a process of this number.
#[cfg(unix)]
fn runs(process: u32) -> Option<bool> {
    let process = rustix::process::Pid::from_raw(i32::try_from(process).ok()?)?;
    // Of a process of another user the system says that it may not be signalled.
    Some(!matches!(rustix::process::test_kill_process(process), Err(rustix::io::Errno::SRCH)))
}

#[cfg(not(unix))]
fn runs(_process: u32) -> Option<bool> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[cfg(target_os = "linux")]
    #[test]
    fn a_number_that_another_process_has_now_is_no_sign_of_life() {
        let this = Owner::this();
        assert!(this.started > 0);
        let before = Owner { started: this.started - 1, ..this.clone() };
        assert_eq!(before.is_running(), Some(false));
    }

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
