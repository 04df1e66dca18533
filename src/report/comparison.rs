//! Comparisons of tokenizers on the same text, and their tables for other programs: JSON, CSV and Markdown.
//!
//! The figures are sums, so parts of the text can be counted apart and [added](ComparedText::add). Ratios are
//! computed from the sums when they are shown.

use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ShownToken;
use super::figures::plain;
use super::inequality::{gini, worst_to_best};
use crate::base::int::{ByteCount, bytes_per_token, ratio, to_f64, with_unit};

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
    /// The index of the source that the others are measured against, if the sources are the same texts in several
    /// languages.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub base: Option<usize>,
    /// The figures of all text.
    pub text: ComparedText,
    /// Confidence intervals of the figures of all text.
    #[serde(default)]
    pub text_intervals: ComparedIntervals,
    /// The figures of each source.
    pub sources: Vec<ComparedText>,
    /// Confidence intervals of the figures of each source.
    #[serde(default)]
    pub source_intervals: Vec<ComparedIntervals>,
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
    /// How many of these tokens no text is encoded to.
    #[serde(default)]
    pub unreachable: u64,
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

/// A range that holds a figure of all such text with 95 % confidence, as far as the documents are a random sample of
/// it. It comes from resampling the documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// Confidence intervals of a part of the text, by tokenizer. `None` where there are too few documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparedIntervals {
    /// Of the bytes per token.
    pub bytes_per_token: Vec<Option<Interval>>,
    /// Of the characters per token.
    pub characters_per_token: Vec<Option<Interval>>,
    /// Of the [premium](Comparison::premium). Empty if the sources are not the same texts in several languages.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub premium: Vec<Option<Interval>>,
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

    /// The tokens of the source with this index, divided by those of the [base](Comparison::base): 1.5 if the same
    /// texts take half as many tokens more. `None` if there is no base, or if it has no tokens.
    ///
    /// ```
    /// use tokenmill::report::{ComparedText, Comparison};
    ///
    /// let source = |tokens| ComparedText { tokens: vec![tokens], ..ComparedText::default() };
    /// let sources = vec![source(100), source(150)];
    /// let comparison = Comparison { base: Some(0), sources, ..Comparison::default() };
    /// assert_eq!(comparison.premium(1, 0), Some(1.5));
    /// assert_eq!(comparison.worst_to_best(0), Some(1.5));
    /// assert_eq!(comparison.gini(0), Some(0.1));
    /// ```
    pub fn premium(&self, source: usize, tokenizer: usize) -> Option<f64> {
        let base = self.sources.get(self.base?)?.tokens_of(tokenizer);
        let tokens = self.sources.get(source)?.tokens_of(tokenizer);
        (base > 0).then(|| ratio(tokens, base))
    }

    /// The [Gini coefficient](gini) of the tokens that the same texts take in each language. `None` if the sources are
    /// not the same texts.
    pub fn gini(&self, tokenizer: usize) -> Option<f64> {
        self.base.map(|_| gini(&self.costs(tokenizer)))
    }

    /// The tokens of the language that takes most, divided by those of the one that takes fewest. `None` if the sources
    /// are not the same texts in several languages.
    pub fn worst_to_best(&self, tokenizer: usize) -> Option<f64> {
        self.base.and_then(|_| worst_to_best(&self.costs(tokenizer)))
    }

    /// The tokens of each source.
    fn costs(&self, tokenizer: usize) -> Vec<f64> {
        self.sources.iter().map(|source| to_f64(source.tokens_of(tokenizer))).collect()
    }

    /// The premium of a source and its interval as text, for example `1.500 (1.480–1.522)`.
    pub fn shown_premium(&self, source: usize, tokenizer: usize) -> String {
        let premium =
            self.premium(source, tokenizer).map_or("none".to_owned(), |premium| format!("{premium:.3}"));
        let interval = self.source_intervals.get(source).and_then(|all| *all.premium.get(tokenizer)?);
        match interval.filter(|_| self.base != Some(source)) {
            Some(interval) => format!("{premium} ({interval})"),
            None => premium,
        }
    }

    /// All text and each source, with their intervals; only all text if there is a single source.
    pub fn with_intervals(&self) -> impl Iterator<Item = (&ComparedText, &ComparedIntervals)> {
        let sources = self.sources.iter().zip(&self.source_intervals).filter(|_| self.sources.len() > 1);
        std::iter::once((&self.text, &self.text_intervals)).chain(sources)
    }

    /// The text for [`against_baseline`](Comparison::against_baseline): a percentage, or `baseline` for `None`.
    pub fn shown_against_baseline(&self, part: &ComparedText, tokenizer: usize) -> String {
        self.against_baseline(part, tokenizer).map_or("baseline".to_owned(), percent_of_change)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}\u{2013}{:.3}", self.low, self.high)
    }
}

impl ComparedIntervals {
    /// The intervals of bytes and of characters per token of a tokenizer as text; `none` where there is none.
    pub fn shown(&self, tokenizer: usize) -> [String; 2] {
        [&self.bytes_per_token, &self.characters_per_token].map(|intervals| {
            let interval = intervals.get(tokenizer).copied().flatten();
            interval.map_or("none".to_owned(), |interval| interval.to_string())
        })
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
    if comparison.base.is_some() {
        let by_tokenizer = |figure: &dyn Fn(usize) -> Option<f64>| -> Value {
            (0..comparison.tokenizers.len()).map(|number| json!(figure(number))).collect()
        };
        value["gini"] = by_tokenizer(&|number| comparison.gini(number));
        value["worst_to_best"] = by_tokenizer(&|number| comparison.worst_to_best(number));
        let premiums = |source| by_tokenizer(&|number| comparison.premium(source, number));
        value["premiums"] = (0..comparison.sources.len()).map(premiums).collect();
    }
    value["text"] = with_ratios(&comparison.text);
    value["sources"] = comparison.sources.iter().map(with_ratios).collect();
    value["scripts"] = comparison.scripts.iter().map(with_ratios).collect();
    value
}

/// The columns of [`comparison_to_csv`].
const COLUMNS: &str = "part,name,documents,text_bytes,characters,words,tokenizer,tokens,bytes_per_token,\
                       characters_per_token,tokens_per_word,against_baseline,vocabulary,used,unreachable,\
                       bytes_per_token_low,bytes_per_token_high,characters_per_token_low,characters_per_token_high,\
                       premium,premium_low,premium_high";

/// The comparison as CSV: a line for each part of the text and each tokenizer. `part` is `all`, `source` or
/// `main script`. `against_baseline` is empty for the baseline itself and without a baseline; `vocabulary`, `used`
/// and `unreachable` are those of all text. Intervals are empty for main scripts, and premiums for all but sources that
/// are the same texts in several languages. Words are left out.
pub fn comparison_to_csv(comparison: &Comparison) -> String {
    let mut out = format!("{COLUMNS}\n");
    let all = std::iter::once(("all", std::slice::from_ref(&comparison.text)));
    for (kind, parts) in all.chain(comparison.groups()) {
        for (at, part) in parts.iter().enumerate() {
            let none = ComparedIntervals::default();
            let (intervals, source) = match kind {
                "all" => (&comparison.text_intervals, None),
                "source" => (comparison.source_intervals.get(at).unwrap_or(&none), Some(at)),
                _ => (&none, None),
            };
            for (number, tokenizer) in comparison.tokenizers.iter().enumerate() {
                let ends = |intervals: &[Option<Interval>]| match intervals.get(number).copied().flatten() {
                    Some(Interval { low, high }) => format!("{low},{high}"),
                    None => ",".to_owned(),
                };
                let premium = source.and_then(|source| comparison.premium(source, number));
                let against = comparison.against_baseline(part, number);
                let [vocabulary, used, unreachable] =
                    [tokenizer.vocabulary, tokenizer.used, tokenizer.unreachable]
                        .map(|count| if kind == "all" { count.to_string() } else { String::new() });
                let ComparedText { name, documents, text_bytes, characters, words, .. } = part;
                // Writing to a `String` never fails.
                let _ = writeln!(
                    out,
                    "{kind},{},{documents},{text_bytes},{characters},{words},{},{},{},{},{},{},{vocabulary},{used},{unreachable},{},{},{},{}",
                    csv_field(name),
                    csv_field(&tokenizer.path),
                    part.tokens_of(number),
                    part.bytes_per_token(number),
                    part.characters_per_token(number),
                    part.tokens_per_word(number),
                    against.map_or(String::new(), |change| change.to_string()),
                    ends(&intervals.bytes_per_token),
                    ends(&intervals.characters_per_token),
                    premium.map_or(String::new(), |premium| premium.to_string()),
                    ends(&intervals.premium),
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
        "unreachable",
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
            tokenizer.unreachable.to_string(),
        ]);
        push_row(&mut out, &cells);
    }
    push_intervals(&mut out, comparison, &names);
    push_premiums(&mut out, comparison, &names);
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

/// Appends the table of confidence intervals. `names` are those of the tokenizers, escaped.
fn push_intervals(out: &mut String, comparison: &Comparison, names: &[String]) {
    out.push_str("\n## 95 % confidence intervals, from 10 documents on\n\n");
    push_head(out, &["text", "tokenizer", "bytes per token", "characters per token"], 2);
    for (part, intervals) in comparison.with_intervals() {
        for (number, name) in names.iter().enumerate() {
            let [bytes, characters] = intervals.shown(number);
            push_row(out, &[markdown(&part.name), name.clone(), bytes, characters]);
        }
    }
}

/// Appends the table of premiums, if the sources are the same texts in several languages.
fn push_premiums(out: &mut String, comparison: &Comparison, names: &[String]) {
    let Some(base) = comparison.base.and_then(|base| comparison.sources.get(base)) else { return };
    let _ = write!(out, "\n## Tokens of the same texts against {}\n\n", markdown(&base.name));
    let columns: Vec<&str> = ["source"].into_iter().chain(names.iter().map(String::as_str)).collect();
    push_head(out, &columns, 1);
    for (source, part) in comparison.sources.iter().enumerate() {
        let premiums = (0..names.len()).map(|number| comparison.shown_premium(source, number));
        let cells: Vec<String> = [markdown(&part.name)].into_iter().chain(premiums).collect();
        push_row(out, &cells);
    }
    let figure = |value: Option<f64>| value.map_or("none".to_owned(), |value| format!("{value:.3}"));
    let mut push_figure = |label: &str, of: &dyn Fn(usize) -> Option<f64>| {
        let figures = (0..names.len()).map(|number| figure(of(number)));
        push_row(out, &[label.to_owned()].into_iter().chain(figures).collect::<Vec<_>>());
    };
    push_figure("Gini coefficient", &|number| comparison.gini(number));
    push_figure("worst to best", &|number| comparison.worst_to_best(number));
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
