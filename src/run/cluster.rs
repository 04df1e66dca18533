//! Estimates how long a job takes on several machines.
//!
//! The steps are those of `docs/large.md`: each machine counts its part of the text and writes a counts file, one
//! machine sums these files and trains, and each machine encodes its part. The estimate multiplies sizes by rates that
//! were measured; every rate is a constant here, with its source. [`CostRates::of_report`] takes the rates of counting and
//! encoding, and the number of distinct pre-tokens, from the report of an earlier run instead.

use serde::Serialize;

use super::plan::{EncodedDocuments, Plan};
use super::preview::Preview;
use super::resources::learning_memory;
use crate::base::int::{ByteCount, declared_sum, ratio, to_f64, truncate_to_u64, with_unit};
use crate::error::{Error, Result};
use crate::report::{RunReport, StageCost};
use crate::split::SplitPattern;
use crate::train::TieBreak;

/// The speed-up of counting with c cores is c to this power: 1.4 with 2 cores, 4 with 16. Measured: 1.4 to 1.9 and 3 to 5
/// (`docs/performance.md`, "Scaling").
const COUNT_SPEED_UP: f64 = 0.5;

/// The same for encoding: 1.65 with 2 cores, 7.4 with 16. Measured: 1.7 to 1.9 and 6 to 9 (same place).
const ENCODE_SPEED_UP: f64 = 0.72;

/// The exponent of Heaps' law: a text of n bytes has a number of distinct pre-tokens proportional to n to this power.
/// Measured: 0.55 for books, 0.66 for mail, from 10 to 150 MB (experiment 0201).
const HEAPS: f64 = 0.615;

/// Bytes of a counts file on disk per byte of its pre-tokens. Measured: 0.65 for books, 0.68 for mail, 0.5 for many
/// languages (experiment 0201).
const COUNTS_FILE_BYTES: f64 = 0.65;

/// Rows of counts files that one machine sums per second, on one core. Measured: 4.4 million with two files, 5.6 million
/// with four that have rows in common (experiment 0201); more files compare more.
const MERGED_ROWS_PER_S: f64 = 3e6;

/// Distinct pre-tokens that are read and from which 32 768 tokens are learned, per second of one core (experiment 0201).
/// More cores and other numbers of tokens change little.
const TRAINED_PRETOKENS_PER_S: f64 = 1.3e6;

/// The machines of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cluster {
    /// Number of machines, above 0.
    pub nodes: u64,
    /// Cores of each machine, above 0.
    pub cores: u64,
}

/// Rates that were measured on a kind of text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostRates {
    /// The kind of text.
    pub text: String,
    /// How counting went; `None` if it was not measured.
    pub count: Option<MeasuredRate>,
    /// How encoding went; `None` if it was not measured.
    pub encode: Option<MeasuredRate>,
    /// The number of distinct pre-tokens in a text of a number of bytes; `None` if they were not counted.
    pub distinct: Option<(u64, u64)>,
    /// Bytes of a distinct pre-token, on average.
    pub pretoken_bytes: f64,
    /// Bytes of files with token ids per byte of text; `None` if they were not measured.
    pub ids_per_byte: Option<f64>,
}

/// A measured rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeasuredRate {
    /// Bytes of text per second.
    pub bytes_per_s: f64,
    /// The number of cores that worked on it.
    pub cores: u64,
}

impl MeasuredRate {
    /// The rate with another number of cores. `speed_up` is the power of the cores to which it is proportional.
    fn with_cores(self, cores: u64, speed_up: f64) -> f64 {
        self.bytes_per_s * (to_f64(cores) / to_f64(self.cores.max(1))).powf(speed_up)
    }

    /// The rate of a stage; `None` if it took no time, or its threads are not known.
    fn of_stage(report: &RunReport, name: &str) -> Option<MeasuredRate> {
        let is_measured = |cost: &&StageCost| cost.name == name && cost.bytes_per_s > 0.0;
        let cost = report.stages.iter().find(is_measured)?;
        Some(MeasuredRate { bytes_per_s: cost.bytes_per_s, cores: cost.threads? })
    }
}

impl CostRates {
    /// The rates of English books and of many languages on two cores of a Zen 5, from Parquet to counts and to Parquet
    /// with ids of 32 768 tokens (`benches/record/2026-11-27-zen5-2-cores`).
    ///
    /// The distinct pre-tokens are those of English books (207 000 in 158 MB, experiment 0201), and of a mixture of
    /// books, mail, code and many languages (1.2 million in 400 MB, `docs/performance.md`, "Memory with a split").
    pub fn measured() -> [CostRates; 2] {
        let rates = |text: &str, count: f64, encode: f64, distinct, pretoken_bytes, ids_per_byte| {
            let rate = |megabytes_per_s| Some(MeasuredRate { bytes_per_s: megabytes_per_s * 1e6, cores: 2 });
            let (count, encode) = (rate(count), rate(encode));
            CostRates {
                text: text.to_owned(),
                count,
                encode,
                distinct: Some(distinct),
                pretoken_bytes,
                ids_per_byte: Some(ids_per_byte),
            }
        };
        [
            rates("English books", 760.0, 220.0, (207_000, 158_000_000), 8.2, 0.35),
            rates("many languages", 320.0, 135.0, (1_200_000, 400_000_000), 14.5, 0.26),
        ]
    }

    /// The rates of an earlier run. Its missing stages have no rate.
    pub fn of_report(report: &RunReport) -> CostRates {
        let text_bytes = report.corpus.text_bytes;
        let distinct = report.training.as_ref().map(|training| (training.distinct_pretokens, text_bytes));
        // The bytes of training are those of the distinct pre-tokens.
        let trained =
            report.stages.iter().find(|cost| cost.name == "train").map_or(0, |cost| cost.text_bytes);
        let encoded = report.encoding.as_ref().map_or(0, |encoding| encoding.text_bytes);
        let written: u64 =
            report.files.iter().filter(|file| file.tokens.is_some()).map(|file| file.bytes).sum();
        CostRates {
            text: "the text of the report".to_owned(),
            count: MeasuredRate::of_stage(report, "count"),
            encode: MeasuredRate::of_stage(report, "encode"),
            distinct: distinct.filter(|_| text_bytes > 0),
            pretoken_bytes: ratio(trained, distinct.map_or(0, |(pretokens, _)| pretokens)),
            ids_per_byte: (encoded > 0).then(|| to_f64(written) / to_f64(encoded)),
        }
    }

    /// The number of distinct pre-tokens in a text of this many bytes, by Heaps' law.
    fn distinct_in(&self, bytes: f64) -> Option<f64> {
        let (pretokens, of_bytes) = self.distinct?;
        // A text has no more pre-tokens than bytes.
        Some((to_f64(pretokens) * (bytes / to_f64(of_bytes)).powf(HEAPS)).min(bytes))
    }
}

/// How long a job takes on several machines, and what it needs. A part is `None` if the plan does not have it, or its
/// rate was not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClusterCost {
    /// The kind of text that the rates are those of.
    pub text: String,
    /// Seconds in which all machines count.
    pub count_s: Option<f64>,
    /// Rows of all counts files, which one machine sums. 0 if there is one machine.
    pub merged_rows: Option<u64>,
    /// Bytes of these files.
    pub merged_bytes: Option<u64>,
    /// Seconds in which it sums them.
    pub merge_s: Option<f64>,
    /// Distinct pre-tokens of the whole text.
    pub distinct_pretokens: Option<u64>,
    /// Seconds in which it reads them and trains.
    pub train_s: Option<f64>,
    /// Bytes of memory that training takes.
    pub train_memory_bytes: Option<u64>,
    /// Whether these pre-tokens are too many for one training, which numbers their bytes with 32 bits.
    pub too_many_pretokens: bool,
    /// Seconds in which all machines encode.
    pub encode_s: Option<f64>,
    /// Bytes of the files with token ids.
    pub ids_bytes: Option<u64>,
}

impl ClusterCost {
    /// Seconds of all steps, one after the other.
    pub fn total_s(&self) -> f64 {
        [self.count_s, self.merge_s, self.train_s, self.encode_s].into_iter().flatten().sum()
    }
}

/// The bytes of text that the machines count and encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterText {
    /// Bytes to count.
    pub counted: u64,
    /// Bytes to encode.
    pub encoded: u64,
}

impl ClusterText {
    /// The text of a plan. `given` takes the place of the size of the sources, which a sample still limits.
    ///
    /// # Errors
    /// The size of the text is not given, and not known before it is read.
    pub fn of(plan: &Plan, preview: &Preview, given: Option<ByteCount>) -> Result<ClusterText> {
        let of_sources = || declared_sum(preview.sources.iter().map(|source| source.text_bytes));
        let all = given.map(|given| given.0).or_else(of_sources).ok_or_else(|| {
            Error::usage("the size of the text is not known before it is read")
                .with_help("name it, for example --text-bytes 10TB")
        })?;
        let sample = match given {
            Some(_) => plan.sample.max_bytes.map_or(all, |most| all.min(most)),
            None => preview.text_bytes.unwrap_or(all),
        };
        let of_sample = |encode: &super::plan::EncodePlan| encode.documents == EncodedDocuments::Sample;
        let encoded = if plan.encode.as_ref().is_some_and(of_sample) { sample } else { all };
        Ok(ClusterText { counted: sample, encoded })
    }
}

/// Estimates what a plan costs on several machines.
///
/// # Errors
/// The plan trains in a way that cannot be divided: without a split, or by the tie rule `first`.
pub fn cluster_cost(
    plan: &Plan,
    cluster: Cluster,
    text: ClusterText,
    rates: &CostRates,
) -> Result<ClusterCost> {
    let nodes = to_f64(cluster.nodes.max(1));
    let seconds = |bytes: u64, rate: Option<MeasuredRate>, speed_up| {
        Some(to_f64(bytes) / nodes / rate?.with_cores(cluster.cores.max(1), speed_up))
    };
    let mut cost = ClusterCost { text: rates.text.clone(), ..ClusterCost::default() };
    if let Some(train) = &plan.train {
        if train.split == SplitPattern::None {
            return Err(undivided("without a split, there are no counts to sum", "choose a split"));
        }
        if cluster.nodes > 1 && train.config.tie_break == TieBreak::First {
            return Err(undivided(
                "the tie rule first needs the order of the whole text",
                "choose another tie rule",
            ));
        }
        cost.count_s = seconds(text.counted, rates.count, COUNT_SPEED_UP);
        let distinct = rates.distinct_in(to_f64(text.counted));
        let rows = match cluster.nodes {
            0 | 1 => Some(0.0),
            _ => rates.distinct_in(to_f64(text.counted) / nodes).map(|each| each * nodes),
        };
        cost.merged_rows = rows.map(truncate_to_u64);
        cost.merged_bytes = rows.map(|rows| truncate_to_u64(rows * rates.pretoken_bytes * COUNTS_FILE_BYTES));
        cost.merge_s = rows.map(|rows| rows / MERGED_ROWS_PER_S);
        cost.distinct_pretokens = distinct.map(truncate_to_u64);
        // A position for each byte, and one for each pre-token.
        let positions = distinct.unwrap_or_default() * (rates.pretoken_bytes + 1.0);
        cost.too_many_pretokens = positions > f64::from(u32::MAX);
        cost.train_s = distinct.map(|distinct| distinct / TRAINED_PRETOKENS_PER_S);
        cost.train_memory_bytes = distinct.map(|distinct| {
            let bytes = truncate_to_u64(distinct * rates.pretoken_bytes);
            learning_memory(train, bytes, truncate_to_u64(distinct), true).0
        });
    }
    if plan.encode.is_some() {
        cost.encode_s = seconds(text.encoded, rates.encode, ENCODE_SPEED_UP);
        cost.ids_bytes = rates.ids_per_byte.map(|each| truncate_to_u64(to_f64(text.encoded) * each));
    }
    Ok(cost)
}

/// Returns the error of a training that several machines cannot share.
fn undivided(problem: &str, help: &'static str) -> Error {
    Error::usage(format!("several machines cannot share this training: {problem}")).with_help(help)
}

/// The assumptions behind [`cluster_cost`], in sentences.
pub fn cluster_assumptions(rates: &[CostRates]) -> Vec<String> {
    let mut told = vec![
        "each node runs one process on all of its cores, and has an equal share of the text".to_owned(),
        "nodes and disks deliver the text as fast as it is processed; starting jobs takes no time".to_owned(),
        format!(
            "c cores count c^{COUNT_SPEED_UP} times as fast as one and encode c^{ENCODE_SPEED_UP} times as fast"
        ),
        format!("a text of n bytes has distinct pre-tokens in proportion to n^{HEAPS}"),
        format!(
            "one node sums {:.1} million rows per second, and trains on {:.1} million distinct pre-tokens per second",
            MERGED_ROWS_PER_S / 1e6,
            TRAINED_PRETOKENS_PER_S / 1e6
        ),
    ];
    for CostRates { text, count, encode, distinct, .. } in rates {
        let rate = |name: &str, rate: &Option<MeasuredRate>| {
            let MeasuredRate { bytes_per_s, cores } = (*rate)?;
            let bytes = ByteCount(truncate_to_u64(bytes_per_s));
            Some(format!("{name} at {bytes}/s with {}", with_unit(cores, "core")))
        };
        let distinct = distinct
            .map(|(pretokens, bytes)| format!("{pretokens} distinct pre-tokens in {}", ByteCount(bytes)));
        let parts: Vec<String> =
            [rate("counted", count), rate("encoded", encode), distinct].into_iter().flatten().collect();
        told.push(format!("measured on {text}: {}", parts.join(", ")));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{CorpusFacts, EncodingFacts, OutputFile, TrainingFacts};
    use crate::run::{Environment, plan, recipe};

    const GB: u64 = 1_000_000_000;

    fn plan_of(train: &str, encode: &str) -> Plan {
        let text = format!("source.uri = 'a.txt'\noutput.dir = 'out'\n{train}\n{encode}\n");
        let environment = Environment { variable: &|_| None, threads: 2, memory: ByteCount(GB) };
        plan(&recipe::read("r.toml", &text).expect("a recipe"), &environment).expect("a plan")
    }

    /// Rates that are easy to calculate with.
    fn rates() -> CostRates {
        let rate = |bytes_per_s| Some(MeasuredRate { bytes_per_s, cores: 2 });
        CostRates {
            text: "text".to_owned(),
            count: rate(1e9),
            encode: rate(1e8),
            distinct: Some((1_000_000, GB)),
            pretoken_bytes: 8.0,
            ids_per_byte: Some(0.25),
        }
    }

    fn cost(nodes: u64, cores: u64, gigabytes: u64) -> ClusterCost {
        let plan = plan_of("train.vocab_size = 1000", "encode.eos = false");
        let text = ClusterText { counted: gigabytes * GB, encoded: gigabytes * GB };
        cluster_cost(&plan, Cluster { nodes, cores }, text, &rates()).expect("it can be divided")
    }

    #[test]
    fn one_node_with_the_measured_cores_takes_the_measured_time() {
        let one = cost(1, 2, 1);
        assert_eq!((one.count_s, one.encode_s), (Some(1.0), Some(10.0)));
        assert_eq!((one.merged_rows, one.merge_s), (Some(0), Some(0.0)));
        assert_eq!((one.distinct_pretokens, one.ids_bytes), (Some(1_000_000), Some(GB / 4)));
        let sum = 1.0 + 10.0 + one.train_s.expect("it trains");
        assert!((one.total_s() - sum).abs() < 1e-9);
    }

    #[test]
    fn nodes_divide_the_text_and_cores_gain_less_than_their_number() {
        let (one, many) = (cost(1, 2, 64), cost(64, 2, 64));
        let times = |one: Option<f64>, other: Option<f64>| one.expect("a time") / other.expect("a time");
        assert!((times(one.count_s, many.count_s) - 64.0).abs() < 1e-9);
        assert!((times(one.encode_s, many.encode_s) - 64.0).abs() < 1e-9);
        let wide = cost(1, 32, 64);
        assert!((times(one.count_s, wide.count_s) - 4.0).abs() < 1e-9, "16 times the cores");
        assert!((times(one.encode_s, wide.encode_s) - 16_f64.powf(ENCODE_SPEED_UP)).abs() < 1e-9);
        // Training is that of one node.
        assert_eq!((one.train_s, one.train_memory_bytes), (many.train_s, many.train_memory_bytes));
        // Each of 64 nodes has the pre-tokens of 1 GB.
        assert_eq!(many.merged_rows, Some(64_000_000));
        assert!(!many.too_many_pretokens && cost(64, 2, 1_000_000).too_many_pretokens);
        assert!(many.distinct_pretokens < many.merged_rows);
    }

    #[test]
    fn distinct_pretokens_follow_heaps_law() {
        let found = rates().distinct_in(1e12).expect("they were counted");
        assert!((found / (1e6 * 1_000_f64.powf(HEAPS)) - 1.0).abs() < 1e-12);
        assert_eq!(rates().distinct_in(10.0), Some(10.0), "no more than bytes");
        assert_eq!(CostRates { distinct: None, ..rates() }.distinct_in(1e9), None);
    }

    #[test]
    fn a_plan_has_the_steps_that_its_recipe_has() {
        let (cluster, text) = (Cluster { nodes: 4, cores: 2 }, ClusterText { counted: GB, encoded: GB });
        let cost = |train, encode| cluster_cost(&plan_of(train, encode), cluster, text, &rates());
        let trains = cost("train.vocab_size = 1000", "").expect("it can be divided");
        assert!(trains.count_s.is_some() && trains.encode_s.is_none() && trains.ids_bytes.is_none());
        let encodes = cost("", "encode.tokenizer = 't'").expect("it can be divided");
        assert!(encodes.count_s.is_none() && encodes.merge_s.is_none() && encodes.encode_s.is_some());
        for train in [
            "train = { vocab_size = 1000, split = 'none' }",
            "train = { vocab_size = 1000, tie_break = 'first' }",
        ] {
            let error = cost(train, "").expect_err("it cannot be divided");
            assert!(error.to_string().contains("cannot share this training"), "{error}");
        }
    }

    #[test]
    fn a_report_gives_the_rates_of_its_stages() {
        let stage = |name, seconds, threads| StageCost { threads, ..StageCost::new(name, seconds, GB, None) };
        let report = RunReport {
            corpus: CorpusFacts { text_bytes: GB, ..CorpusFacts::default() },
            training: Some(TrainingFacts { distinct_pretokens: 7, ..TrainingFacts::default() }),
            encoding: Some(EncodingFacts { text_bytes: 2 * GB, ..EncodingFacts::default() }),
            stages: vec![
                stage("count", 0.5, Some(4)),
                StageCost::new("train", 0.1, 35, None),
                stage("encode", 8.0, None),
            ],
            files: vec![OutputFile {
                path: "data/train.parquet".to_owned(),
                bytes: GB,
                rows: Some(1),
                tokens: Some(9),
                sha256: None,
            }],
            ..RunReport::default()
        };
        let rates = CostRates::of_report(&report);
        assert_eq!(rates.count, Some(MeasuredRate { bytes_per_s: 2e9, cores: 4 }));
        assert_eq!(rates.encode, None, "an earlier version did not record its threads");
        assert_eq!((rates.distinct, rates.pretoken_bytes), (Some((7, GB)), 5.0));
        assert_eq!(rates.ids_per_byte, Some(0.5));
        assert!(cluster_assumptions(&[rates]).concat().contains("counted at 2.0 GB/s with 4 cores"));
    }
}
