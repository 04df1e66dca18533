//! Tests of errors of the system, which are not bad input.

use std::io::{self, Cursor, Read};
use std::sync::Mutex;

use super::*;

/// Gives its bytes and then an error of the system with this code.
struct Failing(Cursor<Vec<u8>>, i32);

impl Read for Failing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            0 => Err(io::Error::from_raw_os_error(self.1)),
            read => Ok(read),
        }
    }
}

/// Reads a stream that ends with an error of this code. Bad input is skipped. Returns the texts and the number of
/// skipped rows.
fn read_failing(format: Format, bytes: &[u8], code: i32) -> (Result<Texts>, u64) {
    let failing = Box::new(Failing(Cursor::new(bytes.to_vec()), code));
    let context = OpenContext { stdin: Mutex::new(Some(failing)), ..OpenContext::new(&Silent) };
    let (documents, on_bad_input) = (DocumentRule::Line, OnBadInput::Skip);
    let spec = SourceSpec {
        uri: "-".to_owned(),
        format: Some(format),
        documents,
        on_bad_input,
        ..SourceSpec::default()
    };
    let source = open(&spec, 0, &context).expect("a stream");
    let texts = super::documents(in_order(vec![source], 1));
    (texts, context.incidents.count())
}

/// An error of the system ends the run even if bad input is skipped.
#[test]
fn what_the_system_fails_at_is_not_left_out() {
    use arrow_array::{ArrayRef, RecordBatch, StringArray};
    use arrow_ipc::writer::StreamWriter;

    let rows: ArrayRef = Arc::new(StringArray::from_iter_values((0..2_000).map(|row| format!("row {row}"))));
    let table = RecordBatch::try_from_iter([("text", rows)]).expect("one column");
    let mut stream = StreamWriter::try_new(Vec::new(), &table.schema()).expect("memory");
    stream.write(&table).expect("memory");
    let arrow = stream.get_ref().clone();
    let text = (0..2_000).map(|row| format!("row {row}\n")).collect::<String>().into_bytes();
    let jsonl: Vec<u8> =
        (0..2_000).flat_map(|row| format!("{{\"text\": \"row {row}\"}}\n").into_bytes()).collect();
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).expect("memory");
    let cases = [
        (Format::Arrow, arrow),
        (Format::Text, text.clone()),
        (Format::Text, gzip(&text)),
        (Format::Text, zstd(&text)),
        (Format::Jsonl, jsonl.clone()),
        (Format::Jsonl, gzip(&jsonl)),
        (Format::Jsonl, zstd(&jsonl)),
    ];
    // EIO, ENFILE and EMFILE are errors of the system; ENOMEM is one of memory.
    for (code, kind) in
        [(5, ErrorKind::System), (23, ErrorKind::System), (24, ErrorKind::System), (12, ErrorKind::Memory)]
    {
        for (number, (format, bytes)) in cases.iter().enumerate() {
            for length in [bytes.len() / 2, 2] {
                let (read, left_out) = read_failing(*format, &bytes[..length], code);
                let (found, message) = failure(read);
                assert_eq!((found, left_out), (kind, 0), "{number}, {length} bytes, {code}: {message}");
            }
        }
    }
}

/// Data that is read as a whole and exceeds the limit is rejected before memory is allocated, and is not skipped.
#[test]
fn what_is_read_as_a_whole_keeps_within_the_limit() {
    use arrow_array::{ArrayRef, RecordBatch, StringArray};
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};

    let rows: ArrayRef = Arc::new(StringArray::from_iter_values(["short".to_owned(), "0".repeat(9_000_000)]));
    let table = RecordBatch::try_from_iter([("text", rows)]).expect("one column");
    let folder = folder();
    let packed = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).expect("zstd");
    for compressed in [false, true] {
        let options = if compressed { packed.clone() } else { IpcWriteOptions::default() };
        let mut file = FileWriter::try_new_with_options(Vec::new(), &table.schema(), options.clone());
        let file = file.as_mut().expect("memory");
        file.write(&table).expect("memory");
        file.finish().expect("memory");
        written(folder.path(), &format!("{compressed}.arrow"), file.get_ref());
        let mut stream = StreamWriter::try_new_with_options(Vec::new(), &table.schema(), options);
        let stream = stream.as_mut().expect("memory");
        stream.write(&table).expect("memory");
        stream.finish().expect("memory");
        written(folder.path(), &format!("{compressed}.arrows"), stream.get_ref());
    }
    let properties = ::parquet::file::properties::WriterProperties::builder()
        .set_compression(::parquet::basic::Compression::SNAPPY)
        .set_dictionary_enabled(false);
    super::columnar::parquet_file(folder.path().join("a.parquet"), &table, properties.build());
    let lines = format!("{{\"text\": \"short\"}}\n{{\"text\": \"{}\"}}\n", "0".repeat(9_000_000));
    written(folder.path(), "a.jsonl", &lines);
    written(folder.path(), "a.jsonl.gz", gzip(lines.as_bytes()));
    let names =
        ["a.parquet", "a.jsonl", "a.jsonl.gz", "false.arrow", "true.arrow", "false.arrows", "true.arrows"];
    for (name, on_bad_input) in
        names.iter().flat_map(|name| [OnBadInput::Fail, OnBadInput::Skip].map(|policy| (name, policy)))
    {
        let limited = |most| {
            let longest_read = Some(crate::base::int::ByteCount(most));
            let spec = SourceSpec { on_bad_input, longest_read, ..spec(&folder.path().join(name)) };
            opened(&spec, ReadConfig::default()).and_then(|source| documents(in_order(vec![source], 1)))
        };
        assert_eq!(limited(12_000_000).expect("room").len(), 2, "{name}");
        let (kind, message) = failure(limited(6_000_000));
        assert_eq!(kind, ErrorKind::Memory, "{name}: {message}");
        assert!(message.contains(name) && message.contains("--memory"), "{message}");
    }
}
