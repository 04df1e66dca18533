//! Runs the stages in order: turns a recipe into a plan, and a plan into a tokenizer and token ids.
//!
//! A [`Recipe`] is what the user wrote. [`plan()`] checks it as a whole and gives a [`Plan`]. [`job()`] trains,
//! encodes and writes a report, [`train_only`] trains, [`count_only`] counts, and [`preview()`] says what a job would
//! do. [`train_in_memory`] and [`count_in_memory`] return results without writing files. A program that only wants a
//! tokenizer from texts calls [`learn()`].
//!
//! ```
//! use tokenmill::observer::Silent;
//! use tokenmill::run::recipe::{self, Given};
//! use tokenmill::report::RecipeFacts;
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
//! // The report shows the recipe.
//! let facts = RecipeFacts { name: "verse.toml".into(), text: text.into(), sha256: plan.recipe_hash.clone() };
//! let options = JobOptions { recipe: facts, ..JobOptions::default() };
//! let outcome = job(&plan, &options, &OpenContext::new(&Silent))?;
//! assert!(outcome.manifest.is_some() && dir.join("tokenizer/tokenizer.json").is_file());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checks;
mod encoding;
mod training;
mod tokenizer_files;
mod extend;
mod stages;
mod counting;
mod parity;
mod resources;
pub mod recipe;
pub mod plan;
mod shard;
mod inputs;
mod state;
mod facts;
mod job;
mod in_memory;
mod resample;
mod compare;
mod explore;
mod disk;
mod preview;
mod cluster;
mod push;
mod verify;

use super::base::int::ByteCount;
use super::base::pools::no_threads;
use super::error::{Error, ErrorKind, Result};

pub use cluster::{
    Cluster, ClusterCost, ClusterText, CostRates, MeasuredRate, cluster_assumptions, cluster_cost,
};
pub use compare::{Compared, ParallelTexts, compare};
pub use counting::{
    CountSummary, CountedUnit, count_only, counted_units, counts_files, merge_counts, read_counts_files,
};
#[doc(hidden)]
pub use counting::{complete_from_counts, complete_from_counts_in_memory};
pub use disk::DiskNeed;
#[doc(hidden)]
pub use encoding::shown_token;
pub use explore::explore;
#[doc(hidden)]
pub use extend::complete_from_tokenizer;
pub use in_memory::{
    TrainedTokenizer, count_in_memory, train_from_counts, train_in_memory, write_counts_file,
};
pub use inputs::Inputs;
pub use job::{JobOptions, Outcome, job, train_only};
#[doc(hidden)]
pub use plan::MAX_THREADS;
pub use plan::{
    EncodePlan, EncodedDocuments, Environment, ParityPlan, Plan, SmallerPlan, StagePlan, TrainPlan, plan,
};
pub use preview::{ExistingOutput, Preview, SourcePreview, preview, preview_counting, preview_training};
pub use push::push_result;
pub use recipe::{Mistakes, Recipe};
#[doc(hidden)]
pub use resources::peak_memory;
#[doc(hidden)]
pub use state::started_as;
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

/// The error that an estimate of memory exceeds the limit. `what` is the beginning of the sentence, with the verb. The
/// estimate never prints as the same number as the limit.
fn over_memory(what: &str, need: ByteCount, limit: ByteCount) -> Error {
    let about = if need.to_string() == limit.to_string() { "a little more than" } else { "about" };
    Error::message(ErrorKind::Memory, format!("{what} {about} {need} of memory, and the limit is {limit}"))
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
            assert_eq!(
                over_memory("training needs", ByteCount(need), ByteCount(1_000_000)).to_string(),
                said
            );
        }
    }
}
