//! Tests of damaged, truncated and hostile Parquet and Arrow data: it gives errors, is skipped if requested, and
//! never causes a panic or an allocation of the size that it declares.

use ::parquet::basic::Compression;
use ::parquet::file::properties::WriterProperties;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use proptest::prelude::*;

use super::columnar::parquet_file;
use super::*;

fn table() -> RecordBatch {
    let rows = (0..300).map(|row| format!("row {row} {}", "of some text ".repeat(row % 7)));
    let array: ArrayRef = Arc::new(StringArray::from_iter_values(rows));
    RecordBatch::try_from_iter([("text", array)]).expect("one column")
}

/// A Parquet file with three row groups of several pages each.
fn parquet_bytes(compression: Compression) -> Vec<u8> {
    let folder = folder();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(100))
        .set_compression(compression)
        .set_data_page_row_count_limit(30)
        .set_write_batch_size(10)
        .build();
    fs::read(parquet_file(folder.path().join("t.parquet"), &table(), properties)).expect("just written")
}

/// A truncated Parquet file is an error that names the file, wherever it ends.
#[test]
fn a_cut_file_is_an_error_at_every_length() {
    let bytes = parquet_bytes(Compression::SNAPPY);
    let folder = folder();
    let step = (bytes.len() / 200).max(1);
    for length in (0..bytes.len()).step_by(step).chain(bytes.len() - 20..bytes.len()) {
        let path = written(folder.path(), "cut.parquet", &bytes[..length]);
        let (kind, message) = failure(read(&spec(&path), ReadConfig::default()));
        assert_eq!(kind, ErrorKind::Failed, "{length} bytes");
        assert!(message.contains("cut.parquet"), "{message}");
    }
}

/// Truncated Arrow data is an error wherever it ends, except for a stream that ends between two messages, because the
/// marker at the end is optional.
#[test]
fn cut_arrow_data_is_an_error_at_every_length_but_between_messages() {
    use arrow_ipc::writer::{FileWriter, StreamWriter};

    let table = table();
    let mut file = FileWriter::try_new(Vec::new(), &table.schema()).unwrap();
    let mut stream = StreamWriter::try_new(Vec::new(), &table.schema()).unwrap();
    let mut ends = vec![(stream.get_ref().len(), 0)];
    for at in [0, 100, 200] {
        file.write(&table.slice(at, 100)).unwrap();
        stream.write(&table.slice(at, 100)).unwrap();
        ends.push((stream.get_ref().len(), at + 100));
    }
    let folder = folder();
    let (file, stream) = (file.into_inner().unwrap(), stream.into_inner().unwrap());
    for (bytes, ends) in [(file, Vec::new()), (stream, ends)] {
        let near = ends.iter().flat_map(|(end, _)| end - 9..end + 9).chain(bytes.len() - 20..bytes.len());
        let lengths = (0..bytes.len()).step_by((bytes.len() / 200).max(1)).chain(near);
        for length in lengths.filter(|length| *length < bytes.len()) {
            let path = written(folder.path(), "cut.arrow", &bytes[..length]);
            let outcome = read(&spec(&path), ReadConfig::default());
            if let Some((_, rows)) = ends.iter().find(|(end, _)| *end == length) {
                assert_eq!(outcome.unwrap().len(), *rows, "{length} bytes");
                continue;
            }
            assert!(outcome.is_err(), "{length} bytes are read as if they were all");
            let (kind, message) = failure(outcome);
            assert_eq!(kind, ErrorKind::Failed, "{length} bytes");
            assert!(message.contains("cut.arrow"), "{message}");
        }
    }
}

/// Arrow data in big-endian byte order is rejected with the reason.
#[test]
fn arrow_data_in_the_other_byte_order_is_told() {
    use arrow_ipc::convert::IpcSchemaEncoder;
    use arrow_ipc::{Endianness, FooterBuilder, MessageBuilder, MessageHeader, SchemaBuilder};

    let folder = folder();
    for in_file in [false, true] {
        let mut made = IpcSchemaEncoder::new().schema_to_fb(&table().schema());
        made.reset();
        let mut schema = SchemaBuilder::new(&mut made);
        schema.add_endianness(Endianness::Big);
        let schema = schema.finish();
        if in_file {
            let mut footer = FooterBuilder::new(&mut made);
            footer.add_schema(schema);
            let footer = footer.finish();
            made.finish(footer, None);
        } else {
            let mut message = MessageBuilder::new(&mut made);
            message.add_header_type(MessageHeader::Schema);
            message.add_header(schema.as_union_value());
            let message = message.finish();
            made.finish(message, None);
        }
        let head = made.finished_data();
        let length = u32::try_from(head.len()).unwrap().to_le_bytes();
        let bytes = match in_file {
            true => [b"ARROW1\0\0", head, &length, b"ARROW1"].concat(),
            false => [&[0xFF; 4], length.as_slice(), head].concat(),
        };
        let path = written(folder.path(), "other.arrow", bytes);
        let refused = opened(&spec(&path), ReadConfig::default()).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Failed);
        let told = format!("{refused:?}");
        assert!(told.contains("its byte order is not that of this machine"), "{told}");
    }
}

/// Feather V1 is rejected with the way to convert it.
#[test]
fn feather_of_the_first_version_is_told() {
    let folder = folder();
    let path = written(folder.path(), "old.feather", b"FEA1\0\0\0\0 some columns FEA1");
    let spec = SourceSpec { on_bad_input: OnBadInput::Quarantine, ..spec(&path) };
    let context = OpenContext::new(&Silent);
    assert!(open(&spec, 0, &context).unwrap().units().is_empty());
    let problem = context.incidents.first().expect("a file that is left out");
    for said in ["old.feather", "Feather V1", "version=2"] {
        assert!(problem.contains(said), "{problem}");
    }
}

/// Text with the name of a Parquet file is recognized as text; other data is not.
#[test]
fn a_text_named_parquet_is_told_to_look_like_text() {
    let folder = folder();
    let path = written(folder.path(), "page.parquet", "Only some lines of text, schön.\n");
    let (kind, message) = failure(opened(&spec(&path), SMALL));
    assert_eq!(kind, ErrorKind::Failed);
    assert!(message.contains("page.parquet") && message.contains("looks like text"), "{message}");
    let path = written(folder.path(), "noise.parquet", b"\x00\x01\x02\xFF\xFE".repeat(9));
    assert!(!failure(opened(&spec(&path), SMALL)).1.contains("looks like text"));
}

proptest! {
    /// Flipped bits never cause a panic. The text is not compared: some flips hit it, and then it is different text.
    #[test]
    fn flipped_bytes_never_panic(
        at in any::<prop::sample::Index>(),
        tail in any::<bool>(),
        flip in 1_u8..,
        snappy in any::<bool>(),
    ) {
        let codec = if snappy { Compression::SNAPPY } else { Compression::UNCOMPRESSED };
        let mut bytes = parquet_bytes(codec);
        let from = if tail { bytes.len().saturating_sub(400) } else { 0 };
        let at = from + at.index(bytes.len() - from);
        bytes[at] ^= flip;
        let folder = folder();
        let path = written(folder.path(), "flipped.parquet", bytes);
        let strict = read_loosely(&spec(&path));
        let skipping = read_loosely(&SourceSpec { on_bad_input: OnBadInput::Skip, ..spec(&path) });
        if let Ok(rows) = strict {
            prop_assert_eq!(rows, 300);
        }
        prop_assert!(skipping.is_ok() || skipping.is_err_and(|error| error.kind() == ErrorKind::Usage));
    }

    /// Flipped bits in Arrow data never cause a panic.
    #[test]
    fn flipped_arrow_bytes_never_panic(at in any::<prop::sample::Index>(), flip in 1_u8..) {
        let mut writer = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &table().schema()).unwrap();
        writer.write(&table()).unwrap();
        let mut bytes = writer.into_inner().unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let folder = folder();
        let path = written(folder.path(), "flipped.arrow", bytes);
        let _ = read_loosely(&spec(&path));
    }
}

/// Tables without text that take almost no space in a file, each with the name of its text column. A second column
/// can be passed through.
fn many_nulls() -> [(RecordBatch, &'static str); 3] {
    use arrow_array::types::Int8Type;
    use arrow_array::{DictionaryArray, Int8Array, NullArray, StructArray};
    use arrow_schema::{DataType, Field};

    let nulls = |rows| -> ArrayRef { Arc::new(NullArray::new(rows)) };
    let table = |text: ArrayRef| {
        let id = nulls(text.len());
        RecordBatch::try_from_iter_with_nullable([("text", text, true), ("id", id, true)]).unwrap()
    };
    let field = Field::new("in", DataType::Null, true);
    let nested = StructArray::new(vec![field].into(), vec![nulls(3 << 16)], None);
    let shared = DictionaryArray::<Int8Type>::new(Int8Array::from(vec![0, 1, 2]), nulls(1 << 33));
    [(table(nulls(1 << 33)), "text"), (table(Arc::new(nested)), "text.in"), (table(Arc::new(shared)), "text")]
}

/// The table in both Arrow formats.
fn as_file_and_stream(table: &RecordBatch) -> [Vec<u8>; 2] {
    use arrow_ipc::writer::{FileWriter, StreamWriter};

    let mut file = FileWriter::try_new(Vec::new(), &table.schema()).unwrap();
    let mut stream = StreamWriter::try_new(Vec::new(), &table.schema()).unwrap();
    file.write(table).unwrap();
    stream.write(table).unwrap();
    [file.into_inner().unwrap(), stream.into_inner().unwrap()]
}

/// Sizes that Arrow data declares are not trusted: memory for the declared decompressed sizes, or for as many
/// documents as untyped nulls can declare, could not be allocated.
#[test]
fn sizes_that_arrow_data_declares_are_not_believed() {
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};

    let folder = folder();
    for (nulls, column) in many_nulls() {
        for bytes in as_file_and_stream(&nulls) {
            let path = written(folder.path(), "nulls.arrow", &bytes);
            let (column, columns) = (Some(column.to_owned()), vec!["id".to_owned()]);
            let source =
                opened(&SourceSpec { column, columns, ..spec(&path) }, ReadConfig::default()).unwrap();
            let mut rows = 0;
            for batch in source.read(0).unwrap().take(3).map(Result::unwrap) {
                assert_eq!(batch.first_row, rows);
                assert!((1..=1 << 16).contains(&batch.len()) && batch.documents.null_count() == batch.len());
                assert_eq!(batch.columns.as_ref().unwrap().num_rows(), batch.len());
                rows += crate::base::int::to_u64(batch.len());
            }
            assert_eq!(rows, crate::base::int::to_u64(nulls.num_rows()).min(3 << 16));
        }
    }
    let table = table();
    let length = table.column(0).to_data().buffers()[1].len();
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let options = || IpcWriteOptions::default().try_with_compression(Some(codec)).unwrap();
        let mut file = FileWriter::try_new_with_options(Vec::new(), &table.schema(), options()).unwrap();
        let mut stream = StreamWriter::try_new_with_options(Vec::new(), &table.schema(), options()).unwrap();
        file.write(&table).unwrap();
        stream.write(&table).unwrap();
        for bytes in [file.into_inner().unwrap(), stream.into_inner().unwrap()] {
            let path = written(folder.path(), "whole.arrow", &bytes);
            assert_eq!(read(&spec(&path), ReadConfig::default()).unwrap().len(), 300);
            let declared = crate::base::int::to_u64(length).to_le_bytes();
            let at = bytes.windows(8).position(|word| word == declared).expect("the size of the text");
            for size in [1_u64 << 60, i64::MAX.cast_unsigned()] {
                let mut lying = bytes.clone();
                lying[at..at + 8].copy_from_slice(&size.to_le_bytes());
                let path = written(folder.path(), "lying.arrow", lying);
                let (kind, message) = failure(read(&spec(&path), ReadConfig::default()));
                assert_eq!(kind, ErrorKind::Failed);
                assert!(message.contains("lying.arrow: record batch 0"), "{message}");
            }
        }
    }
}

/// Reads all units and counts the rows, without checks of the batches.
fn read_loosely(spec: &SourceSpec) -> Result<usize> {
    let source = opened(spec, ReadConfig::default())?;
    let mut rows = 0;
    for unit in 0..source.units().len() {
        for batch in source.read(unit)? {
            rows += batch?.len();
        }
    }
    Ok(rows)
}

/// Damaged files and row groups are skipped, counted with all their rows, and listed in order.
#[test]
fn bad_files_and_row_groups_are_left_out_and_listed() {
    let mut bytes = parquet_bytes(Compression::UNCOMPRESSED);
    // Overwrites pages of the second row group. The first precedes and the third follows them.
    let (from, to) = (bytes.len() / 3 + 200, bytes.len() / 3 + 600);
    bytes[from..to].fill(0xEE);
    let folder = folder();
    written(folder.path(), "a.parquet", &bytes);
    written(folder.path(), "b.parquet", b"PAR1 and nothing more");
    written(folder.path(), "c.parquet", parquet_bytes(Compression::UNCOMPRESSED));
    for on_bad_input in [OnBadInput::Skip, OnBadInput::Quarantine] {
        let context = OpenContext::new(&Silent);
        let spec = SourceSpec { on_bad_input, ..spec(folder.path()) };
        let source = open(&spec, 0, &context).unwrap();
        let rows: usize = in_order(vec![source], 2).map(|batch| batch.unwrap().len()).sum();
        assert!((500..600).contains(&rows), "{rows} rows");
        // One file, plus the rows of the row group that were not given out before the damage was found.
        assert_eq!(context.incidents.count(), 1 + 600 - crate::base::int::to_u64(rows));
        assert!(context.incidents.first().is_some_and(|first| first.contains("b.parquet")));
        let listed = context.incidents.listed();
        if on_bad_input == OnBadInput::Skip {
            assert!(listed.is_empty());
        } else {
            assert!(listed[0].problem.contains("b.parquet"), "{listed:?}");
            assert!(listed[1].problem.contains("a.parquet: row group 1"), "{listed:?}");
            assert!(listed[1].problem.ends_with(&format!("; {} rows are lost", 600 - rows)), "{listed:?}");
        }
    }
    let (kind, message) = failure(read(&spec(&folder.path().join("a.parquet")), ReadConfig::default()));
    assert_eq!(kind, ErrorKind::Failed);
    assert!(message.contains("row group 1"), "{message}");
}

/// A file's footer lists the positions of record batches, so reading continues after a damaged one. A stream does
/// not.
#[test]
fn of_an_arrow_file_a_damaged_record_batch_alone_is_left_out() {
    use arrow_ipc::writer::{FileWriter, StreamWriter};

    let (folder, table) = (folder(), table());
    let mut file = FileWriter::try_new(Vec::new(), &table.schema()).unwrap();
    let mut stream = StreamWriter::try_new(Vec::new(), &table.schema()).unwrap();
    for part in [0, 100, 200].map(|from| table.slice(from, 100)) {
        file.write(&part).unwrap();
        stream.write(&part).unwrap();
    }
    for (mut bytes, rows, lost) in
        [(file.into_inner().unwrap(), 200, 100), (stream.into_inner().unwrap(), 100, 1)]
    {
        let at = bytes.windows(8).position(|word| word == b"row 100 ").expect("a row of the second batch");
        // Overwrites the offsets of its texts.
        bytes[at - 400..at].fill(0xFF);
        let path = written(folder.path(), "a.arrow", &bytes);
        let context = OpenContext::new(&Silent);
        let spec = SourceSpec { on_bad_input: OnBadInput::Quarantine, ..spec(&path) };
        let source = open(&spec, 0, &context).unwrap();
        let batches: Vec<Batch> = in_order(vec![source], 1).collect::<Result<_>>().unwrap();
        assert_eq!(batches.iter().map(Batch::len).sum::<usize>(), rows);
        assert_eq!(context.incidents.count(), lost);
        assert!(context.incidents.listed()[0].problem.contains("a.arrow: record batch 1"));
        assert_eq!(batches.last().map(|last| last.first_row), Some(if rows == 200 { 200 } else { 0 }));
    }
}

/// Text before the damage in a compressed file is read; the rest is skipped and counted once.
#[test]
fn damaged_compression_keeps_what_came_before() {
    let text: String = (0..20_000).map(|line| format!("line {}\n", line * 7_919 % 10_007)).collect();
    let rows: String =
        (0..20_000).map(|line| format!("{{\"text\":\"{}\"}}\n", line * 7_919 % 10_007)).collect();
    let folder = folder();
    for (name, content) in [("t.txt.gz", &text), ("t.jsonl.gz", &rows)] {
        let whole = gzip(content.as_bytes());
        let path = written(folder.path(), name, &whole[..whole.len() / 2]);
        for documents in [DocumentRule::Line, DocumentRule::File] {
            let strict = SourceSpec { documents: documents.clone(), ..spec(&path) };
            let (kind, message) = failure(read(&strict, SMALL));
            assert_eq!(kind, ErrorKind::Failed);
            assert!(message.contains(name), "{message}");

            let context = OpenContext { config: SMALL, ..OpenContext::new(&Silent) };
            let skipping = SourceSpec { on_bad_input: OnBadInput::Skip, ..strict };
            let source = open(&skipping, 0, &context).unwrap();
            let unit = in_order(vec![source], 1).collect::<Result<Vec<Batch>>>().unwrap();
            assert!(unit.iter().map(Batch::len).sum::<usize>() > 1_000);
            assert!(!unit.last().expect("some batches").open);
            assert_eq!(context.incidents.count(), 1);
        }
    }
}

/// Rows that are skipped while reading ahead count only when the consumer takes the next batch or reaches the end.
#[test]
fn what_is_read_ahead_and_not_taken_is_not_left_out() {
    let folder = folder();
    written(folder.path(), "a.jsonl", "{\"text\": \"good\"}\n".repeat(10));
    written(folder.path(), "b.jsonl", "bad\n".repeat(100));
    for threads in [0, 1, 4] {
        let context = OpenContext::new(&Silent);
        let spec = SourceSpec { on_bad_input: OnBadInput::Skip, ..spec(folder.path()) };
        let source = open(&spec, 0, &context).unwrap();
        let mut documents = in_order(vec![Arc::clone(&source)], threads);
        assert_eq!(documents.next().expect("a batch").unwrap().len(), 10);
        while threads > 0 && source.left_out(1) < 100 {
            std::thread::yield_now();
        }
        assert_eq!(context.incidents.count(), 0, "{threads} threads");
        assert!(documents.next().is_none());
        assert_eq!(context.incidents.count(), 100);
        drop(documents);
        // An unfinished reading does not count if another one was started after it.
        let mut earlier = source.read(1).unwrap();
        let later = in_order(vec![source], 1).count();
        assert!(earlier.next().is_none());
        assert_eq!((later, context.incidents.count()), (1, 100));
    }
}

/// Reads a file that pyarrow 26 wrote, with the columns id, text and body. The column text is encrypted, the footer
/// is not.
#[test]
fn encrypted_columns_are_told_and_others_are_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/encrypted_column.parquet");
    let (kind, message) = failure(opened(&spec(&path), ReadConfig::default()));
    assert_eq!(kind, ErrorKind::Failed);
    for part in ["encrypted_column.parquet", "column \"text\"", "is encrypted", "decrypt it first"] {
        assert!(message.contains(part), "{message}");
    }
    let body = SourceSpec { column: Some("body".to_owned()), ..spec(&path) };
    assert_eq!(read(&body, ReadConfig::default()).unwrap(), texts(["x", "y", "z"]));
    let passing = SourceSpec { columns: vec!["text".to_owned()], ..body };
    assert!(failure(opened(&passing, ReadConfig::default())).1.contains("column \"text\""));
}

/// The footer of the last file counts from that file's beginning, so positions in it would be taken from the first
/// file.
#[test]
fn parquet_files_laid_end_to_end_are_refused() {
    let folder = folder();
    let file = |rows: std::ops::Range<usize>, bloom| {
        let table = table().slice(rows.start, rows.len());
        let properties = WriterProperties::builder().set_bloom_filter_enabled(bloom).build();
        fs::read(parquet_file(folder.path().join("t.parquet"), &table, properties)).expect("just written")
    };
    let (one, two, bloom) = (file(0..100, false), file(100..300, false), file(0..100, true));
    for parts in [[&one, &one], [&one, &two], [&two, &one], [&bloom, &bloom], [&one, &bloom]] {
        let path = written(folder.path(), "both.parquet", parts.map(|part| &part[..]).concat());
        let error = opened(&spec(&path), ReadConfig::default()).err().expect("two files");
        assert!(format!("{error:?}").contains("several files joined into one"), "{error:?}");
    }
    for whole in [&one, &two, &bloom] {
        let path = written(folder.path(), "one.parquet", whole);
        assert!(read(&spec(&path), ReadConfig::default()).is_ok());
    }
}
