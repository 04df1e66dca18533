use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::encode::TokenBatch;
use crate::report::{SampleDocument, ShownToken};
use crate::source::{Incidents, LeftOut};
use crate::units::{TokenId, amount};

/// So many documents are shown in the report,
const SAMPLES: usize = 6;

/// each with so many tokens from its start and, if it has more, a few from its end.
const SAMPLE_TOKENS: usize = 60;
const SAMPLE_END_TOKENS: usize = 4;

/// What the report tells of documents beside their numbers, also of those that an earlier run encoded.
pub(super) struct Findings<'a> {
    /// Where units are encoded in their order: what could not be read of them.
    incidents: Option<&'a Incidents>,
    /// The unit whose documents come, by source and number.
    unit: (usize, usize),
    samples: Vec<Sample>,
    left_out: Vec<Lacking>,
}

/// What has to be known of documents that are not encoded again.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Remark {
    Sample(Sample),
    LeftOut(Lacking),
}

#[derive(Clone, Serialize, Deserialize)]
struct Sample {
    source: usize,
    unit: usize,
    row: u64,
    shown: SampleDocument,
}

/// What could not be read of a unit.
#[derive(Clone, Serialize, Deserialize)]
struct Lacking {
    source: usize,
    unit: usize,
    #[serde(flatten)]
    rows: LeftOut,
}

impl<'a> Findings<'a> {
    /// Takes up what an earlier run remarked.
    pub(super) fn new(incidents: Option<&'a Incidents>, remarks: &[Value]) -> Findings<'a> {
        let (mut samples, mut left_out) = (Vec::new(), Vec::new());
        for remark in remarks {
            match Remark::deserialize(remark) {
                Ok(Remark::Sample(sample)) => samples.push(sample),
                Ok(Remark::LeftOut(unit)) => left_out.push(unit),
                // Remarks are read as this version of the program wrote them.
                Err(_) => {}
            }
        }
        Findings { incidents, unit: (0, 0), samples, left_out }
    }

    /// The documents that come are of this unit, or of later ones.
    pub(super) fn go_to(&mut self, source: usize, unit: usize) {
        self.unit = (source, unit);
    }

    /// Looks at a batch and gives what is to be remarked before it is written. `units` says how many
    /// units a source has, `name` what one is called, and `show` makes a token readable.
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

    /// Keeps the first documents that have tokens, as the report shows them, and gives the new ones.
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
                tokens: amount(span.len()),
                first: shown(span.start..first),
                last: shown(last..span.end),
            };
            self.samples.push(Sample { source, unit, row, shown: document });
        }
        &self.samples[before..]
    }

    /// The documents to be shown. What an earlier run had to leave out is among the incidents then.
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
