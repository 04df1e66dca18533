//! Decompresses text: all members, frames or streams of a file, one after the other.
//!
//! Decompression libraries often stop after the first member or frame, or ignore a missing end. Files on the web
//! often consist of many members, and a truncated file must be an error, so this module adds both where the library
//! lacks it. It also limits the memory of decompression windows, which a file declares and may choose as large as 2
//! GiB or more.
//!
//! | compression | members of a file | added here |
//! | --- | --- | --- |
//! | gzip | any number | members after the first, and zeros between and after them |
//! | zstd | any number of frames | the check of the first frame's window before memory is allocated |
//! | bzip2 | any number of streams | nothing |
//! | xz | any number of streams | a clear error if the window is too large |
//! | LZ4 | any number of frames | several frames, skippable frames, and an error for a truncated frame |

use std::io::{self, BufRead, BufReader, Read};
use std::mem;

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::GzDecoder;
use lz4_flex::frame::FrameDecoder;
use lzma_rust2::XzReader;

use super::beginning::{Begun, skippable};
use super::fault::Fault;
use super::listing::Compression;
use crate::base::int::{ByteCount, u64_to_usize};
use crate::error::{Error, ErrorKind, Result};

/// Bytes of a decompression window that is always allowed (128 MiB): the programs `zstd` and `xz` accept it by
/// default.
pub(super) const USUAL_WINDOW: u64 = 1 << 27;

/// The largest zstd window that its library decodes, as a power of two (2 GiB).
const LARGEST_WINDOW_LOG: u32 = 31;

/// Bytes of compressed data that are read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// The advice if a window is too large.
const LARGE_WINDOW: &str = "raise --memory, read fewer files at once (--threads 1), or decompress it with \
     its own program: `zstd -dc --long=31 FILE | tokenmill encode - --format jsonl …`";

/// The text of a compressed file. An empty file gives empty text, whatever compression its name says.
///
/// **Memory:** the window that the file declares, at most `limit` or [`USUAL_WINDOW`] bytes, whichever is larger.
///
/// # Errors
/// The first frame of zstd needs a window that is larger. Later frames, and xz, fail when they are read.
pub(super) fn decompressed<R: Read + Send + 'static>(
    raw: Begun<R>,
    compression: Compression,
    limit: u64,
    file: &str,
) -> Result<Box<dyn Read + Send>> {
    if raw.first().is_empty() {
        return Ok(Box::new(raw));
    }
    let limit = limit.max(USUAL_WINDOW);
    Ok(match compression {
        Compression::None => Box::new(raw),
        Compression::Gzip => Box::new(Members::Before(buffered(raw))),
        Compression::Zstd => {
            if let Some(window) = window_of(raw.first()).filter(|window| *window > limit) {
                let fault = Fault::Window {
                    file: file.to_owned(),
                    window: ByteCount(window),
                    limit: ByteCount(limit),
                };
                return Err(Error::new(ErrorKind::Memory, fault).with_help(LARGE_WINDOW));
            }
            let mut decoder =
                zstd::stream::read::Decoder::new(raw).map_err(|cause| Error::io("read", file, cause))?;
            let log = limit.ilog2().min(LARGEST_WINDOW_LOG);
            decoder.window_log_max(log).map_err(|cause| Error::io("read", file, cause))?;
            Box::new(Windowed {
                decoder,
                limit,
                is_too_large: |cause| cause.to_string().contains("too much memory"),
            })
        }
        Compression::Bzip2 => Box::new(MultiBzDecoder::new(buffered(raw))),
        Compression::Xz => {
            let kilobytes = u32::try_from(limit >> 10).unwrap_or(u32::MAX - 1);
            let decoder = XzReader::new_mem_limit(buffered(raw), true, kilobytes);
            Box::new(Windowed {
                decoder,
                limit,
                is_too_large: |cause| cause.kind() == io::ErrorKind::OutOfMemory,
            })
        }
        Compression::Lz4 => Box::new(Frames::Before(Watched { from: buffered(raw), met_end: false })),
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
struct Windowed<D> {
    decoder: D,
    /// Maximum bytes of a window, for the message.
    limit: u64,
    /// Whether an error of the decoder means that a window is too large.
    is_too_large: fn(&io::Error) -> bool,
}

impl<D: Read> Read for Windowed<D> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.decoder.read(into).map_err(|cause| {
            if !(self.is_too_large)(&cause) {
                return cause;
            }
            let fault = Fault::LaterWindow { limit: ByteCount(self.limit) };
            io::Error::other(Error::new(ErrorKind::Memory, fault).with_help(LARGE_WINDOW))
        })
    }
}

/// The text of a gzip file's members, one after the other. Zeros may follow a member, because tapes and file systems
/// pad blocks with them.
enum Members<R> {
    /// Before a member, or at the end of the file.
    Before(R),
    /// Within a member.
    Within(Box<GzDecoder<R>>),
    /// After the end of the file, or after an error.
    Ended,
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let is_at_end = match self {
                Members::Before(from) => from.fill_buf()?.is_empty(),
                Members::Within(member) => {
                    let read = member.read(into)?;
                    if read > 0 || into.is_empty() {
                        return Ok(read);
                    }
                    pass_zeros(member.get_mut())?;
                    false
                }
                Members::Ended => true,
            };
            *self = match mem::replace(self, Members::Ended) {
                _ if is_at_end => return Ok(0),
                Members::Before(from) => Members::Within(Box::new(GzDecoder::new(from))),
                Members::Within(member) => Members::Before(member.into_inner()),
                Members::Ended => Members::Ended,
            };
        }
    }
}

/// Skips zero bytes.
fn pass_zeros(from: &mut impl BufRead) -> io::Result<()> {
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
enum Frames<R: Read> {
    /// Before a frame, or at the end of the file.
    Before(Watched<R>),
    /// Within a frame.
    Within(Box<FrameDecoder<Watched<R>>>),
    /// After the end of the file, or after an error.
    Ended,
}

/// A reader that records whether it was read beyond its end. The LZ4 decoder treats the end of the data between two
/// blocks as the end of the frame, so this distinguishes a truncated frame from a complete one.
struct Watched<R> {
    from: R,
    /// Whether a read met the end.
    met_end: bool,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.met_end |= read == 0 && !into.is_empty();
        Ok(read)
    }
}

/// The error that the data ends within a frame.
fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it is cut off")
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            *self = match self {
                Frames::Before(from) => {
                    pass_skippable(&mut from.from)?;
                    let is_over = from.from.fill_buf()?.is_empty();
                    match mem::replace(self, Frames::Ended) {
                        Frames::Before(from) if !is_over => Frames::Within(Box::new(FrameDecoder::new(from))),
                        _ => return Ok(0),
                    }
                }
                Frames::Within(frame) => {
                    let read = frame.read(into)?;
                    if read > 0 || into.is_empty() {
                        return Ok(read);
                    }
                    if frame.get_ref().met_end {
                        return Err(cut_off());
                    }
                    match mem::replace(self, Frames::Ended) {
                        Frames::Within(frame) => Frames::Before(frame.into_inner()),
                        _ => return Ok(0),
                    }
                }
                Frames::Ended => return Ok(0),
            };
        }
    }
}

/// Skips skippable frames.
fn pass_skippable(from: &mut impl BufRead) -> io::Result<()> {
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
