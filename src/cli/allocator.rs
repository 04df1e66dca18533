//! Configures the system's allocator: how much freed memory it keeps, and how many heaps serve the threads.

#![expect(unsafe_code, reason = "the allocator is told by a function of the C library")]

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
pub(super) fn keep_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let heaps = i32::try_from(cores.div_ceil(CORES_A_HEAP)).unwrap_or(i32::MAX);
        // SAFETY: no other thread is running yet, so none can allocate meanwhile. A setting that is refused has no
        // effect.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
            libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20);
            libc::mallopt(libc::M_ARENA_MAX, heaps);
        }
    }
}
