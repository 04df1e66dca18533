//! Collects rows until they fill a row group.
//!
//! Describes which part of the input some rows of the output hold.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, ListArray, RecordBatch};
use arrow_buffer::OffsetBuffer;
use arrow_schema::Schema;
use serde::{Deserialize, Serialize};

use super::error::SinkError;
use super::packing::{GROUP_IDS, GROUP_ROWS, PackRule, PackedRows, Packing};
use super::schema::{FileSpec, SEQ_LENGTHS, element};
use crate::base::int::{to_u64, u64_to_usize};
use crate::encode::{TokenBatch, TokenIds};
use crate::error::Result;
use crate::source::{cast, row_bytes};

/// Bytes of pass-through values in a row group (64 MiB); a single row may have more.
pub(super) const GROUP_COLUMN_BYTES: u64 = 64 << 20;

/// A token batch whose columns have the types of the output.
pub(super) struct OutputBatch {
    ids: TokenIds,
    /// Where the ids of each row end.
    ends: Vec<usize>,
    /// Whether each row is null; empty if none is.
    nulls: Vec<bool>,
    /// The pass-through columns, if there are any.
    columns: Option<RecordBatch>,
    /// Bytes of pass-through values of each row.
    column_bytes: Vec<u64>,
    /// Bytes of text of each row.
    text_lengths: Vec<u64>,
    /// The source from which the documents come.
    source: usize,
    /// The position of the first row in the input.
    first: Position,
    /// Ids before this offset have been taken.
    taken: usize,
}

impl OutputBatch {
    /// Takes over a batch, and converts its pass-through columns to the types of this shape.
    ///
    /// # Errors
    /// An id or the length of a row exceeds 31 bits, or a column is missing or does not fit its type.
    pub(super) fn new(batch: TokenBatch, shape: &FileSpec) -> Result<OutputBatch> {
        let columns = pass_through(&batch, shape)?;
        check_lengths(&batch)?;
        check_ids(&batch.ids)?;
        let first = Position { source: batch.source, unit: batch.unit, row: batch.first_row, token: 0 };
        Ok(OutputBatch {
            source: batch.source,
            first,
            taken: 0,
            text_lengths: batch.text_lengths,
            ids: batch.ids,
            ends: batch.ends,
            nulls: batch.nulls,
            column_bytes: columns.as_ref().map(row_bytes).unwrap_or_default(),
            columns,
        })
    }

    /// Sets the position of the first row, for a sample, in which rows are counted differently.
    pub(super) fn put_at(&mut self, first: Position) {
        self.first = first;
    }

    /// The offset of the first id of a row.
    fn start(&self, row: usize) -> usize {
        if row == 0 { 0 } else { self.ends[row - 1] }
    }

    /// Skips the first ids of the first row, which have already been written.
    pub(super) fn skip(&mut self, ids: u64) {
        self.taken = u64_to_usize(ids).min(self.ends.first().copied().unwrap_or(0));
    }

    /// The offsets of a row's ids that have not been taken.
    fn left(&self, row: usize) -> Range<usize> {
        self.start(row).max(self.taken)..self.ends[row]
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.get(row).copied().unwrap_or(false)
    }

    fn column_bytes(&self, row: usize) -> u64 {
        self.column_bytes.get(row).copied().unwrap_or(0)
    }

    /// The position of a row in the input, after those of its ids that have been taken.
    fn position(&self, row: usize) -> Position {
        let token = to_u64(self.taken.saturating_sub(self.start(row)));
        Position { row: self.first.row + to_u64(row), token, ..self.first }
    }

    /// The contents of a range of the rows.
    pub(super) fn totals(&self, range: Range<usize>) -> RowTotals {
        let documents = to_u64(range.len());
        let Position { source, unit, row, .. } = self.first;
        let tokens = to_u64(self.ends[range.end - 1] - self.start(range.start));
        let null_documents = to_u64(range.clone().filter(|&row| self.is_null(row)).count());
        let text_bytes = self.text_lengths.get(range.clone()).unwrap_or_default().iter().sum();
        let share =
            SourceShare { source: self.source, documents: documents - null_documents, text_bytes, tokens };
        let mut totals = RowTotals {
            rows: documents,
            tokens,
            documents,
            null_documents,
            text_bytes,
            sources: vec![share],
            ..RowTotals::default()
        };
        totals.add_range(DocumentRange {
            source,
            unit,
            first_row: row + to_u64(range.start),
            rows: documents,
        });
        totals
    }
}

/// Checks that no row has more than 2³¹ − 1 ids.
fn check_lengths(batch: &TokenBatch) -> Result<()> {
    let mut start = 0;
    for &end in &batch.ends {
        if i32::try_from(end - start).is_err() {
            let (source_index, unit, tokens) = (batch.source, batch.unit, end - start);
            return Err(SinkError::RowTooLong { source_index, unit, tokens }.into());
        }
        start = end;
    }
    Ok(())
}

/// Checks that all ids fit a signed 32-bit number.
fn check_ids(ids: &TokenIds) -> Result<()> {
    let greatest = ids.greatest().unwrap_or_default().get();
    match i32::try_from(greatest) {
        Ok(_) => Ok(()),
        Err(_) => Err(SinkError::IdTooLarge { id: greatest }.into()),
    }
}

/// The pass-through columns of a batch, converted to the types of the output. `None` if there are none, or if
/// documents are packed.
fn pass_through(batch: &TokenBatch, shape: &FileSpec) -> Result<Option<RecordBatch>> {
    let fields = shape.schema.fields()[2..].to_vec();
    if fields.is_empty() || shape.packing.is_some() {
        return Ok(None);
    }
    let (source_index, unit) = (batch.source, batch.unit);
    let mut columns = Vec::with_capacity(fields.len());
    for field in &fields {
        let given = batch.columns.as_ref().and_then(|columns| columns.column_by_name(field.name()));
        let Some(given) = given.filter(|given| given.len() == batch.len()) else {
            return Err(SinkError::ColumnMissing { name: field.name().clone(), source_index, unit }.into());
        };
        columns.push(plain(given, field, source_index, unit)?);
    }
    let columns = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
    Ok(Some(columns.expect("as many columns as fields, all as long as the batch, cast to their types")))
}

/// Converts a column to the type of its field.
fn plain(
    given: &ArrayRef,
    field: &arrow_schema::Field,
    source_index: usize,
    unit: usize,
) -> Result<ArrayRef> {
    cast(given, field.data_type()).map_err(|cause| {
        let (name, data_type) = (field.name().clone(), field.data_type().clone());
        SinkError::ColumnCast { name, source_index, unit, data_type, cause }.into()
    })
}

/// Rows that will become one row group. While documents are gathered for packing, each row is a document or a part of
/// one.
#[derive(Default)]
pub(super) struct RowGroup {
    ids: TokenIds,
    /// Where the ids of each row end.
    ends: Vec<usize>,
    nulls: Vec<bool>,
    /// The pass-through columns, one batch for each range of rows that was taken.
    columns: Vec<RecordBatch>,
    /// Bytes of pass-through values in all rows.
    column_bytes: u64,
    totals: RowTotals,
}

impl RowGroup {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Takes rows from the beginning of `range` while they fit, and returns the first row that was not taken. An
    /// empty group takes one row of any size.
    ///
    /// Whether a row fits depends only on this row and the rows before it in the group. So the groups do not depend
    /// on batches.
    pub(super) fn take(&mut self, rows: &mut OutputBatch, range: Range<usize>) -> usize {
        let begin = rows.start(range.start);
        let mut column_bytes = self.column_bytes;
        let mut stop = range.start;
        while stop < range.end {
            column_bytes += rows.column_bytes(stop);
            let taken = self.len() + stop - range.start;
            let ids = self.ids.len() + rows.ends[stop] - begin;
            let fits = ids <= GROUP_IDS && taken < GROUP_ROWS && column_bytes <= GROUP_COLUMN_BYTES;
            if !fits && taken > 0 {
                break;
            }
            self.column_bytes = column_bytes;
            stop += 1;
        }
        if stop > range.start {
            self.append(rows, range.start..stop);
        }
        stop
    }

    /// Appends rows.
    fn append(&mut self, rows: &mut OutputBatch, range: Range<usize>) {
        let (begin, end) = (rows.start(range.start), rows.ends[range.end - 1]);
        self.totals.add(&rows.totals(range.clone()));
        let shift = self.ids.len();
        self.ends.extend(rows.ends[range.clone()].iter().map(|end| shift + end - begin));
        self.nulls.extend(range.clone().map(|row| rows.is_null(row)));
        if let Some(columns) = &rows.columns {
            self.columns.push(columns.slice(range.start, range.len()));
        }
        if shift == 0 && range == (0..rows.ends.len()) && end == rows.ids.len() {
            // A huge row comes alone in its batch. Its ids are moved, so that memory holds them once.
            self.ids = std::mem::take(&mut rows.ids);
        } else {
            self.ids.extend(&rows.ids, begin..end);
        }
    }

    /// Gathers documents for packing from the beginning of `range` while they fit, and returns the first one that was
    /// not taken completely. Some of its first ids may have been taken.
    pub(super) fn gather(&mut self, rows: &mut OutputBatch, range: Range<usize>, packing: &Packing) -> usize {
        let before = self.ids.len();
        let mut stop = range.start;
        let mut part = None;
        while stop < range.end {
            let left = rows.left(stop);
            let at = self.ids.len();
            let ids = packing.room(at, self.ends.len(), left.len());
            if ids > 0 {
                self.ids.extend(&rows.ids, left.start..left.start + ids);
                self.ends.push(self.ids.len());
            }
            if ids < left.len() {
                rows.taken = left.start + ids;
                part = (ids > 0).then(|| rows.position(stop));
                break;
            }
            let cut = packing.cuts(at, ids, left.start > rows.start(stop));
            self.totals.cut_documents += u64::from(cut);
            stop += 1;
        }
        if stop > range.start {
            self.totals.add(&RowTotals { rows: 0, tokens: 0, ..rows.totals(range.start..stop) });
        }
        self.totals.tokens += to_u64(self.ids.len() - before);
        self.totals.next = part.unwrap_or(self.totals.next);
        stop
    }

    /// The ranges of ids of the documents, and parts of documents, that were gathered.
    fn gathered_documents(&self) -> impl Iterator<Item = Range<usize>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| start..end)
    }

    /// Packs the gathered documents into rows.
    ///
    /// **Memory:** about 50 bytes per document, and for best-fit a second copy of the ids.
    pub(super) fn pack(mut self, packing: &Packing) -> RowGroup {
        let rows = packing.pack(self.gathered_documents());
        if packing.rule == PackRule::BestFit {
            let mut ids = self.ids.room_for_as_many();
            rows.segments.iter().for_each(|segment| ids.extend(&self.ids, segment.clone()));
            self.ids = ids;
        }
        self.into_rows(&rows)
    }

    /// Makes packed rows of the ids, which must be in the order of the rows.
    fn into_rows(self, rows: &PackedRows) -> RowGroup {
        let length = |segment: &Range<usize>| i32::try_from(segment.len()).expect("a row is not so long");
        let lengths = Int32Array::from_iter_values(rows.segments.iter().map(length));
        let (mut begin, mut row_end) = (0, 0);
        let (mut counts, mut ends) = (Vec::new(), Vec::new());
        for &end in &rows.row_ends {
            counts.push(end - begin);
            row_end += rows.segments[begin..end].iter().map(Range::len).sum::<usize>();
            ends.push(row_end);
            begin = end;
        }
        let offsets = OffsetBuffer::from_lengths(counts);
        let column: ArrayRef = Arc::new(ListArray::new(element(), offsets, Arc::new(lengths), None));
        let columns = RecordBatch::try_from_iter_with_nullable([(SEQ_LENGTHS, column, true)]);
        RowGroup {
            ids: self.ids,
            nulls: vec![false; ends.len()],
            columns: vec![columns.expect("one column of its type")],
            column_bytes: 0,
            totals: RowTotals { rows: to_u64(ends.len()), ..self.totals },
            ends,
        }
    }

    /// Takes the ids of all rows out of the group.
    pub(super) fn take_ids(&mut self) -> TokenIds {
        std::mem::take(&mut self.ids)
    }

    /// The part of the input that the rows hold.
    pub(super) fn totals(&self) -> &RowTotals {
        &self.totals
    }

    /// The ids of all rows, one after another.
    pub(super) fn ids(&self) -> &TokenIds {
        &self.ids
    }

    /// The range of ids of each row; `None` for a null row.
    pub(super) fn spans(&self) -> impl ExactSizeIterator<Item = Option<Range<usize>>> {
        self.ends.iter().zip(&self.nulls).enumerate().map(|(row, (&end, &null))| {
            let start = if row == 0 { 0 } else { self.ends[row - 1] };
            (!null).then_some(start..end)
        })
    }

    /// The values of the column `length`.
    pub(super) fn lengths(&self) -> Int32Array {
        let length = |span: Range<usize>| i32::try_from(span.len()).expect("checked when the row came");
        self.spans().map(|span| span.map(length)).collect()
    }

    /// The pass-through columns.
    pub(super) fn into_columns(self) -> Vec<RecordBatch> {
        self.columns
    }
}

/// A position between two documents of the input, in the order of encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The number of the source.
    pub source: usize,
    /// The number of the unit in that source.
    pub unit: usize,
    /// The row of the next document in that unit.
    pub row: u64,
    /// Number of token ids of that document that have already been written. It is 0 unless packing cuts a document.
    pub token: u64,
}

/// The part of the input that some rows of the output hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowTotals {
    /// Number of rows, nulls included. Documents that are yet to be packed have none.
    pub rows: u64,
    /// Number of token ids in all rows.
    pub tokens: u64,
    /// Number of documents that are complete, null and empty ones included.
    pub documents: u64,
    /// Number of those documents that packing has cut.
    pub cut_documents: u64,
    /// Number of null documents.
    pub null_documents: u64,
    /// Bytes of text.
    pub text_bytes: u64,
    /// The share of each source, in ascending order of sources.
    #[serde(default)]
    pub sources: Vec<SourceShare>,
    /// The ranges of documents, in order.
    pub(super) ranges: Vec<DocumentRange>,
    /// The position after these documents.
    pub(super) next: Position,
}

/// The documents of one source in an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceShare {
    /// The number of the source, counted from 0.
    pub source: usize,
    /// Number of documents without null ones.
    pub documents: u64,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Number of token ids.
    pub tokens: u64,
}

/// Consecutive documents of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DocumentRange {
    pub(super) source: usize,
    pub(super) unit: usize,
    pub(super) first_row: u64,
    pub(super) rows: u64,
}

impl RowTotals {
    /// No documents yet; the next one is at `next`.
    pub(super) fn before(next: Position) -> RowTotals {
        RowTotals { next, ..RowTotals::default() }
    }

    /// Adds contents that follow these in the input.
    pub(super) fn add(&mut self, other: &RowTotals) {
        self.rows += other.rows;
        self.tokens += other.tokens;
        self.documents += other.documents;
        self.cut_documents += other.cut_documents;
        self.null_documents += other.null_documents;
        self.text_bytes += other.text_bytes;
        other.sources.iter().for_each(|share| self.add_share(share));
        for part in &other.ranges {
            self.add_range(*part);
        }
        self.next = other.next;
    }

    /// Adds a share of a source. Sources stay in ascending order.
    fn add_share(&mut self, share: &SourceShare) {
        match self.sources.binary_search_by_key(&share.source, |own| own.source) {
            Err(place) => self.sources.insert(place, *share),
            Ok(found) => {
                let own = &mut self.sources[found];
                own.documents += share.documents;
                own.text_bytes += share.text_bytes;
                own.tokens += share.tokens;
            }
        }
    }

    /// Adds documents that follow in the input.
    pub(super) fn add_range(&mut self, part: DocumentRange) {
        match self.ranges.last_mut() {
            Some(last) if (last.source, last.unit) == (part.source, part.unit) => last.rows += part.rows,
            _ => self.ranges.push(part),
        }
        self.next =
            Position { source: part.source, unit: part.unit, row: part.first_row + part.rows, token: 0 };
    }
}
