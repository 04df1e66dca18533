//! Converts CSV and TSV to JSON Lines, so that one reader handles both.
//!
//! The parser of the crate `csv_core` accepts wrong quotes silently, for example text after a closing quote, and then
//! gives values that nobody meant. This module detects them by counting: a correctly quoted field has, in the file,
//! exactly the bytes of its value, one more for each quote in the value, and two for the enclosing quotes.

use std::io::{self, Read};
use std::mem;
use std::sync::Arc;

use csv_core::{ReadFieldResult, Reader, ReaderBuilder};
use memchr::memchr_iter;

use super::Format;
use super::jsonl::Unreadable;

/// Bytes of input that are read at once.
const BLOCK_BYTES: usize = 64 << 10;

/// Bytes of a field that are converted at once.
const FIELD_BYTES: usize = 8 << 10;

/// Maximum bytes of a header. A file with a longer first record is hardly a table.
const LONGEST_HEADER: usize = 1 << 20;

/// A mark that some programs write before the header.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A reader that gives the records of a table as JSON objects, one per line, with the names of the header as keys.
/// Following RFC 4180, fields may be quoted and then contain delimiters, line breaks and doubled quotes. Empty lines
/// are skipped. A record with an error becomes an invalid line, and [`Unreadable`] receives the reason.
///
/// **Memory:** the header and two blocks, whatever the lengths of records.
pub(super) struct Table<R> {
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
    state: Record,
    /// Number of complete records.
    records: u64,
    /// Receives the records with errors.
    unreadable: Arc<Unreadable>,
    /// JSON that has not been given out, from `given` on.
    out: Vec<u8>,
    given: usize,
    /// Whether all records have been converted.
    ended: bool,
}

/// The part of a record that has been read.
#[derive(Default)]
struct Record {
    /// Number of complete fields.
    fields: usize,
    /// The current field.
    raw: Raw,
    /// The first error in the record.
    problem: Option<String>,
}

/// A field as written in the file, as far as it has been read. It shows whether the quotes are correct.
#[derive(Default)]
struct Raw {
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

impl Raw {
    /// Adds a part of the field as written, and the part of the value that it means.
    fn add(&mut self, raw: &[u8], value: &[u8]) {
        self.first = self.first.or(raw.first().copied());
        for &byte in &raw[raw.len().saturating_sub(self.last.len())..] {
            self.last = [self.last[1], self.last[2], byte];
        }
        self.bytes += crate::base::int::to_u64(raw.len());
        self.value_bytes += crate::base::int::to_u64(value.len());
        self.value_quotes += crate::base::int::to_u64(memchr_iter(b'"', value).count());
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

impl<R: Read> Table<R> {
    /// Converts the text that `from` gives. Records with errors are reported to `unreadable`.
    pub(super) fn new(from: R, format: Format, unreadable: Arc<Unreadable>) -> Table<R> {
        let delimiter = if format == Format::Tsv { b'\t' } else { b',' };
        Table {
            from,
            parser: ReaderBuilder::new().delimiter(delimiter).build(),
            input: Vec::new(),
            at: 0,
            from_ended: false,
            field: vec![0; FIELD_BYTES],
            names: None,
            state: Record::default(),
            records: 0,
            unreadable,
            out: Vec::new(),
            given: 0,
            ended: false,
        }
    }

    /// Reads the next block if none is left.
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
            None => {
                self.skip_mark()?;
                as_keys(&self.header()?)
            }
        };
        let outcome = self.record(&names);
        self.names = Some(names);
        outcome
    }

    /// Skips a byte order mark before the header.
    fn skip_mark(&mut self) -> io::Result<()> {
        self.fill()?;
        while self.input.len() < BYTE_ORDER_MARK.len() && !self.from_ended {
            let mut more = [0; 1];
            match self.from.read(&mut more)? {
                0 => break,
                _ => self.input.push(more[0]),
            }
        }
        if self.input.starts_with(BYTE_ORDER_MARK) {
            self.at = BYTE_ORDER_MARK.len();
        }
        Ok(())
    }

    /// Converts the next part of a record to JSON.
    fn record(&mut self, names: &[String]) -> io::Result<()> {
        let begins = self.state.raw.bytes == 0;
        let Some((filled, ends, ends_record)) = self.part()? else {
            self.ended = true;
            return Ok(());
        };
        if let Some(name) = names.get(self.state.fields) {
            if begins {
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
        let Record { fields, problem, .. } = mem::take(&mut self.state);
        self.records += 1;
        let problem = problem.or_else(|| {
            (fields != names).then(|| format!("it has {fields} fields, and the header has {names}"))
        });
        match problem {
            None => self.out.extend_from_slice(b"}\n"),
            Some(problem) => {
                self.unreadable.add(self.records, problem);
                self.out.push(b'\n');
            }
        }
    }
}

impl<R: Read> Read for Table<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.out.len() && !self.ended {
            self.out.clear();
            self.given = 0;
            self.advance()?;
        }
        let read = into.len().min(self.out.len() - self.given);
        into[..read].copy_from_slice(&self.out[self.given..self.given + read]);
        self.given += read;
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
