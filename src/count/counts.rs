//! The result of counting, in memory or on disk, and the ways to use it.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::counts_writer::CountsWriter;
use super::facts::FactFinder;
use super::fault::Fault;
use super::merge::{Order, merge_runs};
use super::pretoken_log::PretokenLog;
use super::runs::Runs;
use super::{CorpusFacts, Counted, CountsInfo, PretokenCounts, write_counts};
use crate::base::int::{ByteCount, Count, to_u64, u64_to_usize};
use crate::error::Result;
use crate::observer::Observer;

/// The memory that counting may take, and the folder for pre-tokens beyond it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Bytes of the tables of all threads together, also while they grow.
    pub tables: ByteCount,
    /// The folder for sorted runs of pre-tokens. It is created if it does not exist.
    ///
    /// The runs take less space than the text. They take twice as much if the result is in order of first appearance,
    /// or if they are too many to be read at a time. Their files have no names: the system removes them however the
    /// program ends.
    pub scratch: PathBuf,
}

/// The counts of a corpus, in memory or, if the limit of memory did not suffice, in sorted runs on disk. Get them
/// from [`count_within_limit`](super::count_within_limit).
pub struct Counts {
    pub(super) pretokens: Pretokens,
    pub(super) facts: FactFinder,
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts").finish_non_exhaustive()
    }
}

/// Counted pre-tokens.
pub(super) enum Pretokens {
    /// In memory.
    Held(PretokenCounts),
    /// In runs sorted by bytes, one file per thread.
    Spilled(Vec<Runs>, MemoryLimit),
}

/// The contents of a counts file, as [`Counts::write`] wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Number of distinct pre-tokens.
    pub pretokens: u64,
    /// Total bytes of the distinct pre-tokens.
    pub pretoken_bytes: u64,
    /// Facts about the text.
    pub facts: CorpusFacts,
}

impl Counts {
    /// Returns the number of sorted runs on disk; 0 if the memory sufficed.
    pub fn spills(&self) -> u64 {
        match &self.pretokens {
            Pretokens::Held(_) => 0,
            Pretokens::Spilled(runs, _) => runs.iter().map(|runs| to_u64(runs.len())).sum(),
        }
    }

    /// Collects all pre-tokens in memory, in order of first appearance.
    ///
    /// # Errors
    /// The pre-tokens exceed the limit of memory, a run cannot be written or read, a count exceeds 2⁶⁴ − 1, or the
    /// observer stops the run.
    pub fn into_counted(self, observer: &dyn Observer) -> Result<Counted> {
        let Counts { pretokens, mut facts } = self;
        let pretokens = match pretokens {
            Pretokens::Held(pretokens) => pretokens,
            Pretokens::Spilled(runs, limit) => {
                collected(by_first(runs, &limit, observer)?, &limit, observer)?
            }
        };
        facts.saw_bytes(pretokens.all_bytes());
        Ok(Counted { pretokens, facts: facts.finish() })
    }

    /// Writes a counts file with the same bytes as [`write_counts`], also if the pre-tokens are on disk.
    ///
    /// **Memory:** the limit, and about 40 MB.
    ///
    /// # Errors
    /// Those of [`write_counts`], a run cannot be written or read, a count exceeds 2⁶⁴ − 1, or the observer stops the
    /// run.
    pub fn write(
        self,
        out: impl Write + Send,
        path: &Path,
        info: &CountsInfo,
        observer: &dyn Observer,
    ) -> Result<Written> {
        let Counts { pretokens, mut facts } = self;
        let (mut number, mut bytes) = (0, 0);
        match pretokens {
            Pretokens::Held(pretokens) => {
                facts.saw_bytes(pretokens.all_bytes());
                (number, bytes) = (to_u64(pretokens.len()), to_u64(pretokens.bytes()));
                write_counts(out, path, &pretokens, info, observer)?;
            }
            Pretokens::Spilled(runs, limit) => {
                let mut writer = CountsWriter::begin(out, path, info, observer)?;
                let (runs, order) = match info.ordered {
                    true => (vec![by_first(runs, &limit, observer)?], Order::First),
                    false => (runs, Order::Bytes),
                };
                let memory = (u64_to_usize(limit.tables.0), &*limit.scratch);
                merge_runs(runs, order, memory, observer, |pretoken, count, _| {
                    facts.saw_bytes(pretoken);
                    (number, bytes) = (number + 1, bytes + to_u64(pretoken.len()));
                    writer.push(pretoken, count)
                })?;
                writer.end()?;
            }
        }
        Ok(Written { pretokens: number, pretoken_bytes: bytes, facts: facts.finish() })
    }
}

/// Merges runs that are sorted by bytes, and sorts the result into runs by first position.
fn by_first(runs: Vec<Runs>, limit: &MemoryLimit, observer: &dyn Observer) -> Result<Runs> {
    let mut sorted = Runs::create(&limit.scratch)?;
    let memory = u64_to_usize(limit.tables.0);
    let mut waiting = Waiting::default();
    merge_runs(runs, Order::Bytes, (memory / 4, &limit.scratch), observer, |pretoken, count, first| {
        if waiting.bytes() > memory / 2 {
            waiting.spill(&mut sorted)?;
        }
        waiting.push(pretoken, count, first);
        Ok(())
    })?;
    waiting.spill(&mut sorted)?;
    Ok(sorted)
}

/// Distinct pre-tokens that are to be sorted by first position.
#[derive(Default)]
struct Waiting {
    log: PretokenLog,
    /// For each pre-token its first position, number and count, in this order, so that sorting reads nothing else.
    order: Vec<(u64, u64, Count)>,
}

impl Waiting {
    /// Returns the memory in bytes.
    fn bytes(&self) -> usize {
        self.log.memory() + size_of_val(&self.order[..])
    }

    /// Adds a pre-token, which must be new.
    fn push(&mut self, pretoken: &[u8], count: Count, first: u64) {
        self.order.push((first, self.log.push(pretoken, first), count));
    }

    /// Writes the pre-tokens as a run, sorted by first position, and removes them.
    fn spill(&mut self, runs: &mut Runs) -> Result<()> {
        self.order.sort_unstable();
        runs.write(
            self.order.iter().map(|&(first, number, count)| (self.log.pretoken(number), count, first)),
        )?;
        self.log.clear();
        self.order.clear();
        Ok(())
    }
}

/// Collects the pre-tokens of runs that are sorted by first position.
fn collected(runs: Runs, limit: &MemoryLimit, observer: &dyn Observer) -> Result<PretokenCounts> {
    let mut pretokens = PretokenCounts::new();
    let memory = u64_to_usize(limit.tables.0);
    merge_runs(vec![runs], Order::First, (memory / 4, &limit.scratch), observer, |pretoken, count, _| {
        pretokens.push(pretoken, count);
        Ok(check_fits(&pretokens, EACH, limit.tables)?)
    })?;
    Ok(pretokens)
}

/// Bytes of memory for each pre-token of [`PretokenCounts`] in addition to its own bytes: its end and its count.
pub(super) const EACH: u64 = 16;
/// The same with a hash index, which takes at most 32 bytes per pre-token.
pub(super) const EACH_INDEXED: u64 = 48;

/// Returns the memory of pre-tokens in bytes. `each` is the number of bytes for each in addition to its own.
pub(super) fn bytes_of(pretokens: &PretokenCounts, each: u64) -> u64 {
    to_u64(pretokens.bytes()) + each * to_u64(pretokens.len())
}

/// Checks that pre-tokens keep within a limit of memory; see [`bytes_of`].
pub(super) fn check_fits(pretokens: &PretokenCounts, each: u64, limit: ByteCount) -> Result<(), Fault> {
    if bytes_of(pretokens, each) > limit.0 { Err(Fault::TooManyPretokens { limit }) } else { Ok(()) }
}
