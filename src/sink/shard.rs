//! Writes one file of token ids, in row groups that are encoded in parallel.
//!
//! The thread that calls [`ShardWriter::write`] collects rows and appends encoded row groups in order. The threads of
//! [`RowGroupEncoders`] pack, encode and compress. Row groups in progress are limited, so memory is.

use std::collections::VecDeque;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::{fmt, thread};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use parquet::arrow::arrow_writer::ArrowRowGroupWriterFactory;
use parquet::errors::ParquetError;
use serde_json::Value;

use super::flat_file::{FlatFile, FlatRowGroup};
use super::parquet_file::{self, EncodedColumns, ParquetFile, write_failed};
use super::resume::{IncompleteFile, RowGroupJournal};
use super::row_group::{OutputBatch, Position, RowGroup, RowTotals};
use super::schema::{FileSpec, IdWidth};
use crate::base::integrity::HashingWriter;
use crate::base::pools::spawn_up_to;
use crate::encode::TokenBatch;
use crate::error::{Error, Result};

/// A file of token ids that grows by row groups. Both kinds are written, resumed and completed alike.
enum ShardFile<W: Write + Send> {
    /// Boxed, because it is much larger than the other.
    Parquet(Box<ParquetFile<W>>),
    /// Bare ids.
    Flat(FlatFile<W>),
}

impl<W: Write + Send> ShardFile<W> {
    /// Begins a file in the format that `spec` names.
    ///
    /// # Errors
    /// `out` cannot be written.
    fn new(out: HashingWriter<W>, path: PathBuf, spec: &Arc<FileSpec>) -> Result<ShardFile<W>> {
        Ok(match spec.flat {
            None => ShardFile::Parquet(Box::new(ParquetFile::new(out, path, spec)?)),
            Some((format, width)) => ShardFile::Flat(FlatFile::new(out, path, format, width)),
        })
    }

    /// What encodes row groups for this file.
    fn encoding(&self) -> RowGroupEncoding {
        match self {
            ShardFile::Parquet(file) => RowGroupEncoding::Parquet(Arc::clone(file.writers())),
            ShardFile::Flat(file) => RowGroupEncoding::Flat(file.width()),
        }
    }

    /// Appends a row group. Returns the data for [`resume_group`](ShardFile::resume_group).
    ///
    /// # Errors
    /// The file cannot be written.
    fn append(&mut self, group: EncodedRowGroup) -> Result<Vec<u8>> {
        match (self, group) {
            (ShardFile::Parquet(file), EncodedRowGroup::Parquet(columns)) => file.append(columns),
            (ShardFile::Flat(file), EncodedRowGroup::Flat(group)) => file.append(group),
            _ => unreachable!("groups are encoded for their file"),
        }
    }

    /// Adds a row group that is already in the file. `metadata` is what [`append`](ShardFile::append) returned for
    /// it.
    ///
    /// # Errors
    /// The data cannot be used.
    fn resume_group(&mut self, metadata: &[u8]) -> Result<()> {
        match self {
            ShardFile::Parquet(file) => file.resume_group(metadata),
            ShardFile::Flat(file) => file.resume_group(metadata),
        }
    }

    /// The output so far, with its length and hash.
    fn written(&self) -> &HashingWriter<W> {
        match self {
            ShardFile::Parquet(file) => file.written(),
            ShardFile::Flat(file) => file.written(),
        }
    }

    /// The complete file, and the contents of its index if the format has one.
    ///
    /// # Errors
    /// The file cannot be written.
    fn finish(self) -> Result<(HashingWriter<W>, Option<Vec<u8>>)> {
        match self {
            ShardFile::Parquet(file) => Ok((file.finish()?, None)),
            ShardFile::Flat(file) => {
                let (out, index) = file.finish();
                Ok((out, Some(index)))
            }
        }
    }
}

/// Writes rows of token ids to one file, in order.
///
/// Row groups end at limits for rows, ids and bytes of pass-through columns, or if the file is
/// [packed](super::Packing), for documents and their ids. So the bytes of the file depend only on its rows. Each row
/// group is encoded and compressed on a thread of the [`RowGroupEncoders`] while the next one fills.
///
/// # Examples
/// Writes texts of a program to a file of token ids. For whole datasets, use [`run`](crate::run).
///
/// ```
/// use tokenmill::encode::{EncodeConfig, Encoder, encode_batches};
/// use tokenmill::base::atomic_file::publish;
/// use tokenmill::observer::Silent;
/// use tokenmill::sink::{
///     Compression, Declaration, FileSpec, RowGroupEncoders, ShardWriter, TokenReader, output_schema,
/// };
/// use tokenmill::source;
/// # use tokenmill::{Vocabulary, split::SplitPattern, train::Merges, vocab::SpecialTokensAt};
///
/// # let split = SplitPattern::None;
/// # let vocabulary = Vocabulary::from_merges(&Merges::default(), &[], SpecialTokensAt::End, split)?;
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let path = folder.path().join("tokens.parquet");
/// let encoder = Encoder::new(vocabulary, EncodeConfig::default())?;
/// let spec = FileSpec::new(output_schema(&[])?, Compression::Default, &Declaration::of(&encoder))?;
/// let encoders = RowGroupEncoders::start(2)?;
/// let facts = publish(&path, |file| {
///     let mut writer = ShardWriter::new(file, &path, &spec, &encoders)?;
///     let texts = source::texts(["how much wood", "would a woodchuck chuck"]);
///     let name = |_, _| "the texts".to_owned();
///     encode_batches(texts, &encoder, name, &Silent, |batch| writer.write(batch))?;
///     writer.finish().map(|(_, facts)| facts)
/// })?;
/// assert_eq!((facts.rows, facts.tokens), (2, 36));
///
/// let mut rows = 0;
/// for batch in TokenReader::open(&path)? {
///     rows += batch?.len();
/// }
/// assert_eq!(rows, 2);
/// # Ok::<(), tokenmill::Error>(())
/// ```
///
/// **Memory:** about 30 MB (a full row group and a compressed one) for each encoding thread and two more, up to 160
/// MB if long values pass through. Best-fit packing takes 20 MB more per thread. A row that is larger than a row
/// group takes about three times its ids.
pub struct ShardWriter<W: Write + Send> {
    /// The file, to which only complete row groups are appended.
    file: ShardFile<W>,
    /// The path for messages.
    path: PathBuf,
    /// The columns and properties.
    spec: Arc<FileSpec>,
    /// The threads that encode. Other files may use them at the same time.
    encoders: Arc<RowGroupEncoders>,
    /// The rows that are being collected.
    group: RowGroup,
    /// The row groups that are being encoded, in the order of the file.
    in_progress: VecDeque<Receiver<Encoded>>,
    /// The totals of the rows that are in the file.
    totals: RowTotals,
    /// The journal of row groups that have been written. `None` for a file that cannot be resumed.
    log: Option<RowGroupJournal>,
}

impl<W: Write + Send> fmt::Debug for ShardWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardWriter")
            .field("path", &self.path)
            .field("contents", &self.totals)
            .finish_non_exhaustive()
    }
}

/// Facts about a finished file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardFacts {
    /// Number of rows, nulls included.
    pub rows: u64,
    /// Number of token ids in all rows.
    pub tokens: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// SHA-256 of the file, in hex.
    pub sha256: String,
}

/// A complete file. It is not synced yet.
pub(super) struct CompletedShard<W> {
    /// The output, at its end.
    pub(super) out: W,
    /// What the file holds.
    pub(super) totals: RowTotals,
    /// The contents of the index beside the file, if the format has one.
    pub(super) index: Option<Vec<u8>>,
    /// Size of the file in bytes.
    pub(super) bytes: u64,
    /// SHA-256 of the file, in hex.
    pub(super) sha256: String,
    /// All remarks since the file was begun; none without a journal.
    pub(super) remarks: Vec<Value>,
}

impl<W: Write + Send> ShardWriter<W> {
    /// Begins a file in `out`. `path` is used only for messages.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn new(
        out: W,
        path: impl Into<PathBuf>,
        spec: &Arc<FileSpec>,
        encoders: &Arc<RowGroupEncoders>,
    ) -> Result<ShardWriter<W>> {
        ShardWriter::begin(HashingWriter::new(out), path.into(), spec, encoders, RowTotals::default(), None)
    }

    /// Begins a file in `out`. Its first document is at the position after `totals`. Row groups are recorded in
    /// `log`.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub(super) fn begin(
        out: HashingWriter<W>,
        path: PathBuf,
        spec: &Arc<FileSpec>,
        encoders: &Arc<RowGroupEncoders>,
        totals: RowTotals,
        log: Option<RowGroupJournal>,
    ) -> Result<ShardWriter<W>> {
        Ok(ShardWriter {
            file: ShardFile::new(out, path.clone(), spec)?,
            path,
            spec: Arc::clone(spec),
            encoders: Arc::clone(encoders),
            group: RowGroup::default(),
            in_progress: VecDeque::new(),
            totals,
            log,
        })
    }

    /// Appends the rows of a batch.
    ///
    /// # Errors
    /// The rows do not match the columns, or the file cannot be written. The file is unusable after an error.
    pub fn write(&mut self, batch: TokenBatch) -> Result<()> {
        let (count, first) = (batch.len(), Position::of(&batch));
        let mut rows = OutputBatch::new(batch, first, &self.spec)?;
        self.write_rows(&mut rows, 0..count)
    }

    /// Appends a range of rows, and sends row groups to the encoders as they fill.
    ///
    /// A row group is sent as soon as the next row does not fit, so the last one waits for more rows.
    ///
    /// # Errors
    /// An earlier row group could not be encoded or written.
    pub(super) fn write_rows(&mut self, rows: &mut OutputBatch, mut range: Range<usize>) -> Result<()> {
        while !range.is_empty() {
            range.start = match &self.spec.packing {
                None => self.group.take(rows, range.clone()),
                Some(packing) => self.group.gather(rows, range.clone(), packing),
            };
            if !range.is_empty() {
                self.send_group()?;
            }
        }
        Ok(())
    }

    /// Stores a remark for a run that resumes from the row groups that are written after this. Without a journal it
    /// is dropped.
    pub(super) fn remark(&mut self, remark: Value) {
        if let Some(log) = &mut self.log {
            log.remarks.push(remark);
        }
    }

    /// Sends the current row group to the encoders. If enough are in progress, waits for the oldest first.
    ///
    /// # Errors
    /// That row group could not be encoded or written.
    fn send_group(&mut self) -> Result<()> {
        let group = std::mem::take(&mut self.group);
        if self.in_progress.len() >= self.encoders.max_in_progress() {
            self.append_next()?;
        }
        let (spec, encoding) = (Arc::clone(&self.spec), self.file.encoding());
        self.in_progress.push_back(self.encoders.run(move || encode(group, &spec, &encoding)));
        Ok(())
    }

    /// Waits for the next row group of the file, and appends it.
    ///
    /// # Errors
    /// It could not be encoded, written or recorded, or its thread has stopped.
    fn append_next(&mut self) -> Result<()> {
        let Some(next) = self.in_progress.pop_front() else { return Ok(()) };
        let Ok(encoded) = next.recv() else {
            let path = self.path.display();
            return Err(Error::failed(format!("cannot write {path}: an encoding thread has stopped")));
        };
        let (totals, group) = encoded.map_err(|cause| write_failed(&self.path, cause))?;
        let metadata = self.file.append(group)?;
        self.totals.add(&totals);
        match &mut self.log {
            Some(log) => log.commit(self.file.written(), &metadata, &totals),
            None => Ok(()),
        }
    }

    /// Writes the remaining rows and the footer, and returns `out` with facts about the file. A file without rows is
    /// valid.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> Result<(W, ShardFacts)> {
        let CompletedShard { out, totals, bytes, sha256, .. } = self.close()?;
        Ok((out, ShardFacts { rows: totals.rows, tokens: totals.tokens, bytes, sha256 }))
    }

    /// Completes the file. The totals include documents without ids that came last.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn close(mut self) -> Result<CompletedShard<W>> {
        if !self.group.is_empty() {
            self.send_group()?;
        }
        while !self.in_progress.is_empty() {
            self.append_next()?;
        }
        // Documents without tokens that were to be packed, if no document with tokens followed.
        if self.group.totals.documents > 0 {
            self.totals.add(&self.group.totals);
        }
        let (written, index) = self.file.finish()?;
        Ok(CompletedShard {
            totals: self.totals,
            index,
            bytes: written.bytes(),
            sha256: written.sha256(),
            out: written.into_inner(),
            remarks: self.log.map(|log| log.remarks).unwrap_or_default(),
        })
    }
}

impl ShardWriter<std::fs::File> {
    /// Resumes a file that an earlier process began. Its row groups stay as they are, and further rows follow them.
    ///
    /// # Errors
    /// The row groups do not fit the file.
    pub(super) fn resume(
        incomplete: IncompleteFile,
        path: PathBuf,
        spec: &Arc<FileSpec>,
        encoders: &Arc<RowGroupEncoders>,
    ) -> Result<ShardWriter<std::fs::File>> {
        let IncompleteFile { groups, file, log, .. } = incomplete;
        let mut writer = ShardWriter::begin(file, path, spec, encoders, RowTotals::default(), Some(log))?;
        for (totals, metadata) in groups {
            writer.file.resume_group(&metadata)?;
            writer.totals.add(&totals);
        }
        Ok(writer)
    }
}

/// The part of a file that its row groups need in order to be encoded on another thread.
enum RowGroupEncoding {
    /// Makes the writers of the columns.
    Parquet(Arc<ArrowRowGroupWriterFactory>),
    /// The width of ids.
    Flat(IdWidth),
}

/// A row group as it is written to its file. Always of the kind of the file that it was encoded for.
enum EncodedRowGroup {
    /// Compressed pages and footer entries.
    Parquet(EncodedColumns),
    /// Ids as bytes, and the lengths of rows.
    Flat(FlatRowGroup),
}

/// The result of encoding a row group: the totals of its rows, and its data.
type Encoded = Result<(RowTotals, EncodedRowGroup), ParquetError>;

/// Encodes a row group for its file. If the rows are documents to be packed, packs them first, and the totals then
/// count packed rows.
///
/// # Errors
/// A column cannot be encoded.
fn encode(group: RowGroup, spec: &FileSpec, encoding: &RowGroupEncoding) -> Encoded {
    let group = match &spec.packing {
        Some(packing) => group.pack(packing),
        None => group,
    };
    let totals = group.totals.clone();
    let encoded = match encoding {
        RowGroupEncoding::Parquet(writers) => {
            EncodedRowGroup::Parquet(parquet_file::encode_columns(group, spec, writers)?)
        }
        RowGroupEncoding::Flat(width) => EncodedRowGroup::Flat(FlatRowGroup::new(&group, *width)),
    };
    Ok((totals, encoded))
}

/// Threads that encode row groups. All files of an output share them.
///
/// They are separate from the rayon pool of the caller: the writing thread waits for them, and may be the only one of
/// its pool.
#[derive(Debug)]
pub struct RowGroupEncoders {
    /// The queue of row groups; `None` while the threads are being ended.
    tasks: Option<Sender<EncodeTask>>,
    /// Joined when the value is dropped.
    threads: Vec<JoinHandle<()>>,
}

/// Encodes a row group and sends the result to its file.
type EncodeTask = Box<dyn FnOnce() + Send>;

impl RowGroupEncoders {
    /// Starts this number of threads, but at least one. Starts fewer if the system refuses some.
    ///
    /// # Errors
    /// The system refuses all of them.
    pub fn start(threads: usize) -> Result<Arc<RowGroupEncoders>> {
        let (tasks, queue) = unbounded::<EncodeTask>();
        let threads = spawn_up_to(threads.max(1), |_| {
            let queue = queue.clone();
            thread::Builder::new().spawn(move || queue.iter().for_each(|encode| encode()))
        })?;
        Ok(Arc::new(RowGroupEncoders { tasks: Some(tasks), threads }))
    }

    /// Number of row groups that can usefully be in progress: one per thread, and one that waits.
    fn max_in_progress(&self) -> usize {
        self.threads.len() + 1
    }

    /// Encodes on one of the threads. The receiver gets the result, or is disconnected if the thread panics.
    fn run(&self, encode: impl FnOnce() -> Encoded + Send + 'static) -> Receiver<Encoded> {
        let (reply, result) = bounded(1);
        // Nobody listens if the run has failed elsewhere.
        let task = Box::new(move || drop(reply.send(encode())));
        // If no thread is left, the task is dropped with its sender, and the receiver is disconnected.
        if let Some(tasks) = &self.tasks {
            drop(tasks.send(task));
        }
        result
    }
}

impl Drop for RowGroupEncoders {
    fn drop(&mut self) {
        self.tasks = None;
        for thread in self.threads.drain(..) {
            // The disconnected receiver has reported the panic.
            drop(thread.join());
        }
    }
}
