//! The program `tokenmill`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(tokenmill::cli::main(std::env::args_os()))
}
