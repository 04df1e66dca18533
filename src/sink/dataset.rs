use std::fmt;
use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::FieldRef;
use serde_json::Value;

use super::card;
use super::contents::{Contents, Part, Position};
use super::encoders::Encoders;
use super::fault::Fault;
use super::finished::{self, FileRecord, FinishedFiles, Span};
use super::flat_read::index_path;
use super::folder::OutputFolder;
use super::hashed::Hashed;
use super::manifest::{HashedFile, Manifest, OutputFile, UnitPart};
use super::plan::{DATA_FOLDER, FilePlan, Layout, rows_that_fit};
use super::row_group::Rows;
use super::schema::{Compression, Declaration, FileShape, output_schema};
use super::split::{check_fits, split_of};
use super::unfinished::{GroupLog, Unfinished};
use super::writer::ShardWriter;
use crate::digest::sha256;
use crate::encode::TokenBatch;
use crate::error::{Error, ErrorKind, Result};
use crate::files;
use crate::observer::Observer;
use crate::source::{Identity, Unit};
use crate::{FORMAT_VERSION, VERSION};

/// What to do where a split cannot lie beside another.
pub(super) const OTHER_SPLIT: &str =
    "encode all splits of an output by the same settings, or choose another folder";

/// What a [`DatasetWriter`] writes.
#[derive(Clone, Debug)]
pub struct DatasetConfig {
    /// The fingerprint of all that the output depends on. What an earlier run wrote for the same one is
    /// used again.
    pub job: String,
    /// Which documents go to which file.
    pub plan: FilePlan,
    /// The units that batches come from, by source.
    pub units: Vec<Vec<Unit>>,
    /// The pass-through columns, by the names that batches have them under.
    pub columns: Vec<FieldRef>,
    /// One more than the greatest id there can be.
    pub ids: u64,
    /// How token ids are encoded.
    pub compression: Compression,
    /// What each file says about its tokens.
    pub declaration: Declaration,
}

/// Writes token batches, in order, to the data files of an output folder.
///
/// A file appears under its name when it is complete. What is written of the next one stays in the state
/// folder when the writer is dropped or its process killed: a later writer goes on from there, and does
/// not ask for the documents again that are in files or row groups which are there and undamaged.
///
/// **Memory:** that of one [`ShardWriter`].
pub struct DatasetWriter<'a> {
    folder: &'a OutputFolder,
    config: DatasetConfig,
    key: String,
    shape: Arc<FileShape>,
    encoders: Arc<Encoders>,
    finished: FinishedFiles,
    /// What an earlier writer left of a file, until it is its turn.
    unfinished: Option<Unfinished>,
    reused: Reused,
    /// The number of the file that is being written, or comes next.
    number: usize,
    /// How many ids of the next document have been written.
    skip: u64,
    current: Option<Current>,
    /// What was noted while there was no file.
    remarks: Vec<Value>,
}

impl fmt::Debug for DatasetWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatasetWriter")
            .field("config", &self.config)
            .field("key", &self.key)
            .field("number", &self.number)
            .field("skip", &self.skip)
            .finish_non_exhaustive()
    }
}

/// The file that is being written.
struct Current {
    writer: ShardWriter<File>,
    start: Position,
    documents: u64,
    text_bytes: u64,
}

/// What is there of an earlier run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reused {
    /// Data files.
    pub files: usize,
    /// Row groups of an unfinished one.
    pub row_groups: usize,
    /// Bytes of text in both.
    pub text_bytes: u64,
    /// What was [remarked](DatasetWriter::remark), in order.
    pub remarks: Vec<Value>,
}

impl<'a> DatasetWriter<'a> {
    /// Looks for what an earlier writer of the same job left, removes all other data, and gets ready.
    /// Encodes row groups on as many threads as the current rayon pool has.
    ///
    /// # Errors
    /// Two columns have one name or a column has a type that cannot be written, or what is to be packed cannot be
    /// ([`ErrorKind::Usage`]); the folder cannot be written; the observer says stop.
    pub fn create(
        folder: &'a OutputFolder,
        config: DatasetConfig,
        observer: &dyn Observer,
    ) -> Result<DatasetWriter<'a>> {
        let shape = config.shape()?;
        config.check_splits(folder)?;
        let key = config.key();
        folder.remove_manifest()?;
        let data = folder.path().join(DATA_FOLDER);
        fs::create_dir_all(&data).map_err(|cause| Error::io("create", &data, cause))?;
        let finished = FinishedFiles::find(folder, &key, observer)?;
        folder.remove_data(|name| finished.has(name))?;
        let unfinished = Unfinished::find(&folder.unfinished(), &folder.unfinished_journal(), &key)?;
        let missing = finished.missing();
        let first = missing.first().map(|span| span.number);
        // A file that is written before it would take its place on disk.
        let unfinished = unfinished.filter(|file| first == Some(file.number));
        let number = first.unwrap_or(0);
        Ok(DatasetWriter {
            folder,
            config,
            key,
            shape,
            encoders: Encoders::start(rayon::current_num_threads())?,
            reused: reused(&finished, unfinished.as_ref()),
            finished,
            unfinished,
            number,
            skip: 0,
            current: None,
            remarks: Vec::new(),
        })
    }

    /// What is there of an earlier run.
    pub fn reused(&self) -> &Reused {
        &self.reused
    }

    /// The documents that have to be encoded, in this order.
    pub fn missing(&self) -> Vec<Span> {
        self.finished.missing()
    }

    /// Gets ready for the documents of a span, and gives those of them that are not written yet. Of the first a part
    /// may be written, if it was cut by packing; the whole document is wanted again.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn begin(&mut self, span: Span) -> Result<Span> {
        self.number = span.number;
        self.skip = 0;
        let Some(unfinished) = self.unfinished.take_if(|file| file.number == span.number) else {
            return Ok(span);
        };
        let start = self.finished.start(span.number);
        let path = self.folder.path().join(self.config.plan.name(span.number));
        let Contents { documents, text_bytes, next, .. } = unfinished.contents();
        self.skip = next.token;
        let writer = ShardWriter::resume(unfinished, path, &self.shape, &self.encoders)?;
        self.current = Some(Current { writer, start, documents, text_bytes });
        let left = span.documents.map(|all| all.saturating_sub(documents));
        Ok(Span { from: next, documents: left, ..span })
    }

    /// Ends a span: the documents of the next one may be of another file.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn end(&mut self, span: Span) -> Result<()> {
        if span.documents.is_some() { self.finish_file() } else { Ok(()) }
    }

    /// Notes something of the documents so far, for a run that goes on from here: it finds the remark in
    /// [`Reused`] if it does not get the documents again. Of the documents that it does get again it may
    /// find it too.
    pub fn remark(&mut self, remark: Value) {
        match &mut self.current {
            Some(current) => current.writer.remark(remark),
            None => self.remarks.push(remark),
        }
    }

    /// Appends a batch. Batches come in the order of the units.
    ///
    /// # Errors
    /// The batch is out of order, does not fit the columns, or cannot be written.
    pub fn write(&mut self, batch: TokenBatch) -> Result<()> {
        let place = Position { source: batch.source, unit: batch.unit, row: batch.first_row, token: 0 };
        self.write_at(place, batch)
    }

    /// Appends a batch of a sample, which is one unit of its own; the row is that of the first document in it.
    ///
    /// # Errors
    /// As of [`write`](DatasetWriter::write).
    pub fn write_sampled(&mut self, row: u64, batch: TokenBatch) -> Result<()> {
        self.write_at(Position { row, ..Position::default() }, batch)
    }

    fn write_at(&mut self, place: Position, batch: TokenBatch) -> Result<()> {
        let unit = self.number_of(place)?;
        if let Layout::Fixed(files) = self.config.plan.layout() {
            let file = files.iter().position(|units| units.contains(&unit));
            let Some(file) = file.filter(|&file| file >= self.number) else {
                return Err(out_of_order(place));
            };
            while self.number < file {
                self.finish_file()?;
            }
        }
        let (count, lengths) = (batch.len(), batch.text_lengths.clone());
        let mut rows = Rows::new(batch, &self.shape)?;
        rows.put_at(place);
        if count > 0 {
            rows.skip(std::mem::take(&mut self.skip));
        }
        let mut row = 0;
        while row < count {
            let end = self.end_of_file(&lengths, row..count)?;
            self.current()?.append(&mut rows, row..end)?;
            row = end;
        }
        Ok(())
    }

    /// How far rows go to the current file, after beginning the next one where none would.
    fn end_of_file(&mut self, lengths: &[u64], rows: Range<usize>) -> Result<usize> {
        let &Layout::Rolling(limit) = self.config.plan.layout() else { return Ok(rows.end) };
        let Some(lengths) = lengths.get(rows.clone()) else { return Ok(rows.end) };
        let (held, filled) = self.current.as_ref().map_or((0, 0), |file| (file.documents, file.text_bytes));
        let mut fit = rows_that_fit(lengths, held, filled, limit);
        if fit == 0 {
            self.finish_file()?;
            fit = rows_that_fit(lengths, 0, 0, limit);
        }
        Ok(rows.start + fit)
    }

    /// The number of a place's unit through all sources.
    fn number_of(&self, place: Position) -> Result<usize> {
        let units = &self.config.units;
        match units.get(place.source) {
            Some(of_source) if place.unit < of_source.len() => {
                Ok(units[..place.source].iter().map(Vec::len).sum::<usize>() + place.unit)
            }
            _ => Err(out_of_order(place)),
        }
    }

    fn current(&mut self) -> Result<&mut Current> {
        if self.current.is_none() {
            self.folder.check_held()?;
            let draft = self.folder.unfinished();
            let log = GroupLog::create(&self.folder.unfinished_journal(), &self.key, self.number)?;
            let out = Hashed::new(files::create_anew(&draft)?);
            let path = self.folder.path().join(self.config.plan.name(self.number));
            let start = self.finished.start(self.number);
            let contents = Contents::before(start);
            let mut writer = ShardWriter::begin(out, path, &self.shape, &self.encoders, contents, Some(log))?;
            self.remarks.drain(..).for_each(|remark| writer.remark(remark));
            self.current = Some(Current { writer, start, documents: 0, text_bytes: 0 });
        }
        Ok(self.current.as_mut().expect("just made"))
    }

    /// Publishes the current file; an empty one where no row came.
    fn finish_file(&mut self) -> Result<()> {
        self.current()?;
        let Some(Current { writer, start, .. }) = self.current.take() else { return Ok(()) };
        let done = writer.close()?;
        self.folder.check_held()?;
        let name = self.config.plan.name(self.number);
        let (path, draft) = (self.folder.path().join(&name), self.folder.unfinished());
        finished::sync(&done.out, &path)?;
        let index = done.index.map(|index| self.publish_index(&name, &index)).transpose()?;
        let file = OutputFile {
            name,
            rows: done.contents.rows,
            tokens: done.contents.tokens,
            text_bytes: done.contents.text_bytes,
            bytes: done.bytes,
            sha256: done.sha256,
            index,
            units: Vec::new(),
        };
        let (number, contents, remarks) = (self.number, done.contents, done.remarks);
        self.finished.push(FileRecord { number, start, file, contents, remarks })?;
        finished::publish(&draft, &path)?;
        self.number += 1;
        Ok(())
    }

    /// Publishes what goes beside a data file.
    fn publish_index(&self, name: &str, index: &[u8]) -> Result<HashedFile> {
        let path = index_path(&self.folder.path().join(name));
        files::publish_bytes_within(&path, index)?;
        let name = index_path(Path::new(name)).to_string_lossy().into_owned();
        Ok(HashedFile::of_content(name, index))
    }

    /// Publishes what is left and the dataset card, and returns the manifest, which the caller
    /// [writes](Manifest::write) when all else of the output is in place, and what of the input all files
    /// hold.
    ///
    /// `identity` tells that of a source's unit, and is asked once a unit that has rows.
    ///
    /// # Errors
    /// A file cannot be written, or an identity cannot be told.
    pub fn finish(
        mut self,
        mut identity: impl FnMut(usize, usize) -> Result<Identity>,
    ) -> Result<(Manifest, Contents)> {
        let planned = match self.config.plan.layout() {
            Layout::Fixed(files) => files.len(),
            Layout::Rolling(_) => 1,
        };
        while self.current.is_some() || self.finished.len() < planned {
            self.finish_file()?;
        }
        let mut known: Option<(usize, usize, Identity)> = None;
        let mut sum = Contents::default();
        let mut files = Vec::with_capacity(self.finished.len());
        for FileRecord { mut file, contents, .. } in self.finished.into_records() {
            for &Part { source, unit, first_row, rows } in &contents.parts {
                let identity = match known.take() {
                    Some((s, u, same)) if (s, u) == (source, unit) => same,
                    _ => identity(source, unit)?,
                };
                known = Some((source, unit, identity.clone()));
                let Unit { name, range, .. } = &self.config.units[source][unit];
                file.units.push(UnitPart { name: name.clone(), range: *range, identity, first_row, rows });
            }
            sum.add(&contents);
            files.push(file);
        }
        let DatasetConfig { plan, declaration, job, .. } = self.config;
        let others = self.folder.others()?.map_or_else(Vec::new, |others| others.files);
        let all: Vec<OutputFile> = others.iter().chain(&files).cloned().collect();
        // The card names splits in the order of their files.
        debug_assert!(files.iter().all(|file| split_of(&file.name) == plan.split_name()));
        let card = card::write(self.folder.path(), &plan, &self.shape, &declaration, &all)?;
        let manifest = Manifest {
            format_version: FORMAT_VERSION,
            tool_version: VERSION.to_owned(),
            job,
            tokenizer: declaration.tokenizer.clone(),
            declaration: self.shape.flat.map(|_| declaration),
            inputs: Vec::new(),
            files,
            tokenizer_files: Vec::new(),
            other_files: vec![card],
            reports: Vec::new(),
            splits: Vec::new(),
        };
        Ok((manifest, sum))
    }
}

impl DatasetConfig {
    /// What the files have in common.
    pub(crate) fn shape(&self) -> Result<Arc<FileShape>> {
        let schema = output_schema(&self.columns)?;
        FileShape::of_format(self.plan.format(), self.ids, schema, self.compression, &self.declaration)
    }

    /// Finds what keeps the split from lying beside the others of the output.
    ///
    /// # Errors
    /// Another tokenizer, format, packing or policy than theirs, other columns, or other tokens around documents
    /// ([`ErrorKind::Usage`]); a file of theirs cannot be read.
    pub(crate) fn check_splits(&self, folder: &OutputFolder) -> Result<()> {
        let Some(others) = folder.others()? else { return Ok(()) };
        check_fits(folder.path(), &others, &self.declaration, &*self.shape()?)
    }

    /// What the bytes of data files depend on. By what names their input was found is not among it: these are other
    /// ones in another working directory.
    fn key(&self) -> String {
        let part = |unit: &Unit| (unit.range, unit.rows, unit.text_bytes);
        let units: Vec<Vec<_>> = self.units.iter().map(|units| units.iter().map(part).collect()).collect();
        let all = (&self.job, &self.plan, self.ids, self.compression, &self.declaration, units);
        let columns: Vec<String> = self.columns.iter().map(|column| column.to_string()).collect();
        sha256(serde_json::to_string(&(all, columns)).expect("plain data").as_bytes())
    }
}

impl Current {
    fn append(&mut self, rows: &mut Rows, range: Range<usize>) -> Result<()> {
        let contents = rows.contents(range.clone());
        self.documents += contents.documents;
        self.text_bytes += contents.text_bytes;
        self.writer.write_rows(rows, range)
    }
}

fn reused(finished: &FinishedFiles, unfinished: Option<&Unfinished>) -> Reused {
    let files = finished.there().map(|record| record.contents.text_bytes);
    let rest = unfinished.map_or(0, |file| file.contents().text_bytes);
    let remarks = finished.there().flat_map(|record| record.remarks.clone());
    Reused {
        files: finished.there().count(),
        row_groups: unfinished.map_or(0, |file| file.groups.len()),
        text_bytes: files.sum::<u64>() + rest,
        remarks: remarks.chain(unfinished.iter().flat_map(|file| file.remarks().to_vec())).collect(),
    }
}

fn out_of_order(place: Position) -> Error {
    Error::new(ErrorKind::Failed, Fault::OutOfOrder { source_index: place.source, unit: place.unit })
}
