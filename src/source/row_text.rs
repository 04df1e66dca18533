//! What the text of a row is: a column, all items of a list, or several of these put together. Every format is read by this.

use std::sync::Arc;

use arrow_array::builder::make_view;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, BooleanArray, RecordBatch};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema};
use arrow_select::nullif::nullif;

use super::fault::Fault;
use super::{LONGEST_DOCUMENT, SourceSpec};
use crate::cast::views;
use crate::error::{Error, Result};
use crate::units::{amount, low32};

/// What stands between the items of a list unless something else is said.
pub(super) const DEFAULT_JOIN: &str = "\n";

/// What the text of a row is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowText {
    pub(super) parts: Vec<Part>,
    /// What stands between the items of a list.
    pub(super) join: String,
}

/// A part of a row's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The same in every row.
    Same(String),
    /// What a column has, or the items of a list there.
    Column(String),
}

impl RowText {
    /// # Errors
    /// A template is none.
    pub(super) fn of(spec: &SourceSpec) -> Result<RowText> {
        let parts = match &spec.template {
            None => vec![Part::Column(spec.text_column().to_owned())],
            Some(template) => parts_of(template).map_err(|problem| Fault::Template { problem }.usage())?,
        };
        Ok(RowText { parts, join: spec.join.clone().unwrap_or_else(|| DEFAULT_JOIN.to_owned()) })
    }

    /// The columns in it, in order.
    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Column(column) => Some(column.as_str()),
            Part::Same(_) => None,
        })
    }

    /// The column that it is, where it is no more than that; one that is called so, or the items of a list.
    pub(super) fn only_column(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Column(column)] => Some(column),
            _ => None,
        }
    }
}

/// The parts of a template, such as `{title}: {text}`. Two braces stand for one.
///
/// # Errors
/// What is wrong with it.
fn parts_of(template: &str) -> std::result::Result<Vec<Part>, String> {
    let (mut parts, mut same) = (Vec::new(), String::new());
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        same.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix(brace) {
            same.push_str(brace);
            rest = behind;
            continue;
        }
        let column = if brace == "{" { rest.split_once('}') } else { None };
        let Some((column, behind)) = column else {
            return Err(format!("has a {brace:?} of its own: write it twice where it is text"));
        };
        if column.is_empty() || column.contains('{') {
            return Err("has braces without the name of a column between them".to_owned());
        }
        if !same.is_empty() {
            parts.push(Part::Same(std::mem::take(&mut same)));
        }
        parts.push(Part::Column(column.to_owned()));
        rest = behind;
    }
    same.push_str(rest);
    if parts.iter().all(|part| matches!(part, Part::Same(_))) {
        return Err("names no column: write one in braces, such as {text}".to_owned());
    }
    if !same.is_empty() {
        parts.push(Part::Same(same));
    }
    Ok(parts)
}

/// Says what is wrong with a template.
pub(crate) fn check_template(template: &str) -> std::result::Result<(), String> {
    parts_of(template).map(|_| ())
}

/// A step on the way from a row to a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// To the field of this name, and in the file's schema in this place.
    Field(usize, String),
    /// To the items of a list.
    Items,
}

/// Finds a column by its name, or, if no name is the same, by its path: `a.b` is a field of a struct, `a[]` are the items of
/// a list.
pub(super) fn find<'a>(
    file: &str,
    fields: &'a Fields,
    path: &str,
) -> Result<Option<(Vec<Step>, &'a DataType)>> {
    if let Some((at, field)) = only(file, fields, path)? {
        return Ok(Some((vec![Step::Field(at, path.to_owned())], field.data_type())));
    }
    for (end, _) in path.match_indices(['.', '[']) {
        let Some((at, field)) = only(file, fields, &path[..end])? else { continue };
        if let Some((mut steps, found)) = find_in(file, field.data_type(), &path[end..])? {
            steps.insert(0, Step::Field(at, path[..end].to_owned()));
            return Ok(Some((steps, found)));
        }
    }
    Ok(None)
}

/// The same from a column on: the path begins with `.` or `[]`, or is at its end.
fn find_in<'a>(file: &str, data_type: &'a DataType, path: &str) -> Result<Option<(Vec<Step>, &'a DataType)>> {
    if path.is_empty() {
        return Ok(Some((Vec::new(), data_type)));
    }
    if let Some(path) = path.strip_prefix("[]") {
        let Some(item) = item_of(data_type) else { return Ok(None) };
        let found = find_in(file, item.data_type(), path)?;
        return Ok(found.map(|(mut steps, found)| {
            steps.insert(0, Step::Items);
            (steps, found)
        }));
    }
    match (data_type, path.strip_prefix('.')) {
        (DataType::Struct(fields), Some(path)) => find(file, fields, path),
        _ => Ok(None),
    }
}

/// The field that a list has its items in.
fn item_of(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => Some(item),
        _ => None,
    }
}

/// The field of a name.
///
/// # Errors
/// There are two, as a join of tables leaves them: which one is meant is not known.
pub(super) fn only<'a>(file: &str, fields: &'a Fields, name: &str) -> Result<Option<(usize, &'a FieldRef)>> {
    let Some((at, field)) = fields.find(name) else { return Ok(None) };
    if fields[at + 1..].iter().any(|other| other.name() == name) {
        let fault = Fault::TwoColumns { file: file.to_owned(), column: name.to_owned() };
        return Err(fault
            .usage()
            .with_help("rename one of them in the data, so that it is clear which is meant"));
    }
    Ok(Some((at, field)))
}

/// Columns of a file that are more than fields of its rows: texts put together, and fields of structs that pass through.
#[derive(Clone, Debug)]
pub(super) struct Composed {
    pub(super) text: Vec<FoundPart>,
    join: String,
    /// What passes through, under the name that was asked for.
    pub(super) pass: Vec<(String, Vec<Step>)>,
}

/// A part of a row's text, found in a file.
#[derive(Clone, Debug)]
pub(super) enum FoundPart {
    Same(String),
    Column(Vec<Step>),
}

impl Composed {
    pub(super) fn new(text: Vec<FoundPart>, join: String, pass: Vec<(String, Vec<Step>)>) -> Composed {
        Composed { text, join, pass }
    }

    /// The ways to all columns.
    pub(super) fn paths(&self) -> impl Iterator<Item = &[Step]> {
        let text = self.text.iter().filter_map(|part| match part {
            FoundPart::Column(steps) => Some(steps.as_slice()),
            FoundPart::Same(_) => None,
        });
        text.chain(self.pass.iter().map(|(_, steps)| steps.as_slice()))
    }

    /// The fields that pass through, with the types that the file has them in.
    pub(super) fn passed(&self, fields: &Fields) -> Schema {
        let field = |(name, steps): &(String, Vec<Step>)| {
            let (mut fields, mut found) = (fields, None);
            for step in steps {
                let Step::Field(at, _) = step else { break };
                let Some(field) = fields.get(*at) else { break };
                found = Some(field);
                if let DataType::Struct(inner) = field.data_type() {
                    fields = inner;
                }
            }
            let found = found.map(|field| Field::clone(field).with_name(name.clone()).with_nullable(true));
            found.unwrap_or_else(|| Field::new(name, DataType::Null, true))
        };
        Schema::new(self.pass.iter().map(field).collect::<Vec<_>>())
    }

    /// Begins with the rows of a record batch, which may have fewer fields than the file.
    pub(super) fn begin(&self, rows: &RecordBatch) -> Result<Composing, ArrowError> {
        let part = |part: &FoundPart| {
            Ok::<_, ArrowError>(match part {
                FoundPart::Same(text) => Node::Same(text.clone()),
                FoundPart::Column(steps) => {
                    let (column, steps) = column_at(rows, steps)?;
                    node(&column, steps)?
                }
            })
        };
        let passed = |(name, steps): &(String, Vec<Step>)| {
            let (column, _) = column_at(rows, steps)?;
            Ok::<_, ArrowError>((Field::new(name, column.data_type().clone(), true), column))
        };
        let (fields, columns): (Vec<Field>, Vec<ArrayRef>) =
            self.pass.iter().map(passed).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let passed = match fields.is_empty() {
            true => None,
            false => Some(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?),
        };
        let parts = self.text.iter().map(part).collect::<Result<_, _>>()?;
        Ok(Composing { parts, join: self.join.clone(), passed, rows: rows.num_rows(), row: 0 })
    }
}

/// The column at the end of the steps up to the first list, null where a struct on the way is; and the steps from there.
fn column_at<'s>(rows: &RecordBatch, steps: &'s [Step]) -> Result<(ArrayRef, &'s [Step]), ArrowError> {
    let missing =
        || ArrowError::SchemaError("a column of the file's schema is missing from its data".to_owned());
    let Some((Step::Field(_, name), mut steps)) = steps.split_first() else { return Err(missing()) };
    let mut column = Arc::clone(rows.column_by_name(name).ok_or_else(missing)?);
    while let Some((Step::Field(_, name), behind)) = steps.split_first() {
        let parent = column.as_struct_opt().ok_or_else(missing)?;
        let field = parent.column_by_name(name).ok_or_else(missing)?;
        column = match parent.nulls() {
            Some(nulls) if nulls.null_count() > 0 => nullif(field, &BooleanArray::new(!nulls.inner(), None))?,
            _ => Arc::clone(field),
        };
        steps = behind;
    }
    Ok((column, steps))
}

/// Where a part of the text is, row by row.
enum Node {
    Same(String),
    Text(BinaryViewArray),
    /// Where the items of each row begin and end, whether there is a list, and what the items are.
    Items(Vec<usize>, Option<NullBuffer>, Box<Node>),
}

/// The steps from a column on begin with those to the items of a list, or there are none.
fn node(column: &ArrayRef, steps: &[Step]) -> Result<Node, ArrowError> {
    let Some((_, steps)) = steps.split_first() else { return Ok(Node::Text(views(column)?)) };
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
        other => return Err(ArrowError::CastError(format!("{other} is no list"))),
    };
    let fields = steps.iter().take_while(|step| matches!(step, Step::Field(..))).count();
    let inner = match fields {
        0 => node(items, steps)?,
        _ => {
            // The items, as the only column of rows.
            let rows = RecordBatch::try_from_iter_with_nullable([("", Arc::clone(items), true)])?;
            let from_items: Vec<Step> =
                std::iter::once(Step::Field(0, String::new())).chain(steps.iter().cloned()).collect();
            let (column, steps) = column_at(&rows, &from_items)?;
            node(&column, steps)?
        }
    };
    Ok(Node::Items(ends, column.nulls().cloned(), Box::new(inner)))
}

impl Node {
    /// Appends the text of a row and says whether there was any. `follows` says whether a text of the same list stands before
    /// it.
    fn append(&self, row: usize, join: &str, follows: bool, into: &mut Vec<u8>) -> bool {
        let between = |into: &mut Vec<u8>, follows: bool| {
            if follows {
                into.extend_from_slice(join.as_bytes());
            }
        };
        match self {
            Node::Same(text) => {
                into.extend_from_slice(text.as_bytes());
                false
            }
            Node::Text(texts) if texts.is_null(row) => false,
            Node::Text(texts) => {
                between(into, follows);
                into.extend_from_slice(texts.value(row));
                true
            }
            Node::Items(_, nulls, _) if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) => false,
            Node::Items(ends, _, items) => {
                let mut any = false;
                for item in ends[row]..ends[row + 1] {
                    any |= items.append(item, join, follows || any, into);
                    if amount(into.len()) > 2 * LONGEST_DOCUMENT {
                        break;
                    }
                }
                any
            }
        }
    }
}

/// Rows whose texts are put together, some at a time.
pub(super) struct Composing {
    parts: Vec<Node>,
    join: String,
    passed: Option<RecordBatch>,
    rows: usize,
    row: usize,
}

impl Composing {
    /// Whether no rows are left.
    pub(super) fn is_done(&self) -> bool {
        self.row == self.rows
    }

    /// The texts of the next rows, of about so many bytes, and what passes through beside them; `None` at the end.
    ///
    /// # Errors
    /// A text is longer than a document can be.
    pub(super) fn next(
        &mut self,
        bytes: u64,
    ) -> Result<Option<(BinaryViewArray, Option<RecordBatch>)>, ArrowError> {
        let (first, mut text) = (self.row, Vec::new());
        let (mut views, mut valid) = (Vec::new(), Vec::new());
        while self.row < self.rows
            && amount(text.len()) < bytes.min(LONGEST_DOCUMENT)
            && views.len() < ROWS_AT_ONCE
        {
            let from = text.len();
            let mut any = false;
            for part in &self.parts {
                any |= part.append(self.row, &self.join, false, &mut text);
                if amount(text.len() - from) > LONGEST_DOCUMENT {
                    let problem = format!("a document is longer than {LONGEST_DOCUMENT} bytes");
                    return Err(ArrowError::InvalidArgumentError(problem));
                }
            }
            if !any {
                text.truncate(from);
            }
            views.push(make_view(&text[from..], 0, low32(from)));
            valid.push(any);
            self.row += 1;
        }
        if views.is_empty() {
            return Ok(None);
        }
        let rows = views.len();
        let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
        let texts = vec![Buffer::from_vec(text)];
        let documents = BinaryViewArray::try_new(ScalarBuffer::from(views), texts, nulls)?;
        Ok(Some((documents, self.passed.as_ref().map(|passed| passed.slice(first, rows)))))
    }
}

/// So many rows are put together at once, though they may have no text.
const ROWS_AT_ONCE: usize = 1 << 16;

/// What helps where a column is no text but a list of it.
pub(super) fn not_text(file: &str, column: &str, found: &DataType) -> Error {
    let fault = Fault::NotText { file: file.to_owned(), column: column.to_owned(), found: found.to_string() };
    let is_list = item_of(found).map(|item| matches!(item.data_type(), DataType::Struct(_)));
    fault.usage().with_help(match is_list {
        None => "the text must be a string or binary column".to_owned(),
        Some(false) => format!("name its items, {column}[], to join them, with `join` between them"),
        Some(true) => format!("name a field of its items, such as {column}[].content, to join them"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_text_and_columns() {
        let same = |text: &str| Part::Same(text.to_owned());
        let column = |name: &str| Part::Column(name.to_owned());
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
            ("{a", "\"{\" of its own"),
            ("a} {b}", "\"}\" of its own"),
        ] {
            assert!(parts_of(wrong).unwrap_err().contains(says), "{wrong}");
        }
    }
}
