//! `tokens`: shows the tokens of a text, the merges that lead to them, or the text of token ids.
//!
//! The command is for people, so it escapes what would not be visible. Only the text of `--decode` is printed byte for
//! byte.

use std::io::{self, IsTerminal, Read, Write, stdout};
use std::path::Path;

use anstyle::{AnsiColor, Color, Style};
use serde_json::{Value, json};
use tokenmill::base::int::to_u64;
use tokenmill::encode::{EncodeConfig, Encoder};
use tokenmill::report::tokens_to_html;
use tokenmill::run::shown_token;
use tokenmill::vocab::{Vocabulary, load};
use tokenmill::{Error, Result, TokenId};
use unicode_width::UnicodeWidthStr;

use super::args::TokensArgs;
use super::decode::json_line;
use super::failure::Failure;
use super::session::{self, Done, Session, print, print_as_is, read_file, tokenizer};
use super::terminal::{self, Input, columns, visible, with_unit};

/// The background colours of tokens, in turn. Neighbouring tokens have different colours, so no separator is needed.
/// Red is left for special tokens.
const COLOURS: [AnsiColor; 5] = [
    AnsiColor::BrightBlue,
    AnsiColor::BrightGreen,
    AnsiColor::BrightYellow,
    AnsiColor::BrightMagenta,
    AnsiColor::BrightCyan,
];

/// The text between tokens if there are no colours and no `--separator`. Tokens that contain it are not escaped, so
/// only `--json` shows every border.
const SEPARATOR: &str = "|";

/// Runs `tokens`: prints the tokens of a text one after another, with their ids, as ids only, as JSON, or after each
/// merge. `--html` writes a page instead. `--decode` prints the text of ids.
///
/// The text is encoded as one document. The totals are printed as a message.
///
/// # Errors
/// The text cannot be read or encoded, the page cannot be written, a text is too long for `--steps`, or an id of
/// `--decode` has no token.
pub(super) fn tokens(args: &TokensArgs, session: &Session<'_>) -> Result<Done, Failure> {
    session::check(args.html.as_deref())?;
    let progress = session.progress();
    let vocabulary =
        load(&tokenizer(&args.tokenizer.tokenizer, &progress)?, &args.tokenizer.split.options(), &progress)?;
    drop(progress);
    if let Some(ids) = &args.decode {
        print_decoded(&vocabulary, ids, session)?;
        return Ok(Done::Whole);
    }
    let (special, missing_bytes) = (args.special.unwrap_or_default(), args.missing_bytes.unwrap_or_default());
    let config = EncodeConfig { special, missing_bytes, ..EncodeConfig::default() };
    let encoder = Encoder::new(vocabulary, config)?;
    let text = text(args, session)?;
    if args.steps {
        print_steps(&encoder, &text, args, session)?;
        return Ok(Done::Whole);
    }
    let progress = session.progress();
    let ids = encoder.observed_worker(&progress).encode(&text)?.to_vec();
    drop(progress);
    print_tokens(encoder.vocabulary(), &ids, args, session)?;
    say_totals(&ids, &text, "", session);
    Ok(Done::Whole)
}

/// Returns the text to encode: that of the argument or of the file, or standard input if there is neither or the name
/// is `-`. It need not be UTF-8.
///
/// An argument that is also the name of a file is encoded all the same, and a message says so.
///
/// # Errors
/// The file or standard input cannot be read, or the program was asked to stop.
fn text(args: &TokensArgs, session: &Session<'_>) -> Result<Vec<u8>> {
    match (&args.text, &args.file) {
        (Some(text), _) if text != "-" => {
            if Path::new(text).is_file() {
                session.say(&format!(
                    "these are the tokens of the name {text}; for those of the file's content use `--file {text}`"
                ));
            }
            Ok(text.as_bytes().to_vec())
        }
        (_, Some(path)) if path != "-" => {
            let interrupt = session.interrupt();
            read_file(path, u64::MAX, &|| interrupt.is_asked())
        }
        _ => standard_input(session),
    }
}

/// Returns all of standard input. A message says so if a person has to type it.
///
/// # Errors
/// It cannot be read, or the program was asked to stop.
fn standard_input(session: &Session<'_>) -> Result<Vec<u8>> {
    if io::stdin().is_terminal() {
        session.say("reading from the terminal; Ctrl-D at the start of a line ends the text");
    }
    let mut text = Vec::new();
    Input::new(session.interrupt())
        .read_to_end(&mut text)
        .map_err(|cause| Error::io("read", "standard input", cause))?;
    Ok(text)
}

/// Prints the tokens of a text in the form that the flags ask for.
///
/// # Errors
/// Standard output or the page cannot be written to.
fn print_tokens(
    vocabulary: &Vocabulary,
    ids: &[TokenId],
    args: &TokensArgs,
    session: &Session<'_>,
) -> Result<()> {
    if let Some(path) = &args.html {
        let shown: Vec<_> = ids.iter().map(|&id| shown_token(vocabulary, id)).collect();
        session.write(path, &tokens_to_html(&shown))?;
    }
    let look = Look::of(vocabulary, args);
    if session.json() {
        session.print_json(&as_json(vocabulary, ids))
    } else if args.ids {
        let ids: Vec<String> = ids.iter().map(TokenId::to_string).collect();
        print(|out| writeln!(out, "{}", ids.join(" ")))
    } else if args.with_ids {
        print_as_is(|out| look.write_with_ids(ids, columns(), out))
    } else if args.html.is_none() {
        print_as_is(|out| look.write_tokens(ids, out))
    } else {
        Ok(())
    }
}

/// Prints how the pre-tokens of a short text are merged: a line for their bytes, and one after each merge. An empty
/// line is between two pre-tokens.
///
/// # Errors
/// Those of [`Encoder::steps`], or standard output cannot be written to.
fn print_steps(encoder: &Encoder, text: &[u8], args: &TokensArgs, session: &Session<'_>) -> Result<()> {
    let (vocabulary, steps) = (encoder.vocabulary(), encoder.steps(text)?);
    let look = Look::of(vocabulary, args);
    let in_json = |steps: &Vec<Vec<TokenId>>| steps.iter().map(|ids| as_json(vocabulary, ids)).collect();
    if session.json() {
        session.print_json(&steps.iter().map(in_json).collect::<Vec<Vec<_>>>())?;
    } else {
        print_as_is(|out| {
            for (number, steps) in steps.iter().enumerate() {
                if number > 0 {
                    writeln!(out)?;
                }
                steps.iter().try_for_each(|ids| look.write_line(ids, out).and_then(|()| writeln!(out)))?;
            }
            Ok(())
        })?;
    }
    let ids: Vec<TokenId> = steps.iter().filter_map(|steps| steps.last()).flatten().copied().collect();
    let merges = steps.iter().map(|steps| steps.len() - 1).sum();
    say_totals(&ids, text, &format!(", {}", with_unit(to_u64(merges), "merge")), session);
    Ok(())
}

/// Prints the number of tokens and bytes as a message, followed by `more`.
fn say_totals(ids: &[TokenId], text: &[u8], more: &str, session: &Session<'_>) {
    let (tokens, bytes) = (to_u64(ids.len()), to_u64(text.len()));
    session.say(&format!("{}, {}{more}", with_unit(tokens, "token"), with_unit(bytes, "byte")));
}

/// Prints the text of ids, byte for byte and with a line break after it, or as a JSON object. The ids are read from
/// standard input if they are given as `-`.
///
/// # Errors
/// A word is no id of the vocabulary, standard input cannot be read, or standard output cannot be written to.
fn print_decoded(vocabulary: &Vocabulary, ids: &str, session: &Session<'_>) -> Result<()> {
    let ids = match ids {
        "-" => String::from_utf8_lossy(&standard_input(session)?).into_owned(),
        ids => ids.to_owned(),
    };
    let ids = read_ids(&ids, vocabulary.id_limit())?;
    let mut text = Vec::new();
    vocabulary.decode(&ids, &mut text)?;
    let line = if session.json() { json_line(Some(&text)) } else { text };
    print_as_is(|out| out.write_all(&line).and_then(|()| out.write_all(b"\n")))
}

/// Reads ids that are separated by white space or commas, perhaps in brackets, as JSON and Python write a list.
///
/// # Errors
/// A word is not a 32-bit number. The message names the ids below `limit`.
fn read_ids(text: &str, limit: usize) -> Result<Vec<TokenId>> {
    let words = text.split(|c: char| c.is_whitespace() || ",[]".contains(c)).filter(|word| !word.is_empty());
    let id = |word: &str| {
        word.parse().map(TokenId::new).map_err(|_| {
            let highest = limit.saturating_sub(1);
            Error::usage(format!(
                "`--decode`: {word:?} is not a token id; this vocabulary has ids from 0 to {highest}"
            ))
            .with_help("write ids with spaces or commas between them, such as `--decode '12 7 99'`")
        })
    };
    words.map(id).collect()
}

/// Returns tokens as JSON objects, each with its id and its text, or its bytes if they are not UTF-8. Bytes are a list
/// of numbers.
fn as_json(vocabulary: &Vocabulary, ids: &[TokenId]) -> Vec<Value> {
    let token = |&id: &TokenId| {
        let bytes = vocabulary.bytes(id).unwrap_or_default();
        match std::str::from_utf8(bytes) {
            Ok(text) => json!({ "id": id, "text": text }),
            Err(_) => json!({ "id": id, "bytes": bytes }),
        }
    };
    ids.iter().map(token).collect()
}

/// How tokens are drawn.
struct Look<'a> {
    /// It has the texts of the tokens.
    vocabulary: &'a Vocabulary,
    /// Whether each token has a background colour.
    coloured: bool,
    /// The text between two tokens; `None` if it was not chosen.
    separator: Option<&'a str>,
}

impl<'a> Look<'a> {
    /// The colours are those of standard output.
    fn of(vocabulary: &'a Vocabulary, args: &'a TokensArgs) -> Look<'a> {
        let coloured = terminal::Style::of(&stdout()).coloured;
        Look { vocabulary, coloured, separator: args.separator.as_deref() }
    }

    /// Returns the text between two tokens. `coloured` is its default where colours show the borders.
    fn separator_or(&self, coloured: &'a str) -> &'a str {
        self.separator.unwrap_or(if self.coloured { coloured } else { SEPARATOR })
    }

    /// Returns the bytes of a token.
    fn bytes(&self, id: TokenId) -> &'a [u8] {
        self.vocabulary.bytes(id).unwrap_or_default()
    }

    /// Writes a token, the `number`-th of its text.
    fn write_token(&self, number: usize, id: TokenId, out: &mut dyn Write) -> io::Result<()> {
        let text = visible(self.bytes(id));
        if self.coloured {
            let style = style(number, self.vocabulary.special(id).is_some());
            return write!(out, "{style}{text}{style:#}");
        }
        write!(out, "{text}")
    }

    /// Writes tokens one after another, without an end of the line.
    fn write_line(&self, ids: &[TokenId], out: &mut dyn Write) -> io::Result<()> {
        for (number, &id) in ids.iter().enumerate() {
            if number > 0 {
                write!(out, "{}", self.separator_or(""))?;
            }
            self.write_token(number, id, out)?;
        }
        Ok(())
    }

    /// Writes the tokens of a text. A token that ends with a line break also ends the printed line. The result ends
    /// with a line break even if the text does not.
    fn write_tokens(&self, ids: &[TokenId], out: &mut dyn Write) -> io::Result<()> {
        let mut at_start = true;
        for (number, &id) in ids.iter().enumerate() {
            if !at_start {
                write!(out, "{}", self.separator_or(""))?;
            }
            self.write_token(number, id, out)?;
            at_start = self.bytes(id).ends_with(b"\n");
            if at_start {
                writeln!(out)?;
            }
        }
        if at_start { Ok(()) } else { writeln!(out) }
    }

    /// Writes the tokens of a text with the id of each below it, in rows of at most `columns` columns. An empty line is
    /// between two rows.
    ///
    /// A row also ends after a token that ends with a line break. A token that is wider than a row has its own.
    fn write_with_ids(&self, ids: &[TokenId], columns: usize, out: &mut dyn Write) -> io::Result<()> {
        let separator = self.separator_or(" ");
        let widths: Vec<[usize; 2]> =
            ids.iter().map(|&id| [visible(self.bytes(id)).width(), id.to_string().width()]).collect();
        let ends_row = |at: usize| self.bytes(ids[at]).ends_with(b"\n");
        for (number, row) in rows(&widths, separator.width(), columns, ends_row).into_iter().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            let pad = |at: usize, width: usize| {
                let cell = widths[at].into_iter().max().unwrap_or_default();
                if at + 1 < row.end { format!("{:1$}{separator}", "", cell - width) } else { "\n".to_owned() }
            };
            for at in row.clone() {
                self.write_token(at, ids[at], out)?;
                write!(out, "{}", pad(at, widths[at][0]))?;
            }
            for at in row.clone() {
                write!(out, "{}{}", ids[at], pad(at, widths[at][1]))?;
            }
        }
        Ok(())
    }
}

/// Divides cells into rows of at most `columns` columns. Each cell is as wide as the greater of its two widths, and
/// `between` columns are between two cells. A row has at least one cell, and ends after each cell for which `ends_row`
/// returns `true`.
fn rows(
    widths: &[[usize; 2]],
    between: usize,
    columns: usize,
    ends_row: impl Fn(usize) -> bool,
) -> Vec<std::ops::Range<usize>> {
    let mut rows = Vec::new();
    let (mut start, mut used) = (0, 0);
    for (at, width) in widths.iter().map(|widths| widths[0].max(widths[1])).enumerate() {
        let is_new = at == start;
        if !is_new && (used + between + width > columns || ends_row(at - 1)) {
            rows.push(start..at);
            (start, used) = (at, width);
        } else {
            used += width + if is_new { 0 } else { between };
        }
    }
    if start < widths.len() {
        rows.push(start..widths.len());
    }
    rows
}

/// Returns the style of a token: special tokens are red, others alternate. Black on a coloured background is readable
/// on dark and light terminals.
fn style(number: usize, special: bool) -> Style {
    let background = if special { AnsiColor::BrightRed } else { COLOURS[number % COLOURS.len()] };
    Style::new().fg_color(Some(Color::Ansi(AnsiColor::Black))).bg_color(Some(Color::Ansi(background)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows are filled up to the last column, and end where they must.
    #[test]
    fn rows_hold_what_fits() {
        let widths = [[1, 3], [4, 2], [9, 1], [1, 1], [1, 1]];
        let none = |_| false;
        assert_eq!(rows(&widths, 1, 8, none), [0..2, 2..3, 3..5]);
        assert_eq!(rows(&widths, 1, 7, none), [0..1, 1..2, 2..3, 3..5]);
        assert_eq!(rows(&widths, 0, 7, none), [0..2, 2..3, 3..5]);
        assert_eq!(rows(&widths, 1, 80, |at| at == 2), [0..3, 3..5]);
        assert!(rows(&[], 1, 80, none).is_empty());
    }

    /// Ids are read as people, JSON and Python write them.
    #[test]
    fn ids_are_read_with_spaces_commas_and_brackets() {
        let ids = [12, 7, 99].map(TokenId::new);
        for text in ["12 7 99", "12,7,99", "[12, 7, 99]\n", " 12\t7\n99"] {
            assert_eq!(read_ids(text, 100).expect(text), ids);
        }
        assert!(read_ids("", 100).expect("no ids").is_empty());
        for text in ["a", "-1", "1.5", "4294967296"] {
            let error = read_ids(text, 100).expect_err(text).to_string();
            assert!(error.contains(text) && error.contains("from 0 to 99"), "{error}");
        }
    }
}
