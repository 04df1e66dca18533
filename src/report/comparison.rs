//! Comparisons of tokenizers on the same text, and their tables for other programs: JSON, CSV and Markdown.
//!
//! The figures are sums, so parts of the text can be counted apart and [added](ComparedText::add). Ratios are
//! computed from the sums when they are shown.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ShownToken;
use super::figures::plain;
use crate::base::int::{ByteCount, bytes_per_token, ratio, with_unit};

/// Several tokenizers compared on the same text.
///
/// Lists by tokenizer should have as many entries as `tokenizers`. A comparison from a file may have fewer; the page
/// then shows 0 for the missing figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The tokenizers. Figures by tokenizer are listed in this order everywhere.
    pub tokenizers: Vec<ComparedTokenizer>,
    /// The index of the tokenizer that the others are measured against.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub baseline: Option<usize>,
    /// The figures of all text.
    pub text: ComparedText,
    /// The figures of each source.
    pub sources: Vec<ComparedText>,
    /// The figures of documents by main script, which is the script of most of their letters.
    pub scripts: Vec<ComparedText>,
    /// Words that the tokenizers cut most differently, sorted by the difference in tokens, the largest first.
    pub words: Vec<ComparedWord>,
}

/// A tokenizer in a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparedTokenizer {
    /// Its file or folder.
    pub path: String,
    /// Tokens in its vocabulary, without special tokens.
    pub vocabulary: u64,
    /// How many of these tokens occur in the text.
    pub used: u64,
    /// The longest tokens that occur, longest first.
    pub longest: Vec<ShownToken>,
}

/// A part of the text, with its tokens by each tokenizer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedText {
    /// Name of the part.
    pub name: String,
    /// Documents, without null ones.
    pub documents: u64,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Characters, counted as the bytes that do not continue a character.
    pub characters: u64,
    /// Words, counted as the segments between white space.
    pub words: u64,
    /// Number of tokens by each tokenizer.
    pub tokens: Vec<u64>,
}

/// A word after a space, as each tokenizer cuts it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedWord {
    /// The word, without the space.
    pub word: String,
    /// How often it occurs.
    pub count: u64,
    /// Its tokens by each tokenizer, including the space before it.
    pub tokens: Vec<Vec<ShownToken>>,
}

impl Comparison {
    /// The groups of parts that are shown, with the name of a part: sources and main scripts. A group with a single
    /// part would repeat the figures of all text, so it is left out.
    pub fn groups(&self) -> impl Iterator<Item = (&'static str, &[ComparedText])> {
        let groups = [("source", &self.sources[..]), ("main script", &self.scripts)];
        groups.into_iter().filter(|(_, parts)| parts.len() > 1)
    }

    /// The tokens of a part by the tokenizer with this index, measured against the baseline: −0.38 are 38 % fewer.
    /// `None` without a baseline, for the baseline itself, and if the baseline has no tokens.
    ///
    /// ```
    /// use tokenmill::report::{ComparedText, Comparison};
    ///
    /// let text = ComparedText { tokens: vec![62, 100], ..ComparedText::default() };
    /// let comparison = Comparison { baseline: Some(1), text, ..Comparison::default() };
    /// let against = comparison.against_baseline(&comparison.text, 0).unwrap();
    /// assert!((against + 0.38).abs() < 1e-9);
    /// ```
    pub fn against_baseline(&self, part: &ComparedText, tokenizer: usize) -> Option<f64> {
        let tokens = part.tokens_of(self.baseline.filter(|&baseline| baseline != tokenizer)?);
        (tokens > 0).then(|| ratio(part.tokens_of(tokenizer), tokens) - 1.0)
    }

    /// The text for [`against_baseline`](Comparison::against_baseline): a percentage, or `baseline` for `None`.
    pub fn shown_against_baseline(&self, part: &ComparedText, tokenizer: usize) -> String {
        self.against_baseline(part, tokenizer).map_or("baseline".to_owned(), percent_of_change)
    }
}

impl ComparedTokenizer {
    /// Share of the vocabulary that occurs in the text, from 0 to 1. 0 for an empty vocabulary.
    pub fn share_used(&self) -> f64 {
        ratio(self.used, self.vocabulary)
    }
}

impl ComparedText {
    /// Bytes of text per token of the tokenizer with this index; 0 if there are no tokens. No BOS or EOS is added.
    pub fn bytes_per_token(&self, tokenizer: usize) -> f64 {
        bytes_per_token(self.text_bytes, self.tokens_of(tokenizer), 0)
    }

    /// Characters per token of the tokenizer with this index. 0 if there are no tokens.
    pub fn characters_per_token(&self, tokenizer: usize) -> f64 {
        ratio(self.characters, self.tokens_of(tokenizer))
    }

    /// Tokens per word of the tokenizer with this index. 0 if there are no words.
    pub fn tokens_per_word(&self, tokenizer: usize) -> f64 {
        ratio(self.tokens_of(tokenizer), self.words)
    }

    /// Number of tokens; 0 for an index beyond the list.
    pub(super) fn tokens_of(&self, tokenizer: usize) -> u64 {
        self.tokens.get(tokenizer).copied().unwrap_or(0)
    }

    /// Adds the figures of another part. The name stays. The lists of tokens get the length of the other part, so
    /// both must have the same tokenizers, or this one none yet.
    pub fn add(&mut self, other: &ComparedText) {
        self.documents += other.documents;
        self.text_bytes += other.text_bytes;
        self.characters += other.characters;
        self.words += other.words;
        self.tokens.resize(other.tokens.len(), 0);
        self.tokens.iter_mut().zip(&other.tokens).for_each(|(sum, tokens)| *sum += tokens);
    }
}

/// A change as a percentage with its sign, such as `−38.0 %`, with a real minus sign.
///
/// ```
/// use tokenmill::report::percent_of_change;
///
/// assert_eq!(percent_of_change(-0.38), "−38.0 %");
/// assert_eq!(percent_of_change(-0.0001), "0.0 %");
/// ```
pub fn percent_of_change(change: f64) -> String {
    match format!("{:+.1} %", 100.0 * change).as_str() {
        "+0.0 %" | "-0.0 %" => "0.0 %".to_owned(),
        text => text.replace('-', "\u{2212}"),
    }
}

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
        out.push_str("\n## Words cut most differently\n\nEach as it is cut after a space.\n\n");
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
