//! The figures of a report, and how tokens are shown in it.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::inequality::{gini, worst_to_best};
use crate::base::int::{TokenId, bytes_per_token, ratio, to_f64, to_u64};
use crate::count::Histogram;
use crate::train::{HistoryPoint, ParityPoint};

/// Everything that a run reports about itself: the content of `report.json`, and all that the page shows.
///
/// The same report gives the same files, byte for byte. Sections that do not apply to a run are `None`.
///
/// **Memory:** eight bytes per merge; the rest does not grow with the corpus.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// [`FORMAT_VERSION`](crate::FORMAT_VERSION) of the program that wrote it.
    pub format_version: u32,
    /// Version of the program that wrote it.
    pub tool_version: String,
    /// The recipe, or the command line, that was run.
    pub recipe: RecipeFacts,
    /// The documents that were read.
    pub corpus: CorpusFacts,
    /// The tokenizer that was learned or used.
    pub tokenizer: Option<TokenizerFacts>,
    /// How the merges were learned.
    pub training: Option<TrainingFacts>,
    /// The tokens of the tokenizer.
    pub vocabulary: Option<VocabularyFacts>,
    /// The result of encoding; `None` if the run only trained.
    pub encoding: Option<EncodingFacts>,
    /// What each stage cost, in the order in which they ran.
    pub stages: Vec<StageCost>,
    /// The files written, in the order of the manifest, without the two report files.
    pub files: Vec<OutputFile>,
    /// Warnings about the files of the sources, in sentences: files in a folder with unknown file names, shards
    /// that are missing or belong to two sets.
    #[serde(default)]
    pub input_notes: Vec<String>,
    /// Number of rows and files that were skipped because they could not be read.
    pub skipped_inputs: u64,
    /// The first of the skipped rows and files, with place and reason.
    pub skipped: Vec<SkippedInput>,
}

impl RunReport {
    /// Seconds that all stages of this name took together; `None` if the run had no such stage.
    pub fn seconds(&self, stage: &str) -> Option<f64> {
        let stages = self.stages.iter().filter(|cost| cost.name == stage).map(|cost| cost.seconds);
        stages.reduce(|sum, seconds| sum + seconds)
    }
}

/// The recipe of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipeFacts {
    /// The recipe's file as it was named; empty if flags took its place.
    pub name: String,
    /// The recipe's text, or the command line if flags took its place.
    pub text: String,
    /// SHA-256 of the recipe's meaning, in hex: the same hash as in the output's metadata.
    pub sha256: String,
}

/// The documents that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusFacts {
    /// The sources as the recipe names them.
    pub sources: Vec<String>,
    /// Documents, without null rows. Unknown if the run began from counts of pre-tokens.
    pub documents: Option<u64>,
    /// Null rows. Unknown if the run began from counts of pre-tokens.
    pub null_documents: Option<u64>,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Characters, counted as the bytes that do not continue a UTF-8 sequence. Counted only if merges were
    /// learned.
    pub characters: Option<u64>,
    /// How many of the 256 byte values occur. Counted only if merges were learned.
    pub distinct_bytes: Option<u64>,
    /// Documents by length in bytes. Counted only if merges were learned, and not from counts of pre-tokens.
    pub document_lengths: Option<Histogram>,
}

/// The identity of a tokenizer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenizerFacts {
    /// Its fingerprint, the same as in the output's metadata.
    pub fingerprint: String,
    /// The path that it was read from; `None` if this run learned it.
    pub path: Option<String>,
    /// The name of its split, or the pattern itself.
    pub split: String,
}

/// How merges were learned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingFacts {
    /// Number of merges that were asked for.
    pub merges_asked: u64,
    /// Number of merges in the tokenizer. Fewer than asked for if no pair was left that occurs often enough.
    pub merges_learned: u64,
    /// How many of these come from the tokenizer that training extended.
    #[serde(default)]
    pub merges_taken_over: u64,
    /// Seconds from the weighted sequences to the merges.
    pub train_s: f64,
    /// Distinct weighted sequences.
    pub distinct_pretokens: u64,
    /// Tokens before the first merge, which is the number of bytes learned from.
    pub tokens_before: u64,
    /// Tokens after the last merge.
    pub tokens_after: u64,
    /// Minimum count at which a pair was merged.
    pub min_frequency: u64,
    /// The rule that chose between equally good pairs.
    pub tie_break: String,
    /// The score by which the best pair was chosen: `count`, `count-length` or `conditional:p,q,r`.
    pub score: String,
    /// What one sequence was: `document` or `join`.
    pub boundary: String,
    /// The contribution of each source, in the order of the recipe. Empty if the run began from counts of
    /// pre-tokens.
    #[serde(default)]
    pub sources: Vec<LearnedSource>,
    /// How parity-aware training balanced the sources; `None` for other training.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parity: Option<ParityFacts>,
    /// Tokens left after some of the merges.
    pub history: Vec<HistoryPoint>,
    /// The first merges.
    pub first_merges: Vec<LearnedMerge>,
    /// The count of every merge, in the order in which they were learned.
    pub merge_counts: Vec<u64>,
}

/// The contribution of one source to the text that merges were learned from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LearnedSource {
    /// The source's URI.
    pub uri: String,
    /// Documents read, without null rows.
    pub documents: u64,
    /// Bytes of text read.
    pub text_bytes: u64,
    /// How many times its text counts. The weights of all sources are the smallest whole numbers in the right
    /// proportion.
    pub weight: u64,
    /// Its share of all text, with each source multiplied by its weight, from 0 to 1.
    pub share: f64,
}

/// How parity-aware training balanced the sources.
///
/// The cost of a source is the number of tokens of its development text. Without development texts, it is the number
/// of tokens per byte of its training text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ParityFacts {
    /// The Gini coefficient of the costs.
    pub gini: f64,
    /// The same for plain training: as many merges, learned from all sources together.
    pub plain_gini: f64,
    /// The greatest cost divided by the least.
    pub worst_to_best: f64,
    /// The same for plain training.
    pub plain_worst_to_best: f64,
    /// Each source, in the order of the recipe.
    pub sources: Vec<BalancedSource>,
    /// The tokens of each source after some of the merges.
    pub history: Vec<ParityPoint>,
}

/// A source that parity-aware training balanced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BalancedSource {
    /// The URI of the source, or the path of the counts file.
    pub uri: String,
    /// Bytes of its training text, multiplied by its weight.
    pub text_bytes: u64,
    /// Tokens of that text after the last merge.
    pub tokens: u64,
    /// Tokens of its development text after the last merge; 0 without one.
    pub development_tokens: u64,
    /// Bytes per token after the last merge: of the development text, or else of the training text.
    pub bytes_per_token: f64,
    /// The same after plain training.
    pub plain_bytes_per_token: f64,
}

impl ParityFacts {
    /// The figures of the named sources, whose tokens are in `history`, and after plain training in `plain`. The first
    /// point is before all merges, so it has the numbers of bytes.
    pub(crate) fn of(
        names: Vec<String>,
        history: Vec<ParityPoint>,
        plain: &ParityPoint,
    ) -> Option<ParityFacts> {
        let (first, last) = (history.first()?, history.last()?);
        let costs = |point| costs(first, point);
        let source = |(at, uri)| {
            let compared = |point: &ParityPoint| *point.development.get(at).unwrap_or(&point.sources[at]);
            BalancedSource {
                uri,
                text_bytes: first.sources[at],
                tokens: last.sources[at],
                development_tokens: last.development.get(at).copied().unwrap_or_default(),
                bytes_per_token: rounded(ratio(compared(first), compared(last))),
                plain_bytes_per_token: rounded(ratio(compared(first), compared(plain))),
            }
        };
        Some(ParityFacts {
            gini: rounded(gini(&costs(last))),
            plain_gini: rounded(gini(&costs(plain))),
            worst_to_best: rounded(worst_to_best(&costs(last)).unwrap_or_default()),
            plain_worst_to_best: rounded(worst_to_best(&costs(plain)).unwrap_or_default()),
            sources: names.into_iter().enumerate().map(source).collect(),
            history,
        })
    }

    /// Whether the costs are those of development texts.
    pub(crate) fn has_development(&self) -> bool {
        self.history.iter().any(|point| !point.development.is_empty())
    }

    /// The cost of each source after some merges: a point of the history, and the costs in the order of the sources.
    pub(super) fn costs(&self) -> impl Iterator<Item = (u64, Vec<f64>)> {
        self.history.iter().map(|point| (point.merges, costs(&self.history[0], point)))
    }
}

/// A figure with nine decimals, which reads back from JSON as the same number.
fn rounded(figure: f64) -> f64 {
    const DECIMALS: f64 = 1e9;
    (figure * DECIMALS).round() / DECIMALS
}

/// The cost of each source at a point, where `first` is the point before all merges.
fn costs(first: &ParityPoint, point: &ParityPoint) -> Vec<f64> {
    match point.development.is_empty() {
        true => point.sources.iter().zip(&first.sources).map(|(&now, &bytes)| ratio(now, bytes)).collect(),
        false => point.development.iter().copied().map(to_f64).collect(),
    }
}

/// A merge, in readable form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedMerge {
    /// The left token.
    pub left: ShownToken,
    /// The right token.
    pub right: ShownToken,
    /// The token that the merge makes of both.
    pub result: ShownToken,
    /// How often the pair occurred.
    pub count: u64,
}

/// The tokens of a tokenizer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VocabularyFacts {
    /// Number of tokens, with special tokens.
    pub tokens: u64,
    /// The special tokens.
    pub special_tokens: Vec<ShownToken>,
    /// Tokens by length in bytes, without special tokens.
    pub token_lengths: Histogram,
    /// The first tokens that are not single bytes.
    pub first_tokens: Vec<ShownToken>,
    /// The longest tokens, longest first.
    pub longest_tokens: Vec<ShownToken>,
    /// Number of tokens that no text is encoded to. `None` in reports of earlier versions.
    #[serde(default)]
    pub unreachable: Option<u64>,
    /// Number of superwords: tokens with a space between two words.
    #[serde(default)]
    pub superwords: u64,
    /// The first superwords.
    #[serde(default)]
    pub first_superwords: Vec<ShownToken>,
    /// The tokens that the training text hardly uses as they are. `None` if the run trained no tokenizer.
    #[serde(default)]
    pub residue: Option<ResidueFacts>,
}

/// The tokens that the training text hardly uses but as parts of others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResidueFacts {
    /// Such a token stays whole in a smaller share of its uses, from 0 to 1.
    pub floor: f64,
    /// Number of such tokens.
    pub tokens: u64,
    /// Number of tokens that merges make.
    pub of: u64,
    /// The first of these tokens: those that stay whole least.
    pub first: Vec<ResidueToken>,
}

/// A token that the training text hardly uses but as a part of others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResidueToken {
    /// The token.
    pub token: ShownToken,
    /// How often it is in the training text.
    pub whole: u64,
    /// How often it became part of another token.
    pub part: u64,
    /// The token that it became part of most often.
    pub made_for: Option<ShownToken>,
}

/// The result of encoding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EncodingFacts {
    /// Documents encoded, without null rows.
    pub documents: u64,
    /// Null rows, which stay null.
    pub null_documents: u64,
    /// Bytes of text encoded.
    pub text_bytes: u64,
    /// Tokens written, with BOS and EOS.
    pub tokens: u64,
    /// How many of these are BOS or EOS.
    pub added_tokens: u64,
    /// The token before each document, if any.
    pub bos: Option<ShownToken>,
    /// The token after each document, if any.
    pub eos: Option<ShownToken>,
    /// The policy for text that spells a special token: `text`, `allow` or `forbid`.
    pub special: String,
    /// The policy for a byte that has no token: `hf`, or `None` if it was an error.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub missing_bytes: Option<String>,
    /// The probability with which merges were left out, and the seed; `None` if none were.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dropout: Option<String>,
    /// How documents were packed into rows; `None` if they were not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub packing: Option<PackingFacts>,
    /// The contribution of each source, in the order of the recipe.
    #[serde(default)]
    pub sources: Vec<EncodedSource>,
    /// Some documents as they were written, with BOS and EOS.
    pub samples: Vec<SampleDocument>,
}

impl EncodingFacts {
    /// Bytes of text per token, without BOS and EOS; `None` if there are no other tokens.
    pub fn bytes_per_token(&self) -> Option<f64> {
        (self.tokens > self.added_tokens)
            .then(|| bytes_per_token(self.text_bytes, self.tokens, self.added_tokens))
    }
}

/// The contribution of one source to the encoded text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EncodedSource {
    /// The source's URI.
    pub uri: String,
    /// Documents encoded, without null rows.
    pub documents: u64,
    /// Bytes of text encoded.
    pub text_bytes: u64,
    /// Their tokens, with BOS and EOS.
    pub tokens: u64,
    /// Bytes of text per token, without BOS and EOS.
    pub bytes_per_token: f64,
}

/// How documents were packed into rows of equal length. No token is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackingFacts {
    /// The packing rule: `concat` or `best-fit`.
    pub rule: String,
    /// Tokens that fit in a row.
    pub length: u64,
    /// Rows written.
    pub rows: u64,
    /// Tokens that the rows would need in addition to be full. No padding is written.
    pub padding: u64,
    /// Documents that are spread over several rows.
    pub cut_documents: u64,
}

/// A document, cut into tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleDocument {
    /// The unit that it comes from.
    pub unit: String,
    /// Its row in that unit, from 0.
    pub row: u64,
    /// Number of tokens.
    pub tokens: u64,
    /// Its first tokens.
    pub first: Vec<ShownToken>,
    /// Its last tokens; empty if `first` has all tokens.
    pub last: Vec<ShownToken>,
}

/// The cost of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageCost {
    /// The stage's name.
    pub name: String,
    /// Seconds from its start to its end.
    pub seconds: f64,
    /// Bytes of text that it processed, without those that an earlier, interrupted run had done. For training,
    /// bytes of distinct pre-tokens.
    pub text_bytes: u64,
    /// Bytes of text per second.
    pub bytes_per_s: f64,
    /// Peak memory of the process in bytes when the stage ended; `None` if the system does not report it.
    pub peak_memory_bytes: Option<u64>,
    /// Number of threads that it could use; `None` in reports of earlier versions.
    #[serde(default)]
    pub threads: Option<u64>,
}

impl StageCost {
    /// The cost of a stage, without its threads. Computes the rate, which is 0 if the stage took no measurable time.
    pub fn new(name: &str, seconds: f64, text_bytes: u64, peak_memory_bytes: Option<u64>) -> StageCost {
        let bytes_per_s = if seconds > 0.0 { crate::base::int::to_f64(text_bytes) / seconds } else { 0.0 };
        let threads = None;
        StageCost { name: name.to_owned(), seconds, text_bytes, bytes_per_s, peak_memory_bytes, threads }
    }
}

/// A file that a run wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFile {
    /// Its path relative to the output folder.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Number of rows; `None` for files without rows.
    pub rows: Option<u64>,
    /// Number of tokens; `None` for files without tokens.
    pub tokens: Option<u64>,
    /// SHA-256 of the file, in hex.
    pub sha256: Option<String>,
}

/// A row or a file that was skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedInput {
    /// The row or file.
    pub place: String,
    /// The reason.
    pub reason: String,
}

/// Ratios computed from a report. A ratio is `None` if the run did not do the work that it describes, or if its
/// denominator is 0. `report.json` has them for its readers; this program always computes them from the other
/// figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    /// Bytes of text per character.
    pub bytes_per_character: Option<f64>,
    /// Tokens before the first merge, divided by tokens after the last.
    pub training_compression: Option<f64>,
    /// Bytes of text per token written, without BOS and EOS.
    pub bytes_per_token: Option<f64>,
    /// Tokens written per document, with BOS and EOS.
    pub tokens_per_document: Option<f64>,
    /// Tokens written, divided by the tokens that the packed rows have room for.
    pub packing_utilisation: Option<f64>,
}

impl Ratios {
    /// Computes the ratios of a report.
    pub fn of(report: &RunReport) -> Ratios {
        let corpus = &report.corpus;
        let training = report.training.as_ref();
        let encoding = report.encoding.as_ref();
        let packing = encoding.and_then(|encoding| Some((encoding.tokens, encoding.packing.as_ref()?)));
        Ratios {
            bytes_per_character: corpus.characters.and_then(|characters| of(corpus.text_bytes, characters)),
            training_compression: training.and_then(|t| of(t.tokens_before, t.tokens_after)),
            bytes_per_token: encoding.and_then(EncodingFacts::bytes_per_token),
            tokens_per_document: encoding.and_then(|e| of(e.tokens, e.documents)),
            packing_utilisation: packing
                .and_then(|(tokens, packing)| of(tokens, packing.rows.saturating_mul(packing.length))),
        }
    }
}

/// The ratio; `None` if `whole` is 0.
fn of(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| ratio(part, whole))
}

/// For each point of the history: merges learned, and bytes per token at that point. Before the first merge, every
/// byte is a token.
pub(super) fn bytes_per_token_by_merges(history: &[HistoryPoint]) -> Vec<(u64, f64)> {
    let text_bytes = history.first().map_or(0, |point| point.tokens);
    history.iter().map(|point| (point.merges, bytes_per_token(text_bytes, point.tokens, 0))).collect()
}

/// A number in groups of three digits, separated by narrow no-break spaces.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202F}');
        }
        out.push(digit);
    }
    out
}

/// Bytes of a token that a report displays. Without a split, a token can be as long as a document.
const SHOWN_BYTES: usize = 120;

/// A token as a report displays it.
///
/// ```
/// use tokenmill::TokenId;
/// use tokenmill::report::ShownToken;
///
/// let token = ShownToken::new(TokenId::new(300), b" a\n\xFF");
/// assert_eq!(token.visible(), "␣a⏎\\xFF");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownToken {
    /// The token's id.
    pub id: TokenId,
    /// Its text, cut after [120 bytes](beginning), with U+FFFD for bytes that are not UTF-8.
    pub text: String,
    /// The displayed bytes in hex, if they are not valid UTF-8.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hex: Option<String>,
    /// Length of the whole token in bytes.
    pub bytes: u64,
    /// Whether it is a special token.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub special: bool,
}

impl ShownToken {
    /// The display of an ordinary token.
    pub fn new(id: TokenId, bytes: &[u8]) -> ShownToken {
        let shown = beginning(bytes);
        let hex = std::str::from_utf8(shown).is_err().then(|| hex(shown));
        let text = String::from_utf8_lossy(shown).into_owned();
        ShownToken { id, text, hex, bytes: to_u64(bytes.len()), special: false }
    }

    /// The display of a special token.
    pub fn special(id: TokenId, text: &str) -> ShownToken {
        ShownToken { special: true, ..ShownToken::new(id, text.as_bytes()) }
    }

    /// The token's text with everything made visible that would be invisible or disturb the surrounding text:
    /// spaces, control characters, bytes that are not UTF-8, and marks that change the writing direction. A `…`
    /// at the end means that the token is longer.
    pub fn visible(&self) -> String {
        let mut out = String::new();
        match &self.hex {
            Some(hex) => push_escaped(&mut out, &bytes_of(hex), push_visible),
            None => push_escaped(&mut out, self.text.as_bytes(), push_visible),
        }
        if self.is_cut() {
            out.push('…');
        }
        out
    }

    /// Whether the token is longer than its display. Only the beginning of a token of more than 120 bytes is stored.
    fn is_cut(&self) -> bool {
        let shown = self.hex.as_ref().map_or(self.text.len(), |hex| hex.len() / 2);
        to_u64(shown) < self.bytes
    }
}

/// The part of a token that is displayed: at most its first 120 bytes, cut between characters if the bytes are
/// UTF-8.
///
/// ```
/// use tokenmill::report::beginning;
///
/// assert_eq!(beginning(b"the"), b"the");
/// assert_eq!(beginning("€".repeat(50).as_bytes()), "€".repeat(40).as_bytes());
/// ```
pub fn beginning(bytes: &[u8]) -> &[u8] {
    let Some(shown) = bytes.get(..SHOWN_BYTES).filter(|_| bytes.len() > SHOWN_BYTES) else { return bytes };
    match std::str::from_utf8(shown) {
        Err(error) if error.error_len().is_none() => &shown[..error.valid_up_to()],
        _ => shown,
    }
}

/// Bytes as upper-case hex digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

/// The bytes that a hex string encodes. Characters that are no hex digits are ignored. An odd digit at the end is
/// ignored too.
fn bytes_of(hex: &str) -> Vec<u8> {
    let digit = |&digit: &u8| char::from(digit).to_digit(16);
    let digits: Vec<u32> = hex.as_bytes().iter().filter_map(digit).collect();
    digits.chunks_exact(2).filter_map(|pair| u8::try_from(pair[0] << 4 | pair[1]).ok()).collect()
}

/// Appends the characters of `bytes` with `push`, and each byte that is not UTF-8 as an escape like `\xE2`. The
/// caller decides with `push` which characters are escaped, since a terminal and a page need different ones.
pub fn push_escaped(out: &mut String, bytes: &[u8], push: impl Fn(&mut String, char)) {
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push(out, c));
        for byte in chunk.invalid() {
            // Writing to a `String` never fails.
            let _ = write!(out, "\\x{byte:02X}");
        }
    }
}

/// A text in which control and invisible characters are escaped, since they could disturb the surrounding text.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_control() || is_invisible(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Appends a character, or a visible substitute for it.
fn push_visible(out: &mut String, c: char) {
    match c {
        ' ' => out.push('␣'),
        '\n' => out.push('⏎'),
        '\t' => out.push('⇥'),
        '\\' => out.push_str(r"\\"),
        _ if c.is_control() || is_invisible(c) => out.extend(c.escape_unicode()),
        _ => out.push(c),
    }
}

/// Whether a character has no visible form and can hide or reorder the text around it, like zero-width characters
/// and marks of the writing direction. Control characters are not included.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{E0000}'..='\u{E0FFF}')
}
