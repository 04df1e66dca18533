use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::counts_writer::CountsWriter;
use super::facts::FactFinder;
use super::fault::Fault;
use super::merge::{Order, merge_runs};
use super::piece_log::PieceLog;
use super::runs::Runs;
use super::{CorpusFacts, Counted, CountsInfo, PieceCounts, write_counts};
use crate::error::Result;
use crate::observer::Observer;
use crate::units::{ByteCount, Count, amount, place64};

/// How much memory counting may take, and where what is more goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Bytes of the tables of all threads together, while they grow included.
    pub tables: ByteCount,
    /// The folder for sorted runs of pieces, which is made if it is not there. They take less room than the
    /// text, or twice that where pieces are wanted in order of first appearance or there are more runs than
    /// can be read at once, and have no names: the system removes them however the program ends.
    pub scratch: PathBuf,
}

/// What was counted, in memory or, where that did not suffice, in sorted runs on disk.
pub struct Counts {
    pub(super) pieces: Pieces,
    pub(super) facts: FactFinder,
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts").finish_non_exhaustive()
    }
}

/// Counted pieces, wherever they are.
pub(super) enum Pieces {
    /// In memory.
    Held(PieceCounts),
    /// In runs sorted by bytes, a file a thread.
    Spilled(Vec<Runs>, MemoryLimit),
}

/// What a counts file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Distinct pieces.
    pub pieces: u64,
    /// Bytes of the distinct pieces.
    pub piece_bytes: u64,
    /// Facts about the text.
    pub facts: CorpusFacts,
}

impl Counts {
    /// How many sorted runs went to disk.
    pub fn spills(&self) -> u64 {
        match &self.pieces {
            Pieces::Held(_) => 0,
            Pieces::Spilled(runs, _) => runs.iter().map(|runs| amount(runs.len())).sum(),
        }
    }

    /// Takes all pieces into memory.
    ///
    /// # Errors
    /// They do not fit the limit; a run cannot be written or read, a count passes 2⁶⁴, or the observer
    /// stops the run.
    pub fn into_counted(self, observer: &dyn Observer) -> Result<Counted> {
        let Counts { pieces, mut facts } = self;
        let pieces = match pieces {
            Pieces::Held(pieces) => pieces,
            Pieces::Spilled(runs, limit) => collected(by_first(runs, &limit, observer)?, &limit, observer)?,
        };
        facts.saw_bytes(pieces.all_bytes());
        Ok(Counted { pieces, facts: facts.finish() })
    }

    /// Writes a counts file, as [`write_counts`] does and with the same bytes, wherever the pieces are.
    ///
    /// **Memory:** the limit, and some 40 MB.
    ///
    /// # Errors
    /// Those of [`write_counts`]; a run cannot be written or read, a count passes 2⁶⁴, or the observer stops
    /// the run.
    pub fn write(
        self,
        out: impl Write + Send,
        path: &Path,
        info: &CountsInfo,
        observer: &dyn Observer,
    ) -> Result<Written> {
        let Counts { pieces, mut facts } = self;
        let (mut number, mut bytes) = (0, 0);
        match pieces {
            Pieces::Held(pieces) => {
                facts.saw_bytes(pieces.all_bytes());
                (number, bytes) = (amount(pieces.len()), amount(pieces.bytes()));
                write_counts(out, path, &pieces, info, observer)?;
            }
            Pieces::Spilled(runs, limit) => {
                let mut writer = CountsWriter::begin(out, path, info, observer)?;
                let (runs, order) = match info.ordered {
                    true => (vec![by_first(runs, &limit, observer)?], Order::First),
                    false => (runs, Order::Bytes),
                };
                let memory = (place64(limit.tables.0), &*limit.scratch);
                merge_runs(runs, order, memory, observer, |piece, count, _| {
                    facts.saw_bytes(piece);
                    (number, bytes) = (number + 1, bytes + amount(piece.len()));
                    writer.push(piece, count)
                })?;
                writer.end()?;
            }
        }
        Ok(Written { pieces: number, piece_bytes: bytes, facts: facts.finish() })
    }
}

/// Merges runs that are sorted by bytes into ones that are sorted by first place.
fn by_first(runs: Vec<Runs>, limit: &MemoryLimit, observer: &dyn Observer) -> Result<Runs> {
    let mut sorted = Runs::create(&limit.scratch)?;
    let memory = place64(limit.tables.0);
    let mut waiting = Waiting::default();
    merge_runs(runs, Order::Bytes, (memory / 4, &limit.scratch), observer, |piece, count, first| {
        if waiting.bytes() > memory / 2 {
            waiting.spill(&mut sorted)?;
        }
        waiting.push(piece, count, first);
        Ok(())
    })?;
    waiting.spill(&mut sorted)?;
    Ok(sorted)
}

/// Distinct pieces that are not yet in order.
#[derive(Default)]
struct Waiting {
    log: PieceLog,
    /// The count and the number of each, behind its first place, so that sorting looks nowhere else.
    order: Vec<(u64, u64, Count)>,
}

impl Waiting {
    fn bytes(&self) -> usize {
        self.log.memory() + size_of_val(&self.order[..])
    }

    fn push(&mut self, piece: &[u8], count: Count, first: u64) {
        self.order.push((first, self.log.push(piece, first), count));
    }

    /// Writes the pieces as a run in order of their first places, and forgets them.
    fn spill(&mut self, runs: &mut Runs) -> Result<()> {
        self.order.sort_unstable();
        runs.write(self.order.iter().map(|&(first, number, count)| (self.log.piece(number), count, first)))?;
        self.log.clear();
        self.order.clear();
        Ok(())
    }
}

/// All pieces of runs that are sorted by first place.
fn collected(runs: Runs, limit: &MemoryLimit, observer: &dyn Observer) -> Result<PieceCounts> {
    let mut pieces = PieceCounts::new();
    let memory = place64(limit.tables.0);
    merge_runs(vec![runs], Order::First, (memory / 4, &limit.scratch), observer, |piece, count, _| {
        pieces.push(piece, count);
        Ok(check_fits(&pieces, EACH, limit.tables)?)
    })?;
    Ok(pieces)
}

/// Bytes that pieces held in memory take for each beside its own, and those that are found by their hashes.
pub(super) const EACH: u64 = 16;
pub(super) const EACH_INDEXED: u64 = 48;

/// Bytes that pieces take.
pub(super) fn bytes_of(pieces: &PieceCounts, each: u64) -> u64 {
    amount(pieces.bytes()) + each * amount(pieces.len())
}

/// Checks that pieces take no more than so many bytes.
pub(super) fn check_fits(pieces: &PieceCounts, each: u64, limit: ByteCount) -> Result<(), Fault> {
    if bytes_of(pieces, each) > limit.0 { Err(Fault::TooManyPieces { limit }) } else { Ok(()) }
}
