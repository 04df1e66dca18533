//! Writes all data files of an output folder, and resumes what an earlier run began.
//!
//! A data file is written in the state folder under a temporary name. When its last row is written, it is synced to
//! disk, recorded in the journal of completed files, and moved to `data/` under its final name. A run that is killed
//! between any two of these steps loses no row group.

use std::fmt;
use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use serde_json::Value;

use super::card;
use super::file_reader::columns_of;
use super::folder::OutputFolder;
use super::layout::{DATA_FOLDER, FileBoundaries, FilePlan, index_path, is_flat, rows_that_fit, split_of};
use super::manifest::{FileStore, HashedFile, Manifest, OutputFile, UnitPart};
use super::moved;
use super::read::TokenReader;
use super::resume::{self, CompletedFiles, DocumentSpan, FileRecord, IncompleteFile, RowGroupJournal};
use super::row_group::{DocumentRange, OutputBatch, Position, RowTotals};
use super::schema::{Compression, Declaration, FileSpec, output_schema, same_tokens};
use super::shard::{RowGroupEncoders, ShardWriter};
use crate::base::atomic_file;
use crate::base::integrity::{HashingWriter, sha256};
use crate::encode::TokenBatch;
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::source::{Identity, Unit};

/// The configuration of a [`DatasetWriter`].
///
/// It is checked as a whole by [`DatasetWriter::create`], before any file changes.
#[derive(Clone, Debug)]
pub struct DatasetConfig {
    /// Fingerprint of everything that the output depends on. Files that an earlier run wrote with the same
    /// fingerprint are kept.
    pub job: String,
    /// Which documents go into which file.
    pub plan: FilePlan,
    /// The units from which batches come, by source.
    pub units: Vec<Vec<Unit>>,
    /// The pass-through columns, with the names that they have in batches.
    pub columns: Vec<FieldRef>,
    /// One more than the largest possible id.
    pub ids: u64,
    /// How token ids are encoded and compressed.
    pub compression: Compression,
    /// What each file declares about its tokens.
    pub declaration: Declaration,
}

/// Writes token batches, in order, to the data files of an output folder.
///
/// A file gets its name when it is complete. If the writer is dropped or its process is killed, the row groups of an
/// incomplete file stay in the state folder. A later writer for the same job keeps complete files and row groups that
/// are undamaged, and asks only for the [missing](DatasetWriter::missing) documents.
///
/// To use it, pass the documents of each [missing](DatasetWriter::missing) span to [`write`](DatasetWriter::write),
/// between [`begin`](DatasetWriter::begin) and [`end`](DatasetWriter::end), then call
/// [`finish`](DatasetWriter::finish) and write the manifest.
///
/// ```
/// use tokenmill::encode::{EncodeConfig, Encoder, encode_batches};
/// use tokenmill::observer::Silent;
/// use tokenmill::sink::{
///     Compression, DatasetConfig, DatasetWriter, Declaration, FilePlan, Manifest, OutputFolder,
/// };
/// use tokenmill::source::{Identity, RowRange, Unit, texts};
/// # use tokenmill::{Vocabulary, split::SplitPattern, train::Merges, vocab::SpecialTokensAt};
///
/// # let split = SplitPattern::None;
/// # let vocabulary = Vocabulary::from_merges(&Merges::default(), &[], SpecialTokensAt::End, split)?;
/// # let temporary = tempfile::tempdir().expect("a folder");
/// # let path = temporary.path().join("out");
/// let encoder = Encoder::new(vocabulary, EncodeConfig::default())?;
/// let unit = Unit { name: "texts".to_owned(), range: RowRange::Whole, rows: Some(2), text_bytes: Some(9) };
/// let units = vec![vec![unit]];
/// let config = DatasetConfig {
///     job: "an example".to_owned(),
///     plan: FilePlan::of_units(&units, "train", 1_000_000)?,
///     units,
///     columns: Vec::new(),
///     ids: 256,
///     compression: Compression::Default,
///     declaration: Declaration::of(&encoder),
/// };
/// let folder = OutputFolder::open(&path)?;
/// let mut writer = DatasetWriter::create(&folder, config, &Silent)?;
/// for span in writer.missing() {
///     let span = writer.begin(span)?;
///     let documents = texts(["some", "texts"]); // those from `span.from` on
///     let name = |_, _| "texts".to_owned();
///     encode_batches(documents, &encoder, name, &Silent, |batch| writer.write(batch))?;
///     writer.end(span)?;
/// }
/// let (manifest, _) = writer.finish(|_, _| Ok(Identity::Stream))?;
/// manifest.write(&path)?;
/// assert_eq!(Manifest::read(&path)?.map(|manifest| (manifest.rows(), manifest.tokens())), Some((2, 9)));
/// # Ok::<(), tokenmill::Error>(())
/// ```
///
/// **Memory:** that of one [`ShardWriter`].
pub struct DatasetWriter<'a> {
    /// The folder, which stays locked while the writer exists.
    folder: &'a OutputFolder,
    /// The place to which complete data files move; `None` if they stay in the folder.
    store: Option<&'a dyn FileStore>,
    /// What the caller asked for.
    config: DatasetConfig,
    /// The key of the journals: a hash of everything that the bytes of files depend on.
    key: String,
    /// The properties that all files of this output share.
    spec: Arc<FileSpec>,
    /// The threads that encode row groups, for one file after another.
    encoders: Arc<RowGroupEncoders>,
    /// The completed files.
    completed: CompletedFiles,
    /// The incomplete file of an earlier writer, until its span begins.
    incomplete: Option<IncompleteFile>,
    /// The result of looking for files of an earlier run, when the writer was created.
    reused: Reused,
    /// The number of the file that is being written, or of the next one.
    number: usize,
    /// Number of ids of the next document that have already been written.
    skip: u64,
    /// The file that is being written; `None` before its first row and after its completion.
    current: Option<OpenShard>,
    /// [Remarks](DatasetWriter::remark) of the caller that came while no file was open. The next file takes them.
    remarks: Vec<Value>,
    /// Number of rows or files of the input that were left out.
    skipped_inputs: u64,
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

/// The file that is being written, with what the file plan needs to know about its rows.
struct OpenShard {
    /// Collects rows and writes row groups under the name of the incomplete file.
    writer: ShardWriter<File>,
    /// The position of its first document in the input.
    start: Position,
    /// Number of documents that were passed for the file, those of an earlier run included.
    documents: u64,
    /// Bytes of their text. A [rolling](FileBoundaries::Rolling) plan ends the file before this exceeds its limit.
    text_bytes: u64,
}

/// The output of an earlier run that is kept. Its documents need not be passed again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reused {
    /// Number of complete data files.
    pub files: usize,
    /// Number of row groups in an incomplete data file.
    pub row_groups: usize,
    /// Bytes of text in both.
    pub text_bytes: u64,
    /// The [remarks](DatasetWriter::remark) on them, in order.
    pub remarks: Vec<Value>,
}

impl<'a> DatasetWriter<'a> {
    /// Finds the files that an earlier writer of the same job left, and removes all other data of the same split of the
    /// dataset, for example `train`. Row groups are encoded on as many threads as the current rayon pool has.
    ///
    /// # Errors
    /// - Two columns have the same name, a column has a type that cannot be written, or the output cannot be packed
    ///   ([`Usage`](crate::ErrorKind::Usage)).
    /// - The split does not fit the other splits of the folder ([`Usage`](crate::ErrorKind::Usage)).
    /// - The folder cannot be written.
    /// - The observer asks to stop.
    pub fn create(
        folder: &'a OutputFolder,
        config: DatasetConfig,
        observer: &dyn Observer,
    ) -> Result<DatasetWriter<'a>> {
        DatasetWriter::create_moving(folder, None, config, observer)
    }

    /// Like [`create`](DatasetWriter::create), for data files that move to `store` when they are complete. Files of an
    /// earlier writer are looked for there, too.
    ///
    /// # Errors
    /// Those of [`create`](DatasetWriter::create), and those of the store.
    pub(crate) fn create_moving(
        folder: &'a OutputFolder,
        store: Option<&'a dyn FileStore>,
        config: DatasetConfig,
        observer: &dyn Observer,
    ) -> Result<DatasetWriter<'a>> {
        let spec = config.file_spec()?;
        config.check_splits(folder)?;
        let key = config.key();
        folder.remove_manifest()?;
        let data = folder.path().join(DATA_FOLDER);
        fs::create_dir_all(&data).map_err(|cause| Error::io("create", &data, cause))?;
        let encoders = RowGroupEncoders::start(rayon::current_num_threads())?;
        let completed = CompletedFiles::find(folder, &key, store, observer)?;
        folder.remove_data(|name| completed.has(name))?;
        if let Some(store) = store {
            store.keep_only(&|name| !folder.is_own(name) || completed.has(name))?;
            write_empty_file(folder, &spec, &encoders)?;
            completed.undamaged().try_for_each(|record| move_to(store, folder, &record.file))?;
        }
        let incomplete = IncompleteFile::find(&folder.incomplete_file(), &folder.row_group_journal(), &key)?;
        let missing = completed.missing();
        let first = missing.first().map(|span| span.number);
        // If another file must be written first, it overwrites the incomplete file, which is therefore not resumed.
        let incomplete = incomplete.filter(|file| first == Some(file.number));
        let number = first.unwrap_or(0);
        Ok(DatasetWriter {
            folder,
            store,
            config,
            key,
            spec,
            encoders,
            reused: reused(&completed, incomplete.as_ref()),
            completed,
            incomplete,
            number,
            skip: 0,
            current: None,
            remarks: Vec::new(),
            skipped_inputs: 0,
        })
    }

    /// Returns which output of an earlier run is kept.
    pub fn reused(&self) -> &Reused {
        &self.reused
    }

    /// The documents that must be encoded, in this order: those of damaged files, then all that follow the last
    /// complete file.
    ///
    /// The last span has no end. Each of the others is for one damaged file, which is written again under its old
    /// name and with the same documents.
    pub fn missing(&self) -> Vec<DocumentSpan> {
        self.completed.missing()
    }

    /// Begins a span. Returns the part of it that must still be written. If packing has cut the first document of
    /// that part, some of its ids may have been written already, but the whole document must be passed again.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn begin(&mut self, span: DocumentSpan) -> Result<DocumentSpan> {
        self.number = span.number;
        self.skip = 0;
        let Some(incomplete) = self.incomplete.take_if(|file| file.number == span.number) else {
            return Ok(span);
        };
        let start = self.completed.start(span.number);
        let path = self.folder.path().join(self.config.plan.name(span.number));
        let RowTotals { documents, text_bytes, next, .. } = incomplete.totals();
        self.skip = next.token;
        let writer = ShardWriter::resume(incomplete, path, &self.spec, &self.encoders)?;
        self.current = Some(OpenShard { writer, start, documents, text_bytes });
        let left = span.documents.map(|all| all.saturating_sub(documents));
        Ok(DocumentSpan { from: next, documents: left, ..span })
    }

    /// Ends a span. If it was for a single file, the file is completed: the next span may be for another one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(&mut self, span: DocumentSpan) -> Result<()> {
        if span.documents.is_some() { self.finish_file() } else { Ok(()) }
    }

    /// Stores a remark, any value of the caller's, with the documents so far. A run that resumes finds it in [`Reused`]
    /// if these documents need not be passed again. It may find it even if some of them must be.
    pub fn remark(&mut self, remark: Value) {
        match &mut self.current {
            Some(current) => current.writer.remark(remark),
            None => self.remarks.push(remark),
        }
    }

    /// Sets how many rows or files of the input were left out, in all. The manifest and the dataset card say so.
    pub fn set_skipped_inputs(&mut self, count: u64) {
        self.skipped_inputs = count;
    }

    /// Appends a batch. Batches must come in the order of the units.
    ///
    /// # Errors
    /// The batch is out of order, does not match the columns, or cannot be written.
    pub fn write(&mut self, batch: TokenBatch) -> Result<()> {
        self.write_at(Position::of(&batch), batch)
    }

    /// Appends a batch of a sample, which counts as one unit. `row` is the number of the batch's first document in
    /// the sample.
    ///
    /// # Errors
    /// Those of [`write`](DatasetWriter::write).
    pub fn write_sampled(&mut self, row: u64, batch: TokenBatch) -> Result<()> {
        self.write_at(Position { row, ..Position::default() }, batch)
    }

    /// Appends a batch. `position` is that of its first row in the input. Files are begun and completed as planned.
    ///
    /// # Errors
    /// The position is outside the planned units or before the current file, the batch does not match the columns, or
    /// a file cannot be written.
    fn write_at(&mut self, position: Position, batch: TokenBatch) -> Result<()> {
        let unit = self.number_of(position)?;
        if let FileBoundaries::Fixed(files) = self.config.plan.layout() {
            let file = files.iter().position(|units| units.contains(&unit));
            let Some(file) = file.filter(|&file| file >= self.number) else {
                return Err(out_of_order(position));
            };
            while self.number < file {
                self.finish_file()?;
            }
        }
        let (count, lengths) = (batch.len(), batch.text_lengths.clone());
        let mut rows = OutputBatch::new(batch, position, &self.spec)?;
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

    /// The end of the rows that go into the current file. Completes the file and begins the next one if no row fits.
    ///
    /// With a fixed plan, this is the end of `rows`, because the caller changes files between batches: units are not
    /// cut, and a batch has rows of one unit.
    fn end_of_file(&mut self, lengths: &[u64], rows: Range<usize>) -> Result<usize> {
        let &FileBoundaries::Rolling(limit) = self.config.plan.layout() else { return Ok(rows.end) };
        let Some(lengths) = lengths.get(rows.clone()) else { return Ok(rows.end) };
        let (rows_so_far, filled) =
            self.current.as_ref().map_or((0, 0), |file| (file.documents, file.text_bytes));
        let mut fit = rows_that_fit(lengths, rows_so_far, filled, limit);
        if fit == 0 {
            self.finish_file()?;
            fit = rows_that_fit(lengths, 0, 0, limit);
        }
        Ok(rows.start + fit)
    }

    /// The number of a position's unit, counted over all sources.
    ///
    /// # Errors
    /// There is no such unit.
    fn number_of(&self, position: Position) -> Result<usize> {
        let units = &self.config.units;
        match units.get(position.source) {
            Some(of_source) if position.unit < of_source.len() => {
                Ok(units[..position.source].iter().map(Vec::len).sum::<usize>() + position.unit)
            }
            _ => Err(out_of_order(position)),
        }
    }

    /// The file that is being written. Begins it if none is.
    ///
    /// A new file gets an empty journal of row groups. It also takes the remarks that were made while no file was
    /// open.
    fn current(&mut self) -> Result<&mut OpenShard> {
        if self.current.is_none() {
            self.folder.check_held()?;
            let incomplete_path = self.folder.incomplete_file();
            let log = RowGroupJournal::create(&self.folder.row_group_journal(), &self.key, self.number)?;
            let out = HashingWriter::new(atomic_file::create_anew(&incomplete_path)?);
            let path = self.folder.path().join(self.config.plan.name(self.number));
            let start = self.completed.start(self.number);
            let totals = RowTotals::before(start);
            let mut writer = ShardWriter::begin(out, path, &self.spec, &self.encoders, totals, Some(log))?;
            self.remarks.drain(..).for_each(|remark| writer.remark(remark));
            self.current = Some(OpenShard { writer, start, documents: 0, text_bytes: 0 });
        }
        Ok(self.current.as_mut().expect("just made"))
    }

    /// Completes the current file. It may be empty.
    ///
    /// The order makes every step safe to repeat: the data are on disk before the record, and the record before the
    /// final name. A named file therefore always has a record.
    fn finish_file(&mut self) -> Result<()> {
        self.current()?;
        let Some(OpenShard { writer, start, .. }) = self.current.take() else { return Ok(()) };
        let done = writer.close()?;
        self.folder.check_held()?;
        let name = self.config.plan.name(self.number);
        let (path, incomplete_path) = (self.folder.path().join(&name), self.folder.incomplete_file());
        done.out.sync_all().map_err(|cause| Error::io("write", &path, cause))?;
        let index = done.index.map(|index| self.publish_index(&name, &index)).transpose()?;
        let file = OutputFile {
            name,
            rows: done.totals.rows,
            tokens: done.totals.tokens,
            added_tokens: done.totals.added_tokens(self.config.declaration.added_per_document()),
            text_bytes: done.totals.text_bytes,
            bytes: done.bytes,
            sha256: done.sha256,
            index,
            units: Vec::new(),
        };
        let (number, totals, remarks) = (self.number, done.totals, done.remarks);
        let moved = self.store.map(|store| (store, file.clone()));
        self.completed.push(FileRecord { number, start, file, totals, remarks })?;
        resume::publish(&incomplete_path, &path)?;
        self.number += 1;
        if let Some((store, file)) = moved {
            move_to(store, self.folder, &file)?;
        }
        Ok(())
    }

    /// Writes the index beside a data file. The index is complete before its data file is recorded, so no record
    /// names a missing index.
    fn publish_index(&self, name: &str, index: &[u8]) -> Result<HashedFile> {
        let path = index_path(&self.folder.path().join(name));
        atomic_file::publish_bytes_within(&path, index)?;
        let name = index_path(Path::new(name)).to_string_lossy().into_owned();
        Ok(HashedFile::of_content(name, index))
    }

    /// Completes the last file and writes the dataset card. Returns the manifest, and the totals of all files
    /// together. The caller [writes](Manifest::write) the manifest after everything else in the output.
    ///
    /// `identity` gives the identity of a unit by source and number. It is called once for each unit with rows.
    ///
    /// With a fixed plan, files for which no documents came are written without rows. An output has at least one
    /// file.
    ///
    /// # Errors
    /// A file cannot be written, or `identity` fails.
    pub fn finish(
        mut self,
        mut identity: impl FnMut(usize, usize) -> Result<Identity>,
    ) -> Result<(Manifest, RowTotals)> {
        let planned = match self.config.plan.layout() {
            FileBoundaries::Fixed(files) => files.len(),
            FileBoundaries::Rolling(_) => 1,
        };
        while self.current.is_some() || self.completed.records.len() < planned {
            self.finish_file()?;
        }
        self.store.map_or(Ok(()), FileStore::settle)?;
        let mut known: Option<(usize, usize, Identity)> = None;
        let mut sum = RowTotals::default();
        let mut files = Vec::with_capacity(self.completed.records.len());
        for FileRecord { mut file, totals, .. } in self.completed.records {
            for &DocumentRange { source, unit, first_row, rows } in &totals.ranges {
                let identity = match known.take() {
                    Some((s, u, same)) if (s, u) == (source, unit) => same,
                    _ => identity(source, unit)?,
                };
                known = Some((source, unit, identity.clone()));
                let Unit { name, range, .. } = &self.config.units[source][unit];
                file.units.push(UnitPart { name: name.clone(), range: *range, identity, first_row, rows });
            }
            sum.add(&totals);
            files.push(file);
        }
        let DatasetConfig { plan, declaration, job, .. } = self.config;
        let skipped_inputs = self.skipped_inputs;
        let (others, skipped_before) = match self.folder.other_splits()? {
            Some(others) => (others.files, others.skipped_inputs),
            None => (Vec::new(), 0),
        };
        let skipped = skipped_before.saturating_add(skipped_inputs);
        let all: Vec<OutputFile> = others.iter().chain(&files).cloned().collect();
        // The card takes the names of the splits, and their order, from the names of these files.
        debug_assert!(files.iter().all(|file| split_of(&file.name) == plan.split_name()));
        let card = card::write(self.folder.path(), &plan, &self.spec.schema, &declaration, &all, skipped)?;
        let tokenizer = declaration.tokenizer.clone();
        let other_files = vec![card];
        let declaration = Some(declaration);
        let new = Manifest::new(job, tokenizer);
        let manifest = Manifest { declaration, skipped_inputs, files, other_files, ..new };
        Ok((manifest, sum))
    }
}

impl DatasetConfig {
    /// The properties that all files share.
    ///
    /// # Errors
    /// As for [`DatasetWriter::create`], about columns and packing.
    pub(crate) fn file_spec(&self) -> Result<Arc<FileSpec>> {
        let schema = output_schema(&self.columns)?;
        FileSpec::of_format(self.plan.format(), self.ids, schema, self.compression, &self.declaration)
    }

    /// Checks that the split fits the other splits of the output. Readers expect all splits of a dataset to have the
    /// same tokenizer, format and columns.
    ///
    /// # Errors
    /// - Their tokenizer, format, packing, columns, special-token policy, or tokens around documents differ
    ///   ([`Usage`](crate::ErrorKind::Usage)).
    /// - One of their files cannot be read.
    pub(crate) fn check_splits(&self, folder: &OutputFolder) -> Result<()> {
        let Some(others) = folder.other_splits()? else { return Ok(()) };
        let Some(file) = others.files.first() else { return Ok(()) };
        let spec = self.file_spec()?;
        let refused = |what| {
            let (folder, split) = (folder.path().display(), split_of(&file.name));
            Err(Error::usage(format!("{folder} holds the split {split:?}, which has {what}"))
                .with_help("encode all splits of an output with the same settings, or choose another folder"))
        };
        if others.tokenizer != self.declaration.tokenizer {
            return refused("another tokenizer");
        }
        let path = moved::with_columns_of(folder.path(), &file.name);
        if is_flat(&folder.path().join(&file.name)) != spec.flat.is_some() {
            return refused("another format");
        }
        let declared = match spec.flat {
            Some(_) => others.declaration.clone(),
            None => TokenReader::open(&path)?.declaration().cloned(),
        };
        if !same_tokens(declared.as_ref(), Some(&self.declaration)) {
            return refused("other BOS or EOS tokens, another policy for special tokens, or other packing");
        }
        if spec.flat.is_none() && columns_of(&path)? != *spec.schema.fields() {
            return refused("other columns");
        }
        Ok(())
    }

    /// Hash of everything that the bytes of data files depend on. The names of inputs are left out, since they depend
    /// on the working directory.
    fn key(&self) -> String {
        let part = |unit: &Unit| (unit.range, unit.rows, unit.text_bytes);
        let units: Vec<Vec<_>> = self.units.iter().map(|units| units.iter().map(part).collect()).collect();
        let all = (&self.job, &self.plan, self.ids, self.compression, &self.declaration, units);
        let columns: Vec<String> = self.columns.iter().map(|column| column.to_string()).collect();
        sha256(serde_json::to_string(&(all, columns)).expect("plain data").as_bytes())
    }
}

impl OpenShard {
    /// Appends a range of rows to the file. The range is within one file.
    fn append(&mut self, rows: &mut OutputBatch, range: Range<usize>) -> Result<()> {
        let totals = rows.totals(range.clone());
        self.documents += totals.documents;
        self.text_bytes += totals.text_bytes;
        self.writer.write_rows(rows, range)
    }
}

/// Moves a data file of the folder to the store, if it has not been moved.
///
/// # Errors
/// Those of the store, or another process has taken the folder.
fn move_to(store: &dyn FileStore, folder: &OutputFolder, file: &OutputFile) -> Result<()> {
    if !file.names().any(|name| folder.path().join(name).exists()) {
        return Ok(());
    }
    folder.check_held()?;
    store.take(file)
}

/// Writes the data file without rows that takes the place of moved files when a later split is compared with them.
/// Formats of bare ids have no columns, and need none.
///
/// # Errors
/// The file cannot be written.
fn write_empty_file(
    folder: &OutputFolder,
    spec: &Arc<FileSpec>,
    encoders: &Arc<RowGroupEncoders>,
) -> Result<()> {
    if spec.flat.is_some() {
        return Ok(());
    }
    let path = moved::empty_file(&folder.state());
    let (bytes, _) = ShardWriter::new(Vec::new(), &path, spec, encoders)?.finish()?;
    atomic_file::publish_bytes_within(&path, &bytes)
}

/// The output of an earlier run that can be kept. Remarks are in the order of the files, and those of the incomplete
/// file come last.
fn reused(completed: &CompletedFiles, incomplete: Option<&IncompleteFile>) -> Reused {
    let files = completed.undamaged().map(|record| record.totals.text_bytes);
    let rest = incomplete.map_or(0, |file| file.totals().text_bytes);
    let remarks = completed.undamaged().flat_map(|record| record.remarks.clone());
    Reused {
        files: completed.undamaged().count(),
        row_groups: incomplete.map_or(0, |file| file.groups.len()),
        text_bytes: files.sum::<u64>() + rest,
        remarks: remarks.chain(incomplete.iter().flat_map(|file| file.log.remarks.clone())).collect(),
    }
}

/// Returns the error for a batch that the plan does not expect at this position.
fn out_of_order(position: Position) -> Error {
    let Position { source, unit, .. } = position;
    Error::failed(format!("rows of source {source}, unit {unit} arrive out of the planned order"))
}
