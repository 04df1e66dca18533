//! `compare`: compares several tokenizers on the same text.

use std::io::{self, Write};
use std::path::PathBuf;

use tokenmill::base::int::ByteCount;
use tokenmill::report::{ComparedText, Comparison, comparison_to_html};
use tokenmill::run;

use super::args::CompareArgs;
use super::environment::open_context;
use super::failure::Failure;
use super::flags;
use super::session;
use super::session::{Done, Session, print};
use super::shown::{counted, on_one_line, visible};

/// Runs `compare`: encodes the same text with each tokenizer and prints tokens, ratios, vocabulary use, and the words
/// that are split most differently. `--html` also writes a page.
pub(super) fn compare(args: &CompareArgs, session: &Session<'_>) -> Result<Done, Failure> {
    session::check(args.html.as_deref())?;
    let plan = session.plan(flags::compare(args))?;
    let tokenizers: Vec<PathBuf> = args.tokenizers.iter().map(PathBuf::from).collect();
    let progress = session.progress();
    let (missing_bytes, options) = (args.missing_bytes.unwrap_or_default(), args.split.options());
    let compared =
        run::compare(&plan, &tokenizers, &options, missing_bytes, &open_context(&plan, &progress))?;
    drop(progress);
    let comparison = &compared.comparison;
    if session.json() {
        session.print_json(comparison)?;
    } else {
        print(|out| write(comparison, out))?;
    }
    if let Some(path) = &args.html {
        session::write(path, &comparison_to_html(comparison))?;
    }
    Ok(session.done(compared.skipped))
}

/// Writes the comparison for people.
fn write(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let Comparison { tokenizers, text, sources, scripts, words } = comparison;
    let width = tokenizers.iter().map(|tokenizer| tokenizer.path.chars().count()).max().unwrap_or(0).max(9);
    writeln!(
        out,
        "{}, {}, {}",
        counted(text.documents, "document"),
        ByteCount(text.text_bytes),
        counted(text.words, "word")
    )?;
    writeln!(
        out,
        "\n{:width$}  {:>12}  {:>11}  {:>11}  {:>11}  {:>18}",
        "tokenizer", "tokens", "bytes/token", "chars/token", "tokens/word", "vocabulary used"
    )?;
    for (number, tokenizer) in tokenizers.iter().enumerate() {
        writeln!(
            out,
            "{:width$}  {:>12}  {:>11.3}  {:>11.3}  {:>11.3}  {:>9} ({:>4.1} %)",
            on_one_line(&tokenizer.path),
            text.tokens[number],
            text.bytes_per_token(number),
            text.characters_per_token(number),
            text.tokens_per_word(number),
            tokenizer.used,
            100.0 * tokenizer.share_used(),
        )?;
    }
    for (title, parts) in [("source", sources), ("main script", scripts)] {
        if parts.len() > 1 {
            write_parts(title, parts, comparison, out)?;
        }
    }
    if !words.is_empty() {
        writeln!(out, "\nwords tokenized most differently")?;
    }
    for word in words.iter().take(10) {
        writeln!(out, "  {} × {}", word.count, visible(word.word.as_bytes()))?;
        for (tokenizer, tokens) in tokenizers.iter().zip(&word.tokens) {
            let tokens: Vec<String> = tokens.iter().map(|token| token.visible()).collect();
            writeln!(out, "    {:width$}  {}", on_one_line(&tokenizer.path), tokens.join("|"))?;
        }
    }
    writeln!(out, "\nlongest tokens that occur")?;
    for tokenizer in tokenizers {
        let tokens: Vec<String> = tokenizer.longest.iter().take(3).map(|token| token.visible()).collect();
        writeln!(out, "  {:width$}  {}", on_one_line(&tokenizer.path), tokens.join("  "))?;
    }
    Ok(())
}

/// Writes the bytes per token of each tokenizer, one line for each part of the text.
fn write_parts(
    title: &str,
    parts: &[ComparedText],
    comparison: &Comparison,
    out: &mut dyn Write,
) -> io::Result<()> {
    let width = parts.iter().map(|part| part.name.chars().count()).max().unwrap_or(0);
    writeln!(out, "\nbytes per token by {title}: {}", paths(comparison).join(", "))?;
    for part in parts {
        let figures: Vec<String> =
            (0..part.tokens.len()).map(|number| format!("{:>8.3}", part.bytes_per_token(number))).collect();
        let text = format!("{}, {}", counted(part.documents, "document"), ByteCount(part.text_bytes));
        writeln!(out, "  {:width$}  {}  {text}", on_one_line(&part.name), figures.join(" "))?;
    }
    Ok(())
}

fn paths(comparison: &Comparison) -> Vec<String> {
    comparison.tokenizers.iter().map(|tokenizer| on_one_line(&tokenizer.path)).collect()
}
