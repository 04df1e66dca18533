//! Messages and exit codes for commands that fail.

use std::fmt::{self, Write as _};
use std::io;
use std::sync::Arc;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use tokenmill::run::Mistakes;
use tokenmill::run::recipe::Mistake;
use tokenmill::source::{with_secrets_covered, without_secrets};
use tokenmill::{Error, ErrorKind};

use super::terminal::Style;
use super::terminal::{WITHOUT_MEMORY, on_one_line, tame, tame_source, told};

/// Why a command ends before its work is done.
#[derive(Debug)]
pub(super) enum Failure {
    /// An error of a stage.
    Error(Error),
    /// All mistakes in the recipe or the flags.
    Mistakes(Mistakes),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

impl From<Mistakes> for Failure {
    fn from(mistakes: Mistakes) -> Failure {
        Failure::Mistakes(mistakes)
    }
}

/// Exit code (3) of a command that did its work but skipped inputs.
pub(super) const SKIPPED: u8 = 3;

impl Failure {
    /// Returns the kind of error, which decides the exit code.
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Failure::Error(error) => error.kind(),
            Failure::Mistakes(_) => ErrorKind::Usage,
        }
    }

    /// Returns the exit code. For an interruption, the caller replaces it by the code of the signal.
    pub(super) fn code(&self) -> u8 {
        match self.kind() {
            ErrorKind::Usage => 2,
            ErrorKind::Mismatch => 4,
            ErrorKind::Network => 5,
            ErrorKind::Authorisation => 6,
            ErrorKind::DiskFull => 7,
            ErrorKind::Memory => WITHOUT_MEMORY,
            _ => 1,
        }
    }

    /// Returns whether the failure is only that the reader of the output has closed the pipe.
    pub(super) fn is_closed_pipe(&self) -> bool {
        let Failure::Error(error) = self else { return false };
        let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Returns the message for the user, ending in a line break: drawn for a terminal, or plain lines. Control
    /// characters are escaped and secrets are hidden.
    pub(super) fn shown(&self, style: Style) -> String {
        let mut text = String::new();
        let written = match self {
            Failure::Error(error) if style.drawn => draw(&Pretty::of(error), style, &mut text),
            Failure::Error(error) => plain(error, &mut text),
            Failure::Mistakes(mistakes) if style.drawn => {
                let recipe = mistakes.file().map(|(path, text)| {
                    NamedSource::new(on_one_line(path), Arc::new(tame_source(&with_secrets_covered(text))))
                });
                let mut shown = mistakes.iter().map(|mistake| Pretty::at(mistake, recipe.as_ref()));
                shown.try_for_each(|mistake| draw(&mistake, style, &mut text))
            }
            Failure::Mistakes(mistakes) => {
                mistakes.iter().try_for_each(|mistake| plain_mistake(mistakes, mistake, &mut text))
            }
        };
        if matches!(self, Failure::Mistakes(mistakes) if mistakes.may_be_more()) {
            text.push_str("more mistakes may be reported once these are fixed\n");
        }
        debug_assert!(written.is_ok(), "a String takes all that is written");
        if style.drawn { text } else { tame(&text) }
    }
}

/// Writes an error with its causes on one line, and its help on the next.
fn plain(error: &Error, text: &mut String) -> fmt::Result {
    write!(text, "error: {}", told(&error.to_string()))?;
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        write!(text, ": {}", without_secrets(&error.to_string()))?;
        cause = error.source();
    }
    text.push('\n');
    help(error.help(), text)
}

/// Writes a mistake with its place on one line, and its help on the next.
fn plain_mistake(mistakes: &Mistakes, mistake: &Mistake, text: &mut String) -> fmt::Result {
    text.push_str("error: ");
    if let Some(place) = mistakes.place(mistake) {
        write!(text, "{place}: ")?;
    }
    writeln!(text, "{}", mistake.message)?;
    help(mistake.help.as_deref(), text)
}

/// Writes the line of a help, if there is one.
fn help(help: Option<&str>, text: &mut String) -> fmt::Result {
    help.map_or(Ok(()), |help| writeln!(text, "  help: {}", told(help)))
}

/// Draws a failure for a terminal, 100 columns wide.
fn draw(pretty: &Pretty, style: Style, text: &mut String) -> fmt::Result {
    let theme = if style.coloured { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    GraphicalReportHandler::new_themed(theme)
        .with_width(100)
        .with_context_lines(1)
        .render_report(text, pretty)
}

/// A recipe's name and text, with control characters replaced and secrets hidden.
type Recipe = NamedSource<Arc<String>>;

/// A failure in the form that miette draws.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Pretty {
    /// The first line.
    message: String,
    #[source]
    cause: Option<Cause>,
    /// What the user can do.
    help: Option<String>,
    /// The recipe to quote, if the mistake has a place in it.
    recipe: Option<Recipe>,
    /// The place to underline in the recipe.
    label: Option<LabeledSpan>,
}

impl Pretty {
    /// Describes a stage's error with its causes.
    fn of(error: &Error) -> Pretty {
        Pretty {
            message: told(&error.to_string()),
            cause: std::error::Error::source(error).map(Cause::of),
            help: error.help().map(told),
            recipe: None,
            label: None,
        }
    }

    /// Describes a mistake at its place in the recipe.
    fn at(mistake: &Mistake, recipe: Option<&Recipe>) -> Pretty {
        Pretty {
            message: tame(&mistake.message),
            cause: None,
            help: mistake.help.as_deref().map(told),
            recipe: recipe.filter(|_| mistake.span.is_some()).cloned(),
            label: mistake.span.clone().map(LabeledSpan::underline),
        }
    }
}

/// The cause of a failure, with control characters escaped and secrets hidden.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Cause {
    message: String,
    #[source]
    cause: Option<Box<Cause>>,
}

impl Cause {
    fn of(error: &(dyn std::error::Error + 'static)) -> Cause {
        let cause = error.source().map(|cause| Box::new(Cause::of(cause)));
        Cause { message: tame(&without_secrets(&error.to_string())), cause }
    }
}

impl Diagnostic for Pretty {
    fn help<'b>(&'b self) -> Option<Box<dyn fmt::Display + 'b>> {
        let help = self.help.as_ref()?;
        Some(Box::new(help))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        let recipe = self.recipe.as_ref()?;
        Some(recipe)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = self.label.clone()?;
        Some(Box::new(std::iter::once(label)))
    }
}

#[cfg(test)]
mod tests {
    use tokenmill::base::int::ByteCount;
    use tokenmill::run::{Environment, plan, recipe};

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("\x1b[31mfault")]
    struct Fault(#[source] io::Error);

    /// Messages send nothing but lines to the terminal, drawn or plain.
    #[test]
    fn what_is_drawn_sends_nothing_to_the_terminal_but_lines() {
        for drawn in [true, false] {
            let fault = Fault(io::Error::other("\x1b[32mcause"));
            let error = Error::new(ErrorKind::Failed, fault).with_help("\x1b[33mhelp");
            let shown = Failure::Error(error).shown(Style { drawn, coloured: false });
            for part in [r"\u{1b}[31mfault", r"\u{1b}[32mcause", r"\u{1b}[33mhelp"] {
                assert!(shown.contains(part), "{part}: {shown:?}");
            }
            assert!(!shown.contains('\x1b'), "{shown:?}");
        }
    }

    /// Secrets are hidden also in the neighbouring lines of a recipe, which are drawn with a mistake.
    #[test]
    fn what_is_drawn_of_a_recipe_keeps_its_secrets() {
        let text = "[source]\nuri = \"https://me:hidden@host/a.txt?key=hidden\"\nnonsense = 1\n";
        let recipe = recipe::read("r.toml", text).expect("TOML");
        let surroundings = Environment { variable: &|_| None, threads: 1, memory: ByteCount(1 << 30) };
        let mistakes = plan(&recipe, &surroundings).expect_err("a key is unknown");
        for drawn in [true, false] {
            let shown = Failure::Mistakes(mistakes.clone()).shown(Style { drawn, coloured: false });
            assert!(shown.contains("nonsense") && !shown.contains("hidden"), "{shown}");
            assert_eq!(shown.contains("https://*********@host/a.txt?key=******"), drawn, "{shown}");
        }
    }
}
