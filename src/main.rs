//! The program `tokenmill`.

mod cli;

use std::process::ExitCode;
use std::thread;

/// Bytes of the stack of the thread that does what the program does. That of the process is as `ulimit -s` says, which
/// can be too little.
const STACK_BYTES: usize = 8 << 20;

fn main() -> ExitCode {
    match thread::Builder::new().stack_size(STACK_BYTES).spawn(cli::main) {
        Ok(program) => program.join().unwrap_or(ExitCode::from(101)),
        // Where there is no memory for another thread this one does.
        Err(_) => cli::main(),
    }
}
