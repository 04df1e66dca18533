//! Arrow data in and out, through its C interface, so that it works with every library that has it.

use std::io;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, Int32Array, LargeBinaryArray, ListArray, RecordBatch,
    RecordBatchReader, UInt32Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_pyarrow::FromPyArrow;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tokenmill::Error;

use crate::errors::{usage, with_causes};
use crate::pool::{lock, on_threads};
use crate::tokenizer::Tokenizer;

/// The name of the column of ids.
const INPUT_IDS: &str = "input_ids";

/// A stream of record batches that are encoded as they are read. It can be read once, by anything that takes
/// `__arrow_c_stream__`: pyarrow, polars, duckdb and others.
#[pyclass(frozen, module = "tokenmill")]
pub(crate) struct TokenStream(Mutex<Option<Box<dyn RecordBatchReader + Send>>>);

#[pymethods]
impl TokenStream {
    /// The stream as Arrow's capsule. `requested_schema` is not followed, which Arrow allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let reader = lock(&self.0).take();
        let reader = reader.ok_or_else(|| {
            usage(
                py,
                "the stream has been read already",
                "call encode_arrow again, or collect its result once",
            )
        })?;
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
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
    dtype: &str,
    threads: Option<usize>,
) -> PyResult<TokenStream> {
    let py = data.py();
    let input = RecordBatchStreamReader::from_pyarrow_bound(&as_table(data, column)?)?;
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
    let encoded = Encoded { input, tokenizer, text, keep, unsigned, schema, threads, row: 0 };
    Ok(TokenStream(Mutex::new(Some(Box::new(encoded)))))
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
fn is_text(column: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    matches!(column, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

/// The texts of a column, without checking that they are UTF-8.
fn rows(column: &ArrayRef) -> Vec<Option<&[u8]>> {
    /// The values of an array of bytes.
    fn values<'a>(iterator: impl Iterator<Item = Option<&'a [u8]>>) -> Vec<Option<&'a [u8]>> {
        iterator.collect()
    }
    match column.data_type() {
        DataType::Binary => values(column.as_binary::<i32>().iter()),
        DataType::LargeBinary => values(column.as_binary::<i64>().iter()),
        _ => values(column.as_binary_view().iter()),
    }
}

/// A column of strings as one of bytes: the same memory.
fn as_bytes(column: &ArrayRef) -> ArrayRef {
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

/// Reads batches and encodes them.
struct Encoded {
    /// The batches with text.
    input: RecordBatchStreamReader,
    /// The tokenizer.
    tokenizer: Py<Tokenizer>,
    /// The index of the column of text.
    text: usize,
    /// The indices of the columns to keep.
    keep: Vec<usize>,
    /// Whether ids are unsigned.
    unsigned: bool,
    /// The columns of the result.
    schema: SchemaRef,
    /// The number of threads, if one was asked for.
    threads: Option<usize>,
    /// Number of rows before the next batch.
    row: usize,
}

impl Encoded {
    /// Encodes a batch.
    fn encode(&mut self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let column = as_bytes(batch.column(self.text));
        let texts = rows(&column);
        let ids = self.ids(&texts)?;
        let nulls = column.nulls().cloned();
        let list = self.list(ids, nulls)?;
        let kept = self.keep.iter().map(|&kept| ArrayRef::clone(batch.column(kept)));
        self.row += batch.num_rows();
        RecordBatch::try_new(SchemaRef::clone(&self.schema), kept.chain([list]).collect())
    }

    /// The ids of texts. Null texts have none.
    fn ids(&self, texts: &[Option<&[u8]>]) -> Result<Vec<Vec<u32>>, ArrowError> {
        let texts: Vec<&[u8]> = texts.iter().map(|text| text.unwrap_or_default()).collect();
        let encoded = Python::attach(|py| {
            let using = self.tokenizer.get().shared.to_encode(py)?;
            let tokenizer = &using.tokenizer;
            on_threads(py, self.threads, || tokenizer.encode_batch(&texts))
        });
        let encoded = encoded.map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        encoded.map_err(|error| ArrowError::ExternalError(io::Error::other(self.at_row(&error)).into()))
    }

    /// The message of an error of the batch. It counts rows from the first of the batch.
    fn at_row(&self, error: &Error) -> String {
        let help = error.help().map(|help| format!("\n  help: {help}")).unwrap_or_default();
        format!("in the batch that begins with row {}: {}{help}", self.row, with_causes(error))
    }

    /// Ids as a column of lists.
    ///
    /// # Errors
    /// They are too many for one batch.
    fn list(&self, rows: Vec<Vec<u32>>, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let total: usize = rows.iter().map(Vec::len).sum();
        if i32::try_from(total).is_err() {
            let problem =
                format!("a batch has {total} ids, more than a list of Arrow can; give smaller batches");
            return Err(ArrowError::InvalidArgumentError(problem));
        }
        let offsets = OffsetBuffer::from_lengths(rows.iter().map(Vec::len));
        let DataType::List(element) = self.schema.field(self.keep.len()).data_type() else {
            return Err(ArrowError::SchemaError("ids are not a list".to_owned()));
        };
        let values: ArrayRef = if self.unsigned {
            Arc::new(UInt32Array::from(rows.concat()))
        } else {
            // Ids are below 2³¹.
            Arc::new(Int32Array::from_iter_values(rows.into_iter().flatten().map(u32::cast_signed)))
        };
        Ok(Arc::new(ListArray::try_new(FieldRef::clone(element), offsets, values, nulls)?))
    }
}

impl Iterator for Encoded {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.input.next()?;
        Some(batch.and_then(|batch| self.encode(&batch)))
    }
}

impl RecordBatchReader for Encoded {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}
