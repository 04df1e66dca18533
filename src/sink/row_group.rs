//! Collects rows until they fill a row group, and counts the documents, text and tokens in them.
//!
//! A row group ends before the row that would take it above a limit for ids, rows, or bytes of pass-through columns.
//! Packed documents end at the limit of a window instead. Both depend only on rows, never on the size of batches, so
//! the same rows always make the same file.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, ListArray, RecordBatch};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::Schema;
use serde::{Deserialize, Serialize};

use super::packing::{GROUP_IDS, GROUP_ROWS, PackRule, PackedRows, Packing};
use super::schema::{FileSpec, OWN_COLUMNS, SEQ_LENGTHS, element};
use crate::base::int::{to_u64, u64_to_usize};
use crate::encode::{TokenBatch, TokenIds};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{cast, row_bytes};

/// Bytes of pass-through values in a row group (64 MiB); a single row may have more.
pub(super) const GROUP_COLUMN_BYTES: u64 = 64 << 20;

/// A token batch on its way into row groups, with its columns in the types of the output.
pub(super) struct OutputBatch {
    /// The batch, with the pass-through columns in the types of the output.
    batch: TokenBatch,
    /// Bytes of pass-through values of each row; empty if no column passes through.
    column_bytes: Vec<u64>,
    /// The position of the first row in the input.
    first: Position,
    /// Number of ids at the beginning of the batch that are already in a row group.
    taken: usize,
}

impl OutputBatch {
    /// Takes over a batch, and converts its pass-through columns to the types of the output. `first` is the position
    /// of its first row in the input.
    ///
    /// # Errors
    /// An id or the length of a row exceeds 31 bits, or a column is missing or does not fit its type.
    pub(super) fn new(batch: TokenBatch, first: Position, spec: &FileSpec) -> Result<OutputBatch> {
        let columns = pass_through(&batch, spec)?;
        check_lengths(&batch)?;
        check_ids(&batch.ids)?;
        let column_bytes = columns.as_ref().map(row_bytes).unwrap_or_default();
        Ok(OutputBatch { batch: TokenBatch { columns, ..batch }, column_bytes, first, taken: 0 })
    }

    /// The offset of the first id of a row.
    fn start(&self, row: usize) -> usize {
        if row == 0 { 0 } else { self.batch.ends[row - 1] }
    }

    /// Skips the first ids of the first row, which have already been written.
    pub(super) fn skip(&mut self, ids: u64) {
        self.taken = u64_to_usize(ids).min(self.batch.ends.first().copied().unwrap_or(0));
    }

    /// The offsets of a row's ids that are not in a row group yet.
    fn remaining(&self, row: usize) -> Range<usize> {
        self.start(row).max(self.taken)..self.batch.ends[row]
    }

    /// Whether a row is null. A batch without a list of nulls has none.
    fn is_null(&self, row: usize) -> bool {
        self.batch.nulls.get(row).copied().unwrap_or(false)
    }

    /// Bytes of the pass-through values of a row; 0 if no column passes through.
    fn column_bytes(&self, row: usize) -> u64 {
        self.column_bytes.get(row).copied().unwrap_or(0)
    }

    /// The position of a row in the input, after those of its ids that are already in a row group.
    fn position(&self, row: usize) -> Position {
        let token = to_u64(self.taken.saturating_sub(self.start(row)));
        Position { row: self.first.row + to_u64(row), token, ..self.first }
    }

    /// What a range of the rows holds. The range must not be empty.
    pub(super) fn totals(&self, range: Range<usize>) -> RowTotals {
        let documents = to_u64(range.len());
        let Position { source, unit, row, .. } = self.first;
        let tokens = to_u64(self.batch.ends[range.end - 1] - self.start(range.start));
        let null_documents = to_u64(range.clone().filter(|&row| self.is_null(row)).count());
        let text_bytes = self.batch.text_lengths.get(range.clone()).unwrap_or_default().iter().sum();
        let with_text = documents - null_documents;
        let share = SourceShare { source: self.batch.source, documents: with_text, text_bytes, tokens };
        let mut totals = RowTotals {
            rows: documents,
            tokens,
            documents,
            null_documents,
            text_bytes,
            sources: vec![share],
            ..RowTotals::default()
        };
        let first_row = row + to_u64(range.start);
        totals.add_range(DocumentRange { source, unit, first_row, rows: documents });
        totals
    }
}

/// Checks that no row has more than 2³¹ − 1 ids. Offsets of Arrow's lists have 32 bits.
fn check_lengths(batch: &TokenBatch) -> Result<()> {
    let mut start = 0;
    for &end in &batch.ends {
        if i32::try_from(end - start).is_err() {
            let (source, unit, tokens) = (batch.source, batch.unit, end - start);
            return Err(Error::failed(format!(
                "a row of source {source}, unit {unit} has {tokens} tokens, more than a list can hold"
            )));
        }
        start = end;
    }
    Ok(())
}

/// Checks that all ids fit a signed 32-bit number. The column of ids is signed.
fn check_ids(ids: &TokenIds) -> Result<()> {
    let greatest = ids.greatest().unwrap_or_default().get();
    i32::try_from(greatest)
        .map(drop)
        .map_err(|_| Error::failed(format!("token id {greatest} does not fit a signed 32-bit number")))
}

/// The pass-through columns of a batch, converted to the types of the output. `None` if there are none, or if
/// documents are packed.
///
/// # Errors
/// A column is missing, has another number of rows, or does not fit its type.
fn pass_through(batch: &TokenBatch, spec: &FileSpec) -> Result<Option<RecordBatch>> {
    let fields = spec.schema.fields()[OWN_COLUMNS..].to_vec();
    if fields.is_empty() || spec.packing.is_some() {
        return Ok(None);
    }
    let (source, unit) = (batch.source, batch.unit);
    let mut columns = Vec::with_capacity(fields.len());
    for field in &fields {
        let given = batch.columns.as_ref().and_then(|columns| columns.column_by_name(field.name()));
        let Some(given) = given.filter(|given| given.len() == batch.len()) else {
            let name = field.name();
            return Err(Error::failed(format!(
                "column {name:?} is missing from the rows of source {source}, unit {unit}"
            )));
        };
        columns.push(cast(given, field.data_type()).map_err(|cause| {
            let (name, data_type) = (field.name(), field.data_type());
            let problem =
                format!("column {name:?} of source {source}, unit {unit} does not fit the type {data_type}");
            Error::caused(ErrorKind::Failed, problem, cause)
        })?);
    }
    let columns = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
    Ok(Some(columns.expect("as many columns as fields, all as long as the batch, cast to their types")))
}

/// Rows that will become one row group. While documents are gathered for packing, each row is a document or a part of
/// one.
#[derive(Default)]
pub(super) struct RowGroup {
    /// The ids of all rows, one after another.
    pub(super) ids: TokenIds,
    /// Where the ids of each row end.
    ends: Vec<usize>,
    /// Whether each row is null.
    nulls: Vec<bool>,
    /// The pass-through columns, one batch for each range of rows that was taken.
    pub(super) columns: Vec<RecordBatch>,
    /// Bytes of pass-through values in all rows.
    column_bytes: u64,
    /// What the rows hold of the input.
    pub(super) totals: RowTotals,
}

impl RowGroup {
    /// Whether there are no rows. Documents without ids that are to be packed are no rows.
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
            let taken = self.ends.len() + stop - range.start;
            let ids = self.ids.len() + rows.batch.ends[stop] - begin;
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

    /// Appends rows. The range must not be empty.
    fn append(&mut self, rows: &mut OutputBatch, range: Range<usize>) {
        let (begin, end) = (rows.start(range.start), rows.batch.ends[range.end - 1]);
        self.totals.add(&rows.totals(range.clone()));
        let shift = self.ids.len();
        self.ends.extend(rows.batch.ends[range.clone()].iter().map(|end| shift + end - begin));
        self.nulls.extend(range.clone().map(|row| rows.is_null(row)));
        if let Some(columns) = &rows.batch.columns {
            self.columns.push(columns.slice(range.start, range.len()));
        }
        if shift == 0 && range == (0..rows.batch.len()) && end == rows.batch.ids.len() {
            // A huge row comes alone in its batch. Its ids are moved, so that memory holds them once.
            self.ids = std::mem::take(&mut rows.batch.ids);
        } else {
            self.ids.extend(&rows.batch.ids, begin..end);
        }
    }

    /// Gathers documents for packing from the beginning of `range` while they fit, and returns the first one that was
    /// not taken completely. Some of its first ids may have been taken.
    ///
    /// Like [`take`](RowGroup::take), this depends only on the documents and not on batches. Documents without ids
    /// take part in the totals and in no row.
    pub(super) fn gather(&mut self, rows: &mut OutputBatch, range: Range<usize>, packing: &Packing) -> usize {
        let before = self.ids.len();
        let mut stop = range.start;
        let mut within = None;
        while stop < range.end {
            let remaining = rows.remaining(stop);
            let offset = self.ids.len();
            let ids = packing.ids_that_fit(offset, self.ends.len(), remaining.len());
            if ids > 0 {
                self.ids.extend(&rows.batch.ids, remaining.start..remaining.start + ids);
                self.ends.push(self.ids.len());
            }
            if ids < remaining.len() {
                rows.taken = remaining.start + ids;
                within = (ids > 0).then(|| rows.position(stop));
                break;
            }
            let cut = packing.cuts(offset, ids, remaining.start > rows.start(stop));
            self.totals.cut_documents += u64::from(cut);
            stop += 1;
        }
        if stop > range.start {
            self.totals.add(&RowTotals { rows: 0, tokens: 0, ..rows.totals(range.start..stop) });
        }
        self.totals.tokens += to_u64(self.ids.len() - before);
        self.totals.next = within.unwrap_or(self.totals.next);
        stop
    }

    /// The range of ids of each row. Null rows have an empty range.
    fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| start..end)
    }

    /// Packs the gathered documents into rows.
    ///
    /// **Memory:** about 50 bytes per document, and for best-fit a second copy of the ids.
    pub(super) fn pack(mut self, packing: &Packing) -> RowGroup {
        let rows = packing.pack(self.ranges());
        if packing.rule == PackRule::BestFit {
            let mut ids = self.ids.room_for_as_many();
            rows.segments.iter().for_each(|segment| ids.extend(&self.ids, segment.clone()));
            self.ids = ids;
        }
        self.into_rows(&rows)
    }

    /// Makes packed rows of the ids, which must be in the order of the rows. `rows` decides where each row ends, and
    /// what its value of `seq_lengths` is.
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

    /// The range of ids of each row; `None` for a null row.
    pub(super) fn spans(&self) -> impl Iterator<Item = Option<Range<usize>>> {
        self.ranges().zip(&self.nulls).map(|(range, &null)| (!null).then_some(range))
    }

    /// The values of the column `length`.
    pub(super) fn lengths(&self) -> Int32Array {
        let length = |span: Range<usize>| i32::try_from(span.len()).expect("checked when the row came");
        self.spans().map(|span| span.map(length)).collect()
    }
}

/// A position between two documents of the input, in the order of encoding; within a document if packing cuts it.
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

impl Position {
    /// The position of a batch's first row, unless the batch is of a sample, which counts rows differently.
    pub(super) fn of(batch: &TokenBatch) -> Position {
        Position { source: batch.source, unit: batch.unit, row: batch.first_row, token: 0 }
    }
}

/// What some rows of the output hold: counts, and the documents of the input.
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
///
/// Part of the state on disk, so renaming a field makes earlier states unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DocumentRange {
    /// The number of the source, from 0.
    pub(super) source: usize,
    /// The number of the unit in that source, from 0.
    pub(super) unit: usize,
    /// The row of the first document in the unit.
    pub(super) first_row: u64,
    /// Number of documents.
    pub(super) rows: u64,
}

impl RowTotals {
    /// No documents yet; the next one is at `next`.
    pub(super) fn before(next: Position) -> RowTotals {
        RowTotals { next, ..RowTotals::default() }
    }

    /// How many of the tokens are BOS or EOS, if encoding adds `per_document` of them to each document.
    pub fn added_tokens(&self, per_document: u64) -> u64 {
        (self.documents - self.null_documents) * per_document
    }

    /// Adds the totals of rows that follow these in the input. All counts are sums, and [`next`](RowTotals::next) is
    /// that of the later rows.
    pub(super) fn add(&mut self, other: &RowTotals) {
        self.rows += other.rows;
        self.tokens += other.tokens;
        self.documents += other.documents;
        self.cut_documents += other.cut_documents;
        self.null_documents += other.null_documents;
        self.text_bytes += other.text_bytes;
        other.sources.iter().for_each(|share| self.add_share(share));
        other.ranges.iter().for_each(|range| self.add_range(*range));
        self.next = other.next;
    }

    /// Adds a share of a source. Sources stay in ascending order.
    fn add_share(&mut self, share: &SourceShare) {
        match self.sources.binary_search_by_key(&share.source, |own| own.source) {
            Err(index) => self.sources.insert(index, *share),
            Ok(index) => {
                let own = &mut self.sources[index];
                own.documents += share.documents;
                own.text_bytes += share.text_bytes;
                own.tokens += share.tokens;
            }
        }
    }

    /// Adds documents that follow in the input. They extend the last range if they are of the same unit.
    fn add_range(&mut self, range: DocumentRange) {
        let DocumentRange { source, unit, first_row, rows } = range;
        match self.ranges.last_mut() {
            Some(last) if (last.source, last.unit) == (source, unit) => last.rows += rows,
            _ => self.ranges.push(range),
        }
        self.next = Position { source, unit, row: first_row + rows, token: 0 };
    }
}
