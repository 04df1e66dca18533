//! The command line: reads flags, prints results on standard output and messages on standard error.
//!
//! No other module prints, reads the environment, or decides how the program ends.
//!
//! A command on data has four steps. `args` parses the command line. `flags` turns the arguments into a recipe,
//! so that a command and a recipe file take the same way from there on. `Session::plan` checks the recipe and
//! completes it from the environment. The function of the command then calls the library and prints the result.
//!
//! Standard output carries results alone: text for people, or JSON with `--json`. Everything else goes to standard
//! error, so that a pipe never receives a message. Text from outside is escaped before a terminal sees it; see
//! `terminal`.

mod evaluate;
mod decode;
mod tokens;
mod terminal;
mod environment;
mod args;
mod flags;
mod progress;
mod failure;
mod session;
mod cluster;
mod jobs;
mod inspect;
mod convert;
mod explore;
mod push;

use std::ffi::OsString;
use std::io::{Write, stderr};
use std::thread;

use args::{Cli, Command, Global, parser};
use clap::error::ErrorKind;
use clap::{ColorChoice, FromArgMatches, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;
use failure::Failure;
use serde_json::json;
use session::{Done, Session, print_as_is, printing};
use terminal::{Interrupt, LogFormat, Style, choose_colours, escape_controls, log_object};
use tokenmill::split::Instructions;

#[doc(hidden)]
pub use cluster::{WantedCluster, estimated};
#[doc(hidden)]
pub use environment::system_environment;
#[doc(hidden)]
pub use jobs::{outcome_as_json, plan_as_json, sum_as_json};
#[doc(hidden)]
pub use push::pushed_as_json;
#[doc(hidden)]
pub use session::{hub, read_text, stores};

/// Bytes of stack for the thread that runs the program. The stack of the main thread is as large as `ulimit -s`
/// says, which can be too small.
const STACK_BYTES: usize = 8 << 20;

/// The exit code after a panic, as of every Rust program.
const PANICKED: u8 = 101;

/// Runs the program with these words of a command line and returns its exit code. The first word is the name of the
/// program.
///
/// It is for a process that does nothing else: it changes settings of the allocator, the limit on open files, signal
/// handlers and the panic hook, and does not restore them. None of them changes before the call.
pub fn main(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    let copy = words.clone();
    match thread::Builder::new().stack_size(STACK_BYTES).spawn(move || program(&copy)) {
        Ok(program) => program.join().unwrap_or(PANICKED),
        // Without memory for another thread, this thread does the work.
        Err(_) => program(&words),
    }
}

/// Runs the program on this thread and returns its exit code.
///
/// The code is 0 if all was done, 3 if inputs were skipped, that of the signal after an interruption, and otherwise
/// the [code](Failure::code) of the failure. A closed output pipe is no failure.
///
/// The order of the steps matters. The allocator is set up before any thread runs. Arguments are parsed before the
/// signal handlers are installed, so help and usage errors need no handlers. The hook for panics is set before any
/// work, because decoders of damaged files may panic.
fn program(words: &[OsString]) -> u8 {
    environment::keep_freed();
    environment::allow_more_files();
    let parsed = parser().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(refusal) => return refused(&refusal, words),
    };
    choose_colours(cli.global.color);
    quiet_caught_panics();
    let interrupt = match Interrupt::listen() {
        Ok(interrupt) => interrupt,
        Err(cause) => {
            return failed(&tokenmill::Error::io("listen to", "signals", cause).into(), &cli.global);
        }
    };
    let session = Session::new(&cli.global, words, interrupt.clone());
    match run(&cli.command, &session) {
        Ok(Done::Whole) => 0,
        Ok(Done::Skipped) => failure::SKIPPED,
        Err(failure) if failure.is_closed_pipe() => 0,
        Err(failure) if failure.kind() == tokenmill::ErrorKind::Interrupted => {
            let message = interrupted(&cli.command, &session.command_line(), session.has_downloaded());
            match is_json(&cli.global) {
                true => say(&interrupted_as_json(&message, interrupt.code())),
                false => say(&message),
            }
            interrupt.code()
        }
        Err(failure) => failed(&failure, &cli.global),
    }
}

/// Prints what the parser says in place of a command: help, the version, or a mistake. Returns the exit code.
///
/// The parser stops at the first of these, so flags that concern the message are looked up in the command line.
fn refused(refusal: &clap::Error, words: &[OsString]) -> u8 {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    choose_colours(colour_among(&words));
    let is_verbose = |word: &String| matches!(word.as_str(), "--verbose" | "-v" | "-vV" | "-Vv");
    // If nobody reads the message, the exit code still shows the failure.
    if refusal.kind() == ErrorKind::DisplayVersion && words.iter().any(is_verbose) {
        let _ = print_as_is(|out| out.write_all(version_in_full().as_bytes()));
    } else if refusal.use_stderr() && wants_json(&words) {
        return failed_in_json(&usage(refusal));
    } else {
        let _ = refusal.print();
    }
    u8::try_from(refusal.exit_code()).unwrap_or(2)
}

/// Returns the value of `--color` in a command line that the parser did not finish.
fn colour_among(words: &[String]) -> Option<ColorChoice> {
    let values = words.iter().skip(1).map(String::as_str).chain([""]);
    let value = |(word, next)| str::strip_prefix(word, "--color=").or((word == "--color").then_some(next));
    let value = words.iter().map(String::as_str).zip(values).find_map(value)?;
    ColorChoice::from_str(value, false).ok()
}

/// Returns the version, the commit, the features of the build, and the instructions that splitting uses on this CPU.
///
/// A build knows its commit if `TOKENMILL_COMMIT` was set for it.
fn version_in_full() -> String {
    let features = if cfg!(feature = "hub") { "hub" } else { "none" };
    format!(
        "tokenmill {}\ncommit        {}\nfeatures      {features}\ninstructions  {}\n",
        tokenmill::VERSION,
        option_env!("TOKENMILL_COMMIT").unwrap_or("not recorded"),
        Instructions::best().name(),
    )
}

/// Runs a command. Each command has one function, with its arguments and the session as parameters. The function
/// prints its own result and returns only whether inputs were skipped.
///
/// # Errors
/// Whatever ends the command early. Nothing has been printed about it; [`program`] does that.
fn run(command: &Command, session: &Session<'_>) -> Result<Done, Failure> {
    match command {
        Command::Run(args) => jobs::run(args, session),
        Command::Plan(args) => jobs::preview(args, session),
        Command::Train(args) => jobs::train(args, session),
        Command::Count(args) => jobs::count(args, session),
        Command::MergeCounts(args) => jobs::merge_counts(args, session),
        Command::Merge(args) => jobs::merge(args, session),
        Command::Encode(args) => jobs::encode(args, session),
        Command::Decode(args) => decode::decode(args, session),
        Command::Tokens(args) => tokens::tokens(args, session),
        Command::Inspect(args) => inspect::inspect(args, session),
        Command::Convert(args) => convert::convert(args, session),
        Command::Push(args) => push::push(args, session),
        Command::Explore(args) => explore::explore(args, session),
        Command::Compare(args) => evaluate::compare(args, session),
        Command::Verify(args) => evaluate::verify(args, session),
        Command::VerifyMerges(args) => evaluate::verify_merges(args, session),
        Command::Bench(args) => evaluate::bench(args, session),
        Command::Completions { shell } => completions(*shell),
        Command::Schema => schema(),
        Command::Man => man(),
    }
}

/// Silences the message of a decoder's panic that is caught and becomes an error; the error is reported alone.
///
/// The earlier hook stays in use for all other panics, since those are bugs and their message helps to report them.
/// The library marks the threads that catch panics; see [`is_catching_panics`](tokenmill::error::is_catching_panics).
fn quiet_caught_panics() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !tokenmill::error::is_catching_panics() {
            default_hook(panic);
        }
    }));
}

/// Returns whether errors are printed as JSON: if results are, or if all messages are.
fn is_json(global: &Global) -> bool {
    global.json || global.log_format == LogFormat::Json
}

/// Returns the same for a command line that cannot be parsed, from its words.
fn wants_json(words: &[String]) -> bool {
    words.iter().any(|word| word == "--json" || word == "--log-format=json")
        || words.windows(2).any(|pair| pair[0] == "--log-format" && pair[1] == "json")
}

/// Returns a mistake in the command line as a failure. Its first paragraph is the message, the others are the help.
fn usage(refusal: &clap::Error) -> Failure {
    let text = refusal.render().to_string();
    let (message, help) = text.trim().split_once("\n\n").unwrap_or((text.trim(), ""));
    let error = tokenmill::Error::usage(message.strip_prefix("error: ").unwrap_or(message));
    Failure::Error(if help.is_empty() { error } else { error.with_help(help.trim().to_owned()) })
}

/// Prints a failure and returns its exit code. The message goes to standard error in every mode, also with `--quiet`.
fn failed(failure: &Failure, global: &Global) -> u8 {
    if is_json(global) {
        return failed_in_json(failure);
    }
    say(&failure.shown(Style::of(&stderr())));
    failure.code()
}

/// Does the same in JSON.
fn failed_in_json(failure: &Failure) -> u8 {
    say(&(failure.as_json() + "\n"));
    failure.code()
}

/// Prints a message. An error is ignored, since standard error is the only place to report it. The message must end
/// with a line break, and must already be escaped for a terminal.
fn say(message: &str) {
    let _ = stderr().write_all(message.as_bytes());
}

/// Returns the message after an interruption: how to continue.
///
/// `run` and `encode` keep a journal and continue. The hub keeps the files that `push` has sent. The other commands
/// keep no partial result, but they keep downloads, even parts of files. The command line is shown with secrets
/// hidden, so a user may have to fill them in again.
fn interrupted(command: &Command, command_line: &str, has_downloaded: bool) -> String {
    let to = match command {
        Command::Run(_) | Command::Encode(_) => "continue from what is finished",
        Command::Push(_) => "continue from what is sent",
        _ if has_downloaded => "continue from what is downloaded",
        _ => "start over",
    };
    let command = escape_controls(command_line);
    format!(
        "interrupted; no incomplete file has its final name. To {to}, give the same command again:\n  {command}\n"
    )
}

/// Returns the message after an interruption as a line of JSON. Its second line, the command, becomes the help.
fn interrupted_as_json(message: &str, code: u8) -> String {
    let (message, command) = message.trim_end().split_once(":\n  ").unwrap_or((message, ""));
    let fields = json!({
        "causes": [], "help": command, "place": null,
        "kind": tokenmill::ErrorKind::Interrupted.name(), "exit_code": code,
    });
    log_object("error", fields.as_object().expect("made as an object"), message) + "\n"
}

/// Prints the completion script for a shell.
///
/// The script covers every command and flag, because clap derives it from the same definition that it parses with.
///
/// # Errors
/// Standard output cannot be written to, as for [`schema`] and [`man`].
fn completions(shell: Shell) -> Result<Done, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut parser(), "tokenmill", &mut script);
    print_as_is(|out| out.write_all(&script))?;
    Ok(Done::Whole)
}

/// Prints the JSON schema with which an editor checks and completes recipes.
///
/// The schema is a file of the repository that is compiled in, so it always belongs to this version of the program.
fn schema() -> Result<Done, Failure> {
    print_as_is(|out| out.write_all(include_bytes!("../../docs/recipe.schema.json")))?;
    Ok(Done::Whole)
}

/// Prints the manual page of the program, followed by those of its commands.
///
/// All pages are one stream in roff, for `man -l -` or a file. The pages of the commands follow in the order of the
/// help. The page of clap's own `help` command is left out.
fn man() -> Result<Done, Failure> {
    // clap_mangen prints no text for a flag that the short help leaves out.
    let shown = |command: clap::Command| command.mut_args(|flag| flag.hide_short_help(false));
    let mut program = shown(parser()).mut_subcommands(shown);
    program.build();
    let commands = program.get_subcommands().filter(|command| command.get_name() != "help").cloned();
    let mut pages = Vec::new();
    for command in std::iter::once(program.clone()).chain(commands) {
        Man::new(command).render(&mut pages).map_err(printing)?;
    }
    // clap_mangen calls the text after a help `EXTRA`: the list of exit codes, or examples.
    let pages = String::from_utf8_lossy(&pages)
        .replace(".SH EXTRA\nExit codes:\n", ".SH \"EXIT STATUS\"\n")
        .replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n")
        .replace(".SH EXTRA\nExample:\n", ".SH EXAMPLES\n");
    print_as_is(|out| out.write_all(pages.as_bytes()))?;
    Ok(Done::Whole)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// After an interruption, the message says what is kept.
    #[test]
    fn an_interruption_says_what_is_kept() {
        let message = |words: &[&str], has_downloaded| {
            let cli = Cli::try_parse_from([&["tokenmill"], words].concat()).expect("a command line");
            interrupted(&cli.command, &words.join(" "), has_downloaded)
        };
        let train = ["train", "a.txt", "-o", "made", "--vocab-size", "300"];
        assert!(message(&train, false).contains("To start over, give the same command again:\n  "));
        assert!(message(&train, true).contains("To continue from what is downloaded, give the same"));
        for has_downloaded in [false, true] {
            let run = message(&["run", "r.toml"], has_downloaded);
            assert!(run.contains("To continue from what is finished, give the same"), "{run}");
        }
        let json = interrupted_as_json(&message(&train, false), 130);
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!((&json["kind"], &json["exit_code"]), (&json!("interrupted"), &json!(130)));
        let said = json["message"].as_str().expect("a text");
        assert!(said.ends_with("To start over, give the same command again"), "{said}");
    }
}
