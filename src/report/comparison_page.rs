//! The page that shows a comparison of tokenizers.
//!
//! Each tokenizer has a number and a colour, which are the same everywhere on the page; the colours repeat after
//! six. Every figure carries its key in the JSON of the comparison, by which tests compare the page with it.

use askama::Template;

use super::ShownToken;
use super::charts::COLOURS;
use super::comparison::{
    ComparedIntervals, ComparedText, ComparedTokenizer, ComparedWord, Comparison, Interval,
};
use super::figures::{grouped, plain};
use crate::base::int::{ByteCount, to_f64};

/// Distance in pixels between the dots of two tokenizers, one below the other, so that equal figures hide no dot.
const LANE: usize = 7;
/// Most labels on the axis of bytes per token.
const TICKS: f64 = 8.0;

/// The comparison as an HTML page that needs no other file and no network. All text from the corpus is escaped.
///
/// Tables by source and by main script appear only if they have several parts. All have the same axis.
pub fn comparison_to_html(comparison: &Comparison) -> String {
    Page::of(comparison).render().expect("a page is rendered into memory")
}

/// The data that the template lays out.
#[derive(Template)]
#[template(path = "comparison.html")]
struct Page<'a> {
    /// What was read, in a line.
    summary: String,
    tokenizers: Vec<Key<'a>>,
    /// The name of the baseline.
    baseline: Option<String>,
    /// Whether any figure has a confidence interval.
    has_intervals: bool,
    /// Bytes per token of all text, by tokenizer.
    bars: Vec<Bar>,
    /// The figures of all text: a label, and the figure of each tokenizer.
    figures: Vec<(String, Vec<Cell>)>,
    /// Tables of parts, with the name of a part.
    groups: Vec<(&'static str, Vec<Part>)>,
    axis: Axis,
    words: Vec<Word<'a>>,
}

/// A tokenizer, as it is shown everywhere.
struct Key<'a> {
    /// Its number, from 1.
    number: usize,
    /// The number of its colour.
    colour: usize,
    /// Its path, escaped.
    name: String,
    longest: &'a [ShownToken],
}

/// A figure, with its key in the JSON.
struct Cell {
    key: String,
    value: String,
    /// Whether no tokenizer has a better one.
    best: bool,
    /// Its confidence interval, if there are enough documents.
    interval: Option<Interval>,
    /// The change from the baseline, with its key in the JSON. The baseline itself has no key.
    change: Option<(Option<String>, String)>,
}

/// A bar: its figure, and its length in percent of the longest.
struct Bar {
    cell: Cell,
    percent: String,
}

/// The axis of bytes per token that all parts share. Positions are percentages of its width.
struct Axis {
    /// Labels with their positions.
    ticks: Vec<(String, String)>,
    /// Height in pixels of a strip of dots.
    height: usize,
}

/// A part of the text: a source or a script.
struct Part {
    name: String,
    /// Number of documents and amount of text.
    note: String,
    /// The positions of the leftmost and the rightmost dot.
    span: (String, String),
    /// The position of each tokenizer's dot, and its distance from the top in pixels.
    dots: Vec<(String, usize)>,
    /// The positions of the ends of each tokenizer's confidence interval.
    intervals: Vec<Option<(String, String)>>,
    /// Bytes per token of each tokenizer.
    cells: Vec<Cell>,
}

/// A word, as each tokenizer cuts it.
struct Word<'a> {
    word: String,
    count: Cell,
    tokens: &'a [Vec<ShownToken>],
}

impl<'a> Page<'a> {
    /// Collects and formats everything that the page shows.
    fn of(comparison: &'a Comparison) -> Page<'a> {
        let Comparison { tokenizers, text, words, .. } = comparison;
        let keys: Vec<Key<'_>> = tokenizers.iter().enumerate().map(Key::of).collect();
        let best = |part: &ComparedText| {
            (0..tokenizers.len()).map(|number| part.bytes_per_token(number)).fold(0.0, f64::max)
        };
        let shown = comparison.groups().flat_map(|(_, parts)| parts).chain([text]);
        let longest = shown.map(best).fold(0.0, f64::max);
        let axis = Axis::of(longest, tokenizers.len());
        let part = |kind: &str, at: usize, part: &ComparedText| match kind {
            "source" => {
                let intervals = comparison.source_intervals.get(at);
                Part::of(comparison, part, intervals, &format!("sources.{at}"), longest)
            }
            _ => Part::of(comparison, part, None, &format!("scripts.{at}"), longest),
        };
        let groups = comparison.groups().map(|(kind, parts)| {
            (kind, parts.iter().enumerate().map(|(at, of)| part(kind, at, of)).collect())
        });
        let widest = best(text);
        let bars = bytes_per_token(comparison, text, Some(&comparison.text_intervals), "text")
            .into_iter()
            .enumerate()
            .map(|(number, cell)| Bar { cell, percent: percent(text.bytes_per_token(number), widest) });
        Page {
            summary: format!(
                "{}, {}, {}",
                counted(text.documents, "document"),
                ByteCount(text.text_bytes).to_string().replace(' ', "\u{a0}"),
                counted(text.words, "word")
            ),
            baseline: comparison.baseline.and_then(|at| keys.get(at)).map(|key| key.name.clone()),
            has_intervals: comparison.text_intervals.bytes_per_token.iter().any(Option::is_some),
            bars: bars.collect(),
            figures: figures(comparison),
            groups: groups.collect(),
            axis,
            words: words.iter().enumerate().map(Word::of).collect(),
            tokenizers: keys,
        }
    }
}

impl<'a> Key<'a> {
    /// The tokenizer with this index.
    fn of((index, tokenizer): (usize, &'a ComparedTokenizer)) -> Key<'a> {
        let ComparedTokenizer { path, longest, .. } = tokenizer;
        Key { number: index + 1, colour: index % COLOURS, name: plain(path), longest }
    }
}

impl Cell {
    /// A figure that is neither the best nor measured against the baseline.
    fn new(key: String, value: String) -> Cell {
        Cell { key, value, best: false, interval: None, change: None }
    }
}

impl Axis {
    /// An axis from 0 to a little more than `longest`, with whole labels or simple fractions.
    fn of(longest: f64, tokenizers: usize) -> Axis {
        let steps = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1_000.0];
        let step = steps.into_iter().find(|step| longest / step <= TICKS).unwrap_or(longest);
        let ticks = (0..=8_u64).map(|number| step * to_f64(number)).take_while(|&at| at <= longest * 1.02);
        let label = |at: f64| if step < 1.0 { format!("{at:.1}") } else { format!("{at:.0}") };
        Axis {
            ticks: ticks.map(|at| (label(at), position(at, longest))).collect(),
            height: LANE * (tokenizers.max(2) + 1),
        }
    }
}

impl Part {
    /// A part of the text. `key` is that of the part in the JSON; the axis ends at `longest`.
    fn of(
        comparison: &Comparison,
        part: &ComparedText,
        intervals: Option<&ComparedIntervals>,
        key: &str,
        longest: f64,
    ) -> Part {
        let figures: Vec<f64> =
            (0..comparison.tokenizers.len()).map(|number| part.bytes_per_token(number)).collect();
        let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let most = figures.iter().copied().fold(0.0, f64::max);
        let dot = |(index, &figure): (usize, &f64)| (position(figure, longest), LANE * (index + 1));
        let cells = bytes_per_token(comparison, part, intervals, key);
        let ends = |interval: Interval| (position(interval.low, longest), position(interval.high, longest));
        Part {
            name: plain(&part.name),
            note: format!("{}, {}", counted(part.documents, "document"), ByteCount(part.text_bytes)),
            span: (position(least.min(most), longest), position(most, longest)),
            dots: figures.iter().enumerate().map(dot).collect(),
            intervals: cells.iter().map(|cell| cell.interval.map(ends)).collect(),
            cells,
        }
    }
}

impl<'a> Word<'a> {
    /// The word with this index in the comparison.
    fn of((index, word): (usize, &'a ComparedWord)) -> Word<'a> {
        let ComparedWord { word, count, tokens } = word;
        let count = Cell::new(format!("words.{index}.count"), grouped(*count));
        Word { word: plain(word), count, tokens }
    }
}

/// The interval of this tokenizer, if it has one.
fn interval(intervals: &[Option<Interval>], tokenizer: usize) -> Option<Interval> {
    intervals.get(tokenizer).copied().flatten()
}

/// Bytes per token of a part by each tokenizer, and its tokens against the baseline. `key` is that of the part.
fn bytes_per_token(
    comparison: &Comparison,
    part: &ComparedText,
    intervals: Option<&ComparedIntervals>,
    key: &str,
) -> Vec<Cell> {
    let value = |number| format!("{:.3}", part.bytes_per_token(number));
    let all: Vec<String> = (0..comparison.tokenizers.len()).map(value).collect();
    let best = (0..all.len()).map(|number| part.bytes_per_token(number)).fold(0.0, f64::max);
    let best = format!("{best:.3}");
    let cell = |(number, value): (usize, String)| Cell {
        key: format!("{key}.bytes_per_token.{number}"),
        best: value == best,
        interval: intervals.and_then(|intervals| interval(&intervals.bytes_per_token, number)),
        change: comparison.baseline.map(|_| {
            let known = comparison.against_baseline(part, number);
            let key = known.map(|_| format!("{key}.against_baseline.{number}"));
            (key, comparison.shown_against_baseline(part, number))
        }),
        value,
    };
    all.into_iter().enumerate().map(cell).collect()
}

/// The figures of all text besides bytes per token.
fn figures(comparison: &Comparison) -> Vec<(String, Vec<Cell>)> {
    let Comparison { tokenizers, text, .. } = comparison;
    let row = |label: &str, cell: &dyn Fn(usize, &ComparedTokenizer) -> Cell| {
        (
            label.to_owned(),
            tokenizers.iter().enumerate().map(|(number, tokenizer)| cell(number, tokenizer)).collect(),
        )
    };
    let mut rows = vec![
        row("tokens", &|number, _| {
            Cell::new(format!("text.tokens.{number}"), grouped(text.tokens_of(number)))
        }),
        row("characters per token", &|number, _| {
            let value = format!("{:.3}", text.characters_per_token(number));
            let interval = interval(&comparison.text_intervals.characters_per_token, number);
            Cell { interval, ..Cell::new(format!("text.characters_per_token.{number}"), value) }
        }),
        row("tokens per word", &|number, _| {
            let value = format!("{:.3}", text.tokens_per_word(number));
            Cell::new(format!("text.tokens_per_word.{number}"), value)
        }),
        row("vocabulary", &|number, tokenizer| {
            Cell::new(format!("tokenizers.{number}.vocabulary"), grouped(tokenizer.vocabulary))
        }),
        row("of it used", &|number, tokenizer| {
            Cell::new(format!("tokenizers.{number}.used"), grouped(tokenizer.used))
        }),
        row("share used", &|number, tokenizer| {
            let value = format!("{:.1} %", 100.0 * tokenizer.share_used());
            Cell::new(format!("tokenizers.{number}.share_used"), value)
        }),
        row("of it unreachable", &|number, tokenizer| {
            Cell::new(format!("tokenizers.{number}.unreachable"), grouped(tokenizer.unreachable))
        }),
    ];
    let Some(base) = comparison.base.and_then(|base| comparison.sources.get(base)) else { return rows };
    for (source, part) in comparison.sources.iter().enumerate() {
        let label = format!("tokens of {} against {}", plain(&part.name), plain(&base.name));
        rows.push(row(&label, &|number, _| {
            let premium = comparison.premium(source, number).unwrap_or(0.0);
            let intervals =
                comparison.source_intervals.get(source).filter(|_| comparison.base != Some(source));
            let interval = intervals.and_then(|intervals| interval(&intervals.premium, number));
            Cell { interval, ..Cell::new(format!("premiums.{source}.{number}"), format!("{premium:.3}")) }
        }));
    }
    rows.push(row("Gini coefficient of the sources", &|number, _| {
        Cell::new(format!("gini.{number}"), format!("{:.3}", comparison.gini(number).unwrap_or(0.0)))
    }));
    rows.push(row("worst to best source", &|number, _| {
        let value = comparison.worst_to_best(number).unwrap_or(0.0);
        Cell::new(format!("worst_to_best.{number}"), format!("{value:.3}"))
    }));
    rows
}

/// The length of a bar in percent of the longest; 0 if that has none.
fn percent(value: f64, longest: f64) -> String {
    format!("{:.1}", if longest > 0.0 { 100.0 * value / longest } else { 0.0 })
}

/// The position of a value on the axis, in percent of its width. The axis begins and ends a little within the strip,
/// so that no dot or label is cut.
fn position(value: f64, longest: f64) -> String {
    format!("{:.2}%", 3.0 + if longest > 0.0 { 93.0 * value / longest } else { 0.0 })
}

/// A number of things in groups of three digits, with their name.
fn counted(number: u64, unit: &str) -> String {
    format!("{} {unit}{}", grouped(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::base::int::TokenId;
    use crate::report::{comparison_to_csv, comparison_to_json, comparison_to_markdown, is_invisible};

    const HOSTILE: &str = "</td><script>alert(1)</script>,\"|\u{202E}\u{1B}\u{7}";

    /// Two tokenizers on two sources, with hostile text wherever text comes from outside.
    fn comparison() -> Comparison {
        let text = |name: &str, tokens: [u64; 2]| ComparedText {
            name: name.to_owned(),
            documents: 3,
            text_bytes: 1_000,
            characters: 900,
            words: 150,
            tokens: tokens.into(),
        };
        let tokenizer = |path: &str| ComparedTokenizer {
            path: path.to_owned(),
            vocabulary: 300,
            used: 200,
            unreachable: 3,
            longest: vec![ShownToken::new(TokenId::new(7), HOSTILE.as_bytes())],
        };
        let word = ComparedWord {
            word: HOSTILE.to_owned(),
            count: 5,
            tokens: vec![vec![ShownToken::new(TokenId::new(7), HOSTILE.as_bytes())], Vec::new()],
        };
        // The second tokenizer has too few documents for intervals.
        let intervals = |low: f64| {
            let one = vec![Some(Interval { low, high: low + 0.25 }), None];
            ComparedIntervals {
                bytes_per_token: one.clone(),
                characters_per_token: one.clone(),
                premium: one,
            }
        };
        let sources = vec![text(HOSTILE, [250, 400]), text("other", [500, 400])];
        let mut sum = ComparedText::default();
        sources.iter().for_each(|source| sum.add(source));
        assert_eq!((sum.tokens.as_slice(), sum.words), (&[750, 800][..], 300));
        Comparison {
            base: Some(1),
            text_intervals: ComparedIntervals { premium: Vec::new(), ..intervals(2.4) },
            source_intervals: vec![intervals(3.0), intervals(2.0)],
            tokenizers: vec![tokenizer("one"), tokenizer(HOSTILE)],
            baseline: Some(1),
            sources,
            scripts: Vec::new(),
            text: sum,
            words: vec![word],
        }
    }

    /// The page has the figures, and escapes all text.
    #[test]
    fn the_page_has_the_figures_and_nothing_from_the_text_leaves_its_place() {
        let comparison = comparison();
        let page = comparison_to_html(&comparison);
        assert!(!page.contains("<script"), "{page}");
        assert!(page.chars().all(|c| c == '\n' || !c.is_control() && !is_invisible(c)), "{page}");
        for figure in
            ["2.667", "2.500", "66.7 %", "width:100.0%", "width:93.8%", "−37.5 %", "+25.0 %", "2.400–2.650"]
        {
            assert!(page.contains(figure), "{figure}");
        }
        assert_eq!(page.matches("class=\"interval\"").count(), 2, "{page}");
        // Figures that were read from a file may be incomplete.
        comparison_to_html(&Comparison { text: ComparedText::default(), ..comparison });
        comparison_to_html(&Comparison { baseline: Some(9), ..Comparison::default() });
    }

    /// Every figure of the page and of the CSV is that of the JSON. The CSV reads back with its quotes.
    #[test]
    fn all_forms_have_the_figures_of_the_json() {
        let comparison = comparison();
        let json = comparison_to_json(&comparison);
        let page = comparison_to_html(&comparison);
        let mut figures = 0;
        for rest in page.split("data-key=\"").skip(1) {
            let (key, rest) = rest.split_once("\">").expect("the attribute ends the tag");
            let shown = rest.split_once('<').expect("the element is closed").0;
            let number = shown.replace('\u{2212}', "-").replace('\u{202F}', "");
            let (number, scale) = match number.strip_suffix(" %") {
                Some(number) => (number.to_owned(), 0.01),
                None => (number, 1.0),
            };
            let known = json.pointer(&format!("/{}", key.replace('.', "/"))).and_then(Value::as_f64);
            let known = known.unwrap_or_else(|| panic!("{key} is no figure of {json}"));
            let shown: f64 = number.parse().expect(key);
            assert!((shown * scale - known).abs() <= 0.000_5 + 1e-9, "{key}: {shown} for {known}");
            figures += 1;
        }
        assert!(figures > 20, "{figures}");

        let csv = comparison_to_csv(&comparison);
        let all = json["text"]["bytes_per_token"][0].as_f64().expect("a number");
        assert!(
            csv.contains(&format!(
                "all,,6,2000,1800,300,one,750,{all},2.4,2.5,-0.0625,300,200,3,2.4,2.65,2.4,2.65,,,\n"
            )),
            "{csv}"
        );
        assert!(csv.contains("source,other,3,1000,900,150,one,500,2,"), "{csv}");
        assert!(csv.contains(",\"\"|"), "{csv}");
        assert_eq!(csv.lines().count(), 1 + 3 * 2);

        let markdown = comparison_to_markdown(&comparison);
        assert!(
            markdown.contains("| one | 750 | −6.2 % | 2.667 | 2.400 | 2.500 | 300 | 200 (66.7 %) | 3 |"),
            "{markdown}"
        );
        assert!(markdown.contains("| other | 3 | 1000 | 2.000 (+25.0 %) |"), "{markdown}");
        let cells = |line: &str| line.replace(r"\|", "").matches('|').count();
        let table: Vec<usize> = markdown.lines().filter(|line| line.starts_with('|')).map(cells).collect();
        assert!(table.windows(2).filter(|pair| pair[0] != pair[1]).count() == 4, "{markdown}");
        assert!(!markdown.replace(r"\<", "").contains('<'), "{markdown}");
    }
}
