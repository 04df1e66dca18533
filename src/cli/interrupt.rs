//! SIGINT and SIGTERM: the first signal asks the run to stop, the second ends the program at once. Also standard
//! input that reacts to them.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGABRT, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use super::failure::WITHOUT_MEMORY;

/// Records the signal that asked the program to stop.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt {
    /// The exit code of the last signal; 0 before any.
    code: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Installs the signal handlers.
    pub(super) fn listen() -> io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let asked = Arc::new(AtomicBool::new(false));
        for (signal, code) in [(SIGINT, 130_u8), (SIGTERM, 143)] {
            // Order matters: the conditional shutdown reads a flag that the first signal sets only afterwards.
            flag::register_conditional_shutdown(signal, code.into(), Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked))?;
            flag::register_usize(signal, Arc::clone(&interrupt.code), code.into())?;
        }
        // If an allocation fails, Rust's library prints a message and aborts. Only the exit code can be changed.
        flag::register_conditional_shutdown(SIGABRT, WITHOUT_MEMORY.into(), Arc::new(AtomicBool::new(true)))?;
        // A handler that does nothing is enough: writing past the limit of a file's size then fails instead of
        // killing the program.
        flag::register(SIGXFSZ, Arc::default())?;
        Ok(interrupt)
    }

    /// Returns whether the program was asked to stop.
    pub(super) fn is_asked(&self) -> bool {
        self.code.load(Ordering::Relaxed) != 0
    }

    /// Returns the exit code of the signal; that of SIGINT if there was none.
    pub(super) fn code(&self) -> u8 {
        u8::try_from(self.code.load(Ordering::Relaxed)).ok().filter(|&code| code != 0).unwrap_or(130)
    }
}

/// Standard input that fails once the program was asked to stop, so that a terminal or a pipe that delivers nothing
/// does not block the program.
#[derive(Debug)]
pub(super) struct Input {
    interrupt: Interrupt,
}

impl Input {
    pub(super) fn new(interrupt: Interrupt) -> Input {
        Input { interrupt }
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut stdin = io::stdin();
        loop {
            if self.interrupt.is_asked() {
                return Err(io::Error::other(tokenmill::Error::interrupted()));
            }
            if has_input(&stdin)? {
                return stdin.read(into);
            }
        }
    }
}

/// Waits up to 200 ms and returns whether standard input has data or has ended.
#[cfg(unix)]
fn has_input(stdin: &io::Stdin) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    const WHILE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    match poll(&mut [PollFd::new(stdin, PollFlags::IN)], Some(&WHILE)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(cause) => Err(cause.into()),
    }
}

#[cfg(not(unix))]
fn has_input(_stdin: &io::Stdin) -> io::Result<bool> {
    Ok(true)
}
