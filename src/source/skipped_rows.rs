//! Records the rows and files that a run skips because they cannot be read.
//!
//! Several threads read units at the same time, read ahead of the consumer, and may read a unit again after an
//! interruption. The record must not depend on any of that. So each reading of a unit counts its own skipped rows, a
//! new reading replaces the previous one, and only rows before the consumer's position count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use arrow::array::{BinaryViewArray, RecordBatch};
use serde::{Deserialize, Serialize};

use super::content::FileWatch;
use super::{Batch, OnBadInput};
use crate::base::int::{to_u64, with_unit};
use crate::base::pools::lock;
use crate::error::{Error, ErrorKind, Result};

/// Number of skipped rows that are listed with their message. Later ones are only counted.
pub const LISTED_SKIPPED_ROWS: usize = 1_000;

/// The advice if bad input ends a run.
const LEAVE_OUT: &str =
    "fix it, or skip what cannot be read: --on-bad-input skip (`on_bad_input` in recipes)";

/// A row or file that was skipped because it could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRow {
    /// Index of the source among the sources of the run.
    pub source: usize,
    /// Index of the unit in that source; `None` for a file that was skipped when the source was opened.
    pub unit: Option<usize>,
    /// The problem, with file and position.
    pub problem: String,
}

/// The rows that are missing from a unit because they were skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitSkips {
    /// Number of rows.
    pub count: u64,
    /// The problem of the first of them.
    #[serde(default)]
    pub first: Option<String>,
    /// The problems of those that are listed.
    pub listed: Vec<String>,
}

/// The rows and files that a run skipped. All sources of a run share one object. Reading a unit again replaces what
/// its previous reading found, so nothing is counted twice. Rows that were read ahead and not
/// [taken](super::Source::taken) do not count.
///
/// **Memory:** unless bad input ends the run, a few words for each unit that is read; a message for each unit with
/// skipped rows; and at most [`LISTED_SKIPPED_ROWS`] messages.
///
/// ```
/// use std::io::Cursor;
/// use std::sync::Mutex;
/// use tokenmill::observer::Silent;
/// use tokenmill::source::{self, Format, OnBadInput, OpenContext, SourceSpec};
///
/// let lines = Cursor::new("{\"text\": \"a\"}\nnot JSON\n");
/// let context = OpenContext { stdin: Mutex::new(Some(Box::new(lines))), ..OpenContext::new(&Silent) };
/// let spec = SourceSpec {
///     uri: "-".to_owned(),
///     format: Some(Format::Jsonl),
///     on_bad_input: OnBadInput::Skip,
///     ..SourceSpec::default()
/// };
/// let source = source::open(&spec, 0, &context)?;
/// let mut documents = 0;
/// for batch in source::in_order(vec![source], 1) {
///     documents += batch?.len();
/// }
/// assert_eq!((documents, context.skipped_rows.count()), (1, 1));
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct SkippedRows {
    /// What all readings of units have found.
    state: Mutex<SkipState>,
}

/// A source and one of its units; `None` means files that were skipped when the source was opened.
type UnitKey = (usize, Option<usize>);

/// The state of all readings.
#[derive(Debug, Default)]
struct SkipState {
    /// The latest reading of each unit, in document order.
    units: BTreeMap<UnitKey, UnitState>,
    /// Problems by unit and by the number of rows skipped before in that unit, so that they are in document order.
    listed: BTreeMap<(UnitKey, u64), String>,
    /// Number of readings that were started. It numbers them.
    readings: u64,
    /// Columns that some files of a source lack: the indices of these files, and the name of the first.
    missing_columns: BTreeMap<(usize, String), (BTreeSet<usize>, String)>,
    /// The source and column of the entries of `missing_columns` that were already reported.
    reported: BTreeSet<(usize, String)>,
    /// Sentences about anything odd in the list of files, by source.
    files: BTreeSet<(usize, String)>,
    /// The sentences of `files` that were already reported.
    reported_files: BTreeSet<(usize, String)>,
    /// The first file of each source in which invalid characters were replaced, with its unit.
    replaced: BTreeMap<usize, (usize, String)>,
}

/// The latest reading of a unit.
#[derive(Debug)]
struct UnitState {
    /// Distinguishes this reading from earlier ones of the unit.
    number: u64,
    /// Number of rows that it has skipped.
    skipped: u64,
    /// Number of skipped rows that precede what the consumer has taken.
    taken: u64,
    /// The problem of the first skipped row.
    first: Option<String>,
}

impl SkippedRows {
    /// The number of rows that were skipped, plus the number of files that could not be read at all.
    pub fn count(&self) -> u64 {
        self.state().units.values().map(|reading| reading.taken).fold(0, u64::saturating_add)
    }

    /// The problem of the first skipped row or file, in document order.
    pub fn first(&self) -> Option<String> {
        let state = self.state();
        state.units.values().filter(|reading| reading.taken > 0).find_map(|reading| reading.first.clone())
    }

    /// The skipped rows of sources with [`OnBadInput::Quarantine`], in document order.
    pub fn listed(&self) -> Vec<SkippedRow> {
        let skipped_row = |((key, _), problem): (&(UnitKey, u64), &String)| SkippedRow {
            source: key.0,
            unit: key.1,
            problem: problem.clone(),
        };
        let state = self.state();
        state
            .listed
            .iter()
            .filter(|((key, number), _)| *number < state.taken(*key))
            .map(skipped_row)
            .collect()
    }

    /// The rows that are missing from a unit.
    pub fn in_unit(&self, source: usize, unit: usize) -> UnitSkips {
        let key = (source, Some(unit));
        let state = self.state();
        let count = state.taken(key);
        let first = state.units.get(&key).and_then(|reading| reading.first.clone()).filter(|_| count > 0);
        let listed = state.listed.range((key, 0)..(key, count)).map(|(_, problem)| problem.clone());
        UnitSkips { count, first, listed: listed.collect() }
    }

    /// The missing rows of every unit that has some, with source and unit, in document order.
    pub fn by_unit(&self) -> Vec<(usize, usize, UnitSkips)> {
        let missing_columns: Vec<UnitKey> = {
            let state = self.state();
            state.units.iter().filter(|(_, reading)| reading.taken > 0).map(|(&key, _)| key).collect()
        };
        let units = missing_columns.into_iter().filter_map(|(source, unit)| Some((source, unit?)));
        units.map(|(source, unit)| (source, unit, self.in_unit(source, unit))).collect()
    }

    /// Sentences about pass-through columns that some files of a source lack. Each sentence is returned by only one
    /// call.
    pub fn missing_columns(&self) -> Vec<String> {
        let mut state = self.state();
        let SkipState { missing_columns, reported, .. } = &mut *state;
        let sentence =
            |((source, column), (files, first)): (&(usize, String), &(BTreeSet<usize>, String))| {
                let is_new = reported.insert((*source, column.clone()));
                let files = with_unit(to_u64(files.len()), "file");
                is_new
                    .then(|| format!("column {column:?} is null in {files} without it; the first is {first}"))
            };
        missing_columns.iter().filter_map(sentence).collect()
    }

    /// Records something odd about the files of a source.
    pub(crate) fn add_file_note(&self, source: usize, sentence: String) {
        self.state().files.insert((source, sentence));
    }

    /// Sentences about anything odd in the lists of files, for example files of unknown formats. Each is returned by
    /// only one call.
    pub fn file_notes(&self) -> Vec<String> {
        let mut state = self.state();
        let SkipState { files, reported_files, .. } = &mut *state;
        files
            .iter()
            .filter(|reported| reported_files.insert((*reported).clone()))
            .map(|(_, reported)| reported.clone())
            .collect()
    }

    /// All these sentences, including those already returned.
    pub fn all_file_notes(&self) -> Vec<String> {
        self.state().files.iter().map(|(_, reported)| reported.clone()).collect()
    }

    /// A sentence for each source with replaced invalid characters, naming the first file that had any. Each is
    /// returned by only one call.
    pub fn replaced(&self) -> Vec<String> {
        let replaced = std::mem::take(&mut self.state().replaced);
        let sentence =
            |(_, file)| format!("text has U+FFFD in place of invalid characters; the first is in {file}");
        replaced.into_values().map(sentence).collect()
    }

    /// Sets the skipped rows of a unit to those of an earlier reading, for example of an interrupted run.
    pub fn restore(&self, source: usize, unit: usize, before: &UnitSkips) {
        let key = (source, Some(unit));
        let UnitSkips { count, first, listed } = before;
        let mut state = self.state();
        let number = state.begin(key);
        let reading = UnitState { number, skipped: *count, taken: *count, first: first.clone() };
        state.units.insert(key, reading);
        for (number, problem) in (0..).zip(listed) {
            state.list((key, number), problem.clone());
        }
    }

    /// Forgets the files that were skipped when the sources were opened. Every shard of an input meets them, and one of
    /// them counts them.
    pub(crate) fn forget_files(&self) {
        let mut state = self.state();
        state.units.retain(|(_, unit), _| unit.is_some());
        state.listed.retain(|((_, unit), _), _| unit.is_some());
    }

    /// Adds skipped rows to the reading with this number, unless a later reading of the unit has started.
    fn add(&self, key: UnitKey, reading: u64, lost: &SkippedInput, listed: bool) {
        let mut state = self.state();
        let Some(reading) = state.units.get_mut(&key).filter(|latest| latest.number == reading) else {
            return;
        };
        let number = reading.skipped;
        reading.skipped = number.saturating_add(lost.rows);
        if reading.first.is_none() {
            reading.first = Some(lost.problem());
        }
        if listed {
            state.list((key, number), lost.problem());
        }
    }

    /// Locks the state.
    fn state(&self) -> MutexGuard<'_, SkipState> {
        lock(&self.state)
    }
}

impl SkipState {
    /// Starts a reading of a unit, discards what the previous one found, and returns the new number.
    fn begin(&mut self, key: UnitKey) -> u64 {
        self.readings += 1;
        let reading = UnitState { number: self.readings, skipped: 0, taken: 0, first: None };
        if self.units.insert(key, reading).is_some_and(|before| before.skipped > 0) {
            self.listed.retain(|(listed, _), _| *listed != key);
        }
        self.readings
    }

    /// Number of the unit's skipped rows that count.
    fn taken(&self, key: UnitKey) -> u64 {
        self.units.get(&key).map_or(0, |reading| reading.taken)
    }

    /// Adds a problem to the list, if it is among the first [`LISTED_SKIPPED_ROWS`].
    fn list(&mut self, place: (UnitKey, u64), problem: String) {
        self.listed.insert(place, problem);
        if self.listed.len() > LISTED_SKIPPED_ROWS {
            // Removing the last in document order makes the list independent of threads.
            self.listed.pop_last();
        }
    }
}

/// The treatment of bad input by one source.
#[derive(Clone, Debug)]
pub(super) struct BadInput {
    /// The treatment that the source asks for.
    pub(super) policy: OnBadInput,
    /// The number of the source.
    pub(super) source: usize,
    /// The record of the run.
    pub(super) skipped_rows: Arc<SkippedRows>,
}

/// The bad input of one reading of a unit, or of opening the source if `unit` is `None`.
#[derive(Clone, Debug)]
pub(super) struct BadRows {
    /// The treatment that the source asks for.
    of: BadInput,
    /// The unit; `None` while the source is opened.
    unit: Option<usize>,
    /// The number of the reading, so that a newer one replaces it; 0 if nothing is skipped.
    reading: u64,
    /// The file that is read, to check that it has not changed.
    watch: Option<Arc<FileWatch>>,
}

impl BadInput {
    /// Starts a reading of a unit from its beginning, or the opening of the source if `unit` is `None`.
    pub(super) fn begin(&self, unit: Option<usize>) -> BadRows {
        let reading = match self.policy {
            OnBadInput::Fail | OnBadInput::Replace => 0,
            OnBadInput::Skip | OnBadInput::Quarantine => self.skipped_rows.state().begin((self.source, unit)),
        };
        BadRows { of: self.clone(), unit, reading, watch: None }
    }

    /// Records something odd about the list of files.
    pub(super) fn file_notes(&self, sentence: String) {
        self.skipped_rows.add_file_note(self.source, sentence);
    }

    /// The number of rows that the latest reading of a unit has skipped so far.
    pub(super) fn skipped(&self, unit: Option<usize>) -> u64 {
        self.skipped_rows.state().units.get(&(self.source, unit)).map_or(0, |reading| reading.skipped)
    }

    /// Sets how many of the rows skipped by the latest reading of a unit count.
    pub(super) fn taken(&self, unit: Option<usize>, skipped: u64) {
        if let Some(reading) = self.skipped_rows.state().units.get_mut(&(self.source, unit)) {
            reading.taken = skipped.min(reading.skipped);
        }
    }
}

impl BadRows {
    /// The same for a file with a recorded state, so that a changed file is not taken for bad input.
    pub(super) fn of_file(self, watch: &Arc<FileWatch>) -> BadRows {
        BadRows { watch: Some(Arc::clone(watch)), ..self }
    }

    /// Records something odd about the files.
    pub(super) fn file_notes(&self, sentence: String) {
        self.of.file_notes(sentence);
    }

    /// Records that a file, given by index and name, lacks a column.
    pub(super) fn record_missing_column(&self, column: &str, file: usize, name: &str) {
        let mut state = self.of.skipped_rows.state();
        let missing_columns = state.missing_columns.entry((self.of.source, column.to_owned()));
        let (files, first) = missing_columns.or_insert_with(|| (BTreeSet::new(), name.to_owned()));
        if files.first().is_some_and(|&first| file < first) {
            name.clone_into(first);
        }
        files.insert(file);
    }

    /// Whether invalid characters in text are to be replaced.
    pub(super) fn replaces(&self) -> bool {
        self.of.policy == OnBadInput::Replace
    }

    /// Records that invalid characters were replaced in a file.
    pub(super) fn replaced(&self, name: &str) {
        let unit = self.unit.unwrap_or(0);
        let mut state = self.of.skipped_rows.state();
        let (first, file) = state.replaced.entry(self.of.source).or_insert_with(|| (unit, name.to_owned()));
        if unit < *first {
            *first = unit;
            name.clone_into(file);
        }
    }

    /// Records bad input and continues, or returns the error.
    ///
    /// Errors that are not bad input are returned in any case: a wrong request, because every other file would fail
    /// in the same way; a failure of the system, or a file that was changed meanwhile, because the next reading may
    /// find all rows.
    ///
    /// # Errors
    /// `error`, if it is not bad input or bad input is not to be skipped.
    pub(super) fn skip(&self, error: Error) -> Result<()> {
        self.skip_rows(error, 1)
    }

    /// Like [`skip`](BadRows::skip), for an error that loses this number of rows.
    pub(super) fn skip_rows(&self, error: Error, rows: u64) -> Result<()> {
        if error.kind() != ErrorKind::Failed {
            return Err(error);
        }
        self.watch.as_ref().map_or(Ok(()), |watch| watch.check())?;
        if matches!(self.of.policy, OnBadInput::Fail | OnBadInput::Replace) {
            return Err(if error.help().is_none() { error.with_help(LEAVE_OUT) } else { error });
        }
        let listed = self.of.policy == OnBadInput::Quarantine;
        let lost = SkippedInput { error, rows: rows.max(1) };
        self.of.skipped_rows.add((self.of.source, self.unit), self.reading, &lost, listed);
        Ok(())
    }
}

/// Rows that cannot be read, and the reason.
struct SkippedInput {
    /// The reason.
    error: Error,
    /// Number of rows, at least 1.
    rows: u64,
}

impl SkippedInput {
    /// The message, with the number of rows if it is not one.
    fn problem(&self) -> String {
        let chain = chain(&self.error);
        if self.rows == 1 { chain } else { format!("{chain}; {} rows are lost", self.rows) }
    }
}

/// The messages of an error and its causes, in one line.
fn chain(error: &Error) -> String {
    let error: &dyn std::error::Error = error;
    let messages = std::iter::successors(Some(error), |error| error.source()).map(|error| error.to_string());
    messages.collect::<Vec<_>>().join(": ")
}

/// What every reader needs to know about the unit that it reads.
#[derive(Clone, Debug)]
pub(super) struct ReadContext {
    /// The number of the source.
    pub(super) source: usize,
    /// The index of the unit in the source.
    pub(super) unit: usize,
    /// The file's name in messages.
    pub(super) name: String,
    /// Approximate bytes of a batch.
    pub(super) batch_bytes: u64,
    /// Receives bad input.
    pub(super) bad: BadRows,
}

impl ReadContext {
    /// A batch of complete documents.
    pub(super) fn batch(
        &self,
        first_row: u64,
        documents: BinaryViewArray,
        columns: Option<RecordBatch>,
    ) -> Batch {
        let (source, unit) = (self.source, self.unit);
        Batch { source, unit, first_row, documents, columns, continued: false, open: false }
    }
}
