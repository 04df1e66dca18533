//! Completion scripts and the manual page.

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::args::Cli;
use super::failure::Failure;
use super::session::{Done, print};

pub(super) fn completions(shell: Shell) -> Result<Done, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tokenmill", &mut script);
    print(|out| std::io::Write::write_all(out, &script))?;
    Ok(Done::Whole)
}

/// The page of the program, followed by those of its commands.
pub(super) fn man() -> Result<Done, Failure> {
    let mut program = Cli::command();
    program.build();
    let commands: Vec<Command> =
        program.get_subcommands().filter(|command| command.get_name() != "help").cloned().collect();
    print(|out| {
        Man::new(program.clone()).render(out)?;
        commands.into_iter().try_for_each(|command| Man::new(command).render(out))
    })?;
    Ok(Done::Whole)
}
