//! What the system's allocator does with memory that is freed.

#![expect(unsafe_code, reason = "the allocator is told by a function of the C library")]

/// Keeps freed memory, up to 64 MB of it, for what comes next, instead of giving it back to the system at once.
///
/// Stages take up and free some megabytes one after the other, and what a learning of milliseconds waits for is
/// mostly memory that it touches for the first time.
pub(super) fn keep_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: no other thread runs yet that could allocate meanwhile. What is refused does no harm.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20);
    }
}
