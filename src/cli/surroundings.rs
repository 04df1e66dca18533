//! What the program finds around it: terminal, variables, processors, memory. Nothing else reads the
//! environment.

use std::env;
use std::fs;
use std::io::{IsTerminal, stderr, stdout};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use tokenmill::Result;
use tokenmill::run::{Plan, Surroundings};
use tokenmill::source::{HubSettings, OpenContext, ReadConfig, StoreSettings, tokenizer_path};
use tokenmill::units::ByteCount;

use super::progress::Progress;

/// How messages look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// Whether messages are drawn for people at a terminal.
    pub(super) drawn: bool,
    /// Whether they are coloured.
    pub(super) coloured: bool,
}

impl Style {
    /// For what goes to standard error.
    pub(super) fn of_messages() -> Style {
        Style { drawn: stderr().is_terminal(), coloured: colours_wanted() && stderr().is_terminal() }
    }
}

/// Whether results on standard output are read on a terminal, and whether in colours.
pub(super) fn results_style() -> Style {
    Style { drawn: stdout().is_terminal(), coloured: colours_wanted() && stdout().is_terminal() }
}

/// `NO_COLOR`, unless empty, turns colours off, and so does a terminal that has none.
fn colours_wanted() -> bool {
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// What a recipe cannot say by itself.
pub(super) fn surroundings() -> Surroundings<'static> {
    Surroundings { variable: &|name| env::var(name).ok(), threads: processors(), memory: memory_limit() }
}

/// The processors that the program may use: of the machine, its affinity and its cgroup the least; and no more than may
/// have files open.
fn processors() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    open_files().map_or(processors, |limit| processors.min(threads_with_files(limit)))
}

/// How many threads may each read a file where a process may have this many files open.
fn threads_with_files(limit: u64) -> usize {
    /// Standard streams, signals, the lock, the journals and the file that is written, with some to spare.
    const PROGRAM: u64 = 32;
    /// A file that is read, and each of its columns.
    const A_THREAD: u64 = 4;
    usize::try_from(limit.saturating_sub(PROGRAM) / A_THREAD).unwrap_or(usize::MAX).max(1)
}

/// How many files this process may have open, where there is a limit.
fn open_files() -> Option<u64> {
    #[cfg(unix)]
    {
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current
    }
    #[cfg(not(unix))]
    None
}

/// Raises the limit of open files to what the system allows: shells often set a lower one for programs of old.
pub(super) fn allow_more_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // Where it is refused the lower one holds.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Memory where nothing tells how much there is.
const UNKNOWN_MEMORY: ByteCount = ByteCount(4_000_000_000);

/// The memory of the machine or of the cgroup, whichever is less.
fn memory_limit() -> ByteCount {
    let machine = kilobytes(Path::new("/proc/meminfo"), "MemTotal:");
    [machine, cgroup_limit()].into_iter().flatten().min().map_or(UNKNOWN_MEMORY, ByteCount)
}

/// The least limit from the program's own cgroup up to the root; of version 1 that of the root.
fn cgroup_limit() -> Option<u64> {
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let root = Path::new("/sys/fs/cgroup");
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let unified = Path::new(own).ancestors().map(|group| number(root.join(group).join("memory.max")));
    let legacy = number(root.join("memory/memory.limit_in_bytes"));
    unified.chain([legacy]).flatten().min()
}

/// A line of a file of `/proc` that gives an amount in kilobytes.
fn kilobytes(file: &Path, key: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The memory that the program holds now, where the system tells.
pub(super) fn memory_held() -> Option<ByteCount> {
    kilobytes(Path::new("/proc/self/status"), "VmRSS:").map(ByteCount)
}

/// The processor time of all threads so far, where the system tells.
pub(super) fn processor_time() -> Option<Duration> {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
    }
    #[cfg(not(unix))]
    None
}

/// What opening sources takes from outside: standard input, and how to reach the hub and object stores.
pub(super) fn open_context<'a>(plan: &Plan, progress: &'a Progress) -> OpenContext<'a> {
    let context = OpenContext::new(progress);
    // What is left is for the text that is read and what is made of it.
    let config = ReadConfig { window_bytes: plan.memory.0 / 2, readers: plan.threads, ..context.config };
    OpenContext {
        config,
        stdin: Mutex::new(Some(Box::new(progress.input()))),
        hub: HubSettings { noted: progress.note(), ..hub() },
        stores: stores(),
        stop: progress.stop(),
        ..context
    }
}

/// Object stores as their own tools find them.
fn stores() -> StoreSettings {
    let known = |name: &str| ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|prefix| name.starts_with(prefix));
    let text =
        env::vars_os().filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
    StoreSettings { variables: text.filter(|(name, value)| known(name) && !value.is_empty()).collect() }
}

/// Where the tokenizer lies that is named by its path, or as one of the hub or one that is known.
pub(super) fn tokenizer(name: impl AsRef<Path>, progress: &Progress) -> Result<PathBuf> {
    tokenizer_path(name, &HubSettings { noted: progress.note(), ..hub() }, progress)
}

/// The hub as Python's `huggingface_hub` finds it.
fn hub() -> HubSettings {
    HubSettings::from_variables(&|name| env::var(name).ok(), env::home_dir().as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_open_files_are_for_few_threads() {
        let threads = [0, 10, 36, 40, 256, 1 << 40].map(threads_with_files);
        assert_eq!(threads[..5], [1, 1, 1, 2, 56]);
        assert!(threads[5] > 1 << 30);
    }
}
