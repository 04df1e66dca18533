//! Comparisons of tokenizers as tables for other programs: JSON, CSV and Markdown. All have the figures of the page.

use std::fmt::Write;

use serde_json::{Value, json};

use super::comparison::{ComparedText, Comparison, percent_of_change};
use super::figures::plain;
use crate::base::int::{ByteCount, with_unit};

/// The comparison as a JSON object: its fields, the share of each vocabulary that is used, and in
/// each part of the text the ratios by tokenizer.
/// `against_baseline` is `null` for the baseline itself, and missing without a baseline.
///
/// # Panics
/// Never: the fields have text keys.
pub fn comparison_to_json(comparison: &Comparison) -> Value {
    let with_ratios = |part: &ComparedText| {
        let by_tokenizer = |figure: &dyn Fn(usize) -> Value| -> Value {
            (0..comparison.tokenizers.len()).map(figure).collect()
        };
        let mut value = json!(part);
        value["bytes_per_token"] = by_tokenizer(&|number| json!(part.bytes_per_token(number)));
        value["characters_per_token"] = by_tokenizer(&|number| json!(part.characters_per_token(number)));
        value["tokens_per_word"] = by_tokenizer(&|number| json!(part.tokens_per_word(number)));
        if comparison.baseline.is_some() {
            value["against_baseline"] =
                by_tokenizer(&|number| json!(comparison.against_baseline(part, number)));
        }
        value
    };
    let mut value = json!(comparison);
    let objects = value["tokenizers"].as_array_mut().into_iter().flatten();
    for (tokenizer, object) in comparison.tokenizers.iter().zip(objects) {
        object["share_used"] = json!(tokenizer.share_used());
    }
    value["text"] = with_ratios(&comparison.text);
    value["sources"] = comparison.sources.iter().map(with_ratios).collect();
    value["scripts"] = comparison.scripts.iter().map(with_ratios).collect();
    value
}

/// The columns of [`comparison_to_csv`].
const COLUMNS: &str = "part,name,documents,text_bytes,characters,words,tokenizer,tokens,bytes_per_token,\
                       characters_per_token,tokens_per_word,against_baseline,vocabulary,used";

/// The comparison as CSV: a line for each part of the text and each tokenizer. `part` is `all`, `source` or
/// `main script`. `against_baseline` is empty for the baseline itself and without a baseline; `vocabulary` and `used`
/// are those of all text. Words are left out.
pub fn comparison_to_csv(comparison: &Comparison) -> String {
    let mut out = format!("{COLUMNS}\n");
    let all = std::iter::once(("all", std::slice::from_ref(&comparison.text)));
    for (kind, parts) in all.chain(comparison.groups()) {
        for part in parts {
            for (number, tokenizer) in comparison.tokenizers.iter().enumerate() {
                let against = comparison.against_baseline(part, number);
                let [vocabulary, used] = [tokenizer.vocabulary, tokenizer.used]
                    .map(|count| if kind == "all" { count.to_string() } else { String::new() });
                let ComparedText { name, documents, text_bytes, characters, words, .. } = part;
                // Writing to a `String` never fails.
                let _ = writeln!(
                    out,
                    "{kind},{},{documents},{text_bytes},{characters},{words},{},{},{},{},{},{},{vocabulary},{used}",
                    csv_field(name),
                    csv_field(&tokenizer.path),
                    part.tokens_of(number),
                    part.bytes_per_token(number),
                    part.characters_per_token(number),
                    part.tokens_per_word(number),
                    against.map_or(String::new(), |change| change.to_string()),
                );
            }
        }
    }
    out
}

/// A text as a field of CSV, in quotes if it needs them.
fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// The comparison as a Markdown document with tables.
pub fn comparison_to_markdown(comparison: &Comparison) -> String {
    let Comparison { tokenizers, text, words, .. } = comparison;
    let names: Vec<String> = tokenizers.iter().map(|tokenizer| markdown(&tokenizer.path)).collect();
    let baseline = comparison.baseline.and_then(|baseline| names.get(baseline));
    let mut out = format!(
        "# Tokenizers compared\n\n{}, {}, {}. Bytes per token: bytes of text divided by its tokens, without BOS and EOS; \
         more is better.\n\n",
        with_unit(text.documents, "document"),
        ByteCount(text.text_bytes),
        with_unit(text.words, "word"),
    );
    let mut columns = vec!["tokenizer", "tokens"];
    let against = baseline.map(|name| format!("tokens against {name}"));
    columns.extend(against.as_deref());
    columns.extend([
        "bytes per token",
        "characters per token",
        "tokens per word",
        "vocabulary",
        "vocabulary used",
    ]);
    push_head(&mut out, &columns, 1);
    for (number, (tokenizer, name)) in tokenizers.iter().zip(&names).enumerate() {
        let mut cells = vec![name.clone(), text.tokens_of(number).to_string()];
        cells.extend(baseline.map(|_| comparison.shown_against_baseline(text, number)));
        cells.extend([
            format!("{:.3}", text.bytes_per_token(number)),
            format!("{:.3}", text.characters_per_token(number)),
            format!("{:.3}", text.tokens_per_word(number)),
            tokenizer.vocabulary.to_string(),
            format!("{} ({:.1} %)", tokenizer.used, 100.0 * tokenizer.share_used()),
        ]);
        push_row(&mut out, &cells);
    }
    for (kind, parts) in comparison.groups() {
        let and = baseline.map_or(String::new(), |name| format!(", and tokens against {name}"));
        let _ = write!(out, "\n## Bytes per token by {kind}{and}\n\n");
        let columns: Vec<&str> =
            [kind, "documents", "bytes"].into_iter().chain(names.iter().map(String::as_str)).collect();
        push_head(&mut out, &columns, 1);
        for part in parts {
            let mut cells =
                vec![markdown(&part.name), part.documents.to_string(), part.text_bytes.to_string()];
            cells.extend((0..tokenizers.len()).map(|number| {
                let bytes = part.bytes_per_token(number);
                match comparison.against_baseline(part, number) {
                    Some(change) => format!("{bytes:.3} ({})", percent_of_change(change)),
                    None => format!("{bytes:.3}"),
                }
            }));
            push_row(&mut out, &cells);
        }
    }
    if !words.is_empty() {
        out.push_str("\n## Words cut most differently\n\n");
        let columns: Vec<&str> =
            ["word", "count"].into_iter().chain(names.iter().map(String::as_str)).collect();
        push_head(&mut out, &columns, columns.len());
        for word in words {
            let cut = word.tokens.iter().map(|tokens| {
                let tokens: Vec<String> = tokens.iter().map(|token| markdown(&token.visible())).collect();
                tokens.join(" · ")
            });
            let mut cells = vec![markdown(&word.word), word.count.to_string()];
            cells.extend(cut);
            push_row(&mut out, &cells);
        }
    }
    out
}

/// Appends the head of a table. The first `left` columns have text, the others numbers.
fn push_head(out: &mut String, columns: &[&str], left: usize) {
    push_row(out, columns);
    let rule = |(at, _)| if at < left { "---" } else { "--:" };
    let rules: Vec<&str> = columns.iter().enumerate().map(rule).collect();
    push_row(out, &rules);
}

/// Appends a row of a table.
fn push_row(out: &mut String, cells: &[impl AsRef<str>]) {
    for cell in cells {
        out.push_str("| ");
        out.push_str(cell.as_ref());
        out.push(' ');
    }
    out.push_str("|\n");
}

/// A text for a cell of a Markdown table, where no character of it has a meaning. Control and invisible characters are
/// escaped.
fn markdown(text: &str) -> String {
    let mut out = String::new();
    for c in plain(text).chars() {
        if r"\`*_[]<>&|~$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
