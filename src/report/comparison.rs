//! Comparisons of tokenizers on the same text: the figures, and the page that shows them.
//!
//! The figures are sums, so parts of the text can be counted apart and [added](ComparedText::add). Ratios are
//! computed from the sums when they are shown.

use askama::Template;
use serde::{Deserialize, Serialize};

use super::ShownToken;
use super::figures::plain;
use super::html::grouped;
use crate::base::int::{ByteCount, ratio, to_f64};

/// Several tokenizers compared on the same text.
///
/// Lists by tokenizer should have as many entries as `tokenizers`. A comparison from a file may have fewer; the page
/// then shows 0 for the missing figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The tokenizers. Figures by tokenizer are listed in this order everywhere.
    pub tokenizers: Vec<ComparedTokenizer>,
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

impl ComparedTokenizer {
    /// Returns the path for the page, with control and invisible characters escaped.
    fn shown(&self) -> String {
        plain(&self.path)
    }

    /// Share of the vocabulary that occurs in the text, from 0 to 1. 0 for an empty vocabulary.
    pub fn share_used(&self) -> f64 {
        ratio(self.used, self.vocabulary)
    }
}

impl ComparedWord {
    /// Returns the word for the page, with control and invisible characters escaped.
    fn shown(&self) -> String {
        plain(&self.word)
    }

    /// Returns the count for the page, in groups of three digits.
    fn shown_count(&self) -> String {
        grouped(self.count)
    }
}

impl ComparedText {
    /// Bytes of text per token of the tokenizer with this index; 0 if there are no tokens.
    pub fn bytes_per_token(&self, tokenizer: usize) -> f64 {
        ratio(self.text_bytes, self.tokens_of(tokenizer))
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
    fn tokens_of(&self, tokenizer: usize) -> u64 {
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

/// The comparison as an HTML page that needs no other file and no network. All text from the corpus is escaped.
///
/// Groups of bars by source and by main script appear only if they have several parts. All bars have the same scale,
/// on which the longest bar has the full width.
pub fn comparison_to_html(comparison: &Comparison) -> String {
    let all = ("All", std::slice::from_ref(&comparison.text));
    let parts = [("By source", &comparison.sources[..]), ("By main script", &comparison.scripts)];
    let groups = std::iter::once(all).chain(parts.into_iter().filter(|(_, parts)| parts.len() > 1));
    let longest = comparison.parts().map(best).fold(1.0, f64::max);
    let bar = |part: &ComparedText, tokenizer: usize| {
        let bytes = part.bytes_per_token(tokenizer);
        Bar { value: format!("{bytes:.2}"), percent: format!("{:.1}", 100.0 * bytes / longest) }
    };
    let drawn = |part: &ComparedText| BarGroup {
        name: plain(&part.name),
        note: format!(
            "{} document{}, {}",
            grouped(part.documents),
            if part.documents == 1 { "" } else { "s" },
            ByteCount(part.text_bytes)
        ),
        bars: (0..comparison.tokenizers.len()).map(|tokenizer| bar(part, tokenizer)).collect(),
    };
    let figures = |(number, tokenizer): (usize, &ComparedTokenizer)| {
        let text = &comparison.text;
        vec![
            grouped(text.tokens_of(number)),
            format!("{:.2}", text.bytes_per_token(number)),
            format!("{:.2}", text.characters_per_token(number)),
            format!("{:.2}", text.tokens_per_word(number)),
            grouped(tokenizer.vocabulary),
            format!("{:.1} %", 100.0 * tokenizer.share_used()),
        ]
    };
    let page = Page {
        comparison,
        figures: comparison.tokenizers.iter().enumerate().map(figures).collect(),
        groups: groups.map(|(title, parts)| (title, parts.iter().map(drawn).collect())).collect(),
    };
    page.render().expect("a page is rendered into memory")
}

impl Comparison {
    /// All texts of the comparison. The page finds the longest bar among them.
    fn parts(&self) -> impl Iterator<Item = &ComparedText> {
        std::iter::once(&self.text).chain(&self.sources).chain(&self.scripts)
    }
}

/// The maximum of the bytes per token of the tokenizers on this text.
fn best(part: &ComparedText) -> f64 {
    part.tokens.iter().map(|&tokens| to_f64(part.text_bytes) / to_f64(tokens.max(1))).fold(0.0, f64::max)
}

/// The data that the template lays out.
#[derive(Template)]
#[template(path = "comparison.html")]
struct Page<'a> {
    /// For paths, words and longest tokens, which the template shows as they are.
    comparison: &'a Comparison,
    /// The figures of all text, by tokenizer.
    figures: Vec<Vec<String>>,
    /// Parts of the text under a title.
    groups: Vec<(&'static str, Vec<BarGroup>)>,
}

/// A part of the text, as a group of bars.
struct BarGroup {
    /// The name of the source or script, escaped.
    name: String,
    /// Number of documents and amount of text.
    note: String,
    /// One bar for each tokenizer.
    bars: Vec<Bar>,
}

/// A bar: its label, and its length in percent of the longest.
struct Bar {
    value: String,
    percent: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::int::TokenId;
    use crate::report::is_invisible;

    /// The page has the figures, and escapes all text.
    #[test]
    fn the_page_has_the_figures_and_nothing_from_the_text_leaves_its_place() {
        let hostile = "</td><script>alert(1)</script>\u{202E}\u{1B}\u{7}";
        let text = ComparedText {
            name: hostile.to_owned(),
            documents: 3,
            text_bytes: 1_000,
            characters: 900,
            words: 150,
            tokens: vec![250, 400],
        };
        let tokenizer = |path: &str| ComparedTokenizer {
            path: path.to_owned(),
            vocabulary: 300,
            used: 200,
            longest: vec![ShownToken::new(TokenId::new(7), hostile.as_bytes())],
        };
        let word = ComparedWord {
            word: hostile.to_owned(),
            count: 5,
            tokens: vec![vec![ShownToken::new(TokenId::new(7), hostile.as_bytes())], Vec::new()],
        };
        let mut sum = ComparedText::default();
        sum.add(&text);
        sum.add(&text);
        assert_eq!((sum.tokens.as_slice(), sum.words), (&[500, 800][..], 300));
        let comparison = Comparison {
            tokenizers: vec![tokenizer("one"), tokenizer(hostile)],
            sources: vec![text.clone(), text],
            scripts: Vec::new(),
            text: sum,
            words: vec![word],
        };
        let page = comparison_to_html(&comparison);
        assert!(!page.contains("<script"), "{page}");
        assert!(page.chars().all(|c| c == '\n' || !c.is_control() && !is_invisible(c)), "{page}");
        for figure in ["4.00", "2.50", "1.67", "66.7", "width:100.0%", "width:62.5%"] {
            assert!(page.contains(figure), "{figure}");
        }
        // Figures that were read from a file may be incomplete.
        comparison_to_html(&Comparison { text: ComparedText::default(), ..comparison });
    }
}
