//! What a run needs, checked as a whole: after this, no stage can fail for a bad setting.
//!
//! [`plan`] turns a [`Recipe`](super::Recipe) into a [`Plan`] or tells all that is wrong with it.

mod check;
mod encode;
mod hash;
mod path;
mod train;

pub(super) use train::SMALLER_FOLDER;

#[doc(hidden)]
pub use check::MOST_THREADS;
pub use check::plan;
pub use encode::{DEFAULT_FILE_TEXT_BYTES, DEFAULT_SPLIT_NAME};

use std::fmt;
use std::path::PathBuf;

use crate::count::Boundary;
use crate::encode::{MissingBytes, SpecialPolicy};
use crate::sample::SampleConfig;
use crate::sink::{Compression, OutputFormat, Packing};
use crate::source::SourceSpec;
use crate::split::SplitPattern;
use crate::train::TrainConfig;
use crate::units::ByteCount;
use crate::vocab::{Format, LoadOptions, SpecialTokensAt, TransformersConfig};

/// All that a run needs to know, to be made by [`plan`] and read: its `recipe_hash`, by which results are told from those of
/// other jobs, is of the settings as they were then. Who wants others changes the recipe, and plans anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Where documents come from, at least one source unless there are `counts`. What is encoded wants the columns of
    /// [`EncodePlan`] too, which are not in here.
    pub sources: Vec<SourceSpec>,
    /// Files of counts, which take the place of the sources.
    pub counts: Vec<PathBuf>,
    /// By what the counts of each source, or of each file of counts, are multiplied: the smallest whole numbers in the ratio asked for.
    pub weights: Vec<u64>,
    /// What is taken of each source: its first documents, up to a number or to bytes of text.
    pub limits: Vec<SampleConfig>,
    /// Which documents are taken of what the limits leave.
    pub sample: SampleConfig,
    /// What is learned, if anything.
    pub train: Option<TrainPlan>,
    /// What is encoded, if anything.
    pub encode: Option<EncodePlan>,
    /// The output folder; empty for commands that write none.
    pub output: PathBuf,
    /// Keys for the data files of a run that writes none.
    pub idle: Vec<&'static str>,
    /// How many threads work.
    pub threads: usize,
    /// Bytes of memory that the run may take.
    pub memory: ByteCount,
    /// SHA-256, in hex, of every setting that decides what is written (not of what the inputs hold).
    pub recipe_hash: String,
}

/// What is learned, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainPlan {
    /// How text is cut.
    pub split: SplitPattern,
    /// What ends a sequence.
    pub boundary: Boundary,
    /// How merges are learned.
    pub config: TrainConfig,
    /// The special tokens: none empty, none twice. Those that the keys below name are among them.
    pub specials: Vec<String>,
    /// Those of them that are only named for `transformers`.
    pub only_named: Vec<String>,
    /// Where their ids stand.
    pub specials_at: SpecialTokensAt,
    /// The special token that `tokenizer_config.json` names as `bos_token`; `None` leaves it to what is encoded.
    pub bos: Option<String>,
    /// Likewise as `eos_token`.
    pub eos: Option<String>,
    /// What else `tokenizer_config.json` tells `transformers`.
    pub transformers: TransformersConfig,
    /// The formats in which the tokenizer is written, none twice.
    pub formats: Vec<Format>,
    /// The tokenizer whose merges come first, if training goes on from one.
    pub extend: Option<PathBuf>,
    /// Where it lies on this machine, if what names it is no path.
    pub extend_at: Option<PathBuf>,
    /// The folder for its files.
    pub output: PathBuf,
    /// Smaller vocabularies that are written as well, the smallest first: each has the first merges of
    /// the one training.
    pub smaller: Vec<SmallerPlan>,
}

/// A smaller vocabulary of a training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmallerPlan {
    /// How many tokens it has; fewer, if the training ends earlier.
    pub vocab_size: u64,
    /// How many merges that are.
    pub merges: usize,
    /// The folder for its files.
    pub output: PathBuf,
}

/// What is encoded, and how it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodePlan {
    /// The tokenizer's file or folder; `None` is the one just trained.
    pub tokenizer: Option<PathBuf>,
    /// How it is read: what its files may leave open.
    pub tokenizer_options: LoadOptions,
    /// Which documents.
    pub documents: Documents,
    /// The columns that are passed through, none twice.
    pub columns: Vec<String>,
    /// What text that looks like a special token becomes.
    pub special: SpecialPolicy,
    /// What becomes of text with a byte that has no token.
    pub missing_bytes: MissingBytes,
    /// The special token put before every document. Of a tokenizer just trained it is known to be one.
    pub bos: Option<String>,
    /// The special token put after every document, likewise.
    pub eos: Option<String>,
    /// How documents are packed into rows; without it each is a row.
    pub pack: Option<Packing>,
    /// How ids are compressed.
    pub compression: Compression,
    /// What kind of files they are written to.
    pub format: OutputFormat,
    /// The split's name, which begins the names of the files.
    pub split_name: String,
    /// About how many bytes of text go into a file.
    pub file_text_bytes: ByteCount,
    /// Whether all documents go into one file, which is called by the split alone.
    pub one_file: bool,
}

/// What a recipe cannot say by itself. Nothing but `cli` reads it from the environment.
pub struct Surroundings<'a> {
    /// What `${NAME}` stands for.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Default number of threads.
    pub threads: usize,
    /// Default limit of memory.
    pub memory: ByteCount,
}

impl fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings")
            .field("threads", &self.threads)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

impl Plan {
    /// The split that is written, if data files are.
    pub(in crate::run) fn split_name(&self) -> Option<&str> {
        self.encode.as_ref().map(|encode| encode.split_name.as_str())
    }
}

/// Which documents are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Documents {
    /// Those of the sample.
    #[default]
    Sample,
    /// All of the sources'.
    All,
}
