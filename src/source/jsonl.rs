use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_array::builder::make_view;
use arrow_array::{BinaryViewArray, RecordBatch};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, SchemaRef};
use memchr::{memchr_iter, memrchr};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::fault::{Fault, without_memory};
use super::fields::{Beside, Fields};
use super::files::Reading;
use super::listing::Compression;
use super::mended::mended;
use super::row_text::{Part, RowText};
use super::{Batch, Range, SourceSpec, content};
use crate::error::{Error, ErrorKind, Result};
use crate::parallel::lock;
use crate::units::{amount, low32, place64};

/// What some programs put before the first line, and is no JSON.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What helps where the first line is an array, or the beginning of an object.
const AS_JSON: &str = "an array, or objects that go over several lines, have the format json: --format json (`format` in recipes)";

/// The longest line: what a view can hold.
const LONGEST_LINE: usize = (1 << 31) - 1;

/// Where a unit begins in its file, to number its lines if that is ever asked for.
pub(super) enum Start {
    Beginning,
    At {
        path: PathBuf,
        byte: u64,
        lines: Arc<LinesBefore>,
    },
    /// Lines were made of records, of which it is known why some are no objects.
    Records(Arc<Unreadable>),
}

/// What is wrong with records, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Unreadable(Mutex<BTreeMap<u64, String>>);

impl Unreadable {
    pub(super) fn add(&self, record: u64, problem: String) {
        lock(&self.0).insert(record, problem);
    }
}

impl Start {
    /// The unit is of a file of whose lines those before some places are known.
    pub(super) fn of(path: &Path, range: Range, compression: Compression, lines: &Arc<LinesBefore>) -> Start {
        match (range, compression) {
            (Range::Bytes(byte, _), Compression::None) => {
                Start::At { path: path.to_path_buf(), byte, lines: Arc::clone(lines) }
            }
            _ => Start::Beginning,
        }
    }

    fn is_of_file(&self) -> bool {
        matches!(self, Start::Beginning | Start::At { byte: 0, .. } | Start::Records(_))
    }

    /// Lines before the unit.
    fn lines_before(&self) -> io::Result<u64> {
        match self {
            Start::Beginning | Start::Records(_) => Ok(0),
            Start::At { path, byte, lines } => lines.count(path, *byte),
        }
    }
}

/// How many lines of a file are before the bytes for which that was asked: all units together count each line once.
#[derive(Debug, Default)]
pub(super) struct LinesBefore(Mutex<BTreeMap<u64, u64>>);

impl LinesBefore {
    /// Reads the file from the last such byte on. Who asks meanwhile waits, to go on from there.
    fn count(&self, path: &Path, byte: u64) -> io::Result<u64> {
        let mut known = lock(&self.0);
        let (from, mut lines) =
            known.range(..=byte).next_back().map_or((0, 0), |(&from, &lines)| (from, lines));
        let mut between = content::raw(path, Range::Bytes(from, byte))?;
        let mut block = vec![0; 1 << 16];
        loop {
            match between.read(&mut block)? {
                0 => break,
                read => lines += amount(memchr_iter(b'\n', &block[..read]).count()),
            }
        }
        known.insert(byte, lines);
        Ok(lines)
    }
}

/// The documents of JSONL: a field of the object on each line, null where the field is null or missing. Lines of
/// white space are no documents. That none of the first lines of a file has the field is an error, since its name
/// is hardly the right one; the same goes for fields that pass through. A line that cannot be read ends a batch, so
/// that whoever has enough documents before it does not come by it.
///
/// **Memory:** two blocks, or two lines where one is longer.
pub(super) struct Rows {
    from: Option<Box<dyn Read + Send>>,
    text: RowText,
    /// The fields that pass through.
    passed: SchemaRef,
    beside: Beside,
    start: Start,
    lines_before: Option<u64>,
    block: Vec<u8>,
    /// How much of the block has been given out, and where its whole lines end.
    given: usize,
    whole: usize,
    block_bytes: usize,
    /// The most bytes of a line.
    longest: usize,
    line: u64,
    row: u64,
    ended: bool,
    reading: Reading,
}

impl Rows {
    pub(super) fn new(
        from: Box<dyn Read + Send>,
        spec: &SourceSpec,
        start: Start,
        beside: Beside,
        reading: Reading,
    ) -> Result<Rows> {
        Ok(Rows {
            from: Some(from),
            text: RowText::of(spec)?,
            passed: Fields::schema(&spec.columns),
            beside,
            start,
            lines_before: None,
            block: Vec::new(),
            given: 0,
            whole: 0,
            block_bytes: place64(reading.batch_bytes.clamp(1, 1 << 30)),
            longest: spec.longest_read.map_or(LONGEST_LINE, |most| place64(most.0).min(LONGEST_LINE)),
            line: 0,
            row: 0,
            ended: false,
            reading,
        })
    }

    /// Reads on until the block has at least one whole line, and gives the length of its whole lines.
    fn fill(&mut self) -> Result<usize> {
        let mut wanted = self.block_bytes;
        loop {
            let Some(from) = self.from.as_mut() else { return Ok(self.block.len()) };
            let more = wanted.saturating_sub(self.block.len());
            let searched = self.block.len();
            match from.take(amount(more)).read_to_end(&mut self.block) {
                Ok(read) if read == more => {}
                Ok(_) => self.from = None,
                Err(cause) => {
                    let lines = amount(memchr_iter(b'\n', &self.block).count());
                    let thing = if matches!(self.start, Start::Records(_)) { "record" } else { "line" };
                    let place = format!("its text after {thing} {}", self.line + lines);
                    self.reading.bad(Fault::damaged(&self.reading.name, place, cause))?;
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
                    if self.longest < LONGEST_LINE { ", which is what the memory limit allows" } else { "" };
                let error = self
                    .line_error(self.line + 1, format!("it is longer than {} bytes{limit}", self.longest));
                return Err(if limit.is_empty() { error } else { without_memory(error) });
            }
            wanted = self.block.len().saturating_mul(2).min(self.longest);
        }
    }

    fn line_error(&mut self, line: u64, problem: String) -> Error {
        if let Start::Records(unreadable) = &self.start {
            let problem = lock(&unreadable.0).remove(&line).unwrap_or(problem);
            return Fault::Record { file: self.reading.name.clone(), record: line, problem }.failed();
        }
        if self.lines_before.is_none() {
            // Without the count the line is numbered from the unit's start, which is better than no error.
            self.lines_before = Some(self.start.lines_before().unwrap_or(0));
        }
        let line = line + self.lines_before.unwrap_or(0);
        Fault::Line { file: self.reading.name.clone(), line, problem }.failed()
    }

    /// What is wrong if none of the first lines has a field.
    fn no_field(&self, lines: &[u8], field: &str) -> Error {
        let lines = lines.strip_prefix(BYTE_ORDER_MARK).unwrap_or(lines);
        let objects = lines.split(|&byte| byte == b'\n');
        let first = objects.filter_map(|line| serde_json::from_slice::<Map<String, Value>>(line).ok()).next();
        let fields = first.into_iter().flatten().map(|(field, _)| field).collect();
        let fault = Fault::NoField { file: self.reading.name.clone(), column: field.to_owned(), fields };
        fault.usage().with_help(match self.text.columns().any(|column| column == field) {
            true => "name the field that holds the text: `column` in a recipe, `--column` among flags",
            false => "name fields of the input, or leave `columns` out",
        })
    }

    /// The rows up to the end of the block, or to the next line that cannot be read.
    fn rows(&mut self) -> Result<Batch> {
        if self.given == self.whole {
            self.block.drain(..self.given);
            (self.given, self.whole) = (0, 0);
            self.whole = self.fill()?;
        }
        let block = std::mem::take(&mut self.block);
        let outcome = self.rows_of(&block);
        self.block = block;
        outcome
    }

    fn rows_of(&mut self, block: &[u8]) -> Result<Batch> {
        let mut texts = Texts::new(&self.text, Fields::needing(&self.passed, &self.beside.by_path));
        texts.replace = self.reading.bad.replaces();
        for line in block[self.given..self.whole].split_inclusive(|&byte| byte == b'\n') {
            let mark = line.starts_with(BYTE_ORDER_MARK) && self.line == 0 && self.start.is_of_file();
            let object = if mark { &line[BYTE_ORDER_MARK.len()..] } else { line };
            let outcome = match object.trim_ascii() {
                [] => Ok(()),
                _ => texts.add(object, &self.text),
            };
            if outcome.is_err() && !texts.views.is_empty() {
                break;
            }
            self.line += 1;
            self.given += line.len();
            if let Err(problem) = outcome {
                let error = self.line_error(self.line, problem);
                let is_layout = self.line == 1
                    && matches!(object.trim_ascii(), [b'['] | [b'{'] | [b'[', b'{' | b'\n', ..]);
                let is_records = matches!(self.start, Start::Records(_));
                self.reading.bad(if is_layout && !is_records { error.with_help(AS_JSON) } else { error })?;
            }
        }
        if texts.is_replaced {
            self.reading.bad.replaced(&self.reading.name);
        }
        let first_row = self.row;
        if first_row == 0 && self.start.is_of_file() && !texts.views.is_empty() {
            let further = block[self.given..self.whole].split_inclusive(|&byte| byte == b'\n');
            for (lacking, is_text) in texts.lacking_with(further, &self.text) {
                if is_text || !self.beside.is_elsewhere(&lacking) {
                    return Err(self.no_field(&block[..self.whole], &lacking));
                }
                self.reading.bad.lacks(&lacking, self.reading.unit, &self.reading.name);
            }
        }
        self.row += amount(texts.views.len());
        let (documents, columns) =
            texts.finish().map_err(|cause| Fault::damaged(&self.reading.name, "its text", cause))?;
        Ok(self.reading.batch(first_row, documents, columns))
    }
}

impl Iterator for Rows {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        while !self.ended {
            let rows = self.rows();
            self.ended = self.from.is_none() && self.given == self.block.len();
            match rows {
                Ok(batch) if batch.is_empty() => {}
                Ok(batch) => return Some(Ok(batch)),
                Err(error) => {
                    self.ended = true;
                    // What is asked for is wrong for all lines, so that leaving some out would not help.
                    let wrong = error.kind() == ErrorKind::Usage;
                    return if wrong { Some(Err(error)) } else { self.reading.bad(error).err().map(Err) };
                }
            }
        }
        None
    }
}

/// Texts laid end to end, with their views, and what passes through beside them.
struct Texts {
    bytes: Vec<u8>,
    views: Vec<u128>,
    valid: Vec<bool>,
    /// Which fields of the text any line had.
    met: Vec<bool>,
    passed: Fields,
    /// Whether what is no character is to be replaced, and whether it was.
    replace: bool,
    is_replaced: bool,
}

impl Texts {
    fn new(text: &RowText, passed: Fields) -> Texts {
        let (bytes, views, valid) = Default::default();
        let met = text.columns().map(|_| false).collect();
        Texts { bytes, views, valid, met, passed, replace: false, is_replaced: false }
    }

    /// The fields that none of the rows has: those of the text, of which it is said, and those that pass through.
    fn lacking<'a>(&'a self, text: &'a RowText) -> impl Iterator<Item = (&'a str, bool)> {
        let of_text = text.columns().zip(&self.met).filter(|(_, met)| !**met).map(|(field, _)| (field, true));
        of_text.chain(self.passed.lacking().map(|field| (field, false)))
    }

    /// The same with further lines, of which those that cannot be read have none.
    fn lacking_with<'a>(
        &self,
        mut lines: impl Iterator<Item = &'a [u8]>,
        text: &RowText,
    ) -> Vec<(String, bool)> {
        let mut all = Texts { met: self.met.clone(), ..Texts::new(text, self.passed.emptied()) };
        while all.lacking(text).next().is_some()
            && let Some(line) = lines.next()
        {
            let _ = all.add(line, text);
        }
        all.lacking(text).map(|(field, is_text)| (field.to_owned(), is_text)).collect()
    }

    /// Appends the text of a line, or says what is wrong with the line.
    fn add(&mut self, line: &[u8], text: &RowText) -> std::result::Result<(), String> {
        let Err(error) = self.add_json(line, text, None) else { return Ok(()) };
        let Some(mended) = mended(line, self.replace) else { return Err(problem(&error)) };
        match self.add_json(&mended.line, text, Some(&mended.before)) {
            Ok(()) => {
                self.is_replaced |= mended.is_replaced;
                Ok(())
            }
            Err(error) if mended.has_numbers => {
                let problem = problem(&error);
                let is_number = ["floating point `0.0`", "floating point `-0.0`"];
                Err(is_number.iter().fold(problem, |problem, zero| problem.replace(zero, "NaN or Infinity")))
            }
            Err(error) => Err(problem(&error)),
        }
    }

    /// The same of a line that is JSON; `before` is what stood there before it was made that.
    fn add_json(&mut self, line: &[u8], text: &RowText, before: Option<&[u8]>) -> serde_json::Result<()> {
        let at = self.bytes.len();
        let found = match text.only_column() {
            Some(column) => self.found(line, column, &text.join).map(|found| {
                self.met[0] |= found.is_some();
                found.unwrap_or(false)
            }),
            None => self.composed(line, text),
        };
        let found = found.and_then(|found| {
            let values = self.passed.values(line)?;
            self.passed.add(&values, before.map(|before| (line, before))).map(|()| found)
        });
        match found {
            Ok(found) => {
                self.views.push(make_view(&self.bytes[at..], 0, low32(at)));
                self.valid.push(found);
                Ok(())
            }
            Err(error) => {
                self.bytes.truncate(at);
                Err(error)
            }
        }
    }

    /// Appends the text of one field alone, and gives whether there was one, `None` where there was no such field.
    fn found(&mut self, line: &[u8], column: &str, join: &str) -> serde_json::Result<Option<bool>> {
        let mut json = serde_json::Deserializer::from_slice(line);
        let found = FieldOf { column, join, into: &mut self.bytes }.deserialize(&mut json)?;
        json.end().map(|()| found)
    }

    /// Appends the parts of a text, and gives whether there was a text in any of them.
    fn composed(&mut self, line: &[u8], text: &RowText) -> serde_json::Result<bool> {
        let (at, mut any, mut column) = (self.bytes.len(), false, 0);
        for part in &text.parts {
            match part {
                Part::Same(same) => self.bytes.extend_from_slice(same.as_bytes()),
                Part::Column(path) => {
                    let found = self.found(line, path, &text.join)?;
                    self.met[column] |= found.is_some();
                    any |= found == Some(true);
                    column += 1;
                }
            }
        }
        if !any {
            self.bytes.truncate(at);
        }
        Ok(any)
    }

    fn finish(self) -> std::result::Result<(BinaryViewArray, Option<RecordBatch>), ArrowError> {
        let nulls = self.valid.contains(&false).then(|| NullBuffer::from(self.valid));
        let texts = vec![Buffer::from_vec(self.bytes)];
        let documents = BinaryViewArray::try_new(ScalarBuffer::from(self.views), texts, nulls)?;
        Ok((documents, self.passed.finish()?))
    }
}

/// The error without its place: the parser counts lines of its own, and there is only one.
fn problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    // What the parser misses is the other half of a pair, and it calls each half that stands alone the leading one.
    let message = match message {
        "unexpected end of hex escape" | "lone leading surrogate in hex escape" => {
            "half of a surrogate pair stands alone, which is no character; --on-bad-input replace puts U+FFFD there"
        }
        "invalid unicode code point" => {
            "its bytes are not UTF-8; --on-bad-input replace puts U+FFFD in the place of what is no character"
        }
        message => message,
    };
    format!("{message} (column {})", error.column())
}

/// Reads an object and appends one of its fields to `into`, which may be a field of an object in it (`a.b`), or all items of
/// a list (`a[]`), with a text between them; gives whether there was a text, and `None` where there was no such field.
struct FieldOf<'a> {
    column: &'a str,
    join: &'a str,
    into: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for FieldOf<'_> {
    type Value = Option<bool>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<Option<bool>, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldOf<'_> {
    type Value = Option<bool>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Option<bool>, A::Error> {
        let FieldOf { join, into, .. } = self;
        let at = into.len();
        let (mut found, mut best) = (None, usize::MAX);
        while let Some(key) = map.next_key_seed(Key { of: self.column })? {
            let before = into.len();
            let (now, rank) = match key {
                Place::Here => {
                    (Some(map.next_value_seed(TextOrNull { column: self.column, into: &mut *into })?), 0)
                }
                Place::Inside(column) => {
                    let field = Inside(FieldOf { column, join, into: &mut *into });
                    (map.next_value_seed(field)?, self.column.len() - column.len())
                }
                Place::Items(rest) => {
                    let items = Items { rest, column: self.column, join, into: &mut *into };
                    (map.next_value_seed(items)?, self.column.len() - rest.len())
                }
                Place::Elsewhere => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            // The field of the whole name goes first, then that of the shortest; and of several of one name the last, as for
            // most readers of JSON.
            if now.is_some() && rank <= best {
                into.drain(at..before);
                (found, best) = (now, rank);
            } else {
                into.truncate(before);
            }
        }
        Ok(found)
    }
}

/// Where a column is, seen from a field.
enum Place<'a> {
    Here,
    /// In the object that the field is, under this name.
    Inside(&'a str),
    /// In the items of the list that the field is, and this from there on.
    Items(&'a str),
    Elsewhere,
}

/// Compares a key with the name of a column without keeping it.
struct Key<'a> {
    of: &'a str,
}

impl<'de, 'a> DeserializeSeed<'de> for Key<'a> {
    type Value = Place<'a>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<Place<'a>, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Key<'a> {
    type Value = Place<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> std::result::Result<Place<'a>, E> {
        Ok(match self.of.strip_prefix(key) {
            None => Place::Elsewhere,
            Some("") => Place::Here,
            Some(rest) => match (rest.strip_prefix('.'), rest.strip_prefix("[]")) {
                (Some(name), _) => Place::Inside(name),
                (_, Some(rest)) if rest.is_empty() || rest.starts_with(['.', '[']) => Place::Items(rest),
                _ => Place::Elsewhere,
            },
        })
    }
}

/// A list of which the items are texts, or have them behind what is left of a path.
struct Items<'a> {
    rest: &'a str,
    column: &'a str,
    join: &'a str,
    into: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = Option<bool>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<Option<bool>, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = Option<bool>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list or null in {:?}", self.column)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Option<bool>, A::Error> {
        let Items { rest, column, join, into } = self;
        // Of a list without items it is not known whether these would have a field.
        let (mut any, mut found_any) = (false, rest.is_empty());
        loop {
            let before = into.len();
            if any {
                into.extend_from_slice(join.as_bytes());
            }
            let item = Item { rest, column, join, into: &mut *into };
            let Some(found) = seq.next_element_seed(item)? else {
                into.truncate(before);
                return Ok(found_any.then_some(any));
            };
            found_any |= found.is_some();
            if found == Some(true) {
                any = true;
            } else {
                into.truncate(before);
            }
        }
    }

    fn visit_unit<E>(self) -> std::result::Result<Option<bool>, E> {
        Ok(self.rest.is_empty().then_some(false))
    }
}

/// An item of a list.
struct Item<'a> {
    rest: &'a str,
    column: &'a str,
    join: &'a str,
    into: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Item<'_> {
    type Value = Option<bool>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<Option<bool>, D::Error> {
        let Item { rest, column, join, into } = self;
        if rest.is_empty() {
            return TextOrNull { column, into }.deserialize(from).map(Some);
        }
        match (rest.strip_prefix('.'), rest.strip_prefix("[]")) {
            (Some(name), _) => Inside(FieldOf { column: name, join, into }).deserialize(from),
            (_, Some(rest)) => Items { rest, column, join, into }.deserialize(from),
            _ => IgnoredAny::deserialize(from).map(|_| None),
        }
    }
}

/// A value that may be an object with a field; what is none has it as little as an object without it.
struct Inside<'a>(FieldOf<'a>);

impl<'de> DeserializeSeed<'de> for Inside<'_> {
    type Value = Option<bool>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<Option<bool>, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Inside<'_> {
    type Value = Option<bool>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> std::result::Result<Option<bool>, A::Error> {
        self.0.visit_map(map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Option<bool>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_unit<E>(self) -> std::result::Result<Option<bool>, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> std::result::Result<Option<bool>, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> std::result::Result<Option<bool>, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> std::result::Result<Option<bool>, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> std::result::Result<Option<bool>, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> std::result::Result<Option<bool>, E> {
        Ok(None)
    }
}

struct TextOrNull<'a> {
    column: &'a str,
    into: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for TextOrNull<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<bool, D::Error> {
        from.deserialize_any(self)
    }
}

impl Visitor<'_> for TextOrNull<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a string or null in {:?}", self.column)
    }

    fn visit_str<E>(self, text: &str) -> std::result::Result<bool, E> {
        self.into.extend_from_slice(text.as_bytes());
        Ok(true)
    }

    fn visit_unit<E>(self) -> std::result::Result<bool, E> {
        Ok(false)
    }
}
