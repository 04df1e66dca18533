use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow_schema::{FieldRef, SchemaRef};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use sha2::{Digest, Sha256};

use super::fault::Fault;
use super::plan::Plan;
use super::state::State;
use crate::digest::hex;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::Observer;
use crate::sample::{SampleConfig, sample};
use crate::sink::Input;
use crate::source::{self, Batch, Documents, Identity, Incidents, OpenContext, Range, Source, Unit};
use crate::units::{amount, declared_sum};

/// What helps where a sample of an input has nothing in it.
pub(super) const TAKE_MORE: &str =
    "take more of the input: a document that does not fit `max_bytes` is not cut";

/// The sources of a plan, listed and ready to be read as often as is needed.
pub struct Inputs {
    sources: Vec<Arc<dyn Source>>,
    /// Where each source is.
    uris: Vec<String>,
    /// What is taken of each source, and then of all.
    limits: Vec<SampleConfig>,
    sample: SampleConfig,
    threads: usize,
    incidents: Arc<Incidents>,
    /// What identified the units, by source, when that was first asked: hashing text takes its time.
    identities: OnceLock<Vec<Vec<Identity>>>,
}

impl fmt::Debug for Inputs {
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

impl Inputs {
    /// Lists the sources of a plan; those that are encoded with the columns to be passed through.
    ///
    /// # Errors
    /// A source cannot be opened.
    pub fn open(plan: &Plan, context: &OpenContext<'_>) -> Result<Inputs> {
        let columns = plan.encode.as_ref().map(|encode| encode.columns.as_slice()).unwrap_or_default();
        let open = |(number, spec): (usize, &source::SourceSpec)| {
            let spec = source::SourceSpec { columns: columns.to_vec(), ..spec.clone() };
            source::open(&spec, number, context)
        };
        let sources = plan.sources.iter().enumerate().map(open).collect::<Result<Vec<_>>>()?;
        let incidents = Arc::clone(&context.incidents);
        Ok(Inputs {
            sources,
            uris: plan.sources.iter().map(|spec| spec.uri.clone()).collect(),
            limits: plan.limits.clone(),
            sample: plan.sample,
            threads: plan.threads,
            incidents,
            identities: OnceLock::new(),
        })
    }

    /// The documents of the sample, in order, each whole.
    pub fn documents(&self) -> Documents<'static> {
        self.whole(self.sampled(ReadBy::Readers))
    }

    /// What messages call the place of a document of the sample.
    pub fn place(&self, batch: &Batch, row: usize) -> String {
        format!("{}: row {}", self.name(batch.source, batch.unit), batch.first_row + amount(row))
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
        let limited = limited.flat_map(move |(source, limit)| up_to(source, &limit, threads));
        sample(Box::new(limited), &self.sample)
    }

    /// What is taken of one source, in order, read by those that take it where the source is plain.
    pub(super) fn limited(&self, source: usize) -> Documents<'static> {
        let threads = self.readers(&self.sources[source..=source], ReadBy::Takers);
        up_to(Arc::clone(&self.sources[source]), &self.limits[source], threads)
    }

    /// Documents of the sources, made whole.
    pub(super) fn whole(&self, documents: Documents<'static>) -> Documents<'static> {
        let sources = self.sources.clone();
        source::whole_documents_of(documents, move |source, unit| unit_name(&sources, source, unit))
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
        self.uris.get(source).map_or_else(|| "the sample".to_owned(), |uri| format!("the sample ({uri})"))
    }

    /// What identifies the content of each unit, by source and unit, after it was read. For most, content is hashed,
    /// which is done here, on the threads of the current pool.
    ///
    /// # Errors
    /// For a unit: it cannot be read, or is not what it was when that was first asked.
    pub(super) fn identities_now(&self) -> impl FnMut(usize, usize) -> Result<Identity> {
        let mut found: Vec<Vec<Option<Result<Identity>>>> =
            self.of_all_units(|source, unit| Some(self.identity(source, unit)));
        move |source, unit| found[source][unit].take().unwrap_or_else(|| self.identity(source, unit))
    }

    /// Looks whether all units are what they were when that was first asked.
    ///
    /// # Errors
    /// One of them cannot be read, or is not.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        let found = self.of_all_units(|source, unit| self.identity(source, unit));
        found.into_iter().flatten().try_for_each(|found| found.map(|_| ()))
    }

    /// What is found out of each unit, by source, on the threads of the current pool.
    fn of_all_units<R: Send>(&self, find: impl Fn(usize, usize) -> R + Sync) -> Vec<Vec<R>> {
        let of = |(number, source): (usize, &Arc<dyn Source>)| {
            (0..source.units().len()).into_par_iter().map(|unit| find(number, unit)).collect()
        };
        self.sources.iter().enumerate().map(of).collect()
    }

    fn identity(&self, source: usize, unit: usize) -> Result<Identity> {
        let found = self.sources[source].identity(unit)?;
        match self.identities.get() {
            Some(known) if known[source][unit] != found => {
                let fault = Fault::InputChanged { name: self.unit_name(source, unit) };
                Err(Error::new(ErrorKind::Failed, fault)
                    .with_help("run it again when nothing writes to the input any more"))
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
            let found = found.into_iter().map(|units| units.into_iter().collect::<Result<Vec<_>>>());
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
            for (unit, identity) in source.units().iter().zip(identities) {
                digest.update(serde_json::to_vec(&(unit.range, identity)).expect("plain data"));
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

    /// The pass-through columns, which all sources must have alike.
    pub(super) fn columns(&self) -> Result<Vec<FieldRef>> {
        let mut schemas = self.sources.iter().map(|source| source.columns());
        let first: Option<SchemaRef> = schemas.next().flatten();
        for other in schemas {
            let same = match (&first, &other) {
                (Some(first), Some(other)) => types(first).eq(types(other)),
                (first, other) => first.is_none() && other.is_none(),
            };
            if !same {
                return Err(Error::new(ErrorKind::Usage, Fault::ColumnsDiffer)
                    .with_help("leave out the columns that differ, or encode the sources on their own"));
            }
        }
        Ok(first.map(|schema| schema.fields().to_vec()).unwrap_or_default())
    }

    /// How many rows or files had to be left out. Tells of the first.
    pub fn skipped(&self, observer: &dyn Observer) -> u64 {
        if let Some(first) = self.incidents.first() {
            observer.noted(&format!("the first that was left out: {first}"));
        }
        self.incidents.count()
    }

    /// What had to be left out.
    pub(super) fn incidents(&self) -> &Incidents {
        &self.incidents
    }
}

/// A source's documents up to its limit, in order.
fn up_to(source: Arc<dyn Source>, limit: &SampleConfig, threads: usize) -> Documents<'static> {
    let documents = source::in_order(vec![Arc::clone(&source)], threads);
    if limit.is_everything() {
        return documents;
    }
    let name = move |_, unit| unit_name(&[Arc::clone(&source)], 0, unit);
    sample(source::whole_documents_of(documents, name), limit)
}

/// A unit's name, for messages.
fn unit_name(sources: &[Arc<dyn Source>], source: usize, unit: usize) -> String {
    let unit = sources.get(source).and_then(|source| source.units().get(unit));
    unit.map_or_else(|| "the sample".to_owned(), |unit| unit.name.clone())
}

fn types(schema: &SchemaRef) -> impl Iterator<Item = (&String, &arrow_schema::DataType)> {
    schema.fields().iter().map(|field| (field.name(), field.data_type()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use crate::source::SourceSpec;

    #[test]
    fn input_that_changed_since_it_was_first_identified_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "one text").expect("a file");
        let spec = SourceSpec { uri: path.display().to_string(), ..SourceSpec::default() };
        let source = source::open(&spec, 0, &OpenContext::new(&Silent)).expect("a source");
        let inputs = Inputs {
            sources: vec![source],
            uris: vec![spec.uri],
            limits: vec![SampleConfig::default()],
            sample: SampleConfig::default(),
            threads: 1,
            incidents: Arc::default(),
            identities: OnceLock::new(),
        };
        inputs.fingerprint().expect("identified");
        assert!(inputs.identities_now()(0, 0).is_ok());
        std::fs::write(&path, "another").expect("a file");
        let now = inputs.identities_now()(0, 0).map(|_| ());
        for outcome in [now, inputs.check_unchanged()] {
            let error = outcome.expect_err("it is not the same");
            assert!(error.to_string().contains("a.txt changed"), "{error}");
        }
    }
}
