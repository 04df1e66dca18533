//! Comparisons of tokenizers on the same text.
//!
//! The figures are sums, so parts of the text can be counted apart and [added](ComparedText::add). Ratios are
//! computed from the sums when they are shown.

use serde::{Deserialize, Serialize};

use super::ShownToken;
use crate::base::int::{bytes_per_token, ratio};

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
