use serde::{Deserialize, Serialize};

use super::ShownToken;
use crate::count::Histogram;
use crate::train::HistoryPoint;

/// Everything a run tells about itself: the content of `report.json`, and all that the page shows.
///
/// The same report gives the same files, byte for byte. Sections that a run did not reach are `None`.
///
/// **Memory:** eight bytes for each merge; the rest does not grow with the corpus.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// [`FORMAT_VERSION`](crate::FORMAT_VERSION) of the program.
    pub format_version: u32,
    /// Version of the program.
    pub tool_version: String,
    /// What was asked for.
    pub recipe: RecipeFacts,
    /// The documents that were read.
    pub corpus: CorpusFacts,
    /// The tokenizer that was learned or used.
    pub tokenizer: Option<TokenizerFacts>,
    /// How the merges were learned.
    pub training: Option<TrainingFacts>,
    /// The tokens of the tokenizer.
    pub vocabulary: Option<VocabularyFacts>,
    /// What was encoded and written.
    pub encoding: Option<EncodingFacts>,
    /// What each stage cost, in the order in which they ran.
    pub stages: Vec<StageCost>,
    /// The files written, in the order of the manifest; the two report files are not among them.
    pub files: Vec<OutputFile>,
    /// What is odd about which files the sources have, in sentences: files of unknown names that a folder has, shards that
    /// are missing or of two sets.
    #[serde(default)]
    pub input_notes: Vec<String>,
    /// How many rows or files were left out because they could not be read.
    pub skipped_inputs: u64,
    /// The first of them, with place and reason.
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
    /// The recipe's file as it was named; empty where flags took its place.
    pub name: String,
    /// Its text, or the command line where flags took its place.
    pub text: String,
    /// SHA-256 of what the recipe means, in hex: the hash that the output's metadata carries.
    pub sha256: String,
}

/// The documents that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusFacts {
    /// The sources as the recipe names them.
    pub sources: Vec<String>,
    /// Documents, null rows not counted. Counts of pieces tell nothing of them.
    pub documents: Option<u64>,
    /// Null rows. Likewise.
    pub null_documents: Option<u64>,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Characters: the bytes that do not continue a UTF-8 sequence. Not counted where nothing is learned.
    pub characters: Option<u64>,
    /// How many of the 256 byte values occur. Not counted where nothing is learned.
    pub distinct_bytes: Option<u64>,
    /// Documents by their length in bytes. Not counted where nothing is learned, or from counts.
    pub document_lengths: Option<Histogram>,
}

/// What identifies a tokenizer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenizerFacts {
    /// The fingerprint that the output's metadata carries.
    pub fingerprint: String,
    /// Where it was read from; `None` if this run learned it.
    pub path: Option<String>,
    /// The split by its name, or the pattern itself.
    pub split: String,
}

/// How merges were learned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingFacts {
    /// How many merges were asked for.
    pub merges_asked: u64,
    /// How many there are; fewer if no pair was left that occurs often enough.
    pub merges_learned: u64,
    /// So many of these are those of the tokenizer that training went on from.
    #[serde(default)]
    pub merges_taken_over: u64,
    /// Seconds from the weighted sequences to the merges.
    pub train_s: f64,
    /// Distinct weighted sequences.
    pub distinct_pieces: u64,
    /// Tokens before the first merge: the bytes that were learned from.
    pub tokens_before: u64,
    /// Tokens after the last merge.
    pub tokens_after: u64,
    /// Least count at which a pair was merged.
    pub min_frequency: u64,
    /// Which of several equally frequent pairs went first.
    pub tie_break: String,
    /// What the greatest of was merged: `count`, `count-length` or `conditional:p,q,r`.
    pub score: String,
    /// What one sequence was: `document` or `join`.
    pub boundary: String,
    /// What came from each source, in the order of the recipe. Counts of pieces tell nothing of it.
    #[serde(default)]
    pub sources: Vec<LearnedSource>,
    /// Tokens after some of the merges.
    pub history: Vec<HistoryPoint>,
    /// The first merges.
    pub first_merges: Vec<LearnedMerge>,
    /// The count of every merge, in the order in which they were learned.
    pub merge_counts: Vec<u64>,
}

/// What of the text that was learned from came from one source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LearnedSource {
    /// The source's URI.
    pub uri: String,
    /// Documents read, null rows not counted.
    pub documents: u64,
    /// Bytes of text read.
    pub text_bytes: u64,
    /// How many times the text counts: the weights of all sources as the smallest whole numbers.
    pub weight: u64,
    /// The part of all text, each as often as it counts, from 0 to 1.
    pub share: f64,
}

/// One merge as people read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedMerge {
    /// The left token.
    pub left: ShownToken,
    /// The right token.
    pub right: ShownToken,
    /// The token they make.
    pub result: ShownToken,
    /// How often the pair occurred.
    pub count: u64,
}

/// The tokens of a tokenizer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VocabularyFacts {
    /// Tokens, special ones among them.
    pub tokens: u64,
    /// The special tokens.
    pub special_tokens: Vec<ShownToken>,
    /// Tokens by their length in bytes, without the special ones.
    pub token_lengths: Histogram,
    /// The first tokens that are not single bytes.
    pub first_tokens: Vec<ShownToken>,
    /// The longest tokens, longest first.
    pub longest_tokens: Vec<ShownToken>,
}

/// What was encoded and written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EncodingFacts {
    /// Documents encoded, null rows not counted.
    pub documents: u64,
    /// Null rows, which stay null.
    pub null_documents: u64,
    /// Bytes of text encoded.
    pub text_bytes: u64,
    /// Tokens written, BOS and EOS among them.
    pub tokens: u64,
    /// How many of these are BOS or EOS.
    pub added_tokens: u64,
    /// The token before each document, if one is added.
    pub bos: Option<ShownToken>,
    /// The token after each document, if one is added.
    pub eos: Option<ShownToken>,
    /// What the text of a special token means in a document: `text`, `allow` or `forbid`.
    pub special: String,
    /// What becomes of a byte without a token, unless it is an error: `hf`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub missing_bytes: Option<String>,
    /// How documents were packed into rows, if they were.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub packing: Option<PackingFacts>,
    /// What came from each source, in the order of the recipe.
    #[serde(default)]
    pub sources: Vec<EncodedSource>,
    /// Some documents as they were written, BOS and EOS included.
    pub samples: Vec<SampleDocument>,
}

/// What of the encoded text came from one source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EncodedSource {
    /// The source's URI.
    pub uri: String,
    /// Documents encoded, null rows not counted.
    pub documents: u64,
    /// Bytes of text encoded.
    pub text_bytes: u64,
    /// Their tokens, BOS and EOS among them.
    pub tokens: u64,
    /// Bytes of text a token, BOS and EOS not counted.
    pub bytes_per_token: f64,
}

/// How documents were packed into rows of one length. No token is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackingFacts {
    /// `concat` or `best-fit`.
    pub rule: String,
    /// Tokens that a row can have.
    pub length: u64,
    /// Rows written.
    pub rows: u64,
    /// How many tokens the rows lack to be full. None is written in their place.
    pub padding: u64,
    /// Documents that do not lie in one row.
    pub cut_documents: u64,
}

/// A document cut into tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleDocument {
    /// The unit it comes from.
    pub unit: String,
    /// Its row there, counted from 0.
    pub row: u64,
    /// How many tokens it has.
    pub tokens: u64,
    /// Its first tokens.
    pub first: Vec<ShownToken>,
    /// Its last tokens; none if `first` has them all.
    pub last: Vec<ShownToken>,
}

/// What a stage cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageCost {
    /// The stage's name.
    pub name: String,
    /// Seconds from its start to its end.
    pub seconds: f64,
    /// Bytes of text it worked on: without what an earlier run had done; of training those of distinct pieces.
    pub text_bytes: u64,
    /// Bytes of text a second.
    pub bytes_per_s: f64,
    /// The process's peak memory when the stage ended, in bytes, where the system tells.
    pub peak_memory_bytes: Option<u64>,
}

impl StageCost {
    /// The cost of a stage, with its rate.
    pub fn new(name: &str, seconds: f64, text_bytes: u64, peak_memory_bytes: Option<u64>) -> StageCost {
        let bytes_per_s = if seconds > 0.0 { crate::units::float(text_bytes) / seconds } else { 0.0 };
        StageCost { name: name.to_owned(), seconds, text_bytes, bytes_per_s, peak_memory_bytes }
    }
}

/// A file that a run wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFile {
    /// Its path from the output folder.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Rows, where it has some.
    pub rows: Option<u64>,
    /// Tokens, where it has some.
    pub tokens: Option<u64>,
    /// SHA-256 of its bytes, in hex.
    pub sha256: Option<String>,
}

/// A row or file that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedInput {
    /// Which one.
    pub place: String,
    /// Why.
    pub reason: String,
}
