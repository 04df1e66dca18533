//! Runs the stages in order: turns a recipe into a plan, and a plan into a tokenizer and token ids.
//!
//! A [`Recipe`] is what the user wrote. [`plan()`] checks it as a whole and gives a [`Plan`]. [`job()`] trains,
//! encodes and writes a report, [`train_only`] trains, [`count_only`] counts, and [`preview()`] says what a job would
//! do. A program that only wants a tokenizer from texts calls [`learn()`].
//!
//! ```
//! use tokenmill::observer::Silent;
//! use tokenmill::run::recipe::{self, Given};
//! use tokenmill::run::{JobOptions, Environment, job, plan};
//! use tokenmill::source::OpenContext;
//! use tokenmill::base::int::ByteCount;
//!
//! # let folder = tempfile::tempdir()?;
//! # let dir = folder.path().join("out");
//! let text = r#"
//!     source = { uri = "demo:verse?lines=500", column = "line" }
//!     train = { split = "gpt4", vocab_size = 400 }
//!     encode = { eos = false }
//! "#;
//! let mut recipe = recipe::read("verse.toml", text)?;
//! recipe.output.dir = Some(Given::flag(dir.display().to_string()));
//! let environment = Environment { variable: &|_| None, threads: 2, memory: ByteCount(1 << 30) };
//! let plan = plan(&recipe, &environment)?;
//! let outcome = job(&plan, &JobOptions::default(), &OpenContext::new(&Silent))?;
//! assert!(outcome.manifest.is_some() && dir.join("tokenizer/tokenizer.json").is_file());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `RunError` has the errors that arise between stages. Errors within a stage belong to the stage.

mod checks;
mod encoding;
mod training;
mod tokenizer_files;
mod extend;
mod counting;
mod resources;
pub mod recipe;
pub mod plan;
mod inputs;
mod state;
mod facts;
mod job;
mod compare;
mod disk;
mod preview;
mod verify;

use std::path::PathBuf;

use super::base::int::ByteCount;
use super::base::pools::no_threads;
use super::error::Result;
use super::vocab::Format;

pub use compare::{Compared, compare};
#[doc(hidden)]
pub use counting::complete_from_counts;
pub use counting::{CountSummary, count_only, merge_counts};
pub use disk::DiskNeed;
#[doc(hidden)]
pub use encoding::shown_token;
#[doc(hidden)]
pub use extend::complete_from_tokenizer;
pub use inputs::Inputs;
pub use job::{JobOptions, Outcome, job, train_only};
#[doc(hidden)]
pub use plan::MAX_THREADS;
pub use plan::{EncodePlan, Environment, Plan, SmallerPlan, TrainPlan, plan};
pub use preview::{ExistingOutput, Preview, SourcePreview, preview};
pub use recipe::{Mistakes, Recipe};
#[doc(hidden)]
pub use resources::peak_memory;
pub use training::{LearnConfig, learn};
#[doc(hidden)]
pub use verify::complete_from_training;
pub use verify::{CheckedMerges, Verification, Verified, verify_list, verify_output};

/// Runs `work` on its own rayon pool with this number of threads.
///
/// The call blocks until `work` returns. Parallel code within `work` uses the pool, and the pool ends with the call.
///
/// # Errors
/// - The threads cannot be started.
/// - Errors that `work` returns.
pub fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(no_threads)?.install(work)
}

/// An error of a run as a whole: a folder holds other results, or a need exceeds a limit.
///
/// The kind of the error ([`ErrorKind`](crate::ErrorKind)) and its help are set where the error arises. Each message
/// is one line without a final period.
#[derive(Debug, thiserror::Error)]
enum RunError {
    /// Half of the measured disk space for the data files, `need`, exceeds the free space of the disk.
    #[error("{}: the token ids need about {need}, but only {free} are free", folder.display())]
    NoRoom { folder: PathBuf, need: ByteCount, free: ByteCount },
    /// The output holds other splits, and training would replace the tokenizer that encoded them. `names` joins their
    /// names by commas.
    #[error("{} holds other splits ({names}), which were encoded with its tokenizer", folder.display())]
    HoldsSplits { folder: PathBuf, names: String },
    /// The counted text is empty. `whole` names the input, the sample, or the input of counts files.
    #[error("there is nothing to train on: the {whole} has no text")]
    NothingToTrainOn { whole: &'static str },
    /// The text to verify merges on is empty. `whole` is "input" or "sample".
    #[error("there is nothing to replay merges on: the {whole} has no text")]
    NothingToReplayOn { whole: &'static str },
    /// The estimated peak memory of training or verification exceeds the memory limit.
    #[error("training needs {} of memory, and the limit is {limit}", approximately(*need, *limit))]
    TooLarge { need: ByteCount, limit: ByteCount },
    /// The files of the vocabulary would need more memory than the limit. `bytes` is the total length of its tokens.
    #[error(
        "the learned tokens have {bytes} in total and need {} of memory, and the limit is {limit}",
        approximately(*need, *limit)
    )]
    LongTokens { bytes: ByteCount, need: ByteCount, limit: ByteCount },
    /// The vocabulary has more bytes than a tokenizer file may have. More memory does not help.
    #[error("the learned tokens have {bytes} in total, and the limit of a tokenizer file is {limit}")]
    NoFileHolds { bytes: ByteCount, limit: ByteCount },
    /// The output of a sum of counts files is one of these files.
    #[error("the sum would replace {}, which is one of its inputs", path.display())]
    SumAmongCounts { path: PathBuf },
    /// The counts file changed after the plan was made: its pattern or its order does not match.
    #[error("{} was counted with other settings than the plan has", path.display())]
    OtherCounts { path: PathBuf },
    /// Two sources give a pass-through column types without a common type. `one` is the type in `first`, and `two`
    /// the type in `other`.
    #[error("column {column:?} holds {one} in {first}, and {two} in {other}")]
    ColumnsDiffer { column: String, one: String, first: String, two: String, other: String },
    /// A result lacks a file or folder that it must have.
    #[error("{} is missing", path.display())]
    Missing { path: PathBuf },
    /// The training record in the folder describes another tokenizer than the manifest of the job.
    #[error("{} holds another tokenizer", folder.display())]
    OtherTokenizer { folder: PathBuf },
    /// The files of one format differ from the tokenizer that the training record beside them describes.
    #[error("the {format} files in {} are of another tokenizer than training.json", folder.display())]
    OtherFile { folder: PathBuf, format: Format },
    /// The files of one format hold another tokenizer than the one that the manifest names by its fingerprint.
    #[error("the {format} files in {} are of another tokenizer than the manifest names", folder.display())]
    NotOfManifest { folder: PathBuf, format: Format },
    /// The sum over pre-tokens of count × length exceeds 2⁶⁴ − 1.
    #[error("the number of bytes in the corpus exceeds 64 bits")]
    TooMuchText,
    /// The training record has `stages` stages, and the requested number, counted from 1, is none of them.
    #[error("{} has no stage {stage}: {}", path.display(), recorded(*stages))]
    NoSuchStage { path: PathBuf, stage: usize, stages: usize },
    /// Training and encoding both read the input, and one source is a stream.
    #[error("the run reads its input twice, and standard input or a pipe can be read only once")]
    ReadTwice,
    /// The folder holds the complete result of a job that differs in `changed`. Only `force` replaces it.
    #[error("{} holds the result of another run: {changed} changed since", folder.display())]
    OtherJob { folder: PathBuf, changed: &'static str },
    /// As `OtherJob`, but the result has no manifest: the other job was interrupted.
    #[error("{} holds the unfinished result of another run: {changed} changed since", folder.display())]
    OtherBegun { folder: PathBuf, changed: &'static str },
    /// The plan puts a BOS or EOS token around documents that the tokenizer does not have.
    #[error("{} has no special token {token:?}", tokenizer.display())]
    NoSuchToken { tokenizer: PathBuf, token: String },
    /// The command `train` names the folder of a complete job, or the tokenizer folder of one.
    #[error("{} holds the result of a run, whose report or tokenizer would be replaced", folder.display())]
    HoldsResult { folder: PathBuf },
    /// The output folder of an encoding holds the training record of a tokenizer.
    #[error("{} holds a tokenizer, and the report of its training would be replaced", folder.display())]
    HoldsTokenizer { folder: PathBuf },
    /// A file has the name of a result, but the folder has no training record. The file may be from another program.
    #[error("{} would be replaced, but no training has written it", path.display())]
    NotLearnedThere { path: PathBuf },
    /// The output is inside a source folder. A second run would read the results of the first as input.
    #[error("the results in {} would be inside the input folder {uri}", folder.display())]
    InputHoldsResults { uri: String, folder: PathBuf },
    /// The path of an output folder is the path of a file.
    #[error("{} is a file", path.display())]
    NoFolder { path: PathBuf },
    /// An input file is a data file of the output folder, which the run would remove.
    #[error("{name} is input, but is among the results in {}", folder.display())]
    AmongResults { name: String, folder: PathBuf },
}

/// An estimate in words. It never prints as the same number as the limit that it exceeds.
fn approximately(need: ByteCount, limit: ByteCount) -> String {
    let word = if need.to_string() == limit.to_string() { "a little more than" } else { "about" };
    format!("{word} {need}")
}

/// The number of recorded stages in words, as the end of a sentence.
fn recorded(stages: usize) -> String {
    format!(
        "{} of training recorded",
        if stages == 1 { "one stage is".to_owned() } else { format!("{stages} stages are") }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_never_reads_like_the_limit_that_it_is_above() {
        for (need, said) in [
            (1_000_400, "training needs a little more than 1.0 MB of memory, and the limit is 1.0 MB"),
            (2_500_000, "training needs about 2.5 MB of memory, and the limit is 1.0 MB"),
        ] {
            let (need, limit) = (ByteCount(need), ByteCount(1_000_000));
            assert_eq!(RunError::TooLarge { need, limit }.to_string(), said);
        }
    }
}
