//! `tokens`: shows the tokens of a text.

use std::io::{Read, Write};

use anstyle::{AnsiColor, Color, Style};
use serde_json::{Value, json};
use tokenmill::base::int::to_u64;
use tokenmill::encode::{EncodeConfig, Encoder};
use tokenmill::report::tokens_to_html;
use tokenmill::run::shown;
use tokenmill::vocab::{Vocabulary, load};
use tokenmill::{Error, Result, TokenId};

use super::args::TokensArgs;
use super::environment::{results_style, tokenizer};
use super::failure::Failure;
use super::interrupt::{Input, Interrupt};
use super::session;
use super::session::{Done, Session, print, print_as_is};
use super::shown::{counted, visible};

/// The background colours of tokens, in turn.
const COLOURS: [AnsiColor; 5] =
    [AnsiColor::Blue, AnsiColor::Green, AnsiColor::Yellow, AnsiColor::Magenta, AnsiColor::Cyan];

/// The text between tokens if there are no colours.
const SEPARATOR: &str = "|";

/// Runs `tokens`: prints the tokens of a text one after another, as JSON, or as ids only. `--html` writes a page
/// instead.
pub(super) fn tokens(args: &TokensArgs, session: &Session<'_>) -> Result<Done, Failure> {
    session::check(args.html.as_deref())?;
    let progress = session.progress();
    let vocabulary =
        load(&tokenizer(&args.tokenizer.tokenizer, &progress)?, &args.tokenizer.options(), &progress)?;
    drop(progress);
    let (special, missing_bytes) = (args.special.unwrap_or_default(), args.missing_bytes.unwrap_or_default());
    let config = EncodeConfig { special, missing_bytes, ..EncodeConfig::default() };
    let encoder = Encoder::new(vocabulary, config)?;
    let vocabulary = encoder.vocabulary();
    let text = text(args.text.as_deref(), session.interrupt())?;
    let progress = session.progress();
    let ids = encoder.observed_worker(&progress).encode(&text)?.to_vec();
    drop(progress);
    if let Some(path) = &args.html {
        let shown: Vec<_> = ids.iter().map(|&id| shown(vocabulary, id)).collect();
        session::write(path, &tokens_to_html(&shown))?;
    }
    if session.json() {
        session.print_json(&ids.iter().map(|&id| as_json(vocabulary, id)).collect::<Vec<_>>())?;
    } else if args.ids {
        let ids: Vec<String> = ids.iter().map(TokenId::to_string).collect();
        print(|out| writeln!(out, "{}", ids.join(" ")))?;
    } else if args.html.is_none() {
        print_token_texts(vocabulary, &ids)?;
    }
    session.say(&format!("{}, {}", counted(to_u64(ids.len()), "token"), counted(to_u64(text.len()), "byte")));
    Ok(Done::Whole)
}

/// Returns the text of the argument, or of standard input if it is `-` or missing.
fn text(given: Option<&str>, interrupt: Interrupt) -> Result<Vec<u8>> {
    match given {
        Some(text) if text != "-" => Ok(text.as_bytes().to_vec()),
        _ => {
            let mut text = Vec::new();
            Input::new(interrupt)
                .read_to_end(&mut text)
                .map_err(|cause| Error::io("read", "standard input", cause))?;
            Ok(text)
        }
    }
}

/// Returns a token as a JSON object: its text, or its bytes if they are not UTF-8.
fn as_json(vocabulary: &Vocabulary, id: TokenId) -> Value {
    let bytes = vocabulary.bytes(id).unwrap_or_default();
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({ "id": id, "text": text }),
        Err(_) => json!({ "id": id, "bytes": bytes }),
    }
}

/// Prints the tokens one after another. A token that ends with a line break also ends the printed line.
fn print_token_texts(vocabulary: &Vocabulary, ids: &[TokenId]) -> Result<()> {
    let coloured = results_style().coloured;
    print_as_is(|out| {
        let mut at_start = true;
        for (number, &id) in ids.iter().enumerate() {
            let bytes = vocabulary.bytes(id).unwrap_or_default();
            let text = visible(bytes);
            if coloured {
                let style = style(number, vocabulary.special(id).is_some());
                write!(out, "{style}{text}{style:#}")?;
            } else {
                write!(out, "{}{text}", if at_start { "" } else { SEPARATOR })?;
            }
            at_start = bytes.ends_with(b"\n");
            if at_start {
                writeln!(out)?;
            }
        }
        if at_start { Ok(()) } else { writeln!(out) }
    })
}

/// Returns the style of a token: special tokens are red, others alternate.
fn style(number: usize, special: bool) -> Style {
    let background = if special { AnsiColor::Red } else { COLOURS[number % COLOURS.len()] };
    Style::new().fg_color(Some(Color::Ansi(AnsiColor::Black))).bg_color(Some(Color::Ansi(background)))
}
