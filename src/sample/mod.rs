//! Selects the documents of a run: every n-th, shuffled, skipped, taken, up to a number of bytes.
//!
//! Takes a stream of documents and gives a stream of the selected ones. The selection is the same for any number of
//! threads. This stage knows nothing of the purpose of the documents. It also turns the weights of a mixture into the
//! whole numbers by which counts are multiplied.
//!
//! ```
//! use tokenmill::sample::{SampleConfig, sample};
//! use tokenmill::source;
//!
//! let config = SampleConfig { skip: 1, take: Some(2), ..SampleConfig::default() };
//! let batches = sample(source::texts(["a", "b", "c", "d"]), &config).collect::<Result<Vec<_>, _>>()?;
//! let texts: Vec<&[u8]> = batches.iter().flat_map(|batch| batch.iter().flatten()).collect();
//! assert_eq!(texts, [b"b", b"c"]);
//! # Ok::<(), tokenmill::Error>(())
//! ```

mod shuffle;
mod weights;

pub use weights::{Weight, scale_weights};

use std::ops::Range;

use arrow::array::{AsArray, UInt64Array};
use arrow::error::ArrowError;
use serde::{Deserialize, Serialize};

use super::base::int::{to_u64, u64_to_usize};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{Batch, Documents, collected_documents};
use shuffle::Shuffle;

/// The rules by which [`sample`] selects documents. They apply in the order of the fields. Null rows count as
/// documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SampleConfig {
    /// Keep the first document of each group of `every`. 1 keeps all; 0 means the same.
    pub every: u64,
    /// Documents in the shuffle buffer; 0 keeps the order.
    pub shuffle_buffer: u64,
    /// The seed of the shuffled order. It has no effect without a buffer.
    pub seed: u64,
    /// Number of documents to skip.
    pub skip: u64,
    /// Maximum number of documents to keep after these. `None` is no limit.
    pub take: Option<u64>,
    /// Maximum number of bytes of text. The sample ends before the first document that would exceed it. Null rows have
    /// none. `None` is no limit.
    pub max_bytes: Option<u64>,
}

impl Default for SampleConfig {
    /// Keeps every document, in the original order.
    fn default() -> SampleConfig {
        SampleConfig { every: 1, shuffle_buffer: 0, seed: 0, skip: 0, take: None, max_bytes: None }
    }
}

impl SampleConfig {
    /// Returns whether the rules keep every document, in the original order.
    pub fn is_everything(&self) -> bool {
        let SampleConfig { every, shuffle_buffer, seed: _, skip, take, max_bytes } = *self;
        every <= 1 && shuffle_buffer == 0 && skip == 0 && take.is_none() && max_bytes.is_none()
    }

    /// Returns the maximum number of documents that need to leave the shuffle buffer. A shuffle that may stop there
    /// need not read the rest. `None` if there is no limit; `max_bytes` does not count, since it depends on the texts
    /// that leave.
    fn max_documents(&self) -> Option<u64> {
        self.take.map(|take| take.saturating_add(self.skip))
    }
}

/// Selects documents, and stops reading as soon as the sample is complete.
///
/// If `config` keeps everything, the batches stay as they are, and may contain documents in part. Otherwise the
/// result has batches of whole documents: `source` is still the number of their source, `unit` is 0, and `first_row`
/// is the index of the first document in the sample.
///
/// The shuffle fills a buffer with the first `shuffle_buffer` documents. Each further document replaces a random one
/// in the buffer, which is the next of the result. At the end, the documents in the buffer follow in random order.
/// The same seed gives the same order.
///
/// **Memory:** a batch, and copies of the documents in the shuffle buffer. Their pass-through columns are kept as
/// whole batches, which have a few times as many rows as the buffer.
///
/// **Errors:** the stream gives those of `documents`, and an error for a document of 2 GiB or more, except if
/// `config` keeps everything.
pub fn sample<'a>(documents: Documents<'a>, config: &SampleConfig) -> Documents<'a> {
    if config.is_everything() {
        return documents;
    }
    let mut documents = collected_documents(documents);
    if config.every > 1 {
        documents = Box::new(EveryNth { documents, every: config.every, until_next: 0 });
    }
    if config.shuffle_buffer > 0 {
        documents =
            Box::new(Shuffle::new(documents, config.shuffle_buffer, config.seed, config.max_documents()));
    }
    Box::new(LimitedSample {
        documents: Some(documents),
        skip: config.skip,
        take: config.take.unwrap_or(u64::MAX),
        bytes: config.max_bytes.unwrap_or(u64::MAX),
        place: 0,
    })
}

/// The error that rows cannot be put together to a batch.
fn not_joined(cause: ArrowError) -> Error {
    Error::caused(ErrorKind::Failed, "the chosen rows cannot be put together", cause)
}

/// Keeps the first document of each group of `every`. The groups do not end with batches or sources; the count goes
/// on through the whole stream.
struct EveryNth<'a> {
    /// Batches of whole documents.
    documents: Documents<'a>,
    /// Size of a group; at least 2.
    every: u64,
    /// Number of documents to drop before the next one that is kept.
    until_next: u64,
}

impl EveryNth<'_> {
    /// Returns the selected documents of a batch. The batch may become empty. Texts are not copied: the result shares
    /// their buffers. Pass-through columns are copied.
    fn choose(&mut self, batch: &Batch) -> Result<Batch, ArrowError> {
        let length = to_u64(batch.len());
        let step = u64_to_usize(self.every);
        let rows = UInt64Array::from_iter_values((self.until_next..length).step_by(step));
        let chosen = to_u64(arrow::array::Array::len(&rows));
        self.until_next = self.until_next + chosen * self.every - length;
        let documents = arrow::compute::take(&batch.documents, &rows, None)?.as_binary_view().clone();
        let columns = batch.columns.as_ref();
        let columns = columns.map(|columns| arrow::compute::take_record_batch(columns, &rows)).transpose()?;
        Ok(Batch { documents, columns, ..batch.clone() })
    }
}

impl Iterator for EveryNth<'_> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        loop {
            let chosen = self.documents.next()?.and_then(|batch| self.choose(&batch).map_err(not_joined));
            if !chosen.as_ref().is_ok_and(Batch::is_empty) {
                return Some(chosen);
            }
        }
    }
}

/// Applies `skip`, `take` and `max_bytes`, and numbers the documents of the sample. This is the last step, since the
/// limits count documents that are left by the others.
struct LimitedSample<'a> {
    /// `None` when the sample is complete. Dropping the stream stops its readers.
    documents: Option<Documents<'a>>,
    /// Number of documents still to skip.
    skip: u64,
    /// Number of documents still to keep.
    take: u64,
    /// Bytes of text still allowed.
    bytes: u64,
    /// Number of documents kept so far.
    place: u64,
}

impl LimitedSample<'_> {
    /// Returns the rows of a batch that belong to the sample. These are a range, since all limits cut at the start or
    /// at the end. At the end of the sample, the stream is dropped, even if the batch has more rows.
    fn rows_within_limits(&mut self, batch: &Batch) -> Range<usize> {
        let skipped = self.skip.min(to_u64(batch.len()));
        self.skip -= skipped;
        let from = u64_to_usize(skipped);
        let mut to = from;
        for text in batch.iter().skip(from) {
            let bytes = to_u64(text.map_or(0, <[u8]>::len));
            if self.take == 0 || bytes > self.bytes {
                self.documents = None;
                break;
            }
            self.take -= 1;
            self.bytes -= bytes;
            to += 1;
        }
        if self.take == 0 {
            self.documents = None;
        }
        from..to
    }
}

impl Iterator for LimitedSample<'_> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        if self.take == 0 {
            self.documents = None;
        }
        loop {
            let batch = match self.documents.as_mut()?.next()? {
                Ok(batch) => batch,
                Err(error) => {
                    self.documents = None;
                    return Some(Err(error));
                }
            };
            let rows_within_limits = self.rows_within_limits(&batch);
            if !rows_within_limits.is_empty() {
                let first_row = self.place;
                self.place += to_u64(rows_within_limits.len());
                return Some(Ok(Batch {
                    unit: 0,
                    first_row,
                    ..batch.slice(rows_within_limits.start, rows_within_limits.len())
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use arrow::array::{
        ArrayRef, BinaryViewArray, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
    };
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;

    use super::*;
    use crate::base::random::SeededRandom;

    /// Documents `0`, `1`, … as text and as a pass-through column, in batches of these lengths. Every seventh document
    /// is null, and the second half has a second source.
    fn numbers(lengths: Vec<u64>) -> (Documents<'static>, Arc<AtomicU64>) {
        let read = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&read);
        let half = lengths.len() / 2;
        let mut first = 0;
        let batches = lengths.into_iter().enumerate().map(move |(unit, length)| {
            let rows = first..first + length;
            first += length;
            counter.store(first, Ordering::Relaxed);
            let documents = rows.clone().map(|row| (row % 7 != 6).then(|| row.to_string()));
            let ids = rows.clone().map(|row| i64::try_from(row).unwrap());
            let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
            Ok(Batch {
                source: usize::from(unit >= half),
                unit,
                first_row: 0,
                documents: BinaryViewArray::from_iter(documents),
                columns: Some(RecordBatch::try_from_iter([("id", ids)]).unwrap()),
                continued: false,
                open: false,
            })
        });
        (Box::new(batches), read)
    }

    /// Returns the numbers of the selected documents, and checks their texts, columns, sources and positions.
    fn chosen(lengths: &[u64], config: &SampleConfig) -> Vec<u64> {
        let border: u64 = lengths[..lengths.len() / 2].iter().sum();
        let mut all = Vec::new();
        for batch in sample(numbers(lengths.to_vec()).0, config) {
            let batch = batch.unwrap();
            assert!(!batch.is_empty());
            if !config.is_everything() {
                assert_eq!((batch.unit, batch.first_row), (0, to_u64(all.len())));
            }
            let columns = batch.columns.as_ref().unwrap();
            let ids = columns.column(0).as_primitive::<Int64Type>();
            for (&id, text) in ids.values().iter().zip(batch.iter()) {
                let row = u64::try_from(id).unwrap();
                assert_eq!(text.map(<[u8]>::to_vec), (row % 7 != 6).then(|| row.to_string().into_bytes()));
                assert_eq!(batch.source, usize::from(row >= border));
                all.push(row);
            }
        }
        all
    }

    /// The reference: applies the rules to a list.
    fn plainly(count: u64, config: &SampleConfig) -> Vec<u64> {
        let every: Vec<u64> = (0..count).step_by(u64_to_usize(config.every)).collect();
        let mut random = SeededRandom::of(config.seed);
        let mut shuffled = Vec::new();
        let mut buffer = Vec::new();
        for row in every {
            if to_u64(buffer.len()) < config.shuffle_buffer {
                buffer.push(row);
            } else if config.shuffle_buffer == 0 {
                shuffled.push(row);
            } else {
                let place = random.below(buffer.len());
                shuffled.push(std::mem::replace(&mut buffer[place], row));
            }
        }
        while !buffer.is_empty() {
            let place = random.below(buffer.len());
            shuffled.push(buffer.swap_remove(place));
        }
        let mut left = config.max_bytes.unwrap_or(u64::MAX);
        let kept = shuffled
            .into_iter()
            .skip(u64_to_usize(config.skip))
            .take(u64_to_usize(config.take.unwrap_or(u64::MAX)));
        kept.take_while(|row| {
            let bytes = if row % 7 == 6 { 0 } else { to_u64(row.to_string().len()) };
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            fits
        })
        .collect()
    }

    proptest! {
        #[test]
        fn samples_are_what_the_rules_say(
            lengths in prop::collection::vec(1_u64..40, 1..12),
            every in 1_u64..50,
            shuffle_buffer in prop_oneof![Just(0), 1_u64..300],
            seed in any::<u64>(),
            skip in prop_oneof![Just(0), 0_u64..200],
            take in prop::option::of(0_u64..300),
            max_bytes in prop::option::of(0_u64..500),
        ) {
            let config = SampleConfig { every, shuffle_buffer, seed, skip, take, max_bytes };
            prop_assert_eq!(chosen(&lengths, &config), plainly(lengths.iter().sum(), &config));
        }
    }

    #[test]
    fn a_shuffle_moves_documents_and_loses_none() {
        let shuffle = |seed, shuffle_buffer| SampleConfig { seed, shuffle_buffer, ..SampleConfig::default() };
        let all: Vec<u64> = (0..1_000).collect();
        let (first, second) = (chosen(&[10; 100], &shuffle(1, 200)), chosen(&[10; 100], &shuffle(2, 200)));
        assert_ne!(first, second);
        for mut rows in [first, second] {
            assert!(rows.iter().zip(0..).filter(|(row, place)| *row == place).count() < 30);
            assert!(rows.iter().position(|&row| row == 999).unwrap() >= 799, "the buffer looks 200 ahead");
            rows.sort_unstable();
            assert_eq!(rows, all);
        }
        assert_eq!(chosen(&[10; 100], &shuffle(1, 1)), all, "a buffer of one keeps the order");
    }

    #[test]
    fn reading_stops_when_the_sample_is_complete() {
        let take = |take| SampleConfig { take: Some(take), ..SampleConfig::default() };
        let cases = [
            (take(25), 30),
            (take(30), 30),
            (take(0), 0),
            (SampleConfig { skip: 10, ..take(10) }, 20),
            (SampleConfig { max_bytes: Some(10), ..SampleConfig::default() }, 20),
            (SampleConfig { shuffle_buffer: 50, ..take(10) }, 60),
            (SampleConfig { every: 10, ..take(3) }, 30),
        ];
        for (config, expected) in cases {
            let (documents, read) = numbers(vec![10; 100]);
            let mut sampled = sample(documents, &config);
            assert!(sampled.by_ref().all(|batch| batch.is_ok()));
            assert_eq!(read.load(Ordering::Relaxed), expected, "{config:?}");
            assert!(sampled.next().is_none());
        }
    }

    #[test]
    fn an_error_ends_the_sample() {
        let config = SampleConfig { shuffle_buffer: 15, ..SampleConfig::default() };
        let failing = numbers(vec![10; 5]).0.chain([Err(Error::interrupted())]).chain(numbers(vec![10; 5]).0);
        let found: Vec<_> = sample(Box::new(failing), &config).collect();
        assert!(found.last().unwrap().is_err());
        assert!(found.iter().filter(|batch| batch.is_err()).count() == 1);
    }

    #[test]
    fn a_document_in_parts_is_one_document() {
        let part = |text: &str, continued, open| {
            let documents = BinaryViewArray::from_iter_values([text]);
            Ok(Batch { source: 0, unit: 0, first_row: 0, documents, columns: None, continued, open })
        };
        let parts = || -> Documents<'static> {
            Box::new(
                [part("one ", false, true), part("text", true, false), part("two", false, false)].into_iter(),
            )
        };
        let texts = |config: SampleConfig| -> Vec<Vec<u8>> {
            let batches = sample(parts(), &config).map(|batch| batch.unwrap());
            batches.flat_map(|batch| batch.iter().flatten().map(<[u8]>::to_vec).collect::<Vec<_>>()).collect()
        };
        assert_eq!(texts(SampleConfig::default()).len(), 3, "parts stay parts where nothing is chosen");
        assert_eq!(texts(SampleConfig { take: Some(1), ..SampleConfig::default() }), [b"one text"]);
        assert_eq!(texts(SampleConfig { skip: 1, ..SampleConfig::default() }), [b"two"]);
    }

    #[test]
    fn weights_scale_to_the_smallest_whole_numbers() {
        let cases: [(&[&str], &[u64]); 6] = [
            (&["1", "0.25", "3"], &[4, 1, 12]),
            (&["2"], &[1]),
            (&["0.000001", "1"], &[1, 1_000_000]),
            (&["0.3", "0.1", "0.2"], &[3, 1, 2]),
            (&["1.50", "1"], &[3, 2]),
            (&[], &[]),
        ];
        for (weights, expected) in cases {
            let weights: Vec<Weight> = weights.iter().map(|weight| weight.parse().unwrap()).collect();
            assert_eq!(scale_weights(&weights), expected);
        }
        let max_documents: Weight = "999999999999.999999".parse().unwrap();
        assert_eq!(max_documents.to_string(), "999999999999.999999");
        for wrong in [
            "1000000000000",
            "",
            "0",
            "0.0",
            "-1",
            "1.",
            ".5",
            "1e3",
            "0.0000001",
            "1000000000000000",
            "nan",
            "+1",
        ] {
            assert!(wrong.parse::<Weight>().is_err(), "{wrong:?}");
        }
        let numbers: Vec<Weight> = serde_json::from_str("[1, 0.25, 3.0, \"0.1\"]").unwrap();
        assert_eq!(numbers.iter().map(Weight::to_string).collect::<Vec<_>>(), ["1", "0.25", "3", "0.1"]);
        assert!(serde_json::from_str::<Weight>("1e-7").is_err());
    }

    #[test]
    fn a_batch_that_leaves_the_buffer_has_no_more_columns_than_text_would_be() {
        let long = StringArray::from_iter_values(["a long value ".repeat(2_000)]);
        let rows = 2_000;
        let shared: ArrayRef =
            Arc::new(DictionaryArray::new(Int32Array::from(vec![0; rows]), Arc::new(long)));
        let batch = Batch {
            source: 0,
            unit: 0,
            first_row: 0,
            documents: BinaryViewArray::from_iter_values(vec![b"text"; rows]),
            columns: Some(RecordBatch::try_from_iter([("shared", shared)]).unwrap()),
            continued: false,
            open: false,
        };
        let config = SampleConfig { shuffle_buffer: 500, ..SampleConfig::default() };
        let batches: Vec<Batch> =
            sample(Box::new(std::iter::once(Ok(batch))), &config).map(Result::unwrap).collect();
        assert_eq!(batches.iter().map(Batch::len).sum::<usize>(), rows);
        for batch in batches {
            assert!(batch.row_bytes().iter().sum::<u64>() <= crate::source::DEFAULT_BATCH_BYTES);
        }
    }
}
