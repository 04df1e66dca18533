//! The id of this process, by which a forked process is told from its parent.
//!
//! Every call that encodes asks for it. The system call takes longer than encoding a short text, so the id is kept, and
//! the C library renews it in each process that it forks.

#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "the C library takes a function that it calls in forked processes")
)]

use std::process;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// The id of this process; 0 if it is not kept.
static KEPT: AtomicU32 = AtomicU32::new(0);

/// The id of this process.
pub(crate) fn id() -> u32 {
    match KEPT.load(Relaxed) {
        0 => process::id(),
        kept => kept,
    }
}

/// Keeps the id from now on, where the C library can renew it.
pub(crate) fn keep_id() {
    #[cfg(target_os = "linux")]
    {
        extern "C" fn renew() {
            KEPT.store(process::id(), Relaxed);
        }
        // SAFETY: `renew` may be called in a forked process: it makes a system call and stores a number.
        if unsafe { libc::pthread_atfork(None, None, Some(renew)) } == 0 {
            renew();
        }
    }
}
