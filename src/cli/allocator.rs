//! What the system's allocator does with memory that is freed, and from how many heaps it serves threads.

#![expect(unsafe_code, reason = "the allocator is told by a function of the C library")]

/// So many cores share a heap. What threads allocate is large blocks, a few a batch: they hardly wait for each other.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const CORES_A_HEAP: usize = 4;

/// Keeps freed memory, up to 64 MB of it, for what comes next, instead of giving it back to the system at once;
/// and has a heap for every four cores of the machine, instead of one a thread, so that threads use what others gave back.
///
/// Stages take up and free some megabytes one after the other, and what a learning of milliseconds waits for is
/// mostly memory that it touches for the first time.
pub(super) fn keep_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let heaps = i32::try_from(cores.div_ceil(CORES_A_HEAP)).unwrap_or(i32::MAX);
        // SAFETY: no other thread runs yet that could allocate meanwhile. What is refused does no harm.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
            libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20);
            libc::mallopt(libc::M_ARENA_MAX, heaps);
        }
    }
}
