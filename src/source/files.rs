//! Sources that consist of files of one format, and sources that are read from a pipe.
//!
//! [`FileSource::open`] opens all files once, to list their units:
//!
//! | format | units | known before reading |
//! | --- | --- | --- |
//! | Parquet | row groups | rows, and bytes of text if the writer declared them |
//! | Arrow | files | the schema |
//! | JSON Lines and plain text | ranges of about [`ReadConfig::range_bytes`] | bytes of plain text |
//! | JSON in other layouts, CSV, TSV, and all compressed or remote text | files | the size of remote plain text |
//!
//! All files must have columns of compatible types: see [`super::passthrough`].

use std::collections::VecDeque;
use std::fs;
use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use ::arrow::datatypes::{Schema, SchemaRef};
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};

use super::content::{FileWatch, SequentialReader, SourceFile};
use super::error::guarded;
use super::json_fields::FieldColumns;
use super::jsonl::{FieldLookup, LinesBefore, OtherFiles, as_lines};
use super::parquet::Footer;
use super::passthrough::{ColumnMerger, FileColumns, value_in_path, with_common_columns};
use super::skipped_rows::{BadInput, BadRows, ReadContext};
use super::sniff::PeekReader;
use super::{
    Compression, DocumentRule, Documents, Format, Identity, ReadConfig, RowRange, Source, SourceSpec, Unit,
    arrow, content, jsonl, parquet, records, sniff, text,
};
use crate::base::int::{declared_sum, to_u64, u64_to_usize};
use crate::base::integrity;
use crate::base::pools::lock;
use crate::error::{Error, Result};

/// Average bytes of text files below which opening them may take longer than reading them.
const PLAIN_BYTES: u64 = 1 << 20;

/// Number of Parquet footers that are cached. A footer of a wide file with many row groups takes megabytes, so the
/// footers of thousands of files cannot be kept. Reading in order needs the footer of one file, or of two where one
/// file ends and the next begins.
const KEPT_FOOTERS: usize = 4;

/// A source of files of one format.
pub(super) struct FileSource {
    /// The description of the source.
    spec: SourceSpec,
    /// The sizes of batches and units.
    config: ReadConfig,
    /// The files, in document order.
    files: Vec<SourceFile>,
    /// The identities of the files, if they are known without reading: the hub and most servers send entity tags.
    identities: Vec<Identity>,
    /// The units of all files, in document order.
    units: Vec<Unit>,
    /// The index of each unit's file.
    file_of_unit: Vec<usize>,
    /// The files that are read: all, or those of the units that are kept.
    kept: Range<usize>,
    /// The schema of the pass-through columns, if any.
    columns: Option<SchemaRef>,
    /// Cached footers with their file index, oldest first.
    footers: Mutex<VecDeque<(usize, Footer)>>,
    /// The state of each file when it was listed.
    watches: Vec<Arc<FileWatch>>,
    /// Line counts of each file, to number the lines of its later units.
    lines: Vec<Arc<LinesBefore>>,
    /// Searches all files for a field that one of them lacks. All units share it and its results. `None` if no columns
    /// pass through.
    other_files: Option<Arc<OtherFiles>>,
    /// Receives bad input of all units.
    bad: BadInput,
}

/// The result of opening a file: its units, the types of its pass-through columns, and its Parquet footer.
struct OpenedFile {
    /// The units, in document order.
    units: Vec<Unit>,
    /// The pass-through columns that the file has, if any were requested.
    columns: Option<FileColumns>,
    /// The footer of a Parquet file.
    footer: Option<Footer>,
}

impl OpenedFile {
    /// Units of a file without columns and footer.
    fn plain(units: Vec<Unit>) -> OpenedFile {
        OpenedFile { units, columns: None, footer: None }
    }
}

impl FileSource {
    /// Opens all files, in parallel, and puts their units and columns together in the order of `files`. `identities`
    /// is empty if the identities of the files are not known.
    ///
    /// # Errors
    /// A file cannot be opened and bad input is not to be skipped; or the files have incompatible columns.
    pub(super) fn open(
        spec: &SourceSpec,
        files: Vec<SourceFile>,
        identities: Vec<Identity>,
        config: ReadConfig,
        bad: BadInput,
    ) -> Result<FileSource> {
        let watches = files.iter().map(|file| Arc::new(FileWatch::new(file))).collect();
        let window = config.window(files.len());
        // All threads read footers, because a folder may have thousands of files.
        let opened: Vec<Result<OpenedFile>> = files
            .par_iter()
            .with_max_len(1)
            .map(|file| open_file(file, spec, config, window))
            .enumerate()
            .map(first_footers)
            .collect();
        let mut source = FileSource {
            spec: spec.clone(),
            config,
            lines: files.iter().map(|_| Arc::default()).collect(),
            other_files: (!spec.columns.is_empty()).then(|| Arc::new(OtherFiles::of(&files))),
            kept: 0..files.len(),
            files,
            identities,
            units: Vec::new(),
            file_of_unit: Vec::new(),
            columns: None,
            footers: Mutex::default(),
            watches,
            bad,
        };
        let bad = source.bad.begin(None);
        let mut columns = ColumnMerger::new(&spec.columns);
        for (file, opened) in opened.into_iter().enumerate() {
            let OpenedFile { units, columns: of_file, footer } = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    bad.skip(error)?;
                    continue;
                }
            };
            let footers = source.footers.get_mut().unwrap_or_else(PoisonError::into_inner);
            footers.extend(footer.map(|footer| (file, footer)));
            if let Some(of_file) = of_file {
                columns.add(file, &source.files[file].name, of_file, &bad)?;
            }
            source.file_of_unit.extend(units.iter().map(|_| file));
            source.units.extend(units);
        }
        source.columns = columns.finish()?;
        source.bad.taken(None, source.bad.skipped(None));
        Ok(source)
    }

    /// The footer of a Parquet file, from the cache or read again.
    ///
    /// # Errors
    /// The footer cannot be read.
    fn footer(&self, file: usize) -> Result<Footer> {
        let kept = || lock(&self.footers);
        if let Some((_, footer)) = kept().iter().find(|(of, _)| *of == file) {
            return Ok(footer.clone());
        }
        let footer = Footer::read(&self.files[file], &self.spec)?;
        let mut kept = kept();
        if kept.len() >= KEPT_FOOTERS {
            kept.pop_front();
        }
        kept.push_back((file, footer.clone()));
        Ok(footer)
    }

    /// The size of a file when it was listed.
    fn bytes_of(&self, file: usize) -> u64 {
        let remote = self.files[file].remote.as_ref().map(|remote| remote.bytes());
        remote.unwrap_or_else(|| self.watches[file].bytes())
    }

    /// The documents of a range, with the pass-through columns converted to the common types of all files.
    ///
    /// # Errors
    /// The range cannot be opened.
    fn documents(&self, file: usize, range: RowRange, reading: ReadContext) -> Result<Documents<'static>> {
        let documents = self.unconformed(file, range, reading)?;
        Ok(match &self.columns {
            None => documents,
            Some(columns) => with_common_columns(documents, columns, &self.files[file].name),
        })
    }

    /// The documents of a range, with the columns of the file's own types.
    ///
    /// # Errors
    /// The range cannot be opened, or the format needs a local file.
    fn unconformed(&self, file: usize, range: RowRange, reading: ReadContext) -> Result<Documents<'static>> {
        let listed = &self.files[file];
        let SourceFile { path, name, format, compression, remote } = listed;
        let text = || content::text(listed, range, self.config.window(self.files.len()));
        Ok(match format {
            Format::Parquet => {
                let RowRange::RowGroups(group, _) = range else { return Ok(Box::new(std::iter::empty())) };
                Box::new(parquet::read(
                    &self.footer(file)?,
                    &self.files[file],
                    u64_to_usize(group),
                    self.spec.longest_read(),
                    reading,
                )?)
            }
            Format::Arrow if remote.is_some() => {
                let problem = format!("{name} is {format} and cannot be read without downloading it");
                return Err(Error::usage(problem)
                    .with_help("download it first; for files of the hub leave `stream` out"));
            }
            Format::Arrow => Box::new(arrow::read(arrow::open(path)?, &self.spec, reading)?),
            Format::Jsonl | Format::Json | Format::Csv | Format::Tsv => {
                let start = jsonl::UnitStart::of(path, range, *compression, &self.lines[file]);
                let (lines, start) = as_lines(text()?, *format, start);
                let lookup = FieldLookup::of(listed, &self.spec, &self.other_files);
                Box::new(jsonl::JsonLines::new(lines, &self.spec, start, lookup, reading)?)
            }
            Format::Text => Box::new(text::TextDocuments::new(text()?, &self.spec.documents, reading)),
        })
    }
}

impl Source for FileSource {
    fn units(&self) -> &[Unit] {
        &self.units
    }

    fn columns(&self) -> Option<SchemaRef> {
        self.columns.clone()
    }

    fn format(&self) -> Option<Format> {
        self.files.first().map(|file| file.format)
    }

    fn is_plain(&self) -> bool {
        let plain = |file: &SourceFile| {
            file.format == Format::Text && file.compression == Compression::None && file.remote.is_none()
        };
        let bytes = self.units.iter().filter_map(|unit| unit.text_bytes).fold(0, u64::saturating_add);
        self.files.iter().all(plain) && bytes / PLAIN_BYTES >= to_u64(self.files.len())
    }

    fn bytes_elsewhere(&self) -> u64 {
        let other_files = self.files[self.kept.clone()].iter().filter_map(|file| file.remote.as_ref());
        declared_sum(other_files.map(|remote| Some(remote.bytes()))).unwrap_or(0)
    }

    fn stored_bytes(&self) -> Vec<u64> {
        let mut rows = vec![0_u64; self.files.len()];
        for (&file, unit) in self.file_of_unit.iter().zip(&self.units) {
            rows[file] = rows[file].saturating_add(unit.rows.unwrap_or(0));
        }
        let bytes = |(&file, unit): (&usize, &Unit)| match unit.range {
            RowRange::Bytes(from, to) => to.saturating_sub(from),
            // The row groups of a file share its size by their rows.
            RowRange::RowGroups(..) => {
                let rows = (u128::from(unit.rows.unwrap_or(0)), u128::from(rows[file].max(1)));
                let share = u128::from(self.bytes_of(file)) * rows.0 / rows.1;
                u64::try_from(share).unwrap_or(u64::MAX)
            }
            RowRange::Whole | RowRange::Rows(..) => self.bytes_of(file),
        };
        self.file_of_unit.iter().zip(&self.units).map(bytes).collect()
    }

    fn keep_units(&mut self, range: Range<usize>) -> bool {
        self.units.truncate(range.end);
        self.units.drain(..range.start);
        self.file_of_unit.truncate(range.end);
        self.file_of_unit.drain(..range.start);
        self.kept = match (self.file_of_unit.first(), self.file_of_unit.last()) {
            (Some(&first), Some(&last)) => first..last + 1,
            _ => 0..0,
        };
        true
    }

    fn identity(&self, unit: usize) -> Result<Identity> {
        let file_index = self.file_of_unit[unit];
        let file = &self.files[file_index];
        match self.identities.get(file_index) {
            // Only the size is known, so different content of the same size would not be noticed.
            Some(Identity::Web { etag, .. }) if etag.is_empty() && file.remote.is_some() => {}
            Some(known) => return Ok(known.clone()),
            None => self.watches[file_index].check()?,
        }
        if file.format == Format::Parquet {
            return parquet::identity(file);
        }
        let io = |cause| Error::io("read", &file.name, cause);
        if let Some(remote) = &file.remote {
            let sha256 = integrity::sha256_of(SequentialReader::new(Arc::clone(remote))).map_err(io)?;
            return Ok(Identity::Content { bytes: remote.bytes(), sha256 });
        }
        let bytes = fs::metadata(&file.path).map_err(io)?.len();
        let raw = content::raw(&file.path, self.units[unit].range).map_err(io)?;
        Ok(Identity::Content { bytes, sha256: integrity::sha256_of(raw).map_err(io)? })
    }

    fn changed(&self) -> Option<&str> {
        self.watches[self.kept.clone()]
            .iter()
            .find(|watch| watch.check().is_err())
            .map(|watch| watch.name.as_str())
    }

    fn identified_with(&self, unit: usize) -> usize {
        match self.units[unit].range {
            RowRange::RowGroups(..) => {
                self.file_of_unit.partition_point(|&file| file < self.file_of_unit[unit])
            }
            RowRange::Whole | RowRange::Bytes(..) | RowRange::Rows(..) => unit,
        }
    }

    fn read(&self, unit: usize) -> Result<Documents<'static>> {
        let file = self.file_of_unit[unit];
        let watch = &self.watches[file];
        watch.check()?;
        let reading = ReadContext {
            source: self.bad.source,
            unit,
            name: self.files[file].name.clone(),
            batch_bytes: self.config.batch_bytes,
            bad: self.bad.begin(Some(unit)).of_file(watch),
        };
        let bad = reading.bad.clone();
        let Unit { range, rows, .. } = self.units[unit];
        let documents = skipped(self.documents(file, range, reading), &bad, rows)?;
        // A file that was truncated while it was read gives no error of its own.
        let watch = Arc::clone(watch);
        let check = std::iter::once_with(move || watch.check().err().map(Err)).flatten();
        Ok(Box::new(documents.chain(check)))
    }

    fn skipped(&self, unit: usize) -> u64 {
        self.bad.skipped(Some(unit))
    }

    fn taken(&self, unit: usize, skipped: u64) {
        self.bad.taken(Some(unit), skipped);
    }
}

/// The documents of a unit. If it cannot be read and bad input is skipped, the unit is empty and all its rows count as
/// skipped: one row if their number is not known.
///
/// # Errors
/// The error, if bad input is not to be skipped.
fn skipped(
    documents: Result<Documents<'static>>,
    bad: &BadRows,
    rows: Option<u64>,
) -> Result<Documents<'static>> {
    documents.or_else(|error| {
        bad.skip_rows(error, rows.unwrap_or(1))?;
        Ok(Box::new(std::iter::empty()))
    })
}

/// Drops the footers of all files but the first [`KEPT_FOOTERS`], which are read first.
fn first_footers((file, opened): (usize, Result<OpenedFile>)) -> Result<OpenedFile> {
    opened.map(|opened| OpenedFile { footer: opened.footer.filter(|_| file < KEPT_FOOTERS), ..opened })
}

/// Opens a file: reads its footer or schema, checks its first bytes, and divides it into units.
///
/// # Errors
/// The file cannot be read, is of another kind than its name says, or lacks a requested column.
fn open_file(file: &SourceFile, spec: &SourceSpec, config: ReadConfig, window: u64) -> Result<OpenedFile> {
    let SourceFile { path, name, format, compression, remote } = file;
    let unit = |range, rows, text_bytes| Unit { name: name.clone(), range, rows, text_bytes };
    let columns = match format {
        Format::Parquet | Format::Arrow => None,
        _ => passed(spec, name, *format)?,
    };
    match format {
        Format::Parquet => {
            let footer = Footer::read(file, spec)?;
            let groups = footer.groups(name)?.into_iter().zip(0..);
            let units = groups
                .map(|(group, at)| unit(RowRange::RowGroups(at, at + 1), Some(group.rows), group.text_bytes))
                .collect();
            let columns = (!spec.columns.is_empty())
                .then(|| FileColumns { columns: footer.passed.clone(), all: footer.all.clone() });
            Ok(OpenedFile { units, columns, footer: Some(footer) })
        }
        // Remote Arrow files are refused when they are read.
        _ if remote.is_some() => {
            let plain = *format == Format::Text && *compression == Compression::None;
            let bytes = remote.as_ref().filter(|_| plain).map(|remote| remote.bytes());
            Ok(OpenedFile { columns, ..OpenedFile::plain(vec![unit(RowRange::Whole, None, bytes)]) })
        }
        Format::Arrow => {
            let stream = arrow::open(path)?;
            let columns =
                guarded(name, "its schema", || Ok::<_, Error>(arrow::columns(stream, spec, name)))??;
            Ok(OpenedFile { columns, ..OpenedFile::plain(vec![unit(RowRange::Whole, None, None)]) })
        }
        Format::Jsonl | Format::Json | Format::Csv | Format::Tsv | Format::Text => {
            let io = |cause| Error::io("read", path, cause);
            let file = fs::File::open(path).map_err(io)?;
            let bytes = file.metadata().map_err(io)?.len();
            let raw = sniff::check(file, name, *compression)?;
            if *compression != Compression::None {
                content::unpacked(raw, *compression, window, name)?;
                return Ok(OpenedFile {
                    columns,
                    ..OpenedFile::plain(vec![unit(RowRange::Whole, None, None)])
                });
            }
            // If records may span several lines, their beginnings cannot be found without reading the whole file, so
            // it is one unit.
            let rule = match format {
                Format::Text => &spec.documents,
                Format::Jsonl => &DocumentRule::Line,
                Format::Json if records::is_lines(PeekReader::with(raw, records::PEEKED_BYTES).first()) => {
                    &DocumentRule::Line
                }
                _ => &DocumentRule::File,
            };
            let text_bytes = |bytes| (*format == Format::Text).then_some(bytes);
            let rows = (*format == Format::Text && *rule == DocumentRule::File).then_some(1);
            let starts = text::starts(path, bytes, rule, config.range_bytes).map_err(io)?;
            let units = match starts.as_slice() {
                [] | [_] => vec![unit(RowRange::Whole, rows, text_bytes(bytes))],
                _ => {
                    let ends = starts.iter().skip(1).copied().chain([bytes]);
                    let ranges = starts.iter().zip(ends);
                    ranges
                        .map(|(&from, to)| unit(RowRange::Bytes(from, to), None, text_bytes(to - from)))
                        .collect()
                }
            };
            Ok(OpenedFile { columns, ..OpenedFile::plain(units) })
        }
    }
}

/// The pass-through columns of a file in a text format: fields of records, which are passed through as text. Plain
/// text has no columns besides those that its path gives. Columns of Arrow from a pipe cannot be passed through, since
/// they are not known before the pipe is read.
///
/// # Errors
/// The format has no columns, and the path does not give them either.
fn passed(spec: &SourceSpec, name: &str, format: Format) -> Result<Option<FileColumns>> {
    let (names, all) = (&spec.columns, Vec::new());
    if names.is_empty() {
        return Ok(None);
    }
    if format.has_fields() {
        return Ok(Some(FileColumns { columns: FieldColumns::schema(names), all }));
    }
    if format == Format::Text && names.iter().all(|column| value_in_path(name, column).is_some()) {
        return Ok(Some(FileColumns { columns: Arc::new(Schema::empty()), all }));
    }
    if format == Format::Arrow {
        let problem = format!("{name} is arrow, whose columns can be passed through only from a file");
        return Err(Error::usage(problem).with_help("write it to a file, and give that as the source"));
    }
    Err(Error::usage(format!("{name} is {format} and has no columns to pass through")).with_help(
        "only Parquet, Arrow, JSON, CSV and TSV files have columns that can pass through, and folders with \
         names such as lang=fr",
    ))
}

/// Standard input or a named pipe: a single unit that can be read once.
pub(super) struct PipeSource {
    /// The description of the source.
    spec: SourceSpec,
    /// The format, which follows from the request or a pipe's name.
    format: Format,
    /// The schema of the pass-through columns, if any.
    columns: Option<SchemaRef>,
    /// The sizes of batches.
    config: ReadConfig,
    /// The only unit.
    units: Vec<Unit>,
    /// The data, until it is read.
    reader: Mutex<Option<Box<dyn Read + Send>>>,
    /// Receives bad input.
    bad: BadInput,
}

impl PipeSource {
    /// Describes data from a pipe, which messages call `name`. Nothing is read yet.
    ///
    /// # Errors
    /// The format needs random access, or has no columns although some are requested.
    pub(super) fn open(
        spec: &SourceSpec,
        name: String,
        reader: Box<dyn Read + Send>,
        config: ReadConfig,
        bad: BadInput,
    ) -> Result<PipeSource> {
        let format = spec.format.unwrap_or(Format::Text);
        if format == Format::Parquet {
            return Err(Error::usage(format!("{format} cannot be read from {name}"))
                .with_help("a Parquet file is read from its end: write it to a file first"));
        }
        let columns = passed(spec, &name, format)?.map(|of| of.columns);
        let units = vec![Unit { name, range: RowRange::Whole, rows: None, text_bytes: None }];
        let (spec, reader) = (spec.clone(), Mutex::new(Some(reader)));
        Ok(PipeSource { spec, format, columns, config, units, reader, bad })
    }

    /// Reads the documents of the pipe.
    fn documents(&self, pipe: Box<dyn Read + Send>, reading: ReadContext) -> Result<Documents<'static>> {
        let text = |pipe| content::text_of_pipe(pipe, self.config.window(1), &reading.name);
        Ok(match self.format {
            Format::Arrow => Box::new(arrow::read(arrow::ArrowInput::stream(pipe), &self.spec, reading)?),
            Format::Jsonl | Format::Json | Format::Csv | Format::Tsv => {
                let (lines, start) = as_lines(text(pipe)?, self.format, jsonl::UnitStart::FileStart);
                Box::new(jsonl::JsonLines::new(lines, &self.spec, start, FieldLookup::default(), reading)?)
            }
            // Parquet is refused by `open`.
            Format::Text | Format::Parquet => {
                Box::new(text::TextDocuments::new(text(pipe)?, &self.spec.documents, reading))
            }
        })
    }
}

impl Source for PipeSource {
    fn units(&self) -> &[Unit] {
        &self.units
    }

    fn columns(&self) -> Option<SchemaRef> {
        self.columns.clone()
    }

    fn format(&self) -> Option<Format> {
        Some(self.format)
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn identity(&self, _unit: usize) -> Result<Identity> {
        Ok(Identity::Stream)
    }

    fn read(&self, unit: usize) -> Result<Documents<'static>> {
        let reader = lock(&self.reader).take();
        let reader = reader.ok_or_else(|| {
            Error::failed(format!("{} can be read only once", self.units[unit].name))
                .with_help("write it to a file first, or let one command do both")
        })?;
        let reading = ReadContext {
            source: self.bad.source,
            unit,
            name: self.units[unit].name.clone(),
            batch_bytes: self.config.batch_bytes,
            bad: self.bad.begin(Some(unit)),
        };
        let bad = reading.bad.clone();
        skipped(self.documents(reader, reading), &bad, None)
    }

    fn skipped(&self, unit: usize) -> u64 {
        self.bad.skipped(Some(unit))
    }

    fn taken(&self, unit: usize, skipped: u64) {
        self.bad.taken(Some(unit), skipped);
    }
}
