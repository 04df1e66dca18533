//! The program `tokenmill`.

mod cli;

use std::process::ExitCode;
use std::thread;

/// Bytes of stack for the thread that runs the program. The stack of the main thread is as large as `ulimit -s`
/// says, which can be too small.
const STACK_BYTES: usize = 8 << 20;

fn main() -> ExitCode {
    match thread::Builder::new().stack_size(STACK_BYTES).spawn(cli::main) {
        Ok(program) => program.join().unwrap_or(ExitCode::from(101)),
        // Without memory for another thread, the main thread does the work.
        Err(_) => cli::main(),
    }
}
