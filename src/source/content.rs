//! Opens the files of a source: their text, which is decompressed, and the bytes of remote files. Detects files that
//! change meanwhile.
//!
//! A file's compression follows from its name, and its first bytes must agree with the name. A pipe's compression
//! follows from its first bytes alone.
//!
//! Decompression libraries often stop after the first member or frame, or ignore a missing end. Files on the web often
//! consist of many members, and a truncated file must be an error, so this module adds both where the library lacks it.
//! It also limits the memory of decompression windows, which a file declares and may choose as large as 2 GiB or more.
//!
//! | compression | members of a file | added here |
//! | --- | --- | --- |
//! | gzip | any number | members after the first, and zeros between and after them |
//! | zstd | any number of frames | the check of the first frame's window before memory is allocated |
//! | bzip2 | any number of streams | nothing |
//! | xz | any number of streams | a clear error if the window is too large |
//! | LZ4 | any number of frames | several frames, skippable frames, and an error for a truncated frame |
//!
//! Units are lists of byte ranges and row groups, which would be wrong for a changed file. So a file is checked before
//! each unit, after its last document, and when an error occurs: an error in a changed file is not bad input.

use std::fs::{self, File};
use std::io::ErrorKind::{NotADirectory, NotFound};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};
use std::{fmt, mem, thread};

use bytes::Bytes;
use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::GzDecoder;
use lz4_flex::frame::FrameDecoder;
use lzma_rust2::XzReader;

use super::error::changed;
use super::sniff::{self, PeekReader, skippable};
use super::{Compression, DEFAULT_WINDOW_BYTES, Format, RowRange, Stop};
use crate::base::int::{ByteCount, to_u64, u64_to_usize};
use crate::error::{Error, ErrorKind, Result};

/// A file of a source.
#[derive(Clone, Debug)]
pub(super) struct SourceFile {
    /// The path to open; for remote files, a path with the right extensions.
    pub(super) path: PathBuf,
    /// The name in messages and manifests.
    pub(super) name: String,
    /// The format, as requested or as the name shows.
    pub(super) format: Format,
    /// The compression that the name shows.
    pub(super) compression: Compression,
    /// Access to the bytes, if they are not at `path`.
    pub(super) remote: Option<Arc<dyn RangeRead>>,
}

/// The bytes of a range of a local file, as stored, not decompressed. Ranges other than of bytes give the whole file.
///
/// # Errors
/// The file cannot be opened.
pub(super) fn raw(path: &Path, range: RowRange) -> io::Result<io::Take<File>> {
    let mut file = File::open(path)?;
    let bytes = match range {
        RowRange::Bytes(from, to) => {
            file.seek(SeekFrom::Start(from))?;
            to.saturating_sub(from)
        }
        _ => u64::MAX,
    };
    Ok(file.take(bytes))
}

/// The text of a range of a file, decompressed. The first bytes of a local file were checked when it was listed;
/// those of a remote file are checked here. Windows of compressed text have at most `window` bytes.
///
/// # Errors
/// The file cannot be read; or its content is not text, or not compressed as its name says.
pub(super) fn text(file: &SourceFile, range: RowRange, window: u64) -> Result<Box<dyn Read + Send>> {
    let SourceFile { path, name, compression, remote, .. } = file;
    if let Some(remote) = remote {
        let raw = sniff::check(SequentialReader::new(Arc::clone(remote)), name, *compression)?;
        return unpacked(raw, *compression, window, name);
    }
    let raw = raw(path, range).map_err(|cause| Error::io("read", name, cause))?;
    match (range, compression) {
        (RowRange::Bytes(from, to), _) => {
            Ok(Box::new(ExactLength { left: to.saturating_sub(from), from: raw }))
        }
        (_, Compression::None) => Ok(Box::new(raw)),
        _ => unpacked(PeekReader::new(raw), *compression, window, name),
    }
}

/// The text of data from a pipe, decompressed as its first bytes indicate.
///
/// # Errors
/// The data is not text, or is compressed in an unsupported way.
pub(super) fn text_of_pipe(
    pipe: impl Read + Send + 'static,
    window: u64,
    name: &str,
) -> Result<Box<dyn Read + Send>> {
    let raw = sniff::pipe_error(pipe, name)?;
    let compression = match raw.known() {
        Some(known) => known.compression.ok_or_else(|| known.pipe_error(name))?,
        None => Compression::None,
    };
    unpacked(raw, compression, window, name)
}

/// Decompresses data. Its first bytes must agree with `compression`.
///
/// # Errors
/// The decompressed data is not text.
pub(super) fn unpacked<R: Read + Send + 'static>(
    raw: PeekReader<R>,
    compression: Compression,
    window: u64,
    name: &str,
) -> Result<Box<dyn Read + Send>> {
    if compression == Compression::None {
        return Ok(Box::new(raw));
    }
    // Reading ahead keeps an error of decompression until it is read again: there may be text before it.
    let text = PeekReader::new(decompressed(raw, compression, window, name)?);
    match text.known() {
        Some(known) => Err(known.compressed_error(name)),
        None => Ok(Box::new(text)),
    }
}

/// A reader that fails if the data ends before the expected length: then the file was truncated after it was listed.
struct ExactLength<R> {
    /// Number of bytes that must still come.
    left: u64,
    /// The data.
    from: R,
}

impl<R: Read> Read for ExactLength<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        if read == 0 && self.left > 0 && !into.is_empty() {
            let problem = "the file has become shorter since it was listed";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, problem));
        }
        self.left = self.left.saturating_sub(to_u64(read));
        Ok(read)
    }
}

/// The largest zstd window that its library decodes, as a power of two (2 GiB).
const LARGEST_WINDOW_LOG: u32 = 31;

/// Bytes of compressed data that are read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// The advice if a window is too large.
const LARGE_WINDOW: &str = "raise --memory, read fewer files at once (--threads 1), or decompress it with \
     its own program: `zstd -dc --long=31 FILE | tokenmill encode - --format jsonl …`";

/// The text of a compressed file. An empty file gives empty text, whatever compression its name says.
///
/// **Memory:** the window that the file declares, at most `limit` or [`DEFAULT_WINDOW_BYTES`] bytes, whichever is
/// larger.
///
/// # Errors
/// The first frame of zstd needs a window that is larger. Later frames, and xz, fail when they are read.
pub(super) fn decompressed<R: Read + Send + 'static>(
    raw: PeekReader<R>,
    compression: Compression,
    limit: u64,
    file: &str,
) -> Result<Box<dyn Read + Send>> {
    if raw.first().is_empty() {
        return Ok(Box::new(raw));
    }
    let limit = limit.max(DEFAULT_WINDOW_BYTES);
    Ok(match compression {
        Compression::None => Box::new(raw),
        Compression::Gzip => Box::new(GzipMembers::Before(buffered(raw))),
        Compression::Zstd => {
            if let Some(window) = window_of(raw.first()).filter(|window| *window > limit) {
                let (window, limit) = (ByteCount(window), ByteCount(limit));
                let problem =
                    format!("{file} is compressed with a window of {window}, and the limit is {limit}");
                return Err(Error::message(ErrorKind::Memory, problem).with_help(LARGE_WINDOW));
            }
            let mut decoder =
                zstd::stream::read::Decoder::new(raw).map_err(|cause| Error::io("read", file, cause))?;
            let log = limit.ilog2().min(LARGEST_WINDOW_LOG);
            decoder.window_log_max(log).map_err(|cause| Error::io("read", file, cause))?;
            Box::new(WindowLimited {
                decoder,
                limit,
                is_too_large: |cause| cause.to_string().contains("too much memory"),
            })
        }
        Compression::Bzip2 => Box::new(MultiBzDecoder::new(buffered(raw))),
        Compression::Xz => {
            let kilobytes = u32::try_from(limit >> 10).unwrap_or(u32::MAX - 1);
            let decoder = XzReader::new_mem_limit(buffered(raw), true, kilobytes);
            Box::new(WindowLimited {
                decoder,
                limit,
                is_too_large: |cause| cause.kind() == io::ErrorKind::OutOfMemory,
            })
        }
        Compression::Lz4 => {
            Box::new(Lz4Frames::Before(EndDetector { from: buffered(raw), reached_end: false }))
        }
    })
}

/// Buffers compressed data for decoders that read in small steps.
fn buffered<R: Read>(raw: R) -> BufReader<R> {
    BufReader::with_capacity(BUFFER_BYTES, raw)
}

/// The window size in bytes that the first zstd frame with data declares, if the frame's header is among the first
/// bytes (RFC 8878, section 3.1.1.1).
fn window_of(first: &[u8]) -> Option<u64> {
    let mut frame = first;
    while let Some(length) = skippable(frame) {
        frame = frame.get(u64_to_usize(length.saturating_add(8))..)?;
    }
    let [0x28, 0xb5, 0x2f, 0xfd, descriptor, rest @ ..] = frame else { return None };
    if descriptor & 0x20 == 0 {
        let window = *rest.first()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // The content is a single segment; the window is as large as the content.
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = rest.get(dictionary..)?;
    Some(match descriptor >> 6 {
        0 => u64::from(*size.first()?),
        1 => u64::from(u16::from_le_bytes(*size.first_chunk()?)) + 256,
        2 => u64::from(u32::from_le_bytes(*size.first_chunk()?)),
        _ => u64::from_le_bytes(*size.first_chunk()?),
    })
}

/// A decoder that reports a clear error if a later frame or block needs a larger window than the first.
struct WindowLimited<D> {
    /// The decoder, which has the same limit.
    decoder: D,
    /// Maximum bytes of a window, for the message.
    limit: u64,
    /// Whether an error of the decoder means that a window is too large.
    is_too_large: fn(&io::Error) -> bool,
}

impl<D: Read> Read for WindowLimited<D> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.decoder.read(into).map_err(|cause| {
            if !(self.is_too_large)(&cause) {
                return cause;
            }
            let limit = ByteCount(self.limit);
            let problem = format!("it is compressed with a larger window than the limit of {limit}");
            io::Error::other(Error::message(ErrorKind::Memory, problem).with_help(LARGE_WINDOW))
        })
    }
}

/// The text of a gzip file's members, one after the other. Zeros may follow a member, because tapes and file systems
/// pad blocks with them.
enum GzipMembers<R> {
    /// Before a member, or at the end of the file.
    Before(R),
    /// Within a member.
    Within(Box<GzDecoder<R>>),
    /// After the end of the file, or after an error.
    Ended,
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let is_at_end = match self {
                GzipMembers::Before(from) => from.fill_buf()?.is_empty(),
                GzipMembers::Within(member) => {
                    let read = member.read(into)?;
                    if read > 0 || into.is_empty() {
                        return Ok(read);
                    }
                    skip_zeros(member.get_mut())?;
                    false
                }
                GzipMembers::Ended => true,
            };
            *self = match mem::replace(self, GzipMembers::Ended) {
                _ if is_at_end => return Ok(0),
                GzipMembers::Before(from) => GzipMembers::Within(Box::new(GzDecoder::new(from))),
                GzipMembers::Within(member) => GzipMembers::Before(member.into_inner()),
                GzipMembers::Ended => GzipMembers::Ended,
            };
        }
    }
}

/// Skips zero bytes.
///
/// # Errors
/// The data cannot be read.
fn skip_zeros(from: &mut impl BufRead) -> io::Result<()> {
    loop {
        let block = from.fill_buf()?;
        let zeros = block.iter().take_while(|byte| **byte == 0).count();
        let is_over = zeros < block.len() || block.is_empty();
        from.consume(zeros);
        if is_over {
            return Ok(());
        }
    }
}

/// The text of an LZ4 file's frames, one after the other. Skippable frames are passed over.
enum Lz4Frames<R: Read> {
    /// Before a frame, or at the end of the file.
    Before(EndDetector<R>),
    /// Within a frame.
    Within(Box<FrameDecoder<EndDetector<R>>>),
    /// After the end of the file, or after an error.
    Ended,
}

/// A reader that records whether it was read beyond its end. The LZ4 decoder treats the end of the data between two
/// blocks as the end of the frame, so this distinguishes a truncated frame from a complete one.
struct EndDetector<R> {
    /// The compressed data.
    from: R,
    /// Whether a read met the end.
    reached_end: bool,
}

impl<R: Read> Read for EndDetector<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.reached_end |= read == 0 && !into.is_empty();
        Ok(read)
    }
}

/// The error that the data ends within a frame.
fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it is cut off")
}

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            *self = match self {
                Lz4Frames::Before(from) => {
                    skip_skippable(&mut from.from)?;
                    let is_over = from.from.fill_buf()?.is_empty();
                    match mem::replace(self, Lz4Frames::Ended) {
                        Lz4Frames::Before(from) if !is_over => {
                            Lz4Frames::Within(Box::new(FrameDecoder::new(from)))
                        }
                        _ => return Ok(0),
                    }
                }
                Lz4Frames::Within(frame) => {
                    let read = frame.read(into)?;
                    if read > 0 || into.is_empty() {
                        return Ok(read);
                    }
                    if frame.get_ref().reached_end {
                        return Err(cut_off());
                    }
                    match mem::replace(self, Lz4Frames::Ended) {
                        Lz4Frames::Within(frame) => Lz4Frames::Before(frame.into_inner()),
                        _ => return Ok(0),
                    }
                }
                Lz4Frames::Ended => return Ok(0),
            };
        }
    }
}

/// Skips skippable frames.
///
/// # Errors
/// The data cannot be read, ends within a frame, or holds no frame.
fn skip_skippable(from: &mut impl BufRead) -> io::Result<()> {
    /// Bytes of a skippable frame's header.
    const HEAD: usize = 8;
    loop {
        // The first byte suffices: a frame with data begins with another one.
        if !matches!(from.fill_buf()?.first(), Some(0x50..=0x5f)) {
            return Ok(());
        }
        let mut head = [0; HEAD];
        from.read_exact(&mut head)?;
        let length = skippable(&head).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "the data after a frame is not an LZ4 frame")
        })?;
        if io::copy(&mut from.by_ref().take(length), &mut io::sink())? < length {
            return Err(cut_off());
        }
    }
}

/// Bytes that are read from a pipe at once.
const BLOCK_BYTES: usize = 64 << 10;

/// Number of blocks that may wait to be taken.
const BLOCKS_AHEAD: usize = 16;

/// Time to wait for data before checking whether to stop.
const WHILE: Duration = Duration::from_millis(200);

/// A named pipe. It is opened when it is first read, so that listing it consumes nothing; and only once, because data
/// that is written to a pipe without a reader is lost. Opening waits for a writer, and reading waits for data, so a
/// separate thread does both. Nobody waits for this thread if the run is to stop.
pub(super) struct Pipe {
    /// The name of the pipe.
    path: PathBuf,
    /// The blocks that the reading thread sends, if it has been started.
    blocks: Option<Receiver<io::Result<Vec<u8>>>>,
    /// The block that is being given out.
    block: io::Cursor<Vec<u8>>,
    /// Returns whether to stop waiting.
    stop: Stop,
}

impl Pipe {
    /// A pipe that is not opened yet. `stop` is asked while nothing arrives.
    pub(super) fn new(path: PathBuf, stop: Stop) -> Pipe {
        Pipe { path, blocks: None, block: io::Cursor::default(), stop }
    }
}

/// Starts the reading thread.
///
/// # Errors
/// The thread cannot be started.
fn begin(path: PathBuf) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    let (send, blocks) = sync_channel(BLOCKS_AHEAD);
    thread::Builder::new().spawn(move || {
        if let Err(cause) = read(path, &send) {
            // If the run has ended, nobody receives this.
            let _ = send.send(Err(cause));
        }
    })?;
    Ok(blocks)
}

/// Sends the data of the pipe block by block until it ends or nobody receives.
fn read(path: PathBuf, send: &SyncSender<io::Result<Vec<u8>>>) -> io::Result<()> {
    let mut pipe = File::open(path)?;
    loop {
        let mut block = vec![0; BLOCK_BYTES];
        let length = pipe.read(&mut block)?;
        block.truncate(length);
        if length == 0 || send.send(Ok(block)).is_err() {
            return Ok(());
        }
    }
}

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let blocks = match self.blocks.take() {
            Some(blocks) => blocks,
            None => begin(self.path.clone())?,
        };
        let blocks = self.blocks.insert(blocks);
        loop {
            let length = self.block.read(into)?;
            if length > 0 || into.is_empty() {
                return Ok(length);
            }
            match blocks.recv_timeout(WHILE) {
                Ok(block) => self.block = io::Cursor::new(block?),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
                Err(RecvTimeoutError::Timeout) if (self.stop)() => {
                    return Err(io::Error::other(Error::interrupted()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// A remote file.
pub(super) trait RangeRead: fmt::Debug + Send + Sync {
    /// The size of the file in bytes.
    fn bytes(&self) -> u64;

    /// The `length` bytes from the offset `start` on. They must lie within the file.
    ///
    /// # Errors
    /// The bytes cannot be read, or the file is no longer the one that was listed.
    fn range(&self, start: u64, length: usize) -> Result<Bytes>;
}

/// Bytes that are fetched at once when a whole file is read in order (8 MiB).
const SEQUENTIAL_BYTES: u64 = 8 << 20;

/// Reads a remote file from beginning to end, one block at a time.
pub(super) struct SequentialReader {
    /// The remote file.
    file: Arc<dyn RangeRead>,
    /// Offset of the next block.
    next: u64,
    /// The rest of the current block.
    block: Bytes,
}

impl SequentialReader {
    /// Starts at the beginning of the file.
    pub(super) fn new(file: Arc<dyn RangeRead>) -> SequentialReader {
        SequentialReader { file, next: 0, block: Bytes::new() }
    }
}

impl Read for SequentialReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.block.is_empty() {
            let length = (self.file.bytes() - self.next).min(SEQUENTIAL_BYTES);
            if length == 0 {
                return Ok(0);
            }
            self.block = self.file.range(self.next, u64_to_usize(length)).map_err(io::Error::other)?;
            self.next += length;
        }
        let read = self.block.len().min(into.len());
        into[..read].copy_from_slice(&self.block.split_to(read));
        Ok(read)
    }
}

/// Detects whether a local file is still the one that was listed, by its size, modification time and the target of
/// its links. Remote files have entity tags for this.
#[derive(Debug)]
pub(super) struct FileWatch {
    /// The path that was listed, which may be a link.
    path: PathBuf,
    /// The name in messages.
    pub(super) name: String,
    /// The state when the file was listed; `None` if it could not be determined or the file is remote.
    listed: Option<FileState>,
}

/// The state of a file that shows changes.
#[derive(Debug, PartialEq, Eq)]
struct FileState {
    /// Size in bytes.
    bytes: u64,
    /// Modification time, if the file system has one.
    modified: Option<SystemTime>,
    /// The path with links resolved.
    target: PathBuf,
}

impl FileWatch {
    /// Records the current state of a file.
    pub(super) fn new(file: &SourceFile) -> FileWatch {
        let listed = file.remote.is_none().then(|| file_state(&file.path).ok().flatten()).flatten();
        FileWatch { path: file.path.clone(), name: file.name.clone(), listed }
    }

    /// The size of the file when it was listed; 0 if it is not known.
    pub(super) fn bytes(&self) -> u64 {
        self.listed.as_ref().map_or(0, |listed| listed.bytes)
    }

    /// Compares the file with its recorded state. Does not open it: if a pipe has replaced it, opening would block.
    ///
    /// # Errors
    /// The file is no longer the one that was listed, or cannot be examined.
    pub(super) fn check(&self) -> Result<()> {
        let Some(listed) = &self.listed else { return Ok(()) };
        match file_state(&self.path) {
            Ok(now) if now.as_ref() == Some(listed) => Ok(()),
            Ok(_) => Err(changed(&self.name)),
            Err(cause) if matches!(cause.kind(), NotFound | NotADirectory) => Err(changed(&self.name)),
            Err(cause) => Err(Error::io("read", &self.path, cause)),
        }
    }
}

/// The state of a regular file; `None` for anything else.
///
/// # Errors
/// The path does not exist or cannot be examined.
fn file_state(path: &Path) -> io::Result<Option<FileState>> {
    let found = fs::metadata(path)?;
    let file_state = |target| FileState { bytes: found.len(), modified: found.modified().ok(), target };
    found.is_file().then(|| fs::canonicalize(path).map(file_state)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window size follows from the frame header in all its forms: descriptor, single segment, 1 to 8 bytes of
    /// size.
    #[test]
    fn the_window_of_a_frame_is_read_from_its_head() {
        let cases: [(&[u8], Option<u64>); 9] = [
            (b"\x28\xb5\x2f\xfd\x04\xa8", Some(1 << 31)),
            (b"\x28\xb5\x2f\xfd\x04\xa9", Some((1 << 31) + (1 << 28))),
            (b"\x28\xb5\x2f\xfd\x20\x05", Some(5)),
            (b"\x28\xb5\x2f\xfd\x60\x01\x00", Some(257)),
            (b"\x28\xb5\x2f\xfd\xa1\x07\0\0\0\x10", Some(1 << 28)),
            (b"\x28\xb5\x2f\xfd\xe0\0\0\0\0\x01\0\0\0", Some(1 << 32)),
            (b"\x50\x2a\x4d\x18\x02\0\0\0ab\x28\xb5\x2f\xfd\0\x50", Some(1 << 20)),
            (b"\x50\x2a\x4d\x18\xff\xff\0\0ab", None),
            (b"\x28\xb5\x2f\xfd", None),
        ];
        for (first, window) in cases {
            assert_eq!(window_of(first), window, "{first:?}");
        }
    }
}
