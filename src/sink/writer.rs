use std::collections::VecDeque;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossbeam_channel::Receiver;
use parquet::arrow::arrow_writer::ArrowRowGroupWriterFactory;
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use super::encoders::{Encoded, Encoders};
use super::fault::{Fault, write_failed};
use super::hashed::Hashed;
use super::row_group::{RowGroup, Rows};
use super::schema::FileShape;
use crate::encode::TokenBatch;
use crate::error::{Error, ErrorKind, Result};
use crate::units::amount;

/// Writes rows of token ids to one Parquet file, in order.
///
/// Row groups are cut by rows, ids and bytes of pass-through columns, so the bytes written depend on the
/// rows alone. Each is encoded and compressed on one of the [`Encoders`]' threads while the next fills.
///
/// **Memory:** about 30 MB (a full row group and one compressed) for each thread that encodes and two
/// more; a row that is larger than a row group about three times its ids.
pub struct ShardWriter<W: Write + Send> {
    file: SerializedFileWriter<Hashed<W>>,
    path: PathBuf,
    shape: Arc<FileShape>,
    writers: Arc<ArrowRowGroupWriterFactory>,
    encoders: Arc<Encoders>,
    group: RowGroup,
    under_way: VecDeque<Receiver<Encoded>>,
    rows: u64,
    tokens: u64,
}

/// What a finished file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardFacts {
    /// Rows, nulls included.
    pub rows: u64,
    /// Token ids in all rows.
    pub tokens: u64,
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256 of the file, in hex.
    pub sha256: String,
}

impl<W: Write + Send> ShardWriter<W> {
    /// Begins a file in `out`; `path` is for messages only.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn new(
        out: W,
        path: impl Into<PathBuf>,
        shape: &Arc<FileShape>,
        encoders: &Arc<Encoders>,
    ) -> Result<ShardWriter<W>> {
        let path = path.into();
        let root = shape.columns.root_schema_ptr();
        let file = SerializedFileWriter::new(Hashed::new(out), root, Arc::clone(&shape.properties))
            .map_err(|cause| write_failed(&path, cause))?;
        let writers = Arc::new(ArrowRowGroupWriterFactory::new(&file, Arc::clone(&shape.schema)));
        Ok(ShardWriter {
            file,
            path,
            shape: Arc::clone(shape),
            writers,
            encoders: Arc::clone(encoders),
            group: RowGroup::default(),
            under_way: VecDeque::new(),
            rows: 0,
            tokens: 0,
        })
    }

    /// Appends the rows of a batch.
    ///
    /// # Errors
    /// The rows do not fit the columns, or the file cannot be written. The file is of no use then.
    pub fn write(&mut self, batch: TokenBatch) -> Result<()> {
        let count = batch.len();
        let mut rows = Rows::new(batch, &self.shape.schema)?;
        self.write_rows(&mut rows, 0..count)
    }

    pub(super) fn write_rows(&mut self, rows: &mut Rows, mut range: Range<usize>) -> Result<()> {
        while !range.is_empty() {
            range.start = self.group.take(rows, range.clone());
            if !range.is_empty() {
                self.send_group()?;
            }
        }
        Ok(())
    }

    fn send_group(&mut self) -> Result<()> {
        let group = std::mem::take(&mut self.group);
        self.rows += amount(group.len());
        self.tokens += amount(group.ids().len());
        if self.under_way.len() >= self.encoders.ahead() {
            self.append_next()?;
        }
        self.under_way.push_back(self.encoders.encode(group, &self.shape, &self.writers));
        Ok(())
    }

    /// Waits for the row group that is next in the file, and appends it.
    fn append_next(&mut self) -> Result<()> {
        let Some(next) = self.under_way.pop_front() else { return Ok(()) };
        let Ok(encoded) = next.recv() else {
            let fault = Fault::EncoderStopped { path: self.path.clone() };
            return Err(Error::new(ErrorKind::Failed, fault));
        };
        self.append(encoded).map_err(|cause| write_failed(&self.path, cause))
    }

    fn append(&mut self, encoded: Encoded) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for chunk in encoded? {
            chunk.append(&mut group)?;
        }
        group.close()?;
        Ok(())
    }

    /// The path that messages name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what is left and the footer, and gives back what was written to. A file without rows is
    /// a valid file too.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<(W, ShardFacts)> {
        if !self.group.is_empty() {
            self.send_group()?;
        }
        while !self.under_way.is_empty() {
            self.append_next()?;
        }
        let hashed = self.file.into_inner().map_err(|cause| write_failed(&self.path, cause))?;
        let (out, bytes, sha256) = hashed.finish();
        Ok((out, ShardFacts { rows: self.rows, tokens: self.tokens, bytes, sha256 }))
    }
}
