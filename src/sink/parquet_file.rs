//! Writes Parquet files from encoded row groups.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use parquet::arrow::arrow_writer::ArrowRowGroupWriterFactory;
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use super::chunk::Columns;
use super::fault::write_failed;
use super::footer;
use super::hashed::Hashed;
use super::schema::FileShape;
use crate::error::Result;

/// A Parquet file that grows by encoded row groups.
pub(super) struct ParquetFile<W: Write + Send> {
    file: SerializedFileWriter<Lent<Hashed<W>>>,
    path: PathBuf,
    shape: Arc<FileShape>,
    writers: Arc<ArrowRowGroupWriterFactory>,
}

impl<W: Write + Send> ParquetFile<W> {
    /// Begins a file in `out`. `path` is used only for messages.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub(super) fn new(out: Hashed<W>, path: PathBuf, shape: &Arc<FileShape>) -> Result<ParquetFile<W>> {
        let root = shape.columns.root_schema_ptr();
        let file = SerializedFileWriter::new(Lent(Some(out)), root, Arc::clone(&shape.properties))
            .map_err(|cause| write_failed(&path, cause))?;
        let writers = Arc::new(ArrowRowGroupWriterFactory::new(&file, Arc::clone(&shape.schema)));
        Ok(ParquetFile { file, path, shape: Arc::clone(shape), writers })
    }

    /// The factory of column writers for this file.
    pub(super) fn writers(&self) -> &Arc<ArrowRowGroupWriterFactory> {
        &self.writers
    }

    /// Appends a row group. Returns the data for [`resume_group`](ParquetFile::resume_group): its footer entries.
    pub(super) fn append(&mut self, columns: Columns) -> Result<Vec<u8>> {
        let Columns { chunks, metadata } = columns;
        let append = || {
            let mut group = self.file.next_row_group()?;
            for chunk in chunks {
                chunk.append(&mut group)?;
            }
            group.close()?;
            self.file.flush()?;
            Ok(metadata)
        };
        append().map_err(|cause: ParquetError| write_failed(&self.path, cause))
    }

    /// Adds a row group whose pages are already in the file, as an earlier run left them.
    pub(super) fn resume_group(&mut self, metadata: &[u8]) -> Result<()> {
        let mut append = || {
            let columns = footer::in_file(metadata, &self.shape.columns)?;
            let mut group = self.file.next_row_group()?;
            for close in columns {
                group.append_column(&footer::PagesThere, close)?;
            }
            group.close()?;
            Ok(self.file.flush()?)
        };
        append().map_err(|cause: ParquetError| write_failed(&self.path, cause))
    }

    /// The output so far.
    pub(super) fn written(&self) -> &Hashed<W> {
        self.file.inner().0.as_ref().expect("it is taken out at the end alone")
    }

    /// Writes the footer, and returns the output.
    pub(super) fn finish(mut self) -> Result<Hashed<W>> {
        self.file.finish().map_err(|cause| write_failed(&self.path, cause))?;
        Ok(self.file.inner_mut().0.take().expect("it is taken out here alone"))
    }
}

/// A writer that can be taken out of a Parquet writer. The Parquet writer's own method turns an I/O error into a
/// text, so a full disk would not be recognized.
struct Lent<W>(Option<W>);

impl<W: Write> Lent<W> {
    fn lent(&mut self) -> io::Result<&mut W> {
        self.0.as_mut().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

impl<W: Write> Write for Lent<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lent()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lent()?.flush()
    }
}
