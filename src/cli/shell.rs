//! `completions`, `schema`, `man`: completion scripts, the schema of recipes and the manual page.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use super::args::Cli;
use super::failure::Failure;
use super::session::{Done, print_as_is, printing};

/// Prints the completion script for a shell.
pub(super) fn completions(shell: Shell) -> Result<Done, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tokenmill", &mut script);
    print_as_is(|out| out.write_all(&script))?;
    Ok(Done::Whole)
}

/// Prints the JSON schema with which an editor checks and completes recipes.
pub(super) fn schema() -> Result<Done, Failure> {
    print_as_is(|out| out.write_all(include_bytes!("../../docs/recipe.schema.json")))?;
    Ok(Done::Whole)
}

/// Prints the manual page of the program, followed by those of its commands.
pub(super) fn man() -> Result<Done, Failure> {
    let mut program = Cli::command();
    program.build();
    let commands: Vec<clap::Command> =
        program.get_subcommands().filter(|command| command.get_name() != "help").cloned().collect();
    let mut page = Vec::new();
    Man::new(program.clone()).render(&mut page).map_err(printing)?;
    // clap_mangen calls the text after the program's help `EXTRA`; it is the list of exit codes.
    let page = String::from_utf8_lossy(&page).replace(".SH EXTRA\nExit codes:\n", ".SH \"EXIT STATUS\"\n");
    print_as_is(|out| {
        out.write_all(page.as_bytes())?;
        commands.into_iter().try_for_each(|command| Man::new(command).render(out))
    })?;
    Ok(Done::Whole)
}
