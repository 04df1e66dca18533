//! Reads JSON Lines, and all formats that are converted to it (see [`super::records`]).
//!
//! A requested field that none of the first lines of any file has is an error, because its name is probably misspelled.
//! A pass-through field that only some files have is null in the others.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow::array::{BinaryViewArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use memchr::{memchr_iter, memrchr};
use serde::de::DeserializeSeed;
use serde_json::Value;

use super::content::{self, SourceFile};
use super::documents::TextBuilder;
use super::error::{damaged, memory_error};
use super::json_fields::{FieldColumns, FieldText, repaired};
use super::passthrough::value_in_path;
use super::records::{CsvToLines, JsonToLines, PEEKED_BYTES, RecordErrors, is_lines};
use super::row_text::{RowText, TemplatePart};
use super::skipped_rows::ReadContext;
use super::sniff::{BYTE_ORDER_MARK, PeekReader};
use super::{Batch, Compression, DEFAULT_BATCH_BYTES, DEFAULT_WINDOW_BYTES, Format, RowRange, SourceSpec};
use crate::base::hash::Map;
use crate::base::int::{to_u64, u64_to_usize};
use crate::base::pools::lock;
use crate::error::{Error, ErrorKind, Result, json_problem};

/// The advice if the first line is an array or the beginning of an object.
const AS_JSON: &str =
    "an array, or objects that span several lines, have the format json: --format json (`format` in recipes)";

/// Maximum bytes of a line: the length limit of an Arrow view.
const LONGEST_LINE: usize = (1 << 31) - 1;

/// The position of a unit in its file, which is needed to number lines in messages.
pub(super) enum UnitStart {
    /// The beginning of the file, or of data that is read as a whole.
    FileStart,
    /// A byte offset of an uncompressed file.
    At { path: PathBuf, byte: u64, lines: Arc<LinesBefore> },
    /// The lines were made of records of another format. It is known which records are unreadable, and why.
    Records(Arc<RecordErrors>),
}

/// Converts text in a format that has fields to one JSON object per line. Returns how messages number the lines, too:
/// as lines, or as records if their layout may differ.
pub(super) fn as_lines(
    text: Box<dyn Read + Send>,
    format: Format,
    start: UnitStart,
) -> (Box<dyn Read + Send>, UnitStart) {
    match format {
        Format::Json if matches!(start, UnitStart::FileStart) => {
            let text = PeekReader::with(text, PEEKED_BYTES);
            if is_lines(text.first()) {
                return (Box::new(text), start);
            }
            (Box::new(JsonToLines::new(text.without_byte_order_mark())), UnitStart::Records(Arc::default()))
        }
        Format::Csv | Format::Tsv => {
            let text = PeekReader::new(text).without_byte_order_mark();
            let errors = Arc::<RecordErrors>::default();
            (Box::new(CsvToLines::new(text, format, Arc::clone(&errors))), UnitStart::Records(errors))
        }
        Format::Json | Format::Jsonl => (text, start),
        // These have no records of text.
        Format::Parquet | Format::Arrow | Format::Text => (text, start),
    }
}

impl UnitStart {
    /// The start of a unit of a file. `lines` is shared by all units of the file.
    pub(super) fn of(
        path: &Path,
        range: RowRange,
        compression: Compression,
        lines: &Arc<LinesBefore>,
    ) -> UnitStart {
        match (range, compression) {
            (RowRange::Bytes(byte, _), Compression::None) => {
                UnitStart::At { path: path.to_path_buf(), byte, lines: Arc::clone(lines) }
            }
            _ => UnitStart::FileStart,
        }
    }

    /// Whether the unit begins at the beginning of the file.
    fn is_of_file(&self) -> bool {
        matches!(self, UnitStart::FileStart | UnitStart::At { byte: 0, .. } | UnitStart::Records(_))
    }

    /// Number of lines before the unit. Counts them if necessary, which reads the file.
    ///
    /// # Errors
    /// The file cannot be read.
    fn lines_before(&self) -> io::Result<u64> {
        match self {
            UnitStart::FileStart | UnitStart::Records(_) => Ok(0),
            UnitStart::At { path, byte, lines } => lines.count(path, *byte),
        }
    }
}

/// The number of lines before certain offsets of a file. All units together count each line only once.
#[derive(Debug, Default)]
pub(super) struct LinesBefore(Mutex<BTreeMap<u64, u64>>);

impl LinesBefore {
    /// Counts lines from the nearest known offset on. Other threads wait meanwhile, and then continue from the new
    /// offset.
    ///
    /// # Errors
    /// The file cannot be read.
    fn count(&self, path: &Path, byte: u64) -> io::Result<u64> {
        let mut known = lock(&self.0);
        let (from, mut lines) =
            known.range(..=byte).next_back().map_or((0, 0), |(&from, &lines)| (from, lines));
        let mut between = content::raw(path, RowRange::Bytes(from, byte))?;
        let mut block = vec![0; 1 << 16];
        loop {
            match between.read(&mut block)? {
                0 => break,
                read => lines += to_u64(memchr_iter(b'\n', &block[..read]).count()),
            }
        }
        known.insert(byte, lines);
        Ok(lines)
    }
}

/// The documents of JSONL: one field of the object on each line, or text composed of several; null where the field is
/// null or missing. Lines of white space are skipped.
///
/// If none of the first lines of a file has the field, this is an error, because the name is probably misspelled. The
/// same holds for pass-through fields. A batch ends before a line that cannot be read, so a consumer that needs no
/// more documents does not meet the error.
///
/// **Memory:** two blocks, or two lines if a line is longer than a block.
pub(super) struct JsonLines {
    /// The rest of the text; `None` once it has been read.
    from: Option<Box<dyn Read + Send>>,
    /// The composition of a document.
    text: RowText,
    /// The schema of the pass-through fields.
    passed: SchemaRef,
    /// Information about the fields of other files.
    lookup: FieldLookup,
    /// The position of the unit in its file.
    start: UnitStart,
    /// Number of lines before the unit, once it has been counted.
    lines_before: Option<u64>,
    /// The part of the text that is being read.
    block: Vec<u8>,
    /// The part of the block that has been given out, and the end of its last complete line.
    consumed: usize,
    complete: usize,
    /// Bytes to read at once, if lines are not longer.
    block_bytes: usize,
    /// Maximum bytes of a line.
    longest: usize,
    /// Number of lines of the unit that have been read.
    line: u64,
    /// Number of documents that have been given out.
    row: u64,
    /// Whether all documents have been given out, or an error was.
    ended: bool,
    reading: ReadContext,
}

impl JsonLines {
    /// Reads the lines that `from` gives.
    ///
    /// # Errors
    /// The template of the text is invalid.
    pub(super) fn new(
        from: Box<dyn Read + Send>,
        spec: &SourceSpec,
        start: UnitStart,
        lookup: FieldLookup,
        reading: ReadContext,
    ) -> Result<JsonLines> {
        Ok(JsonLines {
            from: Some(from),
            text: RowText::of(spec)?,
            passed: FieldColumns::schema(&spec.columns),
            lookup,
            start,
            lines_before: None,
            block: Vec::new(),
            consumed: 0,
            complete: 0,
            block_bytes: u64_to_usize(reading.batch_bytes.clamp(1, 1 << 30)),
            longest: spec.longest_read.map_or(LONGEST_LINE, |most| u64_to_usize(most.0).min(LONGEST_LINE)),
            line: 0,
            row: 0,
            ended: false,
            reading,
        })
    }

    /// Reads until the block has at least one complete line, and returns the length of its complete lines. At the end
    /// of the text, the last line counts as complete.
    ///
    /// # Errors
    /// The text cannot be read and bad input is not to be skipped, or a line is too long.
    fn fill(&mut self) -> Result<usize> {
        let mut wanted = self.block_bytes;
        loop {
            let Some(from) = self.from.as_mut() else { return Ok(self.block.len()) };
            let more = wanted.saturating_sub(self.block.len());
            let searched = self.block.len();
            match from.take(to_u64(more)).read_to_end(&mut self.block) {
                Ok(read) if read == more => {}
                Ok(_) => self.from = None,
                Err(cause) => {
                    let lines = to_u64(memchr_iter(b'\n', &self.block).count());
                    let thing = if matches!(self.start, UnitStart::Records(_)) { "record" } else { "line" };
                    let place = format!("its text after {thing} {}", self.line + lines);
                    self.reading.bad.skip(damaged(&self.reading.name, place, cause))?;
                    self.from = None;
                    self.block.truncate(memrchr(b'\n', &self.block).map_or(0, |newline| newline + 1));
                }
            }
            if self.from.is_none() {
                return Ok(self.block.len());
            }
            if let Some(newline) = memrchr(b'\n', &self.block[searched..]) {
                return Ok(searched + newline + 1);
            }
            if self.block.len() >= self.longest {
                self.from = None;
                self.block.clear();
                let limit =
                    if self.longest < LONGEST_LINE { ", the most that the memory limit allows" } else { "" };
                let error = self
                    .line_error(self.line + 1, format!("it is longer than {} bytes{limit}", self.longest));
                return Err(if limit.is_empty() { error } else { memory_error(error) });
            }
            wanted = self.block.len().saturating_mul(2).min(self.longest);
        }
    }

    /// The error for a line of the unit, with its number in the file.
    fn line_error(&mut self, line: u64, problem: String) -> Error {
        if let UnitStart::Records(errors) = &self.start {
            let problem = errors.take(line).unwrap_or(problem);
            return Error::failed(format!("{}: record {line}: {problem}", self.reading.name));
        }
        if self.lines_before.is_none() {
            // If counting fails, the line is numbered from the start of the unit, which is better than no error.
            self.lines_before = Some(self.start.lines_before().unwrap_or(0));
        }
        let line = line + self.lines_before.unwrap_or(0);
        Error::failed(format!("{}: line {line}: {problem}", self.reading.name))
    }

    /// The error if none of the first lines has a field.
    fn no_field(&self, lines: &[u8], field: &str) -> Error {
        let lines = lines.strip_prefix(BYTE_ORDER_MARK).unwrap_or(lines);
        let objects = lines.split(|&byte| byte == b'\n');
        let first = objects
            .filter_map(|line| serde_json::from_slice::<serde_json::Map<String, Value>>(line).ok())
            .next();
        let fields: Vec<String> = first.into_iter().flatten().map(|(field, _)| field).collect();
        Error::usage(format!(
            "the first lines of {} have no field {field:?}; the fields of the first are {}",
            self.reading.name,
            fields.join(", ")
        ))
        .with_help(match self.text.columns().any(|column| column == field) {
            true => {
                "name the field that holds the text: `column` in a recipe, `--column` on the command line"
            }
            false => "name fields of the input, or leave `columns` out",
        })
    }

    /// The documents up to the end of the block, or up to the next line that cannot be read.
    ///
    /// # Errors
    /// A line cannot be read, or no line has a requested field.
    fn rows(&mut self) -> Result<Batch> {
        if self.consumed == self.complete {
            self.block.drain(..self.consumed);
            (self.consumed, self.complete) = (0, 0);
            self.complete = self.fill()?;
        }
        let block = std::mem::take(&mut self.block);
        let outcome = self.rows_of(&block);
        self.block = block;
        outcome
    }

    /// The same, with the block borrowed separately from `self`.
    fn rows_of(&mut self, block: &[u8]) -> Result<Batch> {
        let mut texts = LineTexts::new(&self.text, FieldColumns::needing(&self.passed, &self.lookup.by_path));
        texts.replace = self.reading.bad.replaces();
        for line in block[self.consumed..self.complete].split_inclusive(|&byte| byte == b'\n') {
            let mark = line.starts_with(BYTE_ORDER_MARK) && self.line == 0 && self.start.is_of_file();
            let object = if mark { &line[BYTE_ORDER_MARK.len()..] } else { line };
            let outcome = match object.trim_ascii() {
                [] => Ok(()),
                _ => texts.add(object, &self.text),
            };
            if outcome.is_err() && texts.texts.len() > 0 {
                break;
            }
            self.line += 1;
            self.consumed += line.len();
            if let Err(problem) = outcome {
                let error = self.line_error(self.line, problem);
                let is_layout = self.line == 1 && matches!(object.trim_ascii(), [b'{'] | [b'[', ..]);
                let is_records = matches!(self.start, UnitStart::Records(_));
                self.reading.bad.skip(if is_layout && !is_records {
                    error.with_help(AS_JSON)
                } else {
                    error
                })?;
            }
        }
        if texts.is_replaced {
            self.reading.bad.replaced(&self.reading.name);
        }
        let first_row = self.row;
        if first_row == 0 && self.start.is_of_file() && texts.texts.len() > 0 {
            let further = block[self.consumed..self.complete].split_inclusive(|&byte| byte == b'\n');
            for (missing_fields, is_text) in texts.missing_with(further, &self.text) {
                if is_text || !self.lookup.is_in_other_files(&missing_fields) {
                    return Err(self.no_field(&block[..self.complete], &missing_fields));
                }
                self.reading.bad.record_missing_column(
                    &missing_fields,
                    self.reading.unit,
                    &self.reading.name,
                );
            }
        }
        self.row += to_u64(texts.texts.len());
        let (documents, columns) =
            texts.finish().map_err(|cause| damaged(&self.reading.name, "its text", cause))?;
        Ok(self.reading.batch(first_row, documents, columns))
    }
}

impl Iterator for JsonLines {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        while !self.ended {
            let rows = self.rows();
            self.ended = self.from.is_none() && self.consumed == self.block.len();
            match rows {
                Ok(batch) if batch.is_empty() => {}
                Ok(batch) => return Some(Ok(batch)),
                Err(error) => {
                    self.ended = true;
                    // The request is wrong for every line, so skipping lines would not help.
                    let wrong = error.kind() == ErrorKind::Usage;
                    return if wrong {
                        Some(Err(error))
                    } else {
                        self.reading.bad.skip(error).err().map(Err)
                    };
                }
            }
        }
        None
    }
}

/// Texts stored end to end with views into them, and the pass-through fields beside them.
struct LineTexts {
    /// The texts, one per document.
    texts: TextBuilder,
    /// For each field of the text, whether any line had it.
    seen: Vec<bool>,
    /// The pass-through fields.
    passed: FieldColumns,
    /// Whether invalid characters are to be replaced, and whether any were.
    replace: bool,
    is_replaced: bool,
}

impl LineTexts {
    /// No documents yet, with pass-through fields `passed`.
    fn new(text: &RowText, passed: FieldColumns) -> LineTexts {
        let (texts, seen) = (TextBuilder::default(), text.columns().map(|_| false).collect());
        LineTexts { texts, seen, passed, replace: false, is_replaced: false }
    }

    /// The fields that no row has, with `true` for fields of the text and `false` for pass-through fields.
    fn missing_fields<'a>(&'a self, text: &'a RowText) -> impl Iterator<Item = (&'a str, bool)> {
        let of_text =
            text.columns().zip(&self.seen).filter(|(_, seen)| !**seen).map(|(field, _)| (field, true));
        of_text.chain(self.passed.missing_fields().map(|field| (field, false)))
    }

    /// The same, with further lines taken into account. Lines that cannot be read have no fields.
    fn missing_with<'a>(
        &self,
        mut lines: impl Iterator<Item = &'a [u8]>,
        text: &RowText,
    ) -> Vec<(String, bool)> {
        let mut all = LineTexts { seen: self.seen.clone(), ..LineTexts::new(text, self.passed.emptied()) };
        while all.missing_fields(text).next().is_some()
            && let Some(line) = lines.next()
        {
            let _ = all.add(line, text);
        }
        all.missing_fields(text).map(|(field, is_text)| (field.to_owned(), is_text)).collect()
    }

    /// Appends the text of a line, repairing the line if that helps, or returns the problem with the line.
    ///
    /// # Errors
    /// The problem, for a message. Nothing is appended then.
    fn add(&mut self, line: &[u8], text: &RowText) -> std::result::Result<(), String> {
        let Err(error) = self.add_json(line, text, None) else { return Ok(()) };
        let Some(repaired) = repaired(line, self.replace) else { return Err(problem(&error)) };
        match self.add_json(&repaired.line, text, Some(&repaired.before)) {
            Ok(()) => {
                self.is_replaced |= repaired.is_replaced;
                Ok(())
            }
            Err(error) if repaired.has_numbers => {
                let problem = problem(&error);
                let is_number = ["floating point `0.0`", "floating point `-0.0`"];
                Err(is_number.iter().fold(problem, |problem, zero| problem.replace(zero, "NaN or Infinity")))
            }
            Err(error) => Err(problem(&error)),
        }
    }

    /// Appends the text of a line of valid JSON. `before` is the original line if it was repaired. After an error
    /// nothing is appended.
    ///
    /// # Errors
    /// The line is not a JSON object, or a requested field has the wrong type.
    fn add_json(&mut self, line: &[u8], text: &RowText, before: Option<&[u8]>) -> serde_json::Result<()> {
        let at = self.texts.bytes.len();
        let has_text = match text.only_column() {
            Some(column) => self.append_field(line, column, &text.join).map(|has_text| {
                self.seen[0] |= has_text.is_some();
                has_text.unwrap_or(false)
            }),
            None => self.composed(line, text),
        };
        let has_text = has_text.and_then(|has_text| {
            let values = self.passed.values(line)?;
            self.passed.add(&values, before.map(|before| (line, before))).map(|()| has_text)
        });
        match has_text {
            Ok(has_text) => {
                self.texts.push(at, has_text);
                Ok(())
            }
            Err(error) => {
                self.texts.bytes.truncate(at);
                Err(error)
            }
        }
    }

    /// Appends the text of a single field. Returns whether the field has text, or `None` if the line has no such
    /// field.
    ///
    /// # Errors
    /// The line is not a JSON object, or the field has the wrong type.
    fn append_field(&mut self, line: &[u8], column: &str, join: &str) -> serde_json::Result<Option<bool>> {
        let mut json = serde_json::Deserializer::from_slice(line);
        let has_text = FieldText::new(column, join, &mut self.texts.bytes).deserialize(&mut json)?;
        json.end().map(|()| has_text)
    }

    /// Appends the parts of a template. Returns whether any of its fields has text.
    ///
    /// # Errors
    /// The line is not a JSON object, or a field has the wrong type.
    fn composed(&mut self, line: &[u8], text: &RowText) -> serde_json::Result<bool> {
        let (at, mut any, mut column) = (self.texts.bytes.len(), false, 0);
        for part in &text.parts {
            match part {
                TemplatePart::Literal(same) => self.texts.bytes.extend_from_slice(same.as_bytes()),
                TemplatePart::Column(path) => {
                    let has_text = self.append_field(line, path, &text.join)?;
                    self.seen[column] |= has_text.is_some();
                    any |= has_text == Some(true);
                    column += 1;
                }
            }
        }
        if !any {
            self.texts.bytes.truncate(at);
        }
        Ok(any)
    }

    /// The documents, and the pass-through columns if any.
    fn finish(self) -> std::result::Result<(BinaryViewArray, Option<RecordBatch>), ArrowError> {
        Ok((self.texts.finish()?, self.passed.finish()?))
    }
}

/// Says what is wrong with a row, and at which column. The caller adds the line, because the parser sees only one row.
fn problem(error: &serde_json::Error) -> String {
    let problem = json_problem(error);
    let remedy = if problem.starts_with("half of a surrogate pair") {
        "; --on-bad-input replace puts U+FFFD there"
    } else if problem.ends_with("not UTF-8") {
        "; --on-bad-input replace puts U+FFFD in place of invalid bytes"
    } else {
        ""
    };
    let place = match (error.line(), error.column()) {
        (..=1, column) => format!("column {column}"),
        // The parser has read the line break.
        (2, 0) => "at the end of the line".to_owned(),
        // Records of a JSON array may have several lines.
        (line, 0) => format!("at the end of its line {}", line - 1),
        (line, column) => format!("column {column} of its line {line}"),
    };
    format!("{problem}{remedy} ({place})")
}

/// Information about the fields of a file before it is read.
#[derive(Default)]
pub(super) struct FieldLookup {
    /// For each column, whether the file's path gives its value, so that no field is needed.
    pub(super) by_path: Vec<bool>,
    /// The source's other files, which may have a field that this file lacks.
    other_files: Option<Arc<OtherFiles>>,
}

impl FieldLookup {
    /// The information about the requested fields of a file.
    pub(super) fn of(
        file: &SourceFile,
        spec: &SourceSpec,
        other_files: &Option<Arc<OtherFiles>>,
    ) -> FieldLookup {
        let by_path = spec.columns.iter().map(|column| value_in_path(&file.name, column).is_some()).collect();
        FieldLookup { by_path, other_files: other_files.clone() }
    }

    /// Whether another file has the field in its first lines or in its path.
    pub(super) fn is_in_other_files(&self, field: &str) -> bool {
        self.other_files.as_ref().is_some_and(|files| files.have(field))
    }
}

/// The files of a source. If one of them lacks a field, the first lines of the others are searched for it: a field
/// that no file has is probably misspelled.
pub(super) struct OtherFiles {
    /// The files of the source.
    files: Vec<SourceFile>,
    /// Results of searches by field.
    known: Mutex<Map<String, bool>>,
}

impl OtherFiles {
    /// Prepares the search. No file is read yet.
    pub(super) fn of(files: &[SourceFile]) -> OtherFiles {
        OtherFiles { files: files.to_vec(), known: Mutex::default() }
    }

    /// Whether any file has the field. Searches all files at the first question about a field and remembers the
    /// answer.
    fn have(&self, field: &str) -> bool {
        let mut known = lock(&self.known);
        if let Some(&found) = known.get(field) {
            return found;
        }
        let has = |file: &SourceFile| value_in_path(&file.name, field).is_some() || has_field(file, field);
        let found = self.files.iter().any(has);
        known.insert(field.to_owned(), found);
        found
    }
}

/// Whether the first lines of a file have a field. A file that cannot be read has none.
fn has_field(file: &SourceFile, field: &str) -> bool {
    let mut lines = Vec::new();
    let Ok(text) = content::text(file, RowRange::Whole, DEFAULT_WINDOW_BYTES) else { return false };
    let (text, _) = as_lines(text, file.format, UnitStart::FileStart);
    // An error of decompression ends the lines that are searched.
    let _ = text.take(DEFAULT_BATCH_BYTES).read_to_end(&mut lines);
    let fields = FieldColumns::new(&FieldColumns::schema(&[field.to_owned()]));
    lines.split(|&byte| byte == b'\n').any(|line| fields.values(line).is_ok_and(|values| values[0].is_some()))
}
