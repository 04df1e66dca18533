use std::sync::Arc;

use arrow_schema::{FieldRef, SchemaRef};
use sha2::{Digest, Sha256};

use super::fault::Fault;
use super::plan::Plan;
use super::state::State;
use crate::error::{Error, ErrorKind, Result};
use crate::sample::{SampleConfig, sample};
use crate::sink::InputFile;
use crate::source::{self, Documents, Identity, Incidents, OpenContext, Range, Source, Unit};
use crate::units::amount;

/// The sources of a run, listed and ready to be read as often as the run needs.
pub(super) struct Inputs {
    sources: Vec<Arc<dyn Source>>,
    sample: SampleConfig,
    threads: usize,
    incidents: Arc<Incidents>,
}

impl Inputs {
    /// Lists the sources of a plan; those that are encoded with the columns to be passed through.
    pub(super) fn open(plan: &Plan, context: &OpenContext<'_>) -> Result<Inputs> {
        let columns = plan.encode.as_ref().map(|encode| encode.columns.as_slice()).unwrap_or_default();
        let open = |(number, spec): (usize, &source::SourceSpec)| {
            let spec = source::SourceSpec { columns: columns.to_vec(), ..spec.clone() };
            source::open(&spec, number, context)
        };
        let sources = plan.sources.iter().enumerate().map(open).collect::<Result<Vec<_>>>()?;
        let incidents = Arc::clone(&context.incidents);
        Ok(Inputs { sources, sample: plan.sample, threads: plan.threads, incidents })
    }

    /// The documents of the sample, in order.
    pub(super) fn sampled(&self) -> Documents<'static> {
        sample(self.all(), &self.sample)
    }

    /// All documents, in order.
    pub(super) fn all(&self) -> Documents<'static> {
        source::in_order(self.sources.clone(), self.threads)
    }

    /// All documents from those of a source's unit on, in order.
    pub(super) fn all_from(&self, source: usize, unit: usize) -> Documents<'static> {
        source::in_order_from(self.sources.clone(), (source, unit), self.threads)
    }

    /// Whether the sample is everything, in the order of the sources.
    pub(super) fn sample_is_everything(&self) -> bool {
        self.sample == SampleConfig::default()
    }

    /// Bytes of text in all documents, where that is known, exactly or closely, before reading.
    pub(super) fn text_bytes(&self) -> Option<u64> {
        self.sources.iter().flat_map(|source| source.units()).map(|unit| unit.text_bytes).sum()
    }

    /// The same of the sample.
    pub(super) fn sampled_bytes(&self) -> Option<u64> {
        self.text_bytes().filter(|_| self.sample_is_everything())
    }

    /// The units by source.
    pub(super) fn units(&self) -> Vec<Vec<Unit>> {
        self.sources.iter().map(|source| source.units().to_vec()).collect()
    }

    /// How many units a source has.
    pub(super) fn units_of(&self, source: usize) -> usize {
        self.sources.get(source).map_or(0, |source| source.units().len())
    }

    /// A unit's name, for messages.
    pub(super) fn unit_name(&self, source: usize, unit: usize) -> String {
        let unit = self.sources.get(source).and_then(|source| source.units().get(unit));
        unit.map_or_else(|| "the sample".to_owned(), |unit| unit.name.clone())
    }

    /// What identifies the content of a unit.
    pub(super) fn identity(&self, source: usize, unit: usize) -> Result<Identity> {
        self.sources[source].identity(unit)
    }

    /// The files of all units, in order, with what identifies them.
    pub(super) fn files(&self) -> Result<Vec<InputFile>> {
        let mut files: Vec<InputFile> = Vec::new();
        for source in &self.sources {
            for (number, unit) in source.units().iter().enumerate() {
                if files.last().is_none_or(|file| file.name != unit.name) {
                    files.push(InputFile { name: unit.name.clone(), identity: source.identity(number)? });
                }
            }
        }
        Ok(files)
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
        for source in &self.sources {
            digest.update(amount(source.units().len()).to_le_bytes());
            for (number, unit) in source.units().iter().enumerate() {
                let identity = (unit.range, source.identity(number)?);
                digest.update(serde_json::to_vec(&identity).expect("plain data"));
            }
        }
        Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Whether a source can be read once only.
    pub(super) fn read_once(&self) -> Result<bool> {
        for source in &self.sources {
            if !source.units().is_empty() && source.identity(0)? == Identity::Stream {
                return Ok(true);
            }
        }
        Ok(false)
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

    /// What had to be left out.
    pub(super) fn incidents(&self) -> &Incidents {
        &self.incidents
    }
}

fn types(schema: &SchemaRef) -> impl Iterator<Item = (&String, &arrow_schema::DataType)> {
    schema.fields().iter().map(|field| (field.name(), field.data_type()))
}
