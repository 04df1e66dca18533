use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use serde_json::value::RawValue;

use crate::hashing::Map;

/// Fields of JSON objects that pass through, a row an object: texts as they are, any other value as the JSON that stands
/// there, nulls where the field is null or missing. What type numbers have would depend on all lines of all files.
pub(super) struct Fields {
    schema: SchemaRef,
    columns: Vec<StringViewBuilder>,
    /// Which of them any object had.
    met: Vec<bool>,
}

/// What an object has under the name of each column; `None` where it has no such field.
pub(super) type Values<'a> = Vec<Option<&'a RawValue>>;

impl Fields {
    pub(super) fn new(schema: &SchemaRef) -> Fields {
        let columns = schema.fields().iter();
        Fields {
            schema: Arc::clone(schema),
            columns: columns.clone().map(|_| StringViewBuilder::new()).collect(),
            met: columns.map(|_| false).collect(),
        }
    }

    /// Without rows, but knowing which fields there have been.
    pub(super) fn emptied(&self) -> Fields {
        Fields { met: self.met.clone(), ..Fields::new(&self.schema) }
    }

    /// The columns that fields of these names become.
    pub(super) fn schema(names: &[String]) -> SchemaRef {
        let fields = names.iter().map(|name| Field::new(name, DataType::Utf8View, true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// The values of an object; the last of several fields of one name.
    pub(super) fn values<'a>(&self, object: &'a [u8]) -> serde_json::Result<Values<'a>> {
        if self.columns.is_empty() {
            return Ok(Vec::new());
        }
        let fields: Map<String, &RawValue> = serde_json::from_slice(object)?;
        Ok(self.schema.fields().iter().map(|field| fields.get(field.name()).copied()).collect())
    }

    /// Adds a row, or nothing if a text among the values is none.
    pub(super) fn add(&mut self, values: &Values<'_>) -> serde_json::Result<()> {
        let texts: Vec<Option<String>> = values.iter().map(|value| text(*value)).collect::<Result<_, _>>()?;
        for (((column, met), text), value) in
            self.columns.iter_mut().zip(&mut self.met).zip(texts).zip(values)
        {
            *met |= value.is_some();
            column.append_option(text);
        }
        Ok(())
    }

    /// The first column of which there was no field in any object.
    pub(super) fn lacking(&self) -> Option<&str> {
        let lacking = self.met.iter().position(|met| !met)?;
        Some(self.schema.field(lacking).name())
    }

    /// The rows; none where no field passes through.
    pub(super) fn finish(self) -> Result<Option<RecordBatch>, ArrowError> {
        if self.columns.is_empty() {
            return Ok(None);
        }
        let column = |mut column: StringViewBuilder| -> ArrayRef { Arc::new(column.finish()) };
        let columns = self.columns.into_iter().map(column).collect();
        RecordBatch::try_new(self.schema, columns).map(Some)
    }
}

fn text(value: Option<&RawValue>) -> serde_json::Result<Option<String>> {
    match value.map(RawValue::get) {
        None | Some("null") => Ok(None),
        Some(json) if json.starts_with('"') => serde_json::from_str(json),
        Some(json) => Ok(Some(json.to_owned())),
    }
}
