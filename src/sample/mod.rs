//! Chooses the documents of a run: every n-th, shuffled, skipped, taken, up to a number of bytes.
//!
//! Takes documents in order, gives documents in order; the same ones for any number of threads. Knows
//! nothing of what they are for. Also says by what whole numbers the counts of a mixture are multiplied.

mod shuffle;
mod weights;

#[cfg(test)]
mod tests;

pub use weights::{NotWeight, Weight, scale_weights};

use std::ops::Range;

use arrow_array::{UInt64Array, cast::AsArray};
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::source::{Batch, Documents, whole_documents};
use crate::units::{amount, place64};
use shuffle::Shuffle;

/// Which documents to choose. The steps come in the order of the fields; null rows count as documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SampleConfig {
    /// Keep the first of every so many documents; at least 1, which keeps all.
    pub every: u64,
    /// Shuffle with a buffer of so many documents; 0 keeps the order.
    pub shuffle_buffer: u64,
    /// Decides the shuffled order.
    pub seed: u64,
    /// Leave out so many documents.
    pub skip: u64,
    /// Then keep so many at most.
    pub take: Option<u64>,
    /// The first document that would make it more bytes of text than this ends the sample.
    pub max_bytes: Option<u64>,
}

impl Default for SampleConfig {
    fn default() -> SampleConfig {
        SampleConfig { every: 1, shuffle_buffer: 0, seed: 0, skip: 0, take: None, max_bytes: None }
    }
}

impl SampleConfig {
    /// Whether every document is kept in its place.
    pub fn is_everything(&self) -> bool {
        let SampleConfig { every, shuffle_buffer, seed: _, skip, take, max_bytes } = *self;
        every <= 1 && shuffle_buffer == 0 && skip == 0 && take.is_none() && max_bytes.is_none()
    }

    /// How many documents leave the shuffle buffer at most.
    fn most(&self) -> Option<u64> {
        self.take.map(|take| take.saturating_add(self.skip))
    }
}

/// Chooses documents, and stops reading as soon as the sample is complete.
///
/// A config that keeps everything gives the same batches, parts of documents included. Any other gives
/// batches of whole documents, of which `source` still says where they come from; `unit` is then 0 and
/// `first_row` is the place of the first document in the sample.
///
/// The shuffle fills a buffer with the first `shuffle_buffer` documents; each one after them takes the
/// place of one drawn from the buffer, which is given out; at the end those left are drawn in turn.
///
/// **Memory:** a batch, and the documents of the shuffle buffer, which are copied into it. Their
/// pass-through columns are kept by whole batches, a few times as many rows as the buffer has.
///
/// **Errors:** those of `documents`, and where a document has to be whole, one of 2 GiB or more.
pub fn sample<'a>(documents: Documents<'a>, config: &SampleConfig) -> Documents<'a> {
    if config.is_everything() {
        return documents;
    }
    let mut documents = whole_documents(documents);
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

/// What can go wrong while choosing.
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

struct Every<'a> {
    documents: Documents<'a>,
    every: u64,
    /// Documents to pass over before the next that is kept.
    until_next: u64,
}

impl Every<'_> {
    fn choose(&mut self, batch: &Batch) -> Result<Batch, Fault> {
        let length = amount(batch.len());
        let step = place64(self.every);
        let rows = UInt64Array::from_iter_values((self.until_next..length).step_by(step));
        let chosen = amount(arrow_array::Array::len(&rows));
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

/// Skips, takes, and counts bytes; numbers the documents that come through.
struct Limited<'a> {
    /// `None` once the sample is complete: dropping the stream is what stops its readers.
    documents: Option<Documents<'a>>,
    skip: u64,
    take: u64,
    bytes: u64,
    place: u64,
}

impl Limited<'_> {
    /// Which documents of a batch belong to the sample.
    fn within(&mut self, batch: &Batch) -> Range<usize> {
        let skipped = self.skip.min(amount(batch.len()));
        self.skip -= skipped;
        let from = place64(skipped);
        let mut to = from;
        for text in batch.iter().skip(from) {
            let bytes = amount(text.map_or(0, <[u8]>::len));
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
                self.place += amount(within.len());
                return Some(Ok(Batch { unit: 0, first_row, ..batch.slice(within.start, within.len()) }));
            }
        }
    }
}
