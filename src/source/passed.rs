//! Combines the pass-through columns of a source's files: common types, columns that paths give, and nulls for
//! missing columns.
//!
//! A source's files may be written by different programs or at different times. Their columns are combined like this:
//!
//! - Types that differ only in encoding or width are converted to the [common type](super::cast::common_field).
//! - A column that only some files have is null in the others, which is reported once.
//! - Folder names in the Hive scheme (`lang=fr/part.parquet`) give values for all rows of the files below.
//! - Types without a common type, and columns that no file has, are errors.

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};

use super::cast::{cast, common_field, lost_annotations};
use super::fault::{Fault, guarded};
use super::incidents::BadRows;
use super::{Batch, Documents};
use crate::error::{Error, Result};

/// The advice if a column is missing.
pub(super) const NAME_COLUMNS: &str = "name columns of the input, or leave `columns` out";

/// The value for null in the Hive scheme of paths.
const NULL_IN_PATHS: &str = "__HIVE_DEFAULT_PARTITION__";

/// The value of a column in the folder names of a path (`lang=fr`, the Hive scheme), the innermost folder first. The
/// inner `None` means null.
pub(crate) fn value_in_path(path: &str, column: &str) -> Option<Option<String>> {
    let (folders, _) = path.rsplit_once('/')?;
    let value = |folder: &str| Some(unescaped(folder.strip_prefix(column)?.strip_prefix('=')?));
    let value = folders.rsplit('/').find_map(value)?;
    Some(Some(value).filter(|value| value != NULL_IN_PATHS))
}

/// Decodes percent-escapes like `%20`. Returns the text unchanged if the result is not UTF-8.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let digits =
            behind.get(..2).filter(|_| byte == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &behind[2..];
            }
            None => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// The columns of one file.
pub(super) struct OfFile {
    /// The requested columns that the file has.
    pub(super) columns: SchemaRef,
    /// The names of all its columns.
    pub(super) all: Vec<String>,
}

/// Combines the columns of files, which are added one by one.
pub(super) struct Together<'a> {
    /// The names of the requested columns.
    names: &'a [String],
    /// For each column, the common type of the files so far.
    found: Vec<Option<FieldRef>>,
    /// The first file: its name and columns.
    first: Option<(String, OfFile)>,
    /// Whether all files have exactly the columns of the first, so that no conversion is needed.
    alike: bool,
}

impl<'a> Together<'a> {
    /// Combines the columns with these names.
    pub(super) fn new(names: &'a [String]) -> Together<'a> {
        Together { names, found: names.iter().map(|_| None).collect(), first: None, alike: true }
    }

    /// Adds a file, given by index and name, and records the columns that it lacks.
    ///
    /// # Errors
    /// A column's type differs from that in the previous files, and no type holds the values of both.
    pub(super) fn add(&mut self, file: usize, name: &str, of: OfFile, bad: &BadRows) -> Result<()> {
        for (found, column) in self.found.iter_mut().zip(self.names) {
            let here = of.columns.fields().find(column).map(|(_, field)| Arc::clone(field));
            self.alike &= here.is_some();
            let by_path =
                || value_in_path(name, column).map(|_| Field::new(column, DataType::Utf8View, true));
            let Some(here) = here.or_else(|| by_path().map(Arc::new)) else {
                bad.lacks(column, file, name);
                continue;
            };
            *found = Some(match found.take() {
                None => here,
                Some(before) => {
                    let common =
                        common_field(&before, &here).ok_or_else(|| other_type(name, &before, &here))?;
                    self.alike &= Arc::ptr_eq(&common, &before);
                    for lost in [&before, &here].iter().flat_map(|field| lost_annotations(field, &common)) {
                        bad.of_files(without_annotation(column, &lost));
                    }
                    common
                }
            });
        }
        self.first.get_or_insert_with(|| (name.to_owned(), of));
        Ok(())
    }

    /// The columns of the source; `None` if it has no files.
    ///
    /// # Errors
    /// A requested column is in none of the files.
    pub(super) fn finish(self) -> Result<Option<SchemaRef>> {
        let Some((file, first)) = self.first else { return Ok(None) };
        if let Some(missing) = self.found.iter().position(Option::is_none) {
            let column = self.names[missing].clone();
            return Err(Fault::NoColumn { file, column, columns: first.all }.usage().with_help(NAME_COLUMNS));
        }
        if self.alike {
            return Ok(Some(first.columns));
        }
        Ok(Some(Arc::new(Schema::new(self.found.into_iter().flatten().collect::<Vec<_>>()))))
    }
}

/// The sentence that a column is written without an annotation that only some files have.
pub(crate) fn without_annotation(column: &str, lost: &str) -> String {
    format!("column {column:?} is written without {lost}, which only some of the files have")
}

/// The error that a column has incompatible types in two files.
fn other_type(file: &str, before: &Field, here: &Field) -> Error {
    let (file, column) = (file.to_owned(), before.name().clone());
    let (found, expected) = (here.data_type().to_string(), before.data_type().to_string());
    Fault::OtherType { file, column, found, expected }
        .usage()
        .with_help("leave the column out, or rewrite the files with one type, as polars and DuckDB can")
}

/// Converts the columns of a file's batches to the types of the source, with the values of its path, and nulls for
/// columns that it lacks.
pub(super) fn conforming(
    documents: Documents<'static>,
    schema: &SchemaRef,
    name: &str,
) -> Documents<'static> {
    let by_path: Vec<_> = schema.fields().iter().map(|field| value_in_path(name, field.name())).collect();
    let (schema, name) = (Arc::clone(schema), name.to_owned());
    Box::new(documents.map(move |batch| {
        let batch = batch?;
        if is_conforming(&batch, &schema) && by_path.iter().all(Option::is_none) {
            return Ok(batch);
        }
        let columns = guarded(&name, "its columns", || conform(&batch, &schema, &by_path))?;
        Ok(Batch { columns: Some(columns), ..batch })
    }))
}

/// Whether a batch already has the columns of the source, so that it need not be converted.
fn is_conforming(batch: &Batch, schema: &Schema) -> bool {
    batch.columns.as_ref().is_some_and(|columns| {
        let given = columns.schema_ref().fields();
        given.len() == schema.fields().len()
            && given
                .iter()
                .zip(schema.fields())
                .all(|(one, other)| one.name() == other.name() && one.data_type() == other.data_type())
    })
}

/// Converts the columns of one batch.
///
/// # Errors
/// A value does not fit the common type.
fn conform(
    batch: &Batch,
    schema: &SchemaRef,
    by_path: &[Option<Option<String>>],
) -> Result<RecordBatch, ArrowError> {
    let rows = batch.len();
    let column = |(field, value): (&FieldRef, &Option<Option<String>>)| {
        let given = batch.columns.as_ref().and_then(|columns| columns.column_by_name(field.name()));
        let array = match (given, value) {
            (Some(given), Some(Some(value))) if *given.data_type() == DataType::Utf8View => {
                or_else(given, value)
            }
            (Some(given), _) => Arc::clone(given),
            (None, Some(Some(value))) => or_else(&new_null_array(&DataType::Utf8View, rows), value),
            (None, _) => new_null_array(field.data_type(), rows),
        };
        cast(&array, field.data_type())
    };
    let columns = schema.fields().iter().zip(by_path).map(column).collect::<Result<_, _>>()?;
    let fields = schema.fields().iter().map(|field| Field::clone(field).with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new_with_options(schema, columns, &RecordBatchOptions::new().with_row_count(Some(rows)))
}

/// A column of texts in which `text` replaces nulls.
fn or_else(column: &dyn Array, text: &str) -> ArrayRef {
    // The replacement is stored once, however many rows have it.
    let mut texts = StringViewBuilder::new().with_deduplicate_strings();
    column.as_string_view().iter().for_each(|value| texts.append_value(value.unwrap_or(text)));
    Arc::new(texts.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values come from the innermost folder of that name; escapes are decoded, and file names do not count.
    #[test]
    fn folders_of_a_path_say_what_columns_hold() {
        let value = |path| value_in_path(path, "lang");
        let text = |text: &str| Some(Some(text.to_owned()));
        assert_eq!(value("data/lang=fr/a.parquet"), text("fr"));
        assert_eq!(value("/lang=de/lang=fr/year=2020/a.parquet"), text("fr"));
        assert_eq!(value("hf://datasets/a/b@1/lang=a%20b%2Fc/0.parquet"), text("a b/c"));
        assert_eq!(value("lang=100%/a.parquet"), text("100%"));
        assert_eq!(value("lang=%ff/a.parquet"), text("%ff"));
        assert_eq!(value("lang=/a.parquet"), text(""));
        assert_eq!(value("lang=__HIVE_DEFAULT_PARTITION__/a.parquet"), Some(None));
        for path in ["lang=fr", "data/lang=fr", "language=fr/a.parquet", "lang/a.parquet", "a=lang=fr/b"] {
            assert_eq!(value(path), None, "{path}");
        }
    }
}
