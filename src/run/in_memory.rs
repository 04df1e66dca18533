//! Trains and counts without writing the result, for programs that use it themselves.
//!
//! ```
//! use tokenmill::base::int::ByteCount;
//! use tokenmill::observer::Silent;
//! use tokenmill::run::recipe;
//! use tokenmill::run::{Environment, Inputs, count_in_memory, plan, train_from_counts, train_in_memory};
//! use tokenmill::source::OpenContext;
//!
//! # let folder = tempfile::tempdir()?;
//! # let dir = folder.path().display();
//! let text = format!("source.uri = 'demo:verse?lines=500'\ntrain.vocab_size = 400\noutput.dir = '{dir}'");
//! let environment = Environment { variable: &|_| None, threads: 2, memory: ByteCount(1 << 30) };
//! let plan = plan(&recipe::read("verse.toml", &text)?, &environment)?;
//! let inputs = Inputs::open(&plan, &OpenContext::new(&Silent))?;
//! let counts = count_in_memory(&plan, &inputs, folder.path(), &Silent)?;
//! let trained = train_from_counts(&plan, &counts, &Silent)?;
//! assert_eq!(trained.vocabulary, train_in_memory(&plan, &inputs, &Silent)?.vocabulary);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::path::Path;
use std::sync::Arc;

use super::counting::{Counting, check_output, described, facts};
use super::extend::ExtendedTokenizer;
use super::inputs::Inputs;
use super::job::write_options;
use super::plan::{Plan, TrainPlan};
use super::resources::Costs;
use super::training::{Trained, learn_from_counts, train};
use crate::base::atomic_file;
use crate::count::{CorpusCounts, CountsFile, CountsInfo, write_counts};
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::vocab::{Vocabulary, WriteOptions};

/// A tokenizer that was trained and not written.
#[derive(Clone, Debug)]
pub struct TrainedTokenizer {
    /// Its tokens.
    pub vocabulary: Arc<Vocabulary>,
    /// What its files say besides, if it is written.
    pub options: WriteOptions,
}

impl TrainedTokenizer {
    /// The result of training by a plan.
    fn new(trained: Trained, plan: &Plan) -> TrainedTokenizer {
        TrainedTokenizer { vocabulary: trained.vocabulary, options: write_options(plan) }
    }
}

/// Trains the tokenizer of a plan from these inputs, on the threads of the current rayon pool.
///
/// **Memory:** `plan.memory` limits counting and training. Pre-tokens beyond it are written to unnamed files in the
/// plan's folder for the tokenizer, which is created for them.
///
/// # Errors
/// Errors of reading, counting and training.
///
/// # Panics
/// The plan has no training.
pub fn train_in_memory(
    plan: &Plan,
    inputs: &Inputs<'_>,
    observer: &dyn Observer,
) -> Result<TrainedTokenizer> {
    let trained = train(plan, settings(plan), inputs, None, &mut Costs::default(), observer)?;
    inputs.skipped(observer);
    Ok(TrainedTokenizer::new(trained, plan))
}

/// Trains the tokenizer of a plan from counts, on the threads of the current rayon pool. The plan must be that of a
/// recipe that [`complete_from_counts_in_memory`](super::complete_from_counts_in_memory) has completed.
///
/// **Memory:** a copy of the counts, and that of [`learn_merges`](crate::train::learn_merges), which `plan.memory`
/// limits.
///
/// # Errors
/// There are no counts, the memory limit does not suffice, or the observer asks to stop.
///
/// # Panics
/// The plan has no training.
pub fn train_from_counts(
    plan: &Plan,
    counts: &CountsFile,
    observer: &dyn Observer,
) -> Result<TrainedTokenizer> {
    let base = ExtendedTokenizer::load(settings(plan), observer)?;
    let counted = CorpusCounts { pretokens: counts.pretokens.clone(), facts: facts([&counts.pretokens]) };
    let trained = learn_from_counts(plan, settings(plan), base, counted, &mut Costs::default(), observer)?;
    Ok(TrainedTokenizer::new(trained, plan))
}

/// Counts the pre-tokens of these inputs by the settings of a plan, on the threads of the current rayon pool. They are
/// in order of first appearance.
///
/// **Memory:** about `plan.memory` at most. Pre-tokens beyond it are written to unnamed files in `spill_folder` until
/// counting ends.
///
/// # Errors
/// Errors of reading and counting; the distinct pre-tokens exceed the memory limit.
///
/// # Panics
/// The plan has no training.
pub fn count_in_memory(
    plan: &Plan,
    inputs: &Inputs<'_>,
    spill_folder: &Path,
    observer: &dyn Observer,
) -> Result<CountsFile> {
    let counting = Counting { plan, train: settings(plan), inputs, observer };
    let counts = counting.sample_spilling(None, spill_folder)?;
    inputs.check_stamps()?;
    let info = counting.info(described(plan, inputs)?, true);
    inputs.skipped(observer);
    Ok(CountsFile { pretokens: counts.into_corpus_counts(observer)?.pretokens, info })
}

/// Writes counts to a counts file, completely or not at all: sorted by the bytes of the pre-tokens, or, if `ordered`, in
/// the order of the list, which must be that of first appearance.
///
/// # Errors
/// The order is not that of first appearance, the file cannot be written, or `path` exists and is not a counts file.
pub fn write_counts_file(
    counts: &CountsFile,
    path: &Path,
    ordered: bool,
    observer: &dyn Observer,
) -> Result<()> {
    if ordered && !counts.info.ordered {
        let problem = "the counts are not in the order in which the pre-tokens first appear";
        return Err(Error::usage(problem).with_help("count again, or write them without the order"));
    }
    check_output(path)?;
    let info = CountsInfo { ordered, ..counts.info.clone() };
    atomic_file::publish(path, |file| write_counts(file, path, &counts.pretokens, &info, observer))
}

/// The settings of training.
fn settings(plan: &Plan) -> &TrainPlan {
    plan.train.as_ref().expect("a plan that trains")
}
