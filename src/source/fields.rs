//! Passes fields of JSON objects through as columns of text.
//!
//! JSON has no schema, so types of columns could only be guessed from some lines and contradicted by later ones.
//! Therefore every field becomes a column of strings. Files without a requested field get nulls, but a field that no
//! file has in its first lines is reported as an error, because it is probably misspelled.

use std::io::Read;
use std::sync::{Arc, Mutex};

use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use serde_json::value::RawValue;

use super::jsonl::Start;
use super::listing::Listed;
use super::open::{DEFAULT_BATCH_BYTES, DEFAULT_WINDOW_BYTES};
use super::passed::value_in_path;
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
