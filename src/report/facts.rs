use serde::{Deserialize, Serialize};

use super::ShownToken;
use crate::count::Histogram;
use crate::train::HistoryPoint;

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
    /// Seconds that a stage took; `None` if the run had no such stage.
    pub fn seconds(&self, stage: &str) -> Option<f64> {
        self.stages.iter().find(|cost| cost.name == stage).map(|cost| cost.seconds)
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
    /// Least count at which a pair was merged.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// How documents were packed into rows; `None` if they were not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub packing: Option<PackingFacts>,
    /// The contribution of each source, in the order of the recipe.
    #[serde(default)]
    pub sources: Vec<EncodedSource>,
    /// Some documents as they were written, with BOS and EOS.
    pub samples: Vec<SampleDocument>,
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
}

impl StageCost {
    /// The cost of a stage. Computes the rate, which is 0 if the stage took no measurable time.
    pub fn new(name: &str, seconds: f64, text_bytes: u64, peak_memory_bytes: Option<u64>) -> StageCost {
        let bytes_per_s = if seconds > 0.0 { crate::base::int::to_f64(text_bytes) / seconds } else { 0.0 };
        StageCost { name: name.to_owned(), seconds, text_bytes, bytes_per_s, peak_memory_bytes }
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
