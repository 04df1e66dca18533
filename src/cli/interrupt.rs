//! SIGINT and SIGTERM: the first asks the run to stop, the second ends the program at once. Standard
//! input that heeds them.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGABRT, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use super::failure::WITHOUT_MEMORY;

/// Remembers the signal that asked the program to stop.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt {
    /// The exit code of the signal that came last; 0 before any.
    code: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Begins to listen.
    pub(super) fn listen() -> io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let asked = Arc::new(AtomicBool::new(false));
        for (signal, code) in [(SIGINT, 130_u8), (SIGTERM, 143)] {
            // In this order: what ends the program looks at a flag that the first signal sets after it.
            flag::register_conditional_shutdown(signal, code.into(), Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked))?;
            flag::register_usize(signal, Arc::clone(&interrupt.code), code.into())?;
        }
        // Where an allocation fails the library of Rust says so and aborts: it can only be given another exit code.
        flag::register_conditional_shutdown(SIGABRT, WITHOUT_MEMORY.into(), Arc::new(AtomicBool::new(true)))?;
        // Listening is enough: writing past the limit of a file's size then fails instead of killing.
        flag::register(SIGXFSZ, Arc::default())?;
        Ok(interrupt)
    }

    /// Whether the program was asked to stop.
    pub(super) fn is_asked(&self) -> bool {
        self.code.load(Ordering::Relaxed) != 0
    }

    /// The exit code of the signal; that of SIGINT where there was none.
    pub(super) fn code(&self) -> u8 {
        u8::try_from(self.code.load(Ordering::Relaxed)).ok().filter(|&code| code != 0).unwrap_or(130)
    }
}

/// Standard input, for as long as the program was not asked to stop: a terminal or a pipe that nothing
/// comes from does not hold the program.
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

/// Whether there is something to read, or its end, after a short while.
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
