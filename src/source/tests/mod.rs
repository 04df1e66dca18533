//! What all tests of sources use, and tests of the order of documents that several threads read, of the generators, and
//! of errors of the system, which are not bad input.

mod columnar;
mod lines;

use std::collections::HashSet;
use std::fs;
use std::io::{self, Cursor, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ::arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use ::arrow::datatypes::Int64Type;

use super::*;
use crate::error::{ErrorKind, Result};
use crate::observer::Silent;

/// Batches and units of 16 bytes, so that texts span several of them.
const SMALL: ReadConfig = portions(16, 16);

const fn portions(batch_bytes: u64, range_bytes: u64) -> ReadConfig {
    ReadConfig { batch_bytes, range_bytes, window_bytes: DEFAULT_WINDOW_BYTES, readers: 1 }
}

fn spec(uri: &Path) -> SourceSpec {
    SourceSpec { uri: uri.display().to_string(), ..SourceSpec::default() }
}

/// Opens a source with these sizes.
fn opened(spec: &SourceSpec, config: ReadConfig) -> Result<Arc<dyn Source>> {
    open(spec, 0, &OpenContext { config, ..OpenContext::new(&Silent) })
}

/// Reads all units and checks that each batch describes itself correctly.
fn batches(source: &dyn Source) -> Result<Vec<Batch>> {
    let mut all = Vec::new();
    for unit in 0..source.units().len() {
        let (mut row, mut open) = (0, false);
        for batch in source.read(unit)? {
            let batch = batch?;
            assert!(!batch.is_empty());
            assert_eq!((batch.unit, batch.first_row, batch.continued), (unit, row, open));
            row += crate::base::int::to_u64(batch.len()) - u64::from(batch.open);
            open = batch.open;
            all.push(batch);
        }
        assert!(!open, "the last document of a unit ends");
        if let Some(rows) = source.units()[unit].rows {
            assert_eq!(row, rows, "{:?}", source.units()[unit]);
        }
    }
    Ok(all)
}

type Texts = Vec<Option<Vec<u8>>>;

/// All documents of some batches, with the parts of split documents joined.
fn documents(batches: impl IntoIterator<Item = Result<Batch>>) -> Result<Texts> {
    let mut texts: Texts = Vec::new();
    for batch in batches {
        let batch = batch?;
        for (at, text) in batch.iter().enumerate() {
            match (at == 0 && batch.continued, text) {
                (true, Some(part)) => {
                    texts.last_mut().expect("a first part").as_mut().expect("not null").extend(part);
                }
                (_, text) => texts.push(text.map(<[u8]>::to_vec)),
            }
        }
    }
    Ok(texts)
}

/// All documents of a source.
fn read(spec: &SourceSpec, config: ReadConfig) -> Result<Texts> {
    documents(batches(&*opened(spec, config)?)?.into_iter().map(Ok))
}

fn texts<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> Texts {
    texts.into_iter().map(|text| Some(text.as_ref().to_vec())).collect()
}

/// Writes a file, creating its folder, and returns its path.
fn written(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> std::path::PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder to write to");
    fs::write(&path, bytes).expect("a file to write to");
    path
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory to write to");
    encoder.finish().expect("memory to write to")
}

/// The kind of an error, and its message with the advice.
fn failure<T>(outcome: Result<T>) -> (ErrorKind, String) {
    let error = outcome.err().expect("an error");
    (error.kind(), format!("{error} ({})", error.help().unwrap_or_default()))
}

type ReadUnit = fn(usize) -> Documents<'static>;

/// A source with units that a function generates.
struct Scripted {
    units: Vec<Unit>,
    read: ReadUnit,
}

impl Source for Scripted {
    fn units(&self) -> &[Unit] {
        &self.units
    }

    fn identity(&self, _unit: usize) -> Result<Identity> {
        Ok(Identity::Generated)
    }

    fn read(&self, unit: usize) -> Result<Documents<'static>> {
        Ok((self.read)(unit))
    }
}

fn scripted(units: usize, read: ReadUnit) -> Arc<dyn Source> {
    let unit = |_| Unit { name: "made up".to_owned(), range: RowRange::Whole, rows: None, text_bytes: None };
    Arc::new(Scripted { units: (0..units).map(unit).collect(), read })
}

fn batch(unit: usize, row: u64, documents: &[&str]) -> Batch {
    let documents = ::arrow::array::BinaryViewArray::from_iter_values(documents);
    Batch { source: 0, unit, first_row: row, documents, columns: None, continued: false, open: false }
}

/// The order does not depend on the number of threads or on the speed of units.
#[test]
fn units_of_any_pace_come_in_order() {
    let source = || {
        scripted(60, |unit| {
            Box::new((0..5).map(move |row| {
                std::thread::sleep(Duration::from_micros(crate::base::int::to_u64(unit * 7_919 % 11) * 50));
                Ok(batch(unit, row, &["a"]))
            }))
        })
    };
    for threads in [0, 1, 2, 7, 100] {
        let taken: Vec<(usize, u64)> = in_order(vec![source(), source()], threads)
            .map(|batch| batch.map(|batch| (batch.unit, batch.first_row)).unwrap())
            .collect();
        let once = (0..60).flat_map(|unit| (0..5).map(move |row| (unit, row)));
        assert!(taken.into_iter().eq(once.clone().chain(once)), "{threads} threads");
    }
    assert!(in_order(vec![], 3).next().is_none());
    assert!(in_order(vec![scripted(0, |_| unreachable!())], 3).next().is_none());
}

/// An error or panic appears after the batches that precede it, and ends the stream.
#[test]
fn errors_and_panics_stand_at_their_place() {
    let failing: [(usize, ReadUnit); 3] = [
        (13, |unit| {
            Box::new((0..3).map(move |row| match (unit, row) {
                (4, 1) => Err(crate::Error::interrupted()),
                _ => Ok(batch(unit, row, &["a"])),
            }))
        }),
        (13, |unit| {
            Box::new((0..3).map(move |row| {
                assert!((unit, row) != (4, 1), "made to panic");
                Ok(batch(unit, row, &["a"]))
            }))
        }),
        (12, |unit| {
            assert!(unit != 4, "made to panic");
            Box::new((0..3).map(move |row| Ok(batch(unit, row, &["a"]))))
        }),
    ];
    for threads in [0, 3] {
        for (before, read) in failing {
            let mut stream = in_order(vec![scripted(50, read)], threads);
            assert_eq!(stream.by_ref().take_while(Result::is_ok).count(), before);
            assert!(stream.next().is_none(), "nothing follows an error");
        }
        for (_, read) in &failing[1..] {
            let error = in_order(vec![scripted(50, *read)], threads).find_map(Result::err).expect("an error");
            assert!(error.to_string().contains("made up"), "{error}");
        }
    }
}

/// Reading threads end soon after the stream is dropped.
#[test]
fn dropping_the_stream_ends_its_threads() {
    let source = scripted(1_000, |unit| Box::new((0..).map(move |row| Ok(batch(unit, row, &["some text"])))));
    let mut stream = in_order(vec![Arc::clone(&source)], 4);
    assert!(stream.next().is_some());
    drop(stream);
    let begin = Instant::now();
    while Arc::strong_count(&source) > 1 {
        assert!(begin.elapsed() < Duration::from_secs(20), "the threads go on");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reading ahead is limited by bytes, of text (batches of 1 MiB) and of pass-through columns alike.
#[test]
fn little_is_read_ahead_of_a_slow_consumer() {
    static READ: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
    static TAKEN: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];
    fn with_text(unit: usize, row: u64) -> Batch {
        batch(unit, row, &[&"x".repeat(1 << 20)])
    }
    fn with_column(unit: usize, row: u64) -> Batch {
        let column: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1 << 20)]));
        let columns = RecordBatch::try_from_iter([("note", column)]).expect("a column");
        Batch { columns: Some(columns), ..batch(unit, row, &["x"]) }
    }
    /// All units but the first wait until a batch was taken. If the first unit's reader were slower than the others,
    /// the consumer would have to wait, and more would be read ahead.
    fn documents(kind: usize, unit: usize, batch: fn(usize, u64) -> Batch) -> Documents<'static> {
        while unit > 0 && !TAKEN[kind].load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Box::new((0..100).map(move |row| {
            READ[kind].fetch_add(1, Ordering::Relaxed);
            Ok(batch(unit, row))
        }))
    }
    let kinds: [ReadUnit; 2] = [|unit| documents(0, unit, with_text), |unit| documents(1, unit, with_column)];
    for ((read, taken), kind) in READ.iter().zip(&TAKEN).zip(kinds) {
        let mut stream = in_order(vec![scripted(100, kind)], 2);
        assert!(stream.next().is_some());
        taken.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(200));
        let read = read.load(Ordering::Relaxed);
        assert!((2..8).contains(&read), "{read} batches of 1 MiB");
    }
}

/// If the consumer has to wait, the limit grows, so that the other unit is read further ahead.
#[test]
fn more_is_read_ahead_where_the_consumer_has_to_wait() {
    const ENOUGH: usize = 12;
    static AHEAD: AtomicUsize = AtomicUsize::new(0);
    let source = scripted(2, |unit| match unit {
        // Gives batches slowly, and ends once enough of the other unit was read ahead.
        0 => Box::new((0..10_000).map_while(|row| {
            std::thread::sleep(Duration::from_millis(1));
            (AHEAD.load(Ordering::Relaxed) < ENOUGH).then(|| Ok(batch(0, row, &["a"])))
        })),
        _ => Box::new((0..100).map(|row| {
            AHEAD.fetch_add(1, Ordering::Relaxed);
            Ok(batch(1, row, &["x".repeat(1 << 20).as_str()]))
        })),
    });
    let of_the_first =
        in_order(vec![source], 2).take_while(|batch| batch.as_ref().unwrap().unit == 0).count();
    assert!(of_the_first < 10_000, "{} batches of 1 MiB", AHEAD.load(Ordering::Relaxed));
}

/// Split documents are joined, whatever their lengths, and rows are numbered consecutively.
#[test]
fn parts_become_collected_documents() {
    let text = "ein langer Absatz ohne Ende, schön lang";
    let folder = folder();
    let path = written(folder.path(), "t.txt", format!("a\nb\n{text}\nc\n\n{text}{text}\nd"));
    let spec = SourceSpec { documents: DocumentRule::Line, ..spec(&path) };
    let config = ReadConfig { batch_bytes: 8, ..ReadConfig::default() };
    let source = opened(&spec, config).unwrap();
    let twice = text.repeat(2);
    let expected = texts(["a", "b", text, "c", &twice, "d"]);
    let mut row = 0;
    let mut found = Vec::new();
    for batch in collected_documents(in_order(vec![source], 2)) {
        let batch = batch.unwrap();
        assert!(!batch.open && !batch.continued && !batch.is_empty());
        assert_eq!(batch.first_row, row);
        row += crate::base::int::to_u64(batch.len());
        found.extend(batch.iter().map(|text| text.map(<[u8]>::to_vec)));
    }
    assert_eq!(found, expected);
}

fn demo(uri: &str) -> SourceSpec {
    SourceSpec { uri: uri.to_owned(), ..SourceSpec::default() }
}

fn lines(uri: &str, config: ReadConfig) -> Texts {
    read(&demo(uri), config).unwrap()
}

/// The generated text has the lengths, the punctuation and the growth of vocabulary of natural text.
#[test]
fn verse_looks_like_verse() {
    let lines = lines("demo:verse?lines=20_000&seed=1", ReadConfig::default());
    assert_eq!(lines.len(), 20_000);
    let lines: Vec<String> =
        lines.into_iter().flatten().map(|line| String::from_utf8(line).expect("UTF-8")).collect();
    assert!(lines.iter().all(|line| (20..=60).contains(&line.len())));
    assert!(lines.iter().all(|line| line.starts_with(|c: char| c.is_ascii_uppercase())));
    assert!(lines.iter().any(|line| line.contains('é')));
    assert!(lines.iter().any(|line| line.ends_with(';')));
    // Twice the text has 2^0.6 ≈ 1.5 times the distinct words.
    let words = |lines: &[String]| {
        let words = lines.iter().flat_map(|line| line.split(|c: char| !c.is_alphabetic()));
        crate::base::int::to_u64(words.map(str::to_lowercase).collect::<HashSet<_>>().len())
    };
    let growth = crate::base::int::ratio(words(&lines), words(&lines[..10_000]));
    assert!((1.35..1.65).contains(&growth), "{growth}");
}

/// Rows do not depend on batches and units, and differ between seeds.
#[test]
fn rows_depend_on_number_and_seed_alone() {
    let few = lines("demo:verse?lines=300000&seed=5", ReadConfig::default());
    let same = lines("demo:verse?seed=5&lines=270000", SMALL);
    assert_eq!(few[..270_000], same[..]);
    let other = lines("demo:verse?lines=1000&seed=6", ReadConfig::default());
    assert!(few.iter().zip(&other).all(|(a, b)| a != b));
    assert_eq!(opened(&demo("demo:verse?lines=300000"), SMALL).unwrap().units().len(), 2);
}

/// Pass-through columns belong to their lines.
#[test]
fn columns_follow_the_lines() {
    let columns = vec!["gutenberg_id".to_owned(), "line".to_owned()];
    let spec = SourceSpec { columns, ..demo("demo:verse?lines=9000") };
    let source = opened(&spec, ReadConfig::default()).unwrap();
    let mut books: HashSet<i64> = HashSet::new();
    for batch in batches(&*source).unwrap() {
        let columns = batch.columns.as_ref().expect("columns were asked for");
        assert_eq!(columns.schema(), source.columns().expect("columns were asked for"));
        books.extend(columns.column(0).as_primitive::<Int64Type>().values());
        assert!(
            columns.column(1).as_string_view().iter().map(|line| line.map(str::as_bytes)).eq(batch.iter())
        );
    }
    assert_eq!(books.len(), 3);
    let wrong = SourceSpec { column: Some("gutenberg_id".to_owned()), ..spec.clone() };
    assert!(failure(opened(&wrong, SMALL)).1.contains("not text"));
    let wrong = SourceSpec { column: Some("text".to_owned()), ..spec };
    assert!(failure(opened(&wrong, SMALL)).1.contains("line, gutenberg_id"));
}

/// `demo:words` gives exactly the requested number of distinct words.
#[test]
fn words_are_as_many_as_asked_for() {
    let words = |uri| {
        let lines = lines(uri, ReadConfig::default()).into_iter().flatten();
        let text = lines.collect::<Vec<_>>().join(&b' ');
        text.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect::<HashSet<_>>().len()
    };
    assert_eq!(words("demo:words?distinct=60000&seed=3"), 60_000);
    assert_eq!(words("demo:words?distinct=100&lines=1000"), 100);
}

/// Pages have new rare words wherever they are read, and ever more of them.
#[test]
fn pages_are_verse_with_new_rare_words() {
    let pages = lines("demo:pages?pages=1500&seed=2", ReadConfig::default());
    assert_eq!(pages, lines("demo:pages?pages=1500&seed=2", SMALL));
    let pages: Vec<String> =
        pages.into_iter().flatten().map(|page| String::from_utf8(page).expect("UTF-8")).collect();
    assert!(pages.iter().all(|page| page.lines().count() == 64));
    assert!(pages.iter().flat_map(|page| page.lines()).all(|line| line.starts_with(char::is_uppercase)));
    let words = |pages: &[String]| {
        let words = pages.iter().flat_map(|page| page.split(|c: char| !c.is_alphabetic()));
        crate::base::int::to_u64(words.map(str::to_lowercase).collect::<HashSet<_>>().len())
    };
    let growth = crate::base::int::ratio(words(&pages), words(&pages[..750]));
    assert!((1.35..1.65).contains(&growth), "{growth}");
}

/// The estimate of a unit's text is close to its actual size.
#[test]
fn the_estimate_of_a_unit_is_about_its_text() {
    for uri in ["demo:verse?lines=20_000", "demo:words?distinct=60_000", "demo:pages?pages=2_000"] {
        let source = opened(&demo(uri), ReadConfig::default()).expect("generated");
        let told: u64 = source.units().iter().filter_map(|unit| unit.text_bytes).sum();
        let bytes: usize = lines(uri, ReadConfig::default()).iter().flatten().map(Vec::len).sum();
        let share = crate::base::int::ratio(told, crate::base::int::to_u64(bytes));
        assert!((0.95..1.05).contains(&share), "{uri}: {told} for {bytes}");
    }
}

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
    let texts = self::documents(in_order(vec![source], 1));
    (texts, context.skipped_rows.count())
}

/// An error of the system ends the run even if bad input is skipped.
#[test]
fn what_the_system_fails_at_is_not_left_out() {
    use ::arrow::array::{ArrayRef, RecordBatch, StringArray};
    use ::arrow::ipc::writer::StreamWriter;

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
                let (read, skipped) = read_failing(*format, &bytes[..length], code);
                let (found, message) = failure(read);
                assert_eq!((found, skipped), (kind, 0), "{number}, {length} bytes, {code}: {message}");
            }
        }
    }
}

/// Data that is read as a whole and exceeds the limit is rejected before memory is allocated, and is not skipped.
#[test]
fn what_is_read_as_a_whole_keeps_within_the_limit() {
    use ::arrow::array::{ArrayRef, RecordBatch, StringArray};
    use ::arrow::ipc::CompressionType;
    use ::arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};

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
    columnar::parquet_file(folder.path().join("a.parquet"), &table, properties.build());
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
