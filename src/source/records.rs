//! Converts JSON in other layouts, CSV and TSV to JSON Lines.
//!
//! So all text formats with records share the reader of JSON Lines, with its rules for columns, templates, bad input
//! and memory. Only numbering differs: messages count records instead of lines if a record need not be one line.
//!
//! **JSON**: arrays of objects, and sequences of objects in any layout. The converter does not parse values. It tracks
//! strings and the depth of brackets only, which takes constant memory however long a value is, and leaves checking to
//! the reader of the lines. An invalid value therefore becomes an invalid line. At an outermost position, the brackets
//! and commas of an array become line breaks.
//!
//! **CSV and TSV**: the parser of the crate `csv_core` accepts wrong quotes silently, for example text after a closing
//! quote, and then gives values that nobody meant. This module detects them by counting: a correctly quoted field has,
//! in the file, exactly the bytes of its value, one more for each quote in the value, and two for the enclosing quotes.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::mem;
use std::sync::{Arc, Mutex};

use csv_core::{ReadFieldResult, Reader, ReaderBuilder};
use memchr::{memchr_iter, memchr3};
use serde::de::IgnoredAny;

use super::Format;
use super::sniff::BYTE_ORDER_MARK;
use crate::base::int::to_u64;
use crate::base::pools::lock;

/// The problems of unreadable records, by record number.
#[derive(Debug, Default)]
pub(super) struct RecordErrors(Mutex<BTreeMap<u64, String>>);

impl RecordErrors {
    /// Records why a record is unreadable.
    pub(super) fn add(&self, record: u64, problem: String) {
        lock(&self.0).insert(record, problem);
    }

    /// Takes the reason why a record is unreadable, if it was recorded.
    pub(super) fn take(&self, record: u64) -> Option<String> {
        lock(&self.0).remove(&record)
    }
}

/// Bytes of input that are read at once.
const BLOCK_BYTES: usize = 64 << 10;

/// Bytes of a file by which JSON Lines are recognized.
pub(super) const PEEKED_BYTES: u64 = 64 << 10;

/// Whether text that begins with these bytes is JSON Lines: its first line is an object.
pub(super) fn is_lines(first: &[u8]) -> bool {
    let first = first.strip_prefix(BYTE_ORDER_MARK).unwrap_or(first).trim_ascii_start();
    let line = first.split(|&byte| byte == b'\n').next().unwrap_or_default();
    line.len() < first.len() && line.starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// A reader that gives the elements of the arrays in a text, or the values outside of arrays, one per line. Line
/// breaks inside a value become spaces.
///
/// **Memory:** one block of 64 KiB, whatever the lengths of values.
pub(super) struct JsonToLines<R> {
    /// The text to convert.
    from: R,
    /// The block of input that is being converted.
    input: Vec<u8>,
    /// Offset in `input` of the next byte.
    at: usize,
    /// Number of brackets and braces that are open in the current value.
    depth: u64,
    /// Whether an outermost array is open. Its elements are the values.
    in_array: bool,
    /// Whether a value has begun.
    in_value: bool,
    /// Whether a string is open.
    in_string: bool,
    /// Whether the next byte of a string follows a backslash.
    escaped: bool,
    /// Whether a value has ended and its line break is still to be given.
    ended_value: bool,
}

impl<R: Read> JsonToLines<R> {
    /// Converts the text that `from` gives.
    pub(super) fn new(from: R) -> JsonToLines<R> {
        JsonToLines {
            from,
            input: Vec::new(),
            at: 0,
            depth: 0,
            in_array: false,
            in_value: false,
            in_string: false,
            escaped: false,
            ended_value: false,
        }
    }

    /// Reads the next block if none is left; returns `false` at the end.
    ///
    /// # Errors
    /// The input cannot be read.
    fn fill(&mut self) -> io::Result<bool> {
        if self.at < self.input.len() {
            return Ok(true);
        }
        self.input.clear();
        self.at = 0;
        let read = self.from.by_ref().take(to_u64(BLOCK_BYTES)).read_to_end(&mut self.input);
        // Bytes that were read before an error are given first. The next read reports the error.
        if self.input.is_empty() { read.map(|_| false) } else { Ok(true) }
    }

    /// The output for an input byte outside of strings.
    fn byte(&mut self, byte: u8) -> u8 {
        let is_outside = self.depth == 0;
        match byte {
            b'[' if is_outside && !self.in_array && !self.in_value => {
                self.in_array = true;
                return b' ';
            }
            b']' if is_outside && self.in_array => {
                (self.in_array, self.in_value) = (false, false);
                return b'\n';
            }
            b',' if is_outside && self.in_array => {
                self.in_value = false;
                return b'\n';
            }
            b'\n' => {
                let ends = is_outside && !self.in_array && self.in_value;
                self.in_value &= !ends;
                return if ends { b'\n' } else { b' ' };
            }
            b' ' | b'\t' | b'\r' => return byte,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b'"' => self.in_string = true,
            _ => {}
        }
        self.in_value = true;
        byte
    }

    /// The number of the next bytes of a string that are given unchanged, without examining each one.
    fn plain(&self, room: usize) -> usize {
        let rest = &self.input[self.at..];
        let rest = &rest[..rest.len().min(room)];
        if self.in_string && !self.escaped {
            memchr3(b'"', b'\\', b'\n', rest).unwrap_or(rest.len())
        } else {
            0
        }
    }

    /// The output for an input byte inside a string.
    fn byte_of_string(&mut self, byte: u8) -> u8 {
        let was_escaped = mem::take(&mut self.escaped);
        match byte {
            b'\\' => self.escaped = !was_escaped,
            b'"' => self.in_string = was_escaped,
            // JSON strings contain no line breaks, so this one is invalid. It must stay invalid without ending the
            // line.
            b'\n' => return b'\r',
            _ => {}
        }
        byte
    }

    /// The end of the input: an error if a value or array is open.
    ///
    /// # Errors
    /// A value or an array is not closed.
    fn end(&self) -> io::Result<usize> {
        let open = match (self.in_string || self.depth > 0, self.in_array) {
            (true, _) => "a value",
            (false, true) => "an array",
            (false, false) => return Ok(0),
        };
        Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("{open} is not closed: the text is cut off"),
        ))
    }
}

impl<R: Read> Read for JsonToLines<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            if mem::take(&mut self.ended_value) {
                into[filled] = b'\n';
                filled += 1;
                continue;
            }
            if self.at == self.input.len() && filled > 0 {
                break;
            }
            if !self.fill()? {
                return self.end();
            }
            let plain = self.plain(into.len() - filled);
            into[filled..filled + plain].copy_from_slice(&self.input[self.at..self.at + plain]);
            (self.at, filled) = (self.at + plain, filled + plain);
            let Some(&byte) = self.input.get(self.at).filter(|_| filled < into.len()) else { continue };
            self.at += 1;
            let was_open = self.depth > 0;
            into[filled] = if self.in_string { self.byte_of_string(byte) } else { self.byte(byte) };
            filled += 1;
            if was_open && self.depth == 0 && !self.in_array {
                (self.ended_value, self.in_value) = (true, false);
            }
        }
        Ok(filled)
    }
}

/// Bytes of a field that are converted at once.
const FIELD_BYTES: usize = 8 << 10;

/// Maximum bytes of a header. A file with a longer first record is hardly a table.
const LONGEST_HEADER: usize = 1 << 20;

/// A reader that gives the records of a table as JSON objects, one per line, with the names of the header as keys.
/// Following RFC 4180, fields may be quoted and then contain delimiters, line breaks and doubled quotes. Empty lines
/// are skipped. A record with an error becomes an invalid line, and [`RecordErrors`] receives the reason.
///
/// **Memory:** the header and two blocks, whatever the lengths of records.
pub(super) struct CsvToLines<R> {
    /// The text to convert.
    from: R,
    /// The parser of CSV, which also handles tabs.
    parser: Reader,
    /// The block of input that is being converted.
    input: Vec<u8>,
    /// Offset in `input` of the next byte.
    at: usize,
    /// Whether the input has ended.
    from_ended: bool,
    /// The part of a field that the parser gave last.
    field: Vec<u8>,
    /// The JSON before each value of an object: a brace or comma, and the key. `None` before the header is read.
    names: Option<Vec<String>>,
    /// The state of the record that is being read.
    state: CsvRecord,
    /// Number of complete records.
    records: u64,
    /// Receives the records with errors.
    errors: Arc<RecordErrors>,
    /// JSON that has not been given out, from `consumed` on.
    out: Vec<u8>,
    consumed: usize,
    /// Whether all records have been converted.
    ended: bool,
}

/// The part of a record that has been read.
#[derive(Default)]
struct CsvRecord {
    /// Number of complete fields.
    fields: usize,
    /// The current field.
    raw: RawField,
    /// The first error in the record.
    problem: Option<String>,
}

/// A field as written in the file, as far as it has been read. It shows whether the quotes are correct.
#[derive(Default)]
struct RawField {
    /// The first byte, which shows whether the field is quoted.
    first: Option<u8>,
    /// The last bytes.
    last: [u8; 3],
    /// Number of bytes as written.
    bytes: u64,
    /// Number of bytes of the value that they mean, and the quotes among these.
    value_bytes: u64,
    /// Number of quotes in the value. Each is doubled in the file.
    value_quotes: u64,
}

impl RawField {
    /// Adds a part of the field as written, and the part of the value that it means.
    fn add(&mut self, raw: &[u8], value: &[u8]) {
        self.first = self.first.or(raw.first().copied());
        for &byte in &raw[raw.len().saturating_sub(self.last.len())..] {
            self.last = [self.last[1], self.last[2], byte];
        }
        self.bytes += to_u64(raw.len());
        self.value_bytes += to_u64(value.len());
        self.value_quotes += to_u64(memchr_iter(b'"', value).count());
    }

    /// The error in the quotes of a complete field. `is_at_end` says that the field ends with the file, without a
    /// terminator.
    fn problem(&self, is_at_end: bool) -> Option<&'static str> {
        if self.first != Some(b'"') {
            return None;
        }
        let (terminator, closing) = match self.last {
            [.., closing] if is_at_end => (0, closing),
            [closing, b'\r', b'\n'] => (2, closing),
            [_, closing, _] => (1, closing),
        };
        match self.bytes.checked_sub(terminator) {
            Some(bytes) if closing == b'"' && bytes == self.value_bytes + self.value_quotes + 2 => None,
            _ if is_at_end => Some("a quote that opens a field is not closed"),
            _ => Some("something follows the quote that closes a field"),
        }
    }
}

impl<R: Read> CsvToLines<R> {
    /// Converts the text that `from` gives. Records with errors are reported to `errors`.
    pub(super) fn new(from: R, format: Format, errors: Arc<RecordErrors>) -> CsvToLines<R> {
        let delimiter = if format == Format::Tsv { b'\t' } else { b',' };
        CsvToLines {
            from,
            parser: ReaderBuilder::new().delimiter(delimiter).build(),
            input: Vec::new(),
            at: 0,
            from_ended: false,
            field: vec![0; FIELD_BYTES],
            names: None,
            state: CsvRecord::default(),
            records: 0,
            errors,
            out: Vec::new(),
            consumed: 0,
            ended: false,
        }
    }

    /// Reads the next block if none is left.
    ///
    /// # Errors
    /// The input cannot be read.
    fn fill(&mut self) -> io::Result<()> {
        if self.at < self.input.len() || self.from_ended {
            return Ok(());
        }
        self.input.resize(BLOCK_BYTES, 0);
        let read = loop {
            match self.from.read(&mut self.input) {
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.input.truncate(*read.as_ref().unwrap_or(&0));
        self.at = 0;
        self.from_ended = read? == 0;
        Ok(())
    }

    /// Reads the next part of a field into `self.field`. Returns its length, whether the field ends, and whether the
    /// record ends; `None` at the end of the table.
    ///
    /// # Errors
    /// The input cannot be read.
    fn part(&mut self) -> io::Result<Option<(usize, bool, bool)>> {
        loop {
            self.fill()?;
            let is_before = self.state.fields == 0 && self.state.raw.bytes == 0;
            if is_before && matches!(self.input.get(self.at), Some(b'\n' | b'\r')) {
                self.at += 1;
                continue;
            }
            let input = &self.input[self.at..];
            let (result, read, filled) = self.parser.read_field(input, &mut self.field);
            self.state.raw.add(&input[..read], &self.field[..filled]);
            self.at += read;
            match result {
                ReadFieldResult::InputEmpty if filled == 0 => {}
                ReadFieldResult::InputEmpty | ReadFieldResult::OutputFull => {
                    return Ok(Some((filled, false, false)));
                }
                ReadFieldResult::Field { record_end } => return Ok(Some((filled, true, record_end))),
                ReadFieldResult::End => return Ok(None),
            }
        }
    }

    /// Ends a field and checks its quotes.
    fn end_field(&mut self) {
        let raw = mem::take(&mut self.state.raw);
        self.state.fields += 1;
        if let Some(problem) = raw.problem(self.from_ended && self.input.is_empty()) {
            self.state.problem.get_or_insert_with(|| problem.to_owned());
        }
    }

    /// Reads the names of the columns.
    ///
    /// # Errors
    /// The header is too long, not UTF-8, or has wrong quotes; or the input cannot be read.
    fn header(&mut self) -> io::Result<Vec<String>> {
        let wrong =
            |problem: &str| io::Error::new(io::ErrorKind::InvalidData, format!("its header: {problem}"));
        let (mut names, mut name, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some((filled, ends, ends_record)) = self.part()? {
            name.extend_from_slice(&self.field[..filled]);
            bytes += filled;
            if bytes > LONGEST_HEADER {
                return Err(wrong("it is longer than 1 MB"));
            }
            if ends {
                self.end_field();
                let name = mem::take(&mut name);
                names.push(String::from_utf8(name).map_err(|_| wrong("a name is not UTF-8"))?);
            }
            if ends_record {
                break;
            }
        }
        match mem::take(&mut self.state).problem {
            Some(problem) => Err(wrong(&problem)),
            None => Ok(names),
        }
    }

    /// Reads and converts the next part of a record.
    ///
    /// # Errors
    /// The header is invalid, or the input cannot be read.
    fn advance(&mut self) -> io::Result<()> {
        let names = match self.names.take() {
            Some(names) => names,
            None => as_keys(&self.header()?),
        };
        let outcome = self.record(&names);
        self.names = Some(names);
        outcome
    }

    /// Converts the next part of a record to JSON.
    ///
    /// # Errors
    /// The input cannot be read.
    fn record(&mut self, names: &[String]) -> io::Result<()> {
        let is_first = self.state.raw.bytes == 0;
        let Some((filled, ends, ends_record)) = self.part()? else {
            self.ended = true;
            return Ok(());
        };
        if let Some(name) = names.get(self.state.fields) {
            if is_first {
                self.out.extend_from_slice(name.as_bytes());
            }
            escape(&self.field[..filled], &mut self.out);
            if ends {
                self.out.push(b'"');
            }
        }
        if ends {
            self.end_field();
        }
        if ends_record {
            self.end_record(names.len());
        }
        Ok(())
    }

    /// Ends a line, which is a complete object, or invalid if the record has an error.
    fn end_record(&mut self, names: usize) {
        let CsvRecord { fields, problem, .. } = mem::take(&mut self.state);
        self.records += 1;
        let problem = problem.or_else(|| {
            (fields != names).then(|| format!("it has {fields} fields, and the header has {names}"))
        });
        match problem {
            None => self.out.extend_from_slice(b"}\n"),
            Some(problem) => {
                self.errors.add(self.records, problem);
                self.out.push(b'\n');
            }
        }
    }
}

impl<R: Read> Read for CsvToLines<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.consumed == self.out.len() && !self.ended {
            self.out.clear();
            self.consumed = 0;
            self.advance()?;
        }
        let read = into.len().min(self.out.len() - self.consumed);
        into[..read].copy_from_slice(&self.out[self.consumed..self.consumed + read]);
        self.consumed += read;
        Ok(read)
    }
}

/// The JSON before the values of an object with these keys.
fn as_keys(names: &[String]) -> Vec<String> {
    let key = |(at, name): (usize, &String)| {
        let name = serde_json::Value::String(name.clone());
        format!("{}{name}:\"", if at == 0 { '{' } else { ',' })
    };
    names.iter().enumerate().map(key).collect()
}

/// Appends text, escaped as within a JSON string.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    let mut plain = 0;
    for (at, &byte) in text.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&text[plain..at]);
        plain = at + 1;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
    }
    out.extend_from_slice(&text[plain..]);
}
