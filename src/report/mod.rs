//! Reports of what a run did: the numbers as JSON, and charts as one self-contained HTML page.
//!
//! Takes plain results ([`RunReport`]), computes ratios, and draws. Reads no inputs. Times and memory use appear
//! in these two files only, so everything else that a run writes depends on its input alone.
//!
//! ```
//! use tokenmill::report::{EncodingFacts, Ratios, RunReport, to_json};
//!
//! let encoding = EncodingFacts { text_bytes: 10, tokens: 6, added_tokens: 2, ..EncodingFacts::default() };
//! let report = RunReport { encoding: Some(encoding), ..RunReport::default() };
//! assert_eq!(Ratios::of(&report).bytes_per_token, Some(2.5));
//! assert!(to_json(&report).contains("\"bytes_per_token\": 2.5"));
//! ```

mod figures;
mod inequality;
mod charts;
mod html;
mod comparison;
mod comparison_page;
mod explorer_page;

use std::io;
use std::path::Path;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};

use super::base::atomic_file::publish_bytes_within;
use super::base::integrity::{HTML_CHECKSUM, JSON_CHECKSUM, check_format_version};
use super::error::{Error, ErrorKind, Result, json_problem_at};

pub use comparison::{
    ComparedIntervals, ComparedText, ComparedTokenizer, ComparedWord, Comparison, Interval,
    comparison_to_csv, comparison_to_json, comparison_to_markdown, percent_of_change,
};
pub use comparison_page::comparison_to_html;
pub use explorer_page::{ExploredTokenizer, Explorer, explorer_to_html};
pub use figures::{
    BalancedSource, CorpusFacts, EncodedSource, EncodingFacts, LearnedMerge, LearnedSource, OutputFile,
    PackingFacts, ParityFacts, Ratios, RecipeFacts, ResidueFacts, ResidueToken, RunReport, SampleDocument,
    ShownToken, SkippedInput, StageCost, TokenizerFacts, TrainingFacts, VocabularyFacts,
};
#[doc(hidden)]
pub use figures::{beginning, is_invisible, push_escaped};
pub use html::{to_html, tokens_to_html};
pub use inequality::{gini, worst_to_best};

/// Name of the file with the numbers, in an output's folder.
pub const JSON_NAME: &str = "report.json";

/// Name of the page, in an output's folder.
pub const HTML_NAME: &str = "report.html";

/// Writes `report.json` and `report.html` into an existing folder. Each file is replaced as a whole or not at
/// all.
///
/// The JSON is written first, so a crash between the two leaves at most an old page.
///
/// # Errors
/// The folder cannot be written to.
pub fn write(folder: &Path, report: &RunReport) -> Result<()> {
    write_of(folder, None, report)
}

/// Writes the report of one split. `split` is `None` for the first split of an output; the others have file names
/// of their own.
///
/// # Errors
/// The folder cannot be written to.
pub(crate) fn write_of(folder: &Path, split: Option<&str>, report: &RunReport) -> Result<()> {
    let [json, html] = names(split);
    publish_bytes_within(&folder.join(json), to_json(report).as_bytes())?;
    publish_bytes_within(&folder.join(html), to_html(report).as_bytes())
}

/// The file names of a report: of the numbers, and of the page. The names depend on the split alone, so a second run
/// replaces the files of the first.
pub(crate) fn names(split: Option<&str>) -> [String; 2] {
    match split {
        None => [JSON_NAME.to_owned(), HTML_NAME.to_owned()],
        Some(split) => [format!("report-{split}.json"), format!("report-{split}.html")],
    }
}

/// Reads the report in a folder that [`write()`] wrote. The checksum at the end of the file is not compared.
///
/// # Errors
/// The folder has no report, one that is no JSON of a report, or one of a later version of the format.
pub fn read(folder: &Path) -> Result<RunReport> {
    read_of(folder, None)
}

/// Reads the report of one split: see [`write_of`].
///
/// # Errors
/// Those of [`read`].
pub(crate) fn read_of(folder: &Path, split: Option<&str>) -> Result<RunReport> {
    let [json, _] = names(split);
    let path = folder.join(json);
    let text = std::fs::read(&path).map_err(|cause| Error::io("read", &path, cause))?;
    let damaged = |cause: serde_json::Error| {
        Error::failed(format!("{}: not a report: {}", path.display(), json_problem_at(&cause)))
    };
    check_format_version(&path, &text, damaged)?;
    serde_json::from_slice(&text).map_err(damaged)
}

/// Compares a file of a report with the checksum at its end. A missing file is no fault. The ending of the name
/// decides between the forms of the checksum. A file without a checksum counts as changed.
///
/// # Errors
/// It is not as it was written ([`ErrorKind::Mismatch`]), or cannot be read.
pub(crate) fn check(path: &Path) -> Result<()> {
    let text = match std::fs::read(path) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(|cause| Error::io("read", path, cause))?,
    };
    let is_page = path.extension().is_some_and(|extension| extension == "html");
    let checksum = if is_page { &HTML_CHECKSUM } else { &JSON_CHECKSUM };
    match checksum.holds(&text) {
        Some(true) => Ok(()),
        _ => {
            let problem = format!("{}: changed since it was written: its checksum differs", path.display());
            Err(Error::message(ErrorKind::Mismatch, problem))
        }
    }
}

/// The layout of `report.json`.
#[derive(Serialize)]
struct Content<'a> {
    /// Its fields are keys of the outermost object.
    #[serde(flatten)]
    report: &'a RunReport,
    /// An object of its own, so that computed values are apart from measured ones. Reading ignores it.
    ratios: Ratios,
}

/// The content of `report.json`: the report, its [`Ratios`], and a checksum, with a newline at the end.
///
/// Equal reports give equal text. The keys have the order of the fields.
pub fn to_json(report: &RunReport) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Lines::default());
    let content = Content { report, ratios: Ratios::of(report) };
    content.serialize(&mut serializer).expect("plain values can be written to memory");
    bytes.push(b'\n');
    JSON_CHECKSUM.end(&String::from_utf8(bytes).expect("JSON is UTF-8"))
}

/// Indents objects but writes a list on one line, or a list of objects with one line per object. So the list of all
/// merge counts, which can have a hundred thousand entries, takes one line. It only formats; the JSON is the same
/// value as with any other formatter.
#[derive(Default)]
struct Lines {
    /// Formats everything outside lists, with two spaces per level.
    pretty: PrettyFormatter<'static>,
    /// Number of lists around the current position; 0 outside all lists.
    lists: usize,
    /// Number of objects around the current position, counted from the outermost list.
    objects_in_list: usize,
}

impl Formatter for Lines {
    fn begin_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.lists += 1;
        out.write_all(b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.lists -= 1;
        out.write_all(b"]")
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.lists == 0 {
            return self.pretty.begin_object(out);
        }
        let outermost = self.objects_in_list == 0;
        self.objects_in_list += 1;
        out.write_all(if outermost { b"\n      {" } else { b"{" })
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.lists == 0 {
            return self.pretty.end_object(out);
        }
        self.objects_in_list -= 1;
        out.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        match (self.lists, first) {
            (0, _) => self.pretty.begin_object_key(out, first),
            (_, true) => Ok(()),
            (_, false) => out.write_all(b", "),
        }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.lists == 0 { self.pretty.end_object_value(out) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::base::int::TokenId;
    use crate::count::Histogram;
    use crate::train::{HistoryPoint, ParityPoint};

    /// An ordinary token.
    fn token(id: u32, bytes: &[u8]) -> ShownToken {
        ShownToken::new(TokenId::new(id), bytes)
    }

    /// A histogram of these lengths.
    fn lengths(lengths: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        lengths.into_iter().for_each(|length| histogram.add(length));
        histogram
    }

    fn training() -> TrainingFacts {
        let merge = |count| LearnedMerge {
            left: token(116, b"t"),
            right: token(104, b"h"),
            result: token(256, b"th"),
            count,
        };
        TrainingFacts {
            merges_asked: 5_000,
            merges_learned: 4_321,
            merges_taken_over: 321,
            train_s: 0.012_345,
            distinct_pretokens: 1_234,
            tokens_before: 9_876_543,
            tokens_after: 3_210_987,
            min_frequency: 2,
            tie_break: "ids".to_owned(),
            score: "count".to_owned(),
            boundary: "document".to_owned(),
            sources: [("verse.parquet", 0.25), ("prose.parquet", 0.75)].map(learned_source).into(),
            parity: Some(parity()),
            history: [(0, 9_876_543), (2_000, 5_000_000), (4_321, 3_210_987)]
                .map(|(merges, tokens)| HistoryPoint { merges, tokens })
                .into(),
            first_merges: vec![merge(88_123), merge(70_001)],
            merge_counts: (0..4_321).map(|rank| 88_123 / (rank + 1) + 2).collect(),
        }
    }

    fn parity() -> ParityFacts {
        let point = |merges, one, two| ParityPoint {
            merges,
            sources: vec![one, two],
            development: vec![one / 1_000, two / 1_000],
        };
        let names = ["verse.parquet", "prose.parquet"].map(str::to_owned).to_vec();
        let history = vec![point(0, 6_000_000, 3_876_543), point(4_321, 2_000_000, 1_210_987)];
        ParityFacts::of(names, history, &point(4_321, 2_900_000, 1_100_987)).expect("two points")
    }

    fn learned_source((uri, share): (&str, f64)) -> LearnedSource {
        LearnedSource { uri: uri.to_owned(), documents: 500, text_bytes: 6_172_839, weight: 3, share }
    }

    fn encoding() -> EncodingFacts {
        EncodingFacts {
            documents: 1_000,
            null_documents: 3,
            text_bytes: 12_345_678,
            tokens: 3_211_987,
            added_tokens: 1_000,
            bos: None,
            eos: Some(ShownToken::special(TokenId::new(4_577), "<|endoftext|>")),
            special: "text".to_owned(),
            missing_bytes: None,
            dropout: None,
            packing: Some(PackingFacts {
                rule: "best-fit".to_owned(),
                length: 2_048,
                rows: 1_570,
                padding: 3_373,
                cut_documents: 12,
            }),
            sources: ["verse.parquet", "prose.parquet"].map(encoded_source).into(),
            samples: vec![SampleDocument {
                unit: "verse.parquet".to_owned(),
                row: 17,
                tokens: 123,
                first: vec![token(256, b"th"), token(32, b" ")],
                last: vec![ShownToken::special(TokenId::new(4_577), "<|endoftext|>")],
            }],
        }
    }

    fn encoded_source(uri: &str) -> EncodedSource {
        let (text_bytes, tokens) = (6_172_839, 1_605_993);
        EncodedSource { uri: uri.to_owned(), documents: 500, text_bytes, tokens, bytes_per_token: 3.844_825 }
    }

    fn report() -> RunReport {
        RunReport {
            format_version: 1,
            tool_version: "1.2.3".to_owned(),
            recipe: RecipeFacts {
                name: "verse.toml".to_owned(),
                text: "[source]\nuri = \"verse.parquet\"\n".to_owned(),
                sha256: "ab12".to_owned(),
            },
            corpus: CorpusFacts {
                sources: vec!["verse.parquet".to_owned()],
                documents: Some(1_000),
                null_documents: Some(3),
                text_bytes: 12_345_678,
                characters: Some(12_000_001),
                distinct_bytes: Some(97),
                document_lengths: Some(lengths((0..1_000).map(|n| n * n % 4_001))),
            },
            tokenizer: Some(TokenizerFacts {
                fingerprint: "cd34".to_owned(),
                path: None,
                split: "gpt4".to_owned(),
            }),
            training: Some(training()),
            vocabulary: Some(VocabularyFacts {
                tokens: 4_578,
                special_tokens: vec![ShownToken::special(TokenId::new(4_577), "<|endoftext|>")],
                token_lengths: lengths([1; 256].into_iter().chain((0..4_321).map(|n| 2 + n % 17))),
                first_tokens: vec![token(256, b"th")],
                longest_tokens: vec![token(4_000, &b"x".repeat(5_000))],
                unreachable: Some(3),
                residue: Some(ResidueFacts {
                    floor: 0.01,
                    tokens: 1_234,
                    of: 4_321,
                    first: vec![ResidueToken {
                        token: token(300, b"abov"),
                        whole: 1,
                        part: 1_002,
                        made_for: Some(token(301, b"above")),
                    }],
                }),
                superwords: 2,
                first_superwords: vec![token(300, b" of the")],
            }),
            encoding: Some(encoding()),
            stages: vec![
                StageCost::new("count", 0.25, 12_345_678, Some(61_000_000)),
                StageCost::new("train", 0.5, 0, None),
            ],
            files: vec![OutputFile {
                path: "data/train-00000-of-00001.parquet".to_owned(),
                bytes: 4_000_123,
                rows: Some(1_003),
                tokens: Some(3_211_987),
                sha256: Some("ef56".to_owned()),
            }],
            input_notes: vec!["1 file of data is left out, with names that show no format: 1 .md".to_owned()],
            skipped_inputs: 1,
            skipped: vec![SkippedInput {
                place: "verse.parquet: row 9".to_owned(),
                reason: "damaged".to_owned(),
            }],
        }
    }

    /// The figures of a page: each key in the JSON, with the text that the page shows for it.
    fn figures(page: &str) -> Vec<(String, String)> {
        let marked = page.split("data-key=\"").skip(1);
        marked
            .map(|rest| {
                let (key, rest) = rest.split_once("\">").expect("the attribute ends the tag");
                (key.to_owned(), rest.split_once('<').expect("the element is closed").0.to_owned())
            })
            .collect()
    }

    /// The value at a key of the page in the JSON.
    fn look_up<'a>(json: &'a Value, key: &str) -> &'a Value {
        let pointer = format!("/{}", key.replace('.', "/"));
        json.pointer(&pointer).unwrap_or(&Value::Null)
    }

    /// Each figure on the page equals the value in the JSON at its key, rounded as shown.
    #[test]
    fn figures_of_the_page_are_those_of_the_json() {
        let report = report();
        let json: Value = serde_json::from_str(&to_json(&report)).expect("valid JSON");
        let figures = figures(&to_html(&report));
        assert!(figures.len() > 50, "{}", figures.len());
        for (key, shown) in figures {
            let digits = shown.replace('\u{202F}', "");
            match look_up(&json, &key) {
                Value::Null => assert!(matches!(shown.as_str(), "none" | "unknown"), "{key}: {shown}"),
                Value::String(text) => {
                    assert_eq!(shown.replace("&#60;", "<").replace("&#62;", ">"), *text, "{key}")
                }
                Value::Number(number) if number.is_u64() => assert_eq!(digits, number.to_string(), "{key}"),
                Value::Number(number) => {
                    let shown: f64 = digits.parse().expect("a number");
                    let places = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
                    let exact = number.as_f64().expect("a finite number");
                    let allowed = 0.5 / 10_f64.powi(i32::try_from(places).expect("a few")) + 1e-9;
                    assert!((shown - exact).abs() <= allowed, "{key}: {shown} for {exact}");
                }
                other => panic!("{key} is no figure: {other}"),
            }
        }
    }

    /// The JSON reads back as the same report, has the ratios, and stays short.
    #[test]
    fn the_json_holds_the_report_and_its_ratios() {
        let report = report();
        let json = to_json(&report);
        assert_eq!(serde_json::from_str::<RunReport>(&json).expect("its own JSON"), report);
        let value: Value = serde_json::from_str(&json).expect("valid JSON");
        let ratio = |name: &str| format!("{:.6}", value["ratios"][name].as_f64().expect("a number"));
        assert_eq!(ratio("training_compression"), format!("{:.6}", 9_876_543.0 / 3_210_987.0));
        assert_eq!(ratio("bytes_per_token"), format!("{:.6}", 12_345_678.0 / 3_210_987.0));
        assert_eq!(ratio("packing_utilisation"), format!("{:.6}", 3_211_987.0 / (1_570.0 * 2_048.0)));
        assert!(json.lines().count() < 300, "a list of counts stands in one line");
    }

    /// A report of a later version is refused with its version, and what is no report with the place of the fault.
    #[test]
    fn reports_of_later_versions_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        for (text, said) in [
            (
                r#"{"format_version": 99}"#,
                "report.json: format version 99; this program knows versions up to 1",
            ),
            (
                "{\"format_version\": 1,\n}",
                "report.json: not a report: line 2, column 1: a comma has nothing behind it",
            ),
        ] {
            std::fs::write(folder.path().join(JSON_NAME), text).expect("written");
            let error = read(folder.path()).expect_err(text);
            assert!(error.to_string().ends_with(said), "{error}");
        }
        write(folder.path(), &report()).expect("written");
        assert_eq!(read(folder.path()).expect("its own report"), report());
    }

    /// Ratios with a denominator of 0 are null in the JSON and `none` on the page.
    #[test]
    fn a_ratio_of_nothing_is_none() {
        let nothing = EncodingFacts { packing: Some(PackingFacts::default()), ..EncodingFacts::default() };
        let report = RunReport { encoding: Some(nothing), ..RunReport::default() };
        let json: Value = serde_json::from_str(&to_json(&report)).expect("valid JSON");
        let ratios = json["ratios"].as_object().expect("the ratios");
        assert!(ratios.len() == 5 && ratios.values().all(Value::is_null), "{ratios:?}");
        let figures = figures(&to_html(&report));
        let ratios = figures.iter().filter(|(key, _)| key.starts_with("ratios."));
        assert!(ratios.clone().count() >= 3 && ratios.clone().all(|(_, shown)| shown == "none"));
    }

    /// Markup and control characters in any text of a report are escaped.
    #[test]
    fn text_from_the_corpus_cannot_leave_its_place() {
        let hostile = "</pre></td><script>alert(\"'&\")</script><img src=x onerror=y>";
        let mut report = report();
        report.recipe.name = hostile.to_owned();
        report.recipe.text = hostile.to_owned();
        report.corpus.sources = vec![hostile.to_owned()];
        report.skipped[0].reason = hostile.to_owned();
        report.files[0].path = hostile.to_owned();
        let vocabulary = report.vocabulary.as_mut().expect("a vocabulary");
        vocabulary.first_tokens = vec![token(1, hostile.as_bytes())];
        vocabulary.special_tokens = vec![ShownToken::special(TokenId::new(2), hostile)];
        let encoding = report.encoding.as_mut().expect("an encoding");
        encoding.samples[0].unit = hostile.to_owned();
        encoding.bos = Some(ShownToken::special(TokenId::new(3), "\u{202E}\u{1B}"));
        encoding.sources[0].uri = hostile.to_owned();
        report.training.as_mut().expect("a training").sources[0].uri = hostile.to_owned();
        let page = to_html(&report);
        for forbidden in ["<script", "<img", "onerror=y>", "</pre></td>"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert!(page.matches("&#60;script&#62;").count() >= 9);
        assert!(page.chars().all(|c| c == '\n' || !c.is_control() && !is_invisible(c)));
    }

    /// The page refers to no other file and no network address.
    #[test]
    fn the_page_needs_nothing_else() {
        let page = to_html(&report());
        for reference in ["src=", "href=", "url(", "@import", "<script", "<link"] {
            assert!(!page.contains(reference), "{reference}");
        }
        let addresses: Vec<&str> = page.split("http").skip(1).collect();
        assert!(
            addresses.iter().all(|rest| rest.starts_with("://www.w3.org/2000/svg\"")),
            "only the SVG namespace"
        );
        assert_eq!(page.matches("<svg").count(), 6);
    }

    /// Missing and empty sections are left out without an error.
    #[test]
    fn a_report_without_anything_is_a_page_too() {
        let mut report = RunReport::default();
        let page = to_html(&report);
        assert!(!page.contains("<svg") && !page.contains("characters") && !page.contains("documents"));
        report.corpus.document_lengths = Some(Histogram::default());
        report.training = Some(TrainingFacts::default());
        report.vocabulary = Some(VocabularyFacts::default());
        report.encoding = Some(EncodingFacts::default());
        assert_eq!(to_html(&report).matches("<svg").count(), 4);
        report.training = Some(TrainingFacts { merge_counts: vec![1], ..TrainingFacts::default() });
        assert_eq!(to_html(&report).matches("<svg").count(), 5);
    }

    /// Short lengths have a bar each; long ones have a bar per doubling.
    #[test]
    fn lengths_are_drawn_one_by_one_or_by_doublings() {
        let mut report = RunReport::default();
        for (longest, note) in [(60, "documents of each length"), (60_000, "one bar per doubling")] {
            report.corpus.document_lengths = Some(lengths([0, 20, 21, longest]));
            let page = to_html(&report);
            assert!(page.contains(note), "{longest}");
            assert!(page.matches("<rect").count() >= 3, "a bar for each bin that is not empty");
        }
    }

    /// Invisible characters and invalid bytes are made visible.
    #[test]
    fn tokens_show_what_would_not_be_seen() {
        for (bytes, shown) in [
            (&b"plain"[..], "plain"),
            (b" the\n", "␣the⏎"),
            (b"\0\x1b\t", "\\u{0}\\u{1b}⇥"),
            ("a\u{202E}b".as_bytes(), "a\\u{202e}b"),
            (b"\xE2\x80", "\\xE2\\x80"),
            (b"na\xC3", "na\\xC3"),
            (b" \xE2\x80", "␣\\xE2\\x80"),
            ("é".as_bytes(), "é"),
        ] {
            assert_eq!(token(1, bytes).visible(), shown);
        }
    }

    /// Long tokens are cut between characters and report their full length.
    #[test]
    fn long_tokens_are_cut_at_a_character_and_keep_their_length() {
        let long = token(1, "é".repeat(500).as_bytes());
        assert_eq!((long.bytes, long.hex.is_none()), (1_000, true));
        assert!(long.visible().ends_with("é…"));
        let odd = token(1, format!("x{}", "é".repeat(500)).as_bytes());
        assert!(odd.hex.is_none() && odd.text.ends_with('é'));
        assert_eq!(token(1, &[0xFF; 300]).hex.map(|hex| hex.len()), Some(240));
    }

    /// Both files have exactly the content that the functions return.
    #[test]
    fn both_files_are_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let report = report();
        write(folder.path(), &report).expect("written");
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
        assert_eq!(read(JSON_NAME), to_json(&report));
        assert_eq!(read(HTML_NAME), to_html(&report));
    }
}
