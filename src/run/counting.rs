//! Counts the documents of a plan, and reads, sums and stores counts.
//!
//! A training counts its sample, or reads counts files. The command `count` writes a counts file. For a mixture, the
//! counts of each source are stored separately, so that a training with other weights reads no text.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::checks::check_outside;
use super::inputs::{Inputs, ReadBy};
use super::plan::{Plan, TrainPlan, text_settings};
use super::recipe::{CountsKeys, FixedSettings, Given, Mistake, Origin, Recipe};
use super::resources::{learning_memory, memory_of_sum, memory_of_tables, within_memory};
use crate::base::atomic_file;
use crate::base::int::{ByteCount, to_u64};
use crate::base::integrity::{sha256, sha256_of};
use crate::count::{
    CorpusCounts, CorpusFacts, CountConfig, CountsFile, CountsInfo, MemoryLimit, Prepare, PretokenCounts,
    PretokenVisitor, SpillableCounts, SumConfig, WeightedFile, WrittenCounts, WrittenSum,
    check_same_settings, count_characters, count_spilling, count_whole_documents, read_counts_info,
    read_counts_info_if_ours, sum_counts, visit_pretokens, write_sum,
};
use crate::error::{Error, Result};
use crate::observer::{Observer, Stage};
use crate::sample::{SampleConfig, Weight, scale_weights};
use crate::sink::Journal;
use crate::source::{Documents, OpenContext, parquet_files, shown_uri};
use crate::split::{SpecialFinder, SplitPattern, Splitter, splitter};
use crate::train::TieBreak;
use crate::{FORMAT_VERSION, VERSION};

/// The result of counting.
#[derive(Clone, Debug)]
pub struct CountSummary {
    /// Number of distinct pre-tokens.
    pub pretokens: u64,
    /// Bytes of the distinct pre-tokens.
    pub pretoken_bytes: u64,
    /// Facts about the text.
    pub corpus: CorpusFacts,
    /// Number of sorted runs of pre-tokens that were written to disk because memory did not suffice.
    pub spills: u64,
    /// Number of rows or files that were skipped.
    pub skipped: u64,
}

/// Counts the pre-tokens of a plan's documents and writes them to a counts file, completely or not at all.
///
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::run::recipe::{self, Given};
/// use tokenmill::run::{Environment, count_only, plan};
/// use tokenmill::source::OpenContext;
/// use tokenmill::base::int::ByteCount;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("counts.parquet");
/// let text = r#"
///     source = { uri = "demo:verse?lines=500", column = "line" }
///     train = { split = "gpt4", vocab_size = 400 }
/// "#;
/// let mut recipe = recipe::read("verse.toml", text)?;
/// recipe.output.dir = Some(Given::flag("out".to_owned())); // not used here
/// let environment = Environment { variable: &|_| None, threads: 2, memory: ByteCount(1 << 30) };
/// let plan = plan(&recipe, &environment)?;
/// let summary = count_only(&plan, &path, false, &OpenContext::new(&Silent))?;
/// assert!(summary.pretokens > 0 && path.is_file());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// **Memory:** about `plan.memory` at most. Further pre-tokens are written to unnamed files in the folder of `path`
/// until counting ends.
///
/// `ordered` keeps the order in which pre-tokens first appear. The tie rule `first` needs it.
///
/// # Errors
/// - Errors of reading and counting.
/// - The file cannot be written, or `path` exists and is not a counts file.
///
/// # Panics
/// The plan has no training.
pub fn count_only(
    plan: &Plan,
    path: &Path,
    ordered: bool,
    context: &OpenContext<'_>,
) -> Result<CountSummary> {
    let settings = plan.train.as_ref().expect("a plan that trains");
    check_output(path)?;
    check_outside(plan, path)?;
    let before = read_counts_info(path).ok();
    super::with_threads(plan.threads, || {
        let inputs = Inputs::open(plan, context)?;
        let counting = Counting { plan, train: settings, inputs: &inputs, observer: context.observer };
        let counts = counting.sample_spilling(None, crate::base::folder_of(path))?;
        inputs.check_stamps()?;
        let spills = counts.spills();
        let info = counting.info(described(plan, &inputs)?, ordered);
        if before.is_some_and(|before| !is_same_count(&before, &info)) {
            let problem = "is replaced: it held the counts of other input or of other settings";
            context.observer.noted(&format!("{} {problem}", path.display()));
        }
        let written: WrittenCounts =
            atomic_file::publish(path, |file| counts.write(file, path, &info, context.observer))?;
        if written.pretokens == 0 {
            context.observer.noted("the input that was counted has no text: the counts file is empty");
        }
        Ok(CountSummary {
            pretokens: written.pretokens,
            pretoken_bytes: written.pretoken_bytes,
            corpus: written.facts,
            spills,
            skipped: inputs.skipped(context.observer),
        })
    })
}

/// Describes the sources and the identity of each of their units, for the counts file.
///
/// # Errors
/// A unit cannot be read, a unit changed since it was opened, or the observer asks to stop.
pub(super) fn described(plan: &Plan, inputs: &Inputs<'_>) -> Result<Value> {
    let (mut sources, found) = (Vec::new(), inputs.identities_now()?);
    for (number, ((units, spec), identities)) in
        inputs.units().iter().zip(&plan.sources).zip(found).enumerate()
    {
        let units: Vec<Value> = units
            .iter()
            .zip(identities)
            .map(|(unit, identity)| json!({ "name": unit.name, "range": unit.range, "identity": identity }))
            .collect();
        sources.push(
            json!({ "uri": shown_uri(&spec.uri), "column": spec.column, "weight": plan.weights[number], "units": units }),
        );
    }
    let mut described = json!({ "sources": sources, "sample": plan.sample });
    if let Some(shard) = inputs.shard() {
        described["shard"] = json!(shard);
    }
    Ok(described)
}

/// Whether two counts files are of the same input and the same settings. Other versions may have written them.
fn is_same_count(one: &CountsInfo, other: &CountsInfo) -> bool {
    let key = |info: &CountsInfo| {
        json!([info.pattern, info.boundary, info.special_tokens, info.ordered, info.sources])
    };
    key(one) == key(other)
}

/// A unit of text that was counted into a counts file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedUnit {
    /// The name of its file, with secrets hidden.
    pub name: String,
    /// A description of its documents: units with equal descriptions have the same text. `None` if the text cannot be
    /// compared, or is empty.
    pub content: Option<String>,
}

/// Returns the units that were counted into a counts file, in order, also those of the files that it sums.
pub fn counted_units(info: &CountsInfo) -> Vec<CountedUnit> {
    let mut units = Vec::new();
    add_counted_units(&info.sources, &mut units);
    units
}

/// Adds the units that a counts file describes in `sources`.
fn add_counted_units(sources: &Value, units: &mut Vec<CountedUnit>) {
    if let Some(path) = sources["foreign"].as_str() {
        let content = Some(json!(["foreign", path]).to_string());
        return units.push(CountedUnit { name: path.to_owned(), content });
    }
    if let Some(summed) = sources["summed"].as_array() {
        return summed.iter().for_each(|part| add_counted_units(&part["counted"], units));
    }
    // Samples of the same input may have different documents, so only equal samples are compared.
    let sample = serde_json::from_value::<SampleConfig>(sources["sample"].clone());
    let is_everything = sample.is_ok_and(|sample| sample.is_everything());
    let sample = (!is_everything).then(|| sha256(sources.to_string()));
    for source in sources["sources"].as_array().into_iter().flatten() {
        for unit in source["units"].as_array().into_iter().flatten() {
            let identity = &unit["identity"];
            let is_comparable = identity["kind"] != "stream" && identity["bytes"] != 0;
            let address = (identity["kind"] == "generated").then(|| &source["uri"]);
            let content = json!([sample, source["column"], address, unit["range"], identity]);
            units.push(CountedUnit {
                name: shown_uri(unit["name"].as_str().unwrap_or_default()),
                content: is_comparable.then(|| content.to_string()),
            });
        }
    }
}

/// Describes a counts file of another program, which does not name its input.
fn foreign(path: &Path) -> Value {
    json!({ "foreign": path })
}

/// Notes the first text that was counted into several of these files: a sum has its counts several times.
///
/// # Errors
/// A file cannot be read, or is not a counts file.
fn note_text_counted_twice(paths: &[PathBuf], observer: &dyn Observer) -> Result<()> {
    let mut owners: HashMap<String, usize> = HashMap::new();
    for (number, path) in paths.iter().enumerate() {
        let info = read_counts_info_if_ours(path)?;
        let info = info.unwrap_or_else(|| CountsInfo { sources: foreign(path), ..CountsInfo::default() });
        for CountedUnit { name, content } in counted_units(&info) {
            let Some(content) = content else { continue };
            let first = *owners.entry(content).or_insert(number);
            if first != number {
                let (other, path) = (paths[first].display(), path.display());
                observer.noted(&match paths[first] == paths[number] {
                    true => format!("{path} is given twice: its text counts twice"),
                    false => {
                        format!("{other} and {path} both have the counts of {name}: its text counts twice")
                    }
                });
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Checks that `path` does not exist or is a counts file.
///
/// # Errors
/// The path exists and is no counts file.
pub(super) fn check_output(path: &Path) -> Result<()> {
    atomic_file::check_replaced(path, "counts file", |path| read_counts_info(path).is_ok())
}

/// Sums [counts files](counts_files) into one, which is written completely or not at all. Their counts are multiplied by
/// their weights: the smallest whole numbers in the ratio of the weights. The observer gets a note if two files have
/// counted the same text.
///
/// `foreign` says how the text behind the files of other programs was split: see [`sum_counts`].
///
/// **Memory:** nothing is held if all files are in byte order of their pre-tokens. Otherwise the sum, and a file that
/// is added to it, are held within `memory`. Rows of other programs that exceed it are written to unnamed files in the
/// folder of `out`.
///
/// # Errors
/// - A file cannot be read, or was counted with other settings than the first.
/// - A count exceeds 2⁶⁴ − 1.
/// - Memory does not suffice.
/// - The sum cannot be written, or `out` is one of the files, or exists and is not a counts file.
pub fn merge_counts(
    files: &[CountsKeys],
    out: &Path,
    foreign: Option<CountsInfo>,
    memory: ByteCount,
    observer: &dyn Observer,
) -> Result<WrittenSum> {
    check_output(out)?;
    let files =
        counts_files(files, observer)?.into_iter().map(|file| (PathBuf::from(file.path), file.weight));
    let (paths, weights): (Vec<PathBuf>, Vec<Weight>) = files.unzip();
    check_not_among(&paths, out)?;
    if let Some(given) = &foreign {
        for path in &paths {
            let Some(info) = read_counts_info_if_ours(path)? else { continue };
            check_same_settings(given, Path::new("counts of the given split"), &info, path)?;
        }
    }
    note_text_counted_twice(&paths, observer)?;
    let files = weighted(&paths, &scale_weights(&weights));
    // Half for the sum, half for the file that is added to it.
    let table_bytes = ByteCount(memory.0 / 2);
    let limit = MemoryLimit { table_bytes, spill_folder: crate::base::folder_of(out).to_owned() };
    let config = SumConfig { foreign, limit };
    atomic_file::publish(out, |file| write_sum(&files, file, out, &config, observer))
}

/// Reads the counts of these files, folders and patterns into memory, summed: see [`sum_counts`].
///
/// # Errors
/// Those of [`counts_files`] and [`sum_counts`].
pub fn read_counts_files(
    names: &[PathBuf],
    config: &SumConfig,
    observer: &dyn Observer,
) -> Result<CountsFile> {
    let key = |name: &PathBuf| CountsKeys { path: name.display().to_string(), weight: Weight::ONE };
    let named: Vec<CountsKeys> = names.iter().map(key).collect();
    let paths: Vec<PathBuf> =
        counts_files(&named, observer)?.into_iter().map(|file| PathBuf::from(file.path)).collect();
    note_text_counted_twice(&paths, observer)?;
    sum_counts(&weighted(&paths, &vec![1; paths.len()]), config, observer)
}

/// Returns the counts files of these files, folders and patterns, each with the weight that its folder or pattern has.
/// In a folder, files whose names begin with `_` or `.` do not count.
///
/// # Errors
/// A file does not exist, a folder cannot be read or has no Parquet files, or a pattern matches nothing.
pub fn counts_files(named: &[CountsKeys], observer: &dyn Observer) -> Result<Vec<CountsKeys>> {
    let (mut files, mut notes) = (Vec::new(), Vec::new());
    for CountsKeys { path, weight } in named {
        let found = parquet_files(path, &mut notes)?;
        files.extend(
            found.iter().map(|path| CountsKeys { path: path.display().to_string(), weight: *weight }),
        );
    }
    notes.iter().for_each(|note| observer.noted(note));
    Ok(files)
}

/// Checks that the sum would not replace one of its own inputs: the next run would give another sum.
///
/// # Errors
/// An input has the path of the sum ([`ErrorKind::Usage`]).
fn check_not_among(files: &[PathBuf], out: &Path) -> Result<()> {
    let Ok(place) = out.canonicalize() else { return Ok(()) };
    match files.iter().find(|path| path.canonicalize().is_ok_and(|path| path == place)) {
        Some(path) => {
            let problem = format!("the sum would replace {}, which is one of its inputs", path.display());
            Err(Error::usage(problem).with_help("name another file for the sum"))
        }
        None => Ok(()),
    }
}

/// Completes a recipe that trains from counts files with the settings recorded in them: pattern, boundary and special
/// tokens. If the recipe contradicts them, mistakes are added to it. Folders and patterns become [the files in
/// them](counts_files).
///
/// Files of other programs have no such settings. If no file has, the recipe must name the split, or a mistake is added.
///
/// # Errors
/// A file cannot be read, or was counted with other settings than the first.
pub fn complete_from_counts(recipe: &mut Recipe, observer: &dyn Observer) -> Result<()> {
    recipe.counts = counts_files(&recipe.counts, observer)?;
    let (mut ours, mut foreign) = (Vec::new(), Vec::new());
    for CountsKeys { path, .. } in &recipe.counts {
        match read_counts_info_if_ours(Path::new(path))? {
            Some(info) => ours.push((path.clone(), info)),
            None => foreign.push(path.clone()),
        }
    }
    if let Some((first, first_info)) = ours.first() {
        for (path, info) in &ours {
            check_same_settings(first_info, Path::new(first), info, Path::new(path))?;
        }
        complete(recipe, first, first_info);
    } else if let Some(path) = foreign.first() {
        require_split(recipe, path);
    }
    let unordered =
        ours.iter().filter(|(_, info)| !info.ordered).map(|(path, _)| path).chain(&foreign).next();
    if let Some(path) = unordered {
        refuse_order(recipe, path);
    }
    Ok(())
}

/// Adds a mistake to a recipe that does not name the split of counts from another program.
fn require_split(recipe: &mut Recipe, path: &str) {
    let split = recipe.train.as_ref().and_then(|keys| keys.split.as_ref());
    let name = recipe.origin.name("split");
    let (span, problem) = match split {
        None => (None, format!("{name} is missing: {path} does not say how its text was split")),
        Some(Given { value: SplitPattern::None, span }) => {
            (span.clone(), format!("{name} cannot be none: {path} has the counts of pre-tokens"))
        }
        Some(_) => return,
    };
    let help = "name the split of the pre-tokens, and the boundary and the special tokens if they are not the usual ones";
    recipe
        .mistakes
        .push(Mistake { help: Some(help.to_owned()), ..Mistake::new(Some("split"), span, problem) });
}

/// Does the same as [`complete_from_counts`] for counts that the program holds, of which `info` is the metadata.
pub fn complete_from_counts_in_memory(recipe: &mut Recipe, info: &CountsInfo) {
    const NAME: &str = "the counts";
    complete(recipe, NAME, info);
    if !info.ordered {
        refuse_order(recipe, NAME);
    }
}

/// Completes a recipe with the settings of counts. `name` is for messages.
fn complete(recipe: &mut Recipe, name: &str, info: &CountsInfo) {
    let fixed = FixedSettings {
        by: name,
        split: &info.pattern,
        boundary: Some(info.boundary),
        specials: &info.special_tokens,
        specials_at: None,
    };
    fixed.complete(recipe);
}

/// Adds a mistake to a recipe with the tie rule `first`, because the counts of this name are in no such order.
fn refuse_order(recipe: &mut Recipe, unordered: &str) {
    let tie_break = recipe.train.as_ref().and_then(|keys| keys.tie_break.as_ref());
    if let Some(Given { value: TieBreak::First, span }) = tie_break {
        let name = recipe.origin.name("tie_break");
        let problem =
            format!("{name} first needs the order of the pre-tokens, which {unordered} does not have");
        let help = match recipe.origin {
            Origin::Arguments(_) => {
                "use the result of `count` itself, or a file that was written with order=True"
            }
            _ => "count with --order",
        };
        recipe.mistakes.push(Mistake {
            help: Some(help.to_owned()),
            ..Mistake::new(Some("tie_break"), span.clone(), problem)
        });
    }
}

/// Pairs each counts file with its weight. Both lists have the same length.
fn weighted(paths: &[PathBuf], weights: &[u64]) -> Vec<WeightedFile> {
    let file = |(path, &weight): (&PathBuf, &u64)| WeightedFile { path: path.clone(), weight };
    paths.iter().zip(weights).map(file).collect()
}

/// The inputs, the settings and the observer of counting.
#[derive(Clone, Copy)]
pub(super) struct Counting<'a> {
    /// The limits, weights and samples.
    pub(super) plan: &'a Plan,
    /// The split, the boundary and the special tokens.
    pub(super) train: &'a TrainPlan,
    /// The documents.
    pub(super) inputs: &'a Inputs<'a>,
    /// Receives the progress.
    pub(super) observer: &'a dyn Observer,
}

impl Counting<'_> {
    /// Reads the counts that a plan trains from, with the facts about their text that can be derived from them.
    ///
    /// # Errors
    /// A file cannot be read, does not match the plan, or does not fit the memory.
    pub(super) fn read_files(&self) -> Result<CorpusCounts> {
        let (plan, train) = (self.plan, self.train);
        note_text_counted_twice(&plan.counts, self.observer)?;
        let limit = match &plan.counts[..] {
            [path] if read_counts_info_if_ours(path)?.is_some() => {
                memory_of_tables(plan.memory, plan.threads)
            }
            _ => memory_of_sum(plan),
        };
        let CountsFile { pretokens, info } = self.sum(&weighted(&plan.counts, &plan.weights), limit)?;
        let ordered = info.ordered || train.config.tie_break != TieBreak::First;
        if !ordered || info.pattern != train.split || train.split == SplitPattern::None {
            let path = plan.counts[0].display();
            return Err(Error::usage(format!("{path} was counted with other settings than the plan has"))
                .with_help("plan the training again"));
        }
        let facts = facts([&pretokens]);
        Ok(CorpusCounts { pretokens, facts })
    }

    /// Sums counts files.
    ///
    /// # Errors
    /// A file cannot be read, or the sum does not fit the memory.
    fn sum(&self, files: &[WeightedFile], table_bytes: ByteCount) -> Result<CountsFile> {
        self.observer.started(Stage::Count, None);
        let limit = MemoryLimit { table_bytes, spill_folder: self.train.output.clone() };
        let sum = sum_counts(files, &SumConfig { foreign: Some(self.foreign_info()), limit }, self.observer)?;
        self.observer.advanced(Stage::Count, to_u64(sum.pretokens.bytes()));
        self.observer.finished(Stage::Count);
        Ok(sum)
    }

    /// Whether the counts of each source can be stored separately, so that a mixture of the same sources with other
    /// weights needs no reading. This requires that text is split, that no sample is drawn from all sources together,
    /// and that each source can be read again.
    pub(super) fn is_mixture(&self) -> bool {
        let split = self.train.split != SplitPattern::None;
        let everything = self.plan.sample.is_everything();
        self.plan.sources.len() > 1 && split && everything && !self.inputs.read_once()
    }

    /// Counts the pre-tokens of each source, unless an earlier run did so in the same folder, and sums the counts by
    /// weight.
    ///
    /// The facts equal those of counting all sources at once, with one exception. If one of several special tokens was
    /// found, the distinct bytes include those of all special tokens.
    ///
    /// # Errors
    /// Errors of reading and counting; a file cannot be written or read.
    pub(super) fn mixture(&self, folder: &Path) -> Result<CorpusCounts> {
        let (mut facts, weighted) = self.stored(folder)?;
        let CountsFile { pretokens, .. } = self.sum(&weighted, memory_of_sum(self.plan))?;
        self.note_bytes(&mut facts, [&pretokens]);
        Ok(CorpusCounts { pretokens, facts })
    }

    /// Counts the pre-tokens of each source or counts file of the plan separately, each with its weight. If `kept`
    /// names a folder, the counts of sources are stored there, or read from there if an earlier run stored them.
    ///
    /// The facts equal those of [`mixture`](Counting::mixture).
    ///
    /// # Errors
    /// - Errors of reading and counting; a file cannot be written or read.
    /// - Learning from the counts needs more memory than the limit.
    pub(super) fn each_source(&self, kept: Option<&Path>) -> Result<(Vec<PretokenCounts>, CorpusFacts)> {
        if !self.plan.counts.is_empty() {
            note_text_counted_twice(&self.plan.counts, self.observer)?;
            let files = weighted(&self.plan.counts, &self.plan.weights);
            let sums = self.sum_each(&files)?;
            let facts = facts(&sums);
            return Ok((sums, facts));
        }
        let (mut facts, sums) = match kept.filter(|_| self.is_mixture()) {
            Some(folder) => {
                let (facts, files) = self.stored(folder)?;
                (facts, self.sum_each(&files)?)
            }
            None => {
                let (mut facts, mut sums) = (CorpusFacts::default(), Vec::new());
                for number in 0..self.plan.sources.len() {
                    self.observer.started(Stage::Count, self.inputs.bytes_of(number));
                    let documents = self.inputs.limited(number);
                    let counts = self.documents(documents, self.config(None)?, &self.train.output)?;
                    let counts = counts.into_corpus_counts(self.observer)?;
                    self.observer.finished(Stage::Count);
                    facts.add_source(&counts.facts);
                    sums.push(counts.pretokens);
                    self.check_memory(&sums)?;
                }
                (facts, sums)
            }
        };
        self.note_bytes(&mut facts, &sums);
        Ok((sums, facts))
    }

    /// Reads each of these counts files.
    ///
    /// # Errors
    /// A file cannot be read, or learning from the counts needs more memory than the limit.
    fn sum_each(&self, files: &[WeightedFile]) -> Result<Vec<PretokenCounts>> {
        let mut sums = Vec::new();
        for file in files {
            sums.push(self.sum(std::slice::from_ref(file), memory_of_sum(self.plan))?.pretokens);
            self.check_memory(&sums)?;
        }
        Ok(sums)
    }

    /// Checks that learning from these counts alone fits the memory limit. It takes many times the memory of the counts,
    /// so counts that pass leave room for those of the next source.
    ///
    /// # Errors
    /// It does not fit.
    fn check_memory(&self, counts: &[PretokenCounts]) -> Result<()> {
        let bytes = counts.iter().map(|counts| to_u64(counts.bytes())).sum();
        let sequences = counts.iter().map(|counts| to_u64(counts.len())).sum();
        within_memory(learning_memory(self.train, bytes, sequences, true), self.plan.memory)
    }

    /// Notes in the facts which bytes the text has.
    fn note_bytes<'c>(
        &self,
        facts: &mut CorpusFacts,
        pretokens: impl IntoIterator<Item = &'c PretokenCounts>,
    ) {
        let specials = self.train.specials.iter().filter(|_| facts.special_tokens > 0);
        let bytes: BTreeSet<u8> = pretokens
            .into_iter()
            .flat_map(PretokenCounts::iter)
            .flat_map(|(pretoken, _)| pretoken)
            .copied()
            .chain(specials.flat_map(|text| text.bytes()))
            .collect();
        facts.distinct_bytes = to_u64(bytes.len());
    }

    /// Counts each source, unless an earlier run did so in the same folder. Returns the facts about their text, and
    /// the stored counts with their weights.
    ///
    /// # Errors
    /// Errors of reading and counting; a file cannot be written or read.
    fn stored(&self, folder: &Path) -> Result<(CorpusFacts, Vec<WeightedFile>)> {
        std::fs::create_dir_all(folder).map_err(|cause| Error::io("create", folder, cause))?;
        let mut facts = CorpusFacts::default();
        let mut weighted = Vec::new();
        for (number, (source, &weight)) in self.plan.sources.iter().zip(&self.plan.weights).enumerate() {
            let kept = StoredCounts::new(self, number, folder)?;
            let found = match kept.stored_facts() {
                Some(found) => {
                    let uri = shown_uri(&source.uri);
                    self.observer.noted(&format!("using the counts of {uri} from an earlier run"));
                    found
                }
                None => kept.count(self, number)?,
            };
            facts.add_source(&found);
            weighted.push(WeightedFile { path: kept.counts, weight });
        }
        forget_others(folder, &weighted)?;
        Ok((facts, weighted))
    }

    /// Counts the distinct pre-tokens of the sample, or gathers its documents if there is no split.
    ///
    /// # Errors
    /// Errors of reading and counting. Without a split, all documents must fit the memory limit.
    pub(super) fn sample(&self, prepare: Option<Arc<dyn Prepare>>) -> Result<CorpusCounts> {
        let Counting { plan, train, inputs, observer } = *self;
        if train.split != SplitPattern::None {
            return self.sample_spilling(prepare, &train.output)?.into_corpus_counts(observer);
        }
        let documents = self.prepared(ReadBy::Readers, &prepare);
        let limit = Some(MemoryLimit { table_bytes: plan.memory, spill_folder: train.output.clone() });
        let config = CountConfig { limit, ..self.config(prepare)? };
        observer.started(Stage::Count, inputs.sampled_bytes());
        let counted = count_whole_documents(documents, &config, observer)?;
        observer.finished(Stage::Count);
        Ok(counted)
    }

    /// Counts the distinct pre-tokens of the sample. Those that exceed the memory limit are written to the folder
    /// `spill_folder`.
    ///
    /// # Errors
    /// Errors of reading, counting and writing. An error of a document is completed with its place.
    pub(super) fn sample_spilling(
        &self,
        prepare: Option<Arc<dyn Prepare>>,
        spill_folder: &Path,
    ) -> Result<SpillableCounts> {
        self.observer.started(Stage::Count, self.inputs.sampled_bytes());
        let documents = self.prepared(ReadBy::Takers, &prepare);
        let counts = self.documents(documents, self.config(prepare)?, spill_folder)?;
        self.observer.finished(Stage::Count);
        Ok(counts)
    }

    /// Counts the distinct pre-tokens of the sample by a splitter in place of that of the pattern.
    ///
    /// # Errors
    /// Those of [`sample_spilling`](Counting::sample_spilling).
    pub(super) fn counted_by(
        &self,
        prepare: Option<Arc<dyn Prepare>>,
        splitter: &dyn Splitter,
    ) -> Result<CorpusCounts> {
        self.observer.started(Stage::Count, self.inputs.sampled_bytes());
        let documents = self.prepared(ReadBy::Takers, &prepare);
        let config = CountConfig { limit: Some(self.limit(&self.train.output)), ..self.config(prepare)? };
        let counts = count_spilling(documents, splitter, &config, self.observer);
        let counts = counts.map_err(|error| self.inputs.with_place(error))?;
        self.observer.finished(Stage::Count);
        counts.into_corpus_counts(self.observer)
    }

    /// Passes the pre-tokens of the sample to `visit`, by a splitter in place of that of the pattern.
    ///
    /// # Errors
    /// Errors of reading and splitting, and those of `visit`.
    pub(super) fn visit(
        &self,
        prepare: Option<Arc<dyn Prepare>>,
        splitter: &dyn Splitter,
        visit: &PretokenVisitor<'_>,
    ) -> Result<()> {
        self.observer.started(Stage::Count, self.inputs.sampled_bytes());
        let documents = self.prepared(ReadBy::Takers, &prepare);
        let config = CountConfig { limit: Some(self.limit(&self.train.output)), ..self.config(prepare)? };
        let visited = visit_pretokens(documents, splitter, &config, self.observer, visit);
        visited.map_err(|error| self.inputs.with_place(error))?;
        self.observer.finished(Stage::Count);
        Ok(())
    }

    /// The memory for tables, and the folder for counts that exceed it.
    fn limit(&self, spill_folder: &Path) -> MemoryLimit {
        let table_bytes = memory_of_tables(self.plan.memory, self.plan.threads);
        MemoryLimit { table_bytes, spill_folder: spill_folder.to_path_buf() }
    }

    /// The documents of the sample. They are joined from their parts if they must be prepared.
    fn prepared(&self, by: ReadBy, prepare: &Option<Arc<dyn Prepare>>) -> Documents<'static> {
        let documents = self.inputs.sampled(by);
        if prepare.is_some() { self.inputs.join_parts(documents) } else { documents }
    }

    /// Counts the distinct pre-tokens of these documents. Those that exceed the memory limit are written to the folder
    /// `spill_folder`.
    ///
    /// # Errors
    /// Errors of reading, counting and writing, or the split pattern cannot be used. An error of a document is
    /// completed with its place.
    fn documents(
        &self,
        documents: Documents<'_>,
        config: CountConfig,
        spill_folder: &Path,
    ) -> Result<SpillableCounts> {
        let limit = Some(self.limit(spill_folder));
        let (config, splitter) = (CountConfig { limit, ..config }, splitter(&self.train.split)?);
        let counts = count_spilling(documents, &*splitter, &config, self.observer);
        counts.map_err(|error| self.inputs.with_place(error))
    }

    /// How documents are counted. If text is prepared, that also finds the special tokens.
    ///
    /// # Errors
    /// The special tokens cannot be searched for.
    fn config(&self, prepare: Option<Arc<dyn Prepare>>) -> Result<CountConfig> {
        let specials: &[String] = if prepare.is_some() { &[] } else { &self.train.specials };
        Ok(CountConfig {
            specials: SpecialFinder::new(specials)?,
            weights: self.plan.weights.clone(),
            boundary: self.train.boundary,
            prepare,
            limit: None,
        })
    }

    /// What is known of counts that another program wrote. Tokens that are only named for `transformers` are none that
    /// were cut out of the text.
    fn foreign_info(&self) -> CountsInfo {
        let mut info = self.info(Value::Null, false);
        info.special_tokens.truncate(self.train.specials.len() - self.train.only_named.len());
        info
    }

    /// What a counts file says about its counts. `sources` describes the text.
    pub(super) fn info(&self, sources: Value, ordered: bool) -> CountsInfo {
        CountsInfo {
            pattern: self.train.split.clone(),
            boundary: self.train.boundary,
            special_tokens: self.train.specials.clone(),
            sources,
            ordered,
            ..CountsInfo::default()
        }
    }
}

/// Facts about the text that can be derived from counts. Nothing is known of its documents. Unlike facts from text,
/// these include the weights.
pub(super) fn facts<'c>(counts: impl IntoIterator<Item = &'c PretokenCounts>) -> CorpusFacts {
    let mut facts = CorpusFacts::default();
    let mut seen = [false; 256];
    for (pretoken, count) in counts.into_iter().flat_map(PretokenCounts::iter) {
        // Text of more than 2⁶⁴ − 1 bytes is an error later, where the counts are used.
        let times = |amount: u64| amount.saturating_mul(count.get());
        facts.text_bytes = facts.text_bytes.saturating_add(times(to_u64(pretoken.len())));
        facts.characters = facts.characters.saturating_add(times(count_characters(pretoken)));
        pretoken.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    }
    facts.distinct_bytes = to_u64(seen.iter().filter(|seen| **seen).count());
    facts
}

/// Removes stored counts of sources that no longer belong to the mixture.
///
/// # Errors
/// The folder cannot be read, or a file cannot be removed.
fn forget_others(folder: &Path, kept: &[WeightedFile]) -> Result<()> {
    let io = |cause| Error::io("read", folder, cause);
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if !kept.iter().any(|file| file.path.file_stem() == path.file_stem()) {
            std::fs::remove_file(&path).map_err(|cause| Error::io("remove", &path, cause))?;
        }
    }
    Ok(())
}

/// The stored counts of one source, and a journal of one record with the facts about its text.
struct StoredCounts {
    /// The counts file.
    counts: PathBuf,
    /// The journal.
    note: PathBuf,
    /// Hash of everything that the counts depend on.
    key: String,
}

/// The record of the journal. It is written after the counts file, so a note proves that the counts are complete.
#[derive(Serialize, Deserialize)]
struct StoredCountsNote {
    /// SHA-256 of the counts file, in hex.
    sha256: String,
    corpus: CorpusFacts,
}

impl StoredCounts {
    /// The files for the counts of a source. Their names contain a hash of everything that the counts depend on, so
    /// that other settings use other files.
    ///
    /// # Errors
    /// The units of the source cannot be identified.
    fn new(counting: &Counting<'_>, number: usize, folder: &Path) -> Result<StoredCounts> {
        let Counting { plan, train, inputs, .. } = *counting;
        let spec = &plan.sources[number];
        let units = inputs.identified(number)?;
        let key = json!({
            "version": VERSION,
            "format_version": FORMAT_VERSION,
            "units": units,
            // Different files can have equal identities.
            "source": text_settings(spec, &spec.uri),
            "limit": plan.source_samples[number],
            "split": train.split,
            "boundary": train.boundary,
            "special_tokens": train.specials,
        });
        let key = sha256(key.to_string());
        let file = |extension| folder.join(format!("{}.{extension}", &key[..32]));
        Ok(StoredCounts { counts: file("parquet"), note: file("journal"), key })
    }

    /// The facts about the text, if its counts were stored completely.
    fn stored_facts(&self) -> Option<CorpusFacts> {
        let (_, notes) = Journal::open::<StoredCountsNote>(&self.note, &self.key).ok()?;
        let note = notes.into_iter().next()?;
        (file_sha256(&self.counts).ok()? == note.sha256).then_some(note.corpus)
    }

    /// Counts a source and stores its counts, without weights.
    ///
    /// # Errors
    /// The source cannot be read or counted, or the files cannot be written.
    fn count(&self, counting: &Counting<'_>, number: usize) -> Result<CorpusFacts> {
        let Counting { plan, inputs, observer, .. } = *counting;
        let left_out = inputs.skipped_rows().count();
        observer.started(Stage::Count, inputs.bytes_of(number));
        let spill_folder = self.counts.parent().unwrap_or(Path::new("."));
        // The sum applies the weights.
        let config = CountConfig { weights: Vec::new(), ..counting.config(None)? };
        let counts = counting.documents(inputs.limited(number), config, spill_folder)?;
        inputs.check_stamps()?;
        observer.finished(Stage::Count);
        let info = counting.info(json!({ "uri": shown_uri(&plan.sources[number].uri) }), true);
        let written = atomic_file::publish_within(&self.counts, |file| {
            counts.write(file, &self.counts, &info, observer)
        })?;
        // If rows were skipped, no note is written: a later run must report them too, so it reads the source again.
        if inputs.skipped_rows().count() == left_out {
            let sha256 = file_sha256(&self.counts).map_err(|cause| Error::io("read", &self.counts, cause))?;
            let note = StoredCountsNote { sha256, corpus: written.facts.clone() };
            let mut journal = Journal::create(&self.note, &self.key)?;
            journal.append(&note)?;
            journal.sync()?;
        }
        Ok(written.facts)
    }
}

/// The SHA-256 of a file, in hex.
fn file_sha256(path: &Path) -> std::io::Result<String> {
    sha256_of(std::fs::File::open(path)?)
}
