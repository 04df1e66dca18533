//! Knows the order of the stages: from a recipe to a plan, from a plan to a tokenizer and token ids.

pub mod recipe;
pub mod plan;
mod fault;
mod inputs;
mod costs;
mod state;
mod train;
mod encode;
mod facts;
mod job;

pub use job::{JobOptions, Outcome, job, train_only};
pub use plan::{EncodePlan, Plan, Surroundings, TrainPlan, plan};
pub use recipe::{Mistakes, Recipe};

use crate::error::{Error, ErrorKind, Result};

/// Runs `work` on a rayon pool of its own with this many threads.
fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|cause| Error::new(ErrorKind::Failed, fault::Fault::NoThreads { cause }))?.install(work)
}
