//! Tests of the order of documents that several threads read, and of the limits for reading ahead.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, RecordBatch, StringArray};

use super::*;

type Read = fn(usize) -> Documents<'static>;

/// A source with units that a function generates.
struct Scripted {
    units: Vec<Unit>,
    read: Read,
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

fn scripted(units: usize, read: Read) -> Arc<dyn Source> {
    let unit = |_| Unit { name: "made up".to_owned(), range: Range::Whole, rows: None, text_bytes: None };
    Arc::new(Scripted { units: (0..units).map(unit).collect(), read })
}

fn batch(unit: usize, row: u64, documents: &[&str]) -> Batch {
    let documents = arrow_array::BinaryViewArray::from_iter_values(documents);
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
    let failing: [(usize, Read); 3] = [
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
    let kinds: [Read; 2] = [|unit| documents(0, unit, with_text), |unit| documents(1, unit, with_column)];
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
fn parts_become_whole_documents() {
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
    for batch in whole_documents(in_order(vec![source], 2)) {
        let batch = batch.unwrap();
        assert!(!batch.open && !batch.continued && !batch.is_empty());
        assert_eq!(batch.first_row, row);
        row += crate::base::int::to_u64(batch.len());
        found.extend(batch.iter().map(|text| text.map(<[u8]>::to_vec)));
    }
    assert_eq!(found, expected);
}
