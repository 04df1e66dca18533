//! The documents that `bench` and `decode --verify` read.

use std::sync::Arc;

use tokenmill::Result;
use tokenmill::run::Plan;
use tokenmill::sample::{SampleConfig, sample};
use tokenmill::source::{Batch, Documents, Incidents, Source, in_order, open, whole_documents_of};
use tokenmill::units::amount;

use super::progress::Progress;
use super::session::Session;
use super::surroundings::open_context;

/// Opened sources.
pub(super) struct Input {
    sources: Vec<Arc<dyn Source>>,
    incidents: Arc<Incidents>,
    sample: SampleConfig,
    threads: usize,
}

impl Input {
    pub(super) fn open(plan: &Plan, progress: &Progress) -> Result<Input> {
        let context = open_context(progress);
        let numbered = plan.sources.iter().enumerate();
        let sources: Result<Vec<_>> = numbered.map(|(number, spec)| open(spec, number, &context)).collect();
        Ok(Input {
            sources: sources?,
            incidents: context.incidents,
            sample: plan.sample,
            threads: plan.threads,
        })
    }

    /// The sampled documents in order, whole.
    pub(super) fn documents(&self) -> Documents<'static> {
        let read = in_order(self.sources.clone(), self.threads);
        let sources = self.sources.clone();
        sample(whole_documents_of(read, move |source, unit| unit_name(&sources, source, unit)), &self.sample)
    }

    /// The name of a unit.
    pub(super) fn name(&self, source: usize, unit: usize) -> String {
        unit_name(&self.sources, source, unit)
    }

    /// A document of a batch as messages name it.
    pub(super) fn place(&self, batch: &Batch, row: usize) -> String {
        format!("{}: row {}", self.name(batch.source, batch.unit), batch.first_row + amount(row))
    }

    /// How many rows or files were left out while reading. Tells of the first.
    pub(super) fn skipped(&self, session: &Session<'_>) -> u64 {
        if let Some(first) = self.incidents.first() {
            session.say(&format!("the first that was left out: {first}"));
        }
        self.incidents.count()
    }
}

fn unit_name(sources: &[Arc<dyn Source>], source: usize, unit: usize) -> String {
    let unit = sources.get(source).and_then(|source| source.units().get(unit));
    unit.map_or_else(String::new, |unit| unit.name.clone())
}
