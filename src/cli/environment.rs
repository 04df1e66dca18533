//! The program's environment: variables, processors, memory and its allocator.
//!
//! It asks the system for everything that a plan depends on. The library receives the answers as an [`Environment`],
//! so that tests and other programs can give their own. Every question may remain without an answer, in a sandbox or
//! on another system; then a cautious default is used.

#![expect(unsafe_code, reason = "the allocator is told by a function of the C library")]

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use tokenmill::base::int::ByteCount;
use tokenmill::run::Environment;

/// Returns the facts about the environment that a recipe depends on. A variable that is not UTF-8 counts as unset.
/// Each call asks the system again, which costs some reads of `/proc` and `/sys`.
pub fn system_environment() -> Environment<'static> {
    Environment { variable: &|name| env::var(name).ok(), threads: processors(), memory: memory_limit() }
}

/// Returns the number of processors that the program may use: the least of the machine's, its CPU affinity's and its
/// cgroup's, and no more than the limit on open files permits.
///
/// Each thread reads a file of its own, so more threads than open files permit would fail in the middle of a run. 1
/// if the system does not say how many processors there are.
fn processors() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    open_files().map_or(processors, |limit| processors.min(threads_with_files(limit)))
}

/// Returns how many threads can each read a file if a process may have `limit` files open; at least 1.
fn threads_with_files(limit: u64) -> usize {
    /// Open files of the program itself (32): standard streams, signals, the lock, the journals and the file that is
    /// written, with some to spare.
    const PROGRAM: u64 = 32;
    /// Open files per thread (4): the file that it reads, and its columns.
    const A_THREAD: u64 = 4;
    usize::try_from(limit.saturating_sub(PROGRAM) / A_THREAD).unwrap_or(usize::MAX).max(1)
}

/// Returns how many files this process may have open, if there is a limit. `None` also means no limit, on systems
/// that have none or do not report it.
fn open_files() -> Option<u64> {
    #[cfg(unix)]
    {
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current
    }
    #[cfg(not(unix))]
    None
}

/// Raises the limit on open files to the maximum that the system permits. Shells often set a low one for
/// compatibility with old programs.
///
/// It must run before [`system_environment`], which derives the number of threads from the limit. Only the soft limit
/// changes, up to the hard one, which needs no privilege.
pub(super) fn allow_more_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // If the system refuses, the lower limit stays.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Memory limit in bytes (4 GB) if the system does not report its memory.
const UNKNOWN_MEMORY: ByteCount = ByteCount(4_000_000_000);

/// Returns the memory of the machine or the limit of the cgroup, whichever is less.
///
/// Memory in use by other programs counts too, so the same machine always plans a run in the same way.
fn memory_limit() -> ByteCount {
    let machine = kilobytes(Path::new("/proc/meminfo"), "MemTotal:");
    [machine, cgroup_limit()].into_iter().flatten().min().map_or(UNKNOWN_MEMORY, ByteCount)
}

/// Returns the least memory limit from the program's own cgroup up to the root. For cgroups of version 1, this is the
/// root's limit.
///
/// A cgroup may have a higher limit than the groups around it, so all of them count. The word `max`, which means no
/// limit, does not parse as a number and is skipped. `None` outside Linux, and if no cgroup has a limit.
fn cgroup_limit() -> Option<u64> {
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let root = Path::new("/sys/fs/cgroup");
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let unified = Path::new(own).ancestors().map(|group| number(root.join(group).join("memory.max")));
    let legacy = number(root.join("memory/memory.limit_in_bytes"));
    unified.chain([legacy]).flatten().min()
}

/// Returns an amount in bytes from the line of a `/proc` file that gives it in kilobytes. `key` is the beginning of
/// the line, with its colon. The kilobytes of `/proc` have 1024 bytes. `None` if the file, the line or its unit is
/// missing.
fn kilobytes(file: &Path, key: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the memory that the program holds now, if the system reports it. This is the resident set: the pages in
/// RAM, without swapped pages.
pub(super) fn memory_held() -> Option<ByteCount> {
    kilobytes(Path::new("/proc/self/status"), "VmRSS:").map(ByteCount)
}

/// Returns the processor time of all threads so far, if the system reports it. It includes the time that the kernel
/// worked for the process. Threads that have ended count too.
pub(super) fn processor_time() -> Option<Duration> {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
    }
    #[cfg(not(unix))]
    None
}

/// Number of cores that share a heap (4). Threads allocate a few large blocks per batch, so they hardly wait for each
/// other.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const CORES_A_HEAP: usize = 4;

/// Makes the allocator keep up to 64 MB of freed memory for reuse, instead of returning it to the system at once.
/// Also makes it use one heap per four cores of the machine, instead of one per thread, so that threads reuse memory
/// which other threads freed. Does nothing on systems other than Linux with glibc.
///
/// Stages allocate and free some megabytes one after another. Training that takes milliseconds mostly waits for
/// memory that is touched for the first time.
///
/// It must be called before another thread allocates, since `mallopt` changes what all threads allocate with. Blocks
/// of 32 MiB and more are still returned at once when they are freed.
pub(super) fn keep_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let heaps = i32::try_from(cores.div_ceil(CORES_A_HEAP)).unwrap_or(i32::MAX);
        // SAFETY: the other threads of the process, if there are any, wait for the program to end, so none can
        // allocate meanwhile. A setting that is refused has no effect.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
            libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20);
            libc::mallopt(libc::M_ARENA_MAX, heaps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A low limit on open files gives few threads, but at least one.
    #[test]
    fn few_open_files_are_for_few_threads() {
        let threads = [0, 10, 36, 40, 256, 1 << 40].map(threads_with_files);
        assert_eq!(threads[..5], [1, 1, 1, 2, 56]);
        assert!(threads[5] > 1 << 30);
    }
}
