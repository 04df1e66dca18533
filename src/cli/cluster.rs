//! `plan --nodes`: prints how long a job takes on several machines.

use std::io::{self, Write};
use std::path::PathBuf;

use serde::Serialize;
use tokenmill::Result;
use tokenmill::base::int::{ByteCount, with_unit};
use tokenmill::report;
use tokenmill::run::{
    Cluster, ClusterCost, ClusterText, CostRates, Plan, Preview, cluster_assumptions, cluster_cost,
};

use super::progress::duration;

/// The machines for which `plan` estimates a job, and where its figures come from.
#[derive(Clone, Debug)]
pub struct WantedCluster {
    /// The machines.
    pub cluster: Cluster,
    /// The size of the text; `None` for the size that the files declare.
    pub text_bytes: Option<ByteCount>,
    /// The output folder of the run whose rates are taken; `None` for those of the documentation.
    pub rates: Option<PathBuf>,
}

/// What a job costs on several machines: what `plan` prints under `cluster` with `--json`.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterEstimate {
    nodes: u64,
    cores: u64,
    /// Bytes of text to count.
    counted_bytes: u64,
    /// Bytes of text to encode.
    encoded_bytes: u64,
    /// One for each kind of text.
    estimates: Vec<ClusterCost>,
    /// What the estimates assume, in sentences.
    assumptions: Vec<String>,
}

/// Estimates a job.
///
/// # Errors
/// The size of the text is not known, the report cannot be read, or several machines cannot share the job.
pub fn estimated(plan: &Plan, preview: &Preview, wanted: &WantedCluster) -> Result<ClusterEstimate> {
    let rates = match &wanted.rates {
        Some(folder) => vec![CostRates::of_report(&report::read(folder)?)],
        None => CostRates::measured().to_vec(),
    };
    let text = ClusterText::of(plan, preview, wanted.text_bytes)?;
    let estimate = |rates: &CostRates| cluster_cost(plan, wanted.cluster, text, rates);
    let Cluster { nodes, cores } = wanted.cluster;
    Ok(ClusterEstimate {
        nodes,
        cores,
        counted_bytes: text.counted,
        encoded_bytes: text.encoded,
        estimates: rates.iter().map(estimate).collect::<Result<_>>()?,
        assumptions: cluster_assumptions(&rates),
    })
}

impl ClusterEstimate {
    /// Writes a table with a column for each kind of text, and the assumptions.
    ///
    /// # Errors
    /// `out` cannot be written to.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let time = |seconds: f64| duration(seconds);
        let bytes = |bytes: u64| ByteCount(bytes).to_string();
        writeln!(
            out,
            "cluster  {} of {}; {} to count, {} to encode",
            with_unit(self.nodes, "node"),
            with_unit(self.cores, "core"),
            bytes(self.counted_bytes),
            bytes(self.encoded_bytes)
        )?;
        self.row(out, "with the rates of", |cost| Some(cost.text.clone()))?;
        self.row(out, "count", |cost| cost.count_s.map(time))?;
        self.row(out, "files to sum", |cost| cost.merged_bytes.filter(|&bytes| bytes > 0).map(bytes))?;
        self.row(out, "sum, on one node", |cost| cost.merge_s.filter(|&seconds| seconds > 0.0).map(time))?;
        self.row(out, "distinct pre-tokens", |cost| {
            cost.distinct_pretokens.map(|number| number.to_string())
        })?;
        self.row(out, "train, on one node", |cost| cost.train_s.map(time))?;
        self.row(out, "its memory", |cost| cost.train_memory_bytes.map(bytes))?;
        self.row(out, "encode", |cost| cost.encode_s.map(time))?;
        self.row(out, "token ids on disk", |cost| cost.ids_bytes.map(bytes))?;
        self.row(out, "in all", |cost| Some(time(cost.total_s())))?;
        if self.estimates.iter().any(|cost| cost.too_many_pretokens) {
            let problem =
                "some would be more pre-tokens than one training can number: learn from a sample of the text";
            writeln!(out, "         {problem}")?;
        }
        self.assumptions.iter().enumerate().try_for_each(|(number, assumption)| {
            let label = if number == 0 { "assumed" } else { "" };
            writeln!(out, "{label:<9}{assumption}")
        })
    }

    /// Writes a row of the table, unless no kind of text has a value.
    fn row(
        &self,
        out: &mut dyn Write,
        label: &str,
        value: impl Fn(&ClusterCost) -> Option<String>,
    ) -> io::Result<()> {
        let values: Vec<Option<String>> = self.estimates.iter().map(value).collect();
        if values.iter().all(Option::is_none) {
            return Ok(());
        }
        let cells = values.into_iter().map(|value| format!("{:>24}", value.unwrap_or_default()));
        writeln!(out, "         {label:<20}{}", cells.collect::<String>())
    }
}
