use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::parallel::lock;
use crate::units::{amount, counted};

use super::OnBadInput;
use super::watch::Watch;

/// How many incidents are listed; those after it are only counted.
pub const LISTED_INCIDENTS: usize = 1_000;

/// What helps where bad input ends a run.
const LEAVE_OUT: &str =
    "mend it, or leave out what cannot be read: --on-bad-input skip (`on_bad_input` in recipes)";

/// Something that was left out of a run because it could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Which of the run's sources.
    pub source: usize,
    /// Which unit of that source; `None` for a file that was left out when the source was opened.
    pub unit: Option<usize>,
    /// What was wrong, with file and place.
    pub problem: String,
}

/// What a unit lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// How many rows.
    pub count: u64,
    /// What was wrong with the first of them.
    #[serde(default)]
    pub first: Option<String>,
    /// What was wrong with them, so far as it is listed.
    pub listed: Vec<String>,
}

/// What a run left out. Shared by all its sources; a unit that is read again replaces what its last
/// reading found, so that nothing is counted twice. What was read ahead and not [taken](super::Source::taken)
/// does not count.
///
/// **Memory:** a few words for each unit that is read, unless bad input ends the run, a message for each that lacks
/// something, and [`LISTED_INCIDENTS`] messages.
#[derive(Debug, Default)]
pub struct Incidents {
    found: Mutex<Found>,
}

/// A source and one of its units; `None` stands for files left out when the source was opened.
type Key = (usize, Option<usize>);

#[derive(Debug, Default)]
struct Found {
    units: BTreeMap<Key, Reading>,
    listed: BTreeMap<(Key, u64), String>,
    /// How many readings were begun.
    readings: u64,
    /// Columns that files of a source lack: which files by number, and the name of the first.
    lacking: BTreeMap<(usize, String), (BTreeSet<usize>, String)>,
    /// Which of them were told.
    told: BTreeSet<(usize, String)>,
    /// What is odd about which files there are, by source.
    files: BTreeSet<(usize, String)>,
    /// How many of these sentences were told.
    files_told: BTreeSet<(usize, String)>,
    /// The first file of each source in whose text something is no character and was replaced, with its unit.
    replaced: BTreeMap<usize, (usize, String)>,
}

/// The latest reading of a unit.
#[derive(Debug)]
struct Reading {
    number: u64,
    /// How many rows it has left out.
    left_out: u64,
    /// So many of them are before what was taken.
    taken: u64,
    /// What was wrong with the first of them.
    first: Option<String>,
}

impl Incidents {
    /// How many rows were left out, and files of which nothing could be read.
    pub fn count(&self) -> u64 {
        self.found().units.values().map(|reading| reading.taken).fold(0, u64::saturating_add)
    }

    /// What was wrong with the first thing that was left out, in document order.
    pub fn first(&self) -> Option<String> {
        let found = self.found();
        found.units.values().filter(|reading| reading.taken > 0).find_map(|reading| reading.first.clone())
    }

    /// Those of sources with [`OnBadInput::Quarantine`], in document order.
    pub fn listed(&self) -> Vec<Incident> {
        let incident = |((key, _), problem): (&(Key, u64), &String)| Incident {
            source: key.0,
            unit: key.1,
            problem: problem.clone(),
        };
        let found = self.found();
        found.listed.iter().filter(|((key, number), _)| *number < found.taken(*key)).map(incident).collect()
    }

    /// What a unit lacks.
    pub fn of_unit(&self, source: usize, unit: usize) -> LeftOut {
        let key = (source, Some(unit));
        let found = self.found();
        let count = found.taken(key);
        let first = found.units.get(&key).and_then(|reading| reading.first.clone()).filter(|_| count > 0);
        let listed = found.listed.range((key, 0)..(key, count)).map(|(_, problem)| problem.clone());
        LeftOut { count, first, listed: listed.collect() }
    }

    /// What each unit lacks that lacks something, by source and unit.
    pub fn of_units(&self) -> Vec<(usize, usize, LeftOut)> {
        let lacking: Vec<Key> = {
            let found = self.found();
            found.units.iter().filter(|(_, reading)| reading.taken > 0).map(|(&key, _)| key).collect()
        };
        let units = lacking.into_iter().filter_map(|(source, unit)| Some((source, unit?)));
        units.map(|(source, unit)| (source, unit, self.of_unit(source, unit))).collect()
    }

    /// Columns that pass through and that some files of a source lack, a sentence for each that was not told before.
    pub fn lacking(&self) -> Vec<String> {
        let mut found = self.found();
        let Found { lacking, told, .. } = &mut *found;
        let sentence =
            |((source, column), (files, first)): (&(usize, String), &(BTreeSet<usize>, String))| {
                let is_new = told.insert((*source, column.clone()));
                let files = counted(amount(files.len()), "file");
                is_new
                    .then(|| format!("column {column:?} is null in {files} without it; the first is {first}"))
            };
        lacking.iter().filter_map(sentence).collect()
    }

    /// Notes something odd about the files of a source.
    pub(crate) fn note_of_files(&self, source: usize, sentence: String) {
        self.found().files.insert((source, sentence));
    }

    /// What is odd about which files the sources have, such as that some were not known, in sentences; each told once.
    pub fn of_files(&self) -> Vec<String> {
        let mut found = self.found();
        let Found { files, files_told, .. } = &mut *found;
        files.iter().filter(|told| files_told.insert((*told).clone())).map(|(_, told)| told.clone()).collect()
    }

    /// All of these, whether they were told or not.
    pub fn all_of_files(&self) -> Vec<String> {
        self.found().files.iter().map(|(_, told)| told.clone()).collect()
    }

    /// The first file of each source in whose text something is no character and was replaced, in a sentence; told once.
    pub fn replaced(&self) -> Vec<String> {
        let replaced = std::mem::take(&mut self.found().replaced);
        let sentence = |(_, file)| {
            format!("text has U+FFFD in the place of what is no character; the first is in {file}")
        };
        replaced.into_values().map(sentence).collect()
    }

    /// Sets what an earlier reading, maybe of an earlier run, found in a unit.
    pub fn restore(&self, source: usize, unit: usize, before: &LeftOut) {
        let key = (source, Some(unit));
        let LeftOut { count, first, listed } = before;
        let mut found = self.found();
        let number = found.begin(key);
        let reading = Reading { number, left_out: *count, taken: *count, first: first.clone() };
        found.units.insert(key, reading);
        for (number, problem) in (0..).zip(listed) {
            found.list((key, number), problem.clone());
        }
    }

    /// Adds rows to those that the reading of this number has left out, if it is still the latest.
    fn add(&self, key: Key, reading: u64, lost: &Lost, listed: bool) {
        let mut found = self.found();
        let Some(reading) = found.units.get_mut(&key).filter(|latest| latest.number == reading) else {
            return;
        };
        let number = reading.left_out;
        reading.left_out = number.saturating_add(lost.rows);
        if reading.first.is_none() {
            reading.first = Some(lost.problem());
        }
        if listed {
            found.list((key, number), lost.problem());
        }
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        lock(&self.found)
    }
}

impl Found {
    /// Begins a reading and gives its number.
    fn begin(&mut self, key: Key) -> u64 {
        self.readings += 1;
        let reading = Reading { number: self.readings, left_out: 0, taken: 0, first: None };
        if self.units.insert(key, reading).is_some_and(|before| before.left_out > 0) {
            self.listed.retain(|(listed, _), _| *listed != key);
        }
        self.readings
    }

    fn taken(&self, key: Key) -> u64 {
        self.units.get(&key).map_or(0, |reading| reading.taken)
    }

    fn list(&mut self, place: (Key, u64), problem: String) {
        self.listed.insert(place, problem);
        if self.listed.len() > LISTED_INCIDENTS {
            // The last in document order goes, so that the list does not depend on threads.
            self.listed.pop_last();
        }
    }
}

/// What a source does with bad input.
#[derive(Clone, Debug)]
pub(super) struct BadInput {
    pub(super) policy: OnBadInput,
    pub(super) source: usize,
    pub(super) incidents: Arc<Incidents>,
}

/// The bad input of one reading of a unit, or, if that is `None`, of what happens while the source is opened.
#[derive(Clone, Debug)]
pub(super) struct BadRows {
    of: BadInput,
    unit: Option<usize>,
    reading: u64,
    /// The file that is read.
    watch: Option<Arc<Watch>>,
}

impl BadInput {
    /// A unit, or with `None` the source itself, is about to be read from its start.
    pub(super) fn begin(&self, unit: Option<usize>) -> BadRows {
        let reading = match self.policy {
            OnBadInput::Fail | OnBadInput::Replace => 0,
            OnBadInput::Skip | OnBadInput::Quarantine => self.incidents.found().begin((self.source, unit)),
        };
        BadRows { of: self.clone(), unit, reading, watch: None }
    }

    /// Notes something odd about which files there are.
    pub(super) fn of_files(&self, sentence: String) {
        self.incidents.note_of_files(self.source, sentence);
    }

    /// How many rows the latest reading of a unit has left out so far.
    pub(super) fn left_out(&self, unit: Option<usize>) -> u64 {
        self.incidents.found().units.get(&(self.source, unit)).map_or(0, |reading| reading.left_out)
    }

    /// Of the rows that the latest reading of a unit has left out, so many count.
    pub(super) fn taken(&self, unit: Option<usize>, left_out: u64) {
        if let Some(reading) = self.incidents.found().units.get_mut(&(self.source, unit)) {
            reading.taken = left_out.min(reading.left_out);
        }
    }
}

impl BadRows {
    /// The same of a file that is known to be the one that was listed, or not.
    pub(super) fn of_file(self, watch: &Arc<Watch>) -> BadRows {
        BadRows { watch: Some(Arc::clone(watch)), ..self }
    }

    /// Notes something odd about the files.
    pub(super) fn of_files(&self, sentence: String) {
        self.of.of_files(sentence);
    }

    /// Notes that a file, of this number and name, lacks a column.
    pub(super) fn lacks(&self, column: &str, file: usize, name: &str) {
        let mut found = self.of.incidents.found();
        let lacking = found.lacking.entry((self.of.source, column.to_owned()));
        let (files, first) = lacking.or_insert_with(|| (BTreeSet::new(), name.to_owned()));
        if files.first().is_some_and(|&first| file < first) {
            name.clone_into(first);
        }
        files.insert(file);
    }

    /// Whether what is no character in text is to be replaced.
    pub(super) fn replaces(&self) -> bool {
        self.of.policy == OnBadInput::Replace
    }

    /// Notes that this was done in the text of a file.
    pub(super) fn replaced(&self, name: &str) {
        let unit = self.unit.unwrap_or(0);
        let mut found = self.of.incidents.found();
        let (first, file) = found.replaced.entry(self.of.source).or_insert_with(|| (unit, name.to_owned()));
        if unit < *first {
            *first = unit;
            name.clone_into(file);
        }
    }

    /// Notes bad input and goes on, or gives the error back.
    ///
    /// A wrong request is not bad input: every other file would fail the same way. Nor is what the system failed at, or a
    /// file that was changed meanwhile: the next reading may find all rows.
    pub(super) fn met(&self, error: Error) -> Result<()> {
        self.lost(error, 1)
    }

    /// The same of an error that so many rows are lost by.
    pub(super) fn lost(&self, error: Error, rows: u64) -> Result<()> {
        if error.kind() != ErrorKind::Failed {
            return Err(error);
        }
        self.watch.as_ref().map_or(Ok(()), |watch| watch.check())?;
        if matches!(self.of.policy, OnBadInput::Fail | OnBadInput::Replace) {
            return Err(if error.help().is_none() { error.with_help(LEAVE_OUT) } else { error });
        }
        let listed = self.of.policy == OnBadInput::Quarantine;
        let lost = Lost { error, rows: rows.max(1) };
        self.of.incidents.add((self.of.source, self.unit), self.reading, &lost, listed);
        Ok(())
    }
}

/// Rows that cannot be read, and why.
struct Lost {
    error: Error,
    rows: u64,
}

impl Lost {
    fn problem(&self) -> String {
        let chain = chain(&self.error);
        if self.rows == 1 { chain } else { format!("{chain}; {} rows are lost by it", self.rows) }
    }
}

/// An error and its causes in one line.
fn chain(error: &Error) -> String {
    let mut line = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        line.push_str(": ");
        line.push_str(&error.to_string());
        cause = error.source();
    }
    line
}
