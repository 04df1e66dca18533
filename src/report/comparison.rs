use askama::Template;
use serde::{Deserialize, Serialize};

use super::ShownToken;
use super::html::grouped;
use super::shown::plain;
use crate::units::{ByteCount, float, ratio};

/// Several tokenizers on the same text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The tokenizers, in the order in which all other lists have them.
    pub tokenizers: Vec<ComparedTokenizer>,
    /// All of the text.
    pub text: ComparedText,
    /// The text of each source.
    pub sources: Vec<ComparedText>,
    /// The documents by their main script: that of most of their letters.
    pub scripts: Vec<ComparedText>,
    /// The words that are cut most differently, those first that make the greatest difference in tokens.
    pub words: Vec<ComparedWord>,
}

/// One of the tokenizers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparedTokenizer {
    /// Its file or folder.
    pub path: String,
    /// Tokens of its vocabulary, special ones not counted.
    pub vocabulary: u64,
    /// How many of them occur.
    pub used: u64,
    /// The longest of these, longest first.
    pub longest: Vec<ShownToken>,
}

/// A part of the text, and its tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedText {
    /// What part it is.
    pub name: String,
    /// Documents, null ones not counted.
    pub documents: u64,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Characters: bytes that do not continue a character.
    pub characters: u64,
    /// Words: what stands between white space.
    pub words: u64,
    /// Tokens by each tokenizer.
    pub tokens: Vec<u64>,
}

/// A word after a space, as each tokenizer cuts it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedWord {
    /// The word.
    pub word: String,
    /// How often it occurs.
    pub count: u64,
    /// Its tokens by each tokenizer, with the space before it.
    pub tokens: Vec<Vec<ShownToken>>,
}

impl ComparedTokenizer {
    fn shown(&self) -> String {
        plain(&self.path)
    }
}

impl ComparedWord {
    fn shown(&self) -> String {
        plain(&self.word)
    }

    fn shown_count(&self) -> String {
        grouped(self.count)
    }
}

impl ComparedText {
    /// Bytes of text a token of a tokenizer, which is a number in the list.
    pub fn bytes_per_token(&self, tokenizer: usize) -> f64 {
        ratio(self.text_bytes, self.tokens_of(tokenizer))
    }

    /// Characters a token.
    pub fn characters_per_token(&self, tokenizer: usize) -> f64 {
        ratio(self.characters, self.tokens_of(tokenizer))
    }

    /// Tokens a word.
    pub fn tokens_per_word(&self, tokenizer: usize) -> f64 {
        ratio(self.tokens_of(tokenizer), self.words)
    }

    /// None of a tokenizer that is not in the list.
    fn tokens_of(&self, tokenizer: usize) -> u64 {
        self.tokens.get(tokenizer).copied().unwrap_or(0)
    }

    /// Adds another part; the name stays.
    pub fn add(&mut self, other: &ComparedText) {
        self.documents += other.documents;
        self.text_bytes += other.text_bytes;
        self.characters += other.characters;
        self.words += other.words;
        self.tokens.resize(other.tokens.len(), 0);
        self.tokens.iter_mut().zip(&other.tokens).for_each(|(sum, tokens)| *sum += tokens);
    }
}

impl ComparedTokenizer {
    /// Which part of the vocabulary occurs.
    pub fn share_used(&self) -> f64 {
        ratio(self.used, self.vocabulary)
    }
}

/// The comparison as a page that needs no other file and no network.
pub fn comparison_to_html(comparison: &Comparison) -> String {
    let all = ("All", std::slice::from_ref(&comparison.text));
    let parts = [("By source", &comparison.sources[..]), ("By main script", &comparison.scripts)];
    let groups = std::iter::once(all).chain(parts.into_iter().filter(|(_, parts)| parts.len() > 1));
    let longest = comparison.parts().map(best).fold(1.0, f64::max);
    let bar = |part: &ComparedText, tokenizer: usize| {
        let bytes = part.bytes_per_token(tokenizer);
        Bar { value: format!("{bytes:.2}"), percent: format!("{:.1}", 100.0 * bytes / longest) }
    };
    let drawn = |part: &ComparedText| Part {
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
    fn parts(&self) -> impl Iterator<Item = &ComparedText> {
        std::iter::once(&self.text).chain(&self.sources).chain(&self.scripts)
    }
}

/// The most bytes a token that any tokenizer reaches.
fn best(part: &ComparedText) -> f64 {
    part.tokens.iter().map(|&tokens| float(part.text_bytes) / float(tokens.max(1))).fold(0.0, f64::max)
}

#[derive(Template)]
#[template(path = "comparison.html")]
struct Page<'a> {
    comparison: &'a Comparison,
    /// What there is of all the text, by tokenizer.
    figures: Vec<Vec<String>>,
    /// Parts of the text under a title.
    groups: Vec<(&'static str, Vec<Part>)>,
}

struct Part {
    name: String,
    note: String,
    bars: Vec<Bar>,
}

struct Bar {
    value: String,
    percent: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::is_invisible;
    use crate::units::TokenId;

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
        // What is read from a file may lack figures.
        comparison_to_html(&Comparison { text: ComparedText::default(), ..comparison });
    }
}
