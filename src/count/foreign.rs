//! Reads counts that another program has written.
//!
//! These are Parquet files without the metadata of a [counts file](super::counts_file):
//!
//! | column | type | content |
//! | --- | --- | --- |
//! | `pretoken` | text or binary | the bytes of the pre-token, neither null nor empty |
//! | `count` | any integer, or a decimal without decimal places | at least 1 and at most 2⁶⁴ − 1 |
//!
//! Rows have any order, and a pre-token may have several. Further columns are not read. Rows are collected in memory;
//! those beyond the limit are written to disk as sorted runs.

use std::fs::File;
use std::path::Path;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, RecordBatch, UInt64Array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Schema, UInt64Type};
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use super::counts_file::{COUNT, PRETOKEN, ROWS_PER_READ, builder, decoded, not_counts, parquet_error};
use super::pretokens::{BYTES_EACH, PretokenReader, multiplied};
use super::spill::{RunOrder, Sorted, SpillFile, few_runs, readers};
use super::{CountsInfo, MemoryLimit, PretokenCounts, shown};
use crate::base::int::{Count, u64_to_usize};
use crate::error::{Error, ErrorKind, Result};
use crate::observer::Observer;
use crate::source::{is_text, views};
use crate::split::{Splitter, splitter};

/// Bytes that a collected row takes in addition to its pre-token, also while it is sorted: an index of 8 bytes, and 16
/// while this is made.
const BYTES_EACH_ROW: u64 = BYTES_EACH + 16 + 8;

/// The rows of foreign files, sorted by the bytes of the pre-tokens.
#[derive(Default)]
pub(super) struct ForeignRows {
    /// The rows that were collected last, or all rows if they fit into memory.
    held: PretokenCounts,
    /// Sorted runs of the other rows.
    runs: Vec<SpillFile>,
    /// Bytes for the buffers of the runs.
    memory: usize,
}

impl ForeignRows {
    /// Reads files, each with the factor of its counts. `info` says how their text was split.
    ///
    /// About a thousand pre-tokens of each file are split again. If more than a tenth of them are cut, another split
    /// made them, which is an error. The observer gets a note if fewer are.
    ///
    /// **Memory:** that of `limit`, and the rows of a batch.
    ///
    /// # Errors
    /// A file cannot be read, lacks a column, or has a value that no count or pre-token can have; another split made
    /// the pre-tokens; a run cannot be written; or the observer stops the run.
    pub(super) fn read<'a>(
        files: impl Iterator<Item = (&'a Path, u64)>,
        info: &CountsInfo,
        limit: &MemoryLimit,
        observer: &dyn Observer,
    ) -> Result<ForeignRows> {
        let splitter = splitter(&info.pattern)?;
        let mut rows = ForeignRows { memory: u64_to_usize(limit.table_bytes.0), ..ForeignRows::default() };
        for (path, weight) in files {
            let (batches, declared) = open(path)?;
            let mut check = SplitCheck::new(&*splitter, declared);
            rows.add(path, batches, weight, (&mut check, limit, observer))?;
            check.end(path, info, observer)?;
        }
        if !rows.runs.is_empty() {
            rows.spill(limit)?;
            let memory = (rows.memory, &*limit.spill_folder);
            rows.runs = few_runs(rows.runs, RunOrder::Bytes, memory, observer)?;
        }
        Ok(rows)
    }

    /// Adds the rows of a file.
    fn add(
        &mut self,
        path: &Path,
        mut batches: ParquetRecordBatchReader,
        weight: u64,
        (check, limit, observer): (&mut SplitCheck<'_>, &MemoryLimit, &dyn Observer),
    ) -> Result<()> {
        let mut before = 0;
        while let Some(batch) = decoded(path, || Ok(batches.next())).map_err(written_again)? {
            observer.checkpoint()?;
            let batch = batch.and_then(|batch| Columns::of(&batch)).map_err(|cause| {
                let place = format!("{}: the rows from {before} on cannot be read", path.display());
                written_again(Error::caused(ErrorKind::Failed, place, cause))
            })?;
            for row in 0..batch.counts.len() {
                let (pretoken, count) = batch.row(row).map_err(|problem| {
                    let place = format!("{}: row {}", path.display(), before + row);
                    Error::failed(format!("{place}: {problem}")).with_help(VALUES)
                })?;
                check.look_at(pretoken)?;
                self.held.push(pretoken, multiplied(pretoken, count, weight)?);
                if self.held.memory(BYTES_EACH_ROW) > limit.table_bytes.0 {
                    self.spill(limit)?;
                }
            }
            before += batch.counts.len();
        }
        Ok(())
    }

    /// Writes the collected rows as a sorted run, and removes them.
    fn spill(&mut self, limit: &MemoryLimit) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        if self.runs.is_empty() {
            self.runs.push(SpillFile::create(&limit.spill_folder)?);
        }
        let order = held.by_bytes();
        self.runs[0].write(order.into_iter().map(|index| (held.pretoken(index), held.counts[index], 0)))
    }

    /// Returns readers that each give rows sorted by pre-token. Rows with equal pre-tokens follow each other.
    pub(super) fn readers(&mut self) -> Vec<Box<dyn PretokenReader + '_>> {
        if self.runs.is_empty() {
            return vec![Box::new(Sorted::new(std::mem::take(&mut self.held)))];
        }
        readers(&self.runs, self.memory)
            .map(|reader| -> Box<dyn PretokenReader + '_> { Box::new(reader) })
            .collect()
    }
}

/// Which values the columns have.
const VALUES: &str = "a pre-token has one byte or more, and a count is an integer from 1 to 2⁶⁴ − 1; leave other rows \
                      out when the file is written, for example with WHERE pretoken <> '' AND count > 0";

/// Adds what to do about a file that cannot be read.
fn written_again(error: Error) -> Error {
    error.with_help("let the program that wrote the file write it again")
}

/// Checks that a file has the columns of counts.
///
/// # Errors
/// It cannot be read, or has no such columns.
pub(super) fn check_columns(path: &Path) -> Result<()> {
    open(path).map(drop)
}

/// Opens a file, and returns a reader of its two columns and the number of rows that its index declares.
fn open(path: &Path) -> Result<(ParquetRecordBatchReader, u64)> {
    let file = File::open(path).map_err(|cause| Error::io("open", path, cause))?;
    decoded(path, || {
        let failed = |cause| written_again(parquet_error(path, cause));
        let builder = builder(&file).map_err(failed)?;
        let columns = columns(path, builder.schema())?;
        let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        let mask = ProjectionMask::roots(builder.parquet_schema(), columns);
        let reader = builder.with_projection(mask).with_batch_size(ROWS_PER_READ).build().map_err(failed)?;
        Ok((reader, rows))
    })
}

/// Returns the places of the two columns.
///
/// # Errors
/// One is missing, or is of another type.
fn columns(path: &Path, schema: &Schema) -> Result<[usize; 2]> {
    let index = |name: &str| {
        schema.index_of(name).map_err(|_| {
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let problem = format!("it has no column {name:?}; its columns are {}", names.join(", "));
            not_counts(path, &problem).with_help(
                "counts have the columns pretoken and count: give a file that `tokenmill count` wrote, or name the \
                 columns so when another program writes it",
            )
        })
    };
    let wrong = |name: &str, wanted: &str, cast: &str| {
        let found = schema.field_with_name(name).map_or(&DataType::Null, |field| field.data_type());
        let problem = format!("{}: the column {name:?} is of type {found}, not {wanted}", path.display());
        Error::failed(problem).with_help(format!("cast it when the file is written: {cast}"))
    };
    let [pretoken, count] = [index(PRETOKEN)?, index(COUNT)?];
    if !is_text(schema.field(pretoken).data_type()) {
        return Err(wrong(PRETOKEN, "text or binary", "CAST(… AS VARCHAR)"));
    }
    match schema.field(count).data_type() {
        kind if kind.is_integer() => {}
        DataType::Decimal32(_, 0)
        | DataType::Decimal64(_, 0)
        | DataType::Decimal128(_, 0)
        | DataType::Decimal256(_, 0) => {}
        // duckdb writes sums of integers as floating-point numbers unless they are cast.
        _ => return Err(wrong(COUNT, "an integer", "CAST(sum(count) AS BIGINT)")),
    }
    Ok([pretoken, count])
}

/// The two columns of a batch.
struct Columns {
    pretokens: BinaryViewArray,
    /// The counts as they are in the file.
    given: ArrayRef,
    /// The counts; null where the count is null, negative, or does not fit in 64 bits.
    counts: UInt64Array,
}

impl Columns {
    /// Finds and converts the columns of a batch.
    fn of(batch: &RecordBatch) -> Result<Columns, ArrowError> {
        let column = |name: &str| {
            let missing = || ArrowError::SchemaError(format!("the column {name} is missing"));
            batch.column_by_name(name).ok_or_else(missing)
        };
        let (pretokens, given) = (views(column(PRETOKEN)?)?, column(COUNT)?.clone());
        let options = CastOptions { safe: true, ..CastOptions::default() };
        let counts = cast_with_options(&given, &DataType::UInt64, &options)?;
        Ok(Columns { pretokens, given, counts: counts.as_primitive::<UInt64Type>().clone() })
    }

    /// Returns the pre-token of a row and its count, or the mistake in them.
    fn row(&self, row: usize) -> Result<(&[u8], Count), String> {
        if self.pretokens.is_null(row) {
            return Err("the pre-token is null".to_owned());
        }
        let pretoken = self.pretokens.value(row);
        if pretoken.is_empty() {
            return Err("the pre-token is empty".to_owned());
        }
        if self.counts.is_null(row) || self.counts.value(row) == 0 {
            let count = match self.given.is_null(row) {
                true => "null".to_owned(),
                false => array_value_to_string(&self.given, row).unwrap_or_default(),
            };
            return Err(format!("the count of {} is {count}", shown(pretoken)));
        }
        Ok((pretoken, Count::new(self.counts.value(row))))
    }
}

/// Checks that the pre-tokens of a file can come from a split: the split must not cut them.
struct SplitCheck<'a> {
    splitter: &'a dyn Splitter,
    /// One of this many rows is looked at.
    every: u64,
    /// Rows so far.
    rows: u64,
    /// Pre-tokens that were split.
    checked: u64,
    /// Those of them that were cut.
    cut: u64,
    /// The first of these, for messages.
    example: String,
    /// The ends in the pre-token that was split last.
    ends: Vec<u32>,
}

impl SplitCheck<'_> {
    /// Number of pre-tokens of a file that are checked, approximately.
    const CHECKED: u64 = 1_000;

    /// Starts to check a file that declares this number of rows.
    fn new(splitter: &dyn Splitter, declared: u64) -> SplitCheck<'_> {
        let every = (declared / SplitCheck::CHECKED).max(1);
        SplitCheck { splitter, every, rows: 0, checked: 0, cut: 0, example: String::new(), ends: Vec::new() }
    }

    /// Takes the next pre-token of the file.
    ///
    /// # Errors
    /// The split pattern fails.
    fn look_at(&mut self, pretoken: &[u8]) -> Result<()> {
        self.rows += 1;
        if !self.rows.is_multiple_of(self.every) {
            return Ok(());
        }
        self.checked += 1;
        self.ends.clear();
        self.splitter.pretoken_ends(pretoken, &mut self.ends)?;
        if self.ends.len() > 1 {
            if self.cut == 0 {
                self.example = shown(pretoken);
            }
            self.cut += 1;
        }
        Ok(())
    }

    /// Ends the check of a file.
    ///
    /// # Errors
    /// More than a tenth of the pre-tokens were cut.
    fn end(self, path: &Path, info: &CountsInfo, observer: &dyn Observer) -> Result<()> {
        let SplitCheck { checked, cut, example, .. } = self;
        if cut == 0 {
            return Ok(());
        }
        let (path, split) = (path.display(), &info.pattern);
        let problem = format!(
            "{path}: the split {split} cuts {cut} of the {checked} pre-tokens that were checked, for example {example}"
        );
        if cut > checked / 10 {
            return Err(Error::usage(format!("{problem}: another split made them"))
                .with_help("name the split that made them"));
        }
        observer.noted(&format!("{problem}: check that it is the split that made them"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    use arrow::array::{
        BinaryArray, Decimal128Array, DictionaryArray, Float64Array, Int8Array, Int64Array, StringArray,
        StringViewArray, UInt32Array,
    };
    use arrow::datatypes::{Field, Int32Type};
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::base::int::ByteCount;
    use crate::observer::Silent;
    use crate::split::{NamedPattern, SplitPattern};

    fn write(path: &Path, columns: &[(&str, ArrayRef)]) {
        let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let columns = columns.iter().map(|(_, column)| Arc::clone(column)).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("equal lengths");
        let file = File::create(path).expect("a writable folder");
        let mut writer = ArrowWriter::try_new(file, schema, None).expect("a plain schema");
        writer.write(&batch).expect("room for a small file");
        writer.close().expect("as before");
    }

    fn info(split: &str) -> CountsInfo {
        CountsInfo { pattern: split.parse().expect("a name"), ..CountsInfo::default() }
    }

    fn limit(folder: &Path, bytes: u64) -> MemoryLimit {
        MemoryLimit { table_bytes: ByteCount(bytes), spill_folder: folder.join("runs") }
    }

    /// The sums of files, as the readers give them.
    fn sums(files: &[(PathBuf, u64)], split: &str, bytes: u64) -> Result<BTreeMap<Vec<u8>, u64>> {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let files = files.iter().map(|(path, weight)| (path.as_path(), *weight));
        let mut rows = ForeignRows::read(files, &info(split), &limit(folder.path(), bytes), &Silent)?;
        let mut sums = BTreeMap::new();
        for mut reader in rows.readers() {
            let mut last = Vec::new();
            while reader.advance()? {
                let (pretoken, count, _) = reader.current();
                assert!(*last <= *pretoken, "sorted");
                last = pretoken.to_vec();
                *sums.entry(last.clone()).or_default() += count.get();
            }
        }
        Ok(sums)
    }

    /// The sums of one file with these columns.
    fn sums_of(pretokens: ArrayRef, counts: ArrayRef) -> Result<BTreeMap<Vec<u8>, u64>> {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let path = folder.path().join("counts.parquet");
        write(
            &path,
            &[
                ("day", Arc::new(Int8Array::from(vec![3; counts.len()]))),
                (COUNT, counts),
                (PRETOKEN, pretokens),
            ],
        );
        sums(&[(path, 1)], "gpt2", u64::MAX)
    }

    #[test]
    fn all_types_of_texts_and_integers_are_read() {
        let expected: BTreeMap<Vec<u8>, u64> = [(b" cat".to_vec(), 2), (b"the".to_vec(), 8)].into();
        let texts = ["the", " cat", "the"];
        let pretokens: [ArrayRef; 4] = [
            Arc::new(StringArray::from_iter_values(texts)),
            Arc::new(StringViewArray::from_iter_values(texts)),
            Arc::new(BinaryArray::from_iter_values(texts)),
            Arc::new(texts.into_iter().collect::<DictionaryArray<Int32Type>>()),
        ];
        let decimal = |precision| Decimal128Array::from(vec![5, 2, 3]).with_precision_and_scale(precision, 0);
        let counts: [ArrayRef; 6] = [
            Arc::new(Int8Array::from(vec![5, 2, 3])),
            Arc::new(Int64Array::from(vec![5, 2, 3])),
            Arc::new(UInt32Array::from(vec![5, 2, 3])),
            Arc::new(UInt64Array::from(vec![5, 2, 3])),
            Arc::new(decimal(9).expect("a precision")),
            Arc::new(decimal(38).expect("a precision")),
        ];
        for pretokens in &pretokens {
            for counts in &counts {
                assert_eq!(sums_of(Arc::clone(pretokens), Arc::clone(counts)).expect("counts"), expected);
            }
        }
    }

    #[test]
    fn values_that_no_counts_have_are_named_with_their_rows() {
        let texts = |second| -> ArrayRef { Arc::new(StringArray::from(vec![Some("the"), second])) };
        let decimals = |second| -> ArrayRef {
            let decimals = Decimal128Array::from(vec![Some(i128::from(u64::MAX)), second]);
            Arc::new(decimals.with_precision_and_scale(38, 0).expect("a precision"))
        };
        let integers = |second| -> ArrayRef { Arc::new(Int64Array::from(vec![Some(1), second])) };
        let wide = i128::from(u64::MAX) + 1;
        for (pretokens, counts, said) in [
            (texts(None), integers(Some(1)), "row 1: the pre-token is null"),
            (texts(Some("")), integers(Some(1)), "row 1: the pre-token is empty"),
            (texts(Some(" cat")), integers(None), "row 1: the count of \" cat\" is null"),
            (texts(Some(" cat")), integers(Some(0)), "row 1: the count of \" cat\" is 0"),
            (texts(Some(" cat")), integers(Some(-3)), "row 1: the count of \" cat\" is -3"),
            (texts(Some(" cat")), decimals(Some(-3)), "row 1: the count of \" cat\" is -3"),
            (
                texts(Some(" cat")),
                decimals(Some(wide)),
                "row 1: the count of \" cat\" is 18446744073709551616",
            ),
            (texts(Some(" cat")), Arc::new(Float64Array::from(vec![1.0; 2])), "\"count\" is of type Float64"),
            (integers(Some(1)), integers(Some(1)), "\"pretoken\" is of type Int64"),
        ] {
            let error = sums_of(pretokens, counts).expect_err(said);
            assert!(error.to_string().contains(said), "{error}");
            assert!(error.help().is_some(), "{error}");
        }
        assert_eq!(sums_of(texts(Some(" cat")), decimals(Some(7))).expect("counts")[&b"the"[..]], u64::MAX);
    }

    #[test]
    fn a_missing_column_and_a_damaged_file_are_errors() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let path = folder.path().join("counts.parquet");
        write(
            &path,
            &[("word", Arc::new(StringArray::from(vec!["the"]))), ("n", Arc::new(Int64Array::from(vec![1])))],
        );
        let error = check_columns(&path).expect_err("other names");
        assert!(error.to_string().contains("no column \"pretoken\"; its columns are word, n"), "{error}");
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["the"; 1_000]));
        write(&path, &[(PRETOKEN, texts), (COUNT, Arc::new(Int64Array::from(vec![1; 1_000])))]);
        let whole = std::fs::read(&path).expect("a file");
        for end in (0..whole.len()).step_by(7) {
            std::fs::write(&path, &whole[..end]).expect("room for a small file");
            assert!(sums(&[(path.clone(), 1)], "gpt2", u64::MAX).is_err());
        }
    }

    #[test]
    fn weights_multiply_and_a_product_that_overflows_names_the_pretoken() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let path = folder.path().join("counts.parquet");
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["the"]));
        write(&path, &[(PRETOKEN, texts), (COUNT, Arc::new(UInt64Array::from(vec![1_u64 << 63])))]);
        let error = sums(&[(path.clone(), 2)], "gpt2", u64::MAX).expect_err("too many");
        assert!(error.to_string().contains("\"the\" does not fit in 64 bits"), "{error}");
        write(
            &path,
            &[
                (PRETOKEN, Arc::new(StringArray::from(vec!["the"]))),
                (COUNT, Arc::new(Int8Array::from(vec![4]))),
            ],
        );
        let files = [(path.clone(), 3), (path, 1)];
        assert_eq!(sums(&files, "gpt2", u64::MAX).expect("counts")[&b"the"[..]], 16);
    }

    #[test]
    fn rows_beyond_the_memory_are_sorted_on_disk() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let path = folder.path().join("counts.parquet");
        // Digits as letters, which no split cuts.
        let word = |n: u32| {
            let digits = (n.wrapping_mul(7_919) % 6_000).to_string();
            digits.bytes().map(|digit| char::from(digit - b'0' + b'a')).collect::<String>()
        };
        let texts: Vec<String> = (0..20_000).map(word).collect();
        let counts = Int64Array::from_iter_values((0..20_000).map(|n| n % 9 + 1));
        write(&path, &[(PRETOKEN, Arc::new(StringArray::from(texts))), (COUNT, Arc::new(counts))]);
        let all = sums(&[(path.clone(), 1)], "gpt2", u64::MAX).expect("counts");
        assert_eq!(all.len(), 6_000);
        for bytes in [1_000, 20_000, 300_000] {
            assert_eq!(sums(&[(path.clone(), 1)], "gpt2", bytes).expect("counts"), all, "{bytes}");
        }
    }

    struct Notes(Mutex<Vec<String>>);

    impl Observer for Notes {
        fn noted(&self, note: &str) {
            self.0.lock().expect("no test panics").push(note.to_owned());
        }
    }

    #[test]
    fn pretokens_of_another_split_are_an_error_or_a_note() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let path = folder.path().join("counts.parquet");
        let read = |cut: usize| {
            let texts = (0..100).map(|row| if row < cut { " 12345" } else { " cat" });
            let counts: ArrayRef = Arc::new(Int64Array::from(vec![1; 100]));
            write(&path, &[(PRETOKEN, Arc::new(StringArray::from_iter_values(texts))), (COUNT, counts)]);
            let notes = Notes(Mutex::default());
            let files = [(path.as_path(), 1)].into_iter();
            let read = ForeignRows::read(files, &info("gpt4"), &limit(folder.path(), u64::MAX), &notes);
            (read.map(drop), notes.0.into_inner().expect("no test panics"))
        };
        let (all, notes) = read(0);
        assert!(all.is_ok() && notes.is_empty());
        let (few, notes) = read(10);
        assert!(few.is_ok() && notes[0].contains("cuts 10 of the 100"), "{notes:?}");
        let error = read(11).0.expect_err("a tenth and more");
        assert!(error.to_string().contains("the split gpt4 cuts 11 of the 100"), "{error}");
    }

    #[test]
    fn every_split_keeps_its_own_pretokens_whole() {
        let text =
            "It's  DON'T\n\n  12345 x1 naïve Ünïcode, 東京タワー!!\r\n\tEnd…  \u{a0}it'LL 3.14 --- a_b-c \n";
        // What ends with a space, as pre-tokens with this split may, is cut before the space if nothing follows.
        let whole = |pattern: &NamedPattern| *pattern != NamedPattern::Superword;
        for pattern in NamedPattern::ALL.into_iter().filter(whole) {
            let splitter = splitter(&SplitPattern::Named(pattern)).expect("a named pattern");
            let mut ends = Vec::new();
            splitter.pretoken_ends(text.as_bytes(), &mut ends).expect("a short text");
            let mut check = SplitCheck::new(&*splitter, 0);
            let mut start = 0;
            for end in ends.into_iter().map(crate::base::int::to_usize) {
                check.look_at(&text.as_bytes()[start..end]).expect("a short text");
                start = end;
            }
            assert_eq!((check.cut, check.example.as_str()), (0, ""), "{pattern:?}");
        }
    }
}
