use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::{fmt, fs};

use arrow_schema::FieldRef;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use sha2::{Digest, Sha256};

use super::fault::Fault;
use super::idle::tell_idle;
use super::plan::Plan;
use super::room::{UnitName, held, longest_read, memory_for_documents};
use super::splits::tell_splits;
use super::state::State;
use crate::cast::{common_field, lost_annotations};
use crate::count::TooLongForMemory;
use crate::digest::hex;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::Observer;
use crate::sample::{SampleConfig, sample};
use crate::sink::Input;
use crate::source::{
    self, Batch, Documents, Identity, Incidents, OpenContext, Range, Source, SourceSpec, Unit, shown_uri,
    value_in_path, without_annotation,
};
use crate::units::{ByteCount, amount, declared_sum};

/// What helps where a sample of an input has nothing in it.
pub(super) const TAKE_MORE: &str =
    "take more of the input: a document that does not fit `max_bytes` is not cut";

/// The sources of a plan, listed and ready to be read as often as is needed.
pub struct Inputs<'a> {
    observer: &'a dyn Observer,
    sources: Vec<Arc<dyn Source>>,
    /// Where each source is.
    uris: Vec<String>,
    /// What is taken of each source, and then of all.
    limits: Vec<SampleConfig>,
    sample: SampleConfig,
    threads: usize,
    /// What documents that are held may take.
    memory: ByteCount,
    incidents: Arc<Incidents>,
    /// What identified the units, by source, when that was first asked: hashing text takes its time.
    identities: OnceLock<Vec<Vec<Identity>>>,
}

impl fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs").field("uris", &self.uris).finish_non_exhaustive()
    }
}

/// Which threads read documents.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadBy {
    /// Some that do nothing else, ahead of those that take them.
    Readers,
    /// Those that take them in turn, where the sources are plain.
    Takers,
}

impl<'a> Inputs<'a> {
    /// Lists the sources of a plan; those that are encoded with the columns to be passed through.
    ///
    /// # Errors
    /// A source cannot be opened.
    pub fn open(plan: &Plan, context: &OpenContext<'a>) -> Result<Inputs<'a>> {
        Inputs::open_by(plan, context, |spec, number| source::open(spec, number, context))
    }

    /// The same for a look, for which nothing is downloaded.
    pub(super) fn look(plan: &Plan, context: &OpenContext<'a>) -> Result<Inputs<'a>> {
        Inputs::open_by(plan, context, |spec, number| source::look(spec, number, context))
    }

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
        let sources = plan.sources.iter().enumerate().map(open).collect::<Result<Vec<_>>>()?;
        tell_twice(plan, &sources, context.observer);
        tell_idle(plan, sources.iter().map(|source| &**source), context.observer);
        for (spec, source) in plan.sources.iter().zip(&sources) {
            tell_splits(spec, &**source, context.observer);
        }
        let incidents = Arc::clone(&context.incidents);
        let inputs = Inputs {
            observer: context.observer,
            sources,
            uris: plan.sources.iter().map(|spec| spec.uri.clone()).collect(),
            limits: plan.limits.clone(),
            sample: plan.sample,
            threads: plan.threads,
            memory,
            incidents,
            identities: OnceLock::new(),
        };
        inputs.tell_beside(context.observer);
        Ok(inputs)
    }

    /// The documents of the sample, in order, each whole.
    pub fn documents(&self) -> Documents<'static> {
        self.whole(self.sampled(ReadBy::Readers))
    }

    /// What messages call the place of a document of the sample.
    pub fn place(&self, batch: &Batch, row: usize) -> String {
        format!("{}: row {}", self.name(batch.source, batch.unit), batch.first_row + amount(row))
    }

    /// Puts the place of the document before an error that tells source, unit and row by their numbers.
    pub(super) fn with_place(&self, error: Error) -> Error {
        match error.get_ref().downcast_ref::<TooLongForMemory>() {
            Some(&TooLongForMemory { source_number, unit, row, .. }) => {
                let name = self.name(source_number, unit);
                error.at(format!("{name}: row {row}"))
            }
            None => error,
        }
    }

    /// What messages call a unit whose documents are in the sample, or the sample, of which no row is known to be of a
    /// file.
    pub fn name(&self, source: usize, unit: usize) -> String {
        if self.sample_is_everything() { self.unit_name(source, unit) } else { self.sample_name(source) }
    }

    /// The documents of the sample, in order.
    pub(super) fn sampled(&self, read_by: ReadBy) -> Documents<'static> {
        let threads = self.readers(&self.sources, read_by);
        if self.limits.iter().all(SampleConfig::is_everything) {
            let documents = source::in_order(self.sources.clone(), threads);
            return match self.sample.is_everything() {
                true => documents,
                false => sample(self.whole(documents), &self.sample),
            };
        }
        let limits = self.limits.clone();
        let limited = self.sources.clone().into_iter().zip(limits);
        let memory = self.memory;
        let limited = limited.flat_map(move |(source, limit)| up_to(source, &limit, threads, memory));
        sample(Box::new(limited), &self.sample)
    }

    /// What is taken of one source, in order, read by those that take it where the source is plain.
    pub(super) fn limited(&self, source: usize) -> Documents<'static> {
        let threads = self.readers(&self.sources[source..=source], ReadBy::Takers);
        up_to(Arc::clone(&self.sources[source]), &self.limits[source], threads, self.memory)
    }

    /// Documents of the sources, made whole.
    pub(super) fn whole(&self, documents: Documents<'static>) -> Documents<'static> {
        let sources = self.sources.clone();
        whole(documents, Arc::new(move |source, unit| unit_name(&sources, source, unit)), self.memory)
    }

    /// What of the memory documents that are held may take.
    pub(super) fn memory(&self) -> ByteCount {
        self.memory
    }

    /// How many threads read these sources ahead. A single one that takes documents does not read them too.
    fn readers(&self, sources: &[Arc<dyn Source>], read_by: ReadBy) -> usize {
        let by_takers = read_by == ReadBy::Takers && self.threads > 1;
        if by_takers && sources.iter().all(|source| source.is_plain()) { 0 } else { self.threads }
    }

    /// All documents from those of a source's unit on, in order.
    pub(super) fn all_from(&self, source: usize, unit: usize) -> Documents<'static> {
        source::in_order_from(self.sources.clone(), (source, unit), self.threads)
    }

    /// The documents of one unit, or parts of them, read by those that take them.
    pub(super) fn read_unit(&self, source: usize, unit: usize) -> Result<Documents<'static>> {
        self.sources[source].read(unit)
    }

    /// Whether the sample is everything, in the order of the sources.
    pub(super) fn sample_is_everything(&self) -> bool {
        self.limits.iter().chain([&self.sample]).all(SampleConfig::is_everything)
    }

    /// Bytes of text in all documents, where that is known, exactly or closely, before reading.
    pub(super) fn text_bytes(&self) -> Option<u64> {
        declared_sum(self.sources.iter().flat_map(|source| source.units()).map(|unit| unit.text_bytes))
    }

    /// The same of the sample.
    pub(super) fn sampled_bytes(&self) -> Option<u64> {
        self.text_bytes().filter(|_| self.sample_is_everything())
    }

    /// Bytes of text that are taken of one source, where that is known, exactly or closely, before reading.
    pub(super) fn bytes_of(&self, source: usize) -> Option<u64> {
        let all = declared_sum(self.sources[source].units().iter().map(|unit| unit.text_bytes));
        all.filter(|_| self.limits[source].is_everything())
    }

    /// The units by source.
    pub(super) fn units(&self) -> Vec<Vec<Unit>> {
        self.sources.iter().map(|source| source.units().to_vec()).collect()
    }

    /// Bytes of each source that are neither on this machine nor generated.
    pub(super) fn bytes_elsewhere(&self) -> Vec<u64> {
        self.sources.iter().map(|source| source.bytes_elsewhere()).collect()
    }

    /// How many units a source has.
    pub(super) fn units_of(&self, source: usize) -> usize {
        self.sources.get(source).map_or(0, |source| source.units().len())
    }

    /// A unit's name, for messages.
    pub(super) fn unit_name(&self, source: usize, unit: usize) -> String {
        unit_name(&self.sources, source, unit)
    }

    /// What messages call a sample, whose rows are counted over all sources, where a row of it comes from this one.
    pub(super) fn sample_name(&self, source: usize) -> String {
        self.uris
            .get(source)
            .map_or_else(|| "the sample".to_owned(), |uri| format!("the sample ({})", shown_uri(uri)))
    }

    /// What identifies the content of each unit, by source and unit, after it was read. For most, content is hashed,
    /// which is done here, on the threads of the current pool.
    ///
    /// # Errors
    /// A unit, of which rows came or not, cannot be read, or is not what it was when that was first asked; a file is not
    /// what it was when it was listed.
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

    /// Looks whether all units are what they were when that was first asked.
    ///
    /// # Errors
    /// Those of [`identities_now`](Inputs::identities_now).
    pub(super) fn check_unchanged(&self) -> Result<()> {
        self.identities_now().map(drop)
    }

    /// The same by sizes and times alone, for what nobody compares with later.
    ///
    /// # Errors
    /// A file is not what it was when it was opened.
    pub fn check_stamps(&self) -> Result<()> {
        let found = self.sources.iter().find_map(|source| source.changed());
        found.map_or(Ok(()), |name| Err(source::changed(name)))
    }

    /// What identifies each unit, by source, found out on the threads of the current pool, once for those that are
    /// identified together. Of these an error is the first one's; the others have nothing then.
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

    fn identity(&self, source: usize, unit: usize) -> Result<Identity> {
        let found = self.sources[source].identity(unit)?;
        match self.identities.get() {
            Some(known) if known[source][unit] != found => {
                Err(source::changed(&self.unit_name(source, unit)))
            }
            _ => Ok(found),
        }
    }

    /// What is read, in order: the units, but as one those of a file that is identified as a whole.
    pub(super) fn listed(&self) -> Result<Vec<Input>> {
        let mut inputs: Vec<Input> = Vec::new();
        for (source, identities) in self.sources.iter().zip(self.identities()?) {
            for (Unit { name, range, .. }, identity) in source.units().iter().zip(identities) {
                match inputs.last_mut().filter(|last| last.name == *name && last.identity == *identity) {
                    Some(same) => same.range = Range::Whole,
                    None => {
                        inputs.push(Input { name: name.clone(), range: *range, identity: identity.clone() });
                    }
                }
            }
        }
        Ok(inputs)
    }

    /// The ranges of a source's units, and what identifies their content.
    pub(super) fn identified(&self, source: usize) -> Result<Vec<(Range, Identity)>> {
        let identities = self.identities()?[source].iter().cloned();
        Ok(self.sources[source].units().iter().map(|unit| unit.range).zip(identities).collect())
    }

    fn identities(&self) -> Result<&[Vec<Identity>]> {
        if self.identities.get().is_none() {
            let found = self.of_all_units(|source, unit| self.sources[source].identity(unit));
            let found =
                found.into_iter().map(|units| units.into_iter().flatten().collect::<Result<Vec<_>>>());
            let found = found.collect::<Result<Vec<_>>>()?;
            // Of two threads that ask at once either may win: they found the same.
            let _ = self.identities.set(found);
        }
        Ok(self.identities.get().map_or(&[], Vec::as_slice))
    }

    /// The whole input as one unit, which a shuffled or limited sample is.
    pub(super) fn as_one_unit(&self) -> Unit {
        Unit { name: "sample".to_owned(), range: Range::Whole, rows: None, text_bytes: None }
    }

    /// What identifies that unit.
    pub(super) fn as_one_identity(&self, state: &State) -> Identity {
        Identity::Content { bytes: self.text_bytes().unwrap_or(0), sha256: state.inputs.clone() }
    }

    /// Fingerprint of what all units hold, in hex.
    pub(super) fn fingerprint(&self) -> Result<String> {
        let mut digest = Sha256::new();
        for ((source, uri), identities) in self.sources.iter().zip(&self.uris).zip(self.identities()?) {
            digest.update(amount(source.units().len()).to_le_bytes());
            let columns = source.columns();
            for (unit, identity) in source.units().iter().zip(identities) {
                digest.update(serde_json::to_vec(&(unit.range, identity)).expect("plain data"));
                // What paths say of columns is part of the content.
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
        Ok(hex(&digest.finalize()))
    }

    /// Whether a source can be read once only.
    pub(super) fn read_once(&self) -> bool {
        self.sources.iter().any(|source| source.is_stream())
    }

    /// The pass-through columns, of types that have the values of all sources.
    ///
    /// # Errors
    /// Two sources have types of which there is none.
    pub(super) fn columns(&self) -> Result<Vec<FieldRef>> {
        // Of a source whose files were all left out nothing is known.
        let sources = self.sources.iter().zip(&self.uris);
        let mut schemas = sources.filter_map(|(source, uri)| Some((source.columns()?, uri)));
        let Some((first, first_uri)) = schemas.next() else { return Ok(Vec::new()) };
        let mut columns = first.fields().to_vec();
        for (other, uri) in schemas {
            for (one, two) in columns.iter_mut().zip(other.fields()) {
                let common = common_field(one, two).ok_or_else(|| {
                    let (column, one, two) =
                        (one.name().clone(), one.data_type().to_string(), two.data_type().to_string());
                    let (first, other) = (shown_uri(first_uri), shown_uri(uri));
                    let fault = Fault::ColumnsDiffer { column, one, first, two, other };
                    Error::new(ErrorKind::Usage, fault)
                        .with_help("leave that column out, or encode the sources on their own")
                })?;
                for lost in [&*one, two].into_iter().flat_map(|field| lost_annotations(field, &common)) {
                    self.incidents.note_of_files(0, without_annotation(common.name(), &lost));
                }
                *one = common;
            }
        }
        Ok(columns)
    }

    /// Tells what is odd about which files there are, of columns that files lack, and of text in which something was replaced, once each.
    fn tell_beside(&self, observer: &dyn Observer) {
        let incidents = &self.incidents;
        let told = incidents.of_files().into_iter().chain(incidents.lacking()).chain(incidents.replaced());
        told.for_each(|told| observer.noted(&told));
    }

    /// How many rows or files had to be left out. Tells of those that are listed, or else of the first.
    pub fn skipped(&self, observer: &dyn Observer) -> u64 {
        self.tell_beside(observer);
        let listed = self.incidents.listed();
        listed.iter().for_each(|incident| observer.noted(&format!("left out: {}", incident.problem)));
        if let Some(first) = self.first_left_out().filter(|_| listed.is_empty()) {
            observer.noted(&first);
        }
        self.incidents.count()
    }

    /// Says what was left out first, if anything was.
    pub(super) fn first_left_out(&self) -> Option<String> {
        self.incidents.first().map(|first| format!("the first that was left out: {first}"))
    }

    /// What had to be left out.
    pub(super) fn incidents(&self) -> &Incidents {
        &self.incidents
    }
}

/// Tells of a file that two sources have, which is then read twice.
fn tell_twice(plan: &Plan, sources: &[Arc<dyn Source>], observer: &dyn Observer) {
    let mut owners: HashMap<PathBuf, usize> = HashMap::new();
    let mut told = BTreeSet::new();
    for (number, source) in sources.iter().enumerate().filter(|_| sources.len() > 1) {
        for unit in source.units() {
            let path = fs::canonicalize(&unit.name).unwrap_or_else(|_| PathBuf::from(&unit.name));
            let first = *owners.entry(path).or_insert(number);
            if first != number && told.insert((first, number)) {
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

/// A source's documents up to its limit, in order.
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
    sample(whole(documents, Arc::new(name), memory), limit)
}

/// Documents, made whole within so much memory.
fn whole(documents: Documents<'static>, name: UnitName, memory: ByteCount) -> Documents<'static> {
    let held = held(documents, Arc::clone(&name), memory);
    source::whole_documents_of(held, move |source, unit| name(source, unit))
}

/// A unit's name, for messages.
fn unit_name(sources: &[Arc<dyn Source>], source: usize, unit: usize) -> String {
    let unit = sources.get(source).and_then(|source| source.units().get(unit));
    unit.map_or_else(|| "the sample".to_owned(), |unit| unit.name.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::observer::Silent;
    use crate::source::SourceSpec;

    /// A file of many parts that counts how often its identity is asked for.
    struct Parts(Vec<Unit>, AtomicUsize);

    impl Source for Parts {
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
            limits: vec![SampleConfig::default()],
            sample: SampleConfig::default(),
            threads: 1,
            memory: ByteCount(1 << 30),
            incidents: Arc::default(),
            identities: OnceLock::new(),
        }
    }

    #[test]
    fn what_is_identified_together_is_identified_once() {
        let unit = |at| Unit {
            name: "a".to_owned(),
            range: Range::RowGroups(at, at + 1),
            rows: None,
            text_bytes: None,
        };
        let parts = Arc::new(Parts((0..25).map(unit).collect(), AtomicUsize::new(0)));
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
}
