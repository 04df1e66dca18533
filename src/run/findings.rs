//! Collects what a report shows of single documents, and restores what an earlier run of the same job collected.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::int::{TokenId, to_u64};
use crate::encode::TokenBatch;
use crate::report::{SampleDocument, ShownToken};
use crate::source::{Incidents, LeftOut};

/// Number of documents that the report shows.
const SAMPLES: usize = 6;

/// Number of tokens to show from the start of each document.
const SAMPLE_TOKENS: usize = 60;
/// Number of tokens to show from the end of a document that has more.
const SAMPLE_END_TOKENS: usize = 4;

/// What the report shows of documents besides figures, including documents that an earlier run encoded.
pub(super) struct Findings<'a> {
    /// The rows that were skipped, if units are encoded in order; `None` for a sample.
    incidents: Option<&'a Incidents>,
    /// The unit of the next documents, by source and number.
    unit: (usize, usize),
    samples: Vec<Sample>,
    left_out: Vec<Lacking>,
}

/// What must be kept of documents that will not be encoded again. The journal of the output stores it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Remark {
    Sample(Sample),
    LeftOut(Lacking),
}

/// A document that the report shows, with its place.
#[derive(Clone, Serialize, Deserialize)]
struct Sample {
    source: usize,
    unit: usize,
    row: u64,
    shown: SampleDocument,
}

/// The rows of a unit that could not be read.
#[derive(Clone, Serialize, Deserialize)]
struct Lacking {
    source: usize,
    unit: usize,
    #[serde(flatten)]
    rows: LeftOut,
}

impl<'a> Findings<'a> {
    /// Starts from the remarks of an earlier run.
    pub(super) fn new(incidents: Option<&'a Incidents>, remarks: &[Value]) -> Findings<'a> {
        let (mut samples, mut left_out) = (Vec::new(), Vec::new());
        for remark in remarks {
            match Remark::deserialize(remark) {
                Ok(Remark::Sample(sample)) => samples.push(sample),
                Ok(Remark::LeftOut(unit)) => left_out.push(unit),
                // A remark that cannot be parsed is ignored: only this version of the program wrote remarks.
                Err(_) => {}
            }
        }
        Findings { incidents, unit: (0, 0), samples, left_out }
    }

    /// Announces that the next documents are of this unit or later ones.
    pub(super) fn go_to(&mut self, source: usize, unit: usize) {
        self.unit = (source, unit);
    }

    /// Looks at a batch and returns the remarks to store before it is written. `units` gives the number of units of a
    /// source, `name` the name of a unit, and `show` a token in readable form.
    pub(super) fn hear(
        &mut self,
        batch: &TokenBatch,
        units: impl Fn(usize) -> usize,
        name: impl Fn(usize, usize) -> String,
        show: impl Fn(TokenId) -> ShownToken,
    ) -> Vec<Value> {
        let mut remarks = Vec::new();
        while let Some(incidents) = self.incidents.filter(|_| self.unit < (batch.source, batch.unit)) {
            let (source, unit) = self.unit;
            let rows = incidents.of_unit(source, unit);
            if rows.count > 0 {
                let left_out = Lacking { source, unit, rows };
                remarks.push(Remark::LeftOut(left_out.clone()));
                self.left_out.push(left_out);
            }
            self.unit = if unit + 1 < units(source) { (source, unit + 1) } else { (source + 1, 0) };
        }
        let samples = self.show(batch, name, show);
        remarks.extend(samples.iter().cloned().map(Remark::Sample));
        remarks.iter().map(|remark| serde_json::to_value(remark).expect("plain data")).collect()
    }

    /// Keeps the first documents that have tokens, in the form that the report shows, and returns the new ones.
    fn show(
        &mut self,
        batch: &TokenBatch,
        name: impl Fn(usize, usize) -> String,
        show: impl Fn(TokenId) -> ShownToken,
    ) -> &[Sample] {
        let (source, unit) = (batch.source, batch.unit);
        let before = self.samples.len();
        for (row, span) in (batch.first_row..).zip(batch.spans()) {
            if self.samples.len() >= SAMPLES {
                break;
            }
            let Some(span) = span.filter(|span| !span.is_empty()) else { continue };
            let place = (source, unit, row);
            if self.samples[..before].iter().any(|known| (known.source, known.unit, known.row) == place) {
                continue;
            }
            let shown = |span| batch.ids.slice(span).iter().map(|&id| show(id)).collect();
            let first = span.end.min(span.start + SAMPLE_TOKENS);
            let last = span.end.saturating_sub(SAMPLE_END_TOKENS).max(first);
            let document = SampleDocument {
                unit: name(source, unit),
                row,
                tokens: to_u64(span.len()),
                first: shown(span.start..first),
                last: shown(last..span.end),
            };
            self.samples.push(Sample { source, unit, row, shown: document });
        }
        &self.samples[before..]
    }

    /// The documents to show, in the order of the input. Also adds the rows that an earlier run skipped to the
    /// incidents.
    pub(super) fn finish(mut self) -> Vec<SampleDocument> {
        if let Some(incidents) = self.incidents {
            for Lacking { source, unit, rows } in &self.left_out {
                incidents.restore(*source, *unit, rows);
            }
            self.samples.sort_by_key(|sample| (sample.source, sample.unit, sample.row));
        }
        self.samples.into_iter().map(|sample| sample.shown).collect()
    }
}
