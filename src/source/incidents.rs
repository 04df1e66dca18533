use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::error::{Error, ErrorKind, Result};
use crate::parallel::lock;

use super::OnBadInput;

/// How many incidents are listed; those after it are only counted.
pub const LISTED_INCIDENTS: usize = 1_000;

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

/// What a run left out. Shared by all its sources; a unit that is read again replaces what its last
/// reading found, so that nothing is counted twice.
///
/// **Memory:** a few words for each unit with an incident, and [`LISTED_INCIDENTS`] messages.
#[derive(Debug, Default)]
pub struct Incidents {
    found: Mutex<Found>,
}

/// A source and one of its units; `None` stands for files left out when the source was opened.
type Key = (usize, Option<usize>);

#[derive(Debug, Default)]
struct Found {
    counts: BTreeMap<Key, u64>,
    listed: BTreeMap<(Key, u64), String>,
}

impl Incidents {
    /// How many rows, row groups, and files were left out.
    pub fn count(&self) -> u64 {
        self.found().counts.values().sum()
    }

    /// Those of sources with [`OnBadInput::Quarantine`], in document order.
    pub fn listed(&self) -> Vec<Incident> {
        let incident = |((key, _), problem): (&(Key, u64), &String)| Incident {
            source: key.0,
            unit: key.1,
            problem: problem.clone(),
        };
        self.found().listed.iter().map(incident).collect()
    }

    /// How many rows a unit lacks, and what was wrong with them so far as it is listed.
    pub fn of_unit(&self, source: usize, unit: usize) -> (u64, Vec<String>) {
        let key = (source, Some(unit));
        let found = self.found();
        let listed = found.listed.range((key, 0)..=(key, u64::MAX)).map(|(_, problem)| problem.clone());
        (found.counts.get(&key).copied().unwrap_or(0), listed.collect())
    }

    /// Sets what an earlier run found in a unit.
    pub fn restore(&self, source: usize, unit: usize, count: u64, listed: &[String]) {
        let key = (source, Some(unit));
        self.begin(key);
        let mut found = self.found();
        if count > 0 {
            found.counts.insert(key, count);
        }
        for (number, problem) in (0..).zip(listed) {
            found.list((key, number), problem.clone());
        }
    }

    fn begin(&self, key: Key) {
        let mut found = self.found();
        if found.counts.remove(&key).is_some() {
            found.listed.retain(|(listed, _), _| *listed != key);
        }
    }

    fn add(&self, key: Key, problem: Option<String>) {
        let mut found = self.found();
        let count = found.counts.entry(key).or_default();
        let number = *count;
        *count += 1;
        if let Some(problem) = problem {
            found.list((key, number), problem);
        }
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        lock(&self.found)
    }
}

impl Found {
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

impl BadInput {
    /// A unit, or with `None` the source itself, is about to be read from its start.
    pub(super) fn begin(&self, unit: Option<usize>) {
        self.incidents.begin((self.source, unit));
    }

    /// Notes bad input and goes on, or gives the error back.
    ///
    /// A wrong request is not bad input: every other file would fail the same way.
    pub(super) fn met(&self, unit: Option<usize>, error: Error) -> Result<()> {
        let problem = match self.policy {
            OnBadInput::Fail => return Err(error),
            _ if error.kind() != ErrorKind::Failed => return Err(error),
            OnBadInput::Skip => None,
            OnBadInput::Quarantine => Some(chain(&error)),
        };
        self.incidents.add((self.source, unit), problem);
        Ok(())
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
