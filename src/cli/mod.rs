//! The command line: flags in, results on standard output, all else on standard error.
//!
//! Nothing else prints, reads the environment, or decides how the program ends.

mod args;
mod flags;
mod surroundings;
mod allocator;
mod interrupt;
mod progress;
mod failure;
mod session;
mod shown;
mod page;
mod jobs;
mod preview;
mod count;
mod inspect;
mod tokens;
mod decode;
mod convert;
mod compare;
mod verify;
mod bench;
mod shell;

use std::io::{Write, stderr};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::{Cli, Command};
use failure::Failure;
use interrupt::Interrupt;
use session::{Done, Session};
use shown::tame;
use surroundings::Style;

/// Runs the program and gives the code with which it ends.
pub(crate) fn main() -> ExitCode {
    allocator::keep_freed();
    surroundings::allow_more_files();
    // So that `--seed -1` is a wrong seed and not an unknown flag.
    let command = Cli::command().mut_subcommands(|command| command.allow_negative_numbers(true));
    let parsed = command.try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(refusal) => {
            // Where nobody reads it, the code still tells.
            let _ = refusal.print();
            return ExitCode::from(u8::try_from(refusal.exit_code()).unwrap_or(2));
        }
    };
    quiet_caught_panics();
    let interrupt = match Interrupt::listen() {
        Ok(interrupt) => interrupt,
        Err(cause) => {
            return failed(&tokenmill::Error::io("listen to", "signals", cause).into());
        }
    };
    let session = Session::new(&cli.global, interrupt.clone());
    match run(&cli.command, &session) {
        Ok(Done::Whole) => ExitCode::SUCCESS,
        Ok(Done::Skipped) => ExitCode::from(failure::SKIPPED),
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) if failure.kind() == tokenmill::ErrorKind::Interrupted => {
            say(&interrupted(&cli.command));
            ExitCode::from(interrupt.code())
        }
        Err(failure) => failed(&failure),
    }
}

fn run(command: &Command, session: &Session<'_>) -> Result<Done, Failure> {
    match command {
        Command::Run(args) => jobs::run(args, session),
        Command::Plan(args) => preview::preview(args, session),
        Command::Train(args) => jobs::train(args, session),
        Command::Count(args) => count::count(args, session),
        Command::MergeCounts(args) => count::merge(args, session),
        Command::Encode(args) => jobs::encode(args, session),
        Command::Decode(args) => decode::decode(args, session),
        Command::Tokens(args) => tokens::tokens(args, session),
        Command::Inspect(args) => inspect::inspect(args, session),
        Command::Convert(args) => convert::convert(args, session),
        Command::Compare(args) => compare::compare(args, session),
        Command::Verify(args) => verify::verify(args, session),
        Command::VerifyMerges(args) => verify::verify_merges(args, session),
        Command::Bench(args) => bench::bench(args, session),
        Command::Completions { shell } => shell::completions(*shell),
        Command::Schema => shell::schema(),
        Command::Man => shell::man(),
    }
}

/// A decoder's panic that becomes an error is told as that alone.
fn quiet_caught_panics() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !tokenmill::panics::is_catching() {
            told(panic);
        }
    }));
}

fn failed(failure: &Failure) -> ExitCode {
    say(&failure.shown(Style::of_messages()));
    ExitCode::from(failure.code())
}

fn say(message: &str) {
    let _ = stderr().write_all(message.as_bytes());
}

/// What to say after an interruption.
fn interrupted(command: &Command) -> String {
    let goes_on = matches!(command, Command::Run(_) | Command::Encode(_));
    let to = if goes_on { "go on from what is finished" } else { "begin anew" };
    let command = tame(&session::command_line());
    format!(
        "interrupted; no half-written file stands under its name. To {to}, give the same command again:\n  {command}\n"
    )
}
