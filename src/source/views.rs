use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{Array, BinaryViewArray, RecordBatch, StructArray, cast::AsArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields};

use super::{Batch, SourceSpec, fault::Fault};
use crate::cast::{is_text, views};
use crate::error::Result;
use crate::units::place64;

/// The columns of a file that a source asks for, found in the file's schema.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    /// Where the text is: a place among the fields, then among that field's own fields, and so on.
    pub(super) text: Vec<usize>,
    /// Which fields pass through.
    pub(super) pass: Vec<usize>,
}

impl Chosen {
    /// Finds the columns; of those that pass through, the ones that are there.
    ///
    /// # Errors
    /// The text's column is missing, or holds no text; a name stands for two columns.
    pub(super) fn find(file: &str, fields: &Fields, spec: &SourceSpec) -> Result<Chosen> {
        let column = spec.text_column();
        let no_text = || {
            let columns = fields.iter().map(|field| field.name().clone()).collect();
            let fault = Fault::NoColumn { file: file.to_owned(), column: column.to_owned(), columns };
            fault.usage().with_help(
                "name the column that holds the text: `column` in a recipe, `--column` among flags",
            )
        };
        let (text, found) = descend(file, fields, column)?.ok_or_else(no_text)?;
        if !is_text(found) {
            let found = found.to_string();
            let fault = Fault::NotText { file: file.to_owned(), column: column.to_owned(), found };
            return Err(fault.usage().with_help("the text must be a string or binary column"));
        }
        let named = |name: &String| only(file, fields, name).transpose().map(|found| found.map(|(at, _)| at));
        let pass = spec.columns.iter().filter_map(named).collect::<Result<_>>()?;
        Ok(Chosen { text, pass })
    }

    /// Whether the text has no type among these fields of the file: its rows are all null, and take no room there.
    pub(super) fn is_untyped(&self, fields: &Fields) -> bool {
        type_at(fields, &self.text).is_some_and(DataType::is_null)
    }

    /// The fields that have to be read, in order.
    pub(super) fn roots(&self) -> Vec<usize> {
        let mut roots: Vec<usize> = self.pass.iter().copied().chain(self.text.first().copied()).collect();
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    /// Where the columns stand once only these are read.
    pub(super) fn among_roots(&self) -> Chosen {
        let roots = self.roots();
        let moved = |old: usize| roots.partition_point(|&other| other < old);
        let mut text = self.text.clone();
        text.first_mut().into_iter().for_each(|first| *first = moved(*first));
        Chosen { text, pass: self.pass.iter().map(|&old| moved(old)).collect() }
    }

    /// Whether what holds the text passes through too, and so must keep its type.
    pub(super) fn passes_text(&self) -> bool {
        self.text.first().is_some_and(|root| self.pass.contains(root))
    }

    /// The fields of the file with another type for the text, unless it passes through too.
    pub(super) fn with_text(&self, fields: &Fields, of: fn(&DataType) -> DataType) -> Vec<FieldRef> {
        if self.passes_text() { fields.to_vec() } else { with_type_at(fields, &self.text, of) }
    }

    /// The text of a record batch that has these fields.
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
        // There may be text where the row, or what it is a field of, is null.
        let views =
            views.iter().zip(&nulls).map(|(&view, is_there)| if is_there { view } else { 0 }).collect();
        BinaryViewArray::try_new(views, buffers, Some(nulls))
    }

    /// The pass-through columns of a record batch that has these fields.
    pub(super) fn passed(&self, batch: &RecordBatch) -> Result<Option<RecordBatch>, ArrowError> {
        if self.pass.is_empty() { Ok(None) } else { batch.project(&self.pass).map(Some) }
    }
}

fn missing_column() -> ArrowError {
    ArrowError::SchemaError("a column of the file's schema is missing from its data".to_owned())
}

fn type_at<'a>(fields: &'a Fields, path: &[usize]) -> Option<&'a DataType> {
    let (&at, below) = path.split_first()?;
    match fields.get(at)?.data_type() {
        DataType::Struct(inner) if !below.is_empty() => type_at(inner, below),
        found => Some(found),
    }
}

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

/// Finds a column by its name, or, if no name is the same, by its path `a.b`.
fn descend<'a>(file: &str, fields: &'a Fields, path: &str) -> Result<Option<(Vec<usize>, &'a DataType)>> {
    if let Some((at, field)) = only(file, fields, path)? {
        return Ok(Some((vec![at], field.data_type())));
    }
    for (dot, _) in path.match_indices('.') {
        let Some((at, field)) = only(file, fields, &path[..dot])? else { continue };
        let DataType::Struct(inner) = field.data_type() else { continue };
        if let Some((mut places, found)) = descend(file, inner, &path[dot + 1..])? {
            places.insert(0, at);
            return Ok(Some((places, found)));
        }
    }
    Ok(None)
}

/// The field of a name.
///
/// # Errors
/// There are two, as a join of tables leaves them: which one is meant is not known.
fn only<'a>(file: &str, fields: &'a Fields, name: &str) -> Result<Option<(usize, &'a FieldRef)>> {
    let Some((at, field)) = fields.find(name) else { return Ok(None) };
    if fields[at + 1..].iter().any(|other| other.name() == name) {
        let fault = Fault::TwoColumns { file: file.to_owned(), column: name.to_owned() };
        return Err(fault
            .usage()
            .with_help("rename one of them in the data, so that it is clear which is meant"));
    }
    Ok(Some((at, field)))
}

/// Cuts a run of rows into batches of about `batch_bytes` each: of text, and of what passes through, though equal values
/// of that may share their bytes.
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

/// How many rows make a batch of so many bytes, where `rows` have `bytes` together.
pub(super) fn rows_in_batch(batch_bytes: u64, bytes: u64, rows: u64) -> usize {
    const MOST: u64 = 1 << 16;
    let row_bytes = (bytes / rows.max(1)).max(1);
    place64((batch_bytes / row_bytes).clamp(1, MOST))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, StringArray};
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn a_null_row_has_no_bytes_whatever_stands_there() {
        let text = StringArray::from(vec!["one", "under a null", "two"]);
        let fields = Fields::from(vec![Field::new("text", DataType::Utf8, true)]);
        let nulls = NullBuffer::from(vec![true, false, true]);
        let parent = StructArray::new(fields, vec![Arc::new(text)], Some(nulls));
        let parent: ArrayRef = Arc::new(parent);
        let batch = RecordBatch::try_from_iter([("doc", parent)]).expect("a column");
        let chosen = Chosen { text: vec![0, 0], pass: Vec::new() };
        let documents = chosen.text_of(&batch).expect("text");
        let expected: [Option<&[u8]>; 3] = [Some(b"one"), None, Some(b"two")];
        assert!(documents.iter().eq(expected));
        assert!(documents.lengths().eq([3, 0, 3]));
    }
}
