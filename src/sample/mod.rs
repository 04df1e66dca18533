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

#[cfg(test)]
mod tests;

pub use weights::{NotWeight, Weight, scale_weights};

use std::ops::Range;

use arrow_array::{UInt64Array, cast::AsArray};
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
    /// The seed of the shuffled order.
    pub seed: u64,
    /// Number of documents to skip.
    pub skip: u64,
    /// Most documents to keep after these.
    pub take: Option<u64>,
    /// Most bytes of text. The sample ends before the first document that would exceed it.
    pub max_bytes: Option<u64>,
}

impl Default for SampleConfig {
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

    /// Returns the most documents that need to leave the shuffle buffer.
    fn most(&self) -> Option<u64> {
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
        documents = Box::new(Every { documents, every: config.every, until_next: 0 });
    }
    if config.shuffle_buffer > 0 {
        documents = Box::new(Shuffle::new(documents, config.shuffle_buffer, config.seed, config.most()));
    }
    Box::new(Limited {
        documents: Some(documents),
        skip: config.skip,
        take: config.take.unwrap_or(u64::MAX),
        bytes: config.max_bytes.unwrap_or(u64::MAX),
        place: 0,
    })
}

/// Errors of sampling.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("the chosen rows cannot be put together")]
    Rows(#[from] arrow_schema::ArrowError),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::new(ErrorKind::Failed, fault)
    }
}

/// Keeps the first document of each group of `every`.
struct Every<'a> {
    documents: Documents<'a>,
    every: u64,
    /// Number of documents to drop before the next one that is kept.
    until_next: u64,
}

impl Every<'_> {
    /// Returns the selected documents of a batch.
    fn choose(&mut self, batch: &Batch) -> Result<Batch, Fault> {
        let length = to_u64(batch.len());
        let step = u64_to_usize(self.every);
        let rows = UInt64Array::from_iter_values((self.until_next..length).step_by(step));
        let chosen = to_u64(arrow_array::Array::len(&rows));
        self.until_next = self.until_next + chosen * self.every - length;
        let documents = arrow_select::take::take(&batch.documents, &rows, None)?.as_binary_view().clone();
        let columns = batch.columns.as_ref();
        let columns =
            columns.map(|columns| arrow_select::take::take_record_batch(columns, &rows)).transpose()?;
        Ok(Batch { documents, columns, ..batch.clone() })
    }
}

impl Iterator for Every<'_> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        loop {
            let chosen = self.documents.next()?.and_then(|batch| Ok(self.choose(&batch)?));
            if !chosen.as_ref().is_ok_and(Batch::is_empty) {
                return Some(chosen);
            }
        }
    }
}

/// Applies `skip`, `take` and `max_bytes`, and numbers the documents of the sample.
struct Limited<'a> {
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

impl Limited<'_> {
    /// Returns the rows of a batch that belong to the sample.
    fn within(&mut self, batch: &Batch) -> Range<usize> {
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

impl Iterator for Limited<'_> {
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
            let within = self.within(&batch);
            if !within.is_empty() {
                let first_row = self.place;
                self.place += to_u64(within.len());
                return Some(Ok(Batch { unit: 0, first_row, ..batch.slice(within.start, within.len()) }));
            }
        }
    }
}
