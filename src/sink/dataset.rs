use std::fs;
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::FieldRef;

use super::card;
use super::encoders::Encoders;
use super::fault::Fault;
use super::folder::OutputFolder;
use super::manifest::{Manifest, OutputFile, UnitPart};
use super::plan::{DATA_FOLDER, FilePlan, Layout, rows_that_fit};
use super::row_group::Rows;
use super::schema::{Compression, Declaration, FORMAT_VERSION, FileShape, TOOL_VERSION, output_schema};
use super::writer::ShardWriter;
use crate::encode::TokenBatch;
use crate::error::{Error, ErrorKind, Result};
use crate::files::Pending;
use crate::source::{Identity, Unit};
use crate::units::amount;

/// What a [`DatasetWriter`] writes.
#[derive(Clone, Debug)]
pub struct DatasetConfig {
    /// Which documents go to which file.
    pub plan: FilePlan,
    /// The units that batches come from, by source.
    pub units: Vec<Vec<Unit>>,
    /// The pass-through columns, by the names that batches have them under.
    pub columns: Vec<FieldRef>,
    /// How token ids are encoded.
    pub compression: Compression,
    /// What each file says about its tokens.
    pub declaration: Declaration,
}

/// Writes token batches, in order, to the data files of an output folder.
///
/// A file appears under its name when it is complete. Dropping the writer removes the unfinished one.
///
/// **Memory:** that of one [`ShardWriter`].
pub struct DatasetWriter<'a> {
    folder: &'a OutputFolder,
    plan: FilePlan,
    units: Vec<Vec<Unit>>,
    declaration: Declaration,
    shape: Arc<FileShape>,
    encoders: Arc<Encoders>,
    current: Option<Current>,
    finished: Vec<(OutputFile, Vec<Part>)>,
}

/// The file that is being written.
struct Current {
    writer: ShardWriter<Pending>,
    rows: u64,
    text_bytes: u64,
    parts: Vec<Part>,
}

/// Rows of one unit in a file.
struct Part {
    source: usize,
    unit: usize,
    first_row: u64,
    rows: u64,
}

impl<'a> DatasetWriter<'a> {
    /// Clears the folder of an earlier output's manifest and data, and gets ready for the first batch.
    /// Encodes row groups on as many threads as the current rayon pool has.
    ///
    /// # Errors
    /// Two columns have one name or a column has a type that cannot be written ([`ErrorKind::Usage`]);
    /// the folder cannot be written.
    pub fn create(folder: &'a OutputFolder, config: DatasetConfig) -> Result<DatasetWriter<'a>> {
        let schema = output_schema(&config.columns)?;
        let shape = FileShape::new(schema, config.compression, &config.declaration)?;
        folder.clear_data()?;
        let data = folder.path().join(DATA_FOLDER);
        fs::create_dir_all(&data).map_err(|cause| Error::io("create", &data, cause))?;
        Ok(DatasetWriter {
            folder,
            plan: config.plan,
            units: config.units,
            declaration: config.declaration,
            shape,
            encoders: Encoders::start(rayon::current_num_threads()),
            current: None,
            finished: Vec::new(),
        })
    }

    /// Appends a batch. Batches come in the order of the units.
    ///
    /// # Errors
    /// The batch is out of order, does not fit the columns, or cannot be written.
    pub fn write(&mut self, batch: TokenBatch) -> Result<()> {
        let unit = self.number_of(&batch)?;
        if let Layout::Fixed(files) = self.plan.layout() {
            let file = files.iter().position(|units| units.contains(&unit));
            let Some(file) = file.filter(|&file| file >= self.finished.len()) else {
                return Err(out_of_order(&batch));
            };
            while self.finished.len() < file {
                self.finish_file()?;
            }
        }
        let mut part = Part { source: batch.source, unit: batch.unit, first_row: batch.first_row, rows: 0 };
        let (count, lengths) = (batch.len(), batch.text_lengths.clone());
        let mut rows = Rows::new(batch, &self.shape.schema)?;
        let mut row = 0;
        while row < count {
            let end = self.end_of_file(&lengths, row..count)?;
            part.rows = amount(end - row);
            let text_bytes = lengths.get(row..end).unwrap_or_default().iter().sum();
            self.current()?.append(&mut rows, row..end, text_bytes, &part)?;
            part.first_row += part.rows;
            row = end;
        }
        Ok(())
    }

    /// How far rows go to the current file, after beginning the next one where none would.
    fn end_of_file(&mut self, lengths: &[u64], rows: Range<usize>) -> Result<usize> {
        let &Layout::Rolling(limit) = self.plan.layout() else { return Ok(rows.end) };
        let Some(lengths) = lengths.get(rows.clone()) else { return Ok(rows.end) };
        let (held, filled) = self.current.as_ref().map_or((0, 0), |file| (file.rows, file.text_bytes));
        let mut fit = rows_that_fit(lengths, held, filled, limit);
        if fit == 0 {
            self.finish_file()?;
            fit = rows_that_fit(lengths, 0, 0, limit);
        }
        Ok(rows.start + fit)
    }

    /// The number of a batch's unit through all sources.
    fn number_of(&self, batch: &TokenBatch) -> Result<usize> {
        match self.units.get(batch.source) {
            Some(units) if batch.unit < units.len() => {
                Ok(self.units[..batch.source].iter().map(Vec::len).sum::<usize>() + batch.unit)
            }
            _ => Err(out_of_order(batch)),
        }
    }

    fn current(&mut self) -> Result<&mut Current> {
        if self.current.is_none() {
            let path = self.folder.path().join(self.plan.name(self.finished.len()));
            let out = Pending::create(&path)?;
            let writer = ShardWriter::new(out, path, &self.shape, &self.encoders)?;
            self.current = Some(Current { writer, rows: 0, text_bytes: 0, parts: Vec::new() });
        }
        Ok(self.current.as_mut().expect("just made"))
    }

    /// Publishes the current file; an empty one where no row came.
    fn finish_file(&mut self) -> Result<()> {
        self.current()?;
        let Some(current) = self.current.take() else { return Ok(()) };
        let (out, facts) = current.writer.finish()?;
        out.commit()?;
        let file = OutputFile {
            name: self.plan.name(self.finished.len()),
            rows: facts.rows,
            tokens: facts.tokens,
            text_bytes: current.text_bytes,
            bytes: facts.bytes,
            sha256: facts.sha256,
            units: Vec::new(),
        };
        self.finished.push((file, current.parts));
        Ok(())
    }

    /// Publishes what is left and the dataset card, and returns the manifest, which the caller
    /// [writes](Manifest::write) when all else of the output is in place.
    ///
    /// `job` is the fingerprint of all that the output depends on; `identity` tells that of a source's
    /// unit, and is asked once a unit that has rows.
    ///
    /// # Errors
    /// A file cannot be written, or an identity cannot be told.
    pub fn finish(
        mut self,
        job: String,
        mut identity: impl FnMut(usize, usize) -> Result<Identity>,
    ) -> Result<Manifest> {
        let planned = match self.plan.layout() {
            Layout::Fixed(files) => files.len(),
            Layout::Rolling(_) => 1,
        };
        while self.current.is_some() || self.finished.len() < planned {
            self.finish_file()?;
        }
        let mut known: Option<(usize, usize, Identity)> = None;
        let mut files = Vec::with_capacity(self.finished.len());
        for (mut file, parts) in self.finished {
            for Part { source, unit, first_row, rows } in parts {
                let identity = match known.take() {
                    Some((s, u, same)) if (s, u) == (source, unit) => same,
                    _ => identity(source, unit)?,
                };
                known = Some((source, unit, identity.clone()));
                let Unit { name, range, .. } = &self.units[source][unit];
                file.units.push(UnitPart { name: name.clone(), range: *range, identity, first_row, rows });
            }
            files.push(file);
        }
        card::write(self.folder.path(), self.plan.split_name(), &self.shape, &self.declaration, &files)?;
        Ok(Manifest {
            format_version: FORMAT_VERSION,
            tool_version: TOOL_VERSION.to_owned(),
            job,
            tokenizer: self.declaration.tokenizer,
            files,
        })
    }
}

impl Current {
    fn append(&mut self, rows: &mut Rows, range: Range<usize>, text_bytes: u64, part: &Part) -> Result<()> {
        self.rows += part.rows;
        self.text_bytes += text_bytes;
        match self.parts.last_mut() {
            Some(last) if (last.source, last.unit) == (part.source, part.unit) => last.rows += part.rows,
            _ => self.parts.push(Part { ..*part }),
        }
        self.writer.write_rows(rows, range)
    }
}

fn out_of_order(batch: &TokenBatch) -> Error {
    Error::new(ErrorKind::Failed, Fault::OutOfOrder { source_index: batch.source, unit: batch.unit })
}
