//! The checked settings of a run. No stage can fail because of a bad setting in a plan.
//!
//! [`plan`] turns a [`Recipe`](super::Recipe) into a [`Plan`], or returns all mistakes in it.
//!
//! The hash of a plan identifies all settings on which the output depends.

mod check;
mod encode;
mod parity;
mod train;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Value, json};

use crate::base::int::{ByteCount, u64_to_usize};
use crate::base::integrity::sha256;
use crate::count::Boundary;
use crate::encode::{Dropout, MissingBytes, SpecialPolicy};
use crate::publish::PushTarget;
use crate::sample::{SampleConfig, Weight};
use crate::sink::{Compression, OutputFormat, Packing};
use crate::source::{InputShard, SourceSpec};
use crate::split::SplitPattern;
use crate::train::{ParityConfig, ParityWindow, TrainConfig};
use crate::vocab::{Format, LoadOptions, SpecialTokensAt, TransformersConfig};

#[doc(hidden)]
pub use check::MAX_THREADS;
pub use check::plan;
pub use encode::{DEFAULT_FILE_TEXT_BYTES, DEFAULT_SPLIT_NAME};
pub(super) use train::SMALLER_FOLDER;

/// The settings of a run, which [`plan`] makes. Its `recipe_hash`, which tells the results of jobs apart, is
/// computed from the settings at that time. To change a setting, change the recipe and make another plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The sources of documents: at least one, unless `counts` takes their place. Their columns are empty: the
    /// columns to pass through are in [`EncodePlan`].
    pub sources: Vec<SourceSpec>,
    /// Counts files, which take the place of the sources.
    pub counts: Vec<PathBuf>,
    /// The factor for the counts of each source or counts file: the smallest whole numbers in the given ratio. There
    /// is one weight for each source, or for each counts file if `counts` is not empty.
    pub weights: Vec<u64>,
    /// The sample of each source: its first documents, up to a number of documents or bytes of text. The order is that
    /// of `sources`. The default takes everything.
    pub source_samples: Vec<SampleConfig>,
    /// Which of the documents that are taken of the sources are used.
    pub sample: SampleConfig,
    /// The shard of the sources that is read; `None` if all of them are. The results of all shards together are the
    /// result of the plan without a shard, so it is not hashed.
    pub shard: Option<InputShard>,
    /// What to learn; `None` if nothing is learned.
    pub train: Option<TrainPlan>,
    /// What to encode; `None` if nothing is encoded.
    pub encode: Option<EncodePlan>,
    /// The output folder. Empty for commands that write no folder. If there is a `destination`, the staging folder, in
    /// which the output is written before it moves there.
    pub output: PathBuf,
    /// The place in an object store to which the output moves (`s3://bucket/path`), without a slash at its end.
    /// `None` if the output stays in its folder.
    pub destination: Option<String>,
    /// The repository to which the result is to be pushed. [`job`](super::job) and [`train_only`](super::train_only)
    /// leave that to [`push_result`](super::push_result).
    pub push: Option<PushTarget>,
    /// Keys that have no effect because they are for data files, and the run writes none.
    pub unused_keys: Vec<&'static str>,
    /// Number of threads. The output does not depend on it.
    pub threads: usize,
    /// Memory limit in bytes. Counting spills to disk beyond it. Training and long documents beyond it are errors.
    pub memory: ByteCount,
    /// SHA-256, in hex, of all settings on which the output depends. The content of the inputs is no part of it.
    pub recipe_hash: String,
    /// A short hash of each of these settings, by section and key such as `sample.seed`. They tell in which settings
    /// two plans differ.
    pub setting_hashes: BTreeMap<String, String>,
}

/// What to learn, and where to write it.
///
/// The vocabulary has at most 2³¹ tokens. If `extend` is set, `config.merges` includes the merges of that
/// tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainPlan {
    /// How text is split into pre-tokens.
    pub split: SplitPattern,
    /// The extent of a text that is split on its own: a document, or all documents of a source.
    pub boundary: Boundary,
    /// How merges are learned.
    pub config: TrainConfig,
    /// The special tokens: none is empty, none occurs twice. The tokens of the keys below are among them.
    pub specials: Vec<String>,
    /// The special tokens that the recipe only names for `transformers`, and does not list.
    pub only_named: Vec<String>,
    /// How training balances the sources; `None` if it learns from all of them together.
    pub parity: Option<ParityPlan>,
    /// The position of their ids.
    pub specials_at: SpecialTokensAt,
    /// The special token that `tokenizer_config.json` names as `bos_token`. If `None`, the BOS token of the encoding
    /// is named.
    pub bos: Option<String>,
    /// The special token that `tokenizer_config.json` names as `eos_token`. If `None`, the EOS token of the encoding
    /// is named.
    pub eos: Option<String>,
    /// Further settings of `tokenizer_config.json` for `transformers`.
    pub transformers: TransformersConfig,
    /// The formats in which the tokenizer is written. None occurs twice.
    pub formats: Vec<Format>,
    /// The tokenizer that training extends, as the user named it. Its merges come first.
    pub extend: Option<PathBuf>,
    /// The local path of that tokenizer, if its name is not a path.
    pub extend_at: Option<PathBuf>,
    /// The folder for the tokenizer's files.
    pub output: PathBuf,
    /// The number of its first merges that are kept; all if `None`.
    pub keep_merges: Option<usize>,
    /// The stages of the training, in order, if it has several. `split` and `config` are those of the last one.
    pub stages: Vec<StagePlan>,
    /// Smaller vocabularies that are written as well, the smallest first. Each has the first merges of the same
    /// training.
    pub smaller: Vec<SmallerPlan>,
}

/// How parity-aware training balances the sources or counts files of a plan. There are at least two, and text is
/// split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParityPlan {
    /// Number of sources or counts files.
    pub sources: usize,
    /// The development text of each source; empty if there are none.
    pub development: Vec<SourceSpec>,
    /// The addresses of the development texts as the user wrote them.
    pub development_as_written: Vec<String>,
    /// The ratio of each source; empty if there are none.
    pub ratio: Vec<Weight>,
    /// Number of choices in the moving window; `None` without a window.
    pub window: Option<u64>,
    /// How many times its even share of the choices in the window a source may have.
    pub alpha: Weight,
    /// Number of merges at the beginning that are learned from all sources together.
    pub global_merges: u64,
}

impl ParityPlan {
    /// The settings as JSON, for hashes and the training record.
    pub(super) fn settings(&self) -> Value {
        json!({
            "development": self.development_as_written,
            "ratio": self.ratio,
            "window": self.window,
            "alpha": self.alpha,
            "global_merges": self.global_merges,
        })
    }

    /// The settings of learning.
    pub(super) fn config(&self) -> ParityConfig {
        let window = |length| ParityWindow { length: u64_to_usize(length), alpha: self.alpha.to_f64() };
        ParityConfig {
            ratio: (!self.ratio.is_empty()).then(|| self.ratio.iter().map(|ratio| ratio.to_f64()).collect()),
            window: self.window.map(window),
            global_merges: u64_to_usize(self.global_merges),
        }
    }
}

/// A stage of a training. Each stage continues from the merges of the stages before it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct StagePlan {
    /// How text is split into pre-tokens.
    pub split: SplitPattern,
    /// Number of merges after this stage.
    pub merges: usize,
    /// Maximum number of words of a token of this stage; see [`TrainConfig::max_words`].
    pub max_words: Option<usize>,
}

/// A smaller vocabulary of a training. It has the first merges of the largest vocabulary: training runs once for all
/// sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmallerPlan {
    /// Number of tokens. There are fewer if the training ends earlier.
    pub vocab_size: u64,
    /// Number of merges for that number of tokens. It counts from the first merge of the tokenizer that training
    /// extends, if there is one.
    pub merges: usize,
    /// The folder for its files.
    pub output: PathBuf,
}

/// What to encode, and how to write it.
///
/// Settings that exclude each other do not occur together. For example, packing and pass-through columns need
/// Parquet, and packed rows have no pass-through columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodePlan {
    /// The file or folder of the tokenizer, or its address on the hub. `None` means the one that is trained.
    pub tokenizer: Option<PathBuf>,
    /// Settings for reading the tokenizer that its files may lack.
    pub tokenizer_options: LoadOptions,
    /// Which documents are encoded.
    pub documents: EncodedDocuments,
    /// The names of the columns to pass through. None occurs twice.
    pub columns: Vec<String>,
    /// How text that looks like a special token is encoded.
    pub special: SpecialPolicy,
    /// How text with a byte that has no token is encoded.
    pub missing_bytes: MissingBytes,
    /// How merges are left out at random. `None` if none are.
    pub dropout: Option<Dropout>,
    /// The special token put before every document (BOS). For a trained tokenizer, it is known to be one of its
    /// special tokens.
    pub bos: Option<String>,
    /// The special token put after every document (EOS), likewise.
    pub eos: Option<String>,
    /// How documents are packed into rows of equal length. If `None`, each document is a row.
    pub pack: Option<Packing>,
    /// How Parquet files are compressed.
    pub compression: Compression,
    /// The format of the data files.
    pub format: OutputFormat,
    /// The name of the split, with which the names of its files begin.
    pub split_name: String,
    /// Bytes of text per data file, about. It is not 0.
    pub file_text_bytes: ByteCount,
    /// Whether all documents go into one file, named by the split alone. Parquet output never has it.
    pub one_file: bool,
}

/// What a recipe needs from its environment. Only the command line reads the environment: the library takes these
/// values.
pub struct Environment<'a> {
    /// The value of the variable for `${NAME}`; `None` if it is not set.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Default number of threads.
    pub threads: usize,
    /// Default memory limit in bytes.
    pub memory: ByteCount,
}

impl fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("threads", &self.threads)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

impl Plan {
    /// Where the output will be: its folder, or its address in an object store.
    pub fn place(&self) -> String {
        self.destination.clone().unwrap_or_else(|| self.output.display().to_string())
    }

    /// A plan that reads the development texts of parity-aware training as this plan reads its sources. `None` if
    /// there are none.
    pub(super) fn of_development(&self) -> Option<Plan> {
        let train = self.train.as_ref()?;
        let sources = train.parity.as_ref()?.development.clone();
        if sources.is_empty() {
            return None;
        }
        Some(Plan {
            counts: Vec::new(),
            weights: vec![1; sources.len()],
            source_samples: vec![SampleConfig::default(); sources.len()],
            sample: SampleConfig::default(),
            shard: None,
            train: Some(TrainPlan { parity: None, ..train.clone() }),
            encode: None,
            sources,
            ..self.clone()
        })
    }

    /// The name of the split that is written; `None` if no data files are. A plan that only trains has no split.
    pub(super) fn split_name(&self) -> Option<&str> {
        self.encode.as_ref().map(|encode| encode.split_name.as_str())
    }
}

/// Which documents are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EncodedDocuments {
    /// The documents of the sample.
    #[default]
    Sample,
    /// All documents of the sources.
    All,
}

/// Sets the hashes of a plan, whose other fields are complete. `uris` holds the addresses of the sources as the user
/// wrote them.
fn hash_settings(plan: &mut Plan, uris: &[&str]) {
    let settings = hashed_settings(plan, uris);
    plan.recipe_hash = sha256(settings.to_string());
    plan.setting_hashes = setting_hashes(&settings);
}

/// Every setting that determines the output. The addresses of sources are hashed as the user wrote them, so that a
/// corpus or recipe that was moved gives the same bytes. The content of inputs and of a given tokenizer is identified
/// elsewhere.
///
/// Rare keys are hashed only if they are set, so that the hashes of recipes without them do not depend on whether
/// this version knows the keys.
///
/// The number of threads, the memory limit and the output folder are left out. `uris` holds the written addresses in
/// the order of the sources. The result is the same on every machine.
fn hashed_settings(plan: &Plan, uris: &[&str]) -> Value {
    let sources = plan.sources.iter().zip(uris).zip(&plan.weights);
    let mut canonical = json!({
        "sources": sources.map(|((spec, uri), &weight)| source(spec, uri, weight)).collect::<Vec<_>>(),
        "sample": plan.sample,
        "train": plan.train.as_ref().map(train),
        "encode": plan.encode.as_ref().map(encode),
    });
    if plan.source_samples.iter().any(|sample| !sample.is_everything()) {
        canonical["limits"] = json!(plan.source_samples);
    }
    if let Some(pack) = plan.encode.as_ref().and_then(|encode| encode.pack) {
        canonical["pack"] = json!(pack);
    }
    if let Some(encode) = plan.encode.as_ref().filter(|encode| encode.missing_bytes != MissingBytes::Error) {
        canonical["missing_bytes"] = json!(encode.missing_bytes);
    }
    if let Some(dropout) = plan.encode.as_ref().and_then(|encode| encode.dropout) {
        canonical["dropout"] = as_one_setting(&dropout);
        // The draws depend on the numbers of the units, and a streamed file is a single one.
        let streamed: Vec<bool> = plan.sources.iter().map(|spec| spec.stream).collect();
        if streamed.contains(&true) {
            canonical["stream"] = json!(streamed);
        }
    }
    if plan.encode.as_ref().is_some_and(|encode| encode.one_file) {
        canonical["one_file"] = json!(true);
    }
    if let Some(train) = plan.train.as_ref().filter(|train| train.bos.is_some() || train.eos.is_some()) {
        canonical["named"] = json!({ "bos": train.bos, "eos": train.eos });
    }
    if let Some(train) =
        plan.train.as_ref().filter(|train| train.transformers != TransformersConfig::default())
    {
        let TransformersConfig { pad, unk, mask, model_max_length, chat_template, kept } =
            &train.transformers;
        canonical["transformers"] = json!({
            "pad": pad,
            "unk": unk,
            "mask": mask,
            "model_max_length": model_max_length,
            "chat_template": chat_template,
            "kept": kept,
        });
    }
    if let Some(parity) = plan.train.as_ref().and_then(|train| train.parity.as_ref()) {
        canonical["parity"] = parity.settings();
    }
    if !plan.counts.is_empty() {
        canonical["counts"] = json!({ "files": plan.counts, "weights": plan.weights });
    }
    if let Some(path) = plan.train.as_ref().and_then(|train| train.extend.as_ref()) {
        canonical["extend"] = json!(path);
    }
    if let Some(train) = &plan.train {
        if let Some(merges) = train.keep_merges {
            canonical["keep_merges"] = json!(merges);
        }
        if !train.stages.is_empty() {
            canonical["stages"] = as_one_setting(&train.stages);
        }
        if let Some(words) = train.config.max_words {
            canonical["max_words"] = json!(words);
        }
    }
    canonical
}

/// A table as a single value, so that a difference is one of the table and not of a key in it.
fn as_one_setting(table: &impl Serialize) -> Value {
    json!(json!(table).to_string())
}

/// A short hash of each setting, by section and key. The values that the sources have for a key are hashed together.
/// Settings without a value are left out.
fn setting_hashes(settings: &Value) -> BTreeMap<String, String> {
    /// Hex digits of a hash. Two values differ in them, but for one case in 2⁶⁴.
    const DIGITS: usize = 16;
    let mut values: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for (section, value) in settings.as_object().into_iter().flatten() {
        let parts = match value {
            Value::Array(parts) => parts.as_slice(),
            _ => std::slice::from_ref(value),
        };
        for part in parts {
            let Some(keys) = part.as_object() else {
                values.entry(section.clone()).or_default().push(part);
                continue;
            };
            // The limits of sources have the keys of a sample, but a source has only these two.
            let is_key = |key: &str| section != "limits" || ["take", "max_bytes"].contains(&key);
            for (key, value) in keys.iter().filter(|(key, _)| is_key(key)) {
                values.entry(format!("{section}.{key}")).or_default().push(value);
            }
        }
    }
    values.retain(|_, values| !values.iter().all(|value| value.is_null()));
    let hashed = values.into_iter().map(|(key, mut values)| {
        values.dedup();
        (key, sha256(json!(values).to_string())[..DIGITS].to_owned())
    });
    hashed.collect()
}

/// The hashed settings of a source.
fn source(spec: &SourceSpec, uri: &str, weight: u64) -> Value {
    let mut canonical = text_settings(spec, uri);
    canonical["weight"] = json!(weight);
    canonical
}

/// All settings of a source that decide its documents. `stream` is left out: it does not change the text.
pub(super) fn text_settings(spec: &SourceSpec, uri: &str) -> Value {
    let mut canonical = json!({
        "uri": uri,
        "column": spec.column,
        "format": spec.format,
        "documents": spec.documents,
        "on_bad_input": spec.on_bad_input,
    });
    if spec.template.is_some() || spec.join.is_some() {
        canonical["text"] = json!({ "template": spec.template, "join": spec.join });
    }
    canonical
}

/// The hashed settings of training that every plan has. `hashed_settings` adds the rare ones.
fn train(plan: &TrainPlan) -> Value {
    json!({
        "smaller": plan.smaller.iter().map(|smaller| smaller.merges).collect::<Vec<_>>(),
        "split": plan.split,
        "boundary": plan.boundary,
        "merges": plan.config.merges,
        "min_frequency": plan.config.min_frequency,
        "max_token_bytes": plan.config.max_token_bytes,
        "tie_break": plan.config.tie_break,
        "score": plan.config.score,
        "history_every": plan.config.history_every,
        "special_tokens": plan.specials,
        "special_tokens_at": plan.specials_at,
        "formats": plan.formats,
    })
}

/// The hashed settings of encoding that every plan has. `hashed_settings` adds the rare ones. The path of a given
/// tokenizer is left out, since its content is identified elsewhere.
fn encode(plan: &EncodePlan) -> Value {
    json!({
        "trained": plan.tokenizer.is_none(),
        "documents": plan.documents,
        "columns": plan.columns,
        "special": plan.special,
        "bos": plan.bos,
        "eos": plan.eos,
        "compression": plan.compression,
        "format": plan.format,
        "split_name": plan.split_name,
        "file_text_bytes": plan.file_text_bytes,
    })
}
