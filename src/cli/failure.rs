//! Messages and exit codes for commands that fail.
//!
//! There are three forms of the same message. For programs, it is a JSON object. At a terminal, miette draws it with a frame, colours and a quotation of
//! the recipe. Everywhere else it is one line for the error and one for the help, so that scripts and logs can search
//! it. Both forms hide secrets and escape control characters, because errors quote file names, servers and recipes.

use std::fmt::{self, Write as _};
use std::io;
use std::sync::Arc;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use serde_json::{Value, json};
use tokenmill::base::int::to_u64;
use tokenmill::run::Mistakes;
use tokenmill::run::recipe::Mistake;
use tokenmill::source::{with_secrets_covered, without_secrets};
use tokenmill::{Error, ErrorKind};

use super::terminal::{
    Style, WITHOUT_MEMORY, escape_controls, log_object, mask_controls, on_one_line, safe_line, with_unit,
};

/// Why a command ends before its work is done.
///
/// It is kept as it is until [`shown`](Failure::shown) formats it, because only then the style of standard error is
/// known.
#[derive(Debug)]
pub(super) enum Failure {
    /// An error of a stage. It has one message, with its causes and perhaps a help.
    Error(Error),
    /// All mistakes in the recipe or the flags. They are reported together, so that a user can fix all of them before
    /// the next attempt. Each may have a place in the recipe.
    Mistakes(Mistakes),
}

impl From<Error> for Failure {
    /// Lets `?` pass on errors of the library in functions of commands.
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

impl From<Mistakes> for Failure {
    /// Lets `?` pass on the result of planning.
    fn from(mistakes: Mistakes) -> Failure {
        Failure::Mistakes(mistakes)
    }
}

/// Exit code (3) of a command that did its work but skipped inputs.
///
/// It differs from 0 so that a script notices the loss, and from 1 because the result of all other inputs is
/// complete.
pub(super) const SKIPPED: u8 = 3;

impl Failure {
    /// Returns the kind of error, which decides the exit code. Mistakes in a recipe or in flags are always
    /// [`ErrorKind::Usage`].
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Failure::Error(error) => error.kind(),
            Failure::Mistakes(_) => ErrorKind::Usage,
        }
    }

    /// Returns the exit code. For an interruption, the caller replaces it by the code of the signal.
    ///
    /// The codes are part of the interface: the help and the manual page list them, and scripts depend on them. Kinds
    /// that the library adds later count as plain failures with code 1.
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
    ///
    /// This happens with `| head`, for example. Only the direct cause of the error counts, since a broken pipe deeper
    /// down may belong to a connection that the program itself needs.
    pub(super) fn is_closed_pipe(&self) -> bool {
        let Failure::Error(error) = self else { return false };
        let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Returns the message for the user, ending in a line break: drawn for a terminal, or plain lines. Control
    /// characters are escaped and secrets are hidden.
    ///
    /// The causes of an error follow it, from the nearest to the deepest. Mistakes come in the order of the recipe's
    /// text. If their search ended at its maximum number, a last line says that more may follow.
    ///
    /// Colours are only in messages that are drawn, so a message is also drawn where colours are forced.
    pub(super) fn shown(&self, style: Style) -> String {
        let style = Style { drawn: style.drawn || style.coloured, ..style };
        let mut text = String::new();
        let written = match self {
            Failure::Error(error) if style.drawn => draw(&Pretty::of(error), style, &mut text),
            Failure::Error(error) => plain(error, &mut text),
            Failure::Mistakes(mistakes) if style.drawn => {
                let recipe = mistakes.file().map(|(path, text)| {
                    NamedSource::new(on_one_line(path), Arc::new(mask_controls(&with_secrets_covered(text))))
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
        if style.drawn { text } else { escape_controls(&text) }
    }

    /// Returns the failure as a line of JSON, with its exit code, without a line break. Secrets are hidden.
    ///
    /// `kind` is the [name](ErrorKind::name) of the kind. Several mistakes are a list, and the message is their number.
    pub(super) fn as_json(&self) -> String {
        let (message, mut fields) = match self {
            Failure::Error(error) => {
                let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
                let causes: Vec<String> = causes.map(|cause| without_secrets(&cause.to_string())).collect();
                let help = error.help().map(without_secrets);
                (
                    without_secrets(&error.to_string()),
                    json!({ "causes": causes, "help": help, "place": null }),
                )
            }
            Failure::Mistakes(mistakes) => {
                let all: Vec<Value> =
                    mistakes.iter().map(|mistake| mistake_as_json(mistakes, mistake)).collect();
                match &all[..] {
                    [only] => (only["message"].as_str().unwrap_or_default().to_owned(), only.clone()),
                    _ => {
                        let least = if mistakes.may_be_more() { "at least " } else { "" };
                        let message = format!("{least}{}", with_unit(to_u64(all.len()), "mistake"));
                        (message, json!({ "causes": [], "help": null, "place": null, "mistakes": all }))
                    }
                }
            }
        };
        fields["kind"] = json!(self.kind().name());
        fields["exit_code"] = json!(self.code());
        log_object("error", fields.as_object().expect("made as an object"), &message)
    }
}

/// Returns a mistake as JSON: message, help, and its place if it is in a recipe.
fn mistake_as_json(mistakes: &Mistakes, mistake: &Mistake) -> Value {
    let place = mistakes.place(mistake).map(|place| without_secrets(&place.to_string()));
    let help = mistake.help.as_deref().map(without_secrets);
    json!({ "message": without_secrets(&mistake.message), "causes": [], "help": help, "place": place })
}

/// Writes an error with its causes on one line, and its help on the next.
///
/// The causes are separated by colons, as in most programs on the command line.
fn plain(error: &Error, text: &mut String) -> fmt::Result {
    write!(text, "error: {}", safe_line(&error.to_string()))?;
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        write!(text, ": {}", without_secrets(&error.to_string()))?;
        cause = error.source();
    }
    text.push('\n');
    help(error.help(), text)
}

/// Writes a mistake with its place on one line, and its help on the next. The place is that of [`Mistakes::place`]; a
/// mistake of a flag has none.
fn plain_mistake(mistakes: &Mistakes, mistake: &Mistake, text: &mut String) -> fmt::Result {
    text.push_str("error: ");
    if let Some(place) = mistakes.place(mistake) {
        write!(text, "{place}: ")?;
    }
    writeln!(text, "{}", mistake.message)?;
    help(mistake.help.as_deref(), text)
}

/// Writes the line of a help, if there is one. The two spaces at the beginning of the line show that it belongs to
/// the message above.
fn help(help: Option<&str>, text: &mut String) -> fmt::Result {
    help.map_or(Ok(()), |help| writeln!(text, "  help: {}", safe_line(help)))
}

/// Draws a failure for a terminal, 100 columns wide.
///
/// The width is fixed, so that a message looks the same in every window. One line of the recipe before and after a
/// mistake gives its context. Characters for frames are Unicode even without colours.
fn draw(pretty: &Pretty, style: Style, text: &mut String) -> fmt::Result {
    let theme = if style.coloured { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    GraphicalReportHandler::new_themed(theme)
        .with_width(100)
        .with_context_lines(1)
        .render_report(text, pretty)
}

/// A recipe's name and text, with control characters replaced and secrets hidden.
///
/// Both replacements keep the number of bytes, so the spans of mistakes, which are byte offsets, stay valid. The text
/// is shared by all mistakes of a recipe.
type Recipe = NamedSource<Arc<String>>;

/// A failure in the form that miette draws.
///
/// All texts in it are final: whoever makes one has escaped them and hidden secrets, since miette prints them as they
/// are.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Pretty {
    /// The first line.
    message: String,
    /// The error below, which miette lists under the message; `None` for mistakes.
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
    /// Describes a stage's error with its causes. No recipe is quoted, because errors of stages concern data and not
    /// the recipe.
    fn of(error: &Error) -> Pretty {
        Pretty {
            message: safe_line(&error.to_string()),
            cause: std::error::Error::source(error).map(Cause::of),
            help: error.help().map(safe_line),
            recipe: None,
            label: None,
        }
    }

    /// Describes a mistake at its place in the recipe. `recipe` is `None` if flags took its place; then only the
    /// message and the help are drawn.
    fn at(mistake: &Mistake, recipe: Option<&Recipe>) -> Pretty {
        Pretty {
            message: escape_controls(&mistake.message),
            cause: None,
            help: mistake.help.as_deref().map(safe_line),
            recipe: recipe.filter(|_| mistake.span.is_some()).cloned(),
            label: mistake.span.clone().map(LabeledSpan::underline),
        }
    }
}

/// The cause of a failure, with control characters escaped and secrets hidden.
///
/// It is a copy of an error's chain in which each link owns its text, because miette reads causes through the `Error`
/// trait and would print the original text.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Cause {
    /// The text of this link alone, without the causes below it.
    message: String,
    /// The next link; `None` at the end of the chain.
    #[source]
    cause: Option<Box<Cause>>,
}

impl Cause {
    /// Copies the whole chain, by recursion. Chains have a few links, so the depth is no concern.
    fn of(error: &(dyn std::error::Error + 'static)) -> Cause {
        let cause = error.source().map(|cause| Box::new(Cause::of(cause)));
        Cause { message: escape_controls(&without_secrets(&error.to_string())), cause }
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
        let environment = Environment { variable: &|_| None, threads: 1, memory: ByteCount(1 << 30) };
        let mistakes = plan(&recipe, &environment).expect_err("a key is unknown");
        for drawn in [true, false] {
            let shown = Failure::Mistakes(mistakes.clone()).shown(Style { drawn, coloured: false });
            assert!(shown.contains("nonsense") && !shown.contains("hidden"), "{shown}");
            assert_eq!(shown.contains("https://*********@host/a.txt?key=******"), drawn, "{shown}");
        }
    }
}
