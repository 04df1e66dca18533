//! Finds the requested columns in a file's schema, and gives the text of each row: a column, all items of a list, or
//! several of these in a template. All formats use the same rules.
//!
//! | path | text |
//! | --- | --- |
//! | `a` | the column `a` |
//! | `a.b` | the column named `a.b`, or otherwise the field `b` of the struct `a` |
//! | `a[]` | all items of the list `a`, joined by a separator |
//! | `a[].b` | the field `b` of all items of the list `a`, joined |
//! | `a[][]` | all items of all lists in the list `a`, joined |
//!
//! Null items are left out together with their separator. A row is null if none of its columns has a text.
//!
//! Text is always given as binary views, which share memory with the data of the file. The readers of Parquet and Arrow
//! use this module in the same way: [`Projection::find`] on the file's schema, [`Projection::roots`] to read only the
//! needed fields, and [`TextRows`] for the record batches.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, RecordBatch, StructArray};
use arrow::buffer::NullBuffer;
use arrow::compute::{is_null, nullif};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use arrow::error::ArrowError;

use super::cast::{is_text, views};
use super::documents::TextBuilder;
use super::error::{holds_no_text, no_column};
use super::{LONGEST_DOCUMENT, SourceSpec};
use crate::base::int::to_u64;
use crate::error::{Error, Result};

/// The default separator between the items of a list.
pub(super) const DEFAULT_JOIN: &str = "\n";

/// The composition of a row's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowText {
    /// The parts, in order.
    pub(super) parts: Vec<TemplatePart>,
    /// The separator between the items of a list.
    pub(super) join: String,
}

/// A part of a row's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TemplatePart {
    /// Text that is the same in every row.
    Literal(String),
    /// The path of a column, or of the items of a list.
    Column(String),
}

impl RowText {
    /// The composition that a source's description asks for.
    ///
    /// # Errors
    /// The template is invalid.
    pub(super) fn of(spec: &SourceSpec) -> Result<RowText> {
        let parts = match &spec.template {
            None => vec![TemplatePart::Column(spec.text_column().to_owned())],
            Some(template) => {
                parts_of(template).map_err(|problem| Error::usage(format!("the template {problem}")))?
            }
        };
        Ok(RowText { parts, join: spec.join.clone().unwrap_or_else(|| DEFAULT_JOIN.to_owned()) })
    }

    /// The paths of its columns, in order.
    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Column(column) => Some(column.as_str()),
            TemplatePart::Literal(_) => None,
        })
    }

    /// The path of the column, if the text is a single column or list.
    pub(super) fn only_column(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [TemplatePart::Column(column)] => Some(column),
            _ => None,
        }
    }
}

/// The parts of a template like `{title}: {text}`. Doubled braces are literal ones.
///
/// # Errors
/// A description of the mistake in the template.
fn parts_of(template: &str) -> std::result::Result<Vec<TemplatePart>, String> {
    let (mut parts, mut same) = (Vec::new(), String::new());
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        same.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            same.push_str(brace);
            rest = after;
            continue;
        }
        let column = if brace == "{" { rest.split_once('}') } else { None };
        let Some((column, after)) = column else {
            return Err(format!("has a single {brace:?}: write it twice if it is text"));
        };
        if column.is_empty() || column.contains('{') {
            return Err("has braces without the name of a column between them".to_owned());
        }
        if !same.is_empty() {
            parts.push(TemplatePart::Literal(std::mem::take(&mut same)));
        }
        parts.push(TemplatePart::Column(column.to_owned()));
        rest = after;
    }
    same.push_str(rest);
    if parts.iter().all(|part| matches!(part, TemplatePart::Literal(_))) {
        return Err("names no column: write one in braces, such as {text}".to_owned());
    }
    if !same.is_empty() {
        parts.push(TemplatePart::Literal(same));
    }
    Ok(parts)
}

/// Checks a template.
///
/// # Errors
/// A description of the mistake.
pub(crate) fn check_template(template: &str) -> std::result::Result<(), String> {
    parts_of(template).map(|_| ())
}

/// A step on the path from a row to a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathStep {
    /// To a field, given by its index in the file's schema and its name.
    Field(usize, String),
    /// To the items of a list.
    Items,
}

/// Finds a column by its name or otherwise by its path: `a.b` is a field of a struct, and `a[]` are the items of a
/// list. Returns the steps to it and its type.
///
/// # Errors
/// A name on the path belongs to two columns.
pub(super) fn find<'a>(
    file: &str,
    fields: &'a Fields,
    path: &str,
) -> Result<Option<(Vec<PathStep>, &'a DataType)>> {
    if let Some((at, field)) = unique_field(file, fields, path)? {
        return Ok(Some((vec![PathStep::Field(at, path.to_owned())], field.data_type())));
    }
    for (end, _) in path.match_indices(['.', '[']) {
        let Some((at, field)) = unique_field(file, fields, &path[..end])? else { continue };
        if let Some((mut steps, found)) = find_in(file, field.data_type(), &path[end..])? {
            steps.insert(0, PathStep::Field(at, path[..end].to_owned()));
            return Ok(Some((steps, found)));
        }
    }
    Ok(None)
}

/// The same from a column's type on. The path is empty, or begins with `.` or `[]`.
///
/// # Errors
/// A name on the path belongs to two fields.
fn find_in<'a>(
    file: &str,
    data_type: &'a DataType,
    path: &str,
) -> Result<Option<(Vec<PathStep>, &'a DataType)>> {
    if path.is_empty() {
        return Ok(Some((Vec::new(), data_type)));
    }
    if let Some(path) = path.strip_prefix("[]") {
        let Some(item) = item_of(data_type) else { return Ok(None) };
        let found = find_in(file, item.data_type(), path)?;
        return Ok(found.map(|(mut steps, found)| {
            steps.insert(0, PathStep::Items);
            (steps, found)
        }));
    }
    match (data_type, path.strip_prefix('.')) {
        (DataType::Struct(fields), Some(path)) => find(file, fields, path),
        _ => Ok(None),
    }
}

/// The field of a list's items.
fn item_of(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => Some(item),
        _ => None,
    }
}

/// The field with a name, and its index.
///
/// # Errors
/// Two fields have the name, as after a join of tables, so it is ambiguous.
pub(super) fn unique_field<'a>(
    file: &str,
    fields: &'a Fields,
    name: &str,
) -> Result<Option<(usize, &'a FieldRef)>> {
    let Some((at, field)) = fields.find(name) else { return Ok(None) };
    if fields[at + 1..].iter().any(|other| other.name() == name) {
        return Err(Error::usage(format!("{name:?} names two columns of {file}"))
            .with_help("rename one of them in the data, so that it is clear which is meant"));
    }
    Ok(Some((at, field)))
}

/// The columns of a file that are not simply fields of its rows: composed texts, and pass-through fields of structs.
#[derive(Clone, Debug)]
pub(super) struct TextComposer {
    /// The parts of the text, in order.
    pub(super) text: Vec<LocatedPart>,
    /// The separator between items of lists.
    join: String,
    /// The pass-through columns: the requested name and the steps to it.
    pub(super) passed_through: Vec<(String, Vec<PathStep>)>,
}

/// A part of a row's text, with its column located in a file.
#[derive(Clone, Debug)]
pub(super) enum LocatedPart {
    /// Text that is the same in every row.
    Literal(String),
    /// The steps to a column, or to the items of a list.
    Column(Vec<PathStep>),
}

impl TextComposer {
    /// The steps to all columns.
    pub(super) fn paths(&self) -> impl Iterator<Item = &[PathStep]> {
        let text = self.text.iter().filter_map(|part| match part {
            LocatedPart::Column(steps) => Some(steps.as_slice()),
            LocatedPart::Literal(_) => None,
        });
        text.chain(self.passed_through.iter().map(|(_, steps)| steps.as_slice()))
    }

    /// The schema of the pass-through fields, with the types in the file.
    pub(super) fn passed(&self, fields: &Fields) -> Schema {
        let field = |(name, steps): &(String, Vec<PathStep>)| {
            let (mut fields, mut found) = (fields, None);
            for step in steps {
                let PathStep::Field(at, _) = step else { break };
                let Some(field) = fields.get(*at) else { break };
                found = Some(field);
                if let DataType::Struct(inner) = field.data_type() {
                    fields = inner;
                }
            }
            let found = found.map(|field| Field::clone(field).with_name(name.clone()).with_nullable(true));
            found.unwrap_or_else(|| Field::new(name, DataType::Null, true))
        };
        Schema::new(self.passed_through.iter().map(field).collect::<Vec<_>>())
    }

    /// Prepares to compose the texts of a record batch, which may have fewer fields than the file.
    ///
    /// # Errors
    /// The data does not match the file's schema.
    fn begin(&self, rows: &RecordBatch) -> Result<ComposedRows, ArrowError> {
        let part = |part: &LocatedPart| {
            Ok::<_, ArrowError>(match part {
                LocatedPart::Literal(text) => TextNode::Literal(text.clone()),
                LocatedPart::Column(steps) => {
                    let (column, steps) = column_at(rows, steps)?;
                    node(&column, steps)?
                }
            })
        };
        let passed = |(name, steps): &(String, Vec<PathStep>)| {
            let (column, _) = column_at(rows, steps)?;
            Ok::<_, ArrowError>((Field::new(name, column.data_type().clone(), true), column))
        };
        let (fields, columns): (Vec<Field>, Vec<ArrayRef>) =
            self.passed_through.iter().map(passed).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let passed = match fields.is_empty() {
            true => None,
            false => Some(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?),
        };
        let parts = self.text.iter().map(part).collect::<Result<_, _>>()?;
        Ok(ComposedRows { parts, join: self.join.clone(), passed, rows: rows.num_rows(), row: 0 })
    }
}

/// The column after the steps up to the first list, null where a struct on the path is null; and the remaining steps.
///
/// # Errors
/// A column of the file's schema is missing from its data.
fn column_at<'s>(
    rows: &RecordBatch,
    steps: &'s [PathStep],
) -> Result<(ArrayRef, &'s [PathStep]), ArrowError> {
    let Some((PathStep::Field(_, name), mut steps)) = steps.split_first() else {
        return Err(missing_column());
    };
    let mut column = Arc::clone(rows.column_by_name(name).ok_or_else(missing_column)?);
    while let Some((PathStep::Field(_, name), after)) = steps.split_first() {
        let parent = column.as_struct_opt().ok_or_else(missing_column)?;
        let field = parent.column_by_name(name).ok_or_else(missing_column)?;
        column = match parent.nulls() {
            Some(nulls) if nulls.null_count() > 0 => nullif(field, &is_null(parent)?)?,
            _ => Arc::clone(field),
        };
        steps = after;
    }
    Ok((column, steps))
}

/// Provides a part of the text for each row.
enum TextNode {
    /// Text that is the same in every row.
    Literal(String),
    /// A column of texts.
    Text(BinaryViewArray),
    /// Offsets of each row's items, the validity of the lists, and the text of the items.
    Items(Vec<usize>, Option<NullBuffer>, Box<TextNode>),
}

/// Follows the steps from a column, which are empty or begin with a step to the items of a list.
///
/// # Errors
/// The data does not match the steps.
fn node(column: &ArrayRef, steps: &[PathStep]) -> Result<TextNode, ArrowError> {
    let Some((_, steps)) = steps.split_first() else { return Ok(TextNode::Text(views(column)?)) };
    let (ends, items): (Vec<usize>, &ArrayRef) = match column.data_type() {
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            (list.offsets().iter().map(|&end| usize::try_from(end).unwrap_or(0)).collect(), list.values())
        }
        DataType::LargeList(_) => {
            let list = column.as_list::<i64>();
            (list.offsets().iter().map(|&end| usize::try_from(end).unwrap_or(0)).collect(), list.values())
        }
        DataType::FixedSizeList(_, length) => {
            let list = column.as_fixed_size_list();
            let length = usize::try_from(*length).unwrap_or(0);
            ((0..=list.len()).map(|row| row * length).collect(), list.values())
        }
        other => return Err(ArrowError::CastError(format!("{other} is not a list"))),
    };
    let fields = steps.iter().take_while(|step| matches!(step, PathStep::Field(..))).count();
    let inner = match fields {
        0 => node(items, steps)?,
        _ => {
            // The items as the only column of a record batch.
            let rows = RecordBatch::try_from_iter_with_nullable([("", Arc::clone(items), true)])?;
            let from_items: Vec<PathStep> =
                std::iter::once(PathStep::Field(0, String::new())).chain(steps.iter().cloned()).collect();
            let (column, steps) = column_at(&rows, &from_items)?;
            node(&column, steps)?
        }
    };
    Ok(TextNode::Items(ends, column.nulls().cloned(), Box::new(inner)))
}

impl TextNode {
    /// Appends the text of a row, and returns whether the row has any. `follows` says whether a text of the same list
    /// precedes it, so that a separator is needed.
    fn append(&self, row: usize, join: &str, follows: bool, into: &mut Vec<u8>) -> bool {
        let between = |into: &mut Vec<u8>, follows: bool| {
            if follows {
                into.extend_from_slice(join.as_bytes());
            }
        };
        match self {
            TextNode::Literal(text) => {
                into.extend_from_slice(text.as_bytes());
                false
            }
            TextNode::Text(texts) if texts.is_null(row) => false,
            TextNode::Text(texts) => {
                between(into, follows);
                into.extend_from_slice(texts.value(row));
                true
            }
            TextNode::Items(_, nulls, _) if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) => false,
            TextNode::Items(ends, _, items) => {
                let mut any = false;
                for item in ends[row]..ends[row + 1] {
                    any |= items.append(item, join, follows || any, into);
                    if to_u64(into.len()) > 2 * LONGEST_DOCUMENT {
                        break;
                    }
                }
                any
            }
        }
    }
}

/// Composes the texts of a record batch, some rows at a time.
struct ComposedRows {
    /// The parts of the text.
    parts: Vec<TextNode>,
    /// The separator between items of lists.
    join: String,
    /// The pass-through columns of the whole record batch.
    passed: Option<RecordBatch>,
    /// Number of rows of the record batch.
    rows: usize,
    /// The next row.
    row: usize,
}

impl ComposedRows {
    /// Whether no rows are left.
    fn is_done(&self) -> bool {
        self.row == self.rows
    }

    /// The texts of the next rows, about `bytes` bytes of them, and their pass-through columns; `None` at the end.
    ///
    /// # Errors
    /// A text is longer than a document may be.
    fn next(&mut self, bytes: u64) -> Result<Option<TextBatch>, ArrowError> {
        let (first, mut texts) = (self.row, TextBuilder::default());
        while self.row < self.rows
            && to_u64(texts.bytes.len()) < bytes.min(LONGEST_DOCUMENT)
            && texts.len() < ROWS_AT_ONCE
        {
            let from = texts.bytes.len();
            let mut any = false;
            for part in &self.parts {
                any |= part.append(self.row, &self.join, false, &mut texts.bytes);
                if to_u64(texts.bytes.len() - from) > LONGEST_DOCUMENT {
                    let problem = format!("a document is longer than {LONGEST_DOCUMENT} bytes");
                    return Err(ArrowError::InvalidArgumentError(problem));
                }
            }
            if !any {
                texts.bytes.truncate(from);
            }
            texts.push(from, any);
            self.row += 1;
        }
        let rows = texts.len();
        if rows == 0 {
            return Ok(None);
        }
        Ok(Some((texts.finish()?, self.passed.as_ref().map(|passed| passed.slice(first, rows)))))
    }
}

/// Maximum number of rows that are composed at once, which bounds memory if rows have no text.
const ROWS_AT_ONCE: usize = 1 << 16;

/// The error that a column is not text, with advice if it is a list of texts.
pub(super) fn not_text(file: &str, column: &str, found: &DataType) -> Error {
    let is_list = item_of(found).map(|item| matches!(item.data_type(), DataType::Struct(_)));
    holds_no_text(file, column, found).with_help(match is_list {
        None => "the text must be a string or binary column".to_owned(),
        Some(false) => format!("name its items, {column}[], to join them, with `join` between them"),
        Some(true) => format!("name a field of its items, such as {column}[].content, to join them"),
    })
}

/// The columns that a source reads from a file, located in the file's schema.
#[derive(Clone, Debug)]
pub(super) struct Projection {
    /// The path to the text: an index among the fields, then among that field's own fields, and so on.
    pub(super) text: Vec<usize>,
    /// Indices of the fields that are passed through.
    pub(super) passed_through: Vec<usize>,
    /// Used instead of `text` and `passed_through` if composed text or nested pass-through fields are requested.
    pub(super) composed: Option<Arc<TextComposer>>,
}

impl Projection {
    /// Finds the columns. Pass-through columns that the file lacks are left out.
    ///
    /// # Errors
    /// The column of the text is missing or holds no text, or a name belongs to two columns.
    pub(super) fn find(file: &str, fields: &Fields, spec: &SourceSpec) -> Result<Projection> {
        let rule = RowText::of(spec)?;
        let parts = rule
            .parts
            .iter()
            .map(|part| found_part(file, fields, part, spec.template.is_some()))
            .collect::<Result<Vec<_>>>()?;
        let places = |steps: &[PathStep]| -> Option<Vec<usize>> {
            let place = |step: &PathStep| match step {
                PathStep::Field(at, _) => Some(*at),
                PathStep::Items => None,
            };
            steps.iter().map(place).collect()
        };
        let text = match parts.as_slice() {
            [LocatedPart::Column(steps)] => places(steps),
            _ => None,
        };
        let mut passed_through = Vec::new();
        for name in &spec.columns {
            if let Some((steps, _)) = find(file, fields, name)?
                && places(&steps).is_some()
            {
                passed_through.push((name.clone(), steps));
            }
        }
        let roots = passed_through.iter().map(|(_, steps)| match steps.as_slice() {
            [PathStep::Field(at, _)] => Some(*at),
            _ => None,
        });
        if let (Some(text), Some(passed_through)) = (text, roots.collect()) {
            return Ok(Projection { text, passed_through, composed: None });
        }
        let composed = Some(Arc::new(TextComposer { text: parts, join: rule.join, passed_through }));
        Ok(Projection { text: Vec::new(), passed_through: Vec::new(), composed })
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
            None => schema.project(&self.passed_through),
        }
    }

    /// Ascending indices of the top-level fields that must be read.
    pub(super) fn roots(&self) -> Vec<usize> {
        let composed = self.composed.iter().flat_map(|composed| composed.paths());
        let first = composed.filter_map(|steps| match steps.first() {
            Some(PathStep::Field(at, _)) => Some(*at),
            _ => None,
        });
        let mut roots: Vec<usize> =
            self.passed_through.iter().copied().chain(self.text.first().copied()).collect();
        roots.extend(first);
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    /// The same columns, located among the fields of [`roots`](Projection::roots) only.
    pub(super) fn among_roots(&self) -> Projection {
        let roots = self.roots();
        let moved = |old: usize| roots.partition_point(|&other| other < old);
        let mut text = self.text.clone();
        text.first_mut().into_iter().for_each(|first| *first = moved(*first));
        let passed_through = self.passed_through.iter().map(|&old| moved(old)).collect();
        Projection { text, passed_through, composed: self.composed.clone() }
    }

    /// Whether the field that holds the text is passed through too, or text is composed, so that it must keep its
    /// type.
    pub(super) fn text_is_passed(&self) -> bool {
        self.composed.is_some() || self.text.first().is_some_and(|root| self.passed_through.contains(root))
    }

    /// The file's fields, with the text's type converted by `of`, unless the type must be kept.
    pub(super) fn with_text(&self, fields: &Fields, of: fn(&DataType) -> DataType) -> Vec<FieldRef> {
        if self.text_is_passed() { fields.to_vec() } else { with_type_at(fields, &self.text, of) }
    }

    /// The text of a record batch with these fields.
    ///
    /// # Errors
    /// The record batch lacks a column that the schema has.
    fn text_of(&self, batch: &RecordBatch) -> Result<BinaryViewArray, ArrowError> {
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
    fn passed(&self, batch: &RecordBatch) -> Result<Option<RecordBatch>, ArrowError> {
        if self.passed_through.is_empty() { Ok(None) } else { batch.project(&self.passed_through).map(Some) }
    }
}

/// Texts of consecutive rows, and their pass-through columns if any were requested.
type TextBatch = (BinaryViewArray, Option<RecordBatch>);

/// Gives the texts of record batches, some rows at a time.
pub(super) struct TextRows {
    /// The columns, located among those of the record batches.
    chosen: Projection,
    /// Maximum number of rows of a record batch that become documents at once, unless texts are composed.
    at_once: usize,
    /// A record batch that has not been given out completely, and the first row that is left.
    unread: Option<(RecordBatch, usize)>,
    /// The record batch from which texts are being composed.
    composing: Option<ComposedRows>,
}

impl TextRows {
    /// No record batch yet.
    pub(super) fn new(chosen: Projection, at_once: usize) -> TextRows {
        TextRows { chosen, at_once, unread: None, composing: None }
    }

    /// Whether all rows of the record batches so far have been given out.
    pub(super) fn is_done(&self) -> bool {
        self.unread.is_none() && self.composing.as_ref().is_none_or(ComposedRows::is_done)
    }

    /// Drops the rows of the current record batch.
    pub(super) fn drop_current(&mut self) {
        (self.unread, self.composing) = (None, None);
    }

    /// The texts of the next rows, of composed texts about `bytes` bytes; `None` at the end. `read` gives the next
    /// record batch.
    ///
    /// # Errors
    /// Errors of `read`; the data does not match the schema, or a text is longer than a document may be.
    pub(super) fn next(
        &mut self,
        bytes: u64,
        read: &mut dyn FnMut() -> Result<Option<RecordBatch>, ArrowError>,
    ) -> Result<Option<TextBatch>, ArrowError> {
        loop {
            if let Some(next) = self.composing.as_mut().map(|rows| rows.next(bytes)).transpose()?.flatten() {
                return Ok(Some(next));
            }
            let (batch, from) = match self.unread.take() {
                Some(unread) => unread,
                None => match read()? {
                    Some(batch) => (batch, 0),
                    None => return Ok(None),
                },
            };
            if let Some(composed) = &self.chosen.composed {
                self.composing = Some(composed.begin(&batch)?);
                continue;
            }
            let left = batch.num_rows() - from;
            let rows = batch.slice(from, left.min(self.at_once));
            if left > self.at_once {
                self.unread = Some((batch, from + self.at_once));
            }
            return Ok(Some((self.chosen.text_of(&rows)?, self.chosen.passed(&rows)?)));
        }
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

/// Locates a part of the text in a file's schema. `is_of_template` decides the advice if it is missing.
///
/// # Errors
/// The column is missing or holds no text.
fn found_part(file: &str, fields: &Fields, part: &TemplatePart, is_of_template: bool) -> Result<LocatedPart> {
    let column = match part {
        TemplatePart::Literal(text) => return Ok(LocatedPart::Literal(text.clone())),
        TemplatePart::Column(column) => column,
    };
    let Some((steps, found)) = find(file, fields, column)? else {
        let is_counts_file = ["pretoken", "count"].iter().all(|name| fields.find(name).is_some());
        let help = match (is_counts_file, is_of_template) {
            (true, _) => "this is a counts file: give it to `train --from-counts`, or to `merge-counts`",
            (_, true) => {
                "the template may name only columns that every file has; in a recipe, files with other columns can be \
                 a `[[source]]` of their own"
            }
            _ => "name the column that holds the text: `column` in a recipe, `--column` on the command line",
        };
        return Err(no_column(file, column, fields.iter().map(|field| field.name())).with_help(help));
    };
    if is_text(found) { Ok(LocatedPart::Column(steps)) } else { Err(not_text(file, column, found)) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};
    use arrow::datatypes::Field;

    use super::*;

    /// Braces delimit columns, doubled ones are literal, and mistakes are described.
    #[test]
    fn templates_are_text_and_columns() {
        let same = |text: &str| TemplatePart::Literal(text.to_owned());
        let column = |name: &str| TemplatePart::Column(name.to_owned());
        assert_eq!(parts_of("{a}").unwrap(), [column("a")]);
        assert_eq!(
            parts_of("{a.b}: {c[].d}\n").unwrap(),
            [column("a.b"), same(": "), column("c[].d"), same("\n")]
        );
        assert_eq!(parts_of("{{x}} {a}{b}}}").unwrap(), [same("{x} "), column("a"), column("b"), same("}")]);
        for (wrong, says) in [
            ("", "names no column"),
            ("{{text}}", "names no column"),
            ("{}", "without the name"),
            ("{a{b}", "without the name"),
            ("{a", "single \"{\""),
            ("a} {b}", "single \"}\""),
        ] {
            assert!(parts_of(wrong).unwrap_err().contains(says), "{wrong}");
        }
    }

    /// Text that is hidden by a null parent is not counted.
    #[test]
    fn a_null_row_has_no_bytes_whatever_stands_there() {
        let text = StringArray::from(vec!["one", "under a null", "two"]);
        let fields = Fields::from(vec![Field::new("text", DataType::Utf8, true)]);
        let nulls = NullBuffer::from(vec![true, false, true]);
        let parent = StructArray::new(fields, vec![Arc::new(text)], Some(nulls));
        let parent: ArrayRef = Arc::new(parent);
        let batch = RecordBatch::try_from_iter([("doc", parent)]).expect("a column");
        let chosen = Projection { text: vec![0, 0], passed_through: Vec::new(), composed: None };
        let documents = chosen.text_of(&batch).expect("text");
        let expected: [Option<&[u8]>; 3] = [Some(b"one"), None, Some(b"two")];
        assert!(documents.iter().eq(expected));
        assert!(documents.lengths().eq([3, 0, 3]));
    }
}
