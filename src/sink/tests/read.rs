use std::fs::{self, File};

use arrow_array::builder::{
    ArrayBuilder, GenericListBuilder, Int32Builder, Int64Builder, PrimitiveBuilder, StringBuilder,
    UInt16Builder, UInt32Builder,
};
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{ArrayRef, OffsetSizeTrait};
use parquet::arrow::ArrowWriter;

use super::*;
use crate::error::ErrorKind;

fn foreign(path: &Path, name: &str, column: ArrayRef) {
    let batch = RecordBatch::try_from_iter_with_nullable([(name, column, true)]).expect("a batch");
    let mut writer =
        ArrowWriter::try_new(File::create(path).expect("a file"), batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("rows");
    writer.close().expect("a file");
}

fn lists<O: OffsetSizeTrait, T: ArrowPrimitiveType>(items: PrimitiveBuilder<T>, one: T::Native) -> ArrayRef
where
    PrimitiveBuilder<T>: ArrayBuilder,
{
    let mut lists = GenericListBuilder::<O, _>::new(items);
    lists.values().append_value(one);
    lists.append(true);
    lists.append(false);
    lists.append(true);
    lists.values().append_slice(&[one, one]);
    lists.append(true);
    Arc::new(lists.finish())
}

#[test]
fn lists_of_other_programs_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.parquet");
    let expected: [Row; 4] = [Some(vec![60_000]), None, Some(vec![]), Some(vec![60_000, 60_000])];
    for column in [
        lists::<i32, _>(Int32Builder::new(), 60_000),
        lists::<i64, _>(Int32Builder::new(), 60_000),
        lists::<i64, _>(Int64Builder::new(), 60_000),
        lists::<i32, _>(UInt16Builder::new(), 60_000),
        lists::<i32, _>(UInt32Builder::new(), 60_000),
    ] {
        let of = column.data_type().clone();
        foreign(&path, "input_ids", column);
        assert_eq!(read_rows(&path), expected, "{of}");
        assert!(TokenReader::open(&path).expect("a file").declaration().is_none());
    }
}

#[test]
fn what_holds_no_tokens_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.parquet");
    let error = |kind: ErrorKind, says: &str| {
        let error = TokenReader::open(&path).map(|_| ()).expect_err(says);
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(says) && error.to_string().contains("x.parquet"), "{error}");
    };
    error(ErrorKind::Failed, "read");
    fs::write(&path, "This is text, not Parquet.").expect("a file");
    error(ErrorKind::Failed, "Parquet");
    foreign(&path, "text", lists::<i32, _>(Int32Builder::new(), 1));
    error(ErrorKind::Usage, "it has text");
    let mut words = StringBuilder::new();
    words.append_value("a");
    foreign(&path, "input_ids", Arc::new(words.finish()));
    error(ErrorKind::Usage, "Utf8");
    let empty = TokenReader::open(folder.path()).map(|_| ()).expect_err("no data folder");
    assert!(empty.to_string().contains("no files of token ids"), "{empty}");
}

#[test]
fn values_that_are_no_ids_are_told_with_their_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.parquet");
    let first = || TokenReader::open(&path).expect("a file").next().expect("a batch").map(|_| ());
    foreign(&path, "input_ids", lists::<i32, _>(Int32Builder::new(), -7));
    assert!(first().expect_err("negative").to_string().ends_with("row 0 holds -7, which is not a token id"));
    let mut with_null = GenericListBuilder::<i32, _>::new(Int32Builder::new());
    for item in [Some(1), Some(2), None] {
        with_null.values().append_option(item);
        with_null.append(true);
    }
    foreign(&path, "input_ids", Arc::new(with_null.finish()));
    assert!(first().expect_err("a null").to_string().ends_with("row 2 holds a null among its ids"));
}

#[test]
fn damaged_files_are_errors_or_rows() {
    let (bytes, _) = write([batch(&some_rows(300))], None, Compression::Default, 1);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.parquet");
    let read = |bytes: &[u8]| -> crate::error::Result<()> {
        fs::write(&path, bytes).expect("a file");
        TokenReader::open(&path)?.try_for_each(|batch| batch.map(|_| ()))
    };
    for length in (0..bytes.len()).step_by(97) {
        read(&bytes[..length]).expect_err("cut short");
    }
    let mut failures = 0;
    for place in (0..bytes.len()).step_by(31) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x55;
        failures += u32::from(read(&damaged).is_err());
    }
    assert!(failures > 20, "{failures}");
}

#[test]
fn declared_tokens_are_read() {
    let bos = Some(crate::sink::DeclaredToken { id: TokenId::new(3), text: "<s>".to_owned() });
    let declaration = Declaration { bos, tokenizer: "abc".to_owned(), ..Declaration::default() };
    let shape = FileSpec::new(output_schema(&[]).expect("legal"), Compression::Default, &declaration);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.parquet");
    let file = File::create(&path).expect("a file");
    let writer =
        ShardWriter::new(file, &path, &shape.expect("legal"), &RowGroupEncoders::start(1).expect("threads"))
            .expect("a writer");
    writer.finish().expect("a file");
    assert_eq!(TokenReader::open(&path).expect("a file").declaration(), Some(&declaration));
}
