//! The class `Counts`, and counting.

use std::collections::HashMap;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, BinaryArray, RecordBatch, RecordBatchReader, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::prelude::*;
use serde_json::Value;
use tokenmill::arrow::compute::cast;
use tokenmill::base::int::ByteCount;
use tokenmill::cli::{sum_as_json, system_environment};
use tokenmill::count::{
    Boundary, COUNTS_INFO_KEY, CountsFile, CountsInfo, MemoryLimit, SumConfig, read_counts,
};
use tokenmill::run::recipe::{Command, CountsKeys};
use tokenmill::run::{count_in_memory, merge_counts as merge, read_counts_files, write_counts_file};
use tokenmill::sample::Weight;
use tokenmill::split::SplitPattern;
use tokenmill::{Count, Error, Observer, PretokenCounts, Result};

use crate::arrow::{ArrowStream, Batches, as_bytes, is_text, rows};
use crate::errors::OrRaise;
use crate::input::Input;
use crate::job::{self, Watcher};
use crate::loading::split_pattern;
use crate::pool::on_threads;
use crate::recipes::{Limits, context, from_arguments};
use crate::text::Text;

/// The column of pre-tokens.
const PRETOKEN: &str = "pretoken";

/// The column of counts.
const COUNT: &str = "count";

/// The most rows of a batch.
const BATCH_ROWS: usize = 1 << 16;

/// The most bytes of pre-tokens in a batch (16 MiB), unless it has one row.
const BATCH_BYTES: usize = 16 << 20;

/// The distinct pre-tokens of a corpus with their counts, and how the text was split.
///
/// ``tokenmill.count`` makes it, and ``tokenmill.train`` learns from it. Its length is the number of distinct pre-tokens.
/// All are held in memory: their bytes, and 16 more for each.
///
/// Example:
///     >>> counts = tokenmill.count(iter(["a cat and a dog", "a dog"]))
///     >>> counts
///     Counts(5 pretokens, total=7, split="gpt4")
///     >>> len(counts)
///     5
#[pyclass(frozen, weakref, module = "tokenmill")]
pub(crate) struct Counts(Arc<CountsFile>);

impl Counts {
    /// The counts, which are not copied.
    pub(crate) fn shared(&self) -> Arc<CountsFile> {
        Arc::clone(&self.0)
    }

    /// The sum of all counts.
    fn sum(&self) -> u128 {
        self.0.pretokens.iter().map(|(_, count)| u128::from(count.get())).sum()
    }
}

#[pymethods]
impl Counts {
    /// Reads a counts file.
    ///
    /// Args:
    ///     path: A file that ``write`` or the command ``count`` has written. Or, with a ``split``, Parquet with the
    ///         columns ``pretoken`` and ``count`` that another program has written: a file, a folder or a pattern. The
    ///         counts of rows with the same pre-token are summed.
    ///     split: How the text behind the counts of another program was split.
    ///     special_tokens: The special tokens that were left out of that text.
    ///     boundary: The extent of a text that was split on its own: ``"document"`` or ``"join"``.
    ///     memory: The limit of memory, such as ``"8GB"``; by default that of the machine.
    ///
    /// Raises:
    ///     NotFoundError: There is no such file.
    ///     UsageError: Nothing says how the text was split, or another split made the pre-tokens.
    ///     TokenmillError: It is not a counts file, it is damaged, or has a value that no counts have.
    ///
    /// Example:
    ///     >>> counts.write("counts.parquet")
    ///     >>> tokenmill.Counts.from_file("counts.parquet")
    ///     Counts(5 pretokens, total=7, split="gpt4")
    #[staticmethod]
    #[pyo3(signature = (path, *, split=None, special_tokens=None, boundary=None, memory=None))]
    fn from_file(
        py: Python<'_>,
        path: PathBuf,
        split: Option<&str>,
        special_tokens: Option<Vec<String>>,
        boundary: Option<&str>,
        memory: Option<&str>,
    ) -> PyResult<Counts> {
        let foreign = counted_elsewhere(split, boundary, special_tokens).or_raise(py)?;
        let Some(foreign) = foreign else {
            let read = on_threads(py, None, || read_counts(&path))?;
            return read.or_raise(py).map(|counts| Counts(Arc::new(counts)));
        };
        let limit = memory_limit(memory).or_raise(py)?;
        let read = move |watcher: &Watcher| {
            // As for a sum: half for the result, half for the rows that are summed.
            let limit = MemoryLimit { table_bytes: ByteCount(limit.0 / 2), spill_folder: env::temp_dir() };
            read_counts_files(&[path], &SumConfig { foreign: Some(foreign), limit }, watcher)
        };
        job::run(py, None, None, |_, _| Ok(()), read).map(|counts| Counts(Arc::new(counts)))
    }

    /// Takes counts from Arrow data, such as the result of a database that has summed the counts of parts.
    ///
    /// Args:
    ///     data: Anything with ``__arrow_c_stream__``, with the columns ``pretoken`` (binary or text) and ``count``
    ///         (integers of 32 or 64 bits, above 0). The counts of rows with the same pre-token are summed.
    ///     split: How the text was split; by default as the data says, if it comes from ``to_arrow``, or else ``"gpt4"``.
    ///     special_tokens: The special tokens that were left out of the text; by default as the data says, or none.
    ///
    /// Raises:
    ///     UsageError: A column is missing or of another type, or the data says something else than the call.
    ///     TokenmillError: A pre-token is null or empty, a count is null or not above 0, or a sum exceeds 64 bits.
    ///
    /// Example:
    ///     >>> import pyarrow as pa
    ///     >>> table = pa.table({"pretoken": ["a", " dog", "a"], "count": [1, 2, 3]})
    ///     >>> tokenmill.Counts.from_arrow(table)
    ///     Counts(2 pretokens, total=6, split="gpt4")
    #[staticmethod]
    #[pyo3(signature = (data, *, split=None, special_tokens=None))]
    fn from_arrow(
        data: &Bound<'_, PyAny>,
        split: Option<&str>,
        special_tokens: Option<Vec<String>>,
    ) -> PyResult<Counts> {
        let py = data.py();
        let batches = Batches::of(data, PRETOKEN)?;
        let split = split.map(split_pattern).transpose().or_raise(py)?;
        let read = move |watcher: &Watcher| {
            let schema = batches.schema();
            let known = schema.metadata().get(COUNTS_INFO_KEY).map(String::as_str);
            let info = info_of(known, split, special_tokens)?;
            Ok(CountsFile { pretokens: pretokens(batches, watcher)?, info })
        };
        job::run(py, None, None, |_, _| Ok(()), read).map(|counts| Counts(Arc::new(counts)))
    }

    /// Gives the counts as a stream of Arrow record batches with the columns ``pretoken`` (binary) and ``count`` (uint64).
    ///
    /// Example:
    ///     >>> import pyarrow as pa
    ///     >>> pa.table(counts.to_arrow()).slice(0, 2).to_pylist()
    ///     [{'pretoken': b'a', 'count': 2}, {'pretoken': b' cat', 'count': 1}]
    fn to_arrow(&self, py: Python<'_>) -> PyResult<ArrowStream> {
        CountBatches::new(self.shared()).or_raise(py).map(ArrowStream::new)
    }

    /// Writes a counts file, completely or not at all. An earlier counts file is replaced, no other file is.
    ///
    /// Args:
    ///     path: The file.
    ///     order: Whether to keep the order in which pre-tokens first appear, which ``tie_break="first"`` needs.
    ///         Otherwise they are sorted, and equal counts give equal files.
    ///
    /// Raises:
    ///     UsageError: The counts have lost that order, or the path is that of another file.
    ///
    /// Example:
    ///     >>> counts.write("counts.parquet")
    #[pyo3(signature = (path, *, order=false))]
    fn write(&self, py: Python<'_>, path: PathBuf, order: bool) -> PyResult<()> {
        let counts = self.shared();
        let write = move |watcher: &Watcher| write_counts_file(&counts, &path, order, watcher);
        job::run(py, None, None, |_, _| Ok(()), write)
    }

    /// How the text was split: the name of a pattern, or a regular expression.
    #[getter]
    fn split(&self) -> String {
        self.0.info.pattern.to_string()
    }

    /// The special tokens that were left out of the text.
    #[getter]
    fn special_tokens(&self) -> Vec<String> {
        self.0.info.special_tokens.clone()
    }

    /// The sum of all counts: the number of pre-tokens in the text, each source times its weight.
    #[getter]
    fn total(&self) -> u128 {
        self.sum()
    }

    fn __len__(&self) -> usize {
        self.0.pretokens.len()
    }

    fn __repr__(&self) -> String {
        format!("Counts({} pretokens, total={}, split={:?})", self.__len__(), self.sum(), self.split())
    }
}

/// The metadata of counts from Arrow data, if the data has none of its own (`known`).
///
/// # Errors
/// The metadata of the data is damaged, contradicts the call, or the split cannot be used.
fn info_of(
    known: Option<&str>,
    split: Option<SplitPattern>,
    special_tokens: Option<Vec<String>>,
) -> Result<CountsInfo> {
    let Some(known) = known else {
        let pattern = split.map_or_else(|| "gpt4".parse(), Ok)?;
        return CountsInfo::of_split(pattern, Boundary::default(), &special_tokens.unwrap_or_default());
    };
    let known: CountsInfo = serde_json::from_str(known)
        .map_err(|cause| Error::failed(format!("the metadata of the counts is damaged: {cause}")))?;
    let contradicts = |what: &str, has: String| {
        Err(Error::usage(format!("`{what}`: the data has {has}"))
            .with_help("leave it out: it follows from the data"))
    };
    match (split, special_tokens) {
        (Some(split), _) if split != known.pattern => contradicts("split", known.pattern.to_string()),
        (_, Some(specials)) if specials != known.special_tokens => {
            contradicts("special_tokens", format!("{:?}", known.special_tokens))
        }
        // A program may have put the rows in another order, and added those of other sources.
        _ => Ok(CountsInfo { ordered: false, sources: Value::Null, ..known }),
    }
}

/// How the text behind counts of another program was split; `None` if no split is named.
///
/// # Errors
/// The split or the boundary cannot be used, or the other arguments are given without a split.
fn counted_elsewhere(
    split: Option<&str>,
    boundary: Option<&str>,
    special_tokens: Option<Vec<String>>,
) -> Result<Option<CountsInfo>> {
    let Some(split) = split else {
        return match boundary.is_some() || special_tokens.is_some() {
            true => Err(Error::usage("`boundary` and `special_tokens` need `split`")
                .with_help("name the split of the counts that another program wrote, or leave them out")),
            false => Ok(None),
        };
    };
    let boundary = match boundary {
        None | Some("document") => Boundary::Document,
        Some("join") => Boundary::Join,
        Some(other) => {
            let problem = format!("`boundary` is {other:?}");
            return Err(Error::usage(problem).with_help("it is \"document\" or \"join\""));
        }
    };
    CountsInfo::of_split(split_pattern(split)?, boundary, &special_tokens.unwrap_or_default()).map(Some)
}

/// The limit of memory that a call names, or else that of the machine.
///
/// # Errors
/// It is no size.
fn memory_limit(memory: Option<&str>) -> Result<ByteCount> {
    memory.map_or_else(|| Ok(system_environment().memory), str::parse)
}

/// The pre-tokens of record batches, each once.
///
/// # Errors
/// A column is missing or of another type, a value is not one of counts, or a sum exceeds 64 bits.
fn pretokens(batches: Batches, watcher: &Watcher) -> Result<PretokenCounts> {
    let schema = batches.schema();
    let index = |name: &str| {
        schema.index_of(name).map_err(|_| {
            let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            Error::usage(format!("there is no column {name:?}")).with_help(format!(
                "counts have the columns pretoken and count; these are {}",
                columns.join(", ")
            ))
        })
    };
    let (pretoken, count) = (index(PRETOKEN)?, index(COUNT)?);
    let wrong_type = |column: usize, wanted: &str| {
        let field = schema.field(column);
        let (name, found) = (field.name(), field.data_type());
        Error::usage(format!("the column {name:?} is of type {found}, not {wanted}"))
            .with_help("cast it before")
    };
    if !is_text(schema.field(pretoken).data_type()) {
        return Err(wrong_type(pretoken, "binary or text"));
    }
    let (mut all, mut row) = (PretokenCounts::new(), 0_usize);
    for batch in batches {
        watcher.checkpoint()?;
        let batch = batch.map_err(|cause| {
            Error::failed(format!("the batch that begins with row {row} cannot be read: {cause}"))
        })?;
        let texts = plain(batch.column(pretoken)).map_err(|cause| Error::failed(cause.to_string()))?;
        let counts = counts_of(batch.column(count)).ok_or_else(|| wrong_type(count, "integers"))?;
        for (text, count) in rows(&texts).into_iter().zip(counts) {
            match count.filter(|&count| count > 0) {
                _ if text.is_empty() => {
                    return Err(Error::failed(format!("row {row}: the pre-token is null or empty")));
                }
                Some(count) => all.push(text, Count::new(count)),
                None => return Err(Error::failed(format!("row {row}: the count is not 1 or more"))),
            }
            row += 1;
        }
    }
    all.summed()
}

/// A column of texts as one of bytes, also if it is a dictionary.
fn plain(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match column.data_type() {
        DataType::Dictionary(_, values) => Ok(as_bytes(&cast(column, values)?)),
        _ => Ok(as_bytes(column)),
    }
}

/// The numbers of a column; those that no count can be are `None`. `None` for a column of another type.
fn counts_of(column: &ArrayRef) -> Option<Vec<Option<u64>>> {
    let signed = |count: Option<i64>| count.and_then(|count| u64::try_from(count).ok());
    Some(match column.data_type() {
        DataType::UInt64 => column.as_primitive::<UInt64Type>().iter().collect(),
        DataType::Int64 => column.as_primitive::<Int64Type>().iter().map(signed).collect(),
        DataType::UInt32 => {
            column.as_primitive::<UInt32Type>().iter().map(|count| count.map(u64::from)).collect()
        }
        DataType::Int32 => {
            column.as_primitive::<Int32Type>().iter().map(|count| signed(count.map(i64::from))).collect()
        }
        _ => return None,
    })
}

/// Gives counts as record batches.
struct CountBatches {
    /// The counts.
    counts: Arc<CountsFile>,
    /// The columns.
    schema: SchemaRef,
    /// The number of pre-tokens before the next batch.
    given: usize,
}

impl CountBatches {
    /// Gives all of them.
    ///
    /// # Errors
    /// None is known.
    fn new(counts: Arc<CountsFile>) -> Result<CountBatches> {
        let info = serde_json::to_string(&counts.info)
            .map_err(|cause| Error::failed(format!("the metadata is no JSON: {cause}")))?;
        let fields =
            vec![Field::new(PRETOKEN, DataType::Binary, false), Field::new(COUNT, DataType::UInt64, false)];
        let metadata = HashMap::from([(COUNTS_INFO_KEY.to_owned(), info)]);
        Ok(CountBatches { counts, schema: Arc::new(Schema::new_with_metadata(fields, metadata)), given: 0 })
    }
}

impl Iterator for CountBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (mut pretokens, mut counts, mut bytes) = (Vec::new(), Vec::new(), 0);
        let all = &self.counts.pretokens;
        for (pretoken, count) in all.range(self.given..all.len().min(self.given + BATCH_ROWS)) {
            bytes += pretoken.len();
            if bytes > BATCH_BYTES && !counts.is_empty() {
                break;
            }
            pretokens.push(pretoken);
            counts.push(count.get());
        }
        if counts.is_empty() {
            return None;
        }
        self.given += counts.len();
        let columns: Vec<ArrayRef> =
            vec![Arc::new(BinaryArray::from_iter_values(pretokens)), Arc::new(UInt64Array::from(counts))];
        Some(RecordBatch::try_new(SchemaRef::clone(&self.schema), columns))
    }
}

impl RecordBatchReader for CountBatches {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

/// Counts pre-tokens by a recipe, which is given as JSON. `tokenmill.count` calls it.
///
/// It counts `texts`, or a column of `table`, or else the sources of the recipe.
#[pyfunction]
#[pyo3(signature = (json, *, texts=None, table=None, column="text", threads=None, progress=None))]
pub(crate) fn count(
    py: Python<'_>,
    json: Text,
    texts: Option<&Bound<'_, PyAny>>,
    table: Option<&Bound<'_, PyAny>>,
    column: &str,
    threads: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Counts> {
    let (input, feed) = Input::of(texts, table, column)?;
    let limits = Limits::of(py, threads)?;
    let work = move |watcher: &Watcher| {
        let plan = limits.plan(&from_arguments(json.as_ref(), Command::Count)?)?;
        let inputs = input.open(&plan, &context(&plan, watcher))?;
        count_in_memory(&plan, &inputs, &env::temp_dir(), watcher)
    };
    let counts = job::run(py, Some(limits.threads), progress, |py, look| feed.run(py, look), work)?;
    Ok(Counts(Arc::new(counts)))
}

/// Sums counts files into one, as the command `merge-counts` does, and returns a JSON object: what the command prints
/// with `--json`. `weights` has a decimal number for each file. The split, the boundary and the special tokens are those
/// of files that another program wrote.
#[pyfunction]
#[pyo3(signature = (
    paths, out, *, weights=None, split=None, boundary=None, special_tokens=None, memory=None, threads=None,
    progress=None
))]
#[expect(clippy::too_many_arguments, reason = "they are those of the function in Python")]
pub(crate) fn merge_counts(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    out: PathBuf,
    weights: Option<Vec<String>>,
    split: Option<&str>,
    boundary: Option<&str>,
    special_tokens: Option<Vec<String>>,
    memory: Option<&str>,
    threads: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let weights = weights.map_or_else(
        || Ok(vec![Weight::ONE; paths.len()]),
        |weights| weights.iter().map(|weight| weight.parse()).collect::<Result<Vec<Weight>>>(),
    );
    let weights = weights.or_raise(py)?;
    if weights.len() != paths.len() {
        let problem = format!("`weights` has {} numbers for {} files", weights.len(), paths.len());
        return Err(Error::usage(problem).with_help("give one for each file, in the same order, or none"))
            .or_raise(py);
    }
    let memory = memory_limit(memory).or_raise(py)?;
    let foreign = counted_elsewhere(split, boundary, special_tokens).or_raise(py)?;
    let work = move |watcher: &Watcher| {
        if paths.is_empty() {
            return Err(Error::usage("there are no counts files to merge").with_help("name one or more"));
        }
        let files = paths.iter().zip(weights);
        let files: Vec<CountsKeys> =
            files.map(|(path, weight)| CountsKeys { path: shown(path), weight }).collect();
        let sum = merge(&files, &out, foreign, memory, watcher)?;
        Ok(sum_as_json(&shown(&out), &sum).to_string())
    };
    job::run(py, threads, progress, |_, _| Ok(()), work)
}

/// A path as text.
fn shown(path: &Path) -> String {
    path.display().to_string()
}
