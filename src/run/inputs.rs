//! The opened sources of a plan: their units, their documents, and what identifies their content. Opening warns about
//! sources with several splits of a dataset, and about settings without effect.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::{fmt, fs};

use arrow::datatypes::{DataType, FieldRef};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use sha2::{Digest, Sha256};

use super::plan::{Plan, TrainPlan};
use super::resources::{UnitName, longest_read, memory_for_documents, refuse_long_documents};
use super::shard::{InputPart, ShardState};
use crate::base::int::{ByteCount, declared_sum, to_u64};
use crate::base::integrity::hex;
use crate::count::PretokenExceedsLimit;
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::sample::{SampleConfig, sample};
use crate::sink::ManifestInput;
use crate::source::{
    self, Batch, DocumentRule, Documents, Format, Identity, OpenContext, RowRange, SkippedRows, Source,
    SourceSpec, Unit, common_field, lost_annotations, shown_uri, splits, value_in_path, without_annotation,
};
use crate::vocab::{self, TransformersConfig};

/// The sources of a plan, listed and open. Their documents can be read any number of times, except from standard
/// input or a pipe.
///
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::run::recipe::{self, Given};
/// use tokenmill::run::{Inputs, Environment, plan};
/// use tokenmill::source::OpenContext;
/// use tokenmill::base::int::ByteCount;
///
/// let text = r#"
///     source = { uri = "demo:verse?lines=500", column = "line" }
///     sample = { take = 20 }
///     train = { vocab_size = 400 }
/// "#;
/// let mut recipe = recipe::read("verse.toml", text)?;
/// recipe.output.dir = Some(Given::flag("out".to_owned()));
/// let environment = Environment { variable: &|_| None, threads: 2, memory: ByteCount(1 << 30) };
/// let inputs = Inputs::open(&plan(&recipe, &environment)?, &OpenContext::new(&Silent))?;
/// let mut documents = 0;
/// for batch in inputs.documents() {
///     documents += batch?.len();
/// }
/// assert_eq!(documents, 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Inputs<'a> {
    /// Gets notes, and may ask to stop while content is identified.
    observer: &'a dyn Observer,
    /// The open sources, in the order of the plan. Their index is the source number in batches and units.
    sources: Vec<Arc<dyn Source>>,
    /// The address of each source.
    uris: Vec<String>,
    /// The shard to which the units of these sources belong; `None` if they are the whole input.
    part: Option<InputPart>,
    /// The sample of each source. `sample` then selects from all of these documents together.
    source_samples: Vec<SampleConfig>,
    /// Selects from the documents that are taken of all sources.
    sample: SampleConfig,
    /// Number of threads of the plan.
    threads: usize,
    /// Bytes of memory for documents that are held.
    memory: ByteCount,
    /// The development texts of parity-aware training, one for each source, if there are any.
    development: Option<Box<Inputs<'a>>>,
    /// The rows and files that were skipped, which the sources share.
    skipped_rows: Arc<SkippedRows>,
    /// The identity of each unit, by source, as of the first time it was needed. It is kept because hashing takes
    /// time, and because later identities are compared with it.
    identities: OnceLock<Vec<Vec<Identity>>>,
}

impl fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs").field("uris", &self.uris).finish_non_exhaustive()
    }
}

/// Which threads read the documents.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadBy {
    /// Threads that do nothing else, and read ahead of the consumers.
    Readers,
    /// The consumers, in turn, if all sources are plain: hardly more work to read than to copy.
    Takers,
}

impl<'a> Inputs<'a> {
    /// Lists the sources of a plan. If the plan encodes, their pass-through columns are read too.
    ///
    /// The observer gets notes about files that are read twice, about settings without effect, and about datasets of
    /// which all splits are read.
    ///
    /// # Errors
    /// A source cannot be opened.
    pub fn open(plan: &Plan, context: &OpenContext<'a>) -> Result<Inputs<'a>> {
        let inputs = Inputs::open_by(plan, context, |spec, number| source::open(spec, number, context))?;
        inputs.with_development(plan, |plan| Inputs::open(plan, context))
    }

    /// Adds the development texts of parity-aware training, if the plan has any.
    ///
    /// # Errors
    /// Those of `open`.
    fn with_development(
        mut self,
        plan: &Plan,
        open: impl Fn(&Plan) -> Result<Inputs<'a>>,
    ) -> Result<Inputs<'a>> {
        let texts = plan.of_development().as_ref().map(open).transpose()?;
        self.development = texts.map(Box::new);
        Ok(self)
    }

    /// The development texts of parity-aware training, one for each source, if there are any.
    pub(super) fn development(&self) -> Option<&Inputs<'a>> {
        self.development.as_deref()
    }

    /// Opens the sources as [`open`](Inputs::open) does, and reads these columns beside the text.
    ///
    /// # Errors
    /// A source cannot be opened, or lacks a column.
    pub(super) fn open_with_columns(
        plan: &Plan,
        columns: &[String],
        context: &OpenContext<'a>,
    ) -> Result<Inputs<'a>> {
        Inputs::open_by(plan, context, |spec, number| {
            source::open(&SourceSpec { columns: columns.to_vec(), ..spec.clone() }, number, context)
        })
    }

    /// Takes sources that a program has opened, in place of those that the plan names: one for each.
    ///
    /// The observer gets the notes that [`open`](Inputs::open) gives.
    ///
    /// # Errors
    /// The sources do not fit together.
    ///
    /// # Panics
    /// There are fewer sources than the plan names.
    pub fn of(plan: &Plan, sources: &[Arc<dyn Source>], context: &OpenContext<'a>) -> Result<Inputs<'a>> {
        let inputs = Inputs::open_by(plan, context, |_, number| Ok(Arc::clone(&sources[number])))?;
        inputs.with_development(plan, |plan| Inputs::open(plan, context))
    }

    /// Opens the sources for a preview, which downloads nothing.
    ///
    /// # Errors
    /// A source cannot be found, or its listing cannot be read.
    pub(super) fn open_without_download(plan: &Plan, context: &OpenContext<'a>) -> Result<Inputs<'a>> {
        let open = |spec: &SourceSpec, number| source::open_without_download(spec, number, context);
        let inputs = Inputs::open_by(plan, context, open)?;
        inputs.with_development(plan, |plan| Inputs::open_without_download(plan, context))
    }

    /// Opens each source with `open`, which is given its number, and tells the observer what may be a mistake.
    ///
    /// # Errors
    /// `open` fails for a source. Later sources are not opened then.
    fn open_by(
        plan: &Plan,
        context: &OpenContext<'a>,
        open: impl Fn(&SourceSpec, usize) -> Result<Arc<dyn Source>>,
    ) -> Result<Inputs<'a>> {
        let columns = plan.encode.as_ref().map(|encode| encode.columns.as_slice()).unwrap_or_default();
        let memory = memory_for_documents(plan.memory, plan.threads);
        let open = |(number, spec): (usize, &SourceSpec)| {
            let longest_read = Some(longest_read(memory));
            open(&SourceSpec { columns: columns.to_vec(), longest_read, ..spec.clone() }, number)
        };
        let mut sources = plan.sources.iter().enumerate().map(open).collect::<Result<Vec<_>>>()?;
        note_files_read_twice(plan, &sources, context.observer);
        note_unused_settings(plan, sources.iter().map(|source| &**source), context.observer);
        for (spec, source) in plan.sources.iter().zip(&sources) {
            note_other_splits(spec, &**source, context.observer);
        }
        let uris: Vec<String> = plan.sources.iter().map(|spec| spec.uri.clone()).collect();
        let cut = |shard| InputPart::cut(shard, &mut sources, &uris);
        let part = plan.shard.map(cut).transpose()?;
        let skipped_rows = Arc::clone(&context.skipped_rows);
        if part.as_ref().is_some_and(|part| part.shard.index() > 1) {
            skipped_rows.forget_files();
        }
        let inputs = Inputs {
            observer: context.observer,
            sources,
            uris,
            part,
            source_samples: plan.source_samples.clone(),
            sample: plan.sample,
            threads: plan.threads,
            memory,
            development: None,
            skipped_rows,
            identities: OnceLock::new(),
        };
        inputs.note_source_findings(context.observer);
        Ok(inputs)
    }

    /// The complete documents of the sample, in order.
    ///
    /// Each call reads the input again from the beginning. Errors of reading are items.
    pub fn documents(&self) -> Documents<'static> {
        self.join_parts(self.sampled(ReadBy::Readers))
    }

    /// The place of a document of the sample, for messages. `row` is its index in the batch.
    pub fn place(&self, batch: &Batch, row: usize) -> String {
        format!("{}: row {}", self.name(batch.source, batch.unit), batch.first_row + to_u64(row))
    }

    /// Completes an error that names source, unit and row by number with the name of the unit.
    pub(super) fn with_place(&self, error: Error) -> Error {
        match error.get_ref().downcast_ref::<PretokenExceedsLimit>() {
            Some(&PretokenExceedsLimit { source_number, unit, row, .. }) => {
                let name = self.name(source_number, unit);
                error.at(format!("{name}: row {row}"))
            }
            None => error,
        }
    }

    /// The name of a unit, for messages. If a sample is taken, the name of the sample: the file of a sampled row is
    /// not known.
    pub fn name(&self, source: usize, unit: usize) -> String {
        if self.sample_is_everything() { self.unit_name(source, unit) } else { self.sample_name(source) }
    }

    /// The documents of the sample, in order. Long ones may be divided among batches. They are complete if `sample`
    /// selects from them.
    pub(super) fn sampled(&self, read_by: ReadBy) -> Documents<'static> {
        let threads = self.readers(&self.sources, read_by);
        let documents: Documents<'static> = if self.source_samples.iter().all(SampleConfig::is_everything) {
            source::in_order(self.sources.clone(), threads)
        } else {
            let limited = self.sources.clone().into_iter().zip(self.source_samples.clone());
            let memory = self.memory;
            Box::new(limited.flat_map(move |(source, limit)| up_to(source, &limit, threads, memory)))
        };
        match self.sample.is_everything() {
            true => documents,
            false => sample(self.join_parts(documents), &self.sample),
        }
    }

    /// The documents that are taken of one source, in order. The consumers read them if the source is plain. The
    /// sample of the plan does not apply, only the limit of the source.
    pub(super) fn limited(&self, source: usize) -> Documents<'static> {
        let threads = self.readers(&self.sources[source..=source], ReadBy::Takers);
        up_to(Arc::clone(&self.sources[source]), &self.source_samples[source], threads, self.memory)
    }

    /// Joins the parts of documents that are divided among batches.
    ///
    /// A document that exceeds the memory for documents is an error item ([`ErrorKind::Memory`]).
    pub(super) fn join_parts(&self, documents: Documents<'static>) -> Documents<'static> {
        let sources = self.sources.clone();
        joined_parts(documents, Arc::new(move |source, unit| unit_name(&sources, source, unit)), self.memory)
    }

    /// Bytes of memory for documents that are held.
    pub(super) fn memory(&self) -> ByteCount {
        self.memory
    }

    /// Number of threads that read these sources ahead; 0 if the consumers read them. A single consumer does not
    /// read, since nothing would run in parallel.
    fn readers(&self, sources: &[Arc<dyn Source>], read_by: ReadBy) -> usize {
        let by_takers = read_by == ReadBy::Takers && self.threads > 1;
        if by_takers && sources.iter().all(|source| source.is_plain()) { 0 } else { self.threads }
    }

    /// All documents from the beginning of a unit on, in order.
    ///
    /// Limits and sample do not apply. A document may be divided among batches.
    pub(super) fn all_from(&self, source: usize, unit: usize) -> Documents<'static> {
        source::in_order_from(self.sources.clone(), (source, unit), self.threads)
    }

    /// The documents of one unit, or parts of them. The caller's thread reads them.
    ///
    /// # Errors
    /// The unit cannot be read.
    pub(super) fn read_unit(&self, source: usize, unit: usize) -> Result<Documents<'static>> {
        self.sources[source].read(unit)
    }

    /// Whether the sample is all of the input, in the order of the sources.
    pub(super) fn sample_is_everything(&self) -> bool {
        self.source_samples.iter().chain([&self.sample]).all(SampleConfig::is_everything)
    }

    /// The probable reasons why a sample has no documents, with the remedy.
    pub(super) fn why_sample_is_empty(&self) -> String {
        let skip = self.sample.skip;
        let is_text = self.sources.iter().any(|source| source.format() == Some(Format::Text));
        let limited = |sample: &SampleConfig| sample.max_bytes.is_some();
        let reasons = [
            (skip > 0).then(|| format!("the input has no more documents than `skip` leaves out, {skip}")),
            (skip > 0 && is_text).then(|| {
                "a text file is one document, unless `documents` (--documents) is `line` or `paragraph`"
                    .to_owned()
            }),
            (skip == 0 || self.source_samples.iter().chain([&self.sample]).any(limited)).then(|| {
                "take more of the input: a document that does not fit `max_bytes` is not cut".to_owned()
            }),
        ];
        reasons.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    /// Bytes of text in all documents; `None` if that is not known, exactly or closely, before reading.
    pub(super) fn text_bytes(&self) -> Option<u64> {
        declared_sum(self.sources.iter().flat_map(|source| source.units()).map(|unit| unit.text_bytes))
    }

    /// Bytes of text in the sample; `None` if that is not known before reading, or if not everything is taken.
    pub(super) fn sampled_bytes(&self) -> Option<u64> {
        self.text_bytes().filter(|_| self.sample_is_everything())
    }

    /// Bytes of text that are taken of one source; `None` if that is not known, exactly or closely, before reading.
    /// It is `None` too if the source has a limit.
    pub(super) fn bytes_of(&self, source: usize) -> Option<u64> {
        let all = declared_sum(self.sources[source].units().iter().map(|unit| unit.text_bytes));
        all.filter(|_| self.source_samples[source].is_everything())
    }

    /// The shard that is read; `None` for the whole input.
    pub(super) fn part(&self) -> Option<&InputPart> {
        self.part.as_ref()
    }

    /// For each source, the number of its first unit that is read: how many come before it in other shards.
    pub(super) fn first_units(&self) -> Vec<u64> {
        self.part.as_ref().map_or_else(Vec::new, |part| part.first_units.clone())
    }

    /// What identifies the shard; `None` if all units are read.
    pub(super) fn shard(&self) -> Option<ShardState> {
        self.part.as_ref().map(InputPart::state)
    }

    /// The units of each source. The order is that in which they are read. The result is a copy.
    pub(super) fn units(&self) -> Vec<Vec<Unit>> {
        self.sources.iter().map(|source| source.units().to_vec()).collect()
    }

    /// Bytes of each source that are on other machines. Generated text has none.
    pub(super) fn bytes_elsewhere(&self) -> Vec<u64> {
        self.sources.iter().map(|source| source.bytes_elsewhere()).collect()
    }

    /// The number of units of a source.
    pub(super) fn units_of(&self, source: usize) -> usize {
        self.sources.get(source).map_or(0, |source| source.units().len())
    }

    /// The name of a unit, for messages.
    pub(super) fn unit_name(&self, source: usize, unit: usize) -> String {
        unit_name(&self.sources, source, unit)
    }

    /// The name of the sample, for messages about a row that comes from this source. The rows of a sample are counted
    /// over all sources.
    pub(super) fn sample_name(&self, source: usize) -> String {
        self.uris
            .get(source)
            .map_or_else(|| "the sample".to_owned(), |uri| format!("the sample ({})", shown_uri(uri)))
    }

    /// Identifies the content of each unit again, by source and unit, after it was read. Most content is hashed, on
    /// the threads of the current pool.
    ///
    /// # Errors
    /// - A unit cannot be read, even if none of its rows were taken.
    /// - The content of a unit differs from the first time it was identified, or a file from when it was listed.
    /// - The observer asks to stop.
    pub(super) fn identities_now(&self) -> Result<Vec<Vec<Identity>>> {
        self.check_stamps()?;
        let found = self.of_all_units(|source, unit| self.identity(source, unit));
        let found = found.into_iter().map(|units| units.into_iter().flatten().collect());
        let found = found.collect::<Result<Vec<Vec<_>>>>()?;
        let complete =
            self.sources.iter().zip(&found).all(|(source, found)| source.units().len() == found.len());
        debug_assert!(complete, "every unit of the listing is asked about");
        Ok(found)
    }

    /// Checks that all units have the content that they had when they were first identified.
    ///
    /// # Errors
    /// Those of [`identities_now`](Inputs::identities_now).
    pub(super) fn check_unchanged(&self) -> Result<()> {
        self.identities_now().map(drop)
    }

    /// Checks that files have the size and time of change that they had when they were opened. This is enough if no
    /// later run compares the input.
    ///
    /// # Errors
    /// A file has another size or another time of change than when it was opened.
    pub fn check_stamps(&self) -> Result<()> {
        let found = self.sources.iter().find_map(|source| source.changed());
        found.map_or(Ok(()), |name| Err(source::changed(name)))?;
        self.development.as_ref().map_or(Ok(()), |texts| texts.check_stamps())
    }

    /// Identifies each unit, by source, on the threads of the current pool. Units that are identified together are
    /// identified once. If that fails, the first of them has the error and the others have `None`.
    fn of_all_units(
        &self,
        find: impl Fn(usize, usize) -> Result<Identity> + Sync,
    ) -> Vec<Vec<Option<Result<Identity>>>> {
        let of = |(number, source): (usize, &Arc<dyn Source>)| {
            let firsts: Vec<usize> =
                (0..source.units().len()).map(|unit| source.identified_with(unit)).collect();
            let mut found: Vec<Option<Result<Identity>>> = (0..firsts.len())
                .into_par_iter()
                .map(|unit| {
                    (firsts[unit] == unit)
                        .then(|| self.observer.checkpoint().and_then(|()| find(number, unit)))
                })
                .collect();
            for (unit, &first) in firsts.iter().enumerate().filter(|(unit, first)| unit != *first) {
                found[unit] = found[first].as_ref().and_then(|found| found.as_ref().ok().cloned()).map(Ok);
            }
            found
        };
        self.sources.iter().enumerate().map(of).collect()
    }

    /// Identifies a unit again.
    ///
    /// # Errors
    /// It cannot be read, or differs from the first time it was identified.
    fn identity(&self, source: usize, unit: usize) -> Result<Identity> {
        let found = self.sources[source].identity(unit)?;
        match self.identities.get() {
            Some(known) if known[source][unit] != found => {
                Err(source::changed(&self.unit_name(source, unit)))
            }
            _ => Ok(found),
        }
    }

    /// The inputs for the manifest, in order: the units, with the units of a file that is identified as a whole
    /// joined into one. Those of a shard, which may have a part of a file, keep their range.
    ///
    /// # Errors
    /// A unit cannot be read.
    pub(super) fn listed(&self) -> Result<Vec<ManifestInput>> {
        let mut inputs: Vec<ManifestInput> = Vec::new();
        for (source, identities) in self.sources.iter().zip(self.identities()?) {
            for (Unit { name, range, .. }, identity) in source.units().iter().zip(identities) {
                match inputs.last_mut().filter(|last| last.name == *name && last.identity == *identity) {
                    Some(same) if self.part.is_some() => same.range = joined_range(same.range, *range),
                    Some(same) => same.range = RowRange::Whole,
                    None => {
                        inputs.push(ManifestInput {
                            name: name.clone(),
                            range: *range,
                            identity: identity.clone(),
                        });
                    }
                }
            }
        }
        Ok(inputs)
    }

    /// The range and identity of each unit of a source.
    ///
    /// # Errors
    /// A unit cannot be read.
    pub(super) fn identified(&self, source: usize) -> Result<Vec<(RowRange, Identity)>> {
        let identities = self.identities()?[source].iter().cloned();
        Ok(self.sources[source].units().iter().map(|unit| unit.range).zip(identities).collect())
    }

    /// The identity of each unit, by source. Identifies the units at the first call.
    ///
    /// # Errors
    /// A unit cannot be read, or the observer asks to stop.
    fn identities(&self) -> Result<&[Vec<Identity>]> {
        if self.identities.get().is_none() {
            let found = self.of_all_units(|source, unit| self.sources[source].identity(unit));
            let found =
                found.into_iter().map(|units| units.into_iter().flatten().collect::<Result<Vec<_>>>());
            let found = found.collect::<Result<Vec<_>>>()?;
            // Two threads may identify units at once. Either result may be kept: they are equal.
            let _ = self.identities.set(found);
        }
        Ok(self.identities.get().map_or(&[], Vec::as_slice))
    }

    /// The whole input as one unit, as which a shuffled or limited sample is treated.
    pub(super) fn as_one_unit(&self) -> Unit {
        Unit { name: "sample".to_owned(), range: RowRange::Whole, rows: None, text_bytes: None }
    }

    /// The identity of that unit.
    ///
    /// It is the fingerprint of the whole input, since any unit may contribute to the sample.
    pub(super) fn as_one_identity(&self, fingerprint: &str) -> Identity {
        Identity::Content { bytes: self.text_bytes().unwrap_or(0), sha256: fingerprint.to_owned() }
    }

    /// A fingerprint of the content of all units: SHA-256, in hex.
    ///
    /// It covers the number of units of each source, their ranges and identities, and the values that folder names
    /// give to columns (`lang=de`). Names of files are left out, so that files may be moved. The address of a source
    /// counts only for generated text.
    ///
    /// The first call may read the whole input. Later calls use the kept identities.
    ///
    /// # Errors
    /// A unit cannot be read, or the observer asks to stop.
    pub(super) fn fingerprint(&self) -> Result<String> {
        let mut digest = Sha256::new();
        for ((source, uri), identities) in self.sources.iter().zip(&self.uris).zip(self.identities()?) {
            digest.update(to_u64(source.units().len()).to_le_bytes());
            let columns = source.columns();
            for (unit, identity) in source.units().iter().zip(identities) {
                digest.update(serde_json::to_vec(&(unit.range, identity)).expect("plain data"));
                // Values that paths give to columns are part of the content.
                for column in columns.iter().flat_map(|columns| columns.fields()) {
                    if let Some(value) = value_in_path(&unit.name, column.name()) {
                        digest.update(serde_json::to_vec(&(column.name(), value)).expect("plain data"));
                    }
                }
            }
            if identities.iter().any(Identity::is_told_by_name) {
                digest.update(uri);
            }
        }
        if let Some(development) = &self.development {
            digest.update(development.fingerprint()?);
        }
        Ok(hex(&digest.finalize()))
    }

    /// Whether one of the sources can be read only once.
    pub(super) fn read_once(&self) -> bool {
        self.sources.iter().any(|source| source.is_stream())
    }

    /// The pass-through columns, with types that hold the values of all sources.
    ///
    /// Sources are compared column by column, in the order of the plan. A lost annotation becomes a note.
    ///
    /// # Errors
    /// Two sources have types without a common type.
    pub(super) fn columns(&self) -> Result<Vec<FieldRef>> {
        // A source has no schema if all its files were skipped.
        let sources = self.sources.iter().zip(&self.uris);
        let mut schemas = sources.filter_map(|(source, uri)| Some((source.columns()?, uri)));
        let Some((first, first_uri)) = schemas.next() else { return Ok(Vec::new()) };
        let mut columns = first.fields().to_vec();
        for (other, uri) in schemas {
            for (one, two) in columns.iter_mut().zip(other.fields()) {
                let common = common_field(one, two).ok_or_else(|| {
                    let column = one.name();
                    let (one, two) = (type_in_words(one.data_type()), type_in_words(two.data_type()));
                    let (first, other) = (shown_uri(first_uri), shown_uri(uri));
                    Error::usage(format!("column {column:?} holds {one} in {first}, and {two} in {other}"))
                        .with_help(
                            "leave that column out, or encode the sources into separate folders, or convert one of \
                             them first: fields of JSON pass through as text",
                        )
                })?;
                for lost in [&*one, two].into_iter().flat_map(|field| lost_annotations(field, &common)) {
                    self.skipped_rows.add_file_note(0, without_annotation(common.name(), &lost));
                }
                *one = common;
            }
        }
        Ok(columns)
    }

    /// Tells the observer about oddities in the set of files, about columns that files lack, and about text in which
    /// bytes were replaced. Each sentence is given only once.
    fn note_source_findings(&self, observer: &dyn Observer) {
        let skipped_rows = &self.skipped_rows;
        let notes = skipped_rows
            .file_notes()
            .into_iter()
            .chain(skipped_rows.missing_columns())
            .chain(skipped_rows.replaced());
        notes.for_each(|note| observer.noted(&note));
    }

    /// The number of rows or files that were skipped. Tells the observer about those that are listed, or else about
    /// the first.
    pub fn skipped(&self, observer: &dyn Observer) -> u64 {
        self.note_source_findings(observer);
        let listed = self.skipped_rows.listed();
        listed.iter().for_each(|skipped| observer.noted(&format!("left out: {}", skipped.problem)));
        if let Some(first) = self.first_skipped().filter(|_| listed.is_empty()) {
            observer.noted(&first);
        }
        self.skipped_rows.count()
    }

    /// A sentence about the first row or file that was skipped, if any was.
    pub(super) fn first_skipped(&self) -> Option<String> {
        self.skipped_rows.first().map(|first| format!("the first that was left out: {first}"))
    }

    /// The rows and files that were skipped.
    pub(super) fn skipped_rows(&self) -> &SkippedRows {
        &self.skipped_rows
    }
}

/// Tells the observer about files that two sources contain, which are read twice.
///
/// Each pair of sources gets one note at most. Paths are compared with symbolic links resolved.
fn note_files_read_twice(plan: &Plan, sources: &[Arc<dyn Source>], observer: &dyn Observer) {
    let mut owners: HashMap<PathBuf, usize> = HashMap::new();
    let mut reported = BTreeSet::new();
    for (number, source) in sources.iter().enumerate().filter(|_| sources.len() > 1) {
        for unit in source.units() {
            let path = fs::canonicalize(&unit.name).unwrap_or_else(|_| PathBuf::from(&unit.name));
            let first = *owners.entry(path).or_insert(number);
            if first != number && reported.insert((first, number)) {
                let uri = |number: usize| shown_uri(&plan.sources[number].uri);
                observer.noted(&format!(
                    "{} is read twice: by {} and by {}",
                    shown_uri(&unit.name),
                    uri(first),
                    uri(number)
                ));
            }
        }
    }
}

/// Joins two adjacent ranges of a file.
fn joined_range(first: RowRange, next: RowRange) -> RowRange {
    match (first, next) {
        (RowRange::RowGroups(from, _), RowRange::RowGroups(_, to)) => RowRange::RowGroups(from, to),
        (RowRange::Bytes(from, _), RowRange::Bytes(_, to)) => RowRange::Bytes(from, to),
        (RowRange::Rows(from, _), RowRange::Rows(_, to)) => RowRange::Rows(from, to),
        _ => RowRange::Whole,
    }
}

/// The documents of a source up to its limit, in order. They are complete if there is a limit. `threads` is the
/// number of threads that read ahead; with 0 the consumer reads.
fn up_to(
    source: Arc<dyn Source>,
    limit: &SampleConfig,
    threads: usize,
    memory: ByteCount,
) -> Documents<'static> {
    let documents = source::in_order(vec![Arc::clone(&source)], threads);
    if limit.is_everything() {
        return documents;
    }
    let name = move |_, unit| unit_name(&[Arc::clone(&source)], 0, unit);
    sample(joined_parts(documents, Arc::new(name), memory), limit)
}

/// Joins the parts of documents. A document that is too long for this amount of memory is an error. `name` gives the
/// name of a unit for the message.
fn joined_parts(documents: Documents<'static>, name: UnitName, memory: ByteCount) -> Documents<'static> {
    let checked = refuse_long_documents(documents, Arc::clone(&name), memory);
    source::collected_documents_named(checked, move |source, unit| name(source, unit))
}

/// The name of a unit, for messages.
///
/// A unit that does not exist belongs to a sample, which is treated as one unit.
fn unit_name(sources: &[Arc<dyn Source>], source: usize, unit: usize) -> String {
    let unit = sources.get(source).and_then(|source| source.units().get(unit));
    unit.map_or_else(|| "the sample".to_owned(), |unit| unit.name.clone())
}

/// Tells the observer if the names of a source's files show that they are several splits of a dataset: all are read,
/// even those for tests. A pattern gets no note, since it says which files are wanted.
pub(super) fn note_other_splits(spec: &SourceSpec, source: &dyn Source, observer: &dyn Observer) {
    let uri = spec.uri.as_str();
    if uri.contains(['*', '?', '[']) {
        return;
    }
    let names: Vec<&str> = source.units().iter().map(|unit| unit.name.as_str()).collect();
    let folder = common_folder(&names);
    let found: BTreeSet<&str> = names.iter().flat_map(|name| splits(&name[folder..])).collect();
    if found.len() > 1 {
        let found: Vec<&str> = found.into_iter().collect();
        observer.noted(&format!(
            "{} has files of {}: all are read. A pattern such as \"…/{}*\" selects some",
            shown_uri(uri),
            found.join(" and "),
            found[0],
        ));
    }
}

/// The type of a column in words, for messages.
fn type_in_words(of: &DataType) -> String {
    match of {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".to_owned(),
        of if of.is_integer() => format!("integers ({of})"),
        of => of.to_string(),
    }
}

/// The length in bytes of the common beginning of the paths, up to and including a slash; 0 if there is none. This is
/// the folder or repository, and its own name says nothing about splits.
fn common_folder(names: &[&str]) -> usize {
    let Some((first, others)) = names.split_first() else { return 0 };
    let common =
        |name: &&str| first.bytes().zip(name.bytes()).take_while(|(one, other)| one == other).count();
    let common = others.iter().map(common).min().unwrap_or(first.len());
    first.as_bytes()[..common].iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1)
}

/// Tells the observer which settings have no effect. A setting is reported only if it has no effect on any source for
/// which it is set: a flag is set for all inputs, and may concern only some of them.
pub(super) fn note_unused_settings<'a>(
    plan: &Plan,
    sources: impl Iterator<Item = &'a dyn Source>,
    observer: &dyn Observer,
) {
    let formats: Vec<Option<Format>> = sources.map(Source::format).collect();
    let is_unused = |is_given: fn(&SourceSpec) -> bool,
                     has_no_effect: fn(&SourceSpec, Option<Format>) -> bool| {
        let mut specs = plan.sources.iter().zip(&formats).filter(|(spec, _)| is_given(spec)).peekable();
        specs.peek().is_some() && specs.all(|(spec, &format)| has_no_effect(spec, format))
    };
    let documents = is_unused(
        |spec| spec.documents != DocumentRule::default(),
        |_, format| format.is_some_and(|format| format != Format::Text),
    );
    let column = is_unused(|spec| spec.column.is_some(), |_, format| format == Some(Format::Text));
    let template = is_unused(|spec| spec.template.is_some(), |_, format| format == Some(Format::Text));
    let join = is_unused(
        |spec| spec.join.is_some(),
        |spec, _| !spec.template.as_ref().or(spec.column.as_ref()).is_some_and(|text| text.contains("[]")),
    );
    let stream = is_unused(|spec| spec.stream, |spec, _| !spec.uri.contains("://"));
    let seed = plan.sample.seed != 0 && plan.sample.shuffle_buffer == 0;
    for (is_unused, what) in [
        (documents, "`documents` has no effect: only plain text is cut into documents"),
        (column, "`column` has no effect: plain text has no columns"),
        (template, "`template` has no effect: plain text has no columns"),
        (join, "`join` has no effect: it joins the items of a list column such as `column = \"a[]\"`"),
        (stream, "`stream` has no effect: it is for remote files only"),
        (seed, "`seed` has no effect: without `shuffle_buffer` nothing is shuffled"),
    ] {
        if is_unused {
            observer.noted(what);
        }
    }
    if let Some(train) = plan.train.as_ref().filter(|train| !train.formats.contains(&vocab::Format::Hf)) {
        note_lost_transformers_settings(train, observer);
    }
    for key in &plan.unused_keys {
        observer.noted(&format!("`{key}` has no effect: nothing is encoded"));
    }
}

/// Tells the observer which settings for `transformers` are lost because the tokenizer is not written in the format
/// `hf`.
fn note_lost_transformers_settings(train: &TrainPlan, observer: &dyn Observer) {
    let TransformersConfig { pad, unk, mask, model_max_length, chat_template, kept: _ } = &train.transformers;
    let given = [
        ("`bos`", train.bos.is_some()),
        ("`eos`", train.eos.is_some()),
        ("`pad`", pad.is_some()),
        ("`unk`", unk.is_some()),
        ("`mask`", mask.is_some()),
        ("`model_max_length`", model_max_length.is_some()),
        ("`chat_template`", chat_template.is_some()),
    ];
    let given: Vec<&str> = given.into_iter().filter(|(_, given)| *given).map(|(key, _)| key).collect();
    if !given.is_empty() {
        let keys = given.join(", ");
        observer.noted(&format!("{keys} of training: no effect, since only the format `hf` can store this"));
    }
}

/// The error for an input or a sample without text. `error` is given which of the two it is.
///
/// If rows or files were skipped, the help is the first of them, as that is the probable cause.
pub(super) fn no_text(inputs: &Inputs<'_>, purpose: &str) -> Error {
    let (whole, help) = if inputs.sample_is_everything() {
        ("input", "check that the input is the right one, and its column or field".to_owned())
    } else {
        ("sample", inputs.why_sample_is_empty())
    };
    let help = inputs.first_skipped().unwrap_or(help);
    Error::failed(format!("there is nothing to {purpose} on: the {whole} has no text")).with_help(help)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::ErrorKind;
    use crate::observer::Silent;
    use crate::source::SourceSpec;

    /// A file of many units that counts how often its identity is asked for.
    struct UnitsOfTest(Vec<Unit>, AtomicUsize);

    impl Source for UnitsOfTest {
        fn units(&self) -> &[Unit] {
            &self.0
        }

        fn identity(&self, _unit: usize) -> Result<Identity> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Ok(Identity::Stream)
        }

        fn identified_with(&self, unit: usize) -> usize {
            unit - unit % 10
        }

        fn read(&self, _unit: usize) -> Result<Documents<'static>> {
            Ok(Box::new(std::iter::empty()))
        }
    }

    fn inputs(source: Arc<dyn Source>, uri: &str) -> Inputs<'static> {
        Inputs {
            observer: &Silent,
            sources: vec![source],
            uris: vec![uri.to_owned()],
            part: None,
            source_samples: vec![SampleConfig::default()],
            sample: SampleConfig::default(),
            threads: 1,
            memory: ByteCount(1 << 30),
            development: None,
            skipped_rows: Arc::default(),
            identities: OnceLock::new(),
        }
    }

    #[test]
    fn what_is_identified_together_is_identified_once() {
        let unit = |at| Unit {
            name: "a".to_owned(),
            range: RowRange::RowGroups(at, at + 1),
            rows: None,
            text_bytes: None,
        };
        let parts = Arc::new(UnitsOfTest((0..25).map(unit).collect(), AtomicUsize::new(0)));
        let inputs = inputs(parts.clone(), "a");
        let asked = || parts.1.swap(0, Ordering::Relaxed);
        inputs.fingerprint().expect("identified");
        assert_eq!(asked(), 3);
        assert_eq!(inputs.identities_now().expect("the same")[0].len(), 25);
        assert_eq!(asked(), 3);
        inputs.check_unchanged().expect("the same");
        assert_eq!(asked(), 3);
    }

    #[test]
    fn input_that_changed_since_it_was_first_identified_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "one text").expect("a file");
        let spec = SourceSpec { uri: path.display().to_string(), ..SourceSpec::default() };
        let source = source::open(&spec, 0, &OpenContext::new(&Silent)).expect("a source");
        let inputs = inputs(source, &spec.uri);
        inputs.fingerprint().expect("identified");
        assert!(inputs.identities_now().is_ok() && inputs.check_stamps().is_ok());
        std::fs::write(&path, "another").expect("a file");
        let now = inputs.identities_now().map(drop);
        for outcome in [now, inputs.check_unchanged(), inputs.check_stamps()] {
            let error = outcome.expect_err("it is not the same");
            assert!(error.to_string().contains("a.txt changed"), "{error}");
        }
    }

    /// A sample holds whole documents, so the memory limit also applies to a source without a limit beside one that has
    /// a limit.
    #[test]
    fn a_sample_refuses_documents_beyond_the_memory_limit_of_every_source() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = |(source, (name, bytes)): (usize, (&str, usize))| {
            let path = folder.path().join(name);
            std::fs::write(&path, "x".repeat(bytes)).expect("a file");
            let spec = SourceSpec { uri: path.display().to_string(), ..SourceSpec::default() };
            source::open(&spec, source, &OpenContext::new(&Silent)).expect("a source")
        };
        let sources: Vec<_> =
            [("short.txt", 9), ("long.txt", 9 << 20)].into_iter().enumerate().map(open).collect();
        let one = SampleConfig { take: Some(1), ..SampleConfig::default() };
        for source_samples in [[one, SampleConfig::default()], [one, one], [SampleConfig::default(); 2]] {
            for (memory, error) in [(1 << 20, Some(ErrorKind::Memory)), (1 << 30, None)] {
                let inputs = Inputs {
                    sources: sources.clone(),
                    source_samples: source_samples.to_vec(),
                    sample: SampleConfig { skip: 1, ..SampleConfig::default() },
                    memory: ByteCount(memory),
                    ..inputs(Arc::clone(&sources[0]), "short.txt")
                };
                let found = inputs.sampled(ReadBy::Takers).find_map(std::result::Result::err);
                assert_eq!(found.as_ref().map(Error::kind), error, "{found:?}");
            }
        }
    }

    #[test]
    fn what_all_paths_begin_with_says_nothing() {
        assert_eq!(
            common_folder(&["hf://datasets/a/test@1/data/train-0", "hf://datasets/a/test@1/data/train-1"]),
            28
        );
        assert_eq!(common_folder(&["a/b"]), 2);
        assert_eq!(common_folder(&["tést", "tèst"]), 0);
        assert_eq!(common_folder(&[]), 0);
    }
}
