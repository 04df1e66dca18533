//! Locates the requested columns in a file's schema, and takes the text out of record batches as views.
//!
//! Text is always given as binary views, which share memory with the data of the file. Parquet and Arrow readers use
//! this module in the same way: [`Chosen::find`] on the file's schema, [`Chosen::roots`] to read only the needed
//! fields, and [`Chosen::text_of`] for each record batch.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{Array, BinaryViewArray, RecordBatch, StructArray, cast::AsArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema};

use super::cast::{is_text, views};
use super::row_text::{Composed, FoundPart, Part, RowText, Step, find, not_text};
use super::{Batch, SourceSpec, fault::Fault};
use crate::base::int::u64_to_usize;
use crate::error::Result;

/// The columns that a source reads from a file, located in the file's schema.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    /// The path to the text: an index among the fields, then among that field's own fields, and so on.
    pub(super) text: Vec<usize>,
    /// Indices of the fields that are passed through.
    pub(super) pass: Vec<usize>,
    /// Used instead of `text` and `pass` if composed text or nested pass-through fields are requested.
    pub(super) composed: Option<Arc<Composed>>,
}

impl Chosen {
    /// Finds the columns. Pass-through columns that the file lacks are left out.
    ///
    /// # Errors
    /// The column of the text is missing or holds no text, or a name belongs to two columns.
    pub(super) fn find(file: &str, fields: &Fields, spec: &SourceSpec) -> Result<Chosen> {
        let rule = RowText::of(spec)?;
        let parts =
            rule.parts.iter().map(|part| found_part(file, fields, part)).collect::<Result<Vec<_>>>()?;
        let places = |steps: &[Step]| -> Option<Vec<usize>> {
            let place = |step: &Step| match step {
                Step::Field(at, _) => Some(*at),
                Step::Items => None,
            };
            steps.iter().map(place).collect()
        };
        let text = match parts.as_slice() {
            [FoundPart::Column(steps)] => places(steps),
            _ => None,
        };
        let mut pass = Vec::new();
        for name in &spec.columns {
            if let Some((steps, _)) = find(file, fields, name)?
                && places(&steps).is_some()
            {
                pass.push((name.clone(), steps));
            }
        }
        let roots = pass.iter().map(|(_, steps)| match steps.as_slice() {
            [Step::Field(at, _)] => Some(*at),
            _ => None,
        });
        if let (Some(text), Some(pass)) = (text, roots.collect()) {
            return Ok(Chosen { text, pass, composed: None });
        }
        let composed = Some(Arc::new(Composed::new(parts, rule.join, pass)));
        Ok(Chosen { text: Vec::new(), pass: Vec::new(), composed })
    }

    /// Whether the text's column has the null type: then all its rows are null, and they take no memory in a record
    /// batch.
    pub(super) fn is_untyped(&self, fields: &Fields) -> bool {
        type_at(fields, &self.text).is_some_and(DataType::is_null)
    }

    /// The schema of the pass-through columns, with the types in the file.
    pub(super) fn passed_schema(&self, schema: &Schema) -> Result<Schema, ArrowError> {
        match &self.composed {
            Some(composed) => Ok(composed.passed(schema.fields())),
            None => schema.project(&self.pass),
        }
    }

    /// Ascending indices of the top-level fields that must be read.
    pub(super) fn roots(&self) -> Vec<usize> {
        let composed = self.composed.iter().flat_map(|composed| composed.paths());
        let first = composed.filter_map(|steps| match steps.first() {
            Some(Step::Field(at, _)) => Some(*at),
            _ => None,
        });
        let mut roots: Vec<usize> = self.pass.iter().copied().chain(self.text.first().copied()).collect();
        roots.extend(first);
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    /// The same columns, located among the fields of [`roots`](Chosen::roots) only.
    pub(super) fn among_roots(&self) -> Chosen {
        let roots = self.roots();
        let moved = |old: usize| roots.partition_point(|&other| other < old);
        let mut text = self.text.clone();
        text.first_mut().into_iter().for_each(|first| *first = moved(*first));
        let pass = self.pass.iter().map(|&old| moved(old)).collect();
        Chosen { text, pass, composed: self.composed.clone() }
    }

    /// Whether the field that holds the text is passed through too, or text is composed, so that it must keep its
    /// type.
    pub(super) fn passes_text(&self) -> bool {
        self.composed.is_some() || self.text.first().is_some_and(|root| self.pass.contains(root))
    }

    /// The file's fields, with the text's type converted by `of`, unless the type must be kept.
    pub(super) fn with_text(&self, fields: &Fields, of: fn(&DataType) -> DataType) -> Vec<FieldRef> {
        if self.passes_text() { fields.to_vec() } else { with_type_at(fields, &self.text, of) }
    }

    /// The text of a record batch with these fields.
    ///
    /// # Errors
    /// The record batch lacks a column that the schema has.
    pub(super) fn text_of(&self, batch: &RecordBatch) -> Result<BinaryViewArray, ArrowError> {
        let Some((&root, below)) = self.text.split_first() else {
            return Ok(BinaryViewArray::new_null(batch.num_rows()));
        };
        let mut array = batch.columns().get(root).ok_or_else(missing_column)?;
        let mut nulls: Option<NullBuffer> = None;
        for &at in below {
            let parent: &StructArray = array.as_struct_opt().ok_or_else(missing_column)?;
            nulls = NullBuffer::union(nulls.as_ref(), parent.nulls());
            array = parent.columns().get(at).ok_or_else(missing_column)?;
        }
        let text = views(array)?;
        let Some(nulls) = NullBuffer::union(nulls.as_ref(), text.nulls()) else { return Ok(text) };
        let (views, buffers, _) = text.into_parts();
        // Nulls in the column or in a parent struct may hide text, which must have length 0 in a batch.
        let views =
            views.iter().zip(&nulls).map(|(&view, is_there)| if is_there { view } else { 0 }).collect();
        BinaryViewArray::try_new(views, buffers, Some(nulls))
    }

    /// The pass-through columns of a record batch with these fields; `None` if none were requested.
    pub(super) fn passed(&self, batch: &RecordBatch) -> Result<Option<RecordBatch>, ArrowError> {
        if self.pass.is_empty() { Ok(None) } else { batch.project(&self.pass).map(Some) }
    }
}

/// The error that a record batch lacks a column that the schema has.
fn missing_column() -> ArrowError {
    ArrowError::SchemaError("a column of the file's schema is missing from its data".to_owned())
}

/// The type of the field at a path.
fn type_at<'a>(fields: &'a Fields, path: &[usize]) -> Option<&'a DataType> {
    let (&at, below) = path.split_first()?;
    match fields.get(at)?.data_type() {
        DataType::Struct(inner) if !below.is_empty() => type_at(inner, below),
        found => Some(found),
    }
}

/// The fields, with the type at a path converted by `of`.
fn with_type_at(fields: &Fields, path: &[usize], of: fn(&DataType) -> DataType) -> Vec<FieldRef> {
    let mut fields = fields.to_vec();
    let Some((&at, below)) = path.split_first() else { return fields };
    if let Some(field) = fields.get_mut(at) {
        let data_type = match field.data_type() {
            DataType::Struct(inner) if !below.is_empty() => {
                DataType::Struct(with_type_at(inner, below, of).into())
            }
            found => of(found),
        };
        *field = Arc::new(Field::clone(field).with_data_type(data_type));
    }
    fields
}

/// Locates a part of the text in a file's schema.
///
/// # Errors
/// The column is missing or holds no text.
fn found_part(file: &str, fields: &Fields, part: &Part) -> Result<FoundPart> {
    let column = match part {
        Part::Same(text) => return Ok(FoundPart::Same(text.clone())),
        Part::Column(column) => column,
    };
    let Some((steps, found)) = find(file, fields, column)? else {
        let columns = fields.iter().map(|field| field.name().clone()).collect();
        let fault = Fault::NoColumn { file: file.to_owned(), column: column.clone(), columns };
        return Err(fault.usage().with_help(
            "name the column that holds the text: `column` in a recipe, `--column` on the command line",
        ));
    };
    if is_text(found) { Ok(FoundPart::Column(steps)) } else { Err(not_text(file, column, found)) }
}

/// Splits rows into batches of about `batch_bytes` each, counting text and pass-through columns. Equal values of
/// these columns may share memory; each counts in full.
pub(super) fn split(whole: Batch, batch_bytes: u64) -> VecDeque<Batch> {
    let mut batches = VecDeque::new();
    let (mut start, mut bytes) = (0, 0);
    for (row, length) in whole.row_bytes().into_iter().enumerate() {
        if bytes > 0 && bytes + length > batch_bytes {
            batches.push_back(whole.slice(start, row - start));
            (start, bytes) = (row, 0);
        }
        bytes += length;
    }
    if start == 0 {
        batches.push_back(whole);
    } else {
        batches.push_back(whole.slice(start, whole.len() - start));
    }
    batches
}

/// The number of rows for a batch of about `batch_bytes`, if `rows` rows have `bytes` bytes in total.
pub(super) fn rows_in_batch(batch_bytes: u64, bytes: u64, rows: u64) -> usize {
    /// Maximum number of rows in a batch, even if they are empty.
    const MOST: u64 = 1 << 16;
    let row_bytes = (bytes / rows.max(1)).max(1);
    u64_to_usize((batch_bytes / row_bytes).clamp(1, MOST))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, StringArray};
    use arrow_schema::Field;

    use super::*;

    /// Text that is hidden by a null parent is not counted.
    #[test]
    fn a_null_row_has_no_bytes_whatever_stands_there() {
        let text = StringArray::from(vec!["one", "under a null", "two"]);
        let fields = Fields::from(vec![Field::new("text", DataType::Utf8, true)]);
        let nulls = NullBuffer::from(vec![true, false, true]);
        let parent = StructArray::new(fields, vec![Arc::new(text)], Some(nulls));
        let parent: ArrayRef = Arc::new(parent);
        let batch = RecordBatch::try_from_iter([("doc", parent)]).expect("a column");
        let chosen = Chosen { text: vec![0, 0], pass: Vec::new(), composed: None };
        let documents = chosen.text_of(&batch).expect("text");
        let expected: [Option<&[u8]>; 3] = [Some(b"one"), None, Some(b"two")];
        assert!(documents.iter().eq(expected));
        assert!(documents.lengths().eq([3, 0, 3]));
    }
}
