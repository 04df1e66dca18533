//! SIGINT and SIGTERM: the first asks the run to stop, the second ends the program at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

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
