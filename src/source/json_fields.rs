//! Passes fields of JSON objects through as columns of text.
//!
//! JSON has no schema, so types of columns could only be guessed from some lines and contradicted by later ones.
//! Therefore every field becomes a column of strings. Files without a requested field get nulls, but a field that no
//! file has in its first lines is reported as an error, because it is probably misspelled.
//!
//! Repairs lines of JSONL that other programs write and that are not JSON: `NaN` and infinities as numbers, and text
//! with invalid characters.

use std::borrow::Cow;
use std::io::Read;
use std::sync::{Arc, Mutex};

use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use serde_json::value::RawValue;

use super::jsonl::Start;
use super::listing::Listed;
use super::open::{DEFAULT_BATCH_BYTES, DEFAULT_WINDOW_BYTES};
use super::passthrough::value_in_path;
use super::records::as_lines;
use super::{Range, SourceSpec, content};
use crate::base::pools::lock;
use crate::base::seeded_hash::Map;

/// The pass-through fields of JSON objects, one row per object: strings as they are, any other value as its JSON
/// text, and null where the field is null or missing. All columns are text because the type of numbers would
/// otherwise depend on all lines of all files.
pub(super) struct Fields {
    /// The schema of the columns, all of text.
    schema: SchemaRef,
    /// The values so far, one builder per column.
    columns: Vec<StringViewBuilder>,
    /// For each column, whether any object had the field.
    met: Vec<bool>,
}

/// Information about the fields of a file before it is read.
#[derive(Default)]
pub(super) struct Beside {
    /// For each column, whether the file's path gives its value, so that no field is needed.
    pub(super) by_path: Vec<bool>,
    /// The source's other files, which may have a field that this file lacks.
    elsewhere: Option<Arc<Elsewhere>>,
}

impl Beside {
    /// The information about the requested fields of a file.
    pub(super) fn of(file: &Listed, spec: &SourceSpec, elsewhere: &Option<Arc<Elsewhere>>) -> Beside {
        let by_path = spec.columns.iter().map(|column| value_in_path(&file.name, column).is_some()).collect();
        Beside { by_path, elsewhere: elsewhere.clone() }
    }

    /// Whether another file has the field in its first lines or in its path.
    pub(super) fn is_elsewhere(&self, field: &str) -> bool {
        self.elsewhere.as_ref().is_some_and(|files| files.have(field))
    }
}

/// The files of a source. If one of them lacks a field, the first lines of the others are searched for it: a field
/// that no file has is probably misspelled.
pub(super) struct Elsewhere {
    /// The files of the source.
    files: Vec<Listed>,
    /// Results of searches by field.
    known: Mutex<Map<String, bool>>,
}

impl Elsewhere {
    /// Prepares the search. No file is read yet.
    pub(super) fn of(files: &[Listed]) -> Elsewhere {
        Elsewhere { files: files.to_vec(), known: Mutex::default() }
    }

    /// Whether any file has the field. Searches all files at the first question about a field and remembers the
    /// answer.
    fn have(&self, field: &str) -> bool {
        let mut known = lock(&self.known);
        if let Some(&found) = known.get(field) {
            return found;
        }
        let has = |file: &Listed| value_in_path(&file.name, field).is_some() || has_field(file, field);
        let found = self.files.iter().any(has);
        known.insert(field.to_owned(), found);
        found
    }
}

/// Whether the first lines of a file have a field. A file that cannot be read has none.
fn has_field(file: &Listed, field: &str) -> bool {
    let mut lines = Vec::new();
    let Ok(text) = content::text(file, Range::Whole, DEFAULT_WINDOW_BYTES) else { return false };
    let (text, _) = as_lines(text, file.format, Start::Beginning);
    // An error of decompression ends the lines that are searched.
    let _ = text.take(DEFAULT_BATCH_BYTES).read_to_end(&mut lines);
    let fields = Fields::new(&Fields::schema(&[field.to_owned()]));
    lines.split(|&byte| byte == b'\n').any(|line| fields.values(line).is_ok_and(|values| values[0].is_some()))
}

/// The value of each column's field in one object; `None` if the object lacks the field.
pub(super) type Values<'a> = Vec<Option<&'a RawValue>>;

impl Fields {
    /// No rows of the columns in `schema`.
    pub(super) fn new(schema: &SchemaRef) -> Fields {
        let columns = schema.fields().iter();
        Fields {
            schema: Arc::clone(schema),
            columns: columns.clone().map(|_| StringViewBuilder::new()).collect(),
            met: columns.map(|_| false).collect(),
        }
    }

    /// Like [`new`](Fields::new), but the columns that `given` marks need no field in any object.
    pub(super) fn needing(schema: &SchemaRef, given: &[bool]) -> Fields {
        let fields = Fields::new(schema);
        let met = if given.is_empty() { fields.met } else { given.to_vec() };
        Fields { met, ..fields }
    }

    /// The same columns without rows, with the record of fields that have been seen.
    pub(super) fn emptied(&self) -> Fields {
        Fields { met: self.met.clone(), ..Fields::new(&self.schema) }
    }

    /// The schema of pass-through fields with these names.
    pub(super) fn schema(names: &[String]) -> SchemaRef {
        let fields = names.iter().map(|name| Field::new(name, DataType::Utf8View, true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// The values of an object's fields; the last one if a name occurs repeatedly.
    ///
    /// # Errors
    /// The object is not valid JSON.
    pub(super) fn values<'a>(&self, object: &'a [u8]) -> serde_json::Result<Values<'a>> {
        if self.columns.is_empty() {
            return Ok(Vec::new());
        }
        let fields: Map<String, &RawValue> = serde_json::from_slice(object)?;
        Ok(self.schema.fields().iter().map(|field| value_at(&fields, field.name())).collect())
    }

    /// Adds a row. If the object was repaired, `mended` is the repaired and the original text.
    ///
    /// # Errors
    /// A string among the values is invalid, for example a lone surrogate. Then no row is added.
    pub(super) fn add(
        &mut self,
        values: &Values<'_>,
        mended: Option<(&[u8], &[u8])>,
    ) -> serde_json::Result<()> {
        let texts: Vec<Option<String>> =
            values.iter().map(|value| text(*value, mended)).collect::<Result<_, _>>()?;
        for (((column, met), text), value) in
            self.columns.iter_mut().zip(&mut self.met).zip(texts).zip(values)
        {
            *met |= value.is_some();
            column.append_option(text);
        }
        Ok(())
    }

    /// The columns that no object had a field for.
    pub(super) fn lacking(&self) -> impl Iterator<Item = &str> {
        let fields = self.schema.fields().iter().zip(&self.met);
        fields.filter(|(_, met)| !**met).map(|(field, _)| field.name().as_str())
    }

    /// The rows as a record batch; `None` if no field is passed through.
    pub(super) fn finish(self) -> Result<Option<RecordBatch>, ArrowError> {
        if self.columns.is_empty() {
            return Ok(None);
        }
        let column = |mut column: StringViewBuilder| -> ArrayRef { Arc::new(column.finish()) };
        let columns = self.columns.into_iter().map(column).collect();
        RecordBatch::try_new(self.schema, columns).map(Some)
    }
}

/// The value of a name, or otherwise of the nested path `a.b`.
fn value_at<'a>(fields: &Map<String, &'a RawValue>, path: &str) -> Option<&'a RawValue> {
    if let Some(value) = fields.get(path) {
        return Some(value);
    }
    path.match_indices('.').find_map(|(dot, _)| {
        let inner = fields.get(&path[..dot]).filter(|value| value.get().starts_with('{'))?;
        value_at(&serde_json::from_str(inner.get()).ok()?, &path[dot + 1..])
    })
}

/// The text of a value. Values are compared by address to find their original text in a repaired object.
///
/// # Errors
/// The value is an invalid string.
fn text(value: Option<&RawValue>, mended: Option<(&[u8], &[u8])>) -> serde_json::Result<Option<String>> {
    match value.map(RawValue::get) {
        None | Some("null") => Ok(None),
        Some(json) if json.starts_with('"') => serde_json::from_str(json),
        Some(json) => Ok(Some(match mended {
            None => json.to_owned(),
            Some((line, before)) => {
                let at = json.as_ptr().addr() - line.as_ptr().addr();
                String::from_utf8_lossy(&before[at..at + json.len()]).into_owned()
            }
        })),
    }
}

/// A repaired line. Each value keeps its position and length.
pub(super) struct Mended<'a> {
    /// The line that can be parsed.
    pub(super) line: Vec<u8>,
    /// The original line, with invalid characters replaced as in `line`.
    pub(super) before: Cow<'a, [u8]>,
    /// Whether numbers that are not finite were replaced.
    pub(super) has_numbers: bool,
    /// Whether invalid characters were replaced by U+FFFD.
    pub(super) is_replaced: bool,
}

/// Numbers that JSON lacks, as Python's `json` and others write them, and the numbers of equal length that replace
/// them.
const NUMBERS: [(&[u8], &[u8]); 3] =
    [(b"NaN", b"0.0"), (b"Infinity", b"0.000000"), (b"-Infinity", b"-0.000000")];

/// Replaces numbers that JSON lacks and, if `replace` is set, invalid characters in text; `None` if the line has none
/// of these. The result may still be invalid JSON for other reasons.
///
/// The replaced numbers only make the line parseable: where a value is passed through as JSON, the caller takes its
/// text from [`Mended::before`] at the same position. This is why replacements must have equal lengths.
pub(super) fn mended(line: &[u8], replace: bool) -> Option<Mended<'_>> {
    let before = match String::from_utf8_lossy(line) {
        Cow::Owned(text) if replace => Cow::Owned(text.into_bytes()),
        _ => Cow::Borrowed(line),
    };
    let mut is_replaced = matches!(before, Cow::Owned(_));
    let mut mended = before.to_vec();
    let (mut at, mut has_numbers, mut in_text) = (0, false, false);
    while let Some(&byte) = before.get(at) {
        let rest = &before[at..];
        match byte {
            b'"' => in_text = !in_text,
            b'\\' if in_text => {
                let units = (unit_of(rest), unit_of(rest.get(6..).unwrap_or_default()));
                at += match units {
                    (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => 12,
                    (Some(0xD800..0xE000), _) if replace => {
                        mended[at..at + 6].copy_from_slice(b"\\ufffd");
                        is_replaced = true;
                        6
                    }
                    _ => 2,
                };
                continue;
            }
            _ if in_text => {}
            b'N' | b'I' | b'-' if at > 0 && is_border(before[at - 1]) => {
                let number = NUMBERS.iter().find(|(name, _)| {
                    rest.strip_prefix(*name)
                        .is_some_and(|behind| behind.first().is_none_or(|&next| is_border(next)))
                });
                if let Some((name, number)) = number {
                    mended[at..at + name.len()].copy_from_slice(number);
                    has_numbers = true;
                    at += name.len();
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    (has_numbers || is_replaced).then_some(Mended { line: mended, before, has_numbers, is_replaced })
}

/// The UTF-16 code unit of the `\uXXXX` escape at the beginning of `text`, if any.
fn unit_of(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().filter(|_| is_hex)
}

/// Whether a number can begin after, or end before, this byte.
fn is_border(byte: u8) -> bool {
    matches!(byte, b':' | b',' | b'[' | b']' | b'}') || byte.is_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(of: &str, replace: bool) -> Option<String> {
        let mended = mended(of.as_bytes(), replace)?;
        assert_eq!(mended.line.len(), mended.before.len());
        Some(String::from_utf8(mended.line).unwrap())
    }

    /// Only complete tokens outside of strings are replaced.
    #[test]
    fn numbers_that_json_lacks_become_others_of_their_length() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(line(r#"{"a":NaN}"#, false), some(r#"{"a":0.0}"#));
        assert_eq!(
            line(r#"{"a": [NaN, -Infinity ,Infinity]}"#, false),
            some(r#"{"a": [0.0, -0.000000 ,0.000000]}"#)
        );
        assert_eq!(
            line(r#"{"NaN": "NaN \" NaN", "b":NaN}"#, false),
            some(r#"{"NaN": "NaN \" NaN", "b":0.0}"#)
        );
        for wrong in [r#"{"a":NaNa}"#, r#"{"a":-NaN}"#, r#"{"a":"NaN"}"#, r#"{"a":1NaN}"#, "NaN", ""] {
            assert_eq!(line(wrong, false), None, "{wrong}");
        }
    }

    /// Lone surrogates, escaped or not, are replaced; pairs, and escapes of a backslash, are kept.
    #[test]
    fn halves_of_pairs_become_the_replacement() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(line(r#"{"a":"\ud800"}"#, true), some(r#"{"a":"\ufffd"}"#));
        assert_eq!(
            line(r#"{"a":"\udc00\ud83d\ude00\uD800x"}"#, true),
            some(r#"{"a":"\ufffd\ud83d\ude00\ufffdx"}"#)
        );
        assert_eq!(line(r#"{"a":"\ud800\ud83d\ude00"}"#, true), some(r#"{"a":"\ufffd\ud83d\ude00"}"#));
        for right in
            [r#"{"a":"\\ud800"}"#, r#"{"a":"\u00e9\n"}"#, r#"{"a":"\ud83d\ude00"}"#, r#"{"a":"\u+800"}"#]
        {
            assert_eq!(line(right, true), None, "{right}");
        }
        assert_eq!(line(r#"{"a":"\ud800"}"#, false), None);
        let wrong = mended(b"{\"a\":\"\xFF\", \"b\":NaN}", true).unwrap();
        assert_eq!(wrong.line, "{\"a\":\"\u{fffd}\", \"b\":0.0}".as_bytes());
    }
}
