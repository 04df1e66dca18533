//! The report page: turns a report into the data that its template lays out.
//!
//! The template decides about the layout and escapes all text. This module decides which figures appear and formats
//! them. Every figure carries its key in `report.json`, by which tests compare the page with the JSON.

use askama::Template;

use super::figures::grouped;
use super::{
    BalancedSource, EncodedSource, LearnedMerge, LearnedSource, OutputFile, PackingFacts, ParityFacts,
    Ratios, ResidueToken, RunReport, SampleDocument, ShownToken, StageCost, VocabularyFacts, charts,
};
use crate::base::int::with_unit;
use crate::base::integrity::HTML_CHECKSUM;
use crate::count::Histogram;

/// Length in bytes below which all documents must be to be shown length by length, as for lines. Longer documents are
/// shown by doublings of length. Histograms keep all lengths below it apart.
const SHORT_DOCUMENT: u64 = 256;

/// The content of `report.html`: one page that needs no other file and no network, with a checksum at its end. All
/// text from the corpus is escaped.
pub fn to_html(report: &RunReport) -> String {
    HTML_CHECKSUM.end(&Page::of(report).render().expect("a page is rendered into memory"))
}

/// Without BOS and EOS, because these do not show how well text is compressed.
const BYTES_A_TOKEN: &str = "bytes per token, without BOS and EOS";

/// The data that the template lays out. Every figure carries its key in `report.json`.
#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    /// The name of the recipe, or that of the program if flags took its place.
    title: &'a str,
    report: &'a RunReport,
    /// The few figures at the top.
    headline: Vec<Fact>,
    charts: Vec<Chart<'a>>,
    /// All figures, by topic. Topics without data are left out.
    sections: Vec<Section>,
    /// The first merges, in the order in which they were learned. Empty if none were.
    merges: Vec<Merge>,
    first_tokens: Vec<Token>,
    longest_tokens: Vec<Token>,
    superwords: String,
    first_superwords: Vec<Token>,
    special_tokens: Vec<Token>,
    /// The first tokens that the training text hardly uses but as parts of others.
    residue: Vec<Residue>,
    /// Tables of several sources; with one source, they would repeat the figures of the sections.
    by_source: Vec<BySource<'a>>,
    samples: Vec<Sample>,
    stages: Vec<Stage>,
    files: Vec<File<'a>>,
}

/// A label with a figure or a text.
struct Fact {
    /// The name of the figure; empty in tables, which have headings.
    label: &'static str,
    /// Its key in `report.json`: names and indices separated by dots.
    key: String,
    /// The formatted figure. It equals the value at `key`, rounded.
    value: String,
}

/// A token that the training text hardly uses but as a part of others.
struct Residue {
    token: Token,
    /// The token that it became part of most often.
    made_for: Option<Token>,
    /// How often it stayed whole, and how often it became part of another.
    uses: [Fact; 2],
}

/// A table of figures by source.
struct BySource<'a> {
    title: &'static str,
    /// The headings of the columns of figures.
    labels: Vec<&'static str>,
    /// The URI of each source and its figures, in the order of the recipe.
    rows: Vec<(&'a str, Vec<Fact>)>,
}

/// A chart with its heading.
struct Chart<'a> {
    title: &'static str,
    /// What the axes show.
    note: String,
    /// The number of the colour and the name of each line; empty if there is one line.
    legend: Vec<(usize, &'a str)>,
    /// A complete element, which the template inserts without escaping.
    svg: String,
}

/// Figures on one topic under a title.
struct Section {
    title: &'static str,
    facts: Vec<Fact>,
}

/// A token in a box.
struct Token {
    /// Its [visible](ShownToken::visible) text.
    text: String,
    /// Id and length, which appear under the pointer.
    title: String,
    /// Whether it gets the colour of special tokens.
    special: bool,
}

/// A line in the table of the first merges.
struct Merge {
    left: Token,
    right: Token,
    result: Token,
    count: Fact,
}

/// The tokens of a document: the first ones and, if it is long, the last ones.
struct Sample {
    /// Its unit and row.
    place: String,
    /// Number of all its tokens.
    tokens: Fact,
    /// `token` or `tokens`.
    unit: &'static str,
    first: Vec<Token>,
    last: Vec<Token>,
}

/// A line in the table of stages.
struct Stage {
    name: Fact,
    /// Seconds, bytes of text per second, and peak memory.
    costs: [Fact; 3],
}

/// A line in the table of files.
struct File<'a> {
    path: &'a str,
    /// Bytes, rows and tokens.
    figures: [Option<Fact>; 3],
}

impl<'a> Page<'a> {
    /// Collects and formats everything that the page shows. Empty lists hide their part of the page.
    fn of(report: &'a RunReport) -> Page<'a> {
        let vocabulary = report.vocabulary.as_ref();
        let tokens = |list: Option<&Vec<ShownToken>>| list.into_iter().flatten().map(Token::of).collect();
        let merges = report.training.iter().flat_map(|training| &training.first_merges);
        let samples = report.encoding.iter().flat_map(|encoding| &encoding.samples);
        let residue =
            vocabulary.and_then(|v| v.residue.as_ref()).into_iter().flat_map(|residue| &residue.first);
        Page {
            title: if report.recipe.name.is_empty() { "tokenmill" } else { &report.recipe.name },
            report,
            headline: headline(report),
            charts: draw_charts(report),
            sections: sections(report),
            merges: merges.enumerate().map(|(at, merge)| Merge::of(at, merge)).collect(),
            first_tokens: tokens(vocabulary.map(|v| &v.first_tokens)),
            longest_tokens: tokens(vocabulary.map(|v| &v.longest_tokens)),
            superwords: vocabulary.map_or_else(String::new, |v| with_unit(v.superwords, "superword")),
            first_superwords: tokens(vocabulary.map(|v| &v.first_superwords)),
            special_tokens: tokens(vocabulary.map(|v| &v.special_tokens)),
            residue: residue.enumerate().map(|(at, token)| Residue::of(at, token)).collect(),
            samples: samples.enumerate().map(|(at, sample)| Sample::of(at, sample)).collect(),
            by_source: by_source(report),
            stages: stages(report),
            files: files(report),
        }
    }
}

impl Fact {
    /// A fact that is a text, unchanged. The template escapes it.
    fn text(label: &'static str, key: impl Into<String>, value: &str) -> Fact {
        Fact { label, key: key.into(), value: value.to_owned() }
    }

    /// A whole number in groups of three digits.
    fn count(label: &'static str, key: impl Into<String>, value: u64) -> Fact {
        Fact { label, key: key.into(), value: grouped(value) }
    }

    /// A number: whole and in groups of three digits from 1 000 on, else with three decimal places.
    fn number(label: &'static str, key: impl Into<String>, value: f64) -> Fact {
        let value = match format!("{value:.0}").parse() {
            Ok(whole) if whole >= 1_000 => grouped(whole),
            _ => format!("{value:.3}"),
        };
        Fact { label, key: key.into(), value }
    }

    /// A ratio, which may be undefined.
    fn ratio(label: &'static str, name: &str, value: Option<f64>) -> Fact {
        let key = format!("ratios.{name}");
        match value {
            Some(value) => Fact::number(label, key, value),
            None => Fact::text(label, key, "none"),
        }
    }
}

impl Token {
    /// Formats a token. The id and the length in bytes are its title.
    fn of(token: &ShownToken) -> Token {
        let title = format!("id {}, {}", token.id, with_unit(token.bytes, "byte"));
        Token { text: token.visible(), title, special: token.special }
    }
}

impl Merge {
    /// Formats the merge with this index in `training.first_merges`.
    fn of(at: usize, merge: &LearnedMerge) -> Merge {
        Merge {
            left: Token::of(&merge.left),
            right: Token::of(&merge.right),
            result: Token::of(&merge.result),
            count: Fact::count("", format!("training.first_merges.{at}.count"), merge.count),
        }
    }
}

impl Residue {
    /// Formats the token with this index in `vocabulary.residue.first`.
    fn of(at: usize, residue: &ResidueToken) -> Residue {
        let key = |name| format!("vocabulary.residue.first.{at}.{name}");
        Residue {
            token: Token::of(&residue.token),
            made_for: residue.made_for.as_ref().map(Token::of),
            uses: [("whole", residue.whole), ("part", residue.part)]
                .map(|(name, uses)| Fact::count("", key(name), uses)),
        }
    }
}

impl Sample {
    /// Formats the document with this index in `encoding.samples`.
    fn of(at: usize, sample: &SampleDocument) -> Sample {
        Sample {
            place: format!("{}, row {}", sample.unit, sample.row),
            tokens: Fact::count("", format!("encoding.samples.{at}.tokens"), sample.tokens),
            unit: if sample.tokens == 1 { "token" } else { "tokens" },
            first: sample.first.iter().map(Token::of).collect(),
            last: sample.last.iter().map(Token::of).collect(),
        }
    }
}

/// The few figures that a reader looks for first. Which ones there are depends on what the run did. Only the bytes of
/// text are always there.
fn headline(report: &RunReport) -> Vec<Fact> {
    let ratios = Ratios::of(report);
    let mut facts = Vec::new();
    facts.extend(report.corpus.documents.map(|count| Fact::count("documents", "corpus.documents", count)));
    facts.push(Fact::count("bytes of text", "corpus.text_bytes", report.corpus.text_bytes));
    if let Some(vocabulary) = &report.vocabulary {
        facts.push(Fact::count("tokens in the vocabulary", "vocabulary.tokens", vocabulary.tokens));
    }
    if let Some(training) = &report.training {
        facts.push(Fact::count("tokens after training", "training.tokens_after", training.tokens_after));
        facts.push(Fact::number("training time (s)", "training.train_s", training.train_s));
    }
    if let Some(encoding) = &report.encoding {
        facts.push(Fact::count("tokens written", "encoding.tokens", encoding.tokens));
        facts.push(Fact::ratio(BYTES_A_TOKEN, "bytes_per_token", ratios.bytes_per_token));
    }
    facts
}

/// The sections of figures that apply to the run.
fn sections(report: &RunReport) -> Vec<Section> {
    let mut sections = vec![Section { title: "Corpus", facts: corpus(report) }];
    if let Some(training) = &report.training {
        let count = |label, key: &str, value| Fact::count(label, format!("training.{key}"), value);
        let text = |label, key: &str, value| Fact::text(label, format!("training.{key}"), value);
        let ratio = Ratios::of(report).training_compression;
        let taken_over = (training.merges_taken_over > 0).then(|| {
            count("of these from the extended tokenizer", "merges_taken_over", training.merges_taken_over)
        });
        let mut facts = vec![
            count("merges requested", "merges_asked", training.merges_asked),
            count("merges learned", "merges_learned", training.merges_learned),
        ];
        facts.extend(taken_over);
        facts.extend([
            Fact::number("training time (s)", "training.train_s", training.train_s),
            count("distinct sequences", "distinct_pretokens", training.distinct_pretokens),
            count("tokens before", "tokens_before", training.tokens_before),
            count("tokens after", "tokens_after", training.tokens_after),
            Fact::ratio("tokens before / after", "training_compression", ratio),
            count("minimum count of a merge", "min_frequency", training.min_frequency),
            text("tie rule", "tie_break", &training.tie_break),
            text("score", "score", &training.score),
            text("boundary", "boundary", &training.boundary),
        ]);
        sections.push(Section { title: "Training", facts });
        sections.extend(
            training.parity.as_ref().map(|parity| Section { title: "Parity", facts: parity_facts(parity) }),
        );
    }
    if let Some(found) = &report.encoding {
        sections.push(Section { title: "Encoding", facts: encoding(report) });
        if let Some(packing) = &found.packing {
            let utilisation = Ratios::of(report).packing_utilisation;
            sections.push(Section { title: "Packing", facts: packing_facts(packing, utilisation) });
        }
    }
    if let Some(facts) = report.vocabulary.as_ref().map(vocabulary_facts).filter(|facts| !facts.is_empty()) {
        sections.push(Section { title: "Vocabulary", facts });
    }
    if let Some(tokenizer) = &report.tokenizer {
        let path = tokenizer.path.as_deref();
        let read = path.map(|path| Fact::text("read from", "tokenizer.path", path));
        let mut facts = vec![
            Fact::text("split", "tokenizer.split", &tokenizer.split),
            Fact::text("fingerprint", "tokenizer.fingerprint", &tokenizer.fingerprint),
        ];
        facts.extend(read);
        sections.push(Section { title: "Tokenizer", facts });
    }
    sections
}

/// Figures of a vocabulary: the tokens that waste rows of an embedding.
fn vocabulary_facts(vocabulary: &VocabularyFacts) -> Vec<Fact> {
    let count = |label, key: &str, value| Fact::count(label, format!("vocabulary.{key}"), value);
    let unreachable =
        vocabulary.unreachable.map(|tokens| count("tokens never encoded to", "unreachable", tokens));
    let residue = vocabulary.residue.iter().flat_map(|residue| {
        [
            count("tokens hardly used but as parts", "residue.tokens", residue.tokens),
            count("of tokens that merges make", "residue.of", residue.of),
        ]
    });
    unreachable.into_iter().chain(residue).collect()
}

/// Figures of parity-aware training.
fn parity_facts(parity: &ParityFacts) -> Vec<Fact> {
    let number = |label, key: &str, value| Fact::number(label, format!("training.parity.{key}"), value);
    vec![
        number("Gini coefficient of the costs", "gini", parity.gini),
        number("Gini coefficient without parity", "plain_gini", parity.plain_gini),
        number("greatest cost / least", "worst_to_best", parity.worst_to_best),
        number("greatest cost / least without parity", "plain_worst_to_best", parity.plain_worst_to_best),
    ]
}

/// Figures of the corpus.
fn corpus(report: &RunReport) -> Vec<Fact> {
    let corpus = &report.corpus;
    let count = |label, key: &str, value| Fact::count(label, format!("corpus.{key}"), value);
    let ratio = Ratios::of(report).bytes_per_character;
    let mut facts: Vec<Fact> = corpus
        .sources
        .iter()
        .enumerate()
        .map(|(at, source)| Fact::text("source", format!("corpus.sources.{at}"), source))
        .collect();
    facts.extend(corpus.documents.map(|documents| count("documents", "documents", documents)));
    facts.extend(corpus.null_documents.map(|nulls| count("null rows", "null_documents", nulls)));
    facts.push(count("bytes of text", "text_bytes", corpus.text_bytes));
    if let Some(characters) = corpus.characters {
        facts.push(count("characters", "characters", characters));
        facts.push(Fact::ratio("bytes per character", "bytes_per_character", ratio));
    }
    facts.extend(corpus.distinct_bytes.map(|bytes| count("distinct bytes", "distinct_bytes", bytes)));
    facts
}

/// Figures of encoding.
fn encoding(report: &RunReport) -> Vec<Fact> {
    let Some(encoding) = &report.encoding else { return Vec::new() };
    let ratios = Ratios::of(report);
    let count = |label, key: &str, value| Fact::count(label, format!("encoding.{key}"), value);
    let added = |label, key: &str, token: &Option<ShownToken>| match token {
        Some(token) => Fact::text(label, format!("encoding.{key}.text"), &token.visible()),
        None => Fact::text(label, format!("encoding.{key}"), "none"),
    };
    let mut facts = vec![
        count("documents", "documents", encoding.documents),
        count("null rows", "null_documents", encoding.null_documents),
        count("bytes of text", "text_bytes", encoding.text_bytes),
        count("tokens written", "tokens", encoding.tokens),
        count("of these BOS and EOS", "added_tokens", encoding.added_tokens),
        Fact::ratio(BYTES_A_TOKEN, "bytes_per_token", ratios.bytes_per_token),
        Fact::ratio("tokens per document", "tokens_per_document", ratios.tokens_per_document),
        added("before each document", "bos", &encoding.bos),
        added("after each document", "eos", &encoding.eos),
        Fact::text("text of special tokens", "encoding.special", &encoding.special),
    ];
    let missing_bytes = encoding.missing_bytes.as_deref();
    facts.extend(
        missing_bytes.map(|policy| Fact::text("bytes without a token", "encoding.missing_bytes", policy)),
    );
    let dropout = encoding.dropout.as_deref();
    facts.extend(
        dropout.map(|dropout| Fact::text("probability to leave a merge out", "encoding.dropout", dropout)),
    );
    facts
}

/// Figures of packing.
fn packing_facts(packing: &PackingFacts, utilisation: Option<f64>) -> Vec<Fact> {
    let count = |label, key: &str, value| Fact::count(label, format!("encoding.packing.{key}"), value);
    vec![
        Fact::text("rule", "encoding.packing.rule", &packing.rule),
        count("maximum tokens per row", "length", packing.length),
        count("rows", "rows", packing.rows),
        Fact::ratio("utilisation", "packing_utilisation", utilisation),
        count("tokens missing to fill all rows", "padding", packing.padding),
        count("documents cut across rows", "cut_documents", packing.cut_documents),
    ]
}

/// The charts for which the report has data.
fn draw_charts(report: &RunReport) -> Vec<Chart<'_>> {
    let mut charts = Vec::new();
    let mut add = |title, note: String, svg| charts.push(Chart { title, note, legend: Vec::new(), svg });
    if let Some(training) = &report.training {
        let by_merges = || "against merges learned".to_owned();
        add("Bytes per token in training", by_merges(), charts::bytes_per_token(training));
        add("Tokens in the training text", by_merges(), charts::tokens_by_merges(training));
        if !training.merge_counts.is_empty() {
            let note = "against its rank, axes logarithmic".to_owned();
            add("Count of each merge", note, charts::counts_by_rank(&training.merge_counts));
        }
    }
    if let Some(vocabulary) = &report.vocabulary {
        let lengths = &vocabulary.token_lengths;
        let longest = longest_bar(lengths);
        let rest = match lengths.bins().last() {
            Some(last) if last.to > longest => format!("; the last bar is {longest} and more"),
            _ => String::new(),
        };
        let svg = charts::of_each_length(lengths, longest, "token");
        add("Length of tokens", format!("tokens of each length in bytes{rest}"), svg);
    }
    if let Some(lengths) = &report.corpus.document_lengths {
        if lengths.bins().iter().all(|bin| bin.to < SHORT_DOCUMENT) {
            let svg = charts::of_each_length(lengths, SHORT_DOCUMENT, "document");
            add("Length of documents", "documents of each length in bytes".to_owned(), svg);
        } else {
            let note = "documents by length in bytes, one bar per doubling".to_owned();
            add("Length of documents", note, charts::of_each_doubling(lengths, "document"));
        }
    }
    charts.extend(report.training.as_ref().and_then(|training| training.parity.as_ref()).map(cost_chart));
    charts
}

/// The chart of the cost of each source of parity-aware training.
fn cost_chart(parity: &ParityFacts) -> Chart<'_> {
    let cost = match parity.has_development() {
        true => "tokens of its development text",
        false => "tokens per byte of its text",
    };
    Chart {
        title: "Cost of each source",
        note: format!("{cost}, against merges learned"),
        legend: (0..charts::COLOURS)
            .cycle()
            .zip(parity.sources.iter().map(|source| source.uri.as_str()))
            .collect(),
        svg: charts::costs(parity),
    }
}

/// The length from which on tokens have one bar together: at most one in a hundred does, since a few very long ones
/// would leave no width for the others. At least 16 and at most 64 bytes.
fn longest_bar(lengths: &Histogram) -> u64 {
    let mut longer: u64 = lengths.bins().iter().map(|bin| bin.count).sum();
    let most = longer / 100;
    let mut bins = lengths.bins().iter();
    let found = bins.find(|bin| {
        longer -= bin.count;
        longer <= most
    });
    found.map_or(64, |bin| bin.to + 1).clamp(16, 64)
}

impl<'a> BySource<'a> {
    /// A table of a `list` of the report; `None` unless it has several sources. `facts_of` returns the URI of a source and
    /// its figures, whose keys are those within the source.
    fn of<S>(
        title: &'static str,
        list: &str,
        sources: &'a [S],
        facts_of: impl Fn(&'a S) -> (&'a str, Vec<Fact>),
    ) -> Option<BySource<'a>> {
        let row = |(at, source)| {
            let (uri, facts) = facts_of(source);
            let key = |fact: &Fact| format!("{list}.{at}.{}", fact.key);
            (uri, facts.into_iter().map(|fact| Fact { key: key(&fact), ..fact }).collect::<Vec<_>>())
        };
        let rows: Vec<_> = sources.iter().enumerate().map(row).collect();
        let labels = rows.first()?.1.iter().map(|fact| fact.label).collect();
        (rows.len() > 1).then_some(BySource { title, labels, rows })
    }
}

/// Tables of the contributions of sources to training and to encoding.
fn by_source(report: &RunReport) -> Vec<BySource<'_>> {
    let learned = report.training.as_ref().map_or(&[][..], |training| &training.sources);
    let learned = BySource::of("Training text by source", "training.sources", learned, |source| {
        let &LearnedSource { ref uri, documents, text_bytes, weight, share } = source;
        let facts = vec![
            Fact::count("documents", "documents", documents),
            Fact::count("bytes of text", "text_bytes", text_bytes),
            Fact::count("weight", "weight", weight),
            Fact::number("share of all text", "share", share),
        ];
        (uri, facts)
    });
    let parity = report.training.as_ref().and_then(|training| training.parity.as_ref());
    let balanced = parity.map_or(&[][..], |parity| &parity.sources);
    let develops = parity.is_some_and(ParityFacts::has_development);
    let balanced = BySource::of("Parity by source", "training.parity.sources", balanced, |source| {
        let BalancedSource { uri, text_bytes, tokens, development_tokens, .. } = source;
        let mut facts = vec![
            Fact::count("bytes of text", "text_bytes", *text_bytes),
            Fact::count("tokens", "tokens", *tokens),
        ];
        let development = "tokens of the development text";
        facts.extend(develops.then(|| Fact::count(development, "development_tokens", *development_tokens)));
        facts.extend([
            Fact::number("bytes per token", "bytes_per_token", source.bytes_per_token),
            Fact::number("without parity", "plain_bytes_per_token", source.plain_bytes_per_token),
        ]);
        (uri, facts)
    });
    let encoded = report.encoding.as_ref().map_or(&[][..], |encoding| &encoding.sources);
    let encoded = BySource::of("Encoded text by source", "encoding.sources", encoded, |source| {
        let &EncodedSource { ref uri, documents, text_bytes, tokens, bytes_per_token } = source;
        let facts = vec![
            Fact::count("documents", "documents", documents),
            Fact::count("bytes of text", "text_bytes", text_bytes),
            Fact::count("tokens", "tokens", tokens),
            Fact::number(BYTES_A_TOKEN, "bytes_per_token", bytes_per_token),
        ];
        (uri, facts)
    });
    learned.into_iter().chain(balanced).chain(encoded).collect()
}

/// The table of stages.
fn stages(report: &RunReport) -> Vec<Stage> {
    let row = |(at, stage): (usize, &StageCost)| {
        let fact = |name, value| Fact { label: "", key: format!("stages.{at}.{name}"), value };
        let memory = stage.peak_memory_bytes.map_or("unknown".to_owned(), grouped);
        let costs = [
            fact("seconds", format!("{:.3}", stage.seconds)),
            fact("bytes_per_s", grouped_float(stage.bytes_per_s)),
            fact("peak_memory_bytes", memory),
        ];
        Stage { name: fact("name", stage.name.clone()), costs }
    };
    report.stages.iter().enumerate().map(row).collect()
}

/// The table of output files.
fn files(report: &RunReport) -> Vec<File<'_>> {
    let row = |(at, file): (usize, &'_ OutputFile)| {
        let count = |name, value| Fact::count("", format!("files.{at}.{name}"), value);
        let rows = file.rows.map(|rows| count("rows", rows));
        let tokens = file.tokens.map(|tokens| count("tokens", tokens));
        [Some(count("bytes", file.bytes)), rows, tokens]
    };
    let files = report.files.iter().enumerate();
    files.map(|(at, file)| File { path: &file.path, figures: row((at, file)) }).collect()
}

/// A rounded number in groups of three digits.
fn grouped_float(number: f64) -> String {
    format!("{number:.0}").parse().map_or_else(|_| format!("{number:.0}"), grouped)
}

/// The tokens of a text as an HTML page that needs no other file and no network. All token text is escaped.
pub fn tokens_to_html(tokens: &[ShownToken]) -> String {
    TokensPage { tokens }.render().expect("a page is rendered into memory")
}

/// The data of the page that `tokens --html` writes.
#[derive(Template)]
#[template(path = "tokens.html")]
struct TokensPage<'a> {
    tokens: &'a [ShownToken],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::int::TokenId;

    /// The page shows each token, and escapes all text.
    #[test]
    fn the_page_shows_each_token_and_nothing_leaves_its_place() {
        let token = |id, bytes: &[u8]| ShownToken::new(TokenId::new(id), bytes);
        let page = tokens_to_html(&[token(7, b"<script>"), token(300, b" a\n"), token(255, b"\xFF")]);
        assert!(!page.contains("<script"), "{page}");
        for expected in
            ["3 tokens", "id 300, 3 bytes", "\u{2423}a", "</span><br>", "\\xFF", "&#60;script&#62;"]
        {
            assert!(page.contains(expected), "{expected}: {page}");
        }
    }
}
