//! Memory and time of a run: how the memory limit is divided, what training is estimated to need, and what each stage
//! has taken.

use std::sync::Arc;
use std::time::Instant;

use super::over_memory;
use super::plan::{Plan, TrainPlan};
use crate::base::int::{ByteCount, Count, to_u64};
use crate::count::PretokenCounts;
use crate::error::{Error, ErrorKind, Result};
use crate::report::StageCost;
use crate::source::{Batch, Documents};
use crate::train::{extend_memory_estimate, memory_estimate, parity_memory_estimate};

/// Memory for documents that are held: what remains after the program and the text that is read ahead, but at least a
/// quarter of the limit.
pub(super) fn memory_for_documents(limit: ByteCount, threads: usize) -> ByteCount {
    /// Bytes that the program takes without any text.
    const PROGRAM: u64 = 24_000_000;
    /// Bytes per thread of text that is read ahead.
    const READING: u64 = 16_000_000;
    let others = READING.saturating_mul(to_u64(threads)).saturating_add(PROGRAM);
    ByteCount(limit.0.saturating_sub(others).max(limit.0 / 4))
}

/// Bytes of the longest document that can be held whole within this memory. The memory also holds its token ids, what
/// is written of them, and the next document, which is read and encoded meanwhile.
fn longest_document(memory: ByteCount) -> u64 {
    /// A document takes up to this number of times its size.
    const COPIES: u64 = 10;
    /// Documents of this size (4 MiB) are accepted whatever the limit.
    const MIN: u64 = 4 << 20;
    (memory.0 / COPIES).max(MIN)
}

/// Bytes of the largest line, page or message that is read within this memory. Its text is copied out of it.
pub(super) fn longest_read(memory: ByteCount) -> ByteCount {
    /// A read takes up to this number of times its size.
    const COPIES: u64 = 4;
    /// Reads of this size (16 MiB) are accepted whatever the limit.
    const MIN: u64 = 16 << 20;
    ByteCount((memory.0 / COPIES).max(MIN))
}

/// The name of a file by source and unit, for messages.
pub(super) type UnitName = Arc<dyn Fn(usize, usize) -> String + Send + Sync>;

/// Passes on documents or parts of documents, unless a document is too long to be held whole.
///
/// Only lengths are added up here: no document is copied. The check comes before documents are joined, so a long one
/// is refused before it is held.
///
/// # Errors
/// A document has more bytes than the memory allows ([`ErrorKind::Memory`]).
pub(super) fn refuse_long_documents(
    documents: Documents<'static>,
    name: UnitName,
    memory: ByteCount,
) -> Documents<'static> {
    let max_bytes = longest_document(memory);
    let mut open_document = OpenDocument { row: 0, bytes: 0 };
    Box::new(documents.map(move |batch| {
        let batch = batch?;
        match open_document.too_long(&batch, max_bytes) {
            None => Ok(batch),
            Some(row) => {
                let file = name(batch.source, batch.unit);
                let max_bytes = ByteCount(max_bytes);
                let problem = format!(
                    "{file}: row {row}: a document has more than {max_bytes}, the most that the memory limit allows"
                );
                Err(Error::message(ErrorKind::Memory, problem).with_help(
                    "raise --memory, leave the document out, or cut it: --documents line or paragraph, or --separator",
                ))
            }
        }
    }))
}

/// The document that continues in the next batch: its row, and the bytes seen so far.
struct OpenDocument {
    /// The row of the document, counted within its unit.
    row: u64,
    /// The bytes in all batches so far.
    bytes: u64,
}

impl OpenDocument {
    /// Adds a batch. Returns the row of the first document that has more than `max_bytes` bytes so far; `None` if there
    /// is none. Batches must come in order.
    fn too_long(&mut self, batch: &Batch, max_bytes: u64) -> Option<u64> {
        let before = if batch.continued { self.bytes } else { 0 };
        let first = if batch.continued { self.row } else { batch.first_row };
        let last = batch.len().checked_sub(1)?;
        let length = |row: usize| batch.documents.lengths().nth(row).map_or(0, u64::from);
        let too_long = if before + batch.text_bytes() <= max_bytes {
            None
        } else {
            let lengths = batch.documents.lengths().map(u64::from).enumerate();
            let lengths = lengths.map(|(row, length)| if row == 0 { before + length } else { length });
            let found = lengths.zip(batch.first_row..).find(|(length, _)| *length > max_bytes);
            found.map(|(_, row)| if row == batch.first_row { first } else { row })
        };
        if batch.open {
            let continues = last == 0 && batch.continued;
            let (row, before) = if continues { (first, before) } else { (batch.first_row + to_u64(last), 0) };
            *self = OpenDocument { row, bytes: before + length(last) };
        }
        too_long
    }
}

/// Records the cost of each stage of a run.
#[derive(Default)]
pub(super) struct Costs {
    /// The recorded stages, in the order in which they ended. A name can occur more than once.
    pub(super) stages: Vec<StageCost>,
}

impl Costs {
    /// Runs and records a stage. `work` returns its result and the number of bytes of text that it processed.
    ///
    /// The stage includes everything that `work` does, also waiting for readers.
    ///
    /// # Errors
    /// Those of `work`. A stage that fails is not recorded.
    pub(super) fn stage<T>(&mut self, name: &str, work: impl FnOnce() -> Result<(T, u64)>) -> Result<T> {
        let start = Instant::now();
        let (result, text_bytes) = work()?;
        let cost = StageCost::new(name, start.elapsed().as_secs_f64(), text_bytes, peak_memory());
        let threads = Some(to_u64(rayon::current_num_threads()));
        self.stages.push(StageCost { threads, ..cost });
        Ok(result)
    }

    /// Seconds that all stages of this name took.
    pub(super) fn seconds(&self, name: &str) -> f64 {
        self.stages.iter().filter(|stage| stage.name == name).map(|stage| stage.seconds).sum()
    }
}

/// Peak resident memory of this process so far, in bytes; `None` where the system does not report it (other than
/// Linux).
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Memory for the tables of counting: what remains after the program and the text that is read, but at least a
/// quarter of the limit.
///
/// Further counts are spilled to disk.
pub(super) fn memory_of_tables(limit: ByteCount, threads: usize) -> ByteCount {
    memory_for_documents(limit, threads)
}

/// Memory for a sum of counts: half of that for tables, since the counts that are added are held as well.
pub(super) fn memory_of_sum(plan: &Plan) -> ByteCount {
    ByteCount(memory_of_tables(plan.memory, plan.threads).0 / 2)
}

/// Checks that learning from these pre-tokens fits the memory limit.
///
/// # Errors
/// It does not ([`ErrorKind::Memory`]).
pub(super) fn check_memory(pretokens: &PretokenCounts, train: &TrainPlan, limit: ByteCount) -> Result<()> {
    let weighted = pretokens.iter().any(|(_, count)| count != Count::ONE);
    within_memory(learning_memory(train, to_u64(pretokens.bytes()), to_u64(pretokens.len()), weighted), limit)
}

/// Estimated peak memory of learning from sequences of this number and total size. `weighted` says whether some count
/// more than once.
///
/// `bytes` is the total length of the distinct sequences, and not of the text.
pub(super) fn learning_memory(train: &TrainPlan, bytes: u64, sequences: u64, weighted: bool) -> ByteCount {
    match (&train.extend, &train.parity) {
        (Some(_), _) => extend_memory_estimate(&train.config, bytes, sequences),
        (None, Some(parity)) => parity_memory_estimate(&train.config, bytes, sequences, parity.sources),
        (None, None) => memory_estimate(&train.config, bytes, sequences, weighted),
    }
}

/// Checks an estimate against the memory limit.
///
/// # Errors
/// The estimate exceeds it ([`ErrorKind::Memory`]).
pub(super) fn within_memory(need: ByteCount, limit: ByteCount) -> Result<()> {
    if need <= limit {
        return Ok(());
    }
    Err(over_memory("training needs", need, limit)
        .with_help("raise --memory, or learn from a part of the corpus (`take`, `every`, `max_bytes`)"))
}

#[cfg(test)]
mod tests {
    use arrow::array::BinaryViewArray;

    use super::*;

    fn batch(first_row: u64, lengths: &[usize], continued: bool, open: bool) -> Batch {
        let documents = BinaryViewArray::from_iter_values(lengths.iter().map(|length| "x".repeat(*length)));
        Batch { source: 0, unit: 0, first_row, documents, columns: None, continued, open }
    }

    #[test]
    fn a_document_is_too_long_as_soon_as_its_parts_are() {
        let mut open_document = OpenDocument { row: 0, bytes: 0 };
        let mut found = |first, lengths: &[usize], continued, open| {
            open_document.too_long(&batch(first, lengths, continued, open), 20)
        };
        assert_eq!(found(0, &[15, 15, 5], false, true), None);
        assert_eq!(found(2, &[10], true, true), None, "15 so far");
        assert_eq!(found(2, &[5, 20, 20], true, true), None, "just so long");
        assert_eq!(found(4, &[1], true, false), Some(4));
        assert_eq!(found(5, &[1, 2, 21], false, false), Some(7));
        assert_eq!(found(8, &[20, 20], false, false), None);
    }

    #[test]
    fn the_more_memory_there_is_the_longer_are_documents_that_fit() {
        let longest = |limit| longest_document(memory_for_documents(ByteCount(limit), 2));
        assert_eq!(longest(0), 4 << 20);
        assert_eq!(longest(100_000_000), 44_000_000 / 10);
        assert_eq!(longest(16_000_000_000), (16_000_000_000 - 56_000_000) / 10);
    }
}
