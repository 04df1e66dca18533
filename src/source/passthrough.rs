//! Combines the pass-through columns of a source's files: common types, columns that paths give, and nulls for
//! missing columns.
//!
//! A source's files may be written by different programs or at different times. Their columns are combined like this:
//!
//! - Types that differ only in encoding or width are converted to the [common type](common_field).
//! - A column that only some files have is null in the others, which is reported once.
//! - Folder names in the Hive scheme (`lang=fr/part.parquet`) give values for all rows of the files below.
//! - Types without a common type, and columns that no file has, are errors.
//!
//! Annotations of fields, that is Arrow's extension types and Parquet annotations that have no Arrow type, are kept
//! where the type that is written can carry them.
//!
//! Every value has an equal one in the common type:
//!
//! | types | common type |
//! | --- | --- |
//! | null and any other | the other |
//! | a dictionary and another | that of the dictionary's values and the other |
//! | strings, or binary data | the plain type, or the large one if either is large |
//! | timestamps in the same time zone, durations, times | the one with the finer unit |
//! | dates | days (`Date32`) |
//! | decimals of the same width and scale | the larger precision |
//! | lists | the list type, large if either is; fixed-size lists of the same length stay fixed |
//! | maps | keys and values by position; sorted if both are |
//! | structs | all fields of both, by name; fields that one lacks are nullable |
//! | numbers | the smallest type that represents all values of both exactly, if any |
//!
//! All other pairs have no common type. In particular, `Int64` has none with `UInt64` or `Float64`, which do not hold
//! all its values.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringViewArray, new_null_array};
use arrow::compute::is_not_null;
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_schema::extension::{
    Bool8, EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY, ExtensionType, Json, Opaque, Uuid,
};
use percent_encoding::percent_decode_str;

use super::cast::cast;
use super::common_type::common_flat_type;
use super::error::{guarded, no_column};
use super::skipped_rows::BadRows;
use super::{Batch, Documents};
use crate::error::{Error, Result};

/// The advice if a column is missing.
pub(super) const NAME_COLUMNS: &str = "name columns of the input, or leave `columns` out; if only some of the files \
     have a column, name all of them by one folder or pattern in quotes, as one source";

/// The value for null in the Hive scheme of paths.
const NULL_IN_PATHS: &str = "__HIVE_DEFAULT_PARTITION__";

/// The value of a column in the folder names of a path (`lang=fr`, the Hive scheme), the innermost folder first. The
/// inner `None` means null.
pub(crate) fn value_in_path(path: &str, column: &str) -> Option<Option<String>> {
    let (folders, _) = path.rsplit_once('/')?;
    let value = |folder: &str| {
        let escaped = folder.strip_prefix(column)?.strip_prefix('=')?;
        // Bytes that are not UTF-8 after decoding stay as they are written.
        Some(percent_decode_str(escaped).decode_utf8().map_or_else(|_| escaped.to_owned(), Cow::into_owned))
    };
    let value = folders.rsplit('/').find_map(value)?;
    Some(Some(value).filter(|value| value != NULL_IN_PATHS))
}

/// The columns of one file.
pub(super) struct FileColumns {
    /// The requested columns that the file has.
    pub(super) columns: SchemaRef,
    /// The names of all its columns.
    pub(super) all: Vec<String>,
}

/// Combines the columns of files, which are added one by one.
pub(super) struct ColumnMerger<'a> {
    /// The names of the requested columns.
    names: &'a [String],
    /// For each column, the common type of the files so far.
    found: Vec<Option<FieldRef>>,
    /// The first file: its name and columns.
    first: Option<(String, FileColumns)>,
    /// Whether all files have exactly the columns of the first, so that no conversion is needed.
    alike: bool,
}

impl<'a> ColumnMerger<'a> {
    /// Combines the columns with these names.
    pub(super) fn new(names: &'a [String]) -> ColumnMerger<'a> {
        ColumnMerger { names, found: names.iter().map(|_| None).collect(), first: None, alike: true }
    }

    /// Adds a file, given by index and name, and records the columns that it lacks.
    ///
    /// # Errors
    /// A column's type differs from that in the previous files, and no type holds the values of both.
    pub(super) fn add(&mut self, file: usize, name: &str, of: FileColumns, bad: &BadRows) -> Result<()> {
        for (found, column) in self.found.iter_mut().zip(self.names) {
            let here = of.columns.fields().find(column).map(|(_, field)| Arc::clone(field));
            self.alike &= here.is_some();
            let by_path =
                || value_in_path(name, column).map(|_| Field::new(column, DataType::Utf8View, true));
            let Some(here) = here.or_else(|| by_path().map(Arc::new)) else {
                bad.record_missing_column(column, file, name);
                continue;
            };
            *found = Some(match found.take() {
                None => here,
                Some(before) => {
                    let common =
                        common_field(&before, &here).ok_or_else(|| other_type(name, &before, &here))?;
                    self.alike &= Arc::ptr_eq(&common, &before);
                    for lost in [&before, &here].iter().flat_map(|field| lost_annotations(field, &common)) {
                        bad.file_notes(without_annotation(column, &lost));
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
            return Err(no_column(&file, &self.names[missing], &first.all).with_help(NAME_COLUMNS));
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
    let (column, found, expected) = (before.name(), here.data_type(), before.data_type());
    Error::usage(format!("column {column:?} of {file} holds {found}, but {expected} in the files before it"))
        .with_help("leave the column out, or rewrite the files with one type, as polars and DuckDB can")
}

/// Converts the columns of a file's batches to the types of the source, with the values of its path, and nulls for
/// columns that it lacks.
pub(super) fn with_common_columns(
    documents: Documents<'static>,
    schema: &SchemaRef,
    name: &str,
) -> Documents<'static> {
    let by_path: Vec<_> = schema.fields().iter().map(|field| value_in_path(name, field.name())).collect();
    let (schema, name) = (Arc::clone(schema), name.to_owned());
    Box::new(documents.map(move |batch| {
        let batch = batch?;
        if has_common_columns(&batch, &schema) && by_path.iter().all(Option::is_none) {
            return Ok(batch);
        }
        let columns = guarded(&name, "its columns", || convert_columns(&batch, &schema, &by_path))?;
        Ok(Batch { columns: Some(columns), ..batch })
    }))
}

/// Whether a batch already has the columns of the source, so that it need not be converted.
fn has_common_columns(batch: &Batch, schema: &Schema) -> bool {
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
fn convert_columns(
    batch: &Batch,
    schema: &SchemaRef,
    by_path: &[Option<Option<String>>],
) -> Result<RecordBatch, ArrowError> {
    let rows = batch.len();
    let column = |(field, value): (&FieldRef, &Option<Option<String>>)| {
        let given = batch.columns.as_ref().and_then(|columns| columns.column_by_name(field.name()));
        let array = match (given, value) {
            (Some(given), Some(Some(value))) if *given.data_type() == DataType::Utf8View => {
                or_else(given, value)?
            }
            (Some(given), _) => Arc::clone(given),
            (None, Some(Some(value))) => or_else(&new_null_array(&DataType::Utf8View, rows), value)?,
            (None, _) => new_null_array(field.data_type(), rows),
        };
        cast(&array, field.data_type())
    };
    let columns = schema.fields().iter().zip(by_path).map(column).collect::<Result<_, _>>()?;
    let fields = schema.fields().iter().map(|field| Field::clone(field).with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new_with_options(schema, columns, &RecordBatchOptions::new().with_row_count(Some(rows)))
}

/// A column of texts in which `text` replaces nulls. It is stored once, however many rows have it.
///
/// # Errors
/// The column holds no views of texts.
fn or_else(column: &ArrayRef, text: &str) -> Result<ArrayRef, ArrowError> {
    zip(&is_not_null(column)?, column, &StringViewArray::new_scalar(text))
}

/// The metadata key of a time of day that is in UTC. The Parquet writer looks for it.
pub(crate) const ADJUSTED_TO_UTC: &str = "adjusted_to_utc";

/// The metadata key for the name of a Parquet annotation that no output format keeps.
pub(crate) const ONLY_PARQUET: &str = "parquet_annotation";

/// The metadata keys that are annotations. Other metadata is not compared.
const KEYS: [&str; 4] = [EXTENSION_TYPE_NAME_KEY, EXTENSION_TYPE_METADATA_KEY, ADJUSTED_TO_UTC, ONLY_PARQUET];

/// The field with an extension type that has no parameters.
pub(crate) fn with_extension(field: Field, name: &str) -> Field {
    let extension = [(EXTENSION_TYPE_NAME_KEY, name), (EXTENSION_TYPE_METADATA_KEY, "")];
    with_metadata(field, extension.map(|(key, value)| (key.to_owned(), value.to_owned())))
}

/// The field with additional metadata.
pub(crate) fn with_metadata(field: Field, added: impl IntoIterator<Item = (String, String)>) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.extend(added);
    field.with_metadata(metadata)
}

/// The annotations of a field.
fn annotations(field: &Field) -> impl Iterator<Item = (&'static str, &str)> {
    KEYS.into_iter().filter_map(|key| Some((key, field.metadata().get(key)?.as_str())))
}

/// The annotations that two fields agree on. A field of the null type agrees with any other.
pub(crate) fn common_annotations(one: &Field, other: &Field) -> HashMap<String, String> {
    if one.data_type().is_null() != other.data_type().is_null() {
        let typed = if one.data_type().is_null() { other } else { one };
        return annotations(typed).map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    }
    // The name of an extension type and its parameters are kept or dropped together.
    let same_extension = one.extension_type_name() == other.extension_type_name()
        && (parameters(one) == parameters(other) || one.extension_type_name() == Some(Json::NAME));
    let is_kept = |key: &str, value: &str| match key {
        EXTENSION_TYPE_NAME_KEY | EXTENSION_TYPE_METADATA_KEY => same_extension,
        key => other.metadata().get(key).is_some_and(|other| other == value),
    };
    annotations(one)
        .filter(|(key, value)| is_kept(key, value))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// The parameters of a field's extension type.
fn parameters(field: &Field) -> &str {
    field.extension_type_metadata().unwrap_or("")
}

/// The annotations of a field that still hold if its values are written as another type.
pub(crate) fn kept_annotations(field: &Field, written: &DataType) -> HashMap<String, String> {
    let mut kept = HashMap::new();
    if matches!(written, DataType::Time32(_) | DataType::Time64(_)) {
        let utc = field.metadata().get(ADJUSTED_TO_UTC);
        kept.extend(utc.map(|value| (ADJUSTED_TO_UTC.to_owned(), value.clone())));
    }
    let Some(name) = field.extension_type_name() else { return kept };
    let extension = HashMap::from([
        (EXTENSION_TYPE_NAME_KEY.to_owned(), name.to_owned()),
        (EXTENSION_TYPE_METADATA_KEY.to_owned(), parameters(field).to_owned()),
    ]);
    let plain = Field::new(field.name(), written.clone(), true).with_metadata(extension.clone());
    let is_valid = match name {
        Uuid::NAME => plain.has_valid_extension_type::<Uuid>(),
        Json::NAME => plain.has_valid_extension_type::<Json>(),
        Bool8::NAME => plain.has_valid_extension_type::<Bool8>(),
        Opaque::NAME => true,
        // The requirements of other extension types are unknown, so their names are kept only if the type is
        // unchanged.
        _ => written.equals_datatype(field.data_type()),
    };
    if is_valid {
        kept.extend(extension);
    }
    kept
}

/// The names of annotations that `from`, or a field in it, has and `to` lacks.
pub(crate) fn lost_annotations(from: &Field, to: &Field) -> Vec<String> {
    let mut lost = Vec::new();
    let name = from.extension_type_name().filter(|name| to.extension_type_name() != Some(*name));
    lost.extend(name.map(str::to_owned));
    let has = |key| from.metadata().contains_key(key) && !to.metadata().contains_key(key);
    if has(ADJUSTED_TO_UTC) {
        lost.push("isAdjustedToUTC".to_owned());
    }
    if has(ONLY_PARQUET) {
        lost.extend(from.metadata().get(ONLY_PARQUET).cloned());
    }
    let inner = fields_of(from.data_type());
    let others = fields_of(to.data_type());
    for (at, field) in inner.iter().enumerate() {
        let same = others.iter().find(|other| other.name() == field.name()).or_else(|| others.get(at));
        if let Some(same) = same {
            lost.extend(lost_annotations(field, same));
        }
    }
    lost
}

/// The fields directly inside a type.
pub(super) fn fields_of(data_type: &DataType) -> Vec<&FieldRef> {
    match data_type {
        DataType::Struct(fields) => fields.iter().collect(),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => vec![item],
        _ => Vec::new(),
    }
}

/// A field with a type that holds the values of both fields exactly, with the name of the first and the annotations
/// that both have; `None` if no such type exists.
pub(crate) fn common_field(one: &FieldRef, other: &FieldRef) -> Option<FieldRef> {
    if one == other {
        return Some(Arc::clone(one));
    }
    let data_type = common_type(one.data_type(), other.data_type())?;
    let field = Field::new(one.name(), data_type, one.is_nullable() || other.is_nullable());
    Some(Arc::new(field.with_metadata(common_annotations(one, other))))
}

/// The type that holds the values of both types exactly. That of flat types is [`common_flat_type`].
fn common_type(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::{Dictionary, FixedSizeList, LargeList, List, Map, Struct};

    if one == other {
        return Some(one.clone());
    }
    Some(match (one, other) {
        (Dictionary(_, values), other) if !other.is_null() => common_type(values, other)?,
        (one, Dictionary(_, values)) if !one.is_null() => common_type(one, values)?,
        (List(one) | FixedSizeList(one, _), List(other)) | (List(one), FixedSizeList(other, _)) => {
            List(common_field(one, other)?)
        }
        (FixedSizeList(one, length), FixedSizeList(other, other_length)) if length == other_length => {
            FixedSizeList(common_field(one, other)?, *length)
        }
        (LargeList(one), List(other) | LargeList(other) | FixedSizeList(other, _))
        | (List(one) | FixedSizeList(one, _), LargeList(other)) => LargeList(common_field(one, other)?),
        (Map(one, sorted), Map(other, other_sorted)) => {
            Map(common_entries(one, other)?, *sorted && *other_sorted)
        }
        (Struct(one), Struct(other)) => Struct(common_fields(one, other)?),
        (one, other) => return common_flat_type(one, other),
    })
}

/// The fields of both structs: those of the first in their order, then those of the second alone. `None` if a name
/// occurs twice in one struct.
fn common_fields(one: &Fields, other: &Fields) -> Option<Fields> {
    let is_unique = |fields: &Fields| {
        fields
            .iter()
            .enumerate()
            .all(|(at, field)| fields.find(field.name()).is_some_and(|(first, _)| first == at))
    };
    if !is_unique(one) || !is_unique(other) {
        return None;
    }
    let nullable = |field: &FieldRef| Arc::new(Field::clone(field).with_nullable(true));
    let joined = one.iter().map(|field| match other.find(field.name()) {
        Some((_, same)) => common_field(field, same),
        None => Some(nullable(field)),
    });
    let further = other.iter().filter(|field| one.find(field.name()).is_none());
    joined.chain(further.map(|field| Some(nullable(field)))).collect()
}

/// The entry type of two maps. Its two fields are matched by position, because their names have no meaning.
fn common_entries(one: &FieldRef, other: &FieldRef) -> Option<FieldRef> {
    let (DataType::Struct(fields), DataType::Struct(others)) = (one.data_type(), other.data_type()) else {
        return None;
    };
    let fields: Fields =
        fields.iter().zip(others).map(|(one, other)| common_field(one, other)).collect::<Option<_>>()?;
    Some(Arc::new(Field::clone(one).with_data_type(DataType::Struct(fields))))
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
