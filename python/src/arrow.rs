//! Arrow data in and out, through its C interface, so that it works with every library that has it.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{
    AnyDictionaryArray, Array, ArrayRef, BinaryArray, BinaryViewArray, Int32Array, LargeBinaryArray,
    ListArray, RecordBatch, RecordBatchReader, UInt32Array, UInt64Array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_pyarrow::FromPyArrow;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tokenmill::Error;
use tokenmill::arrow::compute::take;
use tokenmill::encode::FlatIds;

use crate::batch::in_row;
use crate::errors::{OrRaise, usage, with_causes};
use crate::job::Watcher;
use crate::ordered::in_order;
use crate::pool::{lock, pool};
use crate::tokenizer::{Around, Tokenizer};

/// The name of the column of ids.
const INPUT_IDS: &str = "input_ids";

/// Bytes of text (2 MiB) that a thread encodes at a time.
const PORTION_BYTES: usize = 2 << 20;

/// Bytes of text (8 MiB) up to which a batch gives one batch of ids. The ids of more text are not copied together: each
/// portion gives a batch.
const JOINED_BYTES: usize = 8 << 20;

/// Bytes of text (32 KiB) below which threads do not share a batch.
const FEWEST_BYTES: usize = 32 << 10;

/// Bytes that a row counts in addition to its text.
const PER_ROW: usize = 32;

/// Most ids of a batch with texts from a dictionary, unless one row has more.
const DICTIONARY_IDS: usize = 16 << 20;

/// A stream of record batches that are made while they are read. ``Tokenizer.encode_arrow`` and ``Counts.to_arrow`` make
/// it.
///
/// It can be read once, by anything that takes ``__arrow_c_stream__``: pyarrow, polars, duckdb and others.
///
/// Example:
///     >>> import pyarrow as pa
///     >>> stream = tokenizer.encode_arrow(pa.table({"text": ["a wood", "chuck"]}))
///     >>> for batch in pa.RecordBatchReader.from_stream(stream):
///     ...     print(batch["input_ids"].to_pylist())
///     [[97, 263], [262]]
#[pyclass(frozen, module = "tokenmill")]
pub(crate) struct ArrowStream {
    /// The batches, until they are read.
    reader: Mutex<Option<Box<dyn RecordBatchReader + Send>>>,
    /// Their columns.
    schema: SchemaRef,
}

impl ArrowStream {
    /// A stream of these batches.
    pub(crate) fn new(batches: impl RecordBatchReader + Send + 'static) -> ArrowStream {
        ArrowStream { schema: batches.schema(), reader: Mutex::new(Some(Box::new(batches))) }
    }
}

#[pymethods]
impl ArrowStream {
    /// Hands the stream over in a capsule of Arrow. ``requested_schema`` is not followed, which Arrow allows.
    ///
    /// Raises:
    ///     UsageError: The stream was read already.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let reader = lock(&self.reader).take();
        let reader = reader.ok_or_else(|| {
            usage(py, "the stream has been read already", "make it again, or collect its result once")
        })?;
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
    }

    /// Gives the columns of the stream in a capsule of Arrow. duckdb asks for them before it reads the stream.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema);
        let schema = schema.map_err(|cause| Error::failed(format!("cannot hand over the columns: {cause}")));
        PyCapsule::new_with_value(py, schema.or_raise(py)?, c"arrow_schema")
    }
}

/// The stream of encoded batches of `data`.
///
/// # Errors
/// It is not Arrow data, it lacks a column, or the column holds no text.
pub(crate) fn encoded(
    tokenizer: Py<Tokenizer>,
    data: &Bound<'_, PyAny>,
    column: &str,
    keep: &[String],
    around: Around,
    dtype: &str,
    threads: Option<usize>,
) -> PyResult<ArrowStream> {
    let py = data.py();
    let input = Batches::of(data, column)?;
    let names = input.schema();
    let index = |name: &str| {
        names.index_of(name).map_err(|_| {
            let columns: Vec<&str> = names.fields().iter().map(|field| field.name().as_str()).collect();
            usage(
                py,
                &format!("there is no column {name:?}"),
                &format!("the columns are {}", columns.join(", ")),
            )
        })
    };
    let text = index(column)?;
    let text_type = names.field(text).data_type();
    if !is_text(text_type) {
        let problem = format!("the column {column:?} is of type {text_type}, which is not text");
        return Err(usage(py, &problem, "name a column of strings or binary values with column=…"));
    }
    let keep = keep.iter().map(|name| index(name)).collect::<PyResult<Vec<usize>>>()?;
    if keep.iter().any(|&kept| names.field(kept).name() == INPUT_IDS) {
        return Err(usage(py, "two columns would be named \"input_ids\"", "leave that column out of keep"));
    }
    let unsigned = match dtype {
        "int32" => false,
        "uint32" => true,
        _ => return Err(usage(py, &format!("dtype={dtype:?} is not known"), "give 'int32' or 'uint32'")),
    };
    let element = Field::new("element", if unsigned { DataType::UInt32 } else { DataType::Int32 }, true);
    let ids = Field::new(INPUT_IDS, DataType::List(Arc::new(element)), true);
    let fields = keep.iter().map(|&kept| FieldRef::clone(&names.fields()[kept])).chain([Arc::new(ids)]);
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let ready = VecDeque::new();
    let encoded = Encoded { input, tokenizer, text, keep, around, unsigned, schema, threads, row: 0, ready };
    Ok(ArrowStream::new(encoded))
}

/// The record batches of Arrow data.
pub(crate) struct Batches(RecordBatchStreamReader);

impl Batches {
    /// Those of `data`. A single column, for example a series, becomes a table with the column `name`.
    ///
    /// # Errors
    /// It is not Arrow data.
    pub(crate) fn of(data: &Bound<'_, PyAny>, name: &str) -> PyResult<Batches> {
        RecordBatchStreamReader::from_pyarrow_bound(&as_table(data, name)?).map(Batches)
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // The import of a batch that has other columns than its stream declares panics.
        catch_unwind(AssertUnwindSafe(|| self.0.next())).unwrap_or_else(|_| {
            let problem = "a batch of the Arrow data has other columns than its stream declares";
            Some(Err(ArrowError::SchemaError(problem.to_owned())))
        })
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

/// Data as something with `__arrow_c_stream__` and with columns. A single column, for example a series, becomes a table
/// with the column `name`.
fn as_table<'py>(data: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    if data.hasattr("to_frame")? {
        return data.call_method1("to_frame", (name,));
    }
    let has_columns =
        ["schema", "columns", "column_names"].iter().any(|has| data.hasattr(*has).unwrap_or(false));
    let is_of_pyarrow = data.get_type().module()?.to_cow()?.starts_with("pyarrow");
    if is_of_pyarrow && !has_columns {
        let arguments = pyo3::types::PyDict::new(data.py());
        arguments.set_item("names", [name])?;
        return data.py().import("pyarrow")?.call_method("table", ([data],), Some(&arguments));
    }
    if !data.hasattr("__arrow_c_stream__")? {
        let found = data.get_type().name()?;
        let help = "give a table, record batches or a data frame of pyarrow, polars, duckdb or pandas";
        return Err(usage(data.py(), &format!("{found} is not Arrow data"), help));
    }
    Ok(data.clone())
}

/// Whether a column of this type can be encoded.
pub(crate) fn is_text(column: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Dictionary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    match column {
        Dictionary(_, values) => !matches!(**values, Dictionary(..)) && is_text(values),
        column => matches!(column, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView),
    }
}

/// The texts of a column of bytes. Null rows are empty.
pub(crate) fn rows(column: &ArrayRef) -> Vec<&[u8]> {
    /// The values of an array of bytes.
    fn values<'a>(iterator: impl Iterator<Item = Option<&'a [u8]>>) -> Vec<&'a [u8]> {
        iterator.map(Option::unwrap_or_default).collect()
    }
    match column.data_type() {
        DataType::Binary => values(column.as_binary::<i32>().iter()),
        DataType::LargeBinary => values(column.as_binary::<i64>().iter()),
        _ => values(column.as_binary_view().iter()),
    }
}

/// A column of strings as one of bytes: the same memory. It is not checked to be UTF-8.
pub(crate) fn as_bytes(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8 => Arc::new(BinaryArray::from(column.as_string::<i32>().clone())),
        DataType::LargeUtf8 => Arc::new(LargeBinaryArray::from(column.as_string::<i64>().clone())),
        DataType::Utf8View => {
            let view: BinaryViewArray = column.as_string_view().clone().to_binary_view();
            Arc::new(view)
        }
        _ => ArrayRef::clone(column),
    }
}

/// The keys of the values that the rows of a dictionary column refer to, each once, and for each row the index of its key
/// among them; `None` for a null row.
fn used_keys(column: &dyn AnyDictionaryArray, nulls: Option<&NullBuffer>) -> (Vec<u64>, Vec<Option<usize>>) {
    let keys = if column.values().is_empty() { vec![0; column.len()] } else { column.normalized_keys() };
    let (mut used, mut places) = (Vec::new(), HashMap::new());
    let place = |(row, key): (usize, usize)| {
        nulls.is_none_or(|nulls| nulls.is_valid(row)).then(|| match places.entry(key) {
            Entry::Occupied(place) => *place.get(),
            Entry::Vacant(place) => {
                used.push(u64::try_from(key).unwrap_or(u64::MAX));
                *place.insert(used.len() - 1)
            }
        })
    };
    let rows = keys.into_iter().enumerate().map(place).collect();
    (used, rows)
}

/// Ranges of texts with about `bytes` bytes each, or one text that is longer.
fn portions(texts: &[&[u8]], bytes: usize) -> Vec<Range<usize>> {
    let (mut portions, mut start, mut sum) = (Vec::new(), 0, 0);
    for (row, text) in texts.iter().enumerate() {
        sum += text.len() + PER_ROW;
        if sum >= bytes {
            portions.push(start..row + 1);
            (start, sum) = (row + 1, 0);
        }
    }
    if start < texts.len() {
        portions.push(start..texts.len());
    }
    portions
}

/// The bytes of texts, and [`PER_ROW`] more for each.
fn bytes_of(texts: &ArrayRef) -> usize {
    rows(texts).iter().map(|text| text.len() + PER_ROW).sum()
}

/// Reads batches and encodes them.
struct Encoded {
    /// The batches with text.
    input: Batches,
    /// The tokenizer.
    tokenizer: Py<Tokenizer>,
    /// The index of the column of text.
    text: usize,
    /// The indices of the columns to keep.
    keep: Vec<usize>,
    /// The ids to put around texts.
    around: Around,
    /// Whether ids are unsigned.
    unsigned: bool,
    /// The columns of the result.
    schema: SchemaRef,
    /// The number of threads, if one was asked for.
    threads: Option<usize>,
    /// Number of rows before the next batch.
    row: usize,
    /// Batches that are encoded and were not asked for yet.
    ready: VecDeque<RecordBatch>,
}

impl Encoded {
    /// Encodes a batch to one or more.
    fn encode(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let column = batch.column(self.text);
        match column.as_any_dictionary_opt() {
            Some(column) => self.encode_dictionary(batch, column)?,
            None => self.encode_texts(batch, &as_bytes(column))?,
        }
        self.row += batch.num_rows();
        Ok(())
    }

    /// Encodes a batch with these texts.
    fn encode_texts(&mut self, batch: &RecordBatch, texts: &ArrayRef) -> Result<(), ArrowError> {
        let (mut row, mut ready) = (0, VecDeque::new());
        if bytes_of(texts) <= JOINED_BYTES {
            ready.push_back(self.batch(batch, 0, self.encode_together(texts, None)?)?);
        } else {
            self.encode_portions(texts, None, PORTION_BYTES, |flat| {
                let (first, rows) = (row, flat.ends.len());
                row += rows;
                ready.push_back(self.batch(batch, first, flat)?);
                Ok(())
            })?;
        }
        self.ready = ready;
        Ok(())
    }

    /// Encodes a batch whose column of text is a dictionary: each value once.
    fn encode_dictionary(
        &mut self,
        batch: &RecordBatch,
        column: &dyn AnyDictionaryArray,
    ) -> Result<(), ArrowError> {
        let (used, places) = used_keys(column, column.logical_nulls().as_ref());
        let mut first_rows = vec![0; used.len()];
        for (row, place) in places.iter().enumerate().rev() {
            place.map(|place| first_rows[place] = row);
        }
        let used = take(column.values(), &UInt64Array::from(used), None)?;
        let encoded = self.encode_together(&as_bytes(&used), Some(first_rows.into()))?;
        let ids: Vec<&[u32]> = encoded.iter().collect();
        let (mut first, mut flat) = (0, FlatIds::default());
        for place in &places {
            flat.ids.extend_from_slice(place.map_or(&[], |place| ids[place]));
            flat.ends.push(flat.ids.len());
            if flat.ids.len() >= DICTIONARY_IDS {
                let rows = flat.ends.len();
                let full = self.batch(batch, first, std::mem::take(&mut flat))?;
                self.ready.push_back(full);
                first += rows;
            }
        }
        if !flat.ends.is_empty() || places.is_empty() {
            let rest = self.batch(batch, first, flat)?;
            self.ready.push_back(rest);
        }
        Ok(())
    }

    /// The ids of texts in one list. `rows_of` has the row of each text in the batch, if that is not its index.
    fn encode_together(
        &self,
        texts: &ArrayRef,
        rows_of: Option<Arc<[usize]>>,
    ) -> Result<FlatIds, ArrowError> {
        let threads = Python::attach(|py| Ok(pool(py, self.threads)?.current_num_threads()));
        let threads = threads.map_err(|error: PyErr| ArrowError::ExternalError(Box::new(error)))?;
        let mut all = FlatIds::default();
        let portion = (bytes_of(texts) / (4 * threads)).clamp(FEWEST_BYTES, PORTION_BYTES);
        self.encode_portions(texts, rows_of, portion, |flat| {
            if all.ends.is_empty() {
                all = flat;
            } else {
                let before = all.ids.len();
                all.ids.extend_from_slice(&flat.ids);
                all.ends.extend(flat.ends.iter().map(|end| before + end));
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Encodes texts on several threads, about `bytes` bytes of text at a time, and gives their ids to `take` in order.
    fn encode_portions(
        &self,
        texts: &ArrayRef,
        rows_of: Option<Arc<[usize]>>,
        bytes: usize,
        mut take: impl FnMut(FlatIds) -> Result<(), ArrowError>,
    ) -> Result<(), ArrowError> {
        let mut outcome = Ok(());
        let done = Python::attach(|py| {
            let using = self.tokenizer.get().shared.to_encode(py)?;
            let tokenizer = using.tokenizer.clone();
            let encode = move |(first_row, texts): (usize, ArrayRef), watcher: &Watcher| {
                let texts = rows(&texts);
                let encoded = tokenizer.encode_flat(&texts, watcher);
                let row_of =
                    |row: usize| rows_of.as_ref().map_or(first_row + row, |rows| rows[first_row + row]);
                encoded.map_err(|error| in_row(&tokenizer, row_of, &texts, error))
            };
            let portions = portions(&rows(texts), bytes).into_iter();
            let portions = portions.map(|rows| Ok((rows.start, texts.slice(rows.start, rows.len()))));
            in_order(py, self.threads, portions, encode, |encoded| {
                let taken = encoded.map_err(|error| self.failed(&error)).and_then(&mut take);
                taken.map_err(|error| {
                    outcome = Err(error);
                    // Any exception ends the work; `outcome` is what is reported.
                    PyErr::new::<pyo3::exceptions::PyException, _>(())
                })
            })
        });
        outcome?;
        done.map_err(|error| ArrowError::ExternalError(Box::new(error)))
    }

    /// The error of a text of the batch, which names its row.
    fn failed(&self, error: &Error) -> ArrowError {
        let help = error.help().map(|help| format!("\n  help: {help}")).unwrap_or_default();
        let row = self.row;
        let message = format!("in the batch that begins with row {row}: {}{help}", with_causes(error));
        ArrowError::ExternalError(io::Error::other(message).into())
    }

    /// The rows of a batch from `first_row` on, with their ids.
    ///
    /// # Errors
    /// One row has more ids than a list of Arrow can.
    fn batch(&self, batch: &RecordBatch, first_row: usize, flat: FlatIds) -> Result<RecordBatch, ArrowError> {
        let rows = flat.ends.len();
        let column = batch.column(self.text);
        let nulls = column.logical_nulls().map(|nulls| nulls.slice(first_row, rows));
        let list = self.list(self.around.with_each(flat, nulls.as_ref()), nulls)?;
        let kept = self.keep.iter().map(|&kept| batch.column(kept).slice(first_row, rows));
        RecordBatch::try_new(SchemaRef::clone(&self.schema), kept.chain([list]).collect())
    }

    /// Ids as a column of lists.
    ///
    /// # Errors
    /// They are too many for one list.
    fn list(&self, flat: FlatIds, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let DataType::List(element) = self.schema.field(self.keep.len()).data_type() else {
            return Err(ArrowError::SchemaError("ids are not a list".to_owned()));
        };
        let offset = |end: usize| {
            let problem = || format!("a batch has {end} ids, more than a list of Arrow can; cut its texts");
            i32::try_from(end).map_err(|_| ArrowError::InvalidArgumentError(problem()))
        };
        let offsets = std::iter::once(Ok(0)).chain(flat.ends.into_iter().map(offset));
        let offsets = OffsetBuffer::new(offsets.collect::<Result<Vec<i32>, _>>()?.into());
        let (rows, ids) = (flat.ids.len(), Buffer::from_vec(flat.ids));
        // Ids are below 2³¹, so they are the same as signed numbers.
        let values: ArrayRef = if self.unsigned {
            Arc::new(UInt32Array::new(ScalarBuffer::new(ids, 0, rows), None))
        } else {
            Arc::new(Int32Array::new(ScalarBuffer::new(ids, 0, rows), None))
        };
        Ok(Arc::new(ListArray::try_new(FieldRef::clone(element), offsets, values, nulls)?))
    }
}

impl Iterator for Encoded {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() {
            let batch = self.input.next()?;
            // The consumer is C code, which no panic may reach.
            let encoded = catch_unwind(AssertUnwindSafe(|| batch.and_then(|batch| self.encode(&batch))));
            let failed = || ArrowError::ComputeError("encoding a batch has failed unexpectedly".to_owned());
            if let Err(error) = encoded.unwrap_or_else(|_| Err(failed())) {
                return Some(Err(error));
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

impl RecordBatchReader for Encoded {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}
